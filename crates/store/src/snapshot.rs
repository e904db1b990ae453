//! An immutable view of everything a repository stores, held for a whole response.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use packrace_format::commit_graph::CommitGraph;
use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::accelerators;
use crate::bitmap::{BitmapFile, BitmapOwner, OpenBitmap, SnapshotBitmap};
use crate::error::{Error, Reason};
use crate::objects_dir::{self, ObjectsDir};
use crate::pack::{Pack, PackPlace};
use crate::reader::ObjectReader;

/// How often the packs are listed again because one vanished between listing and mapping.
const MAX_LISTINGS: usize = 5;

/// The number of a packed object in a [`Snapshot`]. Units follow each other, and within a unit objects are in the
/// order of its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(pub u32);

/// The number of a pack in a [`Snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackIx(pub u32);

/// Where a packed object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The pack.
    pub pack: PackIx,
    /// Where its entry starts.
    pub offset: u64,
}

/// Objects that one index describes: that of a pack, or a multi-pack-index.
#[derive(Debug)]
pub struct Unit {
    start: u32,
    len: u32,
    pub(crate) index: UnitIndex,
}

#[derive(Debug)]
pub(crate) enum UnitIndex {
    Pack(PackIx),
    Multi {
        index: Box<MultiPackIndex<Mapped>>,
        /// The packs by the numbers that the index gives them.
        packs: Vec<PackIx>,
    },
}

impl Unit {
    /// The numbers of its objects.
    pub fn range(&self) -> Range<u32> {
        self.start..self.start + self.len
    }

    /// The pack, where the index is that of a single pack.
    pub fn single_pack(&self) -> Option<PackIx> {
        match &self.index {
            UnitIndex::Pack(pack) => Some(*pack),
            UnitIndex::Multi { .. } => None,
        }
    }
}

/// An immutable view of the packs, the alternates and the shallow boundary of a repository. Packs stay mapped for as
/// long as it lives. Loose objects are looked up on disk.
#[derive(Debug)]
pub struct Snapshot {
    hash: HashKind,
    dirs: Vec<ObjectsDir>,
    packs: Vec<Pack>,
    units: Vec<Unit>,
    shallow: Vec<ObjectId>,
    commit_graph_files: Option<Vec<Mapped>>,
    commit_graph: OnceLock<Option<CommitGraph<Mapped>>>,
    bitmap_files: Vec<BitmapFile>,
    bitmap: OnceLock<Option<OpenBitmap>>,
}

/// What a snapshot is made from.
pub(crate) struct Sources<'a> {
    pub(crate) hash: HashKind,
    pub(crate) objects: &'a Path,
    pub(crate) extra_objects: &'a [PathBuf],
    pub(crate) shallow: Vec<ObjectId>,
    pub(crate) use_commit_graph: bool,
    pub(crate) use_multi_pack_index: bool,
    pub(crate) use_bitmap: bool,
}

