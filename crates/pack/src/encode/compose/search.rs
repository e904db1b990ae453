//! Searches for delta bases.
//!
//! Objects are sorted so that similar ones are adjacent: by kind, by the end of their path, then from large
//! to small, because deltas that only delete are the shortest. Each object is compared with the `window`
//! objects before it and becomes a delta of the one that gives the shortest delta, as in git (git's
//! Documentation/technical/pack-heuristics). The list is cut where the path changes, and several threads work
//! on the stretches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use packrace_format::pack::DeltaIndex;
use packrace_format::zlib::Deflater;
use packrace_object::Kind;
use packrace_store::ObjectReader;

use crate::error::{Error, Reason};
use crate::names::NameHash;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::plan::PackPlan;
use crate::settings::Settings;
use crate::threads::on_threads;

use super::earlier::EarlierDeltas;
use super::list::ComposedEntry;

/// Smaller objects are not worth a delta.
pub(super) const MIN_BYTES: u64 = 50;

/// Stretches per thread: enough for threads to finish at about the same time, few enough that a window rarely
/// starts empty.
const STRETCHES_A_THREAD: usize = 8;

/// The least number of candidates in a stretch.
pub(super) const MIN_STRETCH: usize = 256;

/// An object that can become a delta or a delta base.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) ix: ObjectNo,
    pub(super) kind: Kind,
    pub(super) name: NameHash,
    pub(super) size: u64,
    /// Only a base, because the receiver has it.
    pub(super) is_preferred: bool,
    /// The pack that stores it whole; other objects of that pack were tried as its base when the pack was
    /// made.
    pub(super) whole_in: Option<u32>,
    /// The pack that stores it.
    pub(super) pack: Option<u32>,
    /// The length of the longest chain of stored deltas on it.
    pub(super) height: u16,
    /// A delta is only useful if it is shorter; `u64::MAX` for any length.
    pub(super) must_beat: u64,
}

impl Candidate {
    /// An object that may become a delta, and a base.
    pub(super) fn target(entry: &ComposedEntry, height: u16) -> Self {
        let pack = entry.stored.map(|stored| stored.pack.0);
        Candidate {
            ix: entry.ix,
            kind: entry.kind,
            name: entry.name,
            size: entry.size,
            is_preferred: false,
            whole_in: pack.filter(|_| !entry.is_stored_as_delta),
            pack,
            height,
            must_beat: entry.poor_bytes.unwrap_or(u64::MAX),
        }
    }

    /// An object that the receiver has.
    pub(super) fn base(ix: ObjectNo, kind: Kind, name: NameHash, size: u64) -> Self {
        let (whole_in, pack, height, must_beat) = (None, None, 0, u64::MAX);
        Candidate { ix, kind, name, size, is_preferred: true, whole_in, pack, height, must_beat }
    }
}

/// A delta that the search found.
#[derive(Debug)]
pub(super) struct FoundDelta {
    /// The index of the candidate that becomes the delta; then that of its base.
    pub(super) target: u32,
    pub(super) base: u32,
    /// The length of the delta.
    pub(super) size: u64,
    /// The deflated delta, if the cache had room.
    pub(super) deflated: Option<Arc<[u8]>>,
}

/// Sorts `candidates` and finds deltas between them.
pub(super) fn run(
    plan: &PackPlan,
    candidates: &mut [Candidate],
    progress: &dyn ProgressSink,
) -> Result<Vec<FoundDelta>, Error> {
    sort(plan, candidates, |candidate| candidate.name);
    pass(plan, candidates, Pass::OVER_ALL, progress)
}

/// Sorts by kind, by name, what the receiver has first, what most islands have, because the others may use it, then from large
/// to small.
pub(super) fn sort(plan: &PackPlan, candidates: &mut [Candidate], name: impl Fn(&Candidate) -> NameHash) {
    let islands = |one: &Candidate| plan.islands.as_ref().map_or(0, |islands| islands.count_of(one.ix));
    candidates.sort_by(|one, other| {
        kind_order(one.kind)
            .cmp(&kind_order(other.kind))
            .then_with(|| name(one).cmp(&name(other)))
            .then_with(|| other.is_preferred.cmp(&one.is_preferred))
            .then_with(|| islands(other).cmp(&islands(one)))
            .then_with(|| other.size.cmp(&one.size))
    });
}

