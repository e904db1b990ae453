//! Reads files of a work tree as git stores them, and compares them with index entries.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::{HashKind, Kind as ObjectKind, ObjectId, object_id};
use packrace_os::count::{self, Op, Role};
use packrace_store::publish::{ObjectBatch, StreamError, name_blob_stream};
use packrace_store::{OpenOptions, Repository, Snapshot};

use super::{Index, IndexEntry, IndexError, Kind, Mode, Seen, StatRules, look};
use crate::filter::{Conversion, Direction, Filters, Purpose};
use crate::paths::{LeadingDirs, head_of_nested};

/// Why a file could not be read or stored. Each text is a line for standard error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A call failed.
    #[error("{call}(\"{}\"): {}", String::from_utf8_lossy(.path), packrace_os::reason(.source))]
    Io {
        /// The C function.
        call: &'static str,
        /// The path, relative to the top.
        path: Vec<u8>,
        /// The system's error.
        source: io::Error,
    },
    /// The file became shorter.
    #[error("short read while indexing {}", String::from_utf8_lossy(.0))]
    Short(Vec<u8>),
    /// The file could not be converted.
    #[error(transparent)]
    Filter(#[from] crate::filter::Error),
    /// The content looks like an attack on its hash.
    #[error(transparent)]
    Attack(#[from] packrace_object::CollisionAttack),
    /// The object could not be stored.
    #[error(transparent)]
    Store(packrace_store::Error),
}

/// How a file compares with its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Metadata and content match.
    Same,
    /// The content matches, but the metadata differs.
    Touched(Seen),
    /// The content differs.
    Changed,
    /// The file does not exist.
    Missing,
}

/// Reads the files of a work tree.
pub struct Contents {
    top: PathBuf,
    hash: HashKind,
    rules: StatRules,
    big_file_bytes: u64,
    filters: Filters,
    leading: LeadingDirs,
    options: OpenOptions,
    /// Lines of conversions for standard error.
    pub messages: Vec<String>,
}

impl Contents {
    /// A reader for the work tree at `top`.
    pub fn new(repository: &Repository, snapshot: &Arc<Snapshot>, top: &Path) -> Result<Self, ContentError> {
        let config = repository.config();
        let mut messages = Vec::new();
        let filters = Filters::new(repository, snapshot, top, Direction::CheckIn, &mut messages)?;
        let rules = StatRules::of(config).map_err(ContentError::Store)?;
        Ok(Contents {
            top: top.to_owned(),
            hash: repository.hash_kind(),
            rules,
            big_file_bytes: config.big_file_bytes().map_err(ContentError::Store)?,
            filters,
            leading: LeadingDirs::new(top),
            options: OpenOptions::default(),
            messages,
        })
    }

    /// What filters get from now on beside the variables of this process.
    pub fn set_variables(&self, variables: &[(OsString, OsString)]) {
        self.filters.set_variables(variables);
    }

    /// The metadata to compare.
    pub fn rules(&self) -> StatRules {
        self.rules
    }

