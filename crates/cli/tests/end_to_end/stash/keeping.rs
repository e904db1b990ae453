//! `stash push`, `save` and `create`.

use super::{Twins, Who};

#[test]
fn everything_that_can_change() {
    let twins = Twins::new();
    twins.check("stash");
    twins.both(
        "echo c >> a; git rm -q --cached b; echo n > n; git add n; echo more >> n; rm d/c; chmod +x d/e/f; \
         ln -s a link; git add link; echo u > untracked",
    );
    twins.check("stash");
    twins.check("stash list");
    twins.check("stash pop");
    twins.check("stash push -m 'hello  there'");
    twins.check("stash pop --index");
}

#[test]
fn what_is_staged_and_what_is_not() {
    let twins = Twins::new();
    twins.both("echo c >> a; git add a; git show HEAD:a > a; echo x > n; git add n; rm n");
    twins.check("stash push -q");
    twins.both("git rm -q --cached a; echo u > u");
    twins.check("stash -u");
    twins.both("git rm -q --cached a; echo u > a");
    twins.check("stash save -u some words here");
    twins.both("rm a; mkdir a; echo x > a/x; git add -A; echo y > a/y");
    twins.check("stash -u");
    // Git prints an error meanwhile, but has the same result.
    twins.alone(Who::Git, "stash pop");
    twins.alone(Who::Packrace, "stash pop");
    twins.check_state("stash pop");
}

#[test]
fn what_is_no_file() {
    for change in ["rm a; mkfifo a", "rm -r d; ln -s / d", "mkfifo u; echo x > v"] {
        let twins = Twins::new();
        twins.both(change);
        twins.check("stash");
        twins.both("git reset -q; test -h d && rm d || true; test -p a && rm a || true");
        twins.check("stash -u");
        twins.check("stash pop");
    }
}

#[test]
fn flags_of_entries() {
    let twins = Twins::new();
    twins.both("git update-index --assume-unchanged a; echo y >> b");
    twins.check("stash");
    twins.both("git update-index --skip-worktree b; echo z >> b");
    twins.check("stash");
    twins.check("stash pop");
    let twins = Twins::new();
    twins.both("git config core.fileMode false; chmod +x a");
    twins.check("stash");
    twins.both("echo x >> a; git update-index --index-version 4; git update-index --split-index");
    twins.check("stash -q");
    twins.check("stash pop --index");
}

#[test]
fn submodules_are_left_alone() {
    let twins = Twins::new();
    twins.both(
        "git init -q sub; git -C sub commit -q --allow-empty -m s; git -c advice.addEmbeddedRepo=false add sub; \
         git commit -qm sub; git -C sub commit -q --allow-empty -m s2",
    );
    twins.check("stash");
    twins.both("echo x >> a; git add sub");
    twins.check("stash");
    twins.check("stash pop");
}

#[test]
fn untracked_and_ignored_files() {
    let twins = Twins::new();
    twins.both("echo '*.o' > .gitignore; git add .gitignore; git commit -qm ignore");
    twins.both("mkdir -p x/y empty/er; echo o > x/y/z.o; echo o > q.o; echo u > x/u; printf '' > zero");
    twins.check("stash -u");
    twins.check("stash pop");
    twins.check("stash push --all");
    twins.check("stash pop -q");
    twins.both("mkdir many; for n in $(seq 1 120); do echo $n > many/$n; done; git init -q nested");
    twins.check("stash push --include-untracked -m many");
    twins.check("stash pop");
}

#[test]
fn the_index_stays() {
    let twins = Twins::new();
    twins
        .both("echo c >> a; git add a; echo d >> a; echo e >> b; rm d/c; echo n > n; git add n; echo m >> n");
    twins.check("stash --keep-index");
    twins.check("stash pop");
    twins.both("git reset -q --hard; echo n > n; git add n; echo u > u; git rm -q b");
    twins.check("stash push -k -u");
    twins.check("stash drop");
}

#[test]
fn only_what_is_staged() {
    let twins = Twins::new();
    twins.both("sed 's/^a 3$/X/' a > t; mv t a; git add a; sed 's/^a 15$/Y/' a > t; mv t a; git rm -q b");
    twins.check("stash push --staged");
    twins.check("stash push --staged");
    twins.check("stash pop");
    twins.both("git reset -q --hard; echo c > n; git add n; echo d >> n; echo e >> b");
    twins.check("stash -S");
    twins.both("git reset -q --hard; rm -f n; git stash clear");
    twins.check("stash -S -k");
    twins.check("stash push -S -u");
}

