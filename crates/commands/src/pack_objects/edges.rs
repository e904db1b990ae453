//! What the receiver of an object list has (`-<id>` lines of `pack-objects`).

use std::collections::{HashMap, HashSet};

use packrace_object::ObjectId;
use packrace_object::tree::{Entries, EntryKind};
use packrace_pack::RequestObjects;
use packrace_store::ObjectReader;

use crate::call::fatal::Fatal;

/// The trees of the receiver's commits. As in git, what they have at the path of an object that is listed behind them
/// is not packed; each path is looked up once.
pub struct Edges<'a> {
    reader: ObjectReader,
    /// How many more are used: as many as the window of the delta search has objects.
    room: usize,
    is_empty: bool,
    trees: Vec<ObjectId>,
    paths: HashSet<&'a [u8]>,
    /// The entries of the trees that were read.
    entries: HashMap<ObjectId, HashMap<Vec<u8>, (EntryKind, ObjectId)>>,
    /// With the paths.
    had: HashMap<ObjectId, &'a [u8]>,
}

impl<'a> Edges<'a> {
    /// None yet, and at most `window`.
    pub fn new(request_objects: &RequestObjects, window: usize) -> Self {
        Edges {
            reader: request_objects.snapshot().reader(1 << 20),
            room: window,
            is_empty: true,
            trees: Vec::new(),
            paths: HashSet::new(),
            entries: HashMap::new(),
            had: HashMap::new(),
        }
    }

    /// Adds an object of the receiver.
    pub fn add(&mut self, id: ObjectId) -> Result<(), Fatal> {
        self.is_empty = false;
        if self.room > 0 {
            self.room -= 1;
            let tree = self.reader.tree_of(&id)?;
            self.trees.extend(tree);
        }
        Ok(())
    }

    /// Notes what the receiver has at the path of a listed object.
    pub fn look_at(&mut self, path: &'a [u8]) {
        if self.is_empty || !self.paths.insert(path) {
            return;
        }
        for tree in self.trees.clone() {
            let found = self.at_path(tree, path);
            self.had.extend(found.map(|id| (id, path)));
        }
    }

    /// Whether the receiver has this object, as far as was looked.
    pub fn have(&self, id: &ObjectId) -> bool {
        self.had.contains_key(id)
    }

    /// What the receiver has at the paths of listed objects.
    pub fn into_had(self) -> impl Iterator<Item = (ObjectId, &'a [u8])> {
        self.had.into_iter()
    }

    /// The object at a path; as in git, the tree itself if the path begins with no name.
    fn at_path(&mut self, mut tree: ObjectId, path: &[u8]) -> Option<ObjectId> {
        if path.first().is_none_or(|byte| *byte == b'/') {
            return Some(tree);
        }
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            match (self.entry(tree, name), names.peek()) {
                (Some((EntryKind::Tree, id)), Some(_)) => tree = id,
                (Some((kind, id)), None) if kind != EntryKind::Submodule => return Some(id),
                _ => break,
            }
        }
        None
    }

    fn entry(&mut self, tree: ObjectId, name: &[u8]) -> Option<(EntryKind, ObjectId)> {
        let reader = &mut self.reader;
        let entries = self.entries.entry(tree).or_insert_with(|| {
            // As in git, what cannot be read has nothing.
            let data = reader.read(&tree).map(|object| object.data).unwrap_or_default();
            let entries = Entries::new(&data, tree.kind()).map_while(Result::ok);
            entries.map(|entry| (entry.name.to_vec(), (entry.kind(), entry.id.to_owned()))).collect()
        });
        entries.get(name).copied()
    }
}
