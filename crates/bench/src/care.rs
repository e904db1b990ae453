//! Repositories without manual maintenance, under pushes: their state afterwards, and the effect on clients.
//! Compares `packrace serve` and its caretaker with `git daemon`, whose pushes run `git maintenance run
//! --auto`.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{READ_BYTES, Transport};
use packrace_testkit::{Git, RepoBuilder, Size};
use serde_json::{Value, json};

use crate::args::Args;
use crate::goals::verdicts;
use crate::serve::Server;
use crate::{Error, PACKRACE, work};

const REPOSITORIES: usize = 3;

/// Fetches on the idle server, for comparison.
const IDLE_FETCHES: usize = 200;

/// Pause between two fetches.
const FETCH_PAUSE: Duration = Duration::from_millis(20);

/// How long to wait after the last push until all maintenance is done.
const SETTLE_TIME: Duration = Duration::from_secs(900);

/// A server that is idle for this long has settled: git's maintenance runs with a push, and `packrace serve` looks again
/// five minutes after the last one.
const GIT_QUIET_TIME: Duration = Duration::from_secs(15);
const QUIET_TIME: Duration = Duration::from_secs(330);

/// The results of one server.
struct CareOutcome {
    name: &'static str,
    packs: Vec<usize>,
    loose: Vec<usize>,
    /// Percentage of all tips whose objects are in the bitmap.
    coverage: Vec<usize>,
    clone_cpu: f64,
    fresh_cpu: f64,
    idle: Latencies,
    fetches: Latencies,
    pushes: Latencies,
}

/// Times in milliseconds, sorted.
struct Latencies(Vec<f64>);

impl Latencies {
    fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Latencies(times)
    }

    fn at(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or(0.0)
    }
}

/// Prints the state of repositories after pushes, and the effect on clients; an error if a repository is
/// damaged.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("care needs a packrace")?;
    println!(
        "\nCare: {} pushes by git into {REPOSITORIES} repositories, one fetch each {} ms, nothing run by hand.\n\n\
         | server | packs | loose | bitmap knows | clone CPU, times fresh | fetch p99 idle | fetch p99 | p50 push | p99 push | goals |\n\
         |---|---|---|---|---|---|---|---|---|---|",
        args.pushes,
        FETCH_PAUSE.as_millis()
    );
    let mut records = Vec::new();
    for of_git in [false, true] {
        let folder = tempfile::tempdir()?;
        let outcome = measure(args, git, binary, folder.path(), of_git)?;
        let record = record(&outcome, args.pushes);
        println!("{}", row(&outcome, &verdicts(&record, &[])));
        records.push(record);
    }
    Ok(records)
}

fn record(outcome: &CareOutcome, pushes: usize) -> Value {
    let seconds = |times: &Latencies, percent| times.at(percent) / 1e3;
    json!({
        "work": "care", "who": outcome.name, "pushes": pushes, "packs": outcome.packs,
        "most_packs": outcome.packs.iter().max(), "loose": outcome.loose, "coverage": outcome.coverage,
        "cpu_seconds": outcome.clone_cpu, "fresh_cpu_seconds": outcome.fresh_cpu,
        "idle_seconds_p99": seconds(&outcome.idle, 99), "busy_seconds_p99": seconds(&outcome.fetches, 99),
        "push_seconds_p50": seconds(&outcome.pushes, 50), "push_seconds_p99": seconds(&outcome.pushes, 99),
        "push_seconds_p100": seconds(&outcome.pushes, 100),
    })
}

fn row(outcome: &CareOutcome, goals: &str) -> String {
    let ratio = outcome.clone_cpu / outcome.fresh_cpu.max(0.001);
    let slower = outcome.fetches.at(99) / outcome.idle.at(99).max(0.001);
    format!(
        "| {} | {:?} | {:?} | {:?} % | {ratio:.2} | {:.1} ms | {:.1} ms, {slower:.2} times idle | {:.0} ms | {:.0} ms | {goals} |",
        outcome.name,
        outcome.packs,
        outcome.loose,
        outcome.coverage,
        outcome.idle.at(99),
        outcome.fetches.at(99),
        outcome.pushes.at(50),
        outcome.pushes.at(99),
    )
}

