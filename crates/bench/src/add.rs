//! Adds many small files to an empty index, each run in a fresh work tree: git with different sync settings,
//! beside packrace, which always waits until everything is durable.

use std::io;
use std::path::Path;

use crate::prepare::Scratch;
use crate::work::{Add, Check, How, Work};

/// Files per directory, as in git's own `p0008`.
const FILES_A_DIRECTORY: usize = 100;

/// git's sync settings, each with its name.
const WAITING: [(&str, &[&str]); 3] = [
    ("unsynced", &["core.fsync=none"]),
    ("fsync", &["core.fsync=all"]),
    ("batch", &["core.fsync=all", "core.fsyncMethod=batch"]),
];

/// packrace's settings: none, so it syncs everything.
const OURS: [&str; 0] = [];

/// A few and many files, for each of git's sync settings.
pub fn all(scratch: &Scratch, is_smoke: bool) -> io::Result<Vec<Work>> {
    let mut all = Vec::new();
    let counts = if is_smoke { [1, 5, 20, 150] } else { [1, 5, 500, 5_000] };
    for count in counts {
        let tree = scratch.work_tree(count, |place| fill(place, count))?;
        for (name, settings) in WAITING {
            all.push(Work {
                name: format!("P8 add {count} files, git {name}"),
                how: How::Add(Add { git: words(settings), ours: words(&OURS) }),
                repo: tree.clone(),
                request: Vec::new(),
                check: Check::SameIndex,
                bytes_of: None,
            });
        }
    }
    Ok(all)
}

fn words(settings: &[&str]) -> Vec<String> {
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    settings.chain(["add", "."]).map(str::to_string).collect()
}

fn fill(place: &Path, count: usize) -> io::Result<()> {
    for number in 0..count {
        let directory = place.join(format!("d{}", number / FILES_A_DIRECTORY));
        if number % FILES_A_DIRECTORY == 0 {
            std::fs::create_dir(&directory)?;
        }
        let line = format!("file {number} of a few lines\n");
        std::fs::write(directory.join(format!("f{number}")), line.repeat(number % 40 + 1))?;
    }
    Ok(())
}
