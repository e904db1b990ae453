//! Commits by the tags that they have and reach (git-for-each-ref, `describe`; git-describe, "SEARCH STRATEGY").
//!
//! All refs share the commits that were read and what was found for each. A commit is described by its first parent; of a merge, what its other parents
//! add is walked, once. Only a merge whose other parents add tags, or below which dates are out of order, has a walk of its own, down to where
//! all that is left is reached by all candidates, or to an eleventh tag.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write as _;

use packrace_object::{Kind, ObjectId, StoredId, parse_tag};
use packrace_store::refs::{NameRange, RefSnapshot, Target};

use super::describe_form::{DescribeForm, Digits, TagFilter};
use super::message;
use super::objects::ListedObjects;
use crate::call::fatal::Fatal;
use crate::history::{CommitNo, LoadedHistory};
use crate::text::header_line;

/// How many tags are compared.
const MAX_CANDIDATES: usize = 10;

const TAGS: &[u8] = b"refs/tags/";

/// Describes commits, and remembers what it finds.
pub struct Describer {
    history: LoadedHistory,
    searches: Vec<(TagFilter, TagSearch)>,
}

/// The tags that count, and what is known of commits.
#[derive(Default)]
struct TagSearch {
    tags: HashMap<CommitNo, TagName>,
    known: HashMap<CommitNo, Option<Nearest>>,
}

/// The name of a tagged commit.
struct TagName {
    name: Vec<u8>,
    is_annotated: bool,
    /// When it was tagged; 0 for a lightweight tag.
    seconds: u64,
    /// Whether the tag calls itself otherwise than its ref.
    is_misnamed: bool,
}

/// The tag that describes a commit, and how many commits are above it.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    tagged: CommitNo,
    depth: usize,
    /// Whether the order of dates made sure that this is the number: git counts by date.
    is_exact: bool,
}

impl Describer {
    pub fn new(objects: &ListedObjects<'_>) -> Result<Self, Fatal> {
        let history = LoadedHistory::new(objects.snapshot()?.clone()).with_gaps();
        Ok(Describer { history, searches: Vec::new() })
    }

    /// Adds the description of the commit that an object is or tags; nothing if it is none, or no tag counts.
    pub fn write(
        &mut self,
        objects: &ListedObjects<'_>,
        refs: &RefSnapshot,
        id: ObjectId,
        form: &DescribeForm,
        out: &mut Vec<u8>,
    ) -> Result<(), Fatal> {
        let Some(commit) = self.history.commit(id)? else { return Ok(()) };
        let number = self.search(objects, refs, &form.filter)?;
        let search = &mut self.searches[number].1;
        let Some(nearest) = search.nearest(&mut self.history, commit)? else { return Ok(()) };
        let Some(tag) = search.tags.get(&nearest.tagged) else { return Ok(()) };
        out.extend_from_slice(&tag.name);
        let is_plain = nearest.depth == 0 || form.abbreviation == Some(Digits::None);
        if is_plain && !tag.is_misnamed {
            return Ok(());
        }
        let (id, snapshot) = (self.history.id(commit), objects.snapshot()?);
        let digits = match form.abbreviation {
            None => snapshot.unique_digits(&id, snapshot.usual_digits(objects.repository.config())?)?,
            Some(Digits::None) => id.kind().len_in_hex(),
            Some(Digits::AtLeast(least)) => snapshot.unique_digits(&id, least.min(id.kind().len_in_hex()))?,
        };
        let hex = id.to_hex().to_string();
        write!(out, "-{}-g{}", nearest.depth, &hex[..digits]).expect("memory takes all");
        Ok(())
    }

    /// The number of the search among tags of a filter.
    fn search(
        &mut self,
        objects: &ListedObjects<'_>,
        refs: &RefSnapshot,
        filter: &TagFilter,
    ) -> Result<usize, Fatal> {
        if let Some(number) = self.searches.iter().position(|(other, _)| other == filter) {
            return Ok(number);
        }
        let search = TagSearch::new(&mut self.history, objects, refs, filter)?;
        self.searches.push((filter.clone(), search));
        Ok(self.searches.len() - 1)
    }
}

