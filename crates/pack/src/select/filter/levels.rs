//! Reads trees level by level, each level in pack order, so that delta bases were decoded shortly before.

use std::collections::HashSet;

use packrace_object::tree::{Entries, EntryKind, TreeEntry};
use packrace_object::{Kind, MalformedObject};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::trees::{AllowedMissing, TreeDecoder};

/// Trees read between two checks for cancellation, if they are cheap.
const TREES_BETWEEN_LOOKS: u64 = 256;

/// Where a filter's walk starts, and which objects it may visit.
pub(crate) struct Start<'a> {
    /// The root trees of all commits to send.
    pub(crate) roots: Vec<ObjectNo>,
    /// Trees that the client wants by id.
    pub(crate) given: Vec<ObjectNo>,
    /// The objects that would be sent without the filter; `None` if unknown: every object is in scope.
    pub(crate) scope: Option<&'a Marks>,
}

impl Start<'_> {
    pub(crate) fn is_in_scope(&self, ix: ObjectNo) -> bool {
        self.scope.is_none_or(|scope| scope.contains(ix))
    }
}

/// Reads trees and checks for cancellation.
pub(crate) struct TreeReader<'a> {
    pub(crate) request_objects: &'a RequestObjects,
    progress: &'a dyn ProgressSink,
    decoder: TreeDecoder<'a>,
    allowed_missing: AllowedMissing,
    max_depth: usize,
    read: u64,
    /// The cost since the last check for cancellation, in trees.
    spent: u64,
}

impl<'a> TreeReader<'a> {
    /// A reader for a repository that may lack objects.
    pub(crate) fn new(
        request_objects: &'a RequestObjects,
        allowed_missing: AllowedMissing,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let decoder = TreeDecoder::new(request_objects);
        TreeReader {
            request_objects,
            progress,
            decoder,
            allowed_missing,
            max_depth: usize::MAX,
            read: 0,
            spent: 0,
        }
    }

    /// Sets the depth beyond which [`TreeReader::check_depth`] fails.
    pub(crate) fn no_deeper_than(self, max_depth: usize) -> Self {
        TreeReader { max_depth, ..self }
    }

    /// Fails if trees at this depth are too deep.
    pub(crate) fn check_depth(&self, depth: usize) -> Result<(), Error> {
        if depth > self.max_depth { Err(Reason::DeepTree.into()) } else { Ok(()) }
    }

    /// Sorts trees into the best order to read them.
    pub(crate) fn sort<T>(&self, level: &mut [T], tree_of: impl Fn(&T) -> ObjectNo) {
        level.sort_by_cached_key(|item| {
            let ix = tree_of(item);
            match self.request_objects.packed(ix) {
                Some(packed) => {
                    let at = self.request_objects.snapshot().locate(packed);
                    (at.pack.0, at.offset)
                }
                None => (u32::MAX, u64::from(ix.0)),
            }
        });
    }

    /// Checks for cancellation once enough work was done since the last check; `trees` is the cost in trees
    /// read.
    pub(crate) fn spend(&mut self, trees: u64) -> Result<(), Error> {
        self.spent = self.spent.saturating_add(trees);
        if self.spent >= TREES_BETWEEN_LOOKS {
            self.spent = 0;
            if self.progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            self.progress.report(Phase::Enumerating, self.read, 0);
        }
        Ok(())
    }

    /// Calls `each` with the trees and blobs of a tree. If the tree is stored as a delta of a tree that
    /// `is_done`, only the entries that it does not share with that base are visited.
    pub(crate) fn entries(
        &mut self,
        ix: ObjectNo,
        is_done: impl Fn(ObjectNo) -> bool,
        mut each: impl FnMut(TreeEntry<'_>, Kind, ObjectNo),
    ) -> Result<(), Error> {
        self.read += 1;
        self.spend(1)?;
        let tree = self.decoder.tree(ix)?;
        let starts = match tree.base.is_some_and(is_done) {
            true => &tree.fresh[..],
            false => &tree.starts[..tree.starts.len() - 1],
        };
        let hash = self.request_objects.hash();
        for &at in starts {
            let Some(Ok(entry)) = Entries::at(&tree.bytes, hash, at as usize).next() else {
                let source = MalformedObject { what: "tree entry", at: at as usize };
                return Err(Reason::Malformed { id: self.request_objects.id(ix), source }.into());
            };
            let kind = match entry.kind() {
                EntryKind::Submodule => continue,
                EntryKind::Tree => Kind::Tree,
                EntryKind::Blob => Kind::Blob,
            };
            match self.request_objects.find(entry.id)? {
                Some(found) => each(entry, kind, found),
                None if self.allowed_missing.allows(
                    self.request_objects,
                    entry.id,
                    kind,
                    self.progress,
                )? => {}
                None => return Err(Reason::missing(entry.id.to_owned(), kind).into()),
            }
        }
        Ok(())
    }
}

/// Trees and blobs in scope whose depth is less than `depth` at some path; the entries of a named tree are at
/// depth 0.
pub(crate) fn within_depth(
    trees: &mut TreeReader<'_>,
    start: &Start<'_>,
    depth: u64,
) -> Result<Marks, Error> {
    let reached = Marks::new(trees.request_objects.packed_end());
    let mut level = Vec::new();
    for given in start.given.iter().collect::<HashSet<_>>() {
        trees.entries(
            *given,
            |_| false,
            |_, kind, found| {
                if start.is_in_scope(found) && reached.insert(found) && kind == Kind::Tree {
                    level.push(found);
                }
            },
        )?;
    }
    level.extend(start.roots.iter().filter(|root| start.is_in_scope(**root) && reached.insert(**root)));
    // Trees at this depth or nearer to the root, so their entries are at the next depth or nearer.
    let expanded = Marks::new(trees.request_objects.packed_end());
    for at in 1..depth {
        if level.is_empty() {
            break;
        }
        trees.check_depth(usize::try_from(at - 1).unwrap_or(usize::MAX))?;
        trees.sort(&mut level, |tree| *tree);
        for tree in &level {
            expanded.insert(*tree);
        }
        let mut next = Vec::new();
        for tree in level {
            trees.entries(
                tree,
                |base| expanded.contains(base),
                |_, kind, found| {
                    if start.is_in_scope(found) && reached.insert(found) && kind == Kind::Tree {
                        next.push(found);
                    }
                },
            )?;
        }
        level = next;
    }
    Ok(reached)
}
