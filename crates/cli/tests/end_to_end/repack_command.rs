//! `packrace repack` keeps the same objects in the same roles as `git repack`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use packrace_object::HashKind;
use packrace_testkit::{Extent, Git, RefFormat, Repo, RepoBuilder, Size, Storage, sampled};

use crate::running::{PACKRACE, copy, packrace, stock_git};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

/// Where an object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Pack,
    Kept,
    Cruft,
    Promisor,
    Loose,
}

/// Every object of the repository itself with its role.
pub fn objects(repo: &Path) -> BTreeSet<(Role, String)> {
    let mut found = BTreeSet::new();
    for path in files(&repo.join("objects/pack")) {
        if path.extension().is_none_or(|extension| extension != "idx") {
            continue;
        }
        let role = [("keep", Role::Kept), ("mtimes", Role::Cruft), ("promisor", Role::Promisor)];
        let role = role.into_iter().find(|(extension, _)| path.with_extension(extension).exists());
        let role = role.map_or(Role::Pack, |(_, role)| role);
        let format = match path.file_stem().unwrap().len() > 60 {
            true => "--object-format=sha256",
            false => "--object-format=sha1",
        };
        let index = std::fs::read(&path).unwrap();
        let listing = Git::stock().run_with_input(repo, &["show-index", format], &index);
        for line in String::from_utf8(listing).unwrap().lines() {
            found.insert((role, line.split(' ').nth(1).unwrap().to_owned()));
        }
    }
    for first in 0..=255 {
        let directory = format!("{first:02x}");
        for path in files(&repo.join("objects").join(&directory)) {
            let rest = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.insert((Role::Loose, format!("{directory}{rest}")));
        }
    }
    found
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// The number of files of each kind beside packs.
pub fn extensions(repo: &Path) -> Vec<(String, usize)> {
    let names = files(&repo.join("objects/pack"));
    let kinds = ["pack", "idx", "rev", "keep", "mtimes", "promisor", "bitmap"].map(|kind| {
        let is_of_kind = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == kind);
        (kind.to_owned(), names.iter().filter(is_of_kind).count())
    });
    kinds.into()
}

/// The numbers of packs and objects in the multi-pack-index, if there is one.
fn covered(repo: &Path) -> Option<(u32, u32)> {
    let bytes = std::fs::read(repo.join("objects/pack/multi-pack-index")).ok()?;
    let hash = if bytes[5] == 2 { HashKind::Sha256 } else { HashKind::Sha1 };
    let index = packrace_format::multi_pack_index::MultiPackIndex::open(bytes, hash).unwrap();
    let verified = stock_git(repo, &["multi-pack-index", "verify"], "");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    Some((index.pack_count(), index.len()))
}

pub fn assert_sound(repo: &Path) {
    let fsck = stock_git(repo, &["fsck", "--full", "--strict", "--no-dangling", "--no-progress"], "");
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
    let garbage = Git::stock().run(repo, &["count-objects", "-v"]);
    assert!(garbage.contains("garbage: 0"), "{garbage}");
    for pack in files(&repo.join("objects/pack")) {
        if pack.extension().is_some_and(|extension| extension == "idx") {
            Git::stock().run(repo, &["verify-pack", pack.to_str().unwrap()]);
        }
    }
}

