//! SSH for servers of repositories: who has which key, and connections whose sessions are streams that block.
//!
//! The protocol is [russh]'s. This crate opens no file, starts no program and knows no repository: a [`SshHost`] says who
//! has a key and serves [`SshSession`]s, each on a thread of its own.
//!
//! ```text
//! TcpStream ─▶ connection ─▶ russh ─▶ handler ── SshHost::user_of ──▶ who is it
//!                  │ watch              │ ── SshHost::begin ─▶ SshSession { input, output } ─▶ a thread
//!                  └ cuts what is       └ keys, certificates, one session at a time
//!                    silent or stalls
//! ```

#![forbid(unsafe_code)]

mod connection;
mod keys;

pub use connection::{
    ConnectionEnded, ConnectionLimits, SessionInput, SessionOutput, SshConfig, SshHost, SshSession, Wanted,
    serve,
};
pub use keys::{HostKey, KeyError, LineError, SshUser, UserCertificate, UserKey, UserKeys, check_user_name};
