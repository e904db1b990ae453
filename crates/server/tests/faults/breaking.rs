//! What happens to files.

use std::path::{Path, PathBuf};

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is left.
    Emptied,
    /// Half is left: pages are gone.
    Halved,
    /// Some bytes less: no page is gone.
    Shortened,
    /// Other bytes, as many.
    Overwritten,
    /// Another file, with other bytes.
    Replaced,
    /// Something that cannot be read as a file.
    Unreadable,
}

pub const FAULTS: [Fault; 6] =
    [Fault::Emptied, Fault::Halved, Fault::Shortened, Fault::Overwritten, Fault::Replaced, Fault::Unreadable];

/// A file that something happens to, and what to put back.
pub struct Broken {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Broken {
    pub fn new(path: &Path, fault: Fault) -> Self {
        let bytes = std::fs::read(path).unwrap();
        // Git writes them read-only.
        let mut permissions = std::fs::metadata(path).unwrap().permissions();
        #[allow(clippy::permissions_set_readonly_false, reason = "in a folder of the test's own")]
        permissions.set_readonly(false);
        std::fs::set_permissions(path, permissions).unwrap();
        let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x55).collect();
        let cut = |length: usize| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(length as u64).unwrap();
        };
        match fault {
            Fault::Emptied => cut(0),
            Fault::Halved => cut(bytes.len() / 2),
            Fault::Shortened => cut(bytes.len() - 30),
            Fault::Overwritten => std::fs::write(path, other).unwrap(),
            Fault::Replaced => {
                let beside = path.with_file_name("other");
                std::fs::write(&beside, &other[..other.len() / 3]).unwrap();
                std::fs::rename(beside, path).unwrap();
            }
            Fault::Unreadable => {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            }
        }
        Broken { path: path.to_owned(), bytes }
    }

    /// In place, where something is.
    pub fn mend(&self) {
        if self.path.is_dir() {
            std::fs::remove_dir(&self.path).unwrap();
        }
        std::fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// The largest file of a folder whose name ends so.
#[track_caller]
pub fn file(repo: &Path, folder: &str, end: &str) -> PathBuf {
    let entries = std::fs::read_dir(repo.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.filter(|path| path.to_str().unwrap().ends_with(end));
    let largest = found.max_by_key(|path| std::fs::metadata(path).unwrap().len());
    largest.unwrap_or_else(|| panic!("no {end} in {folder} of {}", repo.display()))
}
