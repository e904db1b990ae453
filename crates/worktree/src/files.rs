//! Files of a work tree as git stores them: compared with index entries, read through filters, and checked
//! out.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use packrace_object::{Kind as ObjectKind, ObjectId, object_id};
use packrace_store::publish::ObjectBatch;
use packrace_store::{OpenOptions, Repository, Snapshot};

use crate::checkout::{TreeSettings, WorkTree};
use crate::error::WorkError;
use crate::filter::{self, BlobSource, Direction, Filters, Purpose};
use crate::index::{Index, IndexEntry, Kind, Mode, Seen, StatData};
use crate::listing::TreeItem;
use crate::objects::Objects;
use crate::paths::head_of_nested;
use crate::stage::{StageError, StageJob, Stager};

/// How a file compares with its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileComparison {
    /// The metadata matches the entry, or need not be checked.
    Same,
    /// The content matches the entry, but the metadata differs.
    Touched(StatData),
    /// The file does not exist, or is a directory.
    Gone,
    /// The content or the type differs.
    Changed(Seen),
}

/// The files of a work tree.
pub struct Files {
    /// The unconverted files.
    pub tree: WorkTree,
    objects: Rc<Objects>,
    into_git: Filters,
    out_of_git: Filters,
    /// Paths whose files are known to match their entries.
    known: HashSet<Vec<u8>>,
    /// What filters are told of files that are checked out.
    pub source: BlobSource,
    /// Lines for standard error.
    pub messages: Vec<String>,
}

impl Files {
    /// The files of the work tree at `top`.
    pub fn open(
        repository: &Repository,
        snapshot: &Arc<Snapshot>,
        top: &Path,
        objects: Rc<Objects>,
    ) -> Result<Self, WorkError> {
        let mut messages = Vec::new();
        let into_git = Filters::new(repository, snapshot, top, Direction::CheckIn, &mut messages)?;
        let out_of_git = Filters::new(repository, snapshot, top, Direction::CheckOut, &mut messages)?;
        let tree = WorkTree::new(top, TreeSettings::of(repository.config())?);
        let (known, source) = (HashSet::new(), BlobSource::default());
        Ok(Files { tree, objects, into_git, out_of_git, known, source, messages })
    }

    /// What filters get from now on beside the variables of this process.
    pub fn set_variables(&self, variables: &[(OsString, OsString)]) {
        self.into_git.set_variables(variables);
        self.out_of_git.set_variables(variables);
    }

    /// The objects for checkouts.
    pub fn objects(&self) -> &Rc<Objects> {
        &self.objects
    }

    /// Compares the file of an entry with the entry, unless a file system monitor has just said that it is the same.
    pub fn compare(
        &mut self,
        index: &Index,
        path: &[u8],
        entry: &IndexEntry,
    ) -> Result<FileComparison, WorkError> {
        match index.is_unchanged(path, entry) {
            true => Ok(FileComparison::Same),
            false => self.look_and_compare(index, path, entry),
        }
    }

