use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Barrier, OnceLock};

use packrace_format::head::{FilePlace, Head, WriteToken};
use packrace_object::{HashKind, Kind, ObjectId, oid};
use packrace_store::refs::{Expected, Peeled, RefChange, RefStore, Value};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Extent, Random, RefFormat, RepoBuilder, Size, sampled};
use tempfile::TempDir;

use super::*;
use crate::bucket::double::{Double, FaultRates};
use crate::bucket::{Bucket, RequestKind, RequestOutcome};
use crate::cache::repositories_dir;
use crate::repository::{LocalRepository, create, read_head};

pub(crate) fn name() -> BucketName {
    BucketName::new("a").unwrap()
}

/// Every object is a commit.
struct Commits;

impl RefObjects for Commits {
    fn kind(&mut self, _: &oid) -> Result<Option<Kind>, packrace_store::Error> {
        Ok(Some(Kind::Commit))
    }

    fn peel(&mut self, _: &oid) -> Result<Peeled, packrace_store::Error> {
        Ok(Peeled::NotATag)
    }
}

/// A node and a temporary directory for its cache.
pub(crate) struct Node {
    pub(crate) committer: Committer,
    dir: TempDir,
}

impl Node {
    pub(crate) fn on(double: &Arc<Double>) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let bucket = Bucket::new(double.clone());
        let cache = Cache::open(bucket, &dir.path().join("cache"), 1 << 30, Box::new(|_| {})).unwrap();
        Node { committer: Committer::new(Arc::new(cache)), dir }
    }

    pub(crate) fn open(&self) -> Result<Arc<Repository>, Error> {
        let top = repositories_dir(&self.dir.path().join("cache"));
        self.committer.cache().open_repository(&name(), |path| {
            let options = OpenOptions { strict: true, ..OpenOptions::default() };
            Ok(Arc::new(Repository::open(&top.join(path), &options).unwrap()))
        })
    }

    pub(crate) fn requests(&self) -> u64 {
        self.committer.cache().bucket().counts().all()
    }

    pub(crate) fn commit(&self, proposal: Proposal) -> CommitOutcome {
        self.committer.commit(&name(), proposal)
    }
}

/// A push that sleeps between its upload and its swap.
pub(crate) struct StalledPush {
    work: Work,
}

impl StalledPush {
    pub(crate) fn begin(node: &Node, proposal: Proposal) -> Self {
        let held = node.committer.cache().hold(&name());
        let (key, packs) = node.committer.upload(&held, &name(), &proposal.packs).unwrap();
        StalledPush { work: Work { proposal, key, packs } }
    }

    /// The key of its upload.
    pub(crate) fn key(&self) -> String {
        name().object_key(&self.work.key)
    }

    pub(crate) fn end(self, node: &Node) -> CommitOutcome {
        let held = node.committer.cache().hold(&name());
        node.open().unwrap();
        node.committer.queue(&held, &name(), &Queue::default(), self.work)
    }
}

/// Fills a bucket with a repository, which git makes once for all tests.
pub(crate) fn import(double: &Arc<Double>) -> Head {
    static MADE: OnceLock<Vec<(String, bytes::Bytes)>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let repo = RepoBuilder::new(Size::Tiny).ref_format(RefFormat::Reftable).build();
        repo.git(&["repack", "-adbq"]);
        let local = LocalRepository { git_dir: repo.path(), hash: HashKind::Sha1, config: Vec::new() };
        let double = Arc::<Double>::default();
        create(&Bucket::new(double.clone()), &name(), &local).unwrap();
        double.keys().into_iter().map(|key| (key.clone(), double.object(&key).unwrap())).collect()
    });
    made.iter().for_each(|(key, bytes)| double.damage(key, bytes.clone()));
    read(double)
}

pub(crate) fn random_id(random: &mut Random) -> ObjectId {
    ObjectId::Sha1(random.bytes(20).try_into().unwrap())
}

/// Files named like those of a pack. Their contents do not matter here.
pub(crate) fn pack(dir: &Path, random: &mut Random, bytes: usize) -> StagedPack {
    let checksum = random_id(random);
    let stem = dir.join(format!("pack-{checksum}"));
    for (extension, bytes) in [("pack", bytes), ("idx", 1100), ("rev", 60)] {
        std::fs::write(stem.with_extension(extension), random.bytes(bytes)).unwrap();
    }
    StagedPack { checksum, stem }
}

