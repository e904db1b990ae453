//! Packs that a client downloads elsewhere (technical/packfile-uri): docs/decisions/0006-packfile-uris.md.

use std::sync::Mutex;
use std::time::Duration;

use packrace_os::clock::Clock;
use packrace_pack::{PackRequest, Phase, ProgressSink};
use packrace_protocol::message::packfile_uris::PackfileUri;
use packrace_protocol::session;
use packrace_protocol::wire::sideband;

use super::features::{blob_uris, uris_of};
use super::hook::HookRun;
use super::serve::Upload;
use crate::error::Error;
use crate::send::outbox::{ClientSink, GatherBatch};

impl Upload<'_> {
    /// Plans the pack without the objects that the client can download elsewhere, keeps the plan for
    /// [`session::Output::NeedPack`], and returns the URIs of the objects that were left out. Without such
    /// objects nothing is planned yet.
    pub(super) fn choose_uris(&mut self, request: session::PackRequest) -> Result<Vec<PackfileUri>, Error> {
        let protocols = &request.uri_protocols;
        if let Some(hook) = self.settings.hook.clone() {
            return self.ask_hook(&hook, request);
        }
        let repository = &self.call.subject.repository;
        let mut known = blob_uris(repository.config(), repository.hash_kind())?;
        known.retain(|uri| uri.pack.is_of(protocols));
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let keepalive = self.settings.keepalive.filter(|_| request.sideband_all);
        let excluded = known.iter().map(|uri| uri.object).collect();
        let request = PackRequest { excluded, ..self.pack_request(request)? };
        let watch = Planning {
            client: Mutex::new((&mut *self.client, self.clock.now())),
            clock: self.clock,
            keepalive,
        };
        let plan = packrace_pack::plan::plan(&self.request_objects, &request, &watch)?;
        let uris = uris_of(&known, plan.excluded()).into_iter().cloned().collect();
        self.planned = Some(plan);
        Ok(uris)
    }

    /// Like [`Self::choose_uris`], but asks the hook with `--uri-protocol`, and keeps it running.
    fn ask_hook(&mut self, hook: &[u8], request: session::PackRequest) -> Result<Vec<PackfileUri>, Error> {
        let keepalive = self.settings.keepalive.filter(|_| request.sideband_all);
        let call = self.hook_call(hook, request)?;
        let watch = Planning {
            client: Mutex::new((&mut *self.client, self.clock.now())),
            clock: self.clock,
            keepalive,
        };
        let (run, uris) = HookRun::start(call)?.uris(&watch)?;
        self.hook_run = Some(run);
        Ok(uris)
    }
}

/// Planning before the pack section. Its only sign of life is an empty packet in band 2, for clients that use
/// a side-band for whole answers.
struct Planning<'a> {
    /// The client, and when something was last sent.
    client: Mutex<(&'a mut dyn ClientSink, Duration)>,
    clock: &'a dyn Clock,
    keepalive: Option<Duration>,
}

impl ProgressSink for Planning<'_> {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        let mut client = self.client.lock().expect("no panic while held");
        let (client, last_sent) = &mut *client;
        if let Some(interval) = self.keepalive {
            let now = self.clock.now();
            if now.saturating_sub(*last_sent) >= interval {
                *last_sent = now;
                let is_sent = client.send(GatherBatch::of(sideband::EARLY_KEEPALIVE.to_vec())).is_ok();
                return !is_sent || client.peer_gone();
            }
        }
        client.peer_gone()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use packrace_os::simulated::SimulatedClock;

    use super::*;

    /// Keeps the bytes that it gets, until it is closed.
    #[derive(Default)]
    struct Recorder {
        bytes: Vec<u8>,
        is_gone: bool,
    }

    impl ClientSink for Recorder {
        fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
            if self.is_gone {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            batch.pieces().for_each(|piece| self.bytes.extend_from_slice(piece));
            Ok(())
        }

        fn peer_gone(&mut self) -> bool {
            self.is_gone
        }

        fn demote_to_background(&mut self) {}
    }

    /// What a client gets that waits 12 seconds.
    fn check(keepalive: Option<Duration>, expect: &[u8]) {
        let (clock, mut client) = (SimulatedClock::default(), Recorder::default());
        let watch = Planning { client: Mutex::new((&mut client, clock.now())), clock: &clock, keepalive };
        for _ in 0..120 {
            assert!(!watch.cancelled());
            clock.advance(Duration::from_millis(100));
        }
        assert_eq!(client.bytes, expect);
        client.is_gone = true;
        let watch = Planning { client: Mutex::new((&mut client, clock.now())), clock: &clock, keepalive };
        assert!(watch.cancelled());
        clock.advance(Duration::from_secs(6));
        assert!(watch.cancelled());
    }

    #[test]
    fn signs_of_life_while_a_pack_is_planned() {
        check(Some(Duration::from_secs(5)), b"0005\x020005\x02");
        check(None, b"");
    }
}
