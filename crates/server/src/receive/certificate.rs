//! Signed pushes (git-receive-pack, "PRE-RECEIVE HOOK"; git-config, "receive.certNonceSeed").
//!
//! A nonce is `<seconds>-<HMAC>`, so that a server need not remember which ones it issued: the HMAC (RFC
//! 2104, with the hash of the repository) has `<repository>:<seconds>` as its key and the configured seed as
//! its message, as observed from git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::SystemTime;

use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_protocol::session::push::Certificate;
use packrace_store::publish::{LooseBatch, WritePolicy, loose_compression};

use super::client_messages::ClientMessages;
use super::hook_run::Variables;
use super::settings::PushSettings;
use super::{CallMode, ReceivePack};
use crate::error::Error;
use crate::signature::{Signature, SignatureChecker};

/// Block size of either hash, in bytes.
const BLOCK_BYTES: usize = 64;

/// The result of checking a certificate.
#[derive(Debug, Clone)]
pub(super) struct CertificateCheck {
    /// The id of the blob that it was stored as.
    id: Option<ObjectId>,
    signature: Signature,
    nonce: Option<CheckedNonce>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CheckedNonce {
    /// The nonce that hooks get.
    nonce: String,
    status: &'static str,
    slop: Option<i64>,
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The nonce that is issued at a time.
pub(super) fn nonce(hash: HashKind, seed: &[u8], named: &OsStr, seconds: i64) -> String {
    let key = [named.as_bytes(), format!(":{seconds}").as_bytes()].concat();
    format!("{seconds}-{}", hmac(hash, &key, seed))
}

fn hmac(hash: HashKind, key: &[u8], message: &[u8]) -> ObjectId {
    let digest = |parts: &[&[u8]]| {
        let mut hasher = TrailerHasher::new(hash);
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finish()
    };
    let mut block = [0; BLOCK_BYTES];
    match key.len() > BLOCK_BYTES {
        true => block[..hash.len_in_bytes()].copy_from_slice(digest(&[key]).as_slice()),
        false => block[..key.len()].copy_from_slice(key),
    }
    let inner = digest(&[&block.map(|byte| byte ^ 0x36), message]);
    digest(&[&block.map(|byte| byte ^ 0x5c), inner.as_slice()])
}

/// What a certificate is checked against, and where errors go.
pub(super) struct CertificateChecker<'a> {
    pub(super) call: &'a ReceivePack,
    pub(super) settings: &'a PushSettings,
    /// The nonce that the client got.
    pub(super) nonce: Option<&'a str>,
    pub(super) client: &'a ClientMessages,
}

impl CertificateCheck {
    /// The variables for hooks.
    pub(super) fn variables(&self) -> Variables {
        let Some(id) = self.id else { return Vec::new() };
        let Signature { status, signer, key, .. } = self.signature.clone();
        let mut variables: Vec<(&str, String)> = vec![
            ("GIT_PUSH_CERT", id.to_string()),
            ("GIT_PUSH_CERT_SIGNER", signer),
            ("GIT_PUSH_CERT_KEY", key),
            ("GIT_PUSH_CERT_STATUS", status.unwrap_or('N').to_string()),
        ];
        if let Some(CheckedNonce { nonce, status, slop }) = self.nonce.clone() {
            variables.push(("GIT_PUSH_CERT_NONCE", nonce));
            variables.push(("GIT_PUSH_CERT_NONCE_STATUS", status.to_owned()));
            variables.extend(slop.map(|slop| ("GIT_PUSH_CERT_NONCE_SLOP", slop.to_string())));
        }
        variables.into_iter().map(|(name, value)| (name.into(), Some(value.into()))).collect()
    }
}

impl CertificateChecker<'_> {
    /// Stores the certificate; checks its signature and its nonce.
    pub(super) fn check(&self, certificate: &Certificate) -> Result<CertificateCheck, Error> {
        self.call.subject.repository.config().check_trust_level()?;
        Ok(CertificateCheck {
            id: self.store(certificate)?,
            signature: self.verify(certificate),
            nonce: self.check_nonce(certificate),
        })
    }

    /// Hooks read the certificate as a blob of the repository, which stays even if the push fails.
    fn store(&self, certificate: &Certificate) -> Result<Option<ObjectId>, Error> {
        let repository = &self.call.subject.repository;
        let Ok(id) = object_id(repository.hash_kind(), Kind::Blob, &certificate.text) else {
            return Ok(None);
        };
        // As durable as the pushed objects: it proves who pushed them.
        let policy = WritePolicy::of(repository.config())?.of_received();
        let (dir, level) = (repository.object_dir(), loose_compression(repository.config())?);
        let mut batch = LooseBatch::new(dir, repository.snapshot()?, level, policy);
        batch.add(&id, Kind::Blob, &certificate.text)?;
        batch.publish()?;
        Ok(Some(id))
    }

