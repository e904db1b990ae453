//! Changes of a client's shallow boundary: `shallow` and `unshallow` lines (gitprotocol-pack, "Packfile
//! Negotiation"; gitprotocol-v2, "shallow-info section"). In version 0, neither the document nor git ends
//! them with a newline; git sends none in version 2 either.

use packrace_object::{HashKind, ObjectId, oid};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::write_length;

const SHALLOW: &[u8] = b"shallow ";
const UNSHALLOW: &[u8] = b"unshallow ";

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShallowLine {
    /// The commit is sent without its parents.
    Shallow(ObjectId),
    /// The commit was shallow, and its parents are now sent.
    Unshallow(ObjectId),
}

/// Appends a commit that becomes shallow.
pub fn write_shallow(out: &mut Vec<u8>, id: &oid) {
    write_line(out, SHALLOW, id);
}

/// Appends a commit that is no longer shallow.
pub fn write_unshallow(out: &mut Vec<u8>, id: &oid) {
    write_line(out, UNSHALLOW, id);
}

/// Parses a line without its newline.
pub fn parse(line: &[u8], hash: HashKind) -> Option<ShallowLine> {
    if let Some(id) = line.strip_prefix(SHALLOW) {
        return parse_id(id, hash).map(ShallowLine::Shallow);
    }
    parse_id(line.strip_prefix(UNSHALLOW)?, hash).map(ShallowLine::Unshallow)
}

fn write_line(out: &mut Vec<u8>, word: &[u8], id: &oid) {
    write_length(word.len() + id.as_bytes().len() * 2, out);
    out.extend_from_slice(word);
    write_hex(id, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<ShallowLine>) {
        assert_eq!(parse(line.as_bytes(), HashKind::Sha1), expect, "{line}");
        let mut out = Vec::new();
        match expect {
            Some(ShallowLine::Shallow(id)) => write_shallow(&mut out, &id),
            Some(ShallowLine::Unshallow(id)) => write_unshallow(&mut out, &id),
            None => return,
        }
        assert_eq!(out, [format!("{:04x}", line.len() + 4).as_bytes(), line.as_bytes()].concat());
    }

    #[test]
    fn lines_both_ways() {
        let id = ObjectId::from_hex(b"0123456789abcdef0123456789abcdef01234567").unwrap();
        check(&format!("shallow {id}"), Some(ShallowLine::Shallow(id)));
        check(&format!("unshallow {id}"), Some(ShallowLine::Unshallow(id)));
        check(&format!("shallow {id}0"), None);
        check("shallow ", None);
        check("unshallow 01", None);
        check(&format!("deepen {id}"), None);
        check("", None);
    }
}
