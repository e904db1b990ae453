use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use packrace_testkit::{Extent, Random, sampled};

use packrace_format::head::{ObjectKey, PackFileKind};
use packrace_object::ObjectId;

use super::fold::{packs_in, stem_of};
use super::*;
use crate::bucket::Bucket;
use crate::bucket::double::{Double, FaultRates};
use crate::commit::tests::{
    Node, StalledPush, check_objects, done, hold, import, name, pack, race, random_id, read, set, value,
};
use crate::error::Error;
use crate::layout::BucketName;
use crate::repository::random_token;

/// The first bytes of a pack stand for its object.
const MARK: usize = 32;

/// Pushes one pack; returns its mark.
fn push(node: &Node, random: &mut Random, at: usize, bytes: usize) -> Vec<u8> {
    let files = packrace_testkit::scratch_dir();
    let staged = pack(files.path(), random, bytes);
    let mark = std::fs::read(staged.stem.with_extension("pack")).unwrap()[..MARK].to_vec();
    let repository = node.open().unwrap();
    done(node.commit(set(&repository, &format!("refs/heads/p{at}"), None, random_id(random), vec![staged])));
    mark
}

fn bytes_of(git_dir: &Path, checksum: ObjectId) -> Vec<u8> {
    std::fs::read(stem_of(git_dir, checksum).with_extension("pack")).unwrap()
}

/// Concatenates some packs, leaving out those whose mark a remaining pack also has; packs here are opaque
/// bytes.
fn concatenate(git_dir: &Path, random: &mut Random, is_folded: impl Fn(ObjectId, &mut Random) -> bool) {
    let all = packs_in(git_dir).unwrap();
    let (folded, staying): (Vec<_>, Vec<_>) = all.into_iter().partition(|pack| is_folded(*pack, random));
    let staying: Vec<Vec<u8>> = staying.into_iter().map(|pack| bytes_of(git_dir, pack)).collect();
    let mut bytes = Vec::new();
    for checksum in folded {
        let old = bytes_of(git_dir, checksum);
        if !hold(&staying, &old[..MARK]) {
            bytes.extend_from_slice(&old);
        }
        for kind in PackFileKind::ALL {
            let _ = std::fs::remove_file(stem_of(git_dir, checksum).with_extension(kind.extension()));
        }
    }
    let made = pack(&git_dir.join("objects/pack"), random, 0);
    std::fs::write(made.stem.with_extension("pack"), bytes).unwrap();
}

fn prepared<'a>(
    node: &'a Node,
    name: &'a BucketName,
    random: &mut Random,
    is_folded: impl Fn(ObjectId, &mut Random) -> bool,
) -> Result<Option<PreparedFold<'a>>, Error> {
    let made = prepare(&node.committer, name, |git_dir| {
        concatenate(git_dir, random, is_folded);
        Ok::<(), Infallible>(())
    });
    made.map(|Ok(prepared)| prepared)
}

#[test]
fn packs_become_one_and_nothing_is_lost() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, other, name, mut random) = (Node::on(&double), Node::on(&double), name(), Random::new(1));
    let marks: Vec<Vec<u8>> = (0..6).map(|at| push(&node, &mut random, at, 1000 + 9000 * at)).collect();
    other.open().unwrap();
    let (before, requests) = (read(&double), other.requests());
    let fold = prepared(&other, &name, &mut random, |_, _| true).unwrap().unwrap();
    assert_eq!((fold.folded(), fold.packs_after()), (7, 1));
    // A concurrent push keeps its pack beside the new one.
    let late = push(&node, &mut random, 9, 500);
    assert!(matches!(fold.commit().unwrap(), FoldOutcome::Done(2)));
    assert_eq!(other.requests() - requests, 4, "two look at the head, and two write");
    let packs = check_objects(&double);
    assert_eq!(packs.len(), 2);
    assert!(marks.iter().chain([&late]).all(|mark| hold(&packs, mark)));
    let head = read(&double);
    assert_eq!((head.floor, head.shrunk), (before.floor, before.shrunk));
    for node in [node, other] {
        let repository = node.open().unwrap();
        assert!(value(repository.refs(), "refs/heads/p9").is_some());
        assert_eq!(packs_in(repository.git_dir()).unwrap().len(), 2);
        assert_eq!(std::fs::read_dir(node.committer.cache().scratch_dir()).unwrap().count(), 0);
    }
    // A repack that changes nothing is no fold.
    let node = Node::on(&double);
    assert!(prepare(&node.committer, &name, |_| Ok::<(), Infallible>(())).unwrap().unwrap().is_none());
    assert_eq!(read(&double), head);
}

