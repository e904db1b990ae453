//! The paths of a sparse checkout (git-sparse-checkout, "INTERNALS").

use gix_glob::pattern::Case;
use gix_ignore::Search;
use packrace_os::count::Role;
use packrace_store::Repository;

use super::{PathError, ignore, levels};

/// Largest pattern file.
const MAX_BYTES: u64 = 100 << 20;

/// The patterns of `info/sparse-checkout`.
pub struct SparseCheckout {
    patterns: Search,
    case: Case,
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
        Ok(Some(SparseCheckout { patterns, case: levels::case(repository.config())? }))
    }

    /// Whether a file is included: by the last pattern that matches it, else by the same rule for its parent
    /// directory, and so on.
    pub fn contains(&self, path: &[u8]) -> bool {
        let (mut path, mut is_dir) = (path, false);
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
