//! Objects that are read in place of others (git-replace).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use packrace_object::{ObjectId, oid};

use super::snapshot::Snapshot;
use crate::error::{Error, Reason};

/// Longest chain of objects that replace each other, as in git.
const MAX_DEPTH: usize = 5;

/// What replaces each object.
pub(crate) type Replaced = HashMap<ObjectId, ObjectId>;

/// The replaced objects of a repository, which are read when the first object is.
pub(crate) struct Replacements {
    read: Box<dyn Fn() -> Result<Replaced, Error> + Send + Sync>,
    known: OnceLock<Replaced>,
}

impl fmt::Debug for Replacements {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Replacements").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Replacements {
    /// Those that `read` gives.
    pub(crate) fn new(read: impl Fn() -> Result<Replaced, Error> + Send + Sync + 'static) -> Self {
        Replacements { read: Box::new(read), known: OnceLock::new() }
    }

    fn all(&self) -> Result<&Replaced, Error> {
        match self.known.get() {
            Some(known) => Ok(known),
            None => {
                let read = (self.read)()?;
                Ok(self.known.get_or_init(|| read))
            }
        }
    }

    fn last<'a>(&self, id: &'a oid) -> Result<Cow<'a, oid>, Error> {
        let all = self.all()?;
        let mut last = Cow::Borrowed(id);
        for _ in 0..=MAX_DEPTH {
            match all.get(&*last) {
                Some(next) => last = Cow::Owned(*next),
                None => return Ok(last),
            }
        }
        Err(Reason::Damaged(format!("replace depth too high for object {id}")).into())
    }
}

impl Snapshot {
    /// The object whose content counts as that of this one: itself, unless the repository was opened with
    /// [`OpenOptions::replace_refs`](crate::OpenOptions::replace_refs) and it is replaced.
    pub fn replacement<'a>(&self, id: &'a oid) -> Result<Cow<'a, oid>, Error> {
        match self.replacements() {
            Some(replacements) => replacements.last(id),
            None => Ok(Cow::Borrowed(id)),
        }
    }

    /// Whether commits may have other parents than a commit-graph says. An error is reported when an object is read.
    pub(super) fn may_replace(&self) -> bool {
        self.replacements().is_some_and(|replacements| replacements.all().map_or(true, |all| !all.is_empty()))
    }
}
