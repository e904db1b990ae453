//! Deltas that were made for a pack, kept in memory for later packs of the same repository.
//!
//! Clients that fetch a new commit have different old ones: their requests differ, and so do their packs, but the deltas in them
//! are mostly the same. A delta is kept by its target; it is used where the receiver has its base, or gets it in the same pack. What was compared
//! without success is remembered, too.
//!
//! The ids of both ends name their contents, so a kept delta never gets stale. Repositories share none: one with damaged
//! objects spoils no pack of another.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use clru::{CLruCache, CLruCacheConfig, WeightScale};
use packrace_object::ObjectId;

/// The most deltas kept of one target; the shortest stay.
const MAX_OF_A_TARGET: usize = 4;

/// What a target takes up beside the bytes of its deltas, roughly.
const TARGET_BYTES: usize = 256;

/// What a delta takes up beside its bytes.
const DELTA_BYTES: usize = 96;

/// Which repository deltas belong to: two that share a number share their deltas.
type RepositoryNumber = u128;

type Targets = CLruCache<(RepositoryNumber, ObjectId), KnownTarget, std::hash::RandomState, Weight>;

/// Deltas of all repositories of a process, bounded in bytes: the least recently used targets are evicted.
pub struct KeptDeltas {
    targets: Mutex<Targets>,
    reused: AtomicU64,
}

/// What is known of one target.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownTarget {
    pub(crate) deltas: Vec<KeptDelta>,
    /// The last candidates that it was compared with, without a delta that was short enough.
    pub(crate) fruitless: Option<Candidates>,
}

/// A set of objects that a target was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Candidates(u64);

/// A delta of a target.
#[derive(Debug, Clone)]
pub(crate) struct KeptDelta {
    pub(crate) base: ObjectId,
    /// The inflated length.
    pub(crate) size: u64,
    pub(crate) deflated: Arc<[u8]>,
    /// Made by turning a chain of stored deltas round, to be used instead of the stored delta.
    pub(crate) replaces_stored: bool,
}

struct Weight;

impl WeightScale<(RepositoryNumber, ObjectId), KnownTarget> for Weight {
    fn weight(&self, _: &(RepositoryNumber, ObjectId), target: &KnownTarget) -> usize {
        let bytes = |delta: &KeptDelta| DELTA_BYTES + delta.deflated.len();
        TARGET_BYTES + target.deltas.iter().map(bytes).sum::<usize>()
    }
}

impl std::fmt::Debug for KeptDeltas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptDeltas").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl KeptDeltas {
    /// Keeps at most `max_bytes`, including what it takes to find them.
    pub fn new(max_bytes: NonZeroUsize) -> Self {
        let config = CLruCacheConfig::new(max_bytes).with_scale(Weight);
        KeptDeltas { targets: Mutex::new(CLruCache::with_config(config)), reused: AtomicU64::new(0) }
    }

    /// The bytes that deltas take up now.
    pub fn bytes(&self) -> u64 {
        self.lock().weight() as u64
    }

    /// Entries of packs that were written from kept deltas, so far.
    pub fn reused(&self) -> u64 {
        self.reused.load(Relaxed)
    }

    /// The deltas of one repository.
    pub fn of(self: &Arc<Self>, repository: RepositoryNumber) -> RepositoryDeltas {
        RepositoryDeltas { kept: self.clone(), repository }
    }

    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.targets.lock().expect("no panic while held")
    }
}

/// The deltas of one repository.
#[derive(Debug, Clone)]
pub struct RepositoryDeltas {
    kept: Arc<KeptDeltas>,
    repository: RepositoryNumber,
}

impl RepositoryDeltas {
    /// What is known of targets; each that is known counts as used now.
    pub(crate) fn find(&self, targets: impl Iterator<Item = ObjectId>) -> Vec<Option<KnownTarget>> {
        let mut known = self.kept.lock();
        targets.map(|target| known.get(&(self.repository, target)).cloned()).collect()
    }

    /// Counts entries that are written from kept deltas.
    pub(crate) fn count_reused(&self, entries: usize) {
        self.kept.reused.fetch_add(entries as u64, Relaxed);
    }

