//! Smart HTTP (gitprotocol-http), the reading half.
//!
//! | request | answer |
//! |---|---|
//! | `GET …/info/refs?service=git-upload-pack` | advertisement |
//! | `POST …/git-upload-pack` | one round of upload-pack |
//! | another service, or the dumb protocol | 403 |
//! | another method | 405 with `Allow` |
//! | another content type | 415 |
//! | a request that is too large | 413 |
//! | anything else, or no repository | 404 |

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::body::{BadBody, BodyDoor, Message, StreamedBody, read_request};
use super::root::NotServed;
use super::serve::Shared;
use crate::engine::{self, Mode, ProtocolVersion};
use crate::outbox::GatherBatch;

/// How long a client may take for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a client may take for the body of a request.
const BODY_TIME: Duration = Duration::from_secs(120);

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const REQUEST: &str = "application/x-git-upload-pack-request";
const RESULT: &str = "application/x-git-upload-pack-result";

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// Serves one connection to its end.
pub(super) async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let peer = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(|request| {
        let (shared, peer) = (shared.clone(), peer.clone());
        async move { Ok::<_, Infallible>(answer(request, shared, &peer).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("http {peer}: {error}");
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Advertise(Vec<u8>),
    UploadPack(Vec<u8>),
    /// Refused with this status; for 405, what is allowed.
    Refused(StatusCode, &'static str),
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>, peer: &str) -> Answer {
    let started = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = match route(&method, uri.path(), uri.query().unwrap_or("")) {
        Route::Refused(status, allow) => refusal(status, allow),
        Route::Advertise(path) => advertise(request.headers(), path, shared).await,
        Route::UploadPack(path) => upload_pack(request, path, shared).await,
    };
    let (status, milliseconds) = (answer.status().as_u16(), started.elapsed().as_millis());
    tracing::info!("http {peer} \"{method} {uri}\" {status} first byte after {milliseconds} ms");
    answer
}

fn route(method: &Method, path: &str, query: &str) -> Route {
    let Some(path) = percent_decode(path) else { return Route::Refused(StatusCode::BAD_REQUEST, "") };
    let is_get = method == Method::GET || method == Method::HEAD;
    if let Some(repository) = path.strip_suffix(b"/info/refs") {
        let service = query.split('&').find_map(|pair| pair.strip_prefix("service="));
        return match service {
            _ if !is_get => Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"),
            Some("git-upload-pack") => Route::Advertise(rooted(repository)),
            // Other services, and files for the dumb protocol, are not offered.
            _ => Route::Refused(StatusCode::FORBIDDEN, ""),
        };
    }
    if let Some(repository) = path.strip_suffix(b"/git-upload-pack") {
        if method != Method::POST {
            return Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "POST");
        }
        return Route::UploadPack(rooted(repository));
    }
    let is_other_service =
        [&b"/git-receive-pack"[..], b"/git-upload-archive"].iter().any(|end| path.ends_with(end));
    Route::Refused(if is_other_service { StatusCode::FORBIDDEN } else { StatusCode::NOT_FOUND }, "")
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

fn refusal(status: StatusCode, allow: &'static str) -> Answer {
    let text = format!("{}\n", status.canonical_reason().unwrap_or("refused"));
    let mut answer = plain(status, text);
    if !allow.is_empty() {
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    answer
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut answer =
        Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
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

async fn advertise(headers: &HeaderMap, path: Vec<u8>, shared: Arc<Shared>) -> Answer {
    let version = version(headers);
    let prefix = match version {
        ProtocolVersion::V2 => Vec::new(),
        _ => b"001e# service=git-upload-pack\n0000".to_vec(),
    };
    run(Call { path, version, mode: Mode::Advertise, input: Vec::new(), prefix }, ADVERTISEMENT, shared).await
}

async fn upload_pack(request: Request<Incoming>, path: Vec<u8>, shared: Arc<Shared>) -> Answer {
    let headers = request.headers();
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != REQUEST) {
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "");
    }
    let version = version(headers);
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let is_gzip = match encoding {
        None | Some(b"identity") => false,
        Some(b"gzip" | b"x-gzip") => true,
        Some(_) => return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, ""),
    };
    let body = read_request(request.into_body(), is_gzip, shared.settings.max_request_bytes);
    let input = match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(input)) => input,
        Ok(Err(BadBody::TooLarge)) => return refusal(StatusCode::PAYLOAD_TOO_LARGE, ""),
        Ok(Err(BadBody::Broken)) => return refusal(StatusCode::BAD_REQUEST, ""),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, ""),
    };
    run(Call { path, version, mode: Mode::StatelessRpc, input, prefix: Vec::new() }, RESULT, shared).await
}

