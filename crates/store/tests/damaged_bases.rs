//! Delta chains with damage: as in git, another copy of a base is read, in another pack or loose.

use std::path::{Path, PathBuf};

use packrace_object::{ObjectId, object_id};
use packrace_store::{ErrorKind, OpenOptions, Repository};
use packrace_testkit::Git;

/// A repository without objects.
fn empty() -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    dir
}

/// Versions of one file, all of different lengths. Each changes more of it than the one before.
fn versions() -> Vec<Vec<u8>> {
    let noise = |number: u32| number.wrapping_mul(2_654_435_761) % 999_983;
    let line = |version: u32, number: u32| match number < version * 5 {
        true => format!("line {number} changed to {}\n", noise(number + 100)),
        false => format!("line {number} {}\n", noise(number)),
    };
    let text = |version| (0..40).map(|number| line(version, number)).collect::<String>();
    (0..6).map(|version| text(version).into_bytes()).collect()
}

/// Stores them loose.
fn store(path: &Path, versions: &[Vec<u8>]) -> Vec<ObjectId> {
    let store = |version: &Vec<u8>| {
        let id = Git::stock().run_with_input(path, &["hash-object", "-w", "--stdin"], version);
        ObjectId::from_hex(String::from_utf8_lossy(&id).trim().as_bytes()).unwrap()
    };
    versions.iter().map(store).collect()
}

/// Packs objects.
fn pack(path: &Path, ids: &[ObjectId], options: &[&str], name: &str) -> PathBuf {
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let base = format!("objects/pack/{name}");
    let arguments = [&["pack-objects", "-q"], options, &[&base]].concat();
    let hash = Git::stock().run_with_input(path, &arguments, list.as_bytes());
    let hash = String::from_utf8_lossy(&hash).trim().to_owned();
    let file = path.join(format!("{base}-{hash}.pack"));
    assert!(file.exists(), "{}", file.display());
    file
}

/// Where a loose object is.
fn loose(id: &ObjectId) -> String {
    let hex = id.to_string();
    format!("objects/{}/{}", &hex[..2], &hex[2..])
}

fn remove_loose(path: &Path) {
    Git::stock().run(path, &["prune-packed", "-q"]);
}

/// Gives a pack another content, or at least another time.
fn overwrite(file: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(file);
    std::fs::write(file, bytes).unwrap();
}

/// How many objects are read right, and how many are not read; none is wrong.
fn read_all(path: &Path, ids: &[ObjectId], cache_bytes: usize) -> [usize; 2] {
    let snapshot = Repository::open(path, &OpenOptions::default()).unwrap().snapshot().unwrap();
    let mut reader = snapshot.reader(cache_bytes);
    let mut found = [0; 2];
    for id in ids {
        let size = snapshot.lookup(id).map(|ix| reader.size_at(ix));
        let kind_and_size = reader.kind_and_size(id);
        match reader.read(id) {
            Ok(object) => {
                assert_eq!(object_id(snapshot.hash_kind(), object.kind, &object.data), Ok(*id));
                // They may be those of a header whose damage only reading shows.
                assert!(kind_and_size.unwrap().is_some());
                assert!(size.is_none_or(|size| size.is_ok()));
                found[0] += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                found[1] += 1;
            }
        }
    }
    found
}

