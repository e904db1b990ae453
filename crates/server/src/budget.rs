//! What all clients share: connections, running requests, memory. Each budget has a most that is given out, and a most for
//! one client; and when it is full, whoever keeps it waiting goes first.
//!
//! ```text
//! claim, grow ─▶ room for all, and for this client? ─▶ claimed
//!                    └─ no ─▶ the idlest claim of the client that holds the most is cut ─▶ again
//!                                    └─ nobody is idle ─▶ refused
//! ```
//!
//! A claim is idle while its holder waits for the client: for the next command, the next bytes of a body. What is being
//! worked on is never cut. A claim counts as idle only after [`Limits::least_idle`], but at once where its client holds
//! more than the one that comes would then hold: so a few who hold everything cannot keep others out by taking turns, and the
//! others do not lose what they have by pausing for a moment.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use crate::address::AddressRange;
use crate::address::client;

/// What a client is told, and the log says, whose claim was cut.
pub const CUT: &str = "idle while others had to wait, and cut";

/// A claim that is being worked on has waited since then.
const WORKING: u64 = u64::MAX;

/// How much there is. Plain data.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// For all.
    pub max: usize,
    /// For one client.
    pub max_of_a_client: usize,
    /// Clients that are not limited by themselves. They are cut like others.
    pub exempt: Vec<AddressRange>,
    /// How long a claim has been waiting for its client before it may be cut for somebody who has as much.
    pub least_idle: Duration,
}

/// Why nothing is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Everything is given out.
    Full,
    /// This client has as much as one may have.
    ClientHasEnough,
}

/// Something that clients share.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: Limits,
    taken: usize,
    /// Only clients that have a claim.
    clients: HashMap<IpAddr, OfClient>,
    next: u64,
}

#[derive(Debug, Default)]
struct OfClient {
    taken: usize,
    claims: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    amount: usize,
    signal: Arc<Signal>,
}

/// What holder and budget tell each other.
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
    /// How long the holder has been waiting for its client, if it is.
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
    /// One without limits.
    fn default() -> Self {
        let (max, max_of_a_client) = (usize::MAX, usize::MAX);
        let limits = Limits { max, max_of_a_client, ..Limits::default() };
        Budget { start: Instant::now(), state: Mutex::new(State { limits, ..State::default() }) }
    }
}

impl Budget {
    /// One of which nothing is given out.
    pub fn new(limits: Limits) -> Arc<Self> {
        let state = State { limits, ..State::default() };
        Arc::new(Budget { start: Instant::now(), state: Mutex::new(state) })
    }

    /// Other limits count from now on; nobody loses anything.
    pub fn set(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// The most that is given out.
    pub fn max(&self) -> usize {
        self.state().limits.max
    }

    /// What is given out.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims this much for a client, which works with it from now on.
    pub fn claim(self: &Arc<Self>, amount: usize, address: IpAddr) -> Result<Claim, Refused> {
        self.claim_at(amount, address, self.start.elapsed())
    }

    fn claim_at(self: &Arc<Self>, amount: usize, address: IpAddr, now: Duration) -> Result<Claim, Refused> {
        let client = client(address);
        let signal = Arc::new(Signal { waiting_since: AtomicU64::new(WORKING), ..Signal::default() });
        let mut cut = Vec::new();
        let id = {
            let mut state = self.state();
            let number = state.next;
            state.next += 1;
            state.make_room(amount, client, address, None, now, &mut cut).map(|()| {
                state.taken += amount;
                let of_client = state.clients.entry(client).or_default();
                of_client.taken += amount;
                of_client.claims.insert(number, Holder { amount, signal: signal.clone() });
                number
            })
        };
        cut.iter().for_each(|signal: &Arc<Signal>| signal.cut());
        Ok(Claim { budget: self.clone(), id: id?, client, address, signal })
    }
}

impl State {
    /// Sees to it that there is room for so much more, by cutting who is idle.
    fn make_room(
        &mut self,
        amount: usize,
        client: IpAddr,
        address: IpAddr,
        own: Option<u64>,
        now: Duration,
        cut: &mut Vec<Arc<Signal>>,
    ) -> Result<(), Refused> {
        let is_exempt = self.limits.exempt.iter().any(|range| range.contains(address));
        loop {
            let had = self.clients.get(&client).map_or(0, |of_client| of_client.taken);
            let has_enough =
                !is_exempt && had > 0 && had.saturating_add(amount) > self.limits.max_of_a_client;
            let is_full = self.taken.saturating_add(amount) > self.limits.max;
            if amount == 0 || !has_enough && !is_full {
                return Ok(());
            }
            // Who has enough makes room for itself.
            let of = has_enough.then_some(client);
            let Some((from, id)) = self.idlest(of, had + amount, own, now) else {
                return Err(if is_full { Refused::Full } else { Refused::ClientHasEnough });
            };
            cut.extend(self.take_away(from, id));
        }
    }

