//! Certificates for TLS tests, generated each time.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// An authority that signs certificates.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// An authority of this name.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).expect("an authority signs itself").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Its own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate with this common name and these alternative names: host names, addresses, and e-mail
    /// addresses.
    pub fn sign(&self, common_name: &str, names: &[&str]) -> Credentials {
        self.signed(params(common_name, names))
    }

    /// The same, valid for `time` from now on.
    pub fn sign_for(&self, common_name: &str, names: &[&str], time: Duration) -> Credentials {
        let mut params = params(common_name, names);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + now + time;
        self.signed(params)
    }

    fn signed(&self, params: CertificateParams) -> Credentials {
        let key = KeyPair::generate().expect("a key can be made");
        let signed = params.signed_by(&key, &self.issuer).expect("it is signed");
        Credentials { certificate: signed.pem(), key: key.serialize_pem() }
    }
}

fn params(common_name: &str, names: &[&str]) -> CertificateParams {
    let (mails, hosts): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains('@'));
    let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
    let mut params = CertificateParams::new(hosts).expect("these are names");
    let mails = mails.into_iter().map(|mail| rcgen::SanType::Rfc822Name(mail.try_into().expect("ASCII")));
    params.subject_alt_names.extend(mails);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

impl Credentials {
    /// Writes `NAME.pem` and `NAME.key`; existing files are replaced, as programs that renew certificates do.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let place = |end: &str, text: &str| {
            let (path, new) = (dir.join(format!("{name}.{end}")), dir.join(format!("{name}.{end}.new")));
            let mut options = std::fs::File::options();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&new).expect("a new file");
            std::io::Write::write_all(&mut file, text.as_bytes()).expect("it can be written");
            std::fs::rename(new, &path).expect("it can be named");
            path
        };
        (place("pem", &self.certificate), place("key", &self.key))
    }
}
