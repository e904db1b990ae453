//! Finds what new commits have and the commits at their border lack, directory by directory.
//!
//! ```text
//! level 0   ""          trees of the new commits      trees of the border
//! level 1   "a/"        those of them that are new    the border's trees of the same path
//! ```
//!
//! Only directories with something new are visited, on both sides. Of the border's entries, only those whose
//! name has something new are looked up in packs. So the cost follows the size of the change, not of the
//! tree. An object that the border has elsewhere may be sent again if it was copied to a new path; a move is
//! recognised, because its old directory has changed, too. The border's object at the path of a new object
//! becomes a likely delta base.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use packrace_object::tree::{Entries, EntryKind, TreeEntry};
use packrace_object::{Kind, MalformedObject, ObjectId};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::NameHash;
use crate::progress::Phase;
use crate::request_objects::ObjectNo;

use super::decode::Tree;
use super::{OnMissing, TREES_BETWEEN_LOOKS, TreeWalk};

/// The most objects of the border that become likely delta bases for one path.
const BASES_A_PATH: usize = 4;

/// The trees of one path.
struct Directory {
    path: NameHash,
    wanted: Vec<ObjectNo>,
    had: Vec<ObjectNo>,
}

/// The border's objects by hashed name, newest first; they need not exist here.
type HadByName = HashMap<u64, Vec<(ObjectId, Kind)>>;

/// For a name with something new: the border's objects with that name, and a subdirectory's position in the
/// next level.
type NewName = (Vec<(ObjectNo, Kind)>, Option<usize>);

/// Compares wanted trees with the border's trees.
pub(crate) struct PathWalk<'w, 'a> {
    walk: &'w mut TreeWalk<'a>,
    /// Marks objects to send.
    wanted: &'w Marks,
    /// Marks objects that the receiver has.
    had: &'w Marks,
    /// Entries of the border's trees: the receiver should have them, even if they don't exist here.
    named_by_border: HashMap<ObjectId, Kind>,
    /// Trees of either side whose entries are all marked.
    expanded: HashSet<ObjectNo>,
    bases: Vec<(ObjectNo, NameHash)>,
    hasher: RandomState,
    looks: usize,
}

impl<'w, 'a> PathWalk<'w, 'a> {
    /// The walk adds to `wanted` and `had`.
    pub(crate) fn new(walk: &'w mut TreeWalk<'a>, wanted: &'w Marks, had: &'w Marks) -> Self {
        PathWalk {
            walk,
            wanted,
            had,
            named_by_border: HashMap::new(),
            expanded: HashSet::new(),
            bases: Vec::new(),
            hasher: RandomState::new(),
            looks: 0,
        }
    }

    /// Marks everything that the root trees `wanted` reach and, where needed, that the root trees `had`
    /// reach; the roots are marked already. Returns likely delta bases with their paths.
    pub(crate) fn run(
        mut self,
        wanted: Vec<ObjectNo>,
        had: Vec<ObjectNo>,
    ) -> Result<Vec<(ObjectNo, NameHash)>, Error> {
        self.bases.extend(had.iter().take(BASES_A_PATH).map(|root| (*root, NameHash::default())));
        let mut level = vec![Directory { path: NameHash::default(), wanted, had }];
        let mut depth = 0;
        while !level.is_empty() {
            if depth > self.walk.max_depth {
                return Err(Reason::DeepTree.into());
            }
            depth += 1;
            let mut had = Vec::with_capacity(level.len());
            for directory in &level {
                had.push(self.border(directory)?);
            }
            let mut next = Vec::new();
            for (directory, had) in level.into_iter().zip(had) {
                self.new_entries(directory, &had, &mut next)?;
            }
            level = next;
        }
        self.mark_what_was_moved_up()?;
        Ok(self.bases)
    }

    /// Marks as had what was taken for new before a deeper directory showed that the border has it, with
    /// everything below.
    fn mark_what_was_moved_up(&mut self) -> Result<(), Error> {
        if self.named_by_border.is_empty() {
            return Ok(());
        }
        let mut trees = Vec::new();
        for ix in self.wanted.members() {
            let Some(kind) = self.named_by_border.get(&self.walk.request_objects.id(ix)) else { continue };
            if self.had.insert(ix) && *kind == Kind::Tree {
                trees.push(ix);
            }
        }
        let marked = self.walk.marked;
        self.walk.mark_below(trees, self.had, OnMissing::Skip)?;
        self.walk.marked = marked;
        Ok(())
    }

