//! Many packs of a few blobs each, written without a process.

use std::path::{Path, PathBuf};

use packrace_format::pack_index::{Entry, Version};
use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};

/// Writes a pack of these blobs into a bare repository, and gives its path without an extension.
pub fn write_pack(repository: &Path, blobs: &[&str]) -> PathBuf {
    let hash = HashKind::Sha1;
    let mut pack = Vec::new();
    packrace_format::pack::write_header(blobs.len() as u32, &mut pack);
    let mut entries = Vec::new();
    for blob in blobs {
        assert!(blob.len() < 16, "one byte of a header says how long it is");
        let id = object_id(hash, Kind::Blob, blob.as_bytes()).unwrap();
        entries.push(Entry { id, offset: pack.len() as u64, crc32: 0 });
        pack.push(3 << 4 | blob.len() as u8);
        packrace_format::zlib::deflate(blob.as_bytes(), 1, &mut pack);
    }
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&pack);
    let checksum = hasher.finish();
    pack.extend_from_slice(checksum.as_slice());
    entries.sort_by_key(|entry| entry.id);
    let index = packrace_format::pack_index::write(&entries, hash, &checksum, Version::default()).unwrap();
    let stem = repository.join(format!("objects/pack/pack-{checksum}"));
    std::fs::write(stem.with_extension("pack"), pack).unwrap();
    std::fs::write(stem.with_extension("idx"), index).unwrap();
    stem
}

/// The name of a blob.
pub fn id(blob: &str) -> ObjectId {
    object_id(HashKind::Sha1, Kind::Blob, blob.as_bytes()).unwrap()
}
