use std::path::Path;

use packrace_object::{Kind as ObjectKind, object_id};
use packrace_store::OpenOptions;
use packrace_store::publish::ObjectsStored;
use packrace_testkit::{Git, in_newest_words};

use super::*;

/// A repository with a work tree, and stock git in it.
struct World(tempfile::TempDir);

impl World {
    fn new(arguments: &[&str]) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let world = World(dir);
        world.git(&[&["init", "-q", "-b", "main"], arguments].concat());
        world
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, args: &[&str]) -> String {
        Git::stock().run(self.path(), args)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn repository(&self) -> Repository {
        Repository::open(self.path(), &OpenOptions::default()).unwrap()
    }

    fn lock(&self) -> IndexLock {
        IndexLock::take(&self.repository()).unwrap()
    }

    fn entry(&self, name: &str) -> IndexEntry {
        let path = self.path().join(name);
        let seen = look(&path).unwrap().unwrap();
        let rules = StatRules::of(self.repository().config()).unwrap();
        let content = std::fs::read(path).unwrap();
        let id = object_id(self.repository().hash_kind(), ObjectKind::Blob, &content).unwrap();
        IndexEntry { stat: seen.stat, ..IndexEntry::new(id, rules.mode(seen.kind, None).unwrap()) }
    }

    /// Git's complete listing of the index.
    fn listed(&self) -> String {
        self.git(&["ls-files", "-s", "-v", "--debug"])
    }
}

fn commit(lock: IndexLock) {
    lock.commit(&ObjectsStored::earlier(), &mut |_, _| false).unwrap();
}

#[test]
fn git_lists_what_we_write_as_what_it_writes() {
    for arguments in [&["--object-format=sha1"][..], &["--object-format=sha256"]] {
        for version in ["2", "4"] {
            let world = World::new(arguments);
            world.git(&["config", "index.version", version]);
            for (name, text) in [("b/c/d", "1"), ("b/e", "2"), ("a", "3"), ("b.x", "4")] {
                world.write(name, text);
            }
            world.git(&["add", "."]);
            let expect = world.listed();
            std::fs::remove_file(world.path().join(".git/index")).unwrap();
            let mut lock = world.lock();
            assert!(lock.index().is_empty() && !lock.index().is_changed());
            for name in ["b/e", "b/c/d", "b.x", "a"] {
                let entry = world.entry(name);
                lock.index_mut().insert(name.as_bytes(), 0, entry);
            }
            assert!(lock.index().is_changed());
            commit(lock);
            assert_eq!(world.listed(), expect);
            assert_eq!(world.git(&["update-index", "--show-index-version"]).trim(), version);
            world.git(&["fsck", "--strict"]);
            assert_eq!(
                world.git(&["status", "--porcelain"]).lines().filter(|l| !l.starts_with("A  ")).count(),
                0
            );
            assert_eq!(Index::read(&world.repository()).unwrap().len(), 4);
        }
    }
}

#[test]
fn files_and_directories_give_way_to_each_other() {
    let world = World::new(&[]);
    let id = world.repository().hash_kind().empty_blob();
    let check = |have: &[&str], add: &str, expect: &[&str], is_refused: bool| {
        let mut index = Index::empty(HashKind::Sha1);
        for path in have {
            index.try_insert(path.as_bytes(), 0, IndexEntry::new(id, Mode::File)).unwrap();
        }
        let refused = index.clone().try_insert(add.as_bytes(), 0, IndexEntry::new(id, Mode::File));
        assert_eq!(refused.is_err(), is_refused, "{add} to {have:?}");
        index.insert(add.as_bytes(), 0, IndexEntry::new(id, Mode::File));
        let paths: Vec<_> =
            index.entries().map(|(key, _)| String::from_utf8_lossy(key.path()).into_owned()).collect();
        assert_eq!(paths, expect, "{add} to {have:?}");
    };
    check(&["a", "b"], "c", &["a", "b", "c"], false);
    check(&["a", "b"], "a/c", &["a/c", "b"], true);
    check(&["a/b", "a/c/d", "a.x", "a0", "b"], "a", &["a", "a.x", "a0", "b"], true);
    check(&["a/b/c"], "a/b", &["a/b"], true);
    check(&["a"], "a/b/c", &["a/b/c"], true);
    check(&["a/b"], "a/b", &["a/b"], false);
    check(&["a-b", "a/b"], "a/c", &["a-b", "a/b", "a/c"], false);
}

