//! Lists the space and delta chain of every object of an indexed pack, in pack order.

use packrace_format::pack::{EntryKind, parse_entry_header};
use packrace_format::pack_index::Entry;
use packrace_object::{Kind, ObjectId};

use super::IndexedPack;
use super::error::{IngestError, IngestReason};

/// An object and its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// The length of the object, or of the delta if it is stored as one.
    pub size: u64,
    /// The length of the entry.
    pub packed_bytes: u64,
    /// The offset of the entry.
    pub offset: u64,
    /// The number of deltas down to a whole object, including its own.
    pub depth: u32,
    /// Its delta base.
    pub base: Option<ObjectId>,
}

/// An entry, and the position of its base.
struct ListedLink {
    entry: Entry,
    kind: Option<Kind>,
    size: u64,
    base: Option<usize>,
    depth: Option<u32>,
}

pub(super) fn list(indexed: &IndexedPack) -> Result<Vec<Listed>, IngestError> {
    let mut links = read(indexed)?;
    for at in 0..links.len() {
        settle(&mut links, at);
    }
    let end = indexed.data.map()?.len() as u64 - indexed.checksum.kind().len_in_bytes() as u64;
    let ends: Vec<u64> = links[1..].iter().map(|link| link.entry.offset).chain([end]).collect();
    let listed = links.iter().zip(ends).map(|(link, end)| Listed {
        id: link.entry.id,
        kind: link.kind.unwrap_or(Kind::Blob),
        size: link.size,
        packed_bytes: end - link.entry.offset,
        offset: link.entry.offset,
        depth: link.depth.unwrap_or(0),
        base: link.base.map(|base| links[base].entry.id),
    });
    Ok(listed.collect())
}

/// Reads the headers of all entries, in pack order.
fn read(indexed: &IndexedPack) -> Result<Vec<ListedLink>, IngestError> {
    let data = indexed.data.map()?;
    let mut entries = indexed.entries.clone();
    entries.sort_unstable_by_key(|entry| entry.offset);
    let by_offset = |offset: u64| entries.binary_search_by_key(&offset, |entry| entry.offset).ok();
    let link = |entry: &Entry| {
        let bytes = data.get(entry.offset as usize..).unwrap_or_default();
        let header = parse_entry_header(bytes, indexed.checksum.kind())
            .map_err(|error| IngestReason::bad_object(entry.offset, error.what))?;
        let (kind, base) = match header.kind {
            EntryKind::Object(kind) => (Some(kind), None),
            EntryKind::OfsDelta { distance } => (None, by_offset(entry.offset.saturating_sub(distance))),
            EntryKind::RefDelta { base } => {
                let found = indexed.entries.binary_search_by(|entry| entry.id.cmp(&base));
                (None, found.ok().and_then(|at| by_offset(indexed.entries[at].offset)))
            }
        };
        Ok(ListedLink { entry: *entry, kind, size: header.size, base, depth: kind.map(|_| 0) })
    };
    entries.iter().map(link).collect()
}

/// Takes kind and depth from the nearest base that has them; an indexed pack has no loops.
fn settle(links: &mut [ListedLink], at: usize) {
    let mut chain = Vec::new();
    let mut next = Some(at);
    while let Some(at) = next.filter(|at| links[*at].depth.is_none() && chain.len() < links.len()) {
        chain.push(at);
        next = links[at].base;
    }
    for at in chain.into_iter().rev() {
        if let Some(base) = links[at].base {
            (links[at].kind, links[at].depth) = (links[base].kind, links[base].depth.map(|depth| depth + 1));
        }
    }
}
