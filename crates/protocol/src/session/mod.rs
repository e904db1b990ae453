//! Sessions: what a client says, and what must be found out and answered, step by step.
//!
//! A session starts after the advertisement. Its caller alternates: give it an [`Input`], take every [`Output`] until
//! one asks for something. Waiting for an answer is a state; input of another kind is refused. After a [`Refusal`]
//! the session has ended; what it wrote before ([`Output::Write`]) goes out first, then [`Refusal::wire`].

pub mod fetch_client;
pub mod fetch_v0;
pub mod fetch_v2;
mod lines;
pub mod push;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use packrace_object::ObjectId;

pub use crate::message::fetch_request::Deepen;
pub use crate::message::ls_refs::RefsRequest;
pub use crate::message::object_info::ObjectInfoRequest;
use crate::message::packfile_uris::PackfileUri;
pub use crate::message::service::{Features, RequestLimits, ServiceConfig};
use crate::refusal::Refusal;

/// How the conversation is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carriage {
    /// One connection, both ways, until it ends: stdio, ssh, git://.
    Stateful,
    /// One request, one answer: HTTP.
    Stateless,
}

/// `ref-prefix` lines from which on all of them are ignored, as in git (gitprotocol-v2 allows a server to).
pub const MAX_PREFIXES: usize = 65_536;

/// What goes into a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<'a> {
    /// Bytes from the client, cut anywhere. They are kept while an answer is waited for, so read only after
    /// [`Output::NeedInput`]: that bounds what is held to one read.
    Bytes(&'a [u8]),
    /// The client will send nothing more.
    Eof,
    /// The refs that [`Output::NeedRefs`] asked for were sent, without the flush behind them.
    RefsSent,
    /// What each name of [`Output::ResolveRefs`] stands for, in the same order. (If one is unknown or not shown, the
    /// caller ends the session with [`Refusal::unknown_ref`].)
    RefsResolved(Vec<ObjectId>),
    /// The lines that [`Output::NeedObjectInfo`] asked for were sent, without the flush behind them.
    ObjectInfoSent,
    /// Every object of [`Output::CheckWants`] may be asked for. (If one may not, the caller ends the session with
    /// [`Refusal::not_our_ref`].)
    WantsGranted,
    /// The answer to [`Output::CheckHaves`].
    HavesChecked(HavesAnswer),
    /// The answer to [`Output::ResolveShallow`].
    ShallowResolved(ShallowAnswer),
    /// The answer to [`Output::ChooseUris`]; each [fits](PackfileUri::fits) a packet.
    UrisChosen(Vec<PackfileUri>),
    /// The pack that [`Output::NeedPack`] asked for was sent, with the flush behind it.
    PackSent,
}

/// What is known of haves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HavesAnswer {
    /// Whether each have exists here, in the order in which they were asked.
    pub known: Vec<bool>,
    /// Whether, after each have, everything wanted is known to have a common commit below it. Looked at after
    /// unknown haves and after the last one only.
    pub enough: Vec<bool>,
}

impl HavesAnswer {
    /// An answer has as many entries as were asked for; the caller must not mix up rounds.
    fn check_len(&self, asked: usize) -> Result<(), Refusal> {
        if self.known.len() == asked && self.enough.len() == asked {
            return Ok(());
        }
        Err(Refusal::out_of_order("an answer about other haves"))
    }
}

/// Where history is cut for the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShallowAnswer {
    /// Commits that become shallow.
    pub shallow: Vec<ObjectId>,
    /// Commits that stop being shallow.
    pub unshallow: Vec<ObjectId>,
}

