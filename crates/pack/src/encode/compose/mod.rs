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
mod list;
mod order;
mod search;

use crate::error::Error;
use crate::names::{NameHash, NameHashVersion};
use crate::progress::ProgressSink;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;
use crate::settings::MAX_DEPTH;

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
    NewDelta { base: DeltaBase, size: u64, deflated: Option<Box<[u8]>> },
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
    let order = order::of(&entries, plan.order, plan.islands.as_deref());
    Ok(Composition { entries, order })
}

/// Searches for bases of all objects that are not deltas yet.
fn find_deltas(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let settings = &plan.settings;
    let heights = list::heights(entries);
    let undeltified = attributes::undeltified(plan, entries, progress)?;
    let is_searched = |entry: &ComposedEntry| {
        let has_good_size = (search::MIN_BYTES..=settings.big_file_bytes).contains(&entry.size);
        let may_be_better = match entry.how {
            How::Stored | How::Whole => true,
            How::StoredDelta(_) => entry.poor_bytes.is_some(),
            How::NewDelta { .. } => false,
        };
        may_be_better && has_good_size && !undeltified.contains(&entry.ix)
    };
    let bases = bases::find(plan, entries.iter().filter(|entry| is_searched(entry)));
    let may_be_delta =
        |entry: &ComposedEntry| !undeltified.contains(&entry.ix) && entry.size <= settings.big_file_bytes;
    inverted::invert(plan, entries, &bases.inverted, &heights, may_be_delta, progress)?;
    let mut numbers = Vec::new();
    let mut candidates = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if !is_searched(entry) {
            continue;
        }
        numbers.push((entry.ix, EntryNo(at as u32)));
        candidates.push(Candidate::target(entry, heights[at]));
    }
    if candidates.iter().all(|one| one.whole_in.is_some() && one.whole_in == candidates[0].whole_in)
        && bases.searched.is_empty()
        && settings.reuse_deltas
    {
        // All were compared with each other when their pack was made.
        return Ok(());
    }
    add_bases(plan, &bases.searched, &mut candidates);
    let is_by_path = settings.name_hash == NameHashVersion::ByPath;
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
    if is_by_path {
        list::break_chains(entries, settings.reused_depth.min(MAX_DEPTH));
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
