//! Object ids as files hold them, raw or in hex. Refs are read by the million, so these are inlined and free of calls.

use packrace_object::{HashKind, ObjectId};

const SHA1_BYTES: usize = 20;
const SHA256_BYTES: usize = 32;

/// The id that starts at `at`.
#[inline]
pub(crate) fn raw(bytes: &[u8], at: usize, hash: HashKind) -> Option<ObjectId> {
    let rest = bytes.get(at..)?;
    Some(match hash {
        HashKind::Sha256 => ObjectId::Sha256(*rest.first_chunk()?),
        _ => ObjectId::Sha1(*rest.first_chunk()?),
    })
}

/// The id that starts at `at` in hex, which may be upper case as in git.
#[inline]
pub(crate) fn hex(bytes: &[u8], at: usize, hash: HashKind) -> Option<ObjectId> {
    let rest = bytes.get(at..)?;
    Some(match hash {
        HashKind::Sha256 => ObjectId::Sha256(decode::<{ 2 * SHA256_BYTES }, SHA256_BYTES>(rest)?),
        _ => ObjectId::Sha1(decode::<{ 2 * SHA1_BYTES }, SHA1_BYTES>(rest)?),
    })
}

/// Without a branch or a table inside, so that the compiler makes vectors of it.
#[inline]
fn decode<const HEX: usize, const BYTES: usize>(bytes: &[u8]) -> Option<[u8; BYTES]> {
    let hex: &[u8; HEX] = bytes.first_chunk()?;
    let mut nibbles = [0; HEX];
    let mut wrong = 0;
    for (nibble, digit) in nibbles.iter_mut().zip(hex) {
        let number = digit.wrapping_sub(b'0');
        let letter = (digit | 0x20).wrapping_sub(b'a');
        let value = if letter < 6 { letter + 10 } else { 0xff };
        *nibble = if number < 10 { number } else { value };
        wrong |= *nibble;
    }
    let mut id = [0; BYTES];
    for (byte, pair) in id.iter_mut().zip(nibbles.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    (wrong < 16).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place() {
        for kind in [HashKind::Sha1, HashKind::Sha256] {
            let mut text: Vec<u8> = b"0123456789abcdefABCDEF".iter().copied().cycle().take(70).collect();
            let length = kind.len_in_hex();
            for at in 0..length {
                let before = text[at];
                for byte in 0..=255 {
                    text[at] = byte;
                    assert_eq!(
                        hex(&text, 0, kind),
                        ObjectId::from_hex(&text[..length]).ok(),
                        "{byte} at {at}"
                    );
                }
                text[at] = before;
            }
            assert_eq!(hex(&text[..length + 2], 3, kind), None);
            assert_eq!(hex(&text, 71, kind), None);
            let id = hex(&text, 3, kind).unwrap();
            assert_eq!(raw(&[b"xyz", id.as_slice()].concat(), 3, kind), Some(id));
            assert_eq!(raw(id.as_slice(), 1, kind), None);
            assert_eq!(raw(id.as_slice(), 99, kind), None);
        }
    }
}
