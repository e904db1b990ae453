//! The server as a part of another program, tried with stock git.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use packrace_server::access::{AccessPolicy, Ask, Decision, NotIdentified, Offer, Principal};
use packrace_server::embed::{
    Git as Embedded, JournalLine, MaintainError, Maintained, MaintenanceBudget, ReceiveHook, ReceivedPush,
    RepositoryPaths,
};
use packrace_server::settings::Settings;
use packrace_testkit::{Git, RepoBuilder, Size};

// The examples of the documentation.

#[allow(dead_code)]
#[path = "../examples/caching_proxy.rs"]
mod caching_proxy;
#[allow(dead_code)]
#[path = "../examples/forge.rs"]
mod forge;
#[allow(dead_code)]
#[path = "../examples/push_policy.rs"]
mod push_policy;

fn git(dir: &Path, args: &[&str]) -> Output {
    let mut command = Git::stock().command(dir);
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).args(args);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with `alice/a.git`.
fn hosted() -> (tempfile::TempDir, PathBuf) {
    let folder = packrace_testkit::scratch_dir();
    let repo = folder.path().join("root/alice/a.git");
    std::fs::create_dir_all(repo.parent().unwrap()).unwrap();
    RepoBuilder::new(Size::Tiny).build_at(&repo, Git::stock());
    (folder, repo)
}

#[test]
fn a_forge_with_users_of_its_own() {
    let (folder, repo) = hosted();
    let served_at = serve_beside(forge::git(&folder.path().join("root")).unwrap(), forge::pages());
    let clone = folder.path().join("clone");
    let url = format!("{served_at}alice/a.git");
    let as_user = |who: &str| url.replace("http://", &format!("http://{who}@"));
    let cloned = git(folder.path(), &["clone", "-q", &url, "clone"]);
    assert!(cloned.status.success(), "{}", said(&cloned));
    assert!(git(&clone, &["fsck", "--strict"]).status.success());
    assert!(git(&clone, &["commit", "-q", "--allow-empty", "-m", "new"]).status.success());
    let push = |who: &str, refs: &str| git(&clone, &["push", "-q", &as_user(who), refs]);
    let head = String::from_utf8(git(&clone, &["rev-parse", "HEAD"]).stdout).unwrap();
    let served = || Git::stock().run(&repo, &["rev-parse", "refs/heads/new"]);
    let pushed = push("alice:wonder", "HEAD:refs/heads/new");
    assert!(pushed.status.success(), "{}", said(&pushed));
    assert_eq!(served(), head);
    for (who, refs, words) in [
        ("bob:builder", "HEAD:refs/heads/bobs", "403"),
        ("alice:wrong", "HEAD:refs/heads/x", "Authentication failed"),
        ("alice:wonder", "+HEAD~:refs/heads/new", "history is not rewritten here"),
    ] {
        let refused = push(who, refs);
        assert!(!refused.status.success() && said(&refused).contains(words), "{who}: {}", said(&refused));
    }
    assert_eq!(served(), head);
    let unknown = git(folder.path(), &["ls-remote", &format!("{served_at}alice/b.git")]);
    assert!(said(&unknown).contains("not found"), "{}", said(&unknown));
}

/// Panics if it is asked about anything but reading.
#[derive(Debug)]
struct Broken;

impl AccessPolicy for Broken {
    fn identify(&self, _: &Offer<'_>) -> Result<Principal, NotIdentified> {
        Ok(Principal::anonymous())
    }

    fn decide(&self, _: &Principal, _: &[u8], ask: Ask<'_>) -> Decision {
        assert_eq!(ask, Ask::Read, "a fault of the caller");
        Decision::Allow
    }
}

