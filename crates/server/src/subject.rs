//! What a call of upload-pack or receive-pack is about.

use std::sync::Arc;

use packrace_os::child::Confinement;
use packrace_store::Repository;

use crate::host::Host;
use crate::path_names::PathNames;
use crate::transfers::Transfer;

/// What `agent=` says by default.
pub const AGENT: &str = concat!("packrace/", env!("CARGO_PKG_VERSION"));

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

/// How a session is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMode {
    /// One connection from advertisement to pack: stdio, SSH, git://.
    Stateful,
    /// Only the advertisement: `GET info/refs` and `--http-backend-info-refs`.
    Advertise,
    /// One request, one answer: `POST git-upload-pack` and `--stateless-rpc`.
    StatelessRpc,
}

/// What a call of either service is about, and how it is carried.
#[derive(Debug, Clone)]
pub struct Subject {
    /// What is served, or pushed to.
    pub repository: Arc<Repository>,
    /// The protocol version; pushing knows 0 and 1, and takes 2 for 0.
    pub version: ProtocolVersion,
    /// How it is carried.
    pub mode: CallMode,
    /// The namespace of the refs; empty for none (gitnamespaces).
    pub namespace: String,
    /// What `agent=` says.
    pub agent: String,
    /// This call in logs and metrics. Names it in logs, and to the client where `transfer.advertiseSID` is on.
    pub transfer: Arc<Transfer>,
    /// What it shares with other calls.
    pub host: Arc<Host>,
    /// What programs may do and take that run for it.
    pub confinement: Confinement,
    /// What directories are called in errors that the client sees.
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
    }
}
