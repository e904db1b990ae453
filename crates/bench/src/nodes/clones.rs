//! Clones of one repository from an increasing number of nodes with limited egress.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::Random;
use packrace_testkit::raw_client::{Take, Target, Transport};
use serde_json::{Value, json};

use super::{BucketNode, Hosting, metric};
use crate::args::Args;
use crate::goals::verdicts;
use crate::swarm::figures::mega;
use crate::{Error, PACKRACE, work};

/// Egress limit of a node, in bytes per second.
const EGRESS: f64 = 100e6;

/// Concurrent clients of each node.
const CLIENTS: usize = 2;

pub(super) fn run(args: &Args, hosting: &Hosting) -> Result<Vec<Value>, Error> {
    let repo = hosting.repository("large.git");
    let bytes = if args.smoke { 12 << 20 } else { 48 << 20 };
    let blob =
        hosting.git.run_with_input(&repo, &["hash-object", "-w", "--stdin"], &Random::new(1).bytes(bytes));
    let blob = String::from_utf8(blob)?;
    let tree = hosting.git.run_with_input(
        &repo,
        &["mktree"],
        format!("100644 blob {}\tnoise\n", blob.trim()).as_bytes(),
    );
    let commit = hosting.git.run(&repo, &["commit-tree", "-m", "noise", String::from_utf8(tree)?.trim()]);
    hosting.git.run(&repo, &["update-ref", "refs/heads/main", commit.trim()]);
    hosting.import(&repo, "large")?;
    let request = work::clone_request(&hosting.git, &repo);
    let time = Duration::from_secs_f64(if args.smoke { 0.5 } else { 5.0 });
    let mut alone = None;
    let mut records = Vec::new();
    for count in [1, 2, 4] {
        let nodes = (0..count).map(|_| hosting.node()).collect::<io::Result<Vec<_>>>()?;
        let rate = clone_for(&nodes, &request, time)?;
        let linear = rate / (*alone.get_or_insert(rate) * count as f64);
        // Pack, reverse index, bitmap and index are contiguous in the object: one range per 8 MiB.
        let ranges = nodes
            .iter()
            .map(|node| {
                metric(&node.server, "packrace_bucket_requests_total{kind=\"range\",outcome=\"done\"}")
            })
            .collect::<Result<Vec<_>, _>>()?;
        let most = ranges.iter().max().copied().unwrap_or(0);
        let record = json!({
            "work": format!("nodes, clones from {count}"), "who": PACKRACE, "clone_bytes_a_second": rate, "linear": linear,
            "ranges": most, "most_ranges": (bytes as u64).div_ceil(8 << 20) + 3,
        });
        println!(
            "| clones from {count} nodes that send {:.0} MB/s each | {:.0} MB/s, {linear:.2} of linear; {most} ranges fetched by a node | {} |",
            EGRESS / 1e6,
            mega(1) * rate,
            verdicts(&record, &[])
        );
        records.push(record);
    }
    Ok(records)
}

/// The throughput of all clones together, in bytes per second.
fn clone_for(nodes: &[BucketNode], fetch: &[u8], time: Duration) -> Result<f64, Error> {
    let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let targets = nodes
        .iter()
        .map(|node| node.server.target(Transport::Http, "large.git".as_ref()))
        .collect::<io::Result<Vec<_>>>()?;
    // A first clone fills the cache.
    for target in &targets {
        target.fetch(&target.request(fetch), Take::Checksum)?;
    }
    let paces: Vec<Mutex<Instant>> = targets.iter().map(|_| Mutex::new(Instant::now())).collect();
    let elapsed = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (target, pace) in targets.iter().zip(&paces) {
            for _ in 0..CLIENTS {
                running.push(scope.spawn(|| clone_again(target, fetch, pace, &is_over, &bytes)));
            }
        }
        let (start, before) = (Instant::now(), bytes.load(Relaxed));
        std::thread::sleep(time);
        let rate = (bytes.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        running.into_iter().try_for_each(|one| one.join().expect("it does not panic"))?;
        Ok::<_, io::Error>(rate)
    });
    Ok(elapsed?)
}

/// Clones until `is_over`; all clients of a node together at most at its egress limit.
fn clone_again(
    target: &Target,
    fetch: &[u8],
    pace: &Mutex<Instant>,
    is_over: &AtomicBool,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let request = target.request(fetch);
    while !is_over.load(Relaxed) {
        let mut before = 0;
        target.fetch_watched(&request, Take::Checksum, |come| {
            let new = come - before;
            before = come;
            bytes.fetch_add(new, Relaxed);
            if is_over.load(Relaxed) {
                return;
            }
            let mut next = pace.lock().expect("nobody panics with it");
            *next = (*next).max(Instant::now() - Duration::from_millis(20))
                + Duration::from_secs_f64(new as f64 / EGRESS);
            let wait = next.saturating_duration_since(Instant::now());
            drop(next);
            std::thread::sleep(wait);
        })?;
    }
    Ok(())
}
