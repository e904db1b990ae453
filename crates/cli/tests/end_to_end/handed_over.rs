//! Connections and listening sockets that another process opened: inetd and systemd.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use packrace_testkit::peer::{Feed, Script, http, stdio, tcp};
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

use crate::running::{PACKRACE, assert_no_panic};

fn root() -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    RepoBuilder::new(Size::Tiny).build_at(&dir.path().join("a.git"), Git::stock());
    dir
}

fn inetd(root: &Path) -> Command {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.args(["serve", "--inetd"]).arg(root);
    command
}

#[test]
fn one_connection_on_pipes() {
    let root = root();
    let check = |script: Script, words: &str| {
        let reply = stdio(&mut inetd(root.path()), script.bytes(), Feed::ByteByByte);
        assert_no_panic(&reply.stderr);
        let said = String::from_utf8_lossy(&reply.stdout).into_owned();
        assert!(said.contains(words), "{said}");
        said
    };
    let tip = Git::stock().run(&root.path().join("a.git"), &["rev-parse", "HEAD"]);
    check(Script::new().data(b"git-upload-pack /a.git\0host=h\0").flush(), &format!("{} HEAD", tip.trim()));
    check(Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").flush(), "version 2\n");
    check(Script::new().data(b"git-upload-pack /b.git\0host=h\0"), "ERR access denied");
    assert_eq!(check(Script::new(), ""), "");
    assert_eq!(check(Script::new().raw(b"zzzz"), ""), "");
}

/// As inetd does: accepts, and passes the connection to a new program.
#[test]
fn stock_git_clones_from_inetd() {
    let root = root();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = root.path().to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let ends = [(); 3].map(|()| Stdio::from(OwnedFd::from(stream.try_clone().unwrap())));
            let [input, output, errors] = ends;
            // Standard error is the connection, too: the log must not be written to it.
            let mut child = inetd(&served).stdin(input).stdout(output).stderr(errors).spawn().unwrap();
            drop(stream);
            child.wait().unwrap();
        }
    });
    for version in ["0", "1", "2"] {
        let protocol = format!("protocol.version={version}");
        let url = format!("git://{address}/a.git");
        Git::stock().run(root.path(), &["-c", &protocol, "clone", "-q", "--mirror", &url, version]);
        Git::stock().run(&root.path().join(version), &["fsck", "--full", "--strict"]);
    }
}

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `packrace serve` with these listening sockets, as systemd does, but with their numbers here.
fn activate(root: &Path, listeners: &[TcpListener], names: Option<&str>) -> Command {
    let first = listeners[0].as_raw_fd();
    for (number, listener) in listeners.iter().enumerate() {
        assert_eq!(listener.as_raw_fd(), first + number as i32, "they stand in a row");
        rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::empty()).unwrap();
    }
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh", PACKRACE, "serve"]).arg(root);
    command.env("LISTEN_FDS", listeners.len().to_string()).env("LISTEN_FDS_FIRST_FD", first.to_string());
    if let Some(names) = names {
        command.env("LISTEN_FDNAMES", names);
    }
    command
}

/// Two listening sockets with consecutive descriptors, whatever else this process opens meanwhile: others are
/// kept open, so that the gaps they fill are not found again.
fn two_listeners() -> [TcpListener; 2] {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let mut held = vec![listen()];
    for _ in 0..1000 {
        let (next, last) = (listen(), held.pop().unwrap());
        if next.as_raw_fd() == last.as_raw_fd() + 1 {
            return [last, next];
        }
        held.extend([last, next]);
    }
    panic!("no two descriptors in a row");
}

#[test]
fn sockets_of_systemd() {
    let root = root();
    for (names, is_turned) in
        [(None, false), (Some("http:git"), false), (Some("git:http"), true), (Some("x:y"), false)]
    {
        let mut listeners = two_listeners();
        let mut command = activate(root.path(), &listeners, names);
        let _running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        if is_turned {
            listeners.reverse();
        }
        let [at_http, at_git] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
        assert_eq!(http(at_http, head, b"", Feed::Whole).status, 200, "{names:?}");
        let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").flush();
        assert!(tcp(at_git, hello.bytes(), Feed::Whole).starts_with(b"000eversion 2\n"), "{names:?}");
    }
    let listeners = two_listeners();
    let refused = activate(root.path(), &listeners, Some("http:other")).output().unwrap();
    assert_eq!(refused.status.code(), Some(128));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("named http, https, git or ssh, not 'http:other'"), "{said}");
    let refused = activate(root.path(), &listeners, Some("http:https")).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.ends_with("fatal: listen.https: needs tls.certificates\n"), "{said}");
    // They are meant for another process: the default address is used.
    let mut other = Command::new(PACKRACE);
    clean_environment(&mut other);
    other.args(["serve", "--git", "127.0.0.1:0"]).arg(root.path());
    other.env("LISTEN_FDS", "1").env("LISTEN_PID", "1").stdout(Stdio::piped());
    let mut running = Running(other.spawn().unwrap());
    let mut line = [0; 8];
    running.0.stdout.take().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"packrace");
}
