//! The commits reachable from tips, parents before children.

use std::collections::{BinaryHeap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use packrace_object::{Kind, MAX_TAG_DEPTH, ObjectId, parse_commit, parse_tag};
use packrace_store::{ObjectReader, cache_bytes};

use super::pseudo_merges::CandidateGroup;
use super::{BitOrder, BitmapTips, NoBitmap};
use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};

/// The most commits that a thread takes at a time.
const BATCH: usize = 32;

/// Commits by number: a parent's number is lower than its children's, and an older commit's mostly lower than
/// a newer one's.
#[derive(Debug, Default)]
pub(super) struct CommitHistory {
    /// The first bit of objects that are not in a lower file of a chain.
    first_own: u32,
    /// The bit; `None` for commits outside the pack.
    pub(super) bits: Vec<Option<u32>>,
    /// `None` for an empty tree that is not stored, and for commits outside the pack.
    pub(super) trees: Vec<Option<ObjectNo>>,
    parents: Vec<u32>,
    /// Where each commit's parents begin in `parents`, with one entry more than there are commits.
    starts: Vec<u32>,
    /// The newest commit of the first-parent path that each commit is on: of two commits on one path, the one
    /// with the lower number is an ancestor of the other.
    pub(super) chains: Vec<u32>,
    pub(super) is_tip: Vec<bool>,
    pub(super) is_preferred: Vec<bool>,
    /// Whether a stored bitmap covers the commit.
    pub(super) is_stored: Vec<bool>,
    pub(super) groups: Vec<CandidateGroup>,
}

/// A commit as read from its object.
struct Read {
    ix: ObjectNo,
    tree: Option<ObjectNo>,
    seconds: i64,
    parents: Vec<ObjectNo>,
}

impl CommitHistory {
    /// Reads everything that `tips` reach; skips tips that don't exist.
    pub(super) fn load(
        request_objects: &RequestObjects,
        order: &BitOrder,
        tips: BitmapTips<'_>,
        threads: usize,
        progress: &dyn ProgressSink,
    ) -> Result<Self, NoBitmap> {
        let mut peeler = Peeler::new(request_objects);
        let refs = peeler.commits(tips.refs)?;
        let preferred = peeler.commits(tips.preferred)?;
        let reading = HistoryReader::new(request_objects, order, progress);
        let read = reading.run([&refs[..], &preferred].concat(), threads)?;
        let positions: HashMap<ObjectNo, u32> = read.iter().map(|commit| commit.ix).zip(0..).collect();
        let newest_first = newest_first(&read, &positions)?;
        let mut numbers = vec![0; read.len()];
        for (number, position) in (0u32..).zip(newest_first.iter().rev()) {
            numbers[*position as usize] = number;
        }
        let mut history = CommitHistory::with_capacity(read.len());
        history.first_own = order.first_own();
        for position in newest_first.iter().rev() {
            let commit = &read[*position as usize];
            let parents = commit.parents.iter().map(|parent| numbers[positions[parent] as usize]);
            history.push(order.bit_of(commit.ix), commit.tree, parents);
        }
        for tip in refs {
            history.is_tip[numbers[positions[&tip] as usize] as usize] = true;
        }
        for tip in preferred {
            history.is_preferred[numbers[positions[&tip] as usize] as usize] = true;
        }
        for group in tips.groups {
            let tips = peeler.commits(&group.tips)?;
            // A tip may be none of the refs that the bitmaps are made for.
            let positions = tips.iter().filter_map(|tip| positions.get(tip).map(|at| *at as usize));
            let candidates = positions.map(|at| (read[at].seconds, numbers[at])).collect();
            history.groups.push(CandidateGroup::new(group.rule, candidates));
        }
        history.find_chains();
        Ok(history)
    }

    fn with_capacity(commits: usize) -> Self {
        let mut history =
            CommitHistory { starts: Vec::with_capacity(commits + 1), ..CommitHistory::default() };
        history.starts.push(0);
        history
    }

    fn push(&mut self, bit: Option<u32>, tree: Option<ObjectNo>, parents: impl Iterator<Item = u32>) {
        self.bits.push(bit);
        self.trees.push(tree);
        self.parents.extend(parents);
        self.starts.push(self.parents.len() as u32);
        self.is_tip.push(false);
        self.is_preferred.push(false);
        self.is_stored.push(false);
    }

