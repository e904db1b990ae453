//! An immutable view of everything a repository stores, held for a whole response.

mod damage;
mod fetch;
mod replace;

pub use damage::check_unchanged;

use std::hash::{Hash as _, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use packrace_format::commit_graph::CommitGraph;
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, clock, is_empty_file};

use crate::error::Error;
use crate::objects::accelerators;
use crate::objects::bitmap_file::{BitmapFile, OpenBitmap};
use crate::objects::multi_pack_index::{OpenMultiPackIndex, OwnMultiPackIndex};
use crate::objects::numbers::{Location, ObjectIx, PackIx};
use crate::objects::objects_dir::MIDX_CHAIN_DIR;
use crate::objects::objects_dir::{self, ObjectsDir};
use crate::objects::pack::Pack;
use crate::objects::pack_dir::PackDirs as KnownPacks;
use crate::objects::pack_set::{PackSet, Unit, UnitIndex};
use crate::objects::sources::{AttributeSources, Sources};

/// An immutable view of the packs, the alternates and the shallow boundary of a repository.
///
/// Packs are listed when the first object is requested. An index is mapped on its first search, its pack when
/// an object is first found in it; both stay mapped for the life of the snapshot, so a concurrent repack
/// removes nothing. Loose objects are listed on first use and read on demand. Objects that a repack has moved
/// meanwhile, loose ones and those of unmapped packs, are found through `Snapshot::later`.
#[derive(Debug)]
pub struct Snapshot {
    shared: Arc<SharedView>,
    pub(super) attributes: AttributeSources,
    dirs: Vec<ObjectsDir>,
    later: Mutex<Option<Arc<Snapshot>>>,
    /// The number of vanished indexes for which later packs were already searched.
    lost_indexes_seen: AtomicUsize,
}

/// The immutable part, shared by successive snapshots.
#[derive(Debug)]
struct SharedView {
    sources: Sources,
    packs: OnceLock<Result<PackSet, Unlisted>>,
    known_packs: KnownPacks,
    commit_graph_files: Option<Vec<Mapped>>,
    commit_graph: OnceLock<Option<CommitGraph<Mapped>>>,
    bitmap: OnceLock<Option<OpenBitmap>>,
    /// The state of the pack directories just before they were listed.
    pack_dirs: PackDirs,
    /// Whether every pack added since then changes them visibly.
    are_pack_dirs_settled: bool,
}

/// How often packs are listed again because earlier ones vanished.
const MAX_LOOKS: usize = 5;

/// Why packs could not be listed. Without them, no object can be declared missing.
#[derive(Debug)]
struct Unlisted {
    kind: ErrorKind,
    text: String,
}

/// An empty set in place of packs that could not be listed.
static NO_PACKS: LazyLock<PackSet> = LazyLock::new(PackSet::default);

/// The identity of each pack directory; it changes when a file is added or removed.
type PackDirs = Vec<Option<FileIdentity>>;

impl Snapshot {
    /// Takes a snapshot. `known` holds pack directories read before; those read now are added.
    pub(crate) fn take(
        sources: Sources,
        attributes: AttributeSources,
        known: &KnownPacks,
    ) -> Result<Self, Error> {
        let dirs = objects_dir::open(&sources.objects, &sources.extra_objects, sources.hash);
        let looked = clock::time_of_day();
        let pack_dirs = look_at_pack_dirs(&dirs)?;
        let are_pack_dirs_settled = pack_dirs.iter().flatten().all(|dir| dir.is_settled(looked));
        let commit_graph_files = match sources.use_commit_graph {
            true => accelerators::commit_graph_files(&dirs, sources.hash),
            false => None,
        };
        let shared = SharedView {
            sources,
            packs: OnceLock::new(),
            known_packs: known.clone(),
            commit_graph_files,
            commit_graph: OnceLock::new(),
            bitmap: OnceLock::new(),
            pack_dirs,
            are_pack_dirs_settled,
        };
        Ok(Snapshot::of(Arc::new(shared), attributes, dirs))
    }

