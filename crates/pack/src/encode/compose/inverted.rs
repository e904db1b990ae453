//! Inverts stored deltas that point the wrong way for a fetch.
//!
//! A well packed history stores new versions whole and old ones as deltas of them. A fetch needs the opposite:
//!
//! ```text
//! stored    had → W1 → W2 (whole)           an arrow leads from a delta to its base
//! sent      had ← W1 ← W2                   the same instructions, inverted
//! ```
//!
//! So what would be sent whole becomes a delta without a search. Other stored deltas of W1 and W2 stay as they
//! are.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use packrace_format::pack::{self, delta};
use packrace_format::zlib::{Deflater, Inflater};
use packrace_store::ObjectReader;

use crate::encode::stored_entry::StoredEntry;
use crate::error::{Error, Reason};
use crate::progress::ProgressSink;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;
use crate::threads::on_threads;

use super::list::{ComposedEntry, StoredSpan};
use super::{DeltaBase, EntryNo, How, search};

/// Longer deltas are not inverted: reading one can take 24 times its length of memory, as an instruction can have one
/// byte.
const MAX_DELTA_BYTES: usize = 1 << 20;

/// A chain of stored deltas, from an object that the receiver has to one that would be sent whole.
struct Chain {
    had: ObjectNo,
    had_stored: StoredSpan,
    /// The objects to send, each the base of the one before it; the last would be sent whole.
    sent: Vec<EntryNo>,
}

/// A new form of an entry.
type Inverted = (EntryNo, How);

/// Replaces whole objects of `entries` for which `may_be_delta` holds by deltas of objects that the receiver
/// has, where stored deltas lead from those to them. `heights` are the lengths of the longest chains on them.
pub(super) fn invert(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    bases: &[ObjectNo],
    heights: &[u16],
    may_be_delta: impl Fn(&ComposedEntry) -> bool,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let settings = &plan.settings;
    if bases.is_empty() || !settings.reuse_deltas || !settings.reuse_objects {
        return Ok(());
    }
    let is_short = |chain: &Chain| {
        let height = chain.sent.last().map_or(0, |root| heights[root.at()]);
        chain.sent.len() <= usize::from(settings.depth)
            && chain.sent.len() + usize::from(height) <= usize::from(settings.reused_depth)
    };
    let mut chains = chains(plan, entries, bases);
    chains.retain(|chain| is_short(chain) && chain.sent.iter().all(|no| may_be_delta(&entries[no.at()])));
    let shared = &*entries;
    let (next, cached_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let threads = settings.threads.clamp(1, chains.len().div_ceil(search::MIN_STRETCH).max(1));
    let work = || -> Result<(), Error> {
        let mut inverter = Inverter::new(plan, shared, settings.base_cache_bytes / threads);
        while let Some(chain) = chains.get(next.fetch_add(1, Relaxed)) {
            if progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            // Of a damaged object, the search finds another copy, or reports it.
            let Some(inverted) = inverter.chain(chain) else { continue };
            let bytes: usize = inverted.iter().map(|(_, how)| kept_bytes(how)).sum();
            let limit = settings.delta_cache_bytes;
            if limit == 0 || cached_bytes.fetch_add(bytes, Relaxed) + bytes <= limit {
                found.lock().expect("no panic while held").extend(inverted);
            }
        }
        Ok(())
    };
    on_threads(threads, work).into_iter().collect::<Result<(), Error>>()?;
    for (no, how) in found.into_inner().expect("no panic while held") {
        entries[no.at()].how = how;
    }
    Ok(())
}

fn kept_bytes(how: &How) -> usize {
    match how {
        How::NewDelta { deflated: Some(deflated), .. } => deflated.len(),
        _ => 0,
    }
}

/// For each whole object, the shortest chain that leads to it.
fn chains(plan: &PackPlan, entries: &[ComposedEntry], bases: &[ObjectNo]) -> Vec<Chain> {
    let numbers: HashMap<ObjectNo, EntryNo> =
        entries.iter().zip(0..).map(|(entry, no)| (entry.ix, EntryNo(no))).collect();
    let mut best: HashMap<EntryNo, Chain> = HashMap::new();
    for &had in bases {
        let Ok(Some((stored, base))) = stored_delta(plan, had) else { continue };
        let Some(first) = numbers.get(&base) else { continue };
        let mut sent = vec![*first];
        let root = loop {
            let last = sent[sent.len() - 1];
            match entries[last.at()].how {
                // Chains of stored deltas have been checked for loops.
                How::StoredDelta(DeltaBase::Entry(base)) => sent.push(base),
                How::Stored | How::Whole => break Some(last),
                How::StoredDelta(DeltaBase::Outside(_)) | How::NewDelta { .. } => break None,
            }
        };
        let Some(root) = root else { continue };
        let chain = Chain { had, had_stored: StoredSpan::of(&stored), sent };
        let bytes = |chain: &Chain| (chain.sent.len(), chain.had_stored.end - chain.had_stored.start);
        match best.get(&root) {
            Some(known) if bytes(known) <= bytes(&chain) => {}
            _ => {
                best.insert(root, chain);
            }
        }
    }
    let mut chains: Vec<Chain> = best.into_values().collect();
    chains.sort_unstable_by_key(|chain| chain.had_stored.start);
    chains
}

/// The entry of an object that is stored as a delta, and its base.
fn stored_delta(plan: &PackPlan, object: ObjectNo) -> Result<Option<(StoredEntry, ObjectNo)>, Error> {
    let request_objects = &plan.request_objects;
    let Some(packed) = request_objects.packed(object) else { return Ok(None) };
    let location = request_objects.snapshot().locate(packed);
    let pack = &request_objects.snapshot().packs()[location.pack.0 as usize];
    let Some(position) = pack.position_of_offset(location.offset) else { return Ok(None) };
    let stored = StoredEntry::at(request_objects, location.pack, position);
    match stored.and_then(|stored| Ok(stored.base(request_objects)?.map(|base| (stored, base)))) {
        Err(error) if error.is_damage() => Ok(None),
        found => found,
    }
}

/// One thread's inverter.
struct Inverter<'a> {
    plan: &'a PackPlan,
    entries: &'a [ComposedEntry],
    reader: ObjectReader,
    inflater: Inflater,
    deflater: Deflater,
    content: Vec<u8>,
    smaller: Vec<u8>,
    stored: Vec<u8>,
    inverse: Vec<u8>,
}

