//! Removes a clone that fails or is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packrace_os::EntryType;
use packrace_os::clock::sleep;
use packrace_os::count::Role;
use packrace_os::durable;

use super::place::CloneTarget;

/// How often removal is retried while another process still writes, and the pause in between.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Files to remove unless they are kept.
pub struct Junk(Unfinished);

/// A handle to a running clone, for signal handlers.
#[derive(Clone)]
pub struct Unfinished(Arc<Mutex<JunkState>>);

impl Unfinished {
    /// Removes what was written so far, unless the clone is complete. While the returned guard is held, the
    /// clone can neither complete nor fail.
    pub fn remove(&self) -> impl Sized + '_ {
        let state = self.0.lock();
        if let Ok(state) = &state {
            state.remove();
        }
        state
    }
}

struct JunkState {
    path: PathBuf,
    /// Whether the directory existed before; then only its contents are removed.
    was_there: bool,
    is_kept: bool,
}

impl Junk {
    /// When dropped without [`Junk::keep`], removes what is at this place.
    pub fn begin(place: &CloneTarget) -> Self {
        let state = JunkState { path: place.path.clone(), was_there: place.is_there, is_kept: false };
        Junk(Unfinished(Arc::new(Mutex::new(state))))
    }

    /// A handle for signal handlers.
    pub fn unfinished(&self) -> Unfinished {
        self.0.clone()
    }

    /// Keeps the clone: it is complete.
    pub fn keep(self) {
        if let Ok(mut state) = self.0.0.lock() {
            state.is_kept = true;
        }
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        drop(self.0.remove());
    }
}

impl JunkState {
    fn remove(&self) {
        if self.is_kept {
            return;
        }
        for _ in 0..TRIES {
            match remove(&self.path, !self.was_there) {
                Ok(()) => return,
                // Another process may still write there.
                Err(_) => sleep(PAUSE),
            }
        }
    }
}

/// Removes a directory's contents, and optionally the directory; does not follow links.
fn remove(dir: &Path, with_itself: bool) -> std::io::Result<()> {
    let entries = match packrace_os::list_dir(dir, Role::Config) {
        Err(error) if packrace_os::is_absent(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        match entry.kind {
            EntryType::Dir => remove(&path, true)?,
            _ => drop(durable::remove_file(&path, Role::Config)?),
        }
    }
    if with_itself { durable::remove_empty_dir(dir, Role::Config) } else { Ok(()) }
}
