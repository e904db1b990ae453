//! The server as a part of another program, tried with stock git.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use packrace_server::access::{AccessPolicy, Ask, Decision, NotIdentified, Offer, Principal};
use packrace_server::embed::{Git as Embedded, ReceiveHook, ReceivedPush, RepositoryPaths};
use packrace_server::settings::Settings;
use packrace_testkit::{Git, RepoBuilder, Size};

/// The example of the documentation.
#[allow(dead_code)]
#[path = "../examples/forge.rs"]
mod forge;

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
    let folder = tempfile::tempdir().unwrap();
    let repo = folder.path().join("root/alice/a.git");
    std::fs::create_dir_all(repo.parent().unwrap()).unwrap();
    RepoBuilder::new(Size::Tiny).build_at(&repo, Git::stock());
    (folder, repo)
}

#[test]
fn a_forge_with_users_of_its_own() {
    let (folder, repo) = hosted();
    let served_at = serve_app(forge::app(&folder.path().join("root")).unwrap());
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
    let clone = folder.path().join("clone");
    let cloned = git(folder.path(), &["clone", "-q", &format!("{url}alice/a.git"), "clone"]);
    assert!(cloned.status.success(), "{}", said(&cloned));
    assert!(git(&clone, &["commit", "-q", "--allow-empty", "-m", "new"]).status.success());
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
