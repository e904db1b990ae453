//! Features of version 2 in combination, and with invalid names and damaged repositories.

use std::process::Command;

use packrace_testkit::peer::{Feed, Reply, Script, stdio};
use packrace_testkit::received::{Packet, fetch_answer, packets};
use packrace_testkit::{Git, Loose, Repo, RepoBuilder, Size, Storage, reachable_objects};

use crate::matrix::{TRANSPORTS, Transport, server_command, succeed};
use crate::running::{Server, answer_to, upload_pack};

fn configured(storage: Storage, config: &[(&str, &str)]) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    for (name, value) in config {
        repo.git(&["config", "--add", name, value]);
    }
    repo
}

fn fetch(repo: &Repo, arguments: &[&str]) -> Reply {
    let script = Script::new().line("command=fetch").line("object-format=sha1").delim().line("no-progress");
    let script = arguments.iter().fold(script, |script, line| script.line(line)).flush();
    stdio(upload_pack(repo.path(), 2).arg("--stateless-rpc"), script.bytes(), Feed::Whole)
}

/// The blobs that a partial clone requests by name are reachable from refs.
#[test]
fn partial_clones_where_wants_must_be_reachable() {
    let config = [("uploadpack.allowFilter", "true"), ("packrace.requireReachableWants", "true")];
    let repo = configured(Storage::default(), &config);
    let server = Server::start(repo.path().parent().unwrap());
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    for transport in TRANSPORTS {
        let url = match transport {
            Transport::Http => format!("http://{}/{name}", server.http),
            Transport::GitDaemon => format!("git://{}/{name}", server.git),
            Transport::UploadPack | Transport::Stock => format!("file://{}", repo.path().display()),
        };
        for (filter, version) in [("blob:none", "2"), ("tree:0", "2"), ("blob:none", "0")] {
            // In version 0, the client requests unadvertised objects only if it is told that it may.
            let is_v0 = if version == "0" { "true" } else { "false" };
            repo.git(&["config", "uploadpack.allowReachableSHA1InWant", is_v0]);
            let dir = packrace_testkit::scratch_dir();
            let git = |args: &[&str]| -> Command {
                let mut command = Git::stock().command(dir.path());
                command.args(["-c", &format!("protocol.version={version}"), "-c", "gc.auto=0"]).args(args);
                command
            };
            let mut clone = git(&["clone", "-q", &format!("--filter={filter}")]);
            clone.args(server_command(transport).map(|server| format!("--upload-pack={server}")));
            // Checking files out fetches the blobs that it needs.
            let what = format!("{filter} over {transport:?}, version {version}");
            succeed(clone.args([&url, "c"]), &what);
            let old = repo.git(&["rev-parse", "main~5"]);
            succeed(git(&["-C", "c", "checkout", "-q"]).arg(old.trim()), &what);
            let status = succeed(&mut git(&["-C", "c", "status", "--porcelain"]), &what);
            assert_eq!(status, "", "{what}");
        }
    }
}

#[test]
fn uris_of_what_a_filter_leaves_out_are_not_told() {
    let repo = configured(Storage::default(), &[("uploadpack.allowFilter", "true")]);
    let listing = repo.git(&["ls-tree", "-r", "-l", "main"]);
    let mut blobs: Vec<(u64, &str)> = listing
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields[1] == "blob")
        .map(|fields| (fields[3].parse().unwrap(), fields[2]))
        .collect();
    blobs.sort_unstable();
    let ((_, small), (large_bytes, large)) = (blobs[0], blobs[blobs.len() - 1]);
    for (blob, number) in [(small, "1"), (large, "2")] {
        let value = format!("{blob} {} https://a.example/{number}", number.repeat(40));
        repo.git(&["config", "--add", "uploadpack.blobPackfileUri", &value]);
    }
    let main = repo.git(&["rev-parse", "main"]);
    let offered = |filter: &[&str]| {
        let want = format!("want {}", main.trim());
        let reply = fetch(&repo, &[filter, &[&want, "packfile-uris https", "done"]].concat());
        let lines = fetch_answer(&reply.stdout).unwrap().lines;
        lines.iter().filter_map(|line| line.rsplit_once('/')).map(|(_, number)| number.to_owned()).collect()
    };
    let check = |filter: &[&str], expect: &[&str]| {
        let offered: Vec<String> = offered(filter);
        assert_eq!(offered, expect, "{filter:?}");
    };
    check(&[], &["1", "2"]);
    check(&["filter blob:none"], &[]);
    check(&["filter tree:0"], &[]);
    check(&[&format!("filter blob:limit={large_bytes}")], &["1"]);
}

