//! Existing bitmaps, converted to the order of the new pack.

use std::sync::atomic::Ordering::Relaxed;

use packrace_format::bitmap::Bits;
use packrace_object::Kind;
use packrace_store::{DamagedBitmap, SnapshotBitmap};

use super::history::CommitHistory;
use super::introduce::Introduced;
use super::{BitOrder, NoBitmap};
use crate::request_objects::{ObjectNo, RequestObjects};

/// The new pack lacks the object, so it has no new bit.
const NO_BIT: u32 = u32::MAX;

/// The bitmaps of the request's objects; converts only the bits in which a commit differs from the commit
/// asked for before.
pub(super) struct StoredBitmaps<'a> {
    request_objects: &'a RequestObjects,
    bitmap: SnapshotBitmap<'a>,
    /// New bits by old ones.
    new_bits: Vec<u32>,
    /// What the last requested commit reaches, in the old order and in the new one.
    last_old: Bits,
    last_new: Bits,
}

impl From<DamagedBitmap> for NoBitmap {
    fn from(_: DamagedBitmap) -> Self {
        NoBitmap::DamagedBitmap
    }
}

impl<'a> StoredBitmaps<'a> {
    /// `None` if there are no bitmaps.
    pub(super) fn open(request_objects: &'a RequestObjects, order: &BitOrder) -> Option<Self> {
        let bitmap = request_objects.snapshot().bitmap()?;
        let last_old = bitmap.no_bits();
        let new_bit =
            |old| bitmap.bit_to_ix(old).and_then(|ix| order.bit_of(ObjectNo(ix.0))).unwrap_or(NO_BIT);
        let new_bits = (0..last_old.len()).map(new_bit).collect();
        Some(StoredBitmaps { request_objects, bitmap, new_bits, last_old, last_new: Bits::new(order.len()) })
    }

    /// Marks the commits of the new pack that have a bitmap.
    pub(super) fn mark(&self, order: &BitOrder, history: &mut CommitHistory) {
        for commit in 0..history.len() as usize {
            let packed = history.bits[commit].and_then(|bit| self.request_objects.packed(order.object(bit)));
            history.is_stored[commit] = packed.is_some_and(|ix| self.bitmap.has(ix));
        }
    }

    /// What a commit reaches; `mark` must have found a bitmap for it.
    pub(super) fn reached(&mut self, order: &BitOrder, bit: u32) -> Result<Bits, NoBitmap> {
        let mut old = self.bitmap.no_bits();
        let ix = self.request_objects.packed(order.object(bit)).ok_or(DamagedBitmap)?;
        if !self.bitmap.or_into(ix, &mut old)? {
            return Err(NoBitmap::DamagedBitmap);
        }
        for (at, (now, before)) in (0u32..).zip(old.words().iter().zip(self.last_old.words())) {
            let mut changed = now ^ before;
            while changed != 0 {
                let old_bit = at * 64 + changed.trailing_zeros();
                changed &= changed - 1;
                match self.new_bits[old_bit as usize] {
                    NO_BIT => {
                        let missing = self.bitmap.bit_to_ix(old_bit).ok_or(DamagedBitmap)?;
                        return Err(NoBitmap::NotClosed(self.request_objects.id(ObjectNo(missing.0))));
                    }
                    new_bit if old.contains(old_bit) => _ = self.last_new.set(new_bit),
                    new_bit => self.last_new.unset(new_bit),
                }
            }
        }
        self.last_old = old;
        Ok(self.last_new.clone())
    }

    /// Adds kinds and names from stored bitmaps for objects that were not visited.
    pub(super) fn complete(&self, order: &BitOrder, introduced: &Introduced) -> Result<(), NoBitmap> {
        for kind in Kind::ALL {
            for old_bit in self.bitmap.of_kind(kind)?.iter_ones() {
                let bit = self.new_bits[old_bit as usize];
                if bit == NO_BIT || introduced.kinds[bit as usize].load(Relaxed) != 0 {
                    continue;
                }
                introduced.kinds[bit as usize].store(kind as u8, Relaxed);
                let name =
                    self.request_objects.packed(order.object(bit)).and_then(|ix| self.bitmap.name_hash(ix));
                introduced.set_name(bit, name.unwrap_or(0));
            }
        }
        Ok(())
    }
}
