//! Features of version 2 that configuration turns on: with stock git as the client if it supports them (2.47
//! supports neither `object-info` nor `promisor-remote` as a client), otherwise with transcripts.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use packrace_object::HashKind;
use packrace_testkit::peer::{Feed, Script};
use packrace_testkit::received::{FetchAnswer, Packet, fetch_answer, objects_in_pack, packets};
use packrace_testkit::{Git, Loose, Repo, RepoBuilder, Size, Storage, reachable_objects};

use crate::matrix::{TRANSPORTS, Transport, server_command, succeed};
use crate::running::{Server, answer_to};

/// A repository with this configuration, and a server for it.
fn served(storage: Storage, config: &[(&str, &str)]) -> (Repo, Server) {
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    configure(&repo, config);
    let server = Server::start(repo.path().parent().unwrap());
    (repo, server)
}

fn configure(repo: &Repo, config: &[(&str, &str)]) {
    for (name, value) in config {
        repo.git(&["config", "--add", name, value]);
    }
}

/// A client of stock git that logs its packets to `trace` in its directory.
struct Client {
    dir: tempfile::TempDir,
}

impl Client {
    fn new() -> Self {
        Client { dir: packrace_testkit::scratch_dir() }
    }

    fn clone_path(&self) -> PathBuf {
        self.dir.path().join("c")
    }

