//! Authentication by another server.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;

const RULES: &str =
    "[groups]\nteam = []\n[[rule]]\nrepository = \"a.git\"\nwho = \"@team\"\nallow = [\"read\"]\n";

/// An authority that knows alice with the password `sesame`, and counts requests.
fn start_authority() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend_from_slice(&byte);
            }
            count.fetch_add(1, Relaxed);
            let head = String::from_utf8_lossy(&head).into_owned();
            let answer = if head.contains("Basic YWxpY2U6c2VzYW1l") {
                "200 OK\r\nRemote-User: alice\r\nRemote-Groups: team"
            } else if head.contains("broken") {
                "500 Broken"
            } else {
                "401 Unauthorized"
            };
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (address, asked)
}

#[test]
fn another_server_says_who_a_client_is() {
    let (authority, asked) = start_authority();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
    let rules = folder.path().join("rules");
    std::fs::write(&rules, RULES).unwrap();
    let rules = rules.display().to_string();
    let config = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[access]\nrules = \"{rules}\"\nforward-auth = \"http://{authority}/\"\n"
    );
    let server = Server::start_for(folder, &root, &config, &[], &[]);
    let address = server.address("http");
    let client = tempfile::tempdir().unwrap();
    let clone = |user_info: &str, name: &str| {
        let url = format!("http://{user_info}{address}/a.git");
        output(Git::stock().command(client.path()).args(["clone", "--quiet", &url, name]))
    };
    let cloned = clone("alice:sesame@", "a");
    assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.stderr));
    // One query for all requests of a clone; the first one has no credentials.
    assert_eq!(asked.load(Relaxed), 1);
    assert!(server.log().contains("user=\"alice\""), "{}", server.log());
    let refused = clone("alice:other@", "b");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("Authentication failed"), "{said}{}", server.log());
    let status = |headers: &str| {
        let head = format!("GET /a.git/info/refs?service=git-upload-pack HTTP/1.1{headers}");
        http(address, &head, b"", Feed::Whole).status
    };
    assert_eq!(status(""), 401);
    assert_eq!(status("\nRemote-User: alice\nRemote-Groups: team"), 401);
    assert_eq!(status("\nCookie: session=broken"), 503);
    let before = asked.load(Relaxed);
    assert_eq!(status(""), 401);
    assert_eq!(asked.load(Relaxed), before);
}
