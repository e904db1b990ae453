//! For development only: runs git and packrace on the same work in turns, and compares their answers.
//!
//! `cargo run --release -p packrace-bench -- --help` describes the options. Only ratios within one run count:
//! both ran on the same machine, about which nothing else is known.

#![forbid(unsafe_code)]

mod add;
mod args;
mod care;
mod catalog;
mod check;
mod commands;
mod curves;
mod door;
mod events;
mod filters;
mod measure;
mod nodes;
mod on_copy;
mod packs;
mod prepare;
mod push;
mod pushers;
mod refs;
mod report;
mod serve;
mod served;
mod siege;
mod soak;
mod stash;
mod swarm;
mod take;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use packrace_testkit::Git;
use packrace_testkit::mounted::Mount;
use serde_json::json;

use crate::args::{Args, Packrace, SWARM, Suite};
use crate::measure::{Contender, Observation, StdinFeed, Timing, drop_page_cache};
use crate::on_copy::OnCopy;
use crate::prepare::Scratch;
use crate::push::Pushed;
use crate::report::{Comparison, Record};
use crate::serve::Server;
use crate::served::Served;
use crate::take::Taker;
use crate::work::{Add, Check, How, Pushes, Take, Work};

/// Short work is repeated within a round until git has run this long: bash measures milliseconds.
const LEAST_ROUND_SECONDS: f64 = 0.2;

/// Maximum number of repetitions per round.
const MOST_RUNS: usize = 50;

/// Minimum number of rounds for short work, whose times vary.
const LEAST_QUICK_ROUNDS: usize = 5;

/// The implementation that is measured.
const PACKRACE: &str = "packrace";

/// Another implementation, for the work that it supports.
pub const GIX: &str = "gix";

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}", args::USAGE);
        return ExitCode::SUCCESS;
    }
    let result = args::parse(words.into_iter()).map_err(Error::from).and_then(|args| run(&args));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("packrace-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let git = Git::at(&args.git).ok_or_else(|| format!("{} is not a git", args.git.display()))?;
    let packrace = packrace_binary(&args.packrace)?;
    let scratch = Scratch::new(args.scratch.as_deref(), git.clone())?;
    let work = catalog::all(args, &git, &scratch)?;
    print_conditions(args, &git, packrace.as_deref());
    if !work.is_empty() {
        println!("{}", report::head());
    }
    let mut done: Vec<Comparison> = Vec::new();
    for work in &work {
        let mut comparison = compare(args, &git, packrace.as_deref(), work)?;
        let yardstick = work.bytes_of.as_ref().and_then(|name| done.iter().find(|other| other.name == *name));
        if let Some(yardstick) = yardstick {
            comparison.reference_bytes = yardstick.git.bytes;
        }
        print!("{}", comparison.rows());
        done.push(comparison);
    }
    if args.items.contains(&Suite::Refs) {
        refs::print_again(args, &git, packrace.as_deref(), &scratch)?;
    }
    let mut records: Vec<_> = done.iter().flat_map(Comparison::json).collect();
    if args.items.iter().any(|item| SWARM.contains(item)) {
        let history = catalog::history(args, &scratch)?;
        records.extend(swarm::run(args, &git, packrace.as_deref(), &scratch, &history)?);
    }
    if args.items.contains(&Suite::Door) {
        records.extend(door::run(args, &git, packrace.as_deref())?);
    }
    if args.items.contains(&Suite::Events) {
        records.extend(events::run(args, &git, packrace.as_deref())?);
    }
    if args.items.contains(&Suite::Nodes) {
        records.extend(nodes::run(args, &git, packrace.as_deref())?);
    }
    if args.items.contains(&Suite::Care) {
        records.extend(care::run(args, &git, packrace.as_deref())?);
    }
    if args.items.contains(&Suite::Siege) {
        records.extend(siege::run(args, &git, packrace.as_deref())?);
    }
    if let Some(file) = &args.svg {
        std::fs::write(file, curves::svg(&done).ok_or("no work has a number of packs")?)?;
    }
    if let Some(file) = &args.json {
        let record = json!({ "conditions": conditions(args, &git), "records": records });
        std::fs::write(file, format!("{record:#}\n"))?;
    }
    if args.items.contains(&Suite::Soak) {
        soak::run(args, &git, packrace.as_deref())?;
    }
    Ok(())
}

