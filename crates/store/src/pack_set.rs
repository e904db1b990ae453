//! The packs of all object directories, mapped, and the indexes that describe their objects.

use std::ops::Range;
use std::path::PathBuf;

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::HashKind;
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::accelerators;
use crate::bitmap::{BitmapFile, BitmapOwner};
use crate::error::{Error, Reason};
use crate::objects_dir::ObjectsDir;
use crate::pack::{Pack, PackPlace};
use crate::snapshot::{PackIx, Sources};

/// How often the packs are listed again because one vanished between listing and mapping.
const MAX_LISTINGS: usize = 5;

/// Objects that one index describes: that of a pack, or a multi-pack-index.
#[derive(Debug)]
pub struct Unit {
    pub(crate) start: u32,
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
        /// The number of its object directory.
        dir: usize,
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

/// What a snapshot knows about packs.
pub(crate) struct PackSet {
    pub(crate) packs: Vec<Pack>,
    pub(crate) units: Vec<Unit>,
    pub(crate) bitmap_files: Vec<BitmapFile>,
    /// A pack is there that cannot be read, or is damaged.
    pub(crate) has_unusable_packs: bool,
}

impl PackSet {
    /// The numbers of the objects of one pack that is all there is.
    pub(crate) fn number_one(pack: &Pack) -> Vec<Unit> {
        vec![Unit { start: 0, len: pack.len(), index: UnitIndex::Pack(PackIx(0)) }]
    }

