//! `packrace clone` compared with stock git's: with passwords, over HTTPS and through proxies.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use packrace_testkit::certificates::Authority;

use super::access::{hash, write_secret};
use super::*;

const RULES: &str = "[[rule]]\nrepository = \"a.git\"\nwho = \"alice\"\nallow = [\"read\"]\n";

/// A server where only alice may read `a.git`; her password is `open sesame`.
struct PrivateServer {
    server: Server,
    home: PathBuf,
}

/// The result of a clone, without what differs each time.
#[derive(Debug, PartialEq, Eq)]
struct CloneEnd {
    code: Option<i32>,
    said: String,
    /// Requests to the credential helper.
    asked: Vec<String>,
    refs: String,
}

impl PrivateServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
        let authority = Authority::new("Authority of tests");
        authority.sign("localhost", &["localhost"]).write(folder.path(), "server");
        authority.sign("alice", &[]).write(folder.path(), "alice");
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        std::fs::write(folder.path().join("other.pem"), Authority::new("Somebody else").pem()).unwrap();
        std::fs::write(folder.path().join("rules"), RULES).unwrap();
        write_secret(&folder.path().join("users"), &hash("alice", "open sesame"));
        let path = folder.path().display().to_string();
        let config = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\nhosts = \"any\"\n\
             [tls]\ncertificates = [\"{path}/server.pem\"]\nkeys = [\"{path}/server.key\"]\nclient-ca = \"{path}/ca.pem\"\n\
             [access]\nrules = \"{path}/rules\"\nusers = \"{path}/users\"\nclient-certificates = true\n"
        );
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        PrivateServer { server: Server::start_for(folder, &root, &config, &[], &[]), home }
    }

    fn file(&self, name: &str) -> String {
        self.server.folder.path().join(name).display().to_string()
    }

    fn http(&self, user: &str) -> String {
        format!("http://{user}{}/a.git", self.server.address("http"))
    }

    fn https(&self) -> String {
        format!("https://localhost:{}/a.git", self.server.address("https").port())
    }

    /// A helper with this response, which records its requests.
    fn helper(&self, answer: &str) -> String {
        let (log, ca) = (self.file("asked"), self.file("ca.pem"));
        format!(
            "[credential]\nhelper = \"!f() {{ (echo \\\"$1\\\"; grep -v -e '^capability' -e '^wwwauth' -e '^$' | sort) >>{log}; \
             test $1 != get || printf '{answer}'; }}; f\"\n[http]\nsslCAInfo = {ca}\n"
        )
    }

    fn clone_with(
        &self,
        mut program: Command,
        config: &str,
        variables: &[(&str, &str)],
        url: &str,
    ) -> CloneEnd {
        std::fs::write(self.home.join(".gitconfig"), config).unwrap();
        let _ = std::fs::remove_file(self.file("asked"));
        let to = self.server.folder.path().join("clone.git");
        let _ = std::fs::remove_dir_all(&to);
        program
            .current_dir(self.server.folder.path())
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1");
        program
            .env_remove("GIT_CONFIG_GLOBAL")
            .env_remove("no_proxy")
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(variables.iter().copied());
        let ended = output(program.args(["clone", "--mirror", "--quiet", url, "clone.git"]));
        let asked = std::fs::read_to_string(self.file("asked")).unwrap_or_default();
        let refs = match to.exists() {
            true => {
                Git::stock().run(&to, &["fsck", "--strict"]);
                Git::stock().run(&to, &["for-each-ref"])
            }
            false => String::new(),
        };
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        CloneEnd { code: ended.status.code(), said, asked: asked.lines().map(str::to_owned).collect(), refs }
    }

    fn ours(&self, config: &str, variables: &[(&str, &str)], url: &str) -> CloneEnd {
        self.clone_with(packrace(), config, variables, url)
    }

    /// Both clone; output, requests to helpers, and results are the same.
    #[track_caller]
    fn check(&self, config: &str, variables: &[(&str, &str)], url: &str, code: i32) -> CloneEnd {
        let theirs = self.clone_with(stock(), config, variables, url);
        let ours = self.ours(config, variables, url);
        assert_eq!(theirs, ours, "{config} {variables:?} {url}: {}", self.server.log());
        assert_eq!((ours.code, ours.refs.is_empty()), (Some(code), code != 0), "{}", ours.said);
        ours
    }
}

