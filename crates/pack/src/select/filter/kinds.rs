//! The kinds of many objects, from type bitmaps or from the headers of their pack entries.

use packrace_format::pack::{self, EntryKind};
use packrace_object::Kind;
use packrace_store::{MAX_CHAIN, ObjectIx, ObjectReader};

use crate::error::Error;
use crate::request_objects::{ObjectNo, RequestObjects};

/// If more than one in this many objects is needed, all kinds are read from the type bitmaps at once.
const WORTH_ALL: u64 = 16;

/// Kinds of objects.
///
/// Delta chains are followed only to the first object of known kind, so the kinds of all objects of a pack,
/// in any order, take one read of each header.
pub(crate) struct Kinds<'a> {
    request_objects: &'a RequestObjects,
    reader: ObjectReader,
    /// By number of a packed object: its kind as a number, or 0 if unknown.
    known: Vec<u8>,
    chain: Vec<u32>,
}

impl<'a> Kinds<'a> {
    /// `asked` estimates how many kinds will be requested.
    pub(crate) fn new(request_objects: &'a RequestObjects, asked: u64) -> Self {
        let mut known = vec![0; request_objects.packed_end() as usize];
        if asked > u64::from(request_objects.packed_end()) / WORTH_ALL {
            fill(request_objects, &mut known);
        }
        // Only headers are read, so the reader needs no cache.
        let reader = request_objects.snapshot().reader(0);
        Kinds { request_objects, reader, known, chain: Vec::new() }
    }

    #[inline]
    pub(crate) fn kind(&mut self, ix: ObjectNo) -> Result<Kind, Error> {
        match self.known.get(ix.0 as usize).copied().and_then(kind_of_number) {
            Some(kind) => Ok(kind),
            None => self.find(ix),
        }
    }

    fn find(&mut self, ix: ObjectNo) -> Result<Kind, Error> {
        self.chain.clear();
        let mut at = ix;
        let kind = loop {
            let Some(packed) = self.request_objects.packed(at) else { break None };
            if let Some(kind) = kind_of_number(self.known[packed.0 as usize]) {
                break Some(kind);
            }
            if self.chain.len() > MAX_CHAIN {
                break None;
            }
            self.chain.push(packed.0);
            match self.step(packed)? {
                KindStep::Is(kind) => break Some(kind),
                KindStep::Base(base) => at = base,
                KindStep::Unclear => break None,
            }
        };
        let kind = match kind {
            Some(kind) => kind,
            // Loose, damaged, or a delta whose base is elsewhere: the reader handles all of these.
            None => self.request_objects.kind(&mut self.reader, ix)?,
        };
        for ix in &self.chain {
            self.known[*ix as usize] = kind as u8;
        }
        Ok(kind)
    }

    fn step(&self, ix: ObjectIx) -> Result<KindStep, Error> {
        let snapshot = self.request_objects.snapshot();
        let at = snapshot.locate(ix);
        let bytes = snapshot.packs()[at.pack.0 as usize].bytes();
        let bytes = usize::try_from(at.offset).ok().and_then(|start| bytes.get(start..));
        let header = bytes.map(|bytes| pack::parse_entry_header(bytes, self.request_objects.hash()));
        let Some(Ok(header)) = header else { return Ok(KindStep::Unclear) };
        let base = match header.kind {
            EntryKind::Object(kind) => return Ok(KindStep::Is(kind)),
            EntryKind::OfsDelta { distance } => {
                let offset = at.offset.checked_sub(distance).filter(|base| *base < at.offset);
                offset.and_then(|offset| snapshot.ix_of_offset(at.pack, offset)).map(|ix| ObjectNo(ix.0))
            }
            EntryKind::RefDelta { base } => self.request_objects.find(&base)?,
        };
        Ok(base.map_or(KindStep::Unclear, KindStep::Base))
    }

    /// The length of the object.
    pub(crate) fn size(&mut self, ix: ObjectNo) -> Result<u64, Error> {
        if let Some(packed) = self.request_objects.packed(ix) {
            return Ok(self.reader.size_at(packed)?);
        }
        let id = self.request_objects.id(ix);
        let found = self.reader.kind_and_size(&id)?;
        let (_, size) = found.ok_or(crate::error::Reason::Missing(id))?;
        Ok(size)
    }
}

enum KindStep {
    Is(Kind),
    Base(ObjectNo),
    /// The header does not say.
    Unclear,
}

/// Reads the type bitmaps, which were checked when opened; if one is unreadable, entries are read instead.
fn fill(request_objects: &RequestObjects, known: &mut [u8]) {
    let Some(bitmap) = request_objects.snapshot().bitmap() else { return };
    for kind in Kind::ALL {
        let Ok(bits) = bitmap.of_kind(kind) else { return known.fill(0) };
        for ix in bits.iter_ones().filter_map(|bit| bitmap.bit_to_ix(bit)) {
            known[ix.0 as usize] = kind as u8;
        }
    }
}

fn kind_of_number(number: u8) -> Option<Kind> {
    Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
}