    /// Maps everything. The directories are searched in order; in each, the multi-pack-index comes before the packs
    /// that it does not cover, newest first.
    pub(crate) fn map(dirs: &[ObjectsDir], sources: &Sources) -> Result<Self, Error> {
        let mut packs = Vec::new();
        let mut has_unusable_packs = false;
        let mut indexes = Vec::new();
        for (number, dir) in dirs.iter().enumerate() {
            let first = packs.len();
            packs.extend(map_packs(dir, number, sources.hash, &mut has_unusable_packs)?);
            let multi = if sources.use_multi_pack_index {
                map_multi(dir, number, &packs, first, sources.hash)
            } else {
                None
            };
            let mut is_covered = vec![false; packs.len() - first];
            if let Some(UnitIndex::Multi { packs, .. }) = &multi {
                packs.iter().for_each(|pack| is_covered[pack.0 as usize - first] = true);
            }
            indexes.extend(multi);
            let uncovered = is_covered.iter().enumerate().filter(|(_, is_covered)| !**is_covered);
            indexes.extend(uncovered.map(|(at, _)| UnitIndex::Pack(PackIx((first + at) as u32))));
        }
        let bitmap_files =
            if sources.use_bitmap { map_bitmaps(dirs, &packs, &mut indexes) } else { Vec::new() };
        Ok(PackSet { units: number_units(indexes, &packs)?, packs, bitmap_files, has_unusable_packs })
    }
}

/// Gives every index its range of numbers.
fn number_units(indexes: Vec<UnitIndex>, packs: &[Pack]) -> Result<Vec<Unit>, Error> {
    let mut start = 0u32;
    let number = |index| {
        let len = match &index {
            UnitIndex::Pack(pack) => packs[pack.0 as usize].len(),
            UnitIndex::Multi { index, .. } => index.len(),
        };
        let unit = Unit { start, len, index };
        start = start
            .checked_add(len)
            .ok_or_else(|| Reason::Damaged("more than 4294967295 packed objects".into()))?;
        Ok(unit)
    };
    indexes.into_iter().map(number).collect()
}

/// Maps every bitmap file, those of multi-pack-indexes first. The index that the first of them belongs to moves to the
/// front: no other number then comes before those of its objects, and bits can be told from numbers by counting.
fn map_bitmaps(dirs: &[ObjectsDir], packs: &[Pack], indexes: &mut [UnitIndex]) -> Vec<BitmapFile> {
    let mut files = Vec::new();
    let mut add = |path: PathBuf, owner| {
        files.extend(accelerators::map(&path).map(|bytes| BitmapFile { path, bytes, owner }));
    };
    for index in indexes.iter() {
        if let UnitIndex::Multi { index, dir, .. } = index {
            let name = format!("multi-pack-index-{}.bitmap", index.checksum());
            add(dirs[*dir].pack_dir().join(name), BitmapOwner::Multi { dir: *dir });
        }
    }
    for (at, pack) in packs.iter().enumerate().filter(|(_, pack)| pack.has_bitmap()) {
        let path = dirs[pack.dir()].pack_dir().join(format!("{}.bitmap", pack.name()));
        add(path, BitmapOwner::Pack(PackIx(at as u32)));
    }
    let owner = files.first().and_then(|file| indexes.iter().position(|index| file.owner.is_of(index)));
    if let Some(at) = owner {
        indexes[..=at].rotate_right(1);
    }
    files
}

/// The multi-pack-index of a directory, unless it is damaged or one of its packs is not there.
fn map_multi(
    dir: &ObjectsDir,
    number: usize,
    packs: &[Pack],
    first: usize,
    hash: HashKind,
) -> Option<UnitIndex> {
    let index = accelerators::multi_pack_index(&dir.pack_dir(), hash)?;
    let numbers: std::collections::HashMap<&str, usize> =
        packs.iter().enumerate().skip(first).map(|(at, pack)| (pack.name(), at)).collect();
    let found = index.pack_names().map(|name| {
        let stem = name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack")).unwrap_or(name);
        let at = numbers.get(stem).copied();
        if at.is_none() {
            let path = dir.path().display();
            tracing::warn!("multi-pack-index of {path} is not used: {stem} is not there");
        }
        at.map(|at| PackIx(at as u32))
    });
    let packs = found.collect::<Option<Vec<_>>>()?;
    Some(UnitIndex::Multi { index: Box::new(index), packs, dir: number })
}

/// Maps every pack of a directory that has an index, newest first. Damaged ones are reported and left out, which
/// `has_unusable` is told.
fn map_packs(
    dir: &ObjectsDir,
    number: usize,
    hash: HashKind,
    has_unusable: &mut bool,
) -> Result<Vec<Pack>, Error> {
    let path = dir.pack_dir();
    let mut listed_before = Vec::new();
    for _ in 0..MAX_LISTINGS {
        let entries = match packrace_os::list_dir(&path, Role::Pack) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) if !dir.is_local => {
                tracing::error!("unable to open object pack directory: {}: {error}", path.display());
                return Ok(Vec::new());
            }
            Err(error) => return Err(Error::io(path, error)),
        };
        let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
        let has =
            |stem: &str, extension| names.binary_search(&format!("{stem}.{extension}").as_str()).is_ok();
        let stems = names.iter().filter_map(|name| name.strip_suffix(".idx"));
        let mut packs = Vec::new();
        let mut vanished = None;
        for stem in stems.filter(|stem| has(stem, "pack")) {
            let place = PackPlace {
                dir: number,
                is_local: dir.is_local,
                has_bitmap: has(stem, "bitmap"),
                has_keep: has(stem, "keep"),
                is_promisor: has(stem, "promisor"),
                is_cruft: has(stem, "mtimes"),
            };
            match Pack::open(&path, stem, hash, place) {
                Ok(pack) => packs.push(pack),
                Err(error) if error.is_not_found() => vanished = Some(error),
                Err(error) => {
                    *has_unusable = true;
                    tracing::error!("{error}");
                }
            }
        }
        let is_settled = match vanished {
            None => true,
            // The name is there still: no repack, but a link to nowhere.
            Some(error) if entries == listed_before => {
                tracing::error!("{error}");
                true
            }
            Some(_) => false,
        };
        if is_settled {
            packs.sort_by(|a, b| b.modified().cmp(&a.modified()).then_with(|| a.name().cmp(b.name())));
            return Ok(packs);
        }
        listed_before = entries;
    }
    Err(Error::io(path, std::io::Error::other("packs keep changing while they are listed")))
}