fn stock() -> Command {
    let mut git = Command::new("git");
    clean_environment(&mut git);
    git
}

#[test]
fn passwords_come_from_where_git_has_them() {
    let server = PrivateServer::start();
    let (http, https) = (server.http(""), server.https());
    let knows = server.helper("username=alice\\\\npassword=open sesame\\\\n");
    let ended = server.check(&knows, &[], &http, 0);
    let verbs: Vec<&String> = ended.asked.iter().filter(|line| !line.contains('=')).collect();
    assert_eq!(verbs, ["get", "store"]);
    assert!(ended.asked.iter().any(|line| line == "password=open sesame"), "{:?}", ended.asked);
    server.check(&knows, &[], &https, 0);
    // Rejected credentials are erased.
    let ended = server.check(&server.helper("username=alice\\\\npassword=old\\\\n"), &[], &http, 128);
    assert!(ended.asked.contains(&"erase".to_owned()), "{:?}", ended.asked);
    let words = format!("remote: Unauthorized\nfatal: Authentication failed for '{http}/'\n");
    assert_eq!(ended.said, words);
    // The helper has no credentials, and prompts are off.
    let ended = server.check(&server.helper(""), &[], &http, 128);
    assert!(ended.said.contains("could not read Username for 'http://"), "{}", ended.said);
    server.check("", &[], &http, 128);
    server.check("", &[], &server.http("alice@"), 128);
    let askpass = server.file("askpass");
    let answers = "#!/bin/sh\ncase $1 in Username*) echo alice;; *) echo open sesame;; esac\n";
    packrace_testkit::write_program(Path::new(&askpass), answers);
    server.check("", &[("GIT_ASKPASS", &askpass)], &http, 0);
    server.check("", &[("SSH_ASKPASS", &askpass)], &server.http("alice@"), 0);
    server.check(&format!("[core]\naskPass = {askpass}\n"), &[], &http, 0);
    // Credentials in the URL; helpers learn of them.
    server.check(&server.helper("quit=1\\\\n"), &[], &server.http("alice:open%20sesame@"), 0);
    server.check(&server.helper(""), &[], &server.http("alice:old@"), 128);
    server.check("[transfer]\ncredentialsInUrl = die\n", &[], &server.http("alice:secret@"), 128);
    std::fs::write(server.home.join(".netrc"), "machine 127.0.0.1 login alice password \"open sesame\"\n")
        .unwrap();
    server.check("", &[], &http, 0);
    std::fs::remove_file(server.home.join(".netrc")).unwrap();
}

#[test]
fn settings_for_one_server_hold_for_that_one_only() {
    let server = PrivateServer::start();
    let (http, address) = (server.http(""), server.server.address("http"));
    let header = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=";
    server.check(&format!("[http]\nextraHeader = {header}\n"), &[], &http, 0);
    server.check(&format!("[http \"http://{address}\"]\nextraHeader = {header}\n"), &[], &http, 0);
    server.check(&format!("[http \"http://{address}/a\"]\nextraHeader = {header}\n"), &[], &http, 128);
    server.check(
        &format!("[http \"http://*.0.0.1:{}\"]\nextraHeader = {header}\n", address.port()),
        &[],
        &http,
        0,
    );
    server.check(&format!("[http]\nextraHeader = {header}\nextraHeader =\n"), &[], &http, 128);
    let user = format!("[credential \"http://{address}\"]\nusername = alice\n");
    let knows = server.helper("password=open sesame\\\\n");
    server.check(&format!("{knows}{user}"), &[], &http, 0);
    let path = format!("{knows}{user}useHttpPath = true\n");
    assert!(server.check(&path, &[], &http, 0).asked.contains(&"path=a.git".to_owned()));
    let ended = server.ours("[http]\npinnedPubkey = sha256//x\n", &[("PATH", "")], &http);
    let words = "fatal: http.pinnedpubkey is not supported; nothing is fetched without it\n";
    assert_eq!((ended.code, ended.said.as_str()), (Some(128), words));
}

