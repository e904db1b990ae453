//! Clones of one large pack over each transport.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use packrace_object::HashKind;
use packrace_testkit::raw_client::{Received, Take, Transport, read_answer};
use serde_json::{Value, json};

use super::clients::Door as _;
use super::servers::{BIG, Site};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::serve::Server;
use crate::swarm::figures::{mega, quantile};

/// Clones between two readings of the server's CPU time, whose clock has 100 ticks per second.
const CLONES: usize = 4;

/// A complete pack.
struct Cloned {
    bytes: u64,
    seconds: f64,
}

impl From<Received> for Cloned {
    fn from(received: Received) -> Self {
        Cloned { bytes: received.pack.bytes, seconds: received.whole.as_secs_f64() }
    }
}

/// One way to clone.
struct Way<'a> {
    who: String,
    server: &'a Server,
    clone: Box<dyn Fn(Take) -> io::Result<Cloned> + 'a>,
    cpu: Vec<f64>,
    wall: Vec<f64>,
    bytes: u64,
}

impl<'a> Way<'a> {
    fn new(who: &str, server: &'a Server, clone: impl Fn(Take) -> io::Result<Cloned> + 'a) -> Self {
        let (cpu, wall) = (Vec::new(), Vec::new());
        Way { who: who.to_owned(), server, clone: Box::new(clone), cpu, wall, bytes: 0 }
    }

    /// Times `count` clones.
    fn time(&mut self, count: usize) -> io::Result<()> {
        let clone = || {
            let mut walls = Vec::new();
            for _ in 0..count {
                let cloned = (self.clone)(Take::Checksum)?;
                if cloned.bytes != self.bytes {
                    return Err(io::Error::other(format!("{}: another size than before", self.who)));
                }
                walls.push(cloned.seconds);
            }
            Ok(walls)
        };
        let (walls, cpu) = self.server.with_processor_seconds(clone)?;
        self.cpu.push(cpu / count as f64);
        self.wall.extend(walls);
        Ok(())
    }

    fn cpu(&self) -> f64 {
        quantile(&self.cpu, 0.5)
    }

    fn wall(&self) -> f64 {
        quantile(&self.wall, 0.5)
    }
}

const PLAIN: &str = "packrace, HTTP";
const TLS: &str = "packrace, HTTPS";
const TLS_GIT: &str = "packrace, HTTPS, cloned by git (HTTP/2)";
const WEB_GIT: &str = "the same web server, cloned by git (HTTP/2)";
const SSH: &str = "packrace, listen.ssh";
const SSHD: &str = "sshd, git upload-pack";

/// Prints the cost of a clone over each transport.
pub fn run(args: &Args, site: &Site) -> Result<Vec<Value>, Error> {
    let packrace = site.packrace()?;
    let clone = site.clone_of(BIG);
    let tls = site.tls(packrace.https())?;
    let target = packrace.target(Transport::Http, &site.root().join(BIG))?;
    let request = target.request(&clone);
    let (web, sshd) = (site.web()?, site.sshd()?);
    let web_door = web.as_ref().map(|(_, server)| site.tls(Some(server.address()))).transpose()?;
    let web_name = web.as_ref().map_or("", |(name, _)| name);
    let mut ways = vec![
        Way::new(PLAIN, &packrace, |take| Ok(target.fetch(&request, take)?.into())),
        Way::new(TLS, &packrace, |take| Ok(tls.fetch(BIG, &clone, take)?.into())),
        Way::new(SSH, &packrace, |take| Ok(openssh(site, &packrace, true, take)?.into())),
    ];
    match (&web, &web_door) {
        (Some((name, server)), Some(door)) => {
            ways.push(Way::new(name, server, |take| Ok(door.fetch(BIG, &clone, take)?.into())));
        }
        _ => println!(
            "nginx with fcgiwrap, and lighttpd with mod_openssl, are missing: HTTPS of others is not measured."
        ),
    }
    ways.push(Way::new(TLS_GIT, &packrace, |_| stock_git(site, packrace.https())));
    if let Some((_, server)) = &web {
        ways.push(Way::new(WEB_GIT, server, |_| stock_git(site, Some(server.address()))));
    }
    match &sshd {
        Some(server) => {
            ways.push(Way::new(SSHD, server, |take| Ok(openssh(site, server, false, take)?.into())))
        }
        None => println!("sshd is missing: it is not measured."),
    }
    for way in &mut ways {
        // The first clone warms up, and is checked completely.
        let first = (way.clone)(Take::Hash(HashKind::Sha1));
        way.bytes = first.map_err(|e| format!("{}: {e}", way.who))?.bytes;
    }
    for _ in 0..if args.smoke { 1 } else { args.rounds } {
        ways.iter_mut().try_for_each(|way| way.time(if args.smoke { 1 } else { CLONES }))?;
    }
    Ok(print(&ways, &[(TLS, web_name), (TLS_GIT, WEB_GIT), (SSH, SSHD)]))
}

/// A clone by git, which uses HTTP/2 if an HTTPS server supports it.
fn stock_git(site: &Site, address: Option<SocketAddr>) -> io::Result<Cloned> {
    let port = address.ok_or_else(|| io::Error::other("no HTTPS"))?.port();
    let place = tempfile::tempdir()?;
    let start = Instant::now();
    let mut git = site.git.command(place.path());
    git.arg("-c").arg(format!("http.sslCAInfo={}", site.file("ca.pem").display()));
    git.args(["clone", "--quiet", "--bare", &format!("https://localhost:{port}/{BIG}"), "."]);
    if !git.status()?.success() {
        return Err(io::Error::other("git clone fails"));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut bytes = 0;
    for entry in std::fs::read_dir(place.path().join("objects/pack"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            bytes += std::fs::metadata(path)?.len();
        }
    }
    Ok(Cloned { bytes, seconds })
}

/// A clone by OpenSSH's client, from its start to its last byte.
fn openssh(site: &Site, server: &Server, is_packrace: bool, take: Take) -> io::Result<Received> {
    let address = if is_packrace { server.ssh() } else { Some(server.address()) };
    let address = address.ok_or_else(|| io::Error::other("no SSH"))?;
    let start = Instant::now();
    let mut child = site.openssh(address, is_packrace)?.spawn()?;
    let mut answer = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let received = read_answer(&mut answer, Transport::Git, take, start);
    let status = child.wait()?;
    match status.success() {
        true => Ok(received?),
        false => Err(io::Error::other(format!("ssh ended with {status}"))),
    }
}

fn print(ways: &[Way<'_>], beside: &[(&str, &str)]) -> Vec<Value> {
    println!("\n| clone of one pack | MB | CPU of the server, ms | wall, ms | |\n|---|---:|---:|---:|---|");
    let record = |way: &Way<'_>| {
        let peer = beside.iter().find(|(of, _)| *of == way.who).map(|(_, peer)| *peer);
        json!({ "work": "door, clone", "who": way.who, "beside": peer, "bytes": way.bytes,
            "cpu_seconds": way.cpu(), "wall_seconds": way.wall() })
    };
    let records: Vec<Value> = ways.iter().map(record).collect();
    for (way, record) in ways.iter().zip(&records) {
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {} |",
            way.who,
            mega(way.bytes),
            way.cpu() * 1e3,
            way.wall() * 1e3,
            verdicts(record, &records)
        );
    }
    records
}
