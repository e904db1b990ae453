//! A queue that admits requests in order of arrival, as far as limits allow.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::Admission;

/// Limits for what is admitted at the same time.
#[derive(Debug, Clone)]
pub(super) struct QueueLimits {
    pub(super) max_held: usize,
    pub(super) max_held_per_repository: usize,
    /// Units of all admitted requests. A single request is admitted whatever its units.
    pub(super) max_units: u64,
    pub(super) max_waiting: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits {
            max_held: usize::MAX,
            max_held_per_repository: usize::MAX,
            max_units: u64::MAX,
            max_waiting: usize::MAX,
        }
    }
}

/// A request for admission.
#[derive(Debug)]
pub(super) struct QueueRequest {
    pub(super) repository: PathBuf,
    pub(super) units: u64,
}

/// A queue, and what it has admitted.
#[derive(Debug, Default)]
pub(super) struct WaitQueue(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    limits: QueueLimits,
    held: usize,
    units: u64,
    by_repository: HashMap<PathBuf, usize>,
    waiting: VecDeque<Arc<Ticket>>,
}

/// A request in the queue. `is_admitted` changes while the state is locked.
#[derive(Debug)]
struct Ticket {
    request: QueueRequest,
    is_admitted: Mutex<bool>,
    wake: Condvar,
}

/// The right to run or to use memory, released when it is dropped.
#[derive(Debug)]
pub struct AdmissionPermit {
    queue: Arc<SharedQueue>,
    ticket: Arc<Ticket>,
}

/// A place in the queue, given up when it is dropped.
#[derive(Debug)]
pub struct Waiting {
    queue: Arc<SharedQueue>,
    /// `None` once it has become an [`AdmissionPermit`].
    ticket: Option<Arc<Ticket>>,
}

impl WaitQueue {
    pub(super) fn set_limits(&self, limits: QueueLimits) {
        let mut state = self.0.lock();
        state.limits = limits;
        state.admit();
    }

    pub(super) fn enter(&self, request: QueueRequest) -> Admission {
        let mut state = self.0.lock();
        let ticket = Arc::new(Ticket { request, is_admitted: Mutex::new(false), wake: Condvar::new() });
        state.waiting.push_back(ticket.clone());
        state.admit();
        if ticket.is_admitted() {
            return Admission::Admitted(AdmissionPermit { queue: self.0.clone(), ticket });
        }
        if state.waiting.len() > state.limits.max_waiting {
            state.waiting.pop_back();
            return Admission::QueueFull;
        }
        Admission::Queued(Waiting { queue: self.0.clone(), ticket: Some(ticket) })
    }

    /// Admits a request at once, past the queue.
    pub(super) fn take(&self, request: QueueRequest) -> AdmissionPermit {
        let ticket = Arc::new(Ticket { request, is_admitted: Mutex::new(true), wake: Condvar::new() });
        self.0.lock().hold(&ticket.request);
        AdmissionPermit { queue: self.0.clone(), ticket }
    }

    /// The numbers of admitted and of waiting requests.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.held, state.waiting.len())
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().expect("no panic while held")
    }
}

/// Whether a request can be admitted.
enum Fit {
    Yes,
    /// No, but requests for other repositories may be.
    RepositoryFull,
    /// No, and no later request may overtake it.
    Full,
}

impl QueueState {
    fn fit(&self, request: &QueueRequest) -> Fit {
        let limits = &self.limits;
        let units = self.units.saturating_add(request.units);
        if self.held >= limits.max_held || (self.held > 0 && units > limits.max_units) {
            return Fit::Full;
        }
        let of_repository = self.by_repository.get(&request.repository).copied().unwrap_or(0);
        if of_repository >= limits.max_held_per_repository { Fit::RepositoryFull } else { Fit::Yes }
    }

    /// Admits the requests that fit, in order of arrival.
    fn admit(&mut self) {
        let mut at = 0;
        while let Some(ticket) = self.waiting.get(at) {
            match self.fit(&ticket.request) {
                Fit::Full => return,
                Fit::RepositoryFull => at += 1,
                Fit::Yes => {
                    let Some(ticket) = self.waiting.remove(at) else { return };
                    self.hold(&ticket.request);
                    *ticket.is_admitted.lock().expect("no panic while held") = true;
                    ticket.wake.notify_one();
                }
            }
        }
    }

    fn hold(&mut self, request: &QueueRequest) {
        self.held += 1;
        self.units = self.units.saturating_add(request.units);
        *self.by_repository.entry(request.repository.clone()).or_default() += 1;
    }

    fn give_back(&mut self, request: &QueueRequest) {
        self.held -= 1;
        self.units = self.units.saturating_sub(request.units);
        if let Some(held) = self.by_repository.get_mut(&request.repository) {
            *held -= 1;
            if *held == 0 {
                self.by_repository.remove(&request.repository);
            }
        }
        self.admit();
    }
}

impl Ticket {
    fn is_admitted(&self) -> bool {
        *self.is_admitted.lock().expect("no panic while held")
    }
}

impl Waiting {
    /// Waits for a while; returns at once when it is admitted.
    pub fn wait(mut self, limit: Duration) -> Result<AdmissionPermit, Waiting> {
        let Some(ticket) = self.ticket.take() else { return Err(self) };
        let is_admitted = ticket.is_admitted.lock().expect("no panic while held");
        let waited = ticket.wake.wait_timeout_while(is_admitted, limit, |is_admitted| !*is_admitted);
        let is_admitted = *waited.expect("no panic while held").0;
        if is_admitted {
            return Ok(AdmissionPermit { queue: self.queue.clone(), ticket });
        }
        self.ticket = Some(ticket);
        Err(self)
    }

    /// How many requests are ahead of this one.
    pub fn ahead(&self) -> usize {
        let state = self.queue.lock();
        let is_this = |other: &Arc<Ticket>| self.ticket.as_ref().is_some_and(|own| Arc::ptr_eq(own, other));
        state.waiting.iter().position(is_this).unwrap_or(0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.queue.lock();
        if ticket.is_admitted() {
            // It was admitted just before it was dropped.
            return state.give_back(&ticket.request);
        }
        state.waiting.retain(|other| !Arc::ptr_eq(&ticket, other));
        // The requests behind it may be smaller.
        state.admit();
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        self.queue.lock().give_back(&self.ticket.request);
    }
}