    /// The same, whatever a monitor says: before something could be lost.
    pub fn look_and_compare(
        &mut self,
        index: &Index,
        path: &[u8],
        entry: &IndexEntry,
    ) -> Result<FileComparison, WorkError> {
        if entry.assume_valid || entry.skip_worktree {
            return Ok(FileComparison::Same);
        }
        let Some(seen) = self.tree.look(path)? else { return Ok(FileComparison::Gone) };
        let rules = self.tree.settings().rules;
        if entry.mode == Mode::Gitlink {
            return self.compare_submodule(path, entry, seen);
        }
        if seen.kind == Kind::Dir {
            return Ok(FileComparison::Gone);
        }
        if rules.matches(entry, &seen) && (self.known.contains(path) || !index.is_racy(entry)) {
            return Ok(FileComparison::Same);
        }
        if entry.intent_to_add || !rules.is_same_kind(entry.mode, seen.kind) {
            return Ok(FileComparison::Changed(seen));
        }
        let said = self.messages.len();
        let sizes = [entry.stat.size_bytes, seen.stat.size_bytes];
        let content = match self.content(index, path, &seen, Purpose::Compare) {
            // As in git, a file of another size is changed, whatever its filter would say; a size of 0 is
            // that of a racy entry.
            Err(WorkError::Filter(filter::Error::Refused(_))) if sizes[0] != 0 && sizes[0] != sizes[1] => {
                self.messages.truncate(said);
                return Ok(FileComparison::Changed(seen));
            }
            content => content?,
        };
        if object_id(self.objects.hash_kind(), ObjectKind::Blob, &content)? != entry.id {
            return Ok(FileComparison::Changed(seen));
        }
        self.known.insert(path.to_vec());
        Ok(match rules.matches(entry, &seen) {
            true => FileComparison::Same,
            false => FileComparison::Touched(seen.stat),
        })
    }

    fn compare_submodule(
        &self,
        path: &[u8],
        entry: &IndexEntry,
        seen: Seen,
    ) -> Result<FileComparison, WorkError> {
        Ok(match seen.kind {
            Kind::Dir if self.submodule(path).is_none_or(|head| head == entry.id) => FileComparison::Same,
            _ => FileComparison::Changed(seen),
        })
    }

    /// The commit checked out in a submodule, if there is one.
    fn submodule(&self, path: &[u8]) -> Option<ObjectId> {
        head_of_nested(&self.tree.place(path), &OpenOptions::default()).commit()
    }

    /// The item for an examined file, with its content; stores nothing. `before` is the entry's
    /// mode, which the file system may be unable to keep.
    pub fn item(
        &mut self,
        index: &Index,
        path: &[u8],
        seen: &Seen,
        before: Option<Mode>,
    ) -> Result<Option<(TreeItem, Vec<u8>)>, WorkError> {
        let Some(mode) = self.tree.settings().rules.mode(seen.kind, before) else { return Ok(None) };
        if mode == Mode::Gitlink {
            return Ok(self.submodule(path).map(|id| (TreeItem { mode, id }, Vec::new())));
        }
        let content = self.content(index, path, seen, Purpose::Store)?;
        let id = object_id(self.objects.hash_kind(), ObjectKind::Blob, &content)?;
        Ok(Some((TreeItem { mode, id }, content)))
    }

    /// Reads and stores files in parallel. Returns the item of each file and its metadata when it was read;
    /// `None` for files that git does not store. Each path comes with its entry's mode, which the file
    /// system may be unable to keep.
    pub fn store(
        &mut self,
        repository: &Repository,
        index: &Index,
        batch: &ObjectBatch,
        paths: &[(&[u8], Option<Mode>)],
    ) -> Result<Vec<Option<(TreeItem, StatData)>>, WorkError> {
        let mut jobs = Vec::with_capacity(paths.len());
        for (path, _) in paths {
            jobs.push(StageJob::new(path, None, &mut self.into_git, index, &mut self.messages)?);
        }
        let stager = Stager::new(repository, self.tree.top(), self.into_git.converter(), index, Some(batch))?;
        let rules = self.tree.settings().rules;
        let mut items = Vec::with_capacity(paths.len());
        for (result, (path, before)) in stager.run(&jobs).into_iter().zip(paths) {
            match result {
                Ok(staged) => {
                    self.messages.extend(staged.messages);
                    let mode = rules.mode(staged.seen.kind, *before);
                    items.push(mode.map(|mode| (TreeItem { mode, id: staged.id }, staged.seen.stat)));
                }
                Err(StageError::Store(error)) => return Err(error.into()),
                Err(StageError::Unreadable(mut lines)) => {
                    let shown = String::from_utf8_lossy(path);
                    lines.push(format!("error: unable to index file '{shown}'"));
                    lines.push(format!("fatal: Unable to process path {shown}"));
                    return Err(WorkError::Unreadable(lines));
                }
                Err(StageError::Refused(mut lines, last)) => {
                    lines.push(format!("fatal: {last}"));
                    return Err(WorkError::Unreadable(lines));
                }
                Err(StageError::Skipped) => return Err(WorkError::Unreadable(Vec::new())),
            }
        }
        Ok(items)
    }

