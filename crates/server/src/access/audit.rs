//! The audit log: a line of JSON for each ref that a push wanted to change, even if it was refused.
//!
//! ```json
//! {"time":"2026-11-23T10:00:00Z","session":"…","user":"alice","peer":"192.0.2.7:4711","repository":"/a.git",
//!  "ref":"refs/heads/main","old":"<id>","new":"<id>","outcome":"ok"}
//! ```
//!
//! `user` is null for anonymous clients. `outcome` is `ok`, or why the ref did not change, in the words that
//! the client got: from the rules, from a hook, or from git. Lines of one push are appended with one write;
//! they are not synced.
//!
//! And a line for each creation, renaming, description or deletion of a repository that succeeded, or that a
//! known user wanted:
//!
//! ```json
//! {"time":"…","session":"…","user":"alice","peer":"…","repository":"a.git","action":"rename","to":"b.git","outcome":"ok"}
//! ```
//!
//! `to` is the new name, or where a deleted repository is now.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::secret_file::LoadError;
use crate::transfers::Transfer;

/// A file to which pushes and changes of repositories are appended.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<File>,
}

/// A ref of a push, and its outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditedRef<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) old: packrace_object::ObjectId,
    pub(crate) new: packrace_object::ObjectId,
    /// Why it did not change; `None` if it did.
    pub(crate) error: Option<&'a str>,
}

/// A change of a whole repository, and its outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditedChange<'a> {
    /// The client's name for it.
    pub(crate) repository: &'a [u8],
    pub(crate) action: &'static str,
    pub(crate) to: Option<&'a str>,
    /// Why it did not happen; `None` if it did.
    pub(crate) error: Option<&'a str>,
}

impl AuditLog {
    /// Opens or creates a file, readable for its owner and group.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
        let file = file.map_err(|error| LoadError::of(path, error))?;
        Ok(AuditLog { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Appends the lines of a push. A failure is logged: refs have changed by then.
    pub(crate) fn push<'a>(&self, transfer: &Transfer, refs: impl Iterator<Item = AuditedRef<'a>>) {
        let time = Timestamp::now();
        let line = |AuditedRef { name, old, new, error }: AuditedRef<'_>| {
            let mut entry = entry(time, transfer, transfer.repository().into(), error);
            entry["ref"] = String::from_utf8_lossy(name).into();
            entry["old"] = old.to_string().into();
            entry["new"] = new.to_string().into();
            format!("{entry}\n")
        };
        self.append(&refs.map(line).collect::<String>());
    }

    /// Appends the line of a change. A failure is logged: it has happened by then.
    pub(crate) fn change(&self, transfer: &Transfer, change: AuditedChange<'_>) {
        let repository = String::from_utf8_lossy(change.repository);
        let mut entry = entry(Timestamp::now(), transfer, repository.into(), change.error);
        entry["action"] = change.action.into();
        if let Some(to) = change.to {
            entry["to"] = to.into();
        }
        self.append(&format!("{entry}\n"));
    }

    fn append(&self, lines: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(lines.as_bytes()) {
            tracing::error!("cannot write audit log {}: {error}", self.path.display());
        }
    }
}
/// The fields of every line.
fn entry(time: Timestamp, transfer: &Transfer, repository: Value, error: Option<&str>) -> Value {
    json!({
        "time": time.to_string(),
        "session": transfer.session_id(),
        "user": transfer.user(),
        "peer": transfer.peer(),
        "repository": repository,
        "outcome": error.unwrap_or("ok"),
    })
}
