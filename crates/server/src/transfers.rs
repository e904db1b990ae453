//! The running calls: who is served what, and how far each call is.
//!
//! A transport creates a [`RunningCall`] when a request arrives, and drops it when the answer is complete or
//! the client has disconnected. The call records in its [`Transfer`] what it turns out to be. Each record is
//! an atomic store; only the list is locked, when a call begins or ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use packrace_os::clock::Clock;
use packrace_os::trace;

use crate::error::ErrorKind;
use crate::metrics::{Closed, DoorName, Kind, Metrics, Stage, Step};

/// The longest untrusted text that is kept for logs and pages.
const MAX_KEPT_CHARACTERS: usize = 300;

/// The running calls of a process.
#[derive(Debug, Default)]
pub struct Transfers {
    /// The name of this process; the ids of its calls begin with it.
    session_id: String,
    last: AtomicU64,
    live: Mutex<BTreeMap<u64, Arc<Transfer>>>,
    is_stopping: AtomicBool,
}

impl Transfers {
    /// No calls yet; `session_id` is the name of the process in logs.
    pub fn new(session_id: String) -> Self {
        Transfers { session_id, ..Transfers::default() }
    }

    /// The running calls, oldest first.
    pub fn list(&self) -> Vec<Arc<Transfer>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The process was told to stop: calls that begin from now on are late.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
    }

    /// Whether the process was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// How many calls have begun.
    pub fn begun(&self) -> u64 {
        self.last.load(Relaxed)
    }
}

/// A call in the list of its process, until this is dropped.
#[derive(Debug)]
pub struct RunningCall {
    transfer: Arc<Transfer>,
    transfers: Arc<Transfers>,
    number: u64,
}

impl RunningCall {
    /// Begins a call with a new id, which counts in `metrics`.
    pub fn new(transfers: &Arc<Transfers>, metrics: &Arc<Metrics>, door: DoorName, peer: &str) -> Self {
        let number = transfers.last.fetch_add(1, Relaxed) + 1;
        let transfer = Arc::new(Transfer {
            session_id: format!("{}/{number}", transfers.session_id),
            door,
            peer: peer.to_owned(),
            is_late: transfers.is_stopping(),
            metrics: metrics.clone(),
            ..Transfer::default()
        });
        let listed = transfer.clone();
        transfers.live.lock().unwrap_or_else(PoisonError::into_inner).insert(number, listed);
        RunningCall { transfer, transfers: transfers.clone(), number }
    }

    /// The state of the call.
    pub fn transfer(&self) -> &Arc<Transfer> {
        &self.transfer
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // A call that has not ended by now was cut off.
        self.transfer.end(false);
        let mut live = self.transfers.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.remove(&self.number);
    }
}

/// One call, as logs, metrics and the admin page show it. Its kind becomes known while it runs: a session
/// over git:// is an advertisement, then a listing of refs, then a clone.
#[derive(Debug)]
pub struct Transfer {
    session_id: String,
    door: DoorName,
    peer: String,
    since: Instant,
    /// Whether it began after the process was told to stop.
    is_late: bool,
    metrics: Arc<Metrics>,
    repository: OnceLock<String>,
    user: OnceLock<String>,
    client_session_id: OnceLock<String>,
    /// Why it failed, if it did; set at the latest when its line in the access log is written.
    failure: OnceLock<Option<(ErrorKind, String)>>,
    /// 0 while unknown, else one more than the index in [`Kind::ALL`].
    kind: AtomicU8,
    /// The index in [`Step::ALL`].
    step: AtomicU8,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            session_id: String::new(),
            door: DoorName::Stdio,
            peer: String::new(),
            since: Instant::now(),
            is_late: false,
            metrics: Arc::default(),
            repository: OnceLock::new(),
            user: OnceLock::new(),
            client_session_id: OnceLock::new(),
            failure: OnceLock::new(),
            kind: AtomicU8::new(0),
            step: AtomicU8::new(0),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
        }
    }
}

impl Transfer {
    /// A call in no list: the only one of its process.
    pub fn unlisted(session_id: impl Into<String>) -> Arc<Self> {
        Arc::new(Transfer { session_id: session_id.into(), ..Transfer::default() })
    }

    /// The name of the call in logs, and for the client if `transfer.advertiseSID` is on.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The transport of the call.
    pub fn door(&self) -> DoorName {
        self.door
    }

