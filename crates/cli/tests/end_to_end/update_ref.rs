//! `packrace update-ref` prints and does the same as `git update-ref`.

use std::path::Path;

use packrace_testkit::{Git, RefFormat, write_program};

use crate::ref_twins::{RefTwins, in_both_formats, state};
use crate::running::{packrace, stock_git};

/// Sessions, by lines.
const SESSIONS: &[&str] = &[
    "",
    "create\n",
    "create refs/heads/x\n",
    "create refs/heads/x {c} y\n",
    "create  refs/heads/x {c}\n",
    "create refs/heads/x {0}\n",
    "create refs/heads/x nono\n",
    "create refs/heads/x \n",
    "create refs/..x {c}\n",
    "create refs/heads/x {c}",
    "create\trefs/heads/x\n",
    "create refs/heads/@{x {c}\n",
    "create \"refs/heads/x\" {c}\n",
    "create \"refs/heads/x {c}\n",
    "create \"refs/heads/x\"y {c}\n",
    "create refs/heads/\"x {c}\n",
    "create refs/heads/a/b {c}\n",
    "create refs/heads/deep {c}\n",
    "create FOO {c}\n",
    "create refs/heads/light refs/tags/light\n",
    "foo refs/x\n",
    "# comment\n",
    "\n",
    " create\n",
    "update refs/heads/x\n",
    "update refs/heads/x {c} junk\n",
    "update refs/heads/x {c} {c} junk\n",
    "update refs/heads/w4 \"\"\n",
    "update refs/heads/w5 {c} \"\"\n",
    "update refs/heads/w5 {c} ",
    "update refs/heads/w6 {c}",
    "update refs/tags/x {t}\n",
    "update refs/heads/x {cshort}\n",
    "update refs/heads/x main~0 {c}\n",
    "update refs/heads/a main {d}\n",
    "update refs/heads/a main {d}\n",
    "update HEAD @\n",
    "update FETCH_HEAD {c}\n",
    "delete refs/heads/x {0}\n",
    "delete refs/heads/x {c} j\n",
    "delete\n",
    "delete FOO\n",
    "delete foo\n",
    "delete refs/heads/x..y\n",
    "delete refs/heads/packed {c}\n",
    "verify refs/heads/zz\n",
    "verify refs/heads/a\n",
    "verify refs/heads/a {c} {c}\n",
    "verify\n",
    "option foo\n",
    "option\n",
    "option no-deref\n",
    "option no-deref \n",
    "start x\n",
    "startx\n",
    "commit\n",
    "prepare\nprepare\n",
    "start\nstart\n",
    "commit\ncommit\n",
    "commit\ncreate refs/heads/zz {c}\n",
    "abort\nabort\n",
    "prepare\ncreate refs/heads/zz {c}\n",
    "start\nprepare\ncommit\nstart\nabort\n",
    "start\ncreate refs/heads/k1 {c}\nprepare\ncommit\nstart\ncreate refs/heads/k2 {c}\ncommit\n",
    "start\ncreate refs/heads/kk {c}\n",
    "create refs/heads/kk {c}\nprepare\n",
    "create refs/heads/kk {c}\nprepare\nabort\n",
    "create refs/heads/kk {c}\nstart\n",
    "start\nupdate refs/heads/a/kk {c}\ncommit\n",
    "start\nupdate refs/heads/a/kk {c}\nprepare\n",
    "create refs/heads/two {c}\ncreate refs/heads/two {d}\n",
    "create refs/heads/two {c}\ncreate refs/heads/two/three {d}\n",
    "symref-create refs/heads/new\n",
    "symref-create refs/heads/new refs/heads/..\n",
    "symref-create refs/heads/new refs/heads/a x\n",
    "symref-create refs/heads/new refs/heads/a\n",
    "symref-create refs/heads/new refs/heads/a\n",
    "symref-verify refs/heads/new refs/heads/a\n",
    "option no-deref\nsymref-verify refs/heads/new refs/heads/a\n",
    "option no-deref\nsymref-verify refs/heads/new refs/heads/main\n",
    "option no-deref\nsymref-verify refs/heads/nowhere\n",
    "option no-deref\nsymref-verify refs/heads/a refs/heads/main\n",
    "symref-update refs/heads/new refs/heads/a foo bar\n",
    "symref-update refs/heads/new refs/heads/a ref\n",
    "symref-update refs/heads/new refs/heads/a ref ..\n",
    "symref-update refs/heads/new refs/heads/a oid\n",
    "symref-update refs/heads/new refs/heads/a oid nono\n",
    "symref-update refs/heads/new refs/heads/a oid {c} x\n",
    "symref-update refs/heads/new\n",
    "option no-deref\nsymref-update refs/heads/new refs/heads/main ref refs/heads/a\n",
    "option no-deref\nsymref-update refs/heads/new refs/heads/main ref refs/heads/a\n",
    "symref-delete refs/heads/new ..\n",
    "symref-delete refs/heads/new\n",
    "symref-delete\n",
    "option no-deref\nsymref-delete refs/heads/new refs/heads/a\n",
    "option no-deref\nsymref-delete refs/heads/new refs/heads/main\n",
    "update refs/heads/dangling {c}\n",
    "update refs/heads/sym {c} {c}\n",
    "update refs/heads/sym {e}\n",
    "option no-deref\nupdate refs/heads/sym {e}\nupdate refs/heads/a {c}\n",
    "update refs/remotes/o/HEAD {c} {e}\ndelete refs/tags/also\n",
];

