use std::path::{Path, PathBuf};

use packrace_format::multi_pack_index::{MultiPackIndex, chain_file};
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::{Mapped, durable};

use super::lock::{FileKind, LockFile, publish_file};
use super::{Component, WritePolicy, create_temporary};
use crate::error::{Error, Reason};
use crate::objects::objects_dir::MIDX_CHAIN_DIR;

const NAME: &str = "multi-pack-index";
const CHAIN_NAME: &str = "multi-pack-index-chain";

/// The right to replace the multi-pack-index of a directory, or the chain of several. Take it before examining the
/// packs to be named.
#[derive(Debug)]
pub struct MultiPackIndexLock {
    lock: LockFile,
    pack_dir: PathBuf,
    hash: HashKind,
    policy: WritePolicy,
}

/// A file of a chain of multi-pack-indexes.
#[derive(Debug)]
pub enum ChainLayer {
    /// The file of this checksum, which is in the chain's directory.
    Kept(ObjectId),
    /// A file to be written.
    New(MultiPackIndexFile),
}

/// The bytes of a multi-pack-index and of the files beside it.
#[derive(Debug)]
pub struct MultiPackIndexFile {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its bitmap.
    pub bitmap: Option<Vec<u8>>,
    /// Its reverse index, if there is to be one beside that in the file.
    pub reverse: Option<Vec<u8>>,
}

impl MultiPackIndexFile {
    /// Endings and bytes of the files beside it.
    fn companions(&self) -> impl Iterator<Item = (&'static str, &Vec<u8>)> {
        let all = [("rev", &self.reverse), ("bitmap", &self.bitmap)];
        all.into_iter().filter_map(|(ending, bytes)| Some((ending, bytes.as_ref()?)))
    }

    /// The checksum at the end of the file.
    pub fn checksum(&self, hash: HashKind) -> Result<ObjectId, Error> {
        let at = self.bytes.len().checked_sub(hash.len_in_bytes());
        let at = at.ok_or_else(|| Reason::Damaged("multi-pack-index is cut off".into()))?;
        Ok(oid::from_bytes_unchecked(&self.bytes[at..]).to_owned())
    }
}

impl MultiPackIndexLock {
    /// Takes `multi-pack-index.lock` in `pack_dir`.
    pub fn take(pack_dir: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        Self::take_file(pack_dir, &pack_dir.join(NAME), hash, policy)
    }

    /// Takes the lock of the list of the files of the chain.
    pub fn take_chain(pack_dir: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        Self::take_file(pack_dir, &pack_dir.join(MIDX_CHAIN_DIR).join(CHAIN_NAME), hash, policy)
    }

    fn take_file(pack_dir: &Path, path: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        let mut lock = LockFile::take(path, FileKind::MultiPackIndex, policy)?;
        let old = packrace_os::identity(path, Role::Index).map_err(|error| Error::io(path, error))?;
        let policy = if old.is_some() { policy.of_rewrites() } else { policy };
        if old.is_some() {
            // Names included, because the old index's companions are removed then.
            lock.set_rewrite();
        }
        Ok(MultiPackIndexLock { lock, pack_dir: pack_dir.to_owned(), hash, policy })
    }

    /// Publishes the file, after its bitmap, and removes the companions of the previous index, or the chain. Files that
    /// have the same contents already are left alone, and without a bitmap also one that has tables for it.
    pub fn publish(mut self, file: &MultiPackIndexFile) -> Result<(), Error> {
        let stem = format!("{NAME}-{}", file.checksum(self.hash)?);
        let own = format!("{stem}.");
        let (is_there, stay) = match &file.bitmap {
            None => (self.has_entries_of(file), &[][..]),
            Some(bitmap) => (
                self.has_file(NAME, &file.bytes) && self.has_file(&format!("{own}bitmap"), bitmap),
                std::slice::from_ref(&own),
            ),
        };
        if is_there {
            remove_companions(&self.pack_dir, stay)?;
            return remove_chain(&self.pack_dir);
        }
        let companions = self.write_companions(&self.pack_dir, file)?;
        self.lock.write(&file.bytes)?;
        self.lock.settle()?;
        name_companions(companions, &self.pack_dir.join(stem))?;
        self.lock.commit()?;
        remove_companions(&self.pack_dir, &[own])?;
        remove_chain(&self.pack_dir)
    }

