//! Which untracked paths nobody wants to know of (gitignore).

use std::path::{Path, PathBuf};

use gix_glob::pattern::Case;
use gix_ignore::Search;
use gix_ignore::search::Ignore;
use packrace_os::count::Role;
use packrace_store::{ObjectReader, Repository};

use super::{PathError, path_of};
use crate::filter::Staged;

/// Longer files are passed over, as git does.
const MAX_BYTES: u64 = 100 << 20;

/// Rules of the repository, of the user and of the directories that lead to the last path.
pub struct IgnoreRules {
    top: PathBuf,
    /// The user's and the repository's.
    outside: Search,
    case: Case,
    directory: Vec<u8>,
    levels: Vec<Level>,
}

struct Level {
    /// Length of the path of its directory, with the slash behind it.
    path_bytes: usize,
    /// Whether the directory itself is ignored, and so all in it.
    is_ignored: bool,
    rules: Option<Search>,
}

impl IgnoreRules {
    /// Reads the files outside the work tree.
    pub fn open(repository: &Repository, top: &Path, told: &mut Vec<String>) -> Result<Self, PathError> {
        let mut outside = Search::default();
        for path in repository.exclude_files() {
            if let Some(bytes) = read(&path, false, told) {
                add(&mut outside, &bytes, &path)?;
            }
        }
        let case = match repository.config().boolean("core.ignoreCase")?.unwrap_or(false) {
            true => Case::Fold,
            false => Case::Sensitive,
        };
        Ok(IgnoreRules { top: top.to_owned(), outside, case, directory: Vec::new(), levels: Vec::new() })
    }

    /// Whether a path, or a directory that leads to it, is ignored. Quick where one path after the other is of the same
    /// directory. A file of rules that is not in the work tree is taken from the index, where `staged` gives one.
    pub fn is_ignored(
        &mut self,
        path: &[u8],
        is_dir: bool,
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<bool, PathError> {
        self.go_to(path, staged, reader, told)?;
        Ok(self.levels.last().is_some_and(|level| level.is_ignored) || self.says(path, is_dir))
    }

    /// What the rules say that are known of a path whose directory is not ignored.
    fn says(&self, path: &[u8], is_dir: bool) -> bool {
        for level in self.levels.iter().rev() {
            let Some(rules) = &level.rules else { continue };
            let rest = &path[level.path_bytes..];
            if let Some(found) = rules.pattern_matching_relative_path(rest.into(), Some(is_dir), self.case) {
                return !found.pattern.is_negative();
            }
        }
        let found = self.outside.pattern_matching_relative_path(path.into(), Some(is_dir), self.case);
        found.is_some_and(|found| !found.pattern.is_negative())
    }

    fn go_to(
        &mut self,
        path: &[u8],
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<(), PathError> {
        let directory = &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
        if directory == self.directory && !self.levels.is_empty() {
            return Ok(());
        }
        let shared = self.directory.iter().zip(directory).take_while(|(one, other)| one == other).count();
        self.levels.retain(|level| level.path_bytes <= shared);
        let mut at = self.levels.last().map_or(0, |level| level.path_bytes);
        let mut is_first = self.levels.is_empty();
        loop {
            let mut is_ignored = false;
            if !is_first {
                let Some(slash) = directory[at..].iter().position(|byte| *byte == b'/') else { break };
                is_ignored = self.levels.last().is_some_and(|level| level.is_ignored)
                    || self.says(&directory[..at + slash], true);
                at += slash + 1;
            }
            is_first = false;
            let rules = match is_ignored {
                true => None,
                false => self.rules_of(&directory[..at], staged, reader, told)?,
            };
            self.levels.push(Level { path_bytes: at, is_ignored, rules });
        }
        self.directory.clear();
        self.directory.extend_from_slice(directory);
        Ok(())
    }

    fn rules_of(
        &self,
        directory: &[u8],
        staged: Staged<'_>,
        reader: &mut ObjectReader,
        told: &mut Vec<String>,
    ) -> Result<Option<Search>, PathError> {
        let name = [directory, b".gitignore"].concat();
        let bytes = match read(&self.top.join(path_of(&name)), true, told) {
            Some(bytes) => bytes,
            None => match staged(&name) {
                Some(id) => reader.read(&id)?.data,
                None => return Ok(None),
            },
        };
        let mut rules = Search::default();
        add(&mut rules, &bytes, path_of(&name))?;
        Ok(Some(rules))
    }
}

/// Patterns as `info/sparse-checkout` has them, too.
pub(super) fn add(rules: &mut Search, bytes: &[u8], source: &Path) -> Result<(), PathError> {
    let added = rules.add_patterns_buffer(bytes, source, None, Ignore { support_precious: false });
    added.map_err(|error| PathError::Io { what: format!("cannot read {}", source.display()), source: error })
}

fn read(path: &Path, is_in_tree: bool, told: &mut Vec<String>) -> Option<Vec<u8>> {
    use std::io::ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound};
    let found = match is_in_tree {
        true => packrace_os::read_file_without_following(path, Role::Config, MAX_BYTES),
        false => packrace_os::read_file(path, Role::Config, MAX_BYTES),
    };
    match found {
        Ok(bytes) => Some(bytes),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => None,
        Err(error) if error.kind() == FileTooLarge => {
            told.push(format!("warning: ignoring excessively large pattern file: {}", path.display()));
            None
        }
        Err(error) => {
            let shown = path.file_name().filter(|_| is_in_tree).map_or(path.as_os_str(), |name| name);
            let words = crate::filter::words(&error);
            told.push(format!("warning: unable to access '{}': {words}", shown.to_string_lossy()));
            None
        }
    }
}
