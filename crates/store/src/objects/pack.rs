use std::hash::{Hash as _, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use packrace_format::mtimes::Mtimes;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped};

use crate::error::{Error, ErrorKind, Reason};
use crate::objects::pack_fault;
use crate::objects::verified;
use crate::paths::with_extension;

/// The bytes of a pack that is damaged or gone: none.
static NO_BYTES: LazyLock<Mapped> = LazyLock::new(|| Mapped::from(Vec::new()));

/// Listing opens an index that may have more objects than this.
const MOST_UNOPENED: u32 = 1 << 20;

/// A pack of a [`Snapshot`](crate::Snapshot). Its index is opened on the first search, the pack on the first
/// object found. Both then stay mapped, so that a repack cannot remove them.
#[derive(Debug)]
pub struct Pack {
    files: Arc<PackFiles>,
    beside: Beside,
    /// The number of its object directory in the snapshot.
    dir: usize,
    is_local: bool,
}

/// The files of a pack, shared by all snapshots that have it.
#[derive(Debug)]
pub(crate) struct PackFiles {
    pub(crate) listed: ListedPack,
    hash: HashKind,
    listed_index: OnceLock<ListedIndex>,
    index: OnceLock<OpenIndex>,
    /// Held while `listed_index` or `index` is set, because they must match.
    opening: Mutex<()>,
    /// `None` if damaged or missing.
    data: OnceLock<Option<Mapped>>,
    reverse: OnceLock<ReverseIndex<Mapped>>,
    stored_times: Option<Mapped>,
}

/// A pack as its directory showed it when first listed.
#[derive(Debug, Clone)]
pub(crate) struct ListedPack {
    /// Its path without an extension.
    pub(crate) stem: PathBuf,
    pub(crate) name: String,
    /// The identity of the pack file; `None` if it is not a file.
    pub(crate) identity: Option<FileIdentity>,
}

/// A pack file as last listed, and the files beside it.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub(crate) struct Beside {
    pub(crate) identity: Option<FileIdentity>,
    pub(crate) has_bitmap: bool,
    pub(crate) has_keep: bool,
    pub(crate) has_reverse: bool,
    pub(crate) is_promisor: bool,
    pub(crate) is_cruft: bool,
}

/// The index at the time its objects were numbered.
#[derive(Debug)]
struct ListedIndex {
    identity: FileIdentity,
    room: u32,
}

#[derive(Debug)]
struct OpenIndex {
    index: PackIndex<Mapped>,
    checksum: ObjectId,
    standing: IndexStanding,
}

/// The state of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexStanding {
    /// The index as it is stored.
    Stored,
    /// Damaged or unreadable: it has no objects.
    Unusable,
    /// Gone when first searched: it has no objects either.
    Gone,
}

impl OpenIndex {
    fn of(index: PackIndex<Mapped>, standing: IndexStanding) -> Self {
        OpenIndex { checksum: index.pack_checksum(), index, standing }
    }
}

impl PackFiles {
    /// Opens nothing but the mtimes of a cruft pack, which decide deletions.
    pub(crate) fn new(listed: ListedPack, beside: Beside, hash: HashKind) -> Self {
        let times = || Mapped::open(&with_extension(&listed.stem, "mtimes"), Role::Index).ok();
        PackFiles {
            stored_times: if beside.is_cruft { times() } else { None },
            listed,
            hash,
            listed_index: OnceLock::new(),
            index: OnceLock::new(),
            opening: Mutex::new(()),
            data: OnceLock::new(),
            reverse: OnceLock::new(),
        }
    }

    /// A pack and its index, without optional files. `stem` names both in errors.
    fn from_maps(stem: &Path, data: Mapped, index: Mapped, hash: HashKind) -> Result<Self, Error> {
        let listed = ListedPack {
            stem: stem.to_owned(),
            name: stem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            identity: data.identity(),
        };
        let index = OpenIndex::of(parse_index(stem, index, hash)?, IndexStanding::Stored);
        check_data(stem, &data, &index, hash)?;
        let files = PackFiles::new(listed, Beside::default(), hash);
        Ok(PackFiles { index: OnceLock::from(index), data: OnceLock::from(Some(data)), ..files })
    }

    /// Stats the index: its length bounds how many numbers its objects need, so it need not be opened. A file
    /// that claims to be large is opened, so that a damaged one does not use up the numbers of others.
    pub(crate) fn list_index(&self) -> Result<(), Error> {
        let _opening = self.lock_opening();
        if self.listed_index.get().is_some() {
            return Ok(());
        }
        let identity = packrace_os::identity(&self.index_path(), Role::Index)
            .and_then(|identity| identity.ok_or(std::io::ErrorKind::NotFound.into()))
            .map_err(|source| Error::io(self.index_path(), source))?;
        if !identity.is_file {
            return Err(Reason::Damaged(format!("{} is not a file", self.index_path().display())).into());
        }
        let most = most_objects(identity.length, self.hash);
        if most > MOST_UNOPENED && self.index.get().is_none() {
            let index = self.read_index()?;
            self.index.get_or_init(|| OpenIndex::of(index, IndexStanding::Stored));
        }
        let room = self.index.get().map_or(most, |open| open.index.len());
        self.listed_index.get_or_init(|| ListedIndex { identity, room });
        Ok(())
    }

