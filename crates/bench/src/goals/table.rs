//! The table of goals. A row without records is "not measured" in a report, and never left out.

use super::{Goal, GoalRow, Yardstick};

/// What judges a record of ours.
const OURS: &str = "packrace";

/// The advertisement names the agent: a few bytes more do not count.
const AGENT_BYTES: f64 = 1000.0;

/// Writes of a pack beyond one for each MiB.
const MORE_WRITES: f64 = 64.0;

const fn row(row: &'static str, what: &'static str, work: &'static str, goal: Goal) -> GoalRow {
    GoalRow { row, what, work, who: OURS, goal }
}

const fn row_of(
    row: &'static str,
    what: &'static str,
    work: &'static str,
    who: &'static str,
    goal: Goal,
) -> GoalRow {
    GoalRow { row, what, work, who, goal }
}

/// At most this many times the bytes of the answer that sets the measure.
const fn bytes_ratio(limit: f64) -> Goal {
    Goal::at_most("bytes", "bytes", limit).beside(Yardstick::Own("reference_bytes")).with_slack(AGENT_BYTES)
}

const fn memory(limit: f64) -> Goal {
    Goal::at_most("memory", "peak_anonymous_bytes", limit)
}

const fn throughput(limit: f64) -> Goal {
    Goal::at_most("throughput", "pack_bytes_a_second", limit).beside(Yardstick::Peer).or_more()
}

/// At most one write for each MiB of a pack, and some more.
const fn pack_writes() -> Goal {
    Goal::at_most("pack writes by MiB", "pack_writes", 1.0)
        .beside(Yardstick::Own("mebibytes"))
        .with_slack(MORE_WRITES)
}

const fn at_most_idle(label: &'static str, figure: &'static str, idle: &'static str, limit: f64) -> Goal {
    Goal::at_most(label, figure, limit).beside(Yardstick::Own(idle))
}

