//! What all connections of a server share.

use std::fmt::Display;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::limits::cpu::CpuScheduler;
use packrace_journal::Action;
use packrace_os::clock::{Clock as _, RealClock};
use packrace_protocol::wire::pkt_line;
use packrace_remote::bucket::Bucket;
use packrace_remote::bucket::s3::S3;
use packrace_remote::cache::Cache;
use packrace_remote::commit::Committer;
use packrace_remote::probe;
use packrace_store::{Config, Repository};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::call::{Service, TURNS_PUSHES_ON};
use super::refusal_log::RefusalLog;
use super::root::{NotServed, Root, check_path};
use super::worker_pool::WorkerPool;
use crate::access::{Ask, Denied, Principal, RepositoryAccess};
use crate::events::{Events, NotMade};
use crate::history::SampleHistory;
use crate::host::Host;
use crate::limits::admission::AdmissionControl;
use crate::limits::budget::{Budget, BudgetLimits};
use crate::limits::connections::{ConnectionLimits, LimitReached};
use crate::metrics::{HandshakeOutcome, LoginOutcome, Metrics};
use crate::receive;
use crate::repository_cache::{RefAdvertisementCache, RepositoryCache};
use crate::send::outbox::ClientSink;
use crate::send::pack_cache::PackCache;
use crate::settings::{BucketSettings, NewRepositories, PushMemory, Settings};
use crate::subject::ProtocolVersion;
use crate::transfers::{Transfer, Transfers};

/// Clients that are told concurrently that a limit is reached; others are disconnected without a response.
const MAX_REFUSING: usize = 256;

/// Simultaneous connections to an address that serves only the routes below `/-/`.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// No object has this key.
const START_KEY: &str = "v1/start";

/// The budget for the commands of pushes. Its claims are never cut.
fn push_memory(settings: &Settings) -> BudgetLimits {
    let PushMemory { bytes, bytes_per_address } = settings.pushing.memory;
    let exempt = settings.limits.exempt_addresses.clone();
    BudgetLimits { max: bytes, max_of_a_client: bytes_per_address, exempt, ..BudgetLimits::default() }
}