    /// How many numbers its objects get; may exceed the number of objects. Never changes.
    pub(crate) fn room(&self) -> u32 {
        self.listed_index.get().map_or_else(|| self.index().len(), |listed| listed.room)
    }

    /// Opens the index, for callers that can do without the pack.
    pub(crate) fn open_index(&self) -> Result<(), Error> {
        let _opening = self.lock_opening();
        if self.index.get().is_none() {
            let index = self.read_index()?;
            if self.listed_index.get().is_some_and(|listed| index.len() > listed.room) {
                // The listed index is gone.
                return Err(Error::io(self.index_path(), std::io::ErrorKind::NotFound.into()));
            }
            self.index.get_or_init(|| OpenIndex::of(index, IndexStanding::Stored));
        }
        Ok(())
    }

    fn read_index(&self) -> Result<PackIndex<Mapped>, Error> {
        let path = self.index_path();
        let bytes = Mapped::open(&path, Role::Index).map_err(|source| Error::io(path, source))?;
        parse_index(&self.listed.stem, bytes, self.hash)
    }

    fn index_path(&self) -> PathBuf {
        with_extension(&self.listed.stem, "idx")
    }

    fn lock_opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index; empty if damaged or gone, which is reported once.
    pub(crate) fn index(&self) -> &PackIndex<Mapped> {
        &self.opened_index().index
    }

    fn opened_index(&self) -> &OpenIndex {
        if let Some(index) = self.index.get() {
            return index;
        }
        if let Err(error) = self.open_index() {
            report(&error);
            let standing = if error.is_not_found() { IndexStanding::Gone } else { IndexStanding::Unusable };
            return self.index.get_or_init(|| OpenIndex::of(PackIndex::empty(self.hash), standing));
        }
        self.index.get().expect("opened just now")
    }

    /// The pack, opened and checked against its index on first use.
    fn data(&self) -> Option<&Mapped> {
        let open = || self.open_data().inspect_err(report).ok().flatten();
        self.data.get_or_init(open).as_ref()
    }

    fn open_data(&self) -> Result<Option<Mapped>, Error> {
        let index = self.opened_index();
        if index.standing != IndexStanding::Stored {
            return Ok(None);
        }
        let stem = &self.listed.stem;
        let path = with_extension(stem, "pack");
        let data = Mapped::open(&path, Role::Pack).map_err(|source| Error::io(path, source))?;
        check_data(stem, &data, index, self.hash)?;
        // A replacement pack of the same name may have its objects at other offsets than the index says.
        if let (Some(now), Some(listed)) = (data.identity(), self.listed.identity)
            && !is_same_file(&now, &listed)
        {
            tracing::debug!("packfile {} was replaced", with_extension(stem, "pack").display());
            return Ok(None);
        }
        Ok(Some(data))
    }

    /// Whether its index was gone when first searched.
    pub(crate) fn has_lost_index(&self) -> bool {
        self.index.get().is_some_and(|index| index.standing == IndexStanding::Gone)
    }

    /// Whether it turned out to be damaged or gone.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.data.get(), Some(None))
            || self.index.get().is_some_and(|index| index.standing != IndexStanding::Stored)
            || self.maps().any(Mapped::is_damaged)
    }

    /// All files mapped so far, the pack first.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &Mapped> {
        self.data.get().into_iter().flatten().chain(self.maps_beside())
    }

    /// As above, without the pack.
    fn maps_beside(&self) -> impl Iterator<Item = &Mapped> {
        let index = self.index.get().map(|open| open.index.data());
        let reverse = self.reverse.get().and_then(ReverseIndex::file);
        index.into_iter().chain(reverse).chain(&self.stored_times)
    }

    /// Whether these opened files match `listed` and can be reused. Times do not count: storing an existing
    /// object again touches its pack.
    pub(crate) fn is_still(&self, listed: &ListedPack) -> bool {
        let is_same = |one: Option<FileIdentity>, other: Option<FileIdentity>| {
            one.zip(other).is_some_and(|(one, other)| is_same_file(&one, &other))
        };
        let index = match (self.index.get(), self.listed_index.get()) {
            (Some(open), _) => open.index.data().identity(),
            (None, listed) => listed.map(|listed| listed.identity),
        };
        !self.has_failed()
            && self.listed.stem == listed.stem
            && is_same(self.listed.identity, listed.identity)
            && packrace_os::identity(&self.index_path(), Role::Index).is_ok_and(|now| is_same(now, index))
    }
}

