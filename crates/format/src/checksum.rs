//! The checksum at the end of nearly every file of git: the hash of everything before it.

use packrace_object::{HashKind, ObjectId, TrailerHasher, oid};

use crate::Error;

/// The checksum at the end of `bytes`, which must be long enough.
pub(crate) fn trailer(bytes: &[u8], hash: HashKind) -> ObjectId {
    oid::from_bytes_unchecked(&bytes[bytes.len() - hash.len_in_bytes()..]).to_owned()
}

/// Appends the checksum of `out`.
pub(crate) fn append(out: &mut Vec<u8>, hash: HashKind) {
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(out);
    out.extend_from_slice(hasher.finish().as_slice());
}

/// Hashes `bytes` up to the checksum and compares the two.
pub(crate) fn verify(format: &'static str, bytes: &[u8], hash: HashKind) -> Result<(), Error> {
    let end = bytes.len() - hash.len_in_bytes();
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&bytes[..end]);
    if hasher.finish() == trailer(bytes, hash) {
        Ok(())
    } else {
        Err(Error::new(format, "checksum does not match the content", end as u64))
    }
}

/// The number of a hash in idx companions, multi-pack-indexes and commit-graphs.
pub(crate) fn hash_number(hash: HashKind) -> u8 {
    if hash == HashKind::Sha256 { 2 } else { 1 }
}
