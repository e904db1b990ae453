//! The engine, the outbox and the doors: HTTP, git:// and stdio.
//!
//! [`engine`] ties a protocol session's outputs to plans, segments and refs; [`outbox`] turns frames into
//! [`outbox::GatherBatch`]es; a [`outbox::Door`] hands those to the kernel or to hyper. [`client`] is the other side: it fetches.

#![forbid(unsafe_code)]

mod address;
pub mod admission;
pub mod budget;
pub mod client;
pub mod engine;
pub mod error;
mod history;
pub mod host;
pub mod metrics;
pub mod outbox;
pub mod pack_cache;
pub mod transfers;
pub mod transport;
pub mod warm;
