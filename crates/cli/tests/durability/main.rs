//! Acknowledged changes survive: on a file system that loses everything unsynced, at any moment of a power
//! cut, and after a kill of the process at any moment.
//!
//! The real binary runs on a mounted file system, which records every change. From that,
//! `os::simulated::Recording` computes what a disk may show after a crash at any point. Stock git inspects
//! these states.

mod cases;
mod images;
mod kills;
mod power;

use std::path::Path;
use std::process::{Command, Output};

use packrace_testkit::{Git, clean_environment, scratch_dir};

/// The binary under test.
const PACKRACE: &str = env!("CARGO_BIN_EXE_packrace");

fn packrace(dir: &Path) -> Command {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.current_dir(dir);
    command
}

fn git(dir: &Path, args: &[&str]) -> String {
    Git::stock().run(dir, args)
}

/// Runs stock git, and does not judge the outcome.
fn ask_git(dir: &Path, args: &[&str]) -> Output {
    Git::stock().command(dir).args(args).output().unwrap()
}

/// Checks that stock git finds nothing wrong.
fn assert_sound(dir: &Path, what: &str) {
    let output = ask_git(dir, &["fsck", "--full", "--strict", "--no-dangling"]);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&said));
}

/// Removes the locks of a killed process, as git tells its user to do.
fn remove_locks(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => remove_locks(&path),
            Some(extension) if extension == "lock" => std::fs::remove_file(path).unwrap(),
            _ => {}
        }
    }
}