#[test]
fn conflicts_are_resolved_and_remembered() {
    let world = World::new(&[]);
    world.write("f", "x");
    let id = world.git(&["hash-object", "-w", "f"]).trim().to_owned();
    let lines: String = (1..4).map(|stage| format!("100644 {id} {stage}\tf\n")).collect();
    Git::stock().run_with_input(world.path(), &["update-index", "--index-info"], lines.as_bytes());
    let mut lock = world.lock();
    assert!(lock.index().is_unmerged());
    assert_eq!(lock.index().stages(b"f").count(), 3);
    let entry = world.entry("f");
    lock.index_mut().insert(b"f", 0, entry);
    assert!(!lock.index().is_unmerged());
    commit(lock);
    assert_eq!(world.git(&["ls-files", "-s"]), format!("100644 {id} 0\tf\n"));
    assert_eq!(world.git(&["ls-files", "--resolve-undo"]), lines);
}

#[test]
fn trees_that_are_known_stay_known_but_for_what_changes() {
    let world = World::new(&[]);
    for name in ["a/b/c", "a/d", "e/f", "g"] {
        world.write(name, name);
    }
    world.git(&["add", "."]);
    let before = world.git(&["write-tree"]);
    let mut lock = world.lock();
    world.write("a/d", "new");
    let entry = world.entry("a/d");
    lock.index_mut().insert(b"a/d", 0, entry);
    commit(lock);
    world.git(&["hash-object", "-w", "a/d"]);
    let index = Index::read(&world.repository()).unwrap();
    let tree = index.cache_tree().unwrap();
    let known = |tree: Option<&CacheTree>| tree.unwrap().known.is_some();
    assert!(tree.known.is_none() && !known(tree.child(b"a")));
    assert!(known(tree.child(b"e")) && known(tree.child(b"a").unwrap().child(b"b")));
    let after = world.git(&["write-tree"]);
    assert_ne!(before, after);
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", after.trim()]), "a/b/c\na/d\ne/f\ng\n");
    world.git(&["fsck", "--strict"]);
}

#[test]
fn flags_and_versions() {
    let world = World::new(&[]);
    world.write("f", "x");
    world.git(&["add", "f"]);
    let mut lock = world.lock();
    assert!(lock.index_mut().set_flags(b"f", |entry| entry.skip_worktree = true));
    assert!(!lock.index_mut().set_flags(b"g", |entry| entry.skip_worktree = true));
    commit(lock);
    assert_eq!(world.git(&["ls-files", "-v"]), "S f\n");
    assert_eq!(world.git(&["update-index", "--show-index-version"]).trim(), "3");
    let mut lock = world.lock();
    lock.index_mut().set_flags(b"f", |entry| (entry.skip_worktree, entry.assume_valid) = (false, true));
    commit(lock);
    assert_eq!(world.git(&["ls-files", "-v"]), "h f\n");
    assert_eq!(world.git(&["update-index", "--show-index-version"]).trim(), "2");
}