/// The maximum number of objects in an index of this size. Beside a fan-out of 1,024 bytes and two hashes,
/// version 1 has a name and an offset of 4 bytes for each; version 2 adds a header and a checksum.
fn most_objects(index_bytes: u64, hash: HashKind) -> u32 {
    let hash_bytes = hash.len_in_bytes() as u64;
    let objects = index_bytes.saturating_sub(1024 + 2 * hash_bytes) / (hash_bytes + 4);
    u32::try_from(objects).unwrap_or(u32::MAX)
}

fn is_same_file(one: &FileIdentity, other: &FileIdentity) -> bool {
    one.is_same_place(other) && one.length == other.length
}

/// A pack that a repack removed is not an error.
fn report(error: &Error) {
    match error.is_not_found() {
        true => tracing::debug!("{error}"),
        false => tracing::error!("{error}"),
    }
}

fn parse_index(stem: &Path, bytes: Mapped, hash: HashKind) -> Result<PackIndex<Mapped>, Error> {
    let path = with_extension(stem, "idx");
    // Cloning a map is free.
    let opened = PackIndex::open(bytes.clone(), hash);
    Ok(opened.map_err(|_| Reason::Damaged(pack_fault::of_index(&path, &bytes, hash)))?)
}

/// Whether this is a pack, and the one that the index belongs to.
fn check_data(stem: &Path, data: &Mapped, index: &OpenIndex, hash: HashKind) -> Result<(), Error> {
    let path = || with_extension(stem, "pack");
    let header = pack_fault::header(&path(), data).map_err(Reason::Damaged)?;
    let damaged = |what: &str| Error::from(Reason::Damaged(format!("packfile {} {what}", path().display())));
    if header.objects != index.index.len() {
        return Err(damaged(&format!(
            "claims to have {} objects while index indicates {} objects",
            header.objects,
            index.index.len()
        )));
    }
    let trailer_bytes = hash.len_in_bytes();
    let is_whole =
        data.len().checked_sub(trailer_bytes).is_some_and(|at| at >= packrace_format::pack::HEADER_BYTES);
    if !is_whole || data[data.len() - trailer_bytes..] != *index.checksum.as_slice() {
        return Err(damaged("does not match index"));
    }
    Ok(())
}

impl Pack {
    /// A pack in object directory `dir` of the snapshot.
    pub(crate) fn new(files: Arc<PackFiles>, beside: Beside, dir: usize, is_local: bool) -> Self {
        Pack { files, beside, dir, is_local }
    }

    /// A pack and its index, without optional files. `stem` names both in errors.
    pub(crate) fn from_maps(stem: &Path, data: Mapped, index: Mapped, hash: HashKind) -> Result<Self, Error> {
        let files = Arc::new(PackFiles::from_maps(stem, data, index, hash)?);
        Ok(Pack::new(files, Beside::default(), 0, true))
    }

    #[cfg(test)]
    pub(crate) fn into_files(self) -> Arc<PackFiles> {
        self.files
    }

    /// Whether the pack and its index exist and match. Opens both.
    #[inline]
    pub fn is_usable(&self) -> bool {
        self.files.data().is_some()
    }

    /// Whether its index is damaged or unreadable. Opens it.
    pub fn has_damaged_index(&self) -> bool {
        self.files.opened_index().standing == IndexStanding::Unusable
    }