/// The output of a session.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn sessions_and_panics() {
    let (folder, repo) = hosted();
    let embedded = Embedded::builder(folder.path().join("root")).access(Broken).build().unwrap();
    let converse = |command: &str, input: &'static [u8]| {
        let written = Written::default();
        let streams = (input, written.clone());
        let ended = embedded.converse(command.as_bytes(), "alice", None, "version=2", streams, |_| {});
        let bytes = written.0.lock().unwrap().clone();
        (ended.map_err(|error| error.to_string()), bytes)
    };
    let (ended, written) = converse("git-upload-pack '/alice/a.git'", b"0014command=ls-refs\n00000000");
    assert_eq!(ended, Ok(()));
    let head = Git::stock().run(&repo, &["rev-parse", "HEAD"]);
    let listed = String::from_utf8_lossy(&written);
    assert!(listed.contains(&format!("{} HEAD", head.trim())), "{listed}");
    let refused = |command: &str| converse(command, b"0000").0.unwrap_err();
    assert_eq!(refused("git-upload-pack '/none.git'"), "'/none.git' does not appear to be a git repository");
    assert_eq!(refused("sh -c date"), "unrecognized command 'sh -c date'");
    assert_eq!(refused("git-receive-pack '/alice/a.git'"), "internal error");
    // Nothing of it stays behind.
    assert_eq!(converse("git-upload-pack '/alice/a.git'", b"0000").0, Ok(()));
}

/// Refuses `refs/heads/no`, and remembers the others.
#[derive(Debug, Default)]
struct Watching(Arc<Mutex<Vec<String>>>);

impl ReceiveHook for Watching {
    fn pre_receive(&self, push: &ReceivedPush<'_>) -> Result<(), String> {
        let snapshot = push.repository.snapshot().map_err(|error| error.to_string())?;
        let mut objects = snapshot.reader(1 << 20);
        for wanted in push.refs {
            // The new objects are there before anything else sees them.
            let kind = objects.kind_and_size(&wanted.new).map_err(|error| error.to_string())?;
            push.say(&format!("{} {:?}\n", String::from_utf8_lossy(wanted.name), kind.unwrap().0));
            assert_ne!(wanted.name, b"refs/heads/panic", "a fault of the caller");
        }
        match push.refs.iter().any(|wanted| wanted.name == b"refs/heads/no") {
            true => Err("not with that name".to_owned()),
            false => Ok(()),
        }
    }

    fn post_receive(&self, push: &ReceivedPush<'_>) {
        let names = push.refs.iter().map(|changed| String::from_utf8_lossy(changed.name).into_owned());
        self.0.lock().unwrap().extend(names);
    }
}

fn serve(git: Embedded) -> String {
    serve_app(axum::Router::new().fallback_service(git.http()))
}

/// Serves on a port of its own for as long as the process runs.
/// Serves repositories, and these pages at the same address.
fn serve_beside(git: Embedded, pages: axum::Router) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async move {
            git.serve(tokio::net::TcpListener::from_std(listener).unwrap(), pages).await;
        });
    });
    url
}

/// The answer to a request over HTTP/1.1, without headers that differ each time.
fn answer_of(url: &str, request: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_inclusive("\r\n").filter(|line| !line.starts_with("date:")).collect()
}

