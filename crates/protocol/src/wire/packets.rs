//! Packets from a borrowed buffer: complete packets are not copied.

use super::pkt_line::{PktLine, packet, parse_length, whole};
use crate::refusal::Refusal;

/// Splits a stream into packets. Stores only an incomplete packet: 65,520 bytes at most.
#[derive(Debug, Default)]
pub struct Packets {
    /// The beginning of a packet, or the whole packet that was returned last.
    kept: Vec<u8>,
    is_kept_out: bool,
}

impl Packets {
    /// The next packet of `bytes` from `*at` on; advances `*at` past it. `None` once all of `bytes` is consumed and
    /// the packet is incomplete.
    pub fn next<'a>(&'a mut self, bytes: &'a [u8], at: &mut usize) -> Result<Option<PktLine<'a>>, Refusal> {
        if std::mem::take(&mut self.is_kept_out) {
            self.kept.clear();
        }
        if self.kept.is_empty() {
            let rest = &bytes[*at..];
            match whole(rest)? {
                Some(length) => {
                    *at += length;
                    return Ok(Some(packet(&rest[..length])));
                }
                None => {
                    self.kept.extend_from_slice(rest);
                    *at = bytes.len();
                    return Ok(None);
                }
            }
        }
        for _ in 0..2 {
            // First the digits, then the payload.
            let wanted = match self.kept.get(..4) {
                Some(digits) => parse_length(digits)?.max(4),
                None => 4,
            };
            let missing = (wanted - self.kept.len()).min(bytes.len() - *at);
            self.kept.extend_from_slice(&bytes[*at..*at + missing]);
            *at += missing;
        }
        match whole(&self.kept)? {
            Some(_) => {
                self.is_kept_out = true;
                Ok(Some(packet(&self.kept)))
            }
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &[u8], expect: &[&str], error: Option<&str>) {
        for step in [stream.len().max(1), 1, 3] {
            let (mut packets, mut got, mut failed) = (Packets::default(), Vec::new(), None);
            'stream: for chunk in stream.chunks(step) {
                let mut at = 0;
                loop {
                    match packets.next(chunk, &mut at) {
                        Ok(Some(PktLine::Data(data))) => got.push(String::from_utf8_lossy(data).into_owned()),
                        Ok(Some(other)) => got.push(format!("{other:?}")),
                        Ok(None) => break,
                        Err(refusal) => {
                            failed = Some(refusal.message().to_owned());
                            break 'stream;
                        }
                    }
                }
                assert_eq!(at, chunk.len(), "all is taken");
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
        check(b"0003", &[], Some("protocol error: bad line length 3"));
        check(b"fff1", &[], Some("protocol error: bad line length 65521"));
    }
}
