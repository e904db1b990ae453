//! `packed-refs`, mapped, with errors in git's words.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use packrace_format::packed_refs::{PackedRef, PackedRefs, Peeled};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped};

use super::stamp::check_unchanged;
use super::{RefDirs, RefError, is_good_name};

/// Maximum bytes of a damaged line shown in errors.
const MAX_SHOWN_BYTES: usize = 200;

/// `packed-refs` as of when it was opened.
#[derive(Debug)]
pub(super) struct PackedFile {
    path: PathBuf,
    /// In messages.
    shown: PathBuf,
    pub(super) refs: Option<PackedRefs<Mapped>>,
    /// For errors, which show lines.
    bytes: Mapped,
    pub(super) identity: Option<FileIdentity>,
}

impl PackedFile {
    pub(super) fn read(dirs: &RefDirs, hash: HashKind) -> Result<Self, RefError> {
        let path = dirs.common_dir.join("packed-refs");
        let (shown, bytes) = (dirs.shown(&path), Mapped::from(Vec::new()));
        let unreadable = |source| RefError::Unreadable { path: shown.clone(), source };
        // Before opening: if the file is replaced in between, the next check sees another identity.
        let identity = packrace_os::identity(&path, Role::Refs).map_err(unreadable)?;
        let found = match Mapped::open_or_read(&path, Role::Refs) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found.map_err(unreadable)?),
        };
        let mut packed = PackedFile { path, shown, refs: None, bytes, identity };
        let Some(bytes) = found else { return Ok(packed) };
        packed.bytes = bytes;
        let refs = PackedRefs::open(packed.bytes.clone(), hash);
        packed.refs = Some(refs.map_err(|source| packed.damaged(source))?);
        Ok(packed)
    }

    /// Reopens it if it was replaced.
    pub(super) fn refresh(&mut self, dirs: &RefDirs, hash: HashKind) -> Result<(), RefError> {
        let identity = packrace_os::identity(&self.path, Role::Refs);
        let identity =
            identity.map_err(|source| RefError::Unreadable { path: self.shown.clone(), source })?;
        if identity != self.identity {
            *self = PackedFile::read(dirs, hash)?;
        }
        Ok(())
    }

    pub(super) fn refs(&self) -> Option<&PackedRefs<Mapped>> {
        self.refs.as_ref()
    }

    /// An error if the map had a fault: lookups are invalid, hits as well as misses.
    pub(super) fn check(&self) -> Result<(), RefError> {
        Ok(self.bytes.check()?)
    }

    /// As above, and an error if it was changed in place since it was mapped. One stat.
    pub(super) fn check_unchanged(&self) -> Result<(), RefError> {
        check_unchanged(&self.bytes)
    }

    /// An error if a line is damaged. Reads all of them.
    pub(super) fn check_lines(&self) -> Result<(), RefError> {
        for found in self.refs.iter().flat_map(|refs| refs.iter_from(b"")) {
            let PackedRef { name, .. } = found.map_err(|source| self.damaged(source))?;
            if !name.starts_with(b"refs/") {
                self.check_name(name)?;
            }
        }
        self.check()
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<(ObjectId, Peeled)>, RefError> {
        let Some(refs) = &self.refs else { return Ok(None) };
        let found = refs.find(name).map_err(|source| self.damaged(source));
        self.check()?;
        Ok(found?.map(|found| (found.id.to_id(), found.peeled.to_id())))
    }

    /// The first ref whose name starts with `prefix`.
    pub(super) fn first_below(&self, prefix: &[u8]) -> Result<Option<Vec<u8>>, RefError> {
        let first = self.refs.as_ref().and_then(|refs| refs.iter_from(prefix).next());
        let first = first.transpose().map_err(|source| self.damaged(source));
        self.check()?;
        Ok(first?.map(|found| found.name.to_vec()).filter(|name| name.starts_with(prefix)))
    }

    /// Checks the name of a ref that is not below `refs/`: as in git, a bad one is an error.
    pub(super) fn check_name(&self, name: &[u8]) -> Result<(), RefError> {
        if is_good_name(name) {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&name[..name.len().min(MAX_SHOWN_BYTES)]).into_owned();
        Err(RefError::Line { what: "packed refname is dangerous", path: self.shown.clone(), line })
    }

    pub(super) fn damaged(&self, source: packrace_format::Error) -> RefError {
        damaged(&self.shown, &self.bytes, source)
    }
}

/// An error in git's words, which show the line.
fn damaged(path: &Path, bytes: &[u8], source: packrace_format::Error) -> RefError {
    let at = usize::try_from(source.offset).map_or(bytes.len(), |at| at.min(bytes.len()));
    // For an unterminated line the offset is the end of the file.
    let start = match source.what {
        "unterminated line" => bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
        _ => at,
    };
    let line = &bytes[start..];
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = &line[..line.len().min(MAX_SHOWN_BYTES)];
    let line = String::from_utf8_lossy(line).into_owned();
    RefError::Line { what: source.what, path: path.to_path_buf(), line }
}
