//! Objects by their paths in trees.

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MAX_TAG_DEPTH, MalformedObject, ObjectId, oid, parse_commit, parse_tag};

use crate::error::{Error, ErrorKind};
use crate::objects::reader::ObjectReader;

impl ObjectReader {
    /// The tree that an object leads to: itself, that of a commit, or that of what a tag names. `None` for a blob, and
    /// if an object on the way is missing, or one of too many tags.
    pub fn tree_of(&mut self, id: &oid) -> Result<Option<ObjectId>, Error> {
        let mut id = id.to_owned();
        for _ in 0..MAX_TAG_DEPTH {
            let Some((kind, _)) = self.kind_and_size(&id)? else { return Ok(None) };
            id = match kind {
                Kind::Tree => return Ok(Some(id)),
                Kind::Blob => return Ok(None),
                Kind::Commit => parse_commit(&self.read(&id)?.data, id.kind()).map_err(damaged)?.tree,
                Kind::Tag => parse_tag(&self.read(&id)?.data, id.kind()).map_err(damaged)?.target,
            };
        }
        Ok(None)
    }

    /// What is at a path of a tree. A slash may follow a directory; the empty path is the tree itself.
    pub fn entry_at(&mut self, tree: &oid, path: &[u8]) -> Result<Option<(EntryKind, ObjectId)>, Error> {
        let (mut found, mut rest) = ((EntryKind::Tree, tree.to_owned()), path);
        while !rest.is_empty() {
            let id = found.1;
            let name_end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let name = &rest[..name_end];
            let data = self.read(&id)?.data;
            let mut entries = Entries::new(&data, id.kind());
            let entry = entries.find(|entry| entry.as_ref().map_or(true, |entry| entry.name == name));
            let Some(entry) = entry.transpose().map_err(damaged)? else { return Ok(None) };
            found = (entry.kind(), entry.id.to_owned());
            if name_end < rest.len() && found.0 != EntryKind::Tree {
                return Ok(None);
            }
            rest = rest.get(name_end + 1..).unwrap_or_default();
        }
        Ok(Some(found))
    }
}

fn damaged(why: MalformedObject) -> Error {
    Error::caused(ErrorKind::Corrupt, why.to_string(), why)
}
