//! The reachability bitmaps of a snapshot, in the snapshot's numbers.

use std::path::{Path, PathBuf};

use packrace_format::bitmap::{BitmapIndex, Bits};
use packrace_format::multi_pack_index::MultiPackIndexChain;
use packrace_object::Kind;
use packrace_os::{Mapped, trace};

use crate::objects::bitmap_file::{BitmapFile, BitmapOwner, OpenBitmap};
use crate::objects::numbers::{Location, ObjectIx};
use crate::objects::pack::Pack;
use crate::objects::pack_set::UnitIndex;
use crate::objects::snapshot::Snapshot;
use crate::objects::verified;

impl Snapshot {
    /// The reachability bitmaps, if they exist and may be used; those of a multi-pack-index are preferred.
    /// Opened and verified on first use.
    pub fn bitmap(&self) -> Option<SnapshotBitmap<'_>> {
        let open = self.bitmap_or_open(|file| open(file, self))?;
        Some(SnapshotBitmap { snapshot: self, open })
    }
}

/// Opens `file` and verifies all of it; a damaged one is reported and not used. Of a chain of multi-pack-indexes,
/// bitmaps above a damaged file are not used either.
///
/// Checksums are verified because a flipped bit would omit objects from a response.
fn open(file: &BitmapFile, snapshot: &Snapshot) -> Option<OpenBitmap> {
    let owner = Owner::of(file.owner, snapshot)?;
    let layers = file.layers.iter().enumerate();
    let layers: Vec<_> = layers.map_while(|(at, layer)| open_layer(at, layer, &owner, snapshot)).collect();
    if layers.is_empty() {
        return None;
    }
    // Bits are mapped to objects without a lookup, so nothing else would notice a missing pack.
    let missing = Owner::packs(file.owner, snapshot).into_iter().find(|pack| !pack.is_usable());
    if let Some(pack) = missing {
        unusable(&file.layers[0].0, &format_args!("{} is missing or damaged", pack.name()));
        return None;
    }
    match file.owner {
        BitmapOwner::Pack(_) => {
            trace::data("bitmap", "opened bitmap file", file.layers[0].0.with_extension("pack").display());
        }
        BitmapOwner::Multi { .. } => trace::data("load_midx_revindex", "source", "midx"),
    }
    let is_first = snapshot.units().first().is_some_and(|unit| unit.index.is_of(file.owner));
    Some(OpenBitmap { layers, owner: file.owner, is_first })
}

/// Opens the file of a layer; `at` is the layer's number.
fn open_layer(
    at: usize,
    (path, bytes): &(PathBuf, Mapped),
    owner: &Owner<'_>,
    snapshot: &Snapshot,
) -> Option<BitmapIndex<Mapped>> {
    let (positions, checksum) = match owner {
        Owner::Pack(pack) => (0..pack.len(), *pack.checksum()),
        Owner::Multi(chain) => {
            let index = &chain.layers()[at];
            if !index.has_bit_order() {
                unusable(path, &"the multi-pack-index has no order of bits");
                return None;
            }
            let verify = || index.verify_checksum();
            verified::once(std::slice::from_ref(index.data()), verify)
                .map_err(|error| unusable(path, &error))
                .ok()?;
            (chain.range_of_layer(at), index.checksum())
        }
    };
    let opened = BitmapIndex::open_layer(bytes.clone(), positions, snapshot.hash_kind()).and_then(|index| {
        verified::once(std::slice::from_ref(bytes), || index.verify_checksum()).map(|()| index)
    });
    let index = opened.map_err(|error| unusable(path, &error)).ok()?;
    if index.owner_checksum() != checksum {
        unusable(path, &"it was made for other packs");
        return None;
    }
    Some(index)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) {
    tracing::warn!("ignoring bitmap {}: {why}", path.display());
}

