//! What is short goes before clones, and clones step back.

use std::io::{self, Cursor};
use std::sync::Arc;

use packrace_os::simulated::SimulatedClock;
use packrace_server::host::Host;
use packrace_server::limits::cpu::CpuScheduler;
use packrace_server::send::outbox::{ClientSink, GatherBatch};
use packrace_server::subject::{CallMode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload::{UploadPack, upload_pack};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::peer::Script;
use packrace_testkit::{RepoBuilder, Size};

/// The scheduler is held by the test and by the host; each piece of interactive work holds it, too.
const IDLE_COUNT: usize = 2;

/// Notes how many hold the scheduler when the last batch is sent.
struct Recorder {
    cpu: Arc<CpuScheduler>,
    seen: usize,
    is_background: bool,
}

impl ClientSink for Recorder {
    fn send(&mut self, _batch: GatherBatch) -> io::Result<()> {
        self.seen = Arc::strong_count(&self.cpu);
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        false
    }

    fn demote_to_background(&mut self) {
        self.is_background = true;
    }
}

#[test]
fn a_fetch_is_interactive_and_a_clone_goes_to_the_background() {
    let repo = RepoBuilder::new(Size::Small).build();
    let id = |name: &str| repo.git(&["rev-parse", name]).trim().to_owned();
    let (main, before) = (id("main"), id("main^"));
    let cpu = Arc::new(CpuScheduler::new(1));
    let host = Arc::new(Host { cpu: Some(cpu.clone()), ..Host::default() });
    let check = |script: Script, interactive: usize, is_background: bool| {
        let subject = Subject {
            repository: Arc::new(Repository::open(repo.path(), &OpenOptions::default()).unwrap()),
            version: ProtocolVersion::V2,
            mode: CallMode::StatelessRpc,
            namespace: String::new(),
            agent: "packrace/test".into(),
            transfer: Transfer::unlisted("1"),
            host: host.clone(),
            confinement: Default::default(),
            paths: Default::default(),
        };
        let call = UploadPack { subject, hook_environment: Vec::new(), bundles: None };
        // The client has them as well.
        let mut client = Recorder { cpu: cpu.clone(), seen: 0, is_background: false };
        upload_pack(&call, &mut Cursor::new(script.bytes()), &mut client, &SimulatedClock::default())
            .unwrap();
        assert_eq!((client.seen, client.is_background), (IDLE_COUNT + 1 + interactive, is_background));
        drop(client);
        assert_eq!(Arc::strong_count(&cpu), IDLE_COUNT);
    };
    check(Script::new().fetch_v2("sha1", &[&main], &[&before]).flush(), 1, false);
    check(Script::new().fetch_v2("sha1", &[&main], &[]).flush(), 0, true);
}
