//! Private host keys.

use std::fmt;

use russh::keys::{Algorithm, HashAlg, PrivateKey, decode_secret_key};

/// A private key that identifies this server.
#[derive(Clone)]
pub struct HostKey(PrivateKey);

/// Why a host key is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no key, or it is broken.
    #[error("not a private key: {0}")]
    Broken(String),
    /// It needs a passphrase, which cannot be entered.
    #[error("key has a passphrase; remove it with ssh-keygen -p")]
    Encrypted,
    /// An unsupported kind of host key.
    #[error("host keys must be ed25519 or ecdsa, not {0}; create one with: ssh-keygen -t ed25519 -N ''")]
    Kind(String),
}

impl HostKey {
    /// Parses a key in the format of `ssh-keygen`, or in PKCS#8.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let key = decode_secret_key(text, None).map_err(|error| match error {
            russh::keys::Error::KeyIsEncrypted => KeyError::Encrypted,
            error => KeyError::Broken(error.to_string()),
        })?;
        match key.algorithm() {
            _ if key.is_encrypted() => Err(KeyError::Encrypted),
            Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => Ok(HostKey(key)),
            // The time of RSA signatures leaks the key (RUSTSEC-2023-0071).
            other => Err(KeyError::Kind(other.to_string())),
        }
    }

    /// The kind, such as `ssh-ed25519`.
    pub fn kind(&self) -> String {
        self.0.algorithm().to_string()
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.0
    }
}

/// Kind and fingerprint, as clients show them; never the key.
impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.algorithm(), self.0.fingerprint(HashAlg::Sha256))
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use russh::keys::EcdsaCurve;
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::LineEnding;

    use super::*;

    fn made(algorithm: Algorithm) -> PrivateKey {
        PrivateKey::random(&mut safe_rng(), algorithm).unwrap()
    }

    #[track_caller]
    fn check(key: &PrivateKey, expect: Result<&str, KeyError>) {
        let text = key.to_openssh(LineEnding::LF).unwrap();
        let parsed = HostKey::parse(&text);
        assert_eq!(parsed.as_ref().map(|key| key.kind()).map_err(Clone::clone), expect.map(str::to_owned));
        for end in [0, 10, text.len() / 2, text.len() - 60] {
            assert!(matches!(HostKey::parse(&text[..end]), Err(KeyError::Broken(_))), "{end}");
        }
    }

    #[test]
    fn kinds_of_keys() {
        let key = made(Algorithm::Ed25519);
        check(&key, Ok("ssh-ed25519"));
        check(&made(Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }), Ok("ecdsa-sha2-nistp256"));
        check(&key.encrypt(&mut safe_rng(), "secret").unwrap(), Err(KeyError::Encrypted));
        let shown = format!("{:?}", HostKey::parse(&key.to_openssh(LineEnding::LF).unwrap()).unwrap());
        assert!(shown.starts_with("ssh-ed25519 SHA256:"), "{shown}");
    }
}
