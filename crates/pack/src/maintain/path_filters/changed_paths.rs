//! The paths in which two trees differ.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_format::commit_graph::PathHash;
use packrace_object::tree::{EntryKind, TreeEntry};

use crate::error::{Error, Reason};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::trees::{Difference, Differences, Tree, TreeDecoder};

/// Compares trees; each thread has one.
pub(super) struct ChangedPaths<'a> {
    request_objects: &'a RequestObjects,
    decoder: TreeDecoder<'a>,
    hash: PathHash,
    /// The most files that a filter describes.
    max_files: usize,
    max_depth: usize,
    empty: Arc<Tree>,
    /// The path of the entries that are compared now.
    path: Vec<u8>,
    found: Vec<u64>,
    files: usize,
    /// Pairs of different trees without a file that differs. Without them, a few nested trees of empty trees
    /// would be compared again and again.
    alike: HashSet<(Option<ObjectNo>, Option<ObjectNo>)>,
}

/// Two trees at the same path, and how far they are compared.
struct TreePair {
    old: Option<ObjectNo>,
    new: Option<ObjectNo>,
    old_tree: Arc<Tree>,
    new_tree: Arc<Tree>,
    at: (usize, usize),
    /// The length of the path, with a slash at its end.
    path: usize,
    /// Whether a file differs.
    differs: bool,
}

impl<'a> ChangedPaths<'a> {
    pub(super) fn new(
        request_objects: &'a RequestObjects,
        hash: PathHash,
        max_files: usize,
        max_depth: usize,
    ) -> Self {
        ChangedPaths {
            request_objects,
            decoder: TreeDecoder::new(request_objects),
            hash,
            max_files,
            max_depth,
            empty: Arc::new(Tree { bytes: Vec::new(), starts: vec![0], base: None, fresh: Vec::new() }),
            path: Vec::new(),
            found: Vec::new(),
            files: 0,
            alike: HashSet::new(),
        }
    }

    /// The hashes of the paths that differ, and of the directories above them; some may be there twice. `None`
    /// if there are too many files for a filter.
    pub(super) fn between(
        &mut self,
        old: Option<ObjectNo>,
        new: Option<ObjectNo>,
    ) -> Result<Option<&mut Vec<u64>>, Error> {
        self.path.clear();
        self.found.clear();
        self.files = 0;
        let mut levels = Vec::new();
        self.open(old, new, 0, &mut levels)?;
        while !levels.is_empty() && self.files <= self.max_files {
            self.step(&mut levels)?;
        }
        Ok((self.files <= self.max_files).then_some(&mut self.found))
    }

    /// Opens two trees below `path`, unless it is known that no file differs.
    fn open(
        &mut self,
        old: Option<ObjectNo>,
        new: Option<ObjectNo>,
        path: usize,
        levels: &mut Vec<TreePair>,
    ) -> Result<(), Error> {
        if old == new || self.alike.contains(&(old, new)) {
            return Ok(());
        }
        if levels.len() > self.max_depth {
            return Err(Reason::DeepTree.into());
        }
        let (old_tree, new_tree) = (self.tree(old)?, self.tree(new)?);
        levels.push(TreePair { old, new, old_tree, new_tree, at: (0, 0), path, differs: false });
        Ok(())
    }

    /// Notes what differs at the last level, and opens the trees that do.
    fn step(&mut self, levels: &mut Vec<TreePair>) -> Result<(), Error> {
        let Some(level) = levels.last_mut() else { return Ok(()) };
        let (old_tree, new_tree) = (level.old_tree.clone(), level.new_tree.clone());
        let hash = self.request_objects.hash();
        let mut differences = Differences::resume(hash, &old_tree, &new_tree, level.at);
        self.path.truncate(level.path);
        let Some(difference) = differences.next() else {
            let level = levels.pop().expect("there is a last level");
            if !level.differs {
                self.alike.insert((level.old, level.new));
            } else if let Some(above) = levels.last_mut() {
                above.differs = true;
                self.path.pop();
                self.found.push(self.hash.hash(&self.path));
            }
            return Ok(());
        };
        level.at = differences.position();
        let Difference { old, new } = difference.map_err(|source| {
            let id = self.request_objects.id(level.new.or(level.old).expect("an empty tree has no entries"));
            Reason::Malformed { id, source }
        })?;
        let [old, new] = [&old, &new].map(|located| located.as_ref().map(|located| &located.entry));
        let Some(TreeEntry { name, .. }) = new.or(old) else { return Ok(()) };
        self.path.extend_from_slice(name);
        let [old_file, new_file] = [old, new].map(|entry| {
            let entry = entry.filter(|entry| entry.kind() != EntryKind::Tree);
            entry.map(|entry| (canonical_mode(entry.mode), entry.id))
        });
        if old_file != new_file {
            level.differs = true;
            self.files += 1;
            self.found.push(self.hash.hash(&self.path));
        }
        self.path.push(b'/');
        let (old, new) = (self.find(old)?, self.find(new)?);
        self.open(old, new, self.path.len(), levels)
    }

    fn tree(&mut self, tree: Option<ObjectNo>) -> Result<Arc<Tree>, Error> {
        tree.map_or_else(|| Ok(self.empty.clone()), |tree| self.decoder.tree(tree))
    }

    /// `None` if the entry is no tree, or the empty one, which git knows without storing it.
    fn find(&self, entry: Option<&TreeEntry<'_>>) -> Result<Option<ObjectNo>, Error> {
        let tree = entry.filter(|entry| entry.kind() == EntryKind::Tree && !entry.id.is_empty_tree());
        tree.map(|tree| self.request_objects.require(tree.id)).transpose()
    }
}

/// Of a file's permissions, git knows whether its owner may execute it.
fn canonical_mode(mode: u32) -> u32 {
    match mode & 0o170000 {
        0o100000 if mode & 0o100 != 0 => 0o100755,
        0o100000 => 0o100644,
        other => other,
    }
}
