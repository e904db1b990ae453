//! Announcements: changes that are about to happen, each in a file until its line is written.

use std::io;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{list_dir, read_file_anywhere};

use crate::event::JournalEvent;

/// File name prefix of announcements.
const PREFIX: &str = "pending-";

/// Largest announcement: a push of some million refs.
const MAX_BYTES: u64 = 1 << 30;

/// An announced event whose process was killed. The refs show whether it happened.
#[derive(Debug)]
pub struct Unfinished {
    /// The announced event.
    pub event: JournalEvent,
    pub(crate) path: PathBuf,
}

/// The path of an announcement.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number}"))
}

/// Writes an announcement. It is not synced: it must survive kills, not power cuts.
pub(crate) fn write(path: &Path, event: &JournalEvent) -> io::Result<()> {
    let mut file = NewFile::create(path, 0o600, Role::Config)?;
    file.write(&serde_json::to_vec(event).map_err(io::Error::other)?)?;
    file.keep()
}

/// Removes an announcement whose line is written, or that came to nothing.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = durable::remove_file(path, Role::Config) {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

/// The remaining announcements, oldest first, and the next free number. Files that a power cut damaged are
/// removed: their changes were never reported.
pub(crate) fn left(dir: &Path) -> io::Result<(Vec<Unfinished>, u64)> {
    let mut found = Vec::new();
    for entry in list_dir(dir, Role::Config)? {
        let name = entry.name.to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix(PREFIX).and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        let path = dir.join(&name);
        let bytes = read_file_anywhere(&path, Role::Config, MAX_BYTES)?;
        match serde_json::from_slice(&bytes) {
            Ok(event) => found.push((number, Unfinished { event, path })),
            Err(error) => {
                tracing::warn!("{}: removed an incomplete announcement: {error}", path.display());
                remove(&path);
            }
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    let next = found.last().map_or(0, |(number, _)| number.saturating_add(1));
    Ok((found.into_iter().map(|(_, unfinished)| unfinished).collect(), next))
}
