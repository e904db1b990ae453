//! Writes a journal: one process, whose threads share syncs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use packrace_os::count::Role;
use packrace_os::durable::{self, LogFile};
use packrace_os::is_absent;

use crate::announcement::{self, Unfinished};
use crate::event::JournalEvent;
use crate::segments::{Segment, heads, list, tail};

/// Extra space per event: the recorded lines may differ a little from the announced ones.
const SPARE_BYTES: u64 = 4 << 10;

/// A number with as many digits as any.
const LARGEST: u64 = u64::MAX / 2;

/// Disk space is reserved in steps of this size.
const RESERVED_AT_ONCE: u64 = 256 << 10;

/// A segment spans at most this fraction of the maximum age.
const SEGMENTS_AN_AGE: u32 = 8;

/// Sizes and ages of a journal's segments. Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// When a segment has this many bytes, the next one begins.
    pub segment_bytes: u64,
    /// Maximum bytes of all segments; beyond it the oldest are deleted, but never the last.
    pub max_bytes: u64,
    /// Segments whose last line is this old are deleted; zero: never.
    pub max_age: Duration,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            segment_bytes: 16 << 20,
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// Why the journal does not accept an event.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file or directory, and the error.
    #[error("event journal: {0}")]
    Disk(String),
    /// Another process writes the journal.
    #[error("event journal: {0}: in use by another process")]
    InUse(String),
    /// An earlier failure; see the log.
    #[error("event journal failed; restart the server: {0}")]
    Failed(String),
}

impl JournalError {
    fn disk(path: &Path, error: &io::Error) -> Self {
        JournalError::Disk(format!("{}: {error}", path.display()))
    }
}

/// An announced event. Dropped without a record, it stays for the next start.
#[derive(Debug)]
pub struct Announced {
    journal: Arc<Journal>,
    path: PathBuf,
    /// The space reserved for its lines.
    bytes: u64,
}

impl Announced {
    /// Removes the announcement: nothing changed.
    pub fn cancel(self) {
        announcement::remove(&self.path);
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.journal.give_back(self.bytes);
    }
}

/// Called with the number of the last durable line.
type OnDurable = dyn Fn(u64) + Send + Sync;

/// A journal that this process writes.
pub struct Journal {
    dir: PathBuf,
    options: JournalOptions,
    /// Held while the journal is open.
    _lock: LogFile,
    state: Mutex<JournalState>,
    /// Signals the end of a sync.
    synced: Condvar,
    announcements: AtomicU64,
    syncs: AtomicU64,
    on_durable: Box<OnDurable>,
}

#[derive(Debug)]
struct JournalState {
    segment: Segment,
    file: Arc<LogFile>,
    began: Instant,
    /// Bytes of written lines.
    length: u64,
    /// Disk space is reserved up to here.
    allocated: u64,
    /// Space reserved by announcements.
    reserved: u64,
    /// The numbers of the last written and the last durable line.
    written: u64,
    durable: u64,
    is_syncing: bool,
    failed: Option<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal in a directory, which is created if missing. Begins a segment, and cuts off lines at
    /// the end of the last one that were never reported. Also returns announcements without a line.
    pub fn open(
        dir: &Path,
        options: JournalOptions,
        on_durable: Box<OnDurable>,
    ) -> Result<(Arc<Self>, Vec<Unfinished>), JournalError> {
        let failed = |error: io::Error| JournalError::disk(dir, &error);
        durable::make_dir(dir, |mode| mode & !0o007, Role::Config).map_err(failed)?;
        let lock = LogFile::open_or_create(&dir.join("lock"), 0o600, Role::Config).map_err(failed)?;
        if !lock.lock_alone().map_err(failed)? {
            return Err(JournalError::InUse(dir.display().to_string()));
        }
        let segments = list(dir).map_err(failed)?;
        let next = match segments.last() {
            Some(last) => end_of(last).map_err(|error| JournalError::disk(&last.path, &error))?,
            None => 1,
        };
        let segment = Segment::new(dir, next);
        let file = LogFile::open_or_create(&segment.path, 0o640, Role::Config);
        let file = file.map_err(|error| JournalError::disk(&segment.path, &error))?;
        durable::sync_dir(dir, Role::Config).map_err(failed)?;
        let (mut unfinished, number) = announcement::left(dir).map_err(failed)?;
        drop_recorded(&segments, &mut unfinished).map_err(failed)?;
        let journal = Journal {
            dir: dir.to_owned(),
            options,
            _lock: lock,
            state: Mutex::new(JournalState {
                segment,
                file: Arc::new(file),
                began: Instant::now(),
                length: 0,
                allocated: 0,
                reserved: 0,
                written: next - 1,
                durable: next - 1,
                is_syncing: false,
                failed: None,
            }),
            synced: Condvar::new(),
            announcements: AtomicU64::new(number),
            syncs: AtomicU64::new(0),
            on_durable,
        };
        (journal.on_durable)(next - 1);
        journal.expire();
        Ok((Arc::new(journal), unfinished))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of the last durable line.
    pub fn durable(&self) -> u64 {
        self.state().durable
    }

    /// The number of syncs.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Relaxed)
    }

