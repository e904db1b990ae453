//! Rule files in the parent directories of a path: `.gitattributes`, `.gitignore`.

use std::io::ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound};
use std::path::Path;

use gix_glob::pattern::Case;
use packrace_os::count::Role;
use packrace_store::Config;

/// Larger files are ignored, as in git.
const MAX_BYTES: u64 = 100 << 20;

/// One `T` for each directory from the top to that of the last path. Fast for consecutive paths of one
/// directory: shared levels stay.
pub(crate) struct Levels<T> {
    /// The directory of the last path, with a trailing slash unless it is the top.
    directory: Vec<u8>,
    levels: Vec<Level<T>>,
}

struct Level<T> {
    /// The length of its directory's path, with the trailing slash.
    path_bytes: usize,
    rules: T,
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Levels { directory: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Levels<T> {
    /// Moves to the directory of `path`. `open` gets each entered directory, with a trailing slash unless it
    /// is the top, and the levels above it.
    pub(crate) fn go_to<E>(
        &mut self,
        path: &[u8],
        mut open: impl FnMut(&[u8], &Self) -> Result<T, E>,
    ) -> Result<(), E> {
        let directory = &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
        if directory == self.directory && !self.levels.is_empty() {
            return Ok(());
        }
        let shared = self.directory.iter().zip(directory).take_while(|(one, other)| one == other).count();
        self.levels.retain(|level| level.path_bytes <= shared);
        // The top always exists after the first path, and an error keeps the levels that were opened.
        self.directory.truncate(self.levels.last().map_or(0, |level| level.path_bytes));
        loop {
            let at = self.directory.len();
            let end = match self.levels.is_empty() {
                true => 0,
                false => match directory[at..].iter().position(|byte| *byte == b'/') {
                    Some(slash) => at + slash + 1,
                    None => return Ok(()),
                },
            };
            let rules = open(&directory[..end], self)?;
            self.levels.push(Level { path_bytes: end, rules });
            self.directory.extend_from_slice(&directory[at..end]);
        }
    }

    /// The level of the current directory.
    pub(crate) fn last(&self) -> Option<&T> {
        self.levels.last().map(|level| &level.rules)
    }

    /// The levels from the current directory, which contains `path`, up to the top; each with the part of the
    /// path below it.
    pub(crate) fn above<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = (&'a T, &'a [u8])> {
        self.levels.iter().rev().map(|level| (&level.rules, &path[level.path_bytes..]))
    }
}

/// Whether patterns ignore case.
pub(crate) fn case(config: &Config) -> Result<Case, packrace_store::Error> {
    Ok(match config.boolean("core.ignoreCase")?.unwrap_or(false) {
        true => Case::Fold,
        false => Case::Sensitive,
    })
}

/// A rule file, if it exists. In a work tree, links are not followed. `too_large` is the warning for a file
/// that is skipped for its size.
pub(crate) fn read(
    path: &Path,
    is_in_tree: bool,
    too_large: impl FnOnce(&Path) -> String,
    messages: &mut Vec<String>,
) -> Option<Vec<u8>> {
    let found = match is_in_tree {
        true => packrace_os::read_file_without_following(path, Role::Config, MAX_BYTES),
        false => packrace_os::read_file(path, Role::Config, MAX_BYTES),
    };
    match found {
        Ok(bytes) => Some(bytes),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => None,
        Err(error) if error.kind() == FileTooLarge => {
            messages.push(format!("warning: {}", too_large(path)));
            None
        }
        Err(error) => {
            let shown = path.file_name().filter(|_| is_in_tree).map_or(path.as_os_str(), |name| name);
            let why = packrace_os::reason(&error);
            messages.push(format!("warning: unable to access '{}': {why}", shown.to_string_lossy()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_opened_once() {
        let (mut levels, mut opened) = (Levels::default(), Vec::new());
        let mut check = |path: &str, expect_opened: &[&str], expect_above: &[(&str, &str)]| {
            let open = |directory: &[u8], above: &Levels<String>| {
                let name = String::from_utf8(directory.to_vec()).unwrap();
                let expect_last = name.trim_end_matches('/').rfind('/').map_or("", |at| &name[..=at]);
                assert_eq!(above.last().map(String::as_str), (!name.is_empty()).then_some(expect_last));
                opened.push(name.clone());
                if name.contains("bad") { Err(()) } else { Ok(name) }
            };
            let is_done = levels.go_to(path.as_bytes(), open).is_ok();
            assert_eq!(std::mem::take(&mut opened), expect_opened, "{path}");
            assert_eq!(is_done, !path.contains("bad"));
            if is_done {
                let above = levels.above(path.as_bytes());
                let above: Vec<_> =
                    above.map(|(name, rest)| (&**name, str::from_utf8(rest).unwrap())).collect();
                assert_eq!(above, expect_above, "{path}");
            }
        };
        check("f", &[""], &[("", "f")]);
        check("a/b/f", &["a/", "a/b/"], &[("a/b/", "f"), ("a/", "b/f"), ("", "a/b/f")]);
        check("a/b/g", &[], &[("a/b/", "g"), ("a/", "b/g"), ("", "a/b/g")]);
        check("a/bc/g", &["a/bc/"], &[("a/bc/", "g"), ("a/", "bc/g"), ("", "a/bc/g")]);
        check("g", &[], &[("", "g")]);
        check("a/bad/f", &["a/", "a/bad/"], &[]);
        check("a/f", &[], &[("a/", "f"), ("", "a/f")]);
        check("a/bad/f", &["a/bad/"], &[]);
    }
}
