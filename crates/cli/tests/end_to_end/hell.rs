//! Packs that are made to use up memory: they are accepted or refused within 256 MiB of private memory.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::{Git, clean_environment, sampled};

use crate::running::{PACKRACE, assert_no_panic};

/// Limit for a pack of 64 MiB.
const MEMORY_KIB: u64 = 256 << 10;

/// The longest pack.
const MAX_PACK_BYTES: usize = 64 << 20;

/// Longest piece that one instruction copies.
const MAX_COPY: u32 = 0xff_ffff;

/// The name of no object.
const NO_ID: &[u8] = b"1234567890123456789012345678901234567890";

fn any_id() -> ObjectId {
    ObjectId::from_hex(NO_ID).unwrap()
}

/// A delta that copies `result` bytes of a base, from its start and repeatedly.
fn copies(base: u64, result: u64) -> HandmadeDelta {
    let mut delta = HandmadeDelta::new(base, result);
    let mut left = result;
    while left > 0 {
        let length = left.min(base).min(u64::from(MAX_COPY));
        delta = delta.copy(0, length as u32);
        left -= length;
    }
    delta
}

/// Indexes a pack with packrace, within the limit of private memory.
fn taken(dir: &Path, pack: &[u8]) -> Output {
    assert!(pack.len() <= MAX_PACK_BYTES, "{} bytes", pack.len());
    let path = dir.join("hell");
    std::fs::write(&path, pack).unwrap();
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    let script = format!("ulimit -d {MEMORY_KIB} && exec \"$0\" index-pack --stdin --threads=2 < \"$1\"");
    command.args(["-c", &script, PACKRACE]).arg(&path).current_dir(dir);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_no_panic(&String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = std::fs::read_dir(dir.join("objects/pack")).unwrap().collect();
    let left = left.into_iter().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.contains("tmp_")).collect();
    assert!(left.is_empty(), "left: {left:?}");
    output
}

/// Checks that a pack is accepted, and that stock git finds the same in it, if it can.
#[track_caller]
fn check(pack: &HandmadePack, asks_git: bool) {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    let pack = pack.sealed();
    let output = taken(dir.path(), &pack);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    if asks_git {
        let name = String::from_utf8(output.stdout).unwrap();
        let stem =
            dir.path().join("objects/pack").join(format!("pack-{}", name.trim().replace("pack\t", "")));
        Git::stock()
            .run(dir.path(), &["index-pack", "--verify", stem.with_extension("pack").to_str().unwrap()]);
    }
}

/// Checks that a pack is refused in these words.
#[track_caller]
fn check_refused(pack: &[u8], words: &str) {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    std::fs::create_dir_all(dir.path().join("objects/pack")).unwrap();
    let output = taken(dir.path(), pack);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128), "{stderr}");
    assert!(stderr.starts_with("fatal: ") && stderr.contains(words), "{stderr}");
    assert_eq!(std::fs::read_dir(dir.path().join("objects/pack")).unwrap().count(), 0);
}

#[test]
#[ignore = "slow: a gibibyte is inflated"]
fn a_blob_that_inflates_to_a_gibibyte() {
    let mut pack = HandmadePack::default();
    pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), 1 << 30, &vec![0; 1 << 30]);
    check(&pack, false);
}

sampled! {
    fn large_bases_and_large_results(extent) {
        let size = extent.pick(40u64, 160) << 20;
        let mut pack = HandmadePack::default();
        let base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), size, &vec![0; size as usize]);
        let child = pack.delta(&any_id(), HandmadeEntry::ByDistance(base), copies(size, size - 1).bytes());
        pack.delta(&any_id(), HandmadeEntry::ByDistance(child), copies(size - 1, size - 3).bytes());
        pack.delta(&any_id(), HandmadeEntry::ByDistance(base), copies(size, size - 2).bytes());
        check(&pack, true);
        let lies =
            pack.delta(&any_id(), HandmadeEntry::ByDistance(base), copies(size, size).insert(b"more").bytes());
        assert!(lies > base);
        check_refused(&pack.sealed(), "failed to apply delta");
    }
}

