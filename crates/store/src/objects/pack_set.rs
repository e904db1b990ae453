//! The packs of all object directories, and the indexes that describe their objects.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use packrace_format::multi_pack_index::MultiPackIndexChain;
use packrace_format::pack_index::PackIndex;
use packrace_object::oid;
use packrace_os::Mapped;

use crate::error::{Error, Reason};
use crate::objects::accelerators;
use crate::objects::bitmap_file::{BitmapFile, BitmapOwner};
use crate::objects::multi_pack_index;
use crate::objects::numbers::{Location, ObjectIx, PackIx};
use crate::objects::objects_dir::MIDX_CHAIN_DIR;
use crate::objects::objects_dir::ObjectsDir;
use crate::objects::pack::Pack;
use crate::objects::pack_dir::{PackDir, PackDirs};
use crate::objects::sources::Sources;

/// The objects of one index, of a pack or a multi-pack-index.
#[derive(Debug)]
pub struct Unit {
    pub(crate) start: u32,
    room: u32,
    pub(crate) index: UnitIndex,
}

#[derive(Debug)]
pub(crate) enum UnitIndex {
    Pack(PackIx),
    Multi {
        index: Arc<MultiPackIndexChain<Mapped>>,
        /// The packs by their numbers in the index.
        packs: Vec<PackIx>,
        /// The number of its object directory.
        dir: usize,
        /// Whether it is in the directory for chains.
        is_chain: bool,
    },
}

impl UnitIndex {
    /// Whether bitmaps of this owner belong to the index.
    pub(crate) fn is_of(&self, owner: BitmapOwner) -> bool {
        match (owner, self) {
            (BitmapOwner::Pack(pack), UnitIndex::Pack(other)) => pack == *other,
            (BitmapOwner::Multi { dir }, UnitIndex::Multi { dir: other, .. }) => dir == *other,
            _ => false,
        }
    }
}

impl Unit {
    /// The numbers of its objects. For a pack, the last ones may be unused: numbers are assigned before the
    /// index is opened.
    pub fn range(&self) -> Range<u32> {
        self.start..self.start + self.room
    }

    /// The pack, if the index is that of a single pack.
    pub fn single_pack(&self) -> Option<PackIx> {
        match &self.index {
            UnitIndex::Pack(pack) => Some(*pack),
            UnitIndex::Multi { .. } => None,
        }
    }
}

#[derive(Clone, Copy)]
enum IndexRef<'a> {
    Pack(&'a PackIndex<Mapped>),
    Multi(&'a MultiPackIndexChain<Mapped>),
}

impl<'a> IndexRef<'a> {
    #[inline]
    fn position_of(self, id: &oid) -> Option<u32> {
        match self {
            IndexRef::Pack(index) => index.position_of(id),
            IndexRef::Multi(index) => index.position_of(id),
        }
    }

    #[inline]
    fn id_at(self, position: u32) -> &'a oid {
        match self {
            IndexRef::Pack(index) => index.id_at(position),
            IndexRef::Multi(index) => index.id_at(position),
        }
    }
}

/// The packs of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct PackSet {
    pub(crate) packs: Vec<Pack>,
    pub(crate) units: Vec<Unit>,
    pub(crate) bitmap_files: Vec<BitmapFile>,
    dirs: Vec<DirUnits>,
    /// Whether the first unit was moved to the front, to be searched before all others.
    is_first_moved: bool,
    /// All packs before this one are open and usable.
    opened: AtomicUsize,
    /// The objects of multi-pack-indexes by pack and offset; made if an index of a pack contradicts them.
    located: OnceLock<Vec<(PackIx, u64, ObjectIx)>>,
}

/// The units of one directory.
#[derive(Debug)]
struct DirUnits {
    packs: Arc<PackDir>,
    /// Added to the finder's numbers.
    start: u32,
    /// The finder's numbers of the unit moved to the front.
    moved: Range<u32>,
}

impl PackSet {
    /// A set of one pack.
    pub(crate) fn of_pack(pack: Pack) -> Self {
        PackSet {
            units: vec![Unit { start: 0, room: pack.room(), index: UnitIndex::Pack(PackIx(0)) }],
            packs: vec![pack],
            ..PackSet::default()
        }
    }

