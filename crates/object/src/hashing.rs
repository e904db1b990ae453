use sha1::Digest as _;

use crate::midstates::{Like, Midstates, hash_object};
use crate::{HashKind, Kind, ObjectId};

/// Hashes a trailer of a file or stream that we ourselves produce: hardware SHA-1 without collision detection,
/// or SHA-256. Never used for the name of an object that came from outside.
#[derive(Clone)]
pub enum TrailerHasher {
    /// SHA-1.
    Sha1(sha1::Sha1),
    /// SHA-256.
    Sha256(sha2::Sha256),
}

impl TrailerHasher {
    /// A hasher that has seen no byte yet.
    pub fn new(hash: HashKind) -> Self {
        match hash {
            HashKind::Sha256 => TrailerHasher::Sha256(sha2::Sha256::new()),
            _ => TrailerHasher::Sha1(sha1::Sha1::new()),
        }
    }

    /// Adds `bytes` to what is hashed.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            TrailerHasher::Sha1(hasher) => hasher.update(bytes),
            TrailerHasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of everything that was added.
    pub fn finish(self) -> ObjectId {
        match self {
            TrailerHasher::Sha1(hasher) => ObjectId::Sha1(hasher.finalize().into()),
            TrailerHasher::Sha256(hasher) => ObjectId::Sha256(hasher.finalize().into()),
        }
    }
}

/// The bytes look like an attack on SHA-1: two contents made to share one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("SHA-1 appears to be part of a collision attack")]
pub struct CollisionAttack;

/// Hashes what somebody else has made, the name of an object above all, with detection of SHA-1 collision attacks.
#[derive(Clone)]
pub struct ObjectHasher(gix_hash::Hasher);

impl ObjectHasher {
    /// A hasher that has seen the header `<kind> <size>\0` of an object whose content follows in `update`.
    pub fn new(hash: HashKind, kind: Kind, size: u64) -> Self {
        ObjectHasher::begun_with(hash, &ObjectHasher::header(kind, size))
    }

    /// What an object is hashed behind.
    pub(crate) fn header(kind: Kind, size: u64) -> String {
        format!("{kind} {size}\0")
    }

    pub(crate) fn begun_with(hash: HashKind, header: &str) -> Self {
        let mut hasher = gix_hash::hasher(hash);
        hasher.update(header.as_bytes());
        ObjectHasher(hasher)
    }

    /// A hasher of a whole file or stream that somebody else has made, for its trailer.
    pub fn of_stream(hash: HashKind) -> Self {
        ObjectHasher(gix_hash::hasher(hash))
    }

    /// Adds content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The object's name.
    pub fn finish(self) -> Result<ObjectId, CollisionAttack> {
        self.0.try_finalize().map_err(|_| CollisionAttack)
    }
}

/// The name of the object with this kind and content.
pub fn object_id(hash: HashKind, kind: Kind, content: &[u8]) -> Result<ObjectId, CollisionAttack> {
    hash_object(hash, &Unnamed::new(kind, content)).finish()
}

/// An object that is to be named.
#[derive(Debug, Clone, Copy)]
pub struct Unnamed<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub content: &'a [u8],
    /// An object that it may begin like: it is not hashed again as far as both are the same.
    pub like: Option<Like<'a>>,
    /// Where to note midstates, for those that may begin like this one.
    pub notes: Option<&'a Midstates>,
}

impl<'a> Unnamed<'a> {
    /// An object that is to be named on its own.
    pub fn new(kind: Kind, content: &'a [u8]) -> Self {
        Unnamed { kind, content, like: None, notes: None }
    }
}

/// Appends the names of many objects to `ids`, in their order. If one looks like an attack nothing is appended, and the
/// error says which. An object stands before those that may begin like it. Hashing several messages at once in the lanes of
/// wide registers belongs behind this door.
pub fn object_ids(
    hash: HashKind,
    objects: &[Unnamed<'_>],
    ids: &mut Vec<ObjectId>,
) -> Result<(), (usize, CollisionAttack)> {
    let start = ids.len();
    for (number, object) in objects.iter().enumerate() {
        match hash_object(hash, object).finish() {
            Ok(id) => ids.push(id),
            Err(attack) => {
                ids.truncate(start);
                return Err((number, attack));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_empty_objects() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            assert_eq!(object_id(hash, Kind::Blob, b""), Ok(hash.empty_blob()));
            assert_eq!(object_id(hash, Kind::Tree, b""), Ok(hash.empty_tree()));
        }
    }

    #[test]
    fn trailer_hash_equals_detecting_hash() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let mut trailer = TrailerHasher::new(hash);
            trailer.update(b"blob 5\0he");
            trailer.update(b"llo");
            assert_eq!(Ok(trailer.finish()), object_id(hash, Kind::Blob, b"hello"));
        }
    }
}
