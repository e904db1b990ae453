//! The cost of silent connections.

use std::io;
use std::net::{SocketAddr, TcpStream};

use packrace_object::HashKind;
use packrace_testkit::raw_client::Take;
use serde_json::{Value, json};

use super::clients::Door;
use super::servers::{STEADY, Site};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::measure::memory_of_tree;

/// Connections before the first measurement: allocators and threads keep memory that was used once.
const UNCOUNTED: usize = 32;

/// Prints the server's memory per silent connection, from the start or after login, and the time of a fetch
/// beside them; an error if that fails.
pub fn run(args: &Args, site: &Site) -> Result<Vec<Value>, Error> {
    let count = if args.smoke { 50 } else { 1000 };
    println!("\n| {count} silent connections | KiB each, resident | private | |\n|---|---:|---:|---|");
    let mut records = Vec::new();
    for name in ["TLS, nothing sent", "TLS, handshake over", "SSH, nothing sent", "SSH, logged in"] {
        let server = site.packrace()?;
        let (tls, ssh) = (site.tls(server.https())?, site.ssh(server.ssh(), false)?);
        let connect = |address: Option<SocketAddr>| {
            address.ok_or_else(|| io::Error::other("no address")).and_then(TcpStream::connect)
        };
        let open = || -> io::Result<Box<dyn std::any::Any>> {
            Ok(match name {
                "TLS, nothing sent" => Box::new(connect(server.https())?),
                "TLS, handshake over" => Box::new(tls.connect()?),
                "SSH, nothing sent" => Box::new(connect(server.ssh())?),
                _ => Box::new(ssh.login()?),
            })
        };
        let door: &dyn Door = if name.starts_with("TLS") { &tls } else { &ssh };
        let fetch = site.fetch_of(STEADY);
        let others = || door.fetch(STEADY, &fetch, Take::Hash(HashKind::Sha1)).map(|received| received.whole);
        let warm = (0..UNCOUNTED).map(|_| open()).collect::<io::Result<Vec<_>>>()?;
        others()?;
        drop(warm);
        let before = memory_of_tree(server.id());
        let held = (0..count).map(|_| open()).collect::<io::Result<Vec<_>>>()?;
        // The server accepts this connection after all of them.
        let waited = others().map_err(|e| format!("{name}: nobody else is served: {e}"))?;
        let after = memory_of_tree(server.id());
        drop(held);
        let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1024.0 / count as f64;
        let resident = each(before.resident_bytes, after.resident_bytes);
        let private = each(before.anonymous_bytes, after.anonymous_bytes);
        let record = json!({ "work": "door, silent connections", "who": format!("packrace, {name}"), "count": count,
            "resident_bytes_each": resident * 1024.0, "anonymous_bytes_each": private * 1024.0 });
        println!(
            "| {name} | {resident:.1} | {private:.1} | {}, a fetch beside them {:.0} ms |",
            verdicts(&record, &[]),
            waited.as_secs_f64() * 1e3
        );
        records.push(record);
    }
    Ok(records)
}
