//! What the configuration of a repository allows, in git's words.

use packrace_testkit::{Git, RefFormat};

use super::{Pair, ZERO, commands, said, text};

/// The text of the report, without side-band.
fn report(pair: &Pair, settings: &[&str], lines: &[&str], pack: bool) -> (Vec<String>, String) {
    let script = commands("report-status", lines);
    let script = if pack { script.raw(&pair.pack("")) } else { script };
    let output = pair.answer("packrace", script.bytes(), settings);
    let report = text(&output.stdout);
    let lines = report.split('\n').map(|line| line.get(4..).unwrap_or_default().to_owned());
    (lines.filter(|line| !line.is_empty()).collect(), text(&output.stderr))
}

fn check(pair: &Pair, settings: &[&str], line: &str, expect: &str, words: &str) {
    let before = pair.refs();
    let has_pack = !line.contains(&format!("{ZERO} refs"));
    let (report, errors) = report(pair, settings, &[line], has_pack);
    assert_eq!(report, ["unpack ok", expect], "{settings:?} {line}\n{errors}");
    assert!(errors.contains(words), "{settings:?} {line}\n{errors}");
    if expect.starts_with("ng") {
        assert_eq!(pair.refs(), before);
    }
}

#[test]
fn rules_of_the_configuration() {
    let pair = Pair::new();
    Git::stock()
        .run(&pair.work(), &["push", "-q", "../srv.git", "HEAD:refs/heads/three", "HEAD:refs/hidden/x"]);
    let (one, three) = (pair.id("HEAD~2"), pair.id("HEAD"));
    let rewind = format!("{three} {one} refs/heads/three");
    let delete = format!("{three} {ZERO} refs/heads/three");
    let delete_main = format!("{one} {ZERO} refs/heads/main");
    check(
        &pair,
        &["receive.denyNonFastForwards=true"],
        &rewind,
        "ng refs/heads/three non-fast-forward",
        "error: denying non-fast-forward refs/heads/three (you should pull first)",
    );
    check(
        &pair,
        &["receive.denyNonFastForwards=true"],
        &format!("{one} {three} refs/heads/main"),
        "ok refs/heads/main",
        "",
    );
    Git::stock().run(&pair.server(), &["update-ref", "refs/heads/main", &one]);
    check(
        &pair,
        &["receive.denyDeletes=true"],
        &delete,
        "ng refs/heads/three deletion prohibited",
        "error: denying ref deletion for refs/heads/three",
    );
    let hidden = "receive.hideRefs=refs/hidden";
    check(
        &pair,
        &[hidden],
        &format!("{three} {ZERO} refs/hidden/x"),
        "ng refs/hidden/x deny deleting a hidden ref",
        "",
    );
    check(
        &pair,
        &[hidden],
        &format!("{three} {one} refs/hidden/x"),
        "ng refs/hidden/x deny updating a hidden ref",
        "",
    );
    let current = "ng refs/heads/main deletion of the current branch prohibited";
    check(&pair, &[], &delete_main, current, "By default, deleting the current branch is denied");
    check(
        &pair,
        &["receive.denyDeleteCurrent=refuse"],
        &delete_main,
        current,
        "error: refusing to delete the current branch: refs/heads/main\n",
    );
    check(
        &pair,
        &["receive.denyDeleteCurrent=warn"],
        &delete_main,
        "ok refs/heads/main",
        "warning: deleting the current branch",
    );
    check(&pair, &[], &format!("{ZERO} {one} refs/heads/main"), "ok refs/heads/main", "");
    for name in
        ["foo", "refs", "refs/heads", "refs/x", "refs/heads/a..b", "refs/heads/.a", "refs/../x", "HEAD"]
    {
        let words = format!("error: refusing to update funny ref '{name}' remotely");
        check(&pair, &[], &format!("{ZERO} {one} {name}"), &format!("ng {name} funny refname"), &words);
    }
    check(
        &pair,
        &[],
        &format!("{three} {one} refs/heads/main"),
        "ng refs/heads/main incorrect old value provided",
        "is at",
    );
    check(
        &pair,
        &[],
        &format!("{ZERO} {one} refs/heads/main"),
        "ng refs/heads/main reference already exists",
        "",
    );
    check(
        &pair,
        &[],
        &format!("{ZERO} {one} refs/heads/main/x"),
        "ng refs/heads/main/x refname conflict",
        "",
    );
    let nothing = "1".repeat(40);
    check(
        &pair,
        &[],
        &format!("{ZERO} {nothing} refs/heads/x"),
        "ng refs/heads/x missing necessary objects",
        "",
    );
    check(
        &pair,
        &[],
        &format!("{ZERO} {ZERO} refs/heads/gone"),
        "ok refs/heads/gone",
        "warning: deleting a non-existent ref",
    );
    check(&pair, &[], &delete, "ok refs/heads/three", "");
    pair.check_sound();
}

