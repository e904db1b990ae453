//! The attribute `delta` (gitattributes, "Packing objects"): the delta search skips files that unset it, as
//! targets and as bases. As in git, their stored deltas are still reused.

use std::collections::HashSet;

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MalformedObject, parse_commit};
use packrace_store::{DeltaAttribute, ObjectReader, cache_bytes};

use crate::error::{Error, Reason};
use crate::progress::ProgressSink;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

use super::list::ComposedEntry;

/// The attribute does not apply to files with longer paths.
const MAX_PATH_BYTES: usize = 1 << 16;

/// Trees read between two checks for cancellation.
const TREES_A_LOOK: u64 = 256;

/// The blobs that must not become deltas; if no file sets the attribute, no tree is read. If a blob has
/// several paths, the first one found counts.
pub(super) fn undeltified(
    plan: &PackPlan,
    entries: &[ComposedEntry],
    progress: &dyn ProgressSink,
) -> Result<HashSet<ObjectNo>, Error> {
    let Some(attribute) = plan.request_objects.snapshot().delta_attribute()? else {
        return Ok(HashSet::new());
    };
    let reader = plan.request_objects.snapshot().reader(cache_bytes::WHOLE_HISTORY);
    let (seen, found) = (HashSet::new(), HashSet::new());
    let mut walk = AttributeWalk { plan, progress, attribute, reader, trees: 0, seen, found };
    for commit in entries.iter().filter(|entry| entry.kind == Kind::Commit) {
        walk.commit(commit.ix)?;
    }
    Ok(walk.found)
}

struct AttributeWalk<'a> {
    plan: &'a PackPlan,
    progress: &'a dyn ProgressSink,
    attribute: DeltaAttribute,
    reader: ObjectReader,
    trees: u64,
    seen: HashSet<ObjectNo>,
    found: HashSet<ObjectNo>,
}

impl AttributeWalk<'_> {
    fn commit(&mut self, commit: ObjectNo) -> Result<(), Error> {
        let request_objects = &self.plan.request_objects;
        let mut content = Vec::new();
        request_objects.read(&mut self.reader, commit, &mut content)?;
        let tree = parse_commit(&content, request_objects.hash())
            .map_err(|error| self.malformed(commit, error))?
            .tree;
        // The path of the current tree, with a trailing slash. Each pending tree stores only the length of
        // its parent's path and its own name: whole paths would take quadratic memory.
        let mut path = Vec::new();
        let mut open = Vec::new();
        if let Some(root) = request_objects.find(&tree)?
            && self.is_new(root)
        {
            open.push((root, 0, Vec::new()));
        }
        while let Some((tree, parent_bytes, name)) = open.pop() {
            path.truncate(parent_bytes);
            path.extend_from_slice(&name);
            if !name.is_empty() {
                path.push(b'/');
            }
            self.tree(tree, &mut path, &mut content, &mut open)?;
        }
        Ok(())
    }

    fn tree(
        &mut self,
        tree: ObjectNo,
        path: &mut Vec<u8>,
        content: &mut Vec<u8>,
        open: &mut Vec<(ObjectNo, usize, Vec<u8>)>,
    ) -> Result<(), Error> {
        let request_objects = &self.plan.request_objects;
        self.trees += 1;
        if self.trees.is_multiple_of(TREES_A_LOOK) && self.progress.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        request_objects.read(&mut self.reader, tree, content)?;
        let directory_bytes = path.len();
        for entry in Entries::new(content, request_objects.hash()) {
            let entry = entry.map_err(|error| self.malformed(tree, error))?;
            if entry.kind() == EntryKind::Submodule || directory_bytes + entry.name.len() > MAX_PATH_BYTES {
                continue;
            }
            let Some(ix) = request_objects.find(entry.id)?.filter(|ix| self.is_new(*ix)) else { continue };
            if entry.kind() == EntryKind::Tree {
                open.push((ix, directory_bytes, entry.name.to_vec()));
                continue;
            }
            path.extend_from_slice(entry.name);
            if self.attribute.is_unset(path) {
                self.found.insert(ix);
            }
            path.truncate(directory_bytes);
        }
        Ok(())
    }

    /// Whether the object is in the pack and not visited yet.
    fn is_new(&mut self, ix: ObjectNo) -> bool {
        self.plan.wanted.contains(ix) && self.seen.insert(ix)
    }

    fn malformed(&self, ix: ObjectNo, source: MalformedObject) -> Error {
        Reason::Malformed { id: self.plan.request_objects.id(ix), source }.into()
    }
}
