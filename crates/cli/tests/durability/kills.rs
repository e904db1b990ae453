//! The process is killed (`kill -9`) at a random moment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::{Extent, Git, Random, sampled};

use crate::cases::{fed, has_object, is_all_staged, write_files, write_receiver};
use crate::{ask_git, assert_sound, git, packrace, remove_locks, scratch_dir};

/// This many rounds share a repository: with more, checking it would take longer and longer.
const FRESH_AFTER: usize = 50;

/// Rounds of each test; 1,000 take minutes.
fn rounds(extent: Extent) -> usize {
    let whole =
        || std::env::var("PACKRACE_KILL_ROUNDS").map_or(40, |rounds| rounds.parse().expect("a number"));
    if extent == Extent::Sample { 8 } else { whole() }
}

/// Kills a process after this time, unless it has ended before. Returns whether it succeeded.
fn run_for(command: &mut Command, time: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(time);
    let _ = child.kill();
    child.wait().unwrap().success()
}

/// Random moments between the start of a process and a little after its usual end.
struct Moments {
    random: Random,
    whole: Duration,
}

impl Moments {
    fn new(seed: u64, whole: impl FnOnce()) -> Self {
        let start = Instant::now();
        whole();
        Moments { random: Random::new(seed), whole: start.elapsed() }
    }

    fn next(&mut self) -> Duration {
        self.whole * self.random.below(1200) as u32 / 1000
    }
}

/// Runs all rounds, and prints how many ended before success: `work` runs some of them in a new repository,
/// numbered from 1.
fn in_fresh_repositories(extent: Extent, what: &str, mut work: impl FnMut(usize, u64) -> usize) {
    let rounds = rounds(extent);
    let starts = (0..rounds).step_by(FRESH_AFTER);
    let killed: usize = starts.map(|start| work(FRESH_AFTER.min(rounds - start), start as u64)).sum();
    println!("{what}: {killed} of {rounds} ended before they told of success");
}

/// A repository with one commit more than this, and the names of the commits from the first on.
fn history(top: &Path, rounds: usize, files: usize) -> (PathBuf, Vec<String>) {
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", "all.git"]);
    let all = top.join("all.git");
    let mut stream = String::new();
    for round in 0..=rounds {
        stream += &format!(
            "commit refs/heads/main\ncommitter A <a@b> {} +0000\ndata 1\nx\n",
            1_000_000_000 + round
        );
        for file in 0..files {
            let content = format!("{round} {file}\n");
            stream += &format!("M 100644 inline {file}/{file}\ndata {}\n{content}\n", content.len());
        }
    }
    Git::stock().run_with_input(&all, &["fast-import", "--quiet"], stream.as_bytes());
    let commits = git(&all, &["rev-list", "--reverse", "main"]);
    (all, commits.lines().map(str::to_owned).collect())
}

sampled! {
    fn pushes(extent) {
        for files in [1, 20] {
            in_fresh_repositories(extent, &format!("push, {files} files"), |rounds, seed| {
                push_rounds(files, rounds, seed)
            });
        }
    }
}