    fn of(shared: Arc<SharedView>, attributes: AttributeSources, dirs: Vec<ObjectsDir>) -> Self {
        Snapshot { shared, attributes, dirs, later: Mutex::new(None), lost_indexes_seen: AtomicUsize::new(0) }
    }

    /// The same packs, with current loose objects.
    pub(crate) fn with_loose_anew(&self, attributes: AttributeSources) -> Self {
        let dirs = self.dirs.iter().map(ObjectsDir::anew).collect();
        Snapshot::of(self.shared.clone(), attributes, dirs)
    }

    /// A view of one pack; only these bytes need to exist.
    pub fn of_pack(data: Mapped, index: Mapped, hash: HashKind) -> Result<Self, Error> {
        let pack = Pack::from_maps(Path::new("pack"), data, index, hash)?;
        let sources = Sources {
            hash,
            objects: PathBuf::new(),
            extra_objects: Vec::new(),
            shallow: Ok(Vec::new()),
            use_commit_graph: false,
            use_multi_pack_index: false,
            use_bitmap: false,
            promisors: None,
            replacements: None,
        };
        let shared = SharedView {
            sources,
            packs: OnceLock::from(Ok(PackSet::of_pack(pack))),
            known_packs: KnownPacks::default(),
            commit_graph_files: None,
            commit_graph: OnceLock::new(),
            bitmap: OnceLock::new(),
            pack_dirs: Vec::new(),
            are_pack_dirs_settled: true,
        };
        Ok(Snapshot::of(Arc::new(shared), AttributeSources::default(), Vec::new()))
    }

    /// Lists the packs now, or returns why that failed.
    pub(crate) fn list_packs(&self) -> Result<(), Error> {
        match self.shared.packs.get_or_init(|| self.open_packs()) {
            Ok(_) => Ok(()),
            Err(Unlisted { kind, text }) => {
                Err(Error::io(self.own_pack_dir(), std::io::Error::new(*kind, text.clone())))
            }
        }
    }

    /// The packs; empty if they cannot be listed, which [`Snapshot::list_packs`] reports.
    #[inline]
    pub(crate) fn set(&self) -> &PackSet {
        match self.shared.packs.get_or_init(|| self.open_packs()) {
            Ok(set) => set,
            Err(_) => &NO_PACKS,
        }
    }

    fn open_packs(&self) -> Result<PackSet, Unlisted> {
        PackSet::open(&self.dirs, &self.shared.sources, &self.shared.known_packs).map_err(|error| {
            tracing::error!("{error}");
            Unlisted { kind: error.io_kind(), text: error.to_string() }
        })
    }

    /// How many packs are listed; 0 before the first object is requested.
    pub(crate) fn listed_packs(&self) -> usize {
        self.shared.packs.get().and_then(|set| set.as_ref().ok()).map_or(0, |set| set.packs.len())
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.shared.sources.hash
    }

    /// Upper bound of the numbers of packed objects. There may be fewer objects, see [`Unit::range`].
    pub fn numbers_end(&self) -> u32 {
        self.units().last().map_or(0, |unit| unit.range().end)
    }

    /// The number of packed objects; an object in two units counts twice. Opens all indexes.
    pub fn packed_len(&self) -> usize {
        self.units().iter().map(|unit| self.len_of(unit) as usize).sum()
    }

    fn len_of(&self, unit: &Unit) -> u32 {
        let numbers = unit.range();
        unit.single_pack().map_or(numbers.end - numbers.start, |pack| self.packs()[pack.0 as usize].len())
    }

    /// The numbers of all packed objects; an object in two units has two. Opens all indexes.
    pub fn packed(&self) -> impl Iterator<Item = ObjectIx> {
        self.units().iter().flat_map(|unit| {
            let start = unit.range().start;
            (start..start + self.len_of(unit)).map(ObjectIx)
        })
    }

