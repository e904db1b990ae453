//! `packrace maintenance`: arguments, output and exit codes. Its crate tests what it does.

use std::path::Path;

use packrace_testkit::{Git, Loose, Repo, RepoBuilder, Size, Storage};

use crate::running::{packrace, packrace_with};

fn build() -> Repo {
    let storage = Storage { packs: 5, loose: Loose::Newest, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    // Old packs would be repacked for their age.
    for entry in std::fs::read_dir(repo.path().join("objects/pack")).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
    }
    repo
}

#[track_caller]
fn check(dir: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = packrace(dir, &[&["maintenance"], args].concat(), "");
    let [said, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}{complained}");
    (said, complained)
}

#[test]
fn what_is_needed_is_told_and_done() {
    let repo = build();
    let before = repo.reachable_objects();
    let (status, _) = check(repo.path(), &["status"], 0);
    assert!(status.starts_with("packs: 4 with ") && status.contains("\nbitmap: none\n"), "{status}");
    let (plan, _) = check(repo.path(), &["plan"], 0);
    let names: Vec<&str> = plan.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(names, ["pack-refs", "geometric-repack", "commit-graph"], "{plan}");
    assert_eq!(check(repo.path(), &["run", "--dry-run"], 0).0, plan);
    check(repo.path(), &["is-needed"], 0);
    let (said, told) = check(repo.path(), &["run", "--no-quiet"], 0);
    assert!(said.is_empty() && told.contains("geometric-repack: "), "{told}");
    assert_eq!(check(repo.path(), &["plan"], 0).0, "nothing to do\n");
    check(repo.path(), &["is-needed"], 1);
    // Without a terminal, nothing is printed.
    assert_eq!(check(repo.path(), &["run"], 0), (String::new(), String::new()));
    assert_eq!(repo.reachable_objects(), before);
    repo.git(&["fsck", "--full", "--strict"]);
}

#[test]
fn tasks_are_named() {
    let repo = build();
    check(repo.path(), &["run", "--task=loose-objects", "--task=PACK-REFS"], 0);
    let (status, _) = check(repo.path(), &["status"], 0);
    assert!(status.contains("loose objects: 0\n") && status.contains("refs: 0 loose"), "{status}");
    assert!(status.starts_with("packs: 5 "), "{status}");
    // As in git, a named task is needed, except in automatic runs, and success ends an old complaint.
    for named in
        [&["is-needed", "--task=gc"][..], &["is-needed", "--auto", "--no-auto", "--task=commit-graph"]]
    {
        check(repo.path(), named, 0);
    }
    let log = repo.path().join("gc.log");
    std::fs::write(&log, "error: old\n").unwrap();
    let off = ["-c", "core.commitGraph=false", "maintenance", "run", "--task=commit-graph"];
    let graphs = repo.path().join("objects/info/commit-graphs");
    let _ = std::fs::remove_dir_all(&graphs);
    assert!(packrace(repo.path(), &off, "").status.success() && !graphs.exists());
    check(repo.path(), &["run", "--task=commit-graph"], 0);
    assert!(log.exists() && graphs.exists());
    check(repo.path(), &["run", "--task=gc"], 0);
    assert!(!log.exists());
    let (status, _) = check(repo.path(), &["status"], 0);
    assert!(status.contains("commit-graph: 1 files"), "{status}");
    // Only needed tasks, by git's thresholds.
    check(repo.path(), &["is-needed", "--auto"], 1);
    check(repo.path(), &["is-needed", "--auto", "--task=gc"], 1);
    repo.git(&["fsck", "--full", "--strict"]);
}

