//! Nodes with a real store: SeaweedFS with two gateways.

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use packrace_testkit::Random;

use super::bucket::{Node, Store, refs, repositories_go_in_and_come_out};
use super::bucket_pushes::{Work, hooks};
use super::*;

/// SeaweedFS with two gateways, on loopback.
struct Weed {
    children: Vec<Child>,
    _folder: tempfile::TempDir,
    endpoints: Vec<String>,
}

impl Weed {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identities = r#"{"identities":[{"name":"packrace","credentials":[{"accessKey":"key","secretKey":"secret"}],"actions":["Admin"]}]}"#;
        let config = folder.path().join("s3.json");
        std::fs::write(&config, identities).unwrap();
        let [master, volume, filer, first, second] = free_ports();
        let mut children = Vec::new();
        let mut start = |args: &[String]| {
            let log = std::fs::File::create(folder.path().join(format!("log-{}", children.len()))).unwrap();
            let mut command = Command::new("weed");
            command.arg("-logtostderr").args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            children.push(command.spawn().expect("weed, which .ci/run installs"));
        };
        let all = "server -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0 \
                   -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=40";
        let mut args: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
        args.extend([
            format!("-dir={}", folder.path().display()),
            format!("-s3.config={}", config.display()),
            format!("-master.port={master}"),
            format!("-volume.port={volume}"),
            format!("-filer.port={filer}"),
            format!("-s3.port={first}"),
        ]);
        start(&args);
        wait_for(first);
        let mut shell = Command::new("weed");
        shell.args(["shell", &format!("-master=127.0.0.1:{master}")]).stdin(Stdio::piped());
        let mut shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), b"s3.bucket.create -name git\n").unwrap();
        let said = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
        assert!(said.contains("created bucket git"), "{said}");
        let gateway = ["s3", "-ip.bind=127.0.0.1", "-iam=false", "-port.iceberg=0", "-port.lance=0"];
        let mut args: Vec<String> = gateway.map(str::to_owned).to_vec();
        args.extend([
            format!("-filer=127.0.0.1:{filer}"),
            format!("-config={}", config.display()),
            format!("-port={second}"),
        ]);
        start(&args);
        wait_for(second);
        let endpoints = [first, second].map(|port| format!("http://127.0.0.1:{port}")).to_vec();
        Weed { children, _folder: folder, endpoints }
    }

    fn store(&self, gateway: usize) -> Store {
        let variables = [
            ("AWS_ENDPOINT_URL_S3", self.endpoints[gateway].as_str()),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Store { variables, url: "s3://git/hosting".to_owned() }
    }
}

impl Drop for Weed {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Free ports on loopback such that the ports 10,000 above are free, too.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut held = Vec::new();
    std::array::from_fn(|_| {
        loop {
            let one = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = one.local_addr().unwrap().port();
            let other = port.checked_add(10_000).map(|port| std::net::TcpListener::bind(("127.0.0.1", port)));
            held.push(one);
            if let Some(Ok(other)) = other {
                held.push(other);
                return port;
            }
        }
    })
}

fn wait_for(port: u16) {
    let end = Instant::now() + Duration::from_secs(60);
    // It listens before it responds.
    let answers = || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok().filter(|_| line.starts_with("HTTP/1.1 403"))
    };
    while answers().is_none() {
        assert!(Instant::now() < end, "the store does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs weed"]
fn seaweedfs_keeps_its_promises_and_holds_repositories() {
    let weed = Weed::start();
    let store = weed.store(0);
    let said = store.run(&["check", "--rounds=2"]);
    assert_eq!(said.matches("ok: ").count(), 8, "{said}");
    repositories_go_in_and_come_out(&store);
    // An upload in parts, read through the other gateway.
    let large = RepoBuilder::new(Size::Medium).build();
    store.import(&large, "large");
    let node = weed.store(1).node();
    assert_eq!(node.clone_refs("large.git"), refs(&large));
    let parts = node.metric("packrace_bucket_requests_total{kind=\"range\",outcome=\"done\"}");
    assert!((2..=6).contains(&parts), "{parts}");
    let (_, said) = Store { url: "s3://absent".into(), ..weed.store(0) }.refused(&["list"]);
    assert_eq!(said, "fatal: no such bucket\n");
}

/// Three nodes: two on one gateway, one on the other.
struct Nodes<'a> {
    weed: &'a Weed,
    args: Vec<String>,
    nodes: [Mutex<Option<Node>>; 3],
    addresses: [Mutex<SocketAddr>; 3],
}

