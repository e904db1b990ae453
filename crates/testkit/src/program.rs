//! Programs that tests write and run. Other processes write them: as long as a thread of this one has a file open for writing, a
//! process that another thread starts may have it open, too, and running the file fails (`Text file busy`).

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script, which replaces what is there, and its directories; it may be run.
pub fn write_program(path: &Path, text: &str) {
    const WRITE: &str = "rm -f \"$0\" && mkdir -p \"$(dirname \"$0\")\" && cat >\"$0\" && chmod 755 \"$0\"";
    let mut command = Command::new("sh");
    let mut shell = command.args(["-c", WRITE]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{}", path.display());
}

/// Copies a program.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success(), "{}", to.display());
}
