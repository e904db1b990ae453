//! How much the objects of a pack may come to. A delta of some bytes makes megabytes, and thousands of them fit in a
//! kilobyte: without a bound, a small pack costs minutes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::error::IngestReason;

/// What the contents of a pack may come to: inflated bytes, and results of deltas each time that they are made. Whichever is
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUnpacked {
    /// Of any pack.
    pub bytes: u64,
    /// For each byte of the pack. zlib makes 1,032 bytes of one at most.
    pub times_pack: u64,
}

/// What they have come to.
#[derive(Debug)]
pub(super) struct Unpacked {
    limit: Option<MaxUnpacked>,
    /// Of what has come of the pack.
    most: AtomicU64,
    bytes: AtomicU64,
}

impl Unpacked {
    pub(super) fn new(limit: Option<MaxUnpacked>) -> Self {
        let most = limit.map_or(u64::MAX, |limit| limit.bytes);
        Unpacked { limit, most: AtomicU64::new(most), bytes: AtomicU64::new(0) }
    }

    /// So many bytes of the pack have come.
    pub(super) fn has_come(&self, pack_bytes: u64) {
        if let Some(limit) = self.limit {
            self.most.store(limit.bytes.max(pack_bytes.saturating_mul(limit.times_pack)), Relaxed);
        }
    }

    /// So many are made, or will be at once.
    pub(super) fn add(&self, bytes: u64) -> Result<(), IngestReason> {
        let most = self.most.load(Relaxed);
        // No sum of what fits on a disk comes near the end of 64 bits, but for lies: those are longer than any limit.
        let sum = self.bytes.fetch_add(bytes.min(u64::MAX >> 1), Relaxed).saturating_add(bytes);
        if self.limit.is_some() && sum > most {
            return Err(IngestReason::Unpacked(crate::meter::size(most)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_pack() {
        let unpacked = Unpacked::new(Some(MaxUnpacked { bytes: 1000, times_pack: 10 }));
        assert!(unpacked.add(1000).is_ok());
        assert!(unpacked.add(1).is_err());
        unpacked.has_come(200);
        assert!(unpacked.add(999).is_ok());
        assert!(unpacked.add(1).is_err());
        assert!(unpacked.add(u64::MAX).is_err());
        assert!(Unpacked::new(None).add(u64::MAX).is_ok());
    }
}
