//! Lines of the answer to `ls-refs` (gitprotocol-v2, "ls-refs").

use packrace_object::oid;

use super::write_hex;
use crate::wire::pkt_line::{MAX_PAYLOAD, write_length};

const SYMREF_TARGET: &[u8] = b" symref-target:";
const PEELED: &[u8] = b" peeled:";

/// Appends one ref. A name so long that the line does not fit a packet is left out, as no client could ask for it.
pub fn write_ref(
    out: &mut Vec<u8>,
    id: &oid,
    name: &[u8],
    symref_target: Option<&[u8]>,
    peeled: Option<&oid>,
) {
    let hex_len = id.as_bytes().len() * 2;
    let mut length = hex_len + 1 + name.len() + 1;
    length += symref_target.map_or(0, |target| SYMREF_TARGET.len() + target.len());
    length += peeled.map_or(0, |_| PEELED.len() + hex_len);
    if length > MAX_PAYLOAD {
        return;
    }
    write_length(length, out);
    write_hex(id, out);
    out.push(b' ');
    out.extend_from_slice(name);
    if let Some(target) = symref_target {
        out.extend_from_slice(SYMREF_TARGET);
        out.extend_from_slice(target);
    }
    if let Some(peeled) = peeled {
        out.extend_from_slice(PEELED);
        write_hex(peeled, out);
    }
    out.push(b'\n');
}

/// Appends a `HEAD` that names a branch without a commit.
pub fn write_unborn_head(out: &mut Vec<u8>, target: &[u8]) {
    let line = [b"unborn HEAD", SYMREF_TARGET, target, b"\n"].concat();
    if line.len() <= MAX_PAYLOAD {
        crate::wire::pkt_line::write_data(&line, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packrace_object::ObjectId;

    #[test]
    fn lines() {
        let id = ObjectId::from_hex(b"0123456789abcdef0123456789abcdef01234567").unwrap();
        let check = |target: Option<&[u8]>, peeled, expect: &str| {
            let mut out = Vec::new();
            write_ref(&mut out, &id, b"refs/a", target, peeled);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(None, None, "00340123456789abcdef0123456789abcdef01234567 refs/a\n");
        check(Some(b"b"), None, "00440123456789abcdef0123456789abcdef01234567 refs/a symref-target:b\n");
        let peeled = "00640123456789abcdef0123456789abcdef01234567 refs/a peeled:0123456789abcdef0123456789abcdef01234567\n";
        check(None, Some(&id), peeled);
        let mut out = Vec::new();
        write_unborn_head(&mut out, b"refs/heads/main");
        assert_eq!(out, b"002eunborn HEAD symref-target:refs/heads/main\n");
        out.clear();
        write_ref(&mut out, &id, &[b'x'; 70_000], None, None);
        assert!(out.is_empty());
    }
}
