//! Decides, entry by entry, how much of a stored pack can be sent as it is.
//!
//! Entries are taken in the order of the pack. As long as they follow each other without a gap and need no change
//! they are one span. A delta that names its base by distance can stay when base and delta move by the same amount;
//! otherwise its header is written anew, with the new distance or with the base's name. A delta whose base neither
//! is sent nor (thin pack) is known to be with the client is sent whole.

use std::ops::Range;

use packrace_format::pack::{self, EntryHeaderBytes, EntryKind};
use packrace_store::{ObjectIx, Pack, PackIx};

use crate::error::{Error, Reason};
use crate::plan::{PackPlan, Selected};
use crate::universe::Ix;

use super::MAX_SPAN_BYTES;

/// The next bytes of the response.
pub(super) struct Step {
    pub(super) bytes: Bytes,
    /// Objects whose stored bytes are in it.
    pub(super) objects: u32,
    /// Deltas among them.
    pub(super) deltas: u32,
}

pub(super) enum Bytes {
    /// Stored entries as they are.
    Span(Range<usize>),
    /// A new entry header, and the stored bytes that follow it.
    NewHeader(EntryHeaderBytes, Range<usize>),
    /// An object that must be read and deflated.
    Recompress(Ix),
}

/// How one entry is sent.
enum Verdict {
    AsIs,
    NewHeader { header: EntryHeaderBytes, body_at: usize },
    Recompress,
}

/// Entries of the stored pack that went out one after the other without change of distance:
/// the entry at `start + n` of the stored pack starts at `sent_at + n` of the response, up to `end`.
struct Run {
    start: u64,
    end: u64,
    sent_at: u64,
}

/// Goes through what is selected of one pack.
pub(super) struct PackReuse {
    pack: PackIx,
    /// Next element of the selection.
    next: usize,
    /// What went out so far, by ascending stored offset.
    runs: Vec<Run>,
    /// A verdict for the entry at `next` that ended a span before it was used.
    held: Option<Verdict>,
}

impl PackReuse {
    pub(super) fn new(pack: PackIx) -> Self {
        PackReuse { pack, next: 0, runs: Vec::new(), held: None }
    }

    pub(super) fn pack(&self) -> PackIx {
        self.pack
    }

    /// The next step; `written` is the length of the response so far.
    pub(super) fn next(&mut self, plan: &PackPlan, written: u64) -> Result<Option<Step>, Error> {
        let pack = &plan.universe.snapshot().packs()[self.pack.0 as usize];
        let selected = plan.packs.iter().find(|(ix, _)| *ix == self.pack).map(|(_, selected)| selected);
        let Some(selected) = selected else { return Ok(None) };
        let Some(first) = self.entry(plan, pack, selected, self.next)? else { return Ok(None) };
        let verdict = match self.held.take() {
            Some(verdict) => verdict,
            None => self.judge(plan, pack, &first, written)?,
        };
        match verdict {
            Verdict::Recompress => {
                self.next += 1;
                // Deltas against it find it by its start; nothing else of the stored entry is sent.
                let start = first.start as u64;
                self.runs.push(Run { start, end: start + 1, sent_at: written });
                let ix = plan.universe.snapshot().ix_of_offset(self.pack, first.start as u64);
                let ix = ix.ok_or_else(|| damaged(pack, first.start, "the entry is not in the index"))?;
                Ok(Some(Step { bytes: Bytes::Recompress(Ix(ix.0)), objects: 0, deltas: 0 }))
            }
            Verdict::NewHeader { header, body_at } => {
                self.next += 1;
                self.add_run(&first, written);
                Ok(Some(Step { bytes: Bytes::NewHeader(header, body_at..first.end), objects: 1, deltas: 1 }))
            }
            Verdict::AsIs => self.span(plan, pack, selected, first, written).map(Some),
        }
    }

