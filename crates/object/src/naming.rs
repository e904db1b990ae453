//! Computes the ids of whole objects.

use crate::hashing::CollisionAttack;
use crate::kind::Kind;
use crate::midstates::{Unnamed, hash_object};
use crate::{HashKind, ObjectId};

/// The id of the object with this kind and content.
pub fn object_id(hash: HashKind, kind: Kind, content: &[u8]) -> Result<ObjectId, CollisionAttack> {
    hash_object(hash, &Unnamed::new(kind, content)).finish()
}

/// Appends the ids of many objects to `ids`, in order. If one looks like an attack, nothing is appended, and
/// the error has its index. Put an object before those that may begin like it. Code that hashes several
/// messages at once in the lanes of wide registers would go here.
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
    use crate::hashing::TrailerHasher;

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
