//! The task of one hook: reads the journal from its cursor on, posts the events that the hook wants, and
//! advances the cursor.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_journal::{Action, JournalReader, Line};
use rustls::ClientConfig;
use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use super::cursor::Cursor;
use super::delivery::{Attempted, Message, ReceiverConnection, post};
use super::retry::Attempts;
use super::settings::Webhook;
use crate::events::{EventSettings, hide_from_readers};
use crate::metrics::{AttemptOutcome, LossReason, WebhookCounts};

/// Back-off before the second attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Minimum time between writes of a cursor: pushes wait for the same disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time before a failed write of the cursor or read of the journal is retried.
const DISK_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Lines scanned at once.
const BATCH_LINES: usize = 1000;

/// How events are posted. Plain data.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryRules {
    /// Time limit of connecting, and of the response.
    pub(super) max_time: Duration,
    pub(super) first_delay: Duration,
    /// No retry once this has passed since the first attempt.
    pub(super) retry_time: Duration,
}

impl DeliveryRules {
    pub(super) fn of(settings: &EventSettings) -> Self {
        let EventSettings { webhook_timeout, webhook_retry_time, .. } = *settings;
        DeliveryRules { max_time: webhook_timeout, first_delay: FIRST_DELAY, retry_time: webhook_retry_time }
    }
}

/// A running hook.
#[derive(Debug)]
pub(super) struct HookTask {
    hook: Arc<Webhook>,
    tls: Arc<ClientConfig>,
    rules: DeliveryRules,
    dir: PathBuf,
    /// `None` if it must be opened, at `next`.
    reader: Option<JournalReader>,
    /// The number of the next line; 0 for the oldest.
    next: u64,
    cursor: Arc<Cursor>,
    /// The number in the cursor's file, and when it may be written again.
    saved: Option<u64>,
    save_at: Instant,
    /// The number of the last line that is durable.
    durable: watch::Receiver<u64>,
    /// Kept after an event, for a moment.
    connection: Option<ReceiverConnection>,
    counts: Arc<WebhookCounts>,
}

/// The result of scanning the journal once.
struct JournalScan {
    reader: JournalReader,
    /// The number after the last line scanned, if there was one.
    next: Option<u64>,
    message: Option<Message>,
    /// Whether the end of the journal was reached.
    is_end: bool,
}

impl HookTask {
    /// Continues at the cursor. A new hook begins with future events.
    pub(super) fn new(
        hook: Arc<Webhook>,
        tls: Arc<ClientConfig>,
        rules: DeliveryRules,
        dir: &Path,
        durable: watch::Receiver<u64>,
        counts: Arc<WebhookCounts>,
    ) -> io::Result<Self> {
        let cursor = Cursor::new(dir, &hook.name);
        let end = durable.borrow().saturating_add(1);
        let kept = cursor.read()?;
        let next = match kept {
            Some(next) if next > end => {
                tracing::warn!(
                    "webhook {}: cursor is at event {next}, beyond the end of the journal; continuing at the end",
                    hook.name
                );
                end
            }
            Some(next) => next,
            None => end,
        };
        // Events before the first delivery must not move the start of a new hook.
        cursor.begin(kept, next)?;
        tracing::info!("webhook {}: started at event {next}", hook.name);
        counts.set_next(next);
        Ok(HookTask {
            hook,
            tls,
            rules,
            dir: dir.to_owned(),
            reader: None,
            next,
            cursor: Arc::new(cursor),
            saved: Some(next),
            save_at: Instant::now(),
            durable,
            connection: None,
            counts,
        })
    }