    /// Hashes the identity of the repository: its object directory.
    pub fn hash_place(&self, hasher: &mut impl Hasher) {
        self.shared.sources.objects.hash(hasher);
    }

    /// Hashes everything that determines which objects are found here and how they are stored: the versions
    /// of packs and their indexes, the object directories, the shallow boundary, and the helper files in use.
    /// Excludes loose objects and the content of attribute files. Makes no system call once packs are listed.
    pub fn hash_version(&self, hasher: &mut impl Hasher) {
        let SharedView { sources, commit_graph_files, .. } = &*self.shared;
        let PackSet { packs, units, bitmap_files, .. } = self.set();
        let Sources { hash, objects, extra_objects, shallow, .. } = sources;
        let Sources { use_commit_graph, use_multi_pack_index, use_bitmap, .. } = sources;
        let attributes = &self.attributes;
        (hash, objects, extra_objects, shallow.as_ref().ok()).hash(hasher);
        (use_commit_graph, use_multi_pack_index, use_bitmap).hash(hasher);
        (&attributes.outside, &attributes.tree, &attributes.info, attributes.folds_case).hash(hasher);
        self.dirs.len().hash(hasher);
        self.dirs.iter().for_each(|dir| (dir.path(), dir.is_local).hash(hasher));
        packs.len().hash(hasher);
        packs.iter().for_each(|pack| pack.hash_version(hasher));
        units.len().hash(hasher);
        for unit in units {
            match &unit.index {
                UnitIndex::Pack(pack) => pack.hash(hasher),
                UnitIndex::Multi { index, packs, dir, .. } => {
                    let files: Vec<_> = index.layers().iter().map(|layer| layer.data().identity()).collect();
                    (files, packs, dir).hash(hasher);
                }
            }
        }
        let identities = |files: &[Mapped]| files.iter().map(Mapped::identity).collect::<Vec<_>>();
        commit_graph_files.as_deref().map(identities).hash(hasher);
        bitmap_files.len().hash(hasher);
        for file in bitmap_files {
            file.layers.len().hash(hasher);
            file.layers.iter().for_each(|(path, bytes)| (path, bytes.identity()).hash(hasher));
        }
    }

    /// The packs, in search order. A pack that is not open yet may turn out to be unusable.
    pub fn packs(&self) -> &[Pack] {
        &self.set().packs
    }

    /// The units, in search order.
    pub fn units(&self) -> &[Unit] {
        &self.set().units
    }

    /// The packs whose objects the bitmaps cover, the preferred one of a multi-pack-index first; empty if there are no
    /// bitmaps.
    pub fn bitmapped_packs(&self) -> impl Iterator<Item = PackIx> {
        // The index that bitmaps belong to comes first.
        let index = self.units().first().filter(|_| self.has_bitmap_files()).map(|unit| &unit.index);
        let (first, all): (Option<PackIx>, &[PackIx]) = match index {
            None => (None, &[]),
            Some(UnitIndex::Pack(pack)) => (Some(*pack), &[]),
            Some(UnitIndex::Multi { index, packs, .. }) => {
                let entry = index.position_at_bit(0).and_then(|position| index.pack_and_offset_at(position));
                (entry.map(|(preferred, _)| packs[preferred as usize]), packs)
            }
        };
        first.into_iter().chain(all.iter().copied().filter(move |pack| Some(*pack) != first))
    }

    /// The shallow boundary of this repository's own history. Its file may be damaged, which, as in git, only those learn who
    /// need it.
    pub fn shallow(&self) -> Result<&[ObjectId], Error> {
        let shallow = self.shared.sources.shallow.as_deref();
        shallow.map_err(|error| Error::caused(error.kind(), error.to_string(), error.clone()))
    }

    /// The commit-graph, if there is one that may be used: not if objects are replaced. Opened and checked on first use.
    pub fn commit_graph(&self) -> Option<&CommitGraph<Mapped>> {
        let files = self.shared.commit_graph_files.as_ref().filter(|_| !self.may_replace())?;
        self.shared
            .commit_graph
            .get_or_init(|| accelerators::open_commit_graph(files, self.shared.sources.hash))
            .as_ref()
    }