/// Sessions with `-z`; a line feed stands for a NUL.
const NUL_SESSIONS: &[&str] = &[
    "create refs/heads/w\n{c}\n",
    "create refs/heads/w2\n{c}",
    "create refs/heads/w3\n",
    "create \n{c}\n",
    "create refs/heads/wz\n\n",
    "update refs/heads/w3\n{c}\n",
    "update refs/heads/w3\n{c}\n\n",
    "update refs/heads/w3\n\n\n",
    "delete refs/heads/w2\n\n",
    "delete refs/heads/w5\n",
    "verify refs/heads/w6\n\n",
    "start\nprepare\ncommit\n",
    "symref-update refs/heads/sym\nrefs/heads/main\n",
    "symref-update refs/heads/sym\nrefs/heads/main\n\n",
    "option no-deref\nsymref-update refs/heads/sym\nrefs/heads/main\nref\nrefs/heads/a\n",
    "option no-deref\nsymref-update refs/heads/sym\nrefs/heads/b\noid\n{c}\n",
    "option no-deref\nsymref-update refs/heads/sym\nrefs/heads/a\ncreate refs/heads/yy\n{c}\n",
    "option no-deref\nsymref-update refs/heads/sym\nrefs/heads/a\nstart\n",
    "option no-deref\nsymref-update refs/heads/sym\nrefs/heads/a\n\n\ncreate refs/heads/q\n{c}\n",
    "symref-create refs/heads/wz\n\n",
    "option no-deref\nsymref-delete refs/heads/nowhere\n\n",
    "option no-deref\nsymref-verify refs/heads/nowhere\n",
    "delete refs/heads/sym\n{1}\n",
];

/// Argument lists; words are separated by spaces, and `''` is the empty one.
const ARGUMENTS: &[&str] = &[
    "",
    "a",
    "-d",
    "-d refs/heads/x 1 2",
    "refs/heads/x {c} {c} {c}",
    "refs/heads/x nono",
    "refs/heads/x {c} nono",
    "-z refs/heads/x {c}",
    "--stdin x",
    "--stdin -d",
    "--stdin -z -m x --create-reflog --no-deref",
    "--no-such",
    "-d refs/heads/nowhere",
    "-d refs/heads/main nono",
    "-d refs/heads/nowhere {0}",
    "-m '' refs/heads/x {c}",
    "refs/heads/../x {c}",
    "refs/heads/x~y {c}",
    "-m why refs/heads/x {c}",
    "refs/heads/x ''",
    "refs/heads/x {c} ''",
    "refs/heads/y {c} ''",
    "refs/heads/y {0}",
    "refs/heads/y {0} {c}",
    "-d refs/heads/a {c}",
    "refs/tags/tree {t}",
    "--create-reflog refs/tags/t2 {c}",
    "-d --create-reflog refs/tags/t2",
    "--deref x y",
    "MERGE_HEAD {c}",
    "-d refs/heads/x..y",
    "-d ../x",
    "-d refs/heads/../x",
    "refs/heads/a/b {c}",
    "refs/heads/main {c} {d}",
    "HEAD {d}",
    "HEAD {c} {d}",
    "refs/heads/dangling {c}",
    "-d refs/heads/dangling",
    "--no-deref -d refs/heads/dangling",
    "refs/heads/packed {d}",
    "-d refs/heads/packed {d}",
    "refs/stash {c}",
    "@ {c}",
    "refs/heads {c}",
    "refs/ {c}",
    "/ {c}",
    "'' {c}",
    "refs/heads/x.lock {c}",
    "refs/heads/.x {c}",
    "--no-deref HEAD {c}",
];

