//! Limits of indexing a pack, unpacking one, and a push; packrace counts its calls, and a mounted file system
//! the requests that reach it.

use std::path::{Path, PathBuf};
use std::process::Command;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::mounted::Mount;
use packrace_testkit::peer::{self, Feed, Reply};
use packrace_testkit::{Git, Random, clean_environment};

use crate::running::{PACKRACE, assert_no_panic};

/// Writes beyond one per MiB, and other calls that do not grow with the input.
pub const SOME: u64 = 64;

/// A pack, its index and reverse index, their directory, and its two parents if they are new.
pub const SYNCS_OF_A_PACK: u64 = 6;

/// The same, the directories of a quarantine, and a ref.
const SYNCS_OF_A_PUSH: u64 = 14;

/// Directories of loose objects.
const FAN_OUT: u64 = 256;

/// Limit of private memory for indexing a pack of 64 MiB.
const MEMORY_KIB: u64 = 128 << 10;

const COMMITTED: [&str; 2] = ["-c", "core.fsync=committed"];

/// Runs packrace and returns its own report of its calls.
pub fn counted(dir: &Path, args: &[&str], input: &[u8]) -> (Reply, Report) {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.args(args).current_dir(dir).env("PACKRACE_IO_REPORT", report.path());
    let reply = peer::stdio(&mut command, input, Feed::Whole);
    assert_no_panic(&reply.stderr);
    assert!(reply.status.success(), "{args:?}: {}", reply.stderr);
    (reply, Report(std::fs::read_to_string(report.path()).unwrap()))
}

/// Calls by role and kind.
pub struct Report(pub String);

impl Report {
    pub fn calls(&self, role: &str, op: &str) -> u64 {
        let after = |text: &str, key: &str| Some(text.split_once(&format!("\"{key}\":"))?.1.to_owned());
        let role = after(&self.0, role).and_then(|rest| Some(rest.split_once("}}")?.0.to_owned()));
        let calls = role.and_then(|role| after(&after(&role, op)?, "calls"));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    /// Calls of all roles.
    pub fn all(&self, op: &str) -> u64 {
        let key = format!("\"{op}\":{{\"calls\":");
        let counts = self.0.split(&key).skip(1);
        counts.map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

fn empty_repository(root: &Path) -> PathBuf {
    let path = root.join("repo.git");
    Git::stock().run(root, &["init", "-q", "--bare", path.to_str().unwrap()]);
    path
}

/// Incompressible blobs with three deltas each.
fn pack(blobs: usize, blob_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(6);
    let mut pack = HandmadePack::default();
    let any = ObjectId::from_hex(&[b'1'; 40]).unwrap();
    for _ in 0..blobs {
        let content = random.bytes(blob_bytes);
        let size = content.len() as u64;
        let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        let base = pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), size, &content);
        for length in 1..4u32 {
            let delta = HandmadeDelta::new(size, size - u64::from(length)).copy(0, size as u32 - length);
            pack.delta(&any, HandmadeEntry::ByDistance(base), delta.bytes());
        }
    }
    pack.sealed()
}

/// Different small blobs.
fn small_objects(count: u32) -> Vec<u8> {
    let mut pack = HandmadePack::default();
    for number in 0..count {
        let content = format!("object {number}\n");
        let id = object_id(HashKind::Sha1, Kind::Blob, content.as_bytes()).unwrap();
        pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), content.len() as u64, content.as_bytes());
    }
    pack.sealed()
}

fn mebibytes(bytes: usize) -> u64 {
    bytes as u64 / (1 << 20)
}

#[test]
fn a_pack_is_indexed_in_few_calls() {
    let dir = packrace_testkit::scratch_dir();
    let repo = empty_repository(dir.path());
    let pack = pack(100, 256 << 10);
    let (_, report) = counted(&repo, &["index-pack", "--stdin", "--threads=2"], &pack);
    let budget = mebibytes(pack.len()) + SOME;
    assert!((1..=budget).contains(&report.calls("pack", "write")), "{}", report.0);
    assert!((1..=SOME).contains(&report.calls("index", "write")), "{}", report.0);
    // Delta bases are read from a map.
    assert!(report.calls("pack", "read") <= SOME, "{}", report.0);
    assert!((2..=SYNCS_OF_A_PACK).contains(&report.all("sync")), "{}", report.0);
    Git::stock().run(&repo, &["fsck", "--no-dangling"]);
}

/// The number of calls does not depend on the number of entries.
#[test]
fn very_many_objects_are_indexed_in_few_calls() {
    let dir = packrace_testkit::scratch_dir();
    let repo = empty_repository(dir.path());
    let (_, report) = counted(&repo, &["index-pack", "--stdin", "--threads=2"], &small_objects(50_000));
    for op in ["read", "write", "map", "sync", "create", "rename", "remove", "attribute", "wait"] {
        assert!(report.all(op) <= SOME, "{op}: {}", report.0);
    }
    // Whether there are loose objects is checked once, and again in directories that received some.
    assert!(report.all("look") <= 2 * FAN_OUT + SOME, "{}", report.0);
}

#[test]
fn a_pack_is_indexed_in_little_memory() {
    let dir = packrace_testkit::scratch_dir();
    let repo = empty_repository(dir.path());
    let pack = pack(256, 256 << 10);
    assert!(mebibytes(pack.len()) >= 64);
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    let script = format!("ulimit -d {MEMORY_KIB} && exec \"$0\" index-pack --stdin --threads=2");
    command.args(["-c", &script, PACKRACE]).current_dir(&repo);
    let reply = peer::stdio(&mut command, &pack, Feed::Whole);
    assert!(reply.status.success(), "{:?} {}", reply.status, reply.stderr);
}

