use super::*;
use crate::{Git, RepoBuilder, Size};

/// Reads `wire` whole and byte by byte, with the same result.
fn check(transport: Transport, wire: &[u8], expect: Result<(&[u8], u64), &str>) {
    for size in [wire.len().max(1), 1] {
        let mut reading = Reading::new(transport, Take::Keep, Instant::now());
        let pushed = wire.chunks(size).try_for_each(|bytes| reading.push(bytes));
        let outcome = pushed.and_then(|()| reading.end(None));
        let seen = outcome.map(|received| (received.pack.kept.clone(), received.keepalives));
        let expect = expect.map(|(pack, keepalives)| (pack.to_vec(), keepalives)).map_err(str::to_string);
        assert_eq!(seen.map_err(|failure| failure.to_string()), expect, "in pieces of {size}");
    }
}

const FETCHED: &[u8] = b"000dpackfile\n000b\x01PACK..0005\x010006\x02p000b\x01......0000";

#[test]
fn answers_of_git() {
    let advertised = |answer: &[u8]| [&b"000eversion 2\n0000"[..], answer].concat();
    check(Transport::Git, &advertised(FETCHED), Ok((b"PACK........", 1)));
    check(Transport::Git, &advertised(b"0010shallow 123\n0001"), Err("the connection ended after 38 bytes"));
    let cut = advertised(&FETCHED[..FETCHED.len() - 4]);
    check(Transport::Git, &cut, Err(&format!("the connection ended after {} bytes", cut.len())));
    check(Transport::Git, b"", Err("the server dropped the connection"));
    check(Transport::Git, b"000dERR no!!\n", Err("refused: no!!"));
    let refused = advertised(b"000dpackfile\n0009\x03oops0000");
    check(Transport::Git, &refused, Err("refused: oops"));
    check(Transport::Git, &advertised(b"0008NAK\n0000"), Err("no answer: an answer without a pack"));
    check(Transport::Git, &advertised(b"000dpackfile\n0006\x04x0000"), Err("no answer: no band 4"));
    check(Transport::Git, &[&advertised(FETCHED)[..], b"0"].concat(), Err("no answer: more behind the end"));
    check(Transport::Git, b"zzzz", Err("no answer: no length: zzzz"));
    check(Transport::Git, b"ffff", Err("no answer: no length: ffff"));
}

#[test]
fn answers_over_http() {
    let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
    check(Transport::Http, &[&head("")[..], FETCHED].concat(), Ok((b"PACK........", 1)));
    let length = head(&format!("Content-Length: {}\r\n", FETCHED.len()));
    check(Transport::Http, &[&length[..], FETCHED].concat(), Ok((b"PACK........", 1)));
    let mut chunked = head("transfer-encoding: chunked\r\n");
    for chunk in FETCHED.chunks(7) {
        chunked.extend_from_slice(format!("{:x};x=y\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    check(Transport::Http, &chunked, Ok((b"PACK........", 1)));
    check(
        Transport::Http,
        b"HTTP/1.1 404 Not Found\r\n\r\nnothing\n",
        Err("refused: 404 Not Found: nothing"),
    );
    check(
        Transport::Http,
        b"HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx",
        Err("the server has no place"),
    );
    let broken = [&head("Transfer-Encoding: chunked\r\n")[..], b"-1\r\n"].concat();
    check(Transport::Http, &broken, Err("no answer: no chunk: -1\\r\\n"));
}

#[test]
fn trailers_are_hashed_whatever_the_pieces() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let mut pack = b"PACK and then some more".to_vec();
        let mut hasher = TrailerHasher::new(hash);
        hasher.update(&pack);
        pack.extend_from_slice(hasher.finish().as_bytes());
        for size in [1, 7, 19, 20, 21, 32, 33, pack.len()] {
            let seen = |pack: &[u8]| {
                let mut bytes = PackBytes::new(Take::Hash(hash), Instant::now());
                pack.chunks(size).for_each(|piece| bytes.push(piece));
                bytes.end().map(|pack| pack.bytes)
            };
            assert_eq!(seen(&pack), Ok(pack.len() as u64), "{hash}, in pieces of {size}");
            let mut other = pack.clone();
            other[13] ^= 1;
            assert_eq!(seen(&other), Err("the trailer of the pack is wrong"));
            assert!(seen(&pack[..pack.len() - 1]).is_err());
        }
    }
}

#[test]
fn a_daemon_of_stock_git_is_read() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let script = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target {
        transport: Transport::Git,
        address: listener.local_addr().unwrap(),
        path: "/repo.git".to_string(),
        patience: Duration::from_secs(120),
    };
    let parent = repo.path().parent().unwrap().to_path_buf();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (stream, _) = listener.accept().unwrap();
            let mut command = Git::stock().command(&parent);
            let base = format!("--base-path={}", parent.display());
            command.args(["daemon", "--inetd", "--export-all", &base]).arg(&parent);
            let stdin = std::os::fd::OwnedFd::from(stream.try_clone().unwrap());
            command.stdin(stdin).stdout(std::os::fd::OwnedFd::from(stream));
            assert!(command.status().unwrap().success());
        }
    });
    let request = target.request(script.bytes());
    let mut most = 0;
    let kept = target.fetch_watched(&request, Take::Keep, |bytes| most = bytes).unwrap();
    assert_eq!((most, kept.pack.kept.len() as u64), (kept.pack.bytes, kept.pack.bytes));
    assert!(kept.first_byte <= kept.whole && kept.wire_bytes > kept.pack.bytes);
    let hashed = target.fetch(&request, Take::Hash(HashKind::Sha1)).unwrap();
    assert!(hashed.pack.kept.is_empty());
    server.join().unwrap();
}
