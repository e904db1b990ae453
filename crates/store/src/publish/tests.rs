use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use packrace_format::pack_index::{self, PackIndex};
use packrace_object::HashKind;
use packrace_os::count::{self, Op};
use packrace_os::simulated::{DiskFault, DiskOp, DiskStep, on_disk};
use packrace_testkit::{Git, Repo, RepoBuilder, Size, Storage};

use std::path::PathBuf;

use super::*;

/// A pack made by git, and the entries of its index.
struct Sample {
    _repo: Repo,
    hash: HashKind,
    pack: Vec<u8>,
    idx: Vec<u8>,
    rev: Vec<u8>,
    entries: Vec<pack_index::Entry>,
    name: String,
}

impl Sample {
    fn new(hash: HashKind, size: Size) -> Self {
        let repo = RepoBuilder::new(size).hash(hash).storage(Storage::default()).build();
        let dir = repo.path().join("objects/pack");
        let name = names(&dir).into_iter().find_map(|name| Some(name.strip_suffix(".pack")?.to_owned()));
        let name = name.unwrap();
        let read = |extension| std::fs::read(dir.join(format!("{name}.{extension}"))).unwrap();
        let idx = read("idx");
        let index = PackIndex::open(&idx, hash).unwrap();
        let entry = |position| pack_index::Entry {
            id: index.id_at(position).to_owned(),
            crc32: index.crc32_at(position).unwrap(),
            offset: index.offset_at(position),
        };
        let entries = (0..index.len()).map(entry).collect();
        Sample { hash, pack: read("pack"), rev: read("rev"), entries, name, idx, _repo: repo }
    }

    fn tiny() -> Self {
        Sample::new(HashKind::Sha1, Size::Tiny)
    }

    fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The bytes between header and trailer.
    fn body(&self) -> &[u8] {
        &self.pack[12..self.pack.len() - self.hash.len_in_bytes()]
    }

    fn sealed(&self, dir: &Path, announced: Option<u32>) -> Result<SealedPack, Error> {
        let mut writer = PackWriter::create(dir, self.hash, WritePolicy::default(), announced)?;
        for piece in self.body().chunks(1000) {
            writer.write(piece)?;
        }
        writer.seal(self.count())
    }

    fn publish(&self, dir: &Path, options: &PublishOptions<'_>) -> Result<PublishedPack, Error> {
        self.sealed(dir, Some(self.count()))?.publish(&self.entries, options)
    }

    /// An empty repository for packs of this hash.
    fn target(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = packrace_testkit::scratch_dir();
        let format = format!("--object-format={}", self.hash);
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "--template=", &format, "."]);
        let pack_dir = dir.path().join("objects/pack");
        (dir, pack_dir)
    }
}

const WITH_ALL: PublishOptions<'static> = PublishOptions {
    name: PackName::Standard,
    index: None,
    index_version: pack_index::Version::V2 { large_above: (1 << 31) - 1 },
    reverse_index: true,
    keep: Some(b"why\n"),
    promisor: Some(b""),
    mtimes: Some(b"times"),
    bitmap: Some(b"bits"),
};

fn names(dir: &Path) -> Vec<String> {
    let listing = packrace_os::list_dir(dir, Role::Pack).unwrap();
    listing.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

/// The extensions of a pack's files in naming order.
fn named(steps: &[DiskStep]) -> Vec<String> {
    let to = |step: &DiskStep| match &step.op {
        DiskOp::Rename(to) => Some(to.extension().unwrap().to_str().unwrap().to_owned()),
        _ => None,
    };
    steps.iter().filter_map(to).collect()
}

/// Checks that every file was synced between its last write and its naming, and its directory after that.
fn check_durable(steps: &[DiskStep]) {
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| matches!(step.op, DiskOp::Rename(_))) {
        let before: Vec<_> = steps[..at].iter().filter(|other| other.path == step.path).collect();
        assert_eq!(before.last().unwrap().op, DiskOp::Sync, "{step:?}");
        let dir = step.path.parent().unwrap();
        assert!(steps[at..].iter().any(|later| later.op == DiskOp::SyncDir && later.path == dir));
    }
}

