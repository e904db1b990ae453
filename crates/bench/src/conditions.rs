//! Conditions of a run: command, versions and machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use packrace_testkit::Git;
use serde_json::{Value, json};

use crate::args::{Args, Packrace};
use crate::measure::service_of;

/// The conditions of a run, for its records.
pub fn of(args: &Args, git: &Git, packrace: Option<&Path>) -> Value {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let gix = args.gix.as_deref().and_then(|gix| said(Command::new(gix).arg("--version")));
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    json!({
        "command": format!("packrace-bench {}", words.join(" ")),
        "date": said(Command::new("date").args(["-u", "+%Y-%m-%d"])),
        "history": history(args),
        "git": said(git.command(Path::new("/")).arg("version")).map(|text| text.replace("git version ", "")),
        "packrace": packrace.and_then(|packrace| version(args, packrace)),
        "answers_one_request": packrace.map(service_of).and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        "gix": gix,
        "profile": profile(args, packrace),
        "bench_profile": own_profile(),
        "rounds": args.rounds,
        "is_cold": args.is_cold,
        "is_smoke": args.smoke,
        "machine": {
            "processor": first_line("/proc/cpuinfo", "model name"),
            "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            "memory_bytes": memory_bytes(),
            "kernel": first_line("/proc/version", "Linux").split(' ').take(3).collect::<Vec<_>>().join(" "),
            "file_system": said(Command::new("stat").args(["-f", "-c", "%T"]).arg(existing(scratch))),
            "load": std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()),
        },
    })
}

/// The conditions in one line.
pub fn line(conditions: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_string();
    let machine = &conditions["machine"];
    format!(
        "{} beside git {} on {}{}; {} cores of {}, {}, {}",
        text(&conditions["packrace"]),
        text(&conditions["git"]),
        text(&conditions["history"]),
        if conditions["profile"] == "release" { "" } else { " (development build)" },
        machine["cores"],
        text(&machine["processor"]),
        text(&machine["kernel"]),
        text(&machine["file_system"]),
    )
}

/// How packrace was built: its own folder says it, if it is another.
fn profile(args: &Args, packrace: Option<&Path>) -> &'static str {
    let folder = packrace.and_then(Path::parent).and_then(Path::file_name).and_then(|name| name.to_str());
    match (&args.packrace, folder) {
        (Packrace::Build, _) => own_profile(),
        (_, Some("release")) => "release",
        (_, Some("debug")) => "development",
        _ => "unknown",
    }
}

fn own_profile() -> &'static str {
    if cfg!(debug_assertions) { "development" } else { "release" }
}

/// The name of the history.
fn history(args: &Args) -> String {
    let Some(repo) = &args.repo else { return "generated".to_string() };
    let name = repo.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".git").unwrap_or(&name).to_string()
}

/// Version, and the commit if this run has built it.
fn version(args: &Args, packrace: &Path) -> Option<String> {
    let version = said(Command::new(packrace).arg("--version"))?;
    if args.packrace != Packrace::Build {
        return Some(version);
    }
    let mut commit = Command::new("git");
    commit.current_dir(env!("CARGO_MANIFEST_DIR")).args(["describe", "--always", "--dirty", "--abbrev=10"]);
    match said(&mut commit) {
        Some(commit) => Some(format!("{version} ({commit})")),
        None => Some(version),
    }
}

fn existing(path: PathBuf) -> PathBuf {
    path.ancestors().find(|path| path.exists()).map_or_else(|| ".".into(), Path::to_path_buf)
}

fn memory_bytes() -> Option<u64> {
    let text = first_line("/proc/meminfo", "MemTotal");
    Some(text.strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

fn first_line(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_once(':').map_or(line, |(_, value)| value).trim().to_string()
}

/// The first line of a command's output.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next()?.trim().to_string()).filter(|line| !line.is_empty())
}