/// What one pass over the candidates compares.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) phase: Phase,
    /// Only objects of the same path.
    pub(super) within_paths: bool,
    /// The deltas that an earlier pass has found, by candidate.
    pub(super) earlier: Option<&'a EarlierDeltas>,
}

impl Pass<'static> {
    /// The usual one.
    pub(super) const OVER_ALL: Pass<'static> =
        Pass { phase: Phase::Compressing, within_paths: false, earlier: None };
}

/// Finds deltas between sorted candidates.
pub(super) fn pass(
    plan: &PackPlan,
    candidates: &[Candidate],
    pass: Pass<'_>,
    progress: &dyn ProgressSink,
) -> Result<Vec<FoundDelta>, Error> {
    let (request_objects, settings) = (&*plan.request_objects, &plan.settings);
    let threads = settings.threads.clamp(1, candidates.len().div_ceil(MIN_STRETCH).max(1));
    let stretches = stretches(candidates, threads);
    let shared = SearchContext {
        plan,
        request_objects,
        settings,
        progress,
        candidates,
        pass,
        cached_bytes: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        total: candidates.iter().filter(|candidate| !candidate.is_preferred).count() as u64,
    };
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || -> Result<(), Error> {
        let mut search = Search::new(&shared, settings.base_cache_bytes / threads);
        while let Some(stretch) = stretches.get(next.fetch_add(1, Relaxed)) {
            search.stretch(stretch.clone())?;
        }
        found.lock().expect("no panic while held").append(&mut search.found);
        Ok(())
    };
    on_threads(threads, work).into_iter().collect::<Result<(), Error>>()?;
    progress.report(pass.phase, shared.total, shared.total);
    Ok(found.into_inner().expect("no panic while held"))
}

/// Commits, trees, blobs, tags: equal kinds must be adjacent, in any order.
fn kind_order(kind: Kind) -> u8 {
    match kind {
        Kind::Commit => 0,
        Kind::Tree => 1,
        Kind::Blob => 2,
        Kind::Tag => 3,
    }
}

/// Cuts the list where the name changes.
fn stretches(candidates: &[Candidate], threads: usize) -> Vec<std::ops::Range<usize>> {
    let parts = if threads == 1 { 1 } else { threads * STRETCHES_A_THREAD };
    let aim = candidates.len().div_ceil(parts).max(MIN_STRETCH);
    let mut stretches = Vec::new();
    let mut start = 0;
    while start < candidates.len() {
        let mut end = (start + aim).min(candidates.len());
        // A family larger than a stretch is cut, too.
        let family = |at: usize| (candidates[at].kind, candidates[at].name);
        let limit = (end + aim).min(candidates.len());
        while end < limit && end > 0 && family(end) == family(end - 1) {
            end += 1;
        }
        stretches.push(start..end);
        start = end;
    }
    stretches
}

/// The state shared by all threads.
struct SearchContext<'a> {
    plan: &'a PackPlan,
    request_objects: &'a RequestObjects,
    settings: &'a Settings,
    progress: &'a dyn ProgressSink,
    candidates: &'a [Candidate],
    pass: Pass<'a>,
    cached_bytes: AtomicUsize,
    done: AtomicU64,
    total: u64,
}

/// An object in the window.
#[derive(Default)]
struct WindowSlot {
    candidate: u32,
    depth: u16,
    content: Vec<u8>,
    is_read: bool,
    index: DeltaIndex,
    is_indexed: bool,
}

impl WindowSlot {
    fn bytes(&self) -> usize {
        let content = if self.is_read { self.content.len() } else { 0 };
        content + if self.is_indexed { self.index.memory_bytes() } else { 0 }
    }
}

/// The best delta found for a target.
struct Best {
    /// The position in the window.
    slot: usize,
    depth: u16,
    size: usize,
}

