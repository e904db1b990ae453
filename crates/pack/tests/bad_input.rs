//! Packs that git would never write: unreadable content must never get into a new pack, in any way of making
//! one.

use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::{PackPlan, plan, plan_list};
use packrace_pack::{ErrorKind, NameHash, NoProgress, PackRequest, RequestObjects, Settings};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::received::objects_in_pack;

/// A way to make a pack.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Spans of stored bytes, for a client; objects are wanted by id.
    Spans,
    /// Object by object, with a delta search.
    Composed,
    /// To be stored: object by object, stored bytes checked first.
    Stored,
}

const WAYS: [Way; 3] = [Way::Spans, Way::Composed, Way::Stored];

fn repository() -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    dir
}

fn blob(content: &[u8]) -> ObjectId {
    object_id(HashKind::Sha1, Kind::Blob, content).unwrap()
}

/// Text without repetitions, in lines.
fn text(seed: u32, lines: u32) -> Vec<u8> {
    (0..lines)
        .flat_map(|line| format!("{}\n", (line ^ seed).wrapping_mul(0x9e37_79b9)).into_bytes())
        .collect()
}

fn planned(
    dir: &Path,
    ids: &[ObjectId],
    way: Way,
    settings: Settings,
) -> Result<PackPlan, packrace_pack::Error> {
    let repository = Repository::open(dir, &OpenOptions::default()).unwrap();
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
    match way {
        Way::Spans => {
            let settings = Settings { window: 0, ..settings };
            let wants = ids.to_vec();
            let request = PackRequest { wants, ofs_delta: true, threads: 1, settings, ..Default::default() };
            plan(&request_objects, &request, &NoProgress)
        }
        Way::Composed | Way::Stored => {
            let objects: Vec<_> = ids.iter().map(|id| (*id, NameHash::default())).collect();
            plan_list(&request_objects, &objects, &[], settings, true, &NoProgress)
        }
    }
}

fn made(dir: &Path, ids: &[ObjectId], way: Way, settings: Settings) -> Result<Vec<u8>, packrace_pack::Error> {
    let mut stream = PackStream::new(planned(dir, ids, way, settings)?);
    if matches!(way, Way::Stored) {
        stream = stream.with_index();
    }
    let mut pack = Vec::new();
    while let Some(segment) = stream.next_segment(&NoProgress)? {
        pack.extend_from_slice(segment.bytes());
    }
    Ok(pack)
}

/// Packs these objects in every way; `expect` is the error's text, or `None` if git must find everything in
/// the pack.
fn check(dir: &Path, ids: &[ObjectId], expect: Option<&str>) {
    for way in WAYS {
        let made = made(dir, ids, way, Settings::default());
        match (made, expect) {
            (Err(error), Some(words)) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{way:?}: {error}");
                assert!(error.to_string().contains(words), "{way:?}: {error}");
            }
            (Ok(pack), None) => {
                let found = objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None);
                assert_eq!(found, ids.iter().map(ToString::to_string).collect(), "{way:?}");
            }
            (Ok(_), Some(words)) => panic!("{way:?}: a pack instead of {words:?}"),
            (Err(error), None) => panic!("{way:?}: {error}"),
        }
    }
}

/// Reading the object and reading its kind both fail with this text.
fn check_read(dir: &Path, id: &ObjectId, words: &str) {
    let repository = Repository::open(dir, &OpenOptions::default()).unwrap();
    let mut reader = repository.snapshot().unwrap().reader(1 << 20);
    let error = reader.read(id).unwrap_err();
    assert_eq!(error.kind(), packrace_store::ErrorKind::Corrupt);
    assert!(error.to_string().contains(words), "{error}");
}

/// Adds an intact copy, which git would not write if the object exists already.
fn add_loose(dir: &Path, content: &[u8]) {
    let other = repository();
    Git::stock().run_with_input(other.path(), &["hash-object", "-w", "--stdin"], content);
    let name = blob(content).to_string();
    let folder = Path::new("objects").join(&name[..2]);
    std::fs::create_dir_all(dir.join(&folder)).unwrap();
    std::fs::copy(other.path().join(&folder).join(&name[2..]), dir.join(&folder).join(&name[2..])).unwrap();
}

