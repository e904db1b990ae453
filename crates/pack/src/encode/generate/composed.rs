//! Writes a composition entry by entry; adjacent stored entries that stay unchanged become one span.

use std::ops::Range;

use packrace_format::pack::{self, EntryHeaderBytes, EntryKind};
use packrace_format::pack_index;
use packrace_store::PackIx;

use crate::encode::compose::{Composition, DeltaBase, EntryNo, How, StoredSpan};
use crate::error::{Error, Reason};
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

use super::MAX_SPAN_BYTES;
use super::maker::Maker;

/// The offset of a pack's first entry.
const FIRST_OFFSET: u64 = pack::HEADER_BYTES as u64;

/// The next bytes of the pack.
pub(super) struct ComposedPiece {
    /// New bytes; if there are any, the other fields are empty.
    pub(super) owned: Vec<u8>,
    /// A new header for the stored bytes that follow.
    pub(super) header: Option<EntryHeaderBytes>,
    /// Bytes of a stored pack.
    pub(super) mapped: Option<(PackIx, Range<usize>)>,
    pub(super) objects: u32,
    pub(super) deltas: u32,
    pub(super) reused: u32,
    pub(super) reused_deltas: u32,
}

impl ComposedPiece {
    fn len(&self) -> usize {
        let header = self.header.as_ref().map_or(0, |header| header.as_slice().len());
        self.owned.len() + header + self.mapped.as_ref().map_or(0, |(_, range)| range.len())
    }
}

/// Writes the entries of a composition in order.
pub(super) struct Composed {
    composition: Composition,
    next: usize,
    /// The offset of each entry in the new pack, 0 until it is written.
    offsets: Vec<u64>,
    /// The form of the next entry, if it could not extend the last piece.
    held: Option<EntryForm>,
    /// The entries written so far, if the caller wants an index.
    written: Option<Vec<pack_index::Entry>>,
    /// The longest pack, after which another one begins; a longer entry gets its own pack.
    limit: Option<u64>,
    /// Whether the next entry does not fit.
    is_full: bool,
}

/// How one entry is sent.
enum EntryForm {
    /// As stored, including the header.
    AsIs(StoredSpan),
    /// With a new header.
    NewHeader(EntryHeaderBytes, StoredSpan),
    Made(Vec<u8>),
}

impl EntryForm {
    fn len(&self) -> usize {
        match self {
            EntryForm::AsIs(stored) => stored.end - stored.start,
            EntryForm::NewHeader(header, stored) => {
                header.as_slice().len() + stored.end - body(*stored).start
            }
            EntryForm::Made(bytes) => bytes.len(),
        }
    }
}

impl Composed {
    pub(super) fn new(composition: Composition, with_index: bool, limit: Option<u64>) -> Self {
        Composed {
            offsets: vec![0; composition.entries.len()],
            written: with_index.then(|| Vec::with_capacity(composition.entries.len())),
            composition,
            next: 0,
            held: None,
            limit,
            is_full: false,
        }
    }

    /// The entries written since the last call.
    pub(super) fn take_written(&mut self) -> Vec<pack_index::Entry> {
        self.written.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.composition.order.len()
    }

    /// Begins the next pack, whose entries cannot refer to entries written before.
    pub(super) fn begin_part(&mut self) {
        self.is_full = false;
        self.offsets.fill(0);
    }

    /// The next piece of the pack, which begins at offset `at`.
    pub(super) fn next(
        &mut self,
        plan: &PackPlan,
        maker: &mut Maker,
        at: u64,
    ) -> Result<Option<ComposedPiece>, Error> {
        let mut piece = ComposedPiece {
            owned: Vec::new(),
            header: None,
            mapped: None,
            objects: 0,
            deltas: 0,
            reused: 0,
            reused_deltas: 0,
        };
        while let Some(&no) = self.composition.order.get(self.next) {
            let length = piece.len();
            if length >= MAX_SPAN_BYTES || self.is_full {
                break;
            }
            let offset = at + length as u64;
            self.offsets[no.at()] = offset;
            let form = match self.held.take() {
                Some(form) => form,
                None => self.form(plan, maker, no, offset)?,
            };
            if self.limit.is_some_and(|limit| offset + form.len() as u64 > limit) && offset > FIRST_OFFSET {
                // The entry may need another form in the next pack.
                self.is_full = true;
                break;
            }
            match (form, &mut piece.mapped) {
                (EntryForm::AsIs(stored), None) if piece.owned.is_empty() => {
                    self.record(plan, no, offset, &[], Some(stored));
                    piece.mapped = Some((stored.pack, stored.start..stored.end));
                }
                (EntryForm::AsIs(stored), Some((pack, range)))
                    if *pack == stored.pack && range.end == stored.start =>
                {
                    self.record(plan, no, offset, &[], Some(stored));
                    range.end = stored.end;
                }
                (EntryForm::NewHeader(header, stored), None) if piece.owned.is_empty() => {
                    self.record(plan, no, offset, header.as_slice(), Some(body(stored)));
                    piece.header = Some(header);
                    piece.mapped = Some((stored.pack, body(stored).start..stored.end));
                }
                (EntryForm::Made(bytes), None) => {
                    self.record(plan, no, offset, &bytes, None);
                    piece.owned.extend_from_slice(&bytes);
                }
                (form, _) => {
                    self.held = Some(form);
                    break;
                }
            }
            self.count(no, &mut piece);
            self.next += 1;
        }
        Ok((piece.objects > 0).then_some(piece))
    }

