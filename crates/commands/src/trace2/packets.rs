//! `GIT_TRACE_PACKET` (git(1)): a line for each packet of a session, of a server and of a client.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use packrace_client::ServerConnection;
use packrace_server::send::outbox::{ClientSink, GatherBatch};

use super::classic::ClassicLog;
use crate::call::Call;

/// The longest pkt-line.
const MAX_PACKET: usize = 65_520;

/// The bytes of a length, and of a length and what follows it.
const LENGTH_BYTES: usize = 4;
const WITH_FIRST_BYTE: usize = 5;

/// What is shown of the side-band packets of a session.
enum Bands {
    /// No packet of a band.
    LeftOut,
    /// The packets within band 1, which are the report of a push.
    Report(Box<PacketScan>),
    /// That a pack begins, and all of the other bands, from `packfile` on.
    Received { is_open: bool, has_pack: bool },
}

impl Bands {
    const RECEIVED: Bands = Bands::Received { is_open: false, has_pack: false };
}

/// Finds the packets in the bytes of one direction.
struct PacketScan {
    log: Arc<Mutex<ClassicLog>>,
    /// Who reads or writes the packets.
    name: &'static str,
    direction: char,
    /// The beginning of a packet, and how much of it is needed next.
    pending: Vec<u8>,
    wanted: usize,
    /// The length of the packet, once it is known.
    length: usize,
    /// Bytes of a side-band that are left out.
    to_skip: usize,
    bands: Bands,
    /// A pack follows, or bytes that are no packets.
    is_over: bool,
}

impl PacketScan {
    fn new(log: &Arc<Mutex<ClassicLog>>, name: &'static str, direction: char, bands: Bands) -> Self {
        PacketScan {
            log: log.clone(),
            name,
            direction,
            pending: Vec::new(),
            wanted: LENGTH_BYTES,
            length: 0,
            to_skip: 0,
            bands,
            is_over: false,
        }
    }

    fn line(&self, content: &str) {
        let name =
            if matches!(self.bands, Bands::Received { is_open: true, .. }) { "sideband" } else { self.name };
        let line = format!("packet: {name:>12}{} {content}", self.direction);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).line(&line);
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_over {
            let skipped = self.to_skip.min(bytes.len());
            self.to_skip -= skipped;
            let (now, later) = bytes[skipped..]
                .split_at_checked(self.wanted - self.pending.len())
                .unwrap_or((&bytes[skipped..], &[]));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == self.wanted {
                self.has_wanted();
            }
        }
    }

    fn has_wanted(&mut self) {
        match self.wanted {
            LENGTH_BYTES => self.begin_packet(),
            WITH_FIRST_BYTE if self.is_left_out() => {
                self.begin_pack();
                self.to_skip = self.length - WITH_FIRST_BYTE;
                self.next_packet();
            }
            wanted if wanted < self.length => self.wanted = self.length,
            _ => {
                self.end_packet();
                self.next_packet();
            }
        }
    }

    fn begin_packet(&mut self) {
        let length =
            std::str::from_utf8(&self.pending).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        match length {
            _ if self.pending == b"PACK" => self.is_over = true,
            Some(0..=2) => {
                self.line(&shown(&self.pending));
                if matches!(self.bands, Bands::Received { .. }) {
                    self.bands = Bands::RECEIVED;
                }
                self.next_packet();
            }
            Some(LENGTH_BYTES) => {
                self.line("");
                self.next_packet();
            }
            Some(length @ WITH_FIRST_BYTE..=MAX_PACKET) => {
                (self.length, self.wanted) = (length, WITH_FIRST_BYTE)
            }
            _ => self.is_over = true,
        }
    }

    fn next_packet(&mut self) {
        self.pending.clear();
        self.wanted = LENGTH_BYTES;
    }

    /// Whether this is a packet of a side-band whose content is not shown.
    fn is_left_out(&self) -> bool {
        match (self.pending.last(), &self.bands) {
            (Some(1), Bands::Report(_)) => false,
            (band, Bands::Received { is_open, .. }) => *is_open && band == Some(&1),
            (band, _) => matches!(band, Some(1..=3)),
        }
    }

    /// A client shows the first packet of a pack in brief.
    fn begin_pack(&mut self) {
        if let Bands::Received { has_pack, .. } = &mut self.bands
            && !std::mem::replace(has_pack, true)
        {
            self.line("PACK ...");
        }
    }

    fn end_packet(&mut self) {
        let content = &self.pending[LENGTH_BYTES..];
        match (content, &mut self.bands) {
            ([1, report @ ..], Bands::Report(inner)) => return inner.take(report),
            _ => self.line(&shown(content)),
        }
        if let (b"packfile\n", Bands::Received { is_open, .. }) = (content, &mut self.bands) {
            *is_open = true;
        }
    }
}

/// Text without its line feed, and all but letters, digits and punctuation in octal.
fn shown(content: &[u8]) -> String {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.iter().fold(String::with_capacity(content.len()), |mut text, byte| {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            other => drop(write!(text, "\\{other:o}")),
        }
        text
    })
}

/// The input or output of a session, of which packets are logged if `GIT_TRACE_PACKET` asks for it.
pub struct Traced<T> {
    inner: T,
    scan: Option<PacketScan>,
}