impl Snapshot {
    pub(crate) fn take(sources: Sources<'_>) -> Result<Self, Error> {
        let dirs = objects_dir::open(sources.objects, sources.extra_objects, sources.hash);
        let (mut packs, mut units) = (Vec::new(), Units::default());
        for (number, dir) in dirs.iter().enumerate() {
            let first = packs.len();
            packs.extend(map_packs(dir, number, sources.hash)?);
            let multi = sources.use_multi_pack_index.then(|| {
                let index = accelerators::multi_pack_index(&dir.path().join("pack"), sources.hash)?;
                packs_of(&index, &packs, first, dir.path()).map(|packs| (index, packs))
            });
            let mut covered = Vec::new();
            if let Some((index, its_packs)) = multi.flatten() {
                covered.clone_from(&its_packs);
                units.add(index.len(), UnitIndex::Multi { index: Box::new(index), packs: its_packs })?;
            }
            for (at, pack) in packs.iter().enumerate().skip(first) {
                let pack_ix = PackIx(at as u32);
                if !covered.contains(&pack_ix) {
                    units.add(pack.len(), UnitIndex::Pack(pack_ix))?;
                }
            }
        }
        let commit_graph_files =
            if sources.use_commit_graph { accelerators::commit_graph_files(&dirs) } else { None };
        let units = units.0;
        let bitmap_files = if sources.use_bitmap { bitmap_files(&dirs, &packs, &units) } else { Vec::new() };
        Ok(Snapshot {
            hash: sources.hash,
            dirs,
            packs,
            units,
            shallow: sources.shallow,
            commit_graph_files,
            commit_graph: OnceLock::new(),
            bitmap_files,
            bitmap: OnceLock::new(),
        })
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// How many packed objects there are; an object in two units counts twice.
    pub fn packed_len(&self) -> u32 {
        self.units.last().map_or(0, |unit| unit.start + unit.len)
    }

    /// The packs, in the order in which they are searched.
    pub fn packs(&self) -> &[Pack] {
        &self.packs
    }

    /// The units, in the order in which they are searched.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The commits at which this repository's own history is cut.
    pub fn shallow(&self) -> &[ObjectId] {
        &self.shallow
    }

    /// The commit-graph, if there is one and it may be used. Opened and checked when first asked for.
    pub fn commit_graph(&self) -> Option<&CommitGraph<Mapped>> {
        let files = self.commit_graph_files.as_ref()?;
        self.commit_graph.get_or_init(|| accelerators::open_commit_graph(files, self.hash)).as_ref()
    }

    /// The reachability bitmaps, if there are any and they may be used: those of a multi-pack-index first. Opened and
    /// checked when first asked for.
    pub fn bitmap(&self) -> Option<SnapshotBitmap<'_>> {
        let open = || self.bitmap_files.iter().find_map(|file| OpenBitmap::new(file, self));
        let open = self.bitmap.get_or_init(open).as_ref()?;
        Some(SnapshotBitmap::new(self, open))
    }

    /// The unit that a pack is for itself; none if a multi-pack-index covers it.
    pub(crate) fn unit_of_pack(&self, pack: PackIx) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.single_pack() == Some(pack))
    }

    /// The first packed object of this name.
    #[inline]
    pub fn lookup(&self, id: &oid) -> Option<ObjectIx> {
        self.units.iter().find_map(|unit| {
            let position = match &unit.index {
                UnitIndex::Pack(pack) => self.packs[pack.0 as usize].index().position_of(id),
                UnitIndex::Multi { index, .. } => index.position_of(id),
            };
            Some(ObjectIx(unit.start + position?))
        })
    }

    /// The name of a packed object.
    #[inline]
    pub fn id(&self, ix: ObjectIx) -> &oid {
        let unit = self.unit_of(ix);
        let position = ix.0 - unit.start;
        match &unit.index {
            UnitIndex::Pack(pack) => self.packs[pack.0 as usize].index().id_at(position),
            UnitIndex::Multi { index, .. } => index.id_at(position),
        }
    }

    /// Where a packed object is stored. Where a damaged index does not say, an offset beyond the end of every pack.
    #[inline]
    pub fn locate(&self, ix: ObjectIx) -> Location {
        let unit = self.unit_of(ix);
        let position = ix.0 - unit.start;
        match &unit.index {
            UnitIndex::Pack(pack) => {
                Location { pack: *pack, offset: self.packs[pack.0 as usize].index().offset_at(position) }
            }
            UnitIndex::Multi { index, packs } => match index.pack_and_offset_at(position) {
                Some((pack, offset)) => Location { pack: packs[pack as usize], offset },
                None => Location { pack: PackIx(0), offset: u64::MAX },
            },
        }
    }

    /// The number of the object whose entry starts at `offset` of a pack. Where the same object is found in an earlier
    /// unit, that number, so that every object has one number.
    #[inline]
    pub fn ix_of_offset(&self, pack: PackIx, offset: u64) -> Option<ObjectIx> {
        let stored = &self.packs[pack.0 as usize];
        let position = stored.reverse().index_position_at(stored.position_of_offset(offset)?);
        match self.units.as_slice() {
            [Unit { index: UnitIndex::Pack(_), .. }] => Some(ObjectIx(position)),
            _ => self.lookup(stored.index().id_at(position)),
        }
    }

    /// Whether a loose object of this name exists here or in an alternate.
    pub fn has_loose(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.dirs.iter().any(|dir| dir.has_loose(id)))
    }

    /// Where a loose object of this name may stand, in the order in which git looks.
    pub(crate) fn loose_paths(&self, id: &oid) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|dir| dir.loose_path(id))
    }

    /// A reader with a cache for delta bases of at most `cache_bytes`. One a thread.
    pub fn reader(self: &Arc<Self>, cache_bytes: usize) -> ObjectReader {
        ObjectReader::new(self.clone(), cache_bytes)
    }

    #[inline]
    fn unit_of(&self, ix: ObjectIx) -> &Unit {
        match self.units.as_slice() {
            [only] => only,
            units => &units[units.partition_point(|unit| unit.start + unit.len <= ix.0)],
        }
    }
}

