//! The user of a certificate (OpenSSH's PROTOCOL.certkeys).
//!
//! The principals of a certificate are user names. If there are several, the client's login name selects one
//! (`ssh alice@…`); if there is one, the login name is ignored, as with keys.

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, Certificate, HashAlg};

use super::signers::check_name;
use super::{SshUser, UserCertificate, UserKeys, check_kind};

/// Longest certificate id in the log.
const MAX_SHOWN_LETTERS: usize = 100;

impl UserKeys {
    /// The user of a certificate at this time, in seconds since 1970, or why it is refused. `is_from` tells
    /// whether the client's address is in a range.
    pub fn user_of_certificate(
        &self,
        certificate: &UserCertificate<'_>,
        login: &str,
        now: u64,
        is_from: &dyn Fn(&str) -> bool,
    ) -> Result<SshUser, String> {
        let UserCertificate(certificate) = certificate;
        let shown = shown(certificate);
        let refused = |why: String| Err(format!("{shown}: {why}"));
        if certificate.cert_type() != CertType::User {
            return refused("host certificate, not a user certificate".to_owned());
        }
        if !self.authorities.iter().any(|authority| authority.0.key_data() == certificate.signature_key()) {
            return refused("signed by an unknown CA".to_owned());
        }
        if self.revoked.has_certificate(certificate) {
            return refused("revoked".to_owned());
        }
        if let Err(why) = check_kind(certificate.public_key()) {
            return refused(why);
        }
        if certificate.signature().algorithm() == (Algorithm::Rsa { hash: None }) {
            return refused("signed with SHA-1".to_owned());
        }
        let authority = certificate.signature_key().fingerprint(HashAlg::Sha256);
        if certificate.validate_at(now, [&authority]).is_err() {
            return refused("not valid at this time".to_owned());
        }
        for (name, value) in certificate.critical_options().iter() {
            match name.as_str() {
                "source-address" if value.split(',').any(is_from) => {}
                "source-address" => return refused("not valid for this client's address".to_owned()),
                _ => return refused(format!("unknown critical option {name:?}")),
            }
        }
        match principal(certificate, login) {
            Ok(name) => Ok(SshUser { name: name.into(), shown }),
            Err(why) => refused(why),
        }
    }
}

/// Selects a principal.
fn principal<'a>(certificate: &'a Certificate, login: &str) -> Result<&'a str, String> {
    let principals = certificate.valid_principals();
    let named = principals.iter().find(|name| *name == login);
    let name = match (named, principals) {
        (Some(named), _) => named,
        (None, [only]) => only,
        // To sshd, no principals means every user. Here it means none.
        (None, []) => return Err("no principal".to_owned()),
        (None, _) => return Err(format!("no principal matches the login name {login:?}")),
    };
    check_name(name).map(|()| name.as_str())
}

/// Text about a certificate for the log.
fn shown(certificate: &Certificate) -> String {
    let id: String =
        certificate.key_id().chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN_LETTERS).collect();
    format!("certificate {id:?}, serial {}", certificate.serial())
}

#[cfg(test)]
mod tests {
    use russh::keys::PrivateKey;
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::certificate::Builder;

    use super::*;

    struct CertificateSpec<'a> {
        signer: &'a PrivateKey,
        kind: CertType,
        principals: &'a [&'a str],
        option: Option<(&'a str, &'a str)>,
    }

    fn random() -> PrivateKey {
        PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
    }

    /// A certificate that is valid from 1,000 to 2,000.
    fn signed(wanted: &CertificateSpec<'_>) -> Certificate {
        let mut builder =
            Builder::new_with_random_nonce(&mut safe_rng(), random().public_key(), 1000, 2000).unwrap();
        builder.serial(7).unwrap().key_id("alice's\n laptop").unwrap().cert_type(wanted.kind).unwrap();
        for principal in wanted.principals {
            builder.valid_principal(*principal).unwrap();
        }
        if wanted.principals.is_empty() {
            builder.all_principals_valid().unwrap();
        }
        if let Some((name, value)) = wanted.option {
            builder.critical_option(name, value).unwrap();
        }
        builder.sign(wanted.signer).unwrap()
    }

    #[test]
    fn who_is_meant() {
        let (authority, other) = (random(), random());
        let mut keys = UserKeys::default();
        keys.add_authorities(&authority.public_key().to_openssh().unwrap()).unwrap();
        let check_at = |now, wanted: &CertificateSpec<'_>, login: &str, expect: Result<&str, &str>| {
            let certificate = signed(wanted);
            let is_from = |range: &str| range == "10.0.0.0/8";
            let found = keys.user_of_certificate(&UserCertificate(&certificate), login, now, &is_from);
            let shown = "certificate \"alice's laptop\", serial 7";
            let expect = expect.map_err(|why| format!("{shown}: {why}"));
            assert_eq!(found.as_ref().map(|user| &*user.name).map_err(Clone::clone), expect);
            assert!(found.is_err() || found.is_ok_and(|user| user.shown == shown));
        };
        let check = |wanted: &CertificateSpec<'_>, login, expect| check_at(1500, wanted, login, expect);
        let good = || CertificateSpec {
            signer: &authority,
            kind: CertType::User,
            principals: &["alice"],
            option: None,
        };
        check(&good(), "git", Ok("alice"));
        check(&good(), "alice", Ok("alice"));
        let two = || CertificateSpec { principals: &["alice", "bob"], ..good() };
        check(&two(), "bob", Ok("bob"));
        check(&two(), "git", Err("no principal matches the login name \"git\""));
        check(&CertificateSpec { principals: &[], ..good() }, "alice", Err("no principal"));
        check(
            &CertificateSpec { principals: &["@admins"], ..good() },
            "git",
            Err("\"@admins\" is not a single user name"),
        );
        let from = |range| CertificateSpec { option: Some(("source-address", range)), ..good() };
        check(&from("192.0.2.1,10.0.0.0/8"), "git", Ok("alice"));
        check(&from("192.0.2.1"), "git", Err("not valid for this client's address"));
        check(&from(""), "git", Err("not valid for this client's address"));
        let unknown = ["force-command", "verify-required", "x@example.com"];
        let whys = unknown.map(|name| (name, format!("unknown critical option {name:?}")));
        for (name, why) in &whys {
            check(&CertificateSpec { option: Some((name, "id")), ..good() }, "git", Err(why));
        }
        check(
            &CertificateSpec { kind: CertType::Host, ..good() },
            "git",
            Err("host certificate, not a user certificate"),
        );
        let unknown = "signed by an unknown CA";
        check(&CertificateSpec { signer: &other, ..good() }, "git", Err(unknown));
        for (now, expect) in [(999, Err("not valid at this time")), (1000, Ok("alice")), (1999, Ok("alice"))]
        {
            check_at(now, &good(), "git", expect);
        }
        check_at(2000, &good(), "git", Err("not valid at this time"));
        let mut keys = keys.clone();
        keys.revoke("serial: 7\n").unwrap();
        let certificate = signed(&good());
        let found = keys.user_of_certificate(&UserCertificate(&certificate), "git", 1500, &|_| true);
        assert!(found.unwrap_err().ends_with(", serial 7: revoked"));
    }
}
