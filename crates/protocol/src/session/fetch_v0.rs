//! The server's side of versions 0 and 1 (gitprotocol-pack, "Packfile Negotiation"), after the advertisement.
//!
//! ```text
//! Needs (want, shallow, deepen) ─ flush ─▶ Wants ─▶ Shallow ─▶ Haves ⇄ CheckingHaves ─ done, or ready ─▶ Pack
//! ```

use packrace_object::ObjectId;

use super::lines::{Depth, check_object_format, write_shallow_lines};
use super::{
    Carriage, Deepen, HavesAnswer, Input, Output, Outputs, PackRequest, ServiceConfig, ShallowAnswer,
    ShallowRequest, Sideband, push_capped, set_filter,
};
use crate::message::acknowledgment::{Meaning, write_ack, write_nak};
use crate::message::parse_id;
use crate::refusal::Refusal;
use crate::wire::capabilities::{value, words};
use crate::wire::pkt_line::{Decoder, FLUSH, PktLine, text};

/// A conversation in version 0 or 1, from the first want on.
#[derive(Debug)]
pub struct Session {
    config: ServiceConfig,
    carriage: Carriage,
    decoder: Decoder,
    outputs: Outputs,
    state: FetchV0State,
    is_eof: bool,
    needs: Needs,
    negotiation: Negotiation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchV0State {
    Needs,
    CheckingWants,
    ResolvingShallow,
    Haves,
    /// Waiting for the answer about `negotiation.pending`; the line that ended the round has been read.
    CheckingHaves(Then),
    SendingPack,
    Ended,
}

/// What ended a round of haves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Flush,
    Done,
}

/// How common objects are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AckMode {
    #[default]
    Single,
    Multi,
    Detailed,
}

/// What the client wants and supports.
#[derive(Debug, Default)]
struct Needs {
    wants: Vec<ObjectId>,
    depth: Depth,
    deepen: Option<Deepen>,
    acks: AckMode,
    no_done: bool,
    thin_pack: bool,
    ofs_delta: bool,
    include_tag: bool,
    no_progress: bool,
    /// The client has stated that it supports filters.
    may_filter: bool,
    filter: Option<Vec<u8>>,
    /// The client's own session id.
    session_id: Option<Vec<u8>>,
    sideband: Sideband,
}

#[derive(Debug, Default)]
struct Negotiation {
    /// Haves of this round that have not been checked yet.
    pending: Vec<ObjectId>,
    /// The number of haves in all rounds.
    taken: usize,
    /// Common objects that no other implied, in order.
    common: Vec<ObjectId>,
    last_common: Option<ObjectId>,
    /// Every wanted object reaches a common commit.
    is_enough: bool,
    sent_ready: bool,
    /// This round had a common object.
    got_common: bool,
    got_other: bool,
}

impl Session {
    /// A session whose advertisement was sent.
    pub fn new(config: ServiceConfig, carriage: Carriage) -> Self {
        Session {
            config,
            carriage,
            decoder: Decoder::default(),
            outputs: Outputs::default(),
            state: FetchV0State::Needs,
            is_eof: false,
            needs: Needs::default(),
            negotiation: Negotiation::default(),
        }
    }

    /// Takes an input. A refusal ends the session.
    pub fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        let result = self.handle_input(input).and_then(|()| self.read_lines());
        if result.is_err() {
            self.state = FetchV0State::Ended;
        }
        result
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Output {
        if let Some(output) = self.outputs.pop() {
            return output;
        }
        if self.state == FetchV0State::Ended { Output::Done } else { Output::NeedInput }
    }

    fn handle_input(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match (input, self.state) {
            (Input::Bytes(_), FetchV0State::Ended) => {}
            (Input::Bytes(bytes), _) => self.decoder.push(bytes),
            (Input::Eof, _) => self.is_eof = true,
            (Input::WantsGranted, FetchV0State::CheckingWants) => self.after_wants(),
            (Input::ShallowResolved(answer), FetchV0State::ResolvingShallow) => self.after_shallow(&answer),
            (Input::HavesChecked(answer), FetchV0State::CheckingHaves(then)) => {
                answer.check_len(self.negotiation.pending.len())?;
                self.after_haves(&answer, then);
            }
            (Input::PackSent, FetchV0State::SendingPack) => self.state = FetchV0State::Ended,
            _ => return Err(Refusal::out_of_order("an answer")),
        }
        Ok(())
    }

