//! A pack that one worker makes and any number of readers share.
//!
//! ```text
//!            first                                            end, where the worker appends
//!              │ piece │ piece │ piece │ piece │ piece │ piece │
//!                          ▲                       ▲
//!                    a slow reader           the fastest: the worker is so many pieces ahead of it and no more
//! ```
//!
//! Pieces are ranges of mapped packs, which take no memory, of the spool, or of chunks that readers share. Readers
//! take them at their own pace and frame them themselves; nothing is copied for a reader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use packrace_os::clock::{Clock as _, RealClock};
use packrace_os::{Mapped, faults};
use packrace_pack::generate::Segment;
use packrace_pack::{Phase, Totals};

use super::budget::{ByteBudget, Charge};
use crate::check_intervals::CLIENT_CHECK_INTERVAL;
use crate::error::Error;

/// Bounds of one generation. Plain data.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Pieces that the worker may be ahead of the fastest reader.
    pub(super) lead_pieces: u64,
    /// Bytes in memory that it may be ahead; one piece is always allowed, however large.
    pub(super) lead_bytes: u64,
    /// Bytes in memory from the first byte on, before they go to disk or are not kept. More than
    /// `lead_bytes`, so that simultaneous requests can join.
    pub(super) kept_bytes: u64,
    /// Bytes in memory between the slowest reader and the worker, if nothing is kept.
    pub(super) held_bytes: u64,
    /// How long in total the worker waits for readers that hold more than that. After that they have lagged
    /// and get no more.
    pub(super) patience: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            lead_pieces: 16,
            lead_bytes: 4 << 20,
            kept_bytes: 8 << 20,
            held_bytes: 8 << 20,
            patience: Duration::from_secs(10),
        }
    }
}

/// A contiguous part of the pack.
#[derive(Debug)]
pub(super) struct PackPiece {
    pub(super) segment: Segment,
    /// The memory it takes, without its place in the list: 0 for a range of a file.
    pub(super) own_bytes: u64,
    /// The memory that it and all pieces before it took when they were made.
    made_bytes: u64,
}

impl PackPiece {
    pub(super) fn new(segment: Segment, own_bytes: u64) -> Self {
        PackPiece { segment, own_bytes, made_bytes: 0 }
    }

    pub(super) fn cost(&self) -> u64 {
        self.own_bytes + PackPiece::LISTED_BYTES
    }

    /// The memory of a place in the list.
    pub(super) const LISTED_BYTES: u64 = size_of::<PackPiece>() as u64;
}

/// What happens to pieces that all readers have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// They are kept in memory, from the first one on.
    Memory,
    /// The same, but their bytes are in the spool, except the last ones.
    Disk,
    /// They are dropped. No more readers can join.
    Nothing,
}

/// A pack that is made once, for any number of readers.
#[derive(Debug)]
pub(super) struct SharedPack {
    bounds: Bounds,
    state: Mutex<SharedPackState>,
    /// Notified when there is something new for readers.
    pub(super) for_readers: Condvar,
    /// Notified when a reader has taken a piece, or left.
    pub(super) for_worker: Condvar,
    /// Whether all readers left before the end.
    pub(super) cancelled: AtomicBool,
    /// A reader has waited for long: the generator appends its chunk, however short.
    pub(super) flush_requested: AtomicBool,
    pub(super) worker: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
pub(super) struct SharedPackState {
    pub(super) pieces: VecDeque<PackPiece>,
    /// The number of the first piece.
    pub(super) first: u64,
    pub(super) keeping: Keeping,
    /// Whether the pack was requested a second time, here or shortly before.
    pub(super) was_asked_again: bool,
    /// What is kept in memory and on disk.
    pub(super) memory: Charge,
    pub(super) disk: Charge,
    /// The memory of `pieces`.
    held_bytes: u64,
    /// The memory of all pieces ever made.
    made_bytes: u64,
    /// The position of each reader.
    pub(super) readers: BTreeMap<u64, Position>,
    next_reader: u64,
    /// How many readers wait for something new.
    pub(super) waiting_readers: usize,
    /// Whether the worker waits for room.
    pub(super) is_worker_waiting: bool,
    /// How long in total the worker has waited for slow readers.
    waited: Duration,
    /// The last report of each phase so far.
    pub(super) phases: Vec<Report>,
    /// How many reports there were.
    pub(super) reports: u64,
    pub(super) end: Option<Result<Totals, Error>>,
}

/// How far a reader is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    pub(super) pieces: u64,
    /// The memory of the pieces it has taken, when they were made.
    pub(super) bytes: u64,
}

