//! The client as a library: any connection goes, and what it gives is read in wide pieces.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use packrace_client::{Error, Listener, Remote, Stateful, Timeouts};
use packrace_object::{HashKind, ObjectId};
use packrace_pack::NoProgress;
use packrace_pack::ingest::{Ingest, IngestOptions};
use packrace_protocol::message::fetch_request::FetchRequest;
use packrace_protocol::session::RefsRequest;
use packrace_protocol::session::fetch_client::FetchLimits;
use packrace_store::publish::{PackWriter, WritePolicy};
use packrace_store::{Config, ConfigSources};
use packrace_testkit::peer::Script;
use packrace_testkit::{Random, RepoBuilder, Size};

/// What a server says, handed out in pieces.
struct Answers {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
    reads: Rc<Cell<usize>>,
    /// What comes instead of the end.
    last: Option<io::ErrorKind>,
}

impl Read for Answers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.set(self.reads.get() + 1);
        // A signal now and then is no failure.
        if self.reads.get() % 5 == 3 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = buffer.len().min(self.step).min(self.bytes.len() - self.at);
        if let (0, Some(kind)) = (length, self.last) {
            return Err(kind.into());
        }
        buffer[..length].copy_from_slice(&self.bytes[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

#[derive(Default)]
struct HeardAnswer {
    text: Vec<u8>,
    bytes: usize,
}

impl Listener for HeardAnswer {
    fn text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn received(&mut self, bytes: &[u8], ingest: &Ingest) {
        self.bytes += bytes.len();
        assert!(ingest.received().0 <= ingest.received().1);
    }
}

struct Server {
    id: ObjectId,
    pack: Vec<u8>,
    answers: Vec<u8>,
}

impl Server {
    /// One that sends this blob, and keeps its connection alive meanwhile.
    fn new(blob: &[u8]) -> Self {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], blob);
        let mut packing = packrace_testkit::Git::stock().command(repo.path());
        packing.args(["pack-objects", "--stdout", "-q"]);
        let input = format!("{}\n", id.trim());
        let reply = packrace_testkit::peer::stdio(
            &mut packing,
            input.as_bytes(),
            packrace_testkit::peer::Feed::Whole,
        );
        let pack = reply.stdout;
        let script = Script::new().line("version 2").line("ls-refs").line("fetch").flush();
        let mut script = script.line(&format!("{} refs/heads/x", id.trim())).flush().line("packfile");
        for chunk in pack.chunks(65_515) {
            script = script.data(&[&[1], chunk].concat()).data(b"\x01").data(b"\x02.");
        }
        let answers = script.flush().bytes().to_vec();
        Server { id: ObjectId::from_hex(id.trim().as_bytes()).unwrap(), pack, answers }
    }

    /// Takes the pack from a connection that gives `step` bytes a read.
    fn take(&self, bytes: &[u8], step: usize, last: Option<io::ErrorKind>) -> Result<usize, Error> {
        let dir = packrace_testkit::scratch_dir();
        let reads = Rc::new(Cell::new(0));
        let answers = Answers { bytes: bytes.to_vec(), at: 0, step, reads: reads.clone(), last };
        let mut said = Vec::new();
        let connection = Stateful::new(answers, &mut said);
        let mut remote = Remote::open(connection, "me", FetchLimits::default(), Timeouts::default())?;
        let refs = remote.list_refs(&RefsRequest::default())?;
        assert_eq!(refs.find(b"refs/heads/x").unwrap().id, Some(self.id));
        let writer = PackWriter::receive(dir.path(), HashKind::Sha1, WritePolicy::default()).unwrap();
        let config = Config::outside(&ConfigSources::default()).unwrap();
        let mut ingest = Ingest::new(writer, IngestOptions::of(&config, HashKind::Sha1).unwrap());
        let mut heard = HeardAnswer::default();
        let request = FetchRequest { wants: vec![self.id], ..FetchRequest::default() };
        remote.fetch(&request, &mut ingest, &mut heard)?;
        remote.end_stateful();
        let indexed = ingest.resolve(None, &NoProgress).unwrap();
        assert_eq!(indexed.data().unwrap()[..], self.pack[..]);
        assert_eq!((heard.bytes, heard.text.len()), (self.pack.len(), self.pack.len().div_ceil(65_515)));
        assert!(String::from_utf8_lossy(&said).contains(&format!("want {}\n", self.id)));
        Ok(reads.get())
    }
}

#[test]
fn packs_arrive_whatever_the_pieces() {
    let server = Server::new(&Random::new(1).bytes(100_000));
    for step in [1, 7, 4096, 1 << 30] {
        server.take(&server.answers, step, None).unwrap();
    }
}

#[test]
fn what_is_there_is_read_in_wide_pieces() {
    let server = Server::new(&Random::new(2).bytes(12 << 20));
    let reads = server.take(&server.answers, usize::MAX, None).unwrap();
    // One in five is interrupted.
    let budget = server.answers.len() / (1 << 20) * 5 / 4 + 4;
    assert!(reads <= budget, "{reads} reads of {} bytes, budget {budget}", server.answers.len());
}

#[test]
fn connections_that_fail() {
    let server = Server::new(&Random::new(3).bytes(1000));
    let cut = &server.answers[..server.answers.len() - 30];
    let error = |last| server.take(cut, 100, last).unwrap_err().to_string();
    let disconnected = "unexpected disconnect while reading sideband packet";
    assert_eq!(error(None), disconnected);
    assert_eq!(error(Some(io::ErrorKind::ConnectionReset)), disconnected);
    let silence = Timeouts::default().silence;
    assert_eq!(silence, Duration::from_secs(300));
    assert_eq!(error(Some(io::ErrorKind::WouldBlock)), "no data from the server for 300 seconds");
    assert_eq!(error(Some(io::ErrorKind::PermissionDenied)), "read error: permission denied");
}
