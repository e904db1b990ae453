//! Chains of multi-pack-indexes: a new file on top for new packs, and smaller files on top of each other made into one.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use packrace_format::multi_pack_index::{
    CompactedBits, MidxWriteError, MultiPackIndex, MultiPackIndexChain, compact,
};
use packrace_os::trace::{self, TraceRegion};
use packrace_pack::ProgressSink;
use packrace_pack::maintain::multi_pack_index::make;
use packrace_pack::maintain::pack_files::BitmapRequest;
use packrace_store::publish::{ChainLayer, MultiPackIndexFile};
use packrace_store::{Mapped, OwnMultiPackIndex, Pack, Snapshot};

use crate::bitmaps::bitmap_of_multi_pack_index;
use crate::error::Error;

/// A chain in the making.
#[derive(Debug)]
pub struct NewChain {
    chain: MultiPackIndexChain<Mapped>,
    /// What a single file goes on from.
    previous: Option<MultiPackIndex<Mapped>>,
    layers: Vec<ChainLayer>,
    is_changed: bool,
}

impl NewChain {
    /// What a trace calls the making and publishing of multi-pack-indexes; it lasts as long as what is returned.
    #[must_use]
    pub fn traced() -> Option<TraceRegion> {
        trace::region("midx", "write_midx_internal")
    }

    /// Begins with the lowest `count` layers that there are. A single file becomes the lowest of the chain.
    pub fn of(own: Option<&OwnMultiPackIndex>, count: usize) -> Self {
        let Some(own) = own else {
            return NewChain::single(None);
        };
        let mut chain = own.chain.clone();
        chain.truncate(count);
        let layer = |(at, layer): (usize, &MultiPackIndex<Mapped>)| {
            if own.is_chain {
                return ChainLayer::Kept(layer.checksum());
            }
            let bitmap = own.bitmap_of(at).map(|bitmap| bitmap.to_vec());
            let reverse = own.reverse_of(at).map(|reverse| reverse.to_vec());
            ChainLayer::New(MultiPackIndexFile { bytes: layer.data().to_vec(), bitmap, reverse })
        };
        let layers = chain.layers().iter().enumerate().map(layer).collect();
        let is_changed = count < own.chain.layers().len();
        NewChain { chain, previous: None, layers, is_changed }
    }

    /// Begins a single file. It goes on from `previous`, which must be whole: of packs that are in both, it reads the same
    /// copies.
    pub fn single(previous: Option<MultiPackIndex<Mapped>>) -> Self {
        NewChain { chain: MultiPackIndexChain::empty(), previous, layers: Vec::new(), is_changed: false }
    }

    /// The files so far.
    pub fn chain(&self) -> &MultiPackIndexChain<Mapped> {
        &self.chain
    }

    /// The files as they are to be published; `None` if nothing was added or removed.
    pub fn into_layers(self) -> Option<Vec<ChainLayer>> {
        self.is_changed.then_some(self.layers)
    }

    /// The file on top, if it is a new one.
    pub fn into_new_file(self) -> Option<MultiPackIndexFile> {
        match self.layers.into_iter().next_back()? {
            ChainLayer::New(file) => Some(file),
            ChainLayer::Kept(_) => None,
        }
    }

    /// Adds a file of the packs that `is_wanted` and that are in none yet; false if there are none.
    pub fn add_packs(
        &mut self,
        snapshot: &Arc<Snapshot>,
        is_wanted: impl Fn(&Pack) -> bool,
        preferred: Option<&str>,
        bitmap: Option<&BitmapRequest>,
        progress: &dyn ProgressSink,
    ) -> Result<bool, Error> {
        let previous = self.previous.as_ref();
        let region = trace::region("chunkfile", "write");
        let made = make(snapshot, &self.chain, previous, is_wanted, preferred, bitmap.is_some(), progress)?;
        drop(region);
        match made {
            Some(bytes) => self.push(snapshot, bytes, bitmap, progress).map(|()| true),
            None => Ok(false),
        }
    }

    /// Adds one file in place of these, which are on top of those here. Bitmaps above need every object to keep its bit.
    pub fn add_compacted(
        &mut self,
        snapshot: &Arc<Snapshot>,
        layers: &[MultiPackIndex<Mapped>],
        keeps_bits: bool,
        bitmap: Option<&BitmapRequest>,
        progress: &dyn ProgressSink,
    ) -> Result<(), Error> {
        // Damage must not spread into a file with a checksum of its own.
        if let Some(damaged) = layers.iter().find(|layer| layer.verify_checksum().is_err()) {
            return Err(MidxWriteError::DamagedLayer(damaged.checksum().to_string()).into());
        }
        let bits = match keeps_bits {
            true => CompactedBits::Kept,
            false if bitmap.is_some() => CompactedBits::ByName,
            false => CompactedBits::No,
        };
        let region = trace::region("chunkfile", "write");
        let bytes = compact(layers, snapshot.hash_kind(), self.chain.len(), bits)?;
        drop(region);
        self.push(snapshot, bytes, bitmap, progress)
    }

