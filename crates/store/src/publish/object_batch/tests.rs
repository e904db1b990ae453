use std::io::ErrorKind;

use packrace_object::{HashKind, object_id};
use packrace_os::simulated::{DiskFault, DiskOp, DiskStep, on_disk};
use packrace_testkit::Git;

use super::*;
use crate::config::ConfigSources;
use crate::{OpenOptions, Repository};

struct EmptyStore {
    root: tempfile::TempDir,
    hash: HashKind,
}

impl EmptyStore {
    fn new(hash: HashKind) -> Self {
        let root = packrace_testkit::scratch_dir();
        let format = format!("--object-format={hash}");
        Git::stock().run(root.path(), &["init", "-q", "--bare", "--template=", &format, "."]);
        EmptyStore { root, hash }
    }

    fn git(&self, args: &[&str]) -> String {
        Git::stock().run(self.root.path(), args)
    }

    fn batch(&self, settings: &[(&str, &str)]) -> ObjectBatch {
        let overrides = settings.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        let config = ConfigSources { overrides: overrides.collect(), ..ConfigSources::default() };
        let options = OpenOptions { config, ..OpenOptions::default() };
        let repository = Repository::open(self.root.path(), &options).unwrap();
        let options = BatchOptions::of(repository.config()).unwrap();
        ObjectBatch::new(repository.object_dir(), repository.snapshot().unwrap(), options)
    }

    fn object(&self, number: usize) -> (ObjectId, Vec<u8>) {
        let content = format!("object {number}\n").repeat(number % 7 + 1).into_bytes();
        (object_id(self.hash, Kind::Blob, &content).unwrap(), content)
    }

    fn add(&self, batch: &ObjectBatch, numbers: std::ops::Range<usize>) -> usize {
        let add = |number: &usize| {
            let (id, content) = self.object(*number);
            assert_eq!(batch.contains(&id).unwrap(), batch.existing.contains_any(&id));
            let is_new = batch.add(&id, Kind::Blob, &content).unwrap();
            assert!(!batch.add(&id, Kind::Blob, &content).unwrap() && batch.contains(&id).unwrap());
            is_new
        };
        numbers.filter(add).count()
    }

    /// The objects that stock git finds, and finds whole.
    fn count(&self) -> usize {
        self.git(&["fsck", "--full", "--strict"]);
        self.git(&["cat-file", "--batch-all-objects", "--batch-check"]).lines().count()
    }

    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for dir in std::fs::read_dir(self.root.path().join("objects")).unwrap() {
            let files = std::fs::read_dir(dir.unwrap().path()).unwrap();
            found.extend(files.map(|file| file.unwrap().file_name().into_string().unwrap()));
        }
        found
    }

    fn check_nothing_is_left(&self) {
        assert_eq!(self.files(), [""; 0]);
    }
}

impl Snapshot {
    fn contains_any(&self, id: &oid) -> bool {
        self.lookup(id).is_some() || self.has_loose(id).unwrap()
    }
}

/// Checks whether this many objects become loose or a pack.
fn check(settings: &[(&str, &str)], objects: usize, expect_loose: bool) {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let target = EmptyStore::new(hash);
        let batch = target.batch(settings);
        assert_eq!(target.add(&batch, 0..objects), objects);
        target.check_only_temporaries();
        let published = batch.publish().unwrap();
        published.stored();
        let loose = if expect_loose { objects } else { 0 };
        assert_eq!(
            (published.loose.len(), published.packs.len()),
            (loose, usize::from(!expect_loose && objects > 0))
        );
        assert_eq!(target.count(), objects);
        // A repository that has them does not store them again.
        let batch = target.batch(settings);
        assert_eq!(target.add(&batch, 0..objects), 0);
        let published = batch.publish().unwrap();
        assert_eq!((published.loose.len(), published.packs.len()), (0, 0));
        assert!(target.files().iter().all(|name| !name.starts_with("tmp_")));
    }
}

impl EmptyStore {
    fn check_only_temporaries(&self) {
        assert!(self.files().iter().all(|name| name.starts_with("tmp_")), "{:?}", self.files());
    }
}