fn edit(name: &str, old: Option<ObjectId>, change: RefChange) -> RefEdit {
    let expected = old.map_or(Expected::Absent, Expected::Id);
    let message = b"push".as_slice().into();
    RefEdit { name: name.into(), change, expected, deref: true, message, force_log: false }
}

fn transaction(repository: &Repository, mode: TransactionMode, edits: Vec<RefEdit>) -> RefTransaction {
    let who = b"A <a@example.com> 1700000000 +0000".to_vec();
    let writes = RefWrites::of(repository.config(), HashKind::Sha1, true, who).unwrap();
    RefTransaction { edits, mode, writes }
}

pub(crate) fn set(
    repository: &Repository,
    reference: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    packs: Vec<StagedPack>,
) -> Proposal {
    let edits = vec![edit(reference, old, RefChange::Set(new))];
    Proposal {
        transactions: vec![transaction(repository, TransactionMode::Batch, edits)],
        objects: Box::new(Commits),
        packs,
        checked_at: 1,
    }
}

pub(crate) fn value(refs: &RefStore, reference: &str) -> Option<ObjectId> {
    match refs.read(reference.as_bytes()).unwrap() {
        Some(Value::Id(id)) => Some(id),
        Some(Value::Symbolic(target)) => panic!("{target:?}"),
        None => None,
    }
}

pub(crate) fn read(double: &Arc<Double>) -> Head {
    read_head(&Bucket::new(double.clone()), &name(), None).unwrap().unwrap().head
}

/// Checks that every file that a head names exists and matches its hash. Returns the packs.
#[track_caller]
pub(crate) fn check_objects(double: &Arc<Double>) -> Vec<Vec<u8>> {
    let head = read(double);
    let mut packs = Vec::new();
    for (path, file, _) in crate::cache::files_of(&head) {
        let bytes = match &file.place {
            FilePlace::Inline(bytes) => bytes.clone(),
            FilePlace::Object { key, offset } => {
                let object = double.object(&name().object_key(key)).unwrap_or_else(|| panic!("{path}"));
                object[*offset as usize..(offset + file.length) as usize].to_vec()
            }
        };
        let digest: [u8; 32] =
            sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(&bytes)).into();
        assert_eq!(digest, file.sha256, "{path}");
        if path.ends_with(".pack") {
            packs.push(bytes);
        }
    }
    packs
}

/// Whether one of the packs contains these bytes.
pub(crate) fn hold(packs: &[Vec<u8>], bytes: &[u8]) -> bool {
    packs.iter().any(|pack| memchr::memmem::find(pack, bytes).is_some())
}

