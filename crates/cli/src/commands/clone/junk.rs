//! Nothing stays of a clone that fails, or that somebody breaks off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packrace_os::EntryType;
use packrace_os::clock::sleep;
use packrace_os::count::Role;
use packrace_os::durable;
use tokio::signal::unix::{SignalKind, signal};

use super::place::Place;
use crate::fatal::Fatal;

/// How often what somebody is still writing is removed again, and how long after.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// What is removed unless it is kept.
pub struct Junk(Arc<Mutex<State>>);

struct State {
    path: PathBuf,
    /// Whether only what is in it is ours.
    was_there: bool,
    is_kept: bool,
}

impl Junk {
    /// Removes what is at this place from now on when it is dropped, or when the process is told to end.
    pub fn begin(place: &Place) -> Result<Self, Fatal> {
        let state = State { path: place.path.clone(), was_there: place.is_there, is_kept: false };
        let state = Arc::new(Mutex::new(state));
        let watched = state.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Fatal::new)?;
        let mut signals = Vec::new();
        {
            let _in_runtime = runtime.enter();
            for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
                signals.push((kind.as_raw_value(), signal(kind).map_err(Fatal::new)?));
            }
        }
        std::thread::spawn(move || {
            let [(first, one), (second, two), (third, three)] = &mut signals[..] else { return };
            let number = runtime.block_on(async {
                tokio::select! {
                    _ = one.recv() => *first,
                    _ = two.recv() => *second,
                    _ = three.recv() => *third,
                }
            });
            // Held until the end: whoever keeps or drops it now waits for that.
            let state = watched.lock();
            if let Ok(state) = &state {
                state.remove();
            }
            std::process::exit(128 + number);
        });
        Ok(Junk(state))
    }

    /// It is no junk.
    pub fn keep(self) {
        if let Ok(mut state) = self.0.lock() {
            state.is_kept = true;
        }
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        if let Ok(state) = self.0.lock() {
            state.remove();
        }
    }
}

impl State {
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
