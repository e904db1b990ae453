//! `packrace http-backend` compared with `git http-backend`: with the same environment, the same status,
//! headers and body.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use packrace_testkit::peer::{self, Feed, Reply, Script};
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

use crate::running::{PACKRACE, assert_no_panic};

const UPLOAD: &str = "application/x-git-upload-pack-request";

/// A folder with `a.git`, which has files of all kinds, `closed.git`, which is not exported, and others.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let dir = packrace_testkit::scratch_dir();
        let git = Git::stock();
        let a = dir.path().join("a.git");
        RepoBuilder::new(Size::Tiny).build_at(&a, git);
        git.run(&a, &["repack", "-adq"]);
        git.run(&a, &["tag", "-m", "annotated", "peeled", "HEAD"]);
        std::fs::write(a.join("git-daemon-export-ok"), "").unwrap();
        std::fs::create_dir_all(a.join("objects/info")).unwrap();
        std::fs::write(a.join("objects/info/http-alternates"), "/b.git\n").unwrap();
        git.run(dir.path(), &["init", "-q", "--bare", "closed.git"]);
        git.run(dir.path(), &["init", "-q", "tree"]);
        for (name, setting, value) in [
            ("smart.git", "http.getanyfile", "false"),
            ("dumb.git", "http.uploadpack", "false"),
            ("open.git", "http.receivepack", "true"),
            ("never.git", "http.receivepack", "false"),
            ("broken.git", "http.uploadpack", "perhaps"),
            ("small.git", "http.maxRequestBuffer", "10"),
        ] {
            git.run(dir.path(), &["clone", "-q", "--bare", "a.git", name]);
            git.run(&dir.path().join(name), &["config", setting, value]);
        }
        Root(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The name of a file of the only pack.
    fn pack(&self, extension: &str) -> String {
        let dir = self.path().join("a.git/objects/pack");
        let mut names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.find_map(|name| name.into_string().ok().filter(|name| name.ends_with(extension))).unwrap()
    }

    /// The path of the only loose object below `objects/`.
    fn loose(&self) -> String {
        let tag = Git::stock().run(&self.path().join("a.git"), &["rev-parse", "refs/tags/peeled"]);
        format!("{}/{}", &tag[..2], &tag[2..].trim())
    }
}

/// The response of a CGI program.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn parse(reply: &Reply) -> Self {
        let end = reply.stdout.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {reply:?}"));
        let head = String::from_utf8(reply.stdout[..end].to_vec()).unwrap();
        // Git sends some headers twice.
        let mut headers: BTreeMap<String, String> = head
            .split("\r\n")
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line:?}")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let status = headers.remove("Status").unwrap_or_else(|| "200 OK".to_owned());
        if status != "200 OK" {
            // Git sends cache headers before it finds that the file does not exist.
            headers.remove("Date");
        }
        for moment in ["Date", "Expires"] {
            if let Some(value) = headers.get_mut(moment).filter(|value| !value.contains("1980")) {
                // A second may pass between the two.
                assert_eq!(value.len(), "Sat, 21 Nov 2026 18:11:23 +0000".len(), "{value}");
                assert!(value.ends_with(" +0000"), "{value}");
                value.clear();
            }
        }
        Answer { status, headers, body: reply.stdout[end + 4..].to_vec() }
    }
}

fn run(mut command: Command, root: &Path, variables: &[(&str, &str)], body: &[u8]) -> Reply {
    clean_environment(&mut command);
    command
        .env("GIT_PROJECT_ROOT", root)
        .env("SERVER_PROTOCOL", "HTTP/1.1")
        .env("GIT_USER_AGENT", "git/test");
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    for (name, value) in variables {
        match value.strip_prefix('-') {
            Some("") => command.env_remove(name),
            _ => command.env(name, value),
        };
    }
    peer::stdio(&mut command, body, Feed::Whole)
}

