//! What is measured: a request to a repository, how its answers are compared, and what is to be reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, RefFormat, Size};

use crate::add::{self, Add};
use crate::args::{Args, Item, SWARM};
use crate::prepare::Scratch;
use crate::push::{self, Pushes};
use crate::take::{self, Take};
use crate::{commands, refs, stash};

/// A figure to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most this much of git's CPU time.
    CpuRatio(f64),
    /// At most this much of git's wall time.
    WallRatio(f64),
    /// At most this long.
    WallSeconds(f64),
    /// At most this much of gix's wall time.
    WallRatioToGix(f64),
    /// At most so many write calls.
    WriteCalls(u64),
    /// At most so many writes of packs, as the file system counts them or else packrace.
    PackWrites(u64),
    /// At most so many calls that read from a place that they name.
    PositionedReads(u64),
    /// At most so many system calls.
    Calls(u64),
    /// At most so much anonymous memory.
    PeakBytes(u64),
    /// At most this much of the bytes that git sends; for fetches with a bitmap, of what it sends without one.
    BytesRatio(f64),
}

/// How answers are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Packs pass `git index-pack --strict` and have the same objects.
    SamePack,
    /// The same for packs that lack what a filter leaves out.
    SamePartialPack,
    /// Packs pass it and have at least these objects; a server may send more.
    Covers(BTreeSet<String>),
    /// The repositories hold the same objects afterwards, and stock git finds nothing wrong.
    SameRepository,
    /// The repositories have the same refs and reflogs afterwards.
    SameRefs,
    /// The same entries and trees in the index afterwards, and stock git finds all objects.
    SameIndex,
    /// The same refs and objects, and stock git finds nothing wrong.
    SameRefsAndObjects,
    /// The same packs with the same files beside them, byte by byte.
    SamePackFiles,
    /// What follows the advertisement is the same, byte by byte.
    SameBytes,
}

/// What runs, and how often at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// `upload-pack REPO`, over stdio.
    UploadPack,
    /// The same of a server that keeps running, over git://.
    Served,
    /// `clone --bare` from the same `git daemon`.
    Receive,
    /// Another command, which both programs have.
    Command {
        /// Its name and arguments.
        args: Vec<String>,
        /// Whether it changes the repository: then each run has a fresh copy, and its bytes are those of all packs.
        is_on_copy: bool,
    },
    /// Files added in a fresh copy of a work tree.
    Add(Add),
    /// A command that reads a pack, on a fresh copy.
    Take(Take),
    /// Pushes to a fresh copy.
    Push(Pushes),
}

/// One request.
#[derive(Clone)]
pub struct Work {
    /// Its name in the tables.
    pub name: String,
    /// What runs.
    pub how: How,
    /// The repository.
    pub repo: PathBuf,
    /// All that the client sends, or a command reads.
    pub request: Vec<u8>,
    /// How answers are checked.
    pub check: Check,
    /// What is to be reached.
    pub goals: Vec<Goal>,
    /// The work by whose bytes from git the bytes of this one are judged, if not by its own.
    pub bytes_of: Option<String>,
}

/// Prepares the repositories and requests of all items.
pub fn all(args: &Args, git: &Git, scratch: &Scratch) -> std::io::Result<Vec<Work>> {
    let needs_none = |item: &Item| {
        let by_others = [&SWARM[..], &[Item::Soak, Item::Siege]].concat();
        let made = [Item::LsRefs, Item::Refs, Item::Unpack, Item::Add, Item::Stash];
        by_others.contains(item) || made.contains(item)
    };
    let history = match args.items.iter().all(needs_none) {
        true => PathBuf::new(),
        false => history(args, scratch)?,
    };
    let mut work = Vec::new();
    for item in &args.items {
        match item {
            Item::Clone => work.extend(clones(git, scratch, &history)?),
            Item::Fetch => work.extend(fetches(git, scratch, &history)?),
            Item::Filter => work.extend(crate::filters::all(git, scratch, &history)?),
            Item::LsRefs => work.extend(listings(scratch, args.refs, &[Listed::All, Listed::One])?),
            Item::Refs => {
                work.extend(refs::creating(scratch, args.smoke)?);
                if !args.items.contains(&Item::LsRefs) {
                    work.extend(listings(scratch, args.refs, &[Listed::One])?);
                }
            }
            Item::PackObjects => work.extend(commands::packing(git, scratch, &history)?),
            Item::Repack => work.extend(commands::repacking(scratch, &history)?),
            Item::IndexPack => work.extend(take::indexing(scratch, &history)?),
            Item::Unpack => work.extend(take::unpacking(git, scratch)?),
            Item::Push => work.extend(push::all(git, scratch, &history, args.smoke)?),
            Item::Add => work.extend(add::all(scratch, args.smoke)?),
            Item::Stash => work.extend(stash::all(git, scratch)?),
            Item::Packs => work.extend(crate::packs::all(args, git, scratch, &history)?),
            Item::Receive => work.push(receiving(scratch, &history)?),
            Item::Crowds | Item::Latency | Item::Waiting | Item::Soak | Item::Siege => {}
        }
    }
    Ok(work)
}

/// The repository that is cloned and fetched from.
pub fn history(args: &Args, scratch: &Scratch) -> std::io::Result<PathBuf> {
    match &args.repo {
        Some(repo) => Ok(repo.clone()),
        None => scratch.built(if args.smoke { Size::Small } else { Size::Medium }),
    }
}

