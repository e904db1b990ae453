//! What is measured: a request to a repository, how its answers are compared, and what is to be reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_testkit::Git;
use packrace_testkit::peer::Script;

use crate::measure::StdinFeed;

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

/// How pushes come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushTransport {
    /// As recorded requests, without a client.
    Recorded,
    /// From stock git, which starts the server's program.
    Stdio,
    /// From stock git over git://.
    Git,
    /// From stock git over HTTP to packrace; to git's daemon over git://, for it knows no HTTP.
    Http,
}

/// Many pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushes {
    /// How they come.
    pub transport: PushTransport,
    /// The repository that has what is pushed.
    pub source: PathBuf,
    /// From so many clients at once.
    pub clients: usize,
}

/// A command that reads a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Options of git, the command's name and its arguments.
    pub args: Vec<String>,
    /// The pack.
    pub pack: PathBuf,
    /// How it comes.
    pub feed: StdinFeed,
    /// Whether the repository is on a FUSE file system.
    pub is_mounted: bool,
}

/// What each program is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// Arguments of git.
    pub git: Vec<String>,
    /// Arguments of packrace.
    pub ours: Vec<String>,
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
