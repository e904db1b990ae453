//! Refs: the files and reftable backends behind one interface.
//!
//! [`RefStore::snapshot`] returns an immutable [`RefSnapshot`] for the requested prefixes. Visitors borrow
//! names, so that a million packed refs cost no allocation each.

mod broken;
mod files;
mod migrate;
mod packed_file;
mod reflog;
mod reftable;
mod stamp;
mod storage;
#[cfg(test)]
mod tests;
mod traced;
mod transaction;
mod verify;
mod work_trees;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::error::refs::RefError;
use broken::is_sound;
use files::warn_of_broken;
pub use migrate::Migration;
pub use packrace_format::NameRange;
pub use packrace_format::packed_refs::Peeled;
use packrace_object::{HashKind, ObjectId, StoredId};
pub use reflog::{LogEntry, LoggedChange};
pub use stamp::RefStamp;
pub use storage::{Backend, RefStorage};
pub use transaction::{
    Cause, Expected, LogEdit, LogPolicy, PackRefs, PrepareError, Prepared, RefChange, RefEdit, RefObjects,
    RefWrites, Refusal, StoredObjects, TableWrites, TagEnd, TransactionMode, Update, WrittenTransaction,
};

use traced::TracedVisit;
pub use verify::{CheckedRefs, Problem};
pub(crate) use work_trees::is_per_worktree;
use work_trees::{Holder, PER_WORKTREE, Place, RefDirs};
pub use work_trees::{name_in_work_tree, names_work_tree};

/// `HEAD` where no ref is: it shows that this is a repository to versions of git that look for refs there, and they read none
/// (technical/reftable, "Layout").
pub const STUB_HEAD: &[u8] = b"ref: refs/heads/.invalid\n";
/// The same in place of `refs/heads`.
pub const STUB_HEADS: &[u8] = b"this repository uses the reftable format\n";

/// Most refs read to resolve a symbolic one, as in git: the last must not be symbolic.
const MAX_SYMREF_DEPTH: usize = 5;

/// Longest chain of symbolic links, from `packed-refs` or a ref.
const MAX_LINKS: usize = 10;

/// The refs of a repository.
#[derive(Debug, Clone)]
pub struct RefStore {
    dirs: RefDirs,
    backend: Backend,
    hash: HashKind,
    /// If they are not in the directory of the repository.
    elsewhere: Option<Elsewhere>,
}

/// A ref, with ids as values or ([`StoredRef`]) as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefRecord<'a, Id = ObjectId> {
    /// The full name.
    pub name: &'a [u8],
    /// The value.
    pub target: Target<'a, Id>,
}

/// A ref as it is stored.
pub type StoredRef<'a> = RefRecord<'a, StoredId<'a>>;

/// The value of a ref, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An object.
    Id(ObjectId),
    /// Another ref.
    Symbolic(Vec<u8>),
}

/// The value of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a, Id = ObjectId> {
    /// An object.
    Direct {
        /// The object.
        id: Id,
        /// The object that the tag finally points to, as far as known without reading objects.
        peeled: Peeled<Id>,
    },
    /// Another ref.
    Symbolic(&'a [u8]),
}

/// A repository whose refs are in another directory.
#[derive(Debug, Clone)]
struct Elsewhere {
    /// The directory of the repository.
    repository: PathBuf,
    /// What the configuration calls the other one.
    place: Vec<u8>,
}

impl Elsewhere {
    /// Whether this is the directory of the repository, and not of a linked work tree.
    fn is_in(&self, git_dir: &Path) -> bool {
        let real = |path: &Path| packrace_os::real_path(path).ok();
        // Paths differ if one of them goes through a link.
        self.repository == git_dir || real(git_dir).is_some_and(|dir| Some(dir) == real(&self.repository))
    }
}

impl Target<'_> {
    /// The object that it points at directly.
    pub fn id(&self) -> Option<ObjectId> {
        match self {
            Target::Direct { id, .. } => Some(*id),
            Target::Symbolic(_) => None,
        }
    }
}

impl<'a> Target<'a, StoredId<'_>> {
    /// Converts stored ids to plain ones.
    fn to_ids(self) -> Target<'a> {
        match self {
            Target::Direct { id, peeled } => Target::Direct { id: id.to_id(), peeled: peeled.to_id() },
            Target::Symbolic(target) => Target::Symbolic(target),
        }
    }
}

