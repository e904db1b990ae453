//! Nodes that serve one bucket, whose store is 20 ms away: clones, pushes, and a node with an empty cache.

mod clones;
mod cold;
mod pushes;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use packrace_testkit::peer::{Feed, http};
use packrace_testkit::raw_client::Transport;
use packrace_testkit::{BucketServer, Git, clean_environment};
use serde_json::Value;

use crate::Error;
use crate::args::Args;
use crate::serve::{BUCKET, Server};

/// Latency of the store.
const LATENCY: Duration = Duration::from_millis(20);

/// Measures nodes and prints the results; an error if a response is wrong.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("nodes needs a packrace")?;
    let hosting = Hosting {
        binary: binary.to_owned(),
        git: git.clone(),
        folder: tempfile::tempdir()?,
        store: BucketServer::start(),
    };
    println!(
        "\nNodes of one bucket. Each request to the store takes {} ms longer; the store and all clients run on this machine, too.\n\n\
         | what | measured | goal |\n|---|---|---|",
        LATENCY.as_millis()
    );
    let mut records = clones::run(args, &hosting)?;
    records.extend(pushes::run(args, &hosting)?);
    records.extend(cold::run(args, &hosting)?);
    Ok(records)
}

/// A store, and what is needed to start nodes.
struct Hosting {
    binary: PathBuf,
    git: Git,
    folder: tempfile::TempDir,
    store: BucketServer,
}

/// A node and its cache, which is removed with it.
struct BucketNode {
    server: Server,
    _cache: tempfile::TempDir,
}

impl Hosting {
    /// Starts a node with an empty cache.
    fn node(&self) -> io::Result<BucketNode> {
        let cache = tempfile::tempdir_in(self.folder.path())?;
        let server = Server::node(&self.binary, &self.store, &cache.path().join("cache"))?;
        Ok(BucketNode { server, _cache: cache })
    }

    /// Imports a repository into the bucket, without latency.
    fn import(&self, repo: &Path, name: &str) -> Result<(), Error> {
        self.store.set_latency(Duration::ZERO);
        let mut command = Command::new(&self.binary);
        clean_environment(&mut command);
        command.envs(self.store.variables()).args(["bucket", "import", BUCKET]).arg(repo).arg(name);
        let output = command.stdin(Stdio::null()).output()?;
        self.store.set_latency(LATENCY);
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    }

    /// Makes a bare repository in the folder.
    fn repository(&self, name: &str) -> PathBuf {
        let repo = self.folder.path().join(name);
        self.git
            .run(self.folder.path(), &["init", "-q", "--bare", "-b", "main", &repo.display().to_string()]);
        repo
    }
}

/// The value of a server's metric; `name` includes the labels.
fn metric(server: &Server, name: &str) -> Result<u64, Error> {
    let address = server.target(Transport::Http, Path::new("a.git"))?.address;
    let text = String::from_utf8(http(address, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.ok_or_else(|| format!("no {name}"))?.parse()?)
}
