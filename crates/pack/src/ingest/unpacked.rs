//! A limit for the contents of a pack. A few bytes of delta make megabytes, and a kilobyte holds thousands of
//! them: without a limit, a small pack could take minutes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::error::IngestReason;

/// The limit for a pack's contents: inflated bytes, and delta results each time they are made. The larger of
/// the two values applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUnpacked {
    /// A fixed limit.
    pub bytes: u64,
    /// A limit per byte of the pack; zlib expands a byte to at most 1,032.
    pub times_pack: u64,
}

/// The bytes produced so far.
#[derive(Debug)]
pub(super) struct Unpacked {
    limit: Option<MaxUnpacked>,
    /// The limit for the bytes of the pack received so far.
    most: AtomicU64,
    bytes: AtomicU64,
}

impl Unpacked {
    pub(super) fn new(limit: Option<MaxUnpacked>) -> Self {
        let most = limit.map_or(u64::MAX, |limit| limit.bytes);
        Unpacked { limit, most: AtomicU64::new(most), bytes: AtomicU64::new(0) }
    }

    /// Raises the limit for the bytes of the pack received so far.
    pub(super) fn has_come(&self, pack_bytes: u64) {
        if let Some(limit) = self.limit {
            self.most.store(limit.bytes.max(pack_bytes.saturating_mul(limit.times_pack)), Relaxed);
        }
    }

    /// Counts bytes just produced, or about to be.
    pub(super) fn add(&self, bytes: u64) -> Result<(), IngestReason> {
        let most = self.most.load(Relaxed);
        // No sum of real sizes comes near 64 bits; false ones exceed every limit.
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
