//! The client side: fetches from a server, and indexes the pack as it arrives.
//!
//! For mirrors, importers and tests. It is not `git clone`: it creates no repository and moves no ref
//! (`packrace-commands` does). Protocol version 2 over http(s):// and git://, or any pair of streams; no
//! pushes.
//!
//! ```text
//! ServerConnection   a connection (Stateful, git://) or one request a time (http://)     BufRead: up to 1 MiB a read
//!    │ fill_buf
//! Remote     protocol::session::fetch_client finds the pack in what was read     ranges of that buffer
//!    │ push
//! pack::ingest::Ingest
//! ```
//!
//! No second process and no copy between the kernel and the ingest. Everything blocks, with time limits
//! ([`Timeouts`]).
//!
//! ```
//! use packrace_client::{Remote, Stateful, Timeouts};
//! use packrace_protocol::session::{RefsRequest, fetch_client::FetchLimits};
//!
//! // A server's answers from memory; `open_git` and `open_http` connect to one.
//! let answers = b"000eversion 2\n000cls-refs\n000afetch\n0000\
//!     003d1112912053fabcdef0123456789abcdef0123456 refs/heads/main\n0000";
//! let mut requests = Vec::new();
//! let connection = Stateful::new(&answers[..], &mut requests);
//! let mut remote = Remote::open(connection, "example/1.0", FetchLimits::default(), Timeouts::default())?;
//! let refs = remote.list_refs(&RefsRequest::default())?;
//! assert!(refs.find(b"refs/heads/main").is_some());
//! # Ok::<(), packrace_client::Error>(())
//! ```
//!
//! Then [`Remote::fetch`] passes the pack to a [`packrace_pack::ingest::Ingest`].
//!
//! **Errors.** [`Error`] says who is at fault: the URL, the network, the server, or the pack. Text of a
//! server is made safe for terminals; passwords are in no message.
//!
//! **What survives a crash.** Nothing, until the pack is published: the caller does that, and moves refs
//! after it.
//!
//! **Trust.** A server can neither exhaust memory
//! ([`FetchLimits`](packrace_protocol::session::fetch_client::FetchLimits)) nor redirect from `https://` to
//! `http://`.

#![forbid(unsafe_code)]

mod connect;
mod credentials;
mod error;
mod http;
mod remote;
mod url;

pub use self::http::{
    HttpConnection, HttpMessages, HttpOptions, HttpPart, ProxyOptions, TlsOptions, open_http,
};
pub use connect::{Stateful, Timeouts, git_request, open_git};
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
