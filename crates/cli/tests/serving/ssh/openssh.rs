//! Stock OpenSSH as the client, and its keys and certificates.

use super::*;

/// A user of OpenSSH.
struct OpenSsh<'a> {
    served: &'a SshServer,
    options: Vec<String>,
}

impl<'a> OpenSsh<'a> {
    fn new(served: &'a SshServer, key: &str) -> Self {
        let port = served.server.address("ssh").port().to_string();
        let key = served.file(key).display().to_string();
        let options =
            ["-F", "none", "-i", &key, "-p", &port, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"];
        let unknown =
            ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"];
        OpenSsh { served, options: options.into_iter().chain(unknown).map(str::to_owned).collect() }
    }

    fn with(mut self, option: &str) -> Self {
        self.options.extend(["-o".to_owned(), option.to_owned()]);
        self
    }

    fn run(&self, args: &[&str]) -> Output {
        output(Command::new("ssh").args(&self.options).arg("git@127.0.0.1").args(args))
    }

    fn git(&self, args: &[&str]) -> Output {
        let mut git = Git::stock().command(self.served.server.folder.path());
        git.env("GIT_SSH_COMMAND", format!("ssh {}", self.options.join(" ")));
        output(git.args(args))
    }

    #[track_caller]
    fn works(&self, args: &[&str]) {
        let ended = self.git(args);
        assert!(ended.status.success(), "{args:?}: {}\n{}", said(&ended), self.served.server.log());
    }
}

fn keygen(args: &[&str], files: &[PathBuf]) {
    let mut keygen = Command::new("ssh-keygen");
    let ended = output(keygen.arg("-q").args(args).args(files));
    assert!(ended.status.success(), "{args:?}: {}", said(&ended));
}

/// A server that knows keys of each kind of OpenSSH as alice's.
fn start() -> SshServer {
    let served = SshServer::start("");
    let mut keys = std::fs::read_to_string(served.file("keys")).unwrap();
    for (name, kind) in
        [("ed25519", &["ed25519"][..]), ("rsa", &["rsa", "-b", "2048"]), ("ecdsa", &["ecdsa"])]
    {
        let arguments = [&["-N", "", "-t"], kind, &["-f"]].concat();
        keygen(&arguments, &[served.file(name)]);
        keys += &format!("alice {}", std::fs::read_to_string(served.file(&format!("{name}.pub"))).unwrap());
    }
    write_private(&served.file("authority"), &served.authority);
    keygen(&["-N", "", "-t", "ed25519", "-f"], &[served.file("unknown")]);
    std::fs::write(served.file("keys"), keys).unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("the new keys", |server| server.log().contains("user keys: 5"));
    served
}

#[test]
#[ignore = "needs ssh"]
fn git_over_openssh() {
    let served = start();
    let alice = OpenSsh::new(&served, "ed25519");
    let url = "git@127.0.0.1:a.git";
    alice.works(&["clone", "-q", url, "clone"]);
    alice.works(&["-C", "clone", "fsck"]);
    alice.works(&["-C", "clone", "commit", "-q", "--allow-empty", "-m", "more"]);
    alice.works(&["-C", "clone", "push", "-q", "origin", "HEAD:refs/heads/new"]);
    alice.works(&["-C", "clone", "fetch", "-q"]);
    let forced = alice.git(&["-C", "clone", "push", "origin", "+HEAD~1:refs/heads/new"]);
    assert!(said(&forced).contains("alice may not force refs/heads/new"), "{}", said(&forced));
    for version in ["0", "1", "2"] {
        alice.works(&["-c", &format!("protocol.version={version}"), "ls-remote", url]);
    }
    for key in ["rsa", "ecdsa"] {
        OpenSsh::new(&served, key).works(&["ls-remote", url]);
    }
    // Rekeying in the middle of both directions.
    let often = OpenSsh::new(&served, "ed25519").with("RekeyLimit=16K");
    often.works(&["clone", "-q", url, "often"]);
    std::fs::write(served.file("often/large"), made_noise()).unwrap();
    often.works(&["-C", "often", "add", "large"]);
    often.works(&["-C", "often", "commit", "-q", "-m", "large"]);
    often.works(&["-C", "often", "push", "-q", "origin", "HEAD:refs/heads/large"]);
    often.works(&["clone", "-q", "--branch=large", url, "again"]);
    assert_eq!(std::fs::read(served.file("again/large")).unwrap(), made_noise());

    let unknown = OpenSsh::new(&served, "unknown").git(&["ls-remote", url]);
    assert!(said(&unknown).contains("Permission denied (publickey)"), "{}", said(&unknown));
    let [hidden, missing] = ["private/none.git", "none.git"]
        .map(|path| said(&alice.git(&["ls-remote", &format!("git@127.0.0.1:{path}")])).replace(path, "PATH"));
    assert_eq!(hidden, missing);
    assert!(hidden.contains("fatal: 'PATH' does not appear to be a git repository"), "{hidden}");
}

/// 3 MiB of incompressible data.
fn made_noise() -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(3 << 20).collect()
}

