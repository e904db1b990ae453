use super::*;
use crate::count::Role;
use crate::durable::{self, NewFile};

/// Each possible state after this many changes, as `name=content` with a slash after
/// directories, in any order.
fn states(recording: &Recording, done: usize) -> Vec<String> {
    let states = recording.crashed(done, 1000);
    assert_eq!(states.first(), Some(&recording.killed(done)));
    let mut shown: Vec<String> = states.iter().map(show).collect();
    shown.sort();
    shown
}

fn show(state: &DiskState) -> String {
    let entries = state.entries().map(|(name, content)| match content {
        None => format!("{}/", name.display()),
        Some(bytes) => format!("{}={}", name.display(), bytes.escape_ascii()),
    });
    entries.collect::<Vec<_>>().join(" ")
}

/// Runs `work` in a directory with the file `old`, and compares the possible final states.
fn check(work: impl FnOnce(&Path) -> io::Result<()>, expect: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old"), "1").unwrap();
    let (result, recording) = recorded(dir.path(), || work(dir.path())).unwrap();
    result.unwrap();
    let all = recording.changes().len();
    assert_eq!(states(&recording, all), expect, "{:?}", recording.changes());
    assert_eq!(
        recording.killed(all),
        DiskState::of(dir.path()).unwrap(),
        "what was recorded is what happened"
    );
    assert_eq!(states(&recording, 0), ["old=1"]);
}

fn file(path: &Path, content: &str) -> io::Result<NewFile> {
    let mut file = NewFile::create(path, 0o644, Role::Objects)?;
    file.write(content.as_bytes())?;
    file.flush()?;
    Ok(file)
}

fn sync(dir: &Path) -> io::Result<()> {
    durable::sync_dir(dir, Role::Objects)
}

#[test]
fn data_that_was_not_synced() {
    let replace = |dir: &Path, is_synced: bool| {
        let mut file = file(&dir.join("new"), "ab")?;
        if is_synced {
            file.sync()?;
        }
        file.replace(&dir.join("old"))?;
        sync(dir)
    };
    check(|dir| replace(dir, false), &["old=", "old=\\x00\\x00", "old=a", "old=ab"]);
    check(|dir| replace(dir, true), &["old=ab"]);
    let add = |dir: &Path, is_synced| {
        durable::append(&dir.join("old"), b"23", None, |mode| mode, is_synced, Role::Objects)
            .map(|was_there| assert!(was_there))
    };
    check(|dir| add(dir, false), &["old=1", "old=12", "old=123", "old=1\\x00\\x00"]);
    check(|dir| add(dir, true), &["old=123"]);
    let change = |dir: &Path| {
        let mut file = file(&dir.join("f"), "abcd")?;
        file.sync()?;
        sync(dir)?;
        file.overwrite(1, b"XY")?;
        file.truncate(3)?;
        file.replace(&dir.join("old"))?;
        sync(dir)
    };
    check(change, &["old=aXY", "old=aXc", "old=a\\x00\\x00", "old=abcd"]);
}

#[test]
fn names_that_were_not_synced() {
    check(|dir| durable::remove_file(&dir.join("old"), Role::Objects).map(drop), &["", "old=1"]);
    let two = |dir: &Path| {
        for name in ["a", "b"] {
            file(&dir.join(name), "")?.publish(&dir.join(format!("{name}2")))?;
        }
        Ok(())
    };
    // Each in three states, independently of the other.
    let expect = [
        "a2= b2= old=1",
        "a2= b= old=1",
        "a2= old=1",
        "a= b2= old=1",
        "a= b= old=1",
        "a= old=1",
        "b2= old=1",
        "b= old=1",
        "old=1",
    ];
    check(two, &expect);
    let one_synced = |dir: &Path| {
        file(&dir.join("a"), "")?.replace(&dir.join("old"))?;
        sync(dir)?;
        file(&dir.join("b"), "")?.replace(&dir.join("old"))
    };
    check(one_synced, &["b= old=", "old="]);
}

#[test]
fn one_name_keeps_its_order() {
    let again = |dir: &Path| {
        for content in ["2", "3"] {
            let mut file = file(&dir.join("lock"), content)?;
            file.sync()?;
            file.replace(&dir.join("old"))?;
        }
        Ok(())
    };
    check(again, &["lock=2 old=1", "lock=3 old=2", "old=1", "old=2", "old=3"]);
}