#[test]
fn pages_beside_repositories() {
    let (folder, _) = hosted();
    let from = async |request: axum::extract::Request| {
        let packrace_server::embed::Peer(peer) = request.extensions().get().unwrap();
        format!("{} from {}", request.uri(), peer.ip())
    };
    let echo = async |body: axum::body::Bytes| body;
    let long = || "long ".repeat(1 << 20);
    let pages = axum::Router::new()
        .route("/", axum::routing::get(from))
        .route("/-/", axum::routing::get(async || "mine"))
        .route("/echo", axum::routing::post(echo))
        .route("/long", axum::routing::get(async move || long()));
    let git = Embedded::builder(folder.path().join("root")).settings(|settings| {
        settings.limits.request_time = std::time::Duration::from_millis(200);
    });
    let url = serve_beside(git.build().unwrap(), pages);
    let get = |path: &str| answer_of(&url, &format!("GET {path} HTTP/1.1\nHost: a\nConnection: close\n\n"));
    let ends_with = |answer: String, words: &str| assert!(answer.ends_with(words), "{answer}");
    ends_with(get("/?a=b"), "\r\n\r\n/?a=b from 127.0.0.1");
    ends_with(get("/-/"), "mine");
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    assert_eq!(get("/long").split("\r\n\r\n").nth(1).unwrap(), long());
    let posted = "POST /echo HTTP/1.1\nHost: a\nConnection: close\nContent-Length: 5\n\nhello";
    ends_with(answer_of(&url, posted), "hello");
    // Git's own, also where there is no repository.
    assert!(get("/alice/a.git/info/refs?service=git-upload-pack").contains("# service=git-upload-pack"));
    assert!(get("/alice/b.git/info/refs?service=git-upload-pack").starts_with("HTTP/1.1 404"));
    assert!(get("/alice/a.git/git-upload-pack").starts_with("HTTP/1.1 405"));
    // As everywhere, who asks nothing is disconnected.
    assert_eq!(answer_of(&url, ""), "");
}

fn serve_app(app: axum::Router) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async move {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
        });
    });
    url
}

#[test]
fn a_hook_sees_pushes() {
    let (folder, repo) = hosted();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let allow = |settings: &mut Settings| settings.pushing.is_allowed = true;
    let builder = Embedded::builder(folder.path().join("root")).settings(allow);
    let url = serve(builder.receive_hook(Watching(seen.clone())).build().unwrap());
    let clone = cloned_with_commit(folder.path(), &format!("{url}alice/a.git"));
    let push = |refs: &[&str]| git(&clone, &[&["push", "-q", "origin"], refs].concat());
    let objects = || Git::stock().run(&repo, &["count-objects", "-v"]);
    let before = objects();
    let refused = push(&["HEAD:refs/heads/no", "HEAD:refs/heads/beside"]);
    let words = said(&refused);
    assert!(!refused.status.success() && words.contains("remote: error: not with that name"), "{words}");
    assert!(
        words.contains("pre-receive hook declined") && words.contains("refs/heads/beside Commit"),
        "{words}"
    );
    let panicked = push(&["HEAD:refs/heads/panic"]);
    assert!(!panicked.status.success());
    // What was refused left nothing behind.
    assert_eq!(before, objects());
    assert!(push(&["HEAD:refs/heads/yes", "HEAD:refs/tags/too"]).status.success());
    assert_eq!(*seen.lock().unwrap(), ["refs/heads/yes", "refs/tags/too"]);
    let refs = Git::stock().run(&repo, &["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/heads/yes") && !refs.contains("refs/heads/no") && !refs.contains("panic"));
    assert_ne!(before, objects());
    assert!(
        !std::fs::read_dir(repo.join("objects"))
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("tmp_objdir") })
    );
}

