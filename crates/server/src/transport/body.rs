//! Bodies of HTTP: requests read whole within limits, answers streamed batch by batch.

use std::io::{self, IoSlice, Read};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use packrace_os::turns::Turns;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use super::access::Access;
use super::conversation::Exchange;
use crate::outbox::{Door, GatherBatch};

/// Batches between the engine's thread and the connection: at most this many times 1 MiB, nearly all of it ranges of
/// mapped packs that own no memory.
const WAITING_BATCHES: usize = 2;

/// What is still read of a body that is too large, so that a client that sends before it reads sees the answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Why a request body was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    TooLarge,
    /// It ended early, or is no gzip although it says so.
    Broken,
    /// The bodies of other requests fill the memory that is set aside for them.
    NoRoom,
}

/// Memory that all request bodies share.
#[derive(Debug, Clone)]
pub(super) struct BodyMemory(Arc<Semaphore>);

impl BodyMemory {
    pub(super) fn new(bytes: usize) -> Self {
        BodyMemory(Arc::new(Semaphore::new(bytes.div_ceil(1024).min(Semaphore::MAX_PERMITS))))
    }
}

/// A request body, and its share of the memory.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) bytes: Vec<u8>,
    share: OwnedSemaphorePermit,
}

impl RequestBody {
    pub(super) fn empty(memory: &BodyMemory) -> Result<Self, BadBody> {
        let share = memory.0.clone().try_acquire_many_owned(0).map_err(|_| BadBody::NoRoom)?;
        Ok(RequestBody { bytes: Vec::new(), share })
    }

    /// Makes the share large enough for `length` bytes.
    fn claim(&mut self, length: usize, memory: &BodyMemory) -> Result<(), BadBody> {
        let missing = length.div_ceil(1024).saturating_sub(self.share.num_permits());
        let missing = u32::try_from(missing).map_err(|_| BadBody::NoRoom)?;
        let more = memory.0.clone().try_acquire_many_owned(missing).map_err(|_| BadBody::NoRoom)?;
        self.share.merge(more);
        Ok(())
    }
}

/// Reads a request body, gzipped or not, of at most `max_bytes` before and after inflating.
pub(super) async fn read_request<B>(
    body: B,
    is_gzip: bool,
    max_bytes: usize,
    memory: &BodyMemory,
) -> Result<RequestBody, BadBody>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut taken = RequestBody::empty(memory)?;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BadBody::Broken)?.into_data() else { continue };
        let length = taken.bytes.len() + data.len();
        if length > max_bytes {
            drop(taken);
            discard(body).await;
            return Err(BadBody::TooLarge);
        }
        taken.claim(length, memory)?;
        taken.bytes.extend_from_slice(&data);
    }
    if !is_gzip {
        return Ok(taken);
    }
    let mut inflated = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&taken.bytes[..]).take(max_bytes as u64 + 1);
    decoder.read_to_end(&mut inflated).map_err(|_| BadBody::Broken)?;
    if inflated.len() > max_bytes {
        return Err(BadBody::TooLarge);
    }
    taken.bytes = inflated;
    taken.claim(taken.bytes.len(), memory)?;
    Ok(taken)
}

async fn discard<B: Body<Data = Bytes>>(mut body: Pin<&mut B>) {
    let mut left = MAX_DISCARDED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}

/// The engine's way into an HTTP answer.
pub(super) struct BodyDoor {
    sender: mpsc::Sender<Message>,
    runtime: Handle,
    /// How long a client may take nothing of what waits for it.
    stall_time: Duration,
    /// Goes before the first batch.
    prefix: Vec<u8>,
    /// See [`Door::step_back`].
    background: Arc<Notify>,
    turns: Option<Arc<Turns>>,
    has_stepped_back: bool,
    has_sent: bool,
}

/// What comes through.
pub(super) enum Message {
    Batch(GatherBatch),
    /// The answer is complete. One that stops without this must not look complete.
    End,
}

impl BodyDoor {
    /// A door, and the end where batches come out. For a thread that may block.
    pub(super) fn new(
        prefix: Vec<u8>,
        stall_time: Duration,
        background: Arc<Notify>,
        turns: Option<Arc<Turns>>,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        let runtime = Handle::current();
        let door = BodyDoor {
            sender,
            runtime,
            stall_time,
            prefix,
            background,
            turns,
            has_stepped_back: false,
            has_sent: false,
        };
        (door, receiver)
    }