/// All goals, in the order of a report.
pub static ROWS: &[GoalRow] = &[
    row("P1", "clone, the pack is the answer (bitmap)", "P1 clone, bitmap", Goal::cpu_ratio(0.1)),
    row(
        "P1",
        "write calls to the client",
        "P1 clone, bitmap",
        Goal::at_most("writes", "client_writes", 400.0),
    ),
    row("P1", "bytes", "P1 clone, bitmap", bytes_ratio(1.0)),
    row(
        "P1b",
        "the same with one commit more than the pack",
        "P1b clone, bitmap and one commit",
        Goal::cpu_ratio(0.25),
    ),
    row("P2", "clone without bitmap and commit-graph", "P2 clone, no bitmap", Goal::wall_ratio(0.2)),
    row("P2", "CPU", "P2 clone, no bitmap", Goal::cpu_ratio(0.25)),
    row("P2", "private memory", "P2 clone, no bitmap", memory(200e6)),
    row("P2", "bytes", "P2 clone, no bitmap", bytes_ratio(1.0)),
    row_of(
        "P3",
        "32 clones at once over git://",
        "swarm, 32 identical",
        "packrace git://",
        Goal::cpu_ratio(0.06),
    ),
    row_of("P3", "throughput over git://", "swarm, 32 identical", "packrace git://", throughput(10.0)),
    row_of(
        "P3",
        "beside git with packs kept by a hook",
        "swarm, 32 identical",
        "packrace git://",
        Goal::cpu_ratio(1.0).beside(Yardstick::Of("git daemon, packs kept by a hook")),
    ),
    row_of(
        "P3",
        "32 clones at once over HTTP",
        "swarm, 32 identical",
        "packrace http://",
        Goal::cpu_ratio(0.06),
    ),
    row_of("P3", "throughput over HTTP", "swarm, 32 identical", "packrace http://", throughput(10.0)),
    row_of(
        "P3",
        "32 clones that are not the pack",
        "swarm, 32 near-identical",
        "packrace *",
        Goal::cpu_ratio(0.06),
    ),
    row(
        "P4",
        "all of 1,000,000 refs, packed-refs",
        "P4 ls-refs all of 1000000, packed-refs",
        Goal::cpu_ratio(0.2),
    ),
    row("P4", "all of 1,000,000 refs, reftable", "P4 ls-refs all of 1000000, reftable", Goal::cpu_ratio(0.2)),
    row(
        "P4",
        "write calls to the client",
        "P4 ls-refs all of *",
        Goal::at_most("writes", "client_writes", 100.0),
    ),
    row("P4", "bytes", "P4 ls-refs *", bytes_ratio(1.0)),
    row(
        "P4",
        "one of 1,000,000 refs",
        "P4 ls-refs one of 1000000, *",
        Goal::at_most("wall", "wall_seconds", 0.005),
    ),
    row("P5", "index-pack --stdin, 2 threads", "P5 index-pack --stdin, *", Goal::wall_ratio(0.18)),
    row("P5", "beside gix", "P5 index-pack --stdin, *", Goal::wall_ratio(0.5).beside(Yardstick::Of("gix"))),
    row("P5", "private memory", "P5 index-pack --stdin, *", memory(256e6)),
    row(
        "P5",
        "positioned reads: two of the loader",
        "P5 index-pack --stdin, *",
        Goal::at_most("preads", "positioned_read_calls", 2.0),
    ),
    row("P5", "writes of the pack", "P5 index-pack --stdin, *", pack_writes()),
    row("P6", "50,000 refs created, reftable", "P6 reftable, 50000 creates", Goal::wall_ratio(0.2)),
    row("P6", "system calls", "P6 reftable, 50000 creates", Goal::at_most("calls", "calls", 60.0)),
    row("P6", "with reflogs", "P6 reftable, reflogs, 50000 creates", Goal::wall_ratio(0.3)),
    row("P6f", "50,000 refs created, files", "P6f files, 50000 creates", Goal::wall_ratio(0.02)),
    row(
        "P7",
        "refs created, deleted, created again: each",
        "P7 *00000 refs",
        Goal::at_most("each", "microseconds_each", 2.0),
    ),
    row("P7", "ten times as many take", "P7 *0000 refs", Goal::at_most("growth", "growth", 20.0)),
    row("P8", "5,000 files added, git unsynced", "P8 add 5000 files, git unsynced", Goal::wall_ratio(0.4)),
    row("P8", "500 files", "P8 add 500 files, git unsynced", Goal::wall_ratio(0.8)),
    row("P8", "5 files", "P8 add 5 files, git unsynced", Goal::wall_ratio(1.2)),
    row("P8", "1 file", "P8 add 1 files, git unsynced", Goal::wall_ratio(1.2)),
    row(
        "P8",
        "syncs of few files",
        "P8 add 5 files, git unsynced",
        Goal::at_most("syncs", "sync_calls", 4.0),
    ),
    row("P8", "5,000 files, git with fsync", "P8 add 5000 files, git fsync", Goal::wall_ratio(0.2)),
    row("P8", "5,000 files, git with batched fsync", "P8 add 5000 files, git batch", Goal::wall_ratio(0.8)),
    row("P9", "index-pack onto FUSE", "P9 index-pack --stdin, onto FUSE", Goal::wall_ratio(0.2)),
    row("P9", "writes of the pack", "P9 index-pack --stdin, onto FUSE", pack_writes()),
    row("P10", "fetch of 1 commit, no bitmap", "P10 fetch 1, no bitmap", Goal::cpu_ratio(0.2)),
    row("P10", "fetch of 100 commits", "P10 fetch 100, no bitmap", Goal::cpu_ratio(0.2)),
    row("P10", "fetch of 1,000 commits", "P10 fetch 1000, no bitmap", Goal::cpu_ratio(0.2)),
    row("P10", "bytes", "P10 fetch *", bytes_ratio(1.1)),
    row("P10b", "fetch of 1 commit, bitmap", "P10b fetch 1, bitmap", Goal::cpu_ratio(2.0)),
    row("P10b", "fetch of 100 commits", "P10b fetch 100, bitmap", Goal::cpu_ratio(2.0)),
    row("P10b", "fetch of 1,000 commits", "P10b fetch 1000, bitmap", Goal::cpu_ratio(2.0)),
    row(
        "P10b",
        "bytes of git's",
        "P10b fetch *",
        Goal::at_most("bytes", "bytes", 0.6).beside(Yardstick::Peer),
    ),
    row("P10b", "with deltas kept from an earlier fetch", "P10b fetch *, kept deltas", Goal::cpu_ratio(0.5)),
    row(
        "P10c",
        "with deltas kept from an earlier fetch",
        "P10c fetch *, kept deltas, well packed",
        Goal::cpu_ratio(0.5),
    ),
    row(
        "P10c",
        "fetch of 1 commit, bitmap, well packed",
        "P10c fetch 1, bitmap, well packed",
        Goal::cpu_ratio(2.0),
    ),
    row("P10c", "fetch of 100 commits", "P10c fetch 100, bitmap, well packed", Goal::cpu_ratio(2.0)),
    row("P10c", "fetch of 1,000 commits", "P10c fetch 1000, bitmap, well packed", Goal::cpu_ratio(2.0)),
    row(
        "P10c",
        "bytes of git's",
        "P10c fetch *",
        Goal::at_most("bytes", "bytes", 0.6).beside(Yardstick::Peer),
    ),
    row(
        "P11",
        "one-commit pushes, receive-pack alone",
        "P11 50 pushes, receive-pack alone",
        Goal::wall_ratio(0.1),
    ),
    row("P11", "the same from stock git", "P11 50 pushes, *://*", Goal::wall_ratio(0.333)),
    row("P11", "8 clients push at once", "P11 8 × 50 pushes at once, *", Goal::wall_ratio(0.333)),
    row(
        "P11",
        "syncs of 50 times 8 pushes at once",
        "P11 8 × 50 pushes at once, *",
        Goal::at_most("syncs", "sync_calls", 1000.0),
    ),
    row("P12", "repack -adf", "P12 repack -adf", Goal::cpu_ratio(0.35)),
    row("P12", "private memory", "P12 repack -adf", memory(250e6)),
    row("P12", "bytes", "P12 repack -adf", bytes_ratio(1.03)),
    row("P13", "clone from 300 packs", "clone, 300 packs", Goal::cpu_ratio(0.6)),
    row("P13", "listing of refs in 300 packs", "ls-refs, 300 packs", Goal::cpu_ratio(1.0)),
    row("filter", "clone with a filter", "clone *bitmap", Goal::cpu_ratio(1.0)),
    row("filter", "bytes", "clone *bitmap", bytes_ratio(1.01)),
    row("pack-objects", "a clone's revisions", "pack-objects --revs, all", Goal::cpu_ratio(0.25)),
    row(
        "pack-objects",
        "those of a fetch of 1,000 commits",
        "pack-objects --revs, 1000",
        Goal::cpu_ratio(0.3),
    ),
    row("pack-objects", "bytes", "pack-objects --revs, *", bytes_ratio(1.1)),
    row("repack", "repack -adb, with and without a bitmap", "repack -adb*", Goal::wall_ratio(1.0)),
    row("repack", "multi-pack-index with a bitmap", "multi-pack-index --bitmap", Goal::wall_ratio(1.0)),
    row("clone", "clone --bare over git://, at the client", "clone --bare, git://", Goal::wall_ratio(0.5)),
    row("clone", "CPU of the client", "clone --bare, git://", Goal::cpu_ratio(0.5)),
    row("unpack", "unpack-objects", "unpack-objects, *", Goal::wall_ratio(1.0)),
    row("stash", "stash -u, git without sync", "P8 stash -u, *, core.fsync default", Goal::wall_ratio(1.0)),
    row("stash", "git with fsync", "P8 stash -u, *, fsync", Goal::wall_ratio(0.2)),
    row("packs", "clone, any number of packs", "clone, * packs*", Goal::cpu_ratio(0.6)),
    row("packs", "clone through a server", "clone through a server, * packs*", Goal::cpu_ratio(0.6)),
    row("packs", "fetch of 1 commit", "fetch of 1, * packs*", Goal::cpu_ratio(1.0)),
    row(
        "packs",
        "fetch of 1 commit through a server",
        "fetch of 1 through a server, * packs*",
        Goal::cpu_ratio(1.0),
    ),
    row("packs", "fetch of 1,000 commits", "fetch of 1000, * packs*", Goal::cpu_ratio(0.6)),
    row(
        "packs",
        "fetch of 1,000 commits through a server",
        "fetch of 1000 through a server, * packs*",
        Goal::cpu_ratio(0.6),
    ),
    row("packs", "listing of refs", "ls-refs, * packs*", Goal::cpu_ratio(1.0)),
    row("packs", "listing through a server", "ls-refs through a server, * packs*", Goal::cpu_ratio(1.0)),
    row("packs", "20 pushes", "20 pushes of one commit, * packs*", Goal::cpu_ratio(1.0)),
    row(
        "packs",
        "20 pushes through a server",
        "20 pushes of one commit through a server, * packs*",
        Goal::cpu_ratio(1.0),
    ),
    row("packs", "repack --geometric=2", "repack --geometric=2, * packs*", Goal::cpu_ratio(0.6)),
    row_of(
        "swarm",
        "fetch of one commit beside 64 clones: p99 of the idle median",
        "swarm, small fetches beside clones",
        "packrace *",
        at_most_idle("p99", "busy_seconds_p99", "idle_seconds_p50", 5.0),
    ),
    row_of(
        "swarm",
        "private memory of a clone that waits",
        "swarm, clones that wait",
        "packrace *",
        Goal::at_most("memory", "anonymous_bytes_each", 1_048_576.0),
    ),
    row_of(
        "door",
        "a password and 10,000 rules with each listing",
        "door, listings",
        "packrace, credentials*",
        Goal::cpu_ratio(1.1),
    ),
    row(
        "door",
        "a decision with 10,000 rules",
        "door, decision",
        Goal::at_most("decision", "microseconds_each", 5.0),
    ),
    row_of(
        "door",
        "HTTPS beside HTTP",
        "door, clone",
        "packrace, HTTPS",
        Goal::cpu_ratio(2.0).beside(Yardstick::Of("packrace, HTTP")),
    ),
    row_of("door", "HTTPS beside nginx", "door, clone", "packrace, HTTPS", Goal::cpu_ratio(0.5)),
    row_of(
        "door",
        "HTTPS beside nginx, cloned by git",
        "door, clone",
        "packrace, HTTPS, cloned by git*",
        Goal::cpu_ratio(0.5),
    ),
    row_of(
        "door",
        "the same beside HTTP",
        "door, clone",
        "packrace, HTTPS, cloned by git*",
        Goal::cpu_ratio(2.0).beside(Yardstick::Of("packrace, HTTP")),
    ),
    row_of("door", "SSH beside sshd", "door, clone", "packrace, listen.ssh", Goal::cpu_ratio(0.5)),
    row_of("door", "SSH beside sshd", "door, clone", "packrace, listen.ssh", Goal::wall_ratio(0.7)),
    row_of(
        "door",
        "from connecting to what the server can do",
        "door, advertised",
        "packrace*",
        Goal::at_most("p50", "seconds_p50", 0.01),
    ),
    row_of(
        "door",
        "fetch of one commit beside 64 clones: p99 of the idle p99",
        "door, beside clones",
        "packrace*",
        at_most_idle("p99", "busy_seconds_p99", "idle_seconds_p99", 5.0),
    ),
    row_of(
        "door",
        "resident memory of a silent connection",
        "door, silent connections",
        "packrace*",
        Goal::at_most("memory", "resident_bytes_each", 65_536.0),
    ),
    row_of(
        "siege",
        "fetch of one commit under siege: p99 of the idle p99",
        "siege, one-commit fetch",
        "packrace *",
        at_most_idle("p99", "busy_seconds_p99", "idle_seconds_p99", 5.0),
    ),
    row("soak", "clients who noticed, and leaks", "soak", Goal::at_most("failures", "failures", 0.5)),
    row("care", "packs after pushes", "care", Goal::at_most("packs", "most_packs", 12.0)),
    row(
        "care",
        "clones beside a fresh repack",
        "care",
        at_most_idle("CPU", "cpu_seconds", "fresh_cpu_seconds", 1.3),
    ),
    row(
        "care",
        "fetches beside pushes: p99 of the idle p99",
        "care",
        at_most_idle("p99", "busy_seconds_p99", "idle_seconds_p99", 2.0),
    ),
    row_of(
        "events",
        "pushes with a journal, and with webhooks",
        "events, push",
        "packrace, *",
        Goal::wall_ratio(1.05),
    ),
    row_of(
        "embedded",
        "a forge on axum beside serve: clone",
        "embedded, clone",
        "the forge of the examples",
        Goal::cpu_ratio(1.05),
    ),
    row_of(
        "embedded",
        "a forge on axum beside serve: push",
        "embedded, push",
        "the forge of the examples",
        Goal::cpu_ratio(1.05),
    ),
    row(
        "nodes",
        "clones from several nodes, of linear",
        "nodes, clones from *",
        Goal::at_most("throughput", "linear", 0.9).or_more(),
    ),
    row(
        "nodes",
        "ranges fetched for a pack of 48 MiB",
        "nodes, clones from *",
        Goal::at_most("ranges", "ranges", 1.0).beside(Yardstick::Own("most_ranges")),
    ),
    row(
        "nodes",
        "32 pushers to one node, of a folder's",
        "nodes, pushes to one",
        Goal::at_most("rate", "pushes_a_second", 0.8).beside(Yardstick::Own("folder_a_second")).or_more(),
    ),
    row(
        "nodes",
        "pushes in a swap",
        "nodes, pushes to one",
        Goal::at_most("pushes", "pushes_a_swap", 8.0).or_more(),
    ),
    row(
        "nodes",
        "24 pushers to three nodes",
        "nodes, pushes to three",
        Goal::at_most("rate", "pushes_a_second", 100.0).or_more(),
    ),
    row("nodes", "their last percent", "nodes, pushes to three", Goal::at_most("p99", "seconds_p99", 1.0)),
    row(
        "nodes",
        "cold listing of 1,000,000 refs",
        "nodes, cold listing",
        Goal::at_most("wall", "wall_seconds", 0.4),
    ),
    row(
        "nodes",
        "cold clone: latencies to the first byte",
        "nodes, cold clone",
        Goal::at_most("latencies", "latencies", 5.0),
    ),
    row(
        "nodes",
        "cold clone beside fetching its files",
        "nodes, cold clone",
        at_most_idle("wall", "wall_seconds", "files_seconds", 1.15),
    ),
    row("nodes", "start", "nodes, start", Goal::at_most("wall", "wall_seconds", 0.1)),
    row(
        "nodes",
        "memory more than a server of a folder",
        "nodes, start",
        Goal::at_most("memory", "more_bytes", 16_777_216.0),
    ),
];
