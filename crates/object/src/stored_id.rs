//! Object ids as stored in files, raw or in hex. Refs are listed by the million, so ids are passed on in
//! their stored form and decoded only where necessary.

use std::fmt;

use crate::{HashKind, ObjectId, oid};

const SHA1_BYTES: usize = 20;
const SHA256_BYTES: usize = 32;

/// A borrowed object id: as long as a hash, or twice as long and all hex digits, possibly in upper case.
#[derive(Clone, Copy)]
pub struct StoredId<'a>(&'a [u8]);

const SHA1_DIGITS: usize = 2 * SHA1_BYTES;
const SHA256_DIGITS: usize = 2 * SHA256_BYTES;

impl<'a> StoredId<'a> {
    /// The id that starts at `at`.
    #[inline]
    pub fn raw(bytes: &'a [u8], at: usize, hash: HashKind) -> Option<Self> {
        let rest = bytes.get(at..)?;
        Some(StoredId(match hash {
            HashKind::Sha256 => rest.first_chunk::<SHA256_BYTES>()?,
            _ => rest.first_chunk::<SHA1_BYTES>()?,
        }))
    }

    /// The hex id that starts at `at`; upper case is accepted, as in git.
    #[inline]
    pub fn hex(bytes: &'a [u8], at: usize, hash: HashKind) -> Option<Self> {
        let rest = bytes.get(at..)?;
        Some(StoredId(match hash {
            HashKind::Sha256 => digits::<SHA256_DIGITS>(rest)?,
            _ => digits::<SHA1_DIGITS>(rest)?,
        }))
    }

    /// The owned id.
    #[inline]
    pub fn to_id(self) -> ObjectId {
        match self.0.len() {
            SHA1_BYTES => ObjectId::Sha1(whole(self.0)),
            SHA256_BYTES => ObjectId::Sha256(whole(self.0)),
            SHA1_DIGITS => ObjectId::Sha1(decoded(self.0)),
            _ => ObjectId::Sha256(decoded(self.0)),
        }
    }

    /// Whether this is the null id.
    #[inline]
    pub fn is_null(self) -> bool {
        let zero = if self.is_hex() { b'0' } else { 0 };
        self.0.iter().all(|byte| *byte == zero)
    }

    fn is_hex(self) -> bool {
        matches!(self.0.len(), SHA1_DIGITS | SHA256_DIGITS)
    }

    /// The length in hex.
    #[inline]
    pub fn hex_len(self) -> usize {
        if self.is_hex() { self.0.len() } else { 2 * self.0.len() }
    }

    /// Appends the id in lower-case hex.
    #[inline]
    pub fn write_hex(self, out: &mut Vec<u8>) {
        // Constant lengths let the compiler vectorize.
        match self.0.len() {
            SHA1_DIGITS => out.extend_from_slice(&lower::<SHA1_DIGITS>(self.0)),
            SHA1_BYTES => out.extend_from_slice(encoded::<SHA1_BYTES>(self.0).as_flattened()),
            SHA256_DIGITS => out.extend_from_slice(&lower::<SHA256_DIGITS>(self.0)),
            _ => out.extend_from_slice(encoded::<SHA256_BYTES>(self.0).as_flattened()),
        }
    }
}

impl<'a> From<&'a oid> for StoredId<'a> {
    #[inline]
    fn from(id: &'a oid) -> Self {
        StoredId(id.as_bytes())
    }
}

impl<'a> From<&'a ObjectId> for StoredId<'a> {
    #[inline]
    fn from(id: &'a ObjectId) -> Self {
        StoredId(id.as_slice())
    }
}

impl PartialEq for StoredId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_id() == other.to_id()
    }
}

impl Eq for StoredId<'_> {}

impl fmt::Debug for StoredId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_id().fmt(f)
    }
}

/// Without branches and tables, like the code below, so that the compiler vectorizes it.
#[inline]
fn digits<const HEX: usize>(bytes: &[u8]) -> Option<&[u8; HEX]> {
    let hex: &[u8; HEX] = bytes.first_chunk()?;
    let wrong = hex.iter().fold(0, |wrong, digit| wrong | value(*digit));
    (wrong < 16).then_some(hex)
}

/// The value of a hex digit; 0xff for any other byte.
#[inline]
fn value(digit: u8) -> u8 {
    let number = digit.wrapping_sub(b'0');
    let letter = (digit | 0x20).wrapping_sub(b'a');
    let value = if letter < 6 { letter + 10 } else { 0xff };
    if number < 10 { number } else { value }
}

#[inline]
fn whole<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    *bytes.first_chunk().expect("as long as was checked")
}

#[inline]
fn decoded<const BYTES: usize>(hex: &[u8]) -> [u8; BYTES] {
    let mut id = [0; BYTES];
    for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    id
}

#[inline]
fn lower<const HEX: usize>(hex: &[u8]) -> [u8; HEX] {
    let mut digits: [u8; HEX] = whole(hex);
    for digit in &mut digits {
        // Decimal digits have this bit, too.
        *digit |= 0x20;
    }
    digits
}

#[inline]
fn encoded<const BYTES: usize>(raw: &[u8]) -> [[u8; 2]; BYTES] {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut pairs = [[0; 2]; BYTES];
    for (pair, byte) in pairs.iter_mut().zip(whole::<BYTES>(raw)) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    pairs
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
                        StoredId::hex(&text, 0, kind).map(StoredId::to_id),
                        ObjectId::from_hex(&text[..length]).ok(),
                        "{byte} at {at}"
                    );
                }
                text[at] = before;
            }
            assert_eq!(StoredId::hex(&text[..length + 2], 3, kind), None);
            assert_eq!(StoredId::hex(&text, 71, kind), None);
            let id = StoredId::hex(&text, 3, kind).unwrap().to_id();
            let bytes = [b"xyz", id.as_slice()].concat();
            assert_eq!(StoredId::raw(&bytes, 3, kind), Some(StoredId::from(&id)));
            assert_eq!(StoredId::raw(id.as_slice(), 1, kind), None);
            assert_eq!(StoredId::raw(id.as_slice(), 99, kind), None);
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        for kind in [HashKind::Sha1, HashKind::Sha256] {
            for byte in 0..=255 {
                let id = ObjectId::try_from(&vec![byte; kind.len_in_bytes()][..]).unwrap();
                for text in [id.to_string(), id.to_string().to_uppercase()] {
                    for stored in [StoredId::from(&id), StoredId::hex(text.as_bytes(), 0, kind).unwrap()] {
                        let mut out = b"-".to_vec();
                        stored.write_hex(&mut out);
                        assert_eq!((out.len(), &out[1..]), (1 + stored.hex_len(), id.to_string().as_bytes()));
                        assert_eq!((stored.to_id(), stored.is_null()), (id, byte == 0));
                        assert_eq!((stored, format!("{stored:?}")), (StoredId::from(&id), format!("{id:?}")));
                    }
                }
            }
        }
    }
}
