//! Plans and streams packs from repositories of many layouts, and compares their objects with stock git's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_pack::generate::{PackStream, Segment};
use packrace_pack::plan::plan;
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::received::objects_in_pack;
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, Repo, RepoBuilder, Size, Storage};

fn request_objects(repo: &Repo) -> Arc<RequestObjects> {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

fn ids(repo: &Repo, revs: &[&str]) -> Vec<ObjectId> {
    let ids = repo.git(&[&["rev-parse"], revs].concat());
    ids.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect()
}

/// The objects that stock git would enumerate.
fn needed(repo: &Repo, wants: &[&str], haves: &[&str]) -> BTreeSet<String> {
    let mut args = vec!["rev-list", "--objects", "--no-object-names"];
    args.extend(wants);
    if !haves.is_empty() {
        args.push("--not");
        args.extend(haves);
    }
    repo.git(&args).lines().map(str::to_string).collect()
}

/// Everything that the haves reach; none of it needs to be sent.
fn had(repo: &Repo, haves: &[&str]) -> BTreeSet<String> {
    if haves.is_empty() { BTreeSet::new() } else { needed(repo, haves, &[]) }
}

fn stream(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
) -> (Vec<u8>, packrace_pack::Totals, usize) {
    let planned = plan(request_objects, request, &NoProgress).unwrap();
    let mut stream = PackStream::new(planned);
    let (mut pack, mut segments) = (Vec::new(), 0);
    while let Some(segment) = stream.next_segment(&NoProgress).unwrap() {
        pack.extend_from_slice(segment.bytes());
        segments += 1;
    }
    (pack, stream.totals(), segments)
}

/// The files of a repository's packs.
fn stored_packs(repo: &Repo) -> Vec<PathBuf> {
    let files = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect()
}

/// Asserts that every delta has its base in the pack.
fn assert_self_contained(pack: &[u8], hash: HashKind) {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", &format!("--object-format={hash}"), "."]);
    Git::stock().run_with_input(dir.path(), &["index-pack", "--stdin"], pack);
}

/// Requests `wants` without `haves` in every form, and checks the objects in the response.
fn check(repo: &Repo, wants: &[&str], haves: &[&str]) {
    let request_objects = request_objects(repo);
    let (needed, had) = (needed(repo, wants, haves), had(repo, haves));
    for (thin, ofs_delta) in [(false, true), (false, false), (true, true), (true, false)] {
        let request = PackRequest {
            wants: ids(repo, wants),
            haves: if haves.is_empty() { Vec::new() } else { ids(repo, haves) },
            thin,
            ofs_delta,
            threads: 2,
            ..PackRequest::default()
        };
        let (pack, totals, _) = stream(&request_objects, &request);
        if !thin {
            assert_self_contained(&pack, repo.hash());
        }
        let base = (!haves.is_empty()).then_some(repo.path());
        let sent = objects_in_pack(Git::stock(), &pack, repo.hash(), base);
        let label = format!("{wants:?} without {haves:?}, thin {thin}, ofs-delta {ofs_delta}");
        assert_eq!(sent.len(), totals.objects as usize, "{label}");
        let missing: Vec<_> = needed.difference(&sent).filter(|id| !had.contains(*id)).collect();
        assert!(missing.is_empty(), "{label}: {missing:?} are missing");
        let useless: Vec<_> = sent.difference(&needed).collect();
        // Git itself sends objects that the receiver has if finding that out costs more; sending more than
        // git is a defect.
        assert!(useless.iter().all(|id| had.contains(*id)), "{label}: {useless:?} were not asked for");
        assert!(useless.len() <= needed.len() / 10 + 2, "{label}: {} useless objects", useless.len());
    }
}

fn check_all(repo: &Repo) {
    check(repo, &["--all"], &[]);
    check(repo, &["main"], &[]);
    check(repo, &["main"], &["main~1"]);
    check(repo, &["main"], &["main~10"]);
    check(repo, &["main", "main~3"], &["main~7", "main~12"]);
    check(repo, &["main"], &["main"]);
    check(repo, &["main~5"], &["main"]);
    check(repo, &["of-a-tree"], &[]);
    check(repo, &["main^{tree}"], &["main~4"]);
    check(repo, &["main~3"], &["main~3^{tree}"]);
}

fn build(hash: HashKind, storage: Storage) -> Repo {
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

#[test]
fn one_pack() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        check_all(&build(hash, Storage::default()));
    }
}

