//! Objects of JSON for programs (api-trace2, "EVENT Format").

use std::fmt::Write as _;

use packrace_os::trace::RegionNames;

use super::formats::{EXE, EventDetail, TraceEvent, seconds};
use super::patterns::pattern_of;

/// The version of the format of events.
const EVENT_VERSION: u32 = 4;

pub(super) fn line(event: &TraceEvent<'_>, is_brief: bool) -> String {
    let (name, own) = fields(event);
    let has_time = !is_brief || matches!(event.detail, EventDetail::Version | EventDetail::AtExit(_));
    let mut out = format!("{{\"event\":\"{name}\",\"sid\":{},\"thread\":\"main\"", json(event.sid));
    if has_time {
        let _ = write!(out, ",\"time\":\"{}\"", event.at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"));
    }
    if let Some(repository) = event.repository {
        let _ = write!(out, ",\"repo\":{repository}");
    }
    if !own.is_empty() {
        let _ = write!(out, ",{own}");
    }
    out.push_str("}\n");
    out
}

/// The name of an event, and the fields that are its own.
fn fields(event: &TraceEvent<'_>) -> (&'static str, String) {
    let elapsed = seconds(event.after);
    match event.detail {
        EventDetail::Version => ("version", format!("\"evt\":\"{EVENT_VERSION}\",\"exe\":{}", json(EXE))),
        EventDetail::TooManyFiles => ("too_many_files", String::new()),
        EventDetail::Start(argv) => ("start", format!("\"t_abs\":{elapsed},\"argv\":{}", json_list(argv))),
        EventDetail::Ancestry(names) => ("cmd_ancestry", format!("\"ancestry\":{}", json_list(names))),
        EventDetail::Repository(path) => ("def_repo", format!("\"worktree\":{}", json(path))),
        EventDetail::CommandName { name, hierarchy, .. } => {
            ("cmd_name", format!("\"name\":{},\"hierarchy\":{}", json(name), json(hierarchy)))
        }
        EventDetail::Mode(name) => ("cmd_mode", format!("\"name\":{}", json(name))),
        EventDetail::Param { scope, name, value } => {
            let value = value.map_or_else(String::new, |value| format!(",\"value\":{}", json(value)));
            ("def_param", format!("\"scope\":\"{scope}\",\"param\":{}{value}", json(name)))
        }
        EventDetail::Error(message) => {
            ("error", format!("\"msg\":{},\"fmt\":{}", json(message), json(&pattern_of(message))))
        }
        EventDetail::Counter { category, name, count } => {
            ("counter", format!("\"category\":{},\"name\":{},\"count\":{count}", json(category), json(name)))
        }
        EventDetail::ChildStart { id, class, hook, uses_shell, argv } => {
            let hook = hook.map_or_else(String::new, |hook| format!(",\"hook_name\":{}", json(hook)));
            let argv = json_list(argv);
            let own = format!(
                "\"child_id\":{id},\"child_class\":\"{class}\"{hook},\"use_shell\":{uses_shell},\"argv\":{argv}"
            );
            ("child_start", own)
        }
        EventDetail::ChildExit { id, pid, code, ran } => {
            let ran = seconds(ran);
            ("child_exit", format!("\"child_id\":{id},\"pid\":{pid},\"code\":{code},\"t_rel\":{ran}"))
        }
        EventDetail::Exec { program, argv } => {
            ("exec", format!("\"exec_id\":0,\"exe\":{},\"argv\":{}", json(program), json_list(argv)))
        }
        EventDetail::ExecResult { code, .. } => ("exec_result", format!("\"exec_id\":0,\"code\":{code}")),
        EventDetail::RegionEnter(names) => ("region_enter", region(names, event.depth)),
        EventDetail::RegionLeave(names) => {
            ("region_leave", format!("\"t_rel\":{},{}", seconds(event.inside), region(names, event.depth)))
        }
        EventDetail::Data { category, key, value, is_json, .. } => {
            let (inside, nesting) = (seconds(event.inside), event.depth + 1);
            let (category, key) = (json(category), json(key));
            let value = if is_json { value.to_owned() } else { json(value) };
            let own = format!(
                "\"t_abs\":{elapsed},\"t_rel\":{inside},\"nesting\":{nesting},\"category\":{category},\
                 \"key\":{key},\"value\":{value}"
            );
            (if is_json { "data_json" } else { "data" }, own)
        }
        EventDetail::Exit(code) => ("exit", format!("\"t_abs\":{elapsed},\"code\":{code}")),
        EventDetail::AtExit(code) => ("atexit", format!("\"t_abs\":{elapsed},\"code\":{code}")),
    }
}

fn region(names: RegionNames<'_>, depth: usize) -> String {
    let RegionNames { category, label, message } = names;
    let message = message.map_or_else(String::new, |message| format!(",\"msg\":{}", json(message)));
    let nesting = depth + 1;
    format!("\"nesting\":{nesting},\"category\":{},\"label\":{}{message}", json(category), json(label))
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
    }
}
