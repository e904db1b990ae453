//! Commands that store something.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use packrace_testkit::{Git, Random};

use crate::{PACKRACE, ask_git, git, packrace};

/// A command that changes something in a directory, without configuration. Its success acknowledges the
/// change.
pub struct Case {
    pub name: &'static str,
    /// Prepares the directory.
    pub prepare: fn(&Path),
    /// Runs the command.
    pub run: fn(&Path) -> Output,
    /// The repository in the directory.
    pub repository: &'static str,
    /// Whether the effect of the command is visible; otherwise, none of it may be.
    pub is_done: fn(&Path) -> bool,
}

pub const CASES: [Case; 14] = [
    Case {
        name: "push of a handful",
        prepare: |top| prepare_push(top, "files", 2),
        run: run_push,
        repository: "srv.git",
        is_done: is_pushed,
    },
    Case {
        name: "push of many",
        prepare: |top| prepare_push(top, "files", 12),
        run: run_push,
        repository: "srv.git",
        is_done: is_pushed,
    },
    Case {
        name: "push to reftables",
        prepare: |top| prepare_push(top, "reftable", 12),
        run: run_push,
        repository: "srv.git",
        is_done: is_pushed,
    },
    Case {
        name: "unpack-objects of a handful",
        prepare: |top| prepare_push(top, "files", 2),
        run: run_unpack,
        repository: "srv.git",
        is_done: is_unpacked,
    },
    Case {
        name: "unpack-objects of many",
        prepare: |top| prepare_push(top, "files", 12),
        run: run_unpack,
        repository: "srv.git",
        is_done: is_unpacked,
    },
    Case {
        name: "index-pack for a promisor",
        prepare: prepare_promisor,
        run: run_index_for_promisor,
        repository: "srv.git",
        is_done: is_promised,
    },
    Case {
        name: "add of a handful",
        prepare: |top| prepare_add(top, 3),
        run: run_add,
        repository: "work",
        is_done: is_added,
    },
    Case {
        name: "add of many",
        prepare: |top| prepare_add(top, 20),
        run: run_add,
        repository: "work",
        is_done: is_added,
    },
    Case {
        name: "add with a large file",
        prepare: |top| {
            prepare_add(top, 2);
            git(&top.join("work"), &["config", "core.bigFileThreshold", "10k"]);
            std::fs::write(top.join("work/large"), Random::new(3).bytes(50_000)).unwrap();
        },
        run: run_add,
        repository: "work",
        is_done: is_added,
    },
    Case {
        name: "update-index",
        prepare: |top| prepare_add(top, 12),
        run: run_update_index,
        repository: "work",
        is_done: is_added,
    },
    Case {
        name: "repack",
        prepare: prepare_repack,
        run: |top| fed(packrace(&top.join("srv.git")).args(["repack", "-a", "-d", "-q"]), b""),
        repository: "srv.git",
        is_done: is_repacked,
    },
    Case {
        name: "stash of a handful",
        prepare: |top| prepare_add(top, 1),
        run: run_stash,
        repository: "work",
        is_done: is_stashed,
    },
    Case {
        name: "stash of many",
        prepare: |top| prepare_add(top, 12),
        run: run_stash,
        repository: "work",
        is_done: is_stashed,
    },
    Case {
        name: "stash among reftables",
        prepare: |top| prepare_work(top, "reftable", 3),
        run: run_stash,
        repository: "work",
        is_done: is_stashed,
    },
];

/// `srv.git` with two packs.
fn prepare_repack(top: &Path) {
    prepare_push(top, "files", 12);
    let server = top.join("srv.git");
    git(&server, &["repack", "-q", "-d"]);
    let pack = std::fs::read(top.join("pack")).unwrap();
    Git::stock().run_with_input(&server, &["index-pack", "--stdin", "--fix-thin"], &pack);
    git(
        &server,
        &["update-ref", "refs/heads/main", std::fs::read_to_string(top.join("new")).unwrap().trim()],
    );
    assert_eq!(packs(top).len(), 2);
    assert!(!is_repacked(top));
}