#[test]
fn a_pack_and_its_indexes_are_those_of_git() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let sample = Sample::new(hash, Size::Tiny);
        for announced in [Some(sample.count()), Some(7), None] {
            let (repo, dir) = sample.target();
            let options = PublishOptions { reverse_index: true, ..Default::default() };
            let mut sealed = sample.sealed(&dir, announced).unwrap();
            assert!(**sealed.written().unwrap().map().unwrap() == *sample.pack);
            assert_eq!(sealed.length(), sample.pack.len() as u64);
            let published = sealed.publish(&sample.entries, &options).unwrap();
            assert_eq!(published.stem, dir.join(&sample.name));
            assert!(!published.was_there && !published.made_keep);
            let read = |extension| std::fs::read(with_extension(&published.stem, extension)).unwrap();
            assert!(read("pack") == sample.pack && read("idx") == sample.idx && read("rev") == sample.rev);
            assert_eq!(names(&dir).len(), 3);
            let git = |args: &[&str]| Git::stock().run(repo.path(), args);
            git(&["verify-pack", published.stem.with_extension("idx").to_str().unwrap()]);
            git(&["fsck", "--full", "--no-dangling"]);
        }
    }
}

#[test]
fn received_packs_keep_their_trailer() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let mut writer = PackWriter::receive(&dir, sample.hash, WritePolicy::default()).unwrap();
    writer.write(&sample.pack).unwrap();
    assert!(**writer.written().unwrap().map().unwrap() == *sample.pack);
    let sealed = writer.seal(sample.count()).unwrap();
    assert_eq!(format!("pack-{}", sealed.checksum()), sample.name);
    drop(sealed);
    assert_eq!(names(&dir), [""; 0]);

    // The bytes are unchecked: there may be too few.
    for length in [0, 11, 31] {
        let mut writer = PackWriter::receive(&dir, sample.hash, WritePolicy::default()).unwrap();
        writer.write(&sample.pack[..length]).unwrap();
        assert!(writer.seal(0).unwrap_err().to_string().ends_with("is cut off"));
        let mut writer = PackWriter::receive(&dir, sample.hash, WritePolicy::default()).unwrap();
        writer.write(&sample.pack[..length]).unwrap();
        assert!(writer.continue_received().unwrap_err().to_string().ends_with("is cut off"));
    }
    assert_eq!(names(&dir), [""; 0]);
}

#[test]
fn a_thin_pack_is_completed() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    // All but the last entry arrived; their trailer is useless.
    let last = sample.entries.iter().map(|entry| entry.offset).max().unwrap() as usize;
    let end = sample.pack.len() - sample.hash.len_in_bytes();
    let mut came = sample.pack[..last].to_vec();
    came[8..12].copy_from_slice(&(sample.count() - 1).to_be_bytes());
    came.extend_from_slice(&[7; 20]);
    let mut writer = PackWriter::receive(&dir, sample.hash, WritePolicy::default()).unwrap();
    writer.write(&came).unwrap();
    writer.continue_received().unwrap();
    assert_eq!(writer.position(), last as u64);
    writer.write(&sample.pack[last..end]).unwrap();
    let mut sealed = writer.seal(sample.count()).unwrap();
    assert!(**sealed.written().unwrap().map().unwrap() == *sample.pack);
}

