//! Files that change while they are added, full disks, and other failures.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use packrace_testkit::{Git, clean_environment};
use tempfile::TempDir;

use super::Twins;
use crate::running::{PACKRACE, assert_no_panic};

fn repository() -> TempDir {
    let directory = packrace_testkit::scratch_dir();
    Git::stock().run(directory.path(), &["init", "-q"]);
    directory
}

/// Runs `packrace add` after a line of shell.
fn add(place: &Path, before: &str, args: &str) -> Output {
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    command.args(["-c", &format!("{before}; exec \"$TOOL\" add {args}")]);
    let output = command.current_dir(place).env("TOOL", PACKRACE).output().unwrap();
    assert_no_panic(&String::from_utf8_lossy(&output.stderr));
    output
}

/// Checks that every entry of the index has a complete object, and that no temporary file is left.
fn check_whole(place: &Path) {
    let git = Git::stock();
    git.run(place, &["fsck", "--strict", "--no-dangling"]);
    let ids = git.run(place, &["ls-files", "-s"]);
    let ids: String = ids.lines().map(|line| format!("{}\n", line.split(' ').nth(1).unwrap())).collect();
    let found = git.run_with_input(place, &["cat-file", "--batch-check"], ids.as_bytes());
    assert!(!String::from_utf8(found).unwrap().contains("missing"));
    let left: Vec<_> =
        walk(&place.join(".git")).filter(|name| name.contains("tmp_") || name.ends_with(".lock")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn walk(dir: &Path) -> Box<dyn Iterator<Item = String>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    Box::new(entries.flat_map(|path| match path.is_dir() {
        true => walk(&path),
        false => {
            Box::new(std::iter::once(path.file_name().unwrap().to_string_lossy().into_owned())) as Box<_>
        }
    }))
}

#[test]
fn files_change_vanish_and_become_directories_meanwhile() {
    let repository = repository();
    let place = repository.path();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0usize;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                for number in 0..40 {
                    let path = place.join(format!("f{number}"));
                    let _ = std::fs::remove_dir_all(&path);
                    let _ = std::fs::remove_file(&path);
                    match (round + number) % 5 {
                        0 => drop(std::fs::create_dir(&path)),
                        1 => drop(std::os::unix::fs::symlink("f1", &path)),
                        2 => {}
                        length => drop(std::fs::write(&path, "line\n".repeat(length * 1000 * (round % 7)))),
                    }
                }
            }
        });
        for round in 0..60 {
            let before = std::fs::read(place.join(".git/index")).unwrap_or_default();
            let args = if round % 2 == 0 { "--ignore-errors -A" } else { "-A" };
            let output = add(place, "true", args);
            let code = output.status.code();
            let said = String::from_utf8_lossy(&output.stderr);
            match code {
                Some(0) => {}
                Some(1) => assert!(round % 2 == 0 && said.contains("error: "), "{said}"),
                Some(128) => {
                    assert!(said.contains("fatal: "), "{said}");
                    assert_eq!(std::fs::read(place.join(".git/index")).unwrap_or_default(), before, "{said}");
                }
                code => panic!("{code:?}: {said}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    check_whole(place);
    // Once nothing changes any more, git and packrace agree.
    for number in 0..40 {
        let _ = std::fs::remove_dir_all(place.join(format!("f{number}")));
    }
    assert!(add(place, "true", "-A").status.success());
    assert_eq!(Git::stock().run(place, &["status", "--porcelain"]).matches(" M").count(), 0);
    check_whole(place);
}

#[test]
fn sockets_are_passed_over() {
    let twins = Twins::new();
    let listening: Vec<_> = [twins.git(), twins.ours()]
        .iter()
        .map(|place| UnixListener::bind(place.join("socket")).unwrap())
        .collect();
    twins.both("echo 1 > a");
    twins.check("T add -v socket");
    twins.check("T add -v .");
    twins.both("rm a && ln -s socket a");
    twins.check("T add -v .");
    drop(listening);
}

#[test]
fn a_full_disk_changes_nothing() {
    let repository = repository();
    let place = repository.path();
    std::fs::write(place.join("first"), "first\n").unwrap();
    assert!(add(place, "true", ".").status.success());
    let before = std::fs::read(place.join(".git/index")).unwrap();
    let mut noise = 1u64;
    for number in 0..200 {
        let content: Vec<u8> = (0..4096)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 33) as u8
            })
            .collect();
        std::fs::write(place.join(format!("f{number}")), content).unwrap();
    }
    // Limits of a file's size, in blocks of 512 bytes: the pack does not fit; the pack fits and the index
    // does not; everything fits.
    for (limit, is_enough) in [(0, false), (8, false), (512, false), (8192, true)] {
        let output = add(place, &format!("trap '' XFSZ; ulimit -f {limit}"), ".");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_enough, "{limit}: {said}");
        if !is_enough {
            assert_eq!(output.status.code(), Some(128), "{limit}: {said}");
            assert!(said.starts_with("fatal: "), "{limit}: {said}");
            assert_eq!(std::fs::read(place.join(".git/index")).unwrap(), before, "{limit}");
        }
        check_whole(place);
    }
    assert_eq!(
        Git::stock()
            .run(place, &["status", "--porcelain"])
            .lines()
            .filter(|line| line.starts_with("A  "))
            .count(),
        201
    );
}

