//! The access log: one line per request, for people, for grep and, as JSON, for machines.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::error::ErrorKind;
use crate::host::Host;
use crate::metrics::{Closed as _, DoorName, Reason};
use crate::transfers::{RunningCall, Transfer, kept};

/// A request until its log line. It counts as a running call until it is dropped.
#[derive(Debug)]
pub(crate) struct Access {
    listed: RunningCall,
    /// Sent by the client; the formatter of the line escapes it.
    request: String,
    has_ended: bool,
}

impl Access {
    pub(crate) fn new(host: &Arc<Host>, door: DoorName, peer: &str, request: &[u8]) -> Self {
        Access {
            listed: RunningCall::new(&host.transfers, &host.metrics, door, peer),
            request: kept(request),
            has_ended: false,
        }
    }

    pub(crate) fn transfer(&self) -> &Arc<Transfer> {
        self.listed.transfer()
    }

    /// Writes the line: the outcome, and the cause of a failure. The transfer may know the cause itself.
    pub(crate) fn end(&mut self, outcome: &str, is_good: bool, error: Option<&str>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let transfer = self.transfer();
        let failure = transfer.settle_failure();
        let error = error.or(failure.map(|(_, why)| why.as_str()));
        let error_kind = failure.map(|(kind, _)| *kind);
        let kind = transfer.kind().map(|kind| kind.name()).or(error.map(|_| "unknown"));
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    session = %transfer.session_id(),
                    client_session = transfer.client_session_id(),
                    door = %transfer.door().name(),
                    peer = %transfer.peer(),
                    user = transfer.user(),
                    kind = kind.map(tracing::field::display),
                    request = self.request,
                    outcome = %outcome,
                    error,
                    error_kind = error_kind.map(|kind| tracing::field::display(kind.name())),
                    sent = transfer.sent_bytes(),
                    received = transfer.received_bytes(),
                    ms = milliseconds(transfer.age()),
                )
            };
        }
        if error_kind.is_some_and(ErrorKind::is_for_operator) {
            line!(warn);
        } else {
            line!(info);
        }
        transfer.end(is_good);
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // Requests that ended normally have written their line.
        self.end("gone", false, None);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why a request with this status was refused, if the client can fix it.
pub(crate) fn reason(status: StatusCode) -> Option<Reason> {
    Some(match status {
        StatusCode::NOT_FOUND => Reason::NotFound,
        StatusCode::UNAUTHORIZED => Reason::Unauthenticated,
        StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => Reason::Forbidden,
        StatusCode::PAYLOAD_TOO_LARGE => Reason::TooLarge,
        StatusCode::REQUEST_TIMEOUT => Reason::Slow,
        StatusCode::TOO_MANY_REQUESTS => return None,
        status if status.is_client_error() => Reason::Broken,
        _ => return None,
    })
}

/// Quotes bytes from a client, without control characters and not too long.
pub(crate) fn quoted(text: &[u8]) -> String {
    format!("{:?}", kept(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_forge_lines() {
        let check = |text: &[u8], expect: &str| assert_eq!(quoted(text), expect);
        check(b"git-upload-pack /a", "\"git-upload-pack /a\"");
        check(b"a\nINFO b\x1b[2J\"", "\"a\\nINFO b\\u{1b}[2J\\\"\"");
        check(&[b'x'; 400], &format!("\"{}…\"", "x".repeat(300)));
    }

    #[test]
    fn refusals_have_reasons() {
        let check = |status: u16, expect| assert_eq!(reason(StatusCode::from_u16(status).unwrap()), expect);
        check(404, Some(Reason::NotFound));
        check(401, Some(Reason::Unauthenticated));
        check(403, Some(Reason::Forbidden));
        check(405, Some(Reason::Forbidden));
        check(413, Some(Reason::TooLarge));
        check(408, Some(Reason::Slow));
        check(400, Some(Reason::Broken));
        check(415, Some(Reason::Broken));
        check(500, None);
        check(503, None);
        check(200, None);
    }
}
