use std::ops::Range;

use packrace_format::pack::EntryHeaderBytes;
use packrace_store::Mapped;

/// A part of the outgoing pack: new bytes, or a range of a pack on disk.
///
/// ```text
/// plan ── Owned: "PACK" header ── Mapped: 4 MiB of pack A ── Mapped: … ── EntryHeader: new, of a delta
///      ── Mapped: its stored bytes ── Owned: an object deflated anew ── Owned: trailer
/// ```
///
/// A mapped range is not read here (only hashed, if a trailer must be made): it stays a range until the
/// outbox includes it in a gathered write. The clone of the map keeps the file's bytes alive, even after a
/// repack deleted the file.
#[derive(Debug, Clone)]
pub enum Segment {
    /// A range of a mapped pack.
    Mapped(Mapped, Range<usize>),
    /// Bytes that no file has.
    Owned(Vec<u8>),
    /// The new header of an entry; its stored bytes follow as a mapped range.
    EntryHeader(EntryHeaderBytes),
}

impl Segment {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Segment::Mapped(map, range) => &map[range.clone()],
            Segment::Owned(bytes) => bytes,
            Segment::EntryHeader(header) => header.as_slice(),
        }
    }
}
