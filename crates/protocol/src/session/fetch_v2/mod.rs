//! The server's side of version 2 (gitprotocol-v2): a series of independent commands.
//!
//! ```text
//! Keys ─ flush ─▶ (no command: end of the session)
//!   │ delimiter
//!   ▼
//! Arguments ─ flush ─▶ ls-refs ─▶ Refs ──────────────────────────────────────────────▶ Keys
//!                      object-info ─▶ Sizes ────────────────────────────────────────▶ Keys
//!                      bundle-uri ─▶ Bundles ───────────────────────────────────────▶ Keys
//!                      fetch ─▶ Want-refs ─▶ Wants ─▶ Haves ─▶ (not ready: flush) ──▶ Keys
//!                                              │        │ ready, done or no haves
//!                                              └────────┴─▶ Shallow ─▶ Uris ─▶ Pack ─▶ Keys
//! ```
//!
//! Sections of a fetch answer come in the documented order: acknowledgments, shallow-info, wanted-refs, packfile-uris,
//! packfile. (git sends wanted-refs before shallow-info, and its own client then gives up.)

mod fetch_arguments;
mod keys;
mod object_info;
mod refs_arguments;

use super::lines::write_shallow_lines;
use super::{
    Carriage, FetchInfo, HavesAnswer, Input, Output, Outputs, PackRequest, ServiceConfig, ShallowAnswer,
    ShallowRequest, Sideband,
};
use crate::message::acknowledgment::{self, Meaning};
use crate::message::packfile_uris::PackfileUri;
use crate::message::section::Section;
use crate::message::{bundle_uri, wanted_refs};
use crate::refusal::Refusal;
use crate::wire::pkt_line::{DELIM, Decoder, FLUSH, PktLine, text};
use crate::wire::sideband;
use fetch_arguments::Fetch;
use keys::Keys;
use object_info::ObjectInfoArguments;
use refs_arguments::RefsArguments;

/// A conversation in version 2, from the first command on.
#[derive(Debug)]
pub struct Session {
    config: ServiceConfig,
    carriage: Carriage,
    decoder: Decoder,
    outputs: Outputs,
    state: FetchV2State,
    is_eof: bool,
    /// The client requested the whole answer in a side-band (`sideband-all`).
    is_multiplexed: bool,
    /// The client accepts an offered promisor remote. git says so with its first command only.
    accepts_promisor: bool,
}

#[derive(Debug)]
enum FetchV2State {
    /// Reading the command and its capabilities.
    Keys(Keys),
    /// Reading the arguments of a command.
    RefsArguments(RefsArguments),
    FetchArguments(Box<Fetch>),
    ObjectInfoArguments(ObjectInfoArguments),
    BundleArguments,
    /// The whole request has been read; the answer begins.
    FetchComplete(Box<Fetch>),
    /// Waiting for the caller.
    SendingRefs,
    SendingObjectInfo,
    FindingBundles,
    ResolvingRefs(Box<Fetch>),
    CheckingWants(Box<Fetch>),
    CheckingHaves(Box<Fetch>),
    ResolvingShallow(Box<Fetch>),
    ChoosingUris(Box<PackRequest>),
    SendingPack,
    Ended,
}

impl Session {
    /// A session whose advertisement was sent.
    pub fn new(config: ServiceConfig, carriage: Carriage) -> Self {
        Session {
            config,
            carriage,
            decoder: Decoder::default(),
            outputs: Outputs::default(),
            state: FetchV2State::Keys(Keys::default()),
            is_eof: false,
            is_multiplexed: false,
            accepts_promisor: false,
        }
    }