    fn count(&mut self, no: EntryNo, piece: &mut ComposedPiece) {
        let how = &self.composition.entries[no.at()].how;
        let (is_delta, is_reused) = (how.base().is_some(), matches!(how, How::Stored | How::StoredDelta(_)));
        piece.objects += 1;
        piece.deltas += u32::from(is_delta);
        piece.reused += u32::from(is_reused);
        piece.reused_deltas += u32::from(is_delta && is_reused);
    }

    fn form(
        &mut self,
        plan: &PackPlan,
        maker: &mut Maker,
        no: EntryNo,
        offset: u64,
    ) -> Result<EntryForm, Error> {
        let entry = &mut self.composition.entries[no.at()];
        if let Some(DeltaBase::Entry(base)) = entry.how.base()
            && self.offsets[base.at()] == 0
        {
            // The base is in an earlier pack.
            entry.how = How::Whole;
        }
        let entry = &self.composition.entries[no.at()];
        let (base, stored) = match (&entry.how, entry.stored) {
            (How::Stored, Some(stored)) => (None, stored),
            (How::StoredDelta(base), Some(stored)) => (Some(*base), stored),
            _ => return self.made(plan, maker, no, offset).map(EntryForm::Made),
        };
        if (self.written.is_some() || plan.checks_entries()) && !is_intact(plan, stored) {
            // The same damage makes the reader look for another copy.
            self.composition.entries[no.at()].how = How::Whole;
            return self.made(plan, maker, no, offset).map(EntryForm::Made);
        }
        let Some(base) = base else { return Ok(EntryForm::AsIs(stored)) };
        let bytes = &plan.request_objects.snapshot().packs()[stored.pack.0 as usize].bytes()
            [stored.start..stored.end];
        let header = pack::parse_entry_header(bytes, plan.request_objects.hash()).map_err(|error| {
            Error::from(Reason::Unreadable { id: plan.request_objects.id(entry.ix), what: error.what })
        })?;
        let kind = self.kind_of_delta(plan, base, offset);
        if kind == header.kind {
            return Ok(EntryForm::AsIs(stored));
        }
        Ok(EntryForm::NewHeader(EntryHeaderBytes::new(kind, header.size), stored))
    }

    fn kind_of_delta(&self, plan: &PackPlan, base: DeltaBase, offset: u64) -> EntryKind {
        match base {
            DeltaBase::Entry(base) if plan.ofs_delta => {
                EntryKind::OfsDelta { distance: offset - self.offsets[base.at()] }
            }
            DeltaBase::Entry(base) => EntryKind::RefDelta { base: plan.request_objects.id(self.ix(base)) },
            DeltaBase::Outside(base) => EntryKind::RefDelta { base: plan.request_objects.id(base) },
        }
    }

    fn ix(&self, no: EntryNo) -> ObjectNo {
        self.composition.entries[no.at()].ix
    }

    /// Makes the bytes of an entry that is not stored in this form.
    fn made(
        &mut self,
        plan: &PackPlan,
        maker: &mut Maker,
        no: EntryNo,
        offset: u64,
    ) -> Result<Vec<u8>, Error> {
        let entry = &mut self.composition.entries[no.at()];
        let ix = entry.ix;
        let How::NewDelta { base, size, deflated } = &mut entry.how else { return maker.whole(plan, ix) };
        let (base, size, deflated) = (*base, *size, deflated.take());
        let mut bytes = Vec::new();
        pack::write_entry_header(self.kind_of_delta(plan, base, offset), size, &mut bytes);
        match (deflated, base) {
            (Some(deflated), _) => bytes.extend_from_slice(&deflated),
            // The search did not keep the delta's bytes.
            (None, DeltaBase::Entry(base)) => maker.delta(plan, ix, self.ix(base), &mut bytes)?,
            (None, DeltaBase::Outside(base)) => maker.delta(plan, ix, base, &mut bytes)?,
        }
        Ok(bytes)
    }

    fn record(
        &mut self,
        plan: &PackPlan,
        no: EntryNo,
        offset: u64,
        owned: &[u8],
        stored: Option<StoredSpan>,
    ) {
        let ix = self.ix(no);
        let Some(written) = &mut self.written else { return };
        let mut crc = crc32fast::Hasher::new();
        crc.update(owned);
        if let Some(stored) = stored {
            let pack = &plan.request_objects.snapshot().packs()[stored.pack.0 as usize];
            crc.update(&pack.bytes()[stored.start..stored.end]);
        }
        written.push(pack_index::Entry { id: plan.request_objects.id(ix), crc32: crc.finalize(), offset });
    }
}

/// The part of a stored entry after its header.
fn body(stored: StoredSpan) -> StoredSpan {
    StoredSpan { start: stored.start + usize::from(stored.header_bytes), ..stored }
}

/// Whether stored bytes match the index's checksum: damage must not spread.
fn is_intact(plan: &PackPlan, stored: StoredSpan) -> bool {
    let pack = &plan.request_objects.snapshot().packs()[stored.pack.0 as usize];
    matches!(pack.check_crc(stored.start as u64), Some(Ok(())))
}
