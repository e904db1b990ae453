//! `/-/api/v1/repositories`: JSON requests list, create, describe, rename and delete repositories.
//!
//! | request | answer |
//! |---|---|
//! | `GET /-/api/v1/repositories`, `?after=NAME` | 200 with those that the principal may read, 1000 at most |
//! | `POST /-/api/v1/repositories` | 201 with the new one |
//! | `GET /-/api/v1/repositories/NAME` | 200 with one |
//! | `PATCH /-/api/v1/repositories/NAME` | 200; another name, another description, or both |
//! | `DELETE /-/api/v1/repositories/NAME` | 200; it is in the trash now |
//!
//! NAME is one part of the path: its slashes are written `%2F`. So the API takes no path of a repository
//! below a folder `-`: all that git requests of one has a longer path, and names of its routes are left to
//! it. The API exists only if access rules are configured and `listen.admin` is not `none`.
//!
//! Errors are `{"error": words}`: 400, 401, 403, 404, 405 with `Allow`, 408, 409, 413, 415, 429, 500 and 503.
//! Hidden and absent repositories get the same error. Refusals of `origin` are those of all requests.

mod work;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::api_path::{ApiTarget, COLLECTION};
use super::body::{AnswerBody, RequestBody, discard};
use super::event_stream;
use super::refusal::{body_refused, no_cache, say_how_to_go_on};
use super::routes::percent_decode;
use super::watch::InFlight;
use super::{ClientBody, HttpAnswer, RequestContext, take_permit};
use crate::send::outbox::GatherBatch;
use crate::service::access_log::{Access, reason};
use crate::service::shared::Shared;
use work::{ApiCall, ApiError, ApiRequest};

/// The characters that are escaped in a part of a path: all but the unreserved ones (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest body of a request.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Answers a request of the API.
pub(super) async fn answer(
    request: Request<impl ClientBody>,
    target: ApiTarget,
    context: RequestContext,
    access: Access,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
) -> HttpAnswer {
    if target == ApiTarget::Events {
        return event_stream::answer(request, context, access, in_flight, shared).await;
    }
    let result = match asked(request, target, &context, &shared).await {
        Ok(asked) => work(asked, context, shared).await,
        Err(error) => Err(error),
    };
    let reply = result.unwrap_or_else(ApiError::into_reply);
    if let Some(reason) = reason(reply.status) {
        access.transfer().metrics().refused(reason);
    }
    let first = GatherBatch::of(format!("{}\n", reply.json).into_bytes());
    let body = AnswerBody::new(first, None, reply.status.as_u16(), Some(access), in_flight);
    let mut answer = Response::new(body);
    *answer.status_mut() = reply.status;
    let headers = answer.headers_mut();
    no_cache(headers);
    reply.put_headers(headers);
    answer
}

/// Executes a request on a thread that may block on the disk.
async fn work(asked: ApiRequest, context: RequestContext, shared: Arc<Shared>) -> Result<ApiReply, ApiError> {
    let permit = take_permit(&context, &shared).await.map_err(ApiError::of)?;
    let stopping = shared.stopping.subscribe();
    let RequestContext { offer, transfer, .. } = context;
    let working = tokio::task::spawn_blocking(move || {
        // A server that stops waits for running requests.
        let _held = (permit, stopping);
        let _span = transfer.enter_span();
        ApiCall::identify(&offer, &transfer, &shared)?.answer(asked)
    });
    working.await.unwrap_or_else(|panic| {
        tracing::error!("request panicked: {panic}");
        Err(ApiError::of(StatusCode::INTERNAL_SERVER_ERROR))
    })
}

/// Parses a request, with its body.
async fn asked(
    request: Request<impl ClientBody>,
    target: ApiTarget,
    context: &RequestContext,
    shared: &Shared,
) -> Result<ApiRequest, ApiError> {
    let method = request.method().clone();
    let query = request.uri().query().unwrap_or("").to_owned();
    let name = match target {
        // Handled earlier.
        ApiTarget::Events => return Err(ApiError::of(StatusCode::NOT_FOUND)),
        ApiTarget::Repository(None) => return Err(ApiError::of(StatusCode::BAD_REQUEST)),
        ApiTarget::Repository(Some(name)) => name,
        ApiTarget::Collection => {
            return match method {
                Method::GET | Method::HEAD => Ok(ApiRequest::List { after: after(&query)? }),
                Method::POST => Ok(ApiRequest::Create(take_body(request, context, shared).await?)),
                _ => Err(ApiError::not_allowed("GET, HEAD, POST")),
            };
        }
    };
    match method {
        Method::GET | Method::HEAD => Ok(ApiRequest::Look(name)),
        Method::PATCH => Ok(ApiRequest::Change(name, take_body(request, context, shared).await?)),
        Method::DELETE => Ok(ApiRequest::Delete(name)),
        _ => Err(ApiError::not_allowed("GET, HEAD, PATCH, DELETE")),
    }
}

