//! What is short goes before clones, and clones step back.

use std::io::{self, Cursor};
use std::sync::Arc;

use packrace_os::simulated::SimulatedClock;
use packrace_server::host::Host;
use packrace_server::limits::cpu::Turns;
use packrace_server::send::outbox::{Door, GatherBatch};
use packrace_server::subject::{Mode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload::{UploadPack, upload_pack};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::peer::Script;
use packrace_testkit::{RepoBuilder, Size};

/// The turns are in the test and in the host; each that goes first has them, too.
const NOBODY: usize = 2;

/// Looks, with the last batch, who goes first.
struct Looker {
    turns: Arc<Turns>,
    seen: usize,
    has_stepped_back: bool,
}

impl Door for Looker {
    fn send(&mut self, _batch: GatherBatch) -> io::Result<()> {
        self.seen = Arc::strong_count(&self.turns);
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        false
    }

    fn step_back(&mut self) {
        self.has_stepped_back = true;
    }
}

#[test]
fn a_fetch_goes_first_and_a_clone_steps_back() {
    let repo = RepoBuilder::new(Size::Small).build();
    let id = |name: &str| repo.git(&["rev-parse", name]).trim().to_owned();
    let (main, before) = (id("main"), id("main^"));
    let turns = Arc::new(Turns::new(1));
    let host = Arc::new(Host { turns: Some(turns.clone()), ..Host::default() });
    let check = |script: Script, goes_first: usize, steps_back: bool| {
        let subject = Subject {
            repository: Arc::new(Repository::open(repo.path(), &OpenOptions::default()).unwrap()),
            version: ProtocolVersion::V2,
            mode: Mode::StatelessRpc,
            namespace: String::new(),
            agent: "packrace/test".into(),
            transfer: Transfer::unlisted("1"),
            host: host.clone(),
            confinement: Default::default(),
            paths: Default::default(),
        };
        let call = UploadPack { subject, hook_environment: Vec::new() };
        // The door has them as well.
        let mut door = Looker { turns: turns.clone(), seen: 0, has_stepped_back: false };
        upload_pack(&call, &mut Cursor::new(script.bytes()), &mut door, &SimulatedClock::default()).unwrap();
        assert_eq!((door.seen, door.has_stepped_back), (NOBODY + 1 + goes_first, steps_back));
        drop(door);
        assert_eq!(Arc::strong_count(&turns), NOBODY);
    };
    check(Script::new().fetch_v2("sha1", &[&main], &[&before]).flush(), 1, false);
    check(Script::new().fetch_v2("sha1", &[&main], &[]).flush(), 0, true);
}
