use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use packrace_object::Kind;

use crate::snapshot::Location;

/// Delta bases that were used not long ago, within a budget of bytes.
pub(crate) struct BaseCache {
    bases: HashMap<(u32, u64), Cached>,
    /// Every key of `bases` once, the one to look at first for eviction in front.
    order: VecDeque<(u32, u64)>,
    bytes: usize,
    max_bytes: usize,
}

struct Cached {
    kind: Kind,
    content: Arc<Vec<u8>>,
    /// Asked for since it was last looked at for eviction: it then stays once more.
    is_used: bool,
}

/// What an entry costs beside its content.
const OVERHEAD_BYTES: usize = 128;

impl BaseCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        BaseCache { bases: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    pub(crate) fn get(&mut self, at: Location) -> Option<(Kind, Arc<Vec<u8>>)> {
        let cached = self.bases.get_mut(&(at.pack.0, at.offset))?;
        cached.is_used = true;
        Some((cached.kind, cached.content.clone()))
    }

    pub(crate) fn keep(&mut self, at: Location, kind: Kind, content: &Arc<Vec<u8>>) {
        let key = (at.pack.0, at.offset);
        // A base that takes more than a quarter of the cache would push out everything else.
        if cost(content) > self.max_bytes / 4 || self.bases.contains_key(&key) {
            return;
        }
        self.bytes += cost(content);
        self.bases.insert(key, Cached { kind, content: content.clone(), is_used: false });
        self.order.push_back(key);
        while self.bytes > self.max_bytes {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some(key) = self.order.pop_front() else { return };
        let Some(cached) = self.bases.get_mut(&key) else { return };
        if std::mem::take(&mut cached.is_used) {
            self.order.push_back(key);
            return;
        }
        self.bytes -= cost(&cached.content);
        self.bases.remove(&key);
    }
}

fn cost(content: &Arc<Vec<u8>>) -> usize {
    content.capacity() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::PackIx;

    fn at(offset: u64) -> Location {
        Location { pack: PackIx(0), offset }
    }

    #[test]
    fn stays_within_its_budget_and_keeps_what_is_used() {
        let mut cache = BaseCache::new(100_000);
        for offset in 0..1000 {
            cache.keep(at(offset), Kind::Blob, &Arc::new(vec![offset as u8; 1000]));
            assert!(cache.bytes <= 100_000);
            let kept: usize = cache.bases.values().map(|cached| cost(&cached.content)).sum();
            assert_eq!((kept, cache.bases.len()), (cache.bytes, cache.order.len()));
            assert_eq!(cache.get(at(0)).unwrap().1[0], 0, "used again and again");
        }
        assert_eq!(cache.get(at(999)).unwrap().1[0], 999u32 as u8);
        assert!(cache.get(at(1)).is_none());
    }

    #[test]
    fn large_ones_are_not_kept() {
        let mut cache = BaseCache::new(1000);
        cache.keep(at(1), Kind::Blob, &Arc::new(vec![0; 251]));
        assert!(cache.get(at(1)).is_none());
        assert_eq!(cache.bytes, 0);
    }
}