    /// Who is cut: of the client that holds the most, as far as that has anything idle, what has been idle for the longest
    /// time; and of memory what has cost the most, amount times time.
    fn idlest(
        &self,
        of: Option<IpAddr>,
        wanted: usize,
        own: Option<u64>,
        now: Duration,
    ) -> Option<(IpAddr, u64)> {
        let mut best: Option<(usize, u128, IpAddr, u64)> = None;
        for (client, of_client) in &self.clients {
            if of.is_some_and(|of| of != *client) || best.is_some_and(|(most, ..)| of_client.taken < most) {
                continue;
            }
            let least = if of_client.taken > wanted { Duration::ZERO } else { self.limits.least_idle };
            for (id, holder) in of_client.claims.iter().filter(|(id, _)| Some(**id) != own) {
                let Some(idle) = holder.signal.idle(now).filter(|idle| *idle >= least) else { continue };
                let cost = holder.amount as u128 * idle.as_nanos();
                let is_worse =
                    |(most, worst, ..): (usize, u128, IpAddr, u64)| (of_client.taken, cost) > (most, worst);
                if holder.amount > 0 && best.is_none_or(is_worse) {
                    best = Some((of_client.taken, cost, *client, *id));
                }
            }
        }
        best.map(|(.., client, id)| (client, id))
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

/// A part of a budget; given back when it is dropped.
#[derive(Debug)]
pub struct Claim {
    budget: Arc<Budget>,
    id: u64,
    client: IpAddr,
    address: IpAddr,
    signal: Arc<Signal>,
}

impl Claim {
    /// Claims more: `amount` in all. What was claimed stays so where there is no more.
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
                state.taken += more;
                let of_client = state.clients.entry(self.client).or_default();
                of_client.taken += more;
                of_client.claims.entry(self.id).and_modify(|holder| holder.amount += more);
            })
        };
        cut.iter().for_each(|signal| signal.cut());
        result
    }

    /// From now on the holder waits for its client, until [`Claim::works`]. Tells that again whenever the client has
    /// moved.
    pub fn waits(&self) {
        self.waits_at(self.budget.start.elapsed());
    }

    fn waits_at(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(WORKING - 1);
        self.signal.waiting_since.store(now, Relaxed);
    }

    /// From now on it is not the client that is waited for.
    pub fn works(&self) {
        self.signal.waiting_since.store(WORKING, Relaxed);
    }

    /// Whether it was taken away. Its holder has to end.
    pub fn is_cut(&self) -> bool {
        self.signal.is_cut.load(Relaxed)
    }

    /// Calls this when it is taken away; at once if it was.
    pub fn on_cut(&self, wake: impl FnOnce() + Send + 'static) {
        let wake: OnCut = Box::new(wake);
        *self.signal.on_cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
        if self.is_cut() {
            self.signal.cut();
        }
    }

    /// Ready when it is taken away. For one waiter.
    pub fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // Nobody may listen any more.
        self.on_cut(move || {
            let _ = sender.send(());
        });
        async move {
            if receiver.await.is_err() {
                // It was given back in good order.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        // Nothing is left of one that was cut.
        let _ = state.take_away(self.client, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn budget(max: usize, max_of_a_client: usize) -> Arc<Budget> {
        let exempt = vec!["10.0.0.0/8".parse().unwrap()];
        Budget::new(Limits { max, max_of_a_client, exempt, least_idle: SECOND })
    }

    #[test]
    fn claims_are_given_back() {
        let budget = budget(4, 2);
        let claim = |amount, from| budget.claim(amount, address(from));
        let first = claim(1, "192.0.2.1").unwrap();
        let second = claim(1, "192.0.2.1").unwrap();
        assert_eq!(claim(1, "192.0.2.1").unwrap_err(), Refused::ClientHasEnough);
        let exempt = claim(1, "10.1.1.1").unwrap();
        exempt.grow(2).unwrap();
        assert_eq!(exempt.grow(3).unwrap_err(), Refused::Full);
        assert_eq!(claim(1, "10.1.1.1").unwrap_err(), Refused::Full);
        drop(first);
        assert_eq!(claim(1, "192.0.2.2").map(drop), Ok(()));
        drop((second, exempt));
        let state = budget.state();
        assert_eq!((state.taken, state.clients.len()), (0, 0));
    }

    /// Two clients hold everything and are silent; a third comes.
    #[test]
    fn the_idlest_of_who_holds_the_most_goes_first() {
        let budget = budget(5, 4);
        let at = |seconds: u32| seconds * SECOND;
        let held: Vec<Claim> = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"]
            .iter()
            .map(|from| budget.claim_at(1, address(from), at(0)).unwrap())
            .collect();
        // All are worked on.
        let come = |seconds| budget.claim_at(1, address("192.0.2.3"), at(seconds));
        assert_eq!(come(100).unwrap_err(), Refused::Full);
        // The idlest is of the client that has less.
        for (claim, since) in held.iter().zip([8, 7, 9, 1, 2]) {
            claim.waits_at(at(since));
        }
        let cut = || held.iter().map(Claim::is_cut).collect::<Vec<_>>();
        let new = come(10).unwrap();
        assert_eq!(cut(), [false, true, false, false, false]);
        assert_eq!(budget.taken(), 5);
        drop(new);
        // Working ones stay, and those that have only just begun to wait.
        held[0].works();
        held[2].waits_at(at(20));
        held[3].works();
        held[4].waits_at(at(20) + SECOND / 2);
        let _new = come(20).unwrap();
        assert_eq!(come(20).unwrap_err(), Refused::Full);
        let _other = come(21).unwrap();
        assert_eq!(cut(), [false, true, true, false, false]);
        drop(held);
        assert_eq!(budget.taken(), 2);
    }

    #[test]
    fn who_holds_far_more_is_cut_at_once() {
        let budget = budget(4, 4);
        let held: Vec<Claim> = (0..4).map(|_| budget.claim(1, address("192.0.2.1")).unwrap()).collect();
        held[3].waits_at(SECOND);
        let own = budget.claim_at(1, address("192.0.2.1"), SECOND);
        assert_eq!(own.unwrap_err(), Refused::Full, "its own is not idle for long enough");
        let _new = budget.claim_at(1, address("192.0.2.2"), SECOND).unwrap();
        assert!(held[3].is_cut());
    }

    #[test]
    fn a_client_makes_room_for_itself_within_its_share() {
        let budget = budget(9, 2);
        let mine: Vec<Claim> = (0..2).map(|_| budget.claim(1, address("192.0.2.1")).unwrap()).collect();
        let other = budget.claim(5, address("192.0.2.2")).unwrap();
        other.waits_at(Duration::ZERO);
        mine[1].waits_at(Duration::ZERO);
        let _new = budget.claim_at(1, address("192.0.2.1"), 2 * SECOND).unwrap();
        assert_eq!((mine[1].is_cut(), other.is_cut()), (true, false));
    }

    #[test]
    fn of_memory_what_cost_the_most_goes_first() {
        let budget = budget(100, 100);
        let from = address("10.0.0.1");
        let (large, small) = (budget.claim(60, from).unwrap(), budget.claim(20, from).unwrap());
        large.waits_at(8 * SECOND);
        small.waits_at(5 * SECOND);
        let new = budget.claim_at(1, from, 10 * SECOND).unwrap();
        new.grow_at(30, 10 * SECOND).unwrap();
        assert_eq!((large.is_cut(), small.is_cut()), (true, false));
        // It does not cut itself.
        new.waits_at(Duration::ZERO);
        assert_eq!(new.grow_at(101, 10 * SECOND), Err(Refused::Full));
        assert!(!new.is_cut() && small.is_cut());
        assert_eq!(budget.taken(), 30);
    }

    #[test]
    fn holders_are_woken() {
        let budget = budget(1, 1);
        let held = budget.claim(1, address("192.0.2.1")).unwrap();
        held.waits_at(Duration::ZERO);
        let cut = held.cut();
        let _new = budget.claim_at(1, address("192.0.2.2"), 2 * SECOND).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(cut);
        runtime.block_on(held.cut());
        assert_eq!(held.grow(2), Err(Refused::Full));
    }
}
