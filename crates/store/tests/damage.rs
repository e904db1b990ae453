//! Damaged, cut off and missing files: reported and done without, never a panic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId, object_id};
use packrace_store::{Error, ErrorKind, OpenOptions, Repository, Snapshot};
use packrace_testkit::{Bitmap, GraphLayout, Loose, Repo, RepoBuilder, Size, Storage};

fn snapshot_of(path: &Path) -> Result<Arc<Snapshot>, Error> {
    Repository::open(path, &OpenOptions::default())?.snapshot()
}

fn ids(repo: &Repo) -> Vec<ObjectId> {
    let listing = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    listing.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect()
}

/// Calls everything there is and counts the objects that can be read and are what they are called.
fn use_everything(path: &Path, ids: &[ObjectId]) -> Result<usize, Error> {
    let snapshot = snapshot_of(path)?;
    let mut content = Vec::new();
    let mut reader = snapshot.reader(1 << 16);
    let mut good = 0;
    for id in ids {
        let _ = snapshot.has_loose(id);
        let _ = reader.kind_and_size(id);
        let _ = snapshot.lookup(id).map(|ix| reader.size_at(ix));
        if let Ok(object) = reader.read(id) {
            good += usize::from(object_id(snapshot.hash_kind(), object.kind, &object.data) == Ok(*id));
        }
    }
    for ix in snapshot.packed() {
        let place = snapshot.locate(ix);
        snapshot.ix_of_offset(place.pack, place.offset);
        let _ = reader.read_at(ix, &mut content);
    }
    for pack in snapshot.packs() {
        for position in 0..pack.len() {
            let (start, end) = pack.entry_range(position);
            assert!(start <= end && end as usize <= pack.bytes().len());
        }
    }
    if let Some(graph) = snapshot.commit_graph() {
        (0..graph.len()).for_each(|position| {
            let _ = graph.commit_at(position).map(|commit| commit.parents.count());
        });
    }
    if let Some(bitmap) = snapshot.bitmap() {
        for ix in snapshot.packed() {
            let mut bits = bitmap.no_bits();
            let _ = bitmap.or_into(ix, &mut bits);
            bits.iter_ones().for_each(|bit| {
                bitmap.bit_to_ix(bit);
            });
        }
    }
    Ok(good)
}

/// Every file below `dir` whose name has this ending, or is it.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.file_name().unwrap().to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// git's files are read-only.
fn overwrite(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
}

/// Damages the file in many ways and uses everything each time; `least` objects must stay readable.
fn damage(repo: &Repo, ids: &[ObjectId], file: &Path, least: usize) {
    let intact = std::fs::read(file).unwrap();
    let step = (intact.len() / 8).max(1);
    let check = |bytes: &[u8]| {
        overwrite(file, bytes);
        if let Ok(good) = use_everything(repo.path(), ids) {
            assert!(good >= least, "{good} of {} with {}", ids.len(), file.display());
        }
    };
    for end in (0..intact.len()).step_by(step).chain([intact.len() - 1]) {
        check(&intact[..end]);
    }
    for at in (0..intact.len()).step_by(step).chain(0..intact.len().min(16)).chain([intact.len() - 1]) {
        for flip in [0x01, 0x80] {
            let mut bytes = intact.clone();
            bytes[at] ^= flip;
            check(&bytes);
        }
    }
    check(&[intact.as_slice(), b"more"].concat());
    overwrite(file, &intact);
}

fn rich() -> (Repo, Vec<ObjectId>) {
    let storage = Storage {
        packs: 3,
        multi_pack_index: true,
        bitmap: Bitmap::Plain,
        commit_graph: GraphLayout::Split,
        ..Storage::default()
    };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let ids = ids(&repo);
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
    (repo, ids)
}

#[test]
fn damaged_accelerators_cost_no_object() {
    let (repo, ids) = rich();
    for ending in [".bitmap", ".graph", "commit-graph-chain"] {
        let found = files(&repo.path().join("objects"), ending);
        assert!(!found.is_empty(), "{ending}");
        found.iter().for_each(|file| damage(&repo, &ids, file, ids.len()));
    }
    // A repack leaves one pack, which has its own reverse index.
    repo.git(&["-c", "pack.writeReverseIndex=true", "repack", "-adq"]);
    let found = files(&repo.path().join("objects"), ".rev");
    assert!(!found.is_empty());
    found.iter().for_each(|file| damage(&repo, &ids, file, ids.len()));
}

#[test]
fn damaged_packs_and_indexes() {
    let (repo, ids) = rich();
    for ending in [".pack", ".idx", "multi-pack-index"] {
        let found = files(&repo.path().join("objects"), ending);
        assert!(!found.is_empty(), "{ending}");
        damage(&repo, &ids, &found[0], 0);
    }
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
}