    /// Whether there are bitmap files. They are not opened yet: [`Snapshot::bitmap`] may find them damaged.
    pub fn has_bitmap_files(&self) -> bool {
        !self.set().bitmap_files.is_empty()
    }

    /// The first bitmap file that `open` accepts; evaluated once.
    pub(super) fn bitmap_or_open(
        &self,
        open: impl Fn(&BitmapFile) -> Option<OpenBitmap>,
    ) -> Option<&OpenBitmap> {
        self.shared.bitmap.get_or_init(|| self.set().bitmap_files.iter().find_map(open)).as_ref()
    }

    /// The first packed object of this name. Its pack exists: like git, this opens it if needed.
    #[inline]
    pub fn lookup(&self, id: &oid) -> Option<ObjectIx> {
        let set = self.set();
        match set.find(id) {
            Some(ix) if set.has_pack_of(ix) => Some(ix),
            Some(ix) => self.has_usable_copy(id).then_some(ix),
            None => {
                let lost = set.lost_indexes();
                if lost > self.lost_indexes_seen.load(Relaxed) {
                    self.look_for_lost(lost);
                }
                None
            }
        }
    }

    /// An index removed before it was searched: its objects were moved first, and `has_loose` finds them.
    #[cold]
    fn look_for_lost(&self, lost: usize) {
        match self.look_later(true) {
            Ok(_) => drop(self.lost_indexes_seen.fetch_max(lost, Relaxed)),
            // The next caller tries again.
            Err(error) => tracing::error!("{error}"),
        }
    }

    #[cold]
    fn has_usable_copy(&self, id: &oid) -> bool {
        let set = self.set();
        let is_found = set.copies(id).any(|copy| set.has_pack(copy.pack));
        // The objects of a removed pack were moved first: `has_loose` finds them once later packs are listed.
        if !is_found && let Err(error) = self.look_later(true) {
            tracing::error!("{error}");
        }
        is_found
    }