#[test]
fn sessions_as_git_runs_them() {
    in_both_formats(&[("core.logAllRefUpdates", "true")], |twins| {
        for session in SESSIONS {
            twins.check(&["update-ref", "--stdin", "-m", "why  not"], session);
        }
        for session in NUL_SESSIONS {
            twins.check(&["update-ref", "--stdin", "-z"], &session.replace('\n', "\0"));
        }
    });
}

#[test]
fn arguments_as_git_takes_them() {
    in_both_formats(&[("core.logAllRefUpdates", "true")], |twins| {
        for list in ARGUMENTS {
            let words = list.split(' ').filter(|word| !word.is_empty());
            let words = words.map(|word| if word == "''" { "" } else { word });
            let args: Vec<&str> = ["update-ref"].into_iter().chain(words).collect();
            twins.check(&args, "");
        }
    });
}

/// Stock git 2.47 creates files of any name directly in the repository; packrace does not.
#[test]
fn what_is_no_ref_is_not_made() {
    let twins = RefTwins::new(RefFormat::Files);
    for name in ["config", "objects/x", "logs/x", "foo", "Foo/bar"] {
        let said = packrace(&twins.ours(), &["update-ref", name, &twins.filled("{c}")], "");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let expect = format!(
            "fatal: update_ref failed for ref '{name}': refusing to update ref with bad name '{name}'\n"
        );
        assert_eq!((said.status.code(), text), (Some(128), expect));
    }
}

/// Words and order of git 2.55, which supports `--batch-updates`; the installed stock git, 2.47, does not.
#[test]
fn batches_reject_one_by_one() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let twins = RefTwins::new(format);
        let input = twins.filled(
            "create refs/heads/main {d}\ncreate refs/heads/new {d}\nupdate refs/heads/main/b {d}\n\
             update refs/heads/n2 {d} {c}\nupdate refs/heads/n3 {1} {d}\nupdate refs/heads/n4 {1}\n\
             option no-deref\nsymref-update refs/heads/a refs/heads/k ref refs/heads/w\n\
             update refs/heads/loose {d} {e}\ndelete refs/heads/packed\n",
        );
        let expect = twins.filled(
            "rejected refs/heads/main {d} {0} reference already exists\n\
             rejected refs/heads/main/b {d} (null) refname conflict\n\
             rejected refs/heads/n2 {d} {c} reference does not exist\n\
             rejected refs/heads/n3 {1} {d} invalid new value provided\n\
             rejected refs/heads/n4 {1} (null) invalid new value provided\n\
             rejected refs/heads/a {0} {0} expected symref but found regular ref\n\
             rejected refs/heads/loose {d} {e} incorrect old value provided\n",
        );
        let said = packrace(&twins.ours(), &["update-ref", "--stdin", "--batch-updates"], &input);
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&String::from_utf8_lossy(&said.stdout)), sorted(&expect), "{format:?}");
        assert_eq!(said.status.code(), Some(0));
        let accepted = twins.filled("create refs/heads/new {d}\ndelete refs/heads/packed\n");
        stock_git(&twins.git(), &["update-ref", "--stdin"], &accepted);
        assert_eq!(state(&twins.ours()), state(&twins.git()), "{format:?}");
        let said = packrace(&twins.ours(), &["update-ref", "--batch-updates", "a", "b"], "");
        assert_eq!(said.status.code(), Some(128));
    }
}

/// As git 2.55 does.
#[test]
fn batches_refuse_one_of_two_names_in_each_others_way() {
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["q/w", "q"], &["q"], &["q/w"]),
        (&["p", "p/w"], &["p"], &["p"]),
        (&["m", "m/n", "m/n/o"], &["m", "m/n"], &["m", "m/n"]),
        (&["r/s/t", "r/s", "r"], &["r", "r/s"], &["r/s/t", "r/s"]),
    ];
    in_both_formats(&[], |twins| {
        for (created, with_files, with_reftables) in cases {
            let lines = created.iter().map(|name| format!("create refs/heads/{name} {{c}}\n"));
            let input = twins.filled(&lines.collect::<String>());
            let said = packrace(&twins.ours(), &["update-ref", "--stdin", "--batch-updates"], &input);
            let found = String::from_utf8_lossy(&said.stdout).into_owned();
            let mut found: Vec<&str> = found.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
            found.sort_unstable();
            let is_reftable = twins.ours().join("reftable").exists();
            let expect = if is_reftable { with_reftables } else { with_files };
            let mut expect: Vec<String> = expect.iter().map(|name| format!("refs/heads/{name}")).collect();
            expect.sort_unstable();
            assert_eq!(found, expect, "{created:?}");
        }
    });
}

