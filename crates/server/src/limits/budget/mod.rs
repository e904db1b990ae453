//! What all clients share: connections, running requests, memory. Each budget has a limit for all clients
//! together, and one for each client; when it is full, a claim that waits for its client can be cut.
//!
//! ```text
//! claim, grow ─▶ room for all, and for this client? ─▶ claimed
//!                    └─ no ─▶ the idlest claim of the client that holds the most is cut ─▶ again
//!                                    └─ no claim is idle ─▶ refused
//! ```
//!
//! Work cannot be cut, so a few clients that keep a server working could hold everything. A part of a budget
//! may be reserved for clients that hold nothing: see [`BudgetLimits::reserved`]. And a claim may wait for a
//! moment until something is released ([`Budget::claim_soon`]); of the waiting claims, the first that fits is
//! granted.
//!
//! A claim is idle while its holder waits for the client: for the next command, the next bytes of a body.
//! Work is never cut. A claim counts as idle only after [`BudgetLimits::least_idle`], but at once if its
//! client holds more than the new client would then hold: so a few clients that hold everything cannot keep
//! others out by taking turns, and the others do not lose their claims when they pause for a moment.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub use super::address::AddressRange;
use super::address::client;

/// The text for the log and the client when a claim is cut.
pub const CUT: &str = "disconnected: idle while other clients waited";

/// `waiting_since` of a claim that is being worked on.
const WORKING: u64 = u64::MAX;

/// At most as many claims wait as claims of 1 can be granted; those of one client at most this share: one of
/// eight.
const WAITING_SHARE: usize = 8;

/// The limits of a budget. Plain data.
#[derive(Debug, Clone, Default)]
pub struct BudgetLimits {
    /// The most for all clients together.
    pub max: usize,
    /// The most for one client.
    pub max_of_a_client: usize,
    /// How much of `max` is reserved for clients that hold nothing yet.
    pub reserved: usize,
    /// Clients without their own limit. Their claims are cut like others.
    pub exempt: Vec<AddressRange>,
    /// How long a claim must wait for its client before it may be cut for a client that holds as much.
    pub least_idle: Duration,
}

/// Why a claim is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// All of the budget is claimed.
    Full,
    /// This client has claimed as much as it may.
    ClientHasEnough,
}

/// What all clients share: a number of connections or requests, or bytes of memory.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    limits: BudgetLimits,
    taken: usize,
    /// Only clients with a claim.
    clients: HashMap<IpAddr, OfClient>,
    next: u64,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    /// No claim can be cut before that time for a client that would then hold this much or more: a search
    /// found none.
    none_idle: Option<(Duration, usize)>,
}

/// A claim that waits for room.
#[derive(Debug)]
struct Waiting {
    amount: usize,
    address: IpAddr,
    sender: oneshot::Sender<Claim>,
}

/// Granted claims of the queue. They are sent when the state is no longer locked: without a receiver they are
/// released.
type Granted = Vec<(oneshot::Sender<Claim>, Claim)>;

#[derive(Debug, Default)]
struct OfClient {
    taken: usize,
    claims: HashMap<u64, Holder>,
    /// None of its claims can be cut for another one of its own before that time.
    none_idle_until: Duration,
}

#[derive(Debug)]
struct Holder {
    amount: usize,
    signal: Arc<Signal>,
}

/// Shared by a holder and the budget.
#[derive(Default)]
struct Signal {
    /// Nanoseconds from the start of the budget, or [`WORKING`].
    waiting_since: AtomicU64,
    is_cut: AtomicBool,
    /// Wakes the holder.
    on_cut: Mutex<Option<OnCut>>,
}

type OnCut = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Signal { waiting_since, is_cut, on_cut: _ } = self;
        formatter.debug_struct("Signal").field("since", waiting_since).field("is_cut", is_cut).finish()
    }
}

impl Signal {
    /// How long the holder has been waiting for its client, if it is waiting.
    fn idle(&self, now: Duration) -> Option<Duration> {
        match self.waiting_since.load(Relaxed) {
            WORKING => None,
            since => Some(now.saturating_sub(Duration::from_nanos(since))),
        }
    }

