//! Walks histories in which objects may be missing.

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MalformedObject, ObjectId, parse_commit, parse_tag};
use packrace_store::{ObjectReader, cache_bytes};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::{NameHash, Names};
use crate::progress::NoProgress;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::settings::Settings;
use crate::walk::trees::{OnMissing, TreeWalk};

/// Visits objects of every kind one by one, where some may be missing: the repository has a promisor remote,
/// or its objects were not checked for completeness.
pub(crate) struct LenientWalk<'a> {
    request_objects: &'a RequestObjects,
    reader: ObjectReader,
    /// Whether trees of packed commits are not visited.
    unpacked: bool,
    /// Where the walk ends: commits in it are marked, but not followed, and trees and blobs in it are left out.
    promised: Option<&'a Marks>,
}

impl<'a> LenientWalk<'a> {
    pub(crate) fn new(request_objects: &'a RequestObjects) -> Self {
        let reader = request_objects.snapshot().reader(cache_bytes::WHOLE_HISTORY);
        LenientWalk { request_objects, reader, unpacked: false, promised: None }
    }

    /// The same walk, which does not visit the trees of packed commits if `unpacked`.
    pub(crate) fn unpacked(self, unpacked: bool) -> Self {
        LenientWalk { unpacked, ..self }
    }

    /// The same walk, which marks commits in `promised`, but does not follow them, and leaves out trees and blobs in it.
    pub(crate) fn up_to(self, promised: Option<&'a Marks>) -> Self {
        LenientWalk { promised, ..self }
    }

    /// Marks what `tips` reach, without visiting `stop`; skips missing objects.
    pub(crate) fn reach(
        &mut self,
        tips: impl IntoIterator<Item = ObjectId>,
        stop: &Marks,
        seen: &Marks,
        names: &Names,
    ) -> Result<(), Error> {
        self.reach_until(tips, |ix| stop.contains(ix), seen, names)
    }

    /// The same, without visiting objects for which `stops` returns true.
    pub(crate) fn reach_until(
        &mut self,
        tips: impl IntoIterator<Item = ObjectId>,
        stops: impl Fn(ObjectNo) -> bool,
        seen: &Marks,
        names: &Names,
    ) -> Result<(), Error> {
        let request_objects = self.request_objects;
        let mut open = Vec::new();
        for tip in tips {
            let Some(ix) = request_objects.find(&tip)?.filter(|ix| !stops(*ix)) else { continue };
            if !self.leaves_out(ix)? && seen.insert(ix) {
                open.push(ix);
            }
        }
        let mut content = Vec::new();
        let mut next = Vec::new();
        while let Some(ix) = open.pop() {
            match self.kind(ix)? {
                Kind::Blob => continue,
                Kind::Commit if self.is_promised(ix) => continue,
                _ => {}
            }
            self.references(ix, &mut content, &mut next)?;
            for (id, name) in next.drain(..) {
                let Some(found) = request_objects.find(&id)? else { continue };
                if !stops(found) && !self.leaves_out(found)? && seen.insert(found) {
                    let name = name.map(|name: Vec<u8>| names.entry(names.get(ix), &name));
                    names.set(found, name.unwrap_or_default());
                    open.push(found);
                }
            }
        }
        Ok(())
    }

    fn is_promised(&self, ix: ObjectNo) -> bool {
        self.promised.is_some_and(|promised| promised.contains(ix))
    }

    fn leaves_out(&mut self, ix: ObjectNo) -> Result<bool, Error> {
        Ok(self.is_promised(ix) && matches!(self.kind(ix)?, Kind::Tree | Kind::Blob))
    }

    pub(crate) fn kind(&mut self, ix: ObjectNo) -> Result<Kind, Error> {
        self.request_objects.kind(&mut self.reader, ix)
    }

    /// Lists the objects that an object refers to; entries of trees with their names.
    pub(crate) fn references(
        &mut self,
        ix: ObjectNo,
        content: &mut Vec<u8>,
        next: &mut Vec<(ObjectId, Option<Vec<u8>>)>,
    ) -> Result<(), Error> {
        let hash = self.request_objects.hash();
        let malformed = |source: MalformedObject| {
            Error::from(Reason::Malformed { id: self.request_objects.id(ix), source })
        };
        match self.request_objects.read(&mut self.reader, ix, content)? {
            Kind::Commit => {
                let commit = parse_commit(content, hash).map_err(malformed)?;
                let is_visited = !self.unpacked || self.request_objects.packed(ix).is_none();
                next.extend(is_visited.then_some((commit.tree, None)));
                let id = self.request_objects.id(ix);
                if self.request_objects.snapshot().shallow()?.binary_search(&id).is_err() {
                    next.extend(commit.parents.into_iter().map(|parent| (parent, None)));
                }
            }
            Kind::Tag => next.push((parse_tag(content, hash).map_err(malformed)?.target, None)),
            Kind::Tree => {
                for entry in Entries::new(content, hash) {
                    let entry = entry.map_err(malformed)?;
                    if entry.kind() != EntryKind::Submodule {
                        next.push((entry.id.to_owned(), Some(entry.name.to_vec())));
                    }
                }
            }
            Kind::Blob => {}
        }
        Ok(())
    }

    /// The root trees of the commits in `wanted`, except those in `seen`; adds them to `seen`.
    pub(crate) fn root_trees(&mut self, wanted: &Marks, seen: &Marks) -> Result<Vec<ObjectNo>, Error> {
        let request_objects = self.request_objects;
        let mut content = Vec::new();
        let mut roots = Vec::new();
        for ix in wanted.members() {
            if request_objects.kind(&mut self.reader, ix)? != Kind::Commit {
                continue;
            }
            request_objects.read(&mut self.reader, ix, &mut content)?;
            let Ok(commit) = parse_commit(&content, request_objects.hash()) else { continue };
            roots.extend(request_objects.find(&commit.tree)?.filter(|tree| seen.insert(*tree)));
        }
        Ok(roots)
    }

    /// Names the objects of a set for the delta search, which finds little without names. Names are paths
    /// from the root trees of the set's commits, or else only the last path component. Reads each tree of the
    /// set once.
    pub(crate) fn name_by_trees(&mut self, wanted: &Marks, settings: &Settings) -> Result<Names, Error> {
        let request_objects = self.request_objects;
        // Objects outside the set count as seen, so they are not visited.
        let seen = wanted.complement();
        let roots = self.root_trees(wanted, &seen)?;
        let mut walk =
            TreeWalk::new(request_objects, settings.threads, &NoProgress).hashing(settings.name_hash);
        walk.mark_below(roots, &seen, OnMissing::Skip)?;
        let names = walk.into_names();
        let (mut content, mut next) = (Vec::new(), Vec::new());
        for ix in wanted.members() {
            if seen.contains(ix) || self.kind(ix)? != Kind::Tree {
                continue;
            }
            self.references(ix, &mut content, &mut next)?;
            for (id, name) in next.drain(..) {
                let (Some(found), Some(name)) = (request_objects.find(&id)?, name) else { continue };
                if wanted.contains(found) && names.get(found) == NameHash::default() {
                    names.set(found, NameHash::of_by(names.version(), &name));
                }
            }
        }
        Ok(names)
    }
}
