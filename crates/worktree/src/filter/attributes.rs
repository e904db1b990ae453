//! Attributes of paths in a work tree, as far as conversions ask for them (gitattributes, "DESCRIPTION").
//!
//! The more important come first: `info/attributes`, the files called `.gitattributes` from the directory of a path up to the
//! top, the user's file, the system's. Files are read as far as paths lead. One that is not in the work tree is taken from the
//! index; when files are checked out, it is the other way round.

use std::io::ErrorKind::{FileTooLarge, IsADirectory};
use std::path::{Path, PathBuf};

use gix_attributes::search::{MetadataCollection, Outcome};
use gix_attributes::{Search, StateRef};
use gix_glob::pattern::Case;
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_store::{ObjectReader, Repository};

use super::{Direction, Error, path_of};

/// Longer files are passed over, as git does.
const MAX_BYTES: u64 = 100 << 20;

/// Lines as long as this are passed over, as git does.
const MAX_LINE_BYTES: usize = 2048;

/// What is asked for, in the order of [`Asked`]'s fields.
const NAMES: [&str; 6] = ["crlf", "ident", "filter", "eol", "text", "working-tree-encoding"];

/// What is told of a pattern that nobody can use.
const NEGATIVE: &str =
    "warning: Negative patterns are ignored in git attributes\nUse '\\!' for literal leading exclamation.";

/// Says which blob the index has at a path, if any.
pub type Staged<'a> = &'a dyn Fn(&[u8]) -> Option<ObjectId>;

/// What a file says about one attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Unspecified,
    Set,
    Unset,
    Value(Vec<u8>),
}

/// What is said about a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) crlf: State,
    pub(super) ident: State,
    pub(super) filter: State,
    pub(super) eol: State,
    pub(super) text: State,
    pub(super) encoding: State,
}

/// All files of attributes that matter to the paths asked about last.
pub(super) struct Attributes {
    top: PathBuf,
    names: MetadataCollection,
    outside: Search,
    info: Search,
    /// The directory of the last path, with a slash behind it unless it is the top.
    directory: Vec<u8>,
    /// One for each directory from the top to that of the last path.
    levels: Vec<Level>,
    outcome: Outcome,
    case: Case,
    direction: Direction,
}

struct Level {
    /// Length of the path of its directory, with the slash behind it.
    path_bytes: usize,
    files: Option<Search>,
}

impl Attributes {
    /// Reads the files outside the work tree.
    pub(super) fn open(
        repository: &Repository,
        top: &Path,
        direction: Direction,
        told: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut names = MetadataCollection::default();
        let mut outside = Search::default();
        add(&mut outside, b"[attr]binary -diff -merge -text", "[builtin]", &mut names, true, told)?;
        let files = repository.attribute_files();
        for path in &files.outside {
            if let Some(bytes) = read(path, false, told) {
                add(&mut outside, &bytes, &path.to_string_lossy(), &mut names, true, told)?;
            }
        }
        let mut info = Search::default();
        if let Some(bytes) = read(&files.info, false, told) {
            add(&mut info, &bytes, &files.info.to_string_lossy(), &mut names, true, told)?;
        }
        let case = match repository.config().boolean("core.ignoreCase")?.unwrap_or(false) {
            true => Case::Fold,
            false => Case::Sensitive,
        };
        let outcome = outcome(&names);
        let (directory, levels, top) = (Vec::new(), Vec::new(), top.to_owned());
        Ok(Attributes { top, names, outside, info, directory, levels, outcome, case, direction })
    }

