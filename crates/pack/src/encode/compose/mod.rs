//! Composes a pack object by object: which stored bytes are reused, which deltas are searched for, and the
//! order of entries.
//!
//! ```text
//! PackPlan ─list→ entries ─reuse→ stored deltas with a base ─search→ new deltas ─order→ bases before deltas
//! ```
//!
//! A clone of whole packs does not need this: `generate::reuse` sends spans without reading single objects.
//! [`is_needed`] decides.

mod attributes;
mod bases;
mod by_path;
mod earlier;
mod inverted;
mod kept;
mod list;
mod old_bases;
mod order;
mod search;

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Error;
use crate::kept_deltas::Candidates;
use crate::names::{NameHash, NameHashVersion};
use crate::progress::ProgressSink;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;
use crate::settings::MAX_DEPTH;

use kept::KnownEntries;
use search::Candidate;

pub(crate) use list::{ComposedEntry, StoredSpan, is_needed};

/// The number of an entry in a [`Composition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryNo(pub(crate) u32);

impl EntryNo {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// The base of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeltaBase {
    /// An object of the same pack.
    Entry(EntryNo),
    /// An object that the receiver of a thin pack has.
    Outside(ObjectNo),
}

/// How an entry is written.
#[derive(Debug)]
pub(crate) enum How {
    /// The stored bytes of a whole object, unchanged.
    Stored,
    /// The stored bytes of a delta, with a new header that names its base.
    StoredDelta(DeltaBase),
    /// A new delta.
    NewDelta { base: DeltaBase, size: u64, deflated: Option<Arc<[u8]>> },
    /// The object, read and deflated.
    Whole,
}

impl How {
    pub(crate) fn base(&self) -> Option<DeltaBase> {
        match self {
            How::Stored | How::Whole => None,
            How::StoredDelta(base) | How::NewDelta { base, .. } => Some(*base),
        }
    }
}

/// The entries of a pack and the order in which they are written.
#[derive(Debug)]
pub(crate) struct Composition {
    pub(crate) entries: Vec<ComposedEntry>,
    /// Each entry once, a base before its deltas.
    pub(crate) order: Vec<EntryNo>,
}

/// Decides how to write every object of `plan`.
pub(crate) fn compose(plan: &PackPlan, progress: &dyn ProgressSink) -> Result<Composition, Error> {
    let mut entries = list::build(plan)?;
    if plan.settings.window > 0 && plan.settings.depth > 0 {
        find_deltas(plan, &mut entries, progress)?;
    }
    old_bases::reuse(plan, &mut entries, progress)?;
    let order = order::of(&entries, plan.order, plan.islands.as_deref());
    Ok(Composition { entries, order })
}

/// Searches for bases of all objects that are not deltas yet, and keeps the deltas for later packs.
fn find_deltas(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let undeltified = attributes::undeltified(plan, entries, progress)?;
    let may_be_delta = |entry: &ComposedEntry| {
        !undeltified.contains(&entry.ix) && entry.size <= plan.settings.big_file_bytes
    };
    let deltas = plan.deltas.as_ref().filter(|_| entries.len() <= kept::MAX_ENTRIES);
    let known = deltas.map(|deltas| KnownEntries::reuse(plan, deltas, entries, may_be_delta));
    let searched = search_new(plan, entries, known.as_ref(), may_be_delta, progress)?;
    if let Some(known) = known {
        known.keep(plan, entries, &searched);
    }
    Ok(())
}