/// Observes and checks each contender once, then times them in turns.
fn compare(args: &Args, git: &Git, packrace: Option<&Path>, work: &Work) -> Result<Comparison, Error> {
    match &work.how {
        How::UploadPack => {
            let argv = ["upload-pack".to_string(), work.repo.display().to_string()];
            compare_on_stdio(args, git, packrace, work, &argv)
        }
        How::Served => compare_served(args, git, packrace, work),
        How::Command { args: words, is_on_copy: true } => compare_on_copies(args, git, packrace, work, words),
        How::Command { args: words, is_on_copy: false } => {
            let repo = ["-C".to_string(), work.repo.display().to_string()];
            compare_on_stdio(args, git, packrace, work, &[&repo[..], words].concat())
        }
        How::Add(add) => compare_adding(args, git, packrace, work, add),
        How::Take(take) => compare_taking(args, git, packrace, work, take),
        How::Receive => compare_as_clients(args, git, packrace, work),
        How::Push(pushes) => compare_pushing(args, git, packrace, work, pushes),
    }
}

fn compare_on_stdio(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
    words: &[String],
) -> Result<Comparison, Error> {
    let contender = |binary: &Path| Contender {
        argv: [&[binary.display().to_string()], words].concat(),
        feed: StdinFeed::File,
    };
    let request = request_file(work)?;
    let (peer, ours) = (contender(git.binary()), packrace.map(contender));
    let first = peer.time(request.path(), 1)?;
    let (rounds, runs) = rounds_and_runs(args, first.wall_seconds);
    in_turns(
        (rounds, runs, git, work),
        named(peer, ours),
        |contender| contender.observe(request.path(), &|| Ok(())),
        |contender| {
            if args.is_cold {
                drop_page_cache()?;
            }
            contender.time(request.path(), runs)
        },
    )
}

/// Short work is repeated within a round; cold runs are never repeated.
fn rounds_and_runs(args: &Args, first_seconds: f64) -> (usize, usize) {
    let runs = (LEAST_ROUND_SECONDS / first_seconds.max(0.001)).ceil() as usize;
    let least_rounds = if runs > 1 { LEAST_QUICK_ROUNDS } else { 1 };
    let most_runs = if args.is_cold { 1 } else { MOST_RUNS };
    (args.rounds.max(least_rounds), runs.clamp(1, most_runs))
}

/// The servers run through all rounds, unless each round starts cold.
fn compare_served(args: &Args, git: &Git, packrace: Option<&Path>, work: &Work) -> Result<Comparison, Error> {
    let contender = |binary: &Path| Served::new(binary, work, git);
    let (peer, ours) = (contender(git.binary())?, packrace.map(contender).transpose()?);
    let (rounds, runs) = rounds_and_runs(args, peer.time(1)?.wall_seconds);
    in_turns(
        (rounds, runs, git, work),
        named(peer, ours),
        |contender| contender.observe(),
        |contender| {
            if args.is_cold {
                contender.start_anew(drop_page_cache)?;
            }
            contender.time(runs)
        },
    )
}

fn compare_on_copies(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
    words: &[String],
) -> Result<Comparison, Error> {
    let request = request_file(work)?;
    let contender = |binary: &Path| -> std::io::Result<OnCopy> {
        let mut on_copy = OnCopy::new(binary, &work.repo, words, git, work.check.clone())?;
        on_copy.begin_cold(args.is_cold);
        Ok(on_copy)
    };
    let (peer, ours) = (contender(git.binary())?, packrace.map(contender).transpose()?);
    in_turns(
        (args.rounds, 1, git, work),
        named(peer, ours),
        |contender| contender.observe(request.path()),
        |contender| contender.time(request.path()),
    )
}

