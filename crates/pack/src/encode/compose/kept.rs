//! Uses deltas that were kept from earlier packs, and keeps the new ones.

use std::collections::HashMap;

use packrace_object::ObjectId;

use crate::kept_deltas::{Candidates, KeptDelta, KnownTarget, RepositoryDeltas};
use crate::names::NameHash;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

use super::list::ComposedEntry;
use super::{DeltaBase, EntryNo, How};

/// A larger pack neither uses nor keeps deltas: it would push out all others, and its entries are looked up in memory of their own.
pub(super) const MAX_ENTRIES: usize = 1 << 18;

/// Candidates of the search by path, or for all paths together.
#[derive(Default)]
pub(super) struct CandidatesByPath(HashMap<Option<NameHash>, Candidates>);

impl CandidatesByPath {
    /// Those for an object with this path.
    pub(super) fn of(&self, name: NameHash) -> Candidates {
        self.0.get(&Some(name)).or_else(|| self.0.get(&None)).copied().unwrap_or_default()
    }
}

/// Which kept delta each entry gets: bases first, so that no chain has a loop or becomes too long.
struct Choice {
    /// For each entry, deltas with a base that the receiver has or gets, the shortest first: the place among the kept ones of the
    /// entry, and the base.
    usable: Vec<Vec<(usize, DeltaBase)>>,
    states: Vec<EntryState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Open,
    /// It waits for one of its bases.
    Waiting,
    Settled,
}

impl Choice {
    fn new(
        plan: &PackPlan,
        known: &[Option<KnownTarget>],
        entries: &[ComposedEntry],
        may_be_delta: impl Fn(&ComposedEntry) -> bool,
    ) -> Self {
        let numbers: HashMap<ObjectNo, EntryNo> =
            entries.iter().zip(0..).map(|(entry, no)| (entry.ix, EntryNo(no))).collect();
        let base_of = |delta: &KeptDelta| {
            let base = ObjectNo(plan.request_objects.snapshot().lookup(&delta.base)?.0);
            match numbers.get(&base) {
                Some(no) => Some(DeltaBase::Entry(*no)),
                None if plan.had.as_ref().is_some_and(|had| had.contains(base)) => {
                    Some(DeltaBase::Outside(base))
                }
                None => None,
            }
        };
        let usable = known.iter().zip(entries).map(|(target, entry)| {
            let target = target.as_ref().filter(|_| may_be_delta(entry));
            let deltas = target.into_iter().flat_map(|target| &target.deltas).enumerate();
            let better = deltas.filter(|(_, delta)| is_better(delta, entry));
            better.filter_map(|(place, delta)| Some((place, base_of(delta)?))).collect()
        });
        let usable: Vec<Vec<_>> = usable.collect();
        let state = |deltas: &Vec<_>| if deltas.is_empty() { EntryState::Settled } else { EntryState::Open };
        Choice { states: usable.iter().map(state).collect(), usable }
    }

    fn is_open(&self, at: usize) -> bool {
        self.states[at] == EntryState::Open
    }

    /// Chooses for an entry, after its bases.
    fn settle(
        &mut self,
        plan: &PackPlan,
        at: usize,
        entries: &mut [ComposedEntry],
        known: &mut KnownEntries<'_>,
    ) {
        let mut waiting = if self.is_open(at) { vec![at] } else { Vec::new() };
        while let Some(&at) = waiting.last() {
            self.states[at] = EntryState::Waiting;
            let next = match self.usable[at].first() {
                Some((_, DeltaBase::Entry(base))) if self.is_open(base.at()) => {
                    waiting.push(base.at());
                    continue;
                }
                Some(next) => *next,
                None => {
                    self.states[at] = EntryState::Settled;
                    waiting.pop();
                    continue;
                }
            };
            let (place, base) = next;
            if !self.is_short(plan, entries, base) {
                self.usable[at].remove(0);
                continue;
            }
            if let Some(delta) = known.known[at].as_ref().and_then(|target| target.deltas.get(place)) {
                let deflated = Some(delta.deflated.clone());
                entries[at].how = How::NewDelta { base, size: delta.size, deflated };
                known.reused[at] = true;
            }
            self.states[at] = EntryState::Settled;
            waiting.pop();
        }
    }

    /// Whether the chain below a base has no entry that waits, and room for one more delta.
    fn is_short(&self, plan: &PackPlan, entries: &[ComposedEntry], base: DeltaBase) -> bool {
        let mut next = Some(base);
        for _ in 0..plan.settings.depth {
            match next {
                Some(DeltaBase::Entry(no)) if self.states[no.at()] == EntryState::Waiting => return false,
                Some(DeltaBase::Entry(no)) => next = entries[no.at()].how.base(),
                Some(DeltaBase::Outside(_)) | None => return true,
            }
        }
        false
    }
}

