//! Hands a command line to git, for what only git does, or to `packrace`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that were taken for git and led back here, as in `PATH`. Each is started once, so a program that stands in
/// for git with packrace is no loop.
const TRIED: &str = "PACKRACE_TRIED_GIT";

/// No such file or directory (errno(3)).
const ENOENT: i32 = 2;

/// Git without arguments, if there is one.
pub fn git() -> Option<Command> {
    let (git, tried) = find().ok().flatten()?;
    let mut command = Command::new(git);
    command.env(TRIED, tried);
    Some(command)
}

/// Replaces this process with git, which gets these arguments. Returns only if it cannot be started: why.
pub fn to_git(arguments: &[OsString]) -> io::Error {
    match find() {
        Ok(Some((git, tried))) => Command::new(git).args(arguments).env(TRIED, tried).exec(),
        Ok(None) => io::Error::from_raw_os_error(ENOENT),
        Err(error) => error,
    }
}

/// Replaces this process with the `packrace` beside it, or else in `PATH`. Returns only if it cannot be started: why.
pub fn to_packrace(arguments: &[OsString]) -> io::Error {
    let found = own_path().map(|own| {
        let beside = own.parent().map(Path::to_owned);
        others("packrace", &own, beside).next()
    });
    match found {
        Ok(Some((packrace, _))) => Command::new(packrace).args(arguments).exec(),
        Ok(None) => io::Error::from_raw_os_error(ENOENT),
        Err(error) => error,
    }
}

/// The first `git` in `PATH` that is not this program and was not tried, and what has been tried with it.
fn find() -> io::Result<Option<(PathBuf, OsString)>> {
    let tried = std::env::var_os(TRIED).unwrap_or_default();
    let mut tried: Vec<PathBuf> = std::env::split_paths(&tried).collect();
    let found = others("git", &own_path()?, None).find(|(_, real)| !tried.contains(real));
    let Some((git, real)) = found else { return Ok(None) };
    tried.push(real);
    let tried = std::env::join_paths(tried).map_err(io::Error::other)?;
    Ok(Some((git, tried)))
}

/// Where this program is, without links.
fn own_path() -> io::Result<PathBuf> {
    packrace_os::real_path(&std::env::current_exe()?)
}

/// The programs of this name in a directory and in `PATH`, each with its path without links, except links to the one at `own`.
fn others(name: &str, own: &Path, first: Option<PathBuf>) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = first.into_iter().chain(std::env::split_paths(&path)).collect();
    let found = directories.into_iter().map(move |directory| directory.join(name));
    let found = found.filter_map(|program| Some((packrace_os::real_path(&program).ok()?, program)));
    found.filter(move |(real, _)| real != own).map(|(real, program)| (program, real))
}
