//! Webhooks: posts events of the journal, signed, to URLs that the server's operator configures (decision
//! 50).
//!
//! ```text
//! push ─► journal (durable) ─► the pusher is told
//!            │ a number goes up
//!            ▼
//! one task per hook, on the background runtime: reads the journal as followers do ─► POST ─► cursor
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | `settings` | the webhook file |
//! | `address` | which addresses a hook may connect to |
//! | `retry` | when and for how long a failed delivery is retried |
//! | `delivery` | one POST |
//! | `cursor` | a hook's position in the journal, on disk |
//! | `task` | reads, posts, advances the cursor |
//!
//! A push does no work for hooks and does not know of them.

mod address;
mod cursor;
mod delivery;
mod retry;
mod settings;
mod task;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::events::{EventSettings, Events};
use crate::metrics::{Metrics, WebhookCounts, WebhookNumbers};
pub use settings::{Webhook, Webhooks};
use task::{DeliveryRules, HookTask};

/// The running hooks of a server. They end when the server stops, or when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningWebhooks {
    rules: DeliveryRules,
    /// The directory of the journal, and the number of its last line that is durable.
    dir: PathBuf,
    durable: watch::Receiver<u64>,
    metrics: Arc<Metrics>,
    numbers: WebhookNumbers,
    stopping: watch::Sender<bool>,
    runtime: Handle,
    running: Vec<RunningWebhook>,
}

/// A running hook.
#[derive(Debug)]
struct RunningWebhook {
    hook: Arc<Webhook>,
    counts: Arc<WebhookCounts>,
    /// Ends the task when it is dropped.
    end: oneshot::Sender<()>,
    /// Completes when the task has ended and its cursor is written.
    ended: JoinHandle<()>,
}

impl RunningWebhooks {
    /// Starts all hooks.
    pub(crate) fn start(
        webhooks: &Webhooks,
        (events, settings): (&Events, &EventSettings),
        metrics: &Arc<Metrics>,
        stopping: &watch::Sender<bool>,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let numbers = WebhookNumbers::new(events.durable());
        // Set only here.
        let _ = metrics.webhooks.set(numbers.clone());
        let mut all = RunningWebhooks {
            rules: DeliveryRules::of(settings),
            dir: events.journal.dir().to_owned(),
            durable: events.durable(),
            metrics: metrics.clone(),
            numbers,
            stopping: stopping.clone(),
            runtime: runtime.clone(),
            running: Vec::new(),
        };
        for hook in &webhooks.hooks {
            let counts = Arc::new(WebhookCounts::new(&hook.name));
            let begun = all.begin(hook, &webhooks.tls, counts);
            begun.map_err(|error| io::Error::other(format!("events.webhooks: {}: {error}", hook.name)))?;
        }
        all.show_numbers();
        Ok(all)
    }

    /// Changes the hooks. An unchanged hook continues undisturbed; a changed one ends, and begins at its
    /// cursor at once.
    pub(crate) async fn set(&mut self, webhooks: &Webhooks) {
        let goes_on = |one: &RunningWebhook| !one.ended.is_finished() && webhooks.hooks.contains(&one.hook);
        let (go_on, end): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running).into_iter().partition(goes_on);
        self.running = go_on;
        let mut before = Vec::new();
        for RunningWebhook { hook, counts, end, ended } in end {
            drop(end);
            // Two tasks would write the same cursor. A panic was logged already.
            let _ = ended.await;
            tracing::info!("webhook {}: stopped", hook.name);
            before.push((hook.name.clone(), counts));
        }
        for hook in &webhooks.hooks {
            if self.running.iter().any(|one| one.hook.name == hook.name) {
                continue;
            }
            let counts = before.iter().find(|(name, _)| *name == hook.name).map(|(_, counts)| counts.clone());
            let counts = counts.unwrap_or_else(|| Arc::new(WebhookCounts::new(&hook.name)));
            if let Err(error) = self.begin(hook, &webhooks.tls, counts) {
                tracing::error!("webhook {}: cannot start, retried at the next SIGHUP: {error}", hook.name);
            }
        }
        self.show_numbers();
    }

    fn begin(
        &mut self,
        hook: &Arc<Webhook>,
        tls: &Arc<ClientConfig>,
        counts: Arc<WebhookCounts>,
    ) -> io::Result<()> {
        let (durable, of_task) = (self.durable.clone(), counts.clone());
        let task = HookTask::new(hook.clone(), tls.clone(), self.rules, &self.dir, durable, of_task)?;
        let (end, ending) = oneshot::channel();
        let running = self.runtime.spawn(task.run(self.stopping.subscribe(), ending));
        let (name, metrics) = (hook.name.clone(), self.metrics.clone());
        let ended = self.runtime.spawn(async move {
            if running.await.is_err_and(|error| error.is_panic()) {
                metrics.panics.inc();
                tracing::error!("webhook {name} panicked; stopped until the next SIGHUP or restart");
            }
        });
        self.running.push(RunningWebhook { hook: hook.clone(), counts, end, ended });
        Ok(())
    }

    fn show_numbers(&self) {
        self.numbers.set(self.running.iter().map(|one| one.counts.clone()).collect());
    }
}

#[cfg(test)]
mod tests;
