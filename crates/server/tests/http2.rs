//! HTTP/2 with prior knowledge: the answers of HTTP/1.1, many at once, and clients that misuse it.

mod folder;
mod served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use folder::{Served, until};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use packrace_server::limits::Limits;
use packrace_testkit::Size;
use packrace_testkit::peer::{Feed, Script, http as http1, tcp};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Client = SendRequest<Full<Bytes>>;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A client whose streams may each have this much on their way.
async fn client(address: SocketAddr, window_bytes: u32) -> Client {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window_bytes).initial_connection_window_size(64 << 20);
    let (client, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://localhost{path}")).body(Full::default()).unwrap()
}

fn fetch(served: &Served) -> Request<Full<Bytes>> {
    let script = Script::new().fetch_v2("sha1", &[&served.tip()], &[]);
    Request::post("http://localhost/a.git/git-upload-pack")
        .header("content-type", "application/x-git-upload-pack-request")
        .header("git-protocol", "version=2")
        .body(Full::new(Bytes::copy_from_slice(script.bytes())))
        .unwrap()
}

#[test]
fn answers_are_those_of_version_1() {
    let served = Served::new(Size::Small, Limits::default());
    let advertised = "/a.git/info/refs?service=git-upload-pack";
    let expect_refs = http1(served.http, &format!("GET {advertised} HTTP/1.1"), b"", Feed::Whole);
    let script = Script::new().fetch_v2("sha1", &[&served.tip()], &[]);
    let post = "POST /a.git/git-upload-pack HTTP/1.1\nContent-Type: application/x-git-upload-pack-request\nGit-Protocol: version=2";
    let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0").flush();
    let refs = tcp(served.git, hello.bytes(), Feed::Whole);
    assert!(expect_refs.body.ends_with(&refs[refs.len() / 2..]), "refs are the same over all transports");
    let expect_pack = http1(served.http, post, script.bytes(), Feed::Whole);
    runtime().block_on(async {
        let client = client(served.http, 1 << 20).await;
        let mut running = tokio::task::JoinSet::new();
        for number in 0..24 {
            let (request, expect) = match number % 2 {
                0 => (get(advertised), expect_refs.body.clone()),
                _ => (fetch(&served), expect_pack.body.clone()),
            };
            let mut client = client.clone();
            running.spawn(async move {
                client.ready().await.unwrap();
                let answer = client.send_request(request).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                assert_eq!(answer.headers()["cache-control"], "no-cache, max-age=0, must-revalidate");
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert!(body == expect, "{} bytes instead of {}", body.len(), expect.len());
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
        let mut client = client;
        for (path, status) in [("/b.git/HEAD", 403), ("/a.git/x", 404), ("/%zz", 400)] {
            assert_eq!(client.send_request(get(path)).await.unwrap().status().as_u16(), status, "{path}");
        }
    });
}

/// A stream that takes nothing, beside others that go on: the connection is closed.
#[test]
fn a_stream_that_stalls_ends_its_connection() {
    let limits = Limits {
        stall_time: Duration::from_secs(2),
        request_time: Duration::from_secs(2),
        stall_bytes: 64 << 10,
        max_requests: 4,
        ..Limits::default()
    };
    let served = Served::new(Size::Medium, limits);
    let get_refs = || get("/a.git/info/refs?service=git-upload-pack");
    runtime().block_on(async {
        let mut client = client(served.http, 32 << 10).await;
        let stalled = client.send_request(fetch(&served)).await.unwrap();
        assert_eq!(stalled.status(), StatusCode::OK);
        let mut answered = 0;
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            while client.ready().await.is_ok() {
                let Ok(answer) = client.send_request(get_refs()).await else { break };
                if answer.into_body().collect().await.is_err() {
                    break;
                }
                answered += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        ended.await.expect("the connection is closed");
        assert!(answered > 0, "others are answered meanwhile");
        assert!(stalled.into_body().collect().await.is_err(), "a pack that is cut looks so");
    });
    // Its places are free.
    let is_free = || {
        let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
        (0..4).all(|_| http1(served.http, head, b"", Feed::Whole).status == 200)
    };
    assert!(until(Duration::from_secs(60), is_free));
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Requests that are taken back at once, one after the other (CVE-2023-44487): the client is told to calm down.
#[test]
fn rapid_resets_end_a_connection() {
    let served = Served::new(Size::Tiny, Limits::default());
    let mut stream = TcpStream::connect(served.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = [PREFACE, &frame(4, 0, 0, b"")].concat();
    // GET http / with an authority, all from the static table but the last.
    let head = [0x82, 0x86, 0x84, 0x41, 1, b'x'];
    for stream in (1..20_000).step_by(2) {
        bytes.extend(frame(1, 5, stream, &head));
        bytes.extend(frame(3, 0, stream, &8u32.to_be_bytes()));
    }
    // It may be closed before all is sent.
    let _ = stream.write_all(&bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let frames = frames(&answer);
    let calm = frames.iter().any(|(kind, payload)| *kind == 7 && payload[4..8] == 11u32.to_be_bytes());
    let answered = frames.iter().filter(|(kind, _)| *kind == 1).count();
    assert!((calm || frames.is_empty()) && answered < 1000, "{answered} answers, told to calm down: {calm}");
    let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
    assert_eq!(http1(served.http, head, b"", Feed::Whole).status, 200);
}

/// Whole frames: their kinds and payloads.
fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let Some(payload) = bytes.get(9..9 + length) else { break };
        found.push((bytes[3], payload));
        bytes = &bytes[9 + length..];
    }
    found
}

/// Heads without end, in frames that continue them (CVE-2024-27316).
#[test]
fn heads_have_a_limit() {
    let served = Served::new(Size::Tiny, Limits::default());
    let mut stream = TcpStream::connect(served.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
        .write_all(&[PREFACE, &frame(4, 0, 0, b""), &frame(1, 0, 1, &[0x82, 0x86, 0x84])].concat())
        .unwrap();
    // A header that is not remembered: x: 1,000 bytes.
    let header = [&[0, 1, b'x', 0x7f, 0xe9, 0x06][..], &[b'y'; 1000]].concat();
    let more = frame(9, 0, 1, &header.repeat(16));
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&more).is_ok() {
        sent += more.len();
    }
    assert!(sent < 64 << 20, "a head of 64 MiB is taken");
}
