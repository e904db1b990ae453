//! `stash list`, `show`, `drop` and `clear`, and invalid arguments.

use super::Twins;

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
