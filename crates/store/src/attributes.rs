//! Attributes of paths, as far as packing asks for them (gitattributes, "Packing objects"): whether `delta` is unset.
//!
//! As with git's pack-objects, the files of a work tree do not count, but those of a tree that is named
//! (`attr.tree`, `GIT_ATTR_SOURCE`), between those of the system and the user and that of the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_attributes::Search;
use gix_attributes::search::{MetadataCollection, Outcome};
use gix_glob::pattern::Case;
use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, ObjectId};
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::snapshot::Snapshot;

/// Longer files are passed over (gitattributes, as git does).
const MAX_BYTES: u64 = 100 << 20;

/// Directories of a tree that are looked into.
const MAX_DIRECTORIES: usize = 1 << 20;

/// What the paths of files in a tree begin with, so that they are below something.
const ROOT: &str = "/";

/// The attribute that is asked for.
const DELTA: &str = "delta";

/// Where attributes come from, the less important first.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSources {
    /// Of the system and of the user.
    pub(crate) outside: Vec<PathBuf>,
    /// A commit or tree with files of attributes.
    pub(crate) tree: Option<ObjectId>,
    /// Of the repository.
    pub(crate) info: PathBuf,
    /// Whether paths are compared without case (`core.ignoreCase`).
    pub(crate) folds_case: bool,
}

/// Says of paths whether their attribute `delta` is unset.
pub struct DeltaAttribute {
    search: Search,
    outcome: Outcome,
    case: Case,
}

impl DeltaAttribute {
    /// Reads all sources; `None` where none says anything about the attribute.
    pub(crate) fn read(sources: &AttributeSources, snapshot: &Arc<Snapshot>) -> Result<Option<Self>, Error> {
        let (mut search, mut collection) = (Search::default(), MetadataCollection::default());
        let mut add = |bytes: &[u8], path: PathBuf, root: Option<&Path>, has_macros: bool| {
            search
                .add_patterns_buffer(bytes, path.clone(), root, &mut collection, has_macros)
                .map_err(|error| Error::io(path, error))
        };
        for path in &sources.outside {
            if let Some(bytes) = read_file(path)? {
                add(&bytes, path.clone(), None, true)?;
            }
        }
        if let Some(tree) = &sources.tree {
            // As with git, one that is none counts as empty.
            let files = files_of_tree(snapshot, *tree).unwrap_or_else(|error| {
                tracing::warn!("attributes of {tree}: {error}");
                Vec::new()
            });
            for FileOfTree { directory, content } in files {
                let is_root = directory.is_empty();
                let path = Path::new(ROOT).join(as_path(&directory)).join(".gitattributes");
                add(&content, path, Some(Path::new(ROOT)), is_root)?;
            }
        }
        if let Some(bytes) = read_file(&sources.info)? {
            add(&bytes, sources.info.clone(), None, true)?;
        }
        if !collection.iter().any(|(name, _)| name == DELTA) {
            return Ok(None);
        }
        let mut outcome = Outcome::default();
        outcome.initialize_with_selection(&collection, [DELTA]);
        let case = if sources.folds_case { Case::Fold } else { Case::Sensitive };
        Ok(Some(DeltaAttribute { search, outcome, case }))
    }

    /// Whether the file of this path is not to be stored as a delta.
    pub fn is_unset(&mut self, path: &[u8]) -> bool {
        self.outcome.reset();
        self.search.pattern_matching_relative_path(path.into(), self.case, Some(false), &mut self.outcome);
        let mut found = self.outcome.iter_selected();
        found.any(|found| found.assignment.name.as_str() == DELTA && found.assignment.state.is_unset())
    }
}

fn as_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match packrace_os::read_file(path, Role::Config, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if packrace_os::is_absent(&error) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            tracing::warn!("unable to access '{}': {error}", path.display());
            Ok(None)
        }
        Err(error) => Err(Error::io(path, error)),
    }
}

/// A `.gitattributes` in a tree.
struct FileOfTree {
    /// The path of its directory, with a slash behind it; empty for the root.
    directory: Vec<u8>,
    content: Vec<u8>,
}

/// Every `.gitattributes` of a tree, outer ones first.
fn files_of_tree(snapshot: &Arc<Snapshot>, id: ObjectId) -> Result<Vec<FileOfTree>, Error> {
    let hash = snapshot.hash_kind();
    let mut reader = snapshot.reader(1 << 20).with_max_object_bytes(MAX_BYTES);
    let mut root = reader.read(&id)?;
    if root.kind == Kind::Commit {
        let commit = packrace_object::parse_commit(&root.data, hash);
        let commit = commit.map_err(|error| Reason::Damaged(format!("object {id} is malformed: {error}")))?;
        root = reader.read(&commit.tree)?;
    }
    let mut files = Vec::new();
    let mut open = std::collections::VecDeque::from([(Vec::new(), root.data)]);
    for _ in 0..MAX_DIRECTORIES {
        let Some((directory, content)) = open.pop_front() else { break };
        for entry in Entries::new(&content, hash) {
            let entry =
                entry.map_err(|error| Reason::Damaged(format!("tree in {id} is malformed: {error}")))?;
            match entry.kind() {
                EntryKind::Tree => {
                    let path = [&directory[..], entry.name, b"/"].concat();
                    open.push_back((path, reader.read(entry.id)?.data));
                }
                EntryKind::Blob if entry.name == b".gitattributes" => {
                    let content = reader.read(entry.id)?.data;
                    files.push(FileOfTree { directory: directory.clone(), content });
                }
                _ => {}
            }
        }
    }
    Ok(files)
}
