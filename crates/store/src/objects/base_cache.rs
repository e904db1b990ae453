use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use packrace_object::Kind;

/// Recently used delta bases, within a budget of bytes. `K` is the location of a base.
pub struct BaseCache<K> {
    bases: HashMap<K, Cached>,
    /// Every key of `bases` once; the next eviction candidate is first.
    order: VecDeque<K>,
    bytes: usize,
    max_bytes: usize,
}

struct Cached {
    kind: Kind,
    content: Arc<Vec<u8>>,
    /// Used since it was last an eviction candidate: it survives the next time.
    is_used: bool,
}

/// Overhead of an entry beside its content.
const OVERHEAD_BYTES: usize = 128;

impl<K: Copy + Eq + Hash> BaseCache<K> {
    /// An empty cache. The budget counts contents and a fixed overhead for each.
    pub fn new(max_bytes: usize) -> Self {
        BaseCache { bases: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The entry of this key, which is then kept longer.
    pub fn get(&mut self, key: K) -> Option<(Kind, Arc<Vec<u8>>)> {
        let cached = self.bases.get_mut(&key)?;
        cached.is_used = true;
        Some((cached.kind, cached.content.clone()))
    }

    /// Inserts a content, unless it needs more than a quarter of the budget, and evicts others for it.
    pub fn keep(&mut self, key: K, kind: Kind, content: &Arc<Vec<u8>>) {
        // A base of more than a quarter of the cache would evict everything else.
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

    #[test]
    fn stays_within_its_budget_and_keeps_what_is_used() {
        let mut cache = BaseCache::new(100_000);
        for offset in 0..1000u64 {
            cache.keep(offset, Kind::Blob, &Arc::new(vec![offset as u8; 1000]));
            assert!(cache.bytes <= 100_000);
            let kept: usize = cache.bases.values().map(|cached| cost(&cached.content)).sum();
            assert_eq!((kept, cache.bases.len()), (cache.bytes, cache.order.len()));
            assert_eq!(cache.get(0).unwrap().1[0], 0, "used again and again");
        }
        assert_eq!(cache.get(999).unwrap().1[0], 999u32 as u8);
        assert!(cache.get(1).is_none());
    }

    #[test]
    fn large_ones_are_not_kept() {
        let mut cache = BaseCache::new(1000);
        cache.keep(1u64, Kind::Blob, &Arc::new(vec![0; 251]));
        assert!(cache.get(1).is_none());
        assert_eq!(cache.bytes, 0);
    }
}
