//! The requests of crowds.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use packrace_testkit::Git;
use packrace_testkit::raw_client::{Received, Take};
use packrace_testkit::received::objects_in_pack;
use serde_json::Value;

use super::crowd::{self, Crowd};
use super::figures::Figures;
use super::{Contender, Fetch, Subject};
use crate::Error;
use crate::args::Args;
use crate::goals::verdicts;
use crate::measure::{own_processor_seconds, processor_seconds};
use crate::serve::Server;
use crate::work::needed_objects;

/// One in this many clients hashes its pack; the others compute a CRC.
const HASHES_ONE_IN: usize = 16;

/// Maximum number of concurrent clients.
pub const MOST_CLIENTS: usize = 256;

/// Divides the number of clients if each pack takes seconds of work.
const SLOW_DIVISOR: usize = 4;

/// A server's last processes end this long after their responses.
const SETTLES: std::time::Duration = std::time::Duration::from_millis(100);

/// Concurrent clients with requests to one repository.
pub struct Scene<'a> {
    name: String,
    subject: &'a Subject,
    /// One per client, or one for all.
    fetches: Vec<Fetch>,
    clients: usize,
    /// Whether each round has a new server that has seen no request.
    is_cold: bool,
    /// Whether one pack of each server is indexed.
    is_indexed: bool,
}

/// All scenes.
pub fn all<'a>(args: &Args, bitmap: &'a Subject, plain: &'a Subject) -> Vec<Scene<'a>> {
    let clients = args.clients;
    let mut crowds = match args.smoke {
        true => vec![1, clients, 2 * clients],
        false => vec![1, clients / 4, clients, 2 * clients, 8 * clients],
    };
    crowds.retain(|clients| (1..=MOST_CLIENTS).contains(clients));
    crowds.dedup();
    let identical = crowds.into_iter().map(|count| Scene {
        name: format!("{count} identical"),
        subject: bitmap,
        fetches: vec![bitmap.clone_all()],
        clients: count,
        is_cold: false,
        is_indexed: count == clients,
    });
    let other = |name: &str, subject: &'a Subject, count: usize, fetches, is_cold| Scene {
        name: format!("{count} {name}"),
        subject,
        fetches,
        clients: count,
        is_cold,
        is_indexed: !is_cold,
    };
    let near = (0..clients).map(|number| bitmap.clone_almost_all(number)).collect();
    let fetches = (0..clients).map(|number| bitmap.fetch_some(clients + number)).collect();
    let slow = (clients / SLOW_DIVISOR).max(2);
    let near_slow = (0..slow).map(|number| plain.clone_almost_all(number)).collect();
    identical
        .chain([
            other("identical, cold", bitmap, clients, vec![bitmap.clone_all()], true),
            other("near-identical", bitmap, clients, near, false),
            other("fetches, each of one commit more", bitmap, clients, fetches, false),
            other("identical, no bitmap", plain, slow, vec![plain.clone_all()], false),
            other("near-identical, no bitmap", plain, slow, near_slow, false),
        ])
        .collect()
}

/// Packs that were indexed and are complete, by repository, request, size and CRC: indexing takes longer than
/// everything else.
#[derive(Default)]
pub struct Indexed(HashSet<(PathBuf, Vec<u8>, u64, u32)>);