#[test]
fn the_index_comes_last_and_everything_is_synced() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let (published, steps) = on_disk(DiskFault::None, || sample.publish(&dir, &WITH_ALL).unwrap());
    assert!(published.made_keep);
    assert_eq!(named(&steps), ["promisor", "keep", "pack", "rev", "mtimes", "bitmap", "idx"]);
    check_durable(&steps);
    for (extension, content, mode) in [
        ("keep", &b"why\n"[..], 0o600),
        ("promisor", b"", 0o600),
        ("mtimes", b"times", 0o444),
        ("bitmap", b"bits", 0o444),
        ("idx", &sample.idx, 0o444),
    ] {
        let path = with_extension(&published.stem, extension);
        assert!(std::fs::read(&path).unwrap() == content, "{extension}");
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found & !mode, 0, "{extension} {found:o}");
        assert_eq!(found & 0o600, mode & 0o600, "{extension} {found:o}");
    }
}

/// Watches the directory while packs appear in it.
#[test]
fn no_reader_sees_an_index_without_its_companions() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let look = || {
        let mut most = 0;
        loop {
            let is_last = is_done.load(std::sync::atomic::Ordering::SeqCst);
            let names = names(&dir);
            let stems = names.iter().filter_map(|name| name.strip_suffix(".idx"));
            for stem in stems.clone() {
                for extension in ["pack", "rev", "mtimes", "promisor", "keep", "bitmap"] {
                    assert!(with_extension(&dir.join(stem), extension).exists(), "{stem}.{extension}");
                }
            }
            most = stems.count().max(most);
            if is_last {
                return most;
            }
        }
    };
    let most = std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        for number in 0..30 {
            let stem = dir.join(format!("pack-{number}"));
            sample.publish(&dir, &PublishOptions { name: PackName::Stem(&stem), ..WITH_ALL }).unwrap();
        }
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        looking.join().unwrap()
    });
    assert_eq!(most, 30);
}

#[test]
fn syncing_is_left_out_where_it_is_turned_off() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let sources = crate::ConfigSources {
        overrides: vec![("core.fsync".into(), Some("none".into()))],
        ..Default::default()
    };
    let policy = WritePolicy::of(&crate::Config::outside(&sources).unwrap()).unwrap();
    let ((), steps) = on_disk(DiskFault::None, || {
        let mut writer = PackWriter::create(&dir, sample.hash, policy, Some(sample.count())).unwrap();
        writer.write(sample.body()).unwrap();
        writer.seal(sample.count()).unwrap().publish(&sample.entries, &WITH_ALL).unwrap();
        publish_file(&dir.join("x.bitmap"), b"bits", FileKind::Bitmap, policy).unwrap();
    });
    assert!(!steps.iter().any(|step| matches!(step.op, DiskOp::Sync | DiskOp::SyncDir)), "{steps:?}");
}

/// Fails at every step in turn.
#[test]
fn a_failure_leaves_no_temporary_and_nothing_to_find() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let (_, steps) = on_disk(DiskFault::None, || sample.publish(&dir, &WITH_ALL).unwrap());
    let first_name = steps.iter().position(|step| matches!(step.op, DiskOp::Rename(_))).unwrap();
    for at in 0..steps.len() {
        let (_repo, dir) = sample.target();
        let fault = DiskFault::At(at, std::io::ErrorKind::StorageFull);
        let (result, failed) = on_disk(fault, || sample.publish(&dir, &WITH_ALL));
        let error = result.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unavailable, "{error}");
        let names = names(&dir);
        assert!(!names.iter().any(|name| name.starts_with("tmp_")), "{:?}: {names:?}", failed[at]);
        if at <= first_name {
            assert_eq!(names, [""; 0], "{:?}", failed[at]);
        }
        let has = |extension: &str| names.iter().any(|name| name.ends_with(extension));
        assert!(!has(".idx") || failed[at].op == DiskOp::SyncDir, "{:?}: {names:?}", failed[at]);
        assert!(!has(".keep"), "{:?}: {names:?}", failed[at]);
    }
}