#[test]
fn bitmaps() {
    for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
        for multi_pack_index in [false, true] {
            let packs = if multi_pack_index { 3 } else { 1 };
            check_all(&build(
                HashKind::Sha1,
                Storage { packs, multi_pack_index, bitmap, ..Storage::default() },
            ));
        }
    }
    check_all(&build(HashKind::Sha256, Storage { bitmap: Bitmap::Plain, ..Storage::default() }));
}

#[test]
fn commit_graphs() {
    for commit_graph in [GraphLayout::Single, GraphLayout::Split] {
        check_all(&build(HashKind::Sha1, Storage { commit_graph, ..Storage::default() }));
    }
}

#[test]
fn many_packs_alternates_and_loose_objects() {
    check_all(&build(HashKind::Sha1, Storage { packs: 4, ..Storage::default() }));
    check_all(&build(HashKind::Sha1, Storage { packs: 4, multi_pack_index: true, ..Storage::default() }));
    check_all(&build(HashKind::Sha1, Storage { packs: 4, alternate: true, ..Storage::default() }));
    check_all(&build(HashKind::Sha1, Storage { packs: 2, loose: Loose::Newest, ..Storage::default() }));
    check_all(&build(HashKind::Sha1, Storage { loose: Loose::All, ..Storage::default() }));
}

#[test]
fn a_whole_pack_goes_out_as_it_is() {
    let repo = RepoBuilder::new(Size::Small).build();
    let request_objects = request_objects(&repo);
    let refs = repo.git(&["for-each-ref", "--format=%(objectname)"]);
    let wants: Vec<_> = refs.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
    let request = PackRequest { wants, ofs_delta: true, threads: 2, ..PackRequest::default() };
    let (pack, totals, segments) = stream(&request_objects, &request);
    let stored = stored_packs(&repo).remove(0);
    assert!(pack == std::fs::read(stored).unwrap(), "the stored pack itself is sent");
    assert_eq!((totals.pack_reused, totals.reused), (totals.objects, 0));
    assert!(segments <= pack.len() / (4 << 20) + 2, "{segments} segments");
}

#[test]
fn a_whole_pack_goes_out_as_it_is_beside_what_pushes_left() {
    for bitmap in [Bitmap::Plain, Bitmap::No] {
        let repo = RepoBuilder::new(Size::Small).storage(Storage { bitmap, ..Storage::default() }).build();
        let packed: u32 = {
            let counted = repo.git(&["count-objects", "-v"]);
            counted.lines().find_map(|line| line.strip_prefix("in-pack: ")).unwrap().parse().unwrap()
        };
        let commit = |message: &str| {
            let id = repo.git(&["commit-tree", "-m", message, "-p", "main", "main^{tree}"]);
            repo.git(&["update-ref", "refs/heads/main", id.trim()]);
            id
        };
        commit("loose");
        let check_whole = |pack_reused: u32, reused: u32, segments_beside: usize| {
            let wants = repo.git(&["for-each-ref", "--format=%(objectname)"]);
            let wants: Vec<_> = wants.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
            let request = PackRequest { wants, ofs_delta: true, threads: 2, ..PackRequest::default() };
            let (pack, totals, segments) = stream(&request_objects(&repo), &request);
            assert_self_contained(&pack, repo.hash());
            let sent = objects_in_pack(Git::stock(), &pack, repo.hash(), None);
            assert_eq!(sent, needed(&repo, &["--all"], &[]));
            let counted = (totals.pack_reused, totals.reused);
            assert_eq!(counted, (pack_reused, reused), "{bitmap:?}, {segments_beside} beside");
            assert!(segments <= pack.len() / (4 << 20) + 3 + segments_beside, "{segments} segments");
        };
        check_whole(packed, 0, 1);
        if bitmap != Bitmap::No {
            let id = commit("packed");
            let stem = repo.path().join("objects/pack/pack");
            repo.git_with_input(&["pack-objects", "-q", stem.to_str().unwrap()], id.as_bytes());
            repo.git(&["prune-packed"]);
            // The second pack is a whole one, too, but not that of the bitmap.
            check_whole(packed, 1, 2);
        }
        check_all(&repo);
    }
}

