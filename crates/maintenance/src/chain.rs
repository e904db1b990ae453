//! Chains of multi-pack-indexes: a new file on top for new packs, and smaller files on top of each other made into one.

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
            ChainLayer::New(MultiPackIndexFile { bytes: layer.data().to_vec(), bitmap })
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
        let file = MultiPackIndexFile { bytes, bitmap: None };
        let checksum = file.checksum(snapshot.hash_kind())?;
        self.chain.push(Mapped::from(file.bytes.clone()), &checksum).map_err(|_| Error::NoBitmap)?;
        let bitmap = match bitmap {
            Some(request) => {
                let _region = trace::region("midx", "write_midx_bitmap");
                bitmap_of_multi_pack_index(snapshot, &self.chain, request, progress)?
            }
            None => None,
        };
        self.layers.push(ChainLayer::New(MultiPackIndexFile { bitmap, ..file }));
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

/// How many of the lowest files a repack leaves alone: all whose packs stay, and, if bitmaps are wanted, that have
/// them.
pub(crate) fn staying_layers(
    own: &OwnMultiPackIndex,
    stays: impl Fn(&str) -> bool,
    has_bitmaps: bool,
) -> usize {
    let layers = own.chain.layers().iter().enumerate();
    let is_staying = |(at, layer): &(usize, &MultiPackIndex<Mapped>)| {
        layer.pack_stems().all(&stays)
            && (!has_bitmaps || (layer.has_bit_order() && own.bitmap_of(*at).is_some()))
    };
    layers.take_while(is_staying).count()
}

/// The first of the topmost layers that are made into one (git-repack, `--write-midx=incremental`): while those on
/// top have together at least a `factor`th of the objects of the next lower one, it is taken in, too.
pub(crate) fn first_compacted(layers: &[MultiPackIndex<Mapped>], factor: u32) -> usize {
    let counts: Vec<u64> = layers.iter().map(|layer| u64::from(layer.len())).collect();
    let Some(mut first) = counts.len().checked_sub(1) else { return 0 };
    let mut taken = counts[first];
    while first > 0 && taken.saturating_mul(u64::from(factor)) >= counts[first - 1] {
        first -= 1;
        taken += counts[first];
    }
    first
}