/// Whenever the process is killed, git finds either the whole pack or none.
#[test]
fn a_killed_process_leaves_a_whole_pack_or_none() {
    let sample = Sample::tiny();
    let options = PublishOptions { mtimes: None, bitmap: None, promisor: None, ..WITH_ALL };
    let (_repo, dir) = sample.target();
    let (_, steps) = on_disk(DiskFault::None, || sample.publish(&dir, &options).unwrap());
    let mut found = [0, 0];
    for (at, step) in steps.iter().enumerate() {
        let (repo, dir) = sample.target();
        let (result, _) = on_disk(DiskFault::StopAt(at), || sample.publish(&dir, &options).map(drop));
        result.unwrap_err();
        let git = |args: &[&str]| Git::stock().run(repo.path(), args);
        let objects = git(&["cat-file", "--batch-all-objects", "--batch-check"]).lines().count();
        assert!(objects == 0 || objects == sample.entries.len(), "{step:?}");
        found[usize::from(objects > 0)] += 1;
        git(&["fsck", "--full", "--no-dangling"]);
        // And leftovers do not block the next attempt.
        let again = sample.publish(&dir, &options).unwrap();
        assert_eq!(again.was_there, with_extension(&again.stem, "pack").exists() && again.was_there);
        git(&["verify-pack", with_extension(&again.stem, "idx").to_str().unwrap()]);
        git(&["gc", "-q", "--prune=now"]);
        assert!(!names(&dir).iter().any(|name| name.starts_with("tmp_")));
    }
    assert!(found[0] > 5 && found[1] > 0, "{found:?}");
}

#[test]
fn a_pack_that_is_there_stays_and_is_young_again() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let first = sample.publish(&dir, &WITH_ALL).unwrap();
    let pack = with_extension(&first.stem, "pack");
    let identity = |path: &Path| packrace_os::identity(path, Role::Pack).unwrap().unwrap();
    std::fs::File::open(&pack).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let before = identity(&pack);

    let plain = PublishOptions { mtimes: None, bitmap: None, ..WITH_ALL };
    let second = sample.publish(&dir, &PublishOptions { keep: Some(b"mine\n"), ..plain }).unwrap();
    assert!(second.was_there && !second.made_keep);
    assert_eq!(std::fs::read(with_extension(&first.stem, "keep")).unwrap(), b"why\n");
    assert!(identity(&pack).modified > before.modified);
    // It is no longer a cruft pack; its other properties still hold.
    let expect = ["bitmap", "idx", "keep", "pack", "promisor", "rev"];
    assert_eq!(names(&dir), expect.map(|extension| format!("{}.{extension}", sample.name)));
}

#[test]
fn another_pack_of_the_same_name_is_not_touched() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let path = dir.join(format!("{}.pack", sample.name));
    std::fs::write(&path, b"something else").unwrap();
    let error = sample.publish(&dir, &PublishOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("differ in contents"), "{error}");
    assert_eq!(names(&dir), [format!("{}.pack", sample.name)]);
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

#[test]
fn names_that_callers_choose() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let hash = sample.name.strip_prefix("pack-").unwrap();
    for (name, expect) in [
        (PackName::Prefix(&dir.join(".tmp-1.2-pack")), format!(".tmp-1.2-pack-{hash}")),
        (PackName::Stem(&dir.join("some.thing")), "some.thing".to_owned()),
    ] {
        let published = sample.publish(&dir, &PublishOptions { name, ..Default::default() }).unwrap();
        assert_eq!(published.stem, dir.join(&expect));
        assert_eq!(names(&dir), [format!("{expect}.idx"), format!("{expect}.pack")]);
        assert!(remove_pack(&published.stem).unwrap());
    }
}

#[test]
fn missing_directories_are_made() {
    let sample = Sample::tiny();
    let dir = packrace_testkit::scratch_dir();
    let pack_dir = dir.path().join("incoming/pack");
    sample.publish(&pack_dir, &PublishOptions::default()).unwrap();
    assert_eq!(names(&pack_dir).len(), 2);
    let error = sample.publish(&dir.path().join("not/so/deep"), &PublishOptions::default()).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Unavailable);
}