    /// The failure that stopped the journal, if any.
    pub fn failure(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// Announces a change before it happens: reserves disk space for its lines. If this fails, the change
    /// must not happen.
    pub fn announce(self: &Arc<Self>, event: &JournalEvent) -> Result<Announced, JournalError> {
        let mut lines = Vec::new();
        event.write(LARGEST, &mut lines);
        let bytes = lines.len() as u64 + SPARE_BYTES;
        self.reserve(bytes)?;
        let number = self.announcements.fetch_add(1, Relaxed);
        let path = announcement::path(&self.dir, number);
        // Releases its space when dropped.
        let announced = Announced { journal: self.clone(), path, bytes };
        match announcement::write(&announced.path, event) {
            Ok(()) => Ok(announced),
            Err(error) => Err(JournalError::disk(&announced.path, &error)),
        }
    }

    /// Records what changed; the lines are durable on return. Returns the number of the last one.
    pub fn record(&self, announced: Announced, event: &JournalEvent) -> Result<u64, JournalError> {
        let seq = self.append(event)?;
        announcement::remove(&announced.path);
        Ok(seq)
    }

    /// Records the outcome of an event that an earlier process announced; `None` if nothing changed.
    pub fn resolve(&self, unfinished: Unfinished, event: Option<&JournalEvent>) -> Result<(), JournalError> {
        if let Some(event) = event {
            let mut lines = Vec::new();
            event.write(LARGEST, &mut lines);
            self.reserve(lines.len() as u64)?;
            self.give_back(lines.len() as u64);
            self.append(event)?;
        }
        announcement::remove(&unfinished.path);
        Ok(())
    }

    /// Removes segments beyond the size or age limit.
    pub fn expire(&self) {
        let keep = self.state().segment.first;
        if let Err(error) = remove_old(&self.dir, keep, self.options) {
            tracing::warn!("event journal: {}: {error}", self.dir.display());
        }
    }

    /// Releases the space of an announcement.
    fn give_back(&self, bytes: u64) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(bytes);
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves disk space for `bytes` more; begins a segment if the current one is full or old.
    fn reserve(&self, bytes: u64) -> Result<(), JournalError> {
        let mut state = self.state();
        state.check()?;
        let max_age = self.options.max_age / SEGMENTS_AN_AGE;
        let is_old = !max_age.is_zero() && state.began.elapsed() >= max_age;
        if state.length > 0 && (state.length >= self.options.segment_bytes || is_old) {
            self.rotate(&mut state)?;
            drop(state);
            self.expire();
            state = self.state();
            state.check()?;
        }
        state.reserve(bytes)?;
        state.reserved += bytes;
        Ok(())
    }

    fn rotate(&self, state: &mut JournalState) -> Result<(), JournalError> {
        let next = Segment::new(&self.dir, state.written + 1);
        let failed = |error: io::Error| JournalError::disk(&next.path, &error);
        let file = LogFile::open_or_create(&next.path, 0o640, Role::Config).map_err(failed)?;
        durable::sync_dir(&self.dir, Role::Config).map_err(failed)?;
        // Lines become durable in order.
        if let Err(error) = state.file.sync() {
            return Err(state.fail(&error));
        }
        self.syncs.fetch_add(1, Relaxed);
        // Releases reserved space; announced events reserve theirs again in the new segment.
        if let Err(error) = state.file.truncate(state.length) {
            tracing::warn!("cannot truncate {}: {error}", state.segment.path.display());
        }
        (state.segment, state.file, state.began) = (next, Arc::new(file), Instant::now());
        (state.length, state.allocated, state.durable) = (0, 0, state.written);
        (self.on_durable)(state.durable);
        self.synced.notify_all();
        state.reserve(0)
    }

    /// Writes the lines of an event and waits until they are durable.
    fn append(&self, event: &JournalEvent) -> Result<u64, JournalError> {
        let mut state = self.state();
        state.check()?;
        let mut lines = Vec::new();
        let count = event.write(state.written + 1, &mut lines);
        // A hook may have changed more than was announced.
        state.reserve_more(lines.len() as u64);
        if let Err(error) = state.file.write_at(state.length, &lines) {
            // A partial write must not look like a line.
            let _ = state.file.truncate(state.length);
            return Err(state.fail(&error));
        }
        state.length += lines.len() as u64;
        state.written += count;
        let last = state.written;
        self.wait_until_durable(state, last)?;
        Ok(last)
    }

    /// One waiting thread syncs for all threads whose lines are written by then.
    fn wait_until_durable<'a>(
        &'a self,
        mut state: MutexGuard<'a, JournalState>,
        seq: u64,
    ) -> Result<(), JournalError> {
        loop {
            if state.durable >= seq {
                return Ok(());
            }
            state.check()?;
            if state.is_syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let (file, written) = (state.file.clone(), state.written);
            drop(state);
            let result = file.sync();
            self.syncs.fetch_add(1, Relaxed);
            state = self.state();
            state.is_syncing = false;
            match result {
                Ok(()) => {
                    state.durable = state.durable.max(written);
                    (self.on_durable)(state.durable);
                }
                Err(error) => drop(state.fail(&error)),
            }
            self.synced.notify_all();
        }
    }
}