fn packs(top: &Path) -> Vec<Vec<u8>> {
    let packs =
        std::fs::read_dir(top.join("srv.git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    packs
        .filter(|path| path.extension().is_some_and(|end| end == "idx"))
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Whether one pack contains everything. The packs that it replaces are gone, or, as their removal is not
/// synced, back.
fn is_repacked(top: &Path) -> bool {
    let server = top.join("srv.git");
    let all = git(&server, &["rev-list", "--objects", "--all"]).lines().count();
    let listed = |index: Vec<u8>| Git::stock().run_with_input(&server, &["show-index"], &index);
    packs(top).into_iter().any(|index| listed(index).split(|byte| *byte == b'\n').count() - 1 == all)
}

/// `srv.git` with one commit, and beside it what a push of another commit with this many files needs: a
/// request and a pack.
fn prepare_push(top: &Path, format: &str, files: usize) {
    let format = format!("--ref-format={format}");
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", &format, "srv.git"]);
    git(top, &["init", "-q", "-b", "main", "--template=", "work"]);
    let work = top.join("work");
    let commit = |round: usize| {
        for number in 0..files {
            std::fs::write(work.join(format!("file-{number}")), format!("{round} {number}\n")).unwrap();
        }
        git(&work, &["add", "."]);
        git(&work, &["commit", "-q", "-m", "some"]);
        git(&work, &["rev-parse", "HEAD"]).trim().to_owned()
    };
    let old = commit(1);
    git(&work, &["push", "-q", "../srv.git", "main"]);
    let new = commit(2);
    let revisions = format!("{new}\n^{old}\n");
    let pack = Git::stock().run_with_input(
        &work,
        &["pack-objects", "--revs", "--stdout", "-q"],
        revisions.as_bytes(),
    );
    let line = format!("{old} {new} refs/heads/main\0 report-status");
    let head = format!("{:04x}{line}0000", line.len() + 4);
    std::fs::write(top.join("request"), [head.as_bytes(), &pack].concat()).unwrap();
    std::fs::write(top.join("pack"), pack).unwrap();
    std::fs::write(top.join("new"), new).unwrap();
    let objects = git(&work, &["rev-list", "--objects", "--no-object-names", "main", "^main~1"]);
    std::fs::write(top.join("objects"), objects).unwrap();
    std::fs::remove_dir_all(work).unwrap();
}

pub fn fed(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A killed process does not read the rest.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn run_push(top: &Path) -> Output {
    let request = std::fs::read(top.join("request")).unwrap();
    let output = fed(packrace(top).args(["receive-pack", "srv.git"]), &request);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("unpack ok\n") && said.contains("ok refs/heads/main\n"), "{said}");
    output
}

fn is_pushed(top: &Path) -> bool {
    let new = std::fs::read_to_string(top.join("new")).unwrap();
    git(&top.join("srv.git"), &["rev-parse", "main"]).trim() == new
}

fn run_unpack(top: &Path) -> Output {
    let pack = std::fs::read(top.join("pack")).unwrap();
    fed(packrace(top).args(["-C", "srv.git", "unpack-objects", "-q"]), &pack)
}

/// `srv.git` counts as a partial clone whose promisor sends a commit on top of its own.
fn prepare_promisor(top: &Path) {
    prepare_push(top, "files", 2);
    git(&top.join("srv.git"), &["config", "remote.origin.promisor", "true"]);
}

fn run_index_for_promisor(top: &Path) -> Output {
    let pack = std::fs::read(top.join("pack")).unwrap();
    fed(packrace(&top.join("srv.git")).args(["index-pack", "--stdin", "--fix-thin", "--promisor"]), &pack)
}

/// Whether the received commit is there; if it is, then the commit below it is in a promisor pack, too, or a later `gc`
/// might drop it.
fn is_promised(top: &Path) -> bool {
    let server = top.join("srv.git");
    let is_received = has_object(&server, std::fs::read_to_string(top.join("new")).unwrap().trim());
    let outside = ["rev-list", "--objects", "main", "--exclude-promisor-objects"];
    assert!(!is_received || git(&server, &outside).is_empty(), "a promisor object links to others");
    is_received
}

/// Whether all objects are stored: those that are found are known to be complete only.
fn is_unpacked(top: &Path) -> bool {
    let objects = std::fs::read(top.join("objects")).unwrap();
    let found = Git::stock().run_with_input(&top.join("srv.git"), &["cat-file", "--batch-check"], &objects);
    !String::from_utf8(found).unwrap().contains("missing")
}

/// A work tree with this many files, of which half are changed and the others new.
fn prepare_add(top: &Path, files: usize) {
    prepare_work(top, "files", files);
}

fn prepare_work(top: &Path, format: &str, files: usize) {
    let format = format!("--ref-format={format}");
    git(top, &["init", "-q", "-b", "main", "--template=", &format, "work"]);
    let work = top.join("work");
    write_files(&work, 0..files.div_ceil(2), 1);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "some"]);
    write_files(&work, 0..files, 2);
    std::fs::write(top.join("count"), files.to_string()).unwrap();
}

pub fn write_files(work: &Path, numbers: std::ops::Range<usize>, round: usize) {
    for number in numbers {
        let path = work.join(file_name(number));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content(round, number)).unwrap();
    }
}

