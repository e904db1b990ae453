//! `packrace pack-objects` packs the same objects as `git pack-objects`, and refuses the same arguments.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::{Bitmap, Loose, Repo, RepoBuilder, Size, Storage};

use crate::running::{packrace, stock_git};

/// The objects of the only pack whose files begin with `base`, listed and verified by stock git.
fn objects(repo: &Path, base: &str) -> BTreeSet<String> {
    let dir = Path::new(base).parent().unwrap();
    let mut found = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let index = found.find(|path| {
        path.extension().is_some_and(|end| end == "idx") && path.to_str().unwrap().starts_with(base)
    });
    let index = index.expect("an index was written");
    let listed = stock_git(repo, &["verify-pack", "-v", index.to_str().unwrap()], "");
    assert!(listed.status.success(), "{base}: {}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let of_objects = listed.lines().filter(|line| line.split(' ').count() > 3);
    let ids = of_objects.map(|line| line.split(' ').next().unwrap().to_owned());
    ids.filter(|id| id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Runs the same with both, to files, and compares the objects in the packs.
fn check(repo: &Repo, args: &[&str], input: &str) {
    let dir = packrace_testkit::scratch_dir();
    let base = |who: &str| dir.path().join(who).to_str().unwrap().to_owned();
    let full = |base: &str| {
        let args = args.iter().copied().chain([base]);
        ["pack-objects", "-q"].into_iter().chain(args).map(str::to_owned).collect::<Vec<_>>()
    };
    let of_git = stock_git(repo.path(), &strs(&full(&base("git"))), input);
    let ours = packrace(repo.path(), &strs(&full(&base("packrace"))), input);
    let said = String::from_utf8_lossy(&ours.stderr);
    assert!(of_git.status.success(), "{args:?}: {}", String::from_utf8_lossy(&of_git.stderr));
    assert!(ours.status.success(), "{args:?}: {said}");
    assert_eq!(objects(repo.path(), &base("git")), objects(repo.path(), &base("packrace")), "{args:?}");
    let checksum = String::from_utf8(ours.stdout).unwrap();
    assert!(dir.path().join(format!("packrace-{}.pack", checksum.trim_end())).is_file(), "{args:?}");
}

/// Runs the same with both, which must refuse it in the same words.
fn check_refusal(repo: &Repo, args: &[&str], input: &str) {
    let args = [&["pack-objects"], args].concat();
    let of_git = stock_git(repo.path(), &args, input);
    let ours = packrace(repo.path(), &args, input);
    let first = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or("").to_owned();
    assert!(!of_git.status.success(), "{args:?}");
    assert_eq!(of_git.status.code(), ours.status.code(), "{args:?}: {}", first(&ours.stderr));
    assert_eq!(first(&of_git.stderr), first(&ours.stderr), "{args:?}");
    assert!(ours.stdout.is_empty(), "{args:?}");
}

fn mixed(hash: HashKind, alternate: bool) -> Repo {
    let storage =
        Storage { packs: 3, loose: Loose::Newest, keep_oldest: true, alternate, ..Storage::default() };
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

#[test]
fn the_same_objects() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = mixed(hash, false);
        for input in [
            "main\n",
            "HEAD\n^main~9\n",
            "main\n--not\nmain~20\n--not\nmain~30\n",
            "main~9..main\n",
            "^main~5\n@\n",
            "main^{tree}\n",
            "refs/heads/main^0\n\nnot read\n",
        ] {
            check(&repo, &["--revs"], input);
        }
        check(&repo, &["--all", "--delta-base-offset"], "");
        check(&repo, &["--revs", "--include-tag"], "main\n");
        check(&repo, &["--revs", "--window=0", "--index-version=1", "--compression=1"], "main\n");
        check(&repo, &["--all", "--no-reuse-delta", "--threads=2", "--depth=3"], "");
        check(&repo, &["--all", "--no-reuse-object", "--window-memory=1m"], "");
        check(&repo, &["--all", "--reflog", "--indexed-objects"], "");
    }
}

#[test]
fn what_is_stored_elsewhere_is_left_out() {
    for alternate in [false, true] {
        let repo = mixed(HashKind::Sha1, alternate);
        check(&repo, &["--all", "--incremental"], "");
        check(&repo, &["--all", "--unpacked", "--incremental"], "");
        check(&repo, &["--all", "--local"], "");
        check(&repo, &["--all", "--honor-pack-keep"], "");
        check(&repo, &["--all", "--honor-pack-keep", "--local"], "");
    }
    let repo = mixed(HashKind::Sha1, false);
    let packs = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    for name in packs.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        if name.ends_with(".pack") {
            check(&repo, &["--all", &format!("--keep-pack={name}")], "");
        }
    }
}

#[test]
fn packs_for_others() {
    let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    for (args, input) in [
        (&["--revs", "--stdout"][..], "main\n"),
        (&["--revs", "--stdout", "--no-use-bitmap-index"], "main\n"),
        (&["--revs", "--stdout", "--thin", "--delta-base-offset"], "main\n^main~9\n"),
        (&["--all", "--stdout", "--filter=blob:none"], ""),
    ] {
        let made = packrace(repo.path(), &[&["pack-objects"], args].concat(), input);
        assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
        let dir = packrace_testkit::scratch_dir();
        std::fs::write(dir.path().join("a.pack"), &made.stdout).unwrap();
        let path = dir.path().join("a.pack");
        let path = path.to_str().unwrap();
        // A thin pack needs the repository: without --fix-thin, indexing fails.
        let index = match args.contains(&"--thin") {
            false => stock_git(repo.path(), &["index-pack", path], ""),
            true => {
                let mut command = packrace_testkit::Git::stock().command(repo.path());
                command.args(["index-pack", "--stdin", "--fix-thin"]);
                command.stdin(std::fs::File::open(path).unwrap()).output().unwrap()
            }
        };
        assert!(index.status.success(), "{args:?}: {}", String::from_utf8_lossy(&index.stderr));
    }
}

#[test]
fn refusals() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let unknown = "0123456789012345678901234567890123456789";
    for line in [
        "nope",
        "^nope",
        "nope..main",
        "main..nope",
        "main^99",
        "main~9999",
        "main^{nothing}",
        "--all",
        "--bogus",
        "-",
        "--shallow x",
        "--shallow",
        unknown,
    ] {
        check_refusal(&repo, &["--revs", "--stdout", "-q"], &format!("{line}\n"));
    }
    check_refusal(&repo, &["--revs", "--thin", "p"], "");
    check_refusal(&repo, &["--revs", "--index-version=3", "p"], "");
    check_refusal(&repo, &["--revs", "--index-version=x", "p"], "");
    check_refusal(&repo, &["--revs", "--compression=10", "p"], "");
    check_refusal(&repo, &["--revs", "--missing=x", "p"], "");
    check_refusal(&repo, &["--revs", "--stdout", "--filter=bogus"], "");
    check_refusal(&repo, &["--bogus", "p"], "");
    for line in ["garbage", unknown, "-zz", "", "-"] {
        check_refusal(&repo, &["--stdout", "-q"], &format!("{line}\n"));
    }
    for line in ["pack-nope.pack", "^pack-nope.pack", "pack-nope"] {
        check_refusal(&repo, &["--stdin-packs", "--stdout", "-q"], &format!("{line}\n"));
    }
    check_refusal(&repo, &["--stdin-packs", "--all", "p"], "");
    check_refusal(&repo, &["--stdin-packs", "--keep-unreachable", "p"], "");
    check_refusal(&repo, &["--all", "--stdout", "--max-pack-size=1m"], "");
    check_refusal(&repo, &["--all", "--keep-unreachable", "--unpack-unreachable", "p"], "");
    for option in ["--all", "--unpacked", "--keep-unreachable", "--unpack-unreachable"] {
        check_refusal(&repo, &["--cruft", option, "p"], "");
    }
    // In the words of git 2.55.
    let refused = packrace(repo.path(), &["pack-objects", "--cruft", "--stdin-packs", "p"], "");
    let words = "fatal: options '--stdin-packs' and '--cruft' cannot be used together\n";
    assert_eq!(
        (refused.status.code(), String::from_utf8_lossy(&refused.stderr).as_ref()),
        (Some(128), words)
    );
    check_refusal(&repo, &["--cruft", "p"], "pack-nope.pack\n");
    check_refusal(&repo, &["--cruft", "p"], "-pack-nope.pack\n");
}

