//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::TlsError;
use crate::settings_file::{self, is_loose};

/// The longest file: the authorities of a whole system take a quarter of a megabyte.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A chain of certificates with its key.
pub(super) struct Chain {
    pub(super) key: Arc<CertifiedKey>,
    /// The file, and the names and expiry of its first certificate, for the log.
    pub(super) description: String,
}

/// A private key, and whether a certificate has its public half.
struct LoadedKey {
    key: Arc<dyn SigningKey>,
    is_used: bool,
}

/// Reads chains and their keys. Every certificate must have a key, and every key a certificate.
pub(super) fn chains(
    certificate_files: &[PathBuf],
    key_files: &[PathBuf],
    provider: &CryptoProvider,
) -> Result<Vec<Chain>, TlsError> {
    let mut keys = key_files.iter().map(|file| private_key(file, provider)).collect::<Result<Vec<_>, _>>()?;
    let mut chains = Vec::new();
    for file in certificate_files {
        let certificates = certificates(file)?;
        let description = describe(file, &certificates[0])?;
        let fits =
            |key: &LoadedKey| CertifiedKey::new(certificates.clone(), key.key.clone()).keys_match().is_ok();
        let Some(key) = keys.iter_mut().find(|key| fits(key)) else {
            return Err(TlsError::new(file, "no private key in tls.keys matches this certificate"));
        };
        key.is_used = true;
        let key = Arc::new(CertifiedKey::new(certificates, key.key.clone()));
        chains.push(Chain { key, description });
    }
    match keys.iter().position(|key| !key.is_used) {
        Some(unused) => Err(TlsError::new(&key_files[unused], "matches no certificate in tls.certificates")),
        None => Ok(chains),
    }
}

/// The certificates of a file, at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let (bytes, _) = read(file)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| broken(file, &error))?;
    match found.is_empty() {
        true => Err(TlsError::new(file, "contains no certificate (PEM)")),
        false => Ok(found),
    }
}

fn private_key(file: &Path, provider: &CryptoProvider) -> Result<LoadedKey, TlsError> {
    let (bytes, mode) = read(file)?;
    if is_loose(mode) {
        let why = format!(
            "permissions {mode:04o} are too open for a private key; try chmod 600, or 640 for a group"
        );
        return Err(TlsError::new(file, why));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::new(file, "contains no private key (PEM, not encrypted)"),
        error => broken(file, &error),
    })?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| TlsError::new(file, error))?;
    Ok(LoadedKey { key, is_used: false })
}

fn broken(file: &Path, error: &pem::Error) -> TlsError {
    TlsError::new(file, format_args!("malformed PEM: {error}"))
}

/// The bytes of a file, and its permissions.
fn read(file: &Path) -> Result<(Vec<u8>, u32), TlsError> {
    settings_file::read(file, MAX_FILE_BYTES).map_err(|error| TlsError::of_io(file, &error))
}

/// The names and expiry of a certificate, as far as they can be read.
fn describe(file: &Path, certificate: &CertificateDer<'_>) -> Result<String, TlsError> {
    if let Err(error) = ParsedCertificate::try_from(certificate) {
        return Err(TlsError::new(file, format_args!("cannot read its first certificate: {error}")));
    }
    let name = file.display().to_string();
    let Ok(parsed) = Certificate::from_der(certificate) else { return Ok(name) };
    let parsed = parsed.tbs_certificate();
    let names = parsed.get_extension::<SubjectAltName>().ok().flatten();
    let names = names.iter().flat_map(|(_, SubjectAltName(names))| names);
    let names = names.filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.as_str()),
        _ => None,
    });
    let names = names.collect::<Vec<_>>().join(", ");
    Ok(format!("{name} ({names}) until {}", parsed.validity().not_after))
}
