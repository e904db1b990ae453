use sha1::Digest as _;

use crate::kind::Kind;
use crate::{HashKind, ObjectId};

/// Hashes the trailer of a file or stream that we make: hardware SHA-1 without collision detection, or
/// SHA-256. Never used for the id of an object from outside.
#[derive(Clone)]
pub struct TrailerHasher(HardwareHasher);

#[derive(Clone)]
enum HardwareHasher {
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl TrailerHasher {
    /// A hasher without input.
    pub fn new(hash: HashKind) -> Self {
        TrailerHasher(match hash {
            HashKind::Sha256 => HardwareHasher::Sha256(sha2::Sha256::new()),
            _ => HardwareHasher::Sha1(sha1::Sha1::new()),
        })
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            HardwareHasher::Sha1(hasher) => hasher.update(bytes),
            HardwareHasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of all added bytes.
    pub fn finish(self) -> ObjectId {
        match self.0 {
            HardwareHasher::Sha1(hasher) => ObjectId::Sha1(hasher.finalize().into()),
            HardwareHasher::Sha256(hasher) => ObjectId::Sha256(hasher.finalize().into()),
        }
    }
}

/// The bytes look like a collision attack on SHA-1: two contents made to have one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("SHA-1 appears to be part of a collision attack")]
pub struct CollisionAttack;

/// Hashes bytes from outside, mostly to name objects, with detection of SHA-1 collision attacks.
#[derive(Clone)]
pub struct ObjectHasher(gix_hash::Hasher);

impl ObjectHasher {
    /// A hasher with the object header `<kind> <size>\0` as input; `update` adds the content.
    pub fn new(hash: HashKind, kind: Kind, size: u64) -> Self {
        ObjectHasher::begun_with(hash, &ObjectHasher::header(kind, size))
    }

    /// The header that is hashed before an object's content.
    pub(crate) fn header(kind: Kind, size: u64) -> String {
        format!("{kind} {size}\0")
    }

    pub(crate) fn begun_with(hash: HashKind, header: &str) -> Self {
        let mut hasher = gix_hash::hasher(hash);
        hasher.update(header.as_bytes());
        ObjectHasher(hasher)
    }

    /// A hasher for the trailer of a file or stream from outside.
    pub fn of_stream(hash: HashKind) -> Self {
        ObjectHasher(gix_hash::hasher(hash))
    }

    /// Adds content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of the object.
    pub fn finish(self) -> Result<ObjectId, CollisionAttack> {
        self.0.try_finalize().map_err(|_| CollisionAttack)
    }
}
