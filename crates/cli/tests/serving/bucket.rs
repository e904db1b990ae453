//! Repositories in a bucket: `packrace bucket` and `packrace serve --bucket`.

use packrace_testkit::{BucketServer, RefFormat, Repo, Storage};

use super::*;

/// How to access a store.
pub(super) struct Store {
    pub(super) variables: Vec<(String, String)>,
    pub(super) url: String,
}

impl Store {
    pub(super) fn of(server: &BucketServer) -> Self {
        Store { variables: server.variables(), url: "s3://git/hosting".to_owned() }
    }

    /// The same with additional variables.
    pub(super) fn with(&self, variables: Vec<(String, String)>) -> Self {
        let variables = self.variables.iter().cloned().chain(variables).collect();
        Store { variables, url: self.url.clone() }
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = packrace();
        command
            .envs(self.variables.iter().cloned())
            .arg("bucket")
            .arg(args[0])
            .arg(&self.url)
            .args(&args[1..]);
        command
    }

    /// The output of a `packrace bucket` command, which must succeed.
    #[track_caller]
    pub(super) fn run(&self, args: &[&str]) -> String {
        let ran = output(&mut self.command(args));
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The exit code and error of a command, which must fail.
    #[track_caller]
    pub(super) fn refused(&self, args: &[&str]) -> (i32, String) {
        let ran = output(&mut self.command(args));
        assert!(!ran.status.success(), "{args:?}");
        (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
    }

    pub(super) fn import(&self, repo: &Repo, name: &str) {
        assert_eq!(self.run(&["import", repo.path().to_str().unwrap(), name]), format!("{name}.git\n"));
    }

    pub(super) fn node(&self) -> Node {
        Node::start(self, tempfile::tempdir().unwrap(), &[])
    }
}

/// A server of repositories in a bucket.
pub(super) struct Node {
    pub(super) folder: tempfile::TempDir,
    child: Child,
    pub(super) address: SocketAddr,
    /// The git:// address, if served.
    git: Option<SocketAddr>,
}

impl Node {
    pub(super) fn start(store: &Store, folder: tempfile::TempDir, args: &[&str]) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(folder.path().join("log")).unwrap();
        let mut command = packrace();
        command.envs(store.variables.iter().cloned());
        command.args(["serve", "--bucket", &store.url, "--http", "127.0.0.1:0", "--cache"]);
        command.arg(folder.path().join("cache")).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut address_of = |scheme: &str| {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            let prefix = format!("packrace: serving {} at {scheme}://", store.url);
            let address = line.trim_end().strip_prefix(&prefix).and_then(|rest| rest.strip_suffix('/'));
            address.unwrap_or_else(|| panic!("{line}{}", log_of(&folder))).parse().unwrap()
        };
        let address = address_of("http");
        let git = args.contains(&"--git").then(|| address_of("git"));
        Node { folder, child, address, git }
    }

    /// Kills it, and starts another one with its cache.
    pub(super) fn restart(mut self, store: &Store, args: &[&str]) -> Self {
        self.kill();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Node::start(store, folder, args)
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub(super) fn get(&self, path: &str) -> HttpReply {
        http(self.address, &format!("GET {path} HTTP/1.1"), b"", Feed::Whole)
    }

    /// The same over git://.
    pub(super) fn git_url(&self, name: &str) -> String {
        format!("git://{}/{name}", self.git.unwrap())
    }

    /// Clones a repository, and returns its refs.
    pub(super) fn clone_refs(&self, name: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        let git = Git::stock();
        git.run(place.path(), &["clone", "--quiet", "--mirror", &self.url(name), "clone.git"]);
        let clone = place.path().join("clone.git");
        git.run(&clone, &["fsck", "--strict", "--no-dangling"]);
        git.run(&clone, &["for-each-ref", "--format=%(objectname) %(refname)"])
    }

    pub(super) fn metric(&self, line: &str) -> u64 {
        let text = String::from_utf8(self.get("/-/metrics").body).unwrap();
        let found = text.lines().find_map(|other| other.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
    }
}

impl Node {
    /// Kills it.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn log_of(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("log")).unwrap_or_default()
}

pub(super) fn refs(repo: &Repo) -> String {
    repo.git(&["for-each-ref", "--format=%(objectname) %(refname)"])
}

/// Tests that hold for every store.
pub(super) fn repositories_go_in_and_come_out(store: &Store) {
    let loose = Storage { packs: 3, loose: packrace_testkit::Loose::Newest, ..Storage::default() };
    let sha1 = RepoBuilder::new(Size::Tiny).storage(loose).build();
    sha1.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    let sha256 = RepoBuilder::new(Size::Tiny).hash(packrace_object::HashKind::Sha256);
    let sha256 = sha256.ref_format(RefFormat::Reftable).build();
    let before = std::fs::read_dir(sha1.path().join("objects/pack")).unwrap().count();
    store.import(&sha1, "team/one");
    store.import(&sha256, "two");
    assert_eq!(std::fs::read_dir(sha1.path().join("objects/pack")).unwrap().count(), before);
    let mut listed: Vec<String> = store.run(&["list"]).lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["team/one.git", "two.git"]);
    let (code, said) = store.refused(&["import", sha1.path().to_str().unwrap(), "two.git"]);
    assert_eq!((code, said.as_str()), (1, "error: 'two.git' is in the bucket already\n"));
    let place = tempfile::tempdir().unwrap();
    for (repo, name, format) in
        [(&sha1, "team/one", "files"), (&sha1, "team/one", "reftable"), (&sha256, "two", "files")]
    {
        let directory = place.path().join(format!("{}-{format}", name.replace('/', "-")));
        let option = format!("--ref-format={format}");
        store.run(&["export", name, directory.to_str().unwrap(), &option]);
        let git = Git::stock();
        git.run(&directory, &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(git.run(&directory, &["rev-parse", "--show-ref-format"]).trim(), format);
        assert_eq!(git.run(&directory, &["for-each-ref"]), repo.git(&["for-each-ref"]));
        assert_eq!(git.run(&directory, &["symbolic-ref", "HEAD"]), repo.git(&["symbolic-ref", "HEAD"]));
    }
    let nodes = [store.node(), store.node()];
    for node in &nodes {
        assert_eq!(node.clone_refs("team/one.git"), refs(&sha1));
        assert_eq!(node.clone_refs("team/one"), refs(&sha1));
        assert_eq!(node.clone_refs("two.git"), refs(&sha256));
        assert_eq!(node.metric("packrace_bucket_cache_fills_total"), 2);
        assert!(node.metric("packrace_bucket_cache_bytes") > 1000);
        assert_eq!(node.metric("packrace_bucket_requests_total{kind=\"list\",outcome=\"done\"}"), 0);
        assert_eq!(node.get("/three.git/info/refs?service=git-upload-pack").status, 404);
        assert_eq!(node.get("/team/one.git/info/refs?service=git-receive-pack").status, 403);
    }
}

#[test]
fn a_store_is_checked() {
    let server = BucketServer::start();
    let store = Store::of(&server);
    let said = store.run(&["check", "--writers=8", "--rounds=3"]);
    assert_eq!(said.lines().count(), 8);
    assert!(said.contains("ok: conditional replace (If-Match) (ETags match with quotes)\n"), "{said}");
    assert!(said.ends_with("ok: one winner among concurrent replaces (3 rounds of 8)\n"), "{said}");
    assert_eq!(server.keys(), [""; 0]);
    // Without concurrency, all guarantees hold.
    server.set_careless(true);
    let ran = output(&mut store.command(&["check"]));
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!((ran.status.code(), said.matches("failed: ").count()), (Some(1), 2), "{said}");
    assert!(said.contains("failed: one winner among concurrent replaces: failed in "), "{said}");
    server.set_careless(false);
    server.set_busy(true);
    let (code, said) = store.refused(&["check"]);
    assert!(code == 128 && said.starts_with("fatal: ") && said.contains("503"), "{said}");
}

#[test]
fn a_store_that_loses_writes_is_refused_at_the_start() {
    let server = BucketServer::start();
    let store = Store::of(&server);
    let folder = tempfile::tempdir().unwrap();
    let refused = || {
        let mut command = packrace();
        command.envs(server.variables()).args(["serve", "--bucket", "s3://git", "--http", "127.0.0.1:0"]);
        let ran = output(command.arg("--cache").arg(folder.path().join("cache")));
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(128), "{said}");
        let words = "bucket is not suitable for repositories: one winner among concurrent creates: failed";
        assert!(said.contains(words), "{said}");
    };
    server.set_careless(true);
    refused();
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (code, said) = store.refused(&["import", repo.path().to_str().unwrap(), "a"]);
    assert!(code == 128 && said.contains("not suitable for repositories"), "{said}");
    assert_eq!(server.keys(), [""; 0]);
    server.set_careless(false);
    drop(store.node());
    assert_eq!(server.keys().len(), 1);
    // It has passed, so it is not probed again, until a check finds out.
    server.set_careless(true);
    server.take_requests();
    drop(store.node());
    assert_eq!(server.take_requests().len(), 1);
    assert_eq!(output(&mut store.command(&["check"])).status.code(), Some(1));
    refused();
}

#[test]
fn repositories_are_imported_served_and_exported() {
    repositories_go_in_and_come_out(&Store::of(&BucketServer::start()));
}

#[test]
fn what_has_no_place_in_a_bucket_is_told() {
    let store = Store::of(&BucketServer::start());
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["config", "transfer.hideRefs", "refs/pull"]);
    repo.git(&["config", "gc.auto", "1"]);
    repo.git(&["config", "core.logAllRefUpdates", "true"]);
    repo.git(&["update-ref", "--create-reflog", "refs/heads/logged", "main"]);
    std::fs::create_dir_all(repo.path().join("hooks")).unwrap();
    std::fs::write(repo.path().join("hooks/update"), "").unwrap();
    let ran = output(&mut store.command(&["import", repo.path().to_str().unwrap(), "a"]));
    assert_eq!(
        String::from_utf8(ran.stderr).unwrap(),
        "warning: settings not imported: gc.auto\nwarning: reflogs not imported\n\
         warning: hooks not imported; use serve.hooks for hooks of all repositories\n\
         bucket has not been probed at this address yet: probing it\n"
    );
    let node = store.node();
    let shown = Git::stock().run(node.folder.path(), &["ls-remote", &node.url("a.git")]);
    assert!(shown.contains("refs/heads/main") && !shown.contains("refs/pull"), "{shown}");
    let shallow =
        RepoBuilder::new(Size::Tiny).storage(Storage { shallow_depth: Some(3), ..Storage::default() });
    let shallow = shallow.build();
    let (code, said) = store.refused(&["import", shallow.path().to_str().unwrap(), "b"]);
    assert!(code == 128 && said.contains("repository is shallow"), "{said}");
    let borrowing =
        RepoBuilder::new(Size::Tiny).storage(Storage { packs: 2, alternate: true, ..Storage::default() });
    store.import(&borrowing.build(), "c");
    assert!(!node.clone_refs("c.git").is_empty(), "what it borrowed is in the bucket");
    let (code, said) = store.refused(&["import", "/nowhere", "d"]);
    assert!(code == 128 && said.contains("nowhere"), "{said}");
    let (_, said) = store.refused(&["import", repo.path().to_str().unwrap(), "../a"]);
    assert!(said.contains("a part that is not allowed in a bucket"), "{said}");
    let (code, said) = store.refused(&["export", "absent", "/nowhere/else"]);
    assert!(code == 128 && said.contains("/nowhere/else"), "{said}");
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("new");
    let (code, said) = store.refused(&["export", "absent", place.to_str().unwrap()]);
    assert_eq!((code, said.as_str()), (1, "error: 'absent.git' is not in the bucket\n"));
    assert!(!place.exists());
}

/// Replaces a repository in the bucket by another.
fn replace(server: &BucketServer, old: &str, new: &str) {
    let dir = |name: &str| {
        let keys = server.keys();
        let head = keys.iter().find(|key| key.ends_with(&format!("/{name}.git/head"))).unwrap();
        head.strip_suffix("head").unwrap().to_owned()
    };
    let (from, to) = (dir(new), dir(old));
    for key in server.keys().iter().filter(|key| key.starts_with(&from) && !key.ends_with("/head")) {
        server.put(&format!("{to}{}", &key[from.len()..]), &server.object(key));
    }
    server.put(&format!("{to}head"), &server.object(&format!("{from}head")));
}

#[test]
fn every_request_sees_what_is_in_the_bucket_then() {
    let server = BucketServer::start();
    let store = Store::of(&server);
    let (one, two) = (RepoBuilder::new(Size::Tiny).build(), RepoBuilder::new(Size::Tiny).seed(2).build());
    store.import(&one, "a");
    store.import(&two, "b");
    let node = store.node();
    assert_eq!(node.clone_refs("a.git"), refs(&one));
    server.take_requests();
    Git::stock().run(node.folder.path(), &["ls-remote", &node.url("a.git")]);
    let asked = server.take_requests();
    assert_eq!(asked.len(), 2, "one for each request of HTTP: {asked:?}");
    assert!(
        asked.iter().all(|request| request.starts_with("GET ") && request.ends_with("/head")),
        "{asked:?}"
    );
    // A node with an empty cache also fetches the files.
    let cold = store.node();
    server.take_requests();
    Git::stock().run(cold.folder.path(), &["ls-remote", &cold.url("a.git")]);
    assert_eq!(server.take_requests().len(), 3);
    // A fetch of nothing new takes at most three HTTP requests.
    let clone = tempfile::tempdir().unwrap();
    Git::stock().run(clone.path(), &["clone", "--quiet", "--bare", &node.url("a.git"), "a"]);
    server.take_requests();
    Git::stock().run(&clone.path().join("a"), &["fetch", "--quiet", "origin", "+refs/*:refs/copies/*"]);
    assert!((2..=3).contains(&server.take_requests().len()));
    replace(&server, "a", "b");
    assert_eq!(node.clone_refs("a.git"), refs(&two));
    // After a kill, the next process continues with the cache.
    let node = node.restart(&store, &[]);
    server.take_requests();
    assert_eq!(node.clone_refs("a.git"), refs(&two));
    let asked = server.take_requests();
    assert!(asked.iter().all(|request| request.ends_with("/head")), "{asked:?}");
}

#[test]
fn a_bucket_that_is_away_or_damaged_is_told_and_nothing_else_is_served() {
    let server = BucketServer::start();
    let store = Store::of(&server);
    let repo = RepoBuilder::new(Size::Tiny).build();
    store.import(&repo, "a");
    let node = store.node();
    assert_eq!(node.clone_refs("a.git"), refs(&repo));
    server.set_busy(true);
    let path = "/a.git/info/refs?service=git-upload-pack";
    let reply = node.get(path);
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(node.metric("packrace_refusals_total{reason=\"unavailable\"}"), 1);
    server.set_busy(false);
    assert_eq!(node.get(path).status, 200);
    let head = server.keys().into_iter().find(|key| key.ends_with("a.git/head")).unwrap();
    let good = server.object(&head);
    let mut bad = good.clone();
    bad[40] ^= 1;
    server.put(&head, &bad);
    assert_eq!(node.get(path).status, 500);
    assert!(
        log_of(&node.folder).contains("'a.git': head: does not match its checksum"),
        "{}",
        log_of(&node.folder)
    );
    server.put(&head, &good);
    assert_eq!(node.get(path).status, 200);
    assert_eq!(node.clone_refs("a.git"), refs(&repo));
}

#[test]
fn a_node_without_its_bucket_does_not_start() {
    let server = BucketServer::start();
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let check = |args: &[&str], code, expect: &str| {
        let mut command = packrace();
        command.envs(server.variables()).arg("serve").args(args);
        let ran = output(&mut command);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{said}");
        assert!(said.contains(expect), "{said}");
    };
    let cache = cache.to_str().unwrap();
    check(&["--bucket", "s3://git"], 128, "bucket.cache: required with a bucket");
    check(
        &["--bucket", "s3://git", "--cache", cache, "--cache-bytes", "much"],
        129,
        "--bucket.cache-bytes=much",
    );
    check(&["--set", "bucket.url=s3://git", cache], 129, "either a folder (ROOT) or a bucket");
    check(&["--config", "/dev/null"], 129, "give a folder (ROOT) or a bucket");
    let args = ["--bucket", "s3://git", "--cache", cache];
    check(&[&args[..], &["--set", "listen.shell=/run/x"]].concat(), 128, "listen.shell");
    check(&[&args[..], &["--inetd"]].concat(), 128, "--inetd");
    server.set_busy(true);
    check(&args, 128, "fatal: s3://git: ");
}
