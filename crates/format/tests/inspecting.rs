//! The inspector of reftables, tried on tables that git has written.

use packrace_testkit::Git;

/// The example of the documentation.
#[allow(dead_code)]
#[path = "../examples/inspect_reftables.rs"]
mod inspect_reftables;

#[test]
fn it_shows_what_git_has_written() {
    let folder = packrace_testkit::scratch_dir();
    let repo = folder.path().join("a.git");
    let run = |args: &[&str]| Git::stock().run(&repo, args);
    let path = repo.display().to_string();
    Git::stock().run(folder.path(), &["init", "-q", "--bare", "--ref-format=reftable", "-b", "main", &path]);
    run(&["config", "core.logAllRefUpdates", "always"]);
    let tree = run(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = run(&["commit-tree", "-m", "first", tree.trim()]);
    let commit = commit.trim();
    run(&["update-ref", "-m", "made", "refs/heads/main", commit]);
    run(&["tag", "-a", "-m", "a tag", "v1", commit]);
    let tag = run(&["rev-parse", "refs/tags/v1"]);
    run(&["pack-refs"]);
    let mut out = Vec::new();
    inspect_reftables::inspect(&repo, &mut out).unwrap();
    let shown = String::from_utf8(out).unwrap();
    for line in [
        "HEAD -> refs/heads/main",
        &format!("refs/heads/main {commit}\n"),
        &format!("refs/tags/v1 {} (tag of {commit})\n", tag.trim()),
        &format!("refs/heads/main {}..{commit}", "0".repeat(40)),
        " made\n",
        "updates 1 to ",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
}