impl Scene<'_> {
    /// Observes each server once, then times them in turns, and prints the rows.
    pub fn compare(
        &self,
        args: &Args,
        git: &Git,
        contenders: &[Contender],
        indexed: &mut Indexed,
    ) -> Result<Vec<Value>, Error> {
        let mut servers = Vec::new();
        let mut figures = Vec::new();
        for contender in contenders {
            let server = contender.start()?;
            let (crowd, peak) =
                server.watched(|| self.send(contender, &server, |number| self.look(number)))?;
            self.check(git, contender, &crowd, indexed).map_err(|why| self.failure(contender, &why))?;
            figures.push(Figures::new(contender, self.clients, peak));
            servers.push(server);
        }
        for _ in 0..args.rounds {
            for ((contender, server), figures) in contenders.iter().zip(&mut servers).zip(&mut figures) {
                if figures.has_enough(args.rounds) {
                    continue;
                }
                if self.is_cold {
                    *server = contender.start()?;
                }
                self.time(contender, server, figures)
                    .map_err(|why| self.failure(contender, &why.to_string()))?;
            }
        }
        for figures in &figures {
            print!("{}", figures.row(&self.name));
        }
        let records: Vec<Value> = figures.iter().map(|figures| figures.json(&self.name)).collect();
        if let ([git, .., packrace], Some(record)) = (&figures[..], records.last()) {
            print!("{}", packrace.ratio_row(git, &verdicts(record, &records)));
        }
        Ok(records)
    }

    fn failure(&self, contender: &Contender, why: &str) -> String {
        format!("{}: {}: {why}", self.name, contender.who)
    }

    fn send(
        &self,
        contender: &Contender,
        server: &Server,
        take: impl Fn(usize) -> Take + Sync,
    ) -> io::Result<Crowd> {
        let target = server.target(contender.transport, &self.subject.repo)?;
        let requests: Vec<_> = self.fetches.iter().map(|fetch| target.request(&fetch.command)).collect();
        let of_each = |number: usize| requests[number % requests.len()].as_slice();
        crowd::at_once(&target, &(0..self.clients).map(of_each).collect::<Vec<_>>(), take)
    }

    fn time(&self, contender: &Contender, server: &Server, figures: &mut Figures) -> io::Result<()> {
        let before = (processor_seconds(server.id()), own_processor_seconds());
        let crowd = self.send(contender, server, |_| Take::Checksum)?;
        let client_cpu = own_processor_seconds() - before.1;
        std::thread::sleep(SETTLES);
        figures.add(&crowd, processor_seconds(server.id()) - before.0, client_cpu);
        self.agree(contender, &crowd.received).map_err(io::Error::other)
    }

    fn look(&self, number: usize) -> Take {
        match number {
            0 if self.is_indexed => Take::Keep,
            _ if number.is_multiple_of(HASHES_ONE_IN) => Take::Hash(self.subject.hash),
            _ => Take::Checksum,
        }
    }

    /// Hashed packs were already checked by their clients; here the first one is indexed, if required.
    fn check(
        &self,
        git: &Git,
        contender: &Contender,
        crowd: &Crowd,
        indexed: &mut Indexed,
    ) -> Result<(), String> {
        self.agree(contender, &crowd.received)?;
        let (pack, fetch) = (&crowd.received[0].pack, &self.fetches[0]);
        let known = (self.subject.repo.clone(), fetch.command.clone(), pack.bytes, pack.crc);
        if !self.is_indexed || !indexed.0.insert(known) {
            return Ok(());
        }
        let base = fetch.have.as_ref().map(|_| self.subject.repo.as_path());
        let there = objects_in_pack(git, &pack.kept, self.subject.hash, base);
        let needed = match &fetch.have {
            Some(have) => needed_objects(git, &self.subject.repo, have),
            None => reached(git, &self.subject.repo, &fetch.wants),
        };
        let missing = needed.difference(&there).count();
        if missing == 0 { Ok(()) } else { Err(format!("{missing} of {} objects are missing", needed.len())) }
    }

    /// Identical requests must get identical packs from packrace; git's differ by some bytes with two
    /// threads.
    fn agree(&self, contender: &Contender, received: &[Received]) -> Result<(), String> {
        let is_alike = contender.beside.is_some() && self.fetches.len() == 1;
        let of = |received: &Received| (received.pack.bytes, received.pack.crc);
        match received.iter().position(|other| of(other) != of(&received[0])) {
            Some(number) if is_alike => Err(format!("the packs of clients 0 and {number} differ")),
            _ => Ok(()),
        }
    }
}

/// All objects that these reach.
fn reached(git: &Git, repo: &Path, ids: &[String]) -> BTreeSet<String> {
    let list = ["rev-list", "--objects", "--no-object-names", "--stdin"];
    let reached = git.run_with_input(repo, &list, (ids.join("\n") + "\n").as_bytes());
    String::from_utf8_lossy(&reached).lines().map(str::to_string).collect()
}
