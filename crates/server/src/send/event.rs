//! What whoever makes a pack tells whoever sends it.

use packrace_pack::generate::Segment;
use packrace_pack::{Phase, Totals};
use packrace_protocol::message::packfile_uris::PackfileUri;

use crate::error::Error;

/// What those who make a pack, or have it, tell those who send it.
#[derive(Debug)]
pub enum Event {
    /// How far the work is.
    Progress {
        /// Which part of it.
        phase: Phase,
        /// What is done of it.
        done: u64,
        /// How much there is to do; 0 if that is not known.
        total: u64,
    },
    /// Text for the user, as it is.
    Text(Vec<u8>),
    /// Packs that the client gets from elsewhere: comes from a hook that was asked, before all segments.
    Uris(Vec<PackfileUri>),
    /// The next bytes of the pack.
    Segment(Segment),
    /// Nothing follows; the totals if they are known.
    End(Result<Option<Totals>, Error>),
    /// This client was too slow: what follows is gone.
    Lagged,
}