    /// Runs `git <config> <verb> <args>`, with the server's command if the transport needs one.
    fn run(
        &self,
        transport: Transport,
        config: &[&str],
        verb: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> String {
        let mut command = self.command(config, variables);
        command.arg(verb);
        command.args(server_command(transport).map(|server| format!("--upload-pack={server}")));
        succeed(command.args(args), &format!("{verb} {args:?} over {transport:?}"))
    }

    fn command(&self, config: &[&str], variables: &[(&str, &str)]) -> Command {
        let inside = if self.clone_path().exists() { self.clone_path() } else { self.dir.path().to_owned() };
        let mut command = Git::stock().command(&inside);
        command.env("GIT_TRACE_PACKET", self.dir.path().join("trace")).envs(variables.iter().copied());
        command.args(["-c", "protocol.version=2", "-c", "gc.auto=0"]);
        command.args(config.iter().flat_map(|setting| ["-c", setting]));
        command
    }

    /// Whether a packet with this text was sent (`>`) or received (`<`).
    fn has_seen(&self, direction: char, text: &str) -> bool {
        let trace = std::fs::read(self.dir.path().join("trace")).unwrap_or_default();
        let trace = String::from_utf8_lossy(&trace);
        trace.lines().any(|line| line.contains(&format!("{direction} {text}")))
    }

    fn objects(&self) -> BTreeSet<String> {
        Git::stock().run(&self.clone_path(), &["fsck", "--strict", "--no-dangling"]);
        reachable_objects(Git::stock(), &self.clone_path())
    }
}

fn url(repo: &Repo, server: &Server, transport: Transport) -> String {
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    match transport {
        Transport::Http => format!("http://{}/{name}", server.http),
        Transport::GitDaemon => format!("git://{}/{name}", server.git),
        Transport::UploadPack | Transport::Stock => format!("file://{}", repo.path().display()),
    }
}

/// Serves the files of a directory, and records requests. It lives as long as the process.
struct FileServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    fn start(dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, dir) = (listener.local_addr().unwrap(), dir.to_owned());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let Some(request) = lines.next() else { continue };
                let _headers = lines.take_while(|line| !line.is_empty()).count();
                let name = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                let (status, body) = match std::fs::read(dir.join(&name)) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                log.lock().unwrap().push(name);
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = (&stream).write_all(&[head.as_bytes(), &body].concat());
            }
        });
        FileServer { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[test]
fn refs_are_wanted_by_name() {
    let config = [("uploadpack.allowRefInWant", "true")];
    let (repo, server) = served(Storage::default(), &config);
    for transport in TRANSPORTS {
        let url = url(&repo, &server, transport);
        for depth in [None, Some("--depth=3")] {
            let client = Client::new();
            client.run(
                transport,
                &[],
                "clone",
                &["--bare", "--single-branch", "--branch=old", &url, "c"],
                &[],
            );
            let refspecs = ["refs/heads/main:refs/heads/got", "refs/tags/nested-outermost:refs/tags/got"];
            let args: Vec<&str> = depth.into_iter().chain([url.as_str()]).chain(refspecs).collect();
            client.run(transport, &[], "fetch", &args, &[]);
            assert!(client.has_seen('>', "want-ref refs/heads/main"), "{transport:?}");
            let got =
                Git::stock().run(&client.clone_path(), &["rev-parse", "refs/heads/got", "refs/tags/got"]);
            assert_eq!(got, repo.git(&["rev-parse", "main", "refs/tags/nested-outermost"]), "{transport:?}");
            assert_eq!(client.clone_path().join("shallow").exists(), depth.is_some(), "{transport:?}");
            client.objects();
        }
    }
}

#[test]
fn refs_are_wanted_by_name_in_their_namespace_only() {
    let (repo, _server) = served(Storage::default(), &[("uploadpack.allowRefInWant", "true")]);
    let (main, old) = (repo.git(&["rev-parse", "main"]), repo.git(&["rev-parse", "old"]));
    repo.git(&["update-ref", "refs/namespaces/n/refs/heads/inside", old.trim()]);
    repo.git(&["update-ref", "refs/namespaces/n/refs/heads/hidden/x", old.trim()]);
    repo.git(&["update-ref", "refs/heads/hidden/x", old.trim()]);
    repo.git(&["symbolic-ref", "refs/namespaces/n/HEAD", "refs/namespaces/n/refs/heads/inside"]);
    configure(&repo, &[("uploadpack.hideRefs", "refs/heads/hidden"), ("uploadpack.hideRefs", "^HEAD")]);
    let answer = |namespace: &str, name: &str| {
        let script = fetch(&[&format!("want-ref {name}"), "done"]);
        let mut command = crate::running::upload_pack(repo.path(), 2);
        command.env("GIT_NAMESPACE", namespace);
        let reply = packrace_testkit::peer::stdio(&mut command, script.bytes(), Feed::Whole);
        match fetch_answer(&reply.stdout) {
            Ok(answer) if reply.status.success() => answer.lines.join(" "),
            _ => reply.stderr.trim_end_matches('\n').to_owned(),
        }
    };
    let expected = |id: &str, name: &str| format!("wanted-refs {} {name} ", id.trim());
    let unknown = |name: &str| format!("fatal: unknown ref {name}");
    assert_eq!(answer("", "refs/heads/main").trim(), expected(&main, "refs/heads/main").trim());
    assert_eq!(answer("n", "refs/heads/inside").trim(), expected(&old, "refs/heads/inside").trim());
    assert_eq!(answer("n", "HEAD").trim(), expected(&old, "HEAD").trim());
    for (namespace, name) in [
        ("n", "refs/heads/main"),
        ("", "refs/heads/inside"),
        ("", "HEAD"),
        ("", "refs/heads/hidden/x"),
        ("n", "refs/heads/hidden/x"),
        ("n", "../../refs/heads/main"),
        ("", "config"),
        ("", "refs/../HEAD"),
        ("", "main"),
        ("", ""),
    ] {
        assert_eq!(answer(namespace, name), unknown(name), "{namespace:?}");
    }
}

/// A `fetch` with these arguments.
fn fetch(arguments: &[&str]) -> Script {
    let script = Script::new().line("command=fetch").line("object-format=sha1").delim().line("no-progress");
    arguments.iter().fold(script, |script, line| script.line(line)).flush()
}

#[test]
fn many_refs_are_wanted_by_name() {
    let (repo, _server) = served(Storage::default(), &[("uploadpack.allowRefInWant", "true")]);
    let main = repo.git(&["rev-parse", "main"]);
    let names: Vec<String> = (0..100_000).map(|number| format!("refs/many/{number:06}")).collect();
    let packed: String = names.iter().map(|name| format!("{} {name}\n", main.trim())).collect();
    std::fs::write(repo.path().join("packed-refs"), format!("# pack-refs with: sorted \n{packed}")).unwrap();
    let mut script = Script::new().line("command=fetch").line("object-format=sha1").delim();
    for name in &names {
        script = script.line(&format!("want-ref {name}"));
    }
    let reply = answer_to(repo.path(), 2, script.clone().line("done").flush().bytes(), Feed::Whole);
    assert!(reply.status.success(), "{}", reply.stderr);
    let answer = fetch_answer(&reply.stdout).unwrap();
    assert_eq!(answer.lines.len(), names.len() + 2);
    assert_eq!(answer.lines[1], format!("{} {}", main.trim(), names[0]));
    let twice = script.line(&format!("want-ref {}", names[7])).line("done").flush();
    let reply = answer_to(repo.path(), 2, twice.bytes(), Feed::Whole);
    assert_eq!(reply.status.code(), Some(128));
    assert!(reply.stderr.contains("fatal: duplicate want-ref refs/many/000007"), "{}", reply.stderr);
}

#[test]
fn all_of_an_answer_in_a_side_band() {
    let config = [("uploadpack.allowSidebandAll", "true"), ("uploadpack.allowRefInWant", "true")];
    let (repo, server) = served(Storage { packs: 2, ..Storage::default() }, &config);
    // Stock git requests it in its own tests only.
    let variables = [("GIT_TEST_SIDEBAND_ALL", "1")];
    for transport in TRANSPORTS {
        let url = url(&repo, &server, transport);
        let client = Client::new();
        client.run(transport, &[], "clone", &["--bare", "--depth=2", "--branch=old", &url, "c"], &variables);
        assert!(client.has_seen('>', "sideband-all"), "{transport:?}");
        assert!(client.has_seen('<', "\\1shallow-info"), "{transport:?}");
        client.run(transport, &[], "fetch", &["--unshallow", &url, "+refs/*:refs/*"], &variables);
        assert!(client.has_seen('<', "\\1acknowledgments"), "{transport:?}");
        assert_eq!(client.objects(), repo.reachable_objects(), "{transport:?}");
        client.run(transport, &[], "fetch", &[&url, "refs/heads/main:refs/heads/again"], &variables);
        assert!(client.has_seen('<', "\\1wanted-refs"), "{transport:?}");
    }
}

#[test]
fn errors_in_a_side_band_reach_the_client() {
    let config = [("uploadpack.allowSidebandAll", "true")];
    let (repo, server) = served(Storage::default(), &config);
    let client = Client::new();
    let url = url(&repo, &server, Transport::Http);
    client.run(Transport::Http, &[], "clone", &["--bare", "--branch=old", "--single-branch", &url, "c"], &[]);
    let mut command = client.command(&[], &[("GIT_TEST_SIDEBAND_ALL", "1")]);
    let absent = "1234123412341234123412341234123412341234";
    let output = command.args(["fetch", &url, absent]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128), "{said}");
    assert!(said.contains(&format!("remote error: upload-pack: not our ref {absent}")), "{said}");
}

