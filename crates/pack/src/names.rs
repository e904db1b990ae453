use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use crate::request_objects::ObjectNo;

/// A 32-bit hash of a path; sorted by it, files with the same ending are adjacent.
///
/// The value in the name-hash cache of bitmaps (gitformat-bitmap, "Name-hash cache"): of all bytes but white
/// space, the last 16 count, the last one most. Zero for objects without a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameHash(pub u32);

impl NameHash {
    /// The hash of a whole path.
    pub fn of(path: &[u8]) -> Self {
        NameHash::default().then(path)
    }

    /// The hash of a path, extended by these bytes.
    #[inline]
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> Self {
        let visible = bytes.iter().filter(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
        NameHash(visible.fold(self.0, |hash, byte| (hash >> 2).wrapping_add(u32::from(*byte) << 24)))
    }

    /// The hash of an entry in the directory with this hash.
    #[inline]
    #[must_use]
    pub fn entry(self, name: &[u8]) -> Self {
        if self == NameHash::default() { self.then(name) } else { self.then(b"/").then(name) }
    }

    /// The same, by the given version.
    #[inline]
    #[must_use]
    pub fn entry_by(self, version: NameHashVersion, name: &[u8]) -> Self {
        match version {
            NameHashVersion::V1 => self.entry(name),
            NameHashVersion::V2 => NameHash(NameHash::of(name).0.wrapping_add(self.0 >> 6)),
            // The upper half of version 1 needs nothing of its lower half.
            NameHashVersion::ByPath => {
                let ending = self.ending().entry(name).0 & ENDING;
                let bytes = std::iter::once(&b'/').chain(name);
                let path =
                    bytes.fold(self.0, |path, byte| path.wrapping_mul(0x93).wrapping_add(u32::from(*byte)));
                NameHash(ending | path & !ENDING)
            }
        }
    }

    /// The part of [`NameHashVersion::ByPath`] that says how the path ends.
    pub(crate) fn ending(self) -> Self {
        NameHash(self.0 & ENDING)
    }

    /// The hash of a whole path by the given version.
    pub fn of_by(version: NameHashVersion, path: &[u8]) -> Self {
        match version {
            NameHashVersion::V1 => NameHash::of(path),
            NameHashVersion::V2 | NameHashVersion::ByPath => path
                .split(|byte| *byte == b'/')
                .fold(NameHash::default(), |dir, name| dir.entry_by(version, name)),
        }
    }
}

/// The bits of [`NameHashVersion::ByPath`] that are those of version 1.
const ENDING: u32 = 0xffff_0000;

/// How paths are hashed for the delta search (git-pack-objects, "--name-hash-version" and "--path-walk").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum NameHashVersion {
    /// As stored in bitmaps: the last bytes of the path. Files of one name in many directories become
    /// adjacent.
    #[default]
    V1,
    /// The last bytes of the name, then those of its directories, which separate files of one name. Only used
    /// for sorting, so it need not equal git's number.
    V2,
    /// The upper half of version 1, then a hash of the whole path: objects are compared with those of the same path
    /// first, and then with those whose paths end alike (`--path-walk`).
    ByPath,
}

/// Packed objects per chunk, which takes 4 KiB.
const CHUNK: usize = 1024;

/// The name hashes of objects found by a walk; several threads write.
///
/// A chunk of packed objects is allocated when the first of its names is set: a small fetch from a repository
/// of 60 million objects must not take 240 MB.
#[derive(Debug)]
pub(crate) struct Names {
    version: NameHashVersion,
    packed: Vec<OnceLock<Box<[AtomicU32]>>>,
    extra: Mutex<HashMap<ObjectNo, NameHash>>,
}

impl Names {
    /// Names for `packed_end` packed objects and any number of others.
    pub(crate) fn new(packed_end: u32) -> Self {
        let chunks = (packed_end as usize).div_ceil(CHUNK);
        let packed = (0..chunks).map(|_| OnceLock::new()).collect();
        Names { version: NameHashVersion::default(), packed, extra: Mutex::default() }
    }

