use std::hash::{Hash as _, Hasher};
use std::path::Path;
use std::sync::OnceLock;

use packrace_format::mtimes::Mtimes;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::{HashKind, ObjectId};
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::verified;

/// A pack and its index, both mapped when the snapshot was made, so that a repack cannot take them away.
#[derive(Debug)]
pub struct Pack {
    name: String,
    data: Mapped,
    index: PackIndex<Mapped>,
    checksum: ObjectId,
    reverse: OnceLock<ReverseIndex<Mapped>>,
    stored_reverse: Option<Mapped>,
    stored_times: Option<Mapped>,
    hash: HashKind,
    modified: Option<std::time::SystemTime>,
    place: PackPlace,
}

/// Where a pack stands and what stands beside it.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct PackPlace {
    /// The number of its object directory in the snapshot.
    pub(crate) dir: usize,
    pub(crate) is_local: bool,
    pub(crate) has_bitmap: bool,
    pub(crate) has_keep: bool,
    pub(crate) is_promisor: bool,
    pub(crate) is_cruft: bool,
}

impl Pack {
    /// Maps `stem.pack`, `stem.idx` and, if there is one, `stem.rev`.
    pub(crate) fn open(
        directory: &Path,
        stem: &str,
        hash: HashKind,
        place: PackPlace,
    ) -> Result<Self, Error> {
        let path = |extension: &str| directory.join(format!("{stem}.{extension}"));
        let map = |extension: &str, role| {
            let path = path(extension);
            Mapped::open(&path, role).map_err(|source| Error::io(path, source))
        };
        let index_bytes = map("idx", Role::Index)?;
        let data = map("pack", Role::Pack)?;
        let modified =
            packrace_os::identity(&path("pack"), Role::Pack).ok().flatten().and_then(|file| file.modified);
        let stored_reverse = Mapped::open(&path("rev"), Role::Index).ok();
        let stored_times =
            if place.is_cruft { Mapped::open(&path("mtimes"), Role::Index).ok() } else { None };
        let pack = Pack::from_maps(&directory.join(stem), data, index_bytes, hash, place)?;
        Ok(Pack { modified, stored_reverse, stored_times, ..pack })
    }

    /// A pack and its index, without what may stand beside them. `stem` names both in errors.
    pub(crate) fn from_maps(
        stem: &Path,
        data: Mapped,
        index: Mapped,
        hash: HashKind,
        place: PackPlace,
    ) -> Result<Self, Error> {
        let path = |extension| crate::publish::with_extension(stem, extension);
        let index =
            PackIndex::open(index, hash).map_err(|source| Reason::Format { path: path("idx"), source })?;
        let header = packrace_format::pack::Header::parse(&data)
            .map_err(|source| Reason::Format { path: path("pack"), source })?;
        let damaged =
            |what: &str| Error::from(Reason::Damaged(format!("packfile {} {what}", path("pack").display())));
        if header.objects != index.len() {
            return Err(damaged(&format!(
                "claims to have {} objects while index indicates {} objects",
                header.objects,
                index.len()
            )));
        }
        let trailer_bytes = hash.len_in_bytes();
        let is_whole =
            data.len().checked_sub(trailer_bytes).is_some_and(|at| at >= packrace_format::pack::HEADER_BYTES);
        let checksum = index.pack_checksum();
        if !is_whole || data[data.len() - trailer_bytes..] != *checksum.as_slice() {
            return Err(damaged("does not match index"));
        }
        Ok(Pack {
            name: stem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            data,
            index,
            checksum,
            reverse: OnceLock::new(),
            stored_reverse: None,
            stored_times: None,
            hash,
            modified: None,
            place,
        })
    }

