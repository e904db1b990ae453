//! Decides which objects a response contains, and from which pack each is taken.

mod by_bitmap;
mod by_walk;
mod filtering;
mod layout;
mod memory;
mod tips;

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, oid};
use packrace_store::{ObjectReader, PackIx};

use crate::error::Error;
use crate::kept_deltas::RepositoryDeltas;
use crate::marks::Marks;
use crate::names::{NameHash, NameHashVersion, Names};
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::filter::{Filter, Rules};
use crate::select::islands::Islands;
use crate::settings::{MAX_TREE_DEPTH, Settings};
use crate::walk::commits::Commits;
use crate::walk::lenient_walk::LenientWalk;
use crate::walk::trees::{AllowedMissing, TreeWalk};
pub(crate) use by_bitmap::or_stored;
use filtering::Filtering;
use layout::lay_out;
pub use memory::estimated_memory;
pub(crate) use tips::Tips;

/// A client's request after negotiation, as plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PackRequest {
    /// Objects to send, with everything they reach.
    pub wants: Vec<ObjectId>,
    /// Objects that the client has, with everything they reach; unknown ones are ignored.
    pub haves: Vec<ObjectId>,
    /// Whether the trees of wanted commits that are in packs are not looked at: loose objects are sought (git-rev-list,
    /// `--unpacked`).
    pub unpacked: bool,
    /// Commits whose parents the client lacks or will not get; if there are any, bitmaps are not used.
    pub shallow: Vec<ObjectId>,
    /// Annotated tags to add if their peeled object is sent (`include-tag`): the tag and its peeled object.
    pub tags: Vec<(ObjectId, ObjectId)>,
    /// Wanted objects that are not sent: the client gets them another way (packfile URIs).
    pub excluded: Vec<ObjectId>,
    /// Deltas may have bases that only the client has (`thin-pack`).
    pub thin: bool,
    /// Deltas may name their base by its offset (`ofs-delta`).
    pub ofs_delta: bool,
    /// What to do about missing objects.
    pub missing: MissingObjects,
    /// What to leave out; objects in `wants` are sent in any case.
    pub filter: Option<Filter>,
    /// Threads that a walk may use; at least 1.
    pub threads: usize,
    /// How the pack is made.
    pub settings: Settings,
}

/// What to do about wanted objects that are missing in this repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MissingObjects {
    /// Fail, naming the first.
    #[default]
    Errors,
    /// Leave them out, and list them in [`RequestObjects::missing_met`]: the caller fetches them, and plans again.
    Listed,
    /// Leave out promised ones: the client knows a promisor remote that has them.
    Promised,
    /// Leave out all missing objects, and what they would reach.
    Any,
    /// Leave out objects in promisor packs, and what they reach.
    BehindPromisor,
    /// The same, but keep commits and tags in promisor packs that are wanted, or that what is kept refers to.
    BehindPromisorBestEffort,
}

impl MissingObjects {
    /// Whether any object may be missing, also commits and trees: such histories are walked object by object, without bitmaps.
    fn is_lenient(self) -> bool {
        match self {
            Self::Errors | Self::Listed | Self::Promised => false,
            Self::Any | Self::BehindPromisor | Self::BehindPromisorBestEffort => true,
        }
    }
}

/// The order of the entries in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As stored, pack after pack: nothing is visited twice. For a response.
    #[default]
    AsStored,
    /// Tags, commits, trees, blobs, each as stored: what a walk needs is adjacent. For a stored pack.
    ByKind,
}

/// Which objects of a stored pack are sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// The whole pack.
    All,
    /// The entries at these positions in the pack, ascending.
    Positions(Vec<u32>),
}

