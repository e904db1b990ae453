//! `packrace symbolic-ref` and `show-ref` print and do the same as git's commands.

use crate::ref_twins::in_both_formats;

/// Words are separated by spaces, and `''` is the empty one.
const SYMBOLIC: &[&str] = &[
    "",
    "HEAD",
    "--short HEAD",
    "refs/heads/chain",
    "--no-recurse refs/heads/chain",
    "--recurse refs/heads/chain",
    "--short refs/heads/sym",
    "--short refs/remotes/o/HEAD",
    "refs/heads/a",
    "-q refs/heads/a",
    "nope",
    "-q nope",
    "refs/heads/dangling",
    "HEAD foo",
    "HEAD refs/heads/x",
    "HEAD refs/tags/light",
    "HEAD refs/heads/main",
    "refs/heads/q a~b",
    "refs/heads/q refs/heads/..",
    "refs/heads/q HEAD",
    "bad..name refs/heads/a",
    "-d HEAD",
    "-d refs/heads/q",
    "-d refs/heads/a",
    "-d nono",
    "-q -d nono",
    "-d",
    "-d a b",
    "-m '' HEAD refs/heads/main",
    "-m why HEAD refs/heads/a",
    "HEAD refs/heads/main",
    "a b c",
    "-d refs/heads/sym extra",
    "refs/heads/loose refs/heads/main",
    "refs/heads/a/b refs/heads/main",
    "refs/heads/new refs/heads/a/b/c",
    "--short refs/heads/new",
    "refs/stash refs/heads/a",
    "FOO refs/heads/a",
    "FOO",
    "foo refs/heads/a",
    "refs/heads/loop refs/heads/loop",
    "refs/heads/loop",
    "-d refs/heads/loop",
    "-d -m x refs/heads/new",
    "--delete refs/heads/chain",
    "-d refs/heads/dangling",
    "--no-such",
    "-m x HEAD",
    "--short -q HEAD",
    "FETCH_HEAD refs/heads/a",
    "refs/heads refs/heads/a",
    "HEAD refs",
    "HEAD refs/",
];

const SHOWN: &[&str] = &[
    "",
    "--head",
    "-d",
    "--dereference heavy",
    "main",
    "heads/main",
    "refs/heads/main",
    "er/one",
    "ain",
    "nono",
    "--branches",
    "--heads",
    "--tags",
    "--branches --tags",
    "--branches main",
    "-s",
    "-s main",
    "--hash=7 main",
    "--hash=4",
    "--hash=0 main",
    "--abbrev",
    "--abbrev=6 main",
    "--hash --abbrev",
    "--abbrev=100 main",
    "--hash=3 main",
    "--verify",
    "--verify main",
    "--verify refs/heads/main",
    "--verify HEAD",
    "--verify refs/heads/main refs/heads/nono",
    "--verify -q refs/heads/nono",
    "--verify -q refs/heads/main",
    "-q main",
    "-q nono",
    "--verify -s refs/heads/main",
    "--verify -d refs/tags/heavy",
    "--verify -s -d refs/tags/also",
    "--exists refs/heads/main",
    "--exists refs/heads/nono",
    "--exists main",
    "--exists refs/heads",
    "--exists",
    "--exists a b",
    "--exists bad..",
    "--exists refs/heads/dangling",
    "--exists HEAD",
    "--exists --verify x",
    "--exists --exclude-existing",
    "--verify --exclude-existing x",
    "--verify --exists --exclude-existing x",
    "--head main",
    "--head HEAD",
    "--head nono",
    "-- main",
    "--verify refs/heads/dangling",
    "-d -s",
    "-d --abbrev also",
    "sym",
    "-q --head",
    "HEAD",
    "o/HEAD",
    "--no-such",
    "--no-head main",
    "--verify FOO",
    "--verify refs/heads/sym",
    "--hash=x",
    "--hash 7",
    "--verify --abbrev refs/heads/main",
    "--verify --hash=6 refs/heads/main",
    "--verify refs/heads",
    "--verify ../x",
    "--tags --head",
    "--no-tags --branches",
    "refs",
    "refs/",
    "/",
    "''",
    "--verify ''",
];

fn words(command: &'static str, list: &'static str) -> Vec<&'static str> {
    let words = list.split(' ').filter(|word| !word.is_empty());
    [command].into_iter().chain(words.map(|word| if word == "''" { "" } else { word })).collect()
}

#[test]
fn symbolic_refs() {
    in_both_formats(&[("core.logAllRefUpdates", "true")], |twins| {
        twins.check(&["symbolic-ref", "refs/heads/chain", "refs/heads/sym"], "");
        for list in SYMBOLIC {
            twins.check(&words("symbolic-ref", list), "");
        }
    });
}

#[test]
fn shown_refs() {
    in_both_formats(&[], |twins| {
        for list in SHOWN {
            twins.check_said(&words("show-ref", list), "");
        }
        let lines = "{c} refs/heads/main\n{c} refs/heads/nono\n{c} refs/tags/xx^{}\nrefs/heads/none\n\
                     refs/heads/bad..name\nfoo\n{c}\trefs/heads/tabbed\n\n";
        for option in ["--exclude-existing", "--exclude-existing=refs/heads/", "--exclude-existing=refs/tags"]
        {
            twins.check_said(&["show-ref", option], lines);
        }
        twins.check_said(&["show-ref", "--exclude-existing"], "refs/heads/nono");
    });
}
