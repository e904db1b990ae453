//! Plans filtered responses from repositories of many layouts, and compares their objects with stock git's.

use std::collections::BTreeSet;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_pack::filter::Filter;
use packrace_pack::generate::PackStream;
use packrace_pack::plan::plan;
use packrace_pack::{ErrorKind, NoProgress, PackRequest, RequestObjects};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, Random, Repo, RepoBuilder, Size, Storage};

fn request_objects(repo: &Repo) -> Arc<RequestObjects> {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.trim().as_bytes()).unwrap()
}

fn ids(repo: &Repo, revs: &[&str]) -> Vec<ObjectId> {
    if revs.is_empty() {
        return Vec::new();
    }
    repo.git(&[&["rev-parse"], revs].concat()).lines().map(id).collect()
}

/// The objects that stock git lists; without bitmaps, which must not change the answer.
fn listed(repo: &Repo, filter: Option<&str>, wants: &[&str], haves: &[&str]) -> BTreeSet<String> {
    // By id, as in a request: git gives a tree named by a path that path.
    let [wants, haves] =
        [wants, haves].map(|revs| ids(repo, revs).iter().map(ObjectId::to_string).collect::<Vec<_>>());
    let filter = filter.map(|filter| format!("--filter={filter}"));
    let mut args = vec!["rev-list", "--objects", "--no-object-names"];
    args.extend(filter.as_deref());
    args.extend(wants.iter().map(String::as_str));
    args.push("--not");
    args.extend(haves.iter().map(String::as_str));
    repo.git(&args).lines().map(str::to_string).collect()
}

/// A filter whose pattern blobs are resolved by their ids.
fn filter(spec: &str) -> Filter {
    let mut filter = Filter::parse(spec.as_bytes()).unwrap();
    for patterns in filter.patterns_mut() {
        patterns.blob = ObjectId::from_hex(&patterns.name).ok();
    }
    filter
}

fn request(repo: &Repo, spec: &str, wants: &[&str], haves: &[&str]) -> PackRequest {
    PackRequest {
        wants: ids(repo, wants),
        haves: ids(repo, haves),
        filter: Some(filter(spec)),
        ofs_delta: true,
        threads: 2,
        ..PackRequest::default()
    }
}

fn check(repo: &Repo, request_objects: &Arc<RequestObjects>, spec: &str, wants: &[&str], haves: &[&str]) {
    let planned = plan(request_objects, &request(repo, spec, wants, haves), &NoProgress).unwrap();
    let ours: BTreeSet<String> = planned.ids().iter().map(ObjectId::to_string).collect();
    let expect = listed(repo, Some(spec), wants, haves);
    let had = if haves.is_empty() { BTreeSet::new() } else { listed(repo, None, haves, &[]) };
    let label = format!("{spec}: {wants:?} without {haves:?}");
    let missing: Vec<_> = expect.difference(&ours).filter(|id| !had.contains(*id)).collect();
    assert!(missing.is_empty(), "{label}: {missing:?} are missing");
    // Finding out what the other side has can cost more than sending some of it again, for git and for us.
    let mut more: BTreeSet<_> = ours.difference(&expect).filter(|id| !had.contains(*id)).collect();
    // Of trees and blobs wanted by id, git sends only those that it has not found elsewhere.
    let given: Vec<&str> =
        wants.iter().filter(|want| want.contains(':') || want.contains('{')).copied().collect();
    if !more.is_empty() && !given.is_empty() {
        let below_given = listed(repo, None, &given, &[]);
        more.retain(|id| !below_given.contains(*id));
    }
    assert!(more.is_empty(), "{label}: {more:?} are left out by git");
    for want in ids(repo, wants).iter().map(ObjectId::to_string).filter(|want| !had.contains(want)) {
        assert!(ours.contains(&want), "{label}: {want} was asked for");
    }
}

/// Blobs with patterns, written into the repository.
fn patterns(repo: &Repo, texts: &[&str]) -> Vec<String> {
    let write = |text: &&str| {
        let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], text.as_bytes());
        format!("sparse:oid={}", id.trim())
    };
    texts.iter().map(write).collect()
}

const PLAIN: [&str; 16] = [
    "blob:none",
    "blob:limit=0",
    "blob:limit=1",
    "blob:limit=600",
    "blob:limit=1k",
    "blob:limit=1g",
    "tree:0",
    "tree:1",
    "tree:2",
    "tree:3",
    "tree:18446744073709551615",
    "object:type=commit",
    "object:type=tree",
    "object:type=blob",
    "object:type=tag",
    "combine:blob:limit=600+tree:3",
];

