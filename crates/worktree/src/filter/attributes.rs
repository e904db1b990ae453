//! The attributes of paths (gitattributes, "DESCRIPTION"): those that conversions need, or others.
//!
//! In order of precedence: `info/attributes`, the `.gitattributes` files from the directory of a path up to
//! the top, the user's file, the system's. Files are read only as paths need them. A file missing in the work
//! tree is read from the index; for checkouts, the index comes first. If a tree of attributes is named, only its
//! files count.

use std::path::{Path, PathBuf};

use gix_attributes::search::{MetadataCollection, Outcome};
use gix_attributes::{Search, StateRef};
use gix_glob::pattern::Case;
use packrace_object::tree::EntryKind;
use packrace_object::{Kind, ObjectId};
use packrace_store::{AttributeSource, ObjectReader, Repository};

use super::{Direction, Error, path_of};
use crate::paths::levels::{self, Levels};
use crate::paths::{AttributeState, FindStaged, SparseCheckout, is_attribute_name};

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
    /// What is wrong with that file, until it is said where git reads the file: after the one at the top.
    held: Vec<String>,
    levels: Levels<Option<Search>>,
    outcome: Outcome,
    case: Case,
    direction: Direction,
    /// If its patterns are to be those of a cone: attribute files are looked for in it.
    sparse: Option<SparseCheckout>,
    /// Where files are read, or why nothing can be looked up.
    source: Result<AttributeSource, String>,
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
        // Files are shown as they are seen from the top.
        let shown = |path: &Path| {
            let place = packrace_os::real_path(top).unwrap_or_else(|_| top.to_owned());
            path.strip_prefix(place).unwrap_or(path).to_string_lossy().into_owned()
        };
        for path in &files.outside {
            if let Some(bytes) = read(path, false, messages) {
                add(&mut outside, &bytes, &shown(path), &mut names, true, messages)?;
            }
        }
        let (mut info, mut held) = (Search::default(), Vec::new());
        if let Some(bytes) = read(&files.info, false, messages) {
            add(&mut info, &bytes, &shown(&files.info), &mut names, true, &mut held)?;
        }
        let outcome = outcome(&names, &selection);
        Ok(Attributes {
            top: top.to_owned(),
            names,
            selection,
            outside,
            info,
            held,
            levels: Levels::default(),
            outcome,
            case: levels::case(repository.config())?,
            direction,
            sparse: SparseCheckout::open_cone(repository)?,
            source: repository.attribute_source().map_err(|error| error.to_string()),
        })
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
        let source = self.source.clone().map_err(Error::Refused)?;
        self.sparse.take().iter().for_each(SparseCheckout::warn);
        self.go_to(path, source, staged, reader, messages)?;
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
        attributes: AttributeSource,
        staged: FindStaged<'_>,
        reader: &mut ObjectReader,
        messages: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Attributes { top, names, held, levels, direction, .. } = self;
        let mut is_changed = false;
        levels.go_to(path, |directory, _| {
            if !directory.is_empty() {
                messages.append(held);
            }
            let name = [directory, b".gitattributes"].concat();
            let bytes = match attributes {
                AttributeSource::WorkTree => content(top, &name, *direction, staged, reader, messages)?,
                AttributeSource::Tree(tree) => tree.and_then(|tree| content_in(tree, &name, reader)),
            };
            let Some(bytes) = bytes else { return Ok(None) };
            is_changed = true;
            let mut files = Search::default();
            let source = String::from_utf8_lossy(&name);
            add(&mut files, &bytes, &source, names, directory.is_empty(), messages)?;
            Ok::<_, Error>(Some(files))
        })?;
        messages.append(held);
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

/// The file in a tree, or in what leads to one. As in git, what cannot be read is empty.
fn content_in(named: ObjectId, path: &[u8], reader: &mut ObjectReader) -> Option<Vec<u8>> {
    let tree = reader.tree_of(&named).ok()??;
    let (_, id) = reader.entry_at(&tree, path).ok()?.filter(|(kind, _)| *kind == EntryKind::Blob)?;
    let object = reader.read(&id).ok()?;
    (object.kind == Kind::Blob).then_some(object.data)
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
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        match fault(line.strip_suffix(b"\n").unwrap_or(line), number, source, may_define_macros) {
            Some(message) => messages.push(message),
            None => kept.extend_from_slice(line),
        }
    }
    let path = path_of(source.as_bytes()).into();
    search.add_patterns_buffer(&kept, path, None, names, may_define_macros).map_err(|error| Error::Io {
        what: format!("cannot read {source}"),
        source: std::io::Error::other(error),
    })
}

/// Why a line is ignored, in git's words.
fn fault(line: &[u8], number: usize, source: &str, may_define_macros: bool) -> Option<String> {
    if line.len() >= MAX_LINE_BYTES {
        return Some(format!("warning: ignoring overly long attributes line {number}"));
    }
    let line = line.trim_ascii_start();
    let (macro_name, attributes) = match line.strip_prefix(b"[attr]") {
        _ if line.starts_with(b"#") => return None,
        Some(_) if !may_define_macros => {
            let line = String::from_utf8_lossy(line);
            return Some(format!("{line} not allowed: {source}:{number}"));
        }
        Some(definition) => {
            let mut words = words(definition);
            (words.next(), words)
        }
        None => (None, words(after_pattern(line))),
    };
    let is_bad = |name: &&[u8]| !is_attribute_name(name) || name.starts_with(b"builtin_");
    if let Some(name) = macro_name.into_iter().chain(attributes.map(name_of)).find(is_bad) {
        let name = String::from_utf8_lossy(name);
        return Some(format!("{name} is not a valid attribute name: {source}:{number}"));
    }
    line.starts_with(b"!").then(|| NEGATIVE.to_owned())
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The rest of a line after its pattern, which may be quoted.
fn after_pattern(line: &[u8]) -> &[u8] {
    let mut is_escaped = false;
    let is_end = |byte: &u8| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    };
    let quoted = line.strip_prefix(b"\"").and_then(|rest| Some(&rest[rest.iter().position(is_end)? + 1..]));
    quoted.unwrap_or_else(|| &line[line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len())..])
}

/// The name in `name`, `-name`, `!name` or `name=value`.
fn name_of(attribute: &[u8]) -> &[u8] {
    let end = attribute.iter().position(|byte| *byte == b'=').unwrap_or(attribute.len());
    let name = &attribute[..end];
    name.strip_prefix(b"-").or(name.strip_prefix(b"!")).unwrap_or(name)
}

fn read(path: &Path, is_in_tree: bool, messages: &mut Vec<String>) -> Option<Vec<u8>> {
    let too_large = |path: &Path| format!("ignoring overly large gitattributes file '{}'", path.display());
    levels::read(path, is_in_tree, too_large, messages)
}
