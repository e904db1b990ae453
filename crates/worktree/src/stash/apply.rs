use std::collections::BTreeSet;

use gix_object::bstr::{BString, ByteSlice as _};
use packrace_object::Kind;
use packrace_os::trace;
use packrace_store::cache_bytes;

use super::patch::{self, Misfit, PatchFailed};
use super::{Stash, StashSession};
use crate::difference::CONTEXT_LINES;
use crate::error::WorkError;
use crate::index::{IndexEntry, TreeError};
use crate::listing::{Listing, TreeItem, list};
use crate::merge::{Merged, Names, merge};
use crate::paths::{IgnoreRules, directories_above};
use crate::switch::{self, Blocked};

const NOT_UNSTASHED: &str = "Index was not unstashed.";

/// Whether to restore the index too (`--index`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexMode {
    /// Only new files are staged.
    Left,
    /// The index is restored, or nothing changes.
    Restored,
}

/// A path of the index after the staged changes of a stash.
enum Restaged {
    Item(TreeItem),
    Deleted,
    Failed(PatchFailed),
}

/// The result of applying a stash, and its messages.
#[derive(Debug, Default)]
pub struct Applied {
    /// Everything was applied.
    pub is_whole: bool,
    /// The index has conflicts now.
    pub has_conflicts: bool,
    /// Staged changes were restored.
    pub has_index: bool,
    /// Git would print the status afterwards.
    pub shows_status: bool,
    /// Lines for standard output.
    pub output: Vec<String>,
    /// What the merge says, for standard output, too, unless the user wants it quiet.
    pub merge_lines: Vec<String>,
    /// Lines for standard error.
    pub errors: Vec<String>,
}

impl Applied {
    fn refused(errors: Vec<String>) -> Self {
        Applied { errors, ..Applied::default() }
    }

    fn without_tree(error: &TreeError) -> Self {
        let in_a_merge = "error: cannot apply a stash in the middle of a merge".to_owned();
        Applied::refused(vec![format!("error: {error}"), in_a_merge])
    }
}

