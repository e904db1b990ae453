//! Paths in variables that lead from where git is: `GIT_OBJECT_DIRECTORY`, `GIT_ALTERNATE_OBJECT_DIRECTORIES`,
//! `GIT_COMMON_DIR`, `GIT_SHALLOW_FILE`, `GIT_INDEX_FILE`, `GIT_CONFIG_GLOBAL` and `GIT_CONFIG_SYSTEM`.

use std::path::{Path, PathBuf};

use packrace_store::OpenOptions;

/// Where a relative `GIT_INDEX_FILE` leads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexStart {
    /// From where git is, as all other paths.
    Git,
    /// From the top of the work tree: git goes there to work on its files, also if that does not contain the current
    /// directory.
    Top,
}

/// Whether any of them is relative.
pub(super) fn has_relative_paths(options: &mut OpenOptions) -> bool {
    !relative_paths(options, IndexStart::Git).is_empty()
}

/// The options with paths that lead from `base`.
pub(super) fn starting_at(options: &OpenOptions, base: &Path, index_start: IndexStart) -> OpenOptions {
    let mut options = options.clone();
    for path in relative_paths(&mut options, index_start) {
        *path = base.join(&*path);
    }
    options
}

/// An empty path says that there is no such file.
fn relative_paths(options: &mut OpenOptions, index_start: IndexStart) -> Vec<&mut PathBuf> {
    let OpenOptions { config, object_dir, alternates, common_dir, shallow_file, index_file, .. } = options;
    let index_file = index_file.iter_mut().filter(|_| index_start == IndexStart::Git);
    let files = config.system.iter_mut().chain(config.global.iter_mut()).chain(index_file);
    let directories =
        [object_dir, common_dir, shallow_file].into_iter().flatten().chain(alternates.iter_mut());
    let all = directories.chain(files);
    all.filter(|path| path.is_relative() && !path.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_ones_are_moved() {
        let check = |path: &str, start, expect: [&str; 4]| {
            let path = PathBuf::from(path);
            let mut options = OpenOptions {
                object_dir: Some(path.clone()),
                alternates: vec![path.clone()],
                shallow_file: Some(path.clone()),
                index_file: Some(path.clone()),
                ..OpenOptions::default()
            };
            let is_relative = path.is_relative() && path != Path::new("");
            assert_eq!(has_relative_paths(&mut options), is_relative, "{}", path.display());
            let moved = starting_at(&options, Path::new("/top"), start);
            let found =
                [moved.object_dir, moved.alternates.into_iter().next(), moved.shallow_file, moved.index_file];
            assert_eq!(found.map(Option::unwrap), expect.map(PathBuf::from), "{}", path.display());
        };
        check("a", IndexStart::Git, ["/top/a"; 4]);
        check("a", IndexStart::Top, ["/top/a", "/top/a", "/top/a", "a"]);
        check("/a", IndexStart::Git, ["/a"; 4]);
        check("", IndexStart::Git, [""; 4]);
    }
}
