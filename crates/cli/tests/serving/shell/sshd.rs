//! A real sshd on loopback.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

use super::*;

/// sshd with one key, for which `authorized_keys` has the forced command.
struct Sshd {
    child: Child,
    port: u16,
}

impl Sshd {
    fn start(guarded: &Guarded) -> Self {
        let program = sshd_program();
        for key in ["host-key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(guarded.file(key));
            assert!(keygen.status().expect("ssh-keygen is there").success());
        }
        let public = std::fs::read_to_string(guarded.file("key.pub")).unwrap();
        std::fs::write(guarded.file("keys"), format!("alice {public}")).unwrap();
        let settings = std::fs::read_to_string(guarded.file("shell.toml")).unwrap();
        let keys = format!("{settings}\n[ssh]\nuser-keys = \"{}\"\n", guarded.file("keys").display());
        std::fs::write(guarded.file("keys.toml"), keys).unwrap();
        let mut lines = packrace();
        lines
            .args(["access", "keys", "--all", "--config"])
            .arg(guarded.file("keys.toml"))
            .arg(guarded.file("root"));
        let lines = output(&mut lines);
        assert!(lines.status.success(), "{}", said(&lines));
        std::fs::write(guarded.file("authorized_keys"), lines.stdout).unwrap();
        // It must be started with a fixed port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = guarded.path.display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {path}/host-key\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {path}/authorized_keys\nPasswordAuthentication no\nPermitRootLogin yes\n\
             AcceptEnv GIT_PROTOCOL\nUsePAM no\n"
        );
        std::fs::write(guarded.file("sshd_config"), config).unwrap();
        // The directory is missing if the system starts no sshd. Only root needs it, and may create it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let log = std::fs::File::create(guarded.file("sshd.log")).unwrap();
        let mut sshd = Command::new(program);
        sshd.args(["-D", "-e", "-f"]).arg(guarded.file("sshd_config")).stdin(Stdio::null()).stderr(log);
        let mut sshd = Sshd { child: sshd.spawn().unwrap(), port };
        let start = Instant::now();
        while !sshd.is_ready() {
            let log = std::fs::read_to_string(guarded.file("sshd.log")).unwrap();
            assert!(sshd.child.try_wait().unwrap().is_none(), "sshd ends: {log}");
            assert!(start.elapsed() < Duration::from_secs(60), "sshd does not listen: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        sshd
    }

    /// Whether it sends its greeting.
    fn is_ready(&self) -> bool {
        let mut greeting = [0; 4];
        TcpStream::connect(("127.0.0.1", self.port))
            .is_ok_and(|mut stream| stream.read_exact(&mut greeting).is_ok() && greeting == *b"SSH-")
    }

    /// The client, with the known key.
    fn ssh(&self, guarded: &Guarded) -> Vec<String> {
        let key = guarded.file("key").display().to_string();
        let port = self.port.to_string();
        let args =
            ["ssh", "-F", "none", "-i", &key, "-p", &port, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"];
        let unknown =
            ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"];
        args.into_iter().chain(unknown).map(str::to_owned).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// sshd must be started by its full path, and may not be in `PATH`.
fn sshd_program() -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join("sshd")).find(|program| program.is_file());
    found.expect("sshd is installed (openssh-server)")
}

fn through_sshd(guarded: &Guarded) {
    let sshd = Sshd::start(guarded);
    let ssh = sshd.ssh(guarded);
    let git = |args: &[&str]| {
        let mut command = Git::stock().command(&guarded.path);
        output(command.env("GIT_SSH_COMMAND", ssh.join(" ")).args(args))
    };
    let works = |args: &[&str]| {
        let output = git(args);
        let log = std::fs::read_to_string(guarded.file("sshd.log")).unwrap();
        assert!(output.status.success(), "{args:?}: {}\n{log}", said(&output));
    };
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let host = format!("{}@127.0.0.1", String::from_utf8(user).unwrap().trim());
    let url = format!("ssh://{host}/a.git");
    works(&["clone", "--quiet", &url, "clone"]);
    works(&["-C", "clone", "fsck"]);
    works(&["-C", "clone", "commit", "--quiet", "--allow-empty", "-m", "more"]);
    works(&["-C", "clone", "push", "--quiet", "origin", "HEAD:refs/heads/main"]);
    works(&["-C", "clone", "fetch", "--quiet"]);
    for version in ["0", "1", "2"] {
        works(&["-c", &format!("protocol.version={version}"), "ls-remote", &url]);
    }
    let refused = git(&["ls-remote", &format!("ssh://{host}/none.git")]);
    assert!(said(&refused).contains("fatal: '/none.git' does not appear to be a git repository"));

    let run = |command: &[&str]| output(Command::new(&ssh[0]).args(&ssh[1..]).arg(&host).args(command));
    let shell = run(&["id"]);
    assert_eq!(
        (shell.status.code(), said(&shell).as_str()),
        (Some(128), "fatal: unrecognized command 'id'\n")
    );
    let login = run(&[]);
    assert_eq!(login.status.code(), Some(128));
    assert!(said(&login).contains("packrace: you are alice. "), "{}", said(&login));
    assert!(shell.stdout.is_empty() && login.stdout.is_empty());
}

#[test]
#[ignore = "needs sshd"]
fn users_of_sshd_are_served_alone() {
    through_sshd(&Guarded::alone(GUARDED));
}

#[test]
#[ignore = "needs sshd"]
fn users_of_sshd_are_served_by_a_running_server() {
    let guarded = Guarded::served(GUARDED);
    through_sshd(&guarded);
    let log = guarded.server.as_ref().unwrap().log();
    assert!(log.contains("door=ssh peer=127.0.0.1:") && log.contains("user=\"alice\" kind=push"), "{log}");
}
