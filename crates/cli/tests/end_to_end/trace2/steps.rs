//! Repositories, settings, variables, regions and data in traces.

use std::path::Path;
use std::process::{Command, Stdio};

use packrace_testkit::{Git, clean_environment, write_program};
use serde_json::Value;

use crate::running::PACKRACE;

/// Fields that differ from run to run, or that only git has.
const VOLATILE: [&str; 9] = ["sid", "time", "file", "line", "t_abs", "t_rel", "pid", "exe", "evt"];

/// What only git does, or tells, or does in another process.
const ONLY_GIT: [&str; 16] = [
    "bitmap_pos_cache_hits",
    "bitmap_pos_cache_misses",
    "building_bitmaps_pseudo_merge_reused",
    "cache_tree",
    "chunkfile",
    "commit-graph",
    "counter",
    "data_json",
    "fill_bitmap_commit_calls_nr",
    "fill_bitmap_commit_found_ancestor_nr",
    "midx",
    "name-hash-init",
    "read_directory",
    "setup",
    "traverse_trees",
    "unpack_trees",
];

/// A repository with a history, a tag and changed files.
fn repository(top: &Path) {
    let git = Git::stock();
    git.run(top, &["init", "-q", "--template=", "-b", "main", "work tree"]);
    let repo = top.join("work tree");
    for number in 0..20 {
        std::fs::write(repo.join(format!("file-{number}")), format!("{number}\n").repeat(20)).unwrap();
    }
    git.run(&repo, &["add", "."]);
    git.run(&repo, &["commit", "-q", "-m", "one"]);
    std::fs::write(repo.join("file-1"), "1\n".repeat(21)).unwrap();
    git.run(&repo, &["commit", "-q", "-a", "-m", "two"]);
    git.run(&repo, &["config", "filter.x.clean", "sed s/1/2/"]);
    git.run(&repo, &["config", "remote.a/b.URL", "https://user:secret@host/x"]);
    git.run(&repo, &["config", "--add", "remote.a/b.url", "line\n\"quoted\"\t\u{1}"]);
    std::fs::write(repo.join("file-2"), "changed\n").unwrap();
}

/// A trace as a program writes it for these arguments in the repository, and its standard output.
fn traced(tool: &Path, top: &Path, args: &[&str], variables: &[(&str, &str)]) -> (String, Vec<u8>) {
    let (repo, trace) = (top.join("work tree"), top.join("trace"));
    let _ = std::fs::remove_file(&trace);
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command.args(args).current_dir(&repo).stdin(Stdio::null()).envs(variables.iter().copied());
    if !variables.iter().any(|(name, _)| ["GIT_TRACE2_PERF", "GIT_TRACE2"].contains(name)) {
        command.env("GIT_TRACE2_EVENT", &trace);
    }
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    (std::fs::read_to_string(trace).unwrap_or_default(), ran.stdout)
}

/// The events that both programs should have, without what is volatile.
fn events(trace: &str, top: &Path) -> Vec<Value> {
    let lines = trace.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let is_common = |event: &Value| {
        let names =
            ["event", "category", "label", "key"].map(|name| event[name].as_str().unwrap_or_default());
        !names.iter().any(|name| ONLY_GIT.contains(name))
    };
    let mut events: Vec<Value> = lines.filter(is_common).collect();
    for event in &mut events {
        let event = event.as_object_mut().unwrap();
        VOLATILE.iter().for_each(|name| drop(event.remove(*name)));
        // Another thread of git starts a filter.
        event.remove("thread");
        let is_start = event["event"] == "start";
        if let Some(program) = event.get_mut("argv").and_then(|argv| argv.get_mut(0)).filter(|_| is_start) {
            *program = "git".into();
        }
        // Git before 2.45 knows no scope of variables.
        if event.get("scope").is_some_and(|scope| scope == "unknown") {
            event.insert("scope".to_owned(), "command".into());
        }
        // git names the index as seen from the work tree.
        if let Some(path) =
            event.get_mut("msg").filter(|path| path.as_str().is_some_and(|text| text.contains(".git/")))
        {
            let top = format!("{}/", top.join("work tree").display());
            *path = path.as_str().unwrap().trim_start_matches(&top).into();
        }
        // Deltas are chosen in another way.
        if event.get("key").is_some_and(|key| key.as_str().unwrap().contains("delta")) {
            event.remove("value");
        }
    }
    events
}

