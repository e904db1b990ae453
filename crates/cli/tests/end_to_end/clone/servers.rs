//! Servers to clone from: git's own, and scripted ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::Git;

const PATIENCE: Duration = Duration::from_secs(60);

/// `git daemon` of a folder.
pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts it on a port that was free a moment ago.
    pub fn start(root: &Path) -> Daemon {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut command = Git::stock().command(root);
        // The program itself: a signal to `git` alone would not reach it.
        let programs = Git::stock().run(root, &["--exec-path"]);
        command = {
            let mut own = std::process::Command::new(Path::new(programs.trim()).join("git-daemon"));
            own.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            own
        };
        command.args(["--listen=127.0.0.1", "--export-all", "--reuseaddr", "--informative-errors"]);
        command
            .arg(format!("--port={}", address.port()))
            .arg(format!("--base-path={}", root.display()))
            .arg(root);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let daemon = Daemon { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < PATIENCE, "git daemon does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP server that starts `git http-backend` as a web server does, and has paths with other responses.
pub struct Web {
    pub address: SocketAddr,
}

impl Web {
    /// Starts a server that ends with the process.
    pub fn start(root: &Path) -> Web {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let root = root.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let root = root.clone();
                std::thread::spawn(move || while answer(&stream, &root).is_some() {});
            }
        });
        Web { address }
    }
}

/// Responds to one request; `None` if there is none.
fn answer(mut stream: &TcpStream, root: &PathBuf) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = std::collections::HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => drop(fields.insert(name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length: usize = fields.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let redirect =
        |to: &str| format!("HTTP/1.1 302 Found\r\nLocation: {to}?{query}\r\nContent-Length: 0\r\n\r\n");
    let special = if let Some(rest) = path.strip_prefix("/status/") {
        Some(format!("HTTP/1.1 {} Oops\r\nContent-Length: 0\r\n\r\n", rest.split('/').next()?))
    } else if let Some(rest) = path.strip_prefix("/moved/") {
        Some(redirect(&format!("/{rest}")))
    } else if let Some(rest) = path.strip_prefix("/away/") {
        Some(redirect(&format!("http://localhost:1/{rest}")))
    } else if path.starts_with("/loop/") {
        Some(redirect(path))
    } else {
        let plain = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
        path.starts_with("/plain/").then(|| plain.to_owned())
    };
    if let Some(special) = special {
        return stream.write_all(special.as_bytes()).ok();
    }
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let mut command = Git::stock().command(root);
    command.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("PATH_INFO", path).env("QUERY_STRING", query).env("REQUEST_METHOD", method);
    command.env("CONTENT_TYPE", field("content-type")).env("CONTENT_LENGTH", length.to_string());
    command.env("GIT_PROTOCOL", field("git-protocol")).env("REMOTE_ADDR", "127.0.0.1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(&body);
    let output = child.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let head = format!("HTTP/1.1 {status}\r\n{head}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    for chunk in output[end + 4..].chunks(1000).filter(|chunk| !chunk.is_empty()) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).ok()?;
        stream.write_all(chunk).ok()?;
        stream.write_all(b"\r\n").ok()?;
    }
    stream.write_all(b"0\r\n\r\n").ok()
}

/// A git:// server that sends these responses, one after each request of one client, and then ends.
pub fn scripted(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut first = [0; 4];
        // The first request is one packet; the others end in a flush.
        let _ = stream.read_exact(&mut first);
        let length = usize::from_str_radix(&String::from_utf8_lossy(&first), 16).unwrap();
        let _ = stream.read_exact(&mut vec![0; length - 4]);
        for (number, answer) in answers.iter().enumerate() {
            if number > 0 {
                let (mut request, mut byte) = (Vec::new(), [0; 1]);
                while !request.ends_with(b"0000") && stream.read_exact(&mut byte).is_ok() {
                    request.push(byte[0]);
                }
            }
            if stream.write_all(answer).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}
