//! Repositories are created, renamed and deleted beside running requests: `packrace repo` and
//! `/-/api/v1/repositories`.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};

use packrace_testkit::Random;
use serde_json::{Value, json};

use super::access::Guarded;
use super::hostile::PUSHING;
use super::*;

const RULES: &str = r#"
admins = ["root"]

[[rule]]
repository = "a.git"
who = "anyone"
allow = ["read"]

[[rule]]
repository = "team/**"
who = "alice"
allow = ["read", "write", "create"]

[[rule]]
repository = "team/**"
who = "reader"
allow = ["read"]

[[rule]]
repository = "**"
who = "root"
allow = ["read", "write", "create"]
"#;

const ALL: &str = "/-/api/v1/repositories";

/// `user:password` of users whose names are their passwords (RFC 4648).
fn credentials(user: &str) -> String {
    let encoded = match user {
        "" => return String::new(),
        "alice" => "YWxpY2U6YWxpY2U=",
        "bob" => "Ym9iOmJvYg==",
        "reader" => "cmVhZGVyOnJlYWRlcg==",
        "root" => "cm9vdDpyb290",
        "wrong" => "cm9vdDp3cm9uZw==",
        other => panic!("{other}"),
    };
    format!("\nAuthorization: Basic {encoded}")
}

fn raw(server: &Server, head: &str, body: &[u8]) -> HttpReply {
    http(server.address("http"), head, body, Feed::Whole)
}

/// A request to the API, with a JSON body unless that is null.
fn ask(server: &Server, user: &str, method: &str, path: &str, body: &Value) -> HttpReply {
    let credentials = credentials(user);
    let (content_type, body) = match body {
        Value::Null => ("", Vec::new()),
        body => ("\nContent-Type: application/json", body.to_string().into_bytes()),
    };
    raw(server, &format!("{method} {path} HTTP/1.1{credentials}{content_type}"), &body)
}

fn json_of(reply: &HttpReply) -> Value {
    serde_json::from_slice(&reply.body)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&reply.body)))
}

#[track_caller]
fn check(reply: &HttpReply, status: u16, words: &str) {
    let text = String::from_utf8_lossy(&reply.body);
    assert_eq!(reply.status, status, "{text}");
    assert!(text.contains(words), "{text}");
    assert_eq!(reply.header("content-type"), Some("application/json"), "{text}");
    if status >= 400 {
        assert!(json_of(reply)["error"].is_string(), "{text}");
    }
}