#[test]
fn loose_objects_cost_a_write_each_and_a_sync_where_asked() {
    const COUNT: u64 = 300;
    for (is_durable, syncs) in [(false, 0..=0), (true, 2..=COUNT + FAN_OUT + SOME)] {
        let dir = packrace_testkit::scratch_dir();
        let repo = empty_repository(dir.path());
        let settings = if is_durable { &[][..] } else { &["-c", "core.fsync=none"] };
        let args = [settings, &["-c", "packrace.looseLimit=1000", "unpack-objects", "-q"]].concat();
        let (_, report) = counted(&repo, &args, &small_objects(COUNT as u32));
        assert_eq!(report.calls("objects", "write"), COUNT, "{}", report.0);
        assert!(syncs.contains(&report.calls("objects", "sync")), "{}", report.0);
        let listed = Git::stock().run(&repo, &["count-objects"]);
        assert!(listed.starts_with("300 objects"), "{listed}");
    }
}

#[test]
fn unpacking_many_objects_costs_the_same_number_of_syncs_however_many() {
    for objects in [6, 600, 6000] {
        for settings in [&[][..], &COMMITTED] {
            let dir = packrace_testkit::scratch_dir();
            let repo = empty_repository(dir.path());
            let args = [settings, &["unpack-objects", "-q"]].concat();
            let (_, report) = counted(&repo, &args, &small_objects(objects));
            assert!((2..=SYNCS_OF_A_PACK).contains(&report.all("sync")), "{}", report.0);
            for op in ["write", "create", "rename", "remove", "attribute"] {
                assert!(report.all(op) <= SOME, "{op}: {}", report.0);
            }
            let counts = Git::stock().run(&repo, &["count-objects", "-v"]);
            assert!(counts.contains(&format!("in-pack: {objects}\n")), "{counts}");
        }
    }
}

/// A work tree, and the push of `count` files committed in it to an empty repository: this many objects, a
/// tree and a commit among them.
fn push_request(root: &Path, objects: usize, file_bytes: usize) -> (PathBuf, Vec<u8>) {
    let git = Git::stock();
    git.run(root, &["init", "-q", "-b", "main", "work"]);
    let work = root.join("work");
    let mut random = Random::new(objects as u64);
    for number in 0..objects - 2 {
        std::fs::write(work.join(format!("file-{number}")), random.bytes(file_bytes)).unwrap();
    }
    git.run(&work, &["add", "."]);
    git.run(&work, &["commit", "-q", "-m", "all"]);
    let main = git.run(&work, &["rev-parse", "HEAD"]);
    let command = format!("{} {} refs/heads/main\0 report-status", "0".repeat(40), main.trim());
    let pack = git.run_with_input(&work, &["pack-objects", "--revs", "--stdout", "-q"], b"HEAD\n");
    assert_eq!(pack[8..12], (objects as u32).to_be_bytes());
    (work, peer::Script::new().data(command.as_bytes()).flush().raw(&pack).bytes().to_vec())
}

#[test]
fn a_push_costs_the_same_number_of_syncs_whatever_is_in_it() {
    for objects in [3, 6, 300] {
        let dir = packrace_testkit::scratch_dir();
        let repo = empty_repository(dir.path());
        let (work, request) = push_request(dir.path(), objects, 100);
        // Nothing is configured.
        let (reply, report) = counted(&repo, &["receive-pack", "."], &request);
        let said = String::from_utf8_lossy(&reply.stdout);
        assert!(said.contains("unpack ok\n") && said.contains("ok refs/heads/main\n"), "{said}");
        let syncs = report.all("sync");
        assert!((4..=SYNCS_OF_A_PUSH).contains(&syncs), "{objects} objects: {syncs} syncs: {}", report.0);
        let [theirs, ours] = [&work, &repo].map(|dir| Git::stock().run(dir, &["rev-parse", "main"]));
        assert_eq!(ours, theirs);
        Git::stock().run(&repo, &["fsck", "--strict"]);
    }
}

/// By the count of the file system: everything written to packs, under any name, is written once.
#[test]
#[ignore = "needs FUSE"]
fn packs_get_onto_a_mounted_file_system_in_few_writes() {
    let [behind, place, elsewhere] = [(); 3].map(|()| packrace_testkit::scratch_dir());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let repo = empty_repository(mount.place());
    let is_pack = |name: &Path| name.extension().is_some_and(|extension| extension == "pack");

    let pack = pack(100, 256 << 10);
    counted(&repo, &["index-pack", "--stdin", "--threads=2"], &pack);
    let traffic = mount.traffic(is_pack);
    assert_eq!((traffic.creates, traffic.written_bytes), (1, pack.len() as u64));
    assert!(traffic.writes <= mebibytes(pack.len()) + SOME, "{traffic:?} for {} bytes", pack.len());
    assert!((1..=SOME).contains(&traffic.syncs), "{traffic:?}");

    mount.count_anew();
    let (work, _) = push_request(elsewhere.path(), 80, 256 << 10);
    let program = format!("--receive-pack={PACKRACE} receive-pack");
    Git::stock().run(&work, &["push", "-q", &program, repo.to_str().unwrap(), "main"]);
    let traffic = mount.traffic(is_pack);
    assert_eq!(traffic.creates, 1);
    assert!(traffic.written_bytes > 19 << 20, "{traffic:?}");
    assert!(traffic.writes <= mebibytes(traffic.written_bytes as usize) + SOME, "{traffic:?}");
    assert!(mount.traffic(|_| true).syncs <= SYNCS_OF_A_PUSH, "{:?}", mount.traffic(|_| true));
    Git::stock().run(&repo, &["fsck", "--strict", "--no-dangling"]);
}
