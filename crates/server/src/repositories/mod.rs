//! Repositories below a served folder: created, listed, described, renamed and deleted.
//!
//! Each change is one rename of one directory, and is synced before it is acknowledged:
//!
//! | change | rename |
//! |---|---|
//! | create | `PARENT/.packrace-new-…` to `PARENT/NAME.git`, complete by then |
//! | rename | `OLD.git` to `NEW.git` |
//! | delete | `NAME.git` to `.packrace-trash/TIME/NAME.git` |
//!
//! None of them replaces anything: of two requests for one name, one succeeds. After a power cut a repository
//! is at its old place or at its new one. A push that moves its objects and refs in holds the directory
//! meanwhile ([`HeldDir`]): then it is neither renamed nor deleted, and a push that began before a change
//! finds that its repository is gone. Running requests keep their open files and continue; files that they
//! open later by path are missing, and they end with an error, never with less than they announced.
//! `docs/decisions/0041-repositories.md`.

mod list;
mod names;
mod new;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile, ToSync};
use packrace_os::{HeldDir, is_absent, list_dir, reason};

use list::FolderKind;
pub use list::ListedRepository;
pub(crate) use names::is_reserved;
pub use names::{MAX_DESCRIPTION_BYTES, RepositoryName};
pub use new::CreateOptions;
pub(crate) use new::make_at;

use crate::settings::NewRepositories;

/// The folder of deleted repositories, below the served folder.
pub const TRASH: &str = ".packrace-trash";

/// The start of the templates of git and of packrace, for a repository without a description.
const NO_DESCRIPTION: &str = "Unnamed repository; ";

/// The most bytes that are read of a file `description`.
const MAX_DESCRIPTION_FILE_BYTES: u64 = 64 << 10;

/// Why a repository was not created, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// An invalid name or option.
    #[error("{0}")]
    Invalid(String),
    /// There is no repository of this name.
    #[error("no such repository")]
    NotFound,
    /// The name is taken, or a part of the path is a repository.
    #[error("name is taken, or part of it is")]
    Taken,
    /// It is not possible with this repository.
    #[error("{0}")]
    Refused(String),
    /// The repository could not be created.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// The system refused it.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl RepositoryError {
    fn disk(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::InvalidFilename {
            return RepositoryError::Invalid("name is too long for this file system".to_owned());
        }
        RepositoryError::Disk { path: path.to_owned(), source }
    }
}

/// A served folder, whose repositories are managed.
#[derive(Debug, Clone)]
pub struct RepositoryFolder {
    /// Without symbolic links.
    root: PathBuf,
}

