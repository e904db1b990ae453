//! `GIT_TRACE_PACKET` (git(1)): a line for each packet of a session on standard input and output.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use packrace_server::send::outbox::{ClientSink, GatherBatch};

use super::formats::classic_line;
use super::target::{TraceTarget, TraceWriter};
use crate::call::Call;
use crate::call::environment::PacketTraceVariables;
use crate::call::streams::ErrorOutput;

/// The longest pkt-line.
const MAX_PACKET: usize = 65_520;

/// Where the lines of a session go.
struct PacketLog {
    service: &'static str,
    is_bare: bool,
    writer: TraceWriter,
    errors: ErrorOutput,
}

impl PacketLog {
    fn line(&mut self, direction: char, content: &str) {
        let text = format!("packet: {:>12}{direction} {content}", self.service);
        let line = classic_line(Timestamp::now(), self.is_bare, &text);
        // A trace that cannot be written must not end the session.
        let _ = match &mut self.writer {
            TraceWriter::StandardError => self.errors.say(line.as_bytes()),
            writer => writer.write(&line, |_| {}),
        };
    }
}

/// The bytes of a length, and of a length and what follows it.
const LENGTH_BYTES: usize = 4;
const WITH_FIRST_BYTE: usize = 5;

/// Finds the packets in the bytes of one direction.
struct PacketScan {
    log: Arc<Mutex<PacketLog>>,
    direction: char,
    /// The beginning of a packet, and how much of it is needed next.
    pending: Vec<u8>,
    wanted: usize,
    /// The length of the packet, once it is known.
    length: usize,
    /// Bytes of a side-band that are left out.
    to_skip: usize,
    /// The packets within side-band 1, of a push.
    inner: Option<Box<PacketScan>>,
    /// A pack follows, or bytes that are no packets.
    is_over: bool,
}

impl PacketScan {
    fn new(log: &Arc<Mutex<PacketLog>>, direction: char, has_inner: bool) -> Self {
        PacketScan {
            log: log.clone(),
            direction,
            pending: Vec::new(),
            wanted: LENGTH_BYTES,
            length: 0,
            to_skip: 0,
            inner: has_inner.then(|| Box::new(PacketScan::new(log, direction, false))),
            is_over: false,
        }
    }

    fn line(&self, content: &str) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).line(self.direction, content);
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

    /// Whether this is a packet of a side-band whose content has no packets.
    fn is_left_out(&self) -> bool {
        match self.pending.last() {
            Some(1) => self.inner.is_none(),
            Some(2 | 3) => true,
            _ => false,
        }
    }

    fn end_packet(&mut self) {
        match (&self.pending[LENGTH_BYTES..], &mut self.inner) {
            ([1, report @ ..], Some(inner)) => inner.take(report),
            (content, _) => self.line(&shown(content)),
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
pub(crate) struct Traced<T> {
    inner: T,
    scan: Option<PacketScan>,
}

/// Wraps the input and output of a service.
pub(crate) fn traced<I, O>(
    call: &Call,
    service: &'static str,
    input: I,
    output: O,
) -> (Traced<I>, Traced<O>) {
    let log = open(call, service).map(|log| Arc::new(Mutex::new(log)));
    let scan = |direction, has_inner| Some(PacketScan::new(log.as_ref()?, direction, has_inner));
    // The report of a push is made of packets, too.
    let (read, sent) = (scan('<', false), scan('>', service == "receive-pack"));
    (Traced { inner: input, scan: read }, Traced { inner: output, scan: sent })
}

fn open(call: &Call, service: &'static str) -> Option<PacketLog> {
    const VARIABLE: &str = "GIT_TRACE_PACKET";
    let PacketTraceVariables { target, is_bare } = &call.environment.packet_trace;
    let errors = call.streams.errors.clone();
    match TraceTarget::parse(target)?.open_classic() {
        Ok(writer) => Some(PacketLog { service, is_bare: *is_bare, writer, errors }),
        Err(failure) => {
            errors.error_line(format_args!("warning: {}", failure.classic_text(VARIABLE)));
            None
        }
    }
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
    use crate::call::streams::Written;

    fn lines(bytes: &[u8], step: usize, has_inner: bool) -> String {
        let written = Written::default();
        let errors = ErrorOutput::new(written.clone());
        let log = PacketLog { service: "x", is_bare: true, writer: TraceWriter::StandardError, errors };
        let mut scan = PacketScan::new(&Arc::new(Mutex::new(log)), '>', has_inner);
        bytes.chunks(step).for_each(|bytes| scan.take(bytes));
        written.text().replace("packet:            x> ", "")
    }

    #[test]
    fn packets_in_pieces_of_any_length() {
        let bytes = b"000aa\0b\xffc\n00040001000d\x02progress0008\x01pac0000PACK0005";
        for step in 1..bytes.len() {
            assert_eq!(lines(bytes, step, false), "a\\0b\\377c\n\n0001\n0000\n", "{step}");
        }
    }

    #[test]
    fn report_within_a_side_band() {
        let bytes = b"0017\x01000eunpack ok\n00000000";
        for step in 1..bytes.len() {
            assert_eq!(lines(bytes, step, true), "unpack ok\n0000\n0000\n", "{step}");
        }
    }

    #[test]
    fn other_bytes_end_the_trace() {
        for bytes in [&b"GET / HTTP/1.0"[..], b"00030000", b"fffffzzz", b"000\xff0000"] {
            assert_eq!(lines(bytes, 3, false), "");
        }
    }
}
