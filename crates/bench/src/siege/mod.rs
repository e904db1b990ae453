//! A server under siege: slow bodies, idle sessions, floods of pushes, rubbish, all at four times the
//! server's limits; and one client that fetches one commit again and again, and should not notice.
//!
//! The server's limits are scaled down, because this machine cannot open four times the default connections:
//! the measurement shows how full resources are shared, not how many there are. Loopback is not exempt here:
//! each address is a client, as for strangers. Real attackers have their own processors; here they run at
//! idle priority.

mod attacks;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_testkit::peer::{Feed, Script, http};
use packrace_testkit::raw_client::{STACK_BYTES, Take, Target, Transport};
use packrace_testkit::{Bitmap, Git, RepoBuilder, Size, Storage};
use serde_json::{Value, json};

use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::serve::Server;
use crate::soak::samples::{ProcessUsage, Samples};
use crate::swarm::figures::quantile;
use attacks::{AttackCounts, Besieged, HELD};

/// Attackers per available place.
const TIMES: usize = 4;

/// Threads that push, and threads that send rubbish.
const FLOODS: usize = 4;

/// Warm-up fetches.
const UNCOUNTED: usize = 10;

/// Time until all attackers are connected.
const RAMP: Duration = Duration::from_secs(2);

/// As in the soak: memory that an allocator keeps after many threads.
const MEMORY_MARGIN_BYTES: u64 = 16 << 20;

/// The server's limits, instead of 16,384 connections, 1,024 requests, and 256 MiB for bodies.
#[derive(Debug, Clone, Copy)]
pub struct SiegeLimits {
    connections: usize,
    requests: usize,
    body_bytes: usize,
    request_bytes: usize,
}

impl SiegeLimits {
    fn of(args: &Args) -> Self {
        let connections = if args.smoke { 256 } else { 512 };
        SiegeLimits {
            connections,
            requests: connections / 16,
            body_bytes: connections << 14,
            request_bytes: 256 << 10,
        }
    }

    fn settings(&self) -> String {
        let SiegeLimits { connections, requests, body_bytes, request_bytes } = self;
        format!(
            "[limits]\nmax-connections = {connections}\nmax-requests = {requests}\n\
             body-memory-bytes = {body_bytes}\nmax-request-bytes = {request_bytes}\nexempt-addresses = []\n\n\
             [push]\nallowed = true\nmax-unpacked-bytes = \"64m\"\nmax-unpacked-ratio = 100\n\n[log]\nlevel = \"warn\"\n"
        )
    }
}

/// Prints the fetch times of one client alone and under siege; an error if one fetch was refused, or anything
/// leaks.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("siege needs a packrace")?;
    let folder = tempfile::tempdir()?;
    let (root, settings) = (folder.path().join("root"), folder.path().join("settings.toml"));
    std::fs::create_dir(&root)?;
    let repo = root.join("steady.git");
    let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
    RepoBuilder::new(Size::Small).storage(storage).build_at(&repo, git);
    let limits = SiegeLimits::of(args);
    std::fs::write(&settings, limits.settings())?;
    let mut server = Server::packrace_as(binary, &root, None, Some(&settings))?;
    let samples = Samples::new(server.id());
    println!("\nSiege at {TIMES} times of {limits:?}.\n\n{}", head());
    let newest = ["HEAD", "HEAD~1"].map(|name| git.run(&repo, &["rev-parse", name]));
    let fetch = Script::new().fetch_v2("sha1", &[newest[0].trim()], &[newest[1].trim()]);
    let time = Duration::from_secs(if args.smoke { 2 } else { 20 });
    let mut records = Vec::new();
    let mut failures = Vec::new();
    let mut before = None;
    for transport in [Transport::Git, Transport::Http] {
        let target = Target { patience: Duration::from_secs(30), ..server.target(transport, &repo)? };
        let client = Client { request: target.request(fetch.bytes()), target: &target };
        let idle = client.fetch(time / 2)?;
        // Usage after the first siege is the baseline: threads and caches have what they need then.
        let besieged = Besieged {
            http: server.target(Transport::Http, &repo)?.address,
            git: server.target(Transport::Git, &repo)?.address,
            limits: &limits,
            is_over: AtomicBool::new(false),
            counts: AttackCounts::default(),
        };
        let busy = under_siege(&besieged, || client.fetch(time))?;
        let settled = samples.settled();
        let before = *before.get_or_insert(settled);
        failures.extend(leaks(before, settled));
        failures.extend(held(&besieged));
        let wrong = besieged.counts.wrong.lock().expect("nobody panics with it");
        if let Some(first) = wrong.first() {
            failures.push(format!("{} attackers got an answer that should not be: {first:?}", wrong.len()));
        }
        drop(wrong);
        if busy.refused > 0 {
            failures.push(format!(
                "{transport:?}: {} of {} fetches failed: {}",
                busy.refused,
                busy.count(),
                busy.why
            ));
        }
        records.push(print(transport, &idle, &busy, &besieged.counts));
    }
    failures.extend(server.complaints());
    if failures.is_empty() {
        println!("\nNothing leaked, and every fetch was answered in full.");
        return Ok(records);
    }
    Err(failures.join("\n").into())
}

/// The good client.
struct Client<'a> {
    target: &'a Target,
    request: Vec<u8>,
}

/// Its results.
#[derive(Default)]
struct Times {
    seconds: Vec<f64>,
    refused: usize,
    why: String,
}