#[test]
fn directories_hold_what_is_in_them() {
    let make = |dir: &Path, synced: &[&str]| {
        durable::make_dir(&dir.join("d"), |mode| mode, Role::Objects)?;
        let mut file = file(&dir.join("d/f"), "x")?;
        file.sync()?;
        file.replace(&dir.join("d/g"))?;
        synced.iter().try_for_each(|name| sync(&dir.join(name)))
    };
    check(|dir| make(dir, &[]), &["d/ d/f=x old=1", "d/ d/g=x old=1", "d/ old=1", "old=1"]);
    check(|dir| make(dir, &["d"]), &["d/ d/g=x old=1", "old=1"]);
    check(|dir| make(dir, &[""]), &["d/ d/f=x old=1", "d/ d/g=x old=1", "d/ old=1"]);
    check(|dir| make(dir, &["d", ""]), &["d/ d/g=x old=1"]);
    let remove = |dir: &Path, is_synced: bool| {
        make(dir, &["d", ""])?;
        durable::remove_file(&dir.join("d/g"), Role::Objects)?;
        durable::remove_empty_dir(&dir.join("d"), Role::Objects)?;
        if is_synced { sync(dir) } else { Ok(()) }
    };
    check(|dir| remove(dir, false), &["d/ d/g=x old=1", "d/ old=1", "old=1"]);
    check(|dir| remove(dir, true), &["old=1"]);
    // A file moved out of a directory does not vanish with it.
    let move_out = |dir: &Path, is_synced: bool| {
        make(dir, &[])?;
        durable::rename_file(&dir.join("d/g"), &dir.join("h"), Role::Objects)?;
        if is_synced { sync(dir) } else { Ok(()) }
    };
    let all = ["d/ d/f=x old=1", "d/ d/g=x old=1", "d/ h=x old=1", "d/ old=1", "h=x old=1", "old=1"];
    check(|dir| move_out(dir, false), &all);
    check(|dir| move_out(dir, true), &["d/ h=x old=1"]);
}

#[test]
fn a_disk_that_leaves_out_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let work = || -> io::Result<()> {
        let mut file = file(&dir.path().join("f"), "x")?;
        file.sync()?;
        file.keep()?;
        sync(dir.path())
    };
    let (done, recording) = recorded(dir.path(), work).unwrap();
    done.unwrap();
    let count = recording.changes().len();
    let states = |recording: &Recording| recording.crashed(count, 100).len();
    let lying = [0, 1].map(|number| states(&recording.without_sync(number).unwrap()));
    assert_eq!((states(&recording), lying), (1, [3, 2]), "whole; or empty or zero; or not there");
    assert!(recording.without_sync(2).is_none());
}

#[test]
fn states_are_laid_out() {
    let dir = tempfile::tempdir().unwrap();
    let [work, copy] = ["work", "copy"].map(|name| dir.path().join(name));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&copy).unwrap();
    let many = || -> io::Result<()> {
        durable::make_dir(&work.join("d"), |mode| mode, Role::Objects)?;
        for number in 0..4 {
            file(&work.join(format!("d/{number}.lock")), "new")?
                .replace(&work.join(format!("d/{number}")))?;
        }
        sync(&work.join("d"))?;
        sync(&work)?;
        durable::remove_file(&work.join("d/0"), Role::Objects)?;
        file(&work.join("d/0"), "")?.replace(&work.join("d/1"))
    };
    let (result, recording) = recorded(&work, many).unwrap();
    result.unwrap();
    let mut count = 0;
    for done in 0..=recording.changes().len() {
        for max in [1, 7, 60] {
            let states = recording.crashed(done, max);
            assert!(states.len() <= max);
            assert_eq!(states, recording.crashed(done, max), "the same each time");
            let different: HashSet<&DiskState> = states.iter().collect();
            assert_eq!(different.len(), states.len());
            for state in &states {
                state.lay_out(&copy).unwrap();
                assert_eq!(DiskState::of(&copy).unwrap(), *state);
            }
            count += states.len();
        }
    }
    assert!(count > 500, "{count}");
    // A file replaces a directory, and vice versa.
    std::fs::remove_dir_all(&copy).unwrap();
    std::fs::create_dir_all(copy.join("d/1/x")).unwrap();
    std::fs::write(copy.join("e"), "").unwrap();
    let state = DiskState::of(&copy).unwrap();
    recording.killed(recording.changes().len()).lay_out(&copy).unwrap();
    assert_eq!(DiskState::of(&copy).unwrap(), DiskState::of(&work).unwrap());
    state.lay_out(&copy).unwrap();
    assert_eq!(DiskState::of(&copy).unwrap(), state);
}

#[test]
fn what_fails_is_not_recorded() {
    use crate::simulated::{DiskFault, on_disk};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let work = || {
        on_disk(DiskFault::At(1, io::ErrorKind::StorageFull), || {
            assert!(file(&path, "x").is_err());
            assert!(!durable::remove_file(&dir.path().join("no"), Role::Objects).unwrap());
            assert!(sync(&dir.path().join("no")).is_err());
            changes_so_far()
        })
    };
    let ((count, steps), recording) = recorded(dir.path(), work).unwrap();
    assert_eq!((count, steps.len()), (2, 5));
    assert_eq!(recording.changes(), [DiskChange::Create(path.clone()), DiskChange::Remove(path)]);
    assert_eq!(changes_so_far(), 0);
}