    /// Whether the client has got, or will get, a part of the answer.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// Ends the answer in good order.
    pub(super) fn end(&mut self) {
        // A client that is gone does not miss it.
        let _ = self.pass(Message::End);
    }

    fn pass(&mut self, message: Message) -> io::Result<()> {
        let passed = self.runtime.block_on(self.sender.send_timeout(message, self.stall_time));
        passed.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Door for BodyDoor {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        self.has_sent = true;
        if !self.prefix.is_empty() {
            let prefix = GatherBatch::of(std::mem::take(&mut self.prefix));
            self.pass(Message::Batch(prefix))?;
        }
        // Only the moment counts: another thread writes it.
        drop(self.turns.as_deref().filter(|_| self.has_stepped_back).map(Turns::take));
        self.pass(Message::Batch(batch))
    }

    fn peer_gone(&mut self) -> bool {
        self.sender.is_closed()
    }

    fn step_back(&mut self) {
        self.has_stepped_back = true;
        self.background.notify_one();
    }
}

/// A batch on its way through hyper: one chunk of HTTP and one gathered write, and no copy of a mapped pack.
#[derive(Debug)]
pub(super) struct BatchBuf {
    batch: GatherBatch,
    /// Pieces that are gone.
    at: usize,
    /// Bytes of the next piece that are gone.
    skip: usize,
    remaining: usize,
    /// Is told what the client takes.
    exchange: Arc<Exchange>,
}

impl BatchBuf {
    fn new(batch: GatherBatch, exchange: Arc<Exchange>) -> Self {
        exchange.handed(batch.len());
        BatchBuf { remaining: batch.len(), batch, at: 0, skip: 0, exchange }
    }
}

impl Drop for BatchBuf {
    fn drop(&mut self) {
        self.exchange.taken(self.remaining);
    }
}

impl Buf for BatchBuf {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.batch.piece(self.at).map_or(&[], |piece| &piece[self.skip..])
    }

    fn chunks_vectored<'a>(&'a self, slots: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.skip;
        let mut filled = 0;
        for (piece, slot) in self.batch.pieces().skip(self.at).zip(slots) {
            *slot = IoSlice::new(&piece[skip..]);
            skip = 0;
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "cannot advance past the end");
        self.remaining -= count;
        self.exchange.taken(count);
        while count > 0 {
            let rest = self.chunk().len();
            if count < rest {
                self.skip += count;
                return;
            }
            count -= rest;
            self.at += 1;
            self.skip = 0;
        }
    }
}

/// The body of an answer: a first batch, and what follows it through a door.
pub(super) struct AnswerBody {
    first: Option<GatherBatch>,
    rest: Option<mpsc::Receiver<Message>>,
    status: u16,
    /// None where nobody wants to read of it.
    access: Option<Access>,
    exchange: Arc<Exchange>,
    /// Set once hyper has got the last byte.
    is_complete: bool,
    was_pending: bool,
    is_wanted: bool,
}

impl AnswerBody {
    pub(super) fn new(
        first: GatherBatch,
        rest: Option<mpsc::Receiver<Message>>,
        status: u16,
        access: Option<Access>,
        exchange: Arc<Exchange>,
    ) -> Self {
        let first = Some(first).filter(|first| !first.is_empty());
        let is_complete = first.is_none() && rest.is_none();
        AnswerBody { first, rest, status, access, exchange, is_complete, was_pending: false, is_wanted: true }
    }

