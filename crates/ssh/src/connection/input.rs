//! Input of a session: a queue between the connection, which must not wait for long, and a thread that may.
//!
//! A full queue blocks the connection, and so the client. But the same connection sends the session's output:
//! if it waited while the session waits to send, both would deadlock. So while the session sends, more input
//! is accepted.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use packrace_os::throughput::{MinThroughput, ThroughputWatch};
use tokio::sync::Notify;

/// Maximum bytes queued for the session, counting [`PIECE_BYTES`] per piece.
const MAX_WAITING_BYTES: usize = 256 << 10;

/// Maximum bytes queued while the session waits to send.
const MAX_WAITING_UNHEARD_BYTES: usize = 4 << 20;

/// Overhead per piece: its queue entry and its allocation. Clients may send one-byte pieces.
const PIECE_BYTES: usize = 64;

/// A queue of bytes from a client to its session.
#[derive(Debug, Default)]
pub(super) struct InputQueue {
    state: Mutex<InputState>,
    /// Signals new input.
    has_come: Condvar,
    /// Signals room in the queue, or that the session waits to send.
    goes_on: Notify,
}

#[derive(Debug, Default)]
struct InputState {
    waiting: VecDeque<Bytes>,
    /// The bytes of `waiting`, with the overhead per piece.
    waiting_bytes: usize,
    /// No more input follows.
    has_ended: bool,
    /// The reader is gone: input is dropped.
    is_unread: bool,
    /// Threads of the session that wait to send.
    unheard: usize,
}

impl InputState {
    fn has_room(&self) -> bool {
        let max = if self.unheard > 0 { MAX_WAITING_UNHEARD_BYTES } else { MAX_WAITING_BYTES };
        self.is_unread || self.has_ended || self.waiting_bytes < max
    }
}

impl InputQueue {
    fn lock(&self) -> MutexGuard<'_, InputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues input when there is room.
    pub(super) async fn push(&self, bytes: &[u8]) {
        // An empty read would mean the end.
        if bytes.is_empty() {
            return;
        }
        loop {
            // Registered before the check, so that no notification is missed.
            let goes_on = self.goes_on.notified();
            {
                let mut state = self.lock();
                if state.is_unread || state.has_ended {
                    return;
                }
                if state.has_room() {
                    state.waiting_bytes += PIECE_BYTES + bytes.len();
                    state.waiting.push_back(Bytes::copy_from_slice(bytes));
                    self.has_come.notify_one();
                    return;
                }
            }
            goes_on.await;
        }
    }

    /// Ends the input: the client closed it, or is gone.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.has_come.notify_all();
        self.goes_on.notify_waiters();
        self.goes_on.notify_one();
    }

    fn is_unread(&self) {
        let mut state = self.lock();
        state.is_unread = true;
        state.waiting.clear();
        drop(state);
        self.goes_on.notify_one();
    }

    /// A thread of the session starts waiting to send.
    pub(super) fn begins_to_say(&self) {
        self.lock().unheard += 1;
        self.goes_on.notify_one();
    }

    /// The thread has sent.
    pub(super) fn was_heard(&self) {
        self.lock().unheard -= 1;
    }
}

/// The reading side: reads block, but no longer than a client may be silent.
#[derive(Debug)]
pub struct SessionInput {
    queue: Arc<InputQueue>,
    pace: ThroughputWatch,
    rest: Bytes,
}

impl SessionInput {
    pub(super) fn new(queue: Arc<InputQueue>, min: MinThroughput) -> Self {
        SessionInput { queue, pace: ThroughputWatch::new(min), rest: Bytes::new() }
    }