    fn cut(&self) {
        let on_cut = self.on_cut.lock().unwrap_or_else(PoisonError::into_inner).take();
        on_cut.into_iter().for_each(|wake| wake());
    }
}

impl Default for Budget {
    /// A budget without limits.
    fn default() -> Self {
        let (max, max_of_a_client) = (usize::MAX, usize::MAX);
        let limits = BudgetLimits { max, max_of_a_client, ..BudgetLimits::default() };
        Budget { start: Instant::now(), state: Mutex::new(BudgetState { limits, ..BudgetState::default() }) }
    }
}

impl Budget {
    /// An unclaimed budget.
    pub fn new(limits: BudgetLimits) -> Arc<Self> {
        let state = BudgetState { limits, ..BudgetState::default() };
        Arc::new(Budget { start: Instant::now(), state: Mutex::new(state) })
    }

    /// Changes the limits; no claim is cut.
    pub fn set(self: &Arc<Self>, limits: BudgetLimits) {
        let granted = {
            let mut state = self.state();
            state.limits = limits;
            state.forget_none_idle();
            state.grant(self)
        };
        hand_out(granted);
    }

    /// The limit for all clients together.
    pub fn max(&self) -> usize {
        self.state().limits.max
    }

    /// How much is claimed.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims this much for a client, which works with it from now on.
    pub fn claim(self: &Arc<Self>, amount: usize, address: IpAddr) -> Result<Claim, Refused> {
        self.claim_at(amount, address, self.start.elapsed())
    }

    /// The same, but waits up to `patience` if the budget is full.
    pub async fn claim_soon(
        self: &Arc<Self>,
        amount: usize,
        address: IpAddr,
        patience: Duration,
    ) -> Result<Claim, Refused> {
        let refused = match self.claim(amount, address) {
            Err(Refused::Full) => Refused::Full,
            other => return other,
        };
        let Some(receiver) = self.wait(amount, address) else { return Err(refused) };
        match tokio::time::timeout(patience, receiver).await {
            Ok(Ok(claim)) => Ok(claim),
            _ => Err(refused),
        }
    }

    /// Joins the queue, unless it is full.
    fn wait(self: &Arc<Self>, amount: usize, address: IpAddr) -> Option<oneshot::Receiver<Claim>> {
        let (sender, receiver) = oneshot::channel();
        let granted = {
            let mut state = self.state();
            state.waiting.retain(|waiting| !waiting.sender.is_closed());
            let of_client =
                state.waiting.iter().filter(|waiting| client(waiting.address) == client(address)).count();
            let most = state.limits.max;
            if state.waiting.len() >= most || of_client > most / WAITING_SHARE {
                return None;
            }
            state.waiting.push_back(Waiting { amount, address, sender });
            // Something may have been released just now.
            state.grant(self)
        };
        hand_out(granted);
        Some(receiver)
    }

    fn claim_at(self: &Arc<Self>, amount: usize, address: IpAddr, now: Duration) -> Result<Claim, Refused> {
        let mut cut = Vec::new();
        let claim = {
            let mut state = self.state();
            let room = state.make_room(amount, client(address), address, None, now, &mut cut);
            room.map(|()| state.take(self, amount, address))
        };
        cut.iter().for_each(|signal: &Arc<Signal>| signal.cut());
        claim
    }
}

fn hand_out(granted: Granted) {
    for (sender, claim) in granted {
        // The receiver may be gone.
        let _ = sender.send(claim);
    }
}

impl BudgetState {
    /// Makes a claim for which there is room.
    fn take(&mut self, budget: &Arc<Budget>, amount: usize, address: IpAddr) -> Claim {
        let client = client(address);
        let signal = Arc::new(Signal { waiting_since: AtomicU64::new(WORKING), ..Signal::default() });
        let id = self.next;
        self.next += 1;
        self.count(client, amount).claims.insert(id, Holder { amount, signal: signal.clone() });
        Claim { budget: budget.clone(), id, client, address, signal }
    }