impl TagSearch {
    fn new(
        history: &mut LoadedHistory,
        objects: &ListedObjects<'_>,
        refs: &RefSnapshot,
        filter: &TagFilter,
    ) -> Result<Self, Fatal> {
        let mut found: Vec<(Vec<u8>, Option<ObjectId>)> = Vec::new();
        let null = ObjectId::null(objects.repository.hash_kind());
        let range = NameRange::of_prefix(TAGS);
        let visited = refs.visit_with_broken(&range, StoredId::from(&null), |record| {
            let name = record.name.strip_prefix(TAGS).unwrap_or_default();
            if filter.is_match(name) {
                let id = match record.target {
                    Target::Direct { id, .. } => Some(id.to_id()),
                    Target::Symbolic(_) => None,
                };
                found.push((name.to_vec(), id));
            }
            std::ops::ControlFlow::Continue(())
        });
        visited.map_err(Fatal::new)?;
        let mut search = TagSearch::default();
        let mut reader = objects.snapshot()?.reader(0);
        for (name, id) in found {
            let end = || refs.resolve(&[TAGS, &name].concat()).map_err(Fatal::new);
            let Some(id) = (if id.is_some() { id } else { end()?.map(|end| end.id) }) else { continue };
            // What is missing or damaged names nothing.
            let Ok(Some((kind, _))) = reader.kind_and_size(&id) else { continue };
            let tag = match kind {
                Kind::Tag => {
                    let Ok(object) = reader.read(&id) else { continue };
                    TagName::annotated(name, &object.data, objects)
                }
                _ if filter.has_light => {
                    Some(TagName { name, is_annotated: false, seconds: 0, is_misnamed: false })
                }
                _ => None,
            };
            if let Some(tag) = tag
                && let Ok(Some(commit)) = history.commit(id)
            {
                search.add(commit, tag);
            }
        }
        Ok(search)
    }

    /// Of several tags of a commit an annotated one counts, of those the newest, and then the first.
    fn add(&mut self, commit: CommitNo, tag: TagName) {
        let rank = |tag: &TagName| (tag.is_annotated, tag.seconds);
        if self.tags.get(&commit).is_none_or(|other| rank(&tag) > rank(other)) {
            self.tags.insert(commit, tag);
        }
    }

    /// The tag that describes a commit.
    fn nearest(&mut self, history: &mut LoadedHistory, commit: CommitNo) -> Result<Option<Nearest>, Fatal> {
        if self.tags.is_empty() {
            return Ok(None);
        }
        // What describes the only parent of a commit without a tag describes the commit.
        let mut path = Vec::new();
        let mut commit = commit;
        let below = loop {
            if let Some(known) = self.known.get(&commit) {
                break *known;
            }
            if self.tags.contains_key(&commit) {
                break Some(Nearest { tagged: commit, depth: 0, is_exact: true });
            }
            match *history.parents(commit)? {
                [] => break None,
                [parent] => {
                    path.push((commit, Vec::new()));
                    commit = parent;
                }
                [first, ref others @ ..] => {
                    path.push((commit, others.to_vec()));
                    commit = first;
                }
            }
        };
        self.known.insert(commit, below);
        let mut nearest = below;
        for (commit, others) in path.into_iter().rev() {
            nearest = match (nearest, others.as_slice()) {
                (found, []) => found.map(|found| Nearest { depth: found.depth + 1, ..found }),
                (found, others) => self.of_merge(history, commit, found, others)?,
            };
            self.known.insert(commit, nearest);
        }
        Ok(nearest)
    }

    /// Of a merge, from what describes its first parent: where the others bring no tag, what they add is above every tag that the
    /// first one reaches. Where dates are out of order, git counts otherwise, and the merge is walked from.
    fn of_merge(
        &mut self,
        history: &mut LoadedHistory,
        merge: CommitNo,
        below: Option<Nearest>,
        others: &[CommitNo],
    ) -> Result<Option<Nearest>, Fatal> {
        if below.is_none_or(|below| below.is_exact)
            && let Some(first) = history.parents(merge)?.first().copied()
        {
            let (added, is_ordered) = history.added(first, others)?;
            if !added.iter().any(|commit| self.tags.contains_key(commit)) && (is_ordered || below.is_none()) {
                return Ok(below.map(|below| Nearest { depth: below.depth + 1 + added.len(), ..below }));
            }
        }
        self.walk(history, merge)
    }