    fn verify(&self, certificate: &Certificate) -> Signature {
        let (signed, signature) = certificate.text.split_at(certificate.signature_at);
        let subject = &self.call.subject;
        SignatureChecker {
            config: subject.repository.config(),
            directory: subject.repository.git_dir(),
            temporary_dir: &self.call.temporary_dir,
            confinement: &subject.confinement,
            // As in git, it is the operator who can mend it.
            on_error: &|kind, text| match &self.call.faults {
                Some(operator) => operator.say(format!("{kind}: {text}\n").as_bytes()),
                None => self.client.report(kind, text),
            },
        }
        .check(signed, signature)
    }

    fn check_nonce(&self, certificate: &Certificate) -> Option<CheckedNonce> {
        let ours = self.nonce?.to_owned();
        let theirs = certificate.header("nonce").map(|nonce| String::from_utf8_lossy(nonce).into_owned());
        let seed = self.settings.nonce_seed.as_deref().unwrap_or_default();
        let hash = self.call.subject.repository.hash_kind();
        let is_stateless = self.call.subject.mode == CallMode::StatelessRpc;
        let make = |seconds| nonce(hash, seed, &self.call.named, seconds);
        let (status, slop) = judge(theirs.as_deref(), &ours, is_stateless, self.settings.nonce_slop, make);
        let is_accepted_old = status == "OK" && theirs.as_ref() != Some(&ours);
        let nonce = if is_accepted_old { theirs.unwrap_or_default() } else { ours };
        Some(CheckedNonce { nonce, status, slop })
    }
}

/// The status of a nonce, and its age where an older one may be accepted.
fn judge(
    theirs: Option<&str>,
    ours: &str,
    is_stateless: bool,
    slop_limit: i64,
    make: impl Fn(i64) -> String,
) -> (&'static str, Option<i64>) {
    let Some(theirs) = theirs else { return ("MISSING", None) };
    if theirs == ours {
        return ("OK", None);
    }
    // A stateful connection knows its own nonce; over HTTP another process issued it.
    if !is_stateless {
        return ("BAD", None);
    }
    let seconds = |nonce: &str| nonce.split_once('-').and_then(|(seconds, _)| seconds.parse::<i64>().ok());
    let (Some(then), Some(now)) = (seconds(theirs), seconds(ours)) else { return ("BAD", None) };
    if make(then) != theirs {
        return ("BAD", None);
    }
    let slop = then.saturating_sub(now);
    if slop_limit > 0 && slop.saturating_abs() <= slop_limit {
        return ("OK", None);
    }
    ("SLOP", Some(slop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_those_of_git() {
        let nonce = nonce(HashKind::Sha1, b"x", OsStr::new("/tmp/px/h.git"), 1_795_260_183);
        assert_eq!(nonce, "1795260183-76c2d8633a3131a6b5d1fe12e3549536975bed8a");
        // RFC 4231, test cases 2 and 6.
        let check = |key: &[u8], message: &[u8], expect: &str| {
            assert!(hmac(HashKind::Sha256, key, message).to_string().starts_with(expect));
        };
        check(b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7");
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        check(&[0xaa; 131], message, "60e431591ee0b67f0d8a26aacbf5b77f");
    }

    #[test]
    fn what_nonces_are_worth() {
        let make = |seconds: i64| format!("{seconds}-ab");
        let check = |theirs: Option<&str>, is_stateless, limit, expect| {
            assert_eq!(judge(theirs, "100-ab", is_stateless, limit, make), expect, "{theirs:?}");
        };
        check(None, true, 9, ("MISSING", None));
        check(Some("100-ab"), false, 0, ("OK", None));
        check(Some("99-ab"), false, 9, ("BAD", None));
        check(Some("99-ab"), true, 0, ("SLOP", Some(-1)));
        check(Some("99-ab"), true, 1, ("OK", None));
        check(Some("102-ab"), true, 1, ("SLOP", Some(2)));
        check(Some("99-cd"), true, 9, ("BAD", None));
        check(Some("x"), true, 9, ("BAD", None));
        check(Some("-9223372036854775808-ab"), true, 9, ("BAD", None));
    }
}
