use std::ffi::OsString;
use std::path::{Path, PathBuf};

use packrace_format::{pack_index, reverse_index};
use packrace_object::ObjectId;
use packrace_os::Mapped;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile, ToSync};

use super::written_pack::WrittenPack;
use super::{Component, ObjectsStored, WritePolicy, create_temporary, dir_of, with_extension};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Reason};

/// Largest offset with version 1; beyond it, stock git writes version 2 (git-config, "pack.indexVersion").
const MAX_VERSION_1_OFFSET: u64 = (1 << 31) - 1;

/// Modes of files that only git reads, as git makes them.
const NOTE_MODE: u32 = 0o600;
const FILE_MODE: u32 = 0o444;

/// A complete pack under a temporary name, invisible until published.
#[derive(Debug)]
pub struct SealedPack {
    file: NewFile,
    dir: PathBuf,
    policy: WritePolicy,
    checksum: ObjectId,
}

/// The stem of the files of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackName<'a> {
    /// `pack-<checksum>` in the directory where it was begun.
    #[default]
    Standard,
    /// `<prefix>-<checksum>`: the base name passed to `git pack-objects`.
    Prefix(&'a Path),
    /// Exactly this path.
    Stem(&'a Path),
}

/// The files beside a pack.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublishOptions<'a> {
    /// The names of the files.
    pub name: PackName<'a>,
    /// The stem of the index and the `.rev`, if different from that of the pack.
    pub index: Option<&'a Path>,
    /// Version 2 replaces version 1 if an entry begins beyond 2 GiB, as in git.
    pub index_version: pack_index::Version,
    /// Whether to write a `.rev` (`pack.writeReverseIndex`).
    pub reverse_index: bool,
    /// Content of the `.keep`.
    pub keep: Option<&'a [u8]>,
    /// Content of the `.promisor`.
    pub promisor: Option<&'a [u8]>,
    /// The `.mtimes` of a cruft pack.
    pub mtimes: Option<&'a [u8]>,
    /// The `.bitmap`.
    pub bitmap: Option<&'a [u8]>,
}

impl PublishOptions<'static> {
    /// The configured options: `pack.indexVersion` and `pack.writeReverseIndex`.
    pub fn of(config: &Config) -> Result<Self, Error> {
        let index_version = match config.small_integer("pack.indexVersion")?.unwrap_or(2) {
            0 | 1 => pack_index::Version::V1,
            2 => pack_index::Version::default(),
            other => return Err(Reason::Config(format!("bad pack.indexVersion={}", other as u32)).into()),
        };
        let reverse_index = config.boolean("pack.writeReverseIndex")?.unwrap_or(true);
        Ok(PublishOptions { index_version, reverse_index, ..PublishOptions::default() })
    }
}

/// A pack that is visible to readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPack {
    /// The path of its files, without extensions.
    pub stem: PathBuf,
    /// The trailer of the pack.
    pub checksum: ObjectId,
    /// Whether a pack of this name and content already existed.
    pub was_there: bool,
    /// Whether the requested `.keep` was created and did not exist before. Its creator removes it.
    pub made_keep: bool,
    /// Whether it is in a quarantine, whose names need not survive.
    is_staged: bool,
}

impl PublishedPack {
    /// Lets refs name its objects. Panics in a quarantine, which returns the proof on migration.
    pub fn stored(&self) -> ObjectsStored {
        assert!(!self.is_staged, "a quarantine gives the proof");
        ObjectsStored::published()
    }
}

/// A file that is about to be named.
struct Companion {
    file: NewFile,
    to: PathBuf,
    component: Component,
    /// Whether an existing file is kept instead.
    yields: bool,
}

impl SealedPack {
    pub(super) fn new(file: NewFile, dir: PathBuf, policy: WritePolicy, checksum: ObjectId) -> Self {
        SealedPack { file, dir, policy, checksum }
    }

    /// The trailer of the pack.
    pub fn checksum(&self) -> &ObjectId {
        &self.checksum
    }

    /// The length of the pack.
    pub fn length(&self) -> u64 {
        self.file.len()
    }

    /// All bytes of the pack, mapped when they are needed.
    pub fn written(&mut self) -> Result<WrittenPack, Error> {
        WrittenPack::of(&mut self.file)
    }

