//! Bodies of pushes: read while they arrive, gzipped or not.

use std::io::{self, BufReader, Read};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use flate2::bufread::MultiGzDecoder;
use http_body::Body;
use http_body_util::BodyExt as _;
use packrace_os::throughput::{MinThroughput, ThroughputWatch};
use tokio::sync::{Notify, mpsc};

/// The most pieces that wait for their reader; hyper makes them at most about as long as its buffer of 400
/// KiB.
const WAITING_PIECES: usize = 4;

/// How much of a body that is not needed is still read, so that a client that sends before it reads sees the
/// answer.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Size of the buffer for compressed bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The reading end, for a thread that may block.
pub(super) struct StreamedBody {
    form: BodyForm,
    given_up: Arc<Notify>,
}

enum BodyForm {
    Plain(Pieces),
    /// Gzipped, and not read yet: a decoder reads its header at once, and the starting thread must not block.
    Unread(Option<Pieces>),
    Gzip(Box<MultiGzDecoder<BufReader<Pieces>>>),
}

/// The pieces of a body; a body that broke off ends with an error.
struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl StreamedBody {
    /// Starts to receive a body, on a task of the current runtime. A client that is slower than `min` is
    /// disconnected.
    pub(super) fn start<B>(body: B, is_gzip: bool, min: MinThroughput) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        let given_up = Arc::new(Notify::new());
        tokio::spawn(pump(body, sender, min, given_up.clone()));
        let pieces = Pieces { receiver, current: Bytes::new() };
        let form = match is_gzip {
            false => BodyForm::Plain(pieces),
            true => BodyForm::Unread(Some(pieces)),
        };
        StreamedBody { form, given_up }
    }

    /// Ends the body with an error, for a reader that waits for the client.
    pub(super) fn giving_up(&self) -> impl FnOnce() + Send + 'static {
        let given_up = self.given_up.clone();
        move || given_up.notify_one()
    }
}

async fn pump<B: Body<Data = Bytes>>(
    body: B,
    sender: mpsc::Sender<io::Result<Bytes>>,
    min: MinThroughput,
    given_up: Arc<Notify>,
) {
    let mut body = pin!(body);
    let mut speed = ThroughputWatch::new(min);
    let mut discarded = 0;
    loop {
        let since = Instant::now();
        let next = tokio::select! {
            next = tokio::time::timeout(speed.longest_wait(), body.frame()) => {
                next.map(|frame| frame.map(|frame| frame.map_err(|_| io::ErrorKind::UnexpectedEof)))
            }
            () = given_up.notified() => {
                // The reader waits, so there is room; or there is no reader.
                let _ = sender.try_send(Err(io::ErrorKind::ConnectionAborted.into()));
                return;
            }
        };
        let data = match next {
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
            Ok(None) => return,
            Ok(Some(Err(kind))) => Err(kind.into()),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => speed.waited(since, data.len()).map(|()| data),
                // Trailers mean nothing here.
                Err(_) => continue,
            },
        };
        let is_over = data.is_err();
        let length = data.as_ref().map_or(0, Bytes::len);
        if sender.send(data).await.is_err() {
            discarded += length;
        }
        if is_over || discarded > MAX_DISCARDED_BYTES {
            return;
        }
    }
}

impl Read for StreamedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let BodyForm::Unread(pieces) = &mut self.form
            && let Some(pieces) = pieces.take()
        {
            let buffered = BufReader::with_capacity(BUFFER_BYTES, pieces);
            self.form = BodyForm::Gzip(Box::new(MultiGzDecoder::new(buffered)));
        }
        match &mut self.form {
            BodyForm::Plain(pieces) => pieces.read(buffer),
            BodyForm::Unread(_) => Ok(0),
            BodyForm::Gzip(decoder) => decoder.read(buffer),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.current = piece?,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use http_body_util::Full;

    fn check(body: &[u8], is_gzip: bool, expect: Option<&[u8]>) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let body = Full::new(Bytes::copy_from_slice(body));
        let min = MinThroughput { time: Duration::from_secs(60), bytes: 1 };
        let mut streamed = runtime.block_on(async { StreamedBody::start(body, is_gzip, min) });
        let mut got = Vec::new();
        let read = streamed.read_to_end(&mut got);
        assert_eq!(read.is_ok().then_some(got.as_slice()), expect);
    }

    #[test]
    fn bodies_come_as_they_were_sent() {
        let zip = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            io::Write::write_all(&mut encoder, bytes).unwrap();
            encoder.finish().unwrap()
        };
        let long = vec![7; 1 << 20];
        check(b"", false, Some(b""));
        check(&long, false, Some(&long));
        check(&zip(&long), true, Some(&long));
        check(&[zip(b"ab"), zip(b"cd")].concat(), true, Some(b"abcd"));
        check(b"PACK", true, None);
        let zipped = zip(&long);
        check(&zipped[..zipped.len() - 1], true, None);
    }
}
