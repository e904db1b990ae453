//! The server's side of a push (gitprotocol-pack, "Pushing Data To a Server"), after the advertisement.
//!
//! ```text
//! Commands (shallow, commands or a certificate) ─ flush ─▶ Options ─ flush ─▶ Pack ─▶ Working ─▶ Ended
//!     └ flush without commands: Ended                └ not asked for           └ only deletions: no pack
//! ```
//!
//! Bytes of the pack never pass through the session: it reports which part of its last input belongs to the
//! pack, and all later bytes do. Only the pack's reader knows where the pack ends.

use std::ops::Range;

use packrace_object::{HashKind, ObjectId};

use super::push_capped;
use crate::message::parse_id;
use crate::message::push_command::PushCommand;
use crate::message::push_report::{PushReport, ReportForm};
use crate::refusal::Refusal;
use crate::wire::capabilities::{value, words};
use crate::wire::pkt_line::{Decoder, FLUSH, PktLine, text};
use crate::wire::sideband::{self, Band};

/// The service settings that a receiving session depends on.
#[derive(Debug, Clone, Copy)]
pub struct PushConfig {
    /// The hash of object names.
    pub hash: HashKind,
    /// `atomic` was offered.
    pub atomic: bool,
    /// `push-options` was offered.
    pub push_options: bool,
    /// Limits of one push.
    pub limits: PushLimits,
}

/// Limits of one push. All of it stays in memory until the push ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushLimits {
    /// Commands: slightly more than a mirror with a million refs needs.
    pub commands: usize,
    /// Bytes of all names in commands. 4,000,000 commands in the longest packets would be 260 GB.
    pub name_bytes: usize,
    /// The client's shallow commits.
    pub shallow: usize,
    /// Push options.
    pub options: usize,
    /// Bytes of all push options. Hooks get them in their environment, which holds far less.
    pub option_bytes: usize,
    /// Bytes of a certificate, which contains all commands.
    pub certificate_bytes: usize,
}

impl Default for PushLimits {
    fn default() -> Self {
        PushLimits {
            commands: 4_000_000,
            name_bytes: 256 << 20,
            shallow: 1_000_000,
            options: 10_000,
            option_bytes: 1 << 20,
            certificate_bytes: 64 << 20,
        }
    }
}

/// The input of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum PushInput<'a> {
    /// Bytes from the client, split anywhere; only after [`PushOutput::NeedInput`].
    Bytes(&'a [u8]),
    /// The client sends nothing more.
    Eof,
    /// The push of [`PushOutput::Push`] and its pack were processed, with this result.
    Finished(&'a PushReport),
}

/// The output of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum PushOutput {
    /// More of the client's bytes are needed.
    NeedInput,
    /// The requested push. If it [has a pack](PushRequest::has_pack), [`PushOutput::PackBytes`] follows.
    Push(Box<PushRequest>),
    /// This part of the last input, possibly empty, is the beginning of the pack; all later bytes go to the
    /// pack's reader until it has enough.
    PackBytes(Range<usize>),
    /// Bytes for the client: the report. The flush packets that end the side-band follow from [`end`].
    Write(Vec<u8>),
    /// The conversation ended without an error.
    Done,
}

/// A push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushRequest {
    /// The requested changes, in the client's order.
    pub commands: Vec<PushCommand>,
    /// The client's shallow commits.
    pub shallow: Vec<ObjectId>,
    /// The certificate of a signed push.
    pub certificate: Option<Certificate>,
    /// Strings for the hooks; `None` if the client does not use options.
    pub options: Option<Vec<Vec<u8>>>,
    /// All refs or none.
    pub atomic: bool,
    /// The client wants no progress.
    pub quiet: bool,
    /// The client understands side-band-64k.
    pub sideband: bool,
    /// Which report the client wants.
    pub report: ReportForm,
    /// The client's own session id, for logs.
    pub session_id: Option<Vec<u8>>,
}

impl PushRequest {
    /// Whether a pack follows: not if all commands are deletions.
    pub fn has_pack(&self) -> bool {
        !self.commands.iter().all(PushCommand::is_delete)
    }
}

/// A signed push (gitprotocol-pack, "Push Certificate").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The whole text.
    pub text: Vec<u8>,
    /// The offset of the signature after the signed text.
    pub signature_at: usize,
}

impl Certificate {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers(name).next()
    }

    /// All values of a header.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let head = &self.text[..end_of_headers(&self.text).unwrap_or(0)];
        let lines = head.split(|byte| *byte == b'\n');
        lines.filter_map(move |line| line.strip_prefix(name.as_bytes())?.strip_prefix(b" "))
    }
}

/// The end of the conversation, after the report and the messages of hooks.
pub fn end(request: &PushRequest) -> &'static [u8] {
    if request.sideband { FLUSH } else { b"" }
}

