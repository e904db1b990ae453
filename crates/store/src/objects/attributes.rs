//! Attributes of paths, as far as packing needs them (gitattributes, "Packing objects"): whether
//! `delta` is unset.
//!
//! Files of a work tree and of an index do not count: git reads them only for commands that run inside a work
//! tree, not for a bare repository and not when it serves one. Files of a named tree (`attr.tree`,
//! `GIT_ATTR_SOURCE`) do count, between those of system and user and those of the repository. Only
//! directories on the requested paths are read: a tree can hold far more directories than objects.

use crate::objects::cache_bytes;
use std::collections::HashMap;
use std::io::ErrorKind::{FileTooLarge, InvalidData, IsADirectory, PermissionDenied};
use std::path::Path;
use std::sync::Arc;

use gix_attributes::Search;
use gix_attributes::search::{MetadataCollection, Outcome};
use gix_glob::pattern::Case;
use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{HashKind, Kind, MalformedObject, ObjectId};
use packrace_os::count::Role;

use crate::error::{Error, ErrorKind, Reason};
use crate::objects::reader::ObjectReader;
use crate::objects::snapshot::Snapshot;
use crate::objects::sources::AttributeSources;

/// Longer files are skipped, as in git.
const MAX_BYTES: u64 = 100 << 20;

/// Lines of this length or more are skipped, as in git.
const MAX_LINE_BYTES: usize = 2048;

/// Maximum bytes of the tree directories open at a time; deeper directories count as empty.
const MAX_OPEN_BYTES: usize = 128 << 20;

/// The attribute that is looked up.
const DELTA: &str = "delta";

impl Snapshot {
    /// A lookup of paths that must not be deltified, if any file sets the attribute.
    pub fn delta_attribute(self: &Arc<Self>) -> Result<Option<DeltaAttribute>, Error> {
        DeltaAttribute::read(&self.attributes, self)
    }
}

/// Tells for a path whether its attribute `delta` is unset.
pub struct DeltaAttribute {
    /// All attributes that any file names, and the expansions of macros.
    names: MetadataCollection,
    outside: Search,
    tree: Option<TreeFiles>,
    info: Search,
    outcome: Outcome,
    case: Case,
}

impl DeltaAttribute {
    /// Reads the sources that do not depend on a path; `None` if none mentions the attribute.
    fn read(sources: &AttributeSources, snapshot: &Arc<Snapshot>) -> Result<Option<Self>, Error> {
        sources.check()?;
        let mut names = MetadataCollection::default();
        let mut outside = Search::default();
        for path in &sources.outside {
            if let Some(bytes) = read_file(path, true)? {
                add(&mut outside, &bytes, path, &mut names, Macros::Defined)?;
            }
        }
        // As in git, an object that is not a tree counts as empty.
        let tree = match sources.tree.map(|id| TreeFiles::open(snapshot, id, &mut names)).transpose() {
            Ok(tree) => tree,
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        };
        let mut info = Search::default();
        if let Some(bytes) = read_file(&sources.info, false)? {
            add(&mut info, &bytes, &sources.info, &mut names, Macros::Defined)?;
        }
        if tree.is_none() && !names.iter().any(|(name, _)| name == DELTA) {
            return Ok(None);
        }
        let case = if sources.folds_case { Case::Fold } else { Case::Sensitive };
        let outcome = outcome(&names);
        Ok(Some(DeltaAttribute { names, outside, tree, info, outcome, case }))
    }

    /// Whether this path must not be stored as a delta. Fast when successive paths are in the same directory.
    pub fn is_unset(&mut self, path: &[u8]) -> bool {
        if let Some(tree) = &mut self.tree
            && tree.go_to(path, &mut self.names)
        {
            self.outcome = outcome(&self.names);
        }
        let (case, outcome) = (self.case, &mut self.outcome);
        outcome.reset();
        let mut look = |search: &Search, path: &[u8]| {
            if !outcome.is_done() {
                search.pattern_matching_relative_path(path.into(), case, Some(false), outcome);
            }
        };
        look(&self.info, path);
        for level in self.tree.iter().flat_map(|tree| tree.levels.iter().rev()) {
            look(&level.files, &path[level.path_bytes..]);
        }
        look(&self.outside, path);
        let mut found = outcome.iter_selected();
        found.any(|found| found.assignment.name.as_str() == DELTA && found.assignment.state.is_unset())
    }
}

fn outcome(names: &MetadataCollection) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.initialize_with_selection(names, [DELTA]);
    outcome
}

/// Whether a file may define macros (gitattributes, "Defining macro attributes"): only the top file of a tree
/// and files outside of trees may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Macros {
    Defined,
    PassedOver,
}

fn add(
    search: &mut Search,
    content: &[u8],
    source: &Path,
    names: &mut MetadataCollection,
    macros: Macros,
) -> Result<(), Error> {
    let mut kept = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if line.strip_suffix(b"\n").unwrap_or(line).len() < MAX_LINE_BYTES {
            kept.extend_from_slice(line);
        }
    }
    let added = search.add_patterns_buffer(&kept, source.into(), None, names, macros == Macros::Defined);
    added.map_err(|error| Error::io(source, error))
}

