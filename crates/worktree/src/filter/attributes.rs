//! The attributes of paths (gitattributes, "DESCRIPTION"): those that conversions need, or others.
//!
//! In order of precedence: `info/attributes`, the `.gitattributes` files from the directory of a path up to
//! the top, the user's file, the system's. Files are read only as paths need them. A file missing in the work
//! tree is read from the index; for checkouts, the index comes first.

use std::path::{Path, PathBuf};

use gix_attributes::search::{MetadataCollection, Outcome};
use gix_attributes::{Search, StateRef};
use gix_glob::pattern::Case;
use packrace_store::{ObjectReader, Repository};

use super::{Direction, Error, path_of};
use crate::paths::levels::{self, Levels};
use crate::paths::{AttributeState, FindStaged};

/// Longer lines are ignored, as in git.
const MAX_LINE_BYTES: usize = 2048;

/// The attributes to look up, in the order of [`Asked`]'s fields.
const NAMES: [&str; 6] = ["crlf", "ident", "filter", "eol", "text", "working-tree-encoding"];

/// The names of the attributes that conversions need.
pub(super) fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

/// The warning about a pattern that cannot be used.
const NEGATIVE: &str =
    "warning: Negative patterns are ignored in git attributes\nUse '\\!' for literal leading exclamation.";

/// The attributes of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) crlf: AttributeState,
    pub(super) ident: AttributeState,
    pub(super) filter: AttributeState,
    pub(super) eol: AttributeState,
    pub(super) text: AttributeState,
    pub(super) encoding: AttributeState,
}

/// All attribute files for the last path.
pub(crate) struct Attributes {
    top: PathBuf,
    names: MetadataCollection,
    /// What is looked up.
    selection: Vec<String>,
    outside: Search,
    info: Search,
    levels: Levels<Option<Search>>,
    outcome: Outcome,
    case: Case,
    direction: Direction,
}

impl Attributes {
    /// Reads the files outside the work tree.
    pub(crate) fn open(
        repository: &Repository,
        top: &Path,
        direction: Direction,
        selection: Vec<String>,
        messages: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut names = MetadataCollection::default();
        let mut outside = Search::default();
        add(&mut outside, b"[attr]binary -diff -merge -text", "[builtin]", &mut names, true, messages)?;
        let files = repository.attribute_files();
        for path in &files.outside {
            if let Some(bytes) = read(path, false, messages) {
                add(&mut outside, &bytes, &path.to_string_lossy(), &mut names, true, messages)?;
            }
        }
        let mut info = Search::default();
        if let Some(bytes) = read(&files.info, false, messages) {
            add(&mut info, &bytes, &files.info.to_string_lossy(), &mut names, true, messages)?;
        }
        let case = levels::case(repository.config())?;
        let (outcome, levels, top) = (outcome(&names, &selection), Levels::default(), top.to_owned());
        Ok(Attributes { top, names, selection, outside, info, levels, outcome, case, direction })
    }

    /// The attributes of the file at `path`. Fast for consecutive paths of one directory.
    pub(super) fn of(
        &mut self,
        path: &[u8],
        staged: FindStaged<'_>,
        reader: &mut ObjectReader,
        messages: &mut Vec<String>,
    ) -> Result<Asked, Error> {
        let mut asked = Asked::default();
        self.each(path, false, staged, reader, messages, &mut |name, state| match name {
            "crlf" => asked.crlf = state,
            "ident" => asked.ident = state,
            "filter" => asked.filter = state,
            "eol" => asked.eol = state,
            "text" => asked.text = state,
            _ => asked.encoding = state,
        })?;
        Ok(asked)
    }

