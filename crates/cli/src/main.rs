//! `packrace`: Git's data path for people who host Git.

use std::process::ExitCode;

fn main() -> ExitCode {
    packrace_cli::packrace()
}
