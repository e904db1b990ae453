//! Git's wire protocol without I/O: pkt-lines, side-band, messages and sessions.
//!
//! Nothing here does I/O, waits or reads a clock. Bytes and answers enter a session as [`session::Input`];
//! bytes and questions leave it as [`session::Output`].
//!
//! Trust contract: any bytes of a peer lead to an output or a [`Refusal`], never to a panic or to memory
//! beyond the limits in [`session::RequestLimits`].

#![forbid(unsafe_code)]

pub mod message;
mod refusal;
pub mod session;
pub mod wire;

pub use refusal::{Refusal, RefusalKind};
