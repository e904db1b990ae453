//! What the bytes of a pack depend on, in 96 bytes.

use std::hash::{Hash as _, Hasher};

use packrace_object::{HashKind, TrailerHasher};
use packrace_pack::PackRequest;
use packrace_store::Snapshot;

/// What the bytes of a pack depend on. Requests with the same key get the same pack.
///
/// - `repository`: its object directory.
/// - `snapshot`: the versions of the packs, indexes, bitmaps and commit-graphs that it is answered from, the
///   alternates they come from, and where the repository's own history is cut ([`Snapshot::hash_version`]).
/// - `request`: what is requested, whatever the order and repetitions, and how packs are made; not on how
///   many threads.
///
/// The key leaves out:
/// - refs: wants are ids, and access to them is checked before; the tags of `include-tag` are in the request;
/// - loose objects: an id always names the same content, and the wanted objects were found. An object that
///   was added since can make a fresh answer shorter, because a have that was skipped before is known now.
///   The kept answer then holds more than necessary, and all that is needed;
/// - attributes: they decide which deltas are made, not what is sent.
///
/// All of it is derived with `Hash`, so that new fields are in the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) repository: Digest,
    pub(super) snapshot: Digest,
    pub(super) request: Digest,
}

/// SHA-256, so that no request can be crafted to get the pack of another one.
pub(super) type Digest = [u8; 32];

impl Key {
    /// The key of a request to a snapshot.
    pub fn of(snapshot: &Snapshot, request: &PackRequest) -> Self {
        let request = normal(request);
        Key {
            repository: digest(|hasher| snapshot.hash_place(hasher)),
            snapshot: digest(|hasher| snapshot.hash_version(hasher)),
            request: digest(|hasher| request.hash(hasher)),
        }
    }
}

/// The number under which deltas of a repository are kept.
pub(super) fn repository_number(snapshot: &Snapshot) -> u128 {
    let place = digest(|hasher| snapshot.hash_place(hasher));
    let mut number = [0; 16];
    number.copy_from_slice(&place[..16]);
    u128::from_le_bytes(number)
}

/// The normal form of a request, which equal requests share.
fn normal(request: &PackRequest) -> PackRequest {
    let mut normal = request.clone();
    for ids in [&mut normal.wants, &mut normal.haves, &mut normal.shallow, &mut normal.excluded] {
        ids.sort_unstable();
        ids.dedup();
    }
    normal.tags.sort_unstable();
    normal.tags.dedup();
    normal.threads = 0;
    normal.settings.threads = 0;
    normal
}

fn digest(feed: impl FnOnce(&mut KeyHasher)) -> Digest {
    let mut hasher = KeyHasher(TrailerHasher::new(HashKind::Sha256));
    feed(&mut hasher);
    let id = hasher.0.finish();
    let mut digest = Digest::default();
    digest.copy_from_slice(id.as_slice());
    digest
}

/// Hashes with SHA-256. `Hash` is derived, so lengths and variants are hashed too, and no two values feed the
/// same bytes.
struct KeyHasher(TrailerHasher);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("the digest is asked for, not a number")
    }
}

#[cfg(test)]
mod tests {
    use packrace_object::ObjectId;
    use packrace_pack::filter::Filter;
    use packrace_pack::plan::MissingObjects;

    use super::*;

    fn of(request: &PackRequest) -> Digest {
        let request = normal(request);
        digest(|hasher| request.hash(hasher))
    }

    fn id(byte: u8) -> ObjectId {
        ObjectId::Sha1([byte; 20])
    }

    #[test]
    fn order_repetition_and_threads_make_no_difference() {
        let first = PackRequest {
            wants: vec![id(1), id(2)],
            haves: vec![id(3), id(4)],
            tags: vec![(id(5), id(1)), (id(6), id(2))],
            threads: 1,
            ..PackRequest::default()
        };
        let mut second = PackRequest {
            wants: vec![id(2), id(1), id(2)],
            haves: vec![id(4), id(4), id(3)],
            tags: vec![(id(6), id(2)), (id(5), id(1))],
            threads: 8,
            ..PackRequest::default()
        };
        second.settings.threads = 8;
        assert_eq!(of(&first), of(&second));
    }

    #[test]
    fn everything_else_does() {
        let plain = PackRequest { wants: vec![id(1)], ..PackRequest::default() };
        let changes: [fn(&mut PackRequest); 14] = [
            |request| request.wants.push(id(2)),
            |request| request.haves.push(id(2)),
            // The same ids in another field.
            |request| request.haves = std::mem::take(&mut request.wants),
            |request| request.shallow.push(id(2)),
            |request| request.excluded.push(id(2)),
            |request| request.tags.push((id(2), id(1))),
            |request| request.thin = true,
            |request| request.ofs_delta = true,
            |request| request.missing = MissingObjects::Promised,
            |request| request.filter = Some(Filter::BlobNone),
            |request| request.filter = Some(Filter::BlobLimit(1)),
            |request| request.filter = Some(Filter::BlobLimit(2)),
            |request| request.settings.depth = 3,
            |request| request.settings.compression = 9,
        ];
        let mut digests = vec![of(&plain)];
        for change in changes {
            let mut request = plain.clone();
            change(&mut request);
            digests.push(of(&request));
        }
        let count = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }
}
