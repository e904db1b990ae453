//! What each commit introduces: objects in its tree that no parent's tree has.
//!
//! Everything that a commit reaches is introduced by it or by an ancestor. Trees are compared with the
//! parents' trees at the same path, entry by entry; only differences are looked up or opened. An object that
//! an ancestor on the same chain has introduced is not listed again, nor is anything below it, so a history
//! that goes back and forth costs no more than one that goes forward.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use packrace_object::tree::{Entries, EntryKind, TreeEntry};
use packrace_object::{Kind, MalformedObject};

use super::history::CommitHistory;
use super::{BitOrder, BitmapJob, NoBitmap};
use crate::error::Reason;
use crate::names::NameHash;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::threads::on_threads;
use crate::walk::trees::{Differences, Tree, TreeDecoder};

/// Commits that a thread takes at a time: enough for their trees to share delta bases.
const STRETCH: u32 = 1024;

/// Commits between two checks for cancellation.
const COMMITS_BETWEEN_LOOKS: u32 = 64;

/// The most parents that a commit is compared with; what came from other parents is listed again.
const MAX_PARENTS: usize = 16;

/// In `introduced_by`: no commit has introduced the object.
const NOBODY: u32 = u32::MAX;

/// In `names`: no commit has introduced the object at any path.
const NO_NAME: u64 = (NOBODY as u64) << 32;

/// The lists of all commits, and facts learned while making them.
pub(super) struct Introduced {
    /// One per stretch of commits.
    stretches: Vec<Stretch>,
    /// By bit: the object's kind as a number; 0 if no commit reaches the object.
    pub(super) kinds: Vec<AtomicU8>,
    names: Vec<AtomicU64>,
}

#[derive(Default)]
struct Stretch {
    bits: Vec<u32>,
    /// Where each commit's list ends; commits beyond the last entry have no stored list.
    ends: Vec<u32>,
}

/// The list of one commit.
pub(super) enum List<'a> {
    Kept(&'a [u32]),
    /// Not stored: [`Trees::introduce`] makes it again.
    Dropped,
}

impl Introduced {
    /// Finds what each commit reachable from `selected` and `merged` introduces, and keeps lists of about `limit`
    /// bits at most.
    pub(super) fn find(
        job: BitmapJob<'_>,
        history: &CommitHistory,
        selected: &[u32],
        merged: &[u32],
        limit: u64,
    ) -> Result<Self, NoBitmap> {
        let BitmapJob { request_objects, order, progress, .. } = job;
        let objects = order.len() as usize;
        let work = Introducing {
            request_objects,
            order,
            history,
            progress,
            is_needed: needed(history, selected, merged),
            introduced_by: std::iter::repeat_with(|| AtomicU32::new(NOBODY)).take(objects).collect(),
            found: ObjectFacts {
                kinds: std::iter::repeat_with(AtomicU8::default).take(objects).collect(),
                names: std::iter::repeat_with(|| AtomicU64::new(NO_NAME)).take(objects).collect(),
            },
            next: AtomicU32::new(0),
            room: AtomicU64::new(limit),
            done: AtomicU32::new(0),
        };
        let stretches = work.run(job.options.threads.max(1))?;
        Ok(Introduced { stretches, kinds: work.found.kinds, names: work.found.names })
    }

    /// By bit: the hash of a path; 0 if none is known.
    pub(super) fn names(&self) -> impl Iterator<Item = u32> {
        self.names.iter().map(|name| name.load(Relaxed) as u32)
    }

    /// Sets the name of an object for which no path was found.
    pub(super) fn set_name(&self, bit: u32, name: u32) {
        self.names[bit as usize].store(NO_NAME | u64::from(name), Relaxed);
    }

    /// The length of all kept lists together.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.bits.len()).sum()
    }

    pub(super) fn of(&self, commit: u32) -> List<'_> {
        let stretch = &self.stretches[(commit / STRETCH) as usize];
        let at = (commit % STRETCH) as usize;
        match stretch.ends.get(at) {
            Some(end) => {
                let start = if at == 0 { 0 } else { stretch.ends[at - 1] };
                List::Kept(&stretch.bits[start as usize..*end as usize])
            }
            None => List::Dropped,
        }
    }
}