/// Runs `repack` with git and packrace on copies of `repo`, and compares results and output.
fn check_mode(repo: &Path, args: &[&str]) {
    let dir = packrace_testkit::scratch_dir();
    let args = [&["repack"], args].concat();
    let [git, ours] = ["git", "packrace"].map(|name| {
        // The alternate's path is relative to its borrower.
        let inner = dir.path().join(name);
        copy(repo.parent().unwrap(), &inner);
        inner.join(repo.file_name().unwrap())
    });
    let of_git = stock_git(&git, &args, "");
    let of_ours = packrace(&ours, &args, "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = (text(&of_git.stdout), text(&of_git.stderr));
    assert_eq!(of_git.status.code(), of_ours.status.code(), "{args:?}: {}", text(&of_ours.stderr));
    assert_eq!(said, (text(&of_ours.stdout), text(&of_ours.stderr)), "{args:?}");
    let (expect, found) = (objects(&git), objects(&ours));
    let only_git: Vec<_> = expect.difference(&found).take(3).collect();
    let only_ours: Vec<_> = found.difference(&expect).take(3).collect();
    assert!(expect == found, "{args:?}: only git: {only_git:?}, only packrace: {only_ours:?}");
    assert_eq!(extensions(&git), extensions(&ours), "{args:?}");
    let [expect, found] = [&git, &ours].map(|repo| std::fs::read_to_string(repo.join("shallow")).ok());
    let sorted =
        |text: Option<String>| text.map(|text| text.lines().map(str::to_owned).collect::<BTreeSet<_>>());
    assert_eq!(sorted(expect), sorted(found), "{args:?}");
    for list in ["info/refs", "objects/info/packs"] {
        let [expect, found] = [&git, &ours].map(|repo| std::fs::read_to_string(repo.join(list)).ok());
        // Packs are named by their content, delta by delta. Git lists those of a multi-pack-index twice.
        let lines =
            |text: &Option<String>| text.as_ref().map(|text| text.lines().collect::<BTreeSet<_>>().len());
        assert_eq!(lines(&expect), lines(&found), "{args:?} {list}");
        assert!(list != "info/refs" || expect == found, "{args:?}");
    }
    assert_sound(&ours);
    assert_eq!(covered(&git), covered(&ours), "{args:?}");
    if files(&ours.join("objects/pack")).iter().any(|path| path.extension().is_some_and(|e| e == "bitmap")) {
        let tested = stock_git(&ours, &["rev-list", "--test-bitmap", "main"], "");
        let said = text(&tested.stderr);
        assert!(tested.status.success() && said.contains("OK!"), "{args:?}: {said}");
        assert!(!said.contains("ignoring"), "{args:?}: {said}");
    }
    assert_eq!(Git::stock().run(&git, &["count-objects"]), Git::stock().run(&ours, &["count-objects"]));
}

const MODES: [&[&str]; 26] = [
    &["-m"],
    &["-a", "-d", "-m"],
    &["-A", "-d", "--write-midx"],
    &["--cruft", "-d", "-m"],
    &["--geometric=2", "-d", "-m"],
    &[],
    &["-d"],
    &["-a"],
    &["-a", "-d"],
    &["-A"],
    &["-A", "-d"],
    &["-A", "-d", "--unpack-unreachable=now"],
    &["-A", "-d", "--unpack-unreachable=2.weeks.ago"],
    &["-a", "-d", "-k"],
    &["-a", "-k"],
    &["--cruft"],
    &["--cruft", "-d"],
    &["--cruft", "-d", "--cruft-expiration=now"],
    &["--cruft", "-d", "--cruft-expiration=1.day.ago"],
    &["-a", "-d", "-f", "--window=5", "--depth=3", "--threads=1", "-q"],
    &["-a", "-d", "-F", "--window-memory=1m"],
    &["--geometric=2"],
    &["--geometric=2", "-d"],
    &["-g3", "-d", "-n"],
    &["-a", "-d", "-l"],
    &["-a", "-d", "--pack-kept-objects"],
];

/// Except for the repository in which all modes run, a sample runs one mode in this many.
const OTHER_STEP: usize = 5;

fn some_of<'a>(extent: Extent, modes: &'a [&'a [&'a str]]) -> impl Iterator<Item = &'a &'a [&'a str]> {
    modes.iter().step_by(extent.pick(OTHER_STEP, 1))
}

