use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::universe::Ix;

/// Sums a path up in 32 bits, so that sorting brings files with the same ending together.
///
/// This is the value that bitmaps store in their name-hash cache (gitformat-bitmap, "Name-hash cache"): of all bytes but
/// white space the last 16 count, the last one most. It is zero for what has no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameHash(pub u32);

impl NameHash {
    /// The hash of a whole path.
    pub fn of(path: &[u8]) -> Self {
        NameHash::default().then(path)
    }

    /// The hash of a longer path.
    #[inline]
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> Self {
        let visible = bytes.iter().filter(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
        NameHash(visible.fold(self.0, |hash, byte| (hash >> 2).wrapping_add(u32::from(*byte) << 24)))
    }

    /// The hash of an entry of the directory that has this hash.
    #[inline]
    #[must_use]
    pub fn entry(self, name: &[u8]) -> Self {
        if self == NameHash::default() { self.then(name) } else { self.then(b"/").then(name) }
    }
}

/// The name hashes of objects met on a walk, as far as they have any. Several threads write.
#[derive(Debug)]
pub(crate) struct Names {
    packed: Vec<AtomicU32>,
    extra: Mutex<HashMap<Ix, NameHash>>,
}

impl Names {
    /// For `packed_len` objects of packs, and any number of others.
    pub(crate) fn new(packed_len: u32) -> Self {
        let packed = std::iter::repeat_with(|| AtomicU32::new(0)).take(packed_len as usize).collect();
        Names { packed, extra: Mutex::default() }
    }

    #[inline]
    pub(crate) fn set(&self, ix: Ix, name: NameHash) {
        match self.packed.get(ix.0 as usize) {
            Some(packed) => packed.store(name.0, Relaxed),
            None => {
                self.extra.lock().expect("no panic while held").insert(ix, name);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, ix: Ix) -> NameHash {
        match self.packed.get(ix.0 as usize) {
            Some(packed) => NameHash(packed.load(Relaxed)),
            None => self.extra.lock().expect("no panic while held").get(&ix).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_continue_the_path() {
        let check = |path: &[&str], expect: &str| {
            let hash = path.iter().fold(NameHash::default(), |hash, name| hash.entry(name.as_bytes()));
            assert_eq!(hash, NameHash::of(expect.as_bytes()), "{path:?}");
        };
        check(&[], "");
        check(&["Makefile"], "Makefile");
        check(&["t", "test-lib.sh"], "t/test-lib.sh");
        check(&["a b", "c\td"], "ab/cd");
        assert_eq!(NameHash::of(b"a"), NameHash(0x61 << 24));
        assert_eq!(NameHash::of(b"ab"), NameHash((0x61 << 22) + (0x62 << 24)));
    }
}
