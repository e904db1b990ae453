//! Reports of a call in the format of git's trace2.

use std::path::Path;
use std::process::Command;

use packrace_testkit::{Git, clean_environment};
use serde_json::Value;

use crate::running::PACKRACE;

/// The events of `add` as run by this tool, and its report.
fn events(top: &Path, tool: &Path) -> (Vec<Value>, String) {
    let repo = top.join("repo");
    let _ = std::fs::remove_dir_all(&repo);
    Git::stock().run(top, &["init", "-q", "repo"]);
    for number in 0..20 {
        std::fs::write(repo.join(format!("file-{number}")), format!("{number}\n")).unwrap();
    }
    let (trace, report) = (top.join("trace"), top.join("report"));
    let _ = std::fs::remove_file(&trace);
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command.args(["-c", "core.fsync=all", "add", "."]).current_dir(&repo);
    command.env("GIT_TRACE2_EVENT", &trace).env("GIT_TRACE2_PARENT_SID", "parent");
    command.env("PACKRACE_IO_REPORT", &report);
    assert!(command.status().unwrap().success());
    let events = std::fs::read_to_string(trace).unwrap();
    let events = events.lines().map(|line| serde_json::from_str(line).expect("an object of JSON")).collect();
    (events, std::fs::read_to_string(report).unwrap_or_default())
}

fn of_kind<'a>(events: &'a [Value], kind: &'a str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn events_have_what_gits_have() {
    let dir = tempfile::tempdir().unwrap();
    let (theirs, _) = events(dir.path(), Git::stock().binary());
    let (ours, report) = events(dir.path(), Path::new(PACKRACE));
    for kind in ["version", "start", "cmd_name", "counter", "exit", "atexit"] {
        let gits = of_kind(&theirs, kind)[0].as_object().unwrap();
        for event in of_kind(&ours, kind) {
            let event = event.as_object().unwrap();
            // The position in git's source is optional.
            for (name, value) in gits.iter().filter(|(name, _)| !["file", "line"].contains(&name.as_str())) {
                let found = event.get(name).unwrap_or_else(|| panic!("{kind} without {name}: {event:?}"));
                assert_eq!(
                    std::mem::discriminant(found),
                    std::mem::discriminant(value),
                    "{kind}: {name} is {found}, and git's {value}"
                );
            }
        }
        assert!(!of_kind(&ours, kind).is_empty(), "{kind}");
    }
    assert!(ours.iter().all(|event| event["sid"].as_str().unwrap().starts_with("parent/2")), "{ours:?}");
    assert_eq!(of_kind(&ours, "cmd_name")[0]["name"], "add");
    assert_eq!(of_kind(&ours, "exit")[0]["code"], 0);
    let count = |category: &str, name: &str| {
        let counters = of_kind(&ours, "counter").into_iter();
        counters
            .filter(|event| event["category"] == category && event["name"] == name)
            .map(|event| event["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut syncs = 0;
    for (role, calls) in report.as_object().unwrap() {
        for (op, found) in calls.as_object().unwrap() {
            assert_eq!(count(role, op), found["calls"].as_u64().unwrap(), "{role} {op}");
            syncs += if op == "sync" { found["calls"].as_u64().unwrap() } else { 0 };
        }
    }
    assert!(syncs > 0);
    assert_eq!(count("fsync", "hardware-flush"), syncs);
    for (role, op) in [("pack", "create"), ("pack", "rename"), ("worktree", "write"), ("worktree", "rename")]
    {
        assert!(count(role, op) > 0, "{role} {op}: {report}");
    }
}
