//! What the journal of events and webhooks add to a push.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::Transport;
use packrace_testkit::{Git, clean_environment};
use serde_json::{Value, json};

use crate::args::Args;
use crate::goals::verdicts;
use crate::pushers::Pushers;
use crate::serve::Server;
use crate::swarm::figures::quantile;
use crate::{Error, PACKRACE};

/// Pushes to one server in a row, before the next has its turn.
const TURN: usize = 10;

/// How long the receiver of webhooks may lag behind the last push.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server does with a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Journal,
    Webhooks,
}

impl Mode {
    fn who(self) -> &'static str {
        match self {
            Mode::Plain => PACKRACE,
            Mode::Journal => "packrace, journal",
            Mode::Webhooks => "packrace, journal and webhooks",
        }
    }
}

const MODES: [Mode; 3] = [Mode::Plain, Mode::Journal, Mode::Webhooks];

struct EventServer {
    mode: Mode,
    server: Server,
    address: SocketAddr,
    folder: PathBuf,
    received: Arc<AtomicUsize>,
    times: Vec<f64>,
    cpu_seconds: f64,
}

/// Prints both ratios; an error if a ref, a line of the journal or a webhook is missing.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("events needs a packrace")?;
    let dir = tempfile::tempdir()?;
    let count = if args.smoke { 2 * TURN } else { args.rounds.max(5) * 10 * TURN };
    let repo = dir.path().join("first.git");
    git.run(dir.path(), &["init", "-q", "--bare", "-b", "main", &repo.display().to_string()]);
    git.run(&repo, &["config", "receive.autogc", "false"]);
    let pushers = Pushers::prepare(git, &repo, 1, count);
    let started = MODES.map(|mode| EventServer::start(mode, binary, git, &repo, dir.path()));
    let mut contenders = started.into_iter().collect::<Result<Vec<_>, _>>()?;
    for first in (0..count).step_by(TURN) {
        for contender in &mut contenders {
            contender.push(&pushers, first..count.min(first + TURN))?;
        }
    }
    println!("\nEvents: {count} pushes of one commit, {TURN} at a time to each server in turns.\n");
    println!("| server | wall of a push, median | processor time of a push | goal |\n|---|---|---|---|");
    let plain = (quantile(&contenders[0].times, 0.5), contenders[0].cpu_seconds);
    let mut records = Vec::new();
    for contender in &contenders {
        contender.check(&pushers, binary, count)?;
        records.push(json!({
            "work": "events, push", "who": contender.mode.who(), "beside": Mode::Plain.who(), "pushes": count,
            "wall_seconds": quantile(&contender.times, 0.5), "cpu_seconds": contender.cpu_seconds / count as f64,
        }));
    }
    for (contender, record) in contenders.iter().zip(&records) {
        let (wall, cpu) = (quantile(&contender.times, 0.5), contender.cpu_seconds);
        println!(
            "| {} | {:.2} ms, {:.2} × | {:.2} ms, {:.2} × | {} |",
            contender.mode.who(),
            wall * 1e3,
            wall / plain.0,
            cpu * 1e3 / count as f64,
            cpu / plain.1,
            verdicts(record, &records)
        );
    }
    Ok(records)
}

impl EventServer {
    fn start(mode: Mode, binary: &Path, git: &Git, repo: &Path, dir: &Path) -> Result<Self, Error> {
        let folder = dir.join(format!("{mode:?}"));
        let root = folder.join("root");
        std::fs::create_dir_all(&root)?;
        let pushed = root.join("pushed.git").display().to_string();
        git.run(dir, &["clone", "-q", "--mirror", "--no-local", &repo.display().to_string(), &pushed]);
        git.run(&root.join("pushed.git"), &["config", "receive.autogc", "false"]);
        let received = Arc::new(AtomicUsize::new(0));
        let mut settings = String::from("[maintenance]\nmode = \"off\"\n");
        if mode != Mode::Plain {
            settings += &format!("[events]\njournal = \"{}\"\n", folder.join("journal").display());
        }
        if mode == Mode::Webhooks {
            let port = receiver(received.clone())?;
            let secret = private(&folder.join("secret"), "a secret of sixteen bytes or more")?;
            let hook = format!(
                "[[webhook]]\nname = \"bench\"\nurl = \"http://127.0.0.1:{port}/\"\nsecret-file = \"{secret}\"\n\
                 allow-addresses = [\"127.0.0.1\"]\n"
            );
            settings += &format!("webhooks = \"{}\"\n", private(&folder.join("hooks.toml"), &hook)?);
        }
        let file = folder.join("serve.toml");
        std::fs::write(&file, settings)?;
        let server = Server::packrace_as(binary, &root, None, Some(&file))?;
        let address = server.target(Transport::Http, &root.join("pushed.git"))?.address;
        Ok(EventServer { mode, server, address, folder, received, times: Vec::new(), cpu_seconds: 0.0 })
    }

    fn push(&mut self, pushers: &Pushers, numbers: std::ops::Range<usize>) -> Result<(), Error> {
        let mut failed = None;
        let (times, cpu_seconds) = self.server.with_processor_seconds(|| {
            let pushes = numbers.map(|number| pushers.push_one(self.address, "pushed.git", number));
            Ok(pushes.collect::<Result<Vec<f64>, _>>().unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            }))
        })?;
        self.times.extend(times);
        self.cpu_seconds += cpu_seconds;
        failed.map_or(Ok(()), Err)
    }

    /// Whether all pushes are where they should be.
    fn check(&self, pushers: &Pushers, binary: &Path, count: usize) -> Result<(), Error> {
        pushers.check(self.address, "pushed.git", 1, count)?;
        if self.mode != Mode::Plain {
            let mut follow = Command::new(binary);
            clean_environment(&mut follow);
            let output = follow.args(["events", "follow", "--no-wait"]).arg(self.folder.join("journal"));
            let output = output.stdin(Stdio::null()).output()?;
            let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
            if lines != count {
                return Err(format!("the journal has {lines} lines after {count} pushes").into());
            }
        }
        let end = Instant::now() + PATIENCE;
        while self.mode == Mode::Webhooks && self.received.load(SeqCst) < count {
            if Instant::now() > end {
                return Err(format!("{} webhooks after {count} pushes", self.received.load(SeqCst)).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Writes a file that only its owner may read; gives its path.
fn private(path: &Path, text: &str) -> io::Result<String> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path.display().to_string())
}

/// Accepts every webhook, and counts them; its port.
fn receiver(received: Arc<AtomicUsize>) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let received = received.clone();
            std::thread::spawn(move || take_webhooks(stream, &received));
        }
    });
    Ok(port)
}

/// Accepts the webhooks of a connection.
fn take_webhooks(stream: TcpStream, received: &AtomicUsize) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        let mut length = 0;
        line.clear();
        while stream.read_line(&mut line).is_ok_and(|count| count > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if length == 0 || stream.read_exact(&mut body).is_err() {
            return;
        }
        if stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
        received.fetch_add(1, SeqCst);
    }
}
