//! Smart HTTP (gitprotocol-http).
//!
//! | request | answer |
//! |---|---|
//! | `GET …/info/refs?service=git-upload-pack` or `git-receive-pack` | advertisement |
//! | `POST …/git-upload-pack` | one round of upload-pack |
//! | `POST …/git-receive-pack` | a push; its body is streamed |
//! | a `Host` that is not one of `listen.hosts`, or a request of another site | 403 |
//! | no `Host`, or two | 400 |
//! | no credentials where some are necessary, or wrong ones | 401 with `WWW-Authenticate` |
//! | a push that is not allowed | 403, and why |
//! | another service, or the dumb protocol | 403 |
//! | another method | 405 with `Allow` |
//! | another content type | 415 |
//! | a request that is too large | 413 |
//! | a request that breaks off or is no gzip | 400 |
//! | too many connections or requests, too much memory in request bodies, or too many clones in the queue | 503 with `Retry-After` |
//! | too many of them, or of wrong passwords, from one address | 429 with `Retry-After` |
//! | a repository that cannot be read | 500 |
//! | `GET …/bundles/…`, with `bundles.keep` | [`bundle_files`] |
//! | anything else, or no repository | 404 |
//! | `/-/api/v1/repositories` and below, with access rules | [`api`] |
//! | `/-/events`, with access rules and a journal | [`event_stream`] |
//!
//! The first bytes of the answer decide the status: refusals in the protocol's own words come with 200, as
//! from git's http-backend. An answer that cannot be completed after that is cut off, so that it does not
//! look complete. A client that closes its sending half before its answer is complete counts as disconnected.

mod api;
mod api_path;
pub(crate) mod body;
mod bundle_files;
pub(crate) mod connection;
pub(crate) mod dumb;
mod event_stream;
pub(crate) mod https;
mod identity;
pub(crate) mod limit_reached;
pub(crate) mod pages;
mod refusal;
pub(crate) mod routes;
mod streamed_body;
pub(crate) mod watch;

use std::io::Read;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;

use crate::admin;
use crate::bundles::KeptBundles;
use crate::error::ErrorKind;
use crate::limits::budget::CUT;
use crate::limits::connections::{Permit, PermitReader};
use crate::metrics::{DoorName, Reason};
use crate::origin;
use crate::path_names::PathNames;
use crate::send::outbox::GatherBatch;
use crate::service::access_log::Access;
use crate::service::call::{self, Call, Service};
use crate::service::counting::CountingReader;
use crate::service::pusher::pusher;
use crate::service::root::NotServed;
use crate::service::shared::{Beginning, Opened, ServedRepository, Shared};
use crate::subject::{CallMode, ProtocolVersion};
use crate::tls::ClientCertificate;
use crate::transfers::Transfer;
use body::{AnswerBody, BadBody, BodyMessage, BodySink, RequestBody, discard};
use identity::{ClientOffer, admin_access, identify, is_challenged};
use limit_reached::status_of;
use refusal::{HttpRefusal, body_refused, no_cache};
use routes::{Route, percent_decode, route};
use streamed_body::StreamedBody;
use watch::InFlight;

pub(crate) type HttpAnswer = Response<AnswerBody>;

/// The body of a request: hyper's, or that of a program that embeds the server.
pub(crate) trait ClientBody: HttpBody<Data = Bytes, Error: Send> + Send + Unpin + 'static {}

impl<B: HttpBody<Data = Bytes, Error: Send> + Send + Unpin + 'static> ClientBody for B {}

/// Both ends of a connection, and the client's certificate.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<SocketAddr>,
    /// The client's verified certificate; over TLS only.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
}

/// Answers one request.
pub(crate) async fn answer(
    request: Request<impl ClientBody>,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
    addresses: Addresses,
) -> HttpAnswer {
    let is_head = request.method() == Method::HEAD;
    let mut answer = answer_whole(request, in_flight, shared, addresses).await;
    if is_head {
        answer.body_mut().not_wanted();
    }
    answer
}

