use crate::{HashKind, Kind, ObjectId, StoredId, oid};

/// An object that git cannot parse, regardless of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The object.
    pub object: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// Git's text after `error: `, if any, before the command fails with `invalid commit` or `invalid tag`.
    /// Parts may come from the object.
    pub why: Option<Vec<u8>>,
}

/// Whether git can parse the header of a commit or tag, which it requires of all received objects before fsck
/// runs. Trees are left to fsck, and blobs need no parsing.
pub fn readable(kind: Kind, id: &oid, content: &[u8], hash: HashKind) -> Result<(), Unreadable> {
    let read = match kind {
        Kind::Commit => read_commit(content, hash).map_err(|what| Some(format!("{what} {id}").into_bytes())),
        Kind::Tag => read_tag(content, hash).map_err(|unknown_kind| {
            unknown_kind.map(|kind| {
                [b"unknown tag type '", kind, b"' in ", id.to_hex().to_string().as_bytes()].concat()
            })
        }),
        Kind::Tree | Kind::Blob => Ok(()),
    };
    read.map_err(|why| Unreadable { object: id.to_owned(), kind, why })
}

fn read_commit(content: &[u8], hash: HashKind) -> Result<(), &'static str> {
    let hex_len = hash.len_in_hex();
    let line = content.strip_prefix(b"tree ").filter(|line| line.len() > hex_len + 1);
    let Some(line) = line.filter(|line| line[hex_len] == b'\n') else {
        return Err("bogus commit object");
    };
    if StoredId::hex(line, 0, hash).is_none() {
        return Err("bad tree pointer in commit");
    }
    let mut rest = &line[hex_len + 1..];
    // Final lines too short for an id are ignored.
    let line_bytes = b"parent ".len() + hex_len + 1;
    while rest.len() >= line_bytes
        && let Some(line) = rest.strip_prefix(b"parent ")
    {
        if rest.len() == line_bytes || StoredId::hex(line, 0, hash).is_none() || line[hex_len] != b'\n' {
            return Err("bad parents in commit");
        }
        rest = &rest[line_bytes..];
    }
    Ok(())
}

/// `Err` contains the name of an unknown kind, if that is the problem.
fn read_tag(content: &[u8], hash: HashKind) -> Result<(), Option<&[u8]>> {
    const MAX_KIND_BYTES: usize = 19;
    const MIN_BYTES_BESIDE_ID: usize = 24;
    let hex_len = hash.len_in_hex();
    if content.len() < hex_len + MIN_BYTES_BESIDE_ID {
        return Err(None);
    }
    let line = content.strip_prefix(b"object ").ok_or(None)?;
    if StoredId::hex(line, 0, hash).is_none() || line.get(hex_len) != Some(&b'\n') {
        return Err(None);
    }
    let line = line[hex_len + 1..].strip_prefix(b"type ").ok_or(None)?;
    let end = memchr::memchr(b'\n', line).filter(|end| *end <= MAX_KIND_BYTES).ok_or(None)?;
    let kind = &line[..memchr::memchr(0, &line[..end]).unwrap_or(end)];
    if Kind::from_name(kind).is_none() {
        return Err(Some(kind));
    }
    let name = line[end + 1..].strip_prefix(b"tag ").ok_or(None)?;
    memchr::memchr(b'\n', name).map(|_| ()).ok_or(None)
}
