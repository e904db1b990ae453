//! HTTP answers that do not come from a service: a status, and words that git shows as lines of `remote:`.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::body::{AnswerBody, BadBody};
use super::limit_reached::RETRY_AFTER;
use super::routes::NO_CACHE;
use super::watch::InFlight;
use super::{HttpAnswer, RequestContext};
use crate::error::ErrorKind;
use crate::limits::budget::CUT;
use crate::metrics::Reason;
use crate::send::outbox::GatherBatch;
use crate::service::access_log::{Access, reason};
use crate::service::root::NotServed;
use crate::service::shared::Shared;
use crate::transfers::{Transfer, kept};

/// The value of `WWW-Authenticate`.
const CHALLENGE: &str = "Basic realm=\"packrace\", charset=\"UTF-8\"";

/// Why a request is refused, as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpRefusal {
    pub(super) status: StatusCode,
    /// Replaces the name of the status; only for clients that may know that the repository exists.
    words: Option<String>,
}

impl From<StatusCode> for HttpRefusal {
    fn from(status: StatusCode) -> Self {
        HttpRefusal { status, words: None }
    }
}

impl HttpRefusal {
    /// 403 for this reason.
    pub(super) fn forbidden(words: &str) -> Self {
        HttpRefusal { status: StatusCode::FORBIDDEN, words: Some(shown(words)) }
    }

    /// The answer for a repository that is not served. The log has the reason.
    pub(super) fn not_served(transfer: &Transfer, why: &NotServed) -> Self {
        let fails = |kind, why: &str| transfer.fails(kind, why);
        match why {
            NotServed::NotFound(why) => {
                fails(ErrorKind::PeerFault, &format!("not served: {why}"));
                StatusCode::NOT_FOUND.into()
            }
            NotServed::Disabled(_) | NotServed::Forbidden(_) => {
                let words = why.to_string();
                fails(ErrorKind::PeerFault, &words);
                HttpRefusal::forbidden(&words)
            }
            NotServed::Unauthenticated => StatusCode::UNAUTHORIZED.into(),
            NotServed::Broken(error) => {
                fails(ErrorKind::Corrupt, &error.to_string());
                StatusCode::INTERNAL_SERVER_ERROR.into()
            }
            NotServed::BrokenInBucket(why) => {
                fails(ErrorKind::Corrupt, why);
                StatusCode::INTERNAL_SERVER_ERROR.into()
            }
            NotServed::Unavailable(why) => {
                fails(ErrorKind::Unavailable, why);
                StatusCode::SERVICE_UNAVAILABLE.into()
            }
        }
    }

    /// The answer. Counts the refusal, and logs it once it was sent.
    pub(super) fn answer(self, access: Access, in_flight: Arc<InFlight>) -> HttpAnswer {
        let status = self.status;
        if let Some(reason) = reason(status) {
            access.transfer().metrics().refused(reason);
        }
        let words = self.words.as_deref().or(status.canonical_reason()).unwrap_or("refused");
        // Clients ask without credentials first.
        if status != StatusCode::UNAUTHORIZED {
            access.transfer().fails_somehow(kind_of(status), words);
        }
        let first = GatherBatch::of(format!("{words}\n").into_bytes());
        let body = AnswerBody::new(first, None, status.as_u16(), Some(access), in_flight);
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        say_how_to_go_on(status, headers);
        no_cache(headers);
        answer
    }
}

/// Tells a client how to retry: with credentials, or later.
pub(super) fn say_how_to_go_on(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
}

/// Forbids caching of an answer.
pub(super) fn no_cache(headers: &mut HeaderMap) {
    for (name, value) in NO_CACHE {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Makes one line that is safe on a terminal: names in it come from proxies, certificates and refs.
fn shown(words: &str) -> String {
    // A terminal obeys control characters; the others reverse text, or are invisible.
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    kept(words.as_bytes()).replace(is_unsafe, "?")
}

/// What the log says of a request with this status, if nothing else.
fn kind_of(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => ErrorKind::Busy,
        status if status.is_server_error() => ErrorKind::Unavailable,
        _ => ErrorKind::PeerFault,
    }
}

/// Counts and logs a refused body; returns its status.
pub(super) fn body_refused(bad: BadBody, context: &RequestContext, shared: &Shared) -> StatusCode {
    let (status, why) = match bad {
        BadBody::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "larger than limits.max-request-bytes"),
        BadBody::Broken => (StatusCode::BAD_REQUEST, "breaks off, or is no gzip"),
        BadBody::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "limits.body-memory-bytes is used up"),
        BadBody::ClientHasEnough => {
            (StatusCode::TOO_MANY_REQUESTS, "limits.body-memory-bytes-per-address is used up")
        }
        BadBody::Cut => (StatusCode::SERVICE_UNAVAILABLE, CUT),
    };
    match bad {
        // Their status counts them.
        BadBody::TooLarge | BadBody::Broken => {}
        BadBody::NoRoom | BadBody::ClientHasEnough => shared.host.metrics.refused(Reason::BodyMemory),
        BadBody::Cut => shared.host.metrics.refused(Reason::Idle),
    }
    context.transfer.fails(kind_of(status), &format!("request body: {why}"));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_move_the_cursor_or_fill_the_screen() {
        let check = |words: &str, expect: &str| assert_eq!(shown(words), expect);
        check("bob may not push here", "bob may not push here");
        check("zoë\r\n\u{1b}[2Jx\u{9b}\u{202e}y", "zoë???[2Jx??y");
        check(&"é".repeat(400), &format!("{}…", "é".repeat(300)));
    }
}