    /// The same, with this version of the hash.
    pub(crate) fn by(self, version: NameHashVersion) -> Self {
        Names { version, ..self }
    }

    pub(crate) fn version(&self) -> NameHashVersion {
        self.version
    }

    /// The hash of an entry of a directory.
    #[inline]
    pub(crate) fn entry(&self, directory: NameHash, name: &[u8]) -> NameHash {
        directory.entry_by(self.version, name)
    }

    #[inline]
    pub(crate) fn set(&self, ix: ObjectNo, name: NameHash) {
        let at = ix.0 as usize;
        match self.packed.get(at / CHUNK) {
            Some(chunk) => {
                let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU32::new(0)).collect());
                chunk[at % CHUNK].store(name.0, Relaxed);
            }
            None => {
                self.extra.lock().expect("no panic while held").insert(ix, name);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, ix: ObjectNo) -> NameHash {
        let at = ix.0 as usize;
        match self.packed.get(at / CHUNK) {
            Some(chunk) => NameHash(chunk.get().map_or(0, |chunk| chunk[at % CHUNK].load(Relaxed))),
            None => self.extra.lock().expect("no panic while held").get(&ix).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_continue_the_path() {
        let check = |path: &[&str], expect: &str| {
            let hash = path.iter().fold(NameHash::default(), |hash, name| hash.entry(name.as_bytes()));
            assert_eq!(hash, NameHash::of(expect.as_bytes()), "{path:?}");
        };
        check(&[], "");
        check(&["Makefile"], "Makefile");
        check(&["t", "test-lib.sh"], "t/test-lib.sh");
        check(&["a b", "c\td"], "ab/cd");
        assert_eq!(NameHash::of(b"a"), NameHash(0x61 << 24));
        assert_eq!(NameHash::of(b"ab"), NameHash((0x61 << 22) + (0x62 << 24)));
    }

    #[test]
    fn directories_part_files_of_one_name() {
        let by = NameHashVersion::V2;
        let [one, other] =
            ["one/dir/Makefile", "another/Makefile"].map(|path| NameHash::of_by(by, path.as_bytes()));
        assert_ne!(one, other);
        assert_eq!(one.0 >> 26, other.0 >> 26, "they stay near");
        let step = NameHash::default().entry_by(by, b"one").entry_by(by, b"dir").entry_by(by, b"Makefile");
        assert_eq!(step, one);
        assert_eq!(NameHash::of_by(NameHashVersion::V1, b"a/b"), NameHash::of(b"a/b"));
    }

    #[test]
    fn paths_that_end_alike_are_parted_but_stay_adjacent() {
        let by = NameHashVersion::ByPath;
        let paths = ["a/configuration.json", "b/configuration.json", "c/d/configuration.json", "Makefile"];
        let [one, two, three, other] = paths.map(|path| NameHash::of_by(by, path.as_bytes()));
        assert!(one != two && two != three && one != three);
        for path in paths {
            let by_path = NameHash::of_by(by, path.as_bytes());
            assert_eq!(by_path.0 & ENDING, NameHash::of(path.as_bytes()).0 & ENDING);
        }
        assert!(one.0 & ENDING == three.0 & ENDING && one.0 & ENDING != other.0 & ENDING);
        let step =
            NameHash::default().entry_by(by, b"c").entry_by(by, b"d").entry_by(by, b"configuration.json");
        assert_eq!(step, three);
    }

    #[test]
    fn names_are_kept_whether_packed_or_not() {
        let names = Names::new(CHUNK as u32 + 1);
        let far = 3 * CHUNK as u32;
        for ix in [0, CHUNK as u32 - 1, CHUNK as u32, far] {
            assert_eq!(names.get(ObjectNo(ix)), NameHash::default());
            names.set(ObjectNo(ix), NameHash(ix + 7));
        }
        for ix in [0, CHUNK as u32 - 1, CHUNK as u32, far] {
            assert_eq!(names.get(ObjectNo(ix)), NameHash(ix + 7));
        }
        assert_eq!(names.get(ObjectNo(1)), NameHash::default());
        assert_eq!(names.extra.lock().unwrap().len(), 1, "only what is in no pack");
    }
}
