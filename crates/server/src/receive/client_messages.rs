//! Messages to a client while a worker processes its push: they are sent at once, with keepalives in between.
//!
//! ```text
//! worker: reads the pack, unpacks, runs hooks, changes refs ── Event ──▶ this thread: frames, keepalive ──▶ client
//!                     ▲──────────────────────── cancelled ─────────────────────┘ the client has left
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

use packrace_os::clock::Clock;
use packrace_pack::{Phase, ProgressSink};
use packrace_store::MessageSink;

use super::spent::CpuTime;
use crate::check_intervals::CLIENT_CHECK_INTERVAL;
use crate::path_names::PathNames;
use crate::send::outbox::Outbox;

/// Texts that wait for the client: those of hooks have at most 8 KiB each.
pub(super) const WAITING_EVENTS: usize = 16;

/// What the worker sends.
pub(super) enum WorkerEvent {
    /// Text for the user.
    Text(Vec<u8>),
    /// Framed packets.
    Packets(Vec<u8>),
    /// The pack was read completely: from now on keepalives are sent.
    PackRead,
}

/// The worker's end of the connection: sends messages, and knows whether the client is still connected.
/// Clones share it.
#[derive(Clone)]
pub(super) struct ClientMessages {
    sender: SyncSender<WorkerEvent>,
    cancelled: Arc<AtomicBool>,
    /// Objects are about to be stored: the push and its hooks run to their end, whether or not the client is
    /// connected.
    goes_on: Arc<AtomicBool>,
    /// Where text goes if the client has no side-band.
    aside: Option<MessageSink>,
    paths: PathNames,
    cpu_time: Arc<CpuTime>,
}

impl ClientMessages {
    pub(super) fn new(
        sender: SyncSender<WorkerEvent>,
        cancelled: Arc<AtomicBool>,
        aside: Option<MessageSink>,
        paths: PathNames,
        cpu_time: CpuTime,
    ) -> Self {
        ClientMessages {
            sender,
            cancelled,
            goes_on: Arc::default(),
            aside,
            paths,
            cpu_time: Arc::new(cpu_time),
        }
    }

    /// Sends text to the user, unchanged.
    pub(super) fn say(&self, text: &[u8]) {
        match &self.aside {
            _ if text.is_empty() => {}
            Some(outlet) => outlet.say(text),
            None => self.tell(WorkerEvent::Text(text.to_vec())),
        }
    }

    pub(super) fn error(&self, text: &str) {
        self.report("error", text);
    }

    pub(super) fn warn(&self, text: &str) {
        self.report("warning", text);
    }

    /// Sends text that may name files. The client sees its own names for them; the log gets the real ones.
    pub(super) fn report(&self, word: &str, text: &str) {
        let shown = self.paths.for_client(text);
        if shown != text {
            tracing::warn!("{word}: {text}");
        }
        self.say(format!("{word}: {shown}\n").as_bytes());
    }

    /// Whether the client sees names of its own instead of paths.
    pub(super) fn renames_paths(&self) -> bool {
        self.paths.are_others()
    }

    /// Reports that the pack was read completely.
    pub(super) fn pack_read(&self) {
        self.tell(WorkerEvent::PackRead);
    }

    /// A client that has disconnected need not know.
    pub(super) fn tell(&self, event: WorkerEvent) {
        let _ = self.sender.send(event);
    }

    /// A sink for the messages of hooks.
    pub(super) fn outlet(&self) -> MessageSink {
        let client = self.clone();
        MessageSink::new(move |text| client.say(text))
    }

    /// From now on the push continues even if the client disconnects.
    pub(super) fn go_on(&self) {
        self.goes_on.store(true, Relaxed);
    }

    /// Whether the push ends here: the client has disconnected, or the push takes too long. All of its
    /// threads ask this.
    pub(super) fn is_cancelled(&self) -> bool {
        !self.goes_on.load(Relaxed) && (self.cancelled.load(Relaxed) || self.cpu_time.is_exceeded())
    }

    /// The reason, if the push ends because it takes too long.
    pub(super) fn too_long(&self) -> Option<String> {
        let is_too_long = !self.goes_on.load(Relaxed) && self.cpu_time.is_exceeded();
        is_too_long.then(|| self.cpu_time.words())
    }

    /// Counts bytes of the pack that have arrived.
    pub(super) fn has_come(&self, bytes: usize) {
        self.cpu_time.has_come(bytes);
    }
}

/// Walks end when the push does; they have no progress to report.
impl ProgressSink for ClientMessages {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        self.is_cancelled()
    }
}

/// Sends what the worker reports until it has ended. When the client disconnects, the worker is cancelled,
/// and its reports are dropped.
pub(super) fn relay(
    receiver: &Receiver<WorkerEvent>,
    outbox: &mut Outbox<'_>,
    cancelled: &AtomicBool,
    clock: &dyn Clock,
) -> io::Result<()> {
    let mut gone = None;
    let mut keeps_alive = false;
    let mut looked_at = clock.now();
    loop {
        let now = clock.now();
        let until_tick = outbox.next_tick().filter(|_| keeps_alive).map(|due| due.saturating_sub(now));
        let wait = until_tick.map_or(CLIENT_CHECK_INTERVAL, |until| until.min(CLIENT_CHECK_INTERVAL));
        let event = receiver.recv_timeout(wait);
        let now = clock.now();
        let mut sent = match event {
            Ok(_) if gone.is_some() => Ok(()),
            Ok(WorkerEvent::Text(text)) => outbox.progress(&text, now),
            Ok(WorkerEvent::Packets(packets)) => outbox.packets(&packets, now),
            Ok(WorkerEvent::PackRead) => {
                keeps_alive = true;
                outbox.restart_keepalive(now);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return gone.map_or(Ok(()), Err),
        };
        if gone.is_none() && sent.is_ok() && now.saturating_sub(looked_at) >= CLIENT_CHECK_INTERVAL {
            looked_at = now;
            if outbox.peer_gone() {
                sent = Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        if gone.is_none() && sent.is_ok() && keeps_alive {
            sent = outbox.tick(now);
        }
        if let Err(error) = sent {
            cancelled.store(true, Relaxed);
            gone = Some(error);
            keeps_alive = false;
        }
    }
}
