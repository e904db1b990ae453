//! Changes very many refs at once with `update-ref --stdin`, each run in a fresh copy of a repository; and
//! creates, deletes and recreates growing numbers of refs.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use packrace_testkit::{Git, RefFormat};
use serde_json::{Value, json};

use crate::PACKRACE;
use crate::args::Args;
use crate::goals::verdicts;
use crate::on_copy::OnCopy;
use crate::prepare::Scratch;
use crate::work::{Check, How, Work};

/// Refs per transaction.
const MANY: usize = 50_000;

/// The same for smoke runs.
const A_FEW: usize = 2_000;

/// Maximum number of refs that git deletes and recreates: before 2.52 its time grew quadratically.
const MOST_AGAIN_FOR_GIT: usize = 8_000;

/// Many creates in one transaction.
pub fn creating(git: &Git, scratch: &Scratch, is_smoke: bool) -> io::Result<Vec<Work>> {
    let count = if is_smoke { A_FEW } else { MANY };
    let work = |name: &str, format, logs| -> io::Result<Work> {
        let (repo, target) = scratch.for_refs(format, logs)?;
        let request = commands("create", count, &target).into_bytes();
        Ok(update_ref(format!("{name} {count} creates"), repo, request))
    };
    let mut all = vec![work("P6f files,", RefFormat::Files, None)?];
    if git.has_reftable() {
        all.push(work("P6 reftable,", RefFormat::Reftable, None)?);
        all.push(work("P6 reftable, reflogs,", RefFormat::Reftable, Some("always"))?);
    }
    Ok(all)
}

/// Prints the times to create refs, to delete them and to recreate them, in a reftable repository.
pub fn again(args: &Args, git: &Git, packrace: Option<&Path>, scratch: &Scratch) -> io::Result<Vec<Value>> {
    if !git.has_reftable() {
        return Ok(Vec::new());
    }
    let (repo, target) = scratch.for_refs(RefFormat::Reftable, None)?;
    println!(
        "\n| P7 create, delete, create again | git ms | packrace ms | µs a ref | goals |\n|---|---:|---:|---:|---|"
    );
    let mut records: Vec<Value> = Vec::new();
    let counts = [1_000, 8_000, 10_000, 100_000, 1_000_000];
    for count in counts.into_iter().filter(|count| *count <= args.refs) {
        let (create, delete) = (commands("create", count, &target), commands("delete", count, &target));
        let request = tempfile::NamedTempFile::new()?;
        let round = |text: &str| format!("start\n{text}commit\n");
        std::fs::write(request.path(), [round(&create), round(&delete), round(&create)].concat())?;
        let best = |binary: Option<&Path>, rounds: usize| -> io::Result<Option<f64>> {
            let Some(binary) = binary else { return Ok(None) };
            let words = ["update-ref", "--stdin"].map(str::to_string);
            let contender = OnCopy::new(binary, &repo, &words, git, Check::SameRefs)?;
            let times = (0..rounds).map(|_| Ok(contender.time(request.path())?.wall_seconds));
            let best = times.collect::<io::Result<Vec<f64>>>()?.into_iter().fold(f64::INFINITY, f64::min);
            // Other refs, and reflogs, follow.
            match contender.state()?.starts_with(created(count, &target).as_bytes()) {
                true => Ok(Some(best)),
                false => {
                    Err(io::Error::other(format!("P7 of {count}: the refs are not those that were created")))
                }
            }
        };
        // One run of git takes long enough.
        let peer = best(Some(git.binary()).filter(|_| count <= MOST_AGAIN_FOR_GIT), 1)?;
        let ours = best(packrace, args.rounds)?;
        let record = |who: &str, seconds: f64| {
            // The time for a tenth of the refs.
            let tenth = records.iter().find(|other| other["who"] == who && other["refs"] == count / 10);
            json!({
                "work": format!("P7 create, delete, create {count} refs"), "who": who, "refs": count, "wall_seconds": seconds,
                "microseconds_each": seconds * 1e6 / count as f64,
                "growth": tenth.and_then(|tenth| tenth["wall_seconds"].as_f64()).map(|tenth| seconds / tenth),
            })
        };
        let new = [peer.map(|seconds| record("git", seconds)), ours.map(|seconds| record(PACKRACE, seconds))];
        let figure = |seconds: Option<f64>| seconds.map_or("–".into(), |it| format!("{:.0}", it * 1e3));
        let each = ours.map_or("–".to_string(), |seconds| format!("{:.2}", seconds * 1e6 / count as f64));
        let goals = new[1].as_ref().map(|record| verdicts(record, &[])).unwrap_or_default();
        println!("| {count} | {} | {} | {each} | {goals} |", figure(peer), figure(ours));
        records.extend(new.into_iter().flatten());
    }
    Ok(records)
}

fn update_ref(name: String, repo: PathBuf, request: Vec<u8>) -> Work {
    let args = ["update-ref", "--stdin"].map(str::to_string).to_vec();
    Work {
        name,
        how: How::Command { args, is_on_copy: true },
        repo,
        request,
        check: Check::SameRefs,
        bytes_of: None,
    }
}

/// One line per tag, by name.
fn commands(verb: &str, count: usize, target: &str) -> String {
    lines(count, |number| format!("{verb} refs/tags/many/{number:07} {target}\n"))
}

/// The start of the state after the refs were created.
fn created(count: usize, target: &str) -> String {
    lines(count, |number| format!("refs/tags/many/{number:07} {target}  \n"))
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}", line(number));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_copy::LOGS_READ;

    #[test]
    fn git_makes_what_is_asked_for() {
        let git = Git::stock();
        let scratch = Scratch::new(None, git.clone()).unwrap();
        for work in creating(git, &scratch, true).unwrap() {
            let contender = OnCopy::new(
                git.binary(),
                &work.repo,
                &["update-ref", "--stdin"].map(str::to_string),
                git,
                work.check.clone(),
            )
            .unwrap();
            let request = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(request.path(), &work.request).unwrap();
            contender.time(request.path()).unwrap();
            let state = String::from_utf8(contender.state().unwrap()).unwrap();
            let target = git.run(&work.repo, &["rev-parse", "HEAD"]);
            assert!(state.starts_with(&created(A_FEW, target.trim())), "{}", work.name);
            let many = state.lines().filter(|line| line.starts_with("refs/tags/many/"));
            let (logs, rest): (Vec<&str>, Vec<&str>) = many.partition(|line| !line.contains(' '));
            let lines = rest.iter().filter(|line| line.contains("@{")).count();
            let has_logs = work.name.contains("reflogs");
            assert_eq!(logs.len(), if has_logs { A_FEW } else { 0 }, "{}", work.name);
            assert_eq!(lines > LOGS_READ / 2, has_logs, "{lines} lines in {}", work.name);
        }
    }
}
