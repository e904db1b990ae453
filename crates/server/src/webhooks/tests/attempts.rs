//! One POST: receivers that hang, flood, redirect, send nonsense, or are impostors.

use std::net::IpAddr;

use packrace_testkit::certificates::{Authority, Credentials};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::delivery::{ReceiverConnection, first_that_connects};
use super::*;

/// Makes one attempt.
fn attempt(hook: &Webhook, max_time: Duration) -> Attempted {
    attempt_trusting(hook, &[], max_time)
}

fn attempt_trusting(hook: &Webhook, authorities: &[&str], max_time: Duration) -> Attempted {
    let message = Message { seq: 7, kind: "push".to_owned(), body: b"{}".as_slice().into() };
    runtime().block_on(post(&mut None, hook, &trusting(authorities), &message, "d", max_time))
}

/// Whether no connection was made.
fn is_untouched(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn private_addresses_are_not_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let check = |host: &str, allowed: &[&str]| {
        let url = format!("http://{host}:{port}/t0ken");
        let hook =
            Webhook { url: url.parse().ok().unwrap(), ..hook(listener.local_addr().unwrap(), allowed) };
        let attempted = attempt(&hook, HANG);
        assert_eq!(attempted.outcome, AttemptOutcome::Refused, "{host}: {attempted:?}");
        assert!(attempted.why.contains("is not public") && !attempted.why.contains("t0ken"), "{attempted:?}");
        assert!(is_untouched(&listener), "{host}");
    };
    // Also in forms that only a resolver understands.
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "169.254.169.254",
    ] {
        check(host, &[]);
    }
    check("127.0.0.1", &["10.0.0.0/8", "::1"]);
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = elsewhere.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} No\r\nLocation: http://{to}/\r\nContent-Length: 0\r\n\r\n");
        let (address, posted) = receiver(Box::new(move |_, stream| says(stream, &answer)));
        let attempted = attempt(&hook(address, &["127.0.0.1"]), HANG);
        assert_eq!(attempted.outcome, AttemptOutcome::Redirected, "{attempted:?}");
        assert_eq!(attempted.why, format!("answered {status}; redirects are not followed"));
        assert!(posted.recv_timeout(HANG).is_ok() && is_untouched(&elsewhere));
    }
}

#[test]
fn answers_are_bounded() {
    let check = |answer: Answer, max_time: Duration, expect: AttemptOutcome| {
        let (address, _posted) = receiver(answer);
        let attempted = attempt(&hook(address, &["127.0.0.1"]), max_time);
        assert_eq!(attempted.outcome, expect, "{attempted:?}");
    };
    let flood = |head: &'static str| -> Answer {
        Box::new(move |_, stream| {
            says(stream, head);
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        })
    };
    check(flood("HTTP/1.1 200 OK\r\n\r\n"), HANG, AttemptOutcome::Delivered);
    check(flood("HTTP/1.1 500 No\r\n\r\n"), HANG, AttemptOutcome::Rejected);
    check(flood("HTTP/1.1 200 OK\r\nX: "), HANG, AttemptOutcome::Failed);
    check(flood(""), HANG, AttemptOutcome::Failed);
    let short = Duration::from_millis(50);
    check(Box::new(|_, stream| hangs(stream)), short, AttemptOutcome::TimedOut);
    let half = "HTTP/1.1 200 OK\r\nContent-Le";
    check(
        Box::new(move |_, stream| {
            says(stream, half);
            hangs(stream);
        }),
        short,
        AttemptOutcome::TimedOut,
    );
    // Only the status counts.
    let body_hangs = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx";
    check(
        Box::new(move |_, stream| {
            says(stream, body_hangs);
            hangs(stream);
        }),
        HANG,
        AttemptOutcome::Delivered,
    );
    // TLS to a receiver without TLS.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    let url = format!("https://{address}/");
    let encrypted = Webhook { url: url.parse().ok().unwrap(), ..hook(address, &["127.0.0.1"]) };
    let server = std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        says(&mut stream, "HTTP/1.1 200 OK\r\n\r\n");
    });
    assert_eq!(attempt(&encrypted, HANG).outcome, AttemptOutcome::Failed);
    server.join().unwrap();
    // Nothing listens on this port.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(attempt(&hook(closed, &["127.0.0.1"]), HANG).outcome, AttemptOutcome::Failed);
}