/// One thread's search.
struct Search<'a> {
    shared: &'a SearchContext<'a>,
    reader: ObjectReader,
    deflater: Deflater,
    /// Oldest first.
    window: VecDeque<WindowSlot>,
    spare: Vec<WindowSlot>,
    window_bytes: usize,
    delta: Vec<u8>,
    best_delta: Vec<u8>,
    found: Vec<FoundDelta>,
}

impl<'a> Search<'a> {
    fn new(shared: &'a SearchContext<'a>, cache_bytes: usize) -> Self {
        Search {
            shared,
            reader: shared.plan.reader(cache_bytes),
            deflater: Deflater::new(shared.settings.compression),
            window: VecDeque::new(),
            spare: Vec::new(),
            window_bytes: 0,
            delta: Vec::new(),
            best_delta: Vec::new(),
            found: Vec::new(),
        }
    }

    fn stretch(&mut self, stretch: std::ops::Range<usize>) -> Result<(), Error> {
        while self.drop_oldest() {}
        for at in stretch {
            let candidate = &self.shared.candidates[at];
            if !candidate.is_preferred {
                let done = self.shared.done.fetch_add(1, Relaxed) + 1;
                if done.is_multiple_of(64) {
                    if self.shared.progress.cancelled() {
                        return Err(Reason::Cancelled.into());
                    }
                    self.shared.progress.report(self.shared.pass.phase, done, self.shared.total);
                }
            }
            self.visit(at as u32)?;
        }
        Ok(())
    }

    /// Searches for a base for a candidate, then adds the candidate to the window.
    fn visit(&mut self, at: u32) -> Result<(), Error> {
        let mut slot = self.spare.pop().unwrap_or_default();
        let earlier = self.shared.pass.earlier;
        slot.candidate = at;
        slot.depth = earlier.map_or(0, |earlier| earlier.depth_of(at));
        let target = self.candidate(at);
        let height = earlier.map_or(target.height, |earlier| earlier.height_of(at));
        let max_depth = self.shared.settings.depth.saturating_sub(height);
        let is_done = earlier.is_some_and(|earlier| earlier.has_delta(at));
        if !target.is_preferred && !is_done && max_depth > 0 {
            let mut best: Option<Best> = None;
            for place in (0..self.window.len()).rev() {
                let other = self.candidate(self.window[place].candidate);
                if other.kind != target.kind || (self.shared.pass.within_paths && other.name != target.name) {
                    break;
                }
                self.compare(&mut slot, place, max_depth, &mut best)?;
            }
            if let Some(best) = best {
                slot.depth = best.depth;
                if let Some(earlier) = earlier {
                    earlier.set_depth(at, best.depth);
                }
                self.record(at, &best);
                // A good base stays longest.
                if let Some(base) = self.window.remove(best.slot) {
                    self.window.push_back(base);
                }
            }
        }
        if slot.depth >= self.shared.settings.depth {
            // At full depth, so it cannot be a delta base.
            self.recycle(slot);
            return Ok(());
        }
        self.window_bytes += slot.bytes();
        self.window.push_back(slot);
        let limit = self.shared.settings.window_bytes;
        while self.window.len() > self.shared.settings.window
            || limit > 0 && self.window.len() > 1 && self.window_bytes > limit
        {
            self.drop_oldest();
        }
        Ok(())
    }

