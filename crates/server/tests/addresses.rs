//! Limits for one address: what is beyond is refused in the words of each transport, and others are served.

mod folder;
mod served;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use folder::{Served, until};
use packrace_server::limits::Limits;
use packrace_testkit::Size;
use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};

const ENOUGH: &str = "ERR too many connections from your address; try again later";
const PATIENCE: Duration = Duration::from_secs(30);

fn served(limits: Limits) -> Served {
    Served::new(Size::Medium, Limits { exempt_addresses: Vec::new(), ..limits })
}

fn hello(served: &Served) -> String {
    let script = Script::new().data(b"git-upload-pack /a.git\0host=h\0").flush();
    String::from_utf8_lossy(&tcp(served.git, script.bytes(), Feed::Whole)).into_owned()
}

fn get(served: &Served) -> HttpReply {
    http(served.http, "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1", b"", Feed::Whole)
}

#[track_caller]
fn check_refused(served: &Served) {
    let reply = get(served);
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("10")));
    // Who is refused while it still sends may find the connection closed before it has read why.
    assert!(until(PATIENCE, || hello(served).ends_with(ENOUGH)), "{}", hello(served));
}

#[track_caller]
fn check_served(served: &Served) {
    assert!(until(PATIENCE, || get(served).status == 200 && hello(served).contains(" HEAD")));
}

/// Connections that ask for nothing, as many as there are permits.
fn taking_all(served: &Served, permits: usize) -> Vec<TcpStream> {
    // Those of before may not be over yet for the server.
    assert!(until(PATIENCE, || served.connections() == 0));
    let mut idle = Vec::new();
    let mut transports = [served.http, served.git].into_iter().cycle();
    // One that the server has not counted yet, or refused, is followed by another.
    assert!(until(PATIENCE, || {
        let is_full = served.connections() >= permits;
        if !is_full {
            idle.push(TcpStream::connect(transports.next().unwrap()).unwrap());
        }
        is_full
    }));
    idle
}

#[test]
fn connections() {
    // Who asks for nothing has time.
    let limits = Limits { request_time: Duration::from_secs(3600), ..Limits::default() };
    let served = served(Limits { max_connections_per_address: 3, ..limits.clone() });
    check_served(&served);
    let idle = taking_all(&served, 3);
    check_refused(&served);
    drop(idle);
    check_served(&served);
    let exempt = Served::new(Size::Tiny, Limits { max_connections_per_address: 1, ..limits });
    let idle = [exempt.http, exempt.git].map(|to| TcpStream::connect(to).unwrap());
    check_served(&exempt);
    drop(idle);
}

#[test]
fn requests() {
    let served = served(Limits { max_requests_per_address: 1, ..Limits::default() });
    check_served(&served);
    let fetch = Script::new().fetch_v2("sha1", &[&served.tip()], &[]);
    let clone = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").raw(fetch.bytes());
    // Connections that ask for nothing are no requests.
    let idle = [served.http, served.git].map(|to| TcpStream::connect(to).unwrap());
    check_served(&served);
    // The request before may not be over yet for the server.
    let mut clones = None;
    assert!(until(PATIENCE, || {
        let mut stream = TcpStream::connect(served.git).unwrap();
        stream.write_all(clone.bytes()).unwrap();
        let has_begun = stream.read_exact(&mut [0; 1000]).is_ok();
        clones = Some(stream);
        has_begun
    }));
    check_refused(&served);
    drop(clones);
    check_served(&served);
    drop(idle);
}
