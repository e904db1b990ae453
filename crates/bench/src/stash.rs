//! Stashes untracked files with `stash -u`: in a fresh copy for each run, with each sync method, as in git's
//! own `p0008-odb-fsync.sh`.

use std::io;
use std::path::Path;

use packrace_testkit::{Git, Random};

use crate::prepare::Scratch;
use crate::work::{Check, How, Work};

/// Number of files.
const FILES: usize = 500;

/// The same for smoke runs.
const A_FEW: usize = 50;

/// Lines per file.
const LINES: usize = 20;

/// The directory of the work tree, inside the repository's directory.
const TREE: &str = "tree";

/// Without syncing loose objects, as by default; with one sync per object; and with git's batched sync.
const METHODS: [(&str, &[&str]); 3] = [
    ("core.fsync default", &[]),
    ("fsync", &["-c", "core.fsync=loose-object,pack,reference", "-c", "core.fsyncMethod=fsync"]),
    ("batch", &["-c", "core.fsync=loose-object,pack,reference", "-c", "core.fsyncMethod=batch"]),
];

/// All sync methods.
pub fn all(git: &Git, scratch: &Scratch, is_smoke: bool) -> io::Result<Vec<Work>> {
    let count = if is_smoke { A_FEW } else { FILES };
    let repo = scratch.tree_within(TREE, |tree| fill(git, tree, count))?;
    let work = |(name, settings): (&str, &[&str])| {
        let words = ["-C", TREE].iter().chain(settings).chain(&["stash", "push", "-q", "-u"]);
        Work {
            name: format!("P8 stash -u, {count} files, {name}"),
            how: How::Command { args: words.map(ToString::to_string).collect(), is_on_copy: true },
            repo: repo.clone(),
            request: Vec::new(),
            check: Check::SameRefsAndObjects,
            bytes_of: None,
        }
    };
    Ok(METHODS.into_iter().map(work).collect())
}

/// Makes a commit, and the files to stash.
fn fill(git: &Git, tree: &Path, count: usize) -> io::Result<()> {
    let mut random = Random::new(9);
    let mut file = |name: &str| {
        let lines: String = (0..LINES).map(|_| format!("{}\n", random.line())).collect();
        std::fs::write(tree.join(name), lines)
    };
    file("known")?;
    git.run(tree, &["add", "known"]);
    git.run(tree, &["commit", "-qm", "first"]);
    std::fs::create_dir(tree.join("new"))?;
    (0..count).try_for_each(|number| file(&format!("new/{number}")))
}
