//! Chooses a client's certificate by the name that it requests (RFC 6066, section 3).

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Certificates, whose names are matched as a client matches them.
#[derive(Debug)]
pub(super) struct CertificatesByName(Vec<Arc<CertifiedKey>>);

impl CertificatesByName {
    /// At least one; the first is for all names that no certificate has.
    pub(super) fn new(certificates: Vec<Arc<CertifiedKey>>) -> Self {
        CertificatesByName(certificates)
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let CertificatesByName(certificates) = self;
        if certificates.len() == 1 {
            return certificates.first().cloned();
        }
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let has_name = |key: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| is_for(key, name));
        // One name may have certificates of several kinds.
        let can_sign = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let mut named = certificates.iter().filter(has_name);
        named.find(can_sign).or_else(|| certificates.iter().find(can_sign)).cloned()
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
}
