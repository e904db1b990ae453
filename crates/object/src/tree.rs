//! A cursor over the entries of a tree: `<octal mode> <name>\0<raw id>` (git's user manual, "Git object
//! model").

use crate::{HashKind, MalformedObject, oid};

/// The kind of object that a tree entry points at, according to its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file or symbolic link.
    Blob,
    /// A directory.
    Tree,
    /// A submodule: the commit is in another repository and is never followed.
    Submodule,
}

/// One entry, borrowed from the tree's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// The mode, for example `0o100644`.
    pub mode: u32,
    /// The name, without a slash.
    pub name: &'a [u8],
    /// The id of the object.
    pub id: &'a oid,
}

impl TreeEntry<'_> {
    /// The kind of object according to the mode.
    pub fn kind(&self) -> EntryKind {
        match self.mode & 0o170000 {
            0o040000 => EntryKind::Tree,
            0o160000 => EntryKind::Submodule,
            _ => EntryKind::Blob,
        }
    }

    /// Appends the entry to a tree; the caller ensures the order of entries.
    pub fn append_to(&self, tree: &mut Vec<u8>) {
        tree.extend_from_slice(format!("{:o} ", self.mode).as_bytes());
        tree.extend_from_slice(self.name);
        tree.push(0);
        tree.extend_from_slice(self.id.as_bytes());
    }
}

/// Iterates over the entries of a tree; stops after the first malformed one.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    tree: &'a [u8],
    at: usize,
    id_bytes: usize,
}

impl<'a> Entries<'a> {
    /// The entries of `tree`, whose ids have the width of `hash`.
    pub fn new(tree: &'a [u8], hash: HashKind) -> Self {
        Entries { tree, at: 0, id_bytes: hash.len_in_bytes() }
    }

    /// Starts at byte `at` instead, where an entry must begin.
    pub fn at(tree: &'a [u8], hash: HashKind, at: usize) -> Self {
        Entries { tree, at, id_bytes: hash.len_in_bytes() }
    }

    /// The offset of the next entry.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<TreeEntry<'a>, MalformedObject>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.tree.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let Some((entry, length)) = parse_entry(rest, self.id_bytes) else {
            let at = std::mem::replace(&mut self.at, self.tree.len());
            return Some(Err(MalformedObject { what: "tree entry", at }));
        };
        self.at += length;
        Some(Ok(entry))
    }
}

#[inline]
fn parse_entry(bytes: &[u8], id_bytes: usize) -> Option<(TreeEntry<'_>, usize)> {
    let mut mode = 0u32;
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b' ' if at > 0 => break,
            digit @ b'0'..=b'7' if at < 7 => mode = mode << 3 | u32::from(digit - b'0'),
            _ => return None,
        }
        at += 1;
    }
    let name_start = at + 1;
    let name_end = name_start + memchr::memchr(0, &bytes[name_start..])?;
    let id = bytes.get(name_end + 1..name_end + 1 + id_bytes)?;
    let entry = TreeEntry { mode, name: &bytes[name_start..name_end], id: oid::from_bytes_unchecked(id) };
    Some((entry, name_end + 1 + id_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tree: &[u8], expect: &[(u32, &[u8], u8)]) {
        let got: Vec<_> = Entries::new(tree, HashKind::Sha1)
            .map(|entry| entry.map(|e| (e.mode, e.name, e.id.first_byte())))
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(got, expect);
        let mut again = Vec::new();
        for entry in Entries::new(tree, HashKind::Sha1) {
            entry.unwrap().append_to(&mut again);
        }
        assert_eq!(again, tree);
    }

    #[test]
    fn entries() {
        let mut tree = b"100644 a\0".to_vec();
        tree.extend([1; 20]);
        check(&tree, &[(0o100644, b"a", 1)]);
        tree.extend(b"40000 dir\0");
        tree.extend([2; 20]);
        check(&tree, &[(0o100644, b"a", 1), (0o40000, b"dir", 2)]);
        check(b"", &[]);
    }

    #[test]
    fn every_truncation_is_an_error_or_a_whole_prefix() {
        let mut tree = b"100644 a\0".to_vec();
        tree.extend([7; 20]);
        for end in 1..tree.len() {
            let last = Entries::new(&tree[..end], HashKind::Sha1).last().unwrap();
            assert!(last.is_err(), "cut at {end}");
        }
    }

    #[test]
    fn malformed_modes() {
        for mode in ["", "8", "x", "12345678"] {
            let mut tree = format!("{mode} a\0").into_bytes();
            tree.extend([7; 20]);
            assert!(Entries::new(&tree, HashKind::Sha1).next().unwrap().is_err(), "{mode:?}");
        }
    }
}
