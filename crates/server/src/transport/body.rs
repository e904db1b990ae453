//! Bodies of HTTP: requests read whole within limits, answers streamed batch by batch.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::mpsc;

use crate::outbox::{Door, GatherBatch, Piece};

/// Batches between the engine's thread and the connection: at most this many times 1 MiB, nearly all of it ranges of
/// mapped packs that own no memory.
const WAITING_BATCHES: usize = 2;

/// Why a request body was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    TooLarge,
    /// It ended early, or is no gzip although it says so.
    Broken,
}

/// Reads a request body, gzipped or not, of at most `max_bytes` before and after inflating.
pub(super) async fn read_request<B>(body: B, is_gzip: bool, max_bytes: usize) -> Result<Vec<u8>, BadBody>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collected = Limited::new(body, max_bytes)
        .collect()
        .await
        .map_err(|error| if error.is::<LengthLimitError>() { BadBody::TooLarge } else { BadBody::Broken })?;
    let bytes = collected.to_bytes();
    if !is_gzip {
        return Ok(bytes.into());
    }
    let mut inflated = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&bytes[..]).take(max_bytes as u64 + 1);
    decoder.read_to_end(&mut inflated).map_err(|_| BadBody::Broken)?;
    if inflated.len() > max_bytes { Err(BadBody::TooLarge) } else { Ok(inflated) }
}

/// The engine's way into an HTTP answer.
pub(super) struct BodyDoor {
    sender: mpsc::Sender<Message>,
    /// Goes before the first batch.
    prefix: Vec<u8>,
}

/// What comes through.
pub(super) enum Message {
    Batch(GatherBatch),
    /// The engine gave up and the client could not be told: the answer must not look complete.
    Cut,
}

impl BodyDoor {
    /// A door, and the end where batches come out.
    pub(super) fn new(prefix: Vec<u8>) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        (BodyDoor { sender, prefix }, receiver)
    }

    pub(super) fn cut(&self) {
        // When there is no room the client is slow; it will find no proper end either way, but must not be waited for.
        let _ = self.sender.blocking_send(Message::Cut);
    }
}

impl Door for BodyDoor {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        if !self.prefix.is_empty() {
            let prefix = GatherBatch::of(std::mem::take(&mut self.prefix));
            self.sender.blocking_send(Message::Batch(prefix)).map_err(gone)?;
        }
        self.sender.blocking_send(Message::Batch(batch)).map_err(gone)
    }

    fn peer_gone(&mut self) -> bool {
        self.sender.is_closed()
    }
}

/// A streamed answer: batches become `Bytes` that share the mapped pack, without a copy.
pub(super) struct StreamedBody {
    receiver: mpsc::Receiver<Message>,
    pieces: std::vec::IntoIter<Piece>,
}

impl StreamedBody {
    pub(super) fn new(first: GatherBatch, receiver: mpsc::Receiver<Message>) -> Self {
        StreamedBody { receiver, pieces: first.pieces.into_iter() }
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Poll::Ready(Some(Ok(Frame::data(into_bytes(piece)))));
            }
            match self.receiver.poll_recv(context) {
                Poll::Ready(Some(Message::Batch(batch))) => self.pieces = batch.pieces.into_iter(),
                Poll::Ready(Some(Message::Cut)) => {
                    return Poll::Ready(Some(Err(io::Error::other("the answer could not be completed"))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn into_bytes(piece: Piece) -> Bytes {
    match piece {
        Piece::Owned(bytes) => Bytes::from(bytes),
        Piece::Mapped(map, range) => Bytes::from_owner(map).slice(range),
    }
}
