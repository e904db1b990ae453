use std::collections::BTreeSet;

use gix_object::bstr::BString;
use packrace_object::{Kind as ObjectKind, NewCommit, ObjectId};
use packrace_os::{EntryType, trace};
use packrace_store::publish::{ObjectBatch, ObjectsStored};

use super::patch::{self, Misfit, PatchFailed};
use super::{Head, People, StashSession};
use crate::error::WorkError;
use crate::files::FileComparison;
use crate::index::{Index, IndexEntry, Kind, Mode, StatData};
use crate::listing::{Listing, TreeItem, list, make_trees};
use crate::paths::{LeadingDirs, SparseCheckout, directories_above};
use crate::switch::{self, Blocked};
use crate::untracked::{Untracked, UntrackedKind};

/// Of `--staged`, git makes patches with so many lines of context (watched).
const STAGED_CONTEXT_LINES: usize = 1;

/// What of the changes stays in the work tree after a stash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// All of them, or those that are not staged: nothing is removed but what is stashed.
    Unstaged,
    /// Those that are staged.
    Staged,
    /// None of them.
    Nothing,
}

/// What to stash.
pub struct StashRequest<'a> {
    /// The commit that the work tree is based on.
    pub head: &'a Head,
    /// Which paths to stash.
    pub is_meant: &'a mut dyn FnMut(&[u8]) -> bool,
    /// Untracked files to stash, sorted; `None` leaves them alone. A nested repository is a reason for a stash, but not in it.
    pub untracked: Option<&'a [Untracked]>,
    /// Stash only staged changes.
    pub staged_only: bool,
    /// What the caller leaves: nothing is stashed if that would remove files that are in no stash.
    pub stays: Stays,
    /// Replaces the default message.
    pub message: Option<&'a [u8]>,
    /// The identities; `None` if there are none, which matters only if there is something to stash.
    pub people: Option<&'a People>,
    /// The encoding stated in commits, if it is not UTF-8.
    pub encoding: Option<&'a [u8]>,
}

impl StashRequest<'_> {
    /// Whether a path of `HEAD` or of the index will be a file or a link; an empty index does not stay.
    fn makes_file(&self, old: Option<&TreeItem>, now: Option<&TreeItem>, has_empty_index: bool) -> bool {
        let target = match self.stays {
            Stays::Unstaged => None,
            Stays::Staged if !has_empty_index => now,
            Stays::Staged | Stays::Nothing => old,
        };
        target.is_some_and(|item| item.mode != Mode::Gitlink)
    }
}

/// The result.
#[derive(Debug)]
pub enum Outcome {
    /// The changes are stored.
    Stored(StoredStash),
    /// Nothing differs from `HEAD`.
    Unchanged,
    /// Some files differ, but only staged changes were requested and there are none.
    NothingStaged,
    /// There is something to stash, but no identity to do it with.
    Nameless,
    /// An untracked file could not be read; these are lines for standard error.
    UnreadableUntracked(Vec<String>),
}

/// A stored stash. No ref points at it yet.
#[derive(Debug)]
pub struct StoredStash {
    /// The commit of the stash.
    pub commit: ObjectId,
    /// Its message.
    pub message: Vec<u8>,
    /// The tree of the index.
    index: Listing,
    /// Untracked files, and their metadata when they were read.
    untracked: Vec<(Vec<u8>, StatData)>,
    /// Proof that a ref may point at it.
    pub stored: ObjectsStored,
}

