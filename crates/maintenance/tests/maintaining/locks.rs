//! One job at a time, and not beside git's; what a killed one has left goes.

use std::path::Path;
use std::time::Duration;

use packrace_os::clock::time_of_day;
use packrace_os::process;
use packrace_testkit::{Git, RepoBuilder, Size};

use crate::{facts, take_lock};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn nobody_else_is_at_it() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let now = time_of_day();
    let (lock, pid) = (repo.path().join("objects/maintenance.lock"), repo.path().join("gc.pid"));
    let held = take_lock(repo.path(), now).unwrap();
    let gc = || Git::stock().command(repo.path()).args(["gc", "-q"]).output().unwrap();
    // Stock git sees both.
    assert!(lock.exists() && pid.exists());
    assert!(!gc().status.success());
    let maintenance =
        Git::stock().command(repo.path()).args(["maintenance", "run", "--no-quiet"]).output().unwrap();
    let said = String::from_utf8_lossy(&maintenance.stderr).into_owned();
    assert!(said.contains("skipping maintenance"), "{said}");
    assert!(take_lock(repo.path(), now).unwrap_err().contains("maintenance.lock"));
    drop(held);
    assert!(!lock.exists() && !pid.exists());
    assert!(gc().status.success());
    // It is moved meanwhile by nobody, and afterwards by anybody.
    drop(take_lock(repo.path(), now).unwrap());
}

#[test]
fn locks_of_git_count_for_a_day() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (now, lock) = (time_of_day(), repo.path().join("objects/maintenance.lock"));
    write(&lock, "");
    assert!(take_lock(repo.path(), now + 23 * HOUR).unwrap_err().contains("exists"));
    drop(take_lock(repo.path(), now + 25 * HOUR).unwrap());
    assert!(!lock.exists());
}

#[test]
fn a_running_gc_counts_for_half_a_day() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (now, pid) = (time_of_day(), repo.path().join("gc.pid"));
    for (text, hours, is_free) in [
        ("1 elsewhere".to_owned(), 11, false),
        ("1 elsewhere".to_owned(), 13, true),
        (format!("1 {}", process::host_name()), 11, false),
        (format!("{} {}", i32::MAX, process::host_name()), 0, true),
        ("what".to_owned(), 0, true),
    ] {
        write(&pid, &text);
        assert_eq!(take_lock(repo.path(), now + hours * HOUR).is_ok(), is_free, "{text} {hours}");
    }
}

#[test]
fn a_killed_job_is_cleaned_up_after() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (now, lock) = (time_of_day(), repo.path().join("objects/maintenance.lock"));
    let host = process::host_name();
    let key = packrace_os::durable::temporary_key();
    let pack = repo.path().join("objects/pack");
    for (text, is_free) in [
        (format!("packrace 1 {host} {key:016x}\n"), false),
        (format!("packrace {} elsewhere {key:016x}\n", i32::MAX), false),
        (format!("packrace {} {host} {key:016x}\n", process::id()), false),
        // In a container, the next process has the number of the last one.
        (format!("packrace {} {host} {:016x}\n", process::id(), key ^ 1), true),
        (format!("packrace {} {host} {key:016x}\n", i32::MAX), true),
    ] {
        write(&lock, &text);
        let taken = take_lock(repo.path(), now);
        assert_eq!(taken.is_ok(), is_free, "{text}");
        assert!(taken.is_err() || taken.unwrap().predecessor().is_some());
        let _ = std::fs::remove_file(&lock);
    }
    // Temporaries that it made go at once, those of others when they are old.
    write(&lock, &format!("packrace {} {host} {key:016x}\n", i32::MAX));
    let ours = packrace_os::durable::make_temporary_dir(&pack, "x", packrace_os::count::Role::Pack).unwrap();
    let letters = &ours.file_name().unwrap().to_str().unwrap()[1..];
    std::fs::remove_dir(&ours).unwrap();
    let (ours, theirs) = (pack.join(format!("tmp_pack_{letters}")), pack.join("tmp_pack_000000"));
    write(&ours, "x");
    write(&theirs, "x");
    let held = take_lock(repo.path(), now).unwrap();
    let found = packrace_maintenance::stale_files::find(&crate::open(repo.path()), now, held.predecessor());
    assert_eq!(found.unwrap().remove().count, 1);
    assert!(!ours.exists() && theirs.exists());
    assert_eq!(facts(repo.path(), now).stale.count, 0);
    assert_eq!(facts(repo.path(), now + 25 * HOUR).stale.count, 1);
}
