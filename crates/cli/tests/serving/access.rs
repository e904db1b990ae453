//! Access rules: `packrace serve` with rules, and stock git as the client.

use super::*;

const RULES: &str = r#"
admins = ["root"]

[groups]
team = ["alice", "bob"]

[[rule]]
repository = "a.git"
who = "anyone"
allow = ["read"]

[[rule]]
repository = "a.git"
who = "@team"
deny = ["force", "delete"]
refs = "refs/heads/main"

[[rule]]
repository = "a.git"
who = "@team"
allow = ["write", "create", "force", "delete"]

[[rule]]
repository = "private/**"
who = "alice"
allow = ["read", "write", "create"]

[[rule]]
repository = "private/**"
who = "reader"
allow = ["read"]
"#;

/// A served folder with `a.git` and `private/b.git`, rules, and users alice, bob and reader, whose names are
/// their passwords.
pub(super) struct Guarded {
    pub(super) server: Server,
    /// Directory of the client, outside the served folder.
    client: tempfile::TempDir,
}

impl Guarded {
    fn start() -> Self {
        Guarded::start_with(RULES, &[])
    }

    pub(super) fn start_with(rules: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("private")).unwrap();
        for name in ["a.git", "private/b.git"] {
            RepoBuilder::new(Size::Tiny).build_at(&root.join(name), Git::stock());
        }
        std::fs::write(folder.path().join("rules"), rules).unwrap();
        let users = ["alice", "bob", "reader", "root"].map(|user| hash(user, user));
        write_secret(&folder.path().join("users"), &users.concat());
        write_secret(&folder.path().join("tokens"), "");
        let path = folder.path().display().to_string();
        let config = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\ngit = \"127.0.0.1:0\"\n[access]\nrules = \"{path}/rules\"\n\
             users = \"{path}/users\"\ntokens = \"{path}/tokens\"\ntrusted-proxies = [\"127.0.0.2\"]\n\
             user-header = \"Remote-User\"\naudit-log = \"{path}/audit\"\n"
        );
        let server = Server::start_for(folder, &root, &config, &[], variables);
        Guarded { server, client: tempfile::tempdir().unwrap() }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.server.address("http"))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.server.folder.path().join(name)
    }

    /// Runs git as a user whom a credential helper knows; [`helper`](Self::helper) returns the requests to
    /// it.
    fn git(&self, user: &str, password: &str, args: &[&str]) -> Output {
        let mut command = Git::stock().command(self.client.path());
        command.env("GIT_TERMINAL_PROMPT", "0");
        if !user.is_empty() {
            let log = self.file("helper");
            let helper = format!(
                "!f() {{ echo $1 >>{}; test $1 = get || return 0; echo username={user}; echo password={password}; }}; f",
                log.display()
            );
            command.args(["-c", "credential.helper=", "-c", &format!("credential.helper={helper}")]);
        }
        output(command.args(args))
    }

    /// The requests to the helper since the last call.
    fn helper(&self) -> String {
        let said = std::fs::read_to_string(self.file("helper")).unwrap_or_default();
        let _ = std::fs::remove_file(self.file("helper"));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(super) fn works(&self, user: &str, args: &[&str]) -> Output {
        let output = self.git(user, user, args);
        assert!(output.status.success(), "{args:?}: {}\n{}", said(&output), self.server.log());
        output
    }

    #[track_caller]
    pub(super) fn fails(&self, user: &str, password: &str, args: &[&str], expect: &str) {
        let output = self.git(user, password, args);
        assert!(!output.status.success(), "{user} {args:?}");
        assert!(said(&output).contains(expect), "{user} {args:?}: {}", said(&output));
    }

    /// A clone of `path` with one commit more than the server has on `main`.
    fn clone_and_commit(&self, user: &str, path: &str, name: &str) {
        self.works(user, &["clone", "--quiet", &self.url(path), name]);
        self.works(user, &["-C", name, "commit", "--quiet", "--allow-empty", "-m", "more"]);
    }

    fn status(&self, head: &str) -> HttpReply {
        http(self.server.address("http"), head, b"", Feed::Whole)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The user's line in a password file.
pub(super) fn hash(user: &str, password: &str) -> String {
    let mut command = packrace();
    command.args(["access", "hash", user]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), format!("{password}\n").as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

pub(super) fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Adds a new token to this file.
fn token(file: &Path, args: &[&str]) -> String {
    let made = output(packrace().args(["access", "token"]).args(args).arg("alice").arg(file));
    assert!(made.status.success(), "{}", said(&made));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[test]
fn passwords_tokens_and_rules_with_stock_git() {
    let guarded = Guarded::start();
    let (public, private) = (guarded.url("a.git"), guarded.url("private/b.git"));
    guarded.works("", &["clone", "--quiet", &public, "public"]);
    guarded.fails("", "", &["ls-remote", &private], "could not read Username");
    guarded.works("alice", &["clone", "--quiet", &private, "private"]);
    assert_eq!(guarded.helper(), "get store");
    guarded.works("reader", &["-C", "private", "fetch", "--quiet", &private]);

    // A wrong password is erased, and so is that of an unknown user.
    guarded.helper();
    for (user, password) in [("alice", "guessed-it"), ("nobody", "alice")] {
        guarded.fails(user, password, &["ls-remote", &private], "Authentication failed");
        assert_eq!(guarded.helper(), "get erase", "{user}");
    }
    // Other users do not learn what exists.
    for path in ["private/b.git", "private/none.git", "other.git"] {
        guarded.fails("bob", "bob", &["ls-remote", &guarded.url(path)], "not found");
    }
    // Read access does not allow pushes.
    guarded.works("alice", &["-C", "private", "commit", "--quiet", "--allow-empty", "-m", "more"]);
    let push = ["-C", "private", "push", "--quiet", &private, "HEAD:refs/heads/main"];
    guarded.fails("reader", "reader", &push, "403");
    guarded.works("alice", &push);

    let file = guarded.file("tokens");
    let (all, read_only) = (token(&file, &[]), token(&file, &["--read-only", "--expires", "1d"]));
    let elsewhere = token(&file, &["--repository", "other/**"]);
    let expired = token(&file, &["--expires", "2020-01-01T00:00:00Z"]);
    guarded.server.signal("-HUP");
    let command = ["ls-remote", &private];
    guarded.server.wait_until("the tokens", |_| guarded.git("x", &all, &command).status.success());
    guarded.helper();
    guarded.fails("alice", &expired, &command, "Authentication failed");
    assert_eq!(guarded.helper(), "get erase");
    guarded.fails("alice", &elsewhere, &command, "not found");
    assert!(guarded.git("x", &read_only, &command).status.success());
    guarded.works("alice", &["-C", "private", "commit", "--quiet", "--allow-empty", "-m", "yet more"]);
    guarded.fails("x", &read_only, &push, "403");
    // Credentials are checked even where none are needed.
    let public = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
    assert_eq!(guarded.status(&format!("{public}\nAuthorization: Bearer {all}")).status, 200);
    assert_eq!(guarded.status(&format!("{public}\nAuthorization: Bearer {expired}")).status, 401);
    assert!(guarded.git("x", &all, &push).status.success());

    let log = guarded.server.log();
    assert!(log.contains("user=\"alice\"") && log.contains("expired at 2020-01-01T00:00:00Z"), "{log}");
    assert!(!log.contains(&all) && !log.contains("guessed-it"), "{log}");
}

#[test]
fn rules_for_refs() {
    let guarded = Guarded::start();
    let url = guarded.url("a.git");
    guarded.clone_and_commit("alice", "a.git", "clone");
    let push = |user: &str, spec: &str| guarded.git(user, user, &["-C", "clone", "push", &url, spec]);
    let check = |user: &str, spec: &str, expect: &str| {
        let pushed = push(user, spec);
        assert_eq!(pushed.status.success(), expect.is_empty(), "{user} {spec}: {}", said(&pushed));
        assert!(said(&pushed).contains(expect), "{user} {spec}: {}", said(&pushed));
    };
    // Hooks do not run for refs that the rules refuse.
    let heard = guarded.server.repository().join("heard");
    packrace_testkit::write_program(
        &guarded.server.repository().join("hooks/pre-receive"),
        "#!/bin/sh\necho \"$REMOTE_USER\" >>heard; cat >>heard\n",
    );
    check("alice", "HEAD:refs/heads/main", "");
    check("alice", "+HEAD^:refs/heads/main", "(alice may not force refs/heads/main)");
    check("alice", ":refs/heads/main", "(alice may not delete refs/heads/main)");
    check("bob", "HEAD:refs/heads/topic", "");
    check("bob", "+HEAD^:refs/heads/topic", "");
    check("bob", ":refs/heads/topic", "");
    let heard = std::fs::read_to_string(heard).unwrap();
    assert_eq!(heard.matches("alice\n").count(), 1, "{heard}");
    assert_eq!(heard.matches("bob\n").count(), 3, "{heard}");

    // The audit log records requests.
    let audit = json_lines(&std::fs::read_to_string(guarded.file("audit")).unwrap());
    let recorded: Vec<[&str; 3]> =
        audit.iter().map(|line| ["user", "ref", "outcome"].map(|key| line[key].as_str().unwrap())).collect();
    let (main, topic) = ("refs/heads/main", "refs/heads/topic");
    let expect = [
        ["alice", main, "ok"],
        ["alice", main, "alice may not force refs/heads/main"],
        ["alice", main, "alice may not delete refs/heads/main"],
        ["bob", topic, "ok"],
        ["bob", topic, "ok"],
        ["bob", topic, "ok"],
    ];
    assert_eq!(recorded, expect);
    assert_eq!(
        (&audit[0]["repository"], audit[3]["old"].as_str().unwrap()),
        (&"/a.git".into(), "0".repeat(40).as_str())
    );

    // Also through a symbolic ref; an atomic push is refused as a whole.
    let git = Git::stock();
    git.run(&guarded.server.repository(), &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    check("alice", "+HEAD^:refs/heads/alias", "(alice may not force refs/heads/main)");
    let before = git.run(&guarded.server.repository(), &["for-each-ref"]);
    let atomic = ["-C", "clone", "push", "--atomic", &url, "HEAD:refs/heads/new", "+HEAD^:refs/heads/main"];
    guarded.fails("alice", "alice", &atomic, "may not force refs/heads/main");
    assert_eq!(git.run(&guarded.server.repository(), &["for-each-ref"]), before);
}

#[test]
fn a_repository_is_hidden_under_every_name() {
    let guarded = Guarded::start();
    let root = guarded.server.folder.path().join("root");
    // The rules allow everyone to read a.git, which is now a link.
    std::fs::rename(root.join("a.git"), root.join("c.git")).unwrap();
    std::os::unix::fs::symlink("private/b.git", root.join("a.git")).unwrap();
    let get = |path: &str, more: &str| {
        let mut reply =
            guarded.status(&format!("GET {path}/info/refs?service=git-upload-pack HTTP/1.1{more}"));
        reply.headers.retain(|(name, _)| name != "date");
        (reply.status, reply.headers, reply.body)
    };
    for path in ["/a.git", "/private/b.git", "/private/b.git/", "/private/none.git", "/c.git"] {
        let (status, headers, _) = get(path, "");
        assert_eq!(status, 401, "{path}");
        assert!(
            headers.iter().any(|(name, value)| name == "www-authenticate" && value.starts_with("Basic "))
        );
    }
    // bob:bob
    let bob = "\nAuthorization: Basic Ym9iOmJvYg==";
    let hidden = get("/private/b.git", bob);
    assert_eq!(hidden.0, 404);
    for path in ["/a.git", "/private/none.git", "/c.git", "/nothing", "/private/b"] {
        assert_eq!(get(path, bob), hidden, "{path}");
    }
    // git:// has no users.
    let hello = Script::new().data(b"git-upload-pack /private/b.git\0host=h\0\0version=2\0");
    let told = tcp(guarded.server.address("git"), hello.bytes(), Feed::Whole);
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.ends_with("ERR access denied or repository not exported: /private/b.git"), "{told}");
}

/// Whoever may fetch may have bundles, and nobody else learns of them.
#[test]
fn bundles_are_for_those_who_may_fetch() {
    let variables = [("PACKRACE_SERVE_BUNDLES_KEEP", "true"), ("PACKRACE_SERVE_MAINTENANCE_DELAY", "1ms")];
    let guarded = Guarded::start_with(RULES, &variables);
    guarded.clone_and_commit("alice", "private/b.git", "b");
    guarded.works("alice", &["-C", "b", "push", "-q", "origin", "HEAD:main"]);
    let dir = guarded.file("root/private/b.git/packrace-bundles");
    let full = || {
        let entries = std::fs::read_dir(&dir).into_iter().flatten();
        let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.find(|name| name.ends_with("-full.bundle"))
    };
    guarded.server.wait_until("there is a bundle", |_| full().is_some());
    for file in ["list", &full().unwrap()] {
        let head = format!("GET /private/b.git/bundles/{file} HTTP/1.1");
        assert_eq!(guarded.status(&head).status, 401, "{file}");
        // bob:bob and reader:reader
        for (credentials, expect) in [("Ym9iOmJvYg==", 404), ("cmVhZGVyOnJlYWRlcg==", 200)] {
            let reply = guarded.status(&format!("{head}\nAuthorization: Basic {credentials}"));
            assert_eq!(reply.status, expect, "{file}");
        }
    }
    let url = guarded.url("private/b.git");
    let cloned =
        guarded.works("reader", &["-c", "transfer.bundleURI=true", "clone", "-q", &url, "with-bundles"]);
    assert_eq!(said(&cloned), "");
    let refs = guarded.works("", &["-C", "with-bundles", "for-each-ref", "refs/bundles"]);
    assert!(!refs.stdout.is_empty());
}

#[test]
fn whoever_may_read_is_told_why_a_push_is_forbidden() {
    let guarded = Guarded::start();
    let url = guarded.url("private/b.git");
    let push = |user: &str, password: &str| {
        let pushed = guarded.git(user, password, &["-C", "clone", "push", &url, "HEAD:refs/heads/x"]);
        said(&pushed).lines().filter(|line| !line.starts_with("To ")).collect::<Vec<_>>().join("\n")
    };
    guarded.clone_and_commit("alice", "private/b.git", "clone");
    let forbidden = format!("fatal: unable to access '{url}/': The requested URL returned error: 403");
    assert_eq!(push("reader", "reader"), format!("remote: reader may not push here\n{forbidden}"));
    let token = token(&guarded.file("tokens"), &["--read-only"]);
    guarded.server.signal("-HUP");
    let may_only_read = format!("remote: this token may only read\n{forbidden}");
    guarded.server.wait_until("the token", |_| push("x", &token) == may_only_read);
    // Other users learn nothing.
    let missing = push("bob", "bob");
    assert!(missing.contains("remote: Not Found\n") && missing.contains("not found"), "{missing}");
    let head = "GET /private/b.git/info/refs?service=git-receive-pack HTTP/1.1";
    let told = guarded.status(&format!("{head}\nAuthorization: Basic cmVhZGVyOnJlYWRlcg=="));
    assert!(told.headers.contains(&("content-type".to_owned(), "text/plain; charset=utf-8".to_owned())));
    assert_eq!((told.status, told.body.as_slice()), (403, &b"reader may not push here\n"[..]));
}

#[test]
fn names_that_proxies_give_cannot_move_the_cursor() {
    let guarded = Guarded::start_with(&RULES.replace("\"reader\"", "\"users\""), &[]);
    let config = std::fs::read_to_string(guarded.server.config()).unwrap();
    std::fs::write(guarded.server.config(), config.replace("127.0.0.2", "127.0.0.1")).unwrap();
    guarded.server.signal("-HUP");
    let head = "GET /private/b.git/info/refs?service=git-receive-pack HTTP/1.1\nRemote-User: zo";
    let told = |name: &str| guarded.status(&format!("{head}{name}"));
    guarded.server.wait_until("the proxy", |_| told("e").status == 403);
    assert_eq!(told("e").body, b"zoe may not push here\n");
    let told = told("\u{202e}\u{9b}2Jx");
    assert!(!String::from_utf8(told.body).unwrap().contains(['\u{202e}', '\u{9b}']), "{}", told.status);
}

#[test]
fn where_pushes_are_off_the_client_is_told_what_turns_them_on() {
    let server = Server::start(LOOPBACK, &[], &[]);
    let repository = server.repository();
    let url = format!("http://{}/a.git", server.address("http"));
    let push = || {
        let head = ["push", url.as_str(), "HEAD:refs/heads/x"];
        said(&output(Git::stock().command(&repository).args(head)))
    };
    let forbidden = format!("fatal: unable to access '{url}/': The requested URL returned error: 403\n");
    let how = "to enable it, set push.allowed or access.rules";
    let off = "remote: service not enabled: receive-pack is disabled; ";
    assert_eq!(push(), format!("{off}{how}\n{forbidden}"));
    Git::stock().run(&repository, &["config", "http.receivepack", "true"]);
    let but = "http.receivepack in the repository cannot enable it: ";
    assert_eq!(push(), format!("{off}{but}{how}\n{forbidden}"));
    Git::stock().run(&repository, &["config", "http.receivepack", "false"]);
    let on = format!("{LOOPBACK}[push]\nallowed = true\n");
    std::fs::write(server.config(), on).unwrap();
    server.signal("-HUP");
    let words = "remote: service not enabled: the repository sets http.receivepack = false\n";
    server.wait_until("other settings", |_| push() == format!("{words}{forbidden}"));
}

#[test]
fn headers_of_strangers_do_not_count() {
    let guarded = Guarded::start();
    let private = "GET /private/b.git/info/refs?service=git-upload-pack HTTP/1.1";
    assert_eq!(guarded.status(&format!("{private}\nRemote-User: alice")).status, 401);
    assert_eq!(guarded.status(&format!("{private}\nAuthorization: Digest x")).status, 401);
    assert_eq!(guarded.status(&format!("{private}\nAuthorization: Basic %%%")).status, 401);
    let twice = "\nAuthorization: Basic YWxpY2U6YWxpY2U=".repeat(2);
    assert_eq!(guarded.status(&format!("{private}{twice}")).status, 401);
    let long = "x".repeat(12_000);
    assert_eq!(guarded.status(&format!("{private}\nAuthorization: Basic {long}")).status, 401);
    let metrics = "GET /-/metrics HTTP/1.1";
    assert_eq!(guarded.status(metrics).status, 401);
    assert_eq!(guarded.status(&format!("{metrics}\nAuthorization: Basic Ym9iOmJvYg==")).status, 404);
    let root = guarded.status(&format!("{metrics}\nAuthorization: Basic cm9vdDpyb290"));
    let text = String::from_utf8(root.body).unwrap();
    assert!(text.contains("packrace_ignored_user_headers_total 1\n"), "{text}");
    assert!(text.contains("packrace_refusals_total{reason=\"unauthenticated\"} 6\n"), "{text}");
    assert_eq!(guarded.status("GET /-/healthz HTTP/1.1").status, 200);

    // An address that guesses passwords is refused for a while; a password that was right is still accepted.
    let with =
        |credentials: &str| guarded.status(&format!("{private}\nAuthorization: Basic {credentials}")).status;
    assert_eq!(with("YWxpY2U6YWxpY2U="), 200);
    let guesses: Vec<u16> = (0..40).map(|_| with("YWxpY2U6Z3Vlc3M=")).collect();
    assert_eq!((guesses[0], guesses[39]), (401, 429), "{guesses:?}");
    assert_eq!(with("YWxpY2U6YWxpY2U="), 200);
    let refused = guesses.iter().filter(|status| **status == 429).count();
    let root = guarded.status(&format!("{metrics}\nAuthorization: Basic cm9vdDpyb290"));
    let text = String::from_utf8(root.body).unwrap();
    let counted = format!("packrace_refusals_total{{reason=\"per-address\"}} {refused}\n");
    assert!(text.contains(&counted), "{text}");
}

#[test]
fn a_proxy_says_who_the_user_is() {
    let guarded = Guarded::start();
    let config = std::fs::read_to_string(guarded.server.config()).unwrap();
    std::fs::write(guarded.server.config(), config.replace("127.0.0.2", "127.0.0.1")).unwrap();
    guarded.server.signal("-HUP");
    let private = "GET /private/b.git/info/refs?service=git-upload-pack HTTP/1.1";
    let as_user =
        |user: &str| guarded.status(&format!("{private}\nRemote-User: {user}\nX-Forwarded-For: 192.0.2.7"));
    guarded.server.wait_until("the proxy", |_| as_user("alice").status == 200);
    assert_eq!(as_user("bob").status, 404);
    let twice = guarded.status(&format!("{private}\nRemote-User: alice\nRemote-User: bob"));
    assert_eq!(twice.status, 401);
    let log = guarded.server.log();
    assert!(log.contains("peer=192.0.2.7:0 user=\"alice\""), "{log}");
}

#[test]
fn clients_of_a_proxy_are_known_without_rules() {
    let server = Server::start(&format!("{LOOPBACK}[access]\ntrusted-proxies = [\"127.0.0.1\"]\n"), &[], &[]);
    let get = format!("GET {MAY_PUSH} HTTP/1.1\nX-Forwarded-For: 198.51.100.1, 192.0.2.7");
    assert_eq!(http(server.address("http"), &get, b"", Feed::Whole).status, 403);
    server.wait_until("the address", |server| server.log().contains("peer=192.0.2.7:0"));
}

#[test]
fn rules_are_read_again_and_mistakes_change_nothing() {
    let guarded = Guarded::start();
    let url = guarded.url("a.git");
    let may_read = || guarded.git("", "", &["ls-remote", "--quiet", &url]).status.success();
    assert!(may_read());
    let rules = guarded.file("rules");
    std::fs::write(&rules, "[[rule]]\nrepository = \"a.git\"\nwho = \"anyone\"\n").unwrap();
    guarded.server.signal("-HUP");
    let words = format!(
        "reload failed, settings unchanged: {}:1:1: a rule needs either allow or deny, not both",
        rules.display()
    );
    guarded.server.wait_until("the complaint", |server| server.log().contains(&words));
    assert!(may_read());
    // An editor replaces the file.
    std::fs::write(
        guarded.file("rules.new"),
        "[[rule]]\nrepository = \"**\"\nwho = \"alice\"\nallow = [\"read\"]\n",
    )
    .unwrap();
    std::fs::rename(guarded.file("rules.new"), &rules).unwrap();
    guarded.server.signal("-HUP");
    guarded.server.wait_until("other rules", |_| !may_read());
    guarded.works("alice", &["ls-remote", "--quiet", &url]);
}

#[test]
fn what_is_not_safe_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("rules"), RULES).unwrap();
    std::fs::write(path("users"), hash("a", "b")).unwrap();
    let check = |settings: &[&str], expect: &str| {
        let mut command = packrace();
        command.arg("serve").arg(folder.path());
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let refused = output(&mut command);
        assert_eq!(said(&refused), format!("fatal: {expect}\n"), "{settings:?}");
        assert_eq!(refused.status.code(), Some(128), "{settings:?}");
    };
    let rules = format!("access.rules={}", path("rules"));
    let users = format!("access.users={}", path("users"));
    let mode = "permissions 0644 are too open: others can read it; try chmod 600";
    set_mode(&path("users"), 0o644);
    check(&[&rules, &users], &format!("{}: {mode}", path("users")));
    write_secret(Path::new(&path("users")), "a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    let weak = "a: hash is neither bcrypt nor argon2; create it with htpasswd -B or packrace access hash";
    check(&[&rules, &users], &format!("{}:1: {weak}", path("users")));
    check(&[&users], "access.users: needs access.rules");
    let groups = "access.groups-header=Remote-Groups";
    let forward = "access.forward-auth=http://127.0.0.1:1/";
    check(&[forward], "access.forward-auth: needs access.rules");
    let words = "access.forward-auth: cannot be combined with access.users: remove one of them";
    check(&[&rules, forward, &users], words);
    let words = "--set access.forward-auth=https://a/: \"https://a/\" is not an http:// URL without a user, or \"none\"";
    check(&[&rules, "access.forward-auth=https://a/"], words);
    check(&[&rules, groups], "access.groups-header: needs access.user-header");
    check(&[&rules, "access.client-certificates=true"], "access.client-certificates: needs tls.client-ca");
    let header = "access.user-header=Remote-User";
    check(
        &[&rules, header],
        "access.user-header: needs access.trusted-proxies: otherwise any client could set it",
    );
    let made = Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    let pipe = format!("access.rules={}", path("pipe"));
    check(&[&pipe], &format!("{}: not a regular file", path("pipe")));
    let missing = format!("access.rules={}", path("none"));
    check(&[&missing], &format!("{}: No such file or directory", path("none")));
}

pub(super) fn set_mode(path: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_deciding_rule_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, RULES).unwrap();
    let check = |args: &[&str], expect: &str, code: i32| {
        let explained = output(packrace().args(["access", "check", "--rules"]).arg(&rules).args(args));
        let text = String::from_utf8_lossy(&explained.stdout).replace(&rules.display().to_string(), "rules");
        assert_eq!(
            (text.as_str(), explained.status.code()),
            (format!("{expect}\n").as_str(), Some(code)),
            "{args:?}"
        );
    };
    check(&["anyone", "a.git", "read"], "allowed by the rule at rules:7", 0);
    check(&["alice", "a.git", "force", "refs/heads/main"], "denied by the rule at rules:12", 1);
    check(&["alice", "a.git", "force", "refs/heads/x"], "allowed by the rule at rules:18", 0);
    check(&["bob", "private/b.git", "read"], "denied: no rule of rules matches", 1);
    let unknown = output(packrace().args(["access", "check", "--rules", "x", "a", "b", "fly"]));
    assert_eq!(unknown.status.code(), Some(129), "{}", said(&unknown));
}

#[test]
fn a_push_makes_only_what_the_rules_allow() {
    let limited = "\n[[rule]]\nrepository = \"new/**\"\nwho = \"bob\"\nallow = [\"write\", \"create\"]\nrefs = \"refs/heads/**\"\n\n[[rule]]\nrepository = \"open/**\"\nwho = \"bob\"\nallow = [\"write\", \"create\"]\n";
    let variables = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "packrace.createOnPush"),
        ("GIT_CONFIG_VALUE_0", "true"),
    ];
    let guarded = Guarded::start_with(&format!("{RULES}{limited}"), &variables);
    let root = guarded.server.folder.path().join("root");
    std::fs::create_dir(root.join("new")).unwrap();
    std::fs::create_dir(root.join("open")).unwrap();
    guarded.clone_and_commit("alice", "a.git", "clone");
    let push = |user: &str, path: &str| {
        let url = guarded.url(path);
        said(&guarded.git(user, user, &["-C", "clone", "push", "--quiet", &url, "HEAD:refs/heads/main"]))
    };
    assert_eq!(push("alice", "private/made.git"), "");
    assert!(root.join("private/made.git/HEAD").exists());
    // A user who may create refs may still not create repositories.
    assert!(push("bob", "new/made.git").contains("not found"));
    assert!(push("bob", "private/other.git").contains("not found"));
    assert!(push("", "private/other.git").contains("could not read Username"));
    // A link to a folder where creation is allowed to others does not help.
    std::os::unix::fs::symlink("../private", root.join("open/link")).unwrap();
    assert_eq!(push("bob", "open/made.git"), "");
    assert!(push("bob", "open/link/other.git").contains("not found"));
    assert!(!root.join("new/made.git").exists() && !root.join("private/other.git").exists());
}
