use packrace_object::HashKind;

use super::Error;
use crate::message::advertisement::parse_v2_capability;
use crate::wire::capabilities::words;

/// The capabilities of a version 2 server that this client uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// The hash of its objects.
    pub hash: HashKind,
    /// Whether it states its hash and expects the same from the client.
    pub tells_hash: bool,
    /// Whether it states its agent and accepts the client's.
    pub has_agent: bool,
    /// Whether it reports an unborn `HEAD`.
    pub tells_unborn: bool,
    /// Whether it lists refs.
    pub lists_refs: bool,
    /// Whether it sends packs.
    pub sends_packs: bool,
}

impl Default for ServerCapabilities {
    fn default() -> Self {
        ServerCapabilities {
            hash: HashKind::Sha1,
            tells_hash: false,
            has_agent: false,
            tells_unborn: false,
            lists_refs: false,
            sends_packs: false,
        }
    }
}

impl ServerCapabilities {
    pub(super) fn take(&mut self, line: &[u8]) -> Result<(), Error> {
        match parse_v2_capability(line) {
            (b"agent", _) => self.has_agent = true,
            (b"ls-refs", features) => {
                self.lists_refs = true;
                self.tells_unborn = words(features.unwrap_or_default()).any(|word| word == b"unborn");
            }
            (b"fetch", _) => self.sends_packs = true,
            (b"object-format", format) => {
                self.tells_hash = true;
                self.hash = match format {
                    Some(b"sha1") => HashKind::Sha1,
                    Some(b"sha256") => HashKind::Sha256,
                    other => return Err(Error::UnknownFormat(other.unwrap_or_default().to_vec())),
                };
            }
            // Later servers may have other capabilities.
            _ => {}
        }
        Ok(())
    }

    /// Checks that it has the required capabilities.
    pub(super) fn check(&self) -> Result<(), Error> {
        match (self.lists_refs, self.sends_packs) {
            (false, _) => Err(Error::Lacks("ls-refs")),
            (_, false) => Err(Error::Lacks("fetch")),
            _ => Ok(()),
        }
    }
}
