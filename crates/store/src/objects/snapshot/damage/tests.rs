use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::faults::{Scope, contain};
use packrace_testkit::{Bitmap, GraphLayout, RefFormat, Repo, RepoBuilder, Size, Storage};

use super::*;
use crate::{CachedRepository, OpenOptions, Repository};

fn built(multi_pack_index: bool, ref_format: RefFormat) -> Repo {
    contain(Scope::Work).unwrap();
    let storage = Storage {
        packs: if multi_pack_index { 2 } else { 1 },
        multi_pack_index,
        bitmap: Bitmap::Plain,
        commit_graph: GraphLayout::Single,
        ..Storage::default()
    };
    RepoBuilder::new(Size::Tiny).storage(storage).ref_format(ref_format).build()
}

fn file(repo: &Repo, folder: &str, end: &str) -> PathBuf {
    let entries = std::fs::read_dir(repo.path().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    found.sort();
    found.pop().unwrap()
}

/// Lets the owner write to files that git has made read-only.
fn open(path: &std::path::Path) -> File {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    File::options().write(true).open(path).unwrap()
}

/// A snapshot with every file in use.
fn used(repo: &Repo) -> (Arc<Snapshot>, ObjectId) {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    let main = repository.refs().resolve(b"refs/heads/main").unwrap().unwrap().id;
    let snapshot = repository.snapshot().unwrap();
    assert!(snapshot.bitmap().is_some() && snapshot.commit_graph().is_some());
    snapshot.reader(0).read(&main).unwrap();
    for pack in snapshot.packs() {
        assert!(pack.position_of_offset(12).is_some());
    }
    (snapshot, main)
}

fn all(snapshot: &Snapshot) -> Vec<PackIx> {
    (0..snapshot.packs().len() as u32).map(PackIx).collect()
}

#[test]
fn every_file_that_was_used_is_looked_at() {
    let pack = "objects/pack";
    for (multi, folder, end) in [
        (false, pack, ".pack"),
        (false, pack, ".idx"),
        (false, pack, ".bitmap"),
        (false, "objects/info", "commit-graph"),
        (true, pack, "multi-pack-index"),
        (true, pack, ".bitmap"),
    ] {
        // Truncated to nothing, truncated within a page, and overwritten.
        for change in 0..3 {
            let repo = built(multi, RefFormat::Files);
            let path = file(&repo, folder, end);
            let (snapshot, _) = used(&repo);
            snapshot.check_files(all(&snapshot)).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            match change {
                0 => open(&path).set_len(0).unwrap(),
                1 => open(&path).set_len(bytes.len() as u64 - 1).unwrap(),
                _ => {
                    drop(open(&path));
                    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
                    std::fs::write(&path, bytes.iter().map(|byte| !byte).collect::<Vec<_>>()).unwrap();
                    open(&path).set_modified(later).unwrap();
                }
            }
            let error = snapshot.check_files(all(&snapshot)).unwrap_err();
            assert!(error.is_fault() && error.to_string().starts_with(path.to_str().unwrap()), "{error}");
            // From now on without a stat.
            assert!(snapshot.check_maps().unwrap_err().is_fault(), "{end}");
        }
    }
}

#[test]
fn what_is_only_touched_is_right() {
    let repo = built(true, RefFormat::Files);
    let (snapshot, main) = used(&repo);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    open(&file(&repo, "objects/pack", ".pack")).set_modified(later).unwrap();
    for end in [".pack", ".idx", "multi-pack-index", ".bitmap"] {
        std::fs::hard_link(file(&repo, "objects/pack", end), repo.path().join(format!("link{end}"))).unwrap();
    }
    snapshot.check_files(all(&snapshot)).unwrap();
    // A repack removes all of them.
    repo.git(&["repack", "-adq"]);
    snapshot.check_files(all(&snapshot)).unwrap();
    snapshot.reader(0).read(&main).unwrap();
}

#[test]
fn files_of_a_chain_of_commit_graphs_may_be_touched() {
    contain(Scope::Work).unwrap();
    let storage = Storage { bitmap: Bitmap::Plain, commit_graph: GraphLayout::Split, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let (snapshot, _) = used(&repo);
    let path = file(&repo, "objects/info/commit-graphs", ".graph");
    let later = |seconds| std::time::SystemTime::now() + std::time::Duration::from_secs(seconds);
    open(&path).set_modified(later(2)).unwrap();
    snapshot.check_files(all(&snapshot)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, bytes.iter().map(|byte| !byte).collect::<Vec<_>>()).unwrap();
    open(&path).set_modified(later(4)).unwrap();
    assert!(snapshot.check_files(all(&snapshot)).unwrap_err().is_fault());
}

#[test]
fn a_reader_gives_nothing_of_a_damaged_pack() {
    let repo = built(false, RefFormat::Files);
    let (snapshot, main) = used(&repo);
    let mut reader = snapshot.reader(1 << 20);
    let before = reader.read(&main).unwrap();
    let other_repo = built(false, RefFormat::Files);
    let (other, other_main) = used(&other_repo);
    let path = file(&repo, "objects/pack", ".pack");
    let bytes = std::fs::read(&path).unwrap();
    open(&path).set_len(0).unwrap();
    let error = snapshot.reader(0).read(&main).unwrap_err();
    assert!(error.is_fault() && error.to_string().contains(".pack: the file was"), "{error}");
    // Also for cached content, and for a reader that began before.
    assert!(
        reader.read(&main).unwrap_err().is_fault() && reader.kind_and_size(&main).unwrap_err().is_fault()
    );
    assert_eq!(other.reader(0).read(&other_main).unwrap(), before);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(used(&repo).0.reader(0).read(&main).unwrap(), before);
}

#[test]
fn a_repository_with_a_damaged_or_unusable_pack_is_not_kept() {
    let repo = built(false, RefFormat::Files);
    let path = file(&repo, "objects/pack", ".pack");
    let kept = || {
        let kept = CachedRepository::open(repo.path(), &OpenOptions::default()).unwrap();
        let snapshot = kept.repository().cached_snapshot().unwrap();
        // Packs are opened on demand.
        let is_usable = snapshot.packs().iter().all(Pack::is_usable);
        (kept, snapshot, is_usable)
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let (well, snapshot) = loop {
        let (kept, snapshot, _) = kept();
        if kept.is_current() {
            break (kept, snapshot);
        }
        assert!(std::time::Instant::now() < end, "never settled");
        packrace_os::clock::sleep(std::time::Duration::from_millis(10));
    };
    let bytes = std::fs::read(&path).unwrap();
    open(&path).set_len(0).unwrap();
    // Nothing has revealed it so far.
    assert!(well.is_current());
    snapshot.check_files(all(&snapshot)).unwrap_err();
    assert!(!well.is_current());
    let (without, _, is_usable) = kept();
    assert!(!is_usable && !without.is_current());
    std::fs::write(&path, bytes).unwrap();
    let (again, snapshot, is_usable) = kept();
    assert!(snapshot.packs().len() == 1 && is_usable && again.is_current());
}

#[test]
fn refs_from_a_file_that_was_cut_off_are_an_error() {
    for (format, folder, end) in
        [(RefFormat::Files, ".", "packed-refs"), (RefFormat::Reftable, "reftable", ".ref")]
    {
        for is_emptied in [true, false] {
            let repo = built(false, format);
            // Enough that the file is mapped. A short file is read instead, and its content stays as read.
            let tip = repo.git(&["rev-parse", "HEAD"]);
            let create = |number| format!("create refs/many/{number:064} {tip}");
            repo.git_with_input(
                &["update-ref", "--stdin"],
                (0..2000).map(create).collect::<String>().as_bytes(),
            );
            repo.git(&["pack-refs", "--all"]);
            let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
            let refs = repository.refs().snapshot(&[]).unwrap();
            let path = file(&repo, folder, end);
            refs.check_unchanged().unwrap();
            let length = std::fs::metadata(&path).unwrap().len();
            open(&path).set_len(if is_emptied { 0 } else { length - 1 }).unwrap();
            let count = |count: &mut usize| {
                refs.visit(b"refs/", &mut |_| {
                    *count += 1;
                    std::ops::ControlFlow::Continue(())
                })
            };
            let visited = count(&mut 0);
            if is_emptied {
                assert!(visited.is_err() && refs.find(b"refs/tags/of-a-tree").is_err(), "{end}");
            }
            let error = refs.check_unchanged().unwrap_err();
            assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
        }
    }
}

#[test]
fn a_loose_object_that_is_cut_off_is_an_error() {
    let repo = built(false, RefFormat::Files);
    let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], &[7; 100_000]);
    let id = ObjectId::from_hex(id.trim().as_bytes()).unwrap();
    let (snapshot, _) = used(&repo);
    let path = snapshot.own_loose_path(&id);
    let mut stream = snapshot.stream(&id).unwrap().unwrap();
    open(&path).set_len(0).unwrap();
    assert!(stream.read(&mut [0; 10]).is_err());
    assert!(snapshot.reader(0).read(&id).is_err());
}
