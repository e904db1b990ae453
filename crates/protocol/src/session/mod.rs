//! Sessions: state machines of the conversation with a client. A session parses input; the caller looks up
//! what the answer needs.
//!
//! A session starts after the advertisement. Its caller alternates: pass an [`Input`], then take every
//! [`Output`] until one asks for something. Waiting for an answer is a state; other input is refused. A
//! [`Refusal`] ends the session: send what was written before ([`Output::Write`]), then [`Refusal::wire`].

pub mod fetch_client;
pub mod fetch_v0;
pub mod fetch_v2;
mod lines;
pub mod push;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use packrace_object::ObjectId;

use crate::message::bundle_uri::Bundles;
pub use crate::message::fetch_request::Deepen;
pub use crate::message::ls_refs::RefsRequest;
pub use crate::message::object_info::ObjectInfoRequest;
use crate::message::packfile_uris::PackfileUri;
pub use crate::message::service::{Features, RequestLimits, ServiceConfig};
use crate::refusal::Refusal;

/// How the conversation is transported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carriage {
    /// One bidirectional connection: stdio, ssh, git://.
    Stateful,
    /// One request, one answer: HTTP.
    Stateless,
}

/// The number of `ref-prefix` lines from which all of them are ignored, as in git (gitprotocol-v2 allows it).
pub const MAX_PREFIXES: usize = 65_536;

/// The input of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<'a> {
    /// Bytes from the client, split anywhere. They are buffered while an answer is pending, so read only
    /// after [`Output::NeedInput`]: that limits the buffer to one read.
    Bytes(&'a [u8]),
    /// The client sends nothing more.
    Eof,
    /// The refs that [`Output::NeedRefs`] asked for were sent, without a flush.
    RefsSent,
    /// The object of each name in [`Output::ResolveRefs`], in the same order. (If a name is unknown or hidden, the
    /// caller ends the session with [`Refusal::unknown_ref`] instead.)
    RefsResolved(Vec<ObjectId>),
    /// The lines that [`Output::NeedObjectInfo`] asked for were sent, without a flush.
    ObjectInfoSent,
    /// The list that [`Output::NeedBundles`] asked for.
    BundlesFound(Bundles),
    /// The client may request every object of [`Output::CheckWants`]. (If one is not allowed, the caller ends the
    /// session with [`Refusal::not_our_ref`] instead.)
    WantsGranted,
    /// The answer to [`Output::CheckHaves`].
    HavesChecked(HavesAnswer),
    /// The answer to [`Output::ResolveShallow`].
    ShallowResolved(ShallowAnswer),
    /// The answer to [`Output::ChooseUris`]; each [fits](PackfileUri::fits) a packet.
    UrisChosen(Vec<PackfileUri>),
    /// The pack that [`Output::NeedPack`] asked for was sent, with a flush after it.
    PackSent,
}

/// The answer about haves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HavesAnswer {
    /// Whether each have exists here, in the order of the question.
    pub known: Vec<bool>,
    /// Whether each have is an earlier one again, or a parent of an earlier one. Not read for unknown haves.
    pub implied: Vec<bool>,
    /// Whether, after each have, every wanted object is known to reach a common commit. Only read after
    /// unknown haves and after the last one.
    pub enough: Vec<bool>,
}

impl HavesAnswer {
    /// Checks that an answer has as many entries as the question: the caller must not mix up rounds.
    fn check_len(&self, asked: usize) -> Result<(), Refusal> {
        if [&self.known, &self.implied, &self.enough].iter().all(|answers| answers.len() == asked) {
            return Ok(());
        }
        Err(Refusal::out_of_order("an answer about other haves"))
    }
}

/// Changes of the client's shallow boundary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShallowAnswer {
    /// Commits that become shallow.
    pub shallow: Vec<ObjectId>,
    /// Commits that stop being shallow.
    pub unshallow: Vec<ObjectId>,
}

