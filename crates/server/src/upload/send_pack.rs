//! Makes a pack on another thread, or joins one that is being made or kept, and sends it.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use packrace_os::clock::{Clock, RealClock};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::{MissingObjects, PackPlan};
use packrace_pack::{PackRequest, ProgressSink, RepositoryDeltas, RequestObjects, Totals};

use super::hook::{HookCall, HookRun};
use crate::check_intervals::CLIENT_CHECK_INTERVAL;
use crate::error::{Error, ErrorKind};
use crate::host::Host;
use crate::limits::admission::{Admission, AdmissionControl, AdmissionPermit};
use crate::metrics::{Raised, Stage, Step};
use crate::send::event::Event;
use crate::send::outbox::ClientSink;
use crate::send::pack_cache::{Generator, Joined, Key, PackCache, Producer};
use crate::send::relay::{Delivery, SendStop, Sending};
use crate::transfers::Transfer;

/// The admission of a call, if it is a clone.
pub(super) struct CloneAdmission<'a> {
    pub(super) host: &'a Arc<Host>,
    /// `None` for fetches, which do not wait.
    pub(super) state: Option<Admission>,
}

/// Where the pack comes from.
pub(super) enum PackWork {
    /// A request, to be planned and made.
    Plan(PackRequest),
    /// A plan, to be made.
    Make(PackPlan),
}

/// Sends a pack that is made for this client, or shared with other clients of the host.
pub(super) fn send_pack(
    request_objects: &Arc<RequestObjects>,
    work: PackWork,
    admission: CloneAdmission<'_>,
    delivery: Delivery<'_>,
    client: &mut dyn ClientSink,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let (host, is_clone) = (admission.host, admission.state.is_some());
    let mut sending = Sending::new(delivery, client, clock);
    let _permit = match sending.await_admission(admission.state, &admission.host.admission) {
        Ok(permit) => permit.map(|permit| (permit, Raised::new(&delivery.transfer.metrics().running_clones))),
        Err(stop) => return sending.end(Err(stop)),
    };
    delivery.transfer.is_at(Step::Planning);
    sending.begin_pack();
    let launch = |producer: Producer, work: PackWork| {
        let (request_objects, host, transfer) =
            (request_objects.clone(), host.clone(), delivery.transfer.clone());
        producer.launch(move |generator| {
            if is_clone && host.cpu.is_some() {
                packrace_os::process::lower_thread_priority();
            }
            let _memory = match &work {
                PackWork::Plan(request) => {
                    let bytes = packrace_pack::plan::estimated_memory(&request_objects, request);
                    claim(&host.admission, bytes, is_clone, generator)
                }
                PackWork::Make(_) => None,
            };
            let deltas = host.packs.deltas_of(request_objects.snapshot());
            Ok(make(&request_objects, work, deltas, &transfer, generator)?)
        })
    };
    let (reader, request) = match work {
        PackWork::Make(plan) => (launch(PackCache::produce_alone(), PackWork::Make(plan)), None),
        PackWork::Plan(request) => {
            let reader = match host.packs.join(|| Key::of(request_objects.snapshot(), &request), clock.now())
            {
                Joined::Follow(reader) => Ok(reader),
                Joined::Produce(new) => launch(new, PackWork::Plan(request.clone())),
            };
            (reader, Some(request))
        }
    };
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return sending.end(Err(SendStop::Failed(error))),
    };
    let mut result = sending.relay(|wait| reader.next(wait));
    if let (Err(SendStop::Lagged), Some(request), false) = (&result, request, sending.has_begun) {
        result = match launch(PackCache::produce_alone(), PackWork::Plan(request)) {
            Ok(alone) => {
                reader = alone;
                sending.relay(|wait| reader.next(wait))
            }
            Err(error) => Err(SendStop::Failed(error)),
        };
    }
    // The client gets the end before the reader is dropped, which may wait for the worker.
    sending.end(result)
}