    /// Takes an input. A refusal ends the session.
    pub fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        let result = self.handle_input(input).and_then(|()| self.read_lines());
        if result.is_err() {
            self.state = FetchV2State::Ended;
        }
        result
    }

    /// The message that tells the client of a refusal, if it can still receive it. After `sideband-all` it
    /// goes into the side-band, where an `ERR` packet would be invalid.
    pub fn wire(&self, refusal: &Refusal) -> Option<Vec<u8>> {
        if self.is_multiplexed { refusal.wire_in_band() } else { refusal.wire() }
    }

    /// What the client asks for, from [`Output::CheckWants`] until [`Input::WantsGranted`].
    pub fn fetch_info(&self) -> Option<FetchInfo<'_>> {
        let FetchV2State::CheckingWants(fetch) = &self.state else { return None };
        Some(FetchInfo {
            wants: &fetch.wants,
            want_refs: fetch.want_refs.len(),
            haves: &fetch.haves,
            client_shallow: &fetch.depth.client_shallow,
            deepen: fetch.deepen.as_ref(),
            filter: fetch.filter.as_deref(),
        })
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Output {
        if let Some(output) = self.outputs.pop() {
            return output;
        }
        if matches!(self.state, FetchV2State::Ended) { Output::Done } else { Output::NeedInput }
    }

    fn handle_input(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match (input, std::mem::replace(&mut self.state, FetchV2State::Ended)) {
            (Input::Bytes(_), FetchV2State::Ended) => Ok(()),
            (Input::Bytes(bytes), state) => {
                self.state = state;
                self.decoder.push(bytes);
                Ok(())
            }
            (Input::Eof, state) => {
                self.state = state;
                self.is_eof = true;
                Ok(())
            }
            (Input::RefsSent, FetchV2State::SendingRefs)
            | (Input::ObjectInfoSent, FetchV2State::SendingObjectInfo) => {
                self.outputs.bytes().extend_from_slice(FLUSH);
                self.next_command();
                Ok(())
            }
            (Input::BundlesFound(bundles), FetchV2State::FindingBundles) => {
                bundle_uri::write_list(self.outputs.bytes(), &bundles);
                self.next_command();
                Ok(())
            }
            (Input::RefsResolved(ids), FetchV2State::ResolvingRefs(mut fetch)) => {
                fetch.add_wanted_refs(ids)?;
                self.check_wants(fetch);
                Ok(())
            }
            (Input::WantsGranted, FetchV2State::CheckingWants(fetch)) => {
                self.after_wants(fetch);
                Ok(())
            }
            (Input::HavesChecked(answer), FetchV2State::CheckingHaves(fetch)) => {
                answer.check_len(fetch.haves.len())?;
                self.after_haves(fetch, &answer);
                Ok(())
            }
            (Input::ShallowResolved(answer), FetchV2State::ResolvingShallow(fetch)) => {
                self.after_shallow(*fetch, &answer);
                Ok(())
            }
            (Input::UrisChosen(uris), FetchV2State::ChoosingUris(request)) => {
                self.after_uris(*request, &uris);
                Ok(())
            }
            (Input::PackSent, FetchV2State::SendingPack) => {
                self.next_command();
                Ok(())
            }
            (other, _) => Err(Refusal::out_of_order(match other {
                Input::RefsSent => "refs sent",
                Input::WantsGranted => "wants granted",
                Input::HavesChecked(_) => "haves checked",
                Input::ShallowResolved(_) => "shallow resolved",
                Input::RefsResolved(_) => "refs resolved",
                Input::ObjectInfoSent => "object info sent",
                Input::BundlesFound(_) => "bundles found",
                Input::UrisChosen(_) => "uris chosen",
                _ => "pack sent",
            })),
        }
    }

    fn next_command(&mut self) {
        self.is_multiplexed = false;
        self.state = match self.carriage {
            Carriage::Stateful => FetchV2State::Keys(Keys::new(self.accepts_promisor)),
            Carriage::Stateless => FetchV2State::Ended,
        };
    }

    /// Reads packets while the state expects input.
    fn read_lines(&mut self) -> Result<(), Refusal> {
        while self.state.is_reading() {
            let packet = match self.decoder.next()? {
                Some(packet) => packet,
                None if self.is_eof => return self.at_eof(),
                None => return Ok(()),
            };
            if let FetchV2State::Keys(keys) = &self.state {
                self.accepts_promisor = keys.accepts_promisor;
            }
            let (config, outputs) = (&self.config, &mut self.outputs);
            let next = match std::mem::replace(&mut self.state, FetchV2State::Ended) {
                FetchV2State::Keys(keys) => keys.take(packet, config, outputs)?,
                FetchV2State::RefsArguments(refs) => refs.take(packet, config, outputs)?,
                FetchV2State::FetchArguments(fetch) => fetch.take(packet, config)?,
                FetchV2State::ObjectInfoArguments(info) => info.take(packet, config, outputs)?,
                FetchV2State::BundleArguments => take_bundle_argument(packet, outputs)?,
                other => other,
            };
            match next {
                FetchV2State::FetchComplete(fetch) => self.start_fetch(fetch)?,
                next => {
                    if let FetchV2State::FetchArguments(fetch) = &next {
                        self.is_multiplexed = fetch.sideband_all;
                    }
                    self.state = next;
                }
            }
        }
        Ok(())
    }

    /// The client may leave between commands. As in git, an incomplete packet is then ignored.
    fn at_eof(&mut self) -> Result<(), Refusal> {
        match &self.state {
            FetchV2State::Keys(keys) if !keys.is_any => {
                self.state = FetchV2State::Ended;
                Ok(())
            }
            _ => Err(Refusal::hung_up()),
        }
    }

    fn start_fetch(&mut self, mut fetch: Box<Fetch>) -> Result<(), Refusal> {
        fetch.deepen = fetch.depth.deepen()?;
        if fetch.want_refs.is_empty() {
            self.check_wants(fetch);
            return Ok(());
        }
        fetch.check_want_refs()?;
        self.outputs.push(Output::ResolveRefs(fetch.want_refs.clone()));
        self.state = FetchV2State::ResolvingRefs(fetch);
        Ok(())
    }

    fn check_wants(&mut self, fetch: Box<Fetch>) {
        if fetch.wants.is_empty() && !fetch.wait_for_done {
            self.next_command();
        } else {
            let Fetch { wants, depth, filter, .. } = &*fetch;
            self.outputs.push_request(wants, &depth.client_shallow, filter.as_ref());
            self.state = FetchV2State::CheckingWants(fetch);
        }
    }

    /// Writes packets of a fetch answer, in a side-band if the client requested it for the whole answer.
    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let out = self.outputs.bytes();
        let start = out.len();
        write(out);
        if self.is_multiplexed {
            sideband::multiplex(out, start);
        }
    }

    fn after_wants(&mut self, fetch: Box<Fetch>) {
        if fetch.haves.is_empty() {
            return self.before_pack(fetch);
        }
        self.outputs.push(Output::CheckHaves(fetch.haves.clone()));
        self.state = FetchV2State::CheckingHaves(fetch);
    }

    fn after_haves(&mut self, mut fetch: Box<Fetch>, answer: &HavesAnswer) {
        let answers = answer.known.iter().zip(&answer.implied);
        let told = fetch.haves.iter().zip(answers).filter(|(_, (known, implied))| **known && !**implied);
        fetch.common = told.map(|(id, _)| *id).collect();
        if fetch.is_done {
            return self.before_pack(fetch);
        }
        let is_ready = answer.enough.last() == Some(&true) && !fetch.wait_for_done;
        self.write(|out| {
            Section::Acknowledgments.write_header(out);
            if fetch.common.is_empty() {
                acknowledgment::write_nak(out);
            }
            for id in &fetch.common {
                acknowledgment::write_ack(out, id, Meaning::Plain);
            }
            if is_ready {
                acknowledgment::write_ready(out);
            }
            out.extend_from_slice(if is_ready { DELIM } else { FLUSH });
        });
        if is_ready { self.before_pack(fetch) } else { self.next_command() }
    }

    fn before_pack(&mut self, fetch: Box<Fetch>) {
        if fetch.deepen.is_none() && fetch.depth.client_shallow.is_empty() && !self.config.is_shallow {
            return self.after_shallow_info(*fetch);
        }
        if fetch.deepen.is_none() && !self.config.is_shallow {
            // The client is shallow and nothing changes: git answers with an empty section.
            return self.after_shallow(*fetch, &ShallowAnswer::default());
        }
        self.outputs.push(Output::ResolveShallow(ShallowRequest {
            wants: fetch.wants.clone(),
            client_shallow: fetch.depth.client_shallow.clone(),
            deepen: fetch.deepen.clone(),
        }));
        self.state = FetchV2State::ResolvingShallow(fetch);
    }

    fn after_shallow(&mut self, fetch: Fetch, answer: &ShallowAnswer) {
        self.write(|out| {
            Section::ShallowInfo.write_header(out);
            write_shallow_lines(answer, out);
            out.extend_from_slice(DELIM);
        });
        self.after_shallow_info(fetch);
    }

    fn after_shallow_info(&mut self, fetch: Fetch) {
        if !fetch.want_refs.is_empty() {
            self.write(|out| {
                Section::WantedRefs.write_header(out);
                for (id, name) in fetch.wanted_refs.iter().zip(&fetch.want_refs) {
                    wanted_refs::write_wanted_ref(out, id, name);
                }
                out.extend_from_slice(DELIM);
            });
        }
        let request = PackRequest {
            wants: fetch.wants,
            haves: fetch.common,
            client_shallow: fetch.depth.client_shallow,
            thin_pack: fetch.thin_pack,
            ofs_delta: fetch.ofs_delta,
            include_tag: fetch.include_tag,
            no_progress: fetch.no_progress,
            filter: fetch.filter,
            sideband: Sideband::Large,
            sideband_all: fetch.sideband_all,
            may_lack_promised: fetch.may_lack_promised,
            uri_protocols: fetch.uri_protocols.unwrap_or_default(),
        };
        if request.uri_protocols.is_empty() {
            return self.send_pack(request);
        }
        self.outputs.push(Output::ChooseUris(request.clone()));
        self.state = FetchV2State::ChoosingUris(Box::new(request));
    }

    fn after_uris(&mut self, request: PackRequest, uris: &[PackfileUri]) {
        if !uris.is_empty() {
            self.write(|out| {
                Section::PackfileUris.write_header(out);
                uris.iter().for_each(|uri| uri.write(out));
                out.extend_from_slice(DELIM);
            });
        }
        self.send_pack(request);
    }

    fn send_pack(&mut self, request: PackRequest) {
        self.write(|out| Section::Packfile.write_header(out));
        self.outputs.push(Output::NeedPack(request));
        self.state = FetchV2State::SendingPack;
    }
}

