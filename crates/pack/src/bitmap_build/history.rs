//! The commits that tips reach, in an order that has parents before children.

use std::collections::{BinaryHeap, HashMap};

use packrace_object::{Kind, ObjectId, parse_commit, parse_tag};
use packrace_store::ObjectReader;

use super::{BitOrder, BitmapTips, Stop};
use crate::error::Reason;
use crate::universe::{Ix, Universe};
use crate::watch::{Phase, Watch};

/// Bytes that are kept as delta bases.
const READER_CACHE_BYTES: usize = 8 << 20;

/// Tags of tags that are followed, as in other walks.
const MAX_TAG_DEPTH: usize = 1024;

/// Commits between two looks at the watcher.
const COMMITS_BETWEEN_LOOKS: usize = 1024;

/// Commits by number: parents have lower numbers than their children, and older ones mostly than newer ones.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The bit; `None` for commits outside the pack.
    pub(super) bits: Vec<Option<u32>>,
    pub(super) trees: Vec<ObjectId>,
    parents: Vec<u32>,
    /// Where each commit's begin in `parents`; one more than there are commits.
    starts: Vec<u32>,
    /// The newest commit of the path along first parents that each commit is on: of two on the same path, the one with
    /// the lower number is an ancestor of the other.
    pub(super) chains: Vec<u32>,
    pub(super) is_tip: Vec<bool>,
    pub(super) is_preferred: Vec<bool>,
}

/// A commit as it was read.
struct Read {
    ix: Ix,
    tree: ObjectId,
    seconds: i64,
    parents: Vec<Ix>,
}

impl History {
    /// Reads everything that `tips` reach. Tips that don't exist are passed over.
    pub(super) fn load(
        universe: &Universe,
        order: &BitOrder,
        tips: BitmapTips<'_>,
        watch: &dyn Watch,
    ) -> Result<Self, Stop> {
        let mut reading = Reading::new(universe, order, watch);
        let refs = reading.tips(tips.refs)?;
        let preferred = reading.tips(tips.preferred)?;
        let Reading { read, places, .. } = reading;
        let newest_first = newest_first(&read, &places)?;
        let mut numbers = vec![0; read.len()];
        for (number, place) in (0u32..).zip(newest_first.iter().rev()) {
            numbers[*place as usize] = number;
        }
        let mut history = History::with_capacity(read.len());
        for place in newest_first.iter().rev() {
            let commit = &read[*place as usize];
            let parents = commit.parents.iter().map(|parent| numbers[places[parent] as usize]);
            history.push(order.bit_of(commit.ix), commit.tree, parents);
        }
        for place in refs {
            history.is_tip[numbers[place as usize] as usize] = true;
        }
        for place in preferred {
            history.is_preferred[numbers[place as usize] as usize] = true;
        }
        history.find_chains();
        Ok(history)
    }

    fn with_capacity(commits: usize) -> Self {
        let mut history = History { starts: Vec::with_capacity(commits + 1), ..History::default() };
        history.starts.push(0);
        history
    }

    fn push(&mut self, bit: Option<u32>, tree: ObjectId, parents: impl Iterator<Item = u32>) {
        self.bits.push(bit);
        self.trees.push(tree);
        self.parents.extend(parents);
        self.starts.push(self.parents.len() as u32);
        self.is_tip.push(false);
        self.is_preferred.push(false);
    }

    /// Every commit hands its chain on to its first parent; of several, the one that ends newest.
    fn find_chains(&mut self) {
        let mut chains: Vec<u32> = (0..self.len()).collect();
        for number in (0..self.len()).rev() {
            let chain = chains[number as usize];
            if let Some(first) = self.parents(number).first() {
                let parent = &mut chains[*first as usize];
                *parent = chain.max(*parent);
            }
        }
        self.chains = chains;
    }

    /// How many commits there are.
    pub(super) fn len(&self) -> u32 {
        self.bits.len() as u32
    }

    /// The numbers of a commit's parents, each lower than its own.
    pub(super) fn parents(&self, commit: u32) -> &[u32] {
        &self.parents[self.starts[commit as usize] as usize..self.starts[commit as usize + 1] as usize]
    }

    /// A history in which bit n is commit n.
    #[cfg(test)]
    pub(super) fn of_parents(parents: &[Vec<u32>]) -> Self {
        let mut history = History::with_capacity(parents.len());
        for (number, parents) in (0u32..).zip(parents) {
            assert!(parents.iter().all(|parent| *parent < number));
            history.push(Some(number), packrace_object::HashKind::Sha1.empty_tree(), parents.iter().copied());
        }
        history.find_chains();
        history
    }
}