impl StashSession<'_> {
    /// Stores the differences from `HEAD`. The index has been refreshed and has no conflicts.
    pub fn keep(&mut self, request: &mut StashRequest<'_>) -> Result<Outcome, WorkError> {
        let head = list(&self.objects, &request.head.tree)?;
        let staged = self.staged();
        let batch = self.batch()?;
        let work_tree = self.work_tree(&head, &staged, request, &batch);
        if !request.staged_only && !matches!(work_tree, Ok(None)) {
            self.refuse_intents()?;
        }
        let Some(work_tree) = work_tree? else { return Ok(Outcome::Unchanged) };
        let Some(People { author, committer }) = request.people else { return Ok(Outcome::Nameless) };
        if request.staged_only && staged == head {
            return Ok(Outcome::NothingStaged);
        }
        let description = &request.head.description;
        let tree = |listing: &Listing| {
            let _region = trace::region("cache_tree", "update");
            make_trees(&self.objects, listing.iter().map(|(path, item)| (path.as_slice(), *item)))
        };
        let text = |before: &[u8], after: &[u8]| [before, description.as_slice(), after].concat();
        let commit = |tree: ObjectId, parents: &[ObjectId], message: &[u8]| {
            let encoding = request.encoding;
            let commit = NewCommit { tree: &tree, parents, author, committer, encoding, message };
            self.objects.make(ObjectKind::Commit, commit.encode())
        };
        let index_tree = self.lock.index().make_tree(&*self.objects)?;
        let index_commit = commit(index_tree, &[request.head.commit], &text(b"index on ", b"\n"))?;
        let mut parents = vec![request.head.commit, index_commit];
        let mut kept_untracked = Vec::new();
        // As in git, even if there are no files.
        if let Some(untracked) = request.untracked {
            let paths: Vec<(&[u8], Option<Mode>)> =
                files_of(untracked).map(|file| (file.path.as_slice(), None)).collect();
            let items = match self.files.store(self.repository, self.lock.index(), &batch, &paths) {
                Err(WorkError::Unreadable(lines)) => return Ok(Outcome::UnreadableUntracked(lines)),
                items => items?,
            };
            let mut files = Listing::new();
            for ((path, _), item) in paths.iter().zip(items) {
                let Some((item, stat)) = item else { continue };
                files.insert(BString::from(*path), item);
                kept_untracked.push((path.to_vec(), stat));
            }
            parents.push(commit(tree(&files)?, &[], &text(b"untracked files on ", b"\n"))?);
        }
        let message = match request.message {
            None => text(b"WIP on ", b""),
            Some(message) => {
                let end = description.iter().position(|byte| *byte == b':').unwrap_or(description.len());
                [b"On ", &description[..end], b": ", message].concat()
            }
        };
        let work_tree = if request.staged_only { index_tree } else { tree(&work_tree)? };
        let commit = commit(work_tree, &parents, &message)?;
        let stored = self.publish(batch)?;
        Ok(Outcome::Stored(StoredStash { commit, message, index: staged, untracked: kept_untracked, stored }))
    }

    /// The work tree for the requested paths, and the index for others; `None` if that equals `HEAD` and
    /// nothing is staged.
    fn work_tree(
        &mut self,
        head: &Listing,
        staged: &Listing,
        request: &mut StashRequest<'_>,
        batch: &ObjectBatch,
    ) -> Result<Option<Listing>, WorkError> {
        let mut result = staged.clone();
        let mut is_changed = request.untracked.is_some_and(|paths| !paths.is_empty());
        // Files that are only meant to be added are no staged changes, but differ.
        is_changed |= self.meant_to_be_added().iter().any(|path| (request.is_meant)(path));
        let mut changed: Vec<(&[u8], Option<Mode>)> = Vec::new();
        let mut leading = LeadingDirs::new(self.files.tree.top());
        let paths: BTreeSet<&BString> = head.keys().chain(staged.keys()).collect();
        for path in paths {
            if !(request.is_meant)(path) {
                continue;
            }
            let (old, now) = (head.get(path), staged.get(path));
            // As in git, a submodule alone is no reason for a stash.
            let is_submodule = [old, now].into_iter().flatten().all(|item| item.mode == Mode::Gitlink);
            is_changed |= old != now && !is_submodule;
            let entry = self.lock.index().get(path, 0).copied();
            let comparison = match entry {
                Some(entry) => self.files.compare(self.lock.index(), path, &entry)?,
                None => match self.files.tree.look(path)? {
                    Some(seen) => FileComparison::Changed(seen),
                    None => FileComparison::Gone,
                },
            };
            match comparison {
                FileComparison::Same | FileComparison::Touched(_) => {}
                FileComparison::Gone => {
                    if old.is_some() && !request.staged_only && leading.has_link(path) {
                        return Err(cannot_process(path, |path| {
                            format!("'{path}' is beyond a symbolic link")
                        }));
                    }
                    is_changed |= now.is_some() && !is_submodule;
                    // A path in neither of them is only in the index.
                    if old.is_some() {
                        result.remove(path);
                    }
                }
                // As in git, the checked-out commit of a submodule is not stashed.
                FileComparison::Changed(seen) if seen.kind == Kind::Dir => {}
                FileComparison::Changed(seen) if seen.kind == Kind::Other => {
                    return Err(cannot_process(path, |path| format!("{path}: unsupported file type")));
                }
                FileComparison::Changed(_) if request.staged_only => is_changed |= !is_submodule,
                FileComparison::Changed(_) => changed.push((path, entry.map(|entry| entry.mode))),
            }
            if request.makes_file(old, now, staged.is_empty()) {
                self.refuse_loss(path, comparison, request.untracked.unwrap_or_default())?;
            }
        }
        let items = self.files.store(self.repository, self.lock.index(), batch, &changed)?;
        for ((path, _), item) in changed.iter().zip(items) {
            let Some((item, _)) = item else { continue };
            let path = BString::from(*path);
            is_changed |= staged.get(&path).is_some_and(|now| now.mode != Mode::Gitlink && *now != item);
            result.insert(path, item);
        }
        // What the index does not have yet may be in the way of what it has.
        let mut new = changed.iter().filter(|(_, before)| before.is_none());
        new.try_for_each(|(path, _)| check_place(&result, path))?;
        Ok(is_changed.then_some(result))
    }

    /// Fails if something that is in no stash is where a file, or a directory above it, will be: git removes it
    /// without a word.
    fn refuse_loss(
        &mut self,
        path: &[u8],
        comparison: FileComparison,
        untracked: &[Untracked],
    ) -> Result<(), WorkError> {
        let is_submodule = self.index().get(path, 0).is_some_and(|entry| entry.mode == Mode::Gitlink);
        match comparison {
            FileComparison::Gone => {}
            FileComparison::Changed(seen) if seen.kind == Kind::Dir => {}
            _ if is_submodule => {}
            _ => return Ok(()),
        }
        for above in directories_above(path).chain([path]) {
            match self.files.tree.look(above)? {
                None => return Ok(()),
                Some(seen) if seen.kind == Kind::Dir => {}
                Some(_) if self.is_stashed(above, untracked) => return Ok(()),
                Some(_) => {
                    return Err(would_lose(Blocked {
                        untracked: vec![above.to_vec()],
                        ..Blocked::default()
                    }));
                }
            }
        }
        match self.holds_only(path, true, &|inside| self.is_stashed(inside, untracked))? {
            true => Ok(()),
            false => Err(would_lose(Blocked { directories: vec![path.to_vec()], ..Blocked::default() })),
        }
    }

    /// Whether a stash of everything has the file at a path.
    fn is_stashed(&self, path: &[u8], untracked: &[Untracked]) -> bool {
        let is_in_index =
            self.index().get(path, 0).is_some_and(|entry| !entry.intent_to_add && !entry.skip_worktree);
        is_in_index || files_of(untracked).any(|file| file.path == path)
    }

    /// Removes stashed changes from the index and the work tree: with `cleans`, untracked files are removed;
    /// other files are reset to `HEAD`, or to the stashed index with `keeps_index`. Returns whether the current directory
    /// stayed, though empty.
    pub fn clear(
        &mut self,
        kept: &StoredStash,
        head: &Head,
        is_meant: &mut dyn FnMut(&[u8]) -> bool,
        cleans: bool,
        keeps_index: bool,
    ) -> Result<bool, WorkError> {
        // As in git, an empty index is not kept.
        let keeps_index = keeps_index && !kept.index.is_empty();
        let mut has_kept_current = false;
        if cleans {
            for (path, stat) in &kept.untracked {
                // A file that changed since is not in the stash.
                if self.files.tree.look(path)?.is_some_and(|seen| seen.stat == *stat) {
                    self.files.tree.remove(path)?;
                }
            }
            has_kept_current = self.remove_empty_directories(is_meant)?;
        }
        if !keeps_index {
            self.files.source.branch.clone_from(&head.branch);
            self.files.source.commit = Some(head.commit);
        }
        let head = list(&self.objects, &head.tree)?;
        let target = if keeps_index { &kept.index } else { &head };
        for (path, item) in head.iter().filter(|(path, _)| !target.contains_key(*path)) {
            if is_meant(path) && self.index().get(path, 0).is_none() {
                self.files.remove(path, item.mode)?;
            }
        }
        switch::reset(self.lock.index_mut(), &mut self.files, target, is_meant)?;
        Ok(has_kept_current)
    }

    /// Removes empty directories, as `git clean -d` does. Leaves repositories and the current directory alone.
    fn remove_empty_directories(
        &mut self,
        is_meant: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, WorkError> {
        let mut has_kept_current = false;
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut waiting = vec![Vec::new()];
        while let Some(directory) = waiting.pop() {
            let entries = self.files.tree.entries(&directory)?;
            if !directory.is_empty() && entries.iter().any(|entry| entry.name == ".git") {
                continue;
            }
            for entry in entries {
                if entry.kind == EntryType::Dir && entry.name != ".git" {
                    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
                    let path = [directory.as_slice(), slash, entry.name.as_encoded_bytes()].concat();
                    found.push(path.clone());
                    waiting.push(path);
                }
            }
        }
        // Inner directories come last.
        for path in found.iter().rev() {
            let is_submodule = self.index().get(path, 0).is_some();
            if !is_submodule
                && is_meant(path)
                && self.files.tree.entries(path).is_ok_and(|left| left.is_empty())
            {
                self.files.tree.remove_directory(path)?;
                has_kept_current |= self.files.tree.look(path)?.is_some();
            }
        }
        Ok(has_kept_current)
    }

    /// Removes from the work tree what the sparse checkout leaves out, and brings back the rest, as git does when it
    /// resets everything. Unlike in git, a file with changes that are not stashed, or in the way, stays as it is.
    pub fn follow_sparse_checkout(&mut self) -> Result<(), WorkError> {
        self.follow_sparse_checkout_in(&|_| true)
    }

    /// The same for some paths.
    pub(super) fn follow_sparse_checkout_in(
        &mut self,
        is_meant: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), WorkError> {
        let Some(sparse) = SparseCheckout::open(self.repository)? else { return Ok(()) };
        let entries = self.lock.index().entries().filter(|(key, _)| is_meant(key.path()));
        let wrong = entries.filter(|(key, entry)| entry.skip_worktree == sparse.contains(key.path()));
        let wrong: Vec<(Vec<u8>, IndexEntry)> =
            wrong.map(|(key, entry)| (key.path().to_vec(), *entry)).collect();
        for (path, entry) in wrong {
            let is_clean = match self.files.tree.look(&path)? {
                None => true,
                Some(_) if entry.skip_worktree || entry.assume_valid => false,
                Some(_) => {
                    let comparison = self.files.look_and_compare(self.lock.index(), &path, &entry)?;
                    matches!(comparison, FileComparison::Same | FileComparison::Touched(_))
                }
            };
            if !is_clean {
                continue;
            }
            let index = self.lock.index_mut();
            index.set_flags(&path, |entry| entry.skip_worktree = !entry.skip_worktree);
            match entry.skip_worktree {
                true => switch::check_out(index, &mut self.files, &path, &TreeItem::of(&entry))?,
                false => self.files.remove(&path, entry.mode)?,
            }
        }
        Ok(())
    }

    /// Fails if a file is only meant to be added: as in git, changes beside it are not stashed.
    fn refuse_intents(&self) -> Result<(), WorkError> {
        let paths = self.meant_to_be_added();
        let Some(path) = paths.first() else { return Ok(()) };
        let shown = String::from_utf8_lossy(path);
        Err(WorkError::Unreadable(vec![format!("error: Entry '{shown}' not uptodate. Cannot merge.")]))
    }

    /// Paths that are only meant to be added.
    fn meant_to_be_added(&self) -> Vec<Vec<u8>> {
        let entries = self.index().entries().filter(|(_, entry)| entry.intent_to_add);
        entries.map(|(key, _)| key.path().to_vec()).collect()
    }

    /// Removes staged changes from the work tree, and from the index unless `keeps_index`; nothing, if other changes
    /// conflict. As in git, files that are only meant to be added are untracked then, unless the index is kept.
    pub fn clear_staged(
        &mut self,
        head: &Head,
        keeps_index: bool,
    ) -> Result<Result<(), PatchFailed>, WorkError> {
        let head = list(&self.objects, &head.tree)?;
        let staged = self.staged();
        let paths: BTreeSet<BString> = head.keys().chain(staged.keys()).cloned().collect();
        let mut changes: Vec<(BString, Option<TreeItem>, Unstaged)> = Vec::new();
        let mut problems = Vec::new();
        for path in paths {
            let (old, now) = (staged.get(&path).copied(), head.get(&path).copied());
            if old == now {
                continue;
            }
            match self.taken_back(&path, old, now)? {
                Ok(unstaged) => changes.push((path, now, unstaged)),
                Err(failed) => problems.extend(failed.0),
            }
        }
        if !problems.is_empty() {
            return Ok(Err(PatchFailed(problems)));
        }
        for path in self.meant_to_be_added().iter().filter(|_| !keeps_index) {
            self.lock.index_mut().remove(path);
        }
        for (path, now, _) in &changes {
            if now.is_none() {
                self.files.remove(path, Mode::File)?;
                self.lock.index_mut().remove(path);
            }
        }
        let kept = changes.iter().filter(|_| keeps_index).map(|(path, ..)| path.clone());
        let kept: Vec<BString> = kept.collect();
        for (path, now, unstaged) in changes {
            let Some(item) = now else { continue };
            let index: &mut Index = self.lock.index_mut();
            match unstaged {
                Unstaged::AsHead => switch::check_out(index, &mut self.files, &path, &item)?,
                Unstaged::Content(content) => {
                    let id = self.objects.make(ObjectKind::Blob, content)?;
                    self.files.check_out(index, &path, &TreeItem { mode: item.mode, id })?;
                    index.insert(&path, 0, IndexEntry::new(item.id, item.mode));
                }
            }
        }
        for path in kept {
            let index = self.lock.index_mut();
            if let Some(item) = staged.get(&path) {
                index.insert(&path, 0, IndexEntry::new(item.id, item.mode));
            } else {
                index.remove(&path);
            }
        }
        Ok(Ok(()))
    }

    /// A file without its staged changes.
    fn taken_back(
        &mut self,
        path: &[u8],
        old: Option<TreeItem>,
        now: Option<TreeItem>,
    ) -> Result<Result<Unstaged, PatchFailed>, WorkError> {
        let shown = String::from_utf8_lossy(path).into_owned();
        let failed = |misfit| Ok(Err(patch::does_not_apply(&shown, misfit)));
        let refused = |why: &str| Ok(Err(PatchFailed(vec![format!("error: {shown}: {why}")])));
        let Some(old) = old else {
            return match self.files.tree.look(path)? {
                None => Ok(Ok(Unstaged::AsHead)),
                Some(seen) if seen.kind == Kind::Dir && self.is_all_staged(path)? => Ok(Ok(Unstaged::AsHead)),
                Some(_) => refused("already exists in working directory"),
            };
        };
        let entry = self.lock.index().get(path, 0).copied().expect("it is staged");
        let seen = match self.files.look_and_compare(self.lock.index(), path, &entry)? {
            FileComparison::Same | FileComparison::Touched(_) => return Ok(Ok(Unstaged::AsHead)),
            FileComparison::Gone => return refused("No such file or directory"),
            FileComparison::Changed(seen) => seen,
        };
        let found = self.files.item(self.lock.index(), path, &seen, Some(old.mode))?;
        let (Some(now), Some((_, content))) = (now, found) else { return failed(Misfit(1)) };
        if !old.mode.is_file() || !now.mode.is_file() {
            return failed(Misfit(1));
        }
        let before = self.objects.read_as(&old.id, ObjectKind::Blob)?;
        let after = self.objects.read_as(&now.id, ObjectKind::Blob)?;
        match patch::apply(&before, &after, &content, STAGED_CONTEXT_LINES) {
            Ok(content) => Ok(Ok(Unstaged::Content(content))),
            Err(misfit) => failed(misfit),
        }
    }

    /// Whether a directory, where a file was, goes away with the staged files that it holds.
    fn is_all_staged(&self, path: &[u8]) -> Result<bool, WorkError> {
        self.holds_only(path, false, &|inside| {
            self.index().get(inside, 0).is_some_and(|entry| !entry.intent_to_add)
        })
    }

    /// Whether all files in a directory are such ones.
    fn holds_only(
        &self,
        path: &[u8],
        allows_empty: bool,
        is_such: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, WorkError> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let entries = self.files.tree.entries(&directory)?;
            if entries.is_empty() && !allows_empty {
                return Ok(false);
            }
            for entry in entries {
                let inside = [directory.as_slice(), b"/", entry.name.as_encoded_bytes()].concat();
                if entry.kind == EntryType::Dir {
                    waiting.push(inside);
                } else if !is_such(&inside) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Without nested repositories.
fn files_of(untracked: &[Untracked]) -> impl Iterator<Item = &Untracked> {
    untracked.iter().filter(|one| !matches!(one.found, UntrackedKind::Repository(_)))
}

/// A file without its staged changes.
enum Unstaged {
    /// It equals `HEAD`.
    AsHead,
    /// The file has other changes, too.
    Content(Vec<u8>),
}

/// Fails if a path of the list is a directory of `path`, or below it.
fn check_place(listing: &Listing, path: &[u8]) -> Result<(), WorkError> {
    let below = BString::from([path, b"/"].concat());
    let is_directory = |at: usize| listing.contains_key(&BString::from(&path[..at]));
    let next = listing.range(below.clone()..).next();
    let mut slashes = (0..path.len()).filter(|at| path[*at] == b'/');
    match next.is_some_and(|(next, _)| next.starts_with(&below)) || slashes.any(is_directory) {
        true => Err(cannot_process(path, |path| {
            format!(
                "'{path}' appears as both a file and as a directory\nerror: {path}: cannot add to the index - missing --add \
                 option?"
            )
        })),
        false => Ok(()),
    }
}

/// Why nothing is stashed.
fn would_lose(blocked: Blocked) -> WorkError {
    WorkError::Unreadable(vec![blocked.message("stash", "stash").trim_end().to_owned()])
}

/// Git's message; `why` gets the printable path.
fn cannot_process(path: &[u8], why: impl FnOnce(&str) -> String) -> WorkError {
    let shown = String::from_utf8_lossy(path);
    WorkError::Unreadable(vec![
        format!("error: {}", why(&shown)),
        format!("fatal: Unable to process path {shown}"),
    ])
}
