//! What a file system monitor has said (gitformat-index, "File System Monitor cache").

use super::until;
use crate::be;
use crate::bitmap::{Ewah, EwahBuf};

/// The version that is written.
const VERSION: u32 = 2;

/// The extension `FSMN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitored {
    /// What the monitor called the state that it was last asked for; its answers are about changes since.
    pub token: Vec<u8>,
    /// The positions of entries whose files may have changed before; ascending.
    pub dirty: Vec<u32>,
}

impl Monitored {
    /// `None` if it is damaged, or not of an index with so many entries.
    pub(super) fn decode(bytes: &[u8], entries: u32) -> Option<Self> {
        let (version, mut rest) = (be::u32_at(bytes.get(..4)?, 0), &bytes[4..]);
        let token = match version {
            // A time in nanoseconds, which is what readers of version 2 take for the first token.
            1 => {
                let time: [u8; 8] = *rest.first_chunk()?;
                rest = &rest[8..];
                u64::from_be_bytes(time).to_string().into_bytes()
            }
            VERSION => until(&mut rest, 0)?.to_vec(),
            _ => return None,
        };
        let length = be::u32_at(rest.get(..4)?, 0) as usize;
        let bitmap = rest.get(4..).filter(|bitmap| bitmap.len() == length)?;
        let (set, end) = Ewah::parse(bitmap, 0, length).ok()?;
        let dirty = set.to_bits(entries).ok().filter(|_| end == length)?;
        Some(Monitored { token, dirty: dirty.iter_ones().collect() })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.token);
        out.push(0);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        EwahBuf::from_ascending(self.dirty.iter().copied()).write(out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As git writes it: of four entries, the second may have changed.
    const GITS: &[u8] =
        b"\0\0\0\x02tok10\0\0\0\0\x1c\0\0\0\x02\0\0\0\x02\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0";

    #[test]
    fn gits_is_read_and_written_alike() {
        let read = Monitored::decode(GITS, 4).unwrap();
        assert_eq!(read, Monitored { token: b"tok10".to_vec(), dirty: vec![1] });
        let mut written = Vec::new();
        read.encode(&mut written);
        assert_eq!(written, GITS);
        let old = [&b"\0\0\0\x01\0\0\0\0\0\0\0\x2a"[..], &GITS[10..]].concat();
        assert_eq!(Monitored::decode(&old, 4), Some(Monitored { token: b"42".to_vec(), dirty: vec![1] }));
        let clean = Monitored { token: Vec::new(), dirty: Vec::new() };
        written.clear();
        clean.encode(&mut written);
        assert_eq!(Monitored::decode(&written, 0), Some(clean));
    }

    #[test]
    fn damage_is_no_data() {
        for end in 0..GITS.len() {
            assert_eq!(Monitored::decode(&GITS[..end], 4), None, "{end}");
        }
        assert_eq!(Monitored::decode(&[GITS, b"x"].concat(), 4), None);
        for at in 0..GITS.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = GITS.to_vec();
                bytes[at] ^= flip;
                if let Some(read) = Monitored::decode(&bytes, 4) {
                    assert!(read.dirty.iter().all(|position| *position < 64), "{at}");
                }
            }
        }
    }
}