#[test]
fn files_of_a_shared_repository_are_the_groups() {
    let sample = Sample::tiny();
    let dir = packrace_testkit::scratch_dir();
    let sources = crate::ConfigSources {
        overrides: vec![("core.sharedRepository".into(), Some("0660".into()))],
        ..Default::default()
    };
    let policy = WritePolicy::of(&crate::Config::outside(&sources).unwrap()).unwrap();
    let pack_dir = dir.path().join("pack");
    let mut writer = PackWriter::create(&pack_dir, sample.hash, policy, Some(sample.count())).unwrap();
    writer.write(sample.body()).unwrap();
    writer.seal(sample.count()).unwrap().publish(&sample.entries, &PublishOptions::default()).unwrap();
    publish_locked(&pack_dir.join("multi-pack-index"), b"x", FileKind::MultiPackIndex, policy).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&pack_dir), 0o2770);
    let modes: Vec<_> = names(&pack_dir).iter().map(|name| mode(&pack_dir.join(name))).collect();
    assert_eq!(modes, [0o660, 0o440, 0o440]);
}

#[test]
fn version_1_where_it_fits() {
    let sample = Sample::tiny();
    let check = |entries: &[pack_index::Entry], expect: &[u8]| {
        let dir = packrace_testkit::scratch_dir();
        let options = PublishOptions { index_version: pack_index::Version::V1, ..Default::default() };
        let sealed = sample.sealed(dir.path(), Some(sample.count())).unwrap();
        let published = sealed.publish(entries, &options).unwrap();
        let idx = std::fs::read(with_extension(&published.stem, "idx")).unwrap();
        assert_eq!(&idx[..4], expect);
    };
    let mut far = sample.entries.clone();
    let first = far.iter().filter(|entry| entry.id.first_byte() == 0).count() as u32;
    check(&far, &first.to_be_bytes());
    far[0].offset = 1 << 31;
    check(&far, b"\xfftOc");
}

#[test]
fn packs_go_index_first_unless_they_are_kept() {
    let sample = Sample::tiny();
    let (_repo, dir) = sample.target();
    let published = sample.publish(&dir, &WITH_ALL).unwrap();
    assert!(!remove_pack(&published.stem).unwrap());
    assert_eq!(names(&dir).len(), 7);
    std::fs::remove_file(with_extension(&published.stem, "keep")).unwrap();
    let (removed, steps) = on_disk(DiskFault::None, || remove_pack(&published.stem).unwrap());
    assert!(removed);
    let order: Vec<_> = steps.iter().map(|step| step.path.extension().unwrap().to_str().unwrap()).collect();
    assert_eq!(order, ["idx", "pack", "rev", "keep", "bitmap", "promisor", "mtimes"]);
    assert_eq!(names(&dir), [""; 0]);
}

#[test]
fn who_holds_a_lock_is_told_if_git_wrote_it() {
    let dir = packrace_testkit::scratch_dir();
    let (path, beside) = (dir.path().join("v1.0"), dir.path().join("v1.0~pid.lock"));
    let (kind, policy) = (FileKind::Refs, WritePolicy::default());
    let _held = LockFile::take(&path, kind, policy).unwrap();
    let told = || {
        let words = LockFile::take(&path, kind, policy).unwrap_err().to_string();
        words.split_once("v1.0.lock': File exists.\n\n").expect("it names the lock").1.to_owned()
    };
    let said = |holder: &str| {
        std::fs::write(&beside, holder).unwrap();
        told()
    };
    let own = std::process::id();
    assert!(said(&format!("pid {own}\n")).starts_with(&format!("Lock may be held by process {own};")));
    for holder in ["pid 2147483647\n", "pid 2147483647", "pid  +2147483647 \r\n"] {
        assert!(said(holder).starts_with("Lock was held by process 2147483647,"), "{holder}");
    }
    assert!(said("pid 99999999999\n").starts_with("Lock was held by process 99999999999,"));
    for holder in ["", "pid 0\n", " pid 1", "pid\t1", "pid one\n", "pid 1\n2", &"pid 1\n".repeat(100)] {
        assert!(said(holder).starts_with("Another git process"), "{holder}");
    }
    // Nobody writes into this pipe, so reading it would never end.
    std::fs::remove_file(&beside).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&beside).status().unwrap().success());
    assert!(told().starts_with("Another git process"));
}

