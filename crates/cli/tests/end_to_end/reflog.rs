//! `packrace reflog` prints and does the same as `git reflog`.

use std::path::Path;

use packrace_testkit::{Git, RefFormat};

use crate::ref_twins::{RefTwins, in_both_formats, state};
use crate::running::{packrace, stock_git};

/// Words are separated by spaces.
const COMMANDS: &[&str] = &[
    "",
    "show",
    "HEAD",
    "@",
    "show main",
    "main",
    "refs/heads/main",
    "show nope",
    "refs/tags/tree",
    "show -n 2 main",
    "-2 main",
    "show --max-count=1",
    "nolog",
    "main@{2}",
    "show --no-abbrev main",
    "show --abbrev=12 main",
    "show refs/heads/main HEAD",
    "list",
    "list x",
    "exists",
    "exists main",
    "exists refs/heads/main",
    "exists refs/heads/nono",
    "exists refs/heads/nolog",
    "exists HEAD",
    "exists a b",
    "exists bad..",
    "delete",
    "delete main",
    "delete main@{9}",
    "delete --dry-run main@{1}",
    "delete -n --verbose main@{1}",
    "delete --verbose main@{1}",
    "delete --rewrite main@{1}",
    "delete --updateref loose@{0}",
    "delete nope@{0}",
    "delete HEAD@{0}",
    "delete refs/heads/main@{0} loose@{0}",
    "delete main@{0",
    "delete --no-such x",
    "expire",
    "expire main",
    "expire --dry-run --expire=all main",
    "expire -n --verbose --expire=all refs/heads/long",
    "expire --verbose --expire=never --expire-unreachable=all long",
    "expire --verbose --expire=1112915153 --rewrite long",
    "expire --verbose --expire-unreachable=1112917053 --expire=never HEAD",
    "expire --expire=foo main",
    "expire --expire=all --updateref refs/heads/main",
    "expire --expire=all --all",
    "list",
    "exists refs/heads/loose",
    "show loose",
    "expire --no-such",
];

/// Changes refs at different times, with stock git in both.
fn write_logs(twins: &RefTwins) {
    let mut at = 1_112_912_053;
    for name in ["main", "loose", "long"] {
        for (number, id) in ["{c}", "{d}", "{e}", "{d}", "{c}", "{d}"].iter().enumerate() {
            at += 1000;
            for path in [twins.git(), twins.ours()] {
                let mut command = Git::stock().command(&path);
                command.env("GIT_COMMITTER_DATE", format!("{at} +0100"));
                let (name, id) = (format!("refs/heads/{name}"), twins.filled(id));
                command.args(["update-ref", "-m", &format!("step {number}"), &name, &id]);
                assert!(command.status().unwrap().success());
            }
        }
    }
    for path in [twins.git(), twins.ours()] {
        let git = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|text| twins.filled(text)).collect();
            Git::stock().run(&path, &args.iter().map(String::as_str).collect::<Vec<_>>())
        };
        git(&["update-ref", "refs/tags/tree", "{t}"]);
        git(&["update-ref", "refs/heads/nolog", "{c}"]);
        git(&["reflog", "expire", "--expire=all", "refs/heads/nolog"]);
        git(&["config", "gc.refs/heads/*.reflogExpire", "never"]);
        git(&["config", "gc.refs/heads/*.reflogExpireUnreachable", "never"]);
    }
}

#[test]
fn shown_and_shortened_as_git_does() {
    in_both_formats(&[("core.logAllRefUpdates", "always")], |twins| {
        write_logs(twins);
        for list in COMMANDS {
            let words = list.split(' ').filter(|word| !word.is_empty());
            twins.check(&["reflog"].into_iter().chain(words).collect::<Vec<_>>(), "");
        }
    });
}

