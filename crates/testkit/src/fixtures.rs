//! A cache of built repositories, which are copied for tests that need the same one.
//!
//! Hundreds of tests start with one of a few repositories, each of which takes git several processes to
//! build. The first test that needs one builds it below the folder of the test binaries; all others, in any
//! binary, copy it. Nothing is changed in the cache. `cargo clean` removes it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use packrace_object::{HashKind, Kind, object_id};

use crate::Git;

/// The sources that determine a repository's content; the builder's settings and git determine the rest.
const SOURCES: [&str; 5] = [
    include_str!("builder.rs"),
    include_str!("fixtures.rs"),
    include_str!("history.rs"),
    include_str!("layout.rs"),
    include_str!("random.rs"),
];

/// Files older than this (2020) have a chosen age, which copies keep; other files are new.
const CHOSEN_AGES_END: Duration = Duration::from_secs(1_577_836_800);

/// Puts the repository that `build` makes at `to`. `description` identifies it.
pub(crate) fn copy_or_build(description: &str, git: &Git, to: &Path, build: impl Fn(&Path)) {
    let Some(folder) = folder() else { return build(to) };
    let kept = folder.join(key(description, git));
    let lock = lock_of(&kept);
    // A panic during a build leaves nothing at this path.
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.exists() {
        let dir = tempfile::tempdir_in(&folder).expect("a folder for a fixture can be made");
        let built = dir.path().join("repo.git");
        build(&built);
        // Another process may have been faster.
        fs::rename(&built, &kept)
            .or_else(|error| if kept.exists() { Ok(()) } else { Err(error) })
            .expect("a fixture can be put in place");
    }
    drop(guard);
    copy(&kept, to).expect("a fixture can be copied");
}

/// A folder beside the test binaries (`target/debug/deps`). Other programs, such as the benchmark, cache
/// nothing.
fn folder() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let binary = std::env::current_exe().ok()?;
        let binaries = binary.parent()?;
        let folder = binaries.parent()?.join("packrace-fixtures");
        (binaries.ends_with("deps") && fs::create_dir_all(&folder).is_ok()).then_some(folder)
    };
    FOLDER.get_or_init(find).clone()
}

/// A name that depends on everything that determines the repository.
fn key(description: &str, git: &Git) -> String {
    let program = fs::metadata(git.binary()).and_then(|found| Ok((found.len(), found.modified()?)));
    let text = format!("{description} {git:?} {program:?} {}", SOURCES.concat());
    object_id(HashKind::Sha1, Kind::Blob, text.as_bytes()).expect("it is no attack").to_string()
}

/// One thread of a process builds while the others wait.
fn lock_of(kept: &Path) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<Option<HashMap<PathBuf, Arc<Mutex<()>>>>> = Mutex::new(None);
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(locks.get_or_insert_default().entry(kept.to_owned()).or_default())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (from, to) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to)?;
            continue;
        }
        fs::copy(&from, &to)?;
        let age = fs::metadata(&from)?.modified()?;
        if age < SystemTime::UNIX_EPOCH + CHOSEN_AGES_END {
            fs::File::open(&to)?.set_modified(age)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_stays_as_it_was_built() {
        let dir = crate::scratch_dir();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        let age = SystemTime::UNIX_EPOCH + Duration::from_secs(1_200_000_001);
        let build = |to: &Path| {
            fs::create_dir_all(to.join("a/b")).unwrap();
            fs::write(to.join("a/b/new"), "new").unwrap();
            fs::write(to.join("old"), "old").unwrap();
            fs::File::open(to.join("old")).unwrap().set_modified(age).unwrap();
        };
        let description = format!("a test that runs as {}", std::process::id());
        copy_or_build(&description, Git::stock(), &first, build);
        fs::write(first.join("a/b/new"), "changed").unwrap();
        fs::remove_file(first.join("old")).unwrap();
        copy_or_build(&description, Git::stock(), &second, |_| panic!("it is there"));
        assert_eq!(fs::read(second.join("a/b/new")).unwrap(), b"new");
        assert_eq!(fs::metadata(second.join("old")).unwrap().modified().unwrap(), age);
        assert!(fs::metadata(second.join("a/b/new")).unwrap().modified().unwrap() > age);
        fs::remove_dir_all(folder().unwrap().join(key(&description, Git::stock()))).unwrap();
    }
}
