//! `packrace shell`, with stock git as the client, and a script in place of ssh and sshd.

mod handed_over;
mod maintained;
mod sshd;

use super::*;

pub(super) const RULES: &str = r#"
[[rule]]
repository = "a.git"
who = "users"
allow = ["read"]

[[rule]]
repository = "a.git"
who = "alice"
deny = ["force"]

[[rule]]
repository = "a.git"
who = "alice"
allow = ["write", "create"]

[[rule]]
repository = "private/**"
who = "alice"
allow = ["read"]
"#;

/// A folder with `root/a.git`, `root/private/b.git`, rules, settings, and a script `ssh`, which runs the
/// shell for `$SSH_USER`.
struct Guarded {
    path: PathBuf,
    /// `None` if the server owns it.
    _folder: Option<tempfile::TempDir>,
    server: Option<Server>,
}

impl Guarded {
    fn alone(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        std::fs::create_dir_all(path.join("root/private")).unwrap();
        for name in ["a.git", "private/b.git"] {
            RepoBuilder::new(Size::Tiny).build_at(&path.join("root").join(name), Git::stock());
        }
        std::fs::write(path.join("rules"), RULES).unwrap();
        let settings = settings.replace("FOLDER", &path.display().to_string());
        std::fs::write(path.join("shell.toml"), settings).unwrap();
        // The last argument is the command, as with ssh; sshd passes on no variable but GIT_PROTOCOL.
        let script = format!(
            "#!/bin/sh\necho $$ >'{}/pid'\nunset GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL\nfor command; do :; done\nSSH_ORIGINAL_COMMAND=$command\n\
             SSH_CONNECTION='192.0.2.7 50122 192.0.2.9 22'\nexport SSH_ORIGINAL_COMMAND SSH_CONNECTION\n\
             exec '{}' shell --config '{}' '{}' \"$SSH_USER\"\n",
            path.display(),
            env!("CARGO_BIN_EXE_packrace"),
            path.join("shell.toml").display(),
            path.join("root").display(),
        );
        packrace_testkit::write_program(&path.join("ssh"), &script);
        Guarded { path, _folder: Some(folder), server: None }
    }

    /// With a server that accepts sessions.
    fn served(settings: &str) -> Self {
        let settings = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nshell = \"FOLDER/socket\"\n{settings}"
        );
        let mut guarded = Guarded::alone(&settings);
        let config = std::fs::read_to_string(guarded.file("shell.toml")).unwrap();
        let folder = guarded._folder.take().unwrap();
        let server = Server::start_for(folder, &guarded.file("root"), &config, &[], &[]);
        // The address is logged before the server accepts; accepting takes one more descriptor.
        server
            .wait_until("the socket", |server| server.log().contains("accepting packrace shell sessions at"));
        guarded.server = Some(server);
        guarded
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn repository(&self) -> PathBuf {
        self.file("root/a.git")
    }

    /// git, as a user known to sshd.
    fn command(&self, user: &str) -> Command {
        let mut command = Git::stock().command(&self.path);
        command.env("GIT_SSH", self.file("ssh")).env("GIT_SSH_VARIANT", "ssh").env("SSH_USER", user);
        command
    }

    fn git(&self, user: &str, args: &[&str]) -> Output {
        output(self.command(user).args(args))
    }

    #[track_caller]
    fn works(&self, user: &str, args: &[&str]) -> Output {
        let output = self.git(user, args);
        assert!(output.status.success(), "{user} {args:?}: {}", said(&output));
        output
    }

    #[track_caller]
    fn fails(&self, user: &str, args: &[&str], expect: &str) -> String {
        let output = self.git(user, args);
        assert!(!output.status.success(), "{user} {args:?}");
        assert!(said(&output).contains(expect), "{user} {args:?}: {}", said(&output));
        said(&output)
    }

    /// The process that sshd would run for this command of a client.
    fn shell(&self, user: &str, command: Option<&[u8]>) -> Command {
        use std::os::unix::ffi::OsStrExt as _;
        let mut shell = packrace();
        shell.args(["shell", "--config"]).arg(self.file("shell.toml")).arg(self.file("root")).arg(user);
        if let Some(command) = command {
            shell.env("SSH_ORIGINAL_COMMAND", std::ffi::OsStr::from_bytes(command));
        }
        shell
    }

