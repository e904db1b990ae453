//! `packrace write-tree` compared with `git write-tree`.

use packrace_testkit::Git;

use crate::index_twins::IndexTwins;
use crate::running::copy;

#[test]
fn trees_and_what_is_known_of_them() {
    for init in [&[][..], &["--object-format=sha256"]] {
        let twins = IndexTwins::new(init);
        let check = |args: &str| twins.check(&format!("write-tree {args}"), "");
        for args in [
            "",
            "x",
            "--prefix=d",
            "--prefix=d/",
            "--prefix=nodir/",
            "--prefix=a",
            "--prefix",
            "--prefix=",
            "--prefix=/",
            "--prefix d/",
            "--bogus",
            "--no-missing-ok",
        ] {
            check(args);
        }
        twins.prepare("git update-index --add --cacheinfo 100644,{1},miss");
        ["", "--missing-ok", ""].iter().for_each(|args| check(args));
        twins.prepare("printf '100644 {a} 1\\tu\\n100644 {a} 2\\tu\\n100644 {a} 2\\tw/x\\n' | git update-index --index-info");
        ["", "--missing-ok"].iter().for_each(|args| check(args));
        twins.prepare("git reset -q --hard; for n in $(seq 13); do printf \"100644 {a} 1\\tc$n\\n\"; done | git update-index --index-info");
        check("");
        twins.prepare("git reset -q --hard; git update-index --add --cacheinfo 160000,{1},sm");
        check("");
        twins.prepare("echo z > itf; git add -N itf");
        check("");
        twins.prepare("mkdir -p p/q; echo z > p/q/itf; git add -N p/q/itf");
        ["", "--prefix=p", "--prefix=p/q/"].iter().for_each(|args| check(args));
        twins.prepare("rm .git/index");
        ["", "--missing-ok --prefix=d/"].iter().for_each(|args| check(args));
        twins.prepare("git reset -q --hard; touch .git/index.lock");
        check("");
        twins.prepare("rm .git/index.lock; git update-index --add --cacheinfo 100644,{t},wrong");
        check("");
        twins.check_in("d", "write-tree", "");
    }
}

#[test]
fn known_trees_are_kept_and_forgotten_as_by_git() {
    let twins = IndexTwins::new(&[]);
    twins.prepare(
        "mkdir -p deep/a/b/c deep.x deep-x
         for f in deep/a/b/c/f deep/a/g deep.x/f deep-x/f deep0; do echo $f > $f; done; git add .",
    );
    twins.check("write-tree", "");
    twins.prepare("echo new > deep/a/g");
    for args in [
        "update-index deep/a/g",
        "write-tree",
        "update-index --assume-unchanged deep.x/f",
        "update-index --chmod=+x deep-x/f",
        "write-tree --prefix=deep-x",
        "update-index --force-remove deep/a/b/c/f",
        "update-index --replace --add --cacheinfo 100644,{a},deep/a",
        "write-tree",
        "update-index --add --replace --cacheinfo 100644,{a},deep0/x",
        "update-index --refresh",
        "write-tree",
    ] {
        twins.check(args, "");
    }
}

/// A real history: the trees of its commits are rebuilt from their entries alone.
#[test]
fn trees_of_a_history() {
    let repo = packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Tiny).build();
    let dir = packrace_testkit::scratch_dir();
    copy(repo.path(), &dir.path().join("r"));
    let top = dir.path().join("r");
    let commits = Git::stock().run(&top, &["rev-list", "--all", "-n", "20"]);
    for commit in commits.lines() {
        let tree = Git::stock().run(&top, &["rev-parse", &format!("{commit}^{{tree}}")]);
        let listed = Git::stock().run(&top, &["ls-tree", "-r", "-z", commit]);
        let _ = std::fs::remove_file(top.join("index"));
        let output = crate::running::packrace(&top, &["update-index", "-z", "--index-info"], &listed);
        assert!(output.status.success(), "{output:?}");
        let output = crate::running::packrace(&top, &["write-tree"], "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), tree);
    }
}