#[test]
fn a_limit_divides_packs() {
    let noise = |seed: u64, bytes: usize| packrace_testkit::Random::new(seed).bytes(bytes);
    for (limit, packs) in [("0", 1), ("1000", 4), ("2500", 2), ("1m", 1)] {
        let target = EmptyStore::new(HashKind::Sha1);
        let batch = target.batch(&[("pack.packSizeLimit", limit), ("packrace.looseLimit", "0")]);
        for (number, bytes) in [700, 800, 900, 1500].into_iter().enumerate() {
            let content = noise(number as u64, bytes);
            if number % 2 == 0 {
                batch.add_blob_stream(bytes as u64, &mut &content[..]).unwrap();
            } else {
                let id = object_id(target.hash, Kind::Blob, &content).unwrap();
                assert!(batch.add(&id, Kind::Blob, &content).unwrap());
            }
            // Once more: it is there.
            batch.add_blob_stream(bytes as u64, &mut &content[..]).unwrap();
        }
        let published = batch.publish().unwrap();
        assert_eq!(published.packs.len(), packs, "{limit}");
        assert_eq!(target.count(), 4);
        assert!(target.files().iter().all(|name| !name.starts_with("tmp_")));
    }
}

#[test]
fn a_handful_stays_loose_and_more_become_a_pack() {
    check(&[], 0, true);
    check(&[], 1, true);
    check(&[], 5, true);
    check(&[], 6, false);
    check(&[], 700, false);
    check(&[("packrace.looseLimit", "1")], 1, false);
    check(&[("packrace.looseLimit", "0")], 1, false);
    // No more than can be made durable again when they exist.
    check(&[("packrace.looseLimit", "60")], 59, true);
    check(&[("packrace.looseLimit", "60")], 60, false);
    check(&[("pack.indexVersion", "1"), ("pack.compression", "0")], 6, false);
}

#[test]
fn packs_are_called_and_may_be_read_as_gits() {
    use std::os::unix::fs::PermissionsExt as _;
    for (setting, extensions) in [("true", &["idx", "pack", "rev"][..]), ("false", &["idx", "pack"])] {
        let target = EmptyStore::new(HashKind::Sha1);
        let batch = target.batch(&[("pack.writeReverseIndex", setting)]);
        target.add(&batch, 0..20);
        let stem = batch.publish().unwrap().packs.remove(0).stem;
        let mut files = target.files();
        files.sort_unstable();
        let name = stem.file_name().unwrap().to_str().unwrap();
        let expect: Vec<String> = extensions.iter().map(|extension| format!("{name}.{extension}")).collect();
        assert_eq!(files, expect);
        for file in files {
            let metadata = std::fs::metadata(stem.with_file_name(file)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o444);
        }
        target.git(&["verify-pack", &format!("{}.idx", stem.display())]);
    }
}

#[test]
fn many_bytes_make_a_pack_however_few_objects() {
    let target = EmptyStore::new(HashKind::Sha1);
    let batch = target.batch(&[]);
    for byte in 0..3 {
        let content = vec![byte; 7 << 20];
        let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        assert!(batch.add(&id, Kind::Blob, &content).unwrap());
        assert_eq!(lock(&batch.known).held.len(), [1, 2, 0][usize::from(byte)]);
    }
    assert_eq!(batch.publish().unwrap().packs.len(), 1);
    assert_eq!(target.count(), 3);
}

#[test]
fn long_contents_are_streamed_beside_the_others() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let target = EmptyStore::new(hash);
        let long: Vec<u8> =
            (0..600_000u32).flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        let id = object_id(hash, Kind::Blob, &long).unwrap();
        let batch = target.batch(&[]);
        target.add(&batch, 0..2);
        // In pieces; nothing after it is read.
        let mut source = Trickle(&[&long[..], b"more"].concat(), 0);
        assert_eq!(batch.add_blob_stream(long.len() as u64, &mut source).unwrap(), id);
        assert_eq!(source.1, long.len());
        target.add(&batch, 2..4);
        assert!(batch.contains(&id).unwrap());
        // Again, one that is already stored in the other form, and an empty one.
        assert_eq!(batch.add_blob_stream(long.len() as u64, &mut &long[..]).unwrap(), id);
        assert!(!batch.add(&id, Kind::Blob, &long).unwrap());
        let (short, content) = target.object(3);
        assert_eq!(batch.add_blob_stream(content.len() as u64, &mut &content[..]).unwrap(), short);
        assert_eq!(batch.add_blob_stream(0, &mut &b"x"[..]).unwrap(), hash.empty_blob());
        target.add(&batch, 4..5);
        let published = batch.publish().unwrap();
        assert!(published.packs.len() == 1 && published.loose.is_empty());
        assert_eq!(target.count(), 7);
        // An existing object needs no pack.
        let batch = target.batch(&[]);
        assert_eq!(batch.add_blob_stream(long.len() as u64, &mut &long[..]).unwrap(), id);
        assert!(batch.publish().unwrap().packs.is_empty());
        assert_eq!(target.files().len(), 2);
    }
}