    fn read_lines(&mut self) -> Result<(), Refusal> {
        while let FetchV0State::Needs | FetchV0State::Haves = self.state {
            let packet = match self.decoder.next()? {
                Some(packet) => packet,
                None if self.is_eof => return self.at_eof(),
                None => return Ok(()),
            };
            let line = match packet {
                PktLine::Data(payload) => Some(text(payload)),
                PktLine::Flush => None,
                PktLine::Delim | PktLine::ResponseEnd => {
                    return Err(Refusal::expected_flush("upload request"));
                }
            };
            match (self.state, line) {
                (FetchV0State::Needs, Some(line)) => self.needs.take(line, &self.config)?,
                (FetchV0State::Needs, None) => self.after_needs()?,
                (_, None) => self.end_round(Then::Flush),
                (_, Some(b"done")) => self.end_round(Then::Done),
                (_, Some(line)) => {
                    let id = line.strip_prefix(b"have ").ok_or_else(|| Refusal::expected_list(line))?;
                    let id = parse_id(id, self.config.hash).ok_or_else(|| Refusal::expected_object(id))?;
                    self.negotiation.take(id, self.config.limits.haves)?;
                }
            }
        }
        Ok(())
    }

    /// A stateless client may leave after its wants, if it only asked for the shallow boundary. Any other
    /// client sends a flush or `done` first, even without wants.
    fn at_eof(&mut self) -> Result<(), Refusal> {
        let is_after_wants = self.state == FetchV0State::Haves && self.negotiation.pending.is_empty();
        if self.carriage == Carriage::Stateful || !is_after_wants {
            return Err(Refusal::hung_up());
        }
        self.state = FetchV0State::Ended;
        Ok(())
    }

    fn after_needs(&mut self) -> Result<(), Refusal> {
        if let Some(id) = self.needs.session_id.take() {
            self.outputs.push(Output::ClientSession(id));
        }
        if self.needs.wants.is_empty() {
            self.state = FetchV0State::Ended;
            return Ok(());
        }
        self.needs.deepen = self.needs.depth.deepen()?;
        let Needs { wants, depth, filter, .. } = &self.needs;
        self.outputs.push_request(wants, &depth.client_shallow, filter.as_ref());
        self.state = FetchV0State::CheckingWants;
        Ok(())
    }

    fn after_wants(&mut self) {
        if self.needs.deepen.is_none() {
            self.state = FetchV0State::Haves;
            return;
        }
        self.outputs.push(Output::ResolveShallow(ShallowRequest {
            wants: self.needs.wants.clone(),
            client_shallow: self.needs.depth.client_shallow.clone(),
            deepen: self.needs.deepen.clone(),
        }));
        self.state = FetchV0State::ResolvingShallow;
    }

    fn after_shallow(&mut self, answer: &ShallowAnswer) {
        let out = self.outputs.bytes();
        write_shallow_lines(answer, out);
        out.extend_from_slice(FLUSH);
        self.state = FetchV0State::Haves;
    }

    fn end_round(&mut self, then: Then) {
        if self.negotiation.pending.is_empty() {
            return self.close_round(then);
        }
        self.outputs.push(Output::CheckHaves(self.negotiation.pending.clone()));
        self.state = FetchV0State::CheckingHaves(then);
    }

    fn after_haves(&mut self, answer: &HavesAnswer, then: Then) {
        let acks = self.needs.acks;
        let negotiation = &mut self.negotiation;
        let out = self.outputs.bytes();
        let answers = answer.known.iter().zip(&answer.implied).zip(&answer.enough);
        for (id, ((known, implied), enough)) in std::mem::take(&mut negotiation.pending).iter().zip(answers) {
            negotiation.is_enough = *enough;
            if *known {
                negotiation.last_common = Some(*id);
                negotiation.got_common = true;
                if !implied {
                    negotiation.common.push(*id);
                }
                match acks {
                    AckMode::Detailed => write_ack(out, id, Meaning::Common),
                    AckMode::Multi => write_ack(out, id, Meaning::Continue),
                    AckMode::Single if negotiation.common.len() == 1 => write_ack(out, id, Meaning::Plain),
                    AckMode::Single => {}
                }
                continue;
            }
            negotiation.got_other = true;
            match acks {
                AckMode::Detailed if *enough => {
                    negotiation.sent_ready = true;
                    write_ack(out, id, Meaning::Ready);
                }
                AckMode::Multi if *enough => write_ack(out, id, Meaning::Continue),
                _ => {}
            }
        }
        self.close_round(then);
    }