    /// Takes entries that follow each other and can stay as they are.
    fn span(
        &mut self,
        plan: &PackPlan,
        pack: &Pack,
        selected: &Selected,
        first: Entry,
        written: u64,
    ) -> Result<Step, Error> {
        let mut span = first.start..first.end;
        let (mut objects, mut deltas) = (1, u32::from(first.is_delta()));
        self.add_run(&first, written);
        self.next += 1;
        while span.len() < MAX_SPAN_BYTES {
            let Some(entry) = self.entry(plan, pack, selected, self.next)? else { break };
            if entry.start != span.end {
                break;
            }
            match self.judge(plan, pack, &entry, written + span.len() as u64)? {
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
        Ok(Step { bytes: Bytes::Span(span), objects, deltas })
    }

    fn add_run(&mut self, entry: &Entry, sent_at: u64) {
        let (start, end) = (entry.start as u64, entry.end as u64);
        self.runs.push(Run { start, end, sent_at });
    }

    fn judge(&self, plan: &PackPlan, pack: &Pack, entry: &Entry, sent_at: u64) -> Result<Verdict, Error> {
        let universe = &plan.universe;
        match entry.header.kind {
            EntryKind::Object(_) => Ok(Verdict::AsIs),
            EntryKind::OfsDelta { distance } => {
                let base =
                    (entry.start as u64).checked_sub(distance).filter(|base| *base < entry.start as u64);
                let base =
                    base.ok_or_else(|| damaged(pack, entry.start, "delta base offset is out of bound"))?;
                if let Some(base_sent_at) = self.sent_at(base) {
                    if plan.ofs_delta {
                        let new_distance = sent_at - base_sent_at;
                        if new_distance == distance {
                            return Ok(Verdict::AsIs);
                        }
                        return Ok(entry.with_kind(EntryKind::OfsDelta { distance: new_distance }));
                    }
                    let base = self.base_of_offset(plan, pack, entry, base)?;
                    return Ok(entry.with_kind(EntryKind::RefDelta { base: universe.id(Ix(base.0)) }));
                }
                let base = Ix(self.base_of_offset(plan, pack, entry, base)?.0);
                if self.is_sent_before(plan, base) || plan.had.as_ref().is_some_and(|had| had.contains(base))
                {
                    return Ok(entry.with_kind(EntryKind::RefDelta { base: universe.id(base) }));
                }
                Ok(Verdict::Recompress)
            }
            EntryKind::RefDelta { base } => {
                let Some(base) = universe.find(&base)? else { return Ok(Verdict::Recompress) };
                let usable = self.is_sent_from_here(plan, base)
                    || self.is_sent_before(plan, base)
                    || plan.had.as_ref().is_some_and(|had| had.contains(base));
                Ok(if usable { Verdict::AsIs } else { Verdict::Recompress })
            }
        }
    }

    fn base_of_offset(
        &self,
        plan: &PackPlan,
        pack: &Pack,
        entry: &Entry,
        base: u64,
    ) -> Result<ObjectIx, Error> {
        let base = plan.universe.snapshot().ix_of_offset(self.pack, base);
        base.ok_or_else(|| damaged(pack, entry.start, "delta base is not in the index"))
    }

    /// Where in the response the entry at this offset of the pack begins, if it was sent.
    fn sent_at(&self, offset: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.start <= offset);
        let run = self.runs.get(after.checked_sub(1)?)?;
        (offset < run.end).then(|| run.sent_at + (offset - run.start))
    }

    /// Whether the response takes `base` from this same pack.
    fn is_sent_from_here(&self, plan: &PackPlan, base: Ix) -> bool {
        plan.wanted.contains(base) && self.home(plan, base) == Some(self.pack.0)
    }

    /// Whether the response took `base` from a pack before this one. Only looking back keeps deltas of two packs
    /// from being each other's base.
    fn is_sent_before(&self, plan: &PackPlan, base: Ix) -> bool {
        plan.wanted.contains(base) && self.home(plan, base).is_some_and(|pack| pack < self.pack.0)
    }

    fn home(&self, plan: &PackPlan, ix: Ix) -> Option<u32> {
        plan.universe.packed(ix).map(|ix| plan.universe.snapshot().locate(ix).pack.0)
    }

    /// The `at`-th selected entry.
    fn entry(
        &self,
        plan: &PackPlan,
        pack: &Pack,
        selected: &Selected,
        at: usize,
    ) -> Result<Option<Entry>, Error> {
        let position = match selected {
            Selected::All if at < pack.len() as usize => at as u32,
            Selected::All => return Ok(None),
            Selected::Positions(positions) => match positions.get(at) {
                Some(position) => *position,
                None => return Ok(None),
            },
        };
        let (start, end) = pack.entry_range(position);
        let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let stored = bounds.and_then(|(start, end)| Some((start, end, pack.bytes().get(start..end)?)));
        let Some((start, end, stored)) = stored else {
            return Err(damaged(pack, start as usize, "the entry reaches beyond the end of the pack"));
        };
        let header = pack::parse_entry_header(stored, plan.universe.hash())
            .map_err(|error| damaged(pack, start, error.what))?;
        Ok(Some(Entry { start, end, header }))
    }
}

/// A stored entry.
struct Entry {
    start: usize,
    end: usize,
    header: pack::EntryHeader,
}

impl Entry {
    fn is_delta(&self) -> bool {
        !matches!(self.header.kind, EntryKind::Object(_))
    }

    fn with_kind(&self, kind: EntryKind) -> Verdict {
        let header = EntryHeaderBytes::new(kind, self.header.size);
        Verdict::NewHeader { header, body_at: self.start + self.header.length }
    }
}

fn damaged(pack: &Pack, offset: usize, what: &str) -> Error {
    Reason::DamagedEntry { pack: pack.name().to_string(), offset: offset as u64, what: what.to_owned() }
        .into()
}
