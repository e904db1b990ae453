//! The attributes of files, for pathspecs that ask for them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::count::{self, Op, Role};
use packrace_store::{ObjectReader, Repository, Snapshot, cache_bytes};

use crate::filter::attributes::Attributes;
use crate::filter::{self, Direction};
use crate::index::{Index, Kind, Mode, Seen};
use crate::paths::{AttributeState, Condition, PathAttributes, PathError, Pathspecs, path_of};

/// The attribute that is the mode of a file, and that no file can set (gitattributes, "Reserved BUILTIN_* attributes").
const MODE: &str = "builtin_objectmode";

/// Lets pathspecs look up attributes; before, those that ask for any match nothing.
pub fn attach_attributes(
    specs: &mut Pathspecs,
    repository: &Repository,
    snapshot: &Arc<Snapshot>,
    top: &Path,
    index: &Index,
) -> Result<(), filter::Error> {
    let names: Vec<String> = specs.conditions().map(|condition| condition.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let with_mode = names.iter().any(|name| name == MODE).then(|| top.to_owned());
    // Its warnings are those of the conversion of files.
    let attributes = Attributes::open(repository, top, Direction::CheckIn, names, &mut Vec::new())?;
    let is_file = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes");
    let staged = index.entries().filter(|(key, _)| key.stage() == 0 && is_file(key.path()));
    let staged = staged.map(|(key, entry)| (key.path().to_vec(), entry.id)).collect();
    let reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    let found = LookedUp { attributes, reader, staged, with_mode, known: HashMap::new(), problem: None };
    specs.set_attributes(Rc::new(FileAttributes(RefCell::new(found))));
    Ok(())
}

/// The attributes of the files of a work tree. Each path keeps those that it had when it was first looked up.
struct FileAttributes(RefCell<LookedUp>);

struct LookedUp {
    attributes: Attributes,
    reader: ObjectReader,
    /// Attribute files of the index.
    staged: HashMap<Vec<u8>, ObjectId>,
    /// The top of the work tree, if modes are asked for.
    with_mode: Option<PathBuf>,
    known: HashMap<Vec<u8>, HashMap<String, AttributeState>>,
    problem: Option<filter::Error>,
}

impl PathAttributes for FileAttributes {
    fn have(&self, path: &[u8], is_dir: bool, conditions: &[Condition]) -> bool {
        let mut found = self.0.borrow_mut();
        let known = found.of(path, is_dir);
        let has = |condition: &Condition| {
            known.get(&condition.name).unwrap_or(&AttributeState::Unspecified) == &condition.state
        };
        conditions.iter().all(has)
    }

    fn take_problem(&self) -> Option<PathError> {
        let mut found = self.0.borrow_mut();
        found.problem.take().map(|error| PathError::Attributes(error.to_string()))
    }
}

impl LookedUp {
    fn of(&mut self, path: &[u8], is_dir: bool) -> &HashMap<String, AttributeState> {
        if !self.known.contains_key(path) {
            let mut states = HashMap::new();
            let LookedUp { attributes, reader, staged, with_mode, .. } = self;
            let staged = |path: &[u8]| staged.get(path).copied();
            let each = &mut |name: &str, state| drop(states.insert(name.to_owned(), state));
            if let Err(error) = attributes.each(path, is_dir, &staged, reader, &mut Vec::new(), each) {
                self.problem.get_or_insert(error);
            }
            match with_mode.as_deref().and_then(|top| mode(top, path).transpose()) {
                Some(Ok(mode)) => {
                    let digits = format!("{:06o}", mode.bits()).into_bytes();
                    states.insert(MODE.to_owned(), AttributeState::Value(digits));
                }
                Some(Err(error)) => {
                    self.problem.get_or_insert(error);
                }
                None => {}
            }
            self.known.insert(path.to_vec(), states);
        }
        &self.known[path]
    }
}

/// The mode that a path has in the work tree. As in git, one that is not there is an error.
fn mode(top: &Path, path: &[u8]) -> Result<Option<Mode>, filter::Error> {
    let place = top.join(path_of(path));
    count::add(Role::WorkTree, Op::Look, 0);
    let found = std::fs::symlink_metadata(&place).map_err(|error| {
        let (shown, why) = (String::from_utf8_lossy(path), packrace_os::reason(&error));
        filter::Error::Refused(format!("unable to stat '{shown}': {why}"))
    })?;
    Ok(match Seen::of(&found).kind {
        Kind::File { is_executable: true } => Some(Mode::Executable),
        Kind::File { is_executable: false } => Some(Mode::File),
        Kind::Link => Some(Mode::Link),
        Kind::Dir if place.join(".git").exists() => Some(Mode::Gitlink),
        Kind::Dir => Some(Mode::Dir),
        Kind::Other => None,
    })
}

impl std::fmt::Debug for FileAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileAttributes")
    }
}
