//! The text of a new commit (git's user manual, "Commit Object").

use crate::ObjectId;

/// The content of a commit; nothing is checked.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// Its tree.
    pub tree: &'a ObjectId,
    /// Its parents, in order.
    pub parents: &'a [ObjectId],
    /// Name, address and time of the author.
    pub author: &'a [u8],
    /// Name, address and time of the committer.
    pub committer: &'a [u8],
    /// The encoding of the message, if stated.
    pub encoding: Option<&'a [u8]>,
    /// The message.
    pub message: &'a [u8],
}

impl NewCommit<'_> {
    /// The content of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("tree {}\n", self.tree).into_bytes();
        for parent in self.parents {
            text.extend_from_slice(format!("parent {parent}\n").as_bytes());
        }
        for (name, value) in
            [("author", Some(self.author)), ("committer", Some(self.committer)), ("encoding", self.encoding)]
        {
            if let Some(value) = value {
                text.extend_from_slice(&[name.as_bytes(), b" ", value, b"\n"].concat());
            }
        }
        text.push(b'\n');
        text.extend_from_slice(self.message);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashKind, parse_commit};

    #[test]
    fn what_is_made_can_be_read() {
        let tree = HashKind::Sha1.empty_tree();
        let blob = HashKind::Sha1.empty_blob();
        let check = |parents: &[ObjectId], encoding: Option<&[u8]>, expect: &str| {
            let (author, committer) = (&b"A <a> 1 +0000"[..], &b"C <c> 2 +0000"[..]);
            let commit = NewCommit { tree: &tree, parents, author, committer, encoding, message: b"m\n" };
            let text = commit.encode();
            let rest = text.strip_prefix(format!("tree {tree}\n").as_bytes()).unwrap();
            assert_eq!(str::from_utf8(rest).unwrap(), expect);
            assert_eq!(parse_commit(&text, HashKind::Sha1).unwrap().tree, tree);
        };
        let people = "author A <a> 1 +0000\ncommitter C <c> 2 +0000\n";
        check(&[], None, &format!("{people}\nm\n"));
        check(&[blob, tree], Some(b"x"), &format!("parent {blob}\nparent {tree}\n{people}encoding x\n\nm\n"));
    }
}
