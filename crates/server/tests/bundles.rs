//! Bundles that the server keeps: stock git starts from them, and nothing in them is hidden or gone.

mod served;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_server::bundles::BundleRules;
use packrace_server::maintenance::{MaintenanceMode, MaintenanceRules};
use packrace_server::receive::Committer;
use packrace_server::settings::{Pushing, Settings};
use packrace_testkit::peer::{Feed, HttpReply, http};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, reachable_objects};

const HIDDEN: &str = "refs/tags/secret";

struct Served {
    folder: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
}

impl Served {
    /// `a.git`, to be pushed to by everybody. The caretaker looks at it right after a push.
    fn start(hash: HashKind, refs: RefFormat, keep: bool) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Tiny).hash(hash).ref_format(refs).build_at(&root.join("a.git"), Git::stock());
        let work = folder.path().join("work");
        Git::stock().run(folder.path(), &["clone", "-q", "root/a.git", "work"]);
        Git::stock().run(&work, &["tag", "-a", "-m", "Release", "release", "HEAD~2"]);
        let settings = served::settings(folder.path());
        let pushing = Pushing {
            is_allowed: true,
            committer: Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec())),
            ..settings.pushing
        };
        let maintenance = MaintenanceRules {
            mode: MaintenanceMode::Auto,
            delay: Duration::from_millis(1),
            ..MaintenanceRules::default()
        };
        let base_url = Some("http://bundles.example/x".parse().unwrap());
        let bundles = BundleRules { keep, base_url, ..BundleRules::default() };
        let addresses = served::start(&root, Settings { maintenance, pushing, bundles, ..settings });
        Served { folder, http: addresses[0], git: addresses[1] }
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("root/a.git")
    }

    fn dir(&self) -> PathBuf {
        self.repo().join("packrace-bundles")
    }

    fn url(&self) -> String {
        format!("http://{}/a.git", self.http)
    }

    fn work(&self, args: &[&str]) -> String {
        Git::stock().run(&self.folder.path().join("work"), args)
    }

    /// A commit with a file of this name.
    fn commit(&self, name: &str) -> String {
        std::fs::write(self.folder.path().join("work").join(name), name).unwrap();
        self.work(&["add", name]);
        self.work(&["commit", "-q", "-m", name]);
        self.work(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn push(&self, what: &[&str]) {
        let url = self.url();
        self.work(&[&["push", "-q", &url], what].concat());
    }

    fn get(&self, target: &str, headers: &[&str]) -> HttpReply {
        self.request("GET", target, headers)
    }

    fn request(&self, method: &str, target: &str, headers: &[&str]) -> HttpReply {
        let lines = headers.iter().map(|line| format!("{line}\n"));
        let head = format!("{method} {target} HTTP/1.1\n{}", lines.collect::<String>());
        http(self.http, &head, b"", Feed::Whole)
    }

    /// The names of all bundles, the oldest first.
    fn bundles(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir()).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".bundle")).collect();
        names.sort();
        names
    }

    /// Those that clients are offered.
    fn offered(&self) -> Vec<String> {
        let reply = self.get("/a.git/bundles/list", &[]);
        let text = String::from_utf8(reply.body.clone()).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("\turi = "));
        lines.map(str::to_owned).collect()
    }

    /// The caretaker does nothing in the repository during `change`: after work, and after a push, it looks once
    /// more, at a time that depends on how long the work took.
    fn at_rest<T>(&self, change: impl FnOnce() -> T) -> T {
        let auto = |value| Git::stock().run(&self.repo(), &["config", "maintenance.auto", value]);
        auto("false");
        let metrics = || String::from_utf8(self.get("/-/metrics", &[]).body).unwrap();
        until("at rest", metrics, |metrics| metrics.contains("packrace_maintenance_running 0\n"));
        let changed = change();
        auto("true");
        changed
    }

    /// Makes the bundles look as if they were made two days earlier.
    fn age(&self) {
        self.at_rest(|| {
            for name in self.bundles() {
                let (token, rest) = name.split_once('-').unwrap();
                let older = token.parse::<u64>().unwrap() - 2 * 24 * 60 * 60;
                std::fs::rename(self.dir().join(&name), self.dir().join(format!("{older}-{rest}"))).unwrap();
            }
        });
        // Tokens are in seconds, and the next one must be greater than those that clients know.
        std::thread::sleep(Duration::from_millis(1100));
    }

    /// Ids and names of the refs in a bundle that git finds right.
    fn refs_in(&self, name: &str) -> BTreeSet<String> {
        let path = self.dir().join(name).display().to_string();
        Git::stock().run(&self.repo(), &["bundle", "verify", "-q", &path]);
        let heads = Git::stock().run(&self.repo(), &["bundle", "list-heads", &path]);
        heads.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    /// Runs a command of git in a directory below the folder; gives the requests that it made for bundles.
    fn run(&self, dir: &str, args: &[&str]) -> Vec<String> {
        let trace = self.folder.path().join("trace");
        let _ = std::fs::remove_file(&trace);
        let mut command = Git::stock().command(&self.folder.path().join(dir));
        command.env("GIT_TRACE_CURL", &trace).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        let trace = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
        let asked = trace.lines().filter_map(|line| line.split_once("=> Send header: GET /a.git/bundles/"));
        asked.map(|(_, rest)| rest.split(' ').next().unwrap().to_owned()).collect()
    }
}

