//! TLS and SSH clients as threads of this program.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{Received, Take, Target, Transport, read_answer};
use russh::client::{Config, Handle, Handler, Msg, connect};
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate, load_secret_key};
use russh::{Channel, ChannelMsg, Preferred, cipher};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::runtime::Runtime;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(300);

/// A transport of a server.
pub trait Door: Sync {
    /// Connects, sends a fetch of protocol version 2, and returns the response stream.
    fn begin(&self, repository: &str, fetch: &[u8]) -> io::Result<Box<dyn Read + '_>>;

    /// The framing of the response.
    fn transport(&self) -> Transport;

    /// The time from before the connection to the first byte of the capabilities.
    fn advertised(&self, repository: &str) -> io::Result<Duration>;

    /// One fetch.
    fn fetch(&self, repository: &str, fetch: &[u8], take: Take) -> io::Result<Received> {
        let start = Instant::now();
        let mut answer = self.begin(repository, fetch)?;
        Ok(read_answer(&mut answer, self.transport(), take, start)?)
    }

    /// Reads responses one after the other until `is_over`, without parsing them. Counts their bytes.
    fn again_and_again(&self, repository: &str, fetch: &[u8], is_over: &AtomicBool, bytes: &AtomicU64) {
        let mut buffer = vec![0; 64 << 10];
        while !is_over.load(Relaxed) {
            let Ok(mut answer) = self.begin(repository, fetch) else { continue };
            while !is_over.load(Relaxed) {
                match answer.read(&mut buffer) {
                    Ok(length @ 1..) => drop(bytes.fetch_add(length as u64, Relaxed)),
                    _ => break,
                }
            }
        }
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// HTTPS/1.1.
pub struct TlsDoor {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

/// A connection whose peer may close without a TLS alert: the data has its own end.
pub struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            result => result,
        }
    }
}

impl TlsDoor {
    /// For a server with a certificate of this authority.
    pub fn new(address: SocketAddr, authority: &str) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).map_err(other)?).map_err(other)?;
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384];
        let config = ClientConfig::builder_with_provider(Arc::new(provider));
        let config = config.with_safe_default_protocol_versions().map_err(other)?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(TlsDoor { address, config: Arc::new(config) })
    }

    /// A connection with a finished handshake.
    pub fn connect(&self) -> io::Result<TlsStream> {
        let name = ServerName::try_from("localhost").map_err(other)?;
        let mut connection = ClientConnection::new(self.config.clone(), name).map_err(other)?;
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(TlsStream(StreamOwned::new(connection, stream)))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<TlsStream> {
        let mut stream = self.connect()?;
        stream.0.write_all(bytes)?;
        stream.0.flush()?;
        Ok(stream)
    }
}

impl Door for TlsDoor {
    fn begin(&self, repository: &str, fetch: &[u8]) -> io::Result<Box<dyn Read + '_>> {
        let path = format!("/{repository}");
        let target = Target { transport: Transport::Http, address: self.address, path, patience: PATIENCE };
        Ok(Box::new(self.send(&target.request(fetch))?))
    }

    fn transport(&self) -> Transport {
        Transport::Http
    }

    fn advertised(&self, repository: &str) -> io::Result<Duration> {
        let start = Instant::now();
        let request = format!(
            "GET /{repository}/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: localhost\r\n\
             Git-Protocol: version=2\r\nConnection: close\r\n\r\n"
        );
        let mut stream = self.send(request.as_bytes())?;
        read_until(&mut stream, b"version 2\n")?;
        Ok(start.elapsed())
    }
}