/// Four packs, some history that only a reflog or nothing reaches, and loose objects of both kinds.
pub fn worn(hash: HashKind, storage: Storage, ref_format: RefFormat) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny)
        .hash(hash)
        .ref_format(ref_format)
        .storage(Storage { packs: 4, ..storage })
        .build();
    repo.git(&["config", "core.logAllRefUpdates", "always"]);
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let commit = |parent: &str, message: &str| {
        let id = repo.git(&["commit-tree", tree.trim(), "-p", parent, "-m", message]);
        id.trim().to_owned()
    };
    let loose = commit("main", "loose and reached");
    repo.git(&["update-ref", "refs/heads/main", &loose]);
    commit("main", "loose and not reached");
    let logged = commit("main~2", "only in a reflog");
    repo.git(&["update-ref", "refs/heads/logged", &logged]);
    repo.git(&["update-ref", "refs/heads/logged", "main~3"]);
    // Unreachable objects in a pack, a tree and a blob among them.
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"nobody wants this\n");
    let listing = format!("100644 blob {}\tgone\n", blob.trim());
    let gone = repo.git_with_input(&["mktree"], listing.as_bytes());
    let gone = repo.git(&["commit-tree", gone.trim(), "-m", "gone"]);
    let names = format!(
        "{}\n{}\n{}\n",
        gone.trim(),
        repo.git(&["rev-parse", &format!("{}^{{tree}}", gone.trim())]).trim(),
        blob.trim()
    );
    repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], names.as_bytes());
    repo.git(&["prune-packed", "-q"]);
    repo.git(&["config", "repack.writeBitmaps", "false"]);
    repo
}

sampled! {
    fn every_mode_as_git(extent) {
        for hash in HASHES {
            let repo = worn(hash, Storage::default(), RefFormat::Files);
            // Only the length of object names differs.
            let step = if hash == HashKind::Sha1 { 1 } else { extent.pick(OTHER_STEP, 1) };
            MODES.iter().step_by(step).for_each(|mode| check_mode(repo.path(), mode));
        }
    }
}

sampled! {
    fn kept_packs(extent) {
        let storage = Storage { keep_oldest: true, ..Storage::default() };
        let repo = worn(HashKind::Sha1, storage, RefFormat::Files);
        some_of(extent, &MODES).for_each(|mode| check_mode(repo.path(), mode));
        let newest = files(&repo.path().join("objects/pack")).into_iter().find(|path| {
            path.extension().is_some_and(|extension| extension == "pack") && !path.with_extension("keep").exists()
        });
        let newest = newest.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        check_mode(repo.path(), &["-a", "-d", &format!("--keep-pack={newest}")]);
    }
}

sampled! {
    fn alternates(extent) {
        let storage = Storage { alternate: true, ..Storage::default() };
        let repo = worn(HashKind::Sha1, storage, RefFormat::Files);
        some_of(extent, &MODES).for_each(|mode| check_mode(repo.path(), mode));
        for mode in [&["-d", "-l"][..], &["-A", "-d", "-l"], &["--geometric=2", "-d", "-l"]] {
            check_mode(repo.path(), mode);
        }
    }
}

const BITMAP_MODES: [&[&str]; 13] = [
    &["-a", "-d"],
    &["-a", "-d", "-b"],
    &["-A", "-d", "-b", "-q"],
    &["--cruft", "-d"],
    &["--cruft", "-d", "-b", "-m"],
    &["-a", "-d", "-k"],
    &["-a", "-d", "-l", "-b"],
    &["-a", "-d", "-m"],
    &["-a", "-d", "-m", "-b"],
    &["-d", "--geometric=2", "-m", "-b"],
    &["-a", "-d", "--no-write-bitmap-index"],
    &["-a", "-d", "-b", "--no-pack-kept-objects"],
    &["-b"],
];

