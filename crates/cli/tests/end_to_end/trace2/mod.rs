//! Reports of a call in the format of git's trace2.

mod fetches;
mod steps;

use std::path::Path;
use std::process::Command;

use packrace_testkit::{Git, clean_environment, write_program};
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
    let dir = packrace_testkit::scratch_dir();
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

/// What a failing `update-ref` writes for these variables and settings, without what differs from run to run: times, numbers of processes,
/// and positions in git's source.
fn failing(top: &Path, tool: &Path, variables: &[(&str, &str)], settings: &str) -> String {
    let repo = top.join("repo.git");
    let _ = std::fs::remove_dir_all(&repo);
    Git::stock().run(top, &["init", "-q", "--bare", "repo.git"]);
    let trace = top.join("trace");
    let _ = std::fs::remove_file(&trace);
    let config = top.join("config");
    std::fs::write(&config, settings.replace("TRACE", &trace.display().to_string())).unwrap();
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command
        .args(["update-ref", "refs/heads/a b", "zzz"])
        .current_dir(&repo)
        .env("GIT_CONFIG_GLOBAL", &config);
    for (name, value) in variables {
        command.env(name, value.replace("TRACE", &trace.display().to_string()));
    }
    let ran = command.output().unwrap();
    assert_eq!(ran.status.code(), Some(128), "{variables:?}");
    let version = Git::stock().run(top, &["version"]);
    let version = version.trim().strip_prefix("git version ").unwrap();
    let traced = std::fs::read_to_string(trace).unwrap_or_default();
    let said = String::from_utf8(ran.stderr).unwrap();
    let lines = said.lines().filter(|line| !line.starts_with("fatal")).chain(traced.lines());
    let is_common = |line: &&str| ![" data ", "counter", "\"data\""].iter().any(|word| line.contains(word));
    let lines = lines.filter(is_common).map(|line| {
        let line = match line.split_once(" | ") {
            // Time and position are in front of the first column.
            Some((front, rest)) if !front.starts_with('d') => rest,
            _ => line,
        };
        let line = line.replace(&tool.display().to_string(), "git").replace("packrace/0.1.0", "VERSION");
        let line = line.replace(version, "VERSION");
        let digits: String = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        // A duration is shown with six digits.
        digits.replace("00.000000", "0.000000")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn traces_look_like_gits() {
    let dir = packrace_testkit::scratch_dir();
    let check = |variables: &[(&str, &str)], settings: &str, expect: &[&str]| {
        let theirs = failing(dir.path(), Git::stock().binary(), variables, settings);
        let ours = failing(dir.path(), Path::new(PACKRACE), variables, settings);
        assert_eq!(ours, theirs, "{variables:?} {settings}");
        for words in expect {
            assert!(ours.contains(words), "{words} is not in\n{ours}");
        }
    };
    check(
        &[("GIT_TRACE2", "TRACE"), ("GIT_TRACE2_BRIEF", "1")],
        "",
        &["error zzz: not a valid SHA0", "update-ref 'refs/heads/a b'"],
    );
    check(
        &[("GIT_TRACE2_PERF", "TRACE"), ("GIT_TRACE2_PARENT_SID", "a/b")],
        "",
        &["d0 | main   ", "code:000"],
    );
    check(&[("GIT_TRACE2_PERF", "TRACE"), ("GIT_TRACE2_PERF_BRIEF", "yes")], "", &["| error  "]);
    check(
        &[],
        "[trace2]\n\tnormalTarget = TRACE\n\tnormalBrief = true\n",
        &["cmd_name update-ref (update-ref)"],
    );
    check(&[("GIT_TRACE2", "0")], "[trace2]\n\tnormalTarget = TRACE\n", &[]);
    // Failures are silent, unless somebody looks for them.
    check(
        &[("GIT_TRACE2_EVENT", "af_unix:/none/x"), ("GIT_TRACE2", "relative")],
        "",
        &["warning: trace0: unknown value for 'GIT_TRACE0': 'relative'"],
    );
}

/// A bare repository with this hook `reference-transaction`, and a commit in it that no ref names.
fn hooked(dir: &Path, script: &str) -> (std::path::PathBuf, String) {
    let repo = dir.join("repo.git");
    Git::stock().run(dir, &["init", "-q", "--bare", "repo.git"]);
    write_program(&repo.join("hooks/reference-transaction"), &format!("#!/bin/sh\n{script}\n"));
    let tree = Git::stock().run(&repo, &["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = Git::stock().run(&repo, &["commit-tree", "-m", "x", tree.trim()]);
    (repo, commit.trim().to_owned())
}

#[test]
fn children_know_their_parent() {
    let dir = packrace_testkit::scratch_dir();
    let seen = dir.path().join("seen");
    let (repo, commit) =
        hooked(dir.path(), &format!("echo \"$GIT_TRACE2_PARENT_SID\" >\"{}\"", seen.display()));
    let trace = dir.path().join("trace");
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command
        .args(["update-ref", "refs/heads/main", &commit])
        .current_dir(&repo)
        .env("GIT_TRACE2_EVENT", &trace);
    assert!(command.status().unwrap().success());
    let first: Value =
        serde_json::from_str(std::fs::read_to_string(trace).unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(seen).unwrap().trim(), first["sid"].as_str().unwrap());
}

/// The start and the end of the hook's call `prepared`: git before 2.54 makes no call `preparing`.
fn traced_hook(dir: &Path, tool: &Path, variable: &str) -> [String; 2] {
    let (repo, commit) = hooked(dir, "[ \"$1\" != prepared ] || exit 3");
    let trace = dir.join(variable);
    let _ = std::fs::remove_file(&trace);
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command.args(["update-ref", "refs/heads/main", &commit]).current_dir(&repo);
    assert!(!command.env(variable, &trace).status().unwrap().success());
    let traced = std::fs::read_to_string(&trace).unwrap();
    let mut lines = traced.lines().skip_while(|line| !line.contains("prepared"));
    let start = lines.next().unwrap_or_else(|| panic!("{traced}")).to_owned();
    let end = lines.find(|line| line.contains("child_exit")).unwrap_or_else(|| panic!("{traced}")).to_owned();
    std::fs::remove_dir_all(repo).unwrap();
    [start, end]
}

#[test]
fn children_are_traced_as_by_git() {
    let dir = packrace_testkit::scratch_dir();
    let both = |variable: &str| {
        [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| traced_hook(dir.path(), tool, variable))
    };
    let [theirs, ours] = both("GIT_TRACE2_EVENT").map(|lines| {
        lines.map(|line| {
            let mut event: Value = serde_json::from_str(&line).unwrap();
            let event = event.as_object_mut().unwrap();
            for name in ["file", "line", "sid", "time", "pid", "t_rel", "child_id"] {
                let is_there = event.remove(name).is_some();
                assert!(is_there || !["pid", "t_rel"].contains(&name) || event["event"] == "child_start");
            }
            // git names the hook as seen from the repository.
            if let Some(program) = event.get_mut("argv").and_then(|argv| argv.get_mut(0)) {
                *program = program.as_str().unwrap().rsplit('/').next().unwrap().into();
            }
            event.clone()
        })
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours[1]["code"], 3);
    for variable in ["GIT_TRACE2", "GIT_TRACE2_PERF"] {
        let [theirs, ours] = both(variable).map(|lines| {
            lines.map(|line| {
                let line =
                    line.split_once("child_").unwrap().1.replace(&dir.path().display().to_string(), "");
                // Newer versions of git have a region around hooks, which indents them.
                let line = line.replace("/repo.git/", "").replace("..[ch", "[ch");
                line.split(|c: char| c.is_ascii_digit())
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join("0")
            })
        });
        assert_eq!(ours, theirs, "{variable}");
    }
}

#[test]
fn hooks_are_regions() {
    let both = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q"]);
        write_program(&dir.path().join(".git/hooks/post-index-change"), "#!/bin/sh\nexit 3\n");
        std::fs::write(dir.path().join("f"), "f").unwrap();
        let trace = dir.path().join(".git/trace");
        let mut command = Command::new(tool);
        clean_environment(&mut command);
        let added = command.args(["add", "f"]).current_dir(&dir).env("GIT_TRACE2_EVENT", &trace).status();
        assert!(added.unwrap().success());
        let events = std::fs::read_to_string(&trace).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_hook = events.filter(|event| {
            let is_child = event["event"].as_str().unwrap().starts_with("child_");
            is_child || event["event"] != "counter" && event["category"] == "hook"
        });
        let names = ["event", "repo", "nesting", "category", "label", "msg", "hook_name", "code"];
        let shown = |event: Value| names.map(|name| event[name].to_string()).join(" ");
        of_hook.map(shown).collect::<Vec<_>>()
    });
    assert_eq!(both[1], both[0]);
    assert_eq!(both[1].len(), 4);
}

/// `GIT_TRACE` tells the command, also if the program is called by its name.
#[test]
fn commands_are_told_by_the_older_trace() {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "a.git"]);
    let linked = dir.path().join("git-upload-pack");
    std::os::unix::fs::symlink(PACKRACE, &linked).unwrap();
    let told = |program: &Path, args: &[&str]| {
        let mut command = Command::new(program);
        clean_environment(&mut command);
        command.args(args).current_dir(dir.path()).env("GIT_TRACE", "1").env("GIT_TRACE_BARE", "1");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let expect = "trace: built-in: git upload-pack --advertise-refs a.git\n";
    assert_eq!(told(&linked, &["--advertise-refs", "a.git"]), expect);
    let args = ["-c", "a.b=c", "upload-pack", "--advertise-refs", "a.git"];
    assert_eq!(told(Path::new(PACKRACE), &args), expect);
}