fn names_of(reply: &HttpReply) -> Vec<String> {
    let json = json_of(reply);
    let all = json["repositories"].as_array().unwrap_or_else(|| panic!("{json}"));
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

fn repo(server: &Server, command: &str, args: &[&str]) -> Output {
    let root = server.folder.path().join("root");
    output(packrace().args(["repo", command]).arg(root).args(args))
}

/// Standard output, standard error and exit code.
type Said = (String, String, Option<i32>);

fn text(output: &Output) -> Said {
    let [out, error] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (out, error, output.status.code())
}

#[test]
fn a_repository_lives_by_requests() {
    let guarded = Guarded::start_with(RULES, &[]);
    let server = &guarded.server;
    let ask = |user: &str, method: &str, path: &str, body: &Value| ask(server, user, method, path, body);
    let list = |user: &str| names_of(&ask(user, "GET", ALL, &Value::Null));
    assert_eq!((list(""), list("alice")), (vec!["a.git".to_owned()], vec!["a.git".to_owned()]));
    assert_eq!(list("root"), ["a.git", "private/b.git"]);

    let body = json!({"name": "team/tool", "object_format": "sha256", "initial_branch": "trunk",
                      "ref_format": "reftable", "description": "Tools of ours"});
    let made = ask("alice", "POST", ALL, &body);
    check(&made, 201, "\"team/tool.git\"");
    assert_eq!(made.header("location"), Some("/-/api/v1/repositories/team%2Ftool.git"));
    let tool = &format!("{ALL}/team%2Ftool");
    let told = json!({"name": "team/tool.git", "description": "Tools of ours", "object_format": "sha256"});
    assert_eq!((json_of(&made), json_of(&ask("reader", "GET", tool, &Value::Null))), (told.clone(), told));
    check(&ask("bob", "GET", tool, &Value::Null), 404, "no such repository");
    check(&ask("alice", "POST", ALL, &body), 409, "taken");
    check(&ask("reader", "POST", ALL, &json!({"name": "team/x"})), 403, "reader may not create");
    check(&ask("bob", "POST", ALL, &json!({"name": "team/x"})), 403, "bob may not create");

    let url = guarded.url("team/tool.git");
    guarded.works("alice", &["clone", "--quiet", &url, "tool"]);
    guarded.works("alice", &["-C", "tool", "commit", "--quiet", "--allow-empty", "-m", "first"]);
    guarded.works("alice", &["-C", "tool", "push", "--quiet", "origin", "HEAD"]);
    assert!(guarded.works("reader", &["ls-remote", &url]).stdout.ends_with(b"refs/heads/trunk\n"));

    let described = json!({"description": "Größe zählt"});
    check(&ask("reader", "PATCH", tool, &described), 403, "reader may not push here");
    check(&ask("alice", "PATCH", tool, &described), 200, "Größe zählt");
    let renamed = json!({"name": "team/deep/er"});
    check(&ask("alice", "PATCH", tool, &renamed), 403, "alice may not delete or rename this repository");
    check(&ask("root", "PATCH", tool, &json!({"name": "a"})), 409, "taken");
    check(&ask("root", "PATCH", tool, &renamed), 200, "\"team/deep/er.git\"");
    guarded.fails("alice", "alice", &["ls-remote", &url], "not found");
    let moved = guarded.url("team/deep/er");
    guarded.works("alice", &["-C", "tool", "fetch", "--quiet", &moved, "trunk"]);

    let er = &format!("{ALL}/team%2Fdeep%2Fer.git");
    check(&ask("alice", "DELETE", er, &Value::Null), 403, "alice may not delete or rename this repository");
    let deleted = ask("root", "DELETE", er, &Value::Null);
    check(&deleted, 200, ".packrace-trash/");
    let trash = json_of(&deleted)["trash"].as_str().unwrap().to_owned();
    guarded.fails("alice", "alice", &["ls-remote", &moved], "not found");
    guarded.fails("root", "root", &["ls-remote", &guarded.url(&trash)], "not found");
    assert_eq!(list("root"), ["a.git", "private/b.git"]);
    check(&ask("root", "DELETE", er, &Value::Null), 404, "no such repository");
    // A new repository of the same name is empty.
    check(&ask("alice", "POST", ALL, &json!({"name": "team/deep/er"})), 201, "\"sha1\"");
    assert!(guarded.works("alice", &["ls-remote", &moved]).stdout.is_empty());
    check_audit(&guarded, &trash);
}

/// Checks the audit log.
fn check_audit(guarded: &Guarded, trash: &str) {
    let lines = json_lines(&std::fs::read_to_string(guarded.file("audit")).unwrap());
    let of = |action: &str, outcome: &str| {
        let found = |line: &&Value| line["action"] == action && line["outcome"] == outcome;
        lines.iter().find(found).unwrap_or_else(|| panic!("{action} {outcome}: {lines:#?}"))
    };
    let renamed = of("rename", "ok");
    assert_eq!((&renamed["user"], &renamed["to"]), (&"root".into(), &"team/deep/er".into()));
    assert!(renamed["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(of("delete", "ok")["to"], trash);
    assert_eq!(
        of("delete", "alice may not delete or rename this repository")["repository"],
        "team/deep/er.git"
    );
    assert_eq!(of("create", "bob may not create this repository")["user"], "bob");
    assert_eq!(of("describe", "ok")["repository"], "team/tool");
    assert_eq!(lines.iter().filter(|line| line["action"] == "create").count(), 5);
}

#[test]
fn hidden_and_missing_are_the_same() {
    let guarded = Guarded::start_with(RULES, &[]);
    let answer = |user: &str, method: &str, name: &str, body: &Value| {
        let mut reply = ask(&guarded.server, user, method, &format!("{ALL}/{name}"), body);
        reply.headers.retain(|(name, _)| name != "date");
        (reply.status, reply.headers, String::from_utf8(reply.body).unwrap())
    };
    for (method, body) in [
        ("GET", Value::Null),
        ("DELETE", Value::Null),
        ("PATCH", json!({"description": "x"})),
        ("PATCH", json!({"name": "team/x"})),
    ] {
        for user in ["bob", "reader", "alice"] {
            let hidden = answer(user, method, "private%2Fb.git", &body);
            assert_eq!(hidden, answer(user, method, "private%2Fnone.git", &body), "{user} {method}");
            assert_eq!(hidden.0, 404, "{user} {method}");
        }
        let unknown = answer("", method, "private%2Fb.git", &body);
        assert_eq!(unknown, answer("", method, "private%2Fnone.git", &body));
        assert_eq!(unknown, answer("wrong", method, "private%2Fb.git", &body));
        assert_eq!(unknown.0, 401, "{method}");
        assert!(unknown.1.iter().any(|(name, _)| name == "www-authenticate"));
    }
    // Only users who may create there learn that a name is taken.
    let body = json!({"name": "private/b"});
    check(&ask(&guarded.server, "bob", "POST", ALL, &body), 403, "bob may not create");
    assert!(guarded.file("root/private/b.git/HEAD").exists());
}

#[test]
fn requests_that_are_none() {
    let guarded = Guarded::start_with(RULES, &[]);
    let server = &guarded.server;
    let (root, json) = (credentials("root"), "\nContent-Type: application/json");
    let one = &format!("{ALL}/a.git");
    for (method, path, allow) in [
        ("PUT", ALL, "GET, HEAD, POST"),
        ("DELETE", ALL, "GET, HEAD, POST"),
        ("POST", one, "GET, HEAD, PATCH, DELETE"),
        ("OPTIONS", one, "GET, HEAD, PATCH, DELETE"),
    ] {
        let reply = raw(server, &format!("{method} {path} HTTP/1.1{root}{json}"), b"{}");
        check(&reply, 405, "Method Not Allowed");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
    let post = |headers: &str, body: &[u8]| raw(server, &format!("POST {ALL} HTTP/1.1{root}{headers}"), body);
    check(&post("", b"{\"name\":\"x\"}"), 415, "");
    check(&post("\nContent-Type: text/plain", b"{\"name\":\"x\"}"), 415, "");
    check(&post(&format!("{json}\nContent-Encoding: gzip"), b"{\"name\":\"x\"}"), 415, "");
    check(&post(json, &vec![b' '; (64 << 10) + 1]), 413, "");
    check(&post(json, &[&vec![b' '; 60 << 10][..], b"{\"name\":\"\"}"].concat()), 400, "cannot be empty");
    for body in ["", "{", "[]", "\"x\"", "{\"nam\":\"x\"}", "{\"name\":1}", "{\"name\":\"x\",\"name\":\"y\"}"]
    {
        check(&post(json, body.as_bytes()), 400, "request body: ");
    }
    check(&post(json, &[b'['; 60_000]), 400, "request body: ");
    for name in [
        "../x",
        "x/../y",
        "/etc",
        "x//y",
        "-/x",
        ".git/x",
        "x.git/y",
        "x.lock",
        ".packrace-trash/x",
        "a\u{1b}",
    ] {
        let reply = ask(server, "root", "POST", ALL, &json!({"name": name}));
        check(&reply, 400, "repository name ");
    }
    let patch = |body: Value| ask(server, "root", "PATCH", one, &body);
    check(&patch(json!({})), 400, "name or description");
    check(&patch(json!({"description": "a\nb"})), 400, "one line");
    check(&patch(json!({"name": "../a"})), 400, "repository name ");
    for path in ["%zz", "..%2Fx", "a.git%2Fobjects", "%00", ".packrace-trash", "a.git%2F..%2Fa.git"] {
        let status = if path == "%zz" { 400 } else { 404 };
        for method in ["GET", "DELETE"] {
            check(&ask(server, "root", method, &format!("{ALL}/{path}"), &Value::Null), status, "");
        }
    }
    // Slashes must be written as %2F: otherwise the path belongs to git.
    assert_eq!(ask(server, "root", "GET", &format!("{ALL}/private/b.git"), &Value::Null).status, 404);
    check(&ask(server, "root", "GET", &format!("{ALL}/private%2Fb.git"), &Value::Null), 200, "private/b.git");
    check(&ask(server, "root", "GET", &format!("{ALL}?after=a.git"), &Value::Null), 200, "private/b.git");
    // Requests from pages of other sites are refused.
    for header in ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"] {
        for (method, path) in [("POST", ALL), ("PATCH", one), ("DELETE", one), ("GET", one)] {
            let reply = raw(server, &format!("{method} {path} HTTP/1.1{root}{json}\n{header}"), b"{}");
            assert_eq!(reply.status, 403, "{method} {header}");
        }
    }
    assert!(server.repository().join("HEAD").exists());
    let left = std::fs::read_dir(guarded.file("root")).unwrap().count();
    assert_eq!(left, 2, "nothing was made");
}

#[test]
fn there_is_an_api_only_with_rules() {
    let server = Server::start(PUSHING, &[], &[]);
    assert_eq!(server.get(ALL).status, 404);
    let reply = ask(&server, "", "POST", ALL, &json!({"name": "x"}));
    assert_eq!((reply.status, String::from_utf8(reply.body).unwrap().as_str()), (404, "Not Found\n"));
    // Repositories below such a folder are still served.
    let inner = server.folder.path().join("root/-/api/v1/repositories/x.git");
    RepoBuilder::new(Size::Tiny).build_at(&inner, Git::stock());
    let refs = format!("{ALL}/x.git/info/refs?service=git-upload-pack");
    assert_eq!(server.get(&refs).status, 200);

    let guarded = Guarded::start_with(RULES, &[("PACKRACE_SERVE_SERVE_READ_ONLY", "true")]);
    let server = &guarded.server;
    for (method, path, body) in [
        ("POST", ALL.to_owned(), json!({"name": "x"})),
        ("DELETE", format!("{ALL}/a.git"), Value::Null),
        ("PATCH", format!("{ALL}/a.git"), json!({"description": "x"})),
    ] {
        check(&ask(server, "root", method, &path, &body), 403, "server is read-only (serve.read-only)");
    }
    check(&ask(server, "root", "GET", ALL, &Value::Null), 200, "private/b.git");
}

#[test]
fn settings_bound_it_and_turn_it_off() {
    let guarded = Guarded::start_with(RULES, &[("PACKRACE_SERVE_LISTEN_ADMIN", "none")]);
    assert_eq!(ask(&guarded.server, "root", "GET", ALL, &Value::Null).status, 404);
    drop(guarded);
    let guarded = Guarded::start_with(RULES, &[("PACKRACE_SERVE_LIMITS_BODY_TIME", "200ms")]);
    let head = format!("POST {ALL} HTTP/1.1{}\nContent-Type: application/json", credentials("root"));
    check(&raw(&guarded.server, &format!("{head}\nContent-Length: 9"), b""), 408, "Request Timeout");
    // An announced body that is too long is refused at once.
    check(&raw(&guarded.server, &format!("{head}\nContent-Length: 99999999"), b""), 413, "");
    let variables = [("PACKRACE_SERVE_SERVE_REQUIRE_EXPORT_OK", "true")];
    let guarded = Guarded::start_with(RULES, &variables);
    let server = &guarded.server;
    assert!(names_of(&ask(server, "root", "GET", ALL, &Value::Null)).is_empty());
    check(&ask(server, "root", "POST", ALL, &json!({"name": "x"})), 403, "serve.require-export-ok");
    check(&ask(server, "root", "DELETE", &format!("{ALL}/a"), &Value::Null), 404, "no such");
    std::fs::write(server.repository().join("git-daemon-export-ok"), "").unwrap();
    assert_eq!(names_of(&ask(server, "root", "GET", ALL, &Value::Null)), ["a.git"]);
    check(&ask(server, "root", "DELETE", &format!("{ALL}/a"), &Value::Null), 200, "trash");
}

#[test]
fn one_of_those_who_ask_at_once_gets_the_name() {
    let guarded = Guarded::start_with(RULES, &[]);
    let all = Barrier::new(6);
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let one = || {
            all.wait();
            ask(&guarded.server, "alice", "POST", ALL, &json!({"name": "team/new"})).status
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409]);
    let left = std::fs::read_dir(guarded.file("root/team")).unwrap().count();
    assert_eq!(left, 1);
}

#[test]
fn commands_beside_a_running_server() {
    let server = Server::start(PUSHING, &[], &[]);
    let run = |command: &str, args: &[&str]| text(&repo(&server, command, args));
    let ok = |out: &str| (format!("{out}\n"), String::new(), Some(0));
    assert_eq!(run("create", &["team/x", "--description", "Of ours", "-b", "trunk"]), ok("team/x.git"));
    assert_eq!(run("describe", &["team/x"]), ok("Of ours"));
    assert_eq!(run("describe", &["team/x.git", "-v2"]).2, Some(0));
    assert_eq!(run("describe", &["team/x"]), ok("-v2"));
    assert_eq!(run("describe", &["a"]).2, Some(1));
    let taken = "error: 'team/x': name is taken, or part of it is\n".to_owned();
    assert_eq!(run("create", &["team/x"]), (String::new(), taken, Some(1)));
    assert_eq!(run("delete", &["none"]).2, Some(1));
    assert_eq!(run("create", &["../x"]).2, Some(128));
    assert_eq!(run("create", &["y", "--object-format", "md5"]).2, Some(128));
    assert_eq!(run("create", &["y", "--bare"]).2, Some(129));
    assert_eq!(run("list", &[]), ok("a.git\nteam/x.git"));

    let client = tempfile::tempdir().unwrap();
    let url = format!("http://{}/team/x.git", server.address("http"));
    let git = |args: &[&str]| text(&output(Git::stock().command(client.path()).args(args)));
    assert_eq!(git(&["clone", "--quiet", &url, "x"]).2, Some(0));
    git(&["-C", "x", "commit", "--quiet", "--allow-empty", "-m", "first"]);
    for address in [
        &url,
        &url.replace("http", "git")
            .replace(&server.address("http").to_string(), &server.address("git").to_string()),
    ] {
        let (_, said, code) = git(&["-C", "x", "push", "--quiet", address, "HEAD:trunk"]);
        assert_eq!(code, Some(0), "{said}");
    }
    assert!(git(&["ls-remote", &url]).0.ends_with("refs/heads/trunk\n"));

    // Cached state of the deleted repository is not used for another one.
    let trash = run("delete", &["team/x"]).0;
    assert!(trash.starts_with(".packrace-trash/") && trash.ends_with("Z/team/x.git\n"), "{trash}");
    assert!(git(&["ls-remote", &url]).1.contains("not found"));
    let root = server.folder.path().join("root");
    assert_eq!(server.get(&format!("/{}/info/refs?service=git-upload-pack", trash.trim())).status, 404);
    let of_git = format!("git://{}/{}", server.address("git"), trash.trim());
    assert_ne!(git(&["ls-remote", &of_git]).2, Some(0));
    assert_eq!(run("create", &["team/x", "--object-format=sha256", "--ref-format=reftable"]).2, Some(0));
    assert_eq!(git(&["ls-remote", &url]), (String::new(), String::new(), Some(0)));
    assert_eq!(run("rename", &["team/x", "y"]), ok("y.git"));
    std::fs::rename(root.join(trash.trim()), root.join("team/x.git")).unwrap();
    assert!(git(&["ls-remote", &url]).0.ends_with("refs/heads/trunk\n"), "it is there again");
    assert_eq!(run("list", &["-z"]).0, "a.git\0team/x.git\0y.git\0");
    assert_eq!(run("rename", &["y", "team/x"]).2, Some(1));
}

/// Forwards connections. After this many bytes to the client, it reports and waits until it may continue.
fn stalling_proxy(to: SocketAddr, after: usize, has_stalled: Sender<()>, go_on: Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stall = Arc::new(Mutex::new((after, Some((has_stalled, go_on)))));
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(to).unwrap();
            let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass_on(from, into, |_| {}));
            let stall = stall.clone();
            std::thread::spawn(move || {
                pass_on(server, client, |length| {
                    let (left, channels) = &mut *stall.lock().unwrap();
                    *left = left.saturating_sub(length);
                    if let Some((has_stalled, go_on)) = channels.take_if(|_| *left == 0) {
                        has_stalled.send(()).unwrap();
                        go_on.recv().unwrap();
                    }
                });
            });
        }
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut seen: impl FnMut(usize)) {
    let mut buffer = [0; 4096];
    while let Ok(length) = from.read(&mut buffer) {
        seen(length);
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_clone_that_has_begun_goes_on_to_its_end() {
    let server = Server::start(PUSHING, &[], &[]);
    let client = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| Git::stock().run(client.path(), args);
    git(&["init", "--quiet", "-b", "main", "work"]);
    // More than sockets hold.
    std::fs::write(client.path().join("work/large"), Random::new(7).bytes(24 << 20)).unwrap();
    git(&["-C", "work", "add", "large"]);
    git(&["-C", "work", "commit", "--quiet", "-m", "large"]);
    let place = server.folder.path().join("root/large.git");
    git(&["clone", "--quiet", "--bare", "work", place.to_str().unwrap()]);
    git(&["-C", place.to_str().unwrap(), "repack", "-adq"]);

    let (has_stalled, stalled) = channel();
    let (go_on, told) = channel();
    let proxy = stalling_proxy(server.address("http"), 1 << 20, has_stalled, told);
    let url = format!("http://{proxy}/large.git");
    std::thread::scope(|scope| {
        let cloning = scope.spawn(|| {
            let mut clone = Git::stock().command(client.path());
            output(clone.args(["clone", "--quiet", "--bare", &url, "cloned"]))
        });
        let has_begun = stalled.recv_timeout(Duration::from_secs(60)).is_ok();
        let told = ["delete", "create"].map(|command| text(&repo(&server, command, &["large"])));
        // A clone that failed to start has ended already.
        let _ = go_on.send(());
        let cloned = cloning.join().unwrap();
        assert!(has_begun && told.iter().all(|told| told.2 == Some(0)), "{told:?}");
        assert!(cloned.status.success(), "{:?}{}", text(&cloned), server.log());
    });
    git(&["-C", "cloned", "fsck", "--full", "--strict"]);
    assert_eq!(git(&["-C", "cloned", "rev-parse", "main"]), git(&["-C", "work", "rev-parse", "main"]));
    assert_eq!(git(&["ls-remote", &url]), "");
}

/// Whether a process opens a pipe and writes to it.
fn is_heard(pipe: &Path) -> bool {
    let (sender, receiver) = channel();
    let pipe = pipe.to_owned();
    std::thread::spawn(move || sender.send(std::fs::read(pipe).unwrap()));
    receiver.recv_timeout(Duration::from_secs(60)).is_ok()
}

/// Pushes to `a.git`, and runs commands while this hook runs. Returns git's output, and those of the
/// commands.
fn push_during(server: &Server, hook: &str, commands: &[(&str, &[&str])]) -> (Said, Vec<Said>) {
    let root = server.folder.path().join("root");
    let [begun, go_on] = ["begun", "go-on"].map(|name| root.join(name));
    if !begun.exists() {
        assert!(Command::new("mkfifo").args([&begun, &go_on]).status().unwrap().success());
    }
    let text_of_hook = format!("#!/bin/sh\necho >'{}'\nread line <'{}'\n", begun.display(), go_on.display());
    packrace_testkit::write_program(&server.repository().join("hooks").join(hook), &text_of_hook);
    let client = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| text(&output(Git::stock().command(client.path()).args(args)));
    let url = format!("http://{}/a.git", server.address("http"));
    assert_eq!(git(&["clone", "--quiet", &url, "a"]).2, Some(0));
    git(&["-C", "a", "commit", "--quiet", "--allow-empty", "-m", hook]);
    let name = format!("HEAD:refs/heads/{hook}");
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| git(&["-C", "a", "push", &url, &name]));
        let mut said = Vec::new();
        // A push that fails earlier has ended already.
        if is_heard(&begun) {
            said.extend(commands.iter().map(|(command, args)| text(&repo(server, command, args))));
            std::fs::write(&go_on, "\n").unwrap();
        }
        (pushing.join().unwrap(), said)
    })
}

#[test]
fn a_push_never_ends_in_another_repository() {
    let server = Server::start(PUSHING, &[], &[]);
    // Its objects are migrated, its ref is not: the repository cannot be removed.
    let commands: [(&str, &[&str]); 2] = [("delete", &["a"]), ("rename", &["a", "b"])];
    let ((_, said, code), told) = push_during(&server, "update", &commands);
    let refused = "fatal: 'a': repository is being changed; try again\n".to_owned();
    assert_eq!(told, vec![(String::new(), refused, Some(128)); 2]);
    assert_eq!(code, Some(0), "{said}");
    std::fs::remove_file(server.repository().join("hooks/update")).unwrap();
    // Before that it can be deleted, and a new repository of its name stays unchanged.
    let commands: [(&str, &[&str]); 2] = [("delete", &["a"]), ("create", &["a"])];
    let ((_, said, code), told) = push_during(&server, "pre-receive", &commands);
    assert!(told.len() == 2 && told.iter().all(|told| told.2 == Some(0)), "{told:?}");
    assert!(said.contains("repository was moved or deleted"), "{said}{}", server.log());
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(Git::stock().run(&server.repository(), &["for-each-ref"]), "");
    Git::stock().run(&server.repository(), &["fsck", "--strict"]);
}