/// Each program has its own arguments.
fn compare_adding(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
    add: &Add,
) -> Result<Comparison, Error> {
    let request = request_file(work)?;
    let contender =
        |binary: &Path, words: &[String]| OnCopy::new(binary, &work.repo, words, git, work.check.clone());
    let ours = packrace.map(|packrace| contender(packrace, &add.ours)).transpose()?;
    in_turns(
        (args.rounds, 1, git, work),
        named(contender(git.binary(), &add.git)?, ours),
        |contender| contender.observe(request.path()),
        |contender| contender.time(request.path()),
    )
}

fn request_file(work: &Work) -> std::io::Result<tempfile::NamedTempFile> {
    let request = tempfile::NamedTempFile::new()?;
    std::fs::write(request.path(), &work.request)?;
    Ok(request)
}

fn compare_taking(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
    take: &Take,
) -> Result<Comparison, Error> {
    let behind = tempfile::tempdir_in(work.repo.parent().ok_or("a repository lies in a directory")?)?;
    let place = tempfile::tempdir()?;
    let mount = take.is_mounted.then(|| Mount::new(behind.path(), place.path())).transpose()?;
    let contender = |binary: &Path| Taker::new(binary, work, take, git, mount.as_ref());
    let mut contenders = named(contender(git.binary())?, packrace.map(contender).transpose()?);
    if let (Some(gix), Check::SamePackFiles, false) = (&args.gix, &work.check, take.is_mounted) {
        contenders.push((GIX, Taker::gix(gix, work, take, git)?));
    }
    in_turns(
        (args.rounds, 1, git, work),
        contenders,
        |contender| contender.observe(&take.pack),
        |contender| contender.time(&take.pack),
    )
}

fn compare_as_clients(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
) -> Result<Comparison, Error> {
    let root = work.repo.parent().ok_or("a repository lies in a directory")?;
    let server = Server::git_daemon(git, root, None)?;
    let request = request_file(work)?;
    let contender = |binary: &Path| OnCopy::cloning(binary, &server.url(false, &work.repo), git);
    let contenders = named(contender(git.binary())?, packrace.map(contender).transpose()?);
    in_turns(
        (args.rounds, 1, git, work),
        contenders,
        |contender| contender.observe(request.path()),
        |contender| contender.time(request.path()),
    )
}

fn compare_pushing(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    work: &Work,
    pushes: &Pushes,
) -> Result<Comparison, Error> {
    let list = request_file(work)?;
    let contender = |binary: &Path| -> std::io::Result<Pushed> {
        let mut pushed = Pushed::new(binary, work, pushes, git, list.path())?;
        pushed.begin_cold(args.is_cold);
        Ok(pushed)
    };
    let contenders = named(contender(git.binary())?, packrace.map(contender).transpose()?);
    in_turns((args.rounds, 1, git, work), contenders, Pushed::observe, |contender| contender.time())
}

/// git comes first: others are compared with it.
fn named<Contender>(git: Contender, packrace: Option<Contender>) -> Vec<(&'static str, Contender)> {
    std::iter::once(("git", git)).chain(packrace.map(|packrace| (PACKRACE, packrace))).collect()
}

