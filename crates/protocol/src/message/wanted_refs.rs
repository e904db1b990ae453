//! Lines of the `wanted-refs` section: the objects that `want-ref` lines resolved to
//! (gitprotocol-v2, "fetch").

use packrace_object::{HashKind, ObjectId, oid};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::{MAX_PAYLOAD, write_length};

/// Whether a line for a ref of this name fits into a packet, even with a band byte.
pub fn fits(name: &[u8], hash: HashKind) -> bool {
    hash.len_in_hex() + 1 + name.len() + 1 < MAX_PAYLOAD
}

/// Appends a ref, whose line must [fit](fits).
pub fn write_wanted_ref(out: &mut Vec<u8>, id: &oid, name: &[u8]) {
    write_length(id.as_bytes().len() * 2 + 1 + name.len() + 1, out);
    write_hex(id, out);
    out.push(b' ');
    out.extend_from_slice(name);
    out.push(b'\n');
}

/// Parses a line.
pub fn parse(line: &[u8], hash: HashKind) -> Option<(ObjectId, &[u8])> {
    let (id, name) = line.split_at_checked(hash.len_in_hex())?;
    let name = name.strip_prefix(b" ").filter(|name| !name.is_empty())?;
    Some((parse_id(id, hash)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_both_ways() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let id = ObjectId::from_hex(&vec![b'a'; hash.len_in_hex()]).unwrap();
            let longest = vec![b'n'; MAX_PAYLOAD - hash.len_in_hex() - 3];
            for name in [b"HEAD".as_slice(), b"refs/heads/a b\xff", &longest] {
                assert!(fits(name, hash));
                let mut out = Vec::new();
                write_wanted_ref(&mut out, &id, name);
                assert_eq!(parse(&out[4..out.len() - 1], hash), Some((id, name)));
            }
            assert!(!fits(&[longest.as_slice(), b"n"].concat(), hash));
            for bad in [String::new(), id.to_string(), format!("{id} "), format!("{id}x"), format!("x{id} a")]
            {
                assert_eq!(parse(bad.as_bytes(), hash), None, "{bad}");
            }
        }
    }
}