/// Each fold leaves out an object that is also in the other's source, a pack that stays as far as it knows.
#[test]
fn two_folds_do_not_lean_on_each_other() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, other, name, mut random) = (Node::on(&double), Node::on(&double), name(), Random::new(2));
    // Two packs with the same bytes, and two others.
    let mut checksums = Vec::new();
    let files = packrace_testkit::scratch_dir();
    let same = random.bytes(300);
    for at in 0..4 {
        let staged = pack(files.path(), &mut random, 300);
        if at < 2 {
            std::fs::write(staged.stem.with_extension("pack"), &same).unwrap();
        }
        checksums.push(staged.checksum);
        let repository = node.open().unwrap();
        let new = random_id(&mut random);
        done(node.commit(set(&repository, &format!("refs/heads/p{at}"), None, new, vec![staged])));
    }
    let of = |wanted: [usize; 2]| {
        let wanted = wanted.map(|at| checksums[at]);
        move |pack: ObjectId, _: &mut Random| wanted.contains(&pack)
    };
    let one = prepared(&node, &name, &mut random, of([0, 2])).unwrap().unwrap();
    let two = prepared(&other, &name, &mut random, of([1, 3])).unwrap().unwrap();
    assert!(matches!(one.commit().unwrap(), FoldOutcome::Done(4)));
    assert!(matches!(two.commit().unwrap(), FoldOutcome::Overtaken));
    assert!(hold(&check_objects(&double), &same));
}

/// The store goes away before each request, with and without lost responses: the result is the old state or
/// the new one.
#[test]
fn killed_at_every_step() {
    let mut outcomes = [0; 2];
    for lost_after in [0, 1000] {
        for requests in 0..8 {
            let double = Arc::<Double>::default();
            import(&double);
            let (node, name, mut random) = (Node::on(&double), name(), Random::new(requests as u64));
            let marks: Vec<Vec<u8>> = (0..3).map(|at| push(&node, &mut random, at, 20_000)).collect();
            double.set_rates(FaultRates { lost_after, ..FaultRates::default() });
            double.leave_after(requests);
            let fold = prepared(&node, &name, &mut random, |_, _| true);
            let is_done = match fold.map(|fold| fold.unwrap().commit()) {
                Ok(Ok(FoldOutcome::Done(count))) => Some(count == 1),
                Ok(Ok(FoldOutcome::Unknown(_))) => None,
                Ok(Ok(FoldOutcome::Overtaken)) => panic!("by nobody"),
                Ok(Err(_)) | Err(_) => Some(false),
            };
            double.set_away(false);
            double.set_rates(FaultRates::default());
            let packs = check_objects(&double);
            assert!(marks.iter().all(|mark| hold(&packs, mark)));
            assert!(is_done.is_none_or(|is_done| is_done == (packs.len() == 1)), "{requests} {lost_after}");
            outcomes[usize::from(packs.len() == 1)] += 1;
            // This node can continue, and so can another.
            for node in [&node, &Node::on(&double)] {
                let repository = node.open().unwrap();
                assert_eq!(packs_in(repository.git_dir()).unwrap().len(), packs.len());
            }
            push(&node, &mut random, 9, 100);
        }
    }
    assert!(outcomes.iter().all(|count| *count > 2), "{outcomes:?}");
}