/// The objects of a response; keeps the snapshot alive.
pub struct PackPlan {
    pub(crate) request_objects: Arc<RequestObjects>,
    /// Packs in the order in which they are sent; each object is taken from only one of them.
    pub(crate) packs: Vec<(PackIx, Selected)>,
    pub(crate) loose: Vec<ObjectNo>,
    pub(crate) wanted: Marks,
    /// What the client is known to have: bases for a thin pack.
    pub(crate) had: Option<Marks>,
    pub(crate) ofs_delta: bool,
    excluded: Vec<ObjectId>,
    pub(crate) settings: Settings,
    pub(crate) order: Order,
    /// The objects were found by bitmaps: no search for better deltas between packs.
    pub(crate) is_by_bitmap: bool,
    /// Whether git would find them by bitmaps, which says how reused objects are counted.
    pub(crate) counts_by_bitmap: bool,
    pub(crate) names: Names,
    /// What the client has with all that it reaches, if bitmaps can tell what that is and have not yet.
    pub(crate) had_tips: Vec<ObjectId>,
    /// Objects that the client has and that are likely delta bases, with their paths.
    pub(crate) bases: Vec<(ObjectNo, NameHash)>,
    /// Whether bases are searched among all of `had` instead, by the hashes of their paths.
    pub(crate) finds_bases_by_name: bool,
    /// The delta islands, which restrict deltas.
    pub(crate) islands: Option<Arc<Islands>>,
    /// Deltas of earlier packs.
    pub(crate) deltas: Option<RepositoryDeltas>,
    objects: u32,
}

impl PackPlan {
    /// The hash of the path at which an object was found, or else the hash stored with the bitmaps.
    pub(crate) fn name_of(&self, ix: ObjectNo) -> NameHash {
        let name = self.names.get(ix);
        let is_other = self.names.version() == NameHashVersion::V2;
        if name != NameHash::default() || !self.is_by_bitmap || is_other {
            return name;
        }
        let bitmap = self.request_objects.snapshot().bitmap();
        let stored =
            bitmap.zip(self.request_objects.packed(ix)).and_then(|(bitmap, ix)| bitmap.name_hash(ix));
        NameHash(stored.unwrap_or_default())
    }

    /// Whether stored bytes are compared with their checksums before they are sent. As in git, those that bitmaps find are
    /// not: the receiver checks them.
    pub(crate) fn checks_entries(&self) -> bool {
        !self.is_by_bitmap
    }

    /// The same plan, for a pack to store.
    pub fn to_stay(self) -> Self {
        PackPlan { order: Order::ByKind, ..self }
    }

    /// A reader for the pack's objects. Damage must not spread into a pack that stays.
    pub(crate) fn reader(&self, cache_bytes: usize) -> ObjectReader {
        let reader = self.request_objects.snapshot().reader(cache_bytes);
        match self.order == Order::ByKind || self.checks_entries() {
            true => reader.checking_crcs(),
            false => reader,
        }
    }

    /// The same plan, without deltas between islands.
    pub fn with_islands(self, islands: Option<Arc<Islands>>) -> Self {
        PackPlan { islands, ..self }
    }

    /// The same plan, with deltas from earlier packs of the repository; those made for this one are kept for later ones.
    pub fn with_deltas(self, deltas: Option<RepositoryDeltas>) -> Self {
        PackPlan { deltas, ..self }
    }

    /// Whether deltas of objects that the client has are worth a search.
    pub(crate) fn has_likely_bases(&self) -> bool {
        !self.bases.is_empty() || self.finds_bases_by_name
    }

    /// Whether an object may be a delta of `base`.
    pub(crate) fn allows(&self, object: ObjectNo, base: ObjectNo) -> bool {
        self.islands.as_ref().is_none_or(|islands| islands.allow(object, base))
    }

    /// The number of objects in the pack.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// The objects of [`PackRequest::excluded`] that would have been sent, in the order of the request.
    pub fn excluded(&self) -> &[ObjectId] {
        &self.excluded
    }

    /// The ids of all objects to send, sorted.
    pub fn ids(&self) -> Vec<ObjectId> {
        let mut ids: Vec<_> = self.wanted.members().map(|ix| self.request_objects.id(ix)).collect();
        ids.sort_unstable();
        ids
    }
}

