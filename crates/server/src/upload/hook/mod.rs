//! Runs `uploadpack.packObjectsHook` instead of making a pack (git-config, "uploadpack").
//!
//! ```text
//!             revs (stdin)              pack (stdout)                                    frames
//!  request ──────────────────▶  hook  ──────────────────▶ worker thread ── channel ──▶ outbox ──▶ client
//!                                     ── messages (stderr) ──▶    ↑                        ↑
//!                                                        holds the trailer back    keepalive, band 2
//! ```
//!
//! One thread feeds the hook and reads both of its outputs, so that neither side waits for the other; the
//! calling thread sends what was read, and keeps the connection alive meanwhile. At most [`EVENTS`] pieces of
//! at most [`PIECE_BYTES`] wait between them. The last bytes of the pack are sent only after the hook has
//! exited successfully.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use packrace_object::ObjectId;
use packrace_os::child::{ChildProcess, Confinement, Program, Read};
use packrace_pack::generate::Segment;
use packrace_pack::{ProgressSink, RequestObjects, shallow};
use packrace_protocol::message::packfile_uris::PackfileUri;
use packrace_protocol::session;

use super::UploadPack;
use crate::check_intervals::{CLIENT_CHECK_INTERVAL, HOOK_END_INTERVAL};
use crate::error::{Error, ErrorKind};
use crate::send::event::Event;
use crate::subject::ProtocolVersion;

/// The most pieces that wait for the client.
const EVENTS: usize = 16;

/// The longest piece of the pack: four frames, and a quarter of the pipe it comes from.
const PIECE_BYTES: usize = 256 << 10;

/// After a read of less than this, the hook gets [`GATHER_TIME`] to fill its pipe: each read costs two calls
/// here and often a switch between processes, whatever its length.
const SHORT_READ_BYTES: usize = 64 << 10;

/// Short for a client, and long enough for hundreds of kilobytes. The pipe holds 1 MiB, so the hook keeps
/// running.
const GATHER_TIME: Duration = Duration::from_millis(1);

/// The longest piece of the hook's messages to the user.
const MESSAGE_BYTES: usize = 8 << 10;

/// About how many bytes of revs are written in one call.
const FEED_BYTES: usize = 64 << 10;

/// The most bytes of lines before the pack.
const MAX_HEAD_BYTES: usize = 16 << 20;

/// The most bytes of messages before the pack section that the client sees.
const MAX_EARLY_BYTES: usize = 64 << 10;

/// The first bytes of a pack (gitformat-pack).
const SIGNATURE: &[u8] = b"PACK";

/// How a hook is started.
pub(super) struct HookCall {
    program: Program,
    revs: Revs,
    trailer_bytes: usize,
    /// The protocols of packfile URIs that may come before the pack; `None` if none may.
    uri_protocols: Option<Vec<u8>>,
}

impl HookCall {
    /// Passes what `git upload-pack` passes to the hook (observed; it is not documented). History is cut at
    /// `boundary`.
    pub(super) fn new(
        hook: &[u8],
        call: &UploadPack,
        request_objects: &RequestObjects,
        boundary: shallow::Boundary,
        request: session::PackRequest,
    ) -> Result<Self, Error> {
        let subject = &call.subject;
        let mut shallow = Vec::new();
        for id in request.client_shallow.iter().chain(&boundary.shallow) {
            if request_objects.contains(id)? {
                shallow.push(*id);
            }
        }
        shallow.extend_from_slice(request_objects.snapshot().shallow()?);
        shallow.sort_unstable();
        shallow.dedup();

        let mut argv: Vec<OsString> = vec!["/bin/sh".into(), "-c".into()];
        argv.push(OsString::from_vec([hook, b" \"$@\""].concat()));
        argv.push(OsStr::from_bytes(hook).to_owned());
        let is_shallow = !shallow.is_empty();
        argv.extend(arguments(&request, is_shallow));
        let git_protocol = match subject.version {
            ProtocolVersion::V0 => None,
            ProtocolVersion::V1 => Some("version=1".into()),
            ProtocolVersion::V2 => Some("version=2".into()),
        };
        let namespace = Some(&subject.namespace).filter(|namespace| !namespace.is_empty());
        let mut environment =
            vec![("GIT_DIR".into(), Some(".".into())), ("GIT_PROTOCOL".into(), git_protocol)];
        environment.extend(namespace.map(|namespace| ("GIT_NAMESPACE".into(), Some(namespace.into()))));
        let inherited = call.hook_environment.iter();
        environment.extend(inherited.map(|(name, value)| (name.clone(), Some(value.clone()))));
        let program = Program {
            argv,
            hook: None,
            directory: subject.repository.git_dir().to_owned(),
            environment,
            reads_messages: request.sideband != session::Sideband::None,
            // It takes as long as its client, which is disconnected when it stops reading.
            confinement: Confinement { time: None, ..subject.confinement.clone() },
        };
        let mut wants = request.wants;
        wants.extend(boundary.new_wants);
        // Clients send duplicates.
        let mut seen = HashSet::with_capacity(wants.len());
        wants.retain(|id| seen.insert(*id));
        let mut haves = request.haves;
        haves.extend_from_slice(&boundary.unshallow);
        seen.clear();
        haves.retain(|id| seen.insert(*id));
        Ok(HookCall {
            program,
            revs: Revs { shallow, wants, haves, next: 0, buffer: Vec::new(), written: 0 },
            trailer_bytes: subject.repository.hash_kind().len_in_bytes(),
            uri_protocols: Some(request.uri_protocols).filter(|protocols| !protocols.is_empty()),
        })
    }
}