/// The owner itself.
enum Owner<'a> {
    Pack(&'a Pack),
    Multi(&'a MultiPackIndexChain<Mapped>),
}

impl<'a> Owner<'a> {
    fn packs(owner: BitmapOwner, snapshot: &'a Snapshot) -> Vec<&'a Pack> {
        let packs = snapshot.packs();
        let unit = snapshot.units().iter().find(|unit| unit.index.is_of(owner));
        match unit.map(|unit| &unit.index) {
            Some(UnitIndex::Pack(pack)) => vec![&packs[pack.0 as usize]],
            Some(UnitIndex::Multi { packs: covered, .. }) => {
                covered.iter().map(|pack| &packs[pack.0 as usize]).collect()
            }
            None => Vec::new(),
        }
    }

    fn of(owner: BitmapOwner, snapshot: &'a Snapshot) -> Option<Self> {
        match owner {
            BitmapOwner::Pack(pack) => Some(Owner::Pack(&snapshot.packs()[pack.0 as usize])),
            BitmapOwner::Multi { .. } => {
                let unit = snapshot.units().iter().find(|unit| unit.index.is_of(owner))?;
                match &unit.index {
                    UnitIndex::Multi { index, .. } => Some(Owner::Multi(index)),
                    UnitIndex::Pack(_) => None,
                }
            }
        }
    }
}

/// A stored bitmap is damaged: proceed without bitmaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedBitmap;

/// How many hashes of paths are looked at to find out whether there are any.
const NAME_SAMPLES: u32 = 128;

/// The bitmaps of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotBitmap<'a> {
    snapshot: &'a Snapshot,
    open: &'a OpenBitmap,
}

impl<'a> SnapshotBitmap<'a> {
    /// Number of objects that the bitmaps cover.
    pub fn objects(&self) -> u32 {
        self.open.objects()
    }

    /// An empty bitmap, with one bit per object.
    pub fn no_bits(&self) -> Bits {
        Bits::new(self.open.objects())
    }

    /// Whether a bitmap is stored for a commit.
    pub fn has(&self, commit: ObjectIx) -> bool {
        let has = |position| self.open.layers.iter().any(|layer| layer.has_bitmap_of(position));
        self.position(commit).is_some_and(has)
    }

    /// Adds everything reachable from a commit to `bits`; false if it has no stored bitmap. After an error,
    /// `bits` is invalid.
    pub fn or_into(&self, commit: ObjectIx, bits: &mut Bits) -> Result<bool, DamagedBitmap> {
        let Some(position) = self.position(commit) else { return Ok(false) };
        match self.open.layers.iter().find_map(|layer| layer.or_bitmap_into(position, bits)) {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => {
                tracing::warn!("ignoring bitmaps: {error}");
                Err(DamagedBitmap)
            }
        }
    }

    /// Adds the reachable objects of each pseudo-merge whose commits are all in `tips` or `bits`, and returns
    /// how many applied. After an error, `bits` is invalid.
    pub fn or_pseudo_merges_into(&self, tips: &Bits, bits: &mut Bits) -> Result<usize, DamagedBitmap> {
        let damaged = |error| {
            tracing::warn!("ignoring bitmaps: {error}");
            DamagedBitmap
        };
        let mut used = 0;
        for merge in self.open.layers.iter().flat_map(BitmapIndex::pseudo_merges) {
            let merge = merge.map_err(damaged)?;
            if merge.commits.is_within(tips, bits) {
                merge.reached.or_into(bits).map_err(damaged)?;
                used += 1;
            }
        }
        Ok(used)
    }

    /// The objects of this kind.
    pub fn of_kind(&self, kind: Kind) -> Result<Bits, DamagedBitmap> {
        let mut bits = self.no_bits();
        for layer in &self.open.layers {
            layer.type_ewah(kind).or_into(&mut bits).map_err(|error| {
                tracing::warn!("ignoring type bitmaps: {error}");
                DamagedBitmap
            })?;
        }
        Ok(bits)
    }

    /// The object that a bit stands for.
    #[inline]
    pub fn bit_to_ix(&self, bit: u32) -> Option<ObjectIx> {
        let owner = Owner::of(self.open.owner, self.snapshot)?;
        let position = match &owner {
            Owner::Pack(pack) => pack.reverse().index_position_at(bit),
            Owner::Multi(index) => index.position_at_bit(bit)?,
        };
        if self.open.is_first {
            return Some(ObjectIx(position));
        }
        let found = self.snapshot.lookup(match &owner {
            Owner::Pack(pack) => pack.index().id_at(position),
            Owner::Multi(index) => index.id_at(position),
        });
        match self.open.owner {
            // A wrong name in the index of the pack, which is not hashed.
            BitmapOwner::Pack(pack) if found.is_none() => {
                let offset = self.snapshot.packs()[pack.0 as usize].index().offset_at(position);
                self.snapshot.set().find_by_location(Location { pack, offset })
            }
            _ => found,
        }
    }

    /// The bit of an object, if the owner has it.
    pub fn ix_to_bit(&self, ix: ObjectIx) -> Option<u32> {
        let position = self.position(ix)?;
        match Owner::of(self.open.owner, self.snapshot)? {
            Owner::Pack(pack) => pack.position_of_offset(pack.index().offset_at(position)),
            Owner::Multi(index) => index.bit_of_position(position),
        }
    }

    /// Whether the hashes of paths are stored. A multi-pack-index made without a walk has only zeros, so some are
    /// looked at; commits and root trees have none.
    pub fn has_name_hashes(&self) -> bool {
        let objects = self.open.objects();
        let samples = (0..objects).step_by((objects / NAME_SAMPLES).max(1) as usize);
        let named = |at: &u32| self.open.name_hash_at(*at).is_some_and(|hash| hash != 0);
        samples.clone().filter(named).count() > samples.len() / 8
    }

    /// The hash of a path at which the object was found when the bitmaps were made, if stored.
    pub fn name_hash(&self, ix: ObjectIx) -> Option<u32> {
        self.open.name_hash_at(self.position(ix)?)
    }

    /// The object's position in the owner's index.
    fn position(&self, ix: ObjectIx) -> Option<u32> {
        if self.open.is_first {
            return (ix.0 < self.open.objects()).then_some(ix.0);
        }
        match Owner::of(self.open.owner, self.snapshot)? {
            Owner::Pack(pack) => pack.index().position_of(self.snapshot.id(ix)),
            // The upper files of a chain may have no bitmaps.
            Owner::Multi(index) => {
                index.position_of(self.snapshot.id(ix)).filter(|position| *position < self.open.objects())
            }
        }
    }
}
