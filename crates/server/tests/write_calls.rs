//! What a clone over HTTP costs in calls: writes are counted, time is not.

mod folder;
mod served;

use folder::Served;
use packrace_os::count::{Op, Role, so_far};
use packrace_server::limits::Limits;
use packrace_testkit::Size;
use packrace_testkit::peer::{Feed, Script, http};

/// One test, because it counts the calls of the process.
#[test]
fn a_clone_over_http_leaves_in_few_writes() {
    let served = Served::new(Size::Medium, Limits::default());
    let fetch = Script::new().fetch_v2("sha1", &[&served.tip()], &[]);
    let head = "POST /a.git/git-upload-pack HTTP/1.1\nContent-Type: application/x-git-upload-pack-request\nGit-Protocol: version=2";
    let (calls_before, bytes_before) = so_far(Role::Client, Op::Write);
    let reply = http(served.http, head, fetch.bytes(), Feed::Whole);
    assert_eq!(reply.status, 200);
    let (calls, bytes) = so_far(Role::Client, Op::Write);
    let (calls, bytes) = (calls - calls_before, bytes - bytes_before);
    assert!(bytes as usize >= reply.body.len() && reply.body.len() > 5 << 20, "{bytes} bytes");
    // A socket takes what there is room for. With as much room as a batch is long, a batch is one call; the least room
    // that Linux makes before it wakes a writer is a third of a buffer.
    let batches = reply.body.len() as u64 / (1 << 20) + 1;
    println!("{calls} writes for {bytes} bytes in {batches} batches");
    assert!(calls <= 16 * batches + 16, "{calls} writes for {bytes} bytes in {batches} batches");
}
