use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use packrace_os::clock::{Clock as _, RealClock};
use packrace_os::sink::{self, FdSink};
use packrace_os::source::FdSource;
use packrace_protocol::wire::pkt_line::{MAX_PAYLOAD, write_data};

use super::{Error, READ_BYTES, ServerConnection, Url};

/// At which addresses to look for a server, and how long to wait for it. Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Per address, until the server accepts a connection.
    pub connect: Duration,
    /// Until the server sends or takes data. Busy servers send keepalives every few seconds.
    pub silence: Duration,
    /// Only addresses of IPv6, or only those of IPv4; all if not given. Those of proxies, too.
    pub ipv6: Option<bool>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(60), silence: Duration::from_secs(300), ipv6: None }
    }
}

/// Any bidirectional connection: a reader for large reads, and a writer.
pub struct Stateful<R: Read, W: Write> {
    reader: BufReader<R>,
    writer: W,
}

impl<R: Read, W: Write> Stateful<R, W> {
    /// The server has not sent anything yet.
    pub fn new(reader: R, writer: W) -> Self {
        Stateful { reader: BufReader::with_capacity(READ_BYTES, reader), writer }
    }
}

impl<R: Read, W: Write> Read for Stateful<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl<R: Read, W: Write> BufRead for Stateful<R, W> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
    }
}

impl<R: Read, W: Write> ServerConnection for Stateful<R, W> {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.writer.write_all(request)?;
        self.writer.flush()
    }
}

/// The sending half of a socket; its calls are counted.
#[derive(Debug)]
pub struct SocketWriter(FdSink);

impl Write for SocketWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sink::write_all(&mut self.0, &[bytes])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to a git:// server and asks for a repository in version 2. `say` gets the messages of `git clone
/// -v`.
pub fn open_git(
    url: &Url,
    timeouts: Timeouts,
    say: &mut dyn FnMut(&str),
) -> Result<Stateful<FdSource, SocketWriter>, Error> {
    let unreachable = |why: &ConnectFailure| match why {
        ConnectFailure::NoAddress(why) => {
            format!("unable to look up {} (port {}) ({why})", url.host, url.port)
        }
        ConnectFailure::Refused { failures, .. } => format!("unable to connect to {}:\n{failures}", url.host),
    };
    let stream =
        connect(&url.host, url.port, timeouts, say).map_err(|why| Error::Unreachable(unreachable(&why)))?;
    let (source, sink) = prepared(stream, timeouts).map_err(Error::Connection)?;
    let mut connection = Stateful::new(source, SocketWriter(sink));
    connection.send(&git_request(url)?).map_err(Error::Connection)?;
    Ok(connection)
}

/// The first packet to a git:// server, which names the repository.
pub fn git_request(url: &Url) -> Result<Vec<u8>, Error> {
    let path = url.decoded_path()?;
    let host = format!("\0host={}\0\0version=2\0", url.authority);
    let request = [b"git-upload-pack ", path.as_slice(), host.as_bytes()].concat();
    if request.len() > MAX_PAYLOAD {
        return Err(Error::Url("path is too long".to_owned()));
    }
    let mut packet = Vec::new();
    write_data(&request, &mut packet);
    Ok(packet)
}

/// Why there is no connection.
pub(super) enum ConnectFailure {
    /// The name has no address.
    NoAddress(String),
    /// No address accepts: one line each, and the time it took.
    Refused { failures: String, took: Duration },
}

/// Connects to the first address of a host that accepts. `say` gets messages about each step.
pub(super) fn connect(
    host: &str,
    port: u16,
    timeouts: Timeouts,
    say: &mut dyn FnMut(&str),
) -> Result<TcpStream, ConnectFailure> {
    say(&format!("Looking up {host} ... "));
    let clock = RealClock::default();
    let addresses = (host, port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        ConnectFailure::NoAddress(text.rsplit(": ").next().unwrap_or(&text).to_owned())
    })?;
    let is_wanted = |address: &SocketAddr| timeouts.ipv6.is_none_or(|ipv6| address.is_ipv6() == ipv6);
    let addresses: Vec<SocketAddr> = addresses.filter(is_wanted).collect();
    if addresses.is_empty() {
        return Err(ConnectFailure::NoAddress("Address family for hostname not supported".to_owned()));
    }
    say(&format!("done.\nConnecting to {host} (port {port}) ... "));
    let mut failures = String::new();
    for (number, address) in addresses.iter().enumerate() {
        let connected = TcpStream::connect_timeout(address, timeouts.connect);
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => {
                say(&format!("{} done.\n", address.ip()));
                return Ok(stream);
            }
            Err(error) => {
                let why = packrace_os::reason(&error);
                failures.push_str(&format!("{host}[{number}: {}]: errno={why}\n", address.ip()));
            }
        }
    }
    Err(ConnectFailure::Refused { failures, took: clock.now() })
}

fn prepared(stream: TcpStream, timeouts: Timeouts) -> io::Result<(FdSource, FdSink)> {
    // A timeout in the kernel: polling before each read would cost another call.
    stream.set_read_timeout(Some(timeouts.silence))?;
    stream.set_write_timeout(Some(timeouts.silence))?;
    let sink = FdSink::new(OwnedFd::from(stream.try_clone()?)).with_stall_limit(timeouts.silence);
    Ok((FdSource::new(OwnedFd::from(stream), None), sink))
}