/// Features that stock git 2.47 lacks: words and results of git 2.55.
#[test]
fn written_and_dropped() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let twins = RefTwins::with(format, &[("core.logAllRefUpdates", "always")]);
        let check = |args: &[&str], code: i32, stdout: &str, stderr: &str| {
            let args: Vec<String> = args.iter().map(|text| twins.filled(text)).collect();
            let args: Vec<&str> = ["reflog"].into_iter().chain(args.iter().map(String::as_str)).collect();
            let said = packrace(&twins.ours(), &args, "");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let found = (said.status.code(), text(&said.stdout), text(&said.stderr));
            let expect = (Some(code), stdout.to_owned(), twins.filled(stderr));
            assert_eq!(found, expect, "{args:?} {format:?}");
        };
        let update = |name: &str, id: &str| {
            stock_git(&twins.ours(), &["update-ref", name, &twins.filled(id)], "");
        };
        update("refs/heads/a", "{c}");
        update("refs/heads/main", "{d}");
        check(&["drop"], 0, "", "");
        check(&["drop", "nope"], 255, "", "error: reflog could not be found: 'nope'\n");
        check(&["drop", "a", "nope", "main"], 255, "", "error: reflog could not be found: 'nope'\n");
        check(&["exists", "refs/heads/a"], 1, "", "");
        check(&["drop", "--all"], 0, "", "");
        check(&["list"], 0, "", "");
        check(&["write", "refs/heads/a", "{c}", "{d}", "why  not"], 0, "", "");
        let shown = format!("{} a@{{0}}: why not\n", &twins.filled("{d}")[..7]);
        check(&["show", "a"], 0, &shown, "");
        let log = Git::stock().run(&twins.ours(), &["reflog", "a"]);
        assert_eq!(log, shown);
        check(&["write", "a", "{c}", "{d}", "x"], 128, "", "fatal: invalid reference name: a\n");
        check(&["write", "refs/heads/a", "x", "{d}", "x"], 128, "", "fatal: invalid old object ID: 'x'\n");
        check(
            &["write", "refs/heads/a", "{c}", "{1}", "x"],
            128,
            "",
            "fatal: new object '{1}' does not exist\n",
        );
        check(&["write", "refs/heads/zz", "{0}", "{d}", "x"], 0, "", "");
        check(&["list"], 0, "refs/heads/a\nrefs/heads/zz\n", "");
        let said = packrace(&twins.ours(), &["reflog", "delete", "a@{nonsense}"], "");
        assert_eq!(said.status.code(), Some(255), "git would take it for now, and delete the last entry");
        assert!(state(&twins.ours()).contains("why not"));
    }
}

/// `--all` covers the reflogs of every work tree, each once; `--single-worktree` only those of the current one.
#[test]
fn all_work_trees() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        for drop in [false, true] {
            for from_linked in [false, true] {
                let twins = RefTwins::with(format, &[("core.logAllRefUpdates", "true")]);
                let run = |path: &Path, args: &[&str]| Git::stock().run(path, args);
                for path in [twins.git(), twins.ours()] {
                    let beside = path.with_file_name("linked");
                    run(
                        &path,
                        &["worktree", "add", "-q", "-b", "linked", &beside.display().to_string(), "main"],
                    );
                    run(&beside, &["update-ref", "-m", "own", "refs/worktree/own", "main"]);
                    run(&beside, &["update-ref", "-m", "own", "--create-reflog", "refs/bisect/own", "main"]);
                    run(&path, &["update-ref", "-m", "moved", "refs/heads/main", &twins.filled("{d}")]);
                }
                let logs = |path: &Path| {
                    [path.to_owned(), path.with_file_name("linked")].map(|path| {
                        let names = run(&path, &["reflog", "list"]);
                        let count = |name: &str| run(&path, &["reflog", "--format=%H", name]).lines().count();
                        names.lines().map(|name| format!("{name} {}\n", count(name))).collect::<String>()
                    })
                };
                let dir = |path: std::path::PathBuf| {
                    if from_linked { path.with_file_name("linked") } else { path }
                };
                let before = logs(&twins.ours());
                assert_eq!(before, logs(&twins.git()));
                assert!(before[1].contains("HEAD"), "{before:?}");
                // Git 2.47 has no `reflog drop`.
                if drop {
                    let single = ["reflog", "drop", "--all", "--single-worktree"];
                    assert!(packrace(&dir(twins.ours()), &single, "").status.success());
                    let [main, linked] = logs(&twins.ours());
                    assert_eq!((main.is_empty(), linked.is_empty()), (!from_linked, from_linked));
                    assert!(packrace(&dir(twins.ours()), &["reflog", "drop", "--all"], "").status.success());
                    assert_eq!(logs(&twins.ours()), ["", ""]);
                    continue;
                }
                for more in [&["--single-worktree"][..], &[]] {
                    let args = [&["reflog", "expire", "--expire=now", "--all"], more].concat();
                    assert!(packrace(&dir(twins.ours()), &args, "").status.success());
                    run(&dir(twins.git()), &args);
                    assert_eq!(logs(&twins.ours()), logs(&twins.git()), "{args:?} {format:?} {from_linked}");
                }
            }
        }
    }
}

