//! Packs whose deltas could be much better.

use packrace_maintenance::{DeltaFacts, MaintenanceSettings, SearchGain, Task, measure};
use packrace_os::clock::time_of_day;
use packrace_testkit::{Git, Random};
use tempfile::TempDir;

use crate::{Occasion, assert_sound, facts, maintain, open, planned};

const FILES: usize = 16;
const COMMITS: usize = 720;

/// A history whose files have 3,000 bytes in common. By size, no version is next to one of its own file.
fn history(own_bytes: usize) -> TempDir {
    let (dir, git, mut random) = (packrace_testkit::scratch_dir(), Git::stock(), Random::new(7));
    git.run(dir.path(), &["init", "-q", "--bare", "-b", "main"]);
    let common = random.bytes(3000);
    let own: Vec<Vec<u8>> = (0..FILES).map(|_| random.bytes(own_bytes)).collect();
    let mut stream = Vec::new();
    for commit in 0..COMMITS {
        let file = commit % FILES;
        let blob = [&common[..], &own[file], &vec![b'x'; commit]].concat();
        let text = format!(
            "commit refs/heads/main\ncommitter A <a@b> {} +0000\ndata 2\n-\nM 100644 inline {file}\ndata {}\n",
            1_700_000_000 + commit,
            blob.len()
        );
        stream.extend_from_slice(text.as_bytes());
        stream.extend_from_slice(&blob);
        stream.push(b'\n');
    }
    git.run_with_input(dir.path(), &["fast-import", "--quiet"], &stream);
    dir
}

/// Packs everything; `is_named` tells whether git knows the path of each object.
fn pack(dir: &TempDir, is_named: bool, window: &str) {
    let git = Git::stock();
    git.run(dir.path(), &["repack", "-adq"]);
    let old = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
    let old: Vec<_> = old.map(|entry| entry.unwrap().path()).collect();
    let mut objects = git.run(dir.path(), &["rev-list", "--all", "--objects"]);
    if !is_named {
        objects = objects.lines().map(|line| format!("{}\n", &line[..40])).collect();
    }
    let window = format!("--window={window}");
    let args = ["pack-objects", "-q", "--threads=1", "--no-reuse-delta", &window, "objects/pack/pack"];
    git.run_with_input(dir.path(), &args, objects.as_bytes());
    old.iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

fn deltas(dir: &TempDir) -> DeltaFacts {
    facts(dir.path(), time_of_day()).deltas.expect("a sample")
}

#[test]
fn poor_deltas_are_searched_anew() {
    let dir = history(2500);
    pack(&dir, false, "2");
    let before = facts(dir.path(), time_of_day());
    let deltas_before = before.deltas.clone().expect("a sample");
    assert!(deltas_before.whole * 2 < deltas_before.sampled, "{deltas_before:?}");
    assert!(deltas_before.gain.is_some_and(|gain| gain.saved_percent() > 50), "{deltas_before:?}");
    assert_eq!(planned(dir.path(), Occasion::Served), [Task::Gc]);
    assert_eq!(maintain(dir.path()), [Task::Gc]);
    assert_sound(dir.path(), "searched");
    let after = facts(dir.path(), time_of_day());
    assert!(after.packed_bytes() * 2 < before.packed_bytes(), "{after:?}");
    assert!(after.deltas.is_none_or(|deltas| deltas.is_searched));
    assert_eq!(planned(dir.path(), Occasion::Asked), []);
}

#[test]
fn good_deltas_are_kept() {
    // Large files, so that the pack is sampled.
    let dir = history(70_000);
    pack(&dir, true, "10");
    let found = facts(dir.path(), time_of_day());
    assert!(deltas(&dir).gain.is_some_and(|gain| gain.saved_percent() < 25), "{found:?}");
    assert!(!planned(dir.path(), Occasion::Asked).contains(&Task::Gc), "{found:?}");
}

#[test]
fn an_estimate_is_made_once_for_a_pack() {
    let dir = history(2500);
    pack(&dir, false, "2");
    let repository = open(dir.path());
    let settings = MaintenanceSettings::of(&repository).unwrap();
    let made_up = SearchGain { stored_bytes: 100, searched_bytes: 99 };
    let gain_after = |earlier: &DeltaFacts| {
        let facts = measure(&repository, &settings, time_of_day(), Some(earlier));
        facts.unwrap().deltas.and_then(|deltas| deltas.gain)
    };
    let earlier = DeltaFacts { gain: Some(made_up), ..deltas(&dir) };
    assert_eq!(gain_after(&earlier), Some(made_up));
    let of_another = DeltaFacts { pack: "pack-0".to_owned(), ..earlier };
    assert_ne!(gain_after(&of_another), Some(made_up), "another pack");
}

/// Nothing can be estimated then; the other tasks are planned all the same.
#[test]
fn missing_objects_prevent_only_the_estimate() {
    let dir = history(2500);
    let git = Git::stock();
    pack(&dir, false, "2");
    // As in `estimate`, one of the parts is in the middle.
    let lost = git.run(dir.path(), &["rev-parse", &format!("main~{}:{}", COMMITS / 2, 3)]);
    let objects = git.run(dir.path(), &["rev-list", "--all", "--objects"]);
    let ids = objects.lines().map(|line| &line[..40]).filter(|id| *id != lost.trim());
    let kept = ids.map(|id| format!("{id}\n")).collect::<String>();
    let old = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
    let old: Vec<_> = old.map(|entry| entry.unwrap().path()).collect();
    git.run_with_input(dir.path(), &["pack-objects", "-q", "objects/pack/pack"], kept.as_bytes());
    old.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(deltas(&dir).gain, None);
    assert!(planned(dir.path(), Occasion::Asked).contains(&Task::CommitGraph));
}
