//! TLS for a server: certificates and keys from files, the choice of a certificate for a client, and the
//! identity in a client's own certificate.

mod by_name;
mod client_certificate;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use by_name::CertificatesByName;
pub(crate) use client_certificate::ClientCertificate;

/// The protocols inside of TLS, best first (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of TLS, all of them PEM. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Chains of certificates, the server's own first in each file. A client gets the first chain that has
    /// the requested name, or else the first of all.
    pub certificates: Vec<PathBuf>,
    /// Private keys, in any order: a key belongs to the certificates that have its public half.
    pub keys: Vec<PathBuf>,
    /// Authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether clients must have a certificate.
    pub require_client_certificate: bool,
}

/// The configuration of TLS connections, read from [`TlsFiles`].
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    description: Arc<str>,
}

impl Tls {
    /// Reads the files. `None` if no certificate is configured.
    pub fn load(files: &TlsFiles) -> Result<Option<Self>, TlsError> {
        if files.require_client_certificate && files.client_ca.is_none() {
            return Err(TlsError::of_setting("tls.require-client-certificate", "needs tls.client-ca"));
        }
        if files.certificates.is_empty() {
            return match files.keys.first().or(files.client_ca.as_ref()) {
                Some(file) => Err(TlsError::new(file, "needs tls.certificates")),
                None => Ok(None),
            };
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chains = files::chains(&files.certificates, &files.keys, &provider)?;
        let description =
            chains.iter().map(|chain| chain.description.as_str()).collect::<Vec<_>>().join("; ");
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::of_setting("tls", &error.to_string()))?;
        let config = match &files.client_ca {
            None => config.with_no_client_auth(),
            Some(file) => {
                let verifier = client_verifier(file, files.require_client_certificate, provider)?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let certificates = CertificatesByName::new(chains.into_iter().map(|chain| chain.key).collect());
        let mut config = config.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // Git keeps no sessions between commands; and a client with a certificate shows it each time.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Some(Tls { config: Arc::new(config), description: description.into() }))
    }

    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

fn client_verifier(
    file: &Path,
    is_required: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let failed = |error: &dyn fmt::Display| TlsError::new(file, error);
    let mut authorities = RootCertStore::empty();
    for certificate in files::certificates(file)? {
        authorities.add(certificate).map_err(|error| failed(&error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() };
    verifier.build().map_err(|error| failed(&error))
}

/// Why TLS cannot be set up: which file is at fault, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// A file, or the name of a setting.
    subject: String,
    reason: String,
    is_denied: bool,
}

impl TlsError {
    fn new(file: &Path, reason: impl fmt::Display) -> Self {
        TlsError { subject: file.display().to_string(), reason: reason.to_string(), is_denied: false }
    }

    fn of_setting(name: &str, reason: &str) -> Self {
        TlsError { subject: name.to_owned(), reason: reason.to_owned(), is_denied: false }
    }

    fn of_io(file: &Path, error: &std::io::Error) -> Self {
        let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        TlsError { is_denied, ..TlsError::new(file, error) }
    }

    /// Whether the system denies this process access to the file.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)
    }
}

impl std::error::Error for TlsError {}
