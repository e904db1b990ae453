//! How HTTP says that a limit is reached.

use http::StatusCode;

use crate::limits::connections::NoPlace;

/// After how many seconds a client that gets no place may come back.
pub(crate) const RETRY_AFTER: &str = "10";

/// What a client beyond the last place is told.
pub(crate) fn response(why: NoPlace) -> Vec<u8> {
    let status = status_of(why);
    format!(
        "HTTP/1.1 {} {}\r\nRetry-After: {RETRY_AFTER}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default()
    )
    .into_bytes()
}

/// Which status says that there is no place.
pub(crate) fn status_of(why: NoPlace) -> StatusCode {
    match why {
        NoPlace::Full => StatusCode::SERVICE_UNAVAILABLE,
        NoPlace::ClientHasEnough => StatusCode::TOO_MANY_REQUESTS,
    }
}
