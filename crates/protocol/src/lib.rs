//! Git's wire protocol without I/O: pkt-lines, side-band, messages and sessions.
//!
//! Nothing here reads, writes, waits or looks at a clock. A session takes bytes and answers through one door,
//! [`session::Input`], and gives bytes and questions through another, [`session::Output`].
//!
//! Trust contract: any bytes of a peer lead to an output or to a [`Refusal`]; no panic, and no memory beyond the
//! limits in [`session::RequestLimits`].

#![forbid(unsafe_code)]

pub mod message;
mod refusal;
pub mod session;
pub mod wire;

pub use refusal::{Refusal, RefusalKind};
