use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packrace_os::clock::{Clock, RealClock};
use packrace_store::{CachedRepository, Repository};

use super::RepositoryCacheSettings;
use crate::metrics::Metrics;

/// Repositories that stay open between calls, by request path. A repository with two names is kept twice.
///
/// No request waits for another repository: the lock of the whole map is held only for memory accesses.
/// Simultaneous requests for one that is not open wait for the first of them. A failed open leaves nothing
/// behind.
#[derive(Debug)]
pub struct RepositoryCache {
    settings: RepositoryCacheSettings,
    slots: Mutex<HashMap<PathBuf, Arc<Slot>>>,
    clock: RealClock,
    metrics: Arc<Metrics>,
}

/// The entry of one path.
#[derive(Debug, Default)]
struct Slot {
    kept: Mutex<Option<Opened>>,
    /// Held while it is opened.
    opening: Mutex<()>,
    /// How many openings have begun.
    begun: AtomicU64,
    /// When it was last requested, in nanoseconds.
    used: AtomicU64,
}

#[derive(Debug, Clone)]
struct Opened {
    /// The number of its opening.
    number: u64,
    kept: Arc<CachedRepository>,
}

impl Slot {
    fn kept(&self) -> MutexGuard<'_, Option<Opened>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn use_now(&self, now: Duration) {
        self.used.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), SeqCst);
    }

    fn last_used(&self) -> Duration {
        Duration::from_nanos(self.used.load(SeqCst))
    }

    fn packs(&self) -> usize {
        let opened = self.kept().clone();
        opened.map_or(0, |opened| opened.kept.repository().cached_packs())
    }
}

impl RepositoryCache {
    /// An empty cache.
    pub fn new(settings: RepositoryCacheSettings, metrics: Arc<Metrics>) -> Self {
        RepositoryCache { settings, slots: Mutex::default(), clock: RealClock::default(), metrics }
    }

    /// Whether anything is kept.
    pub fn is_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// The cached repository of this path, if opening it now would give the same; otherwise the one that
    /// `open` opens.
    pub fn get<E>(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<CachedRepository, E>,
    ) -> Result<Arc<Repository>, E> {
        let slot = self.lock().entry(path.to_owned()).or_default().clone();
        slot.use_now(self.clock.now());
        // An opening that begins from here on shows all changes that the caller can know of.
        let begun_before = slot.begun.load(SeqCst);
        let opened = slot.kept().clone();
        if let Some(opened) = opened.filter(|opened| opened.kept.is_current()) {
            self.metrics.repository_cache_hits.inc();
            return Ok(opened.kept.repository().clone());
        }
        self.metrics.repository_cache_misses.inc();
        let _turn = slot.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = slot.kept().clone();
        let is_new = |opened: &Opened| opened.number > begun_before || opened.kept.is_current();
        if let Some(opened) = opened.filter(is_new) {
            return Ok(opened.kept.repository().clone());
        }
        let number = slot.begun.fetch_add(1, SeqCst) + 1;
        let result = open().map(Arc::new);
        if let (Ok(kept), Some(before)) = (&result, slot.kept().clone()) {
            kept.repository().take_over_packs(before.kept.repository());
        }
        let opened = result.as_ref().ok().map(|kept| Opened { number, kept: kept.clone() });
        // Unmaps the old packs: not under the lock.
        let before = std::mem::replace(&mut *slot.kept(), opened);
        drop(before);
        match result {
            Ok(kept) => {
                self.trim();
                Ok(kept.repository().clone())
            }
            Err(error) => {
                self.forget(path, &slot);
                Err(error)
            }
        }
    }

    /// Drops repositories that are idle or have changed.
    pub fn sweep(&self) {
        let now = self.clock.now();
        let slots: Vec<(PathBuf, Arc<Slot>)> =
            self.lock().iter().map(|(path, slot)| (path.clone(), slot.clone())).collect();
        for (path, slot) in slots {
            let is_idle = now.saturating_sub(slot.last_used()) >= self.settings.idle_time;
            let opened = slot.kept().clone();
            let Some(opened) = opened else {
                // It is being opened, or that panicked.
                if is_idle {
                    self.forget(&path, &slot);
                }
                continue;
            };
            if is_idle || !opened.kept.is_current() {
                let mut kept = slot.kept();
                let dropped = kept.take_if(|other| other.number == opened.number);
                drop(kept);
                drop(dropped);
                self.forget(&path, &slot);
            } else {
                opened.kept.repository().forget_changed_packs();
            }
        }
        self.trim();
    }

