//! Changes very many refs at once with `update-ref --stdin`, each run in a fresh copy of a repository; and
//! creates, deletes and recreates growing numbers of refs.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use packrace_testkit::{Git, RefFormat};

use crate::args::Args;
use crate::on_copy::OnCopy;
use crate::prepare::Scratch;
use crate::work::{Check, Goal, How, Work};

/// Refs per transaction.
const MANY: usize = 50_000;

/// The same for smoke runs.
const A_FEW: usize = 2_000;

/// Maximum number of refs that git deletes and recreates: before 2.52 its time grew quadratically.
const MOST_AGAIN_FOR_GIT: usize = 8_000;

/// Maximum growth of time for ten times as much work that still counts as linear.
const LINEAR: f64 = 20.0;

/// Many creates in one transaction.
pub fn creating(scratch: &Scratch, is_smoke: bool) -> io::Result<Vec<Work>> {
    let count = if is_smoke { A_FEW } else { MANY };
    let work = |name: &str, format, logs, goals| -> io::Result<Work> {
        let (repo, target) = scratch.for_refs(format, logs)?;
        let request = commands("create", count, &target).into_bytes();
        Ok(update_ref(format!("{name} {count} creates"), repo, request, goals))
    };
    let always = Some("always");
    Ok(vec![
        work("P6 reftable,", RefFormat::Reftable, None, vec![Goal::WallRatio(0.2), Goal::Calls(200)])?,
        work(
            "P6 reftable, reflogs,",
            RefFormat::Reftable,
            always,
            vec![Goal::WallRatio(0.3), Goal::Calls(200)],
        )?,
        work("P6f files,", RefFormat::Files, None, vec![Goal::WallRatio(0.05)])?,
    ])
}

/// Prints the times to create refs, to delete them and to recreate them, in a reftable repository.
pub fn print_again(args: &Args, git: &Git, packrace: Option<&Path>, scratch: &Scratch) -> io::Result<()> {
    let (repo, target) = scratch.for_refs(RefFormat::Reftable, None)?;
    println!(
        "\n| P7 create, delete, create again | git ms | packrace ms | µs a ref | goal |\n|---|---:|---:|---:|---|"
    );
    let mut before: Option<f64> = None;
    let counts = [1_000, 8_000, 10_000, 100_000, 1_000_000];
    for count in counts.into_iter().filter(|count| *count <= args.refs) {
        let (create, delete) = (commands("create", count, &target), commands("delete", count, &target));
        let request = tempfile::NamedTempFile::new()?;
        let round = |text: &str| format!("start\n{text}commit\n");
        std::fs::write(request.path(), [round(&create), round(&delete), round(&create)].concat())?;
        let time = |binary: Option<&Path>| -> io::Result<Option<(f64, Vec<u8>)>> {
            let Some(binary) = binary else { return Ok(None) };
            let words = ["update-ref", "--stdin"].map(str::to_string);
            let contender = OnCopy::new(binary, &repo, &words, git, Check::SameRefs)?;
            let mut best = f64::INFINITY;
            // One run of git takes long enough.
            let rounds = if binary == git.binary() { 1 } else { args.rounds };
            for _ in 0..rounds {
                best = best.min(contender.time(request.path())?.wall_seconds);
            }
            Ok(Some((best, contender.state()?)))
        };
        let peer = time(Some(git.binary()).filter(|_| count <= MOST_AGAIN_FOR_GIT))?;
        let ours = time(packrace)?;
        let expect = created(count, &target);
        for (_, state) in peer.iter().chain(&ours) {
            // Other refs, and reflogs, follow.
            if !state.starts_with(expect.as_bytes()) {
                return Err(io::Error::other(format!(
                    "P7 of {count}: the refs are not those that were created"
                )));
            }
        }
        let figure = |timed: &Option<(f64, Vec<u8>)>| {
            timed.as_ref().map_or("–".to_string(), |(seconds, _)| format!("{:.0}", seconds * 1e3))
        };
        let seconds = ours.as_ref().map(|(seconds, _)| *seconds);
        let goal = match (before, seconds) {
            (Some(before), Some(now)) if count % 10_000 == 0 => {
                if now <= before * LINEAR {
                    "linear ✓"
                } else {
                    "**linear ✗**"
                }
            }
            _ => "",
        };
        let each =
            seconds.map_or("–".to_string(), |seconds| format!("{:.2}", seconds * 1e6 / count as f64));
        println!("| {count} | {} | {} | {each} | {goal} |", figure(&peer), figure(&ours));
        if count != MOST_AGAIN_FOR_GIT {
            before = seconds;
        }
    }
    Ok(())
}

fn update_ref(name: String, repo: PathBuf, request: Vec<u8>, goals: Vec<Goal>) -> Work {
    let args = ["update-ref", "--stdin"].map(str::to_string).to_vec();
    Work {
        name,
        how: How::Command { args, is_on_copy: true },
        repo,
        request,
        check: Check::SameRefs,
        goals,
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
        for work in creating(&scratch, true).unwrap() {
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
