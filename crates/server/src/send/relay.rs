//! Sends a pack that another thread makes, reports progress and keeps the connection alive.

use std::sync::Arc;
use std::time::Duration;

use packrace_object::HashKind;
use packrace_os::clock::Clock;
use packrace_pack::generate::Segment;
use packrace_pack::meter::{Meter, ProgressInterval, title, total_line};
use packrace_pack::{Phase, Totals};

use super::event::Event;
use super::outbox::{ClientSink, Framing, Outbox};
use super::sources::Sources;
use crate::check_intervals::CLIENT_CHECK_INTERVAL;
use crate::error::{Error, ErrorKind};
use crate::limits::admission::{Admission, AdmissionControl, AdmissionPermit};
use crate::metrics::{Raised, Reason, Stage, Step};
use crate::path_names::PathNames;
use crate::traced_phases::{PackStep, TracedPhases};
use crate::transfers::Transfer;

/// At most one progress line a second in each phase; phases that are usually short show none.
const PROGRESS_PACE: ProgressInterval =
    ProgressInterval { interval: Duration::from_secs(1), delay: Duration::from_secs(2) };

/// The message for the client when a pack cannot be made; git's words.
const ABORT_MESSAGE: &[u8] = b"aborting due to possible repository corruption on the remote side.";

/// The message for a client when the queue is full, or when it has waited in it for too long.
pub(crate) const BUSY: &str = "server is busy: the queue for clones is full; try again later";

/// How a pack is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery<'a> {
    pub(crate) framing: Framing,
    /// The longest silence; `None` for no keepalive.
    pub(crate) keepalive: Option<Duration>,
    /// The most bytes in a batch.
    pub(crate) batch_bytes: usize,
    /// Whether the client wants to see progress.
    pub(crate) progress: bool,
    /// The hash that a pack ends with.
    pub(crate) hash: HashKind,
    /// When the request was complete.
    pub(crate) since: Duration,
    /// Where the state of the request is recorded.
    pub(crate) transfer: &'a Arc<Transfer>,
    /// The names of directories in errors that the client sees.
    pub(crate) paths: &'a PathNames,
}

/// Why sending stopped.
pub(crate) enum SendStop {
    /// The client is gone.
    Gone(std::io::Error),
    /// The pack could not be made.
    Failed(Error),
    /// The client was too slow: the bytes it needs next are gone.
    Lagged,
}

impl From<std::io::Error> for SendStop {
    fn from(error: std::io::Error) -> Self {
        SendStop::Gone(error)
    }
}

pub(crate) struct Sending<'a> {
    outbox: Outbox<'a>,
    delivery: Delivery<'a>,
    clock: &'a dyn Clock,
    /// When the connection was last checked.
    looked_at: Duration,
    meter: Meter,
    traced: Option<TracedPhases>,
    /// Whether any of the pack was sent.
    pub(crate) has_begun: bool,
    /// The files that segments are ranges of.
    sources: Sources,
    /// The last segment, once any came from a file: it holds the trailer, unless another follows.
    held: Option<Segment>,
    /// Whether the client gets our reason why there is no pack. A hook has its own words.
    pub(crate) explains: bool,
}

impl<'a> Sending<'a> {
    pub(crate) fn new(delivery: Delivery<'a>, client: &'a mut dyn ClientSink, clock: &'a dyn Clock) -> Self {
        let outbox = Outbox::new(client, delivery.framing, delivery.keepalive, delivery.since);
        let outbox = outbox.with_batch_bytes(delivery.batch_bytes);
        let looked_at = clock.now();
        Sending {
            outbox,
            delivery,
            clock,
            looked_at,
            meter: Meter::new(PROGRESS_PACE),
            traced: TracedPhases::begin(),
            has_begun: false,
            sources: Sources::default(),
            held: None,
            explains: true,
        }
    }