fn check_all(repo: &Repo) {
    let mut specs: Vec<String> = PLAIN.iter().map(|spec| spec.to_string()).collect();
    let sparse = patterns(repo, &["/*\n!/*/\n/src/\n", "*.txt\n"]);
    specs.push(format!("combine:{}+{}+object:type=blob", sparse[0], sparse[1]));
    specs.push(format!("combine:tree:2+combine:{}%2Bblob:limit=1k", sparse[1]));
    specs.extend(sparse);
    let request_objects = request_objects(repo);
    for spec in specs {
        let check = |wants: &[&str], haves: &[&str]| check(repo, &request_objects, &spec, wants, haves);
        check(&["main"], &[]);
        check(&["main~1", "nested-outermost", "of-a-tree", "of-a-blob"], &[]);
        check(&["main^{tree}"], &[]);
        check(&["main^{tree}", "main:src"], &[]);
        check(&["main:empty", "main:src", "main~1"], &[]);
        check(&["main"], &["main~3"]);
        check(&["main", "main~3"], &["main~7", "main~12"]);
        check(&["main:empty"], &["main~7"]);
    }
}

fn build(hash: HashKind, storage: Storage) -> Repo {
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

#[test]
fn one_pack() {
    check_all(&build(HashKind::Sha1, Storage::default()));
}

#[test]
fn sha256_with_bitmap() {
    check_all(&build(HashKind::Sha256, Storage { bitmap: Bitmap::Plain, ..Storage::default() }));
}

#[test]
fn bitmap_of_many_packs() {
    let storage =
        Storage { packs: 3, multi_pack_index: true, bitmap: Bitmap::LookupTable, ..Storage::default() };
    check_all(&build(HashKind::Sha1, storage));
}

#[test]
fn many_packs_and_loose_objects() {
    check_all(&build(HashKind::Sha1, Storage { packs: 3, loose: Loose::Newest, ..Storage::default() }));
}

#[test]
fn alternate_and_commit_graph() {
    let storage =
        Storage { packs: 4, alternate: true, commit_graph: GraphLayout::Single, ..Storage::default() };
    check_all(&build(HashKind::Sha1, storage));
}

#[test]
fn bigger_history() {
    for bitmap in [Bitmap::No, Bitmap::Plain] {
        let repo = RepoBuilder::new(Size::Small).storage(Storage { bitmap, ..Storage::default() }).build();
        let request_objects = request_objects(&repo);
        let sparse = patterns(&repo, &["/src/0?/\n!part1/\n/big/\n"]);
        for spec in ["blob:none", "blob:limit=100k", "tree:0", "tree:2", sparse[0].as_str()] {
            check(&repo, &request_objects, spec, &["main"], &[]);
            check(&repo, &request_objects, spec, &["main"], &["main~20"]);
        }
    }
}

/// Random patterns, and a tree with paths that they can match.
#[test]
fn random_patterns() {
    let repo = build(HashKind::Sha1, Storage::default());
    let mut random = Random::new(3);
    let parts = ["*", "**", "?", "a", "b", "ab", "/", "[ab]", "[!a]", "\\a", "a*", "*b", " "];
    let mut texts = Vec::new();
    for _ in 0..60 {
        let mut text = String::new();
        for _ in 0..1 + random.below(4) {
            text.push_str(["", "", "!", "/", "#"][random.below(5)]);
            (0..1 + random.below(4)).for_each(|_| text.push_str(parts[random.below(parts.len())]));
            text.push_str(["\n", "/\n", "\r\n", " \n"][random.below(4)]);
        }
        texts.push(text);
    }
    let mut stream = String::from("commit refs/heads/paths\ncommitter A <a@b> 1 +0000\ndata 0\n");
    let names = ["a", "b", "ab", "ba", "c"];
    for at in 0..150 {
        let depth = 1 + random.below(4);
        let path: Vec<&str> = (0..depth).map(|_| names[random.below(names.len())]).collect();
        stream.push_str(&format!("M 100644 inline {}.d/{at}\ndata 2\n{}\n", path.join("/"), at % 40 + 10));
        stream.push_str(&format!(
            "M 100644 inline {}/f{}\ndata 2\n{}\n",
            path.join("/"),
            at % 3,
            at % 40 + 50
        ));
    }
    repo.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let specs = patterns(&repo, &texts);
    let request_objects = request_objects(&repo);
    for (spec, text) in specs.iter().zip(texts) {
        println!("{text:?}");
        check(&repo, &request_objects, spec, &["paths"], &[]);
        check(&repo, &request_objects, spec, &["paths^{tree}"], &[]);
    }
}

/// A filter can leave out the stored delta base of an object that it keeps.
#[test]
fn filtered_packs_are_self_contained() {
    let repo = RepoBuilder::new(Size::Small).build();
    let request_objects = request_objects(&repo);
    for spec in ["blob:limit=3k", "blob:none", "tree:2", "object:type=blob"] {
        let planned = plan(&request_objects, &request(&repo, spec, &["main"], &[]), &NoProgress).unwrap();
        let expect: BTreeSet<String> = planned.ids().iter().map(ObjectId::to_string).collect();
        let mut stream = PackStream::new(planned);
        let mut pack = Vec::new();
        while let Some(segment) = stream.next_segment(&NoProgress).unwrap() {
            pack.extend_from_slice(segment.bytes());
        }
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
        Git::stock().run_with_input(dir.path(), &["index-pack", "--stdin"], &pack);
        let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
        let sent: BTreeSet<String> = Git::stock().run(dir.path(), &all).lines().map(str::to_string).collect();
        assert_eq!(sent, expect, "{spec}");
    }
}

#[test]
fn blobs_of_patterns_that_are_none() {
    let repo = build(HashKind::Sha1, Storage::default());
    let main = repo.git(&["rev-parse", "main"]);
    let large = repo.git_with_input(&["hash-object", "-w", "--stdin"], &vec![b'a'; 9 << 20]);
    let absent = "0123456789012345678901234567890123456789";
    let request_objects = request_objects(&repo);
    for (name, kind, words) in [
        ("no-such", ErrorKind::BadRequest, "unable to access sparse blob in 'no-such'".to_owned()),
        (absent, ErrorKind::BadRequest, format!("unable to access sparse blob in '{absent}'")),
        (
            main.trim(),
            ErrorKind::BadRequest,
            format!("unable to parse sparse filter data in {}", main.trim()),
        ),
        (large.trim(), ErrorKind::LimitExceeded, "more than 8388608 bytes of sparse patterns".to_owned()),
    ] {
        for spec in [format!("sparse:oid={name}"), format!("combine:blob:none+sparse:oid={name}")] {
            let error =
                plan(&request_objects, &request(&repo, &spec, &["main"], &[]), &NoProgress).err().unwrap();
            assert_eq!((error.kind(), error.to_string()), (kind, words.clone()));
        }
    }
}

/// A partial clone serves its objects to clients that want no more.
#[test]
fn a_server_that_lacks_blobs() {
    let whole = build(HashKind::Sha1, Storage::default());
    whole.git(&["config", "uploadpack.allowFilter", "true"]);
    let dir = packrace_testkit::scratch_dir();
    let git = Git::stock();
    let url = format!("file://{}", whole.path().display());
    git.run(dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &url, "part.git"]);
    let repository = Repository::open(&dir.path().join("part.git"), &OpenOptions::default()).unwrap();
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
    for haves in [&[][..], &["main~4"]] {
        for spec in ["blob:none", "object:type=tree", "tree:0", "combine:tree:2+blob:none"] {
            check(&whole, &request_objects, spec, &["main"], haves);
        }
        for spec in ["blob:limit=1", "tree:2"] {
            let error =
                plan(&request_objects, &request(&whole, spec, &["main"], haves), &NoProgress).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{spec}: {error}");
        }
    }
}

