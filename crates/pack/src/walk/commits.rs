//! Walks over commits: loading, closure, and the difference between wants and haves.

use std::collections::{BinaryHeap, HashMap, HashSet};

use packrace_object::{Kind, MAX_TAG_DEPTH, ObjectId, oid, parse_commit, parse_tag};
use packrace_store::{ObjectReader, cache_bytes};

use crate::error::{Error, Reason};
pub(crate) use crate::loaded_commits::{CommitNo, LoadedCommit, LoadedCommits};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};

/// Commits between two checks for cancellation.
const COMMITS_BETWEEN_LOOKS: usize = 1024;

/// Without generation numbers, how many commits older than all found ones are still visited, because
/// committers' clocks differ. If they are too few, the pack is only larger than necessary.
const DATE_SKEW_SLOP: u32 = 8;

/// The object that a tag, want or have of any kind peels to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peeled {
    /// Annotated tags on the way, outermost first.
    pub(crate) tags: Vec<ObjectNo>,
    pub(crate) object: ObjectNo,
    pub(crate) kind: Kind,
}

/// Loads commits and caches them.
pub(crate) struct Commits<'a> {
    request_objects: &'a RequestObjects,
    progress: &'a dyn ProgressSink,
    reader: ObjectReader,
    content: Vec<u8>,
    /// Commits whose parents a walk must not visit: shallow commits.
    cut: HashSet<ObjectNo>,
    loaded: Vec<LoadedCommit>,
    numbers: HashMap<ObjectNo, CommitNo>,
}

impl<'a> Commits<'a> {
    /// Commits of `request_objects`; those in `cut` count as having no parents.
    pub(crate) fn new(
        request_objects: &'a RequestObjects,
        cut: HashSet<ObjectNo>,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        Commits {
            request_objects,
            progress,
            reader: request_objects.snapshot().reader(cache_bytes::MANY_OBJECTS),
            content: Vec::new(),
            cut,
            loaded: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// Continues with commits loaded before; their numbers stay valid.
    pub(crate) fn resume(
        request_objects: &'a RequestObjects,
        loaded: LoadedCommits,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let LoadedCommits { cut, loaded, numbers } = loaded;
        Commits { loaded, numbers, ..Commits::new(request_objects, cut, progress) }
    }

    /// Continues where a negotiation about the same history has ended, if there was one.
    pub(crate) fn after_negotiation(
        request_objects: &'a RequestObjects,
        cut: HashSet<ObjectNo>,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let mut negotiated = request_objects.negotiated.lock().expect("no panic while held");
        let loaded = negotiated.take_if(|loaded| loaded.cut == cut);
        Commits::resume(
            request_objects,
            loaded.unwrap_or(LoadedCommits { cut, ..LoadedCommits::default() }),
            progress,
        )
    }

    pub(crate) fn into_loaded(self) -> LoadedCommits {
        LoadedCommits { cut: self.cut, loaded: self.loaded, numbers: self.numbers }
    }

    pub(crate) fn request_objects(&self) -> &'a RequestObjects {
        self.request_objects
    }

    /// The number of a commit, if it is loaded.
    pub(crate) fn number(&self, ix: ObjectNo) -> Option<CommitNo> {
        self.numbers.get(&ix).copied()
    }

    pub(crate) fn get(&self, no: CommitNo) -> &LoadedCommit {
        &self.loaded[no.0 as usize]
    }

    /// Loads the commit `ix`, whose parents must exist, because a client gets them as it deepens its history.
    pub(crate) fn load_deepening(&mut self, ix: ObjectNo) -> Result<CommitNo, Error> {
        let no = self.load_had(ix)?;
        match self.get(no).lacks.as_deref() {
            Some(parent) => Err(Reason::MissingCommit(*parent).into()),
            None => Ok(no),
        }
    }

    /// Loads the commit `ix`, whose parents must exist.
    pub(crate) fn load(&mut self, ix: ObjectNo) -> Result<CommitNo, Error> {
        let no = self.load_had(ix)?;
        self.check_parents(no)?;
        Ok(no)
    }

    /// An error if a parent of the commit does not exist.
    fn check_parents(&self, no: CommitNo) -> Result<(), Error> {
        let commit = self.get(no);
        let Some(parent) = commit.lacks.as_deref().copied() else { return Ok(()) };
        Err(Reason::MissingParent { parent, child: self.request_objects.id(commit.ix) }.into())
    }

    /// Loads a commit that the receiver may have, whether or not its parents exist.
    pub(crate) fn load_had(&mut self, ix: ObjectNo) -> Result<CommitNo, Error> {
        if let Some(no) = self.numbers.get(&ix) {
            return Ok(*no);
        }
        let no = CommitNo(self.loaded.len() as u32);
        if self.loaded.len() % COMMITS_BETWEEN_LOOKS == COMMITS_BETWEEN_LOOKS - 1 {
            if self.progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            self.progress.report(Phase::Enumerating, self.loaded.len() as u64, 0);
        }
        let commit = match self.load_from_graph(ix)? {
            Some(commit) => commit,
            None => self.load_from_object(ix)?,
        };
        self.loaded.push(commit);
        self.numbers.insert(ix, no);
        Ok(no)
    }

    fn load_from_graph(&mut self, ix: ObjectNo) -> Result<Option<LoadedCommit>, Error> {
        let Some(graph) = self.request_objects.snapshot().commit_graph() else { return Ok(None) };
        let Some(position) = graph.position_of(&self.request_objects.id(ix)) else { return Ok(None) };
        // A damaged graph is not trusted; the commit object names the parents.
        let Ok(stored) = graph.commit_at(position) else { return Ok(None) };
        let is_cut = self.cut.contains(&ix);
        let named = stored.parents.map(|parent| graph.id_at(parent)).filter(|_| !is_cut);
        let (parents, lacks) = self.existing(named)?;
        Ok(Some(LoadedCommit {
            ix,
            tree: stored.tree.to_owned(),
            parents,
            lacks,
            seconds: i64::try_from(stored.committer_seconds).unwrap_or(i64::MAX),
            generation: Some(stored.generation).filter(|generation| *generation > 0),
            is_cut,
        }))
    }

    fn load_from_object(&mut self, ix: ObjectNo) -> Result<LoadedCommit, Error> {
        let is = self.request_objects.read(&mut self.reader, ix, &mut self.content)?;
        if is != Kind::Commit {
            return Err(
                Reason::WrongKind { id: self.request_objects.id(ix), is, expected: Kind::Commit }.into()
            );
        }
        let commit = parse_commit(&self.content, self.request_objects.hash())
            .map_err(|source| Reason::Malformed { id: self.request_objects.id(ix), source })?;
        let is_cut = self.cut.contains(&ix);
        let named = commit.parents.iter().map(|parent| &**parent).filter(|_| !is_cut);
        let (parents, lacks) = self.existing(named)?;
        Ok(LoadedCommit {
            ix,
            tree: commit.tree,
            parents,
            lacks,
            seconds: commit.committer_seconds,
            generation: None,
            is_cut,
        })
    }

    /// The parents that exist, and the first that does not.
    fn existing<'p>(
        &self,
        named: impl Iterator<Item = &'p oid>,
    ) -> Result<(Vec<ObjectNo>, Option<Box<ObjectId>>), Error> {
        let (mut parents, mut lacks) = (Vec::new(), None);
        for parent in named {
            match self.request_objects.find(parent)? {
                Some(parent) => parents.push(parent),
                None => lacks = lacks.or_else(|| Some(Box::new(parent.to_owned()))),
            }
        }
        Ok((parents, lacks))
    }

