//! Makes multi-pack-indexes of version 1, which every git reads, and of version 2 where packs are not sorted by
//! name; the parent module has the layout.

use packrace_object::{HashKind, oid};

use super::{HEADER_BYTES, LARGE, MultiPackIndex, SIGNATURE};
use crate::checksum;
use crate::chunks::ChunkWriter;
use crate::id_table::{FANOUT_BYTES, write_counts};
use crate::pack_index::PackIndex;

/// A pack that the multi-pack-index covers.
#[derive(Debug)]
pub struct SourcePack<'a, D> {
    /// The name of its index, without a directory: `pack-….idx`; all names differ.
    pub name: &'a str,
    /// The index.
    pub index: &'a PackIndex<D>,
    /// When the pack was last changed, in seconds since 1970: readers get the newest copy of an object.
    pub modified_seconds: i64,
}

/// Options for writing a multi-pack-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// The number of the pack, in the given order, whose copies win if there are several.
    pub preferred: Option<usize>,
    /// Whether to write the order of bits (RIDX, BTMP), which bitmaps need. The preferred pack comes first in
    /// it, or else the oldest pack that has an object.
    pub bit_order: bool,
}

/// The files below a new one of a chain.
#[derive(Clone, Copy)]
pub struct Base<'a> {
    /// The number of their objects.
    pub objects: u32,
    /// Whether they have an object.
    pub has: &'a dyn Fn(&oid) -> bool,
}

impl Base<'static> {
    /// No file.
    pub const NONE: Base<'static> = Base { objects: 0, has: &|_| false };
}

/// Why packs don't make a multi-pack-index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MidxWriteError {
    /// The preferred pack has no objects, and so no bit.
    #[error("cannot select preferred pack {0} with no objects")]
    EmptyPreferredPack(String),
    /// Positions and pack numbers have 32 bits.
    #[error("too many objects for a multi-pack-index")]
    TooManyObjects,
    /// Rows of large offsets have 31 bits.
    #[error("more than 2147483648 objects have a large offset")]
    TooManyLargeOffsets,
    /// The index gives an offset outside its table, so it is damaged.
    #[error("{0} has an offset that is not in its table")]
    DamagedIndex(String),
    /// A file of a chain has another checksum, or names a missing pack or offset, so it is damaged.
    #[error("multi-pack-index {0} is damaged")]
    DamagedLayer(String),
}

/// The chosen copy of an object.
#[derive(Debug, Clone, Copy)]
struct ChosenCopy {
    pack: u32,
    offset: u64,
}

/// The objects of all packs, each once, sorted by id.
struct Merged {
    ids: Vec<u8>,
    fanout: Vec<u8>,
    copies: Vec<ChosenCopy>,
}

/// Makes the file, of the objects that `base` lacks. Of several copies of an object, the preferred pack's wins,
/// then the newest pack's; packs of the same second are taken in the order of their names. Above others of a
/// chain, no pack comes first in the order of bits for being preferred. Takes twice the memory of the file, and
/// 20 bytes per object.
///
/// `previous` is a file to go on from: of the packs that it covers, only the copies that it has chosen count, after those
/// of other packs, and those of the preferred pack; their indexes are not read. It must be whole ([`MultiPackIndex::verify_checksum`])
/// and is ignored if a pack that it reads from is not among `packs`.
///
/// Every index must use the hash `hash`.
pub fn write<D: AsRef<[u8]>>(
    packs: &[SourcePack<'_, D>],
    hash: HashKind,
    base: Base<'_>,
    previous: Option<&MultiPackIndex<D>>,
    options: WriteOptions,
) -> Result<Vec<u8>, MidxWriteError> {
    assert!(packs.iter().all(|pack| pack.index.hash_kind() == hash), "an index of another hash");
    let preferred_name = preferred(packs, options)?.map(|at| packs[at].name);
    let mut sorted: Vec<&SourcePack<'_, D>> = packs.iter().collect();
    sorted.sort_by_key(|pack| pack.name);
    assert!(sorted.windows(2).all(|pair| pair[0].name < pair[1].name), "two packs of one name");
    let preferred = preferred_name.and_then(|name| sorted.iter().position(|pack| pack.name == name));
    let previous = previous.and_then(|index| Previous::new(index, &sorted));
    let merged = merge(&sorted, hash, base, previous.as_ref(), preferred)?;
    let names: Vec<&str> = sorted.iter().map(|pack| pack.name).collect();
    let first = preferred.filter(|_| base.objects == 0).map(|pack| pack as u32);
    file(&names, merged, hash, options.bit_order.then_some(BitChunks { base: base.objects, first }))
}

/// Bits of a file made of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactedBits {
    /// No order of bits.
    No,
    /// In the order of the packs' names: the file is of version 1.
    ByName,
    /// Every object keeps its bit, so that bitmaps of files above remain right. Git before 2.54 cannot read the file
    /// if its packs are then not sorted by name.
    Kept,
}

