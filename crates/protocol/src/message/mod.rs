//! Single messages, in both directions: written without allocation where a million may occur, and parsed
//! from the payload of one packet. Parsers take a line without its newline and return `None` for any
//! other message.

pub mod acknowledgment;
pub mod advertisement;
pub mod bundle_uri;
pub mod command;
pub mod fetch_request;
pub mod ls_refs;
pub mod object_info;
pub mod packfile_uris;
pub mod promisor_remote;
pub mod push_command;
pub mod push_offer;
pub mod push_report;
pub mod section;
pub mod service;
pub mod shallow_info;
pub mod wanted_refs;

use packrace_object::{HashKind, ObjectId, StoredId, oid};

/// Appends an id in hex.
pub(crate) fn write_hex(id: &oid, out: &mut Vec<u8>) {
    StoredId::from(id).write_hex(out);
}

/// An id in hex, of the hash's length.
pub(crate) fn parse_id(hex: &[u8], hash: HashKind) -> Option<ObjectId> {
    if hex.len() != hash.len_in_hex() {
        return None;
    }
    ObjectId::from_hex(hex).ok()
}
