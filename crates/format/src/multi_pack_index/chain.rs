//! A chain of multi-pack-indexes, each with the packs and objects that those below it lack (git's technical
//! documentation, "Incremental multi-pack indexes").
//!
//! ```text
//! pack/multi-pack-index.d/multi-pack-index-chain        checksums of the files in hex, one a line, lowest first
//! pack/multi-pack-index.d/multi-pack-index-<checksum>.midx
//! pack/multi-pack-index.d/multi-pack-index-<checksum>.bitmap
//! ```
//!
//! Positions, numbers of packs and bits count through the chain from its lowest file.

use std::ops::Range;

use packrace_object::{HashKind, ObjectId, oid};

use super::{FORMAT, MultiPackIndex};
use crate::Error;

/// Multi-pack-indexes on top of each other; mostly there is only one. Positions, packs and bits are numbered
/// as if the files were one; ids are sorted only within each file.
#[derive(Debug, Clone)]
pub struct MultiPackIndexChain<D> {
    layers: Vec<MultiPackIndex<D>>,
    /// The first position of each layer, and the number of objects.
    starts: Vec<u32>,
    /// The first pack of each layer, and the number of packs.
    pack_starts: Vec<u32>,
}

impl<D> From<MultiPackIndex<D>> for MultiPackIndexChain<D> {
    /// A chain of one file.
    fn from(index: MultiPackIndex<D>) -> Self {
        let (starts, pack_starts) = (vec![0, index.ids.len()], vec![0, index.pack_names.len() as u32]);
        MultiPackIndexChain { layers: vec![index], starts, pack_starts }
    }
}

impl<D: AsRef<[u8]>> MultiPackIndexChain<D> {
    /// A chain without files.
    pub fn empty() -> Self {
        MultiPackIndexChain { layers: Vec::new(), starts: vec![0], pack_starts: vec![0] }
    }

    /// Opens the file of this checksum, and puts it on top. Compares the checksum, but does not hash the file.
    pub fn push(&mut self, data: D, checksum: &oid) -> Result<(), Error> {
        let layer = MultiPackIndex::open_layer(data, checksum.kind(), self.len())?;
        if *layer.checksum() != *checksum {
            return Err(Error::new(
                FORMAT,
                "the file has another checksum",
                layer.data().as_ref().len() as u64,
            ));
        }
        let packs = self.pack_count().checked_add(layer.pack_count());
        let packs = packs.ok_or_else(|| Error::new(FORMAT, "more than 4294967295 packs", 8))?;
        self.starts.push(self.len() + layer.len());
        self.pack_starts.push(packs);
        self.layers.push(layer);
        Ok(())
    }

    /// Removes all files but the lowest `count`.
    pub fn truncate(&mut self, count: usize) {
        self.layers.truncate(count);
        self.starts.truncate(self.layers.len() + 1);
        self.pack_starts.truncate(self.layers.len() + 1);
    }

    /// The files, lowest first. Their own positions, packs and bits begin at 0.
    pub fn layers(&self) -> &[MultiPackIndex<D>] {
        &self.layers
    }

    /// The positions of a layer's objects, which are also its bits.
    pub fn range_of_layer(&self, layer: usize) -> Range<u32> {
        self.starts[layer]..self.starts[layer + 1]
    }

    /// The number of objects.
    #[inline]
    pub fn len(&self) -> u32 {
        self.starts[self.layers.len()]
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of packs.
    pub fn pack_count(&self) -> u32 {
        self.pack_starts[self.layers.len()]
    }

    /// As [`MultiPackIndex::pack_names`].
    pub fn pack_names(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().flat_map(MultiPackIndex::pack_names)
    }

    /// As [`MultiPackIndex::pack_stems`].
    pub fn pack_stems(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().flat_map(MultiPackIndex::pack_stems)
    }

    /// The position of an object, if one of the packs has it. Searches one file after the other.
    #[inline]
    pub fn position_of(&self, id: &oid) -> Option<u32> {
        match self.layers.as_slice() {
            [only] => only.position_of(id),
            layers => layers
                .iter()
                .zip(&self.starts)
                .find_map(|(layer, start)| Some(start + layer.position_of(id)?)),
        }
    }

    /// The positions of all objects whose ids begin with the first `hex_len` hex digits of `prefix`.
    pub fn positions_of_prefix(&self, prefix: &oid, hex_len: usize) -> impl Iterator<Item = u32> {
        self.layers.iter().zip(&self.starts).flat_map(move |(layer, start)| {
            layer.range_of_prefix(prefix, hex_len).map(move |position| start + position)
        })
    }

    /// The id of an object.
    #[inline]
    pub fn id_at(&self, position: u32) -> &oid {
        let (layer, position) = self.in_layer(position);
        self.layers[layer].id_at(position)
    }

    /// As [`MultiPackIndex::pack_and_offset_at`].
    #[inline]
    pub fn pack_and_offset_at(&self, position: u32) -> Option<(u32, u64)> {
        let (layer, position) = self.in_layer(position);
        let (pack, offset) = self.layers[layer].pack_and_offset_at(position)?;
        Some((self.pack_starts[layer] + pack, offset))
    }

    /// As [`MultiPackIndex::position_at_bit`].
    #[inline]
    pub fn position_at_bit(&self, bit: u32) -> Option<u32> {
        let (layer, bit) = self.in_layer(bit);
        Some(self.starts[layer] + self.layers[layer].position_at_bit(bit)?)
    }

    /// As [`MultiPackIndex::bit_of_position`].
    pub fn bit_of_position(&self, position: u32) -> Option<u32> {
        let (layer, position) = self.in_layer(position);
        Some(self.starts[layer] + self.layers[layer].bit_of_position(position)?)
    }

    /// The layer of a position or bit of the chain, and its position or bit there.
    #[inline]
    fn in_layer(&self, number: u32) -> (usize, u32) {
        if self.layers.len() == 1 {
            return (0, number);
        }
        assert!(number < self.len(), "{number} of {} objects", self.len());
        let layer = self.starts.partition_point(|start| *start <= number) - 1;
        (layer, number - self.starts[layer])
    }
}

/// The checksums that a chain file names, lowest first; `None` if a line is none.
pub fn parse_chain_file(text: &[u8], hash: HashKind) -> Option<Vec<ObjectId>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| ObjectId::from_hex(line).ok().filter(|id| id.kind() == hash)).collect()
}

/// The content of a chain file.
pub fn chain_file(checksums: &[ObjectId]) -> Vec<u8> {
    checksums.iter().flat_map(|checksum| format!("{checksum}\n").into_bytes()).collect()
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
