//! A response keeps what it began with, whatever happens to the repository meanwhile.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packrace_testkit::peer::Script;
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, Storage, reachable_objects};

use crate::running::{Server, assert_no_panic, packrace, upload_pack};

#[test]
fn a_pack_that_is_deleted_under_way_still_arrives() {
    let repo = RepoBuilder::new(Size::Small).storage(Storage { packs: 3, ..Storage::default() }).build();
    let expected = repo.reachable_objects();
    let tips = repo.git(&["for-each-ref", "--format=%(objectname)"]);
    let wants: std::collections::BTreeSet<&str> = tips.lines().collect();
    let wants: Vec<&str> = wants.into_iter().collect();
    let script = Script::new().fetch_v2("sha1", &wants, &[]).flush();

    let mut command = upload_pack(repo.path(), 2);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.bytes()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The advertisement and the first frames: now the response is in progress and waits for its reader.
    let mut answer = vec![0; 200_000];
    stdout.read_exact(&mut answer).unwrap();
    repo.git(&["repack", "-adfq", "--window=5"]);
    repo.git(&["update-ref", "-d", "refs/heads/loose"]);
    repo.git(&["prune", "--expire=now"]);
    stdout.read_to_end(&mut answer).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pack = fetch_answer(&answer).unwrap().bands.pack;
    assert_eq!(objects_in_pack(Git::stock(), &pack, repo.hash(), None), expected);
}

/// Tells the other thread to stop, even if an assertion fails.
struct EndWhenDropped<'a>(&'a AtomicBool);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a command of git, or of packrace if it begins with its name.
fn run_maintenance(repo: &Path, command: &[&str]) {
    match command.split_first() {
        Some((&"packrace", args)) => {
            let output = packrace(repo, args, "");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        _ => drop(Git::stock().run(repo, command)),
    }
}

/// Clones over HTTP and git:// repeatedly while another thread changes refs and repacks without pause.
fn clones_beside(ref_format: RefFormat, maintenance: &[&[&str]]) {
    let repo = RepoBuilder::new(Size::Tiny).ref_format(ref_format).build();
    let server = Server::start(repo.path().parent().unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = EndWhenDropped(&done);
        let worker = scope.spawn(|| {
            let tree = repo.git(&["rev-parse", "main^{tree}"]);
            let mut parent = repo.git(&["rev-parse", "main"]);
            let mut rounds = 0;
            while !done.load(Relaxed) {
                let message = format!("Round {rounds}");
                parent = repo.git(&["commit-tree", tree.trim(), "-p", parent.trim(), "-m", &message]);
                repo.git(&["update-ref", "refs/heads/main", parent.trim()]);
                repo.git(&["update-ref", &format!("refs/heads/round/{rounds}"), parent.trim()]);
                for command in maintenance {
                    run_maintenance(repo.path(), command);
                }
                rounds += 1;
            }
            rounds
        });
        for number in 0..12 {
            let dir = packrace_testkit::scratch_dir();
            let url = match number % 2 {
                0 => format!("http://{}/repo.git", server.http),
                _ => format!("git://{}/repo.git", server.git),
            };
            let mut clone = Git::stock().command(dir.path());
            clone.args([
                "-c",
                &format!("protocol.version={}", number % 3),
                "clone",
                "-q",
                "--mirror",
                &url,
                "c",
            ]);
            let output = clone.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "clone {number} over {url}: {stderr}");
            assert_no_panic(&stderr);
            Git::stock().run(&dir.path().join("c"), &["fsck", "--strict", "--no-dangling", "--no-progress"]);
            assert!(reachable_objects(Git::stock(), &dir.path().join("c")).len() > 100);
        }
        done.store(true, Relaxed);
        assert!(worker.join().unwrap() >= 1, "the repository has changed meanwhile");
    });
}

#[test]
fn clones_beside_repacks() {
    clones_beside(RefFormat::Files, &[&["repack", "-adq"], &["pack-refs", "--all"]]);
}

#[test]
fn clones_beside_our_own_repacks() {
    let commands: [&[&str]; 3] = [
        &["packrace", "repack", "-adq"],
        &["packrace", "repack", "-dq", "--geometric=2", "--write-midx"],
        &["packrace", "commit-graph", "write", "--reachable", "--split"],
    ];
    clones_beside(RefFormat::Files, &commands);
}

