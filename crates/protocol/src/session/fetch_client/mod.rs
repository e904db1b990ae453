//! The client's side of [`fetch_v2`](super::fetch_v2): fetches in version 2 (gitprotocol-v2), without
//! common history.
//!
//! ```text
//! server  capabilities                 refs            packfile: band 1, 2, 3
//! client               ls-refs               fetch, done
//! event            Advertised       RefsListed         Data… Progress…  PackEnded
//! ```
//!
//! Bytes of the pack are not copied: [`Event::Data`] is a range of the receive buffer.

mod capabilities;
mod error;
mod refs;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use capabilities::ServerCapabilities;
pub use error::Error;
pub use refs::{ListedRef, ListedRefs};

use crate::message::command::{ClientCapabilities, write_command};
use crate::message::fetch_request::{FetchRequest, write_done};
use crate::message::ls_refs::{parse_ref, write_arguments};
use crate::message::section::Section;
use crate::refusal::Refusal;
use crate::session::RefsRequest;
use crate::wire::demultiplexer::{Demultiplexer, Piece};
use crate::wire::packets::Packets;
use crate::wire::pkt_line::{FLUSH, PktLine, text};

/// Limits on what a server may send. Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchLimits {
    /// Lines of the advertisement.
    pub capabilities: usize,
    /// Refs; each takes about 80 bytes of memory besides its name.
    pub refs: usize,
    /// Bytes of ref names and of the targets of symbolic refs.
    pub name_bytes: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits { capabilities: 1_000, refs: 4_000_000, name_bytes: 256 << 20 }
    }
}

/// What a server has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its capabilities: [`FetchClient::server`].
    Advertised,
    /// Its refs: [`FetchClient::take_refs`].
    RefsListed,
    /// This range of the input belongs to the pack.
    Data(Range<usize>),
    /// This range of the input is text for the user.
    Progress(Range<usize>),
    /// The pack is complete.
    PackEnded,
}

/// A conversation with a server. Alternate: send the result of [`ls_refs`](Self::ls_refs) or
/// [`fetch`](Self::fetch), then take every [`Event`] out of the response.
#[derive(Debug)]
pub struct FetchClient {
    agent: String,
    limits: FetchLimits,
    state: FetchClientState,
    packets: Packets,
    server: ServerCapabilities,
    refs: ListedRefs,
}

#[derive(Debug)]
enum FetchClientState {
    /// The server has sent nothing yet, or only the name of the service over HTTP.
    Start,
    /// The flush after the service name is expected.
    Service,
    /// This many capabilities have been received.
    Capabilities(usize),
    /// No request is pending.
    Idle,
    Refs,
    /// A section header is expected or, in `shallow-info`, one of its lines.
    Section,
    ShallowInfo,
    Pack(Demultiplexer),
}

impl FetchClient {
    /// A conversation before the server has sent anything.
    pub fn new(agent: &str, limits: FetchLimits) -> Self {
        FetchClient {
            agent: agent.to_owned(),
            limits,
            state: FetchClientState::Start,
            packets: Packets::default(),
            server: ServerCapabilities::default(),
            refs: ListedRefs::default(),
        }
    }

    /// The capabilities that the server has advertised.
    pub fn server(&self) -> &ServerCapabilities {
        &self.server
    }

    /// The refs that were listed.
    pub fn take_refs(&mut self) -> ListedRefs {
        std::mem::take(&mut self.refs)
    }

    /// The request that lists refs.
    pub fn ls_refs(&mut self, request: &RefsRequest) -> Vec<u8> {
        let unborn = request.unborn && self.server.tells_unborn;
        let mut out = self.command("ls-refs");
        write_arguments(&mut out, &RefsRequest { unborn, ..request.clone() });
        self.state = FetchClientState::Refs;
        out
    }

    /// The request for a pack, without haves.
    pub fn fetch(&mut self, request: &FetchRequest) -> Vec<u8> {
        let mut out = self.command("fetch");
        request.write_v2(&mut out);
        write_done(&mut out);
        out.extend_from_slice(FLUSH);
        self.state = FetchClientState::Section;
        out
    }

    fn command(&self, name: &str) -> Vec<u8> {
        let said = ClientCapabilities {
            agent: self.server.has_agent.then(|| self.agent.clone()),
            hash: self.server.tells_hash.then_some(self.server.hash),
            ..ClientCapabilities::default()
        };
        let mut out = Vec::new();
        write_command(&mut out, name, &said);
        out
    }

