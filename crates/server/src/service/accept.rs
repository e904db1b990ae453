//! Accepts connections within limits.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::shared::Shared;
use crate::limits::connections::{LimitReached, Permit};

/// How long a refused client may take to send its request: a close with unread bytes would discard the
/// answer.
const REFUSING_TIME: Duration = Duration::from_secs(1);

/// Accepts connections until it is dropped, together with the listener.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    shared: Arc<Shared>,
    connection: impl Fn(TcpStream, SocketAddr, Permit) -> F,
    limit_reached: fn(LimitReached) -> Vec<u8>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly out of descriptors: wait for some to be released instead of spinning.
                tracing::error!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        match shared.limits.connection(peer.ip()) {
            Ok(permit) => drop(tokio::spawn(connection(stream, peer, permit))),
            Err(why) => {
                shared.has_refused(format_args!("{peer}"), why, "connection");
                if let Ok(refusing) = shared.refusing.clone().try_acquire_owned() {
                    // In a flood of these, admitted clients go first.
                    let background = shared.background.clone().unwrap_or_else(Handle::current);
                    background.spawn(async move { refuse(stream, &limit_reached(why), refusing).await });
                }
            }
        }
    }
}

/// Tells a client that a limit is reached.
async fn refuse(stream: TcpStream, words: &[u8], _refusing: OwnedSemaphorePermit) {
    let _ = tokio::time::timeout(REFUSING_TIME, stream.readable()).await;
    let _ = stream.try_read(&mut [0; 4096]);
    // The client may have disconnected.
    let _ = stream.try_write(words);
}