impl<'a> Nodes<'a> {
    fn start(weed: &'a Weed, args: &[&str]) -> Self {
        let started =
            [0, 1, 2].map(|at| Node::start(&weed.store(at % 2), tempfile::tempdir().unwrap(), args));
        let addresses = started.each_ref().map(|node| Mutex::new(node.address));
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Nodes { weed, args, nodes: started.map(|node| Mutex::new(Some(node))), addresses }
    }

    fn url(&self, at: usize) -> String {
        format!("http://{}/a.git", self.addresses[at].lock().unwrap())
    }

    /// Kills a node, checks that another one responds, and restarts it with its cache.
    fn kill(&self, at: usize) {
        let mut place = self.nodes[at].lock().unwrap();
        let mut node = place.take().unwrap();
        node.kill();
        let mut look = Git::stock().command(Path::new("/"));
        let looked = output(look.args(["ls-remote", &self.url((at + 1) % 3)]));
        assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let node = node.restart(&self.weed.store(at % 2), &args);
        *self.addresses[at].lock().unwrap() = node.address;
        *place = Some(node);
    }
}

/// Listens, and forwards each connection to a random node.
fn any_of(nodes: &Nodes<'_>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let targets = nodes.addresses.each_ref().map(|address| *address.lock().unwrap());
    let mut random = Random::new(20);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(node)) = (client, std::net::TcpStream::connect(targets[random.below(3)]))
            else {
                continue;
            };
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), node.try_clone().unwrap()), (node, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    address
}

/// Each request of a clone, fetch or push goes to a random node.
#[test]
#[ignore = "needs weed"]
fn every_request_may_go_to_another_node() {
    let weed = Weed::start();
    let store = weed.store(0);
    store.import(&RepoBuilder::new(Size::Small).build(), "a");
    let said = tempfile::NamedTempFile::new().unwrap();
    let log = said.path().display();
    let hooks = hooks(&[
        ("pre-receive", "while read old new ref; do case $new in 0000*) ;; *) git cat-file -e $new || exit 1;; esac; done\n".to_owned()),
        ("update", "case $1 in refs/heads/no*) echo 'not here' >&2; exit 1;; esac\n".to_owned()),
        ("post-receive", format!("while read old new ref; do echo $ref $new >>'{log}'; done\n")),
    ]);
    let hooks = format!("serve.hooks={}", hooks.path().display());
    let nodes = Nodes::start(&weed, &["--allow-push", "--set", &hooks, "--set", "maintenance.delay=0"]);
    let url = format!("http://{}/a.git", any_of(&nodes));
    // One connection per request.
    let alone = ["-c", "http.extraHeader=Connection: close"];
    let (one, two) = (Work::of_with(&url, &alone), Work::of_with(&url, &alone));
    for work in [&one, &two] {
        work.git(&["config", "http.extraHeader", "Connection: close"]);
    }
    for round in 0..20 {
        let (from, to) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let branch = format!("refs/heads/b{round}");
        let tip = from.commit(&format!("round {round}"));
        let gone = format!(":refs/heads/b{}", round.max(12) - 12);
        match round {
            12.. => from.git(&["push", "--quiet", "--atomic", "origin", &format!("HEAD:{branch}"), &gone]),
            _ => from.git(&["push", "--quiet", "origin", &format!("HEAD:{branch}")]),
        };
        let refused = from.refused(&["origin", "HEAD:refs/heads/no"]);
        assert!(refused.contains("remote: not here") && refused.contains("(hook declined)"), "{refused}");
        to.git(&["fetch", "--quiet", "--prune", "origin"]);
        let fetched = to.git(&["rev-parse", &format!("refs/remotes/origin/b{round}")]);
        assert_eq!(fetched.trim(), tip);
        to.git(&["reset", "--quiet", "--hard", &tip]);
        assert!(std::fs::read_to_string(said.path()).unwrap().contains(&format!("{branch} {tip}\n")));
    }
    let clone = Work::of_with(&url, &alone);
    clone.git(&["fsck", "--strict", "--full"]);
    assert_eq!(clone.git(&["ls-remote", "origin"]), one.git(&["ls-remote", "origin"]));
    // All nodes took part.
    for node in &nodes.nodes {
        let pushes = node.lock().unwrap().as_ref().unwrap().metric("packrace_bucket_pushes_total");
        assert!(pushes > 0);
    }
}

