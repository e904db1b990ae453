//! One call of receive-pack: the advertisement, then a push that is received, checked, decided ref by ref and
//! reported.
//!
//! ```text
//! commands, pack ─▶ quarantine ─▶ connected? ─▶ hidden? ─▶ pre-receive ─▶ objects come in ─▶ proc-receive
//!               ─▶ each ref: rules, update hook ─▶ refs change ─▶ report ─▶ post-receive, post-update, maintenance
//! ```
//!
//! All of that runs on its own thread, while the calling thread sends messages of hooks and keeps the
//! connection alive (`client_messages`). In a bucket, objects are committed together with refs (`landing`).
//! If the client disconnects before objects leave the quarantine, the push ends.

mod access_rules;
mod advertise;
mod certificate;
mod client_messages;
mod commands;
mod connected;
mod decide;
mod hook_run;
mod hooks;
mod identity;
mod in_process;
mod landing;
mod proc_receive;
mod quota;
mod recorded;
mod refs;
mod settings;
mod shallow;
mod spent;
mod unpack;
mod work_trees;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use packrace_object::HashKind;
use packrace_os::clock::Clock;
use packrace_os::process::lower_thread_priority;
use packrace_protocol::message::advertisement;
use packrace_protocol::message::push_offer::PushOffer;
use packrace_protocol::session::push::{
    self, PushConfig, PushInput, PushLimits, PushOutput, PushRequest, PushSession, SessionMemory,
};
use packrace_protocol::wire::{pkt_line, sideband};
use packrace_store::{Config, HooksFrom, MessageSink};

use crate::access::{AuditLog, RepositoryAccess};
use crate::auto_maintenance::AutoMaintenance;
use crate::error::{Error, ErrorKind};
use crate::limits::budget::Claim;
use crate::metrics::{Kind, Reason, Step};
use crate::refs::view::namespace_prefix;
use crate::send::outbox::{ClientSink, Framing, GatherBatch, Outbox};
use crate::subject::{CallMode, ProtocolVersion, Subject};
use crate::transfers::Transfer;
use client_messages::{ClientMessages, WAITING_EVENTS, relay};
use commands::{Push, ReceivedCommand};
pub use identity::{Committer, Pusher};
pub use landing::BucketPush;
use settings::PushSettings;
use spent::CpuTime;
pub use spent::PushBudget;

/// Bytes of one read from a client.
const READ_BYTES: usize = 64 << 10;

/// Bytes of one read of a pack.
const PACK_READ_BYTES: usize = 1 << 20;

/// What an allocator adds to a stored name, twice.
const BYTES_A_NAME: usize = 32;

/// The message for a client when there is no memory for its commands.
const NO_MEMORY: &str = "too many refs are being pushed at the same time; try again later or push fewer refs";

/// One call of receive-pack.
#[derive(Debug, Clone)]
pub struct ReceivePack {
    /// The repository, and how it is served.
    pub subject: Subject,
    /// The repository as the client names it. Nonces of signed pushes are valid for this name only.
    pub named: OsString,
    /// A folder for temporary files.
    pub temporary_dir: PathBuf,
    /// What the push may cost.
    pub budget: PushBudget,
    /// Variables that hooks get in addition to those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// The committer in reflogs.
    pub committer: Committer,
    /// Who pushes, if the transport knows.
    pub pusher: Option<Pusher>,
    /// No progress (`-q`).
    pub quiet: bool,
    /// Skips the connectivity check of new tips (`--skip-connectivity-check`).
    pub skip_connectivity_check: bool,
    /// Refuses thin packs, unless they become loose objects (`--reject-thin-pack-for-testing`).
    pub reject_thin_packs: bool,
    /// Where messages go for a client without side-band.
    pub messages: MessageSink,
    /// Where else it is said what a push lacks: the standard error of a process for one push, as in git.
    pub faults: Option<MessageSink>,
    /// Which hooks are run.
    pub hooks: HooksFrom,
    /// Which refs the client may change; `None` for all.
    pub access: Option<RepositoryAccess>,
    /// Where the push is recorded.
    pub audit: Option<Arc<AuditLog>>,
    /// The bucket that the repository is a copy of, if any: the push is committed there.
    pub bucket: Option<BucketPush>,
    /// What maintains the repository afterwards, if nothing else does.
    pub maintenance: Option<AutoMaintenance>,
}

/// Serves one call, from the advertisement to the end. `Ok` is exit code 0, whatever the outcome of single
/// refs; an error was already sent to the client wherever the protocol has a message for it.
pub fn receive_pack(
    call: &ReceivePack,
    input: &mut (dyn Read + Send),
    client: &mut dyn ClientSink,
    clock: &dyn Clock,
) -> Result<(), Error> {
    Receive::new(call, client, clock)?.serve(input)
}

