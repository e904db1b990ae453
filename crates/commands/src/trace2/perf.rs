//! Columns for comparing times (api-trace2, "PERF Format").

use std::time::Duration;

use packrace_os::trace::RegionNames;

use super::formats::{EXE, EventDetail, TraceEvent, clock, command_line, one_line, seconds};

/// The columns of an event that are its own.
struct PerfColumns<'a> {
    name: &'a str,
    has_time: bool,
    duration: Option<Duration>,
    category: String,
    message: String,
}

/// Columns: time and position, depth of the process, thread, event, repository, time since the start, duration, category,
/// message.
pub(super) fn line(event: &TraceEvent<'_>, is_brief: bool) -> Option<String> {
    let PerfColumns { name, has_time, duration, category, message } = columns(event)?;
    let time = |time: Duration| format!("{:>9}", seconds(time));
    let elapsed = if has_time { time(event.after) } else { String::new() };
    let duration = duration.map(time).unwrap_or_default();
    let repository = event.repository.map(|number| format!("r{number}")).unwrap_or_default();
    let front = if is_brief { String::new() } else { format!("{:<44} | ", clock(event.at)) };
    let depth = event.sid.matches('/').count();
    let dots = "..".repeat(event.depth);
    Some(format!(
        "{front}d{depth} | {:<24} | {name:<12} | {repository:<3} | {elapsed:<9} | {duration:<9} | \
         {category:<12.12} | {dots}{message}\n",
        "main"
    ))
}

fn columns<'a>(event: &TraceEvent<'a>) -> Option<PerfColumns<'a>> {
    let plain = |name: &'a str, message: String| PerfColumns {
        name,
        has_time: false,
        duration: None,
        category: String::new(),
        message,
    };
    let timed = |name: &'a str, message: String| PerfColumns { has_time: true, ..plain(name, message) };
    Some(match event.detail {
        EventDetail::TooManyFiles => return None,
        EventDetail::Version => plain("version", EXE.to_owned()),
        EventDetail::Start(argv) => timed("start", command_line(argv)),
        EventDetail::Ancestry(names) => plain("cmd_ancestry", format!("ancestry:[{}]", command_line(names))),
        EventDetail::Repository(path) => {
            plain("def_repo", format!("worktree:{}", command_line(&[path.to_owned()])))
        }
        EventDetail::CommandName { name, hierarchy, .. } => {
            plain("cmd_name", format!("{name} ({hierarchy})"))
        }
        EventDetail::Mode(name) => plain("cmd_mode", name.to_owned()),
        EventDetail::Param { scope, name, value } => {
            let value = value.map_or_else(String::new, |value| format!(":{}", one_line(value)));
            let category = format!("scope:{scope}");
            PerfColumns { category, ..plain("def_param", format!("{name}{value}")) }
        }
        EventDetail::Error(message) => plain("error", one_line(message)),
        EventDetail::Counter { category, name, count } => {
            let message = format!("name:{name} value:{count}");
            PerfColumns { category: category.to_owned(), ..plain("counter", message) }
        }
        EventDetail::ChildStart { id, class, hook, argv, .. } => {
            let hook = hook.map_or_else(String::new, |hook| format!(" hook:{hook}"));
            let argv = command_line(argv);
            timed("child_start", format!("[ch{id}] class:{class}{hook} argv:[{argv}]"))
        }
        EventDetail::ChildExit { id, pid, code, ran } => {
            let message = format!("[ch{id}] pid:{pid} code:{code}");
            PerfColumns { duration: Some(ran), ..timed("child_exit", message) }
        }
        EventDetail::Exec { program, argv } => {
            timed("exec", format!("id:0 argv:[{program} {}]", command_line(argv)))
        }
        EventDetail::ExecResult { code, reason } => {
            timed("exec_result", format!("id:0 code:{code} err:{reason}"))
        }
        EventDetail::RegionEnter(names) => {
            let category = names.category.to_owned();
            PerfColumns { category, ..timed("region_enter", label(names)) }
        }
        EventDetail::RegionLeave(names) => {
            let (category, duration) = (names.category.to_owned(), Some(event.inside));
            PerfColumns { category, duration, ..timed("region_leave", label(names)) }
        }
        EventDetail::Data { category, key, value, is_json, .. } => {
            let (category, duration) = (category.to_owned(), Some(event.inside));
            let name = if is_json { "data_json" } else { "data" };
            PerfColumns { category, duration, ..timed(name, format!("{key}:{}", one_line(value))) }
        }
        EventDetail::Exit(code) => timed("exit", format!("code:{code}")),
        EventDetail::AtExit(code) => timed("atexit", format!("code:{code}")),
    })
}

fn label(names: RegionNames<'_>) -> String {
    let message = names.message.map_or_else(String::new, |message| format!(" {}", one_line(message)));
    format!("label:{}{message}", names.label)
}
