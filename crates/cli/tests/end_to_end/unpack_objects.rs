//! `packrace unpack-objects` compared with `git unpack-objects`: the same packs for both, each time in an
//! empty repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_testkit::handmade::{HandmadeEntry, HandmadePack};
use packrace_testkit::peer::{self, Feed, Reply};
use packrace_testkit::{Git, Random, RepoBuilder, Size, clean_environment, sampled};

use crate::running::{PACKRACE, assert_no_panic};

/// Two repositories with the same initial state.
struct Twins {
    _dir: tempfile::TempDir,
    git: PathBuf,
    ours: PathBuf,
}

/// The result of a pack in one of them.
struct Outcome {
    reply: Reply,
    objects: BTreeSet<String>,
}

impl Twins {
    fn new(hash: HashKind) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let [git, ours] = ["git", "ours"].map(|name| dir.path().join(name));
        for repo in [&git, &ours] {
            let format = format!("--object-format={hash}");
            let path = repo.to_str().unwrap();
            Git::stock().run(dir.path(), &["init", "-q", "--bare", "--template=", &format, path]);
        }
        Twins { _dir: dir, git, ours }
    }

    /// Gives the same input to both.
    fn unpack(&self, args: &[&str], input: &[u8]) -> [Outcome; 2] {
        let args = [&["unpack-objects"], args].concat();
        let mut git = Git::stock().command(&self.git);
        let mut ours = packrace(&self.ours);
        let replies = [git.args(&args), ours.args(&args)].map(|it| peer::stdio(it, input, Feed::Whole));
        assert_no_panic(&replies[1].stderr);
        let left = find_temporaries(&self.ours);
        assert!(left.is_empty(), "{args:?}: {left:?}");
        let mut repos = [&self.git, &self.ours].into_iter();
        replies.map(|reply| Outcome { reply, objects: objects(repos.next().unwrap()) })
    }
}

fn packrace(dir: &Path) -> Command {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.arg("-C").arg(dir);
    command
}

fn objects(repo: &Path) -> BTreeSet<String> {
    let args = ["cat-file", "--batch-all-objects", "--batch-check", "--unordered"];
    Git::stock().run(repo, &args).lines().map(str::to_owned).collect()
}

fn find_temporaries(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find_temporaries(&path));
        } else if path.file_name().unwrap().to_str().unwrap().starts_with("tmp_") {
            found.push(path);
        }
    }
    found
}

/// Git's words, without those that zlib adds.
fn words(reply: &Reply) -> String {
    let lines = reply.stderr.lines().filter(|line| !line.starts_with("error: inflate: "));
    lines.map(|line| format!("{line}\n")).collect()
}

fn pack_of(repo: &packrace_testkit::Repo, args: &[&str], revisions: &str) -> Vec<u8> {
    let args = [&["pack-objects", "-q", "--stdout", "--revs"], args].concat();
    Git::stock().run_with_input(repo.path(), &args, revisions.as_bytes())
}

#[test]
fn whole_packs() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let first = pack_of(&repo, &[], "HEAD~20\n");
        let thin = pack_of(&repo, &["--thin"], "HEAD\n^HEAD~20\n");
        for args in [
            &["-q"][..],
            &[],
            &["-q", "-r"],
            &["-q", "--strict"],
            &["-q", "-r", "--strict"],
            &["-q", "-n"],
            &["-q", "-n", "-r"],
        ] {
            let twins = Twins::new(hash);
            for pack in [&first, &thin] {
                let input = [pack, &b"and more"[..]].concat();
                let [git, ours] = twins.unpack(args, &input);
                assert!(git.reply.status.success() && ours.reply.status.success(), "{}", ours.reply.stderr);
                assert_eq!(words(&git.reply), words(&ours.reply), "{args:?}");
                assert_eq!(ours.reply.stdout, b"and more", "what does not belong to the pack is passed on");
                assert!(git.objects == ours.objects, "{args:?}");
                assert_eq!(ours.objects.is_empty(), args.contains(&"-n"));
            }
            Git::stock().run(&twins.ours, &["fsck", "--full", "--strict", "--no-dangling"]);
            let packs = std::fs::read_dir(twins.ours.join("objects/pack")).unwrap();
            // Each pack has its index and reverse index, with `-r`, too.
            let files = if args.contains(&"-n") { 0 } else { 2 * 3 };
            assert_eq!(packs.count(), files, "{args:?}");
        }
    }
}