struct Call {
    path: Vec<u8>,
    version: ProtocolVersion,
    mode: Mode,
    input: Vec<u8>,
    prefix: Vec<u8>,
}

/// Runs the engine on a thread of its own. The status is decided by its first bytes, or by how it ends without any.
async fn run(call: Call, content_type: &'static str, shared: Arc<Shared>) -> Answer {
    let (door, mut receiver) = BodyDoor::new(call.prefix.clone());
    let running = shared.running.subscribe();
    let engine = tokio::task::spawn_blocking(move || {
        let _running = running;
        run_engine(&call, door, &shared)
    });
    match receiver.recv().await {
        Some(Message::Batch(first)) => streamed(first, receiver, content_type),
        Some(Message::Cut) => refusal(StatusCode::INTERNAL_SERVER_ERROR, ""),
        None => match engine.await {
            Ok(Ok(())) => streamed(GatherBatch::default(), receiver, content_type),
            Ok(Err(status)) => refusal(status, ""),
            Err(panic) => {
                tracing::error!("a request panicked: {panic}");
                refusal(StatusCode::INTERNAL_SERVER_ERROR, "")
            }
        },
    }
}

fn streamed(first: GatherBatch, receiver: mpsc::Receiver<Message>, content_type: &'static str) -> Answer {
    let mut answer = Response::new(StreamedBody::new(first, receiver).boxed_unsync());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    no_cache(answer.headers_mut());
    answer
}

fn run_engine(call: &Call, mut door: BodyDoor, shared: &Shared) -> Result<(), StatusCode> {
    let path = String::from_utf8_lossy(&call.path);
    let repository = shared.root.open(&call.path).map_err(|error| match error {
        NotServed::NotFound(why) => {
            tracing::info!("{path} is not served: {why}");
            StatusCode::NOT_FOUND
        }
        NotServed::Broken(error) => {
            tracing::error!("{path}: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    })?;
    let upload = shared.upload_pack(repository, call.version, call.mode);
    let result = catch_unwind(AssertUnwindSafe(|| {
        engine::upload_pack(&upload, &mut call.input.as_slice(), &mut door, &shared.clock)
    }));
    let was_told = match result {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => {
            tracing::warn!("{path}: {error}");
            error.was_told()
        }
        // What panicked was reported by the panic hook; other requests go on.
        Err(_) => false,
    };
    if !was_told {
        door.cut();
    }
    Err(StatusCode::INTERNAL_SERVER_ERROR)
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
        let advertise = |path: &str| Route::Advertise(path.into());
        let refused = |status: u16, allow| Route::Refused(StatusCode::from_u16(status).unwrap(), allow);
        check(Method::GET, "/a/b.git/info/refs?service=git-upload-pack", &advertise("/a/b.git"));
        check(Method::HEAD, "/info/refs?x=y&service=git-upload-pack", &advertise("/"));
        check(Method::GET, "/a%20b%C3%A4/info/refs?service=git-upload-pack", &advertise("/a bä"));
        check(Method::GET, "/a/info/refs?service=git-receive-pack", &refused(403, ""));
        check(Method::GET, "/a/info/refs", &refused(403, ""));
        check(Method::POST, "/a/info/refs?service=git-upload-pack", &refused(405, "GET, HEAD"));
        check(Method::POST, "/a/git-upload-pack", &Route::UploadPack(b"/a".to_vec()));
        check(Method::GET, "/a/git-upload-pack", &refused(405, "POST"));
        check(Method::POST, "/a/git-receive-pack", &refused(403, ""));
        check(Method::GET, "/a/HEAD", &refused(404, ""));
        check(Method::GET, "/", &refused(404, ""));
        check(Method::GET, "/%zz/info/refs?service=git-upload-pack", &refused(400, ""));
        check(Method::GET, "/%4", &refused(400, ""));
    }
}
