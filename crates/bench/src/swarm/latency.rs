//! The latency of small fetches beside clones.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{STACK_BYTES, Take, Target};
use serde_json::{Value, json};

use super::crowd;
use super::figures::quantile;
use super::{Contender, Subject};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;

/// Minimum number of consecutive fetches.
const SAMPLES: usize = 200;

/// Minimum duration, so that clones end and start meanwhile: 200 fast fetches could all hit one lucky moment.
const LEAST_SECONDS: f64 = 10.0;

/// Maximum duration, however few fetches there are.
const MOST_SECONDS: f64 = 120.0;

/// Warm-up fetches.
const UNCOUNTED: usize = 5;

/// Time until all clones have started.
const RAMP: Duration = Duration::from_millis(500);

/// Prints for each server the time of fetches of one commit alone, and beside twice `--clients` clones.
pub fn compare(args: &Args, contenders: &[Contender], subject: &Subject) -> Result<Vec<Value>, Error> {
    let clones = 2 * args.clients;
    let mut records = Vec::new();
    for contender in contenders {
        let server = contender.start()?;
        let target = server.target(contender.transport, &subject.repo)?;
        let fetch = target.request(&subject.fetch_one().command);
        let clone = target.request(&subject.clone_all().command);
        let most_seconds = if args.smoke { 2.0 } else { MOST_SECONDS };
        let idle = fetch_times(&target, &fetch, most_seconds)?;
        let ((busy, pings), bytes, seconds) = beside_clones(&target, &clone, clones, || {
            Ok((fetch_times(&target, &fetch, most_seconds)?, ping_times()?))
        })?;
        let ratio = quantile(&busy, 0.99) / quantile(&idle, 0.5);
        let record = json!({
            "work": "swarm, small fetches beside clones",
            "who": contender.who,
            "beside": contender.beside,
            "clones": clones,
            "samples": busy.len(),
            "clone_bytes_a_second": bytes as f64 / seconds,
            "idle_seconds_p50": quantile(&idle, 0.5),
            "idle_seconds_p99": quantile(&idle, 0.99),
            "busy_seconds_p50": quantile(&busy, 0.5),
            "busy_seconds_p99": quantile(&busy, 0.99),
            "ping_seconds_p50": quantile(&pings, 0.5),
            "ping_seconds_p99": quantile(&pings, 0.99),
        });
        let both =
            |times: &[f64]| format!("{:.1}, {:.1}", quantile(times, 0.5) * 1e3, quantile(times, 0.99) * 1e3);
        println!(
            "| {clones} | {} | {} | {} | {} | {} | {ratio:.1} × | {:.2} | {} |",
            contender.who,
            both(&idle),
            both(&busy),
            both(&pings),
            busy.len(),
            bytes as f64 / seconds / 1e6,
            verdicts(&record, &[]),
        );
        records.push(record);
    }
    Ok(records)
}

/// The table's head.
pub fn head() -> &'static str {
    "| clones at once | who | one-commit fetch, idle ms p50, p99 | beside clones ms p50, p99 | ping beside clones ms p50, p99 | samples | p99 to idle p50 | MB/s of clones meanwhile | goals |\n\
     |---|---|---:|---:|---:|---:|---:|---:|---|"
}

/// Runs `act` while `count` clients clone in a loop; also returns the bytes that they got, and the seconds.
fn beside_clones<T>(
    target: &Target,
    clone: &[u8],
    count: usize,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<(T, u64, f64)> {
    let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..count {
            let again = || crowd::again_and_again(target, clone, &is_over, &bytes);
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, again)?;
        }
        std::thread::sleep(RAMP);
        let (start, before) = (Instant::now(), bytes.load(Relaxed));
        let result = act();
        let seconds = start.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        Ok((result?, bytes.load(Relaxed) - before, seconds))
    })
}

/// Seconds of each fetch.
fn fetch_times(target: &Target, request: &[u8], most_seconds: f64) -> io::Result<Vec<f64>> {
    let start = Instant::now();
    let mut times = Vec::new();
    loop {
        let (seconds, are_enough) = (start.elapsed().as_secs_f64(), times.len() >= SAMPLES + UNCOUNTED);
        if times.len() > UNCOUNTED && (seconds >= most_seconds || (are_enough && seconds >= LEAST_SECONDS)) {
            break;
        }
        let deadline = Instant::now() + Duration::from_secs(300);
        let (received, _) = target.fetch_patiently(request, Take::Checksum, deadline)?;
        times.push(received.whole.as_secs_f64());
    }
    Ok(times.split_off(UNCOUNTED))
}

/// Seconds for a byte from one thread of this program to another and back, over a socket: the part of a fetch
/// that is due to the machine, which runs more threads than it has cores.
fn ping_times() -> io::Result<Vec<f64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            // Ends when the other end is closed.
            while far.read_exact(&mut byte).and_then(|()| far.write_all(&byte)).is_ok() {}
        });
        let mut ping = || {
            let start = Instant::now();
            near.write_all(b"x")?;
            near.read_exact(&mut [0])?;
            Ok(start.elapsed().as_secs_f64())
        };
        let times = (0..SAMPLES).map(|_| ping()).collect();
        drop(near);
        times
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_come_back() {
        assert_eq!(ping_times().unwrap().len(), SAMPLES);
    }
}