#[test]
fn holders_of_locks_are_named_where_that_is_configured() {
    let dir = packrace_testkit::scratch_dir();
    let open = || {
        let overrides = vec![("core.lockfilePid".into(), Some("true".into()))];
        let sources = crate::ConfigSources { overrides, ..Default::default() };
        let policy = WritePolicy::of(&crate::Config::outside(&sources).unwrap()).unwrap();
        LockFile::take(&dir.path().join("index"), FileKind::WorkTreeIndex, policy)
    };
    for commits in [true, false] {
        let lock = open().unwrap();
        let named = std::fs::read_to_string(dir.path().join("index~pid.lock")).unwrap();
        assert_eq!(named, format!("pid {}\n", std::process::id()));
        assert!(open().unwrap_err().to_string().contains("\n\nLock may be held by process "));
        match commits {
            true => lock.commit().unwrap(),
            false => drop(lock),
        }
        assert_eq!(names(dir.path()), ["index"]);
    }
    // One that a killed process has left is no reason to fail.
    std::fs::write(dir.path().join("index~pid.lock"), "pid 1\n").unwrap();
    open().unwrap().commit().unwrap();
}

#[test]
fn one_process_at_a_time_replaces_a_file() {
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("info/commit-graphs/commit-graph-chain");
    std::fs::create_dir(dir.path().join("info")).unwrap();
    let (kind, policy) = (FileKind::CommitGraphChain, WritePolicy::default());
    publish_locked(&path, b"old\n", kind, policy).unwrap();
    let mut lock = LockFile::take(&path, kind, policy).unwrap();
    lock.write(b"new\n").unwrap();
    let refused = LockFile::take(&path, kind, policy).unwrap_err().to_string();
    let expect = format!("Unable to create '{}.lock': File exists.\n", path.display());
    assert!(refused.starts_with(&expect), "{refused}");
    drop(lock);
    assert_eq!(std::fs::read(&path).unwrap(), b"old\n");

    let again = || publish_locked(&path, b"new\n", kind, policy);
    let (result, steps) = on_disk(DiskFault::None, again);
    result.unwrap();
    check_durable(&steps);
    assert_eq!(std::fs::read(&path).unwrap(), b"new\n");
    for at in 0..steps.len() {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"old\n").unwrap();
        let (result, _) = on_disk(DiskFault::At(at, std::io::ErrorKind::StorageFull), again);
        result.unwrap_err();
        let is_named = steps[..at].iter().any(|step| matches!(step.op, DiskOp::Rename(_)));
        assert_eq!(std::fs::read(&path).unwrap(), if is_named { b"new\n" } else { b"old\n" });
        assert_eq!(names(path.parent().unwrap()), ["commit-graph-chain"]);
    }
}

/// The only test here that writes much, so that others cannot disturb its counts by more than the tolerance.
#[test]
fn a_large_pack_takes_few_writes() {
    const BYTES: usize = 50_000_000;
    let dir = packrace_testkit::scratch_dir();
    let entry = |number: u32| {
        let mut id = HashKind::Sha1.null();
        id.as_mut_slice()[..4].copy_from_slice(&number.to_be_bytes());
        pack_index::Entry { id, crc32: number, offset: 12 + u64::from(number) * 500 }
    };
    let entries: Vec<_> = (0..(BYTES / 500) as u32).map(entry).collect();
    let (_, steps) = on_disk(DiskFault::None, || {
        let mut writer = PackWriter::create(
            dir.path(),
            HashKind::Sha1,
            WritePolicy::default(),
            Some(entries.len() as u32),
        )
        .unwrap();
        for number in 0..entries.len() {
            writer.write(&[number as u8; 500]).unwrap();
        }
        let options = PublishOptions { reverse_index: true, ..Default::default() };
        writer.seal(entries.len() as u32).unwrap().publish(&entries, &options).unwrap();
    });
    let writes = steps.iter().filter(|step| matches!(step.op, DiskOp::Write(_))).count();
    assert!(writes <= BYTES / (1 << 20) + 64, "{writes} writes");
    assert!(steps.len() <= writes + 20, "{} steps", steps.len());
    let (counted, bytes) = count::so_far(Role::Pack, Op::Write);
    assert!(counted > 0 && bytes >= BYTES as u64);
}

