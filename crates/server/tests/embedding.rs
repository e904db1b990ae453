//! The server as a part of another program, tried with stock git.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use packrace_server::access::{AccessPolicy, Ask, Decision, NotIdentified, Offer, Principal};
use packrace_server::embed::Git as Embedded;
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

/// The example of the documentation. It ends when dropped.
struct Forge {
    child: Child,
    url: String,
}

impl Drop for Forge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forge(root: &Path) -> Forge {
    // Cargo builds examples with the tests, beside their directory.
    let built = std::env::current_exe().unwrap();
    let program = built.ancestors().nth(2).unwrap().join("examples/forge");
    let mut command = Command::new(&program);
    clean_environment(&mut command);
    let mut child = command.arg(root).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Forge { child, url: line.trim_end().to_owned() }
}

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
    let forge = forge(&folder.path().join("root"));
    let clone = folder.path().join("clone");
    let url = format!("{}alice/a.git", forge.url);
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
    let unknown = git(folder.path(), &["ls-remote", &format!("{}alice/b.git", forge.url)]);
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
