use std::collections::HashMap;

use packrace_format::multi_pack_index::MultiPackIndexChain;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::{ObjectId, oid};

use super::NoBitmap;
use crate::error::Error;
use crate::request_objects::{ObjectNo, RequestObjects};

/// The object has no bit.
const NO_BIT: u32 = u32::MAX;

/// Which bit stands for which object, and the checksum of the file that the bits belong to.
#[derive(Debug)]
pub struct BitOrder {
    checksum: ObjectId,
    /// By bit.
    objects: Vec<ObjectNo>,
    /// Positions in the index, by bit.
    positions: Vec<u32>,
    /// By number; [`NO_BIT`] for objects outside the pack.
    packed_bits: Vec<u32>,
    /// The bits of objects outside the packs of the request's objects.
    extra_bits: HashMap<ObjectNo, u32>,
    /// The first bit of the file's own objects; those before are in lower files of a chain.
    first_own: u32,
}

impl BitOrder {
    /// The bits of a pack: pack order.
    pub fn of_pack<D: AsRef<[u8]>, R: AsRef<[u8]>>(
        request_objects: &RequestObjects,
        index: &PackIndex<D>,
        reverse: &ReverseIndex<R>,
    ) -> Result<Self, Error> {
        assert_eq!(index.len(), reverse.len());
        let positions = (0..index.len()).map(|bit| reverse.index_position_at(bit)).collect();
        BitOrder::new(request_objects, index.pack_checksum(), |position| index.id_at(position), positions)
    }

    /// The bits of a multi-pack-index, the topmost of a chain; `None` if their order is not stored.
    pub fn of_multi_pack_index<D: AsRef<[u8]>>(
        request_objects: &RequestObjects,
        chain: &MultiPackIndexChain<D>,
    ) -> Option<Result<Self, Error>> {
        let positions = (0..chain.len()).map(|bit| chain.position_at_bit(bit)).collect::<Option<Vec<_>>>()?;
        let top = chain.layers().len().checked_sub(1)?;
        let checksum = chain.layers()[top].checksum();
        let order = BitOrder::new(request_objects, checksum, |position| chain.id_at(position), positions);
        Some(order.map(|order| BitOrder { first_own: chain.range_of_layer(top).start, ..order }))
    }

    /// The bits of an index with this checksum (the pack's, for a pack). `positions` are positions in the
    /// index by bit, each once; `id_at` returns the object at a position. All objects are in
    /// `request_objects`.
    pub fn new<'a>(
        request_objects: &RequestObjects,
        checksum: ObjectId,
        id_at: impl Fn(u32) -> &'a oid,
        positions: Vec<u32>,
    ) -> Result<Self, Error> {
        // Consecutive ids are neighbours in the index, so each look-up finds data that the previous one
        // brought into the cache.
        let by_position: Vec<ObjectNo> = (0..positions.len() as u32)
            .map(|at| request_objects.require(id_at(at)))
            .collect::<Result<_, _>>()?;
        let objects: Vec<ObjectNo> =
            positions.iter().map(|position| by_position[*position as usize]).collect();
        let mut packed_bits = vec![NO_BIT; request_objects.packed_end() as usize];
        let mut extra_bits = HashMap::new();
        for (bit, ix) in (0u32..).zip(&objects) {
            match packed_bits.get_mut(ix.0 as usize) {
                Some(slot) => *slot = bit,
                None => {
                    extra_bits.insert(*ix, bit);
                }
            }
        }
        Ok(BitOrder { checksum, objects, positions, packed_bits, extra_bits, first_own: 0 })
    }

    pub(super) fn len(&self) -> u32 {
        self.objects.len() as u32
    }

    /// The first bit of the file's own objects.
    pub(super) fn first_own(&self) -> u32 {
        self.first_own
    }

    pub(super) fn checksum(&self) -> &ObjectId {
        &self.checksum
    }

    #[inline]
    pub(super) fn bit_of(&self, ix: ObjectNo) -> Option<u32> {
        match self.packed_bits.get(ix.0 as usize) {
            Some(bit) => (*bit != NO_BIT).then_some(*bit),
            None => self.extra_bits.get(&ix).copied(),
        }
    }

    /// The tree with this id, which must be one of the objects; `None` for an empty tree that is not stored.
    pub(super) fn find_tree(
        &self,
        request_objects: &RequestObjects,
        id: &oid,
    ) -> Result<Option<ObjectNo>, NoBitmap> {
        match request_objects.find(id)? {
            Some(ix) if self.bit_of(ix).is_some() => Ok(Some(ix)),
            // Git knows the empty tree without storing it.
            _ if *id == *request_objects.hash().empty_tree() => Ok(None),
            _ => Err(NoBitmap::NotClosed(id.to_owned())),
        }
    }

    pub(super) fn object(&self, bit: u32) -> ObjectNo {
        self.objects[bit as usize]
    }

    /// The position in the index.
    pub(super) fn position(&self, bit: u32) -> u32 {
        self.positions[bit as usize]
    }
}
