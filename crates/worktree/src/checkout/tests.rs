use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use packrace_object::{HashKind, ObjectId};
use packrace_os::simulated::{DiskFault, on_disk};
use packrace_store::ConfigSources;
use tempfile::TempDir;

use super::*;

fn item(mode: Mode) -> TreeItem {
    TreeItem { mode, id: ObjectId::null(HashKind::Sha1) }
}

const FILE: Mode = Mode::File;
const LINK: Mode = Mode::Link;

fn tree() -> (TempDir, WorkTree) {
    let dir = packrace_testkit::scratch_dir();
    std::fs::create_dir(dir.path().join("top")).unwrap();
    let settings = TreeSettings::of(&Config::outside(&ConfigSources::default()).unwrap()).unwrap();
    let tree = WorkTree::new(&dir.path().join("top"), settings);
    (dir, tree)
}

/// Sets up with `before`, writes `path`, and expects `content` at it.
fn check(before: impl Fn(&Path), path: &str, mode: Mode) {
    let (_dir, mut tree) = tree();
    let top = tree.top().to_owned();
    before(&top);
    let stat = tree.write(path.as_bytes(), &item(mode), b"content").unwrap();
    let seen = tree.look(path.as_bytes()).unwrap().unwrap();
    assert!(tree.settings().rules.is_same_kind(mode, seen.kind), "{:?}", seen.kind);
    assert_eq!(seen.stat, stat);
    assert_eq!(tree.read(path.as_bytes(), mode == LINK).unwrap(), b"content");
}

#[test]
fn whatever_is_in_the_way_goes() {
    for mode in [FILE, Mode::Executable, LINK] {
        check(|_| {}, "a", mode);
        check(|_| {}, "a/b/c", mode);
        check(|top| std::fs::write(top.join("a"), "old, and longer").unwrap(), "a", mode);
        check(|top| std::fs::write(top.join("a"), "old").unwrap(), "a/b/c", mode);
        check(|top| std::fs::create_dir_all(top.join("a/b/c")).unwrap(), "a", mode);
        check(|top| std::fs::write(top.join("kept"), "").unwrap(), "a", mode);
    }
}

#[test]
fn nothing_is_written_through_links() {
    let (dir, mut tree) = tree();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("b"), "theirs").unwrap();
    symlink(&outside, tree.top().join("a")).unwrap();
    assert_eq!(tree.look(b"a/b").unwrap(), None);
    tree.remove(b"a/b").unwrap();
    tree.write(b"a/b", &item(FILE), b"ours").unwrap();
    symlink(outside.join("b"), tree.top().join("l")).unwrap();
    tree.write(b"l", &item(FILE), b"ours").unwrap();
    assert_eq!(std::fs::read(outside.join("b")).unwrap(), b"theirs");
    assert_eq!(std::fs::read(tree.top().join("a/b")).unwrap(), b"ours");
    assert_eq!(std::fs::read(tree.top().join("l")).unwrap(), b"ours");
}

#[test]
fn paths_that_no_index_has() {
    let (_dir, mut tree) = tree();
    for path in ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", ".git/config", "a/.GIT/x", "git~1"] {
        for mode in [FILE, LINK] {
            let error = tree.write(path.as_bytes(), &item(mode), b"").unwrap_err();
            assert_eq!(error.to_string(), format!("invalid path '{path}'"));
        }
        assert!(tree.remove(path.as_bytes()).is_err());
    }
    assert!(tree.write(b".gitmodules", &item(LINK), b"x").is_err());
    assert!(tree.write(b"link", &item(LINK), b"x\0y").is_err());
    assert_eq!(std::fs::read_dir(tree.top()).unwrap().count(), 0);
}

#[test]
fn emptied_directories_go_and_repositories_stay() {
    let (_dir, mut tree) = tree();
    for path in ["a/b/c", "a/d"] {
        tree.write(path.as_bytes(), &item(FILE), b"").unwrap();
    }
    tree.remove(b"a/b/c").unwrap();
    assert_eq!(tree.look(b"a/b").unwrap(), None);
    assert!(tree.look(b"a").unwrap().is_some());
    tree.remove(b"a/d").unwrap();
    assert_eq!(tree.look(b"a").unwrap(), None);
    tree.write(b"sub", &item(Mode::Gitlink), b"").unwrap();
    std::fs::create_dir(tree.top().join("sub/.git")).unwrap();
    tree.write(b"sub", &item(Mode::Gitlink), b"").unwrap();
    assert!(tree.write(b"sub", &item(FILE), b"").is_err());
    assert_eq!(tree.look(b"sub/.git").unwrap().unwrap().kind, Kind::Dir);
}

#[test]
fn modes_follow_the_umask() {
    let (_dir, mut tree) = tree();
    tree.write(b"x", &item(Mode::Executable), b"").unwrap();
    let mode = std::fs::metadata(tree.top().join("x")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700);
}

/// On a full disk, and wherever else writing fails, what a file replaces stays.
#[test]
fn a_file_is_replaced_when_the_new_one_is_whole() {
    let write = |fault| {
        let (_dir, mut tree) = tree();
        let top = tree.top().to_owned();
        std::fs::write(top.join("f"), "old").unwrap();
        let (written, steps) = on_disk(fault, || tree.write(b"f", &item(FILE), b"new"));
        let left = std::fs::read_to_string(top.join("f")).unwrap();
        (written.is_ok(), left, std::fs::read_dir(&top).unwrap().count(), steps.len())
    };
    let (is_written, left, names, steps) = write(DiskFault::None);
    assert_eq!((is_written, left.as_str(), names), (true, "new", 1));
    for at in 0..steps {
        let (is_written, left, names, _) = write(DiskFault::At(at, ErrorKind::StorageFull));
        assert_eq!((is_written, left.as_str(), names), (false, "old", 1), "{at}");
    }
}
