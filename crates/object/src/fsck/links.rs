use crate::tree::Entries;
use crate::{HashKind, Kind, MalformedObject, oid, parse_commit, parse_tag};

/// Calls `each` with every object that an object refers to and the kind that it must have, up to the first
/// parse error. Submodules are in other repositories, and tree entries with modes unknown to git refer to
/// nothing.
pub fn links(
    kind: Kind,
    content: &[u8],
    hash: HashKind,
    mut each: impl FnMut(&oid, Kind),
) -> Result<(), MalformedObject> {
    match kind {
        Kind::Blob => {}
        Kind::Tag => {
            let tag = parse_tag(content, hash)?;
            each(&tag.target, tag.target_kind);
        }
        Kind::Commit => {
            let commit = parse_commit(content, hash)?;
            each(&commit.tree, Kind::Tree);
            commit.parents.iter().for_each(|parent| each(parent, Kind::Commit));
        }
        Kind::Tree => {
            for entry in Entries::new(content, hash) {
                let entry = entry?;
                match entry.mode & 0o170000 {
                    0o040000 => each(entry.id, Kind::Tree),
                    0o100000 | 0o120000 => each(entry.id, Kind::Blob),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[track_caller]
    fn check(kind: Kind, content: &[u8], expect: &[Kind]) {
        let mut found = Vec::new();
        links(kind, content, HashKind::Sha1, |id, kind| {
            assert_eq!(id.to_string(), ID);
            found.push(kind);
        })
        .unwrap();
        assert_eq!(found, expect);
    }

    #[test]
    fn what_objects_lead_to() {
        use Kind::{Blob, Commit, Tag, Tree};
        check(Blob, b"tree", &[]);
        check(Commit, format!("tree {ID}\nparent {ID}\nparent {ID}\n").as_bytes(), &[Tree, Commit, Commit]);
        check(Tag, format!("object {ID}\ntype tag\ntag x\n").as_bytes(), &[Tag]);
        let mut tree = Vec::new();
        for mode in ["100644", "160000", "40000", "120000", "140000", "100755", "0"] {
            tree.extend_from_slice(format!("{mode} a\0").as_bytes());
            tree.extend_from_slice(HashKind::Sha1.empty_tree().as_bytes());
        }
        check(Tree, &tree, &[Blob, Tree, Blob, Blob]);
        assert!(links(Tree, &tree[1..], HashKind::Sha256, |_, _| {}).is_err());
    }
}
