//! Pushes of one commit each, to a copy of a repository that syncs to disk before it reports success.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use packrace_testkit::Git;
use packrace_testkit::peer::Script;

use crate::measure::{Calls, Contender, Observation, StdinFeed, Timing, has_strace, service_of};
use crate::on_copy::OnCopy;
use crate::prepare::Scratch;
use crate::serve::Server;
use crate::work::{Check, How, PushTransport, Pushes, Work};

/// Concurrent pushing clients, each with its own branch.
pub const CLIENTS: usize = 8;

/// Replays a recorded push for each line of standard input: only the server's work.
const REPLAY: &str =
    r#"while read -r request; do "$1" receive-pack "$2" <"$3/$request" >/dev/null || exit 9; done"#;

/// Pushes the commits in the list `$5`, lines of a client's number and a commit, by `$6` clients at once.
const PUSH: &str = r#"
git=$1 source=$2 program=$3 url=$4 list=$5 clients=$6
client() {
    while read -r number commit; do
        [ "$number" = "$1" ] || continue
        "$git" -C "$source" push -q --receive-pack="$program" "$url" "$commit:refs/heads/pushed-$1" </dev/null || exit 9
    done <"$list"
}
jobs=()
for ((number = 0; number < clients; number++)); do client $number & jobs+=($!); done
for job in "${jobs[@]}"; do wait "$job" || exit 9; done
"#;

/// Every transport with consecutive pushes, and concurrent pushes.
pub fn all(git: &Git, scratch: &Scratch, history: &Path, is_smoke: bool) -> io::Result<Vec<Work>> {
    let count = if is_smoke { 4 } else { 50 };
    let source = scratch.push_source(history, count, |repo| fill(git, repo, count))?;
    let repo = scratch.push_target(history)?;
    let lists = ["recorded", "commits"].map(|name| source.join(name));
    let work = |transport, clients: usize| -> io::Result<Work> {
        let how = match transport {
            PushTransport::Recorded => "receive-pack alone",
            PushTransport::Stdio => "--receive-pack",
            PushTransport::Git => "git://",
            PushTransport::Http => "http (git: git://)",
        };
        let (name, list) = match clients {
            1 => (
                format!("P11 {count} pushes, {how}"),
                &lists[usize::from(transport != PushTransport::Recorded)],
            ),
            _ => (format!("P11 {clients} × {count} pushes at once, {how}"), &lists[1]),
        };
        let request = std::fs::read(list)?;
        let pushes = Pushes { transport, source: source.clone(), clients };
        Ok(Work {
            name,
            how: How::Push(pushes),
            repo: repo.clone(),
            request,
            check: Check::SameRefsAndObjects,
            bytes_of: None,
        })
    };
    Ok(vec![
        work(PushTransport::Recorded, 1)?,
        work(PushTransport::Stdio, 1)?,
        work(PushTransport::Git, 1)?,
        work(PushTransport::Http, 1)?,
        work(PushTransport::Git, CLIENTS)?,
        work(PushTransport::Http, CLIENTS)?,
    ])
}

/// `count` pushes of one commit each, to a repository with the refs of `history`.
pub fn to(
    git: &Git,
    scratch: &Scratch,
    history: &Path,
    repo: &Path,
    count: usize,
    transport: PushTransport,
) -> io::Result<Work> {
    let source = scratch.push_source(history, count, |repo| fill(git, repo, count))?;
    let list = if transport == PushTransport::Recorded { "recorded" } else { "commits" };
    Ok(Work {
        name: format!("{count} pushes"),
        request: std::fs::read(source.join(list))?,
        how: How::Push(Pushes { transport, source, clients: 1 }),
        repo: repo.to_owned(),
        check: Check::SameRefsAndObjects,
        bytes_of: None,
    })
}

/// Adds `count` commits to each of the branches `pushed-N`, and writes the list of pushes.
fn fill(git: &Git, repo: &Path, count: usize) -> io::Result<()> {
    let head = git.run(repo, &["rev-parse", "HEAD"]);
    let mut stream = Vec::new();
    for client in 0..CLIENTS {
        for number in 0..count {
            writeln!(stream, "commit refs/heads/pushed-{client}")?;
            writeln!(
                stream,
                "committer C O Mitter <committer@example.com> {} +0000",
                1_700_000_000 + number
            )?;
            writeln!(stream, "data <<.\ncommit {number}\n.")?;
            if number == 0 {
                writeln!(stream, "from {}", head.trim())?;
            }
            writeln!(
                stream,
                "M 100644 inline pushed/{client}\ndata <<.\nclient {client}, push {number}\n.\n"
            )?;
        }
    }
    git.run_with_input(repo, &["fast-import", "--quiet"], &stream);
    std::fs::create_dir(repo.join("requests"))?;
    let (mut recorded, mut listed) = (String::new(), String::new());
    for client in 0..CLIENTS {
        let name = format!("refs/heads/pushed-{client}");
        let commits = git.run(repo, &["rev-list", "--reverse", &name, "--not", "HEAD"]);
        let mut old = "0".repeat(head.trim().len());
        for (number, new) in commits.lines().enumerate() {
            listed.push_str(&format!("{client} {new}\n"));
            if client == 0 {
                recorded.push_str(&format!("requests/{number:05}\n"));
                let request = request(git, repo, &old, new, &name, head.trim());
                std::fs::write(repo.join(format!("requests/{number:05}")), request)?;
                old = new.to_string();
            }
        }
    }
    std::fs::write(repo.join("recorded"), recorded)?;
    std::fs::write(repo.join("commits"), listed)
}