/// The commits reachable from those that get a bitmap, alone or together with others, without those that stored
/// bitmaps cover. Of the stored bitmaps, only those of selected commits are used.
fn needed(history: &CommitHistory, selected: &[u32], merged: &[u32]) -> Vec<bool> {
    let mut is_needed = vec![false; history.len() as usize];
    let mut is_reused: Vec<bool> = (0..history.len()).map(|commit| history.is_stored_below(commit)).collect();
    for commit in selected.iter().map(|commit| *commit as usize) {
        is_reused[commit] = history.is_stored[commit];
        is_needed[commit] = !history.is_stored[commit];
    }
    merged.iter().map(|commit| *commit as usize).for_each(|commit| is_needed[commit] = !is_reused[commit]);
    for commit in (0..history.len()).rev().filter(|commit| !is_reused[*commit as usize]) {
        if is_needed[commit as usize] {
            let parents = history.parents(commit).iter().map(|parent| *parent as usize);
            parents.for_each(|parent| is_needed[parent] = !is_reused[parent]);
        }
    }
    is_needed
}

/// Facts about objects, learned while trees are compared.
struct ObjectFacts {
    kinds: Vec<AtomicU8>,
    /// By bit: the number of the oldest commit that introduces the object, and the hash of its path there.
    /// The oldest wins so that names do not depend on the order of threads.
    names: Vec<AtomicU64>,
}

struct Introducing<'a> {
    request_objects: &'a RequestObjects,
    order: &'a BitOrder,
    history: &'a CommitHistory,
    progress: &'a dyn ProgressSink,
    is_needed: Vec<bool>,
    /// By bit. Several threads write; a lost write only makes a list longer.
    introduced_by: Vec<AtomicU32>,
    found: ObjectFacts,
    next: AtomicU32,
    /// How many more bits the lists may keep.
    room: AtomicU64,
    done: AtomicU32,
}

impl Introducing<'_> {
    fn run(&self, threads: usize) -> Result<Vec<Stretch>, NoBitmap> {
        let count = self.history.len().div_ceil(STRETCH) as usize;
        let threads = threads.min(count).max(1);
        let done = on_threads(threads, || self.stretches().inspect_err(|_| self.stop()));
        let mut stretches: Vec<Stretch> = std::iter::repeat_with(Stretch::default).take(count).collect();
        for result in done {
            for (number, stretch) in result? {
                stretches[number as usize] = stretch;
            }
        }
        Ok(stretches)
    }

    /// Makes the other threads find no more work.
    fn stop(&self) {
        self.next.store(u32::MAX / 2, Relaxed);
    }

    /// Processes stretches of commits until none are left.
    fn stretches(&self) -> Result<Vec<(u32, Stretch)>, NoBitmap> {
        let mut trees = Trees::new(self.request_objects, self.order, self.history, Some(&self.found));
        let mut done = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.history.len().div_ceil(STRETCH) {
                return Ok(done);
            }
            let stretch = self.stretch(number, &mut trees)?;
            done.push((number, stretch));
        }
    }

    fn stretch(&self, number: u32, trees: &mut Trees<'_>) -> Result<Stretch, NoBitmap> {
        let mut stretch = Stretch::default();
        let commits = number * STRETCH..((number + 1) * STRETCH).min(self.history.len());
        let mut is_kept = true;
        for commit in commits.clone() {
            if commit % COMMITS_BETWEEN_LOOKS == 0 && self.progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            if self.is_needed[commit as usize] {
                let before = stretch.bits.len();
                trees.introduce(commit, &mut |bit| {
                    let is_new = self.claim(commit, bit);
                    if is_new && is_kept {
                        stretch.bits.push(bit);
                    }
                    is_new
                })?;
                let taken = (stretch.bits.len() - before) as u64;
                let room = self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(taken));
                if room.is_err() {
                    stretch.bits.truncate(before);
                    is_kept = false;
                }
            }
            if is_kept {
                stretch.ends.push(stretch.bits.len() as u32);
            }
        }
        let done = self.done.fetch_add(commits.len() as u32, Relaxed) + commits.len() as u32;
        self.progress.report(Phase::ReadingTrees, u64::from(done), u64::from(self.history.len()));
        Ok(stretch)
    }

    /// Whether a commit has to list an object: not if it or an ancestor on its chain has listed it.
    fn claim(&self, commit: u32, bit: u32) -> bool {
        let slot = &self.introduced_by[bit as usize];
        let by = slot.load(Relaxed);
        let chains = &self.history.chains;
        if by != NOBODY && by <= commit && chains[by as usize] == chains[commit as usize] {
            return false;
        }
        slot.store(commit, Relaxed);
        true
    }
}