/// The end of a chain of symbolic refs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The last ref.
    pub name: Vec<u8>,
    /// The object that it points at.
    pub id: ObjectId,
}

impl RefStore {
    /// The refs in these directories, which are equal unless `git_dir` belongs to a linked work tree.
    pub fn open(git_dir: PathBuf, common_dir: PathBuf, backend: Backend, hash: HashKind) -> Self {
        RefStore { dirs: RefDirs::of(git_dir, common_dir), backend, hash, elsewhere: None }
    }

    /// As above, where the configuration says that refs are.
    pub(crate) fn open_stored(
        git_dir: PathBuf,
        common_dir: PathBuf,
        storage: &RefStorage,
        hash: HashKind,
    ) -> Self {
        let Some(place) = &storage.place else {
            return RefStore::open(git_dir, common_dir, storage.backend, hash);
        };
        let dir = common_dir.join(OsStr::from_bytes(place));
        let elsewhere = Some(Elsewhere { repository: common_dir, place: place.clone() });
        let main = RefStore::open(dir.clone(), dir, storage.backend, hash);
        RefStore { elsewhere, ..main }.of_work_tree(git_dir)
    }

    /// The refs as seen from another work tree of the repository.
    pub fn of_work_tree(&self, git_dir: PathBuf) -> Self {
        let common_dir = self.dirs.common_dir.clone();
        let git_dir = match &self.elsewhere {
            None => git_dir,
            Some(elsewhere) if elsewhere.is_in(&git_dir) => common_dir.clone(),
            Some(_) => common_dir.join("worktrees").join(git_dir.file_name().unwrap_or_default()),
        };
        RefStore { dirs: RefDirs { git_dir, common_dir, shown: self.dirs.shown.clone() }, ..self.clone() }
    }

    /// The directory of the repository.
    fn repository(&self) -> &Path {
        self.elsewhere.as_ref().map_or(&self.dirs.common_dir, |elsewhere| &elsewhere.repository)
    }

    /// How the configuration names this storage, with another backend.
    fn storage(&self, backend: Backend) -> RefStorage {
        RefStorage { backend, place: self.elsewhere.as_ref().map(|elsewhere| elsewhere.place.clone()) }
    }

    /// The directory of refs that work trees share: that of the repository, or another one.
    pub fn dir(&self) -> &Path {
        &self.dirs.common_dir
    }

