//! The list of entries: where each object is stored, and which stored deltas can be reused.

use std::collections::HashMap;

use packrace_format::pack::EntryKind;
use packrace_object::Kind;
use packrace_store::PackIx;

use crate::encode::stored_entry::StoredEntry;
use crate::error::Error;
use crate::names::NameHash;
use crate::request_objects::ObjectNo;
use crate::select::plan::{Order, PackPlan, Selected};
use crate::settings::{MAX_DEPTH, PackReuseScope};

use super::{DeltaBase, EntryNo, How};

/// A stored delta of an object that the receiver has is sent as it is, without a search for a shorter one, if it has
/// at most this many bytes, or at most this share of the object: the search costs as much as the object is long.
/// Measured on git/git as its host packs it.
const GOOD_DELTA_BYTES: u64 = 2048;
const GOOD_DELTA_SHARE: u64 = 16;

/// At most this many loose objects, and at most this share of all objects, are sent whole: they are what a few pushes
/// left since the last repack, and a search would look at every object of the packs.
const MAX_WHOLE_LOOSE: usize = 256;
const LOOSE_SHARE: u64 = 128;

/// An object of the new pack.
#[derive(Debug)]
pub(crate) struct ComposedEntry {
    pub(crate) ix: ObjectNo,
    pub(crate) kind: Kind,
    pub(crate) how: How,
    pub(super) name: NameHash,
    /// The length of the object; only set if the search needs it: for all objects but stored deltas that are good.
    pub(super) size: u64,
    pub(crate) stored: Option<StoredSpan>,
    pub(super) is_stored_as_delta: bool,
    /// The length of a stored delta that is likely to be longer than one that the search finds.
    pub(super) poor_bytes: Option<u64>,
}

/// Where an entry is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredSpan {
    pub(crate) pack: PackIx,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) header_bytes: u8,
}

impl StoredSpan {
    pub(super) fn of(entry: &StoredEntry) -> Self {
        let header_bytes = entry.header.length as u8;
        StoredSpan { pack: entry.pack, start: entry.start, end: entry.end, header_bytes }
    }
}

