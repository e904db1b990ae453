//! A node with an empty cache: its first responses, its start, and its memory.

use std::path::Path;
use std::time::Instant;

use packrace_testkit::peer::{Feed, Script, http};
use packrace_testkit::raw_client::{Take, Transport};
use serde_json::{Value, json};

use super::{Hosting, LATENCY, metric};
use crate::args::Args;
use crate::goals::verdicts;
use crate::serve::Server;
use crate::swarm::figures::quantile;
use crate::{Error, PACKRACE};

pub(super) fn run(args: &Args, hosting: &Hosting) -> Result<Vec<Value>, Error> {
    Ok(vec![listing(args, hosting)?, clone(args, hosting)?, start(args, hosting)?])
}

/// Lists all refs of a repository with many.
fn listing(args: &Args, hosting: &Hosting) -> Result<Value, Error> {
    let repo = hosting.repository("refs.git");
    let tree = hosting.git.run_with_input(&repo, &["mktree"], b"");
    let commit = hosting.git.run(&repo, &["commit-tree", "-m", "x", String::from_utf8(tree)?.trim()]);
    let commit = commit.trim();
    let mut packed = format!("# pack-refs with: peeled fully-peeled sorted \n{commit} refs/heads/main\n");
    (0..args.refs).for_each(|number| packed += &format!("{commit} refs/tags/v{number:07}\n"));
    std::fs::write(repo.join("packed-refs"), packed)?;
    hosting.import(&repo, "refs")?;
    let mut times = Vec::new();
    for _ in 0..args.rounds.min(3) {
        let node = hosting.node()?;
        let address = node.server.target(Transport::Http, &repo)?.address;
        let command =
            Script::new().line("command=ls-refs").line("object-format=sha1").delim().line("peel").flush();
        let head = "POST /refs.git/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
                    Content-Type: application/x-git-upload-pack-request";
        let start = Instant::now();
        let reply = http(address, head, command.bytes(), Feed::Whole);
        times.push(start.elapsed().as_secs_f64());
        let lines = reply.body.iter().filter(|byte| **byte == b'\n').count();
        // `HEAD` and `main` are listed, too.
        if reply.status != 200 || lines != args.refs + 2 {
            return Err(format!("HTTP {}, {lines} refs", reply.status).into());
        }
    }
    let seconds = quantile(&times, 0.5);
    let record =
        json!({ "work": "nodes, cold listing", "who": PACKRACE, "refs": args.refs, "wall_seconds": seconds });
    println!("| cold listing of {} refs | {:.0} ms | {} |", args.refs, seconds * 1e3, verdicts(&record, &[]));
    Ok(record)
}

/// Clones the large repository, and compares with fetching its files.
fn clone(args: &Args, hosting: &Hosting) -> Result<Value, Error> {
    let repo = hosting.folder.path().join("large.git");
    let fetch = crate::work::clone_request(&hosting.git, &repo);
    let (mut first, mut whole, mut fetching) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds.min(3) {
        let node = hosting.node()?;
        let target = node.server.target(Transport::Http, &repo)?;
        // The time to fetch the files: a listing waits for them, and for nothing else.
        let start = Instant::now();
        let address = target.address;
        http(address, "GET /large.git/info/refs?service=git-upload-pack HTTP/1.1", b"", Feed::Whole);
        fetching.push(start.elapsed().as_secs_f64());
        drop(node);
        let node = hosting.node()?;
        let target = node.server.target(Transport::Http, &repo)?;
        let received = target.fetch(&target.request(&fetch), Take::Checksum)?;
        first.push(received.first_byte.as_secs_f64() / LATENCY.as_secs_f64());
        whole.push(received.whole.as_secs_f64());
    }
    let [first, whole, fetching] = [first, whole, fetching].map(|times| quantile(&times, 0.5));
    let ratio = whole / fetching;
    let record = json!({
        "work": "nodes, cold clone", "who": PACKRACE, "latencies": first, "wall_seconds": whole, "files_seconds": fetching,
    });
    println!(
        "| cold clone of one large pack | first byte of the pack after {first:.1} latencies; {ratio:.2} × fetching its files ({:.0} ms) | {} |",
        fetching * 1e3,
        verdicts(&record, &[])
    );
    Ok(record)
}

/// Time until the address is printed; and memory, compared with a server of a folder.
fn start(args: &Args, hosting: &Hosting) -> Result<Value, Error> {
    let (mut times, mut bytes) = (Vec::new(), [0, 0]);
    for _ in 0..args.rounds {
        let start = Instant::now();
        let node = hosting.node()?;
        times.push(start.elapsed().as_secs_f64());
        let local = Server::packrace(&hosting.binary, hosting.folder.path(), None)?;
        bytes = [resident(&local)?, resident(&node.server)?];
    }
    let (seconds, more) = (quantile(&times, 0.5), bytes[1].saturating_sub(bytes[0]));
    let record =
        json!({ "work": "nodes, start", "who": PACKRACE, "wall_seconds": seconds, "more_bytes": more });
    println!(
        "| start, and memory when idle | {:.0} ms; {:.1} MiB more than a server of a folder ({:.1}) | {} |",
        seconds * 1e3,
        more as f64 / f64::from(1 << 20),
        bytes[0] as f64 / f64::from(1 << 20),
        verdicts(&record, &[])
    );
    Ok(record)
}

/// Resident memory, after one request.
fn resident(server: &Server) -> Result<u64, Error> {
    metric(server, "packrace_panics_total")?;
    let text = std::fs::read_to_string(Path::new("/proc").join(server.id().to_string()).join("status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    Ok(line.ok_or("no VmRSS")?.trim().parse::<u64>()? << 10)
}
