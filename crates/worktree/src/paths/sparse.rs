//! The paths of a sparse checkout (git-sparse-checkout, "INTERNALS").

use std::collections::HashSet;

use gix_glob::pattern::Case;
use gix_ignore::Search;
use packrace_os::count::Role;
use packrace_store::Repository;

use super::{PathError, ignore, levels};

/// Largest pattern file.
const MAX_BYTES: u64 = 100 << 20;

/// The patterns of `info/sparse-checkout`.
#[derive(Debug)]
pub struct SparseCheckout {
    patterns: Search,
    case: Case,
    is_cone: bool,
}

impl SparseCheckout {
    /// `None` if `core.sparseCheckout` is not set, or there are no patterns: then all paths are included.
    pub fn open(repository: &Repository) -> Result<Option<Self>, PathError> {
        if !repository.config().boolean("core.sparseCheckout")?.unwrap_or(false) {
            return Ok(None);
        }
        let path = repository.git_dir().join("info/sparse-checkout");
        let bytes = match packrace_os::read_file(&path, Role::Config, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if packrace_os::is_absent(&error) => return Ok(None),
            Err(source) => {
                return Err(PathError::Io { what: format!("cannot read {}", path.display()), source });
            }
        };
        let mut patterns = Search::default();
        ignore::add(&mut patterns, &bytes, &path)?;
        let case = levels::case(repository.config())?;
        Ok(Some(SparseCheckout { patterns, case, is_cone: is_cone(&bytes) }))
    }

    /// Whether all patterns are such that name whole directories.
    pub fn is_cone(&self) -> bool {
        self.is_cone
    }

    /// Whether a file is included: by the last pattern that matches it, else by the same rule for its parent
    /// directory, and so on.
    pub fn contains(&self, path: &[u8]) -> bool {
        self.includes(path, false)
    }

    /// The same for a directory, which is given without a slash at its end.
    pub fn contains_dir(&self, path: &[u8]) -> bool {
        self.includes(path, true)
    }

    fn includes(&self, path: &[u8], is_dir: bool) -> bool {
        let (mut path, mut is_dir) = (path, is_dir);
        loop {
            let found = self.patterns.pattern_matching_relative_path(path.into(), Some(is_dir), self.case);
            if let Some(found) = found {
                return !found.pattern.is_negative();
            }
            let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else { return false };
            (path, is_dir) = (&path[..slash], true);
        }
    }
}

/// Whether these are the patterns of a cone (git-sparse-checkout, "INTERNALS — CONE PATTERN SET"): `/*`, `!/*/`, directories, and below
/// one of these all directories not.
fn is_cone(bytes: &[u8]) -> bool {
    let mut dirs: HashSet<&[u8]> = HashSet::new();
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
        let is_fit = match line.strip_prefix(b"!") {
            None if line == b"/*" => true,
            None => {
                dirs.insert(line);
                is_plain_dir(line)
            }
            Some(b"/*/") => true,
            Some(line) => line.strip_suffix(b"*/").is_some_and(|dir| is_plain_dir(dir) && dirs.contains(dir)),
        };
        if !is_fit {
            return false;
        }
    }
    true
}

/// Whether a pattern is `/NAME/`, without anything that stands for something else.
fn is_plain_dir(pattern: &[u8]) -> bool {
    let mut is_escaped = false;
    let is_plain = pattern.iter().all(|byte| {
        let is_literal = is_escaped || !matches!(byte, b'*' | b'?' | b'[');
        is_escaped = !is_escaped && *byte == b'\\';
        is_literal
    });
    is_plain && !is_escaped && pattern.len() > 2 && pattern.starts_with(b"/") && pattern.ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_a_cone_are_known() {
        let check = |text: &str, expect: bool| assert_eq!(is_cone(text.as_bytes()), expect, "{text}");
        check("/*\n!/*/\n/in/\n", true);
        check("# all\n\n/*\n!/*/\n/a/\n!/a/*/\n/a/b\\*/\r\n", true);
        check("/*\n", true);
        check("/*\n!/*/\nin/\n", false);
        check("/*\n!/*/\n/in\n", false);
        check("/*\n!/*/\n/i*/\n", false);
        check("/*\n!/*/\n/i[n]/\n", false);
        check("/*\n!/*/\n!/a/*/\n", false);
        check("/*\n!/*/\n!/a/\n", false);
        check("//\n", false);
        check("/a\\/\n", true);
        check("*.rs\n", false);
    }
}
