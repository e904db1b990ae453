//! The files beside a pack that a push leaves.

use std::path::PathBuf;

use packrace_testkit::Git;

use super::Pair;

/// More files than become loose objects, with git's default, too.
const FILES: usize = 150;

/// Pushes to a server with this setting, and checks the extensions of the pack's files, and the first bytes
/// of its index.
fn check(setting: &str, extensions: &[&str], index_begins: &[u8]) {
    let pair = Pair::new();
    for number in 0..FILES {
        std::fs::write(pair.work().join(format!("file-{number}")), format!("{number}\n")).unwrap();
    }
    pair.commit("many");
    if let Some((name, value)) = setting.split_once('=') {
        pair.config(&[(name, value)]);
    }
    let output = pair.push(&["main"]);
    assert!(output.status.success(), "{setting}: {}", super::said(&output));
    pair.check_sound();
    let mut files: Vec<PathBuf> = std::fs::read_dir(pair.server().join("objects/pack"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort_unstable();
    let found: Vec<&str> = files.iter().map(|path| path.extension().unwrap().to_str().unwrap()).collect();
    assert_eq!(found, extensions, "{setting}");
    let index = std::fs::read(&files[0]).unwrap();
    assert!(index.starts_with(index_begins), "{setting}: {:?}", &index[..4]);
    let git = Git::stock();
    git.run(&pair.server(), &["verify-pack", files[0].to_str().unwrap()]);
    git.run(&pair.server(), &["fsck", "--strict", "--no-dangling", "--no-progress"]);
}

#[test]
fn an_index_and_a_reverse_index_as_configured() {
    // Version 1 begins with the number of objects whose names begin with a zero byte (gitformat-pack).
    let [version_2, version_1]: [&[u8]; 2] = [b"\xfftOc", b"\0\0\0"];
    check("", &["idx", "pack", "rev"], version_2);
    check("pack.writeReverseIndex=false", &["idx", "pack"], version_2);
    check("pack.indexVersion=1", &["idx", "pack", "rev"], version_1);
}

/// In the words of `index-pack`, which git runs.
#[test]
fn a_version_that_there_is_not() {
    let pair = Pair::new();
    pair.config(&[("receive.unpackLimit", "1"), ("pack.indexVersion", "3")]);
    let before = pair.refs();
    let said = super::said(&pair.push(&["main"]));
    assert!(said.contains("fatal: bad pack.indexVersion=3"), "{said}");
    assert!(said.contains("index-pack abnormal exit"), "{said}");
    assert_eq!(pair.refs(), before);
    pair.check_sound();
}

/// In the words of the program that git runs for so many objects.
#[test]
fn packs_that_are_too_long() {
    let limits = [(None, "unpack-objects"), (Some("1"), "index-pack"), (Some("1000"), "unpack-objects")];
    for (limit, program) in limits {
        let pair = Pair::new();
        let limit = limit.map(|limit| ("receive.unpackLimit", limit));
        pair.config(&[("receive.maxInputSize", "50")]);
        pair.config(limit.as_slice());
        let said = super::said(&pair.push(&["HEAD~1:refs/heads/a-few"]));
        assert!(said.contains(&format!("{program} abnormal exit")), "{limit:?}: {said}");
    }
}
