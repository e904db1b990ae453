//! A store in memory with faults by seed: lost connections, responses lost after a write took effect, delayed
//! writes, errors, truncated ranges. It also imitates stores that cannot be used.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use packrace_testkit::Random;

use super::{Condition, KeyPage, Looked, ObjectBackend, ObjectVersion, RequestFailure};

/// Keys on a page of a list: few, so that there are several pages.
const KEYS_A_PAGE: usize = 3;

/// How long a request takes while the store is away. No time passes otherwise.
const SILENT_TIME: Duration = Duration::from_secs(10);

/// Faults per thousand requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    /// The connection breaks before the request arrives.
    pub lost_before: usize,
    /// A write takes effect, but its response is lost.
    pub lost_after: usize,
    /// A write gets no response; it takes effect later, if its condition holds then.
    pub late: usize,
    /// The store is busy (503).
    pub busy: usize,
    /// A range is shorter than requested.
    pub cut: usize,
}

/// Why a store cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFlaw {
    /// Another write can come between the check of a condition and the write.
    NotAtomic,
    /// Conditions of writes are ignored.
    IgnoresConditions,
    /// Unchanged objects are sent.
    NeverUnchanged,
    /// Ranges are ignored: whole objects are sent.
    IgnoresRanges,
    /// Only ETags without quotes match.
    WantsUnquoted,
}

/// Work to do before a read is served.
type Interruption = Box<dyn FnOnce() + Send>;

/// A store in memory.
pub struct Double {
    state: Mutex<State>,
    flaw: Option<StoreFlaw>,
    before_reads: Mutex<VecDeque<Interruption>>,
    parallel_reads: AtomicUsize,
}

impl std::fmt::Debug for Double {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Double").field("state", &self.state).field("flaw", &self.flaw).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<String, (Bytes, u64)>,
    late: Vec<LateWrite>,
    writes: u64,
    random: Random,
    now: Duration,
    is_away: bool,
    /// Requests until the store is away.
    left: Option<usize>,
    rates: FaultRates,
}

#[derive(Debug)]
struct LateWrite {
    key: String,
    bytes: Bytes,
    condition: LateCondition,
}

#[derive(Debug)]
enum LateCondition {
    Always,
    IsAbsent,
    Is(ObjectVersion),
    /// A deletion, not a write.
    Deletes,
}

impl State {
    fn is_hit(&mut self, rate: impl Fn(&FaultRates) -> usize) -> bool {
        let rate = rate(&self.rates);
        rate > 0 && self.random.below(1000) < rate
    }

    fn store(&mut self, key: &str, bytes: Bytes) -> ObjectVersion {
        self.writes += 1;
        self.objects.insert(key.to_owned(), (bytes, self.writes));
        tag(self.writes)
    }

    /// Lets some of the delayed writes take effect.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.late);
        for late in waiting {
            if self.random.below(1000) < 700 {
                self.late.push(late);
                continue;
            }
            let found = self.objects.get(&late.key).map(|(_, number)| tag(*number));
            let holds = match &late.condition {
                LateCondition::Always => true,
                LateCondition::IsAbsent => found.is_none(),
                LateCondition::Is(version) => found.as_ref() == Some(version),
                LateCondition::Deletes => {
                    self.objects.remove(&late.key);
                    false
                }
            };
            if holds {
                self.store(&late.key, late.bytes);
            }
        }
    }
}

fn tag(number: u64) -> ObjectVersion {
    ObjectVersion(format!("\"{number:x}\""))
}

impl Double {
    /// An empty store without faults.
    pub fn new() -> Self {
        Double::with_faults(0, FaultRates::default())
    }

    /// An empty store with these faults.
    pub fn with_faults(seed: u64, rates: FaultRates) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            late: Vec::new(),
            writes: 0,
            random: Random::new(seed),
            now: Duration::ZERO,
            is_away: false,
            left: None,
            rates,
        };
        Double {
            state: Mutex::new(state),
            flaw: None,
            before_reads: Mutex::default(),
            parallel_reads: AtomicUsize::new(1),
        }
    }

    /// An empty store with a flaw.
    pub fn flawed(flaw: StoreFlaw) -> Self {
        Double { flaw: Some(flaw), ..Double::new() }
    }

    /// Makes the store respond to no request, or respond again.
    pub fn set_away(&self, is_away: bool) {
        let mut state = self.lock();
        (state.is_away, state.left) = (is_away, None);
    }

    /// Makes the store go away after this many more requests.
    pub fn leave_after(&self, requests: usize) {
        self.lock().left = Some(requests);
    }

    /// Changes the fault rates.
    pub fn set_rates(&self, rates: FaultRates) {
        self.lock().rates = rates;
    }

    /// Queues work to do before a range is read, one item per read: the reader sleeps meanwhile.
    pub fn before_read(&self, work: impl FnOnce() + Send + 'static) {
        self.before_reads.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(work));
    }

    /// Sets the number of concurrent range reads of one repository; initially one.
    pub fn set_parallel_reads(&self, count: usize) {
        self.parallel_reads.store(count, Relaxed);
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// The bytes of an object.
    pub fn object(&self, key: &str) -> Option<Bytes> {
        self.lock().objects.get(key).map(|(bytes, _)| bytes.clone())
    }

    /// Stores an object, as no client would.
    pub fn damage(&self, key: &str, bytes: impl Into<Bytes>) {
        self.lock().store(key, bytes.into());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request, unless a fault prevents it.
    fn begin(&self) -> Result<MutexGuard<'_, State>, RequestFailure> {
        let mut state = self.lock();
        state.settle();
        state.is_away |= state.left == Some(0);
        state.left = state.left.map(|left| left.saturating_sub(1));
        if state.is_away {
            state.now += SILENT_TIME;
            return Err(RequestFailure::passing("no answer in 10 s"));
        }
        if state.is_hit(|rates| rates.lost_before) {
            return Err(RequestFailure::passing("the connection broke"));
        }
        match state.is_hit(|rates| rates.busy) {
            true => Err(RequestFailure::passing("503 Slow Down")),
            false => Ok(state),
        }
    }

    fn matches(&self, version: &ObjectVersion, number: u64) -> bool {
        match self.flaw {
            Some(StoreFlaw::WantsUnquoted) => *version == tag(number).unquoted(),
            _ => *version == tag(number),
        }
    }
}

