//! `stash apply`, `pop` and `branch`.

use super::{Twins, Who};

/// Stashes a change, commits another one, and applies the stash.
fn check(stashed: &str, meanwhile: &str, lines: &[&str]) {
    let twins = Twins::new();
    twins.both(stashed);
    twins.check("stash -q");
    twins.both(meanwhile);
    for line in lines {
        twins.check(line);
    }
}

const CHANGE: &str = "sed 's/^a 5$/stash/' a > t; mv t a";
const OTHER: &str = "sed 's/^a 5$/up/' a > t; mv t a; git commit -qam up";

#[test]
fn beside_other_changes() {
    check(CHANGE, "echo up >> a; git commit -qam up", &["stash pop"]);
    check(CHANGE, "echo d >> b; git add b; echo e >> d/c", &["stash pop"]);
    check(CHANGE, "echo d >> a", &["stash pop", "stash pop -q", "stash apply --index"]);
    check("echo c >> a", "echo c >> a; git commit -qam same", &["stash pop"]);
    check("git rm -q b; echo c >> a", "git rm -q b; git commit -qm gone", &["stash pop"]);
    check("echo n > n; git add n", "echo v > n", &["stash pop", "stash apply"]);
    check("echo n > n; git add n", "mkdir n; echo x > n/x", &["stash pop"]);
    check("mkdir n; echo n > n/n; git add n", "echo x > n", &["stash pop"]);
    check("chmod +x a; rm b; ln -s a b", "echo c >> a; git commit -qam c", &["stash pop"]);
}

#[test]
fn conflicts() {
    let lines = ["stash apply", "stash pop"];
    check(CHANGE, OTHER, &lines);
    check(CHANGE, &format!("git config merge.conflictStyle diff3; {OTHER}"), &lines);
    check(CHANGE, &format!("git config merge.conflictStyle zdiff3; {OTHER}"), &["stash pop"]);
    check(&format!("{CHANGE}; echo s >> b; git add b"), OTHER, &["stash apply --index"]);
    check(&format!("{CHANGE}; echo s >> b"), OTHER, &["stash pop"]);
    check(&format!("{CHANGE}; git add a"), OTHER, &["stash pop --index"]);
    check(CHANGE, "git rm -q a; echo up >> b; git commit -qam gone", &["stash pop"]);
    check("git rm -q b", "echo up >> b; git commit -qam up", &["stash pop"]);
    check("echo 1 > n; git add n", "echo 2 > n; git add n; git commit -qm n", &["stash pop"]);
    check("ln -s a l; git add l", "ln -s b l; git add l; git commit -qm l", &["stash pop"]);
    check("git mv a z", "git mv a y; git commit -qm y", &["stash pop"]);
}

#[test]
fn renames() {
    check(CHANGE, "git mv a z; git commit -qm z", &["stash pop"]);
    check("git mv a z", OTHER, &["stash pop"]);
    check("git mv a z", OTHER, &["stash pop --index"]);
    check("echo new > d/new; git add d/new", "git mv d q; git commit -qm q", &["stash pop"]);
    // Settings of merges that git ignores here, and one that it obeys.
    let configured = "git config merge.renames false; git mv a z; git commit -qm z";
    check(CHANGE, configured, &["stash pop"]);
    for setting in ["true", "false"] {
        let configured = format!("git config merge.directoryRenames {setting}; git mv d q; git commit -qm q");
        check("echo new > d/new; git add d/new", &configured, &["stash pop"]);
    }
}

#[test]
fn what_was_staged() {
    let twins = Twins::new();
    twins.both("echo c >> a; git add a; echo d >> a; echo n > n; git add n; git rm -q b; echo e >> d/c");
    twins.check("stash");
    twins.check("stash apply --index");
    twins.both("git reset -q --hard");
    twins.both("sed 's/^a 2$/up/' a > t; mv t a; git commit -qam up");
    twins.check("stash apply --index");
    twins.both("git reset -q --hard; rm -f n");
    twins.check("stash pop");
}

#[test]
fn untracked_files_in_the_way() {
    for meanwhile in ["echo v > u", "echo u > u", "mkdir u", "echo x > x"] {
        let twins = Twins::new();
        twins.both("echo u > u; mkdir x; echo x > x/x; echo c >> a");
        twins.check("stash -u");
        twins.both(meanwhile);
        twins.check("stash pop");
    }
}

#[test]
fn on_a_branch_of_its_own() {
    let twins = Twins::new();
    twins.both("echo c >> a; git add a; echo d >> b; echo u > u");
    twins.check("stash -q -u");
    twins.both("echo x >> a; git commit -qam x; echo y >> d/c");
    twins.check("stash branch main");
    twins.check("-c advice.refSyntax=false stash branch 'no branch'");
    twins.check("stash branch");
    twins.check("stash branch new nothing");
    twins.check("stash branch new");
    // Git resets with a separate command, which writes a line to the reflog.
    let log = |who| {
        let git = packrace_testkit::Git::stock();
        let lines = git.run(&twins.path(who), &["log", "-g", "--format=%H %gs", "HEAD"]);
        let lines = lines.lines().filter(|line| !line.ends_with(" reset: moving to HEAD"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(log(Who::Packrace), log(Who::Git));
    twins.both(
        "git reset -q --hard; rm -f u; echo z >> a; git stash -q; git checkout -q main; echo dirty >> a",
    );
    twins.check("stash branch other");
}

#[test]
fn how_a_work_tree_stands() {
    let twins = Twins::new();
    twins.both("git branch base; echo x >> b; git commit -qam x; git branch -q -u base");
    twins
        .both("echo c >> a; git stash -q; mkdir new; echo 1 > new/1; echo 2 > new/2; printf x > 'tab\there'");
    twins.check("stash apply");
    twins.both(
        "git reset -q --hard; git branch -q -u main base 2>/dev/null; git config status.relativePaths false",
    );
    twins.check_below("d", "stash apply");
    twins.both("git reset -q --hard; git config advice.statusHints false; git mv b moved; rm d/c");
    twins.check("stash apply");
    twins.both("git reset -q --hard; git config status.showUntrackedFiles no; git checkout -q --detach");
    twins.check("stash apply");
    twins.both("git reset -q --hard; git config status.showUntrackedFiles all; git config status.short true");
    twins.check("stash apply");
}
