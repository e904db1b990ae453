//! Input from unauthenticated clients, and responses to it: clients cannot forge lines of the log, and see no
//! local paths.

use packrace_testkit::write_program;

use super::*;

/// A pack without objects.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

pub const PUSHING: &str = "[listen]\nhttp = \"127.0.0.1:0\"\ngit = \"127.0.0.1:0\"\n[push]\nallowed = true\n";

/// A request that creates a ref in `a.git` at `HEAD`, with these capabilities and push options.
pub fn push_of(server: &Server, name: &str, capabilities: &str, options: &[&[u8]]) -> Vec<u8> {
    let tip = Git::stock().run(&server.repository(), &["rev-parse", "HEAD"]);
    let line = format!("{:040} {} {name}\0{capabilities}", 0, tip.trim());
    let mut script = Script::new().data(line.as_bytes()).flush();
    if !options.is_empty() {
        script = options.iter().fold(script, |script, option| script.data(option)).flush();
    }
    script.raw(EMPTY_PACK).bytes().to_vec()
}

pub fn post(server: &Server, path: &str, service: &str, body: &[u8]) -> String {
    let head =
        format!("POST {path}/git-{service} HTTP/1.1\nContent-Type: application/x-git-{service}-request");
    let protocol = if service == "upload-pack" { "\nGit-Protocol: version=2" } else { "" };
    let reply = http(server.address("http"), &format!("{head}{protocol}"), body, Feed::Whole);
    String::from_utf8_lossy(&reply.body).into_owned()
}

pub fn push(server: &Server, name: &str) -> String {
    let body = push_of(server, name, "report-status side-band-64k", &[]);
    post(server, "/a.git", "receive-pack", &body)
}

pub fn refs(server: &Server) -> String {
    Git::stock().run(&server.repository(), &["for-each-ref", "--format=%(refname)", "refs/heads/new*"])
}

#[test]
fn options_that_no_hook_could_be_told_end_the_push() {
    let server = Server::start(PUSHING, &[], &[]);
    Git::stock().run(&server.repository(), &["config", "receive.advertisePushOptions", "true"]);
    let hook_output = server.repository().join("told");
    write_program(
        &server.repository().join("hooks/post-receive"),
        "#!/bin/sh\nenv | grep GIT_PUSH_OPTION >told\n",
    );
    let capabilities = "report-status side-band-64k push-options";
    let body = push_of(&server, "refs/heads/new", capabilities, &[b"a\0b"]);
    let answer = post(&server, "/a.git", "receive-pack", &body);
    assert!(answer.contains("protocol error: push option with a NUL: 'a?b'"), "{answer}");
    assert_eq!((refs(&server).as_str(), hook_output.exists()), ("", false));
    let body = push_of(&server, "refs/heads/new", capabilities, &[b"a b"]);
    let answer = post(&server, "/a.git", "receive-pack", &body);
    assert!(answer.contains("unpack ok"), "{answer}");
    server.wait_until("what the hook was told", |_| hook_output.exists());
    assert_eq!(refs(&server), "refs/heads/new\n");
    assert!(server.log().contains("push option with a NUL"), "{}", server.log());
}

#[test]
fn nobody_else_writes_lines_of_the_log() {
    const FORGED: &str = "2026-01-01T00:00:00.000000Z  INFO made etc-x";
    let hook = format!("#!/bin/sh\nprintf '%s\\n\\033[2J\\302\\2332J\\r%s\\n' '{FORGED}' '{FORGED}'\n");
    let create = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "packrace.createOnPush"),
        ("GIT_CONFIG_VALUE_0", "true"),
    ];
    for format in ["text", "json"] {
        let config = format!("{PUSHING}[log]\nlevel = \"debug\"\nformat = \"{format}\"\n");
        let server = Server::start(&config, &[], &create);
        write_program(&server.repository().join("hooks/post-receive"), &hook);
        let forged = FORGED.replace(' ', "%20");
        for path in [format!("/x%0a{forged}"), format!("/y%0a{forged}%1b%5b2J%c2%9b%7f.git")] {
            server.get(&format!("{path}/info/refs?service=git-upload-pack"));
            post(&server, &path, "receive-pack", b"0000");
        }
        // Without side-band, output of hooks goes to the log.
        let body = push_of(&server, "refs/heads/new", "report-status", &[]);
        post(&server, "/a.git", "receive-pack", &body);
        let request = format!("git-upload-pack /z\n{FORGED}\x1b[2J\0host=h\0");
        let request = Script::new().data(request.as_bytes());
        tcp(server.address("git"), request.bytes(), Feed::Whole);
        server.wait_until("what the hook says", |server| server.log().matches("made etc-x").count() >= 6);
        for line in server.log().lines() {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            match format {
                "json" => assert!(
                    line.is_ascii() && serde_json::from_str::<serde_json::Value>(line).is_ok(),
                    "{line}"
                ),
                _ => assert!(line.starts_with("20") && !line.starts_with("2026-01-01T00:00:00.0"), "{line}"),
            }
        }
    }
}