/// Makes one file of adjacent files of a chain, above `base` objects.
pub fn compact<D: AsRef<[u8]>>(
    layers: &[MultiPackIndex<D>],
    hash: HashKind,
    base: u32,
    bits: CompactedBits,
) -> Result<Vec<u8>, MidxWriteError> {
    // By number in the new file: name, layer, number there.
    let mut packs: Vec<(&str, usize, u32)> = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let names: Vec<&str> = layer.pack_names().collect();
        packs.extend(packs_by_bits(layer).into_iter().map(|pack| (names[pack as usize], at, pack)));
    }
    if bits != CompactedBits::Kept {
        packs.sort_unstable();
    }
    let mut numbers: Vec<Vec<u32>> =
        layers.iter().map(|layer| vec![0; layer.pack_count() as usize]).collect();
    for (number, (_, at, pack)) in (0u32..).zip(&packs) {
        numbers[*at][*pack as usize] = number;
    }
    let mut objects: Vec<(&oid, ChosenCopy)> = Vec::new();
    for (layer, numbers) in layers.iter().zip(&numbers) {
        for position in 0..layer.len() {
            let place = layer.pack_and_offset_at(position);
            let (pack, offset) =
                place.ok_or_else(|| MidxWriteError::DamagedLayer(layer.checksum().to_string()))?;
            objects.push((layer.id_at(position), ChosenCopy { pack: numbers[pack as usize], offset }));
        }
    }
    objects.sort_unstable_by_key(|(id, _)| *id);
    let mut counts = [0u32; 256];
    let mut merged = Merged {
        ids: Vec::with_capacity(objects.len() * hash.len_in_bytes()),
        fanout: Vec::with_capacity(FANOUT_BYTES),
        copies: Vec::with_capacity(objects.len()),
    };
    for (id, copy) in objects {
        counts[usize::from(id.first_byte())] += 1;
        merged.ids.extend_from_slice(id.as_bytes());
        merged.copies.push(copy);
    }
    write_counts(&mut merged.fanout, &counts);
    let names: Vec<&str> = packs.into_iter().map(|(name, _, _)| name).collect();
    file(&names, merged, hash, (bits != CompactedBits::No).then_some(BitChunks { base, first: None }))
}

/// The numbers of all packs of a file in the order of their bits; the preferred pack comes first.
fn packs_by_bits<D: AsRef<[u8]>>(layer: &MultiPackIndex<D>) -> Vec<u32> {
    let preferred = layer.preferred_pack();
    let mut packs: Vec<u32> = (0..layer.pack_count()).collect();
    packs.sort_by_key(|pack| (preferred.is_some_and(|preferred| *pack != preferred), *pack));
    packs
}

/// How bits are numbered: from `base` on, pack `first` before the others.
struct BitChunks {
    base: u32,
    first: Option<u32>,
}

fn file(
    names: &[&str],
    merged: Merged,
    hash: HashKind,
    bits: Option<BitChunks>,
) -> Result<Vec<u8>, MidxWriteError> {
    let needs_large = merged.copies.iter().any(|copy| copy.offset > u64::from(u32::MAX));
    let (offsets, large) = offset_chunks(&merged.copies, needs_large)?;
    let mut chunks = vec![
        (b"PNAM", names_chunk(names)),
        (b"OIDF", merged.fanout),
        (b"OIDL", merged.ids),
        (b"OOFF", offsets),
    ];
    if needs_large {
        chunks.push((b"LOFF", large));
    }
    if let Some(bits) = bits {
        let (order, ranges) = bit_chunks(&merged.copies, &bits, names.len())?;
        chunks.extend([(b"RIDX", order), (b"BTMP", ranges)]);
    }

    let version = if names.is_sorted() { 1 } else { 2 };
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(SIGNATURE);
    header.extend_from_slice(&[version, checksum::hash_number(hash), chunks.len() as u8, 0]);
    let pack_count = u32::try_from(names.len()).map_err(|_| MidxWriteError::TooManyObjects)?;
    header.extend_from_slice(&pack_count.to_be_bytes());
    let mut writer = ChunkWriter::new(header);
    chunks.into_iter().for_each(|(id, bytes)| writer.add(id, bytes));
    Ok(writer.finish(hash))
}

