//! Files of a repository, from the bucket to the disk: one gets its name when its length and its SHA-256 are right.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use packrace_format::head::{FilePlace, ObjectKey, StoredFile};
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{Mapped, list_dir};
use packrace_store::QUARANTINE_PREFIX;
use sha2::Digest as _;

use crate::bucket::{Bucket, PART_BYTES};
use crate::error::Error;
use crate::layout::BucketName;

/// How temporaries of [`put`] begin: whoever is killed leaves one.
pub(super) const PUT_PREFIX: &str = "tmp_cache_";

/// Why a file did not come.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The bucket does not have what the head names: a later head may name something else.
    Missing(Error),
    /// The disk is full.
    NoRoom(Error),
    /// Anything else.
    Other(Error),
}

/// Files of this machine that a push has made, by the SHA-256 that they had when they were put into the bucket. Those that are
/// wanted are moved to their place.
pub(crate) type FilesAtHand = HashMap<[u8; 32], PathBuf>;

/// A file that has all but its name.
pub(super) enum Nameless {
    New(NewFile),
    AtHand(PathBuf, Role),
}

impl Nameless {
    /// Gives it this name.
    pub(super) fn replace(self, path: &Path) -> Result<(), Error> {
        let named = match self {
            Nameless::New(file) => file.replace(path),
            Nameless::AtHand(from, role) => durable::rename_file(&from, path, role),
        };
        named.map_err(|error| Error::disk(path, &error))
    }
}

/// Fetches files of one repository; what lies one behind the other in an object is asked for together.
pub(super) struct FileFetcher<'a> {
    bucket: &'a Bucket,
    name: &'a BucketName,
    at_hand: &'a FilesAtHand,
    /// What was asked for and not used: of which object, from where.
    ahead: Option<(ObjectKey, u64, Bytes)>,
}

impl<'a> FileFetcher<'a> {
    pub(super) fn new(bucket: &'a Bucket, name: &'a BucketName, at_hand: &'a FilesAtHand) -> Self {
        FileFetcher { bucket, name, at_hand, ahead: None }
    }

    /// The file itself if it is at hand, or fetched under a temporary name.
    pub(super) fn take(
        &mut self,
        stored: &StoredFile,
        run_end: u64,
        dir: &Path,
        role: Role,
    ) -> Result<Nameless, FetchError> {
        match self.at_hand.get(&stored.sha256).filter(|path| is_there(path, stored, false, role)) {
            Some(path) => Ok(Nameless::AtHand(path.clone(), role)),
            None => self.fetch(stored, run_end, dir, role).map(Nameless::New),
        }
    }

    /// Writes a file under a temporary name. Files that come together stand in `run_end`: where in
    /// its object the last of them ends.
    fn fetch(
        &mut self,
        stored: &StoredFile,
        run_end: u64,
        dir: &Path,
        role: Role,
    ) -> Result<NewFile, FetchError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                FetchError::NoRoom(Error::disk(dir, &error))
            }
            _ => FetchError::Other(Error::disk(dir, &error)),
        };
        let mut file = NewFile::create_temporary(dir, "tmp_fetch_", 0o444, role).map_err(failed)?;
        let mut hasher = sha2::Sha256::new();
        match &stored.place {
            FilePlace::Inline(bytes) => {
                hasher.update(bytes);
                file.write(bytes).map_err(failed)?;
            }
            FilePlace::Object { key, offset } => {
                let end = offset + stored.length;
                let mut at = *offset;
                while at < end {
                    let bytes = self.bytes_at(*key, at, run_end.max(end))?;
                    let length = (bytes.len() as u64).min(end - at) as usize;
                    hasher.update(&bytes[..length]);
                    file.write(&bytes[..length]).map_err(failed)?;
                    at += length as u64;
                    self.ahead = Some((*key, at, bytes.slice(length..)));
                }
            }
        }
        file.flush().map_err(failed)?;
        if hasher.finalize()[..] != stored.sha256 {
            let words = format!("'{}': a file in the bucket does not match its head", self.name.as_str());
            return Err(FetchError::Missing(Error::damaged(words)));
        }
        Ok(file)
    }

    /// Some bytes of an object from `at` on, at least one.
    fn bytes_at(&mut self, key: ObjectKey, at: u64, end: u64) -> Result<Bytes, FetchError> {
        if let Some((of, from, bytes)) = self.ahead.take()
            && (of, from) == (key, at)
            && !bytes.is_empty()
        {
            return Ok(bytes);
        }
        let object = self.name.object_key(&key);
        let range = at..end.min(at + PART_BYTES);
        let found = self.bucket.get_range(&object, range).map_err(FetchError::Other)?;
        found.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
            let words = format!(
                "'{}': {object} is missing from the bucket, but its head names it",
                self.name.as_str()
            );
            FetchError::Missing(Error::damaged(words))
        })
    }
}