fn in_turns<Contender>(
    (rounds, runs, git, work): (usize, usize, &Git, &Work),
    mut contenders: Vec<(&'static str, Contender)>,
    observe: impl Fn(&mut Contender) -> std::io::Result<Observation>,
    time: impl Fn(&mut Contender) -> std::io::Result<Timing>,
) -> Result<Comparison, Error> {
    let observed = contenders.iter_mut().map(|(_, contender)| observe(contender));
    let seen = observed.collect::<std::io::Result<Vec<Observation>>>()?;
    for (at, (who, _)) in contenders.iter().enumerate() {
        let peer = check::known_to(who, &seen[0].answer);
        let answer = (at > 0).then_some(seen[at].answer.as_slice());
        check::agree(git, work, &peer, answer).map_err(|e| format!("{}: {who}: {e}", work.name))?;
    }
    let mut timings: Vec<Vec<Timing>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((_, contender), timings) in contenders.iter_mut().zip(&mut timings) {
            timings.push(time(contender)?);
        }
    }
    let each = contenders.iter().zip(timings.iter().zip(&seen));
    let mut records = each.map(|((who, _), (timings, seen))| record(who, runs, timings, seen));
    Ok(Comparison {
        name: work.name.clone(),
        reference_bytes: timings[0][0].bytes,
        git: records.next().ok_or("git takes part")?,
        packrace: records.clone().find(|record| record.who == PACKRACE),
        gix: records.find(|record| record.who == GIX),
        goals: work.goals.clone(),
    })
}

fn record(who: &'static str, runs: usize, timings: &[Timing], seen: &Observation) -> Record {
    let (wall_seconds, cpu_seconds) = report::medians(timings);
    Record {
        who,
        wall_seconds,
        cpu_seconds,
        runs_a_round: runs,
        calls: seen.calls,
        reported_client_writes: seen.reported_client_writes,
        reported_pack_writes: seen.reported_pack_writes,
        packs_on_mount: seen.packs_on_mount,
        bytes: timings[0].bytes,
        peak: seen.peak,
    }
}

/// The binary to measure; the workspace's own is built the same way as this program.
fn packrace_binary(choice: &Packrace) -> Result<Option<PathBuf>, Error> {
    match choice {
        Packrace::Absent => Ok(None),
        Packrace::At(path) => Ok(Some(std::fs::canonicalize(path)?)),
        Packrace::Build => {
            let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            build.args(["build", "--quiet", "--locked", "--package", "packrace"]);
            build.args((!cfg!(debug_assertions)).then_some("--release"));
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            if !build.status()?.success() {
                return Err("packrace does not build".into());
            }
            Ok(Some(std::env::current_exe()?.with_file_name("packrace")))
        }
    }
}

fn print_conditions(args: &Args, git: &Git, packrace: Option<&Path>) {
    println!("{}\n", conditions(args, git));
    println!(
        "Medians of {} rounds in turns (of quick work {LEAST_QUICK_ROUNDS} at least){}, each on `upload-pack` with a v2 request from a file and the answer into a 1 MiB \
         pipe, or of another command; one that rewrites its repository has a fresh copy for each run, and \
         MB out are its packs or, of refs, what keeps them. Of pushes, CPU time and calls are the server's where there is one. CPU: user and system time of the process and its children. Write calls, of all system calls: {}; in brackets packrace's own \
         count to the client. Memory: highest sum of RssAnon over the process tree, seen every 2 ms in a run of its \
         own; mapped files are only in the sum of VmRSS, in brackets.{}\n",
        args.rounds,
        if args.is_cold {
            ", requests, pushes and commands that rewrite a repository after the page cache was dropped"
        } else {
            ""
        },
        if measure::has_strace() {
            "of all its processes, counted by strace in a run of its own"
        } else {
            "strace missing"
        },
        if packrace.is_none() { " packrace was not measured." } else { "" },
    );
}

/// Command, versions and machine.
fn conditions(args: &Args, git: &Git) -> String {
    let first_line = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_once(':').map_or(line, |(_, value)| value).trim().to_string()
    };
    let (major, minor) = git.version();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let repo = args
        .repo
        .as_ref()
        .and_then(|repo| repo.file_name())
        .map_or("built".into(), |name| name.to_string_lossy());
    format!(
        "packrace {} beside git {major}.{minor} on {repo}{}; {cores} cores of {}, {}",
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { " (debug build)" } else { "" },
        first_line("/proc/cpuinfo", "model name"),
        first_line("/proc/version", "Linux").split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