fn measure(args: &Args, git: &Git, binary: &Path, folder: &Path, of_git: bool) -> Result<CareOutcome, Error> {
    let root = folder.join("root");
    std::fs::create_dir(&root)?;
    let size = if args.smoke { Size::Tiny } else { Size::Medium };
    let repos: Vec<PathBuf> = (0..REPOSITORIES).map(|number| root.join(format!("{number}.git"))).collect();
    for repo in &repos {
        RepoBuilder::new(size).build_at(repo, git);
        git.run(repo, &["repack", "-adbq"]);
        // Otherwise the default configuration, but maintenance must end with the push.
        git.run(repo, &["config", "gc.autoDetach", "false"]);
    }
    let server = if of_git { git.binary() } else { binary };
    let server = Server::of(server, git, &root, None, None)?;
    let asking = Asking::new(git, &server, &repos)?;
    let idle = asking.times(IDLE_FETCHES.min(args.pushes))?;
    let (pushes, fetches) = under_load(args, git, &server, &repos, folder, &asking)?;
    settle(&repos, if of_git { GIT_QUIET_TIME } else { QUIET_TIME });
    for repo in &repos {
        git.run(repo, &["fsck", "--full", "--connectivity-only", "--no-dangling"]);
    }
    let looked: Vec<[usize; 3]> = repos.iter().map(|repo| look(git, binary, repo)).collect();
    let clone_cpu = clones(git, &server, &repos)?;
    for repo in &repos {
        git.run(repo, &["repack", "-adbq"]);
    }
    // The first clones here, too: later ones get a kept pack.
    let fresh_cpu = clones(git, &server, &repos)?;
    Ok(CareOutcome {
        name: if of_git { "git" } else { PACKRACE },
        packs: looked.iter().map(|look| look[0]).collect(),
        loose: looked.iter().map(|look| look[1]).collect(),
        coverage: looked.iter().map(|look| look[2]).collect(),
        clone_cpu,
        fresh_cpu,
        idle: Latencies::new(idle),
        fetches: Latencies::new(fetches),
        pushes: Latencies::new(pushes),
    })
}

/// The number of packs and of loose objects, and the percentage of tips in the bitmap.
fn look(git: &Git, packrace: &Path, repo: &Path) -> [usize; 3] {
    let count = |name: &str| {
        let text = git.run(repo, &["count-objects", "-v"]);
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    let mut command = std::process::Command::new(packrace);
    packrace_testkit::clean_environment(&mut command);
    let output = command.args(["maintenance", "status"]).current_dir(repo).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = said.lines().find_map(|line| line.strip_prefix("bitmap: knows "));
    let numbers = line.and_then(|line| {
        let (known, all) = line.strip_suffix(" tips")?.split_once(" of ")?;
        Some((known.parse::<usize>().ok()?, all.parse::<usize>().ok()?))
    });
    let coverage = numbers.map_or(0, |(known, all)| known * 100 / all.max(1));
    [count("packs: "), count("count: "), coverage]
}

/// Pushes to each repository in turn while another client fetches.
fn under_load(
    args: &Args,
    git: &Git,
    server: &Server,
    repos: &[PathBuf],
    folder: &Path,
    asking: &Asking<'_>,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let is_over = AtomicBool::new(false);
    let (pushes, fetches) = std::thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            let mut times = Vec::new();
            while !is_over.load(Relaxed) {
                times.extend(asking.times(1)?);
                std::thread::sleep(FETCH_PAUSE);
            }
            io::Result::Ok(times)
        });
        let pushes = push_all(args, git, server, repos, folder);
        is_over.store(true, Relaxed);
        (pushes, fetching.join().expect("it does not panic"))
    });
    Ok((pushes?, fetches?))
}

