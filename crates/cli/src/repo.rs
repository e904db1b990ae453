//! `packrace repo`: manages the repositories of a served folder.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use packrace_commands::{Call, Fatal, harmless, in_directory};
use packrace_server::repositories::{CreateOptions, RepositoryError, RepositoryFolder, RepositoryName};

use crate::args::{Repo, RepoCommand, RepoCreate, RepoDelete, RepoDescribe, RepoList, RepoRename};
use crate::serve;

pub fn run(call: &Call, args: &Repo) -> Result<(), Fatal> {
    match &args.command {
        RepoCommand::Create(args) => create(call, args),
        RepoCommand::List(args) => list(call, args),
        RepoCommand::Delete(args) => delete(call, args),
        RepoCommand::Rename(args) => rename(call, args),
        RepoCommand::Describe(args) => describe(call, args),
    }
}

fn create(call: &Call, args: &RepoCreate) -> Result<(), Fatal> {
    let folder = folder(call, &args.root)?;
    let RepoCreate { object_format, ref_format, initial_branch, description, .. } = args;
    let [object_format, ref_format, branch] =
        [object_format, ref_format, initial_branch].map(Option::as_deref);
    let options = CreateOptions::parse(object_format, ref_format, branch, description.clone());
    let options = options.map_err(|error| fatal(&args.name, &error))?;
    let name = new_name(&args.name)?;
    let made = folder.create(&name, &serve::prototype(call)?, &options);
    let made = made.map_err(|error| fatal(&args.name, &error))?;
    warn_of_owner(&in_directory(call, &args.root)?, &made);
    print(call, &made, b"\n")
}

fn list(call: &Call, args: &RepoList) -> Result<(), Fatal> {
    let folder = folder(call, &args.root)?;
    let mut printed = Ok(());
    let listed = folder.list(None, &mut |found| {
        printed = match args.zero {
            true => print(call, &found.path, b"\0"),
            // A push may have created a name with terminal control characters.
            false => call.streams.write(format!("{}\n", harmless(&found.name())).as_bytes()),
        };
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.map_err(Fatal::new).and(printed)
}

fn delete(call: &Call, args: &RepoDelete) -> Result<(), Fatal> {
    let folder = folder(call, &args.root)?;
    let deleted = found(&folder, &args.name)
        .and_then(|found| folder.delete(&found, Timestamp::now()))
        .map_err(|error| fatal(&args.name.to_string_lossy(), &error))?;
    print(call, &deleted, b"\n")
}

fn rename(call: &Call, args: &RepoRename) -> Result<(), Fatal> {
    let folder = folder(call, &args.root)?;
    let old = found(&folder, &args.old).map_err(|error| fatal(&args.old.to_string_lossy(), &error))?;
    let name = new_name(&args.new)?;
    let renamed = folder.rename(&old, &name).map_err(|error| match error {
        RepositoryError::Taken | RepositoryError::Invalid(_) => fatal(&args.new, &error),
        _ => fatal(&args.old.to_string_lossy(), &error),
    })?;
    print(call, &renamed, b"\n")
}

fn describe(call: &Call, args: &RepoDescribe) -> Result<(), Fatal> {
    let folder = folder(call, &args.root)?;
    let failed = |error: RepositoryError| fatal(&args.name.to_string_lossy(), &error);
    let found = found(&folder, &args.name).map_err(failed)?;
    match &args.text {
        Some(text) => folder.describe(&found, text).map_err(failed),
        None => match folder.description(&found).map_err(failed)? {
            Some(text) => call.streams.write(format!("{text}\n").as_bytes()),
            None => Err(Fatal::silent(1)),
        },
    }
}

fn folder(call: &Call, root: &Path) -> Result<RepositoryFolder, Fatal> {
    let path = in_directory(call, root)?;
    RepositoryFolder::new(&path).map_err(|error| Fatal::new(format!("{}: {error}", path.display())))
}

fn new_name(text: &str) -> Result<RepositoryName, Fatal> {
    RepositoryName::new(text).map_err(|error| fatal(text, &error))
}

fn found(folder: &RepositoryFolder, name: &OsStr) -> Result<PathBuf, RepositoryError> {
    folder.find(name.as_bytes())
}

/// The error of a command; exit code 1 means "no".
fn fatal(name: &str, error: &RepositoryError) -> Fatal {
    let text = format!("'{}': {error}", name.escape_debug());
    match error {
        RepositoryError::NotFound | RepositoryError::Taken => Fatal::error(text),
        _ => Fatal::new(text),
    }
}

/// Warns if the new repository's owner differs from the served folder's.
fn warn_of_owner(root: &Path, made: &Path) {
    let owner = |path: &Path| packrace_os::owner(path).ok();
    let (of_root, of_made) = (owner(root), owner(&root.join(made)));
    if of_root != of_made {
        eprint_line!(
            "warning: '{}' does not belong to the owner of the folder: \
             a server that runs as another user will not serve it",
            made.display()
        );
    }
}

fn print(call: &Call, path: &Path, end: &[u8]) -> Result<(), Fatal> {
    call.streams.write(&[path.as_os_str().as_bytes(), end].concat())
}
