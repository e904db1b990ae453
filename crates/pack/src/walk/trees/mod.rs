//! Marks everything that a set of trees reaches.
//!
//! Trees are visited in rounds: the roots first, then the trees that a round found for the first time. A
//! round visits trees in pack order, so that a delta base was decoded shortly before its deltas, on several
//! threads, each with its own stretch of packs.
//!
//! A tree stored as a delta has few entries that its base lacks. If the base is marked, everything below it
//! is or will be marked, too, so only entries that touch inserted bytes need a look-up: a history of n trees
//! with m entries takes about n look-ups instead of n · m.

mod by_path;
mod decode;
mod differences;

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MalformedObject, oid};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::{NameHashVersion, Names};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
pub(crate) use by_path::PathWalk;
pub(crate) use decode::{Tree, TreeDecoder};
pub(crate) use differences::{Difference, Differences};

/// Below this many trees, a round does not use a second thread.
const TREES_WORTH_A_THREAD: usize = 256;

/// Trees read between two checks for cancellation.
const TREES_BETWEEN_LOOKS: usize = 512;

/// What to do about a missing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissing {
    /// Fail, because it must be sent.
    Fail,
    /// Skip it, because the receiver should have it.
    Skip,
}

/// Which objects of a response may be missing because the repository itself is a partial clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AllowedMissing {
    /// Blobs, because none are sent.
    pub(crate) blobs: bool,
    /// All objects, which are listed.
    pub(crate) listed: bool,
    /// Promised objects, because the client knows the promisor remote.
    pub(crate) promised: bool,
}

impl AllowedMissing {
    /// Whether this object may be missing; git knows the empty tree without storing it.
    pub(crate) fn allows(
        self,
        request_objects: &RequestObjects,
        id: &oid,
        kind: Kind,
        progress: &dyn ProgressSink,
    ) -> Result<bool, Error> {
        if kind == Kind::Tree && id.is_empty_tree() || kind == Kind::Blob && self.blobs {
            return Ok(true);
        }
        // A tree leads to others: as in git, one that will not be fetched ends the walk.
        if self.listed && (kind != Kind::Tree || request_objects.snapshot().fetches_on_read()) {
            request_objects.list_missing(id);
            return Ok(true);
        }
        if self.promised { request_objects.is_promised(id, progress) } else { Ok(false) }
    }
}

/// The kinds that trees claim for their entries, to find conflicts. An object claimed as a blob and as a tree
/// would be marked once and never visited.
#[derive(Debug)]
pub(crate) struct Kinds {
    trees: Marks,
    blobs: Marks,
}

impl Kinds {
    fn insert(&self, ix: ObjectNo, kind: Kind) {
        match kind {
            Kind::Tree => self.trees.insert(ix),
            _ => self.blobs.insert(ix),
        };
    }

    /// An object claimed as two kinds; `others` are neither trees nor blobs.
    fn conflict(&self, others: &Marks) -> Option<ObjectNo> {
        let (trees, blobs) = (&self.trees, &self.blobs);
        trees.common(blobs).or_else(|| trees.common(others)).or_else(|| blobs.common(others))
    }
}

/// Visits trees and marks what they reach.
pub(crate) struct TreeWalk<'a> {
    request_objects: &'a RequestObjects,
    progress: &'a dyn ProgressSink,
    decoders: Vec<TreeDecoder<'a>>,
    names: Names,
    marked: u64,
    allowed_missing: AllowedMissing,
    kinds: Option<Kinds>,
    /// The deepest tree that is visited; a root is at depth 0.
    max_depth: usize,
}

impl<'a> TreeWalk<'a> {
    pub(crate) fn new(
        request_objects: &'a RequestObjects,
        threads: usize,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let decoders = (0..threads.max(1)).map(|_| TreeDecoder::new(request_objects)).collect();
        let names = Names::new(request_objects.packed_end());
        let (allowed_missing, max_depth) = (AllowedMissing::default(), usize::MAX);
        TreeWalk {
            request_objects,
            progress,
            decoders,
            names,
            marked: 0,
            allowed_missing,
            kinds: None,
            max_depth,
        }
    }

    /// Fails at a deeper tree, as git does for pushed trees (`core.maxTreeDepth`).
    pub(crate) fn no_deeper_than(self, max_depth: usize) -> Self {
        TreeWalk { max_depth, ..self }
    }

    /// Records the kind that trees claim for each object: see [`TreeWalk::kind_conflict`].
    pub(crate) fn noting_kinds(self) -> Self {
        let marks = || Marks::new(self.request_objects.packed_end());
        let kinds = Some(Kinds { trees: marks(), blobs: marks() });
        TreeWalk { kinds, ..self }
    }

    /// An object that was claimed as two kinds, or as a tree or blob although it is in `others`.
    pub(crate) fn kind_conflict(&self, others: &Marks) -> Option<ObjectNo> {
        self.kinds.as_ref()?.conflict(others)
    }

    /// Records the kind of root trees.
    pub(crate) fn note_roots(&self, roots: &[ObjectNo]) {
        if let Some(kinds) = &self.kinds {
            roots.iter().for_each(|root| kinds.insert(*root, Kind::Tree));
        }
    }

    /// The number of objects marked so far.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// The same walk, for a response from a repository that may lack objects.
    pub(crate) fn allowed_missing(self, allowed_missing: AllowedMissing) -> Self {
        TreeWalk { allowed_missing, ..self }
    }

    /// Uses this version of the path hash.
    pub(crate) fn hashing(self, version: NameHashVersion) -> Self {
        TreeWalk { names: self.names.by(version), ..self }
    }

    /// Adds objects found elsewhere to the progress count.
    pub(crate) fn count_on(&mut self, found: u64) {
        self.marked += found;
    }

