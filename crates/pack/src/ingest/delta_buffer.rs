//! Keeps short deltas inflated for the second pass: inflating them again would take longer than applying
//! them.

use super::table::EntryNumber;

/// Longer deltas are inflated again.
const MAX_DELTA_BYTES: usize = u16::MAX as usize;

/// A delta may take this many times its fair share of the remaining room: inflating many short deltas again
/// takes longer than a few long ones.
const FAIR_SHARES: usize = 8;

/// The most bytes of deltas in the buffer.
const MAX_BYTES: usize = 32 << 20;

/// The size of a chunk of deltas; no delta crosses its end.
const CHUNK_BYTES: usize = 1 << 20;

/// The bytes of each delta's length prefix.
const LENGTH_BYTES: usize = 2;

/// Deltas by their entries.
#[derive(Debug, Default)]
pub(super) struct DeltaBuffer {
    /// The number of entries that the pack announces.
    announced: u32,
    /// For each entry, the position of its delta plus one, or 0; ends with the last kept delta.
    positions: Vec<u32>,
    chunks: Vec<Vec<u8>>,
}

impl DeltaBuffer {
    /// An empty buffer for a pack that announces this many entries.
    pub(super) fn new(announced: u32) -> Self {
        DeltaBuffer { announced, ..DeltaBuffer::default() }
    }

    /// Keeps a delta if it is short for the remaining room; entries arrive roughly in order.
    pub(super) fn keep(&mut self, entry: EntryNumber, delta: &[u8]) {
        let needed = LENGTH_BYTES + delta.len();
        let to_come = self.announced.saturating_sub(entry).max(1);
        let fair = self.room() / to_come as usize;
        if delta.len() > MAX_DELTA_BYTES || needed > fair * FAIR_SHARES {
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
        if self.positions.len() <= entry as usize {
            self.positions.resize(entry as usize + 1, 0);
        }
        self.positions[entry as usize] = (number * CHUNK_BYTES + chunk.len() + 1) as u32;
        chunk.extend_from_slice(&(delta.len() as u16).to_le_bytes());
        chunk.extend_from_slice(delta);
    }

    fn room(&self) -> usize {
        let of_last = self.chunks.last().map_or(0, |chunk| CHUNK_BYTES - chunk.len());
        MAX_BYTES - self.chunks.len() * CHUNK_BYTES + of_last
    }

    /// The delta of an entry, if kept.
    pub(super) fn get(&self, entry: EntryNumber) -> Option<&[u8]> {
        let position = self.positions.get(entry as usize)?.checked_sub(1)? as usize;
        let rest = self.chunks.get(position / CHUNK_BYTES)?.get(position % CHUNK_BYTES..)?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u16::from_le_bytes(*length).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps deltas of these lengths; every third entry is not a delta. Returns the number of deltas and the
    /// lengths of those kept.
    fn check(entries: u32, length_of: impl Fn(u32) -> usize) -> (usize, Vec<usize>) {
        let mut kept = DeltaBuffer::new(entries);
        let delta = |entry: u32| vec![entry as u8; length_of(entry)];
        let deltas = || (0..entries).filter(|entry| entry % 3 != 0);
        for start in (0..entries).step_by(100) {
            let these = || (start..entries.min(start + 100)).filter(|entry| entry % 3 != 0);
            // Some arrive a little later.
            these().filter(|entry| entry % 4 != 0).for_each(|entry| kept.keep(entry, &delta(entry)));
            these().filter(|entry| entry % 4 == 0).for_each(|entry| kept.keep(entry, &delta(entry)));
        }
        let found: Vec<_> = deltas().filter_map(|entry| Some((entry, kept.get(entry)?))).collect();
        found.iter().for_each(|(entry, found)| assert_eq!(*found, delta(*entry)));
        assert!((0..entries).step_by(3).all(|entry| kept.get(entry).is_none()));
        assert!(kept.chunks.iter().all(|chunk| chunk.capacity() == CHUNK_BYTES));
        (deltas().count(), found.iter().map(|(_, delta)| delta.len()).collect())
    }

    #[test]
    fn keeps_everything_where_there_is_room() {
        for length in [0, 1, 5000, MAX_DELTA_BYTES] {
            assert_eq!(check(30, |_| length), (20, vec![length; 20]));
        }
        assert_eq!(check(30, |_| MAX_DELTA_BYTES + 1), (20, vec![]));
    }

    #[test]
    fn keeps_what_is_short_for_the_room_there_is() {
        let (_, kept) = check(20_000, |entry| if entry % 2 == 0 { 100 } else { 10_000 });
        let short = kept.iter().filter(|length| **length == 100).count();
        assert!(short > 6600, "{short} of 6666");
        let bytes = kept.iter().sum::<usize>();
        assert!((MAX_BYTES / 2..=MAX_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn keeps_no_more_than_it_may() {
        let (count, kept) = check(200_000, |_| 400);
        let bytes = kept.iter().sum::<usize>();
        assert!(kept.len() < count && (MAX_BYTES - (MAX_BYTES >> 4)..=MAX_BYTES).contains(&bytes), "{bytes}");
    }
}