/// Blobs of `main`, with the pack of one of them in `dir`: its hash and the blob.
fn pack_with_blob(repo: &Repo, dir: &Path, at: usize) -> (String, String) {
    let listing = repo.git(&["ls-tree", "-r", "main"]);
    let blob = listing.lines().nth(at).unwrap().split([' ', '\t']).nth(2).unwrap().to_owned();
    let prefix = dir.join("pack");
    let hash = repo
        .git_with_input(&["pack-objects", "-q", prefix.to_str().unwrap()], format!("{blob}\n").as_bytes());
    (blob, hash.trim().to_owned())
}

#[test]
fn blobs_come_from_elsewhere() {
    for (loose, sideband_all) in
        [(Loose::No, false), (Loose::No, true), (Loose::All, false), (Loose::All, true)]
    {
        let (repo, server) = served(Storage { loose, ..Storage::default() }, &[]);
        let dir = packrace_testkit::scratch_dir();
        let files = FileServer::start(dir.path());
        let (blob, pack) = pack_with_blob(&repo, dir.path(), 0);
        let (other, other_pack) = pack_with_blob(&repo, dir.path(), 1);
        let uri = |pack: &str| format!("http://{}/pack-{pack}.pack", files.address);
        configure(
            &repo,
            &[
                ("uploadpack.blobPackfileUri", &format!("{blob} {pack} {}", uri(&pack))),
                (
                    "uploadpack.blobPackfileUri",
                    &format!("{other} {other_pack} https://nowhere.invalid/x.pack"),
                ),
                ("uploadpack.allowSidebandAll", "true"),
            ],
        );
        for transport in TRANSPORTS {
            let url = url(&repo, &server, transport);
            let client = Client::new();
            let variables = if sideband_all { &[("GIT_TEST_SIDEBAND_ALL", "1")][..] } else { &[] };
            let before = files.asked().len();
            let uris = ["fetch.uriprotocols=http,file"];
            client.run(transport, &uris, "clone", &["--mirror", &url, "c"], variables);
            let what = format!("{transport:?}, {loose:?}, {sideband_all}");
            assert_eq!(files.asked()[before..], [format!("pack-{pack}.pack")], "{what}");
            assert!(!client.has_seen('<', "nowhere"), "{what}");
            assert_eq!(client.objects(), repo.reachable_objects(), "{what}");
            // Nothing is new, so no URI is sent.
            client.run(transport, &uris, "fetch", &[&url, "+refs/heads/main:refs/heads/again"], variables);
            assert_eq!(files.asked().len(), before + 1, "{what}");
            // Without the protocol, the pack contains the blob.
            let client = Client::new();
            client.run(transport, &[], "clone", &["--mirror", &url, "c"], variables);
            assert_eq!(files.asked().len(), before + 1, "{what}");
            assert_eq!(client.objects(), repo.reachable_objects(), "{what}");
        }
    }
}

