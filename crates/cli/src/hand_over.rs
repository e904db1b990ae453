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

/// Whether there is a git to hand over to.
pub fn is_there() -> bool {
    matches!(find(), Ok(Some(_)))
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
    let own = match std::env::current_exe().and_then(|own| packrace_os::real_path(&own)) {
        Ok(own) => own,
        Err(error) => return error,
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = own.parent().map(Path::to_owned);
    let mut all = beside.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join("packrace"));
    // A link to this program is no other one.
    match all.find(|packrace| packrace_os::real_path(packrace).is_ok_and(|real| real != own)) {
        Some(packrace) => Command::new(packrace).args(arguments).exec(),
        None => io::Error::from_raw_os_error(ENOENT),
    }
}

/// The first `git` in `PATH` that is not this program and was not tried, and what has been tried with it.
fn find() -> io::Result<Option<(PathBuf, OsString)>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tried = std::env::var_os(TRIED).unwrap_or_default();
    let mut tried: Vec<PathBuf> = std::env::split_paths(&tried).collect();
    let own = packrace_os::real_path(&std::env::current_exe()?)?;
    for git in std::env::split_paths(&path).map(|dir| dir.join("git")) {
        let Ok(real) = packrace_os::real_path(&git) else { continue };
        if real != own && !tried.contains(&real) {
            tried.push(real);
            let tried = std::env::join_paths(tried).map_err(io::Error::other)?;
            return Ok(Some((git, tried)));
        }
    }
    Ok(None)
}
