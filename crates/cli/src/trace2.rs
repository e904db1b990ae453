//! `GIT_TRACE2_EVENT`: writes events of git's trace2 (api-trace2, "EVENT Format").
//!
//! All events are written in one append when the process ends: `version`, `start`, `cmd_name`, a `counter`
//! for each kind of call by the file's role, and for syncs as git counts them, then `exit` and `atexit`.
//! There are no regions and no child processes.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use packrace_object::TrailerHasher;
use packrace_os::count;

/// The version of the format.
const EVENT_VERSION: u32 = 4;

/// The target of events (api-trace2, "Trace2 Targets"); sockets are not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TraceTarget {
    StandardError,
    /// A file to append to, or a directory for files named by session.
    Path(PathBuf),
    Unknown(String),
}

/// The session id that identifies this process in traces, logs and to clients.
#[derive(Debug)]
pub struct TraceSession {
    /// The parent process's id, if there is one, and our own.
    pub id: String,
    began: Timestamp,
}

impl TraceSession {
    /// Makes the id of a new process; `parent` is the value of `GIT_TRACE2_PARENT_SID`.
    pub fn begin(parent: Option<&str>) -> Self {
        let began = Timestamp::now();
        let own = own_sid(began, &packrace_os::process::host_name(), std::process::id());
        let id = parent.map_or_else(|| own.clone(), |parent| format!("{parent}/{own}"));
        TraceSession { id, began }
    }
}

/// The trace of this process.
#[derive(Debug)]
pub struct Trace {
    target: TraceTarget,
    sid: String,
    began: (Timestamp, Instant),
    argv: Vec<OsString>,
}

impl Trace {
    /// Starts a trace if `GIT_TRACE2_EVENT` has a target.
    pub fn begin(target: Option<OsString>, session: &TraceSession, argv: &[OsString]) -> Option<Self> {
        let target = parse_target(&target?)?;
        let began = (session.began, Instant::now());
        Some(Trace { target, sid: session.id.clone(), began, argv: argv.to_vec() })
    }

    /// Writes all events. `command` is the name of the command, if it was parsed.
    pub fn end(self, command: Option<&str>, code: u8) {
        let text = self.events(command, code, self.began.1.elapsed());
        let written = match &self.target {
            TraceTarget::StandardError => io::stderr().write_all(text.as_bytes()),
            TraceTarget::Path(path) => append(path, &self.sid, &text),
            TraceTarget::Unknown(value) => {
                eprint_line!("warning: trace2: unknown value for 'GIT_TRACE2_EVENT': '{value}'");
                Ok(())
            }
        };
        if let (Err(error), TraceTarget::Path(path)) = (written, &self.target) {
            eprint_line!(
                "warning: trace2: could not open '{}' for 'GIT_TRACE2_EVENT' tracing: {error}",
                path.display()
            );
        }
    }

    fn events(&self, command: Option<&str>, code: u8, elapsed: Duration) -> String {
        let ended = self.began.0.checked_add(elapsed).unwrap_or(self.began.0);
        let seconds = format!("{:.6}", elapsed.as_secs_f64());
        let mut text = String::new();
        let mut event = |at: Timestamp, name: &str, more: &str| {
            let time = at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
            let sid = json(&self.sid);
            let _ = writeln!(
                text,
                "{{\"event\":\"{name}\",\"sid\":{sid},\"thread\":\"main\",\"time\":\"{time}\",{more}}}"
            );
        };
        let exe = concat!("packrace/", env!("CARGO_PKG_VERSION"));
        event(self.began.0, "version", &format!("\"evt\":\"{EVENT_VERSION}\",\"exe\":\"{exe}\""));
        let argv: Vec<String> = self.argv.iter().map(|arg| json(&arg.to_string_lossy())).collect();
        event(self.began.0, "start", &format!("\"t_abs\":0.000000,\"argv\":[{}]", argv.join(",")));
        if let Some(command) = command {
            let name = json(command);
            event(self.began.0, "cmd_name", &format!("\"name\":{name},\"hierarchy\":{name}"));
        }
        let mut syncs = 0;
        for (role, op, calls) in count::all_calls() {
            if op == "sync" {
                syncs += calls;
            }
            event(ended, "counter", &counter(role, op, calls));
        }
        event(ended, "counter", &counter("fsync", "hardware-flush", syncs));
        for name in ["exit", "atexit"] {
            event(ended, name, &format!("\"t_abs\":{seconds},\"code\":{code}"));
        }
        text
    }
}

fn counter(category: &str, name: &str, count: u64) -> String {
    format!("\"category\":\"{category}\",\"name\":\"{name}\",\"count\":{count}")
}

/// `None` if tracing is off.
fn parse_target(value: &OsString) -> Option<TraceTarget> {
    let path = Path::new(value);
    match value.to_str() {
        Some("" | "0" | "false") => None,
        Some("1" | "2" | "true") => Some(TraceTarget::StandardError),
        Some(descriptor) if matches!(descriptor.as_bytes(), [b'3'..=b'9']) => {
            Some(TraceTarget::Path(Path::new("/dev/fd").join(descriptor)))
        }
        _ if path.is_absolute() => Some(TraceTarget::Path(path.to_owned())),
        _ => Some(TraceTarget::Unknown(value.to_string_lossy().into_owned())),
    }
}

fn append(path: &Path, sid: &str, text: &str) -> io::Result<()> {
    let path = match path.is_dir() {
        true => path.join(sid.replace('/', "_")),
        false => path.to_owned(),
    };
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

/// `<time>-H<hash of the host name>-P<process>`, as in git.
fn own_sid(now: Timestamp, host: &str, process: u32) -> String {
    let mut hasher = TrailerHasher::new(packrace_object::HashKind::Sha1);
    hasher.update(host.as_bytes());
    let host = hasher.finish().to_hex_with_len(8).to_string();
    format!("{}-H{host}-P{process:08x}", now.strftime("%Y%m%dT%H%M%S%.6fZ"))
}

/// Quotes a JSON string.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expect: Option<TraceTarget>) {
        assert_eq!(parse_target(&value.into()), expect, "{value}");
    }

    #[test]
    fn targets() {
        check("", None);
        check("0", None);
        check("1", Some(TraceTarget::StandardError));
        check("7", Some(TraceTarget::Path("/dev/fd/7".into())));
        check("/tmp/x", Some(TraceTarget::Path("/tmp/x".into())));
        check("x", Some(TraceTarget::Unknown("x".into())));
        check("af_unix:/tmp/x", Some(TraceTarget::Unknown("af_unix:/tmp/x".into())));
    }

    #[test]
    fn strings() {
        assert_eq!(json("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
        let at = Timestamp::from_microsecond(1_554_747_370_507_018).unwrap();
        let sid = own_sid(at, "host", 0x59a8);
        assert!(sid.starts_with("20190408T181610.507018Z-H") && sid.ends_with("-P000059a8"), "{sid}");
    }
}
