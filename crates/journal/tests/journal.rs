//! Lines are numbered, durable and whole: beside each other, across segments, after kills, and where the disk fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_journal::{
    Action, Journal, JournalError, JournalEvent, JournalOptions, JournalReader, Line, RefEvent, Unfinished,
};
use packrace_os::simulated::{DiskFault, DiskOp, DiskStep, on_disk};

fn push(session: &str, refs: usize) -> JournalEvent {
    let one = |number: usize| RefEvent {
        name: format!("refs/heads/{number}").into_bytes(),
        old: "0".repeat(40),
        new: "1".repeat(40),
    };
    JournalEvent {
        action: Action::Push,
        time: "2026-11-23T21:00:00Z".into(),
        repository: b"a\xff.git".to_vec(),
        to: None,
        user: None,
        peer: "192.0.2.7:1".into(),
        door: "http".into(),
        session: session.into(),
        refs: (0..refs).map(one).collect(),
        options: vec![b"x".to_vec()],
        is_recovered: false,
    }
}

fn open_with(dir: &Path, options: JournalOptions) -> (Arc<Journal>, Vec<Unfinished>) {
    Journal::open(dir, options, Box::new(|_| {})).unwrap()
}

fn open(dir: &Path) -> (Arc<Journal>, Vec<Unfinished>) {
    open_with(dir, JournalOptions::default())
}

fn record(journal: &Arc<Journal>, event: &JournalEvent) -> Result<u64, JournalError> {
    journal.record(journal.announce(event)?, event)
}

fn rest(reader: &mut JournalReader) -> Vec<Line> {
    std::iter::from_fn(|| reader.next_up_to(u64::MAX).unwrap()).collect()
}

fn sessions(dir: &Path) -> Vec<String> {
    let of = |line: Line| {
        let json: serde_json::Value = serde_json::from_slice(&line.bytes).unwrap();
        assert_eq!(json["seq"], line.seq);
        json["session"].as_str().unwrap().to_owned()
    };
    rest(&mut JournalReader::new(dir, 0)).into_iter().map(of).collect()
}

fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    found.sort();
    found
}

#[test]
fn many_wait_for_one_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, unfinished) = open(&dir.path().join("j"));
    assert!(unfinished.is_empty());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for number in 0..25 {
                    let seq = record(journal, &push(&format!("{thread}/{number}"), 1)).unwrap();
                    assert!(journal.durable() >= seq);
                }
            });
        }
    });
    let lines = rest(&mut JournalReader::new(journal.dir(), 0));
    assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line.missed == 0));
    assert!(journal.syncs() <= 200, "{}", journal.syncs());
    assert!(files(journal.dir(), "pending").is_empty());
    let mut sessions = sessions(journal.dir());
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 200);
    // Who reads what is there to stay waits for the rest.
    let mut reader = JournalReader::new(journal.dir(), 190);
    let some = std::iter::from_fn(|| reader.next_up_to(195).unwrap()).count();
    assert_eq!((some, reader.position()), (6, 196));
}

#[test]
fn one_process_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    let second = Journal::open(dir.path(), JournalOptions::default(), Box::new(|_| {}));
    assert!(matches!(second, Err(JournalError::InUse(_))));
    drop(journal);
    open(dir.path());
}

#[test]
fn segments_come_and_go_under_readers() {
    let dir = tempfile::tempdir().unwrap();
    let options = JournalOptions { segment_bytes: 600, max_bytes: 2000, max_age: Duration::ZERO };
    let (journal, _) = open_with(dir.path(), options);
    let mut eager = JournalReader::new(dir.path(), 0);
    let mut lazy = JournalReader::new(dir.path(), 1);
    for number in 1..=50 {
        assert_eq!(record(&journal, &push(&number.to_string(), 1)).unwrap(), number);
        let lines = rest(&mut eager);
        assert_eq!(lines.iter().map(|line| (line.seq, line.missed)).collect::<Vec<_>>(), [(number, 0)]);
    }
    let kept = rest(&mut lazy);
    assert!(kept.len() < 12, "{}", kept.len());
    assert_eq!(kept[0].missed, kept[0].seq - 1);
    assert_eq!(kept.last().unwrap().seq, 50);
    assert!(files(dir.path(), "events").len() <= 6);
    // What was reserved for more is given back.
    let bytes: u64 = files(dir.path(), "events").iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes < 3000, "{bytes}");
    drop(journal);
    let (journal, _) = open_with(dir.path(), options);
    assert_eq!(record(&journal, &push("again", 1)).unwrap(), 51);
    assert_eq!(rest(&mut eager)[0].seq, 51);
}