/// Returns few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.0[self.1..];
        let length = rest.len().min(buffer.len()).min(70_001);
        buffer[..length].copy_from_slice(&rest[..length]);
        self.1 += length;
        Ok(length)
    }
}

/// A file that cannot be read, or that shrinks meanwhile.
#[test]
fn sources_that_fail_leave_the_batch_as_it_was() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(self.0);
            self.0 -= length;
            buffer[..length].fill(7);
            if length == 0 { Err(ErrorKind::PermissionDenied.into()) } else { Ok(length) }
        }
    }
    let target = EmptyStore::new(HashKind::Sha1);
    let batch = target.batch(&[]);
    target.add(&batch, 0..1);
    for (given, expect) in [(0, ErrorKind::PermissionDenied), (3 << 20, ErrorKind::PermissionDenied)] {
        let error = batch.add_blob_stream(4 << 20, &mut Broken(given)).unwrap_err();
        assert!(matches!(error, StreamError::Source(error) if error.kind() == expect));
    }
    let error = batch.add_blob_stream(1001, &mut &[0; 1000][..]).unwrap_err();
    assert!(matches!(error, StreamError::Source(error) if error.kind() == ErrorKind::UnexpectedEof));
    target.add(&batch, 1..3);
    batch.publish().unwrap();
    assert_eq!(target.count(), 3);
}

#[test]
fn threads_share_a_batch() {
    let target = EmptyStore::new(HashKind::Sha1);
    let batch = target.batch(&[]);
    let new: usize = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let (target, batch) = (&target, &batch);
            move || {
                let add = |number: &usize| {
                    let (id, content) = target.object((number + thread * 100) % 1000);
                    if number % 100 == 99 {
                        batch.add_blob_stream(content.len() as u64, &mut &content[..]).unwrap();
                        return false;
                    }
                    batch.add(&id, Kind::Blob, &content).unwrap()
                };
                (0..1000).filter(add).count()
            }
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((990..=1000).contains(&new), "{new}");
    batch.publish().unwrap();
    assert_eq!(target.count(), 1000);
}

#[test]
fn what_is_dropped_leaves_nothing() {
    for objects in [3, 30] {
        let target = EmptyStore::new(HashKind::Sha1);
        let batch = target.batch(&[]);
        target.add(&batch, 0..objects);
        drop(batch);
        target.check_nothing_is_left();
    }
}

/// The number of syncs does not depend on the number of objects.
#[test]
fn syncs_are_constant() {
    let syncs = |settings: &[(&str, &str)], objects: usize| {
        let target = EmptyStore::new(HashKind::Sha1);
        let batch = target.batch(settings);
        target.add(&batch, 0..objects);
        let (published, steps) = on_disk(DiskFault::None, || batch.publish());
        published.unwrap();
        steps.iter().filter(|step| matches!(step.op, DiskOp::Sync | DiskOp::SyncDir)).count()
    };
    let fsync = |value| [("core.fsync", value)];
    for objects in [6, 500, 5000] {
        // The pack, its index, the directory.
        assert_eq!(syncs(&[], objects), 3);
        assert_eq!(syncs(&fsync(""), objects), 3);
        assert_eq!(syncs(&fsync("none,loose-object"), objects), 3, "a pack stands for loose objects");
        assert_eq!(syncs(&fsync("none"), objects), 0);
        assert_eq!(syncs(&[("pack.writeReverseIndex", "true")], objects), 4);
    }
    // The object, its directory, and the parent directory.
    assert_eq!(syncs(&[], 1), 3);
    assert_eq!(syncs(&fsync("loose-object"), 1), 3);
    assert_eq!(syncs(&fsync(""), 5), 0, "git's default leaves loose objects out");
}

/// From the second object on, objects that an index names are one pack, unless configured otherwise, or
/// nothing is synced.
#[test]
fn two_objects_of_a_work_tree_are_a_pack() {
    let check = |settings: &[(&str, &str)], expect: [Form; 2]| {
        let overrides = settings.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        let sources = ConfigSources { overrides: overrides.collect(), ..ConfigSources::default() };
        let options = BatchOptions::of_work_tree(&crate::Config::outside(&sources).unwrap()).unwrap();
        assert_eq!([1, 2].map(|count| options.loose_limit.form_of(count)), expect, "{settings:?}");
    };
    check(&[], [Form::Loose, Form::Pack]);
    check(&[("core.fsync", "all")], [Form::Loose, Form::Pack]);
    check(&[("core.fsync", "")], [Form::Loose, Form::Loose]);
    check(&[("packrace.looseLimit", "3")], [Form::Loose, Form::Loose]);
    check(&[("packrace.looseLimit", "1")], [Form::Pack, Form::Pack]);
}