    /// The address of the client, if it is known.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The same for people.
    pub(crate) fn shown_peer(&self) -> &str {
        if self.peer.is_empty() { "unknown" } else { &self.peer }
    }

    /// How long it has been running.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether it began after the process was told to stop.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// A `tracing` span that lasts until the result is dropped: the whole call, on the thread that serves it.
    pub fn enter_span(&self) -> tracing::span::EnteredSpan {
        tracing::debug_span!("call", session = self.session_id, door = self.door.name()).entered()
    }

    /// Records the client's name for the repository.
    pub fn is_about(&self, repository: &[u8]) {
        // The first name counts.
        let _ = self.repository.set(kept(repository));
    }

    /// The client's name for the repository: untrusted text of a bounded length.
    pub fn repository(&self) -> &str {
        self.repository.get().map_or("", String::as_str)
    }

    /// Records the user.
    pub fn is_by(&self, user: &str) {
        // The first name counts.
        let _ = self.user.set(kept(user.as_bytes()));
    }

    /// The user, if known.
    pub fn user(&self) -> Option<&str> {
        self.user.get().map(String::as_str)
    }

    /// Records the client's name for its own session.
    pub fn client_is(&self, session_id: &[u8]) {
        // The first name counts.
        if self.client_session_id.set(kept(session_id)).is_ok() {
            trace::client_session(self.client_session_id().unwrap_or_default());
        }
    }

    /// The client's name for its own session: untrusted text of a bounded length.
    pub fn client_session_id(&self) -> Option<&str> {
        self.client_session_id.get().map(String::as_str)
    }

    /// Records why it failed, for its line in the access log. If there is no room in that line, because it was
    /// written or has a reason, this is a line of its own; but a client that left is never told twice.
    pub(crate) fn fails(&self, kind: ErrorKind, why: &str) {
        let told = self.failure.set(Some((kind, kept(why.as_bytes()))));
        if let Err(Some((kind, why))) = told
            && kind != ErrorKind::PeerGone
        {
            let (session, kind) = (self.session_id(), kind.name());
            tracing::warn!(session = %session, peer = %self.peer, error = why, error_kind = %kind);
        }
    }

    /// The same, if no better reason is known.
    pub(crate) fn fails_somehow(&self, kind: ErrorKind, why: &str) {
        self.failure.get_or_init(|| Some((kind, kept(why.as_bytes()))));
    }

    /// Why it failed, for its line in the access log. From now on that is settled: what fails later has a line of its own.
    pub(crate) fn settle_failure(&self) -> Option<&(ErrorKind, String)> {
        self.failure.get_or_init(|| None).as_ref()
    }

    /// Begins a transfer of this kind; the one before has succeeded. A negotiation that continues stays one.
    pub fn enter(&self, kind: Kind) {
        if kind == Kind::Negotiation && self.kind() == Some(kind) {
            return;
        }
        self.end(true);
        self.kind.store(place(kind) + 1, Relaxed);
        self.metrics.started(kind, self.door);
    }

    /// Ends the current transfer. Another one may follow.
    pub fn end(&self, is_good: bool) {
        let place = self.kind.swap(0, Relaxed);
        if let Some(kind) = at(usize::from(place).wrapping_sub(1)) {
            match is_good {
                true => self.metrics.finished(kind, self.door),
                false => self.metrics.failed(kind, self.door),
            }
        }
    }

    /// The current kind, once it is known.
    pub fn kind(&self) -> Option<Kind> {
        at(usize::from(self.kind.load(Relaxed)).wrapping_sub(1))
    }

    /// Records the current step.
    pub fn is_at(&self, step: Step) {
        self.step.store(place(step), Relaxed);
    }

    /// The current step.
    pub fn step(&self) -> Step {
        at(self.step.load(Relaxed).into()).unwrap_or(Step::Asking)
    }

    /// Begins a phase, which lasts until the result is dropped: it is timed, and is a `tracing` span.
    pub fn phase<'a>(&self, stage: Stage, clock: &'a dyn Clock) -> TransferPhase<'a> {
        let span = tracing::debug_span!("phase", session = self.session_id, stage = stage.name()).entered();
        TransferPhase { metrics: self.metrics.clone(), stage, clock, began: clock.now(), _span: span }
    }

    /// Counts bytes sent to the client.
    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Relaxed);
        self.metrics.bytes_sent.inc_by(bytes);
        self.metrics.batches.inc();
    }

    /// Bytes sent to the client.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Relaxed)
    }

    /// Counts bytes received from the client.
    pub fn received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Relaxed);
        self.metrics.bytes_received.inc_by(bytes);
    }

    /// Bytes received from the client.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Relaxed)
    }

    /// The metrics of all calls.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// A running phase of a call.
