//! What is wrong with a pack or its index that cannot be used, in git's words.

use std::path::Path;

use packrace_format::Error;
use packrace_format::pack::HEADER_BYTES;
use packrace_object::HashKind;

/// Where version 2 of an index, and each later one, begins (gitformat-pack).
const INDEX_MAGIC: [u8; 4] = *b"\xfftOc";

/// 256 counts of 4 bytes.
const FANOUT_BYTES: usize = 1024;

/// Of an index that cannot be opened.
pub(crate) fn of_index(path: &Path, bytes: &[u8], hash: HashKind) -> String {
    let path = path.display();
    if bytes.len() < FANOUT_BYTES + 2 * hash.len_in_bytes() {
        return format!("index file {path} is too small");
    }
    let has_version = bytes.starts_with(&INDEX_MAGIC);
    let version = if has_version { number_at(bytes, 4) } else { 1 };
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

/// Of a pack whose header `error` was found in.
pub(crate) fn of_pack(path: &Path, bytes: &[u8], error: &Error) -> String {
    let path = path.display();
    if bytes.len() < HEADER_BYTES {
        return format!("file {path} is far too short to be a packfile");
    }
    if !bytes.starts_with(b"PACK") {
        return format!("file {path} is not a GIT packfile");
    }
    match number_at(bytes, 4) {
        2 | 3 => format!("{path}: {error}"),
        version => format!(
            "packfile {path} is version {version} and not supported (try upgrading GIT to a newer version)"
        ),
    }
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(number)
}