/// The progress of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) phase: Phase,
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) number: u64,
}

impl SharedPack {
    /// A pack without worker and readers.
    pub(super) fn new(
        bounds: Bounds,
        keeping: Keeping,
        memory: &Arc<ByteBudget>,
        disk: &Arc<ByteBudget>,
    ) -> Arc<Self> {
        let state = SharedPackState {
            pieces: VecDeque::new(),
            first: 0,
            keeping,
            was_asked_again: false,
            memory: Charge::new(memory),
            disk: Charge::new(disk),
            held_bytes: 0,
            made_bytes: 0,
            readers: BTreeMap::new(),
            next_reader: 0,
            waiting_readers: 0,
            is_worker_waiting: false,
            waited: Duration::ZERO,
            phases: Vec::new(),
            reports: 0,
            end: None,
        };
        Arc::new(SharedPack {
            bounds,
            state: Mutex::new(state),
            for_readers: Condvar::new(),
            for_worker: Condvar::new(),
            cancelled: AtomicBool::new(false),
            flush_requested: AtomicBool::new(false),
            worker: Mutex::new(None),
        })
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SharedPackState> {
        self.state.lock().expect("no panic while held")
    }

    /// A reader at the first byte, if that is still held; and whether the pack is complete.
    pub(super) fn join(&self) -> Option<(u64, bool)> {
        let mut state = self.lock();
        let has_failed = matches!(state.end, Some(Err(_)));
        if state.keeping == Keeping::Nothing || has_failed || self.is_cancelled() || state.is_damaged() {
            return None;
        }
        state.was_asked_again = true;
        let is_complete = state.end.is_some();
        Some((state.seat(), is_complete))
    }

    /// The number of the first reader.
    pub(super) fn first_reader(&self) -> u64 {
        self.lock().seat()
    }

    /// Whether the pack has neither readers nor a producer.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.readers.is_empty() && state.end.is_some()
    }

    /// The kept bytes in memory and on disk.
    pub(super) fn kept_bytes(&self) -> (u64, u64) {
        let state = self.lock();
        (state.memory.bytes(), state.disk.bytes())
    }

    pub(super) fn set_worker(&self, worker: JoinHandle<()>) {
        *self.worker.lock().expect("no panic while held") = Some(worker);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Reports progress to all readers. They look when they have nothing else to do, and are not woken.
    pub(super) fn report(&self, phase: Phase, done: u64, total: u64) {
        let mut state = self.lock();
        state.reports += 1;
        let news = Report { phase, done, total, number: state.reports };
        match state.phases.iter_mut().find(|known| known.phase == phase) {
            Some(known) => *known = news,
            None => state.phases.push(news),
        }
    }

    /// Appends a piece once there is room. False if the pack is cancelled.
    pub(super) fn append(&self, piece: PackPiece) -> bool {
        let clock = RealClock::default();
        let mut state = self.lock();
        while !self.is_cancelled() {
            let obstacle = state.obstacle(&self.bounds);
            let wait = match obstacle {
                None => {
                    state.push(piece);
                    self.wake_readers(state);
                    return true;
                }
                Some(Obstacle::AheadOfAll) => CLIENT_CHECK_INTERVAL,
                Some(Obstacle::SlowReaders) => self.bounds.patience - state.waited,
            };
            if wait.is_zero() {
                state.drop_for_laggards(&self.bounds);
                continue;
            }
            let since = clock.now();
            state.is_worker_waiting = true;
            let woken = self.for_worker.wait_timeout(state, wait.min(CLIENT_CHECK_INTERVAL));
            state = woken.expect("no panic while held").0;
            state.is_worker_waiting = false;
            if obstacle == Some(Obstacle::SlowReaders) {
                state.waited = self.bounds.patience.min(state.waited + clock.now().saturating_sub(since));
            }
        }
        false
    }

    /// Ends the pack. False if it is not whole.
    pub(super) fn end(&self, result: Result<Totals, Error>) -> bool {
        let mut state = self.lock();
        // After its end it cannot be cancelled.
        let is_whole = result.is_ok() && !self.is_cancelled();
        state.end = Some(result);
        self.wake_readers(state);
        is_whole
    }

    fn wake_readers(&self, state: MutexGuard<'_, SharedPackState>) {
        let is_awaited = state.waiting_readers > 0;
        drop(state);
        if is_awaited {
            self.for_readers.notify_all();
        }
    }
}

/// Why no piece may be appended now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The worker is too far ahead of all readers.
    AheadOfAll,
    /// Some readers are so far behind that they hold too much memory.
    SlowReaders,
}

