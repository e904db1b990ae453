use std::collections::HashMap;

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::{ObjectId, oid};

use super::Stop;
use crate::error::Error;
use crate::universe::{Ix, Universe};

/// In place of a bit.
const NO_BIT: u32 = u32::MAX;

/// Which bit stands for which object, and whose bits they are.
#[derive(Debug)]
pub struct BitOrder {
    checksum: ObjectId,
    /// By bit.
    objects: Vec<Ix>,
    /// Positions in the index, by bit.
    positions: Vec<u32>,
    /// By number; [`NO_BIT`] for what is elsewhere.
    packed_bits: Vec<u32>,
    /// The bits of objects outside the packs of the universe.
    extra_bits: HashMap<Ix, u32>,
}

impl BitOrder {
    /// The bits of a pack: its own order.
    pub fn of_pack<D: AsRef<[u8]>, R: AsRef<[u8]>>(
        universe: &Universe,
        index: &PackIndex<D>,
        reverse: &ReverseIndex<R>,
    ) -> Result<Self, Error> {
        assert_eq!(index.len(), reverse.len());
        let positions = (0..index.len()).map(|bit| reverse.index_position_at(bit)).collect();
        BitOrder::new(universe, index.pack_checksum(), |position| index.id_at(position), positions)
    }

    /// The bits of a multi-pack-index; `None` if it does not say their order.
    pub fn of_multi_pack_index<D: AsRef<[u8]>>(
        universe: &Universe,
        index: &MultiPackIndex<D>,
    ) -> Option<Result<Self, Error>> {
        let positions = (0..index.len()).map(|bit| index.position_at_bit(bit)).collect::<Option<Vec<_>>>()?;
        Some(BitOrder::new(universe, index.checksum(), |position| index.id_at(position), positions))
    }

    /// The bits of an index that has the checksum `checksum` (that of its pack, for a pack). `positions` are positions
    /// in the index by bit, each once; `id_at` gives the object at a position. All objects are in `universe`.
    pub fn new<'a>(
        universe: &Universe,
        checksum: ObjectId,
        id_at: impl Fn(u32) -> &'a oid,
        positions: Vec<u32>,
    ) -> Result<Self, Error> {
        // In the order of ids, look-ups find what the one before has brought into the cache.
        let by_position: Vec<Ix> =
            (0..positions.len() as u32).map(|at| universe.require(id_at(at))).collect::<Result<_, _>>()?;
        let objects: Vec<Ix> = positions.iter().map(|position| by_position[*position as usize]).collect();
        let mut packed_bits = vec![NO_BIT; universe.packed_end() as usize];
        let mut extra_bits = HashMap::new();
        for (bit, ix) in (0u32..).zip(&objects) {
            match packed_bits.get_mut(ix.0 as usize) {
                Some(slot) => *slot = bit,
                None => {
                    extra_bits.insert(*ix, bit);
                }
            }
        }
        Ok(BitOrder { checksum, objects, positions, packed_bits, extra_bits })
    }

    pub(super) fn len(&self) -> u32 {
        self.objects.len() as u32
    }

    pub(super) fn checksum(&self) -> &ObjectId {
        &self.checksum
    }

    #[inline]
    pub(super) fn bit_of(&self, ix: Ix) -> Option<u32> {
        match self.packed_bits.get(ix.0 as usize) {
            Some(bit) => (*bit != NO_BIT).then_some(*bit),
            None => self.extra_bits.get(&ix).copied(),
        }
    }

    /// The tree of this name, which must be one of the objects; `None` for the empty tree where it is not stored.
    pub(super) fn find_tree(&self, universe: &Universe, id: &oid) -> Result<Option<Ix>, Stop> {
        match universe.find(id)? {
            Some(ix) if self.bit_of(ix).is_some() => Ok(Some(ix)),
            // Git knows it without having it.
            _ if *id == *universe.hash().empty_tree() => Ok(None),
            _ => Err(Stop::NotClosed(id.to_owned())),
        }
    }

    pub(super) fn object(&self, bit: u32) -> Ix {
        self.objects[bit as usize]
    }

    /// The position in the index.
    pub(super) fn position(&self, bit: u32) -> u32 {
        self.positions[bit as usize]
    }
}
