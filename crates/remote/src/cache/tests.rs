use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use packrace_format::head::{self, ObjectKey};
use packrace_object::HashKind;
use packrace_store::OpenOptions;
use packrace_testkit::{Random, RefFormat, Repo, RepoBuilder, Size};
use tempfile::TempDir;

use super::*;
use crate::bucket::WriteOutcome;
use crate::bucket::double::{Double, FaultRates};
use crate::bucket::{RequestKind, RequestOutcome};
use crate::repository::{LocalRepository, create};

/// A bound that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);

fn name(text: &str) -> BucketName {
    BucketName::new(text).unwrap()
}

fn local_repository(seed: u64, hash: HashKind) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).seed(seed).hash(hash).ref_format(RefFormat::Reftable).build();
    repo.git(&["repack", "-adbq"]);
    repo
}

fn import(bucket: &Bucket, text: &str, repo: &Repo) -> Head {
    let config = vec![(b"transfer.hiderefs".to_vec(), b"refs/\"hidden\\".to_vec())];
    let hash =
        if repo.git(&["rev-parse", "HEAD"]).trim().len() == 64 { HashKind::Sha256 } else { HashKind::Sha1 };
    create(bucket, &name(text), &LocalRepository { git_dir: repo.path(), hash, config }).unwrap()
}

/// A store, a fault-free bucket that writes to it, and a node.
struct Node {
    double: Arc<Double>,
    writer: Bucket,
    cache: Cache,
    dir: TempDir,
}

fn node_on(double: Arc<Double>, dir: TempDir, max_bytes: u64) -> Node {
    // A process that another test is forking holds our lock, too, until it calls exec.
    let end = Instant::now() + HANG;
    let cache = loop {
        match Cache::open(Bucket::new(double.clone()), dir.path(), max_bytes, Box::new(|_| {})) {
            Err(error) if error.to_string().contains("another process") && Instant::now() < end => {
                std::thread::yield_now();
            }
            opened => break opened.unwrap(),
        }
    };
    Node { writer: Bucket::new(double.clone()), double, cache, dir }
}

fn node(max_bytes: u64) -> Node {
    node_on(Arc::default(), packrace_testkit::scratch_dir(), max_bytes)
}

impl Node {
    fn path(&self, text: &str) -> PathBuf {
        repositories_dir(self.dir.path()).join(name(text).as_str())
    }

    fn open(&self, text: &str) -> Result<Arc<Repository>, Error> {
        let top = repositories_dir(self.dir.path());
        self.cache.open_repository(&name(text), |path| {
            let options = OpenOptions { strict: true, ..OpenOptions::default() };
            Ok(Arc::new(Repository::open(&top.join(path), &options).unwrap()))
        })
    }

    fn requests(&self) -> u64 {
        self.cache.bucket().counts().all()
    }

    fn refs(&self, text: &str) -> String {
        packrace_testkit::Git::stock().run(&self.path(text), &["for-each-ref"])
    }

    /// Replaces the packs and tables of one repository by those of another.
    fn replace(&self, text: &str, by: &str) {
        let read = |text| read_head(&self.writer, &name(text), None).unwrap().unwrap();
        let (old, new) = (read(text), read(by));
        let mut key = None;
        let mut head = Head { generation: old.head.generation + 1, ..new.head };
        // The objects are stored under the other repository's keys.
        for file in head.packs.iter_mut().flat_map(|pack| &mut pack.files) {
            if let head::FilePlace::Object { key: of, .. } = file.1.place {
                key = Some(of);
            }
        }
        if let Some(key) = key {
            let bytes = self.double.object(&name(by).object_key(&key)).unwrap();
            self.double.damage(&name(text).object_key(&key), bytes);
        }
        head.token = head::WriteToken([9; 16]);
        let bytes = Bytes::from(head::write(&head).unwrap());
        let swapped = self.writer.swap(&name(text).head_key(), &old.version, &bytes).unwrap();
        assert!(matches!(swapped, WriteOutcome::Won(_)));
    }
}