/// `git pack-objects` and its arguments, in git's order.
fn arguments(request: &session::PackRequest, is_shallow: bool) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["git".into()];
    let mut add = |is_wanted: bool, argument: &str| arguments.extend(is_wanted.then(|| argument.into()));
    add(is_shallow, "--shallow-file");
    add(is_shallow, "");
    add(true, "pack-objects");
    add(true, "--revs");
    add(request.thin_pack, "--thin");
    add(true, "--stdout");
    add(is_shallow, "--shallow");
    add(!request.no_progress, "--progress");
    add(request.ofs_delta, "--delta-base-offset");
    add(request.include_tag, "--include-tag");
    add(request.may_lack_promised, "--missing=allow-promisor");
    if let Some(spec) = &request.filter {
        arguments.push(OsString::from_vec([b"--filter=", expanded(spec).as_slice()].concat()));
    }
    for protocol in request.uri_protocols.split(|byte| *byte == b',').filter(|name| !name.is_empty()) {
        arguments.push(OsString::from_vec([b"--uri-protocol=", protocol].concat()));
    }
    arguments
}

/// A filter-spec as git passes it on: a limit without its unit.
fn expanded(spec: &[u8]) -> Vec<u8> {
    match packrace_pack::filter::Filter::parse(spec) {
        Ok(packrace_pack::filter::Filter::BlobLimit(bytes)) => format!("blob:limit={bytes}").into_bytes(),
        _ => spec.to_vec(),
    }
}

/// The hook's input, made when the hook reads it: there may be millions of lines.
///
/// ```text
/// --shallow <oid>      where history is cut
/// <oid>                wants
/// --not
/// <oid>                haves
///                      an empty line
/// ```
struct Revs {
    shallow: Vec<ObjectId>,
    wants: Vec<ObjectId>,
    haves: Vec<ObjectId>,
    /// The number of the next line.
    next: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were written to the hook.
    written: usize,
}

impl Revs {
    /// Bytes that the hook has not read yet; empty at the end.
    fn pending(&mut self) -> &[u8] {
        if self.written == self.buffer.len() {
            self.buffer.clear();
            self.written = 0;
            while self.buffer.len() < FEED_BYTES && self.add_line() {}
        }
        &self.buffer[self.written..]
    }

    fn add_line(&mut self) -> bool {
        use std::io::Write as _;
        let at = self.next;
        let wants_at = self.shallow.len();
        let not_at = wants_at + self.wants.len();
        let end_at = not_at + 1 + self.haves.len();
        // Writing to a vector cannot fail.
        let _ = match at {
            _ if at < wants_at => writeln!(self.buffer, "--shallow {}", self.shallow[at]),
            _ if at < not_at => writeln!(self.buffer, "{}", self.wants[at - wants_at]),
            _ if at == not_at => writeln!(self.buffer, "--not"),
            _ if at < end_at => writeln!(self.buffer, "{}", self.haves[at - not_at - 1]),
            _ if at == end_at => writeln!(self.buffer),
            _ => return false,
        };
        self.next += 1;
        true
    }
}