#[test]
fn wrong_names_in_the_index_of_a_pack_beside_a_multi_pack_index() {
    let (repo, _) = rich();
    let file = files(&repo.path().join("objects/pack"), ".idx").remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let count = u32::from_be_bytes(bytes[1028..1032].try_into().unwrap()) as usize;
    // Behind what the order depends on.
    (0..count).for_each(|position| bytes[1032 + 20 * position + 15] ^= 4);
    overwrite(&file, &bytes);
    let snapshot = snapshot_of(repo.path()).unwrap();
    for ix in snapshot.packed() {
        let place = snapshot.locate(ix);
        assert_eq!(snapshot.ix_of_offset(place.pack, place.offset), Some(ix));
        assert_eq!(snapshot.ix_of_offset(place.pack, place.offset + 1), None);
    }
    assert!(snapshot.without_damaged_multi_pack_index().unwrap().is_none());
}

#[test]
fn a_request_can_go_on_without_a_damaged_multi_pack_index() {
    let (repo, ids) = rich();
    let file = files(&repo.path().join("objects/pack"), "multi-pack-index").remove(0);
    let intact = snapshot_of(repo.path()).unwrap();
    assert!(intact.without_damaged_multi_pack_index().unwrap().is_none());
    let hidden = ids.iter().find(|id| intact.lookup(id).is_some()).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(20).position(|name| name == hidden.as_bytes()).unwrap();
    bytes[at + 15] ^= 4;
    overwrite(&file, &bytes);
    let snapshot = snapshot_of(repo.path()).unwrap();
    assert!(!snapshot.contains(hidden).unwrap());
    let without = snapshot.without_damaged_multi_pack_index().unwrap().unwrap();
    let mut reader = without.reader(0);
    assert!(ids.iter().all(|id| reader.read(id).is_ok()));
}

#[test]
fn a_damaged_bitmap_or_commit_graph_is_not_used() {
    let (repo, _) = rich();
    for ending in [".bitmap", ".graph"] {
        let file = files(&repo.path().join("objects"), ending).remove(0);
        let intact = std::fs::read(&file).unwrap();
        for at in (0..300).chain((300..intact.len()).step_by(7)).take_while(|at| *at < intact.len()) {
            let mut bytes = intact.clone();
            bytes[at] ^= 0x10;
            overwrite(&file, &bytes);
            let snapshot = snapshot_of(repo.path()).unwrap();
            let is_used = match ending {
                ".bitmap" => snapshot.bitmap().is_some(),
                _ => snapshot.commit_graph().is_some(),
            };
            assert!(!is_used, "{ending} flipped at {at}");
        }
        overwrite(&file, &intact);
    }
}

#[test]
fn one_damaged_copy_of_two() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let ids = ids(&repo);
    let original = files(&repo.path().join("objects/pack"), ".pack").remove(0);
    // Packed alike and loose, everything exists twice.
    let copy = repo.path().join("copy");
    std::fs::create_dir_all(&copy).unwrap();
    let bytes = std::fs::read(&original).unwrap();
    repo.git(&["init", "-q", "--bare", "copy"]);
    repo.git_with_input(&["--git-dir=copy", "unpack-objects", "-q"], &bytes);
    std::fs::write(repo.path().join("objects/info/alternates"), "../copy/objects\n").unwrap();
    let mut damaged = bytes.clone();
    for at in (12..bytes.len() - 20).step_by(40) {
        damaged[at] ^= 0x55;
    }
    overwrite(&original, &damaged);
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
    // The trailer is not what the index names: the whole pack is left out.
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    overwrite(&original, &damaged);
    let snapshot = snapshot_of(repo.path()).unwrap();
    // Its index is in order, and the pack is looked into when an object of it is asked for.
    assert!(ids.iter().all(|id| snapshot.lookup(id).is_none()));
    assert_eq!(snapshot.packs().iter().filter(|pack| pack.is_usable()).count(), 0);
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
}

#[test]
fn missing_halves_and_strays() {
    let (repo, ids) = rich();
    let packs = repo.path().join("objects/pack");
    std::fs::write(packs.join("pack-stray.idx"), "no index").unwrap();
    std::fs::write(packs.join("pack-junk.idx"), "no index").unwrap();
    std::fs::write(packs.join("pack-junk.pack"), "no pack").unwrap();
    std::fs::write(packs.join("tmp_pack_x"), "half").unwrap();
    std::fs::create_dir(packs.join("pack-dir.idx")).unwrap();
    std::fs::create_dir(packs.join("pack-dir.pack")).unwrap();
    std::os::unix::fs::symlink("/nowhere", packs.join("pack-link.idx")).unwrap();
    std::os::unix::fs::symlink("/nowhere", packs.join("pack-link.pack")).unwrap();
    std::fs::write(repo.path().join("objects/aa"), "no directory").ok();
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
    // A pack without its index is no pack, and the multi-pack-index that names it falls with it.
    let snapshot = snapshot_of(repo.path()).unwrap();
    let count = snapshot.packs().len();
    assert!(snapshot.units().len() < count);
    let pack = snapshot.packs().iter().find(|pack| pack.is_usable()).unwrap();
    std::fs::remove_file(packs.join(format!("{}.idx", pack.name()))).unwrap();
    let after = snapshot_of(repo.path()).unwrap();
    assert_eq!((after.packs().len(), after.units().len()), (count - 1, count - 1));
    assert!(after.bitmap().is_none());
}