/// Lowers the priority of this thread before a clone is sent, if this process also serves others. The thread
/// serves only this conversation.
pub(super) fn step_into_background(admission: &CloneAdmission<'_>, client: &mut dyn ClientSink) {
    if admission.state.is_some() && admission.host.cpu.is_some() {
        client.demote_to_background();
        packrace_os::process::lower_thread_priority();
    }
}

/// Sends the pack that a hook makes. A hook that already runs was asked for URIs.
pub(super) fn send_hook(
    hook: Result<HookRun, HookCall>,
    admission: CloneAdmission<'_>,
    delivery: Delivery<'_>,
    client: &mut dyn ClientSink,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let mut sending = Sending::new(delivery, client, clock);
    let _permit = match sending.await_admission(admission.state, &admission.host.admission) {
        Ok(permit) => permit.map(|permit| (permit, Raised::new(&delivery.transfer.metrics().running_clones))),
        Err(stop) => return sending.end(Err(stop)),
    };
    sending.explains = false;
    // The hook is dropped after the client got the end, not before.
    let run = hook.or_else(HookRun::start);
    let result = match &run {
        Ok(run) => relay_hook(&mut sending, run),
        Err(error) => Err(SendStop::Failed(error.clone())),
    };
    sending.end(result)
}

/// Sends the hook's messages and pack, until it ends.
fn relay_hook(sending: &mut Sending<'_>, run: &HookRun) -> Result<Option<Totals>, SendStop> {
    if !run.early.is_empty() {
        sending.say(&run.early)?;
    }
    sending.relay(|wait| match run.receiver.recv_timeout(wait) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => None,
        // The worker panicked, which was reported already.
        Err(RecvTimeoutError::Disconnected) => {
            let error = Error::new(ErrorKind::Unavailable, "internal error while reading from a hook");
            Some(Event::End(Err(error)))
        }
    })
}

/// Claims memory for a pack. A clone waits for it; `None` if the pack is no longer needed.
fn claim(
    admission: &AdmissionControl,
    bytes: u64,
    is_clone: bool,
    watch: &dyn ProgressSink,
) -> Option<AdmissionPermit> {
    if !is_clone {
        return Some(admission.take(bytes));
    }
    let mut waiting = match admission.claim(bytes) {
        Admission::Admitted(held) => return Some(held),
        Admission::Queued(waiting) => waiting,
        Admission::QueueFull => return None,
    };
    while !watch.cancelled() {
        match waiting.wait(CLIENT_CHECK_INTERVAL) {
            Ok(held) => return Some(held),
            Err(still) => waiting = still,
        }
    }
    None
}

fn make(
    request_objects: &Arc<RequestObjects>,
    work: PackWork,
    deltas: Option<RepositoryDeltas>,
    transfer: &Transfer,
    generator: &mut Generator,
) -> Result<Totals, packrace_pack::Error> {
    // The thread may outlive the client that it was started for.
    let clock = RealClock::default();
    let plan = match work {
        PackWork::Plan(request) => {
            let _phase = transfer.phase(Stage::Plan, &clock);
            plan_fetching(request_objects, request, generator)?
        }
        PackWork::Make(plan) => plan,
    };
    let _phase = transfer.phase(Stage::Generate, &clock);
    let mut stream = PackStream::new(plan.with_deltas(deltas));
    while let Some(segment) = stream.next_segment(generator)? {
        generator.push(segment);
    }
    Ok(stream.totals())
}

/// Plans, fetches what is missing if the repository was opened for that, and plans again: a tree may lead to others.
fn plan_fetching(
    request_objects: &Arc<RequestObjects>,
    mut request: PackRequest,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, packrace_pack::Error> {
    let mut objects = request_objects.clone();
    if request.missing == MissingObjects::Errors && objects.snapshot().can_fetch() {
        request.missing = MissingObjects::Listed;
    }
    loop {
        let plan = packrace_pack::plan::plan(&objects, &request, progress)?;
        if objects.missing_met().is_empty() {
            return Ok(plan);
        }
        objects = objects.fetch_missing_met(progress)?;
    }
}