    fn close_round(&mut self, then: Then) {
        self.state = FetchV0State::Haves;
        let acks = self.needs.acks;
        let negotiation = &mut self.negotiation;
        let out = self.outputs.bytes();
        if then == Then::Done {
            match negotiation.last_common {
                Some(id) if acks != AckMode::Single => write_ack(out, &id, Meaning::Plain),
                Some(_) => {}
                None => write_nak(out),
            }
            return self.send_pack();
        }
        let (got_common, got_other) = (negotiation.got_common, negotiation.got_other);
        (negotiation.got_common, negotiation.got_other) = (false, false);
        if let Some(id) = negotiation.last_common
            && acks == AckMode::Detailed
            && got_common
            && !got_other
            && negotiation.is_enough
        {
            negotiation.sent_ready = true;
            write_ack(out, &id, Meaning::Ready);
        }
        if negotiation.common.is_empty() || acks != AckMode::Single {
            write_nak(out);
        }
        match negotiation.last_common {
            Some(id) if self.needs.no_done && negotiation.sent_ready => {
                write_ack(out, &id, Meaning::Plain);
                self.send_pack();
            }
            _ if self.carriage == Carriage::Stateless => self.state = FetchV0State::Ended,
            _ => {}
        }
    }

    fn send_pack(&mut self) {
        let needs = std::mem::take(&mut self.needs);
        self.outputs.push(Output::NeedPack(PackRequest {
            wants: needs.wants,
            haves: std::mem::take(&mut self.negotiation.common),
            client_shallow: needs.depth.client_shallow,
            thin_pack: needs.thin_pack,
            ofs_delta: needs.ofs_delta,
            include_tag: needs.include_tag,
            no_progress: needs.no_progress,
            filter: needs.filter,
            sideband: needs.sideband,
            sideband_all: false,
            may_lack_promised: false,
            uri_protocols: Vec::new(),
        }));
        self.state = FetchV0State::SendingPack;
    }
}

impl Negotiation {
    fn take(&mut self, have: ObjectId, limit: usize) -> Result<(), Refusal> {
        self.taken += 1;
        if self.taken > limit {
            return Err(Refusal::too_many("haves", limit));
        }
        self.pending.push(have);
        Ok(())
    }
}

impl Needs {
    fn take(&mut self, line: &[u8], config: &ServiceConfig) -> Result<(), Refusal> {
        if self.depth.take(line, config.hash, &config.limits)? {
            return Ok(());
        }
        if let Some(spec) = line.strip_prefix(b"filter ") {
            if !self.may_filter {
                return Err(Refusal::filter_not_negotiated());
            }
            return set_filter(&mut self.filter, spec);
        }
        let rest = line.strip_prefix(b"want ").ok_or_else(|| Refusal::expected_object_id(line))?;
        let end = rest.len().min(config.hash.len_in_hex());
        let (id, capabilities) = rest.split_at(end);
        let id = parse_id(id, config.hash).ok_or_else(|| Refusal::expected_object_id(line))?;
        self.take_capabilities(capabilities, config)?;
        push_capped(&mut self.wants, id, "wants", config.limits.wants)
    }

    fn take_capabilities(&mut self, list: &[u8], config: &ServiceConfig) -> Result<(), Refusal> {
        for word in words(list) {
            match word {
                b"multi_ack_detailed" => self.acks = AckMode::Detailed,
                b"multi_ack" if self.acks == AckMode::Single => self.acks = AckMode::Multi,
                b"no-done" => self.no_done = true,
                b"thin-pack" => self.thin_pack = true,
                b"ofs-delta" => self.ofs_delta = true,
                b"include-tag" => self.include_tag = true,
                b"no-progress" => self.no_progress = true,
                b"filter" => self.may_filter = config.allow_filter,
                b"deepen-relative" => self.depth.set_relative(),
                b"side-band-64k" => self.sideband = Sideband::Large,
                b"side-band" if self.sideband == Sideband::None => self.sideband = Sideband::Small,
                // Unknown words are ignored, as in git: the list is the client's answer to ours. Git's client
                // does not state its hash; the length of its ids reveals it.
                word => {
                    if let Some(name) = value(word, "object-format") {
                        check_object_format(name, config.hash)?;
                    } else if let (None, Some(id)) = (&self.session_id, value(word, "session-id")) {
                        self.session_id = Some(id.to_vec());
                    }
                }
            }
        }
        Ok(())
    }
}