#[test]
fn split_and_sparse_ones() {
    let world = World::new(&[]);
    for name in ["in/a", "out/b/c", "out/b.c", "out/d", "top"] {
        world.write(name, name);
    }
    world.git(&["add", "."]);
    world.git(&["update-index", "--split-index"]);
    world.write("new", "");
    world.git(&["add", "new"]);
    // In memory, git sets a flag on entries of the shared index.
    let listed = || world.listed().replace("flags: 8000000", "flags: 0");
    let expect = listed();
    let mut lock = world.lock();
    assert_eq!(lock.index().len(), 6);
    lock.index_mut().mark_changed();
    commit(lock);
    assert_eq!(listed(), expect);
    world.git(&["commit", "-qm", "all"]);
    world.git(&["update-index", "--no-split-index"]);
    world.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    let expect = world.git(&["ls-files", "-s", "-v"]);
    assert!(world.git(&["ls-files", "--sparse"]).contains("out/\n"), "a sparse index");
    let mut lock = world.lock();
    lock.index_mut().mark_changed();
    commit(lock);
    assert_eq!(world.git(&["-c", "index.sparse=false", "ls-files", "-s", "-v"]), expect);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// The shared indexes of a repository.
fn shared_indexes(world: &World) -> Vec<std::path::PathBuf> {
    let found = std::fs::read_dir(world.path().join(".git")).unwrap().map(|entry| entry.unwrap().path());
    let is_shared = |path: &std::path::PathBuf| path.to_string_lossy().contains("sharedindex.");
    found.filter(is_shared).collect()
}

#[test]
fn an_index_is_split_and_shared_anew() {
    for arguments in [&["--object-format=sha1"][..], &["--object-format=sha256"]] {
        let world = World::new(arguments);
        for number in 0..10 {
            world.write(&format!("dir/f{number}"), "x");
        }
        world.git(&["add", "."]);
        let mut lock = world.lock();
        lock.index_mut().set_split(true);
        commit(lock);
        let index = || std::fs::read(world.path().join(".git/index")).unwrap();
        let first = shared_indexes(&world);
        assert_eq!(first.len(), 1);
        assert!(contains(&index(), b"link"));
        assert_eq!(index()[8..12], [0; 4], "no entries of its own");
        // Of twelve entries, two new ones are less than a fifth; of thirteen, three are more.
        let put = |name: &str| {
            world.write(name, "new");
            let entry = world.entry(name);
            let mut lock = world.lock();
            lock.index_mut().insert(name.as_bytes(), 0, entry);
            commit(lock);
        };
        put("dir/g0");
        put("dir/g1");
        put("dir/f0");
        let mut lock = world.lock();
        lock.index_mut().remove(b"dir/f5");
        commit(lock);
        assert_eq!(shared_indexes(&world), first);
        let listed = world.git(&["ls-files", "-s"]);
        assert_eq!(listed.lines().count(), 11);
        assert!(listed.contains("dir/g1") && !listed.contains("dir/f5"), "{listed}");
        put("dir/g2");
        assert_eq!(shared_indexes(&world).len(), 2);
        let listed = world.git(&["ls-files", "-s"]);
        // The first is old enough to go, the one in use is not touched by that.
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        for path in shared_indexes(&world) {
            std::fs::File::open(path).unwrap().set_modified(old).unwrap();
        }
        let mut lock = world.lock();
        lock.index_mut().set_split(true);
        commit(lock);
        assert!(!first[0].exists());
        assert_eq!(world.git(&["ls-files", "-s"]), listed);
        let mut lock = world.lock();
        lock.index_mut().set_split(false);
        commit(lock);
        assert!(!contains(&index(), b"link"));
        assert_eq!(world.git(&["ls-files", "-s"]), listed);
        world.git(&["config", "core.splitIndex", "true"]);
        put("top");
        assert!(contains(&index(), b"link"));
        assert_eq!(world.git(&["ls-files", "-s"]).lines().count(), listed.lines().count() + 1);
    }
}

/// What git remembers of untracked files stays, but not of directories in which the index changed.
#[test]
fn untracked_files_are_remembered_where_nothing_changed() {
    let world = World::new(&[]);
    for name in ["x", "a/x", "a/b/x", "z/x"] {
        world.write(name, name);
    }
    world.git(&["add", "."]);
    world.git(&["update-index", "--untracked-cache"]);
    for name in ["y", "a/y", "a/b/y", "z/y"] {
        world.write(name, name);
    }
    let untracked = || world.git(&["status", "--porcelain"]);
    let (before, cache) = (untracked(), || world.lock().index().untracked.clone().unwrap());
    let full = cache();
    let mut lock = world.lock();
    lock.index_mut().insert(b"a/b/y", 0, world.entry("a/b/y"));
    lock.index_mut().remove(b"a/x");
    commit(lock);
    let less = cache();
    assert!(less.len() < full.len(), "{} of {} bytes", less.len(), full.len());
    let find = |text: &[u8]| contains(&less, text);
    assert!(find(b"z\0y\0") && !find(b"b\0y\0"), "{less:?}");
    let after = untracked();
    assert_eq!(after, world.git(&["-c", "core.untrackedCache=false", "status", "--porcelain"]));
    assert_ne!(after, before);
}

#[test]
fn a_lock_that_is_held_and_one_that_is_let_go() {
    let world = World::new(&[]);
    world.write("f", "x");
    world.git(&["add", "f"]);
    let first = world.lock();
    let error = IndexLock::take(&world.repository()).unwrap_err();
    assert!(error.is_locked());
    let stock = Git::stock().command(world.path()).args(["add", "f"]).output().unwrap();
    assert_eq!(in_newest_words(&String::from_utf8_lossy(&stock.stderr)), format!("fatal: {error}\n"));
    drop(first);
    world.git(&["add", "f"]);
}

#[test]
fn what_is_only_just_clean_is_looked_at_again() {
    let world = World::new(&[]);
    world.write("racy", "1");
    world.write("other", "2");
    world.git(&["add", "."]);
    // All times are equal, so that metadata shows no change.
    let index = world.path().join(".git/index");
    let touch = |name: &Path| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        std::fs::File::options().write(true).open(name).unwrap().set_modified(time).unwrap();
    };
    for name in ["racy", "other"] {
        touch(&world.path().join(name));
    }
    world.git(&["-c", "core.trustCtime=false", "update-index", "--refresh"]);
    touch(&index);
    let mut asked = Vec::new();
    let mut lock = world.lock();
    lock.index_mut().mark_changed();
    lock.commit(&ObjectsStored::earlier(), &mut |key, _| {
        asked.push(String::from_utf8_lossy(key.path()).into_owned());
        key.path() == b"racy"
    })
    .unwrap();
    assert_eq!(asked, ["other", "racy"]);
    let index = Index::read(&world.repository()).unwrap();
    assert_eq!(index.get(b"racy", 0).unwrap().stat.size_bytes, 0);
    assert_eq!(index.get(b"other", 0).unwrap().stat.size_bytes, 1);
    let rules = StatRules::of(world.repository().config()).unwrap();
    let seen = |name: &str| look(&world.path().join(name)).unwrap().unwrap();
    assert!(!rules.matches(index.get(b"racy", 0).unwrap(), &seen("racy")));
    assert!(rules.matches(index.get(b"other", 0).unwrap(), &seen("other")));
}