#[track_caller]
fn until<T: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "never {what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_same(repo: &Path, clone: &Path) {
    Git::stock().run(clone, &["fsck", "--full", "--strict", "--no-dangling"]);
    let all = reachable_objects(Git::stock(), repo);
    assert!(reachable_objects(Git::stock(), clone).is_subset(&all));
    let main = |dir| Git::stock().run(dir, &["rev-parse", "HEAD"]);
    assert_eq!(main(repo), main(clone));
}

fn clients_start_from_bundles(hash: HashKind, refs: RefFormat) {
    let served = Served::start(hash, refs, true);
    served.commit("one");
    served.push(&["HEAD:main", "release", "HEAD:refs/heads/topic"]);
    let full = until("a full one", || served.bundles(), |bundles| bundles.len() == 1).remove(0);
    let refs = served.refs_in(&full);
    assert!(refs.contains("refs/heads/main") && refs.contains("refs/tags/release"), "{refs:?}");
    // Other branches, and tags of trees, come with the fetch.
    assert!(refs.iter().all(|name| *name == "refs/heads/main" || name.starts_with("refs/tags/")), "{refs:?}");
    assert!(!refs.contains("refs/tags/of-a-tree"));
    let url = served.url();
    let asked = served.run(".", &["-c", "transfer.bundleURI=true", "clone", "-q", &url, "c"]);
    assert_eq!(asked, [full.as_str()]);
    let clone = served.folder.path().join("c");
    assert_same(&served.repo(), &clone);
    assert!(!Git::stock().run(&clone, &["for-each-ref", "refs/bundles"]).is_empty());

    // An increment, a day later. It has what is new, and no client loads both again.
    served.age();
    served.commit("two");
    served.push(&["HEAD:main"]);
    let bundles = until("an increment", || served.bundles(), |bundles| bundles.len() == 2);
    let increment = bundles.iter().find(|name| name.ends_with("-increment.bundle")).unwrap();
    assert_eq!(served.refs_in(increment), BTreeSet::from(["refs/heads/main".to_owned()]));
    let list = format!("{url}/bundles/list");
    let asked = served.run("c", &["-c", &format!("fetch.bundleURI={list}"), "fetch", "-q", "origin"]);
    assert_eq!(asked, ["list", increment.as_str()]);
    let asked = served.run("c", &["-c", &format!("fetch.bundleURI={list}"), "fetch", "-q", "origin"]);
    assert_eq!(asked, ["list"]);
    Git::stock().run(&clone, &["merge", "-q", "--ff-only", "origin/main"]);
    assert_same(&served.repo(), &clone);
    // A new client takes both, the last one first.
    let asked = served.run(".", &["clone", "-q", "--bundle-uri", &list, &url, "d"]);
    assert_eq!(asked[..2], ["list".to_owned(), increment.clone()]);
    assert_eq!(asked.len(), 3);
    assert_same(&served.repo(), &served.folder.path().join("d"));
}

#[test]
fn clients_of_sha_1_start_from_bundles() {
    clients_start_from_bundles(HashKind::Sha1, RefFormat::Files);
}