    /// Publishes a chain of these files, lowest first, and removes all other files of chains, or the single file.
    /// The lock must be that of the chain.
    pub fn publish_chain(mut self, layers: &[ChainLayer]) -> Result<(), Error> {
        let mut checksums = Vec::with_capacity(layers.len());
        for layer in layers {
            checksums.push(match layer {
                ChainLayer::Kept(checksum) => *checksum,
                ChainLayer::New(file) => self.write_layer(file)?,
            });
        }
        self.lock.write(&chain_file(&checksums))?;
        self.lock.commit()?;
        let path = self.pack_dir.join(NAME);
        durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
        remove_companions(&self.pack_dir, &[])?;
        let own: Vec<String> = checksums.iter().map(|checksum| format!("{NAME}-{checksum}.")).collect();
        remove_companions(&self.pack_dir.join(MIDX_CHAIN_DIR), &own)
    }

    /// Writes a file of a chain, after its bitmap, but does not add it to the chain; returns its checksum.
    pub fn write_layer(&self, file: &MultiPackIndexFile) -> Result<ObjectId, Error> {
        let checksum = file.checksum(self.hash)?;
        let dir = self.pack_dir.join(MIDX_CHAIN_DIR);
        let stem = dir.join(format!("{NAME}-{checksum}"));
        name_companions(self.write_companions(&dir, file)?, &stem)?;
        publish_file(&stem.with_extension("midx"), &file.bytes, FileKind::MultiPackIndexLayer, self.policy)?;
        Ok(checksum)
    }

    /// Removes the multi-pack-index, its companions, and the chain: the packs' own indexes are used again.
    pub fn remove(self) -> Result<(), Error> {
        let path = self.pack_dir.join(NAME);
        durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
        remove_companions(&self.pack_dir, &[])?;
        remove_chain(&self.pack_dir)
    }

    fn has_file(&self, name: &str, bytes: &[u8]) -> bool {
        Mapped::open(&self.pack_dir.join(name), Role::Index).is_ok_and(|found| *found == *bytes)
    }

    /// Whether the present file differs in nothing but tables for a bitmap.
    fn has_entries_of(&self, file: &MultiPackIndexFile) -> bool {
        let Ok(present) = Mapped::open(&self.pack_dir.join(NAME), Role::Index) else { return false };
        let new = MultiPackIndex::open(file.bytes.as_slice(), self.hash);
        match (MultiPackIndex::open(present, self.hash), new) {
            (Ok(present), Ok(new)) => present.has_entries_of(&new) && present.verify_checksum().is_ok(),
            _ => false,
        }
    }

    /// Writes the files beside a multi-pack-index under temporary names.
    fn write_companions(
        &self,
        dir: &Path,
        file: &MultiPackIndexFile,
    ) -> Result<Vec<(&'static str, durable::NewFile)>, Error> {
        let component = Component::PackMetadata;
        let write = |(ending, bytes): (&'static str, &Vec<u8>)| {
            let prefix = format!("tmp_{ending}_");
            let mut file = create_temporary(dir, &prefix, 0o444, Role::Index, self.policy, component)?;
            let mut done = file.write(bytes).and_then(|()| file.flush());
            if self.policy.syncs(component) {
                done = done.and_then(|()| file.sync());
            }
            done.map_err(|error| Error::io(file.path(), error))?;
            Ok((ending, file))
        };
        file.companions().map(write).collect()
    }
}

fn name_companions(files: Vec<(&'static str, durable::NewFile)>, stem: &Path) -> Result<(), Error> {
    files.into_iter().try_for_each(|(ending, file)| {
        let path = stem.with_extension(ending);
        file.replace(&path).map_err(|error| Error::io(path, error))
    })
}

/// Removes the list of the files of the chain, then the files.
fn remove_chain(pack_dir: &Path) -> Result<(), Error> {
    let dir = pack_dir.join(MIDX_CHAIN_DIR);
    let list = dir.join(CHAIN_NAME);
    match durable::remove_file(&list, Role::Index).map_err(|error| Error::io(list, error))? {
        true => remove_companions(&dir, &[]),
        false => Ok(()),
    }
}

/// Removes bitmaps, reverse indexes and files of chains of other multi-pack-indexes; `own` are the prefixes of
/// those that stay.
fn remove_companions(dir: &Path, own: &[String]) -> Result<(), Error> {
    let entries = packrace_os::list_dir(dir, Role::Index).map_err(|error| Error::io(dir, error))?;
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let of_any = names.filter(|name| {
        let rest = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| [".bitmap", ".rev", ".midx"].iter().any(|ending| rest.ends_with(ending)))
    });
    for name in of_any.filter(|name| !own.iter().any(|own| name.starts_with(own))) {
        let path = dir.join(name);
        durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
    }
    Ok(())
}
