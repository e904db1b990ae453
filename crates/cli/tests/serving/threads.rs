//! The number of threads that work for a client.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;

use super::*;

/// More than the buffers of a loopback connection hold, and incompressible.
const BLOB_BYTES: usize = 32 << 20;

const CLONES: usize = 4;

impl Server {
    /// The threads of the process, by name.
    fn threads(&self) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
            // A thread may end meanwhile.
            if let Ok(name) = std::fs::read_to_string(task.unwrap().path().join("comm")) {
                *names.entry(name.trim().to_owned()).or_default() += 1;
            }
        }
        names
    }
}

/// One thread sends the pack and one makes it, and both end with the clone.
#[test]
fn a_clone_takes_two() {
    let server = Server::start(LOOPBACK, &["--set", "cache.enabled=false"], &[]);
    let bytes = packrace_testkit::Random::new(3).bytes(BLOB_BYTES);
    let git = |args: &[&str], input: &[u8]| {
        let output = Git::stock().run_with_input(&server.repository(), args, input);
        String::from_utf8(output).unwrap().trim().to_owned()
    };
    let blob = git(&["hash-object", "-w", "--stdin"], &bytes);
    let tree = git(&["mktree"], format!("100644 blob {blob}\tlarge\n").as_bytes());
    let commit = git(&["commit-tree", "-m", "Large", &tree], b"");
    git(&["update-ref", "refs/heads/large", &commit], b"");
    let before = server.threads();
    let body = Script::new().fetch_v2("sha1", &[&commit], &[]).bytes().to_vec();
    let head = format!(
        "POST /a.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\n\
         Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The clients send requests and do not read.
    let clients: Vec<TcpStream> = (0..CLONES)
        .map(|_| {
            let mut client = TcpStream::connect(server.address("http")).unwrap();
            client.write_all(&[head.as_bytes(), &body].concat()).unwrap();
            client
        })
        .collect();
    let runtime = |threads: &BTreeMap<String, usize>| threads.get("tokio-rt-worker").copied().unwrap_or(0);
    let working = |server: &Server| {
        let threads = server.threads();
        threads.values().sum::<usize>() - runtime(&threads)
    };
    let idle = before.values().sum::<usize>() - runtime(&before);
    server.wait_until("two threads a clone", |server| {
        let requests = server.threads().get("request").copied();
        requests == Some(CLONES) && working(server) == idle + 2 * CLONES
    });
    drop(clients);
    server.wait_until("an end of them", |server| working(server) == idle);
}