#[test]
fn clients_of_sha_256_and_reftables_start_from_bundles() {
    clients_start_from_bundles(HashKind::Sha256, RefFormat::Reftable);
}

/// A bundle is withdrawn in the same moment in which an object in it is gone or hidden, whoever did it, and another one takes its place.
#[test]
fn what_is_gone_or_hidden_is_not_offered() {
    let served = Served::start(HashKind::Sha1, RefFormat::Files, true);
    let git = |args: &[&str]| Git::stock().run(&served.repo(), args);
    git(&["tag", "secret", "main"]);
    git(&["config", "uploadpack.hideRefs", HIDDEN]);
    let regretted = served.commit("password");
    served.push(&["HEAD:main", "release"]);
    until("offered", || served.offered(), |offered| offered.len() == 1);
    served.age();
    let offered = served.offered();
    assert!(!served.refs_in(&offered[0]).contains(HIDDEN));
    let target = format!("/a.git/bundles/{}", offered[0]);
    assert_eq!(served.get(&target, &[]).status, 200);
    let holds = |name: &str, id: &str| {
        let path = served.dir().join(name).display().to_string();
        let to = packrace_testkit::scratch_dir();
        Git::stock().run(to.path(), &["clone", "-q", "--bare", "-b", "main", &path, "x"]);
        reachable_objects(Git::stock(), &to.path().join("x")).contains(id)
    };
    assert!(holds(&offered[0], &regretted));

    // Another program changes the ref: the server has no part in it.
    git(&["update-ref", "refs/heads/main", "main~1"]);
    assert_eq!(served.get(&target, &[]).status, 404);
    assert_eq!(served.offered(), [""; 0]);
    // The next push makes the caretaker look.
    served.work(&["reset", "-q", "--hard", "HEAD~1"]);
    served.commit("four");
    served.push(&["HEAD:main"]);
    let replaced = until("replaced", || served.offered(), |offered| offered.len() == 1);
    assert_ne!(replaced, offered);
    assert_eq!(served.bundles(), replaced);
    assert!(!holds(&replaced[0], &regretted));

    // A tag that is deleted and comes back, and is hidden later.
    assert!(served.refs_in(&replaced[0]).contains("refs/tags/release"));
    served.at_rest(|| {
        git(&["update-ref", "-d", "refs/tags/release"]);
        assert_eq!(served.offered(), [""; 0]);
        served.work(&["push", "-q", "../root/a.git", "release"]);
    });
    served.commit("again");
    served.push(&["HEAD:main", "release"]);
    until("offered again", || served.offered(), |offered| *offered == replaced);
    git(&["config", "--add", "transfer.hideRefs", "refs/tags/release"]);
    until("withdrawn", || served.offered(), Vec::is_empty);
    served.commit("five");
    served.push(&["HEAD:main"]);
    let last = until("made without it", || served.offered(), |offered| offered.len() == 1);
    assert!(!served.refs_in(&last[0]).contains("refs/tags/release"));
}

