//! How far up a repository is searched (git, `GIT_CEILING_DIRECTORIES` and `GIT_DISCOVERY_ACROSS_FILESYSTEM`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where a search for a repository ends.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryLimits {
    ceilings: Vec<Ceiling>,
    /// Whether the search goes on in the file system that a directory is mounted in.
    pub crosses_file_systems: bool,
}

#[derive(Debug, Clone)]
struct Ceiling {
    path: PathBuf,
    /// It follows an empty entry, so it has no symbolic links and is not resolved.
    is_real: bool,
}

impl DiscoveryLimits {
    /// Of variables: a list of absolute paths, and whether file systems are crossed.
    pub fn new(ceilings: Option<OsString>, crosses_file_systems: bool) -> Self {
        let mut is_real = false;
        let mut found = Vec::new();
        for entry in ceilings.unwrap_or_default().as_bytes().split(|byte| *byte == b':') {
            is_real |= entry.is_empty();
            let path = Path::new(OsStr::from_bytes(entry));
            if path.is_absolute() {
                found.push(Ceiling { path: path.to_owned(), is_real });
            }
        }
        DiscoveryLimits { ceilings: found, crosses_file_systems }
    }

    /// The lowest ceiling above `start`: the search ends below it. A ceiling does not exclude the directory where a search starts.
    pub(super) fn ceiling_above(&self, start: &Path) -> Option<PathBuf> {
        let real = self.ceilings.iter().filter_map(|ceiling| match ceiling.is_real {
            true => Some(ceiling.path.clone()),
            false => packrace_os::real_path(&ceiling.path).ok(),
        });
        real.filter(|path| start != path && start.starts_with(path))
            .max_by_key(|path| path.components().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, start: &str, expect: Option<&str>) {
        let limits = DiscoveryLimits::new(Some(list.into()), false);
        assert_eq!(limits.ceiling_above(Path::new(start)), expect.map(PathBuf::from), "{list} {start}");
    }

    #[test]
    fn the_lowest_ceiling_above_counts() {
        check("", "/a/b", None);
        check(":/a", "/a/b/c", Some("/a"));
        check(":/a:/a/b", "/a/b/c", Some("/a/b"));
        check(":/a/b:/a", "/a/b/c", Some("/a/b"));
        check(":/a/b/c", "/a/b/c", None);
        check(":/a/bc", "/a/bcd", None);
        check(":/", "/a", Some("/"));
        check(":a:b", "/a/b", None);
        // Resolved, what is not there is no ceiling.
        check("/nowhere/at/all", "/nowhere/at/all/b", None);
        check("::/nowhere", "/nowhere/b", Some("/nowhere"));
    }

    #[test]
    fn links_are_resolved_up_to_an_empty_entry() {
        let dir = packrace_testkit::scratch_dir();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("to/sub")).unwrap();
        std::os::unix::fs::symlink(real.join("to"), real.join("link")).unwrap();
        let link = real.join("link");
        let start = real.join("to/sub");
        check(link.to_str().unwrap(), start.to_str().unwrap(), real.join("to").to_str());
        check(&format!(":{}", link.display()), start.to_str().unwrap(), None);
    }
}
