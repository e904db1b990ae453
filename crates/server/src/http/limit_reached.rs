//! HTTP answers for a limit that is reached.

use http::StatusCode;

use crate::limits::connections::LimitReached;

/// Seconds after which a refused client may retry.
pub(crate) const RETRY_AFTER: &str = "10";

/// The answer to a client beyond the connection limit.
pub(crate) fn response(why: LimitReached) -> Vec<u8> {
    let status = status_of(why);
    format!(
        "HTTP/1.1 {} {}\r\nRetry-After: {RETRY_AFTER}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default()
    )
    .into_bytes()
}

/// The status for a limit that is reached.
pub(crate) fn status_of(why: LimitReached) -> StatusCode {
    match why {
        LimitReached::Full => StatusCode::SERVICE_UNAVAILABLE,
        LimitReached::ClientHasEnough => StatusCode::TOO_MANY_REQUESTS,
    }
}