fn push_rounds(files: usize, rounds: usize, seed: u64) -> usize {
    let dir = scratch_dir();
    let top = dir.path();
    let (all, commits) = history(top, rounds, files);
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", "srv.git"]);
    let (server, pid_file) = (top.join("srv.git"), top.join("pid"));
    write_receiver(&top.join("receive"), &pid_file);
    let push = |commit: &str| {
        let mut command = Git::stock().command(&all);
        let program = format!("--receive-pack={}", top.join("receive").display());
        command.args(["push", "-q", &program, "../srv.git", &format!("{commit}:refs/heads/main")]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut moments =
        Moments::new(seed + files as u64, || assert!(push(&commits[0]).wait().unwrap().success()));
    let (mut acknowledged, mut killed) = (0, 0);
    for round in 1..=rounds {
        let _ = std::fs::remove_file(&pid_file);
        let mut client = push(&commits[round]);
        let moment = moments.next();
        while !pid_file.exists() && client.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(moment);
        if let (Ok(pid), None) = (std::fs::read_to_string(&pid_file), client.try_wait().unwrap()) {
            // The process may have ended, but so recently that its id is not reused.
            let _ = Command::new("sh")
                .args(["-c", "kill \"$@\"", "kill", "-9", pid.trim()])
                .stderr(Stdio::null())
                .status();
        }
        let before = acknowledged;
        match client.wait().unwrap().success() {
            true => acknowledged = round,
            false => killed += 1,
        }
        remove_locks(&server);
        let what = format!("round {round} of {files} files");
        let is = git(&server, &["rev-parse", "main"]);
        let is = commits.iter().position(|commit| commit == is.trim()).unwrap();
        assert!(is == acknowledged || is == round, "{what}: {is} after {before} and {acknowledged}");
        acknowledged = is;
        assert_sound(&server, &what);
    }
    killed
}

sampled! {
    fn unpacking(extent) {
        for files in [1, 20] {
            in_fresh_repositories(extent, &format!("unpack-objects, {files} files"), |rounds, seed| {
                unpack_rounds(files, rounds, seed)
            });
        }
    }
}

fn unpack_rounds(files: usize, rounds: usize, seed: u64) -> usize {
    let dir = scratch_dir();
    let top = dir.path();
    let (all, commits) = history(top, rounds, files);
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", "to.git"]);
    let to = top.join("to.git");
    let pack = |round: usize| {
        let before = round.checked_sub(1).map(|before| format!("^{}\n", commits[before]));
        let revisions = format!("{}\n{}", commits[round], before.unwrap_or_default());
        let args = ["pack-objects", "--revs", "--stdout", "-q"];
        let pack = Git::stock().run_with_input(&all, &args, revisions.as_bytes());
        let path = top.join("pack");
        std::fs::write(&path, pack).unwrap();
        path
    };
    let first = std::fs::read(pack(0)).unwrap();
    let mut moments = Moments::new(seed + files as u64, || {
        assert!(fed(packrace(&to).arg("unpack-objects"), &first).status.success());
    });
    let mut killed = 0;
    for (round, commit) in commits.iter().enumerate().skip(1) {
        let input = std::fs::File::open(pack(round)).unwrap();
        let is_done = run_for(packrace(&to).arg("unpack-objects").stdin(input), moments.next());
        let what = format!("round {round} of {files} files");
        // Unreferenced objects are checked, too.
        assert_sound(&to, &what);
        assert!(!is_done || has_object(&to, commit), "{what}");
        killed += usize::from(!is_done);
        // Adds the parent of the next commit.
        Git::stock().run_with_input(
            &to,
            &["unpack-objects", "-q"],
            &std::fs::read(top.join("pack")).unwrap(),
        );
    }
    let left = ask_git(&to, &["prune", "--expire=now"]);
    assert!(left.status.success());
    killed
}

sampled! {
    fn adding(extent) {
        for files in [3, 40] {
            in_fresh_repositories(extent, &format!("add, {files} files"), |rounds, seed| add_rounds(files, rounds, seed));
        }
    }
}

fn add_rounds(files: usize, rounds: usize, seed: u64) -> usize {
    let dir = scratch_dir();
    let work = dir.path().join("work");
    git(dir.path(), &["init", "-q", "-b", "main", "--template=", "work"]);
    write_files(&work, 0..files, 0);
    let add = || {
        let mut command = packrace(&work);
        command.args(["add", "."]);
        command
    };
    let mut moments = Moments::new(seed + files as u64, || assert!(add().status().unwrap().success()));
    let mut killed = 0;
    for round in 1..=rounds {
        write_files(&work, 0..files, round);
        let is_done = run_for(&mut add(), moments.next());
        remove_locks(&work.join(".git"));
        let what = format!("round {round} of {files} files");
        assert_sound(&work, &what);
        assert!(is_all_staged(&work) || !is_done, "{what}");
        killed += usize::from(!is_done);
    }
    killed
}

sampled! {
    /// Leftovers of a killed job are removed by the next one, except locks, which stay for ten minutes.
    fn maintaining(extent) {
        in_fresh_repositories(extent, "maintenance", maintaining_rounds);
    }
}

fn maintaining_rounds(rounds: usize, seed: u64) -> usize {
    let dir = scratch_dir();
    let top = dir.path();
    let (all, commits) = history(top, rounds, 20);
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", "to.git"]);
    let to = top.join("to.git");
    git(&to, &["config", "receive.unpackLimit", "1"]);
    git(&to, &["config", "receive.autogc", "false"]);
    let maintain = || {
        let mut command = packrace(&to);
        command.args(["maintenance", "run", "--task=gc", "--task=geometric-repack"]);
        command
    };
    let push = |round: usize, commit: &str| {
        git(&all, &["push", "-q", "../to.git", &format!("{commit}:refs/heads/main")]);
        git(&all, &["push", "-q", "../to.git", &format!("{commit}:refs/heads/{round}")]);
    };
    push(0, &commits[0]);
    let mut moments = Moments::new(seed, || assert!(maintain().status().unwrap().success()));
    let mut killed = 0;
    for (round, commit) in commits.iter().enumerate().skip(1) {
        push(round, commit);
        killed += usize::from(!run_for(&mut maintain(), moments.next()));
        let what = format!("round {round}");
        assert_sound(&to, &what);
        let is = git(&to, &["rev-parse", "main"]);
        assert_eq!(is.trim(), commit, "{what}");
        // As after ten minutes; but not the holder of the repository and its start, by which the leftovers of
        // the killed job are recognized.
        let held = to.join("objects/maintenance.lock");
        let holder = std::fs::read(&held).ok().zip(held.metadata().and_then(|file| file.modified()).ok());
        remove_locks(&to);
        // A job that was killed before it wrote its name had made nothing; its lock would stay for a day.
        if let Some((holder, since)) = holder.filter(|(holder, _)| !holder.is_empty()) {
            std::fs::write(&held, holder).unwrap();
            std::fs::File::open(&held).unwrap().set_modified(since).unwrap();
        }
        let again = maintain().output().unwrap();
        assert!(again.status.success(), "{what}: {}", String::from_utf8_lossy(&again.stderr));
        assert_sound(&to, &what);
        let left = names_below(&to).into_iter().find(|name| name.contains("tmp_") || name.ends_with(".lock"));
        assert_eq!(left, None, "{what}");
    }
    killed
}

fn names_below(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(names_below(&path));
        }
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names
}
