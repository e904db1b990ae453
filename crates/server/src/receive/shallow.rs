//! Pushes from repositories whose history is cut (git-config, "receive.shallowUpdate").

use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_os::count::Role;
use packrace_store::publish::{FileKind, LockFile, WritePolicy};
use packrace_store::{Repository, Snapshot, cache_bytes};

use crate::error::Error;

/// Longest list of cuts that is read.
const MAX_SHALLOW_BYTES: u64 = 64 << 20;

/// Commits of a client that came, or were here, and whose parents were not and did not.
#[derive(Debug, Clone, Default)]
pub(super) struct NewShallow {
    pub(super) ids: Vec<ObjectId>,
}

impl NewShallow {
    /// Those of `named`, at which the client says that its history is cut. Where the parents are here, history goes on.
    pub(super) fn find(named: &[ObjectId], snapshot: &Arc<Snapshot>) -> Result<Self, Error> {
        let mut ids = Vec::new();
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        for id in named {
            if snapshot.shallow().binary_search(id).is_ok() || !snapshot.contains(id)? {
                continue;
            }
            let object = reader.read(id)?;
            let Some(commit) = (object.kind == Kind::Commit)
                .then(|| parse_commit(&object.data, snapshot.hash_kind()).ok())
                .flatten()
            else {
                continue;
            };
            for parent in &commit.parents {
                if !snapshot.contains(parent)? {
                    ids.push(*id);
                    break;
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(NewShallow { ids })
    }

    /// Notes that the history of the repository is cut there too.
    pub(super) fn add_to(&self, repository: &Repository) -> Result<(), Error> {
        let path = repository.common_dir().join("shallow");
        let policy = WritePolicy::of(repository.config())?;
        let mut lock = LockFile::take(&path, FileKind::Shallow, policy)?;
        let before = match packrace_os::read_file(&path, Role::Config, MAX_SHALLOW_BYTES) {
            Ok(text) => text,
            Err(error) if packrace_os::is_absent(&error) => Vec::new(),
            Err(error) => return Err(Error::caused(path.display(), error)),
        };
        let mut lines: Vec<&[u8]> =
            before.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let new: Vec<String> = self.ids.iter().map(ObjectId::to_string).collect();
        lines.extend(new.iter().map(String::as_bytes));
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            lock.write(line)?;
            lock.write(b"\n")?;
        }
        lock.commit()?;
        Ok(())
    }
}
