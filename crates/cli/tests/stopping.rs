//! How `packrace serve` starts and stops.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::peer::Script;
use packrace_testkit::{RepoBuilder, Size, clean_environment};

/// Time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_stopping_server_finishes_what_it_began_and_takes_no_more() {
    let repo = RepoBuilder::new(Size::Medium).build();
    let mut server = Command::new(env!("CARGO_BIN_EXE_packrace"));
    clean_environment(&mut server);
    // Running requests may take any time; idle connections are not waited for.
    server.env("PACKRACE_SERVE_LIMITS_DRAIN_TIME", "3600s");
    server.args(["serve", "--http", "127.0.0.1:0", "--git", "127.0.0.1:0"]).arg(repo.path());
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut address_after = |scheme: &str| -> SocketAddr {
        let line = lines.next().unwrap().unwrap();
        let expect = format!("packrace: serving {} at {scheme}://", repo.path().display());
        let rest = line.strip_prefix(&expect).unwrap_or_else(|| panic!("{line}"));
        rest.trim_end_matches('/').parse().unwrap()
    };
    let (http, git) = (address_after("http"), address_after("git"));

    let tip = repo.git(&["rev-parse", "HEAD"]);
    let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], &[]);
    let hello = Script::new().data(b"git-upload-pack /\0host=h\0\0version=2\0");
    let post = format!(
        "POST /git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\n\
         Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
        fetch.bytes().len()
    );
    let mut by_http = begin(http, &[post.as_bytes(), fetch.bytes()].concat());
    let mut by_git = begin(git, &[hello.bytes(), fetch.bytes(), b"0000"].concat());
    let idle = TcpStream::connect(http).unwrap();

    let pid = server.id().to_string();
    assert!(
        Command::new("sh").args(["-c", "kill \"$@\"", "kill", "-TERM", &pid]).status().unwrap().success()
    );
    let start = Instant::now();
    while TcpStream::connect(http).is_ok() || TcpStream::connect(git).is_ok() {
        assert!(start.elapsed() < PATIENCE, "the server takes new connections");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut answer = Vec::new();
    by_http.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 10 << 20 && answer.ends_with(b"0000\r\n0\r\n\r\n"), "{} bytes", answer.len());
    answer.clear();
    by_git.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 10 << 20 && answer.ends_with(b"0000"), "{} bytes", answer.len());
    let status = wait(&mut server, PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    drop(idle);
}

/// Sends a request and reads the beginning of the response.
fn begin(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    stream
}

fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[test]
fn what_cannot_be_served_is_said() {
    let check = |args: &[&str], words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packrace"));
        clean_environment(&mut command);
        let output = command.args(args).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // After the log lines of the start.
        let fatal = said.lines().find(|line| line.starts_with("fatal: ")).unwrap_or_default();
        assert!(fatal.contains(words), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(128), "{args:?}");
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    check(&["serve", "/nowhere/at/all"], "/nowhere/at/all");
    check(&["serve", "--http", &taken, "."], &format!("cannot listen on {taken}"));
    check(&["-C", "/nowhere", "serve", "."], "cannot change to '/nowhere': No such file or directory");
    check(&["-C", "/nowhere", "upload-pack", "."], "cannot change to '/nowhere': No such file or directory");
    // One without a name would be that of all refs.
    for bad in ["a..b", "a/../b", "/", "///"] {
        let option = format!("--namespace={bad}");
        for command in ["upload-pack", "receive-pack", "serve"] {
            check(&[&option, command, "."], &format!("bad git namespace path \"{bad}\""));
        }
    }
}
