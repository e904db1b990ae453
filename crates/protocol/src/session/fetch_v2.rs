//! Version 2, the server's side (gitprotocol-v2): commands one after the other, each complete in itself.
//!
//! ```text
//! Keys ─ flush ─▶ (no command: end of the session)
//!   │ delimiter
//!   ▼
//! Arguments ─ flush ─▶ ls-refs ─▶ Refs ──────────────────────────────────────────────▶ Keys
//!                      fetch ───▶ Wants ─▶ Haves ─▶ (not ready: flush) ──────────────▶ Keys
//!                                   │        │ ready, done or no haves
//!                                   └────────┴─▶ Shallow ─▶ Pack ────────────────────▶ Keys
//! ```
//!
//! Sections of a fetch answer come in the documented order: acknowledgments, shallow-info, packfile.

use std::collections::HashSet;

use packrace_object::{HashKind, ObjectId};

use super::lines::{Depth, check_object_format, write_shallow_lines};
use super::{
    Carriage, Deepen, HavesAnswer, Input, MAX_PREFIXES, Output, Outputs, PackRequest, RefsRequest,
    ServiceConfig, ShallowAnswer, ShallowRequest, Sideband, push_capped, set_filter,
};
use crate::Refusal;
use crate::message::acknowledgment::{self, Meaning};
use crate::message::parse_id;
use crate::message::section::Section;
use crate::wire::capabilities::{is_named, value};
use crate::wire::pkt_line::{DELIM, Decoder, FLUSH, PktLine, text};

/// A conversation in version 2, from the first command on.
#[derive(Debug)]
pub struct Session {
    config: ServiceConfig,
    carriage: Carriage,
    decoder: Decoder,
    outputs: Outputs,
    state: State,
    is_eof: bool,
}

#[derive(Debug)]
enum State {
    /// Reading the command and its capabilities.
    Keys(Keys),
    /// Reading the arguments of a command.
    RefsArguments(RefsArguments),
    FetchArguments(Box<Fetch>),
    /// Waiting for the caller.
    SendingRefs,
    CheckingWants(Box<Fetch>),
    CheckingHaves(Box<Fetch>),
    ResolvingShallow(Box<Fetch>),
    SendingPack,
    Ended,
}

#[derive(Debug, Default)]
struct Keys {
    command: Option<Command>,
    is_any: bool,
    has_object_format: bool,
    options: usize,
}

/// Arguments of `ls-refs` so far.
#[derive(Debug, Default)]
struct RefsArguments {
    request: RefsRequest,
    /// How many `ref-prefix` lines there were, up to [`MAX_PREFIXES`].
    prefixes: usize,
    prefix_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    LsRefs,
    Fetch,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Command::LsRefs => "ls-refs",
            Command::Fetch => "fetch",
        }
    }
}

/// A fetch request.
#[derive(Debug, Default)]
struct Fetch {
    wants: Vec<ObjectId>,
    haves: Vec<ObjectId>,
    depth: Depth,
    deepen: Option<Deepen>,
    is_done: bool,
    wait_for_done: bool,
    thin_pack: bool,
    ofs_delta: bool,
    include_tag: bool,
    no_progress: bool,
    filter: Option<Vec<u8>>,
    common: Vec<ObjectId>,
}

impl Session {
    /// A session whose advertisement was sent.
    pub fn new(config: ServiceConfig, carriage: Carriage) -> Self {
        Session {
            config,
            carriage,
            decoder: Decoder::default(),
            outputs: Outputs::default(),
            state: State::Keys(Keys::default()),
            is_eof: false,
        }
    }

    /// Takes an input. After a refusal the session has ended.
    pub fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        let result = self.handle_input(input).and_then(|()| self.read_lines());
        if result.is_err() {
            self.state = State::Ended;
        }
        result
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Output {
        if let Some(output) = self.outputs.pop() {
            return output;
        }
        if matches!(self.state, State::Ended) { Output::Done } else { Output::NeedInput }
    }

