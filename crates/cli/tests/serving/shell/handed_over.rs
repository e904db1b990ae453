//! Sessions of `packrace shell` that a running server serves.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};

use packrace_os::descriptors;

use super::*;

impl Guarded {
    fn running(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn metric(&self, name: &str) -> u64 {
        let admin = self.running().address("admin");
        let metrics = http(admin, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body;
        let metrics = String::from_utf8(metrics).unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("packrace_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    #[track_caller]
    fn wait_for(&self, name: &str, value: u64) {
        self.running().wait_until(name, |_| self.metric(name) == value);
    }

    /// The number of the server's descriptors.
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.running().child.id())).unwrap().count()
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.file("socket")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A running session, with pipes as standard input and output.
    fn start_session(&self, user: &str, command: &str) -> Child {
        let mut shell = self.shell(user, Some(command.as_bytes()));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = shell.spawn().unwrap();
        self.wait_for(SESSIONS, 1);
        child
    }
}

const SESSIONS: &str = "connections{door=\"ssh\"}";

#[test]
fn stock_git_is_served_by_a_running_server() {
    let guarded = Guarded::served(GUARDED);
    super::serves_stock_git(&guarded);
    let log = guarded.running().log();
    assert!(log.contains("door=ssh peer=192.0.2.7:50122 user=\"alice\" kind=push"), "{log}");
    assert!(log.contains("request=\"git-upload-pack /private/none.git\" outcome=failed"), "{log}");
    guarded.wait_for(SESSIONS, 0);
}

#[test]
fn sessions_share_what_the_server_has() {
    let guarded = Guarded::served(GUARDED);
    for clone in ["first", "second"] {
        guarded.works("bob", &["clone", "--quiet", "--bare", "ssh://host/a.git", clone]);
    }
    assert_eq!(guarded.metric("transfers_finished_total{kind=\"clone\",door=\"ssh\"}"), 2);
    assert_eq!((guarded.metric("cache_misses_total"), guarded.metric("cache_hits_kept_total")), (1, 1));
    // The repository stays open once its files are no longer young.
    guarded.running().wait_until("a repository that is open", |_| {
        guarded.works("bob", &["ls-remote", "ssh://host/a.git"]);
        guarded.metric("repository_cache_hits_total") > 0
    });
    // Also with requests over HTTP.
    let url = format!("http://{}/a.git", guarded.running().address("http"));
    guarded.fails("", &["ls-remote", &url], "not found");
}

#[test]
fn limits_hold_and_are_told() {
    let check = |limit: &str, first_ends_with: &str| {
        let guarded = Guarded::served(&format!("{GUARDED}[limits]\n{limit} = 1\n"));
        // Clients whose address sshd does not report count as one.
        let first = guarded.start_session("bob", FETCH);
        let second = || {
            let mut second = guarded.shell("bob", Some(FETCH.as_bytes()));
            second.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(second.spawn().unwrap())
        };
        match first_ends_with {
            "" => {
                let refused = second();
                let words = "fatal: too many connections from your address; try again later\n";
                assert_eq!((said(&refused).as_str(), refused.status.code()), (words, Some(128)));
            }
            // A session that waits for its client for a second makes room.
            _ => guarded.running().wait_until("room", |_| second().status.success()),
        }
        let first = finish(first);
        assert_eq!(said(&first), first_ends_with, "{}", guarded.running().log());
        guarded.wait_for(SESSIONS, 0);
    };
    check("max-connections-per-address", "");
    check("max-requests-per-address", &format!("fatal: {CUT}\n"));
}

const FETCH: &str = "git-upload-pack '/a.git'";

const CUT: &str = "disconnected: idle while other clients waited";

/// Ends the input, and waits for the end of the session.
fn finish(mut shell: Child) -> Output {
    // It may have ended already.
    let _ = shell.stdin.take().unwrap().write_all(b"0000");
    shell.wait_with_output().unwrap()
}

#[test]
fn without_a_server_the_shell_serves_alone() {
    let settings = format!("[listen]\nshell = \"FOLDER/socket\"\n{GUARDED}");
    let guarded = Guarded::alone(&settings);
    let quiet = guarded.works("bob", &["ls-remote", "ssh://host/a.git"]);
    assert_eq!(said(&quiet), "");
    // The socket exists, but nothing listens.
    drop(UnixListener::bind(guarded.file("socket")).unwrap());
    assert_eq!(said(&guarded.works("bob", &["ls-remote", "ssh://host/a.git"])), "");
    // Another program listens, but does not respond.
    std::fs::remove_file(guarded.file("socket")).unwrap();
    let listener = UnixListener::bind(guarded.file("socket")).unwrap();
    let other = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert_eq!(said(&guarded.works("bob", &["ls-remote", "ssh://host/a.git"])), "");
    other.join().unwrap();

    let text = std::fs::read_to_string(guarded.file("shell.toml")).unwrap();
    std::fs::write(guarded.file("shell.toml"), format!("{text}[log]\nlevel = \"debug\"\n")).unwrap();
    let told = said(&guarded.works("bob", &["ls-remote", "ssh://host/a.git"]));
    assert!(told.contains("serving this session alone: "), "{told}");
}

#[test]
fn a_server_of_another_folder_is_not_asked() {
    let guarded = Guarded::served("");
    let other = guarded.file("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::rename(guarded.repository(), other.join("b.git")).unwrap();
    let mut shell = packrace();
    shell.args(["shell", "--config"]).arg(guarded.file("shell.toml")).arg(&other).arg("bob");
    let served = output(shell.env("SSH_ORIGINAL_COMMAND", "git-upload-pack 'b.git'"));
    assert!(String::from_utf8_lossy(&served.stdout).contains("refs/heads/main"), "{}", said(&served));
    let log = guarded.running().log();
    assert!(log.contains("ssh: cannot start a session: server serves another folder"), "{log}");
}

#[test]
fn a_killed_shell_ends_its_session() {
    let guarded = Guarded::served(GUARDED);
    let check = |mut child: Child| {
        child.kill().unwrap();
        child.wait().unwrap();
        guarded.wait_for(SESSIONS, 0);
        guarded.wait_for("requests_running", 0);
        // The server has closed its copies of the descriptors, too.
        let mut rest = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    };
    guarded.metric(SESSIONS);
    let before = guarded.descriptors();
    // The server waits for the client.
    check(guarded.start_session("alice", "git-receive-pack '/a.git'"));

    // The client does not read.
    let repository = guarded.repository();
    big_blob(&repository);
    let tip = Git::stock().run(&repository, &["rev-parse", "refs/heads/big"]);
    let mut child = guarded.start_session("alice", "git-upload-pack '/a.git'");
    let fetch = Script::new().line(&format!("want {}", tip.trim())).flush().line("done");
    child.stdin.as_mut().unwrap().write_all(fetch.bytes()).unwrap();
    guarded.wait_for("running_clones", 1);
    check(child);
    guarded.wait_for("running_clones", 0);

    // A hook runs.
    packrace_testkit::write_program(
        &repository.join("hooks/pre-receive"),
        "#!/bin/sh\necho $$ >started\nexec sleep 600\n",
    );
    guarded.clone_and_commit("alice", "clone");
    let mut push = guarded.command("alice");
    push.args(["-C", "clone", "push", "--quiet", "origin", "HEAD:refs/heads/new"]);
    let mut push = push.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    guarded.running().wait_until("the hook", |_| !pid(&repository.join("started")).is_empty());
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill \"$@\"", "kill", "-KILL", &pid(&guarded.file("pid"))]);
    let kill = kill.status().unwrap();
    assert!(kill.success() && !push.wait().unwrap().success());
    let hook = PathBuf::from(format!("/proc/{}", pid(&repository.join("started"))));
    guarded.running().wait_until("the end of the hook", |_| !hook.exists());
    guarded.wait_for(SESSIONS, 0);
    guarded.wait_for("requests_running", 0);
    guarded.running().wait_until("the descriptors", |_| guarded.descriptors() <= before + 2);
}

/// A branch `big` with an incompressible file of 8 MiB.
fn big_blob(repository: &Path) {
    let mut state = 1_u64;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    let bytes: Vec<u8> = random.take(8 << 20).collect();
    std::fs::write(repository.join("big"), bytes).unwrap();
    let git = |args: &[&str]| Git::stock().run(repository, args).trim().to_owned();
    let blob = git(&["hash-object", "-w", "big"]);
    std::fs::write(repository.join("index-info"), format!("100644 {blob}\tbig\n")).unwrap();
    let mut update = Git::stock().command(repository);
    update.args(["update-index", "--index-info"]);
    update.stdin(std::fs::File::open(repository.join("index-info")).unwrap());
    assert!(update.status().unwrap().success());
    let commit = git(&["commit-tree", "-m", "big", &git(&["write-tree"])]);
    git(&["update-ref", "refs/heads/big", &commit]);
}

#[test]
fn what_is_no_session_is_disconnected() {
    let guarded = Guarded::served(GUARDED);
    guarded.metric(SESSIONS);
    let before = guarded.descriptors();
    let is_closed = |mut stream: UnixStream, what: &str| {
        let mut answer = Vec::new();
        // With unread bytes it is a reset.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{what}");
    };
    let root = guarded.file("root");
    let head = |version: u8, length: u16| [&b"prshell"[..], &[version], &length.to_be_bytes()].concat();
    let text = |text: &[u8]| [&(text.len() as u16).to_be_bytes()[..], text].concat();
    let body = |service: u8, path: &[u8]| {
        let root = root.as_os_str().as_encoded_bytes();
        [&[service, 2][..], &text(root), &text(path), &text(b"alice"), &text(b"")].concat()
    };
    let whole = |service: u8, path: &[u8]| {
        let body = body(service, path);
        [head(1, body.len() as u16), body].concat()
    };
    let good = whole(b'u', b"/a.git");
    let bad = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"x".to_vec(),
        head(2, 10),
        head(1, 0),
        head(1, u16::MAX),
        [&good[..], b"x"].concat(),
        good[..good.len() - 1].to_vec(),
        whole(b'x', b"/a.git"),
        whole(b'u', b""),
        whole(b'u', b"~alice/a.git"),
    ];
    let refused = || guarded.metric("refusals_total{reason=\"broken\"}");
    for message in &bad {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let stream = guarded.connect();
        descriptors::send(&stream, message, &[writer.as_fd(); 3]).unwrap();
        drop(writer);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        is_closed(stream, &String::from_utf8_lossy(message));
        // The other end is closed.
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    }
    // Without descriptors, and with too few.
    let mut stream = guarded.connect();
    stream.write_all(&good).unwrap();
    is_closed(stream, "no descriptors");
    // Nothing is sent.
    drop(guarded.connect());
    guarded.running().wait_until("refusals", |_| refused() == bad.len() as u64 + 2);

