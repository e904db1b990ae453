//! Maintenance after a push that no server maintains: `receive.autogc`, by the rules of the settings.

use super::*;

const PUSHES: usize = 5;

fn packs(repository: &Path) -> usize {
    let names = std::fs::read_dir(repository.join("objects/pack")).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack")).count()
}

/// Pushes commits, each of which is kept as a pack. Returns how many packs there are then, beyond those of before.
fn packs_after_pushes(settings: &str, config: &[(&str, &str)]) -> (Guarded, usize) {
    let guarded = Guarded::alone(&format!("[push]\nallowed = true\n{settings}"));
    let repository = guarded.repository();
    Git::stock().run(&repository, &["repack", "-adq"]);
    let owners = guarded.file("owners");
    packrace_testkit::write_program(&owners, &format!("#!/bin/sh\n: >'{}'\n", guarded.file("ran").display()));
    let always = [
        ("receive.unpackLimit", "1"),
        ("gc.autoPackLimit", "2"),
        ("maintenance.autoDetach", "false"),
        ("gc.recentObjectsHook", owners.to_str().unwrap()),
    ];
    for (name, value) in always.iter().chain(config) {
        Git::stock().run(&repository, &["config", name, value]);
    }
    guarded.works("bob", &["clone", "--quiet", "ssh://host/a.git", "clone"]);
    for _ in 0..PUSHES {
        guarded.works("bob", &["-C", "clone", "commit", "--quiet", "--allow-empty", "-m", "more"]);
        guarded.works("bob", &["-C", "clone", "push", "--quiet", "origin", "HEAD:refs/heads/topic"]);
    }
    Git::stock().run(&repository, &["fsck", "--strict"]);
    let left = packs(&repository) - 1;
    (guarded, left)
}

#[test]
fn packs_do_not_pile_up() {
    let (guarded, left) = packs_after_pushes("", &[]);
    assert!(left < PUSHES - 1, "{left}");
    // As in a server, the owner's programs do not decide what is kept.
    assert!(!guarded.file("ran").exists());
}

#[test]
fn settings_and_the_repository_may_forbid_it() {
    for (settings, config) in [
        ("[maintenance]\nmode = \"off\"\n", &[][..]),
        ("", &[("receive.autogc", "false")]),
        ("", &[("gc.autoPackLimit", "0")]),
    ] {
        let (_guarded, left) = packs_after_pushes(settings, config);
        assert_eq!(left, PUSHES, "{settings:?} {config:?}");
    }
}
