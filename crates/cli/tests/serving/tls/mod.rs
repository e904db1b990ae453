//! HTTPS: server and client certificates, and other protocols on a TLS port.

mod answers;
mod client;
mod hostile;
mod renewal;
mod running;

use packrace_testkit::certificates::Authority;

use super::*;
use client::{TlsClient, connect, shake_hands};

/// The listeners in these tests.
const LISTEN: &str =
    "[listen]\nhttp = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\nhosts = \"any\"\n[push]\nallowed = true\n";

/// A server, and the authority that its clients trust.
struct TlsServer {
    server: Server,
    authority: Authority,
}

/// The folder of certificates and keys.
fn tls_dir(folder: &Path) -> PathBuf {
    folder.join("tls")
}

/// The settings for certificates with these names, which are in the folder.
fn tls_table(folder: &Path, names: &[&str]) -> String {
    let list = |end: &str| {
        let dir = tls_dir(folder);
        names.iter().map(|name| format!("\"{}/{name}.{end}\"", dir.display())).collect::<Vec<_>>().join(", ")
    };
    format!("[tls]\ncertificates = [{}]\nkeys = [{}]\n", list("pem"), list("key"))
}

/// An empty folder with `root/a.git` and a folder for certificates.
fn folder(authority: &Authority) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    RepoBuilder::new(Size::Tiny).build_at(&folder.path().join("root/a.git"), Git::stock());
    std::fs::create_dir(tls_dir(folder.path())).unwrap();
    std::fs::write(tls_dir(folder.path()).join("ca.pem"), authority.pem()).unwrap();
    folder
}

/// A server with a certificate for localhost, and additional settings at the end.
fn start(more: &str) -> TlsServer {
    let authority = Authority::new("Authority of tests");
    let folder = folder(&authority);
    authority.sign("localhost", &["localhost", "127.0.0.1"]).write(&tls_dir(folder.path()), "server");
    let more = more.replace("CA_FILE", tls_dir(folder.path()).join("ca.pem").to_str().unwrap());
    let config = format!("{LISTEN}{}{more}", tls_table(folder.path(), &["server"]));
    let root = folder.path().join("root");
    TlsServer { server: Server::start_for(folder, &root, &config, &[], &[]), authority }
}

impl TlsServer {
    fn dir(&self) -> PathBuf {
        tls_dir(self.server.folder.path())
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/a.git", self.server.address("https").port())
    }

    /// Git that trusts the authority in this file, with additional configuration.
    fn git(&self, authority: &str, config: &[&str], args: &[&str]) -> Output {
        let mut command = Command::new("git");
        clean_environment(&mut command);
        command.current_dir(self.server.folder.path());
        command.args(["-c", &format!("http.sslCAInfo={}", self.dir().join(authority).display())]);
        command.args(config.iter().flat_map(|config| ["-c", config]));
        output(command.args(args))
    }

    #[track_caller]
    fn git_succeeds(&self, config: &[&str], args: &[&str]) {
        let ended = self.git("ca.pem", config, args);
        assert!(ended.status.success(), "{args:?}: {}{}", text(&ended.stderr), self.server.log());
    }

    fn connect(&self, name: &str) -> TlsClient {
        connect(self.server.address("https"), name, &self.authority, &[], None).unwrap()
    }

