use std::time::SystemTime;

use packrace_object::{HashKind, object_id};
use packrace_os::count::{self, Op};
use packrace_os::simulated::{DiskFault, DiskOp, on_disk};
use packrace_testkit::Git;

use super::*;
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

    fn batch(&self) -> LooseBatch {
        let repository = Repository::open(self.root.path(), &OpenOptions::default()).unwrap();
        let policy = WritePolicy::of(repository.config()).unwrap();
        let dir = repository.object_dir();
        LooseBatch::new(dir, repository.snapshot().unwrap(), 1, policy)
    }

    fn object(&self, number: usize) -> (ObjectId, Vec<u8>) {
        let content = format!("object {number}\n").into_bytes();
        (object_id(self.hash, Kind::Blob, &content).unwrap(), content)
    }

    /// Returns how many of these are new.
    fn write(&self, numbers: std::ops::Range<usize>) -> Result<usize, Error> {
        let mut batch = self.batch();
        let mut new = 0;
        for number in numbers {
            let (id, content) = self.object(number);
            new += usize::from(batch.add(&id, Kind::Blob, &content)?);
        }
        assert_eq!(batch.publish()?.written.len(), new);
        Ok(new)
    }

    fn count(&self) -> usize {
        self.git(&["fsck", "--full", "--strict"]);
        self.git(&["cat-file", "--batch-all-objects", "--batch-check"]).lines().count()
    }

    fn path(&self, number: usize) -> PathBuf {
        let hex = self.object(number).0.to_hex().to_string();
        self.root.path().join("objects").join(&hex[..2]).join(&hex[2..])
    }

    /// Names of temporary files.
    fn temporaries(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for dir in std::fs::read_dir(self.root.path().join("objects")).unwrap() {
            let files = std::fs::read_dir(dir.unwrap().path()).unwrap();
            found.extend(
                files
                    .map(|file| file.unwrap().path())
                    .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("tmp_")),
            );
        }
        found
    }
}

fn make_old(path: &Path) {
    std::fs::File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn is_young(path: &Path) -> bool {
    std::fs::metadata(path).unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH
}

#[test]
fn git_reads_them() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let target = EmptyStore::new(hash);
        assert_eq!(target.write(0..600).unwrap(), 600);
        assert_eq!(target.count(), 600);
        let (id, content) = target.object(77);
        assert_eq!(target.git(&["cat-file", "blob", &id.to_string()]).as_bytes(), content);
        let mut batch = target.batch();
        assert!(!batch.add(&id, Kind::Blob, &content).unwrap());
        let (id, content) = target.object(600);
        assert!(batch.add(&id, Kind::Blob, &content).unwrap());
        assert!(!batch.add(&id, Kind::Blob, &content).unwrap(), "the second time");
        drop(batch);
        assert_eq!((target.count(), target.temporaries()), (600, vec![]));
    }
}

#[test]
fn what_is_there_is_made_young() {
    let target = EmptyStore::new(HashKind::Sha1);
    target.write(0..20).unwrap();
    target.git(&["config", "gc.cruftPacks", "true"]);
    let ids: Vec<String> = (0..5).map(|number| target.object(number).0.to_string()).collect();
    Git::stock().run_with_input(
        target.root.path(),
        &["pack-objects", "-q", "objects/pack/pack"],
        format!("{}\n", ids.join("\n")).as_bytes(),
    );
    target.git(&["prune-packed"]);
    let pack_dir = target.root.path().join("objects/pack");
    let packs = || {
        let listing = std::fs::read_dir(&pack_dir).unwrap().map(|entry| entry.unwrap().path());
        listing.filter(|path| path.extension().is_some_and(|it| it == "pack")).collect::<Vec<_>>()
    };
    make_old(&packs()[0]);
    make_old(&target.path(10));
    assert_eq!(target.write(0..12).unwrap(), 0);
    assert!(is_young(&packs()[0]) && is_young(&target.path(10)));
    // An object of a cruft pack may be deleted, so it is stored again.
    target.git(&["repack", "-q", "--cruft", "-d", "-a"]);
    assert_eq!(target.write(3..7).unwrap(), 4);
    assert_eq!(target.count(), 20);
}