    /// Adds to what a client has claimed.
    fn count(&mut self, client: IpAddr, more: usize) -> &mut OfClient {
        self.taken += more;
        let of_client = self.clients.entry(client).or_default();
        of_client.taken += more;
        // A client that would hold less than this one may cut claims that were idle for only a moment.
        self.none_idle = self.none_idle.filter(|(_, least)| of_client.taken <= *least);
        of_client
    }

    /// Grants the waiting claims for which there is room; cuts none.
    fn grant(&mut self, budget: &Arc<Budget>) -> Granted {
        let mut granted = Vec::new();
        let mut at = 0;
        while self.taken < self.limits.max
            && let Some(waiting) = self.waiting.get(at)
        {
            let (amount, address) = (waiting.amount, waiting.address);
            if self.room(amount, client(address), address).is_err() {
                at += 1;
            } else if let Some(waiting) = self.waiting.remove(at) {
                let claim = self.take(budget, amount, address);
                granted.push((waiting.sender, claim));
            }
        }
        granted
    }

    /// Whether there is room for this much more, or why there is none.
    fn room(&self, amount: usize, client: IpAddr, address: IpAddr) -> Result<(), Refused> {
        let (is_exempt, had) = (self.is_exempt(address), self.had(client));
        let reserved = if is_exempt || had == 0 { 0 } else { self.limits.reserved };
        let is_full = self.taken.saturating_add(amount).saturating_add(reserved) > self.limits.max;
        match () {
            () if amount == 0 => Ok(()),
            () if is_full => Err(Refused::Full),
            () if self.has_enough(amount, client, address) => Err(Refused::ClientHasEnough),
            () => Ok(()),
        }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.limits.exempt.iter().any(|range| range.contains(address))
    }

    fn had(&self, client: IpAddr) -> usize {
        self.clients.get(&client).map_or(0, |of_client| of_client.taken)
    }

    fn has_enough(&self, amount: usize, client: IpAddr, address: IpAddr) -> bool {
        let had = self.had(client);
        !self.is_exempt(address) && had > 0 && had.saturating_add(amount) > self.limits.max_of_a_client
    }

    /// Makes room for this much more by cutting idle claims.
    fn make_room(
        &mut self,
        amount: usize,
        client: IpAddr,
        address: IpAddr,
        own: Option<u64>,
        now: Duration,
        cut: &mut Vec<Arc<Signal>>,
    ) -> Result<(), Refused> {
        while let Err(refused) = self.room(amount, client, address) {
            // A client that has enough makes room from its own claims.
            let of = self.has_enough(amount, client, address).then_some(client);
            let had = self.had(client);
            let Some((from, id)) = self.idlest(of, had + amount, own, now) else { return Err(refused) };
            cut.extend(self.take_away(from, id));
        }
        Ok(())
    }

    /// The claim to cut: of the client that holds the most, as far as it has idle claims, the one that was
    /// idle the longest; for memory, the one that cost the most, amount times time.
    ///
    /// All claims that could be cut are searched. If there is none, the search result is remembered for as
    /// long as it must hold, so that clients that retry in vain cost nothing.
    fn idlest(
        &mut self,
        of: Option<IpAddr>,
        wanted: usize,
        own: Option<u64>,
        now: Duration,
    ) -> Option<(IpAddr, u64)> {
        let is_known = match of {
            Some(of) => self.clients.get(&of).is_some_and(|of_client| now < of_client.none_idle_until),
            None => self.none_idle.is_some_and(|(until, least)| now < until && wanted >= least),
        };
        if is_known {
            return None;
        }
        let mut best: Option<(usize, u128, IpAddr, u64)> = None;
        // A claim that is being worked on, or comes later, begins to wait now at the earliest.
        let mut none_until = Some(now + self.limits.least_idle);
        for (client, of_client) in &self.clients {
            if of.is_some_and(|of| of != *client) || best.is_some_and(|(most, ..)| of_client.taken < most) {
                continue;
            }
            let is_much = of_client.taken > wanted;
            let least = if is_much { Duration::ZERO } else { self.limits.least_idle };
            for (id, holder) in &of_client.claims {
                let idle = holder.signal.idle(now);
                // If its client holds that much, any pause is enough.
                let until = idle.map_or(now + least, |idle| now.saturating_sub(idle) + least);
                none_until = none_until.filter(|_| !is_much).map(|earliest| earliest.min(until));
                let Some(idle) = idle.filter(|idle| *idle >= least && Some(*id) != own) else { continue };
                let cost = holder.amount as u128 * idle.as_nanos();
                let is_worse =
                    |(most, worst, ..): (usize, u128, IpAddr, u64)| (of_client.taken, cost) > (most, worst);
                if holder.amount > 0 && best.is_none_or(is_worse) {
                    best = Some((of_client.taken, cost, *client, *id));
                }
            }
        }
        if let (None, Some(until)) = (best, none_until) {
            match of {
                Some(of) => {
                    let of_client = self.clients.get_mut(&of);
                    of_client.into_iter().for_each(|of_client| of_client.none_idle_until = until);
                }
                None => self.none_idle = Some((until, wanted)),
            }
        }
        best.map(|(.., client, id)| (client, id))
    }

