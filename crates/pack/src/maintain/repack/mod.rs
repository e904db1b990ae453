//! Puts the objects of a repository into fewer and better packs (git-repack).
//!
//! ```text
//! roles     which packs stay, which are repacked
//! select    which objects go into the new packs: reachable, promised, unreachable
//! write     each new pack under a temporary name, synced, published (`pack_files`)
//! delete    what the new packs hold now, and nothing that arrived meanwhile
//! ```
//!
//! Everything is decided on one snapshot. A pack of that snapshot is deleted if each of its objects is in a
//! published or staying pack, was made loose, or is dropped on purpose. Readers that have mapped an old pack
//! can still read it; later readers find the new packs, which are published before any old pack is deleted. A
//! crash at any moment leaves too many packs, never too few.

mod roles;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::PackIx;
use packrace_store::publish::{PublishedPack, remove_bitmap};

use self::roles::{PackRole, Roles};
use super::pack_files::{BitmapRequest, PackFiles, PackFilesError, Special};
use super::sets::{insert_all, insert_loose, subtract_packs};
use super::unreachable::{Caretaker, Loosening, Parted, plan_cruft};
use crate::error::Error;
use crate::marks::Marks;
use crate::names::Names;
use crate::progress::{ProgressSink, RepackPart};
use crate::request_objects::RequestObjects;
use crate::select::filter::Filter;
use crate::select::islands::Islands;
use crate::select::plan;
use crate::settings::Settings;
use crate::walk::lenient_walk::LenientWalk;

/// Which objects are repacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Reachable loose objects.
    Loose,
    /// All reachable objects (`-a`, `-A`, `--cruft`), and what to do with the unreachable ones.
    All(Unreachable),
    /// Objects of small packs, and loose ones (`--geometric`).
    Geometric(u32),
}

/// What happens to unreachable objects; times are in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// They are deleted with their packs.
    Drop,
    /// They become loose objects, unless they have expired.
    Loosen {
        /// Objects last wanted at this time or before have expired.
        expired: i64,
    },
    /// They are packed with the reachable ones.
    Append,
    /// They get their own pack, unless they have expired and nothing newer needs them.
    Cruft {
        /// Objects last wanted at this time or before have expired.
        expired: i64,
    },
}

/// The settings of one repack.
#[derive(Debug, Clone)]
pub struct RepackRequest {
    /// Which objects are repacked.
    pub scope: Scope,
    /// Whether redundant packs and objects are deleted (`-d`).
    pub delete: bool,
    /// Whether objects of alternates are left out (`-l`).
    pub local: bool,
    /// Whether objects of kept packs are repacked, too (`--pack-kept-objects`).
    pub pack_kept: bool,
    /// Names of packs to treat as if they had a `.keep`; their objects are not repacked in any case.
    pub keep_packs: Vec<String>,
    /// Objects that must exist, with everything they reach: the targets of refs.
    pub tips: Vec<ObjectId>,
    /// Objects from reflogs and indexes, kept with everything they reach that exists.
    pub soft_tips: Vec<ObjectId>,
    /// How packs are made.
    pub settings: Settings,
    /// How cruft packs are made.
    pub cruft_settings: Settings,
    /// Whether deltas may name their base by its offset (`repack.useDeltaBaseOffset`).
    pub ofs_delta: bool,
    /// The bitmaps for the pack of all reachable objects, if there is one such pack.
    pub bitmap: Option<BitmapRequest>,
    /// A filter for the reachable objects; what it leaves out of packs gets its own pack. Not with
    /// [`Scope::Geometric`].
    pub filter: Option<Filter>,
    /// The path prefix for the pack of filtered-out objects; without it, that pack is stored with the others.
    pub filter_to: Option<PathBuf>,
    /// The path prefix of a pack with copies of the expired objects (`--expire-to`).
    pub expire_to: Option<PathBuf>,
    /// How packs are stored.
    pub files: PackFiles,
    /// Delta islands, for packs of reachable objects.
    pub islands: Option<Arc<Islands>>,
    /// Unreachable objects that count as wanted now (`gc.recentObjectsHook`).
    pub recent: Vec<ObjectId>,
    /// The most bytes per cruft pack, if different from other packs.
    pub max_cruft_bytes: Option<u64>,
    /// Cruft packs from this length on stay as they are.
    pub long_cruft_bytes: Option<u64>,
    /// Whether a geometric repack also packs what its objects reach in cruft packs (`repack.midxMustContainCruft`).
    pub follows_cruft: bool,
    /// zlib's level for loose objects.
    pub loose_compression: i32,
}

