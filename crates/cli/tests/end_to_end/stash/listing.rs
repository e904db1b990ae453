//! `stash list`, `show`, `drop` and `clear`, and invalid arguments.

use std::path::Path;

use packrace_testkit::Git;

use super::{Twins, Who};
use crate::running::{PACKRACE, packrace_with};

fn three() -> Twins {
    let twins = Twins::new();
    twins.both("for n in 1 2 3; do echo $n >> a; git stash push -qm \"number $n\"; done");
    twins
}

#[test]
fn entries_come_and_go() {
    let twins = three();
    for line in [
        "stash list",
        "stash list -2",
        "stash list -n 1",
        "stash list --max-count=1",
        "stash drop 1",
        "stash list",
        "stash drop stash@{1}",
        "stash drop 5",
        "stash drop stash@{7}",
        "stash drop nothing",
        "stash drop HEAD",
        "stash drop stash",
        "stash drop stash@{0}^",
        "stash drop a b",
        "stash drop $(git rev-parse stash)",
        "stash pop -q 0",
        "stash list",
        "stash drop",
        "stash drop 0",
        "stash pop stash@{0}",
    ] {
        twins.check(line);
    }
    let twins = three();
    twins.check("stash clear now");
    twins.check("stash clear");
    twins.check("stash clear");
    twins.check("stash list");
    let twins = three();
    twins.check("stash drop 2");
    twins.check("stash drop -q 0");
    twins.check("stash pop");
}

#[test]
fn refs_in_tables() {
    let twins = Twins::after(
        "git init -q --ref-format=reftable -b main . && echo a > a && git add . && git commit -qm first && \
         for n in 1 2 3; do echo $n >> a; git stash push -qm \"number $n\"; done",
    );
    for line in
        ["stash list", "stash drop 1", "stash pop", "stash", "stash pop 1", "stash clear", "stash list"]
    {
        twins.check(line);
    }
}

#[test]
fn what_an_entry_changes() {
    let twins = Twins::new();
    twins.both(
        "echo c >> a; echo n > n; git add n; git mv b d/moved; git rm -q d/c; printf 'x\\0y' > bin; git add bin; \
         mkdir -p long/way/to/go; seq 1 500 > long/way/to/go/file; git add long; chmod +x d/e/f; echo u > u",
    );
    twins.both("git stash -q -u");
    for line in [
        "stash show",
        "stash show --stat stash@{0}",
        "stash show --numstat",
        "stash show --shortstat",
        "stash show --name-only 0",
        "stash show --name-status",
        "stash show -u",
        "stash show --only-untracked",
        "stash show --include-untracked --name-only",
        "-c stash.showIncludeUntracked=true stash show",
        "-c stash.showIncludeUntracked=true stash show --no-include-untracked",
        "-c stash.showStat=false stash show",
        "stash show -p",
        "stash show -p -u",
        "stash show --patch --stat",
        "-c stash.showPatch=true stash show",
        "-c stash.showPatch=true -c stash.showStat=false stash show",
        "stash show nothing",
        "stash show HEAD",
        "stash show 0 1",
    ] {
        twins.check(line);
    }
}

#[test]
fn names_in_other_letters() {
    let twins = Twins::new();
    let long = "ein/überaus/länglicher/pfad/mit/vielen/öden/verzeichnissen/und/anderen/wörtern";
    twins.both(&format!(
        "latin=$(printf 'caf\\351'); mkdir -p ä '中' {long}; seq 30 > ä/ä; seq 40 > '中/文'; seq 50 > \"$latin\"; seq 60 > ü; \
         seq 70 > {long}/a; git add .; git commit -qm second; git mv ä/ä ä/ö; git mv '中' '国'; git mv ü û; \
         git mv \"$latin\" \"$latin\"x; echo x >> {long}/a; echo y >> '国/文'; git stash -q"
    ));
    for line in [
        "stash show --stat",
        "stash show --numstat",
        "stash show --name-only",
        "stash show --name-status",
        "stash show -p",
        "-c core.quotePath=false stash show --stat | od -c",
        "-c core.quotePath=false stash show --numstat | od -c",
        "-c core.quotePath=false stash show --name-only | od -c",
        "-c core.quotePath=false stash show --name-status | od -c",
        "-c core.quotePath=false stash show -p | od -c",
    ] {
        twins.check(line);
    }
}

#[test]
fn what_makes_no_sense() {
    let twins = three();
    for line in [
        "stash nothing",
        "stash -k a",
        "stash -m message a",
        "stash help",
        "stash push --bogus",
        "stash --bogus",
        "stash pop --bogus",
        "stash apply -z",
        "stash pop HEAD",
        "stash apply nothing",
        "stash push ''",
    ] {
        twins.check(line);
    }
    twins.both("echo c >> a; echo d >> b");
    twins.check("stash -m message -- a");
    twins.check("stash -mshort");
}

/// What only git has is refused by name where there is no git, or only packrace in its place; what is set is passed over.
#[test]
fn what_only_git_has() {
    let twins = three();
    let dir = twins.path(Who::Packrace);
    let bin = packrace_testkit::scratch_dir();
    let git = bin.path().join("git");
    std::os::unix::fs::symlink(PACKRACE, &git).unwrap();
    let said = |path: &Path, line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = packrace_with(&dir, &arguments, b"", &[("PATH", path.to_str().unwrap())]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), output.stdout)
    };
    for path in [Path::new(""), Path::new("/nonexistent"), bin.path()] {
        for (line, refusal) in [
            ("stash show --patience", "error: unknown option `patience'\n"),
            ("stash show -p -w", "error: unknown switch `w'\n"),
            ("stash show --", "fatal: paths are not supported\n"),
            ("stash list --format=%gd%d", "fatal: placeholder `%d' is not supported\n"),
            ("reflog --pretty=fuller", "fatal: format `fuller' is not supported\n"),
            ("reflog show main -- a", "fatal: paths are not supported\n"),
        ] {
            let (code, stderr, stdout) = said(path, line);
            assert!(stderr.starts_with(refusal), "{line}: {stderr}");
            assert_eq!((code, stdout.as_slice()), (Some(129), &b""[..]), "{line}");
        }
        let plain = said(path, "stash show -p");
        assert_eq!(plain.0, Some(0), "{}", plain.1);
        assert_eq!(said(path, "-c color.ui=always -c diff.noPrefix=true stash show -p"), plain);
    }
    // Packrace stands in for git, which comes later in PATH.
    let stock = Git::stock().binary().parent().unwrap();
    let path = std::env::join_paths([bin.path(), stock]).unwrap();
    let (code, stderr, stdout) = said(Path::new(&path), "stash list -p -U0");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(String::from_utf8(stdout).unwrap().contains("\n@@ "));
}