impl RepositoryFolder {
    /// The folder at `path`.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(RepositoryFolder { root: packrace_os::real_path(path)? })
    }

    /// The place of a new repository: below this folder, with links resolved, and relative to it. Creates
    /// nothing.
    pub fn place(&self, name: &RepositoryName) -> Result<PathBuf, RepositoryError> {
        let wanted = self.root.join(name.as_path());
        if packrace_os::owner(&wanted).is_ok() {
            return Err(RepositoryError::Taken);
        }
        // The part of the path that exists.
        let there = wanted.ancestors().skip(1).find(|dir| packrace_os::owner(dir).is_ok());
        let there = there.unwrap_or(&self.root);
        let real = packrace_os::real_path(there).map_err(|error| RepositoryError::disk(there, error))?;
        let Ok(below) = real.strip_prefix(&self.root) else {
            return Err(RepositoryError::Refused(
                "path has a symbolic link that leads out of the served folder".to_owned(),
            ));
        };
        let parts = below.components().map(|part| part.as_os_str().as_bytes());
        if parts.clone().any(is_reserved) {
            return Err(RepositoryError::Refused(
                "path has a symbolic link to something that is not served".to_owned(),
            ));
        }
        let rest = wanted.strip_prefix(there).unwrap_or(name.as_path());
        let is_there = |path: &Path| packrace_os::owner(path).is_ok();
        let mut above = real.ancestors().take_while(|dir| dir.starts_with(&self.root));
        if above.any(|dir| is_there(&dir.join("HEAD")) || is_there(&dir.join(".git"))) {
            return Err(RepositoryError::Taken);
        }
        Ok(below.join(rest))
    }

    /// Creates an empty bare repository, and returns its path below the folder.
    pub fn create(
        &self,
        name: &RepositoryName,
        prototype: &NewRepositories,
        options: &CreateOptions,
    ) -> Result<PathBuf, RepositoryError> {
        let place = self.place(name)?;
        let new = options.applied_to(prototype);
        self.make_parents(&place)?;
        make_at(&self.root.join(&place), &new, options.description())?;
        Ok(place)
    }

    /// The path below the folder of the repository of this name: with `.git` or without.
    pub fn find(&self, name: &[u8]) -> Result<PathBuf, RepositoryError> {
        let name = names::existing(name).ok_or(RepositoryError::NotFound)?;
        for suffix in ["", ".git"] {
            let relative = PathBuf::from(OsStr::from_bytes(&[name, suffix.as_bytes()].concat()));
            let path = self.root.join(&relative);
            let real = match packrace_os::real_path(&path) {
                Ok(real) => real,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(RepositoryError::disk(&path, error)),
            };
            let entries = match list_dir(&real, Role::Config) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(RepositoryError::disk(&real, error)),
            };
            match FolderKind::of(&entries) {
                FolderKind::Other => {}
                _ if real != path => {
                    return Err(RepositoryError::Refused("repository is behind a symbolic link".to_owned()));
                }
                FolderKind::WorkTree => {
                    return Err(RepositoryError::Refused("repository has a work tree".to_owned()));
                }
                FolderKind::Bare => return Ok(relative),
            }
        }
        Err(RepositoryError::NotFound)
    }

    /// Moves the repository at `found` into the trash, and returns its new path, relative to the folder.
    pub fn delete(&self, found: &Path, now: Timestamp) -> Result<PathBuf, RepositoryError> {
        let trash = self.root.join(TRASH);
        let mode = packrace_os::mode(&self.root, Role::Config);
        let mode = mode.map_err(|error| RepositoryError::disk(&self.root, error))?;
        // Folders above the repository may have restricted access to it, and are not moved.
        let mode = if mode & 0o020 == 0 { 0o700 } else { mode & !0o007 };
        make_dir(&trash, |_| mode)?;
        if !packrace_os::real_path(&trash).is_ok_and(|real| real == trash) {
            return Err(RepositoryError::Refused(format!("{TRASH} is a symbolic link")));
        }
        let time = now.strftime("%Y-%m-%dT%H%M%SZ").to_string();
        for number in 1u32.. {
            let suffix = if number > 1 { format!("-{number}") } else { String::new() };
            let dated = Path::new(TRASH).join(format!("{time}{suffix}"));
            // Each deleted repository gets its own folder.
            if make_dir(&self.root.join(&dated), |_| mode)? {
                let kept = dated.join(found);
                // The folders of the new place are durable before anything moves.
                let ready = sync(&[&self.root, &trash]).and_then(|()| self.make_parents(&kept));
                let moved = ready.and_then(|()| self.move_to(found, &kept));
                if moved.is_err() {
                    self.remove_empty_above(&kept);
                }
                return moved.map(|()| kept);
            }
        }
        Err(RepositoryError::Taken)
    }

    /// Renames the repository at `found`, and returns its new path below the folder.
    pub fn rename(&self, found: &Path, name: &RepositoryName) -> Result<PathBuf, RepositoryError> {
        let place = self.place(name)?;
        self.make_parents(&place)?;
        self.move_to(found, &place)?;
        Ok(place)
    }

    /// The description of the repository at `found`: see [`description_in`].
    pub fn description(&self, found: &Path) -> Result<Option<String>, RepositoryError> {
        description_in(&self.root.join(found))
    }

    /// Writes its description: the file has the old text or the new one, even after a power cut.
    pub fn describe(&self, found: &Path, text: &str) -> Result<(), RepositoryError> {
        names::check_description(text)?;
        let dir = self.root.join(found);
        write_description(&dir, text).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RepositoryError::NotFound,
            _ => RepositoryError::disk(&dir.join("description"), error),
        })
    }

    /// Creates the folders above a path below this one, and makes their names durable.
    fn make_parents(&self, path: &Path) -> Result<(), RepositoryError> {
        let parents: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut changed = Vec::new();
        // From the highest down; the last of `parents` is this folder itself.
        for parent in parents.iter().rev().skip(1) {
            let dir = self.root.join(parent);
            if make_dir(&dir, |mode| mode)? {
                changed.extend(dir.parent().map(Path::to_owned));
            }
        }
        sync(&changed.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    }

    /// The rename of a change, and the syncs that make it durable.
    fn move_to(&self, from: &Path, to: &Path) -> Result<(), RepositoryError> {
        let (from, to) = (self.root.join(from), self.root.join(to));
        let held = HeldDir::open(&from).map_err(|error| match is_absent(&error) {
            true => RepositoryError::NotFound,
            false => RepositoryError::disk(&from, error),
        })?;
        if !held.hold_alone().map_err(|error| RepositoryError::disk(&from, error))? {
            return Err(match packrace_os::owner(&from) {
                Ok(_) => RepositoryError::Refused("repository is being changed; try again".to_owned()),
                Err(_) => RepositoryError::NotFound,
            });
        }
        match durable::move_dir_to_free(&from, &to, Role::Config) {
            Ok(true) => {}
            Ok(false) => return Err(RepositoryError::Taken),
            // It was moved meanwhile.
            Err(error) if packrace_os::owner(&from).is_err() && is_absent(&error) => {
                return Err(RepositoryError::NotFound);
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let text = "repository cannot be renamed without a copy: it is on another file system, \
                     or the kernel's Landlock is too old";
                return Err(RepositoryError::Refused(text.to_owned()));
            }
            Err(error) => return Err(RepositoryError::disk(&to, error)),
        }
        // The new name first: on a file system without a journal, a directory without its old name could be
        // lost.
        sync(&[to.parent().unwrap_or(&self.root)])?;
        sync(&[from.parent().unwrap_or(&self.root)])
    }

    /// Removes folders in the trash that were created for nothing.
    fn remove_empty_above(&self, kept: &Path) {
        for dir in kept.ancestors().skip(1).take_while(|dir| *dir != Path::new(TRASH)) {
            // An empty directory that remains is harmless.
            let _ = durable::remove_empty_dir(&self.root.join(dir), Role::Config);
        }
    }
}