    pub(crate) fn request_objects(&self) -> &'a RequestObjects {
        self.request_objects
    }

    /// Whether an object may be missing.
    pub(crate) fn may_be_missing(&self, id: &oid, kind: Kind) -> Result<bool, Error> {
        self.allowed_missing.allows(self.request_objects, id, kind, self.progress)
    }

    /// The paths at which objects were first found.
    pub(crate) fn into_names(self) -> Names {
        self.names
    }

    /// Marks everything below `trees`; the caller must have marked these for the first time.
    pub(crate) fn mark_below(
        &mut self,
        mut trees: Vec<ObjectNo>,
        seen: &Marks,
        on_missing: OnMissing,
    ) -> Result<(), Error> {
        let mut depth = 0;
        while !trees.is_empty() {
            if depth > self.max_depth {
                return Err(Reason::DeepTree.into());
            }
            depth += 1;
            self.sort_as_stored(&mut trees);
            trees = self.round(&trees, seen, on_missing)?;
        }
        Ok(())
    }

    /// Sorts by pack and offset.
    fn sort_as_stored(&self, trees: &mut [ObjectNo]) {
        let request_objects = self.request_objects;
        trees.sort_by_cached_key(|&ix| match request_objects.packed(ix) {
            Some(packed) => {
                let at = request_objects.snapshot().locate(packed);
                (at.pack.0, at.offset)
            }
            None => (u32::MAX, u64::from(ix.0)),
        });
    }

    fn round(
        &mut self,
        trees: &[ObjectNo],
        seen: &Marks,
        on_missing: OnMissing,
    ) -> Result<Vec<ObjectNo>, Error> {
        let allowed_missing = self.allowed_missing;
        let threads = self.decoders.len().min(trees.len().div_ceil(TREES_WORTH_A_THREAD)).max(1);
        let stretch = trees.len().div_ceil(threads);
        let (request_objects, progress, names) = (self.request_objects, self.progress, &self.names);
        let visits: Vec<_> = trees
            .chunks(stretch)
            .zip(&mut self.decoders)
            .map(|(trees, decoder)| Visit {
                request_objects,
                progress,
                decoder,
                names,
                seen,
                on_missing,
                allowed_missing,
                kinds: self.kinds.as_ref(),
                next: Vec::new(),
                marked: 0,
                trees,
            })
            .collect();
        let done: Vec<Result<(Vec<ObjectNo>, u64), Error>> = std::thread::scope(|scope| {
            let mut visits = visits.into_iter();
            let mine = visits.next();
            let others: Vec<_> = visits.map(|visit| scope.spawn(move || visit.run())).collect();
            let mine = mine.map(Visit::run);
            let others = others.into_iter().map(|other| match other.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            mine.into_iter().chain(others).collect()
        });
        let mut next = Vec::new();
        for result in done {
            let (found, marked) = result?;
            self.marked += marked;
            next.extend(found);
        }
        progress.report(Phase::Enumerating, self.marked, 0);
        Ok(next)
    }
}

/// One thread's part of a round.
struct Visit<'a, 'b> {
    request_objects: &'a RequestObjects,
    progress: &'a dyn ProgressSink,
    decoder: &'b mut TreeDecoder<'a>,
    names: &'b Names,
    seen: &'b Marks,
    on_missing: OnMissing,
    allowed_missing: AllowedMissing,
    kinds: Option<&'b Kinds>,
    trees: &'b [ObjectNo],
    next: Vec<ObjectNo>,
    marked: u64,
}

impl Visit<'_, '_> {
    fn run(mut self) -> Result<(Vec<ObjectNo>, u64), Error> {
        for (count, &ix) in self.trees.iter().enumerate() {
            if count % TREES_BETWEEN_LOOKS == 0 && self.progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            let tree = match self.decoder.tree(ix) {
                Ok(tree) => tree,
                Err(_) if self.on_missing == OnMissing::Skip => continue,
                Err(error) => return Err(error),
            };
            let base_is_marked = tree.base.is_some_and(|base| match self.kinds {
                Some(kinds) => kinds.trees.contains(base),
                None => self.seen.contains(base),
            });
            if base_is_marked {
                for &at in &tree.fresh {
                    self.entry(ix, &tree, at as usize)?;
                }
            } else {
                for &at in &tree.starts[..tree.starts.len() - 1] {
                    self.entry(ix, &tree, at as usize)?;
                }
            }
        }
        Ok((self.next, self.marked))
    }

    fn entry(&mut self, ix: ObjectNo, tree: &Tree, at: usize) -> Result<(), Error> {
        let hash = self.request_objects.hash();
        let Some(Ok(entry)) = Entries::at(&tree.bytes, hash, at).next() else {
            let source = MalformedObject { what: "tree entry", at };
            return Err(Reason::Malformed { id: self.request_objects.id(ix), source }.into());
        };
        let kind = match entry.kind() {
            EntryKind::Submodule => return Ok(()),
            EntryKind::Tree => Kind::Tree,
            EntryKind::Blob => Kind::Blob,
        };
        let Some(found) = self.request_objects.find(entry.id)? else {
            if self.on_missing == OnMissing::Skip
                || self.allowed_missing.allows(self.request_objects, entry.id, kind, self.progress)?
            {
                return Ok(());
            }
            return Err(Reason::missing(entry.id.to_owned(), kind).into());
        };
        if let Some(kinds) = self.kinds {
            kinds.insert(found, kind);
        }
        if self.seen.insert(found) {
            self.marked += 1;
            self.names.set(found, self.names.entry(self.names.get(ix), entry.name));
            if kind == Kind::Tree {
                self.next.push(found);
            }
        }
        Ok(())
    }
}
