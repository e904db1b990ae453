//! What whoever makes a pack tells whoever sends it.

use packrace_pack::generate::Segment;
use packrace_pack::{Phase, Totals};
use packrace_protocol::message::packfile_uris::PackfileUri;

use crate::error::Error;

/// What those who make a pack tell those who send it.
pub(crate) enum Event {
    Progress {
        phase: Phase,
        done: u64,
        total: u64,
    },
    /// Text for the user, as it is.
    Text(Vec<u8>),
    /// Packs that the client gets from elsewhere: comes from a hook that was asked, before all segments.
    Uris(Vec<PackfileUri>),
    Segment(Segment),
    /// Nothing follows; the totals if they are known.
    End(Result<Option<Totals>, Error>),
    /// This client was too slow: what follows is gone.
    Lagged,
}
