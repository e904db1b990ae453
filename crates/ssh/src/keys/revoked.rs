//! Revoked keys and certificates; they are refused, whoever owns them.
//!
//! The format is that of `ssh-keygen -k` (ssh-keygen(1), "KEY REVOCATION LISTS"):
//!
//! ```text
//! # KIND KEY [COMMENT]: of a user, in a certificate, or of an authority
//! ssh-ed25519 AAAAC3… alice@laptop
//! hash: SHA256:…
//! # certificates of all authorities, by number and by id
//! serial: 7
//! serial: 16-31
//! id: alice's laptop
//! ```
//!
//! `key:`, `sha1:` and `sha256:` before a key are accepted and change nothing.

use std::collections::HashSet;

use russh::keys::ssh_key::Fingerprint;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Certificate, HashAlg, PublicKey};

/// The revoked keys and certificates.
#[derive(Debug, Clone, Default)]
pub(super) struct RevokedKeys {
    /// In the form `SHA256:…`.
    fingerprints: HashSet<String>,
    /// First and last serial number of each range.
    serials: Vec<(u64, u64)>,
    ids: HashSet<String>,
}

impl RevokedKeys {
    /// Adds a line, which is neither empty nor a comment.
    pub(super) fn add(&mut self, line: &str) -> Result<(), String> {
        let (word, value) = match line.split_once(':') {
            Some((word, value)) if !word.contains(char::is_whitespace) => (word, value.trim()),
            _ => ("key", line),
        };
        match word {
            "key" | "sha1" | "sha256" => {
                let key =
                    PublicKey::from_openssh(value).map_err(|error| format!("not a public key: {error}"))?;
                self.fingerprints.insert(key.fingerprint(HashAlg::Sha256).to_string());
            }
            "hash" => {
                let print: Fingerprint =
                    value.parse().map_err(|error| format!("not a fingerprint: {error}"))?;
                match print.is_sha256() {
                    true => self.fingerprints.insert(print.to_string()),
                    false => return Err("fingerprint must start with SHA256:".to_owned()),
                };
            }
            "serial" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let (first, last) = (serial(first)?, serial(last)?);
                if first > last {
                    return Err(format!("{first} is greater than {last}"));
                }
                self.serials.push((first, last));
            }
            "id" if value.is_empty() => return Err("missing id".to_owned()),
            "id" => drop(self.ids.insert(value.to_owned())),
            _ => return Err(format!("{word:?} is not one of key, sha1, sha256, hash, serial and id")),
        }
        Ok(())
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.fingerprints.len() + self.serials.len() + self.ids.len()
    }

    pub(super) fn has_key(&self, key: &KeyData) -> bool {
        !self.fingerprints.is_empty()
            && self.fingerprints.contains(&key.fingerprint(HashAlg::Sha256).to_string())
    }

    /// Whether a certificate, its key or its authority is revoked.
    pub(super) fn has_certificate(&self, certificate: &Certificate) -> bool {
        let serial = certificate.serial();
        self.serials.iter().any(|(first, last)| (*first..=*last).contains(&serial))
            || self.ids.contains(certificate.key_id().trim())
            || self.has_key(certificate.public_key())
            || self.has_key(certificate.signature_key())
    }
}

/// A number in C syntax: decimal, hexadecimal after `0x`, octal after `0`.
fn serial(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let is_digits = digits.chars().all(|digit| digit.is_digit(radix));
    match u64::from_str_radix(digits, radix) {
        // Authorities that do not number their certificates use 0 for all.
        Ok(0) => Err("0 is not a serial number".to_owned()),
        Ok(number) if is_digits => Ok(number),
        _ => Err(format!("{text:?} is not a serial number")),
    }
}

#[cfg(test)]
mod tests {
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::certificate::Builder;
    use russh::keys::{Algorithm, PrivateKey};

    use super::*;

    fn made() -> PrivateKey {
        PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
    }

    fn line(key: &PrivateKey) -> String {
        key.public_key().to_openssh().unwrap()
    }

    #[test]
    fn keys_and_certificates() {
        let (user, authority, other) = (made(), made(), made());
        let mut builder =
            Builder::new_with_random_nonce(&mut safe_rng(), user.public_key(), 0, 1 << 40).unwrap();
        builder.serial(17).unwrap().key_id("alice's laptop").unwrap().valid_principal("alice").unwrap();
        let certificate = builder.sign(&authority).unwrap();
        let check = |lines: &[String], key: bool, by_certificate: bool| {
            let mut revoked = RevokedKeys::default();
            lines.iter().for_each(|line| revoked.add(line).unwrap());
            assert_eq!(revoked.has_key(user.public_key().key_data()), key, "{lines:?}");
            assert_eq!(revoked.has_certificate(&certificate), by_certificate, "{lines:?}");
            assert_eq!(revoked.len(), lines.len());
        };
        check(&[], false, false);
        check(&[line(&other), "serial: 16".into(), "id: alice".into()], false, false);
        check(&[line(&user) + " a comment: with a colon"], true, true);
        for word in ["key", "sha1", "sha256"] {
            check(&[format!("{word}: {}", line(&user))], true, true);
        }
        check(&[format!("hash: {}", user.public_key().fingerprint(HashAlg::Sha256))], true, true);
        check(&[line(&authority)], false, true);
        for serials in ["17", "0x11", "021", "1-17", " 0x10 - 0x20 "] {
            check(&[format!("serial:{serials}")], false, true);
        }
        check(&["serial: 18-20".into()], false, false);
        check(&["id: alice's laptop".into()], false, true);
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, expect: &str| {
            let why = RevokedKeys::default().add(line).unwrap_err();
            assert!(why.starts_with(expect), "{line}: {why}");
        };
        check("nothing", "not a public key: ");
        check("key: ssh-ed25519 AAAA", "not a public key: ");
        check("hash: MD5:aa", "not a fingerprint: ");
        check("hash: ", "not a fingerprint: ");
        check("serial: 0", "0 is not a serial number");
        check("serial: 08", "\"08\" is not a serial number");
        check("serial: +1", "\"+1\" is not a serial number");
        check("serial: 0x10000000000000000", "\"0x10000000000000000\" is not a serial number");
        check("serial: 5-4", "5 is greater than 4");
        check("serial: 1-", "\"\" is not a serial number");
        check("id:", "missing id");
        check("user: alice", "\"user\" is not one of ");
    }
}
