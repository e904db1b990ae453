//! Reads and replaces the commit-graph files of one object directory.
//!
//! ```text
//! info/commit-graph                              one file for everything, or
//! info/commit-graphs/commit-graph-chain          the checksums of a chain's files, the base first
//! info/commit-graphs/graph-<checksum>.graph      a file of a chain, here or in the same place of an alternate
//! ```

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::{EntryType, Mapped, durable};

use crate::error::Error;
use crate::objects::accelerators::{GraphChain, graph_name, map, read_chain};
use crate::objects::objects_dir::{self, ObjectsDir};
use crate::publish::{FileKind, LockFile, WritePolicy, publish_file};
use crate::repository::Repository;

/// When files outside the chain are removed.
#[derive(Debug, Clone, Copy)]
pub struct GraphExpiry {
    /// The current time, given to files that were in the chain until now.
    pub now: SystemTime,
    /// Files of this time and older are removed.
    pub before: SystemTime,
}

/// The commit-graph of an object directory.
#[derive(Debug)]
pub struct GraphFiles {
    hash: HashKind,
    info: PathBuf,
    /// The files; a single one counts as a chain of one.
    chain: GraphChain,
    is_chain: bool,
    policy: WritePolicy,
}

impl GraphFiles {
    /// The commit-graph of `object_dir`, which must be in use by the repository; by default its own.
    pub fn open(repository: &Repository, object_dir: Option<&Path>) -> Result<Self, Error> {
        let dirs =
            objects_dir::open(repository.object_dir(), repository.alternates(), repository.hash_kind());
        let at = match object_dir {
            None => 0,
            Some(wanted) => objects_dir::position(&dirs, wanted)?,
        };
        let info = dirs[at].path().join("info");
        let hash = repository.hash_kind();
        let (chain, is_chain) = match map(&info.join("commit-graph")) {
            Some(single) => (GraphChain { layers: vec![single], ..GraphChain::default() }, false),
            None => match read_chain(&dirs, at, hash)? {
                Some(chain) => (chain, true),
                None => (below(&dirs, at, hash)?, false),
            },
        };
        Ok(GraphFiles { hash, info, chain, is_chain, policy: WritePolicy::of(repository.config())? })
    }

    /// The files, base first; empty if there is no commit-graph.
    pub fn layers(&self) -> &[Mapped] {
        &self.chain.layers
    }

    /// How many of them, from the base on, are in other object directories.
    pub fn foreign_layers(&self) -> usize {
        self.chain.foreign_layers
    }

    /// Whether it is a chain.
    pub fn is_chain(&self) -> bool {
        self.is_chain
    }

    /// Whether the list of the files of the chain is too short for one.
    pub fn is_cut_off(&self) -> bool {
        self.chain.is_cut_off
    }

    /// Whether every file that the chain names was found, and is built on those below.
    pub fn is_complete(&self) -> bool {
        !self.chain.is_incomplete
    }

    /// The file that readers open first, for messages.
    pub fn path(&self) -> PathBuf {
        if self.is_chain { self.chain_path() } else { self.single_path() }
    }

    /// Takes the lock that writers of a single file, or of a chain, agree on.
    pub fn lock(&self, for_chain: bool) -> Result<LockFile, Error> {
        match for_chain {
            true => LockFile::take(&self.chain_path(), FileKind::CommitGraphChain, self.writes()),
            false => LockFile::take(&self.single_path(), FileKind::CommitGraph, self.writes()),
        }
    }

    /// Publishes a single file; a chain is removed, as readers no longer read it.
    pub fn replace_by_single(
        &self,
        mut lock: LockFile,
        bytes: &[u8],
        expiry: GraphExpiry,
    ) -> Result<(), Error> {
        lock.write(bytes)?;
        lock.commit()?;
        let chain = self.chain_path();
        durable::remove_file(&chain, Role::Index).map_err(|error| Error::io(chain, error))?;
        self.expire(&[], expiry)
    }

