//! Measured work: a request to a repository, and how its answers are compared.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_testkit::Git;
use packrace_testkit::peer::Script;

use crate::measure::StdinFeed;

/// How to check answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Packs pass `git index-pack --strict` and have the same objects.
    SamePack,
    /// The same for packs without the objects that a filter omits.
    SamePartialPack,
    /// Packs pass it and have at least these objects; a server may send more.
    Covers(BTreeSet<String>),
    /// The repositories contain the same objects afterwards, and stock git finds no errors.
    SameRepository,
    /// The repositories have the same refs and reflogs afterwards.
    SameRefs,
    /// The same entries and trees in the index afterwards, and stock git finds all objects.
    SameIndex,
    /// The same refs and objects, and stock git finds no errors.
    SameRefsAndObjects,
    /// The same packs with the same files beside them, byte by byte.
    SamePackFiles,
    /// The bytes after the advertisement are the same.
    SameBytes,
}

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// `upload-pack REPO`, over stdio.
    UploadPack,
    /// The same with a running server, over git://, which makes each pack anew.
    Served,
    /// The same, but deltas of one pack may serve the next.
    ServedKeepingDeltas,
    /// `clone --bare` from the same `git daemon`.
    Receive,
    /// Another command that both programs have.
    Command {
        /// Its name and arguments.
        args: Vec<String>,
        /// Whether it changes the repository: then each run has a fresh copy, and its bytes are those of all
        /// packs.
        is_on_copy: bool,
    },
    /// Files added in a fresh copy of a work tree.
    Add(Add),
    /// A command that reads a pack, on a fresh copy.
    Take(Take),
    /// Pushes to a fresh copy.
    Push(Pushes),
}

/// How pushes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushTransport {
    /// As recorded requests, without a client.
    Recorded,
    /// From stock git, which starts the server's program.
    Stdio,
    /// From stock git over git://.
    Git,
    /// From stock git: to packrace over HTTP, to git's daemon over git://, because it has no HTTP.
    Http,
}

/// Many pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushes {
    /// The transport.
    pub transport: PushTransport,
    /// The repository with the commits to push.
    pub source: PathBuf,
    /// The number of concurrent clients.
    pub clients: usize,
}

/// A command that reads a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Options of git, the command's name and its arguments.
    pub args: Vec<String>,
    /// The pack.
    pub pack: PathBuf,
    /// How the pack is fed.
    pub feed: StdinFeed,
    /// Whether the repository is on a FUSE file system.
    pub is_mounted: bool,
}

/// The arguments for each program.
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
    /// What to run.
    pub how: How,
    /// The repository.
    pub repo: PathBuf,
    /// Everything that the client sends, or that a command reads.
    pub request: Vec<u8>,
    /// How to check answers.
    pub check: Check,
    /// The work whose bytes from git are the reference for this one's, if not its own.
    pub bytes_of: Option<String>,
}

/// A request for everything that refs point at, without haves.
pub fn clone_request(git: &Git, repo: &Path) -> Vec<u8> {
    let tips = tips(git, repo);
    let wants: Vec<&str> = tips.iter().map(String::as_str).collect();
    fetch_request(git, repo, &wants, &[])
}

/// All objects that refs point at, each once.
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