/// The objects marked while a request is planned.
pub(crate) struct MarkedObjects {
    /// Everything to send.
    pub(crate) wanted: Marks,
    /// Everything that the client is known to have.
    pub(crate) had: Marks,
    /// Likely delta bases that the client has.
    pub(crate) bases: Vec<(ObjectNo, NameHash)>,
    pub(crate) is_by_bitmap: bool,
}

/// The most commits visited to find where a client's history begins; beyond that, bitmaps find what it lacks.
/// A walk sends less: it knows the paths, and so the best bases. For bitmaps without the hashes of paths, and for
/// filters.
pub(crate) const WALK_RATHER_THAN_BITMAP: usize = 32 << 10;

/// The same for bitmaps with the hashes of paths, which find bases, too: not always the best ones, in half the time.
const WALK_RATHER_THAN_BITMAP_WITH_NAMES: usize = 256;

/// Plans the answer to `request`, with bitmaps where they apply, otherwise by a walk; again if a multi-pack-index is
/// damaged.
pub fn plan(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    let planned = |objects: &Arc<RequestObjects>| plan_adjusted(objects, request, |_| Ok(()), progress);
    let lists_missing = request.missing == MissingObjects::Listed;
    planned(request_objects)
        .or_else(|error| planned(&request_objects.without_damaged_index(lists_missing, error)?))
}

/// The same, planned only once, with the set of objects changed by `adjust`.
pub fn plan_adjusted<E: From<Error>>(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
    adjust: impl FnOnce(&Chosen<'_>) -> Result<(), E>,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, E> {
    let (found, names) = match request.missing.is_lenient() {
        true => find_leniently(request_objects, request, progress)?,
        false => find_filtered(request_objects, request, progress)?,
    };
    let mut commits = Commits::new(request_objects, HashSet::new(), progress);
    add_tags(request_objects, &mut commits, &found, &request.tags)?;
    let excluded = exclude(request_objects, &found, &request.excluded)?;
    adjust(&Chosen { request_objects, wanted: &found.wanted })?;
    Ok(PackPlan { excluded, ..lay_out(request_objects, request, found, names, progress)? })
}

/// The objects of a pack, before their form is planned.
pub struct Chosen<'a> {
    pub(crate) request_objects: &'a RequestObjects,
    pub(crate) wanted: &'a Marks,
}

impl Chosen<'_> {
    /// Adds objects; ignores missing ones.
    pub fn extend(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<(), Error> {
        for id in ids {
            if let Some(ix) = self.request_objects.find(&id)? {
                self.wanted.insert(ix);
            }
        }
        Ok(())
    }

    /// Whether the pack will contain this object.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.request_objects.find(id)?.is_some_and(|ix| self.wanted.contains(ix)))
    }

    /// Keeps only the objects for which `keeps` returns true.
    pub fn retain<E>(&self, mut keeps: impl FnMut(&ObjectId) -> Result<bool, E>) -> Result<(), E> {
        for ix in self.wanted.members().collect::<Vec<_>>() {
            if !keeps(&self.request_objects.id(ix))? {
                self.wanted.remove(ix);
            }
        }
        Ok(())
    }
}