/// Every step of writing fails once, with a full disk and other errors, and the process is killed at each.
#[test]
fn an_index_that_cannot_be_written_stays_as_it_was() {
    use std::io::ErrorKind;

    use packrace_os::simulated::{DiskFault, DiskOp, on_disk};

    let world = World::new(&[]);
    world.git(&["config", "core.fsync", "added"]);
    world.write("f", "x");
    world.write("g", "y");
    world.git(&["add", "f"]);
    let path = world.path().join(".git/index");
    let before = std::fs::read(&path).unwrap();
    let repository = world.repository();
    let entry = world.entry("g");
    let write = || {
        let mut lock = IndexLock::take(&repository)?;
        lock.index_mut().insert(b"g", 0, entry);
        lock.commit(&ObjectsStored::earlier(), &mut |_, _| false)
    };
    let (written, steps) = on_disk(DiskFault::None, write);
    written.unwrap();
    let after = std::fs::read(&path).unwrap();
    let ops: Vec<&DiskOp> = steps.iter().map(|step| &step.op).collect();
    assert!(
        matches!(
            ops.as_slice(),
            [DiskOp::Create, DiskOp::Write(_), DiskOp::Sync, DiskOp::Rename(_), DiskOp::SyncDir]
        ),
        "{ops:?}"
    );
    for at in 0..steps.len() {
        let kinds = [
            ErrorKind::StorageFull,
            ErrorKind::QuotaExceeded,
            ErrorKind::Other,
            ErrorKind::ReadOnlyFilesystem,
        ];
        for fault in kinds.map(|kind| DiskFault::At(at, kind)).into_iter().chain([DiskFault::StopAt(at)]) {
            std::fs::write(&path, &before).unwrap();
            let (written, _) = on_disk(fault, write);
            assert!(written.is_err(), "{fault:?}");
            let found = std::fs::read(&path).unwrap();
            let is_renamed = at == steps.len() - 1;
            assert!(found == if is_renamed { after.clone() } else { before.clone() }, "{fault:?}");
            let lock = world.path().join(".git/index.lock");
            match fault {
                DiskFault::StopAt(_) => drop(std::fs::remove_file(lock)),
                _ => assert!(!lock.exists(), "{fault:?}"),
            }
        }
    }
    write().unwrap();
    assert_eq!(world.git(&["ls-files"]), "f\ng\n");
}

