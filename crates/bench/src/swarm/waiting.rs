//! The cost of a clone whose client does not read.

use std::time::Duration;

use serde_json::{Value, json};

use super::crowd;
use super::figures::mega;
use super::{Contender, Subject};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::measure::{Peak, memory_of_tree};

/// Number of memory samples; the highest counts.
const LOOKS: usize = 10;

/// Prints for each server its memory with `--clients` clones whose clients do not read, and with twice as
/// many.
pub fn compare(args: &Args, contenders: &[Contender], subject: &Subject) -> Result<Vec<Value>, Error> {
    let mut records = Vec::new();
    for contender in contenders {
        let held = [args.clients, 2 * args.clients].map(|count| held(contender, subject, count));
        let [(some, reached), (twice, reached_twice)] = held.into_iter().collect::<Result<Vec<_>, _>>()?[..]
        else {
            continue;
        };
        let (some, twice) = (some.anonymous_bytes, twice.anonymous_bytes);
        let each = (twice as f64 - some as f64) / args.clients as f64;
        let record = json!({
            "work": "swarm, clones that wait",
            "who": contender.who,
            "beside": contender.beside,
            "clients": args.clients,
            "anonymous_bytes": some,
            "anonymous_bytes_with_twice_as_many": twice,
            "anonymous_bytes_each": each,
        });
        println!(
            "| {} | {:.1} ({reached} of {} reading) | {:.1} ({reached_twice} of {} reading) | {:.0} | {} |",
            contender.who,
            mega(some),
            args.clients,
            mega(twice),
            2 * args.clients,
            each / 1024.0,
            verdicts(&record, &[]),
        );
        records.push(record);
    }
    Ok(records)
}

/// The table's head.
pub fn head() -> &'static str {
    "| clones that are not read from | private MB | of twice as many | KiB for each further | goals |\n|---|---:|---:|---:|---|"
}

/// The memory of a new server with `count` of them, and how many received a part of their pack.
fn held(contender: &Contender, subject: &Subject, count: usize) -> Result<(Peak, usize), Error> {
    let server = contender.start()?;
    let target = server.target(contender.transport, &subject.repo)?;
    let request = target.request(&subject.clone_all().command);
    let looks = || {
        let mut peak = Peak::default();
        for _ in 0..LOOKS {
            peak.raise(memory_of_tree(server.id()));
            std::thread::sleep(Duration::from_millis(50));
        }
        peak
    };
    Ok(crowd::while_held(&target, &request, count, looks)?)
}