fn stock(root: &Path, variables: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut command = Git::stock().command(root);
    command.arg("http-backend");
    run(command, root, variables, body)
}

fn ours(root: &Path, variables: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut command = Command::new(PACKRACE);
    command.arg("http-backend");
    let reply = run(command, root, variables, body);
    assert_no_panic(&reply.stderr);
    reply
}

/// Both respond the same; where git has no status for an error, `instead` is ours.
#[track_caller]
fn check_with(root: &Root, variables: &[(&str, &str)], body: &[u8], instead: Option<&str>) {
    let (expect, got) = (stock(root.path(), variables, body), ours(root.path(), variables, body));
    let (expect, got) = (Answer::parse(&expect), Answer::parse(&got));
    match instead {
        None => assert_eq!(got, expect, "{variables:?}"),
        Some(status) => assert_eq!(got.status, status, "{variables:?}"),
    }
}

#[track_caller]
fn check_get(root: &Root, path: &str, query: &str, more: &[(&str, &str)]) {
    let request = [("REQUEST_METHOD", "GET"), ("PATH_INFO", path), ("QUERY_STRING", query)];
    check_with(root, &[&request[..], more].concat(), b"", None);
}

#[track_caller]
fn check_post(root: &Root, path: &str, body: &[u8], more: &[(&str, &str)]) {
    let length = body.len().to_string();
    let request = [
        ("REQUEST_METHOD", "POST"),
        ("PATH_INFO", path),
        ("CONTENT_TYPE", UPLOAD),
        ("CONTENT_LENGTH", &length),
        ("GIT_PROTOCOL", "version=2"),
    ];
    check_with(root, &[&request[..], more].concat(), body, None);
}

#[test]
fn files() {
    let root = Root::new();
    let (pack, index) = (root.pack(".pack"), root.pack(".idx"));
    let loose = root.loose();
    for file in [
        "HEAD",
        "info/refs",
        "objects/info/packs",
        "objects/info/http-alternates",
        "objects/info/alternates",
        "objects/info/other",
        "objects/12/34567890123456789012345678901234567890",
        "objects/12/345678901234567890123456789012345678",
        &format!("objects/{loose}"),
        &format!("objects/{}", loose.to_uppercase()),
        &format!("objects/pack/{pack}"),
        &format!("objects/pack/{index}"),
        &format!("objects/pack/{}", pack.replace(".pack", ".rev")),
        &format!("objects/pack/{}", pack.replace(&pack[5..9], "0000")),
        "config",
        "",
    ] {
        for repository in ["a.git", "a", "smart.git", "closed.git", "none.git"] {
            if repository.len() < 6 || file.len() < 20 {
                check_get(&root, &format!("/{repository}/{file}"), "", &[]);
            }
        }
    }
    for method in ["HEAD", "POST", "PUT", "get"] {
        for protocol in ["HTTP/1.1", "HTTP/1.0", "-"] {
            let request =
                [("REQUEST_METHOD", method), ("PATH_INFO", "/a.git/HEAD"), ("SERVER_PROTOCOL", protocol)];
            check_with(&root, &request, b"", None);
        }
    }
}

#[test]
fn paths() {
    let root = Root::new();
    let export = ("GIT_HTTP_EXPORT_ALL", "");
    for path in [
        "/closed.git/HEAD",
        "/tree/HEAD",
        "/tree/.git/HEAD",
        "/HEAD",
        "/a.git/../a.git/HEAD",
        "/./a.git/HEAD",
        "//a.git/HEAD",
        "a.git/HEAD",
        "/a.git/HEAD/",
        "",
        "-",
        "/",
    ] {
        check_get(&root, path, "", &[export]);
    }
    let whole = root.path().join("a.git/HEAD");
    let translated = ("PATH_TRANSLATED", whole.to_str().unwrap());
    check_get(&root, "-", "", &[("GIT_PROJECT_ROOT", "-"), translated]);
    check_get(&root, "/none.git/HEAD", "", &[("GIT_PROJECT_ROOT", ""), translated]);
    check_get(&root, "/none.git/HEAD", "", &[translated]);
    check_get(&root, "/a.git/HEAD", "", &[("GIT_PROJECT_ROOT", "-")]);
    check_with(&root, &[("PATH_INFO", "/a.git/HEAD")], b"", None);
}

