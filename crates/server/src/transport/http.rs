//! Smart HTTP (gitprotocol-http).
//!
//! | request | answer |
//! |---|---|
//! | `GET …/info/refs?service=git-upload-pack` or `git-receive-pack` | advertisement |
//! | `POST …/git-upload-pack` | one round of upload-pack |
//! | `POST …/git-receive-pack` | a push; its body is taken as it comes |
//! | a push that is not allowed | 403 |
//! | another service, or the dumb protocol | 403 |
//! | another method | 405 with `Allow` |
//! | another content type | 415 |
//! | a request that is too large | 413 |
//! | a request that breaks off or is no gzip | 400 |
//! | too many connections, too much memory in request bodies, or too many clones in line | 503 with `Retry-After` |
//! | a repository that cannot be read | 500 |
//! | anything else, or no repository | 404 |
//!
//! The status is decided by the first bytes of the answer: refusals in the protocol's own words come with 200, as from
//! git's http-backend. An answer that cannot be completed after that is cut off, so that it does not look complete.
//! A client that closes its sending half while it is answered has left.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use packrace_store::Repository;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;

use super::access::{Access, quoted};
use super::body::{AnswerBody, BadBody, BodyDoor, Message, RequestBody, read_request};
use super::root::NotServed;
use super::serve::Shared;
use super::streamed_body::StreamedBody;
use crate::engine::{self, ErrorKind, Mode, ProtocolVersion, Pusher};
use crate::outbox::GatherBatch;

/// What a client wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    fn advertisement(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-advertisement",
            Service::ReceivePack => "application/x-git-receive-pack-advertisement",
        }
    }

    fn request(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-request",
            Service::ReceivePack => "application/x-git-receive-pack-request",
        }
    }

    fn result(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-result",
            Service::ReceivePack => "application/x-git-receive-pack-result",
        }
    }

    /// What goes before the advertisement in versions 0 and 1.
    fn announcement(self) -> &'static [u8] {
        match self {
            Service::UploadPack => b"001e# service=git-upload-pack\n0000",
            Service::ReceivePack => b"001f# service=git-receive-pack\n0000",
        }
    }
}

/// What a client beyond the last place is told.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// When a client should try again that there was no room for.
const RETRY_AFTER_SECONDS: &str = "10";

type Answer = Response<AnswerBody>;

