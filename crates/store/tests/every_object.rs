//! Repositories of many layouts, built by stock git: every object that git lists is found and read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_store::{OpenOptions, Repository, Snapshot, Stored};
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, RepoBuilder, Size, Storage};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

fn open(path: &Path) -> Repository {
    Repository::open(path, &OpenOptions::default()).unwrap()
}

/// What `cat-file` knows of every object: kind and size.
fn listed(path: &Path) -> BTreeMap<ObjectId, (Kind, u64)> {
    let listing = Git::stock().run(path, &["cat-file", "--batch-all-objects", "--batch-check"]);
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let id = ObjectId::from_hex(fields[0].as_bytes()).unwrap();
        (id, (Kind::from_name(fields[1].as_bytes()).unwrap(), fields[2].parse().unwrap()))
    };
    listing.lines().map(parse).collect()
}

/// Reads everything by name and by number, with caches large and small.
fn check_everything(path: &Path, snapshot: &Arc<Snapshot>, expect: &BTreeMap<ObjectId, (Kind, u64)>) {
    assert!(!expect.is_empty());
    for cache_bytes in [0, 20_000, 16 << 20] {
        let mut reader = snapshot.reader(cache_bytes);
        for (id, (kind, size)) in expect {
            let object = reader.read(id).unwrap_or_else(|error| panic!("{}: {id}: {error}", path.display()));
            assert_eq!((object.kind, object.data.len() as u64), (*kind, *size), "{id}");
            assert_eq!(object_id(snapshot.hash_kind(), object.kind, &object.data), Ok(*id));
            assert_eq!(reader.kind_and_size(id).unwrap(), Some((*kind, *size)), "{id}");
            assert_eq!(reader.kind(id).unwrap(), Some(*kind), "{id}");
            let is_packed = snapshot.lookup(id).is_some();
            if let Some(ix) = snapshot.lookup(id) {
                assert_eq!(reader.size_at(ix).unwrap(), *size, "{id}");
            }
            assert!(is_packed || snapshot.has_loose(id).unwrap(), "{id}");
        }
    }
    check_numbers(snapshot, expect);
}

/// Numbers, names and places fit each other.
fn check_numbers(snapshot: &Arc<Snapshot>, expect: &BTreeMap<ObjectId, (Kind, u64)>) {
    let mut reader = snapshot.reader(1 << 20);
    let mut content = Vec::new();
    let mut start = 0;
    for unit in snapshot.units() {
        assert_eq!(unit.range().start, start, "units follow each other");
        start = unit.range().end;
    }
    assert_eq!(start, snapshot.numbers_end());
    for ix in snapshot.packed() {
        let id = snapshot.id(ix).to_owned();
        let first = snapshot.lookup(&id).unwrap();
        assert!(first.0 <= ix.0 && *snapshot.id(first) == *id);
        let place = snapshot.locate(ix);
        let pack = &snapshot.packs()[place.pack.0 as usize];
        assert_eq!(snapshot.ix_of_offset(place.pack, place.offset), Some(first));
        assert_eq!(snapshot.ix_of_offset(place.pack, place.offset + 1), None);
        let position = pack.position_of_offset(place.offset).unwrap();
        let (start, end) = pack.entry_range(position);
        assert!(start == place.offset && start < end);
        let kind = reader.read_at(ix, &mut content).unwrap();
        assert_eq!((kind, content.len() as u64), expect[&id]);
    }
    for pack in snapshot.packs() {
        let mut end = 12;
        for position in 0..pack.len() {
            assert_eq!(pack.entry_range(position).0, end, "entries follow each other");
            end = pack.entry_range(position).1;
        }
    }
}

fn check(hash: HashKind, storage: Storage) -> Arc<Snapshot> {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
    let repository = open(repo.path());
    assert_eq!(repository.hash_kind(), hash);
    let snapshot = repository.snapshot().unwrap();
    check_everything(repo.path(), &snapshot, &listed(repo.path()));
    check_commit_graph(repo.path(), &snapshot);
    check_bitmap(repo.path(), &snapshot);
    snapshot
}

fn check_commit_graph(path: &Path, snapshot: &Arc<Snapshot>) {
    let Some(graph) = snapshot.commit_graph() else { return };
    let lines = Git::stock().run(path, &["rev-list", "--all", "--parents"]);
    for line in lines.lines() {
        let ids: Vec<ObjectId> =
            line.split(' ').map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
        let Some(position) = graph.position_of(&ids[0]) else { continue };
        let commit = graph.commit_at(position).unwrap();
        let parents: Vec<ObjectId> = commit.parents.map(|parent| graph.id_at(parent).to_owned()).collect();
        assert_eq!(parents, ids[1..]);
    }
}