/// Damages a part of a repository; the damage is undone later.
struct Damage {
    what: &'static str,
    path: &'static str,
    /// The replacement; `None` for a directory.
    content: Option<&'static str>,
}

const fn damage(what: &'static str, path: &'static str, content: Option<&'static str>) -> Damage {
    Damage { what, path, content }
}

const DAMAGES: [Damage; 9] = [
    damage("a lock", "refs/heads/new.lock", Some("")),
    damage("a directory for a ref", "refs/heads/new/x.lock", Some("")),
    damage("a file for objects", "objects/pack", Some("")),
    damage("a hook without interpreter", "hooks/pre-receive", Some("#!/nowhere/sh\n")),
    damage("an update hook without interpreter", "hooks/update", Some("#!/nowhere/sh\n")),
    damage("no packed refs", "packed-refs", Some("nonsense\n")),
    damage("a directory for packed refs", "packed-refs", None),
    damage("a broken HEAD", "HEAD", Some("nonsense\n")),
    damage("broken configuration", "config", Some("[core\n")),
];

#[test]
fn clients_see_no_paths_of_this_machine() {
    // Caches are off: they would hide the damage.
    let server = Server::start(
        PUSHING,
        &["--set", "cache.enabled=false", "--set", "repository-cache.enabled=false"],
        &[],
    );
    let tip = Git::stock().run(&server.repository(), &["rev-parse", "HEAD"]);
    let folder = server.folder.path().to_str().unwrap().to_owned();
    let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], &[]).bytes().to_vec();
    let body = push_of(&server, "refs/heads/new", "report-status side-band-64k", &[]);
    let plain = push_of(&server, "refs/heads/new", "report-status", &[]);
    let check = |what: &str| {
        let hello = |service: &str, rest: &[u8]| {
            let line = format!("git-{service} /a.git\0host=h\0");
            [Script::new().data(line.as_bytes()).bytes(), rest].concat()
        };
        let answers = [
            post(&server, "/a.git", "receive-pack", &body),
            post(&server, "/a.git", "receive-pack", &plain),
            post(&server, "/a.git", "upload-pack", &fetch),
            String::from_utf8_lossy(&server.get(MAY_PUSH).body).into_owned(),
            String::from_utf8_lossy(&tcp(server.address("git"), &hello("receive-pack", &body), Feed::Whole))
                .into(),
            String::from_utf8_lossy(&tcp(server.address("git"), &hello("upload-pack", b"0000"), Feed::Whole))
                .into(),
        ];
        for answer in &answers {
            assert!(!answer.contains(&folder), "{what}: {answer}");
            assert!(!answer.contains("panicked"), "{what}: {answer}");
        }
        answers
    };
    for Damage { what, path, content } in DAMAGES {
        let path = server.repository().join(path);
        let kept = path.with_extension("kept");
        let _ = std::fs::rename(&path, &kept);
        match content {
            Some(text) => write_program(&path, text),
            None => std::fs::create_dir(&path).unwrap(),
        }
        let answers = check(what);
        assert!(!answers[0].contains("ok refs/heads/new"), "{what}: {}", answers[0]);
        assert_eq!(
            Git::stock().command(&server.repository()).args(["log", "-1", "new"]).output().unwrap().stdout,
            b""
        );
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        let _ = std::fs::remove_dir(server.repository().join("refs/heads/new"));
        let _ = std::fs::rename(&kept, &path);
    }
    // All objects are damaged.
    let packs = server.repository().join("objects/pack");
    for entry in std::fs::read_dir(packs)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension() == Some("pack".as_ref()))
    {
        let mut pack = std::fs::read(entry.path()).unwrap();
        pack[12..].fill(0xff);
        std::fs::remove_file(entry.path()).unwrap();
        std::fs::write(entry.path(), pack).unwrap();
    }
    let answers = check("damaged packs");
    assert!(!answers[2].contains("PACK"), "{}", answers[2]);
    // The operator sees them.
    let log = server.log();
    assert!(log.contains(&folder), "{log}");
    assert!(log.contains("a.git/hooks/pre-receive': No such file"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}