    /// Publishes `bytes` on top of the first `kept` files.
    pub fn replace_by_chain(
        &self,
        mut lock: LockFile,
        bytes: &[u8],
        kept: usize,
        expiry: GraphExpiry,
    ) -> Result<(), Error> {
        let mut names: Vec<ObjectId> = Vec::new();
        for layer in &self.chain.layers[..kept] {
            let Some(id) = self.checksum(layer) else { continue };
            if !self.is_chain && self.chain.foreign_layers == 0 {
                self.publish_layer(&id, layer)?;
            }
            names.push(id);
        }
        let id = self.checksum(bytes).expect("a file that was just made is whole");
        self.publish_layer(&id, bytes)?;
        names.push(id);
        let text: String = names.iter().map(|id| format!("{id}\n")).collect();
        lock.write(text.as_bytes())?;
        lock.commit()?;
        // From now on readers should see the chain; until now it was the single file.
        let single = self.single_path();
        durable::remove_file(&single, Role::Index).map_err(|error| Error::io(single, error))?;
        self.expire(&names, expiry)
    }

    fn publish_layer(&self, id: &oid, bytes: &[u8]) -> Result<(), Error> {
        publish_file(&self.dir().join(graph_name(id)), bytes, FileKind::CommitGraph, self.writes())
    }

    /// The policy for new files: replacements are durable before the old files are removed.
    fn writes(&self) -> WritePolicy {
        if self.chain.layers.is_empty() { self.policy } else { self.policy.of_rewrites() }
    }

    /// Touches files that have just left the chain, and removes those older than `before`. A reader of the
    /// old chain may still look for them, hence [`GraphExpiry::before`].
    fn expire(&self, used: &[ObjectId], expiry: GraphExpiry) -> Result<(), Error> {
        let dir = self.dir();
        let entries = match packrace_os::list_dir(&dir, Role::Index) {
            Ok(entries) => entries,
            Err(error) if packrace_os::is_absent(&error) => return Ok(()),
            Err(error) => return Err(Error::io(dir, error)),
        };
        let replaced: Vec<ObjectId> =
            self.chain.layers.iter().filter_map(|layer| self.checksum(layer)).collect();
        for entry in entries {
            // As in git, whatever its name says.
            let name = entry.name.to_str().and_then(|name| name.strip_suffix(".graph"));
            let Some(name) = name.filter(|_| entry.kind != EntryType::Dir) else { continue };
            let hex = name.strip_prefix("graph-").unwrap_or_default();
            let id = ObjectId::from_hex(hex.as_bytes()).ok();
            if id.is_some_and(|id| used.contains(&id)) {
                continue;
            }
            let path = dir.join(&entry.name);
            let modified = if id.is_some_and(|id| replaced.contains(&id)) {
                durable::touch(&path, Role::Index).map_err(|error| Error::io(&path, error))?;
                Some(expiry.now)
            } else {
                packrace_os::identity(&path, Role::Index).ok().flatten().and_then(|file| file.modified)
            };
            if modified.is_some_and(|modified| modified <= expiry.before) {
                durable::remove_file(&path, Role::Index).map_err(|error| Error::io(path, error))?;
            }
        }
        Ok(())
    }

    /// The trailing checksum of a file, if it is long enough to have one.
    fn checksum(&self, bytes: &[u8]) -> Option<ObjectId> {
        let at = bytes.len().checked_sub(self.hash.len_in_bytes())?;
        Some(oid::from_bytes_unchecked(&bytes[at..]).to_owned())
    }

    fn dir(&self) -> PathBuf {
        self.info.join("commit-graphs")
    }

    fn chain_path(&self) -> PathBuf {
        self.dir().join("commit-graph-chain")
    }

    fn single_path(&self) -> PathBuf {
        self.info.join("commit-graph")
    }
}

/// The chain of another object directory, which one of this directory is built on; empty if there is none.
fn below(dirs: &[ObjectsDir], own: usize, hash: HashKind) -> Result<GraphChain, Error> {
    for number in (0..dirs.len()).filter(|number| *number != own) {
        if let Some(chain) = read_chain(dirs, number, hash)?.filter(|chain| !chain.is_incomplete) {
            return Ok(GraphChain { foreign_layers: chain.layers.len(), ..chain });
        }
    }
    Ok(GraphChain::default())
}
