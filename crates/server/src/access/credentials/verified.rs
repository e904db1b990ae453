//! Secrets that were verified a moment ago: git sends Basic credentials with every request, and a password takes
//! some 50 ms to be verified.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// How long a verified secret is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// Secrets that are remembered at the same time. Beyond, all are forgotten.
const MAX_SECRETS: usize = 10_000;

/// Secrets that were verified in the last minute, as hashes under a key that this process alone has.
pub(in super::super) struct VerifiedSecrets {
    key: [u8; 32],
    until: Mutex<HashMap<[u8; 32], Instant>>,
}

impl std::fmt::Debug for VerifiedSecrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("VerifiedSecrets")
    }
}

impl VerifiedSecrets {
    pub(in super::super) fn new() -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(VerifiedSecrets { key, until: Mutex::default() })
    }

    /// Whether this password of this user was verified within the last minute.
    pub(in super::super) fn contains(&self, user: &str, password: &str, now: Instant) -> bool {
        let hash = self.hash(user, password);
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.get(&hash).is_some_and(|until| now < *until)
    }

    /// Remembers that it was verified.
    pub(in super::super) fn remember(&self, user: &str, password: &str, now: Instant) {
        let hash = self.hash(user, password);
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= MAX_SECRETS {
            until.retain(|_, until| now < *until);
        }
        if until.len() >= MAX_SECRETS {
            until.clear();
        }
        until.insert(hash, now + REMEMBERED_FOR);
    }

    fn hash(&self, user: &str, password: &str) -> [u8; 32] {
        let length = (user.len() as u64).to_le_bytes();
        let parts = [&self.key[..], &length, user.as_bytes(), password.as_bytes(), &self.key[..]];
        parts.iter().fold(Sha256::new(), Sha256::chain_update).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_minute_and_no_other_secret() {
        let (secrets, now) = (VerifiedSecrets::new().unwrap(), Instant::now());
        assert!(!secrets.contains("a", "b", now));
        secrets.remember("a", "bc", now);
        assert!(secrets.contains("a", "bc", now + REMEMBERED_FOR - Duration::from_millis(1)));
        assert!(!secrets.contains("a", "bc", now + REMEMBERED_FOR));
        assert!(!secrets.contains("ab", "c", now));
    }

    #[test]
    fn memory_is_bounded() {
        let (secrets, now) = (VerifiedSecrets::new().unwrap(), Instant::now());
        for number in 0..=MAX_SECRETS {
            secrets.remember("a", &number.to_string(), now);
        }
        assert!(secrets.until.lock().unwrap().len() <= MAX_SECRETS);
        assert!(secrets.contains("a", &MAX_SECRETS.to_string(), now));
    }
}