#[test]
fn a_repository_is_what_stock_git_takes_for_it() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let node = node(1 << 30);
        let repo = local_repository(1, hash);
        import(&node.writer, "team/a", &repo);
        node.open("team/a").unwrap();
        let git = packrace_testkit::Git::stock();
        let path = node.path("team/a");
        git.run(&path, &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(node.refs("team/a"), repo.git(&["for-each-ref"]));
        assert_eq!(git.run(&path, &["symbolic-ref", "HEAD"]), repo.git(&["symbolic-ref", "HEAD"]));
        assert_eq!(git.run(&path, &["config", "transfer.hideRefs"]).trim(), "refs/\"hidden\\");
        assert!(
            path.join("objects/pack").read_dir().unwrap().any(|file| {
                file.unwrap().path().extension().is_some_and(|extension| extension == "bitmap")
            })
        );
    }
}

/// An unchanged head costs one request. Refs and a pack that fit into one part are fetched with one request.
#[test]
fn budgets_of_requests() {
    let node = node(1 << 30);
    import(&node.writer, "a", &local_repository(1, HashKind::Sha1));
    node.open("a").unwrap();
    assert_eq!(node.requests(), 2);
    for warm in 1..=3 {
        node.open("a").unwrap();
        assert_eq!(node.requests(), 2 + warm);
    }
    let counts = node.cache.bucket().counts();
    assert_eq!(counts.of(RequestKind::Get, RequestOutcome::Unchanged), 3);
    assert_eq!(counts.all_of(RequestKind::List), 0);
    assert_eq!(node.open("absent").unwrap_err().kind(), ErrorKind::Absent);
    assert_eq!(node.requests(), 6);
    assert_eq!(lock(&node.cache.entries).len(), 1);
}

#[test]
fn a_change_elsewhere_is_served_at_once() {
    let node = node(1 << 30);
    let (one, two) = (local_repository(1, HashKind::Sha1), local_repository(2, HashKind::Sha1));
    import(&node.writer, "a", &one);
    import(&node.writer, "b", &two);
    let before = node.open("a").unwrap();
    assert_eq!(node.refs("a"), one.git(&["for-each-ref"]));
    node.replace("a", "b");
    node.open("a").unwrap();
    assert_eq!(node.refs("a"), two.git(&["for-each-ref"]));
    packrace_testkit::Git::stock().run(&node.path("a"), &["fsck", "--strict", "--no-dangling"]);
    let packs = node.path("a").join("objects/pack").read_dir().unwrap();
    assert_eq!(packs.filter(|file| file.as_ref().unwrap().path().extension().unwrap() == "pack").count(), 1);
    drop(before);
}

#[test]
fn nothing_stale_and_nothing_empty_is_served() {
    let node = node(1 << 30);
    import(&node.writer, "a", &local_repository(1, HashKind::Sha1));
    node.open("a").unwrap();
    node.double.set_away(true);
    assert_eq!(node.open("a").unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(node.open("b").unwrap_err().kind(), ErrorKind::Unavailable);
    node.double.set_away(false);
    node.open("a").unwrap();
    let key = name("a").head_key();
    let good = node.double.object(&key).unwrap();
    let mut newer = good[..good.len() - 32].to_vec();
    newer[11] = 9;
    let digest = sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(&newer));
    newer.extend_from_slice(&digest);
    for (bytes, expect) in [
        (Bytes::new(), "shorter than a head"),
        (good.slice(1..), "signature"),
        (good.slice(..good.len() - 1), "checksum"),
        (newer.into(), "version 9 is not supported"),
    ] {
        node.double.damage(&key, bytes);
        let error = node.open("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(
            error.to_string().starts_with("'a.git': head: ") && error.to_string().contains(expect),
            "{error}"
        );
    }
    node.double.damage(&key, vec![0; head::MAX_HEAD_BYTES + 1]);
    assert_eq!(node.open("a").unwrap_err().kind(), ErrorKind::Refused);
    node.double.damage(&key, good);
    node.open("a").unwrap();
    Bucket::new(node.double.clone()).delete(&key).unwrap();
    assert_eq!(node.open("a").unwrap_err().kind(), ErrorKind::Absent);
    assert!(!node.path("a").exists());
    assert_eq!(node.cache.bytes(), 0);
}