/// A running hook. Dropping it ends the hook.
pub(super) struct HookRun {
    pub(super) receiver: Receiver<Event>,
    /// Its messages from before the pack section.
    pub(super) early: Vec<u8>,
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HookRun {
    pub(super) fn start(call: HookCall) -> Result<Self, Error> {
        let child = ChildProcess::start(&call.program)
            .map_err(|error| Error::caused("unable to fork git-pack-objects", error))?;
        let (sender, receiver) = mpsc::sync_channel(EVENTS);
        let cancelled = Arc::new(AtomicBool::new(false));
        let is_cancelled = Arc::clone(&cancelled);
        let work =
            move || Worker { child, sender, is_cancelled, pack: UnsentPack::new(&call) }.run(call.revs);
        let thread = std::thread::Builder::new().name("hook".into()).spawn(work);
        let thread = thread.map_err(|error| Error::caused("cannot start a thread", error))?;
        Ok(HookRun { receiver, early: Vec::new(), cancelled, thread: Some(thread) })
    }
}

impl HookRun {
    /// Waits for the packfile URIs of the hook.
    pub(super) fn uris(mut self, watch: &dyn ProgressSink) -> Result<(Self, Vec<PackfileUri>), Error> {
        loop {
            match self.receiver.recv_timeout(CLIENT_CHECK_INTERVAL) {
                Ok(Event::Uris(uris)) => return Ok((self, uris)),
                Ok(Event::Text(text)) => {
                    let room = MAX_EARLY_BYTES - self.early.len();
                    self.early.extend_from_slice(&text[..text.len().min(room)]);
                }
                Ok(Event::End(Err(error))) => return Err(error),
                // Nothing else comes before the URIs; a panic was reported already.
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(died()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if watch.cancelled() {
                return Err(Error::gone(std::io::ErrorKind::BrokenPipe.into()));
            }
        }
    }
}

impl Drop for HookRun {
    fn drop(&mut self) {
        self.cancelled.store(true, Relaxed);
        // A worker that waits for room in the channel wakes up when the receiver is dropped.
        self.receiver = mpsc::sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // The client knows of a panic: the channel was disconnected.
            let _ = thread.join();
        }
    }
}

/// Why a worker stops before the end.
enum WorkerStop {
    /// The pack is no longer needed.
    Cancelled,
    Failed(Error),
}

impl From<std::io::Error> for WorkerStop {
    fn from(error: std::io::Error) -> Self {
        WorkerStop::Failed(Error::caused("cannot talk to git-pack-objects", error))
    }
}

struct Worker {
    child: ChildProcess,
    sender: SyncSender<Event>,
    is_cancelled: Arc<AtomicBool>,
    pack: UnsentPack,
}

impl Worker {
    fn run(mut self, revs: Revs) {
        match self.relay(revs) {
            Ok(()) => drop(self.sender.send(Event::End(Ok(None)))),
            Err(WorkerStop::Cancelled) => self.child.end(),
            Err(WorkerStop::Failed(error)) => {
                // Without a receiver the error is not needed.
                let _ = self.sender.send(Event::End(Err(error)));
                self.child.end();
            }
        }
    }

    fn relay(&mut self, mut revs: Revs) -> Result<(), WorkerStop> {
        let mut messages = vec![0; MESSAGE_BYTES];
        let mut is_open = true;
        let mut has_moved = false;
        let status = loop {
            if self.is_cancelled.load(Relaxed) {
                return Err(WorkerStop::Cancelled);
            }
            let input = revs.pending();
            if input.is_empty() {
                self.child.close_input();
            }
            // Bytes that were read wait only for bytes that can be read at once.
            let wait = match (is_open, has_moved) {
                (true, true) => Duration::ZERO,
                (true, false) => CLIENT_CHECK_INTERVAL,
                (false, _) => HOOK_END_INTERVAL,
            };
            let did = self.child.transfer(input, self.pack.room(), &mut messages, wait)?;
            revs.written += did.written;
            if let Read::Bytes(length) = did.messages {
                self.tell(Event::Text(messages[..length].to_vec()))?;
            }
            has_moved = matches!(did.output, Read::Bytes(_));
            match did.output {
                Read::Bytes(length) => {
                    self.pack.filled += length;
                    self.take_head()?;
                    if self.pack.room().is_empty() {
                        self.send_pack()?;
                    }
                    if length < SHORT_READ_BYTES {
                        std::thread::sleep(GATHER_TIME);
                    }
                }
                Read::Nothing => self.send_pack()?,
                Read::Closed => {
                    self.send_pack()?;
                    is_open = false;
                }
            }
            if !is_open && let Some(status) = self.child.try_wait()? {
                break status;
            }
        };
        // Its last messages. Those of processes that it started and that still run are not waited for.
        let mut left = MAX_EARLY_BYTES;
        while let Read::Bytes(length) =
            self.child.transfer(b"", &mut [], &mut messages, Duration::ZERO)?.messages
        {
            self.tell(Event::Text(messages[..length].to_vec()))?;
            left = left.saturating_sub(length);
            if left == 0 {
                break;
            }
        }
        if !status.success() {
            return Err(WorkerStop::Failed(died()));
        }
        if !self.pack.has_begun {
            return Err(WorkerStop::Failed(no_pack()));
        }
        let rest = self.pack.take(self.pack.filled);
        self.tell(Event::Segment(Segment::Owned(rest)))
    }

