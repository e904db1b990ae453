//! Directories of the index by their names in lower case (git-config, `core.ignoreCase`).

use std::collections::HashMap;

use packrace_worktree::index::Index;
use packrace_worktree::paths::directories_above;

/// The name that each directory has in the index; of several in different case, the first.
pub(super) struct FoldedDirs(HashMap<Vec<u8>, Vec<u8>>);

impl FoldedDirs {
    /// The directories of an index. As in git, only ASCII letters have a case.
    pub(super) fn of(index: &Index) -> Self {
        let mut dirs = FoldedDirs(HashMap::new());
        for (key, _) in index.entries() {
            dirs.adopt(key.path());
        }
        dirs
    }

    /// A path whose directories have the case of those known; others become known.
    pub(super) fn adopt(&mut self, path: &[u8]) -> Vec<u8> {
        let mut adopted = path.to_vec();
        let mut start = 0;
        for dir in directories_above(path) {
            let end = dir.len();
            let name = self.0.entry(dir.to_ascii_lowercase()).or_insert_with(|| path[start..end].to_vec());
            adopted[start..end].copy_from_slice(name);
            start = end + 1;
        }
        adopted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_take_the_case_that_is_known() {
        let mut dirs = FoldedDirs(HashMap::new());
        for (path, adopted) in [
            ("Dir/a", "Dir/a"),
            ("dir/A", "Dir/A"),
            ("DIR/Sub/b", "Dir/Sub/b"),
            ("dir/sub/x/c", "Dir/Sub/x/c"),
            ("Dir2/SUB/c", "Dir2/SUB/c"),
            ("dir", "dir"),
            ("\u{c4}/a", "\u{c4}/a"),
            ("\u{e4}/a", "\u{e4}/a"),
        ] {
            assert_eq!(dirs.adopt(path.as_bytes()), adopted.as_bytes(), "{path}");
        }
    }
}
