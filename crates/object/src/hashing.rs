use sha1::Digest as _;

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
        let mut hasher = gix_hash::hasher(hash);
        hasher.update(format!("{kind} {size}\0").as_bytes());
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
    let mut hasher = ObjectHasher::new(hash, kind, content.len() as u64);
    hasher.update(content);
    hasher.finish()
}

/// An object that is to be named.
#[derive(Debug, Clone, Copy)]
pub struct Unnamed<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub content: &'a [u8],
}

/// Appends the names of many objects to `ids`, in their order. If one looks like an attack nothing is appended, and the
/// error says which. Hashing several messages at once in the lanes of wide registers belongs behind this door.
pub fn object_ids(
    hash: HashKind,
    objects: &[Unnamed<'_>],
    ids: &mut Vec<ObjectId>,
) -> Result<(), (usize, CollisionAttack)> {
    let start = ids.len();
    for (number, object) in objects.iter().enumerate() {
        match object_id(hash, object.kind, object.content) {
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
