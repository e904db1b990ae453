//! Measured servers: `git daemon`, `git http-backend` behind lighttpd, `packrace serve`, and others started
//! elsewhere.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{Target, Transport};
use packrace_testkit::{BucketServer, Git, clean_environment};

use crate::measure::{Peak, STRACE, process_tree, processor_seconds, sample_memory};

/// Time limit until a server accepts connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server's last processes end this long after their responses.
const SETTLES: Duration = Duration::from_millis(100);

/// How long a client waits for a silent server.
const CLIENT_PATIENCE: Duration = Duration::from_secs(300);

/// Log text that a server must not produce: of a panic, or of wrong settings.
const COMPLAINTS: [&str; 2] = ["panicked", "settings unchanged"];

/// packrace's arguments, without the served folder.
const SERVE: [&str; 6] = ["serve", "--allow-push", "--http", "127.0.0.1:0", "--git", "127.0.0.1:0"];

/// Keeps each pack beside itself, by repository and request: one process makes it, the others wait. Gitaly's
/// cache does the same, and sends a pack while it is made.
const CACHING_HOOK: &str = r#"#!/bin/sh
folder=${0%/*}
request=$(mktemp "$folder/request.XXXXXX") && cat >"$request" || exit
key=$({ echo "$PWD $*"; cat "$request"; } | sha256sum | cut -d' ' -f1)
exec 9>"$folder/$key.lock"
flock 9
[ -f "$folder/$key" ] || { "$@" <"$request" >"$folder/$key.new" 9>&- && mv "$folder/$key.new" "$folder/$key"; } || exit
exec 9>&-
rm -f "$request"
exec cat "$folder/$key"
"#;

/// The bucket that nodes serve.
pub const BUCKET: &str = "s3://git/hosting";

/// A server of all repositories in one directory; it ends when dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// git's daemon has no HTTP.
    http: Option<SocketAddr>,
    https: Option<SocketAddr>,
    ssh: Option<SocketAddr>,
    /// Other processes of the server.
    helpers: Vec<Child>,
    /// The file where programs without a waiting parent write their times.
    times: Option<PathBuf>,
    /// The folder of its configuration.
    _folder: Option<tempfile::TempDir>,
    /// Lines of packrace's log with [`COMPLAINTS`].
    complaints: Arc<Mutex<Vec<String>>>,
    /// Whether the child is strace, which ends after the traced process.
    is_traced: bool,
}

impl Server {
    /// `git daemon` on a port that was free a moment ago; its calls are counted into `calls`, if given.
    pub fn git_daemon(git: &Git, root: &Path, calls: Option<&Path>) -> io::Result<Server> {
        Server::git_daemon_as(git, root, calls, None)
    }

    /// The same with a hook that keeps packs and sends them again.
    pub fn caching_git_daemon(git: &Git, root: &Path) -> io::Result<Server> {
        let folder = tempfile::tempdir()?;
        let hook = folder.path().join("hook");
        std::fs::write(&hook, CACHING_HOOK)?;
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))?;
        let mut server = Server::git_daemon_as(git, root, None, Some(&hook))?;
        server._folder = Some(folder);
        Ok(server)
    }

    fn git_daemon_as(
        git: &Git,
        root: &Path,
        calls: Option<&Path>,
        hook: Option<&Path>,
    ) -> io::Result<Server> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = git.command(root);
        if let Some(hook) = hook {
            command.arg("-c").arg(format!("uploadpack.packObjectsHook={}", hook.display()));
        }
        command.args(["daemon", "--listen=127.0.0.1", "--export-all", "--reuseaddr", "--max-connections=0"]);
        command
            .arg("--enable=receive-pack")
            .arg(format!("--port={}", address.port()))
            .arg(format!("--base-path={}", root.display()))
            .arg(root);
        let mut command = traced(command, calls);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Server::listening(child, address);
        server.is_traced = calls.is_some();
        server.wait_until_it_listens("git daemon")
    }

    /// `git http-backend`, run by lighttpd on a port that was free a moment ago; `None` if lighttpd is
    /// missing.
    pub fn http_backend(git: &Git, root: &Path) -> io::Result<Option<Server>> {
        let Some(lighttpd) = lighttpd() else { return Ok(None) };
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let folder = tempfile::tempdir()?;
        let backend = PathBuf::from(git.run(root, &["--exec-path"]).trim()).join("git-http-backend");
        let config = folder.path().join("lighttpd.conf");
        std::fs::write(&config, lighttpd_config(address, folder.path(), &backend, root))?;
        let mut command = Command::new(lighttpd);
        clean_environment(&mut command);
        command.arg("-D").arg("-f").arg(&config);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Server::listening(child, address);
        (server.http, server._folder) = (Some(address), Some(folder));
        server.wait_until_it_listens("lighttpd").map(Some)
    }

    /// A server started by these commands, of which the last listens at this address. All of them end when it
    /// is dropped.
    pub fn started(commands: Vec<Command>, address: SocketAddr) -> io::Result<Server> {
        let mut children = Vec::new();
        for mut command in commands {
            clean_environment(&mut command);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            children.push(command.spawn().map_err(|e| io::Error::other(format!("{command:?}: {e}")))?);
        }
        let child = children.pop().ok_or_else(|| io::Error::other("nothing to start"))?;
        let mut server = Server::listening(child, address);
        server.helpers = children;
        server.wait_until_it_listens("a server")
    }

    fn listening(child: Child, address: SocketAddr) -> Server {
        Server {
            child,
            address,
            http: None,
            https: None,
            ssh: None,
            helpers: Vec::new(),
            times: None,
            _folder: None,
            complaints: Arc::default(),
            is_traced: false,
        }
    }

    fn wait_until_it_listens(self, name: &str) -> io::Result<Server> {
        wait_until(name, || TcpStream::connect(self.address).is_ok())?;
        Ok(self)
    }

    /// `packrace serve` on ports that it chooses and prints.
    pub fn packrace(binary: &Path, root: &Path, calls: Option<&Path>) -> io::Result<Server> {
        Server::packrace_as(binary, root, calls, None)
    }

    /// The same with settings from a file.
    pub fn packrace_as(
        binary: &Path,
        root: &Path,
        calls: Option<&Path>,
        settings: Option<&Path>,
    ) -> io::Result<Server> {
        let mut command = Command::new(binary);
        clean_environment(&mut command);
        command.args(SERVE).args(settings.map(|file| format!("--config={}", file.display()))).arg(root);
        Server::started_by(traced(command, calls), calls.is_some(), settings)
    }

    /// The same for a bucket's repositories, with a cache in this directory.
    pub fn node(binary: &Path, bucket: &BucketServer, cache: &Path) -> io::Result<Server> {
        let mut command = Command::new(binary);
        clean_environment(&mut command);
        command.envs(bucket.variables()).args(SERVE);
        command.args(["--bucket", BUCKET, "--cache"]).arg(cache);
        Server::started_by(command, false, None)
    }

    /// A server that prints `http://ADDRESS/`, its only address.
    pub fn http_only(mut command: Command) -> io::Result<Server> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or_else(|| io::Error::other("no output"))?)
            .read_line(&mut line)?;
        let address = address_in(&line, "http://").ok_or_else(|| io::Error::other("it says no address"));
        let mut server = Server::listening(child, address?);
        server.http = Some(server.address);
        Ok(server)
    }

    fn started_by(mut command: Command, is_traced: bool, settings: Option<&Path>) -> io::Result<Server> {
        let (reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the other end of the pipe; without it the lines end with the server.
        drop(command);
        let mut lines = BufReader::new(reader).lines();
        let said = settings.map(std::fs::read_to_string).transpose()?.unwrap_or_default();
        let mut wanted = vec!["git://", "http://"];
        wanted.extend(["https://", "ssh://"].into_iter().filter(|scheme| {
            said.lines().any(|line| line.starts_with(&format!("{} = ", scheme.trim_end_matches("://"))))
        }));
        let mut addresses = HashMap::new();
        for line in lines.by_ref().map_while(Result::ok) {
            let found = wanted.iter().filter_map(|scheme| Some((*scheme, address_in(&line, scheme)?)));
            addresses.extend(found);
            if addresses.len() == wanted.len() {
                break;
            }
        }
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let said = complaints.clone();
        std::thread::spawn(move || {
            let panics = lines
                .map_while(Result::ok)
                .filter(|line| COMPLAINTS.iter().any(|words| line.contains(words)));
            panics.for_each(|line| said.lock().expect("nobody panics with it").push(line));
        });
        let [git, http, https, ssh] =
            ["git://", "http://", "https://", "ssh://"].map(|scheme| addresses.get(scheme).copied());
        let (Some(address), Some(_)) = (git, http) else {
            return Err(io::Error::other("packrace serve did not say where it listens"));
        };
        let mut server = Server::listening(child, address);
        (server.http, server.https, server.ssh) = (http, https, ssh);
        (server.complaints, server.is_traced) = (complaints, is_traced);
        Ok(server)
    }

    /// git's daemon if `binary` is that git, else packrace with these settings.
    pub fn of(
        binary: &Path,
        git: &Git,
        root: &Path,
        calls: Option<&Path>,
        settings: Option<&Path>,
    ) -> io::Result<Server> {
        match binary == git.binary() {
            true => Server::git_daemon(git, root, calls),
            false => Server::packrace_as(binary, root, calls, settings),
        }
    }

    /// Runs `act`, and returns the server's CPU time for it.
    pub fn with_processor_seconds<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<(T, f64)> {
        let before = self.processor_seconds();
        let done = act()?;
        std::thread::sleep(SETTLES);
        Ok((done, self.processor_seconds() - before))
    }

    /// Also counts programs that no process waits for; they write bash's `times` to this file.
    pub fn with_times_in(mut self, file: PathBuf) -> Server {
        self.times = Some(file);
        self
    }

    /// The CPU time of all its processes.
    fn processor_seconds(&self) -> f64 {
        let own = self.helpers.iter().chain([&self.child]).map(|child| processor_seconds(child.id()));
        let written = self.times.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        own.sum::<f64>() + written.map_or(0.0, |text| seconds_of_children(&text))
    }

    /// The address, if there is only one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The HTTPS address.
    pub fn https(&self) -> Option<SocketAddr> {
        self.https
    }

    /// The SSH address.
    pub fn ssh(&self) -> Option<SocketAddr> {
        self.ssh
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Makes it reload its settings.
    pub fn reload(&self) -> io::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no process"))?;
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::HUP)?)
    }

    /// Complaints in its log, and whether it ended.
    pub fn complaints(&mut self) -> Vec<String> {
        let mut complaints = self.complaints.lock().expect("nobody panics with it").clone();
        if let Ok(Some(status)) = self.child.try_wait() {
            complaints.push(format!("the server ended with {status}"));
        }
        complaints
    }

    /// The URL of a repository in its directory: over HTTP if wanted and available, else over git://.
    pub fn url(&self, wants_http: bool, repo: &Path) -> String {
        let name = repo.file_name().unwrap_or_default().to_string_lossy();
        match self.http {
            Some(http) if wants_http => format!("http://{http}/{name}"),
            _ => format!("git://{}/{name}", self.address),
        }
    }

    /// A repository in its directory, over this transport.
    pub fn target(&self, transport: Transport, repo: &Path) -> io::Result<Target> {
        let address = match transport {
            Transport::Git => Some(self.address),
            Transport::Http => self.http,
        };
        let address = address.ok_or_else(|| io::Error::other("a server without that transport"))?;
        let name = repo.file_name().unwrap_or_default().to_string_lossy();
        Ok(Target { transport, address, path: format!("/{name}"), patience: CLIENT_PATIENCE })
    }

    /// Runs `act` while the server's memory is sampled; `None` if it was too quick to sample.
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
}

impl Drop for Server {
    fn drop(&mut self) {
        // `git daemon` is a child of `git`: both get the signal, as from a shell.
        let helpers = self.helpers.iter().flat_map(|helper| process_tree(helper.id()));
        let own = process_tree(self.child.id()).into_iter().skip(usize::from(self.is_traced));
        for pid in own.chain(helpers) {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        }
        let _ = self.child.wait();
        self.helpers.iter_mut().for_each(|helper| drop(helper.wait()));
    }
}

/// The sum of the children's times in bash's `times` output, on every other line: `0m0.351s 0m0.120s`.
fn seconds_of_children(text: &str) -> f64 {
    let words = text.lines().skip(1).step_by(2).flat_map(str::split_whitespace);
    let seconds = words.filter_map(|word| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    });
    seconds.sum()
}

/// Waits for a server that was just started.
pub fn wait_until(name: &str, listens: impl Fn() -> bool) -> io::Result<()> {
    let start = Instant::now();
    while !listens() {
        if start.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("{name} does not listen")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The path of lighttpd, if it is installed: often it is not in the PATH of ordinary users.
pub fn lighttpd() -> Option<&'static str> {
    let runs = |program: &&str| {
        let mut command = Command::new(program);
        command.arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    ["lighttpd", "/usr/sbin/lighttpd"].into_iter().find(runs)
}

/// Sends everything to the backend, and streams responses instead of buffering them in a temporary file.
pub fn lighttpd_config(address: SocketAddr, folder: &Path, backend: &Path, root: &Path) -> String {
    let (folder, backend, root) = (folder.display(), backend.display(), root.display());
    format!(
        "server.modules = (\"mod_alias\", \"mod_setenv\", \"mod_cgi\")\n\
         server.document-root = \"{folder}\"\n\
         server.bind = \"{}\"\nserver.port = {}\n\
         server.max-connections = 1024\nserver.max-fds = 4096\nserver.listen-backlog = 1024\n\
         server.stream-request-body = 2\nserver.stream-response-body = 2\n\
         server.max-write-idle = 3600\nserver.max-read-idle = 3600\n\
         alias.url = (\"/\" => \"{backend}/\")\n\
         cgi.assign = (\"\" => \"\")\n\
         setenv.set-environment = (\"GIT_PROJECT_ROOT\" => \"{root}\", \"GIT_HTTP_EXPORT_ALL\" => \"1\")\n",
        address.ip(),
        address.port(),
    )
}

/// The same command with its calls counted into `calls`, if given.
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
    use packrace_testkit::peer::Script;
    use packrace_testkit::raw_client::Take;
    use packrace_testkit::{RepoBuilder, Size};

    #[test]
    fn servers_of_stock_git_are_read() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let root = repo.path().parent().unwrap();
        let main = repo.git(&["rev-parse", "main"]);
        let fetch = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
        let mut servers = vec![
            (Transport::Git, Server::git_daemon(Git::stock(), root, None).unwrap()),
            (Transport::Git, Server::caching_git_daemon(Git::stock(), root).unwrap()),
        ];
        match Server::http_backend(Git::stock(), root).unwrap() {
            Some(server) => servers.push((Transport::Http, server)),
            None => assert_eq!(lighttpd(), None),
        }
        for (transport, server) in servers {
            let target = server.target(transport, repo.path()).unwrap();
            let hash = packrace_object::HashKind::Sha1;
            let received = target.fetch(&target.request(fetch.bytes()), Take::Hash(hash)).unwrap();
            assert!(received.pack.bytes > 1000, "{transport:?}: {received:?}");
        }
    }

    #[test]
    fn times_of_children_are_read() {
        let text = "0m0.001s 0m0.002s\n0m0.351s 0m0.120s\n0m0.001s 0m0.002s\n1m0.000s 0m0.000s\n";
        assert!((seconds_of_children(text) - 60.471).abs() < 1e-9);
        assert_eq!(seconds_of_children(""), 0.0);
    }

    #[test]
    fn addresses_are_found() {
        assert_eq!(address_in("listening on git://127.0.0.1:9418/", "git://"), "127.0.0.1:9418".parse().ok());
        assert_eq!(address_in("listening on http://127.0.0.1:9418/", "git://"), None);
    }
}