impl FetchV2State {
    /// Whether the session expects input.
    fn is_reading(&self) -> bool {
        match self {
            FetchV2State::Keys(_)
            | FetchV2State::RefsArguments(_)
            | FetchV2State::FetchArguments(_)
            | FetchV2State::ObjectInfoArguments(_)
            | FetchV2State::BundleArguments => true,
            FetchV2State::FetchComplete(_)
            | FetchV2State::SendingRefs
            | FetchV2State::SendingObjectInfo
            | FetchV2State::FindingBundles
            | FetchV2State::ResolvingRefs(_)
            | FetchV2State::CheckingWants(_)
            | FetchV2State::CheckingHaves(_)
            | FetchV2State::ResolvingShallow(_)
            | FetchV2State::ChoosingUris(_)
            | FetchV2State::SendingPack
            | FetchV2State::Ended => false,
        }
    }
}

/// `bundle-uri` has no arguments yet.
fn take_bundle_argument(packet: PktLine<'_>, outputs: &mut Outputs) -> Result<FetchV2State, Refusal> {
    match packet {
        PktLine::Flush => {
            outputs.push(Output::NeedBundles);
            Ok(FetchV2State::FindingBundles)
        }
        PktLine::Data(payload) => Err(Refusal::bundle_uri_unexpected_argument(text(payload))),
        _ => Err(Refusal::command_expected_flush("bundle-uri")),
    }
}