/// The objects that are wanted, not had, and kept by the filter.
fn find_filtered(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
    progress: &dyn ProgressSink,
) -> Result<(MarkedObjects, Names), Error> {
    let mut cut: HashSet<ObjectNo> = HashSet::new();
    for id in request.shallow.iter().chain(request_objects.snapshot().shallow()?) {
        cut.extend(request_objects.find(id)?);
    }
    let may_use_bitmap = cut.is_empty() && !request.unpacked && request_objects.snapshot().has_bitmap_files();
    let mut commits = Commits::after_negotiation(request_objects, cut, progress);
    let tips = Tips::resolve(request_objects, &mut commits, request)?;
    let rules = request.filter.as_ref().map(|filter| Rules::of(request_objects, filter)).transpose()?;
    let sends_blobs = rules.as_ref().is_none_or(|rules| rules.keeps(Kind::Blob));
    let allowed_missing = AllowedMissing {
        blobs: !sends_blobs,
        listed: request.missing == MissingObjects::Listed,
        promised: request.missing == MissingObjects::Promised,
    };
    let mut trees = TreeWalk::new(request_objects, request.threads, progress)
        .allowed_missing(allowed_missing)
        .hashing(request.settings.name_hash);
    let walk_limit = match rules {
        None => (!tips.wants_parts_by_name()).then_some(WALK_RATHER_THAN_BITMAP_WITH_NAMES),
        // The client lacks what the filter leaves out, so bitmaps do not know its objects.
        Some(_) => Some(WALK_RATHER_THAN_BITMAP),
    };
    let mut find = |commits: &mut Commits<'_>| {
        find(request_objects, may_use_bitmap, walk_limit, commits, &mut trees, &tips, progress)
    };
    let found = match rules {
        Some(rules) => Filtering {
            request_objects,
            tips: &tips,
            rules,
            allowed_missing,
            progress,
            max_tree_depth: request.settings.max_tree_depth,
        }
        .find(&mut commits, may_use_bitmap, &mut find)?,
        None => find(&mut commits)?,
    };
    Ok((found, trees.into_names()))
}

/// The same for objects that may be missing: a slow walk on one thread, without bitmaps.
fn find_leniently(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
    progress: &dyn ProgressSink,
) -> Result<(MarkedObjects, Names), Error> {
    let promised = match request.missing {
        MissingObjects::BehindPromisor | MissingObjects::BehindPromisorBestEffort => {
            let packs = (0u32..).map(PackIx).zip(request_objects.snapshot().packs());
            let packs: Vec<PackIx> = packs
                .filter(|(_, pack)| pack.is_promisor() && pack.is_usable())
                .map(|(number, _)| number)
                .collect();
            Marks::of_packs(request_objects, &packs)?
        }
        _ => Marks::new(request_objects.packed_end()),
    };
    let (had, wanted) = (Marks::new(request_objects.packed_end()), Marks::new(request_objects.packed_end()));
    let names = Names::new(request_objects.packed_end()).by(request.settings.name_hash);
    let nothing = Marks::new(request_objects.packed_end());
    let (stop, border) = match request.missing {
        MissingObjects::BehindPromisorBestEffort => (&nothing, Some(&promised)),
        _ => (&promised, None),
    };
    let mut walk = LenientWalk::new(request_objects).unpacked(request.unpacked);
    walk.reach(request.haves.iter().copied(), stop, &had, &names)?;
    stop.unite(&had);
    let mut walk = walk.up_to(border);
    walk.reach(request.wants.iter().copied(), stop, &wanted, &names)?;
    let wanted = match &request.filter {
        Some(filter) => kept_by(request_objects, filter, request.wants.clone(), wanted, progress)?,
        None => wanted,
    };
    Ok((MarkedObjects { wanted, had, bases: Vec::new(), is_by_bitmap: false }, names))
}

/// Everything that `tips` reach, found by a walk, with paths; if `unpacked`, without the trees of packed commits.
pub(crate) fn reach(
    request_objects: &RequestObjects,
    tips: Vec<ObjectId>,
    unpacked: bool,
    settings: &Settings,
    progress: &dyn ProgressSink,
) -> Result<(Marks, Names), Error> {
    let mut cut: HashSet<ObjectNo> = HashSet::new();
    for id in request_objects.snapshot().shallow()? {
        cut.extend(request_objects.find(id)?);
    }
    let mut commits = Commits::new(request_objects, cut, progress);
    let request = PackRequest { wants: tips, unpacked, ..PackRequest::default() };
    let tips = Tips::resolve(request_objects, &mut commits, &request)?;
    let mut trees = TreeWalk::new(request_objects, settings.threads, progress).hashing(settings.name_hash);
    let found = by_walk::find(request_objects, &mut commits, &mut trees, &tips, usize::MAX)?;
    Ok((found.expect("no limit was set").wanted, trees.into_names()))
}

