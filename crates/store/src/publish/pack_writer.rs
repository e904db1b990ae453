use std::path::{Path, PathBuf};

use packrace_format::pack;
use packrace_object::{HashKind, ObjectId, TrailerHasher, oid};
use packrace_os::count::Role;
use packrace_os::durable::{NewFile, PIECE_BYTES};

use super::sealed_pack::SealedPack;
use super::written_pack::WrittenPack;
use super::{Component, Scratch, WritePolicy, create_temporary};
use crate::error::{Error, Reason};

/// A pack being written as `tmp_pack_XXXXXX` in its final directory. Dropping it unpublished removes the
/// file; `git gc` removes the file of a killed process.
#[derive(Debug)]
pub struct PackWriter {
    file: NewFile,
    dir: PathBuf,
    hash: HashKind,
    policy: WritePolicy,
    trailer: Trailer,
}

/// How the checksum of the pack is obtained.
enum Trailer {
    /// Hashed while writing, from a header that announced the number of objects.
    Running(TrailerHasher, u32),
    /// Hashed at the end, because the header changes.
    Later,
    /// Part of the received bytes, verified by the caller.
    Received,
}

impl PackWriter {
    /// Begins a pack with a header, in `dir`, which is created if missing. If the number of objects is
    /// unknown or changes, sealing costs one more pass over the file: the hash starts with the header.
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

    /// Begins a pack made elsewhere; its bytes include header and trailer. The caller verifies them.
    pub fn receive(dir: &Path, hash: HashKind, policy: WritePolicy) -> Result<Self, Error> {
        PackWriter::open(dir, hash, policy, Trailer::Received)
    }

    fn open(dir: &Path, hash: HashKind, policy: WritePolicy, trailer: Trailer) -> Result<Self, Error> {
        let file = create_temporary(dir, "tmp_pack_", 0o444, Role::Pack, policy, Component::Pack)?;
        Ok(PackWriter { file, dir: dir.to_owned(), hash, policy, trailer })
    }

    /// Appends bytes. They reach the file later, in pieces of 1 MiB and more. After an error the pack can
    /// only be dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Trailer::Running(hasher, _) = &mut self.trailer {
            hasher.update(bytes);
        }
        self.file.write(bytes).map_err(|error| self.failed(error))
    }

    /// The current length, which is the offset of the next entry.
    pub fn position(&self) -> u64 {
        self.file.len()
    }

    /// All bytes so far, mapped when they are needed.
    pub fn written(&mut self) -> Result<WrittenPack, Error> {
        WrittenPack::of(&mut self.file)
    }

    /// Syncs what was written so far, if the policy syncs at the end: the final sync is then shorter. Does
    /// not make anything durable yet.
    pub fn sync_ahead(&mut self) -> Result<(), Error> {
        match self.policy.syncs(Component::Pack) {
            true => self.file.sync().map_err(|error| self.failed(error)),
            false => Ok(()),
        }
    }

    /// Storage for contents that must be put aside meanwhile.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.dir.clone(), self.policy)
    }

    /// Removes the trailer of a received pack, so that missing bases of a thin pack can be appended.
    /// Meanwhile no map of the file may be read at its last bytes.
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

    /// Truncates the pack to an earlier length.
    pub(super) fn cut_back(&mut self, position: u64) -> Result<(), Error> {
        assert!(matches!(self.trailer, Trailer::Later), "what was hashed stays");
        self.file.truncate(position).map_err(|error| self.failed(error))
    }

    /// Moves the last entry, which begins at `position`, to the end of another pack.
    pub(super) fn move_last(&mut self, position: u64, to: &mut PackWriter) -> Result<(), Error> {
        self.for_each_piece(position, |piece| to.write(piece))?;
        self.cut_back(position)
    }

    /// Ends the pack with this number of entries: writes the number into the header and the checksum at the
    /// end, unless already there.
    pub fn seal(mut self, objects: u32) -> Result<SealedPack, Error> {
        let checksum = match std::mem::replace(&mut self.trailer, Trailer::Later) {
            Trailer::Running(hasher, announced) if announced == objects => hasher.finish(),
            Trailer::Received => {
                let mut bytes = vec![0; self.hash.len_in_bytes()];
                let at = self.position().checked_sub(bytes.len() as u64);
                let at = at.filter(|at| *at >= pack::HEADER_BYTES as u64).ok_or_else(|| self.cut_off())?;
                self.file.read(at, &mut bytes).map_err(|error| self.failed(error))?;
                let checksum = oid::from_bytes_unchecked(&bytes).to_owned();
                return Ok(SealedPack::new(self.file, self.dir, self.policy, checksum));
            }
            Trailer::Running(..) | Trailer::Later => {
                self.file.overwrite(0, &header(objects)).map_err(|error| self.failed(error))?;
                self.hash_again()?
            }
        };
        self.file.write(checksum.as_slice()).map_err(|error| self.failed(error))?;
        Ok(SealedPack::new(self.file, self.dir, self.policy, checksum))
    }

    /// The checksum of all bytes so far.
    fn hash_again(&mut self) -> Result<ObjectId, Error> {
        let mut hasher = TrailerHasher::new(self.hash);
        self.for_each_piece(0, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Reads what was written, from `position` on.
    fn for_each_piece(
        &mut self,
        position: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = position;
        while at < self.position() {
            let length = (self.position() - at).min(PIECE_BYTES as u64);
            let piece = &mut piece[..length as usize];
            self.file.read(at, piece).map_err(|error| self.failed(error))?;
            take(piece)?;
            at += length;
        }
        Ok(())
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
