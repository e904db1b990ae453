//! Walks through commits: reachability, ahead and behind counts, and merge bases.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use packrace_object::fsck::readable;
use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_store::refs::TagEnd;
use packrace_store::{ObjectReader, Snapshot, cache_bytes};

use crate::call::fatal::Fatal;

/// Without generation numbers: how many more commits to visit once all queued ones seem shared, as
/// committers' clocks differ.
const DATE_SKEW_SLOP: usize = 64;

/// The index of a loaded commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitNo(u32);

/// Commits and their parents, loaded on demand.
pub struct LoadedHistory {
    snapshot: Arc<Snapshot>,
    reader: ObjectReader,
    numbers: HashMap<ObjectId, CommitNo>,
    commits: Vec<HistoryCommit>,
    /// Marks of walks, all zero between them.
    scratch: Marks,
    /// Missing commits that were met, where they count as commits without parents.
    gaps: Option<Vec<ObjectId>>,
}

struct HistoryCommit {
    id: ObjectId,
    /// Read on demand.
    links: Option<Links>,
}

struct Links {
    parents: Box<[CommitNo]>,
    seconds: i64,
    /// Larger than the generation of every ancestor; only from a commit-graph.
    generation: Option<u64>,
}

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const BOTH: u8 = LEFT | RIGHT;
const POPPED: u8 = 4;