    /// Peels annotated tags, starting at `ix`.
    pub(crate) fn peel(&mut self, ix: ObjectNo) -> Result<Peeled, Error> {
        let mut tags = Vec::new();
        let mut at = ix;
        loop {
            if self.numbers.contains_key(&at) {
                return Ok(Peeled { tags, object: at, kind: Kind::Commit });
            }
            let kind = self.request_objects.kind(&mut self.reader, at)?;
            if kind != Kind::Tag {
                return Ok(Peeled { tags, object: at, kind });
            }
            self.request_objects.read(&mut self.reader, at, &mut self.content)?;
            let tag = parse_tag(&self.content, self.request_objects.hash())
                .map_err(|source| Reason::Malformed { id: self.request_objects.id(at), source })?;
            tags.push(at);
            if tags.len() > MAX_TAG_DEPTH {
                return Err(Reason::DeepTags(self.request_objects.id(ix)).into());
            }
            let target = self.request_objects.find(&tag.target)?;
            at = target.ok_or(Reason::MissingTarget(tag.target))?;
        }
    }

    /// Visits every commit that `tips` reach, each once, newest first if dates are right. `enter` returns
    /// whether to continue to a commit's parents, which need not exist otherwise.
    pub(crate) fn closure(
        &mut self,
        tips: &[ObjectNo],
        mut enter: impl FnMut(&LoadedCommit) -> bool,
    ) -> Result<(), Error> {
        let mut seen: HashSet<ObjectNo> = HashSet::new();
        let mut queue = BinaryHeap::new();
        for &tip in tips {
            if seen.insert(tip) {
                let no = self.load_had(tip)?;
                queue.push((self.get(no).age_key(), no.0));
            }
        }
        while let Some((_, no)) = queue.pop() {
            let no = CommitNo(no);
            if !enter(self.get(no)) {
                continue;
            }
            self.check_parents(no)?;
            for at in 0..self.get(no).parents.len() {
                let parent = self.get(no).parents[at];
                if seen.insert(parent) {
                    let no = self.load_had(parent)?;
                    queue.push((self.get(no).age_key(), no.0));
                }
            }
        }
        Ok(())
    }

    /// The commits that `wants` reach and `haves` don't, and the commits at their border that `haves` reach.
    pub(crate) fn between(&mut self, wants: &[ObjectNo], haves: &[ObjectNo]) -> Result<Between, Error> {
        let between = self.between_within(wants, haves, usize::MAX)?;
        Ok(between.expect("no limit was set"))
    }

