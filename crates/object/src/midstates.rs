//! Midstates: states of a hasher within an object, from which another object that begins with the same bytes
//! can be hashed.
//!
//! When a file changes, its tree keeps its length, so it has the same header, and the same content up to the
//! file's id. The common part is hashed once.

use std::fmt;
use std::sync::OnceLock;

use crate::HashKind;
use crate::hashing::ObjectHasher;
use crate::kind::Kind;

/// The block size of SHA-1 and SHA-256 (FIPS 180-4, "Preliminaries"): at block ends, hashers continue without
/// copying.
const BLOCK_BYTES: usize = 64;

/// The least distance of midstates, so that they take at most an eighth of the object's length.
const MIN_STEP_BYTES: usize = 1 << 10;

/// The most midstates of an object, minus at most one.
const MAX_STEPS: usize = 32;

/// The midstates of an object, set when it is named; objects below a kibibyte have none.
#[derive(Default)]
pub struct Midstates(OnceLock<Noted>);

struct Noted {
    kind: Kind,
    length: usize,
    states: Vec<ObjectHasher>,
}

/// An object that may begin like another one.
#[derive(Debug, Clone, Copy)]
pub struct Like<'a> {
    /// Its content.
    pub content: &'a [u8],
    /// Its midstates, recorded when it was named.
    pub midstates: &'a Midstates,
}

/// An object without an id yet.
#[derive(Debug, Clone, Copy)]
pub struct Unnamed<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub content: &'a [u8],
    /// An object that may begin alike: the common part is not hashed again.
    pub like: Option<Like<'a>>,
    /// Where to record midstates, for objects that may begin like this one.
    pub notes: Option<&'a Midstates>,
}

impl<'a> Unnamed<'a> {
    /// An object that is hashed on its own.
    pub fn new(kind: Kind, content: &'a [u8]) -> Self {
        Unnamed { kind, content, like: None, notes: None }
    }
}

impl fmt::Debug for Midstates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.get().map(|noted| noted.states.len());
        f.debug_tuple("Midstates").field(&count).finish()
    }
}

/// The offsets of the midstates in a content.
struct MidstateOffsets {
    first: usize,
    step: usize,
    count: usize,
}

impl MidstateOffsets {
    fn of(length: usize, header_bytes: usize) -> Self {
        let step = (length / MAX_STEPS).next_multiple_of(BLOCK_BYTES).max(MIN_STEP_BYTES);
        let first = step - header_bytes;
        let count = if length < first { 0 } else { (length - first) / step + 1 };
        MidstateOffsets { first, step, count }
    }

    fn at(&self, number: usize) -> usize {
        self.first + number * self.step
    }
}

impl<'a> Like<'a> {
    /// The midstates that are also valid for an object with this kind and content.
    fn shared(&self, kind: Kind, content: &[u8], offsets: &MidstateOffsets) -> &'a [ObjectHasher] {
        let fits = |noted: &&Noted| noted.kind == kind && noted.length == content.len();
        let Some(noted) = self.midstates.0.get().filter(fits) else { return &[] };
        let mut at = 0;
        let is_same = |number: &usize| {
            let piece = at..offsets.at(*number);
            at = piece.end;
            self.content[piece.clone()] == content[piece]
        };
        &noted.states[..(0..offsets.count).take_while(is_same).count()]
    }
}

/// Hashes an object, continuing from the last midstate that it shares with `like`.
pub(crate) fn hash_object(hash: HashKind, object: &Unnamed<'_>) -> ObjectHasher {
    let Unnamed { kind, content, like, notes } = *object;
    let header = ObjectHasher::header(kind, content.len() as u64);
    let offsets = MidstateOffsets::of(content.len(), header.len());
    let shared = like.map_or(&[][..], |like| like.shared(kind, content, &offsets));
    let (mut hasher, mut at) = match shared.last() {
        Some(last) => (last.clone(), offsets.at(shared.len() - 1)),
        None => (ObjectHasher::begun_with(hash, &header), 0),
    };
    if let Some(notes) = notes {
        let mut states = Vec::with_capacity(offsets.count);
        states.extend_from_slice(shared);
        for number in shared.len()..offsets.count {
            let end = offsets.at(number);
            hasher.update(&content[at..end]);
            at = end;
            states.push(hasher.clone());
        }
        // Naming an object twice records the same midstates.
        let _ = notes.0.set(Noted { kind, length: content.len(), states });
    }
    hasher.update(&content[at..]);
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_id;

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| ((at * at) >> 5) as u8).collect()
    }

    /// Names `content` like an object named before; returns how many midstates they share.
    fn check(hash: HashKind, before: (Kind, &[u8]), now: (Kind, &[u8])) -> usize {
        let (first, second) = (Midstates::default(), Midstates::default());
        let name = |(kind, content), like, notes| {
            hash_object(hash, &Unnamed { kind, content, like, notes }).finish()
        };
        assert_eq!(name(before, None, Some(&first)), object_id(hash, before.0, before.1));
        let like = Like { content: before.1, midstates: &first };
        let expected = object_id(hash, now.0, now.1);
        assert_eq!(name(now, Some(like), None), expected);
        assert_eq!(name(now, Some(like), Some(&second)), expected);
        // Midstates recorded after continuing are as good as those recorded from the start.
        let again = Like { content: now.1, midstates: &second };
        assert_eq!(name(now, Some(again), None), expected);
        let header = ObjectHasher::header(now.0, now.1.len() as u64);
        let offsets = MidstateOffsets::of(now.1.len(), header.len());
        assert_eq!(again.shared(now.0, now.1, &offsets).len(), offsets.count);
        like.shared(now.0, now.1, &offsets).len()
    }

    #[test]
    fn names_are_those_of_whole_contents() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            for length in [0, 1, 63, 64, 1012, 1013, 1014, 1024, 2036, 2037, 5000, 32 << 10, 100_000] {
                let before = content(length);
                for changed in [0, 1, 1012, 1013, 1014, 2037, 40_000, length.saturating_sub(1)] {
                    let mut now = before.clone();
                    let Some(byte) = now.get_mut(changed) else { continue };
                    *byte ^= 1;
                    let shared = check(hash, (Kind::Tree, &before), (Kind::Tree, &now));
                    let step = if length == 100_000 { 3136 } else { MIN_STEP_BYTES };
                    assert_eq!(
                        shared,
                        (changed + ObjectHasher::header(Kind::Tree, length as u64).len()) / step
                    );
                }
                assert!(check(hash, (Kind::Tree, &before), (Kind::Tree, &before)) <= MAX_STEPS + 1);
            }
        }
    }

    #[test]
    fn others_have_other_headers() {
        let (before, longer) = (content(5000), content(5001));
        assert_eq!(check(HashKind::Sha1, (Kind::Tree, &before), (Kind::Blob, &before)), 0);
        assert_eq!(check(HashKind::Sha1, (Kind::Tree, &before), (Kind::Tree, &longer)), 0);
    }

    #[test]
    fn nothing_is_shared_with_what_was_not_named() {
        let bytes = content(5000);
        let like = Like { content: &bytes, midstates: &Midstates::default() };
        let object = Unnamed { like: Some(like), ..Unnamed::new(Kind::Tree, &bytes) };
        let found = hash_object(HashKind::Sha1, &object).finish();
        assert_eq!(found, object_id(HashKind::Sha1, Kind::Tree, &bytes));
    }
}
