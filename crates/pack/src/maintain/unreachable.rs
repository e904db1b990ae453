//! What becomes of objects that nothing reaches: they are kept for a while, loose or in a cruft pack, and then dropped
//! (git-pack-objects, "--cruft" and "--unpack-unreachable").

use std::collections::{BTreeSet, HashMap};

use packrace_object::ObjectId;
use packrace_store::PackIx;
use packrace_store::publish::{LooseBatch, WritePolicy};

use super::sets::{insert_all, times};
use crate::error::{Error, ErrorKind};
use crate::marks::Marks;
use crate::names::Names;
use crate::select::plan::{self, PackPlan};
use crate::settings::Settings;
use crate::universe::{Ix, Universe};
use crate::walk::lenient_walk::LenientWalk;
use crate::walk::trees::{Absent, TreeWalk};
use crate::watch::{Phase, Watch};

/// So many objects get their names as loose ones together.
const LOOSENED_AT_ONCE: usize = 1024;

/// When objects were last wanted, in seconds since 1970.
#[derive(Debug, Default)]
pub struct Times(HashMap<Ix, u32>);

impl Times {
    /// 0 for what is not known.
    pub(crate) fn of(&self, ix: Ix) -> u32 {
        self.0.get(&ix).copied().unwrap_or_default()
    }
}

/// What has expired, and goes.
#[derive(Debug, Clone, Copy)]
pub struct Expiry<'a> {
    /// What was last wanted at this time or before, unless something newer reaches it.
    pub expired: i64,
    /// Objects that count as wanted now (`gc.recentObjectsHook`).
    pub recent: &'a [ObjectId],
}

/// How objects become loose.
#[derive(Debug, Clone, Copy)]
pub struct Loosening {
    /// zlib's level.
    pub compression: i32,
    /// How files are written.
    pub policy: WritePolicy,
}

/// Looks after unreachable objects of the repository's own packs and loose ones.
pub(crate) struct Caretaker<'a> {
    pub(crate) universe: &'a Universe,
    /// The packs whose objects are looked after.
    pub(crate) packs: Vec<PackIx>,
    /// Objects that count as wanted now (`gc.recentObjectsHook`).
    pub(crate) recent: &'a [ObjectId],
    pub(crate) settings: Settings,
    pub(crate) watch: &'a dyn Watch,
}

/// Unreachable objects by what becomes of them.
pub(crate) struct Parted {
    pub(crate) stay: Marks,
    pub(crate) gone: Marks,
    pub(crate) names: Names,
}

impl Caretaker<'_> {
    /// When these objects were last wanted.
    pub(crate) fn times(&self, rest: &Marks) -> Result<Times, Error> {
        let snapshot = self.universe.snapshot();
        let modified = |id: &ObjectId| snapshot.own_loose_modified(id);
        times(self.universe, rest, &self.packs, &snapshot.own_loose()?, modified).map(Times)
    }

    /// What was wanted after `expired` stays, and what that reaches; the others go.
    pub(crate) fn part(
        &self,
        rest: Marks,
        reached: &Marks,
        times: &Times,
        expired: i64,
    ) -> Result<Parted, Error> {
        let universe = self.universe;
        if expired == i64::MIN {
            let names = self.names(&rest, reached)?;
            return Ok(Parted { stay: rest, gone: Marks::new(universe.packed_end()), names });
        }
        let is_recent = |ix: &Ix| i64::from(times.of(*ix)) > expired;
        let recent = rest.members().filter(is_recent).map(|ix| universe.id(ix));
        let recent: Vec<ObjectId> = recent.chain(self.recent.iter().copied()).collect();
        let (needed, names) = (Marks::new(universe.packed_end()), Names::new(universe.packed_end()));
        LenientWalk::new(universe).reach(recent, reached, &needed, &names)?;
        let gone = rest.snapshot();
        gone.subtract(&needed);
        rest.subtract(&gone);
        Ok(Parted { stay: rest, gone, names })
    }

    /// The paths of unreachable objects, as far as unreachable commits lead to them.
    fn names(&self, rest: &Marks, reached: &Marks) -> Result<Names, Error> {
        let seen = reached.snapshot();
        let roots = LenientWalk::new(self.universe).root_trees(rest, &seen)?;
        let mut trees =
            TreeWalk::new(self.universe, self.settings.threads, self.watch).hashing(self.settings.name_hash);
        match trees.mark_below(roots, &seen, Absent::Skip) {
            // Nobody has said that these objects are sound, and without names the pack only becomes larger.
            Err(error) if error.kind() == ErrorKind::Corrupt => tracing::debug!("{error}"),
            marked => marked?,
        }
        Ok(trees.into_names())
    }

    /// Writes those that stay as loose objects, where they are not loose already.
    pub(crate) fn loosen(
        &self,
        rest: Marks,
        reached: &Marks,
        expired: i64,
        how: Loosening,
    ) -> Result<(), Error> {
        let snapshot = self.universe.snapshot();
        let times = self.times(&rest)?;
        let stay = self.part(rest, reached, &times, expired)?.stay;
        let own = snapshot.own_loose()?;
        let mut reader = snapshot.reader(self.settings.base_cache_bytes);
        let mut content = Vec::new();
        let pack_dir = snapshot.own_pack_dir();
        let dir = pack_dir.parent().unwrap_or(&pack_dir);
        let begin = || LooseBatch::new(dir, snapshot.clone(), how.compression, how.policy);
        let (mut batch, mut count) = (begin(), 0);
        for ix in stay.members() {
            let id = self.universe.id(ix);
            if own.binary_search(&id).is_ok() {
                continue;
            }
            let kind = self.universe.read(&mut reader, ix, &mut content)?;
            batch.add_old(&id, kind, &content, times.of(ix))?;
            count += 1;
            if count == LOOSENED_AT_ONCE {
                std::mem::replace(&mut batch, begin()).publish()?;
                count = 0;
            }
        }
        batch.publish()?;
        Ok(())
    }
}