/// Turns stored deltas round, and searches for bases of entries for which no delta is `known`. Returns the entries that were
/// compared with others, each with these, if deltas are kept.
fn search_new(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    known: Option<&KnownEntries<'_>>,
    may_be_delta: impl Fn(&ComposedEntry) -> bool,
    progress: &dyn ProgressSink,
) -> Result<Vec<(EntryNo, Candidates)>, Error> {
    let settings = &plan.settings;
    let heights = list::heights(entries);
    let is_searched = |entry: &ComposedEntry| {
        let may_be_better = match entry.how {
            How::Stored | How::Whole => true,
            How::StoredDelta(_) => entry.poor_bytes.is_some(),
            How::NewDelta { .. } => false,
        };
        may_be_better && entry.size >= search::MIN_BYTES && may_be_delta(entry)
    };
    let bases = bases::find(plan, entries.iter().filter(|entry| is_searched(entry)));
    inverted::invert(plan, entries, &bases.inverted, &heights, &may_be_delta, progress)?;
    let by_path = known.map(|known| known.candidates(plan, entries, &bases.searched)).unwrap_or_default();
    let (mut numbers, mut candidates, mut searched) = (Vec::new(), Vec::new(), Vec::new());
    // Entries that need no search can still be bases.
    let mut only_bases = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let (no, among) = (EntryNo(at as u32), by_path.of(entry.name));
        let is_known = |known: &&KnownEntries<'_>| known.is_reused(at) || known.is_fruitless(at, among);
        if known.filter(is_known).is_some() && entry.size >= search::MIN_BYTES {
            only_bases.push((entry.ix, no, Candidate::base(entry.ix, entry.kind, entry.name, entry.size)));
        } else if is_searched(entry) {
            numbers.push((entry.ix, no));
            candidates.push(Candidate::target(entry, heights[at]));
            searched.extend(known.map(|_| (no, among)));
        }
    }
    // What becomes a delta now may not be found as the base of its own base. Others would only fill the window.
    let names: HashSet<NameHash> = candidates.iter().map(|candidate| candidate.name).collect();
    let mut targets = vec![false; entries.len()];
    numbers.iter().for_each(|(_, no)| targets[no.at()] = true);
    only_bases.retain(|(_, no, candidate)| {
        names.contains(&candidate.name) && !targets[list::root_of(entries, *no).at()]
    });
    let are_all_of_one_pack =
        candidates.iter().all(|one| one.whole_in.is_some() && one.whole_in == candidates[0].whole_in);
    if are_all_of_one_pack && bases.searched.is_empty() && only_bases.is_empty() && settings.reuse_deltas
        || candidates.is_empty()
    {
        // All were compared with each other when their pack was made.
        return Ok(Vec::new());
    }
    numbers.extend(only_bases.iter().map(|(ix, no, _)| (*ix, *no)));
    candidates.extend(only_bases.into_iter().map(|(_, _, candidate)| candidate));
    add_bases(plan, &bases.searched, &mut candidates);
    search_among(plan, entries, numbers, candidates, known.is_some(), progress)?;
    Ok(searched)
}

/// Makes deltas of those of `candidates` for which it finds a base. `numbers` are those of entries.
fn search_among(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    mut numbers: Vec<(ObjectNo, EntryNo)>,
    mut candidates: Vec<Candidate>,
    may_close_chains: bool,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let is_by_path = plan.settings.name_hash == NameHashVersion::ByPath;
    let found = match is_by_path {
        true => by_path::run(plan, &mut candidates, progress)?,
        false => search::run(plan, &mut candidates, progress)?,
    };
    numbers.sort_unstable();
    let number_of =
        |ix: ObjectNo| numbers.binary_search_by_key(&ix, |(ix, _)| *ix).ok().map(|at| numbers[at].1);
    for delta in found {
        let (target, base) = (&candidates[delta.target as usize], &candidates[delta.base as usize]);
        let Some(target) = number_of(target.ix) else { continue };
        let base = number_of(base.ix).map_or(DeltaBase::Outside(base.ix), DeltaBase::Entry);
        entries[target.at()].how = How::NewDelta { base, size: delta.size, deflated: delta.deflated };
    }
    if is_by_path || may_close_chains {
        list::break_chains(entries, plan.settings.reused_depth.min(MAX_DEPTH));
    }
    Ok(())
}

/// Adds objects that the receiver has as bases.
fn add_bases(plan: &PackPlan, bases: &[(ObjectNo, NameHash)], candidates: &mut Vec<Candidate>) {
    let (request_objects, settings) = (&plan.request_objects, &plan.settings);
    let mut reader = request_objects.snapshot().reader(settings.base_cache_bytes / 4);
    for &(ix, name) in bases {
        // An unreadable object cannot be a base.
        let Ok((kind, size)) = request_objects.kind_and_size(&mut reader, ix) else { continue };
        if size >= search::MIN_BYTES && size <= settings.big_file_bytes && !plan.wanted.contains(ix) {
            candidates.push(Candidate::base(ix, kind, name, size));
        }
    }
}