impl Times {
    fn count(&self) -> usize {
        self.seconds.len() + self.refused
    }

    fn milliseconds(&self) -> String {
        let [median, last] = [0.5, 0.99].map(|share| quantile(&self.seconds, share) * 1e3);
        format!("{median:.2}, {last:.2}")
    }
}

impl Client<'_> {
    /// Fetches in a loop for `time`; every response must be a pack of as many objects. Deltas may differ: those of other packs
    /// are used again.
    fn fetch(&self, time: Duration) -> Result<Times, Error> {
        let mut times = Times::default();
        let mut first = None;
        let start = Instant::now();
        while start.elapsed() < time || times.count() <= UNCOUNTED {
            match self.target.fetch(&self.request, Take::Hash(HashKind::Sha1)) {
                Ok(received) => {
                    if *first.get_or_insert(received.pack.objects) != received.pack.objects {
                        return Err("other objects than before".into());
                    }
                    times.seconds.push(received.whole.as_secs_f64());
                }
                Err(failure) => {
                    times.refused += 1;
                    times.why = failure.to_string();
                }
            }
        }
        times.seconds = times.seconds.split_off(UNCOUNTED.min(times.seconds.len()));
        if times.seconds.is_empty() {
            return Err(format!("no fetch was answered: {}", times.why).into());
        }
        Ok(times)
    }
}

/// Runs `act` while the server is besieged.
fn under_siege<T>(besieged: &Besieged<'_>, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let each = (TIMES * besieged.limits.connections).div_ceil(HELD.len());
    std::thread::scope(|scope| {
        let mut work: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
        for kind in HELD {
            work.push(Box::new(move || besieged.hold(kind, each)));
        }
        for number in 0..FLOODS {
            work.push(Box::new(move || besieged.push(number)));
        }
        work.push(Box::new(|| besieged.rubbish()));
        let thread = || std::thread::Builder::new().stack_size(8 * STACK_BYTES);
        let started: Vec<_> = work
            .into_iter()
            .map(|work| {
                thread().spawn_scoped(scope, || {
                    packrace_os::process::run_when_idle();
                    work();
                })
            })
            .collect();
        std::thread::sleep(RAMP);
        let result = act();
        besieged.is_over.store(true, Relaxed);
        started.into_iter().try_for_each(|thread| thread.map(drop))?;
        result
    })
}

fn leaks(before: ProcessUsage, after: ProcessUsage) -> Vec<String> {
    let mut failures = Vec::new();
    if after.descriptors > before.descriptors {
        failures.push(format!("{} descriptors became {}", before.descriptors, after.descriptors));
    }
    if after.threads > before.threads {
        failures.push(format!("{} threads became {}", before.threads, after.threads));
    }
    if after.anonymous_bytes > before.anonymous_bytes + MEMORY_MARGIN_BYTES {
        let [had, has] = [before, after].map(|held| held.anonymous_bytes);
        failures.push(format!("{had} bytes of private memory became {has}"));
    }
    failures
}

/// Resources that the server reports as held although no client is left.
fn held(besieged: &Besieged<'_>) -> Vec<String> {
    let reply = http(besieged.http, "GET /-/metrics HTTP/1.1", b"", Feed::Whole);
    let metrics = String::from_utf8_lossy(&reply.body).into_owned();
    let names = ["requests_running", "body_memory_bytes", "push_memory_bytes"];
    let is_free = |name: &&str| metrics.lines().any(|line| line == format!("packrace_{name} 0"));
    names.iter().filter(|name| !is_free(name)).map(|name| format!("{name} is not 0")).collect()
}

fn head() -> &'static str {
    "| door | idle ms p50, p99 | under siege ms p50, p99 | fetches | failed | p99 to idle p99 | connections held | pushes | rubbish | goal |\n\
     |---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
}

fn print(transport: Transport, idle: &Times, busy: &Times, counts: &AttackCounts) -> Value {
    let [alone, besieged] = [idle, busy].map(|times| quantile(&times.seconds, 0.99));
    let ratio = besieged / alone;
    let [held, pushes, garbage] =
        [&counts.held, &counts.pushes, &counts.garbage].map(|count| count.load(Relaxed));
    let record = json!({
        "work": "siege, one-commit fetch",
        "who": if transport == Transport::Git { "packrace git://" } else { "packrace http://" },
        "idle_seconds_p50": quantile(&idle.seconds, 0.5),
        "idle_seconds_p99": alone,
        "busy_seconds_p50": quantile(&busy.seconds, 0.5),
        "busy_seconds_p99": besieged,
        "fetches": busy.seconds.len(),
        "failed": busy.refused,
        "held": held,
        "pushes": pushes,
        "garbage": garbage,
    });
    println!(
        "| {transport:?} | {} | {} | {} | {} | {ratio:.1} × | {held} | {pushes} | {garbage} | {} |",
        idle.milliseconds(),
        busy.milliseconds(),
        busy.seconds.len(),
        busy.refused,
        verdicts(&record, &[]),
    );
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_are_failures() {
        let before =
            ProcessUsage { descriptors: 10, threads: 6, anonymous_bytes: 5_000_000, virtual_bytes: 0 };
        assert!(leaks(before, before).is_empty());
        for after in [
            ProcessUsage { descriptors: 11, ..before },
            ProcessUsage { threads: 7, ..before },
            ProcessUsage { anonymous_bytes: 22_000_000, ..before },
        ] {
            assert_eq!(leaks(before, after).len(), 1, "{after:?}");
        }
    }
}
