//! A TLS client that reports what it received.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use packrace_testkit::certificates::{Authority, Credentials};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection after its handshake, as far as the client knows.
pub struct TlsClient(pub StreamOwned<ClientConnection, TcpStream>);

/// Connects to a name, and offers these protocols and this certificate.
pub fn connect(
    address: SocketAddr,
    name: &str,
    authority: &Authority,
    protocols: &[&str],
    own: Option<&Credentials>,
) -> io::Result<TlsClient> {
    shake_hands(TcpStream::connect(address)?, name, authority, protocols, own)
}

/// The same on a connection that is open.
pub fn shake_hands(
    mut stream: TcpStream,
    name: &str,
    authority: &Authority,
    protocols: &[&str],
    own: Option<&Credentials>,
) -> io::Result<TlsClient> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(TlsClient(StreamOwned::new(connection, stream)))
}

impl TlsClient {
    /// The common name of the server's certificate.
    pub fn common_name(&self) -> String {
        let certificate = &self.0.conn.peer_certificates().unwrap()[0];
        // An attribute of type 2.5.4.3, whose value is a short UTF8String (X.690). The subject comes after the issuer.
        let oid = [6, 3, 0x55, 4, 3, 12];
        let at = certificate.windows(oid.len()).rposition(|window| window == oid).unwrap() + oid.len();
        let length = usize::from(certificate[at]);
        String::from_utf8(certificate[at + 1..][..length].to_vec()).unwrap()
    }

    /// The negotiated protocol.
    pub fn protocol(&self) -> Option<String> {
        self.0.conn.alpn_protocol().map(|name| String::from_utf8(name.to_vec()).unwrap())
    }

    /// The head of the response to a GET; the connection stays open.
    pub fn get(&mut self, path: &str) -> io::Result<String> {
        write!(self.0, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        self.0.flush()?;
        let mut answer = Vec::new();
        let end = loop {
            if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            let mut bytes = [0; 1024];
            match self.0.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => answer.extend_from_slice(&bytes[..count]),
            }
        };
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let mut rest = vec![0; (end + 4 + length) - answer.len()];
        self.0.read_exact(&mut rest)?;
        Ok(head)
    }
}