sampled! {
    /// Damage of all kinds, with or without a correct checksum: git and packrace accept the same packs. Of a
    /// pack that git refuses, it may store objects; packrace stores at least those, but only with `-r`.
    fn damaged_packs(extent) {
        let mut refused = 0;
        for (hash, seed) in [(HashKind::Sha1, 1), (HashKind::Sha256, 2)] {
            let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
            let pack = pack_of(&repo, &[], "HEAD~36\n");
            let mut random = Random::new(seed);
            for number in 0..extent.pick(6, 24) {
                let mut damaged = pack.clone();
                let at = random.below(pack.len());
                match number % 3 {
                    0 => damaged.truncate(at),
                    _ => damaged[at] ^= 1 << random.below(8),
                }
                if number % 3 == 2 {
                    damaged.truncate(pack.len() - hash.len_in_bytes());
                    let mut hasher = TrailerHasher::new(hash);
                    hasher.update(&damaged);
                    damaged.extend_from_slice(hasher.finish().as_slice());
                }
                for args in [&["-q"][..], &["-q", "-r"], &["-q", "-r", "--strict"]] {
                    let [git, ours] = Twins::new(hash).unpack(args, &damaged);
                    let what = format!("{number} at {at} {args:?}: {} {}", git.reply.stderr, ours.reply.stderr);
                    assert_eq!(git.reply.status.success(), ours.reply.status.success(), "{what}");
                    match args == ["-q", "-r"] {
                        true => assert!(ours.objects.is_superset(&git.objects), "{what}"),
                        false if !ours.reply.status.success() => assert!(ours.objects.is_empty(), "{what}"),
                        false => assert!(ours.objects == git.objects, "{what}"),
                    }
                    refused += usize::from(!ours.reply.status.success());
                }
            }
        }
        assert!(refused > extent.pick(15, 60), "{refused}");
    }
}

/// A complete blob, then a delta, then another blob.
fn with_delta(base: HandmadeEntry<'_>, delta: &[u8]) -> Vec<u8> {
    let mut pack = HandmadePack::default();
    pack.whole(Kind::Blob, b"aaa\n");
    pack.delta(&blob(b"ccc\n"), base, delta);
    pack.whole(Kind::Blob, b"bbb\n");
    pack.sealed()
}

fn blob(content: &[u8]) -> ObjectId {
    object_id(HashKind::Sha1, Kind::Blob, content).unwrap()
}