/// Writes these objects of the repository's own packs, which nothing reaches, as loose ones.
pub fn loosen(
    universe: &Universe,
    ids: &[ObjectId],
    expiry: Expiry<'_>,
    how: Loosening,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let packs = (0u32..).map(PackIx).zip(universe.snapshot().packs());
    let packs =
        packs.filter(|(_, pack)| pack.is_local() && pack.is_usable()).map(|(number, _)| number).collect();
    let (rest, reached) = (Marks::new(universe.packed_end()), Marks::new(universe.packed_end()));
    insert_all(universe, &rest, ids)?;
    let caretaker = Caretaker { universe, packs, recent: expiry.recent, settings, watch };
    caretaker.loosen(rest, &reached, expiry.expired, how)
}

/// Who looks on while a pack is planned of what nothing reaches.
struct OfCruft<'a>(&'a dyn Watch);

impl Watch for OfCruft<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let phase = if phase == Phase::Enumerating { Phase::EnumeratingCruft } else { phase };
        self.0.progress(phase, done, total);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// A pack of what nothing reaches.
pub(crate) fn plan_cruft(
    universe: &std::sync::Arc<Universe>,
    wanted: Marks,
    names: Names,
    settings: Settings,
    ofs_delta: bool,
    watch: &dyn Watch,
) -> Result<PackPlan, Error> {
    plan::to_store(universe, wanted, names, settings, ofs_delta, &OfCruft(watch))
}

/// Plans the cruft pack of a repository in which only some packs stay: of all other objects of its own, packed and loose, those
/// that have not expired.
pub fn plan_cruft_beside(
    universe: &std::sync::Arc<Universe>,
    stays: &dyn Fn(&packrace_store::Pack) -> bool,
    expiry: Expiry<'_>,
    settings: Settings,
    ofs_delta: bool,
    watch: &dyn Watch,
) -> Result<(PackPlan, Times), Error> {
    let snapshot = universe.snapshot();
    let numbered = || (0u32..).map(PackIx).zip(snapshot.packs()).filter(|(_, pack)| pack.is_usable());
    let staying: BTreeSet<PackIx> =
        numbered().filter(|(_, pack)| pack.is_local() && stays(pack)).map(|(ix, _)| ix).collect();
    let others = numbered().filter(|(ix, pack)| pack.is_local() && !staying.contains(ix));
    let others: Vec<PackIx> = others.map(|(ix, _)| ix).collect();
    let staying: Vec<PackIx> = staying.into_iter().collect();
    let reached = Marks::of_packs(universe, &staying)?;
    let rest = Marks::of_packs(universe, &others)?;
    insert_all(universe, &rest, &snapshot.own_loose()?)?;
    rest.subtract(&reached);
    let caretaker = Caretaker { universe, packs: others, recent: expiry.recent, settings, watch };
    let times = caretaker.times(&rest)?;
    let parted = caretaker.part(rest, &reached, &times, expiry.expired)?;
    Ok((plan_cruft(universe, parted.stay, parted.names, settings, ofs_delta, watch)?, times))
}
