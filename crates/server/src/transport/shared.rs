//! What all connections of a server share.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use packrace_os::clock::RealClock;
use packrace_os::turns::Turns;
use packrace_store::Repository;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::body::BodyMemory;
use super::call::Service;
use super::places::Places;
use super::root::{NotServed, Root};
use super::seeing::{self, Seeing};
use super::settings::{Pushing, Settings};
use crate::admission::Admission;
use crate::host::Host;
use crate::pack_cache::PackCache;
use crate::transfers::Transfers;
use crate::warm::{RefAnswers, WarmRepositories};

/// Clients that are told at the same time that there is no place; others are dropped without a word.
const MAX_REFUSING: usize = 64;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: Root,
    /// They change while the server runs; a request keeps to those that it began with.
    settings: RwLock<Arc<Settings>>,
    pub(super) clock: RealClock,
    pub(super) places: Arc<Places>,
    pub(super) refusing: Arc<Semaphore>,
    /// Places for connections of those who only look.
    pub(super) admin_places: Arc<Semaphore>,
    pub(super) seeing: Seeing,
    pub(super) body_memory: BodyMemory,
    /// Where connections go on that others go before; of threads of lower priority.
    pub(super) background: Option<Handle>,
    /// What the calls of all connections share.
    pub(super) host: Arc<Host>,
    /// Whether the server is stopping. Each connection and each running request holds a receiver: the sender knows
    /// when the last is gone.
    pub(super) stopping: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(root: &Path, settings: Settings) -> std::io::Result<Self> {
        let limits = &settings.limits;
        let places = Places::new(limits, packrace_os::process::raise_descriptor_limit());
        // One request of the largest size must fit, twice: as it came, and inflated.
        let body_bytes = limits.body_memory_bytes.max(limits.max_request_bytes.saturating_mul(2));
        // An answer is about an opened repository: without those, there is none to be used again.
        let warm = &settings.warm;
        let answers = RefAnswers::new(if warm.enabled { warm.max_answer_bytes } else { 0 });
        let metrics = Arc::default();
        let host = Host {
            admission: Admission::new(&settings.admission),
            transfers: Transfers::new(settings.session_id.clone()),
            packs: PackCache::new(settings.cache.clone(), Arc::clone(&metrics)),
            answers,
            metrics,
            turns: Some(Arc::new(Turns::new(packrace_os::process::available_threads()))),
        };
        let warm = WarmRepositories::new(warm.clone(), host.metrics.clone());
        Ok(Shared {
            root: Root::new(root, settings.open.clone(), warm)?,
            places,
            refusing: Arc::new(Semaphore::new(MAX_REFUSING)),
            admin_places: Arc::new(Semaphore::new(seeing::MAX_ADMIN_CONNECTIONS)),
            seeing: Seeing::default(),
            background: None,
            body_memory: BodyMemory::new(body_bytes),
            settings: RwLock::new(Arc::new(settings)),
            clock: RealClock::default(),
            host: Arc::new(host),
            stopping: watch::Sender::new(false),
        })
    }

    /// What counts for requests that begin now.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, these count. Where the server listens, and what it has set aside at its start, stays.
    pub(super) fn set(&self, settings: Settings) {
        self.places.set(&settings.limits);
        self.host.admission.set(&settings.admission);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The repository at a path, if it offers this service at a door; `section` is where its configuration says so. Where
    /// there is none to push to, and some may be made, a new one.
    pub(super) fn open(
        &self,
        service: Service,
        section: &str,
        path: &[u8],
    ) -> Result<Arc<Repository>, NotServed> {
        let settings = self.settings();
        let (opened, by_default) = match service {
            Service::UploadPack => (self.root.open(path), true),
            Service::ReceivePack => {
                (self.open_for_push(path, &settings.pushing), settings.pushing.is_allowed)
            }
        };
        let repository = opened?;
        match service.is_enabled(&repository, section, by_default) {
            Ok(true) => Ok(repository),
            Ok(false) => Err(NotServed::Disabled),
            Err(error) => Err(NotServed::Broken(error)),
        }
    }

    fn open_for_push(&self, path: &[u8], pushing: &Pushing) -> Result<Arc<Repository>, NotServed> {
        match (self.root.open(path), &pushing.new_repositories) {
            (Err(NotServed::NotFound(_)), Some(new)) => self.root.create(path, new),
            (opened, _) => opened,
        }
    }
}
