//! git:// (gitprotocol-pack, "Git Transport").
//!
//! The first packet has the request, then the connection belongs to the engine:
//!
//! ```text
//! git-upload-pack /project.git\0host=example.com\0\0version=2\0
//! ```

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream as TcpStreamStd};
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_os::throughput::MinThroughput;
use packrace_protocol::wire::pkt_line;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::access::Offer;
use crate::limits::budget::CUT;
use crate::limits::connections::{LimitReached, Permit, PermitReader};
use crate::metrics::{DoorName, Reason};
use crate::send::outbox::{ClientSink, GatherBatch};
use crate::service::access_log::Access;
use crate::service::call::{self, Client, Service};
use crate::service::counting::CountingSink;
use crate::service::shared::{Opened, Shared};
use crate::service::stateful::StatefulCall;
use crate::settings::Settings;
use crate::stdio::StreamSink;
use crate::subject::ProtocolVersion;
use crate::transfers::{Transfer, kept};

/// The longest request: the longest pkt-line.
const MAX_REQUEST_BYTES: usize = pkt_line::MAX_PACKET;

/// Serves one connection to its end. Until its request arrives, it costs a task and a descriptor; then it
/// gets a thread.
pub(crate) async fn connection(mut stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    let open = shared.host.metrics.connection(DoorName::Git);
    let mut stopping = shared.stopping.subscribe();
    let request_time = shared.settings().limits.request_time;
    permit.waits();
    let request = tokio::select! {
        request = tokio::time::timeout(request_time, read_request(&mut stream)) => request,
        () = permit.cut() => Ok(Err(io::Error::new(io::ErrorKind::ConnectionAborted, CUT))),
        _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
    };
    let request = match request.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(request) => request,
        Err(error) => {
            shared.host.metrics.refused(reason(&error));
            return tracing::info!("git {peer}: invalid request: {error}");
        }
    };
    permit.works();
    let running = match shared.limits.request(peer.ip()).await {
        Ok(running) => running,
        Err(why) => {
            shared.has_refused(format_args!("git {peer}"), why, "request");
            // A close with unread bytes would discard the answer. Whether the client gets it does not matter.
            let _ = stream.try_read(&mut [0; 4096]);
            let _ = stream.try_write(&limit_reached(why));
            return;
        }
    };
    let ended = shared.workers.clone().start(move || {
        // When this thread ends, permits are released, and the server no longer waits for it.
        let _held = (permit, stopping, open);
        match catch_unwind(AssertUnwindSafe(|| serve(stream, &request, &running, &shared, &peer.to_string())))
        {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!("git {peer}: {error}"),
            Err(_) => {
                shared.host.metrics.panics.inc();
                tracing::error!("git {peer}: request panicked");
            }
        }
    });
    match ended {
        // Panics are caught inside.
        Ok(ended) => drop(ended.await),
        Err(error) => tracing::error!("git {peer}: cannot start a thread: {error}"),
    }
}

/// The answer when a limit is reached.
pub(crate) fn limit_reached(why: LimitReached) -> Vec<u8> {
    error_packet(&why.to_string())
}

/// Reads the first packet, and not a byte more: the rest is for the session. Memory grows with the bytes that
/// arrive.
async fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut digits = [0; 4];
    stream.read_exact(&mut digits).await?;
    let length = payload_bytes(digits)?;
    let mut request = Vec::new();
    match stream.take(length as u64).read_to_end(&mut request).await? {
        read if read == length => Ok(request),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The length of the request in a first packet.
fn payload_bytes(digits: [u8; 4]) -> io::Result<usize> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let length = std::str::from_utf8(&digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let length = length.filter(|length| is_hex && (5..=MAX_REQUEST_BYTES).contains(length));
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "bad line length"))?;
    Ok(length - 4)
}