/// The description in a git directory, as gitweb shows it: the first line of the file `description`, unless
/// it is that of git's template.
pub fn description_in(git_dir: &Path) -> Result<Option<String>, RepositoryError> {
    let path = git_dir.join("description");
    let read = packrace_os::read_file_without_following(&path, Role::Config, MAX_DESCRIPTION_FILE_BYTES);
    let text = match read {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(RepositoryError::disk(&path, error)),
    };
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_owned();
    Ok(Some(line).filter(|line| !line.is_empty() && !line.starts_with(NO_DESCRIPTION)))
}

fn write_description(dir: &Path, text: &str) -> io::Result<()> {
    let mode = packrace_os::mode(&dir.join("HEAD"), Role::Config)?;
    let mut file = NewFile::create_temporary(dir, "tmp_description_", 0o666, Role::Config)?;
    file.change_mode(|_| mode)?;
    file.write(format!("{text}\n").as_bytes())?;
    file.sync()?;
    file.replace(&dir.join("description"))?;
    durable::sync_dir(dir, Role::Config)
}

fn make_dir(path: &Path, change: impl FnOnce(u32) -> u32) -> Result<bool, RepositoryError> {
    match durable::make_dir(path, change, Role::Config) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(RepositoryError::Taken),
        // It may exist and be no folder.
        Ok(false) => {
            let found = packrace_os::identity(path, Role::Config);
            match found.map_err(|error| RepositoryError::disk(path, error))? {
                Some(found) if found.is_dir => Ok(false),
                _ => Err(RepositoryError::Taken),
            }
        }
        made => made.map_err(|error| RepositoryError::disk(path, error)),
    }
}

/// Makes the names in these folders durable.
fn sync(dirs: &[&Path]) -> Result<(), RepositoryError> {
    let dirs: std::collections::BTreeSet<&Path> = dirs.iter().copied().collect();
    let to_sync = dirs.into_iter().map(ToSync::Dir).collect();
    durable::sync_together(to_sync, Role::Config)
        .map_err(|failed| RepositoryError::disk(&failed.path, failed.source))
}

/// The system's error without the path, for clients that need not know it.
pub(crate) fn words_of(error: &RepositoryError) -> String {
    match error {
        RepositoryError::Disk { source, .. } => format!("server error: {}", reason(source)),
        RepositoryError::Store(_) => "server error".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