/// The ids of the objects in the pack of an answer.
fn sent(repo: &Repo, answer: &FetchAnswer) -> BTreeSet<String> {
    objects_in_pack(Git::stock(), &answer.bands.pack, HashKind::Sha1, Some(repo.path()))
}

#[test]
fn a_shared_pack_is_told_once_and_only_where_it_is_needed() {
    let (repo, _server) = served(Storage::default(), &[]);
    let dir = packrace_testkit::scratch_dir();
    let (first, pack) = pack_with_blob(&repo, dir.path(), 0);
    let (second, _) = pack_with_blob(&repo, dir.path(), 1);
    for blob in [&first, &second] {
        let value = format!("{blob} {pack} https://a.example/x.pack");
        configure(&repo, &[("uploadpack.blobPackfileUri", &value)]);
    }
    let main = repo.git(&["rev-parse", "main"]);
    let want = format!("want {}", main.trim());
    let ask = |lines: &[&str]| {
        let reply = answer_to(repo.path(), 2, fetch(lines).bytes(), Feed::Whole);
        assert!(reply.status.success(), "{}", reply.stderr);
        fetch_answer(&reply.stdout).unwrap()
    };
    let expected = ["packfile-uris".to_owned(), format!("{pack} https://a.example/x.pack"), String::new()];
    let with = ask(&[&want, "packfile-uris https", "ofs-delta", "done"]);
    assert_eq!(with.lines, expected);
    let without = ask(&[&want, "packfile-uris http", "ofs-delta", "done"]);
    assert!(without.lines.is_empty(), "{:?}", without.lines);
    let (with, without) = (sent(&repo, &with), sent(&repo, &without));
    let left_out: Vec<&String> = without.difference(&with).collect();
    assert_eq!(left_out, BTreeSet::from([&first, &second]).into_iter().collect::<Vec<_>>());
    // A client that has them gets no URIs.
    let have = format!("have {}", main.trim());
    assert!(ask(&[&want, &have, "packfile-uris https", "done"]).lines.is_empty());
}

#[test]
fn half_a_packfile_uris_line() {
    let blob = "9".repeat(40);
    let value = format!("{blob} {blob} https://a.example/x.pack");
    let (repo, _server) = served(Storage::default(), &[("uploadpack.blobPackfileUri", &value)]);
    let main = repo.git(&["rev-parse", "main"]);
    let whole = fetch(&[&format!("want {}", main.trim()), "packfile-uris https", "done"]);
    let line = whole.bytes().windows(9).position(|window| window == b"packfile-").unwrap() - 4;
    for end in line..line + 4 + "packfile-uris https\n".len() {
        let reply = answer_to(repo.path(), 2, &whole.bytes()[..end], Feed::Whole);
        assert!(reply.stderr.contains("the remote end hung up unexpectedly"), "{end}: {}", reply.stderr);
        assert!(!reply.stdout.ends_with(b"PACK"), "{end}");
    }
    for line in ["packfile-uris", "packfile-ur", "packfile-urishttps"] {
        let reply = answer_to(repo.path(), 2, fetch(&[line]).bytes(), Feed::ByteByByte);
        assert!(reply.stderr.contains(&format!("unexpected line: '{line}'")), "{}", reply.stderr);
    }
}

