//! Sessions of git users, run once with git alone and once with packrace in its place:
//! `conformance/README.md`.

mod comparison;
mod left;
mod masks;
mod run;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use comparison::Verdict;
use packrace_testkit::{Extent, Git, sampled};
use run::Stage;
use session::{Case, Session};

/// At most this many cases run with all other tests.
const SAMPLE: usize = 40;

/// The folder of sessions and their files.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").canonicalize().expect("it is committed")
}

/// The committed sessions, by file and in order.
fn sessions() -> Vec<Session> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder().join("sessions"))
        .expect("the folder of sessions")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    sessions_of(&files)
}

fn sessions_of(files: &[PathBuf]) -> Vec<Session> {
    let read = |file: &PathBuf| {
        let topic = file.file_stem().and_then(|stem| stem.to_str()).expect("names are UTF-8");
        let text = std::fs::read_to_string(file).expect("sessions are UTF-8");
        session::parse(topic, &text).unwrap_or_else(|problem| panic!("{}: {problem}", file.display()))
    };
    files.iter().flat_map(read).collect()
}

sampled! {
    fn sessions_go_as_with_git(extent) {
        check(extent);
    }
}

fn check(extent: Extent) {
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    let sessions = match std::env::var_os("CONFORMANCE_SESSIONS") {
        Some(file) => sessions_of(&[file.into()]),
        None => sessions(),
    };
    let cases: Vec<Case> =
        sessions.iter().flat_map(Session::cases).filter(|case| case.name().contains(&only)).collect();
    let cases: Vec<Case> = cases.iter().step_by(extent.step(cases.len(), SAMPLE)).copied().collect();
    assert!(!cases.is_empty(), "no session is called {only:?}");
    let git = Git::stock();
    let (runnable, too_new): (Vec<_>, Vec<_>) =
        cases.iter().partition(|case| case.session.needs <= git.version());
    let stage = Stage::new(&folder(), git.binary());
    let verdicts = run_all(&stage, &runnable);
    let differing = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::DiffersAsMarked)).count();
    println!("{} sessions ran, {differing} of them differ as they are marked", verdicts.len());
    println!("{} did not run: they need a newer git than {:?}", too_new.len(), git.version());
    let failed: Vec<&String> = verdicts.iter().filter_map(Verdict::problem).collect();
    let text = failed.iter().map(|problem| problem.as_str()).collect::<Vec<_>>().join("\n\n");
    assert!(failed.is_empty(), "{} of {} sessions failed:\n\n{text}\n", failed.len(), verdicts.len());
}

/// Runs a few cases more in parallel than there are processors, as some of them wait.
fn run_all(stage: &Stage, cases: &[&Case]) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 2;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [alone, ours] = stage.outcomes(case);
                    let verdict = comparison::judge(case, &alone, &ours);
                    verdicts.lock().expect("no thread panics with it").push((case.name(), verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("all threads have ended");
    verdicts.sort_by(|(one, _), (other, _)| one.cmp(other));
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

#[test]
fn every_command_has_sessions() {
    let sessions = sessions();
    let commands = std::fs::read_to_string(folder().join("git")).expect("the program that stands in for git");
    let lines = commands.lines().filter(|line| line.ends_with(") ;;") && line.contains(" | "));
    let names: Vec<&str> =
        lines.flat_map(|line| line.trim_end_matches(") ;;").split(" | ")).map(str::trim).collect();
    let ours: Vec<&&str> = names.iter().filter(|name| !name.starts_with('-')).collect();
    assert!(ours.len() > 20, "{ours:?}");
    for name in ours {
        assert!(sessions.iter().any(|session| session.uses(name)), "no session uses git {name}");
    }
}
