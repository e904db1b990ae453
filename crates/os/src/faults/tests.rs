use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Barrier;

use super::*;
use crate::count::Role;
use crate::sink::{FdSink, Sink};
use crate::{Mapped, Standing};

/// Names the task of a child process of these tests.
const TASK: &str = "PACKRACE_TEST_FAULT";

/// Creates a file of `length` sevens, and maps it.
fn mapped(dir: &Path, name: &str, length: usize) -> (File, Mapped) {
    let path = dir.join(name);
    std::fs::write(&path, vec![7; length]).unwrap();
    let map = Mapped::open(&path, Role::Pack).unwrap();
    (File::options().write(true).open(path).unwrap(), map)
}

#[test]
fn a_truncated_map_reads_as_zeros_and_is_marked() {
    contain(Scope::Work).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (file, map) = mapped(dir.path(), "pack", 1 << 20);
    let (_other, whole) = mapped(dir.path(), "other", 1 << 20);
    let before = damaged_maps();
    assert_eq!(map.check(), Ok(()));
    file.set_len(5000).unwrap();
    // Many threads fault at once.
    let all = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (map, all) = (&map, &all);
            scope.spawn(move || {
                all.wait();
                assert_eq!(map[500_000 + number], 0);
                assert!(map.is_damaged());
            });
        }
    });
    assert!(map.iter().all(|byte| *byte == 0) && whole.iter().all(|byte| *byte == 7));
    let path = dir.path().join("pack");
    let damaged = map.clone().check().unwrap_err();
    assert_eq!(damaged.path.as_deref(), Some(path.as_path()));
    assert!(damaged.to_string().starts_with(&format!("{}: the file was truncated", path.display())));
    assert_eq!(map.look(Role::Pack), Standing::Damaged(damaged));
    assert!(whole.check().is_ok() && damaged_maps() > before);
    // Pages dropped by the kernel come back as zeros, and the map's slot can be reused.
    map.let_go();
    assert_eq!(map[0], 0);
    drop(map);
    let (_again, map) = mapped(dir.path(), "pack", 1 << 20);
    assert!(!map.is_damaged() && map[500_000] == 7);
}

#[test]
fn a_look_finds_what_raises_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let check = |name: &str, change: &dyn Fn(&Path, &mut File)| {
        let (mut file, map) = mapped(dir.path(), name, 3000);
        change(&dir.path().join(name), &mut file);
        (map.look(Role::Pack), map.is_damaged())
    };
    assert_eq!(check("same", &|_, _| ()), (Standing::Same, false));
    assert!(matches!(check("shorter", &|_, file| file.set_len(2000).unwrap()), (Standing::Damaged(_), true)));
    assert!(matches!(check("longer", &|_, file| file.set_len(4000).unwrap()), (Standing::Damaged(_), true)));
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    let touched = check("touched", &|_, file| file.set_modified(later).unwrap());
    assert!(matches!(touched, (Standing::Touched(_), false)));
    let removed = check("removed", &|path, _| std::fs::remove_file(path).unwrap());
    assert_eq!(removed, (Standing::Elsewhere, false));
    let replaced = check("replaced", &|path, _| {
        std::fs::write(path.with_extension("new"), "other").unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    });
    assert_eq!(replaced, (Standing::Elsewhere, false));
}

/// When the kernel reads a map for a write, it returns EFAULT instead of raising a signal.
#[test]
fn a_write_from_a_truncated_map_marks_it_and_goes_on_with_zeros() {
    contain(Scope::Work).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (file, map) = mapped(dir.path(), "pack", 32 << 10);
    let (mut reader, writer) = io::pipe().unwrap();
    file.set_len(0).unwrap();
    let mut sink = FdSink::new(writer.into());
    assert!(!map.is_damaged());
    crate::sink::write_all(&mut sink, &[b"head", &map[..], b"tail"]).unwrap();
    assert!(map.is_damaged());
    drop(sink);
    let mut got = Vec::new();
    io::Read::read_to_end(&mut reader, &mut got).unwrap();
    assert_eq!(got, [b"head".as_slice(), &vec![0; 32 << 10], b"tail"].concat());
}

