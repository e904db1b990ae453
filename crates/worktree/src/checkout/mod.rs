//! Examines, writes and removes files of a work tree by their paths in an index.
//!
//! No path leads out of the work tree: its directories are checked before use, and a symbolic link never
//! counts as a directory. Writing replaces whatever is in the way; callers that must not lose data check
//! first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{DirEntry, EntryType};
use packrace_store::Config;

use crate::error::WorkError;
use crate::index::{Kind, Mode, Seen, StatData, StatRules, look};
use crate::listing::TreeItem;
use crate::paths::{NameRules, directories_above};

/// What the names of files begin with that are about to replace others.
const TEMPORARY: &str = ".packrace_";

/// Longest symbolic link target that is read from an object.
const MAX_LINK_BYTES: usize = 1 << 16;

/// The configuration of a work tree (git-config, "core").
#[derive(Debug, Clone, Copy)]
pub struct TreeSettings {
    /// How files are compared.
    pub rules: StatRules,
    /// Which paths are allowed.
    names: NameRules,
}

impl TreeSettings {
    /// Reads the settings from the configuration.
    pub fn of(config: &Config) -> Result<Self, WorkError> {
        Ok(TreeSettings { rules: StatRules::of(config)?, names: NameRules::of(config)? })
    }
}

/// The files of a work tree.
#[derive(Debug)]
pub struct WorkTree {
    top: PathBuf,
    settings: TreeSettings,
    /// Checked real directories, without the last slash. Cleared when something is removed.
    real: BTreeSet<Vec<u8>>,
    /// The current directory of the process, which is never removed: its user would be nowhere.
    current: Option<PathBuf>,
}

impl WorkTree {
    /// The work tree at `top`.
    pub fn new(top: &Path, settings: TreeSettings) -> Self {
        let current = std::env::current_dir().ok();
        WorkTree { top: top.to_owned(), settings, real: BTreeSet::new(), current }
    }

    /// Its top directory.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Its settings.
    pub fn settings(&self) -> &TreeSettings {
        &self.settings
    }

    /// Refuses a path that must not be in an index, with git's message.
    pub fn check_path(&self, path: &[u8], is_link: bool) -> Result<(), WorkError> {
        match self.settings.names.allow(path, is_link) {
            true => Ok(()),
            false => Err(WorkError::Refused(format!("invalid path '{}'", String::from_utf8_lossy(path)))),
        }
    }

    /// The metadata at a path; `None` if nothing exists, or a parent is not a directory.
    pub fn look(&mut self, path: &[u8]) -> Result<Option<Seen>, WorkError> {
        match self.is_in_real_directory(path)? {
            true => seen(&self.place(path)),
            false => Ok(None),
        }
    }

    /// The content of a file, or the target of a link.
    pub fn read(&self, path: &[u8], is_link: bool) -> Result<Vec<u8>, WorkError> {
        let place = self.place(path);
        let content = match is_link {
            true => std::fs::read_link(&place).map(|target| target.as_os_str().as_bytes().to_vec()),
            false => packrace_os::read_file(&place, Role::WorkTree, u64::MAX - 1),
        };
        content.map_err(|error| WorkError::io(&place, error))
    }

    /// Writes this content to `path`, replacing whatever exists there or is in the way; for a submodule,
    /// creates a directory. Returns the metadata for the index.
    pub fn write(&mut self, path: &[u8], item: &TreeItem, content: &[u8]) -> Result<StatData, WorkError> {
        self.check_path(path, item.mode == Mode::Link)?;
        self.make_directories(path)?;
        let place = self.place(path);
        let there = seen(&place)?;
        if item.mode == Mode::Gitlink {
            match there {
                Some(found) if found.kind == Kind::Dir => {}
                Some(_) => {
                    self.remove_whole(&place)?;
                    self.make_dir(&place)?;
                }
                None => self.make_dir(&place)?,
            }
            return Ok(StatData::default());
        }
        let is_link = item.mode == Mode::Link && self.settings.rules.has_links;
        // A file in place of a file replaces it when it is whole: on a full disk, the old one stays.
        let replaces = there.as_ref().is_some_and(|found| found.kind != Kind::Dir) && !is_link;
        if there.is_some() && !replaces {
            self.remove_whole(&place)?;
        }
        if is_link {
            if content.len() > MAX_LINK_BYTES || content.contains(&0) {
                let what = String::from_utf8_lossy(path);
                return Err(WorkError::Refused(format!(
                    "unable to create symlink {what}: File name too long"
                )));
            }
            durable::make_link(Path::new(OsStr::from_bytes(content)), &place, Role::WorkTree)
                .map_err(|error| WorkError::io(&place, error))?;
        } else {
            let mode = if item.mode == Mode::Executable { 0o777 } else { 0o666 };
            let file = match place.parent() {
                Some(dir) if replaces => NewFile::create_temporary(dir, TEMPORARY, mode, Role::WorkTree),
                _ => NewFile::create(&place, mode, Role::WorkTree),
            };
            let written = file.and_then(|mut file| {
                file.write(content)?;
                if replaces { file.replace(&place) } else { file.keep() }
            });
            written.map_err(|error| WorkError::io(&place, error))?;
        }
        let found = seen(&place)?;
        let found = found.ok_or_else(|| WorkError::io(&place, std::io::ErrorKind::NotFound.into()))?;
        Ok(found.stat)
    }

