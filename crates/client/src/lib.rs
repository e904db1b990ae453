//! The client side: fetches from a server, and indexes the pack as it arrives.
//!
//! ```text
//! ServerConnection   a connection (Stateful, git://) or one request a time (http://)     BufRead: up to 1 MiB a read
//!    │ fill_buf
//! Remote     protocol::session::fetch_client finds the pack in what was read     ranges of that buffer
//!    │ push
//! pack::ingest::Ingest
//! ```
//!
//! No second process and no copy between the kernel and the ingest. Everything blocks, with time limits.

#![forbid(unsafe_code)]

mod connect;
mod credentials;
mod error;
mod http;
mod remote;
mod url;

pub use self::http::{HttpConnection, HttpMessages, HttpOptions, ProxyOptions, TlsOptions, open_http};
pub use connect::{Stateful, Timeouts, open_git};
pub use credentials::{BasicCredentials, CredentialSource, NoCredentials};
pub use error::Error;
pub use remote::{Listener, Remote};
pub use url::{Scheme, Url, without_password};

use std::io::{self, BufRead};

/// Read size, if that many bytes are available.
pub const READ_BYTES: usize = 1 << 20;

/// A connection to a server, on which `git-upload-pack` was requested.
pub trait ServerConnection: BufRead {
    /// Sends a request. The following reads return the response.
    fn send(&mut self, request: &[u8]) -> io::Result<()>;
}