/// The words about certificates are those of git with OpenSSL; other libraries have others.
#[test]
fn certificates_are_verified() {
    let server = PrivateServer::start();
    let (https, ca) = (server.https(), server.file("ca.pem"));
    let base = format!("fatal: unable to access '{https}/': ");
    let trusts = format!("[http]\nsslCAInfo = {ca}\n");
    let own =
        format!("{trusts}sslCert = {}\nsslKey = {}\n", server.file("alice.pem"), server.file("alice.key"));
    server.check(&own, &[], &https, 0);
    let (cert, key) = (server.file("alice.pem"), server.file("alice.key"));
    let variables = [("GIT_SSL_CAINFO", ca.as_str()), ("GIT_SSL_CERT", &cert), ("GIT_SSL_KEY", &key)];
    server.check("", &variables, &https, 0);
    // Without verification, a password still gives access.
    let blind =
        server.helper("username=alice\\\\npassword=open sesame\\\\n").replace(&ca, &server.file("other.pem"));
    server.check(&format!("{blind}sslVerify = false\n"), &[], &https, 0);
    server.check(&blind, &[("GIT_SSL_NO_VERIFY", "1")], &https, 0);
    let check = |config: &str, url: &str, expect: &str| {
        let ended = server.ours(config, &[], url);
        assert_eq!(ended.code, Some(128));
        assert!(
            ended.said.starts_with(&base.replace(&https, url)) && ended.said.contains(expect),
            "{}",
            ended.said
        );
        assert_eq!(ended.asked.len(), 0, "nobody is told a password");
    };
    check(&blind, &https, "SSL certificate problem: unable to get local issuer certificate");
    let by_address = https.replace("localhost", "127.0.0.1");
    let words = "SSL: no alternative certificate subject name matches target host name '127.0.0.1'";
    check(&trusts, &by_address, words);
    check(
        "[http]\nsslCAInfo = /nowhere\n",
        &https,
        "error setting certificate verify locations:  CAfile: /nowhere",
    );
    check(
        &format!("{trusts}sslCert = /nowhere\n"),
        &https,
        "could not load PEM client certificate from /nowhere",
    );
    // A server without TLS.
    let plain = server.http("").replace("http:", "https:");
    check(&trusts, &plain, "TLS connect error: ");
}

/// A proxy that records the first lines of requests, and whether it got a password.
struct TestProxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let written = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let written = written.clone();
                std::thread::spawn(move || pass_on(stream, &written));
            }
        });
        TestProxy { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// Forwards one request, and everything after it.
fn pass_on(mut client: TcpStream, seen: &Mutex<Vec<String>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8(head).ok()?;
    let line = head.lines().next()?.to_owned();
    let allowed =
        head.lines().any(|line| line.eq_ignore_ascii_case("proxy-authorization: Basic cHJveHk6c2VjcmV0"));
    seen.lock().unwrap().push(format!("{} {allowed}", line.rsplit_once(' ')?.0));
    if !allowed {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok()?;
        return None;
    }
    let target = line.split(' ').nth(1)?;
    let mut server = match line.strip_prefix("CONNECT ") {
        Some(_) => {
            let server = TcpStream::connect(target).ok()?;
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
            server
        }
        None => {
            let rest = target.strip_prefix("http://")?;
            let (authority, path) = rest.split_at(rest.find('/')?);
            let mut server = TcpStream::connect(authority).ok()?;
            // The server closes the connection after the response, so that the next request is seen.
            let head = head.replacen(target, path, 1).replacen("\r\n", "\r\nConnection: close\r\n", 1);
            server.write_all(head.as_bytes()).ok()?;
            server
        }
    };
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Both);
    Some(())
}