/// Reads until these bytes arrive.
fn read_until(stream: &mut impl Read, expect: &[u8]) -> io::Result<()> {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !read.windows(expect.len()).any(|window| window == expect) {
        match stream.read(&mut buffer)? {
            0 => {
                return Err(io::Error::other(format!(
                    "no {}: {}",
                    expect.escape_ascii(),
                    read.escape_ascii()
                )));
            }
            length => read.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(())
}

/// SSH, with an accepted key.
pub struct SshDoor {
    address: SocketAddr,
    user: String,
    key: Arc<PrivateKey>,
    /// The command before the quoted repository path.
    command: String,
    runtime: Runtime,
}

/// Accepts any host key.
struct Believing;

impl Handler for Believing {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

impl SshDoor {
    /// `command` comes before the quoted name of the repository. With `is_idle`, the threads of all
    /// connections run only at idle priority.
    pub fn new(
        address: SocketAddr,
        user: &str,
        key: &Path,
        command: &str,
        is_idle: bool,
    ) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all();
        if is_idle {
            runtime.on_thread_start(packrace_os::process::run_when_idle);
        }
        let key = Arc::new(load_secret_key(key, None).map_err(other)?);
        let (user, command) = (user.to_owned(), command.to_owned());
        Ok(SshDoor { address, user, key, command, runtime: runtime.build()? })
    }

    /// A logged-in client without a session.
    pub fn login(&self) -> io::Result<SshLogin> {
        let preferred = Preferred { cipher: vec![cipher::AES_256_GCM].into(), ..Preferred::DEFAULT };
        let config = Arc::new(Config { preferred, nodelay: true, ..Config::default() });
        let key = PrivateKeyWithHashAlg::new(self.key.clone(), None);
        let handle = self.runtime.block_on(async {
            let mut handle = connect(config, self.address, Believing).await?;
            let shown = handle.authenticate_publickey(self.user.as_str(), key).await?;
            Ok::<_, russh::Error>(shown.success().then_some(handle))
        });
        let handle = handle.map_err(other)?.ok_or_else(|| io::Error::other("the key is not taken"))?;
        Ok(SshLogin(handle))
    }

    fn run(&self, repository: &str) -> io::Result<SshStream<'_>> {
        let login = self.login()?;
        let command = format!("{}{repository}'", self.command);
        let channel = self.runtime.block_on(async {
            let channel = login.0.channel_open_session().await?;
            channel.set_env(false, "GIT_PROTOCOL", "version=2").await?;
            channel.exec(false, command).await?;
            Ok::<_, russh::Error>(channel)
        });
        Ok(SshStream { door: self, _login: login, channel: channel.map_err(other)?, left: Vec::new(), at: 0 })
    }
}

/// A connection.
pub struct SshLogin(Handle<Believing>);

/// The output of a session.
struct SshStream<'a> {
    door: &'a SshDoor,
    _login: SshLogin,
    channel: Channel<Msg>,
    left: Vec<u8>,
    at: usize,
}

impl Read for SshStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.left.len() {
            match self.door.runtime.block_on(self.channel.wait()) {
                Some(ChannelMsg::Data { data }) => (self.left, self.at) = (data.to_vec(), 0),
                Some(ChannelMsg::ExitStatus { exit_status }) if exit_status != 0 => {
                    return Err(io::Error::other(format!("the session ended with {exit_status}")));
                }
                Some(_) => {}
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.left.len() - self.at);
        buffer[..length].copy_from_slice(&self.left[self.at..][..length]);
        self.at += length;
        Ok(length)
    }
}

impl Door for SshDoor {
    fn begin(&self, repository: &str, fetch: &[u8]) -> io::Result<Box<dyn Read + '_>> {
        let stream = self.run(repository)?;
        let request = [fetch, b"0000"].concat();
        self.runtime
            .block_on(async {
                stream.channel.data_bytes(request).await?;
                stream.channel.eof().await
            })
            .map_err(other)?;
        Ok(Box::new(stream))
    }

    fn transport(&self) -> Transport {
        Transport::Git
    }

    fn advertised(&self, repository: &str) -> io::Result<Duration> {
        let start = Instant::now();
        read_until(&mut self.run(repository)?, b"version 2\n")?;
        Ok(start.elapsed())
    }
}
