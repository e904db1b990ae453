//! Output of a session.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use russh::ChannelId;
use russh::server::Handle as RusshHandle;
use tokio::runtime::Handle;

use super::input::InputQueue;
use super::link::Link;

/// The kind of data that is standard error (RFC 4254, section 5.2).
const STDERR: u32 = 1;

/// How long a session may keep a turn. Encrypting a batch takes a part of a millisecond; where it takes longer, mostly
/// the client is slow, and others need not wait for it.
const MAX_TURN: Duration = Duration::from_millis(2);

/// The exit code of a session that ends without one.
const NO_CODE: u32 = 128;

/// Standard output and standard error of a session, and its exit code. Blocks until the connection takes the
/// data: for threads that may block. Clones share it.
#[derive(Clone)]
pub struct SessionOutput(Arc<Channel>);

struct Channel {
    link: Arc<Link>,
    input: Arc<InputQueue>,
    handle: RusshHandle,
    runtime: Handle,
    id: ChannelId,
    has_ended: AtomicBool,
}

impl SessionOutput {
    pub(super) fn new(link: Arc<Link>, input: Arc<InputQueue>, handle: RusshHandle, id: ChannelId) -> Self {
        let runtime = Handle::current();
        SessionOutput(Arc::new(Channel {
            link,
            input,
            handle,
            runtime,
            id,
            has_ended: AtomicBool::new(false),
        }))
    }

    /// Sends these bytes, in order, without copying. With a `turn` it returns when they are encrypted, and then
    /// drops it: the connections' tasks share threads, and those with a turn are ahead of all others. A client
    /// that takes nothing does not keep it: it is dropped after two milliseconds at the latest.
    pub fn send<T>(&self, pieces: impl Iterator<Item = Bytes>, mut turn: Option<T>) -> io::Result<()> {
        let channel = &*self.0;
        channel.patiently(async {
            let mut end = pin!(tokio::time::sleep(MAX_TURN));
            for piece in pieces {
                let piece = channel.link.wire.lend(piece);
                let mut sending = pin!(channel.handle.data(channel.id, piece));
                let sent = tokio::select! {
                    biased;
                    sent = &mut sending => sent,
                    () = &mut end, if turn.is_some() => {
                        turn = None;
                        sending.await
                    }
                };
                sent.map_err(|_| gone())?;
            }
            if turn.is_some() {
                tokio::select! {
                    () = channel.link.wire.encrypted() => {}
                    () = end => {}
                }
            }
            Ok(())
        })
    }

    /// Writes text to standard error.
    pub fn say(&self, text: &[u8]) -> io::Result<()> {
        let channel = &*self.0;
        let text = Bytes::copy_from_slice(text);
        channel.patiently(async {
            channel.handle.extended_data(channel.id, STDERR, text).await.map_err(|_| gone())
        })
    }

    /// Whether the client is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.0.link.is_gone(self.0.id)
    }

    /// Ends the session with an exit code, after all output.
    pub fn end(&self, code: u32) {
        let channel = &*self.0;
        if channel.has_ended.swap(true, Relaxed) {
            return;
        }
        // If the client is gone, it does not matter.
        let _ = channel.patiently(async { channel.say_end(code).await.map_err(|()| gone()) });
    }
}

impl fmt::Debug for SessionOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOutput").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl Channel {
    /// Waits while the client receives enough data; a client that is too slow is cut off.
    fn patiently(&self, sending: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let Channel { link, input, runtime, .. } = self;
        if link.is_gone(self.id) {
            return Err(gone());
        }
        let min = link.limits.stall;
        input.begins_to_say();
        let sent = runtime.block_on(async {
            let mut sending = pin!(sending);
            let mut mark = link.wire.sent_bytes();
            loop {
                if let Ok(sent) = tokio::time::timeout(min.time, sending.as_mut()).await {
                    return sent;
                }
                let taken = link.wire.sent_bytes();
                if taken - mark < min.bytes as u64 {
                    link.wire.cut();
                    return Err(io::ErrorKind::TimedOut.into());
                }
                mark = taken;
            }
        });
        input.was_heard();
        sent
    }

    /// Frees the channel for the next session before the client can ask for one.
    async fn say_end(&self, code: u32) -> Result<(), ()> {
        self.handle.exit_status_request(self.id, code).await?;
        self.handle.eof(self.id).await?;
        self.link.has_ended_session(self.id);
        self.handle.close(self.id).await
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if *self.has_ended.get_mut() {
            // If the client was gone, the end was not reported.
            if !self.link.is_free_of(self.id) {
                self.link.has_ended_session(self.id);
            }
            return;
        }
        let (handle, id, link) = (self.handle.clone(), self.id, self.link.clone());
        link.has_ended_session(id);
        self.runtime.spawn(async move {
            let _ = handle.exit_status_request(id, NO_CODE).await;
            let _ = handle.eof(id).await;
            let _ = handle.close(id).await;
        });
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
