//! TLS to servers: trusted certificates, and the client's certificate.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier,
};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusted authorities and the client's certificate. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Whether the server must prove its identity.
    pub verify: bool,
    /// A PEM file of authorities, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A folder of authorities, named by hash, instead of the system's.
    pub ca_folder: Option<PathBuf>,
    /// A PEM file with the client's certificate and its chain.
    pub certificate: Option<PathBuf>,
    /// A PEM file with its key; by default the key is in the certificate's file.
    pub key: Option<PathBuf>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        TlsOptions { verify: true, ca_file: None, ca_folder: None, certificate: None, key: None }
    }
}

/// Makes TLS connections; later handshakes with a server resume the session.
#[derive(Clone)]
pub(super) struct TlsClient(TlsConnector);

impl TlsClient {
    /// Reads the files.
    pub(super) fn new(options: &TlsOptions) -> Result<Self, TlsSetupError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsSetupError(error.to_string()))?;
        let mut config = with_client_certificate(with_authorities(builder, options, provider)?, options)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient(TlsConnector::from(Arc::new(config))))
    }

    /// Starts TLS with the server of this name.
    pub(super) async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

/// A file in the options cannot be used; the text names it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct TlsSetupError(String);

type WithoutAuthorities = rustls::ConfigBuilder<ClientConfig, WantsVerifier>;
type WithoutCertificate = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn with_authorities(
    builder: WithoutAuthorities,
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<WithoutCertificate, TlsSetupError> {
    if !options.verify {
        let verifier = Arc::new(AnyServer(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier));
    }
    let loaded = match (&options.ca_file, &options.ca_folder) {
        (None, None) => rustls_native_certs::load_native_certs(),
        (file, folder) => rustls_native_certs::load_certs_from_paths(file.as_deref(), folder.as_deref()),
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(loaded.certs);
    if added > 0 {
        return Ok(builder.with_root_certificates(roots));
    }
    let why =
        loaded.errors.first().map_or_else(|| "contains no CA certificate".to_owned(), ToString::to_string);
    let shown =
        |path: &Option<PathBuf>| path.as_ref().map_or("none".into(), |path| path.display().to_string());
    let (file, folder) = (shown(&options.ca_file), shown(&options.ca_folder));
    Err(TlsSetupError(format!(
        "error setting certificate verify locations:  CAfile: {file} CApath: {folder}: {why}"
    )))
}

fn with_client_certificate(
    builder: WithoutCertificate,
    options: &TlsOptions,
) -> Result<ClientConfig, TlsSetupError> {
    let Some(file) = &options.certificate else { return Ok(builder.with_no_client_auth()) };
    let failed = |path: &PathBuf, why: String| {
        TlsSetupError(format!("could not load PEM client certificate from {}: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(file, error.to_string()))?;
    let key_file = options.key.as_ref().unwrap_or(file);
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| failed(key_file, error.to_string()))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| failed(file, error.to_string()))
}

/// Accepts every certificate (`http.sslVerify=false`), but checks that the server has its key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Git's message for a failed handshake, in OpenSSL's words; `None` for other errors.
pub(super) fn handshake_words(error: &io::Error, host: &str) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let problem = |why: &str| format!("SSL certificate problem: {why}");
    Some(match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => problem("unable to get local issuer certificate"),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                problem("certificate has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                problem("certificate is not yet valid")
            }
            CertificateError::Revoked => problem("certificate revoked"),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("SSL: no alternative certificate subject name matches target host name '{host}'")
            }
            other => problem(&other.to_string()),
        },
        other => format!("TLS connect error: {other}"),
    })
}
