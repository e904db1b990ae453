//! The identity in a client's certificate.

use std::fmt;

use packrace_object::{HashKind, TrailerHasher};
use rustls::ServerConnection;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// A client's certificate, signed by one of the authorities of `tls.client-ca`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The common name of its subject.
    pub(crate) common_name: Option<String>,
    /// The first e-mail address or DNS name among its alternative names.
    pub(crate) alternative_name: Option<String>,
    /// SHA-256 of the whole certificate, in hex digits.
    pub(crate) sha256: String,
}

impl ClientCertificate {
    /// The certificate of the client of this connection, after its handshake. Names that cannot be read, or
    /// that have control characters, are left out.
    pub(crate) fn of(connection: &ServerConnection) -> Option<Self> {
        // Only verified certificates are here.
        let der = connection.peer_certificates()?.first()?;
        let mut hasher = TrailerHasher::new(HashKind::Sha256);
        hasher.update(der);
        let sha256 = hasher.finish().to_string();
        let parsed = Certificate::from_der(der).ok();
        let parsed = parsed.as_ref().map(Certificate::tbs_certificate);
        let common_name = parsed.and_then(|parsed| parsed.subject().common_name().ok().flatten());
        let common_name = common_name.and_then(|name| harmless(&name.value()));
        let names = parsed.and_then(|parsed| parsed.get_extension::<SubjectAltName>().ok().flatten());
        let alternative_name =
            names.iter().flat_map(|(_, SubjectAltName(names))| names).find_map(|name| match name {
                GeneralName::Rfc822Name(name) | GeneralName::DnsName(name) => harmless(name.as_str()),
                _ => None,
            });
        Some(ClientCertificate { common_name, alternative_name, sha256 })
    }
}

fn harmless(name: &str) -> Option<String> {
    let is_name = !name.is_empty() && !name.contains(char::is_control);
    is_name.then(|| name.to_owned())
}

impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.common_name.iter().chain(&self.alternative_name);
        names.into_iter().try_for_each(|name| write!(f, "{name} "))?;
        write!(f, "sha256:{}", self.sha256)
    }
}
