use std::path::PathBuf;

use packrace_os::Mapped;
use packrace_os::count::Role;
use packrace_os::durable::NewFile;

use super::{Component, WritePolicy, create_temporary};
use crate::error::Error;

/// Stores contents that are too large for memory beside a pack being written. Complete files have no name, so
/// a crash leaves nothing of them.
#[derive(Debug, Clone)]
pub struct Scratch {
    dir: PathBuf,
    policy: WritePolicy,
}

/// A content being put aside.
#[derive(Debug)]
pub struct ScratchFile(NewFile);

impl Scratch {
    pub(super) fn new(dir: PathBuf, policy: WritePolicy) -> Self {
        Scratch { dir, policy }
    }

    /// Begins a content.
    pub fn create(&self) -> Result<ScratchFile, Error> {
        let (policy, component) = (self.policy, Component::Pack);
        create_temporary(&self.dir, "tmp_base_", 0o600, Role::Objects, policy, component).map(ScratchFile)
    }
}

impl ScratchFile {
    /// Appends these bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.write(bytes).map_err(|error| Error::io(self.0.path(), error))
    }

    /// The whole content; the file is freed with its last map.
    pub fn finish(mut self) -> Result<Mapped, Error> {
        let path = self.0.path().to_owned();
        let map = self.0.map().map_err(|error| Error::io(&path, error))?;
        self.0.discard().map_err(|error| Error::io(&path, error))?;
        Ok(map)
    }
}