/// The same words and the same exit code, and with `-r` the same objects.
#[test]
fn words_are_those_of_git() {
    let delta = [&[4, 4, 4][..], b"ccc\n"].concat();
    let wrong_delta = [&[9, 4, 4][..], b"ccc\n"].concat();
    let missing = blob(b"nowhere");
    let mut later = HandmadePack::default();
    later.delta(&blob(b"ccc\n"), HandmadeEntry::ByName(&blob(b"aaa\n")), &delta);
    later.whole(Kind::Blob, b"aaa\n");
    let mut lying = HandmadePack::default();
    lying.entry(&missing, HandmadeEntry::Whole(Kind::Blob), 9, b"aaa\n");
    lying.whole(Kind::Blob, b"bbb\n");
    let mut broken = HandmadePack::default();
    broken.whole(Kind::Commit, b"no header at all\n");
    let mut unlinked = HandmadePack::default();
    let tree = [&b"100644 a\0"[..], missing.as_slice()].concat();
    unlinked.whole(Kind::Tree, &tree);
    let mut twice = HandmadePack::default();
    let entry = [&b"100644 a\0"[..], blob(b"aaa\n").as_slice()].concat();
    twice.whole(Kind::Blob, b"aaa\n");
    twice.whole(Kind::Tree, &entry.repeat(2));
    let good = later.sealed();
    let cases: [(&str, Vec<u8>); 16] = [
        ("later", good.clone()),
        ("missing base", with_delta(HandmadeEntry::ByName(&missing), &delta)),
        ("wrong delta", with_delta(HandmadeEntry::ByName(&blob(b"aaa\n")), &wrong_delta)),
        ("no such entry", with_delta(HandmadeEntry::ByDistance(14), &delta)),
        ("lying", lying.sealed()),
        ("broken", broken.sealed()),
        ("unlinked", unlinked.sealed()),
        ("twice", twice.sealed()),
        ("empty", HandmadePack::default().sealed()),
        ("nothing", Vec::new()),
        ("no header", good[..7].to_vec()),
        ("no entries", good[..12].to_vec()),
        ("no trailer", good[..good.len() - 20].to_vec()),
        ("other trailer", [&good[..good.len() - 1], &[good[good.len() - 1] ^ 1]].concat()),
        ("no pack", [b"KCAP", &good[4..]].concat()),
        ("version 9", [b"PACK\0\0\0\x09", &good[8..]].concat()),
    ];
    for (name, pack) in &cases {
        for args in [&["-q"][..], &["-q", "-r"], &["-q", "-n"], &["-q", "-n", "-r"], &["-q", "--strict"]] {
            let [git, ours] = Twins::new(HashKind::Sha1).unpack(args, pack);
            assert_eq!(words(&git.reply), words(&ours.reply), "{name} {args:?}");
            assert_eq!(git.reply.status.code(), ours.reply.status.code(), "{name} {args:?}");
            if args.contains(&"-r") {
                assert!(ours.objects.is_superset(&git.objects), "{name} {args:?}");
            } else if ours.reply.status.success() {
                assert_eq!(ours.objects, git.objects, "{name} {args:?}");
            } else {
                assert!(ours.objects.is_empty(), "{name} {args:?}");
            }
        }
    }
    for args in [
        &["--pack_header=2"][..],
        &["--pack_header=2,x"],
        &["--pack_header=2,3,4"],
        &["--pack_header=7,1"],
        &["--pack_header=02,+2"],
        &["--strict", "--strict=nothing=warn"],
        &["--max-input-size=30"],
        &["-r", "--max-input-size=30"],
        &["--max-input-size=0"],
        &["--max-input-size=nothing"],
    ] {
        let input = if args[0].starts_with("--pack") { &good[12..] } else { &good[..] };
        let [git, ours] = Twins::new(HashKind::Sha1).unpack(&[&["-q"], args].concat(), input);
        assert_eq!(words(&git.reply), words(&ours.reply), "{args:?}");
        assert_eq!(git.reply.status.code(), ours.reply.status.code(), "{args:?}");
        assert_eq!(git.objects, ours.objects);
    }
    for args in [&["file"][..], &["--what"], &["-x"]] {
        let [_, ours] = Twins::new(HashKind::Sha1).unpack(args, b"");
        assert_eq!(ours.reply.status.code(), Some(129), "{args:?}");
    }
}

/// A long delta chain from its end to its beginning, by names, is resolved quickly even if the pack is
/// damaged.
#[test]
fn a_long_chain_is_salvaged() {
    const LENGTH: u32 = 3000;
    let content = |number: u32| format!("number {number:08}\n").into_bytes();
    let mut pack = HandmadePack::default();
    for number in (1..LENGTH).rev() {
        let (base, own) = (content(number - 1), content(number));
        let delta = [&[base.len() as u8, own.len() as u8, own.len() as u8][..], &own].concat();
        pack.delta(&blob(&own), HandmadeEntry::ByName(&blob(&base)), &delta);
    }
    pack.whole(Kind::Blob, &content(0));
    let mut damaged = pack.sealed();
    *damaged.last_mut().unwrap() ^= 1;
    let twins = Twins::new(HashKind::Sha1);
    let reply = peer::stdio(packrace(&twins.ours).args(["unpack-objects", "-r"]), &damaged, Feed::Whole);
    assert_eq!(
        (reply.stderr.as_str(), reply.status.code()),
        ("fatal: final sha1 did not match\n", Some(128))
    );
    assert_eq!(objects(&twins.ours).len(), LENGTH as usize);
}