impl RepackRequest {
    /// All objects that are kept with what they reach.
    pub fn roots(&self) -> HashSet<ObjectId> {
        self.tips.iter().chain(&self.soft_tips).chain(&self.recent).copied().collect()
    }
}

/// The new packs, and the packs that they make redundant.
///
/// Nothing is deleted yet: a multi-pack-index and bitmaps that do not need the redundant packs come first.
#[derive(Debug)]
pub struct Repacked {
    /// What was repacked.
    pub scope: Scope,
    /// The new packs; a pack of promised objects comes first, or last if the repack is geometric.
    pub new: Vec<PublishedPack>,
    /// Names of the repository's own packs that are redundant.
    pub redundant: Vec<String>,
    /// Names of the repository's packs that stay.
    pub staying: Vec<String>,
    /// Unreachable objects that are loose now.
    pub loosened: Vec<ObjectId>,
    /// Whether nothing that refs reach was left out of the new packs; promised objects don't count.
    pub is_closed: bool,
    /// Of a geometric repack, names of the repository's packs that it considers and leaves alone; the one with the most
    /// objects comes last.
    pub left: Vec<String>,
    /// Of a geometric repack, how many objects the packs have that it rolls up.
    pub rolled_up_objects: u64,
}

/// Writes the new packs.
pub fn write(
    request_objects: &Arc<RequestObjects>,
    request: &RepackRequest,
    progress: &dyn ProgressSink,
) -> Result<Repacked, PackFilesError> {
    let roles = Roles::of(request_objects.snapshot(), &request.keep_packs, request.long_cruft_bytes);
    Repack { request_objects, request, roles, progress, new: Vec::new(), loosened: Vec::new() }.run()
}

/// Packs the objects that the snapshot locates in these packs of the repository; writes nothing if there are
/// none.
pub fn write_some(
    request_objects: &Arc<RequestObjects>,
    request: &RepackRequest,
    packs: &[String],
    progress: &dyn ProgressSink,
) -> Result<Vec<PublishedPack>, PackFilesError> {
    let snapshot = request_objects.snapshot();
    let names: HashSet<&str> = packs.iter().map(String::as_str).collect();
    let numbers: Vec<PackIx> = (0u32..)
        .map(PackIx)
        .zip(snapshot.packs())
        .filter(|(_, pack)| pack.is_local() && names.contains(pack.name()) && pack.is_usable())
        .map(|(number, _)| number)
        .collect();
    let wanted = Marks::of_packs(request_objects, &numbers)?;
    let elsewhere = Marks::new(request_objects.packed_end());
    let numbers: HashSet<PackIx> = numbers.into_iter().collect();
    for ix in wanted.packed() {
        if !numbers.contains(&snapshot.locate(packrace_store::ObjectIx(ix.0)).pack) {
            elsewhere.insert(ix);
        }
    }
    wanted.subtract(&elsewhere);
    let names = Names::new(request_objects.packed_end());
    store(request_objects, request, (wanted, names), &Special::default(), progress)
}