    /// Whether it is open and usable; opens nothing.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.files.data.get(), Some(Some(_)))
    }

    /// `pack-<hash>`, without a directory.
    pub fn name(&self) -> &str {
        &self.files.listed.name
    }

    /// The path of the pack file.
    pub fn path(&self) -> PathBuf {
        with_extension(&self.files.listed.stem, "pack")
    }

    /// All bytes of the pack file; empty if it is not usable.
    pub fn bytes(&self) -> &[u8] {
        self.map()
    }

    /// All files mapped so far.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &Mapped> {
        self.files.maps()
    }

    /// As above, without the pack.
    pub(crate) fn maps_beside(&self) -> impl Iterator<Item = &Mapped> {
        self.files.maps_beside()
    }

    /// The map of the pack file; empty if it is not usable.
    pub fn map(&self) -> &Mapped {
        self.files.data().unwrap_or_else(|| &NO_BYTES)
    }

    /// The index; empty if damaged or gone.
    #[inline]
    pub fn index(&self) -> &PackIndex<Mapped> {
        self.files.index()
    }

    /// The checksum of the pack, as recorded in the index.
    pub fn checksum(&self) -> &ObjectId {
        &self.files.opened_index().checksum
    }

    /// How many numbers its objects get.
    pub(crate) fn room(&self) -> u32 {
        self.files.room()
    }

    /// How many objects it has. Opens the index.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.index().len()
    }

    /// When the pack file was last changed.
    pub fn modified(&self) -> Option<std::time::SystemTime> {
        self.beside.identity.and_then(|file| file.modified)
    }

    /// Whether it is in the repository's own object directory, not in an alternate.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether a `.keep` file forbids repacking it.
    pub fn has_keep(&self) -> bool {
        self.beside.has_keep
    }

    /// Whether it came from a promisor remote (gitformat-pack; partial clones): objects that it references
    /// may be missing.
    pub fn is_promisor(&self) -> bool {
        self.beside.is_promisor
    }

    /// Whether it is a cruft pack: its objects were unreachable when it was made.
    pub fn is_cruft(&self) -> bool {
        self.beside.is_cruft
    }

    /// When each object of a cruft pack was last wanted, by index position. The file is fully verified,
    /// because objects are deleted by it.
    pub fn times(&self) -> Result<Option<Mtimes<&[u8]>>, Error> {
        let Some(stored) = &self.files.stored_times else { return Ok(None) };
        let opened = Mtimes::open(&**stored, self.len(), self.checksum());
        let times = opened.and_then(|times| times.verify_checksum(self.files.hash).map(|()| times));
        times.map(Some).map_err(|error| {
            let path = with_extension(&self.files.listed.stem, "mtimes");
            tracing::error!("{}", pack_fault::of_times(&path, stored));
            let words = format!("could not load .mtimes for cruft pack '{}.pack'", self.name());
            Error::caused(ErrorKind::Corrupt, words, error)
        })
    }

    /// Hashes the listed version of its files; opens nothing.
    pub(crate) fn hash_version(&self, hasher: &mut impl Hasher) {
        (self.dir, self.is_local, self.beside, &self.files.listed.stem).hash(hasher);
        self.files.stored_times.as_ref().map(Mapped::identity).hash(hasher);
    }

    pub(crate) fn dir(&self) -> usize {
        self.dir
    }

    pub(crate) fn has_bitmap(&self) -> bool {
        self.beside.has_bitmap
    }

    /// Maps pack positions to index positions: the `.rev` file, or computed if that is missing or damaged.
    pub fn reverse(&self) -> &ReverseIndex<Mapped> {
        let files = &*self.files;
        files.reverse.get_or_init(|| {
            // Fully verified, because a flipped bit would make bitmaps refer to other objects.
            let open = |bytes: Mapped| {
                let stored = ReverseIndex::open(bytes.clone(), self.index())?;
                verified::once(&[bytes], || stored.verify_checksum(files.hash)).map(|()| stored)
            };
            let map = || Mapped::open(&with_extension(&files.listed.stem, "rev"), Role::Index).ok();
            let stored = if self.beside.has_reverse { map() } else { None };
            match stored.map(open) {
                Some(Ok(reverse)) => return reverse,
                Some(Err(error)) => {
                    tracing::warn!("ignoring reverse index of {}: {error}", self.name());
                }
                None => {}
            }
            ReverseIndex::compute(self.index())
        })
    }

    /// The start and end of the entry at this pack position, in order and within the pack. With a damaged
    /// index they may not delimit an entry, which parsing detects.
    pub fn entry_range(&self, pack_position: u32) -> (u64, u64) {
        let reverse = self.reverse();
        let offset_of = |position| self.index().offset_at(reverse.index_position_at(position));
        let pack_end = self.bytes().len().saturating_sub(self.files.hash.len_in_bytes()) as u64;
        let end = match pack_position + 1 {
            next if next < self.len() => offset_of(next).min(pack_end),
            _ => pack_end,
        };
        (offset_of(pack_position).min(end), end)
    }

    /// Compares the bytes of the entry at `offset` with their checksum in the index; the error is the object. `None` if no
    /// entry starts there. Indexes of version 1 have no checksums.
    pub fn check_crc(&self, offset: u64) -> Option<Result<(), ObjectId>> {
        let pack_position = self.position_of_offset(offset)?;
        Some(match self.is_intact(pack_position) {
            true => Ok(()),
            false => {
                let position = self.reverse().index_position_at(pack_position);
                Err(self.index().id_at(position).to_owned())
            }
        })
    }

    /// Whether the bytes of the entry at this pack position match their checksum in the index, if it has one.
    pub fn is_intact(&self, pack_position: u32) -> bool {
        let position = self.reverse().index_position_at(pack_position);
        let Some(crc32) = self.index().crc32_at(position) else { return true };
        let (start, end) = self.entry_range(pack_position);
        crc32fast::hash(&self.bytes()[start as usize..end as usize]) == crc32
    }

    /// The pack position of the entry at `offset`.
    pub fn position_of_offset(&self, offset: u64) -> Option<u32> {
        self.reverse().pack_position_of_offset(self.index(), offset)
    }
}
