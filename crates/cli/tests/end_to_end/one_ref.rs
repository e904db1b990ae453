//! `packrace refs create`, `delete`, `update` and `rename`. Git has them since 2.55: its outputs and exit
//! codes are copied here; refs and reflogs are compared with the results of `git update-ref` and `git branch
//! -m` of the installed git.

use packrace_testkit::RefFormat;

use crate::ref_twins::{RefTwins, in_both_formats, state};
use crate::running::{packrace, stock_git};

/// Checks standard error and the exit code.
fn refused(twins: &RefTwins, args: &str, code: i32, words: &str) {
    let args = twins.filled(args);
    let args: Vec<&str> = ["refs"].into_iter().chain(args.split(' ')).collect();
    let before = state(&twins.ours());
    let said = packrace(&twins.ours(), &args, "");
    let found = (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned());
    assert_eq!(found, (Some(code), twins.filled(words)), "{args:?}");
    assert_eq!(state(&twins.ours()), before, "{args:?}");
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Runs one command with packrace and another with git: both succeed, with the same result.
fn same(twins: &RefTwins, ours: &[&str], theirs: &[&str]) {
    let filled = |args: &[&str]| args.iter().map(|argument| twins.filled(argument)).collect::<Vec<_>>();
    let (ours, theirs) = (filled(ours), filled(theirs));
    let said = packrace(&twins.ours(), &words(&ours), "");
    assert!(said.status.success() && said.stderr.is_empty(), "{ours:?}: {said:?}");
    let said = stock_git(&twins.git(), &words(&theirs), "");
    assert!(said.status.success(), "{theirs:?}: {said:?}");
    assert_eq!(state(&twins.ours()), state(&twins.git()), "{ours:?}");
}

const LOGGED: &[(&str, &str)] = &[("core.logAllRefUpdates", "true")];

#[test]
fn a_ref_is_changed_as_update_ref_changes_it() {
    in_both_formats(LOGGED, |twins| {
        same(twins, &["refs", "create", "refs/heads/x", "main"], &["update-ref", "refs/heads/x", "main"]);
        same(
            twins,
            &["refs", "create", "--message=a new one", "refs/heads/y", "{c}"],
            &["update-ref", "-m", "a new one", "refs/heads/y", "{c}", ""],
        );
        same(
            twins,
            &["refs", "create", "--create-reflog", "refs/odd/z", "{t}"],
            &["update-ref", "--create-reflog", "refs/odd/z", "{t}"],
        );
        same(
            twins,
            &["refs", "create", "refs/heads/dangling", "{c}"],
            &["update-ref", "refs/heads/dangling", "{c}"],
        );
        same(
            twins,
            &["refs", "update", "--message", "on", "refs/heads/x", "a", "{c}"],
            &["update-ref", "-m", "on", "refs/heads/x", "a", "{c}"],
        );
        same(twins, &["refs", "update", "refs/heads/sym", "{e}"], &["update-ref", "refs/heads/sym", "{e}"]);
        same(
            twins,
            &["refs", "update", "--no-deref", "refs/heads/sym", "{c}"],
            &["update-ref", "--no-deref", "refs/heads/sym", "{c}"],
        );
        same(
            twins,
            &["refs", "update", "--no-deref", "--deref", "HEAD", "{d}", "{c}"],
            &["update-ref", "HEAD", "{d}", "{c}"],
        );
        // Zeros as the new value delete the ref; as the old value, they require that it does not exist.
        same(twins, &["refs", "update", "refs/heads/y", "{0}"], &["update-ref", "-d", "refs/heads/y"]);
        same(
            twins,
            &["refs", "update", "refs/heads/y", "{e}", "{0}"],
            &["update-ref", "refs/heads/y", "{e}"],
        );
        same(twins, &["refs", "delete", "refs/heads/y"], &["update-ref", "-d", "refs/heads/y"]);
        same(
            twins,
            &["refs", "delete", "--message=away", "refs/heads/packed", "{c}"],
            &["update-ref", "-d", "refs/heads/packed", "{c}"],
        );
        same(twins, &["refs", "delete", "refs/heads/packed"], &["update-ref", "-d", "refs/heads/packed"]);
        same(
            twins,
            &["refs", "delete", "--no-deref", "refs/remotes/o/HEAD"],
            &["update-ref", "--no-deref", "-d", "refs/remotes/o/HEAD"],
        );
    });
}

#[test]
fn a_ref_is_renamed_with_its_reflog() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let twins = RefTwins::with(format, LOGGED);
        let run = |args: &[&str]| {
            let said = packrace(&twins.ours(), args, "");
            assert!(said.status.success() && said.stderr.is_empty(), "{args:?}: {said:?}");
        };
        let log = |name: &str| {
            let log = stock_git(&twins.ours(), &["reflog", "--format=%H %gs", name], "");
            String::from_utf8(log.stdout).unwrap()
        };
        for message in ["one", "two"] {
            let id = twins.filled(if message == "one" { "{e}" } else { "{c}" });
            run(&["refs", "update", &format!("--message={message}"), "refs/heads/loose", &id]);
        }
        let before = log("refs/heads/loose");
        // Also to a name below the old one.
        for (old, new) in [("loose", "moved"), ("moved", "moved/below"), ("moved/below", "moved")] {
            let (old, new) = (format!("refs/heads/{old}"), format!("refs/heads/{new}"));
            run(&["refs", "rename", "--message=moved", &old, &new]);
            let said = stock_git(&twins.ours(), &["rev-parse", "--verify", &new], "");
            assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), twins.filled("{c}"));
            assert!(!stock_git(&twins.ours(), &["rev-parse", "--verify", "-q", &old], "").status.success());
            assert!(log(&new).ends_with(&before) && log(&new).contains(" moved\n"), "{}", log(&new));
        }
        assert!(stock_git(&twins.ours(), &["refs", "verify"], "").status.success());
    }
}