    /// Publishes the pack and its companions and makes them durable. `entries` are those of the pack, sorted
    /// by [`pack_index::sort`].
    ///
    /// An existing pack of this name is kept and touched, so that its objects do not count as old; it must be
    /// identical, byte by byte. An error leaves no temporary file and no `.keep`. Before the first file is
    /// named it leaves nothing at all; after that, named files stay, because another process that stores the
    /// same pack may already rely on them.
    pub fn publish(
        mut self,
        entries: &[pack_index::Entry],
        options: &PublishOptions<'_>,
    ) -> Result<PublishedPack, Error> {
        let stem = self.stem(options.name);
        let written = Companions {
            notes: &stem,
            index: options.index.unwrap_or(&stem),
            checksum: &self.checksum,
            policy: self.policy,
        };
        let (mut notes, mut companions, mut index) = written.write(entries, options)?;
        let all = notes.iter_mut().chain(&mut companions).chain([&mut index]);
        settle(Some(&mut self.file), all, self.policy)?;
        let (policy, checksum) = (self.policy, self.checksum);
        let made_keep = name_notes(notes)?;
        let named = self.name_all(&stem, companions, index, options.mtimes.is_some());
        let index_stem = options.index.unwrap_or(&stem);
        let synced = named.and_then(|was_there| sync_dirs(&stem, index_stem, policy).map(|()| was_there));
        match synced {
            Ok(was_there) => {
                Ok(PublishedPack { stem, checksum, was_there, made_keep, is_staged: policy.is_staged() })
            }
            Err(error) => {
                if made_keep {
                    // Otherwise a pack stored again later could never be repacked. The first
                    // error is reported.
                    let _ = durable::remove_file(&with_extension(&stem, "keep"), Role::Pack);
                }
                Err(error)
            }
        }
    }

    fn stem(&self, name: PackName<'_>) -> PathBuf {
        let prefixed = |prefix: &Path| {
            let mut stem = OsString::from(prefix);
            stem.push(format!("-{}", self.checksum));
            PathBuf::from(stem)
        };
        match name {
            PackName::Standard => prefixed(&self.dir.join("pack")),
            PackName::Prefix(prefix) => prefixed(prefix),
            PackName::Stem(stem) => stem.to_owned(),
        }
    }

    /// Names the pack, then its companions, then its index. Returns whether the pack already existed.
    fn name_all(
        self,
        stem: &Path,
        companions: Vec<Companion>,
        index: Companion,
        is_cruft: bool,
    ) -> Result<bool, Error> {
        let to = with_extension(stem, "pack");
        let failed = |error| Error::io(&to, error);
        let was_there = match self.file.publish(&to).map_err(failed)? {
            None => false,
            Some(ours) => {
                keep_existing(ours, &to)?;
                true
            }
        };
        if was_there && !is_cruft {
            // It is no longer a cruft pack, and its objects do not expire.
            let mtimes = with_extension(stem, "mtimes");
            durable::remove_file(&mtimes, Role::Index).map_err(|error| Error::io(&mtimes, error))?;
        }
        companions.into_iter().chain([index]).try_for_each(|companion| companion.give_name().map(drop))?;
        Ok(was_there)
    }
}

/// The files written beside a pack.
struct Companions<'a> {
    /// The stem of `.keep` and `.promisor`.
    notes: &'a Path,
    /// The stem of the index and of other files that describe the pack.
    index: &'a Path,
    checksum: &'a ObjectId,
    policy: WritePolicy,
}

impl Companions<'_> {
    /// Writes everything but the pack: files named before it (`.promisor` and `.keep`), with it, and
    /// the index last.
    fn write(
        &self,
        entries: &[pack_index::Entry],
        options: &PublishOptions<'_>,
    ) -> Result<(Vec<Companion>, Vec<Companion>, Companion), Error> {
        let hash = self.checksum.kind();
        let write = |extension: &str, mode, yields, content: &[u8]| {
            self.write_companion(self.index, extension, mode, yields, content)
        };
        let version = match entries.iter().any(|entry| entry.offset > MAX_VERSION_1_OFFSET) {
            true if options.index_version == pack_index::Version::V1 => pack_index::Version::default(),
            _ => options.index_version,
        };
        let index = {
            // Freed before the next file is built: an index of a hundred million objects has 2.8 GB.
            let bytes = pack_index::write(entries, hash, self.checksum, version)
                .map_err(|error| Error::caused(ErrorKind::Corrupt, error.to_string(), error))?;
            write("idx", FILE_MODE, false, &bytes)?
        };
        let mut companions = Vec::new();
        if options.reverse_index {
            let reverse = reverse_index::write(entries, hash, self.checksum);
            companions.push(write("rev", FILE_MODE, false, &reverse)?);
        }
        for (extension, content) in [("mtimes", options.mtimes), ("bitmap", options.bitmap)] {
            companions
                .extend(content.map(|content| write(extension, FILE_MODE, false, content)).transpose()?);
        }
        let mut notes = Vec::new();
        for (extension, content) in [("promisor", options.promisor), ("keep", options.keep)] {
            let write = |content| self.write_companion(self.notes, extension, NOTE_MODE, true, content);
            notes.extend(content.map(write).transpose()?);
        }
        Ok((notes, companions, index))
    }

    fn write_companion(
        &self,
        stem: &Path,
        extension: &str,
        mode: u32,
        yields: bool,
        content: &[u8],
    ) -> Result<Companion, Error> {
        let to = with_extension(stem, extension);
        let (dir, prefix) = (dir_of(&to), format!("tmp_{extension}_"));
        // Notes decide which objects may be deleted: they are as precious as the pack.
        let component = if mode == NOTE_MODE { Component::Pack } else { Component::PackMetadata };
        let mut file = create_temporary(dir, &prefix, mode, Role::Index, self.policy, component)?;
        let done = file.write(content).and_then(|()| file.flush());
        done.map_err(|error| Error::io(file.path(), error))?;
        Ok(Companion { file, to, component, yields })
    }
}