#[test]
fn a_bad_uri_setting_is_an_error_in_gits_words() {
    let (repo, _server) = served(Storage::default(), &[("uploadpack.blobPackfileUri", "half a value")]);
    let main = repo.git(&["rev-parse", "main"]);
    let want = format!("want {}", main.trim());
    // It is nothing to those that do not ask for URIs.
    let reply = answer_to(repo.path(), 2, fetch(&[&want, "done"]).bytes(), Feed::Whole);
    assert_eq!(reply.status.code(), Some(0), "{}", reply.stderr);
    let asked = fetch(&[&want, "packfile-uris https", "done"]);
    let reply = answer_to(repo.path(), 2, asked.bytes(), Feed::Whole);
    assert_eq!(reply.status.code(), Some(128));
    let words = "fatal: value of uploadpack.blobpackfileuri must be of the form \
        '<object-hash> <pack-hash> <uri>' (got 'half a value')";
    assert!(reply.stderr.contains(words), "{}", reply.stderr);
}

#[test]
fn sizes_of_objects() {
    for storage in [Storage::default(), Storage { loose: Loose::All, ..Storage::default() }] {
        let (repo, _server) = served(storage, &[("transfer.advertiseObjectInfo", "true")]);
        let listing =
            repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objectsize)"]);
        let absent = "1234123412341234123412341234123412341234";
        let mut script = Script::new().line("command=object-info").delim().line("size");
        for line in listing.lines() {
            script = script.line(&format!("oid {}", line.split(' ').next().unwrap()));
        }
        script = script.line(&format!("oid {absent}")).flush().flush();
        let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
        assert!(reply.status.success(), "{}", reply.stderr);
        let packets = packets(&reply.stdout).unwrap();
        let text = |packet: &Packet<'_>| match packet {
            Packet::Data(data) => String::from_utf8_lossy(data).into_owned(),
            other => format!("{other:?}"),
        };
        let lines: Vec<String> = packets.iter().map(text).collect();
        let advertised = lines.iter().position(|line| line == "Flush").unwrap();
        assert!(lines[..advertised].contains(&"object-info=size\n".to_owned()), "{lines:?}");
        let mut expect = vec!["size".to_owned()];
        expect.extend(listing.lines().map(str::to_owned));
        expect.extend([format!("{absent} "), "Flush".to_owned()]);
        assert_eq!(lines[advertised + 1..], expect);
    }
}

#[test]
fn clones_begin_with_a_bundle() {
    let (repo, server) = served(Storage::default(), &[("uploadpack.advertiseBundleURIs", "true")]);
    let dir = packrace_testkit::scratch_dir();
    let files = FileServer::start(dir.path());
    let bundle = dir.path().join("old.bundle");
    repo.git(&["bundle", "create", "-q", bundle.to_str().unwrap(), "refs/heads/old"]);
    configure(
        &repo,
        &[
            ("bundle.version", "1"),
            ("bundle.mode", "all"),
            ("bundle.old.uri", &format!("http://{}/old.bundle", files.address)),
        ],
    );
    let old = repo.git(&["rev-parse", "old"]);
    for transport in TRANSPORTS {
        let client = Client::new();
        let url = url(&repo, &server, transport);
        let before = files.asked().len();
        client.run(transport, &["transfer.bundleURI=true"], "clone", &["--mirror", &url, "c"], &[]);
        assert_eq!(files.asked()[before..], ["old.bundle"], "{transport:?}");
        assert!(client.has_seen('>', &format!("have {}", old.trim())), "{transport:?}");
        Git::stock().run(&client.clone_path(), &["fsck", "--strict", "--no-dangling"]);
        assert!(client.objects().is_superset(&repo.reachable_objects()), "{transport:?}");
    }
}