#[test]
fn a_large_file_needs_little_memory() {
    let repository = repository();
    let place = repository.path();
    let file = std::fs::File::create(place.join("large")).unwrap();
    file.set_len(192 << 20).unwrap();
    std::fs::write(place.join("small"), "small\n").unwrap();
    Git::stock().run(place, &["config", "core.bigFileThreshold", "16m"]);
    // Most of this is reserved for stacks of threads, and unused.
    let output = add(place, "ulimit -v 180000", ".");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_whole(place);
    let theirs = Git::stock().run(place, &["hash-object", "large"]);
    assert_eq!(Git::stock().run(place, &["rev-parse", ":large"]), theirs);
}

#[test]
fn indexes_that_are_broken_stay() {
    let repository = repository();
    let place = repository.path();
    std::fs::write(place.join("a"), "a\n").unwrap();
    assert!(add(place, "true", ".").status.success());
    let whole = std::fs::read(place.join(".git/index")).unwrap();
    std::fs::write(place.join("b"), "b\n").unwrap();
    for at in [0, 5, 11, 20, 60, whole.len() - 1] {
        let mut broken = whole.clone();
        broken[at] ^= 0x41;
        std::fs::write(place.join(".git/index"), &broken).unwrap();
        let output = add(place, "true", ".");
        assert_eq!(output.status.code(), Some(128), "{at}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(place.join(".git/index")).unwrap(), broken, "{at}");
    }
}

#[test]
fn a_history_is_added_as_git_adds_it() {
    let history = packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Small).build();
    let twins = Twins::new();
    for place in [twins.git(), twins.ours()] {
        let archive = Git::stock().run_with_input(history.path(), &["archive", "HEAD"], b"");
        let tar = place.with_extension("tar");
        std::fs::write(&tar, archive).unwrap();
        let status = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&place).status().unwrap();
        assert!(status.success());
    }
    twins.check("T add -v .");
    twins.both("find . -path ./.git -prune -o -type f -print | sort | head -n 20 | while read -r f; do echo more >> \"$f\"; done");
    twins.check("T add -v -u");
}

/// Calls of a role, as packrace reports them.
fn calls(report: &str, role: &str, what: &str) -> u64 {
    let part = report.split_once(&format!("\"{role}\":{{")).map_or("", |(_, rest)| rest);
    let part = part.split_once("}}").map_or(part, |(part, _)| part);
    let number =
        part.split_once(&format!("\"{what}\":{{\"calls\":")).and_then(|(_, rest)| rest.split(',').next());
    number.map_or(0, |number| number.parse().unwrap())
}

/// The number of syncs does not depend on the number of files; each file is examined and read once.
#[test]
fn many_files_cost_no_more_waiting() {
    let counted = |count: usize| {
        let repository = repository();
        let place = repository.path();
        for number in 0..count {
            let directory = place.join(format!("d{}", number % 4));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join(number.to_string()), format!("file {number}\n")).unwrap();
        }
        let report = place.join(".git/report");
        let output = add(place, &format!("export PACKRACE_IO_REPORT='{}'", report.display()), ".");
        assert!(output.status.success());
        check_whole(place);
        std::fs::read_to_string(report).unwrap()
    };
    let syncs = |report: &str| {
        let roles = ["pack", "index", "objects", "worktree"];
        roles.map(|role| calls(report, role, "sync")).iter().sum::<u64>()
    };
    let (few, many) = (counted(200), counted(1_000));
    for report in [&few, &many] {
        // A pack, its index, their directory, the index and its directory; one fewer if the file system syncs
        // two in one call.
        assert!((4..=5).contains(&syncs(report)), "{report}");
    }
    assert_eq!(calls(&many, "worktree", "read"), 1_000, "{many}");
    assert!(calls(&many, "worktree", "look") <= 1_000 + 32, "{many}");
    for op in ["create", "rename", "remove", "attribute"] {
        assert!(calls(&many, "objects", op) <= 16, "{op}: {many}");
    }
}