/// Writes packs of these objects; writes nothing if there are none.
fn store(
    request_objects: &Arc<RequestObjects>,
    request: &RepackRequest,
    (wanted, names): (Marks, Names),
    special: &Special<'_>,
    progress: &dyn ProgressSink,
) -> Result<Vec<PublishedPack>, PackFilesError> {
    let plan = match special.times {
        None => {
            plan::to_store(request_objects, wanted, names, request.settings, request.ofs_delta, progress)?
                .with_islands(request.islands.clone())
        }
        Some(_) => {
            plan_cruft(request_objects, wanted, names, request.cruft_settings, request.ofs_delta, progress)?
        }
    };
    match plan.objects() {
        0 => Ok(Vec::new()),
        _ => {
            let max_bytes = request.max_cruft_bytes.filter(|_| special.times.is_some());
            let max_bytes = max_bytes.or(request.files.max_bytes);
            PackFiles { max_bytes, ..request.files }.write(plan, special, progress)
        }
    }
}

struct Repack<'a> {
    request_objects: &'a Arc<RequestObjects>,
    request: &'a RepackRequest,
    roles: Roles,
    progress: &'a dyn ProgressSink,
    new: Vec<PublishedPack>,
    loosened: Vec<ObjectId>,
}

impl Repack<'_> {
    fn run(mut self) -> Result<Repacked, PackFilesError> {
        let (taken_apart, left, is_closed) = match self.request.scope {
            Scope::Loose => {
                self.loose()?;
                (Vec::new(), Vec::new(), false)
            }
            Scope::All(unreachable) => {
                let is_closed = self.all(unreachable)?;
                let all = [PackRole::Ordinary, PackRole::Cruft, PackRole::Promisor];
                (self.roles.with(&all), Vec::new(), is_closed)
            }
            Scope::Geometric(factor) => {
                let (taken_apart, left) = self.geometric(factor)?;
                (taken_apart, left, false)
            }
        };
        let packs = self.request_objects.snapshot().packs();
        let name = |pack: PackIx| packs[pack.0 as usize].name().to_owned();
        let objects = |pack: &PackIx| u64::from(packs[pack.0 as usize].len());
        let is_geometric = matches!(self.request.scope, Scope::Geometric(_));
        let rolled_up_objects = taken_apart.iter().filter(|_| is_geometric).map(objects).sum();
        // A repacked pack may get the name of an existing one.
        let is_new = |name: &String| self.new.iter().any(|new| new.stem.ends_with(name));
        let unmoved = [PackRole::Kept, PackRole::Named, PackRole::Foreign];
        let stays = |pack: PackIx| unmoved.contains(&self.roles.of_pack(pack));
        let is_redundant = |pack: &PackIx| self.request.delete && !stays(*pack);
        let redundant: Vec<String> =
            taken_apart.into_iter().filter(is_redundant).map(name).filter(|name| !is_new(name)).collect();
        let own = self.roles.own();
        let goes: HashSet<&String> = redundant.iter().collect();
        let staying = own.into_iter().map(name).filter(|name| !goes.contains(name) && !is_new(name));
        let staying = staying.collect();
        let left = left.into_iter().map(name).collect();
        let scope = self.request.scope;
        let Repack { new, loosened, .. } = self;
        Ok(Repacked { scope, new, redundant, staying, loosened, is_closed, left, rolled_up_objects })
    }

    /// Packs reachable loose objects that are in no pack.
    fn loose(&mut self) -> Result<(), PackFilesError> {
        let (reached, names) = self.reach()?;
        let wanted = Marks::new(self.request_objects.packed_end());
        for ix in self.kept(reached)?.extra() {
            wanted.insert(ix);
        }
        wanted.subtract(&self.left_out(false)?);
        let packed = wanted.snapshot();
        self.write(wanted, names, &Special::default())?;
        self.write_filtered(&packed, &self.left_out(!self.request.pack_kept)?)
    }

    /// Packs all reachable objects, and the others as requested; returns whether nothing reachable was left
    /// out.
    fn all(&mut self, unreachable: Unreachable) -> Result<bool, PackFilesError> {
        let (request_objects, request) = (self.request_objects, self.request);
        let (reached, names) = self.reach()?;
        let left_out = self.left_out(!request.pack_kept)?;
        let promised = Marks::of_packs(request_objects, &self.roles.with(&[PackRole::Promisor]))?;
        left_out.unite(&promised);
        let rest = self.unreachable(&reached, &left_out)?;
        match unreachable {
            Unreachable::Cruft { .. } => self.check_times()?,
            Unreachable::Loosen { .. } if request.delete => self.check_times()?,
            _ => {}
        }
        let wanted = reached.snapshot();
        let all = count(&wanted);
        wanted.subtract(&left_out);
        let is_closed = count(&wanted) == all;
        let wanted = self.kept(wanted)?;
        if unreachable == Unreachable::Append && request.delete {
            wanted.unite(&rest);
        }
        let packed = wanted.snapshot();
        if matches!(unreachable, Unreachable::Cruft { .. }) {
            packed.unite(&rest);
        }
        if count(&promised) > 0 {
            let names = Names::new(request_objects.packed_end());
            let special = Special { is_promisor: true, ..Special::default() };
            self.write(promised, names, &special)?;
        }
        let bitmap = request.bitmap.as_ref().filter(|_| is_closed);
        self.write(wanted, names, &Special { bitmap, ..Special::default() })?;
        self.write_filtered(&packed, &left_out)?;
        match unreachable {
            Unreachable::Drop | Unreachable::Append => {}
            // The filter has put them into a pack of the repository.
            Unreachable::Loosen { .. } if request.filter.is_some() && request.filter_to.is_none() => {}
            Unreachable::Loosen { expired } if request.delete => {
                // Their packs are about to be deleted.
                let (compression, policy) = (request.loose_compression, request.files.policy.of_rewrites());
                let how = Loosening { compression, policy };
                self.loosened = self.caretaker(request.settings).loosen(rest, &reached, expired, how)?;
            }
            Unreachable::Loosen { .. } => {}
            Unreachable::Cruft { expired } => self.cruft(rest, &reached, expired)?,
        }
        Ok(is_closed)
    }

    /// Rolls up small packs and loose objects. Returns which packs it rolled up, and which of the repository's own it left
    /// alone, the largest last.
    fn geometric(&mut self, factor: u32) -> Result<(Vec<PackIx>, Vec<PackIx>), PackFilesError> {
        let request_objects = self.request_objects;
        let (with_kept, with_foreign) = (self.request.pack_kept, !self.request.local);
        if let Some(pack) = roles::damaged_index(request_objects.snapshot(), with_kept, with_foreign) {
            return Err(PackFilesError::DamagedIndex(pack.path()));
        }
        let (mut rolled_up, left) =
            self.roles.roll_up(request_objects.snapshot(), factor, with_kept, with_foreign);
        let wanted = Marks::of_packs(request_objects, &rolled_up)?;
        insert_loose(request_objects, &wanted)?;
        self.insert_reached_cruft(&wanted, &left)?;
        subtract_packs(request_objects, &wanted, &left)?;
        subtract_packs(request_objects, &wanted, &self.packs_left_out(!with_kept))?;
        let borrowed = Marks::new(request_objects.packed_end());
        self.insert_borrowed_loose(&borrowed)?;
        wanted.subtract(&borrowed);
        let names = LenientWalk::new(request_objects).name_by_trees(&wanted, &self.request.settings)?;
        self.write(wanted, names, &Special::default())?;
        let (promised, mut all_left) = self.geometric_of_promised(factor)?;
        rolled_up.extend(promised);
        all_left.extend(left.into_iter().filter(|pack| self.roles.of_pack(*pack) != PackRole::Foreign));
        Ok((rolled_up, all_left))
    }

    /// Adds what the objects reach in cruft packs, without looking behind objects of `closed` packs.
    fn insert_reached_cruft(&self, wanted: &Marks, closed: &[PackIx]) -> Result<(), Error> {
        let request_objects = self.request_objects;
        let cruft = self.roles.with(&[PackRole::Cruft, PackRole::LongCruft]);
        if !self.request.follows_cruft || cruft.is_empty() {
            return Ok(());
        }
        let stop = Marks::of_packs(request_objects, closed)?;
        let (seen, names) =
            (Marks::new(request_objects.packed_end()), Names::new(request_objects.packed_end()));
        let from: Vec<ObjectId> = wanted.members().map(|no| request_objects.id(no)).collect();
        LenientWalk::new(request_objects).reach(from, &stop, &seen, &names)?;
        let cruft = Marks::of_packs(request_objects, &cruft)?;
        cruft.packed().filter(|no| seen.contains(*no)).for_each(|no| _ = wanted.insert(no));
        Ok(())
    }

    /// Rolls up small packs of promised objects, apart from the others.
    fn geometric_of_promised(&mut self, factor: u32) -> Result<(Vec<PackIx>, Vec<PackIx>), PackFilesError> {
        let request_objects = self.request_objects;
        let (rolled_up, left) = self.roles.roll_up_promised(request_objects.snapshot(), factor);
        let wanted = Marks::of_packs(request_objects, &rolled_up)?;
        subtract_packs(request_objects, &wanted, &left)?;
        let names = LenientWalk::new(request_objects).name_by_trees(&wanted, &self.request.settings)?;
        self.write(wanted, names, &Special { is_promisor: true, ..Special::default() })?;
        Ok((rolled_up, left))
    }

    /// Of reachable objects, those that the filter keeps.
    fn kept(&self, reached: Marks) -> Result<Marks, Error> {
        let Some(filter) = &self.request.filter else { return Ok(reached) };
        let mut tips = self.request.tips.clone();
        for id in &self.request.soft_tips {
            if self.request_objects.find(id)?.is_some_and(|no| reached.contains(no)) {
                tips.push(*id);
            }
        }
        plan::kept_by(self.request_objects, filter, tips, reached, self.progress)
    }

    /// With a filter, packs the objects of the packs to be repacked that are neither `packed` nor `left_out`. If
    /// these packs stay, and the new one would be beside them, it has nothing to add.
    fn write_filtered(&mut self, packed: &Marks, left_out: &Marks) -> Result<(), PackFilesError> {
        let stay = self.request.scope == Scope::Loose && self.request.filter_to.is_none();
        if self.request.filter.is_none() || stay {
            return Ok(());
        }
        self.progress.begin_part(RepackPart::Filtered);
        let mut packs = self.roles.with(&[PackRole::Ordinary, PackRole::Cruft]);
        if self.request.pack_kept {
            packs.extend(self.roles.with(&[PackRole::Kept]));
        }
        let filtered = Marks::of_packs(self.request_objects, &packs)?;
        filtered.subtract(packed);
        filtered.subtract(left_out);
        let names = Names::new(self.request_objects.packed_end());
        let prefix = self.request.filter_to.as_deref();
        let special = Special { prefix, ..Special::default() };
        let new = store(self.request_objects, self.request, (filtered, names), &special, self.progress)?;
        self.new.extend(new.into_iter().filter(|_| prefix.is_none()));
        Ok(())
    }

    fn write(&mut self, wanted: Marks, names: Names, special: &Special<'_>) -> Result<(), PackFilesError> {
        let new = store(self.request_objects, self.request, (wanted, names), special, self.progress)?;
        for pack in new.iter().filter(|pack| pack.was_there && special.bitmap.is_none()) {
            remove_bitmap(&pack.stem)?;
        }
        self.new.extend(new);
        Ok(())
    }

    /// All reachable objects; for a pack of loose ones, those that packed commits alone reach are of no interest.
    fn reach(&self) -> Result<(Marks, Names), Error> {
        let (request_objects, request) = (self.request_objects, self.request);
        let unpacked = request.scope == Scope::Loose;
        let walk = || LenientWalk::new(request_objects).unpacked(unpacked);
        let promisor = self.roles.with(&[PackRole::Promisor]);
        let none = Marks::new(request_objects.packed_end());
        let (seen, names, stop) = if promisor.is_empty() && !self.has_foreign_promisor() {
            let tips = request.tips.clone();
            let (seen, names) =
                plan::reach(request_objects, tips, unpacked, &request.settings, self.progress)?;
            (seen, names, none)
        } else {
            // Promised objects may refer to missing ones and need no walk: they are packed as they are.
            let stop = Marks::of_packs(request_objects, &promisor)?;
            let (seen, names) = (none, Names::new(request_objects.packed_end()));
            walk().reach(request.tips.iter().copied(), &stop, &seen, &names)?;
            (seen, names, stop)
        };
        walk().reach(request.soft_tips.iter().copied(), &stop, &seen, &names)?;
        Ok((seen, names))
    }

    fn has_foreign_promisor(&self) -> bool {
        self.request_objects.snapshot().packs().iter().any(packrace_store::Pack::is_promisor)
    }

    /// Objects that are not repacked: in named packs, in kept packs and, with `-l`, in alternates.
    fn left_out(&self, without_kept: bool) -> Result<Marks, Error> {
        let marks = Marks::of_packs(self.request_objects, &self.packs_left_out(without_kept))?;
        self.insert_borrowed_loose(&marks)?;
        Ok(marks)
    }

    fn packs_left_out(&self, without_kept: bool) -> Vec<PackIx> {
        let mut roles = vec![PackRole::Named];
        roles.extend(without_kept.then_some(PackRole::Kept));
        roles.extend(self.request.local.then_some(PackRole::Foreign));
        self.roles.with(&roles)
    }

    /// With `-l`, adds the loose objects of alternates.
    fn insert_borrowed_loose(&self, marks: &Marks) -> Result<(), Error> {
        let request_objects = self.request_objects;
        if self.request.local {
            let own = request_objects.snapshot().own_loose()?;
            for id in request_objects.loose_met() {
                if own.binary_search(&id).is_err() {
                    marks.insert(request_objects.require(&id)?);
                }
            }
        }
        Ok(())
    }

    /// Unreachable objects that are loose or in packs to be repacked.
    fn unreachable(&self, reached: &Marks, left_out: &Marks) -> Result<Marks, Error> {
        let rest =
            Marks::of_packs(self.request_objects, &self.roles.with(&[PackRole::Ordinary, PackRole::Cruft]))?;
        subtract_packs(self.request_objects, &rest, &self.roles.with(&[PackRole::LongCruft]))?;
        // Loose objects are packed even if such a pack has them: they were wanted later.
        if !matches!(self.request.scope, Scope::All(Unreachable::Drop)) {
            insert_all(self.request_objects, &rest, &self.request_objects.snapshot().own_loose()?)?;
        }
        rest.subtract(reached);
        rest.subtract(left_out);
        Ok(rest)
    }

    /// Finds damaged times of cruft packs before anything is written.
    fn check_times(&self) -> Result<(), Error> {
        let packs = self.request_objects.snapshot().packs();
        for pack in self.roles.with(&[PackRole::Cruft]) {
            packs[pack.0 as usize].times()?;
        }
        Ok(())
    }

    fn caretaker(&self, settings: Settings) -> Caretaker<'_> {
        let packs = self.roles.with(&[PackRole::Ordinary, PackRole::Cruft]);
        let (request_objects, recent) = (self.request_objects, &self.request.recent);
        Caretaker { request_objects, packs, recent, settings, progress: self.progress }
    }

    /// Packs unreachable objects, with the expired ones that they need.
    fn cruft(&mut self, rest: Marks, reached: &Marks, expired: i64) -> Result<(), PackFilesError> {
        self.progress.begin_part(RepackPart::Cruft);
        let caretaker = self.caretaker(self.request.cruft_settings);
        let times = caretaker.times(&rest)?;
        let Parted { stay, gone, names } = caretaker.part(rest, reached, &times, expired)?;
        let special = Special { times: Some(&times), ..Special::default() };
        self.write(stay, names, &special)?;
        if let Some(prefix) = &self.request.expire_to {
            self.progress.begin_part(RepackPart::Expired);
            let names = Names::new(self.request_objects.packed_end());
            let special = Special { prefix: Some(prefix), ..special };
            // This pack is not one of the repository's own.
            store(self.request_objects, self.request, (gone, names), &special, self.progress)?;
        }
        Ok(())
    }
}

fn count(marks: &Marks) -> usize {
    marks.packed().count() + marks.extra().len()
}