/// The answer with its body, even to HEAD.
async fn answer_whole(
    request: Request<impl ClientBody>,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
    Addresses { peer, local, certificate }: Addresses,
) -> HttpAnswer {
    let offer = ClientOffer::new(peer, request.headers(), certificate, &shared);
    let peer = offer.client_address(peer);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let log = || {
        let line = format!("{method} {uri}");
        Access::new(&shared.host, DoorName::Http, &peer.to_string(), line.as_bytes())
    };
    let checked = origin::check(&request, &shared.settings().hosts, local);
    if let Err((status, why)) = checked {
        let access = log();
        access.transfer().fails(ErrorKind::PeerFault, &format!("refused: {why}"));
        return HttpRefusal::from(status).answer(access, in_flight);
    }
    let admin_access = match admin_access(uri.path(), &offer, &shared).await {
        Ok(access) => access,
        Err(refusal) => return refusal.answer(log(), in_flight),
    };
    if let Some(answer) = admin::answer(&request, &shared, admin_access) {
        let status = answer.status().as_u16();
        let body = |text: String| GatherBatch::of(text.into_bytes());
        return answer.map(|text| AnswerBody::new(body(text), None, status, None, in_flight));
    }
    let access = log();
    let background = in_flight.watch().background().clone();
    let transfer = access.transfer().clone();
    let context = RequestContext { peer, offer, transfer, background, in_flight: Arc::downgrade(&in_flight) };
    if let Some(target) = api_path::target(uri.path(), &context.offer.settings) {
        return api::answer(request, target, context, access, in_flight, shared).await;
    }
    let route = match percent_decode(uri.path()) {
        Some(path) => route(method.as_str(), &path, uri.query().unwrap_or("")),
        None => return HttpRefusal::from(StatusCode::BAD_REQUEST).answer(access, in_flight),
    };
    let result = match route {
        Route::Advertise(service, path) => advertise(service, path, context, shared).await,
        Route::Call(Service::UploadPack, path) => upload_pack(request, path, context, shared).await,
        Route::Call(Service::ReceivePack, path) => receive_pack(request, path, context, shared).await,
        Route::Bundle(wanted, path) if context.offer.settings.bundles.keep => {
            let request = request.map(drop);
            match bundle_files::find(&request, wanted, path, &context, &shared).await {
                Ok(found) => return found.answer(access, in_flight),
                Err(refusal) => Err(refusal),
            }
        }
        Route::NotAllowed(methods) => {
            let refusal = HttpRefusal::from(StatusCode::METHOD_NOT_ALLOWED);
            let mut answer = refusal.answer(access, in_flight);
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
            return answer;
        }
        Route::NotOffered(_) | Route::File(..) => {
            access.transfer().fails(ErrorKind::PeerFault, "service or dumb protocol not offered");
            Err(StatusCode::FORBIDDEN.into())
        }
        Route::Bundle(..) | Route::Unknown => Err(StatusCode::NOT_FOUND.into()),
    };
    match result {
        Ok(start) => start.answer(access, in_flight),
        Err(refusal) => refusal.answer(access, in_flight),
    }
}

fn version(headers: &HeaderMap) -> ProtocolVersion {
    let value = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    ProtocolVersion::from_environment(value.unwrap_or(""))
}

/// The start of an answer, whose status is certain.
struct AnswerStart {
    first: GatherBatch,
    rest: Option<Receiver<BodyMessage>>,
    content_type: &'static str,
}

impl AnswerStart {
    fn answer(self, access: Access, in_flight: Arc<InFlight>) -> HttpAnswer {
        let body = AnswerBody::new(self.first, self.rest, StatusCode::OK.as_u16(), Some(access), in_flight);
        let mut answer = Response::new(body);
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        no_cache(answer.headers_mut());
        answer
    }
}

async fn advertise(
    service: Service,
    path: Vec<u8>,
    context: RequestContext,
    shared: Arc<Shared>,
) -> Result<AnswerStart, HttpRefusal> {
    if is_challenged(service, &path, &context.offer, &shared) {
        context.transfer.is_about(&path);
        return Err(StatusCode::UNAUTHORIZED.into());
    }
    let version = version(&context.offer.headers);
    let prefix = match version {
        ProtocolVersion::V2 => Vec::new(),
        _ => service.announcement().to_vec(),
    };
    let request = ServiceRequest {
        service,
        path,
        version,
        mode: CallMode::Advertise,
        input: Body::Empty,
        prefix,
        context,
        opened: None,
    };
    run(request, service.advertisement(), shared).await
}