/// Pushes through random nodes until `is_over`. Returns the last acknowledged commit.
fn push_until(
    is_over: &AtomicBool,
    pushed: &AtomicUsize,
    nodes: &Nodes<'_>,
    writer: usize,
    work: &Work,
) -> Option<String> {
    let (mut last, mut random) = (None, Random::new(writer as u64));
    while !is_over.load(SeqCst) {
        // One in three packs is uploaded as an object; the others are stored in the head.
        if random.one_in(3) {
            std::fs::write(work.dir().join("noise"), random.bytes(30_000)).unwrap();
            work.git(&["add", "noise"]);
        }
        let tip = work.commit(&random.next_u64().to_string());
        let mut command = Git::stock().command(&work.dir());
        let reference = format!("HEAD:refs/heads/w{writer}");
        let ran = output(command.args(["push", "--quiet", &nodes.url(random.below(3)), &reference]));
        if ran.status.success() {
            last = Some(tip);
            pushed.fetch_add(1, SeqCst);
        }
    }
    last
}

/// Nodes are killed a hundred times while clients push and collect: every node has the acknowledged commits.
#[test]
#[ignore = "needs weed"]
fn nodes_that_are_killed_lose_no_acknowledged_push() {
    const KILLS: usize = 100;
    let weed = Weed::start();
    weed.store(0).import(&RepoBuilder::new(Size::Tiny).build(), "a");
    let nodes = Nodes::start(&weed, &["--allow-push", "--set", "maintenance.delay=1"]);
    let (is_over, pushed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let works: Vec<Work> = (0..4).map(|at| Work::of(&nodes.url(at % 3))).collect();
    let mut collections = 0;
    let acknowledged: Vec<Option<String>> = std::thread::scope(|scope| {
        let push = |(writer, work)| push_until(&is_over, &pushed, &nodes, writer, work);
        let running: Vec<_> = works.iter().enumerate().map(|work| scope.spawn(move || push(work))).collect();
        let mut random = Random::new(99);
        for kill in 0..KILLS {
            // Some pushes end between two kills.
            let before = pushed.load(SeqCst);
            let end = Instant::now() + Duration::from_secs(20);
            while pushed.load(SeqCst) < before + kill % 3 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            nodes.kill(random.below(3));
            // It may lose to pushes every time.
            if kill % 10 == 9 {
                let ran = output(&mut weed.store(0).command(&["collect", "--now", "a"]));
                collections += usize::from(ran.status.success());
            }
        }
        is_over.store(true, SeqCst);
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    assert!(collections > 0);
    // Nodes fold, too, and may be faster.
    let end = Instant::now() + Duration::from_secs(60);
    while !output(&mut weed.store(0).command(&["fold", "--all", "a"])).status.success() {
        assert!(Instant::now() < end);
    }
    weed.store(1).run(&["collect", "--now", "a"]);
    assert!(pushed.load(SeqCst) > KILLS / 2, "{}", pushed.load(SeqCst));
    let fresh = Node::start(&weed.store(1), tempfile::tempdir().unwrap(), &[]);
    let found = fresh.clone_refs("a.git");
    for (writer, (work, last)) in works.iter().zip(&acknowledged).enumerate() {
        let Some(last) = last else { panic!("writer {writer} got nothing through") };
        let line = found.lines().find_map(|line| line.strip_suffix(&format!(" refs/heads/w{writer}")));
        let there = line.unwrap_or_else(|| panic!("w{writer} is lost: {found}"));
        work.git(&["merge-base", "--is-ancestor", last, there]);
    }
    for at in 0..3 {
        let node = nodes.nodes[at].lock().unwrap().take().unwrap();
        assert_eq!(node.clone_refs("a.git"), found);
    }
}
