//! The optional files of a new repository (git-init, "TEMPLATE DIRECTORY").

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::EntryType;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::{make_dir, sync_dirs};
use crate::config::{Config, ConfigSources};
use crate::error::Error;
use crate::publish::{Component, WritePolicy};
use crate::repository::{RepositoryFormat, including};

/// Longest template file that is read.
const MAX_TEMPLATE_BYTES: u64 = 64 << 20;

/// The source of the files of a new repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// No files.
    Empty,
    /// The few files that packrace includes.
    BuiltIn,
    /// All files below this directory whose names do not begin with a dot.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its name in warnings.
        shown: PathBuf,
    },
}

const BUILT_IN: [(&str, &str); 2] = [
    ("description", "Unnamed repository; write here what it is, for those who list repositories.\n"),
    (
        "info/exclude",
        "# Files of this clone that git shall not track: one pattern a line, as in .gitignore.\n\
         # Unlike .gitignore, this file is not part of any commit.\n",
    ),
];

const BUILT_IN_DIRS: [&str; 2] = ["hooks", "info"];

/// Copies files that do not exist yet.
pub(super) fn copy(template: &Template, git_dir: &Path, policy: WritePolicy) -> Result<(), Error> {
    match template {
        Template::Empty => Ok(()),
        Template::BuiltIn => {
            for dir in BUILT_IN_DIRS {
                make_dir(&git_dir.join(dir), policy)?;
            }
            for (name, text) in BUILT_IN {
                let path = git_dir.join(name);
                if !is_there(&path) {
                    write(&path, text.as_bytes(), 0o666, policy)?;
                }
            }
            sync_dirs(&[&git_dir.join("hooks"), &git_dir.join("info")], policy)
        }
        Template::Directory { path, shown } => {
            if packrace_os::list_dir(path, Role::Config).is_err() {
                tracing::warn!("templates not found in {}", shown.display());
                return Ok(());
            }
            if let Err(error) = check_format(path) {
                tracing::warn!("not copying templates from '{}': {error}", shown.display());
                return Ok(());
            }
            copy_dir(path, git_dir, policy)
        }
    }
}

/// If a template has a configuration, we must know its formats.
fn check_format(template: &Path) -> Result<(), Error> {
    let mut config = Config::outside(&ConfigSources::default())?;
    config.add_local(template, including(template))?;
    RepositoryFormat::of(&config).map(drop)
}

/// Copies the contents of an existing directory. A template belongs to the user: its depth is limited only
/// by the length of a path.
fn copy_dir(from: &Path, to: &Path, policy: WritePolicy) -> Result<(), Error> {
    let entries = packrace_os::list_dir(from, Role::Config).map_err(|error| Error::io(from, error))?;
    for entry in entries.iter().filter(|entry| !entry.name.as_bytes().starts_with(b".")) {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        let io = |error| Error::io(&from, error);
        match entry.kind {
            EntryType::Dir => {
                make_dir(&to, policy)?;
                copy_dir(&from, &to, policy)?;
            }
            _ if is_there(&to) => {}
            EntryType::Symlink => {
                let target = packrace_os::read_link(&from, Role::Config).map_err(io)?;
                let target = target.unwrap_or_default();
                durable::make_link(&target, &to, Role::Config).map_err(|error| Error::io(&to, error))?;
            }
            EntryType::File => {
                let is_run = packrace_os::mode(&from, Role::Config).map_err(io)? & 0o100 != 0;
                let bytes = packrace_os::read_file_anywhere(&from, Role::Config, MAX_TEMPLATE_BYTES);
                let bytes = bytes.map_err(io)?;
                write(&to, &bytes, if is_run { 0o777 } else { 0o666 }, policy)?;
            }
            EntryType::Other => tracing::error!("ignoring template {}", from.display()),
        }
    }
    sync_dirs(&[to], policy)
}

fn is_there(path: &Path) -> bool {
    packrace_os::owner(path).is_ok()
}

/// If the process is killed, either the whole file exists or nothing that counts.
fn write(path: &Path, bytes: &[u8], mode: u32, policy: WritePolicy) -> Result<(), Error> {
    let io = |error| Error::io(path, error);
    let dir = crate::publish::dir_of(path);
    let mut file = NewFile::create_temporary(dir, "tmp_init_", mode, Role::Config).map_err(io)?;
    file.change_mode(|mode| policy.file_mode(mode)).map_err(io)?;
    file.write(bytes).map_err(io)?;
    if policy.syncs(Component::Reference) {
        file.sync().map_err(io)?;
    }
    file.publish(path).map(drop).map_err(io)
}