impl LoadedHistory {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        let reader = snapshot.reader(cache_bytes::MANY_OBJECTS);
        LoadedHistory {
            snapshot,
            reader,
            numbers: HashMap::new(),
            commits: Vec::new(),
            scratch: Marks::default(),
            gaps: None,
        }
    }

    /// Missing commits count as commits without parents.
    pub fn with_gaps(self) -> Self {
        LoadedHistory { gaps: Some(Vec::new()), ..self }
    }

    /// The missing commits that were met since the last call.
    pub fn take_gaps(&mut self) -> Vec<ObjectId> {
        self.gaps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The index of a commit, which is not read yet.
    pub fn load(&mut self, id: ObjectId) -> Result<CommitNo, Fatal> {
        let next = CommitNo(u32::try_from(self.commits.len()).map_err(Fatal::new)?);
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.commits.push(HistoryCommit { id, links: None });
        }
        Ok(number)
    }

    /// The commit that an object is, or finally tags.
    pub fn commit(&mut self, id: ObjectId) -> Result<Option<CommitNo>, Fatal> {
        if let Some(number) = self.numbers.get(&id) {
            return Ok(Some(*number));
        }
        match self.reader.kind(&id)? {
            Some(Kind::Commit) => return self.load(id).map(Some),
            Some(Kind::Tag) => {}
            _ => return Ok(None),
        }
        let end = TagEnd::of_tag(&mut self.reader, id)?;
        end.report();
        match end {
            TagEnd::At(id, Kind::Commit) => self.load(id).map(Some),
            _ => Ok(None),
        }
    }

    /// Why git cannot parse a commit, in its words; `None` if it can, or if the object cannot be read at all.
    pub fn unreadable(&mut self, commit: CommitNo) -> Option<String> {
        if self.links(commit).is_ok() {
            return None;
        }
        let id = self.id(commit);
        let object = self.reader.read(&id).ok().filter(|object| object.kind == Kind::Commit)?;
        let unreadable = readable(Kind::Commit, &id, &object.data, self.snapshot.hash_kind()).err()?;
        unreadable.why.map(|why| String::from_utf8_lossy(&why).into_owned())
    }

    pub fn id(&self, commit: CommitNo) -> ObjectId {
        self.commits[commit.0 as usize].id
    }

    pub fn parents(&mut self, commit: CommitNo) -> Result<&[CommitNo], Fatal> {
        Ok(&self.links(commit)?.parents)
    }

    /// When it was committed.
    pub fn seconds(&mut self, commit: CommitNo) -> Result<i64, Fatal> {
        Ok(self.links(commit)?.seconds)
    }

    fn links(&mut self, number: CommitNo) -> Result<&Links, Fatal> {
        if self.commits[number.0 as usize].links.is_none() {
            let links = self.read_links(self.commits[number.0 as usize].id)?;
            self.commits[number.0 as usize].links = Some(links);
        }
        Ok(self.commits[number.0 as usize].links.as_ref().expect("just set"))
    }

    fn read_links(&mut self, id: ObjectId) -> Result<Links, Fatal> {
        let is_cut = self.snapshot.shallow()?.binary_search(&id).is_ok();
        let snapshot = self.snapshot.clone();
        if let Some(graph) = snapshot.commit_graph()
            && let Some(position) = graph.position_of(&id)
            // If the graph is damaged, read the parents from the commit.
            && let Ok(stored) = graph.commit_at(position)
        {
            let parents = stored.parents.map(|parent| self.load(graph.id_at(parent).to_owned()));
            let parents = parents.collect::<Result<_, _>>()?;
            let seconds = i64::try_from(stored.committer_seconds).unwrap_or(i64::MAX);
            let generation = Some(stored.generation).filter(|generation| *generation > 0);
            return Ok(Links { parents, seconds, generation });
        }
        let read = self.reader.read(&id);
        if let (Err(_), Some(gaps)) = (&read, &mut self.gaps)
            && self.reader.kind(&id)?.is_none()
        {
            gaps.push(id);
            return Ok(Links { parents: Box::default(), seconds: 0, generation: None });
        }
        let object = read?;
        if object.kind != Kind::Commit {
            return Err(Fatal::new(format!("object {id} is a {}, not a commit", object.kind)));
        }
        let commit = parse_commit(&object.data, snapshot.hash_kind());
        let commit = commit.map_err(|error| Fatal::new(format!("could not parse commit {id}: {error}")))?;
        let parents = if is_cut { Vec::new() } else { commit.parents };
        let parents = parents.into_iter().map(|parent| self.load(parent)).collect::<Result<_, _>>()?;
        Ok(Links { parents, seconds: commit.committer_seconds, generation: None })
    }

    /// The generation below which no commit reaches one of these; `None` if unknown.
    fn lowest_generation(&mut self, commits: &[CommitNo]) -> Result<Option<u64>, Fatal> {
        let mut lowest = u64::MAX;
        for commit in commits {
            match self.links(*commit)?.generation {
                Some(generation) => lowest = lowest.min(generation),
                None => return Ok(None),
            }
        }
        Ok(Some(lowest))
    }

    /// For each of `tips`, whether one of `from` reaches it.
    pub fn reached(&mut self, tips: &[CommitNo], from: &[CommitNo]) -> Result<Vec<bool>, Fatal> {
        let lowest = self.lowest_generation(tips)?;
        let mut seen = Marks::default();
        let mut stack: Vec<CommitNo> = from.iter().copied().filter(|commit| seen.add(*commit, 1)).collect();
        while let Some(commit) = stack.pop() {
            let links = self.links(commit)?;
            if let (Some(generation), Some(lowest)) = (links.generation, lowest)
                && generation < lowest
            {
                continue;
            }
            stack.extend(links.parents.iter().copied().filter(|parent| seen.add(*parent, 1)));
        }
        Ok(tips.iter().map(|tip| seen.get(*tip) != 0).collect())
    }

    /// For each of `tips`, whether it reaches one of `targets`.
    pub fn reaching(&mut self, tips: &[CommitNo], targets: &[CommitNo]) -> Result<Vec<bool>, Fatal> {
        const NO: u8 = 1;
        const YES: u8 = 2;
        let lowest = self.lowest_generation(targets)?;
        let mut answers = Marks::default();
        for target in targets {
            answers.add(*target, YES);
        }
        let mut path: Vec<(CommitNo, usize)> = Vec::new();
        for tip in tips {
            if answers.get(*tip) == 0 {
                path.push((*tip, 0));
            }
            while let Some((commit, next)) = path.last_mut() {
                let (commit, at) = (*commit, *next);
                *next += 1;
                let links = self.links(commit)?;
                let is_below =
                    matches!((links.generation, lowest), (Some(own), Some(lowest)) if own < lowest);
                let parent = links.parents.get(at).copied().filter(|_| !is_below);
                match parent.map(|parent| (parent, answers.get(parent))) {
                    None => {
                        answers.add(commit, NO);
                        path.pop();
                    }
                    Some((_, YES)) => {
                        // All commits on the path reach it too.
                        for (commit, _) in path.drain(..) {
                            answers.add(commit, YES);
                        }
                    }
                    Some((parent, 0)) => path.push((parent, 0)),
                    Some(_) => {}
                }
            }
        }
        Ok(tips.iter().map(|tip| answers.get(*tip) & YES != 0).collect())
    }

    /// Ahead and behind counts of two refs; `None` if one of them leads to no commit.
    pub fn ahead_behind(
        &mut self,
        own: &ObjectId,
        other: &ObjectId,
    ) -> Result<Option<(usize, usize)>, Fatal> {
        let (Some(own), Some(other)) = (self.commit(*own)?, self.commit(*other)?) else { return Ok(None) };
        self.count(own, other).map(Some)
    }

    /// How many commits only `left` reaches, and how many only `right` reaches.
    pub fn count(&mut self, left: CommitNo, right: CommitNo) -> Result<(usize, usize), Fatal> {
        if left == right {
            return Ok((0, 0));
        }
        let apart = self.apart(left, &[right])?;
        let count = |side| apart.iter().filter(|(_, colour)| *colour == side).count();
        Ok((count(LEFT), count(RIGHT)))
    }

    /// The commits that `tips` reach and `base` does not; and whether each is newer than its parents of the commits that only `base`
    /// reaches, and of those where both meet.
    pub fn added(&mut self, base: CommitNo, tips: &[CommitNo]) -> Result<(Vec<CommitNo>, bool), Fatal> {
        let (mut added, mut is_ordered) = (Vec::new(), true);
        for (commit, colour) in self.apart(base, tips)? {
            match colour {
                RIGHT => added.push(commit),
                _ => is_ordered &= self.is_newest(commit)?,
            }
        }
        Ok((added, is_ordered))
    }

    /// Commits that both reach, with all that no other such commit reaches.
    pub fn merge_bases(&mut self, left: CommitNo, right: CommitNo) -> Result<Vec<ObjectId>, Fatal> {
        if left == right {
            return Ok(vec![self.id(left)]);
        }
        let mut shared = self.apart(left, &[right])?;
        shared.retain(|(_, colour)| *colour == BOTH);
        let mut below: HashSet<CommitNo> = HashSet::new();
        for (commit, _) in &shared {
            below.extend(self.parents(*commit)?);
        }
        Ok(shared
            .iter()
            .filter(|(commit, _)| !below.contains(commit))
            .map(|(commit, _)| self.id(*commit))
            .collect())
    }

    /// Whether a commit is newer than its parents.
    pub fn is_newest(&mut self, commit: CommitNo) -> Result<bool, Fatal> {
        let seconds = self.seconds(commit)?;
        for parent in self.parents(commit)?.to_vec() {
            if self.seconds(parent)? >= seconds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The commits that only one side reaches and those where both meet, and which it is.
    fn apart(&mut self, left: CommitNo, right: &[CommitNo]) -> Result<Vec<(CommitNo, u8)>, Fatal> {
        let colours = std::mem::take(&mut self.scratch);
        let mut walk = Walk { colours, queue: BinaryHeap::new(), undecided: 0, met: Vec::new() };
        walk.paint(self, left, LEFT)?;
        for right in right {
            walk.paint(self, *right, RIGHT)?;
        }
        let mut slop = DATE_SKEW_SLOP;
        while let Some(((generation, _), commit)) = walk.queue.pop() {
            let colour = walk.colours.get(commit);
            walk.colours.add(commit, POPPED);
            if colour & BOTH != BOTH {
                walk.undecided -= 1;
            }
            for at in 0..self.links(commit)?.parents.len() {
                let parent = self.links(commit)?.parents[at];
                walk.paint(self, parent, colour & BOTH)?;
            }
            if walk.undecided > 0 {
                slop = DATE_SKEW_SLOP;
            } else if generation != u64::MAX || slop == 0 {
                break;
            } else {
                slop -= 1;
            }
        }
        let met = walk.met.iter().map(|commit| (*commit, walk.colours.get(*commit) & BOTH)).collect();
        walk.met.iter().for_each(|commit| walk.colours.clear(*commit));
        self.scratch = walk.colours;
        Ok(met)
    }
}

/// A walk from two sides.
struct Walk {
    colours: Marks,
    /// Newest first: by generation (unknown counts as newest), then by date.
    queue: BinaryHeap<((u64, i64), CommitNo)>,
    /// Queued commits not known to be reachable from both sides.
    undecided: usize,
    /// All that have a colour.
    met: Vec<CommitNo>,
}

impl Walk {
    /// Adds a colour; commits that were visited pass it on to their parents.
    fn paint(&mut self, history: &mut LoadedHistory, commit: CommitNo, colour: u8) -> Result<(), Fatal> {
        let mut stack = vec![commit];
        while let Some(commit) = stack.pop() {
            let old = self.colours.get(commit);
            if old & colour == colour {
                continue;
            }
            self.colours.add(commit, colour);
            let new = old | colour;
            let links = history.links(commit)?;
            if old & POPPED != 0 {
                stack.extend_from_slice(&links.parents);
                continue;
            }
            let is_one_sided = |colour: u8| matches!(colour & BOTH, LEFT | RIGHT);
            self.undecided += usize::from(is_one_sided(new));
            self.undecided -= usize::from(is_one_sided(old));
            if old == 0 {
                self.met.push(commit);
                self.queue.push(((links.generation.unwrap_or(u64::MAX), links.seconds), commit));
            }
        }
        Ok(())
    }
}

/// Bits per commit.
#[derive(Debug, Default)]
struct Marks(Vec<u8>);

impl Marks {
    fn get(&self, commit: CommitNo) -> u8 {
        self.0.get(commit.0 as usize).copied().unwrap_or(0)
    }

    fn clear(&mut self, commit: CommitNo) {
        self.0[commit.0 as usize] = 0;
    }

    /// Adds bits; false if they were already set.
    fn add(&mut self, commit: CommitNo, bits: u8) -> bool {
        let at = commit.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let is_new = self.0[at] & bits != bits;
        self.0[at] |= bits;
        is_new
    }
}