#[test]
fn what_is_not_as_its_head_says_gets_no_name() {
    let node = node(1 << 30);
    import(&node.writer, "a", &local_repository(1, HashKind::Sha1));
    let key = node.double.keys().into_iter().find(|key| key.contains("/o/")).unwrap();
    let good = node.double.object(&key).unwrap();
    let mut flipped = good.to_vec();
    flipped[good.len() / 2] ^= 1;
    for bad in [flipped, good[..good.len() - 1].to_vec(), Vec::new()] {
        node.double.damage(&key, bad);
        node.open("a").unwrap_err();
        let packs = node.path("a").join("objects/pack").read_dir().unwrap();
        assert_eq!(packs.count(), 0);
        assert!(!node.path("a").join("reftable/tables.list").exists());
    }
    node.writer.delete(&key).unwrap();
    let error = node.open("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("is missing from the bucket"), "{error}");
    node.double.damage(&key, good);
    node.open("a").unwrap();
    packrace_testkit::Git::stock().run(&node.path("a"), &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn the_longest_unused_go_but_not_what_is_read() {
    let repo = local_repository(1, HashKind::Sha1);
    let probe = node(1 << 30);
    import(&probe.writer, "a", &repo);
    probe.open("a").unwrap();
    let node = node(probe.cache.bytes() * 5 / 2);
    for text in ["a", "b", "c", "d"] {
        import(&node.writer, text, &repo);
    }
    let is_there = |text| node.path(text).exists();
    node.open("a").unwrap();
    let reader = node.open("b").unwrap();
    node.open("a").unwrap();
    node.open("c").unwrap();
    assert!(is_there("b") && is_there("c") && !is_there("a"), "b is read");
    let other = node.open("c").unwrap();
    let error = node.open("d").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("bytes in the cache"), "{error}");
    drop((reader, other));
    node.open("d").unwrap();
    assert!(is_there("d") && !is_there("b"));
    assert_eq!(node.cache.counts().evictions.load(Relaxed), 2);
    assert!(node.cache.bytes() <= probe.cache.bytes() * 2);
    // A repository that never fits evicts nothing.
    let large = RepoBuilder::new(Size::Small).ref_format(RefFormat::Reftable).build();
    large.git(&["repack", "-adbq"]);
    import(&node.writer, "large", &large);
    assert_eq!(node.open("large").unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(is_there("d"));
    assert_eq!(node.cache.counts().evictions.load(Relaxed), 2);
}

#[test]
fn a_cache_outlives_its_process_but_not_a_power_cut() {
    let Node { double, writer, cache, dir } = node(1 << 30);
    let repo = local_repository(1, HashKind::Sha1);
    import(&writer, "a", &repo);
    let again = Cache::open(Bucket::new(double.clone()), dir.path(), 1 << 30, Box::new(|_| {}));
    assert!(again.unwrap_err().to_string().contains("another process"));
    let node = Node { double, writer, cache, dir };
    node.open("a").unwrap();
    let bytes = node.cache.bytes();
    let Node { double, dir, cache, .. } = node;
    drop(cache);
    let node = node_on(double, dir, 1 << 30);
    assert_eq!(node.cache.bytes(), bytes);
    node.open("a").unwrap();
    assert_eq!(node.requests(), 1, "it is there");
    // After a power cut, a file has its name and its length, but other bytes.
    let Node { double, dir, cache, .. } = node;
    drop(cache);
    let packs = repositories_dir(dir.path()).join("a.git/objects/pack").read_dir().unwrap();
    let pack =
        packs.map(|file| file.unwrap().path()).find(|path| path.extension().unwrap() == "pack").unwrap();
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, vec![0; std::fs::metadata(pack.with_extension("idx")).unwrap().len() as usize])
        .unwrap();
    let mut node = node_on(double, dir, 1 << 30);
    node.cache.boot = Some(b"another".to_vec());
    node.open("a").unwrap();
    packrace_testkit::Git::stock().run(&node.path("a"), &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(node.refs("a"), repo.git(&["for-each-ref"]));
    assert_eq!(node.requests(), 2, "the head, and the pack alone");
}

/// What a kill between two steps leaves is completed by the next process, even if the head has gone back
/// meanwhile.
#[test]
fn what_a_kill_leaves_is_completed() {
    let (one, two) = (local_repository(1, HashKind::Sha1), local_repository(2, HashKind::Sha1));
    let Node { double, writer, cache, dir } = node(1 << 30);
    import(&writer, "a", &one);
    import(&writer, "b", &two);
    let node = Node { double, writer, cache, dir };
    node.open("a").unwrap();
    let state = node.cache.state(&name("a"));
    let (old_state, key) = (std::fs::read(&state).unwrap(), name("a").head_key());
    let old_head = node.double.object(&key).unwrap();
    let version = read_head(&node.writer, &name("a"), None).unwrap().unwrap().version;
    node.replace("a", "b");
    node.open("a").unwrap();
    let left = node.path("a").join("objects/pack/tmp_fetch_left");
    std::fs::write(&left, "").unwrap();
    let Node { double, dir, cache, .. } = node;
    drop(cache);
    // Killed before the state was written; then the store returns the old head again.
    std::fs::write(&state, old_state).unwrap();
    let node = node_on(double, dir, 1 << 30);
    node.open("a").unwrap();
    assert_eq!(node.refs("a"), two.git(&["for-each-ref"]));
    assert!(!left.exists());
    node.double.damage(&key, old_head);
    node.open("a").unwrap();
    assert_eq!(node.refs("a"), one.git(&["for-each-ref"]));
    packrace_testkit::Git::stock().run(&node.path("a"), &["fsck", "--strict", "--no-dangling"]);
    assert_ne!(read_head(&node.writer, &name("a"), None).unwrap().unwrap().version, version);
}

/// Incomplete repositories and those that are gone from the bucket take no space; long names are kept like
/// others.
#[test]
fn what_is_on_disk_is_counted_or_goes() {
    let repo = local_repository(1, HashKind::Sha1);
    let node = node(1 << 30);
    let long = format!("{}/a", "ä".repeat(100));
    import(&node.writer, &long, &repo);
    import(&node.writer, "gone", &repo);
    node.open(&long).unwrap();
    node.open("gone").unwrap();
    let bytes = node.cache.bytes();
    let begun = node.path("team/begun");
    std::fs::create_dir_all(begun.join("objects/pack")).unwrap();
    std::fs::write(begun.join("objects/pack/tmp_fetch_left"), "").unwrap();
    let Node { double, dir, cache, .. } = node;
    drop(cache);
    let mut node = node_on(double, dir, 1 << 30);
    assert!(!begun.exists());
    assert_eq!(node.cache.bytes(), bytes);
    node.open(&long).unwrap();
    assert_eq!(node.requests(), 1, "it is there");
    node.cache.boot = Some(b"another".to_vec());
    node.writer.delete(&name("gone").head_key()).unwrap();
    assert_eq!(node.open("gone").unwrap_err().kind(), ErrorKind::Absent);
    assert!(!node.path("gone").exists());
    assert_eq!(node.cache.bytes() * 2, bytes);
}

/// Whatever the store does, a served repository is complete, in one of its two states.
#[test]
fn faults_never_show() {
    let (one, two) = (local_repository(1, HashKind::Sha1), local_repository(2, HashKind::Sha1));
    let rates = FaultRates { lost_before: 250, busy: 250, cut: 200, ..FaultRates::default() };
    let (mut served, mut failed) = (0, 0);
    for seed in 0..60 {
        let node = node_on(
            Arc::new(Double::with_faults(seed, FaultRates::default())),
            packrace_testkit::scratch_dir(),
            1 << 30,
        );
        import(&node.writer, "a", &one);
        import(&node.writer, "b", &two);
        let mut random = Random::new(seed);
        let mut expect = &one;
        for _ in 0..6 {
            node.double.set_rates(FaultRates::default());
            if random.below(3) == 0 && std::ptr::eq(expect, &one) {
                node.replace("a", "b");
                expect = &two;
            }
            node.double.set_rates(rates);
            match node.open("a") {
                Ok(_) => {
                    assert_eq!(node.refs("a"), expect.git(&["for-each-ref"]), "seed {seed}");
                    served += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "seed {seed}: {error}");
                    failed += 1;
                }
            }
        }
    }
    assert!(served > 50 && failed > 0, "{served} {failed}");
}

/// Concurrent requests share the next check; none gets the result of one that had begun before.
#[test]
fn many_at_once_ask_together() {
    let node = node(1 << 30);
    import(&node.writer, "a", &local_repository(1, HashKind::Sha1));
    node.open("a").unwrap();
    let before = node.requests();
    let slot = lock(&node.cache.entries).get(&name("a")).unwrap().clone();
    let all_run = Barrier::new(checks::MAX_CHECKS + 1);
    let held = Mutex::new(());
    std::thread::scope(|scope| {
        let hold = lock(&held);
        for _ in 0..checks::MAX_CHECKS {
            scope.spawn(|| {
                slot.checks.run(|| {
                    all_run.wait();
                    drop(lock(&held));
                    Err(Error::damaged("an older check".to_owned()))
                })
            });
        }
        all_run.wait();
        for _ in 0..16 {
            scope.spawn(|| node.open("a").unwrap());
        }
        while slot.checks.waiting() < 16 {
            std::thread::yield_now();
        }
        drop(hold);
    });
    assert_eq!(node.requests() - before, 1, "requests for 16");
}

/// The first read waits for the second, so both are in flight at once; the bytes still come in order.
#[test]
fn parts_are_read_at_once_and_come_in_order() {
    let double = Arc::<Double>::default();
    double.set_parallel_reads(4);
    let (bucket, name) = (Bucket::new(double.clone()), name("a"));
    let key = ObjectKey { generation: 1, token: head::WriteToken([1; 16]) };
    let object = name.object_key(&key);
    let bytes = Bytes::from(Random::new(5).bytes(1000));
    double.damage(&object, bytes.clone());
    let parts: Vec<_> =
        (0..10).map(|at| parts::ObjectPart { key, range: at * 100..(at + 1) * 100 }).collect();
    let (sender, receiver) = channel();
    double.before_read(move || receiver.recv_timeout(HANG).unwrap());
    double.before_read(move || sender.send(()).unwrap());
    let mut read = Vec::new();
    let mut read_all = |reader: &parts::PartReader<'_>| {
        while let Some(part) = reader.next()? {
            read.extend_from_slice(&part);
        }
        Ok(())
    };
    parts::read(&bucket, &name, &parts, &mut read_all).unwrap();
    let stopped = parts::read(&bucket, &name, &parts, |reader| reader.next());
    assert_eq!(stopped.unwrap().unwrap(), bytes.slice(..100));
    bucket.delete(&object).unwrap();
    let missing = parts::read(&bucket, &name, &parts, &mut read_all);
    assert!(matches!(missing, Err(FetchError::Missing(_))), "{missing:?}");
    assert_eq!(read, bytes);
}