    /// Handles what comes before the pack.
    fn take_head(&mut self) -> Result<(), WorkerStop> {
        if !self.pack.has_begun
            && let Some(uris) = self.pack.take_head().map_err(WorkerStop::Failed)?
        {
            self.tell(Event::Uris(uris))?;
        }
        Ok(())
    }

    /// Sends the bytes read of the pack, except those that may be its trailer.
    fn send_pack(&mut self) -> Result<(), WorkerStop> {
        let length = self.pack.filled.saturating_sub(self.pack.trailer_bytes);
        if !self.pack.has_begun || length == 0 {
            return Ok(());
        }
        let piece = self.pack.take(length);
        self.tell(Event::Segment(Segment::Owned(piece)))
    }

    fn tell(&self, event: Event) -> Result<(), WorkerStop> {
        self.sender.send(event).map_err(|_| WorkerStop::Cancelled)
    }
}

/// The part of a pack that was read and not sent yet.
struct UnsentPack {
    buffer: Vec<u8>,
    filled: usize,
    trailer_bytes: usize,
    has_begun: bool,
    uri_protocols: Option<Vec<u8>>,
    uris: Vec<PackfileUri>,
    head_bytes: usize,
}

impl UnsentPack {
    fn new(call: &HookCall) -> Self {
        UnsentPack {
            buffer: vec![0; PIECE_BYTES + call.trailer_bytes],
            filled: 0,
            trailer_bytes: call.trailer_bytes,
            has_begun: false,
            uri_protocols: call.uri_protocols.clone(),
            uris: Vec::new(),
            head_bytes: 0,
        }
    }

    /// Where more can be read to. Never empty if pieces are taken as soon as it is full.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let taken = self.buffer[..length].to_vec();
        self.buffer.copy_within(length..self.filled, 0);
        self.filled -= length;
        taken
    }

    /// Takes lines of packfile URIs from the front: `<pack hash> <uri>` (technical/packfile-uri). When the
    /// pack begins, returns them all, if the client asked for any. Anything else before the pack is an error.
    fn take_head(&mut self) -> Result<Option<Vec<PackfileUri>>, Error> {
        let mut at = 0;
        loop {
            let seen = &self.buffer[at..self.filled];
            if seen.len() < SIGNATURE.len() && SIGNATURE.starts_with(seen) {
                break;
            }
            if seen.starts_with(SIGNATURE) {
                self.has_begun = true;
                break;
            }
            let Some(protocols) = &self.uri_protocols else { return Err(no_pack()) };
            let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
                // A line that fits in no packet is no URI.
                if seen.len() > packrace_protocol::wire::pkt_line::MAX_PACKET {
                    return Err(no_pack());
                }
                break;
            };
            let uri = PackfileUri::parse(&seen[..end]).filter(|uri| uri.fits() && uri.is_of(protocols));
            self.head_bytes += end + 1;
            at += end + 1;
            match uri {
                Some(uri) if self.head_bytes <= MAX_HEAD_BYTES => self.uris.push(uri),
                _ => return Err(no_pack()),
            }
        }
        self.take(at);
        let is_answer = self.has_begun && self.uri_protocols.is_some();
        Ok(is_answer.then(|| std::mem::take(&mut self.uris)))
    }
}

/// Git's words for a hook that fails.
fn died() -> Error {
    Error::new(ErrorKind::Unavailable, "git upload-pack: git-pack-objects died with error.")
}

fn no_pack() -> Error {
    Error::new(ErrorKind::Unavailable, "git upload-pack: uploadpack.packObjectsHook did not write a pack")
}

#[cfg(test)]
mod tests;
