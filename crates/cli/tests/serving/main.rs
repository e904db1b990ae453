//! `packrace serve` as an operator uses it: settings, signals and the log.

mod access;
mod bucket;
mod bucket_pushes;
mod bucket_upkeep;
mod clone;
mod disk;
mod events;
mod followers;
mod forward_auth;
mod gitolite;
mod hooks;
mod hostile;
mod how_to;
mod other_clients;
mod quotas;
mod repositories;
mod sandbox;
mod seaweedfs;
mod shell;
mod ssh;
mod strangers;
mod threads;
mod tls;
mod webhooks;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

/// A server of a folder with `a.git`.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
    /// The address of each scheme.
    addresses: Vec<(String, SocketAddr)>,
}

impl Server {
    /// Starts a server with this configuration file, and additional arguments and variables.
    fn start(config: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
        Server::start_for(folder, &root, config, args, variables)
    }

    /// The same for another served folder; settings and log are in `folder`.
    fn start_for(
        folder: tempfile::TempDir,
        root: &Path,
        config: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        std::fs::write(folder.path().join("serve.toml"), config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = packrace();
        command.args(["serve", "--config"]).arg(folder.path().join("serve.toml")).args(args).arg(root);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        // All addresses are printed before anything is served.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = config.matches(":0\"").count() + args.iter().filter(|arg| arg.ends_with(":0")).count();
        let hidden = variables.iter().filter(|(_, value)| *value == "none").count();
        let addresses = (0..wanted - hidden).map(|_| {
            let line = lines.next().expect("the server says where it is").unwrap();
            let (before, address) =
                line.trim_end_matches("/-/").trim_end_matches('/').split_once("://").unwrap();
            let scheme = before.rsplit(' ').next().unwrap();
            let scheme = if line.contains("status page") { "admin" } else { scheme };
            (scheme.to_owned(), address.parse().unwrap())
        });
        let addresses = addresses.collect();
        Server { folder, child, addresses }
    }

    fn address(&self, scheme: &str) -> SocketAddr {
        self.addresses.iter().find(|(other, _)| other == scheme).expect("it is served").1
    }

    fn get(&self, path: &str) -> HttpReply {
        http(self.address("http"), &format!("GET {path} HTTP/1.1"), b"", Feed::Whole)
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("serve.toml")
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("root/a.git")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("sh").args(["-c", "kill \"$@\"", "kill", name, &pid]).status().unwrap().success()
        );
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come; {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn packrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packrace"));
    clean_environment(&mut command);
    command
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

const LOOPBACK: &str = "[listen]\nhttp = \"127.0.0.1:0\"\n";
const MAY_PUSH: &str = "/a.git/info/refs?service=git-receive-pack";

#[test]
fn settings_that_are_not_understood_end_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.toml");
    let name = file.display().to_string();
    let check = |config: &str, args: &[&str], variables: &[(&str, &str)], expect: &str| {
        std::fs::write(&file, config).unwrap();
        let mut command = packrace();
        command
            .args(["serve", "--config", &name])
            .args(args)
            .arg(folder.path())
            .envs(variables.iter().copied());
        let output = output(&mut command);
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("fatal: {expect}\n"));
        assert_eq!(output.status.code(), Some(128), "{expect}");
    };
    let what = "limits.drain-tim: unknown setting";
    check("[limits]\ndrain-tim = 3\n", &[], &[], &format!("{name}:2:1: {what}"));
    check("[push]\nallowed = 1\n", &[], &[], &format!("{name}:2:11: push.allowed: 1 is not true or false"));
    check("", &[], &[("PACKRACE_SERVE_PUSH", "1")], "PACKRACE_SERVE_PUSH: unknown setting");
    let flags = ["--set", "log.level=loud"];
    let words = "\"loud\" is not one of off, error, warn, info and debug";
    check("", &flags, &[], &format!("--set log.level=loud: {words}"));

    let missing = output(packrace().args(["serve", "--config", "/nowhere/serve.toml", "."]));
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(said, "fatal: /nowhere/serve.toml: No such file or directory\n");
    assert_eq!(output(packrace().arg("serve")).status.code(), Some(129));
}

#[test]
fn the_printed_example_is_a_file_that_changes_nothing() {
    let printed = output(packrace().args(["serve", "--print-config"]));
    assert!(printed.status.success());
    let example = String::from_utf8(printed.stdout).unwrap();
    assert!(example.contains("\n[limits]\n") && example.contains("\n#drain-time = \"10s\"\n"), "{example}");
    let server = Server::start(&example, &["--set", "listen.http=127.0.0.1:0"], &[]);
    assert_eq!(server.get("/-/readyz").status, 200);
    assert_eq!(server.get(MAY_PUSH).status, 403);
}

#[test]
fn options_go_before_variables_and_variables_before_files() {
    let config = format!("{LOOPBACK}git = \"127.0.0.1:0\"\nadmin = \"none\"\n[push]\nallowed = false\n");
    let variables = [
        ("PACKRACE_SERVE_LISTEN_GIT", "none"),
        ("PACKRACE_SERVE_PUSH_ALLOWED", "true"),
        ("PACKRACE_SERVE_LISTEN_ADMIN", "http"),
    ];
    let server = Server::start(&config, &["--set", "listen.admin=127.0.0.1:0"], &variables);
    let schemes: Vec<&str> = server.addresses.iter().map(|(scheme, _)| scheme.as_str()).collect();
    assert_eq!(schemes, ["http", "admin"]);
    assert_eq!(server.get(MAY_PUSH).status, 200);
    assert_eq!(server.get("/-/").status, 404);
    assert_eq!(http(server.address("admin"), "GET /-/ HTTP/1.1", b"", Feed::Whole).status, 200);
}

#[test]
fn a_file_is_read_again_on_sighup() {
    let server = Server::start(LOOPBACK, &[], &[]);
    let write = |text: &str| {
        std::fs::write(server.config(), text).unwrap();
        server.signal("-HUP");
    };
    assert_eq!(server.get(MAY_PUSH).status, 403);
    write(&format!("{LOOPBACK}[push]\nallowed = true\n"));
    server.wait_until("leave to push", |server| server.get(MAY_PUSH).status == 200);
    write(&format!("{LOOPBACK}[push]\nallowed = maybe\n"));
    let words = format!("reload failed, settings unchanged: {}:4:11: ", server.config().display());
    server.wait_until("the complaint", |server| server.log().contains(&words));
    assert_eq!(server.get(MAY_PUSH).status, 200);
    write(&format!("{LOOPBACK}git = \"127.0.0.1:9\"\n[log]\nlevel = \"warn\"\n"));
    let words = "changed: push.allowed, log.level; restart needed for: listen.git";
    server.wait_until("what needs a restart", |server| server.log().contains(words));
    server.wait_until("no leave to push", |server| server.get(MAY_PUSH).status == 403);
    let lines = server.log().lines().count();
    assert_eq!(server.get(MAY_PUSH).status, 403);
    assert_eq!(server.log().lines().count(), lines, "requests are logged no more: {}", server.log());
}

#[test]
fn a_server_that_stops_lets_in_no_clones() {
    let config = format!("{LOOPBACK}git = \"127.0.0.1:0\"\n[limits]\ngrace-time = \"1h\"\n");
    let mut server = Server::start(&config, &[], &[]);
    let tip = Git::stock().run(&server.repository(), &["rev-parse", "HEAD"]);
    let parent = Git::stock().run(&server.repository(), &["rev-parse", "HEAD^"]);
    let post = |haves: &[&str]| {
        let head = "POST /a.git/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
                    Content-Type: application/x-git-upload-pack-request";
        let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], haves);
        http(server.address("http"), head, fetch.bytes(), Feed::Whole)
    };
    assert_eq!(post(&[]).status, 200);
    assert_eq!(server.get("/-/readyz").status, 200);
    server.signal("-TERM");
    server.wait_until("readyz to tell", |server| server.get("/-/readyz").status == 503);
    assert_eq!(server.get("/-/healthz").status, 200);
    let refused = post(&[]);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    assert_eq!(post(&[parent.trim()]).status, 200, "a fetch is served");
    let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
    let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], &[]);
    let answer = tcp(server.address("git"), &[hello.bytes(), fetch.bytes()].concat(), Feed::Whole);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.ends_with("ERR server is stopping; try again"), "{answer}");
    let metrics = String::from_utf8(server.get("/-/metrics").body).unwrap();
    assert!(metrics.contains("packrace_refusals_total{reason=\"stopping\"} 2\n"), "{metrics}");
    assert!(String::from_utf8(server.get("/-/").body).unwrap().contains("state stopping"));

    server.signal("-TERM");
    let start = Instant::now();
    let status = loop {
        match server.child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(start.elapsed() < Duration::from_secs(60), "a second signal does not end it"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn the_log_and_traces_know_each_other() {
    let server = Server::start(&format!("{LOOPBACK}[log]\nformat = \"json\"\nlevel = \"debug\"\n"), &[], &[]);
    Git::stock().run(&server.repository(), &["config", "transfer.advertiseSID", "true"]);
    let trace = server.folder.path().join("trace");
    let mut clone = Command::new("git");
    clean_environment(&mut clone);
    clone.env("GIT_TRACE2_EVENT", &trace).args([
        "-c",
        "transfer.advertiseSID=true",
        "clone",
        "--bare",
        "--quiet",
    ]);
    clone.arg(format!("http://{}/a.git", server.address("http"))).arg(server.folder.path().join("clone"));
    assert!(clone.status().unwrap().success());
    server.wait_until("the line of the clone", |server| server.log().contains("\"kind\":\"clone\""));

    let events = json_lines(&std::fs::read_to_string(&trace).unwrap());
    let sessions: Vec<&str> = events
        .iter()
        .filter(|event| event["key"] == "server-sid")
        .filter_map(|event| event["value"].as_str())
        .collect();
    let log = json_lines(&server.log());
    let line = log.iter().find(|line| line["kind"] == "clone").unwrap();
    let advertised = log.iter().find(|line| line["kind"] == "advertisement").unwrap();
    assert!(sessions.contains(&advertised["session"].as_str().unwrap()), "{sessions:?}, {advertised}");
    let client = line["client_session"].as_str().unwrap();
    assert!(events.iter().any(|event| event["sid"] == client), "{client}");
    assert_eq!((&line["door"], &line["outcome"]), (&"http".into(), &"200".into()));
    assert_eq!(line["request"], "POST /a.git/git-upload-pack");
    assert!(line["sent"].as_u64() > Some(100) && line["received"].as_u64() > Some(50), "{line}");
    for phase in ["plan", "generate", "send"] {
        let is_closed =
            |line: &&serde_json::Value| line["span"]["stage"] == phase && line["message"] == "close";
        assert!(log.iter().any(|line| is_closed(&line)), "no span {phase}");
    }
    assert!(server.log().lines().any(|line| line.contains(",\"session\":\"")), "{}", server.log());
}

#[test]
fn a_request_that_fails_is_one_line_with_its_cause() {
    let server = Server::start(LOOPBACK, &[], &[]);
    let post = "POST /a.git/git-upload-pack HTTP/1.1\nContent-Type: application/x-git-upload-pack-request\n\
                Git-Protocol: version=2";
    for (head, body, status, expect) in [
        ("GET /none.git/info/refs?service=git-upload-pack HTTP/1.1", "", 404, "404 error=\"not served: "),
        (&format!("GET {MAY_PUSH} HTTP/1.1"), "", 403, "403 error=\"service not enabled: "),
        (post, "0014command=ls-refs\n", 400, "400 error="),
        (post, "0015command=frobnic\n0000", 200, "200 failed error=\"invalid command "),
    ] {
        let before = server.log().len();
        assert_eq!(http(server.address("http"), head, body.as_bytes(), Feed::Whole).status, status, "{head}");
        server.wait_until(expect, |server| server.log()[before..].contains(&format!("outcome={expect}")));
        let log = server.log();
        let lines: Vec<_> = log[before..].lines().filter(|line| line.contains(".git")).collect();
        let [line] = lines[..] else { panic!("{head}: {log}") };
        for part in ["session=", "peer=127.0.0.1:", " kind=", " error_kind=peer-"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