#[test]
fn what_is_read_may_be_anything() {
    let world = World::new(&[]);
    for name in ["a/b", "c"] {
        world.write(name, name);
    }
    world.git(&["add", "."]);
    // One shared index: git writes another when a fifth of the entries is not in it.
    world.git(&["config", "splitIndex.maxPercentChange", "100"]);
    world.git(&["update-index", "--split-index"]);
    world.write("d", "d");
    world.git(&["add", "d"]);
    let repository = world.repository();
    let read = || Index::read(&repository);
    let path = world.path().join(".git/index");
    let whole = std::fs::read(&path).unwrap();
    let shared = std::fs::read_dir(world.path().join(".git")).unwrap();
    let shared =
        shared.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().contains("sharedindex"));
    let shared = shared.unwrap();
    assert_eq!(read().unwrap().len(), 3);
    std::fs::rename(&shared, world.path().join("away")).unwrap();
    assert!(matches!(read(), Err(IndexError::Unreadable { .. })));
    // A different shared index.
    std::fs::write(&shared, &whole).unwrap();
    let error = read().unwrap_err();
    assert!(error.to_string().starts_with("broken index, expect "), "{error}");
    std::fs::rename(world.path().join("away"), &shared).unwrap();
    // Flips bytes in the link between the two, without a checksum that would detect it.
    let mut random = packrace_testkit::Random::new(3);
    let mut bytes = whole.clone();
    let end = bytes.len() - 20;
    bytes[end..].fill(0);
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random.below(3) {
            damaged[random.below(end)] = random.next_u64() as u8;
        }
        std::fs::write(&path, damaged).unwrap();
        let _ = read();
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(read().is_err(), "{length}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(read(), Err(IndexError::Unreadable { .. })));
}

/// Metadata decides only if nothing can have changed since.
#[test]
fn what_of_a_files_looks_counts() {
    let world = World::new(&[]);
    world.write("f", "x");
    let entry = world.entry("f");
    let seen = look(&world.path().join("f")).unwrap().unwrap();
    let check = |config: &[(&str, &str)], change: &dyn Fn(&mut StatData), expect: bool| {
        for (name, value) in config {
            world.git(&["config", name, value]);
        }
        let rules = StatRules::of(world.repository().config()).unwrap();
        let mut other = seen;
        change(&mut other.stat);
        assert_eq!(rules.matches(&entry, &other), expect, "{config:?}");
        for (name, _) in config {
            world.git(&["config", "--unset", name]);
        }
    };
    let no_ctime = [("core.trustCtime", "false")];
    let minimal = [("core.checkStat", "minimal")];
    check(&[], &|_| {}, true);
    check(&[], &|stat| stat.modified.seconds += 1, false);
    check(&[], &|stat| stat.modified.nanoseconds += 1, true);
    check(&[], &|stat| stat.changed.seconds += 1, false);
    check(&no_ctime, &|stat| stat.changed.seconds += 1, true);
    check(&[], &|stat| stat.inode += 1, false);
    check(&minimal, &|stat| stat.inode += 1, true);
    check(&minimal, &|stat| stat.user += 1, true);
    check(&minimal, &|stat| stat.size_bytes += 1, false);
    check(&[], &|stat| stat.device += 1, true);
}
