//! Sets of objects that a repack puts into packs.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, MalformedObject, ObjectId, parse_commit, parse_tag};
use packrace_store::{ObjectReader, PackIx};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::{NameHash, Names};
use crate::universe::{Ix, Universe};

/// Bytes that are kept as delta bases.
const READER_CACHE_BYTES: usize = 32 << 20;

/// All members of a set.
pub(super) fn members(marks: &Marks) -> impl Iterator<Item = Ix> + '_ {
    marks.packed().chain(marks.extra())
}

/// Every object in these packs, by the number that it has in the universe.
pub(super) fn in_packs(universe: &Universe, packs: &[PackIx]) -> Result<Marks, Error> {
    let marks = Marks::new(universe.packed_len());
    for pack in packs {
        let index = universe.snapshot().packs()[pack.0 as usize].index();
        for position in 0..index.len() {
            marks.insert(universe.require(index.id_at(position))?);
        }
    }
    Ok(marks)
}

/// Adds the objects with these ids, but those that went meanwhile.
pub(super) fn insert_all(universe: &Universe, marks: &Marks, ids: &[ObjectId]) -> Result<(), Error> {
    for id in ids {
        if let Some(ix) = universe.find(id)? {
            marks.insert(ix);
        }
    }
    Ok(())
}

/// Adds every member of `other`.
pub(super) fn unite(marks: &Marks, other: &Marks) {
    for ix in members(other) {
        marks.insert(ix);
    }
}

/// Walks over objects of every kind, one by one, where some may be missing: the repository has a promisor, or nobody
/// said that the objects are whole.
pub(super) struct Walk<'a> {
    universe: &'a Universe,
    reader: ObjectReader,
}

impl<'a> Walk<'a> {
    pub(super) fn new(universe: &'a Universe) -> Self {
        Walk { universe, reader: universe.snapshot().reader(READER_CACHE_BYTES) }
    }

    /// Marks what `tips` reach, without what is in `stop` and what only that reaches. What is missing is passed over.
    pub(super) fn reach(
        &mut self,
        tips: impl IntoIterator<Item = ObjectId>,
        stop: &Marks,
        seen: &Marks,
        names: &Names,
    ) -> Result<(), Error> {
        let universe = self.universe;
        let mut open = Vec::new();
        for tip in tips {
            open.extend(universe.find(&tip)?.filter(|ix| !stop.contains(*ix) && seen.insert(*ix)));
        }
        let mut content = Vec::new();
        let mut next = Vec::new();
        while let Some(ix) = open.pop() {
            if universe.kind(&mut self.reader, ix)? == Kind::Blob {
                continue;
            }
            self.references(ix, &mut content, &mut next)?;
            for (id, name) in next.drain(..) {
                let Some(found) = universe.find(&id)? else { continue };
                if !stop.contains(found) && seen.insert(found) {
                    let name = name.map(|name: Vec<u8>| names.get(ix).entry(&name));
                    names.set(found, name.unwrap_or_default());
                    open.push(found);
                }
            }
        }
        Ok(())
    }

    /// What an object names, and under which name.
    fn references(
        &mut self,
        ix: Ix,
        content: &mut Vec<u8>,
        next: &mut Vec<(ObjectId, Option<Vec<u8>>)>,
    ) -> Result<(), Error> {
        let hash = self.universe.hash();
        let malformed =
            |source: MalformedObject| Error::from(Reason::Malformed { id: self.universe.id(ix), source });
        match self.universe.read(&mut self.reader, ix, content)? {
            Kind::Commit => {
                let commit = parse_commit(content, hash).map_err(malformed)?;
                next.push((commit.tree, None));
                let id = self.universe.id(ix);
                if self.universe.snapshot().shallow().binary_search(&id).is_err() {
                    next.extend(commit.parents.into_iter().map(|parent| (parent, None)));
                }
            }
            Kind::Tag => next.push((parse_tag(content, hash).map_err(malformed)?.target, None)),
            Kind::Tree => {
                for entry in Entries::new(content, hash) {
                    let entry = entry.map_err(malformed)?;
                    if entry.kind() != EntryKind::Submodule {
                        next.push((entry.id.to_owned(), Some(entry.name.to_vec())));
                    }
                }
            }
            Kind::Blob => {}
        }
        Ok(())
    }

    /// The root trees of the commits in `wanted`, as far as they were not in `seen`, where they are then.
    pub(super) fn root_trees(&mut self, wanted: &Marks, seen: &Marks) -> Result<Vec<Ix>, Error> {
        let universe = self.universe;
        let mut content = Vec::new();
        let mut roots = Vec::new();
        for ix in members(wanted) {
            if universe.kind(&mut self.reader, ix)? != Kind::Commit {
                continue;
            }
            universe.read(&mut self.reader, ix, &mut content)?;
            let Ok(commit) = parse_commit(&content, universe.hash()) else { continue };
            roots.extend(universe.find(&commit.tree)?.filter(|tree| seen.insert(*tree)));
        }
        Ok(roots)
    }

    /// Names the objects that loose trees of a set list, for the delta search: no walk leads to them from the root, but
    /// the last part of a path says most.
    pub(super) fn name_by_loose_trees(&mut self, wanted: &Marks, names: &Names) -> Result<(), Error> {
        let mut content = Vec::new();
        for ix in wanted.extra() {
            if self.universe.kind(&mut self.reader, ix)? != Kind::Tree {
                continue;
            }
            let mut next = Vec::new();
            self.references(ix, &mut content, &mut next)?;
            for (id, name) in next {
                if let Some(found) = self.universe.find(&id)?
                    && let Some(name) = name
                    && names.get(found) == NameHash::default()
                {
                    names.set(found, NameHash::of(&name));
                }
            }
        }
        Ok(())
    }
}

/// When `wanted` objects of packs and loose ones were last wanted, in seconds since 1970: the time of the pack or file, or what
/// a cruft pack says. Where there are several copies the latest counts.
pub(super) fn times(
    universe: &Universe,
    wanted: &Marks,
    packs: &[PackIx],
    loose: &[ObjectId],
    modified: impl Fn(&ObjectId) -> Option<SystemTime>,
) -> Result<HashMap<Ix, u32>, Error> {
    let mut found: HashMap<Ix, u32> = HashMap::new();
    let mut note = |ix: Ix, seconds: u32| {
        if wanted.contains(ix) {
            let known = found.entry(ix).or_default();
            *known = seconds.max(*known);
        }
    };
    for pack in packs {
        let pack = &universe.snapshot().packs()[pack.0 as usize];
        let times = pack.times()?;
        let of_pack = pack.modified().map_or(0, seconds_of);
        for position in 0..pack.len() {
            let ix = universe.require(pack.index().id_at(position))?;
            note(ix, times.as_ref().map_or(of_pack, |times| times.seconds_at(position)));
        }
    }
    for id in loose {
        if let (Some(ix), Some(modified)) = (universe.find(id)?, modified(id)) {
            note(ix, seconds_of(modified));
        }
    }
    Ok(found)
}

fn seconds_of(time: SystemTime) -> u32 {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