#[test]
fn deltas_that_ask_for_more_than_there_is_disk() {
    let mut pack = HandmadePack::default();
    let base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), 1 << 20, &vec![0; 1 << 20]);
    pack.delta(&any_id(), HandmadeEntry::ByDistance(base), copies(1 << 20, 100 << 30).bytes());
    check_refused(&pack.sealed(), "failed to apply delta");
}

#[test]
#[ignore = "slow: gigabytes are inflated"]
fn wide_families_of_middling_objects() {
    let size = 7u64 << 20;
    let mut pack = HandmadePack::default();
    let base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), size, &vec![7; size as usize]);
    for number in 0..60u64 {
        let length = size - 1 - number;
        let child = pack.delta(&any_id(), HandmadeEntry::ByDistance(base), copies(size, length).bytes());
        pack.delta(&any_id(), HandmadeEntry::ByDistance(child), copies(length, size - 1000 - number).bytes());
        pack.delta(&any_id(), HandmadeEntry::ByDistance(child), copies(length, size - 2000 - number).bytes());
    }
    check(&pack, true);
}

#[test]
#[ignore = "slow: ten thousand deltas on one another"]
fn chains_ten_thousand_deep() {
    for by_name in [false, true] {
        let content = b"deep and deeper\n".repeat(100);
        let size = content.len() as u64;
        let mut pack = HandmadePack::default();
        let mut base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), size, &content);
        let mut id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        for number in 0..10_000u32 {
            let insert = number.to_be_bytes();
            let delta = HandmadeDelta::new(size, size).copy(0, size as u32 - 4).insert(&insert);
            let entry = if by_name { HandmadeEntry::ByName(&id) } else { HandmadeEntry::ByDistance(base) };
            let next = pack.delta(&any_id(), entry, delta.bytes());
            id = object_id(HashKind::Sha1, Kind::Blob, &[&content[..content.len() - 4], &insert].concat())
                .unwrap();
            base = next;
        }
        check(&pack, true);
    }
}

/// Every object is the base of a small one and of the next one: resolving depth first keeps all of them, or
/// makes them again.
#[test]
#[ignore = "slow: gigabytes are inflated"]
fn combs_of_middling_objects() {
    for by_name in [false, true] {
        let size = 6u32 << 20;
        let content = vec![9u8; size as usize];
        let mut pack = HandmadePack::default();
        let mut base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), u64::from(size), &content);
        let mut id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        for number in 0..60u32 {
            let tooth = HandmadeDelta::new(size.into(), 54).copy(0, 50).insert(&number.to_be_bytes());
            let insert = (number + 1).to_be_bytes();
            let next = HandmadeDelta::new(size.into(), size.into()).copy(0, size - 4).insert(&insert);
            let entry = || if by_name { HandmadeEntry::ByName(&id) } else { HandmadeEntry::ByDistance(base) };
            pack.delta(&any_id(), entry(), tooth.bytes());
            let start = pack.delta(&any_id(), entry(), next.bytes());
            let content = [&content[..content.len() - 4], &insert].concat();
            id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
            base = start;
        }
        check(&pack, true);
    }
}

sampled! {
    fn many_small_objects(extent) {
        let mut pack = HandmadePack::default();
        for number in 0..extent.pick(200_000u32, 1_000_000) {
            let content = number.to_be_bytes();
            pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), 4, &content);
        }
        check(&pack, true);
    }
}

#[test]
fn counts_and_sizes_that_nothing_backs() {
    let mut pack = HandmadePack::default();
    pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), u64::MAX >> 4, b"short");
    check_refused(&pack.sealed(), "inflate returned 1");
    let mut pack = HandmadePack::default();
    pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Tree), 1 << 60, b"short");
    check_refused(&pack.sealed(), "inflate returned 1");
    let mut announced = HandmadePack::default().sealed();
    announced[8..12].copy_from_slice(&(u32::MAX - 100).to_be_bytes());
    check_refused(&announced[..12], "early EOF");
    let mut pack = HandmadePack::default();
    let base = pack.entry(&any_id(), HandmadeEntry::Whole(Kind::Blob), 5, b"short");
    pack.delta(&any_id(), HandmadeEntry::ByDistance(base), HandmadeDelta::new(5, 1 << 40).copy(0, 5).bytes());
    check_refused(&pack.sealed(), "failed to apply delta");
}
