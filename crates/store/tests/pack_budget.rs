//! Budget: which indexes and packs are opened, of many. One test, because calls are counted for the whole process.

mod tiny_packs;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use packrace_os::count::{Op, Role, so_far};
use packrace_store::{OpenOptions, Quarantine, Repository};
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
    let folder = packrace_testkit::scratch_dir();
    let path = folder.path();
    Git::stock().run(path, &["init", "-q", "--bare", "."]);
    let start = SystemTime::now() - Duration::from_secs(PACKS);
    for number in 0..PACKS {
        let stem = write_pack(path, &[&format!("blob {number}"), "in all of them"]);
        let pack = File::options().append(true).open(stem.with_extension("pack")).unwrap();
        pack.set_modified(start + Duration::from_secs(number)).unwrap();
    }
    let repository = open(path);
    // Nothing, as long as nobody asks for an object; nor is the directory listed.
    let (indexes, packs, looks, snapshot) = opened(|| repository.unlisted_snapshot().unwrap());
    assert_eq!((indexes, packs), (0, 0));
    assert!(looks <= 4, "{looks}");
    // The newest pack is looked into first, and what is found there opens nothing else.
    let (indexes, packs, ..) = opened(|| {
        let newest = format!("blob {}", PACKS - 1);
        assert!(snapshot.contains(&id(&newest)).unwrap());
        assert_eq!(snapshot.reader(0).read(&id(&newest)).unwrap().data, newest.as_bytes());
    });
    assert_eq!((indexes, packs), (1, 1));
    // Every other index down to that of the pack which has it, and that pack.
    let (indexes, packs, ..) = opened(|| assert!(snapshot.contains(&id("blob 7")).unwrap()));
    assert_eq!((indexes, packs), (PACKS - 1 - 7, 1));
    // Whoever asks more often has a table made, which needs the others, and none of them twice.
    let (indexes, packs, ..) = opened(|| {
        for _ in 0..10 {
            assert!(snapshot.contains(&id("blob 7")).unwrap());
        }
    });
    assert_eq!((indexes, packs), (7, 0));
    let read = |blob: &str| {
        let object = snapshot.reader(1 << 16).read(&id(blob)).unwrap();
        assert_eq!(object.data, blob.as_bytes());
    };
    assert_eq!(opened(|| read("blob 7")).1, 0);
    assert_eq!(opened(|| read("in all of them")).1, 0, "the newest has it");
    assert_eq!(opened(|| assert!(!snapshot.contains(&id("blob none")).unwrap())).0, 0);
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
        opened(|| assert!(next.cached_snapshot().unwrap().contains(&id("blob 8")).unwrap()));
    assert_eq!((indexes, packs), (0, 0));
    // An index that went before it was searched has the directory listed anew once, and not for each object that is missing.
    let gone = write_pack(path, &["gone"]);
    let repository = open(path);
    let snapshot = repository.snapshot().unwrap();
    std::fs::remove_file(gone.with_extension("idx")).unwrap();
    assert!(!snapshot.contains(&id("gone")).unwrap());
    let (.., looks, ()) = opened(|| {
        for number in 0..1000 {
            assert!(!snapshot.contains(&id(&format!("none {number}"))).unwrap());
        }
    });
    assert!(looks <= 3 * PACKS, "{looks}");
    std::fs::remove_file(gone.with_extension("pack")).unwrap();
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