#[test]
fn services() {
    let root = Root::new();
    for repository in ["a.git", "smart.git", "dumb.git", "open.git", "never.git", "none.git", "broken.git"] {
        for service in ["git-receive-pack", "git-upload-archive", "git-x", "", "upload-pack"] {
            // The advertisement of receive-pack is compared elsewhere: it lists capabilities, which differ.
            let is_told = service == "git-receive-pack" && repository == "open.git";
            if !is_told {
                let query = format!("service={service}");
                check_get(
                    &root,
                    &format!("/{repository}/info/refs"),
                    &query,
                    &[("GIT_HTTP_EXPORT_ALL", "1")],
                );
            }
        }
    }
    for version in ["version=2", "version=1", "version=0", "x"] {
        for name in ["GIT_PROTOCOL", "HTTP_GIT_PROTOCOL"] {
            let query = "a=b&service=git-upload-pack";
            check_get(&root, "/a.git/info/refs", query, &[(name, version)]);
        }
    }
    let both = [("GIT_PROTOCOL", "version=1"), ("HTTP_GIT_PROTOCOL", "version=2")];
    check_get(&root, "/a.git/info/refs", "service=git-upload-pack", &both);
    check_get(&root, "/dumb.git/info/refs", "service=git-upload-pack", &[("GIT_HTTP_EXPORT_ALL", "1")]);
    let user = [("GIT_HTTP_EXPORT_ALL", "1"), ("REMOTE_USER", "ann")];
    check_get(&root, "/never.git/info/refs", "service=git-receive-pack", &user);
}

type Backend = fn(&Path, &[(&str, &str)], &[u8]) -> Reply;

/// The trace of a request in the form without times.
fn packets(program: Backend, root: &Root, request: &[(&str, &str)], body: &[u8]) -> String {
    let trace = root.path().join("trace");
    let variables = [("GIT_TRACE_PACKET", trace.to_str().unwrap()), ("GIT_TRACE_BARE", "1")];
    program(root.path(), &[request, &variables].concat(), body);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(trace).unwrap();
    lines
}

#[test]
fn packets_are_traced() {
    let root = Root::new();
    let advertised = [
        ("REQUEST_METHOD", "GET"),
        ("PATH_INFO", "/a.git/info/refs"),
        ("QUERY_STRING", "service=git-upload-pack"),
    ];
    for version in ["version=0", "version=1", "version=2"] {
        let request = [&advertised[..], &[("GIT_PROTOCOL", version)]].concat();
        let (expect, got) = (packets(stock, &root, &request, b""), packets(ours, &root, &request, b""));
        assert!(expect.contains("packet:  upload-pack> "), "{expect}");
        assert_eq!(got, expect, "{version}");
    }
    let ls_refs = Script::new().line("command=ls-refs").delim().line("peel").flush();
    let request = [
        ("REQUEST_METHOD", "POST"),
        ("PATH_INFO", "/a.git/git-upload-pack"),
        ("CONTENT_TYPE", UPLOAD),
        ("GIT_PROTOCOL", "version=2"),
    ];
    let expect = packets(stock, &root, &request, ls_refs.bytes());
    assert!(expect.contains("packet:  upload-pack< peel\n"), "{expect}");
    assert_eq!(packets(ours, &root, &request, ls_refs.bytes()), expect);
}

