//! Whether a repository of another owner may be trusted (git-config, "safe.directory").

use std::path::Path;

use super::discovery::{Found, join};
use crate::config::Config;
use crate::error::{Error, Reason};

/// The repository belongs to us, or protected configuration names its git directory in `safe.directory`.
pub(super) fn check(found: &Found, config: &Config, home: Option<&Path>) -> Result<(), Error> {
    let user = packrace_os::process::effective_user();
    let is_ours = |path: &Path| {
        packrace_os::owner(path).map(|owner| owner == user).map_err(|error| Error::io(path, error))
    };
    let gitfile_is_ours = found.gitfile.as_deref().map_or(Ok(true), is_ours)?;
    if gitfile_is_ours && is_ours(&found.git_dir)? {
        return Ok(());
    }
    let real = packrace_os::real_path(&found.git_dir).map_err(|error| Error::io(&found.git_dir, error))?;
    let mut is_safe = false;
    for value in config.protected_strings("safe.directory") {
        // An empty value forgets what came before.
        is_safe = !value.is_empty() && (is_safe || covers(&value, &real, home));
    }
    if is_safe {
        return Ok(());
    }
    let path = real.display();
    Err(Reason::Refused(format!(
        "detected dubious ownership in repository at '{path}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {path}"
    ))
    .into())
}

/// Whether one value of `safe.directory` covers `path`.
fn covers(value: &[u8], path: &Path, home: Option<&Path>) -> bool {
    if value == b"*" {
        return true;
    }
    let named = match (value.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => join(home, rest),
        _ => join(Path::new(""), value),
    };
    if !named.is_absolute() {
        if value != b"." {
            tracing::warn!("safe.directory '{}' not absolute", String::from_utf8_lossy(value));
        }
        return false;
    }
    if value.ends_with(b"/*") {
        let Some(parent) = named.parent() else { return false };
        let is_below = |parent: &Path| path.starts_with(parent) && path != parent;
        return is_below(parent) || packrace_os::real_path(parent).is_ok_and(|parent| is_below(&parent));
    }
    path == named || packrace_os::real_path(&named).is_ok_and(|named| path == named)
}