/// Milliseconds of each push of one commit by stock git.
fn push_all(
    args: &Args,
    git: &Git,
    server: &Server,
    repos: &[PathBuf],
    folder: &Path,
) -> Result<Vec<f64>, Error> {
    let mut sources = Vec::new();
    for (number, repo) in repos.iter().enumerate() {
        let source = folder.join(format!("source{number}.git"));
        git.run(
            folder,
            &["clone", "-q", "--mirror", &repo.display().to_string(), &source.display().to_string()],
        );
        let head = git.run(&source, &["rev-parse", "HEAD"]).trim().to_owned();
        sources.push((source, head, server.url(false, repo)));
    }
    let mut times = Vec::with_capacity(args.pushes);
    for push in 0..args.pushes {
        let (source, head, url) = &mut sources[push % REPOSITORIES];
        let blob = git.run_with_input(
            source,
            &["hash-object", "-w", "--stdin"],
            format!("push {push}\n").as_bytes(),
        );
        let blob = String::from_utf8_lossy(&blob).trim().to_owned();
        let tree = git.run_with_input(source, &["mktree"], format!("100644 blob {blob}\tfile\n").as_bytes());
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        *head = git.run(source, &["commit-tree", &tree, "-p", head, "-m", "a push"]).trim().to_owned();
        let start = Instant::now();
        git.run(source, &["push", "-q", url, &format!("{head}:refs/heads/pushed/{}", push % 20), "--force"]);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

/// Waits until no job runs, and none starts for a while.
fn settle(repos: &[PathBuf], quiet_time: Duration) {
    let is_busy = || {
        repos
            .iter()
            .any(|repo| repo.join("objects/maintenance.lock").exists() || repo.join("gc.pid").exists())
    };
    let start = Instant::now();
    let mut quiet_since = Instant::now();
    while start.elapsed() < SETTLE_TIME && quiet_since.elapsed() < quiet_time {
        if is_busy() {
            quiet_since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The server's CPU seconds for a clone of each repository.
fn clones(git: &Git, server: &Server, repos: &[PathBuf]) -> Result<f64, Error> {
    let requests: Vec<Vec<u8>> = repos.iter().map(|repo| work::clone_request(git, repo)).collect();
    let ((), seconds) = server.with_processor_seconds(|| {
        for (repo, request) in repos.iter().zip(&requests) {
            ask(server, repo, request)?;
        }
        Ok(())
    })?;
    Ok(seconds)
}

/// Fetches of the commit that was the newest at the start.
struct Asking<'a> {
    server: &'a Server,
    requests: Vec<(PathBuf, Vec<u8>)>,
}

impl<'a> Asking<'a> {
    fn new(git: &Git, server: &'a Server, repos: &[PathBuf]) -> Result<Self, Error> {
        let request = |repo: &PathBuf| {
            let commits = git.run(repo, &["rev-list", "-2", "--first-parent", "HEAD"]);
            let commits: Vec<&str> = commits.lines().collect();
            let request = work::fetch_request(git, repo, &commits[..1], &commits[1..]);
            (repo.clone(), request)
        };
        Ok(Asking { server, requests: repos.iter().map(request).collect() })
    }

    /// Milliseconds of `count` fetches from each repository, one after the other.
    fn times(&self, count: usize) -> io::Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..count {
            for (repo, request) in &self.requests {
                let start = Instant::now();
                ask(self.server, repo, request)?;
                times.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
        Ok(times)
    }
}

/// One request and its response, which must contain a pack.
fn ask(server: &Server, repo: &Path, request: &[u8]) -> io::Result<()> {
    let target = server.target(Transport::Git, repo)?;
    let mut stream = target.connect()?;
    stream.write_all(&target.opening())?;
    stream.write_all(request)?;
    let (mut buffer, mut has_pack) = (vec![0; READ_BYTES], false);
    loop {
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) if has_pack => return Ok(()),
            Ok(0) => return Err(io::Error::other("an answer without a pack")),
            Ok(length) => has_pack |= buffer[..length].windows(4).any(|four| four == b"PACK"),
        }
    }
}
