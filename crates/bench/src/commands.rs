//! Commands that rewrite a repository, each in a fresh copy, and `pack-objects`, which writes to a pipe.

use std::io;
use std::path::{Path, PathBuf};

use packrace_testkit::Git;

use crate::prepare::Scratch;
use crate::work::{Check, How, Work, needed_objects};

/// Revisions on standard input, as upload-pack sends them for a clone and for a fetch.
pub fn packing(git: &Git, scratch: &Scratch, history: &Path) -> io::Result<Vec<Work>> {
    let repo = scratch.plain(history)?;
    let args = ["pack-objects", "-q", "--revs", "--stdout", "--delta-base-offset", "--thin"];
    let work = |name: &str, request: String, check| Work {
        name: name.to_string(),
        how: How::Command { args: args.map(str::to_string).to_vec(), is_on_copy: false },
        repo: repo.clone(),
        request: request.into_bytes(),
        check,
        bytes_of: None,
    };
    let tips = git.run(&repo, &["for-each-ref", "--format=%(objectname)"]);
    let mut all = vec![work("pack-objects --revs, all", tips, Check::SamePack)];
    let commits = git.run(&repo, &["rev-list", "--first-parent", "HEAD"]);
    if let Some(have) = commits.lines().nth(1000) {
        let needed = needed_objects(git, &repo, have);
        let check = Check::Covers(needed);
        all.push(work("pack-objects --revs, 1000", format!("HEAD\n^{have}\n"), check));
    }
    Ok(all)
}

/// Complete repacks, with bitmaps.
pub fn repacking(scratch: &Scratch, history: &Path) -> io::Result<Vec<Work>> {
    let (plain, bitmap) = (scratch.plain(history)?, scratch.with_bitmap(history)?);
    let work = |name: &str, args: &[&str], repo: &PathBuf| Work {
        name: name.to_string(),
        how: How::Command { args: args.iter().map(ToString::to_string).collect(), is_on_copy: true },
        repo: repo.clone(),
        request: Vec::new(),
        check: Check::SameRepository,
        bytes_of: None,
    };
    Ok(vec![
        work("P12 repack -adf", &["repack", "-adfq", "--window=10", "--depth=50"], &plain),
        work("repack -adb", &["repack", "-adbq"], &plain),
        work("repack -adb, has bitmap", &["repack", "-adbq"], &bitmap),
        work("multi-pack-index --bitmap", &["multi-pack-index", "write", "--bitmap"], &plain),
    ])
}
