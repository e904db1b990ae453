//! Budget: what is sent from stored packs as it lies there costs no allocation an object.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use packrace_object::ObjectId;
use packrace_os::allocations::{Counting, counted};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::plan;
use packrace_pack::{NoProgress, PackRequest, PackReuseScope, RequestObjects, Settings, Totals};
use packrace_server::send::outbox::{ClientSink, Framing, GatherBatch, Outbox};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Bitmap, Repo, RepoBuilder, Size, Storage};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Takes all that comes and keeps nothing.
#[derive(Default)]
struct Sink {
    batches: u64,
    bytes: usize,
}

impl ClientSink for Sink {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        self.batches += 1;
        self.bytes += batch.pieces().map(<[u8]>::len).sum::<usize>();
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        false
    }

    fn demote_to_background(&mut self) {}
}

fn request(repo: &Repo, wants: &str, ofs_delta: bool) -> PackRequest {
    let ids = repo.git(&["rev-parse", wants]);
    let wants = ids.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
    // Deltas that are reused are counted, too.
    let settings = Settings { pack_reuse: PackReuseScope::Off, ..Settings::default() };
    PackRequest { wants, ofs_delta, threads: 1, settings, ..PackRequest::default() }
}

/// Streams the pack in frames; tells how it was put together, and its allocations.
fn send(request_objects: &Arc<RequestObjects>, request: &PackRequest) -> (Totals, u64, Sink) {
    let mut sink = Sink::default();
    let framing = Framing::Sideband { payload_bytes: 65_515 };
    let plan = plan(request_objects, request, &NoProgress).unwrap();
    let (totals, allocations) = counted(|| {
        let mut outbox = Outbox::new(&mut sink, framing, None, Duration::ZERO);
        let mut stream = PackStream::new(plan);
        while let Some(segment) = stream.next_segment(&NoProgress).unwrap() {
            outbox.pack(segment, Duration::ZERO).unwrap();
        }
        outbox.finish(Duration::ZERO).unwrap();
        stream.totals()
    });
    (totals, allocations, sink)
}

#[test]
fn reuse_allocates_by_the_batch_and_not_by_the_object() {
    let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Medium).storage(storage).build();
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
    // Entries as they are; and with a new header for every delta, which then names its base.
    for ofs_delta in [true, false] {
        let request = request(&repo, "HEAD", ofs_delta);
        let (totals, allocations, sink) = send(&request_objects, &request);
        assert_eq!(totals.reused, totals.objects);
        assert!(totals.deltas > 10_000 && sink.bytes > 10 << 20, "{totals:?}");
        let budget = 100 + 16 * sink.batches;
        assert!(allocations <= budget, "{allocations} allocations, ofs-delta {ofs_delta}");
    }
}