/// Compares the trees of commits with those of their parents; each thread has one.
pub(super) struct Trees<'a> {
    request_objects: &'a RequestObjects,
    order: &'a BitOrder,
    history: &'a CommitHistory,
    found: Option<&'a ObjectFacts>,
    decoder: TreeDecoder<'a>,
}

/// A tree to compare with the parents' trees at the same path.
struct TreeComparison {
    /// The commit that the tree belongs to.
    commit: u32,
    tree: ObjectNo,
    path: NameHash,
    bases: Vec<ObjectNo>,
}

/// An entry that a tree has and one of its bases lacks.
struct Fresh {
    /// The offset in the tree where the entry starts.
    at: u32,
    /// The base's tree with the same name.
    base: Option<ObjectNo>,
}

impl<'a> Trees<'a> {
    /// Repeats comparisons without recording facts about objects.
    pub(super) fn again(
        request_objects: &'a RequestObjects,
        order: &'a BitOrder,
        history: &'a CommitHistory,
    ) -> Self {
        Trees::new(request_objects, order, history, None)
    }

    fn new(
        request_objects: &'a RequestObjects,
        order: &'a BitOrder,
        history: &'a CommitHistory,
        found: Option<&'a ObjectFacts>,
    ) -> Self {
        Trees { request_objects, order, history, found, decoder: TreeDecoder::new(request_objects) }
    }

    /// Visits everything in a commit's tree that is in no parent's tree and `is_new`; skips everything below
    /// a tree that is not new.
    pub(super) fn introduce(
        &mut self,
        commit: u32,
        is_new: &mut impl FnMut(u32) -> bool,
    ) -> Result<(), NoBitmap> {
        if let (Some(found), Some(bit)) = (self.found, self.history.bits[commit as usize]) {
            found.kinds[bit as usize].store(Kind::Commit as u8, Relaxed);
        }
        let trees = &self.history.trees;
        let Some(tree) = trees[commit as usize] else { return Ok(()) };
        let mut bases = Vec::new();
        for parent in self.history.parents(commit).iter().take(MAX_PARENTS) {
            match trees[*parent as usize] {
                Some(base) if base == tree => return Ok(()),
                base => bases.extend(base),
            }
        }
        let mut open = Vec::new();
        let root = TreeComparison { commit, tree, path: NameHash::default(), bases };
        self.meet(commit, tree, Kind::Tree, root.path, is_new)?.then(|| open.push(root));
        while let Some(comparison) = open.pop() {
            self.compare(&comparison, is_new, &mut open)?;
        }
        Ok(())
    }

    /// Records facts about an object; returns whether it is new.
    fn meet(
        &self,
        commit: u32,
        ix: ObjectNo,
        kind: Kind,
        path: NameHash,
        is_new: &mut impl FnMut(u32) -> bool,
    ) -> Result<bool, NoBitmap> {
        let bit = self.order.bit_of(ix).ok_or_else(|| NoBitmap::NotClosed(self.request_objects.id(ix)))?;
        let is_new = is_new(bit);
        if let Some(found) = self.found.filter(|_| is_new) {
            found.kinds[bit as usize].store(kind as u8, Relaxed);
            let (name, oldest) = (u64::from(commit) << 32 | u64::from(path.0), &found.names[bit as usize]);
            let is_older = |oldest: u64| (u64::from(commit) < oldest >> 32).then_some(name);
            // An error means that an older commit is recorded already.
            let _ = oldest.fetch_update(Relaxed, Relaxed, is_older);
        }
        Ok(is_new)
    }