    /// The entries of the border's trees.
    fn border(&mut self, directory: &Directory) -> Result<HadByName, Error> {
        let mut by_name = HadByName::new();
        for &ix in &directory.had {
            if !self.expanded.insert(ix) {
                continue;
            }
            self.look()?;
            // The receiver should have it, so it need not be readable here.
            let Ok(tree) = self.walk.decoders[0].tree(ix) else { continue };
            for entry in self.entries(ix, &tree)? {
                let Some((entry, kind)) = entry else { continue };
                let of_name = by_name.entry(self.hasher.hash_one(entry.name)).or_default();
                let known = (entry.id.to_owned(), kind);
                self.named_by_border.insert(known.0, kind);
                if !of_name.contains(&known) {
                    of_name.push(known);
                }
            }
        }
        Ok(by_name)
    }

    /// Marks and returns the border's objects with this name that exist here.
    fn had_under(&self, name: u64, had: &HadByName) -> Result<Vec<(ObjectNo, Kind)>, Error> {
        let mut found = Vec::new();
        for (id, kind) in had.get(&name).into_iter().flatten() {
            let Some(ix) = self.walk.request_objects.find(id)? else { continue };
            if let Some(kinds) = &self.walk.kinds {
                kinds.insert(ix, *kind);
            }
            self.had.insert(ix);
            found.push((ix, *kind));
        }
        Ok(found)
    }

    /// Marks what is new in the wanted trees; adds new directories to `next`.
    fn new_entries(
        &mut self,
        directory: Directory,
        had: &HadByName,
        next: &mut Vec<Directory>,
    ) -> Result<(), Error> {
        let mut trees = directory.wanted;
        self.walk.sort_as_stored(&mut trees);
        let mut seen: HashMap<u64, NewName> = HashMap::new();
        for ix in trees {
            let is_had =
                self.had.contains(ix) || self.named_by_border.contains_key(&self.walk.request_objects.id(ix));
            if is_had || !self.expanded.insert(ix) {
                continue;
            }
            self.look()?;
            let tree = self.walk.decoders[0].tree(ix)?;
            for entry in self.entries(ix, &tree)? {
                let Some((entry, kind)) = entry else { continue };
                if self.named_by_border.contains_key(entry.id) {
                    continue;
                }
                let Some(found) = self.walk.request_objects.find(entry.id)? else {
                    if self.walk.may_be_missing(entry.id, kind)? {
                        continue;
                    }
                    return Err(Reason::missing(entry.id.to_owned(), kind).into());
                };
                if let Some(kinds) = &self.walk.kinds {
                    kinds.insert(found, kind);
                }
                if self.had.contains(found) || !self.wanted.insert(found) {
                    continue;
                }
                self.walk.marked += 1;
                let path = self.walk.names.entry(directory.path, entry.name);
                self.walk.names.set(found, path);
                let name = self.hasher.hash_one(entry.name);
                let (same_path, subdirectory) = match seen.entry(name) {
                    MapEntry::Occupied(known) => known.into_mut(),
                    MapEntry::Vacant(new) => {
                        let same_path = self.had_under(name, had)?;
                        self.bases.extend(same_path.iter().take(BASES_A_PATH).map(|(base, _)| (*base, path)));
                        new.insert((same_path, None))
                    }
                };
                if kind != Kind::Tree {
                    continue;
                }
                let at = *subdirectory.get_or_insert_with(|| {
                    let trees = same_path.iter().filter(|(_, kind)| *kind == Kind::Tree);
                    let had = trees.map(|(tree, _)| *tree).collect();
                    next.push(Directory { path, wanted: Vec::new(), had });
                    next.len() - 1
                });
                next[at].wanted.push(found);
            }
        }
        Ok(())
    }

    /// The entries of a tree to look up: without those of a visited base.
    fn entries<'t>(
        &self,
        ix: ObjectNo,
        tree: &'t Arc<Tree>,
    ) -> Result<Vec<Option<(TreeEntry<'t>, Kind)>>, Error> {
        let is_base_known = tree.base.is_some_and(|base| self.expanded.contains(&base));
        let starts = if is_base_known { &tree.fresh[..] } else { &tree.starts[..tree.starts.len() - 1] };
        let request_objects = self.walk.request_objects;
        let entry = |&at: &u32| {
            let Some(Ok(entry)) = Entries::at(&tree.bytes, request_objects.hash(), at as usize).next() else {
                let source = MalformedObject { what: "tree entry", at: at as usize };
                return Err(Reason::Malformed { id: request_objects.id(ix), source }.into());
            };
            Ok(match entry.kind() {
                EntryKind::Submodule => None,
                EntryKind::Tree => Some((entry, Kind::Tree)),
                EntryKind::Blob => Some((entry, Kind::Blob)),
            })
        };
        starts.iter().map(entry).collect()
    }

    fn look(&mut self) -> Result<(), Error> {
        self.looks += 1;
        if self.looks.is_multiple_of(TREES_BETWEEN_LOOKS) {
            if self.walk.progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            self.walk.progress.report(Phase::Enumerating, self.walk.marked, 0);
        }
        Ok(())
    }
}