#[test]
fn calls() {
    let root = Root::new();
    let ls_refs = Script::new().line("command=ls-refs").delim().line("peel").line("symrefs").flush();
    let ls_refs = ls_refs.bytes();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all(ls_refs).unwrap();
    let zipped = zipped.finish().unwrap();
    check_post(&root, "/a.git/git-upload-pack", ls_refs, &[]);
    check_post(&root, "/a.git/git-upload-pack", ls_refs, &[("CONTENT_LENGTH", "-")]);
    check_post(&root, "/a.git/git-upload-pack", ls_refs, &[("CONTENT_LENGTH", "")]);
    check_post(&root, "/a.git/git-upload-pack", b"0000", &[]);
    check_post(
        &root,
        "/a.git/git-upload-pack",
        &[ls_refs, b"junk"].concat(),
        &[("CONTENT_LENGTH", &ls_refs.len().to_string())],
    );
    for encoding in ["gzip", "x-gzip"] {
        check_post(&root, "/a.git/git-upload-pack", &zipped, &[("HTTP_CONTENT_ENCODING", encoding)]);
    }
    for content_type in ["", "-", "text/plain", "application/x-git-receive-pack-request"] {
        check_post(&root, "/a.git/git-upload-pack", ls_refs, &[("CONTENT_TYPE", content_type)]);
    }
    for path in ["/dumb.git", "/none.git", "/closed.git"] {
        check_post(&root, &format!("{path}/git-upload-pack"), ls_refs, &[]);
    }
    check_post(&root, "/a.git/git-receive-pack", b"0000", &[]);
    check_post(&root, "/a.git/git-upload-archive", b"0000", &[]);
    for method in ["GET", "HEAD", "PUT"] {
        check_post(&root, "/a.git/git-upload-pack", b"", &[("REQUEST_METHOD", method)]);
        let old = [("REQUEST_METHOD", method), ("SERVER_PROTOCOL", "HTTP/1.0")];
        check_post(&root, "/a.git/git-upload-pack", b"", &old);
    }
    // Git has already sent 200, and ends with an exit code or a second head.
    let post = |more: &[(&'static str, &'static str)]| {
        let request =
            [("REQUEST_METHOD", "POST"), ("PATH_INFO", "/a.git/git-upload-pack"), ("CONTENT_TYPE", UPLOAD)];
        [&request[..], more].concat()
    };
    let instead = |more: &[(&'static str, &'static str)], body: &[u8], status: &str| {
        check_with(&root, &post(more), body, Some(status));
    };
    instead(&[("CONTENT_LENGTH", "x")], ls_refs, "500 Internal Server Error");
    instead(&[("CONTENT_LENGTH", "100000")], &ls_refs[..10], "400 Bad Request");
    instead(&[("HTTP_CONTENT_ENCODING", "gzip")], ls_refs, "400 Bad Request");
    instead(&[("GIT_HTTP_MAX_REQUEST_BUFFER", "10")], ls_refs, "413 Payload Too Large");
    let small = [("PATH_INFO", "/small.git/git-upload-pack"), ("GIT_HTTP_EXPORT_ALL", "1")];
    instead(&small, ls_refs, "413 Payload Too Large");
    check_with(
        &root,
        &post(
            &[&small[..], &[("GIT_HTTP_MAX_REQUEST_BUFFER", "1k"), ("GIT_PROTOCOL", "version=2")]].concat(),
        ),
        ls_refs,
        None,
    );
}

/// A web server that runs a program for each request (RFC 3875), as far as git needs it; it lives as long as
/// the process.
fn web_server(root: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let root = root.clone();
            thread::spawn(move || answer(stream.unwrap(), &root));
        }
    });
    address
}

