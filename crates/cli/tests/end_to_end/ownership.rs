//! Repositories of other owners, and endless configuration: `upload-pack` and `receive-pack` print the same
//! as git.

use packrace_testkit::{Git, RepoBuilder, Size};

use crate::running::{packrace_with, stock_git_with};

#[test]
fn repositories_of_others_are_refused_as_by_git() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path().canonicalize().unwrap();
    RepoBuilder::new(Size::Tiny).build_at(&dir.join("r.git"), Git::stock());
    Git::stock().run(&dir, &["init", "-q", "tree"]);
    Git::stock().run(&dir, &["init", "-q", "--separate-git-dir=apart.git", "by-file"]);
    let whole = dir.join("r.git").display().to_string();
    let other = ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    let safe = |path: &str| format!("safe.directory={path}");
    let own = safe(&whole);
    let tree = safe(&dir.join("tree/.git").display().to_string());
    let top = safe(&dir.join("tree").display().to_string());
    let below = safe(&dir.join("*").display().to_string());
    for service in ["upload-pack", "receive-pack"] {
        for (name, value, is_fine) in [
            ("r.git", "a.b=c", false),
            (&whole, "a.b=c", false),
            ("r", "a.b=c", false),
            ("tree", "a.b=c", false),
            ("by-file", "a.b=c", false),
            ("none", "a.b=c", false),
            ("r.git", "safe.directory=*", true),
            ("r.git", "safe.directory=", false),
            ("r.git", "safe.directory=.", false),
            ("r.git", &own, true),
            ("tree", &tree, true),
            ("tree", &top, false),
            ("r.git", &below, true),
        ] {
            let arguments = ["-c", value, service, "--http-backend-info-refs", name];
            let [ours, gits] =
                [packrace_with, stock_git_with].map(|run| run(&dir, &arguments, b"", &[other]));
            let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(said(&ours), said(&gits), "{arguments:?}");
            assert_eq!(ours.status.code(), gits.status.code(), "{arguments:?}");
            assert_eq!(ours.status.success(), is_fine, "{arguments:?}: {}", said(&ours));
        }
        let arguments = [service, "--http-backend-info-refs", "r.git"];
        assert!(packrace_with(&dir, &arguments, b"", &[]).status.success());
    }
}

/// Root may use repositories of the user who called `sudo`; other users only their own.
#[test]
#[ignore = "needs root"]
fn sudo_and_real_owners() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    RepoBuilder::new(Size::Tiny).build_at(&dir.join("r.git"), Git::stock());
    std::os::unix::fs::chown(dir.join("r.git"), Some(1234), None).unwrap();
    for service in ["upload-pack", "receive-pack"] {
        let arguments = [service, "--http-backend-info-refs", "r.git"];
        for (variables, is_fine) in
            [(&[][..], false), (&[("SUDO_UID", "1234")], true), (&[("SUDO_UID", "77")], false)]
        {
            let [ours, gits] =
                [packrace_with, stock_git_with].map(|run| run(dir, &arguments, b"", variables));
            assert_eq!(ours.stderr, gits.stderr, "{variables:?}");
            assert_eq!((ours.status.code(), gits.status.success()), (gits.status.code(), is_fine));
        }
    }
}

/// Of a repository that is searched for, the work tree must be ours, too.
#[test]
#[ignore = "needs root"]
fn owners_of_what_a_search_finds() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path().canonicalize().unwrap();
    Git::stock().run(&dir, &["init", "-q", "tree"]);
    Git::stock().run(&dir, &["init", "-q", "--separate-git-dir=apart.git", "by-file"]);
    for foreign in ["tree", "tree/.git", "by-file", "by-file/.git", "apart.git"] {
        std::os::unix::fs::chown(dir.join(foreign), Some(1234), None).unwrap();
        for start in ["tree", "tree/.git/refs", "by-file", "apart.git"] {
            let arguments = ["-C", start, "for-each-ref"];
            let [ours, gits] = [packrace_with, stock_git_with].map(|run| run(&dir, &arguments, b"", &[]));
            let said = String::from_utf8_lossy(&ours.stderr).into_owned();
            assert_eq!(said, String::from_utf8_lossy(&gits.stderr), "{foreign}, {start}");
            assert_eq!(ours.status.code(), gits.status.code(), "{foreign}, {start}");
        }
        std::os::unix::fs::chown(dir.join(foreign), Some(packrace_os::process::effective_user()), None)
            .unwrap();
    }
}

#[test]
fn files_of_configuration_end() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    let status = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap();
    assert!(status.success());
    std::fs::create_dir(dir.join("folder")).unwrap();
    let check = |place: &str, include: &str, expect: &str| {
        let repo = tempfile::tempdir_in(dir).unwrap();
        Git::stock().run(repo.path(), &["init", "-q", "--bare", "."]);
        let setting = format!("include.path={include}");
        let arguments = ["upload-pack", "--http-backend-info-refs", "."];
        let output = match place {
            "own" => {
                Git::stock().run(repo.path(), &["config", "include.path", include]);
                packrace_with(repo.path(), &arguments, b"", &[])
            }
            _ => packrace_with(repo.path(), &[&["-c", setting.as_str()][..], &arguments].concat(), b"", &[]),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.trim_end(), expect, "{place} {include}");
        assert_eq!(output.status.code(), Some(if expect.is_empty() { 0 } else { 128 }));
    };
    let (pipe, folder) = (dir.join("pipe").display().to_string(), dir.join("folder").display().to_string());
    for place in ["own", "command"] {
        for path in ["/proc/self/pagemap", "/dev/zero", &pipe] {
            check(place, path, &format!("fatal: bad config line 1 in file {path}"));
        }
        let why = match place {
            "own" => "bad config line 6 in file ./config",
            _ => "unable to parse command-line config",
        };
        check(place, &folder, &format!("warning: unable to access '{folder}': Is a directory\nfatal: {why}"));
        check(place, "/no/such/file", "");
    }
    check("command", "a", "fatal: relative config includes must come from files");
    let round = "fatal: exceeded maximum include depth (10) while including\n\t./config\nfrom\n\t./config\nThis might be due to circular includes.";
    check("own", "config", round);
}
