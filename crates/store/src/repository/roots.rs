//! All roots that keep objects of a repository alive: refs, reflogs and indexes, of all work trees.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use packrace_format::index_file::IndexFile;
use packrace_object::{ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::{EntryType, trace};

use crate::error::{Error, Reason};
use crate::refs::{
    self, Peeled, RefError, RefObjects as _, RefRecord, RefSnapshot, RefStore, StoredObjects, TagEnd, Target,
};
use crate::repository::Repository;
use crate::repository::skipped_refs::SkippedRefs;
use crate::repository::work_trees::{self, list};

/// Longest reflog or index that is read.
const MAX_BYTES: u64 = 4 << 30;

/// What git says of a shared index that its index needs.
const NO_SHARED_INDEX: &str = "index file open failed: No such file or directory";

/// The starting points of reachability walks.
#[derive(Debug, Default)]
pub struct Roots {
    /// Targets of refs; they must exist.
    pub refs: Vec<ObjectId>,
    /// Objects in reflogs; they may be missing.
    pub logged: Vec<ObjectId>,
    /// Objects in indexes; they may be missing too.
    pub indexed: Vec<ObjectId>,
}

impl Roots {
    /// All objects that may be missing.
    pub fn soft(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.logged.iter().chain(&self.indexed).copied()
    }
}

/// Which roots are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootKinds {
    /// [`Roots::refs`].
    pub refs: bool,
    /// [`Roots::logged`].
    pub logged: bool,
    /// [`Roots::indexed`].
    pub indexed: bool,
}

impl RootKinds {
    /// Whatever keeps objects alive.
    pub const ALL: Self = RootKinds { refs: true, logged: true, indexed: true };
    /// Those of refs.
    pub const REFS: Self = RootKinds { refs: true, logged: false, indexed: false };
}

/// Calls a function with every ref below a prefix.
type Visit =
    fn(&RefSnapshot, &[u8], &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>) -> Result<(), refs::RefError>;

/// Finds roots of a repository; files of other kinds are not read. Unreadable files and broken refs are an error, because the
/// result may decide deletions, unless the user wants them skipped.
pub fn roots(repository: &Repository, kinds: RootKinds) -> Result<Roots, Error> {
    let visit: Visit = match repository.skips_broken_refs() {
        true => RefSnapshot::visit,
        false => RefSnapshot::visit_strictly,
    };
    let mut roots = Roots::default();
    if kinds.refs {
        roots.refs = tips_by(repository, visit)?;
    }
    for dir in work_trees::git_dirs(repository)? {
        if kinds.logged {
            let store = repository.refs().of_work_tree(dir.clone());
            store.logged(&mut roots.logged).map_err(Reason::Refs)?;
            add_reflog_files(&store.log_dir(), repository, &mut roots.logged)?;
        }
        if kinds.indexed {
            add_index(&dir.join("index"), repository, &mut roots.indexed)?;
        }
    }
    for ids in [&mut roots.refs, &mut roots.logged, &mut roots.indexed] {
        let mut seen = HashSet::new();
        ids.retain(|id| !id.is_null() && seen.insert(*id));
    }
    Ok(roots)
}

/// The targets of all refs of all work trees, without broken ones.
pub fn ref_tips(repository: &Repository) -> Result<Vec<ObjectId>, Error> {
    tips_by(repository, RefSnapshot::visit)
}

/// The first ref to an object that is missing. Each ref costs a lookup.
fn broken_ref(repository: &Repository) -> Result<Option<String>, Error> {
    ref_that(repository, RefSnapshot::visit, |objects, id, _| Ok(objects.kind(id)?.is_none()))
}

/// The first ref to an object that is missing, or to a tag of one. Each tag that no file of refs has peeled is read.
pub fn broken_ref_or_tag(repository: &Repository) -> Result<Option<String>, Error> {
    ref_that(repository, RefSnapshot::visit, |objects, id, peeled| {
        Ok(match peeled {
            Peeled::To(target) => objects.kind(target)?.is_none(),
            _ => matches!(objects.end_of(id)?, TagEnd::Missing(_) | TagEnd::Unreadable),
        })
    })
}

/// The first ref to an object of which `is_it` says so; with a strict visit, a broken ref counts, too.
fn ref_that(
    repository: &Repository,
    visit: Visit,
    mut is_it: impl FnMut(&mut StoredObjects, &oid, &Peeled) -> Result<bool, Error>,
) -> Result<Option<String>, Error> {
    let refs = repository.refs().snapshot(&[]).map_err(Reason::Refs)?;
    let mut objects = StoredObjects::new(&repository.snapshot()?);
    let mut result = Ok(None);
    let visited = visit(&refs, b"refs/", &mut |record| {
        let Target::Direct { id, peeled } = record.target else { return ControlFlow::Continue(()) };
        result = match is_it(&mut objects, &id, &peeled) {
            Ok(false) => return ControlFlow::Continue(()),
            Ok(true) => Ok(Some(String::from_utf8_lossy(record.name).into_owned())),
            Err(error) => Err(error),
        };
        ControlFlow::Break(())
    });
    match visited {
        Err(RefError::Bad(name)) => return Ok(Some(name)),
        visited => visited.map_err(Reason::Refs)?,
    }
    result
}