    /// Whether an object of this name exists, packed or found by [`Snapshot::has_loose`].
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.lookup(id).is_some() || self.has_loose(id)?)
    }

    /// The name of a packed object.
    #[inline]
    pub fn id(&self, ix: ObjectIx) -> &oid {
        self.set().id(ix)
    }

    /// The location of a packed object, in a usable pack if possible. If a damaged index has none, the offset
    /// is past the end of every pack.
    #[inline]
    pub fn locate(&self, ix: ObjectIx) -> Location {
        let set = self.set();
        let at = set.stored_at(ix);
        if set.are_all_open() || set.has_pack(at.pack) { at } else { self.locate_copy(ix).unwrap_or(at) }
    }

    #[cold]
    fn locate_copy(&self, ix: ObjectIx) -> Option<Location> {
        let set = self.set();
        set.copies(set.id(ix)).find(|copy| set.has_pack(copy.pack))
    }

    /// The number of the object whose entry starts at `offset` of a pack. If an earlier unit has the object
    /// too, its number there: every object has one number. If the pack's own index has a wrong name there, a
    /// multi-pack-index may have the right one.
    #[inline]
    pub fn ix_of_offset(&self, pack: PackIx, offset: u64) -> Option<ObjectIx> {
        let stored = &self.packs()[pack.0 as usize];
        let position = stored.reverse().index_position_at(stored.position_of_offset(offset)?);
        // In the first unit, no other number can take precedence.
        match self.units().first() {
            Some(unit) if unit.single_pack() == Some(pack) => Some(ObjectIx(position)),
            _ => {
                let found = self.lookup(stored.index().id_at(position));
                found.or_else(|| self.set().find_by_location(Location { pack, offset }))
            }
        }
    }

    /// Whether an object without a number exists: a loose one, here or in an alternate, or one that has been
    /// packed since. As in git, an empty file, which a power cut may leave, is none. Costs one directory listing
    /// per first byte and snapshot, and a look at the file.
    pub fn has_loose(&self, id: &oid) -> Result<bool, Error> {
        self.list_packs()?;
        let mut has_listed = false;
        for dir in &self.dirs {
            let lookup = dir.find_loose(id)?;
            if lookup.is_found {
                let path = dir.loose_path(id);
                if !is_empty_file(&path, Role::Objects).unwrap_or(false) {
                    return Ok(true);
                }
                say_empty(&path);
            }
            has_listed |= lookup.has_listed;
        }
        if is_built_in(id) {
            return Ok(true);
        }
        // An object that a repack removed before the listing is in a pack written before that.
        let later = if has_listed { self.later()? } else { self.lock_later().clone() };
        Ok(self.last_with(id, later)?.is_some())
    }

    /// Whether the object exists now, regardless of earlier listings of loose objects. For objects that a
    /// peer was just told exist here.
    pub fn has_now(&self, id: &oid) -> Result<bool, Error> {
        if self.contains(id)? {
            return Ok(true);
        }
        // A loose object packed meanwhile is found below.
        if self.open_loose(id)?.is_some() {
            return Ok(true);
        }
        let later = self.look_later(true)?;
        Ok(self.last_with(id, later)?.is_some())
    }

    /// Whether an alternate has a loose object of this name.
    pub(crate) fn alternate_has_loose(&self, id: &oid) -> Result<bool, Error> {
        for dir in &self.dirs[1..] {
            if dir.find_loose(id)?.is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The loose objects, here and in alternates, whose names begin with this byte.
    pub(crate) fn loose_of_byte(&self, first: u8) -> Result<Vec<ObjectId>, Error> {
        let mut ids = Vec::new();
        for dir in &self.dirs {
            ids.extend_from_slice(dir.listed(first)?.0);
        }
        Ok(ids)
    }

    /// The sorted loose objects of the repository itself, without alternates. Lists 256 directories, each
    /// once per snapshot.
    pub fn own_loose(&self) -> Result<Vec<ObjectId>, Error> {
        self.dirs[0].loose_ids()
    }

    /// The path of a loose object of the repository itself, whether it exists or not.
    pub fn own_loose_path(&self, id: &oid) -> PathBuf {
        self.dirs[0].loose_path(id)
    }

    /// When the file of a loose object of the repository itself was last changed.
    pub fn own_loose_modified(&self, id: &oid) -> Option<std::time::SystemTime> {
        let found = packrace_os::identity(&self.own_loose_path(id), Role::Objects);
        found.ok().flatten().and_then(|file| file.modified)
    }

    /// The names, without `.idx`, of the packs that the repository's own multi-pack-index covers, even if the
    /// configuration disables it; `None` if no readable one exists.
    pub fn own_multi_pack_index_names(&self) -> Option<Vec<String>> {
        let own = self.own_multi_pack_index()?;
        Some(own.chain.pack_stems().map(str::to_owned).collect())
    }

    /// The repository's own multi-pack-index or chain of them, even if the configuration disables it or packs are
    /// missing; `None` if no readable one exists.
    pub fn own_multi_pack_index(&self) -> Option<OwnMultiPackIndex> {
        let pack_dir = self.own_pack_dir();
        let opened = OpenMultiPackIndex::open(&pack_dir, self.shared.sources.hash, true)?;
        let is_chain = opened.is_chain();
        let dir = if is_chain { pack_dir.join(MIDX_CHAIN_DIR) } else { pack_dir };
        let chain = Arc::unwrap_or_clone(opened.index);
        Some(OwnMultiPackIndex { chain, is_chain, dir })
    }

    /// The directory of the repository's own packs.
    pub fn own_pack_dir(&self) -> PathBuf {
        self.dirs[0].pack_dir()
    }

    /// The directory of a pack's files.
    pub(crate) fn pack_dir_of(&self, pack: &Pack) -> PathBuf {
        self.dirs[pack.dir()].pack_dir()
    }

    /// A snapshot with later packs that have the object, if any.
    pub(crate) fn later_with(&self, id: &oid) -> Result<Option<Arc<Snapshot>>, Error> {
        let later = self.later()?;
        self.last_with(id, later)
    }

    /// `later`, or the first snapshot after it that has the object: later packs may vanish too.
    fn last_with(&self, id: &oid, mut later: Option<Arc<Snapshot>>) -> Result<Option<Arc<Snapshot>>, Error> {
        for _ in 0..MAX_LOOKS {
            let Some(found) = later else { return Ok(None) };
            if found.lookup(id).is_some() {
                return Ok(Some(found));
            }
            // It has looked for later packs only if some of its own were gone or damaged.
            let after = found.lock_later().clone();
            later = after.filter(|after| after.shared.pack_dirs != found.shared.pack_dirs);
            if later.is_some() {
                self.lock_later().clone_from(&later);
            }
        }
        let error = std::io::Error::other("packs keep changing while they are searched");
        Err(Error::io(self.own_pack_dir(), error))
    }

    /// A snapshot with the packs added after this one, if any. For objects that were loose then.
    fn later(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        self.look_later(false)
    }

    /// As above; `in_doubt` also looks if packs may have followed others so quickly that the directory
    /// does not show it.
    fn look_later(&self, in_doubt: bool) -> Result<Option<Arc<Snapshot>>, Error> {
        let mut later = self.lock_later();
        let known = &later.as_ref().map_or(&self.shared, |later| &later.shared);
        let is_in_doubt = in_doubt && !known.are_pack_dirs_settled;
        if is_in_doubt || look_at_pack_dirs(&self.dirs)? != known.pack_dirs {
            // It gets names of objects that are replaced already, and of delta bases, which never are.
            let (use_commit_graph, use_bitmap, replacements) = (false, false, None);
            let sources =
                Sources { use_commit_graph, use_bitmap, replacements, ..self.shared.sources.clone() };
            *later = {
                let later = Snapshot::take(sources, self.attributes.clone(), &self.shared.known_packs)?;
                later.list_packs()?;
                Some(Arc::new(later))
            };
        }
        Ok(later.clone())
    }

    fn lock_later(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The paths at which a loose object of this name may be, in git's search order.
    pub(crate) fn loose_paths(&self, id: &oid) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|dir| dir.loose_path(id))
    }

    /// The object directories, in git's search order.
    pub(crate) fn object_dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.path())
    }

    /// The first file of a loose object that exists and is not empty.
    pub(crate) fn open_loose(&self, id: &oid) -> Result<Option<Mapped>, Error> {
        self.list_packs()?;
        for path in self.loose_paths(id) {
            match Mapped::open(&path, Role::Objects) {
                Ok(file) if file.is_empty() => say_empty(&path),
                Ok(file) => return Ok(Some(file)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        Ok(None)
    }

    /// All locations of a packed object of this name.
    pub(crate) fn copies(&self, id: &oid) -> impl Iterator<Item = Location> {
        self.set().copies(id)
    }
}

fn say_empty(path: &Path) {
    tracing::error!("object file {} is empty", path.display());
}

fn look_at_pack_dirs(dirs: &[ObjectsDir]) -> Result<PackDirs, Error> {
    let look = |dir: &ObjectsDir| {
        let path = dir.pack_dir();
        match packrace_os::identity(&path, Role::Pack) {
            Ok(found) => Ok(found),
            // Listing it has already reported this error.
            Err(_) if !dir.is_local => Ok(None),
            Err(error) => Err(Error::io(path, error)),
        }
    };
    dirs.iter().map(look).collect()
}

/// Whether git knows the object without storing it: the empty tree, which any commit may reference.
pub(crate) fn is_built_in(id: &oid) -> bool {
    *id == *id.kind().empty_tree()
}
