//! Watches a connection until it ends.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use super::link::{IdleCheck, Link};

/// How long a connection may take to end after its socket is shut down.
const END_TIME: Duration = Duration::from_secs(5);

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEnded {
    /// The client logged in and left.
    Left,
    /// The client logged in, but began no session in time.
    Silent,
    /// The client left without sending anything.
    NeverSpoke,
    /// All offered keys and certificates were refused.
    Refused,
    /// The client did not log in in time.
    NoLogin,
    /// A protocol error, or no common algorithm; before or after login.
    Broken(String),
    /// The server cut the connection.
    Cut,
}

impl fmt::Display for ConnectionEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionEnded::Left => f.write_str("client disconnected"),
            ConnectionEnded::Silent => f.write_str("no session within the time limit"),
            ConnectionEnded::NeverSpoke => f.write_str("client disconnected without sending anything"),
            ConnectionEnded::Refused => f.write_str("no known key or certificate"),
            ConnectionEnded::NoLogin => f.write_str("no login within limits.request-time"),
            ConnectionEnded::Broken(why) => f.write_str(why),
            ConnectionEnded::Cut => f.write_str("ended"),
        }
    }
}

/// Waits until the connection ends, or ends it.
pub(super) async fn watch(
    session: impl Future<Output = Result<(), russh::Error>>,
    link: &Link,
    cut: impl Future<Output = ()>,
) -> ConnectionEnded {
    let mut session = pin!(session);
    let mut cut = pin!(cut);
    loop {
        let wait = match link.check_idle(Instant::now()) {
            IdleCheck::Again(wait) => wait,
            IdleCheck::TooLong => {
                shut(session, link).await;
                return match link.user() {
                    Some(_) => ConnectionEnded::Silent,
                    None => ConnectionEnded::NoLogin,
                };
            }
        };
        tokio::select! {
            ended = session.as_mut() => return how(ended, link),
            () = cut.as_mut() => {
                shut(session, link).await;
                return ConnectionEnded::Cut;
            }
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Shuts down the socket, and waits for the connection to notice.
async fn shut(session: impl Future<Output = Result<(), russh::Error>>, link: &Link) {
    link.has_gone();
    link.wire.cut();
    let _ = tokio::time::timeout(END_TIME, session).await;
}

fn how(ended: Result<(), russh::Error>, link: &Link) -> ConnectionEnded {
    let is_known = link.user().is_some();
    match ended {
        _ if !is_known && link.refused() > 0 => ConnectionEnded::Refused,
        _ if !is_known && link.wire.received_bytes() == 0 => ConnectionEnded::NeverSpoke,
        Ok(()) if is_known => ConnectionEnded::Left,
        // For example, the client does not trust the host key.
        Ok(()) => ConnectionEnded::Broken("client disconnected before it logged in".to_owned()),
        Err(russh::Error::IO(error)) if is_known && is_gone(&error) => ConnectionEnded::Left,
        Err(error) => ConnectionEnded::Broken(error.to_string()),
    }
}

/// Whether an error means that the peer is gone without a disconnect message.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}