/// Knows one name.
#[derive(Debug)]
struct Named(&'static str);

impl RepositoryPaths for Named {
    fn path_of(&self, name: &[u8]) -> Option<PathBuf> {
        (name == b"team/project").then(|| PathBuf::from(self.0))
    }
}

#[test]
fn names_need_not_be_paths() {
    let (folder, repo) = hosted();
    let head = Git::stock().run(&repo, &["rev-parse", "HEAD"]);
    for (path, is_served) in
        [("alice/a.git", true), ("alice/none.git", false), ("../root/alice/a.git", false)]
    {
        let git_server = Embedded::builder(folder.path().join("root")).repositories(Named(path)).build();
        let url = serve(git_server.unwrap());
        let listed = git(folder.path(), &["ls-remote", &format!("{url}team/project"), "HEAD"]);
        let found = String::from_utf8_lossy(&listed.stdout).starts_with(head.trim());
        assert_eq!((found, listed.status.success()), (is_served, is_served), "{path}");
        let by_path = git(folder.path(), &["ls-remote", &format!("{url}alice/a.git")]);
        assert!(said(&by_path).contains("not found"), "{}", said(&by_path));
    }
}

/// Without a policy, nobody can push.
#[test]
fn nothing_configured() {
    let (folder, _) = hosted();
    let embedded = Embedded::builder(folder.path().join("root")).build().unwrap();
    let streams = (std::io::empty().take(0), std::io::sink());
    let ended = embedded.converse(b"git-receive-pack '/alice/a.git'", "alice", None, "", streams, |_| {});
    let words = ended.unwrap_err().to_string();
    assert!(words.contains("receive-pack is"), "{words}");
    assert!(Embedded::builder(folder.path().join("absent")).build().is_err());
}

/// Clones a served repository, and adds a commit to it.
fn cloned_with_commit(folder: &Path, url: &str) -> PathBuf {
    let cloned = git(folder, &["clone", "-q", url, "clone"]);
    assert!(cloned.status.success(), "{}", said(&cloned));
    let clone = folder.join("clone");
    assert!(git(&clone, &["commit", "-q", "--allow-empty", "-m", "new"]).status.success());
    clone
}

#[test]
fn events_through_a_channel() {
    let (folder, _) = hosted();
    let journal = folder.path().join("journal");
    let start = |from, room| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(room);
        let builder = Embedded::builder(folder.path().join("root")).events(&journal, from, sender);
        (builder.settings(|settings| settings.pushing.is_allowed = true).build().unwrap(), receiver)
    };
    let next = |lines: &std::sync::mpsc::Receiver<JournalLine>| {
        let line = lines.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        (line.seq, String::from_utf8(line.bytes).unwrap())
    };
    // The receiver does not read: no push waits for it.
    let (embedded, lines) = start(None, 0);
    let url = serve(embedded.clone());
    let clone = cloned_with_commit(folder.path(), &format!("{url}alice/a.git"));
    for name in ["one", "two", "three"] {
        let pushed = git(&clone, &["push", "-q", "origin", &format!("HEAD:refs/heads/{name}")]);
        assert!(pushed.status.success(), "{}", said(&pushed));
    }
    for (number, name) in [(1, "one"), (2, "two"), (3, "three")] {
        let (seq, line) = next(&lines);
        assert_eq!(seq, number);
        assert!(line.contains("\"repository\":\"alice/a.git\""), "{line}");
        assert!(line.contains(&format!("\"ref\":\"refs/heads/{name}\"")), "{line}");
    }
    drop((embedded, lines));
    // Another folder's server: the first one still answers requests.
    let elsewhere = packrace_testkit::scratch_dir();
    let copied = elsewhere.path().join("journal");
    std::fs::create_dir(&copied).unwrap();
    for entry in std::fs::read_dir(&journal).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copied.join(entry.file_name())).unwrap();
        }
    }
    let (sender, lines) = std::sync::mpsc::sync_channel(16);
    let later =
        Embedded::builder(folder.path().join("root")).events(&copied, Some(2), sender).build().unwrap();
    assert_eq!([next(&lines).0, next(&lines).0], [2, 3]);
    drop(later);
    assert!(lines.recv().is_err(), "the channel ends with the server");
}

