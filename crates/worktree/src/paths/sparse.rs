//! The paths of a sparse checkout (git-sparse-checkout, "INTERNALS").

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;

use gix_glob::pattern::Case;
use gix_ignore::Search;
use packrace_os::count::Role;
use packrace_store::{Config, Repository};

use super::{PathError, ignore, levels};

/// Largest pattern file.
const MAX_BYTES: u64 = 100 << 20;

/// The pattern files that a user has been told of: once, where git tells of them for each index that it reads.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The patterns of `info/sparse-checkout`.
#[derive(Debug)]
pub struct SparseCheckout {
    path: PathBuf,
    patterns: Search,
    case: Case,
    /// Whether they are to be those of a cone.
    uses_cone: bool,
    /// Why they are not, in git's words.
    fault: Option<String>,
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
        let (uses_cone, fault) = (uses_cone(repository.config())?, cone_fault(&bytes, case));
        Ok(Some(SparseCheckout { path, patterns, case, uses_cone, fault }))
    }

    /// `None` also if the patterns are not to be those of a cone, or cannot be read: whoever needs them says what is wrong with them.
    pub(crate) fn open_cone(repository: &Repository) -> Result<Option<Self>, packrace_store::Error> {
        Ok(match uses_cone(repository.config())? {
            true => SparseCheckout::open(repository).ok().flatten(),
            false => None,
        })
    }

    /// Whether all patterns are such that name whole directories.
    pub fn is_cone(&self) -> bool {
        self.fault.is_none()
    }

    /// Warns of patterns that should be those of a cone, and are not. Using them does so, too.
    pub(crate) fn warn(&self) {
        let Some(fault) = self.fault.as_ref().filter(|_| self.uses_cone) else { return };
        if TOLD.lock().expect("no panic while held").insert(self.path.clone()) {
            tracing::warn!("{fault}");
            tracing::warn!("disabling cone pattern matching");
        }
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
        self.warn();
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

/// Whether patterns are to be those of a cone (git-config, `core.sparseCheckoutCone`, which `git sparse-checkout` sets).
pub(crate) fn uses_cone(config: &Config) -> Result<bool, packrace_store::Error> {
    Ok(config.boolean("core.sparseCheckout")?.unwrap_or(false)
        && config.boolean("core.sparseCheckoutCone")?.unwrap_or(false))
}

/// Why these are not the patterns of a cone (git-sparse-checkout, "INTERNALS — CONE PATTERN SET"): `/*`, `!/*/`, directories, and
/// below one of these all directories not.
fn cone_fault(bytes: &[u8], case: Case) -> Option<String> {
    let (mut dirs, mut closed): (HashSet<Vec<u8>>, HashSet<Vec<u8>>) = (HashSet::new(), HashSet::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let line = without_spaces(line);
        let (is_negative, line) = line.strip_prefix(b"!").map_or((false, line), |line| (true, line));
        let (is_dir, pattern) = line.strip_suffix(b"/").map_or((false, line), |line| (true, line));
        let shown = || String::from_utf8_lossy(pattern);
        if pattern == b"/*" && is_dir >= is_negative {
            continue;
        }
        let above = pattern.strip_suffix(b"/*").filter(|_| is_negative);
        if pattern != b"/*" && !(is_dir && is_plain(above.unwrap_or(pattern), above.is_some())) {
            return Some(format!("unrecognized pattern: '{}'", shown()));
        }
        let key = |dir: &[u8]| match case {
            Case::Sensitive => dir.to_vec(),
            Case::Fold => dir.to_ascii_lowercase(),
        };
        match above.map(key) {
            Some(above) if dirs.remove(&above) => drop(closed.insert(above)),
            _ if is_negative => return Some(format!("unrecognized negative pattern: '{}'", shown())),
            _ if closed.contains(&key(pattern)) => {
                let what = "your sparse-checkout file may have issues";
                return Some(format!("{what}: pattern '{}' is repeated", shown()));
            }
            _ => drop(dirs.insert(key(pattern))),
        }
    }
    None
}

/// A pattern without spaces at its end, unless they are escaped.
fn without_spaces(mut line: &[u8]) -> &[u8] {
    while let Some(shorter) = line.strip_suffix(b" ").filter(|shorter| !shorter.ends_with(b"\\")) {
        line = shorter;
    }
    line
}

/// Whether a pattern is a path from the top, in which all that could stand for something else is escaped.
fn is_plain(pattern: &[u8], is_above: bool) -> bool {
    let is_long = pattern.len() > 1 || is_above;
    if !is_long || !pattern.starts_with(b"/") || pattern.windows(2).any(|pair| pair == b"**") {
        return false;
    }
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        let is_fit = match byte {
            b'\\' => pattern.get(at + 1).is_some_and(|next| matches!(next, b'*' | b'?' | b'[' | b'\\')),
            // As in git, a backslash that is escaped itself will do.
            b'*' | b'?' | b'[' => at > 0 && pattern[at - 1] == b'\\',
            _ => true,
        };
        if !is_fit {
            return false;
        }
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_a_cone_are_known() {
        let check = |text: &str, expect: Option<&str>| {
            let fault = cone_fault(text.as_bytes(), Case::Sensitive);
            assert_eq!(fault.as_deref(), expect, "{text}");
        };
        let unknown =
            |text: &str, shown: &str| check(text, Some(&format!("unrecognized pattern: '{shown}'")));
        let negative =
            |text: &str, shown: &str| check(text, Some(&format!("unrecognized negative pattern: '{shown}'")));
        let cone = |text: &str| check(text, None);
        cone("/*\n!/*/\n/in/\n");
        cone("# all\n\n/*\n!/*/\n/a/\n!/a/*/\n/a/b\\*/  \r\n");
        cone("/*\n/*/\n/a//b/\n///\n/a]/\n/a\\[/\n");
        cone("/a\\\\b/\n/a\\\\*/\n/a\\*/\n!/a\\*/*/\n/a/b/\n!/a/b/*/\n/a/");
        unknown("/*\n!/*/\nin/\n", "in");
        unknown("/*\n!/*/\n/in\n", "/in");
        unknown("/*\n!/*/\n/i*/\n", "/i*");
        unknown("/i[n]/\n", "/i[n]");
        unknown("*.rs\n", "*.rs");
        unknown("//\n", "/");
        unknown("/\n", "");
        unknown("  \n", "");
        unknown("!/a\n", "/a");
        unknown("/a/*/\n", "/a/*");
        unknown("/a/\n!/a/*/*/\n", "/a/*/*");
        unknown("!/**/\n", "/**");
        unknown("/a\\/\n", "/a\\");
        unknown("/a\\]/\n", "/a\\]");
        unknown("/a\\\\**/\n", "/a\\\\**");
        negative("!/*\n", "/*");
        negative("/*\n!/*/\n!/a/*/\n", "/a/*");
        negative("/a/\n!/a/*/\n!/a/*/\n", "/a/*");
        negative("/a/b/\n!/a/*/\n", "/a/*");
        negative("/a/\n!/a/\\*/\n", "/a/\\*");
        negative("/*\n!/*/\n!/a/\n", "/a");
        let repeated = "your sparse-checkout file may have issues: pattern '/a' is repeated";
        check("/a/\n!/a/*/\n/a/\n", Some(repeated));
        negative("/A/\n!/a/*/\n", "/a/*");
        assert_eq!(cone_fault(b"/A/\n!/a/*/\n", Case::Fold), None);
    }
}
