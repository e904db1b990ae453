//! Host keys, and keys and certificates of users.

mod certificate;
mod host_key;
mod revoked;
mod signers;
mod user_keys;

use std::fmt;
use std::sync::Arc;

use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, HashAlg, PublicKey, parse_public_key_base64};

pub use host_key::{HostKey, KeyError};
pub use signers::check_name as check_user_name;
pub use user_keys::{LineError, UserKeys};

/// Minimum size of RSA keys in bits.
const MIN_RSA_BITS: u32 = 2048;

/// A user who logged in with a key or a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshUser {
    /// The name in access rules.
    pub name: Arc<str>,
    /// For the log: the fingerprint of a key, or the id and number of a certificate.
    pub shown: String,
}

/// A user's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct UserKey(PublicKey);

/// A user's certificate with verified signature and holder.
pub struct UserCertificate<'a>(&'a Certificate);

impl UserKey {
    /// Parses a line of a public key file: kind, base64, and a comment that is ignored.
    pub fn parse(text: &str) -> Result<Self, String> {
        let key = PublicKey::from_openssh(text).map_err(|error| format!("not a public key: {error}"))?;
        UserKey::of(&key)
    }

    /// The key with these bytes in base64, which contain its kind.
    pub fn parse_blob(base64: &str) -> Result<Self, String> {
        let key = parse_public_key_base64(base64).map_err(|error| format!("not a public key: {error}"))?;
        UserKey::of(&key)
    }

    pub(crate) fn of(key: &PublicKey) -> Result<Self, String> {
        check_kind(key.key_data())?;
        Ok(UserKey(PublicKey::new(key.key_data().clone(), "")))
    }

    /// The fingerprint (`SHA256:…`).
    pub fn fingerprint(&self) -> String {
        self.0.fingerprint(HashAlg::Sha256).to_string()
    }

    /// The kind, such as `ssh-ed25519`.
    pub fn kind(&self) -> String {
        self.0.algorithm().to_string()
    }

    /// Kind and base64, as in a public key file.
    pub fn line(&self) -> String {
        // Encoding cannot fail: this key was decoded.
        self.0.to_openssh().unwrap_or_default().trim_end().to_owned()
    }
}

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

impl<'a> UserCertificate<'a> {
    pub(crate) fn of(certificate: &'a Certificate) -> Self {
        UserCertificate(certificate)
    }
}

/// Whether keys of this kind are accepted.
fn check_kind(key: &KeyData) -> Result<(), String> {
    match key.algorithm() {
        Algorithm::Ed25519
        | Algorithm::Ecdsa { .. }
        | Algorithm::SkEd25519
        | Algorithm::SkEcdsaSha2NistP256 => Ok(()),
        Algorithm::Rsa { .. } => {
            let bits = key.rsa().map_or(0, |key| key.key_size());
            match bits >= MIN_RSA_BITS {
                true => Ok(()),
                false => Err(format!("RSA keys need at least {MIN_RSA_BITS} bits, this one has {bits}")),
            }
        }
        other => Err(format!("keys of type {other} are not supported")),
    }
}