/// Whether a kept delta is shorter than what is stored, or to be used instead.
fn is_better(delta: &KeptDelta, entry: &ComposedEntry) -> bool {
    match entry.how {
        How::Stored | How::Whole => true,
        How::StoredDelta(DeltaBase::Entry(_)) => delta.replaces_stored,
        How::StoredDelta(DeltaBase::Outside(_)) => {
            entry.poor_bytes.is_some_and(|bytes| (delta.deflated.len() as u64) < bytes)
        }
        How::NewDelta { .. } => false,
    }
}

/// What was known of the entries of a pack before the search.
pub(super) struct KnownEntries<'a> {
    deltas: &'a RepositoryDeltas,
    ids: Vec<ObjectId>,
    known: Vec<Option<KnownTarget>>,
    /// Entries that are written from kept deltas.
    reused: Vec<bool>,
    /// Entries whose stored delta could be sent.
    has_stored_delta: Vec<bool>,
}

impl<'a> KnownEntries<'a> {
    /// Makes entries deltas where a kept one has a base that the receiver has or gets.
    pub(super) fn reuse(
        plan: &PackPlan,
        deltas: &'a RepositoryDeltas,
        entries: &mut [ComposedEntry],
        may_be_delta: impl Fn(&ComposedEntry) -> bool,
    ) -> Self {
        let ids: Vec<ObjectId> = entries.iter().map(|entry| plan.request_objects.id(entry.ix)).collect();
        let known = deltas.find(ids.iter().copied());
        let has_stored_delta =
            entries.iter().map(|entry| matches!(entry.how, How::StoredDelta(DeltaBase::Entry(_)))).collect();
        let reused = vec![false; entries.len()];
        let mut known = KnownEntries { deltas, ids, known, reused, has_stored_delta };
        if known.known.iter().all(Option::is_none) {
            return known;
        }
        let mut choice = Choice::new(plan, &known.known, entries, may_be_delta);
        for at in 0..entries.len() {
            choice.settle(plan, at, entries, &mut known);
        }
        known.deltas.count_reused(known.reused.iter().filter(|is_reused| **is_reused).count());
        known
    }

    /// Whether an entry has got a kept delta.
    pub(super) fn is_reused(&self, at: usize) -> bool {
        self.reused[at]
    }

    /// Whether an entry was compared with these candidates before, without success.
    pub(super) fn is_fruitless(&self, at: usize, candidates: Candidates) -> bool {
        self.known[at].as_ref().is_some_and(|target| target.fruitless == Some(candidates))
    }

    /// The candidates that the search has for objects of each path: others of the pack, and objects that the receiver has.
    pub(super) fn candidates(
        &self,
        plan: &PackPlan,
        entries: &[ComposedEntry],
        bases: &[(ObjectNo, NameHash)],
    ) -> CandidatesByPath {
        let mut by_path = CandidatesByPath::default();
        // Only without bitmaps are objects compared with those of other paths.
        let of = |name: NameHash| if plan.is_by_bitmap { Some(name) } else { None };
        for (entry, id) in entries.iter().zip(&self.ids).filter(|(entry, _)| entry.size > 0) {
            by_path.0.entry(of(entry.name)).or_default().add(id);
        }
        for (base, name) in bases {
            by_path.0.entry(of(*name)).or_default().add(&plan.request_objects.id(*base));
        }
        by_path
    }

    /// Keeps the new deltas of `entries`, and that none was found for those `searched`.
    pub(super) fn keep(
        &self,
        plan: &PackPlan,
        entries: &[ComposedEntry],
        searched: &[(EntryNo, Candidates)],
    ) {
        let id_of = |base: DeltaBase| match base {
            DeltaBase::Entry(no) => self.ids[no.at()],
            DeltaBase::Outside(base) => plan.request_objects.id(base),
        };
        self.deltas.keep(entries.iter().enumerate().filter_map(|(at, entry)| {
            let How::NewDelta { base, size, deflated: Some(deflated) } = &entry.how else { return None };
            let delta = KeptDelta {
                base: id_of(*base),
                size: *size,
                deflated: deflated.clone(),
                replaces_stored: self.has_stored_delta[at],
            };
            (!self.is_reused(at)).then(|| (self.ids[at], delta))
        }));
        let without = searched.iter().filter(|(no, _)| !matches!(entries[no.at()].how, How::NewDelta { .. }));
        self.deltas.keep_fruitless(without.map(|(no, candidates)| (self.ids[no.at()], *candidates)));
    }
}