#[track_caller]
pub(crate) fn done(outcome: CommitOutcome) {
    match outcome {
        CommitOutcome::Decided(all) => {
            assert!(all.iter().all(|one| one.as_ref().is_ok_and(Vec::is_empty)), "{all:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn budgets_of_requests() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, mut random) = (Node::on(&double), Random::new(1));
    let files = packrace_testkit::scratch_dir();
    node.open().unwrap();
    let mut old = None;
    for (bytes, most) in [(20 << 10, 3), (1000, 2), (1000, 2), (20 << 10, 3), (9 << 20, 4)] {
        let before = node.requests();
        let repository = node.open().unwrap();
        let new = random_id(&mut random);
        let staged = pack(files.path(), &mut random, bytes);
        done(node.commit(set(&repository, "refs/heads/new", old, new, vec![staged])));
        assert_eq!(node.requests() - before, most, "{bytes}");
        assert_eq!(value(node.open().unwrap().refs(), "refs/heads/new"), Some(new));
        assert_eq!(node.requests() - before, most + 1, "what follows asks once, and fetches nothing");
        old = Some(new);
    }
    // Deleting a ref uploads nothing.
    let before = node.requests();
    let repository = node.open().unwrap();
    let gone = vec![edit("refs/heads/new", old, RefChange::Delete)];
    let transactions = vec![transaction(&repository, TransactionMode::Atomic, gone)];
    done(node.commit(Proposal {
        transactions,
        objects: Box::new(Commits),
        packs: Vec::new(),
        checked_at: 1,
    }));
    assert_eq!(node.requests() - before, 2);
    let counts = node.committer.cache().bucket().counts();
    assert_eq!(counts.all_of(RequestKind::List), 0);
    check_objects(&double);
    // Another node sees the same refs, and all packs.
    let other = Node::on(&double);
    let repository = other.open().unwrap();
    assert_eq!(value(repository.refs(), "refs/heads/new"), None);
    let packs = repository.object_dir().join("pack").read_dir().unwrap();
    assert_eq!(packs.filter(|file| file.as_ref().unwrap().path().extension().unwrap() == "pack").count(), 6);
}

/// When the files stored in the head exceed its limit, all move to one object; the cache does not fetch them
/// again.
#[test]
fn a_full_head_spills() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, other, mut random) = (Node::on(&double), Node::on(&double), Random::new(2));
    let files = packrace_testkit::scratch_dir();
    let (mut spilled, mut old) = (0, None);
    let is_inline = |file: &packrace_format::head::StoredFile| matches!(file.place, FilePlace::Inline(_));
    for _ in 0..40 {
        let (repository, before) = (node.open().unwrap(), node.requests());
        let new = random_id(&mut random);
        let staged = pack(files.path(), &mut random, 15_000);
        done(node.commit(set(&repository, "refs/heads/new", old, new, vec![staged])));
        spilled += node.requests() - before - 1;
        old = Some(new);
        let head = read(&double);
        let inline = crate::cache::files_of(&head).filter(|(_, file, _)| is_inline(file));
        assert!(inline.map(|(_, file, _)| file.length).sum::<u64>() <= 256 << 10);
        other.open().unwrap();
    }
    assert!((2..=4).contains(&spilled), "{spilled}");
    check_objects(&double);
    let ranges = |node: &Node| node.committer.cache().bucket().counts().all_of(RequestKind::Range);
    assert_eq!(ranges(&node), 1, "the first pack");
    // And the pack and the table that came with each: one part if they are contiguous.
    let parts = 1 + spilled..=1 + 2 * spilled;
    assert!(parts.contains(&ranges(&other)), "{} {spilled}", ranges(&other));
    assert_eq!(value(other.open().unwrap().refs(), "refs/heads/new"), old);
    // The number of tables stays small.
    assert!(read(&double).tables.len() < 12, "{}", read(&double).tables.len());
}

#[test]
fn what_is_refused_is_told_and_nothing_is_written() {
    let double = Arc::<Double>::default();
    let head = import(&double);
    let (node, mut random) = (Node::on(&double), Random::new(3));
    let files = packrace_testkit::scratch_dir();
    let repository = node.open().unwrap();
    let (wrong, new) = (random_id(&mut random), random_id(&mut random));
    let staged = pack(files.path(), &mut random, 100);
    let outcome = node.commit(set(&repository, "refs/heads/main", Some(wrong), new, vec![staged]));
    let CommitOutcome::Decided(all) = outcome else { panic!("{outcome:?}") };
    assert_eq!(all[0].as_ref().unwrap()[0].cause.reason(), "incorrect old value provided");
    assert_eq!(read(&double), head);
    // In a batch the other edits are made, with the pack; in an atomic transaction, none is.
    for (mode, is_made) in [(TransactionMode::Atomic, false), (TransactionMode::Batch, true)] {
        let edits = vec![
            edit("refs/heads/main", Some(wrong), RefChange::Set(new)),
            edit("refs/heads/new", None, RefChange::Set(new)),
        ];
        let transactions = vec![transaction(&repository, mode, edits)];
        let packs = vec![pack(files.path(), &mut random, 100)];
        let outcome =
            node.commit(Proposal { transactions, objects: Box::new(Commits), packs, checked_at: 1 });
        let CommitOutcome::Decided(all) = outcome else { panic!("{outcome:?}") };
        assert_eq!(all[0].as_ref().ok().map(Vec::len), is_made.then_some(1), "{all:?}");
        assert_eq!(read(&double).packs.len(), head.packs.len() + usize::from(is_made));
    }
    // The same pack twice is named once.
    let staged = pack(files.path(), &mut random, 100);
    let copies = [&staged.stem, &files.path().join("other")];
    for (at, stem) in copies.into_iter().enumerate() {
        if at > 0 {
            let kept = repository.object_dir().join("pack").join(staged.stem.file_name().unwrap());
            for extension in ["pack", "idx", "rev"] {
                let from = kept.with_extension(extension);
                std::fs::copy(from, stem.with_extension(extension)).unwrap();
            }
        }
        let again = StagedPack { checksum: staged.checksum, stem: stem.clone() };
        let reference = format!("refs/heads/twice-{at}");
        done(node.commit(set(&repository, &reference, None, new, vec![again])));
    }
    assert_eq!(read(&double).packs.len(), head.packs.len() + 2);
    // A different pack with the same checksum is refused.
    let bad = pack(files.path(), &mut random, 100);
    let bad = StagedPack { checksum: staged.checksum, ..bad };
    let outcome = node.commit(set(&repository, "refs/heads/bad", None, new, vec![bad]));
    assert!(
        matches!(&outcome, CommitOutcome::Failed(error) if error.kind() == ErrorKind::Refused),
        "{outcome:?}"
    );
}

#[test]
fn what_was_checked_too_long_ago_is_not_believed() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, mut random) = (Node::on(&double), Random::new(4));
    let files = packrace_testkit::scratch_dir();
    let repository = node.open().unwrap();
    let swap = |change: &dyn Fn(&mut Head)| {
        let bucket = Bucket::new(double.clone());
        let found = read_head(&bucket, &name(), None).unwrap().unwrap();
        let mut head = Head { generation: found.head.generation + 1, ..found.head.clone() };
        head.token = WriteToken([head.generation as u8; 16]);
        change(&mut head);
        found.basis().swap(&bucket, &name(), head).unwrap();
    };
    // A collection has overtaken the push: its object is uploaded again under another key.
    let new = random_id(&mut random);
    let staged = pack(files.path(), &mut random, 30_000);
    let push = StalledPush::begin(&node, set(&repository, "refs/heads/slow", None, new, vec![staged]));
    let first = push.key();
    swap(&|_| {});
    swap(&|head| head.floor = head.generation);
    Bucket::new(double.clone()).delete(&first).unwrap();
    done(push.end(&node));
    assert!(double.object(&first).is_none());
    check_objects(&double);
    // Objects that the push may depend on have been removed.
    swap(&|head| head.shrunk = head.generation);
    let outcome = node.commit(set(&repository, "refs/heads/late", None, new, Vec::new()));
    let CommitOutcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("push again"), "{error}");
}

