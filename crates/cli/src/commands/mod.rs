//! One file a command.

pub mod add;
pub mod clone;
pub mod commit_graph;
pub mod commit_tree;
pub mod for_each_ref;
pub mod hash_object;
pub mod http_backend;
pub mod index_pack;
pub mod init;
pub mod man;
pub mod multi_pack_index;
mod pack_input;
pub mod pack_objects;
pub mod pack_refs;
mod packing;
mod pathspec_file;
pub mod receive_pack;
pub mod reflog;
pub mod refs;
pub mod repack;
pub mod serve;
pub mod show_ref;
pub mod stash;
pub mod symbolic_ref;
pub mod unpack_objects;
pub mod update_index;
pub mod update_ref;
pub mod upload_pack;
pub mod verify_pack;
pub mod warnings;
pub mod write_tree;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_store::Repository;

use crate::args::{self, Globals};
use crate::environment::Environment;
use crate::printable::harmless;

/// Why a command ends: text for `fatal: …` and an exit code.
#[derive(Debug)]
pub struct Fatal {
    pub message: String,
    pub code: u8,
}

impl Fatal {
    /// A failure.
    pub fn new(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 128 }
    }

    /// A failure that git reports with `error:` and exit code 1.
    pub fn error(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 1 }
    }

    /// An end with nothing more to say.
    pub fn silent(code: u8) -> Self {
        Fatal { message: String::new(), code }
    }

    /// Arguments that make no sense together: how the command is used is all that is said.
    pub fn usage_of(command: &str) -> Self {
        tell!("{}", args::usage_of(command).trim_end());
        Fatal { message: String::new(), code: 129 }
    }

    /// An option whose value makes no sense; nothing is said of how the command is used.
    pub fn usage_text(message: &str) -> Self {
        tell!("error: {message}");
        Fatal { message: String::new(), code: 129 }
    }

    /// Something that was asked for and is not offered.
    pub fn usage(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 129 }
    }
}

impl From<packrace_store::Error> for Fatal {
    fn from(error: packrace_store::Error) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_pack::Error> for Fatal {
    fn from(error: packrace_pack::Error) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_pack::maintain::pack_files::PackFilesError> for Fatal {
    fn from(error: packrace_pack::maintain::pack_files::PackFilesError) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_pack::ingest::Error> for Fatal {
    fn from(error: packrace_pack::ingest::Error) -> Self {
        let _ = std::io::stderr().write_all(error.lines());
        Fatal::new(error)
    }
}

impl From<packrace_worktree::index::IndexError> for Fatal {
    fn from(error: packrace_worktree::index::IndexError) -> Self {
        if let Some(cause) = error.cause() {
            tell!("error: {cause}");
        }
        Fatal::new(error)
    }
}

impl From<packrace_server::error::Error> for Fatal {
    fn from(error: packrace_server::error::Error) -> Self {
        Fatal::new(error)
    }
}

/// The repository of a command that names none: that of `--git-dir` or `GIT_DIR`, or the first that is found from the
/// current directory upwards (gitrepository-layout).
fn repository(globals: &Globals, environment: &Environment) -> Result<Repository, Fatal> {
    repository_at(globals, environment, None)
}

/// The same with another object directory.
fn repository_at(
    globals: &Globals,
    environment: &Environment,
    object_dir: Option<PathBuf>,
) -> Result<Repository, Fatal> {
    let found = repository_if_any(globals, environment, object_dir)?;
    found.ok_or_else(|| Fatal::new("not a git repository (or any of the parent directories): .git"))
}

/// The same for a command that can do without.
fn repository_if_any(
    globals: &Globals,
    environment: &Environment,
    object_dir: Option<PathBuf>,
) -> Result<Option<Repository>, Fatal> {
    let mut options = environment.open_options(globals)?;
    options.object_dir = object_dir.or(options.object_dir);
    options.strict = true;
    if let Some(path) = globals.git_dir.as_ref().or(environment.git_dir.as_ref()) {
        return Ok(Some(Repository::open(&in_directory(globals, path)?, &options)?));
    }
    // Whoever finds a repository by chance must not be made to follow what its owner has configured.
    options.check_ownership = true;
    let start = in_directory(globals, Path::new("."))?;
    let start = packrace_os::real_path(&start).map_err(Fatal::new)?;
    let is_there = |path: &Path| packrace_os::identity(path, Role::Config).is_ok_and(|found| found.is_some());
    for directory in start.ancestors() {
        let inside = directory.join(".git");
        if is_there(&inside) {
            return Ok(Some(Repository::open(&inside, &options)?));
        }
        if ["HEAD", "objects", "refs"].iter().all(|name| is_there(&directory.join(name))) {
            return Ok(Some(Repository::open(directory, &options)?));
        }
    }
    Ok(None)
}

/// Says what is wrong, and goes on.
fn tell_error(text: &str) {
    tell!("error: {}", harmless(text));
}

/// The hash of this name (git-init, `--object-format`), or why there is none.
fn hash_of_name(name: &str) -> Result<HashKind, String> {
    match name {
        "sha1" => Ok(HashKind::Sha1),
        "sha256" => Ok(HashKind::Sha256),
        other => Err(format!("unknown hash algorithm '{other}'")),
    }
}

/// A path as the `-C` options mean it.
pub fn in_directory(globals: &Globals, path: &Path) -> Result<PathBuf, Fatal> {
    let mut base = PathBuf::new();
    for directory in &globals.directories {
        base.push(directory);
        // An empty one means nothing, as in git.
        if !base.as_os_str().is_empty() {
            enter(&base)?;
        }
    }
    Ok(base.join(path))
}

fn enter(directory: &Path) -> Result<(), Fatal> {
    let cannot = |why: &dyn std::fmt::Display| {
        Err(Fatal::new(format!("cannot change to '{}': {why}", directory.display())))
    };
    match packrace_os::identity(directory, Role::Config) {
        Ok(Some(found)) if found.is_dir => Ok(()),
        Ok(Some(_)) => cannot(&"Not a directory"),
        Ok(None) => cannot(&"No such file or directory"),
        Err(error) => cannot(&error),
    }
}
