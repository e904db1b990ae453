//! One call of upload-pack: the advertisement, then a session, whose questions are answered here.

use std::collections::HashSet;
use std::io::Read;
use std::sync::{Arc, Mutex};

use crate::limits::cpu::{CpuScheduler, Interactive};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_os::clock::Clock;
use packrace_pack::filter::Filter;
use packrace_pack::negotiate::{Checked, Negotiation};
use packrace_pack::plan::{MissingObjects, PackPlan};
use packrace_pack::{PackRequest, Phase, ProgressSink, RequestObjects, shallow};
use packrace_protocol::message::advertisement;
use packrace_protocol::session::{
    Carriage, Deepen, FetchInfo, HavesAnswer, Input, Output, RequestLimits, ServiceConfig, ShallowAnswer,
    ShallowRequest, Sideband, fetch_v0, fetch_v2,
};
use packrace_protocol::wire::{pkt_line, sideband};
use packrace_protocol::{Refusal, session};
use packrace_store::cache_bytes;
use packrace_store::refs::SHORT_NAME_RULES;

use super::UploadPack;
use super::features::{features, unborn};
use super::fetch_trace;
use super::filter;
use super::hook::{HookCall, HookRun};
use super::send_pack::{CloneAdmission, PackWork, send_hook, send_pack, step_into_background};
use super::settings::{UploadSettings, pack_settings};
use crate::bundles::OfferedBundles;
use crate::error::{Error, ErrorKind};
use crate::limits::admission::Admission;
use crate::metrics::{Kind, Reason};
use crate::refs::view::{RefsView, VisibleRef, namespace_prefix};
use crate::send::outbox::{ClientSink, Framing, GatherBatch};
use crate::send::relay::{BUSY, Delivery, SendStop, Sending};
use crate::subject::{CallMode, ProtocolVersion, Subject};

/// The message for a clone that comes when the server is stopping.
const STOPPING: &str = "server is stopping; try again";

/// Bytes of the first read from a client: most requests are shorter, and a page that is not touched costs
/// nothing.
const FIRST_READ_BYTES: usize = 4 << 10;

/// Bytes of a read from a client that sends more.
const READ_BYTES: usize = 64 << 10;

/// Either kind of session; both have the same interface.
enum FetchSession {
    V0(Box<fetch_v0::Session>),
    V2(Box<fetch_v2::Session>),
}

impl FetchSession {
    fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match self {
            FetchSession::V0(session) => session.handle(input),
            FetchSession::V2(session) => session.handle(input),
        }
    }

    fn wire(&self, refusal: &Refusal) -> Option<Vec<u8>> {
        match self {
            FetchSession::V0(_) => refusal.wire(),
            FetchSession::V2(session) => session.wire(refusal),
        }
    }

    fn fetch_info(&self) -> Option<FetchInfo<'_>> {
        match self {
            FetchSession::V0(_) => None,
            FetchSession::V2(session) => session.fetch_info(),
        }
    }

    fn poll_output(&mut self) -> Output {
        match self {
            FetchSession::V0(session) => session.poll_output(),
            FetchSession::V2(session) => session.poll_output(),
        }
    }
}

pub(super) struct Upload<'a> {
    pub(super) call: &'a UploadPack,
    pub(super) client: &'a mut dyn ClientSink,
    pub(super) clock: &'a dyn Clock,
    pub(super) settings: UploadSettings,
    pub(super) config: ServiceConfig,
    pub(super) request_objects: Arc<RequestObjects>,
    pub(super) namespace: Vec<u8>,
    /// Bytes that wait for the next send.
    pub(super) out: Vec<u8>,
    /// Whether anything of this call was sent to the client.
    has_sent: bool,
    wants: Vec<ObjectId>,
    /// Where the client's history was cut before this request.
    client_shallow: Vec<ObjectId>,
    /// The negotiation about these wants, once there were haves.
    negotiation: Option<Negotiation>,
    pub(super) boundary: shallow::Boundary,
    /// The next pack, if it is already planned.
    pub(super) planned: Option<PackPlan>,
    /// The hook that makes the pack, if it already runs.
    pub(super) hook_run: Option<HookRun>,
    /// Long work of other clients waits while a short request is answered here.
    interactive: Option<Interactive>,
}