#[test]
fn a_hook_may_forbid_an_automatic_gc() {
    let repo = build();
    let hook = repo.path().join("hooks/pre-auto-gc");
    let auto = |verb: &str, code: i32| {
        let settings = ["-c", "gc.autoPackLimit=1", "-c", "maintenance.geometric-repack.enabled=false"];
        let args = [&settings[..], &["maintenance", verb, "--auto", "--task=gc"]].concat();
        let output = packrace(repo.path(), &args, "");
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    packrace_testkit::write_program(&hook, "echo asked; exit 1\n");
    assert_eq!(auto("is-needed", 1), "asked\n");
    assert_eq!(auto("run", 0), "asked\n");
    assert!(check(repo.path(), &["status"], 0).0.starts_with("packs: 4 "));
    // It is not asked about what the user wants.
    assert_eq!(check(repo.path(), &["is-needed", "--task=gc"], 0).1, "");
    packrace_testkit::write_program(&hook, "");
    assert_eq!((auto("is-needed", 0), auto("run", 0)), (String::new(), String::new()));
    assert!(check(repo.path(), &["status"], 0).0.starts_with("packs: 1 "));
}

#[test]
fn an_unknown_strategy_is_refused() {
    let repo = build();
    for (name, args, code) in [
        ("foo", &["is-needed"][..], 128),
        ("foo", &["run", "--auto"], 128),
        ("", &["plan"], 128),
        ("foo", &["run", "--task=pack-refs"], 0),
        ("Geometric", &["run"], 0),
        ("incremental", &["run", "--auto"], 0),
    ] {
        let setting = format!("maintenance.strategy={name}");
        let args = [&["-c", &setting, "maintenance"], args].concat();
        let output = packrace(repo.path(), &args, "");
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let told = if code == 0 {
            String::new()
        } else {
            format!("fatal: unknown maintenance strategy: '{name}'\n")
        };
        assert_eq!(String::from_utf8_lossy(&output.stderr), told, "{args:?}");
    }
}

#[test]
fn nothing_begins_by_itself_where_that_is_off() {
    let repo = build();
    for (setting, code) in [("gc.auto=0", 1), ("maintenance.auto=false", 1), ("receive.autogc=false", 0)] {
        let args = ["-c", setting, "maintenance", "is-needed", "--auto"];
        assert_eq!(packrace(repo.path(), &args, "").status.code(), Some(code), "{setting}");
    }
    check(repo.path(), &["is-needed", "--auto"], 0);
}

/// In git's form, or by name.
#[test]
fn what_is_not_offered_is_refused() {
    let repo = build();
    for (args, told) in [
        (&["run", "--task=foo"][..], "error: 'foo' is not a valid task\n"),
        (&["run", "--task=gc", "--task=gc"], "error: task 'gc' cannot be selected multiple times\n"),
        (&["run", "--task=prefetch"], "fatal: task 'prefetch' is not supported\n"),
        (&["run", "--task=incremental-repack"], "fatal: task 'incremental-repack' is not supported\n"),
        (&["run", "--schedule=daily"], "fatal: `--schedule' is not supported\n"),
        (&["start", "--scheduler=auto"], "fatal: `maintenance with this subcommand' is not supported\n"),
        (&["register"], "fatal: `maintenance with this subcommand' is not supported\n"),
    ] {
        // Without git in `PATH`, which does some of it.
        let output = packrace_with(repo.path(), &[&["maintenance"], args].concat(), b"", &[("PATH", "")]);
        assert_eq!(output.status.code(), Some(129), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), told, "{args:?}");
    }
    for args in [&["run", "--task=foo"][..], &["run", "--task=gc", "--task=gc"]] {
        let stock = Git::stock().command(repo.path()).arg("maintenance").args(args).output().unwrap();
        let told = String::from_utf8_lossy(&stock.stderr).into_owned();
        assert!(told.starts_with(&check(repo.path(), args, 129).1), "{told}");
    }
}

/// Git does what packrace does not have.
#[test]
fn other_tasks_and_schedules_are_gits() {
    let repo = build();
    let home = packrace_testkit::scratch_dir();
    // Git writes into it: it must not be that of other tests, `/dev/null`.
    let global = home.path().join("gitconfig");
    let variables = [("GIT_CONFIG_GLOBAL", global.to_str().unwrap())];
    let run = |args: &[&str]| {
        let output = packrace_with(repo.path(), &[&["maintenance"], args].concat(), b"", &variables);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let registered = || std::fs::read_to_string(&global).unwrap_or_default();
    run(&["register"]);
    assert!(registered().contains(repo.path().to_str().unwrap()), "{}", registered());
    run(&["unregister"]);
    assert!(!registered().contains(repo.path().to_str().unwrap()), "{}", registered());
    repo.git(&["config", "maintenance.incremental-repack.schedule", "hourly"]);
    repo.git(&["config", "maintenance.gc.enabled", "false"]);
    run(&["run", "--quiet", "--schedule=hourly"]);
    let index = repo.path().join("objects/pack/multi-pack-index");
    assert!(index.exists());
    std::fs::remove_file(&index).unwrap();
    run(&["run", "--quiet", "--task=incremental-repack"]);
    assert!(index.exists());
}

#[test]
fn whoever_comes_second_goes_away() {
    let repo = build();
    std::fs::write(repo.path().join("objects/maintenance.lock"), "").unwrap();
    let (_, told) = check(repo.path(), &["run", "--no-quiet"], 0);
    assert!(told.starts_with("warning: lock file '") && told.ends_with("skipping maintenance\n"), "{told}");
    assert_eq!(check(repo.path(), &["run", "--auto", "--no-quiet"], 0).1, "");
    check(repo.path(), &["is-needed"], 0);
}

/// If a task fails, the exit code is 1, and the other tasks run.
#[test]
fn a_task_that_fails_is_named() {
    let repo = build();
    std::fs::write(repo.path().join("packed-refs.lock"), "").unwrap();
    let args = ["-c", "core.packedRefsTimeout=1", "maintenance", "run"];
    let output = packrace(repo.path(), &args, "");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: task 'pack-refs' failed: "), "{told}");
    let (status, _) = check(repo.path(), &["status"], 0);
    assert!(!status.contains("bitmap: none"), "{status}");
}
