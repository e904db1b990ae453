//! The entries in which two trees differ.

use std::cmp::Ordering;

use packrace_object::tree::{Entries, EntryKind, TreeEntry};
use packrace_object::{HashKind, MalformedObject};

use super::Tree;

/// An entry and its offset in its tree.
#[derive(Debug)]
pub(crate) struct Located<'t> {
    pub(crate) at: u32,
    pub(crate) entry: TreeEntry<'t>,
}

/// Two entries of one name, or one that the other tree lacks.
#[derive(Debug)]
pub(crate) struct Difference<'t> {
    pub(crate) old: Option<Located<'t>>,
    pub(crate) new: Option<Located<'t>>,
}

/// Iterates over differences in the order of the trees. Both should be sorted; if a damaged one is not, more
/// entries differ.
pub(crate) struct Differences<'t> {
    hash: HashKind,
    old: &'t Tree,
    new: &'t Tree,
    old_at: usize,
    new_at: usize,
}

impl<'t> Differences<'t> {
    pub(crate) fn new(hash: HashKind, old: &'t Tree, new: &'t Tree) -> Self {
        Differences::resume(hash, old, new, (0, 0))
    }

    /// Continues at a [`Self::position`].
    pub(crate) fn resume(
        hash: HashKind,
        old: &'t Tree,
        new: &'t Tree,
        (old_at, new_at): (usize, usize),
    ) -> Self {
        Differences { hash, old, new, old_at, new_at }
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.old_at, self.new_at)
    }

    /// Passes entries that are the same in both.
    fn skip_same(&mut self) {
        let starts = &self.new.starts[self.new_at..];
        let (start, old_start) = (starts[0] as usize, self.old.starts[self.old_at] as usize);
        let same = common_prefix(&self.new.bytes[start..], &self.old.bytes[old_start..]);
        // An entry ends with an id, so if it is complete in one tree, it is complete in the other.
        let whole = starts.partition_point(|next| *next as usize <= start + same) - 1;
        self.new_at += whole;
        self.old_at += whole;
    }

    fn entry(&self, tree: &'t Tree, number: usize) -> Result<Option<Located<'t>>, MalformedObject> {
        if number + 1 >= tree.starts.len() {
            return Ok(None);
        }
        let at = tree.starts[number];
        let entry = Entries::at(&tree.bytes, self.hash, at as usize).next();
        let malformed = MalformedObject { what: "tree entry", at: at as usize };
        let entry = entry.transpose()?.ok_or(malformed)?;
        Ok(Some(Located { at, entry }))
    }
}

impl<'t> Iterator for Differences<'t> {
    type Item = Result<Difference<'t>, MalformedObject>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_same();
        let entries = self.entry(self.old, self.old_at).and_then(|old| {
            let new = self.entry(self.new, self.new_at)?;
            Ok((old, new))
        });
        let (old, new) = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.old_at = self.old.starts.len() - 1;
                self.new_at = self.new.starts.len() - 1;
                return Some(Err(error));
            }
        };
        let order = match (&old, &new) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => sort_key(&old.entry).cmp(sort_key(&new.entry)),
        };
        self.old_at += usize::from(order.is_le());
        self.new_at += usize::from(order.is_ge());
        let (old, new) = (old.filter(|_| order.is_le()), new.filter(|_| order.is_ge()));
        Some(Ok(Difference { old, new }))
    }
}

/// Trees are sorted by name, directories as if theirs ended in a slash (git's user manual, "Git object
/// model").
fn sort_key<'e>(entry: &TreeEntry<'e>) -> impl Iterator<Item = u8> + 'e {
    let slash = (entry.kind() == EntryKind::Tree).then_some(b'/');
    entry.name.iter().copied().chain(slash)
}

/// The length of the longest common prefix.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for chunk in [4096, 512, 64, 1] {
        let (a, b) = (a[at..].chunks_exact(chunk), b[at..].chunks_exact(chunk));
        at += a.zip(b).take_while(|(a, b)| a == b).count() * chunk;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes() {
        let a = vec![7; 10_000];
        for length in [0, 1, 63, 64, 65, 511, 513, 4096, 5000, 9999, 10_000] {
            let mut b = a.clone();
            assert_eq!(common_prefix(&a, &b[..length]), length);
            b.get_mut(length).into_iter().for_each(|byte| *byte = 8);
            assert_eq!(common_prefix(&a, &b), length);
        }
    }

    /// Each difference is a name with `-` (only in `old`), `+` (only in `new`) or `=` (in both).
    fn check(old: &[&str], new: &[&str], expect: &str) {
        let tree = |entries: &[&str]| {
            let (mut bytes, mut starts) = (Vec::new(), vec![0]);
            for entry in entries {
                let (name, id) = entry.split_once(' ').unwrap();
                let mode = if name.ends_with('/') { 0o40000 } else { 0o100644 };
                let id = packrace_object::ObjectId::Sha1([id.parse().unwrap(); 20]);
                let entry = TreeEntry { mode, name: name.trim_end_matches('/').as_bytes(), id: &id };
                entry.append_to(&mut bytes);
                starts.push(bytes.len() as u32);
            }
            Tree { bytes, starts, base: None, fresh: Vec::new() }
        };
        let (old, new) = (tree(old), tree(new));
        let found: Vec<String> = Differences::new(HashKind::Sha1, &old, &new)
            .map(|difference| {
                let (sign, located) = match difference.unwrap() {
                    Difference { old: Some(_), new: Some(new) } => ('=', new),
                    Difference { old: Some(old), new: None } => ('-', old),
                    Difference { old: None, new: Some(new) } => ('+', new),
                    Difference { old: None, new: None } => unreachable!("a difference has an entry"),
                };
                format!("{sign}{}", String::from_utf8_lossy(located.entry.name))
            })
            .collect();
        assert_eq!(found.join(" "), expect);
    }

    #[test]
    fn entries_that_differ() {
        check(&[], &[], "");
        check(&["a 1", "b 1"], &["a 1", "b 1"], "");
        check(&[], &["a 1", "b 1"], "+a +b");
        check(&["a 1", "b 1"], &[], "-a -b");
        check(&["a 1", "b 1", "c 1"], &["a 1", "b 2", "c 1"], "=b");
        check(&["a 1", "c 1"], &["b 1", "c 1"], "-a +b");
        check(&["a 1", "a.b 1"], &["a.b 1", "a/ 1"], "-a +a");
        check(&["a 1", "b 1", "d 1"], &["b 1", "c 1", "d 1", "e 1"], "-a +c +e");
    }
}