impl<'a> Upload<'a> {
    pub(super) fn new(
        call: &'a UploadPack,
        client: &'a mut dyn ClientSink,
        clock: &'a dyn Clock,
    ) -> Result<Self, Error> {
        let repository = &call.subject.repository;
        let settings = UploadSettings::of(repository)?;
        let snapshot = repository.cached_snapshot()?;
        let kept = call.bundles.as_ref().filter(|_| call.subject.version == ProtocolVersion::V2);
        let has_bundles =
            kept.map_or(Ok(false), |kept| OfferedBundles::may_exist(repository, &kept.rules))?;
        let (features, [advertise_unborn, allow_unborn]) = match call.subject.version {
            ProtocolVersion::V2 => {
                (features(repository.config(), has_bundles)?, unborn(repository.config())?)
            }
            _ => Default::default(),
        };
        let config = ServiceConfig {
            agent: call.subject.agent.clone(),
            session_id: settings.advertise_session_id.then(|| call.subject.transfer.session_id().to_owned()),
            hash: repository.hash_kind(),
            advertise_unborn,
            allow_unborn,
            allow_tip: settings.allow_tip,
            allow_reachable: settings.allow_reachable,
            allow_filter: settings.allow_filter,
            is_shallow: !snapshot.shallow()?.is_empty(),
            features,
            limits: RequestLimits::default(),
        };
        Ok(Upload {
            call,
            client,
            clock,
            settings,
            config,
            request_objects: Arc::new(RequestObjects::new(snapshot)),
            namespace: namespace_prefix(&call.subject.namespace),
            out: Vec::new(),
            has_sent: false,
            wants: Vec::new(),
            client_shallow: Vec::new(),
            negotiation: None,
            boundary: shallow::Boundary::default(),
            planned: None,
            hook_run: None,
            interactive: None,
        })
    }

    pub(super) fn serve(mut self, input: &mut (dyn Read + Send)) -> Result<(), Error> {
        if self.call.subject.mode != CallMode::StatelessRpc {
            self.call.subject.transfer.enter(Kind::Advertisement);
            self.advertise()?;
            self.flush()?;
        }
        if self.call.subject.mode == CallMode::Advertise {
            return Ok(());
        }
        let carriage = match self.call.subject.mode {
            CallMode::Stateful => Carriage::Stateful,
            _ => Carriage::Stateless,
        };
        let mut session = match self.call.subject.version {
            ProtocolVersion::V2 => {
                FetchSession::V2(Box::new(fetch_v2::Session::new(self.config.clone(), carriage)))
            }
            _ => FetchSession::V0(Box::new(fetch_v0::Session::new(self.config.clone(), carriage))),
        };
        match self.converse(&mut session, input) {
            Err(Stop::Refused(refusal)) => {
                // The session's output before the refusal is sent first.
                while let Output::Write(bytes) = session.poll_output() {
                    self.out.extend_from_slice(&bytes);
                }
                self.out.extend(session.wire(&refusal).unwrap_or_default());
                // If the client does not get it, that is no second error.
                let _ = self.flush();
                Err(Error::refused(&refusal))
            }
            Err(Stop::Failed(error)) => Err(error),
            Ok(()) => self.flush(),
        }
    }

