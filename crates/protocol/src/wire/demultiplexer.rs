//! The receiving side of a side-band (gitprotocol-pack, "Packfile Data").
//!
//! Pack data is passed on as a range of the input buffer, even before its packet is complete. Only the header
//! of a packet and, for band 3, one packet are stored.

use std::ops::Range;

use super::pkt_line::parse_length;
use super::sideband::{Band, FRAME_HEADER_BYTES};
use crate::refusal::Refusal;

/// A part of the received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes belong to the pack.
    Data(Range<usize>),
    /// These bytes are text for the user; the next piece may continue the line.
    Progress(Range<usize>),
    /// The server gave up; this is its last message.
    Fatal(Vec<u8>),
    /// A flush packet: the side-band ends.
    End,
}

/// Why bytes are not a side-band.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadBand {
    /// They are not even packets.
    Packet(Refusal),
    /// A packet of an unknown band.
    Unknown(u8),
    /// A packet without a band.
    Missing,
    /// A delimiter or another special packet.
    NotData,
}

/// The state of a side-band stream.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    head: [u8; FRAME_HEADER_BYTES],
    /// The number of bytes in `head`.
    held: usize,
    /// The number of bytes that the current packet still lacks, and its band.
    rest: usize,
    band: Option<Band>,
    last_words: Vec<u8>,
}

impl Demultiplexer {
    /// The next piece of `bytes` from `*at` on; advances `*at` past it. `None` once all of `bytes` is consumed.
    pub fn next(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Piece>, BadBand> {
        loop {
            if let Some(band) = self.band {
                let here = *at..*at + self.rest.min(bytes.len() - *at);
                self.rest -= here.len();
                *at = here.end;
                if self.rest == 0 {
                    self.band = None;
                }
                match band {
                    Band::Error => self.last_words.extend_from_slice(&bytes[here]),
                    _ if here.is_empty() => {}
                    Band::Data => return Ok(Some(Piece::Data(here))),
                    Band::Progress => return Ok(Some(Piece::Progress(here))),
                }
                if band == Band::Error && self.rest == 0 {
                    return Ok(Some(Piece::Fatal(std::mem::take(&mut self.last_words))));
                }
            }
            let Some(byte) = bytes.get(*at) else { return Ok(None) };
            self.head[self.held] = *byte;
            self.held += 1;
            *at += 1;
            if self.held < 4 {
                continue;
            }
            let length = parse_length(&self.head[..4]).map_err(BadBand::Packet)?;
            match (length, self.held) {
                (0, _) => {
                    self.held = 0;
                    return Ok(Some(Piece::End));
                }
                (1 | 2, _) => return Err(BadBand::NotData),
                (4, _) => return Err(BadBand::Missing),
                (_, 4) => {}
                _ => {
                    self.held = 0;
                    self.rest = length - FRAME_HEADER_BYTES;
                    self.band = Some(match self.head[4] {
                        1 => Band::Data,
                        2 => Band::Progress,
                        3 => Band::Error,
                        other => return Err(BadBand::Unknown(other)),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result of a stream, whole and in pieces: pack, text, last message, whether it ended.
    fn check(stream: &[u8], data: &[u8], text: &[u8], fatal: Option<&[u8]>, end: bool, bad: Option<BadBand>) {
        for step in [stream.len().max(1), 1, 2, 7] {
            let mut demultiplexer = Demultiplexer::default();
            let mut got = (Vec::new(), Vec::new(), None, false, None);
            'stream: for chunk in stream.chunks(step) {
                let mut at = 0;
                loop {
                    match demultiplexer.next(chunk, &mut at) {
                        Ok(Some(Piece::Data(range))) => got.0.extend_from_slice(&chunk[range]),
                        Ok(Some(Piece::Progress(range))) => got.1.extend_from_slice(&chunk[range]),
                        Ok(Some(Piece::Fatal(words))) => got.2 = Some(words),
                        Ok(Some(Piece::End)) => got.3 = true,
                        Ok(None) => break,
                        Err(bad) => {
                            got.4 = Some(bad);
                            break 'stream;
                        }
                    }
                }
                assert_eq!(at, chunk.len());
            }
            let expect = (data.to_vec(), text.to_vec(), fatal.map(<[u8]>::to_vec), end, bad.clone());
            assert_eq!(got, expect, "in steps of {step}");
        }
    }

    #[test]
    fn bands_are_told_apart() {
        check(b"0008\x01abc0005\x010007\x02hi0007\x01de0000", b"abcde", b"hi", None, true, None);
        check(b"0005\x010005\x020000", b"", b"", None, true, None);
        check(b"0006\x01a0009\x03oops", b"a", b"", Some(b"oops"), false, None);
        check(b"0005\x03", b"", b"", Some(b""), false, None);
        check(b"", b"", b"", None, false, None);
        check(b"0009\x01ab", b"ab", b"", None, false, None);
    }

    #[test]
    fn what_is_no_side_band() {
        check(b"0006\x01a0006\x04b", b"a", b"", None, false, Some(BadBand::Unknown(4)));
        check(b"0004", b"", b"", None, false, Some(BadBand::Missing));
        check(b"0001", b"", b"", None, false, Some(BadBand::NotData));
        check(b"0002", b"", b"", None, false, Some(BadBand::NotData));
        check(b"zzzz", b"", b"", None, false, Some(BadBand::Packet(Refusal::bad_length_characters(b"zzzz"))));
        check(b"fff1", b"", b"", None, false, Some(BadBand::Packet(Refusal::bad_length(65521))));
    }

    #[test]
    fn ranges_lie_in_the_buffer_that_was_given() {
        let stream = b"0009\x01abcd0007\x01ef";
        let (mut demultiplexer, mut at) = (Demultiplexer::default(), 0);
        assert_eq!(demultiplexer.next(stream, &mut at), Ok(Some(Piece::Data(5..9))));
        assert_eq!(demultiplexer.next(stream, &mut at), Ok(Some(Piece::Data(14..16))));
        assert_eq!(demultiplexer.next(stream, &mut at), Ok(None));
    }
}