/// Serves one connection to its end.
pub(super) async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let peer = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
    let Ok(_place) = shared.http_places.clone().try_acquire_owned() else {
        tracing::warn!("http {peer}: too many connections, refusing this one");
        return refuse_connection(&stream).await;
    };
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let mut stopping = shared.stopping.subscribe();
    let service_peer = peer.clone();
    let request_time = shared.settings.limits.request_time;
    let service = hyper::service::service_fn(move |request| {
        let (shared, peer) = (shared.clone(), service_peer.clone());
        async move { Ok::<_, Infallible>(answer(request, shared, &peer).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(request_time);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async { drop(stopping.wait_for(|is_stopping| *is_stopping).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("http {peer}: {error}");
    }
}

/// Tells that there is no place. Reads first: a close with unread bytes would take the answer back.
async fn refuse_connection(stream: &TcpStream) {
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.readable()).await;
    let _ = stream.try_read(&mut [0; 4096]);
    // Whether it is heard does not matter.
    let _ = stream.try_write(NO_PLACE);
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Advertise(Service, Vec<u8>),
    Call(Service, Vec<u8>),
    /// Refused with this status; for 405, what is allowed.
    Refused(StatusCode, &'static str),
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>, peer: &str) -> Answer {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let access = Access::new("http", peer, format!("{method} {uri}").as_bytes());
    let result = match route(&method, uri.path(), uri.query().unwrap_or("")) {
        Route::Refused(status, allow) => {
            let mut answer = refusal(status, access);
            if !allow.is_empty() {
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            return answer;
        }
        Route::Advertise(service, path) => advertise(request.headers(), service, path, peer, shared).await,
        Route::Call(Service::UploadPack, path) => upload_pack(request, path, peer, shared).await,
        Route::Call(Service::ReceivePack, path) => receive_pack(request, path, peer, shared).await,
    };
    match result {
        Ok(started) => {
            let body = AnswerBody::new(started.first, started.rest, StatusCode::OK.as_u16(), access);
            let mut answer = Response::new(body);
            let content_type = HeaderValue::from_static(started.content_type);
            answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
            no_cache(answer.headers_mut());
            if method == Method::HEAD {
                answer.body_mut().not_wanted();
            }
            answer
        }
        Err(status) => refusal(status, access),
    }
}

fn route(method: &Method, path: &str, query: &str) -> Route {
    let Some(path) = percent_decode(path) else { return Route::Refused(StatusCode::BAD_REQUEST, "") };
    let is_get = method == Method::GET || method == Method::HEAD;
    if let Some(repository) = path.strip_suffix(b"/info/refs") {
        let service = query.split('&').find_map(|pair| pair.strip_prefix("service="));
        return match service {
            _ if !is_get => Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"),
            Some("git-upload-pack") => Route::Advertise(Service::UploadPack, rooted(repository)),
            Some("git-receive-pack") => Route::Advertise(Service::ReceivePack, rooted(repository)),
            // Other services, and files for the dumb protocol, are not offered.
            _ => Route::Refused(StatusCode::FORBIDDEN, ""),
        };
    }
    let services =
        [(&b"/git-upload-pack"[..], Service::UploadPack), (b"/git-receive-pack", Service::ReceivePack)];
    for (end, service) in services {
        if let Some(repository) = path.strip_suffix(end) {
            if method != Method::POST {
                return Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "POST");
            }
            return Route::Call(service, rooted(repository));
        }
    }
    let is_other_service = path.ends_with(b"/git-upload-archive");
    let is_dumb_file = is_get && (path.ends_with(b"/HEAD") || is_below_objects(&path));
    let is_known = is_other_service || is_dumb_file;
    Route::Refused(if is_known { StatusCode::FORBIDDEN } else { StatusCode::NOT_FOUND }, "")
}

/// `…/objects/info/…`, `…/objects/pack/…`, `…/objects/ab/…`: files of the dumb protocol.
fn is_below_objects(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/').skip(1);
    let (Some(folder), Some(objects)) = (parts.next(), parts.next()) else { return false };
    let is_fan_out = folder.len() == 2 && folder.iter().all(u8::is_ascii_hexdigit);
    objects == b"objects" && (is_fan_out || folder == b"info" || folder == b"pack")
}

/// The folder itself can be a repository.
fn rooted(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { path.to_vec() }
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    Some(decoded)
}

fn refusal(status: StatusCode, access: Access) -> Answer {
    let text = format!("{}\n", status.canonical_reason().unwrap_or("refused"));
    let body = AnswerBody::new(GatherBatch::of(text.into_bytes()), None, status.as_u16(), access);
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    no_cache(answer.headers_mut());
    answer
}

fn no_cache(headers: &mut HeaderMap) {
    headers.insert(header::EXPIRES, HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
}

fn version(headers: &HeaderMap) -> ProtocolVersion {
    let value = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    ProtocolVersion::from_environment(value.unwrap_or(""))
}

/// An answer of which at least the status is certain.
struct Started {
    first: GatherBatch,
    rest: Option<Receiver<Message>>,
    content_type: &'static str,
}

async fn advertise(
    headers: &HeaderMap,
    service: Service,
    path: Vec<u8>,
    peer: &str,
    shared: Arc<Shared>,
) -> Result<Started, StatusCode> {
    let version = version(headers);
    let prefix = match version {
        ProtocolVersion::V2 => Vec::new(),
        _ => service.announcement().to_vec(),
    };
    let input = Body::Whole(RequestBody::empty(&shared.body_memory).map_err(status_of)?);
    let call = Call { service, path, version, mode: Mode::Advertise, input, prefix, peer: peer.to_owned() };
    run(call, service.advertisement(), shared).await
}

async fn upload_pack(
    request: Request<Incoming>,
    path: Vec<u8>,
    peer: &str,
    shared: Arc<Shared>,
) -> Result<Started, StatusCode> {
    let service = Service::UploadPack;
    let is_gzip = is_gzip(request.headers(), service)?;
    let version = version(request.headers());
    let max_bytes = shared.settings.limits.max_request_bytes;
    let body = read_request(request.into_body(), is_gzip, max_bytes, &shared.body_memory);
    let input = match tokio::time::timeout(shared.settings.limits.body_time, body).await {
        Ok(input) => Body::Whole(input.map_err(status_of)?),
        Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
    };
    let prefix = Vec::new();
    let call =
        Call { service, path, version, mode: Mode::StatelessRpc, input, prefix, peer: peer.to_owned() };
    run(call, service.result(), shared).await
}

/// A push may be of any length: its body is never held whole.
async fn receive_pack(
    request: Request<Incoming>,
    path: Vec<u8>,
    peer: &str,
    shared: Arc<Shared>,
) -> Result<Started, StatusCode> {
    let service = Service::ReceivePack;
    let version = version(request.headers());
    // As from git, who may not push is told that first.
    let input = match is_gzip(request.headers(), service) {
        Ok(is_gzip) => {
            Body::Stream(StreamedBody::start(request.into_body(), is_gzip, shared.settings.limits.stall_time))
        }
        Err(status) => Body::Refused(status),
    };
    let prefix = Vec::new();
    let call =
        Call { service, path, version, mode: Mode::StatelessRpc, input, prefix, peer: peer.to_owned() };
    run(call, service.result(), shared).await
}

/// Whether a body is gzipped; refuses bodies that are something else than a request of this service.
fn is_gzip(headers: &HeaderMap, service: Service) -> Result<bool, StatusCode> {
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != service.request()) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

fn status_of(bad: BadBody) -> StatusCode {
    match bad {
        BadBody::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BadBody::Broken => StatusCode::BAD_REQUEST,
        BadBody::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
    }
}

struct Call {
    service: Service,
    path: Vec<u8>,
    version: ProtocolVersion,
    mode: Mode,
    input: Body,
    prefix: Vec<u8>,
    peer: String,
}

/// Where the bytes of a request come from.
enum Body {
    Whole(RequestBody),
    Stream(StreamedBody),
    /// It is none that this service takes.
    Refused(StatusCode),
}

/// Runs the engine on a thread of its own. The status is decided by its first bytes, or by how it ends without any.
async fn run(mut call: Call, content_type: &'static str, shared: Arc<Shared>) -> Result<Started, StatusCode> {
    let (door, mut receiver) =
        BodyDoor::new(std::mem::take(&mut call.prefix), shared.settings.limits.stall_time);
    let stopping = shared.stopping.subscribe();
    let engine = tokio::task::spawn_blocking(move || {
        // The server waits for this thread when it stops.
        let _stopping = stopping;
        run_engine(call, door, &shared)
    });
    match receiver.recv().await {
        Some(Message::Batch(first)) => Ok(Started { first, rest: Some(receiver), content_type }),
        Some(Message::End) => Ok(Started { first: GatherBatch::default(), rest: None, content_type }),
        None => match engine.await {
            Ok(status) => Err(status),
            Err(panic) => {
                tracing::error!("a request failed: {panic}");
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
        },
    }
}

/// Serves a call. Says with which status it ends if nothing was sent.
fn run_engine(mut call: Call, mut door: BodyDoor, shared: &Shared) -> StatusCode {
    let path = quoted(&call.path);
    let opened = match call.service {
        Service::UploadPack => shared.root.open(&call.path),
        Service::ReceivePack => shared.open_for_push(&call.path),
    };
    let repository = match opened {
        Ok(repository) => repository,
        Err(NotServed::NotFound(why)) => {
            tracing::info!("{path} is not served: {}", quoted(why.as_bytes()));
            return StatusCode::NOT_FOUND;
        }
        Err(NotServed::Broken(error)) => {
            tracing::error!("{path}: {error}");
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
    };
    let is_enabled = match call.service {
        Service::UploadPack => {
            repository.config().boolean("http.uploadpack").map(|enabled| enabled.unwrap_or(true))
        }
        Service::ReceivePack => shared.may_push(&repository, "http.receivepack"),
    };
    match is_enabled {
        Ok(true) => {}
        Ok(false) => return StatusCode::FORBIDDEN,
        Err(error) => {
            tracing::error!("{path}: {error}");
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
    }
    if let Body::Refused(status) = call.input {
        return status;
    }
    let result = catch_unwind(AssertUnwindSafe(|| serve_call(&mut call, repository, &mut door, shared)));
    match result {
        Ok(Ok(())) => {
            door.end();
            StatusCode::OK
        }
        Ok(Err(error)) => {
            tracing::warn!("{path}: {}", quoted(error.to_string().as_bytes()));
            if error.was_told() && door.has_sent() {
                door.end();
            }
            match error.kind() {
                ErrorKind::PeerFault | ErrorKind::PeerGone => StatusCode::BAD_REQUEST,
                ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            }
        }
        Err(_) => {
            tracing::error!("{path}: the request panicked");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

fn serve_call(
    call: &mut Call,
    repository: Repository,
    door: &mut BodyDoor,
    shared: &Shared,
) -> Result<(), engine::Error> {
    let mut whole: &[u8];
    let input: &mut (dyn Read + Send) = match &mut call.input {
        Body::Whole(body) => {
            whole = &body.bytes;
            &mut whole
        }
        Body::Stream(body) => body,
        Body::Refused(_) => &mut std::io::empty(),
    };
    match call.service {
        Service::UploadPack => {
            let upload = shared.upload_pack(repository, call.version, call.mode);
            engine::upload_pack(&upload, input, door, &shared.clock)
        }
        Service::ReceivePack => {
            let (pusher, variables) = pusher(&call.peer);
            let push = shared.receive_pack(repository, call.version, call.mode, Some(pusher), variables);
            engine::receive_pack(&push, input, door, &shared.clock)
        }
    }
}

/// Who pushes, and what hooks are told of it, as by git's http-backend: nobody has a name here.
fn pusher(peer: &str) -> (Pusher, Vec<(OsString, OsString)>) {
    let host = peer.parse::<SocketAddr>().map(|address| address.ip().to_string());
    let host = host.unwrap_or_else(|_| "(none)".to_owned());
    let pusher = Pusher { name: "anonymous".to_owned(), email: format!("anonymous@http.{host}") };
    let variables = [
        ("GIT_COMMITTER_NAME", pusher.name.clone()),
        ("GIT_COMMITTER_EMAIL", pusher.email.clone()),
        ("REMOTE_ADDR", host),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into())).to_vec();
    (pusher, variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, target: &str, expect: &Route) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        assert_eq!(route(&method, path, query), *expect, "{method} {target}");
    }

    #[test]
    fn routes() {
        let advertise = |path: &str| Route::Advertise(Service::UploadPack, path.into());
        let refused = |status: u16, allow| Route::Refused(StatusCode::from_u16(status).unwrap(), allow);
        check(Method::GET, "/a/b.git/info/refs?service=git-upload-pack", &advertise("/a/b.git"));
        check(Method::HEAD, "/info/refs?x=y&service=git-upload-pack", &advertise("/"));
        check(Method::GET, "/a%20b%C3%A4/info/refs?service=git-upload-pack", &advertise("/a bä"));
        let push = Route::Advertise(Service::ReceivePack, b"/a".to_vec());
        check(Method::GET, "/a/info/refs?service=git-receive-pack", &push);
        check(Method::GET, "/a/info/refs?service=git-upload-archive", &refused(403, ""));
        check(Method::GET, "/a/info/refs", &refused(403, ""));
        check(Method::POST, "/a/info/refs?service=git-upload-pack", &refused(405, "GET, HEAD"));
        check(Method::POST, "/a/git-upload-pack", &Route::Call(Service::UploadPack, b"/a".to_vec()));
        check(Method::GET, "/a/git-upload-pack", &refused(405, "POST"));
        check(Method::POST, "/a/git-receive-pack", &Route::Call(Service::ReceivePack, b"/a".to_vec()));
        check(Method::GET, "/a/git-receive-pack", &refused(405, "POST"));
        check(Method::POST, "/a/git-upload-archive", &refused(403, ""));
        check(Method::GET, "/a/HEAD", &refused(403, ""));
        check(Method::GET, "/a/objects/pack/pack-12.idx", &refused(403, ""));
        check(Method::GET, "/a/objects/12/34", &refused(403, ""));
        check(Method::GET, "/a/objects/x/34", &refused(404, ""));
        check(Method::GET, "/a/README", &refused(404, ""));
        check(Method::GET, "/", &refused(404, ""));
        check(Method::GET, "/%zz/info/refs?service=git-upload-pack", &refused(400, ""));
        check(Method::GET, "/%4", &refused(400, ""));
    }
}
