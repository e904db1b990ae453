//! Pushes of one commit each to branches of one repository: through one node, through three, and into a folder beside it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use packrace_testkit::peer::{Feed, Script, http};
use packrace_testkit::raw_client::Transport;
use serde_json::{Value, json};

use super::{Hosting, metric};
use crate::Error;
use crate::args::Args;
use crate::report::verdict;
use crate::serve::Server;
use crate::swarm::figures::quantile;

const PUSHERS: usize = 32;

const NODES: usize = 3;
const PUSHERS_A_NODE: usize = 8;

const LOCAL_GOAL: f64 = 0.8;
const GROUP_GOAL: f64 = 8.0;
const RATE_GOAL: f64 = 100.0;
const LAST_GOAL: f64 = 1.0;

/// What one pusher sends, one after the other.
type Requests = Vec<Vec<u8>>;

/// How pushes went.
struct Pushed {
    per_second: f64,
    /// Seconds of each.
    times: Vec<f64>,
}

pub(super) fn run(args: &Args, hosting: &Hosting) -> Result<Vec<Value>, Error> {
    let each = if args.smoke { 2 } else { 12 };
    let repo = hosting.repository("pushed.git");
    let requests = requests(hosting, &repo, each)?;
    // Nobody waits for maintenance, and it is not what is compared.
    hosting.git.run(&repo, &["config", "receive.autogc", "false"]);
    for name in ["one", "three"] {
        hosting.import(&repo, name)?;
    }
    let local = Server::packrace(&hosting.binary, hosting.folder.path(), None)?;
    let local = push(&[local.target(Transport::Http, &repo)?.address], "pushed.git", &requests)?;

    let node = hosting.node()?;
    let through_one = push(&[node.server.target(Transport::Http, &repo)?.address], "one.git", &requests)?;
    let swaps = metric(&node.server, "packrace_bucket_swaps_total{outcome=\"won\"}")?;
    let group = (PUSHERS * each) as f64 / swaps.max(1) as f64;
    let ratio = through_one.per_second / local.per_second;
    drop(node);
    println!(
        "| {PUSHERS} pushers, one node | {:.0} pushes a second, {ratio:.2} × those of a folder ({:.0}); {group:.1} a swap | {} |",
        through_one.per_second,
        local.per_second,
        verdict(
            &format!("≥ {LOCAL_GOAL} ×, ≥ {GROUP_GOAL} a swap"),
            Some(ratio >= LOCAL_GOAL && group >= GROUP_GOAL)
        )
    );

    let nodes = (0..NODES).map(|_| hosting.node()).collect::<io::Result<Vec<_>>>()?;
    let addresses = nodes
        .iter()
        .map(|node| Ok(node.server.target(Transport::Http, &repo)?.address))
        .collect::<io::Result<Vec<_>>>()?;
    let through_three = push(&addresses, "three.git", &requests[..NODES * PUSHERS_A_NODE])?;
    let last = quantile(&through_three.times, 0.99);
    println!(
        "| {NODES} nodes with {PUSHERS_A_NODE} pushers each, one repository | {:.0} pushes a second, p50 {:.0} ms, p99 {:.0} ms | {} |",
        through_three.per_second,
        quantile(&through_three.times, 0.5) * 1e3,
        last * 1e3,
        verdict(
            &format!("≥ {RATE_GOAL} a second, p99 ≤ {LAST_GOAL} s"),
            Some(through_three.per_second >= RATE_GOAL && last <= LAST_GOAL)
        )
    );
    Ok(vec![
        json!({ "suite": "nodes", "pushers": PUSHERS, "pushes_s": through_one.per_second, "local_s": local.per_second, "a_swap": group }),
        json!({ "suite": "nodes", "nodes": NODES, "pushers": NODES * PUSHERS_A_NODE, "pushes_s": through_three.per_second, "p99_s": last }),
    ])
}

/// For each pusher, pushes of a chain of commits to a branch of its own. Their objects are in no repository that is served.
fn requests(hosting: &Hosting, repo: &Path, each: usize) -> Result<Vec<Requests>, Error> {
    let git = &hosting.git;
    let stream =
        "commit refs/heads/main\ncommitter A <a@b.c> 1 +0000\ndata 1\nx\nM 100644 inline file\ndata 1\nx\n";
    git.run_with_input(repo, &["fast-import", "--quiet"], stream.as_bytes());
    let source = hosting.folder.path().join("source.git");
    git.run(
        hosting.folder.path(),
        &["clone", "-q", "--mirror", &repo.display().to_string(), &source.display().to_string()],
    );
    let mut stream = String::new();
    for pusher in 0..PUSHERS {
        for at in 0..each {
            let from = if at == 0 { "from refs/heads/main^0\n" } else { "" };
            stream +=
                &format!("commit refs/heads/b{pusher}\ncommitter A <a@b.c> {at} +0000\ndata 4\npush\n{from}");
            stream += &format!("M 100644 inline file-{pusher}\ndata 9\n{pusher:04}-{at:04}\n");
        }
    }
    git.run_with_input(&source, &["fast-import", "--quiet"], stream.as_bytes());
    let mut all = Vec::new();
    for pusher in 0..PUSHERS {
        let listed = git.run(&source, &["rev-list", "--reverse", &format!("main..b{pusher}")]);
        let mut requests = Vec::new();
        let mut old = None;
        for new in listed.lines() {
            let parent = old.unwrap_or("refs/heads/main");
            let pack = git.run_with_input(
                &source,
                &["pack-objects", "--revs", "--stdout", "--thin", "-q"],
                format!("{new}\n^{parent}\n").as_bytes(),
            );
            let zeros = "0".repeat(new.len());
            let command = format!("{} {new} refs/heads/b{pusher}\0report-status", old.unwrap_or(&zeros));
            requests.push(Script::new().data(command.as_bytes()).flush().raw(&pack).bytes().to_vec());
            old = Some(new);
        }
        all.push(requests);
    }
    Ok(all)
}

/// Each pusher pushes through one of the servers, as git does: it asks first.
fn push(addresses: &[SocketAddr], name: &str, all: &[Requests]) -> Result<Pushed, Error> {
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        let running: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(pusher, requests)| {
                let address = addresses[pusher % addresses.len()];
                scope.spawn(move || {
                    requests
                        .iter()
                        .map(|request| push_once(address, name, request))
                        .collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let joined = running.into_iter().map(|one| one.join().expect("it does not panic"));
        joined.collect::<Result<Vec<Vec<f64>>, String>>()
    })?
    .concat();
    Ok(Pushed { per_second: times.len() as f64 / start.elapsed().as_secs_f64(), times })
}

fn push_once(address: SocketAddr, name: &str, request: &[u8]) -> Result<f64, String> {
    let start = Instant::now();
    let asked =
        http(address, &format!("GET /{name}/info/refs?service=git-receive-pack HTTP/1.1"), b"", Feed::Whole);
    let head = format!(
        "POST /{name}/git-receive-pack HTTP/1.1\nContent-Type: application/x-git-receive-pack-request"
    );
    let answered = http(address, &head, request, Feed::Whole);
    let said = String::from_utf8_lossy(&answered.body);
    match asked.status == 200
        && answered.status == 200
        && said.contains("unpack ok")
        && said.contains("ok refs/heads/")
    {
        true => Ok(start.elapsed().as_secs_f64()),
        false => Err(format!("a push came to HTTP {} and {}: {said}", asked.status, answered.status)),
    }
}