    /// The next event in `bytes` from `*at` on; advances `*at` past it. `None` once all of `bytes` is consumed.
    /// Input without a pending request is an error. After an error, the conversation is over.
    pub fn next(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Event>, Error> {
        loop {
            if let FetchClientState::Pack(demultiplexer) = &mut self.state {
                return match demultiplexer.next(bytes, at)? {
                    None => Ok(None),
                    Some(Piece::Data(range)) => Ok(Some(Event::Data(range))),
                    Some(Piece::Progress(range)) => Ok(Some(Event::Progress(range))),
                    Some(Piece::Fatal(words)) => Err(Error::LastWords(words)),
                    Some(Piece::End) => {
                        self.state = FetchClientState::Idle;
                        Ok(Some(Event::PackEnded))
                    }
                };
            }
            let mut packets = std::mem::take(&mut self.packets);
            let result = match packets.next(bytes, at) {
                Ok(None) => {
                    self.packets = packets;
                    return Ok(None);
                }
                Ok(Some(packet)) => self.take(packet),
                Err(refusal) => Err(refusal.into()),
            };
            self.packets = packets;
            if let Some(event) = result? {
                return Ok(Some(event));
            }
        }
    }

    fn take(&mut self, packet: PktLine<'_>) -> Result<Option<Event>, Error> {
        let line = match packet {
            PktLine::Data(payload) => Some(text(payload)),
            _ => None,
        };
        if let Some(words) = line.and_then(Refusal::parse_wire) {
            return Err(Error::Remote(words.to_vec()));
        }
        match (&mut self.state, packet, line) {
            (FetchClientState::Start, _, Some(b"# service=git-upload-pack")) => {
                self.state = FetchClientState::Service
            }
            (FetchClientState::Service, PktLine::Flush, _) => self.state = FetchClientState::Capabilities(0),
            (FetchClientState::Start, _, Some(b"version 2")) => {
                self.state = FetchClientState::Capabilities(1)
            }
            (FetchClientState::Capabilities(count @ 0), _, Some(b"version 2")) => *count = 1,
            (FetchClientState::Start | FetchClientState::Service | FetchClientState::Capabilities(0), ..) => {
                return Err(Error::NotVersion2);
            }
            (FetchClientState::Capabilities(_), PktLine::Flush, _) => {
                self.server.check()?;
                self.state = FetchClientState::Idle;
                return Ok(Some(Event::Advertised));
            }
            (FetchClientState::Capabilities(count), _, Some(line)) => {
                *count += 1;
                if *count > self.limits.capabilities {
                    return Err(Error::TooMany { what: "capabilities", limit: self.limits.capabilities });
                }
                self.server.take(line)?;
            }
            (FetchClientState::Capabilities(_), ..) => return Err(Error::ExpectedFlush("capabilities")),
            (FetchClientState::Refs, PktLine::Flush, _) => {
                self.state = FetchClientState::Idle;
                return Ok(Some(Event::RefsListed));
            }
            (FetchClientState::Refs, _, Some(line)) => {
                let read =
                    parse_ref(line, self.server.hash).ok_or_else(|| Error::BadRefLine(line.to_vec()))?;
                self.refs.push(&read, &self.limits)?;
            }
            (FetchClientState::Refs, ..) => return Err(Error::ExpectedFlush("ref listing")),
            (FetchClientState::Section, _, Some(line)) => match Section::parse(line) {
                Some(Section::Packfile) => self.state = FetchClientState::Pack(Demultiplexer::default()),
                Some(Section::ShallowInfo) => self.state = FetchClientState::ShallowInfo,
                _ => return Err(Error::NoPack(Some(line.to_vec()))),
            },
            (FetchClientState::Section, ..) => return Err(Error::NoPack(None)),
            (FetchClientState::ShallowInfo, PktLine::Delim, _) => self.state = FetchClientState::Section,
            (FetchClientState::ShallowInfo, ..) => return Err(Error::IsShallow),
            (FetchClientState::Idle, ..) => return Err(Error::Unasked),
            (FetchClientState::Pack(_), ..) => unreachable!("a side-band is not cut into lines"),
        }
        Ok(None)
    }

    /// The error if the connection ends now.
    pub fn ended(&self) -> Error {
        match &self.state {
            FetchClientState::Start => Error::SaidNothing,
            FetchClientState::Service | FetchClientState::Capabilities(_) => {
                Error::ExpectedFlush("capabilities")
            }
            FetchClientState::Refs => Error::ExpectedFlush("ref listing"),
            FetchClientState::Section | FetchClientState::ShallowInfo => Error::NoPack(None),
            FetchClientState::Pack(_) => Error::CutOff,
            FetchClientState::Idle => Error::HungUp,
        }
    }
}
