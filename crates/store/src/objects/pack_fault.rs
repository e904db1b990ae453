//! The fault of an unusable pack or index, in git's words.

use std::path::Path;

use packrace_format::pack::{BadHeader, Header};
use packrace_format::pack_index::{FANOUT_BYTES, V2_MAGIC};
use packrace_object::HashKind;

/// The fault of an index that cannot be opened.
pub fn of_index(path: &Path, bytes: &[u8], hash: HashKind) -> String {
    let path = path.display();
    if bytes.len() < FANOUT_BYTES + 2 * hash.len_in_bytes() {
        return format!("index file {path} is too small");
    }
    let has_version = bytes.starts_with(&V2_MAGIC);
    let version = if has_version { u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) } else { 1 };
    if has_version && version != 2 {
        return format!(
            "index file {path} is version {version} and is not supported by this binary \
             (try upgrading GIT to a newer version)"
        );
    }
    let fanout_at = if has_version { 8 } else { 0 };
    let counts = bytes[fanout_at..fanout_at + FANOUT_BYTES].as_chunks::<4>().0.iter();
    if !counts.map(|count| u32::from_be_bytes(*count)).is_sorted() {
        return format!("non-monotonic index {path}");
    }
    format!("wrong index v{version} file size in {path}")
}

/// The fault of the times of a cruft pack, which cannot be used.
pub fn of_times(path: &Path, bytes: &[u8]) -> String {
    let path = path.display();
    let (words, _) = bytes.as_chunks::<4>();
    let [signature, version, hash, ..] = words else { return format!("mtimes file {path} is too small") };
    match (signature, u32::from_be_bytes(*version), u32::from_be_bytes(*hash)) {
        (b"MTME", 1, 1 | 2) => format!("mtimes file {path} is corrupt"),
        (b"MTME", 1, hash) => format!("mtimes file {path} has unsupported hash id {hash}"),
        (b"MTME", version, _) => format!("mtimes file {path} has unsupported version {version}"),
        _ => format!("mtimes file {path} has unknown signature"),
    }
}

/// The header of a pack, or its fault.
pub fn header(path: &Path, bytes: &[u8]) -> Result<Header, String> {
    let path = path.display();
    let Some(bytes) = bytes.first_chunk() else {
        return Err(format!("file {path} is far too short to be a packfile"));
    };
    Header::read(bytes).map_err(|bad| match bad {
        BadHeader::Signature => format!("file {path} is not a GIT packfile"),
        BadHeader::Version(version) => format!(
            "packfile {path} is version {version} and not supported (try upgrading GIT to a newer version)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_times() {
        let check = |bytes: &[u8], expect: &str| assert_eq!(of_times(Path::new("it"), bytes), expect);
        check(b"", "mtimes file it is too small");
        check(b"XTME\0\0\0\x01\0\0\0", "mtimes file it is too small");
        check(b"XTME\0\0\0\x01\0\0\0\x01", "mtimes file it has unknown signature");
        check(b"MTME\0\0\0\x03\0\0\0\x09", "mtimes file it has unsupported version 3");
        check(b"MTME\0\0\0\x01\0\0\0\x09", "mtimes file it has unsupported hash id 9");
        check(b"MTME\0\0\0\x01\0\0\0\x02and more", "mtimes file it is corrupt");
    }
}
