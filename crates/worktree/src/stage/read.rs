//! Reads one file: opens, examines, reads, converts, hashes and stores it.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_object::{CollisionAttack, Kind as ObjectKind, ObjectId};
use packrace_os::count::{Op, Role, add};
use packrace_store::publish::{StreamError, name_blob_stream};

use super::{StageError, StageJob, Staged, Stager, staged};
use crate::filter::Error as FilterError;
use crate::index::{Kind, Seen};
use crate::paths::path_of;

/// Buffers that a thread reuses for its files.
#[derive(Default)]
pub(super) struct ReadBuffers {
    content: Vec<u8>,
    path: Vec<u8>,
}

impl Stager<'_> {
    pub(super) fn stage(&self, job: &StageJob, reading: &mut ReadBuffers) -> Result<Staged, StageError> {
        reading.path.clear();
        reading.path.extend_from_slice(self.top.as_os_str().as_bytes());
        reading.path.push(b'/');
        reading.path.extend_from_slice(&job.path);
        let place = path_of(&reading.path);
        match packrace_os::open_without_following(place, Role::WorkTree) {
            Ok((file, metadata)) if metadata.is_file() => {
                self.stage_file(job, file, &metadata, &mut reading.content)
            }
            Ok((_, metadata)) if metadata.is_dir() => Err(not_a_file(job)),
            Ok(_) => Err(not_a_file(job)),
            Err(error) => match std::fs::symlink_metadata(place) {
                Ok(metadata) if metadata.is_symlink() => self.stage_link(job, place, &metadata),
                // For example a socket, which cannot be opened.
                Ok(metadata) if !metadata.is_file() => Err(not_a_file(job)),
                _ => Err(unreadable(
                    job,
                    format!("open(\"{}\"): {}", job.shown(), packrace_os::reason(&error)),
                )),
            },
        }
    }

    fn stage_file(
        &self,
        job: &StageJob,
        mut file: File,
        metadata: &Metadata,
        content: &mut Vec<u8>,
    ) -> Result<Staged, StageError> {
        let seen = Seen::of(metadata);
        let size = seen.size_bytes;
        if job.conversion.is_none() && size > self.big_file_bytes {
            return self.stream(job, &mut file, seen);
        }
        let length = usize::try_from(size).map_err(|_| too_large(job))?;
        if content.len() < length {
            content.resize(length, 0);
        }
        let content = &mut content[..length];
        add(Role::WorkTree, Op::Read, length);
        file.read_exact(content).map_err(|error| read_failed(job, &error))?;
        drop(file);
        let mut messages = Vec::new();
        let converted = match &job.conversion {
            None => Cow::Borrowed(&content[..]),
            Some(conversion) => {
                let staged = |path: &[u8]| staged(self.index, path);
                let converter = &self.converter;
                let converted =
                    converter.to_git(conversion, &job.path, content, self.purpose, &staged, &mut messages);
                match converted {
                    Ok(converted) => converted,
                    Err(FilterError::Refused(words)) => return Err(StageError::Refused(messages, words)),
                    Err(FilterError::Store(error)) => return Err(error.into()),
                    Err(error @ FilterError::Io { .. }) => {
                        return Err(StageError::Refused(messages, error.to_string()));
                    }
                }
            }
        };
        let id = self.store(job, &converted)?;
        Ok(Staged { id, seen, messages })
    }

    fn stage_link(&self, job: &StageJob, place: &Path, metadata: &Metadata) -> Result<Staged, StageError> {
        add(Role::WorkTree, Op::Read, 0);
        let target = std::fs::read_link(place).map_err(|error| {
            unreadable(job, format!("readlink(\"{}\"): {}", job.shown(), packrace_os::reason(&error)))
        })?;
        let id = self.store(job, target.as_os_str().as_bytes())?;
        Ok(Staged { id, seen: Seen::of(metadata), messages: Vec::new() })
    }

    fn store(&self, job: &StageJob, content: &[u8]) -> Result<ObjectId, StageError> {
        let id = packrace_object::object_id(self.hash, ObjectKind::Blob, content)
            .map_err(|error| attack(&error))?;
        if let Some(batch) = self.batch.filter(|_| job.known != Some(id)) {
            batch.add(&id, ObjectKind::Blob, content)?;
        }
        Ok(id)
    }

    /// Stores a file without holding all of it in memory.
    fn stream(&self, job: &StageJob, file: &mut File, seen: Seen) -> Result<Staged, StageError> {
        let size = seen.size_bytes;
        let id = match self.batch {
            Some(batch) => batch.add_blob_stream(size, file),
            None => name_blob_stream(self.hash, size, file),
        };
        let id = id.map_err(|error| match error {
            StreamError::Source(error) => read_failed(job, &error),
            StreamError::Attack(error) => attack(&error),
            StreamError::Store(error) => error.into(),
        })?;
        add(Role::WorkTree, Op::Read, usize::try_from(size).unwrap_or(usize::MAX));
        Ok(Staged { id, seen, messages: Vec::new() })
    }
}

impl StageJob {
    fn shown(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.path)
    }
}

fn read_failed(job: &StageJob, error: &io::Error) -> StageError {
    let path = job.shown();
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("short read while indexing {path}"),
        _ => format!("read error while indexing {path}: {}", packrace_os::reason(error)),
    };
    let lines =
        [what, format!("{path}: failed to insert into database"), format!("unable to index file '{path}'")];
    StageError::Unreadable(lines.map(|line| format!("error: {line}")).to_vec())
}

fn unreadable(job: &StageJob, what: String) -> StageError {
    StageError::Unreadable(vec![
        format!("error: {what}"),
        format!("error: unable to index file '{}'", job.shown()),
    ])
}

fn not_a_file(job: &StageJob) -> StageError {
    let path = job.shown();
    StageError::Unreadable(vec![format!(
        "error: {path}: can only add regular files, symbolic links or git-directories"
    )])
}

fn too_large(job: &StageJob) -> StageError {
    unreadable(job, format!("{}: file too large", job.shown()))
}

fn attack(error: &CollisionAttack) -> StageError {
    StageError::Refused(Vec::new(), error.to_string())
}

/// Whether a file of this type can be in an index.
pub(super) fn is_file_or_link(kind: Kind) -> bool {
    matches!(kind, Kind::File { .. } | Kind::Link)
}
