//! Clones with filters. Only branches are wanted: if trees and blobs are also wanted by name, git omits some
//! that packrace sends.

use std::path::Path;

use packrace_testkit::Git;
use packrace_testkit::peer::Script;

use crate::prepare::Scratch;
use crate::work::{Check, How, Work};

/// Patterns that match about half of the paths of git/git, and of built histories.
const PATTERNS: &[u8] = b"*.c\n*.h\n!/t/\n/src/0?/\n";

/// The most common filters with and without a bitmap, and path filters, for which a bitmap does not help.
pub fn all(git: &Git, scratch: &Scratch, history: &Path) -> std::io::Result<Vec<Work>> {
    let mut work = Vec::new();
    for (name, repo) in [("bitmap", scratch.with_bitmap(history)?), ("no bitmap", scratch.plain(history)?)] {
        git.run(&repo, &["config", "uploadpack.allowFilter", "true"]);
        let patterns = git.run_with_input(&repo, &["hash-object", "-w", "--stdin"], PATTERNS);
        let sparse = format!("sparse:oid={}", String::from_utf8_lossy(&patterns).trim());
        for spec in ["blob:none", "blob:limit=10k", "tree:0", "tree:2", &sparse] {
            let kind = spec.split(if spec == sparse { '=' } else { '\0' }).next().unwrap_or(spec);
            work.push(Work {
                name: format!("clone {kind}, {name}"),
                request: request(git, &repo, spec),
                repo: repo.clone(),
                check: Check::SamePartialPack,
                how: How::UploadPack,
                bytes_of: None,
            });
        }
    }
    Ok(work)
}

fn request(git: &Git, repo: &Path, spec: &str) -> Vec<u8> {
    let hash = git.run(repo, &["rev-parse", "--show-object-format"]);
    let mut script = Script::new().line("command=fetch").line("agent=bench");
    script = script.line(&format!("object-format={}", hash.trim())).delim();
    for argument in ["thin-pack", "no-progress", "ofs-delta", &format!("filter {spec}")] {
        script = script.line(argument);
    }
    for tip in git.run(repo, &["for-each-ref", "--format=%(objectname)", "refs/heads"]).lines() {
        script = script.line(&format!("want {tip}"));
    }
    script.line("done").flush().flush().bytes().to_vec()
}