/// Flips bytes of packs, indexes and bitmaps: the result is an answer or an error.
#[test]
fn damaged_repositories() {
    let repo = build(HashKind::Sha1, Storage { bitmap: Bitmap::Plain, ..Storage::default() });
    let mut specs = patterns(&repo, &["/src/\n"]);
    specs.extend(["blob:none", "blob:limit=500", "tree:0", "tree:3", "object:type=tree"].map(str::to_owned));
    let requests: Vec<_> = specs.iter().map(|spec| request(&repo, spec, &["main"], &[])).collect();
    let mut random = Random::new(11);
    let mut failed = 0;
    let files = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    for file in files.map(|file| file.unwrap().path()) {
        let good = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        for _ in 0..30 {
            let mut bad = good.clone();
            bad[random.below(good.len())] ^= 1 << random.below(8);
            // A new file each time: the previous one may still be mapped.
            std::fs::write(&file, &bad).unwrap();
            let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
            if let Ok(snapshot) = repository.snapshot() {
                let request_objects = Arc::new(RequestObjects::new(snapshot));
                failed += requests
                    .iter()
                    .filter(|request| plan(&request_objects, request, &NoProgress).is_err())
                    .count();
            }
            std::fs::remove_file(&file).unwrap();
        }
        std::fs::write(&file, &good).unwrap();
    }
    assert!(failed > 0, "some damage was in the way");
}

/// Ten trees, each containing the next ten times, are ten trees with 10,000,000,000 paths.
#[test]
fn trees_with_too_many_paths() {
    let repo = build(HashKind::Sha1, Storage::default());
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"deep down\n");
    let mut entry = format!("100644 blob {}", blob.trim());
    for _ in 0..10 {
        let tree: String = (0..10).map(|name| format!("{entry}\t{name}\n")).collect();
        entry = format!("040000 tree {}", repo.git_with_input(&["mktree"], tree.as_bytes()).trim());
    }
    let tree = entry.rsplit(' ').next().unwrap();
    let commit = repo.git_with_input(&["commit-tree", tree], b"Too many paths\n");
    let spec = patterns(&repo, &["/1/2/3/4/5/6/7/8/9/0\n"]).remove(0);
    let request_objects = request_objects(&repo);
    let error =
        plan(&request_objects, &request(&repo, &spec, &[commit.trim()], &[]), &NoProgress).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    // By depth, without paths, this is cheap.
    for spec in ["tree:9", "tree:1000", "blob:none"] {
        check(&repo, &request_objects, spec, &[commit.trim()], &[]);
    }
}
