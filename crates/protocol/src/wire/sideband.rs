//! Side-band packets (gitprotocol-pack, "Packfile Data"): the first byte of a payload names a band.

use super::pkt_line::{self, MAX_PAYLOAD};
use crate::refusal::Refusal;

/// Band bytes in a full frame of side-band-64k.
pub const LARGE_FRAME_PAYLOAD: usize = MAX_PAYLOAD - 1;

/// Band bytes in a full frame of side-band.
pub const SMALL_FRAME_PAYLOAD: usize = 995;

/// An empty packet in band 1: no pack data, but keeps the connection alive.
pub const KEEPALIVE: &[u8] = b"0005\x01";

/// An empty packet in band 2: the keepalive before the pack (gitprotocol-v2, "sideband-all").
pub const EARLY_KEEPALIVE: &[u8] = b"0005\x02";

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// The pack.
    Data = 1,
    /// Text for the user.
    Progress = 2,
    /// The last message of a server that gives up.
    Error = 3,
}

/// The length of the header before a payload: the digits of the pkt-line and the band.
pub const FRAME_HEADER_BYTES: usize = 5;

/// The header before a payload of this length.
pub fn frame_header(band: Band, payload_len: usize) -> [u8; FRAME_HEADER_BYTES] {
    let [a, b, c, d] = pkt_line::length_digits(payload_len + FRAME_HEADER_BYTES);
    [a, b, c, d, band as u8]
}

/// Appends `text` in as many packets as it needs.
pub fn write_packets(band: Band, text: &[u8], max_payload: usize, out: &mut Vec<u8>) {
    for chunk in text.chunks(max_payload) {
        out.extend_from_slice(&frame_header(band, chunk.len()));
        out.extend_from_slice(chunk);
    }
}

/// Moves the packets appended to `out` from `start` on into band 1; flush and delimiter packets stay
/// unchanged (gitprotocol-v2, "sideband-all"). Each payload must leave room for the band.
pub fn multiplex(out: &mut Vec<u8>, start: usize) {
    let packets = out.split_off(start);
    let mut rest = packets.as_slice();
    while let Some((digits, after)) = rest.split_at_checked(4) {
        let length = digits.iter().fold(0, |length, digit| length << 4 | hex_value(*digit));
        let (payload, after) = after.split_at(length.saturating_sub(4));
        if length < 4 {
            out.extend_from_slice(digits);
        } else {
            out.extend_from_slice(&frame_header(Band::Data, payload.len()));
            out.extend_from_slice(payload);
        }
        rest = after;
    }
}

fn hex_value(digit: u8) -> usize {
    char::from(digit).to_digit(16).map_or(0, |value| value as usize)
}

/// Splits the band off a payload: the receiving side.
pub fn split(payload: &[u8]) -> Result<(Band, &[u8]), Refusal> {
    match payload {
        [1, rest @ ..] => Ok((Band::Data, rest)),
        [2, rest @ ..] => Ok((Band::Progress, rest)),
        [3, rest @ ..] => Ok((Band::Error, rest)),
        other => Err(Refusal::bad_band(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_into_band_1() {
        let mut out = b"0005x".to_vec();
        out.extend_from_slice(b"0006ab00010009000000000");
        multiplex(&mut out, 5);
        assert_eq!(out, b"0005x0007\x01ab0001000a\x01000000000");
    }

    #[test]
    fn text_is_cut_and_read_back() {
        let text = b"abcdefg";
        let mut out = Vec::new();
        write_packets(Band::Progress, text, 3, &mut out);
        assert_eq!(out, b"0008\x02abc0008\x02def0006\x02g");
        let mut decoder = pkt_line::Decoder::default();
        decoder.push(&out);
        let mut back = Vec::new();
        while let Some(pkt_line::PktLine::Data(payload)) = decoder.next().unwrap() {
            let (band, rest) = split(payload).unwrap();
            assert_eq!(band, Band::Progress);
            back.extend_from_slice(rest);
        }
        assert_eq!(back, text);
        assert_eq!(frame_header(Band::Data, LARGE_FRAME_PAYLOAD), *b"fff0\x01");
        assert!(split(b"").is_err() && split(b"\x04x").is_err());
    }
}
