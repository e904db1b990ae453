//! Many clients at once over git://: `git daemon` beside `packrace serve`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, clean_environment};

use crate::measure::{Observation, Peak, STRACE, Timing, process_tree, processor_seconds, sample_memory};

/// How long a server may take until it accepts connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections that a client tries at most.
const MOST_TRIES: usize = 100;

/// What a client reads at once.
const READ_BYTES: usize = 1 << 20;

/// A server of all repositories in one directory; it ends when dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// git's daemon knows none.
    http: Option<SocketAddr>,
    /// Whether the child is strace, which ends after what it looks at.
    is_traced: bool,
}

impl Server {
    /// `git daemon` on a port that was free a moment ago; its calls counted into a file, if there is one.
    pub fn git_daemon(git: &Git, root: &Path, calls: Option<&Path>) -> io::Result<Server> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = git.command(root);
        command.args(["daemon", "--listen=127.0.0.1", "--export-all", "--reuseaddr", "--max-connections=0"]);
        command
            .arg("--enable=receive-pack")
            .arg(format!("--port={}", address.port()))
            .arg(format!("--base-path={}", root.display()))
            .arg(root);
        let mut command = traced(command, calls);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Server { child, address, http: None, is_traced: calls.is_some() };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if start.elapsed() > PATIENCE {
                return Err(io::Error::other("git daemon does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// `packrace serve` on ports that it chooses and prints.
    pub fn packrace(binary: &Path, root: &Path, calls: Option<&Path>) -> io::Result<Server> {
        let mut command = Command::new(binary);
        clean_environment(&mut command);
        command.args(["serve", "--allow-push", "--http", "127.0.0.1:0", "--git", "127.0.0.1:0"]).arg(root);
        let mut command = traced(command, calls);
        let (reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the other end of the pipe; without it the lines end with the server.
        drop(command);
        let mut lines = BufReader::new(reader).lines();
        let mut addresses = (None, None);
        for line in lines.by_ref().map_while(Result::ok) {
            addresses.0 = addresses.0.or(address_in(&line, "git://"));
            addresses.1 = addresses.1.or(address_in(&line, "http://"));
            if addresses.0.is_some() && addresses.1.is_some() {
                break;
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        let (Some(address), http @ Some(_)) = addresses else {
            return Err(io::Error::other("packrace serve did not say where it listens"));
        };
        Ok(Server { child, address, http, is_traced: calls.is_some() })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where clients find a repository of its directory: over HTTP if that is wanted and there, and else over git://.
    pub fn url(&self, wants_http: bool, repo: &Path) -> String {
        let name = repo.file_name().unwrap_or_default().to_string_lossy();
        match self.http {
            Some(http) if wants_http => format!("http://{http}/{name}"),
            _ => format!("git://{}/{name}", self.address),
        }
    }

    /// Does something while the memory of the server is looked at; `None` if that was too quick to see.
    pub fn watched<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Option<Peak>)> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sampler = scope.spawn(|| sample_memory(self.child.id(), &done));
            let result = act();
            done.store(true, Relaxed);
            let peak = sampler.join().expect("sampling does not panic");
            Ok((result?, (peak.anonymous_bytes > 0).then_some(peak)))
        })
    }

    /// Lets `clients` send the request at once and read to the end.
    pub fn time(&self, request: &[u8], clients: usize) -> io::Result<Timing> {
        let before = processor_seconds(self.child.id());
        let start = Instant::now();
        let bytes = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..clients).map(|_| scope.spawn(|| self.read(request, &mut io::sink()))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("reading does not panic"))
                .sum::<io::Result<u64>>()
        })?;
        let wall_seconds = start.elapsed().as_secs_f64();
        // The last processes of the server end after their answers.
        std::thread::sleep(Duration::from_millis(100));
        Ok(Timing { wall_seconds, cpu_seconds: processor_seconds(self.child.id()) - before, bytes })
    }

    /// As [`Server::time`] for the memory, and one answer.
    pub fn observe(&self, request: &[u8], clients: usize) -> io::Result<Observation> {
        let ((), peak) = self.watched(|| self.time(request, clients).map(drop))?;
        let mut answer = Vec::new();
        self.read(request, &mut answer)?;
        Ok(Observation {
            answer,
            peak,
            calls: None,
            reported_client_writes: None,
            reported_pack_writes: None,
            packs_on_mount: None,
        })
    }

    /// Reads a whole answer. `git daemon` listens with a queue of five connections; one that the system dropped from
    /// it is reset before its first byte and tried again, as a patient client would.
    fn read(&self, request: &[u8], to: &mut impl Write) -> io::Result<u64> {
        for _ in 0..MOST_TRIES {
            match self.try_to_read(request, to) {
                Ok(0) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {}
                other => return other,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("the server resets every connection"))
    }

    fn try_to_read(&self, request: &[u8], to: &mut impl Write) -> io::Result<u64> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(request)?;
        let mut buffer = vec![0; READ_BYTES];
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(length) => {
                    to.write_all(&buffer[..length])?;
                    bytes += length as u64;
                }
                Err(e) if bytes > 0 => return Err(io::Error::other(format!("after {bytes} bytes: {e}"))),
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `git daemon` is a child of `git`: both get the signal that their shell would send.
        for pid in process_tree(self.child.id()).into_iter().skip(usize::from(self.is_traced)) {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        }
        let _ = self.child.wait();
    }
}

/// All that a client of git:// sends: the service, the repository, and then what it would send over stdio.
pub fn request(name: &str, conversation: &[u8]) -> Vec<u8> {
    let service = format!("git-upload-pack /{name}\0host=127.0.0.1\0\0version=2\0");
    Script::new().data(service.as_bytes()).raw(conversation).bytes().to_vec()
}

/// The same command with its calls counted into a file, if there is one.
fn traced(command: Command, calls: Option<&Path>) -> Command {
    let Some(calls) = calls else { return command };
    let mut outer = Command::new("strace");
    clean_environment(&mut outer);
    outer.args(STRACE).arg(calls).arg(command.get_program()).args(command.get_args());
    outer
}

fn address_in(line: &str, scheme: &str) -> Option<SocketAddr> {
    let rest = line.split_once(scheme)?.1;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use packrace_testkit::{RepoBuilder, Size};

    #[test]
    fn clients_read_from_a_daemon() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let main = repo.git(&["rev-parse", "main"]);
        let conversation = Script::new().fetch_v2("sha1", &[main.trim()], &[]).flush();
        let request = request("repo.git", conversation.bytes());
        let server = Server::git_daemon(Git::stock(), repo.path().parent().unwrap(), None).unwrap();
        let seen = server.observe(&request, 2).unwrap();
        assert!(seen.answer.ends_with(b"0000"));
        // With more than one thread git's packs differ by some bytes.
        let three = server.time(&request, 3).unwrap().bytes as usize;
        assert!(three.abs_diff(3 * seen.answer.len()) < 1000, "{three}");
    }

    #[test]
    fn addresses_are_found() {
        assert_eq!(address_in("listening on git://127.0.0.1:9418/", "git://"), "127.0.0.1:9418".parse().ok());
        assert_eq!(address_in("listening on http://127.0.0.1:9418/", "git://"), None);
    }
}