/// Whether each object of `plan` needs its own decision, because spans of stored packs cannot be sent
/// unchanged.
pub(crate) fn is_needed(plan: &PackPlan) -> Result<bool, Error> {
    let settings = &plan.settings;
    if !settings.reuse_objects
        || !settings.reuse_deltas
        || plan.order == Order::ByKind
        || settings.reused_depth < MAX_DEPTH
        || has_many_loose(plan)
        || plan.islands.is_some()
    {
        return Ok(true);
    }
    let searches_packs = !plan.is_by_bitmap || settings.pack_reuse == PackReuseScope::Off;
    if settings.window > 0 && (plan.has_likely_bases() || plan.packs.len() > 1 && searches_packs) {
        return Ok(true);
    }
    for (pack, selected) in &plan.packs {
        let Selected::Positions(positions) = selected else { continue };
        if has_all_bases(plan, *pack, positions) {
            continue;
        }
        for &position in positions {
            let entry = StoredEntry::at(&plan.request_objects, *pack, position);
            match entry.and_then(|entry| Ok(!entry.is_delta() || usable_base(plan, &entry)?.is_some())) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(error) if error.is_damage() => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(false)
}

/// Whether loose objects are worth a search for deltas, and with it a look at each object of all packs.
fn has_many_loose(plan: &PackPlan) -> bool {
    let loose = plan.loose.len();
    loose > MAX_WHOLE_LOOSE || loose as u64 * LOOSE_SHARE > u64::from(plan.objects())
}

/// Whether the receiver gets or has all objects of a stored pack of which it gets these entries: the rest is taken from
/// other packs. So it has all bases, without a look at each entry. Looks only at packs that are sent nearly whole.
fn has_all_bases(plan: &PackPlan, pack: PackIx, positions: &[u32]) -> bool {
    let snapshot = plan.request_objects.snapshot();
    let stored = &snapshot.packs()[pack.0 as usize];
    if positions.len() < stored.len() as usize / 2 {
        return false;
    }
    let mut selected = positions.iter().copied().peekable();
    let mut others = (0..stored.len()).filter(|position| selected.next_if_eq(position).is_none());
    others.all(|position| {
        let object = snapshot.ix_of_offset(pack, stored.entry_range(position).0);
        object.is_some_and(|object| is_there(plan, ObjectNo(object.0)))
    })
}

/// Whether the receiver will have an object.
fn is_there(plan: &PackPlan, object: ObjectNo) -> bool {
    plan.wanted.contains(object) || plan.had.as_ref().is_some_and(|had| had.contains(object))
}

/// Lists the objects of `plan` in stored order: loose ones, then packs, newest first.
pub(super) fn build(plan: &PackPlan) -> Result<Vec<ComposedEntry>, Error> {
    let mut listing =
        EntryList { plan, entries: Vec::with_capacity(plan.objects() as usize), deltas: Vec::new() };
    for &ix in &plan.loose {
        listing.add_whole(ix);
    }
    for (pack, selected) in &plan.packs {
        let len = plan.request_objects.snapshot().packs()[pack.0 as usize].len();
        match selected {
            Selected::All => (0..len).try_for_each(|position| listing.add(*pack, position))?,
            Selected::Positions(positions) => {
                positions.iter().try_for_each(|position| listing.add(*pack, *position))?;
            }
        }
    }
    listing.finish()
}

struct EntryList<'a> {
    plan: &'a PackPlan,
    entries: Vec<ComposedEntry>,
    /// Entries stored as deltas whose base the receiver will have.
    deltas: Vec<(EntryNo, ObjectNo)>,
}

impl EntryList<'_> {
    /// Adds an object that is loose, or damaged where it was found: it is read, where it may be found elsewhere.
    fn add_whole(&mut self, ix: ObjectNo) {
        self.entries.push(ComposedEntry {
            ix,
            kind: Kind::Blob,
            how: How::Whole,
            name: self.plan.name_of(ix),
            size: 0,
            stored: None,
            is_stored_as_delta: false,
            poor_bytes: None,
        });
    }

    fn add(&mut self, pack: PackIx, position: u32) -> Result<(), Error> {
        let snapshot = self.plan.request_objects.snapshot();
        match self.add_stored(pack, position) {
            Err(error) if error.is_damage() => {
                let start = snapshot.packs()[pack.0 as usize].entry_range(position).0;
                self.add_whole(ObjectNo(snapshot.ix_of_offset(pack, start).ok_or(error)?.0));
                Ok(())
            }
            added => added,
        }
    }

    fn add_stored(&mut self, pack: PackIx, position: u32) -> Result<(), Error> {
        let plan = self.plan;
        let stored = StoredEntry::at(&plan.request_objects, pack, position)?;
        let ix = stored.ix(&plan.request_objects)?;
        let settings = &plan.settings;
        let mut entry = ComposedEntry {
            ix,
            kind: Kind::Blob,
            how: How::Whole,
            name: plan.name_of(ix),
            size: 0,
            stored: Some(StoredSpan::of(&stored)),
            is_stored_as_delta: true,
            poor_bytes: None,
        };
        if let EntryKind::Object(kind) = stored.header.kind {
            (entry.kind, entry.size, entry.is_stored_as_delta) = (kind, stored.header.size, false);
            if settings.reuse_objects {
                entry.how = How::Stored;
            }
        } else if settings.reuse_objects
            && settings.reuse_deltas
            && let Some(base) = usable_base(plan, &stored)?
        {
            self.deltas.push((EntryNo(self.entries.len() as u32), base));
        }
        self.entries.push(entry);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<ComposedEntry>, Error> {
        let numbers: HashMap<ObjectNo, EntryNo> = if self.deltas.is_empty() {
            HashMap::new()
        } else {
            self.entries.iter().zip(0..).map(|(entry, no)| (entry.ix, EntryNo(no))).collect()
        };
        // A walk already found the bases that matter.
        let searches = self.plan.finds_bases_by_name;
        for (no, base) in std::mem::take(&mut self.deltas) {
            let base = numbers.get(&base).map_or(DeltaBase::Outside(base), |base| DeltaBase::Entry(*base));
            let entry = &mut self.entries[no.at()];
            entry.how = How::StoredDelta(base);
            let stored_bytes = entry.stored.map_or(0, |stored| (stored.end - stored.start) as u64);
            if searches && matches!(base, DeltaBase::Outside(_)) && stored_bytes > GOOD_DELTA_BYTES {
                entry.poor_bytes = Some(stored_bytes);
            }
        }
        break_chains(&mut self.entries, self.plan.settings.reused_depth.min(MAX_DEPTH));
        self.find_kinds()?;
        Ok(self.entries)
    }

    /// Finds the kinds of deltas, and the sizes of the objects that the search reads.
    fn find_kinds(&mut self) -> Result<(), Error> {
        let request_objects = &self.plan.request_objects;
        let mut reader = request_objects.snapshot().reader(self.plan.settings.base_cache_bytes / 4);
        let mut chain = Vec::new();
        let mut is_known: Vec<bool> =
            self.entries.iter().map(|entry| entry.stored.is_some() && !entry.is_stored_as_delta).collect();
        for at in 0..self.entries.len() {
            let mut next = at;
            chain.clear();
            let kind = loop {
                if is_known[next] {
                    break self.entries[next].kind;
                }
                match self.entries[next].how {
                    How::StoredDelta(DeltaBase::Entry(base)) => {
                        chain.push(next);
                        next = base.at();
                    }
                    How::StoredDelta(DeltaBase::Outside(base)) => {
                        chain.push(next);
                        let entry = &mut self.entries[next];
                        let Some(stored_bytes) = entry.poor_bytes else {
                            break request_objects.kind(&mut reader, base)?;
                        };
                        let (kind, size) = request_objects.kind_and_size(&mut reader, entry.ix)?;
                        entry.size = size;
                        entry.poor_bytes = Some(stored_bytes).filter(|bytes| bytes * GOOD_DELTA_SHARE > size);
                        break kind;
                    }
                    _ => {
                        let (kind, size) =
                            request_objects.kind_and_size(&mut reader, self.entries[next].ix)?;
                        self.entries[next].size = size;
                        chain.push(next);
                        break kind;
                    }
                }
            };
            for &at in &chain {
                self.entries[at].kind = kind;
                is_known[at] = true;
            }
        }
        Ok(())
    }
}

/// Breaks chains that are too long or form a loop, by storing an object whole; deltas from several packs can
/// form loops.
pub(super) fn break_chains(entries: &mut [ComposedEntry], max_depth: u16) {
    const UNKNOWN: u16 = u16::MAX;
    const ON_THE_WAY: u16 = u16::MAX - 1;
    let mut depths = vec![UNKNOWN; entries.len()];
    let mut chain = Vec::new();
    for at in 0..entries.len() {
        let mut next = at;
        let mut depth = loop {
            match (depths[next], entries[next].how.base()) {
                (ON_THE_WAY, _) => {
                    // A loop: break it here.
                    entries[next].how = How::Whole;
                    break 0;
                }
                (UNKNOWN, Some(DeltaBase::Entry(base))) => {
                    depths[next] = ON_THE_WAY;
                    chain.push(next);
                    next = base.at();
                }
                (UNKNOWN, Some(DeltaBase::Outside(_))) => {
                    chain.push(next);
                    break 0;
                }
                (UNKNOWN, None) => {
                    depths[next] = 0;
                    break 0;
                }
                (depth, _) => break depth,
            }
        };
        while let Some(at) = chain.pop() {
            if matches!(entries[at].how, How::Whole) {
                depth = 0;
            } else if depth >= max_depth {
                entries[at].how = How::Whole;
                depth = 0;
            } else {
                depth += 1;
            }
            depths[at] = depth;
        }
    }
}

/// The last entry of the chain below an entry; chains have no loops.
pub(super) fn root_of(entries: &[ComposedEntry], entry: EntryNo) -> EntryNo {
    let mut root = entry;
    while let Some(DeltaBase::Entry(base)) = entries[root.at()].how.base() {
        root = base;
    }
    root
}

/// For each entry, the length of the longest chain of stored deltas on it.
pub(super) fn heights(entries: &[ComposedEntry]) -> Vec<u16> {
    let mut heights = vec![0u16; entries.len()];
    for entry in entries {
        let (mut next, mut height) = (entry.how.base(), 0);
        // Ends where a longer chain has passed; chains are at most `MAX_DEPTH` long and have no loops.
        while let Some(DeltaBase::Entry(base)) = next {
            height += 1;
            if heights[base.at()] >= height {
                break;
            }
            heights[base.at()] = height;
            next = entries[base.at()].how.base();
        }
    }
    heights
}

/// The base of a stored delta, if the receiver will have it.
fn usable_base(plan: &PackPlan, entry: &StoredEntry) -> Result<Option<ObjectNo>, Error> {
    let base = entry.base(&plan.request_objects)?.filter(|base| is_there(plan, *base));
    let Some(base) = base else { return Ok(None) };
    let is_allowed = plan.islands.is_none() || plan.allows(entry.ix(&plan.request_objects)?, base);
    Ok(is_allowed.then_some(base))
}
