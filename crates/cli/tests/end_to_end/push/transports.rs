//! Pushes over every transport, by clients of both versions.

use packrace_testkit::peer::{self, Feed};
use packrace_testkit::{Git, reachable_objects};

use super::{OPEN, Pair, check_sound, commands, refs_of, said, text};
use crate::running::{PACKRACE, Server, packrace};

/// Steps of a client, and whether git allows them.
const STEPS: [(&[&str], bool); 9] = [
    (&["HEAD~1:refs/heads/main", "HEAD:refs/heads/topic"], true),
    (&["HEAD:refs/heads/main", "v1"], true),
    (&["HEAD~1:refs/heads/main"], false),
    (&["--force", "HEAD~1:refs/heads/main", ":refs/heads/topic"], true),
    (&["--atomic", "HEAD:refs/heads/main", "HEAD:refs/heads/main/below"], false),
    (&["--atomic", "HEAD:refs/heads/main", "HEAD:refs/heads/other"], true),
    (&["--delete", "refs/heads/other"], true),
    (&["--all", "--quiet"], true),
    (&["--mirror"], true),
];

fn check(options: &[&str], git: &Git, transport: &str) {
    let pair = Pair::with(options);
    git.run(&pair.work(), &["tag", "-a", "-m", "tag", "v1"]);
    let server = Server::start_that(pair.root(), &OPEN, &[]);
    let program = format!("--receive-pack={PACKRACE} receive-pack");
    let url = match transport {
        "http" | "chunked" => format!("http://{}/srv.git", server.http),
        "git" => format!("git://{}/srv.git", server.git),
        _ => "../srv.git".to_owned(),
    };
    if transport == "chunked" {
        git.run(&pair.work(), &["config", "http.postBuffer", "65536"]);
        let noise = packrace_testkit::Random::new(7).bytes(300_000);
        std::fs::write(pair.work().join("noise"), noise).unwrap();
        pair.commit("big");
    }
    for (step, is_fine) in STEPS {
        let fixed = if transport == "stdio" { vec![program.as_str(), &url] } else { vec![url.as_str()] };
        let output = pair.push_with(git, &[&fixed, step].concat());
        assert_eq!(output.status.success(), is_fine, "{transport} {step:?}\n{}", said(&output));
        pair.check_sound();
    }
    let heads = |dir| Git::stock().run(dir, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    assert_eq!(pair.refs(), heads(&pair.work()));
    assert_eq!(
        reachable_objects(Git::stock(), &pair.server()),
        reachable_objects(Git::stock(), &pair.work()),
        "{transport}"
    );
}

#[test]
fn every_door_takes_pushes() {
    for git in [Some(Git::stock()), Git::old()].into_iter().flatten() {
        for transport in ["stdio", "http", "chunked", "git"] {
            check(&[], git, transport);
        }
    }
}

#[test]
fn every_format_takes_pushes() {
    check(&["--object-format=sha256"], Git::stock(), "stdio");
    check(&["--object-format=sha256"], Git::stock(), "http");
    check(&["--ref-format=reftable"], Git::stock(), "stdio");
    check(&["--ref-format=reftable"], Git::stock(), "git");
}

#[test]
fn called_by_the_name_of_git() {
    let pair = Pair::new();
    let link = pair.root().join("git-receive-pack");
    std::os::unix::fs::symlink(PACKRACE, &link).unwrap();
    let program = format!("--receive-pack={}", link.display());
    let output = pair.push_with(Git::stock(), &[&program, "../srv.git", "HEAD:refs/heads/new"]);
    assert!(output.status.success(), "{}", said(&output));
    let usage = packrace(pair.root(), &["receive-pack", "--frotz", "srv.git"], "");
    assert_eq!(usage.status.code(), Some(129));
    assert!(text(&usage.stderr).starts_with("error: unknown option `frotz'"), "{}", text(&usage.stderr));
}

#[test]
fn who_may_push() {
    let pair = Pair::new();
    let try_both = |server: &Server, expect: bool| {
        for url in [format!("http://{}/srv.git", server.http), format!("git://{}/srv.git", server.git)] {
            let output = pair.push_with(Git::stock(), &[&url, "+HEAD:refs/heads/x"]);
            assert_eq!(output.status.success(), expect, "{url}\n{}", said(&output));
        }
    };
    // The configuration of a repository cannot allow pushes.
    try_both(&Server::start(pair.root()), false);
    try_both(&Server::start_that(pair.root(), &OPEN, &[]), true);
    try_both(&Server::start_that(pair.root(), &OPEN, &["--read-only", "--allow-push"]), false);
    pair.config(&[("http.receivepack", "false"), ("daemon.receivepack", "false")]);
    try_both(&Server::start_that(pair.root(), &OPEN, &[]), false);
    try_both(&Server::start_that(pair.root(), &[], &["--allow-push"]), false);
    for name in ["http.receivepack", "daemon.receivepack"] {
        Git::stock().run(&pair.server(), &["config", "--unset", name]);
    }
    let server = Server::start(pair.root());
    try_both(&server, false);
    let get = "GET /srv.git/info/refs?service=git-receive-pack HTTP/1.1";
    assert_eq!(peer::http(server.http, get, b"", Feed::Whole).status, 403);
    let output = pair.push_with(Git::stock(), &[&format!("git://{}/srv.git", server.git), "HEAD:x"]);
    assert!(said(&output).contains("remote error: access denied or repository not exported: /srv.git"));
    try_both(&Server::start_that(pair.root(), &[], &["--allow-push"]), true);
}

#[test]
fn pushes_make_repositories_where_that_is_configured() {
    let pair = Pair::new();
    let settings = ["packrace.createOnPush=true", "init.defaultBranch=trunk"];
    let server = Server::start_that(pair.root(), &settings, &["--allow-push"]);
    let push = |url: &str| pair.push_with(Git::stock(), &[url, "HEAD:refs/heads/trunk"]);
    for (url, path) in [
        (format!("http://{}/new.git", server.http), "new.git"),
        (format!("git://{}/other.git", server.git), "other.git"),
    ] {
        let output = push(&url);
        assert!(output.status.success(), "{}", said(&output));
        let made = pair.root().join(path);
        assert_eq!(refs_of(&made), format!("refs/heads/trunk {}\n", pair.id("HEAD")));
        assert_eq!(Git::stock().run(&made, &["symbolic-ref", "HEAD"]), "refs/heads/trunk\n");
        check_sound(&made);
    }
    for path in ["fresh", "a/new.git", "srv.git/new.git", "srv.git/refs/x.git", "../new.git", "work.git/"] {
        let url = format!("git://{}/{path}", server.git);
        let is_made = path == "work.git/";
        assert_eq!(push(&url).status.success(), is_made, "{path}");
        assert_eq!(pair.root().join(path).join("HEAD").exists(), is_made, "{path}");
    }
    // A client that only reads, only gets the advertisement, or sends no command does not create a
    // repository.
    let get = "/no.git/info/refs?service=git-receive-pack HTTP/1.1";
    let answer = peer::http(server.http, &format!("GET {get}"), b"", Feed::Whole);
    assert!(text(&answer.body).contains(&format!("{} capabilities^{{}}\0report-status", super::ZERO)));
    assert_eq!(peer::http(server.http, &format!("HEAD {get}"), b"", Feed::Whole).status, 200);
    let post = "POST /no.git/git-receive-pack HTTP/1.1\nContent-Type: application/x-git-receive-pack-";
    assert_eq!(peer::http(server.http, &format!("{post}request"), b"0000", Feed::Whole).status, 200);
    for body in ["", "00"] {
        assert_eq!(
            peer::http(server.http, &format!("{post}request"), body.as_bytes(), Feed::Whole).status,
            404
        );
    }
    assert_eq!(peer::http(server.http, &format!("{post}x"), b"0077", Feed::Whole).status, 415);
    let hello = packrace_testkit::peer::Script::new().data(b"git-receive-pack /no.git\0host=h\0").flush();
    let answer = peer::tcp(server.git, hello.bytes(), Feed::Whole);
    assert!(text(&answer).contains(" capabilities^{}\0report-status"), "{}", text(&answer));
    assert!(!pair.root().join("no.git").exists());
    let output = Git::stock()
        .command(pair.root())
        .args(["ls-remote", &format!("http://{}/no.git", server.http)])
        .output();
    assert!(!output.unwrap().status.success());
    assert!(!pair.root().join("no.git").exists());
    let server = Server::start_that(pair.root(), &[], &["--allow-push"]);
    assert!(!push(&format!("http://{}/no.git", server.http)).status.success());
    assert!(!pair.root().join("no.git").exists());
}

#[test]
fn http_as_clients_speak_it() {
    let pair = Pair::new();
    let server = Server::start_that(pair.root(), &OPEN, &[]);
    let post = |body: &[u8], headers: &str| {
        let head =
            format!("POST /srv.git/git-receive-pack HTTP/1.1\nContent-Length: {}\n{headers}", body.len());
        peer::http(server.http, &head, body, Feed::Whole)
    };
    let request = "Content-Type: application/x-git-receive-pack-request\n";
    // The probe by which git finds out whether it may send a long body.
    let probe = post(b"0000", request);
    assert_eq!((probe.status, probe.body.as_slice()), (200, &b""[..]));
    assert_eq!(probe.header("content-type"), Some("application/x-git-receive-pack-result"));
    assert_eq!(post(b"0000", "Content-Type: text/plain\n").status, 415);
    assert_eq!(post(b"0000", &format!("{request}Content-Encoding: br\n")).status, 415);
    assert_eq!(post(b"", request).status, 400);
    let zero = super::ZERO;
    let gone = format!("{zero} {zero} refs/heads/nothing");
    let answer = post(commands("report-status", &[&gone]).bytes(), request);
    assert_eq!(text(&answer.body), "000eunpack ok\n001aok refs/heads/nothing\n0000");
    let answer = post(&gzip(&pair), &format!("{request}Content-Encoding: gzip\n"));
    assert_eq!(text(&answer.body), "000eunpack ok\n0019ok refs/heads/zipped\n0000");
    let get = "GET /srv.git/info/refs?service=git-receive-pack HTTP/1.1";
    let answer = peer::http(server.http, get, b"", Feed::Whole);
    assert!(answer.body.starts_with(b"001f# service=git-receive-pack\n0000"));
    assert_eq!(answer.header("content-type"), Some("application/x-git-receive-pack-advertisement"));
}

/// A push, gzipped.
fn gzip(pair: &Pair) -> Vec<u8> {
    let line = format!("{} {} refs/heads/zipped", super::ZERO, pair.id("HEAD"));
    let pack = pair.pack(&format!("{}\n", pair.id("HEAD")));
    let script = commands("report-status", &[&line]).raw(&pack);
    let mut command = std::process::Command::new("gzip");
    super::fed(&mut command, script.bytes()).stdout
}

#[test]
fn namespaces() {
    let pair = Pair::new();
    Git::stock().run(&pair.server(), &["update-ref", "refs/namespaces/n/refs/heads/old", &pair.id("HEAD~2")]);
    let server = Server::start_that(pair.root(), &OPEN, &[]);
    let url = format!("http://{}/srv.git", server.http);
    let own = Server::start_namespace(pair.root(), "n");
    let namespaced = format!("git://{}/srv.git", own.git);
    let output = pair.push_with(Git::stock(), &[&namespaced, "HEAD:refs/heads/new", ":refs/heads/old"]);
    assert!(output.status.success(), "{}", said(&output));
    let refs = pair.refs();
    assert!(refs.contains("refs/namespaces/n/refs/heads/new"), "{refs}");
    assert!(!refs.contains("refs/namespaces/n/refs/heads/old"), "{refs}");
    let listed = Git::stock().run(pair.root(), &["ls-remote", &url]);
    assert!(listed.contains("refs/namespaces/n/refs/heads/new"), "{listed}");
}

#[test]
fn what_alternates_have_needs_not_be_sent() {
    let pair = Pair::new();
    let git = Git::stock();
    git.run(pair.root(), &["clone", "-q", "--bare", "work", "other.git"]);
    git.run(pair.root(), &["init", "-q", "--bare", "fork.git"]);
    let line = format!("{}\n", pair.root().join("other.git/objects").display());
    std::fs::write(pair.root().join("fork.git/objects/info/alternates"), line).unwrap();
    let run = |program: &str, settings: &[&str]| {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        let arguments = [&settings[..], &["receive-pack", "--http-backend-info-refs", "fork.git"]].concat();
        let output = match program {
            "packrace" => packrace(pair.root(), &arguments, ""),
            _ => git.command(pair.root()).args(&arguments).output().unwrap(),
        };
        let lines = text(&output.stdout).replace('\0', "\n");
        lines
            .lines()
            .map(|line| line[4..].to_owned())
            .filter(|line| !line.contains("agent="))
            .collect::<Vec<_>>()
    };
    let have = format!("{} .have", pair.id("HEAD"));
    assert_eq!(run("packrace", &[]), [have.as_str(), ""]);
    for settings in [
        &[][..],
        &["core.alternateRefsPrefixes=refs/heads/main"],
        &["core.alternateRefsPrefixes=refs/tags"],
        &["core.alternateRefsCommand=git -C ../other.git rev-parse HEAD~1; :"],
    ] {
        assert_eq!(run("packrace", settings), run("git", settings), "{settings:?}");
    }
}
