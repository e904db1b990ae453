//! Finds index paths that may have changed.

use std::path::Path;

use packrace_object::ObjectId;
use packrace_store::OpenOptions;

use super::read::is_file_or_link;
use crate::index::{EntryKey, Index, IndexEntry, Kind, Mode, Seen, StatRules, look};
use crate::paths::{LeadingDirs, NestedHead, PathError, fault_of_nested, head_of_nested, path_of};

/// A path that may differ from its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// Relative to the top of the work tree.
    pub path: Vec<u8>,
    /// How it may differ.
    pub what: What,
}

/// How a path may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Nothing exists that could be added.
    Gone,
    /// The file must be read; if `looks_same`, only because its times are inconclusive.
    File {
        /// Whether the metadata matches the entry.
        looks_same: bool,
    },
    /// A repository with this commit checked out; `None` if it has no commit.
    Repository(Option<ObjectId>, Seen),
}

/// Compares files with their entries by metadata.
pub struct ChangeFinder<'a> {
    top: &'a Path,
    index: &'a Index,
    rules: StatRules,
    leading: LeadingDirs,
    options: &'a OpenOptions,
}

impl<'a> ChangeFinder<'a> {
    /// A finder for the work tree at `top`. Submodules are opened with `options`.
    pub fn new(top: &'a Path, index: &'a Index, rules: StatRules, options: &'a OpenOptions) -> Self {
        ChangeFinder { top, index, rules, leading: LeadingDirs::new(top), options }
    }

    /// The change of an entry; `None` if it looks unchanged, or must not be examined (assume-unchanged,
    /// skip-worktree).
    pub fn change(&mut self, key: &EntryKey, entry: &IndexEntry) -> Result<Option<PathChange>, PathError> {
        let path = key.path();
        let is_merged = key.stage() == 0;
        if entry.skip_worktree || is_merged && (entry.assume_valid || self.index.is_unchanged(path, entry)) {
            return Ok(None);
        }
        let place = self.top.join(path_of(path));
        let seen = match self.leading.are_real(path) {
            false => None,
            true => look(&place).map_err(|source| PathError::Io {
                what: format!("unable to stat '{}'", String::from_utf8_lossy(path)),
                source,
            })?,
        };
        let is_gitlink = entry.mode == Mode::Gitlink && is_merged;
        let what = match seen {
            None => What::Gone,
            Some(seen) if seen.kind == Kind::Dir => match head_of_nested(&place, self.options) {
                NestedHead::At(id) if is_gitlink && id == entry.id => return Ok(None),
                NestedHead::At(id) => What::Repository(Some(id), seen),
                NestedHead::None if is_gitlink => {
                    let fault = fault_of_nested(&place, path_of(path), self.options);
                    return fault.map_or(Ok(None), |fault| Err(PathError::Nested(fault)));
                }
                // A submodule without a commit.
                NestedHead::Unborn if is_gitlink => return Ok(None),
                NestedHead::Unborn => What::Repository(None, seen),
                NestedHead::None => What::Gone,
            },
            Some(seen) => {
                let looks_same = is_merged
                    && !entry.intent_to_add
                    && is_file_or_link(seen.kind)
                    && self.rules.matches(entry, &seen);
                if looks_same && !self.index.is_racy(entry) {
                    return Ok(None);
                }
                What::File { looks_same }
            }
        };
        Ok(Some(PathChange { path: path.to_vec(), what }))
    }
}
