//! Finds objects that the receiver has and that are likely delta bases.

use std::collections::HashMap;

use packrace_store::PackIx;

use crate::names::NameHash;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

use super::list::ComposedEntry;

/// The most objects that the search compares with the objects of one path.
const SEARCHED_A_NAME: usize = 2;

/// The most objects of one path whose stored deltas are looked at.
const INVERTED_A_NAME: usize = 16;

/// Objects that the receiver has.
#[derive(Default)]
pub(super) struct LikelyBases {
    /// Those whose stored deltas may lead to an object to send.
    pub(super) inverted: Vec<ObjectNo>,
    /// Those to compare with objects to send, with the hashes of their paths.
    pub(super) searched: Vec<(ObjectNo, NameHash)>,
}

/// The likely bases of `entries`: those that the walk found, or else those that bitmaps know.
pub(super) fn find<'e>(plan: &PackPlan, entries: impl Iterator<Item = &'e ComposedEntry>) -> LikelyBases {
    if !plan.finds_bases_by_name {
        let inverted = plan.bases.iter().map(|(base, _)| *base).collect();
        return LikelyBases { inverted, searched: plan.bases.clone() };
    }
    let Some(had) = &plan.had else { return LikelyBases::default() };
    let mut by_name: HashMap<NameHash, Vec<(PackIx, u64, ObjectNo)>> = HashMap::new();
    for entry in entries.filter(|entry| entry.name != NameHash::default()) {
        by_name.entry(entry.name).or_default();
    }
    let snapshot = plan.request_objects.snapshot();
    for base in had.members() {
        let name = plan.name_of(base);
        if let Some(packed) = plan.request_objects.packed(base)
            && let Some(of_name) = by_name.get_mut(&name)
        {
            let location = snapshot.locate(packed);
            of_name.push((location.pack, location.offset, base));
        }
    }
    // Equal requests have equal answers.
    let mut by_name: Vec<_> = by_name.into_iter().collect();
    by_name.sort_unstable_by_key(|(name, _)| *name);
    let (mut inverted, mut searched) = (Vec::new(), Vec::new());
    for (name, mut of_name) in by_name {
        // Newest first, in packs as git and packrace make them.
        of_name.sort_unstable();
        inverted.extend(of_name.iter().take(INVERTED_A_NAME).map(|(_, _, base)| *base));
        searched.extend(of_name.iter().take(SEARCHED_A_NAME).map(|(_, _, base)| (*base, name)));
    }
    LikelyBases { inverted, searched }
}