/// What an edge has is left out. git writes deltas against objects that an edge reaches, so it cannot verify its packs
/// itself; ours are self-contained.
fn check_edge(repo: &Repo, some: &str) {
    let dir = packrace_testkit::scratch_dir();
    let base = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (ours, gits) = (base("ours"), base("gits"));
    let head = repo.git(&["rev-parse", "HEAD~1"]);
    let input = format!("-{}\n{some}", head.trim_end());
    let made = packrace(repo.path(), &["pack-objects", "-q", &ours], &input);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = stock_git(repo.path(), &["pack-objects", "-q", &gits], &input);
    let index = format!("{gits}-{}.idx", String::from_utf8(made.stdout).unwrap().trim_end());
    let listed = repo.git_with_input(&["show-index"], &std::fs::read(index).unwrap());
    let gits: BTreeSet<String> =
        listed.lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert!(gits.len() < some.lines().count(), "the edge has some of them");
    assert_eq!(objects(repo.path(), &ours), gits);
}

#[test]
fn lists_of_objects_and_of_packs() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = mixed(hash, true);
        let all = repo.git(&["rev-list", "--objects", "--all"]);
        check(&repo, &[], &all);
        check(&repo, &["--delta-base-offset", "--local"], &all);
        check(&repo, &["--window=0"], "");
        let some: String = all.lines().step_by(3).map(|line| format!("{line}\n")).collect();
        check(&repo, &["--honor-pack-keep"], &format!("{some}{some}"));
        check_edge(&repo, &some);
        let repo = mixed(hash, false);
        let packs = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
        let mut packs: Vec<String> =
            packs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        packs.retain(|name| name.ends_with(".pack"));
        packs.sort();
        assert!(packs.len() > 1, "{packs:?}");
        check(&repo, &["--stdin-packs"], &format!("{}\n", packs.join("\n")));
        check(&repo, &["--stdin-packs"], &format!("{}\n^{}\n", packs[0], packs[1]));
        check(&repo, &["--stdin-packs"], &format!("^{}\n\n{}\n", packs[0], packs[0]));
    }
}

