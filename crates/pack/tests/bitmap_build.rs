//! Writes bitmaps for packs and multi-pack-indexes of many layouts, and has stock git and our planner use
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_format::bitmap::BitmapIndex;
use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::{HashKind, Kind, ObjectId};
use packrace_pack::maintain::bitmap_build::{
    BitOrder, BitmapOptions, BitmapTips, BuiltBitmap, PseudoMergeGroup, PseudoMergeRule, build,
    not_closed_warning,
};
use packrace_pack::plan::plan;
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Bitmap, Git, Loose, Repo, RepoBuilder, Size, Storage};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

fn request_objects(repo: &Repo) -> Arc<RequestObjects> {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

fn ids(lines: &str) -> Vec<ObjectId> {
    lines.lines().map(id).collect()
}

fn files(repo: &Repo, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// The order of bits in the multi-pack-index or in the only pack, and the path of its bitmap.
fn order(repo: &Repo, request_objects: &RequestObjects) -> (BitOrder, PathBuf) {
    let dir = repo.path().join("objects/pack");
    if let Ok(bytes) = std::fs::read(dir.join("multi-pack-index")) {
        let index = MultiPackIndex::open(bytes, repo.hash()).unwrap();
        let checksum = index.checksum();
        let order =
            BitOrder::of_multi_pack_index(request_objects, &index.into()).expect("it has an order of bits");
        return (order.unwrap(), dir.join(format!("multi-pack-index-{checksum}.bitmap")));
    }
    let [path] = files(repo, "idx").try_into().expect("one pack");
    let index = PackIndex::open(std::fs::read(&path).unwrap(), repo.hash()).unwrap();
    let reverse = ReverseIndex::<Vec<u8>>::compute(&index);
    (BitOrder::of_pack(request_objects, &index, &reverse).unwrap(), path.with_extension("bitmap"))
}

fn all_refs(repo: &Repo) -> Vec<ObjectId> {
    ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]))
}

fn try_write(repo: &Repo, preferred: &[ObjectId], options: &BitmapOptions) -> BuiltBitmap {
    try_write_of(repo, BitmapTips { refs: &all_refs(repo), preferred, ..BitmapTips::default() }, options)
}

fn try_write_of(repo: &Repo, tips: BitmapTips<'_>, options: &BitmapOptions) -> BuiltBitmap {
    let request_objects = request_objects(repo);
    let (order, path) = order(repo, &request_objects);
    let built = build(&request_objects, &order, tips, options, &NoProgress).unwrap();
    if let BuiltBitmap::File(bytes) = &built {
        for old in files(repo, "bitmap") {
            std::fs::remove_file(old).unwrap();
        }
        std::fs::write(path, bytes).unwrap();
    }
    built
}

fn write(repo: &Repo, options: &BitmapOptions) {
    assert!(matches!(try_write(repo, &[], options), BuiltBitmap::File(_)));
}

/// What our planner would send.
fn planned(
    request_objects: &Arc<RequestObjects>,
    wants: &[ObjectId],
    haves: &[ObjectId],
) -> BTreeSet<ObjectId> {
    let request =
        PackRequest { wants: wants.to_vec(), haves: haves.to_vec(), threads: 2, ..PackRequest::default() };
    plan(request_objects, &request, &NoProgress).unwrap().ids().into_iter().collect()
}

/// The commits for which git finds a bitmap; its content must equal git's walk.
fn tested_by_git(repo: &Repo, commits: &[&str]) -> usize {
    let is_tested = |commit: &&&str| {
        let output =
            Git::stock().command(repo.path()).args(["rev-list", "--test-bitmap", commit]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() || said.contains("doesn't have an indexed bitmap"),
            "{commit}: {said}"
        );
        output.status.success()
    };
    commits.iter().filter(is_tested).count()
}

