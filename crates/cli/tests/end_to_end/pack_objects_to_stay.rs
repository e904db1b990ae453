//! `packrace pack-objects` writes the same as `git pack-objects` when its packs are kept: the options that
//! repack, gc and partial clones pass.

use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_testkit::{Git, Loose, RefFormat, Repo, RepoBuilder, Size, Storage, sampled};

use crate::repack_command::{Role, assert_sound, extensions, files, objects, worn};
use crate::running::{copy, packrace, stock_git};

/// Runs the same with git and packrace on copies, into their own packs, and compares the results.
fn check(repo: &Path, args: &[&str], input: &str) -> PathBuf {
    let dir = packrace_testkit::scratch_dir();
    let args = [&["pack-objects", "-q", "--non-empty"], args, &["objects/pack/pack"]].concat();
    let [git, ours] = ["git", "packrace"].map(|name| {
        let path = dir.path().join(name);
        copy(repo, &path);
        path
    });
    let of_git = stock_git(&git, &args, input);
    let of_ours = packrace(&ours, &args, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&of_git.stderr), text(&of_ours.stderr), "{args:?}");
    assert_eq!(of_git.status.code(), of_ours.status.code(), "{args:?}");
    let (expect, found) = (objects(&git), objects(&ours));
    let only_git: Vec<_> = expect.difference(&found).take(3).collect();
    let only_ours: Vec<_> = found.difference(&expect).take(3).collect();
    assert!(expect == found, "{args:?}: only git: {only_git:?}, only packrace: {only_ours:?}");
    assert_eq!(extensions(&git), extensions(&ours), "{args:?}");
    assert_eq!(text(&of_git.stdout).lines().count(), text(&of_ours.stdout).lines().count(), "{args:?}");
    for line in text(&of_ours.stdout).lines() {
        let pack = ours.join(format!("objects/pack/pack-{line}.idx"));
        Git::stock().run(&ours, &["verify-pack", pack.to_str().unwrap()]);
    }
    assert_sound(&ours);
    dir.keep().join("packrace")
}

fn check_and_forget(repo: &Path, args: &[&str], input: &str) {
    let left = check(repo, args, input);
    std::fs::remove_dir_all(left.parent().unwrap()).unwrap();
}

fn packs(repo: &Path) -> Vec<String> {
    let names = files(&repo.join("objects/pack")).into_iter();
    let mut names: Vec<String> =
        names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.retain(|name| name.ends_with(".pack"));
    names.sort();
    names
}

sampled! {
    fn what_nothing_reaches(extent) {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let repo = worn(hash, Storage::default(), RefFormat::Files);
            let bare = repo.path();
            let cases = [
                &["--all"][..],
                &["--reflog"],
                &["--indexed-objects"],
                &["--all", "--reflog"],
                &["--all", "--unpacked"],
                &["--unpacked"],
                &["--all", "--keep-unreachable"],
                &["--all", "--keep-unreachable", "--pack-loose-unreachable"],
                &["--all", "--reflog", "--pack-loose-unreachable", "--unpacked", "--incremental"],
                &["--all", "--unpack-unreachable"],
                &["--all", "--unpack-unreachable=1.day.ago", "--reflog", "--indexed-objects"],
                &["--all", "--unpack-unreachable=now"],
                &["--all", "--unpack-unreachable=now", "--reflog", "--indexed-objects"],
                &["--keep-unreachable"],
                &["--include-tag", "--revs"],
            ];
            for args in cases.into_iter().step_by(extent.step(cases.len(), 3)) {
                check_and_forget(bare, args, "");
            }
            check_and_forget(bare, &["--stdin-packs", "--unpacked"], &format!("{}\n", packs(bare)[0]));
            check_and_forget(bare, &["--include-tag"], &repo.git(&["rev-list", "main"]));
        }
    }
}

#[test]
fn cruft() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = worn(hash, Storage::default(), RefFormat::Files);
        let names = packs(repo.path());
        let some = format!("-{}\n{}\n\n-{}\n", names[0], names[1], names[2]);
        for expiration in ["never", "now", "1.day.ago"] {
            let expiration = format!("--cruft-expiration={expiration}");
            check_and_forget(repo.path(), &["--cruft", &expiration], &some);
            check_and_forget(repo.path(), &[&expiration, "--honor-pack-keep"], &format!("-{}\n", names[3]));
        }
        let keep = format!("--keep-pack={}", names[3]);
        check_and_forget(repo.path(), &["--cruft", &keep], &some);
        // A second run takes over times from the first.
        let left = check(repo.path(), &["--cruft"], &some);
        let cruft = objects(&left).iter().filter(|(role, _)| *role == Role::Cruft).count();
        assert!(cruft > 0);
        check_and_forget(&left, &["--cruft", "--cruft-expiration=1.day.ago"], "");
        std::fs::remove_dir_all(left.parent().unwrap()).unwrap();
    }
}

