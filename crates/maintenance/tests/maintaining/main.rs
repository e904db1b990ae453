//! Repositories that are maintained: stock git finds the same objects in them, and there is nothing left to do.

mod crashes;
mod deltas;
mod locks;
mod repacks_at_once;
mod stale;
mod states;

use std::path::Path;
use std::time::SystemTime;

use packrace_maintenance::policy::{self, Occasion};
use packrace_maintenance::{
    Error, Facts, Locking, MaintenanceLock, MaintenanceSettings, Means, Task, measure, run,
};
use packrace_os::clock::time_of_day;
use packrace_pack::NoProgress;
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;

fn open(path: &Path) -> Repository {
    Repository::open(path, &OpenOptions::default()).unwrap()
}

fn facts(path: &Path, now: SystemTime) -> Facts {
    let repository = open(path);
    measure(&repository, &MaintenanceSettings::of(&repository).unwrap(), now, None).unwrap()
}

fn planned(path: &Path, occasion: Occasion) -> Vec<Task> {
    let repository = open(path);
    let settings = MaintenanceSettings::of(&repository).unwrap();
    let facts = measure(&repository, &settings, time_of_day(), None).unwrap();
    policy::plan(&facts, &settings, occasion).into_iter().map(|planned| planned.task).collect()
}

fn take_lock(path: &Path, now: SystemTime) -> Result<Box<MaintenanceLock>, String> {
    match MaintenanceLock::take(&open(path), now).unwrap() {
        Locking::Held(lock) => Ok(lock),
        Locking::Busy(who) | Locking::BusyWithGc(who) => Err(who),
    }
}

/// Does what the repository needs, and what is named beside it. Gives what was done.
fn maintain_at(path: &Path, now: SystemTime, named: &[Task]) -> Result<Vec<Task>, Error> {
    let repository = open(path);
    let settings = MaintenanceSettings::of(&repository)?;
    let Locking::Held(lock) = MaintenanceLock::take(&repository, now)? else { panic!("somebody is at it") };
    let facts = measure(&repository, &settings, now, None)?;
    let mut planned = policy::plan(&facts, &settings, Occasion::Asked);
    planned.extend(named.iter().map(|task| policy::asked_for(&facts, *task)));
    let means = Means {
        threads: 1,
        memory_bytes: None,
        recent: Some(Vec::new()),
        now,
        progress: &NoProgress,
        past_refs: &|| {},
    };
    for planned in &planned {
        run(&repository, &settings, planned, &lock, &means)?;
    }
    Ok(planned.into_iter().map(|planned| planned.task).collect())
}

fn maintain(path: &Path) -> Vec<Task> {
    maintain_at(path, time_of_day(), &[]).unwrap()
}

/// Stock git finds nothing wrong.
fn assert_sound(path: &Path, what: &str) {
    let git = Git::stock();
    let output = git.command(path).args(["fsck", "--full", "--strict", "--no-dangling"]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&said));
    if path.join("objects/pack/multi-pack-index").exists() {
        git.run(path, &["multi-pack-index", "verify", "--no-progress"]);
    }
    git.run(path, &["commit-graph", "verify", "--no-progress"]);
}

/// Names of all files below a folder.
fn files(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path.file_name().unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    found
}

/// Nothing is there that a process has left.
fn assert_no_litter(path: &Path, what: &str) {
    let files = files(path);
    let is_litter = |name: &&String| {
        let stem = name.strip_prefix("pack-").and_then(|name| name.split('.').next());
        let has_index = |stem: &str| files.contains(&format!("pack-{stem}.idx"));
        name.contains("tmp")
            || name.ends_with(".lock")
            || *name == "gc.pid"
            || stem.is_some_and(|stem| !has_index(stem))
    };
    let litter: Vec<&String> = files.iter().filter(is_litter).collect();
    assert!(litter.is_empty(), "{what}: {litter:?}");
}