/// Every stored bitmap says what stock git's walk says, in the snapshot's numbers.
fn check_bitmap(path: &Path, snapshot: &Arc<Snapshot>) {
    let Some(bitmap) = snapshot.bitmap() else { return };
    let mut found = 0;
    for commit in Git::stock().run(path, &["rev-list", "--all"]).lines() {
        let ix = snapshot.lookup(&ObjectId::from_hex(commit.as_bytes()).unwrap()).unwrap();
        let mut bits = bitmap.no_bits();
        if !bitmap.or_into(ix, &mut bits).unwrap() {
            continue;
        }
        found += 1;
        let reached: BTreeSet<String> = bits
            .iter_ones()
            .map(|bit| {
                let ix = bitmap.bit_to_ix(bit).unwrap();
                assert_eq!(bitmap.ix_to_bit(ix), Some(bit));
                assert_eq!(snapshot.lookup(snapshot.id(ix)), Some(ix), "the one number of the object");
                snapshot.id(ix).to_string()
            })
            .collect();
        let walked = Git::stock().run(path, &["rev-list", "--objects", "--no-object-names", commit]);
        assert_eq!(reached, walked.lines().map(str::to_string).collect());
    }
    assert!(found > 0);
}

#[test]
fn one_pack_with_everything() {
    for hash in HASHES {
        for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
            let snapshot =
                check(hash, Storage { bitmap, commit_graph: GraphLayout::Single, ..Storage::default() });
            assert!(snapshot.bitmap().is_some() && snapshot.commit_graph().is_some());
            assert_eq!((snapshot.packs().len(), snapshot.units().len()), (1, 1));
        }
    }
}

#[test]
fn what_objects_take_on_disk() {
    for (hash, loose) in
        [(HashKind::Sha1, Loose::No), (HashKind::Sha256, Loose::No), (HashKind::Sha1, Loose::All)]
    {
        let storage = Storage { loose, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
        let snapshot = open(repo.path()).snapshot().unwrap();
        let format = "--batch-check=%(objectname) %(objectsize:disk) %(deltabase)";
        let listing = repo.git(&["cat-file", "--batch-all-objects", format]);
        for line in listing.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let id = |field: usize| ObjectId::from_hex(fields[field].as_bytes()).unwrap();
            let base = Some(id(2)).filter(|base| !base.is_null());
            let expect = Stored { bytes: fields[1].parse().unwrap(), base };
            assert_eq!(snapshot.stored(&id(0)).unwrap(), Some(expect), "{line}");
        }
        assert_eq!(snapshot.stored(&ObjectId::null(hash)).unwrap(), None);
    }
}

#[test]
fn packs_beside_loose_objects_and_a_kept_one() {
    for hash in HASHES {
        let storage = Storage { packs: 4, loose: Loose::Newest, keep_oldest: true, ..Storage::default() };
        let snapshot = check(hash, storage);
        assert!(snapshot.packs().len() >= 2 && snapshot.bitmap().is_none());
        assert_eq!(snapshot.packs().iter().filter(|pack| pack.has_keep()).count(), 1);
        assert!(snapshot.packs().iter().all(|pack| pack.is_local() && !pack.is_promisor()));
    }
}

#[test]
fn only_loose_objects() {
    for hash in HASHES {
        let snapshot = check(hash, Storage { packs: 2, loose: Loose::All, ..Storage::default() });
        assert_eq!((snapshot.packed_len(), snapshot.packs().len()), (0, 0));
    }
}

#[test]
fn many_packs_under_one_index() {
    for hash in HASHES {
        let storage = Storage {
            packs: 5,
            multi_pack_index: true,
            bitmap: Bitmap::Plain,
            commit_graph: GraphLayout::Split,
            ..Storage::default()
        };
        let snapshot = check(hash, storage);
        assert!(snapshot.packs().len() >= 4);
        assert_eq!(snapshot.units().len(), 1, "the multi-pack-index covers all");
        assert!(snapshot.bitmap().is_some() && snapshot.commit_graph().is_some());
    }
}