#[test]
#[ignore = "needs ssh"]
fn commands_and_shells() {
    let served = start();
    let alice = OpenSsh::new(&served, "ed25519");
    let check = |args: &[&str], expect: &str| {
        let ended = alice.run(args);
        assert_eq!((said(&ended).replace('\r', ""), ended.status.code()), (format!("{expect}\n"), Some(128)));
        assert!(ended.stdout.is_empty());
    };
    check(&["id"], "fatal: unrecognized command 'id'");
    check(&["git-upload-pack '/a.git'; id"], "fatal: unrecognized command 'git-upload-pack '/a.git'; id'");
    check(&["git-upload-archive", "'/a.git'"], "fatal: unrecognized command 'git-upload-archive '/a.git''");
    let greeting = "packrace: you are alice. No shell access; git clone, fetch and push work.";
    check(&[], greeting);
    let sftp = alice.run(&["-s", "sftp"]);
    assert!(!sftp.status.success() && said(&sftp).contains("subsystem request failed"), "{}", said(&sftp));
    // Forwarding is refused, and the session continues.
    let forward = OpenSsh::new(&served, "ed25519").with("RemoteForward=0 127.0.0.1:9");
    assert_eq!(forward.run(&["id"]).status.code(), Some(128));
}

#[test]
#[ignore = "needs ssh"]
fn certificates_of_openssh() {
    let served = start();
    let url = "git@127.0.0.1:a.git";
    let check = |signer: &str, args: &[&str], expect: bool| {
        let key = served.file("unknown");
        keygen(
            &[&["-s", served.file(signer).to_str().unwrap(), "-I", "laptop"], args].concat(),
            &[key.with_extension("pub")],
        );
        let ended = OpenSsh::new(&served, "unknown").git(&["ls-remote", url]);
        assert_eq!(ended.status.success(), expect, "{args:?}: {}\n{}", said(&ended), served.server.log());
    };
    check("authority", &["-n", "alice", "-V", "+1h"], true);
    check("authority", &["-n", "alice,bob"], false);
    check("authority", &["-n", "alice", "-V", "20200101:20200102"], false);
    check("authority", &["-n", "alice", "-O", "source-address=127.0.0.0/8,::1/128"], true);
    check("authority", &["-n", "alice", "-O", "source-address=192.0.2.0/24"], false);
    check("authority", &["-n", "alice", "-O", "force-command=id"], false);
    check("ed25519", &["-n", "alice"], false);
    check("authority", &["-h", "-n", "alice"], false);
}

#[test]
#[ignore = "needs ssh"]
fn a_connection_that_is_shared() {
    let served = start();
    let url = "git@127.0.0.1:a.git";
    let path = format!("ControlPath={}", served.file("control").display());
    let shared =
        OpenSsh::new(&served, "ed25519").with("ControlMaster=auto").with("ControlPersist=60").with(&path);
    for _ in 0..3 {
        shared.works(&["ls-remote", url]);
    }
    assert_eq!(served.metric("packrace_ssh_logins_total{outcome=\"completed\"}"), 1);
    // One session at a time: others open connections of their own.
    let clones: Vec<String> = (0..4).map(|number| format!("clone{number}")).collect();
    std::thread::scope(|scope| {
        for clone in &clones {
            scope.spawn(|| shared.works(&["clone", "-q", url, clone]));
        }
    });
    assert!(shared.run(&["-O", "exit"]).status.code().is_some());
    served.server.signal("-TERM");
}