impl JournalState {
    fn check(&self) -> Result<(), JournalError> {
        self.failed.clone().map_or(Ok(()), |why| Err(JournalError::Failed(why)))
    }

    /// Stops the journal: the content of the disk is unknown.
    fn fail(&mut self, error: &io::Error) -> JournalError {
        let why = format!("{}: {error}", self.segment.path.display());
        tracing::error!("event journal failed; all pushes are refused until the server restarts: {why}");
        self.failed.get_or_insert(why.clone());
        JournalError::Failed(why)
    }

    /// Tries to reserve space for lines that are longer than all reservations.
    fn reserve_more(&mut self, bytes: u64) {
        if let Err(error) = self.reserve(bytes.saturating_sub(self.reserved)) {
            tracing::warn!("{error}");
        }
    }

    /// Ensures space for `bytes` beyond existing reservations.
    fn reserve(&mut self, bytes: u64) -> Result<(), JournalError> {
        let needed = self.length + self.reserved + bytes;
        if needed <= self.allocated {
            return Ok(());
        }
        let wanted = [needed + RESERVED_AT_ONCE, needed];
        let mut taken = Ok(false);
        for wanted in wanted {
            taken = self.file.reserve(self.length, wanted - self.length);
            if taken.is_ok() {
                self.allocated = wanted;
                break;
            }
        }
        taken.map(drop).map_err(|error| JournalError::disk(&self.segment.path, &error))
    }
}

/// Cuts off unreported lines at the end of a segment, and returns the number of the next line.
fn end_of(segment: &Segment) -> io::Result<u64> {
    let tail = tail(segment)?;
    if tail.damaged > 0 {
        let path = segment.path.display();
        tracing::error!("{path}: skipped {} damaged lines; these events are lost", tail.damaged);
    }
    let length = segment.size_and_time()?.map_or(0, |(length, _)| length);
    if length != tail.length {
        let cut = length.saturating_sub(tail.length);
        tracing::warn!("{}: removed an unacknowledged tail of {cut} bytes", segment.path.display());
        let file = LogFile::open(&segment.path, Role::Config)?;
        file.truncate(tail.length)?;
        file.sync()?;
    }
    Ok(tail.next)
}

/// Removes announcements that have a line: a power cut may bring an announcement back.
fn drop_recorded(segments: &[Segment], unfinished: &mut Vec<Unfinished>) -> io::Result<()> {
    let mut oldest = SystemTime::now();
    for one in &*unfinished {
        oldest = oldest.min(std::fs::metadata(&one.path)?.modified()?);
    }
    let mut recorded = std::collections::HashSet::new();
    for segment in segments.iter().filter(|_| !unfinished.is_empty()) {
        if segment.size_and_time()?.is_some_and(|(_, written)| written >= oldest) {
            heads(segment, &mut |head| {
                if unfinished.iter().any(|one| one.event.session == head.session) {
                    recorded.insert((head.session, head.event));
                }
            })?;
        }
    }
    unfinished.retain(|one| {
        let has_line = recorded.contains(&(one.event.session.clone(), one.event.action));
        if has_line {
            announcement::remove(&one.path);
        }
        !has_line
    });
    Ok(())
}

fn remove_old(dir: &Path, keep: u64, options: JournalOptions) -> io::Result<()> {
    let mut segments = Vec::new();
    for segment in list(dir)? {
        segments.extend(segment.size_and_time()?.map(|(length, written)| (segment, length, written)));
    }
    let mut bytes: u64 = segments.iter().map(|(_, length, _)| length).sum();
    let now = SystemTime::now();
    for (segment, length, written) in segments.into_iter().filter(|(segment, ..)| segment.first < keep) {
        let is_old =
            !options.max_age.is_zero() && now.duration_since(written).is_ok_and(|age| age >= options.max_age);
        if bytes <= options.max_bytes && !is_old && length > 0 {
            break;
        }
        match durable::remove_file(&segment.path, Role::Config) {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => bytes -= length,
        }
    }
    Ok(())
}