impl Default for Double {
    fn default() -> Self {
        Double::new()
    }
}

impl ObjectBackend for Double {
    fn look(
        &self,
        key: &str,
        known: Option<&ObjectVersion>,
        max_bytes: usize,
    ) -> Result<Looked, RequestFailure> {
        let state = self.begin()?;
        let Some((bytes, number)) = state.objects.get(key) else { return Ok(Looked::Absent) };
        let never_unchanged = self.flaw == Some(StoreFlaw::NeverUnchanged);
        if known.is_some_and(|known| *known == tag(*number)) && !never_unchanged {
            return Ok(Looked::Unchanged);
        }
        match bytes.len() <= max_bytes {
            true => Ok(Looked::Found(bytes.clone(), tag(*number))),
            false => Err(RequestFailure::lasting("an object is longer than it may be")),
        }
    }

    fn read(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, RequestFailure> {
        let work = self.before_reads.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        work.into_iter().for_each(|work| work());
        let mut state = self.begin()?;
        let is_cut = state.is_hit(|rates| rates.cut);
        let Some((bytes, _)) = state.objects.get(key) else { return Ok(None) };
        if self.flaw == Some(StoreFlaw::IgnoresRanges) {
            return Ok(Some(bytes.clone()));
        }
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (clamp(range.start), clamp(range.end));
        let end = if is_cut { start + (end - start) / 2 } else { end };
        Ok(Some(bytes.slice(start..end)))
    }

    fn write(
        &self,
        key: &str,
        bytes: Bytes,
        condition: Condition<'_>,
    ) -> Result<Option<ObjectVersion>, RequestFailure> {
        let mut state = self.begin()?;
        if state.is_hit(|rates| rates.late) {
            let condition = match condition {
                Condition::Always => LateCondition::Always,
                Condition::IsAbsent => LateCondition::IsAbsent,
                Condition::Is(version) => LateCondition::Is(version.clone()),
            };
            state.late.push(LateWrite { key: key.to_owned(), bytes, condition });
            return Err(RequestFailure::passing("no answer in 10 s"));
        }
        let found = state.objects.get(key).map(|(_, number)| *number);
        let holds = match condition {
            _ if self.flaw == Some(StoreFlaw::IgnoresConditions) => true,
            Condition::Always => true,
            Condition::IsAbsent => found.is_none(),
            Condition::Is(version) => found.is_some_and(|number| self.matches(version, number)),
        };
        if !holds {
            return Ok(None);
        }
        if self.flaw == Some(StoreFlaw::NotAtomic) {
            drop(state);
            (0..10).for_each(|_| std::thread::yield_now());
            state = self.lock();
        }
        let version = state.store(key, bytes);
        match state.is_hit(|rates| rates.lost_after) {
            true => Err(RequestFailure::passing("no answer in 10 s")),
            false => Ok(Some(version)),
        }
    }

    fn write_parts(
        &self,
        key: &str,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, RequestFailure>,
    ) -> Result<(), RequestFailure> {
        let mut bytes = Vec::new();
        while let Some(part) = part()? {
            bytes.extend_from_slice(&part);
        }
        self.begin()?.store(key, bytes.into());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), RequestFailure> {
        let mut state = self.begin()?;
        if state.is_hit(|rates| rates.late) {
            let late =
                LateWrite { key: key.to_owned(), bytes: Bytes::new(), condition: LateCondition::Deletes };
            state.late.push(late);
            return Err(RequestFailure::passing("no answer in 10 s"));
        }
        state.objects.remove(key);
        Ok(())
    }

    fn list(&self, prefix: &str, page: Option<&str>) -> Result<KeyPage, RequestFailure> {
        let state = self.begin()?;
        let wanted = state.objects.keys().filter(|key| key.starts_with(prefix));
        let mut rest = wanted.filter(|key| page.is_none_or(|last| key.as_str() > last)).cloned();
        let keys: Vec<String> = rest.by_ref().take(KEYS_A_PAGE).collect();
        let next = rest.next().and_then(|_| keys.last().cloned());
        Ok(KeyPage { keys, next })
    }

    /// One by default: faults follow the seed only if requests have a fixed order.
    fn parallel_reads(&self) -> usize {
        self.parallel_reads.load(Relaxed)
    }

    fn pause(&self, _: Duration) {}

    fn now(&self) -> Duration {
        self.lock().now
    }
}
