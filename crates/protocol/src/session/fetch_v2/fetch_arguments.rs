//! Arguments of `fetch` (gitprotocol-v2, "fetch").

use std::collections::HashSet;

use packrace_object::ObjectId;

use super::super::lines::Depth;
use super::super::{Deepen, RequestLimits, ServiceConfig, push_capped, set_filter};
use super::FetchV2State;
use crate::message::{parse_id, wanted_refs};
use crate::refusal::Refusal;
use crate::wire::pkt_line::{PktLine, text};

/// A fetch request.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    pub(super) wants: Vec<ObjectId>,
    pub(super) haves: Vec<ObjectId>,
    pub(super) depth: Depth,
    pub(super) deepen: Option<Deepen>,
    pub(super) is_done: bool,
    pub(super) wait_for_done: bool,
    pub(super) thin_pack: bool,
    pub(super) ofs_delta: bool,
    pub(super) include_tag: bool,
    pub(super) no_progress: bool,
    pub(super) filter: Option<Vec<u8>>,
    /// Full names of `want-ref` lines.
    pub(super) want_refs: Vec<Vec<u8>>,
    /// The length of all of `want_refs`.
    pub(super) want_refs_bytes: usize,
    /// The objects that they resolved to.
    pub(super) wanted_refs: Vec<ObjectId>,
    pub(super) sideband_all: bool,
    /// The client accepts a promisor remote that was offered.
    pub(super) may_lack_promised: bool,
    /// The value of a `packfile-uris` line.
    pub(super) uri_protocols: Option<Vec<u8>>,
    pub(super) common: Vec<ObjectId>,
}

impl Fetch {
    pub(super) fn take(
        mut self: Box<Self>,
        packet: PktLine<'_>,
        config: &ServiceConfig,
    ) -> Result<FetchV2State, Refusal> {
        let payload = match packet {
            PktLine::Data(payload) => payload,
            PktLine::Flush => return Ok(FetchV2State::FetchComplete(self)),
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
        } else if let Some(name) = line.strip_prefix(b"want-ref ").filter(|_| config.features.ref_in_want) {
            // Its line would not fit into an answer.
            if !wanted_refs::fits(name, hash) {
                return Err(Refusal::unknown_ref(name));
            }
            self.take_want_ref(name, limits)?;
        } else if let Some(list) =
            line.strip_prefix(b"packfile-uris ").filter(|_| config.features.packfile_uris)
        {
            if self.uri_protocols.replace(list.to_vec()).is_some() {
                return Err(Refusal::multiple_packfile_uris());
            }
        } else {
            match line {
                b"done" => self.is_done = true,
                b"wait-for-done" => self.wait_for_done = true,
                b"thin-pack" => self.thin_pack = true,
                b"ofs-delta" => self.ofs_delta = true,
                b"include-tag" => self.include_tag = true,
                b"no-progress" => self.no_progress = true,
                b"sideband-all" if config.features.sideband_all => self.sideband_all = true,
                b"deepen-relative" => self.depth.set_relative(),
                line if self.depth.take(line, hash, limits)? => {}
                line => return Err(Refusal::unexpected_line(line)),
            }
        }
        Ok(FetchV2State::FetchArguments(self))
    }

    fn take_want_ref(&mut self, name: &[u8], limits: &RequestLimits) -> Result<(), Refusal> {
        self.want_refs_bytes += name.len();
        if self.want_refs_bytes > limits.name_bytes {
            return Err(Refusal::too_many("bytes of want-ref lines", limits.name_bytes));
        }
        push_capped(&mut self.want_refs, name.to_vec(), "want-ref lines", limits.wants)
    }

    /// A ref may be wanted only once.
    pub(super) fn check_want_refs(&self) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        match self.want_refs.iter().find(|name| !seen.insert(name.as_slice())) {
            Some(name) => Err(Refusal::duplicate_want_ref(name)),
            None => Ok(()),
        }
    }

    /// Adds the objects of `want-ref` lines to those wanted by id.
    pub(super) fn add_wanted_refs(&mut self, ids: Vec<ObjectId>) -> Result<(), Refusal> {
        if ids.len() != self.want_refs.len() {
            return Err(Refusal::out_of_order("an answer about other refs"));
        }
        let mut seen: HashSet<ObjectId> = self.wants.iter().copied().collect();
        self.wants.extend(ids.iter().filter(|id| seen.insert(**id)));
        self.wanted_refs = ids;
        Ok(())
    }
}
