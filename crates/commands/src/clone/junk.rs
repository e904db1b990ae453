//! Nothing stays of a clone that fails, or that somebody breaks off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packrace_os::EntryType;
use packrace_os::clock::sleep;
use packrace_os::count::Role;
use packrace_os::durable;

use super::place::CloneTarget;

/// How often what somebody is still writing is removed again, and how long after.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// What is removed unless it is kept.
pub struct Junk(Unfinished);

/// A handle on a clone under way, for signal handlers.
#[derive(Clone)]
pub struct Unfinished(Arc<Mutex<JunkState>>);

impl Unfinished {
    /// Removes what was written so far, unless the clone is complete. While the returned guard is held, the clone can neither
    /// complete nor fail.
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
    /// Whether only what is in it is ours.
    was_there: bool,
    is_kept: bool,
}

impl Junk {
    /// Removes what is at this place from now on when it is dropped.
    pub fn begin(place: &CloneTarget) -> Self {
        let state = JunkState { path: place.path.clone(), was_there: place.is_there, is_kept: false };
        Junk(Unfinished(Arc::new(Mutex::new(state))))
    }

    /// A handle for signal handlers.
    pub fn unfinished(&self) -> Unfinished {
        self.0.clone()
    }

    /// It is no junk.
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
                // Somebody may be writing there still.
                Err(_) => sleep(PAUSE),
            }
        }
    }
}

/// Removes what is in a directory, and itself if that is asked for; links, not what they lead to.
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