    /// The file system path for a path of the index.
    pub fn place(&self, path: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(path))
    }

    /// Examines a path without following links.
    pub fn look(&self, path: &[u8]) -> Result<Option<Seen>, ContentError> {
        look(&self.place(path)).map_err(|source| failed("lstat", path, source))
    }

    /// Whether a parent directory of `path` is a symbolic link.
    pub fn is_beyond_link(&mut self, path: &[u8]) -> bool {
        self.leading.has_link(path)
    }

    /// The commit checked out in a submodule, if there is one.
    pub fn submodule_head(&self, path: &[u8]) -> Option<ObjectId> {
        head_of_nested(&self.place(path), &self.options).commit()
    }

    /// The blob of an examined file or link; stored if there is a batch.
    pub fn blob(
        &mut self,
        index: &Index,
        path: &[u8],
        seen: &Seen,
        batch: Option<&ObjectBatch>,
    ) -> Result<ObjectId, ContentError> {
        let purpose = if batch.is_some() { Purpose::Store } else { Purpose::Compare };
        let (content, id);
        if seen.kind == Kind::Link {
            content = self.link(path)?;
            id = object_id(self.hash, ObjectKind::Blob, &content)?;
        } else {
            let conversion = self.conversion(index, path)?;
            if conversion.is_identity() && seen.size_bytes > self.big_file_bytes {
                return self.stream(path, seen, batch);
            }
            let read = self.read(path, seen.size_bytes)?;
            let staged = |path: &[u8]| index.get(path, 0).map(|entry| entry.id);
            let converter = self.filters.converter().clone();
            content = converter
                .to_git(&conversion, path, &read, purpose, &staged, &mut self.messages)?
                .into_owned();
            id = object_id(self.hash, ObjectKind::Blob, &content)?;
        }
        if let Some(batch) = batch {
            batch.add(&id, ObjectKind::Blob, &content).map_err(ContentError::Store)?;
        }
        Ok(id)
    }

    /// Compares the file of an entry with the entry; reads it only if the metadata cannot decide. The caller
    /// handles the flags of the entry.
    pub fn compare(
        &mut self,
        index: &Index,
        path: &[u8],
        entry: &IndexEntry,
    ) -> Result<Comparison, ContentError> {
        if self.is_beyond_link(path) {
            return Ok(Comparison::Missing);
        }
        let Some(seen) = self.look(path)? else { return Ok(Comparison::Missing) };
        if entry.mode == Mode::Gitlink {
            let is_same =
                seen.kind == Kind::Dir && self.submodule_head(path).is_none_or(|head| head == entry.id);
            return Ok(if is_same { Comparison::Same } else { Comparison::Changed });
        }
        let looks_same = self.rules.matches(entry, &seen);
        if entry.intent_to_add || !self.rules.is_same_kind(entry.mode, seen.kind) {
            return Ok(Comparison::Changed);
        }
        if looks_same && !index.is_racy(entry) {
            return Ok(Comparison::Same);
        }
        // A different size means different content, unless the entry has no size.
        let recorded = entry.stat.size_bytes;
        if recorded != seen.stat.size_bytes && (recorded != 0 || entry.id.is_empty_blob()) {
            return Ok(Comparison::Changed);
        }
        Ok(match self.blob(index, path, &seen, None)? == entry.id {
            false => Comparison::Changed,
            true if looks_same => Comparison::Same,
            true => Comparison::Touched(seen),
        })
    }

    /// Whether the metadata of a file matches its entry although the content differs. False for an unreadable
    /// file, which no reader can take for unchanged.
    pub(super) fn is_secretly_modified(
        &mut self,
        index: &Index,
        path: &[u8],
        entry: &IndexEntry,
    ) -> Result<bool, IndexError> {
        let Ok(Some(seen)) = self.look(path) else { return Ok(false) };
        if !self.rules.matches(entry, &seen) {
            return Ok(false);
        }
        match self.blob(index, path, &seen, None) {
            Ok(id) => Ok(id != entry.id),
            Err(ContentError::Filter(error)) => Err(IndexError::Filter(error)),
            Err(_) => Ok(false),
        }
    }

    fn conversion(&mut self, index: &Index, path: &[u8]) -> Result<Conversion, ContentError> {
        let staged = |path: &[u8]| index.get(path, 0).map(|entry| entry.id);
        Ok(self.filters.conversion(path, &staged, &mut self.messages)?)
    }

    fn link(&self, path: &[u8]) -> Result<Vec<u8>, ContentError> {
        count::add(Role::WorkTree, Op::Read, 0);
        let target =
            std::fs::read_link(self.place(path)).map_err(|source| failed("readlink", path, source))?;
        Ok(target.into_os_string().into_vec())
    }

    /// Reads a file up to its examined size.
    fn read(&self, path: &[u8], size: u64) -> Result<Vec<u8>, ContentError> {
        let file = self.open(path)?;
        let mut content = Vec::new();
        let reserved = usize::try_from(size).is_ok_and(|size| content.try_reserve_exact(size).is_ok());
        let read = match reserved {
            true => file.take(size).read_to_end(&mut content),
            false => Err(io::ErrorKind::OutOfMemory.into()),
        };
        count::add(Role::WorkTree, Op::Read, content.len());
        match read {
            Ok(found) if found as u64 == size => Ok(content),
            Ok(_) => Err(ContentError::Short(path.to_vec())),
            Err(source) => Err(failed("read", path, source)),
        }
    }

    fn stream(
        &self,
        path: &[u8],
        seen: &Seen,
        batch: Option<&ObjectBatch>,
    ) -> Result<ObjectId, ContentError> {
        let mut file = self.open(path)?;
        let size = seen.size_bytes;
        count::add(Role::WorkTree, Op::Read, size as usize);
        let id = match batch {
            Some(batch) => batch.add_blob_stream(size, &mut file),
            None => name_blob_stream(self.hash, size, &mut file),
        };
        id.map_err(|error| match error {
            StreamError::Source(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                ContentError::Short(path.to_vec())
            }
            StreamError::Source(source) => failed("read", path, source),
            StreamError::Attack(attack) => attack.into(),
            StreamError::Store(error) => ContentError::Store(error),
        })
    }

    /// Opens a file that may have been replaced since it was examined.
    fn open(&self, path: &[u8]) -> Result<File, ContentError> {
        let opened = packrace_os::open_without_following(&self.place(path), Role::WorkTree);
        match opened.map_err(|source| failed("open", path, source))? {
            (file, found) if found.is_file() => Ok(file),
            _ => Err(failed("open", path, io::ErrorKind::InvalidInput.into())),
        }
    }
}

fn failed(call: &'static str, path: &[u8], source: io::Error) -> ContentError {
    ContentError::Io { call, path: path.to_vec(), source }
}