/// The name after which a list begins.
fn after(query: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(after) = query.split('&').find_map(|pair| pair.strip_prefix("after=")) else { return Ok(None) };
    percent_decode(after).map(Some).ok_or_else(|| ApiError::of(StatusCode::BAD_REQUEST))
}

/// Reads the body of a request that changes something.
async fn take_body(
    request: Request<impl ClientBody>,
    context: &RequestContext,
    shared: &Shared,
) -> Result<RequestBody, ApiError> {
    let checked = check_is_json(request.headers());
    let time = shared.settings().limits.body_time;
    let mut body = request.into_body();
    let taken = match checked {
        Ok(()) if body.size_hint().lower() > MAX_BODY_BYTES as u64 => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(()) => {
            let in_flight = context.in_flight.upgrade();
            in_flight.iter().for_each(|in_flight| in_flight.watch().awaits_body());
            let taken = tokio::time::timeout(time, take_all(&mut body, context, shared)).await;
            in_flight.iter().for_each(|in_flight| in_flight.watch().has_body());
            taken.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
        }
        Err(status) => Err(status),
    };
    taken.map_err(|status| {
        drop(tokio::spawn(discard(body, time)));
        ApiError::of(status)
    })
}

async fn take_all(
    body: &mut impl ClientBody,
    context: &RequestContext,
    shared: &Shared,
) -> Result<RequestBody, StatusCode> {
    let refused = |bad| body_refused(bad, context, shared);
    let claim = shared.limits.bodies.claim(0, context.peer.ip());
    let claim = claim.map_err(|_| refused(super::body::BadBody::NoRoom))?;
    let mut taken = RequestBody::new(claim, false, MAX_BODY_BYTES);
    taken.take_rest(body).await.map_err(refused)?;
    Ok(taken)
}

/// A page of another site can send other types without a preflight request.
fn check_is_json(headers: &HeaderMap) -> Result<(), StatusCode> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or("").trim();
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let is_plain = encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case(b"identity"));
    match essence.eq_ignore_ascii_case("application/json") && is_plain {
        true => Ok(()),
        false => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// An answer of the API.
#[derive(Debug)]
struct ApiReply {
    status: StatusCode,
    json: Value,
    /// The location of a new repository.
    location: Option<String>,
    allow: Option<&'static str>,
}

impl ApiReply {
    fn new(status: StatusCode, json: Value) -> Self {
        ApiReply { status, json, location: None, allow: None }
    }

    /// The path of a repository in the API.
    fn location_of(name: &str) -> String {
        format!("{COLLECTION}/{}", utf8_percent_encode(name, ESCAPED))
    }

    fn put_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let location = self.location.as_deref().and_then(|location| HeaderValue::from_str(location).ok());
        location.map(|location| headers.insert(header::LOCATION, location));
        self.allow.map(|allow| headers.insert(header::ALLOW, HeaderValue::from_static(allow)));
        say_how_to_go_on(self.status, headers);
    }
}

impl ApiError {
    fn not_allowed(methods: &'static str) -> Self {
        ApiError { allow: Some(methods), ..ApiError::of(StatusCode::METHOD_NOT_ALLOWED) }
    }

    fn into_reply(self) -> ApiReply {
        let json = json!({ "error": self.text });
        ApiReply { allow: self.allow, ..ApiReply::new(self.status, json) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_lead_to_names() {
        let check = |name: &str, expect: &str| {
            let location = ApiReply::location_of(name);
            assert_eq!(location, format!("{COLLECTION}/{expect}"));
            let decoded = percent_decode(location.strip_prefix(COLLECTION).unwrap()).unwrap();
            assert_eq!(decoded, format!("/{name}").into_bytes());
        };
        check("a.git", "a.git");
        check("team/a b.git", "team%2Fa%20b.git");
        check("ä%2F.git", "%C3%A4%252F.git");
    }

    #[test]
    fn bodies_are_json() {
        let check = |content_type: &str, encoding: Option<&str>, expect: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
            encoding.map(|encoding| headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap()));
            assert_eq!(check_is_json(&headers).is_ok(), expect, "{content_type} {encoding:?}");
        };
        check("application/json", None, true);
        check("Application/JSON; charset=utf-8", Some("identity"), true);
        check("application/json", Some("gzip"), false);
        for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            check(other, None, false);
        }
        assert!(check_is_json(&HeaderMap::new()).is_err());
    }
}
