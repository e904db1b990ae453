//! Users with limited rights: the page at `/-/`, and responses that reveal nothing about hidden or unknown
//! repositories and users.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::access::Guarded;
use super::*;

const RULES: &str = r#"
admins = ["root"]

[[rule]]
repository = "a.git"
who = "users"
allow = ["read"]

[[rule]]
repository = "private/**"
who = "alice"
allow = ["read", "write"]
"#;

/// `Authorization` of users whose names are their passwords, and of others.
const ALICE: &str = "\nAuthorization: Basic YWxpY2U6YWxpY2U=";
const BOB: &str = "\nAuthorization: Basic Ym9iOmJvYg==";
const ROOT: &str = "\nAuthorization: Basic cm9vdDpyb290";
const WRONG_PASSWORD: &str = "\nAuthorization: Basic Ym9iOmFsaWNl";
const UNKNOWN_USER: &str = "\nAuthorization: Basic bm9ib2R5OmJvYg==";

/// Status, headers but the date, and body.
type Seen = (u16, Vec<(String, String)>, String);

fn seen(guarded: &Guarded, head: &str) -> Seen {
    let mut reply = http(guarded.server.address("http"), head, b"", Feed::Whole);
    reply.headers.retain(|(name, _)| name != "date");
    (reply.status, reply.headers, String::from_utf8(reply.body).unwrap())
}

#[test]
fn the_page_shows_users_what_they_may_read() {
    let guarded = Guarded::start_with(RULES, &[]);
    let root = guarded.server.folder.path().join("root");
    std::fs::write(root.join("private/b.git/description"), "Plans & <b>secrets</b>\n").unwrap();
    // Read access to a name gives no access to the target of a link below it.
    std::os::unix::fs::symlink("../private/b.git", root.join("a.git/link.git")).unwrap();
    let page = |credentials: &str| seen(&guarded, &format!("GET /-/ HTTP/1.1{credentials}"));

    let (status, headers, alice) = page(ALICE);
    assert_eq!(status, 200, "{alice}");
    assert!(headers.iter().any(|(name, _)| name == "content-security-policy"));
    assert!(alice.contains("you are alice") && alice.contains("<bdi>a.git</bdi>"), "{alice}");
    let described = "<bdi>private/b.git</bdi></td><td><bdi>Plans &amp; &lt;b&gt;secrets&lt;/b&gt;</bdi>";
    assert!(alice.contains(described), "{alice}");

    let (status, _, bob) = page(BOB);
    assert!(status == 200 && bob.contains("you are bob") && bob.contains("<bdi>a.git</bdi>"), "{bob}");
    for hidden in ["private", "b.git", "secrets", "alice", "Running", "Throughput", "metrics", "Maintenance"]
    {
        assert!(!bob.contains(hidden), "{hidden}: {bob}");
    }
    // The page is the same whether or not hidden repositories exist.
    std::fs::remove_dir_all(root.join("private")).unwrap();
    assert_eq!(page(BOB).2, bob);

    let (status, _, admin) = page(ROOT);
    assert!(status == 200 && admin.contains("Running transfers"), "{admin}");
    for (credentials, expect) in [("", 401), (WRONG_PASSWORD, 401), (UNKNOWN_USER, 401)] {
        assert_eq!(page(credentials).0, expect, "{credentials}");
    }
    // Metrics are for admins only.
    assert_eq!(seen(&guarded, &format!("GET /-/metrics HTTP/1.1{BOB}")).0, 404);
    assert_eq!(seen(&guarded, &format!("POST /-/ HTTP/1.1{BOB}")).0, 405);
}

#[test]
fn a_token_shows_no_more_than_it_may() {
    let guarded = Guarded::start_with(RULES, &[]);
    let tokens = guarded.file("tokens");
    let token = |args: &[&str], user: &str| {
        let made = output(packrace().args(["access", "token"]).args(args).arg(user).arg(&tokens));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let narrow = token(&["--repository", "a.git"], "alice");
    let read_only = token(&["--read-only"], "root");
    guarded.server.signal("-HUP");
    let page = |token: &str| seen(&guarded, &format!("GET /-/ HTTP/1.1\nAuthorization: Bearer {token}"));
    guarded.server.wait_until("the tokens", |_| page(&narrow).0 == 200);
    let (_, _, alice) = page(&narrow);
    assert!(alice.contains("<bdi>a.git</bdi>") && !alice.contains("private"), "{alice}");
    let (status, _, root) = page(&read_only);
    assert!(status == 200 && root.contains("you are root") && !root.contains("Running"), "{root}");
}

#[test]
fn nobody_learns_which_users_there_are() {
    let guarded = Guarded::start_with(RULES, &[]);
    for path in ["/a.git", "/private/b.git", "/private/none.git", "/-/", "/-/metrics"] {
        let end = if path.starts_with("/-/") { "" } else { "/info/refs?service=git-upload-pack" };
        let get = |credentials: &str| seen(&guarded, &format!("GET {path}{end} HTTP/1.1{credentials}"));
        let unknown = get(UNKNOWN_USER);
        assert_eq!(unknown.0, 401, "{path}");
        assert_eq!(get(WRONG_PASSWORD), unknown, "{path}");
    }
    // Pushes, too: authenticated users cannot distinguish hidden and missing repositories.
    let push =
        |path: &str| seen(&guarded, &format!("GET {path}/info/refs?service=git-receive-pack HTTP/1.1{BOB}"));
    let missing = push("/private/none.git");
    assert_eq!((missing.0, push("/private/b.git")), (404, missing.clone()));
    assert_eq!(push("/none.git"), missing);
}

#[test]
fn a_mebibyte_of_credentials_is_refused() {
    let guarded = Guarded::start_with(RULES, &[]);
    let address = guarded.server.address("http");
    let before = private_kib(&guarded.server);
    for scheme in ["Basic ", "Bearer ", ""] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: localhost\r\n";
        let text = format!("{head}Authorization: {scheme}{}\r\n\r\n", "A".repeat(1 << 20));
        // The server may respond before everything is sent.
        let _ = stream.write_all(text.as_bytes());
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 431 "), "{told}");
    }
    // 16,000 bytes of credentials are just wrong.
    let long = format!("\nAuthorization: Basic {}", "QUFB".repeat(3000));
    assert_eq!(
        seen(&guarded, &format!("GET /a.git/info/refs?service=git-upload-pack HTTP/1.1{long}")).0,
        401
    );
    let grown = private_kib(&guarded.server).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    guarded.works("alice", &["ls-remote", &guarded.url("a.git")]);
}

#[test]
fn nobody_gets_in_because_the_server_that_knows_users_is_down() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for authority in [closed, silent.local_addr().unwrap()] {
        let folder = tempfile::tempdir().unwrap();
        let (root, rules) = (folder.path().join("root"), folder.path().join("rules"));
        RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
        std::fs::write(&rules, RULES).unwrap();
        let config =
            format!("{LOOPBACK}[access]\nrules = {rules:?}\nforward-auth = \"http://{authority}/\"\n");
        let server = Server::start_for(folder, &root, &config, &[], &[]);
        let get = format!("GET /a.git/info/refs?service=git-upload-pack HTTP/1.1{ALICE}");
        assert_eq!(http(server.address("http"), &get, b"", Feed::Whole).status, 503);
        assert_eq!(server.get("/-/healthz").status, 200);
    }
}

/// The process's private memory, in KiB.
fn private_kib(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