/// Places of commits, every child before its parents, and the newest that is possible first.
fn newest_first(read: &[Read], places: &HashMap<Ix, u32>) -> Result<Vec<u32>, Reason> {
    let mut children = vec![0u32; read.len()];
    read.iter().flat_map(|commit| &commit.parents).for_each(|parent| children[places[parent] as usize] += 1);
    let mut open: BinaryHeap<(i64, u32)> = (0u32..)
        .zip(read)
        .filter(|(place, _)| children[*place as usize] == 0)
        .map(|(place, commit)| (commit.seconds, place))
        .collect();
    let mut order = Vec::with_capacity(read.len());
    while let Some((_, place)) = open.pop() {
        order.push(place);
        for parent in &read[place as usize].parents {
            let parent = places[parent];
            children[parent as usize] -= 1;
            if children[parent as usize] == 0 {
                open.push((read[parent as usize].seconds, parent));
            }
        }
    }
    // Names are hashes, so only a store whose content is not what its names say can hold a loop.
    if order.len() == read.len() { Ok(order) } else { Err(Reason::CommitLoop) }
}

struct Reading<'a> {
    universe: &'a Universe,
    order: &'a BitOrder,
    watch: &'a dyn Watch,
    reader: ObjectReader,
    content: Vec<u8>,
    read: Vec<Read>,
    places: HashMap<Ix, u32>,
}

impl<'a> Reading<'a> {
    fn new(universe: &'a Universe, order: &'a BitOrder, watch: &'a dyn Watch) -> Self {
        Reading {
            universe,
            order,
            watch,
            reader: universe.snapshot().reader(READER_CACHE_BYTES),
            content: Vec::new(),
            read: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Reads what some tips reach, and tells the places of the commits that they are or finally tag.
    fn tips(&mut self, tips: &[ObjectId]) -> Result<Vec<u32>, Stop> {
        let mut places = Vec::new();
        for tip in tips {
            if let Some(commit) = self.peel(tip)? {
                self.closure(commit)?;
                places.push(self.places[&commit]);
            }
        }
        Ok(places)
    }

    fn peel(&mut self, tip: &ObjectId) -> Result<Option<Ix>, Stop> {
        let mut id = *tip;
        for _ in 0..MAX_TAG_DEPTH {
            let Some(ix) = self.universe.find(&id)? else { return Ok(None) };
            if self.places.contains_key(&ix) {
                return Ok(Some(ix));
            }
            match self.universe.kind(&mut self.reader, ix)? {
                Kind::Commit => return Ok(Some(ix)),
                Kind::Tree | Kind::Blob => return Ok(None),
                Kind::Tag => {
                    self.universe.read(&mut self.reader, ix, &mut self.content)?;
                    let tag = parse_tag(&self.content, self.universe.hash())
                        .map_err(|source| Reason::Malformed { id, source })?;
                    id = tag.target;
                }
            }
        }
        Err(Reason::DeepTags(*tip).into())
    }

    /// Reads a commit and what it reaches, as far as that was not read yet.
    fn closure(&mut self, tip: Ix) -> Result<(), Stop> {
        let mut open = vec![tip];
        while let Some(ix) = open.pop() {
            if self.places.contains_key(&ix) {
                continue;
            }
            let commit = self.commit(ix)?;
            open.extend(commit.parents.iter().filter(|parent| !self.places.contains_key(parent)));
            self.places.insert(ix, self.read.len() as u32);
            self.read.push(commit);
            if self.read.len().is_multiple_of(COMMITS_BETWEEN_LOOKS) {
                if self.watch.cancelled() {
                    return Err(Reason::Cancelled.into());
                }
                self.watch.progress(Phase::Enumerating, self.read.len() as u64, 0);
            }
        }
        Ok(())
    }

    fn commit(&mut self, ix: Ix) -> Result<Read, Stop> {
        let id = || self.universe.id(ix);
        let is = self.universe.read(&mut self.reader, ix, &mut self.content)?;
        if is != Kind::Commit {
            return Err(Reason::WrongKind { id: id(), is, expected: Kind::Commit }.into());
        }
        let commit = parse_commit(&self.content, self.universe.hash())
            .map_err(|source| Reason::Malformed { id: id(), source })?;
        let is_inside = self.order.bit_of(ix).is_some();
        let mut parents = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            match self.universe.find(parent)? {
                Some(found) if !is_inside || self.order.bit_of(found).is_some() => parents.push(found),
                _ if is_inside => return Err(Stop::NotClosed(*parent)),
                _ => return Err(Reason::Missing(*parent).into()),
            }
        }
        Ok(Read { ix, tree: commit.tree, seconds: commit.committer_seconds, parents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_paths_along_first_parents() {
        // 0 ← 1 ← 3 ← 4, and 2 on top of 0, merged by 3.
        let history = History::of_parents(&[vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
        assert_eq!(history.chains, [4, 4, 2, 4, 4]);
        assert_eq!(history.parents(3), [1, 2]);
    }
}
