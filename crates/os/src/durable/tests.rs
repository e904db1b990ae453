use super::*;
use crate::simulated::{DiskFault, DiskStep, on_disk};

/// Checks the lengths of the writes for a file made of `pieces`.
fn check(pieces: &[usize], expect: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let content: Vec<u8> = (0..pieces.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
    let ((), steps) = on_disk(DiskFault::None, || {
        let mut file = NewFile::create_temporary(dir.path(), "tmp_", 0o644, Role::Objects).unwrap();
        let mut at = 0;
        for piece in pieces {
            file.write(&content[at..at + piece]).unwrap();
            at += piece;
            assert_eq!(file.len(), at as u64);
        }
        file.replace(&path).unwrap();
    });
    let written = steps.iter().filter_map(|step| match step.op {
        DiskOp::Write(bytes) => Some(bytes),
        _ => None,
    });
    assert_eq!(written.collect::<Vec<_>>(), expect, "{pieces:?}");
    assert!(std::fs::read(&path).unwrap() == content);
}

fn names(dir: &Path) -> Vec<String> {
    let listing = crate::list_dir(dir, Role::Objects).unwrap();
    listing.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn writes_are_large_and_aligned() {
    const MIB: usize = PIECE_BYTES;
    check(&[], &[]);
    check(&[0, 5, 0], &[5]);
    check(&[MIB], &[MIB]);
    check(&[MIB - 1, 1, 1], &[MIB, 1]);
    check(&[MIB - 1, 2], &[MIB, 1]);
    check(&[1, 3 * MIB], &[3 * MIB, 1]);
    check(&[10, 2 * MIB + 100, MIB - 200], &[2 * MIB, MIB - 90]);
    check(&[MIB / 4; 9], &[MIB, MIB, MIB / 4]);
}

#[test]
fn what_was_written_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = NewFile::create_temporary(dir.path(), "tmp_", 0o444, Role::Objects).unwrap();
    file.write(b"hello world").unwrap();
    file.overwrite(0, b"J").unwrap();
    assert_eq!(&*file.map().unwrap(), b"Jello world");
    file.truncate(5).unwrap();
    assert_eq!((file.len(), file.is_empty()), (5, false));
    file.write(b"!").unwrap();
    file.sync().unwrap();
    file.replace(&dir.path().join("f")).unwrap();
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"Jello!");
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn a_name_is_taken_only_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let made = |content: &[u8]| {
        let mut file = NewFile::create_temporary(dir.path(), "tmp_", 0o644, Role::Objects).unwrap();
        file.write(content).unwrap();
        file
    };
    assert!(made(b"1").publish(&path).unwrap().is_none());
    let refused = made(b"2").publish(&path).unwrap().unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    refused.discard().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"1");
    made(b"3").replace(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"3");
    drop(made(b"4"));
    assert_eq!(names(dir.path()), ["f"]);
    let refused = NewFile::create(&path, 0o644, Role::Objects).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert!(remove_file(&path, Role::Objects).unwrap());
    assert!(!remove_file(&path, Role::Objects).unwrap());
}

#[test]
fn both_ways_to_a_new_name_spare_what_is_there() {
    for give_name in [rename_to_new, link_to_new] {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        std::fs::write(&from, "1").unwrap();
        give_name(&from, &to).unwrap();
        assert_eq!(names(dir.path()), ["to"]);
        std::fs::write(&from, "2").unwrap();
        assert_eq!(give_name(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap()), (b"2".into(), b"1".into()));
    }
}

#[test]
fn modes() {
    let dir = tempfile::tempdir().unwrap();
    let mode_of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut file = NewFile::create_temporary(dir.path(), "tmp_", 0o400, Role::Objects).unwrap();
    file.write(b"a file that its mode forbids to write").unwrap();
    file.change_mode(|mode| mode | 0o040).unwrap();
    assert_eq!(mode_of(file.path()), 0o440);
    let ((), steps) = on_disk(DiskFault::None, || file.change_mode(|mode| mode).unwrap());
    assert!(steps.is_empty());

    let sub = dir.path().join("sub");
    assert!(make_dir(&sub, |mode| mode | 0o2770, Role::Objects).unwrap());
    assert_eq!(mode_of(&sub) & 0o2770, 0o2770);
    assert!(!make_dir(&sub, |_| 0, Role::Objects).unwrap());
    assert!(make_dir(&dir.path().join("no/sub"), |mode| mode, Role::Objects).is_err());
    sync_dir(&sub, Role::Objects).unwrap();
    assert!(sync_dir(&dir.path().join("no"), Role::Objects).is_err());
}

#[test]
fn touching_moves_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = File::create(&path).unwrap();
    file.set_permissions(PermissionsExt::from_mode(0o444)).unwrap();
    let modified = || file.metadata().unwrap().modified().unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(modified(), SystemTime::UNIX_EPOCH);
    touch(&path, Role::Objects).unwrap();
    assert_ne!(modified(), SystemTime::UNIX_EPOCH);
    assert!(touch(&dir.path().join("no"), Role::Objects).is_err());
}

#[test]
fn every_step_can_fail_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let make = || {
        let mut file = NewFile::create_temporary(dir.path(), "tmp_", 0o444, Role::Objects)?;
        file.write(b"x")?;
        file.sync()?;
        file.replace(&path)
    };
    let (result, steps) = on_disk(DiskFault::None, make);
    result.unwrap();
    let ops = |steps: &[DiskStep]| steps.iter().map(|step| step.op.clone()).collect::<Vec<_>>();
    assert_eq!(ops(&steps), [DiskOp::Create, DiskOp::Write(1), DiskOp::Sync, DiskOp::Rename(path.clone())]);
    std::fs::remove_file(&path).unwrap();
    for at in 0..4 {
        let (result, steps) = on_disk(DiskFault::At(at, io::ErrorKind::StorageFull), make);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(ops(&steps).last() == Some(&DiskOp::Remove), at > 0);
        assert_eq!(names(dir.path()), [""; 0], "{at}");
    }
    let (result, _) = on_disk(DiskFault::StopAt(2), make);
    assert!(result.is_err());
    assert_eq!(names(dir.path()).len(), 1, "a process that was killed leaves its temporary");
}

#[test]
fn temporaries_tell_which_process_made_them() {
    let dir = tempfile::tempdir().unwrap();
    let make = || make_temporary_dir(dir.path(), "tmp_x_", Role::Objects).unwrap();
    for _ in 0..100 {
        let path = make();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.len(), "tmp_x_".len() + 6);
        assert!(is_temporary_of(temporary_key(), name), "{name}");
        assert!(!is_temporary_of(temporary_key() ^ 1, name), "{name}");
    }
    // Names are equal in every version: a later one removes leftovers of this one.
    assert!(is_temporary_of(1, "tmp_pack_abcIdz"));
    for other in ["", "abc", "tmp_objdir-incoming-", "tmp_pack_äbcde", "tmp_pack_abc.ef"] {
        assert!(!is_temporary_of(temporary_key(), other), "{other}");
    }
}