    /// Runs until the server stops, or the sender of `ending` is dropped. A delivery in flight is sent again
    /// after the next start.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>, ending: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            () = async { drop(stopping.wait_for(|is_stopping| *is_stopping).await) } => {}
            _ = ending => {}
            () = self.work() => {}
        }
        self.save().await;
    }

    async fn work(&mut self) {
        loop {
            let last = *self.durable.borrow_and_update();
            match self.scan(last).await {
                Ok((Some(message), _)) => {
                    self.deliver(&message).await;
                    self.move_to(message.seq.saturating_add(1));
                }
                Ok((None, true)) => self.wait().await,
                Ok((None, false)) => {}
                Err(error) => {
                    tracing::error!("webhook {}: cannot read the journal: {error}", self.hook.name);
                    self.saving_meanwhile(sleep(DISK_RETRY_INTERVAL)).await;
                }
            }
            if self.is_moved() && Instant::now() >= self.save_at {
                self.save().await;
            }
        }
    }

    /// Waits for the next line, or until the cursor must be written or the connection be closed.
    async fn wait(&mut self) {
        let (is_moved, save_at) = (self.is_moved(), self.save_at);
        let idle_until = self.connection.as_ref().map(|connection| connection.idle_until);
        tokio::select! {
            changed = self.durable.changed() => {
                if changed.is_err() {
                    // The journal's writer is gone.
                    std::future::pending::<()>().await;
                }
            }
            () = sleep_until(save_at), if is_moved => {}
            () = sleep_until(idle_until.unwrap_or(save_at)), if idle_until.is_some() => self.connection = None,
        }
    }

    /// The next event that the hook wants among the next lines, and whether the end of the journal was
    /// reached.
    async fn scan(&mut self, last: u64) -> io::Result<(Option<Message>, bool)> {
        let reader = self.reader.take().unwrap_or_else(|| JournalReader::new(&self.dir, self.next));
        let (hook, counts) = (self.hook.clone(), self.counts.clone());
        // Reading files blocks.
        let scanned = spawn_blocking(move || scan(reader, &hook, &counts, last)).await;
        let scan = scanned.map_err(io::Error::other)??;
        self.reader = Some(scan.reader);
        match (&scan.message, scan.next) {
            // The position moves past the event only when it has been delivered.
            (Some(message), _) => self.move_to(message.seq),
            (None, Some(next)) => self.move_to(next),
            (None, None) => {}
        }
        Ok((scan.message, scan.is_end))
    }

    /// Posts an event until the receiver accepts it or its time is over.
    async fn deliver(&mut self, message: &Message) {
        let began = Instant::now();
        let mut attempts = Attempts::new(self.rules.first_delay, self.rules.retry_time, Duration::ZERO);
        let (hook, tls, max_time) = (self.hook.clone(), self.tls.clone(), self.rules.max_time);
        loop {
            let delivery = new_id();
            let mut connection = self.connection.take();
            let posting = post(&mut connection, &hook, &tls, message, &delivery, max_time);
            let attempted = self.saving_meanwhile(posting).await;
            self.connection = connection;
            let Attempted { outcome, why, retry_after } = attempted;
            self.counts.attempted(outcome);
            let (name, seq) = (&self.hook.name, message.seq);
            if outcome == AttemptOutcome::Delivered {
                tracing::debug!("webhook {name}: event {seq} delivered ({delivery})");
                return;
            }
            let random = getrandom::u32().unwrap_or(0);
            let Some(delay) = attempts.failed(began.elapsed(), retry_after, random) else {
                tracing::error!("webhook {name}: event {seq} dropped: {why}");
                // Logged before it is counted, so that a counted loss is always in the log.
                self.counts.lost(LossReason::GivenUp, 1);
                return;
            };
            let delay_ms = delay.as_millis();
            tracing::warn!(
                "webhook {name}: event {seq} ({delivery}) not delivered: {why}; retrying in {delay_ms} ms"
            );
            self.saving_meanwhile(sleep(delay)).await;
        }
    }

    /// Runs `work`, and writes the cursor meanwhile: finished deliveries stay recorded, however long it
    /// takes.
    async fn saving_meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep_until(self.save_at), if self.is_moved() => self.save().await,
            }
        }
    }

    fn move_to(&mut self, next: u64) {
        self.next = next;
        self.counts.set_next(next);
    }

    fn is_moved(&self) -> bool {
        self.saved != Some(self.next)
    }

    async fn save(&mut self) {
        if !self.is_moved() {
            return;
        }
        let (cursor, next) = (self.cursor.clone(), self.next);
        let written = spawn_blocking(move || cursor.write(next)).await;
        let interval = match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => {
                self.saved = Some(next);
                SAVE_INTERVAL
            }
            Err(error) => {
                tracing::warn!("webhook {}: cannot write the cursor: {error}", self.hook.name);
                DISK_RETRY_INTERVAL
            }
        };
        self.save_at = Instant::now() + interval;
    }
}

/// Reads lines up to the number `last`, until one is wanted.
fn scan(
    mut reader: JournalReader,
    hook: &Webhook,
    counts: &WebhookCounts,
    last: u64,
) -> io::Result<JournalScan> {
    let mut next = None;
    for _ in 0..BATCH_LINES {
        let Some(line) = reader.next_up_to(last)? else {
            return Ok(JournalScan { reader, next, message: None, is_end: true });
        };
        if line.missed > 0 {
            counts.lost(LossReason::Gone, line.missed);
            let (first, last) = (line.seq.saturating_sub(line.missed), line.seq.saturating_sub(1));
            tracing::error!(
                "webhook {}: events {first} to {last} lost: deleted from the journal before they were sent",
                hook.name
            );
        }
        next = Some(line.seq.saturating_add(1));
        if let Some(message) = wanted(&line, hook, counts) {
            return Ok(JournalScan { reader, next, message: Some(message), is_end: false });
        }
    }
    Ok(JournalScan { reader, next, message: None, is_end: false })
}

/// The message to post for a line, if the hook wants it.
fn wanted(line: &Line, hook: &Webhook, counts: &WebhookCounts) -> Option<Message> {
    let Ok(mut event) = serde_json::from_slice::<Map<String, Value>>(&line.bytes) else {
        counts.lost(LossReason::Gone, 1);
        tracing::error!("webhook {}: event {} lost: its journal line is damaged", hook.name, line.seq);
        return None;
    };
    let kind = event.get("event").cloned().unwrap_or_default();
    let is_wanted = match &hook.actions {
        None => true,
        Some(actions) => {
            serde_json::from_value::<Action>(kind.clone()).is_ok_and(|one| actions.contains(&one))
        }
    };
    if !is_wanted || !hook.filter.matches_line(&line.bytes) {
        return None;
    }
    hide_from_readers(&mut event);
    let kind = kind.as_str().unwrap_or_default().to_owned();
    Some(Message { seq: line.seq, kind, body: Value::Object(event).to_string().into() })
}

/// A unique id of an attempt.
fn new_id() -> String {
    let halves = [getrandom::u64(), getrandom::u64()].map(|half| half.unwrap_or_default());
    halves.map(|half| format!("{half:016x}")).concat()
}
