//! HTTP bodies: requests are read whole within limits, answers are streamed batch by batch.

use std::io::{self, IoSlice, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::limits::cpu::CpuScheduler;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::watch::InFlight;
use crate::limits::budget::{Claim, Refused};
use crate::send::outbox::{ClientSink, GatherBatch};
use crate::service::access_log::Access;

/// The most batches between the engine's thread and the connection: each has about 1 MiB, nearly all of it
/// ranges of mapped packs that own no memory.
const WAITING_BATCHES: usize = 2;

/// How much of a body that is too large is still read, so that a client that sends before it reads sees the
/// answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Bytes of a body that are read before the repository is looked up: those that arrive with the head.
const MAX_READY_BYTES: usize = 64 << 10;

/// Memory is claimed in steps of this.
const CLAIM_BYTES: usize = 1 << 10;

/// A body makes progress when this many more bytes have arrived.
const PROGRESS_BYTES: usize = 16 << 10;

const INFLATED_AT_ONCE_BYTES: usize = 64 << 10;

/// Why a request body is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    TooLarge,
    /// It ended early, or is not the gzip that it claims to be.
    Broken,
    /// The bodies of other requests fill the memory for bodies.
    NoRoom,
    /// The bodies of this client fill its share.
    ClientHasEnough,
    /// It was the slowest when other requests needed the memory.
    Cut,
}

/// A request body while it arrives, and its claim on the memory for bodies: for the bytes that have arrived,
/// never for those that the client only announces.
#[derive(Debug)]
pub(super) struct RequestBody {
    bytes: Vec<u8>,
    is_gzip: bool,
    max_bytes: usize,
    claim: Arc<Claim>,
    claimed: usize,
}

impl RequestBody {
    /// An empty body of at most `max_bytes`, before and after inflating.
    pub(super) fn new(claim: Claim, is_gzip: bool, max_bytes: usize) -> Self {
        RequestBody { bytes: Vec::new(), is_gzip, max_bytes, claim: Arc::new(claim), claimed: 0 }
    }

    /// Takes the bytes that have arrived already. Returns whether the body is complete.
    pub(super) async fn take_ready<B>(&mut self, body: &mut B) -> Result<bool, BadBody>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        while let Some(next) = ready_frame(body).await {
            match next {
                None => return Ok(true),
                Some(frame) => self.take(frame)?,
            }
            if self.bytes.len() > MAX_READY_BYTES {
                break;
            }
        }
        Ok(false)
    }

    /// Waits for the rest. If the client is the slowest when the memory is full, it is cut.
    pub(super) async fn take_rest<B>(&mut self, body: &mut B) -> Result<(), BadBody>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let claim = self.claim.clone();
        let reading = async {
            self.claim.waits();
            let mut progress = 0;
            while let Some(frame) = body.frame().await {
                let before = self.bytes.len();
                self.take(frame)?;
                progress += self.bytes.len() - before;
                // A byte now and then does not count as progress.
                if progress >= PROGRESS_BYTES {
                    progress = 0;
                    self.claim.waits();
                }
            }
            self.claim.works();
            Ok(())
        };
        tokio::select! {
            biased;
            () = claim.cut() => Err(BadBody::Cut),
            read = reading => read,
        }
    }

    fn take<E>(&mut self, frame: Result<Frame<Bytes>, E>) -> Result<(), BadBody> {
        // Trailers mean nothing here.
        let Ok(data) = frame.map_err(|_| BadBody::Broken)?.into_data() else { return Ok(()) };
        let length = self.bytes.len() + data.len();
        if length > self.max_bytes {
            return Err(BadBody::TooLarge);
        }
        self.hold(length)?;
        self.bytes.extend_from_slice(&data);
        Ok(())
    }

    /// Claims memory for this many bytes in total.
    fn hold(&mut self, bytes: usize) -> Result<(), BadBody> {
        if bytes > self.claimed {
            let claimed = bytes.next_multiple_of(CLAIM_BYTES);
            self.claim.grow(claimed).map_err(|refused| match refused {
                _ if self.claim.is_cut() => BadBody::Cut,
                Refused::Full => BadBody::NoRoom,
                Refused::ClientHasEnough => BadBody::ClientHasEnough,
            })?;
            self.claimed = claimed;
        }
        Ok(())
    }

    /// The bytes that have arrived; after inflating, the request.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The request, inflated. For a thread that may take its time.
    pub(super) fn inflate(&mut self) -> Result<&[u8], BadBody> {
        self.claim.works();
        if self.claim.is_cut() {
            return Err(BadBody::Cut);
        }
        if !std::mem::take(&mut self.is_gzip) {
            return Ok(&self.bytes);
        }
        let compressed = std::mem::take(&mut self.bytes);
        let mut decoder = flate2::read::MultiGzDecoder::new(&compressed[..]);
        let mut piece = vec![0; INFLATED_AT_ONCE_BYTES];
        loop {
            match decoder.read(&mut piece).map_err(|_| BadBody::Broken)? {
                0 => return Ok(&self.bytes),
                length if self.bytes.len() + length > self.max_bytes => return Err(BadBody::TooLarge),
                length => {
                    // The compressed bytes are held until all of them are inflated.
                    self.hold(compressed.len() + self.bytes.len() + length)?;
                    self.bytes.extend_from_slice(&piece[..length]);
                }
            }
        }
    }
}