/// Sends the advertisement of a repository that does not exist yet; `config` is its whole configuration.
pub fn advertise_new(
    config: &Config,
    hash: HashKind,
    named: &OsStr,
    agent: &str,
    transfer: &Transfer,
    version: ProtocolVersion,
    client: &mut dyn ClientSink,
) -> Result<(), Error> {
    transfer.enter(Kind::Advertisement);
    let offer = offer(&PushSettings::of(config)?, hash, named, agent, transfer);
    let mut out = Vec::new();
    write_version(version, &mut out);
    advertisement::write_v0_no_refs(&mut out, &offer.capabilities(), hash);
    out.extend_from_slice(pkt_line::FLUSH);
    client.send(GatherBatch::of(out)).map_err(Error::gone)
}

fn offer(
    settings: &PushSettings,
    hash: HashKind,
    named: &OsStr,
    agent: &str,
    transfer: &Transfer,
) -> PushOffer {
    let nonce = settings.nonce_seed.as_ref();
    PushOffer {
        agent: agent.to_owned(),
        session_id: settings.advertise_session_id.then(|| transfer.session_id().to_owned()),
        hash,
        atomic: settings.advertise_atomic,
        ofs_delta: settings.ofs_delta,
        push_options: settings.advertise_options,
        certificate_nonce: nonce.map(|seed| certificate::nonce(hash, seed, named, certificate::now())),
    }
}

fn write_version(version: ProtocolVersion, out: &mut Vec<u8>) {
    if version == ProtocolVersion::V1 {
        pkt_line::write_text("version 1", out);
    }
}

struct Receive<'a> {
    call: &'a ReceivePack,
    client: &'a mut dyn ClientSink,
    clock: &'a dyn Clock,
    settings: PushSettings,
    offer: PushOffer,
    namespace: Vec<u8>,
}

impl<'a> Receive<'a> {
    fn new(
        call: &'a ReceivePack,
        client: &'a mut dyn ClientSink,
        clock: &'a dyn Clock,
    ) -> Result<Self, Error> {
        let subject = &call.subject;
        let settings = PushSettings::of(subject.repository.config())?;
        let settings = if call.bucket.is_some() { settings.of_bucket() } else { settings };
        let hash = subject.repository.hash_kind();
        let offer = offer(&settings, hash, &call.named, &subject.agent, &subject.transfer);
        Ok(Receive {
            call,
            client,
            clock,
            settings,
            offer,
            namespace: namespace_prefix(&call.subject.namespace),
        })
    }