sampled! {
    fn bitmaps(extent) {
        for (hash, lookup_table) in [(HashKind::Sha1, "true"), (HashKind::Sha256, "false")] {
            let repo = worn(hash, Storage::default(), RefFormat::Files);
            repo.git(&["config", "--unset", "repack.writeBitmaps"]);
            repo.git(&["config", "pack.writeBitmapLookupTable", lookup_table]);
            some_of(extent, &BITMAP_MODES).for_each(|mode| check_mode(repo.path(), mode));
            repo.git(&["config", "pack.preferBitmapTips", "refs/tags/"]);
            check_mode(repo.path(), &["-a", "-d", "-b"]);
            repo.git(&["config", "repack.writeBitmaps", "true"]);
            check_mode(repo.path(), &["-a", "-d", "-m"]);
            check_mode(repo.path(), &["-a", "-d"]);
            check_mode(repo.path(), &["-d"]);
        }
    }
}

sampled! {
    /// If the pack does not hold everything, there is no bitmap, and a warning only if one was requested.
    fn no_bitmaps_of_a_part(extent) {
        let storage = Storage { keep_oldest: true, ..Storage::default() };
        let repo = worn(HashKind::Sha1, storage, RefFormat::Files);
        repo.git(&["config", "--unset", "repack.writeBitmaps"]);
        some_of(extent, &BITMAP_MODES).for_each(|mode| check_mode(repo.path(), mode));
        let storage = Storage { alternate: true, ..Storage::default() };
        let repo = worn(HashKind::Sha1, storage, RefFormat::Files);
        repo.git(&["config", "--unset", "repack.writeBitmaps"]);
        let modes = some_of(extent, &BITMAP_MODES).filter(|mode| !mode.contains(&"--geometric=2"));
        modes.for_each(|mode| check_mode(repo.path(), mode));
    }
}

sampled! {
    /// An existing multi-pack-index is replaced, or removed with the packs that it names.
    fn multi_pack_indexes(extent) {
        let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
        repo.git(&["multi-pack-index", "write"]);
        some_of(extent, &MODES).for_each(|mode| check_mode(repo.path(), mode));
    }
}

/// Sizes are limited, and objects that hooks name do not expire.
#[test]
fn limits_and_hooks() {
    let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
    for mode in [
        &["-a", "-d", "--max-pack-size=1m", "-q"][..],
        &["-a", "-d", "--max-pack-size=0"],
        &["--cruft", "-d", "--max-cruft-size=2m", "--max-pack-size=1m"],
    ] {
        check_mode(repo.path(), mode);
    }
    let all = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]);
    let reached = repo.reachable_objects();
    let gone = all.lines().filter_map(|line| line.strip_prefix("commit "));
    let gone: Vec<&str> = gone.filter(|id| !reached.iter().any(|other| other == id)).collect();
    assert!(gone.len() > 1, "{gone:?}");
    repo.git(&["config", "gc.recentObjectsHook", &format!("echo {}", gone[0])]);
    repo.git(&[
        "config",
        "--add",
        "gc.recentObjectsHook",
        &format!("echo {}; echo {}", "1".repeat(40), gone[1]),
    ]);
    let modes = [&["--cruft", "-d", "--cruft-expiration=now"][..], &["-A", "-d", "--unpack-unreachable=now"]];
    modes.iter().for_each(|mode| check_mode(repo.path(), mode));
    for (broken, words) in [
        ("exit 3", "unable to enumerate additional recent objects"),
        ("echo x", "invalid extra cruft tip: 'x'"),
    ] {
        repo.git(&["config", "--replace-all", "gc.recentObjectsHook", broken]);
        for mode in modes {
            let args = [&["repack"], mode].concat();
            let before = objects(repo.path());
            let [git, ours] = [stock_git, packrace].map(|run| run(repo.path(), &args, ""));
            let said = String::from_utf8_lossy(&ours.stderr).into_owned();
            assert!(!git.status.success() && !ours.status.success(), "{broken}: {said}");
            let of_git = String::from_utf8_lossy(&git.stderr).into_owned();
            assert!(of_git.contains(words) && said.contains(words), "{broken}: {of_git} {said}");
            assert_eq!(before, objects(repo.path()));
        }
    }
}