/// Pushes that wait for the same swap are committed together by the next one.
#[test]
fn pushes_that_wait_go_together() {
    let double = Arc::<Double>::default();
    import(&double);
    let node = Node::on(&double);
    let repository = node.open().unwrap();
    let files = packrace_testkit::scratch_dir();
    let queue = lock(&node.committer.queues).entry(name()).or_default().clone();
    std::thread::scope(|scope| {
        let held = lock(&queue.lead);
        for at in 0..100 {
            let (node, repository, files) = (&node, &repository, files.path());
            scope.spawn(move || {
                let mut random = Random::new(100 + at);
                let new = random_id(&mut random);
                let packs = vec![pack(files, &mut random, 100)];
                done(node.commit(set(repository, &format!("refs/heads/b{at}"), None, new, packs)));
            });
        }
        while lock(&queue.waiting).len() < 100 {
            std::thread::yield_now();
        }
        drop(held);
    });
    let counts = node.committer.counts();
    assert_eq!((counts.won.load(SeqCst), counts.pushes.load(SeqCst)), (2, 100), "64 and the rest");
    assert_eq!(read(&double).packs.len(), 101);
    drop(queue);
    check_objects(&double);
}

/// While the store is away nothing is committed, and a push in doubt is reported as unknown.
#[test]
fn a_store_that_is_away() {
    let double = Arc::<Double>::default();
    let head = import(&double);
    let (node, mut random) = (Node::on(&double), Random::new(5));
    let files = packrace_testkit::scratch_dir();
    let repository = node.open().unwrap();
    let new = random_id(&mut random);
    double.set_away(true);
    let large = vec![pack(files.path(), &mut random, 30_000)];
    let outcome = node.commit(set(&repository, "refs/heads/new", None, new, large));
    assert!(matches!(&outcome, CommitOutcome::Failed(error) if error.kind() == ErrorKind::Unavailable));
    let outcome = node.commit(set(&repository, "refs/heads/new", None, new, Vec::new()));
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
    double.set_away(false);
    assert_eq!(read(&double), head);
    assert_eq!(
        value(node.open().unwrap().refs(), "refs/heads/new"),
        None,
        "the cache has not changed either"
    );
    // A response is lost; the token in the head tells.
    double.set_rates(FaultRates { lost_after: 1000, ..FaultRates::default() });
    done(node.commit(set(&repository, "refs/heads/new", None, new, Vec::new())));
    double.set_rates(FaultRates::default());
    assert_eq!(value(node.open().unwrap().refs(), "refs/heads/new"), Some(new));
    let counts = node.committer.cache().bucket().counts();
    assert_eq!(counts.of(RequestKind::Put, RequestOutcome::Refused), 1);
}