/// The output of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes for the client.
    Write(Vec<u8>),
    /// More bytes from the client are needed; everything written so far must reach it first.
    NeedInput,
    /// Send these refs as `ls-refs` lines.
    NeedRefs(RefsRequest),
    /// Check this filter-spec, as the client wrote it: end the session if it is malformed
    /// ([`Refusal::bad_filter`]) or not allowed ([`Refusal::filter_not_supported`]). Expects no answer;
    /// [`Output::CheckWants`] follows.
    CheckFilter(Vec<u8>),
    /// Resolve these full names. They come from the client and are unchecked.
    ResolveRefs(Vec<Vec<u8>>),
    /// Send these objects as `object-info` lines.
    NeedObjectInfo(ObjectInfoRequest),
    /// Find the bundles that this client can start from.
    NeedBundles,
    /// The client's history is shallow at these commits. Expects no answer; [`Output::CheckWants`] follows.
    ClientShallow(Vec<ObjectId>),
    /// The client's own session id, for logs (gitprotocol-capabilities, "session-id"). Expects no answer.
    ClientSession(Vec<u8>),
    /// The client accepts a promisor remote of this name, which was not offered. Expects no answer.
    UnknownPromisor(Vec<u8>),
    /// Check whether the client may request these objects.
    CheckWants(Vec<ObjectId>),
    /// Check which of these objects exist.
    CheckHaves(Vec<ObjectId>),
    /// Determine the changes of the shallow boundary.
    ResolveShallow(ShallowRequest),
    /// Choose packs stored elsewhere whose objects this pack can omit. [`Output::NeedPack`] with the same
    /// request follows.
    ChooseUris(PackRequest),
    /// Send this pack, followed by a flush packet if there is a side-band.
    NeedPack(PackRequest),
    /// The conversation ended without an error.
    Done,
}

/// What a fetch of version 2 asks for, for traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchInfo<'a> {
    /// The wanted objects, also those of refs that are wanted by name; some may be repeated.
    pub wants: &'a [ObjectId],
    /// The number of refs that are wanted by name.
    pub want_refs: usize,
    /// What the client says that it has.
    pub haves: &'a [ObjectId],
    /// Where the client's history is cut.
    pub client_shallow: &'a [ObjectId],
    /// How to change that.
    pub deepen: Option<&'a Deepen>,
    /// The filter-spec, as the client wrote it.
    pub filter: Option<&'a [u8]>,
}

/// The input for changes of the shallow boundary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShallowRequest {
    /// The wanted objects.
    pub wants: Vec<ObjectId>,
    /// The client's current shallow commits.
    pub client_shallow: Vec<ObjectId>,
    /// The requested depth, if any.
    pub deepen: Option<Deepen>,
}

/// How a pack is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sideband {
    /// Without a side-band.
    #[default]
    None,
    /// In packets of at most 1,000 bytes.
    Small,
    /// In packets of at most 65,520 bytes.
    Large,
}

/// The requested pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackRequest {
    /// The wanted objects.
    pub wants: Vec<ObjectId>,
    /// The common objects.
    pub haves: Vec<ObjectId>,
    /// The client's shallow commits before this request.
    pub client_shallow: Vec<ObjectId>,
    /// The client accepts a thin pack.
    pub thin_pack: bool,
    /// Deltas may use offsets for their bases.
    pub ofs_delta: bool,
    /// Annotated tags are sent with the objects that they point at.
    pub include_tag: bool,
    /// The client wants no progress.
    pub no_progress: bool,
    /// The filter, as the client wrote it; [`Output::CheckFilter`] came before.
    pub filter: Option<Vec<u8>>,
    /// How the pack is framed.
    pub sideband: Sideband,
    /// The client accepts an offered promisor remote: objects that this remote has may be omitted if
    /// missing here.
    pub may_lack_promised: bool,
    /// The answer before the pack uses the side-band too: empty band-2 packets may keep the connection alive.
    pub sideband_all: bool,
    /// Comma-separated URI protocols from which the client can fetch other packs; empty for none.
    pub uri_protocols: Vec<u8>,
}

/// Outputs to be polled. Consecutive bytes are merged into one output.
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

    /// Queues what the caller must know about a fetch before it checks the wants.
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

/// Stores the only filter-spec that a request may have. It is at most one packet long.
fn set_filter(filter: &mut Option<Vec<u8>>, spec: &[u8]) -> Result<(), Refusal> {
    match filter.replace(spec.to_vec()) {
        Some(_) => Err(Refusal::second_filter()),
        None => Ok(()),
    }
}

/// Adds to a list with a limit.
fn push_capped<T>(list: &mut Vec<T>, item: T, what: &str, limit: usize) -> Result<(), Refusal> {
    if list.len() >= limit {
        return Err(Refusal::too_many(what, limit));
    }
    list.push(item);
    Ok(())
}