fn clones(git: &Git, scratch: &Scratch, history: &Path) -> std::io::Result<[Work; 2]> {
    let clone = |name: &str, repo: PathBuf, goals: Vec<Goal>| Work {
        name: name.to_string(),
        how: How::UploadPack,
        request: clone_request(git, &repo),
        repo,
        check: Check::SamePack,
        goals,
        bytes_of: None,
    };
    Ok([
        clone(
            "P1 clone, bitmap",
            scratch.with_bitmap(history)?,
            vec![Goal::CpuRatio(0.15), Goal::WriteCalls(400), Goal::BytesRatio(1.0)],
        ),
        clone(
            "P2 clone, no bitmap",
            scratch.plain(history)?,
            vec![
                Goal::CpuRatio(0.25),
                Goal::WallRatio(0.25),
                Goal::PeakBytes(200_000_000),
                Goal::BytesRatio(1.0),
            ],
        ),
    ])
}

/// The server finds its pack with a bitmap, so that the client is what takes the time.
fn receiving(scratch: &Scratch, history: &Path) -> std::io::Result<Work> {
    Ok(Work {
        name: "clone --bare, git://".to_string(),
        how: How::Receive,
        repo: scratch.with_bitmap(history)?,
        request: Vec::new(),
        check: Check::SameRepository,
        goals: vec![Goal::WallRatio(0.5), Goal::CpuRatio(0.5)],
        bytes_of: None,
    })
}

/// Everything that refs name is wanted, nothing is there.
pub fn clone_request(git: &Git, repo: &Path) -> Vec<u8> {
    let tips = tips(git, repo);
    let wants: Vec<&str> = tips.iter().map(String::as_str).collect();
    fetch_request(git, repo, &wants, &[])
}

/// All objects that refs name, each once.
pub fn tips(git: &Git, repo: &Path) -> Vec<String> {
    let tips = git.run(repo, &["for-each-ref", "--format=%(objectname)"]);
    let tips: BTreeSet<String> = tips.lines().map(str::to_string).collect();
    tips.into_iter().collect()
}

fn fetches(git: &Git, scratch: &Scratch, history: &Path) -> std::io::Result<Vec<Work>> {
    let plain = scratch.plain(history)?;
    let bitmap = scratch.with_bitmap(history)?;
    let commits = git.run(&plain, &["rev-list", "--first-parent", "HEAD"]);
    let commits: Vec<&str> = commits.lines().collect();
    let mut work = Vec::new();
    for count in [1, 100, 1000] {
        let Some(have) = commits.get(count) else {
            eprintln!("no fetch of {count} commits: HEAD has {}", commits.len());
            continue;
        };
        let needed = needed_objects(git, &plain, have);
        let names = [format!("P10 fetch {count}, no bitmap"), format!("P10b fetch {count}, bitmap")];
        let goals = [Goal::CpuRatio(0.3), Goal::CpuRatio(0.5)];
        for ((name, repo), cpu) in names.iter().zip([&plain, &bitmap]).zip(goals) {
            work.push(Work {
                name: name.clone(),
                how: How::UploadPack,
                request: fetch_request(git, repo, &[commits[0]], &[have]),
                repo: repo.clone(),
                check: Check::Covers(needed.clone()),
                goals: vec![cpu, Goal::BytesRatio(1.1)],
                bytes_of: Some(names[0].clone()),
            });
        }
    }
    Ok(work)
}

/// The objects that HEAD reaches and `have` does not.
pub fn needed_objects(git: &Git, repo: &Path, have: &str) -> BTreeSet<String> {
    let list =
        |args: &[&str]| git.run(repo, &[&["rev-list", "--objects", "--no-object-names"], args].concat());
    let there = list(&[have]);
    let there: BTreeSet<&str> = there.lines().collect();
    let new = list(&["HEAD", "--not", have]);
    new.lines().filter(|id| !there.contains(id)).map(str::to_string).collect()
}

pub fn fetch_request(git: &Git, repo: &Path, wants: &[&str], haves: &[&str]) -> Vec<u8> {
    let hash = git.run(repo, &["rev-parse", "--show-object-format"]);
    Script::new().fetch_v2(hash.trim(), wants, haves).flush().bytes().to_vec()
}

/// What of many refs is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    All,
    One,
}

fn listings(scratch: &Scratch, count: usize, listed: &[Listed]) -> std::io::Result<Vec<Work>> {
    let mut work = Vec::new();
    for (format, format_name) in [(RefFormat::Files, "packed-refs"), (RefFormat::Reftable, "reftable")] {
        let repo = scratch.with_tags(count, format)?;
        for listed in listed {
            let (what, prefix, goals) = match listed {
                Listed::All => {
                    ("all", None, vec![Goal::CpuRatio(0.25), Goal::WriteCalls(100), Goal::BytesRatio(1.0)])
                }
                Listed::One => {
                    let prefix = format!("ref-prefix refs/tags/tag-{}", count - 1);
                    ("one", Some(prefix), vec![Goal::WallSeconds(0.005), Goal::BytesRatio(1.0)])
                }
            };
            let mut script =
                Script::new().line("command=ls-refs").line("agent=bench").line("object-format=sha1");
            script = script.delim().line("peel").line("symrefs");
            if let Some(prefix) = prefix {
                script = script.line(&prefix);
            }
            work.push(Work {
                name: format!("P4 ls-refs {what} of {count}, {format_name}"),
                how: How::UploadPack,
                repo: repo.clone(),
                request: script.flush().flush().bytes().to_vec(),
                check: Check::SameBytes,
                goals,
                bytes_of: None,
            });
        }
    }
    Ok(work)
}