/// git 2.47 supports the capability neither as server nor as client.
#[test]
fn promisor_remotes_are_offered() {
    let config = [
        ("promisor.advertise", "true"),
        ("promisor.sendFields", "partialCloneFilter"),
        ("remote.lop.url", "https://lop.example/a,b"),
        ("remote.lop.promisor", "true"),
        ("remote.lop.partialCloneFilter", "blob:limit=1m"),
    ];
    let (repo, server) = served(Storage::default(), &config);
    let reply = answer_to(repo.path(), 2, b"0000", Feed::Whole);
    let line = "promisor-remote=name=lop,url=https://lop.example/a%2cb,partialCloneFilter=blob:limit=1m\n";
    assert!(reply.stdout.ends_with(format!("{line}0000").as_bytes()), "{:?}", reply.stdout);
    let main = repo.git(&["rev-parse", "main"]);
    let request = |key: &str| {
        let script = Script::new().line("command=fetch").line(key).delim();
        let script = script.line(&format!("want {}", main.trim())).line("done").flush().flush();
        answer_to(repo.path(), 2, script.bytes(), Feed::ByteByByte)
    };
    assert!(fetch_answer(&request("promisor-remote=lop").stdout[..]).is_ok());
    let refused = request("promisor-remote");
    assert_eq!(refused.status.code(), Some(128));
    assert!(refused.stderr.contains("promisor-remote capability requires an argument"), "{}", refused.stderr);
    // A client that does not know the capability ignores it.
    let client = Client::new();
    client.run(Transport::Http, &[], "clone", &["--mirror", &url(&repo, &server, Transport::Http), "c"], &[]);
    assert_eq!(client.objects(), repo.reachable_objects());
}

/// A repository in which only `refs/hidden/x` reaches a commit, a tree, a blob and a tag.
fn with_hidden_objects() -> (Repo, [String; 4]) {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"hidden\n");
    let tree = repo.git_with_input(&["mktree"], format!("100644 blob {}\tf\n", blob.trim()).as_bytes());
    let commit = repo.git(&["commit-tree", tree.trim(), "-p", "main", "-m", "hidden"]);
    repo.git(&["tag", "-a", "-m", "hidden", "secret", commit.trim()]);
    let tag = repo.git(&["rev-parse", "refs/tags/secret"]);
    repo.git(&["update-ref", "-d", "refs/tags/secret"]);
    repo.git(&["update-ref", "refs/hidden/x", tag.trim()]);
    configure(&repo, &[("transfer.hideRefs", "refs/hidden"), ("packrace.requireReachableWants", "true")]);
    (repo, [tag, commit, tree, blob].map(|id| id.trim().to_owned()))
}

/// Whether each object can be fetched by name with this configuration on the command line.
fn fetchable(repo: &Repo, ids: &[String], config: &[&str], namespace: &str) -> Vec<bool> {
    let can_fetch = |id: &String| {
        let mut command = crate::running::upload_pack(repo.path(), 2);
        command.env("GIT_NAMESPACE", namespace).env("GIT_CONFIG_COUNT", config.len().to_string());
        for (at, name) in config.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{at}"), name).env(format!("GIT_CONFIG_VALUE_{at}"), "true");
        }
        let script = fetch(&[&format!("want {id}"), "ofs-delta", "done"]).flush();
        let reply = packrace_testkit::peer::stdio(&mut command, script.bytes(), Feed::Whole);
        let is_refused = reply.stderr == format!("fatal: git upload-pack: not our ref {id}\n");
        assert!(reply.status.success() != is_refused, "{}", reply.stderr);
        !is_refused
    };
    ids.iter().map(can_fetch).collect()
}

