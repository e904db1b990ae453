//! Checks whether the parent directories of paths are real.

use std::path::{Path, PathBuf};

use packrace_os::count::{Op, Role, add};

use super::path_of;

/// Caches the directories of the last path: with sorted paths, each directory is examined once.
pub struct LeadingDirs {
    top: PathBuf,
    /// The deepest known real directory, with a trailing slash.
    real: Vec<u8>,
    /// A path known not to be a directory, without a trailing slash.
    unreal: Vec<u8>,
    is_link: bool,
}

impl LeadingDirs {
    /// A cache for paths below the top of a work tree.
    pub fn new(top: &Path) -> Self {
        LeadingDirs { top: top.to_owned(), real: Vec::new(), unreal: Vec::new(), is_link: false }
    }

    /// Whether all parents of a path are directories, not links.
    pub fn are_real(&mut self, path: &[u8]) -> bool {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return true };
        let directory = &path[..=end];
        if self.real.starts_with(directory) {
            return true;
        }
        if !self.unreal.is_empty() && is_at_or_below(directory, &self.unreal) {
            return false;
        }
        let shared = self.real.iter().zip(directory).take_while(|(one, other)| one == other).count();
        let mut at = directory[..shared].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        while let Some(slash) = directory[at..].iter().position(|byte| *byte == b'/') {
            let name = &directory[..at + slash];
            add(Role::WorkTree, Op::Look, 0);
            let found = std::fs::symlink_metadata(self.top.join(path_of(name)));
            if !found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
                self.is_link = found.is_ok_and(|found| found.is_symlink());
                self.unreal = name.to_vec();
                return false;
            }
            at += slash + 1;
        }
        self.real = directory.to_vec();
        true
    }

    /// Whether a path leads through a symbolic link.
    pub fn has_link(&mut self, path: &[u8]) -> bool {
        !self.are_real(path) && self.is_link
    }
}

fn is_at_or_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}
