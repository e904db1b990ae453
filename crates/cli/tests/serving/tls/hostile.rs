//! Hostile clients, and clients of other protocols.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// The head of a handshake record, and a part of its message.
const BEGINNING: [u8; 9] = [22, 3, 1, 0, 200, 1, 0, 0, 196];

/// Everything until the server closes the connection.
fn rest_of(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the server does not close the connection: {error}"),
    }
}

#[test]
fn handshakes_that_stall_are_ended() {
    let served = start("[limits]\nrequest-time = \"1s\"\n");
    let open = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(served.server.address("https")).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // Nothing, a part of a message, and a completed handshake without a request.
    let stalled = [open(b""), open(&BEGINNING[..1]), open(&BEGINNING)];
    let mut done = served.connect("localhost");
    for stream in stalled {
        assert_eq!(rest_of(stream), b"");
    }
    // The server closes that one, too, when the machine lets it; reading gives up after a minute.
    let mut heard = Vec::new();
    match done.0.read_to_end(&mut heard) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the connection stays"),
        _ => assert_eq!(heard, b""),
    }
    // A connection is closed before it is counted.
    served.server.wait_until("their count", |_| served.handshakes("timed-out") == 3);
    let words = "TLS handshake failed: no handshake within limits.request-time";
    served.server.wait_until("a line of the log", |server| server.log().contains(words));
}

#[test]
fn what_is_no_tls_is_told_so() {
    let served = start("");
    let address = served.server.address("https");
    let reply = http(address, "GET /a.git/info/refs HTTP/1.1", b"", Feed::Whole);
    assert_eq!(reply.status, 400);
    assert!(text(&reply.body).contains("serves HTTPS only"), "{}", text(&reply.body));
    let told = tcp(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Feed::Whole);
    assert!(text(&told).starts_with("HTTP/1.1 400 "), "{}", text(&told));
    for nonsense in [&b"\0\0\0"[..], b"0032git-upload-pack /a.git\0host=h\0", b"ssh"] {
        assert_eq!(text(&tcp(address, nonsense, Feed::Whole)), "");
    }
    // An invalid handshake: the server sends an alert.
    let told = tcp(address, &[22, 3, 1, 0, 4, 99, 0, 0, 0], Feed::Whole);
    assert_eq!(told.first(), Some(&21), "{told:?}");
    served
        .server
        .wait_until("failures", |_| served.handshakes("not-tls") == 5 && served.handshakes("failed") == 1);
    // A message that is far too long is refused at once.
    let message = [&[1, 0, 0xff, 0xff, 3, 3][..], &[0; 60_000]].concat();
    let records = message
        .chunks(1 << 14)
        .flat_map(|part| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat());
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may disconnect before everything is sent.
    let _ = stream.write_all(&records.collect::<Vec<u8>>());
    rest_of(stream);
    served.server.wait_until("its end", |_| served.handshakes("failed") == 2);
    let words = "TLS handshake failed: client sends too much";
    served.server.wait_until("a line of the log", |server| server.log().contains(words));
    // A flood of them does not get a line each in the log.
    for _ in 0..200 {
        tcp(address, b"\0", Feed::Whole);
    }
    served.server.wait_until("all", |_| served.handshakes("not-tls") == 205);
    let lines = served.server.log().matches("TLS handshake failed: ").count();
    assert!(lines < 150, "{lines} lines");
}

#[test]
fn who_is_refused_a_connection_gets_an_alert() {
    let served = start("[limits]\nmax-connections = 2\n");
    let address = served.server.address("https");
    let held = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
    let refused = || tcp(address, &BEGINNING, Feed::Whole);
    served.server.wait_until("the limit", |_| refused() == [21, 3, 3, 0, 2, 2, 80]);
    drop(held);
    served.server.wait_until("room", |_| connect(address, "localhost", &served.authority, &[], None).is_ok());
}

/// The process's private memory, in KiB.
fn memory_kib(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn silent_connections_hold_little() {
    const CONNECTIONS: usize = 256;
    const MAX_KIB: usize = 64;
    let served = start("");
    // The allocator's arenas exist now, one per thread.
    let warm: Vec<TlsClient> = (0..32).map(|_| served.connect("localhost")).collect();
    drop(warm);
    let before = memory_kib(&served.server);
    let silent: Vec<TlsClient> = (0..CONNECTIONS).map(|_| served.connect("localhost")).collect();
    served.server.wait_until("all of them", |_| served.handshakes("completed") as usize == CONNECTIONS + 32);
    let each = memory_kib(&served.server).saturating_sub(before) / CONNECTIONS;
    eprintln!("{each} KiB a connection");
    assert!(each <= MAX_KIB, "{each} KiB a connection");
    drop(silent);
}