#[test]
fn deletions_make_room() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let options: &[&str] = if format == RefFormat::Files { &[] } else { &["--ref-format=reftable"] };
        let pair = Pair::with(options);
        let one = pair.id("HEAD~2");
        Git::stock().run(&pair.server(), &["update-ref", "refs/heads/x", &one]);
        let lines = [format!("{ZERO} {one} refs/heads/x/y"), format!("{one} {ZERO} refs/heads/x")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (report, errors) = report(&pair, &[], &lines, true);
        assert_eq!(report, ["unpack ok", "ok refs/heads/x/y", "ok refs/heads/x"], "{errors}");
        pair.check_sound();
    }
}

#[test]
fn refs_through_symbolic_ones() {
    let pair = Pair::new();
    let git = Git::stock();
    git.run(&pair.server(), &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    git.run(&pair.server(), &["symbolic-ref", "refs/heads/loop", "refs/heads/loop2"]);
    git.run(&pair.server(), &["symbolic-ref", "refs/heads/loop2", "refs/heads/loop"]);
    let (one, three) = (pair.id("HEAD~2"), pair.id("HEAD"));
    git.run(&pair.work(), &["push", "-q", "../srv.git", "HEAD:refs/heads/objects"]);
    let lines = |second: &str| {
        vec![format!("{one} {three} refs/heads/alias"), format!("{one} {second} refs/heads/main")]
    };
    let run = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        report(&pair, &["receive.denyDeleteCurrent=ignore"], &lines, true)
    };
    let (report, errors) = run(&lines(ZERO));
    let why = "inconsistent aliased update";
    assert_eq!(
        report,
        ["unpack ok", &format!("ng refs/heads/alias {why}"), &format!("ng refs/heads/main {why}")]
    );
    let short = |id: &str| id[..7].to_owned();
    let words = format!(
        "error: refusing inconsistent update between symref 'refs/heads/alias' ({}..{}) and its target 'refs/heads/main' ({}..0000000)",
        short(&one),
        short(&three),
        short(&one)
    );
    assert!(errors.contains(&words), "{errors}");
    let (report, errors) = run(&[format!("{ZERO} {three} refs/heads/loop")]);
    assert_eq!(report, ["unpack ok", "ng refs/heads/loop broken symref"], "{errors}");
    let (report, errors) = run(&lines(&three));
    assert_eq!(report, ["unpack ok", "ok refs/heads/alias", "ok refs/heads/main"], "{errors}");
    assert!(pair.refs().contains(&format!("refs/heads/main {three}")));
}

/// A repository with a work tree that receives pushes.
struct CheckedOut(Pair);

impl CheckedOut {
    fn new(setting: &str) -> Self {
        let pair = Pair::new();
        let git = Git::stock();
        git.run(pair.root(), &["clone", "-q", "srv.git", "out"]);
        let out = CheckedOut(pair);
        if !setting.is_empty() {
            git.run(&out.path(), &["config", "receive.denyCurrentBranch", setting]);
        }
        out
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.root().join("out")
    }

    fn push(&self, references: &[&str]) -> String {
        let program = format!("--receive-pack={} receive-pack", crate::running::PACKRACE);
        let arguments = [&[program.as_str(), "../out"], references].concat();
        said(&self.0.push_with(Git::stock(), &arguments))
    }

    fn head(&self) -> String {
        Git::stock().run(&self.path(), &["rev-parse", "HEAD"]).trim().to_owned()
    }
}

