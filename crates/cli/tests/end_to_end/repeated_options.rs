//! Repeated options: the last one counts, or all do, as in git.

use crate::running::PACKRACE;
use crate::stash::Twins;

#[test]
fn the_last_counts() {
    let twins = Twins::new();
    twins.both("echo c >> a; echo n > n");
    for line in [
        "add -n -n n",
        "add -N -N n",
        "add --chmod=-x --chmod=+x b",
        "add -v -v --no-verbose -v a",
        "hash-object -w -w a",
        "hash-object -t commit -t blob --path=x --path=y a",
        "write-tree --prefix=d --prefix=d/e/",
        "stash push -q -q -m one -m two",
        "stash list -n 1 -n 2",
        "stash list -n 2 -n 0",
        "stash show --stat --stat",
        "stash apply --index --index -q -q",
        "update-ref -m a -m b refs/heads/x HEAD",
        "symbolic-ref -q -q HEAD",
        "show-ref -d -d --hash=4 --hash=7",
        "for-each-ref --count=1 --count=2 --format=a --format='%(refname)'",
        "for-each-ref --sort=refname --sort=-refname --format='%(refname)'",
        "pack-refs --all --all",
        "reflog show -n 1 -n 2 HEAD",
        "update-index --refresh --refresh -q -q",
        "--git-dir=nowhere --git-dir=.git show-ref --head --head",
    ] {
        twins.check(line);
    }
}

#[test]
fn filters_add_up() {
    let twins = Twins::new();
    twins.both("seq 1000 > large; git add large; git commit -qm second");
    let program = |name: &str| format!("{name} pack-objects --revs --all --stdout -q");
    for filters in [
        "--filter=blob:limit=500 --filter=tree:2",
        "--filter=tree:2 --filter=blob:limit=500",
        "--filter=blob:none --no-filter",
        "--filter=blob:none --no-filter --filter=blob:limit=500",
    ] {
        let objects = |who, name: &str| {
            let line = format!(
                "{} {filters} < /dev/null > x.pack; git index-pack x.pack > x; git show-index < x.idx",
                program(name)
            );
            twins.says(who, &format!("{line} | cut -d' ' -f2; rm -f x.*"))
        };
        let theirs = objects(crate::stash::Who::Git, "git");
        let ours = objects(crate::stash::Who::Packrace, PACKRACE);
        assert_eq!(ours, theirs, "{filters}: git has the right");
    }
}

#[test]
fn what_may_be_said_once() {
    let twins = Twins::new();
    twins.both("git repack -adq; cp .git/objects/pack/*.pack x.pack");
    twins.check("index-pack -o x.idx -o y.idx x.pack");
    twins.check("index-pack -v --progress-title=a --progress-title=b x.pack");
}
