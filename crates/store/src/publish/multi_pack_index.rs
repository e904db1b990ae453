use std::path::{Path, PathBuf};

use packrace_object::{HashKind, oid};
use packrace_os::count::Role;
use packrace_os::durable;

use super::lock::{FileKind, LockFile};
use super::{Component, WritePolicy, create_temporary};
use crate::error::{Error, Reason};

const NAME: &str = "multi-pack-index";

/// The right to replace the multi-pack-index of a directory. Take it before examining the packs to be named.
#[derive(Debug)]
pub struct MultiPackIndexLock {
    lock: LockFile,
    pack_dir: PathBuf,
    hash: HashKind,
    policy: WritePolicy,
}

impl MultiPackIndexLock {
    /// Takes `multi-pack-index.lock` in `pack_dir`.
    pub fn take(pack_dir: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        let path = pack_dir.join(NAME);
        let mut lock = LockFile::take(&path, FileKind::MultiPackIndex, policy)?;
        let old = packrace_os::identity(&path, Role::Index).map_err(|error| Error::io(&path, error))?;
        let policy = if old.is_some() { policy.of_rewrites() } else { policy };
        if old.is_some() {
            // Names included, because the old index's companions are removed then.
            lock.set_rewrite();
        }
        Ok(MultiPackIndexLock { lock, pack_dir: pack_dir.to_owned(), hash, policy })
    }

    /// Publishes `bytes`, after their bitmap, and removes the companions of the previous index.
    pub fn publish(mut self, bytes: &[u8], bitmap: Option<&[u8]>) -> Result<(), Error> {
        let at = bytes.len().checked_sub(self.hash.len_in_bytes());
        let at = at.ok_or_else(|| Reason::Damaged("multi-pack-index is cut off".into()))?;
        let own = format!("{NAME}-{}.", oid::from_bytes_unchecked(&bytes[at..]));
        let bitmap = bitmap.map(|bitmap| self.write_bitmap(bitmap)).transpose()?;
        self.lock.write(bytes)?;
        self.lock.settle()?;
        if let Some(bitmap) = bitmap {
            let path = self.pack_dir.join(format!("{own}bitmap"));
            bitmap.replace(&path).map_err(|error| Error::io(path, error))?;
        }
        self.lock.commit()?;
        remove_companions(&self.pack_dir, Some(&own))
    }

    /// Removes the multi-pack-index and its companions: the packs' own indexes are used again.
    pub fn remove(self) -> Result<(), Error> {
        let path = self.pack_dir.join(NAME);
        durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
        remove_companions(&self.pack_dir, None)
    }

    fn write_bitmap(&self, bytes: &[u8]) -> Result<durable::NewFile, Error> {
        let mut file = create_temporary(
            &self.pack_dir,
            "tmp_bitmap_",
            0o444,
            Role::Index,
            self.policy,
            Component::PackMetadata,
        )?;
        let mut done = file.write(bytes).and_then(|()| file.flush());
        if self.policy.syncs(Component::PackMetadata) {
            done = done.and_then(|()| file.sync());
        }
        done.map_err(|error| Error::io(file.path(), error))?;
        Ok(file)
    }
}

/// Removes bitmaps and reverse indexes of other multi-pack-indexes; `own` is the prefix of those that stay.
fn remove_companions(pack_dir: &Path, own: Option<&str>) -> Result<(), Error> {
    let entries = packrace_os::list_dir(pack_dir, Role::Index).map_err(|error| Error::io(pack_dir, error))?;
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let of_any = names.filter(|name| {
        let rest = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.ends_with(".bitmap") || rest.ends_with(".rev"))
    });
    for name in of_any.filter(|name| own.is_none_or(|own| !name.starts_with(own))) {
        let path = pack_dir.join(name);
        durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
    }
    Ok(())
}
