//! Maps keys to users.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use russh::keys::PublicKey;

use super::revoked::RevokedKeys;
use super::signers::{self, Validity};
use super::{SshUser, UserKey};

/// Keys of users and of certificate authorities.
#[derive(Debug, Clone, Default)]
pub struct UserKeys {
    /// Owners by key bytes.
    owners: HashMap<Vec<u8>, KeyOwner>,
    pub(super) authorities: Vec<UserKey>,
    pub(super) revoked: RevokedKeys,
}

#[derive(Debug, Clone)]
struct KeyOwner {
    name: Arc<str>,
    validity: Validity,
}

/// An error in a key file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct LineError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

impl UserKeys {
    /// Adds a key file in which each line has a user name before the key.
    pub fn add_signers(&mut self, text: &str) -> Result<(), LineError> {
        each_line(text, |line| match signers::parse(line)? {
            Some(line) => self.add(line.name, &line.key, line.validity),
            None => Ok(()),
        })
    }

    /// Adds the public keys of one user, one per line.
    pub fn add_of_user(&mut self, name: &str, text: &str) -> Result<(), LineError> {
        each_line(text, |line| match without_comment(line) {
            Some(line) => {
                signers::check_name(name)?;
                self.add(name, &UserKey::parse(line)?, Validity::ALWAYS)
            }
            None => Ok(()),
        })
    }

    /// Adds trusted authorities: public keys, one per line.
    pub fn add_authorities(&mut self, text: &str) -> Result<(), LineError> {
        each_line(text, |line| {
            if let Some(line) = without_comment(line) {
                self.authorities.push(UserKey::parse(line)?);
            }
            Ok(())
        })
    }

    /// Adds revoked keys and certificates.
    pub fn revoke(&mut self, text: &str) -> Result<(), LineError> {
        each_line(text, |line| without_comment(line).map_or(Ok(()), |line| self.revoked.add(line)))
    }

    fn add(&mut self, name: &str, key: &UserKey, validity: Validity) -> Result<(), String> {
        let blob = key.0.to_bytes().map_err(|error| error.to_string())?;
        match self.owners.entry(blob) {
            Entry::Occupied(other) if *other.get().name != *name => {
                Err(format!("{key:?} is also a key of {:?}", other.get().name))
            }
            // If a key occurs twice, the last entry counts, so that it can be renewed.
            entry => {
                entry.insert_entry(KeyOwner { name: name.into(), validity });
                Ok(())
            }
        }
    }

    /// The owner of a key at this time, in seconds since 1970.
    pub fn user_of(&self, key: &UserKey, now: i64) -> Option<SshUser> {
        if self.is_revoked(key) {
            return None;
        }
        let owner = self.owners.get(&key.0.to_bytes().ok()?)?;
        let is_valid = owner.validity.holds(now);
        is_valid.then(|| SshUser { name: owner.name.clone(), shown: key.fingerprint() })
    }

    /// Whether a key is revoked.
    pub fn is_revoked(&self, key: &UserKey) -> bool {
        self.revoked.has_key(key.0.key_data())
    }

    /// The number of revoked keys, certificate ranges and ids.
    pub fn revoked_len(&self) -> usize {
        self.revoked.len()
    }

    /// Whether user certificates are accepted.
    pub fn has_authorities(&self) -> bool {
        !self.authorities.is_empty()
    }

    /// The keys of the authorities.
    pub fn authorities(&self) -> &[UserKey] {
        &self.authorities
    }

    /// Whether there are neither keys nor authorities.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.authorities.is_empty()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// The keys that are valid at this time, with their users, in a fixed order.
    pub fn list(&self, now: i64) -> Vec<(&str, UserKey)> {
        let valid = self.owners.iter().filter(|(_, owner)| owner.validity.holds(now));
        let mut all: Vec<(&str, UserKey)> = valid
            .filter_map(|(blob, owner)| Some((&*owner.name, UserKey(PublicKey::from_bytes(blob).ok()?))))
            .filter(|(_, key)| !self.is_revoked(key))
            .collect();
        all.sort_by_cached_key(|(name, key)| ((*name).to_owned(), key.line()));
        all
    }
}

fn each_line(text: &str, mut take: impl FnMut(&str) -> Result<(), String>) -> Result<(), LineError> {
    for (at, line) in text.lines().enumerate() {
        take(line).map_err(|why| LineError { line: at + 1, why })?;
    }
    Ok(())
}

fn without_comment(line: &str) -> Option<&str> {
    Some(line.trim()).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use russh::keys::key::safe_rng;
    use russh::keys::{Algorithm, PrivateKey};

    use super::*;

    fn key() -> UserKey {
        let private = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
        UserKey::of(private.public_key()).unwrap()
    }

    #[test]
    fn a_key_has_one_user() {
        let (first, second, other) = (key(), key(), key());
        let mut keys = UserKeys::default();
        let list = format!(
            "# people\nalice {} laptop\nalice {}\nbob valid-before=\"19700102Z\" {}\n",
            first.line(),
            second.line(),
            other.line()
        );
        keys.add_signers(&list).unwrap();
        let name =
            |keys: &UserKeys, key: &UserKey, now| keys.user_of(key, now).map(|user| user.name.to_string());
        assert_eq!(name(&keys, &first, 86_400).as_deref(), Some("alice"));
        assert_eq!(name(&keys, &second, 0).as_deref(), Some("alice"));
        assert_eq!(name(&keys, &other, 86_399).as_deref(), Some("bob"));
        assert_eq!(name(&keys, &other, 86_400), None);
        assert_eq!(name(&keys, &key(), 0), None);
        assert_eq!(keys.user_of(&first, 0).unwrap().shown, first.fingerprint());
        assert_eq!((keys.len(), keys.list(0).len(), keys.list(86_400).len()), (3, 3, 2));
        assert_eq!(UserKey::parse_blob(first.line().split(' ').nth(1).unwrap()), Ok(first.clone()));

        let taken = keys.add_of_user("carol", &format!("\n{}\n", first.line())).unwrap_err();
        assert_eq!(taken.to_string(), format!("line 2: {first:?} is also a key of \"alice\""));
        keys.add_of_user("alice", &first.line()).unwrap();
        assert!(keys.add_of_user("a,b", &key().line()).is_err());
        assert!(keys.add_authorities("nothing").is_err() && !keys.has_authorities());
        keys.revoke(&format!("# lost\n{}\n", second.line())).unwrap();
        assert_eq!((name(&keys, &second, 0), name(&keys, &first, 0).as_deref()), (None, Some("alice")));
        assert_eq!((keys.revoked_len(), keys.list(0).len()), (1, 2));
        assert_eq!(keys.revoke("\n\nserial: x").unwrap_err().line, 3);
        keys.add_authorities(&format!("# ours\n{}\n", other.line())).unwrap();
        assert!(keys.has_authorities() && !keys.is_empty());
    }
}