async fn upload_pack(
    request: Request<impl ClientBody>,
    path: Vec<u8>,
    context: RequestContext,
    shared: Arc<Shared>,
) -> Result<AnswerStart, HttpRefusal> {
    let service = Service::UploadPack;
    let is_gzip = is_gzip(request.headers(), service)?;
    let version = version(request.headers());
    let may_send = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    let (input, opened) =
        match take_body(&mut body, is_gzip, may_send, service, &path, &context, &shared).await {
            Ok((input, opened)) => (Body::Whole(input), opened),
            Err(refusal) => {
                let time = shared.settings().limits.body_time;
                drop(tokio::spawn(discard(body, time)));
                return Err(refusal);
            }
        };
    let prefix = Vec::new();
    let request = ServiceRequest {
        service,
        path,
        version,
        mode: CallMode::StatelessRpc,
        input,
        prefix,
        context,
        opened,
    };
    run(request, service.result(), shared).await
}

/// Reads the body of a request. Waits for bytes that have not arrived with the head only if a repository
/// offers the service; then returns that too.
async fn take_body(
    body: &mut impl ClientBody,
    is_gzip: bool,
    expects_to_continue: bool,
    service: Service,
    path: &[u8],
    context: &RequestContext,
    shared: &Arc<Shared>,
) -> Result<(RequestBody, Option<Opened>), HttpRefusal> {
    let settings = shared.settings();
    let limits = &settings.limits;
    let refused = |bad| body_refused(bad, context, shared);
    let claim = shared.limits.bodies.claim(0, context.peer.ip()).map_err(|_| refused(BadBody::NoRoom))?;
    let mut taken = RequestBody::new(claim, is_gzip, limits.max_request_bytes);
    let mut opened = None;
    // Polling the body would ask for it.
    if expects_to_continue || !taken.take_ready(body).await.map_err(refused)? {
        opened = Some(look_up(service, path.to_vec(), context, shared).await?);
        let in_flight = context.in_flight.upgrade();
        in_flight.iter().for_each(|in_flight| in_flight.watch().awaits_body());
        let come = tokio::time::timeout(limits.body_time, taken.take_rest(body)).await;
        in_flight.iter().for_each(|in_flight| in_flight.watch().has_body());
        match come {
            Ok(result) => result.map_err(refused)?,
            Err(_) => return Err(StatusCode::REQUEST_TIMEOUT.into()),
        }
    }
    Ok((taken, opened))
}

/// The repository, if it offers this service. The permit is released: the request takes another one when its
/// body has arrived.
async fn look_up(
    service: Service,
    path: Vec<u8>,
    context: &RequestContext,
    shared: &Arc<Shared>,
) -> Result<Opened, HttpRefusal> {
    let permit = take_permit(context, shared).await?;
    let (transfer, shared) = (context.transfer.clone(), shared.clone());
    let offer = context.offer.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let _held = permit;
        transfer.is_about(&path);
        let _span = transfer.enter_span();
        open(service, &path, &offer, &transfer, &shared)
    });
    looking.await.unwrap_or_else(|panic| {
        tracing::error!("request panicked: {panic}");
        Err(StatusCode::INTERNAL_SERVER_ERROR.into())
    })
}

/// A push may be of any length: its body is never held whole.
async fn receive_pack(
    request: Request<impl ClientBody>,
    path: Vec<u8>,
    context: RequestContext,
    shared: Arc<Shared>,
) -> Result<AnswerStart, HttpRefusal> {
    let service = Service::ReceivePack;
    let version = version(request.headers());
    // As from git, a client that may not push gets that error first.
    let input = match is_gzip(request.headers(), service) {
        Ok(is_gzip) => {
            let min = shared.settings().limits.stall_throughput();
            Body::Stream(StreamedBody::start(request.into_body(), is_gzip, min))
        }
        Err(status) => Body::Refused(status),
    };
    let prefix = Vec::new();
    let request = ServiceRequest {
        service,
        path,
        version,
        mode: CallMode::StatelessRpc,
        input,
        prefix,
        context,
        opened: None,
    };
    run(request, service.result(), shared).await
}