/// What a writer knows about one of its pushes.
#[derive(Debug)]
struct Attempt {
    reference: usize,
    /// When it began to read the value of the ref; `old` is the value that it read, before `begun`.
    looked: u64,
    old: Option<ObjectId>,
    new: ObjectId,
    begun: u64,
    ended: u64,
    is_done: Option<bool>,
    /// The first bytes of its pack.
    mark: Vec<u8>,
}

const REFERENCES: [&str; 2] = ["refs/heads/one", "refs/heads/two"];

/// Follows a ref from its last value back to its first: every acknowledged push is on the path, no rejected
/// one is, and none follows one that began after it had ended.
fn check_history(seed: u64, attempts: &[Attempt], reference: usize, last: Option<ObjectId>) {
    let ours: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.reference == reference).collect();
    let (mut path, mut at) = (Vec::new(), last);
    while let Some(id) = at {
        let made = ours.iter().find(|attempt| attempt.new == id);
        let made = made.unwrap_or_else(|| panic!("seed {seed}: {id} comes from nowhere"));
        path.push(*made);
        at = made.old;
    }
    for attempt in &ours {
        let is_there = path.iter().any(|made| made.new == attempt.new);
        assert!(attempt.is_done.is_none_or(|is_done| is_done == is_there), "seed {seed}: {attempt:?}");
    }
    // The newest is first.
    for (at, later) in path.iter().enumerate() {
        let earlier = path[at + 1..].iter();
        for earlier in earlier {
            assert!(earlier.begun < later.ended, "seed {seed}: {earlier:?} {later:?}");
        }
    }
    check_looks(seed, &ours, &path);
}

/// A writer never reads a value that no push wrote, one whose push had not begun, one that was out of date
/// when it began to read, or an older one than an earlier writer read.
fn check_looks(seed: u64, ours: &[&Attempt], path: &[&Attempt]) {
    // The number of values newer than the one read.
    let newer = |look: &Attempt| match look.old {
        None => path.len(),
        Some(id) => {
            path.iter().position(|made| made.new == id).unwrap_or_else(|| panic!("seed {seed}: {look:?}"))
        }
    };
    for look in ours {
        for (at, made) in path.iter().enumerate() {
            let is_seen = newer(look) <= at;
            assert!(!is_seen || made.begun < look.begun, "seed {seed}: {look:?} saw {made:?} too early");
            let is_old = made.is_done == Some(true) && made.ended < look.looked;
            assert!(is_seen || !is_old, "seed {seed}: {look:?} did not see {made:?}");
        }
        for before in ours.iter().filter(|before| before.begun < look.looked) {
            assert!(newer(look) <= newer(before), "seed {seed}: {look:?} saw less than {before:?}");
        }
    }
}

/// What some nodes do while others push, with a seed.
type Also<'a> = dyn Fn(&Node, u64) + Sync + 'a;

/// Whether an acknowledged push that the node's repository does not show, because the store did not let it read
/// what other nodes had added, is shown to the next request.
fn is_read_later(node: &Node, rates: FaultRates, is_old: impl Fn(Arc<Repository>) -> bool) -> bool {
    rates.lost_before + rates.busy + rates.cut > 0 && !node.open().is_ok_and(is_old)
}