/// Entries that name broken commits, other objects, and commits that refs reach although objects are missing.
#[test]
fn stale_entries() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let twins = RefTwins::with(format, &[("core.logAllRefUpdates", "always")]);
        for path in [twins.git(), twins.ours()] {
            let run = |args: &[&str]| Git::stock().run(&path, args).trim().to_owned();
            let run_with = |args: &[&str], input: &str| {
                String::from_utf8(Git::stock().run_with_input(&path, args, input.as_bytes()))
                    .unwrap()
                    .trim()
                    .to_owned()
            };
            let commit = |text: &str, parent: &str| {
                let blob = run_with(&["hash-object", "-w", "--stdin"], text);
                let tree = run_with(&["mktree"], &format!("100644 blob {blob}\tfile\n"));
                (run(&["commit-tree", "-m", text, "-p", parent, &tree]), tree, blob)
            };
            let remove = |id: &str| {
                std::fs::remove_file(path.join(format!("objects/{}/{}", &id[..2], &id[2..]))).unwrap();
            };
            let good = twins.filled("{c}");
            let [whole, no_blob, no_tree, gone] =
                ["whole", "no blob", "no tree", "gone"].map(|text| commit(text, &good));
            let (child, reached) = (commit("child", &gone.0), commit("reached", &good));
            let ids = [&whole.0, &no_blob.0, &no_tree.0, &gone.0, &child.0, &reached.0, &good];
            let tag = twins.filled("{g}");
            for (number, id) in ids.into_iter().enumerate() {
                run(&["update-ref", "-m", &format!("step {number}"), "refs/heads/broken", id]);
            }
            for (number, id) in [&whole.2, &whole.1, &tag, &good].into_iter().enumerate() {
                run(&["update-ref", "-m", &format!("other {number}"), "refs/tags/broken", id]);
            }
            run(&["update-ref", "refs/heads/reached", &reached.0]);
            for id in [&no_blob.2, &no_tree.1, &gone.0, &reached.2] {
                remove(id);
            }
        }
        let expire = ["reflog", "expire", "--stale-fix", "--verbose"];
        let never = ["--expire=never", "--expire-unreachable=never"];
        for more in [
            &["--dry-run", "--all"][..],
            &["--dry-run", "refs/heads/broken"],
            &["--dry-run"],
            &["refs/tags/broken"],
            &["--rewrite", "--all"],
        ] {
            twins.check_said(&[&expire[..], &never, more].concat(), "");
        }
        let logs = |path: &Path| {
            ["refs/heads/broken", "refs/tags/broken"]
                .map(|name| Git::stock().run(path, &["reflog", "--format=%H %gs", name]))
        };
        assert_eq!(logs(&twins.ours()), logs(&twins.git()), "{format:?}");
    }
}