#[test]
fn tags_come_along_with_what_they_tag() {
    let repo = build(HashKind::Sha1, Storage::default());
    let request_objects = request_objects(&repo);
    let listing =
        repo.git(&["for-each-ref", "--format=%(objecttype) %(objectname) %(*objectname)", "refs/tags"]);
    let tags: Vec<(ObjectId, ObjectId)> = listing
        .lines()
        .filter_map(|line| line.strip_prefix("tag "))
        .map(|line| {
            let (tag, _) = line.split_once(' ').unwrap();
            let peeled = repo.git(&["rev-parse", &format!("{tag}^{{}}")]);
            (
                ObjectId::from_hex(tag.as_bytes()).unwrap(),
                ObjectId::from_hex(peeled.trim().as_bytes()).unwrap(),
            )
        })
        .collect();
    assert!(!tags.is_empty());
    let request = PackRequest {
        wants: ids(&repo, &["main"]),
        tags: tags.clone(),
        ofs_delta: true,
        threads: 1,
        ..PackRequest::default()
    };
    let sent = plan(&request_objects, &request, &NoProgress).unwrap().ids();
    for (tag, target) in tags {
        assert_eq!(
            sent.binary_search(&target).is_ok(),
            sent.binary_search(&tag).is_ok(),
            "{tag} of {target}"
        );
    }
    let without = PackRequest { tags: Vec::new(), ..request };
    assert!(plan(&request_objects, &without, &NoProgress).unwrap().ids().len() < sent.len());
}

#[test]
fn excluded_objects_stay_out_packed_or_loose() {
    let storages = [
        Storage::default(),
        Storage { loose: Loose::All, ..Storage::default() },
        Storage { bitmap: Bitmap::Plain, ..Storage::default() },
    ];
    for storage in storages {
        let repo = build(HashKind::Sha1, storage);
        let request_objects = request_objects(&repo);
        let request = PackRequest {
            wants: ids(&repo, &["main"]),
            ofs_delta: true,
            threads: 1,
            ..PackRequest::default()
        };
        let all = plan(&request_objects, &request, &NoProgress).unwrap().ids();
        let listing = repo.git(&["ls-tree", "-r", "main"]);
        let blob =
            |line: &str| ObjectId::from_hex(line.split([' ', '\t']).nth(2).unwrap().as_bytes()).unwrap();
        let mut blobs: Vec<ObjectId> = listing.lines().map(blob).collect();
        blobs.dedup();
        blobs.truncate(2);
        let unknown = ObjectId::from_hex(&[b'e'; 40]).unwrap();
        let twice = [blobs.as_slice(), &[unknown], &blobs].concat();
        let planned =
            plan(&request_objects, &PackRequest { excluded: twice, ..request.clone() }, &NoProgress).unwrap();
        assert_eq!(planned.excluded(), blobs);
        let expect: Vec<_> = all.into_iter().filter(|id| !blobs.contains(id)).collect();
        assert_eq!(planned.ids(), expect);
        let had = PackRequest { haves: request.wants.clone(), excluded: blobs, ..request.clone() };
        assert!(plan(&request_objects, &had, &NoProgress).unwrap().excluded().is_empty());
    }
}

