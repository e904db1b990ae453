//! Checks that a second clone through `packrace shell` comes from the pack cache of the running server.

use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use packrace_object::HashKind;
use packrace_testkit::clean_environment;
use packrace_testkit::peer::{Feed, http};
use packrace_testkit::raw_client::{Take, Transport, read_answer};
use serde_json::{Value, json};

use super::servers::{BIG, Site};
use crate::Error;
use crate::serve::Server;

/// Prints the cost of two clones; an error if the second is not from the cache.
pub fn run(site: &Site) -> Result<Vec<Value>, Error> {
    let server = site.packrace()?;
    let mut shown = Vec::new();
    for expect in [(1, 0), (1, 1)] {
        let (seconds, cpu) = server.with_processor_seconds(|| clone(site))?;
        let seen = (metric(&server, site, "misses")?, metric(&server, site, "hits_kept")?);
        if seen != expect {
            return Err(format!("packs made and taken from the cache: {seen:?}, and not {expect:?}").into());
        }
        shown.push((seconds, cpu));
    }
    println!("\n| clones through packrace shell | CPU of the server, ms | wall, ms |\n|---|---:|---:|");
    let names = ["first", "second, from the pack cache"];
    let rows = names.iter().zip(shown).map(|(name, (seconds, cpu))| {
        println!("| {name} | {:.0} | {:.0} |", cpu * 1e3, seconds * 1e3);
        json!({ "work": "door, packrace shell", "who": format!("packrace, {name} clone"), "cpu_seconds": cpu, "wall_seconds": seconds })
    });
    Ok(rows.collect())
}

/// A clone with the forced command of a user.
fn clone(site: &Site) -> io::Result<f64> {
    let start = Instant::now();
    let mut shell = Command::new(&site.binary);
    clean_environment(&mut shell);
    shell.args(["shell", "--config"]).arg(site.settings()).arg(site.root()).arg("alice");
    shell.env("SSH_ORIGINAL_COMMAND", format!("git-upload-pack '/{BIG}'")).env("GIT_PROTOCOL", "version=2");
    shell.stdin(std::fs::File::open(site.file("clone"))?).stdout(Stdio::piped());
    let mut child = shell.spawn()?;
    let mut answer = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let received = read_answer(&mut answer, Transport::Git, Take::Hash(HashKind::Sha1), start);
    let status = child.wait()?;
    match status.success() {
        true => Ok(received?.whole.as_secs_f64()),
        false => Err(io::Error::other(format!("packrace shell ended with {status}"))),
    }
}

/// A counter of the pack cache.
fn metric(server: &Server, site: &Site, name: &str) -> Result<u64, Error> {
    let address = server.target(Transport::Http, &site.root())?.address;
    let text = http(address, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("packrace_cache_{name}_total ")));
    Ok(line.ok_or("a number is missing")?.parse()?)
}
