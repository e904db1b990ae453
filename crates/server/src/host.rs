//! What the calls of one process share.

use std::sync::Arc;

use crate::admission::Admission;
use crate::metrics::Metrics;
use crate::pack_cache::PackCache;
use crate::transfers::Transfers;

/// What the calls of one process share. A call on standard input and output has one of its own, with nothing in it and
/// without limits.
#[derive(Debug, Default)]
pub struct Host {
    /// Which clones go first.
    pub admission: Admission,
    /// What they have done, in numbers.
    pub metrics: Arc<Metrics>,
    /// Those that are running.
    pub transfers: Transfers,
    /// Packs that are being made, and packs that are kept.
    pub packs: PackCache,
}
