//! SSH for git servers: user keys, and connections whose sessions are blocking streams.
//!
//! [russh] implements the protocol. This crate opens no file, starts no program and knows no repository: an
//! [`SshHost`] maps keys to users and serves [`SshSession`]s, each on its own thread.
//!
//! ```text
//! TcpStream ─▶ connection ─▶ russh ─▶ handler ── SshHost::user_of_key ──▶ the user
//!                  │ watch              │ ── SshHost::begin ─▶ SshSession { input, output } ─▶ a thread
//!                  └ cuts what is       └ keys, certificates, one session at a time
//!                    silent or stalls
//! ```

#![forbid(unsafe_code)]

mod connection;
mod keys;

pub use connection::{
    ConnectionEnded, ConnectionLimits, SessionInput, SessionOutput, SessionRequest, SshConfig, SshHost,
    SshSession, serve,
};
pub use keys::{HostKey, KeyError, LineError, SshUser, UserCertificate, UserKey, UserKeys, check_user_name};
