//! Objects that are read in place of others.

use std::borrow::Cow;

use packrace_object::oid;

use super::Snapshot;
use crate::error::Error;
use crate::objects::replacements::Replacements;

impl Snapshot {
    /// The object whose content counts as that of this one: itself, unless the repository was opened with
    /// [`OpenOptions::replace_refs`](crate::OpenOptions::replace_refs) and it is replaced.
    pub fn replacement<'a>(&self, id: &'a oid) -> Result<Cow<'a, oid>, Error> {
        match self.replacements() {
            Some(replacements) => replacements.last(id),
            None => Ok(Cow::Borrowed(id)),
        }
    }

    fn replacements(&self) -> Option<&Replacements> {
        self.shared.sources.replacements.as_deref()
    }

    /// Whether commits may have other parents than a commit-graph says. An error is reported when an object is read.
    pub(super) fn may_replace(&self) -> bool {
        self.replacements().is_some_and(|replacements| replacements.all().map_or(true, |all| !all.is_empty()))
    }
}