/// A few new objects stay loose: neither the number of objects in the pack nor its thinness matters.
#[test]
fn a_handful_of_new_objects_stays_loose() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let all = pack_of(&repo, &[], "HEAD\n");
    let thin = pack_of(&repo, &["--thin"], "HEAD\n^HEAD~1\n");
    let listed = repo.git(&["rev-list", "--objects", "HEAD", "^HEAD~1"]).lines().count();
    for pack in [&all, &thin] {
        let twins = Twins::new(HashKind::Sha1);
        let limit = (listed + 1).to_string();
        Git::stock().run(&twins.ours, &["config", "packrace.looseLimit", &limit]);
        twins.unpack(&["-q"], &pack_of(&repo, &[], "HEAD~1\n"));
        let [git, ours] = twins.unpack(&["-q"], pack);
        assert!(ours.reply.status.success() && git.objects == ours.objects, "{}", ours.reply.stderr);
        let counts = Git::stock().run(&twins.ours, &["count-objects", "-v"]);
        assert!(
            counts.starts_with(&format!("count: {listed}\n")) && counts.contains("\npacks: 1\n"),
            "{counts}"
        );
    }
    for (limit, packs) in [("100000", 0), ("0", 1)] {
        let twins = Twins::new(HashKind::Sha1);
        Git::stock().run(&twins.ours, &["config", "packrace.looseLimit", limit]);
        let [git, ours] = twins.unpack(&["-q"], &all);
        assert!(ours.reply.status.success() && git.objects == ours.objects, "{}", ours.reply.stderr);
        let counts = Git::stock().run(&twins.ours, &["count-objects", "-v"]);
        assert!(counts.contains(&format!("\npacks: {packs}\n")), "{counts}");
    }
}

/// As configured: one sync per file and per directory, or fewer if the file system syncs several in one call,
/// and none if none is requested.
#[test]
fn syncs_and_writes_are_few() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let pack = pack_of(&repo, &[], "HEAD\n");
    let count = |report: &str, role: &str, op: &str| -> u64 {
        let of_role = report.split_once(&format!("\"{role}\":{{")).map_or("", |(_, rest)| rest);
        let of_role = of_role.split_once("}}").map_or(of_role, |(inner, _)| inner);
        let calls = of_role.split_once(&format!("\"{op}\":{{\"calls\":")).map(|(_, rest)| rest);
        calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    };
    for (setting, is_synced) in [("none", false), ("committed", true)] {
        let twins = Twins::new(HashKind::Sha1);
        let report = tempfile::NamedTempFile::new().unwrap();
        let mut command = packrace(&twins.ours);
        command.args(["-c", &format!("core.fsync={setting}"), "-c", "packrace.looseLimit=9999"]);
        command.args(["unpack-objects", "-q"]);
        let reply = peer::stdio(command.env("PACKRACE_IO_REPORT", report.path()), &pack, Feed::Whole);
        assert!(reply.status.success(), "{}", reply.stderr);
        let report = std::fs::read_to_string(report.path()).unwrap();
        let found = objects(&twins.ours).len() as u64;
        let fan_outs = std::fs::read_dir(twins.ours.join("objects")).unwrap().count() as u64 - 2;
        let syncs = if is_synced { 2..=found + fan_outs + 1 } else { 0..=0 };
        assert!(syncs.contains(&count(&report, "objects", "sync")), "{report}");
        assert_eq!(count(&report, "objects", "write"), found, "{report}");
        // The pack is buffered in a file, which is not synced.
        assert_eq!((count(&report, "pack", "sync"), count(&report, "pack", "write")), (0, 1), "{report}");
    }
}
