//! Signed pushes (git-receive-pack, "PRE-RECEIVE HOOK"; git-config, "receive.certNonceSeed").
//!
//! A nonce is `<seconds>-<HMAC>`, so that a server need not remember which it gave out: the HMAC (RFC 2104, with the hash of
//! the repository) has `<repository>:<seconds>` for a key and the configured seed for a message, which is how git was seen
//! to make it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::SystemTime;

use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_os::child::{ChildProcess, Program};
use packrace_os::count::Role;
use packrace_os::durable::NewFile;
use packrace_protocol::session::push::Certificate;
use packrace_store::publish::{LooseBatch, WritePolicy, loose_compression};

use super::client_messages::ClientMessages;
use super::hook_run::Variables;
use super::settings::PushSettings;
use super::{CallMode, ReceivePack};
use crate::error::Error;

/// Bytes of a block of either hash.
const BLOCK_BYTES: usize = 64;

/// Most of what a program that verifies may say of a signature.
const MAX_STATUS_BYTES: usize = 1 << 20;

/// What was found out about a certificate.
#[derive(Debug, Clone)]
pub(super) struct CertificateCheck {
    /// The name of the blob that it became.
    id: Option<ObjectId>,
    signature: Signature,
    nonce: Option<CheckedNonce>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Signature {
    /// A letter, as `%G?` has it.
    status: Option<char>,
    signer: String,
    key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CheckedNonce {
    /// The one that hooks are told.
    nonce: String,
    status: &'static str,
    slop: Option<i64>,
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The nonce that is given out at a time.
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

/// What a certificate is checked against, and who is told of errors.
pub(super) struct CertificateChecker<'a> {
    pub(super) call: &'a ReceivePack,
    pub(super) settings: &'a PushSettings,
    /// The nonce that the client was given.
    pub(super) nonce: Option<&'a str>,
    pub(super) client: &'a ClientMessages,
}

impl CertificateCheck {
    /// What hooks are told.
    pub(super) fn variables(&self) -> Variables {
        let Some(id) = self.id else { return Vec::new() };
        let Signature { status, signer, key } = self.signature.clone();
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
    /// Stores the certificate and looks into its signature and its nonce.
    pub(super) fn check(&self, certificate: &Certificate) -> Result<CertificateCheck, Error> {
        Ok(CertificateCheck {
            id: self.store(certificate)?,
            signature: self.verify(certificate),
            nonce: self.check_nonce(certificate),
        })
    }

    /// Hooks read the certificate as a blob of the repository, where it stays also when the push does not succeed.
    fn store(&self, certificate: &Certificate) -> Result<Option<ObjectId>, Error> {
        let repository = &self.call.subject.repository;
        let Ok(id) = object_id(repository.hash_kind(), Kind::Blob, &certificate.text) else {
            return Ok(None);
        };
        // As durable as what is pushed: it is what proves who did.
        let policy = WritePolicy::of(repository.config())?.of_received();
        let (dir, level) = (repository.object_dir(), loose_compression(repository.config())?);
        let mut batch = LooseBatch::new(dir, repository.snapshot()?, level, policy);
        batch.add(&id, Kind::Blob, &certificate.text)?;
        batch.publish()?;
        Ok(Some(id))
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

    /// Asks the program that knows signatures of this kind. What it cannot tell has no status.
    fn verify(&self, certificate: &Certificate) -> Signature {
        let (signed, signature) = certificate.text.split_at(certificate.signature_at);
        let Some(program) = self.verifier(signature) else { return Signature::default() };
        let file = NewFile::create_temporary(&self.call.temporary_dir, ".git_vtag_tmp", 0o600, Role::Hook);
        let Ok(mut file) = file.and_then(|mut file| {
            file.write(signature)?;
            file.flush()?;
            Ok(file)
        }) else {
            return Signature::default();
        };
        let mut argv = vec![program, "--keyid-format=long".into(), "--status-fd=1".into(), "--verify".into()];
        argv.extend([file.path().as_os_str().to_owned(), "-".into()]);
        let program = Program {
            argv,
            directory: self.call.subject.repository.git_dir().to_owned(),
            environment: Vec::new(),
            reads_messages: true,
            confinement: self.call.subject.confinement.clone(),
        };
        let mut said = Vec::new();
        let run = ChildProcess::start(&program).and_then(|child| {
            child.run(signed, &mut |text| {
                let room = MAX_STATUS_BYTES - said.len();
                said.extend_from_slice(&text[..text.len().min(room)]);
            })
        });
        let _ = file.flush();
        drop(file);
        match run {
            Ok(_) => read_status(&String::from_utf8_lossy(&said)),
            Err(error) => {
                self.client.error(&format!("cannot run {}: {error}", program.argv[0].to_string_lossy()));
                Signature::default()
            }
        }
    }

    /// `gpg.program` and its like. Signatures of ssh need lists of signers, and are not looked into.
    fn verifier(&self, signature: &[u8]) -> Option<OsString> {
        let config = self.call.subject.repository.config();
        let named = |names: &[&str], default: &str| {
            let found = names.iter().find_map(|name| config.string(name));
            found.map_or_else(|| default.into(), OsString::from_vec)
        };
        if signature.starts_with(b"-----BEGIN PGP") {
            return Some(named(&["gpg.program", "gpg.openpgp.program"], "gpg"));
        }
        signature
            .starts_with(b"-----BEGIN SIGNED MESSAGE-----")
            .then(|| named(&["gpg.x509.program"], "gpgsm"))
    }
}

/// What a nonce is worth, and how old it is where that may be.
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
    // A connection that goes on knows what it asked for; over HTTP another process asked.
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

/// Reads what `--status-fd` says (GnuPG, doc/DETAILS).
fn read_status(said: &str) -> Signature {
    let mut found = Signature { status: Some('N'), ..Signature::default() };
    let kinds = [
        ("GOODSIG ", 'G'),
        ("BADSIG ", 'B'),
        ("ERRSIG ", 'E'),
        ("EXPSIG ", 'X'),
        ("EXPKEYSIG ", 'Y'),
        ("REVKEYSIG ", 'R'),
    ];
    for line in said.lines().filter_map(|line| line.strip_prefix("[GNUPG:] ")) {
        for (word, letter) in kinds {
            let Some(rest) = line.strip_prefix(word) else { continue };
            let (key, signer) = rest.split_once(' ').unwrap_or((rest, ""));
            found.status = Some(letter);
            found.key = key.to_owned();
            // Behind the key of a signature that could not be checked stands no name.
            found.signer = if letter == 'E' { String::new() } else { signer.to_owned() };
        }
        let is_untrusted = line.starts_with("TRUST_UNDEFINED") || line.starts_with("TRUST_NEVER");
        if found.status == Some('G') && is_untrusted {
            found.status = Some('U');
        }
    }
    found
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

    #[test]
    fn what_gpg_says() {
        let check = |said: &str, status, signer: &str, key: &str| {
            let expect = Signature { status: Some(status), signer: signer.into(), key: key.into() };
            assert_eq!(read_status(said), expect, "{said}");
        };
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 12AB C O <c@o>\n";
        check(&format!("{good}[GNUPG:] TRUST_ULTIMATE 0 pgp\n"), 'G', "C O <c@o>", "12AB");
        check(&format!("{good}[GNUPG:] TRUST_UNDEFINED\n"), 'U', "C O <c@o>", "12AB");
        check("[GNUPG:] BADSIG 12AB C O <c@o>", 'B', "C O <c@o>", "12AB");
        check("[GNUPG:] ERRSIG 12AB 1 8 00 1 9", 'E', "", "12AB");
        check("gpg: no such thing", 'N', "", "");
    }
}
