//! Sizes of objects without their contents (gitprotocol-v2, "object-info"): arguments, and lines of the
//! answer, which, as in git, have no newline.

use packrace_object::{HashKind, ObjectId, oid};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::{FLUSH, write_data, write_length, write_text};

/// Arguments of `object-info`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectInfoRequest {
    /// Report sizes.
    pub size: bool,
    /// The objects, in the client's order.
    pub ids: Vec<ObjectId>,
}

/// Appends the attributes reported for each object; as in git, none if there are no objects.
pub fn write_attributes(out: &mut Vec<u8>, request: &ObjectInfoRequest) {
    if request.size && !request.ids.is_empty() {
        write_data(b"size", out);
    }
}

/// Appends an object; `size` is that of an existing object, if sizes were requested.
pub fn write_object(out: &mut Vec<u8>, id: &oid, request: &ObjectInfoRequest, size: Option<u64>) {
    let size = match size {
        _ if !request.size => String::new(),
        Some(size) => format!(" {size}"),
        None => " ".to_owned(),
    };
    write_length(id.as_bytes().len() * 2 + size.len(), out);
    write_hex(id, out);
    out.extend_from_slice(size.as_bytes());
}

/// Parses an object of an answer about sizes: the id, and the size if the object exists.
pub fn parse_object(line: &[u8], hash: HashKind) -> Option<(ObjectId, Option<u64>)> {
    let (id, size) = line.split_at_checked(hash.len_in_hex())?;
    let id = parse_id(id, hash)?;
    match size {
        b"" | b" " => Some((id, None)),
        size => {
            let digits = size.strip_prefix(b" ")?;
            let is_number = digits.iter().all(u8::is_ascii_digit);
            let size = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
            Some((id, Some(size)))
        }
    }
}

/// Appends the arguments and a flush.
pub fn write_arguments(out: &mut Vec<u8>, request: &ObjectInfoRequest) {
    if request.size {
        write_text("size", out);
    }
    for id in &request.ids {
        write_text(&format!("oid {id}"), out);
    }
    out.extend_from_slice(FLUSH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_both_ways() {
        let id = ObjectId::from_hex(&[b'a'; 40]).unwrap();
        let check = |with_size, size, expect: &str| {
            let mut out = Vec::new();
            let request = ObjectInfoRequest { size: with_size, ids: Vec::new() };
            write_object(&mut out, &id, &request, size);
            assert_eq!(out, [format!("{:04x}", expect.len() + 4), expect.to_owned()].concat().into_bytes());
            let expect_size = size.filter(|_| with_size);
            assert_eq!(parse_object(expect.as_bytes(), HashKind::Sha1), Some((id, expect_size)));
        };
        check(true, Some(0), &format!("{id} 0"));
        check(true, Some(u64::MAX), &format!("{id} 18446744073709551615"));
        check(true, None, &format!("{id} "));
        check(false, Some(3), &id.to_string());
        check(false, None, &id.to_string());
        for bad in
            ["", "aa", &format!("{id}1"), &format!("{id} x"), &format!("{id} +1"), &format!("{id} 1 2")]
        {
            assert_eq!(parse_object(bad.as_bytes(), HashKind::Sha1), None, "{bad}");
        }
    }
}