    /// Every commit passes its chain on to its first parent; of several chains, the one with the newest end
    /// wins.
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

    /// The number of commits.
    pub(super) fn len(&self) -> u32 {
        self.bits.len() as u32
    }

    /// Whether the commit can get a bitmap in the new file.
    pub(super) fn is_own(&self, commit: u32) -> bool {
        self.bits[commit as usize].is_some_and(|bit| bit >= self.first_own)
    }

    /// Whether a lower file of a chain has a bitmap of the commit.
    pub(super) fn is_stored_below(&self, commit: u32) -> bool {
        self.is_stored[commit as usize] && !self.is_own(commit)
    }

    /// The numbers of a commit's parents, each lower than its own.
    pub(super) fn parents(&self, commit: u32) -> &[u32] {
        &self.parents[self.starts[commit as usize] as usize..self.starts[commit as usize + 1] as usize]
    }

    /// A history in which bit n is commit n.
    #[cfg(test)]
    pub(super) fn of_parents(parents: &[Vec<u32>]) -> Self {
        let mut history = CommitHistory::with_capacity(parents.len());
        for (number, parents) in (0u32..).zip(parents) {
            assert!(parents.iter().all(|parent| *parent < number));
            history.push(Some(number), None, parents.iter().copied());
        }
        history.find_chains();
        history
    }
}

/// The positions of commits, children before parents, otherwise newest first; independent of the order of the
/// positions.
fn newest_first(read: &[Read], positions: &HashMap<ObjectNo, u32>) -> Result<Vec<u32>, Reason> {
    let mut children = vec![0u32; read.len()];
    read.iter()
        .flat_map(|commit| &commit.parents)
        .for_each(|parent| children[positions[parent] as usize] += 1);
    let key = |position: u32| (read[position as usize].seconds, read[position as usize].ix, position);
    let childless = (0..read.len() as u32).filter(|position| children[*position as usize] == 0);
    let mut open: BinaryHeap<(i64, ObjectNo, u32)> = childless.map(key).collect();
    let mut order = Vec::with_capacity(read.len());
    while let Some((_, _, position)) = open.pop() {
        order.push(position);
        for parent in &read[position as usize].parents {
            let parent = positions[parent];
            children[parent as usize] -= 1;
            if children[parent as usize] == 0 {
                open.push(key(parent));
            }
        }
    }
    // Ids are hashes, so only a store whose content does not match its ids can hold a loop.
    if order.len() == read.len() { Ok(order) } else { Err(Reason::CommitLoop) }
}

/// Peels tips to commits.
struct Peeler<'a> {
    request_objects: &'a RequestObjects,
    reader: ObjectReader,
    content: Vec<u8>,
}

impl<'a> Peeler<'a> {
    fn new(request_objects: &'a RequestObjects) -> Self {
        Peeler {
            request_objects,
            reader: request_objects.snapshot().reader(cache_bytes::MANY_OBJECTS),
            content: Vec::new(),
        }
    }

    fn commits(&mut self, tips: &[ObjectId]) -> Result<Vec<ObjectNo>, Error> {
        tips.iter().filter_map(|tip| self.peel(tip).transpose()).collect()
    }

    fn peel(&mut self, tip: &ObjectId) -> Result<Option<ObjectNo>, Error> {
        let mut id = *tip;
        for _ in 0..MAX_TAG_DEPTH {
            let Some(ix) = self.request_objects.find(&id)? else { return Ok(None) };
            match self.request_objects.kind(&mut self.reader, ix)? {
                Kind::Commit => return Ok(Some(ix)),
                Kind::Tree | Kind::Blob => return Ok(None),
                Kind::Tag => {
                    self.request_objects.read(&mut self.reader, ix, &mut self.content)?;
                    let tag = parse_tag(&self.content, self.request_objects.hash())
                        .map_err(|source| Reason::Malformed { id, source })?;
                    id = tag.target;
                }
            }
        }
        Err(Reason::DeepTags(*tip).into())
    }
}

/// Reads commits and everything they reach, each once, on several threads that share a list of open commits.
struct HistoryReader<'a> {
    request_objects: &'a RequestObjects,
    order: &'a BitOrder,
    progress: &'a dyn ProgressSink,
    seen: Marks,
    shared: Mutex<SharedList>,
    /// Signals new work in the list, or that the last thread that could add some has finished.
    changed: Condvar,
}

