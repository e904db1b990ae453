//! The three forms of a trace (api-trace2, "NORMAL", "PERF" and "EVENT Format"). What git says of its source files is left out.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::Offset;

use super::{EventDetail, TraceEvent, TracedRun};
use crate::call::environment::quote;

/// The version of the format of events.
const EVENT_VERSION: u32 = 4;

const EXE: &str = concat!("packrace/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceFormat {
    Normal,
    Perf,
    Event,
}

impl TraceFormat {
    pub(super) const ALL: [TraceFormat; 3] = [TraceFormat::Normal, TraceFormat::Perf, TraceFormat::Event];

    pub(super) fn variable(self) -> &'static str {
        match self {
            TraceFormat::Normal => "GIT_TRACE2",
            TraceFormat::Perf => "GIT_TRACE2_PERF",
            TraceFormat::Event => "GIT_TRACE2_EVENT",
        }
    }

    /// Below `trace2.`.
    pub(super) fn setting(self) -> &'static str {
        match self {
            TraceFormat::Normal => "normaltarget",
            TraceFormat::Perf => "perftarget",
            TraceFormat::Event => "eventtarget",
        }
    }

    pub(super) fn brief_setting(self) -> &'static str {
        match self {
            TraceFormat::Normal => "normalbrief",
            TraceFormat::Perf => "perfbrief",
            TraceFormat::Event => "eventbrief",
        }
    }

    /// All events as lines.
    pub(super) fn text(self, run: &TracedRun, is_brief: bool) -> String {
        let mut text = String::new();
        for event in &run.events {
            let at = run.began.0.checked_add(event.after).unwrap_or(run.began.0);
            match self {
                TraceFormat::Normal => normal(&mut text, run, event, (!is_brief).then_some(at)),
                TraceFormat::Perf => perf(&mut text, run, event, (!is_brief).then_some(at)),
                TraceFormat::Event => json_line(&mut text, run, event, at, is_brief),
            }
        }
        text
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}

/// The local time of day.
fn clock(at: Timestamp) -> String {
    let offset = Offset::from_seconds(gix_date::Time::now_local_or_utc().offset).unwrap_or(Offset::UTC);
    offset.to_datetime(at).strftime("%H:%M:%S%.6f").to_string()
}