/// Three nodes with two writers each, each of which makes this many pushes; two of the nodes also run `also`.
pub(crate) fn race(seed: u64, rates: FaultRates, pushes: usize, also: Option<&Also<'_>>) -> [usize; 3] {
    let double = Arc::new(Double::with_faults(seed, FaultRates::default()));
    import(&double);
    double.set_rates(rates);
    let nodes: Vec<Node> = (0..3).map(|_| Node::on(&double)).collect();
    let start = Barrier::new(if also.is_some() { 8 } else { 6 });
    let (clock, all) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (at, node) in nodes.iter().take(2).enumerate() {
            let start = &start;
            also.map(|also| {
                scope.spawn(move || {
                    start.wait();
                    also(node, seed * 64 + 60 + at as u64);
                })
            });
        }
        for writer in 0..6 {
            let (node, clock, all, start) = (&nodes[writer % 3], &clock, &all, &start);
            scope.spawn(move || {
                let files = packrace_testkit::scratch_dir();
                let mut random = Random::new(seed * 64 + writer as u64);
                start.wait();
                for _ in 0..pushes {
                    let looked = clock.fetch_add(1, SeqCst);
                    let Ok(repository) = node.open() else { continue };
                    let reference = random.below(REFERENCES.len());
                    let old = value(repository.refs(), REFERENCES[reference]);
                    let new = random_id(&mut random);
                    let bytes = if random.one_in(3) { 20_000 } else { 200 };
                    let packs = vec![pack(files.path(), &mut random, bytes)];
                    let mark = std::fs::read(packs[0].stem.with_extension("pack")).unwrap()[..32].to_vec();
                    let begun = clock.fetch_add(1, SeqCst);
                    let is_done = match node.commit(set(&repository, REFERENCES[reference], old, new, packs))
                    {
                        CommitOutcome::Decided(outcomes) => {
                            let is_done = outcomes[0].as_ref().is_ok_and(Vec::is_empty);
                            let is_old =
                                |seen: Arc<Repository>| value(seen.refs(), REFERENCES[reference]) == old;
                            assert!(!is_done || !is_old(repository) || is_read_later(node, rates, is_old));
                            Some(is_done)
                        }
                        CommitOutcome::Failed(_) => Some(false),
                        CommitOutcome::Unknown(_) => None,
                    };
                    let ended = clock.fetch_add(1, SeqCst);
                    lock(all).push(Attempt { reference, looked, old, new, begun, ended, is_done, mark });
                }
            });
        }
    });
    double.set_rates(FaultRates::default());
    let attempts = std::mem::take(&mut *lock(&all));
    let fresh = Node::on(&double);
    for (reference, full) in REFERENCES.iter().enumerate() {
        let last = value(fresh.open().unwrap().refs(), full);
        check_history(seed, &attempts, reference, last);
        for node in &nodes {
            assert_eq!(value(node.open().unwrap().refs(), full), last, "seed {seed}");
        }
    }
    let packs = check_objects(&double);
    for attempt in attempts.iter().filter(|attempt| attempt.is_done == Some(true)) {
        assert!(hold(&packs, &attempt.mark), "seed {seed}: {attempt:?}");
    }
    [Some(true), Some(false), None]
        .map(|wanted| attempts.iter().filter(|attempt| attempt.is_done == wanted).count())
}

sampled! {
    /// No acknowledged push is lost, no rejected one appears, and every ref has a linear history.
    fn races_under_every_fault(extent) {
        let none = FaultRates::default();
        let faults = [
            none,
            FaultRates { lost_before: 200, ..none },
            FaultRates { lost_after: 300, ..none },
            FaultRates { late: 200, ..none },
            FaultRates { busy: 300, ..none },
            FaultRates { cut: 300, ..none },
            FaultRates { lost_before: 100, lost_after: 150, late: 150, busy: 100, cut: 100 },
            FaultRates { lost_before: 300, lost_after: 300, late: 300, busy: 200, cut: 0 },
        ];
        let mut sums = [0; 3];
        let seeds = || std::env::var("PACKRACE_SEEDS").map_or(125, |seeds| seeds.parse().expect("a number"));
        let seeds = if extent == Extent::Sample { 2 } else { seeds() };
        for seed in 0..seeds {
            for rates in faults {
                let counts = race(seed, rates, extent.pick(4, 5), None);
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let [done, rejected, unknown] = sums;
        assert!(done > 50 && rejected > 10, "{done} {rejected} {unknown}");
        assert!(extent == Extent::Sample || unknown > 0, "{unknown}");
    }
}