#[test]
fn versions_of_the_name_hash_and_filters_of_a_path_walk() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = packrace_testkit::scratch_dir();
    let base = dir.path().join("p");
    for (filter, words) in [
        ("blob:none", ""),
        ("tree:0", ""),
        ("combine:blob:none+object:type=blob", ""),
        (
            "combine:blob:none+tree:2",
            "error: tree:2 filter not supported by the path-walk API\nwarning: cannot use --filter with --path-walk\n",
        ),
    ] {
        let filter = format!("--filter={filter}");
        let args = ["pack-objects", "-q", "--all", "--path-walk", &filter, base.to_str().unwrap()];
        let ours = packrace(repo.path(), &args, "");
        assert!(ours.status.success());
        assert_eq!(String::from_utf8_lossy(&ours.stderr), words);
        let by_setting = ["-c", "pack.usePathWalk=true", "pack-objects", "-q", "--all", &filter, args[5]];
        assert_eq!(packrace(repo.path(), &by_setting, "").stderr, ours.stderr);
        let not = [&by_setting[..], &["--no-path-walk"]].concat();
        assert!(packrace(repo.path(), &not, "").stderr.is_empty());
    }
    let ours = packrace(repo.path(), &["pack-objects", "--all", "--name-hash-version=3", "p"], "");
    assert_eq!(ours.status.code(), Some(128));
}

