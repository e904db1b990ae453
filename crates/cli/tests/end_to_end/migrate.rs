//! `packrace refs migrate`: converts refs and reflogs to another format, in which stock git reads the same.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::{Git, RefFormat};

use crate::ref_twins::{RefTwins, in_both_formats, state};
use crate::running::{copy, packrace, stock_git};

fn other(path: &Path) -> (&'static str, &'static str) {
    if path.join("reftable").exists() { ("files", "reftable") } else { ("reftable", "files") }
}

/// Runs it, and returns the exit code and both outputs.
fn migrate(path: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<&str> = ["refs", "migrate"].iter().chain(args).copied().collect();
    let output = packrace(path, &args, "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn done() -> (Option<i32>, String, String) {
    (Some(0), String::new(), String::new())
}

/// Checks that git finds nothing wrong.
fn verify(path: &Path) {
    let verified = stock_git(path, &["refs", "verify", "--strict"], "");
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
}

/// The names of files and directories, except objects.
fn names(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let found = entry.unwrap().path();
            names.push(found.strip_prefix(path).unwrap().display().to_string());
            if found.is_dir() && !found.ends_with("objects") {
                dirs.push(found);
            }
        }
    }
    names.sort();
    names
}

#[test]
fn git_reads_what_was_migrated() {
    in_both_formats(&[("core.logAllRefUpdates", "always")], |twins| {
        let path = twins.ours();
        let more =
            twins.filled("update refs/heads/a {e}\nupdate refs/bisect/bad {c}\nupdate ORIG_HEAD {d}\n");
        stock_git(&path, &["update-ref", "--stdin", "-m", "a longer reason"], &more);
        stock_git(&path, &["reflog", "expire", "--expire=all", "refs/heads/deep/er/one"], "");
        let config = path.join("config");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("; mine\n{text}# and mine\n")).unwrap();
        std::fs::set_permissions(&config, PermissionsExt::from_mode(0o600)).unwrap();
        let before = state(&path);
        assert!(
            before.contains("a longer reason") && before.contains("\nrefs/heads/deep/er/one\n"),
            "{before}"
        );
        let (to, from) = other(&path);
        for format in [to, from, to] {
            assert_eq!(migrate(&path, &["--ref-format", format]), done());
            assert_eq!(state(&path), before, "{format}");
            verify(&path);
            let is_table = format == "reftable";
            let text = std::fs::read_to_string(&config).unwrap();
            assert!(text.starts_with("; mine\n") && text.contains("# and mine\n"), "{text}");
            let mode = std::fs::metadata(&config).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{format}");
            let names = names(&path);
            let has = |name: &str| names.iter().any(|other| other == name);
            assert!(has("reftable") == is_table && has("packed-refs") != is_table && has("logs") != is_table);
            assert!(
                has("ORIG_HEAD") != is_table && has("refs/heads/a") != is_table || !is_table,
                "{names:?}"
            );
            assert!(!names.iter().any(|name| name.contains("ref_migration") || name.ends_with(".lock")));
        }
        // Later changes work in both.
        for number in 0..2 {
            let input = twins.filled(&format!("create refs/heads/more{number} {{c}}\ndelete refs/heads/a\n"));
            let input = if number == 0 { input } else { input.replace("delete refs/heads/a\n", "") };
            let args = ["update-ref", "--stdin"];
            let output =
                if number == 0 { stock_git(&path, &args, &input) } else { packrace(&path, &args, &input) };
            assert!(output.status.success(), "{output:?}");
            verify(&path);
        }
    });
}

#[test]
fn as_git_migrates() {
    // Git 2.47 migrates no reflogs.
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let twins = RefTwins::with(format, &[("core.logAllRefUpdates", "false")]);
        let to = other(&twins.ours()).0;
        for path in [twins.git(), twins.ours()] {
            if path.join("logs").exists() {
                std::fs::remove_dir_all(path.join("logs")).unwrap();
            }
        }
        twins.check(&["refs", "migrate", &format!("--ref-format={to}")], "");
        let config = |path: &Path| Git::stock().run(path, &["config", "--list", "--local"]);
        let sorted = |path: &Path| {
            let text = config(path).to_ascii_lowercase();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&twins.ours()), sorted(&twins.git()));
        let read = |path: &Path, name: &str| std::fs::read(path.join(name)).ok();
        assert_eq!(read(&twins.ours(), "HEAD"), read(&twins.git(), "HEAD"), "{to}");
        // Git 2.47 writes a file for each ref; git 2.55 packs them, as packrace does.
        if to == "files" {
            continue;
        }
        let fixed = |path: &Path| -> Vec<String> {
            names(path).into_iter().filter(|name| !name.ends_with(".ref")).collect()
        };
        assert_eq!(fixed(&twins.ours()), fixed(&twins.git()), "{to}");
        assert_eq!(read(&twins.ours(), "refs/heads"), read(&twins.git(), "refs/heads"));
    }
}