/// Writes bitmaps in every form, and has git and our planner answer with and without them.
fn check(repo: &Repo) {
    let commits = repo.git(&["rev-list", "--all"]);
    let commits: Vec<&str> = commits.lines().collect();
    let refs = repo.git(&["for-each-ref", "--format=%(refname)"]);
    for (name_hashes, lookup_table, threads) in [(true, false, 1), (false, true, 2), (true, true, 2)] {
        for old in files(repo, "bitmap") {
            std::fs::remove_file(old).unwrap();
        }
        let before = request_objects(repo);
        assert!(before.snapshot().bitmap().is_none());
        write(repo, &BitmapOptions { name_hashes, lookup_table, threads, ..BitmapOptions::default() });
        let after = request_objects(repo);
        assert!(after.snapshot().bitmap().is_some());
        let step = commits.len() / 40 + 1;
        let some: Vec<&str> = commits.iter().copied().step_by(step).collect();
        assert!(tested_by_git(repo, &commits[..10]) == 10, "the newest commits have bitmaps");
        assert!(tested_by_git(repo, &some) > 0);
        for revs in
            [vec!["--all"], vec![some[0], "--not", some[some.len() / 2]], refs.lines().take(5).collect()]
        {
            let count = [&["rev-list", "--count", "--objects"], &revs[..]].concat();
            let with = [&["rev-list", "--count", "--objects", "--use-bitmap-index"], &revs[..]].concat();
            assert_eq!(repo.git(&with), repo.git(&count), "{revs:?}");
        }
        for pair in some.chunks(4).filter(|pair| pair.len() == 4) {
            let (wants, haves) = ([id(pair[0]), id(pair[2])], [id(pair[1]), id(pair[3])]);
            assert_eq!(planned(&after, &wants, &[]), planned(&before, &wants, &[]));
            let (with, without) = (planned(&after, &wants, &haves), planned(&before, &wants, &haves));
            // A walk may send objects that the client has, because it cannot know that; bitmaps can.
            assert!(with.is_subset(&without), "{pair:?}");
            let revs = [pair[0], pair[2], "--not", pair[1], pair[3]];
            let exact =
                [&["rev-list", "--objects", "--no-object-names", "--use-bitmap-index"], &revs[..]].concat();
            let exact: BTreeSet<ObjectId> = ids(&repo.git(&exact)).into_iter().collect();
            assert!(exact.is_subset(&with), "{pair:?}");
        }
        let every = all_refs(repo);
        assert_eq!(planned(&after, &every, &[]), planned(&before, &every, &[]));
    }
    let dir = packrace_testkit::scratch_dir();
    let clone = dir.path().join("clone.git");
    let (from, to) = (format!("file://{}", repo.path().display()), clone.to_str().unwrap());
    Git::stock().run(dir.path(), &["clone", "-q", "--mirror", &from, to]);
    Git::stock().run(&clone, &["fsck", "--strict", "--connectivity-only"]);
    assert_eq!(Git::stock().run(&clone, &["for-each-ref"]), repo.git(&["for-each-ref"]));
}

#[test]
fn a_pack() {
    for hash in HASHES {
        check(&RepoBuilder::new(Size::Tiny).hash(hash).build());
    }
    check(&RepoBuilder::new(Size::Small).build());
}

#[test]
fn a_multi_pack_index() {
    for hash in HASHES {
        // With git's own bitmap, so that git writes the order of bits.
        let storage =
            Storage { packs: 3, multi_pack_index: true, bitmap: Bitmap::Plain, ..Storage::default() };
        check(&RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build());
    }
}

#[test]
fn refs_that_lead_outside_a_multi_pack_index() {
    let storage = Storage { packs: 3, multi_pack_index: true, bitmap: Bitmap::Plain, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let commit = |parent: &str| {
        let args = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit-tree",
            "-m",
            "new",
            "-p",
            parent,
            tree.trim(),
        ];
        repo.git(&args).trim().to_owned()
    };
    let new = commit(&commit("main"));
    repo.git(&["update-ref", "refs/heads/main", &new]);
    write(&repo, &BitmapOptions::default());
    let inside = repo.git(&["rev-parse", "main~2"]);
    assert_eq!(tested_by_git(&repo, &[inside.trim()]), 1);
    let count = ["rev-list", "--count", "--objects", "--all"];
    assert_eq!(repo.git(&[&count[..], &["--use-bitmap-index"]].concat()), repo.git(&count));
}