#[test]
fn branches_that_are_checked_out() {
    let out = CheckedOut::new("");
    let (one, three) = (out.0.id("HEAD~2"), out.0.id("HEAD"));
    let messages = out.push(&["HEAD:refs/heads/main"]);
    assert!(messages.contains("HEAD -> main (branch is currently checked out)"), "{messages}");
    assert!(
        messages.contains("remote: is denied, because it will make the index and work tree inconsistent"),
        "{messages}"
    );
    assert_eq!(out.head(), one);
    let out = CheckedOut::new("refuse");
    let messages = out.push(&["HEAD:refs/heads/main", "HEAD:refs/heads/other"]);
    assert!(
        messages.contains("(branch is currently checked out)") && !messages.contains("is denied, because"),
        "{messages}"
    );
    let out = CheckedOut::new("warn");
    let messages = out.push(&["HEAD:refs/heads/main"]);
    assert!(messages.contains("remote: warning: updating the current branch"), "{messages}");
    assert_eq!(out.head(), three);
    let out = CheckedOut::new("updateInstead");
    let messages = out.push(&["HEAD~1:refs/heads/main"]);
    assert!(out.path().join("two").exists(), "{messages}");
    std::fs::write(out.path().join("two"), "changed").unwrap();
    let messages = out.push(&["HEAD:refs/heads/main"]);
    assert!(messages.contains("(Working directory has unstaged changes)"), "{messages}");
    Git::stock().run(&out.path(), &["add", "two"]);
    let messages = out.push(&["HEAD:refs/heads/main"]);
    assert!(messages.contains("(Working directory has staged changes)"), "{messages}");
    Git::stock().run(&out.path(), &["reset", "-q", "--hard"]);
    let messages = out.push(&["HEAD:refs/heads/main"]);
    assert_eq!(Git::stock().run(&out.path(), &["status", "--porcelain"]), "", "{messages}");
    assert_eq!(out.head(), three);
    // A linked work tree counts, too.
    let out = CheckedOut::new("");
    Git::stock().run(&out.path(), &["worktree", "add", "-q", "-b", "linked", "../linked"]);
    let messages = out.push(&["HEAD:refs/heads/linked"]);
    assert!(messages.contains("HEAD -> linked (branch is currently checked out)"), "{messages}");
}

#[test]
fn the_hook_that_checks_out() {
    let out = CheckedOut::new("updateInstead");
    let hook = out.path().join(".git/hooks/push-to-checkout");
    let messages = "$1 $PWD $GIT_DIR $GIT_WORK_TREE";
    packrace_testkit::write_program(
        &hook,
        &format!("#!/bin/sh\necho {messages} >../../told; git read-tree -u -m HEAD $1\n"),
    );
    let said = out.push(&["HEAD:refs/heads/main"]);
    assert_eq!(out.head(), out.0.id("HEAD"), "{said}");
    assert!(out.path().join("three").exists());
    let place = std::fs::canonicalize(out.path()).unwrap().display().to_string();
    let messages = std::fs::read_to_string(out.0.root().join("told")).unwrap();
    assert_eq!(messages, format!("{} {place}/.git {place}/.git {place}\n", out.0.id("HEAD")));
    packrace_testkit::write_program(&hook, "exit 1\n");
    let said = out.push(&["--force", "HEAD~1:refs/heads/main"]);
    assert!(said.contains("HEAD~1 -> main (push-to-checkout hook declined)"), "{said}");
}

#[test]
fn limits_and_upkeep() {
    let pair = Pair::new();
    pair.config(&[("receive.maxInputSize", "100"), ("receive.updateServerInfo", "true")]);
    let before = pair.refs();
    let messages = said(&pair.push(&["HEAD:refs/heads/big"]));
    assert!(messages.contains("remote: fatal: pack exceeds maximum allowed size (100 bytes)"), "{messages}");
    assert!(messages.contains("(unpacker error)"), "{messages}");
    assert_eq!(pair.refs(), before);
    pair.config(&[("receive.maxInputSize", "0")]);
    let messages = said(&pair.push(&["HEAD:refs/heads/big"]));
    let listed = std::fs::read_to_string(pair.server().join("info/refs")).unwrap_or_default();
    assert!(listed.contains("refs/heads/big"), "{messages}\n{listed}");
    assert!(pair.server().join("objects/info/packs").exists());
    pair.check_sound();
}

#[test]
fn objects_that_fsck_finds_bad() {
    let pair = Pair::new();
    let (tree, parent) = (pair.id("HEAD^{tree}"), pair.id("HEAD"));
    let commit = format!(
        "tree {tree}\nparent {parent}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 01 +0000\n\nbad date\n"
    );
    let arguments = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"];
    let id = Git::stock().run_with_input(&pair.work(), &arguments, commit.as_bytes());
    let refspec = format!("{}:refs/heads/bad", text(&id).trim());
    let push = |settings: &[(&str, &str)]| {
        pair.config(settings);
        said(&pair.push(&["--force", &refspec]))
    };
    let messages = push(&[("transfer.fsckObjects", "true")]);
    assert!(
        messages.contains(": zeroPaddedDate: invalid author/committer line - zero-padded date"),
        "{messages}"
    );
    assert!(messages.contains("remote: fatal: fsck error in packed object"), "{messages}");
    assert!(messages.contains("-> bad (unpacker error)"), "{messages}");
    assert!(!pair.refs().contains("refs/heads/bad"));
    let messages = push(&[("receive.fsck.zeroPaddedDate", "warn")]);
    assert!(messages.contains("remote: warning: object ") && messages.contains("[new branch]"), "{messages}");
    Git::stock().run(&pair.server(), &["update-ref", "-d", "refs/heads/bad"]);
    assert!(push(&[("receive.fsckObjects", "false")]).contains("[new branch]"));
}
