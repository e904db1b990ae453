//! What this process does, step by step, for a listener that traces it (`commands::trace2`). Without one, a step costs an
//! atomic load.

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::count::Role;
use crate::is_executable;

type TraceListener = Box<dyn Fn(TraceStep<'_>) + Send + Sync>;

/// Empty until [`listen`].
static LISTENER: OnceLock<TraceListener> = OnceLock::new();

/// Where programs are.
static PATH: OnceLock<OsString> = OnceLock::new();

/// Which details the listener wants to know: a bit for each.
static DETAILS: AtomicU8 = AtomicU8::new(0);

/// The category of hooks.
const HOOK: &str = "hook";

/// The number of programs that were to be started.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum TraceStep<'a> {
    /// A program is about to be started.
    ChildStart {
        /// Counts from 0.
        id: usize,
        /// Whose it is.
        class: ChildClass<'a>,
        /// Whether a shell runs it.
        uses_shell: bool,
        /// The program and its arguments; with a shell, its command.
        argv: &'a [OsString],
    },
    /// A program has ended, or was not started.
    ChildExit {
        /// As at its start.
        id: usize,
        /// The number of its process.
        pid: Option<u32>,
        /// Its exit code: 128 plus the number of a signal, or -1.
        code: i32,
        /// The time from its start until its end was noticed.
        ran: Duration,
    },
    /// A part of the work begins.
    Enter(RegionNames<'a>),
    /// The part that began last is over.
    Leave(RegionNames<'a>),
    /// Something was counted or decided.
    Data {
        /// Whether it concerns the repository.
        of_repository: bool,
        /// The part of the program.
        category: &'a str,
        /// What it is.
        key: &'a str,
        /// The value, as text.
        value: &'a str,
        /// Whether the value is JSON.
        is_json: bool,
    },
    /// A program is started: its file, if it was looked for in `PATH`, and its arguments.
    ChildFile(&'a [OsString]),
    /// The command uses this work tree.
    WorkTree(&'a Path),
    /// The variant of the command.
    Mode(&'a str),
    /// A line on standard error.
    Said(&'a str),
    /// A line of an older trace that has much of it.
    Detail(TraceDetail, &'a str),
    /// A remark that only the older trace of commands has (git(1), `GIT_TRACE`).
    Note(&'a str),
}

/// What is told only if the listener wants it, for there is much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceDetail {
    /// Accesses to packs (`GIT_TRACE_PACK_ACCESS`).
    PackAccesses,
    /// What is read and changed of refs (`GIT_TRACE_REFS`).
    Refs,
    /// What is done about shallow commits (`GIT_TRACE_SHALLOW`).
    Shallow,
}

/// The names of a part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionNames<'a> {
    /// The part of the program.
    pub category: &'a str,
    /// What is done.
    pub label: &'a str,
    /// With what.
    pub message: Option<&'a str>,
}

impl TraceDetail {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl RegionNames<'_> {
    /// Whether the part concerns the repository. As in git, hooks and refreshing an index do not.
    pub fn concern_repository(&self) -> bool {
        ![HOOK, "fsm_hook"].contains(&self.category) && (self.category, self.label) != ("index", "refresh")
    }
}

/// What a program is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildClass<'a> {
    /// A hook with this name.
    Hook(&'a str),
    /// A helper that answers questions until its input ends.
    Subprocess,
    /// Anything else.
    Other,
}

/// A program of which the listener knows.
#[derive(Debug)]
pub struct TracedChild {
    id: usize,
    started: Instant,
    /// Hooks are a part of the work.
    region: Option<TraceRegion>,
}

/// A part of the work of which the listener knows. Dropping it ends the part.
#[derive(Debug)]
pub struct TraceRegion {
    category: &'static str,
    label: String,
    message: Option<String>,
}

/// Passes all steps from now on to `listener`, from all threads. The first listener stays.
pub fn listen(listener: impl Fn(TraceStep<'_>) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// Programs are looked for in these directories (`PATH`).
pub fn look_for_programs_in(path: OsString) {
    let _ = PATH.set(path);
}

/// Whether anybody listens.
pub fn is_on() -> bool {
    LISTENER.get().is_some()
}

/// From now on, the listener wants to know such details.
pub fn want(detail: TraceDetail) {
    DETAILS.fetch_or(detail.bit(), Ordering::Relaxed);
}

/// Whether somebody wants to know them.
#[inline]
pub fn wants(detail: TraceDetail) -> bool {
    DETAILS.load(Ordering::Relaxed) & detail.bit() != 0
}

/// This step of git's was done about shallow commits.
pub fn shallow(step: &str) {
    if wants(TraceDetail::Shallow) {
        tell(TraceStep::Detail(TraceDetail::Shallow, &format!("shallow: {step}")));
    }
}

/// Reports a step.
pub fn tell(step: TraceStep<'_>) {
    if let Some(listener) = LISTENER.get() {
        listener(step);
    }
}

/// A program is about to be started.
pub fn child(argv: &[OsString], class: ChildClass<'_>, uses_shell: bool) -> Option<TracedChild> {
    let listener = LISTENER.get()?;
    let id = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let region = match class {
        ChildClass::Hook(name) => enter(HOOK, name, Some("max:1".to_owned())),
        ChildClass::Subprocess | ChildClass::Other => None,
    };
    let started = Instant::now();
    listener(TraceStep::ChildStart { id, class, uses_shell, argv });
    Some(TracedChild { id, started, region })
}

/// This program is started; where its file is, is found out if somebody listens.
pub fn child_file(argv: &[OsString]) {
    let Some((name, arguments)) = argv.split_first().filter(|_| is_on()) else { return };
    if let Some(file) = found(Path::new(name)) {
        let words = std::iter::once(file.into_os_string()).chain(arguments.iter().cloned());
        tell(TraceStep::ChildFile(&words.collect::<Vec<_>>()));
    }
}

/// The file of a program. A name with a slash is not looked for.
fn found(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(name.to_owned());
    }
    let is_program =
        |file: &PathBuf| file.is_file() && matches!(is_executable(file, Role::Config), Ok(Some(true)));
    std::env::split_paths(PATH.get()?).map(|dir| dir.join(name)).find(is_program)
}

/// Work for which git starts a program, with these arguments, begins in this process.
pub fn child_inside(argv: &[&str]) -> Option<TracedChild> {
    if !is_on() {
        return None;
    }
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    child(&argv, ChildClass::Other, false)
}

/// Does the work of such a child, and tells how it ended.
pub fn during<T, E>(child: Option<TracedChild>, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let done = work();
    child.into_iter().for_each(|child| child.ended_inside(done.is_ok()));
    done
}

/// A part of the work begins; it lasts as long as what is returned.
#[must_use]
pub fn region(category: &'static str, label: &str) -> Option<TraceRegion> {
    enter(category, label, None)
}

/// As above, and says with which file.
#[must_use]
pub fn region_with(category: &'static str, label: &str, path: &Path) -> Option<TraceRegion> {
    if is_on() { enter(category, label, Some(path.to_string_lossy().into_owned())) } else { None }
}

/// Reports a value that concerns the repository.
pub fn data(category: &str, key: &str, value: impl Display) {
    if is_on() {
        let value = &value.to_string();
        tell(TraceStep::Data { of_repository: true, category, key, value, is_json: false });
    }
}

/// Reports a value that concerns the repository, as JSON; computed only if somebody listens.
pub fn data_json(category: &str, key: &str, value: impl FnOnce() -> String) {
    if is_on() {
        tell(TraceStep::Data { of_repository: true, category, key, value: &value(), is_json: true });
    }
}

/// Reports the version of the wire protocol.
pub fn negotiated(version: u8) {
    data_apart("transfer", "negotiated-version", version);
}

/// Reports the client's name for its own session.
pub fn client_session(id: &str) {
    data_apart("transfer", "client-sid", id);
}

/// Reports a value that does not concern the repository.
pub fn data_apart(category: &str, key: &str, value: impl Display) {
    if is_on() {
        let value = &value.to_string();
        tell(TraceStep::Data { of_repository: false, category, key, value, is_json: false });
    }
}

fn enter(category: &'static str, label: &str, message: Option<String>) -> Option<TraceRegion> {
    let listener = LISTENER.get()?;
    let region = TraceRegion { category, label: label.to_owned(), message };
    listener(TraceStep::Enter(region.names()));
    Some(region)
}

impl TracedChild {
    /// It has ended.
    pub fn ended(self, pid: u32, status: ExitStatus) {
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
        self.tell(Some(pid), code);
    }

    /// The work of [`child_inside`] is over. The number of the process is this one's.
    pub fn ended_inside(self, is_well: bool) {
        self.tell(Some(std::process::id()), if is_well { 0 } else { 128 });
    }

    /// It could not be started.
    pub fn failed(self) {
        self.tell(None, -1);
    }

    fn tell(self, pid: Option<u32>, code: i32) {
        let TracedChild { id, started, region } = self;
        tell(TraceStep::ChildExit { id, pid, code, ran: started.elapsed() });
        if let Some(mut region) = region {
            // As in git, at the beginning only.
            region.message = None;
        }
    }
}

impl TraceRegion {
    fn names(&self) -> RegionNames<'_> {
        RegionNames { category: self.category, label: &self.label, message: self.message.as_deref() }
    }
}

impl Drop for TraceRegion {
    fn drop(&mut self) {
        tell(TraceStep::Leave(self.names()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn steps_reach_the_listener() {
        assert!(region("a", "b").is_none() && child(&[], ChildClass::Other, false).is_none());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = heard.clone();
        listen(move |step| {
            let text = match step {
                TraceStep::Enter(names) => format!("enter {} {:?}", names.label, names.message),
                TraceStep::Leave(names) => format!("leave {}", names.label),
                TraceStep::Data { key, value, .. } => format!("{key}={value}"),
                TraceStep::ChildExit { pid, code, .. } => format!("exit {pid:?} {code}"),
                // Programs of other tests.
                _ => return,
            };
            to.lock().unwrap().push(text);
        });
        let outer = region("a", "outer");
        let inner = region_with("a", "inner", Path::new("/x"));
        data("a", "n", 3);
        drop((inner, outer));
        if let Some(child) = child(&["/none".into()], ChildClass::Hook("update"), false) {
            child.failed();
        }
        let heard = heard.lock().unwrap().clone();
        let expect = [
            "enter outer None",
            "enter inner Some(\"/x\")",
            "n=3",
            "leave inner",
            "leave outer",
            "enter update Some(\"max:1\")",
            "exit None -1",
            "leave update",
        ];
        let ours: Vec<&str> = heard.iter().map(String::as_str).filter(|text| expect.contains(text)).collect();
        assert_eq!(ours, expect);
    }
}
