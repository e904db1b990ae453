//! Finds the paths that `add` applies to: possibly changed, new, and ignored paths.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_os::count::{Op, Role, add};
use packrace_store::cache_bytes;
use packrace_worktree::filter::nothing_staged;
use packrace_worktree::index::{EntryKey, Index, IndexEntry, Mode, look};
use packrace_worktree::paths::{IgnoreRules, LeadingDirs, Spec, directories_above};
use packrace_worktree::stage::{ChangeFinder, PathChange};
use packrace_worktree::untracked::{Untracked, Walk};

use super::{AddCommand, Fatal, report};

/// The paths that the arguments match, in path order.
pub(super) struct MatchedPaths {
    pub(super) changes: Vec<PathChange>,
    /// Entries whose files are as they say.
    pub(super) same: Vec<EntryKey>,
    pub(super) untracked: Vec<Untracked>,
    pub(super) ignored: Vec<Vec<u8>>,
}

impl AddCommand<'_> {
    /// Refuses pathspecs inside submodules or beyond symbolic links.
    pub(super) fn check_specs(&self, index: &Index) -> Result<(), Fatal> {
        let submodules: HashSet<&[u8]> = index
            .entries()
            .filter(|(_, entry)| entry.mode == Mode::Gitlink)
            .map(|(key, _)| key.path())
            .collect();
        if let Some(submodule) = directories_above(&self.tree.prefix).find(|dir| submodules.contains(dir)) {
            let submodule = String::from_utf8_lossy(submodule);
            return Err(Fatal::new(format!("in unpopulated submodule '{submodule}'")));
        }
        let mut leading = LeadingDirs::new(&self.tree.place);
        for (spec, _) in self.specs.iter() {
            let path = spec.path();
            let shown = String::from_utf8_lossy(&spec.original);
            let mut above = directories_above(path.strip_suffix(b"/").unwrap_or(path));
            if let Some(submodule) = above.find(|directory| submodules.contains(directory)) {
                let submodule = String::from_utf8_lossy(submodule);
                return Err(Fatal::new(format!("Pathspec '{shown}' is in submodule '{submodule}'")));
            }
            if spec.is_one_path() && leading.has_link(path) {
                return Err(Fatal::new(format!("pathspec '{shown}' is beyond a symbolic link")));
            }
        }
        Ok(())
    }

    /// Finds all matching paths; fails if a pathspec matches nothing.
    pub(super) fn find(&mut self, index: &Index) -> Result<MatchedPaths, Fatal> {
        let mut rules = match self.args.force {
            true => None,
            false => Some(IgnoreRules::open(&self.repository, &self.tree.place, &mut self.messages)?),
        };
        let untracked = match self.args.update || self.args.renormalize {
            true => Vec::new(),
            false => self.walk(index, rules.as_mut())?,
        };
        let (changes, same) = self.changes(index)?;
        let named = !self.args.update && !self.args.renormalize;
        let ignored = match &mut rules {
            Some(rules) if named => self.ignored(index, rules)?,
            _ => BTreeSet::new(),
        };
        let mut ignored: Vec<Vec<u8>> = ignored.into_iter().collect();
        self.check_met(index, rules.as_mut(), &mut ignored)?;
        Ok(MatchedPaths { changes, same, untracked, ignored })
    }

    fn walk(&mut self, index: &Index, rules: Option<&mut IgnoreRules>) -> Result<Vec<Untracked>, Fatal> {
        let reader = self.snapshot.reader(cache_bytes::FEW_OBJECTS);
        let mut walk = Walk::new(
            &self.tree.place,
            index,
            rules,
            &mut self.specs,
            reader,
            &self.options,
            &mut self.messages,
        );
        walk.belongs_to(self.repository.git_dir());
        if self.repository.config().boolean("core.ignoreCase")?.unwrap_or(false) {
            walk.fold_case();
        }
        Ok(walk.run()?)
    }

    /// Entries that may differ from their files, and others that do not. Empty with `--renormalize`, which converts all entries.
    fn changes(&mut self, index: &Index) -> Result<(Vec<PathChange>, Vec<EntryKey>), Fatal> {
        let mut look = ChangeFinder::new(&self.tree.place, index, self.rules, &self.options);
        let (mut changes, mut same): (Vec<PathChange>, Vec<EntryKey>) = (Vec::new(), Vec::new());
        for (key, entry) in index.entries() {
            let is_dir = entry.mode == Mode::Gitlink;
            let is_meant = match self.is_left_out(key, entry) {
                true => self.args.sparse && self.specs.is_meant(key.path(), is_dir),
                false => self.specs.meet_entry(key.path(), is_dir),
            };
            if !is_meant
                || self.args.renormalize
                || changes.last().is_some_and(|last| last.path == key.path())
            {
                continue;
            }
            match look.change(key, entry)? {
                Some(change) => changes.push(change),
                None if entry.skip_worktree || entry.assume_valid || is_dir => {}
                None => same.push(key.clone()),
            }
        }
        Ok((changes, same))
    }

    /// Whether a path is outside the sparse checkout.
    pub(super) fn is_left_out(&self, key: &EntryKey, entry: &IndexEntry) -> bool {
        entry.skip_worktree || self.is_outside(key.path())
    }

    /// The same, ignoring the index.
    pub(super) fn is_outside(&self, path: &[u8]) -> bool {
        self.sparse.as_ref().is_some_and(|sparse| !sparse.contains(path))
    }

    /// Explicitly named paths that are ignored, or their topmost ignored directories.
    fn ignored(&mut self, index: &Index, rules: &mut IgnoreRules) -> Result<BTreeSet<Vec<u8>>, Fatal> {
        let mut found = BTreeSet::new();
        let specs: Vec<&Spec> = self.specs.iter().map(|(spec, _)| spec).collect();
        for spec in specs {
            let path = spec.path().strip_suffix(b"/").unwrap_or(spec.path());
            if !spec.is_one_path() || spec.is_excluding() || path.is_empty() {
                continue;
            }
            if let Some(ignored) = self.first_ignored(path, rules, &mut Vec::new())?
                && index.stages(&ignored).next().is_none()
                && self.is_there(&ignored)
            {
                found.insert(ignored);
            }
        }
        Ok(found)
    }

    /// The first ignored path among the parent directories, from the top, and the path itself.
    fn first_ignored(
        &self,
        path: &[u8],
        rules: &mut IgnoreRules,
        messages: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, Fatal> {
        let mut reader = self.snapshot.reader(cache_bytes::FEW_OBJECTS);
        for name in directories_above(path).chain([path]) {
            let is_dir = name.len() < path.len()
                || look(&self.place_of(name)).is_ok_and(|found| {
                    found.is_some_and(|found| found.kind == packrace_worktree::index::Kind::Dir)
                });
            if name.ends_with(b"/.git") || name == b".git" {
                return Ok(None);
            }
            if rules.is_ignored(name, is_dir, &nothing_staged, &mut reader, messages)? {
                return Ok(Some(name.to_vec()));
            }
        }
        Ok(None)
    }

    /// Each pathspec must match an existing path.
    fn check_met(
        &mut self,
        index: &Index,
        mut rules: Option<&mut IgnoreRules>,
        ignored: &mut Vec<Vec<u8>>,
    ) -> Result<(), Fatal> {
        let mut skipped = Vec::new();
        let unmet = self.specs.iter().filter(|(spec, is_met)| !is_met && !spec.is_excluding());
        for (spec, _) in unmet.filter(|(spec, _)| !spec.original.is_empty()) {
            if !self.args.sparse && self.is_for_left_out(index, spec) {
                skipped.push(spec.original.clone());
                continue;
            }
            if spec.path().is_empty() || !spec.is_never_a_name() && self.is_there(spec.path()) {
                continue;
            }
            if !self.args.ignore_missing {
                let shown = String::from_utf8_lossy(&spec.original);
                return Err(Fatal::new(format!("pathspec '{shown}' did not match any files")));
            }
            if let Some(rules) = &mut rules {
                let path = spec.path().strip_suffix(b"/").unwrap_or(spec.path());
                if self.first_ignored(path, rules, &mut Vec::new())?.is_some() {
                    ignored.push(path.to_vec());
                }
            }
        }
        if !skipped.is_empty() {
            report::outside_of_sparse(self.call, &skipped, self.repository.config())?;
            self.code = 1;
        }
        Ok(())
    }

    /// Whether a pathspec matches entries outside the sparse checkout.
    pub(super) fn is_for_left_out(&self, index: &Index, spec: &Spec) -> bool {
        let left_out = index.entries().filter(|(key, entry)| self.is_left_out(key, entry));
        let mut left_out = left_out.map(|(key, entry)| (key.path(), entry.mode == Mode::Gitlink));
        left_out.any(|(path, is_dir)| self.specs.matches(spec, path, is_dir))
    }

    pub(super) fn is_there(&self, path: &[u8]) -> bool {
        add(Role::WorkTree, Op::Look, 0);
        std::fs::symlink_metadata(self.place_of(path)).is_ok()
    }

    pub(super) fn place_of(&self, path: &[u8]) -> std::path::PathBuf {
        self.tree.place.join(Path::new(std::ffi::OsStr::from_bytes(path)))
    }
}