/// The part of `wanted` that a filter keeps; `wanted` must be reachable from `tips`.
pub(crate) fn kept_by(
    request_objects: &RequestObjects,
    filter: &Filter,
    tips: Vec<ObjectId>,
    wanted: Marks,
    progress: &dyn ProgressSink,
) -> Result<Marks, Error> {
    let mut commits = Commits::new(request_objects, HashSet::new(), progress);
    let request = PackRequest { wants: tips, ..PackRequest::default() };
    let tips = Tips::resolve(request_objects, &mut commits, &request)?;
    let rules = Rules::of(request_objects, filter)?;
    let found = MarkedObjects {
        wanted,
        had: Marks::new(request_objects.packed_end()),
        bases: Vec::new(),
        is_by_bitmap: false,
    };
    let (allowed_missing, max_tree_depth) = (AllowedMissing::default(), MAX_TREE_DEPTH);
    let filtering =
        Filtering { request_objects, tips: &tips, rules, allowed_missing, progress, max_tree_depth };
    // As with bitmaps, all reachable objects are known already.
    Ok(filtering.find(&mut commits, true, |_| Ok(found))?.wanted)
}

/// Plans a pack of exactly these objects, each with the hash of its path. All delta bases are in the pack, or among `had`,
/// which the receiver has; those that are missing here are left out.
pub fn plan_list(
    request_objects: &Arc<RequestObjects>,
    objects: &[(ObjectId, NameHash)],
    had: &[(ObjectId, NameHash)],
    settings: Settings,
    ofs_delta: bool,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    let wanted = Marks::new(request_objects.packed_end());
    let names = Names::new(request_objects.packed_end());
    for (id, name) in objects {
        let ix = request_objects.require(id)?;
        if wanted.insert(ix) {
            names.set(ix, *name);
        }
    }
    let (had_marks, mut bases) = (Marks::new(request_objects.packed_end()), Vec::new());
    for (id, name) in had {
        let found = request_objects.find(id)?.filter(|ix| !wanted.contains(*ix) && had_marks.insert(*ix));
        bases.extend(found.map(|ix| (ix, *name)));
    }
    let found = MarkedObjects { wanted, had: had_marks, bases, is_by_bitmap: false };
    stored(request_objects, found, names, settings, ofs_delta, progress)
}

/// What the commits and tags of `from` reach, with the hash of each path, without `stop` and what only those reach;
/// missing objects are skipped.
pub fn reached_from(
    request_objects: &RequestObjects,
    from: &[ObjectId],
    stop: &[ObjectId],
) -> Result<Vec<(ObjectId, NameHash)>, Error> {
    let end = request_objects.packed_end();
    let (stopped, seen, names) = (Marks::new(end), Marks::new(end), Names::new(end));
    for id in stop {
        stopped.insert(request_objects.require(id)?);
    }
    let mut walk = LenientWalk::new(request_objects);
    let mut tips = Vec::new();
    for id in from {
        if matches!(walk.kind(request_objects.require(id)?)?, Kind::Commit | Kind::Tag) {
            tips.push(*id);
        }
    }
    walk.reach(tips, &stopped, &seen, &names)?;
    Ok(seen.members().map(|ix| (request_objects.id(ix), names.get(ix))).collect())
}

/// Plans a pack of exactly these objects, to store: all delta bases are in the pack, and what a walk needs is
/// adjacent.
pub(crate) fn to_store(
    request_objects: &Arc<RequestObjects>,
    wanted: Marks,
    names: Names,
    settings: Settings,
    ofs_delta: bool,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    let had = Marks::new(request_objects.packed_end());
    let found = MarkedObjects { wanted, had, bases: Vec::new(), is_by_bitmap: false };
    stored(request_objects, found, names, settings, ofs_delta, progress)
}