    fn content(
        &mut self,
        index: &Index,
        path: &[u8],
        seen: &Seen,
        purpose: Purpose,
    ) -> Result<Vec<u8>, WorkError> {
        let content = self.tree.read(path, seen.kind == Kind::Link)?;
        if seen.kind == Kind::Link {
            return Ok(content);
        }
        let staged = |path: &[u8]| index.get(path, 0).map(|entry| entry.id);
        Ok(self.into_git.to_git(path, &content, purpose, &staged, &mut self.messages)?.into_owned())
    }

    /// Checks a blob out into the work tree. Returns the metadata for the index.
    pub fn check_out(&mut self, index: &Index, path: &[u8], item: &TreeItem) -> Result<StatData, WorkError> {
        let stat = match item.mode {
            Mode::Gitlink => self.tree.write(path, item, &[])?,
            Mode::Link => {
                let content = self.objects.read_as(&item.id, ObjectKind::Blob)?;
                self.tree.write(path, item, &content)?
            }
            _ => {
                let content = self.objects.read_as(&item.id, ObjectKind::Blob)?;
                let staged = |path: &[u8]| index.get(path, 0).map(|entry| entry.id);
                self.source.blob = Some(item.id);
                let filters = &mut self.out_of_git;
                let content =
                    filters.to_worktree(path, &content, &self.source, &staged, &mut self.messages)?;
                self.tree.write(path, item, &content)?
            }
        };
        self.known.insert(path.to_vec());
        Ok(stat)
    }

    /// Removes a file of the work tree.
    pub fn remove(&mut self, path: &[u8], mode: Mode) -> Result<(), WorkError> {
        self.known.remove(path);
        match mode {
            Mode::Gitlink => self.tree.remove_directory(path),
            _ => self.tree.remove(path),
        }
    }

    /// Examines all files, and updates the metadata of unchanged ones. Returns paths with conflicts.
    pub fn refresh(&mut self, index: &mut Index) -> Result<Vec<Vec<u8>>, WorkError> {
        let (mut touched, mut same) = (Vec::new(), Vec::new());
        let mut unmerged: Vec<Vec<u8>> = Vec::new();
        for (key, entry) in index.entries() {
            if key.stage() > 0 {
                if unmerged.last().is_none_or(|last| last != key.path()) {
                    unmerged.push(key.path().to_vec());
                }
                continue;
            }
            match self.compare(index, key.path(), entry)? {
                FileComparison::Touched(stat) => touched.push((key.clone(), stat)),
                FileComparison::Same if is_looked_at(entry) => same.push(key.clone()),
                _ => {}
            }
        }
        for (key, stat) in touched {
            index.set_stat(key.path(), 0, stat);
            same.push(key);
        }
        index.trust(&same);
        Ok(unmerged)
    }

    /// Whether the metadata of a racy entry matches but the content differs.
    pub fn is_modified(&mut self, index: &Index, path: &[u8], entry: &IndexEntry) -> bool {
        if self.known.contains(path) {
            return false;
        }
        match self.look_and_compare(index, path, entry) {
            Ok(FileComparison::Same | FileComparison::Touched(_)) => false,
            Ok(FileComparison::Gone | FileComparison::Changed(_)) | Err(_) => true,
        }
    }
}

/// Whether a comparison says anything of the file.
fn is_looked_at(entry: &IndexEntry) -> bool {
    !entry.assume_valid && !entry.skip_worktree && entry.mode != Mode::Gitlink
}
