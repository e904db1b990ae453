//! How a connection ends.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use super::link::{Link, Look};

/// How long a connection may take to end once its socket is shut.
const END_TIME: Duration = Duration::from_secs(5);

/// How a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEnded {
    /// The client is known, and has left.
    Left,
    /// The client is known, and has begun no session for too long.
    Silent,
    /// The client has left without a word.
    NeverSpoke,
    /// None of what the client has shown is taken.
    Refused,
    /// The client has not shown in time who it is.
    NoLogin,
    /// The protocol was broken, or there was no algorithm in common; before it was known who the client is or after it.
    Broken(String),
    /// It was ended from outside.
    Cut,
}

impl fmt::Display for ConnectionEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionEnded::Left => f.write_str("the client has left"),
            ConnectionEnded::Silent => f.write_str("no session within the time limit"),
            ConnectionEnded::NeverSpoke => f.write_str("the client has left without a word"),
            ConnectionEnded::Refused => f.write_str("no key or certificate that is known"),
            ConnectionEnded::NoLogin => f.write_str("no login within the time limit"),
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
        let wait = match link.look(Instant::now()) {
            Look::Again(wait) => wait,
            Look::TooLong => {
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

/// Shuts the socket, and lets the connection notice.
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
        // As where a client does not believe the key of the host.
        Ok(()) => ConnectionEnded::Broken("the client has left before it has shown who it is".to_owned()),
        Err(russh::Error::IO(error)) if is_known && is_gone(&error) => ConnectionEnded::Left,
        Err(error) => ConnectionEnded::Broken(error.to_string()),
    }
}

/// Whether an error means that the other end has gone without saying so.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}
