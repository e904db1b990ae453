//! The attribute `delta` (gitattributes, "Packing objects"): files for which it is unset are not tried as deltas, nor as
//! bases. Deltas that are stored are taken over all the same, as by git.

use std::collections::HashSet;

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MalformedObject, parse_commit};
use packrace_store::DeltaAttribute;

use crate::error::{Error, Reason};
use crate::plan::PackPlan;
use crate::universe::Ix;

use super::list::Entry;

/// Bytes that are kept as delta bases while trees are read.
const READER_CACHE_BYTES: usize = 16 << 20;

/// The blobs that are not to be deltas; none are looked for where nothing says anything about the attribute. Where a blob
/// has several paths, the first that is met counts.
pub(super) fn undeltified(plan: &PackPlan, entries: &[Entry]) -> Result<HashSet<Ix>, Error> {
    let universe = &plan.universe;
    let mut found = HashSet::new();
    let Some(mut attribute) = universe.snapshot().delta_attribute()? else { return Ok(found) };
    let mut reader = universe.snapshot().reader(READER_CACHE_BYTES);
    let mut content = Vec::new();
    let mut seen = HashSet::new();
    for commit in entries.iter().filter(|entry| entry.kind == Kind::Commit) {
        universe.read(&mut reader, commit.ix, &mut content)?;
        let malformed =
            |ix: Ix| move |source: MalformedObject| Reason::Malformed { id: universe.id(ix), source };
        let tree = parse_commit(&content, universe.hash()).map_err(malformed(commit.ix))?.tree;
        let mut open = Vec::from_iter(universe.find(&tree)?.map(|tree| (tree, Vec::new())));
        while let Some((tree, path)) = open.pop() {
            if !plan.wanted.contains(tree) || !seen.insert(tree) {
                continue;
            }
            universe.read(&mut reader, tree, &mut content)?;
            for entry in Entries::new(&content, universe.hash()) {
                let entry = entry.map_err(malformed(tree))?;
                let Some(ix) = universe.find(entry.id)? else { continue };
                let path = [&path[..], entry.name].concat();
                match entry.kind() {
                    EntryKind::Tree => open.push((ix, [&path[..], b"/"].concat())),
                    EntryKind::Blob => note(plan, &mut attribute, ix, &path, (&mut seen, &mut found)),
                    EntryKind::Submodule => {}
                }
            }
        }
    }
    Ok(found)
}

fn note(
    plan: &PackPlan,
    attribute: &mut DeltaAttribute,
    blob: Ix,
    path: &[u8],
    (seen, found): (&mut HashSet<Ix>, &mut HashSet<Ix>),
) {
    if plan.wanted.contains(blob) && seen.insert(blob) && attribute.is_unset(path) {
        found.insert(blob);
    }
}
