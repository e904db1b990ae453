//! `packrace-service`: what a process does for one client of Git.

use std::process::ExitCode;

fn main() -> ExitCode {
    packrace_cli::service()
}