#[test]
fn an_alternate_whose_directories_are_files() {
    let repo = RepoBuilder::new(Size::Tiny).storage(Storage { packs: 2, ..Storage::default() }).build();
    let ids = ids(&repo);
    let alternate = repo.path().join("alternate");
    std::fs::create_dir(&alternate).unwrap();
    std::fs::write(alternate.join("pack"), "no directory").unwrap();
    ids.iter().for_each(|id| std::fs::write(alternate.join(&id.to_string()[..2]), "no directory").unwrap());
    std::fs::write(repo.path().join("objects/info/alternates"), "../alternate\n").unwrap();
    assert_eq!(use_everything(repo.path(), &ids).unwrap(), ids.len());
    std::fs::remove_dir_all(repo.path().join("objects/pack")).unwrap();
    std::fs::write(repo.path().join("objects/pack"), "no directory").unwrap();
    assert_eq!(snapshot_of(repo.path()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn damaged_loose_objects() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let storage = Storage { packs: 2, loose: Loose::All, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
        let ids = ids(&repo);
        let hex = ids[0].to_string();
        let file = repo.path().join("objects").join(&hex[..2]).join(&hex[2..]);
        damage(&repo, &ids, &file, ids.len() - 1);
        overwrite(&file, b"junk");
        let error = snapshot_of(repo.path()).unwrap().reader(0).read(&ids[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with(&format!("loose object {hex} (stored in ")), "{error}");
    }
}

#[test]
fn damaged_descriptions() {
    let repo = RepoBuilder::new(Size::Tiny)
        .storage(Storage { packs: 2, alternate: true, shallow_depth: None, ..Storage::default() })
        .build();
    let ids = ids(&repo);
    std::fs::write(repo.path().join("shallow"), format!("{}\n", ids[0])).unwrap();
    for name in ["config", "HEAD", "objects/info/alternates", "shallow"] {
        damage(&repo, &ids, &repo.path().join(name), 0);
    }
}

/// An entry in a pack made by hand.
fn entry(kind: u8, size: usize, base: &[u8], content: &[u8], pack: &mut Vec<u8>) {
    assert!(size < 16);
    pack.push(kind << 4 | size as u8);
    pack.extend_from_slice(base);
    packrace_format::zlib::deflate(content, 6, pack);
}

#[test]
fn bases_that_lead_in_a_circle() {
    // Two deltas by name that are each other's base: stock git would never index such a pack, so the index is made
    // for honest objects and the pack is changed under it.
    let dir = packrace_testkit::scratch_dir();
    let git = packrace_testkit::Git::stock();
    git.run(dir.path(), &["init", "-q", "--bare", "."]);
    let names = [b"a".as_slice(), b"b"].map(|content| {
        let id = git.run_with_input(dir.path(), &["hash-object", "-w", "--stdin"], content);
        ObjectId::from_hex(id.trim_ascii()).unwrap()
    });
    let mut pack = Vec::new();
    packrace_format::pack::write_header(2, &mut pack);
    let mut offsets = BTreeMap::new();
    for (name, base) in [(names[0], names[1]), (names[1], names[0])] {
        offsets.insert(name, pack.len() as u32);
        entry(7, 4, base.as_slice(), &[1, 1, 1, b'x'], &mut pack);
    }
    let trailer = |bytes: &[u8]| {
        let mut hasher = packrace_object::TrailerHasher::new(HashKind::Sha1);
        hasher.update(bytes);
        hasher.finish()
    };
    pack.extend_from_slice(trailer(&pack).as_slice());
    let mut index = Vec::new();
    for first in 0..=255u8 {
        let count = offsets.keys().filter(|id| id.first_byte() <= first).count() as u32;
        index.extend(count.to_be_bytes());
    }
    for (id, offset) in &offsets {
        index.extend(offset.to_be_bytes());
        index.extend_from_slice(id.as_slice());
    }
    index.extend_from_slice(&pack[pack.len() - 20..]);
    index.extend_from_slice(trailer(&index).as_slice());
    std::fs::write(dir.path().join("objects/pack/pack-1.pack"), &pack).unwrap();
    std::fs::write(dir.path().join("objects/pack/pack-1.idx"), &index).unwrap();
    // The loose copies come to the rescue, as in git.
    let read = |id: &ObjectId| snapshot_of(dir.path()).unwrap().reader(1 << 20).read(id);
    assert_eq!(snapshot_of(dir.path()).unwrap().packed_len(), 2);
    assert_eq!(read(&names[0]).unwrap().data, b"a");
    for id in &names {
        let hex = id.to_string();
        std::fs::remove_file(dir.path().join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
    }
    let error = read(&names[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("delta chain is longer than 65535"), "{error}");
    let sizes = snapshot_of(dir.path()).unwrap().reader(0).kind_and_size(&names[1]);
    assert_eq!(sizes.unwrap_err().kind(), ErrorKind::Corrupt);
}