/// Wraps the input and output of a service.
pub fn traced<I, O>(call: &Call, service: &'static str, input: I, output: O) -> (Traced<I>, Traced<O>) {
    let log = open(call);
    let scan = |direction, bands| Some(PacketScan::new(log.as_ref()?, service, direction, bands));
    let mut sent = scan('>', Bands::LeftOut);
    if service == "receive-pack" {
        sent = sent.and_then(|inner| scan('>', Bands::Report(Box::new(inner))));
    }
    (Traced { inner: input, scan: scan('<', Bands::LeftOut) }, Traced { inner: output, scan: sent })
}

/// Logs what names the service in a response over HTTP.
pub fn trace_announcement(call: &Call, announcement: &[u8]) {
    if let Some(log) = open(call).filter(|_| !announcement.is_empty()) {
        PacketScan::new(&log, "git", '>', Bands::LeftOut).take(announcement);
    }
}

/// A connection to a server, of which packets are logged if `GIT_TRACE_PACKET` asks for it.
pub(crate) struct TracedConnection<C> {
    received: Traced<C>,
    sent: Option<PacketScan>,
}

impl<C> TracedConnection<C> {
    /// What was sent before is `first`.
    pub(crate) fn new(call: &Call, connection: C, first: &[u8]) -> Self {
        let log = open(call);
        let scan = |direction, bands| Some(PacketScan::new(log.as_ref()?, "clone", direction, bands));
        let mut sent = scan('>', Bands::LeftOut);
        if let Some(sent) = &mut sent {
            sent.take(first);
        }
        TracedConnection { received: Traced { inner: connection, scan: scan('<', Bands::RECEIVED) }, sent }
    }
}

fn open(call: &Call) -> Option<Arc<Mutex<ClassicLog>>> {
    let log = ClassicLog::open(call, "GIT_TRACE_PACKET", &call.environment.classic_traces.packet)?;
    Some(Arc::new(Mutex::new(log)))
}

impl<R: Read> Read for Traced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.inner.read(buffer)?;
        if let Some(scan) = &mut self.scan {
            scan.take(buffer.get(..taken).unwrap_or_default());
        }
        Ok(taken)
    }
}

impl<C: ServerConnection> Read for TracedConnection<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.received.read(buffer)
    }
}

impl<C: ServerConnection> BufRead for TracedConnection<C> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.received.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        let Traced { inner, scan } = &mut self.received;
        // What was filled is still there.
        if let (Some(scan), Ok(bytes)) = (scan, inner.fill_buf()) {
            scan.take(bytes.get(..amount).unwrap_or_default());
        }
        inner.consume(amount);
    }
}

impl<C: ServerConnection> ServerConnection for TracedConnection<C> {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        if let Some(scan) = &mut self.sent {
            scan.take(request);
        }
        self.received.inner.send(request)
    }
}

impl<C: ClientSink> ClientSink for Traced<C> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        if let Some(scan) = &mut self.scan {
            batch.pieces().for_each(|piece| scan.take(piece));
        }
        self.inner.send(batch)
    }

    fn peer_gone(&mut self) -> bool {
        self.inner.peer_gone()
    }

    fn demote_to_background(&mut self) {
        self.inner.demote_to_background();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::streams::{ErrorOutput, Written};

    fn lines(bytes: &[u8], step: usize, bands: fn(PacketScan) -> Bands) -> String {
        let written = Written::default();
        let errors = ErrorOutput::new(written.clone());
        let log = Arc::new(Mutex::new(ClassicLog::to(errors)));
        let new = |bands| PacketScan::new(&log, "x", '>', bands);
        let mut scan = new(bands(new(Bands::LeftOut)));
        bytes.chunks(step).for_each(|bytes| scan.take(bytes));
        written.text().replace("packet:            x> ", "")
    }

    #[test]
    fn packets_in_pieces_of_any_length() {
        let bytes = b"000aa\0b\xffc\n00040001000d\x02progress0008\x01pac0000PACK0005";
        for step in 1..bytes.len() {
            assert_eq!(lines(bytes, step, |_| Bands::LeftOut), "a\\0b\\377c\n\n0001\n0000\n", "{step}");
        }
    }

    #[test]
    fn report_within_a_side_band() {
        let bytes = b"0017\x01000eunpack ok\n00000000";
        for step in 1..bytes.len() {
            assert_eq!(
                lines(bytes, step, |inner| Bands::Report(Box::new(inner))),
                "unpack ok\n0000\n0000\n",
                "{step}"
            );
        }
    }

    #[test]
    fn pack_that_a_client_receives() {
        let bytes = b"000dpackfile\n0007\x02a\n0009\x01PACK0006\x01x00000006\x01x";
        for step in 1..bytes.len() {
            let shown = lines(bytes, step, |_| Bands::RECEIVED);
            let shown = shown.replace("packet:     sideband> ", "|");
            assert_eq!(shown, "packfile\n|\\2a\n|PACK ...\n|0000\n\\1x\n", "{step}");
        }
    }

    #[test]
    fn other_bytes_end_the_trace() {
        for bytes in [&b"GET / HTTP/1.0"[..], b"00030000", b"fffffzzz", b"000\xff0000"] {
            assert_eq!(lines(bytes, 3, |_| Bands::LeftOut), "");
        }
    }
}