    /// Keeps new deltas.
    pub(crate) fn keep(&self, new: impl Iterator<Item = (ObjectId, KeptDelta)>) {
        let mut known = self.kept.lock();
        for (target, delta) in new {
            let key = (self.repository, target);
            let mut of_target = known.pop(&key).unwrap_or_default();
            of_target.deltas.retain(|other| other.base != delta.base);
            of_target.deltas.push(delta);
            of_target.deltas.sort_by_key(|delta| delta.deflated.len());
            of_target.deltas.truncate(MAX_OF_A_TARGET);
            // One that does not fit at all is not kept.
            let _ = known.put_with_weight(key, of_target);
        }
    }

    /// Remembers targets for which a search among these candidates found nothing.
    pub(crate) fn keep_fruitless(&self, searches: impl Iterator<Item = (ObjectId, Candidates)>) {
        let mut known = self.kept.lock();
        for (target, candidates) in searches {
            let key = (self.repository, target);
            let of_target =
                KnownTarget { fruitless: Some(candidates), ..known.pop(&key).unwrap_or_default() };
            let _ = known.put_with_weight(key, of_target);
        }
    }
}

impl Candidates {
    /// Adds an object to the set; the order does not matter.
    pub(crate) fn add(&mut self, id: &ObjectId) {
        // Ids are hashes. Whoever makes two sets look alike keeps a delta from being found, and nothing else.
        let mut start = [0; 8];
        start.copy_from_slice(&id.as_slice()[..8]);
        self.0 = self.0.wrapping_add(u64::from_le_bytes(start) | 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::Sha1([byte; 20])
    }

    fn delta(base: u8, bytes: usize) -> KeptDelta {
        KeptDelta { base: id(base), size: 9, deflated: vec![base; bytes].into(), replaces_stored: false }
    }

    fn bases(deltas: &RepositoryDeltas, target: u8) -> Vec<ObjectId> {
        let found = deltas.find([id(target)].into_iter()).pop().flatten().unwrap_or_default();
        found.deltas.iter().map(|delta| delta.base).collect()
    }

    #[test]
    fn the_shortest_deltas_of_a_target_are_kept() {
        let deltas = Arc::new(KeptDeltas::new(NonZeroUsize::new(1 << 20).unwrap())).of(1);
        deltas.keep((1..=6).map(|base| (id(0), delta(base, 100 - usize::from(base)))));
        assert_eq!(bases(&deltas, 0), [6, 5, 4, 3].map(id));
        deltas.keep([(id(0), delta(4, 10))].into_iter());
        assert_eq!(bases(&deltas, 0), [4, 6, 5, 3].map(id));
        deltas.keep_fruitless([(id(0), Candidates(7))].into_iter());
        assert_eq!(bases(&deltas, 0), [4, 6, 5, 3].map(id), "they stay");
        let other = RepositoryDeltas { repository: 2, ..deltas };
        assert_eq!(bases(&other, 0).len(), 0, "repositories share nothing");
    }

    #[test]
    fn the_least_recently_used_targets_are_evicted() {
        let of_one = TARGET_BYTES + DELTA_BYTES + 1000;
        let deltas = Arc::new(KeptDeltas::new(NonZeroUsize::new(3 * of_one + 10).unwrap())).of(1);
        deltas.keep((1..=3).map(|target| (id(target), delta(9, 1000))));
        assert_eq!(bases(&deltas, 1), [id(9)]);
        deltas.keep([(id(4), delta(9, 1000))].into_iter());
        assert_eq!([1, 2, 3, 4].map(|target| bases(&deltas, target).len()), [1, 0, 1, 1]);
        deltas.keep([(id(5), delta(9, 10 * of_one))].into_iter());
        assert_eq!([1, 3, 4, 5].map(|target| bases(&deltas, target).len()), [1, 1, 1, 0], "it fits never");
        assert_eq!(deltas.kept.bytes(), 3 * of_one as u64);
    }

    #[test]
    fn candidates_are_a_set() {
        let of = |ids: &[u8]| {
            let mut candidates = Candidates::default();
            ids.iter().for_each(|byte| candidates.add(&id(*byte)));
            candidates
        };
        assert_eq!(of(&[1, 2, 3]), of(&[3, 1, 2]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 2]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 2, 4]));
        assert_ne!(of(&[]), of(&[0]));
    }
}
