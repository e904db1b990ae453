//! pkt-lines (gitprotocol-common, "pkt-line Format").
//!
//! ```text
//! 4 hex digits: the length, these four included | payload
//! 0000 flush    0001 delimiter    0002 response end
//! ```

use crate::refusal::Refusal;

/// The longest packet, length digits included.
pub const MAX_PACKET: usize = 65520;

/// The longest payload.
pub const MAX_PAYLOAD: usize = MAX_PACKET - 4;

/// The flush packet.
pub const FLUSH: &[u8] = b"0000";

/// The delimiter packet.
pub const DELIM: &[u8] = b"0001";

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PktLine<'a> {
    /// A payload, including the newline at the end of text.
    Data(&'a [u8]),
    /// `0000`
    Flush,
    /// `0001`
    Delim,
    /// `0002`
    ResponseEnd,
}

/// Splits a stream into packets, regardless of chunking. Stores pushed bytes that were not yet taken.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The start of the next packet.
    at: usize,
}

impl Decoder {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next packet, or `None` while it is incomplete.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<PktLine<'_>>, Refusal> {
        let rest = &self.buffer[self.at..];
        let Some(length) = whole(rest)? else { return Ok(None) };
        self.at += length;
        Ok(Some(packet(&rest[..length])))
    }

    /// The number of bytes that were pushed and not taken.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Whether everything that was pushed has been taken.
    pub fn is_empty(&self) -> bool {
        self.at == self.buffer.len()
    }
}

/// The length in the four digits, which includes them; below 4 for a packet without payload.
pub(crate) fn parse_length(digits: &[u8]) -> Result<usize, Refusal> {
    let mut length = 0;
    for digit in digits {
        let Some(value) = (*digit as char).to_digit(16) else {
            return Err(Refusal::bad_length_characters(digits));
        };
        length = length << 4 | value as usize;
    }
    if length == 3 || length > MAX_PACKET {
        return Err(Refusal::bad_length(length));
    }
    Ok(length)
}

/// The length of the packet at the start of `bytes`, if complete.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some(digits) = bytes.get(..4) else { return Ok(None) };
    let length = parse_length(digits)?.max(4);
    Ok((length <= bytes.len()).then_some(length))
}

/// A complete packet, whose length was checked.
pub(super) fn packet(bytes: &[u8]) -> PktLine<'_> {
    match &bytes[..4] {
        b"0000" => PktLine::Flush,
        b"0001" => PktLine::Delim,
        b"0002" => PktLine::ResponseEnd,
        _ => PktLine::Data(&bytes[4..]),
    }
}

/// The line in a packet: its payload without the one newline at its end.
pub fn text(payload: &[u8]) -> &[u8] {
    payload.strip_suffix(b"\n").unwrap_or(payload)
}

/// Appends the four length digits for a payload of this length, at most [`MAX_PAYLOAD`], and
/// reserves room for it.
#[inline]
pub fn write_length(payload_len: usize, out: &mut Vec<u8>) {
    out.reserve(payload_len + 4);
    out.extend_from_slice(&length_digits(payload_len + 4));
}

pub(crate) fn length_digits(length: usize) -> [u8; 4] {
    debug_assert!(length <= MAX_PACKET);
    let digit = |shift: usize| b"0123456789abcdef"[length >> shift & 15];
    [digit(12), digit(8), digit(4), digit(0)]
}

/// Appends a packet with this payload, at most [`MAX_PAYLOAD`] long.
pub fn write_data(payload: &[u8], out: &mut Vec<u8>) {
    write_length(payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends a packet with a line of text.
pub fn write_text(line: &str, out: &mut Vec<u8>) {
    write_length(line.len() + 1, out);
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the stream whole and byte by byte and compares the packets.
    fn check(stream: &[u8], expect: &[&str], error: Option<&str>) {
        for step in [stream.len().max(1), 1, 3] {
            let (mut decoder, mut got, mut failed) = (Decoder::default(), Vec::new(), None);
            for chunk in stream.chunks(step) {
                decoder.push(chunk);
                loop {
                    match decoder.next() {
                        Ok(Some(PktLine::Data(data))) => got.push(String::from_utf8_lossy(data).into_owned()),
                        Ok(Some(other)) => got.push(format!("{other:?}")),
                        Ok(None) => break,
                        Err(refusal) => {
                            failed.get_or_insert(refusal.message().to_owned());
                            break;
                        }
                    }
                }
            }
            assert_eq!(
                (got.iter().map(String::as_str).collect::<Vec<_>>(), failed.as_deref()),
                (expect.to_vec(), error)
            );
        }
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        check(b"0006a\n00000001000200040005b", &["a\n", "Flush", "Delim", "ResponseEnd", "", "b"], None);
        check(b"000", &[], None);
        check(b"0006a", &[], None);
        check(b"0000zzzz", &["Flush"], Some("protocol error: bad line length character: zzzz"));
        check(b"-001", &[], Some("protocol error: bad line length character: -001"));
        check(b"0003", &[], Some("protocol error: bad line length 3"));
        check(b"fff1", &[], Some("protocol error: bad line length 65521"));
        let mut longest = Vec::new();
        write_data(&[b'x'; MAX_PAYLOAD], &mut longest);
        assert!(longest.starts_with(b"fff0x"));
        check(&longest, &[&"x".repeat(MAX_PAYLOAD)], None);
    }
}