#[test]
fn parts_of_a_bundle() {
    let served = Served::start(HashKind::Sha1, RefFormat::Files, true);
    served.commit("one");
    served.push(&["HEAD:main"]);
    let name = until("offered", || served.offered(), |offered| offered.len() == 1).remove(0);
    let bytes = std::fs::read(served.dir().join(&name)).unwrap();
    let target = format!("/a.git/bundles/{name}");
    let whole = served.get(&target, &[]);
    assert_eq!((whole.status, &whole.body), (200, &bytes));
    assert_eq!(whole.header("content-length"), Some(bytes.len().to_string().as_str()));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let tag = whole.header("etag").unwrap().to_owned();
    let mut stream = TcpStream::connect(served.http).unwrap();
    let host = served.http;
    let request =
        format!("HEAD {target} HTTP/1.1\r\nHost: {host}\r\nRange: bytes=1-2\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = String::new();
    stream.read_to_string(&mut head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", bytes.len())), "{head}");
    let end = format!("bytes 100-{}/{}", bytes.len() - 1, bytes.len());
    for headers in [vec!["Range: bytes=100-"], vec!["Range: bytes=100-", &format!("If-Range: {tag}")]] {
        let part = served.get(&target, &headers);
        assert_eq!((part.status, &part.body[..]), (206, &bytes[100..]));
        assert_eq!(part.header("content-range"), Some(end.as_str()));
    }
    let other = served.get(&target, &["Range: bytes=100-", "If-Range: \"other\""]);
    assert_eq!((other.status, &other.body), (200, &bytes));
    let behind = served.get(&target, &[&format!("Range: bytes={}-", bytes.len())]);
    assert_eq!((behind.status, behind.body.len()), (416, 0));
    assert_eq!(behind.header("content-range"), Some(format!("bytes */{}", bytes.len()).as_str()));
    let known = served.get(&target, &[&format!("If-None-Match: {tag}")]);
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(served.request("POST", &target, &["Content-Length: 0"]).status, 405);
    for absent in ["/a.git/bundles/1-full.bundle", "/b.git/bundles/list", "/a.git/bundles/"] {
        assert_eq!(served.get(absent, &[]).status, 404, "{absent}");
    }
}

/// Over git:// the list names the URL of the settings; a repository's own list, or its refusal, counts more.
#[test]
fn what_is_offered_in_a_session() {
    let served = Served::start(HashKind::Sha1, RefFormat::Files, true);
    let listed = |url: &str| {
        let trace = served.folder.path().join("packets");
        let _ = std::fs::remove_file(&trace);
        let to = packrace_testkit::scratch_dir();
        let mut command = Git::stock().command(to.path());
        command.env("GIT_TRACE_PACKET", &trace);
        // The host of the base URL does not exist.
        command.args(["-c", "transfer.bundleURI=true", "-c", "http.proxy=http://127.0.0.1:1", "-c"]);
        command.args([&format!("http.http://{}/.proxy=", served.http), "clone", "-q", url, "c"]);
        assert!(command.status().unwrap().success());
        let text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
        let lines = text.lines().filter_map(|line| Some(line.split_once("< bundle.")?.1.to_owned()));
        lines.collect::<Vec<_>>()
    };
    let (over_http, over_git) = (served.url(), format!("git://{}/a.git", served.git));
    assert_eq!(listed(&over_http), [""; 0]);
    served.commit("one");
    served.push(&["HEAD:main"]);
    let name = until("offered", || served.offered(), |offered| offered.len() == 1).remove(0);
    let (id, token) = (name.strip_suffix(".bundle").unwrap(), name.split('-').next().unwrap());
    let expect = |uri: String| {
        let lines = ["version=1", "mode=all", "heuristic=creationToken"].map(str::to_owned);
        let own = [format!("{id}.uri={uri}"), format!("{id}.creationtoken={token}")];
        lines.into_iter().chain(own).collect::<Vec<_>>()
    };
    assert_eq!(listed(&over_http), expect(format!("bundles/{name}")));
    assert_eq!(listed(&over_git), expect(format!("http://bundles.example/x/a.git/bundles/{name}")));
    let config = |args: &[&str]| Git::stock().run(&served.repo(), &[&["config"], args].concat());
    // A check meanwhile would remove it.
    served.at_rest(|| {
        config(&["uploadpack.advertiseBundleURIs", "false"]);
        assert_eq!(listed(&over_http), [""; 0]);
        assert_eq!(served.get(&format!("/a.git/bundles/{name}"), &[]).status, 404);
        config(&["uploadpack.advertiseBundleURIs", "true"]);
    });
    assert_eq!(listed(&over_http), expect(format!("bundles/{name}")));
    config(&["bundle.version", "1"]);
    assert_eq!(listed(&over_http), ["version=1"]);
    served.commit("two");
    served.push(&["HEAD:main"]);
    until("removed", || served.dir().exists(), |exists| !exists);
}

#[test]
fn nothing_is_kept_unless_a_setting_says_so() {
    let served = Served::start(HashKind::Sha1, RefFormat::Files, false);
    std::fs::create_dir(served.dir()).unwrap();
    std::fs::write(served.dir().join("1-full.bundle"), "left from earlier").unwrap();
    assert_eq!(served.get("/a.git/bundles/list", &[]).status, 404);
    assert_eq!(served.get("/a.git/bundles/1-full.bundle", &[]).status, 404);
    served.commit("one");
    served.push(&["HEAD:main"]);
    until("removed", || served.dir().exists(), |exists| !exists);
}