/// Some files are in directories.
fn file_name(number: usize) -> String {
    if number.is_multiple_of(3) {
        format!("dir-{}/file-{number}", number % 2)
    } else {
        format!("file-{number}")
    }
}

/// The content depends on the round.
fn content(round: usize, number: usize) -> String {
    format!("{round} of {number}\n")
}

fn run_add(top: &Path) -> Output {
    fed(packrace(&top.join("work")).args(["add", "."]), b"")
}

fn run_update_index(top: &Path) -> Output {
    let work = top.join("work");
    let paths = git(&work, &["ls-files", "--modified", "--others"]);
    fed(packrace(&work).args(["update-index", "--add", "--stdin"]), paths.as_bytes())
}

fn run_stash(top: &Path) -> Output {
    fed(packrace(&top.join("work")).args(["stash", "push", "-u"]), b"")
}

/// Whether there is a stash, which then contains everything; otherwise everything is still in place. Anything
/// in neither would be lost.
fn is_stashed(top: &Path) -> bool {
    let work = top.join("work");
    let has_stash = ask_git(&work, &["rev-parse", "-q", "--verify", "refs/stash"]).status.success();
    let stashed = |name: &str| {
        // Untracked files are in a commit of their own.
        let shown = ["stash", "stash^3"].map(|commit| ask_git(&work, &["show", &format!("{commit}:{name}")]));
        let found = shown.into_iter().find(|output| output.status.success())?;
        Some(String::from_utf8(found.stdout).unwrap())
    };
    for number in 0..std::fs::read_to_string(top.join("count")).unwrap().parse().unwrap() {
        let name = file_name(number);
        let kept = match has_stash {
            true => stashed(&name),
            false => std::fs::read_to_string(work.join(&name)).ok(),
        };
        assert_eq!(kept, Some(content(2, number)), "{name}, with a stash: {has_stash}");
    }
    has_stash && !git(&work, &["stash", "list"]).is_empty()
}

/// Whether everything is in the index, from which git can make a tree.
fn is_added(top: &Path) -> bool {
    is_all_staged(&top.join("work"))
}

/// The same for a work tree.
pub fn is_all_staged(work: &Path) -> bool {
    git(work, &["write-tree"]);
    git(work, &["status", "--porcelain"]).lines().all(|line| line.as_bytes()[1] == b' ')
}

/// Writes a receiver script, for pushes of stock git to packrace; it stores the id of its process in a file.
pub fn write_receiver(path: &Path, pid_file: &Path) {
    let (pid_file, binary) = (pid_file.display(), PACKRACE);
    let script = format!(
        "#!/bin/sh\necho $$ >'{pid_file}.new'\nmv '{pid_file}.new' '{pid_file}'\nexec '{binary}' receive-pack \"$@\"\n"
    );
    packrace_testkit::write_program(path, &script);
}

/// Whether git finds an object there.
pub fn has_object(repository: &Path, id: &str) -> bool {
    ask_git(repository, &["cat-file", "-e", id]).status.success()
}
