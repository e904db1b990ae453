//! One pack for all equal requests: planned and made once, read by any number of clients meanwhile, and
//! possibly kept for later requests.
//!
//! ```text
//! Key ── join ──▶ Producer ── launch ──▶ Generator (a thread of its own) ─ pieces ─▶ SharedPack
//!            └──▶ Follow                                                                 │ ranges of packs, chunks, spool
//!                    └─────────────── a Reader each, from the first byte ◀───────────────┘
//! ```
//!
//! Never wrong, only cold: what does not fit, cannot be written or may differ is made anew.
//! docs/decisions/0024-pack-cache.md.

mod budget;
mod cache_index;
mod generator;
mod key;
mod reader;
mod settings;
mod shared_pack;

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::count::Role;
use packrace_os::spool::Spool;
use packrace_pack::{KeptDeltas, RepositoryDeltas, Totals};
use packrace_store::Snapshot;
use prometheus_client::metrics::gauge::Gauge;

use crate::error::{Error, ErrorKind};
use crate::metrics::Metrics;
use budget::ByteBudget;
use cache_index::{CacheIndex, Removed};
pub use generator::Generator;
pub use key::Key;
pub use reader::Reader;
pub use settings::CacheSettings;
use shared_pack::{Bounds, Keeping, SharedPack};

/// Packs that are being made and packs that are kept. The default keeps and shares nothing.
#[derive(Debug, Clone, Default)]
pub struct PackCache(Option<Arc<SharedCache>>);

#[derive(Debug)]
pub(super) struct SharedCache {
    settings: CacheSettings,
    bounds: Bounds,
    memory: Arc<ByteBudget>,
    disk: Arc<ByteBudget>,
    index: std::sync::Mutex<CacheIndex>,
    /// Deltas of all packs that were made, whether or not those are kept.
    deltas: Option<Arc<KeptDeltas>>,
    metrics: Arc<Metrics>,
}

/// The resources that kept packs use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Memory,
    Disk,
}

/// Counters of a cache, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStatus {
    /// Requests that joined a pack while it was made.
    pub hits_running: u64,
    /// Requests that got a kept pack.
    pub hits_kept: u64,
    /// Requests that made their pack.
    pub misses: u64,
    /// Kept packs that were evicted: for others, because of their age, or because their repository changed.
    pub evictions: u64,
    /// Packs that are kept or being made.
    pub packs: u64,
    /// Their bytes in memory.
    pub memory_bytes: u64,
    /// Their bytes on disk.
    pub disk_bytes: u64,
    /// Entries of packs that were written from kept deltas.
    pub reused_deltas: u64,
    /// Bytes of kept deltas.
    pub delta_bytes: u64,
}

/// How a request gets its pack.
#[derive(Debug)]
pub enum Joined {
    /// No request makes it yet: this one has to.
    Produce(Producer),
    /// It is being made, or kept.
    Follow(Reader),
}

/// Makes a pack for all requests that wait for it.
#[derive(Debug)]
pub struct Producer {
    pack: Arc<SharedPack>,
    reader: Reader,
    index: Option<(Arc<SharedCache>, Key)>,
}

impl PackCache {
    /// A cache with these settings that counts in `metrics`.
    pub fn new(settings: CacheSettings, metrics: Arc<Metrics>) -> Self {
        PackCache::with_bounds(settings, metrics, Bounds::default())
    }

    fn with_bounds(settings: CacheSettings, metrics: Arc<Metrics>, bounds: Bounds) -> Self {
        if !settings.enabled {
            return PackCache::default();
        }
        PackCache(Some(Arc::new(SharedCache {
            memory: ByteBudget::new(settings.max_memory_bytes, &metrics.cache_bytes),
            disk: ByteBudget::new(settings.max_disk_bytes, &metrics.cache_bytes),
            deltas: usize::try_from(settings.max_delta_bytes)
                .ok()
                .and_then(NonZeroUsize::new)
                .map(|max| Arc::new(KeptDeltas::new(max))),
            settings,
            bounds,
            index: std::sync::Mutex::default(),
            metrics,
        })))
    }

    /// Joins the pack of `key`, or makes this request its producer. `key` is called only if packs are shared.
    pub fn join(&self, key: impl FnOnce() -> Key, now: Duration) -> Joined {
        let Some(shared) = &self.0 else { return Joined::Produce(PackCache::produce_alone()) };
        shared.join(key(), now)
    }

    /// The deltas kept of the repository of a snapshot.
    pub fn deltas_of(&self, snapshot: &Snapshot) -> Option<RepositoryDeltas> {
        let deltas = self.0.as_ref()?.deltas.as_ref()?;
        Some(deltas.of(key::repository_number(snapshot)))
    }

    /// A pack that is not shared.
    pub fn produce_alone() -> Producer {
        let none = ByteBudget::new(0, &Gauge::default());
        let pack = SharedPack::new(Bounds::default(), Keeping::Nothing, &none, &none);
        Producer { reader: Reader::first(pack.clone()), pack, index: None }
    }