/// What a client sends after it read the refs.
fn request(git: &Git, repo: &Path, old: &str, new: &str, name: &str, head: &str) -> Vec<u8> {
    let format = git.run(repo, &["rev-parse", "--show-object-format"]);
    let command = format!(
        "{old} {new} {name}\0 report-status-v2 side-band-64k object-format={} agent=bench",
        format.trim()
    );
    let base = if old.contains(|digit| digit != '0') { old } else { head };
    let revisions = format!("{new}\n^{base}\n");
    let arguments = ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"];
    let pack = git.run_with_input(repo, &arguments, revisions.as_bytes());
    Script::new().data(command.as_bytes()).flush().raw(&pack).bytes().to_vec()
}

/// A contender that receives pushes: a program, or a running server.
pub struct Pushed {
    on_copy: OnCopy,
    server: Option<Server>,
    binary: PathBuf,
    git: Git,
    pushes: Pushes,
    list: PathBuf,
}

impl Pushed {
    /// `binary` receives the pushes in `list`.
    pub fn new(binary: &Path, work: &Work, pushes: &Pushes, git: &Git, list: &Path) -> io::Result<Self> {
        let beside = work.repo.parent().unwrap_or(&work.repo);
        let mut pushed = Pushed {
            on_copy: OnCopy::beside(beside, &work.repo, git, work.check.clone())?,
            server: None,
            binary: binary.to_path_buf(),
            git: git.clone(),
            pushes: pushes.clone(),
            list: list.to_path_buf(),
        };
        pushed.server = pushed.start(None)?;
        let contender = pushed.contender(pushed.server.as_ref());
        pushed.on_copy.run(contender);
        Ok(pushed)
    }

    /// Sets whether the page cache is dropped before each timed run.
    pub fn begin_cold(&mut self, is_cold: bool) {
        self.on_copy.begin_cold(is_cold);
    }

    /// All pushes to a new copy. CPU time is the server's, if there is one, else that of all processes with
    /// the client.
    pub fn time(&self) -> io::Result<Timing> {
        let Some(server) = &self.server else { return self.on_copy.time(&self.list) };
        let (timing, cpu_seconds) = server.with_processor_seconds(|| self.on_copy.time(&self.list))?;
        Ok(Timing { cpu_seconds, ..timing })
    }

    /// Observes the server, or all processes if there is none.
    pub fn observe(&mut self) -> io::Result<Observation> {
        let Some(server) = self.server.take() else { return self.on_copy.observe(&self.list) };
        let (answer, peak) = server.watched(|| {
            self.on_copy.time(&self.list)?;
            self.on_copy.state()
        })?;
        let mut calls = None;
        if has_strace() {
            let summary = tempfile::NamedTempFile::new()?;
            let traced = self.start(Some(summary.path()))?;
            self.on_copy.run(self.contender(traced.as_ref()));
            self.on_copy.time(&self.list)?;
            drop(traced);
            calls = Some(Calls::in_summary(&std::fs::read_to_string(summary.path())?));
            self.on_copy.run(self.contender(Some(&server)));
        }
        self.server = Some(server);
        Ok(Observation {
            answer,
            peak,
            calls,
            reported_client_writes: None,
            reported_pack_writes: None,
            packs_on_mount: None,
        })
    }

    /// Starts a server for the copy's directory; its calls are counted into a file.
    fn start(&self, calls: Option<&Path>) -> io::Result<Option<Server>> {
        let root = self.on_copy.root();
        match self.pushes.transport {
            PushTransport::Recorded | PushTransport::Stdio => Ok(None),
            PushTransport::Git | PushTransport::Http => {
                Server::of(&self.binary, &self.git, root, calls, None).map(Some)
            }
        }
    }

    fn contender(&self, server: Option<&Server>) -> Contender {
        let text = |path: &Path| path.display().to_string();
        let (copy, source) = (self.on_copy.path(), text(&self.pushes.source));
        let url = server.map_or_else(
            || text(&copy),
            |server| server.url(self.pushes.transport == PushTransport::Http, &copy),
        );
        // Over git:// the program's name is sent, and must be the known one.
        let program = match server {
            Some(_) => "git-receive-pack".to_string(),
            None => format!("{} receive-pack", service_of(&self.binary).display()),
        };
        let clients = self.pushes.clients.to_string();
        let (binary, git, list) =
            (text(&service_of(&self.binary)), text(self.git.binary()), text(&self.list));
        let words = match self.pushes.transport {
            PushTransport::Recorded => vec!["bash", "-c", REPLAY, "bash", &binary, &url, &source],
            _ => vec!["bash", "-c", PUSH, "bash", &git, &source, &program, &url, &list, &clients],
        };
        Contender { argv: words.into_iter().map(str::to_string).collect(), feed: StdinFeed::File }
    }
}