    /// Numbers the objects of all packs. Directories are searched in order; in each, the multi-pack-index
    /// precedes the packs that it does not cover, newest first. One index may precede all others: see
    /// [`first_index`]. Directories and packs in `known` are reused.
    pub(crate) fn open(dirs: &[ObjectsDir], sources: &Sources, known: &PackDirs) -> Result<Self, Error> {
        let mut packs = Vec::new();
        let mut indexes = Vec::new();
        let mut opened = Vec::new();
        for (number, dir) in dirs.iter().enumerate() {
            let first = packs.len() as u32;
            let found = known.open(dir, sources.hash, sources.use_multi_pack_index)?;
            let numbered = |pack: usize| PackIx(first + pack as u32);
            if let Some(multi) = &found.multi {
                indexes.push(UnitIndex::Multi {
                    index: multi.opened.index.clone(),
                    packs: multi.packs.iter().map(|pack| numbered(*pack)).collect(),
                    dir: number,
                    is_chain: multi.opened.is_chain(),
                });
            }
            indexes.extend(found.uncovered.iter().map(|pack| UnitIndex::Pack(numbered(*pack))));
            packs.extend(
                found
                    .packs
                    .iter()
                    .map(|(files, beside)| Pack::new(files.clone(), *beside, number, dir.is_local)),
            );
            opened.push((found, indexes.len()));
        }
        let bitmap_files = if sources.use_bitmap { map_bitmaps(dirs, &packs, &indexes) } else { Vec::new() };
        let moved = first_index(&bitmap_files, &packs, &indexes).filter(|moved| *moved > 0);
        if let Some(at) = moved {
            indexes[..=at].rotate_right(1);
        }
        let units = number_units(indexes, &packs)?;
        let mut first_unit = 0;
        let dirs = opened.into_iter().map(|(packs, end)| {
            // A moved unit is still in its directory's finder, and those after it are one further along.
            let here = moved.filter(|moved| (first_unit..end).contains(moved));
            let is_behind = moved.is_some_and(|moved| moved >= first_unit);
            let start = units.get(first_unit + usize::from(is_behind)).map_or(0, |unit| unit.start);
            let moved = here.map_or(u32::MAX..u32::MAX, |moved| {
                let before = units[first_unit + 1..=moved].iter().map(|unit| unit.room).sum();
                before..before + units[0].room
            });
            first_unit = end;
            DirUnits { packs, start, moved }
        });
        let dirs = dirs.collect();
        let is_first_moved = moved.is_some();
        let (opened, located) = (AtomicUsize::new(0), OnceLock::new());
        Ok(PackSet { packs, units, bitmap_files, dirs, is_first_moved, opened, located })
    }

    /// Whether any pack is unreadable or damaged.
    pub(crate) fn has_unusable_packs(&self) -> bool {
        self.dirs.iter().any(|dir| !dir.packs.is_whole())
    }

    /// The number of an object in the first unit that has it.
    #[inline]
    pub(crate) fn find(&self, id: &oid) -> Option<ObjectIx> {
        let in_unit = |unit: &Unit| Some(ObjectIx(unit.start + self.index_of(unit).position_of(id)?));
        match self.units.as_slice() {
            [] => None,
            [only] => in_unit(only),
            [first, ..] => {
                let found = if self.is_first_moved { in_unit(first) } else { None };
                found.or_else(|| self.dirs.iter().find_map(|dir| dir.find(id)))
            }
        }
    }

    /// How many indexes had vanished when first searched.
    pub(crate) fn lost_indexes(&self) -> usize {
        self.dirs.iter().map(|dir| dir.packs.finder.lost()).sum()
    }

    /// Whether the pack of an object exists and is whole; checked when it is first opened.
    #[inline]
    pub(crate) fn has_pack_of(&self, ix: ObjectIx) -> bool {
        self.are_all_open() || self.has_pack(self.stored_at(ix).pack)
    }

    /// As above, for a pack.
    #[inline]
    pub(crate) fn has_pack(&self, pack: PackIx) -> bool {
        let Some(pack) = self.packs.get(pack.0 as usize) else { return false };
        if pack.is_open() {
            return true;
        }
        let is_usable = pack.is_usable();
        let mut opened = self.opened.load(Relaxed);
        while self.packs.get(opened).is_some_and(Pack::is_open) {
            opened += 1;
        }
        self.opened.fetch_max(opened, Relaxed);
        is_usable
    }

    #[inline]
    pub(crate) fn are_all_open(&self) -> bool {
        self.opened.load(Relaxed) >= self.packs.len()
    }

    /// The location of an object according to the first unit. If a damaged index has none, the offset is past
    /// the end of every pack.
    #[inline]
    pub(crate) fn stored_at(&self, ix: ObjectIx) -> Location {
        let unit = self.unit_of(ix);
        let position = ix.0 - unit.start;
        match &unit.index {
            UnitIndex::Pack(pack) => {
                Location { pack: *pack, offset: self.packs[pack.0 as usize].index().offset_at(position) }
            }
            UnitIndex::Multi { index, packs, .. } => match index.pack_and_offset_at(position) {
                Some((pack, offset)) => Location { pack: packs[pack as usize], offset },
                None => Location { pack: PackIx(0), offset: u64::MAX },
            },
        }
    }

    /// The object at this location according to an intact multi-pack-index, for a pack whose own index has a name
    /// there that cannot be found.
    #[cold]
    pub(crate) fn find_by_location(&self, at: Location) -> Option<ObjectIx> {
        let located = self.located.get_or_init(|| {
            let located = self.locate_all();
            if !located.is_empty() {
                let (pack, offset) = (self.packs[at.pack.0 as usize].name().to_owned(), at.offset);
                let what = "the entry is not in the index";
                tracing::error!(
                    "{}",
                    Error::from(Reason::DamagedEntry { pack, offset, what, delta_at: None })
                );
            }
            located
        });
        let found = located.binary_search_by_key(&(at.pack, at.offset), |(pack, offset, _)| (*pack, *offset));
        found.ok().map(|found| located[found].2)
    }

