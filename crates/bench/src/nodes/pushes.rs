//! Pushes of one commit each to branches of one repository: through one node, through three, and to a server
//! of a folder.

use std::io;

use packrace_testkit::raw_client::Transport;
use serde_json::{Value, json};

use super::{Hosting, metric};
use crate::args::Args;
use crate::goals::verdicts;
use crate::pushers::Pushers;
use crate::serve::Server;
use crate::swarm::figures::quantile;
use crate::{Error, PACKRACE};

const PUSHERS: usize = 32;

const NODES: usize = 3;
const PUSHERS_A_NODE: usize = 8;

pub(super) fn run(args: &Args, hosting: &Hosting) -> Result<Vec<Value>, Error> {
    let each = if args.smoke { 2 } else { 12 };
    let repo = hosting.repository("pushed.git");
    let pushers = Pushers::prepare(&hosting.git, &repo, PUSHERS, each);
    // Maintenance is not what is compared.
    hosting.git.run(&repo, &["config", "receive.autogc", "false"]);
    for name in ["one", "three"] {
        hosting.import(&repo, name)?;
    }
    let local = Server::packrace(&hosting.binary, hosting.folder.path(), None)?;
    let local = pushers.push(&[local.target(Transport::Http, &repo)?.address], "pushed.git", PUSHERS)?;

    let node = hosting.node()?;
    let address = node.server.target(Transport::Http, &repo)?.address;
    let through_one = pushers.push(&[address], "one.git", PUSHERS)?;
    let swaps = metric(&node.server, "packrace_bucket_swaps_total{outcome=\"won\"}")?;
    let group = (PUSHERS * each) as f64 / swaps.max(1) as f64;
    let ratio = through_one.per_second / local.per_second;
    drop(node);
    let of_one = json!({
        "work": "nodes, pushes to one", "who": PACKRACE, "pushers": PUSHERS, "pushes_a_second": through_one.per_second,
        "folder_a_second": local.per_second, "pushes_a_swap": group,
    });
    println!(
        "| {PUSHERS} pushers, one node | {:.0} pushes a second, {ratio:.2} × those of a folder ({:.0}); {group:.1} a swap | {} |",
        through_one.per_second,
        local.per_second,
        verdicts(&of_one, &[])
    );

    let nodes = (0..NODES).map(|_| hosting.node()).collect::<io::Result<Vec<_>>>()?;
    let addresses = nodes
        .iter()
        .map(|node| Ok(node.server.target(Transport::Http, &repo)?.address))
        .collect::<io::Result<Vec<_>>>()?;
    let through_three = pushers.push(&addresses, "three.git", NODES * PUSHERS_A_NODE)?;
    let last = quantile(&through_three.times, 0.99);
    let of_three = json!({
        "work": "nodes, pushes to three", "who": PACKRACE, "pushers": NODES * PUSHERS_A_NODE,
        "pushes_a_second": through_three.per_second, "seconds_p99": last,
    });
    println!(
        "| {NODES} nodes with {PUSHERS_A_NODE} pushers each, one repository | {:.0} pushes a second, p50 {:.0} ms, p99 {:.0} ms | {} |",
        through_three.per_second,
        quantile(&through_three.times, 0.5) * 1e3,
        last * 1e3,
        verdicts(&of_three, &[])
    );
    Ok(vec![of_one, of_three])
}
