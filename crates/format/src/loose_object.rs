//! Loose objects: one zlib stream of `<kind> <size>\0<content>` (git's user manual, "Object storage format").

use packrace_object::Kind;

use crate::Error;
use crate::zlib::Inflater;

const FORMAT: &str = "loose object";

/// What is wrong with a file that has bytes after the stream; git refuses it, too.
pub const GARBAGE_AT_END: &str = "garbage at end";

/// The longest accepted header: a kind, a space, 20 digits and the NUL.
pub const MAX_HEADER_BYTES: usize = 28;

/// The header of a loose object, after inflation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the object.
    pub kind: Kind,
    /// The length of its content.
    pub size: u64,
    /// The length of the header, including its NUL.
    pub length: usize,
}

impl Header {
    /// Reads the header at the start of the inflated `bytes`. The size is decimal without sign or leading
    /// zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
        let end = memchr::memchr(0, bytes)
            .ok_or_else(|| Error::new(FORMAT, "header does not end", bytes.len() as u64))?;
        let space =
            memchr::memchr(b' ', &bytes[..end]).ok_or_else(|| Error::new(FORMAT, "header has no size", 0))?;
        let kind = Kind::from_name(&bytes[..space]).ok_or_else(|| Error::new(FORMAT, "unknown kind", 0))?;
        let size = parse_size(&bytes[space + 1..end])
            .ok_or_else(|| Error::new(FORMAT, "size is not a number", space as u64 + 1))?;
        Ok(Header { kind, size, length: end + 1 })
    }
}

/// Reads the kind and size of the object in `file`; its first 64 bytes are enough.
pub fn inflate_header(inflater: &mut Inflater, file: &[u8]) -> Result<Header, Error> {
    let mut prefix = Vec::new();
    inflater.inflate_prefix(file, MAX_HEADER_BYTES, &mut prefix)?;
    Header::parse(&prefix)
}

/// Replaces `out` with the content of the object in `file` and returns its kind. Callers with a limit call
/// [`inflate_header`] first. After an error, `out` is empty.
pub fn inflate(inflater: &mut Inflater, file: &[u8], out: &mut Vec<u8>) -> Result<Kind, Error> {
    out.clear();
    let header = inflate_header(inflater, file)?;
    let total = usize::try_from(header.size)
        .ok()
        .and_then(|size| size.checked_add(header.length))
        .ok_or_else(|| Error::new(FORMAT, "content is too large for memory", 0))?;
    let length = inflater.inflate_measured(file, total, out)?;
    if length < file.len() {
        out.clear();
        return Err(Error::new(FORMAT, GARBAGE_AT_END, length as u64));
    }
    out.drain(..header.length);
    Ok(header.kind)
}

/// Appends an object's header: the bytes before its content, in the file and for its id.
pub fn write_header(kind: Kind, size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{kind} {size}\0").as_bytes());
}

fn parse_size(digits: &[u8]) -> Option<u64> {
    let plain = digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zlib::deflate;

    fn check(inflated: &[u8], expect: Result<(Kind, &[u8]), &'static str>) {
        let mut file = Vec::new();
        deflate(inflated, 1, &mut file);
        let (mut inflater, mut out) = (Inflater::new(), Vec::new());
        let kind = inflate(&mut inflater, &file, &mut out);
        assert_eq!(kind.map(|kind| (kind, out.as_slice())).map_err(|error| error.what), expect);
        for end in 0..file.len() {
            assert!(inflate(&mut inflater, &file[..end], &mut out).is_err());
        }
        file.push(0);
        let longer = inflate(&mut inflater, &file, &mut out).map_err(|error| error.what);
        assert_eq!(longer, Err(expect.err().unwrap_or(GARBAGE_AT_END)));
        assert!(out.is_empty());
    }

    #[test]
    fn objects() {
        check(b"blob 5\0hello", Ok((Kind::Blob, b"hello")));
        check(b"commit 0\0", Ok((Kind::Commit, b"")));
        check(b"blob 4\0hello", Err("content is longer than announced"));
        check(b"blob 6\0hello", Err("content is shorter than announced"));
        for size in ["", "-1", "+5", "05", "5 ", "99999999999999999999"] {
            check(format!("blob {size}\0hello").as_bytes(), Err("size is not a number"));
        }
        check(b"blobs 5\0hello", Err("unknown kind"));
        check(b"blob5\0hello", Err("header has no size"));
        check(b"blob 555555555555555555555555555555555555555555", Err("header does not end"));
        check(b"", Err("header does not end"));
        check(b"blob 18446744073709551615\0", Err("content is too large for memory"));
    }

    #[test]
    fn headers_round_trip() {
        for kind in Kind::ALL {
            let mut bytes = Vec::new();
            write_header(kind, u64::MAX, &mut bytes);
            assert_eq!(Header::parse(&bytes), Ok(Header { kind, size: u64::MAX, length: bytes.len() }));
        }
    }
}