#[test]
fn maintenance_by_a_call() {
    let (folder, repo) = hosted();
    let embedded = Embedded::builder(folder.path().join("root")).build().unwrap();
    let run = |args: &[&str]| Git::stock().run(&repo, args);
    for number in 0..3 {
        let tree = run(&["rev-parse", "HEAD^{tree}"]);
        let commit = run(&["commit-tree", "-p", "HEAD", "-m", &format!("{number}"), tree.trim()]);
        run(&["update-ref", "HEAD", commit.trim()]);
        run(&["repack", "-q", "-d"]);
    }
    let packs = || {
        let names = std::fs::read_dir(repo.join("objects/pack")).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ext| ext == "pack"))
            .count()
    };
    let before = packs();
    let budget = MaintenanceBudget::default();
    let done = embedded.maintain("alice/a.git", &budget).unwrap();
    assert!(matches!(done, Maintained::Done(_)), "{done:?}");
    assert!(packs() < before, "{before} packs stay");
    assert!(repo.join("packed-refs").exists());
    run(&["fsck", "--strict"]);
    assert_eq!(embedded.maintain("/alice/a.git", &budget), Ok(Maintained::Nothing));
    let none = embedded.maintain("alice/none.git", &budget);
    assert!(matches!(none, Err(MaintainError::NotFound(_))), "{none:?}");
    let outside = embedded.maintain("../root/alice/a.git", &budget);
    assert!(matches!(outside, Err(MaintainError::NotFound(_))), "{outside:?}");
    // Another process holds git's lock.
    run(&["update-ref", "refs/heads/more", "HEAD"]);
    std::fs::write(repo.join("objects/maintenance.lock"), "").unwrap();
    assert_eq!(embedded.maintain("alice/a.git", &budget), Err(MaintainError::Busy));
}

#[test]
fn a_policy_for_new_objects() {
    let (folder, repo) = hosted();
    let url = serve(push_policy::serve(&folder.path().join("root")).unwrap());
    let clone = cloned_with_commit(folder.path(), &format!("{url}alice/a.git"));
    let push = |name: &str| git(&clone, &["push", "origin", &format!("HEAD:refs/heads/{name}")]);
    let small = push("small");
    assert!(small.status.success() && said(&small).contains("remote: 1 new objects"), "{}", said(&small));
    std::fs::write(clone.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    assert!(git(&clone, &["add", "large"]).status.success());
    assert!(git(&clone, &["commit", "-q", "-m", "large"]).status.success());
    let large = push("large");
    assert!(!large.status.success(), "{}", said(&large));
    assert!(said(&large).contains("has 1048577 bytes; at most 1048576 are allowed"), "{}", said(&large));
    let refs = Git::stock().run(&repo, &["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/heads/small") && !refs.contains("refs/heads/large"), "{refs}");
}

#[test]
fn a_caching_proxy() {
    let (folder, repo) = hosted();
    let mirrors = folder.path().join("mirrors");
    std::fs::create_dir(&mirrors).unwrap();
    let upstream = serve(Embedded::builder(folder.path().join("root")).build().unwrap());
    let proxy = caching_proxy::proxy(upstream.trim_end_matches('/'), &mirrors).unwrap();
    let url = serve_app(axum::Router::new().fallback_service(proxy));
    let listed = || {
        let listed = git(folder.path(), &["ls-remote", &format!("{url}alice/a.git"), "refs/heads/*"]);
        assert!(listed.status.success(), "{}", said(&listed));
        String::from_utf8(listed.stdout).unwrap()
    };
    let clone = cloned_with_commit(folder.path(), &format!("{url}alice/a.git"));
    assert!(git(&clone, &["fsck", "--strict"]).status.success());
    assert!(mirrors.join("alice/a.git/HEAD").exists());
    Git::stock().run(&repo, &["update-ref", "refs/heads/later", "HEAD"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !listed().contains("refs/heads/later") {
        assert!(std::time::Instant::now() < deadline, "the mirror stays old");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for name in ["alice/none.git", "alice/a.git/objects/x.git", "alice/-x.git", "alice/a"] {
        let refused = git(folder.path(), &["ls-remote", &format!("{url}{name}")]);
        assert!(
            !refused.status.success() && said(&refused).contains("not found"),
            "{name}: {}",
            said(&refused)
        );
    }
    // Nobody pushes through it.
    assert!(!git(&clone, &["push", "-q", "origin", "HEAD:refs/heads/x"]).status.success());
}
