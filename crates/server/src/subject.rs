//! The subject of a call of upload-pack or receive-pack.

use std::sync::Arc;

use packrace_os::child::Confinement;
use packrace_store::Repository;

use crate::host::Host;
use crate::path_names::PathNames;
use crate::transfers::Transfer;

/// The default value of `agent=`.
pub const AGENT: &str = concat!("packrace/", env!("CARGO_PKG_VERSION"));

/// The version of the wire protocol that the client requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ProtocolVersion {
    /// Version 0.
    #[default]
    V0,
    /// Version 0 after a line `version 1`.
    V1,
    /// Version 2.
    V2,
}

impl ProtocolVersion {
    /// The highest known `version=N` in the colon list of `GIT_PROTOCOL` or a `Git-Protocol` header; 0 if none is.
    pub fn from_environment(value: &str) -> Self {
        let version = |item: &str| match item {
            "version=2" => ProtocolVersion::V2,
            "version=1" => ProtocolVersion::V1,
            _ => ProtocolVersion::V0,
        };
        value.split(':').map(version).max().unwrap_or_default()
    }
}

/// How a session is transported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMode {
    /// One connection from advertisement to pack: stdio, SSH, git://.
    Stateful,
    /// Only the advertisement: `GET info/refs` and `--http-backend-info-refs`.
    Advertise,
    /// One request, one answer: `POST git-upload-pack` and `--stateless-rpc`.
    StatelessRpc,
}

/// The subject of a call of either service, and how it is transported.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The repository that is served, or pushed to.
    pub repository: Arc<Repository>,
    /// The protocol version; pushes support 0 and 1, and take 2 as 0.
    pub version: ProtocolVersion,
    /// How it is transported.
    pub mode: CallMode,
    /// The namespace of the refs; empty for none (gitnamespaces).
    pub namespace: String,
    /// The value of `agent=`.
    pub agent: String,
    /// This call in logs and metrics. Its id is in logs, and the client gets it if `transfer.advertiseSID` is
    /// on.
    pub transfer: Arc<Transfer>,
    /// The state that it shares with other calls.
    pub host: Arc<Host>,
    /// What programs that run for it may do and use.
    pub confinement: Confinement,
    /// The names of directories in errors that the client sees.
    pub paths: PathNames,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts() {
        let check = |value, expect| assert_eq!(ProtocolVersion::from_environment(value), expect, "{value}");
        check("", ProtocolVersion::V0);
        check("version=1", ProtocolVersion::V1);
        check("version=2", ProtocolVersion::V2);
        check("version=1:version=2:x", ProtocolVersion::V2);
        check("a:version=1", ProtocolVersion::V1);
        check("version=7", ProtocolVersion::V0);
        check("version=3:version=2", ProtocolVersion::V2);
        check("version=02", ProtocolVersion::V0);
    }
}
