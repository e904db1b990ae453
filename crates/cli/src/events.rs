//! `packrace events`: prints a server's journal.

use std::path::Path;
use std::time::Duration;

use packrace_commands::{Call, Fatal, in_directory};
use packrace_journal::JournalReader;
use packrace_os::clock;
use packrace_server::events::RepositoryFilter;

use crate::args::{EventsArgs, EventsCommand, EventsFollow};

/// Polling interval for new lines.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(call: &Call, args: &EventsArgs) -> Result<(), Fatal> {
    match &args.command {
        EventsCommand::Follow(args) => follow(call, args),
    }
}

fn follow(call: &Call, args: &EventsFollow) -> Result<(), Fatal> {
    let filter = RepositoryFilter::new(&args.repository)
        .map_err(|why| Fatal::usage(format!("--repository: {why}")))?;
    let dir = in_directory(call, &args.journal)?;
    let failed = |error| Fatal::new(format!("{}: {error}", dir.display()));
    if !dir.join("lock").exists() {
        return Err(Fatal::new(format!("{}: no event journal", dir.display())));
    }
    let mut reader = JournalReader::new(&dir, args.from);
    loop {
        while let Some(line) = reader.next_up_to(u64::MAX).map_err(failed)? {
            if line.missed > 0 {
                warn_of_missed(&dir, line.seq - line.missed, line.seq - 1);
            }
            if filter.matches_line(&line.bytes) {
                call.streams.write(&[&line.bytes, &b"\n"[..]].concat())?;
            }
        }
        if args.no_wait {
            return Ok(());
        }
        clock::sleep(LOOK_INTERVAL);
    }
}

fn warn_of_missed(dir: &Path, first: u64, last: u64) {
    eprint_line!("warning: {}: events {first} to {last} are gone", dir.display());
}
