//! Switches the index and the work tree between two lists of files.

use std::collections::BTreeSet;

use gix_object::bstr::BString;
use packrace_os::trace;

use crate::error::WorkError;
use crate::files::{FileComparison, Files};
use crate::index::{Index, IndexEntry, Kind, Mode};
use crate::listing::{Listing, TreeItem};
use crate::paths::directories_above;

/// Files that would be lost; nothing was changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Files with changes that are not stored elsewhere.
    pub changed: Vec<Vec<u8>>,
    /// Untracked files.
    pub untracked: Vec<Vec<u8>>,
    /// Directories with untracked files.
    pub directories: Vec<Vec<u8>>,
}

impl Blocked {
    fn is_empty(&self) -> bool {
        self == &Blocked::default()
    }

    /// Git's message; `doing` is `merge` or `checkout`, `after` the user's next step.
    pub fn message(&self, doing: &str, after: &str) -> String {
        let mut text = String::new();
        let mut add = |paths: &[Vec<u8>], before: String, behind: String| {
            if paths.is_empty() {
                return;
            }
            text += &format!("error: {before}\n");
            for path in paths {
                text += &format!("\t{}\n", String::from_utf8_lossy(path));
            }
            text += &behind;
        };
        add(
            &self.changed,
            format!("Your local changes to the following files would be overwritten by {doing}:"),
            format!("Please commit your changes or stash them before you {after}.\n"),
        );
        add(
            &self.directories,
            "Updating the following directories would lose untracked files in them:".to_owned(),
            "\n".to_owned(),
        );
        add(
            &self.untracked,
            format!("The following untracked working tree files would be overwritten by {doing}:"),
            format!("Please move or remove them before you {after}.\n"),
        );
        text + "Aborting\n"
    }
}

/// Whether a path is ignored, so that its file may be overwritten.
pub type IsIgnored<'a> = dyn FnMut(&[u8]) -> Result<bool, WorkError> + 'a;

/// Switches index and work tree from `from` to `to`; does nothing if a file would be lost.
pub fn switch(
    index: &mut Index,
    files: &mut Files,
    from: &Listing,
    to: &Listing,
    is_ignored: &mut IsIgnored<'_>,
) -> Result<Result<(), Blocked>, WorkError> {
    let _region = trace::region("unpack_trees", "unpack_trees");
    let mut look = PathCheck { index, files, to, is_ignored, blocked: Blocked::default() };
    let changes = look.changes(from)?;
    if !look.blocked.is_empty() {
        return Ok(Err(look.blocked));
    }
    files.objects().prefetch(changes.iter().filter_map(|(_, new)| new.as_ref()?.blob()))?;
    for (path, new) in &changes {
        if new.is_none()
            && let Some(entry) = index.get(path, 0).copied()
        {
            files.remove(path, entry.mode)?;
            index.remove(path);
        }
    }
    for (path, new) in changes {
        if let Some(item) = new {
            check_out(index, files, path, &item)?;
        }
    }
    Ok(Ok(()))
}

/// Checks all paths before anything is changed.
struct PathCheck<'a, 'l, 'i> {
    index: &'a Index,
    files: &'a mut Files,
    to: &'l Listing,
    is_ignored: &'a mut IsIgnored<'i>,
    blocked: Blocked,
}

impl<'l> PathCheck<'_, 'l, '_> {
    /// The paths to change, if nothing is in the way.
    fn changes(&mut self, from: &'l Listing) -> Result<Vec<(&'l BString, Option<TreeItem>)>, WorkError> {
        let paths: BTreeSet<&BString> = from.keys().chain(self.to.keys()).collect();
        let mut changes = Vec::new();
        for path in paths {
            let (old, new) = (from.get(path).copied(), self.to.get(path).copied());
            let entry = self.index.get(path, 0).copied();
            let staged = entry.as_ref().map(TreeItem::of);
            if old == new || staged == new {
                continue;
            }
            if staged != old {
                self.blocked.changed.push(path.to_vec());
                continue;
            }
            match entry {
                Some(entry) => {
                    // A skip-worktree path may still have changes. Submodules are left alone.
                    let visible = IndexEntry { assume_valid: false, skip_worktree: false, ..entry };
                    if entry.mode != Mode::Gitlink && self.is_changed(path, &visible)? {
                        self.blocked.changed.push(path.to_vec());
                        continue;
                    }
                    if new.is_some() {
                        self.check_directory(path)?;
                    }
                }
                None => self.check_absent(path)?,
            }
            changes.push((path, new));
        }
        Ok(changes)
    }

