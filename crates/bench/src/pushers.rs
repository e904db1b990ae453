//! Clients that push commits over HTTP, each to its own branch of one repository.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use packrace_testkit::Git;
use packrace_testkit::peer::{Feed, Script, http};

use crate::Error;

/// The pushes of clients, recorded: nothing is generated while they run.
pub struct Pushers {
    clients: Vec<PushClient>,
    /// More header lines of each request, each after a line feed.
    headers: &'static str,
}

/// The pushes of one client, in order.
struct PushClient {
    requests: Vec<Vec<u8>>,
    /// The commit of each push.
    commits: Vec<String>,
}

/// The duration of pushes.
pub struct Pushed {
    pub per_second: f64,
    /// Seconds of each.
    pub times: Vec<f64>,
}

impl Pushers {
    /// Makes a first commit in `repo`, an empty repository, and for each of `count` clients a chain of `each` commits that no served repository has.
    pub fn prepare(git: &Git, repo: &Path, count: usize, each: usize) -> Pushers {
        let stream = "commit refs/heads/main\ncommitter A <a@b.c> 1 +0000\ndata 1\nx\nM 100644 inline file\ndata 1\nx\n";
        git.run_with_input(repo, &["fast-import", "--quiet"], stream.as_bytes());
        let source = repo.with_file_name("source.git");
        let [from, to] = [repo, &source].map(|path| path.display().to_string());
        git.run(repo, &["clone", "-q", "--mirror", &from, &to]);
        let mut stream = String::new();
        for client in 0..count {
            for at in 0..each {
                let from = if at == 0 { "from refs/heads/main^0\n" } else { "" };
                stream += &format!(
                    "commit refs/heads/b{client}\ncommitter A <a@b.c> {at} +0000\ndata 4\npush\n{from}"
                );
                stream += &format!("M 100644 inline file-{client}\ndata 9\n{client:04}-{at:04}\n");
            }
        }
        git.run_with_input(&source, &["fast-import", "--quiet"], stream.as_bytes());
        Pushers { clients: (0..count).map(|client| record(git, &source, client)).collect(), headers: "" }
    }

    /// The same with these header lines in each request.
    pub fn with_headers(self, headers: &'static str) -> Pushers {
        Pushers { headers, ..self }
    }

    /// The first `count` clients push everything through one of the servers each, as git does: listing first.
    pub fn push(&self, addresses: &[SocketAddr], name: &str, count: usize) -> Result<Pushed, Error> {
        let start = Instant::now();
        let times = std::thread::scope(|scope| {
            let running: Vec<_> = self.clients[..count]
                .iter()
                .enumerate()
                .map(|(number, client)| {
                    let address = addresses[number % addresses.len()];
                    scope.spawn(move || {
                        let pushes = client.requests.iter();
                        pushes
                            .map(|request| self.push_once(address, name, request))
                            .collect::<Result<Vec<_>, _>>()
                    })
                })
                .collect();
            let joined = running.into_iter().map(|one| one.join().expect("it does not panic"));
            joined.collect::<Result<Vec<Vec<f64>>, String>>()
        })?
        .concat();
        let pushed = Pushed { per_second: times.len() as f64 / start.elapsed().as_secs_f64(), times };
        for address in addresses {
            self.check(*address, name, count, usize::MAX)?;
        }
        Ok(pushed)
    }

    /// The push of this number by the first client; how many seconds it took.
    pub fn push_one(&self, address: SocketAddr, name: &str, number: usize) -> Result<f64, Error> {
        Ok(self.push_once(address, name, &self.clients[0].requests[number])?)
    }

    /// Whether the branches of the first `count` clients are where they left them after so many pushes each.
    pub fn check(&self, address: SocketAddr, name: &str, count: usize, pushes: usize) -> Result<(), Error> {
        let head = format!("GET /{name}/info/refs?service=git-receive-pack HTTP/1.1{}", self.headers);
        let listed = String::from_utf8_lossy(&http(address, &head, b"", Feed::Whole).body).into_owned();
        for (number, client) in self.clients[..count].iter().enumerate() {
            let Some(commit) = client.commits.iter().take(pushes).next_back() else { continue };
            if !listed.contains(&format!("{commit} refs/heads/b{number}\n"))
                && !listed.contains(&format!("{commit} refs/heads/b{number}\0"))
            {
                return Err(format!("{name}: b{number} is not at {commit}, which was acknowledged").into());
            }
        }
        Ok(())
    }

    fn push_once(&self, address: SocketAddr, name: &str, request: &[u8]) -> Result<f64, String> {
        let start = Instant::now();
        let headers = self.headers;
        let head = format!("GET /{name}/info/refs?service=git-receive-pack HTTP/1.1{headers}");
        let asked = http(address, &head, b"", Feed::Whole);
        let head = format!(
            "POST /{name}/git-receive-pack HTTP/1.1\nContent-Type: application/x-git-receive-pack-request{headers}"
        );
        let answered = http(address, &head, request, Feed::Whole);
        let said = String::from_utf8_lossy(&answered.body);
        match asked.status == 200
            && answered.status == 200
            && said.contains("unpack ok")
            && said.contains("ok refs/heads/")
        {
            true => Ok(start.elapsed().as_secs_f64()),
            false => Err(format!("a push came to HTTP {} and {}: {said}", asked.status, answered.status)),
        }
    }
}

fn record(git: &Git, source: &Path, client: usize) -> PushClient {
    let listed = git.run(source, &["rev-list", "--reverse", &format!("main..b{client}")]);
    let commits: Vec<String> = listed.lines().map(str::to_owned).collect();
    let mut requests = Vec::new();
    let mut old: Option<&str> = None;
    for new in &commits {
        let parent = old.unwrap_or("refs/heads/main");
        let pack = git.run_with_input(
            source,
            &["pack-objects", "--revs", "--stdout", "--thin", "-q"],
            format!("{new}\n^{parent}\n").as_bytes(),
        );
        let zeros = "0".repeat(new.len());
        let command = format!("{} {new} refs/heads/b{client}\0report-status", old.unwrap_or(&zeros));
        requests.push(Script::new().data(command.as_bytes()).flush().raw(&pack).bytes().to_vec());
        old = Some(new);
    }
    PushClient { requests, commits }
}
