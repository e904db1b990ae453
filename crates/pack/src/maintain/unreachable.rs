//! Unreachable objects: kept for a while, loose or in a cruft pack, then dropped (git-pack-objects, "--cruft"
//! and "--unpack-unreachable").

use std::collections::{BTreeSet, HashMap};

use packrace_object::ObjectId;
use packrace_store::PackIx;
use packrace_store::publish::{LooseBatch, WritePolicy};

use super::sets::{insert_all, times};
use crate::error::{Error, ErrorKind};
use crate::marks::Marks;
use crate::names::Names;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::plan::{self, PackPlan};
use crate::settings::Settings;
use crate::walk::lenient_walk::LenientWalk;
use crate::walk::trees::{OnMissing, TreeWalk};

/// Loose objects published together.
const LOOSENED_AT_ONCE: usize = 1024;

/// When objects were last wanted, in seconds since 1970.
#[derive(Debug, Default)]
pub struct Times(HashMap<ObjectNo, u32>);

impl Times {
    /// The time of an object; 0 if unknown.
    pub(crate) fn of(&self, ix: ObjectNo) -> u32 {
        self.0.get(&ix).copied().unwrap_or_default()
    }
}

/// Which objects have expired.
#[derive(Debug, Clone, Copy)]
pub struct Expiry<'a> {
    /// Objects last wanted at this time or before have expired, unless a newer object reaches them.
    pub expired: i64,
    /// Objects that count as wanted now (`gc.recentObjectsHook`).
    pub recent: &'a [ObjectId],
}

/// How objects become loose.
#[derive(Debug, Clone, Copy)]
pub struct Loosening {
    /// The zlib level.
    pub compression: i32,
    /// How files are written.
    pub policy: WritePolicy,
}

/// Handles the repository's own unreachable objects, packed and loose.
pub(crate) struct Caretaker<'a> {
    pub(crate) request_objects: &'a RequestObjects,
    /// The packs whose objects it handles.
    pub(crate) packs: Vec<PackIx>,
    /// Objects that count as wanted now (`gc.recentObjectsHook`).
    pub(crate) recent: &'a [ObjectId],
    pub(crate) settings: Settings,
    pub(crate) progress: &'a dyn ProgressSink,
}

/// Unreachable objects, divided into those that stay and those that go.
pub(crate) struct Parted {
    pub(crate) stay: Marks,
    pub(crate) gone: Marks,
    pub(crate) names: Names,
}

impl Caretaker<'_> {
    /// When these objects were last wanted.
    pub(crate) fn times(&self, rest: &Marks) -> Result<Times, Error> {
        let snapshot = self.request_objects.snapshot();
        let modified = |id: &ObjectId| snapshot.own_loose_modified(id);
        times(self.request_objects, rest, &self.packs, &snapshot.own_loose()?, modified).map(Times)
    }

    /// Divides objects: those wanted after `expired` stay, with everything they reach; the others go.
    pub(crate) fn part(
        &self,
        rest: Marks,
        reached: &Marks,
        times: &Times,
        expired: i64,
    ) -> Result<Parted, Error> {
        let request_objects = self.request_objects;
        if expired == i64::MIN {
            let names = self.names(&rest, reached)?;
            return Ok(Parted { stay: rest, gone: Marks::new(request_objects.packed_end()), names });
        }
        let is_recent = |ix: &ObjectNo| i64::from(times.of(*ix)) > expired;
        let recent = rest.members().filter(is_recent).map(|ix| request_objects.id(ix));
        let recent: Vec<ObjectId> = recent.chain(self.recent.iter().copied()).collect();
        let (needed, names) =
            (Marks::new(request_objects.packed_end()), Names::new(request_objects.packed_end()));
        LenientWalk::new(request_objects).reach(recent, reached, &needed, &names)?;
        let gone = rest.snapshot();
        gone.subtract(&needed);
        rest.subtract(&gone);
        Ok(Parted { stay: rest, gone, names })
    }

    /// The paths of unreachable objects, found from unreachable commits.
    fn names(&self, rest: &Marks, reached: &Marks) -> Result<Names, Error> {
        let seen = reached.snapshot();
        let roots = LenientWalk::new(self.request_objects).root_trees(rest, &seen)?;
        let mut trees = TreeWalk::new(self.request_objects, self.settings.threads, self.progress)
            .hashing(self.settings.name_hash);
        match trees.mark_below(roots, &seen, OnMissing::Skip) {
            // These objects may be damaged; without names, the pack is only larger.
            Err(error) if error.kind() == ErrorKind::Corrupt => tracing::debug!("{error}"),
            marked => marked?,
        }
        Ok(trees.into_names())
    }

    /// Writes the objects that stay as loose objects, unless they are loose already. Returns all that stay.
    pub(crate) fn loosen(
        &self,
        rest: Marks,
        reached: &Marks,
        expired: i64,
        how: Loosening,
    ) -> Result<Vec<ObjectId>, Error> {
        let snapshot = self.request_objects.snapshot();
        let times = self.times(&rest)?;
        let stay = self.part(rest, reached, &times, expired)?.stay;
        let own = snapshot.own_loose()?;
        let mut reader = snapshot.reader(self.settings.base_cache_bytes).checking_crcs();
        let mut content = Vec::new();
        let pack_dir = snapshot.own_pack_dir();
        let dir = pack_dir.parent().unwrap_or(&pack_dir);
        let begin = || LooseBatch::new(dir, snapshot.clone(), how.compression, how.policy);
        let (mut batch, mut count, mut loosened) = (begin(), 0, 0);
        let mut all = Vec::new();
        for ix in stay.members() {
            let id = self.request_objects.id(ix);
            all.push(id);
            if own.binary_search(&id).is_ok() {
                continue;
            }
            let kind = self.request_objects.read(&mut reader, ix, &mut content)?;
            batch.add_old(&id, kind, &content, times.of(ix))?;
            (count, loosened) = (count + 1, loosened + 1);
            if count == LOOSENED_AT_ONCE {
                std::mem::replace(&mut batch, begin()).publish()?;
                count = 0;
            }
        }
        batch.publish()?;
        self.progress.loosened(loosened);
        Ok(all)
    }
}

