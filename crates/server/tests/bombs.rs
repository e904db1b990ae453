//! Small packs that say they hold gigabytes: memory follows what is there and the limits, not what is claimed.

use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_os::allocations::{Counting, most_held};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::{plan, plan_list};
use packrace_pack::{Error, NameHash, NoProgress, PackRequest, RequestObjects, Settings};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;

fn repository() -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    dir
}

/// A name for what nobody can hash here.
fn name(number: u64) -> ObjectId {
    object_id(HashKind::Sha1, Kind::Blob, &number.to_be_bytes()).unwrap()
}

fn request_objects(dir: &Path) -> Arc<RequestObjects> {
    let repository = Repository::open(dir, &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

/// The length of a pack of these objects: of spans for a client that wants them by name, or put together one by one.
fn pack(dir: &Path, ids: &[ObjectId], is_stored: bool, settings: Settings) -> Result<usize, Error> {
    let request_objects = request_objects(dir);
    let plan = if is_stored {
        let objects: Vec<_> = ids.iter().map(|id| (*id, NameHash::default())).collect();
        plan_list(&request_objects, &objects, &[], settings, true, &NoProgress)?
    } else {
        let request =
            PackRequest { wants: ids.to_vec(), ofs_delta: true, threads: 1, settings, ..Default::default() };
        plan(&request_objects, &request, &NoProgress)?
    };
    let mut stream = PackStream::new(plan);
    if is_stored {
        stream = stream.with_index();
    }
    let mut length = 0;
    while let Some(segment) = stream.next_segment(&NoProgress)? {
        length += segment.bytes().len();
    }
    Ok(length)
}

/// One megabyte of zeros, and deltas of it that make `copies` times as much and say that they make `claimed`.
fn bombs(claims: &[(u64, u32)]) -> (tempfile::TempDir, ObjectId, Vec<ObjectId>) {
    let dir = repository();
    let mut pack = HandmadePack::default();
    let base = pack.whole(Kind::Blob, &vec![0; MIB]);
    let ids: Vec<ObjectId> = (0..claims.len() as u64).map(name).collect();
    for (id, &(claimed, copies)) in ids.iter().zip(claims) {
        let delta = HandmadeDelta::new(MIB as u64, claimed);
        let delta = (0..copies).fold(delta, |delta, _| delta.copy(0, MIB as u32));
        pack.delta(id, HandmadeEntry::ByDistance(12), delta.bytes());
    }
    pack.put(dir.path(), "bombs");
    (dir, base, ids)
}

/// Reads and packs the one bomb in every way: `words`, and never more than `most_bytes` of memory.
fn check_refused(claimed: u64, copies: u32, words: &str, most_bytes: usize) {
    let (dir, base, ids) = bombs(&[(claimed, copies)]);
    let (error, held) = most_held(|| {
        let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
        repository.snapshot().unwrap().reader(MIB).read(&ids[0]).unwrap_err().to_string()
    });
    assert!(error.contains(words), "{claimed} as {copies} copies: {error}");
    assert!(held < most_bytes as u64, "{held} bytes to find out: {error}");
    let settings = Settings { base_cache_bytes: 4 * MIB, ..Settings::default() };
    let searching = Settings { reuse_deltas: false, ..settings };
    for (ids, settings) in [(vec![ids[0]], settings), (vec![base, ids[0]], searching)] {
        for is_stored in [false, true] {
            let (result, held) = most_held(|| pack(dir.path(), &ids, is_stored, settings));
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{claimed} as {copies} copies: {error}");
            assert!(held < most_bytes as u64, "{held} bytes to find out: {error}");
        }
    }
    // What is neither read nor made anew costs nothing.
    for is_stored in [false, true] {
        let (result, held) = most_held(|| pack(dir.path(), &[base, ids[0]], is_stored, settings));
        assert!(result.unwrap() < MIB && held < most_bytes as u64, "{held}");
    }
}

/// One test, because it measures the process.
#[test]
fn memory_stays_within_the_limits() {
    let sum = "instructions do not add up to the result";
    check_refused(1 << 32, 1, sum, 16 * MIB);
    check_refused(1 << 32, 4095, sum, 16 * MIB);
    check_refused(40 << 20, 39, sum, 16 * MIB);
    check_refused(5 << 30, 5 << 10, "5368709120 bytes", 16 * MIB);
    check_refused(u64::MAX, 1, "18446744073709551615 bytes", 16 * MIB);

    // Bombs that are as large as they say, and below the size from which objects are not searched: as many stand in the
    // window as its memory allows, and at least the last two.
    let claims: Vec<(u64, u32)> = (20..40).map(|copies| (u64::from(copies) * MIB as u64, copies)).collect();
    let (dir, _, ids) = bombs(&claims);
    let settings = Settings {
        base_cache_bytes: 8 * MIB,
        window_bytes: 32 * MIB,
        reuse_deltas: false,
        ..Settings::default()
    };
    for is_stored in [false, true] {
        let (length, held) = most_held(|| pack(dir.path(), &ids, is_stored, settings).unwrap());
        assert!(length < MIB, "{length}");
        assert!(held < 160 * MIB as u64, "{} MiB", held >> 20);
    }
    assert!(Settings::default().window_bytes > 0, "there is a limit unless a configuration takes it away");
}