/// Moved to a directory above its old one, which is visited later; as a file and as a directory.
#[test]
fn what_was_moved_is_not_sent_again() {
    let repo = build(HashKind::Sha1, Storage::default());
    let write = |args: &[&str], text: &str| repo.git_with_input(args, text.as_bytes()).trim().to_owned();
    let blob = |text: &str| format!("100644 blob {}", write(&["hash-object", "-w", "--stdin"], text));
    let tree = |entries: &[(&str, &str)]| {
        let lines: String = entries.iter().map(|(object, name)| format!("{object}\t{name}\n")).collect();
        format!("040000 tree {}", write(&["mktree"], &lines))
    };
    let id = |object: &str| object.rsplit(' ').next().unwrap().to_owned();
    let (file, stays) = (blob("moved\n"), blob("stays\n"));
    let dir = tree(&[(&blob("in a directory\n"), "f")]);
    let below = |entries: &[(&str, &str)]| tree(&[(&tree(&[(&tree(entries), "c")]), "b")]);
    let before = tree(&[(&below(&[(&file, "file"), (&dir, "dir"), (&stays, "stays")]), "a")]);
    let after = tree(&[(&below(&[(&stays, "stays")]), "a"), (&file, "moved"), (&dir, "moved-dir")]);
    let old = write(&["commit-tree", "-m", "1", &id(&before)], "");
    let new = write(&["commit-tree", "-m", "2", "-p", &old, &id(&after)], "");
    let [wants, haves] = [&new, &old].map(|commit| ids(&repo, &[commit]));
    let request = PackRequest { wants, haves, ofs_delta: true, threads: 1, ..PackRequest::default() };
    let sent = plan(&request_objects(&repo), &request, &NoProgress).unwrap().ids();
    let names = ["", "^{tree}", ":a", ":a/b", ":a/b/c"].map(|path| format!("{new}{path}"));
    let names = names.each_ref().map(String::as_str);
    let mut expect = ids(&repo, &names);
    expect.sort();
    assert_eq!(sent, expect);
}

/// Index-pack completes a thin pack with copies of its delta bases. They are not taken from there: the large pack has
/// them as deltas.
#[test]
fn what_thin_pushes_repeat_is_taken_from_the_large_pack() {
    let repo = RepoBuilder::new(Size::Small).build();
    let large = stored_packs(&repo).remove(0);
    let large_bytes = std::fs::metadata(&large).unwrap().len() as usize;
    for push in 0..4 {
        let old = repo.git(&["rev-parse", "main"]);
        let files = repo.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "main"]);
        let files = files.lines().filter_map(|line| line.strip_prefix("100644 "));
        let changed = files.filter(|path| !path.starts_with('"') && path.len() % 4 == push).take(40);
        let mut commit =
            format!("commit refs/heads/main\ncommitter A <a@b> 1800000000 +0000\ndata 1\n.\nfrom {old}");
        for path in changed {
            let content = repo.git(&["cat-file", "-p", &format!("main:{path}")]) + "one line more\n";
            commit += &format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len());
        }
        repo.git_with_input(
            &["-c", "fastimport.unpackLimit=10000", "fast-import", "--quiet"],
            commit.as_bytes(),
        );
        let revs = format!("main\n^{old}");
        let words = ["pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset"];
        let thin = Git::stock().run_with_input(repo.path(), &words, revs.as_bytes());
        Git::stock().run_with_input(repo.path(), &["index-pack", "--stdin", "--fix-thin"], &thin);
        repo.git(&["prune-packed"]);
    }
    assert_eq!(stored_packs(&repo).len(), 5);
    let wants = ids(&repo, &["--all"]);
    let request = PackRequest { wants, ofs_delta: true, threads: 1, ..PackRequest::default() };
    let mut stream = PackStream::new(plan(&request_objects(&repo), &request, &NoProgress).unwrap());
    let (mut pack, mut bytes) = (Vec::new(), 0);
    while let Some(segment) = stream.next_segment(&NoProgress).unwrap() {
        if let Segment::Mapped(map, range) = &segment
            && map.len() == large_bytes
        {
            bytes += range.len();
        }
        pack.extend_from_slice(segment.bytes());
    }
    assert_self_contained(&pack, repo.hash());
    let sent = objects_in_pack(Git::stock(), &pack, repo.hash(), None);
    assert_eq!(sent, needed(&repo, &["--all"], &[]));
    // Some objects become deltas of new versions.
    assert!(bytes > large_bytes * 995 / 1000, "{bytes} of {large_bytes}");
}