/// Loose objects of other processes may not be durable yet: a few are synced, many are stored again.
#[test]
fn loose_objects_that_are_there() {
    for (objects, expect_files) in [(MAX_KEPT, 0), (MAX_KEPT + 1, 2)] {
        let target = EmptyStore::new(HashKind::Sha1);
        let batch = target.batch(&[("packrace.looseLimit", "1000")]);
        target.add(&batch, 0..objects);
        batch.publish().unwrap();
        let before = target.files().len();
        let batch = target.batch(&[("packrace.looseLimit", "0")]);
        assert_eq!(target.add(&batch, 0..objects), objects - MAX_KEPT);
        let ((), steps) = on_disk(DiskFault::None, || drop(batch.publish().unwrap()));
        let count = |wanted: DiskOp| steps.iter().filter(|step| step.op == wanted).count();
        assert_eq!(target.files().len() - before, expect_files);
        assert_eq!(count(DiskOp::Sync), MAX_KEPT + expect_files);
        // With git's default they are as durable as their writers made them.
        let batch = target.batch(&[("core.fsync", "")]);
        assert_eq!(target.add(&batch, 0..objects), 0);
        let ((), steps) = on_disk(DiskFault::None, || drop(batch.publish().unwrap()));
        assert_eq!(steps, []);
    }
}

/// A batch with a failed write is never published, whatever succeeds later.
#[test]
fn nothing_is_published_after_a_failure() {
    let content = vec![1; 3 << 20];
    let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
    let work = |target: &EmptyStore| {
        let batch = target.batch(&[("packrace.looseLimit", "0"), ("pack.compression", "0")]);
        let mut has_failed = false;
        for _ in 0..2 {
            has_failed |= batch.add(&id, Kind::Blob, &content).is_err();
            let (other, short) = target.object(1);
            has_failed |= batch.add(&other, Kind::Blob, &short).is_err();
            let streamed = batch.add_blob_stream(content.len() as u64 - 1, &mut &content[1..]);
            has_failed |= streamed.is_err();
        }
        (batch.publish(), has_failed)
    };
    let ((published, has_failed), steps) =
        on_disk(DiskFault::None, || work(&EmptyStore::new(HashKind::Sha1)));
    assert!(published.is_ok() && !has_failed);
    let is_write = |step: &DiskStep| matches!(step.op, DiskOp::Write(_) | DiskOp::Truncate | DiskOp::Create);
    for at in 0..steps.len() {
        let target = EmptyStore::new(HashKind::Sha1);
        let fault = DiskFault::At(at, ErrorKind::StorageFull);
        let ((published, _), steps) = on_disk(fault, || work(&target));
        let step = &steps[at];
        // Failure to touch an object may be ignored.
        assert!(published.is_err() || step.op == DiskOp::Touch, "{step:?}");
        if published.is_err() && is_write(step) {
            target.check_nothing_is_left();
        }
    }
}

/// Leftovers of a killed process are removed with the next pack, except those that may belong to a live one.
#[test]
fn old_temporaries_go() {
    let target = EmptyStore::new(HashKind::Sha1);
    let dir = target.root.path().join("objects/pack");
    let write = |name: &str, age_hours: u64| {
        std::fs::write(dir.join(name), "x").unwrap();
        let when = std::time::SystemTime::now() - std::time::Duration::from_secs(age_hours * 3600);
        std::fs::File::open(dir.join(name)).unwrap().set_modified(when).unwrap();
    };
    let old = ["tmp_pack_abcdef", "tmp_idx_ABC123", "tmp_rev_000000"];
    let others = ["tmp_pack_", "tmp_pack_abcdefg", "tmp_other_abcdef", "pack-1.pack", "tmp_midx_abcdef"];
    old.iter().chain(&others).for_each(|name| write(name, 25));
    write("tmp_pack_young1", 23);
    std::fs::create_dir(dir.join("tmp_pack_direct")).unwrap();
    let batch = target.batch(&[]);
    target.add(&batch, 0..5);
    batch.publish().unwrap();
    assert!(old.iter().all(|name| dir.join(name).exists()), "no pack was made");
    let batch = target.batch(&[]);
    target.add(&batch, 10..20);
    batch.publish().unwrap();
    assert!(!old.iter().any(|name| dir.join(name).exists()));
    let kept = others.iter().chain(&["tmp_pack_young1", "tmp_pack_direct"]);
    assert!(kept.clone().all(|name| dir.join(name).exists()));
}