    fn compare(
        &mut self,
        comparison: &TreeComparison,
        is_new: &mut impl FnMut(u32) -> bool,
        open: &mut Vec<TreeComparison>,
    ) -> Result<(), NoBitmap> {
        let tree = self.decoder.tree(comparison.tree)?;
        if comparison.bases.is_empty() {
            for at in &tree.starts[..tree.starts.len() - 1] {
                self.entry(comparison, &tree, *at, Vec::new(), is_new, open)?;
            }
            return Ok(());
        }
        let mut fresh: Option<Vec<(u32, Vec<ObjectNo>)>> = None;
        for base in &comparison.bases {
            let base_tree = self.decoder.tree(*base)?;
            let differences = self.differences(comparison.tree, &tree, &base_tree)?;
            fresh = Some(match fresh {
                None => differences.into_iter().map(|fresh| (fresh.at, Vec::from_iter(fresh.base))).collect(),
                Some(fresh) => in_both(fresh, differences),
            });
        }
        for (at, bases) in fresh.unwrap_or_default() {
            self.entry(comparison, &tree, at, bases, is_new, open)?;
        }
        Ok(())
    }

    fn entry(
        &self,
        comparison: &TreeComparison,
        tree: &Tree,
        at: u32,
        bases: Vec<ObjectNo>,
        is_new: &mut impl FnMut(u32) -> bool,
        open: &mut Vec<TreeComparison>,
    ) -> Result<(), NoBitmap> {
        let entry = self.entry_at(comparison.tree, tree, at)?;
        let (kind, found) = match entry.kind() {
            EntryKind::Submodule => return Ok(()),
            EntryKind::Tree => (Kind::Tree, self.order.find_tree(self.request_objects, entry.id)?),
            EntryKind::Blob => (Kind::Blob, self.request_objects.find(entry.id)?),
        };
        let Some(ix) = found else {
            return if kind == Kind::Tree { Ok(()) } else { Err(NoBitmap::NotClosed(entry.id.to_owned())) };
        };
        let path = comparison.path.entry(entry.name);
        if self.meet(comparison.commit, ix, kind, path, is_new)? && kind == Kind::Tree {
            open.push(TreeComparison { commit: comparison.commit, tree: ix, path, bases });
        }
        Ok(())
    }

    fn entry_at<'t>(&self, ix: ObjectNo, tree: &'t Tree, at: u32) -> Result<TreeEntry<'t>, NoBitmap> {
        let entry = Entries::at(&tree.bytes, self.request_objects.hash(), at as usize).next();
        let Some(Ok(entry)) = entry else {
            let source = MalformedObject { what: "tree entry", at: at as usize };
            return Err(Reason::Malformed { id: self.request_objects.id(ix), source }.into());
        };
        Ok(entry)
    }

    /// The entries of `tree` that `base` lacks or has with other bytes.
    fn differences(&self, ix: ObjectNo, tree: &Tree, base: &Tree) -> Result<Vec<Fresh>, NoBitmap> {
        let mut fresh = Vec::new();
        for difference in Differences::new(self.request_objects.hash(), base, tree) {
            let difference =
                difference.map_err(|source| Reason::Malformed { id: self.request_objects.id(ix), source })?;
            let Some(new) = difference.new else { continue };
            let old = difference.old.filter(|old| old.entry.kind() == EntryKind::Tree);
            let base = match old {
                Some(old) => self.request_objects.find(old.entry.id)?,
                None => None,
            };
            fresh.push(Fresh { at: new.at, base });
        }
        Ok(fresh)
    }
}

/// Entries that both comparisons found, with the trees that either base has in their place.
fn in_both(fresh: Vec<(u32, Vec<ObjectNo>)>, differences: Vec<Fresh>) -> Vec<(u32, Vec<ObjectNo>)> {
    let mut differences = differences.into_iter().peekable();
    let keep = |(at, mut bases): (u32, Vec<ObjectNo>)| {
        while differences.next_if(|other| other.at < at).is_some() {}
        let other = differences.next_if(|other| other.at == at)?;
        bases.extend(other.base);
        Some((at, bases))
    };
    fresh.into_iter().filter_map(keep).collect()
}