    fn push(
        &mut self,
        snapshot: &Arc<Snapshot>,
        bytes: Vec<u8>,
        bitmap: Option<&BitmapRequest>,
        progress: &dyn ProgressSink,
    ) -> Result<(), Error> {
        let file = MultiPackIndexFile { bytes, bitmap: None, reverse: None };
        let checksum = file.checksum(snapshot.hash_kind())?;
        self.chain.push(Mapped::from(file.bytes.clone()), &checksum).map_err(|_| Error::NoBitmap)?;
        let reverse = bitmap.filter(|request| request.options.reverse_file);
        let reverse = reverse.and_then(|_| self.chain.layers().last()?.reverse_file());
        let bitmap = match bitmap {
            Some(request) => bitmap_of_multi_pack_index(snapshot, &self.chain, request, progress)?,
            None => None,
        };
        self.layers.push(ChainLayer::New(MultiPackIndexFile { bitmap, reverse, ..file }));
        self.is_changed = true;
        Ok(())
    }

    /// Puts these layers of `own` on top; they were on top of the same objects.
    pub fn keep(&mut self, own: &OwnMultiPackIndex, layers: Range<usize>) -> Result<(), Error> {
        for layer in &own.chain.layers()[layers] {
            let checksum = layer.checksum();
            self.chain.push(layer.data().clone(), &checksum).map_err(|_| Error::NoBitmap)?;
            self.layers.push(ChainLayer::Kept(checksum));
        }
        Ok(())
    }
}

/// The chain after a repack, in the making.
#[derive(Clone, Copy)]
pub(crate) struct RepackedChain<'a> {
    /// The files before.
    pub(crate) own: Option<&'a OwnMultiPackIndex>,
    /// The packs, with new ones.
    pub(crate) snapshot: &'a Arc<Snapshot>,
    /// The bitmaps that each file gets.
    pub(crate) bitmap: Option<&'a BitmapRequest>,
    /// After a geometric repack, when files are made into one.
    pub(crate) merging: Option<Merging>,
    /// Which packs the repack has written.
    pub(crate) is_new: &'a dyn Fn(&str) -> bool,
    pub(crate) progress: &'a dyn ProgressSink,
}

/// When adjacent files are made into one (git-repack, `--write-midx=incremental`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merging {
    /// If those above have together at least this part of the objects of the next lower one.
    pub(crate) split_factor: u32,
    /// How many objects the packs had that were rolled up. For a new file, they count like those of packs that were
    /// there; objects that were loose do not count, as in git.
    pub(crate) rolled_up_objects: u64,
}