impl<'a> Inverter<'a> {
    fn new(plan: &'a PackPlan, entries: &'a [ComposedEntry], cache_bytes: usize) -> Self {
        Inverter {
            plan,
            entries,
            reader: plan.reader(cache_bytes),
            inflater: Inflater::new(),
            deflater: Deflater::new(plan.settings.compression),
            content: Vec::new(),
            smaller: Vec::new(),
            stored: Vec::new(),
            inverse: Vec::new(),
        }
    }

    /// The inverted deltas of a chain; `None` if they are not shorter than what is stored, or cannot be made.
    fn chain(&mut self, chain: &Chain) -> Option<Vec<Inverted>> {
        let (root, rest) = chain.sent.split_last()?;
        self.plan
            .request_objects
            .read(&mut self.reader, self.entries[root.at()].ix, &mut self.content)
            .ok()?;
        let mut inverted = Vec::with_capacity(chain.sent.len());
        let mut target = *root;
        for delta in rest.iter().rev() {
            let how = self.invert(self.entries[delta.at()].stored?, DeltaBase::Entry(*delta))?;
            inverted.push((target, how));
            delta::apply(&self.content, &self.stored, &mut self.smaller).ok()?;
            std::mem::swap(&mut self.content, &mut self.smaller);
            target = *delta;
        }
        inverted.push((target, self.invert(chain.had_stored, DeltaBase::Outside(chain.had))?));
        let now: usize = inverted.iter().map(|(_, how)| kept_bytes(how)).sum();
        let stored_bytes = |no: &EntryNo| {
            let entry = &self.entries[no.at()];
            entry.stored.map_or(entry.size as usize / 2, |stored| stored.end - stored.start)
        };
        (now < chain.sent.iter().map(stored_bytes).sum()).then_some(inverted)
    }

    /// Makes a delta of `content` on `base`, from the stored delta of `base` on `content`.
    fn invert(&mut self, of_base: StoredSpan, base: DeltaBase) -> Option<How> {
        let request_objects = &self.plan.request_objects;
        let bytes = request_objects.snapshot().packs()[of_base.pack.0 as usize].bytes();
        let header =
            pack::parse_entry_header(&bytes[of_base.start..of_base.end], request_objects.hash()).ok()?;
        let size = usize::try_from(header.size).ok().filter(|size| *size <= MAX_DELTA_BYTES)?;
        let stored = &bytes[of_base.start + header.length..of_base.end];
        self.inflater.inflate_exact(stored, size, &mut self.stored).ok()?;
        self.inverse.clear();
        if !pack::invert(&self.stored, &self.content, self.content.len() / 2, &mut self.inverse).ok()? {
            return None;
        }
        let mut deflated = Vec::new();
        self.deflater.deflate(&self.inverse, &mut deflated);
        Some(How::NewDelta { base, size: self.inverse.len() as u64, deflated: Some(deflated.into()) })
    }
}