/// The contents of a loop: each begins like the previous one.
fn alike(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| [text(7, 40), format!("number {n}").into_bytes()].concat()).collect()
}

/// The delta from `base` to `target`, which begin alike.
fn delta(base: &[u8], target: &[u8]) -> HandmadeDelta {
    let common = base.iter().zip(target).take_while(|(a, b)| a == b).count();
    HandmadeDelta::new(base.len() as u64, target.len() as u64)
        .copy(0, common as u32)
        .insert(&target[common..])
}

const TOO_LONG: &str = "delta chain is longer than 65535";

#[test]
fn circles_over_several_packs() {
    for packs in 1..=3 {
        let dir = repository();
        let contents = alike(6);
        let ids: Vec<ObjectId> = contents.iter().map(|content| blob(content)).collect();
        let mut files: Vec<HandmadePack> = (0..packs).map(|_| HandmadePack::default()).collect();
        for at in 0..6 {
            let base = (at + 1) % 6;
            let delta = delta(&contents[base], &contents[at]);
            files[at % packs].delta(&ids[at], HandmadeEntry::ByName(&ids[base]), delta.bytes());
        }
        let honest = files[0].whole(Kind::Blob, b"beside the circle");
        files.iter().zip(0..).for_each(|(file, name)| drop(file.put(dir.path(), &format!("{name}"))));
        for id in &ids {
            check_read(dir.path(), id, TOO_LONG);
        }
        let all: Vec<ObjectId> = ids.iter().copied().chain([honest]).collect();
        if packs == 1 {
            // A whole pack is sent as stored; a part of it is checked.
            check(dir.path(), &ids, Some(TOO_LONG));
        } else {
            check(dir.path(), &all, Some(TOO_LONG));
        }
        check(dir.path(), &[honest], None);
        // One intact copy of one object breaks the loop if objects are looked up there; copies of all objects
        // always do.
        contents.iter().for_each(|content| add_loose(dir.path(), content));
        check(dir.path(), &ids, None);
    }
}

#[test]
fn circles_through_distances() {
    // The first pack: one -> two by distance, two -> three by name; the second: three -> one by name.
    let dir = repository();
    let contents = alike(3);
    let ids: Vec<ObjectId> = contents.iter().map(|content| blob(content)).collect();
    let (mut first, mut second) = (HandmadePack::default(), HandmadePack::default());
    let at = first.delta(&ids[1], HandmadeEntry::ByName(&ids[2]), delta(&contents[2], &contents[1]).bytes());
    first.delta(&ids[0], HandmadeEntry::ByDistance(at), delta(&contents[1], &contents[0]).bytes());
    second.delta(&ids[2], HandmadeEntry::ByName(&ids[0]), delta(&contents[0], &contents[2]).bytes());
    first.put(dir.path(), "1");
    second.put(dir.path(), "2");
    for id in &ids {
        check_read(dir.path(), id, TOO_LONG);
        check(dir.path(), &[*id], Some(TOO_LONG));
    }
    check(dir.path(), &ids, Some(TOO_LONG));
    contents.iter().for_each(|content| add_loose(dir.path(), content));
    check(dir.path(), &ids, None);
}

#[test]
fn a_base_of_itself_and_a_base_that_is_nowhere() {
    let dir = repository();
    let content = text(1, 30);
    let mut pack = HandmadePack::default();
    let (own, lost) = (blob(&content), blob(b"lost"));
    pack.delta(&own, HandmadeEntry::ByName(&own), delta(&content, &[&content[..], b"x"].concat()).bytes());
    pack.delta(
        &lost,
        HandmadeEntry::ByName(&blob(b"nowhere")),
        HandmadeDelta::new(7, 4).insert(b"lost").bytes(),
    );
    pack.whole(Kind::Blob, b"beside them");
    pack.put(dir.path(), "1");
    check_read(dir.path(), &own, TOO_LONG);
    check_read(dir.path(), &lost, "delta base is missing");
    check(dir.path(), &[own], Some(TOO_LONG));
    check(dir.path(), &[lost], Some("delta base is missing"));
}