#[test]
fn what_cannot_be_read_and_is_no_map_is_an_error() {
    contain(Scope::Work).unwrap();
    let mut sink = FdSink::new(File::options().write(true).open("/dev/null").unwrap().into());
    assert!(sink.write_gathered(&[io::IoSlice::new(b"x")]).is_ok());
    assert!(is_unreadable(&io::Error::from_raw_os_error(libc::EFAULT)));
    assert!(!is_unreadable(&io::ErrorKind::BrokenPipe.into()));
}

#[test]
fn many_maps_come_and_go_beside_faults() {
    contain(Scope::Work).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = dir.path().join(number.to_string());
            scope.spawn(move || {
                let mut file = File::create(&path).unwrap();
                file.write_all(&[7; 8192]).unwrap();
                let mut kept = Vec::new();
                for round in 0..1000 {
                    kept.push(Mapped::open(&path, Role::Pack).unwrap());
                    if round % 7 == 0 {
                        kept.truncate(kept.len() / 2);
                    }
                    if round % 100 == 0 {
                        file.set_len(0).unwrap();
                        let faulted = kept.pop();
                        assert!(faulted.is_none_or(|map| map[8000] == 0 && map.is_damaged()));
                        kept.clear();
                        file.set_len(8192).unwrap();
                    }
                }
                assert!(kept.iter().all(|map| !map.is_damaged() && map[8000] == 0));
            });
        }
    });
    // More than a slab holds, all at once.
    let (_file, first) = mapped(dir.path(), "many", 4096);
    let many: Vec<Mapped> =
        (0..5000).map(|_| Mapped::open(&dir.path().join("many"), Role::Pack).unwrap()).collect();
    for map in many.iter().chain([&first]) {
        let (_, start, length) = find(map.as_ptr().addr() + 17).unwrap();
        assert_eq!((start, length), (map.as_ptr().addr(), 4096));
    }
    assert!(find(first.as_ptr().addr() - 1).is_none_or(|(_, start, _)| start != first.as_ptr().addr()));
    assert!(find(0).is_none() && find(usize::MAX).is_none());
}

/// Runs one of the tasks in its own process.
fn child(task: &str) -> std::process::Output {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "faults::tests::in_a_child", "--nocapture"]).env(TASK, task).output().unwrap()
}

/// Not a test of its own: runs the tasks of the other tests.
#[test]
#[allow(unsafe_code)]
fn in_a_child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, map) = mapped(dir.path(), "pack", 1 << 16);
    match task.as_str() {
        "foreign" => {
            contain(Scope::Work).unwrap();
            let path = dir.path().join("pack");
            let read = File::open(&path).unwrap();
            use rustix::mm::{MapFlags, ProtFlags, mmap};
            // SAFETY: a fresh map of a file that only this test uses.
            let start = unsafe {
                mmap(ptr::null_mut(), 1 << 16, ProtFlags::READ, MapFlags::PRIVATE, &read, 0).unwrap()
            };
            file.set_len(0).unwrap();
            // SAFETY: the address is mapped; the test is that reading it fails.
            let byte = unsafe { start.cast::<u8>().read_volatile() };
            println!("survived {byte}");
        }
        "uncontained" => {
            file.set_len(0).unwrap();
            println!("survived {}", map[9]);
        }
        "process" => {
            contain(Scope::Process).unwrap();
            let (old, new) = (dir.path().join("old"), dir.path().join("new"));
            let name = |path: &Path| crate::durable::rename_file(path, &new, Role::Config);
            std::fs::write(&old, "x").unwrap();
            name(&old).unwrap();
            file.set_len(0).unwrap();
            assert_eq!(map[9], 0);
            std::fs::write(&old, "y").unwrap();
            let error = name(&old).unwrap_err();
            assert!(error.to_string().contains("pack: the file was truncated"), "{error}");
            assert_eq!(std::fs::read(&new).unwrap(), b"x");
            println!("refused");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_fault_elsewhere_ends_the_process_as_before() {
    for task in ["foreign", "uncontained"] {
        let output = child(task);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{task}: {text}");
        assert!(!text.contains("survived"), "{task}: {text}");
    }
}

#[test]
fn a_process_that_serves_nobody_else_names_no_file_after_a_fault() {
    let output = child("process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("refused"), "{text}");
}