    /// The directory of the reflogs that are files and belong to this work tree, or to all of them.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dirs.git_dir.join("logs")
    }

    /// Adds every object that reflogs in reftables name; the caller handles reflogs in files.
    pub(crate) fn logged(&self, ids: &mut Vec<ObjectId>) -> Result<(), RefError> {
        match self.backend {
            Backend::Files => Ok(()),
            Backend::Reftable => reftable::Stacks::read(&self.dirs, self.hash)?.logged(ids),
        }
    }

    /// The sorted names of this work tree's refs outside `refs/`: `HEAD`, other names in capitals that end in
    /// `_HEAD`, and some that do not (gitglossary, "pseudoref").
    pub fn root_refs(&self) -> Result<Vec<Vec<u8>>, RefError> {
        let mut names = match self.backend {
            Backend::Files => files::root_names(&self.dirs)?,
            Backend::Reftable => reftable::Stacks::read(&self.dirs, self.hash)?.root_names()?,
        };
        names.retain(|name| is_root_name(name));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The current value of a ref; reads no other ref.
    pub fn read(&self, name: &[u8]) -> Result<Option<Value>, RefError> {
        match self.backend {
            Backend::Files if !is_good_name(name) => Ok(None),
            Backend::Files => files::read_one(&self.dirs, name, self.hash),
            Backend::Reftable if LISTS.contains(&self.dirs.place(name).name) => {
                files::read_one(&self.dirs, name, self.hash)
            }
            Backend::Reftable => {
                let (stack, stored) = self.stack_of(name)?;
                let found = stack.find(stored)?.map(|target| match target {
                    Target::Direct { id, .. } => Value::Id(id),
                    Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
                });
                traced::looked_up(name, found.as_ref(), false);
                Ok(found)
            }
        }
    }

    /// Whether there is a ref of this name, good or bad; one that cannot be parsed is an error.
    pub fn exists(&self, name: &[u8]) -> Result<bool, RefError> {
        if self.backend == Backend::Reftable || !is_safe_name(name) {
            return Ok(self.read(name)?.is_some());
        }
        let failed = |why: &str| Err(RefError::Write(format!("failed to look up reference: {why}")));
        match files::read_loose(&self.dirs, name, self.hash)? {
            files::LooseFile::Broken => failed("Invalid argument"),
            files::LooseFile::Looped => failed("Too many levels of symbolic links"),
            loose => Ok(files::read_beside(&self.dirs, name, self.hash, loose)?.is_some()),
        }
    }

    /// Whether there is a file of this ref that cannot be parsed.
    pub fn is_broken(&self, name: &[u8]) -> Result<bool, RefError> {
        let is_file = self.backend == Backend::Files && is_safe_name(name);
        Ok(is_file && files::read_loose(&self.dirs, name, self.hash)? == files::LooseFile::Broken)
    }

    /// How refs are stored.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The names of refs that have reflogs, sorted.
    pub fn logged_names(&self) -> Result<Vec<Vec<u8>>, RefError> {
        match self.backend {
            Backend::Files => files::logged_names(&self.dirs),
            Backend::Reftable => reftable::Stacks::read(&self.dirs, self.hash)?.logged_names(),
        }
    }

    /// The reflog of a ref, oldest first; `None` if it has none.
    pub fn log(&self, name: &[u8]) -> Result<Option<Vec<LoggedChange>>, RefError> {
        let log = match self.backend {
            Backend::Files => files::read_log(&self.dirs, name, self.hash),
            Backend::Reftable => {
                let (stack, name) = self.stack_of(name)?;
                stack.log(name)
            }
        }?;
        if traced::is_on() {
            log.iter().for_each(|entries| traced::log_read(name, entries));
        }
        Ok(log)
    }

    /// The stack of a ref, and the ref's name there.
    fn stack_of<'a>(&self, name: &'a [u8]) -> Result<(reftable::Stack, &'a [u8]), RefError> {
        let place = self.dirs.place(name);
        Ok((reftable::Stack::read(&self.dirs.dir(place.holder), self.hash)?, place.name))
    }

    /// Follows symbolic refs from `name` to an object, reading one ref at a time; `None` as for
    /// [`RefSnapshot::resolve`].
    pub fn resolve(&self, name: &[u8]) -> Result<Option<Resolved>, RefError> {
        let mut name = name.to_vec();
        for _ in 0..MAX_SYMREF_DEPTH {
            match self.read(&name)? {
                None => return Ok(None),
                Some(Value::Id(id)) => return Ok(Some(Resolved { name, id })),
                Some(Value::Symbolic(target)) => name = target,
            }
        }
        Ok(None)
    }

    /// The ref of a name that none may have; a trace is told that there is none.
    pub fn not_looked_up(&self, name: &[u8]) -> Option<Resolved> {
        traced::looked_up(name, None, false);
        None
    }

    /// As [`Self::snapshot`], for lists: broken refs are reported, here and by each visit.
    pub fn reporting_snapshot(&self, prefixes: &[&[u8]]) -> Result<RefSnapshot, RefError> {
        Ok(self.snapshot(prefixes)?.reporting(prefixes))
    }

    /// The current refs: `HEAD`, and all whose names start with one of `prefixes` (none: all).
    pub fn snapshot(&self, prefixes: &[&[u8]]) -> Result<RefSnapshot, RefError> {
        let inner = match self.backend {
            Backend::Files => {
                let mut nobody = stamp::StampBuilder::off();
                files::RefFiles::read(&self.dirs, prefixes, self.hash, &mut nobody).map(Inner::Files)
            }
            Backend::Reftable => reftable::Stacks::read(&self.dirs, self.hash).map(Inner::Reftable),
        };
        Ok(RefSnapshot { inner: Arc::new(inner?), reports: false })
    }

    /// As [`Self::reporting_snapshot`], with a stamp that detects changes.
    pub fn stamped_snapshot(&self, prefixes: &[&[u8]]) -> Result<(RefSnapshot, RefStamp), RefError> {
        let mut builder = stamp::StampBuilder::at(&self.dirs);
        let inner = match self.backend {
            Backend::Files => {
                let files = files::RefFiles::read(&self.dirs, prefixes, self.hash, &mut builder)?;
                files.warn_of_broken(&[]);
                builder.file(stamp::StampDir::Common, b"packed-refs", files.packed_identity());
                Inner::Files(files)
            }
            Backend::Reftable => {
                builder.look(stamp::StampDir::Common, stamp::TABLES_LIST);
                if self.dirs.git_dir != self.dirs.common_dir {
                    builder.look(stamp::StampDir::Own, stamp::TABLES_LIST);
                }
                Inner::Reftable(reftable::Stacks::read(&self.dirs, self.hash)?)
            }
        };
        Ok((RefSnapshot { inner: Arc::new(inner), reports: true }, builder.stamp()))
    }
}

