//! Runs suites, prints their tables and keeps their records.

use std::path::{Path, PathBuf};
use std::process::Command;

use packrace_testkit::Git;
use serde_json::{Value, json};

use crate::args::{Args, Packrace, ReportFiles, SWARM, Suite};
use crate::prepare::Scratch;
use crate::report::{self, BenchRun};
use crate::{
    Error, LEAST_QUICK_ROUNDS, care, catalog, comparison, conditions, door, embedded, events, measure, nodes,
    refs, siege, soak, swarm,
};

/// Measures with a git and a packrace, and gives its records.
type RunSuite = fn(&Args, &Git, Option<&Path>) -> Result<Vec<Value>, Error>;

/// Suites that make everything themselves.
const OTHERS: [(Suite, &str, RunSuite); 7] = [
    (Suite::Door, "door", door::run),
    (Suite::Events, "events", events::run),
    (Suite::Embedded, "embedded", embedded::run),
    (Suite::Nodes, "nodes", nodes::run),
    (Suite::Care, "care", care::run),
    (Suite::Siege, "siege", siege::run),
    (Suite::Soak, "soak", soak::run),
];

/// The records of all runs, written whenever there are more.
struct Records<'a> {
    runs: Vec<BenchRun>,
    files: &'a ReportFiles,
    failures: Vec<String>,
}

/// Measures everything and writes a report. What fails is in the records, too, and does not stop the rest.
pub fn all(runs: &[Args], files: &ReportFiles) -> Result<(), Error> {
    let mut kept = Records { runs: Vec::new(), files, failures: Vec::new() };
    for args in runs {
        let git = Git::at(&args.git).ok_or_else(|| format!("{} is not a git", args.git.display()))?;
        let packrace = packrace_binary(&args.packrace)?;
        let conditions = conditions::of(args, &git, packrace.as_deref());
        kept.runs.push(BenchRun { conditions, records: Vec::new() });
        one(args, &git, packrace.as_deref(), &mut kept)?;
    }
    report::write(kept.runs, files)?;
    match kept.failures.is_empty() {
        true => Ok(()),
        false => Err(kept.failures.join("\n").into()),
    }
}

impl Records<'_> {
    /// Adds the records of a work, or its failure.
    fn add(&mut self, work: &str, records: Result<Vec<Value>, Error>) -> Result<(), Error> {
        let records = records.unwrap_or_else(|error| {
            self.failures.push(format!("{work}: {error}"));
            vec![json!({ "work": work, "failure": error.to_string() })]
        });
        self.runs.last_mut().ok_or("a run has begun")?.records.extend(records);
        match &self.files.json {
            Some(file) => Ok(report::write_records(&self.runs, file)?),
            None => Ok(()),
        }
    }
}

/// One run.
fn one(args: &Args, git: &Git, packrace: Option<&Path>, kept: &mut Records<'_>) -> Result<(), Error> {
    let scratch = Scratch::new(args.scratch.as_deref(), git.clone())?;
    let work = catalog::all(args, git, &scratch)?;
    print_conditions(args, git, packrace);
    if !work.is_empty() {
        println!("{}", comparison::head());
    }
    // What git sent, by work.
    let mut bytes: Vec<(&str, u64)> = Vec::new();
    for work in &work {
        let compared = crate::compare(args, git, packrace, work).map(|mut comparison| {
            let yardstick = bytes.iter().find(|(name, _)| work.bytes_of.as_deref() == Some(*name));
            if let Some((_, yardstick)) = yardstick {
                comparison.reference_bytes = *yardstick;
            }
            bytes.push((&work.name, comparison.git.bytes));
            print!("{}", comparison.rows());
            comparison.json()
        });
        kept.add(&work.name, compared)?;
    }
    if args.items.contains(&Suite::Refs) {
        kept.add("refs", refs::again(args, git, packrace, &scratch).map_err(Error::from))?;
    }
    for item in args.items.iter().copied().filter(|item| SWARM.contains(item)) {
        let history = catalog::history(args, &scratch)?;
        let alone = Args { items: vec![item], ..args.clone() };
        kept.add("swarm", swarm::run(&alone, git, packrace, &scratch, &history))?;
    }
    for (_, name, run) in OTHERS.iter().filter(|(suite, ..)| args.items.contains(suite)) {
        kept.add(name, run(args, git, packrace))?;
    }
    Ok(())
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
    println!("{}\n", conditions::line(&conditions::of(args, git, packrace)));
    println!(
        "Medians of {} rounds in turns{}{}, each on `upload-pack` (of `packrace-service`, if that is beside `packrace`) with a v2 request from a file and the answer into a 1 MiB \
         pipe, or of another command; one that rewrites its repository has a fresh copy for each run, and \
         MB out are its packs or, of refs, what keeps them. Of pushes, CPU time and calls are the server's where there is one. CPU: user and system time of the process and its children. Write calls, of all system calls: {}; in brackets packrace's own \
         count to the client. Memory: highest sum of RssAnon over the process tree, seen every 2 ms in a run of its \
         own; mapped files are only in the sum of VmRSS, in brackets.{}\n",
        args.rounds,
        if args.smoke { String::new() } else { format!(" (of quick work {LEAST_QUICK_ROUNDS} at least)") },
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
