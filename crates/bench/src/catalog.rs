//! All work, by suite.

use std::path::{Path, PathBuf};

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, RefFormat, Size};

use crate::args::{Args, Suite};
use crate::prepare::Scratch;
use crate::work::{Check, How, Work, clone_request, fetch_request, needed_objects};
use crate::{add, commands, filters, packs, push, refs, stash, take};

/// Prepares the repositories and requests of all suites.
pub fn all(args: &Args, git: &Git, scratch: &Scratch) -> std::io::Result<Vec<Work>> {
    let history = match args.needs_no_history() {
        true => PathBuf::new(),
        false => history(args, scratch)?,
    };
    let mut work = Vec::new();
    for item in &args.items {
        match item {
            Suite::Clone => work.extend(clones(git, scratch, &history)?),
            Suite::Fetch => work.extend(fetches(git, scratch, &history)?),
            Suite::Filter => work.extend(filters::all(git, scratch, &history)?),
            Suite::LsRefs => {
                work.extend(listings(git, scratch, args.refs, &[ListedRefs::All, ListedRefs::One])?)
            }
            Suite::Refs => {
                work.extend(refs::creating(git, scratch, args.smoke)?);
                if !args.items.contains(&Suite::LsRefs) {
                    work.extend(listings(git, scratch, args.refs, &[ListedRefs::One])?);
                }
            }
            Suite::PackObjects => work.extend(commands::packing(git, scratch, &history)?),
            Suite::Repack => work.extend(commands::repacking(scratch, &history)?),
            Suite::IndexPack => work.extend(take::indexing(scratch, &history)?),
            Suite::Unpack => work.extend(take::unpacking(git, scratch, args.smoke)?),
            Suite::Push => work.extend(push::all(git, scratch, &history, args.smoke)?),
            Suite::Add => work.extend(add::all(scratch, args.smoke)?),
            Suite::Stash => work.extend(stash::all(git, scratch, args.smoke)?),
            Suite::Packs => work.extend(packs::all(args, git, scratch, &history)?),
            Suite::Receive => work.push(receiving(scratch, &history)?),
            Suite::Crowds
            | Suite::Latency
            | Suite::Waiting
            | Suite::Door
            | Suite::Events
            | Suite::Embedded
            | Suite::Nodes
            | Suite::Care
            | Suite::Soak
            | Suite::Siege => {}
        }
    }
    Ok(work)
}

/// The repository for clones and fetches.
pub fn history(args: &Args, scratch: &Scratch) -> std::io::Result<PathBuf> {
    match &args.repo {
        Some(repo) => Ok(repo.clone()),
        None => scratch.built(if args.smoke { Size::Small } else { Size::Medium }),
    }
}

fn clones(git: &Git, scratch: &Scratch, history: &Path) -> std::io::Result<[Work; 3]> {
    let clone = |name: &str, repo: PathBuf| Work {
        name: name.to_string(),
        how: How::UploadPack,
        request: clone_request(git, &repo),
        repo,
        check: Check::SamePack,
        bytes_of: None,
    };
    Ok([
        clone("P1 clone, bitmap", scratch.with_bitmap(history)?),
        clone("P1b clone, bitmap and one commit", scratch.with_bitmap_and_more(history)?),
        clone("P2 clone, no bitmap", scratch.plain(history)?),
    ])
}

/// The server has a bitmap, so that the time is the client's.
fn receiving(scratch: &Scratch, history: &Path) -> std::io::Result<Work> {
    Ok(Work {
        name: "clone --bare, git://".to_string(),
        how: How::Receive,
        repo: scratch.with_bitmap(history)?,
        request: Vec::new(),
        check: Check::SameRepository,
        bytes_of: None,
    })
}

fn fetches(git: &Git, scratch: &Scratch, history: &Path) -> std::io::Result<Vec<Work>> {
    let plain = scratch.plain(history)?;
    let states = [
        ("P10", "no bitmap", plain.clone()),
        ("P10b", "bitmap", scratch.with_bitmap(history)?),
        ("P10c", "bitmap, well packed", scratch.well_packed(history)?),
    ];
    let commits = git.run(&plain, &["rev-list", "--first-parent", "HEAD"]);
    let commits: Vec<&str> = commits.lines().collect();
    let mut work = Vec::new();
    for count in [1, 100, 1000] {
        let Some(have) = commits.get(count) else {
            eprintln!("no fetch of {count} commits: HEAD has {}", commits.len());
            continue;
        };
        let needed = needed_objects(git, &plain, have);
        for (row, state, repo) in &states {
            work.push(Work {
                name: format!("{row} fetch {count}, {state}"),
                how: How::UploadPack,
                request: fetch_request(git, repo, &[commits[0]], &[have]),
                repo: repo.clone(),
                check: Check::Covers(needed.clone()),
                bytes_of: Some(format!("P10 fetch {count}, no bitmap")),
            });
        }
        // The same again, of a server that has kept the deltas.
        for (row, state, repo) in &states[1..] {
            let state = state.replacen("bitmap", "kept deltas", 1);
            work.push(Work {
                name: format!("{row} fetch {count}, {state}"),
                how: How::ServedKeepingDeltas,
                request: fetch_request(git, repo, &[commits[0]], &[have]),
                repo: repo.clone(),
                check: Check::Covers(needed.clone()),
                bytes_of: None,
            });
        }
    }
    Ok(work)
}

/// Which of the refs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListedRefs {
    All,
    One,
}

fn listings(git: &Git, scratch: &Scratch, count: usize, listed: &[ListedRefs]) -> std::io::Result<Vec<Work>> {
    let mut work = Vec::new();
    for (format, format_name) in [(RefFormat::Files, "packed-refs"), (RefFormat::Reftable, "reftable")] {
        if format == RefFormat::Reftable && !git.has_reftable() {
            eprintln!("no listing of a reftable: this git has none");
            continue;
        }
        let repo = scratch.with_tags(count, format)?;
        for listed in listed {
            let (what, prefix) = match listed {
                ListedRefs::All => ("all", None),
                ListedRefs::One => ("one", Some(format!("ref-prefix refs/tags/tag-{}", count - 1))),
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
                bytes_of: None,
            });
        }
    }
    Ok(work)
}