#[test]
fn what_is_cut_off_at_any_byte_was_told_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(&dir.path().join("j"));
    for (session, refs) in [("one", 1), ("two", 2001), ("three", 1)] {
        record(&journal, &push(session, refs)).unwrap();
    }
    let segment = &files(journal.dir(), "events")[0];
    let bytes = std::fs::read(segment).unwrap();
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    // Around the ends of lines, and some between.
    let is_near_end = |length: usize| ends.iter().any(|end| end.abs_diff(length) < 3);
    let lengths = (0..=bytes.len())
        .filter(|length| length % 9973 == 0 || length % 17 == 0 && *length < ends[0] || is_near_end(*length));
    for length in lengths {
        let cut = dir.path().join("cut");
        std::fs::create_dir(&cut).unwrap();
        let path = cut.join(segment.file_name().unwrap());
        std::fs::write(&path, &bytes[..length]).unwrap();
        // Room that was reserved may come back as zeros.
        if length % 2 == 0 {
            std::fs::write(&path, [&bytes[..length], &[0; 100]].concat()).unwrap();
        }
        let whole = ends.iter().filter(|end| **end <= length).count() as u64;
        // The second push has three lines, and none of them counts without the others.
        let expect = if (1..4).contains(&whole) { 1 } else { whole };
        let (journal, _) = open(&cut);
        assert_eq!(journal.durable(), expect, "{length}");
        assert_eq!(record(&journal, &push("next", 1)).unwrap(), expect + 1, "{length}");
        drop(journal);
        let lines = rest(&mut JournalReader::new(&cut, 0));
        assert_eq!(lines.last().unwrap().seq, expect + 1);
        std::fs::remove_dir_all(&cut).unwrap();
    }
}

#[test]
fn a_damaged_line_takes_no_other_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    for number in 1..=3 {
        assert_eq!(record(&journal, &push(&number.to_string(), 1)).unwrap(), number);
    }
    drop(journal);
    let segment = &files(dir.path(), "events")[0];
    let mut bytes = std::fs::read(segment).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let (journal, _) = open(dir.path());
    assert_eq!(journal.durable(), 3);
    let lines = rest(&mut JournalReader::new(dir.path(), 0));
    assert_eq!(lines.iter().map(|line| (line.seq, line.missed)).collect::<Vec<_>>(), [(1, 0), (3, 1)]);
}

#[test]
fn what_was_announced_is_handed_out_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    let killed = journal.announce(&push("killed", 3)).unwrap();
    let done = push("done", 1);
    record(&journal, &done).unwrap();
    journal.announce(&push("nothing", 1)).unwrap().cancel();
    // A power cut may bring back what was removed.
    let left = files(dir.path(), "pending");
    assert_eq!(left.len(), 1);
    std::fs::write(dir.path().join("pending-7"), serde_json::to_vec(&done).unwrap()).unwrap();
    std::fs::write(dir.path().join("pending-8"), b"{\"act").unwrap();
    drop(killed);
    drop(journal);
    let (journal, mut unfinished) = open(dir.path());
    let found: Vec<_> = unfinished.iter().map(|one| one.event.clone()).collect();
    assert_eq!(found, [push("killed", 3)]);
    let changed = JournalEvent { is_recovered: true, ..push("killed", 1) };
    journal.resolve(unfinished.remove(0), Some(&changed)).unwrap();
    assert!(files(dir.path(), "pending").is_empty());
    assert_eq!(sessions(dir.path()), ["done", "killed"]);
    // Nothing is announced under a name that was there.
    let announced = journal.announce(&push("later", 1)).unwrap();
    assert_eq!(files(dir.path(), "pending"), [dir.path().join("pending-8")]);
    announced.cancel();
}

/// Announces and records one push on a disk that fails so. Whether it was announced, and whether it was acknowledged.
fn on(fault: DiskFault, dir: &Path) -> (bool, bool, Vec<DiskStep>) {
    let (journal, _) = open(dir);
    record(&journal, &push("before", 1)).unwrap();
    let event = push("it", 1500);
    let ((announced, recorded), steps) = on_disk(fault, || match journal.announce(&event) {
        Ok(announced) => (true, journal.record(announced, &event).is_ok()),
        Err(error) => {
            assert!(matches!(error, JournalError::Disk(_)), "{error}");
            (false, false)
        }
    });
    if matches!(fault, DiskFault::At(..)) {
        // Where nothing was changed for nothing, all goes on.
        assert_eq!(record(&journal, &push("after", 1)).is_ok(), recorded || !announced);
    }
    (announced, recorded, steps)
}

#[test]
fn a_disk_that_fails_at_any_step_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (.., steps) = on(DiskFault::None, &dir.path().join("none"));
    assert!(steps.iter().any(|step| step.op == DiskOp::Sync), "{steps:?}");
    for at in 0..steps.len() {
        for fault in [DiskFault::At(at, std::io::ErrorKind::StorageFull), DiskFault::StopAt(at)] {
            let dir = dir.path().join(format!("{fault:?}").replace(|c: char| !c.is_alphanumeric(), "-"));
            let (announced, recorded, _) = on(fault, &dir);
            let (_, unfinished) = open(&dir);
            let lines = sessions(&dir).iter().filter(|session| *session == "it").count();
            assert!(lines == 0 || lines == 2, "{fault:?}: {lines}");
            if recorded {
                assert_eq!(lines, 2, "{fault:?}");
            }
            if announced {
                // Its refs may have changed.
                assert!(lines == 2 || unfinished.len() == 1, "{fault:?}");
            } else {
                assert_eq!(lines, 0, "{fault:?}");
            }
            assert!(lines == 0 || unfinished.is_empty(), "{fault:?}");
        }
    }
}
