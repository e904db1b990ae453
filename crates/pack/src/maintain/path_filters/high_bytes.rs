//! Whether paths have bytes of 0x80 and more, on which the two hashes of paths differ.

use std::collections::HashMap;

use packrace_object::tree::{Entries, EntryKind};

use crate::error::{Error, Reason};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::trees::TreeDecoder;

/// Deeper trees count as if they had such paths, which only costs a comparison.
const MAX_DEPTH: usize = 1024;

/// Searches trees, each once.
pub(super) struct HighBytes<'a> {
    request_objects: &'a RequestObjects,
    decoder: TreeDecoder<'a>,
    known: HashMap<ObjectNo, bool>,
}

impl<'a> HighBytes<'a> {
    pub(super) fn new(request_objects: &'a RequestObjects) -> Self {
        HighBytes { request_objects, decoder: TreeDecoder::new(request_objects), known: HashMap::new() }
    }

    /// Whether a path in this tree has one; `None` is the empty tree.
    pub(super) fn are_in(&mut self, tree: Option<ObjectNo>) -> Result<bool, Error> {
        tree.map_or(Ok(false), |tree| self.are_below(tree, 0))
    }

    fn are_below(&mut self, ix: ObjectNo, depth: usize) -> Result<bool, Error> {
        if let Some(known) = self.known.get(&ix) {
            return Ok(*known);
        }
        if depth > MAX_DEPTH {
            return Ok(true);
        }
        let tree = self.decoder.tree(ix)?;
        let mut found = false;
        for entry in Entries::new(&tree.bytes, self.request_objects.hash()) {
            let entry =
                entry.map_err(|source| Reason::Malformed { id: self.request_objects.id(ix), source })?;
            found = !entry.name.is_ascii();
            if !found && entry.kind() == EntryKind::Tree && !entry.id.is_empty_tree() {
                found = self.are_below(self.request_objects.require(entry.id)?, depth + 1)?;
            }
            if found {
                break;
            }
        }
        self.known.insert(ix, found);
        Ok(found)
    }
}