/// Files of one name in many directories, each with versions of its own: hashing by directory, each finds its
/// own base. (Git supports the option since 2.49; 2.47 reads the packs.)
#[test]
fn files_of_one_name_are_parted_by_their_directories() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let mut parent = repo.git(&["rev-parse", "main"]).trim().to_owned();
    for version in 0..3 {
        let mut listing = String::new();
        for directory in 0..40 {
            // All have the same size, so that sizes do not group the versions within one hash.
            let lines = (0..60).map(|line| {
                format!("{:08} {:08}\n", directory * 7919 + line * 104_729, directory * 31 + line)
            });
            let content: String = lines.chain([format!("version {version}\n")]).collect();
            let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
            let inner = format!("100644 blob {}\tconfiguration-of-a-part.json\n", blob.trim());
            let tree = repo.git_with_input(&["mktree"], inner.as_bytes());
            listing.push_str(&format!("040000 tree {}\tpart-{directory:02}\n", tree.trim()));
        }
        let tree = repo.git_with_input(&["mktree"], listing.as_bytes());
        parent = repo.git(&["commit-tree", tree.trim(), "-p", &parent, "-m", "v"]).trim().to_owned();
    }
    repo.git(&["update-ref", "refs/heads/main", &parent]);
    let dir = packrace_testkit::scratch_dir();
    let bytes = |name: &str, args: &[&str], input: &str| {
        let base = dir.path().join(name).to_str().unwrap().to_owned();
        let args = [&["pack-objects", "-q", "--window=4", "--no-reuse-delta"], args, &[&base]].concat();
        let made = packrace(repo.path(), &args, input);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let checksum = String::from_utf8(made.stdout).unwrap();
        let count = objects(repo.path(), &base).len();
        (std::fs::metadata(format!("{base}-{}.pack", checksum.trim())).unwrap().len(), count)
    };
    let (one, objects_of_one) = bytes("one", &["--all"], "");
    let (two, objects_of_two) = bytes("two", &["--all", "--name-hash-version=2"], "");
    assert_eq!(objects_of_one, objects_of_two);
    assert!(two * 10 < one * 9, "{two} against {one}");
    let list = repo.git(&["rev-list", "--objects", "--all"]);
    for option in ["--name-hash-version=2", "--path-walk"] {
        let (listed, _) = bytes("listed", &[option], &list);
        assert!(listed * 10 < one * 9, "{listed} against {one}");
    }
    let (by_path, objects_by_path) = bytes("by-path", &["--all", "--path-walk"], "");
    assert_eq!(objects_of_one, objects_by_path);
    assert!(by_path * 10 < one * 9, "{by_path} against {one}");
}

#[test]
fn behind_upload_pack() {
    let repo = mixed(HashKind::Sha1, false);
    let dir = packrace_testkit::scratch_dir();
    let hook = dir.path().join("hook");
    let script = format!(
        "#!/bin/sh\nshift\necho used >>'{}'\nexec '{}' \"$@\"\n",
        dir.path().join("log").display(),
        crate::running::PACKRACE
    );
    std::fs::write(&hook, script).unwrap();
    let status = std::process::Command::new("chmod").arg("+x").arg(&hook).status().unwrap();
    assert!(status.success());
    let setting = format!("uploadpack.packObjectsHook={}", hook.display());
    let config = dir.path().join("config");
    let (key, value) = setting.split_once('=').unwrap();
    let set = stock_git(dir.path(), &["config", "-f", config.to_str().unwrap(), key, value], "");
    assert!(set.status.success());
    let ours = format!("--upload-pack={} upload-pack", crate::running::PACKRACE);
    for (name, options) in [
        ("full", &[][..]),
        ("shallow", &["--depth=3"]),
        ("full-ours", &[ours.as_str()]),
        ("shallow-ours", &[ours.as_str(), "--depth=3"]),
    ] {
        let url = format!("file://{}", repo.path().display());
        let mut command = packrace_testkit::Git::stock().command(dir.path());
        command.env("GIT_CONFIG_GLOBAL", &config).args(["clone", "-q", "--bare"]).args(options);
        let cloned = command.args([url.as_str(), name]).output().unwrap();
        assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.stderr));
        let fsck = stock_git(&dir.path().join(name), &["fsck"], "");
        assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), "used\n".repeat(4));
}