/// Maps every bitmap file, the one of a multi-pack-index first.
fn bitmap_files(dirs: &[ObjectsDir], packs: &[Pack], units: &[Unit]) -> Vec<BitmapFile> {
    let mut files = Vec::new();
    let mut add = |path: PathBuf, owner| {
        if let Some(bytes) = accelerators::map(&path) {
            files.push(BitmapFile { path, bytes, owner });
        }
    };
    for (at, unit) in units.iter().enumerate() {
        if let UnitIndex::Multi { index, packs: its_packs } = &unit.index {
            let Some(dir) = its_packs.first().map(|pack| packs[pack.0 as usize].dir()) else { continue };
            add(
                dirs[dir].path().join(format!("pack/multi-pack-index-{}.bitmap", index.checksum())),
                BitmapOwner::Multi(at),
            );
        }
    }
    for (at, pack) in packs.iter().enumerate().filter(|(_, pack)| pack.has_bitmap()) {
        let path = dirs[pack.dir()].path().join(format!("pack/{}.bitmap", pack.name()));
        add(path, BitmapOwner::Pack(PackIx(at as u32)));
    }
    files
}

/// Units while a snapshot is made.
#[derive(Default)]
struct Units(Vec<Unit>);

impl Units {
    fn add(&mut self, len: u32, index: UnitIndex) -> Result<(), Error> {
        let start = self.0.last().map_or(0, |unit| unit.start + unit.len);
        if start.checked_add(len).is_none() {
            return Err(Reason::Damaged("more than 4294967295 packed objects".into()).into());
        }
        self.0.push(Unit { start, len, index });
        Ok(())
    }
}

/// The packs that a multi-pack-index is about, by its numbers; `None` if one of them is not there.
fn packs_of(index: &MultiPackIndex<Mapped>, packs: &[Pack], first: usize, dir: &Path) -> Option<Vec<PackIx>> {
    let found = index.pack_names().map(|name| {
        let stem = name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack")).unwrap_or(name);
        let at = packs.iter().skip(first).position(|pack| pack.name() == stem);
        if at.is_none() {
            tracing::error!("multi-pack-index of {} is not used: {stem} is not there", dir.display());
        }
        at.map(|at| PackIx((first + at) as u32))
    });
    found.collect()
}

/// Maps every pack of a directory that has an index, newest first. Damaged ones are reported and left out.
fn map_packs(dir: &ObjectsDir, number: usize, hash: HashKind) -> Result<Vec<Pack>, Error> {
    let path = dir.path().join("pack");
    for _ in 0..MAX_LISTINGS {
        let entries = match packrace_os::list_dir(&path, Role::Pack) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(path, error)),
        };
        let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
        let stems = names.iter().filter_map(|name| name.strip_suffix(".idx"));
        let stems: Vec<&str> =
            stems.filter(|stem| names.binary_search(&format!("{stem}.pack").as_str()).is_ok()).collect();
        let mut packs = Vec::new();
        let mut is_stale = false;
        for stem in stems {
            let has_bitmap = names.binary_search(&format!("{stem}.bitmap").as_str()).is_ok();
            match Pack::open(&path, stem, hash, PackPlace { dir: number, is_local: dir.is_local, has_bitmap })
            {
                Ok(pack) => packs.push(pack),
                Err(error) if error.is_not_found() => is_stale = true,
                Err(error) => tracing::error!("{error}"),
            }
        }
        if !is_stale {
            packs.sort_by(|a, b| b.modified().cmp(&a.modified()).then_with(|| a.name().cmp(b.name())));
            return Ok(packs);
        }
    }
    Err(Error::io(path, std::io::Error::other("packs keep changing while they are listed")))
}