    /// What is said about the file at `path`. Quick where one path after the other is of the same directory.
    pub(super) fn of(
        &mut self,
        path: &[u8],
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<Asked, Error> {
        self.go_to(path, staged, reader, told)?;
        let (case, outcome) = (self.case, &mut self.outcome);
        outcome.reset();
        let mut look = |search: &Search, path: &[u8]| {
            if !outcome.is_done() {
                search.pattern_matching_relative_path(path.into(), case, Some(false), outcome);
            }
        };
        look(&self.info, path);
        for level in self.levels.iter().rev() {
            if let Some(files) = &level.files {
                look(files, &path[level.path_bytes..]);
            }
        }
        look(&self.outside, path);
        let mut asked = Asked::default();
        for found in outcome.iter_selected() {
            let state = match found.assignment.state {
                StateRef::Unspecified => State::Unspecified,
                StateRef::Set => State::Set,
                StateRef::Unset => State::Unset,
                StateRef::Value(value) => State::Value(value.as_bstr().to_vec()),
            };
            match found.assignment.name.as_str() {
                "crlf" => asked.crlf = state,
                "ident" => asked.ident = state,
                "filter" => asked.filter = state,
                "eol" => asked.eol = state,
                "text" => asked.text = state,
                _ => asked.encoding = state,
            }
        }
        Ok(asked)
    }

    fn go_to(
        &mut self,
        path: &[u8],
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<(), Error> {
        let directory = &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
        if directory == self.directory && !self.levels.is_empty() {
            return Ok(());
        }
        let shared = self.directory.iter().zip(directory).take_while(|(one, other)| one == other).count();
        self.levels.retain(|level| level.path_bytes <= shared);
        let mut is_changed = false;
        let mut at = self.levels.last().map_or(0, |level| level.path_bytes);
        let mut is_first = self.levels.is_empty();
        loop {
            if !is_first {
                let Some(slash) = directory[at..].iter().position(|byte| *byte == b'/') else { break };
                at += slash + 1;
            }
            is_first = false;
            let name = [&directory[..at], b".gitattributes"].concat();
            let files = match self.content(&name, staged, reader, told)? {
                Some(bytes) => {
                    is_changed = true;
                    let mut files = Search::default();
                    let source = String::from_utf8_lossy(&name);
                    add(&mut files, &bytes, &source, &mut self.names, at == 0, told)?;
                    Some(files)
                }
                None => None,
            };
            self.levels.push(Level { path_bytes: at, files });
        }
        self.directory.clear();
        self.directory.extend_from_slice(directory);
        if is_changed {
            self.outcome = outcome(&self.names);
        }
        Ok(())
    }

    fn content(
        &self,
        name: &[u8],
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut from_index = || match staged(name) {
            Some(id) => reader.read(&id).map(|object| Some(object.data)),
            None => Ok(None),
        };
        let mut from_tree = || read(&self.top.join(path_of(name)), true, told);
        Ok(match self.direction {
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
}

fn outcome(names: &MetadataCollection) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.initialize_with_selection(names, NAMES);
    outcome
}

/// Only the file at the top of a tree, and those outside, may define macros (gitattributes, "Defining macro attributes").
fn add(
    search: &mut Search,
    content: &[u8],
    source: &str,
    names: &mut MetadataCollection,
    may_define_macros: bool,
    told: &mut Vec<String>,
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
            told.push(NEGATIVE.to_owned());
        } else if !may_define_macros && line.starts_with(b"[attr]") {
            let line = String::from_utf8_lossy(line);
            told.push(format!("{line} not allowed: {source}:{}", number + 1));
        }
    }
    let path = path_of(source.as_bytes()).into();
    search.add_patterns_buffer(&kept, path, None, names, may_define_macros).map_err(|error| Error::Io {
        what: format!("cannot read {source}"),
        source: std::io::Error::other(error.to_string()),
    })
}

fn read(path: &Path, is_in_tree: bool, told: &mut Vec<String>) -> Option<Vec<u8>> {
    let found = match is_in_tree {
        true => packrace_os::read_file_without_following(path, Role::Config, MAX_BYTES),
        false => packrace_os::read_file(path, Role::Config, MAX_BYTES),
    };
    match found {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotADirectory | IsADirectory) => None,
        Err(error) if error.kind() == FileTooLarge => {
            told.push(format!("warning: ignoring overly large gitattributes file '{}'", path.display()));
            None
        }
        Err(error) => {
            let shown = path.file_name().filter(|_| is_in_tree).map_or(path.as_os_str(), |name| name);
            told.push(format!(
                "warning: unable to access '{}': {}",
                shown.to_string_lossy(),
                super::words(&error)
            ));
            None
        }
    }
}
