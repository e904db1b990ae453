//! The other side: somebody who fetches, and takes the connection itself.
//!
//! ```text
//! Exchange   a connection (Stateful, git://) or one request a time (http://)     BufRead: up to 1 MiB a read
//!    │ fill_buf
//! Remote     protocol::session::fetch_client finds the pack in what was read     ranges of that buffer
//!    │ push
//! pack::ingest::Ingest
//! ```
//!
//! No second process and no copy lies between what the kernel gave and the ingest. All of it blocks, with limits on how long.

#![forbid(unsafe_code)]

mod connect;
mod credentials;
mod error;
mod http;
mod remote;
mod url;

pub use self::http::{HttpExchange, HttpMessages, HttpOptions, ProxyOptions, TlsOptions, open_http};
pub use connect::{Stateful, Timeouts, open_git};
pub use credentials::{BasicCredentials, CredentialSource, NoCredentials};
pub use error::Error;
pub use remote::{Listener, Remote};
pub use url::{Scheme, Url, without_password};

use std::io::{self, BufRead};

/// Bytes that are read at a time, if that many are there.
pub const READ_BYTES: usize = 1 << 20;

/// A way to a server, on which it has been asked for `git-upload-pack`.
pub trait Exchange: BufRead {
    /// Sends a request. What is read after that is the answer to it.
    fn send(&mut self, request: &[u8]) -> io::Result<()>;
}
