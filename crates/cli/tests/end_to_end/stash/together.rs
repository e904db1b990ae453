//! Git applies what packrace has stashed, and the other way round.

use super::{Twins, Who, state};

const CHANGES: &str = "echo c >> a; git add a; echo d >> a; git rm -q b; echo n > d/n; git add d/n; echo u > u; \
                       chmod +x d/c; ln -s a link";

#[test]
fn each_brings_back_what_the_other_has_kept() {
    for (keeps, brings) in [(Who::Packrace, Who::Git), (Who::Git, Who::Packrace)] {
        let twins = Twins::new();
        twins.both(CHANGES);
        let before = state(&twins.path(keeps));
        let program = |who: Who| if who == Who::Git { "git" } else { super::PACKRACE };
        for line in ["stash push -u -q", "stash pop --index -q"] {
            let who = if line.contains("push") { keeps } else { brings };
            let done = twins.sh(keeps, "", &format!("{} {line}", program(who)));
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        }
        assert_eq!(state(&twins.path(keeps)), before);
    }
}

#[test]
fn long_work_is_kept_alike() {
    let twins = Twins::new();
    let mut random = packrace_testkit::Random::new(11);
    let paths = ["a", "b", "d/c", "d/e/f", "n", "d/n", "x/y"];
    for round in 0..25 {
        for _ in 0..=random.below(4) {
            let path = paths[random.below(paths.len())];
            let line = match random.below(5) {
                0 => format!("rm -f {path}"),
                1 => format!("mkdir -p $(dirname {path}); echo {round} >> {path}"),
                2 => format!("test ! -e {path} || git add {path}"),
                3 => format!("git rm -q --cached --ignore-unmatch {path}"),
                _ => format!("test ! -e {path} || sed '3d' {path} > t && test ! -e t || mv t {path}"),
            };
            twins.both(&line);
        }
        let option = ["", " -u", " -k", " -u -k"][random.below(4)];
        twins.check(&format!("stash push{option}"));
        if random.one_in(2) {
            let index = if random.one_in(2) { " --index" } else { "" };
            twins.check(&format!("stash pop{index}"));
        }
        if random.one_in(3) {
            twins.both("git reset -q; git add -A; git commit -q --allow-empty -m more");
        } else {
            twins.both("git reset -q --hard; git clean -qfd");
        }
    }
    twins.check("stash list");
}

#[test]
fn entries_of_many_files_are_one_pack() {
    let twins = Twins::new();
    twins.both("mkdir many; for n in $(seq 1 300); do echo $n > many/$n; done");
    twins.check("stash push -u");
    let packs = twins.path(Who::Packrace).join(".git/objects/pack");
    let names = std::fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(names.filter(|path| path.extension().is_some_and(|end| end == "pack")).count(), 1);
    twins.check("stash pop");
    twins.alone(Who::Packrace, "stash list");
}

#[test]
fn syncs_do_not_grow_with_files() {
    let syncs = |count: usize| {
        let twins = Twins::new();
        twins
            .both(&format!("mkdir many; for n in $(seq 1 {count}); do echo $n > many/$n; done; echo c >> a"));
        let line = format!("PACKRACE_IO_REPORT=../report {} stash -u", super::PACKRACE);
        let done = twins.sh(Who::Packrace, "", &line);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let report = std::fs::read_to_string(twins.path(Who::Packrace).join("../report")).unwrap();
        let calls = report.split("\"sync\":{\"calls\":").skip(1);
        calls.map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    for count in [100, 400] {
        // A pack and its index; their directory; the ref; its reflog, and the directories of both; the index;
        // its directory: 18 in all, and 7 if the file system syncs several in one call, which it does while
        // other processes have little to write.
        let found = syncs(count);
        assert!((5..=18).contains(&found), "{found} syncs for {count} files");
    }
}

#[test]
fn nothing_is_taken_away_that_could_not_be_kept() {
    for setup in ["echo c >> a; echo u > u", "mkdir many; for n in $(seq 1 200); do echo $n > many/$n; done"]
    {
        let twins = Twins::new();
        twins.both(setup);
        let before = state(&twins.path(Who::Packrace));
        // Every write fails.
        let line = format!("trap '' XFSZ; ulimit -f 0; {} stash -u", super::PACKRACE);
        let done = twins.sh(Who::Packrace, "", &line);
        assert!(!done.status.success());
        assert!(!String::from_utf8_lossy(&done.stderr).contains("panicked"));
        assert_eq!(state(&twins.path(Who::Packrace)), before);
        assert!(!twins.path(Who::Packrace).join(".git/index.lock").exists());
        twins.check("stash -u");
    }
}
