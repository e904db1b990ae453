//! The client's socket: counts its bytes, and can be cut from outside.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use packrace_os::count::{self, Op, Role};
use packrace_os::faults;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The stream that russh uses.
pub(super) struct Wire(Arc<WireState>);

/// A connection's socket and byte counts.
pub(super) struct WireState {
    stream: TcpStream,
    /// Bytes that the socket accepted.
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Maximum of received bytes.
    max_received_bytes: AtomicU64,
    lent: Mutex<LentRanges>,
    all_encrypted: Notify,
}

/// Ranges that russh was given to encrypt and send.
#[derive(Default)]
struct LentRanges {
    /// In order.
    ranges: VecDeque<Bytes>,
    /// How many of them, from the first, are encrypted: russh has dropped them.
    encrypted: usize,
}

/// A range as russh has it. `Bytes::is_unique` does not tell when it is dropped: that is never true of ranges that
/// have an owner.
struct LentRange {
    range: Bytes,
    wire: Arc<WireState>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, max_received_bytes: u64) -> Self {
        Wire(Arc::new(WireState {
            stream,
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            max_received_bytes: AtomicU64::new(max_received_bytes),
            lent: Mutex::default(),
            all_encrypted: Notify::new(),
        }))
    }

    pub(super) fn state(&self) -> &Arc<WireState> {
        &self.0
    }
}

impl WireState {
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Relaxed)
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Relaxed)
    }

    /// Removes the limit of received bytes.
    pub(super) fn lift_limit(&self) {
        self.max_received_bytes.store(u64::MAX, Relaxed);
    }

    /// The same range for russh; remembered until it was encrypted and sent.
    pub(super) fn lend(self: &Arc<Self>, range: Bytes) -> Bytes {
        self.lock().ranges.push_back(range.clone());
        Bytes::from_owner(LentRange { range, wire: self.clone() })
    }

    /// Ready when all ranges are encrypted. For one caller at a time.
    pub(super) async fn encrypted(&self) {
        while !self.lock().are_encrypted() {
            self.all_encrypted.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, LentRanges> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything encrypted was sent.
    fn has_flushed(&self) {
        let lent = &mut *self.lock();
        lent.ranges.drain(..std::mem::take(&mut lent.encrypted));
    }

    /// Shuts down the socket, even while reads or writes wait.
    pub(super) fn cut(&self) {
        // A socket that cannot be shut down is already gone. If no descriptor is free for the copy, the
        // socket stays open.
        if let Ok(socket) = self.stream.as_fd().try_clone_to_owned() {
            let _ = std::net::TcpStream::from(socket).shutdown(Shutdown::Both);
        }
    }

    /// Fails if a range came from a damaged map: here the process reads the map to encrypt it, so the kernel
    /// cannot report the error as on other connections.
    fn check(&self) -> io::Result<()> {
        if faults::damaged_maps() == 0 {
            return Ok(());
        }
        match self.lock().ranges.iter().find_map(|range| faults::touch(range)) {
            None => Ok(()),
            Some(damaged) => {
                tracing::error!("response cut off: {damaged}");
                Err(damaged.into())
            }
        }
    }
}

impl LentRanges {
    fn are_encrypted(&self) -> bool {
        self.encrypted == self.ranges.len()
    }
}

impl AsRef<[u8]> for LentRange {
    fn as_ref(&self) -> &[u8] {
        &self.range
    }
}

impl Drop for LentRange {
    fn drop(&mut self) {
        let mut lent = self.wire.lock();
        lent.encrypted += 1;
        if lent.are_encrypted() {
            self.wire.all_encrypted.notify_one();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let state = &self.0;
        loop {
            ready!(state.stream.poll_read_ready(context))?;
            let read = match state.stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            };
            buffer.advance(read);
            count::add(Role::Client, Op::Read, read);
            let received = state.received_bytes.fetch_add(read as u64, Relaxed) + read as u64;
            if received > state.max_received_bytes.load(Relaxed) {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "client sent too much before it logged in",
                )));
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let state = &self.0;
        state.check()?;
        loop {
            ready!(state.stream.poll_write_ready(context))?;
            match state.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    let length = *written.as_ref().unwrap_or(&0);
                    count::add(Role::Client, Op::Write, length);
                    state.sent_bytes.fetch_add(length as u64, Relaxed);
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.has_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Ok(socket) = self.0.stream.as_fd().try_clone_to_owned() {
            let _ = std::net::TcpStream::from(socket).shutdown(Shutdown::Write);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn wire() -> Wire {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Wire::new(TcpStream::connect(address).await.unwrap(), 0)
    }

    #[tokio::test]
    async fn ranges_are_kept_until_they_are_encrypted_and_sent() {
        let wire = wire().await;
        let state = wire.state();
        let kept = || state.lock().ranges.len();
        let [first, mut second, third] =
            [&b"one"[..], b"two", b"three"].map(|bytes| state.lend(Bytes::from_owner(bytes.to_vec())));
        assert_eq!((&*first, &*second, &*third), (&b"one"[..], &b"two"[..], &b"three"[..]));
        state.has_flushed();
        assert_eq!(kept(), 3);
        let part = second.split_to(1);
        drop((first, second));
        assert_eq!(kept(), 3);
        state.has_flushed();
        assert_eq!(kept(), 2);
        assert!(!state.lock().are_encrypted());
        drop((part, third));
        state.encrypted().await;
        assert_eq!(kept(), 2);
        state.has_flushed();
        assert_eq!(kept(), 0);
    }
}
