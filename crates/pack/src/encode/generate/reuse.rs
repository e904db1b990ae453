//! Decides, entry by entry, how much of a stored pack can be sent unchanged.
//!
//! Entries are visited in pack order. Adjacent entries that need no change form one span. A delta that gives
//! the distance to its base stays unchanged if base and delta move by the same amount; otherwise it gets a
//! new header, with the new distance or the base's id. A delta is sent whole if its base is neither sent nor,
//! for a thin pack, known to be at the client.

use std::ops::Range;

use packrace_format::pack::{EntryHeaderBytes, EntryKind, HEADER_BYTES};
use packrace_store::{MAX_CHAIN, PackIx};

use crate::encode::stored_entry::StoredEntry;
use crate::error::Error;
use crate::request_objects::ObjectNo;
use crate::select::plan::{PackPlan, Selected};

use super::MAX_SPAN_BYTES;

/// The next step of the response.
pub(super) struct ReuseStep {
    pub(super) bytes: StepBytes,
    /// The number of objects whose stored bytes it reuses.
    pub(super) objects: u32,
    /// The number of deltas among them.
    pub(super) deltas: u32,
}

pub(super) enum StepBytes {
    /// Stored entries, unchanged.
    Span(Range<usize>),
    /// A new entry header, and the stored bytes after it.
    NewHeader(EntryHeaderBytes, Range<usize>),
    /// An object to read and deflate.
    Recompress(ObjectNo),
}

/// How one entry is sent.
enum Verdict {
    AsIs,
    NewHeader { header: EntryHeaderBytes, body_at: usize },
    Recompress,
}

/// Entries of the stored pack that were sent one after another with unchanged distances: the entry at
/// `start + n` of the stored pack starts at `sent_at + n` of the response, up to `end`.
struct Run {
    start: u64,
    end: u64,
    sent_at: u64,
}

/// Visits the selected entries of one pack.
pub(super) struct PackReuse {
    pack: PackIx,
    /// The next element of the selection.
    next: usize,
    /// What was sent so far, by ascending stored offset.
    runs: Vec<Run>,
    /// The verdict about the entry at `next`, which ended the last span.
    held: Option<Verdict>,
}

impl PackReuse {
    pub(super) fn new(pack: PackIx) -> Self {
        PackReuse { pack, next: 0, runs: Vec::new(), held: None }
    }

    /// Goes on with the entry at this position of a pack whose earlier ones were sent as they are; they end at `end`
    /// of the pack, and at `written` of the response.
    pub(super) fn after(pack: PackIx, position: u32, end: u64, written: u64) -> Self {
        let start = HEADER_BYTES as u64;
        let run = Run { start, end, sent_at: written - (end - start) };
        PackReuse { next: position as usize, runs: vec![run], ..PackReuse::new(pack) }
    }

    pub(super) fn pack(&self) -> PackIx {
        self.pack
    }

    /// The next step; `written` is the length of the response so far.
    pub(super) fn next(&mut self, plan: &PackPlan, written: u64) -> Result<Option<ReuseStep>, Error> {
        let selected = plan.packs.iter().find(|(ix, _)| *ix == self.pack).map(|(_, selected)| selected);
        let Some(selected) = selected else { return Ok(None) };
        let first = match self.entry(plan, selected, self.next) {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(None),
            Err(error) if error.is_damage() => return self.damaged(plan, selected, written, error).map(Some),
            Err(error) => return Err(error),
        };
        let verdict = match self.held.take() {
            Some(verdict) => verdict,
            None => self.judge(plan, &first, written)?,
        };
        match verdict {
            Verdict::Recompress => {
                let ix = first.ix(&plan.request_objects)?;
                Ok(Some(self.recompress(first.start as u64, ix, written)))
            }
            Verdict::NewHeader { header, body_at } => {
                self.next += 1;
                self.add_run(&first, written);
                Ok(Some(ReuseStep {
                    bytes: StepBytes::NewHeader(header, body_at..first.end),
                    objects: 1,
                    deltas: 1,
                }))
            }
            Verdict::AsIs => self.span(plan, selected, first, written).map(Some),
        }
    }

