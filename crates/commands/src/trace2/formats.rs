//! What the three forms of a trace have in common (api-trace2, "Trace2 Target Formats"). What git says of its source files is
//! left out.

use std::time::Duration;

use jiff::Timestamp;
use packrace_os::trace::{RegionNames, TraceDetail};
use packrace_store::shell_word;

pub(super) const EXE: &str = concat!("packrace/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TraceFormat {
    #[default]
    Normal,
    Perf,
    Event,
    /// The older trace of commands: of this process, and of those that it starts.
    Commands,
    /// The older trace of the repository that was found.
    Setup,
    /// The older trace of times.
    Performance,
    /// The older trace of accesses to packs.
    PackAccess,
    /// The older trace of refs.
    Refs,
    /// The older trace of shallow commits.
    Shallow,
}

/// An event, and when it happened.
#[derive(Debug)]
pub(super) struct TraceEvent<'a> {
    pub(super) sid: &'a str,
    pub(super) at: Timestamp,
    /// The time since the start.
    pub(super) after: Duration,
    /// The time since the innermost region, or else the process, began.
    pub(super) inside: Duration,
    /// The number of regions around it.
    pub(super) depth: usize,
    /// The number of the repository, if it concerns one; 0 if that has no work tree.
    pub(super) repository: Option<usize>,
    pub(super) detail: EventDetail<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum EventDetail<'a> {
    Version,
    TooManyFiles,
    Start(&'a [String]),
    Ancestry(&'a [String]),
    Repository(&'a str),
    CommandName { name: &'a str, hierarchy: &'a str, argv: &'a [String] },
    Mode(&'a str),
    Param { scope: &'a str, name: &'a str, value: Option<&'a str> },
    Error(&'a str),
    Counter { category: &'a str, name: &'a str, count: u64 },
    ChildStart { id: usize, class: &'a str, hook: Option<&'a str>, uses_shell: bool, argv: &'a [String] },
    ChildExit { id: usize, pid: i64, code: i32, ran: Duration },
    Exec { program: &'a str, argv: &'a [String] },
    ExecResult { code: i32, reason: &'a str },
    RegionEnter(RegionNames<'a>),
    RegionLeave(RegionNames<'a>),
    Data { of_repository: bool, category: &'a str, key: &'a str, value: &'a str, is_json: bool },
    Exit(u8),
    AtExit(u8),
}

impl EventDetail<'_> {
    pub(super) fn concerns_repository(&self) -> bool {
        match self {
            EventDetail::Repository(_) => true,
            EventDetail::RegionEnter(names) | EventDetail::RegionLeave(names) => names.concern_repository(),
            EventDetail::Data { of_repository, .. } => *of_repository,
            _ => false,
        }
    }
}

impl TraceFormat {
    pub(super) const ALL: [TraceFormat; 9] = [
        TraceFormat::Normal,
        TraceFormat::Perf,
        TraceFormat::Event,
        TraceFormat::Commands,
        TraceFormat::Setup,
        TraceFormat::Performance,
        TraceFormat::PackAccess,
        TraceFormat::Refs,
        TraceFormat::Shallow,
    ];

    /// What it has that is told on request only.
    pub(super) fn detail(self) -> Option<TraceDetail> {
        match self {
            TraceFormat::PackAccess => Some(TraceDetail::PackAccesses),
            TraceFormat::Refs => Some(TraceDetail::Refs),
            TraceFormat::Shallow => Some(TraceDetail::Shallow),
            _ => None,
        }
    }

    /// Whether it is older than trace2, and has its targets, its time and its words.
    pub(super) fn is_classic(self) -> bool {
        !matches!(self, TraceFormat::Normal | TraceFormat::Perf | TraceFormat::Event)
    }

    pub(super) fn variable(self) -> &'static str {
        match self {
            TraceFormat::Normal => "GIT_TRACE2",
            TraceFormat::Perf => "GIT_TRACE2_PERF",
            TraceFormat::Event => "GIT_TRACE2_EVENT",
            TraceFormat::Commands => "GIT_TRACE",
            TraceFormat::Setup => "GIT_TRACE_SETUP",
            TraceFormat::Performance => "GIT_TRACE_PERFORMANCE",
            TraceFormat::PackAccess => "GIT_TRACE_PACK_ACCESS",
            TraceFormat::Refs => "GIT_TRACE_REFS",
            TraceFormat::Shallow => "GIT_TRACE_SHALLOW",
        }
    }

    pub(super) fn brief_variable(self) -> &'static str {
        match self {
            TraceFormat::Normal => "GIT_TRACE2_BRIEF",
            TraceFormat::Perf => "GIT_TRACE2_PERF_BRIEF",
            TraceFormat::Event => "GIT_TRACE2_EVENT_BRIEF",
            _ => "GIT_TRACE_BARE",
        }
    }

    /// Below `trace2.`, if there is one.
    pub(super) fn setting(self) -> Option<&'static str> {
        match self {
            TraceFormat::Normal => Some("normaltarget"),
            TraceFormat::Perf => Some("perftarget"),
            TraceFormat::Event => Some("eventtarget"),
            _ => None,
        }
    }

    /// Below `trace2.`, if there is one.
    pub(super) fn brief_setting(self) -> Option<&'static str> {
        match self {
            TraceFormat::Normal => Some("normalbrief"),
            TraceFormat::Perf => Some("perfbrief"),
            TraceFormat::Event => Some("eventbrief"),
            _ => None,
        }
    }
}

/// A line of the older trace (git(1), `GIT_TRACE`).
pub(super) fn commands_line(event: &TraceEvent<'_>, is_brief: bool) -> Option<String> {
    let text = match event.detail {
        EventDetail::CommandName { argv, .. } => format!("built-in: git {}", command_line(argv)),
        EventDetail::ChildStart { argv, .. } => format!("run_command: {}", command_line(argv)),
        EventDetail::Exec { argv, .. } => format!("exec: {}", command_line(argv)),
        _ => return None,
    };
    Some(classic_line(event.at, is_brief, &format!("trace: {text}")))
}

/// A line of the older kinds of trace (git(1), `GIT_TRACE_BARE`).
pub(super) fn classic_line(at: Timestamp, is_brief: bool, text: &str) -> String {
    let time = if is_brief { String::new() } else { format!("{:<40}", clock(at)) };
    format!("{time}{text}\n")
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}

/// The local time of day.
pub(super) fn clock(at: Timestamp) -> String {
    let offset = gix_date::Time::now_local_or_utc().offset;
    let offset = jiff::tz::Offset::from_seconds(offset).unwrap_or(jiff::tz::Offset::UTC);
    offset.to_datetime(at).strftime("%H:%M:%S%.6f").to_string()
}

/// The arguments as a shell would take them, as far as they need quotes.
pub(super) fn command_line(argv: &[String]) -> String {
    one_line(&argv.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "))
}

pub(super) fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let argv = ["git", "add", "a b", "it's", "", "x\ny"].map(str::to_owned);
        assert_eq!(command_line(&argv), r"git add 'a b' 'it'\''s' '' 'x y'");
    }
}