    fn forget_none_idle(&mut self) {
        self.none_idle = None;
        self.clients.values_mut().for_each(|of_client| of_client.none_idle_until = Duration::ZERO);
    }

    fn take_away(&mut self, client: IpAddr, id: u64) -> Option<Arc<Signal>> {
        let of_client = self.clients.get_mut(&client)?;
        let Holder { amount, signal } = of_client.claims.remove(&id)?;
        of_client.taken -= amount;
        self.taken -= amount;
        if of_client.claims.is_empty() {
            self.clients.remove(&client);
        }
        signal.is_cut.store(true, Relaxed);
        Some(signal)
    }
}

/// A part of a budget, released when it is dropped.
#[derive(Debug)]
pub struct Claim {
    budget: Arc<Budget>,
    id: u64,
    client: IpAddr,
    address: IpAddr,
    signal: Arc<Signal>,
}

impl Claim {
    /// Grows the claim to `amount` in all. Without room it stays as it is.
    pub fn grow(&self, amount: usize) -> Result<(), Refused> {
        self.grow_at(amount, self.budget.start.elapsed())
    }

    fn grow_at(&self, amount: usize, now: Duration) -> Result<(), Refused> {
        let mut cut = Vec::new();
        let result = {
            let mut state = self.budget.state();
            let claims = state.clients.get(&self.client).map(|of_client| &of_client.claims);
            let Some(holder) = claims.and_then(|claims| claims.get(&self.id)) else {
                return Err(Refused::Full);
            };
            let more = amount.saturating_sub(holder.amount);
            state.make_room(more, self.client, self.address, Some(self.id), now, &mut cut).map(|()| {
                let of_client = state.count(self.client, more);
                of_client.claims.entry(self.id).and_modify(|holder| holder.amount += more);
            })
        };
        cut.iter().for_each(|signal| signal.cut());
        result
    }

    /// From now on the holder waits for its client, until [`Claim::works`]. Called again whenever the client
    /// makes progress.
    pub fn waits(&self) {
        self.waits_at(self.budget.start.elapsed());
    }

    fn waits_at(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(WORKING - 1);
        self.signal.waiting_since.store(now, Relaxed);
    }

    /// From now on the holder no longer waits for its client.
    pub fn works(&self) {
        self.signal.waiting_since.store(WORKING, Relaxed);
    }

    /// Whether it was cut: its holder has to stop.
    pub fn is_cut(&self) -> bool {
        self.signal.is_cut.load(Relaxed)
    }

    /// Calls `wake` when it is cut; at once if it already was.
    pub fn on_cut(&self, wake: impl FnOnce() + Send + 'static) {
        let wake: OnCut = Box::new(wake);
        *self.signal.on_cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
        if self.is_cut() {
            self.signal.cut();
        }
    }

    /// Ready when it is cut. Only one task may wait.
    pub fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        // The receiver may be gone.
        self.on_cut(move || {
            let _ = sender.send(());
        });
        async move {
            if receiver.await.is_err() {
                // It was released without being cut.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let granted = {
            let mut state = self.budget.state();
            // A claim that was cut is already removed.
            let _ = state.take_away(self.client, self.id);
            state.grant(&self.budget)
        };
        hand_out(granted);
    }
}

#[cfg(test)]
mod tests;
