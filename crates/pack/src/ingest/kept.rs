//! Short deltas as they were when their entries came, for the second pass: inflating them again would take longer than
//! applying them.

use super::table::EntryNumber;

/// Longer deltas are inflated again.
const MAX_DELTA_BYTES: usize = 4096;

/// Bytes of deltas that are kept, all together.
const MAX_BYTES: usize = 32 << 20;

/// Bytes of deltas that stand together; none crosses the end.
const CHUNK_BYTES: usize = 1 << 20;

/// What stands before each delta: how many bytes it has.
const LENGTH_BYTES: usize = 2;

/// Deltas by their entries.
#[derive(Debug, Default)]
pub(super) struct KeptDeltas {
    /// Of each entry so far the place of its delta plus one; no longer than up to the last that is kept.
    places: Vec<u32>,
    chunks: Vec<Vec<u8>>,
}

impl KeptDeltas {
    /// Keeps a delta, if it is short and there is room; entries come in their order.
    pub(super) fn keep(&mut self, entry: EntryNumber, delta: &[u8]) {
        let needed = LENGTH_BYTES + delta.len();
        if delta.len() > MAX_DELTA_BYTES {
            return;
        }
        let is_full = |chunk: &Vec<u8>| chunk.len() + needed > CHUNK_BYTES;
        if self.chunks.last().is_none_or(is_full) {
            if self.chunks.len() == MAX_BYTES / CHUNK_BYTES {
                return;
            }
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        self.places.resize(entry as usize, 0);
        self.places.push((number * CHUNK_BYTES + chunk.len() + 1) as u32);
        chunk.extend_from_slice(&(delta.len() as u16).to_le_bytes());
        chunk.extend_from_slice(delta);
    }

    /// The delta of an entry, if it was kept.
    pub(super) fn get(&self, entry: EntryNumber) -> Option<&[u8]> {
        let place = self.places.get(entry as usize)?.checked_sub(1)? as usize;
        let rest = self.chunks.get(place / CHUNK_BYTES)?.get(place % CHUNK_BYTES..)?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u16::from_le_bytes(*length).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_short_deltas_until_it_is_full() {
        let mut kept = KeptDeltas::default();
        let delta = |entry: u32| vec![entry as u8; entry as usize % (MAX_DELTA_BYTES + 2)];
        // Every third entry is no delta.
        let entries = (0..30_000).filter(|entry| entry % 3 != 0);
        entries.clone().for_each(|entry| kept.keep(entry, &delta(entry)));
        let mut bytes = 0;
        for entry in entries {
            let expect = delta(entry);
            match kept.get(entry) {
                Some(delta) => assert_eq!(delta, expect),
                None => assert!(expect.len() > MAX_DELTA_BYTES || bytes > MAX_BYTES - (MAX_BYTES >> 6)),
            }
            bytes += kept.get(entry).map_or(0, |delta| delta.len());
            assert_eq!(kept.get(entry / 3 * 3), None);
        }
        assert!(bytes <= MAX_BYTES && kept.chunks.iter().all(|chunk| chunk.capacity() == CHUNK_BYTES));
    }
}
