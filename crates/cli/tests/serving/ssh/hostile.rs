//! Clients that are silent, disconnect early, or offer what is refused.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use russh::{Preferred, cipher, kex};

use super::*;

/// Everything that a server sends to a client that sends this and then nothing.
fn hears(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(words).unwrap();
    let mut heard = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut heard);
    heard
}

#[test]
fn handshakes_that_stall_are_ended() {
    let served = SshServer::start("[limits]\nrequest-time = \"3s\"\n");
    let address = served.server.address("ssh");
    std::thread::scope(|scope| {
        for words in [&b""[..], b"SSH-2.0-x\r\n", b"SSH-2.0-x\r\n\0\0\0\x0c\x0a\x14", b"SSH-2"] {
            scope.spawn(move || {
                let heard = hears(address, words);
                assert!(heard.starts_with(b"SSH-2.0-packrace\r\n"), "{}", String::from_utf8_lossy(&heard));
            });
        }
    });
    // Garbage ends the connection at once, and so does a length of megabytes.
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-x\r\n\x00\xff\xff\xff\x0a\x14"] {
        hears(address, words);
    }
    served.server.wait_until("the end of all", |_| served.metric("packrace_connections{door=\"ssh\"}") == 0);
    assert!(
        served.metric("packrace_ssh_logins_total{outcome=\"timed-out\"}") >= 3,
        "{}",
        served.server.log()
    );
    // An authenticated client without a session is disconnected, too.
    let idle = served.login(&served.alice);
    served.server.wait_until("the end", |_| served.metric("packrace_connections{door=\"ssh\"}") == 0);
    assert!(idle.begin(None, Some(b"git-upload-pack 'a.git'")).is_err());
    // Not at once: its time starts at the login.
    let next = served.login(&served.alice);
    assert_eq!(next.run(None, b"git-upload-pack 'a.git'", b"0000").code, Some(0));
}

#[test]
fn silent_connections_leave_room_for_others() {
    let served = SshServer::start("[limits]\nmax-logins = 8\nexempt-addresses = []\n");
    let address = served.server.address("ssh");
    let silent = TcpStream::connect(address).unwrap();
    served.server.wait_until("the first", |_| served.metric("packrace_connections{door=\"ssh\"}") == 1);
    // One client gets an eighth.
    let heard = hears(address, b"");
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "too many connections from your address; try again later\r\n"
    );
    drop(silent);
    served.server.wait_until("room", |_| served.metric("packrace_connections{door=\"ssh\"}") == 0);
    // Authenticated clients do not count.
    let first = served.login(&served.alice);
    let second = served.login(&served.alice);
    for client in [first, second] {
        assert_eq!(client.run(None, b"git-upload-pack 'a.git'", b"0000").code, Some(0));
    }
    assert!(served.metric("packrace_refusals_total{reason=\"per-address\"}") >= 1);
}

#[test]
fn many_silent_connections_cost_little() {
    let served = SshServer::start("");
    let address = served.server.address("ssh");
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    served.server.wait_until("all", |_| served.metric("packrace_connections{door=\"ssh\"}") == 200);
    served.works(&served.alice, &["ls-remote", "git@host:a.git"]);
    drop(silent);
    served.server.wait_until("none", |_| served.metric("packrace_connections{door=\"ssh\"}") == 0);
}

#[test]
fn who_vanishes_in_a_session_leaves_nothing_behind() {
    let served = SshServer::start("");
    let client = served.login(&served.alice);
    let mut channel = client.begin(Some("version=2"), Some(b"git-upload-pack '/a.git'")).unwrap();
    client.take(&mut channel, 20);
    assert_eq!(served.metric("packrace_requests_running"), 1);
    drop((channel, client));
    served.server.wait_until("the end", |_| {
        served.metric("packrace_requests_running") == 0
            && served.metric("packrace_connections{door=\"ssh\"}") == 0
    });
}

#[test]
fn weak_algorithms_are_not_there() {
    let served = SshServer::start("");
    let connects = |preferred| SshClient::connect_with(served.server.address("ssh"), preferred).is_ok();
    let with_cipher = |name| Preferred { cipher: Cow::Owned(vec![name]), ..Preferred::DEFAULT };
    assert!(connects(with_cipher(cipher::AES_128_GCM)) && connects(with_cipher(cipher::AES_256_GCM)));
    for name in [cipher::CHACHA20_POLY1305, cipher::AES_256_CTR, cipher::AES_128_CTR] {
        assert!(!connects(with_cipher(name)));
    }
    let with_kex = |name| Preferred { kex: Cow::Owned(vec![name]), ..Preferred::DEFAULT };
    assert!(connects(with_kex(kex::CURVE25519)) && connects(with_kex(kex::MLKEM768X25519_SHA256)));
    for name in [kex::DH_G14_SHA256, kex::DH_GEX_SHA256] {
        assert!(!connects(with_kex(name)));
    }
    assert!(served.server.log().contains("ssh 127.0.0.1:"), "{}", served.server.log());
}
