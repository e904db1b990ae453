//! Fetches what a merge is about to read, in a partial clone: in one request instead of one for each file.

use std::collections::{BTreeSet, HashSet};

use gix_object::bstr::BString;
use packrace_object::ObjectId;

use crate::error::WorkError;
use crate::listing::{Listing, TreeItem, list};
use crate::objects::Objects;

/// Fetches files that both sides have changed, and those that may have been renamed.
pub(super) fn prefetch(objects: &Objects, [base, ours, theirs]: [&ObjectId; 3]) -> Result<(), WorkError> {
    if !objects.fetches_on_read() {
        return Ok(());
    }
    let base = list(objects, base)?;
    let sides = [list(objects, ours)?, list(objects, theirs)?];
    let mut wanted = changed_by_both(&base, &sides);
    sides.iter().for_each(|side| wanted.extend(maybe_renamed(&base, side)));
    Ok(objects.prefetch(wanted)?)
}

fn changed_by_both(base: &Listing, [ours, theirs]: &[Listing; 2]) -> BTreeSet<ObjectId> {
    let mut wanted = BTreeSet::new();
    for path in base.keys().chain(ours.keys()) {
        let [old, our, their] = [base, ours, theirs].map(|files| files.get(path));
        if our != old && their != old && our != their {
            wanted.extend([old, our, their].into_iter().flatten().filter_map(TreeItem::blob));
        }
    }
    wanted
}

/// What a side has added and removed, but for equal files.
fn maybe_renamed(base: &Listing, side: &Listing) -> impl Iterator<Item = ObjectId> {
    let [removed, added] = [only_in(base, side), only_in(side, base)];
    let is_pair = !removed.is_empty() && !added.is_empty();
    let pairs: Vec<ObjectId> = removed.symmetric_difference(&added).copied().collect();
    pairs.into_iter().filter(move |_| is_pair)
}

fn only_in(one: &Listing, other: &Listing) -> HashSet<ObjectId> {
    let alone = |(path, item): (&BString, &TreeItem)| item.blob().filter(|_| !other.contains_key(path));
    one.iter().filter_map(alone).collect()
}
