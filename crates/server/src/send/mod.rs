//! What goes out: packs that are shared and kept, relayed to each client in frames.

pub mod event;
pub mod outbox;
pub mod pack_cache;
pub(crate) mod relay;
mod sources;
