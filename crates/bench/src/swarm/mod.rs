//! Many concurrent clients: stock git's servers compared with packrace, over git:// and HTTP.
//!
//! The clients are threads of this program with their own protocol code. They share the machine with the
//! servers; their cost is shown beside the servers' cost.

mod crowd;
pub mod figures;
mod latency;
mod scenes;
mod waiting;

use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_testkit::Git;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::Transport;
use serde_json::Value;

use crate::args::{Args, Suite};
use crate::prepare::Scratch;
use crate::serve::{self, Server};
use crate::{Error, work};

const GIT_DAEMON: &str = "git daemon";
const HTTP_BACKEND: &str = "git http-backend";

/// git with a hook that keeps packs: what large hosts do.
const CACHING_GIT_DAEMON: &str = "git daemon, packs kept by a hook";

/// A server in the comparison.
pub struct Contender<'a> {
    /// Its name in tables.
    pub who: &'static str,
    /// Whose figures its own are compared with, if it is packrace.
    pub beside: Option<&'static str>,
    /// The transport of its requests.
    pub transport: Transport,
    start: Box<dyn Fn() -> std::io::Result<Server> + 'a>,
}

impl Contender<'_> {
    /// Starts a new server.
    pub fn start(&self) -> std::io::Result<Server> {
        (self.start)()
    }
}

/// Runs everything, prints tables and returns the records.
pub fn run(
    args: &Args,
    git: &Git,
    packrace: Option<&Path>,
    scratch: &Scratch,
    history: &Path,
) -> Result<Vec<Value>, Error> {
    let bitmap = Subject::new(git, scratch.with_bitmap(history)?);
    let plain = Subject::new(git, scratch.plain(history)?);
    let root = bitmap.repo.parent().ok_or("a repository lies in a directory")?;
    let transports = transports(git, packrace, root);
    println!("\n{}\n", figures::HOW);
    let mut records = Vec::new();
    if args.items.contains(&Suite::Crowds) {
        println!("{}", figures::head());
        let mut indexed = scenes::Indexed::default();
        for scene in scenes::all(args, &bitmap, &plain) {
            for contenders in &transports {
                records.extend(scene.compare(args, git, contenders, &mut indexed)?);
            }
        }
    }
    if args.items.contains(&Suite::Latency) {
        println!("\n{}", latency::head());
        for contenders in &transports {
            records.extend(latency::compare(args, contenders, &bitmap)?);
        }
    }
    if args.items.contains(&Suite::Waiting) {
        println!("\n{}", waiting::head());
        for contenders in &transports {
            records.extend(waiting::compare(args, contenders, &bitmap)?);
        }
    }
    Ok(records)
}

/// For each transport, stock git's servers, if it has some, and at last packrace.
fn transports<'a>(git: &'a Git, packrace: Option<&'a Path>, root: &'a Path) -> Vec<Vec<Contender<'a>>> {
    let mut at_git = vec![Contender {
        who: GIT_DAEMON,
        beside: None,
        transport: Transport::Git,
        start: Box::new(move || Server::git_daemon(git, root, None)),
    }];
    at_git.push(Contender {
        who: CACHING_GIT_DAEMON,
        beside: None,
        transport: Transport::Git,
        start: Box::new(move || Server::caching_git_daemon(git, root)),
    });
    let mut at_http = Vec::new();
    if serve::lighttpd().is_some() {
        at_http.push(Contender {
            who: HTTP_BACKEND,
            beside: None,
            transport: Transport::Http,
            start: Box::new(move || {
                let server = Server::http_backend(git, root)?;
                server.ok_or_else(|| std::io::Error::other("lighttpd is gone"))
            }),
        });
    } else {
        println!("lighttpd is missing (package lighttpd): git http-backend is not measured.");
    }
    if let Some(binary) = packrace {
        let contender = |transport, who, beside| Contender {
            who,
            beside: Some(beside),
            transport,
            start: Box::new(move || Server::packrace(binary, root, None)),
        };
        at_git.push(contender(Transport::Git, "packrace git://", GIT_DAEMON));
        at_http.push(contender(Transport::Http, "packrace http://", HTTP_BACKEND));
    }
    vec![at_git, at_http]
}

/// A v2 `fetch`, without a transport's framing.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The wanted objects.
    pub wants: Vec<String>,
    /// The commit that the client has, with everything that it reaches.
    pub have: Option<String>,
    /// The command in wire format.
    pub command: Vec<u8>,
}

impl Fetch {
    fn new(hash: HashKind, wants: Vec<String>, have: Option<&String>) -> Self {
        let want_ids: Vec<&str> = wants.iter().map(String::as_str).collect();
        let have_ids: Vec<&str> = have.iter().map(|id| id.as_str()).collect();
        let command = Script::new().fetch_v2(&hash.to_string(), &want_ids, &have_ids).bytes().to_vec();
        Fetch { wants, have: have.cloned(), command }
    }
}

/// Facts about a repository.
#[derive(Debug)]
pub struct Subject {
    /// Its path.
    pub repo: PathBuf,
    /// Its hash.
    pub hash: HashKind,
    /// All objects that refs point at.
    tips: Vec<String>,
    /// First parents, newest first.
    commits: Vec<String>,
}

impl Subject {
    fn new(git: &Git, repo: PathBuf) -> Self {
        let format = git.run(&repo, &["rev-parse", "--show-object-format"]);
        let count = format!("--max-count={}", 2 * scenes::MOST_CLIENTS);
        let commits = git.run(&repo, &["rev-list", "--first-parent", &count, "HEAD"]);
        Subject {
            hash: if format.trim() == "sha256" { HashKind::Sha256 } else { HashKind::Sha1 },
            tips: work::tips(git, &repo),
            commits: commits.lines().map(str::to_string).collect(),
            repo,
        }
    }

    /// Everything that refs reach.
    pub fn clone_all(&self) -> Fetch {
        Fetch::new(self.hash, self.tips.clone(), None)
    }

    /// Everything except one ref, a different one for each `number`.
    pub fn clone_almost_all(&self, number: usize) -> Fetch {
        let mut wants = self.tips.clone();
        wants.remove(number % wants.len());
        Fetch::new(self.hash, wants, None)
    }

    /// The newest commits, from a different one for each `number`.
    pub fn fetch_some(&self, number: usize) -> Fetch {
        let have = self.commits.get(1 + number).or(self.commits.last());
        Fetch::new(self.hash, self.commits[..1].to_vec(), have)
    }

    /// The newest commit.
    pub fn fetch_one(&self) -> Fetch {
        self.fetch_some(0)
    }
}