/// The files in a directory whose names end in one of these.
fn files(dir: &Path, ends: &[&str]) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| ends.iter().any(|end| path.to_str().unwrap().contains(end))).collect()
}

#[test]
fn damaged_entries_are_not_handed_on() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    stock_git(repo.path(), &["-c", "repack.writeBitmaps=false", "repack", "-adq"], "");
    let packs = repo.path().join("objects/pack");
    let pack = files(&packs, &[".pack"]).remove(0);
    let intact = std::fs::read(&pack).unwrap();
    let dir = packrace_testkit::scratch_dir();
    let base = dir.path().join("p").to_str().unwrap().to_owned();
    let write = |bytes: &[u8]| {
        std::fs::remove_file(&pack).unwrap();
        std::fs::write(&pack, bytes).unwrap();
    };
    let places = || (1..24).map(|part| 12 + (intact.len() - 40) * part / 24);
    let damage = |at: usize| {
        let mut damaged = intact.clone();
        damaged[at] ^= 0x10;
        write(&damaged);
    };
    let forget = |made: &[std::path::PathBuf]| {
        made.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    };
    let mut refused = 0;
    for at in places() {
        damage(at);
        let ours = packrace(repo.path(), &["pack-objects", "--all", "-q", &base], "");
        if ours.status.success() {
            // The damage can only be in bytes that no object needs.
            objects(repo.path(), &base);
        } else {
            assert_eq!(ours.status.code(), Some(128), "{at}");
            assert!(!ours.stderr.is_empty(), "{at}");
            refused += 1;
        }
        let sent = packrace(repo.path(), &["pack-objects", "--all", "-q", "--stdout"], "");
        assert_eq!(sent.status.code(), ours.status.code(), "{at}");
        let made = files(dir.path(), &["p-"]);
        assert_eq!(made.is_empty(), !ours.status.success(), "{at}: {made:?}");
        forget(&made);
        assert!(files(&packs, &["tmp_"]).is_empty(), "{at}");
    }
    assert!(refused > 15, "{refused} of 23");

    // With a second copy, the same damage is harmless.
    write(&intact);
    let copy = RepoBuilder::new(Size::Tiny).build();
    stock_git(copy.path(), &["repack", "-adfq", "--depth=1"], "");
    let alternates = repo.path().join("objects/info/alternates");
    std::fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    std::fs::write(alternates, format!("{}\n", copy.path().join("objects").display())).unwrap();
    let all = copy.reachable_objects().len();
    for at in places() {
        damage(at);
        let ours = packrace(repo.path(), &["pack-objects", "--all", "-q", &base], "");
        assert!(ours.status.success(), "{at}: {}", String::from_utf8_lossy(&ours.stderr));
        assert_eq!(objects(copy.path(), &base).len(), all, "{at}");
        forget(&files(dir.path(), &["p-"]));
        let sent = packrace(repo.path(), &["pack-objects", "--all", "-q", "--stdout"], "");
        assert!(sent.status.success(), "{at}: {}", String::from_utf8_lossy(&sent.stderr));
        let file = format!("{base}-sent.pack");
        std::fs::write(&file, &sent.stdout).unwrap();
        let indexed = stock_git(copy.path(), &["index-pack", &file], "");
        assert!(indexed.status.success(), "{at}: {}", String::from_utf8_lossy(&indexed.stderr));
        assert_eq!(objects(copy.path(), &base).len(), all, "{at}");
        forget(&files(dir.path(), &["p-"]));
    }
}