/// The cost of a batch in syncs: each file and each directory once, and the parent directory.
#[test]
fn each_directory_is_synced_once_and_only_where_it_is_asked_for() {
    let target = EmptyStore::new(HashKind::Sha1);
    for (value, is_synced) in [("none", false), ("all,-loose-object", true), ("loose-object", true)] {
        target.git(&["config", "core.fsync", value]);
        let first = value.len() * 1000;
        let (new, steps) = on_disk(DiskFault::None, || target.write(first..first + 300).unwrap());
        assert_eq!(new, 300);
        let count = |op: DiskOp| steps.iter().filter(|step| step.op == op).count();
        let fan_outs: BTreeSet<_> =
            (first..first + 300).map(|number| target.object(number).0.first_byte()).collect();
        let expect = if is_synced { (300, fan_outs.len() + 1) } else { (0, 0) };
        assert_eq!((count(DiskOp::Sync), count(DiskOp::SyncDir)), expect, "{value}");
        let at = |wanted: &dyn Fn(&DiskOp) -> bool| {
            let mut found = (0..steps.len()).filter(|at| wanted(&steps[*at].op));
            (found.next(), found.next_back())
        };
        let (names, syncs) = (at(&|op| matches!(op, DiskOp::Rename(_))), at(&|op| *op == DiskOp::Sync));
        assert!(syncs.1 < names.0, "content comes before names");
        assert!(!is_synced || names.1 < at(&|op| *op == DiskOp::SyncDir).0);
    }
}

/// Another process has written the object and not yet synced it.
#[test]
fn what_others_wrote_is_synced_too() {
    let target = EmptyStore::new(HashKind::Sha1);
    target.write(0..2).unwrap();
    target.git(&["config", "core.fsync", "loose-object"]);
    let (_, steps) = on_disk(DiskFault::None, || target.write(0..1).unwrap());
    let path = target.path(0);
    let expect = [
        (&*path, DiskOp::Touch),
        (&target.root.path().join("objects"), DiskOp::SyncDir),
        (path.parent().unwrap(), DiskOp::SyncDir),
        (&path, DiskOp::Sync),
    ];
    let steps: Vec<_> = steps.iter().map(|step| (&*step.path, step.op.clone())).collect();
    assert_eq!(steps, expect);

    // An object that appears while the batch is written.
    let mut batch = target.batch();
    let (id, content) = target.object(5);
    batch.add(&id, Kind::Blob, &content).unwrap();
    target.write(5..6).unwrap();
    let (published, steps) = on_disk(DiskFault::None, || batch.publish().unwrap());
    published.stored();
    assert_eq!(published.written, [""; 0].map(PathBuf::from));
    assert!(steps.iter().any(|step| step.path == target.path(5) && step.op == DiskOp::Sync));
    assert_eq!(target.temporaries(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_failure_leaves_no_temporary() {
    let run = |fault| {
        let target = EmptyStore::new(HashKind::Sha1);
        target.git(&["config", "core.fsync", "all"]);
        let (result, steps) = on_disk(fault, || target.write(0..6));
        (target, result, steps)
    };
    let (_, result, steps) = run(DiskFault::None);
    result.unwrap();
    for (at, step) in steps.iter().enumerate() {
        let (target, result, _) = run(DiskFault::At(at, std::io::ErrorKind::StorageFull));
        match step.op {
            // Then its existence is unknown, and it is written.
            DiskOp::Touch => assert_eq!(result.unwrap(), 6),
            _ => assert_eq!(result.unwrap_err().kind(), crate::ErrorKind::Unavailable),
        }
        assert_eq!(target.temporaries(), [""; 0].map(PathBuf::from), "{step:?}");
        target.count();
        target.git(&["config", "core.fsync", "none"]);
        target.write(0..6).unwrap();
        assert_eq!(target.count(), 6);
    }
}

/// Syncs are counted where they are made, and there are no others.
#[test]
fn counted_syncs_are_those_of_the_disk() {
    let target = EmptyStore::new(HashKind::Sha1);
    target.git(&["config", "core.fsync", "all"]);
    let before = count::so_far(packrace_os::count::Role::Objects, Op::Sync).0;
    target.write(0..4).unwrap();
    let after = count::so_far(packrace_os::count::Role::Objects, Op::Sync).0;
    // Four files, four directories and their parent; or one call for the files and one for the directories.
    assert!(after - before >= 2, "{before} {after}");
}

#[test]
fn what_a_repack_has_taken_away_need_not_be_synced() {
    let top = packrace_testkit::scratch_dir();
    let gone = top.path().join("gone");
    sync_loose(vec![top.path(), &gone], vec![&gone.join("object")]).unwrap();
}