/// The memory use of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionMemory {
    /// Commands received so far.
    pub commands: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

/// A conversation, from the first command on.
#[derive(Debug)]
pub struct PushSession {
    config: PushConfig,
    decoder: Decoder,
    state: PushState,
    outputs: std::collections::VecDeque<PushOutput>,
    request: PushRequest,
    name_bytes: usize,
    option_bytes: usize,
    /// The session is reading lines of a certificate.
    in_certificate: bool,
    certificate: Vec<u8>,
    uses_options: bool,
    /// The format of the report and of refusals, once the request has been taken.
    sideband: bool,
    form: ReportForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushState {
    Commands,
    Options,
    Working,
    Ended,
}

impl PushSession {
    /// A session whose advertisement was sent.
    pub fn new(config: PushConfig) -> Self {
        PushSession {
            config,
            decoder: Decoder::default(),
            state: PushState::Commands,
            outputs: Default::default(),
            request: PushRequest::default(),
            name_bytes: 0,
            option_bytes: 0,
            in_certificate: false,
            certificate: Vec::new(),
            uses_options: false,
            sideband: false,
            form: ReportForm::None,
        }
    }

    /// Takes an input. A refusal ends the session.
    pub fn handle(&mut self, input: PushInput<'_>) -> Result<(), Refusal> {
        let result = match (input, self.state) {
            (PushInput::Bytes(_) | PushInput::Eof, PushState::Ended) => Ok(()),
            (PushInput::Bytes(bytes), PushState::Commands | PushState::Options) => {
                self.decoder.push(bytes);
                self.read_lines(bytes.len())
            }
            (PushInput::Eof, PushState::Commands | PushState::Options) => Err(Refusal::hung_up()),
            (PushInput::Finished(report), PushState::Working) => {
                self.finish(report);
                Ok(())
            }
            _ => Err(Refusal::out_of_order("an answer")),
        };
        if result.is_err() {
            self.state = PushState::Ended;
        }
        result
    }

    /// What the session currently holds of the push.
    pub fn memory(&self) -> SessionMemory {
        let PushRequest { commands, shallow, .. } = &self.request;
        let bytes = commands.len() * size_of::<PushCommand>()
            + shallow.len() * size_of::<ObjectId>()
            + self.name_bytes
            + self.option_bytes
            + self.certificate.len()
            + self.decoder.held();
        SessionMemory { commands: commands.len(), bytes }
    }

    /// The next output.
    pub fn poll_output(&mut self) -> PushOutput {
        match self.outputs.pop_front() {
            Some(output) => output,
            None if self.state == PushState::Ended => PushOutput::Done,
            None => PushOutput::NeedInput,
        }
    }

    /// The message that tells the client of a refusal.
    pub fn wire(&self, refusal: &Refusal) -> Option<Vec<u8>> {
        if self.sideband { refusal.wire_in_band() } else { refusal.wire() }
    }