#[test]
fn what_is_hidden_is_not_served_where_wants_must_be_reachable() {
    let (repo, hidden) = with_hidden_objects();
    let shown =
        repo.git(&["rev-parse", "main", "main~4", "main~2^{tree}", "old", "refs/tags/nested-outermost"]);
    let mut shown: Vec<String> = shown.lines().map(str::to_owned).collect();
    let inner = repo.git(&["cat-file", "tag", "refs/tags/nested-outermost"]);
    shown.push(inner.lines().next().unwrap()["object ".len()..].to_owned());
    let blob = repo.git(&["ls-tree", "-r", "main"]);
    shown.push(blob.split([' ', '\t']).nth(2).unwrap().to_owned());
    assert_eq!(fetchable(&repo, &shown, &[], ""), vec![true; shown.len()]);
    assert_eq!(fetchable(&repo, &hidden, &[], ""), [false; 4]);
    for widening in [
        "uploadpack.allowTipSHA1InWant",
        "uploadpack.allowReachableSHA1InWant",
        "uploadpack.allowAnySHA1InWant",
    ] {
        assert_eq!(fetchable(&repo, &hidden, &[widening], ""), [true; 4], "{widening}");
    }
    // Only the last setting allows these.
    let unreached = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"unreached\n");
    let unreached = [unreached.trim().to_owned()];
    assert_eq!(fetchable(&repo, &unreached, &["uploadpack.allowReachableSHA1InWant"], ""), [false]);
    assert_eq!(fetchable(&repo, &unreached, &["uploadpack.allowAnySHA1InWant"], ""), [true]);
    // The refs of another namespace are not shown.
    repo.git(&["update-ref", "refs/namespaces/n/refs/heads/main", "old"]);
    assert_eq!(fetchable(&repo, &shown[..4], &[], "n"), [false, false, false, true]);
    // By default, version 2 serves what exists.
    repo.git(&["config", "packrace.requireReachableWants", "false"]);
    assert_eq!(fetchable(&repo, &hidden, &[], ""), [true; 4]);
}

#[test]
fn what_is_hidden_is_not_told_of_where_wants_must_be_reachable() {
    let (repo, hidden) = with_hidden_objects();
    configure(&repo, &[("transfer.advertiseObjectInfo", "true"), ("uploadpack.allowRefInWant", "true")]);
    let main = repo.git(&["rev-parse", "main"]);
    let size = repo.git(&["cat-file", "-s", "main"]);
    let absent = "1234123412341234123412341234123412341234";
    let mut script = Script::new().line("command=object-info").delim().line("size");
    for id in hidden.iter().map(String::as_str).chain([main.trim(), absent]) {
        script = script.line(&format!("oid {id}"));
    }
    let reply = answer_to(repo.path(), 2, script.flush().flush().bytes(), Feed::Whole);
    let answer = String::from_utf8_lossy(&reply.stdout);
    assert!(answer.contains(&format!("{} {}", main.trim(), size.trim())), "{answer}");
    for id in hidden.iter().map(String::as_str).chain([absent]) {
        assert!(answer.contains(&format!("002d{id} 00")), "{answer}");
    }
    let script = fetch(&["want-ref refs/hidden/x", "done"]);
    let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
    assert!(reply.stderr.contains("unknown ref refs/hidden/x"), "{}", reply.stderr);
    // The first one that is not allowed is named, whether it exists or not.
    for pair in [[&hidden[1], absent], [absent, &hidden[1]]] {
        let wants = pair.map(|id| format!("want {id}"));
        let reply = answer_to(repo.path(), 2, fetch(&[&wants[0], &wants[1], "done"]).bytes(), Feed::Whole);
        assert!(reply.stderr.contains(&format!("not our ref {}", pair[0])), "{}", reply.stderr);
    }
}

#[test]
fn stock_git_works_where_wants_must_be_reachable() {
    let (repo, _hidden) = with_hidden_objects();
    let server = Server::start(repo.path().parent().unwrap());
    for transport in TRANSPORTS {
        let client = Client::new();
        let url = url(&repo, &server, transport);
        client.run(transport, &[], "clone", &["--bare", "--depth=2", &url, "c"], &[]);
        client.run(transport, &[], "fetch", &["--unshallow", &url, "+refs/*:refs/*"], &[]);
        let shown =
            repo.git(&["rev-list", "--objects", "--no-object-names", "--exclude=refs/hidden/*", "--all"]);
        let shown: BTreeSet<String> = shown.lines().map(str::to_owned).collect();
        assert_eq!(client.objects(), shown, "{transport:?}");
    }
}
