use packrace_object::ObjectId;

use super::{Error, FetchLimits};
use crate::message::ls_refs::RefLine;

/// The refs of a server, in listed order. Names share one buffer, so that a million of them need no
/// allocation each.
#[derive(Debug, Clone, Default)]
pub struct ListedRefs {
    refs: Vec<StoredRef>,
    names: Vec<u8>,
}

#[derive(Debug, Clone)]
struct StoredRef {
    id: Option<ObjectId>,
    peeled: Option<ObjectId>,
    /// The start of its name in the buffer; its target follows.
    name_at: usize,
    name_bytes: u16,
    target_bytes: Option<u16>,
}

/// One ref of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedRef<'a> {
    /// The full name, as the server sent it; unchecked.
    pub name: &'a [u8],
    /// `None` for an unborn `HEAD`.
    pub id: Option<ObjectId>,
    /// The peeled object of an annotated tag.
    pub peeled: Option<ObjectId>,
    /// The target of a symbolic ref.
    pub symref_target: Option<&'a [u8]>,
}

impl ListedRefs {
    pub(super) fn push(&mut self, line: &RefLine<'_>, limits: &FetchLimits) -> Result<(), Error> {
        let target = line.symref_target.unwrap_or_default();
        if self.refs.len() >= limits.refs {
            return Err(Error::TooMany { what: "refs", limit: limits.refs });
        }
        if self.names.len() + line.name.len() + target.len() > limits.name_bytes {
            return Err(Error::TooMany { what: "bytes of names of refs", limit: limits.name_bytes });
        }
        let name_at = self.names.len();
        self.names.extend_from_slice(line.name);
        self.names.extend_from_slice(target);
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).expect("no line is longer than a packet");
        self.refs.push(StoredRef {
            id: line.id,
            peeled: line.peeled,
            name_at,
            name_bytes: length(line.name),
            target_bytes: line.symref_target.map(length),
        });
        Ok(())
    }

    /// All refs.
    pub fn iter(&self) -> impl Iterator<Item = ListedRef<'_>> {
        self.refs.iter().map(|kept| {
            let (name, rest) = self.names[kept.name_at..].split_at(kept.name_bytes.into());
            ListedRef {
                name,
                id: kept.id,
                peeled: kept.peeled,
                symref_target: kept.target_bytes.map(|length| &rest[..length.into()]),
            }
        })
    }

    /// The first ref of this name.
    pub fn find(&self, name: &[u8]) -> Option<ListedRef<'_>> {
        self.iter().find(|listed| listed.name == name)
    }

    /// The number of refs.
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether there is no ref.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }
}
