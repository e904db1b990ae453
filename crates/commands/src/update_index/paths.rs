//! Files of the work tree.

use packrace_worktree::index::{ContentError, IndexEntry, Kind, Mode, Seen};

use super::{Update, say};
use crate::call::fatal::Fatal;
use crate::work_tree::OTHER_HASH;

/// Why a path was refused: an `error: …` line, which ends the command.
pub struct Unable(String);

impl From<ContentError> for Unable {
    fn from(error: ContentError) -> Self {
        Unable(error.to_string())
    }
}

impl Update<'_> {
    /// A path relative to the current directory.
    pub fn typed_path(&mut self, typed: &[u8]) -> Result<(), Fatal> {
        let path = self.work_tree()?.path(typed)?;
        self.path(&path)
    }

    /// Updates the entry of a path, according to the options.
    pub fn path(&mut self, path: &[u8]) -> Result<(), Fatal> {
        self.entry(path)?;
        let Some(executable) = self.options.executable else { return Ok(()) };
        let sign = if executable { '+' } else { '-' };
        if !self.index().set_executable(path, executable) {
            let shown = String::from_utf8_lossy(path);
            return Err(Fatal::new(format!("git update-index: cannot chmod {sign}x '{shown}'")));
        }
        self.report(&format!("chmod {sign}x "), path)
    }

    /// The same without its mode, which is set even if the path is ignored, as in git.
    fn entry(&mut self, path: &[u8]) -> Result<(), Fatal> {
        let shown = String::from_utf8_lossy(path).into_owned();
        let seen = self.parts()?.1.look(path);
        let is_link = matches!(seen, Ok(Some(Seen { kind: Kind::Link, .. })));
        if !self.rules.allow(path, is_link) {
            error_line!(self.call, "Ignoring path {shown}");
            return Ok(());
        }
        self.unfold_for(path)?;
        let (assume, skip) = (self.options.assume_unchanged, self.options.skip_worktree);
        let monitor_valid = self.options.monitor_valid;
        if assume.is_some() || skip.is_some() || monitor_valid.is_some() {
            // As in git, only the first of them counts.
            let skip = skip.filter(|_| assume.is_none());
            let monitor_valid = monitor_valid.filter(|_| assume.is_none() && skip.is_none());
            let mark = |entry: &mut IndexEntry| {
                entry.assume_valid = assume.unwrap_or(entry.assume_valid);
                entry.skip_worktree = skip.unwrap_or(entry.skip_worktree);
            };
            return match self.index().set_flags(path, mark) {
                true => {
                    monitor_valid.iter().for_each(|valid| self.index().set_monitor_valid(path, *valid));
                    Ok(())
                }
                false => Err(Fatal::new(format!("Unable to mark file {shown}"))),
            };
        }
        if self.options.force_remove {
            self.index().remove(path);
            return self.report("remove ", path);
        }
        let taken = self.take(path);
        self.write_messages();
        if let Err(Unable(error)) = taken? {
            if !error.is_empty() {
                self.call.report_error(&error.to_string());
            }
            return Err(Fatal::new(format!("Unable to process path {shown}")));
        }
        self.report("add ", path)
    }

    /// Reports what was done, if verbose.
    pub fn report(&self, what: &str, path: &[u8]) -> Result<(), Fatal> {
        if self.options.verbose { say(self.call, what, path) } else { Ok(()) }
    }

    /// Updates the entry from the work tree, or removes it if the file is gone.
    fn take(&mut self, path: &[u8]) -> Result<Result<(), Unable>, Fatal> {
        let shown = String::from_utf8_lossy(path).into_owned();
        let (index, contents, _) = self.parts()?;
        if contents.is_beyond_link(path) {
            return Ok(Err(Unable(format!("'{shown}' is beyond a symbolic link"))));
        }
        if index.get(path, 0).is_some_and(|entry| entry.skip_worktree) {
            if self.options.remove && !self.options.ignore_skip_worktree {
                self.index().remove(path);
            }
            return Ok(Ok(()));
        }
        let seen = match contents.look(path) {
            Err(error) => return Ok(Err(error.into())),
            Ok(None) => return Ok(self.take_out(path)),
            Ok(Some(seen)) => seen,
        };
        match seen.kind {
            Kind::Dir => self.take_dir(path, &seen),
            Kind::Other => Ok(Err(Unable(format!("{shown}: unsupported file type")))),
            Kind::File { .. } | Kind::Link => self.take_file(path, &seen),
        }
    }

    fn take_out(&mut self, path: &[u8]) -> Result<(), Unable> {
        if !self.options.remove {
            let shown = String::from_utf8_lossy(path);
            return Err(Unable(format!("{shown}: does not exist and --remove not passed")));
        }
        self.index().remove(path);
        Ok(())
    }

    /// A directory is a submodule, or replaced a file.
    fn take_dir(&mut self, path: &[u8], seen: &Seen) -> Result<Result<(), Unable>, Fatal> {
        let shown = String::from_utf8_lossy(path).into_owned();
        let hash = self.repository.hash_kind();
        let (index, contents, _) = self.parts()?;
        let head = contents.submodule_head(path);
        let before = index.stages(path).next().map(|(_, entry)| entry.mode);
        if head.is_some_and(|id| id.kind() != hash) {
            return Ok(Err(Unable(OTHER_HASH.to_owned())));
        }
        let what = match (before, head) {
            (Some(Mode::Gitlink), None) => return Ok(Ok(())),
            (Some(Mode::Gitlink), Some(id)) => return Ok(self.put(path, Mode::Gitlink, id, seen)),
            (Some(_), _) => return Ok(self.take_out(path)),
            (None, _) if index.contains_dir(path) => "add individual files instead",
            (None, Some(id)) => return Ok(self.put(path, Mode::Gitlink, id, seen)),
            (None, None) => "add files inside instead",
        };
        Ok(Err(Unable(format!("{shown}: is a directory - {what}"))))
    }

    fn take_file(&mut self, path: &[u8], seen: &Seen) -> Result<Result<(), Unable>, Fatal> {
        let shown = String::from_utf8_lossy(path).into_owned();
        self.repository.check_attributes()?;
        let (index, contents, batch) = self.parts()?;
        let before = index.get(path, 0).copied();
        if let Some(entry) = before {
            if entry.assume_valid {
                return Ok(Ok(()));
            }
            // The entry is up to date.
            let looks_same = !entry.intent_to_add && contents.rules().matches(&entry, seen);
            let is_same = match looks_same && index.is_racy(&entry) {
                _ if index.is_unchanged(path, &entry) => true,
                false => looks_same,
                true => match contents.blob(index, path, seen, None) {
                    Ok(id) => id == entry.id,
                    Err(ContentError::Filter(error)) => return Err(Fatal::new(error)),
                    Err(_) => false,
                },
            };
            if is_same {
                return Ok(Ok(()));
            }
        }
        // As in git, the stages of a conflict do not say what the file is, other than for `add`.
        let mode = contents.rules().mode(seen.kind, before.map(|entry| entry.mode));
        let mode = mode.expect("a file or a link");
        let id = match contents.blob(index, path, seen, batch) {
            Ok(id) => id,
            Err(ContentError::Store(error)) => {
                self.call.report_error(&error.to_string());
                return Ok(Err(Unable(format!("{shown}: failed to insert into database"))));
            }
            Err(ContentError::Filter(error)) => return Err(Fatal::new(error)),
            Err(error) => return Ok(Err(error.into())),
        };
        Ok(self.put(path, mode, id, seen))
    }

    fn put(
        &mut self,
        path: &[u8],
        mode: Mode,
        id: packrace_object::ObjectId,
        seen: &Seen,
    ) -> Result<(), Unable> {
        let entry =
            IndexEntry { stat: seen.stat, assume_valid: self.assumes_unchanged, ..IndexEntry::new(id, mode) };
        let is_new = self.index().get(path, 0).is_none();
        self.insert(path, 0, entry)?;
        if is_new {
            self.index().trust_new(path);
        }
        Ok(())
    }

    /// Inserts an entry, if the options allow adding or replacing.
    pub fn insert(&mut self, path: &[u8], stage: u8, entry: IndexEntry) -> Result<(), Unable> {
        let (add, replace) = (self.options.add, self.options.replace);
        let index = self.index();
        let shown = String::from_utf8_lossy(path).into_owned();
        let refused = || Unable(format!("{shown}: cannot add to the index - missing --add option?"));
        let is_new = index.get(path, stage).is_none() && (stage != 0 || index.stages(path).next().is_none());
        if is_new && !add {
            return Err(refused());
        }
        if replace {
            index.insert(path, stage, entry);
            return Ok(());
        }
        index.try_insert(path, stage, entry).map_err(|conflict| {
            self.call.report_error(&conflict.to_string());
            refused()
        })
    }
}

impl Unable {
    /// The line to print.
    pub fn text(&self) -> &str {
        &self.0
    }
}