    fn serve(mut self, input: &mut (dyn Read + Send)) -> Result<(), Error> {
        if self.call.subject.mode != CallMode::StatelessRpc {
            self.call.subject.transfer.enter(Kind::Advertisement);
            self.advertise()?;
        }
        if self.call.subject.mode == CallMode::Advertise {
            return Ok(());
        }
        let mut session = PushSession::new(PushConfig {
            hash: self.offer.hash,
            atomic: self.offer.atomic,
            push_options: self.offer.push_options,
            limits: PushLimits::default(),
        });
        let mut buffer = vec![0; READ_BYTES];
        let mut last = 0;
        // SessionMemory until the push ends.
        let memory = self.claim_memory()?;
        loop {
            let handled = match session.poll_output() {
                PushOutput::NeedInput => match input.read(&mut buffer) {
                    Ok(0) => session.handle(PushInput::Eof),
                    Ok(length) => {
                        last = length;
                        let handled = session.handle(PushInput::Bytes(&buffer[..length]));
                        // Refused commands are held no longer.
                        if handled.is_ok() && memory.grow(memory_bytes(&session)).is_err() {
                            return Err(self.no_memory());
                        }
                        handled
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
                    Err(error) => return Err(Error::gone(error)),
                },
                PushOutput::Push(request) => {
                    let begun = match request.has_pack().then(|| session.poll_output()) {
                        Some(PushOutput::PackBytes(range)) => range,
                        _ => last..last,
                    };
                    let source = PackSource { held: buffer, range: begun, input, is_over: false };
                    return self.take_push(*request, session, source);
                }
                PushOutput::Done => return Ok(()),
                PushOutput::PackBytes(_) | PushOutput::Write(_) => Ok(()),
            };
            if let Err(refusal) = handled {
                let told = session.wire(&refusal).map(GatherBatch::of);
                // If the client does not get it, that is no second error.
                let _ = told.map(|told| self.client.send(told));
                return Err(Error::refused(&refusal));
            }
        }
    }

    /// Starts with no bytes of the memory that all pushes share.
    fn claim_memory(&mut self) -> Result<Claim, Error> {
        let Subject { host, transfer, .. } = &self.call.subject;
        // A client without an address is the only one.
        let peer =
            transfer.peer().parse::<SocketAddr>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
        host.push_memory.claim(0, peer).map_err(|_| self.no_memory())
    }

    /// Reports that the commands of pushes fill their memory.
    fn no_memory(&mut self) -> Error {
        let Subject { host, transfer, mode, .. } = &self.call.subject;
        host.metrics.refused(Reason::PushBudget);
        tracing::warn!("push from {}: {NO_MEMORY}", transfer.shown_peer());
        let error = Error::new(ErrorKind::Busy, NO_MEMORY);
        if *mode == CallMode::StatelessRpc {
            return error;
        }
        let mut packet = Vec::new();
        pkt_line::write_data(format!("ERR {NO_MEMORY}").as_bytes(), &mut packet);
        match self.client.send(GatherBatch::of(packet)) {
            Ok(()) => error.told(),
            Err(_) => error,
        }
    }

    fn advertise(&mut self) -> Result<(), Error> {
        let mut out = Vec::new();
        write_version(self.call.subject.version, &mut out);
        let mut lines = crate::refs::lines::Lines::new(&mut out, self.client, self.settings.batch_bytes);
        advertise::refs(self.call, &self.settings, &self.offer, &self.namespace, &mut lines)?;
        self.client.send(GatherBatch::of(out)).map_err(Error::gone)
    }

    fn take_push(
        self,
        request: PushRequest,
        session: PushSession,
        source: PackSource<'_>,
    ) -> Result<(), Error> {
        let transfer = &self.call.subject.transfer;
        transfer.enter(Kind::Push);
        transfer.is_at(Step::Receiving);
        if let Some(id) = &request.session_id {
            transfer.client_is(id);
        }
        let end = push::end(&request);
        let framing = match request.sideband {
            true => Framing::Sideband { payload_bytes: sideband::LARGE_FRAME_PAYLOAD },
            false => Framing::Raw,
        };
        let (sender, receiver) = mpsc::sync_channel(WAITING_EVENTS);
        let cancelled = Arc::new(AtomicBool::new(false));
        let aside = (!request.sideband).then(|| self.call.messages.clone());
        let paths = self.call.subject.paths.clone();
        // If other clients are served too, fetches of a few commits go first.
        let gives_way = self.call.subject.host.cpu.is_some();
        let cpu_time = CpuTime::new(self.call.budget.cpu_time, gives_way);
        let messages = ClientMessages::new(sender, cancelled.clone(), aside, paths.clone(), cpu_time);
        let Receive { call, client, clock, settings, namespace, offer } = self;
        let outbox = Outbox::new(client, framing, settings.keepalive, clock.now());
        let mut outbox = outbox.with_batch_bytes(settings.batch_bytes);
        let (worked, sent) = std::thread::scope(|scope| {
            let work = move || {
                // The thread ends with the push, so its priority need not be restored.
                if gives_way {
                    lower_thread_priority();
                }
                let mut push =
                    Push::new(call, clock, settings, namespace, offer.certificate_nonce, request, messages)?;
                push.run(session, source)
            };
            let worker = std::thread::Builder::new().name("receive".into()).spawn_scoped(scope, work);
            let worker = worker.map_err(|error| Error::caused("cannot start a thread", error))?;
            let sent = relay(&receiver, &mut outbox, &cancelled, clock);
            // A worker that panicked has not told the client; the panic continues here.
            let worked = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, Error>((worked, sent))
        })?;
        transfer.metrics().keepalives.inc_by(outbox.keepalives_sent());
        sent.map_err(Error::gone)?;
        match worked {
            Ok(()) => outbox.packets(end, clock.now()).map_err(Error::gone),
            Err(error) => {
                let text = format!("fatal: {}\n", paths.for_client(&error.to_string()));
                let told = outbox.fail(text.as_bytes(), clock.now());
                match told {
                    Ok(()) if framing != Framing::Raw && error.kind() != ErrorKind::PeerGone => {
                        Err(error.told())
                    }
                    _ => Err(error),
                }
            }
        }
    }
}

/// An estimate of the memory for the commands of a push: once as received, and once with the outcome of each.
fn memory_bytes(session: &PushSession) -> usize {
    let SessionMemory { commands, bytes } = session.memory();
    commands
        .saturating_mul(size_of::<ReceivedCommand>() + BYTES_A_NAME)
        .saturating_add(bytes.saturating_mul(2))
}

/// The bytes of a pack, starting with those that came with the commands.
struct PackSource<'a> {
    held: Vec<u8>,
    /// The part of `held` that was not taken yet.
    range: Range<usize>,
    input: &'a mut (dyn Read + Send),
    is_over: bool,
}

impl Read for PackSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut available = self.fill_buf()?;
        let length = available.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for PackSource<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        while self.range.is_empty() && !self.is_over {
            self.held.resize(PACK_READ_BYTES, 0);
            match self.input.read(&mut self.held) {
                Ok(length) => {
                    self.range = 0..length;
                    self.is_over = length == 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.held[self.range.clone()])
    }

    fn consume(&mut self, length: usize) {
        self.range.start = (self.range.start + length).min(self.range.end);
    }
}