    /// Takes the object whose entry begins at `start`, which is not sent as it is stored.
    fn recompress(&mut self, start: u64, ix: ObjectNo, written: u64) -> ReuseStep {
        self.next += 1;
        // Deltas of this entry look up its start; no other stored byte of it is sent.
        self.runs.push(Run { start, end: start + 1, sent_at: written });
        ReuseStep { bytes: StepBytes::Recompress(ix), objects: 0, deltas: 0 }
    }

    /// Takes an object whose entry cannot be read: there may be another copy.
    fn damaged(
        &mut self,
        plan: &PackPlan,
        selected: &Selected,
        written: u64,
        error: Error,
    ) -> Result<ReuseStep, Error> {
        let snapshot = plan.request_objects.snapshot();
        let Some(position) = self.position(plan, selected, self.next) else { return Err(error) };
        let start = snapshot.packs()[self.pack.0 as usize].entry_range(position).0;
        let ix = snapshot.ix_of_offset(self.pack, start).ok_or(error)?;
        Ok(self.recompress(start, ObjectNo(ix.0), written))
    }

    /// Takes a span of entries that stay unchanged.
    fn span(
        &mut self,
        plan: &PackPlan,
        selected: &Selected,
        first: StoredEntry,
        written: u64,
    ) -> Result<ReuseStep, Error> {
        let mut span = first.start..first.end;
        let (mut objects, mut deltas) = (1, u32::from(first.is_delta()));
        self.add_run(&first, written);
        self.next += 1;
        while span.len() < MAX_SPAN_BYTES {
            let entry = match self.entry(plan, selected, self.next) {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) if error.is_damage() => break,
                Err(error) => return Err(error),
            };
            if entry.start != span.end {
                break;
            }
            match self.judge(plan, &entry, written + span.len() as u64)? {
                Verdict::AsIs => {}
                other => {
                    self.held = Some(other);
                    break;
                }
            }
            span.end = entry.end;
            objects += 1;
            deltas += u32::from(entry.is_delta());
            if let Some(run) = self.runs.last_mut() {
                run.end = entry.end as u64;
            }
            self.next += 1;
        }
        Ok(ReuseStep { bytes: StepBytes::Span(span), objects, deltas })
    }

    fn add_run(&mut self, entry: &StoredEntry, sent_at: u64) {
        let (start, end) = (entry.start as u64, entry.end as u64);
        self.runs.push(Run { start, end, sent_at });
    }

    fn judge(&self, plan: &PackPlan, entry: &StoredEntry, sent_at: u64) -> Result<Verdict, Error> {
        let stored = || &plan.request_objects.snapshot().packs()[self.pack.0 as usize];
        if plan.checks_entries() && !stored().is_intact(entry.position) {
            // The same damage makes the reader look for another copy.
            return Ok(Verdict::Recompress);
        }
        match self.verdict(plan, entry, sent_at) {
            Err(error) if error.is_damage() => Ok(Verdict::Recompress),
            verdict => verdict,
        }
    }

    fn verdict(&self, plan: &PackPlan, entry: &StoredEntry, sent_at: u64) -> Result<Verdict, Error> {
        let request_objects = &plan.request_objects;
        match entry.header.kind {
            EntryKind::Object(_) => Ok(Verdict::AsIs),
            EntryKind::OfsDelta { distance } => {
                let base = entry.base_offset(request_objects, distance)?;
                if let Some(base_sent_at) = self.sent_at(base) {
                    if plan.ofs_delta {
                        let new_distance = sent_at - base_sent_at;
                        if new_distance == distance {
                            return Ok(Verdict::AsIs);
                        }
                        return Ok(with_kind(entry, EntryKind::OfsDelta { distance: new_distance }));
                    }
                    let base = entry.base_at(request_objects, base)?;
                    return Ok(with_kind(entry, EntryKind::RefDelta { base: request_objects.id(base) }));
                }
                let base = entry.base_at(request_objects, base)?;
                if self.is_sent_before(plan, base) || plan.had.as_ref().is_some_and(|had| had.contains(base))
                {
                    return Ok(with_kind(entry, EntryKind::RefDelta { base: request_objects.id(base) }));
                }
                Ok(Verdict::Recompress)
            }
            EntryKind::RefDelta { base } => {
                let Some(base) = request_objects.find(&base)? else { return Ok(Verdict::Recompress) };
                let usable = self.is_sent_from_here(plan, base) && self.leads_to_an_end(plan, entry)?
                    || self.is_sent_before(plan, base)
                    || plan.had.as_ref().is_some_and(|had| had.contains(base));
                Ok(if usable { Verdict::AsIs } else { Verdict::Recompress })
            }
        }
    }

    /// The offset in the response of the entry at this offset of the pack, if it was sent.
    fn sent_at(&self, offset: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.start <= offset);
        let run = self.runs.get(after.checked_sub(1)?)?;
        (offset < run.end).then(|| run.sent_at + (offset - run.start))
    }

    /// Whether the response takes `base` from this pack.
    fn is_sent_from_here(&self, plan: &PackPlan, base: ObjectNo) -> bool {
        plan.wanted.contains(base) && self.home(plan, base) == Some(self.pack.0)
    }

    /// Whether the chain of a `REF_DELTA` ends within this pack or leaves it. A loop has at least one delta
    /// before its base, so only such chains are followed. A completed thin pack has the bases last
    /// (git-index-pack, "--fix-thin"), mostly whole.
    fn leads_to_an_end(&self, plan: &PackPlan, entry: &StoredEntry) -> Result<bool, Error> {
        let pack = &plan.request_objects.snapshot().packs()[self.pack.0 as usize];
        let mut at = *entry;
        for _ in 0..MAX_CHAIN {
            let base = match at.header.kind {
                EntryKind::Object(_) => return Ok(true),
                EntryKind::OfsDelta { distance } => at.base_offset(&plan.request_objects, distance)?,
                EntryKind::RefDelta { base } => match pack.index().position_of(&base) {
                    Some(position) => pack.index().offset_at(position),
                    None => return Ok(true),
                },
            };
            if at.start == entry.start && base < entry.start as u64 {
                return Ok(true);
            }
            let Some(position) = pack.position_of_offset(base) else { return Ok(false) };
            at = StoredEntry::at(&plan.request_objects, self.pack, position)?;
        }
        Ok(false)
    }

    /// Whether the response took `base` from an earlier pack; only earlier ones count, so that deltas of two
    /// packs cannot be each other's base.
    fn is_sent_before(&self, plan: &PackPlan, base: ObjectNo) -> bool {
        plan.wanted.contains(base) && self.home(plan, base).is_some_and(|pack| pack < self.pack.0)
    }

    fn home(&self, plan: &PackPlan, ix: ObjectNo) -> Option<u32> {
        plan.request_objects.packed(ix).map(|ix| plan.request_objects.snapshot().locate(ix).pack.0)
    }

    /// The position in the pack of the selected entry at index `at`.
    fn position(&self, plan: &PackPlan, selected: &Selected, at: usize) -> Option<u32> {
        let len = plan.request_objects.snapshot().packs()[self.pack.0 as usize].len();
        match selected {
            Selected::All => u32::try_from(at).ok().filter(|at| *at < len),
            Selected::Positions(positions) => positions.get(at).copied(),
        }
    }

    /// The selected entry at index `at`.
    fn entry(&self, plan: &PackPlan, selected: &Selected, at: usize) -> Result<Option<StoredEntry>, Error> {
        let position = self.position(plan, selected, at);
        position.map(|position| StoredEntry::at(&plan.request_objects, self.pack, position)).transpose()
    }
}

fn with_kind(entry: &StoredEntry, kind: EntryKind) -> Verdict {
    Verdict::NewHeader { header: EntryHeaderBytes::new(kind, entry.header.size), body_at: entry.body_at() }
}