/// Writes a hook that records its input in `told` beside the repository, and fails in the state `VETO`.
fn write_hook(path: &Path, veto: &str) {
    let hook = path.join("hooks/reference-transaction");
    let script = format!(
        "#!/bin/sh\n(echo \"$1 $(git rev-parse --git-dir)\"; sort) >>../told\n[ \"$1\" != '{veto}' ]\n"
    );
    write_program(&hook, &script);
}

fn hook_log(path: &Path) -> String {
    std::fs::read_to_string(path.join("../told")).unwrap_or_default()
}

/// The part that git 2.47 and 2.55 have in common: 2.47 does not report that a transaction is being prepared,
/// and 2.55 omits symbolic refs that were followed.
fn without_news(hook_log: &str) -> String {
    let mut kept = String::new();
    let mut is_kept = true;
    for line in hook_log.lines() {
        if line.ends_with(" .") {
            is_kept = !line.starts_with("preparing");
        }
        if is_kept && !line.ends_with(" HEAD") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn the_hook_is_told_what_git_tells() {
    let sessions = [
        "create refs/heads/h1 {c}\n",
        "update refs/heads/h1 {d} {c}\nverify refs/heads/main {c}\n",
        "update HEAD {d}\n",
        "update HEAD {c} {d}\n",
        "symref-create refs/heads/h2 refs/heads/h1\n",
        "option no-deref\nsymref-update refs/heads/h2 refs/heads/main ref refs/heads/h1\n",
        "option no-deref\nsymref-verify refs/heads/h2 refs/heads/main\n",
        "start\ncreate refs/heads/h3 {c}\nabort\n",
        "start\ncreate refs/heads/h3 {c}\nprepare\nabort\n",
        "start\ncreate refs/heads/h3 {c}\nprepare\n",
        "update refs/heads/h1 {c} {e}\n",
        "start\nprepare\ncommit\n",
        "",
    ];
    in_both_formats(&[], |twins| {
        for path in [twins.git(), twins.ours()] {
            write_hook(&path, "never");
        }
        for session in sessions {
            twins.check(&["update-ref", "--stdin"], session);
            let (ours, theirs) = (hook_log(&twins.ours()), hook_log(&twins.git()));
            assert_eq!(without_news(&ours), without_news(&theirs), "{session}");
        }
        // Git's files backend reports a deletion twice, packrace once.
        packrace(&twins.ours(), &["update-ref", "-d", "refs/heads/packed"], "");
        let line = format!("{0} {0} refs/heads/packed\n", "0".repeat(40));
        let expect =
            ["preparing", "prepared", "committed"].map(|state| format!("{state} .\n{line}")).concat();
        assert!(hook_log(&twins.ours()).ends_with(&expect), "{}", hook_log(&twins.ours()));
        assert!(Git::stock().version() < (2, 54), "this git tells of preparing: compare all that is told");
    });
}

#[test]
fn the_hook_can_say_no() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        for veto in ["preparing", "prepared"] {
            let twins = RefTwins::new(format);
            let before = state(&twins.ours());
            write_hook(&twins.ours(), veto);
            let args = ["update-ref", "refs/heads/main", &twins.filled("{d}")];
            let said = packrace(&twins.ours(), &args, "");
            // The words of git 2.55, which include the state.
            let expect =
                format!("fatal: in '{veto}' phase, update aborted by the reference-transaction hook\n");
            assert_eq!(String::from_utf8_lossy(&said.stderr), expect);
            assert_eq!(said.status.code(), Some(128));
            assert!(hook_log(&twins.ours()).contains("aborted ."), "{}", hook_log(&twins.ours()));
            std::fs::remove_file(twins.ours().join("hooks/reference-transaction")).unwrap();
            assert_eq!(state(&twins.ours()), before);
            assert_eq!(packrace(&twins.ours(), &args, "").status.code(), Some(0), "no lock is left");
        }
    }
}
