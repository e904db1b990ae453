//! SSH for git servers: user keys, and connections whose sessions are blocking streams.
//!
//! [russh] implements the protocol. This crate opens no file, starts no program and knows no repository: an
//! [`SshHost`] maps keys to users and serves [`SshSession`]s, each on its own thread. It has no client.
//!
//! ```text
//! TcpStream ─▶ connection ─▶ russh ─▶ handler ── SshHost::user_of_key ──▶ the user
//!                  │ watch              │ ── SshHost::begin ─▶ SshSession { input, output } ─▶ a thread
//!                  └ cuts what is       └ keys, certificates, one session at a time
//!                    silent or stalls
//! ```
//!
//! ```
//! use packrace_ssh::UserKey;
//!
//! let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti alice@example.com";
//! let key = UserKey::parse(line)?;
//! assert!(key.fingerprint().starts_with("SHA256:"));
//! assert!(UserKey::parse("ssh-ed25519 AAAA").is_err());
//! # Ok::<(), String>(())
//! ```
//!
//! **Errors.** Keys: [`KeyError`], and [`LineError`] with the line. [`ConnectionEnded`] says why a
//! connection ended. Time limits are in [`ConnectionLimits`].

#![forbid(unsafe_code)]

mod connection;
mod keys;

pub use connection::{
    ConnectionEnded, ConnectionLimits, SessionInput, SessionOutput, SessionRequest, SshConfig, SshHost,
    SshSession, serve,
};
pub use keys::{HostKey, KeyError, LineError, SshUser, UserCertificate, UserKey, UserKeys, check_user_name};
