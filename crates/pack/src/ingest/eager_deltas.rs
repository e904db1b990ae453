//! Resolves deltas while the pack arrives, if their bases have just arrived and the hasher thread is idle.
//!
//! Any of them may be skipped: the second pass resolves the rest, and reports errors in deltas that could not
//! be applied here.

use std::sync::Arc;

use packrace_format::pack::delta;
use packrace_object::Kind;
use packrace_store::BaseCache;

use super::table::EntryNumber;
use super::unpacked::Unpacked;

/// The most bytes of contents kept as bases.
const MAX_BYTES: usize = 16 << 20;

/// Longer results are left to the second pass.
const MAX_RESULT_BYTES: u64 = 1 << 20;

/// Recent contents, kept as bases.
pub(super) struct EagerDeltas {
    bases: BaseCache<EntryNumber>,
    unpacked: Arc<Unpacked>,
}

impl EagerDeltas {
    /// Keeps at most `cache_bytes` of bases.
    pub(super) fn new(cache_bytes: usize, unpacked: Arc<Unpacked>) -> Self {
        EagerDeltas { bases: BaseCache::new(cache_bytes.min(MAX_BYTES)), unpacked }
    }

    /// Keeps the content of an entry as a possible base.
    pub(super) fn keep(&mut self, entry: EntryNumber, kind: Kind, content: &Arc<Vec<u8>>) {
        self.bases.keep(entry, kind, content);
    }

    /// Applies a delta, if its base is cached.
    pub(super) fn resolve(&mut self, base: EntryNumber, delta: &[u8]) -> Option<(Kind, Arc<Vec<u8>>)> {
        let (kind, base) = self.bases.get(base)?;
        let result_bytes = delta::sizes(delta).ok()?.result;
        // The second pass reports the limit, too.
        if result_bytes > MAX_RESULT_BYTES || self.unpacked.add(result_bytes).is_err() {
            return None;
        }
        let mut result = Vec::new();
        delta::apply(&base, delta, &mut result).ok()?;
        Some((kind, Arc::new(result)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delta that appends this many bytes, in several pieces, to a base of ten.
    fn appending(bytes: usize) -> Vec<u8> {
        let mut delta = vec![10];
        let mut size = bytes + 10;
        while size > 0x7f {
            delta.push(size as u8 | 0x80);
            size >>= 7;
        }
        delta.extend([size as u8, 0x90, 10]);
        let rest = vec![b'+'; bytes];
        for piece in rest.chunks(127) {
            delta.push(piece.len() as u8);
            delta.extend(piece);
        }
        delta
    }

    #[test]
    fn what_is_at_hand_is_resolved() {
        let mut early = EagerDeltas::new(1 << 20, Arc::new(Unpacked::new(None)));
        early.keep(7, Kind::Tree, &Arc::new(b"0123456789".to_vec()));
        let (kind, result) = early.resolve(7, &appending(2)).unwrap();
        assert_eq!((kind, result.as_slice()), (Kind::Tree, &b"0123456789++"[..]));
        early.keep(8, kind, &result);
        assert!(early.resolve(8, &appending(2)).is_none(), "made for another base");
        assert!(early.resolve(9, &appending(2)).is_none(), "not at hand");
        assert!(early.resolve(7, &appending(2)[..5]).is_none(), "cut off");
        let longest = MAX_RESULT_BYTES as usize - 10;
        assert!(early.resolve(7, &appending(longest)).is_some());
        assert!(early.resolve(7, &appending(longest + 1)).is_none(), "too long");
    }
}