    fn handle_input(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match (input, std::mem::replace(&mut self.state, State::Ended)) {
            (Input::Bytes(_), State::Ended) => Ok(()),
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
            (Input::RefsSent, State::SendingRefs) => {
                self.outputs.bytes().extend_from_slice(FLUSH);
                self.next_command();
                Ok(())
            }
            (Input::WantsGranted, State::CheckingWants(fetch)) => {
                self.after_wants(fetch);
                Ok(())
            }
            (Input::HavesChecked(answer), State::CheckingHaves(fetch)) => {
                answer.check_len(fetch.haves.len())?;
                self.after_haves(fetch, &answer);
                Ok(())
            }
            (Input::ShallowResolved(answer), State::ResolvingShallow(fetch)) => {
                self.after_shallow(*fetch, &answer);
                Ok(())
            }
            (Input::PackSent, State::SendingPack) => {
                self.next_command();
                Ok(())
            }
            (other, _) => Err(Refusal::out_of_order(match other {
                Input::RefsSent => "refs sent",
                Input::WantsGranted => "wants granted",
                Input::HavesChecked(_) => "haves checked",
                Input::ShallowResolved(_) => "shallow resolved",
                _ => "pack sent",
            })),
        }
    }

    fn next_command(&mut self) {
        self.state = match self.carriage {
            Carriage::Stateful => State::Keys(Keys::default()),
            Carriage::Stateless => State::Ended,
        };
    }

    /// Takes packets for as long as the state is one that reads.
    fn read_lines(&mut self) -> Result<(), Refusal> {
        while let State::Keys(_) | State::RefsArguments(_) | State::FetchArguments(_) = self.state {
            let packet = match self.decoder.next()? {
                Some(packet) => packet,
                None if self.is_eof => return self.at_eof(),
                None => return Ok(()),
            };
            let (config, outputs) = (&self.config, &mut self.outputs);
            let next = match std::mem::replace(&mut self.state, State::Ended) {
                State::Keys(keys) => keys.take(packet, config, outputs)?,
                State::RefsArguments(refs) => refs.take(packet, config, outputs)?,
                State::FetchArguments(fetch) => fetch.take(packet, config)?,
                other => other,
            };
            self.state = next;
            if let State::CheckingWants(_) = self.state {
                self.start_fetch()?;
            }
        }
        Ok(())
    }

    /// The client may leave between commands. As in git, half a packet is then nothing.
    fn at_eof(&mut self) -> Result<(), Refusal> {
        match &self.state {
            State::Keys(keys) if !keys.is_any => {
                self.state = State::Ended;
                Ok(())
            }
            _ => Err(Refusal::hung_up()),
        }
    }

    fn start_fetch(&mut self) -> Result<(), Refusal> {
        let State::CheckingWants(mut fetch) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        fetch.deepen = fetch.depth.deepen()?;
        if fetch.wants.is_empty() && !fetch.wait_for_done {
            self.next_command();
        } else {
            self.outputs.0.extend(fetch.filter.clone().map(Output::CheckFilter));
            self.outputs.push(Output::CheckWants(fetch.wants.clone()));
            self.state = State::CheckingWants(fetch);
        }
        Ok(())
    }

    fn after_wants(&mut self, fetch: Box<Fetch>) {
        if fetch.haves.is_empty() {
            return self.before_pack(fetch);
        }
        self.outputs.push(Output::CheckHaves(fetch.haves.clone()));
        self.state = State::CheckingHaves(fetch);
    }

