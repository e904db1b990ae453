//! Lines for people (api-trace2, "NORMAL Format").

use super::formats::{EXE, EventDetail, TraceEvent, clock, command_line, one_line, seconds};

/// `<time> <position in the source> <event> <message>`. Regions and data are not shown.
pub(super) fn line(event: &TraceEvent<'_>, is_brief: bool) -> Option<String> {
    let elapsed = seconds(event.after);
    let text = match event.detail {
        EventDetail::Version => format!("version {EXE}"),
        EventDetail::Start(argv) => format!("start {}", command_line(argv)),
        EventDetail::Ancestry(names) => one_line(&format!("cmd_ancestry {}", names.join(" <- "))),
        EventDetail::Repository(path) => format!("worktree {}", command_line(&[path.to_owned()])),
        EventDetail::CommandName { name, hierarchy, .. } => format!("cmd_name {name} ({hierarchy})"),
        EventDetail::Mode(name) => format!("cmd_mode {name}"),
        EventDetail::Param { scope, name, value } => {
            let value = value.map_or_else(String::new, |value| format!("={}", one_line(value)));
            format!("def_param scope:{scope} {name}{value}")
        }
        EventDetail::Error(message) => format!("error {}", one_line(message)),
        EventDetail::Counter { category, name, count } => format!("counter {category}/{name} value:{count}"),
        EventDetail::ChildStart { id, argv, .. } => format!("child_start[{id}] {}", command_line(argv)),
        EventDetail::ChildExit { id, pid, code, ran } => {
            format!("child_exit[{id}] pid:{pid} code:{code} elapsed:{}", seconds(ran))
        }
        EventDetail::Exec { program, argv } => format!("exec[0] {program} {}", command_line(argv)),
        EventDetail::ExecResult { code, reason } => format!("exec_result[0] code:{code} err:{reason}"),
        EventDetail::Exit(code) => format!("exit elapsed:{elapsed} code:{code}"),
        EventDetail::AtExit(code) => format!("atexit elapsed:{elapsed} code:{code}"),
        EventDetail::TooManyFiles
        | EventDetail::RegionEnter(_)
        | EventDetail::RegionLeave(_)
        | EventDetail::Data { .. } => return None,
    };
    Some(match is_brief {
        true => format!("{text}\n"),
        false => format!("{:<50}{text}\n", clock(event.at)),
    })
}