    /// Walks down from a commit, newest first, until it is clear which tag has fewest commits above it.
    fn walk(&mut self, history: &mut LoadedHistory, start: CommitNo) -> Result<Option<Nearest>, Fatal> {
        let mut walk = DescribeWalk::new(history, start)?;
        let mut candidates: Vec<Nearest> = Vec::new();
        let (mut visited, mut is_exact) = (0, true);
        while !walk.is_covered() {
            let Some(commit) = walk.next() else { break };
            if self.tags.contains_key(&commit) {
                if candidates.len() == MAX_CANDIDATES {
                    walk.push(history, commit, walk.marks(commit))?;
                    break;
                }
                walk.mark(commit, 1 << candidates.len());
                candidates.push(Nearest { tagged: commit, depth: visited, is_exact: true });
                walk.want((1 << candidates.len()) - 1);
            }
            visited += 1;
            is_exact &= history.is_newest(commit)?;
            for (number, candidate) in candidates.iter_mut().enumerate() {
                candidate.depth += usize::from(walk.marks(commit) & (1 << number) == 0);
            }
            walk.go_on(history, commit)?;
        }
        let best = candidates.iter().enumerate().min_by_key(|(_, candidate)| candidate.depth);
        let Some((number, best)) = best else {
            // Nothing below has a tag.
            self.known.extend(walk.seen.keys().map(|commit| (*commit, None)));
            return Ok(None);
        };
        let mut best = *best;
        let mark = 1 << number;
        walk.want(mark);
        while !walk.is_covered() {
            let Some(commit) = walk.next() else { break };
            best.depth += usize::from(walk.marks(commit) & mark == 0);
            is_exact &= history.is_newest(commit)?;
            walk.go_on(history, commit)?;
        }
        best.is_exact = is_exact;
        Ok(Some(best))
    }
}

impl TagName {
    /// The name that a tag object has for itself; `None` if it is damaged.
    fn annotated(name: Vec<u8>, data: &[u8], objects: &ListedObjects<'_>) -> Option<Self> {
        parse_tag(data, objects.repository.hash_kind()).ok()?;
        let own = header_line(data, "tag")?;
        let moment = header_line(data, "tagger").and_then(message::moment);
        let seconds = moment.map_or(0, |moment| moment.seconds);
        Some(TagName { is_misnamed: own != name, name: own.to_vec(), is_annotated: true, seconds })
    }
}

/// A walk by date; of commits of one date the first that was met comes first.
struct DescribeWalk {
    queue: BinaryHeap<(i64, Reverse<usize>, CommitNo)>,
    seen: HashMap<CommitNo, SeenCommit>,
    /// How many commits were queued.
    queued: usize,
    /// The candidates that are waited for, by their numbers.
    wanted: u16,
    /// How many commits in the queue are not reached by all of them.
    uncovered: usize,
}

#[derive(Clone, Copy, Default)]
struct SeenCommit {
    /// Which candidates reach it, by their numbers.
    marks: u16,
    is_queued: bool,
}

impl DescribeWalk {
    fn new(history: &mut LoadedHistory, start: CommitNo) -> Result<Self, Fatal> {
        let (queue, seen) = (BinaryHeap::new(), HashMap::new());
        let mut walk = DescribeWalk { queue, seen, queued: 0, wanted: 0, uncovered: 0 };
        walk.push(history, start, 0)?;
        Ok(walk)
    }

    /// Queues a commit that is not in the queue.
    fn push(&mut self, history: &mut LoadedHistory, commit: CommitNo, marks: u16) -> Result<(), Fatal> {
        self.queue.push((history.seconds(commit)?, Reverse(self.queued), commit));
        self.queued += 1;
        self.seen.insert(commit, SeenCommit { marks, is_queued: true });
        self.uncovered += usize::from(marks & self.wanted != self.wanted);
        Ok(())
    }

    fn next(&mut self) -> Option<CommitNo> {
        let (_, _, commit) = self.queue.pop()?;
        let seen = self.seen.get_mut(&commit)?;
        seen.is_queued = false;
        self.uncovered -= usize::from(seen.marks & self.wanted != self.wanted);
        Some(commit)
    }

    fn marks(&self, commit: CommitNo) -> u16 {
        self.seen.get(&commit).map_or(0, |seen| seen.marks)
    }

    /// Marks a commit that was seen.
    fn mark(&mut self, commit: CommitNo, marks: u16) {
        let seen = self.seen.entry(commit).or_default();
        let was_open = seen.is_queued && seen.marks & self.wanted != self.wanted;
        seen.marks |= marks;
        self.uncovered -= usize::from(was_open && seen.marks & self.wanted == self.wanted);
    }

    /// Sets what is waited for.
    fn want(&mut self, wanted: u16) {
        self.wanted = wanted;
        let open = |(_, _, commit): &(i64, Reverse<usize>, CommitNo)| self.marks(*commit) & wanted != wanted;
        self.uncovered = self.queue.iter().filter(|queued| open(queued)).count();
    }

    /// Queues the parents of a commit; its marks are theirs.
    fn go_on(&mut self, history: &mut LoadedHistory, commit: CommitNo) -> Result<(), Fatal> {
        let marks = self.marks(commit);
        for parent in history.parents(commit)?.to_vec() {
            match self.seen.contains_key(&parent) {
                true => self.mark(parent, marks),
                false => self.push(history, parent, marks)?,
            }
        }
        Ok(())
    }

    /// Whether all that is queued is reached by all candidates that are waited for, and there are some.
    fn is_covered(&self) -> bool {
        self.wanted != 0 && self.uncovered == 0
    }
}