/// Whether a body is gzipped; refuses bodies that are no request of this service.
fn is_gzip(headers: &HeaderMap, service: Service) -> Result<bool, StatusCode> {
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != service.request()) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    // Their names have no case (RFC 9110, section 8.4.1).
    let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match coding.as_deref() {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// The client of a request, and the request's state.
struct RequestContext {
    /// The client's address; behind a trusted proxy, the one that the proxy reports.
    peer: SocketAddr,
    offer: ClientOffer,
    transfer: Arc<Transfer>,
    /// See [`crate::send::outbox::ClientSink::demote_to_background`].
    background: Arc<Notify>,
    /// The answer may end before the request does.
    in_flight: Weak<InFlight>,
}

/// A request for a service, and the source of its body.
struct ServiceRequest {
    service: Service,
    path: Vec<u8>,
    version: ProtocolVersion,
    mode: CallMode,
    input: Body,
    prefix: Vec<u8>,
    context: RequestContext,
    /// The repository, if it was already looked up.
    opened: Option<Opened>,
}

/// The source of a request's bytes.
enum Body {
    Empty,
    Whole(RequestBody),
    Stream(StreamedBody),
    /// Not a body that this service takes.
    Refused(StatusCode),
}

/// Runs the engine on its own thread. Its first bytes decide the status, or its end without any.
async fn run(
    mut request: ServiceRequest,
    content_type: &'static str,
    shared: Arc<Shared>,
) -> Result<AnswerStart, HttpRefusal> {
    let permit = take_permit(&request.context, &shared).await?;
    if let Body::Stream(body) = &request.input {
        permit.on_cut(body.giving_up());
    }
    let background = request.context.background.clone();
    let stall_time = shared.settings().limits.stall_time;
    let (client, mut receiver) =
        BodySink::new(std::mem::take(&mut request.prefix), stall_time, background, shared.host.cpu.clone());
    let stopping = shared.stopping.subscribe();
    let engine = shared.workers.clone().start(move || {
        // This thread holds the permit while it works; a server that stops waits for it.
        let _held = stopping;
        run_engine(request, client, &permit, &shared)
    });
    let engine = engine.map_err(|error| {
        tracing::error!("cannot start a thread: {error}");
        StatusCode::SERVICE_UNAVAILABLE
    })?;
    match receiver.recv().await {
        Some(BodyMessage::Batch(first)) => Ok(AnswerStart { first, rest: Some(receiver), content_type }),
        Some(BodyMessage::End) => Ok(AnswerStart { first: GatherBatch::default(), rest: None, content_type }),
        None => match engine.await {
            Ok(refusal) => Err(refusal),
            Err(_) => {
                tracing::error!("request panicked");
                Err(StatusCode::INTERNAL_SERVER_ERROR.into())
            }
        },
    }
}

async fn take_permit(context: &RequestContext, shared: &Shared) -> Result<Permit, StatusCode> {
    shared.limits.request(context.peer.ip()).await.map_err(|why| {
        shared.has_refused(format_args!("http {}", context.peer), why, "request");
        context.transfer.fails_somehow(ErrorKind::Busy, &why.to_string());
        status_of(why)
    })
}

/// The repository, if it offers this service, and the client may use it.
fn open(
    service: Service,
    path: &[u8],
    offer: &ClientOffer,
    transfer: &Transfer,
    shared: &Shared,
) -> Result<Opened, HttpRefusal> {
    let principal = identify(offer, shared)?;
    principal.name().iter().for_each(|name| transfer.is_by(name));
    shared.open(service, Some("http"), path, &principal).map_err(|why| {
        // Other causes are counted by their status.
        if matches!(why, NotServed::Unavailable(_)) {
            shared.host.metrics.refused(Reason::Unavailable);
        }
        HttpRefusal::not_served(transfer, &why)
    })
}

/// Serves a call. Returns its refusal if nothing was sent.
fn run_engine(
    mut request: ServiceRequest,
    mut client: BodySink,
    permit: &Permit,
    shared: &Shared,
) -> HttpRefusal {
    request.context.transfer.is_about(&request.path);
    let _span = request.context.transfer.enter_span();
    let transfer = request.context.transfer.clone();
    let offer = &request.context.offer;
    let open = || open(request.service, &request.path, offer, &transfer, shared);
    let opened = match request.opened.take().map_or_else(open, Ok) {
        Ok(opened) => opened,
        Err(refusal) => return refusal,
    };
    match &mut request.input {
        Body::Refused(status) => return (*status).into(),
        // Inflating here delays no other request, and there are a permit and a repository.
        Body::Whole(body) => {
            if let Err(bad) = body.inflate() {
                return body_refused(bad, &request.context, shared).into();
            }
        }
        Body::Empty | Body::Stream(_) => {}
    }
    let result =
        catch_unwind(AssertUnwindSafe(|| serve_request(request, opened, &mut client, permit, shared)));
    let status = match result {
        Ok(Ok(StatusCode::OK)) => {
            client.end();
            StatusCode::OK
        }
        // Nothing was sent.
        Ok(Ok(status)) => status,
        Ok(Err(error)) if permit.is_cut() => {
            shared.host.metrics.refused(Reason::Idle);
            transfer.fails(ErrorKind::Busy, &format!("{CUT}: {error}"));
            StatusCode::SERVICE_UNAVAILABLE
        }
        Ok(Err(error)) => {
            transfer.fails(error.kind(), &error.to_string());
            if error.was_told() && client.has_sent() {
                client.end();
            }
            routes::status_of(error.kind())
        }
        Err(_) => {
            shared.host.metrics.panics.inc();
            transfer.fails(ErrorKind::Unavailable, "request panicked");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    status.into()
}

fn serve_request(
    request: ServiceRequest,
    opened: Opened,
    client: &mut BodySink,
    permit: &Permit,
    shared: &Shared,
) -> Result<StatusCode, crate::error::Error> {
    let mut whole: &[u8];
    let mut awaited;
    let RequestContext { peer, transfer, .. } = request.context;
    let mut body = request.input;
    let input: &mut (dyn Read + Send) = match &mut body {
        Body::Whole(body) => {
            whole = body.bytes();
            &mut whole
        }
        Body::Stream(body) => {
            awaited = PermitReader { input: body, permit };
            &mut awaited
        }
        Body::Empty | Body::Refused(_) => &mut std::io::empty(),
    };
    let mut input = CountingReader { input, transfer: &transfer };
    let settings = shared.settings();
    let mut head = &[][..];
    let begun;
    let Opened { repository, access } = opened;
    let user = access.principal().name().map(str::to_owned);
    let repository = match repository {
        ServedRepository::Existing(repository) => repository,
        ServedRepository::New(new) if request.mode == CallMode::Advertise => {
            new.advertise(&settings, request.version, &transfer, client)?;
            return Ok(StatusCode::OK);
        }
        ServedRepository::New(new) => {
            match Beginning::of(&mut input).map_err(crate::error::Error::gone)? {
                Beginning::Commands(first) => begun = first,
                Beginning::Flush => return Ok(StatusCode::OK),
                Beginning::Nothing => return Ok(StatusCode::NOT_FOUND),
            }
            head = &begun;
            match shared.make(&new, &transfer) {
                Ok(made) => made,
                Err(why) => return Ok(HttpRefusal::not_served(&transfer, &why).status),
            }
        }
    };
    let call = Call {
        service: request.service,
        paths: PathNames::of(&repository, &request.path),
        repository,
        version: request.version,
        mode: request.mode,
        client: pusher("http", user.as_deref(), Some(&peer.ip().to_string())),
        access: Some(access),
        bundles: KeptBundles::of(&settings.bundles, &request.path, true),
        transfer: transfer.clone(),
        host: shared.host.clone(),
        messages: call::to_log(),
    };
    call.serve(&settings, &mut head.chain(input), client, &shared.clock)?;
    Ok(StatusCode::OK)
}