/// What comes out of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes for the client.
    Write(Vec<u8>),
    /// More of the client's bytes are needed; what was written so far must reach it first.
    NeedInput,
    /// Send these refs as `ls-refs` lines.
    NeedRefs(RefsRequest),
    /// Look at this filter-spec, as the client wrote it: end the session if it is malformed ([`Refusal::bad_filter`]) or
    /// not allowed ([`Refusal::filter_not_supported`]). No input answers this; [`Output::CheckWants`] follows.
    CheckFilter(Vec<u8>),
    /// Say what these full names stand for. Names are the client's: they may be anything.
    ResolveRefs(Vec<Vec<u8>>),
    /// Send these objects as `object-info` lines.
    NeedObjectInfo(ObjectInfoRequest),
    /// The client's history is cut at these commits. No input answers this; [`Output::CheckWants`] follows.
    ClientShallow(Vec<ObjectId>),
    /// The client names its own session, for logs (gitprotocol-capabilities, "session-id"). No input answers this.
    ClientSession(Vec<u8>),
    /// Say whether these objects may be asked for.
    CheckWants(Vec<ObjectId>),
    /// Say which of these exist.
    CheckHaves(Vec<ObjectId>),
    /// Say where history is cut.
    ResolveShallow(ShallowRequest),
    /// Say which packs that lie elsewhere take objects out of this pack. [`Output::NeedPack`] with the same request
    /// follows.
    ChooseUris(PackRequest),
    /// Send this pack, and a flush packet behind it if there is a side-band.
    NeedPack(PackRequest),
    /// The conversation has ended well.
    Done,
}

/// What decides where history is cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShallowRequest {
    /// What is wanted.
    pub wants: Vec<ObjectId>,
    /// Where the client's history is cut now.
    pub client_shallow: Vec<ObjectId>,
    /// What the client asks for, if anything.
    pub deepen: Option<Deepen>,
}

/// How a pack is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sideband {
    /// Not at all.
    #[default]
    None,
    /// In packets of at most 1,000 bytes.
    Small,
    /// In packets of at most 65,520 bytes.
    Large,
}

/// The pack that a client asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackRequest {
    /// What is wanted.
    pub wants: Vec<ObjectId>,
    /// What both sides have.
    pub haves: Vec<ObjectId>,
    /// Where the client's history was cut before this request.
    pub client_shallow: Vec<ObjectId>,
    /// Deltas may refer to objects that only the client has.
    pub thin_pack: bool,
    /// Deltas may name their base by distance.
    pub ofs_delta: bool,
    /// Annotated tags come along with what they tag.
    pub include_tag: bool,
    /// No progress, please.
    pub no_progress: bool,
    /// What to leave out, as the client wrote it; [`Output::CheckFilter`] has shown it before.
    pub filter: Option<Vec<u8>>,
    /// How the pack is framed.
    pub sideband: Sideband,
    /// The client knows a promisor remote that was offered: what that remote has may be left out where it is missing.
    pub may_lack_promised: bool,
    /// What comes before the pack is in a side-band too: empty band-2 packets may keep the connection alive.
    pub sideband_all: bool,
    /// Comma list of the protocols of URIs from which the client gets other packs; empty for none.
    pub uri_protocols: Vec<u8>,
}

/// Outputs that wait to be polled. Bytes that follow each other are one output.
#[derive(Debug, Default)]
struct Outputs(VecDeque<Output>);

impl Outputs {
    fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.0.back(), Some(Output::Write(_))) {
            self.0.push_back(Output::Write(Vec::new()));
        }
        match self.0.back_mut() {
            Some(Output::Write(bytes)) => bytes,
            _ => unreachable!("one was pushed if there was none"),
        }
    }

    fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    /// What must be known of a fetch before its wants are looked at.
    fn push_request(&mut self, wants: &[ObjectId], client_shallow: &[ObjectId], filter: Option<&Vec<u8>>) {
        self.0.extend(filter.cloned().map(Output::CheckFilter));
        if !client_shallow.is_empty() {
            self.push(Output::ClientShallow(client_shallow.to_vec()));
        }
        self.push(Output::CheckWants(wants.to_vec()));
    }

    fn pop(&mut self) -> Option<Output> {
        loop {
            match self.0.pop_front()? {
                Output::Write(bytes) if bytes.is_empty() => {}
                output => return Some(output),
            }
        }
    }
}

/// Keeps the one filter-spec that a request may have. It is no longer than a packet.
fn set_filter(filter: &mut Option<Vec<u8>>, spec: &[u8]) -> Result<(), Refusal> {
    match filter.replace(spec.to_vec()) {
        Some(_) => Err(Refusal::second_filter()),
        None => Ok(()),
    }
}

/// Adds to a list that has a cap.
fn push_capped<T>(list: &mut Vec<T>, item: T, what: &str, limit: usize) -> Result<(), Refusal> {
    if list.len() >= limit {
        return Err(Refusal::too_many(what, limit));
    }
    list.push(item);
    Ok(())
}