#[test]
fn refusals_are_those_of_git() {
    in_both_formats(&[("core.logAllRefUpdates", "false")], |twins| {
        let (to, from) = other(&twins.ours());
        twins.check(&["refs", "migrate"], "");
        twins.check(&["refs", "migrate", "--ref-format=foo"], "");
        twins.check(&["refs", "migrate", &format!("--ref-format={from}")], "");
        twins.check(&["refs", "migrate", &format!("--ref-format={to}"), "x"], "");
        for path in [twins.git(), twins.ours()] {
            stock_git(&path, &["worktree", "add", "--no-checkout", "../w", "main"], "");
        }
        twins.check(&["refs", "migrate", &format!("--ref-format={to}")], "");
        assert_eq!(migrate(&twins.ours(), &["--ref-format", to]).0, Some(255));
    });
}

#[test]
fn a_dry_run_changes_nothing() {
    in_both_formats(&[("core.logAllRefUpdates", "always")], |twins| {
        let path = twins.ours();
        let (to, _) = other(&path);
        let (before, names_before) = (state(&path), names(&path));
        let (code, said, complaint) = migrate(&path, &["--dry-run", "--ref-format", to]);
        assert_eq!((code, complaint.as_str()), (Some(0), ""));
        let start = "Finished dry-run migration of refs, the result can be found at '";
        let dir = said.strip_prefix(start).and_then(|rest| rest.strip_suffix("'\n")).unwrap();
        assert_eq!(state(&path), before);
        let dir_name = Path::new(dir).file_name().unwrap().to_str().unwrap();
        assert!(dir_name.strip_prefix("ref_migration.").is_some_and(|rest| rest.len() == 6), "{dir}");
        let left: Vec<String> =
            names(&path).into_iter().filter(|name| !name.starts_with("ref_migration.")).collect();
        assert_eq!(left, names_before);
        // It contains the refs of a repository of that format.
        let tried = path.parent().unwrap().join("tried.git");
        copy(&path.join(dir), &tried);
        std::fs::create_dir(tried.join("objects")).unwrap();
        std::fs::create_dir(tried.join("objects/info")).unwrap();
        let objects = format!("{}\n", path.join("objects").display());
        std::fs::write(tried.join("objects/info/alternates"), objects).unwrap();
        let version = "[core]\nrepositoryformatversion = 1\nbare = true\n[extensions]\nrefstorage = ";
        std::fs::write(tried.join("config"), format!("{version}{to}\n")).unwrap();
        assert_eq!(state(&tried), before);
        verify(&tried);
    });
}

#[test]
fn reflogs_can_be_left_behind() {
    in_both_formats(&[("core.logAllRefUpdates", "always")], |twins| {
        let path = twins.ours();
        let refs = || Git::stock().run(&path, &["for-each-ref", "--include-root-refs"]);
        let before = refs();
        assert_eq!(migrate(&path, &["--no-reflog", "--ref-format", other(&path).0]), done());
        assert_eq!(refs(), before);
        assert_eq!(Git::stock().run(&path, &["reflog", "list"]), "");
        verify(&path);
    });
}

#[test]
fn nothing_that_is_broken_is_lost() {
    let twins = RefTwins::new(RefFormat::Files);
    let path = twins.ours();
    std::fs::write(path.join("refs/heads/bad"), "garbage\n").unwrap();
    let (code, _, said) = migrate(&path, &["--ref-format=reftable"]);
    let expect = "error: refs are broken: refs/heads/bad: badRefContent: garbage\n";
    assert_eq!((code, said.as_str()), (Some(255), expect));
    std::fs::remove_file(path.join("refs/heads/bad")).unwrap();
    // The state after a migration that was killed when it had removed the old refs.
    let (config, before) = (std::fs::read(path.join("config")).unwrap(), state(&path));
    assert_eq!(migrate(&path, &["--ref-format=reftable"]), done());
    let with_tables = std::fs::read(path.join("config")).unwrap();
    std::fs::write(path.join("config"), config).unwrap();
    let (code, _, said) = migrate(&path, &["--ref-format=reftable"]);
    assert!(code == Some(255) && said.contains("a migration was broken off"), "{said}");
    std::fs::write(path.join("config"), with_tables).unwrap();
    assert_eq!(state(&path), before);
    // Another process holds the lock.
    std::fs::write(path.join("config.lock"), "").unwrap();
    let (code, _, said) = migrate(&path, &["--ref-format=files"]);
    assert!(code == Some(255) && said.starts_with("error: could not lock config file"), "{said}");
    assert_eq!(state(&path), before);
}

#[test]
fn sha256() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path().join("r.git");
        packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Tiny)
            .hash(HashKind::Sha256)
            .ref_format(format)
            .build_at(&path, Git::stock());
        let before = state(&path);
        let (to, from) = other(&path);
        for format in [to, from] {
            assert_eq!(migrate(&path, &["--ref-format", format]), done());
            assert_eq!(state(&path), before, "{format}");
            verify(&path);
        }
    }
}
