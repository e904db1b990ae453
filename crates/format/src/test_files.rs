//! Shared by the tests of all formats: files of built repositories, and damage done to them.

use std::path::{Path, PathBuf};

use packrace_object::{HashKind, ObjectId};
use packrace_testkit::{Repo, RepoBuilder, Size, Storage};

pub(crate) const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

pub(crate) fn tiny(hash: HashKind, storage: Storage) -> Repo {
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

/// All files with this extension in the repository's pack directory, sorted.
pub(crate) fn pack_files(repo: &Repo, extension: &str) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let mut files: Vec<PathBuf> = listing
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// The content of the only file with this extension.
pub(crate) fn pack_file(repo: &Repo, extension: &str) -> Vec<u8> {
    let files = pack_files(repo, extension);
    assert_eq!(files.len(), 1, "{extension}: {files:?}");
    read(&files[0])
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

pub(crate) fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

/// Reads `file` truncated at many lengths and with many single bytes changed. `use_everything` opens it and
/// calls every method; it must neither panic nor hang, and returns whether the file was accepted, which must
/// not happen when it is truncated.
pub(crate) fn damage(file: &[u8], mut use_everything: impl FnMut(&[u8]) -> bool) {
    assert!(use_everything(file), "undamaged");
    let step = (file.len() / 400).max(1);
    for end in (0..file.len()).step_by(step).chain(file.len().saturating_sub(50)..file.len()) {
        assert!(!use_everything(&file[..end]), "accepted when cut off at {end} of {}", file.len());
    }
    let mut damaged = file.to_vec();
    let dense = 0..file.len().min(200);
    for at in dense.chain((200..file.len()).step_by(step)) {
        for flip in [0x01, 0x80, 0xff] {
            damaged[at] ^= flip;
            use_everything(&damaged);
            damaged[at] ^= flip;
        }
    }
}
