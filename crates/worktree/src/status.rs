//! The state of a work tree: differences between `HEAD`, the index and the files (git-status).

use std::collections::{BTreeMap, BTreeSet};

use packrace_object::ObjectId;
use packrace_os::trace;
use packrace_store::{OpenOptions, Repository};

use crate::difference::{Difference, between};
use crate::error::WorkError;
use crate::files::FileComparison;
use crate::index::{Index, Kind, Mode, StatRules};
use crate::paths::{Pathspecs, SpecDefaults, directories_above};
use crate::stash::StashSession;
use crate::untracked::UntrackedKind;

/// How a file differs from the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Its content or mode differs.
    Modified,
    /// The file does not exist.
    Deleted,
    /// Its type differs.
    TypeChanged,
    /// The entry is intent-to-add.
    New,
    /// A submodule with another commit.
    NewCommits,
}

/// The differences.
#[derive(Debug, Default)]
pub struct Status {
    /// Index changes since `HEAD`.
    pub staged: Vec<Difference>,
    /// File changes since the index.
    pub changed: Vec<(Vec<u8>, FileState)>,
    /// Paths with conflicts, and which of base, ours and theirs exist.
    pub unmerged: Vec<(Vec<u8>, [bool; 3])>,
    /// Untracked paths; a directory without tracked files ends in a slash and stands for its contents.
    pub untracked: Vec<Vec<u8>>,
    /// In a sparse checkout.
    pub presence: Option<Presence>,
}

/// The share of tracked files that a sparse checkout has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// In percent.
    Percent(usize),
    /// A sparse index does not say.
    Unknown,
}

/// Which untracked files to report (`status.showUntrackedFiles`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntrackedMode {
    /// None of them.
    No,
    /// Directories without tracked files stand for their contents.
    Normal,
    /// Each of them.
    All,
}

impl Status {
    /// Tells a trace how many paths there are.
    fn tell_numbers(&self) {
        if !trace::is_on() {
            return;
        }
        let staged = self.staged.iter().map(|difference| &difference.path);
        let changed: BTreeSet<_> = staged.chain(self.changed.iter().map(|(path, _)| path)).collect();
        trace::data("status", "count/changed", changed.len() + self.unmerged.len());
        trace::data("status", "count/untracked", self.untracked.len());
    }
}

impl StashSession<'_> {
    /// Computes the status.
    pub fn status(
        &mut self,
        repository: &Repository,
        head_tree: Option<&ObjectId>,
        rename_limit: Option<usize>,
        mode: UntrackedMode,
        options: &OpenOptions,
    ) -> Result<Status, WorkError> {
        let mut status = Status::default();
        let rules = StatRules::of(repository.config())?;
        let empty = self.objects().hash_kind().empty_tree();
        let index_tree = self.staged_tree()?;
        let objects = self.objects().clone();
        let trees = [head_tree.unwrap_or(&empty), &index_tree];
        let region = trace::region("status", "index");
        status.staged = between(repository, &objects, trees, rename_limit)?;
        drop(region);
        let region = trace::region("status", "worktrees");
        let mut unmerged: BTreeMap<Vec<u8>, [bool; 3]> = BTreeMap::new();
        let entries: Vec<_> = self.index().entries().map(|(key, entry)| (key.clone(), *entry)).collect();
        if repository.config().boolean("core.sparseCheckout")?.unwrap_or(false) {
            let skipped = entries.iter().filter(|(_, entry)| entry.skip_worktree).count();
            let percent = (100 * skipped).checked_div(entries.len());
            status.presence = match self.index().is_sparse() {
                true => Some(Presence::Unknown),
                false => percent.map(|percent| Presence::Percent(100 - percent)),
            };
        }
        for (key, entry) in entries {
            let path = key.path();
            if key.stage() > 0 {
                unmerged.entry(path.to_vec()).or_default()[usize::from(key.stage()) - 1] = true;
                continue;
            }
            let state = match self.compare(path, &entry)? {
                FileComparison::Same | FileComparison::Touched(_) => continue,
                FileComparison::Gone => FileState::Deleted,
                FileComparison::Changed(_) if entry.intent_to_add => FileState::New,
                FileComparison::Changed(seen) if entry.mode == Mode::Gitlink && seen.kind == Kind::Dir => {
                    FileState::NewCommits
                }
                // Without links, a file stands for one.
                FileComparison::Changed(seen) => {
                    match (entry.mode, rules.mode(seen.kind, Some(entry.mode))) {
                        (old, Some(new)) if old == new || (old.is_file() && new.is_file()) => {
                            FileState::Modified
                        }
                        _ => FileState::TypeChanged,
                    }
                }
            };
            status.changed.push((path.to_vec(), state));
        }
        status.staged.retain(|difference| !unmerged.contains_key(&difference.path));
        status.unmerged = unmerged.into_iter().collect();
        drop(region);
        if mode != UntrackedMode::No {
            status.untracked = self.untracked_parts(mode, options)?;
        }
        status.tell_numbers();
        Ok(status)
    }

    /// Untracked files, or what stands for them.
    fn untracked_parts(
        &mut self,
        mode: UntrackedMode,
        options: &OpenOptions,
    ) -> Result<Vec<Vec<u8>>, WorkError> {
        let _region = trace::region("status", "untracked");
        let top = Vec::new();
        let mut specs = Pathspecs::parse(&[], b"", &top, SpecDefaults::default())?;
        let mut shown = BTreeSet::new();
        for untracked in self.untracked(&mut specs, false, options)? {
            let mut path = untracked.path;
            if let UntrackedKind::Repository(_) = untracked.found {
                path.push(b'/');
            }
            shown.insert(match mode {
                UntrackedMode::All => path,
                _ => unknown_part(self.index(), path),
            });
        }
        Ok(shown.into_iter().collect())
    }
}

/// The first parent directory that the index does not contain, with a trailing slash; else the path.
fn unknown_part(index: &Index, path: Vec<u8>) -> Vec<u8> {
    let unknown = directories_above(&path).find(|directory| !index.contains_dir(directory));
    unknown.map(|directory| [directory, b"/"].concat()).unwrap_or(path)
}