/// The number of the preferred pack among `packs`.
fn preferred<D: AsRef<[u8]>>(
    packs: &[SourcePack<'_, D>],
    options: WriteOptions,
) -> Result<Option<usize>, MidxWriteError> {
    match options.preferred {
        Some(at) if packs[at].index.is_empty() => {
            Err(MidxWriteError::EmptyPreferredPack(packs[at].name.to_owned()))
        }
        Some(at) => Ok(Some(at)),
        None if !options.bit_order => Ok(None),
        None => {
            let with_objects = (0..packs.len()).filter(|at| !packs[*at].index.is_empty());
            Ok(with_objects.min_by_key(|at| (packs[*at].modified_seconds, packs[*at].name)))
        }
    }
}

/// A file to go on from.
struct Previous<'a, D> {
    index: &'a MultiPackIndex<D>,
    /// For each of its packs, the number among the packs of the new file; none is read from without one.
    numbers: Vec<Option<u32>>,
    /// Which packs of the new file it covers.
    covers: Vec<bool>,
}

impl<'a, D: AsRef<[u8]>> Previous<'a, D> {
    /// `None` if it reads from a pack that is not in `sorted`, or if its objects are not sorted.
    fn new(index: &'a MultiPackIndex<D>, sorted: &[&SourcePack<'_, D>]) -> Option<Self> {
        let number = |name: &str| sorted.binary_search_by_key(&name, |pack| pack.name).ok();
        let numbers: Vec<Option<u32>> =
            index.pack_names().map(|name| number(name).map(|at| at as u32)).collect();
        let mut covers = vec![false; sorted.len()];
        numbers.iter().flatten().for_each(|number| covers[*number as usize] = true);
        let previous = Previous { index, numbers, covers };
        let mut positions = 0..index.len();
        let is_sorted = (1..index.len()).all(|at| index.id_at(at - 1) < index.id_at(at));
        (is_sorted && positions.all(|at| previous.entry(at).is_some())).then_some(previous)
    }

    /// The entry at `position`: its object, pack and offset.
    fn entry(&self, position: u32) -> Option<(&'a oid, u32, u64)> {
        let (pack, offset) = self.index.pack_and_offset_at(position)?;
        Some((self.index.id_at(position), self.numbers[pack as usize]?, offset))
    }
}