/// Damages every byte of a pack of deltas and reads everything. Only bases have copies, so the others are read only with
/// those. Types of entries are left alone: nothing shows that they are wrong.
fn damage(options: &[&str], copies: &[&str]) {
    let dir = empty();
    let path = dir.path();
    let ids = store(path, &versions());
    let chain = pack(path, &ids, options, "chain");
    let listing = Git::stock().run(path, &["verify-pack", "-v", chain.to_str().unwrap()]);
    let lines: Vec<Vec<&str>> = listing.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|fields| fields.get(5) == Some(&"3")), "deep enough: {listing}");
    let is_base = |id: &ObjectId| lines.iter().any(|fields| fields.get(6) == Some(&id.to_string().as_str()));
    let (bases, tops): (Vec<ObjectId>, Vec<ObjectId>) = ids.iter().copied().partition(is_base);
    let entry = |id: &ObjectId| {
        let hex = id.to_string();
        let fields = lines.iter().find(|fields| fields[0] == hex).unwrap();
        let [length, start] = [3, 4].map(|at| fields[at].parse::<usize>().unwrap());
        start..start + length
    };
    let of_tops: Vec<_> = tops.iter().map(entry).collect();
    let is_loose = copies == ["loose"];
    if !is_loose && !copies.is_empty() {
        pack(path, &bases, copies, "z");
    }
    remove_loose(path);
    if is_loose {
        // What is packed is not stored again where it is.
        let elsewhere = empty();
        store(elsewhere.path(), &versions());
        bases.iter().for_each(|id| {
            let name = loose(id);
            std::fs::create_dir_all(path.join(&name).parent().unwrap()).unwrap();
            std::fs::copy(elsewhere.path().join(&name), path.join(&name)).unwrap();
        });
    }
    let sound = std::fs::read(&chain).unwrap();
    let mut unread = 0;
    for at in 12..sound.len() - 20 {
        let flip = [0x01, 0x0f, 0x80][at % 3];
        let mut bytes = sound.clone();
        bytes[at] ^= flip;
        overwrite(&chain, &bytes);
        let without_copy = of_tops.iter().filter(|entry| entry.contains(&at)).count();
        for cache_bytes in [0, 1 << 20] {
            let [good, bad] = read_all(path, &ids, cache_bytes);
            let is_survived = copies.is_empty() || bad <= without_copy;
            assert!(is_survived, "byte {at} ^ {flip:#x}: {good} good, {bad} bad");
            unread += if without_copy == 0 { bad } else { 0 };
        }
    }
    assert_eq!(unread > 0, copies.is_empty());
}

#[test]
fn every_damage_is_survived_with_another_pack() {
    for kind in [&["--depth=9"][..], &["--depth=9", "--delta-base-offset"]] {
        damage(kind, &["--window=0"]);
        damage(kind, &["--depth=2", "--no-reuse-delta", "--delta-base-offset"]);
    }
}

#[test]
fn every_damage_is_survived_with_loose_objects() {
    damage(&["--depth=9"], &["loose"]);
    damage(&["--depth=9", "--delta-base-offset"], &["loose"]);
}

#[test]
fn without_another_copy_it_is_an_error() {
    damage(&["--depth=9", "--delta-base-offset"], &[]);
    damage(&["--depth=9"], &[]);
}

/// Two packs whose deltas are of bases that are damaged here and deltas there.
#[test]
fn copies_that_are_deltas_of_each_other_end() {
    let dir = empty();
    let path = dir.path();
    let git = Git::stock();
    let blobs = store(path, &versions()[..2]);
    let commit = |blob: ObjectId, parents: &[&str]| {
        let tree = git.run_with_input(path, &["mktree"], format!("100644 blob {blob}\tf\n").as_bytes());
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        git.run(path, &[&["commit-tree", "-m", "one", &tree], parents].concat()).trim().to_owned()
    };
    let mut damaged = Vec::new();
    for (wanted, known) in [(0, 1), (1, 0)] {
        let parent = commit(blobs[known], &[]);
        let revisions = format!("{}\n^{parent}\n", commit(blobs[wanted], &["-p", &parent]));
        let arguments = ["pack-objects", "-q", "--thin", "--revs", "--stdout"];
        let thin = git.run_with_input(path, &arguments, revisions.as_bytes());
        git.run_with_input(path, &["index-pack", "--stdin", "--fix-thin"], &thin);
        let packs = std::fs::read_dir(path.join("objects/pack")).unwrap().map(|file| file.unwrap().path());
        let pack = packs.filter(|file| file.extension().is_some_and(|end| end == "pack"));
        let pack = pack.into_iter().find(|file| !damaged.contains(file)).unwrap();
        let listing = git.run(path, &["verify-pack", "-v", pack.to_str().unwrap()]);
        let line = |id: ObjectId| listing.lines().find(|line| line.starts_with(&id.to_string())).unwrap();
        assert!(line(blobs[wanted]).ends_with(&blobs[known].to_string()), "{listing}");
        let at: usize = line(blobs[known]).split_whitespace().nth(4).unwrap().parse().unwrap();
        let mut bytes = std::fs::read(&pack).unwrap();
        bytes[at + 9] ^= 0xff;
        overwrite(&pack, &bytes);
        damaged.push(pack);
    }
    let of_first = path.join(loose(&blobs[0]));
    let saved = std::fs::read(&of_first).unwrap();
    blobs.iter().for_each(|blob| std::fs::remove_file(path.join(loose(blob))).unwrap());
    assert_eq!(read_all(path, &blobs, 0), [0, 2]);
    std::fs::write(of_first, saved).unwrap();
    assert_eq!(read_all(path, &blobs, 0), [2, 0]);
    assert_eq!(read_all(path, &blobs, 1 << 20), [2, 0]);
}