impl SharedPackState {
    /// Adds a reader at the first byte; returns its number.
    fn seat(&mut self) -> u64 {
        let number = self.next_reader;
        self.next_reader += 1;
        self.readers.insert(number, Position::default());
        number
    }

    /// Whether a fault occurred in a file that a piece is a range of.
    fn is_damaged(&self) -> bool {
        let is_damaged =
            |piece: &PackPiece| matches!(&piece.segment, Segment::Mapped(map, _) if map.is_damaged());
        // Pieces are searched only if any file was ever damaged.
        faults::damaged_maps() > 0 && self.pieces.iter().any(is_damaged)
    }

    /// The number of the next piece.
    pub(super) fn next_piece(&self) -> u64 {
        self.first + self.pieces.len() as u64
    }

    fn push(&mut self, mut piece: PackPiece) {
        self.held_bytes += piece.cost();
        self.made_bytes += piece.own_bytes;
        piece.made_bytes = self.made_bytes;
        self.pieces.push_back(piece);
    }

    /// The next piece for a reader, if it is there.
    pub(super) fn take(&mut self, reader: u64) -> Option<Segment> {
        let place = self.readers.get_mut(&reader)?;
        let piece = self.pieces.get(place.pieces.checked_sub(self.first)? as usize)?;
        *place = Position { pieces: place.pieces + 1, bytes: piece.made_bytes };
        let segment = piece.segment.clone();
        if self.keeping == Keeping::Nothing {
            self.drop_what_all_have();
        }
        Some(segment)
    }

    /// Releases the memory of a piece, whose bytes are in a file from now on.
    pub(super) fn replace(&mut self, number: u64, map: &Mapped, start: usize) {
        let Some(piece) = number.checked_sub(self.first).and_then(|at| self.pieces.get_mut(at as usize))
        else {
            return;
        };
        let length = piece.segment.bytes().len();
        piece.segment = Segment::Mapped(map.clone(), start..start + length);
        self.held_bytes -= std::mem::take(&mut piece.own_bytes);
    }

    /// From now on pieces that all readers have are dropped, and no reader can join.
    pub(super) fn keep_nothing(&mut self) {
        self.keeping = Keeping::Nothing;
        self.memory.shrink(u64::MAX);
        self.drop_what_all_have();
    }

    fn obstacle(&self, bounds: &Bounds) -> Option<Obstacle> {
        let fastest = self.fastest();
        let ahead = self.next_piece() - fastest.pieces;
        let ahead_bytes = self.made_bytes - fastest.bytes;
        if ahead >= bounds.lead_pieces || (ahead > 0 && ahead_bytes >= bounds.lead_bytes) {
            return Some(Obstacle::AheadOfAll);
        }
        let is_full = self.keeping == Keeping::Nothing && self.held_bytes >= bounds.held_bytes;
        (is_full && self.first < fastest.pieces).then_some(Obstacle::SlowReaders)
    }

    /// The position of the fastest reader; the start if there is none.
    fn fastest(&self) -> Position {
        self.readers.values().copied().max_by_key(|place| place.pieces).unwrap_or_default()
    }

    /// Makes room at the cost of the slowest readers.
    fn drop_for_laggards(&mut self, bounds: &Bounds) {
        let fastest = self.fastest().pieces;
        while self.first < fastest && self.held_bytes >= bounds.held_bytes {
            self.drop_first();
        }
    }

    pub(super) fn drop_what_all_have(&mut self) {
        let next = self.next_piece();
        let still_there = self.readers.values().map(|place| place.pieces).filter(|at| *at >= self.first);
        let slowest = still_there.min().unwrap_or(next);
        while self.first < slowest {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(piece) = self.pieces.pop_front() {
            self.held_bytes -= piece.cost();
            self.first += 1;
        }
    }
}
