//! Git's wire protocol without I/O: pkt-lines, side-band, messages and sessions.
//!
//! For servers, clients, proxies and scripted peers that move the bytes themselves. It is no server and no
//! client: nothing here does I/O, waits, starts a thread or reads a clock.
//!
//! - [`wire`]: packets, and what multiplexes them.
//! - [`message`]: single messages: advertisements, requests, ref lines, reports; parsed and written.
//! - [`session`]: whole conversations: [fetch in version 2](session::fetch_v2) and [0](session::fetch_v0),
//!   [push](session::push), and the [client's side of a fetch](session::fetch_client).
//!
//! **Shape.** One input, one output: bytes and answers enter a session as [`session::Input`]; bytes and
//! questions leave it as [`session::Output`]. Bytes may be cut anywhere. Lengths count bytes.
//!
//! ```
//! use packrace_object::{HashKind, ObjectId};
//! use packrace_protocol::message::{ls_refs, service::ServiceConfig};
//! use packrace_protocol::session::{Carriage, Input, Output, fetch_v2::Session};
//!
//! let tip = ObjectId::from_hex(b"1112912053fabcdef0123456789abcdef0123456")?;
//! let mut session = Session::new(ServiceConfig::new("example/1.0", HashKind::Sha1), Carriage::Stateless);
//! let mut answer = Vec::new();
//! session.handle(Input::Bytes(b"0014command=ls-refs\n0000"))?;
//! loop {
//!     match session.poll_output() {
//!         Output::Write(bytes) => answer.extend_from_slice(&bytes),
//!         Output::NeedRefs(_) => {
//!             ls_refs::write_ref(&mut answer, (&tip).into(), b"refs/heads/main", None, None);
//!             session.handle(Input::RefsSent)?;
//!         }
//!         Output::NeedInput => session.handle(Input::Eof)?,
//!         Output::Done => break,
//!         other => panic!("a client that lists refs needs no {other:?}"),
//!     }
//! }
//! assert_eq!(answer, b"003d1112912053fabcdef0123456789abcdef0123456 refs/heads/main\n0000");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/fetch.rs` drives a whole fetch.
//!
//! **Errors.** A [`Refusal`] has a [kind](RefusalKind), git's words, and the packet that the peer should get
//! ([`Refusal::wire`]).
//!
//! **Trust.** Any bytes of a peer lead to an output or a [`Refusal`], never to a panic or to memory beyond
//! the limits in [`session::RequestLimits`].

#![forbid(unsafe_code)]

pub mod message;
mod refusal;
pub mod session;
pub mod wire;

pub use refusal::{Refusal, RefusalKind};