impl StashSession<'_> {
    /// Applies a stash. The index has been refreshed and has no conflicts.
    pub fn apply(&mut self, stash: &Stash, mode: IndexMode, names: &Names) -> Result<Applied, WorkError> {
        let now_tree = match self.index().make_tree(&*self.objects) {
            Err(error @ TreeError::Missing { .. }) => return Ok(Applied::without_tree(&error)),
            made => made?,
        };
        let now = self.staged();
        let has_staged = mode == IndexMode::Restored
            && stash.index_tree != stash.base_tree
            && stash.index_tree != now_tree;
        let restaged = match has_staged {
            false => None,
            true => match self.restaged(stash, &now)? {
                Ok(restaged) => Some(restaged),
                Err(PatchFailed(mut errors)) => {
                    errors.push("error: conflicts in index. Try without --index.".to_owned());
                    return Ok(Applied::refused(errors));
                }
            },
        };
        let trees = [&stash.base_tree, &now_tree, &stash.tree];
        let Some(merged) = merge(self.repository, &self.objects, trees, names)? else {
            return Ok(Applied { shows_status: true, ..Applied::default() });
        };
        let mut applied = Applied { is_whole: true, shows_status: true, ..Applied::default() };
        if stash.base_tree == stash.tree {
            applied.output.push("Already up to date.".to_owned());
        }
        let region = trace::region("merge", "checkout");
        let switched = self.switch(&now, &merged.files)?;
        drop(region);
        if let Err(blocked) = switched {
            applied.is_whole = false;
            applied.errors.push(blocked.message("merge", "merge").trim_end().to_owned());
            if mode == IndexMode::Restored {
                applied.errors.push(NOT_UNSTASHED.to_owned());
            }
            return Ok(applied);
        }
        applied.merge_lines.extend(merged.messages.iter().cloned());
        match merged.conflicts.is_empty() {
            false => {
                self.write_skipped_conflicts(&merged)?;
                self.stage_conflicts(&merged);
                (applied.is_whole, applied.has_conflicts) = (false, true);
                if mode == IndexMode::Restored {
                    applied.errors.push(NOT_UNSTASHED.to_owned());
                }
            }
            true => {
                if restaged.is_none() {
                    self.write_skipped(&now)?;
                }
                applied.has_index = restaged.is_some();
                let target = restaged.unwrap_or_else(|| with_new_files(&now, &merged.files));
                self.stage(&target);
                if applied.has_index {
                    // As in git, a new file that is staged may be left out.
                    self.follow_sparse_checkout_in(&|path| !now.contains_key(path))?;
                }
            }
        }
        self.bring_back_untracked(stash, &mut applied)?;
        self.keep_staged_objects()?;
        Ok(applied)
    }

    fn bring_back_untracked(&mut self, stash: &Stash, applied: &mut Applied) -> Result<(), WorkError> {
        let Some(untracked) = &stash.untracked_tree else { return Ok(()) };
        let problems = self.bring_back(&list(&self.objects, untracked)?)?;
        if !problems.is_empty() {
            applied.is_whole = false;
            applied.errors.extend(problems);
            applied.errors.push("error: could not restore untracked files from stash".to_owned());
        }
        Ok(())
    }

    /// Switches index and work tree between two lists of files. Ignored files may be overwritten.
    pub fn switch(&mut self, from: &Listing, to: &Listing) -> Result<Result<(), Blocked>, WorkError> {
        let mut messages = Vec::new();
        let mut rules = IgnoreRules::open(self.repository, self.files.tree.top(), &mut messages)?;
        let mut reader = self.snapshot.reader(cache_bytes::FEW_OBJECTS);
        let mut is_ignored = |path: &[u8]| {
            Ok(rules.is_ignored(path, false, &crate::filter::nothing_staged, &mut reader, &mut Vec::new())?)
        };
        switch::switch(self.lock.index_mut(), &mut self.files, from, to, &mut is_ignored)
    }

    /// Applies the stash's staged changes to the index.
    fn restaged(&self, stash: &Stash, now: &Listing) -> Result<Result<Listing, PatchFailed>, WorkError> {
        let (base, staged) =
            (list(&self.objects, &stash.base_tree)?, list(&self.objects, &stash.index_tree)?);
        let paths: BTreeSet<&BString> = base.keys().chain(staged.keys()).collect();
        let mut result = now.clone();
        let mut problems = Vec::new();
        for path in paths {
            let (old, new, here) = (base.get(path), staged.get(path), now.get(path));
            if old == new {
                continue;
            }
            match self.restaged_path(&path.to_str_lossy(), old, new, here)? {
                Restaged::Item(item) => {
                    result.insert(path.clone(), item);
                }
                Restaged::Deleted => {
                    result.remove(path);
                }
                Restaged::Failed(failed) => problems.extend(failed.0),
            }
        }
        Ok(if problems.is_empty() { Ok(result) } else { Err(PatchFailed(problems)) })
    }

    /// Applies the staged changes of one path.
    fn restaged_path(
        &self,
        path: &str,
        old: Option<&TreeItem>,
        new: Option<&TreeItem>,
        here: Option<&TreeItem>,
    ) -> Result<Restaged, WorkError> {
        let failed = |misfit| Ok(Restaged::Failed(patch::does_not_apply(path, misfit)));
        if here == old {
            return Ok(new.map_or(Restaged::Deleted, |new| Restaged::Item(*new)));
        }
        let (Some(old), Some(here)) = (old, here) else {
            let what = if old.is_none() { "already exists" } else { "does not exist" };
            let error = format!("error: {path}: {what} in index");
            return Ok(Restaged::Failed(PatchFailed(vec![error])));
        };
        let read = |item: &TreeItem| self.objects.read_as(&item.id, Kind::Blob);
        let Some(new) = new else {
            return match old.id == here.id {
                true => Ok(Restaged::Deleted),
                false => failed(Misfit(1)),
            };
        };
        if ![old, new, here].iter().all(|item| item.mode.is_file()) {
            return failed(Misfit(1));
        }
        match patch::apply(&read(old)?, &read(new)?, &read(here)?, CONTEXT_LINES) {
            Ok(content) => {
                let mode = if old.mode == new.mode { here.mode } else { new.mode };
                Ok(Restaged::Item(TreeItem { mode, id: self.objects.make(Kind::Blob, content)? }))
            }
            Err(misfit) => failed(misfit),
        }
    }

    /// Writes conflicting files that a sparse checkout leaves out.
    fn write_skipped_conflicts(&mut self, merged: &Merged) -> Result<(), WorkError> {
        for path in merged.conflicts.keys() {
            let is_skipped = self.index().get(path, 0).is_some_and(|entry| entry.skip_worktree);
            if let (true, Some(item)) = (is_skipped, merged.files.get(path)) {
                self.lock.index_mut().set_flags(path, |entry| entry.skip_worktree = false);
                switch::check_out(self.lock.index_mut(), &mut self.files, path, item)?;
            }
        }
        Ok(())
    }

    /// Adds the sides of conflicts to the index.
    fn stage_conflicts(&mut self, merged: &Merged) {
        let _region = trace::region("merge", "record_conflicted");
        let index = self.lock.index_mut();
        for (path, stages) in &merged.conflicts {
            index.remove(path);
            for (number, item) in stages.iter().enumerate() {
                if let Some(item) = item {
                    index.insert(path, number as u8 + 1, IndexEntry::new(item.id, item.mode));
                }
            }
        }
        index.clear_resolve_undo();
    }

    /// Writes changed files that a sparse checkout leaves out: only the work tree keeps their changes.
    fn write_skipped(&mut self, now: &Listing) -> Result<(), WorkError> {
        let entries = self.index().entries().filter(|(_, entry)| entry.skip_worktree);
        let items = entries.map(|(key, entry)| (BString::from(key.path()), TreeItem::of(entry)));
        let changed: Vec<(BString, TreeItem)> =
            items.filter(|(path, item)| now.get(path) != Some(item)).collect();
        for (path, item) in changed {
            self.lock.index_mut().set_flags(&path, |entry| entry.skip_worktree = false);
            switch::check_out(self.lock.index_mut(), &mut self.files, &path, &item)?;
        }
        Ok(())
    }

    /// Makes the index equal to `target`, without changing the work tree.
    fn stage(&mut self, target: &Listing) {
        let index = self.lock.index_mut();
        let gone = |path: &[u8]| !target.contains_key(path);
        let paths: Vec<Vec<u8>> = index.entries().map(|(key, _)| key.path().to_vec()).collect();
        for path in paths {
            let is_meant = index.get(&path, 0).is_some_and(|entry| entry.intent_to_add);
            if gone(&path) && !is_meant {
                index.remove(&path);
            }
        }
        for (path, item) in target {
            let before = index.get(path, 0).copied();
            if before.as_ref().map(TreeItem::of).as_ref() != Some(item) {
                let skip_worktree = before.is_some_and(|before| before.skip_worktree);
                index.insert(path, 0, IndexEntry { skip_worktree, ..IndexEntry::new(item.id, item.mode) });
            }
        }
    }

    /// Restores untracked files. Overwrites nothing.
    fn bring_back(&mut self, untracked: &Listing) -> Result<Vec<String>, WorkError> {
        self.objects.prefetch(untracked.values().filter_map(TreeItem::blob))?;
        let mut problems = Vec::new();
        for (path, item) in untracked {
            let shown = path.to_str_lossy();
            let blocking =
                directories_above(path).try_fold((), |(), directory| match self.files.tree.look(directory) {
                    Ok(Some(seen)) if seen.kind != crate::index::Kind::Dir => Err(Ok(directory.to_vec())),
                    Ok(_) => Ok(()),
                    Err(error) => Err(Err(error)),
                });
            match blocking {
                Err(Err(error)) => return Err(error),
                Err(Ok(directory)) => {
                    let directory = String::from_utf8_lossy(&directory);
                    problems.push(format!("fatal: cannot create directory at '{directory}': File exists"));
                    // As in git, stop here.
                    break;
                }
                Ok(()) => {}
            }
            match self.files.tree.look(path)? {
                Some(_) => problems.push(format!("{shown} already exists, no checkout")),
                None => {
                    self.files.check_out(self.lock.index(), path, item)?;
                }
            }
        }
        Ok(problems)
    }

    /// Stores the objects that the index names.
    fn keep_staged_objects(&self) -> Result<(), WorkError> {
        let batch = self.batch()?;
        let mut is_new = false;
        for (_, entry) in self.index().entries() {
            if let Some(object) = self.objects.take_made(&entry.id) {
                batch.add(&entry.id, object.kind, &object.data)?;
                is_new = true;
            }
        }
        if is_new {
            batch.publish()?;
        }
        Ok(())
    }
}

/// The staged files, and files that the merge added.
fn with_new_files(now: &Listing, merged: &Listing) -> Listing {
    let mut target = now.clone();
    for (path, item) in merged {
        target.entry(path.clone()).or_insert(*item);
    }
    target
}
