//! The task of one hook: reads the journal behind its cursor, posts what the hook wants, and moves the cursor.

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
use super::delivery::{Attempted, Message, post};
use super::retry::Attempts;
use super::settings::Webhook;
use crate::events::{EventSettings, hide_from_readers};
use crate::metrics::{AttemptOutcome, LossReason, WebhookCounts};

/// The delay before the second attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// A cursor is written no more often: pushes wait for the same disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// After a failure, the cursor is written, and the journal read, no sooner.
const DISK_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Lines that are looked at in one go.
const BATCH_LINES: usize = 1000;

/// How events are posted. Plain data.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryRules {
    /// For connecting, and for the answer.
    pub(super) max_time: Duration,
    pub(super) first_delay: Duration,
    /// When this has passed since the first attempt, there is no more.
    pub(super) retry_time: Duration,
}

impl DeliveryRules {
    pub(super) fn of(settings: &EventSettings) -> Self {
        let EventSettings { webhook_timeout, webhook_retry_time, .. } = *settings;
        DeliveryRules { max_time: webhook_timeout, first_delay: FIRST_DELAY, retry_time: webhook_retry_time }
    }
}

/// A hook at work.
#[derive(Debug)]
pub(super) struct HookTask {
    hook: Arc<Webhook>,
    tls: Arc<ClientConfig>,
    rules: DeliveryRules,
    dir: PathBuf,
    /// `None` where it has to be opened, at `next`.
    reader: Option<JournalReader>,
    /// The number of the line that comes next; 0 for the oldest.
    next: u64,
    cursor: Arc<Cursor>,
    /// What the cursor says, and when it may be written again.
    saved: Option<u64>,
    save_at: Instant,
    /// The number of the last line that is durable.
    durable: watch::Receiver<u64>,
    counts: Arc<WebhookCounts>,
}

/// What is found of the journal in one go.
struct JournalScan {
    reader: JournalReader,
    /// The number behind the last line that was looked at, if there was one.
    next: Option<u64>,
    message: Option<Message>,
    /// Whether there is nothing more for now.
    is_end: bool,
}

impl HookTask {
    /// Goes on at the cursor. A hook without one begins with what comes from now on.
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
        // Nothing that happens before the first delivery may move it.
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
            counts,
        })
    }

    /// Works until the server stops, or `ending` has lost its sender. What is on its way then is sent again at the next start.
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

    /// Waits for the next line. The cursor is written meanwhile.
    async fn wait(&mut self) {
        let (is_moved, save_at) = (self.is_moved(), self.save_at);
        tokio::select! {
            changed = self.durable.changed() => {
                if changed.is_err() {
                    // Nobody writes any more.
                    std::future::pending::<()>().await;
                }
            }
            () = sleep_until(save_at), if is_moved => {}
        }
    }

    /// The next event that the hook wants, if there is one among the next lines; and whether there is nothing more.
    async fn scan(&mut self, last: u64) -> io::Result<(Option<Message>, bool)> {
        let reader = self.reader.take().unwrap_or_else(|| JournalReader::new(&self.dir, self.next));
        let (hook, counts) = (self.hook.clone(), self.counts.clone());
        // Files are read.
        let scanned = spawn_blocking(move || scan(reader, &hook, &counts, last)).await;
        let scan = scanned.map_err(io::Error::other)??;
        self.reader = Some(scan.reader);
        match (&scan.message, scan.next) {
            // Only when it is delivered.
            (Some(message), _) => self.move_to(message.seq),
            (None, Some(next)) => self.move_to(next),
            (None, None) => {}
        }
        Ok((scan.message, scan.is_end))
    }

    /// Posts an event until the receiver has it, or its time is over.
    async fn deliver(&mut self, message: &Message) {
        let began = Instant::now();
        let mut attempts = Attempts::new(self.rules.first_delay, self.rules.retry_time, Duration::ZERO);
        let (hook, tls, max_time) = (self.hook.clone(), self.tls.clone(), self.rules.max_time);
        loop {
            let delivery = new_id();
            let attempted = self.saving_meanwhile(post(&hook, &tls, message, &delivery, max_time)).await;
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
                // Told before it is counted: whoever sees the number finds the line.
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

    /// Waits for something, and writes the cursor meanwhile: what was delivered before stays so, however long this takes.
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

/// What of a line is posted, if the hook wants it.
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

/// Tells one attempt from all others.
fn new_id() -> String {
    let halves = [getrandom::u64(), getrandom::u64()].map(|half| half.unwrap_or_default());
    halves.map(|half| format!("{half:016x}")).concat()
}
