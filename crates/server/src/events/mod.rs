//! Events: a change is announced in the journal before it is made, and recorded before any client is told of
//! it (decision 49).

mod filter;
mod recovery;
mod settings;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use packrace_journal::{Action, Announced, Journal, JournalEvent, RefEvent};
use packrace_store::Repository;
use tokio::sync::{Semaphore, watch};

use crate::metrics::{Closed as _, Metrics};
use crate::path_names::path_below;
use crate::transfers::Transfer;
pub use filter::RepositoryFilter;
pub(crate) use filter::hide_from_readers;
pub(crate) use recovery::refs_that_changed;
pub use settings::EventSettings;

/// The message to a client whose push or request cannot be recorded, before anything changes.
pub(crate) const NOT_RECORDED: &str = "server cannot record changes; see the server's log";

/// The same after a change that no other client was told of.
pub(crate) const CHANGED_UNRECORDED: &str = "changed, but not recorded; see the server's log";

/// The journal of a server.
#[derive(Debug)]
pub struct Events {
    pub(crate) journal: Arc<Journal>,
    /// The served folder, without links.
    root: PathBuf,
    /// The number of the last line that is durable.
    durable: watch::Receiver<u64>,
    /// Limits the number of followers.
    pub(crate) followers: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// Opens the journal, if it is configured, and records changes that a kill interrupted.
    pub(crate) fn open(
        settings: &EventSettings,
        root: &Path,
        namespace: &str,
        metrics: Arc<Metrics>,
        repository: &dyn Fn(&Path) -> Option<Repository>,
    ) -> io::Result<Option<Self>> {
        let Some(dir) = &settings.journal else { return Ok(None) };
        let (sender, durable) = watch::channel(0);
        let on_durable = Box::new(move |seq| {
            sender.send_replace(seq);
        });
        let failed = |error| io::Error::other(format!("events.journal: {error}"));
        let (journal, unfinished) = Journal::open(dir, settings.options(), on_durable).map_err(failed)?;
        let events = Events {
            journal,
            root: root.to_owned(),
            durable,
            followers: Arc::new(Semaphore::new(settings.max_followers)),
            metrics,
        };
        for one in unfinished {
            events.recover(one, namespace, repository).map_err(failed)?;
        }
        tracing::info!("events: journal {}; last event is {}", dir.display(), events.journal.durable());
        Ok(Some(events))
    }

    /// Notifies of lines that become durable.
    pub(crate) fn durable(&self) -> watch::Receiver<u64> {
        self.durable.clone()
    }

    /// An event of this call, for the repository at a path below the served folder.
    pub(crate) fn event(&self, action: Action, transfer: &Transfer, repository: &[u8]) -> JournalEvent {
        JournalEvent {
            action,
            time: Timestamp::now().to_string(),
            repository: repository.to_vec(),
            to: None,
            user: transfer.user().map(str::to_owned),
            peer: transfer.peer().to_owned(),
            door: transfer.door().name().to_owned(),
            session: transfer.session_id().to_owned(),
            refs: Vec::new(),
            options: Vec::new(),
            is_recovered: false,
        }
    }

    /// Changes of refs of an opened repository.
    pub(crate) fn push(
        &self,
        transfer: &Transfer,
        repository: &Repository,
        refs: Vec<RefEvent>,
    ) -> JournalEvent {
        let dir = repository.common_dir();
        let real = packrace_os::real_path(dir);
        let real = real.as_deref().unwrap_or(dir);
        // A repository outside is named by its whole path.
        let path = path_below(&self.root, real).unwrap_or_else(|| real.as_os_str().as_bytes().to_vec());
        JournalEvent { refs, ..self.event(Action::Push, transfer, &path) }
    }

    /// Announces an event. A failure is logged and counted; the client is told [`NOT_RECORDED`].
    pub(crate) fn announce(&self, event: &JournalEvent) -> Result<Announced, NotRecorded> {
        self.journal.announce(event).map_err(|error| {
            self.metrics.events_refused.inc();
            tracing::error!("change refused: cannot record it in the journal: {error}");
            NotRecorded
        })
    }

    /// Records a change. A failure is logged and counted; the client is told [`CHANGED_UNRECORDED`].
    pub(crate) fn record(&self, announced: Announced, event: &JournalEvent) -> Result<(), NotRecorded> {
        if event.is_nothing() {
            announced.cancel();
            return Ok(());
        }
        let recorded = self.journal.record(announced, event).map(drop);
        if let Err(error) = recorded {
            self.metrics.events_refused.inc();
            tracing::error!("change done, but not recorded in the journal: {error}");
            return Err(NotRecorded);
        }
        self.metrics.events_recorded.inc();
        Ok(())
    }

    /// Makes a change: announces it before, and records it after.
    pub(crate) fn around<T, E>(
        &self,
        event: &JournalEvent,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, NotMade<E>> {
        let announced = self.announce(event).map_err(|NotRecorded| NotMade::Unrecorded(NOT_RECORDED))?;
        match change() {
            Ok(made) => match self.record(announced, event) {
                Ok(()) => Ok(made),
                Err(NotRecorded) => Err(NotMade::Unrecorded(CHANGED_UNRECORDED)),
            },
            Err(error) => {
                announced.cancel();
                Err(NotMade::Failed(error))
            }
        }
    }

    fn path_of(&self, below: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(below))
    }
}

/// A change could not be announced or recorded; the log has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotRecorded;

/// Why a change has no line.
#[derive(Debug)]
pub(crate) enum NotMade<E> {
    /// The change failed.
    Failed(E),
    /// The change could not be recorded; the message for the client.
    Unrecorded(&'static str),
}
