//! Secrets that were verified recently: git sends Basic credentials with every request, and a password takes
//! some 50 ms to verify, or a request to another server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// The most secrets that are remembered. Beyond that the expired ones are forgotten, or else all.
const MAX_SECRETS: usize = 10_000;

/// Recently verified secrets, as hashes under a key of this process, and their results.
pub(in super::super) struct VerifiedSecrets<T> {
    key: [u8; 32],
    remembered_for: Duration,
    found: Mutex<HashMap<[u8; 32], (Instant, T)>>,
}

impl<T> std::fmt::Debug for VerifiedSecrets<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("VerifiedSecrets")
    }
}

impl<T: Clone> VerifiedSecrets<T> {
    /// Nothing is remembered yet; each secret will be for this long.
    pub(in super::super) fn new(remembered_for: Duration) -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(VerifiedSecrets { key, remembered_for, found: Mutex::default() })
    }

    /// The result for this secret of this user, if it was verified recently.
    pub(in super::super) fn find(&self, user: &str, secret: &str, now: Instant) -> Option<T> {
        let hash = self.hash(user, secret);
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(&hash).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    /// Remembers the result of a verification.
    pub(in super::super) fn remember(&self, user: &str, secret: &str, value: T, now: Instant) {
        let hash = self.hash(user, secret);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MAX_SECRETS {
            found.retain(|_, (until, _)| now < *until);
        }
        if found.len() >= MAX_SECRETS {
            found.clear();
        }
        found.insert(hash, (now + self.remembered_for, value));
    }

    fn hash(&self, user: &str, secret: &str) -> [u8; 32] {
        let length = (user.len() as u64).to_le_bytes();
        let parts = [&self.key[..], &length, user.as_bytes(), secret.as_bytes(), &self.key[..]];
        parts.iter().fold(Sha256::new(), Sha256::chain_update).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn for_a_minute_and_no_other_secret() {
        let (secrets, now) = (VerifiedSecrets::new(MINUTE).unwrap(), Instant::now());
        assert_eq!(secrets.find("a", "b", now), None);
        secrets.remember("a", "bc", 7, now);
        assert_eq!(secrets.find("a", "bc", now + MINUTE - Duration::from_millis(1)), Some(7));
        assert_eq!(secrets.find("a", "bc", now + MINUTE), None);
        assert_eq!(secrets.find("ab", "c", now), None);
    }

    #[test]
    fn memory_is_bounded() {
        let (secrets, now) = (VerifiedSecrets::new(MINUTE).unwrap(), Instant::now());
        for number in 0..=MAX_SECRETS {
            secrets.remember("a", &number.to_string(), (), now);
        }
        assert!(secrets.found.lock().unwrap().len() <= MAX_SECRETS);
        assert_eq!(secrets.find("a", &MAX_SECRETS.to_string(), now), Some(()));
    }
}
