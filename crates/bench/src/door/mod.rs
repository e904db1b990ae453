//! The cost of access: authentication, access rules, TLS and SSH; compared with nginx and git http-backend,
//! and with sshd and git upload-pack.
//!
//! Everything is encrypted with AES-256-GCM: the clients offer nothing else. Each request has its own
//! connection.

mod clients;
mod clones;
mod listings;
mod servers;
mod shell;
mod silent;
mod waits;

use std::path::Path;
use std::process::{Command, Stdio};

use packrace_testkit::Git;
use serde_json::Value;

use crate::Error;
use crate::args::Args;
use servers::Site;

/// Prints all access measurements; an error if an answer is wrong.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("door needs a packrace")?;
    let mut records = listings::run(args, git, binary)?;
    if Command::new("ssh-keygen").arg("-?").stderr(Stdio::null()).status().is_err() {
        println!("ssh-keygen is missing (package openssh-client): nothing is measured of TLS and SSH.");
        return Ok(records);
    }
    let site = Site::new(args, git, binary)?;
    records.extend(clones::run(args, &site)?);
    records.extend(shell::run(&site)?);
    records.extend(waits::advertised(args, &site)?);
    records.extend(waits::beside_clones(args, &site)?);
    records.extend(silent::run(args, &site)?);
    Ok(records)
}