    /// Makes a delta of `target` against the object at `place` in the window, if it can beat `best`.
    fn compare(
        &mut self,
        target: &mut WindowSlot,
        place: usize,
        max_depth: u16,
        best: &mut Option<Best>,
    ) -> Result<(), Error> {
        let to = self.candidate(target.candidate);
        let from_slot = &self.window[place];
        let from = self.candidate(from_slot.candidate);
        if from_slot.depth >= max_depth {
            return Ok(());
        }
        let was_tried = self.shared.settings.reuse_deltas
            && !from.is_preferred
            && to.whole_in.is_some()
            && to.whole_in == from.pack;
        // Bases by name belong to one path; a comparison with another path has found nothing in 1,800 tries.
        let is_of_other_path = from.is_preferred && to.name != from.name && self.shared.plan.is_by_bitmap;
        if was_tried || is_of_other_path || !self.shared.plan.allows(to.ix, from.ix) {
            return Ok(());
        }
        let hash_bytes = self.shared.request_objects.hash().len_in_bytes();
        let Some(limit) = size_limit(to, hash_bytes, best.as_ref(), from_slot.depth, max_depth) else {
            return Ok(());
        };
        // At least the length difference has to be inserted.
        if to.size.saturating_sub(from.size) >= limit as u64 || to.size < from.size / 32 {
            return Ok(());
        }
        if !target.is_read {
            self.read(target)?;
        }
        if !self.window[place].is_indexed {
            let mut slot = std::mem::take(&mut self.window[place]);
            self.window_bytes -= slot.bytes();
            let read = if slot.is_read { Ok(()) } else { self.read(&mut slot) };
            if read.is_ok() {
                slot.index.build(&slot.content);
                slot.is_indexed = true;
            }
            self.window_bytes += slot.bytes();
            self.window[place] = slot;
            read?;
        }
        let slot = &self.window[place];
        self.delta.clear();
        if !slot.index.encode(&slot.content, &target.content, limit, &mut self.delta) {
            return Ok(());
        }
        let depth = slot.depth + 1;
        // Of two deltas of equal length, the one with the shorter chain wins.
        if best.as_ref().is_some_and(|best| self.delta.len() == best.size && depth >= best.depth) {
            return Ok(());
        }
        *best = Some(Best { slot: place, depth, size: self.delta.len() });
        std::mem::swap(&mut self.delta, &mut self.best_delta);
        Ok(())
    }

    fn read(&mut self, slot: &mut WindowSlot) -> Result<(), Error> {
        let ix = self.candidate(slot.candidate).ix;
        self.shared.request_objects.read(&mut self.reader, ix, &mut slot.content)?;
        slot.is_read = true;
        Ok(())
    }

    fn record(&mut self, target: u32, best: &Best) {
        let settings = self.shared.settings;
        let limit = if settings.delta_cache_bytes == 0 { usize::MAX } else { settings.delta_cache_bytes };
        let mut deflated = None;
        let is_short = best.size <= settings.delta_cache_limit_bytes;
        if is_short && self.shared.cached_bytes.load(Relaxed) < limit {
            let mut bytes = Vec::new();
            self.deflater.deflate(&self.best_delta, &mut bytes);
            self.shared.cached_bytes.fetch_add(bytes.len(), Relaxed);
            deflated = Some(bytes.into());
        }
        self.found.push(FoundDelta {
            target,
            base: self.window[best.slot].candidate,
            size: best.size as u64,
            deflated,
        });
    }

    fn candidate(&self, at: u32) -> &'a Candidate {
        &self.shared.candidates[at as usize]
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(slot) = self.window.pop_front() else { return false };
        self.window_bytes -= slot.bytes();
        self.recycle(slot);
        true
    }

    /// Keeps a slot's memory for the next object, unless it is large.
    fn recycle(&mut self, mut slot: WindowSlot) {
        (slot.is_read, slot.is_indexed) = (false, false);
        slot.content.clear();
        if slot.content.capacity() > 1 << 20 {
            slot = WindowSlot::default();
        }
        self.spare.push(slot);
    }
}

/// The longest delta that is better than none, or than the best so far; shorter if the base is at the end of
/// a long chain.
fn size_limit(
    target: &Candidate,
    hash_bytes: usize,
    best: Option<&Best>,
    base_depth: u16,
    max_depth: u16,
) -> Option<usize> {
    let (limit, reference_depth) = match best {
        None => ((target.size / 2).saturating_sub(hash_bytes as u64).min(target.must_beat), 1),
        Some(best) => (best.size as u64, best.depth),
    };
    let room = u64::from(max_depth) - u64::from(base_depth);
    let reference_room = u64::from(max_depth.saturating_sub(reference_depth)) + 1;
    let limit = limit.saturating_mul(room) / reference_room;
    usize::try_from(limit).ok().filter(|limit| *limit > 0)
}
