//! `packrace-service` answers as `packrace` does, and leaves it what it has no code for.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

use crate::running::PACKRACE;

const SERVICE: &str = env!("CARGO_BIN_EXE_packrace-service");

fn run(program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    clean_environment(&mut command);
    command.args(args).output().unwrap()
}

#[test]
fn stock_git_clones_and_pushes() {
    let dir = packrace_testkit::scratch_dir();
    let git = Git::stock();
    let repo = dir.path().join("a.git");
    RepoBuilder::new(Size::Tiny).build_at(&repo, git);
    let url = repo.display().to_string();
    // By name, as sshd runs it, and with the command behind it.
    let link = |name: &str| {
        let link = dir.path().join(name);
        symlink(SERVICE, &link).unwrap();
        link.display().to_string()
    };
    let (upload, receive) = (link("git-upload-pack"), link("git-receive-pack"));
    for (version, upload) in [("0", upload.clone()), ("1", format!("{SERVICE} upload-pack")), ("2", upload)] {
        let protocol = format!("protocol.version={version}");
        let words = ["-c", &protocol, "clone", "-q", "--mirror", "--upload-pack", &upload, &url, version];
        git.run(dir.path(), &words);
        git.run(&dir.path().join(version), &["fsck", "--full", "--strict"]);
    }
    let clone = dir.path().join("2");
    for (name, receive) in [("one", receive), ("two", format!("{SERVICE} receive-pack"))] {
        let target = format!("HEAD:refs/heads/{name}");
        git.run(&clone, &["push", "-q", "--receive-pack", &receive, &url, &target]);
        let pushed = git.run(&repo, &["rev-parse", &format!("refs/heads/{name}")]);
        assert_eq!(pushed, git.run(&clone, &["rev-parse", "HEAD"]));
    }
}

/// Maintenance is one of the commands that it leaves to `packrace`.
#[test]
fn a_push_is_followed_by_maintenance() {
    let dir = packrace_testkit::scratch_dir();
    let git = Git::stock();
    git.run(dir.path(), &["init", "-q", "--bare", "a.git"]);
    let repo = dir.path().join("a.git");
    for (name, value) in [("receive.unpackLimit", "1"), ("gc.autoPackLimit", "2"), ("gc.autoDetach", "false")]
    {
        git.run(&repo, &["config", name, value]);
    }
    git.run(dir.path(), &["init", "-q", "work"]);
    let work = dir.path().join("work");
    let (program, url) = (format!("{SERVICE} receive-pack"), repo.display().to_string());
    // The third pack is one too many.
    for packs in [1, 2, 1] {
        git.run(&work, &["commit", "-q", "--allow-empty", "-m", "One"]);
        git.run(&work, &["push", "-q", "--receive-pack", &program, &url, "HEAD:refs/heads/main"]);
        let counts = git.run(&repo, &["count-objects", "-v"]);
        assert!(counts.lines().any(|line| line == format!("packs: {packs}")), "{packs}: {counts}");
    }
}

#[test]
fn everything_else_is_left_to_packrace() {
    let dir = packrace_testkit::scratch_dir();
    let repo = dir.path().join("a.git");
    RepoBuilder::new(Size::Tiny).build_at(&repo, Git::stock());
    let at = repo.to_str().unwrap();
    let check = |args: &[&str]| {
        let (ours, packrace) = (run(Path::new(SERVICE), args), run(Path::new(PACKRACE), args));
        assert_eq!(ours, packrace, "{args:?}");
        assert!(!(ours.stdout.is_empty() && ours.stderr.is_empty()), "{args:?}");
    };
    for args in [
        &["--version"][..],
        &["--help"],
        &["-C", at, "show-ref", "--heads"],
        &["upload-pack", "--help"],
        &["upload-pack", "-h"],
        &["upload-pack"],
        &["receive-pack"],
        &["upload-pack", "--bogus", at],
        &["upload-pack", "--advertise-refs", "/nowhere"],
        &["upload-pack", "--advertise-refs", at],
        &["--namespace=none", "receive-pack", "--http-backend-info-refs", at],
        &["--config-env=a.b", "upload-pack", at],
        &["--exec-path", "upload-pack", at],
        &["upload-pack", at, "-h"],
        &["bogus"],
        &[],
    ] {
        check(args);
    }
    // A link by the name of a command that it does not have.
    let link = dir.path().join("git-show-ref");
    symlink(SERVICE, &link).unwrap();
    let named = run(&link, &["--git-dir", at, "--bogus"]);
    assert_eq!(named, run(Path::new(PACKRACE), &["show-ref", "--git-dir", at, "--bogus"]));
}

#[test]
fn without_packrace() {
    let dir = packrace_testkit::scratch_dir();
    let alone = dir.path().join("packrace-service");
    packrace_testkit::copy_program(Path::new(SERVICE), &alone);
    let mut command = Command::new(&alone);
    clean_environment(&mut command);
    let ran = command.arg("show-ref").env("PATH", dir.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(128));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(said, "fatal: cannot run packrace: No such file or directory\n");
    // In PATH, it is found, and not taken for a link to the program itself.
    symlink(PACKRACE, dir.path().join("packrace")).unwrap();
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    symlink("git-upload-pack", dir.path().join("elsewhere/packrace")).unwrap();
    let other = dir.path().join("elsewhere/git-upload-pack");
    std::fs::rename(&alone, &other).unwrap();
    let mut command = Command::new(&other);
    clean_environment(&mut command);
    let ran = command.arg("--bogus").env("PATH", dir.path()).output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(129), 0));
    assert!(String::from_utf8_lossy(&ran.stderr).starts_with("error: unknown option `bogus'"));
}