    /// The request was HEAD: nothing of the body is sent, and nothing of it is missing.
    pub(super) fn not_wanted(&mut self) {
        self.is_wanted = false;
    }

    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<GatherBatch>>> {
        if let Some(first) = self.first.take() {
            self.is_complete = self.rest.is_none();
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        match std::task::ready!(rest.poll_recv(context)) {
            Some(Message::Batch(batch)) => Poll::Ready(Some(Ok(batch))),
            Some(Message::End) => {
                self.rest = None;
                self.is_complete = true;
                Poll::Ready(None)
            }
            // hyper sends what it holds when there is nothing more for the moment; an error makes it drop that.
            None if !self.was_pending => {
                self.was_pending = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(Some(Err(io::Error::other("the answer could not be completed")))),
        }
    }
}

impl Body for AnswerBody {
    type Data = BatchBuf;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BatchBuf>, io::Error>>> {
        let batch = std::task::ready!(self.next_batch(context));
        Poll::Ready(batch.map(|batch| {
            let batch = batch?;
            if let Some(access) = &self.access {
                access.transfer().sent(batch.len() as u64);
            }
            Ok(Frame::data(BatchBuf::new(batch, self.exchange.clone())))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match (&self.first, &self.rest) {
            (_, Some(_)) => http_body::SizeHint::default(),
            (first, None) => {
                http_body::SizeHint::with_exact(first.as_ref().map_or(0, |first| first.len() as u64))
            }
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        let is_cut = !self.is_complete && self.is_wanted;
        let outcome = format!("{}{}", self.status, if is_cut { " cut" } else { "" });
        if let Some(access) = &mut self.access {
            access.end(&outcome, !is_cut && self.status < 400, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use packrace_os::Mapped;
    use packrace_os::pace::Pace;

    use super::super::conversation::Conversation;
    use crate::outbox::COPY_BELOW_BYTES;

    #[test]
    fn a_batch_can_be_taken_in_any_steps() {
        let map = Mapped::from((0..1000).map(|at| at as u8).collect::<Vec<_>>());
        let pace = Pace { time: Duration::from_secs(1), bytes: 1 };
        let conversation = Conversation::new(Duration::from_secs(1), pace);
        for step in 1..=70 {
            let mut batch = GatherBatch::of(b"head".to_vec());
            batch.push_mapped(&map, 20..20);
            batch.push_mapped(&map, 10..COPY_BELOW_BYTES + 10);
            batch.push(b"tail");
            let mut buf = BatchBuf::new(batch, conversation.exchange());
            let mut got = Vec::new();
            while buf.has_remaining() {
                let mut slots = [IoSlice::new(&[]); 4];
                let filled = buf.chunks_vectored(&mut slots);
                let all: Vec<u8> = slots[..filled].iter().flat_map(|slot| slot.to_vec()).collect();
                assert_eq!(all.len(), buf.remaining());
                let take = step.min(all.len());
                got.extend_from_slice(&all[..take]);
                buf.advance(take);
            }
            assert_eq!(got, [&b"head"[..], &map[10..COPY_BELOW_BYTES + 10], b"tail"].concat());
        }
    }

    #[test]
    fn spans_of_a_map_are_handed_over_and_not_copied() {
        let pace = Pace { time: Duration::from_secs(1), bytes: 1 };
        let conversation = Conversation::new(Duration::from_secs(1), pace);
        let map = Mapped::from(vec![7; 1 << 20]);
        let mut batch = GatherBatch::of(b"head".to_vec());
        batch.push_mapped(&map, 1000..500_000);
        let mut buf = BatchBuf::new(batch, conversation.exchange());
        buf.advance(4 + 100_000);
        let mut slots = [IoSlice::new(&[]); 4];
        assert_eq!(buf.chunks_vectored(&mut slots), 1);
        assert!(std::ptr::eq(&slots[0][..], &map[101_000..500_000]), "the range itself");
        assert!(std::ptr::eq(buf.chunk(), &map[101_000..500_000]));
    }

    fn check(body: &[u8], is_gzip: bool, max_bytes: usize, room: usize, expect: Result<&[u8], BadBody>) {
        let memory = BodyMemory::new(room);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = Full::new(Bytes::copy_from_slice(body));
        let got = runtime.block_on(read_request(body, is_gzip, max_bytes, &memory));
        assert_eq!(got.map(|body| body.bytes), expect.map(<[u8]>::to_vec));
        assert_eq!(memory.0.available_permits(), room.div_ceil(1024), "the share is given back");
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn request_bodies_have_limits_before_and_after_inflating() {
        let zeros = vec![0; 5000];
        let zipped = gzip(&zeros);
        check(&zeros, false, 5000, 8192, Ok(&zeros));
        check(&zeros, false, 4999, 8192, Err(BadBody::TooLarge));
        check(&zeros, false, 5000, 4096, Err(BadBody::NoRoom));
        check(b"", false, 0, 0, Ok(b""));
        check(&zipped, true, 5000, 8192, Ok(&zeros));
        check(&zipped, true, 4999, 8192, Err(BadBody::TooLarge));
        check(&zipped, true, 5000, 4096, Err(BadBody::NoRoom));
        check(b"", true, 5000, 8192, Err(BadBody::Broken));
        check(b"PACK", true, 5000, 8192, Err(BadBody::Broken));
        for end in 1..zipped.len() {
            check(&zipped[..end], true, 5000, 8192, Err(BadBody::Broken));
        }
        check(&[gzip(b"ab"), gzip(b"cd")].concat(), true, 5000, 8192, Ok(b"abcd"));
        check(&gzip(&vec![0; 50 << 20]), true, 10 << 20, 64 << 20, Err(BadBody::TooLarge));
    }
}