/// Git and our planner answer the same with groups of commits, some of them in two groups, as without; reused bitmaps
/// make no difference.
#[test]
fn groups_of_tips_have_bitmaps_together() {
    let repo = RepoBuilder::new(Size::Small).build();
    let refs = all_refs(&repo);
    let every = ids(&repo.git(&["rev-list", "--all"]));
    let rule = PseudoMergeRule { max_merges: 3, ..PseudoMergeRule::new(i64::MAX, 0) };
    let stable = PseudoMergeRule { stable_size: 100, ..PseudoMergeRule::new(i64::MAX, i64::MAX) };
    let old = every[every.len() / 2..].to_vec();
    let groups =
        [PseudoMergeGroup { rule, tips: every.clone() }, PseudoMergeGroup { rule: stable, tips: old }];
    let tips = BitmapTips { refs: &refs, preferred: &[], groups: &groups };
    let before = request_objects(&repo);
    let built = [(false, 1), (true, 2), (true, 1)].map(|(reuse, threads)| {
        try_write_of(&repo, tips, &BitmapOptions { reuse, threads, ..BitmapOptions::default() })
    });
    assert!(built[1] == built[2], "threads make no difference");
    let after = request_objects(&repo);
    let bitmap = after.snapshot().bitmap().unwrap();
    let mut named = bitmap.no_bits();
    for commit in &every {
        named.set(bitmap.ix_to_bit(after.snapshot().lookup(commit).unwrap()).unwrap());
    }
    let merges = bitmap.or_pseudo_merges_into(&named, &mut bitmap.no_bits()).unwrap();
    assert!(merges > 3, "{merges}");
    for some in [&every[..], &every[every.len() / 3..]] {
        assert_eq!(planned(&after, some, &[]), planned(&before, some, &[]));
        let input = some.iter().map(|id| format!("{id}\n")).collect::<String>();
        let count = ["rev-list", "--count", "--objects", "--stdin"];
        let with = [&count[..], &["--use-bitmap-index"]].concat();
        let count = repo.git_with_input(&count, input.as_bytes());
        assert_eq!(repo.git_with_input(&with, input.as_bytes()), count);
    }
}

#[test]
fn preferred_tips_have_bitmaps() {
    let repo = RepoBuilder::new(Size::Medium).build();
    let commits = repo.git(&["rev-list", "main"]);
    let old: Vec<&str> = commits.lines().skip(1000).step_by(100).take(12).collect();
    let fresh = |threads| BitmapOptions { threads, reuse: false, ..BitmapOptions::default() };
    let built = [1, 3].map(|threads| try_write(&repo, &[], &fresh(threads)));
    assert!(built[0] == built[1], "threads make no difference");
    assert!(tested_by_git(&repo, &old) < old.len());
    let preferred: Vec<ObjectId> = old.iter().map(|commit| id(commit)).collect();
    assert!(matches!(try_write(&repo, &preferred, &BitmapOptions::default()), BuiltBitmap::File(_)));
    assert_eq!(tested_by_git(&repo, &old), old.len());
}