    /// `pack-<hash>`, without a directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All bytes of the pack file.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// All files that are mapped, that of the pack first.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &Mapped> {
        let beside = self.stored_reverse.iter().chain(&self.stored_times);
        [&self.data, self.index.data()].into_iter().chain(beside)
    }

    /// The map of the pack file.
    pub fn map(&self) -> &Mapped {
        &self.data
    }

    /// The index.
    pub fn index(&self) -> &PackIndex<Mapped> {
        &self.index
    }

    /// The trailer of the pack, as the index names it.
    pub fn checksum(&self) -> &ObjectId {
        &self.checksum
    }

    /// How many objects it has.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.index.len()
    }

    /// When the pack file was last changed.
    pub fn modified(&self) -> Option<std::time::SystemTime> {
        self.modified
    }

    /// Whether it stands in the repository's own object directory and not in an alternate.
    pub fn is_local(&self) -> bool {
        self.place.is_local
    }

    /// Whether a `.keep` forbids to repack it.
    pub fn has_keep(&self) -> bool {
        self.place.has_keep
    }

    /// Whether it came from a promisor remote (gitformat-pack; partial clones): what it names may be missing.
    pub fn is_promisor(&self) -> bool {
        self.place.is_promisor
    }

    /// Whether it is a cruft pack: nothing reached its objects when it was made.
    pub fn is_cruft(&self) -> bool {
        self.place.is_cruft
    }

    /// When each object of a cruft pack was last wanted, by position in the index. All of it is checked, because objects
    /// are deleted by it.
    pub fn times(&self) -> Result<Option<Mtimes<&[u8]>>, Error> {
        let Some(stored) = &self.stored_times else { return Ok(None) };
        let opened = Mtimes::open(&**stored, self.len(), &self.checksum);
        let times = opened.and_then(|times| times.verify_checksum(self.hash).map(|()| times));
        times.map(Some).map_err(|error| Reason::Damaged(format!("{}.mtimes: {error}", self.name)).into())
    }

    /// Tells `hasher` which version of which files this is.
    pub(crate) fn hash_version(&self, hasher: &mut impl Hasher) {
        self.name.hash(hasher);
        self.place.hash(hasher);
        self.checksum.hash(hasher);
        let beside = [&self.stored_reverse, &self.stored_times].map(|map| map.as_ref().map(Mapped::identity));
        (self.data.identity(), self.index.data().identity(), beside).hash(hasher);
    }

    pub(crate) fn dir(&self) -> usize {
        self.place.dir
    }

    pub(crate) fn has_bitmap(&self) -> bool {
        self.place.has_bitmap
    }

    /// Positions in the pack to positions in the index: the `.rev` file, or computed where that is missing or damaged.
    pub fn reverse(&self) -> &ReverseIndex<Mapped> {
        self.reverse.get_or_init(|| {
            // All of it is checked, because a flipped bit would make a bitmap mean other objects.
            let open = |bytes: Mapped| {
                let stored = ReverseIndex::open(bytes.clone(), &self.index)?;
                verified::once(&[bytes], || stored.verify_checksum(self.hash)).map(|()| stored)
            };
            let stored = self.stored_reverse.clone().map(open);
            match stored {
                Some(Ok(reverse)) => return reverse,
                Some(Err(error)) => tracing::warn!("reverse-index of {} is not used: {error}", self.name),
                None => {}
            }
            ReverseIndex::compute(&self.index)
        })
    }

    /// Where the entry at this position of the pack begins and ends. Both lie within the pack and in this order; a
    /// damaged index can make them describe no entry, which parsing then finds out.
    pub fn entry_range(&self, pack_position: u32) -> (u64, u64) {
        let reverse = self.reverse();
        let offset_of = |position| self.index.offset_at(reverse.index_position_at(position));
        let pack_end = (self.data.len() - self.hash.len_in_bytes()) as u64;
        let end = match pack_position + 1 {
            next if next < self.len() => offset_of(next).min(pack_end),
            _ => pack_end,
        };
        (offset_of(pack_position).min(end), end)
    }

    /// The position in the pack of the entry that starts at `offset`.
    pub fn position_of_offset(&self, offset: u64) -> Option<u32> {
        self.reverse().pack_position_of_offset(&self.index, offset)
    }
}