    /// Reads once, after all output was sent.
    fn take_input(
        &mut self,
        session: &mut FetchSession,
        input: &mut (dyn Read + Send),
        buffer: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        self.flush()?;
        self.interactive = None;
        match input.read(buffer) {
            Ok(0) => session.handle(Input::Eof)?,
            Ok(length) => {
                self.interactive = self.call.subject.host.cpu.as_ref().map(CpuScheduler::interactive);
                session.handle(Input::Bytes(&buffer[..length]))?;
                if length == buffer.len() {
                    buffer.resize(READ_BYTES, 0);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::gone(error).into()),
        }
        Ok(())
    }

    fn converse(&mut self, session: &mut FetchSession, input: &mut (dyn Read + Send)) -> Result<(), Stop> {
        let mut buffer = vec![0; FIRST_READ_BYTES];
        loop {
            match session.poll_output() {
                Output::Write(bytes) => self.out.extend_from_slice(&bytes),
                Output::NeedInput => self.take_input(session, input, &mut buffer)?,
                Output::NeedRefs(request) => {
                    self.call.subject.transfer.enter(Kind::LsRefs);
                    self.send_refs(&request)?;
                    session.handle(Input::RefsSent)?;
                }
                Output::CheckFilter(spec) => drop(self.settings.filters.check(&spec)?),
                Output::ResolveRefs(names) => {
                    let ids = self.resolve_wanted_refs(&names)?;
                    session.handle(Input::RefsResolved(ids))?;
                }
                Output::NeedObjectInfo(request) => {
                    self.send_object_info(&request)?;
                    session.handle(Input::ObjectInfoSent)?;
                }
                Output::NeedBundles => {
                    let bundles = self.find_bundles()?;
                    session.handle(Input::BundlesFound(bundles))?;
                }
                Output::ChooseUris(request) => {
                    self.flush()?;
                    self.negotiation.take().into_iter().for_each(Negotiation::end);
                    let uris = self.choose_uris(request).map_err(|error| self.abort(session, error))?;
                    session.handle(Input::UrisChosen(uris))?;
                }
                Output::ClientSession(id) => self.call.subject.transfer.client_is(&id),
                Output::UnknownPromisor(name) => {
                    let name = String::from_utf8_lossy(&name);
                    tracing::warn!("accepted promisor remote '{name}' not found");
                }
                Output::ClientShallow(commits) => self.note_shallow(commits)?,
                Output::CheckWants(wants) => {
                    fetch_trace::tell_request(session.fetch_info(), &self.request_objects);
                    self.check_wants(&wants)?;
                    self.wants = wants;
                    self.negotiation = None;
                    self.boundary = shallow::Boundary::default();
                    session.handle(Input::WantsGranted)?;
                }
                Output::CheckHaves(haves) => {
                    self.call.subject.transfer.enter(Kind::Negotiation);
                    let answer = self.check_haves(&haves)?;
                    session.handle(Input::HavesChecked(answer))?;
                }
                Output::ResolveShallow(request) => {
                    let answer = self.resolve_shallow(&request)?;
                    session.handle(Input::ShallowResolved(answer))?;
                }
                Output::NeedPack(request) => {
                    let has_nothing = request.haves.is_empty();
                    self.negotiation.take().into_iter().for_each(Negotiation::end);
                    self.call.subject.transfer.enter(if has_nothing { Kind::Clone } else { Kind::Fetch });
                    let admission = self.enter(&request)?;
                    self.flush()?;
                    self.send_pack(request, admission)?;
                    session.handle(Input::PackSent)?;
                }
                Output::Done => return Ok(()),
            }
        }
    }

    /// Tells the client that there is no pack, before a side-band can.
    fn abort(&mut self, session: &FetchSession, error: Error) -> Error {
        if error.kind() == ErrorKind::PeerGone {
            return error;
        }
        self.out.extend(session.wire(&Refusal::aborting()).unwrap_or_default());
        match self.flush() {
            Ok(()) => error.told(),
            Err(_) => error,
        }
    }

    /// Admits or queues a clone; fetches do not wait. If the queue is full, the client gets an error at once:
    /// over HTTP a status, if nothing was sent yet.
    fn enter(&mut self, request: &session::PackRequest) -> Result<Option<Admission>, Error> {
        if !request.haves.is_empty() {
            return Ok(None);
        }
        let Subject { host, repository, mode, transfer, .. } = &self.call.subject;
        let (reason, words) = if transfer.is_late() {
            (Reason::Stopping, STOPPING)
        } else {
            let admission = host.admission.enter(repository.common_dir());
            if !matches!(admission, Admission::QueueFull) {
                return Ok(Some(admission));
            }
            (Reason::QueueFull, BUSY)
        };
        host.metrics.refused(reason);
        let busy = Error::new(ErrorKind::Busy, words);
        if *mode == CallMode::StatelessRpc && !self.has_sent {
            return Err(busy);
        }
        // Anything before the pack is worth nothing without it.
        self.out.clear();
        pkt_line::write_data(format!("ERR {words}").as_bytes(), &mut self.out);
        self.flush()?;
        Err(busy.told())
    }

    /// Sends what is buffered.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.has_sent = true;
        self.client.send(GatherBatch::of(std::mem::take(&mut self.out))).map_err(Error::gone)
    }

    fn advertise(&mut self) -> Result<(), Error> {
        match self.call.subject.version {
            ProtocolVersion::V2 => {
                advertisement::write_v2(&mut self.out, &self.config);
                Ok(())
            }
            version => {
                if version == ProtocolVersion::V1 {
                    pkt_line::write_text("version 1", &mut self.out);
                }
                self.advertise_refs()
            }
        }
    }