    /// Calls `each` for each of the selected attributes that a path has.
    pub(crate) fn each(
        &mut self,
        path: &[u8],
        is_dir: bool,
        staged: FindStaged<'_>,
        reader: &mut ObjectReader,
        messages: &mut Vec<String>,
        each: &mut dyn FnMut(&str, AttributeState),
    ) -> Result<(), Error> {
        self.go_to(path, staged, reader, messages)?;
        let (case, outcome) = (self.case, &mut self.outcome);
        outcome.reset();
        let mut look = |search: &Search, path: &[u8]| {
            if !outcome.is_done() {
                search.pattern_matching_relative_path(path.into(), case, Some(is_dir), outcome);
            }
        };
        look(&self.info, path);
        for (files, path) in self.levels.above(path) {
            if let Some(files) = files {
                look(files, path);
            }
        }
        look(&self.outside, path);
        for found in outcome.iter_selected() {
            let state = match found.assignment.state {
                StateRef::Unspecified => AttributeState::Unspecified,
                StateRef::Set => AttributeState::Set,
                StateRef::Unset => AttributeState::Unset,
                StateRef::Value(value) => AttributeState::Value(value.as_bstr().to_vec()),
            };
            each(found.assignment.name.as_str(), state);
        }
        Ok(())
    }

    fn go_to(
        &mut self,
        path: &[u8],
        staged: FindStaged<'_>,
        reader: &mut ObjectReader,
        messages: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Attributes { top, names, levels, direction, .. } = self;
        let mut is_changed = false;
        levels.go_to(path, |directory, _| {
            let name = [directory, b".gitattributes"].concat();
            let Some(bytes) = content(top, &name, *direction, staged, reader, messages)? else {
                return Ok(None);
            };
            is_changed = true;
            let mut files = Search::default();
            let source = String::from_utf8_lossy(&name);
            add(&mut files, &bytes, &source, names, directory.is_empty(), messages)?;
            Ok::<_, Error>(Some(files))
        })?;
        if is_changed {
            self.outcome = outcome(&self.names, &self.selection);
        }
        Ok(())
    }
}

fn content(
    top: &Path,
    name: &[u8],
    direction: Direction,
    staged: FindStaged<'_>,
    reader: &mut ObjectReader,
    messages: &mut Vec<String>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut from_index = || match staged(name) {
        Some(id) => reader.read(&id).map(|object| Some(object.data)),
        None => Ok(None),
    };
    let mut from_tree = || read(&top.join(path_of(name)), true, messages);
    Ok(match direction {
        Direction::CheckIn => match from_tree() {
            Some(bytes) => Some(bytes),
            None => from_index()?,
        },
        Direction::CheckOut => match from_index()? {
            Some(bytes) => Some(bytes),
            None => from_tree(),
        },
    })
}

fn outcome(names: &MetadataCollection, selection: &[String]) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.initialize_with_selection(names, selection.iter().map(String::as_str));
    outcome
}

/// Macros may only be defined in the top-level file and in files outside the tree (gitattributes, "Defining
/// macro attributes").
fn add(
    search: &mut Search,
    content: &[u8],
    source: &str,
    names: &mut MetadataCollection,
    may_define_macros: bool,
    messages: &mut Vec<String>,
) -> Result<(), Error> {
    let mut kept = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if line.strip_suffix(b"\n").unwrap_or(line).len() < MAX_LINE_BYTES {
            kept.extend_from_slice(line);
        }
    }
    for (number, line) in kept.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii_start();
        if line.starts_with(b"!") {
            messages.push(NEGATIVE.to_owned());
        } else if !may_define_macros && line.starts_with(b"[attr]") {
            let line = String::from_utf8_lossy(line);
            messages.push(format!("{line} not allowed: {source}:{}", number + 1));
        }
    }
    let path = path_of(source.as_bytes()).into();
    search.add_patterns_buffer(&kept, path, None, names, may_define_macros).map_err(|error| Error::Io {
        what: format!("cannot read {source}"),
        source: std::io::Error::other(error),
    })
}

fn read(path: &Path, is_in_tree: bool, messages: &mut Vec<String>) -> Option<Vec<u8>> {
    let too_large = |path: &Path| format!("ignoring overly large gitattributes file '{}'", path.display());
    levels::read(path, is_in_tree, too_large, messages)
}
