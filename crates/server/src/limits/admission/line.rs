//! A line: whoever does not fit in waits, and comes in by order of arrival.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::Entry;

/// What may be inside.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) max_held: usize,
    pub(super) max_held_per_repository: usize,
    /// Units of all that are inside; one may be inside whatever it takes.
    pub(super) max_units: u64,
    pub(super) max_waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_held: usize::MAX,
            max_held_per_repository: usize::MAX,
            max_units: u64::MAX,
            max_waiting: usize::MAX,
        }
    }
}

/// What somebody wants to hold.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) repository: PathBuf,
    pub(super) units: u64,
}

/// A line, and what is behind its end.
#[derive(Debug, Default)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    limits: Limits,
    held: usize,
    units: u64,
    by_repository: HashMap<PathBuf, usize>,
    waiting: VecDeque<Arc<Ticket>>,
}

/// One in the line. `called` changes while the state is locked.
#[derive(Debug)]
struct Ticket {
    ask: Ask,
    called: Mutex<bool>,
    wake: Condvar,
}

/// Something held, given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    line: Arc<Shared>,
    ticket: Arc<Ticket>,
}

/// A place in the line, given up when it is dropped.
#[derive(Debug)]
pub struct Waiting {
    line: Arc<Shared>,
    /// `None` once it has become a [`Held`].
    ticket: Option<Arc<Ticket>>,
}

impl Line {
    pub(super) fn set_limits(&self, limits: Limits) {
        let mut state = self.0.lock();
        state.limits = limits;
        state.call();
    }

    pub(super) fn enter(&self, ask: Ask) -> Entry {
        let mut state = self.0.lock();
        let ticket = Arc::new(Ticket { ask, called: Mutex::new(false), wake: Condvar::new() });
        state.waiting.push_back(ticket.clone());
        state.call();
        if ticket.is_called() {
            return Entry::Place(Held { line: self.0.clone(), ticket });
        }
        if state.waiting.len() > state.limits.max_waiting {
            state.waiting.pop_back();
            return Entry::Full;
        }
        Entry::Waiting(Waiting { line: self.0.clone(), ticket: Some(ticket) })
    }

    /// Goes in past everybody.
    pub(super) fn take(&self, ask: Ask) -> Held {
        let ticket = Arc::new(Ticket { ask, called: Mutex::new(true), wake: Condvar::new() });
        self.0.lock().hold(&ticket.ask);
        Held { line: self.0.clone(), ticket }
    }

    /// How many are inside, and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.held, state.waiting.len())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while held")
    }
}

/// Whether somebody fits in.
enum Fit {
    Yes,
    /// Those behind may.
    RepositoryFull,
    /// Nobody may: who comes later must not go past.
    Full,
}

impl State {
    fn fit(&self, ask: &Ask) -> Fit {
        let limits = &self.limits;
        let units = self.units.saturating_add(ask.units);
        if self.held >= limits.max_held || (self.held > 0 && units > limits.max_units) {
            return Fit::Full;
        }
        let of_repository = self.by_repository.get(&ask.repository).copied().unwrap_or(0);
        if of_repository >= limits.max_held_per_repository { Fit::RepositoryFull } else { Fit::Yes }
    }

    /// Lets in whoever fits, by order of arrival.
    fn call(&mut self) {
        let mut at = 0;
        while let Some(ticket) = self.waiting.get(at) {
            match self.fit(&ticket.ask) {
                Fit::Full => return,
                Fit::RepositoryFull => at += 1,
                Fit::Yes => {
                    let Some(ticket) = self.waiting.remove(at) else { return };
                    self.hold(&ticket.ask);
                    *ticket.called.lock().expect("no panic while held") = true;
                    ticket.wake.notify_one();
                }
            }
        }
    }

    fn hold(&mut self, ask: &Ask) {
        self.held += 1;
        self.units = self.units.saturating_add(ask.units);
        *self.by_repository.entry(ask.repository.clone()).or_default() += 1;
    }

    fn give_back(&mut self, ask: &Ask) {
        self.held -= 1;
        self.units = self.units.saturating_sub(ask.units);
        if let Some(held) = self.by_repository.get_mut(&ask.repository) {
            *held -= 1;
            if *held == 0 {
                self.by_repository.remove(&ask.repository);
            }
        }
        self.call();
    }
}

impl Ticket {
    fn is_called(&self) -> bool {
        *self.called.lock().expect("no panic while held")
    }
}

impl Waiting {
    /// Waits for a while, and not at all once it is this one's turn.
    pub fn wait(mut self, limit: Duration) -> Result<Held, Waiting> {
        let Some(ticket) = self.ticket.take() else { return Err(self) };
        let called = ticket.called.lock().expect("no panic while held");
        let waited = ticket.wake.wait_timeout_while(called, limit, |called| !*called);
        let is_called = *waited.expect("no panic while held").0;
        if is_called {
            return Ok(Held { line: self.line.clone(), ticket });
        }
        self.ticket = Some(ticket);
        Err(self)
    }

    /// How many are before this one.
    pub fn ahead(&self) -> usize {
        let state = self.line.lock();
        let is_this = |other: &Arc<Ticket>| self.ticket.as_ref().is_some_and(|own| Arc::ptr_eq(own, other));
        state.waiting.iter().position(is_this).unwrap_or(0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.line.lock();
        if ticket.is_called() {
            // Its turn came while it left.
            return state.give_back(&ticket.ask);
        }
        state.waiting.retain(|other| !Arc::ptr_eq(&ticket, other));
        // Those behind may be smaller.
        state.call();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.line.lock().give_back(&self.ticket.ask);
    }
}
