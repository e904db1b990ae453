//! Packs that change after they were listed and before they are opened, and indexes that name what is not there.

mod tiny_packs;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::{ErrorKind, OpenOptions, Repository, Snapshot};
use packrace_testkit::Git;
use tiny_packs::{id, write_pack};

fn bare() -> tempfile::TempDir {
    let folder = packrace_testkit::scratch_dir();
    Git::stock().run(folder.path(), &["init", "-q", "--bare", "."]);
    folder
}

fn listed(path: &Path) -> Arc<Snapshot> {
    Repository::open(path, &OpenOptions::default()).unwrap().snapshot().unwrap()
}

fn read(snapshot: &Arc<Snapshot>, blob: &str) -> Result<Vec<u8>, ErrorKind> {
    snapshot.reader(1 << 16).read(&id(blob)).map(|object| object.data).map_err(|error| error.kind())
}

/// What becomes of a pack, by its path without an extension.
type Change = fn(&Path, &Path);

const CHANGES: [(&str, Change); 9] = [
    ("deleted", |_, stem| std::fs::remove_file(stem.with_extension("pack")).unwrap()),
    ("truncated", |_, stem| {
        let bytes = std::fs::read(stem.with_extension("pack")).unwrap();
        std::fs::write(stem.with_extension("pack"), &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("emptied", |_, stem| std::fs::write(stem.with_extension("pack"), b"").unwrap()),
    ("replaced by another", |path, stem| {
        let other = write_pack(path, &["another"]);
        std::fs::rename(other.with_extension("pack"), stem.with_extension("pack")).unwrap();
        std::fs::remove_file(other.with_extension("idx")).unwrap();
    }),
    ("a directory", |_, stem| {
        std::fs::remove_file(stem.with_extension("pack")).unwrap();
        std::fs::create_dir(stem.with_extension("pack")).unwrap();
    }),
    ("its index deleted", |_, stem| std::fs::remove_file(stem.with_extension("idx")).unwrap()),
    ("its index truncated", |_, stem| {
        let bytes = std::fs::read(stem.with_extension("idx")).unwrap();
        std::fs::write(stem.with_extension("idx"), &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("its index replaced by one of other objects", |path, stem| {
        let other = write_pack(path, &["another", "and another"]);
        std::fs::rename(other.with_extension("idx"), stem.with_extension("idx")).unwrap();
        std::fs::remove_file(other.with_extension("pack")).unwrap();
    }),
    ("its index replaced by a longer one", |path, stem| {
        let many: Vec<String> = (0..100).map(|number| format!("other {number}")).collect();
        let other = write_pack(path, &many.iter().map(String::as_str).collect::<Vec<_>>());
        std::fs::rename(other.with_extension("idx"), stem.with_extension("idx")).unwrap();
        std::fs::remove_file(other.with_extension("pack")).unwrap();
    }),
];

#[test]
fn a_pack_that_changes_between_listing_and_opening() {
    for with_multi in [false, true] {
        for (what, change) in CHANGES {
            let folder = bare();
            let path = folder.path();
            let stem = write_pack(path, &["only here", "twice"]);
            write_pack(path, &["twice", "elsewhere"]);
            write_pack(path, &["more"]);
            if with_multi {
                Git::stock().run(path, &["multi-pack-index", "write"]);
            }
            let snapshot = listed(path);
            change(path, &stem);
            let what = format!("{what}, multi-pack-index: {with_multi}");
            // As git has it, what is only in there is missing, and everything else is found.
            assert!(!snapshot.contains(&id("only here")).unwrap(), "{what}");
            assert_eq!(read(&snapshot, "only here"), Err(ErrorKind::Corrupt), "{what}");
            let stock =
                Git::stock().command(path).args(["cat-file", "-e", &id("only here").to_string()]).output();
            assert!(!stock.unwrap().status.success(), "{what}");
            for blob in ["twice", "elsewhere", "more"] {
                assert!(snapshot.contains(&id(blob)).unwrap(), "{what}: {blob}");
                assert_eq!(read(&snapshot, blob).as_deref(), Ok(blob.as_bytes()), "{what}");
                let ix = snapshot.lookup(&id(blob)).unwrap();
                let at = snapshot.locate(ix);
                assert!(snapshot.packs()[at.pack.0 as usize].is_usable(), "{what}: {blob}");
            }
            let usable = snapshot.packs().iter().filter(|pack| pack.is_usable()).count();
            assert_eq!(usable, 2, "{what}");
            // Stored elsewhere by now, as by a repack.
            write_pack(path, &["only here"]);
            assert_eq!(read(&snapshot, "only here").as_deref(), Ok(&b"only here"[..]), "{what}");
            assert!(snapshot.contains(&id("only here")).unwrap(), "{what}");
        }
    }
}

/// Nothing was searched yet when all is put elsewhere; and what came is put elsewhere again before it is searched.
#[test]
fn packs_that_are_repacked_between_listing_and_searching() {
    let folder = bare();
    let path = folder.path();
    let blobs: Vec<String> = (0..30).map(|number| format!("blob {number}")).collect();
    let mut stems: Vec<_> = blobs.iter().map(|blob| write_pack(path, &[blob])).collect();
    let snapshot = listed(path);
    for round in 0..3 {
        // Other packs of the same objects, as a repack makes them.
        let tip = format!("round {round}");
        let all: Vec<&str> = blobs.iter().map(String::as_str).chain([tip.as_str()]).collect();
        let new: Vec<_> = all.chunks(10).map(|part| [part, &[tip.as_str()]].concat()).collect();
        let new: Vec<_> = new.iter().map(|part| write_pack(path, part)).collect();
        for stem in std::mem::replace(&mut stems, new) {
            std::fs::remove_file(stem.with_extension("idx")).unwrap();
            std::fs::remove_file(stem.with_extension("pack")).unwrap();
        }
        // One only, so that the others are still unsearched when they go.
        let blob = &blobs[round * 7];
        assert!(snapshot.contains(&id(blob)).unwrap(), "{blob}");
        assert_eq!(read(&snapshot, blob).unwrap(), blob.as_bytes());
        assert!(!snapshot.contains(&id("none")).unwrap());
    }
    for blob in &blobs {
        assert!(snapshot.contains(&id(blob)).unwrap(), "{blob}");
        assert_eq!(read(&snapshot, blob).unwrap(), blob.as_bytes());
    }
}

/// A file that only claims to be an index of very many objects takes no numbers from others.
#[test]
fn a_sparse_index_that_claims_to_be_large() {
    let folder = bare();
    let path = folder.path();
    let stem = write_pack(path, &["only here"]);
    write_pack(path, &["elsewhere"]);
    File::options().write(true).open(stem.with_extension("idx")).unwrap().set_len(1 << 40).unwrap();
    let snapshot = listed(path);
    assert_eq!(read(&snapshot, "elsewhere").unwrap(), b"elsewhere");
    assert!(!snapshot.contains(&id("only here")).unwrap());
    assert!(snapshot.numbers_end() < 10);
}

#[test]
fn an_index_that_is_damaged_below_a_multi_pack_index() {
    let folder = bare();
    let path = folder.path();
    let stem = write_pack(path, &["only here", "twice"]);
    write_pack(path, &["twice", "elsewhere"]);
    Git::stock().run(path, &["multi-pack-index", "write"]);
    std::fs::write(stem.with_extension("idx"), b"no index").unwrap();
    let snapshot = listed(path);
    assert!(!snapshot.contains(&id("only here")).unwrap());
    assert_eq!(read(&snapshot, "twice").unwrap(), b"twice");
    assert_eq!(read(&snapshot, "elsewhere").unwrap(), b"elsewhere");
}

#[test]
fn a_multi_pack_index_beside_packs_that_came_and_went() {
    let folder = bare();
    let path = folder.path();
    let stems: Vec<_> = (0..20).map(|number| write_pack(path, &[&format!("blob {number}")])).collect();
    Git::stock().run(path, &["multi-pack-index", "write"]);
    let younger: Vec<String> = (0..20).map(|number| format!("younger {number}")).collect();
    younger.iter().for_each(|blob| drop(write_pack(path, &[blob, "blob 3"])));
    let check = |gone: &[usize]| {
        let snapshot = listed(path);
        for number in 0..20 {
            let blob = format!("blob {number}");
            let is_there = !gone.contains(&number) || number == 3;
            assert_eq!(snapshot.contains(&id(&blob)).unwrap(), is_there, "{blob}");
            assert_eq!(read(&snapshot, &blob).is_ok(), is_there, "{blob}");
        }
        for blob in &younger {
            assert_eq!(read(&snapshot, blob).unwrap(), blob.as_bytes());
        }
        snapshot.units().len()
    };
    assert_eq!(check(&[]), 21);
    for stem in [&stems[3], &stems[7]] {
        std::fs::remove_file(stem.with_extension("pack")).unwrap();
        std::fs::remove_file(stem.with_extension("idx")).unwrap();
    }
    // It falls with the packs that it names.
    assert_eq!(check(&[3, 7]), 38);
}

/// Every object has the number of the first unit that has it, whatever found it.
#[test]
fn numbers_are_those_of_the_first_unit() {
    let folder = bare();
    let path = folder.path();
    let mut ids: Vec<ObjectId> = Vec::new();
    for number in 0..200u32 {
        let blobs = [number, number / 2, number / 7, 1000 + number].map(|number| format!("blob {number}"));
        let mut blobs: Vec<&str> = blobs.iter().map(String::as_str).collect();
        blobs.sort_unstable();
        blobs.dedup();
        ids.extend(blobs.iter().map(|blob| id(blob)));
        write_pack(path, &blobs);
    }
    let snapshot = listed(path);
    let first = |wanted: &ObjectId| snapshot.packed().find(|ix| *snapshot.id(*ix) == **wanted);
    let expected: std::collections::HashMap<ObjectId, _> = ids.iter().map(|id| (*id, first(id))).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (round, wanted) in ids.iter().chain(&ids).enumerate() {
                    assert_eq!(snapshot.lookup(wanted), expected[wanted]);
                    assert_eq!(snapshot.lookup(&id(&format!("none {round}"))), None);
                }
            });
        }
    });
}
