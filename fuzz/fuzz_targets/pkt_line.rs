//! Input: size of pieces (1 byte), a stream. Cut into packets whole and in pieces, it must be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_protocol::wire::pkt_line::{Decoder, MAX_PAYLOAD, PktLine, text, write_data};
use packrace_protocol::wire::{capabilities, sideband};

fuzz_target!(|input: &[u8]| {
    let [piece, stream @ ..] = input else { return };
    let mut again = Vec::new();
    let whole = packets(std::iter::once(stream), &mut again);
    let pieces = packets(stream.chunks(usize::from(*piece).max(1)), &mut Vec::new());
    assert_eq!(whole, pieces);
    // What was cut out and put together again is the stream, up to the case of hex digits.
    assert!(again.eq_ignore_ascii_case(&stream[..again.len()]));
    for packet in whole.0.iter().flatten() {
        assert!(packet.len() <= MAX_PAYLOAD);
        assert!(text(packet).len() + 1 >= packet.len());
        for word in capabilities::words(packet) {
            capabilities::value(word, "object-format");
        }
        if let Ok((band, rest)) = sideband::split(packet) {
            let mut frame = sideband::frame_header(band, rest.len()).to_vec();
            frame.extend(rest);
            let mut expect = Vec::new();
            write_data(packet, &mut expect);
            assert_eq!(frame, expect);
        }
    }
});

/// The payloads (`None` for the packets without), and whether the stream was refused in the end.
type Packets = (Vec<Option<Vec<u8>>>, Option<String>);

fn packets<'a>(pieces: impl Iterator<Item = &'a [u8]>, again: &mut Vec<u8>) -> Packets {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(PktLine::Data(payload))) => {
                    write_data(payload, again);
                    found.push(Some(payload.to_vec()));
                }
                Ok(Some(other)) => {
                    let digits: &[u8] = match other {
                        PktLine::Flush => b"0000",
                        PktLine::Delim => b"0001",
                        _ => b"0002",
                    };
                    again.extend(digits);
                    found.push(None);
                }
                Ok(None) => break,
                Err(refusal) => return (found, Some(refusal.message().to_string())),
            }
        }
    }
    (found, None)
}