/// Where a run of files ends that lie one behind the other in one object, from this one on.
pub(super) fn run_end<'a>(first: &StoredFile, rest: impl Iterator<Item = &'a StoredFile>) -> u64 {
    let FilePlace::Object { key, offset } = first.place else { return 0 };
    let mut end = offset + first.length;
    for next in rest {
        match next.place {
            FilePlace::Object { key: of, offset } if of == key && offset == end => end += next.length,
            _ => break,
        }
    }
    end
}

/// Whether a file on disk is this one. It is read whole where `is_hashed`.
pub(super) fn is_there(path: &Path, stored: &StoredFile, is_hashed: bool, role: Role) -> bool {
    let length = packrace_os::identity(path, role).ok().flatten().map(|file| file.length);
    if length != Some(stored.length) || !is_hashed {
        return length == Some(stored.length);
    }
    let Ok(map) = Mapped::open(path, role) else { return false };
    map.advise_sequential();
    let is_same = sha2::Sha256::digest(&map[..])[..] == stored.sha256;
    is_same && map.check().is_ok()
}

/// Writes a small file in one step.
pub(super) fn put(path: &Path, text: &[u8], role: Role) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(path);
    let write = || {
        let mut file = NewFile::create_temporary(dir, PUT_PREFIX, 0o644, role)?;
        file.write(text)?;
        file.replace(path)
    };
    write().map_err(|error| Error::disk(path, &error))
}

/// The same, unless the file has these bytes already.
pub(super) fn put_if_other(path: &Path, text: &[u8], role: Role) -> Result<(), Error> {
    match packrace_os::read_file(path, role, text.len() as u64) {
        Ok(found) if found == text => Ok(()),
        _ => put(path, text, role),
    }
}

/// Removes what pushes have left in a repository that were not done when their process ended.
pub(super) fn remove_quarantines(dir: &Path) -> Result<(), Error> {
    let objects = dir.join("objects");
    let entries = match list_dir(&objects, Role::Objects) {
        Err(error) if packrace_os::is_absent(&error) => return Ok(()),
        listed => listed.map_err(|error| Error::disk(&objects, &error))?,
    };
    for entry in entries {
        if entry.name.as_encoded_bytes().starts_with(QUARANTINE_PREFIX.as_bytes()) {
            let path = objects.join(&entry.name);
            durable::remove_tree(&path, Role::Objects).map_err(|error| Error::disk(&path, &error))?;
        }
    }
    Ok(())
}

/// Makes a directory and those that it is in.
pub(super) fn make_dirs(top: &Path, dir: &Path) -> Result<(), Error> {
    match durable::make_dir(dir, |mode| mode, Role::Config) {
        Ok(_) => Ok(()),
        Err(error) if packrace_os::is_absent(&error) && dir != top => {
            make_dirs(top, dir.parent().unwrap_or(top))?;
            durable::make_dir(dir, |mode| mode, Role::Config)
                .map(drop)
                .map_err(|error| Error::disk(dir, &error))
        }
        Err(error) => Err(Error::disk(dir, &error)),
    }
}
