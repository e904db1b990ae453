//! Whether everything that new ref values reach exists (git-receive-pack, "missing necessary objects"; as
//! `git rev-list --objects <new> --not --all` would find).
//!
//! History that refs reach is trusted and not visited: it was checked when those refs were set. Everything
//! else is visited, including unreachable objects in the repository, which may be incomplete. So a push costs
//! as much as it brings, if the commits where it joins trusted history are found quickly:
//!
//! 1. walking down from the new tips, at a commit that a ref points at: nearly every push;
//! 2. at a commit that a stored bitmap covers: bitmaps are made of complete histories;
//! 3. otherwise by walking down from all refs as well, newest commits first.
//!
//! Objects in the trees of those commits count as had, path by path, as for a fetch.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_format::bitmap::Bits;
use packrace_object::{Kind, MAX_TAG_DEPTH, ObjectId, parse_tag};
use packrace_store::{ObjectReader, SnapshotBitmap, cache_bytes};

use crate::error::{Error, ErrorKind, Reason};
use crate::marks::Marks;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::Commits;
use crate::walk::trees::{AllowedMissing, OnMissing, PathWalk, TreeWalk};

/// New commits visited to find trusted history before all refs are loaded.
const COMMITS_WITHOUT_REFS: usize = 512;

/// Visits per existing object, at most, when tips are checked one by one: the tips may build on each other.
const LOOKS_AN_OBJECT: u64 = 8;

/// The least value of that limit, for repositories with few objects.
const MIN_LOOKS: u64 = 1 << 20;

/// The input of the check, as plain data.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// New values of refs.
    pub tips: &'a [ObjectId],
    /// Previous values of refs, and refs of alternates. Refs hidden from the pusher (`receive.hideRefs`) do
    /// not belong here: they may be broken unnoticed. Missing objects are ignored.
    pub trusted: &'a [ObjectId],
    /// Commits that may lack their parents, besides the repository's own shallow commits.
    pub shallow: &'a [ObjectId],
    /// The deepest tree that is visited (`core.maxTreeDepth`); deeper trees count as missing.
    pub max_tree_depth: usize,
    /// Threads that a walk may use; at least 1.
    pub threads: usize,
}

/// A tip that reaches a missing or unreadable object.
#[derive(Debug)]
pub struct Gap {
    /// The position in [`Question::tips`].
    pub tip: usize,
    /// The first problem found.
    pub why: Error,
}

/// The tips that reach missing objects; empty if nothing is missing.
///
/// All tips are checked together, and one by one only if that check fails. If many tips build on each other
/// above a gap, the last ones may be reported as broken without a visit: this bounds the work that a push can
/// cause.
pub fn gaps(
    request_objects: &Arc<RequestObjects>,
    question: &Question<'_>,
    progress: &dyn ProgressSink,
) -> Result<Vec<Gap>, Error> {
    let progress = &Checking(progress);
    let mut check = Check::new(request_objects, question, progress)?;
    let all: Vec<usize> = (0..question.tips.len()).collect();
    let why = match check.look(&all) {
        Ok(()) => return Ok(Vec::new()),
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
        Err(error) => error,
    };
    if let [tip] = all[..] {
        return Ok(vec![Gap { tip, why }]);
    }
    let stored = u64::from(request_objects.packed_end()) + request_objects.loose_met().len() as u64;
    let most_looks = check.looks + (stored * LOOKS_AN_OBJECT).max(MIN_LOOKS);
    let mut gaps = Vec::new();
    for tip in all {
        if check.looks > most_looks {
            gaps.push(Gap { tip, why: Reason::Missing(question.tips[tip]).into() });
            continue;
        }
        match check.look(&[tip]) {
            Ok(()) => drop(check.trusted.insert(question.tips[tip])),
            Err(error) if error.kind() == ErrorKind::Corrupt => gaps.push(Gap { tip, why: error }),
            Err(error) => return Err(error),
        }
    }
    Ok(gaps)
}

/// Reports the progress of a walk under this check's phase.
struct Checking<'a>(&'a dyn ProgressSink);

impl ProgressSink for Checking<'_> {
    fn report(&self, _: Phase, done: u64, total: u64) {
        self.0.report(Phase::CheckingConnectivity, done, total);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

struct Check<'a> {
    request_objects: &'a Arc<RequestObjects>,
    question: &'a Question<'a>,
    progress: &'a dyn ProgressSink,
    trusted: HashSet<ObjectId>,
    cut: HashSet<ObjectNo>,
    covered: Covered<'a>,
    /// The number of visited objects.
    looks: u64,
}

/// New commits, and the trees of the trusted commits that they join.
#[derive(Default)]
struct JoiningCommits {
    new: Vec<(ObjectNo, ObjectId)>,
    border_trees: Vec<ObjectId>,
}

