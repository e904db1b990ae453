//! Pushes into a repository whose files are broken.

use std::path::Path;

use packrace_server::receive::Committer;
use packrace_testkit::{Git, RepoBuilder, Size};
use tempfile::TempDir;

use super::breaking::{Broken, FAULTS, Fault, file};
use super::clients::{At, Got, Server};
use super::{damage_turn, main_of, recovers};

/// What a push needs is broken: it is refused, over both transports, and changes nothing. Where the file is whole again, the
/// same push goes through.
#[test]
fn a_push_into_a_broken_repository_is_refused_and_changes_nothing() {
    let _turn = damage_turn();
    let server = pushed_to();
    let repo = server.path("a.git");
    RepoBuilder::new(Size::Tiny).build_at(&repo, Git::stock());
    RepoBuilder::new(Size::Tiny).build_at(&server.path("well.git"), Git::stock());
    let main = main_of(&repo);
    let well = server.clone(At::Git, "well.git", &main);
    assert!(matches!(well, Got::Whole(_)));
    let other = ahead_of(&repo);
    let push = |at: At, name: &str| push(&server, at, "a.git", other.path(), name);
    let refs = || Git::stock().run(&repo, &["for-each-ref"]);
    let objects = || {
        let mut names = Vec::new();
        list(&repo.join("objects"), &mut names);
        names.sort();
        names
    };
    let before = (refs(), objects());
    let mut number = 0;
    for end in [".pack", ".idx"] {
        let path = file(&repo, "objects/pack", end);
        for fault in [Fault::Halved, Fault::Overwritten, Fault::Replaced, Fault::Unreadable] {
            let at = if number % 2 == 0 { At::Git } else { At::Http };
            number += 1;
            let what = format!("{end} {fault:?} {at:?}");
            // The repository is open.
            recovers(&what, || server.clone(at, "a.git", &main));
            let broken = Broken::new(&path, fault);
            let (is_pushed, said) = push(at, &format!("new-{number}"));
            assert!(!is_pushed && said.contains("! [remote rejected]"), "{what}: {said}");
            assert!(server.clone(at, "well.git", &main) == well, "{what}");
            broken.mend();
            assert_eq!((refs(), objects()), before, "{what}: {said}");
        }
    }
    recovers("a.git", || server.clone(At::Git, "a.git", &main));
    assert_eq!(push(At::Git, "new"), (true, String::new()));
    assert_eq!(push(At::Http, "newer"), (true, String::new()));
    Git::stock().run(&repo, &["fsck", "--strict"]);
}

/// `serve` runs stock git to bring a work tree up, which reads its index.
#[test]
fn a_push_to_a_work_tree_with_a_broken_index_changes_nothing() {
    let _turn = damage_turn();
    let server = pushed_to();
    let work = server.path("work");
    RepoBuilder::new(Size::Tiny).build_at(&server.path("a.git"), Git::stock());
    let git = |args: &[&str]| Git::stock().run(&work, args);
    Git::stock().run(&server.path(""), &["clone", "-q", "a.git", "work"]);
    git(&["config", "receive.denyCurrentBranch", "updateInstead"]);
    let other = ahead_of(&work);
    let (main, status) = (main_of(&work), git(&["status", "--porcelain"]));
    // Git does not look at an index's hash, which is what stands in its last bytes.
    let faults = FAULTS.into_iter().filter(|fault| *fault != Fault::Shortened);
    for (number, fault) in faults.enumerate() {
        let at = if number % 2 == 0 { At::Git } else { At::Http };
        let broken = Broken::new(&work.join(".git/index"), fault);
        let (is_pushed, said) = push(&server, at, "work", other.path(), "main");
        assert!(!is_pushed && said.contains("! [remote rejected]"), "{fault:?} {at:?}: {said}");
        broken.mend();
        assert_eq!(
            (main_of(&work), git(&["status", "--porcelain"])),
            (main.clone(), status.clone()),
            "{fault:?}"
        );
    }
    assert_eq!(push(&server, At::Http, "work", other.path(), "main"), (true, String::new()));
    assert_eq!(main_of(&work), main_of(other.path()));
    assert_eq!(git(&["status", "--porcelain"]), "");
}

fn pushed_to() -> Server {
    Server::with(|settings| {
        settings.pushing.is_allowed = true;
        settings.pushing.committer =
            Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec()));
    })
}

/// A clone with a commit on top, which changes a file.
fn ahead_of(repo: &Path) -> TempDir {
    let other = packrace_testkit::scratch_dir();
    let git = |args: &[&str]| Git::stock().run(other.path(), args);
    git(&["clone", "-q", "--no-local", repo.to_str().unwrap(), "."]);
    let changed = git(&["ls-files"]).lines().next().unwrap().to_owned();
    std::fs::write(other.path().join(&changed), "changed").unwrap();
    git(&["commit", "-qam", "changed"]);
    other
}

/// Stock git pushes what is checked out in `other`; whether it has come in, and what was said.
fn push(server: &Server, at: At, repo: &str, other: &Path, name: &str) -> (bool, String) {
    let address = match at {
        At::Git => format!("git://{}/{repo}", server.git),
        At::Http => format!("http://{}/{repo}", server.http),
    };
    let refspec = format!("main:refs/heads/{name}");
    let output = Git::stock().command(other).args(["push", "-q", &address, &refspec]).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The files below a folder.
fn list(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.display().to_string());
        if path.is_dir() {
            list(&path, names);
        }
    }
}