/// Compares the events of both programs; `expect` are texts in ours.
fn check(args: &[&str], variables: &[(&str, &str)], expect: &[&str]) {
    let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        let (trace, _) = traced(tool, &top, args, variables);
        let text = trace.replace(&top.display().to_string(), "TOP");
        events(&text, Path::new("TOP"))
    });
    assert_eq!(ours, theirs, "{args:?}");
    let ours = ours.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    for words in expect {
        assert!(ours.contains(words), "{words} is not in\n{ours}");
    }
}

#[test]
fn repositories_settings_and_variables() {
    let wanted = [
        ("GIT_TRACE2_CONFIG_PARAMS", "CORE.bare, remote.*,a.b.C,filter.X.clean,none"),
        ("GIT_TRACE2_ENV_VARS", "LC_ALL, ODD,GIT_NONE,LC_ALL"),
        ("ODD", "\"\n\t\u{1b}\\"),
        ("GIT_TRACE2_PARENT_NAME", "up/\"per"),
    ];
    check(
        &["-c", "a.B.c=1", "-c", "a.b.c=", "show-ref"],
        &wanted,
        &[
            r#""param":"core.bare","scope":"local","value":"false""#,
            r#""value":"https://user:<REDACTED>@host/x""#,
            r#""param":"a.b.c","scope":"command","value":"""#,
            r#""hierarchy":"up/\"per/show-ref""#,
            r#""repo":1,"worktree":"TOP/work tree""#,
        ],
    );
    check(&["hash-object", "--no-filters", "file-2"], &wanted, &["def_repo"]);
    check(&["init", "-q", "--template=", "-b", "main", "x"], &[], &["TOP/work tree/x"]);
    check(&["init", "-q", "--template=", "-b", "main", "--bare", "x"], &[], &["cmd_name"]);
    check(&["--git-dir=.git", "for-each-ref"], &wanted[1..], &["def_repo"]);
    check(&["-C", ".git", "for-each-ref"], &wanted[..1], &["core.bare"]);
    check(&["upload-pack", "--advertise-refs", "."], &wanted, &["negotiated-version", "core.bare"]);
    check(&["receive-pack", "--advertise-refs", "."], &[("GIT_PROTOCOL", "version=1")], &[r#""value":"1""#]);
}

/// Older versions of git crash then.
#[test]
fn a_setting_without_a_value() {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    let wanted = [("GIT_TRACE2_CONFIG_PARAMS", "a.b.c")];
    let (trace, _) = traced(Path::new(PACKRACE), &top, &["-c", "a.b.c", "show-ref"], &wanted);
    assert!(trace.contains(r#""scope":"command","param":"a.b.c"}"#), "{trace}");
}

#[test]
fn regions_and_data() {
    check(&["add", "."], &[], &["do_read_index", ".git/index.lock", "write/cache_nr", "read/version"]);
    check(&["write-tree"], &[], &["read/cache_nr"]);
    check(&["add", "."], &[("GIT_TRACE2_EVENT_NESTING", "1")], &["do_write_index"]);
    check(
        &["pack-objects", "--all", "--stdout"],
        &[],
        &["enumerate-objects", "written/delta", "packs-reused"],
    );
    check(&["pack-objects", "--all", "../pack"], &[], &[r#""key":"write_pack_file/wrote","nesting":2"#]);
    check(&["pack-objects", "--non-empty", "../pack"], &[], &["enumerate-objects"]);
    check(&["pack-objects", "../pack"], &[], &["write-pack-file"]);
    check(
        &[
            "-c",
            "pack.writeBitmapLookupTable=true",
            "pack-objects",
            "--all",
            "--write-bitmap-index",
            "../pack",
        ],
        &[],
        &["building_bitmaps_total", r#""key":"building_bitmaps_reused","nesting":2"#, "writing_lookup_table"],
    );
    check(&["commit-graph", "write", "--reachable"], &[], &[r#"{"event":"cmd_mode","name":"write"}"#]);
    check(&["multi-pack-index", "verify"], &[], &[r#""name":"verify""#]);
}

/// Git names a temporary file, and how many entries are beside it depends on times.
#[test]
fn shared_indexes_are_regions() {
    for tool in [Git::stock().binary(), Path::new(PACKRACE)] {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        for (option, label) in
            [("--split-index", "shared/do_write_index"), ("--no-split-index", "shared/do_read_index")]
        {
            let (trace, _) = traced(tool, &top, &["update-index", option], &[]);
            assert!(trace.contains(&format!(r#""label":"{label}""#)), "{tool:?} {option}\n{trace}");
        }
    }
}

/// Git has the option since 2.50.
#[test]
fn path_walks_are_regions() {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    for args in
        [&["pack-objects", "--all", "--path-walk", "--stdout"][..], &["repack", "-adfq", "--path-walk"]]
    {
        let trace = traced(Path::new(PACKRACE), &top, args, &[]).0;
        let place = |words: &str| trace.find(words).unwrap_or_else(|| panic!("{words} is not in\n{trace}"));
        let within = place(r#""label":"path-walk""#);
        assert!(
            place(r#""label":"enumerate-objects""#) < within && within < place(r#""label":"prepare-pack""#)
        );
    }
}

/// Git does it before it makes the pack.
#[test]
fn objects_that_become_loose() {
    for tool in [Git::stock().binary(), Path::new(PACKRACE)] {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        let repo = top.join("work tree");
        Git::stock().run(&repo, &["repack", "-adq"]);
        let check = |args: &[&str], expect: u32| {
            let (trace, _) = traced(tool, &top, args, &[]);
            let words = format!(r#""key":"loosen_unused_packed_objects/loosened","value":"{expect}""#);
            assert!(trace.contains(&words), "{tool:?} {args:?}\n{trace}");
        };
        check(&["pack-objects", "-q", "--all", "--unpack-unreachable", "../pack"], 0);
        Git::stock().run(&repo, &["checkout", "-q", "--orphan", "other"]);
        Git::stock().run(&repo, &["commit", "-q", "-m", "three"]);
        Git::stock().run(&repo, &["branch", "-q", "-D", "main"]);
        Git::stock().run(&repo, &["reflog", "expire", "--expire=now", "--all"]);
        // Two commits, and a tree and a blob of the first one.
        check(&["repack", "-Adq"], 4);
    }
}

#[test]
fn progress_that_is_shown() {
    let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        let mut all = Vec::new();
        let names = traced(Git::stock().binary(), &top, &["pack-objects", "--all", "../pack"], &[]).1;
        let pack = format!("../pack-{}.pack", String::from_utf8(names).unwrap().trim());
        for args in [
            &["pack-objects", "--all", "--progress", "--all-progress", "../pack"][..],
            &["index-pack", "-v", &pack],
        ] {
            let trace = traced(tool, &top, args, &[]).0.replace(&top.display().to_string(), "TOP");
            let mut events = events(&trace, Path::new("TOP"));
            // A number of deltas, and of objects that are tried as deltas.
            events.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("value")));
            events.retain(|event| event["event"] != "start");
            all.extend(events);
        }
        all
    });
    assert_eq!(ours, theirs);
    assert!(ours.iter().any(|event| event["label"] == "Indexing objects"), "{ours:?}");
}

#[test]
fn columns_of_regions() {
    let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        let trace = top.join("trace").display().to_string();
        let variables = [
            ("GIT_TRACE2_PERF", trace.as_str()),
            ("GIT_TRACE2_PERF_BRIEF", "1"),
            ("GIT_TRACE2_CONFIG_PARAMS", "core.bare"),
            ("GIT_TRACE2_ENV_VARS", "LC_ALL"),
        ];
        let (trace, _) = traced(tool, &top, &["pack-objects", "--all", "--stdout"], &variables);
        let is_common = |line: &&str| {
            !["counter", "delta", " version ", " start ", "scope:comman", "scope:unknow"]
                .iter()
                .any(|word| line.contains(word))
        };
        let lines = trace.lines().filter(is_common).map(|line| {
            let line = line.replace(&top.display().to_string(), "TOP");
            line.split(|character: char| character.is_ascii_digit())
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("0")
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    assert_eq!(ours, theirs);
    for words in [
        "ancestry:[",
        "worktree:'TOP/work tree'",
        "..write_pack_file/wrote:",
        "scope:local  | core.bare:false",
    ] {
        assert!(ours.contains(words), "{words} is not in\n{ours}");
    }
}

#[test]
fn filters_are_children() {
    let filtered = ["hash-object", "--path", "file-2", "file-2"];
    let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        std::fs::write(top.join("work tree/.gitattributes"), "file-2 filter=x\n").unwrap();
        let mut events = events(&traced(tool, &top, &filtered, &[]).0, &top);
        events.retain(|event| event["event"].as_str().unwrap().starts_with("child"));
        events
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours[0]["argv"][0], "sed s/1/2/");
    assert_eq!(ours.len(), 2);
}

/// After each of five runs, the number of files in the directory of traces; then the events in the last file.
fn limited(tool: &Path, settings: &str) -> (Vec<usize>, Vec<Value>) {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    let traces = top.join("traces");
    std::fs::create_dir(&traces).unwrap();
    let config = top.join("config");
    std::fs::write(&config, settings.replace("TRACES", &traces.display().to_string())).unwrap();
    let mut counts = Vec::new();
    for _ in 0..5 {
        traced(tool, &top, &["show-ref"], &[("GIT_CONFIG_GLOBAL", config.to_str().unwrap())]);
        counts.push(std::fs::read_dir(&traces).unwrap().count());
    }
    let last = std::fs::read_to_string(traces.join("git-trace2-discard")).unwrap_or_default();
    let last = if last.starts_with('{') { events(&last, &top) } else { Vec::new() };
    (counts, last)
}

#[test]
fn files_of_a_directory_are_limited() {
    let check = |settings: &str, expect: &[usize]| {
        // The variable for the other target is not in the way.
        let theirs = limited(Git::stock().binary(), settings);
        let ours = limited(Path::new(PACKRACE), settings);
        let names = |events: &[Value]| events.iter().map(|event| event["event"].clone()).collect::<Vec<_>>();
        assert_eq!((&ours.0, names(&ours.1)), (&theirs.0, names(&theirs.1)), "{settings}");
        assert_eq!(ours.0, expect);
    };
    check("[trace2]\nperfTarget = TRACES\n", &[1, 2, 3, 4, 5]);
    check("[trace2]\nperfTarget = TRACES\nmaxFiles = 4\n", &[1, 2, 3, 3, 3]);
    check("[trace2]\nperfTarget = TRACES\nnormalTarget = TRACES\nmaxFiles = 1\n", &[1, 1, 1, 1, 1]);
}

#[test]
fn the_file_that_stops_traces_says_so() {
    for tool in [Git::stock().binary(), Path::new(PACKRACE)] {
        let dir = packrace_testkit::scratch_dir();
        let top = packrace_os::real_path(dir.path()).unwrap();
        repository(&top);
        let traces = top.join("traces");
        std::fs::create_dir(&traces).unwrap();
        let mut command = Command::new(tool);
        clean_environment(&mut command);
        command.arg("show-ref").current_dir(top.join("work tree"));
        command.env("GIT_TRACE2_EVENT", &traces).env("GIT_TRACE2_MAX_FILES", "2");
        assert_eq!(String::from_utf8(command.output().unwrap().stderr).unwrap(), "");
        let discard = std::fs::read_to_string(traces.join("git-trace2-discard")).unwrap();
        let names: Vec<Value> = events(&discard, &top).iter().map(|event| event["event"].clone()).collect();
        assert_eq!(names[..3], ["version", "too_many_files", "start"], "{tool:?}");
        command_again(tool, &top, &traces);
    }
}

/// Another trace is not written, which is reported if somebody looks for that.
fn command_again(tool: &Path, top: &Path, traces: &Path) {
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command.arg("show-ref").current_dir(top.join("work tree")).env("GIT_TRACE2_EVENT", traces);
    command.env("GIT_TRACE2_MAX_FILES", "2").env("GIT_TRACE2_DST_DEBUG", "1");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let expect = format!(
        "warning: trace2: not opening GIT_TRACE2_EVENT trace file due to too many files in target directory {}\n",
        traces.display()
    );
    assert_eq!(said, expect, "{tool:?}");
    assert_eq!(std::fs::read_dir(traces).unwrap().count(), 1);
}

#[test]
fn events_are_written_as_they_happen() {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    let hook = top.join("work tree/.git/hooks/reference-transaction");
    write_program(
        &hook,
        &format!("#!/bin/sh\n[ \"$1\" = prepared ] && cp '{0}/trace' '{0}/seen'\nexit 0\n", top.display()),
    );
    traced(Path::new(PACKRACE), &top, &["update-ref", "refs/heads/x", "HEAD"], &[]);
    let seen = std::fs::read_to_string(top.join("seen")).unwrap();
    let last: Value = serde_json::from_str(seen.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "child_start");
    assert_eq!(last["argv"][1], "prepared");
}

/// Programs that git starts, and that are parts of this process here.
#[test]
fn tasks_and_parts_of_a_stash_are_children() {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    let children = |args: &[&str]| -> Vec<String> {
        let (trace, _) = traced(Path::new(PACKRACE), &top, args, &[]);
        let events = events(&trace, &top);
        let words = |event: &Value| {
            let argv = event["argv"].as_array().unwrap().iter();
            argv.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let ended = events.iter().filter(|event| event["event"] == "child_exit" && event["code"] == 0);
        let started: Vec<String> =
            events.iter().filter(|event| event["event"] == "child_start").map(words).collect();
        assert_eq!(started.len(), ended.count(), "{args:?}");
        started
    };
    for (task, child) in [
        ("pack-refs", "git pack-refs --all --prune"),
        ("reflog-expire", "git reflog expire --all"),
        ("loose-objects", "git pack-objects --quiet"),
        ("geometric-repack", "git repack -d -l --geometric=2 --quiet --write-midx"),
        ("gc", "git gc --quiet --no-detach --skip-foreground-tasks"),
        ("commit-graph", "git commit-graph write --split --reachable --no-progress"),
    ] {
        assert_eq!(children(&["maintenance", "run", &format!("--task={task}")]), [child]);
    }
    std::fs::write(top.join("work tree/new"), "new").unwrap();
    Git::stock().run(&top.join("work tree"), &["add", "new"]);
    let stores = "git update-index --ignore-skip-worktree-entries -z --add --remove --stdin";
    let resets = "git reset --hard -q --no-recurse-submodules";
    assert_eq!(children(&["stash", "push"]), [stores, resets]);
    assert_eq!(children(&["stash", "pop", "-q"]), [""; 0]);
    assert_eq!(children(&["stash", "push", "--", "new"]), [stores]);
    assert_eq!(children(&["stash", "pop"]), ["git status"]);
}

#[test]
fn what_is_handed_over_is_traced_by_git_too() {
    let dir = packrace_testkit::scratch_dir();
    let top = packrace_os::real_path(dir.path()).unwrap();
    repository(&top);
    let (trace, _) = traced(Path::new(PACKRACE), &top, &["add", "-p"], &[]);
    let events = events(&trace, &top);
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["version", "start", "cmd_ancestry", "exec"], "{events:?}");
    assert_eq!(events[3]["argv"], serde_json::json!(["git", "add", "-p"]));
    assert_eq!(events[4]["event"], "version");
    assert_eq!(names.last(), Some(&"atexit"));
}
