//! Objects that are read in place of others (git-replace).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use packrace_object::{ObjectId, oid};

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

    /// All of them.
    pub(super) fn all(&self) -> Result<&Replaced, Error> {
        match self.known.get() {
            Some(known) => Ok(known),
            None => {
                let read = (self.read)()?;
                Ok(self.known.get_or_init(|| read))
            }
        }
    }

    /// The object at the end of the chain that begins with `id`.
    pub(super) fn last<'a>(&self, id: &'a oid) -> Result<Cow<'a, oid>, Error> {
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
