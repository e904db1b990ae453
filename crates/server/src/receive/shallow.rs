//! Pushes from shallow repositories (git-config, "receive.shallowUpdate").

use std::path::Path;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_os::count::Role;
use packrace_os::durable::NewFile;
use packrace_os::trace::{self, TraceDetail};
use packrace_store::publish::{FileKind, LockFile, WritePolicy};
use packrace_store::{Repository, Snapshot, cache_bytes};

use crate::error::Error;

/// The longest shallow file that is read.
const MAX_SHALLOW_BYTES: u64 = 64 << 20;

/// Shallow commits of a client that the repository now has, without some of their parents.
#[derive(Debug, Clone, Default)]
pub(super) struct NewShallow {
    pub(super) ids: Vec<ObjectId>,
}

impl NewShallow {
    /// Selects from `named`, the client's shallow commits. If the parents are here, history continues.
    pub(super) fn find(named: &[ObjectId], snapshot: &Arc<Snapshot>) -> Result<Self, Error> {
        let mut ids = Vec::new();
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        for id in named {
            if snapshot.shallow()?.binary_search(id).is_ok() || !snapshot.contains(id)? {
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

    /// Tells the older trace of shallow commits (git(1), `GIT_TRACE_SHALLOW`) which steps git takes with those that a client
    /// names; without a pack, only the first.
    pub(super) fn trace(
        named: &[ObjectId],
        snapshot: Option<&Arc<Snapshot>>,
        is_allowed: bool,
    ) -> Result<(), Error> {
        if named.is_empty() || !trace::wants(TraceDetail::Shallow) {
            return Ok(());
        }
        trace::shallow("prepare_shallow_info");
        let Some(snapshot) = snapshot else { return Ok(()) };
        trace::shallow("remove_nonexistent_theirs_shallow");
        for id in named {
            if snapshot.shallow()?.binary_search(id).is_err() && snapshot.contains(id)? {
                trace::shallow("assign_shallow_commits_to_refs");
                if !is_allowed {
                    trace::shallow("post_assign_shallow");
                }
                break;
            }
        }
        Ok(())
    }

    /// Adds them to the repository's shallow file.
    pub(super) fn add_to(&self, repository: &Repository) -> Result<(), Error> {
        let path = repository.common_dir().join("shallow");
        let policy = WritePolicy::of(repository.config())?;
        let mut lock = LockFile::take(&path, FileKind::Shallow, policy)?;
        lock.write(&self.added_to(&path)?)?;
        lock.commit()?;
        Ok(())
    }

    /// A file of the repository's shallow commits and these, for hooks (`GIT_SHALLOW_FILE`), which run before and after
    /// they are added. Dropping it removes it.
    pub(super) fn file_for_hooks(&self, repository: &Repository) -> Result<NewFile, Error> {
        // Hooks run in other directories.
        let dir = packrace_os::real_path(repository.common_dir());
        let failed = |error| Error::caused(repository.common_dir().display(), error);
        let dir = dir.map_err(failed)?;
        let content = self.added_to(&dir.join("shallow"))?;
        let mut file = NewFile::create_temporary(&dir, "shallow_", 0o600, Role::Config).map_err(failed)?;
        file.write(&content).and_then(|()| file.flush()).map_err(failed)?;
        Ok(file)
    }

    /// The lines of a shallow file and these, sorted.
    fn added_to(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let before = match packrace_os::read_file(path, Role::Config, MAX_SHALLOW_BYTES) {
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
        Ok(lines.into_iter().flat_map(|line| [line, b"\n"]).flatten().copied().collect())
    }
}