#[test]
fn names_that_are_not_utf8() {
    let repo = configured(Storage::default(), &[("uploadpack.allowRefInWant", "true")]);
    let main = repo.git(&["rev-parse", "main"]);
    let line = [main.trim().as_bytes(), b" refs/heads/\xff\xfe\n"].concat();
    let packed = [b"# pack-refs with: sorted \n".as_slice(), &line].concat();
    std::fs::write(repo.path().join("packed-refs"), packed).unwrap();
    let ask = |name: &[u8]| {
        let script = Script::new().line("command=fetch").delim().line("no-progress");
        let script = script.data(&[b"want-ref ", name, b"\n"].concat()).line("done").flush();
        answer_to(repo.path(), 2, script.bytes(), Feed::ByteByByte)
    };
    let reply = ask(b"refs/heads/\xff\xfe");
    assert!(reply.status.success(), "{}", reply.stderr);
    assert!(packets(&reply.stdout).unwrap().contains(&Packet::Data(&line)));
    for name in [&b"refs/heads/\xff"[..], b"refs/heads/\0", b"\n", b"refs/heads/a\x1b[2J", &[b'n'; 65_400]] {
        let reply = ask(name);
        assert_eq!(reply.status.code(), Some(128));
        assert!(reply.stderr.starts_with("fatal: unknown ref "), "{}", reply.stderr);
        assert!(!reply.stderr.contains('\u{1b}') && reply.stderr.len() < 8192, "{}", reply.stderr);
    }
}

/// The pack is planned before its section begins, so there is no side-band yet to report damage.
#[test]
fn damage_that_is_found_while_uris_are_chosen() {
    let config = [("uploadpack.allowSidebandAll", "true")];
    let repo = configured(Storage { loose: Loose::All, ..Storage::default() }, &config);
    let listing = repo.git(&["ls-tree", "-r", "main"]);
    let blobs: Vec<&str> = listing.lines().map(|line| line.split([' ', '\t']).nth(2).unwrap()).collect();
    let (offered, lost) = (blobs[0], blobs[blobs.len() - 1]);
    assert_ne!(offered, lost);
    let value = format!("{offered} {} https://a.example/x", "7".repeat(40));
    repo.git(&["config", "uploadpack.blobPackfileUri", &value]);
    let want = format!("want {}", repo.git(&["rev-parse", "main"]).trim());
    std::fs::remove_file(repo.path().join("objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    let words = "aborting due to possible repository corruption on the remote side.";
    for (sideband_all, mark) in [(&[][..], "ERR "), (&["sideband-all"], "\u{3}")] {
        let reply = fetch(&repo, &[sideband_all, &[&want, "packfile-uris https", "done"]].concat());
        assert_eq!(reply.status.code(), Some(128));
        assert!(reply.stderr.contains(&format!("unable to read {lost}")), "{}", reply.stderr);
        let message = format!("{mark}{words}");
        assert_eq!(packets(&reply.stdout).unwrap(), [Packet::Data(message.as_bytes())]);
    }
    // Stock git shows it to its user.
    let dir = packrace_testkit::scratch_dir();
    let mut clone = Git::stock().command(dir.path());
    clone.args(["-c", "protocol.version=2", "-c", "fetch.uriprotocols=https", "clone", "-q"]);
    clone.args(server_command(Transport::UploadPack).map(|server| format!("--upload-pack={server}")));
    let output = clone.arg(format!("file://{}", repo.path().display())).arg("c").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(&format!("remote error: {words}")), "{said}");
    assert!(!dir.path().join("c").exists());
}

#[test]
fn everything_at_once() {
    let config = [
        ("uploadpack.allowFilter", "true"),
        ("uploadpack.allowRefInWant", "true"),
        ("uploadpack.allowSidebandAll", "true"),
        ("packrace.requireReachableWants", "true"),
    ];
    let repo = configured(Storage::default(), &config);
    let value = format!("{} {} https://a.example/x", "9".repeat(40), "7".repeat(40));
    repo.git(&["config", "uploadpack.blobPackfileUri", &value]);
    let dir = packrace_testkit::scratch_dir();
    let run = |args: &[&str]| {
        let mut command = Git::stock().command(dir.path());
        command.env("GIT_TEST_SIDEBAND_ALL", "1");
        command.args(["-c", "protocol.version=2", "-c", "fetch.uriprotocols=https"]).args(args);
        succeed(&mut command, &format!("{args:?}"))
    };
    let upload_pack = format!("--upload-pack={}", server_command(Transport::UploadPack).unwrap());
    let url = format!("file://{}", repo.path().display());
    run(&[
        "clone",
        "-q",
        "--bare",
        "--depth=2",
        "--filter=blob:limit=1m",
        "--single-branch",
        &upload_pack,
        &url,
        "c",
    ]);
    run(&["-C", "c", "fetch", "-q", &upload_pack, "--deepen=3", &url, "refs/heads/main:refs/heads/main"]);
    run(&["-C", "c", "fetch", "-q", &upload_pack, "--unshallow", &url, "+refs/*:refs/*"]);
    run(&["-C", "c", "fsck", "--strict", "--no-dangling"]);
    assert_eq!(reachable_objects(Git::stock(), &dir.path().join("c")), repo.reachable_objects());
}
