//! Fetches files of a repository from the bucket. A file gets its name only if its length and SHA-256 are
//! right.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use packrace_format::head::{FilePlace, ObjectKey, StoredFile};
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{Mapped, list_dir};
use packrace_store::QUARANTINE_PREFIX;
use sha2::Digest as _;

use super::fetch_error::FetchError;
use super::parts::{ObjectPart, PartReader};
use crate::bucket::PART_BYTES;
use crate::error::Error;
use crate::layout::BucketName;

/// Prefix of the temporary files of [`put`]: a killed process leaves one behind.
pub(super) const PUT_PREFIX: &str = "tmp_cache_";

/// Local files that a push made, by the SHA-256 under which they were uploaded. Those that are wanted are
/// moved into place.
pub(crate) type FilesAtHand = HashMap<[u8; 32], PathBuf>;

/// A complete file without its final name.
pub(super) enum Nameless {
    New(NewFile),
    AtHand(PathBuf, Role),
}

impl Nameless {
    /// Gives it its name.
    pub(super) fn replace(self, path: &Path) -> Result<(), Error> {
        let named = match self {
            Nameless::New(file) => file.replace(path),
            Nameless::AtHand(from, role) => durable::rename_file(&from, path, role),
        };
        named.map_err(|error| Error::disk(path, &error))
    }
}

/// A file that a repository lacks.
pub(super) struct WantedFile<'a> {
    pub(super) stored: &'a StoredFile,
    /// Its name once it is complete.
    pub(super) path: PathBuf,
    pub(super) role: Role,
    /// Files of one pack have the same number, and get their names together.
    pub(super) group: usize,
    source: Source,
}

enum Source {
    /// A local file.
    AtHand(PathBuf),
    /// The head, or an object.
    Bucket,
}

impl<'a> WantedFile<'a> {
    pub(super) fn new(
        stored: &'a StoredFile,
        path: PathBuf,
        role: Role,
        group: usize,
        at_hand: &FilesAtHand,
    ) -> Self {
        let found = at_hand.get(&stored.sha256).filter(|path| is_there(path, stored, false, role));
        let source = found.map_or(Source::Bucket, |path| Source::AtHand(path.clone()));
        WantedFile { stored, path, role, group, source }
    }

    /// Its object and range, if it must be fetched from one.
    fn place(&self) -> Option<(ObjectKey, Range<u64>)> {
        match (&self.source, &self.stored.place) {
            (Source::Bucket, FilePlace::Object { key, offset }) => {
                Some((*key, *offset..offset + self.stored.length))
            }
            _ => None,
        }
    }
}

/// The range reads for files: contiguous files of one object are fetched together.
pub(super) fn parts_of(files: &[WantedFile<'_>]) -> Vec<ObjectPart> {
    let mut runs: Vec<(ObjectKey, Range<u64>)> = Vec::new();
    for (key, range) in files.iter().filter_map(WantedFile::place) {
        match runs.last_mut() {
            Some((of, run)) if *of == key && run.end == range.start => run.end = range.end,
            _ => runs.push((key, range)),
        }
    }
    let parts = runs.into_iter().flat_map(|(key, run)| {
        let starts = run.clone().step_by(PART_BYTES as usize);
        starts.map(move |start| ObjectPart { key, range: start..run.end.min(start + PART_BYTES) })
    });
    parts.collect()
}

/// Yields files in the order in which [`parts_of`] got them.
pub(super) struct FileReader<'a> {
    parts: &'a PartReader<'a>,
    name: &'a BucketName,
    /// The rest of the last part: it belongs to the next file.
    rest: Bytes,
}

impl<'a> FileReader<'a> {
    pub(super) fn new(parts: &'a PartReader<'a>, name: &'a BucketName) -> Self {
        FileReader { parts, name, rest: Bytes::new() }
    }

    /// A local file as it is, or a fetched one under a temporary name.
    pub(super) fn take(&mut self, wanted: &WantedFile<'_>) -> Result<Nameless, FetchError> {
        match &wanted.source {
            Source::AtHand(path) => Ok(Nameless::AtHand(path.clone(), wanted.role)),
            Source::Bucket => self.fetch(wanted).map(Nameless::New),
        }
    }

    fn fetch(&mut self, wanted: &WantedFile<'_>) -> Result<NewFile, FetchError> {
        let WantedFile { stored, path, role, .. } = wanted;
        let dir = path.parent().unwrap_or(path);
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                FetchError::NoRoom(Error::disk(dir, &error))
            }
            _ => FetchError::Other(Error::disk(dir, &error)),
        };
        let mut file = NewFile::create_temporary(dir, "tmp_fetch_", 0o444, *role).map_err(failed)?;
        let mut hasher = sha2::Sha256::new();
        match &stored.place {
            FilePlace::Inline(bytes) => {
                hasher.update(bytes);
                file.write(bytes).map_err(failed)?;
            }
            FilePlace::Object { .. } => {
                let mut left = stored.length;
                while left > 0 {
                    let bytes = self.next_bytes(left)?;
                    hasher.update(&bytes);
                    file.write(&bytes).map_err(failed)?;
                    left -= bytes.len() as u64;
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

    /// The next bytes of the parts: at least one, at most `limit`.
    fn next_bytes(&mut self, limit: u64) -> Result<Bytes, FetchError> {
        if self.rest.is_empty() {
            let ended = || Error::damaged(format!("'{}': too few parts", self.name.as_str()));
            self.rest = self.parts.next()?.ok_or_else(|| FetchError::Other(ended()))?;
        }
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(self.rest.len());
        Ok(self.rest.split_to(length))
    }
}

/// Whether the file on disk is this one, by its length and, if `is_hashed`, by its SHA-256.
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

/// Writes a small file atomically.
pub(super) fn put(path: &Path, text: &[u8], role: Role) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(path);
    let write = || {
        let mut file = NewFile::create_temporary(dir, PUT_PREFIX, 0o644, role)?;
        file.write(text)?;
        file.replace(path)
    };
    write().map_err(|error| Error::disk(path, &error))
}

/// The same, unless the file already has these bytes.
pub(super) fn put_if_other(path: &Path, text: &[u8], role: Role) -> Result<(), Error> {
    match packrace_os::read_file(path, role, text.len() as u64) {
        Ok(found) if found == text => Ok(()),
        _ => put(path, text, role),
    }
}

/// Removes quarantines of pushes that were unfinished when their process ended.
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

/// Makes a directory and its parents, down from `top`.
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
