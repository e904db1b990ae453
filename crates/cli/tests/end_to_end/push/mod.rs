//! Pushing with stock git, to `receive-pack` and to every transport of the server.

mod auto_maintenance;
mod bad_input;
mod hooks;
mod packs;
mod rules;
mod shallow;
mod signed;
mod transports;

use std::path::{Path, PathBuf};
use std::process::Output;

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, clean_environment};

use crate::running::{PACKRACE, assert_no_panic};

/// Settings of a server to which every client may push: those of a repository cannot allow it.
const OPEN: [&str; 2] = ["http.receivepack=true", "daemon.receivepack=true"];

/// A repository with a work tree whose commits are pushed, and a bare one that receives them.
struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    /// `work` has three commits on `main`; `srv.git` has the first of them as `refs/heads/main`.
    fn new() -> Self {
        Pair::with(&[])
    }

    /// The same with these options of `git init`.
    fn with(options: &[&str]) -> Self {
        let pair = Pair { dir: packrace_testkit::scratch_dir() };
        let git = Git::stock();
        git.run(pair.root(), &[&["init", "-q", "-b", "main"], options, &["work"]].concat());
        git.run(pair.root(), &[&["init", "-q", "--bare", "-b", "main"], options, &["srv.git"]].concat());
        for number in ["one", "two", "three"] {
            pair.commit(number);
        }
        git.run(&pair.work(), &["push", "-q", "../srv.git", "HEAD~2:refs/heads/main"]);
        pair.config(&[("http.receivepack", "true"), ("daemon.receivepack", "true")]);
        pair
    }

    /// The folder of both.
    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    fn server(&self) -> PathBuf {
        self.root().join("srv.git")
    }

    /// Configures the server's repository.
    fn config(&self, settings: &[(&str, &str)]) {
        for (name, value) in settings {
            Git::stock().run(&self.server(), &["config", name, value]);
        }
    }

    /// Commits to the current branch.
    fn commit(&self, name: &str) {
        std::fs::write(self.work().join(name), name.repeat(100)).unwrap();
        Git::stock().run(&self.work(), &["add", "."]);
        Git::stock().run(&self.work(), &["commit", "-q", "-m", name]);
    }

    fn id(&self, revision: &str) -> String {
        Git::stock().run(&self.work(), &["rev-parse", revision]).trim().to_owned()
    }

    /// `git push --receive-pack='packrace receive-pack'` with these arguments.
    fn push(&self, arguments: &[&str]) -> Output {
        let program = format!("--receive-pack={PACKRACE} receive-pack");
        self.push_with(Git::stock(), &[&[program.as_str(), "../srv.git"], arguments].concat())
    }

    fn push_with(&self, git: &Git, arguments: &[&str]) -> Output {
        let mut command = git.command(&self.work());
        let output = command.arg("push").args(arguments).output().unwrap();
        assert_no_panic(&text(&output.stderr));
        output
    }

    /// The refs of the server's repository.
    fn refs(&self) -> String {
        refs_of(&self.server())
    }

    /// Checks that git finds nothing wrong in the server's repository, and that no push left anything behind.
    fn check_sound(&self) {
        check_sound(&self.server());
    }

    /// The response of `receive-pack --stateless-rpc` to a request, with settings of both sides.
    fn answer(&self, program: &str, request: &[u8], settings: &[&str]) -> Output {
        let mut command = match program {
            "packrace" => std::process::Command::new(PACKRACE),
            _ => Git::stock().command(self.root()),
        };
        clean_environment(&mut command);
        command.current_dir(self.root());
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.args(["receive-pack", "--stateless-rpc", "srv.git"]);
        let output = fed(&mut command, request);
        assert_no_panic(&text(&output.stderr));
        output
    }

    /// A pack of everything that `revisions` reach.
    fn pack(&self, revisions: &str) -> Vec<u8> {
        let arguments = ["pack-objects", "--revs", "--stdout", "--thin", "-q"];
        Git::stock().run_with_input(&self.work(), &arguments, revisions.as_bytes())
    }
}

fn refs_of(repository: &Path) -> String {
    Git::stock().run(repository, &["for-each-ref", "--format=%(refname) %(objectname)"])
}

fn check_sound(repository: &Path) {
    let arguments = ["fsck", "--strict", "--no-dangling", "--no-progress", "--connectivity-only"];
    let said = Git::stock().run(repository, &arguments);
    assert_eq!(
        said.replace("notice: HEAD points to an unborn branch (main)\n", "")
            .replace("notice: No default references\n", ""),
        ""
    );
    let objects = std::fs::read_dir(repository.join("objects")).unwrap();
    let left: Vec<String> = objects
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tmp_"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let packs = std::fs::read_dir(repository.join("objects/pack")).unwrap();
    for entry in packs {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.ends_with(".keep") && !name.starts_with("tmp_"), "{name}");
    }
}

fn fed(command: &mut std::process::Command, input: &[u8]) -> Output {
    use std::io::Write as _;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A process that does not read all of it ends nevertheless.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Commands, the first one with capabilities, and a flush.
fn commands(capabilities: &str, lines: &[&str]) -> Script {
    let mut script = Script::new();
    for (at, line) in lines.iter().enumerate() {
        let line = if at == 0 { format!("{line}\0{capabilities}") } else { (*line).to_owned() };
        script = script.data(line.as_bytes());
    }
    script.flush()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Both outputs of a client.
fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

const ZERO: &str = "0000000000000000000000000000000000000000";