#[test]
fn a_multi_pack_index_comes_after_its_bitmap_and_takes_the_place_of_another() {
    let storage = Storage {
        packs: 3,
        multi_pack_index: true,
        bitmap: packrace_testkit::Bitmap::Plain,
        ..Storage::default()
    };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let dir = repo.path().join("objects/pack");
    let midx_names = || names(&dir).into_iter().filter(|name| name.contains("multi")).collect::<Vec<_>>();
    let old = midx_names();
    assert_eq!(old.len(), 2, "{old:?}");
    let file = MultiPackIndexFile {
        bytes: std::fs::read(dir.join(&old[0])).unwrap(),
        bitmap: Some(std::fs::read(dir.join(&old[1])).unwrap()),
        reverse: None,
    };
    let policy = WritePolicy::default();
    let take = || MultiPackIndexLock::take(&dir, HashKind::Sha1, policy);

    // The file and the bitmap made by git, put in place of others.
    std::fs::rename(dir.join(&old[1]), dir.join("multi-pack-index-of-old.bitmap")).unwrap();
    std::fs::write(dir.join("multi-pack-index-of-old.rev"), "").unwrap();
    std::fs::remove_file(dir.join(&old[0])).unwrap();
    let lock = take().unwrap();
    assert!(take().unwrap_err().to_string().starts_with("Unable to create '"));
    let (result, steps) = on_disk(DiskFault::None, || lock.publish(&file));
    result.unwrap();
    check_durable(&steps);
    assert_eq!(midx_names(), old);
    let is_named = |step: &&DiskStep| matches!(step.op, DiskOp::Rename(_));
    let order: Vec<_> = steps.iter().filter(is_named).map(|step| step.path.extension()).collect();
    assert_eq!(order, [None, Some("lock".as_ref())], "the bitmap's temporary, then the lock");
    repo.git(&["multi-pack-index", "verify"]);
    repo.git(&["rev-list", "--test-bitmap", "HEAD"]);

    // The same contents are left alone.
    let before = std::fs::metadata(dir.join("multi-pack-index")).unwrap().ino();
    take().unwrap().publish(&file).unwrap();
    assert_eq!(std::fs::metadata(dir.join("multi-pack-index")).unwrap().ino(), before);

    let again = || {
        std::fs::write(dir.join("multi-pack-index"), "another").unwrap();
        take().and_then(|lock| lock.publish(&file))
    };
    let (result, steps) = on_disk(DiskFault::None, again);
    result.unwrap();
    for at in 0..steps.len() {
        let (result, _) = on_disk(DiskFault::At(at, std::io::ErrorKind::StorageFull), again);
        result.unwrap_err();
        assert!(!names(&dir).iter().any(|name| name.starts_with("tmp_") || name.ends_with(".lock")));
        assert_eq!(midx_names(), old);
    }
    assert!(
        take()
            .unwrap()
            .publish(&MultiPackIndexFile { bytes: b"short".to_vec(), bitmap: None, reverse: None })
            .is_err()
    );
    take().unwrap().remove().unwrap();
    assert_eq!(midx_names(), [""; 0]);
    take().unwrap().remove().unwrap();
}
