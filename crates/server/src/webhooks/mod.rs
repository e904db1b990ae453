//! Webhooks: events of the journal are posted, signed, to URLs that the server's operator names (decision 50).
//!
//! ```text
//! push ─► journal (durable) ─► the pusher is told
//!            │ a number goes up
//!            ▼
//! a task a hook, on the background runtime: reads the journal as followers do ─► POST ─► cursor
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | `settings` | the file of hooks |
//! | `address` | which addresses a hook may connect to |
//! | `retry` | when a failed delivery is tried again, and for how long |
//! | `delivery` | one POST |
//! | `cursor` | how far a hook has come, on disk |
//! | `task` | reads, posts, moves the cursor |
//!
//! A push does nothing for a hook: it knows of none.

mod address;
mod cursor;
mod delivery;
mod retry;
mod settings;
mod task;

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;

use tokio::sync::watch;

use crate::events::{EventSettings, Events};
use crate::metrics::{Metrics, WebhookCounts, WebhookNumbers};
pub use settings::{Webhook, Webhooks};
use task::{DeliveryRules, HookTask};

/// Starts the hooks of a server. They end when it stops.
pub(crate) fn start(
    webhooks: &Webhooks,
    (events, settings): (&Events, &EventSettings),
    metrics: &Arc<Metrics>,
    stopping: &watch::Sender<bool>,
    runtime: &Handle,
) -> io::Result<()> {
    let rules = DeliveryRules::of(settings);
    let mut all_counts = Vec::new();
    for hook in &webhooks.hooks {
        let counts = Arc::new(WebhookCounts::new(&hook.name));
        let failed = |error| io::Error::other(format!("events.webhooks: {}: {error}", hook.name));
        let task = HookTask::new(
            hook.clone(),
            webhooks.tls.clone(),
            rules,
            events.journal.dir(),
            events.durable(),
            counts.clone(),
        );
        let task = task.map_err(failed)?;
        all_counts.push(counts);
        let (running, name) = (runtime.spawn(task.run(stopping.subscribe())), hook.name.clone());
        let metrics = metrics.clone();
        runtime.spawn(async move {
            if running.await.is_err_and(|error| error.is_panic()) {
                metrics.panics.inc();
                tracing::error!(
                    "webhook {name} panicked; it sends nothing until the server is started again"
                );
            }
        });
    }
    // These are the only ones.
    let _ = metrics.webhooks.set(WebhookNumbers::new(all_counts, events.durable()));
    Ok(())
}

#[cfg(test)]
mod tests;
