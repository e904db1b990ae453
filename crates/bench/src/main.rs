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
mod comparison;
mod conditions;
mod door;
mod embedded;
mod events;
mod filters;
mod goals;
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
mod suites;
mod swarm;
mod take;
mod work;

use std::path::Path;
use std::process::ExitCode;

use packrace_testkit::Git;
use packrace_testkit::mounted::Mount;

use crate::args::{Args, Request};
use crate::comparison::{Comparison, Record};
use crate::measure::{Contender, Observation, StdinFeed, Timing, drop_page_cache};
use crate::on_copy::OnCopy;
use crate::push::Pushed;
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
    if let [embedded::HOST, root] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let hosted = embedded::host(Path::new(root));
        eprintln!("packrace-bench: {hosted:?}");
        return ExitCode::FAILURE;
    }
    let result = args::parse(words.into_iter()).map_err(Error::from).and_then(|request| match request {
        Request::Measure(runs, files) => suites::all(&runs, &files),
        Request::Report(records, files) => report::of_files(&records, &files),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("packrace-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Observes and checks each contender once, then times them in turns.
fn compare(args: &Args, git: &Git, packrace: Option<&Path>, work: &Work) -> Result<Comparison, Error> {
    match &work.how {
        How::UploadPack => {
            let argv = ["upload-pack".to_string(), work.repo.display().to_string()];
            let service = packrace.map(measure::service_of);
            compare_on_stdio(args, git, service.as_deref(), work, &argv)
        }
        How::Served | How::ServedKeepingDeltas => compare_served(args, git, packrace, work),
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

/// Short work is repeated within a round; cold runs are never repeated, and neither are those that are to show only that
/// everything works.
fn rounds_and_runs(args: &Args, first_seconds: f64) -> (usize, usize) {
    if args.smoke {
        return (args.rounds, 1);
    }
    let runs = (LEAST_ROUND_SECONDS / first_seconds.max(0.001)).ceil() as usize;
    let least_rounds = if runs > 1 { LEAST_QUICK_ROUNDS } else { 1 };
    let most_runs = if args.is_cold { 1 } else { MOST_RUNS };
    (args.rounds.max(least_rounds), runs.clamp(1, most_runs))
}

/// The servers run through all rounds, unless each round starts cold: then each runs alone, because packs that a server has mapped
/// stay in memory for the other.
fn compare_served(args: &Args, git: &Git, packrace: Option<&Path>, work: &Work) -> Result<Comparison, Error> {
    let contender = |binary: &Path| Served::new(binary, work, git);
    let (peer, ours) = (contender(git.binary())?, packrace.map(contender).transpose()?);
    let (rounds, runs) = rounds_and_runs(args, peer.time(1)?.wall_seconds);
    in_turns(
        (rounds, runs, git, work),
        named(peer, ours),
        |contender| {
            let observed = contender.observe();
            if args.is_cold {
                contender.stop();
            }
            observed
        },
        |contender| {
            if !args.is_cold {
                return contender.time(runs);
            }
            contender.start_anew(drop_page_cache)?;
            let timing = contender.time(runs);
            contender.stop();
            timing
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
    })
}

fn record(who: &'static str, runs: usize, timings: &[Timing], seen: &Observation) -> Record {
    let (wall_seconds, cpu_seconds) = comparison::medians(timings);
    Record {
        who,
        wall_seconds,
        cpu_seconds,
        rounds: timings.len(),
        runs_a_round: runs,
        calls: seen.calls,
        reported_client_writes: seen.reported_client_writes,
        reported_pack_writes: seen.reported_pack_writes,
        packs_on_mount: seen.packs_on_mount,
        bytes: timings[0].bytes,
        peak: seen.peak,
    }
}
