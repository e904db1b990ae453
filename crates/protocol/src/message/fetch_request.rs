//! The request of a fetching client (gitprotocol-pack, "Packfile Negotiation"; gitprotocol-v2, "fetch").
//! Servers parse it in `session`, where every line changes a state.

use packrace_object::{ObjectId, oid};

use super::write_hex;
use crate::wire::pkt_line::{FLUSH, write_data, write_length, write_text};

/// How much history a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deepen {
    /// This many commits from each want.
    Depth(u32),
    /// This many more than it already has.
    Relative(u32),
    /// Only commits at least this new, excluding those reachable from these refs.
    Since {
        /// Seconds since 1970.
        seconds: Option<i64>,
        /// Names of refs, as the client gave them.
        not: Vec<Vec<u8>>,
    },
}

/// A request, apart from the haves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// The wanted objects.
    pub wants: Vec<ObjectId>,
    /// The client's shallow commits.
    pub shallow: Vec<ObjectId>,
    /// How much history is wanted; `None` means all.
    pub deepen: Option<Deepen>,
    /// The client accepts a thin pack.
    pub thin_pack: bool,
    /// Deltas may use offsets for their bases.
    pub ofs_delta: bool,
    /// Annotated tags are sent with the objects that they point at.
    pub include_tag: bool,
    /// The client wants no progress.
    pub no_progress: bool,
    /// The filter (git-rev-list, "--filter").
    pub filter: Option<Vec<u8>>,
    /// Full names of wanted refs, whatever they point at; only in version 2.
    pub want_refs: Vec<Vec<u8>>,
    /// The whole answer uses a side-band; only in version 2.
    pub sideband_all: bool,
    /// Comma-separated URI protocols from which the client can fetch other packs; empty for none. Only
    /// in version 2.
    pub uri_protocols: Vec<u8>,
}

impl FetchRequest {
    /// Appends the arguments of version 2 up to the haves. Haves, optionally [`write_done`], and a
    /// flush follow.
    pub fn write_v2(&self, out: &mut Vec<u8>) {
        let flags = [
            ("thin-pack", self.thin_pack),
            ("no-progress", self.no_progress),
            ("include-tag", self.include_tag),
            ("ofs-delta", self.ofs_delta),
            ("deepen-relative", matches!(self.deepen, Some(Deepen::Relative(_)))),
            ("sideband-all", self.sideband_all),
        ];
        flags.iter().filter(|(_, is_on)| *is_on).for_each(|(line, _)| write_text(line, out));
        self.write_depth(out);
        self.write_filter(out);
        if !self.uri_protocols.is_empty() {
            write_data(&[b"packfile-uris ", self.uri_protocols.as_slice(), b"\n"].concat(), out);
        }
        self.wants.iter().for_each(|id| write_id_line(out, b"want ", id, b""));
        for name in &self.want_refs {
            write_data(&[b"want-ref ", name.as_slice(), b"\n"].concat(), out);
        }
    }

    /// Appends the request of version 0 or 1, flush included; haves follow. `offered` are additional
    /// capabilities to use, such as `multi_ack_detailed` and `side-band-64k`.
    pub fn write_v0(&self, out: &mut Vec<u8>, offered: &[&str]) {
        let flags = [
            ("thin-pack", self.thin_pack),
            ("no-progress", self.no_progress),
            ("include-tag", self.include_tag),
            ("ofs-delta", self.ofs_delta),
            ("deepen-relative", matches!(self.deepen, Some(Deepen::Relative(_)))),
            ("filter", self.filter.is_some()),
        ];
        let used = flags.iter().filter(|(_, is_on)| *is_on).map(|(word, _)| *word);
        let mut capabilities = String::new();
        for word in offered.iter().copied().chain(used) {
            capabilities.push(' ');
            capabilities.push_str(word);
        }
        for (at, id) in self.wants.iter().enumerate() {
            write_id_line(out, b"want ", id, if at == 0 { capabilities.as_bytes() } else { b"" });
        }
        self.write_depth(out);
        self.write_filter(out);
        out.extend_from_slice(FLUSH);
    }

    fn write_filter(&self, out: &mut Vec<u8>) {
        if let Some(spec) = &self.filter {
            write_data(&[b"filter ", spec.as_slice(), b"\n"].concat(), out);
        }
    }

    fn write_depth(&self, out: &mut Vec<u8>) {
        self.shallow.iter().for_each(|id| write_id_line(out, b"shallow ", id, b""));
        match &self.deepen {
            None => {}
            Some(Deepen::Depth(depth) | Deepen::Relative(depth)) => {
                write_text(&format!("deepen {depth}"), out)
            }
            Some(Deepen::Since { seconds, not }) => {
                if let Some(seconds) = seconds {
                    write_text(&format!("deepen-since {seconds}"), out);
                }
                for name in not {
                    write_data(&[b"deepen-not ", name.as_slice(), b"\n"].concat(), out);
                }
            }
        }
    }
}

/// Appends an object that the client has.
pub fn write_have(out: &mut Vec<u8>, id: &oid) {
    write_id_line(out, b"have ", id, b"");
}

/// Appends the end of the haves: the pack must come now.
pub fn write_done(out: &mut Vec<u8>) {
    write_text("done", out);
}

fn write_id_line(out: &mut Vec<u8>, word: &[u8], id: &oid, suffix: &[u8]) {
    write_length(word.len() + id.as_bytes().len() * 2 + suffix.len() + 1, out);
    out.extend_from_slice(word);
    write_hex(id, out);
    out.extend_from_slice(suffix);
    out.push(b'\n');
}
