//! A call of upload-pack or receive-pack for a client, the same for every transport.

use std::ffi::OsString;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use packrace_os::clock::Clock;
use packrace_store::{Config, Error as StoreError, MessageSink, Repository};

use crate::access::RepositoryAccess;
use crate::bundles::KeptBundles;
use crate::error::Error;
use crate::host::Host;
use crate::path_names::PathNames;
use crate::receive::{BucketPush, Pusher, ReceivePack};
use crate::send::outbox::ClientSink;
use crate::settings::Settings;
use crate::subject::{CallMode, ProtocolVersion, Subject};
use crate::transfers::Transfer;
use crate::upload::UploadPack;
use crate::{receive, upload};

/// How an operator turns pushes on: nothing else is off by default.
pub(crate) const TURNS_PUSHES_ON: &str = "to enable it, set push.allowed or access.rules";

/// The service that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    /// The service that clients request by this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"git-upload-pack" => Some(Service::UploadPack),
            b"git-receive-pack" => Some(Service::ReceivePack),
            _ => None,
        }
    }

    /// Its name without `git-`, as in git's refusals.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::UploadPack => "upload-pack",
            Service::ReceivePack => "receive-pack",
        }
    }

    /// Whether a repository offers it over a transport with git's rules: `section` of the configuration
    /// decides.
    pub(crate) fn is_enabled(
        self,
        repository: &Repository,
        section: &str,
        by_default: bool,
    ) -> Result<bool, StoreError> {
        let configured = repository.config().boolean(&self.key(section))?;
        Ok(configured.unwrap_or(by_default))
    }

    /// The same, but a repository itself may only turn it off. The inner error says who turned it off.
    pub(crate) fn check_enabled(
        self,
        config: &Config,
        section: &str,
        by_default: bool,
    ) -> Result<Result<(), String>, StoreError> {
        let key = self.key(section);
        let own = config.own_boolean(&key)?;
        let protected = config.protected_boolean(&key)?;
        if !protected.unwrap_or(by_default) {
            let but = match (own, protected) {
                (_, Some(_)) => format!("; git's system or user configuration sets {key} = false"),
                (Some(true), None) => {
                    format!("; {key} in the repository cannot enable it: {TURNS_PUSHES_ON}")
                }
                (_, None) => format!("; {TURNS_PUSHES_ON}"),
            };
            return Ok(Err(format!("{} is disabled{but}", self.name())));
        }
        match own {
            Some(false) => Ok(Err(format!("the repository sets {key} = false"))),
            _ => Ok(Ok(())),
        }
    }

    fn key(self, section: &str) -> String {
        match self {
            Service::UploadPack => format!("{section}.uploadpack"),
            Service::ReceivePack => format!("{section}.receivepack"),
        }
    }
}

/// The pusher, and the variables about it for hooks.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// `None` if the transport does not know.
    pub(crate) pusher: Option<Pusher>,
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// A client's request to a repository.
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) repository: Arc<Repository>,
    pub(crate) version: ProtocolVersion,
    pub(crate) mode: CallMode,
    pub(crate) client: Client,
    pub(crate) transfer: Arc<Transfer>,
    pub(crate) host: Arc<Host>,
    /// Where messages of a push go that are not for the client.
    pub(crate) messages: MessageSink,
    /// See [`Subject::paths`].
    pub(crate) paths: PathNames,
    /// What the client may do with the repository; `None` if the operating system decides.
    pub(crate) access: Option<RepositoryAccess>,
    /// See [`UploadPack::bundles`].
    pub(crate) bundles: Option<KeptBundles>,
}

impl Call {
    /// Serves the call with these settings.
    pub(crate) fn serve(
        self,
        settings: &Settings,
        input: &mut (dyn Read + Send),
        sink: &mut dyn ClientSink,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        let named = self.repository.git_dir().as_os_str().to_owned();
        let subject = Subject {
            repository: self.repository,
            version: self.version,
            mode: self.mode,
            namespace: settings.namespace.clone(),
            agent: settings.agent.clone(),
            transfer: self.transfer,
            host: self.host,
            confinement: settings.confinement.clone(),
            paths: self.paths,
        };
        match self.service {
            Service::UploadPack => {
                let hook_environment = settings.hook_environment.clone();
                let call = UploadPack { subject, hook_environment, bundles: self.bundles };
                upload::upload_pack(&call, input, sink, clock)
            }
            Service::ReceivePack => {
                let pushing = &settings.pushing;
                let mut hook_environment = pushing.for_hooks_with(self.client.variables);
                if self.version == ProtocolVersion::V1 {
                    hook_environment.push(("GIT_PROTOCOL".into(), "version=1".into()));
                }
                let bucket = subject.host.bucket.as_ref();
                let bucket =
                    bucket.map(|committer| BucketPush::to(committer, &subject.repository)).transpose();
                let bucket = bucket.map_err(|error| Error::caused("the bucket", error))?.flatten();
                // Only its bucket determines the content of a cache's folder.
                let maintenance = pushing.auto_maintenance.clone().filter(|_| bucket.is_none());
                let call = ReceivePack {
                    bucket,
                    maintenance,
                    subject,
                    named,
                    temporary_dir: pushing.temporary_dir.clone(),
                    budget: pushing.budget,
                    hook_environment,
                    committer: pushing.committer.clone(),
                    pusher: self.client.pusher,
                    quiet: false,
                    skip_connectivity_check: false,
                    reject_thin_packs: false,
                    messages: self.messages,
                    faults: None,
                    hooks: settings.rules.hooks.clone(),
                    access: self.access,
                    audit: settings.audit.clone(),
                };
                let received = receive::receive_pack(&call, input, sink, clock);
                if call.subject.mode != CallMode::Advertise {
                    let Subject { host, repository, .. } = &call.subject;
                    host.maintenance.pushed(repository, &settings.maintenance);
                }
                received
            }
        }
    }
}

/// The most output of its hooks that a push may write to the log.
const MAX_LOGGED_BYTES: usize = 64 << 10;

/// Logs the messages of a push: the output of hooks, if the client has no band for it.
pub(crate) fn to_log() -> MessageSink {
    let left = AtomicUsize::new(MAX_LOGGED_BYTES);
    MessageSink::new(move |text| {
        let taken = text.len().min(left.load(Relaxed));
        left.fetch_sub(taken, Relaxed);
        for line in text[..taken].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            tracing::info!(message_of_push = %String::from_utf8_lossy(line));
        }
    })
}
