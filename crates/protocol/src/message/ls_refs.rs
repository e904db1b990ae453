//! Arguments of `ls-refs` and the lines of its answer (gitprotocol-v2, "ls-refs").

use packrace_object::{HashKind, ObjectId, StoredId};

use super::parse_id;
use crate::wire::capabilities::words;
use crate::wire::pkt_line::{FLUSH, MAX_PAYLOAD, write_data, write_length, write_text};

/// Arguments of `ls-refs`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefsRequest {
    /// Report the targets of symbolic refs.
    pub symrefs: bool,
    /// Report the peeled objects of annotated tags.
    pub peel: bool,
    /// Report a `HEAD` without a commit.
    pub unborn: bool,
    /// Names must start with one of these; an empty list means all names.
    pub prefixes: Vec<Vec<u8>>,
}

const SYMREF_TARGET: &[u8] = b" symref-target:";
const PEELED: &[u8] = b" peeled:";

/// Appends one ref. A name too long for a packet is omitted, because no client could ask for it.
#[inline]
pub fn write_ref(
    out: &mut Vec<u8>,
    id: StoredId<'_>,
    name: &[u8],
    symref_target: Option<&[u8]>,
    peeled: Option<StoredId<'_>>,
) {
    let mut length = id.hex_len() + 1 + name.len() + 1;
    length += symref_target.map_or(0, |target| SYMREF_TARGET.len() + target.len());
    length += peeled.map_or(0, |peeled| PEELED.len() + peeled.hex_len());
    if length > MAX_PAYLOAD {
        return;
    }
    write_length(length, out);
    id.write_hex(out);
    out.push(b' ');
    out.extend_from_slice(name);
    if let Some(target) = symref_target {
        out.extend_from_slice(SYMREF_TARGET);
        out.extend_from_slice(target);
    }
    if let Some(peeled) = peeled {
        out.extend_from_slice(PEELED);
        peeled.write_hex(out);
    }
    out.push(b'\n');
}

/// Appends a `HEAD` that points at an unborn branch.
pub fn write_unborn_head(out: &mut Vec<u8>, target: &[u8]) {
    let line = [b"unborn HEAD", SYMREF_TARGET, target, b"\n"].concat();
    if line.len() <= MAX_PAYLOAD {
        write_data(&line, out);
    }
}

/// One ref of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefLine<'a> {
    /// `None` for an unborn `HEAD`.
    pub id: Option<ObjectId>,
    /// The full name.
    pub name: &'a [u8],
    /// The target of a symbolic ref.
    pub symref_target: Option<&'a [u8]>,
    /// The peeled object of an annotated tag.
    pub peeled: Option<ObjectId>,
}

/// Parses a line of the answer. Unknown attributes are skipped, because later servers may send some.
pub fn parse_ref(line: &[u8], hash: HashKind) -> Option<RefLine<'_>> {
    let mut fields = words(line);
    let id = match fields.next()? {
        b"unborn" => None,
        id => Some(parse_id(id, hash)?),
    };
    let mut read = RefLine { id, name: fields.next()?, symref_target: None, peeled: None };
    for field in fields {
        if let Some(target) = field.strip_prefix(b"symref-target:") {
            read.symref_target = Some(target);
        } else if let Some(peeled) = field.strip_prefix(b"peeled:") {
            read.peeled = Some(parse_id(peeled, hash)?);
        }
    }
    Some(read)
}

/// Appends the arguments and a flush. Prefixes are at most 65,000 bytes long.
pub fn write_arguments(out: &mut Vec<u8>, request: &RefsRequest) {
    for (line, is_on) in [("peel", request.peel), ("symrefs", request.symrefs), ("unborn", request.unborn)] {
        if is_on {
            write_text(line, out);
        }
    }
    for prefix in &request.prefixes {
        write_data(&[b"ref-prefix ", prefix.as_slice(), b"\n"].concat(), out);
    }
    out.extend_from_slice(FLUSH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let id = ObjectId::from_hex(b"0123456789abcdef0123456789abcdef01234567").unwrap();
        let check = |target: Option<&[u8]>, peeled: Option<&ObjectId>, expect: &str| {
            let mut out = Vec::new();
            write_ref(&mut out, StoredId::from(&id), b"refs/a", target, peeled.map(StoredId::from));
            let read =
                RefLine { id: Some(id), name: b"refs/a", symref_target: target, peeled: peeled.copied() };
            assert_eq!(parse_ref(&out[4..out.len() - 1], HashKind::Sha1), Some(read));
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(None, None, "00340123456789abcdef0123456789abcdef01234567 refs/a\n");
        check(Some(b"b"), None, "00440123456789abcdef0123456789abcdef01234567 refs/a symref-target:b\n");
        let peeled = "00640123456789abcdef0123456789abcdef01234567 refs/a peeled:0123456789abcdef0123456789abcdef01234567\n";
        check(None, Some(&id), peeled);
        let mut out = Vec::new();
        write_unborn_head(&mut out, b"refs/heads/main");
        assert_eq!(out, b"002eunborn HEAD symref-target:refs/heads/main\n");
        let unborn =
            RefLine { id: None, name: b"HEAD", symref_target: Some(b"refs/heads/main"), peeled: None };
        assert_eq!(parse_ref(&out[4..out.len() - 1], HashKind::Sha1), Some(unborn));
        for line in ["", "unborn", &id.to_string(), "0123 refs/a", &format!("{id} refs/a peeled:0123")] {
            assert_eq!(parse_ref(line.as_bytes(), HashKind::Sha1), None, "{line}");
        }
        let later = format!("{id} refs/a something:else");
        assert!(parse_ref(later.as_bytes(), HashKind::Sha1).is_some());
        out.clear();
        write_ref(&mut out, StoredId::from(&id), &[b'x'; 70_000], None, None);
        assert!(out.is_empty());
    }
}