/// Makes an existing pack searchable: writes its index as `index`.idx and the files requested by the options,
/// and makes them durable, but not the pack. Returns whether the `.keep` was created.
pub fn publish_index(
    pack: &Path,
    index: &Path,
    checksum: &ObjectId,
    entries: &[pack_index::Entry],
    options: &PublishOptions<'_>,
    policy: WritePolicy,
) -> Result<bool, Error> {
    let written = Companions { notes: pack, index, checksum, policy };
    let (mut notes, mut companions, mut last) = written.write(entries, options)?;
    settle(None, notes.iter_mut().chain(&mut companions).chain([&mut last]), policy)?;
    let made_keep = name_notes(notes)?;
    companions.into_iter().chain([last]).try_for_each(|companion| companion.give_name().map(drop))?;
    sync_dirs(pack, index, policy)?;
    Ok(made_keep)
}

/// Makes the names of a pack and its index durable; they may be in different directories.
fn sync_dirs(pack: &Path, index: &Path, policy: WritePolicy) -> Result<(), Error> {
    let mut dirs = std::collections::BTreeSet::new();
    for (component, stem) in [(Component::PackMetadata, index), (Component::Pack, pack)] {
        dirs.extend(policy.syncs_names(component).then_some(dir_of(stem)));
    }
    let to_sync = dirs.into_iter().map(ToSync::Dir).collect();
    durable::sync_together(to_sync, Role::Pack).map_err(Error::sync)
}

/// Makes all written files durable, in one wait.
fn settle<'a>(
    pack: Option<&'a mut NewFile>,
    companions: impl Iterator<Item = &'a mut Companion>,
    policy: WritePolicy,
) -> Result<(), Error> {
    let pack = pack.map(|file| (Component::Pack, file));
    let companions = companions.map(|companion| (companion.component, &mut companion.file));
    let mut to_sync = Vec::new();
    for (component, file) in pack.into_iter().chain(companions) {
        file.flush().map_err(|error| Error::io(file.path(), error))?;
        if policy.syncs(component) {
            to_sync.push(ToSync::New(file));
        }
    }
    durable::sync_together(to_sync, Role::Pack).map_err(Error::sync)
}

/// Names the files that must exist before the pack, a `.keep` last. Returns whether the `.keep` was created.
fn name_notes(notes: Vec<Companion>) -> Result<bool, Error> {
    let mut made_keep = false;
    for note in notes {
        let is_keep = note.to.extension().is_some_and(|extension| extension == "keep");
        made_keep |= note.give_name()? && is_keep;
    }
    Ok(made_keep)
}

impl Companion {
    /// Whether it now has its name; false if an existing file was kept.
    fn give_name(self) -> Result<bool, Error> {
        let failed = |error| Error::io(&self.to, error);
        if !self.yields {
            return self.file.replace(&self.to).map(|()| true).map_err(failed);
        }
        match self.file.publish(&self.to).map_err(failed)? {
            None => Ok(true),
            Some(ours) => ours.discard().map(|()| false).map_err(failed),
        }
    }
}

/// Compares the existing pack with ours: equal SHA-1 checksums do not prove equal content.
fn keep_existing(mut ours: NewFile, path: &Path) -> Result<(), Error> {
    let theirs = Mapped::open(path, Role::Pack).map_err(|error| Error::io(path, error))?;
    let own = ours.map().map_err(|error| Error::io(ours.path(), error))?;
    if *own != *theirs {
        let (ours, path) = (ours.path().display(), path.display());
        return Err(Reason::Damaged(format!("files '{ours}' and '{path}' differ in contents")).into());
    }
    ours.discard().map_err(|error| Error::io(path, error))?;
    // Only its owner may touch it; for others its age does not change.
    if let Err(error) = durable::touch(path, Role::Pack) {
        tracing::debug!("{}: {error}", path.display());
    }
    Ok(())
}