impl RepackedChain<'_> {
    /// The files as they are to be published, of the packs that are `wanted`; `None` if nothing changes. Files stay whose
    /// packs all stay, and that have bitmaps, if these are asked for.
    pub(crate) fn make(&self, wanted: &dyn Fn(&str) -> bool) -> Result<Option<Vec<ChainLayer>>, Error> {
        let count = self.own.map_or(0, |own| staying_layers(own, wanted, self.bitmap.is_some()));
        let staying = self.own.map_or(&[][..], |own| &own.chain.layers()[..count]);
        let mut objects: Vec<u64> = staying.iter().map(|layer| u64::from(layer.len())).collect();
        let groups = match self.merging {
            None => (0..=count).map(|at| at..at + 1).collect(),
            Some(merging) => {
                objects.extend(self.objects_on_top(staying, wanted, merging));
                merged_layers(&objects, merging.split_factor)
            }
        };
        let is_staying = |group: &Range<usize>| group.len() == 1 && group.end <= count;
        let lowest = groups.iter().take_while(|group| is_staying(group)).count();
        let mut chain = NewChain::of(self.own, lowest);
        for (at, group) in groups.iter().enumerate().skip(lowest) {
            match self.own {
                Some(own) if is_staying(group) => chain.keep(own, group.clone())?,
                Some(_) if group.end <= count => {
                    // Files above that stay have bitmaps, or may get some.
                    let keeps_bits = groups[at + 1..].iter().any(is_staying);
                    let layers = &staying[group.clone()];
                    chain.add_compacted(self.snapshot, layers, keeps_bits, self.bitmap, self.progress)?;
                }
                _ => {
                    let preferred = self.merging.and_then(|_| self.largest_above(chain.chain(), wanted));
                    let is_wanted = |pack: &Pack| wanted(pack.name());
                    chain.add_packs(self.snapshot, is_wanted, preferred, self.bitmap, self.progress)?;
                }
            }
        }
        Ok(chain.into_layers())
    }

    /// How many objects a new file has for [`merged_layers`]; `None` if there are no packs for it.
    fn objects_on_top(
        &self,
        staying: &[MultiPackIndex<Mapped>],
        wanted: &dyn Fn(&str) -> bool,
        merging: Merging,
    ) -> Option<u64> {
        let covered: HashSet<&str> = staying.iter().flat_map(MultiPackIndex::pack_stems).collect();
        let is_added = |pack: &&Pack| wanted(pack.name()) && !covered.contains(pack.name());
        let mut added = self.own_packs().filter(is_added).peekable();
        added.peek()?;
        let there = added.filter(|pack| !(self.is_new)(pack.name()));
        Some(there.map(|pack| u64::from(pack.len())).sum::<u64>() + merging.rolled_up_objects)
    }

    /// The pack with the most objects of those above a chain that are not new.
    fn largest_above(
        &self,
        below: &MultiPackIndexChain<Mapped>,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<&str> {
        let covered: HashSet<&str> = below.pack_stems().collect();
        let is_there = |pack: &&Pack| {
            wanted(pack.name()) && !covered.contains(pack.name()) && !(self.is_new)(pack.name())
        };
        let largest = self.own_packs().filter(is_there).max_by_key(|pack| pack.len())?;
        (largest.len() > 0).then_some(largest.name())
    }

    fn own_packs(&self) -> impl Iterator<Item = &Pack> {
        self.snapshot.packs().iter().filter(|pack| pack.is_local() && pack.is_usable())
    }
}

/// How many of the lowest files a repack leaves alone: all whose packs stay, and, if bitmaps are wanted, that have
/// them.
fn staying_layers(own: &OwnMultiPackIndex, stays: impl Fn(&str) -> bool, has_bitmaps: bool) -> usize {
    let layers = own.chain.layers().iter().enumerate();
    let is_staying = |(at, layer): &(usize, &MultiPackIndex<Mapped>)| {
        layer.pack_stems().all(&stays)
            && (!has_bitmaps || (layer.has_bit_order() && own.bitmap_of(*at).is_some()))
    };
    layers.take_while(is_staying).count()
}

/// Which adjacent layers, with these numbers of objects, are made into one: from the top, while those taken have together
/// at least a `factor`th of the objects of the next lower one. Then the same from there.
fn merged_layers(objects: &[u64], factor: u32) -> Vec<Range<usize>> {
    let factor = u64::from(factor.max(1));
    let mut groups = Vec::new();
    let mut end = objects.len();
    while end > 0 {
        let mut first = end - 1;
        let mut taken = objects[first];
        while first > 0 && taken >= objects[first - 1] / factor {
            first -= 1;
            taken = taken.saturating_add(objects[first]);
        }
        groups.push(first..end);
        end = first;
    }
    groups.reverse();
    groups
}

#[cfg(test)]
mod tests {
    use super::merged_layers;

    #[test]
    fn layers_are_merged_from_the_top() {
        let check = |objects: &[u64], factor: u32, expect: &[&[u64]]| {
            let groups = merged_layers(objects, factor);
            let groups: Vec<&[u64]> = groups.into_iter().map(|group| &objects[group]).collect();
            assert_eq!(groups, expect);
        };
        check(&[], 2, &[]);
        check(&[5], 2, &[&[5]]);
        check(&[60, 30, 6, 3, 0], 2, &[&[60, 30], &[6, 3], &[0]]);
        check(&[75, 21, 9, 3], 2, &[&[75], &[21], &[9], &[3]]);
        check(&[75, 21, 9, 6], 2, &[&[75], &[21, 9, 6]]);
        check(&[75, 7, 3, 1, 0], 2, &[&[75], &[7, 3, 1, 0]]);
        check(&[75, 21, 6, 0], 5, &[&[75, 21, 6], &[0]]);
        check(&[u64::MAX, u64::MAX, u64::MAX], 0, &[&[u64::MAX, u64::MAX, u64::MAX]]);
    }
}
