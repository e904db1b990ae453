//! Packs that git never writes, with an index of all entries: delta cycles, false sizes, bombs. Written with
//! code that packrace does not use itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};

/// The declared type of an entry (gitformat-pack, "Object types").
#[derive(Debug, Clone, Copy)]
pub enum HandmadeEntry<'a> {
    /// A whole object.
    Whole(Kind),
    /// A delta of the entry at this offset.
    ByDistance(usize),
    /// A delta of the object with this name.
    ByName(&'a ObjectId),
}

/// A pack that is assembled entry by entry.
#[derive(Debug)]
pub struct HandmadePack {
    bytes: Vec<u8>,
    /// Name, checksum and offset of each entry.
    entries: Vec<(ObjectId, u32, usize)>,
}

impl Default for HandmadePack {
    fn default() -> Self {
        HandmadePack { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), entries: Vec::new() }
    }
}

impl HandmadePack {
    /// Adds a valid whole object and returns its name.
    pub fn whole(&mut self, kind: Kind, content: &[u8]) -> ObjectId {
        let id = object_id(HashKind::Sha1, kind, content).expect("no attack");
        self.entry(&id, HandmadeEntry::Whole(kind), content.len() as u64, content);
        id
    }

    /// Adds a delta and returns its offset.
    pub fn delta(&mut self, id: &ObjectId, base: HandmadeEntry<'_>, delta: &[u8]) -> usize {
        self.entry(id, base, delta.len() as u64, delta)
    }

    /// Adds an entry under any name: it declares `size` inflated bytes, and contains `inflated`. Returns its
    /// offset.
    pub fn entry(&mut self, id: &ObjectId, entry: HandmadeEntry<'_>, size: u64, inflated: &[u8]) -> usize {
        let start = self.bytes.len();
        let number = match entry {
            HandmadeEntry::Whole(kind) => kind as u8,
            HandmadeEntry::ByDistance(_) => 6,
            HandmadeEntry::ByName(_) => 7,
        };
        let (mut byte, mut rest) = (number << 4 | (size & 15) as u8, size >> 4);
        while rest > 0 {
            self.bytes.push(byte | 0x80);
            (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
        }
        self.bytes.push(byte);
        match entry {
            HandmadeEntry::Whole(_) => {}
            HandmadeEntry::ByDistance(base) => push_distance(start - base, &mut self.bytes),
            HandmadeEntry::ByName(base) => self.bytes.extend_from_slice(base.as_slice()),
        }
        let mut encoder = ZlibEncoder::new(&mut self.bytes, Compression::default());
        encoder.write_all(inflated).expect("memory takes everything");
        encoder.finish().expect("memory takes everything");
        self.entries.push((id.to_owned(), crc32fast::hash(&self.bytes[start..]), start));
        start
    }

    /// Writes the pack and its index to a repository as `pack-<name>`; returns the pack's path.
    pub fn put(&self, repository: &Path, name: &str) -> PathBuf {
        let pack = self.sealed();
        let checksum = ObjectId::from_bytes_or_panic(&pack[pack.len() - HashKind::Sha1.len_in_bytes()..]);
        let stem = repository.join(format!("objects/pack/pack-{name}"));
        std::fs::write(stem.with_extension("idx"), self.index(&checksum)).expect("an index can be written");
        std::fs::write(stem.with_extension("pack"), pack).expect("a pack can be written");
        stem.with_extension("pack")
    }

    /// The complete pack, with entry count and checksum.
    pub fn sealed(&self) -> Vec<u8> {
        let mut pack = self.bytes.clone();
        let count = u32::try_from(self.entries.len()).expect("few entries");
        pack[8..12].copy_from_slice(&count.to_be_bytes());
        let checksum = digest(&pack);
        pack.extend_from_slice(checksum.as_slice());
        pack
    }

    /// A version 2 index (gitformat-pack, "Version 2 pack-*.idx files").
    fn index(&self, checksum: &ObjectId) -> Vec<u8> {
        let mut entries = self.entries.clone();
        entries.sort();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=255u8 {
            let count = entries.iter().filter(|(id, ..)| id.first_byte() <= first).count() as u32;
            index.extend(count.to_be_bytes());
        }
        entries.iter().for_each(|(id, ..)| index.extend_from_slice(id.as_slice()));
        entries.iter().for_each(|(_, crc32, _)| index.extend(crc32.to_be_bytes()));
        entries.iter().for_each(|(.., start)| index.extend((*start as u32).to_be_bytes()));
        index.extend_from_slice(checksum.as_slice());
        index.extend_from_slice(digest(&index).as_slice());
        index
    }
}

/// A delta, built instruction by instruction (gitformat-pack, "Deltified representation").
#[derive(Debug)]
pub struct HandmadeDelta(Vec<u8>);

impl HandmadeDelta {
    /// Declares the lengths of base and result.
    pub fn new(base: u64, result: u64) -> Self {
        let mut bytes = Vec::new();
        for mut size in [base, result] {
            while size >= 0x80 {
                bytes.push(size as u8 | 0x80);
                size >>= 7;
            }
            bytes.push(size as u8);
        }
        HandmadeDelta(bytes)
    }

    /// Copies up to 0xff_ffff bytes of the base.
    pub fn copy(mut self, offset: u32, length: u32) -> Self {
        self.0.push(0xff);
        self.0.extend(offset.to_le_bytes());
        self.0.extend(&length.to_le_bytes()[..3]);
        self
    }

    /// Inserts 1 to 127 bytes.
    pub fn insert(mut self, bytes: &[u8]) -> Self {
        assert!((1..128).contains(&bytes.len()));
        self.0.push(bytes.len() as u8);
        self.0.extend_from_slice(bytes);
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn push_distance(distance: usize, out: &mut Vec<u8>) {
    let mut bytes = vec![(distance & 0x7f) as u8];
    let mut rest = distance >> 7;
    while rest > 0 {
        rest -= 1;
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.extend(bytes.iter().rev());
}

fn digest(bytes: &[u8]) -> ObjectId {
    let mut hasher = TrailerHasher::new(HashKind::Sha1);
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Git;

    #[test]
    fn honest_ones_are_read_by_git() {
        let dir = crate::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
        let mut pack = HandmadePack::default();
        let base: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(n) % 251) as u8).collect();
        let base_id = pack.whole(Kind::Blob, &base);
        let name = |content: &[u8]| object_id(HashKind::Sha1, Kind::Blob, content).unwrap();
        let first = [&base[..70_000], b"one"].concat();
        let delta = HandmadeDelta::new(100_000, 70_003).copy(0, 70_000).insert(b"one");
        let at = pack.delta(&name(&first), HandmadeEntry::ByName(&base_id), delta.bytes());
        pack.whole(Kind::Blob, &base[500..20_000]);
        let second = [&first[3..], b"two"].concat();
        let delta = HandmadeDelta::new(70_003, 70_003).copy(3, 70_000).insert(b"two");
        pack.delta(&name(&second), HandmadeEntry::ByDistance(at), delta.bytes());
        let path = pack.put(dir.path(), "handmade");
        Git::stock().run(dir.path(), &["verify-pack", path.to_str().unwrap()]);
        for content in [&base, &first, &second] {
            let id = name(content).to_string();
            assert_eq!(Git::stock().run_with_input(dir.path(), &["cat-file", "blob", &id], b""), *content);
        }
    }
}