/// Writes these unreachable objects as loose objects of the repository, unless they have expired.
pub fn loosen(
    request_objects: &RequestObjects,
    ids: &[ObjectId],
    expiry: Expiry<'_>,
    how: Loosening,
    settings: Settings,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let packs = (0u32..).map(PackIx).zip(request_objects.snapshot().packs());
    let packs =
        packs.filter(|(_, pack)| pack.is_local() && pack.is_usable()).map(|(number, _)| number).collect();
    let (rest, reached) =
        (Marks::new(request_objects.packed_end()), Marks::new(request_objects.packed_end()));
    insert_all(request_objects, &rest, ids)?;
    let caretaker = Caretaker { request_objects, packs, recent: expiry.recent, settings, progress };
    caretaker.loosen(rest, &reached, expiry.expired, how).map(drop)
}

/// Renames the enumeration phase while a cruft pack is planned.
struct OfCruft<'a>(&'a dyn ProgressSink);

impl ProgressSink for OfCruft<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let phase = if phase == Phase::Enumerating { Phase::EnumeratingCruft } else { phase };
        self.0.report(phase, done, total);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// Plans a pack of unreachable objects.
pub(crate) fn plan_cruft(
    request_objects: &std::sync::Arc<RequestObjects>,
    wanted: Marks,
    names: Names,
    settings: Settings,
    ofs_delta: bool,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    plan::to_store(request_objects, wanted, names, settings, ofs_delta, &OfCruft(progress))
}

/// Plans a cruft pack for a repository that keeps only some packs: all other objects of its own, packed and
/// loose, that have not expired.
pub fn plan_cruft_beside(
    request_objects: &std::sync::Arc<RequestObjects>,
    stays: &dyn Fn(&packrace_store::Pack) -> bool,
    expiry: Expiry<'_>,
    settings: Settings,
    ofs_delta: bool,
    progress: &dyn ProgressSink,
) -> Result<(PackPlan, Times), Error> {
    let snapshot = request_objects.snapshot();
    let numbered = || (0u32..).map(PackIx).zip(snapshot.packs()).filter(|(_, pack)| pack.is_usable());
    let staying: BTreeSet<PackIx> =
        numbered().filter(|(_, pack)| pack.is_local() && stays(pack)).map(|(ix, _)| ix).collect();
    let others = numbered().filter(|(ix, pack)| pack.is_local() && !staying.contains(ix));
    let others: Vec<PackIx> = others.map(|(ix, _)| ix).collect();
    let staying: Vec<PackIx> = staying.into_iter().collect();
    let reached = Marks::of_packs(request_objects, &staying)?;
    let rest = Marks::of_packs(request_objects, &others)?;
    insert_all(request_objects, &rest, &snapshot.own_loose()?)?;
    rest.subtract(&reached);
    let caretaker = Caretaker { request_objects, packs: others, recent: expiry.recent, settings, progress };
    let times = caretaker.times(&rest)?;
    let parted = caretaker.part(rest, &reached, &times, expiry.expired)?;
    Ok((plan_cruft(request_objects, parted.stay, parted.names, settings, ofs_delta, progress)?, times))
}
