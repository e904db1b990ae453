//! Ties a session's outputs to plans, segments and refs. Blocking: a transport calls it on a thread of its own.

use std::io::Read;
use std::sync::Arc;

use packrace_os::clock::Clock;

use crate::outbox::Door;

/// The version of the wire protocol that the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ProtocolVersion {
    /// Version 0.
    #[default]
    V0,
    /// Version 0 behind a line `version 1`.
    V1,
    /// Version 2.
    V2,
}

impl ProtocolVersion {
    /// The highest `version=N` in the colon list of `GIT_PROTOCOL` or a `Git-Protocol` header; 0 if there is none.
    pub fn from_environment(value: &str) -> Self {
        let highest = value.split(':').filter_map(|item| item.strip_prefix("version=")?.parse().ok()).max();
        match highest {
            Some(2) => ProtocolVersion::V2,
            Some(1) => ProtocolVersion::V1,
            _ => ProtocolVersion::V0,
        }
    }
}

/// How the conversation is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One connection from advertisement to pack: stdio, SSH, git://.
    Stateful,
    /// Only the advertisement: `GET info/refs` and `--http-backend-info-refs`.
    Advertise,
    /// One request, one answer: `POST git-upload-pack` and `--stateless-rpc`.
    StatelessRpc,
}

/// One call of upload-pack.
#[derive(Debug, Clone)]
pub struct UploadPack {
    /// What is served.
    pub repository: Arc<packrace_store::Repository>,
    /// The protocol version.
    pub version: ProtocolVersion,
    /// How it is carried.
    pub mode: Mode,
}

/// Serves one call, from the advertisement to the end. `Ok` is exit code 0; an error has been told to the client
/// already wherever the protocol has words for it.
pub fn upload_pack(
    call: &UploadPack,
    input: &mut (dyn Read + Send),
    door: &mut dyn Door,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let _ = (call, input, door, clock);
    Err(Error { kind: ErrorKind::Unavailable, message: "upload-pack is not built yet".into() })
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The client broke the protocol or asked for what it may not have.
    PeerFault,
    /// The client left.
    PeerGone,
    /// The repository is damaged.
    Corrupt,
    /// The machine or file system failed; trying again may help.
    Unavailable,
    /// A limit was reached.
    LimitExceeded,
}

/// Why a call ended early.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// The remedy.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