    /// Removes packs that were kept for too long, and closes their files, which may take a while.
    pub fn expire(&self, now: Duration) {
        if let Some(shared) = &self.0 {
            drop(shared.expire(now));
        }
    }

    /// The counters, and what the cache holds.
    pub fn status(&self) -> CacheStatus {
        let Some(shared) = &self.0 else { return CacheStatus::default() };
        let metrics = &shared.metrics;
        CacheStatus {
            hits_running: metrics.cache_hits_running.get(),
            hits_kept: metrics.cache_hits_kept.get(),
            misses: metrics.cache_misses.get(),
            evictions: metrics.cache_evictions.get(),
            packs: shared.lock().len() as u64,
            memory_bytes: shared.memory.used(),
            disk_bytes: shared.disk.used(),
            reused_deltas: shared.deltas.as_ref().map_or(0, |deltas| deltas.reused()),
            delta_bytes: shared.deltas.as_ref().map_or(0, |deltas| deltas.bytes()),
        }
    }
}

impl Producer {
    /// Makes the pack on its own thread.
    pub fn launch(
        self,
        make: impl FnOnce(&mut Generator) -> Result<Totals, Error> + Send + 'static,
    ) -> Result<Reader, Error> {
        let Producer { pack, reader, index } = self;
        let mut generator = Generator::new(pack.clone(), index.clone());
        let worker = std::thread::Builder::new().name("pack".into()).spawn(move || {
            // A panic was reported already; the readers need an error too.
            let made = catch_unwind(AssertUnwindSafe(|| make(&mut generator)));
            let internal = |_| Err(Error::new(ErrorKind::Unavailable, "internal error while making a pack"));
            generator.finish(made.unwrap_or_else(internal));
        });
        match worker {
            Ok(worker) => {
                pack.set_worker(worker);
                Ok(reader)
            }
            Err(error) => {
                let error = Error::caused("cannot start a thread", error);
                pack.end(Err(error.clone()));
                if let Some((shared, key)) = index {
                    shared.remove(&key, &pack);
                }
                Err(error)
            }
        }
    }
}

impl SharedCache {
    fn lock(&self) -> std::sync::MutexGuard<'_, CacheIndex> {
        self.index.lock().expect("no panic while held")
    }

    fn join(self: &Arc<Self>, key: Key, now: Duration) -> Joined {
        let max_age = self.settings.max_age;
        let mut index = self.lock();
        let expired = index.expire(now, max_age);
        let found = index.find(&key, now).and_then(|pack| Reader::join(pack.clone()));
        let joined = match found {
            Some((reader, is_complete)) => {
                let metrics = &self.metrics;
                if is_complete { &metrics.cache_hits_kept } else { &metrics.cache_hits_running }.inc();
                (Joined::Follow(reader), Removed::default())
            }
            None => {
                self.metrics.cache_misses.inc();
                let pack = SharedPack::new(self.bounds.clone(), Keeping::Memory, &self.memory, &self.disk);
                let removed = index.put(key, &pack, now, max_age);
                let reader = Reader::first(pack.clone());
                let producer = Producer { reader, pack, index: Some((self.clone(), key)) };
                (Joined::Produce(producer), removed)
            }
        };
        drop(index);
        // Files are closed and maps released without the lock.
        let (joined, superseded) = joined;
        self.count(&expired);
        self.count(&superseded);
        joined
    }

    fn expire(&self, now: Duration) -> Removed {
        let removed = self.lock().expire(now, self.settings.max_age);
        self.count(&removed);
        removed
    }

    fn count(&self, removed: &Removed) {
        self.metrics.cache_evictions.inc_by(removed.len() as u64);
    }

    /// Removes a pack, so that no later request finds it.
    fn remove(&self, key: &Key, pack: &Arc<SharedPack>) {
        let _removed = self.lock().remove(key, pack);
    }

    /// Whether packs can be kept on disk.
    fn has_disk(&self) -> bool {
        self.settings.directory.is_some() && self.disk.max() > 0
    }

    fn new_spool(&self) -> io::Result<Spool> {
        let directory = self.settings.directory.as_deref();
        Spool::create(directory.ok_or(io::ErrorKind::Unsupported)?, Role::Cache)
    }

    /// Evicts the least recently used packs until `grow` finds room.
    fn make_room(&self, resource: Resource, bytes: u64, mut grow: impl FnMut() -> bool) -> bool {
        let budget = match resource {
            Resource::Memory => &self.memory,
            Resource::Disk => &self.disk,
        };
        if bytes > budget.max() {
            return false;
        }
        loop {
            if grow() {
                return true;
            }
            let removed = self.lock().evict(resource);
            if removed.len() == 0 {
                return false;
            }
            self.count(&removed);
        }
    }
}

#[cfg(test)]
mod tests;