#[test]
fn only_some_paths() {
    let twins = Twins::new();
    twins.both("echo c >> a; git add a; echo e >> d/c; echo g >> b; echo n > d/n; git add d/n; echo u > d/u");
    twins.check("stash push -- d");
    twins.check("stash pop");
    twins.check("stash push -u -m x -- d");
    twins.check("stash pop");
    twins.check("stash push -k -- a");
    twins.check("stash push nothing");
    twins.check("stash push a nothing");
    twins.check("stash push -- 'd/*' ':!d/c'");
    twins.check_below("d", "stash push c");
    twins.check_below("d", "stash push nothing");
    twins.check_below("d/e", "stash pop");
    twins.both("printf '\"b\"\\r\\na\\n' > ../list");
    twins.check("stash push --pathspec-from-file=../list");
    twins.check("stash pop -q");
    twins.both("printf 'b\\0' > ../list");
    twins.check("stash push --pathspec-from-file=- --pathspec-file-nul < ../list");
    twins.both("printf 'c\\n' > d/list; printf '\\n' > d/empty; echo x >> d/c; echo y >> d/e/f");
    twins.check("-C d stash push --pathspec-from-file=list");
    twins.check("-C d -C e stash push --pathspec-from-file=../empty");
    twins.check("-C d/e add -v --pathspec-from-file=../empty");
    twins.both("printf 'f\\n' > d/list; echo x >> d/c");
    twins.check("-C d/e add -v --pathspec-from-file=../list");
    twins.check("-C d -C e add --pathspec-from-file=list");
    twins.check("add --pathspec-file-nul");
    twins.check("stash push --pathspec-from-file=nowhere");
    twins.check("stash push --pathspec-from-file=../list a");
    twins.check("stash push --pathspec-file-nul");
}

#[test]
fn made_without_being_kept() {
    let twins = Twins::new();
    twins.check("stash create");
    twins.both("echo c >> a; echo u > u; git add a; echo d >> a");
    twins.check("stash create");
    twins.check("stash create some words");
    twins.check("stash store $(git stash create words)");
    twins.check("stash store -m 'x  y' $(git stash create)");
    twins.check("stash list");
    twins.check("stash apply $(git stash create) ");
    for line in ["stash store", "stash store HEAD", "stash store nothing", "stash store -q nothing"] {
        twins.check(line);
    }
}

#[test]
fn where_there_is_nothing_to_begin_with() {
    let twins = Twins::after("git init -q -b main .");
    for line in ["stash", "stash -q", "stash create", "stash list", "stash pop", "stash clear", "stash show"]
    {
        twins.check(line);
    }
    twins.both("echo x > x; git add x");
    twins.check("stash -u");
    let twins = Twins::new();
    twins.both("git checkout -q --detach; echo c >> a");
    twins.check("stash");
    twins.check("stash pop");
    twins.both("git add -N with*; touch new; git add -N new");
    twins.check("stash");
}

#[test]
fn conflicts_and_locks() {
    let twins = Twins::new();
    twins.both(
        "git checkout -qb o; echo o >> a; git commit -qam o; git checkout -q main; echo m >> a; git commit -qam m; \
         echo w >> b; git stash -q; git merge -q o || true",
    );
    for line in ["stash", "stash push b", "stash create", "stash apply", "stash pop"] {
        twins.check(line);
    }
    let twins = Twins::new();
    twins.both("echo c >> a; git stash -q; echo d >> b; touch .git/index.lock");
    for line in ["stash", "stash apply", "stash pop", "stash list", "stash drop"] {
        let git = twins.path(Who::Git);
        let theirs = twins.sh(Who::Git, "", &format!("git {line}"));
        let ours = twins.sh(Who::Packrace, "", &format!("{} {line}", super::PACKRACE));
        // Git 2.55 says before its last line why the lock cannot be taken.
        let [ours, theirs] = [ours, theirs].map(|output| {
            let (code, out, errors) = super::said(&output);
            (code, out, errors.lines().last().map(str::to_owned))
        });
        assert_eq!(ours, theirs, "{line} in {git:?}");
    }
}

#[test]
fn content_is_converted() {
    let twins = Twins::new();
    twins.both(
        "printf '*.txt text eol=crlf\\n*.id ident\\n' > .gitattributes; printf 'one\\r\\ntwo\\r\\n' > x.txt; \
         echo '$Id$' > y.id; git add .; git commit -qm attributes; git reset -q --hard; \
         printf 'one\\r\\nthree\\r\\n' > x.txt; echo more >> y.id; printf 'u\\r\\n' > u.txt",
    );
    twins.check("stash -u");
    twins.check("stash pop");
}