#[test]
fn packs_in_an_alternate() {
    let storage = Storage { packs: 4, alternate: true, loose: Loose::Newest, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let alternate = std::fs::read_to_string(repo.path().join("objects/info/alternates")).unwrap();
    let alternate = repo.path().join("objects").join(alternate.trim());
    for has_index in [false, true] {
        let snapshot = open(repo.path()).snapshot().unwrap();
        assert!(snapshot.packs().iter().any(|pack| pack.is_local()));
        assert!(snapshot.packs().iter().any(|pack| !pack.is_local()));
        assert_eq!(snapshot.units().iter().any(|unit| unit.single_pack().is_none()), has_index);
        check_everything(repo.path(), &snapshot, &listed(repo.path()));
        let option = format!("--object-dir={}", alternate.display());
        repo.git(&["multi-pack-index", option.as_str(), "write"]);
    }
}

#[test]
fn a_bitmap_behind_other_packs_has_the_numbers_of_lookup() {
    let storage = Storage { packs: 3, bitmap: Bitmap::No, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    repo.git(&["repack", "-adbq"]);
    // A newer pack with copies of what the bitmap is about, and a commit that it knows nothing of.
    repo.git(&["commit-tree", "-m", "new", "main^{tree}"]);
    let ids = repo.git(&["rev-list", "--objects", "--no-object-names", "-n", "5", "main"]);
    repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], ids.as_bytes());
    let snapshot = open(repo.path()).snapshot().unwrap();
    assert_eq!(snapshot.units().len(), 2);
    assert!(snapshot.bitmap().is_some());
    check_everything(repo.path(), &snapshot, &listed(repo.path()));
    check_bitmap(repo.path(), &snapshot);
    // With two bitmaps only one of their packs can come first.
    repo.git_with_input(&["pack-objects", "-q", "--all", "objects/pack/pack"], b"");
    repo.git(&["multi-pack-index", "write", "--bitmap"]);
    let snapshot = open(repo.path()).snapshot().unwrap();
    assert_eq!(snapshot.units().len(), 1);
    check_bitmap(repo.path(), &snapshot);
}

#[test]
fn a_chain_of_multi_pack_indexes() {
    for hash in HASHES {
        let storage = Storage { packs: 4, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
        let dir = repo.path().join("objects/pack");
        let mut names: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name.to_str().unwrap().ends_with(".idx"));
        let count = names.len();
        let repository = open(repo.path());
        assert_eq!(repository.snapshot().unwrap().units().len(), count);
        // A repository that is open already notices each new file.
        for (covered, name) in (1..).zip(&names) {
            let args = ["multi-pack-index", "write", "--incremental", "--stdin-packs"];
            repo.git_with_input(&args, name.as_encoded_bytes());
            let snapshot = repository.snapshot().unwrap();
            assert_eq!(snapshot.units().len(), count - covered + 1, "{covered} packs are covered");
            check_everything(repo.path(), &snapshot, &listed(repo.path()));
        }
        let units = || open(repo.path()).snapshot().unwrap().units().len();
        let check = || {
            let snapshot = open(repo.path()).snapshot().unwrap();
            check_everything(repo.path(), &snapshot, &listed(repo.path()));
        };
        let chain_dir = dir.join("multi-pack-index.d");
        let list = chain_dir.join("multi-pack-index-chain");
        let text = std::fs::read_to_string(&list).unwrap();
        let layers: Vec<&str> = text.lines().collect();
        assert_eq!(layers.len(), count);
        // The lowest files are used up to the first that cannot be.
        let second = chain_dir.join(format!("multi-pack-index-{}.midx", layers[1]));
        let bytes = std::fs::read(&second).unwrap();
        std::fs::remove_file(&second).unwrap();
        assert_eq!(units(), count);
        check();
        std::fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(units(), count);
        check();
        std::fs::write(
            &second,
            std::fs::read(chain_dir.join(format!("multi-pack-index-{}.midx", layers[2]))).unwrap(),
        )
        .unwrap();
        assert_eq!(units(), count, "the file of another checksum");
        std::fs::write(&second, &bytes).unwrap();
        assert_eq!(units(), 1);
        std::fs::write(&list, format!("{text}../../../x\n")).unwrap();
        assert_eq!(units(), count);
        std::fs::write(&list, format!("{}\n", layers[..2].join("\n"))).unwrap();
        assert_eq!(units(), count - 1);
        check();
        // A list that only makes look-ups slow: the same file again and again.
        std::fs::write(&list, format!("{}\n", layers[0]).repeat(1000)).unwrap();
        assert_eq!(units(), count);
        check();
        let own = open(repo.path()).snapshot().unwrap().own_multi_pack_index().unwrap();
        assert_eq!(own.chain.layers().len(), 256);
        // A single file is preferred.
        std::fs::write(&list, &text).unwrap();
        repo.git_with_input(&["multi-pack-index", "write", "--stdin-packs"], names[0].as_encoded_bytes());
        std::fs::create_dir_all(&chain_dir).unwrap();
        std::fs::write(&list, &text).unwrap();
        assert_eq!(units(), count);
        check();
    }
}