/// Pushes of stock git, as packs and as loose objects, while packs are combined and deleted without pause: no
/// object may be lost.
#[test]
fn pushes_beside_our_own_repacks() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = packrace_testkit::scratch_dir();
    // Before packs change: git's clone of a path gives up if a file is replaced while it is linked.
    Git::stock().run(dir.path(), &["clone", "-q", repo.path().to_str().unwrap(), "work"]);
    let done = AtomicBool::new(false);
    let modes: [&[&str]; 4] = [&["-adq"], &["--cruft", "-dq"], &["-dq", "--geometric=2"], &["-dqm"]];
    let rounds = std::thread::scope(|scope| {
        let _end = EndWhenDropped(&done);
        let worker = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Relaxed) {
                let command = [&["packrace", "repack"], modes[rounds % modes.len()]].concat();
                run_maintenance(repo.path(), &command);
                rounds += 1;
            }
            rounds
        });
        let work = dir.path().join("work");
        for number in 0..25 {
            for file in 0..3 {
                std::fs::write(work.join(format!("{number}-{file}")), format!("{number} {file}\n")).unwrap();
            }
            Git::stock().run(&work, &["add", "."]);
            Git::stock().run(&work, &["commit", "-q", "-m", &format!("{number}")]);
            let limit = format!("receive.unpackLimit={}", if number % 3 == 0 { 100 } else { 1 });
            let receive = format!("git -c {limit} receive-pack");
            let branch = format!("HEAD:refs/heads/push/{number}");
            Git::stock().run(&work, &["push", "-q", "--receive-pack", &receive, "origin", &branch]);
        }
        done.store(true, Relaxed);
        worker.join().unwrap()
    });
    assert!(rounds >= 2, "packs were put together meanwhile");
    repo.git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]);
    assert_eq!(repo.git(&["for-each-ref", "refs/heads/push"]).lines().count(), 25);
    run_maintenance(repo.path(), &["packrace", "repack", "-adq"]);
    repo.git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]);
    assert!(repo.git(&["count-objects", "-v"]).contains("\npacks: 1\n"));
}

#[test]
fn clones_beside_garbage_collection() {
    clones_beside(RefFormat::Files, &[&["gc", "-q", "--prune=now"]]);
}

#[test]
fn clones_beside_compaction_of_reftables() {
    clones_beside(RefFormat::Reftable, &[&["pack-refs"], &["repack", "-adq", "--write-midx"]]);
}

/// Objects of rolled-up packs have no names from a walk, and files of equal length do not show which ones
/// belong together.
#[test]
fn packs_that_are_rolled_up_become_deltas_of_each_other() {
    const FILES: u64 = 40;
    let dir = packrace_testkit::scratch_dir();
    let (repo, copy) = (dir.path().join("repo.git"), dir.path().join("copy.git"));
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "-b", "main", "repo.git"]);
    // No two files share lines; each pack has another version of every file.
    for version in 0..12u64 {
        let mut input =
            format!("commit refs/heads/main\ncommitter A <a@x> {} +0000\ndata 1\nx\n", version + 1);
        for file in 0..FILES {
            let line = |number: u64| {
                let seed = file * 1_000_003 + number * 7919 + if number == version { 1 << 40 } else { 0 };
                format!("{:016x}\n", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            };
            let content: String = (0..100).map(line).collect();
            input += &format!("M 100644 inline d{}/f{file}\ndata {}\n{content}\n", file % 3, content.len());
        }
        let from = if version > 0 { "from refs/heads/main^0\n" } else { "" };
        let input = input.replacen("\nM 100644", &format!("\n{from}M 100644"), 1);
        let words = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force"];
        Git::stock().run_with_input(&repo, &words, input.as_bytes());
    }
    let copied = std::process::Command::new("cp").arg("-r").args([&repo, &copy]).status();
    assert!(copied.unwrap().success());
    let bytes_of_packs = |repo: &Path| -> u64 {
        let files = std::fs::read_dir(repo.join("objects/pack")).unwrap().map(|entry| entry.unwrap());
        let packs = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "pack"));
        packs.map(|pack| pack.metadata().unwrap().len()).sum()
    };
    let before = bytes_of_packs(&repo);
    run_maintenance(&repo, &["packrace", "repack", "-dq", "--geometric=2"]);
    run_maintenance(&copy, &["repack", "-dq", "--geometric=2"]);
    let (ours, gits) = (bytes_of_packs(&repo), bytes_of_packs(&copy));
    assert!(gits * 3 < before && ours <= gits + gits / 5, "{before} bytes became {ours}, with git {gits}");
    Git::stock().run(&repo, &["fsck", "--strict"]);
}
