//! Budget: which indexes and packs are opened, of many. One test, because calls are counted for the whole process.

mod tiny_packs;

use std::path::Path;

use packrace_os::count::{Op, Role, so_far};
use packrace_store::publish::Quarantine;
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;
use tiny_packs::{id, write_pack};

const PACKS: u64 = 300;

/// How many indexes and packs `work` maps, and how many names it looks at.
fn opened<T>(work: impl FnOnce() -> T) -> (u64, u64, u64, T) {
    let maps = || [Role::Index, Role::Pack].map(|role| so_far(role, Op::Map).0);
    let looks = || so_far(Role::Index, Op::Look).0 + so_far(Role::Pack, Op::Look).0;
    let (before, looks_before) = (maps(), looks());
    let done = work();
    let after = maps();
    (after[0] - before[0], after[1] - before[1], looks() - looks_before, done)
}

fn open(path: &Path) -> Repository {
    Repository::open(path, &OpenOptions::default()).unwrap()
}

#[test]
fn what_is_opened_of_many_packs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    Git::stock().run(path, &["init", "-q", "--bare", "."]);
    for number in 0..PACKS {
        write_pack(path, &[&format!("blob {number}"), "in all of them"]);
    }
    let repository = open(path);
    // Nothing, as long as nobody asks for an object; nor is the directory listed.
    let (indexes, packs, looks, snapshot) = opened(|| repository.unlisted_snapshot().unwrap());
    assert_eq!((indexes, packs), (0, 0));
    assert!(looks <= 4, "{looks}");
    // Every index and one pack for one object, however often it is asked for.
    let (indexes, packs, ..) = opened(|| {
        for _ in 0..10 {
            assert!(snapshot.contains(&id("blob 7")).unwrap());
        }
    });
    assert_eq!((indexes, packs), (PACKS, 1));
    let read = |blob: &str| {
        let object = snapshot.reader(1 << 16).read(&id(blob)).unwrap();
        assert_eq!(object.data, blob.as_bytes());
    };
    assert_eq!(opened(|| read("blob 7")).1, 0);
    assert_eq!(opened(|| read("in all of them")).1, 1);
    // What comes while one works costs itself, also seen through a quarantine.
    write_pack(path, &["another"]);
    let (indexes, packs, ..) = opened(|| {
        for _ in 0..3 {
            let snapshot = repository.snapshot().unwrap();
            assert!(snapshot.contains(&id("another")).unwrap());
            assert!(snapshot.contains(&id("blob 7")).unwrap());
        }
        let quarantine = Quarantine::create(&repository).unwrap();
        let snapshot = quarantine.snapshot().unwrap();
        assert!(snapshot.contains(&id("blob 8")).unwrap());
        assert!(!snapshot.contains(&id("blob none")).unwrap());
        let snapshot = repository.snapshot().unwrap();
        assert!(snapshot.contains(&id("blob 8")).unwrap());
    });
    assert_eq!((indexes, packs), (1, 2), "the pack that came, and that of blob 8");
    // One who opens the repository anew uses it on.
    let next = open(path);
    next.take_over_packs(&repository);
    let (indexes, packs, ..) =
        opened(|| assert!(next.kept_snapshot().unwrap().contains(&id("blob 8")).unwrap()));
    assert_eq!((indexes, packs), (0, 0));
    // A multi-pack-index stands for all, and only one pack that is younger has to be opened beside it.
    Git::stock().run(path, &["multi-pack-index", "write"]);
    write_pack(path, &["youngest"]);
    let repository = open(path);
    let (indexes, packs, ..) = opened(|| {
        let snapshot = repository.snapshot().unwrap();
        assert!(!snapshot.contains(&id("blob none")).unwrap());
    });
    assert_eq!((indexes, packs), (2, 0));
    let (indexes, packs, ..) = opened(|| {
        let snapshot = repository.snapshot().unwrap();
        assert!(snapshot.contains(&id("youngest")).unwrap());
        assert_eq!(snapshot.reader(0).read(&id("blob 9")).unwrap().data, b"blob 9");
    });
    assert_eq!((indexes, packs), (1, 2), "the index of the pack that is read");
}
