//! Clones that run while certificates and rules change or expire.

use std::io::{Cursor, Read as _, Write as _};

use packrace_testkit::Random;
use packrace_testkit::certificates::Credentials;
use packrace_testkit::raw_client::{Take, Target, Transport, read_answer};

use super::*;

/// Concurrent clones.
const CLONES: usize = 64;

/// More of a response than sockets hold, so that the server is still working on it.
const BLOB_BYTES: usize = 12 << 20;

/// A clone whose beginning was read.
struct Begun {
    client: TlsClient,
    start: Vec<u8>,
}

/// Adds an incompressible file to `a.git`, and returns the newest commit.
fn grow(served: &TlsServer) -> String {
    let repo = served.server.repository();
    let mut stream = format!("blob\nmark :1\ndata {BLOB_BYTES}\n").into_bytes();
    stream.extend(Random::new(19).bytes(BLOB_BYTES));
    stream
        .extend(b"\ncommit refs/heads/main\ncommitter A <a@example.com> 0 +0000\ndata 0\nM 100644 :1 file\n");
    Git::stock().run_with_input(&repo, &["fast-import", "--quiet", "--force"], &stream);
    Git::stock().run(&repo, &["rev-parse", "main"]).trim().to_owned()
}

/// The request for a clone of this commit.
fn request(served: &TlsServer, tip: &str) -> Vec<u8> {
    let address = served.server.address("https");
    let target = Target { transport: Transport::Http, address, path: "/a.git".into(), patience: PATIENCE };
    target.request(Script::new().fetch_v2("sha1", &[tip], &[]).bytes())
}

const PATIENCE: Duration = Duration::from_secs(120);

impl Begun {
    fn new(mut client: TlsClient, request: &[u8]) -> std::io::Result<Self> {
        client.0.sock.set_read_timeout(Some(PATIENCE))?;
        client.0.write_all(request)?;
        let mut start = vec![0; 64 << 10];
        client.0.read_exact(&mut start)?;
        Ok(Begun { client, start })
    }

    /// The size and the checksum of the pack, which must be complete.
    fn finish(mut self) -> (u64, u32) {
        let mut all = Cursor::new(self.start).chain(&mut self.client.0);
        let hash = Take::Hash(packrace_object::HashKind::Sha1);
        let received = read_answer(&mut all, Transport::Http, hash, Instant::now());
        let pack = received.unwrap_or_else(|failure| panic!("{failure}")).pack;
        (pack.bytes, pack.crc)
    }
}

fn rules_for(served: &TlsServer, who: &str) {
    let rules = format!("[[rule]]\nrepository = \"**\"\nwho = {who:?}\nallow = [\"read\"]\n");
    std::fs::write(served.dir().join("rules"), rules).unwrap();
}

#[test]
fn many_clones_outlive_certificates_and_rules() {
    let served = start("");
    let tip = grow(&served);
    rules_for(&served, "anyone");
    let config = std::fs::read_to_string(served.server.config()).unwrap();
    let access = format!("[access]\nrules = {:?}\n", served.dir().join("rules"));
    std::fs::write(served.server.config(), format!("{config}{access}")).unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("rules", |server| server.log().contains("access.rules"));

    let request = request(&served, &tip);
    let begun: Vec<Begun> =
        (0..CLONES).map(|_| Begun::new(served.connect("localhost"), &request).unwrap()).collect();
    let refs = "/a.git/info/refs?service=git-upload-pack";
    assert_eq!(served.server.get(refs).status, 200);
    for name in ["renewed", "renewed again"] {
        served.authority.sign(name, &["localhost", "127.0.0.1"]).write(&served.dir(), "server");
        rules_for(&served, "nobody-in-particular");
        served.server.signal("-HUP");
        served.server.wait_until(name, |_| served.connect("localhost").common_name() == name);
    }
    assert_eq!(served.server.get(refs).status, 404, "new requests are asked by the new rules");
    // An invalid file changes nothing for them either.
    std::fs::write(served.dir().join("rules"), "[[rule]]\nrepository = 1\n").unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("the complaint", |server| {
        server.log().contains(&format!(
            "reload failed, settings unchanged: {}:2:",
            served.dir().join("rules").display()
        ))
    });
    let packs: Vec<(u64, u32)> = begun.into_iter().map(Begun::finish).collect();
    assert!(packs[0].0 > BLOB_BYTES as u64);
    assert!(packs.iter().all(|pack| *pack == packs[0]), "{packs:?}");
}

#[test]
fn a_certificate_that_expires_ends_no_clone() {
    let served = start("client-ca = \"CA_FILE\"\nrequire-client-certificate = true\n");
    let tip = grow(&served);
    let request = request(&served, &tip);
    let address = served.server.address("https");
    // A slow machine may need longer to begin.
    let begun = [2, 8, 32].into_iter().find_map(|seconds| {
        let own = served.authority.sign_for("alice", &["alice@example.com"], Duration::from_secs(seconds));
        let client = connect(address, "localhost", &served.authority, &[], Some(&own)).ok()?;
        Some((own, Begun::new(client, &request).ok()?))
    });
    let (own, begun) = begun.expect("a clone begins");
    // With TLS 1.3, a client learns whether its certificate is accepted only after its own handshake.
    let is_let_in = |own: &Credentials| {
        let client = connect(address, "localhost", &served.authority, &[], Some(own));
        client.is_ok_and(|mut client| client.get("/-/healthz").is_ok())
    };
    served.server.wait_until("the end of the certificate", |_| !is_let_in(&own));
    assert!(begun.finish().0 > BLOB_BYTES as u64);
    assert!(is_let_in(&served.authority.sign("alice", &["alice@example.com"])));
}

/// A client that has just connected does not try again if it gets no answer.
#[test]
fn new_connections_are_answered_by_a_server_that_stops() {
    let served = start("");
    let server = &served.server;
    let connect = |scheme| std::net::TcpStream::connect(server.address(scheme)).unwrap();
    let (mut plain, encrypted) = (connect("http"), connect("https"));
    let all = "packrace_connections{door=\"http\"} 3\n";
    server.wait_until("both, and that of this request", |server| {
        text(&server.get("/-/metrics").body).contains(all)
    });
    server.signal("-TERM");
    server.wait_until("the stop", |server| server.log().contains("listeners closed"));
    plain.write_all(b"GET /-/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut encrypted = shake_hands(encrypted, "localhost", &served.authority, &[], None).unwrap();
    assert!(encrypted.get("/-/healthz").unwrap().starts_with("HTTP/1.1 200"));
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