/// Refs at one moment. Clones share the data. In the files backend, visits or lookups outside the requested
/// prefixes find only packed refs.
#[derive(Debug, Clone)]
pub struct RefSnapshot {
    inner: Arc<Inner>,
    /// Whether refs that git refuses are reported when they are skipped.
    reports: bool,
}

#[derive(Debug)]
enum Inner {
    Files(files::RefFiles),
    Reftable(reftable::Stacks),
}

impl RefSnapshot {
    /// The same, where broken refs whose names start with one of `prefixes` (none: all) are reported: those in files now, others by
    /// each visit.
    pub fn reporting(self, prefixes: &[&[u8]]) -> Self {
        if let Inner::Files(files) = &*self.inner {
            files.warn_of_broken(prefixes);
        }
        RefSnapshot { reports: true, ..self }
    }

    /// The value of the ref of this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, RefError> {
        let found = match &*self.inner {
            Inner::Files(files) => files.find(name),
            Inner::Reftable(stacks) => stacks.find(name),
        };
        let has_value = |target: &Target<'_>| target.id().is_none_or(|id| !id.is_null());
        let found = found?.filter(|target| has_value(target) && is_good_name(name));
        traced::looked_up_in_list(name, found.as_ref());
        Ok(found)
    }

    /// Whether the value of a ref that was found comes from `packed-refs`.
    pub fn is_packed(&self, name: &[u8]) -> bool {
        match &*self.inner {
            Inner::Files(files) => name.starts_with(b"refs/") && !files.is_loose(name),
            Inner::Reftable(_) => false,
        }
    }

    /// Follows symbolic refs from `name` to an object; `None` if the chain dangles or is longer
    /// than git allows.
    pub fn resolve(&self, name: &[u8]) -> Result<Option<Resolved>, RefError> {
        let mut name = name.to_vec();
        for _ in 0..MAX_SYMREF_DEPTH {
            let target = match self.find(&name)? {
                None => return Ok(None),
                Some(Target::Direct { id, .. }) => return Ok(Some(Resolved { name, id })),
                Some(Target::Symbolic(target)) => target.to_vec(),
            };
            name = target;
        }
        Ok(None)
    }

    /// An error if a file of refs is damaged or was changed in place: refs may be missing from earlier
    /// results. One system call per file; loose refs were read whole.
    pub fn check_unchanged(&self) -> Result<(), RefError> {
        match &*self.inner {
            Inner::Files(files) => files.check_unchanged(),
            Inner::Reftable(stacks) => stacks.check_unchanged(),
        }
    }

    /// Whether a symbolic ref has led to another work tree whose changes a stamp does not show.
    pub fn has_unstamped(&self) -> bool {
        match &*self.inner {
            Inner::Files(_) => false,
            Inner::Reftable(stacks) => stacks.has_read_linked(),
        }
    }

    /// Calls `each` with every ref below `refs/` whose name starts with `prefix`, in order, until it breaks.
    /// Refs whose names or values git refuses are skipped.
    pub fn visit(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        self.visit_range(&NameRange::of_prefix(prefix), |StoredRef { name, target }| {
            each(RefRecord { name, target: target.to_ids() })
        })
    }

    /// As `visit`, for a range of names, with ids as stored.
    pub fn visit_range(
        &self,
        range: &NameRange,
        each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        self.visit_kept(range, is_sound, each)
    }

    fn visit_kept(
        &self,
        range: &NameRange,
        is_kept: impl Fn(&StoredRef<'_>) -> bool,
        mut each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let traced = TracedVisit::begin(&range.start, self.reports);
        let mut is_whole = true;
        let visited = self.visit_stored(range, |record| {
            if is_kept(&record) {
                traced.met(record.name);
                let flow = each(record);
                is_whole = flow.is_continue();
                return flow;
            }
            if self.reports {
                warn_of_broken(record.name);
            }
            ControlFlow::Continue(())
        });
        traced.end(is_whole);
        visited
    }

    fn visit_stored(
        &self,
        range: &NameRange,
        each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        // `HEAD` and other pseudo-refs are not visited.
        let Some(range) = range.within(&NameRange::of_prefix(b"refs/")) else { return Ok(()) };
        match &*self.inner {
            Inner::Files(files) => files.visit(&range, each),
            Inner::Reftable(stacks) => stacks.visit(&range, each),
        }
    }
}