/// The next frame, if it has arrived. The inner `None` is the end.
async fn ready_frame<B>(body: &mut B) -> Option<Option<Result<Frame<Bytes>, B::Error>>>
where
    B: Body<Data = Bytes> + Unpin,
{
    std::future::poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Reads the rest of a body that is not needed, for at most `time`, so that a client that sends before it
/// reads sees the answer.
pub(super) async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B, time: Duration) {
    let mut left = MAX_DISCARDED_BYTES;
    let discarding = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(length) else { return };
            left = rest;
        }
    };
    // After that the connection is closed anyway.
    let _ = tokio::time::timeout(time, discarding).await;
}

/// Sends the engine's output into an HTTP answer.
pub(super) struct BodySink {
    sender: mpsc::Sender<BodyMessage>,
    runtime: Handle,
    /// How long a client may take none of the waiting bytes.
    stall_time: Duration,
    /// Sent before the first batch.
    prefix: Vec<u8>,
    /// See [`ClientSink::demote_to_background`].
    background: Arc<Notify>,
    cpu: Option<Arc<CpuScheduler>>,
    is_background: bool,
    has_sent: bool,
}

/// From the thread of a request to its answer.
pub(super) enum BodyMessage {
    Batch(GatherBatch),
    /// The answer is complete. An answer that ends without this must not look complete.
    End,
}

impl BodySink {
    /// A sink for a thread that may block, and the end that receives its batches.
    pub(super) fn new(
        prefix: Vec<u8>,
        stall_time: Duration,
        background: Arc<Notify>,
        cpu: Option<Arc<CpuScheduler>>,
    ) -> (Self, mpsc::Receiver<BodyMessage>) {
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        let runtime = Handle::current();
        let sink = BodySink {
            sender,
            runtime,
            stall_time,
            prefix,
            background,
            cpu,
            is_background: false,
            has_sent: false,
        };
        (sink, receiver)
    }

    /// Whether a part of the answer was sent, or will be.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// Ends the answer as complete.
    pub(super) fn end(&mut self) {
        // A client that has disconnected does not need it.
        let _ = self.pass(BodyMessage::End);
    }

