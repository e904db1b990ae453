//! `listen.ssh`: keys and certificates, sessions, and hostile clients. Stock OpenSSH: `openssh`.

mod client;
mod hostile;
mod openssh;
mod reload;
mod sources;

use std::os::unix::fs::PermissionsExt as _;

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::certificate::{Builder, CertType};
use russh::keys::{Algorithm, Certificate, PrivateKey};

use super::*;
use client::{Ran, SshClient, git};

/// Two repositories; alice, who may push; bob, who may read one of them; and an authority.
struct SshServer {
    server: Server,
    alice: PrivateKey,
    bob: PrivateKey,
    authority: PrivateKey,
}

fn made_key() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
}

/// The line of a public key.
fn public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

fn write_private(path: &Path, key: &PrivateKey) {
    std::fs::write(path, key.to_openssh(LineEnding::LF).unwrap().as_bytes()).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

const SETTINGS: &str = r#"
[listen]
http = "127.0.0.1:0"
admin = "127.0.0.1:0"
ssh = "127.0.0.1:0"
[ssh]
host-keys = ["FOLDER/host-key"]
user-keys = "FOLDER/keys"
user-ca = "FOLDER/ca"
[access]
rules = "FOLDER/rules"
audit-log = "FOLDER/audit"
"#;

impl SshServer {
    /// With additional settings at the end. `FOLDER` is the folder.
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        for name in ["a.git", "private/b.git"] {
            let parent = path.join("root").join(name);
            std::fs::create_dir_all(parent.parent().unwrap()).unwrap();
            RepoBuilder::new(Size::Tiny).build_at(&parent, Git::stock());
        }
        let [alice, bob, authority, host] = [(); 4].map(|()| made_key());
        write_private(&path.join("host-key"), &host);
        std::fs::write(path.join("keys"), format!("alice {}\nbob {}\n", public(&alice), public(&bob)))
            .unwrap();
        std::fs::write(path.join("ca"), public(&authority)).unwrap();
        std::fs::write(path.join("rules"), super::shell::RULES).unwrap();
        let settings = format!("{SETTINGS}{more}").replace("FOLDER", path.to_str().unwrap());
        let server = Server::start_for(folder, &path.join("root"), &settings, &[], &[]);
        SshServer { server, alice, bob, authority }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.server.folder.path().join(name)
    }

    fn connect(&self) -> SshClient {
        SshClient::connect(self.server.address("ssh")).unwrap()
    }

    fn login(&self, key: &PrivateKey) -> SshClient {
        let mut client = self.connect();
        assert!(client.shows("git", key), "{}", self.server.log());
        client
    }

    /// Whether a client with this key alone is accepted.
    fn lets_in(&self, key: &PrivateKey) -> bool {
        self.connect().shows("git", key)
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> u64 {
        let answer = http(self.server.address("admin"), "GET /-/metrics HTTP/1.1", b"", Feed::Whole);
        let metrics = String::from_utf8(answer.body).unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// git, as a user with this key.
    fn git(&self, key: &PrivateKey, args: &[&str]) -> Output {
        git(&self.login(key), self.server.folder.path(), args)
    }

    #[track_caller]
    fn works(&self, key: &PrivateKey, args: &[&str]) {
        let ended = self.git(key, args);
        assert!(ended.status.success(), "{args:?}: {}{}", said(&ended), self.server.log());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A certificate for a key, for these users, between two times.
fn certificate(key: &PrivateKey, signer: &PrivateKey, users: &[&str], times: (u64, u64)) -> Certificate {
    let mut builder =
        Builder::new_with_random_nonce(&mut safe_rng(), key.public_key(), times.0, times.1).unwrap();
    builder.cert_type(CertType::User).unwrap().key_id("laptop").unwrap();
    for user in users {
        builder.valid_principal(*user).unwrap();
    }
    builder.sign(signer).unwrap()
}

const ALWAYS: (u64, u64) = (0, 1 << 40);

#[test]
fn stock_git_clones_fetches_and_pushes() {
    let served = SshServer::start("");
    let tip = Git::stock().run(&served.server.repository(), &["rev-parse", "HEAD"]);
    let clone = served.file("clone");
    for version in ["0", "1", "2"] {
        let _ = std::fs::remove_dir_all(&clone);
        let protocol = format!("protocol.version={version}");
        served.works(&served.bob, &["-c", &protocol, "clone", "-q", "git@host:a.git", "clone"]);
        assert_eq!(Git::stock().run(&clone, &["rev-parse", "HEAD"]), tip, "version {version}");
        Git::stock().run(&clone, &["fsck"]);
    }
    Git::stock().run(&clone, &["commit", "-q", "--allow-empty", "-m", "more"]);
    let push = ["-C", "clone", "push", "-q", "origin", "HEAD:refs/heads/new"];
    let refused = served.git(&served.bob, &push);
    assert!(!refused.status.success());
    served.works(&served.alice, &push);
    served.works(&served.alice, &["-C", "clone", "fetch", "-q"]);
    let force = ["-C", "clone", "push", "-q", "origin", "+HEAD~1:refs/heads/new"];
    let forced = served.git(&served.alice, &force);
    assert!(said(&forced).contains("alice may not force refs/heads/new"), "{}", said(&forced));

    let audit = std::fs::read_to_string(served.file("audit")).unwrap();
    assert!(audit.contains("\"user\":\"alice\"") && audit.contains("\"ref\":\"refs/heads/new\""), "{audit}");
    let log = served.server.log();
    let line = "door=ssh peer=127.0.0.1:";
    assert!(log.contains(line) && log.contains("user=\"alice\" kind=push"), "{log}");
    assert!(log.contains("service not enabled") || log.contains("bob may not push here"), "{log}");
    assert!(served.metric("packrace_transfers_finished_total{kind=\"clone\",door=\"ssh\"}") >= 3);
    assert!(served.metric("packrace_ssh_logins_total{outcome=\"completed\"}") >= 7);
}

#[test]
fn a_repository_of_sha256() {
    let served = SshServer::start("");
    let repository = served.file("root/a.git");
    std::fs::remove_dir_all(&repository).unwrap();
    RepoBuilder::new(Size::Tiny).hash(packrace_object::HashKind::Sha256).build_at(&repository, Git::stock());
    served.works(&served.alice, &["clone", "-q", "git@host:a.git", "clone"]);
    let clone = served.file("clone");
    assert_eq!(Git::stock().run(&clone, &["rev-parse", "HEAD"]).trim().len(), 64);
    Git::stock().run(&clone, &["commit", "-q", "--allow-empty", "-m", "more"]);
    served.works(&served.alice, &["-C", "clone", "push", "-q", "origin", "HEAD:refs/heads/new"]);
}

#[test]
fn sessions_one_after_the_other_and_no_two_at_once() {
    let served = SshServer::start("");
    let client = served.login(&served.alice);
    let tip = Git::stock().run(&served.server.repository(), &["rev-parse", "HEAD"]);
    for (protocol, expect) in
        [(None, tip.trim()), (Some("version=2"), "000eversion 2\n"), (Some("version=1"), "000eversion 1\n")]
    {
        let ran = client.run(protocol, b"git-upload-pack '/a.git'", b"0000");
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{protocol:?}");
        let head = String::from_utf8_lossy(&ran.out[..60]).into_owned();
        assert!(head.contains(expect), "{head}");
    }
    // Variables of one session do not affect the next.
    let plain = client.run(None, b"git-upload-pack 'a.git'", b"0000");
    assert!(!plain.out.starts_with(b"000eversion"));

    let mut first = client.begin(Some("version=2"), Some(b"git-upload-pack '/a.git'")).unwrap();
    client.take(&mut first, 20);
    assert!(client.begin(None, Some(b"git-upload-pack '/a.git'")).is_err());
    assert_eq!(client.finish(first, b"0000").code, Some(0));
    assert_eq!(client.run(None, b"git-upload-pack '/a.git'", b"0000").code, Some(0));
}

#[test]
fn what_is_not_served_is_refused_in_words() {
    let served = SshServer::start("");
    let client = served.login(&served.bob);
    let check = |command: &str, expect: &str| {
        let Ran { out, err, code } = client.run(None, command.as_bytes(), b"");
        assert_eq!((err.as_str(), code), (format!("fatal: {expect}\n").as_str(), Some(128)), "{command}");
        assert!(out.is_empty());
    };
    for command in [
        "id",
        "git-upload-archive '/a.git'",
        "git-upload-pack '/a.git'; id",
        "git-upload-pack '/a.git' '/b'",
        "git-upload-pack $(id)",
        "git-upload-pack '/a.git'\\''",
        "git-upload-pack \"/a.git\"",
        " git-upload-pack '/a.git'",
        "scp -t /",
        "",
    ] {
        check(command, &format!("unrecognized command '{command}'"));
    }
    check("git-upload-pack '/a.git'\nid", "unrecognized command 'git-upload-pack '/a.git'?id'");
    check("git-upload-pack --strict '/a.git'", "options are not supported: '--strict'");
    check("git-receive-pack '/a.git'", "bob may not push here");
    // Hidden, missing and outside repositories get the same response.
    for path in ["/private/b.git", "/none.git", "/../a.git", "/a.git/objects", "~/a.git", "/private"] {
        check(
            &format!("git-upload-pack '{path}'"),
            &format!("'{path}' does not appear to be a git repository"),
        );
        check(
            &format!("git-receive-pack '{path}'"),
            &format!("'{path}' does not appear to be a git repository"),
        );
    }
    let shell = client.finish(client.begin(None, None).unwrap(), b"");
    assert_eq!(shell.code, Some(128));
    assert!(shell.err.starts_with("packrace: you are bob. No shell access"), "{}", shell.err);
}

#[test]
fn only_keys_and_certificates_get_in() {
    let served = SshServer::start("");
    let key = made_key();
    assert!(!served.lets_in(&key));
    assert!(!served.lets_in(&served.authority), "an authority is no user");
    for answer in served.connect().tries_others() {
        let russh::client::AuthResult::Failure { remaining_methods, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(remaining_methods.iter().map(<&str>::from).collect::<Vec<_>>(), ["publickey"]);
    }
    let shows = |login: &str, certificate| served.connect().shows_certificate(login, &key, certificate);
    let signed = |signer: &PrivateKey, users: &[&str], times| certificate(&key, signer, users, times);
    assert!(shows("git", signed(&served.authority, &["alice"], ALWAYS)));
    assert!(shows("bob", signed(&served.authority, &["alice", "bob"], ALWAYS)));
    assert!(!shows("git", signed(&served.authority, &["alice", "bob"], ALWAYS)));
    assert!(!shows("git", signed(&served.authority, &["alice"], (0, 1_000_000))), "it has expired");
    assert!(!shows("git", signed(&served.authority, &["alice"], (1 << 39, 1 << 40))), "it is of the future");
    assert!(!shows("git", signed(&made_key(), &["alice"], ALWAYS)), "another authority");
    assert!(!shows("git", signed(&served.alice, &["alice"], ALWAYS)), "a user is no authority");
    let log = served.server.log();
    for words in [
        "user \"alice\" logged in with certificate \"laptop\", serial 0",
        "login failed: certificate \"laptop\", serial 0: signed by an unknown CA",
        "login failed: no known key or certificate",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let mut client = served.connect();
    assert!(client.shows_certificate("git", &key, signed(&served.authority, &["bob"], ALWAYS)));
    let refused = client.run(None, b"git-receive-pack '/a.git'", b"");
    assert_eq!(refused.err, "fatal: bob may not push here\n");
    served.server.wait_until("the count of refusals", |_| {
        served.metric("packrace_ssh_logins_total{outcome=\"refused\"}") >= 5
    });
}