    /// The same, or `None` if this would visit more than `max_commits`.
    pub(crate) fn between_within(
        &mut self,
        wants: &[ObjectNo],
        haves: &[ObjectNo],
        max_commits: usize,
    ) -> Result<Option<Between>, Error> {
        Painting::new(self).run(wants, haves, max_commits)
    }
}

/// The answer of [`Commits::between`].
#[derive(Debug, Default)]
pub(crate) struct Between {
    /// Reached by wants only, newest first.
    pub(crate) missing: Vec<CommitNo>,
    /// Reached by haves, and either a parent of a missing commit or a have itself.
    pub(crate) border: Vec<CommitNo>,
    /// Every visited commit that haves reach.
    pub(crate) had: Vec<CommitNo>,
}

const WANTED: u8 = 1;
const HAD: u8 = 2;
const POPPED: u8 = 4;

struct Painting<'c, 'a> {
    commits: &'c mut Commits<'a>,
    /// By number of the commit.
    colours: Vec<u8>,
    queue: BinaryHeap<((u64, i64), u32)>,
    /// The number of queue entries that are wanted and not had.
    undecided: usize,
}

impl<'c, 'a> Painting<'c, 'a> {
    fn new(commits: &'c mut Commits<'a>) -> Self {
        Painting { commits, colours: Vec::new(), queue: BinaryHeap::new(), undecided: 0 }
    }

    fn run(
        mut self,
        wants: &[ObjectNo],
        haves: &[ObjectNo],
        max_commits: usize,
    ) -> Result<Option<Between>, Error> {
        for &have in haves {
            self.paint(have, HAD)?;
        }
        for &want in wants {
            self.paint(want, WANTED)?;
        }
        let mut popped = 0;
        let mut order = Vec::new();
        let mut slop = DATE_SKEW_SLOP;
        let mut oldest_missing = (u64::MAX, i64::MAX);
        while let Some((key, no)) = self.queue.pop() {
            let no = CommitNo(no);
            let colour = self.colours[no.0 as usize];
            if colour & POPPED != 0 {
                continue;
            }
            self.colours[no.0 as usize] |= POPPED;
            popped += 1;
            if popped > max_commits {
                return Ok(None);
            }
            if colour & HAD == 0 {
                self.commits.check_parents(no)?;
                self.undecided -= 1;
                order.push(no);
                oldest_missing = oldest_missing.min(key);
            }
            for at in 0..self.commits.get(no).parents.len() {
                let parent = self.commits.get(no).parents[at];
                self.paint(parent, if colour & HAD != 0 { HAD } else { WANTED })?;
            }
            if self.undecided > 0 {
                slop = DATE_SKEW_SLOP;
                continue;
            }
            // All commits left are had. With generation numbers, no older commit matters; with dates alone,
            // look a little further for commits whose descendants have older dates.
            let Some((next, _)) = self.queue.peek() else { break };
            if next.0 != u64::MAX && oldest_missing.0 != u64::MAX && *next < oldest_missing {
                break;
            }
            if *next < oldest_missing {
                if slop == 0 {
                    break;
                }
                slop -= 1;
            }
        }
        Ok(Some(self.finish(order, haves)))
    }

    /// Adds a colour; "had" spreads to all ancestors, even popped ones.
    fn paint(&mut self, ix: ObjectNo, colour: u8) -> Result<(), Error> {
        let mut stack = vec![ix];
        while let Some(ix) = stack.pop() {
            let no = self.commits.load_had(ix)?;
            if self.colours.len() <= no.0 as usize {
                self.colours.resize(no.0 as usize + 1, 0);
            }
            let old = self.colours[no.0 as usize];
            if old & colour == colour || old & HAD != 0 {
                continue;
            }
            let new = old | colour;
            self.colours[no.0 as usize] = new;
            if old & POPPED != 0 {
                // Wanted before, had now: its parents were painted as wanted and must be repainted.
                stack.extend(&self.commits.get(no).parents);
                continue;
            }
            let is_undecided = |colour: u8| colour & (WANTED | HAD) == WANTED;
            self.undecided += usize::from(is_undecided(new));
            self.undecided -= usize::from(is_undecided(old));
            if old == 0 {
                self.queue.push((self.commits.get(no).age_key(), no.0));
            }
        }
        Ok(())
    }

    fn finish(self, order: Vec<CommitNo>, haves: &[ObjectNo]) -> Between {
        let is_had = |no: &CommitNo| self.colours.get(no.0 as usize).is_some_and(|colour| colour & HAD != 0);
        let missing: Vec<CommitNo> = order.into_iter().filter(|no| !is_had(no)).collect();
        let mut border = Vec::new();
        let mut on_border = HashSet::new();
        let parents = missing.iter().flat_map(|no| &self.commits.get(*no).parents);
        for ix in parents.chain(haves) {
            let had = self.commits.numbers.get(ix).filter(|no| is_had(no));
            border.extend(had.filter(|no| on_border.insert(**no)));
        }
        let had = (0..self.colours.len() as u32).map(CommitNo).filter(is_had).collect();
        Between { missing, border, had }
    }
}