    /// Waits for admission; tells the client how many are ahead, and keeps the connection alive.
    pub(crate) fn await_admission(
        &mut self,
        state: Option<Admission>,
        admission: &AdmissionControl,
    ) -> Result<Option<AdmissionPermit>, SendStop> {
        let mut waiting = match state {
            Some(Admission::Queued(waiting)) => waiting,
            Some(Admission::Admitted(permit)) => return Ok(Some(permit)),
            Some(Admission::QueueFull) | None => return Ok(None),
        };
        let since = self.clock.now();
        let metrics = self.delivery.transfer.metrics();
        let _queued = Raised::new(&metrics.queue_length);
        self.delivery.transfer.is_at(Step::Queued);
        let mut told: Option<(Duration, usize)> = None;
        loop {
            let now = self.clock.now();
            let waited = now.saturating_sub(since);
            if admission.max_queue_time().is_some_and(|limit| waited >= limit) {
                metrics.refused(Reason::QueueFull);
                return Err(SendStop::Failed(Error::new(ErrorKind::Busy, BUSY)));
            }
            let ahead = waiting.ahead();
            let is_due = told.is_none_or(|(at, said)| said != ahead && now - at >= PROGRESS_PACE.interval);
            if self.delivery.progress && is_due {
                told = Some((now, ahead));
                let text = format!("Waiting in queue: {ahead} ahead   \r");
                self.outbox.progress(text.as_bytes(), now)?;
            }
            match waiting.wait(self.until_look(now)) {
                Err(still) => waiting = still,
                Ok(permit) => {
                    metrics.waited(waited);
                    if told.is_some() {
                        let text = format!("Waiting in queue: {} s, done.   \n", waited.as_secs());
                        self.outbox.progress(text.as_bytes(), self.clock.now())?;
                    }
                    return Ok(Some(permit));
                }
            }
            self.look(self.clock.now())?;
        }
    }

    /// The time until the next check.
    fn until_look(&self, now: Duration) -> Duration {
        let until_tick = self.outbox.next_tick().map(|due| due.saturating_sub(now));
        until_tick.map_or(CLIENT_CHECK_INTERVAL, |until| until.min(CLIENT_CHECK_INTERVAL))
    }

    /// Checks whether the client is still connected, and keeps the connection alive.
    fn look(&mut self, now: Duration) -> Result<(), SendStop> {
        if now.saturating_sub(self.looked_at) >= CLIENT_CHECK_INTERVAL {
            self.looked_at = now;
            if self.outbox.peer_gone() {
                return Err(SendStop::Gone(std::io::ErrorKind::BrokenPipe.into()));
            }
        }
        Ok(self.outbox.tick(now)?)
    }

    /// In a trace, the pack begins here.
    pub(crate) fn begin_pack(&mut self) {
        if let Some(traced) = &mut self.traced {
            traced.enter(PackStep::Enumerate);
        }
    }

    /// Sends text to the user.
    pub(crate) fn say(&mut self, text: &[u8]) -> Result<(), SendStop> {
        Ok(self.outbox.progress(text, self.clock.now())?)
    }

    /// Sends what `next` returns; `next` waits no longer than its argument.
    pub(crate) fn relay(
        &mut self,
        mut next: impl FnMut(Duration) -> Option<Event>,
    ) -> Result<Option<Totals>, SendStop> {
        let _phase = self.delivery.transfer.phase(Stage::Send, self.clock);
        loop {
            let wait = self.until_look(self.clock.now());
            let event = next(wait);
            let now = self.clock.now();
            match event {
                Some(Event::Segment(segment)) => {
                    if !self.has_begun && self.held.is_none() {
                        self.delivery.transfer.is_at(Step::Sending);
                    }
                    self.sources.note(&segment);
                    self.sources.check().map_err(SendStop::Failed)?;
                    // The trailer of a pack from memory was made after everything before it was known to be
                    // right.
                    let ready = match self.sources.are_files() {
                        true => self.held.replace(segment),
                        false => Some(segment),
                    };
                    self.send_segment(ready, now)?;
                }
                Some(Event::Progress { phase, done, total }) => {
                    let text = self.report(phase, done, total, now);
                    if !text.is_empty() {
                        self.outbox.progress(text.as_bytes(), now)?;
                    }
                }
                Some(Event::Text(text)) => self.outbox.progress(&text, now)?,
                // No hook was asked for URIs.
                Some(Event::Uris(_)) | None => {}
                Some(Event::End(Ok(totals))) => {
                    self.complete(now)?;
                    return Ok(totals);
                }
                Some(Event::End(Err(error))) => {
                    let last = self.held.take();
                    self.send_segment(last, now)?;
                    return Err(SendStop::Failed(error));
                }
                Some(Event::Lagged) => {
                    self.held = None;
                    return Err(SendStop::Lagged);
                }
            }
            // Also after an event: the worker reports more often than anything is sent.
            self.look(now)?;
        }
    }