#[derive(Default)]
struct SharedList {
    open: Vec<ObjectNo>,
    /// The number of threads that may still add to the list.
    busy: usize,
    read: Vec<Read>,
    stopped: Option<NoBitmap>,
}

/// A thread that may still add to the list; dropping it removes the thread, even on a panic, so that no other
/// thread waits for it.
struct Busy<'r, 'a>(&'r HistoryReader<'a>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}

impl<'a> HistoryReader<'a> {
    fn new(request_objects: &'a RequestObjects, order: &'a BitOrder, progress: &'a dyn ProgressSink) -> Self {
        HistoryReader {
            request_objects,
            order,
            progress,
            seen: Marks::new(request_objects.packed_end()),
            shared: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn run(self, mut tips: Vec<ObjectNo>, threads: usize) -> Result<Vec<Read>, NoBitmap> {
        tips.retain(|tip| self.seen.insert(*tip));
        self.lock().open = tips;
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        let shared = self.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        match shared.stopped {
            Some(stop) => Err(stop),
            None => Ok(shared.read),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedList> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut reader = self.request_objects.snapshot().reader(cache_bytes::MANY_OBJECTS);
        let (mut content, mut batch) = (Vec::new(), Vec::new());
        while let Some(_busy) = self.take(&mut batch) {
            let mut read = Vec::with_capacity(batch.len());
            let result = batch.drain(..).try_for_each(|ix| {
                read.push(self.commit(&mut reader, &mut content, ix)?);
                Ok(())
            });
            self.put(read, result);
        }
    }

    /// Takes some commits; `None` if there will be no more work.
    fn take(&self, batch: &mut Vec<ObjectNo>) -> Option<Busy<'_, 'a>> {
        let mut shared = self.lock();
        while shared.open.is_empty() && shared.busy > 0 && shared.stopped.is_none() {
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        if shared.open.is_empty() || shared.stopped.is_some() {
            return None;
        }
        // Half of the list, so that other threads find work, too.
        let rest = shared.open.len() - shared.open.len().div_ceil(2).min(BATCH);
        batch.extend(shared.open.drain(rest..));
        shared.busy += 1;
        Some(Busy(self))
    }

    /// Stores the commits that were read, and adds new parents to the list.
    fn put(&self, read: Vec<Read>, result: Result<(), NoBitmap>) {
        let mut shared = self.lock();
        let parents = read.iter().flat_map(|commit| &commit.parents);
        shared.open.extend(parents.filter(|parent| self.seen.insert(**parent)));
        shared.read.extend(read);
        if let Err(stop) = result {
            shared.stopped.get_or_insert(stop);
        } else if self.progress.cancelled() {
            shared.stopped.get_or_insert(NoBitmap::from(Reason::Cancelled));
        }
        let done = shared.read.len() as u64;
        drop(shared);
        self.progress.report(Phase::SelectingBitmaps, done, 0);
    }

    fn commit(
        &self,
        reader: &mut ObjectReader,
        content: &mut Vec<u8>,
        ix: ObjectNo,
    ) -> Result<Read, NoBitmap> {
        let id = || self.request_objects.id(ix);
        let is = self.request_objects.read(reader, ix, content)?;
        if is != Kind::Commit {
            return Err(Reason::WrongKind { id: id(), is, expected: Kind::Commit }.into());
        }
        let commit = parse_commit(content, self.request_objects.hash())
            .map_err(|source| Reason::Malformed { id: id(), source })?;
        let is_inside = self.order.bit_of(ix).is_some();
        let mut parents = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            match self.request_objects.find(parent)? {
                Some(found) if !is_inside || self.order.bit_of(found).is_some() => parents.push(found),
                _ if is_inside => return Err(NoBitmap::NotClosed(*parent)),
                _ => return Err(Reason::Missing(*parent).into()),
            }
        }
        let tree = if is_inside { self.order.find_tree(self.request_objects, &commit.tree)? } else { None };
        Ok(Read { ix, tree, seconds: commit.committer_seconds, parents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_paths_along_first_parents() {
        // 0 ← 1 ← 3 ← 4, and 2 on top of 0, merged by 3.
        let history = CommitHistory::of_parents(&[vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
        assert_eq!(history.chains, [4, 4, 2, 4, 4]);
        assert_eq!(history.parents(3), [1, 2]);
    }
}