    /// In version 0 one negotiation lasts for all rounds of a stateful session.
    fn check_haves(&mut self, haves: &[ObjectId]) -> Result<HavesAnswer, Error> {
        let watch = CancelOnDisconnect::new(&mut *self.client);
        let negotiation = match &mut self.negotiation {
            Some(negotiation) => negotiation,
            None => {
                let unshallow: HashSet<_> = self.boundary.unshallow.iter().collect();
                let stays = self.client_shallow.iter().filter(|id| !unshallow.contains(id));
                let cut: Vec<ObjectId> = stays.chain(&self.boundary.shallow).copied().collect();
                let negotiation = Negotiation::new(&self.request_objects, &self.wants, &cut, &watch)?;
                self.negotiation.insert(negotiation)
            }
        };
        let Checked { known, implied, enough } = negotiation.check(haves, &watch)?;
        Ok(HavesAnswer { known, implied, enough })
    }

    fn resolve_shallow(&mut self, request: &ShallowRequest) -> Result<ShallowAnswer, Stop> {
        let deepen = match &request.deepen {
            None => None,
            Some(Deepen::Depth(depth)) => Some(shallow::Deepen::Depth(*depth)),
            Some(Deepen::Relative(depth)) => {
                Some(shallow::Deepen::Relative { depth: *depth, tips: self.tips(false)? })
            }
            Some(Deepen::Since { seconds, not }) => {
                let not = self.resolve_refs(not)?;
                Some(shallow::Deepen::Since { seconds: *seconds, not })
            }
        };
        let boundary = shallow::boundary(
            &self.request_objects,
            &request.wants,
            &request.client_shallow,
            deepen.as_ref(),
            &CancelOnDisconnect::new(&mut *self.client),
        )
        .map_err(|error| Error::from(error).before_pack())?;
        if boundary.is_empty_selection {
            return Err(Refusal::nothing_selected().into());
        }
        let answer =
            ShallowAnswer { shallow: boundary.shallow.clone(), unshallow: boundary.unshallow.clone() };
        self.boundary = boundary;
        Ok(answer)
    }

    /// Notes the commits at which the client's history is cut. As in git, those that are not here do not matter.
    fn note_shallow(&mut self, commits: Vec<ObjectId>) -> Result<(), Stop> {
        let mut reader = self.request_objects.snapshot().reader(cache_bytes::FEW_OBJECTS);
        for id in &commits {
            // Found first: the reader looks again, on the disk, for what is missing, and a client may name anything.
            let is_here = self.request_objects.contains(id).map_err(Error::from)?;
            if is_here && reader.kind(id).map_err(Error::from)?.is_some_and(|kind| kind != ObjectKind::Commit)
            {
                return Err(Refusal::shallow_is_no_commit(id).into());
            }
        }
        self.client_shallow = commits;
        Ok(())
    }

    /// Resolves the names of `deepen-not`: a full name, a tag, or a branch. There may be thousands of names,
    /// so they are looked up in one snapshot.
    fn resolve_refs(&self, names: &[Vec<u8>]) -> Result<Vec<ObjectId>, Stop> {
        let refs = self.call.subject.repository.refs().snapshot(&[]).map_err(Error::from)?;
        let resolve = |name: &Vec<u8>| {
            let mut found = None;
            for (before, after) in SHORT_NAME_RULES {
                let full_name = [self.namespace.as_slice(), before, name, after].concat();
                if let Some(resolved) = refs.resolve(&full_name).map_err(Error::from)?
                    && found.replace(resolved.id).is_some()
                {
                    return Err(Refusal::deepen_not_is_ambiguous(name).into());
                }
            }
            found.ok_or_else(|| Refusal::deepen_not_is_no_ref(name).into())
        };
        names.iter().map(resolve).collect()
    }

