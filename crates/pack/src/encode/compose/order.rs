//! The order of entries.

use packrace_object::Kind;

use crate::select::islands::Islands;
use crate::select::plan::Order;

use super::list::ComposedEntry;
use super::{DeltaBase, EntryNo};

/// Each entry once, bases before their deltas, otherwise in the `wanted` order.
///
/// A base that would follow its first delta is moved in front of it, so that a chain stays together and a
/// reader moves forward through the pack.
pub(super) fn of(entries: &[ComposedEntry], wanted: Order, islands: Option<&Islands>) -> Vec<EntryNo> {
    let mut first: Vec<EntryNo> = (0..entries.len() as u32).map(EntryNo).collect();
    if wanted == Order::ByKind {
        first.sort_by_key(|no| match entries[no.at()].kind {
            Kind::Tag => 0u8,
            Kind::Commit => 1,
            Kind::Tree => 2,
            Kind::Blob => 3,
        });
    }
    if let Some(islands) = islands {
        first.sort_by_key(|no| !islands.is_core(entries[no.at()].ix));
    }
    let mut is_in = vec![false; entries.len()];
    let mut order = Vec::with_capacity(entries.len());
    let mut chain = Vec::new();
    for no in first {
        let mut next = no;
        while !is_in[next.at()] {
            is_in[next.at()] = true;
            chain.push(next);
            let Some(DeltaBase::Entry(base)) = entries[next.at()].how.base() else { break };
            next = base;
        }
        order.extend(chain.drain(..).rev());
    }
    order
}
