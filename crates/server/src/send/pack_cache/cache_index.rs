//! Which packs are cached, and which are evicted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Resource;
use super::key::Key;
use super::shared_pack::SharedPack;

/// Most packs in the index. Each takes a kilobyte or two beyond what budgets count.
const MAX_PACKS: usize = 1024;

/// Most requests that are remembered, to recognize the second of a kind; 120 bytes each.
const MAX_REMEMBERED: usize = 4096;

/// Cached packs, and recent requests.
#[derive(Debug, Default)]
pub(super) struct CacheIndex {
    entries: HashMap<Key, CacheEntry>,
    asked: HashMap<Key, Duration>,
}

#[derive(Debug)]
struct CacheEntry {
    pack: Arc<SharedPack>,
    used: Duration,
}

/// Packs that were removed from the index. Dropping them may close files and unmap packs.
#[derive(Debug, Default)]
pub(super) struct Removed(Vec<Arc<SharedPack>>);

impl Removed {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl CacheIndex {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The pack of a key; it counts as used now.
    pub(super) fn find(&mut self, key: &Key, now: Duration) -> Option<&Arc<SharedPack>> {
        let entry = self.entries.get_mut(key)?;
        entry.used = now;
        Some(&entry.pack)
    }

    /// Adds a pack. Packs of other versions of the repository are removed: they are no longer requested, and
    /// may hold deleted files.
    pub(super) fn put(
        &mut self,
        key: Key,
        pack: &Arc<SharedPack>,
        now: Duration,
        max_age: Duration,
    ) -> Removed {
        let mut removed =
            self.take(|other, _| other.repository == key.repository && other.snapshot != key.snapshot);
        if self.entries.len() >= MAX_PACKS {
            removed.0.extend(self.evict_if(|_| true).0);
        }
        pack.lock().was_asked_again = self.was_asked(key, now, max_age);
        let replaced = self.entries.insert(key, CacheEntry { pack: pack.clone(), used: now });
        removed.0.extend(replaced.map(|entry| entry.pack));
        removed
    }

    /// Records a request; returns whether the same was made less than `max_age` ago.
    fn was_asked(&mut self, key: Key, now: Duration, max_age: Duration) -> bool {
        if self.asked.len() >= MAX_REMEMBERED && !self.asked.contains_key(&key) {
            self.asked.retain(|_, when| now.saturating_sub(*when) < max_age);
            let oldest = self.asked.iter().min_by_key(|(_, when)| **when).map(|(key, _)| *key);
            if let Some(oldest) = oldest.filter(|_| self.asked.len() >= MAX_REMEMBERED) {
                self.asked.remove(&oldest);
            }
        }
        self.asked.insert(key, now).is_some_and(|before| now.saturating_sub(before) < max_age)
    }

    /// Removes packs that were not used for `max_age`. A pack that is read or made is in use.
    pub(super) fn expire(&mut self, now: Duration, max_age: Duration) -> Removed {
        for entry in self.entries.values_mut() {
            if !entry.pack.is_idle() {
                entry.used = now;
            }
        }
        self.take(|_, entry| now.saturating_sub(entry.used) >= max_age)
    }

    /// Removes the least recently used idle pack that gives back some of `resource`. A pack on disk has
    /// little more than a list in memory, and is not removed for memory.
    pub(super) fn evict(&mut self, resource: Resource) -> Removed {
        self.evict_if(|pack| {
            let (memory, disk) = pack.kept_bytes();
            match resource {
                Resource::Memory => memory > 0 && disk == 0,
                Resource::Disk => disk > 0,
            }
        })
    }

    fn evict_if(&mut self, helps: impl Fn(&SharedPack) -> bool) -> Removed {
        let idle = self.entries.iter().filter(|(_, entry)| entry.pack.is_idle() && helps(&entry.pack));
        let Some(key) = idle.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key) else {
            return Removed::default();
        };
        Removed(self.entries.remove(&key).map(|entry| entry.pack).into_iter().collect())
    }

    /// Removes this pack, if it is still in the index.
    pub(super) fn remove(&mut self, key: &Key, pack: &Arc<SharedPack>) -> Removed {
        let is_it = self.entries.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.pack, pack));
        let removed = if is_it { self.entries.remove(key) } else { None };
        Removed(removed.map(|entry| entry.pack).into_iter().collect())
    }

    fn take(&mut self, is_over: impl Fn(&Key, &CacheEntry) -> bool) -> Removed {
        let over = self.entries.extract_if(|key, entry| is_over(key, entry));
        Removed(over.map(|(_, entry)| entry.pack).collect())
    }
}
