//! Single messages, both directions: written without allocation where there can be a million of them, and read from the
//! payload of one packet. Readers take a line without its newline and answer `None` to anything else than their message.

pub mod acknowledgment;
pub mod advertisement;
pub mod bundle_uri;
pub mod command;
pub mod fetch_request;
pub mod ls_refs;
pub mod object_info;
pub mod packfile_uris;
pub mod promisor_remote;
pub mod section;
pub mod shallow_info;
pub mod wanted_refs;

use packrace_object::{HashKind, ObjectId, oid};

/// Appends an id in hex.
pub(crate) fn write_hex(id: &oid, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + id.as_bytes().len() * 2, 0);
    for (pair, byte) in out[start..].chunks_exact_mut(2).zip(id.as_bytes()) {
        pair.copy_from_slice(&HEX_PAIRS[*byte as usize]);
    }
}

/// An id in hex, of the length that the hash says.
pub(crate) fn parse_id(hex: &[u8], hash: HashKind) -> Option<ObjectId> {
    if hex.len() != hash.len_in_hex() {
        return None;
    }
    ObjectId::from_hex(hex).ok()
}

static HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};
