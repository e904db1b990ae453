//! Git's trace2 (api-trace2): `GIT_TRACE2`, `GIT_TRACE2_PERF` and `GIT_TRACE2_EVENT`, and the settings `trace2.*`.
//!
//! All events are written in one append per target when the process ends: `version`, `start`, `cmd_name`, `error`, a
//! `counter` for each kind of call by the file's role, and for syncs as git counts them, `child_start` and `child_exit`,
//! then `exit` and `atexit`. There are no regions.

mod formats;
mod target;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use packrace_object::TrailerHasher;
use packrace_os::{child_log, count};
use packrace_store::{Config, ConfigSources};

use formats::TraceFormat;
use target::TraceTarget;

/// The session id of the parent, and of this process for its children.
const PARENT_SID: &str = "GIT_TRACE2_PARENT_SID";

/// The variables of the environment that say what is traced.
#[derive(Debug, Clone, Default)]
pub struct TraceVariables {
    /// Name and value of each that is set and begins with `GIT_TRACE2`.
    pub variables: Vec<(String, OsString)>,
}

impl TraceVariables {
    /// Where traces may be written, if a variable says so.
    pub fn paths(&self) -> Vec<std::path::PathBuf> {
        TraceFormat::ALL.into_iter().filter_map(|format| self.get(format.variable())?.path()).collect()
    }

    fn value(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().find(|(named, _)| named == name).map(|(_, value)| value)
    }

    fn get(&self, name: &str) -> Option<TraceTarget> {
        TraceTarget::parse(self.value(name)?)
    }

    fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| is_true(value.as_encoded_bytes()))
    }
}

fn is_true(text: &[u8]) -> bool {
    packrace_store::parse_boolean(text) == Some(true)
}

/// The session id that identifies this process in traces, logs and to clients.
#[derive(Debug)]
pub struct TraceSession {
    /// The parent process's id, if there is one, and our own.
    pub id: String,
    began: Timestamp,
}

impl TraceSession {
    /// Makes the id of a new process.
    pub fn begin(variables: &TraceVariables) -> Self {
        let began = Timestamp::now();
        let own = own_sid(began, &packrace_os::process::host_name(), std::process::id());
        let parent = variables.value(PARENT_SID).map(|parent| parent.to_string_lossy());
        let id = parent.map_or_else(|| own.clone(), |parent| format!("{parent}/{own}"));
        TraceSession { id, began }
    }
}

/// The trace of this process.
#[derive(Debug)]
pub struct Trace {
    outputs: Vec<TraceOutput>,
    /// Whether failures to write are reported (`GIT_TRACE2_DST_DEBUG`, `trace2.destinationDebug`).
    reports_failures: bool,
    run: TracedRun,
}

/// One form of the trace, and where it goes.
#[derive(Debug)]
struct TraceOutput {
    format: TraceFormat,
    target: TraceTarget,
    is_brief: bool,
}

/// What is known of a process at its end.
#[derive(Debug)]
struct TracedRun {
    sid: String,
    began: (Timestamp, Instant),
    argv: Vec<String>,
    events: Vec<TraceEvent>,
}

/// An event, and when it happened after the start.
#[derive(Debug)]
struct TraceEvent {
    after: Duration,
    detail: EventDetail,
}

#[derive(Debug)]
enum EventDetail {
    Version,
    Start,
    CommandName(String),
    Error(String),
    Counter { category: &'static str, name: &'static str, count: u64 },
    ChildStart { id: usize, hook: Option<String>, argv: Vec<String> },
    ChildExit { id: usize, pid: u32, code: i32, ran: Duration },
    Exit(u8),
    AtExit(u8),
}

impl Trace {
    /// Starts a trace if a variable, or a setting of the system or the user, names a target.
    pub fn begin(
        variables: &TraceVariables,
        settings: Option<&ConfigSources>,
        session: &TraceSession,
        argv: &[OsString],
    ) -> Option<Self> {
        let settings = settings.and_then(read_settings);
        let setting = |name: &str| settings.as_ref()?.string(&format!("trace2.{name}"));
        let is_set = |name: &str| setting(name).is_some_and(|value| is_true(&value));
        let outputs: Vec<TraceOutput> = TraceFormat::ALL
            .into_iter()
            .filter_map(|format| {
                let target = match variables.value(format.variable()) {
                    Some(value) => TraceTarget::parse(value),
                    None => TraceTarget::parse(
                        &String::from_utf8_lossy(&setting(format.setting())?).into_owned().into(),
                    ),
                }?;
                let brief = format!("{}_BRIEF", format.variable());
                let is_brief = variables.is_on(&brief) || is_set(format.brief_setting());
                Some(TraceOutput { format, target, is_brief })
            })
            .collect();
        if outputs.is_empty() {
            return None;
        }
        packrace_os::process::set_variable_for_children(PARENT_SID, &session.id);
        child_log::begin();
        let run = TracedRun {
            sid: session.id.clone(),
            began: (session.began, Instant::now()),
            argv: words(argv),
            events: Vec::new(),
        };
        let reports_failures = variables.is_on("GIT_TRACE2_DST_DEBUG") || is_set("destinationdebug");
        let mut trace = Trace { outputs, reports_failures, run };
        trace.add(EventDetail::Version);
        trace.add(EventDetail::Start);
        Some(trace)
    }

