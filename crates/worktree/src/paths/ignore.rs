//! Which untracked paths are ignored (gitignore).

use std::path::{Path, PathBuf};

use gix_glob::pattern::Case;
use gix_ignore::Search;
use gix_ignore::search::Ignore;
use packrace_store::{ObjectReader, Repository};

use super::levels::{self, Levels};
use super::{FindStaged, PathError, path_of};

/// The rules of the repository, of the user and of the last path's directories.
pub struct IgnoreRules {
    top: PathBuf,
    /// The user's and the repository's rules.
    outside: Search,
    case: Case,
    levels: Levels<IgnoreLevel>,
}

struct IgnoreLevel {
    /// Whether the directory itself is ignored, and with it everything inside.
    is_ignored: bool,
    rules: Option<Search>,
}

impl IgnoreRules {
    /// Reads the files outside the work tree.
    pub fn open(repository: &Repository, top: &Path, messages: &mut Vec<String>) -> Result<Self, PathError> {
        let mut outside = Search::default();
        for path in repository.exclude_files() {
            match read(&path, false, messages) {
                Some(bytes) => add(&mut outside, &bytes, &path)?,
                None if path.is_dir() => return Err(PathError::NoExcludeFile(path)),
                None => {}
            }
        }
        let case = levels::case(repository.config())?;
        Ok(IgnoreRules { top: top.to_owned(), outside, case, levels: Levels::default() })
    }

    /// Whether a path or one of its parent directories is ignored. Fast for consecutive paths of one
    /// directory. A rule file that is missing in the work tree is read from the index, if `staged` finds it.
    pub fn is_ignored(
        &mut self,
        path: &[u8],
        is_dir: bool,
        staged: FindStaged<'_>,
        reader: &mut ObjectReader,
        messages: &mut Vec<String>,
    ) -> Result<bool, PathError> {
        let IgnoreRules { top, outside, case, levels } = self;
        levels.go_to(path, |directory, above| {
            let is_ignored = match directory.strip_suffix(b"/") {
                None => false,
                Some(name) => {
                    above.last().is_some_and(|level| level.is_ignored)
                        || says(above, outside, name, true, *case)
                }
            };
            let rules = match is_ignored {
                true => None,
                false => rules_of(top, directory, staged, reader, messages)?,
            };
            Ok::<_, PathError>(IgnoreLevel { is_ignored, rules })
        })?;
        Ok(self.levels.last().is_some_and(|level| level.is_ignored)
            || says(&self.levels, &self.outside, path, is_dir, self.case))
    }
}

/// Whether the rules ignore a path whose directory is not ignored.
fn says(levels: &Levels<IgnoreLevel>, outside: &Search, path: &[u8], is_dir: bool, case: Case) -> bool {
    let inside = levels.above(path).filter_map(|(level, rest)| Some((level.rules.as_ref()?, rest)));
    let mut all = inside.chain([(outside, path)]);
    let found =
        all.find_map(|(rules, rest)| rules.pattern_matching_relative_path(rest.into(), Some(is_dir), case));
    found.is_some_and(|found| !found.pattern.is_negative())
}

fn rules_of(
    top: &Path,
    directory: &[u8],
    staged: FindStaged<'_>,
    reader: &mut ObjectReader,
    messages: &mut Vec<String>,
) -> Result<Option<Search>, PathError> {
    let name = [directory, b".gitignore"].concat();
    let bytes = match read(&top.join(path_of(&name)), true, messages) {
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

/// Adds patterns, also those of `info/sparse-checkout`.
pub(super) fn add(rules: &mut Search, bytes: &[u8], source: &Path) -> Result<(), PathError> {
    let added = rules.add_patterns_buffer(bytes, source, None, Ignore { support_precious: false });
    added.map_err(|error| PathError::Io { what: format!("cannot read {}", source.display()), source: error })
}

fn read(path: &Path, is_in_tree: bool, messages: &mut Vec<String>) -> Option<Vec<u8>> {
    let too_large = |path: &Path| format!("ignoring excessively large pattern file: {}", path.display());
    levels::read(path, is_in_tree, too_large, messages)
}
