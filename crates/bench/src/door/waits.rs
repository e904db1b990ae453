//! Waiting times of clients: for the capabilities, and for one commit beside many clones.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_testkit::raw_client::Take;
use serde_json::{Value, json};

use super::clients::Door;
use super::servers::{BIG, STEADY, Site};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::swarm::figures::{mega, quantile};

/// Concurrent clones.
const CLONES: usize = 64;

/// Time until all of them have started.
const RAMP: Duration = Duration::from_secs(1);

/// Warm-up fetches.
const UNCOUNTED: usize = 5;

/// Duration of the fetches.
const SECONDS: f64 = 10.0;

/// Prints the time until the capabilities arrive, on a new connection each time. Includes the client's time.
pub fn advertised(args: &Args, site: &Site) -> Result<Vec<Value>, Error> {
    let packrace = site.packrace()?;
    let (web, sshd) = (site.web()?, site.sshd()?);
    let mut doors: Vec<(&str, Box<dyn Door>)> = vec![
        ("packrace, HTTPS", Box::new(site.tls(packrace.https())?)),
        ("packrace, listen.ssh", Box::new(site.ssh(packrace.ssh(), false)?)),
    ];
    if let Some((name, server)) = &web {
        doors.push((name, Box::new(site.tls(Some(server.address()))?)));
    }
    // For sshd the folder's path comes before the repository.
    if let Some(server) = &sshd {
        doors.push(("sshd, git upload-pack", Box::new(site.system_ssh(server.address())?)));
    }
    println!("\n| from connecting to what the server can do | ms p50 | p99 | |\n|---|---:|---:|---|");
    let (count, uncounted) = if args.smoke { (3, 1) } else { (200, UNCOUNTED) };
    let mut records = Vec::new();
    for (who, door) in &doors {
        let times = (0..count + uncounted).map(|_| Ok(door.advertised(STEADY)?.as_secs_f64()));
        let times = times.collect::<io::Result<Vec<f64>>>().map_err(|e| format!("{who}: {e}"))?;
        let [median, last] = [0.5, 0.99].map(|share| quantile(&times[uncounted..], share));
        let record =
            json!({ "work": "door, advertised", "who": who, "seconds_p50": median, "seconds_p99": last });
        println!("| {who} | {:.2} | {:.2} | {} |", median * 1e3, last * 1e3, verdicts(&record, &[]));
        records.push(record);
    }
    Ok(records)
}

/// Prints the time of fetches of one commit beside many clones over the same transport. In reality, cloning
/// clients have their own processors; here they run at idle priority.
pub fn beside_clones(args: &Args, site: &Site) -> Result<Vec<Value>, Error> {
    println!(
        "\n| beside {CLONES} clones | one-commit fetch, idle ms p50, p99 | beside clones ms p50, p99 | samples | p99 to idle p99 | MB/s of clones | |\n\
         |---|---:|---:|---:|---:|---:|---|"
    );
    let packrace = site.packrace()?;
    let (tls, ssh) = (site.tls(packrace.https())?, site.ssh(packrace.ssh(), false)?);
    let cloning = site.ssh(packrace.ssh(), true)?;
    let doors: [(&str, &dyn Door, &dyn Door); 2] =
        [("packrace, HTTPS", &tls, &tls), ("packrace, listen.ssh", &ssh, &cloning)];
    let (fetch, clone) = (site.fetch_of(STEADY), site.clone_of(BIG));
    let seconds = if args.smoke { 0.5 } else { SECONDS };
    let mut records = Vec::new();
    for (who, door, cloning) in doors {
        let idle = fetch_times(door, &fetch, seconds)?;
        let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let (busy, rate) = std::thread::scope(|scope| {
            for _ in 0..CLONES {
                scope.spawn(|| {
                    packrace_os::process::run_when_idle();
                    cloning.again_and_again(BIG, &clone, &is_over, &bytes);
                });
            }
            std::thread::sleep(if args.smoke { RAMP / 4 } else { RAMP });
            let (start, before) = (Instant::now(), bytes.load(Relaxed));
            let busy = fetch_times(door, &fetch, seconds);
            let rate = mega(bytes.load(Relaxed) - before) / start.elapsed().as_secs_f64();
            is_over.store(true, Relaxed);
            busy.map(|busy| (busy, rate))
        })?;
        let both = |times: &[f64]| [0.5, 0.99].map(|share| quantile(times, share));
        let ([idle, idle_last], [median, last]) = (both(&idle), both(&busy));
        let record = json!({
            "work": "door, beside clones", "who": who, "clones": CLONES, "idle_seconds_p50": idle,
            "idle_seconds_p99": idle_last, "busy_seconds_p50": median, "busy_seconds_p99": last,
            "samples": busy.len(), "clone_bytes_a_second": rate * 1e6,
        });
        println!(
            "| {who} | {:.2}, {:.2} | {:.2}, {:.2} | {} | {:.1} × | {rate:.0} | {} |",
            idle * 1e3,
            idle_last * 1e3,
            median * 1e3,
            last * 1e3,
            busy.len(),
            last / idle_last,
            verdicts(&record, &[])
        );
        records.push(record);
    }
    Ok(records)
}

/// Seconds of each fetch, on a new connection each time. All responses must be packs of as many objects.
fn fetch_times(door: &dyn Door, fetch: &[u8], seconds: f64) -> io::Result<Vec<f64>> {
    let start = Instant::now();
    let (mut times, mut first) = (Vec::new(), None);
    while start.elapsed().as_secs_f64() < seconds || times.len() <= UNCOUNTED {
        let received = door.fetch(STEADY, fetch, Take::Hash(HashKind::Sha1))?;
        if *first.get_or_insert(received.pack.objects) != received.pack.objects {
            return Err(io::Error::other("other objects than before"));
        }
        times.push(received.whole.as_secs_f64());
    }
    Ok(times.split_off(UNCOUNTED))
}