/// Files that begin with an object's name, with all backends, but are lists, not refs (gitglossary, "pseudoref").
const LISTS: [&[u8]; 2] = [b"FETCH_HEAD", b"MERGE_HEAD"];

/// Whether a name outside `refs/` is that of a ref, by git's rules.
pub fn is_root_name(name: &[u8]) -> bool {
    let irregular: [&[u8]; 6] = [
        b"HEAD",
        b"AUTO_MERGE",
        b"BISECT_EXPECTED_REV",
        b"NOTES_MERGE_PARTIAL",
        b"NOTES_MERGE_REF",
        b"MERGE_AUTOSTASH",
    ];
    let is_word = name.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'));
    !LISTS.contains(&name) && (irregular.contains(&name) || (is_word && name.ends_with(b"_HEAD")))
}

/// Prefixes and suffixes that a short ref name may omit, in lookup order (gitrevisions, `<refname>`).
pub const SHORT_NAME_RULES: [(&[u8], &[u8]); 6] = [
    (b"", b""),
    (b"refs/", b""),
    (b"refs/tags/", b""),
    (b"refs/heads/", b""),
    (b"refs/remotes/", b""),
    (b"refs/remotes/", b"/HEAD"),
];

/// Whether git accepts the name (git-check-ref-format). Valid names never escape the directory of refs.
#[inline]
pub fn is_good_name(name: &[u8]) -> bool {
    is_plain_name(name) || is_odd_good_name(name)
}

#[cold]
fn is_odd_good_name(name: &[u8]) -> bool {
    gix_validate::reference::name(name.into()).is_ok()
}

/// Whether a ref may have this name: below `refs/`, in capitals beside `HEAD`, or a work tree's and told so.
/// Stock git creates refs of any other name too, even where it keeps other files.
pub fn is_ref_name(name: &[u8]) -> bool {
    is_good_name(name) && (name.starts_with(b"refs/") || is_safe_name(name) || names_work_tree(name))
}

/// Whether the name, valid or not, stays inside the directory of refs, so that such a ref may be removed.
pub fn is_safe_name(name: &[u8]) -> bool {
    match name.strip_prefix(b"refs/") {
        Some(rest) => !rest.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")),
        None => !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_'),
    }
}

/// Whether the name is below `refs/` and consists of words of harmless characters, with dots only before
/// digits. This holds for most names and takes a fraction of the time of the full check.
#[inline]
fn is_plain_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"refs/") else { return false };
    let (mut before, mut found) = (CLASSES[usize::from(b'/')], 0);
    // Branch-free per byte: this runs for every ref of every listing.
    for byte in rest {
        let class = CLASSES[usize::from(*byte)];
        found |= (class & NOT_PLAIN) | (before & (class >> 4));
        before = class;
    }
    found == 0 && before & AFTER_EDGE == 0
}

/// A byte that needs the full check.
const NOT_PLAIN: u8 = 1;
/// After this byte, no byte may follow that is invalid at the edge of a word.
const AFTER_EDGE: u8 = 2;
/// After this byte, only a digit may follow.
const AFTER_DOT: u8 = 4;

/// The class of a byte; four bits higher, the bytes after which it must not follow.
const CLASSES: [u8; 256] = {
    let mut classes = [NOT_PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => 0,
            b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => AFTER_DOT << 4,
            b'/' => AFTER_EDGE | (AFTER_EDGE | AFTER_DOT) << 4,
            b'.' => AFTER_EDGE | AFTER_DOT | (AFTER_EDGE | AFTER_DOT) << 4,
            _ => NOT_PLAIN,
        };
        byte += 1;
    }
    classes
};