    /// Drops a repository; it stays open only while calls use it.
    pub fn release(&self, path: &Path) {
        let slot = self.lock().get(path).cloned();
        if let Some(slot) = slot {
            let dropped = slot.kept().take();
            drop(dropped);
            self.forget(path, &slot);
        }
    }

    /// The number of open repositories.
    pub fn open_now(&self) -> usize {
        self.lock().values().filter(|slot| slot.kept().is_some()).count()
    }

    /// Drops the least recently used repositories until the limits hold.
    fn trim(&self) {
        let mut slots: Vec<(Duration, PathBuf, Arc<Slot>)> = {
            let slots = self.lock();
            let by_use = slots.iter().map(|(path, slot)| (slot.last_used(), path.clone(), slot.clone()));
            by_use.collect()
        };
        slots.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let (mut packs, mut dropped) = (0usize, Vec::new());
        for (number, (_, path, slot)) in slots.into_iter().enumerate() {
            packs = packs.saturating_add(slot.packs());
            let is_last = number == 0;
            if number >= self.settings.max_repositories || !is_last && packs > self.settings.max_packs {
                dropped.extend(slot.kept().take());
                self.forget(&path, &slot);
            }
        }
        self.metrics.repository_cache_open.set(self.open_now() as i64);
    }

    /// Removes an empty entry.
    fn forget(&self, path: &Path, slot: &Arc<Slot>) {
        let mut slots = self.lock();
        let is_same = slots.get(path).is_some_and(|other| Arc::ptr_eq(other, slot));
        if is_same && slot.kept().is_none() {
            slots.remove(path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use packrace_store::{Error, OpenOptions};
    use packrace_testkit::{Repo, RepoBuilder, Size};

    use super::*;

    fn open(repo: &Repo) -> Result<CachedRepository, Error> {
        CachedRepository::open(repo.path(), &OpenOptions::default())
    }

    /// Old enough for its stamps to be trusted.
    fn settled_repo() -> Repo {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !open(&repo).unwrap().is_current() {
            assert!(std::time::Instant::now() < end, "never settled");
            packrace_os::clock::sleep(Duration::from_millis(10));
        }
        repo
    }

    fn new_cache(settings: RepositoryCacheSettings) -> RepositoryCache {
        RepositoryCache::new(settings, Arc::default())
    }

    #[test]
    fn many_at_once_open_it_once() {
        let (repo, cache) = (settled_repo(), new_cache(RepositoryCacheSettings::default()));
        let (opened, all) = (AtomicU64::new(0), Barrier::new(16));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    all.wait();
                    let open = || {
                        opened.fetch_add(1, SeqCst);
                        open(&repo)
                    };
                    cache.get(Path::new("a"), open).unwrap();
                });
            }
        });
        assert_eq!(opened.load(SeqCst), 1);
        assert_eq!(cache.open_now(), 1);
    }

    /// An opening that began before a change is not for a caller that knows of the change.
    #[test]
    fn who_waits_gets_nothing_older_than_his_coming() {
        let (repo, cache) = (settled_repo(), new_cache(RepositoryCacheSettings::default()));
        let (is_opening, may_end) = (Barrier::new(2), Barrier::new(2));
        let path = Path::new("a");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let open = || {
                    let kept = open(&repo);
                    is_opening.wait();
                    may_end.wait();
                    kept
                };
                cache.get(path, open).unwrap()
            });
            is_opening.wait();
            repo.git(&["config", "a.b", "new"]);
            let second = scope.spawn(|| cache.get(path, || open(&repo)).unwrap());
            while cache.metrics.repository_cache_misses.get() < 2 {
                std::thread::yield_now();
            }
            may_end.wait();
            assert_eq!(first.join().unwrap().config().string("a.b"), None);
            assert_eq!(second.join().unwrap().config().string("a.b").unwrap(), b"new");
        });
    }

    #[test]
    fn errors_and_panics_leave_nothing_behind() {
        let (repo, cache) = (settled_repo(), new_cache(RepositoryCacheSettings::default()));
        for number in 0..100 {
            let path = PathBuf::from(format!("no{number}"));
            cache
                .get(&path, || CachedRepository::open(&repo.path().join("absent"), &OpenOptions::default()))
                .unwrap_err();
        }
        assert!(cache.lock().is_empty());
        let path = Path::new("a");
        let panicking = std::panic::AssertUnwindSafe(|| {
            cache.get(path, || -> Result<CachedRepository, Error> { panic!() })
        });
        std::panic::catch_unwind(panicking).unwrap_err();
        cache.get(path, || open(&repo)).unwrap();
        cache.get(path, || -> Result<CachedRepository, Error> { panic!("it is open") }).unwrap();
        // An entry that is left empty is removed by the next sweep.
        let cache = RepositoryCache::new(
            RepositoryCacheSettings { idle_time: Duration::ZERO, ..cache.settings },
            Arc::default(),
        );
        let panicking = std::panic::AssertUnwindSafe(|| {
            cache.get(path, || -> Result<CachedRepository, Error> { panic!() })
        });
        std::panic::catch_unwind(panicking).unwrap_err();
        cache.sweep();
        assert!(cache.lock().is_empty());
    }

    #[test]
    fn what_is_released_is_kept_by_its_users_alone() {
        let (repo, cache) = (settled_repo(), new_cache(RepositoryCacheSettings::default()));
        let path = Path::new("a");
        let user = cache.get(path, || open(&repo)).unwrap();
        cache.release(path);
        cache.release(Path::new("absent"));
        assert_eq!((Arc::strong_count(&user), cache.open_now()), (1, 0));
        assert!(cache.lock().is_empty());
        cache.get(path, || open(&repo)).unwrap();
        assert_eq!(cache.open_now(), 1);
    }

    #[test]
    fn the_longest_unused_go() {
        let (one, two) = (settled_repo(), settled_repo());
        let check = |settings: RepositoryCacheSettings, expect: &[&str]| {
            let cache = new_cache(settings);
            for (path, repo) in [("one", &one), ("two", &two), ("one", &one), ("three", &two)] {
                let repository = cache.get(Path::new(path), || open(repo)).unwrap();
                // Opens the packs.
                assert!(!repository.cached_snapshot().unwrap().packs().is_empty());
            }
            let mut paths: Vec<PathBuf> = cache.lock().keys().cloned().collect();
            paths.sort();
            assert_eq!(paths, expect.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        let settings = RepositoryCacheSettings::default();
        check(settings.clone(), &["one", "three", "two"]);
        check(RepositoryCacheSettings { max_repositories: 2, ..settings.clone() }, &["one", "three"]);
        check(RepositoryCacheSettings { max_repositories: 1, ..settings.clone() }, &["three"]);
        let packs = one.path().join("objects/pack").read_dir().unwrap();
        let packs =
            packs.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "pack")).count();
        assert!(packs > 0);
        check(RepositoryCacheSettings { max_packs: packs, ..settings }, &["one", "three"]);
    }

    #[test]
    fn a_sweep_drops_what_is_idle_or_has_changed() {
        let (one, two) = (settled_repo(), settled_repo());
        let idle_time = Duration::from_secs(3600);
        let long_lived =
            new_cache(RepositoryCacheSettings { idle_time, ..RepositoryCacheSettings::default() });
        long_lived.get(Path::new("one"), || open(&one)).unwrap();
        let repository = Arc::downgrade(&long_lived.get(Path::new("two"), || open(&two)).unwrap());
        long_lived.sweep();
        assert_eq!(long_lived.open_now(), 2);
        two.git(&["repack", "-adq"]);
        long_lived.sweep();
        assert_eq!(long_lived.open_now(), 1);
        assert_eq!(repository.strong_count(), 0);
        let short_lived = new_cache(RepositoryCacheSettings {
            idle_time: Duration::ZERO,
            ..RepositoryCacheSettings::default()
        });
        short_lived.get(Path::new("one"), || open(&one)).unwrap();
        short_lived.sweep();
        assert!(short_lived.lock().is_empty());
    }
}