/// The length of the longest chain that git finds in a pack.
fn longest_chain(pack: &[u8]) -> usize {
    let dir = repository();
    Git::stock().run_with_input(dir.path(), &["index-pack", "--stdin"], pack);
    let list = std::fs::read_dir(dir.path().join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let index = list.into_iter().find(|path| path.extension().is_some_and(|end| end == "idx")).unwrap();
    let said = Git::stock().run(dir.path(), &["verify-pack", "-v", index.to_str().unwrap()]);
    let lengths = said.lines().filter_map(|line| line.strip_prefix("chain length = ")?.split_once(':'));
    lengths.map(|(length, _)| length.parse().unwrap()).max().unwrap_or(0)
}

#[test]
fn chains_longer_than_any_git_makes() {
    let dir = repository();
    let mut pack = HandmadePack::default();
    let mut content = text(3, 10);
    pack.whole(Kind::Blob, &content);
    let mut ids = vec![blob(&content)];
    let mut at = 12;
    for link in 0..5000u32 {
        let next = [&text(3, 10)[..], &link.to_be_bytes()].concat();
        let base = if link % 100 == 7 {
            HandmadeEntry::ByName(&ids[link as usize])
        } else {
            HandmadeEntry::ByDistance(at)
        };
        at = pack.delta(&blob(&next), base, delta(&content, &next).bytes());
        content = next;
        ids.push(blob(&content));
    }
    pack.put(dir.path(), "long");
    // git reads it, and so do we.
    let last = ids.last().unwrap();
    assert_eq!(
        Git::stock().run_with_input(dir.path(), &["cat-file", "blob", &last.to_string()], b""),
        content
    );
    let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
    let snapshot = repository.snapshot().unwrap();
    assert_eq!(snapshot.reader(0).read(last).unwrap().data, content);
    assert_eq!(snapshot.reader(0).kind_and_size(last).unwrap(), Some((Kind::Blob, content.len() as u64)));
    // A stored pack keeps to the depth, wherever its deltas are from.
    for (depth, window) in [(4095, 0), (4095, 10), (50, 10), (1, 2), (0, 10)] {
        let settings = Settings { depth, window, ..Settings::default() };
        for way in [Way::Composed, Way::Stored] {
            let pack = made(dir.path(), &ids, way, settings).unwrap();
            assert_eq!(objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None).len(), 5001);
            let longest = longest_chain(&pack);
            assert!(longest <= usize::from(depth), "{way:?}: {longest} with --depth={depth}");
            assert!(longest * 2 >= usize::from(depth), "{way:?}: deltas are taken over");
        }
    }
}

#[test]
fn entries_that_lie_about_their_size() {
    let content = text(5, 100);
    let good = delta(&content, &[&content[..], b"more"].concat());
    let target = [&content[..], b"more"].concat();
    for claimed in
        [0, 1, content.len() as u64 - 1, content.len() as u64 + 1, 5000, 1 << 31, 1 << 40, u64::MAX]
    {
        let dir = repository();
        let mut pack = HandmadePack::default();
        pack.entry(&blob(&content), HandmadeEntry::Whole(Kind::Blob), claimed, &content);
        pack.delta(&blob(&target), HandmadeEntry::ByDistance(12), good.bytes());
        pack.put(dir.path(), "lying");
        let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
        let mut reader = repository.snapshot().unwrap().reader(1 << 20);
        for id in [blob(&content), blob(&target)] {
            reader.read(&id).unwrap_err();
            // The base is not sent, or not sent as stored, so it has to be read.
            assert!(made(dir.path(), &[blob(&target)], Way::Spans, Settings::default()).is_err());
            let settings = Settings { reuse_objects: false, ..Settings::default() };
            for way in WAYS {
                assert!(made(dir.path(), &[id], way, settings).is_err(), "{claimed}: {way:?}");
            }
        }
    }
}