#[test]
fn a_pack_that_is_not_closed_gets_none() {
    // The newest objects are loose; refs name them.
    let storage = Storage { packs: 2, loose: Loose::Newest, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    write(&repo, &BitmapOptions::default());
    // The same pack without one of its blobs.
    let listing = repo.git(&["ls-tree", "-r", "main"]);
    let blob = listing.split_whitespace().nth(2).unwrap().to_owned();
    let objects = repo.git(&["rev-list", "--objects", "--no-object-names", "main"]);
    let kept: String = objects.lines().filter(|id| *id != blob).map(|id| format!("{id}\n")).collect();
    let base = repo.path().join("objects/pack/pack");
    let packed = repo.git_with_input(&["pack-objects", "-q", base.to_str().unwrap()], kept.as_bytes());
    for path in ["pack", "idx", "rev", "bitmap"].iter().flat_map(|extension| files(&repo, extension)) {
        if !path.to_str().unwrap().contains(packed.trim()) {
            std::fs::rename(&path, repo.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let moved = std::fs::read_dir(repo.path()).unwrap().map(|entry| entry.unwrap().path());
    let moved = moved.filter(|path| path.extension().is_some_and(|extension| extension == "pack"));
    let moved: Vec<PathBuf> = moved.collect();
    for pack in moved {
        repo.git_with_input(&["unpack-objects", "-q"], &std::fs::read(pack).unwrap());
    }
    let BuiltBitmap::NotClosed(missing) = try_write(&repo, &[], &BitmapOptions::default()) else {
        panic!("the pack is not closed");
    };
    assert_eq!(missing.to_string(), blob);
    assert_eq!(
        not_closed_warning(&missing),
        format!(
            "Failed to write bitmap index. Packfile doesn't have full closure (object {blob} is missing)"
        )
    );
}

/// Packs everything that refs reach into a separate directory, as for a repack.
fn repack_beside(repo: &Repo, dir: &Path) -> PathBuf {
    let base = dir.join("pack");
    let base = base.to_str().unwrap();
    let name = repo.git_with_input(&["pack-objects", "-q", "--all", "--delta-base-offset", base], b"");
    dir.join(format!("pack-{}.idx", name.trim()))
}

/// The bitmap of a pack outside the repository.
fn build_beside(repo: &Repo, index: &Path, reuse: bool) -> Vec<u8> {
    let request_objects = request_objects(repo);
    let index = PackIndex::open(std::fs::read(index).unwrap(), repo.hash()).unwrap();
    let order =
        BitOrder::of_pack(&request_objects, &index, &ReverseIndex::<Vec<u8>>::compute(&index)).unwrap();
    let tips = BitmapTips { refs: &all_refs(repo), ..BitmapTips::default() };
    let options = BitmapOptions { reuse, ..BitmapOptions::default() };
    match build(&request_objects, &order, tips, &options, &NoProgress).unwrap() {
        BuiltBitmap::File(file) => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bitmaps_of_the_old_pack_are_taken_over() {
    for (hash, bitmap) in [(HashKind::Sha1, Bitmap::Plain), (HashKind::Sha256, Bitmap::LookupTable)] {
        let storage = Storage { bitmap, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Small).hash(hash).storage(storage).build();
        let tree = repo.git(&["rev-parse", "main~3^{tree}"]);
        for number in 0..70 {
            let message = format!("New {number}");
            let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let commit = ["commit-tree", "-m", &message, "-p", "main", "-p", "main~5", tree.trim()];
            let new = repo.git(&[&who[..], &commit].concat());
            repo.git(&["update-ref", "refs/heads/main", new.trim()]);
        }
        let dir = packrace_testkit::scratch_dir();
        let index = repack_beside(&repo, dir.path());
        let objects = PackIndex::open(std::fs::read(&index).unwrap(), hash).unwrap().len();
        let open = |bytes: Vec<u8>| BitmapIndex::open(bytes, objects, hash).unwrap();
        let [reused, fresh] = [true, false].map(|reuse| open(build_beside(&repo, &index, reuse)));
        let common: Vec<u32> =
            reused.commit_positions().filter(|position| fresh.has_bitmap_of(*position)).collect();
        assert!(common.len() > 60 && reused.len() > 100, "{} of {}", common.len(), reused.len());
        for position in common {
            assert_eq!(reused.bitmap_of(position), fresh.bitmap_of(position));
        }
        for kind in Kind::ALL {
            assert_eq!(reused.type_bitmap(kind), fresh.type_bitmap(kind), "{kind}");
        }
        let names = (0..objects).filter(|at| reused.name_hash_at(*at) == fresh.name_hash_at(*at)).count();
        assert!(names as u32 > objects / 10 * 9, "{names} of {objects}");
        check_replaced(&repo, &index, open(build_beside(&repo, &index, true)));
    }
}

/// Has git test every entry after the new pack has replaced the old one.
fn check_replaced(repo: &Repo, index: &Path, bitmap: BitmapIndex<Vec<u8>>) {
    let ids = PackIndex::open(std::fs::read(index).unwrap(), repo.hash()).unwrap();
    let commits: Vec<String> = bitmap.commit_positions().map(|at| ids.id_at(at).to_string()).collect();
    let file = build_beside(repo, index, true);
    let dir = repo.path().join("objects/pack");
    for old in ["idx", "bitmap", "rev", "pack"].iter().flat_map(|extension| files(repo, extension)) {
        std::fs::remove_file(old).unwrap();
    }
    for extension in ["pack", "rev", "idx"] {
        let from = index.with_extension(extension);
        std::fs::copy(&from, dir.join(from.file_name().unwrap())).unwrap();
    }
    std::fs::write(dir.join(index.with_extension("bitmap").file_name().unwrap()), file).unwrap();
    let commits: Vec<&str> = commits.iter().map(String::as_str).collect();
    assert_eq!(tested_by_git(repo, &commits), commits.len());
}

#[test]
fn a_damaged_bitmap_is_not_taken_over() {
    let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let dir = packrace_testkit::scratch_dir();
    let index = repack_beside(&repo, dir.path());
    let fresh = build_beside(&repo, &index, false);
    let path = files(&repo, "bitmap").remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(build_beside(&repo, &index, true), fresh);
}

#[test]
fn a_shallow_history_gets_none() {
    let storage = Storage { shallow_depth: Some(5), ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    assert_eq!(try_write(&repo, &[], &BitmapOptions::default()), BuiltBitmap::Shallow);
    assert!(files(&repo, "bitmap").is_empty());
}