/// Merges the sorted ids of all packs, one first byte at a time, so that only few are sorted at once.
fn merge<D: AsRef<[u8]>>(
    packs: &[&SourcePack<'_, D>],
    hash: HashKind,
    base: Base<'_>,
    previous: Option<&Previous<'_, D>>,
    preferred: Option<usize>,
) -> Result<Merged, MidxWriteError> {
    let mut by_rank: Vec<u32> = (0..packs.len() as u32).collect();
    let is_covered = |pack: usize| previous.is_some_and(|previous| previous.covers[pack]);
    by_rank.sort_by_key(|pack| {
        let pack = *pack as usize;
        let modified = std::cmp::Reverse(packs[pack].modified_seconds);
        (Some(pack) != preferred, is_covered(pack), modified, pack)
    });
    let mut ranks = vec![0u32; packs.len()];
    (0u32..).zip(&by_rank).for_each(|(rank, pack)| ranks[*pack as usize] = rank);
    let is_read = |pack: u32| !is_covered(pack as usize) || Some(pack as usize) == preferred;
    let read: Vec<u32> = by_rank.iter().copied().filter(|pack| is_read(*pack)).collect();
    let largest = packs.iter().map(|pack| pack.index.len() as usize).max().unwrap_or(0);
    let mut merged = Merged {
        ids: Vec::with_capacity(largest * hash.len_in_bytes()),
        fanout: Vec::with_capacity(FANOUT_BYTES),
        copies: Vec::with_capacity(largest),
    };
    let mut counts = [0u32; 256];
    let mut bucket: Vec<(&oid, u32, u64)> = Vec::new();
    let chosen = previous
        .into_iter()
        .flat_map(|previous| (0..previous.index.len()).filter_map(|position| previous.entry(position)));
    let mut chosen = chosen.peekable();
    let mut prefix = hash.null();
    for first_byte in 0..=u8::MAX {
        prefix.as_mut_slice()[0] = first_byte;
        bucket.clear();
        let is_new = |id: &oid| base.objects == 0 || !(base.has)(id);
        while let Some((id, pack, offset)) = chosen.next_if(|(id, ..)| id.first_byte() == first_byte) {
            bucket.extend(is_new(id).then_some((id, ranks[pack as usize], offset)));
        }
        for pack in &read {
            let index = packs[*pack as usize].index;
            let positions = index.range_of_prefix(&prefix, 2);
            let entries = positions.map(|at| (index.id_at(at), ranks[*pack as usize], index.offset_at(at)));
            bucket.extend(entries.filter(|(id, ..)| is_new(id)));
        }
        bucket.sort_unstable();
        bucket.dedup_by_key(|(id, ..)| *id);
        for (id, rank, offset) in &bucket {
            let pack = by_rank[*rank as usize];
            if *offset == u64::MAX {
                return Err(MidxWriteError::DamagedIndex(packs[pack as usize].name.to_owned()));
            }
            merged.ids.extend_from_slice(id.as_bytes());
            merged.copies.push(ChosenCopy { pack, offset: *offset });
        }
        counts[usize::from(first_byte)] =
            u32::try_from(bucket.len()).map_err(|_| MidxWriteError::TooManyObjects)?;
    }
    let len = u32::try_from(merged.copies.len()).ok();
    if len.and_then(|len| len.checked_add(base.objects)).is_none() {
        return Err(MidxWriteError::TooManyObjects);
    }
    write_counts(&mut merged.fanout, &counts);
    Ok(merged)
}

fn names_chunk(names: &[&str]) -> Vec<u8> {
    let mut chunk = Vec::new();
    for name in names {
        assert!(!name.is_empty() && !name.contains(['/', '\0']), "no file name: {name}");
        chunk.extend_from_slice(name.as_bytes());
        chunk.push(0);
    }
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// Makes OOFF and LOFF. Offsets of 32 bits go to LOFF only if some offset has more than 32 bits.
fn offset_chunks(copies: &[ChosenCopy], needs_large: bool) -> Result<(Vec<u8>, Vec<u8>), MidxWriteError> {
    let mut offsets = Vec::with_capacity(copies.len() * 8);
    let mut large = Vec::new();
    for copy in copies {
        offsets.extend_from_slice(&copy.pack.to_be_bytes());
        let word = if needs_large && copy.offset >= u64::from(LARGE) {
            let row = u32::try_from(large.len() / 8).ok().filter(|row| *row < LARGE);
            large.extend_from_slice(&copy.offset.to_be_bytes());
            LARGE | row.ok_or(MidxWriteError::TooManyLargeOffsets)?
        } else {
            // Without a table of large offsets, all 32 bits count.
            copy.offset as u32
        };
        offsets.extend_from_slice(&word.to_be_bytes());
    }
    Ok((offsets, large))
}

/// Makes RIDX and BTMP: the first pack, then packs by number; within a pack by offset.
fn bit_chunks(
    copies: &[ChosenCopy],
    BitChunks { base, first }: &BitChunks,
    packs: usize,
) -> Result<(Vec<u8>, Vec<u8>), MidxWriteError> {
    let len = u32::try_from(copies.len()).map_err(|_| MidxWriteError::TooManyObjects)?;
    base.checked_add(len).ok_or(MidxWriteError::TooManyObjects)?;
    let mut order: Vec<u32> = (0..len).collect();
    order.sort_unstable_by_key(|position| {
        let copy = copies[*position as usize];
        (first.is_some_and(|first| copy.pack != first), copy.pack, copy.offset)
    });
    let mut ranges = vec![(0u32, 0u32); packs];
    for (bit, position) in (*base..).zip(&order) {
        let (first, bits) = &mut ranges[copies[*position as usize].pack as usize];
        if *bits == 0 {
            *first = bit;
        }
        *bits += 1;
    }
    let order = order.into_iter().flat_map(|position| (base + position).to_be_bytes()).collect();
    let ranges = ranges.into_iter().flat_map(|(first, bits)| [first, bits]).flat_map(u32::to_be_bytes);
    Ok((order, ranges.collect()))
}
