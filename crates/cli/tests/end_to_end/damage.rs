//! Damaged repositories: files that can be rebuilt are not missed; others never lead to a complete pack.

use std::collections::BTreeSet;
use std::path::PathBuf;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::peer::{self, Feed, Reply, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{
    Bitmap, Git, GraphLayout, Random, RefFormat, Repo, RepoBuilder, Size, Storage, sampled,
};

use crate::running::{answer_to, packrace, packrace_with};

/// Sends everything; a pack that holds all of it is sent as it is stored.
const AS_STORED: [&str; 5] = ["pack-objects", "--all", "--stdout", "-q", "--delta-base-offset"];

/// A modification of a file's bytes.
type Damage = fn(&mut Vec<u8>, &mut Random);

const DAMAGES: [(&str, Damage); 4] = [
    ("one bit", |bytes, random| {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }),
    ("a stretch of 0xff", |bytes, random| {
        let at = random.below(bytes.len());
        let end = (at + 16).min(bytes.len());
        bytes[at..end].fill(0xff);
    }),
    ("cut", |bytes, random| bytes.truncate(random.below(bytes.len()))),
    ("empty", |bytes, _| bytes.clear()),
];

fn clone_of_everything(repo: &Repo) -> Script {
    let tips = repo.git(&["for-each-ref", "--format=%(objectname)"]);
    let wants: BTreeSet<&str> = tips.lines().collect();
    let wants: Vec<&str> = wants.into_iter().collect();
    Script::new().fetch_v2(&repo.hash().to_string(), &wants, &[]).flush()
}

fn files_ending(repo: &Repo, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in ["objects/pack", "objects/info", "reftable", "."] {
        let Ok(entries) = std::fs::read_dir(repo.path().join(dir)) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        found.extend(
            paths.filter(|path| endings.iter().any(|ending| path.to_str().unwrap().ends_with(ending))),
        );
    }
    found.sort();
    assert!(found.len() >= endings.len(), "{endings:?}: {found:?}");
    found
}

/// Damages each file several times in each way, requests everything, and collects what `verdict` finds wrong.
fn with_damage(
    repo: &Repo,
    files: &[PathBuf],
    rounds: usize,
    verdict: impl Fn(&Reply) -> Result<(), String>,
) {
    let script = clone_of_everything(repo);
    let mut random = Random::new(7);
    let mut failures = Vec::new();
    for file in files {
        let sound = std::fs::read(file).unwrap();
        // git leaves these files read-only.
        std::fs::remove_file(file).unwrap();
        for (name, damage) in DAMAGES {
            for round in 0..if name == "empty" { 1 } else { rounds } {
                let mut bytes = sound.clone();
                damage(&mut bytes, &mut random);
                std::fs::write(file, bytes).unwrap();
                let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
                if let Err(fault) = verdict(&reply) {
                    let file = file.file_name().unwrap();
                    failures.push(format!("{name} of {file:?}, round {round}: {fault}\n{}", reply.stderr));
                }
            }
        }
        std::fs::write(file, sound).unwrap();
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The pack in the side-band of a whole answer; empty if there is none.
fn pack_in(reply: &Reply) -> Vec<u8> {
    fetch_answer(&reply.stdout).map(|answer| answer.bands.pack).unwrap_or_default()
}

/// The objects of a pack that git accepts.
fn objects_if_accepted(pack: &[u8]) -> Option<BTreeSet<String>> {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    let mut index_pack = Git::stock().command(dir.path());
    let reply = peer::stdio(index_pack.args(["index-pack", "--strict", "--stdin"]), pack, Feed::Whole);
    reply.status.success().then(|| objects_in_pack(Git::stock(), pack, HashKind::Sha1, None))
}

sampled! {
    fn a_damaged_bitmap_or_commit_graph_is_not_missed(extent) {
        let storage =
            Storage { bitmap: Bitmap::LookupTable, commit_graph: GraphLayout::Single, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
        let expected = repo.reachable_objects();
        let files = files_ending(&repo, &[".bitmap", "commit-graph"]);
        with_damage(&repo, &files, extent.pick(2, 12), |reply| match objects_if_accepted(&pack_in(reply)) {
            Some(objects) if objects == expected && reply.status.success() => Ok(()),
            Some(objects) => Err(format!("{} of {} objects", objects.len(), expected.len())),
            None => Err("no sound pack".to_string()),
        });
    }
}

sampled! {
    fn a_damaged_pack_or_index_never_becomes_a_wrong_pack(extent) {
        let storage = Storage { packs: 2, multi_pack_index: true, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
        let expected = repo.reachable_objects();
        let files = files_ending(&repo, &[".pack", ".idx", ".rev", "multi-pack-index"]);
        with_damage(&repo, &files, extent.pick(2, 8), |reply| {
            let pack = pack_in(reply);
            if pack.is_empty() && reply.status.success() {
                return Err("an end without a pack is a failure".to_string());
            }
            // Stored bytes that are copied unchanged are checked by the client, as with stock git. A client
            // that accepts the pack must have everything.
            match objects_if_accepted(&pack) {
                Some(objects) if objects != expected => Err(format!("{} of {}", objects.len(), expected.len())),
                _ => Ok(()),
            }
        });
    }
}

sampled! {
    fn damaged_refs_are_refused_or_read(extent) {
        for (ref_format, ending) in [(RefFormat::Files, "packed-refs"), (RefFormat::Reftable, ".ref")] {
            let repo = RepoBuilder::new(Size::Tiny).ref_format(ref_format).build();
            let files = files_ending(&repo, &[ending]);
            // The store's tests check which refs are left; here nothing may panic or hang.
            with_damage(&repo, &files, extent.pick(2, 10), |_| Ok(()));
        }
    }
}

/// A modification of the index and the pack.
type Spoil = fn(&mut Vec<u8>, &mut Vec<u8>);

const SPOILT: [(&str, Spoil); 10] = [
    ("index file … is too small", |index, _| index.truncate(600)),
    ("wrong index v2 file size", |index, _| index.truncate(1090)),
    ("index of version 7", |index, _| index[7] = 7),
    ("index of version 0", |index, _| index[7] = 0),
    ("non-monotonic index", |index, _| index[11] = 7),
    ("far too short to be a packfile", |_, pack| pack.truncate(10)),
    ("not a GIT packfile", |_, pack| pack[0] = b'J'),
    ("pack of version 7", |_, pack| pack[7] = 7),
    ("claims to have 7 objects", |_, pack| pack[11] = 7),
    ("does not match index", |_, pack| {
        let end = pack.len() - 4;
        pack.truncate(end);
    }),
];

/// Every command reports why a pack cannot be used, once and in git's words.
#[test]
fn packs_that_cannot_be_used_are_named_in_gits_words() {
    let storage = Storage { packs: 1, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let files = [".idx", ".pack"].map(|ending| files_ending(&repo, &[ending]).remove(0));
    let sound = files.each_ref().map(|file| std::fs::read(file).unwrap());
    let script = clone_of_everything(&repo);
    for (what, spoil) in SPOILT {
        let mut bytes = sound.clone();
        let [index, pack] = &mut bytes;
        spoil(index, pack);
        for (file, bytes) in files.iter().zip(&bytes) {
            // git leaves these files read-only.
            std::fs::remove_file(file).unwrap();
            std::fs::write(file, bytes).unwrap();
        }
        let listing = ["for-each-ref", "--format=%(tree)", "refs/heads/main"];
        let stock = Git::stock().command(repo.path()).args(listing).output().unwrap();
        let stock = String::from_utf8(stock.stderr).unwrap();
        let place = format!("{}/", repo.path().canonicalize().unwrap().display());
        let said = |stderr: &str| -> Vec<String> {
            let errors = stderr.lines().filter(|line| line.starts_with("error: "));
            errors.map(|line| line.replace("./", "").replace(&place, "")).collect()
        };
        // git reports it on every access.
        let mut expected = said(&stock);
        expected.dedup();
        assert_eq!(expected.len(), 1, "{what}: {stock}");
        let output = packrace(repo.path(), &listing, "");
        assert_eq!(said(&String::from_utf8_lossy(&output.stderr)), expected, "{what}");
        assert_eq!(output.status.code(), Some(128), "{what}");
        let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
        assert_eq!(said(&reply.stderr), expected, "{what}");
        assert!(!reply.status.success(), "{what}");
    }
}

/// A repository in which one delta names another base of the same length, so that no checksum of zlib fails, and the
/// object that it was.
fn with_a_wrong_base() -> (tempfile::TempDir, ObjectId, Vec<u8>, String) {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
    let mut random = Random::new(11);
    let contents = [random.bytes(3000), random.bytes(3000)];
    let mut pack = HandmadePack::default();
    let [right, wrong] = contents.each_ref().map(|content| pack.whole(Kind::Blob, content));
    let lost = [&contents[0][..], b"more"].concat();
    let id = object_id(HashKind::Sha1, Kind::Blob, &lost).unwrap();
    let delta = HandmadeDelta::new(3000, 3004).copy(0, 3000).insert(b"more");
    pack.delta(&id, HandmadeEntry::ByName(&right), delta.bytes());
    let path = pack.put(dir.path(), "handmade");
    let mut bytes = std::fs::read(&path).unwrap();
    let named = bytes.windows(20).rposition(|name| name == right.as_bytes()).unwrap();
    bytes[named..named + 20].copy_from_slice(wrong.as_bytes());
    std::fs::write(&path, bytes).unwrap();
    (dir, id, lost, format!("{right}\n{wrong}\n{id}\n"))
}

/// Only the index has a checksum of a delta's base and of an object's kind. Contents that are stored again under the same
/// names are compared with it, whether the stored bytes or the contents are copied.
#[test]
fn damage_does_not_spread_into_packs_that_stay() {
    let mut thin = HandmadePack::default();
    let (_, base, ..) = with_a_wrong_base();
    let received = object_id(HashKind::Sha1, Kind::Blob, b"more").unwrap();
    thin.delta(&received, HandmadeEntry::ByName(&base), HandmadeDelta::new(3004, 4).copy(3000, 4).bytes());
    for args in [
        &["pack-objects", "new"][..],
        &["pack-objects", "--no-reuse-object", "new"],
        &["pack-objects", "--stdout"],
        &["pack-objects", "--stdout", "--no-reuse-delta"],
        &["pack-objects", "--no-reuse-delta", "new"],
        &["repack", "-a", "-d", "-k"],
        &["repack", "-a", "-d", "-k", "-f"],
        &["repack", "-A", "-d"],
        &["repack", "--cruft", "-d"],
        &["repack", "--geometric=2", "-d"],
        &["index-pack", "--stdin", "--fix-thin"],
    ] {
        let (dir, id, lost, list) = with_a_wrong_base();
        let input = if args[0] == "index-pack" { thin.sealed() } else { list.into_bytes() };
        if args[1].starts_with("--geometric") {
            let mut second = HandmadePack::default();
            for content in [b"one", b"two", b"six"] {
                second.whole(Kind::Blob, content);
            }
            second.put(dir.path(), "second");
        }
        let pack_dir = dir.path().join("objects/pack");
        let indexes = || {
            let names = std::fs::read_dir(&pack_dir).unwrap().map(|entry| entry.unwrap().path());
            names.filter(|path| path.extension().is_some_and(|end| end == "idx")).collect::<BTreeSet<_>>()
        };
        let before = indexes();
        let refused = packrace_with(dir.path(), args, &input, &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(128), "{args:?}: {said}");
        assert!(said.contains(&format!("bad packed object CRC for {id}")), "{args:?}: {said}");
        assert_eq!(indexes(), before, "{args:?}");

        // With another copy it is as if there were no damage.
        let mut copy = HandmadePack::default();
        assert_eq!(copy.whole(Kind::Blob, &lost), id);
        copy.put(dir.path(), "copy");
        let mended = packrace_with(dir.path(), args, &input, &[]);
        assert!(mended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&mended.stderr));
        if args[1] == "--stdout" {
            let file = dir.path().join("stdout.pack");
            std::fs::write(&file, &mended.stdout).unwrap();
            let sha1 = "--object-format=sha1";
            Git::stock().run(&std::env::temp_dir(), &["index-pack", sha1, file.to_str().unwrap()]);
            let index = std::fs::read(file.with_extension("idx")).unwrap();
            let listed = Git::stock().run_with_input(&std::env::temp_dir(), &["show-index", sha1], &index);
            let listed = String::from_utf8(listed).unwrap();
            assert!(listed.contains(&id.to_string()), "{args:?}: {listed}");
        }
        for index in indexes().difference(&before).filter(|path| !path.ends_with("pack-copy.idx")) {
            // Inside the repository, git compares objects with the damaged one.
            Git::stock().run(&std::env::temp_dir(), &["verify-pack", index.to_str().unwrap()]);
        }
        if args[0] == "repack" {
            let read = Git::stock().run_with_input(dir.path(), &["cat-file", "blob", &id.to_string()], b"");
            assert!(read == lost, "{args:?}");
        }
    }
}

/// A pack that would be sent as it is, in several pieces, is sent entry by entry behind a damaged one.
#[test]
fn damage_in_the_middle_of_a_pack_that_is_sent_whole() {
    let dir = packrace_testkit::scratch_dir();
    let git = |args: &[&str]| Git::stock().run(dir.path(), args).trim().to_owned();
    git(&["init", "-q", "."]);
    let mut random = Random::new(3);
    for number in 0..40 {
        std::fs::write(dir.path().join(format!("file{number:02}")), random.bytes(300_000)).unwrap();
    }
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "files"]);
    let id = git(&["rev-parse", "HEAD:file20"]);
    let loose = dir.path().join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
    let copy = std::fs::read(&loose).unwrap();
    git(&["repack", "-a", "-d", "-q"]);
    git(&["prune-packed"]);
    let pack = files_of(dir.path(), "pack").remove(0);
    let index = std::fs::read(pack.with_extension("idx")).unwrap();
    let listed = Git::stock().run_with_input(dir.path(), &["show-index"], &index);
    let listed = String::from_utf8(listed).unwrap();
    let offset = listed.lines().find(|line| line.contains(&id)).unwrap().split(' ').next().unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let whole = packrace(dir.path(), &AS_STORED, "");
    assert!(whole.stdout == bytes, "it is sent as it is");
    bytes[offset.parse::<usize>().unwrap() + 1000] ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, &bytes).unwrap();
    let refused = packrace(dir.path(), &AS_STORED, "");
    assert_eq!(refused.status.code(), Some(128));
    std::fs::create_dir_all(loose.parent().unwrap()).unwrap();
    std::fs::write(&loose, copy).unwrap();
    let sent = packrace(dir.path(), &AS_STORED, "");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let received = packrace_testkit::scratch_dir();
    Git::stock().run(received.path(), &["init", "-q", "."]);
    Git::stock().run_with_input(received.path(), &["index-pack", "--strict", "--stdin"], &sent.stdout);
    let objects = Git::stock().run(received.path(), &["cat-file", "--batch-all-objects", "--batch-check"]);
    assert_eq!(objects.lines().count(), 42);
}

/// An index may place the first entry of a pack, which no walk reads, inside of the header.
#[test]
fn an_entry_that_would_begin_in_the_header() {
    for offset in [0u32, 5, 11] {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
        let mut pack = HandmadePack::default();
        let blob = pack.whole(Kind::Blob, b"content");
        let tree = pack.whole(Kind::Tree, &[&b"100644 file\0"[..], blob.as_bytes()].concat());
        let person = "A <a@x> 1112912053 +0000";
        let commit = format!("tree {tree}\nauthor {person}\ncommitter {person}\n\nm\n");
        let commit = pack.whole(Kind::Commit, commit.as_bytes());
        let index = pack.put(dir.path(), "handmade").with_extension("idx");
        Git::stock().run(dir.path(), &["update-ref", "refs/heads/main", &commit.to_string()]);
        let mut bytes = std::fs::read(&index).unwrap();
        // Version 2: 3 names and checksums behind the fan-out, then the offsets.
        let offsets = 8 + 1024 + 3 * 24;
        let first = (0..3).map(|at| offsets + 4 * at).find(|at| bytes[*at..*at + 4] == [0, 0, 0, 12]);
        let first = first.unwrap();
        bytes[first..first + 4].copy_from_slice(&offset.to_be_bytes());
        std::fs::remove_file(&index).unwrap();
        std::fs::write(&index, bytes).unwrap();
        let reply = packrace(dir.path(), &AS_STORED, "");
        assert_eq!(reply.status.code(), Some(128), "{offset}: {}", String::from_utf8_lossy(&reply.stderr));
    }
}

fn files_of(work_tree: &std::path::Path, extension: &str) -> Vec<PathBuf> {
    let all =
        std::fs::read_dir(work_tree.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}
