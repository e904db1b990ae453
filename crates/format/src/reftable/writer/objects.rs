//! The blocks with refs to each object; see `reftable/objects.rs` for the layout of the records.

use packrace_object::ObjectId;

use super::super::block::shared;
use super::super::layout::MIN_ID_BYTES;
use super::put_varint;

/// Ids of ref targets, each with the position of a block.
#[derive(Debug, Default)]
pub(super) struct ObjectPlaces {
    positions: Vec<(ObjectId, u64)>,
}

impl ObjectPlaces {
    #[inline]
    pub(super) fn add(&mut self, id: ObjectId, block_at: u64) {
        // Adjacent refs often point at the same object.
        if self.positions.last() != Some(&(id, block_at)) {
            self.positions.push((id, block_at));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Sorts the ids; returns the length to which they can be abbreviated and still differ.
    pub(super) fn sort(&mut self) -> usize {
        self.positions.sort_unstable();
        self.positions.dedup();
        let neighbours = self.positions.windows(2).filter(|pair| pair[0].0 != pair[1].0);
        let same = neighbours.map(|pair| shared(pair[0].0.as_slice(), pair[1].0.as_slice())).max();
        same.map_or(0, |same| same + 1).max(MIN_ID_BYTES)
    }

    /// Each id with the positions of its blocks.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&ObjectId, &[(ObjectId, u64)])> {
        self.positions.chunk_by(|left, right| left.0 == right.0).map(|group| (&group[0].0, group))
    }
}

pub(super) fn put_blocks(out: &mut Vec<u8>, blocks: &[(ObjectId, u64)]) {
    if blocks.len() >= 8 {
        put_varint(out, blocks.len() as u64);
    }
    let mut last = 0;
    for (_, block_at) in blocks {
        put_varint(out, block_at - last);
        last = *block_at;
    }
}