sampled! {
    /// Two nodes fold while three push: no acknowledged push is lost, and the number of packs shrinks.
    fn folds_race_pushes_under_every_fault(extent) {
        let none = FaultRates::default();
        let faults = [
            none,
            FaultRates { lost_before: 200, ..none },
            FaultRates { lost_after: 300, ..none },
            FaultRates { late: 200, ..none },
            FaultRates { lost_before: 100, lost_after: 150, late: 150, busy: 100, cut: 100 },
        ];
        let folds = std::sync::atomic::AtomicUsize::new(0);
        let fold = |node: &Node, seed: u64| {
            let (name, mut random) = (name(), Random::new(seed));
            for _ in 0..6 {
                let fold = prepared(node, &name, &mut random, |_, random| !random.one_in(3));
                let Ok(Some(fold)) = fold else { continue };
                if let Ok(FoldOutcome::Done(_)) = fold.commit() {
                    folds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }
        };
        let mut pushed = 0;
        for seed in 0..extent.pick(2, 200) {
            for rates in faults {
                pushed += race(seed, rates, extent.pick(4, 5), Some(&fold))[0];
            }
        }
        let folds = folds.load(std::sync::atomic::Ordering::SeqCst);
        assert!(folds > 5 && pushed > 30, "{folds} {pushed}");
        assert!(extent == Extent::Sample || folds > 500, "{folds}");
    }
}

fn names_in(double: &Arc<Double>) -> usize {
    double.keys().iter().filter(|key| key.contains("/o/")).count()
}

fn collected(double: &Arc<Double>, grace: Grace) -> (usize, usize) {
    let Collected { deleted, waiting } = collect(&Bucket::new(double.clone()), &name(), grace).unwrap();
    (deleted, waiting)
}

#[test]
fn what_no_head_names_goes_at_the_second_collection() {
    let double = Arc::<Double>::default();
    import(&double);
    let (node, name, mut random) = (Node::on(&double), name(), Random::new(6));
    assert_eq!(collected(&double, Grace::UntilNext), (0, 0));
    (0..3).for_each(|at| drop(push(&node, &mut random, at, 20_000)));
    assert_eq!(names_in(&double), 4);
    let fold = prepared(&node, &name, &mut random, |_, _| true).unwrap().unwrap();
    assert!(matches!(fold.commit().unwrap(), FoldOutcome::Done(1)));
    // One writer has uploaded an object and is about to name it; another died long ago.
    let mut upload = |generation| {
        let key = ObjectKey { generation, token: random_token().unwrap() };
        double.damage(&name.object_key(&key), random.bytes(10));
        name.object_key(&key)
    };
    let generation = read(&double).generation;
    let (fresh, stale) = (upload(generation + 1), upload(generation));
    let bucket = Bucket::new(double.clone());
    let before = read(&double);
    let planned = would_collect(&bucket, &name, Grace::UntilNext).unwrap();
    assert_eq!((planned.deleted, planned.waiting), (0, 5));
    assert_eq!(collected(&double, Grace::UntilNext), (0, 5));
    let after = read(&double);
    assert_eq!((after.floor, after.generation, after.dropped.len()), (generation + 1, generation + 1, 5));
    assert_eq!((after.packs, after.tables), (before.packs, before.tables));
    push(&node, &mut random, 7, 20_000);
    assert_eq!(read(&double).dropped.len(), 5, "pushes keep what they do not know");
    // Dropped objects are deleted; an object that was uploaded and never named now waits as they did.
    assert_eq!(collected(&double, Grace::UntilNext), (5, 1));
    assert!(double.object(&stale).is_none() && double.object(&fresh).is_some());
    assert_eq!(collected(&double, Grace::Nothing), (1, 0));
    assert_eq!((names_in(&double), read(&double).dropped.len()), (2, 0));
    assert_eq!(collected(&double, Grace::UntilNext), (0, 0));
    check_objects(&double);
    let counts = bucket.counts();
    assert_eq!(counts.all_of(crate::bucket::RequestKind::Delete), 0, "looking deletes nothing");
}

/// The store goes away before each request of a collection: nothing is lost, and the next collections delete
/// the rest.
#[test]
fn a_collection_that_is_killed_at_every_step() {
    for lost_after in [0, 1000] {
        for requests in 0..10 {
            let double = Arc::<Double>::default();
            import(&double);
            let (node, name, mut random) = (Node::on(&double), name(), Random::new(requests as u64));
            let marks: Vec<Vec<u8>> = (0..3).map(|at| push(&node, &mut random, at, 20_000)).collect();
            let fold = prepared(&node, &name, &mut random, |_, _| true).unwrap().unwrap();
            assert!(matches!(fold.commit().unwrap(), FoldOutcome::Done(1)));
            double.set_rates(FaultRates { lost_after, ..FaultRates::default() });
            double.leave_after(requests);
            let bucket = Bucket::new(double.clone());
            let done = collect(&bucket, &name, Grace::Nothing);
            double.set_away(false);
            double.set_rates(FaultRates::default());
            assert_eq!(done.is_ok(), names_in(&double) == 1, "{requests} {lost_after} {done:?}");
            let packs = check_objects(&double);
            assert!(marks.iter().all(|mark| hold(&packs, mark)));
            push(&node, &mut random, 9, 20_000);
            assert!(collected(&double, Grace::Nothing).1 == 0 && names_in(&double) == 2);
            check_objects(&double);
        }
    }
}

sampled! {
    /// Two nodes fold and collect without a grace period while all push: no head ever names a deleted object.
    fn collections_race_pushes_and_folds_under_every_fault(extent) {
        let none = FaultRates::default();
        let faults = [
            none,
            FaultRates { lost_before: 200, ..none },
            FaultRates { lost_after: 300, ..none },
            FaultRates { late: 300, ..none },
            FaultRates { lost_before: 100, lost_after: 150, late: 150, busy: 100, cut: 100 },
        ];
        let deleted = std::sync::atomic::AtomicUsize::new(0);
        let work = |node: &Node, seed: u64| {
            let (name, mut random) = (name(), Random::new(seed));
            for _ in 0..8 {
                if random.one_in(3) {
                    let fold = prepared(node, &name, &mut random, |_, random| !random.one_in(3));
                    fold.ok().flatten().map(PreparedFold::commit);
                }
                let collected = collect(node.committer.cache().bucket(), &name, Grace::Nothing);
                let count = collected.map_or(0, |collected| collected.deleted);
                deleted.fetch_add(count, std::sync::atomic::Ordering::SeqCst);
            }
        };
        let deletions = || deleted.load(std::sync::atomic::Ordering::SeqCst);
        let mut pushed = 0;
        for seed in 0..extent.pick(20, 200) {
            for rates in faults {
                pushed += race(seed, rates, extent.pick(4, 5), Some(&work))[0];
            }
            // How much there is to delete depends on timing.
            if extent == Extent::Sample && seed > 0 && deletions() > 5 {
                break;
            }
        }
        assert!(deletions() > 5 && pushed > 30, "{} {pushed}", deletions());
        assert!(extent == Extent::Sample || deletions() > 1000, "{}", deletions());
    }
}

sampled! {
    /// Writers sleep between upload and swap while others push, fold and collect; they wake up in any order.
    fn stalled_writers_name_nothing_that_was_collected(extent) {
        let (mut stalled_ones, mut again) = (0, 0);
        for seed in 0..extent.pick(25, 1000) {
            let mut random = Random::new(seed);
            let double = Arc::<Double>::default();
            import(&double);
            let nodes = [Node::on(&double), Node::on(&double)];
            let (name, files) = (name(), packrace_testkit::scratch_dir());
            let mut stalled = Vec::new();
            let mut marks = Vec::new();
            for at in 0..12 {
                let node = &nodes[random.below(2)];
                match random.below(5) {
                    0 => {
                        let staged = pack(files.path(), &mut random, 20_000);
                        let mark = std::fs::read(staged.stem.with_extension("pack")).unwrap()[..MARK].to_vec();
                        let (reference, new) = (format!("refs/heads/s{at}"), random_id(&mut random));
                        let repository = node.open().unwrap();
                        let proposal = set(&repository, &reference, None, new, vec![staged]);
                        stalled.push((StalledPush::begin(node, proposal), mark));
                    }
                    1 => marks.push(push(node, &mut random, at, 20_000)),
                    2 => drop(prepared(node, &name, &mut random, |_, _| true).unwrap().map(PreparedFold::commit)),
                    _ => drop(collected(&double, if random.one_in(2) { Grace::Nothing } else { Grace::UntilNext })),
                }
                let is_last = at == 11;
                while !stalled.is_empty() && (is_last || random.one_in(4)) {
                    let (push, mark) = stalled.swap_remove(random.below(stalled.len()));
                    let is_gone = double.object(&push.key()).is_none();
                    done(push.end(&nodes[random.below(2)]));
                    marks.push(mark);
                    stalled_ones += 1;
                    again += usize::from(is_gone);
                    check_objects(&double);
                }
            }
            let packs = check_objects(&double);
            assert!(marks.iter().all(|mark| hold(&packs, mark)), "seed {seed}");
        }
        assert!(again > 5 && stalled_ones > 2 * again, "{stalled_ones} {again}");
    }
}

sampled! {
    /// The same for folds, which others may also overtake.
    fn stalled_folds_name_nothing_that_was_collected(extent) {
        let (mut done_ones, mut overtaken, mut again) = (0, 0, 0);
        for seed in 0..extent.pick(25, 1000) {
            let mut random = Random::new(seed);
            let double = Arc::<Double>::default();
            import(&double);
            let nodes = [Node::on(&double), Node::on(&double)];
            let name = name();
            let (mut stalled, mut marks) = (Vec::new(), Vec::new());
            for at in 0..12 {
                let node = &nodes[random.below(2)];
                match random.below(8) {
                    0..2 => {
                        let fold = prepared(node, &name, &mut random, |_, _| true).unwrap();
                        stalled.extend(fold.map(|fold| (fold.upload(read(&double).generation).unwrap(), fold)));
                    }
                    2..5 => marks.push(push(node, &mut random, at, 20_000)),
                    5 => drop(prepared(node, &name, &mut random, |_, _| true).unwrap().map(PreparedFold::commit)),
                    _ => drop(collected(&double, Grace::Nothing)),
                }
                let is_last = at == 11;
                while !stalled.is_empty() && (is_last || random.one_in(8)) {
                    let (uploaded, fold) = stalled.swap_remove(random.below(stalled.len()));
                    let is_gone = double.object(&name.object_key(&uploaded.0)).is_none();
                    match fold.commit_uploaded(Some(uploaded)).unwrap() {
                        FoldOutcome::Done(_) => (done_ones, again) = (done_ones + 1, again + usize::from(is_gone)),
                        FoldOutcome::Overtaken => overtaken += 1,
                        FoldOutcome::Unknown(error) => panic!("{error}"),
                    }
                    check_objects(&double);
                }
            }
            let packs = check_objects(&double);
            assert!(marks.iter().all(|mark| hold(&packs, mark)), "seed {seed}");
        }
        assert!(again > 2 && done_ones > again && overtaken > 2, "{done_ones} {overtaken} {again}");
    }
}

/// For this many times, a node that has read a head sleeps before it fetches the first object, while what the
/// head names is folded and collected.
fn sleep_while_others_collect(double: &Arc<Double>, node: Arc<Node>, times: usize, grace: Grace) {
    let store = double.clone();
    double.before_read(move || {
        let mut random = Random::new(times as u64);
        push(&node, &mut random, times, 20_000);
        let name = name();
        let fold = prepared(&node, &name, &mut random, |_, _| true).unwrap().unwrap();
        assert!(matches!(fold.commit().unwrap(), FoldOutcome::Done(1)));
        let (deleted, waiting) = collected(&store, grace);
        assert!(if grace == Grace::Nothing { deleted > 0 } else { waiting > 0 });
        if times > 1 {
            sleep_while_others_collect(&store, node, times - 1, grace);
        }
    });
}

#[test]
fn stalled_nodes_get_what_a_head_names_or_read_a_later_one() {
    let check = |times, grace, expect: Option<usize>| {
        let double = Arc::<Double>::default();
        import(&double);
        let (sleeper, other) = (Node::on(&double), Arc::new(Node::on(&double)));
        other.open().unwrap();
        sleep_while_others_collect(&double, other, times, grace);
        let seen = sleeper.open().map(|repository| {
            let is_there = |at: &usize| value(repository.refs(), &format!("refs/heads/p{at}")).is_some();
            (1..=times).filter(is_there).count()
        });
        assert_eq!(seen.as_ref().ok(), expect.as_ref(), "{times} {grace:?} {seen:?}");
        // Afterwards everything is readable.
        let repository = sleeper.open().unwrap();
        assert!(value(repository.refs(), "refs/heads/p1").is_some());
        check_objects(&double);
    };
    // Objects that have just lost their name still exist.
    check(1, Grace::UntilNext, Some(0));
    check(1, Grace::Nothing, Some(1));
    check(4, Grace::Nothing, Some(4));
    check(5, Grace::Nothing, None);
}