    fn after_haves(&mut self, mut fetch: Box<Fetch>, answer: &HavesAnswer) {
        let known = fetch.haves.iter().zip(&answer.known).filter(|(_, known)| **known);
        // What is said twice is acknowledged once.
        let mut seen = HashSet::new();
        fetch.common = known.map(|(id, _)| *id).filter(|id| seen.insert(*id)).collect();
        if fetch.is_done {
            return self.before_pack(fetch);
        }
        let is_ready = answer.enough.last() == Some(&true) && !fetch.wait_for_done;
        let out = self.outputs.bytes();
        Section::Acknowledgments.write_header(out);
        if fetch.common.is_empty() {
            acknowledgment::write_nak(out);
        }
        for id in &fetch.common {
            acknowledgment::write_ack(out, id, Meaning::Plain);
        }
        if is_ready {
            acknowledgment::write_ready(out);
            out.extend_from_slice(DELIM);
            return self.before_pack(fetch);
        }
        out.extend_from_slice(FLUSH);
        self.next_command();
    }

    fn before_pack(&mut self, fetch: Box<Fetch>) {
        if fetch.deepen.is_none() && fetch.depth.client_shallow.is_empty() && !self.config.is_shallow {
            return self.send_pack(*fetch);
        }
        if fetch.deepen.is_none() && !self.config.is_shallow {
            // The client is shallow and stays as it is: git says so with an empty section.
            return self.after_shallow(*fetch, &ShallowAnswer::default());
        }
        self.outputs.push(Output::ResolveShallow(ShallowRequest {
            wants: fetch.wants.clone(),
            client_shallow: fetch.depth.client_shallow.clone(),
            deepen: fetch.deepen.clone(),
        }));
        self.state = State::ResolvingShallow(fetch);
    }

    fn after_shallow(&mut self, fetch: Fetch, answer: &ShallowAnswer) {
        let out = self.outputs.bytes();
        Section::ShallowInfo.write_header(out);
        write_shallow_lines(answer, out);
        out.extend_from_slice(DELIM);
        self.send_pack(fetch);
    }

    fn send_pack(&mut self, fetch: Fetch) {
        Section::Packfile.write_header(self.outputs.bytes());
        self.outputs.push(Output::NeedPack(PackRequest {
            wants: fetch.wants,
            haves: fetch.common,
            client_shallow: fetch.depth.client_shallow,
            thin_pack: fetch.thin_pack,
            ofs_delta: fetch.ofs_delta,
            include_tag: fetch.include_tag,
            no_progress: fetch.no_progress,
            filter: fetch.filter,
            sideband: Sideband::Large,
        }));
        self.state = State::SendingPack;
    }
}

impl Keys {
    fn take(
        mut self,
        packet: PktLine<'_>,
        config: &ServiceConfig,
        outputs: &mut Outputs,
    ) -> Result<State, Refusal> {
        match packet {
            PktLine::Data(payload) => {
                self.is_any = true;
                self.take_key(text(payload), config)?;
                Ok(State::Keys(self))
            }
            PktLine::Flush if !self.is_any => Ok(State::Ended),
            // A flush where arguments could come means that there are none.
            PktLine::Flush => match self.finish(config)? {
                Command::LsRefs => {
                    outputs.push(Output::NeedRefs(RefsRequest::default()));
                    Ok(State::SendingRefs)
                }
                Command::Fetch => Ok(State::CheckingWants(Box::default())),
            },
            PktLine::Delim => match self.finish(config)? {
                Command::LsRefs => Ok(State::RefsArguments(RefsArguments::default())),
                Command::Fetch => Ok(State::FetchArguments(Box::default())),
            },
            PktLine::ResponseEnd => Err(Refusal::unexpected_line(b"0002")),
        }
    }

    fn take_key(&mut self, key: &[u8], config: &ServiceConfig) -> Result<(), Refusal> {
        if let Some(name) = value(key, "command") {
            let command = match name {
                b"ls-refs" => Command::LsRefs,
                b"fetch" => Command::Fetch,
                other => return Err(Refusal::invalid_command(other)),
            };
            if let Some(first) = self.command {
                return Err(Refusal::second_command(command.name(), first.name()));
            }
            self.command = Some(command);
            return Ok(());
        }
        if is_named(key, "object-format") {
            self.has_object_format = true;
            let name = value(key, "object-format").ok_or_else(Refusal::object_format_without_value)?;
            return check_object_format(name, config.hash);
        }
        let is_option = is_named(key, "server-option");
        let is_session_id = config.session_id.is_some() && is_named(key, "session-id");
        if !is_named(key, "agent") && !is_option && !is_session_id {
            return Err(Refusal::unknown_capability(key));
        }
        self.options += usize::from(is_option);
        if self.options > config.limits.options {
            return Err(Refusal::too_many("server options", config.limits.options));
        }
        Ok(())
    }