/// Serves one connection on standard input and output.
pub(crate) fn inetd(shared: &Shared) -> io::Result<()> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let socket = TcpStreamStd::from(stdin.as_fd().try_clone_to_owned()?);
    // Pipes have no address.
    let peer = socket.peer_addr().map_or_else(|_| "inetd".to_owned(), |peer| peer.to_string());
    let settings = shared.settings();
    let limits = &settings.limits;
    // All of the first packet must arrive in this time.
    let whole = MinThroughput { time: limits.request_time, bytes: usize::MAX };
    let mut first = FdSource::stdin(None)?.with_min_throughput(whole);
    let mut digits = [0; 4];
    first.read_exact(&mut digits)?;
    let mut request = vec![0; payload_bytes(digits)?];
    first.read_exact(&mut request)?;
    let output = stdout.as_fd().try_clone_to_owned()?;
    let sink = FdSink::socket(output, limits.stall_throughput()).or_else(|_| FdSink::stdout())?;
    converse(OwnedFd::from(socket), sink, &request, None, shared, &settings, &peer);
    Ok(())
}

fn serve(stream: TcpStream, request: &[u8], permit: &Permit, shared: &Shared, peer: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let settings = shared.settings();
    let input = OwnedFd::from(stream.try_clone()?);
    // A reader that waits for the client then gets the end of its input.
    let waited_for = stream.try_clone()?;
    permit.on_cut(move || drop(waited_for.shutdown(Shutdown::Read)));
    let sink = FdSink::socket(OwnedFd::from(stream), settings.limits.stall_throughput())?;
    let sink = sink.with_gate(shared.host.cpu.clone().map(|cpu| cpu as _));
    converse(input, sink, request, Some(permit), shared, &settings, peer);
    Ok(())
}

/// Serves the request of a first packet. Under inetd there is no permit.
fn converse(
    input: OwnedFd,
    output: FdSink,
    request: &[u8],
    permit: Option<&Permit>,
    shared: &Shared,
    settings: &Settings,
    peer: &str,
) {
    let source = FdSource::new(input, None).with_quick_acknowledgements();
    let mut source = source.with_min_throughput(settings.limits.idle_throughput());
    let line = request.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut access = Access::new(&shared.host, DoorName::Git, peer, line);
    let transfer = access.transfer().clone();
    let _span = transfer.enter_span();
    let mut client = CountingSink { client: StreamSink::new(output), transfer: &transfer };
    let mut awaited;
    let input: &mut (dyn Read + Send) = match permit {
        Some(permit) => {
            awaited = PermitReader { input: &mut source, permit };
            &mut awaited
        }
        None => &mut source,
    };
    let outcome = match parse(request) {
        Ok(request) => {
            let outcome = run(&request, input, &mut client, shared, settings, &transfer);
            if permit.is_some_and(Permit::is_cut) {
                shared.host.metrics.refused(Reason::Idle);
                tracing::warn!("git {peer}: {CUT}");
                // It was the client's turn, so this comes between two answers. The report of a push says it
                // itself.
                if request.service == Service::UploadPack {
                    refuse(&mut client, CUT);
                }
            }
            outcome
        }
        Err(refusal) => {
            shared.host.metrics.refused(Reason::Forbidden);
            Err(refuse(&mut client, &refusal))
        }
    };
    match outcome {
        Ok(()) => access.end("ok", true, None),
        Err(why) => access.end("failed", false, Some(&kept(why.as_bytes()))),
    }
}

/// Why a connection without a request ended.
fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::TimedOut => Reason::Slow,
        io::ErrorKind::ConnectionAborted => Reason::Idle,
        _ => Reason::Broken,
    }
}

/// The request of a client.
#[derive(Debug, PartialEq, Eq)]
struct DaemonRequest {
    service: Service,
    path: Vec<u8>,
    version: ProtocolVersion,
}

fn parse(request: &[u8]) -> Result<DaemonRequest, String> {
    let mut parts = request.split(|byte| *byte == 0);
    let line = parts.next().unwrap_or_default();
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (service, path) = match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &b""[..]),
    };
    let service = Service::named(service).ok_or_else(|| access_denied(path))?;
    // host=…, then an empty part, then what a newer client adds.
    let extra: Vec<&[u8]> =
        parts.skip_while(|part| !part.is_empty()).filter(|part| !part.is_empty()).collect();
    let versions: Vec<String> = extra.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    let version = ProtocolVersion::from_environment(&versions.join(":"));
    Ok(DaemonRequest { service, path: path.to_vec(), version })
}