#[test]
fn refusals_have_the_words_of_git() {
    in_both_formats(LOGGED, |twins| {
        let check = |args: &str, code: i32, words: &str| refused(twins, args, code, words);
        let usage = "usage: create requires reference name and an object ID\n";
        for args in
            ["create", "create refs/heads/x", "create refs/heads/x {c} {c}", "create --message= refs/heads/x"]
        {
            check(args, 129, usage);
        }
        let usage = "usage: delete requires reference name and an optional old object ID\n";
        for args in ["delete", "delete a {c} b"] {
            check(args, 129, usage);
        }
        let usage = "usage: update requires reference name, new value and an optional old value\n";
        for args in ["update", "update --", "update a", "update a b c d"] {
            check(args, 129, usage);
        }
        let usage = "usage: rename requires old and new reference name\n";
        for args in ["rename", "rename a", "rename --message= a", "rename a b c"] {
            check(args, 129, usage);
        }

        let words = "fatal: refusing to perform update with empty message\n";
        for args in [
            "create --message= x {c}",
            "delete --message= x",
            "update --message= x {c}",
            "rename --message= a..b c",
        ] {
            check(args, 128, words);
        }

        check("create refs/heads/x none", 128, "fatal: invalid object ID: 'none'\n");
        check("create refs/heads/x ", 128, "fatal: invalid object ID: ''\n");
        check("create refs/heads/x {0}", 128, "fatal: cannot create reference with null new object ID\n");
        check("update refs/heads/x none", 128, "fatal: invalid new object ID: 'none'\n");
        check("update refs/heads/a {c} none", 128, "fatal: invalid old object ID: 'none'\n");
        check("update refs/heads/a {c} ", 128, "fatal: invalid old object ID: ''\n");
        check("delete refs/heads/a none", 128, "fatal: invalid old object ID: 'none'\n");
        check("delete refs/heads/a {0}", 128, "fatal: cannot delete reference with null old object ID\n");

        let failed =
            |name: &str, words: &str| format!("error: update_ref failed for ref '{name}': {words}\n");
        let exists =
            |name: &str| failed(name, &format!("cannot lock ref '{name}': reference already exists"));
        check("create refs/heads/a {c}", 1, &exists("refs/heads/a"));
        check("create HEAD {c}", 1, &exists("HEAD"));
        check("create --no-deref refs/heads/sym {c}", 1, &exists("refs/heads/sym"));
        let dangling = "cannot lock ref 'refs/heads/dangling': dangling symref already exists";
        let dangling = failed("refs/heads/dangling", dangling);
        check("create --no-deref refs/heads/dangling {c}", 1, &dangling);
        check("update --no-deref refs/heads/dangling {c} {0}", 1, &dangling);
        let below = "'refs/heads/a' exists; cannot create 'refs/heads/a/b'";
        check("create refs/heads/a/b {c}", 1, &failed("refs/heads/a/b", below));
        // The file of a loose ref does not even let the lock be taken.
        let lock = "cannot lock ref 'refs/heads/loose/b': ";
        let lock = if twins.ours().join("reftable").exists() { "" } else { lock };
        let below = format!("{lock}'refs/heads/loose' exists; cannot create 'refs/heads/loose/b'");
        check("create refs/heads/loose/b {c}", 1, &failed("refs/heads/loose/b", &below));
        let bad = "refusing to update ref with bad name 'a..b'";
        check("create a..b {c}", 1, &failed("a..b", bad));
        check("update a..b {c}", 1, &failed("a..b", bad));
        check("delete a..b", 1, &format!("error: {bad}\n"));
        let tree = "trying to write non-commit object {t} to branch 'refs/heads/x'";
        check("create refs/heads/x {t}", 1, &failed("refs/heads/x", tree));
        let absent = "trying to write ref 'refs/heads/x' with nonexistent object {1}";
        check("update refs/heads/x {1}", 1, &failed("refs/heads/x", absent));
        let pseudo = "refusing to update pseudoref 'FETCH_HEAD'";
        check("update FETCH_HEAD {c}", 1, &failed("FETCH_HEAD", pseudo));
        let other = "cannot lock ref 'refs/heads/a': is at {d} but expected {c}";
        check("update refs/heads/a {e} {c}", 1, &failed("refs/heads/a", other));
        check("delete refs/heads/a {c}", 1, &format!("error: {other}\n"));

        for name in ["foo", "a..b", "HEAD", "refs/heads/a/../b"] {
            let words = format!("fatal: invalid ref format: '{name}'\n");
            check(&format!("rename {name} refs/heads/x"), 128, &words);
            check(&format!("rename refs/heads/a {name}"), 128, &words);
        }
        check("rename refs/heads/x refs/heads/y", 128, "fatal: reference does not exist: 'refs/heads/x'\n");
        check(
            "rename refs/heads/dangling refs/y",
            128,
            "fatal: reference does not exist: 'refs/heads/dangling'\n",
        );
        check("rename refs/heads/a refs/heads/a", 128, "fatal: reference already exists: 'refs/heads/a'\n");
        check(
            "rename refs/heads/a refs/heads/sym",
            128,
            "fatal: reference already exists: 'refs/heads/sym'\n",
        );
        let symbolic = "error: refname refs/heads/sym is a symbolic ref, renaming it is not supported\n";
        check("rename refs/heads/sym refs/heads/x", 1, symbolic);
    });
    // Options of the other commands.
    let twins = RefTwins::new(RefFormat::Files);
    for args in ["rename --no-deref a b", "delete --create-reflog a", "create -m x refs/heads/x {c}", "bogus"]
    {
        let args = twins.filled(args);
        let args: Vec<&str> = ["refs"].into_iter().chain(args.split(' ')).collect();
        assert_eq!(packrace(&twins.ours(), &args, "").status.code(), Some(129), "{args:?}");
    }
}