    /// What the client is told of the progress. Of writing the pack it is told nothing: it counts itself what
    /// arrives.
    fn report(&mut self, phase: Phase, done: u64, total: u64, now: Duration) -> String {
        let is_shown = self.delivery.progress && phase != Phase::Writing;
        if let Some(traced) = &mut self.traced {
            let title = is_shown.then(|| title(phase));
            traced.report(phase, done, total, title.as_deref());
        }
        match (self.delivery.progress, is_shown) {
            (true, true) => self.meter.update(phase, done, total, now).unwrap_or_default(),
            (true, false) => self.meter.finish(now),
            (false, _) => String::new(),
        }
    }

    fn send_segment(&mut self, segment: Option<Segment>, now: Duration) -> Result<(), SendStop> {
        if let Some(segment) = segment {
            self.has_begun = true;
            self.outbox.pack(segment, now)?;
        }
        Ok(())
    }

    /// Sends the trailer, once the files of everything before it are known to be unchanged.
    fn complete(&mut self, now: Duration) -> Result<(), SendStop> {
        let last = self.held.take();
        if self.sources.are_files() {
            // After this all mapped bytes were read.
            self.outbox.flush(now)?;
            self.sources.check_unchanged(self.delivery.hash).map_err(SendStop::Failed)?;
        }
        self.send_segment(last, now)
    }

    pub(crate) fn end(mut self, result: Result<Option<Totals>, SendStop>) -> Result<(), Error> {
        let now = self.clock.now();
        self.delivery.transfer.metrics().keepalives.inc_by(self.outbox.keepalives_sent());
        match result {
            Ok(totals) => {
                if let (Some(traced), Some(totals)) = (&mut self.traced, &totals) {
                    traced.packed(totals);
                    traced.end();
                }
                if let Some(totals) = totals.filter(|_| self.delivery.progress) {
                    let text = format!("{}{}", self.meter.finish(now), total_line(&totals));
                    self.outbox.progress(text.as_bytes(), now).map_err(Error::gone)?;
                }
                self.outbox.finish(now).map_err(Error::gone)
            }
            Err(SendStop::Gone(error)) => Err(Error::gone(error)),
            Err(SendStop::Lagged) => {
                let reason = "client is too slow: the pack buffer is full";
                self.fail(Error::new(ErrorKind::LimitExceeded, reason), now)
            }
            Err(SendStop::Failed(error)) => self.fail(error, now),
        }
    }

    /// Tells the client that the pack ends here.
    fn fail(mut self, error: Error, now: Duration) -> Result<(), Error> {
        let is_busy = error.kind() == ErrorKind::Busy;
        // The text of a fault is for the log: it names a file of this machine.
        let explains = self.explains && !is_busy && error.kind() != ErrorKind::Fault;
        let text = match explains {
            true => self.delivery.paths.for_client(&error.lines()).into_owned(),
            false => String::new(),
        };
        let last_words = if is_busy { BUSY.as_bytes() } else { ABORT_MESSAGE };
        let told =
            self.outbox.progress(text.as_bytes(), now).and_then(|()| self.outbox.fail(last_words, now));
        match told {
            Ok(()) if self.delivery.framing != Framing::Raw => Err(error.told()),
            Ok(()) => Err(error),
            Err(gone) => Err(Error::gone(gone)),
        }
    }
}