/// The cache of a bucket, in a folder. The bucket must answer, and must be suitable unless nothing is written.
fn open_bucket(
    dir: &Path,
    settings: &Settings,
    options: &BucketSettings,
    repositories: &Arc<RepositoryCache>,
) -> Result<Arc<Cache>, packrace_remote::Error> {
    let bucket = Bucket::new(Arc::new(S3::new(&options.s3)?));
    if settings.rules.read_only {
        // Any answer shows that credentials, address and name of the bucket are right.
        bucket.get_if_changed(START_KEY, None, 0)?;
    } else {
        let begins = || tracing::info!("bucket has not been probed at this address yet: probing it");
        probe::require(&bucket, &options.s3.address(), begins)?;
    }
    let repositories = repositories.clone();
    let forget = Box::new(move |path: &Path| repositories.release(path));
    Cache::open(bucket, dir, options.max_bytes, forget).map(Arc::new)
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: Root,
    /// They can change while the server runs; a request keeps the settings it began with.
    settings: RwLock<Arc<Settings>>,
    pub(crate) clock: RealClock,
    pub(crate) limits: Arc<ConnectionLimits>,
    pub(crate) refusing: Arc<Semaphore>,
    refusals: RefusalLog,
    failed_handshakes: RefusalLog,
    /// Permits for connections to the address that serves only the routes below `/-/`.
    pub(crate) admin_permits: Arc<Semaphore>,
    pub(crate) began: Instant,
    /// Samples of the last minutes.
    pub(crate) history: Mutex<SampleHistory>,
    /// A runtime of low priority, to which connections with long answers move.
    pub(crate) background: Option<Handle>,
    /// A runtime of low priority for connections of SSH, if there were keys at the start.
    pub(crate) ssh_runtime: Option<Handle>,
    /// Threads for requests.
    pub(crate) workers: Arc<WorkerPool>,
    /// Shared by the calls of all connections.
    pub(crate) host: Arc<Host>,
    /// Whether the server is stopping. Each connection and each running request holds a receiver: the sender
    /// knows when the last one is dropped.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(root: &Path, settings: Settings) -> std::io::Result<Self> {
        let limits = &settings.limits;
        let limits = ConnectionLimits::new(limits, packrace_os::process::raise_descriptor_limit());
        // Answers belong to open repositories: if those are not cached, no answer can be used again.
        let caching = &settings.repository_cache;
        let ref_advertisements =
            RefAdvertisementCache::new(if caching.enabled { caching.max_answer_bytes } else { 0 });
        let metrics = Arc::<Metrics>::default();
        let repositories = Arc::new(RepositoryCache::new(caching.clone(), metrics.clone()));
        let bucket =
            settings.bucket.as_ref().map(|bucket| open_bucket(root, &settings, bucket, &repositories));
        let bucket = bucket.transpose().map_err(std::io::Error::other)?;
        let committer = bucket.as_ref().map(|cache| Arc::new(Committer::new(cache.clone())));
        if let Some(committer) = &committer {
            // It is set only here.
            let _ = metrics.bucket.set(committer.clone());
        }
        let host = Host {
            admission: AdmissionControl::new(&settings.admission),
            push_memory: Budget::new(push_memory(&settings)),
            transfers: Arc::new(Transfers::new(settings.session_id.clone())),
            packs: PackCache::new(settings.cache.clone(), Arc::clone(&metrics)),
            maintenance: Arc::default(),
            events: OnceLock::new(),
            ref_advertisements,
            program: settings.program.clone(),
            bucket: committer,
            metrics,
            cpu: Some(Arc::new(CpuScheduler::new(packrace_os::process::available_threads()))),
        };
        let allowed = &settings.rules.allowed_paths;
        Ok(Shared {
            root: Root::new(root, settings.open.clone(), allowed, repositories, bucket)?
                .with_paths(settings.program.repository_paths.clone()),
            limits,
            refusing: Arc::new(Semaphore::new(MAX_REFUSING)),
            refusals: RefusalLog::default(),
            failed_handshakes: RefusalLog::default(),
            admin_permits: Arc::new(Semaphore::new(MAX_ADMIN_CONNECTIONS)),
            began: Instant::now(),
            history: Mutex::default(),
            background: None,
            ssh_runtime: None,
            workers: Arc::default(),
            settings: RwLock::new(Arc::new(settings)),
            clock: RealClock::default(),
            host: Arc::new(host),
            stopping: watch::Sender::new(false),
        })
    }

    /// Opens the journal, if it is configured; until then no push is accepted.
    pub(crate) fn open_journal(&self) -> std::io::Result<()> {
        let settings = self.settings();
        let repository = |path: &Path| self.root.open_path(path).ok();
        let (root, metrics) = (self.root.path(), self.host.metrics.clone());
        let opened = Events::open(&settings.events, root, &settings.namespace, metrics, &repository)?;
        if let Some(events) = opened {
            // It is set only here.
            let _ = self.host.events.set(events);
        }
        Ok(())
    }

    /// Drops what expired or changed from the caches. May take a while.
    pub(crate) fn sweep(&self) {
        self.root.repositories.sweep();
        self.host.ref_advertisements.sweep();
        self.host.packs.expire(self.clock.now());
        self.host.events.get().iter().for_each(|events| events.journal.expire());
    }

    /// The metrics, including the values that others count.
    pub(crate) fn metrics_now(&self) -> &Metrics {
        let metrics = self.host.metrics_now();
        let [_, requests, body_bytes, _] = self.limits.taken();
        for (gauge, count) in [(&metrics.requests_running, requests), (&metrics.body_memory, body_bytes)] {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        metrics
    }

    /// Counts a refusal and logs it, but only a limited number of lines a second.
    pub(crate) fn has_refused(&self, peer: std::fmt::Arguments<'_>, why: LimitReached, what: &str) {
        self.host.metrics.refused(why.reason());
        match self.refusals.next(self.clock.now()) {
            Some(0) => tracing::warn!("{peer}: {what} refused: {why}"),
            Some(more) => tracing::warn!("{peer}: {what} refused: {why}; {more} earlier refusals not logged"),
            None => {}
        }
    }

    /// Counts a failed TLS handshake and logs it, but only a limited number of lines a second.
    pub(crate) fn handshake_failed(&self, peer: SocketAddr, outcome: HandshakeOutcome, why: &dyn Display) {
        self.host.metrics.handshake(outcome);
        self.tell_failed(format_args!("https {peer}: TLS handshake failed: {why}"));
    }

    /// The same for a login over SSH.
    pub(crate) fn login_failed(&self, peer: SocketAddr, outcome: LoginOutcome, why: &dyn Display) {
        self.host.metrics.login(outcome);
        self.tell_failed(format_args!("ssh {peer}: login failed: {why}"));
    }

    fn tell_failed(&self, line: std::fmt::Arguments<'_>) {
        match self.failed_handshakes.next(self.clock.now()) {
            Some(0) => tracing::info!("{line}"),
            Some(more) => {
                tracing::info!("{line}; {more} earlier failures not logged");
            }
            None => {}
        }
    }

    /// The settings for requests that begin now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the settings. Listeners, and resources that were set aside at the start, stay.
    pub(crate) fn set(&self, settings: Settings) {
        self.limits.set(&settings.limits);
        self.host.admission.set(&settings.admission);
        self.host.push_memory.set(push_memory(&settings));
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The repository at a path, if this principal may use a service of it and it offers the service over a
    /// transport; `section` of the configuration says so, if the transport has one.
    pub(crate) fn open(
        &self,
        service: Service,
        section: Option<&str>,
        path: &[u8],
        principal: &Principal,
    ) -> Result<Opened, NotServed> {
        let settings = self.settings();
        let (rules, pushing) = (&settings.rules, &settings.pushing);
        let is_push = service == Service::ReceivePack;
        let mut access = RepositoryAccess::new(settings.access.clone(), principal.clone(), named(path)?);
        let ask = if is_push { Ask::Push } else { Ask::Read };
        access.check(ask)?;
        if is_push && settings.events.journal.is_some() && self.host.events.get().is_none() {
            let why = "pushes are only possible through the running server (events.journal)";
            return Err(NotServed::Disabled(why.to_owned()));
        }
        let opened = match (self.root.open(path), &pushing.new_repositories) {
            (Err(NotServed::NotFound(_)), Some(new)) if is_push && !rules.read_only => {
                if rules.require_export_ok {
                    return Err(NotServed::NotFound(
                        "new repositories would not be exported (serve.require-export-ok)".to_owned(),
                    ));
                }
                let git_dir = self.root.free_place(path)?;
                access.also_at(self.root.path_below(&git_dir));
                // A client that may push but not create gets the same response as for any absent repository.
                access.check(ask).and_then(|()| access.check(Ask::Create)).map_err(|why| match why {
                    Denied::Forbidden(why) => NotServed::NotFound(why),
                    other => other.into(),
                })?;
                let config = Config::outside(&new.options.config).map_err(NotServed::Broken)?;
                let by_default = pushing.is_allowed || settings.access.has_rules();
                check_enabled(service, &config, section, by_default)?;
                let (path, new) = (path.to_owned(), new.clone());
                let new = Box::new(NewRepository { git_dir, path, new, config });
                return Ok(Opened { repository: ServedRepository::New(new), access });
            }
            (opened, _) => opened,
        };
        let repository = opened?;
        // The rules for its real path apply as well as those for its name.
        if settings.access.has_rules() && self.root.has_plain_names() {
            access.also_at(self.root.path_of(&repository)?);
            access.check(ask)?;
        }
        if rules.require_export_ok && !repository.is_export_ok() {
            return Err(NotServed::NotFound("no git-daemon-export-ok file".to_owned()));
        }
        if is_push && rules.read_only {
            return Err(NotServed::Disabled("server is read-only (serve.read-only)".to_owned()));
        }
        let by_default = !is_push || pushing.is_allowed || settings.access.has_rules();
        check_enabled(service, repository.config(), section, by_default)?;
        Ok(Opened { repository: ServedRepository::Existing(repository), access })
    }

    /// Creates a repository that did not exist when it was requested.
    pub(crate) fn make(
        &self,
        new: &NewRepository,
        transfer: &Transfer,
    ) -> Result<Arc<Repository>, NotServed> {
        let create = || self.root.create(&new.path, &new.new);
        let made = match self.host.events.get() {
            None => create(),
            Some(events) => {
                let path = self.root.path_below(&new.git_dir).unwrap_or_default();
                let event = events.event(Action::Create, transfer, &path);
                events.around(&event, create).map_err(|why| match why {
                    NotMade::Failed(why) => why,
                    NotMade::Unrecorded(words) => NotServed::Disabled(words.to_owned()),
                })
            }
        };
        match made {
            // Another client was faster.
            Err(NotServed::NotFound(_)) => self.root.open(&new.path),
            made => made,
        }
    }
}

fn check_enabled(
    service: Service,
    config: &Config,
    section: Option<&str>,
    by_default: bool,
) -> Result<(), NotServed> {
    let Some(section) = section else {
        let is_off = || NotServed::Disabled(format!("{} is disabled; {TURNS_PUSHES_ON}", service.name()));
        return by_default.then_some(()).ok_or_else(is_off);
    };
    let checked = service.check_enabled(config, section, by_default).map_err(NotServed::Broken)?;
    checked.map_err(NotServed::Disabled)
}

/// The path of a request as rules match it: without slashes at its ends.
pub(crate) fn named(path: &[u8]) -> Result<Vec<u8>, NotServed> {
    use std::os::unix::ffi::OsStrExt as _;
    let relative = check_path(path).map_err(|why| NotServed::NotFound(why.to_owned()))?;
    Ok(relative.as_os_str().as_bytes().to_vec())
}

/// The repository at a path, for a principal that may use it.
pub(crate) struct Opened {
    pub(crate) repository: ServedRepository,
    pub(crate) access: RepositoryAccess,
}

/// The repository that a path leads to.
pub(crate) enum ServedRepository {
    Existing(Arc<Repository>),
    /// None yet; a push creates it.
    New(Box<NewRepository>),
}

/// A repository that a push is about to create.
pub(crate) struct NewRepository {
    /// Its future directory.
    pub(crate) git_dir: PathBuf,
    path: Vec<u8>,
    new: NewRepositories,
    /// The configuration outside of it.
    config: Config,
}

impl NewRepository {
    /// Sends the advertisement for a push, as from an empty repository. Creates nothing.
    pub(crate) fn advertise(
        &self,
        settings: &Settings,
        version: ProtocolVersion,
        transfer: &Transfer,
        client: &mut dyn ClientSink,
    ) -> Result<(), crate::error::Error> {
        let hash = self.new.options.hash.unwrap_or(self.new.options.default_hash);
        let named = self.git_dir.as_os_str();
        receive::advertise_new(&self.config, hash, named, &settings.agent, transfer, version, client)
    }
}

/// The start of a client's input for a repository that does not exist.
pub(crate) enum Beginning {
    /// Nothing was sent, or less than a packet.
    Nothing,
    /// The client only looked, or tested whether it may push (gitprotocol-http).
    Flush,
    /// Commands of a push.
    Commands([u8; 4]),
}

impl Beginning {
    pub(crate) fn of(input: &mut dyn Read) -> std::io::Result<Self> {
        let mut head = [0; 4];
        match input.read_exact(&mut head) {
            Ok(()) if head == *pkt_line::FLUSH => Ok(Beginning::Flush),
            Ok(()) => Ok(Beginning::Commands(head)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Beginning::Nothing),
            Err(error) => Err(error),
        }
    }
}