    /// Ends the input from another thread: reads return queued bytes, then the end.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + use<> {
        let queue = self.queue.clone();
        move || queue.end()
    }

    /// The next piece; empty at the end.
    fn next(&mut self) -> io::Result<Bytes> {
        let since = Instant::now();
        let state = self.queue.lock();
        let longest = self.pace.longest_wait();
        let is_silent = |state: &mut InputState| state.waiting.is_empty() && !state.has_ended;
        let waited = self.queue.has_come.wait_timeout_while(state, longest, is_silent);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let next = state.waiting.pop_front();
        let has_ended = state.has_ended;
        let length = next.as_ref().map_or(0, Bytes::len);
        if next.is_some() {
            state.waiting_bytes -= PIECE_BYTES + length;
        }
        drop(state);
        self.queue.goes_on.notify_one();
        if !has_ended {
            self.pace.waited(since, length)?;
        }
        match next {
            None if !has_ended => Err(io::ErrorKind::TimedOut.into()),
            next => Ok(next.unwrap_or_default()),
        }
    }
}

impl Read for SessionInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !buffer.is_empty() {
            self.rest = self.next()?;
        }
        let length = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

impl Drop for SessionInput {
    fn drop(&mut self) {
        self.queue.is_unread();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    const MIN: MinThroughput = MinThroughput { time: Duration::from_secs(60), bytes: 1 };

    /// Whether the queue accepts the bytes immediately.
    fn is_taken(queue: &InputQueue, bytes: &[u8]) -> bool {
        let mut push = std::pin::pin!(queue.push(bytes));
        push.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn fill(queue: &InputQueue) -> usize {
        (0..10_000).take_while(|_| is_taken(queue, &[7; 16 << 10])).count() * (16 << 10)
    }

    #[test]
    fn what_is_sent_is_read() {
        let queue = Arc::new(InputQueue::default());
        let mut input = SessionInput::new(queue.clone(), MIN);
        assert!(is_taken(&queue, b"hello ") && is_taken(&queue, b"world"));
        let mut buffer = [0; 4];
        assert_eq!((input.read(&mut buffer).unwrap(), &buffer), (4, b"hell"));
        queue.end();
        let mut rest = Vec::new();
        input.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"o world");
        assert!(is_taken(&queue, b"more"), "it is dropped");
        assert_eq!(input.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_full_queue_makes_the_client_wait_unless_the_session_waits_for_it() {
        let queue = Arc::new(InputQueue::default());
        let mut input = SessionInput::new(queue.clone(), MIN);
        assert_eq!(fill(&queue), MAX_WAITING_BYTES);
        let mut buffer = [0; 1];
        input.read_exact(&mut buffer).unwrap();
        assert!(is_taken(&queue, b"x") && is_taken(&queue, &[7; 16 << 10]) && !is_taken(&queue, b"x"));
        queue.begins_to_say();
        let more = fill(&queue);
        let least = MAX_WAITING_UNHEARD_BYTES - 2 * MAX_WAITING_BYTES;
        assert!((least..MAX_WAITING_UNHEARD_BYTES).contains(&more));
        queue.was_heard();
        assert!(!is_taken(&queue, b"x"));
        drop(input);
        assert!(is_taken(&queue, b"x"), "nobody reads any more");
        assert!(queue.lock().waiting.is_empty());
    }

    #[test]
    fn pieces_of_a_byte_count_for_what_they_take() {
        let queue = InputQueue::default();
        let pieces = (0..MAX_WAITING_BYTES).take_while(|_| is_taken(&queue, b"x")).count();
        assert_eq!(pieces, MAX_WAITING_BYTES.div_ceil(PIECE_BYTES + 1));
        assert!(is_taken(&queue, b"") && queue.lock().waiting.len() == pieces, "nothing is no piece");
    }

    #[test]
    fn a_silent_client_is_given_up_and_a_reader_is_woken() {
        let queue = Arc::new(InputQueue::default());
        let time = Duration::from_millis(20);
        let mut input = SessionInput::new(queue.clone(), MinThroughput { time, bytes: 1 });
        assert_eq!(input.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut input = SessionInput::new(Arc::new(InputQueue::default()), MIN);
        let stop = input.stopper();
        let reader = std::thread::spawn(move || input.read(&mut [0]).unwrap());
        stop();
        assert_eq!(reader.join().unwrap(), 0);
    }
}