#[test]
fn bitmaps() {
    let repo = RepoBuilder::new(Size::Tiny).storage(Storage { packs: 2, ..Storage::default() }).build();
    for args in [
        &["--all", "--write-bitmap-index"][..],
        &["--all", "--write-bitmap-index-quiet"],
        &["--revs", "--write-bitmap-index"],
        &["--write-bitmap-index"],
        &["--all", "--write-bitmap-index", "--no-write-bitmap-index"],
    ] {
        let input = if args.contains(&"--all") { "" } else { "HEAD\n" };
        let input = if args.len() == 1 { repo.git(&["rev-list", "HEAD"]) } else { input.to_owned() };
        let left = check(repo.path(), args, &input);
        if args.len() == 2 && args[0] == "--all" {
            let tested = stock_git(&left, &["rev-list", "--test-bitmap", "main"], "");
            assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
        }
        std::fs::remove_dir_all(left.parent().unwrap()).unwrap();
    }
}

/// Some MiB of incompressible data, in files of up to 1.5 MiB with small changes: deltas, also across limits.
fn bulky() -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let mut state = 1u64;
    let mut content = |bytes: usize| -> Vec<u8> {
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    };
    let mut names = String::new();
    let mut last = None;
    for number in 0..9 {
        let mut blob = content([300 << 10, 1_500 << 10, 200 << 10][number % 3]);
        for version in 0..4 {
            blob[version * 7] ^= 0x55;
            let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], &blob);
            names.push_str(&format!("100644 blob {}\tfile{number}-{version}\n", id.trim()));
        }
        let tree = repo.git_with_input(&["mktree"], names.as_bytes());
        let mut args =
            vec!["commit-tree".to_owned(), tree.trim().to_owned(), "-m".to_owned(), "more".to_owned()];
        args.extend(last.into_iter().flat_map(|parent: String| ["-p".to_owned(), parent]));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        last = Some(repo.git(&args).trim().to_owned());
    }
    repo.git(&["update-ref", "refs/heads/bulky", &last.unwrap()]);
    repo
}

sampled! {
    fn several_packs(extent) {
        let repo = bulky();
        let cases = [
            (&["--max-pack-size=1m"][..], None),
            (&["--max-pack-size=3m", "--delta-base-offset"], None),
            (&["--max-pack-size=2m", "--write-bitmap-index"], None),
            (&["--delta-base-offset"], Some("pack.packSizeLimit=1m")),
            (&["--max-pack-size=100m", "--write-bitmap-index-quiet"], Some("pack.packSizeLimit=1m")),
            (&["--max-pack-size=10k"], None),
        ];
        for (args, config) in cases.into_iter().step_by(extent.step(cases.len(), 2)) {
            let outer = packrace_testkit::scratch_dir();
            let dir = outer.path().join("r");
            copy(repo.path(), &dir);
            let args = [&["pack-objects", "-q", "--all"], args, &["objects/pack/pack"]].concat();
            let args = [config.map_or(vec![], |config| vec!["-c", config]), args].concat();
            let before = packs(&dir);
            let ours = packrace(&dir, &args, "");
            let said = String::from_utf8_lossy(&ours.stderr).into_owned();
            assert!(ours.status.success(), "{args:?} {said}");
            let new: Vec<String> = packs(&dir).into_iter().filter(|name| !before.contains(name)).collect();
            let listed = String::from_utf8(ours.stdout).unwrap();
            assert_eq!(listed.lines().count(), new.len(), "{args:?}");
            let is_limited = !args.contains(&"--max-pack-size=100m");
            assert_eq!(new.len() > 1, is_limited, "{args:?}");
            let limit = if args.contains(&"--max-pack-size=3m") { 3 << 20 } else { 2 << 20 };
            for name in &new {
                let path = dir.join("objects/pack").join(name);
                let index = path.with_extension("idx");
                let verified = Git::stock().run(&dir, &["verify-pack", "-v", index.to_str().unwrap()]);
                let bytes = path.metadata().unwrap().len();
                let single = verified.lines().filter(|line| line.split(' ').count() > 4).count() == 1;
                assert!(!is_limited || bytes <= limit || single, "{args:?} {bytes}");
            }
            assert_eq!(said.contains("packs are split"), args.contains(&"--write-bitmap-index"), "{said}");
            assert_eq!(said.contains("minimum pack size limit is 1 MiB"), args.contains(&"--max-pack-size=10k"));
            let bitmaps = extensions(&dir).iter().find(|(kind, _)| kind == "bitmap").unwrap().1;
            assert_eq!(bitmaps == 1, !is_limited, "{args:?}");
            // No object is needed from elsewhere.
            Git::stock().run(&dir, &["prune-packed", "-q"]);
            for name in before {
                for extension in ["pack", "idx", "rev", "bitmap"] {
                    let path = dir.join("objects/pack").join(&name).with_extension(extension);
                    let _ = std::fs::remove_file(path);
                }
            }
            assert_sound(&dir);
        }
    }
}

