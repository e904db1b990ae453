//! The table of chunks of a multi-pack-index or commit-graph that cannot be opened: what is wrong with it, in git's
//! words (the format: gitformat-chunk).

use packrace_object::HashKind;

/// id: u32, offset: u64.
const ROW_BYTES: usize = 12;

/// The counts of a fan-out.
pub(crate) const FANOUT_BYTES: usize = 1024;

/// The chunks of a file.
pub(crate) struct ChunkTable<'a> {
    chunks: Vec<(u32, &'a [u8])>,
}

impl<'a> ChunkTable<'a> {
    /// Reads the table of `count` chunks at `at`; `is_aligned` says whether chunks begin at multiples of four.
    pub(crate) fn read(
        bytes: &'a [u8],
        at: usize,
        count: u8,
        hash: HashKind,
        is_aligned: bool,
    ) -> Result<Self, String> {
        let limit = bytes.len().saturating_sub(hash.len_in_bytes()) as u64;
        let row = |number: usize| {
            let at = at + number * ROW_BYTES;
            let [id, high, low] = [at, at + 4, at + 8].map(|at| number_at(bytes, at));
            Some((id?, u64::from(high?) << 32 | u64::from(low?)))
        };
        let cut_off = || "terminating chunk id appears earlier than expected".to_owned();
        let mut chunks: Vec<(u32, &[u8])> = Vec::new();
        for number in 0..usize::from(count) {
            let (id, start) = row(number).filter(|(id, _)| *id != 0).ok_or_else(cut_off)?;
            if is_aligned && start % 4 != 0 {
                return Err(format!("chunk id {id:x} not 4-byte aligned"));
            }
            let (_, end) = row(number + 1).ok_or_else(cut_off)?;
            let range = (end <= limit).then(|| bytes.get(start as usize..end as usize)).flatten();
            let chunk = range.ok_or_else(|| format!("improper chunk offset(s) {start:x} and {end:x}"))?;
            if chunks.iter().any(|(other, _)| *other == id) {
                return Err(format!("duplicate chunk ID {id:x} found"));
            }
            chunks.push((id, chunk));
        }
        match row(usize::from(count)) {
            Some((0, _)) => Ok(ChunkTable { chunks }),
            Some((id, _)) => Err(format!("final chunk has non-zero id {id:x}")),
            None => Err(cut_off()),
        }
    }

    pub(crate) fn find(&self, id: &[u8; 4]) -> Option<&'a [u8]> {
        let id = u32::from_be_bytes(*id);
        self.chunks.iter().find(|(other, _)| *other == id).map(|(_, chunk)| *chunk)
    }
}

/// The first byte whose count is below that of the byte before it, and both counts.
pub(crate) fn fanout_out_of_order(fanout: &[u8]) -> Option<(usize, u32, u32)> {
    let count = |byte: usize| number_at(fanout, byte * 4).unwrap_or(0);
    (1..256).map(|byte| (byte, count(byte - 1), count(byte))).find(|(_, before, here)| before > here)
}

/// The number at a place, if it ends within the bytes.
pub fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}
