use crate::{HashKind, Kind, ObjectId};

/// An object whose bytes break the rules of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} at byte {at}")]
pub struct MalformedObject {
    /// The part that could not be read.
    pub what: &'static str,
    /// The offset in the object's content.
    pub at: usize,
}

/// The part of a commit that a walk needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The root tree.
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
    /// The committer's date, in seconds since 1970; 0 if the line is missing or unreadable, as in git.
    pub committer_seconds: i64,
}

/// The part of an annotated tag that a walk needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The tagged object.
    pub target: ObjectId,
    /// The target's kind according to the tag.
    pub target_kind: Kind,
}

/// Parses the header of a commit. The tree and parent lines must be valid; a damaged date counts as 0,
/// because real histories contain such commits and git walks them.
pub fn parse_commit(content: &[u8], hash: HashKind) -> Result<Commit, MalformedObject> {
    let hex_len = hash.len_in_hex();
    let mut at = 0;
    let tree = id_line(content, &mut at, b"tree ", hex_len)
        .ok_or(MalformedObject { what: "tree line of a commit", at: 0 })?;
    let mut parents = Vec::new();
    while content[at..].starts_with(b"parent ") {
        let start = at;
        parents.push(
            id_line(content, &mut at, b"parent ", hex_len)
                .ok_or(MalformedObject { what: "parent line of a commit", at: start })?,
        );
    }
    Ok(Commit { tree, parents, committer_seconds: committer_seconds(&content[at..]).unwrap_or(0) })
}

/// The longest accepted chain of nested tags. Ids are not hashed again while peeling, so a damaged store
/// could contain a loop; no real chain comes near this.
pub const MAX_TAG_DEPTH: usize = 1024;

/// Parses the header of an annotated tag.
pub fn parse_tag(content: &[u8], hash: HashKind) -> Result<Tag, MalformedObject> {
    let mut at = 0;
    let target = id_line(content, &mut at, b"object ", hash.len_in_hex())
        .ok_or(MalformedObject { what: "object line of a tag", at: 0 })?;
    let target_kind = line(content, &mut at)
        .and_then(|line| line.strip_prefix(b"type "))
        .and_then(Kind::from_name)
        .ok_or(MalformedObject { what: "type line of a tag", at })?;
    Ok(Tag { target, target_kind })
}

fn line<'a>(content: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &content[*at..];
    let end = memchr::memchr(b'\n', rest)?;
    *at += end + 1;
    Some(&rest[..end])
}

fn id_line(content: &[u8], at: &mut usize, prefix: &[u8], hex_len: usize) -> Option<ObjectId> {
    let hex = line(content, at)?.strip_prefix(prefix)?;
    if hex.len() != hex_len {
        return None;
    }
    ObjectId::from_hex(hex).ok()
}

fn committer_seconds(header: &[u8]) -> Option<i64> {
    let mut at = 0;
    loop {
        let line = line(header, &mut at)?;
        if line.is_empty() {
            return None;
        }
        if let Some(signature) = line.strip_prefix(b"committer ") {
            let date = &signature[memchr::memrchr(b'>', signature)? + 1..];
            let date = std::str::from_utf8(date).ok()?;
            return date.split_ascii_whitespace().next()?.parse().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn check(text: &str, expect: Result<(usize, i64), &'static str>) {
        let got = parse_commit(text.as_bytes(), HashKind::Sha1);
        let got = got.map(|c| (c.parents.len(), c.committer_seconds)).map_err(|e| e.what);
        assert_eq!(got, expect, "{text:?}");
    }

    #[test]
    fn commits() {
        let people = "author A <a@b> 1 +0000\ncommitter C <c@d> 1234567890 +0200\n";
        check(&format!("tree {TREE}\n{people}\nhello"), Ok((0, 1234567890)));
        check(&format!("tree {TREE}\nparent {TREE}\nparent {TREE}\n{people}\n"), Ok((2, 1234567890)));
        check(&format!("tree {TREE}\nauthor x\ncommitter broken\n\n"), Ok((0, 0)));
        check(&format!("tree {TREE}\n"), Ok((0, 0)));
        check(&format!("tree {TREE}0\n"), Err("tree line of a commit"));
        check(&format!("tree {TREE}\nparent x\n"), Err("parent line of a commit"));
        check("", Err("tree line of a commit"));
    }

    #[test]
    fn tags() {
        let tag =
            parse_tag(format!("object {TREE}\ntype tree\ntag v1\n\n").as_bytes(), HashKind::Sha1).unwrap();
        assert_eq!((tag.target.to_string().as_str(), tag.target_kind), (TREE, Kind::Tree));
        for bad in [String::new(), format!("object {TREE}\n"), format!("object {TREE}\ntype trees\n")] {
            assert!(parse_tag(bad.as_bytes(), HashKind::Sha1).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sha256_ids_are_longer() {
        let text = format!("tree {}\n", HashKind::Sha256.empty_tree());
        assert_eq!(
            parse_commit(text.as_bytes(), HashKind::Sha256).unwrap().tree,
            HashKind::Sha256.empty_tree()
        );
        assert!(parse_commit(text.as_bytes(), HashKind::Sha1).is_err());
    }
}
