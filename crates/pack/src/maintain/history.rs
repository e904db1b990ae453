//! Commits read from their objects, for files that readers trust.

use std::collections::HashSet;

use packrace_object::{Commit, Kind, MAX_TAG_DEPTH, ObjectId, parse_commit, parse_tag};
use packrace_store::{ObjectReader, cache_bytes};

use crate::error::{Error, ErrorKind, Reason};
use crate::request_objects::RequestObjects;

/// Reads commits from their objects, never from a commit-graph, whose damage would spread to the new one.
pub(super) struct CommitReader<'a> {
    request_objects: &'a RequestObjects,
    reader: ObjectReader,
}

impl<'a> CommitReader<'a> {
    pub(super) fn new(request_objects: &'a RequestObjects) -> Self {
        CommitReader {
            request_objects,
            reader: request_objects.snapshot().reader(cache_bytes::WHOLE_HISTORY),
        }
    }

    /// The kind of an object, if it exists.
    pub(super) fn kind(&mut self, id: &ObjectId) -> Result<Option<Kind>, Error> {
        Ok(self.reader.kind_and_size(id)?.map(|(kind, _)| kind))
    }

    /// The commit that `id` peels to; `None` if it peels to another kind, or to what is missing.
    pub(super) fn peel(&mut self, id: ObjectId) -> Result<Option<ObjectId>, Error> {
        match self.peel_to_any(id) {
            Ok((peeled, kind)) => Ok((kind == Kind::Commit).then_some(peeled)),
            Err(error) if error.is_missing_target() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object that `id` peels to.
    pub(super) fn peel_to_any(&mut self, id: ObjectId) -> Result<(ObjectId, Kind), Error> {
        let mut at = id;
        for _ in 0..MAX_TAG_DEPTH {
            let absent = if at == id { Reason::Missing(at) } else { Reason::MissingTarget(at) };
            let kind = self.kind(&at)?.ok_or(absent)?;
            if kind != Kind::Tag {
                return Ok((at, kind));
            }
            let tag = self.reader.read(&at)?;
            let tag = parse_tag(&tag.data, self.request_objects.hash());
            at = tag.map_err(|source| Reason::Malformed { id: at, source })?.target;
        }
        Err(Reason::DeepTags(id).into())
    }

    /// Reads a commit.
    pub(super) fn commit(&mut self, id: &ObjectId) -> Result<Commit, Error> {
        let object = self.reader.read(id)?;
        if object.kind != Kind::Commit {
            return Err(Reason::WrongKind { id: *id, is: object.kind, expected: Kind::Commit }.into());
        }
        let commit = parse_commit(&object.data, self.request_objects.hash());
        commit.map_err(|source| Reason::Malformed { id: *id, source }.into())
    }

    /// Visits every commit that `tips` reach, except those that are `is_known` and what only those reach.
    pub(super) fn closure(
        &mut self,
        tips: Vec<ObjectId>,
        is_known: impl Fn(&ObjectId) -> bool,
        mut visit: impl FnMut(ObjectId, Commit),
    ) -> Result<(), Error> {
        let mut seen = HashSet::new();
        let mut open = tips;
        while let Some(id) = open.pop() {
            if is_known(&id) || !seen.insert(id) {
                continue;
            }
            let commit = match self.commit(&id) {
                Err(error) if error.kind() == ErrorKind::Corrupt && error.in_git_words().is_none() => {
                    match self.kind(&id)? {
                        None => tracing::error!("Could not read {id}"),
                        Some(_) => tracing::error!("{error}"),
                    }
                    return Err(Reason::UnparsableCommit(id).into());
                }
                commit => commit?,
            };
            open.extend(commit.parents.iter().filter(|parent| !seen.contains(*parent)));
            visit(id, commit);
        }
        Ok(())
    }
}