    /// The number of handshakes with this outcome.
    fn handshakes(&self, outcome: &str) -> u64 {
        let metrics = text(&self.server.get("/-/metrics").body);
        let line = format!("packrace_tls_handshakes_total{{outcome=\"{outcome}\"}} ");
        metrics.lines().find_map(|other| other.strip_prefix(&line)).unwrap().parse().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn stock_git_clones_fetches_and_pushes() {
    let served = start("");
    let repo = served.server.repository();
    for (version, status) in [("HTTP/1.1", "HTTP/1.1 200"), ("HTTP/2", "HTTP/2 200")] {
        let name = version.replace(['/', '.'], "");
        let config = [&*format!("http.version={version}"), "push.default=current"];
        served.git_succeeds(&config, &["clone", "-q", &served.url(), &name]);
        let clone = served.server.folder.path().join(&name);
        assert_eq!(
            Git::stock().run(&clone, &["rev-parse", "HEAD"]),
            Git::stock().run(&repo, &["rev-parse", "HEAD"])
        );
        Git::stock().run(&clone, &["checkout", "-qb", &name]);
        Git::stock().run(&clone, &["commit", "-q", "--allow-empty", "-m", "New"]);
        served.git_succeeds(&config, &["-C", &name, "push", "-q", "origin"]);
        let tip = Git::stock().run(&clone, &["rev-parse", "HEAD"]);
        assert_eq!(Git::stock().run(&repo, &["rev-parse", &name]), tip);
        served.git_succeeds(&config, &["-C", &name, "fetch", "-q", "origin"]);
        let spoken = curl_trace(&served, &config);
        // Some TLS libraries of curl do not support HTTP/2.
        let is_offered = version == "HTTP/1.1" || spoken.contains("h2");
        assert!(!is_offered || spoken.contains(status), "{spoken}");
    }
    let ended = served.git("nobody.pem", &[], &["ls-remote", &served.url()]);
    assert!(!ended.status.success());
    let other = Authority::new("Somebody else");
    std::fs::write(served.dir().join("other.pem"), other.pem()).unwrap();
    let ended = served.git("other.pem", &[], &["ls-remote", &served.url()]);
    assert!(
        !ended.status.success() && text(&ended.stderr).contains("certificate"),
        "{}",
        text(&ended.stderr)
    );
    assert!(served.handshakes("completed") >= 8);
    // Git may check the certificate after the handshake; other clients refuse it at once.
    assert!(connect(served.server.address("https"), "localhost", &other, &[], None).is_err());
    served.server.wait_until("a handshake that failed", |_| served.handshakes("failed") > 0);
}

/// curl's trace while refs are listed.
fn curl_trace(served: &TlsServer, config: &[&str]) -> String {
    let mut command = Command::new("git");
    clean_environment(&mut command);
    command
        .env("GIT_TRACE_CURL", "1")
        .args(["-c", &format!("http.sslCAInfo={}", served.dir().join("ca.pem").display())]);
    command.args(config.iter().flat_map(|config| ["-c", config]));
    text(&output(command.args(["ls-remote", &served.url()])).stderr)
}

#[test]
fn a_name_gets_its_certificate_and_protocols_are_agreed_on() {
    let authority = Authority::new("Authority of tests");
    let folder = folder(&authority);
    let dir = tls_dir(folder.path());
    let names = ["first", "second", "wild"];
    let hosts: [&[&str]; 3] =
        [&["first.example", "127.0.0.1"], &["second.example", "both.example"], &["*.wild.example"]];
    for (name, hosts) in names.iter().zip(hosts) {
        authority.sign(name, hosts).write(&dir, name);
    }
    // Keys are matched in any order.
    let config = format!("{LISTEN}{}", tls_table(folder.path(), &names));
    let keys = |names: [&str; 3]| names.map(|name| format!("\"{}/{name}.key\"", dir.display())).join(", ");
    let config = config.replace(&keys(names), &keys(["wild", "first", "second"]));
    let root = folder.path().join("root");
    let server = Server::start_for(folder, &root, &config, &[], &[]);
    let check = |name: &str, expect: &str| {
        let client = connect(server.address("https"), name, &authority, &[], None);
        assert_eq!(client.map(|client| client.common_name()).ok().as_deref(), Some(expect), "{name}");
    };
    check("first.example", "first");
    check("second.example", "second");
    check("both.example", "second");
    check("a.wild.example", "wild");
    check("127.0.0.1", "first");
    let unknown = connect(server.address("https"), "unknown.example", &authority, &[], None);
    assert!(unknown.is_err_and(|error| error.to_string().contains("not valid for name")));
    let log = server.log();
    assert!(log.contains("second.pem (second.example, both.example) until "), "{log}");
    for (offered, expect) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let client = connect(server.address("https"), "first.example", &authority, offered, None).unwrap();
        assert_eq!(client.protocol().as_deref(), expect, "{offered:?}");
    }
    assert!(connect(server.address("https"), "first.example", &authority, &["ftp"], None).is_err());
}

#[test]
fn clients_show_certificates() {
    let served =
        start("client-ca = \"CA_FILE\"\nrequire-client-certificate = true\n[log]\nlevel = \"debug\"\n");
    served.authority.sign("alice", &["alice@example.com"]).write(&served.dir(), "alice");
    let stranger = Authority::new("Somebody else").sign("alice", &["alice@example.com"]);
    stranger.write(&served.dir(), "stranger");
    let as_client = |name: &str| {
        let place = |end: &str| served.dir().join(format!("{name}.{end}")).display().to_string();
        let config = [format!("http.sslCert={}", place("pem")), format!("http.sslKey={}", place("key"))];
        served.git("ca.pem", &[&config[0], &config[1]], &["ls-remote", &served.url()])
    };
    let ended = as_client("alice");
    assert!(ended.status.success(), "{}{}", text(&ended.stderr), served.server.log());
    let log = served.server.log();
    assert!(log.contains("client certificate: alice alice@example.com sha256:"), "{log}");
    assert!(!as_client("stranger").status.success());
    assert!(!served.git("ca.pem", &[], &["ls-remote", &served.url()]).status.success());
    served.server.wait_until("failures", |_| served.handshakes("failed") >= 2);
    // When it is no longer required, a client certificate is optional, but a presented one is verified.
    let config = std::fs::read_to_string(served.server.config()).unwrap();
    let config = config.replace("require-client-certificate = true\n", "");
    std::fs::write(served.server.config(), &config).unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("clients without certificate", |_| {
        served.git("ca.pem", &[], &["ls-remote", &served.url()]).status.success()
    });
    assert!(as_client("alice").status.success());
    assert!(!as_client("stranger").status.success());
    // If configured, it identifies the user.
    let rules = served.dir().join("rules");
    std::fs::write(&rules, "[[rule]]\nrepository = \"**\"\nwho = \"alice\"\nallow = [\"read\"]\n").unwrap();
    let access = format!("[access]\nrules = {rules:?}\nclient-certificates = true\n");
    std::fs::write(served.server.config(), format!("{config}{access}")).unwrap();
    served.server.signal("-HUP");
    served
        .server
        .wait_until("rules", |_| !served.git("ca.pem", &[], &["ls-remote", &served.url()]).status.success());
    assert!(as_client("alice").status.success(), "{}", served.server.log());
    assert!(served.server.log().contains("user=\"alice\""), "{}", served.server.log());
}

/// Each invalid file, and the error.
#[test]
fn files_at_fault_end_the_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let authority = Authority::new("Authority of tests");
    let folder = folder(&authority);
    let dir = tls_dir(folder.path());
    authority.sign("localhost", &["localhost"]).write(&dir, "server");
    authority.sign("other", &["other"]).write(&dir, "other");
    std::fs::write(dir.join("broken.pem"), "-----BEGIN CERTIFICATE-----\nAA*A\n-----END CERTIFICATE-----\n")
        .unwrap();
    std::fs::write(
        dir.join("nonsense.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let file = folder.path().join("serve.toml");
    let good = format!("[listen]\nhttps = \"127.0.0.1:0\"\n{}", tls_table(folder.path(), &["server"]));
    let check = |config: &str, expect: &str| {
        std::fs::write(&file, config).unwrap();
        let ended = output(packrace().args(["serve", "--config"]).arg(&file).arg(folder.path().join("root")));
        let said = text(&ended.stderr);
        let last = said.lines().last().unwrap_or_default();
        let expect = expect.replace("DIR", dir.to_str().unwrap());
        assert!(last.starts_with(&format!("fatal: {expect}")), "{expect}: {said}");
        assert_eq!(ended.status.code(), Some(128), "{said}");
    };
    check("[listen]\nhttps = \"127.0.0.1:0\"\n", "listen.https: needs tls.certificates");
    check(&good.replace("server.pem", "none.pem"), "DIR/none.pem: No such file or directory");
    check(&good.replace("server.key", "none.key"), "DIR/none.key: No such file or directory");
    check(&good.replace("server.pem", "broken.pem"), "DIR/broken.pem: malformed PEM: ");
    check(
        &good.replace("server.pem", "nonsense.pem"),
        "DIR/nonsense.pem: cannot read its first certificate: ",
    );
    check(&good.replace("server.pem", "server.key"), "DIR/server.key: contains no certificate (PEM)");
    check(
        &good.replace("server.key", "other.pem"),
        "DIR/other.pem: contains no private key (PEM, not encrypted)",
    );
    check(
        &good.replace("server.key", "other.key"),
        "DIR/server.pem: no private key in tls.keys matches this certificate",
    );
    let more = good.replace("server.key\"", &format!("server.key\", \"{}/other.key\"", dir.display()));
    check(&more, "DIR/other.key: matches no certificate in tls.certificates");
    let required = "tls.require-client-certificate: needs tls.client-ca";
    check(&format!("{good}require-client-certificate = true\n"), required);
    check(
        &format!("{good}client-ca = \"{}/server.key\"\n", dir.display()),
        "DIR/server.key: contains no certificate",
    );
    for (mode, is_loose) in
        [(0o644, true), (0o604, true), (0o660, true), (0o601, true), (0o640, false), (0o400, false)]
    {
        std::fs::set_permissions(dir.join("server.key"), std::fs::Permissions::from_mode(mode)).unwrap();
        let expect = match is_loose {
            true => format!("DIR/server.key: permissions {mode:04o} are too open for a private key"),
            // The next error.
            false => "DIR/other.pem: no private key in tls.keys".to_owned(),
        };
        check(&good.replace("server.pem", "other.pem"), &expect);
    }
}
