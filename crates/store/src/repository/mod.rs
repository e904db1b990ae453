//! Finding and opening a repository.

pub(crate) mod cached;
pub(crate) mod discovery;
mod extensions;
pub(crate) mod graph_files;
pub(crate) mod hooks;
mod ownership;
mod replacements;
pub(crate) mod roots;
mod served;
pub(crate) mod skipped_refs;
pub(crate) mod work_trees;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;

pub(crate) use self::extensions::{RepositoryFormat, including};
use crate::config::{Config, ConfigSources, Served};
use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use crate::objects::objects_dir;
use crate::objects::pack_dir::PackDirs;
use crate::objects::promisors::{FetchMissing, Promisors};
use crate::objects::snapshot::Snapshot;
use crate::objects::sources::{AttributeSources, Sources};
use crate::refs::{RefStorage, RefStore, SHORT_NAME_RULES};
use work_trees::WorkTreePlace;

/// Longest `shallow` file: one id per line.
const MAX_SHALLOW_BYTES: u64 = 64 << 20;

/// How to open a repository. Plain data; nothing is read from the environment.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Only the path itself, without `.git` added (`--strict`).
    pub strict: bool,
    /// Refuse a repository of another owner unless `safe.directory` allows it; git's daemon and
    /// http-backend do.
    pub check_ownership: bool,
    /// The search that found it, if it was not named.
    pub search: Option<RepositorySearch>,
    /// The user who became root (`SUDO_UID`): files of this user count as ours.
    pub sudo_user: Option<u32>,
    /// Treat every repository as another owner's (`GIT_TEST_ASSUME_DIFFERENT_OWNER`).
    pub assume_other_owner: bool,
    /// The served directory that contains it: some repositories there must not be opened, and their own
    /// configuration is restricted.
    pub served: Option<Arc<Served>>,
    /// Configuration outside the repository.
    pub config: ConfigSources,
    /// `GIT_OBJECT_DIRECTORY`.
    pub object_dir: Option<PathBuf>,
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`, split.
    pub alternates: Vec<PathBuf>,
    /// `GIT_COMMON_DIR`.
    pub common_dir: Option<PathBuf>,
    /// `GIT_SHALLOW_FILE`; an empty path means that nothing is shallow.
    pub shallow_file: Option<PathBuf>,
    /// `GIT_INDEX_FILE`.
    pub index_file: Option<PathBuf>,
    /// `GIT_INDEX_VERSION`.
    pub index_version: Option<String>,
    /// Where the caller says that the work tree is.
    pub work_tree: WorkTreePlace,
    /// `GIT_REFERENCE_BACKEND`, which goes before the configuration.
    pub ref_storage: Option<RefStorage>,
    /// Whether broken refs keep nothing alive and are left out of lists (`GIT_REF_PARANOIA=0`).
    pub skips_broken_refs: bool,
    /// Fetches missing objects from promisor remotes when they are read; `None` if they stay missing.
    pub fetcher: Option<Arc<dyn FetchMissing>>,
    /// The beginning of the names of refs to objects that are read in place of others, usually `refs/replace/`
    /// (`GIT_REPLACE_REF_BASE`); `None` if none are. Only for what shows and names history: never for what stores or sends
    /// objects, or decides which are kept.
    pub replace_refs: Option<Vec<u8>>,
}

/// A search for a repository, from a directory upwards.
#[derive(Debug, Clone)]
pub struct RepositorySearch {
    /// Where it began, without links.
    pub start: PathBuf,
    /// The work tree whose `.git` was found, without links; `None` at a git directory.
    pub work_tree: Option<PathBuf>,
}

/// Where the attribute files of a work tree are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeSource {
    /// From its files, and from the index.
    WorkTree,
    /// From the tree that `GIT_ATTR_SOURCE` or `attr.tree` names, or that a named tag or commit leads to. A setting may
    /// name none; then there are no attribute files.
    Tree(Option<ObjectId>),
}

/// Attribute files outside of work trees.
#[derive(Debug, Clone)]
pub struct AttributeFiles {
    /// The files of the system and the user, in ascending priority.
    pub outside: Vec<PathBuf>,
    /// The file of the repository, which has the highest priority.
    pub info: PathBuf,
}

/// An opened repository: its paths and configuration. Cheap to share; its contents are accessed through
/// [`Repository::snapshot`].
#[derive(Debug)]
pub struct Repository {
    git_dir: PathBuf,
    common_dir: PathBuf,
    object_dir: PathBuf,
    alternates: Vec<PathBuf>,
    shallow_file: PathBuf,
    index_file: PathBuf,
    index_version: Option<String>,
    work_tree: WorkTreePlace,
    config: Config,
    /// The sources of configuration outside the repository.
    outside: ConfigSources,
    /// The tree that [`Repository::set_attribute_tree`] got.
    attribute_tree: Option<ObjectId>,
    hash: HashKind,
    refs: RefStore,
    skips_broken_refs: bool,
    fetcher: Option<Arc<dyn FetchMissing>>,
    replace_refs: Option<Vec<u8>>,
    /// The first snapshot of [`Repository::cached_snapshot`].
    mapped: Mutex<Option<Snapshot>>,
    /// Packs that snapshots have opened.
    known_packs: PackDirs,
}

impl Repository {
    /// Opens the repository at `path`: a bare one, a work tree, or a gitfile.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        Repository::open_seen(path, options, &mut FileDependencies::default())
    }

    /// As above; adds every file that this depends on to `seen`, except objects (see
    /// [`Repository::see_objects`]).
    pub(crate) fn open_seen(
        path: &Path,
        options: &OpenOptions,
        seen: &mut FileDependencies,
    ) -> Result<Self, Error> {
        let found = discovery::enter(path, options.strict, seen)?;
        let common_dir = match &options.common_dir {
            Some(common_dir) => common_dir.clone(),
            None => discovery::common_dir_of(&found.git_dir)?,
        };
        let outside = &options.config;
        let mut config = Config::around(outside, including(&found.git_dir))?;
        outside.system.iter().chain(&outside.global).for_each(|path| seen.file(path));
        if options.check_ownership {
            let user = packrace_os::process::effective_user();
            ownership::check(&found, user, &config, options, seen)?;
        }
        if let Some(served) = &options.served {
            served::check(&found, &common_dir, served, path == served.root, seen)?;
        }
        let git_dir = found.git_dir;
        let mut work_tree = options.work_tree.clone();
        if work_tree.default.is_none() {
            work_tree.default = found.gitfile.and_then(|path| path.parent().map(Path::to_owned));
        }
        match &options.served {
            Some(served) => config.add_confined(served, &common_dir, including(&git_dir), seen)?,
            None => config.add_local(&common_dir, including(&git_dir))?,
        }
        seen.file(&common_dir.join("config"));
        seen.file(&git_dir.join("config.worktree"));
        config.included().for_each(|path| seen.file_if_known(path.as_deref()));
        let format = RepositoryFormat::of(&config)?;
        let object_dir = options.object_dir.clone().unwrap_or_else(|| common_dir.join("objects"));
        let storage = options.ref_storage.as_ref().unwrap_or(&format.refs);
        if options.served.is_some() && storage.place.is_some() {
            return Err(Reason::Refused("has its refs in another place".to_owned()).into());
        }
        let refs = RefStore::open_stored(git_dir.clone(), common_dir.clone(), storage, format.hash);
        let shallow_file = options.shallow_file.clone().unwrap_or_else(|| common_dir.join("shallow"));
        let mut repository = Repository {
            index_file: git_dir.join("index"),
            index_version: options.index_version.clone(),
            work_tree,
            git_dir,
            common_dir,
            object_dir,
            alternates: options.alternates.clone(),
            shallow_file,
            config,
            outside: options.config.clone(),
            attribute_tree: None,
            hash: format.hash,
            refs,
            skips_broken_refs: options.skips_broken_refs,
            fetcher: options.fetcher.clone(),
            replace_refs: options.replace_refs.clone(),
            mapped: Mutex::default(),
            known_packs: PackDirs::default(),
        };
        if let Some(index_file) = &options.index_file {
            // A path in the environment is relative to the top of the work tree, where git runs.
            let top = repository.work_tree()?.unwrap_or_default();
            repository.index_file = top.join(index_file);
        }
        Ok(repository)
    }

    /// The directory of this work tree, or of the bare repository.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory that all work trees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Whether broken refs, and refs to missing objects, are skipped.
    pub fn skips_broken_refs(&self) -> bool {
        self.skips_broken_refs
    }

    /// The index of the work tree.
    pub fn index_file(&self) -> &Path {
        &self.index_file
    }

    /// The version of a new index, unchecked.
    pub fn index_version(&self) -> Option<&str> {
        self.index_version.as_deref()
    }

    /// The directory of new objects: loose ones, and packs below `pack`.
    pub fn object_dir(&self) -> &Path {
        &self.object_dir
    }

    /// The object directory at `wanted`, which must be the repository's own or an alternate.
    pub fn known_object_dir(&self, wanted: &Path) -> Result<PathBuf, Error> {
        let dirs = objects_dir::open(&self.object_dir, &self.alternates, self.hash);
        Ok(dirs[objects_dir::position(&dirs, wanted)?].path().to_owned())
    }

    /// The same repository with other object directories: new objects go to `object_dir`; `alternates` are
    /// searched too.
    pub(crate) fn with_objects(&self, object_dir: PathBuf, alternates: Vec<PathBuf>) -> Self {
        Repository {
            git_dir: self.git_dir.clone(),
            common_dir: self.common_dir.clone(),
            object_dir,
            alternates,
            shallow_file: self.shallow_file.clone(),
            index_file: self.index_file.clone(),
            index_version: self.index_version.clone(),
            work_tree: self.work_tree.clone(),
            config: self.config.clone(),
            outside: self.outside.clone(),
            attribute_tree: self.attribute_tree,
            hash: self.hash,
            refs: self.refs.clone(),
            skips_broken_refs: self.skips_broken_refs,
            // They are fetched into the repository itself.
            fetcher: None,
            replace_refs: None,
            mapped: Mutex::default(),
            known_packs: self.known_packs.clone(),
        }
    }

    /// Every alternate object directory, in search order.
    pub fn borrowed_object_dirs(&self) -> Vec<PathBuf> {
        let dirs = objects_dir::open(&self.object_dir, &self.alternates, self.hash);
        dirs.iter().skip(1).map(|dir| dir.path().to_owned()).collect()
    }

    /// Alternates beyond those in the repository's own file.
    pub(crate) fn alternates(&self) -> &[PathBuf] {
        &self.alternates
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Refuses settings that git refuses in every command, also where they do not matter.
    pub fn check_settings(&self) -> Result<(), Error> {
        self.config.check_usual()
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// Makes messages about refs and settings call the directory of the repository `shown`, which is otherwise its path.
    pub fn show_as(&mut self, shown: PathBuf) {
        self.config.show_as(self.common_dir().to_owned(), shown.clone());
        self.refs.show_as(shown);
    }

    /// The refs.
    pub fn refs(&self) -> &RefStore {
        &self.refs
    }

    /// Whether `git-daemon-export-ok` exists.
    pub fn is_export_ok(&self) -> bool {
        packrace_os::identity(&self.git_dir.join("git-daemon-export-ok"), Role::Config)
            .is_ok_and(|file| file.is_some())
    }

    /// Whether `info/grafts` gives commits other parents.
    pub fn has_grafts(&self) -> bool {
        let grafts = self.common_dir.join("info/grafts");
        packrace_os::identity(&grafts, Role::Config)
            .is_ok_and(|file| file.is_some_and(|file| file.length > 0))
    }

    /// The current objects.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let snapshot = self.unlisted_snapshot()?;
        snapshot.list_packs()?;
        Ok(snapshot)
    }

    /// As above, but packs are listed only when the first object is requested.
    pub fn unlisted_snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let shallow = self.read_shallow().map_err(Arc::new);
        let is_whole = shallow.as_ref().is_ok_and(Vec::is_empty) && !self.has_grafts();
        let use_commit_graph = is_whole && self.config.boolean("core.commitGraph")?.unwrap_or(true);
        let use_multi_pack_index = self.config.boolean("core.multiPackIndex")?.unwrap_or(true);
        let use_bitmap = self.config.boolean("pack.useBitmaps")?.unwrap_or(true) && is_whole;
        let sources = Sources {
            hash: self.hash,
            objects: self.object_dir.clone(),
            extra_objects: self.alternates.clone(),
            shallow,
            use_commit_graph,
            use_multi_pack_index,
            use_bitmap,
            promisors: match &self.fetcher {
                Some(fetcher) => Promisors::of(&self.config, &self.git_dir, || self.work_tree(), fetcher)?,
                None => None,
            },
            replacements: self.replacements()?,
        };
        Snapshot::take(sources, self.attribute_sources()?, &self.known_packs).map(Arc::new)
    }

    /// The objects: packs, bitmaps and commit-graph as of the first request for an object, loose objects as
    /// of now. Objects packed since are still found, as from any [`Snapshot`]. For callers that bound the age
    /// of this repository: see [`CachedRepository`](crate::CachedRepository).
    pub fn cached_snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let attributes = self.attribute_sources()?;
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match &mut *mapped {
            Some(first) => first,
            none => {
                let first = self.unlisted_snapshot()?.with_loose_anew(attributes.clone());
                none.insert(first)
            }
        };
        Ok(Arc::new(first.with_loose_anew(attributes)))
    }

    /// How many packs are open for [`Repository::cached_snapshot`]; 0 while it is being made.
    pub fn cached_packs(&self) -> usize {
        let mapped = self.mapped.try_lock().ok();
        mapped.and_then(|mapped| mapped.as_ref().map(Snapshot::listed_packs)).unwrap_or(0)
    }

    /// Reuses the open packs of `before`, an earlier opening of the same repository, if they are unchanged.
    pub fn take_over_packs(&self, before: &Repository) {
        self.known_packs.take_over(&before.known_packs);
    }

    /// Releases packs of earlier snapshots whose directories have changed.
    pub fn forget_changed_packs(&self) {
        self.known_packs.forget_changed();
    }

    /// Releases the packs of a removed object directory.
    pub(crate) fn forget_packs(&self, objects: &Path) {
        self.known_packs.forget(objects);
    }

    /// Whether the cached snapshot has damaged maps, or lacks a pack that was unusable.
    pub(crate) fn is_doubtful(&self) -> bool {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.as_ref().is_some_and(Snapshot::is_doubtful)
    }

    /// Adds to `seen` the files that packs, bitmaps and the commit-graph depend on.
    pub(crate) fn see_objects(&self, seen: &mut FileDependencies) {
        objects_dir::open_seen(&self.object_dir, &self.alternates, self.hash, seen);
        seen.file(&self.common_dir.join("info/grafts"));
        if !self.shallow_file.as_os_str().is_empty() {
            seen.file(&self.shallow_file);
        }
    }

    /// The attribute files outside of work trees.
    pub fn attribute_files(&self) -> AttributeFiles {
        let user = self.file_from_top("core.attributesFile").or_else(|| self.outside.user_attributes.clone());
        AttributeFiles {
            outside: self.outside.system_attributes.clone().into_iter().chain(user).collect(),
            info: self.common_dir.join("info/attributes"),
        }
    }

    /// The ignore files outside of work trees, in ascending priority.
    pub fn exclude_files(&self) -> Vec<PathBuf> {
        let user = self.file_from_top("core.excludesFile").or_else(|| self.outside.user_excludes.clone());
        user.into_iter().chain([self.common_dir.join("info/exclude")]).collect()
    }

    /// The file that a setting names. Git takes a relative name from where it is: the top of the work tree.
    fn file_from_top(&self, key: &str) -> Option<PathBuf> {
        let path = self.config.path(key).filter(|path| !path.as_os_str().is_empty())?;
        match self.work_tree() {
            Ok(Some(top)) if path.is_relative() => Some(top.join(path)),
            _ => Some(path),
        }
    }

    /// Refuses a tree of attributes that the environment names and that does not exist, and variables about attributes that
    /// make no sense. For what looks attributes up: as in git, they do no harm elsewhere.
    pub fn check_attributes(&self) -> Result<(), Error> {
        match self.outside.attribute_tree.is_some() || self.outside.attributes_refused.is_some() {
            true => self.attribute_sources()?.check(),
            false => Ok(()),
        }
    }

    /// Where the attribute files of a work tree are.
    pub fn attribute_source(&self) -> Result<AttributeSource, Error> {
        self.check_attributes()?;
        Ok(match self.attribute_tree_name() {
            Some(_) => AttributeSource::Tree(self.attribute_tree()?),
            None => AttributeSource::WorkTree,
        })
    }

    /// How the tree of attribute files is named, if that is neither a ref nor a full name: look it up, and tell
    /// [`Repository::set_attribute_tree`].
    pub fn unknown_attribute_tree(&self) -> Option<Vec<u8>> {
        self.attribute_tree_name().filter(|_| matches!(self.attribute_tree(), Ok(None)))
    }

    /// Takes attribute files from this tree, or the tree of this tag or commit.
    pub fn set_attribute_tree(&mut self, id: ObjectId) {
        self.attribute_tree = Some(id);
    }

    /// From the environment, or else the configuration.
    fn attribute_tree_name(&self) -> Option<Vec<u8>> {
        let named = self.outside.attribute_tree.clone().map(String::into_bytes);
        named.or_else(|| self.config.string("attr.tree"))
    }

    fn attribute_sources(&self) -> Result<AttributeSources, Error> {
        let AttributeFiles { outside, info } = self.attribute_files();
        let tree = self.attribute_tree()?;
        Ok(AttributeSources {
            outside,
            lacks_tree: tree.is_none() && self.outside.attribute_tree.is_some(),
            refused: self.outside.attributes_refused.clone(),
            tree,
            info,
            folds_case: self.config.boolean("core.ignoreCase")?.unwrap_or(false),
        })
    }

    /// The tree of attribute files, if it is known.
    fn attribute_tree(&self) -> Result<Option<ObjectId>, Error> {
        let Some(name) = self.attribute_tree_name().filter(|_| self.attribute_tree.is_none()) else {
            return Ok(self.attribute_tree);
        };
        if let Some(id) = ObjectId::from_hex(&name).ok().filter(|id| id.kind() == self.hash) {
            return Ok(Some(id));
        }
        let refs = self.refs.snapshot(&[]).map_err(Reason::Refs)?;
        for (before, after) in SHORT_NAME_RULES {
            if let Some(found) = refs.resolve(&[before, &name, after].concat()).map_err(Reason::Refs)? {
                return Ok(Some(found.id));
            }
        }
        Ok(None)
    }

    fn read_shallow(&self) -> Result<Vec<ObjectId>, Error> {
        let path = &self.shallow_file;
        if path.as_os_str().is_empty() {
            return Ok(Vec::new());
        }
        let text = match packrace_os::read_file(path, Role::Config, MAX_SHALLOW_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(path, error)),
        };
        // As git, it reads no further than the name, and wants one in each line.
        let ids = text.split_inclusive(|byte| *byte == b'\n').map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let id = line.get(..self.hash.len_in_hex()).and_then(|hex| ObjectId::from_hex(hex).ok());
            id.ok_or_else(|| {
                Reason::Damaged(format!("bad shallow line: {}", String::from_utf8_lossy(line))).into()
            })
        });
        let mut ids = ids.collect::<Result<Vec<_>, Error>>()?;
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}