#[test]
fn proxies_are_used_as_git_does() {
    let server = PrivateServer::start();
    let proxy = TestProxy::start();
    let (http, https) = (server.http(""), server.https());
    let knows = server.helper("username=alice\\\\npassword=open sesame\\\\n");
    let (with, without) =
        (format!("http://proxy:secret@{}", proxy.address), format!("http://{}", proxy.address));
    let through = |config: &str, variables: &[(&str, &str)], url: &str| {
        let ended = server.ours(config, variables, url);
        (ended.code, ended.said, proxy.seen())
    };
    let (code, said, seen) = through(&format!("{knows}proxy = {with}\n"), &[], &http);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        seen.len() >= 3 && seen[0] == format!("GET {http}/info/refs?service=git-upload-pack true"),
        "{seen:?}"
    );
    let (code, said, seen) = through(&knows, &[("https_proxy", &with)], &https);
    assert_eq!(code, Some(0), "{said}");
    let connect = format!("CONNECT localhost:{} true", server.server.address("https").port());
    assert!(seen.len() >= 3 && seen.iter().all(|line| *line == connect), "{seen:?}");
    let (code, said, seen) = through(&knows, &[("https_proxy", &without)], &https);
    let words = format!("fatal: unable to access '{https}/': CONNECT tunnel failed, response 407\n");
    assert_eq!((code, said, seen.len()), (Some(128), words, 1));
    // The setting overrides the variable; an empty one means no proxy.
    let (code, said, seen) = through(&format!("{knows}proxy =\n"), &[("http_proxy", &without)], &http);
    assert_eq!((code, seen.len()), (Some(0), 0), "{said}");
    let variables = [("all_proxy", without.as_str()), ("no_proxy", "localhost")];
    let (code, said, seen) = through(&knows, &variables, &https);
    assert_eq!((code, seen.len()), (Some(0), 0), "{said}");
    let (code, said, seen) = through(&format!("{knows}proxy = {without}\n"), &[("no_proxy", "*")], &http);
    assert_eq!((code, seen.len()), (Some(0), 0), "{said}");
    let (code, said, _) = through(&format!("{knows}proxy = socks5://127.0.0.1:1\n"), &[], &http);
    assert!(code == Some(128) && said.contains("Unsupported proxy scheme 'socks5'"), "{said}");
    // Git uses the proxy with the same settings.
    for url in [&http, &https] {
        let ended = server.clone_with(stock(), &format!("{knows}proxy = {with}\n"), &[], url);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
    }
}

/// A server that redirects every request to `target` (if it `asks`, only those with a password), its URL, and
/// the heads of the requests that it received.
fn redirecting_server(target: &str, asks: bool) -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(String::new()));
    let heads = seen.clone();
    let to = format!("{target}/info/refs?service=git-upload-pack");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend_from_slice(&byte);
            }
            let head = String::from_utf8_lossy(&head);
            heads.lock().unwrap().push_str(&head);
            let known = head.to_ascii_lowercase().contains("authorization: basic");
            let answer = if asks && !known {
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"first\"\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else {
                format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (format!("http://{address}/x.git"), seen)
}

#[test]
fn another_server_is_told_no_secret_of_the_first() {
    let server = PrivateServer::start();
    let (first, seen) = redirecting_server(&server.http(""), false);
    let knows = server.helper("username=alice\\\\npassword=open sesame\\\\n");
    // The helper is queried for the server that requires a password: the second.
    let ended = server.check(&knows, &[], &first, 0);
    assert!(ended.asked.contains(&format!("host={}", server.server.address("http"))), "{:?}", ended.asked);
    assert!(!seen.lock().unwrap().to_ascii_lowercase().contains("authorization"));
    let header = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=";
    let ended = server.ours(&format!("[http]\nextraHeader = {header}\n"), &[], &first);
    assert!(ended.code == Some(128) && ended.said.contains("could not read Username"), "{}", ended.said);
    let ended = server.ours(&format!("{knows}followRedirects = false\n"), &[], &first);
    let words = format!("fatal: unable to access '{first}/': The requested URL returned error: 302\n");
    assert_eq!((ended.code, ended.said), (Some(128), words));
}

/// Both servers require credentials, and each gets those that the helper has for it. Stock git 2.47 takes the
/// second server's request for a rejection of the first one's password, has the helper erase it, and fails.
#[test]
fn each_of_two_servers_asks_for_its_own_password() {
    let server = PrivateServer::start();
    let (first, seen) = redirecting_server(&server.http(""), true);
    let knows = server.helper("username=alice\\npassword=open sesame\\n");
    let ended = server.ours(&knows, &[], &first);
    assert!(
        ended.code == Some(0) && !ended.asked.contains(&"erase".to_owned()),
        "{} {:?}",
        ended.said,
        ended.asked
    );
    assert!(seen.lock().unwrap().to_ascii_lowercase().contains("authorization: basic"));
    for url in [first.as_str(), &server.http("")] {
        let host = url.split('/').nth(2).unwrap();
        assert!(ended.asked.contains(&format!("host={host}")), "{:?}", ended.asked);
    }
}