    fn pass(&mut self, message: BodyMessage) -> io::Result<()> {
        let passed = self.runtime.block_on(self.sender.send_timeout(message, self.stall_time));
        passed.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl ClientSink for BodySink {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        self.has_sent = true;
        if !self.prefix.is_empty() {
            let prefix = GatherBatch::of(std::mem::take(&mut self.prefix));
            self.pass(BodyMessage::Batch(prefix))?;
        }
        // Waits for a slot and releases it at once: another thread writes the batch.
        drop(self.cpu.as_deref().filter(|_| self.is_background).map(CpuScheduler::take_slot));
        self.pass(BodyMessage::Batch(batch))
    }

    fn peer_gone(&mut self) -> bool {
        self.sender.is_closed()
    }

    fn demote_to_background(&mut self) {
        self.is_background = true;
        self.background.notify_one();
    }
}

/// A batch that hyper sends: one chunk of HTTP and one gathered write, and no copy of a mapped pack.
#[derive(Debug)]
pub(crate) struct BatchBuf {
    batch: GatherBatch,
    /// Pieces that were sent completely.
    at: usize,
    /// Bytes of the next piece that were sent.
    skip: usize,
    remaining: usize,
    /// Counts the bytes that the client takes.
    in_flight: Arc<InFlight>,
}

impl BatchBuf {
    pub(super) fn new(batch: GatherBatch, in_flight: Arc<InFlight>) -> Self {
        in_flight.handed(batch.len());
        BatchBuf { remaining: batch.len(), batch, at: 0, skip: 0, in_flight }
    }
}

/// The whole batch, also what was sent of it.
impl AsRef<GatherBatch> for BatchBuf {
    fn as_ref(&self) -> &GatherBatch {
        &self.batch
    }
}

impl Drop for BatchBuf {
    fn drop(&mut self) {
        self.in_flight.taken(self.remaining);
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
        self.in_flight.taken(count);
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

/// The body of an answer: a first batch, and those that a sink sends afterwards.
pub(crate) struct AnswerBody {
    first: Option<GatherBatch>,
    rest: Option<mpsc::Receiver<BodyMessage>>,
    status: u16,
    /// `None` if the answer is not logged.
    access: Option<Access>,
    in_flight: Arc<InFlight>,
    /// Set once hyper has the last byte.
    is_complete: bool,
    was_pending: bool,
    is_wanted: bool,
}

impl AnswerBody {
    pub(super) fn new(
        first: GatherBatch,
        rest: Option<mpsc::Receiver<BodyMessage>>,
        status: u16,
        access: Option<Access>,
        in_flight: Arc<InFlight>,
    ) -> Self {
        let first = Some(first).filter(|first| !first.is_empty());
        let is_complete = first.is_none() && rest.is_none();
        AnswerBody {
            first,
            rest,
            status,
            access,
            in_flight,
            is_complete,
            was_pending: false,
            is_wanted: true,
        }
    }

    /// The request was HEAD: the body is not sent, and is not missing.
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
            Some(BodyMessage::Batch(batch)) => Poll::Ready(Some(Ok(batch))),
            Some(BodyMessage::End) => {
                self.rest = None;
                self.is_complete = true;
                Poll::Ready(None)
            }
            // On `Pending` hyper sends what it holds; an error makes it drop that.
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
            Ok(Frame::data(BatchBuf::new(batch, self.in_flight.clone())))
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
        let Some(access) = &mut self.access else { return };
        let is_cut = !self.is_complete && self.is_wanted;
        let is_good = self.status < 400;
        let has_failed = access.transfer().settle_failure().is_some();
        let how = match (is_cut, has_failed && is_good) {
            (true, _) => " cut",
            (false, true) => " failed",
            (false, false) => "",
        };
        access.end(&format!("{}{how}", self.status), how.is_empty() && is_good, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use packrace_os::Mapped;
    use packrace_os::throughput::MinThroughput;

    use crate::http::watch::ConnectionWatch;
    use crate::limits::budget::{Budget, BudgetLimits};
    use crate::send::outbox::COPY_BELOW_BYTES;

    #[test]
    fn a_batch_can_be_taken_in_any_steps() {
        let map = Mapped::from((0..1000).map(|at| at as u8).collect::<Vec<_>>());
        let min = MinThroughput { time: Duration::from_secs(1), bytes: 1 };
        let watch = ConnectionWatch::new(Duration::from_secs(1), min, None);
        for step in 1..=70 {
            let mut batch = GatherBatch::of(b"head".to_vec());
            batch.push_mapped(&map, 20..20);
            batch.push_mapped(&map, 10..COPY_BELOW_BYTES + 10);
            batch.push(b"tail");
            let mut buf = BatchBuf::new(batch, watch.begin_request());
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
        let min = MinThroughput { time: Duration::from_secs(1), bytes: 1 };
        let watch = ConnectionWatch::new(Duration::from_secs(1), min, None);
        let map = Mapped::from(vec![7; 1 << 20]);
        let mut batch = GatherBatch::of(b"head".to_vec());
        batch.push_mapped(&map, 1000..500_000);
        let mut buf = BatchBuf::new(batch, watch.begin_request());
        buf.advance(4 + 100_000);
        let mut slots = [IoSlice::new(&[]); 4];
        assert_eq!(buf.chunks_vectored(&mut slots), 1);
        assert!(std::ptr::eq(&slots[0][..], &map[101_000..500_000]), "the range itself");
        assert!(std::ptr::eq(buf.chunk(), &map[101_000..500_000]));
    }

    fn memory(max: usize) -> Arc<Budget> {
        Budget::new(BudgetLimits { max, max_of_a_client: max, ..BudgetLimits::default() })
    }

    fn check(body: &[u8], is_gzip: bool, max_bytes: usize, room: usize, expect: Result<&[u8], BadBody>) {
        let memory = memory(room);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut body = Full::new(Bytes::copy_from_slice(body));
        let claim = memory.claim(0, [127, 0, 0, 1].into()).unwrap();
        let mut taken = RequestBody::new(claim, is_gzip, max_bytes);
        let got = runtime.block_on(taken.take_rest(&mut body)).and_then(|()| taken.inflate());
        assert_eq!(got, expect);
        drop(taken);
        assert_eq!(memory.taken(), 0, "what was claimed is given back");
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