impl<'a> Check<'a> {
    fn new(
        request_objects: &'a Arc<RequestObjects>,
        question: &'a Question<'a>,
        progress: &'a dyn ProgressSink,
    ) -> Result<Self, Error> {
        let mut cut = HashSet::new();
        for id in question.shallow.iter().chain(request_objects.snapshot().shallow()?) {
            cut.extend(request_objects.find(id)?);
        }
        let trusted = question.trusted.iter().copied().collect();
        let covered = Covered { request_objects, bits: None, trusted: question.trusted, next: 0 };
        Ok(Check { request_objects, question, progress, trusted, cut, covered, looks: 0 })
    }

    /// Visits what some tips reach; an error about stored objects is a gap.
    fn look(&mut self, tips: &[usize]) -> Result<(), Error> {
        let mut starts = Starts::new(self.request_objects);
        for tip in tips {
            let id = self.question.tips[*tip];
            if !self.trusted.contains(&id) {
                starts.add(id)?;
            }
        }
        let found = self.new_commits(&starts.commits)?;
        self.looks += found.new.len() as u64;
        self.look_at_trees(found, starts)
    }

    /// Separates new history from trusted history.
    fn new_commits(&mut self, tips: &[ObjectNo]) -> Result<JoiningCommits, Error> {
        match self.find_border(tips) {
            // The damage may be in trusted history, which this push need not repair: continue without
            // visiting that.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                for id in &self.trusted {
                    self.cut.extend(self.request_objects.find(id)?);
                }
                let mut commits = Commits::new(self.request_objects, self.cut.clone(), self.progress);
                let found = self.walk_down(&mut commits, tips, usize::MAX)?;
                Ok(found.expect("no limit was set"))
            }
            found => found,
        }
    }

    fn find_border(&mut self, tips: &[ObjectNo]) -> Result<JoiningCommits, Error> {
        let mut commits = Commits::new(self.request_objects, self.cut.clone(), self.progress);
        let most = if self.trusted.is_empty() { usize::MAX } else { COMMITS_WITHOUT_REFS };
        if let Some(found) = self.walk_down(&mut commits, tips, most)? {
            return Ok(found);
        }
        let haves = self.trusted_commits(&mut commits)?;
        let between = commits.between(tips, &haves)?;
        let new: Vec<(ObjectNo, ObjectId)> =
            between.missing.iter().map(|no| (commits.get(*no).ix, commits.get(*no).tree)).collect();
        let mut known: HashSet<ObjectNo> = new.iter().map(|(ix, _)| *ix).collect();
        // Only parents, not all refs as for a fetch: reading the trees of all refs would cost more than it
        // saves.
        let parents = between.missing.iter().flat_map(|no| &commits.get(*no).parents);
        let border: Vec<ObjectNo> = parents.copied().filter(|parent| known.insert(*parent)).collect();
        let border_trees = border.iter().filter_map(|ix| Some(commits.get(commits.number(*ix)?).tree));
        Ok(JoiningCommits { new, border_trees: border_trees.collect() })
    }

    /// `None` if more than `most` commits are new.
    fn walk_down(
        &mut self,
        commits: &mut Commits<'_>,
        tips: &[ObjectNo],
        most: usize,
    ) -> Result<Option<JoiningCommits>, Error> {
        let (request_objects, trusted, covered) = (self.request_objects, &self.trusted, &mut self.covered);
        let mut found = JoiningCommits::default();
        let mut failed = None;
        commits.closure(tips, |commit| {
            if found.new.len() > most || failed.is_some() {
                return false;
            }
            let is_trusted = match trusted.contains(&request_objects.id(commit.ix)) {
                true => Ok(true),
                false => covered.has(commit.ix),
            };
            let is_new = matches!(is_trusted, Ok(false));
            match is_trusted {
                Ok(false) => found.new.push((commit.ix, commit.tree)),
                Ok(true) => found.border_trees.push(commit.tree),
                Err(error) => failed = Some(error),
            }
            is_new
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(Some(found).filter(|found| found.new.len() <= most)),
        }
    }

    /// The commits that refs peel to; skips unreadable ones.
    fn trusted_commits(&self, commits: &mut Commits<'_>) -> Result<Vec<ObjectNo>, Error> {
        let mut found = Vec::new();
        for id in &self.trusted {
            let Some(ix) = self.request_objects.find(id)? else { continue };
            match commits.peel(ix).and_then(|peeled| match peeled.kind {
                Kind::Commit => commits.load(peeled.object).map(|_| Some(peeled.object)),
                _ => Ok(None),
            }) {
                Ok(commit) => found.extend(commit),
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn look_at_trees(&mut self, found: JoiningCommits, starts: Starts<'_>) -> Result<(), Error> {
        let (request_objects, packed_end) = (self.request_objects, self.request_objects.packed_end());
        let allowed_missing = AllowedMissing { promised: true, ..AllowedMissing::default() };
        let mut walk = TreeWalk::new(request_objects, self.question.threads, self.progress)
            .allowed_missing(allowed_missing)
            .noting_kinds()
            .no_deeper_than(self.question.max_tree_depth);
        let others = Marks::new(packed_end);
        for ix in found.new.iter().map(|(ix, _)| *ix).chain(starts.tags) {
            others.insert(ix);
        }
        let (wanted, had) = (Marks::new(packed_end), Marks::new(packed_end));
        let mut had_roots = Vec::new();
        for tree in found.border_trees {
            had_roots.extend(request_objects.find(&tree)?.filter(|tree| had.insert(*tree)));
        }
        let mut roots = Vec::new();
        for (_, tree) in &found.new {
            match request_objects.find(tree)? {
                Some(ix) => roots.extend(wanted.insert(ix).then_some(ix)),
                None if walk.may_be_missing(tree, Kind::Tree)? => {}
                None => return Err(Reason::MissingTree(*tree).into()),
            }
        }
        roots.extend(starts.trees.into_iter().filter(|tree| wanted.insert(*tree)));
        walk.note_roots(&roots);
        let result = match had_roots.is_empty() {
            true => walk.mark_below(roots, &wanted, OnMissing::Fail),
            false => {
                walk.note_roots(&had_roots);
                PathWalk::new(&mut walk, &wanted, &had).run(roots, had_roots).map(drop)
            }
        };
        self.looks += walk.marked();
        result?;
        match walk.kind_conflict(&others) {
            None => Ok(()),
            Some(ix) => Err(Reason::TwoKinds(request_objects.id(ix)).into()),
        }
    }
}

/// The objects that new tips peel to.
struct Starts<'a> {
    request_objects: &'a RequestObjects,
    reader: ObjectReader,
    content: Vec<u8>,
    commits: Vec<ObjectNo>,
    trees: Vec<ObjectNo>,
    tags: Vec<ObjectNo>,
}

impl<'a> Starts<'a> {
    fn new(request_objects: &'a RequestObjects) -> Self {
        let reader = request_objects.snapshot().reader(cache_bytes::FEW_OBJECTS);
        let (commits, trees, tags) = (Vec::new(), Vec::new(), Vec::new());
        Starts { request_objects, reader, content: Vec::new(), commits, trees, tags }
    }

    /// Peels a tip and checks the kind that each tag states for its target.
    fn add(&mut self, tip: ObjectId) -> Result<(), Error> {
        let (mut id, mut expected) = (tip, None);
        for _ in 0..=MAX_TAG_DEPTH {
            let ix = self.request_objects.require(&id)?;
            let is = self.request_objects.kind(&mut self.reader, ix)?;
            if let Some(expected) = expected.filter(|expected| *expected != is) {
                return Err(Reason::WrongKind { id, is, expected }.into());
            }
            match is {
                Kind::Commit => self.commits.push(ix),
                Kind::Tree => self.trees.push(ix),
                Kind::Blob => {}
                Kind::Tag => {
                    self.request_objects.read(&mut self.reader, ix, &mut self.content)?;
                    let tag = parse_tag(&self.content, self.request_objects.hash())
                        .map_err(|source| Reason::Malformed { id, source })?;
                    self.tags.push(ix);
                    (id, expected) = (tag.target, Some(tag.target_kind));
                    continue;
                }
            }
            return Ok(());
        }
        Err(Reason::DeepTags(tip).into())
    }
}

/// The union of the stored bitmaps of ref targets, added one by one as needed.
struct Covered<'a> {
    request_objects: &'a Arc<RequestObjects>,
    /// `None` before the first query.
    bits: Option<Bits>,
    trusted: &'a [ObjectId],
    /// The index of the first of `trusted` whose bitmap is not added yet.
    next: usize,
}

impl<'a> Covered<'a> {
    fn has(&mut self, commit: ObjectNo) -> Result<bool, Error> {
        let Some(packed) = self.request_objects.packed(commit) else { return Ok(false) };
        if !self.request_objects.snapshot().has_bitmap_files() {
            return Ok(false);
        }
        let Some(bitmap) = self.request_objects.snapshot().bitmap() else { return Ok(false) };
        let Some(bit) = bitmap.ix_to_bit(packed) else { return Ok(false) };
        if bitmap.has(packed) {
            return Ok(true);
        }
        let mut bits = self.bits.take().unwrap_or_else(|| bitmap.no_bits());
        while !bits.contains(bit) && self.next < self.trusted.len() {
            let tip = self.trusted[self.next];
            self.next += 1;
            if !self.add(tip, bitmap, &mut bits)? {
                // Damaged: discard what was added, and skip the rest.
                (bits, self.next) = (bitmap.no_bits(), self.trusted.len());
            }
        }
        let is_covered = bits.contains(bit);
        self.bits = Some(bits);
        Ok(is_covered)
    }

    fn add(&self, tip: ObjectId, bitmap: SnapshotBitmap<'_>, bits: &mut Bits) -> Result<bool, Error> {
        let found = self.request_objects.find(&tip)?.and_then(|ix| self.request_objects.packed(ix));
        match found.filter(|ix| bitmap.ix_to_bit(*ix).is_some_and(|bit| !bits.contains(bit))) {
            None => Ok(true),
            Some(ix) => Ok(bitmap.or_into(ix, bits).is_ok()),
        }
    }
}