    // A client that disconnects at the last moment: its descriptors are never used.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut stream = guarded.connect();
    descriptors::send(&stream, &good, &[writer.as_fd(); 3]).unwrap();
    let mut ready = [0];
    stream.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"R");
    drop((stream, writer));
    assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    guarded.running().wait_until("the descriptors", |_| guarded.descriptors() <= before);
    guarded.works("bob", &["ls-remote", "ssh://host/a.git"]);
}

#[test]
fn the_socket_is_its_users_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let guarded = Guarded::served("");
    assert_eq!(std::fs::metadata(guarded.file("socket")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
#[ignore = "needs python3"]
fn other_users_are_disconnected() {
    use std::os::unix::fs::PermissionsExt as _;
    let guarded = Guarded::served("");
    if packrace_os::process::effective_user() != 0 {
        // Only root can become another user.
        return;
    }
    let set = |name: &str, mode| {
        std::fs::set_permissions(guarded.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("socket", 0o666);
    set("", 0o755);
    // The folders above need not be open to that user.
    const CLIENT: &str = "import os, socket\n\
        os.setuid(65534)\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect('socket')\n\
        try: s.send(b'x'); print(s.recv(1))\n\
        except OSError: print(b'')\n";
    let mut client = Command::new("python3");
    let client = output(client.args(["-c", CLIENT]).current_dir(guarded.file("")));
    assert_eq!(String::from_utf8_lossy(&client.stdout), "b''\n", "{}", said(&client));
    guarded.running().wait_until("the log", |server| {
        server.log().contains("ssh: cannot start a session: peer runs as another user")
    });
}

#[test]
fn a_server_that_stops_leaves_sessions_to_the_shell() {
    let guarded = Guarded::served("[limits]\ngrace-time = \"1h\"\n");
    // A second server cannot take over the socket of a running one.
    let mut second = packrace();
    second.args(["serve", "--config"]).arg(guarded.file("shell.toml")).arg(guarded.file("root"));
    let second = output(&mut second);
    let words = format!(
        "fatal: cannot listen at {}: another server is listening there\n",
        guarded.file("socket").display()
    );
    assert_eq!(said(&second), words);
    guarded.running().signal("-TERM");
    guarded.running().wait_until("readyz to tell", |server| server.get("/-/readyz").status == 503);
    guarded.fails("bob", &["clone", "ssh://host/a.git", "late"], "server is stopping; try again");
    guarded.running().signal("-TERM");
    guarded.running().wait_until("the end", |_| UnixStream::connect(guarded.file("socket")).is_err());
    guarded.works("bob", &["clone", "--quiet", "ssh://host/a.git", "alone"]);
}