    fn clone_and_commit(&self, user: &str, name: &str) {
        self.works(user, &["clone", "--quiet", "ssh://host/a.git", name]);
        self.works(user, &["-C", name, "commit", "--quiet", "--allow-empty", "-m", "more"]);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const GUARDED: &str = "[access]\nrules = \"FOLDER/rules\"\naudit-log = \"FOLDER/audit\"\n";

/// Everything that stock git does, with and without a server.
fn serves_stock_git(guarded: &Guarded) {
    for version in ["0", "1", "2"] {
        let protocol = format!("protocol.version={version}");
        let clone = format!("clone{version}");
        guarded.works("bob", &["-c", &protocol, "clone", "--quiet", "ssh://host/a.git", &clone]);
        guarded.works("bob", &["-C", &clone, "fsck"]);
        guarded.works("bob", &["-C", &clone, "-c", &protocol, "fetch", "--quiet"]);
        // Without a leading slash.
        guarded.works("bob", &["-c", &protocol, "ls-remote", "host:a.git"]);
        guarded.works("alice", &["-c", &protocol, "ls-remote", "ssh://host/private/b.git"]);

        guarded.works("alice", &["-C", &clone, "commit", "--quiet", "--allow-empty", "-m", &protocol]);
        let push = ["-C", &clone, "-c", &protocol, "push", "origin", "HEAD:refs/heads/main"];
        guarded.fails("bob", &push, "fatal: bob may not push here");
        guarded.works("alice", &push);
        let forced = ["-C", &clone, "-c", &protocol, "push", "origin", "+HEAD^:refs/heads/main"];
        guarded.fails("alice", &forced, "(alice may not force refs/heads/main)");
    }
    let audit = std::fs::read_to_string(guarded.file("audit")).unwrap();
    assert_eq!(audit.matches("\"outcome\":\"ok\"").count(), 3, "{audit}");
    assert_eq!(audit.matches("alice may not force").count(), 3, "{audit}");
    let words = |path: &str| format!("fatal: '{path}' does not appear to be a git repository");
    for (user, path) in
        [("bob", "private/b.git"), ("bob", "private/none.git"), ("bob", "none.git"), ("alice", "none.git")]
    {
        guarded.fails(user, &["ls-remote", &format!("ssh://host/{path}")], &words(&format!("/{path}")));
        guarded.fails(user, &["ls-remote", &format!("host:{path}")], &words(path));
    }
    // Hidden and absent repositories get the same response, also to pushes.
    let tell = |path: &str| {
        let output = guarded.git("bob", &["-C", "clone2", "push", &format!("ssh://host/{path}"), "HEAD:x"]);
        (output.status.code(), said(&output).replace(path, "PATH"))
    };
    assert_eq!(tell("private/b.git"), tell("private/none.git"));
}

#[test]
fn stock_git_is_served_alone() {
    let guarded = Guarded::alone(GUARDED);
    serves_stock_git(&guarded);
}

#[test]
fn hooks_know_who_pushes() {
    check_hook(&Guarded::alone(GUARDED), "alice <alice@ssh.192.0.2.7>");
    // The committer in the server's environment is kept.
    check_hook(&Guarded::served(GUARDED), "C O Mitter <committer@example.com>");
}

fn check_hook(guarded: &Guarded, committer: &str) {
    guarded.clone_and_commit("alice", "clone");
    let repository = guarded.file("root/a.git");
    packrace_testkit::write_program(
        &repository.join("hooks/pre-receive"),
        "#!/bin/sh\necho \"$REMOTE_USER $REMOTE_ADDR $GIT_COMMITTER_NAME <$GIT_COMMITTER_EMAIL>\" >>heard; echo from the hook\n",
    );
    Git::stock().run(&repository, &["config", "core.logAllRefUpdates", "true"]);
    let pushed = guarded.works("alice", &["-C", "clone", "push", "origin", "HEAD:refs/heads/main"]);
    assert!(said(&pushed).contains("remote: from the hook"), "{}", said(&pushed));
    let heard = std::fs::read_to_string(repository.join("heard")).unwrap();
    assert_eq!(heard, format!("alice 192.0.2.7 {committer}\n"));
    let log = std::fs::read_to_string(repository.join("logs/refs/heads/main")).unwrap();
    assert!(log.contains(&format!(" {committer} ")), "{log}");
}

#[test]
fn settings_count_as_for_serve() {
    // Without rules, push.allowed decides, independent of the repository's settings for other transports.
    let guarded = Guarded::alone("");
    Git::stock().run(&guarded.file("root/a.git"), &["config", "http.receivepack", "true"]);
    Git::stock().run(&guarded.file("root/a.git"), &["config", "daemon.uploadpack", "false"]);
    guarded.clone_and_commit("bob", "clone");
    let push = ["-C", "clone", "push", "origin", "HEAD:refs/heads/topic"];
    guarded.fails("bob", &push, "fatal: service not enabled: receive-pack is disabled");
    std::fs::write(guarded.file("shell.toml"), "[push]\nallowed = true\n[serve]\nread-only = true\n")
        .unwrap();
    guarded.fails("bob", &push, "fatal: service not enabled: server is read-only (serve.read-only)");
    std::fs::write(guarded.file("shell.toml"), "[push]\nallowed = true\n[serve]\nhooks = \"none\"\n")
        .unwrap();
    packrace_testkit::write_program(&guarded.file("root/a.git/hooks/pre-receive"), "#!/bin/sh\nexit 1\n");
    guarded.works("bob", &push);
    std::fs::write(guarded.file("shell.toml"), "[serve]\nrequire-export-ok = true\n").unwrap();
    let words = "fatal: '/a.git' does not appear to be a git repository";
    guarded.fails("bob", &["ls-remote", "ssh://host/a.git"], words);
    std::fs::write(guarded.file("root/a.git/git-daemon-export-ok"), "").unwrap();
    guarded.works("bob", &["ls-remote", "ssh://host/a.git"]);
    std::fs::write(guarded.file("shell.toml"), "[serve]\nread-onlyy = true\n").unwrap();
    guarded.fails("bob", &["ls-remote", "ssh://host/a.git"], "serve.read-onlyy: unknown setting");

    // Only a server's own variables are settings.
    std::fs::write(guarded.file("shell.toml"), "").unwrap();
    let mut shell = guarded.shell("bob", Some(b"git-receive-pack '/a.git'"));
    let refused = output(shell.env("PACKRACE_SERVE_PUSH_ALLOWED", "true"));
    assert!(said(&refused).contains("receive-pack is disabled"), "{}", said(&refused));
}

#[test]
fn a_push_makes_a_repository_where_that_is_configured() {
    let guarded = Guarded::alone("[push]\nallowed = true\n");
    guarded.clone_and_commit("bob", "clone");
    let push = ["-C", "clone", "push", "ssh://host/new.git", "HEAD:refs/heads/main"];
    guarded.fails("bob", &push, "fatal: '/new.git' does not appear to be a git repository");
    let config = guarded.file("gitconfig");
    std::fs::write(&config, "[packrace]\n\tcreateOnPush = true\n").unwrap();
    let pushed = output(guarded.command("bob").env("GIT_CONFIG_GLOBAL", &config).args(push));
    assert!(pushed.status.success(), "{}", said(&pushed));
    Git::stock().run(&guarded.file("root/new.git"), &["rev-parse", "--verify", "refs/heads/main"]);
}

#[test]
fn nothing_else_is_run() {
    let guarded = Guarded::alone(GUARDED);
    let check = |command: &[u8], expect: &str| {
        let refused = output(&mut guarded.shell("alice", Some(command)));
        assert_eq!(said(&refused), format!("fatal: {expect}\n"));
        assert_eq!(refused.status.code(), Some(128), "{expect}");
        assert!(refused.stdout.is_empty());
    };
    for other in [
        "",
        "id",
        "sh -c id",
        "scp -t x",
        "git-upload-archive '/a.git'",
        "git-upload-pack '/a.git'; touch x",
        "git-upload-pack '/a.git' && touch x",
        "git-upload-pack $(touch x)",
        "git-upload-pack '/a.git''",
    ] {
        check(other.as_bytes(), &format!("unrecognized command '{other}'"));
    }
    check(b"git-upload-pack '/a.git'\ntouch x", "unrecognized command 'git-upload-pack '/a.git'?touch x'");
    check(b"git-upload-pack --strict '/a.git'", "options are not supported: '--strict'");
    check(b"git-upload-pack '--upload-pack=x'", "options are not supported: '--upload-pack=x'");
    let missing = |path: &str| format!("'{path}' does not appear to be a git repository");
    check(b"git-upload-pack '~alice/a.git'", &missing("~alice/a.git"));
    check(b"git-upload-pack '/a.git; id'", &missing("/a.git; id"));
    check(b"git-upload-pack '../root/a.git'", &missing("../root/a.git"));
    check(b"git-upload-pack '/private/../a.git'", &missing("/private/../a.git"));
    check(b"git-upload-pack '//a.git'", &missing("//a.git"));
    check(b"git-upload-pack '/'", &missing("/"));
    check(b"git-upload-pack '\xff'", &missing("\u{fffd}"));
    check(
        format!("git-upload-pack '{}'", "x".repeat(5000)).as_bytes(),
        &missing(&format!("{}…", "x".repeat(200))),
    );
    assert!(!guarded.file("x").exists() && !guarded.file("root/x").exists());

    let login = output(&mut guarded.shell("alice", None));
    assert_eq!(said(&login), "packrace: you are alice. No shell access; git clone, fetch and push work.\n");
    assert_eq!(login.status.code(), Some(128));

    // A name in the quoting of git's client.
    let odd = "it's !so \"odd\"; $(id).git";
    std::fs::rename(guarded.file("root/a.git"), guarded.file("root").join(odd)).unwrap();
    std::fs::write(guarded.file("shell.toml"), "").unwrap();
    guarded.works("bob", &["ls-remote", &format!("host:/{odd}")]);
}