#[test]
fn reftables() {
    let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Reftable);
    for mode in [&["-a", "-d"][..], &["--cruft", "-d"], &["-A", "-d"]] {
        check_mode(repo.path(), mode);
    }
}

#[test]
fn filters() {
    let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
    for filter in ["blob:none", "blob:limit=100", "tree:0", "object:type=commit", "combine:blob:none+tree:2"]
    {
        check_mode(repo.path(), &["-a", "-d", &format!("--filter={filter}")]);
        check_mode(repo.path(), &["-a", &format!("--filter={filter}")]);
        check_mode(repo.path(), &["-d", &format!("--filter={filter}"), "--filter-to=aside"]);
        check_mode(repo.path(), &[&format!("--filter={filter}"), "--filter-to=aside"]);
        check_mode(repo.path(), &["-A", "-d", &format!("--filter={filter}")]);
    }
    check_mode(repo.path(), &["-a", "-d", "--filter=bogus"]);
    check_mode(repo.path(), &["-a", "-d", "--filter-to=elsewhere"]);
    repo.git(&["config", "--unset", "repack.writeBitmaps"]);
    // A bitmap would need omitted objects. Git fails, too, and leaves a temporary pack behind.
    let before = objects(repo.path());
    let output = packrace(repo.path(), &["repack", "-a", "-d", "--filter=blob:none"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(128) && said.contains("doesn't have full closure"), "{said}");
    assert!(
        said.ends_with("fatal: failed to write bitmap index\n") && objects(repo.path()) == before,
        "{said}"
    );
    // A separate object directory, from which the repository borrows.
    let aside = packrace_testkit::scratch_dir();
    std::fs::create_dir_all(aside.path().join("pack")).unwrap();
    let before = repo.reachable_objects();
    let to = format!("--filter-to={}", aside.path().join("pack/pack").display());
    let args = ["repack", "-a", "-d", "--no-write-bitmap-index", "--filter=blob:none", &to];
    let output = packrace(repo.path(), &args, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(repo.path().join("objects/info/alternates"), format!("{}\n", aside.path().display()))
        .unwrap();
    assert_eq!(repo.reachable_objects(), before);
    assert_sound(repo.path());
}

sampled! {
    /// A shallow commit that is dropped is removed from the list of shallow commits.
    fn shallow_repositories(extent) {
        let storage = Storage { shallow_depth: Some(4), ..Storage::default() };
        let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
        repo.git(&["config", "repack.writeBitmaps", "false"]);
        some_of(extent, &MODES).for_each(|mode| check_mode(repo.path(), mode));
        // An independent history replaces the shallow one.
        let tree = repo.git(&["rev-parse", "main^{tree}"]);
        let root = repo.git(&["commit-tree", tree.trim(), "-m", "a new beginning"]);
        let refs = repo.git(&["for-each-ref", "--format=%(refname)"]);
        for name in refs.lines().filter(|name| *name != "refs/heads/main") {
            repo.git(&["update-ref", "--no-deref", "-d", name]);
        }
        repo.git(&["update-ref", "refs/heads/main", root.trim()]);
        some_of(extent, &MODES).for_each(|mode| check_mode(repo.path(), mode));
        assert!(packrace(repo.path(), &["repack", "-a", "-d"], "").status.success());
        assert!(!repo.path().join("shallow").exists());
        assert_sound(repo.path());
    }
}

sampled! {
    /// The objects of a cruft pack stay in one with their times, or expire by them.
    fn cruft_packs_again(extent) {
        let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
        repo.git(&["repack", "--cruft", "-d", "-q"]);
        assert_eq!(objects(repo.path()).iter().filter(|(role, _)| *role == Role::Cruft).count(), 4);
        // Git gives the rewritten cruft pack the same name as the existing one, since both are its own.
        let modes = some_of(extent, &MODES).filter(|mode| mode.contains(&"-d") || !mode.contains(&"--cruft"));
        modes.for_each(|mode| check_mode(repo.path(), mode));
    }
}

/// Old objects expire, except those that newer ones need.
#[test]
fn expiry_by_age() {
    let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
    let newest = repo.git(&["rev-parse", "main~2"]);
    let old = repo.git(&["rev-parse", "main~25"]);
    for name in repo.git(&["for-each-ref", "--format=%(refname)"]).lines() {
        repo.git(&["update-ref", "--no-deref", "-d", name]);
    }
    repo.git(&["update-ref", "refs/heads/main", old.trim()]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["prune", "--expire=now"]);
    let modes: [&[&str]; 4] = [
        &["--cruft", "-d", "--cruft-expiration=1.day.ago"],
        &["-A", "-d", "--unpack-unreachable=1.day.ago"],
        &["--cruft", "-d", "--cruft-expiration=never"],
        &["--cruft", "-d"],
    ];
    modes.iter().for_each(|mode| check_mode(repo.path(), mode));
    let tree = repo.git(&["rev-parse", &format!("{}^{{tree}}", newest.trim())]);
    repo.git(&["commit-tree", tree.trim(), "-p", newest.trim(), "-m", "recent, and not reached"]);
    modes.iter().for_each(|mode| check_mode(repo.path(), mode));
}

#[test]
fn expired_objects_are_put_elsewhere() {
    let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
    let aside = packrace_testkit::scratch_dir();
    let prefix = format!("--expire-to={}", aside.path().join("pack").display());
    let args = ["repack", "--cruft", "-d", "--cruft-expiration=now", &prefix];
    let output = packrace(repo.path(), &args, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packs = files(aside.path());
    let index = packs.iter().find(|path| path.extension().is_some_and(|extension| extension == "idx"));
    let listing = repo.git_with_input(&["show-index"], &std::fs::read(index.unwrap()).unwrap());
    assert_eq!(listing.lines().count(), 4, "{listing}");
}

#[test]
fn what_promisors_promised_stays_apart() {
    let origin = RepoBuilder::new(Size::Tiny).build();
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let dir = packrace_testkit::scratch_dir();
    let url = format!("file://{}", origin.path().display());
    Git::stock().run(dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &url, "partial.git"]);
    let partial = dir.path().join("partial.git");
    let git = |args: &[&str]| Git::stock().run(&partial, args);
    git(&["config", "repack.writeBitmaps", "false"]);
    let blob = Git::stock().run_with_input(&partial, &["hash-object", "-w", "--stdin"], b"of our own\n");
    let listing = format!("100644 blob {}\town\n", String::from_utf8(blob).unwrap().trim());
    let tree = Git::stock().run_with_input(&partial, &["mktree"], listing.as_bytes());
    let tree = String::from_utf8(tree).unwrap();
    let commit = git(&["commit-tree", tree.trim(), "-p", "main", "-m", "own"]);
    git(&["update-ref", "refs/heads/own", commit.trim()]);
    for mode in [&["-a", "-d"][..], &["-a"], &["-A", "-d"], &["--cruft", "-d"], &["-d"]] {
        check_mode(&partial, mode);
    }
}

#[test]
fn work_trees() {
    let dir = packrace_testkit::scratch_dir();
    let work = dir.path().join("work");
    let git = |dir: &Path, args: &[&str]| Git::stock().run(dir, args);
    git(dir.path(), &["init", "-q", "-b", "main", "work"]);
    std::fs::write(work.join("file"), "one\n").unwrap();
    git(&work, &["add", "file"]);
    git(&work, &["commit", "-q", "-m", "one"]);
    git(&work, &["worktree", "add", "-q", "--detach", "../other"]);
    std::fs::write(dir.path().join("other/staged"), "only in the index of another work tree\n").unwrap();
    git(&dir.path().join("other"), &["add", "staged"]);
    std::fs::write(work.join("staged"), "only in the index\n").unwrap();
    git(&work, &["add", "staged"]);
    git(&dir.path().join("other"), &["commit", "-q", "--allow-empty", "-m", "only in a detached HEAD"]);
    let before = objects(&work.join(".git"));
    assert!(packrace(&work, &["repack", "-a", "-d"], "").status.success());
    let after = objects(&work.join(".git"));
    let names = |objects: &BTreeSet<(Role, String)>| -> BTreeSet<String> {
        objects.iter().map(|(_, id)| id.clone()).collect()
    };
    assert_eq!(names(&before), names(&after));
    assert!(after.iter().all(|(role, _)| *role == Role::Pack));
    assert_sound(&work.join(".git"));
}

sampled! {
    fn empty_repositories_and_refusals(extent) {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "-b", "main", "inner/empty.git"]);
        let empty = dir.path().join("inner/empty.git");
        for mode in some_of(extent, &MODES) {
            check_mode(&empty, mode);
        }
        for mode in [
            &["-a", "--geometric=2"][..],
            &["-A", "-k"],
            &["-a", "-k", "--unpack-unreachable=now"],
            &["--cruft", "-k"],
            &["--cruft", "-A"],
            &["--cruft", "--geometric=2"],
            &["-q", "something", "-d"],
        ] {
            check_mode(&empty, mode);
        }
        let output = packrace(&empty, &["repack", "-d", "-g2", "--filter=blob:none"], "");
        assert_eq!(output.status.code(), Some(128));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "fatal: options '--stdin-packs' and '--filter' cannot be used together\n");
        let output = packrace(&empty, &["repack", "-a", "-d", "--name-hash-version=2", "-q"], "");
        assert!(output.status.success());
        Git::stock().run(&empty, &["config", "core.repositoryFormatVersion", "1"]);
        Git::stock().run(&empty, &["config", "extensions.preciousObjects", "true"]);
        check_mode(&empty, &["-a", "-d"]);
    }
}