/// The same for objects that were found already; with bases, the pack is thin.
fn stored(
    request_objects: &Arc<RequestObjects>,
    found: MarkedObjects,
    names: Names,
    settings: Settings,
    ofs_delta: bool,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    let settings = Settings { reused_depth: settings.depth, ..settings };
    let thin = !found.bases.is_empty();
    let request = PackRequest { ofs_delta, thin, settings, ..PackRequest::default() };
    Ok(lay_out(request_objects, &request, found, names, progress)?.to_stay())
}

/// Finds the objects that are wanted and not had: by a walk if the client lacks little, otherwise by bitmaps
/// if there are any. Without a limit, bitmaps are asked first.
fn find(
    request_objects: &RequestObjects,
    may_use_bitmap: bool,
    walk_limit: Option<usize>,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    progress: &dyn ProgressSink,
) -> Result<MarkedObjects, Error> {
    if may_use_bitmap {
        let walk_limit = walk_limit.filter(|_| !tips.had_commits.is_empty());
        if let Some(limit) = walk_limit
            && let Some(found) = by_walk::find(request_objects, commits, trees, tips, limit)?
        {
            return Ok(found);
        }
        // Opened as late as here, because opening costs more than a small fetch.
        let bitmap = request_objects.snapshot().bitmap();
        let has_names = bitmap.is_some_and(|bitmap| bitmap.has_name_hashes());
        if walk_limit.is_some_and(|limit| limit < WALK_RATHER_THAN_BITMAP)
            && !has_names
            && let Some(found) =
                by_walk::find(request_objects, commits, trees, tips, WALK_RATHER_THAN_BITMAP)?
        {
            return Ok(found);
        }
        if let Some(bitmap) = bitmap
            && let Some(found) = by_bitmap::find(request_objects, bitmap, commits, trees, tips, progress)?
        {
            return Ok(found);
        }
    }
    let found = by_walk::find(request_objects, commits, trees, tips, usize::MAX)?;
    Ok(found.expect("no limit was set"))
}

/// Adds annotated tags whose peeled object is sent, including nested tags.
fn add_tags(
    request_objects: &RequestObjects,
    commits: &mut Commits<'_>,
    found: &MarkedObjects,
    tags: &[(ObjectId, ObjectId)],
) -> Result<(), Error> {
    // If little is sent, compare ids: looking up every tag and its target would open all packs.
    let sent = found.wanted.members().take(tags.len() + 1);
    let sent: HashSet<ObjectId> = sent.map(|ix| request_objects.id(ix)).collect();
    for (tag, target) in tags {
        if sent.len() <= tags.len() && !sent.contains(target) {
            continue;
        }
        let (Some(tag), Some(target)) = (request_objects.find(tag)?, request_objects.find(target)?) else {
            continue;
        };
        if !found.wanted.contains(target) {
            continue;
        }
        for tag in commits.peel(tag)?.tags {
            if !found.had.contains(tag) {
                found.wanted.insert(tag);
            }
        }
    }
    Ok(())
}

/// Removes objects from the pack and returns those that were in it. They are no delta bases either: the
/// client may not have them when it reads the pack.
fn exclude(
    request_objects: &RequestObjects,
    found: &MarkedObjects,
    ids: &[ObjectId],
) -> Result<Vec<ObjectId>, Error> {
    let left_out = Marks::new(request_objects.packed_end());
    let mut excluded = Vec::new();
    for id in ids {
        let Some(ix) = request_objects.find(id)? else { continue };
        if found.wanted.contains(ix) && left_out.insert(ix) {
            excluded.push(*id);
        }
    }
    found.wanted.subtract(&left_out);
    Ok(excluded)
}