    fn send_pack(
        &mut self,
        request: session::PackRequest,
        admission: Option<Admission>,
    ) -> Result<(), Error> {
        let since = self.clock.now();
        let framing = match request.sideband {
            Sideband::None => Framing::Raw,
            Sideband::Small => Framing::Sideband { payload_bytes: sideband::SMALL_FRAME_PAYLOAD },
            Sideband::Large => Framing::Sideband { payload_bytes: sideband::LARGE_FRAME_PAYLOAD },
        };
        if admission.is_some() {
            self.interactive = None;
        }
        let admission = CloneAdmission { state: admission, host: &self.call.subject.host };
        let delivery = Delivery {
            framing,
            keepalive: self.settings.keepalive,
            batch_bytes: self.settings.batch_bytes,
            progress: !request.no_progress,
            hash: self.config.hash,
            since,
            transfer: &self.call.subject.transfer,
            paths: &self.call.subject.paths,
        };
        if let Some(hook) = self.settings.hook.clone() {
            let hook = match self.hook_run.take() {
                Some(run) => Ok(run),
                None => Err(self.hook_call(&hook, request)?),
            };
            step_into_background(&admission, self.client);
            return send_hook(hook, admission, delivery, self.client, self.clock);
        }
        let is_cut = !self.boundary.shallow.is_empty() || !request.client_shallow.is_empty();
        let traced = fetch_trace::begin_pack(&request, is_cut);
        let work = match self.planned.take() {
            Some(plan) => Ok(PackWork::Make(plan)),
            None => self.pack_request(request).map(PackWork::Plan),
        };
        let sent = match work {
            Ok(work) => {
                step_into_background(&admission, self.client);
                send_pack(&self.request_objects, work, admission, delivery, self.client, self.clock)
            }
            // The client is told in the side-band, as by git's pack-objects.
            Err(error) => Sending::new(delivery, self.client, self.clock).end(Err(SendStop::Failed(error))),
        };
        traced.into_iter().for_each(|child| child.ended_inside(sent.is_ok()));
        sent
    }

    /// The hook for the requested pack.
    pub(super) fn hook_call(
        &mut self,
        hook: &[u8],
        request: session::PackRequest,
    ) -> Result<HookCall, Error> {
        let boundary = std::mem::take(&mut self.boundary);
        HookCall::new(hook, self.call, &self.request_objects, boundary, request)
    }

    /// The requested pack, with the boundary where history is cut.
    pub(super) fn pack_request(&mut self, request: session::PackRequest) -> Result<PackRequest, Error> {
        let filter = self.filter(request.filter.as_deref())?;
        let tags = if request.include_tag { self.annotated_tags()? } else { Vec::new() };
        let boundary = std::mem::take(&mut self.boundary);
        let mut wants = request.wants;
        wants.extend(boundary.new_wants);
        let mut haves = request.haves;
        haves.extend_from_slice(&boundary.unshallow);
        let mut cut = request.client_shallow;
        cut.extend(boundary.shallow);
        let settings = pack_settings(&self.call.subject.repository)?;
        Ok(PackRequest {
            wants,
            haves,
            unpacked: false,
            shallow: cut,
            tags,
            excluded: Vec::new(),
            missing: if request.may_lack_promised {
                MissingObjects::Promised
            } else {
                MissingObjects::Errors
            },
            thin: request.thin_pack,
            ofs_delta: request.ofs_delta,
            filter,
            threads: settings.threads,
            settings,
        })
    }

    /// The filter of a request; it was checked when the request came.
    fn filter(&self, spec: Option<&[u8]>) -> Result<Option<Filter>, Error> {
        let Some(spec) = spec else { return Ok(None) };
        let mut filter =
            Filter::parse(spec).map_err(|bad| Error::new(ErrorKind::PeerFault, bad.to_string()))?;
        for patterns in filter.patterns_mut() {
            patterns.blob = filter::object_named(
                &self.call.subject.repository,
                self.request_objects.snapshot(),
                &patterns.name,
            )?;
        }
        Ok(Some(filter))
    }

    /// Annotated tags that are not hidden, each with the object that it finally tags.
    fn annotated_tags(&self) -> Result<Vec<(ObjectId, ObjectId)>, Error> {
        let prefix = [self.namespace.as_slice(), b"refs/tags/"].concat();
        let refs = self.call.subject.repository.refs().snapshot(&[&prefix])?;
        let view =
            RefsView::new(&refs, self.request_objects.snapshot(), &self.settings.hidden, &self.namespace);
        let mut tags = Vec::new();
        view.visit(&[b"refs/tags/".to_vec()], true, |line: VisibleRef<'_>| {
            tags.extend(line.peeled.map(|peeled| (line.id.to_id(), peeled.to_id())));
            Ok(())
        })?;
        Ok(tags)
    }
}

/// Cancels work when the client disconnects; work before a pack has no progress to report.
pub(super) struct CancelOnDisconnect<'a>(Mutex<&'a mut dyn ClientSink>);

impl<'a> CancelOnDisconnect<'a> {
    pub(super) fn new(client: &'a mut dyn ClientSink) -> Self {
        CancelOnDisconnect(Mutex::new(client))
    }
}

impl ProgressSink for CancelOnDisconnect<'_> {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        self.0.lock().expect("no panic while held").peer_gone()
    }
}

/// Why a session ends early.
pub(super) enum Stop {
    /// The client gets the refusal.
    Refused(Refusal),
    Failed(Error),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}