#[test]
fn deltas_that_lie_about_their_sizes() {
    let content = text(6, 100);
    let length = content.len() as u64;
    let target = [&content[..], b"more"].concat();
    let lie =
        |base: u64, result: u64| HandmadeDelta::new(base, result).copy(0, length as u32).insert(b"more");
    let cut = HandmadeDelta::new(length, length + 4).copy(0, length as u32).bytes()[..9].to_vec();
    let deltas = [
        ("delta was made for another base", lie(length + 1, length + 4).bytes().to_vec()),
        ("delta was made for another base", lie(1 << 40, length + 4).bytes().to_vec()),
        ("instructions do not add up to the result", lie(length, length + 5).bytes().to_vec()),
        ("instructions do not add up to the result", lie(length, length + 3).bytes().to_vec()),
        ("instructions do not add up to the result", lie(length, 0).bytes().to_vec()),
        ("instructions do not add up to the result", lie(length, 1 << 32).bytes().to_vec()),
        ("object of 1099511627776 bytes", lie(length, 1 << 40).bytes().to_vec()),
        (
            "copy reaches beyond the base",
            HandmadeDelta::new(length, 9).copy(length as u32 - 8, 9).bytes().to_vec(),
        ),
        ("malformed instruction", cut),
        ("size is cut off", vec![0x80; 4]),
        ("delta is too short", vec![0x80]),
    ];
    for (words, delta) in deltas {
        let dir = repository();
        let mut pack = HandmadePack::default();
        pack.whole(Kind::Blob, &content);
        pack.delta(&blob(&target), HandmadeEntry::ByDistance(12), &delta);
        pack.put(dir.path(), "lying");
        let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
        let error = repository.snapshot().unwrap().reader(1 << 20).read(&blob(&target)).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        // Without its base, the object has to be read; with the base, `-F` and the search have to read it.
        for way in WAYS {
            let error = made(dir.path(), &[blob(&target)], way, Settings::default()).unwrap_err();
            assert!(error.to_string().contains(words), "{way:?}, {words}: {error}");
            for again in [
                Settings { reuse_deltas: false, ..Settings::default() },
                Settings { reuse_objects: false, ..Settings::default() },
            ] {
                assert!(
                    made(dir.path(), &[blob(&content), blob(&target)], way, again).is_err(),
                    "{way:?}, {words}"
                );
            }
        }
    }
}

#[test]
fn stored_bytes_with_a_wrong_crc_are_not_taken_over() {
    let dir = repository();
    let contents = alike(3);
    let mut pack = HandmadePack::default();
    let ids: Vec<ObjectId> = contents.iter().map(|content| pack.whole(Kind::Blob, content)).collect();
    let path = pack.put(dir.path(), "sound");
    let settings = Settings { window: 0, ..Settings::default() };
    assert!(made(dir.path(), &ids, Way::Stored, settings).is_ok());
    // Flips a bit in the last object's bytes, before the pack's checksum; nothing needs to inflate it.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 20 - 10;
    bytes[at] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let error = made(dir.path(), &ids, Way::Stored, settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    add_loose(dir.path(), &contents[2]);
    let pack = made(dir.path(), &ids, Way::Stored, settings).unwrap();
    assert_eq!(objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None).len(), 3);
}

#[test]
fn wrong_names_and_offsets_in_a_multi_pack_index() {
    let (dir, git) = (repository(), Git::stock());
    let contents = [text(1, 30), text(2, 30), text(3, 30)];
    let mut ids: Vec<ObjectId> = contents.iter().map(|content| blob(content)).collect();
    ids.sort_unstable();
    for content in &contents {
        git.run_with_input(dir.path(), &["hash-object", "-w", "--stdin"], content);
    }
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    git.run_with_input(dir.path(), &["pack-objects", "-q", "objects/pack/pack"], list.as_bytes());
    git.run(dir.path(), &["prune-packed", "-q"]);
    git.run(dir.path(), &["multi-pack-index", "write"]);
    let file = dir.path().join("objects/pack/multi-pack-index");
    let intact = std::fs::read(&file).unwrap();
    let names = intact.windows(20).position(|name| name == ids[0].as_bytes()).unwrap();
    // A name, and the offset of the first object: its pack and its offset follow the names.
    for at in [names + 10, names + 20 * ids.len() + 7] {
        let mut bytes = intact.clone();
        bytes[at] ^= 4;
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let pack = made(dir.path(), &ids, Way::Spans, Settings::default()).unwrap();
        let found = objects_in_pack(git, &pack, HashKind::Sha1, None);
        assert_eq!(found, ids.iter().map(ToString::to_string).collect(), "{at}");
    }
}