    /// Removes the file or link at a path, and parent directories that become empty, except the current one. Does not
    /// remove a directory at the path.
    pub fn remove(&mut self, path: &[u8]) -> Result<(), WorkError> {
        self.check_path(path, false)?;
        if !self.is_in_real_directory(path)? {
            return Ok(());
        }
        let place = self.place(path);
        match seen(&place)? {
            Some(found) if found.kind == Kind::Dir => return Ok(()),
            Some(_) => {
                durable::remove_file(&place, Role::WorkTree).map_err(|error| WorkError::io(&place, error))?;
            }
            None => {}
        }
        self.remove_empty_above(path)
    }

    /// Whether this is the current directory of the process.
    fn is_current(&self, place: &Path) -> bool {
        self.current.as_deref() == Some(place)
    }

    /// Removes an empty directory, such as that of a deleted submodule, and parent directories that become
    /// empty. The current directory stays.
    pub fn remove_directory(&mut self, path: &[u8]) -> Result<(), WorkError> {
        self.check_path(path, false)?;
        if !self.is_in_real_directory(path)? {
            return Ok(());
        }
        let place = self.place(path);
        if self.is_current(&place) {
            return Ok(());
        }
        self.real.clear();
        durable::remove_empty_dir(&place, Role::WorkTree).map_err(|error| WorkError::io(&place, error))?;
        self.remove_empty_above(path)
    }

    fn remove_empty_above(&mut self, path: &[u8]) -> Result<(), WorkError> {
        let mut rest = path;
        while let Some(end) = rest.iter().rposition(|byte| *byte == b'/') {
            rest = &rest[..end];
            let directory = self.place(rest);
            if self.is_current(&directory) {
                break;
            }
            durable::remove_empty_dir(&directory, Role::WorkTree)
                .map_err(|error| WorkError::io(&directory, error))?;
            if seen(&directory)?.is_some() {
                break;
            }
            self.real.remove(rest);
        }
        Ok(())
    }

    /// The names in a real directory, sorted.
    pub fn entries(&self, path: &[u8]) -> Result<Vec<DirEntry>, WorkError> {
        let place = self.place(path);
        packrace_os::list_dir(&place, Role::WorkTree).map_err(|error| WorkError::io(&place, error))
    }

    /// The file system path for a path of the index. Checks nothing.
    pub(crate) fn place(&self, path: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(path))
    }

    /// Whether a file or a link is where a parent directory of a path has to be.
    pub(crate) fn is_below_file(&mut self, path: &[u8]) -> Result<bool, WorkError> {
        for above in directories_above(path) {
            match self.look(above)? {
                Some(found) if found.kind == Kind::Dir => {}
                found => return Ok(found.is_some()),
            }
        }
        Ok(false)
    }

    /// Whether all parent directories of a path are real, not links.
    fn is_in_real_directory(&mut self, path: &[u8]) -> Result<bool, WorkError> {
        for above in directories_above(path) {
            if self.real.contains(above) {
                continue;
            }
            match seen(&self.place(above))? {
                Some(found) if found.kind == Kind::Dir => self.real.insert(above.to_vec()),
                _ => return Ok(false),
            };
        }
        Ok(true)
    }

    /// Creates the parent directories of a path, replacing what is in the way.
    fn make_directories(&mut self, path: &[u8]) -> Result<(), WorkError> {
        for above in directories_above(path) {
            if self.real.contains(above) {
                continue;
            }
            let place = self.place(above);
            match seen(&place)? {
                Some(found) if found.kind == Kind::Dir => {}
                Some(_) => {
                    self.remove_whole(&place)?;
                    self.make_dir(&place)?;
                }
                None => self.make_dir(&place)?,
            }
            self.real.insert(above.to_vec());
        }
        Ok(())
    }

    fn make_dir(&self, place: &Path) -> Result<(), WorkError> {
        let made = durable::make_dir(place, |mode| mode, Role::WorkTree);
        made.map(drop).map_err(|error| WorkError::io(place, error))
    }

    /// Removes a file, a link, or a directory with its content.
    fn remove_whole(&mut self, place: &Path) -> Result<(), WorkError> {
        self.real.clear();
        remove_whole(place).map_err(|error| WorkError::io(place, error))
    }
}

fn seen(place: &Path) -> Result<Option<Seen>, WorkError> {
    look(place).map_err(|error| WorkError::io(place, error))
}

/// Descends without following links, and not deeper than any path that a system accepts. Keeps other
/// repositories.
fn remove_whole(place: &Path) -> std::io::Result<()> {
    let is_directory = std::fs::symlink_metadata(place)?.is_dir();
    if !is_directory {
        return durable::remove_file(place, Role::WorkTree).map(drop);
    }
    let entries = packrace_os::list_dir(place, Role::WorkTree)?;
    if entries.iter().any(|entry| entry.name == ".git") {
        return Err(std::io::Error::new(std::io::ErrorKind::DirectoryNotEmpty, "a repository is in the way"));
    }
    for entry in entries {
        let inside = place.join(&entry.name);
        match entry.kind {
            EntryType::Dir => remove_whole(&inside)?,
            _ => {
                durable::remove_file(&inside, Role::WorkTree)?;
            }
        }
    }
    durable::remove_empty_dir(place, Role::WorkTree)
}

#[cfg(test)]
mod tests;
