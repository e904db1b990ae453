//! Sends packs: shared, kept, and relayed to each client in frames.

pub mod event;
pub mod outbox;
pub mod pack_cache;
pub(crate) mod relay;
mod sources;