fn answer(mut stream: TcpStream, root: &Path) {
    let mut request = Vec::new();
    let end = loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).unwrap() {
            0 => return,
            length => request.extend_from_slice(&piece[..length]),
        }
    };
    let head = String::from_utf8(request[..end].to_vec()).unwrap();
    let mut body = request.split_off(end + 4);
    let mut lines = head.split("\r\n");
    let [method, target, protocol] =
        <[&str; 3]>::try_from(lines.next().unwrap().split(' ').collect::<Vec<_>>()).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut variables = vec![
        ("REQUEST_METHOD".to_owned(), method.to_owned()),
        ("PATH_INFO".to_owned(), path.to_owned()),
        ("QUERY_STRING".to_owned(), query.to_owned()),
        ("SERVER_PROTOCOL".to_owned(), protocol.to_owned()),
        ("GIT_HTTP_EXPORT_ALL".to_owned(), "1".to_owned()),
        ("REMOTE_USER".to_owned(), "ann".to_owned()),
        ("REMOTE_ADDR".to_owned(), "192.0.2.1".to_owned()),
        ("GIT_COMMITTER_NAME".to_owned(), "-".to_owned()),
        ("GIT_COMMITTER_EMAIL".to_owned(), "-".to_owned()),
    ];
    let mut left = None;
    for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
        let name = name.to_uppercase().replace('-', "_");
        match name.as_str() {
            "CONTENT_LENGTH" => left = Some(value.parse::<usize>().unwrap()),
            "EXPECT" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap(),
            _ => {}
        }
        let prefix = if name.starts_with("CONTENT_TYPE") || name == "CONTENT_LENGTH" { "" } else { "HTTP_" };
        variables.push((format!("{prefix}{name}"), value.to_owned()));
    }
    let length = body.len();
    if let Some(missing) = left.and_then(|whole| whole.checked_sub(length)) {
        body.resize(length + missing, 0);
        stream.read_exact(&mut body[length..]).unwrap();
    }
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    let reply = ours(root, &variables, &body);
    let answer = Answer::parse(&reply);
    let mut response = format!("HTTP/1.1 {}\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        response.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(&[response.as_bytes(), b"\r\n", &answer.body].concat()).unwrap();
}

#[test]
fn stock_git_clones_and_pushes_through_a_web_server() {
    let root = Root::new();
    let address = web_server(root.path().to_owned());
    let git = Git::stock();
    let dir = packrace_testkit::scratch_dir();
    let url = format!("http://{address}/open.git");
    for version in ["0", "1", "2"] {
        let protocol = format!("protocol.version={version}");
        git.run(dir.path(), &["-c", &protocol, "clone", "-q", &url, version]);
        let work = dir.path().join(version);
        git.run(&work, &["fsck", "--full", "--strict"]);
        let branch = format!("HEAD:refs/heads/v{version}");
        let named = ["-c", "user.name=a", "-c", "user.email=a@b"];
        git.run(&work, &[&named[..], &["commit", "-q", "--allow-empty", "-m", version]].concat());
        // Small pushes have a length; with a small buffer, chunks would be needed.
        git.run(&work, &["-c", &protocol, "push", "-q", "origin", &branch]);
        let pushed = git.run(&root.path().join("open.git"), &["rev-parse", &format!("v{version}")]);
        assert_eq!(pushed, git.run(&work, &["rev-parse", "HEAD"]));
    }
    // Reflogs name the pusher as the web server does.
    let open = root.path().join("open.git");
    git.run(&open, &["config", "core.logAllRefUpdates", "always"]);
    git.run(&dir.path().join("2"), &["push", "-q", "origin", "HEAD:refs/heads/logged"]);
    let log = std::fs::read_to_string(open.join("logs/refs/heads/logged")).unwrap();
    assert!(log.contains(" ann <ann@http.192.0.2.1> "), "{log}");
    // The dumb protocol, as an old client speaks it.
    let mut dumb = git.command(dir.path());
    dumb.env("GIT_SMART_HTTP", "0").args(["clone", "-q", &format!("http://{address}/a.git"), "dumb"]);
    assert!(dumb.output().unwrap().status.success());
    git.run(&dir.path().join("dumb"), &["fsck", "--full"]);
}
