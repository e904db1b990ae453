use std::path::{Path, PathBuf};

use packrace_format::pack;
use packrace_object::{HashKind, TrailerHasher, oid};
use packrace_os::Mapped;
use packrace_os::count::Role;
use packrace_os::durable::NewFile;

use super::sealed_pack::SealedPack;
use super::{Component, Scratch, WritePolicy, create_temporary};
use crate::error::{Error, Reason};

/// A pack that is being written, as `tmp_pack_XXXXXX` where it is going to be. Unless it is sealed and published, the
/// file goes when this is dropped; one that a killed process leaves is removed by `git gc`.
#[derive(Debug)]
pub struct PackWriter {
    file: NewFile,
    dir: PathBuf,
    hash: HashKind,
    policy: WritePolicy,
    trailer: Trailer,
}

/// Where the checksum of the pack comes from.
enum Trailer {
    /// Hashed as the bytes come, from a header that said how many objects there are going to be.
    Running(TrailerHasher, u32),
    /// Hashed when all are there, because the header changes.
    Later,
    /// Among the bytes that come, which the caller checks.
    Received,
}

impl PackWriter {
    /// Begins a pack with a header, in `dir`, which is made if it is missing. Where the number of objects is not yet
    /// known, or turns out to be another, sealing costs one more pass over the file: the hash begins with the header.
    pub fn create(
        dir: &Path,
        hash: HashKind,
        policy: WritePolicy,
        objects: Option<u32>,
    ) -> Result<Self, Error> {
        let trailer = match objects {
            Some(objects) => Trailer::Running(TrailerHasher::new(hash), objects),
            None => Trailer::Later,
        };
        let mut writer = PackWriter::open(dir, hash, policy, trailer)?;
        writer.write(&header(objects.unwrap_or(0)))?;
        Ok(writer)
    }

    /// Begins a pack whose bytes, header and trailer included, somebody else has made. The caller checks them.
    pub fn receive(dir: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        PackWriter::open(dir, hash, policy, Trailer::Received)
    }

    fn open(dir: &Path, hash: HashKind, policy: WritePolicy, trailer: Trailer) -> Result<Self, Error> {
        let file = create_temporary(dir, "tmp_pack_", 0o444, Role::Pack, policy, Component::Pack)?;
        Ok(PackWriter { file, dir: dir.to_owned(), hash, policy, trailer })
    }

    /// Appends. The file gets it in pieces of 1 MiB and more, that is, later. After an error the pack can only be
    /// dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Trailer::Running(hasher, _) = &mut self.trailer {
            hasher.update(bytes);
        }
        self.file.write(bytes).map_err(|error| self.failed(error))
    }

    /// How long the pack is so far: where the next entry begins.
    pub fn position(&self) -> u64 {
        self.file.len()
    }

    /// All bytes so far.
    pub fn map(&mut self) -> Result<Mapped, Error> {
        self.file.map().map_err(|error| self.failed(error))
    }

    /// Waits for the disk with what was written so far, if the policy asks for that at the end: then there is less to wait for. Nothing
    /// is durable for it yet.
    pub fn sync_ahead(&mut self) -> Result<(), Error> {
        match self.policy.syncs(Component::Pack) {
            true => self.file.sync().map_err(|error| self.failed(error)),
            false => Ok(()),
        }
    }

    /// Where contents can be put aside meanwhile.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.dir.clone(), self.policy)
    }

    /// Takes the trailer off a received pack, so that what a thin pack lacks can be appended. No map of the file may be
    /// read at its last bytes meanwhile.
    pub fn continue_received(&mut self) -> Result<(), Error> {
        assert!(matches!(self.trailer, Trailer::Received), "only a received pack has a trailer already");
        let end = self.file.len().checked_sub(self.hash.len_in_bytes() as u64);
        let end = end.filter(|end| *end >= pack::HEADER_BYTES as u64).ok_or_else(|| self.cut_off())?;
        self.file.truncate(end).map_err(|error| self.failed(error))?;
        self.trailer = Trailer::Later;
        Ok(())
    }

    /// Its temporary name.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Takes back what was written since the pack was so long.
    pub(super) fn cut_back(&mut self, position: u64) -> Result<(), Error> {
        assert!(matches!(self.trailer, Trailer::Later), "what was hashed stays");
        self.file.truncate(position).map_err(|error| self.failed(error))
    }

    /// Ends the pack, which has so many entries: puts the number into the header and the checksum at the end where they
    /// are not there yet.
    pub fn seal(mut self, objects: u32) -> Result<SealedPack, Error> {
        let checksum = match std::mem::replace(&mut self.trailer, Trailer::Later) {
            Trailer::Running(hasher, announced) if announced == objects => hasher.finish(),
            Trailer::Received => {
                let bytes = self.map()?;
                let at = bytes.len().checked_sub(self.hash.len_in_bytes());
                let at = at.filter(|at| *at >= pack::HEADER_BYTES).ok_or_else(|| self.cut_off())?;
                let checksum = oid::from_bytes_unchecked(&bytes[at..]).to_owned();
                return Ok(SealedPack::new(self.file, self.dir, self.policy, checksum));
            }
            Trailer::Running(..) | Trailer::Later => {
                self.file.overwrite(0, &header(objects)).map_err(|error| self.failed(error))?;
                let mut hasher = TrailerHasher::new(self.hash);
                hasher.update(&self.map()?);
                hasher.finish()
            }
        };
        self.file.write(checksum.as_slice()).map_err(|error| self.failed(error))?;
        Ok(SealedPack::new(self.file, self.dir, self.policy, checksum))
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io(self.file.path(), error)
    }

    fn cut_off(&self) -> Error {
        Reason::Damaged(format!("packfile {} is cut off", self.file.path().display())).into()
    }
}

fn header(objects: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pack::HEADER_BYTES);
    pack::write_header(objects, &mut bytes);
    bytes
}

impl std::fmt::Debug for Trailer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Trailer::Running(..) => "Running",
            Trailer::Later => "Later",
            Trailer::Received => "Received",
        })
    }
}