    fn finish(&self, config: &ServiceConfig) -> Result<Command, Refusal> {
        let command = self.command.ok_or_else(Refusal::no_command)?;
        if !self.has_object_format && config.hash != HashKind::Sha1 {
            return Err(Refusal::mismatched_object_format(config.hash, HashKind::Sha1));
        }
        Ok(command)
    }
}

impl RefsArguments {
    fn take(
        mut self,
        packet: PktLine<'_>,
        config: &ServiceConfig,
        outputs: &mut Outputs,
    ) -> Result<State, Refusal> {
        let payload = match packet {
            PktLine::Data(payload) => payload,
            PktLine::Flush => {
                outputs.push(Output::NeedRefs(self.request));
                return Ok(State::SendingRefs);
            }
            _ => return Err(Refusal::expected_flush("ls-refs arguments")),
        };
        match text(payload) {
            b"symrefs" => self.request.symrefs = true,
            b"peel" => self.request.peel = true,
            b"unborn" => self.request.unborn = config.allow_unborn,
            line => match line.strip_prefix(b"ref-prefix ") {
                Some(prefix) => self.take_prefix(prefix, config.limits.name_bytes),
                None => return Err(Refusal::unexpected_line(line)),
            },
        }
        Ok(State::RefsArguments(self))
    }

    /// Keeps a prefix, unless there were too many already: then none counts.
    fn take_prefix(&mut self, prefix: &[u8], max_bytes: usize) {
        self.prefix_bytes = self.prefix_bytes.saturating_add(prefix.len());
        self.prefixes += 1;
        if self.prefixes >= MAX_PREFIXES || self.prefix_bytes > max_bytes {
            self.request.prefixes = Vec::new();
            // No later line may bring this below the cap again.
            self.prefixes = MAX_PREFIXES;
            return;
        }
        self.request.prefixes.push(prefix.to_vec());
    }
}

impl Fetch {
    fn take(mut self: Box<Self>, packet: PktLine<'_>, config: &ServiceConfig) -> Result<State, Refusal> {
        let payload = match packet {
            PktLine::Data(payload) => payload,
            PktLine::Flush => return Ok(State::CheckingWants(self)),
            _ => return Err(Refusal::expected_flush("fetch arguments")),
        };
        let (line, hash, limits) = (text(payload), config.hash, &config.limits);
        if let Some(id) = line.strip_prefix(b"want ") {
            let id = parse_id(id, hash).ok_or_else(|| Refusal::expected_oid(line))?;
            push_capped(&mut self.wants, id, "wants", limits.wants)?;
        } else if let Some(id) = line.strip_prefix(b"have ") {
            let id = parse_id(id, hash).ok_or_else(|| Refusal::expected_object(id))?;
            push_capped(&mut self.haves, id, "haves", limits.haves)?;
        } else if let Some(spec) = line.strip_prefix(b"filter ").filter(|_| config.allow_filter) {
            set_filter(&mut self.filter, spec)?;
        } else {
            match line {
                b"done" => self.is_done = true,
                b"wait-for-done" => self.wait_for_done = true,
                b"thin-pack" => self.thin_pack = true,
                b"ofs-delta" => self.ofs_delta = true,
                b"include-tag" => self.include_tag = true,
                b"no-progress" => self.no_progress = true,
                b"deepen-relative" => self.depth.set_relative(),
                line if self.depth.take(line, hash, limits)? => {}
                line => return Err(Refusal::unexpected_line(line)),
            }
        }
        Ok(State::FetchArguments(self))
    }
}