#[test]
fn an_answer_counts_whose_body_does_not_come() {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let request = http::Request::post("/").header("host", "a").body(http_body_util::Full::default()).unwrap();
    // Shorter than the wait for a body.
    let max_time = Duration::from_millis(500);
    let answer = async {
        far.read_exact(&mut [0; 16]).await.unwrap();
        far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx").await.unwrap();
        std::future::pending::<()>().await;
    };
    let attempted = runtime().block_on(async {
        tokio::select! {
            attempted = async {
                let connection = ReceiverConnection::begin(near).await.unwrap();
                connection.exchange(request, max_time).await.unwrap()
            } => attempted,
            () = answer => unreachable!("it has no end"),
        }
    });
    assert!(attempted.0.outcome == AttemptOutcome::Delivered && attempted.1.is_none(), "{attempted:?}");
}

/// A receiver that answers as many requests on each connection, and then closes it. Sends the number of the connection.
fn keeping_receiver(requests: usize) -> (SocketAddr, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, taken) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            for _ in 0..requests {
                if Posted::read(&mut stream).is_none() || sender.send(number).is_err() {
                    break;
                }
                says(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    (address, taken)
}

#[test]
fn a_connection_is_used_again_until_the_receiver_closes_it() {
    for (requests, expect) in [(3, [0, 0, 0, 1, 1, 1, 2]), (1, [0, 1, 2, 3, 4, 5, 6])] {
        let (address, taken) = keeping_receiver(requests);
        let (hook, tls) = (hook(address, &["127.0.0.1"]), trusting(&[]));
        let connections = runtime().block_on(async {
            let mut kept = None;
            let mut connections = Vec::new();
            for seq in 0..expect.len() as u64 {
                let message = Message { seq, kind: "push".to_owned(), body: b"{}".as_slice().into() };
                let attempted = post(&mut kept, &hook, &tls, &message, "d", HANG).await;
                assert_eq!(attempted.outcome, AttemptOutcome::Delivered, "{attempted:?}");
                connections.push(taken.recv_timeout(HANG).unwrap());
            }
            connections
        });
        assert_eq!(connections, expect);
    }
}

#[test]
fn a_silent_address_is_not_all_that_is_tried() {
    let addresses: Vec<SocketAddr> = (1..=6).map(|last| SocketAddr::from(([192, 0, 2, last], 80))).collect();
    let check = |good: u8, expect: Result<u8, &str>| {
        let connect = |address: SocketAddr| async move {
            match address.ip() {
                IpAddr::V4(ip) if ip.octets()[3] == good => Ok(good),
                IpAddr::V4(ip) if ip.octets()[3] == 1 => std::future::pending().await,
                _ => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        };
        let max_time = Duration::from_millis(40);
        let connected =
            runtime().block_on(async { first_that_connects(&addresses, max_time, connect).await });
        assert_eq!(connected.map_err(|attempted| attempted.why), expect.map_err(str::to_owned));
    };
    check(1, Ok(1));
    check(2, Ok(2));
    check(4, Ok(4));
    // At most four are tried.
    check(5, Err("192.0.2.4: connection refused"));
    let silent = |_| std::future::pending::<io::Result<()>>();
    let max_time = Duration::from_millis(40);
    let none = runtime().block_on(async { first_that_connects(&addresses[..2], max_time, silent).await });
    assert_eq!(none.unwrap_err().why, "no connection to 192.0.2.2 within 20 ms");
}

/// A TLS receiver with this certificate.
fn encrypted_receiver(credentials: &Credentials) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let chain = vec![CertificateDer::from_pem_slice(credentials.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream =
                StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap());
            if Posted::read(&mut stream).is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    port
}

#[test]
fn receivers_are_known_by_their_certificates() {
    let [authority, other] = ["ours", "another"].map(Authority::new);
    let check = |name: &str, trusted: &Authority, expect: AttemptOutcome, why: &str| {
        let port = encrypted_receiver(&authority.sign(name, &[name]));
        let url = format!("https://localhost:{port}/t0ken");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let hook = Webhook { url: url.parse().ok().unwrap(), ..hook(address, &["127.0.0.1"]) };
        let attempted = attempt_trusting(&hook, &[trusted.pem()], HANG);
        assert_eq!((attempted.outcome, attempted.why.as_str()), (expect, why));
    };
    check("localhost", &authority, AttemptOutcome::Delivered, "answered 200");
    // The log contains neither the name in the URL nor those in the certificate.
    let why = "certificate is for another host name";
    check("elsewhere.example", &authority, AttemptOutcome::Failed, why);
    check("localhost", &other, AttemptOutcome::Failed, "invalid peer certificate: UnknownIssuer");
}
