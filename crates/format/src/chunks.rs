//! The table of chunks in multi-pack-indexes and commit-graphs (gitformat-chunk).
//!
//! ```text
//! header
//! (chunk id: 4 bytes, offset in the file: u64) × chunks
//! zero: 4 bytes, end of the last chunk: u64
//! chunks, in the order of the table
//! checksum of all of the above
//! ```

use std::ops::Range;

use packrace_object::HashKind;

use crate::{Error, be, checksum};

const ENTRY_BYTES: usize = 12;

/// The ranges of a file's chunks; every range is within the file and before its checksum.
pub(crate) struct Chunks {
    format: &'static str,
    /// At most 255, as the count is one byte.
    entries: Vec<([u8; 4], Range<usize>)>,
}

impl Chunks {
    /// Reads the table of `count` chunks at `at`. Offsets must not decrease, and the last chunk must end
    /// before the checksum, so that truncation is detected. Bytes between the two are wrong only for the checksum.
    pub(crate) fn parse(
        format: &'static str,
        bytes: &[u8],
        at: usize,
        count: u8,
        hash: HashKind,
    ) -> Result<Self, Error> {
        let table_end = at + (usize::from(count) + 1) * ENTRY_BYTES;
        let chunks_end = bytes
            .len()
            .checked_sub(hash.len_in_bytes())
            .filter(|end| table_end <= *end)
            .ok_or_else(|| Error::new(format, "table of chunks is cut off", bytes.len() as u64))?;
        let table: Vec<([u8; 4], u64)> = bytes[at..table_end]
            .chunks_exact(ENTRY_BYTES)
            .map(|entry| ([entry[0], entry[1], entry[2], entry[3]], be::u64_at(entry, 4)))
            .collect();
        let mut entries = Vec::with_capacity(usize::from(count));
        for (i, pair) in table.windows(2).enumerate() {
            let [(id, start), (_, end)] = [pair[0], pair[1]];
            let error = |what| Error::new(format, what, (at + i * ENTRY_BYTES) as u64);
            if start < table_end as u64 || start > end || end > chunks_end as u64 {
                return Err(error("chunk is not within the file"));
            }
            if id == [0; 4] || entries.iter().any(|(other, _)| *other == id) {
                return Err(error("chunk id is used twice"));
            }
            entries.push((id, start as usize..end as usize));
        }
        let (id, end) = table[usize::from(count)];
        if id != [0; 4] || end > chunks_end as u64 {
            let what = "table of chunks has no end";
            return Err(Error::new(format, what, (table_end - ENTRY_BYTES) as u64));
        }
        Ok(Chunks { format, entries })
    }

    pub(crate) fn find(&self, id: &[u8; 4]) -> Option<Range<usize>> {
        self.entries.iter().find(|(found, _)| found == id).map(|(_, range)| range.clone())
    }

    pub(crate) fn require(&self, id: &[u8; 4]) -> Result<Range<usize>, Error> {
        self.find(id).ok_or_else(|| Error::new(self.format, "a required chunk is missing", 0))
    }

    /// The offset of a required chunk, which must have `count` rows of `row_bytes`.
    pub(crate) fn require_rows(&self, id: &[u8; 4], count: u32, row_bytes: usize) -> Result<usize, Error> {
        self.rows(self.require(id)?, count, row_bytes)
    }

    /// Like [`Self::require_rows`], but for an optional chunk.
    pub(crate) fn find_rows(
        &self,
        id: &[u8; 4],
        count: u32,
        row_bytes: usize,
    ) -> Result<Option<usize>, Error> {
        self.find(id).map(|range| self.rows(range, count, row_bytes)).transpose()
    }

    /// The offset of a chunk and its number of whole rows; both are 0 if it is missing. As in git, bytes of an
    /// incomplete row do not count.
    pub(crate) fn table(&self, id: &[u8; 4], row_bytes: usize) -> Result<(usize, u32), Error> {
        let range = self.find(id).unwrap_or(0..0);
        let rows = u32::try_from(range.len() / row_bytes).map_err(|_| self.wrong_size(&range))?;
        Ok((range.start, rows))
    }

    fn rows(&self, range: Range<usize>, count: u32, row_bytes: usize) -> Result<usize, Error> {
        if range.len() as u64 == u64::from(count) * row_bytes as u64 {
            Ok(range.start)
        } else {
            Err(self.wrong_size(&range))
        }
    }

    fn wrong_size(&self, range: &Range<usize>) -> Error {
        Error::new(self.format, "chunk has the wrong size", range.start as u64)
    }
}

/// Writes a file of chunks: header, table, chunks and checksum.
pub(crate) struct ChunkWriter {
    header: Vec<u8>,
    chunks: Vec<([u8; 4], Vec<u8>)>,
}

impl ChunkWriter {
    /// Starts a file with `header`, which must already contain the number of chunks.
    pub(crate) fn new(header: Vec<u8>) -> Self {
        ChunkWriter { header, chunks: Vec::new() }
    }

    /// Appends a chunk.
    pub(crate) fn add(&mut self, id: &[u8; 4], bytes: Vec<u8>) {
        self.chunks.push((*id, bytes));
    }

    /// The whole file.
    pub(crate) fn finish(self, hash: HashKind) -> Vec<u8> {
        let table_bytes = (self.chunks.len() + 1) * ENTRY_BYTES;
        let chunk_bytes: usize = self.chunks.iter().map(|(_, bytes)| bytes.len()).sum();
        let start = self.header.len() + table_bytes;
        let mut file = self.header;
        file.reserve_exact(table_bytes + chunk_bytes + hash.len_in_bytes());
        let mut at = start as u64;
        for (id, bytes) in &self.chunks {
            file.extend_from_slice(id);
            file.extend_from_slice(&at.to_be_bytes());
            at += bytes.len() as u64;
        }
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&at.to_be_bytes());
        for (_, bytes) in &self.chunks {
            file.extend_from_slice(bytes);
        }
        checksum::append(&mut file, hash);
        file
    }
}