sampled! {
    /// After a kill at any moment, a repack leaves a complete repository, and the next repack leaves no more
    /// packs than it should. A pack that was just being named or deleted may stay without an index, as with
    /// git: it is never read.
    fn killed_at_any_moment(extent) {
        let repo = worn(HashKind::Sha1, Storage::default(), RefFormat::Files);
        let expected = repo.reachable_objects();
        let whole = {
            let dir = packrace_testkit::scratch_dir();
            copy(repo.path(), &dir.path().join("copy"));
            let start = std::time::Instant::now();
            assert!(packrace(&dir.path().join("copy"), &["repack", "--cruft", "-d", "-f"], "").status.success());
            start.elapsed()
        };
        let dir = packrace_testkit::scratch_dir();
        for number in (0..24u32).step_by(extent.pick(4, 1)) {
            let path = dir.path().join(number.to_string());
            copy(repo.path(), &path);
            let mut command = std::process::Command::new(PACKRACE);
            packrace_testkit::clean_environment(&mut command);
            command.current_dir(&path).args(["repack", "--cruft", "-d", "-f"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole * number / 20 + Duration::from_micros(200));
            let _ = child.kill();
            child.wait().unwrap();
            let fsck = stock_git(&path, &["fsck", "--full", "--no-dangling", "--no-progress"], "");
            assert!(fsck.status.success(), "{number}: {}", String::from_utf8_lossy(&fsck.stderr));
            assert_eq!(packrace_testkit::reachable_objects(Git::stock(), &path), expected);
            assert!(packrace(&path, &["repack", "--cruft", "-d"], "").status.success());
            let packs = extensions(&path);
            assert!(packs[1].1 == 2 && packs[0].1 <= 3, "{number}: {packs:?}");
        }
    }
}
