//! Pushes into a repository whose files are broken.

use std::path::Path;
use std::process::Command;

use packrace_server::engine::Committer;
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

use super::breaking::{Broken, Fault, file};
use super::clients::{At, Got, Server};
use super::{main_of, recovers};

/// What a push needs is broken: it is refused, through both doors, and changes nothing. Where the file is whole again, the
/// same push goes through.
#[test]
fn a_push_into_a_broken_repository_is_refused_and_changes_nothing() {
    let server = Server::with(|settings| {
        settings.pushing.is_allowed = true;
        settings.pushing.committer =
            Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec()));
    });
    let repo = server.path("a.git");
    RepoBuilder::new(Size::Tiny).build_at(&repo, Git::stock());
    RepoBuilder::new(Size::Tiny).build_at(&server.path("well.git"), Git::stock());
    let main = main_of(&repo);
    let well = server.clone(At::Git, "well.git", &main);
    assert!(matches!(well, Got::Whole(_)));
    // Who pushes has all of it, and a commit that changes a file.
    let other = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| Git::stock().run(other.path(), args);
    git(&["clone", "-q", "--no-local", repo.to_str().unwrap(), "."]);
    let changed = git(&["ls-files"]).lines().next().unwrap().to_owned();
    std::fs::write(other.path().join(&changed), "changed").unwrap();
    git(&["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "changed"]);
    let push = |at: At, name: &str| {
        let address = match at {
            At::Git => format!("git://{}/a.git", server.git),
            At::Http => format!("http://{}/a.git", server.http),
        };
        let mut command = Command::new("git");
        clean_environment(&mut command);
        let refspec = format!("main:refs/heads/{name}");
        let output = command.arg("-C").arg(other.path()).args(["push", "-q", &address, &refspec]).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
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