    fn add(&mut self, detail: EventDetail) {
        self.run.events.push(TraceEvent { after: self.run.began.1.elapsed(), detail });
    }

    /// Adds the programs that this process has started, at their times.
    fn add_children(&mut self) {
        let start = self.run.began.1;
        for (id, child) in child_log::all().into_iter().enumerate() {
            let after = child.started.saturating_duration_since(start);
            let detail = EventDetail::ChildStart { id, hook: child.hook, argv: words(&child.argv) };
            self.run.events.push(TraceEvent { after, detail });
            if let Some((ended, code)) = child.ended {
                let (after, ran) =
                    (ended.saturating_duration_since(start), ended.saturating_duration_since(child.started));
                let detail = EventDetail::ChildExit { id, pid: child.pid, code, ran };
                self.run.events.push(TraceEvent { after, detail });
            }
        }
        self.run.events.sort_by_key(|event| event.after);
    }

    /// The command was parsed.
    pub fn command(&mut self, name: &str) {
        self.add(EventDetail::CommandName(name.to_owned()));
    }

    /// An error was printed.
    pub fn error(&mut self, message: &str) {
        self.add(EventDetail::Error(message.to_owned()));
    }

    /// Writes all events. `to_stderr` gets the text for standard error, and warnings where git has them.
    pub fn end(mut self, code: u8, to_stderr: &mut dyn FnMut(&str)) {
        self.add_children();
        self.add(EventDetail::Exit(code));
        let mut syncs = 0;
        for (category, name, count) in count::all_calls() {
            syncs += if name == "sync" { count } else { 0 };
            self.add(EventDetail::Counter { category, name, count });
        }
        self.add(EventDetail::Counter { category: "fsync", name: "hardware-flush", count: syncs });
        self.add(EventDetail::AtExit(code));
        for TraceOutput { format, target, is_brief } in &self.outputs {
            let text = format.text(&self.run, *is_brief);
            let variable = format.variable();
            let (path, written) = match target {
                TraceTarget::StandardError => {
                    to_stderr(&text);
                    continue;
                }
                TraceTarget::Unknown(value) => {
                    to_stderr(&format!("warning: trace2: unknown value for '{variable}': '{value}'\n"));
                    continue;
                }
                TraceTarget::Path(path) => (path, target::append(path, &self.run.sid, &text)),
                TraceTarget::Socket(kind, path) => (path, target::send(*kind, path, &text)),
            };
            if let Err(error) = written
                && self.reports_failures
            {
                let path = path.display();
                to_stderr(&format!(
                    "warning: trace2: could not open '{path}' for '{variable}' tracing: {error}\n"
                ));
            }
        }
    }
}

fn words(argv: &[OsString]) -> Vec<String> {
    argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The settings of the system and the user, if they may say something of trace2: most processes are not traced, and need
/// not parse them.
fn read_settings(sources: &ConfigSources) -> Option<Config> {
    let says_something = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default().to_ascii_lowercase();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        has(b"trace2") || has(b"include")
    };
    if !sources.system.iter().chain(&sources.global).any(says_something) {
        return None;
    }
    // The command line does not count, as in git.
    let sources = ConfigSources { overrides: Vec::new(), last: None, ..sources.clone() };
    Config::outside(&sources).ok()
}

/// `<time>-H<hash of the host name>-P<process>`, as in git.
fn own_sid(now: Timestamp, host: &str, process: u32) -> String {
    let mut hasher = TrailerHasher::new(packrace_object::HashKind::Sha1);
    hasher.update(host.as_bytes());
    let host = hasher.finish().to_hex_with_len(8).to_string();
    format!("{}-H{host}-P{process:08x}", now.strftime("%Y%m%dT%H%M%S%.6fZ"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids() {
        let at = Timestamp::from_microsecond(1_554_747_370_507_018).unwrap();
        let sid = own_sid(at, "host", 0x59a8);
        assert!(sid.starts_with("20190408T181610.507018Z-H") && sid.ends_with("-P000059a8"), "{sid}");
    }

    #[test]
    fn truth() {
        for (text, expect) in
            [("1", true), ("true", true), ("YES", true), ("0", false), ("", false), ("no", false)]
        {
            assert_eq!(is_true(text.as_bytes()), expect, "{text}");
        }
    }
}