    /// Whether a tracked file has changes, or has made room for a file or link where its directory was.
    fn is_changed(&mut self, path: &[u8], entry: &IndexEntry) -> Result<bool, WorkError> {
        Ok(match self.files.look_and_compare(self.index, path, entry)? {
            FileComparison::Changed(_) => true,
            FileComparison::Gone => self.files.tree.is_below_file(path)?,
            FileComparison::Same | FileComparison::Touched(_) => false,
        })
    }

    /// Checks that no untracked file is where a new file, or a parent directory of it, has to be.
    fn check_absent(&mut self, path: &[u8]) -> Result<(), WorkError> {
        for above in directories_above(path) {
            match self.files.tree.look(above)? {
                Some(seen) if seen.kind == Kind::Dir => {}
                None => return Ok(()),
                Some(_) => {
                    // A tracked path is removed anyway, and is checked as an entry of its own.
                    if self.index.get(above, 0).is_none()
                        && !(self.is_ignored)(above)?
                        && !self.blocked.untracked.iter().any(|known| known == above)
                    {
                        self.blocked.untracked.push(above.to_vec());
                    }
                    return Ok(());
                }
            }
        }
        match self.files.tree.look(path)? {
            None => {}
            Some(seen) if seen.kind == Kind::Dir => self.check_directory(path)?,
            Some(_) if (self.is_ignored)(path)? => {}
            Some(_) => self.blocked.untracked.push(path.to_vec()),
        }
        Ok(())
    }

    /// Checks whether a directory that a file replaces holds more than files that are removed.
    fn check_directory(&mut self, path: &[u8]) -> Result<(), WorkError> {
        if self.to.get(path).is_some_and(|item| item.mode == Mode::Gitlink) {
            return Ok(());
        }
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let Some(seen) = self.files.tree.look(&directory)? else { continue };
            if seen.kind != Kind::Dir {
                continue;
            }
            for entry in self.files.tree.entries(&directory)? {
                let inside = [directory.as_slice(), b"/", entry.name.as_encoded_bytes()].concat();
                if entry.kind == packrace_os::EntryType::Dir {
                    waiting.push(inside);
                } else if self.index.get(&inside, 0).is_none() && !(self.is_ignored)(&inside)? {
                    self.blocked.directories.push(path.to_vec());
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Resets index and work tree to `to` for the paths that `is_meant` selects, whatever exists there. Correct
/// files stay untouched.
pub fn reset(
    index: &mut Index,
    files: &mut Files,
    to: &Listing,
    is_meant: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), WorkError> {
    let _region = trace::region("unpack_trees", "unpack_trees");
    let mut gone: Vec<(Vec<u8>, Mode)> = Vec::new();
    for (key, entry) in index.entries() {
        let is_known = gone.last().is_some_and(|(path, _)| path == key.path());
        if !is_known && !to.contains_key(key.path() as &[u8]) && is_meant(key.path()) {
            gone.push((key.path().to_vec(), entry.mode));
        }
    }
    for (path, mode) in gone {
        let is_kept = index.get(&path, 0).is_some_and(|entry| entry.skip_worktree);
        if !is_kept {
            files.remove(&path, mode)?;
        }
        index.remove(&path);
    }
    for (path, item) in to {
        if !is_meant(path) {
            continue;
        }
        let entry = index.get(path, 0).copied();
        match entry.filter(|entry| TreeItem::of(entry) == *item && !entry.intent_to_add) {
            None => check_out(index, files, path, item)?,
            Some(entry) => match files.compare(index, path, &entry)? {
                FileComparison::Same => {}
                FileComparison::Touched(stat) => index.set_stat(path, 0, stat),
                FileComparison::Gone | FileComparison::Changed(_) => check_out(index, files, path, item)?,
            },
        }
    }
    Ok(())
}

/// Writes a file and its entry; a file outside a sparse checkout is not written.
pub(crate) fn check_out(
    index: &mut Index,
    files: &mut Files,
    path: &[u8],
    item: &TreeItem,
) -> Result<(), WorkError> {
    let is_skipped = index.get(path, 0).is_some_and(|entry| entry.skip_worktree);
    let mut entry = IndexEntry::new(item.id, item.mode);
    match is_skipped {
        true => entry.skip_worktree = true,
        false => {
            // Attributes are read from the index first.
            index.insert(path, 0, entry);
            entry.stat = files.check_out(index, path, item)?;
        }
    }
    index.insert(path, 0, entry);
    Ok(())
}