#[test]
fn old_indexes_without_reverse_indexes() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["-c", "pack.indexVersion=1", "-c", "pack.writeReverseIndex=false", "repack", "-adfq"]);
    let snapshot = open(repo.path()).snapshot().unwrap();
    assert_eq!(snapshot.packs()[0].index().crc32_at(0), None);
    check_everything(repo.path(), &snapshot, &listed(repo.path()));
}

#[test]
fn packs_with_bases_by_name() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"]);
    check_everything(repo.path(), &open(repo.path()).snapshot().unwrap(), &listed(repo.path()));
}

#[test]
fn nothing_at_all() {
    for hash in HASHES {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", &format!("--object-format={hash}"), "."]);
        let snapshot = open(dir.path()).snapshot().unwrap();
        assert_eq!((snapshot.packed_len(), snapshot.packs().len(), snapshot.units().len()), (0, 0, 0));
        let id = ObjectId::from_hex("11".repeat(hash.len_in_bytes()).as_bytes()).unwrap();
        assert_eq!(snapshot.lookup(&id), None);
        assert!(!snapshot.has_loose(&id).unwrap());
        let mut reader = snapshot.reader(0);
        assert_eq!(reader.kind_and_size(&id).unwrap(), None);
        assert!(reader.read(&id).unwrap_err().to_string().contains("is missing"));
        // git serves commits of the empty tree without storing it.
        assert!(snapshot.has_loose(&hash.empty_tree()).unwrap());
        let object = reader.read(&hash.empty_tree()).unwrap();
        assert_eq!((object.kind, object.data.len()), (Kind::Tree, 0));
        std::fs::remove_dir_all(dir.path().join("objects/pack")).unwrap();
        assert_eq!(open(dir.path()).snapshot().unwrap().packed_len(), 0);
    }
}

#[test]
fn objects_above_a_limit_are_refused() {
    let repo = RepoBuilder::new(Size::Tiny)
        .storage(Storage { packs: 3, loose: Loose::Newest, ..Storage::default() })
        .build();
    let snapshot = open(repo.path()).snapshot().unwrap();
    let mut reader = snapshot.reader(1 << 20).with_max_object_bytes(100);
    for (id, (_, size)) in listed(repo.path()) {
        match reader.read(&id) {
            Ok(object) => assert!(object.data.len() <= 100),
            // A delta's base may be longer than the object itself.
            Err(error) => {
                assert_eq!(error.kind(), packrace_store::ErrorKind::LimitExceeded, "{size} {error}")
            }
        }
    }
}

/// A group counts where all of its commits are asked for, and only then.
#[test]
fn pseudo_merges_are_used() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let settings = ["pattern=refs/", "threshold=now", "sampleRate=1", "maxMerges=1"];
    let settings = settings.map(|setting| format!("bitmapPseudoMerge.all.{setting}"));
    let mut args: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting.as_str()]).collect();
    args.extend(["repack", "-adbq"]);
    repo.git(&args);
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    let snapshot = repository.snapshot().unwrap();
    let bitmap = snapshot.bitmap().unwrap();
    let all = repo.git(&["rev-list", "--all"]);
    let bits = |ids: &str| {
        let mut bits = bitmap.no_bits();
        for id in ids.lines() {
            let ix = snapshot.lookup(&ObjectId::from_hex(id.as_bytes()).unwrap()).unwrap();
            bits.set(bitmap.ix_to_bit(ix).unwrap());
        }
        bits
    };
    let mut found = bitmap.no_bits();
    assert!(bitmap.or_pseudo_merges_into(&bits(&all), &mut found).unwrap() > 0);
    let reached = repo.git(&["rev-list", "--all", "--objects", "--no-object-names"]);
    assert!(!found.none() && found.iter_ones().all(|bit| bits(&reached).contains(bit)));
    let one = repo.git(&["rev-list", "--max-parents=0", "main"]);
    let mut found = bitmap.no_bits();
    assert_eq!(bitmap.or_pseudo_merges_into(&bits(&one), &mut found), Ok(0));
    assert!(found.none());
}
