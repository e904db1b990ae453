//! Trees as flat lists of paths, and back.

use std::collections::BTreeMap;

use gix_object::bstr::BString;
use packrace_object::tree::{Entries, EntryKind, TreeEntry};
use packrace_object::{Kind, ObjectId};

use crate::error::WorkError;
use crate::index::{IndexEntry, Mode};
use crate::objects::Objects;

/// Deepest nesting of trees (git-config, "core.maxTreeDepth").
const MAX_DEPTH: usize = 2048;

/// The item at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeItem {
    /// Never a directory.
    pub mode: Mode,
    /// The blob, or the commit of a submodule.
    pub id: ObjectId,
}

impl TreeItem {
    /// The item of an entry.
    pub fn of(entry: &IndexEntry) -> Self {
        TreeItem { mode: entry.mode, id: entry.id }
    }

    /// The blob; `None` for a submodule.
    pub fn blob(&self) -> Option<ObjectId> {
        (self.mode != Mode::Gitlink).then_some(self.id)
    }
}

/// Items by path, in the order of an index.
pub type Listing = BTreeMap<BString, TreeItem>;

/// All paths of a tree and its subtrees, without the subtrees themselves.
pub fn list(objects: &Objects, tree: &ObjectId) -> Result<Listing, WorkError> {
    let mut listing = Listing::new();
    let mut waiting = vec![(*tree, BString::default(), 0)];
    while let Some((id, prefix, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            return Err(WorkError::Damaged {
                id: *tree,
                why: "exceeds the allowed depth of trees".to_owned(),
            });
        }
        let content = objects.read_as(&id, Kind::Tree)?;
        for entry in Entries::new(&content, objects.hash_kind()) {
            let entry = entry.map_err(|error| WorkError::malformed(id, error))?;
            let mut path = prefix.clone();
            path.extend_from_slice(entry.name);
            match entry.kind() {
                EntryKind::Tree => {
                    path.push(b'/');
                    waiting.push((entry.id.to_owned(), path, depth + 1));
                }
                _ => {
                    let id = entry.id.to_owned();
                    let why = || WorkError::Damaged { id, why: format!("has a mode of {:o}", entry.mode) };
                    let mode = Mode::of_bits(entry.mode).ok_or_else(why)?;
                    listing.insert(path, TreeItem { mode, id });
                }
            }
        }
    }
    Ok(listing)
}

/// Writes the trees of a list, and returns the root's id.
pub fn make_trees<'a>(
    objects: &Objects,
    items: impl IntoIterator<Item = (&'a [u8], TreeItem)>,
) -> Result<ObjectId, WorkError> {
    // The current directory and its parents, each with its entries so far.
    let mut open: Vec<(Vec<u8>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    for (path, item) in items {
        let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let directory = &path[..name_at];
        while !directory.starts_with(&open.last().expect("the top stays").0) {
            close(objects, &mut open)?;
        }
        let mut at = open.last().expect("the top stays").0.len();
        while let Some(end) = directory[at..].iter().position(|byte| *byte == b'/') {
            at += end + 1;
            open.push((directory[..at].to_vec(), Vec::new()));
        }
        let entry = TreeEntry { mode: item.mode.bits(), name: &path[name_at..], id: &item.id };
        entry.append_to(&mut open.last_mut().expect("the top stays").1);
    }
    while open.len() > 1 {
        close(objects, &mut open)?;
    }
    let (_, content) = open.pop().expect("the top stays");
    objects.make(Kind::Tree, content)
}

/// Writes the tree of the innermost directory and adds it to the one above.
fn close(objects: &Objects, open: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), WorkError> {
    let (directory, content) = open.pop().expect("the top is not closed");
    let id = objects.make(Kind::Tree, content)?;
    let (above, entries) = open.last_mut().expect("the top stays");
    let name = &directory[above.len()..directory.len() - 1];
    TreeEntry { mode: Mode::Dir.bits(), name, id: &id }.append_to(entries);
    Ok(())
}

#[cfg(test)]
mod tests {
    use packrace_store::{OpenOptions, Repository};
    use packrace_testkit::{RepoBuilder, Size};

    use super::*;

    #[test]
    fn trees_are_listed_and_made_again() {
        let repo = RepoBuilder::new(Size::Small).build();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let snapshot = repository.snapshot().unwrap();
        let revisions = repo.git(&["rev-list", "--all"]);
        for revision in revisions.lines().step_by(7) {
            let tree = repo.git(&["rev-parse", &format!("{revision}^{{tree}}")]);
            let tree = ObjectId::from_hex(tree.trim().as_bytes()).unwrap();
            let objects = Objects::new(&snapshot);
            let listing = list(&objects, &tree).unwrap();
            let lines = repo.git(&["ls-tree", "-r", "--name-only", "-z", revision]);
            let names: Vec<_> = lines.split_terminator('\0').map(BString::from).collect();
            assert_eq!(listing.keys().cloned().collect::<Vec<_>>(), names);
            let items = listing.iter().map(|(path, item)| (path.as_slice(), *item));
            assert_eq!(make_trees(&objects, items).unwrap(), tree);
        }
    }

    #[test]
    fn what_is_no_tree() {
        let repo = RepoBuilder::new(Size::Small).build();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let objects = Objects::new(&repository.snapshot().unwrap());
        let blob = objects.make(Kind::Blob, b"content".to_vec()).unwrap();
        assert_eq!(list(&objects, &blob).unwrap_err().to_string(), format!("object {blob} is not a tree"));
        let damaged = objects.make(Kind::Tree, b"100644 a\0short".to_vec()).unwrap();
        assert!(matches!(list(&objects, &damaged), Err(WorkError::Damaged { id, .. }) if id == damaged));
        let empty = make_trees(&objects, []).unwrap();
        assert_eq!(empty, objects.hash_kind().empty_tree());
        assert_eq!(list(&objects, &empty).unwrap(), Listing::new());
    }
}