    /// The objects of intact multi-pack-indexes, sorted by location.
    fn locate_all(&self) -> Vec<(PackIx, u64, ObjectIx)> {
        let mut located = Vec::new();
        for unit in &self.units {
            if let UnitIndex::Multi { index, .. } = &unit.index
                && multi_pack_index::verify(index).is_ok()
            {
                located.extend(unit.range().map(|ix| {
                    let Location { pack, offset } = self.stored_at(ObjectIx(ix));
                    (pack, offset, ObjectIx(ix))
                }));
            }
        }
        located.sort_unstable();
        located
    }

    #[inline]
    pub(crate) fn id(&self, ix: ObjectIx) -> &oid {
        let unit = self.unit_of(ix);
        self.index_of(unit).id_at(ix.0 - unit.start)
    }

    /// All locations of a packed object of this name.
    pub(crate) fn copies(&self, id: &oid) -> impl Iterator<Item = Location> {
        self.packs.iter().zip(0..).filter_map(move |(pack, number)| {
            let position = pack.index().position_of(id)?;
            Some(Location { pack: PackIx(number), offset: pack.index().offset_at(position) })
        })
    }

    #[inline]
    fn unit_of(&self, ix: ObjectIx) -> &Unit {
        match self.units.as_slice() {
            [only] => only,
            units => &units[units.partition_point(|unit| unit.range().end <= ix.0)],
        }
    }

    #[inline]
    fn index_of<'a>(&'a self, unit: &'a Unit) -> IndexRef<'a> {
        match &unit.index {
            UnitIndex::Pack(pack) => IndexRef::Pack(self.packs[pack.0 as usize].index()),
            UnitIndex::Multi { index, .. } => IndexRef::Multi(index),
        }
    }
}

impl DirUnits {
    #[inline]
    fn find(&self, id: &oid) -> Option<ObjectIx> {
        let number = self.packs.finder.find(id)?;
        let behind = if number >= self.moved.end { self.moved.end - self.moved.start } else { 0 };
        Some(ObjectIx(self.start + number - behind))
    }
}

/// Assigns every index its range of numbers.
fn number_units(indexes: Vec<UnitIndex>, packs: &[Pack]) -> Result<Vec<Unit>, Error> {
    let mut start = 0u32;
    let number = |index| {
        let room = room_of(&index, packs);
        let unit = Unit { start, room, index };
        start = start
            .checked_add(room)
            .ok_or_else(|| Reason::Damaged("more than 4294967295 packed objects".into()))?;
        Ok(unit)
    };
    indexes.into_iter().map(number).collect()
}

/// How many numbers the objects of an index get.
fn room_of(index: &UnitIndex, packs: &[Pack]) -> u32 {
    match index {
        UnitIndex::Pack(pack) => packs[pack.0 as usize].room(),
        UnitIndex::Multi { index, .. } => index.len(),
    }
}

/// The index that is searched before all others. With bitmaps, it is the one that they belong to: its objects then
/// have the lowest numbers, which makes bits and numbers convertible by counting. Otherwise, it is the one that has
/// more than half of all objects, if there is one: later packs repeat some of its objects, the delta bases of thin
/// packs above all, and have them whole.
fn first_index(bitmaps: &[BitmapFile], packs: &[Pack], indexes: &[UnitIndex]) -> Option<usize> {
    if let Some(file) = bitmaps.first() {
        return indexes.iter().position(|index| index.is_of(file.owner));
    }
    let total: u64 = indexes.iter().map(|index| u64::from(room_of(index, packs))).sum();
    indexes.iter().position(|index| u64::from(room_of(index, packs)) * 2 > total)
}

/// Maps every bitmap file, those of multi-pack-indexes first.
fn map_bitmaps(dirs: &[ObjectsDir], packs: &[Pack], indexes: &[UnitIndex]) -> Vec<BitmapFile> {
    let mut files = Vec::new();
    let map = |path: PathBuf| accelerators::map(&path).map(|bytes| (path, bytes));
    for index in indexes.iter() {
        if let UnitIndex::Multi { index, dir, is_chain, .. } = index {
            let pack_dir = dirs[*dir].pack_dir();
            let pack_dir = if *is_chain { pack_dir.join(MIDX_CHAIN_DIR) } else { pack_dir };
            // Those of a higher file of a chain need those of the lower ones.
            let names =
                index.layers().iter().map(|layer| format!("multi-pack-index-{}.bitmap", layer.checksum()));
            let layers: Vec<_> = names.map_while(|name| map(pack_dir.join(name))).collect();
            let owner = BitmapOwner::Multi { dir: *dir };
            files.extend((!layers.is_empty()).then_some(BitmapFile { layers, owner }));
        }
    }
    for (at, pack) in packs.iter().enumerate().filter(|(_, pack)| pack.has_bitmap()) {
        let path = dirs[pack.dir()].pack_dir().join(format!("{}.bitmap", pack.name()));
        let owner = BitmapOwner::Pack(PackIx(at as u32));
        files.extend(map(path).map(|file| BitmapFile { layers: vec![file], owner }));
    }
    files
}