    fn read_lines(&mut self, input_len: usize) -> Result<(), Refusal> {
        while let PushState::Commands | PushState::Options = self.state {
            let Some(packet) = self.decoder.next()? else { return Ok(()) };
            // Git treats a delimiter as a flush here.
            let PktLine::Data(payload) = packet else {
                if self.in_certificate && packet != PktLine::Flush {
                    return Err(Refusal::unexpected_packet());
                }
                let left = self.decoder.held();
                self.section_ended(input_len - left.min(input_len)..input_len)?;
                continue;
            };
            if let Some(words) = Refusal::parse_wire(payload) {
                return Err(Refusal::remote_error(text(words)));
            }
            let payload = payload.to_vec();
            match self.state {
                PushState::Options => self.take_option(text(&payload))?,
                _ if self.in_certificate => self.take_certificate(&payload)?,
                _ => self.take_line(text(&payload))?,
            }
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let (hash, limits) = (self.config.hash, self.config.limits);
        if let Some(id) = line.strip_prefix(b"shallow ") {
            let id = parse_id(id, hash).ok_or_else(|| Refusal::expected_shallow(id))?;
            return push_capped(&mut self.request.shallow, id, "shallow lines", limits.shallow);
        }
        let (line, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(nul) => (&line[..nul], Some(&line[nul + 1..])),
            None => (line, None),
        };
        if let Some(list) = capabilities {
            self.take_capabilities(list)?;
        }
        if line == b"push-cert" {
            self.in_certificate = true;
            return Ok(());
        }
        self.take_command(line)
    }

    fn take_command(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let limits = self.config.limits;
        // Lines of a certificate may contain any byte; a hook gets the name as an argument, which cannot
        // contain a NUL.
        let command = PushCommand::parse(line, self.config.hash).filter(|command| !command.name.contains(&0));
        let command = command.ok_or_else(|| Refusal::expected_command(line))?;
        self.name_bytes += command.name.len();
        if self.name_bytes > limits.name_bytes {
            return Err(Refusal::too_many("bytes of names", limits.name_bytes));
        }
        push_capped(&mut self.request.commands, command, "commands", limits.commands)
    }

    fn take_capabilities(&mut self, list: &[u8]) -> Result<(), Refusal> {
        // Git's client does not always state its hash; the default is SHA-1.
        let mut format: &[u8] = b"sha1";
        let request = &mut self.request;
        for word in words(list) {
            match word {
                b"report-status" if request.report == ReportForm::None => request.report = ReportForm::V1,
                b"report-status-v2" => request.report = ReportForm::V2,
                b"side-band-64k" => self.sideband = true,
                b"quiet" => request.quiet = true,
                b"atomic" => request.atomic |= self.config.atomic,
                b"push-options" => self.uses_options |= self.config.push_options,
                word => match value(word, "session-id") {
                    Some(id) => request.session_id = Some(id.to_vec()),
                    None => format = value(word, "object-format").unwrap_or(format),
                },
            }
        }
        request.sideband = self.sideband;
        self.form = request.report;
        if format != self.config.hash.to_string().as_bytes() {
            return Err(Refusal::unsupported_object_format(format));
        }
        Ok(())
    }

    fn take_certificate(&mut self, line: &[u8]) -> Result<(), Refusal> {
        if line == b"push-cert-end\n" {
            self.in_certificate = false;
            return Ok(());
        }
        let limit = self.config.limits.certificate_bytes;
        if self.certificate.len() + line.len() > limit {
            return Err(Refusal::too_many("bytes of a push certificate", limit));
        }
        self.certificate.extend_from_slice(line);
        Ok(())
    }

    fn take_option(&mut self, option: &[u8]) -> Result<(), Refusal> {
        let limits = self.config.limits;
        // Hooks get options in environment variables, which cannot contain a NUL.
        if option.contains(&0) {
            return Err(Refusal::option_with_nul(option));
        }
        self.option_bytes += option.len();
        if self.option_bytes > limits.option_bytes {
            return Err(Refusal::too_many("bytes of push options", limits.option_bytes));
        }
        let options = self.request.options.get_or_insert_default();
        push_capped(options, option.to_vec(), "push options", limits.options)
    }

    /// A flush was read; `rest` is the input after it.
    fn section_ended(&mut self, rest: Range<usize>) -> Result<(), Refusal> {
        if self.state == PushState::Commands {
            self.in_certificate = false;
            self.take_commands_of_certificate()?;
            if self.request.commands.is_empty() {
                self.state = PushState::Ended;
                return Ok(());
            }
            if self.uses_options {
                self.request.options = Some(Vec::new());
                self.state = PushState::Options;
                return Ok(());
            }
        }
        self.decoder = Decoder::default();
        self.state = PushState::Working;
        let request = std::mem::take(&mut self.request);
        let has_pack = request.has_pack();
        self.outputs.push_back(PushOutput::Push(Box::new(request)));
        if has_pack {
            self.outputs.push_back(PushOutput::PackBytes(rest));
        }
        Ok(())
    }

    fn take_commands_of_certificate(&mut self) -> Result<(), Refusal> {
        let text = std::mem::take(&mut self.certificate);
        if text.is_empty() {
            return Ok(());
        }
        let head = end_of_headers(&text).ok_or_else(|| Refusal::malformed_certificate(&text))?;
        let signature_at = start_of_signature(&text, head);
        // An unsigned end without a newline counts as a line too.
        for line in text[head..signature_at].split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            self.take_command(line)?;
        }
        self.request.certificate = Some(Certificate { text, signature_at });
        Ok(())
    }

    fn finish(&mut self, report: &PushReport) {
        self.state = PushState::Ended;
        let mut packets = Vec::new();
        report.write(self.form, &mut packets);
        if self.sideband && !packets.is_empty() {
            let plain = std::mem::take(&mut packets);
            sideband::write_packets(Band::Data, &plain, sideband::LARGE_FRAME_PAYLOAD, &mut packets);
        }
        if !packets.is_empty() {
            self.outputs.push_back(PushOutput::Write(packets));
        }
    }
}

/// The offset of the commands: after the first empty line.
fn end_of_headers(certificate: &[u8]) -> Option<usize> {
    certificate.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 2)
}

/// The first lines of signatures: OpenPGP, X.509 and ssh.
const SIGNATURES: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
];

/// The offset of the last signature; the end of the certificate if there is none.
fn start_of_signature(certificate: &[u8], head: usize) -> usize {
    let mut at = 0;
    let mut found = certificate.len();
    for line in certificate.split_inclusive(|byte| *byte == b'\n') {
        if at >= head && SIGNATURES.iter().any(|mark| line.starts_with(mark)) {
            found = at;
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests;