/// The path in a first packet.
pub(crate) fn path_of(request: &[u8]) -> Option<Vec<u8>> {
    Some(parse(request).ok()?.path)
}

/// Git's words, which do not reveal whether anything exists.
fn access_denied(path: &[u8]) -> String {
    format!("access denied or repository not exported: {}", String::from_utf8_lossy(path))
}

fn run(
    request: &DaemonRequest,
    source: &mut (dyn Read + Send),
    client: &mut dyn ClientSink,
    shared: &Shared,
    settings: &Settings,
    transfer: &Arc<Transfer>,
) -> Result<(), String> {
    transfer.is_about(&request.path);
    let opened = open(request, shared, transfer.peer()).inspect_err(|_| {
        refuse(client, &access_denied(&request.path));
    })?;
    let call = StatefulCall {
        service: request.service,
        path: &request.path,
        version: request.version,
        client: Client { pusher: None, variables: variables(transfer.peer()) },
        messages: call::to_log(),
        transfer,
    };
    call.serve(opened, source, client, shared, settings)
}

/// The variables about the client that git's daemon sets for hooks.
fn variables(peer: &str) -> Vec<(OsString, OsString)> {
    let Ok(address) = peer.parse::<SocketAddr>() else { return Vec::new() };
    let ip = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    vec![("REMOTE_ADDR".into(), ip.into()), ("REMOTE_PORT".into(), address.port().to_string().into())]
}

fn open(request: &DaemonRequest, shared: &Shared, peer: &str) -> Result<Opened, String> {
    // Pipes have no address.
    let address = peer.parse::<SocketAddr>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
    let offer = Offer { peer: address, headers: None, certificate: None, metrics: &shared.host.metrics };
    let principal = shared.settings().access.identify(&offer).map_err(|why| why.to_string())?;
    shared.open(request.service, Some("daemon"), &request.path, &principal).map_err(|not_served| {
        not_served.reason().into_iter().for_each(|reason| shared.host.metrics.refused(reason));
        not_served.to_string()
    })
}

/// Sends an error to the client, and returns its text.
fn refuse(client: &mut dyn ClientSink, text: &str) -> String {
    // The client has disconnected, which the log reports anyway.
    let _ = client.send(GatherBatch::of(error_packet(text)));
    text.to_owned()
}

fn error_packet(text: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    let told = format!("ERR {text}");
    pkt_line::write_data(&told.as_bytes()[..told.len().min(pkt_line::MAX_PAYLOAD)], &mut packet);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check_service = |line: &[u8], service, path: &str, version| {
            assert_eq!(
                parse(line),
                Ok(DaemonRequest { service, path: path.into(), version }),
                "{}",
                String::from_utf8_lossy(line)
            );
        };
        let check = |line: &[u8], path, version| check_service(line, Service::UploadPack, path, version);
        check(b"git-upload-pack /a.git\0host=h\0", "/a.git", ProtocolVersion::V0);
        check(b"git-upload-pack /a.git\n", "/a.git", ProtocolVersion::V0);
        check(b"git-upload-pack /a b\0host=h:1\0\0version=2\0", "/a b", ProtocolVersion::V2);
        check(b"git-upload-pack /a\0host=h\0\0x=y\0version=1\0", "/a", ProtocolVersion::V1);
        check(b"git-upload-pack /a\0\0version=2\0", "/a", ProtocolVersion::V2);
        let line = b"git-receive-pack /a\0host=h\0";
        check_service(line, Service::ReceivePack, "/a", ProtocolVersion::V0);
        for other in [&b"git-receive-packs /a\0host=h\0"[..], b"", b"git-upload-archive /a"] {
            assert!(parse(other).unwrap_err().starts_with("access denied or repository not exported:"));
        }
    }
}