/// A repository without one of its blobs, and another without one of its trees.
#[test]
fn what_is_missing() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    stock_git(repo.path(), &["repack", "-adq"], "");
    let listing = repo.git(&["rev-list", "--objects", "--all"]);
    let blob = repo.git(&["rev-parse", "main^{tree}"]);
    let blob = repo.git(&["ls-tree", "-r", blob.trim()]).lines().next().unwrap()[12..52].to_owned();
    let tree = repo.git(&["rev-parse", "main~3^{tree}"]).trim().to_owned();
    for missing in [&blob, &tree] {
        let dir = packrace_testkit::scratch_dir();
        stock_git(dir.path(), &["init", "-q", "--bare", "."], "");
        let kept: String = listing
            .lines()
            .filter(|line| !line.starts_with(missing.as_str()))
            .map(|line| format!("{line}\n"))
            .collect();
        let base = dir.path().join("objects/pack/pack");
        let made = stock_git(repo.path(), &["pack-objects", "-q", base.to_str().unwrap()], &kept);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let head = repo.git(&["rev-parse", "main"]);
        for (args, works) in [
            (&["--missing=allow-any"][..], true),
            (&["--missing=allow-any", "--filter=blob:none"], true),
            (&["--missing=error"], false),
            (&["--missing=allow-promisor"], false),
        ] {
            let full = [&["pack-objects", "-q", "--revs", "--stdout"], args].concat();
            let [git, ours] = [stock_git, packrace].map(|run| run(dir.path(), &full, &head));
            assert_eq!(ours.status.success(), works, "{args:?} {}", String::from_utf8_lossy(&ours.stderr));
            // Stock git fails on missing trees, whatever the option.
            assert_eq!(git.status.success(), works && missing == &blob, "{args:?}");
            if git.status.success() {
                assert_eq!(count(&git.stdout), count(&ours.stdout), "{args:?}");
            }
        }
    }
}

fn count(pack: &[u8]) -> u32 {
    u32::from_be_bytes(pack[8..12].try_into().unwrap())
}

#[test]
fn partial_clones_pack_what_is_their_own() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    let dir = packrace_testkit::scratch_dir();
    let clone = dir.path().join("clone");
    let url = format!("file://{}", repo.path().display());
    let args = ["clone", "-q", "--bare", "--filter=blob:none", &url, clone.to_str().unwrap()];
    assert!(stock_git(dir.path(), &args, "").status.success());
    let run = |args: &[&str]| Git::stock().run(&clone, args);
    let own = run(&["commit-tree", "main^{tree}", "-p", "main", "-m", "own"]);
    run(&["update-ref", "refs/heads/own", own.trim()]);
    for args in [
        &["--all", "--exclude-promisor-objects"][..],
        &["--all", "--exclude-promisor-objects", "--unpacked", "--incremental"],
        &["--all", "--exclude-promisor-objects", "--keep-unreachable"],
    ] {
        check_and_forget(&clone, args, "");
    }
}

/// Objects that the receiver downloads elsewhere are left out, and their URIs come before the pack.
#[test]
fn packs_from_elsewhere() {
    // git checks loose objects only.
    let storage = Storage { loose: Loose::All, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let blobs = repo.git(&["ls-tree", "-r", "--format=%(objecttype) %(objectname)", "main"]);
    let blobs: Vec<&str> = blobs.lines().filter_map(|line| line.strip_prefix("blob ")).take(3).collect();
    let pack = "1234567890".repeat(4);
    for (number, (blob, protocol)) in blobs.iter().zip(["https", "https", "http"]).enumerate() {
        let value = format!("{blob} {pack} {protocol}://example.com/{}", number / 2);
        repo.git(&["config", "--add", "uploadpack.blobPackfileUri", &value]);
    }
    for protocols in [&["--uri-protocol=https"][..], &["--uri-protocol=http", "--uri-protocol=https"], &[]] {
        let args = [&["pack-objects", "-q", "--all", "--stdout"], protocols].concat();
        let [git, ours] = [stock_git, packrace].map(|run| run(repo.path(), &args, "").stdout);
        let split = |answer: &[u8]| {
            let at = answer.windows(4).position(|bytes| bytes == b"PACK").unwrap();
            let mut lines: Vec<String> =
                String::from_utf8(answer[..at].to_vec()).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines.dedup();
            (lines, count(&answer[at..]))
        };
        let (ours, git) = (split(&ours), split(&git));
        assert_eq!(ours.0.is_empty(), protocols.is_empty());
        assert_eq!(ours.0, git.0, "{protocols:?}");
        assert_eq!(ours.1, git.1, "{protocols:?}");
    }
}
