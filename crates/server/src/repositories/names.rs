//! Valid names of repositories.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::RepositoryError;

/// The prefix of the server's own files, in every folder: they are neither served nor listed.
const RESERVED: &[u8] = b".packrace-";

/// The longest name, with its folders.
const MAX_NAME_BYTES: usize = 1024;

/// The longest part of a path that common file systems take.
const MAX_PART_BYTES: usize = 255;

/// How deep in folders repositories may be.
pub(super) const MAX_DEPTH: usize = 16;

/// The longest description.
pub const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Whether a part of a path is the server's own.
pub(crate) fn is_reserved(part: &[u8]) -> bool {
    part.starts_with(RESERVED)
}

/// The name of a new repository: a path below the served folder that ends in `.git`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryName(PathBuf);

impl RepositoryName {
    /// Takes a name with or without `.git` at its end; adds `.git` if it is missing.
    pub fn new(text: &str) -> Result<Self, RepositoryError> {
        let refused = |why: &str| Err(RepositoryError::Invalid(format!("repository name {why}")));
        let name = if text.ends_with(".git") { text.to_owned() } else { format!("{text}.git") };
        if text.is_empty() {
            return refused("cannot be empty");
        }
        if name.len() > MAX_NAME_BYTES {
            return refused(&format!("must not exceed {MAX_NAME_BYTES} bytes"));
        }
        if text.chars().any(char::is_control) {
            return refused("must not have control characters");
        }
        if text.starts_with('/') {
            return refused("must not start with a slash");
        }
        if text.starts_with('-') {
            return refused("must not start with a dash");
        }
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > MAX_DEPTH {
            return refused(&format!("must not have more than {MAX_DEPTH} parts"));
        }
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            if let Some(why) = why_not(part, is_last) {
                return refused(why);
            }
        }
        Ok(RepositoryName(PathBuf::from(name)))
    }

    /// The path below the served folder.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The same as bytes, as access rules match it.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }
}

/// Why a part of a name is invalid.
fn why_not(part: &str, is_last: bool) -> Option<&'static str> {
    let stem = part.strip_suffix(".git").filter(|_| is_last).unwrap_or(part);
    match stem {
        _ if part.eq_ignore_ascii_case(".git") => Some("must not have a part .git"),
        "" => Some("must not have an empty part"),
        "." | ".." => Some("must not have a part . or .."),
        // Its folder would look like a repository.
        "HEAD" if !is_last => Some("must not have a part HEAD"),
        _ if is_reserved(part.as_bytes()) => Some("must not have a part that starts with .packrace-"),
        _ if stem.ends_with(".lock") => Some("must not have a part that ends in .lock"),
        _ if !is_last && part.ends_with(".git") => {
            Some("must have .git only at its end: repositories are not nested")
        }
        _ if part.len() > MAX_PART_BYTES => Some("must not have a part longer than 255 bytes"),
        _ => None,
    }
}

/// The name of a repository that may exist, without slashes at its ends; `None` for names that are never
/// served.
pub(super) fn existing(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_prefix(b"/").unwrap_or(name);
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let is_bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || is_reserved(part);
    let is_good = !name.contains(&0) && !name.split(|byte| *byte == b'/').any(is_bad);
    is_good.then_some(name)
}

/// Refuses texts that are not one line.
pub(super) fn check_description(text: &str) -> Result<(), RepositoryError> {
    let why = match () {
        () if text.len() > MAX_DESCRIPTION_BYTES => {
            format!("description must not exceed {MAX_DESCRIPTION_BYTES} bytes")
        }
        () if text.chars().any(char::is_control) => {
            "description must be one line without control characters".to_owned()
        }
        () => return Ok(()),
    };
    Err(RepositoryError::Invalid(why))
}