/// The arguments as a shell would take them, as far as they need quotes.
fn command_line(argv: &[String]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+,-./:=@_^".contains(&byte);
    let quoted = |word: &String| match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.clone(),
        false => quote(word),
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ").replace('\n', " ")
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// `<time> <position in the source> <event> <message>`.
fn normal(out: &mut String, run: &TracedRun, event: &TraceEvent, at: Option<Timestamp>) {
    if let Some(at) = at {
        let _ = write!(out, "{:<50}", clock(at));
    }
    let elapsed = seconds(event.after);
    let _ = match &event.detail {
        EventDetail::Version => writeln!(out, "version {EXE}"),
        EventDetail::Start => writeln!(out, "start {}", command_line(&run.argv)),
        EventDetail::CommandName(name) => writeln!(out, "cmd_name {name} ({name})"),
        EventDetail::Error(message) => writeln!(out, "error {}", one_line(message)),
        EventDetail::Counter { category, name, count } => {
            writeln!(out, "counter {category}/{name} value:{count}")
        }
        EventDetail::ChildStart { id, argv, .. } => writeln!(out, "child_start[{id}] {}", command_line(argv)),
        EventDetail::ChildExit { id, pid, code, ran } => {
            writeln!(out, "child_exit[{id}] pid:{pid} code:{code} elapsed:{}", seconds(*ran))
        }
        EventDetail::Exit(code) => writeln!(out, "exit elapsed:{elapsed} code:{code}"),
        EventDetail::AtExit(code) => writeln!(out, "atexit elapsed:{elapsed} code:{code}"),
    };
}

/// Columns: time and position, depth of the process, thread, event, repository, time since the start, duration, category, message.
fn perf(out: &mut String, run: &TracedRun, event: &TraceEvent, at: Option<Timestamp>) {
    if let Some(at) = at {
        let _ = write!(out, "{:<44} | ", clock(at));
    }
    let elapsed = format!("{:>9}", seconds(event.after));
    let nothing = String::new();
    let mut duration = String::new();
    let (name, elapsed, category, message) = match &event.detail {
        EventDetail::Version => ("version", nothing, "", EXE.to_owned()),
        EventDetail::Start => ("start", elapsed, "", command_line(&run.argv)),
        EventDetail::CommandName(name) => ("cmd_name", nothing, "", format!("{name} ({name})")),
        EventDetail::Error(message) => ("error", nothing, "", one_line(message)),
        EventDetail::Counter { category, name, count } => {
            ("counter", nothing, *category, format!("name:{name} value:{count}"))
        }
        EventDetail::ChildStart { id, hook, argv } => {
            let class = hook.as_ref().map_or_else(|| "?".to_owned(), |hook| format!("hook hook:{hook}"));
            ("child_start", elapsed, "", format!("[ch{id}] class:{class} argv:[{}]", command_line(argv)))
        }
        EventDetail::ChildExit { id, pid, code, ran } => {
            duration = format!("{:>9}", seconds(*ran));
            ("child_exit", elapsed, "", format!("[ch{id}] pid:{pid} code:{code}"))
        }
        EventDetail::Exit(code) => ("exit", elapsed, "", format!("code:{code}")),
        EventDetail::AtExit(code) => ("atexit", elapsed, "", format!("code:{code}")),
    };
    let depth = run.sid.matches('/').count();
    let _ = writeln!(
        out,
        "d{depth} | {:<24} | {name:<12} | {:<3} | {elapsed:<9} | {duration:<9} | {category:<12.12} | {message}",
        "main", ""
    );
}

/// An object of JSON.
fn json_line(out: &mut String, run: &TracedRun, event: &TraceEvent, at: Timestamp, is_brief: bool) {
    let elapsed = seconds(event.after);
    let (name, more) = match &event.detail {
        EventDetail::Version => ("version", format!("\"evt\":\"{EVENT_VERSION}\",\"exe\":{}", json(EXE))),
        EventDetail::Start => ("start", format!("\"t_abs\":{elapsed},\"argv\":{}", json_list(&run.argv))),
        EventDetail::CommandName(name) => ("cmd_name", format!("\"name\":{0},\"hierarchy\":{0}", json(name))),
        EventDetail::Error(message) => ("error", format!("\"msg\":{0},\"fmt\":{0}", json(message))),
        EventDetail::Counter { category, name, count } => {
            ("counter", format!("\"category\":{},\"name\":{},\"count\":{count}", json(category), json(name)))
        }
        EventDetail::ChildStart { id, hook, argv } => {
            let class = hook
                .as_ref()
                .map_or_else(|| "\"?\"".to_owned(), |hook| format!("\"hook\",\"hook_name\":{}", json(hook)));
            let argv = json_list(argv);
            let more =
                format!("\"child_id\":{id},\"child_class\":{class},\"use_shell\":false,\"argv\":{argv}");
            ("child_start", more)
        }
        EventDetail::ChildExit { id, pid, code, ran } => {
            let ran = seconds(*ran);
            ("child_exit", format!("\"child_id\":{id},\"pid\":{pid},\"code\":{code},\"t_rel\":{ran}"))
        }
        EventDetail::Exit(code) => ("exit", format!("\"t_abs\":{elapsed},\"code\":{code}")),
        EventDetail::AtExit(code) => ("atexit", format!("\"t_abs\":{elapsed},\"code\":{code}")),
    };
    let has_time = !is_brief || matches!(event.detail, EventDetail::Version | EventDetail::AtExit(_));
    let time = match has_time {
        true => format!("\"time\":\"{}\",", at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")),
        false => String::new(),
    };
    let sid = json(&run.sid);
    let _ = writeln!(out, "{{\"event\":\"{name}\",\"sid\":{sid},\"thread\":\"main\",{time}{more}}}");
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

fn json_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| json(word)).collect();
    format!("[{}]", words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        assert_eq!(json("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
        let argv = ["git", "add", "a b", "it's", "", "x\ny"].map(str::to_owned);
        assert_eq!(command_line(&argv), r"git add 'a b' 'it'\''s' '' 'x y'");
    }
}