pub struct TransferPhase<'a> {
    metrics: Arc<Metrics>,
    stage: Stage,
    clock: &'a dyn Clock,
    began: Duration,
    _span: tracing::span::EnteredSpan,
}

impl Drop for TransferPhase<'_> {
    fn drop(&mut self) {
        self.metrics.phase(self.stage, self.clock.now().saturating_sub(self.began));
    }
}

fn place<T: Closed + PartialEq>(value: T) -> u8 {
    // A label has far fewer values.
    T::ALL.iter().position(|other| *other == value).unwrap_or(0) as u8
}

fn at<T: Closed>(place: usize) -> Option<T> {
    T::ALL.get(place).copied()
}

/// Untrusted text, cut to a bounded length.
pub(crate) fn kept(text: &[u8]) -> String {
    // A character has at most four bytes.
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * MAX_KEPT_CHARACTERS + 4)]);
    match text.char_indices().nth(MAX_KEPT_CHARACTERS) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_listed_for_as_long_as_they_run() {
        let (transfers, metrics) = (Arc::new(Transfers::new("p".into())), Arc::default());
        let first = RunningCall::new(&transfers, &metrics, DoorName::Git, "1.2.3.4:5");
        let second = RunningCall::new(&transfers, &metrics, DoorName::Http, "1.2.3.4:6");
        second.transfer().is_about(b"/a\xff.git");
        let list = transfers.list();
        let shown: Vec<_> =
            list.iter().map(|call| (call.session_id(), call.peer(), call.repository())).collect();
        assert_eq!(shown, [("p/1", "1.2.3.4:5", ""), ("p/2", "1.2.3.4:6", "/a\u{fffd}.git")]);
        drop(first);
        assert_eq!(transfers.list().len(), 1);
        let panicking = std::panic::AssertUnwindSafe(move || {
            let _second = second;
            panic!("as a call may");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert!(transfers.list().is_empty());
        assert_eq!(transfers.begun(), 2);
    }

    #[test]
    fn the_first_cause_is_for_the_line_of_the_log() {
        let call = Transfer::unlisted("1");
        call.fails(ErrorKind::Corrupt, "no such object");
        call.fails(ErrorKind::Busy, "another cause");
        call.fails_somehow(ErrorKind::Busy, "another cause");
        assert_eq!(call.settle_failure(), Some(&(ErrorKind::Corrupt, "no such object".to_owned())));
        let call = Transfer::unlisted("2");
        assert_eq!(call.settle_failure(), None);
        // Its line is written.
        call.fails_somehow(ErrorKind::Busy, "late");
        assert_eq!(call.settle_failure(), None);
    }

    #[test]
    fn each_kind_that_a_call_comes_to_is_counted() {
        let metrics = Arc::<Metrics>::default();
        let call = RunningCall::new(&Arc::default(), &metrics, DoorName::Git, "");
        for kind in [Kind::Advertisement, Kind::LsRefs, Kind::Negotiation, Kind::Negotiation, Kind::Fetch] {
            call.transfer().enter(kind);
            assert_eq!(call.transfer().kind(), Some(kind));
        }
        drop(call);
        let check = |kind, started, ended| {
            assert_eq!(
                (metrics.started_so_far(kind), metrics.ended_so_far(kind)),
                (started, ended),
                "{kind:?}"
            );
        };
        check(Kind::Advertisement, 1, (1, 0));
        check(Kind::LsRefs, 1, (1, 0));
        check(Kind::Negotiation, 1, (1, 0));
        check(Kind::Fetch, 1, (0, 1));
        check(Kind::Clone, 0, (0, 0));
    }

    #[test]
    fn strangers_cannot_fill_the_memory() {
        let check = |text: &[u8], expect: &str| assert_eq!(kept(text), expect);
        check(b"/a.git", "/a.git");
        check(&[b'x'; 300], &"x".repeat(300));
        check(&[b'x'; 301], &format!("{}…", "x".repeat(300)));
        check("ä".repeat(40_000).as_bytes(), &format!("{}…", "ä".repeat(300)));
    }
}