/// Fails in git's words if a ref or a `HEAD` is broken or leads to a missing object, or an index cannot be read: then nobody
/// knows what is reachable.
pub fn check_roots(repository: &Repository) -> Result<(), Error> {
    let is_missing = |objects: &mut StoredObjects, id: &oid| Ok::<_, Error>(objects.kind(id)?.is_none());
    let unreadable = |name: &str| Err(Reason::Damaged(format!("unable to parse object: {name}")).into());
    // As in git, indexes come first.
    roots(repository, RootKinds { refs: false, logged: false, indexed: true })?;
    let broken = ref_that(repository, RefSnapshot::visit_strictly, |objects, id, _| is_missing(objects, id))?;
    if let Some(name) = broken {
        return unreadable(&name);
    }
    let mut objects = StoredObjects::new(&repository.snapshot()?);
    for dir in work_trees::git_dirs(repository)? {
        let head = repository.refs().of_work_tree(dir).resolve(b"HEAD").map_err(Reason::Refs)?;
        if let Some(head) = head
            && is_missing(&mut objects, &head.id)?
        {
            return unreadable("HEAD");
        }
    }
    Ok(())
}

/// An error that names the first ref, or a HEAD that points to no branch, whose object is missing: for a walk that failed.
pub fn check_ref_objects(repository: &Repository) -> Result<(), Error> {
    if let Some(name) = broken_ref(repository)? {
        return Err(Reason::Refs(RefError::Bad(name)).into());
    }
    let refs = repository.refs().snapshot(&[]).map_err(Reason::Refs)?;
    let head = refs.resolve(b"HEAD").map_err(Reason::Refs)?;
    let mut objects = StoredObjects::new(&repository.snapshot()?);
    match head.map(|head| objects.kind(&head.id)).transpose()? {
        Some(None) => Err(Reason::Refs(RefError::Bad("HEAD".to_owned())).into()),
        Some(Some(_)) | None => Ok(()),
    }
}

fn tips_by(repository: &Repository, visit: Visit) -> Result<Vec<ObjectId>, Error> {
    let mut tips = Vec::new();
    for dir in work_trees::git_dirs(repository)? {
        add_refs(repository, &repository.refs().of_work_tree(dir), visit, &mut tips)?;
    }
    Ok(tips)
}

fn add_refs(
    repository: &Repository,
    store: &RefStore,
    visit: Visit,
    ids: &mut Vec<ObjectId>,
) -> Result<(), Error> {
    let snapshot = store.snapshot(&[]).map_err(Reason::Refs)?;
    ids.extend(snapshot.resolve(b"HEAD").map_err(Reason::Refs)?.map(|head| head.id));
    let mut skipped = SkippedRefs::of(repository)?;
    let mut result = Ok(());
    let visited = visit(&snapshot, b"refs/", &mut |record| {
        let Target::Direct { id, .. } = record.target else { return ControlFlow::Continue(()) };
        match skipped.has(record.name, &id) {
            Ok(true) => {}
            Ok(false) => ids.push(id),
            Err(error) => {
                result = Err(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    visited.map_err(Reason::Refs)?;
    result
}

/// Adds both ids of every line of every file below `dir`: `<old> <new> <who> <when>\t<why>`.
fn add_reflog_files(dir: &Path, repository: &Repository, ids: &mut Vec<ObjectId>) -> Result<(), Error> {
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for (name, kind) in list(&dir)? {
            let path = dir.join(name);
            if kind == EntryType::Dir {
                open.push(path);
                continue;
            }
            let Some(text) = read(&path)? else { continue };
            let hex = repository.hash_kind().len_in_hex();
            for line in text.split(|byte| *byte == b'\n') {
                let old = line.get(..hex);
                let new = line.get(hex + 1..2 * hex + 1);
                ids.extend([old, new].into_iter().flatten().filter_map(|id| ObjectId::from_hex(id).ok()));
            }
        }
    }
    Ok(())
}

fn add_index(path: &Path, repository: &Repository, ids: &mut Vec<ObjectId>) -> Result<(), Error> {
    let mut next = Some(path.to_owned());
    let mut label = "do_read_index";
    while let Some(path) = next.take() {
        let _region = trace::region_with("index", label, &path);
        label = "shared/do_read_index";
        let bytes = match read(&path)? {
            Some(bytes) => bytes,
            None if path.ends_with("index") => break,
            None => return Err(Error::io(path, std::io::Error::other(NO_SHARED_INDEX))),
        };
        let found = IndexFile::decode(&bytes, repository.hash_kind())
            .map_err(|source| Reason::Index { path: path.clone(), source })?;
        ids.extend(found.named_objects());
        // A shared index links to no other.
        let link = found.link.filter(|_| path.file_name().is_some_and(|name| name == "index"));
        next = link.map(|link| path.with_file_name(format!("sharedindex.{}", link.shared)));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match packrace_os::read_file(path, Role::Refs, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if packrace_os::is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}
