//! Starts packrace, as a command and as a server.

use std::io::{BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use packrace_object::TrailerHasher;
use packrace_testkit::peer::{self, Feed, Reply};
use packrace_testkit::{Git, Repo, clean_environment};

/// The binary under test.
pub const PACKRACE: &str = env!("CARGO_BIN_EXE_packrace");

/// `packrace upload-pack DIR` in a clean environment, with this protocol version.
pub fn upload_pack(dir: &Path, version: u32) -> Command {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.arg("upload-pack").arg(dir).env("GIT_PROTOCOL", format!("version={version}"));
    command
}

/// Runs a script against `packrace upload-pack`, and checks for a panic.
pub fn answer_to(dir: &Path, version: u32, script: &[u8], feed: Feed) -> Reply {
    let reply = peer::stdio(&mut upload_pack(dir, version), script, feed);
    assert_no_panic(&reply.stderr);
    reply
}

/// Fails if a panic or a fatal signal was reported.
pub fn assert_no_panic(stderr: &str) {
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A running `packrace serve`; it ends when dropped.
pub struct Server {
    child: Child,
    /// The HTTP address.
    pub http: SocketAddr,
    /// The git:// address.
    pub git: SocketAddr,
}

impl Server {
    /// Serves every repository below `root` on ports chosen by the system, which it prints.
    pub fn start(root: &Path) -> Server {
        Server::start_with(root, &[])
    }

    /// The same with configuration, `name=value` each.
    pub fn start_with(root: &Path, config: &[&str]) -> Server {
        Server::start_that(root, config, &[])
    }

    /// Serves the refs of one namespace.
    pub fn start_namespace(root: &Path, namespace: &str) -> Server {
        let mut command = clean_packrace();
        command.args(["--namespace", namespace]);
        Server::start_command(command, root, &[], &["--allow-push"])
    }

    /// The same without these variables; every client may push.
    pub fn start_without(root: &Path, variables: &[&str]) -> Server {
        let mut command = clean_packrace();
        for name in variables {
            command.env_remove(name);
        }
        Server::start_command(command, root, &[], &["--allow-push"])
    }

    /// The same with options of `serve`.
    pub fn start_that(root: &Path, config: &[&str], options: &[&str]) -> Server {
        Server::start_command(clean_packrace(), root, config, options)
    }

    fn start_command(mut command: Command, root: &Path, config: &[&str], options: &[&str]) -> Server {
        command.args(config.iter().flat_map(|setting| ["-c", setting]));
        command.arg("serve").args(options).args(["--http", "127.0.0.1:0", "--git", "127.0.0.1:0"]).arg(root);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("packrace starts");
        let (sender, lines) = mpsc::channel();
        forward(child.stdout.take().expect("piped"), sender.clone());
        forward(child.stderr.take().expect("piped"), sender);
        let (mut http, mut git) = (None, None);
        let mut said = String::new();
        while http.is_none() || git.is_none() {
            let Ok(line) = lines.recv_timeout(Duration::from_secs(120)) else {
                let _ = child.kill();
                panic!("packrace serve did not say where it listens:\n{said}");
            };
            http = http.or(address_in(&line, "http://"));
            git = git.or(address_in(&line, "git://"));
            said.push_str(&line);
            said.push('\n');
        }
        Server { child, http: http.expect("found"), git: git.expect("found") }
    }
}

fn clean_packrace() -> Command {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards every line to the end, even if the receiver is dropped, so that the server never blocks.
fn forward(stream: impl std::io::Read + Send + 'static, sender: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if line.contains("panicked") {
                eprintln!("{line}");
            }
            let _ = sender.send(line);
        }
    });
}

fn address_in(line: &str, scheme: &str) -> Option<SocketAddr> {
    let rest = line.split_once(scheme)?.1;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Runs packrace in `dir` with `input` on standard input.
pub fn packrace(dir: &Path, args: &[&str], input: &str) -> std::process::Output {
    packrace_with(dir, args, input.as_bytes(), &[])
}

/// The same with environment variables, and any input.
pub fn packrace_with(
    dir: &Path,
    args: &[&str],
    input: &[u8],
    variables: &[(&str, &str)],
) -> std::process::Output {
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.current_dir(dir).args(args).envs(variables.iter().copied());
    let output = output_of(&mut command, input);
    assert_no_panic(&String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs stock git the same way.
pub fn stock_git(dir: &Path, args: &[&str], input: &str) -> std::process::Output {
    stock_git_with(dir, args, input.as_bytes(), &[])
}

/// The same with environment variables, and any input.
pub fn stock_git_with(
    dir: &Path,
    args: &[&str],
    input: &[u8],
    variables: &[(&str, &str)],
) -> std::process::Output {
    output_of(Git::stock().command_with(dir, args).envs(variables.iter().copied()), input)
}

fn output_of(command: &mut Command, input: &[u8]) -> std::process::Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A command that does not read all of it ends nevertheless.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("a child can be waited for")
}

/// Copies a directory and everything in it.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp is there");
    assert!(status.success(), "{from:?} to {to:?}");
}

/// A file of a repository that is derived from others, and a command that verifies it.
pub struct DerivedFile<'a> {
    repo: &'a Repo,
    path: PathBuf,
    bytes: Vec<u8>,
    verify: &'a [&'a str],
}

impl<'a> DerivedFile<'a> {
    /// The file `name` of `repo`.
    pub fn of(repo: &'a Repo, name: &str, verify: &'a [&'a str]) -> Self {
        let path = repo.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        DerivedFile { repo, path, bytes, verify }
    }

    /// The start of a chunk, by the table of contents after the header.
    pub fn chunk(&self, header_bytes: usize, id: &[u8; 4]) -> usize {
        let entry = self.bytes[header_bytes..].chunks(12).find(|entry| &entry[..4] == id).unwrap();
        u64::from_be_bytes(entry[4..].try_into().unwrap()) as usize
    }

    /// Changes the file, with a correct checksum if requested.
    pub fn change(&self, change: &dyn Fn(&mut Vec<u8>), with_checksum: bool) {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        if with_checksum {
            bytes.truncate(bytes.len() - self.repo.hash().len_in_bytes());
            let mut hasher = TrailerHasher::new(self.repo.hash());
            hasher.update(&bytes);
            bytes.extend_from_slice(hasher.finish().as_slice());
        }
        self.write(&bytes);
    }

    /// Changes the file, with a correct checksum if requested: both verify it with the same result, in the
    /// same words if requested.
    pub fn check(&self, change: &dyn Fn(&mut Vec<u8>), with_checksum: bool, is_same_text: bool) {
        self.change(change, with_checksum);
        let of_git = stock_git(self.repo.path(), self.verify, "");
        let of_ours = packrace(self.repo.path(), self.verify, "");
        let [git, ours] = [&of_git, &of_ours].map(|output| String::from_utf8_lossy(&output.stderr));
        assert_eq!(of_git.status.code(), of_ours.status.code(), "{git}\n{ours}");
        if is_same_text {
            assert_eq!(git, ours);
        }
    }

    /// Restores the file.
    pub fn restore(&self) {
        self.write(&self.bytes);
    }

    /// Replaces the file, which may be read-only.
    fn write(&self, bytes: &[u8]) {
        std::fs::remove_file(&self.path).unwrap();
        std::fs::write(&self.path, bytes).unwrap();
    }
}