/// `anywhere` is for files of system and user; a path in a repository may be a link made by its owner.
fn read_file(path: &Path, anywhere: bool) -> Result<Option<Vec<u8>>, Error> {
    match packrace_os::read_regular_file(path, anywhere, Role::Config, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if packrace_os::is_absent(&error) || error.kind() == IsADirectory => Ok(None),
        Err(error) if matches!(error.kind(), PermissionDenied | FileTooLarge | InvalidData) => {
            tracing::warn!("unable to access '{}': {}", path.display(), packrace_os::reason(&error));
            Ok(None)
        }
        Err(error) => Err(Error::io(path, error)),
    }
}

/// The `.gitattributes` files of a tree, in the directories that lead to the last path.
struct TreeFiles {
    reader: ObjectReader,
    hash: HashKind,
    /// The directory of the last path. If it is not in the tree, it has more components than levels.
    directory: Vec<u8>,
    /// Levels, top of the tree first.
    levels: Vec<TreeLevel>,
}

/// A directory of the tree.
struct TreeLevel {
    /// The length of its path, with the trailing slash.
    path_bytes: usize,
    /// The bytes that it and the levels above were read from.
    bytes: usize,
    directories: HashMap<Vec<u8>, ObjectId>,
    files: Search,
}

impl TreeLevel {
    fn empty(path_bytes: usize, bytes: usize) -> Self {
        TreeLevel { path_bytes, bytes, directories: HashMap::new(), files: Search::default() }
    }
}

impl TreeFiles {
    fn open(snapshot: &Arc<Snapshot>, id: ObjectId, names: &mut MetadataCollection) -> Result<Self, Error> {
        let reader = snapshot.reader(cache_bytes::FEW_OBJECTS).with_max_object_bytes(MAX_BYTES);
        let hash = snapshot.hash_kind();
        let mut tree = TreeFiles { reader, hash, directory: Vec::new(), levels: Vec::new() };
        let mut next = id;
        let content = loop {
            let object = tree.reader.read(&next)?;
            next = match object.kind {
                Kind::Tree => break object.data,
                Kind::Commit => {
                    packrace_object::parse_commit(&object.data, hash).map_err(malformed(next))?.tree
                }
                Kind::Tag => packrace_object::parse_tag(&object.data, hash).map_err(malformed(next))?.target,
                Kind::Blob => return Err(Reason::Damaged(format!("{id} is not a tree")).into()),
            };
        };
        let top = tree.level(next, &content, TreeLevel::empty(0, 0), names, Macros::Defined)?;
        tree.levels.push(top);
        Ok(tree)
    }

    /// Moves to the directory of a file; true if `names` changed. Unreadable directories count as
    /// empty, as in git.
    fn go_to(&mut self, path: &[u8], names: &mut MetadataCollection) -> bool {
        let directory = &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
        if directory == self.directory {
            return false;
        }
        let shared = self.directory.iter().zip(directory).take_while(|(one, other)| one == other).count();
        self.levels.retain(|level| level.path_bytes <= shared);
        let mut is_changed = false;
        while let Some(level) = self.levels.last() {
            let rest = &directory[level.path_bytes..];
            let Some(slash) = rest.iter().position(|byte| *byte == b'/') else { break };
            let Some(id) = level.directories.get(&rest[..slash]).copied() else { break };
            let empty = TreeLevel::empty(level.path_bytes + slash + 1, level.bytes);
            let (path_bytes, bytes) = (empty.path_bytes, empty.bytes);
            let next = self.reader.read(&id);
            let next = next.and_then(|tree| self.level(id, &tree.data, empty, names, Macros::PassedOver));
            is_changed = true;
            self.levels.push(next.unwrap_or_else(|error| {
                tracing::warn!("attributes: {error}");
                TreeLevel::empty(path_bytes, bytes)
            }));
        }
        self.directory.clear();
        self.directory.extend_from_slice(directory);
        is_changed
    }

    /// Fills a level from a tree.
    fn level(
        &mut self,
        id: ObjectId,
        tree: &[u8],
        mut level: TreeLevel,
        names: &mut MetadataCollection,
        macros: Macros,
    ) -> Result<TreeLevel, Error> {
        take_room(&mut level.bytes, tree)?;
        for entry in Entries::new(tree, self.hash) {
            let entry = entry.map_err(malformed(id))?;
            match entry.kind() {
                EntryKind::Tree => {
                    level.directories.insert(entry.name.to_vec(), entry.id.to_owned());
                }
                EntryKind::Blob if entry.name == b".gitattributes" => {
                    let content = self.reader.read(entry.id)?.data;
                    take_room(&mut level.bytes, &content)?;
                    add(&mut level.files, &content, Path::new(".gitattributes"), names, macros)?;
                }
                _ => {}
            }
        }
        Ok(level)
    }
}

fn take_room(used: &mut usize, content: &[u8]) -> Result<(), Error> {
    *used += content.len();
    match *used > MAX_OPEN_BYTES {
        true => Err(Reason::TooLarge { size: *used as u64, limit: MAX_OPEN_BYTES as u64 }.into()),
        false => Ok(()),
    }
}

fn malformed(id: ObjectId) -> impl FnOnce(MalformedObject) -> Error {
    move |error| Error::caused(ErrorKind::Corrupt, format!("object {id} is malformed: {error}"), error)
}
