//! What the source of a pack reports to its sender.

use packrace_pack::generate::Segment;
use packrace_pack::{Phase, Totals};
use packrace_protocol::message::packfile_uris::PackfileUri;

use crate::error::Error;

/// Reports from the source of a pack to its sender.
#[derive(Debug)]
pub enum Event {
    /// Progress of a phase.
    Progress {
        /// Which part of the work.
        phase: Phase,
        /// How much of it is done.
        done: u64,
        /// All work of the phase; 0 if unknown.
        total: u64,
    },
    /// Text for the user, sent unchanged.
    Text(Vec<u8>),
    /// Packs that the client downloads elsewhere; only from a hook that was asked for them, before all
    /// segments.
    Uris(Vec<PackfileUri>),
    /// The next bytes of the pack.
    Segment(Segment),
    /// The end, with the totals if they are known.
    End(Result<Option<Totals>, Error>),
    /// This client was too slow: the bytes it needs next are gone.
    Lagged,
}
