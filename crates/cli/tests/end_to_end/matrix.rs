//! Stock git as the client: every way to clone and fetch gives the same result as stock git's own
//! upload-pack.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use packrace_object::HashKind;
use packrace_testkit::{
    Bitmap, Extent, Git, GraphLayout, Loose, RefFormat, RepoBuilder, Size, Storage, reachable_objects,
    sampled,
};

use crate::running::{PACKRACE, Server};

/// How the client reaches the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Http,
    GitDaemon,
    UploadPack,
    /// Stock git's upload-pack: the reference.
    Stock,
}

/// Commands of a client, one after the other. `{url}` is the repository; `{since}` a date and `{id}` a commit
/// in it. They make the repository `c`.
struct Case {
    name: &'static str,
    steps: &'static [&'static str],
}

const CASES: [Case; 14] = [
    Case { name: "clone", steps: &["clone {url} c"] },
    Case { name: "mirror", steps: &["clone --mirror {url} c"] },
    Case { name: "single branch", steps: &["clone --single-branch --branch old {url} c"] },
    Case { name: "no tags", steps: &["clone --no-tags --bare {url} c"] },
    Case {
        name: "fetch what is new",
        steps: &[
            "clone --bare --single-branch --branch old --no-tags {url} c",
            "-C c fetch origin main:refs/heads/main",
            "-C c fetch origin +refs/heads/*:refs/remotes/origin/*",
            "-C c fetch origin --tags",
        ],
    },
    Case {
        name: "deepen",
        steps: &[
            "clone --bare --depth=2 --no-single-branch {url} c",
            "-C c fetch --depth=5 origin +refs/heads/*:refs/heads/*",
            "-C c fetch --deepen=3 origin +refs/heads/*:refs/heads/*",
            "-C c fetch --unshallow origin +refs/heads/*:refs/heads/*",
        ],
    },
    // The wanted commits do not reach the boundary of the client's history.
    Case {
        name: "deepen beside",
        steps: &["clone --bare --depth=1 {url} c", "-C c fetch --deepen=2 origin old:refs/heads/beside"],
    },
    Case { name: "depth of one branch", steps: &["clone --depth=1 {url} c", "-C c fetch --depth=4"] },
    Case { name: "since", steps: &["clone --bare --no-single-branch --shallow-since={since} {url} c"] },
    Case {
        name: "exclude",
        steps: &["clone --bare --shallow-exclude=old {url} c", "-C c fetch --unshallow"],
    },
    Case { name: "ls-remote", steps: &["init -q c", "ls-remote --symref {url}"] },
    Case {
        name: "ls-remote of some",
        steps: &["init -q c", "ls-remote --tags {url} v0.*", "ls-remote {url} HEAD"],
    },
    Case { name: "a tip by name", steps: &["init -q {format} c", "-C c fetch {url} {id}:refs/heads/got"] },
    Case {
        name: "fetch into a shallow clone",
        steps: &["clone --bare --depth=1 --branch old {url} c", "-C c fetch origin main:refs/heads/main"],
    },
];

/// A served repository, and what the steps need to know about it.
pub struct Served<'a> {
    pub path: &'a Path,
    pub hash: HashKind,
    pub server: Option<&'a Server>,
}

impl Served<'_> {
    pub fn url(&self, transport: Transport) -> String {
        let name = self.path.file_name().expect("a name").to_str().expect("UTF-8");
        let server = || self.server.expect("a transport with a server");
        match transport {
            Transport::Http => format!("http://{}/{name}", server().http),
            Transport::GitDaemon => format!("git://{}/{name}", server().git),
            Transport::UploadPack | Transport::Stock => format!("file://{}", self.path.display()),
        }
    }
}

/// The final state of a client.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    printed: Vec<String>,
    head: String,
    refs: String,
    shallow: Vec<String>,
    objects: std::collections::BTreeSet<String>,
}

/// Runs the steps of a case as `client` with this protocol version; the clone must pass `git fsck --strict`.
fn run(client: &Git, served: &Served<'_>, transport: Transport, version: u32, case: &Case) -> Outcome {
    let what =
        format!("{} over {transport:?}, v{version}, {:?}, {:?}", case.name, client.version(), served.path);
    let dir = packrace_testkit::scratch_dir();
    let ids = step_ids(served, case);
    let mut printed = Vec::new();
    for step in case.steps {
        let mut command = client.command(dir.path());
        command.args(["-c", &format!("protocol.version={version}"), "-c", "gc.auto=0"]);
        command.args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"]);
        // A clone has no `origin` yet, and an ls-remote has none at all: all commands get the server on the
        // command line.
        let server_command = server_command(transport);
        for word in step.split(' ') {
            let word = word.replace("{url}", &served.url(transport)).replace("{id}", ids[0].trim());
            let word = word.replace("{since}", ids[1].trim());
            let word = word.replace("{format}", &format!("--object-format={}", served.hash));
            command.arg(&word);
            let speaks = matches!(word.as_str(), "clone" | "fetch" | "ls-remote");
            command.args(server_command.iter().filter(|_| speaks).map(|c| format!("--upload-pack={c}")));
        }
        let text = succeed(&mut command, &what);
        printed.push(text.replace(&served.url(transport), "{url}"));
    }
    outcome(client, &dir.path().join("c"), printed, &what)
}

/// The commit and the date that the steps name, if any.
fn step_ids(served: &Served<'_>, case: &Case) -> [String; 2] {
    let is_named = |name: &str| case.steps.iter().any(|step| step.contains(name));
    let ask = |name: &str, args: &[&str]| {
        if is_named(name) { Git::stock().run(served.path, args) } else { String::new() }
    };
    [ask("{id}", &["rev-parse", "main"]), ask("{since}", &["log", "-1", "--format=%at", "main~8"])]
}

/// The command with which the client reaches the repository; for the other transports a server is running
/// already.
pub fn server_command(transport: Transport) -> Option<String> {
    match transport {
        Transport::Stock => Some(format!("{} upload-pack", Git::stock().binary().display())),
        Transport::UploadPack => Some(format!("{PACKRACE} upload-pack")),
        Transport::Http | Transport::GitDaemon => None,
    }
}

pub fn succeed(command: &mut Command, what: &str) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{command:?}\n{stderr}");
    assert!(!stderr.contains("panicked"), "{what}\n{command:?}\n{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn outcome(client: &Git, clone: &Path, printed: Vec<String>, what: &str) -> Outcome {
    let fsck =
        succeed(client.command(clone).args(["fsck", "--strict", "--no-dangling", "--no-progress"]), what);
    assert_eq!(fsck.replace("notice: No default references\n", ""), "", "{what}");
    let inner = clone.join(".git");
    let git_dir = if inner.is_dir() { inner } else { clone.to_owned() };
    let shallow = std::fs::read_to_string(git_dir.join("shallow")).unwrap_or_default();
    let mut shallow: Vec<String> = shallow.lines().map(str::to_string).collect();
    shallow.sort();
    Outcome {
        printed,
        head: client.run(clone, &["symbolic-ref", "HEAD"]),
        refs: client.run(clone, &["for-each-ref"]),
        shallow,
        objects: reachable_objects(client, clone),
    }
}

/// Every case over these transports and versions gives the same result as stock git with itself.
fn check(client: &Git, served: &Served<'_>, transports: &[Transport], versions: &[u32], cases: &[Case]) {
    for version in versions {
        for case in cases {
            let expected = run(Git::stock(), served, Transport::Stock, *version, case);
            for transport in transports {
                let got = run(client, served, *transport, *version, case);
                let what = format!("{} over {transport:?}, v{version}, {:?}", case.name, served.path);
                assert_eq!(got.printed, expected.printed, "{what}");
                assert_eq!((&got.head, &got.refs), (&expected.head, &expected.refs), "{what}");
                assert_eq!(got.shallow, expected.shallow, "{what}");
                let missing: Vec<_> = expected.objects.difference(&got.objects).collect();
                let more: Vec<_> = got.objects.difference(&expected.objects).collect();
                assert!(missing.is_empty() && more.is_empty(), "{what}: missing {missing:?}, more {more:?}");
            }
        }
    }
}

pub const TRANSPORTS: [Transport; 3] = [Transport::Http, Transport::GitDaemon, Transport::UploadPack];

/// Runs all cases over these transports and versions for one kind of repository.
fn check_kind(
    hash: HashKind,
    ref_format: RefFormat,
    client: &Git,
    transports: &[Transport],
    versions: &[u32],
) {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).ref_format(ref_format).build();
    let server = Server::start(repo.path().parent().unwrap());
    let served = Served { path: repo.path(), hash, server: Some(&server) };
    check(client, &served, transports, versions, &CASES);
}

sampled! {
    fn sha1_files(extent) {
        let versions = extent.pick(&[2][..], &[0, 1, 2]);
        check_kind(HashKind::Sha1, RefFormat::Files, Git::stock(), &TRANSPORTS, versions);
    }

    fn sha256_reftable(extent) {
        let (transports, versions) = extent.pick((&TRANSPORTS[2..], &[1][..]), (&TRANSPORTS, &[0, 1, 2]));
        check_kind(HashKind::Sha256, RefFormat::Reftable, Git::stock(), transports, versions);
    }

    fn an_older_client(extent) {
        // If only one git is installed, it was tested above already.
        let client = Git::old().unwrap_or(Git::stock());
        println!("the older client is {}.{}", client.version().0, client.version().1);
        let (transports, versions) = extent.pick((&TRANSPORTS[1..2], &[2][..]), (&TRANSPORTS, &[0, 2]));
        check_kind(HashKind::Sha1, RefFormat::Reftable, client, transports, versions);
    }

    fn bigger_history(extent) {
        let repo = RepoBuilder::new(Size::Small).build();
        let server = Server::start(repo.path().parent().unwrap());
        let served = Served { path: repo.path(), hash: HashKind::Sha1, server: Some(&server) };
        let wanted = |case: &Case| match extent {
            Extent::Sample => ["fetch what is new", "deepen"].contains(&case.name),
            Extent::Whole => !case.name.starts_with("ls-remote"),
        };
        let cases: Vec<Case> = CASES.into_iter().filter(wanted).collect();
        check(Git::stock(), &served, extent.pick(&TRANSPORTS[..1], &TRANSPORTS), &[2], &cases);
    }
}

// Version 1 is version 0 after one more line: the two kinds above cover it.
#[test]
#[ignore = "slow: the cases of `sha1_files` and `sha256_reftable` crosswise"]
fn sha1_reftable() {
    check_kind(HashKind::Sha1, RefFormat::Reftable, Git::stock(), &TRANSPORTS, &[0, 2]);
}

#[test]
#[ignore = "slow: the cases of `sha1_files` and `sha256_reftable` crosswise"]
fn sha256_files() {
    check_kind(HashKind::Sha256, RefFormat::Files, Git::stock(), &TRANSPORTS, &[0, 2]);
}

sampled! {
    fn every_storage(extent) {
        let both = [Bitmap::Plain, Bitmap::LookupTable];
        let mut storages = BTreeMap::from([
            ("packs", Storage { packs: 4, keep_oldest: true, ..Storage::default() }),
            ("loose on packs", Storage { packs: 3, loose: Loose::Newest, ..Storage::default() }),
            ("loose", Storage { loose: Loose::All, packed_refs: false, ..Storage::default() }),
            ("alternate", Storage { packs: 4, alternate: true, ..Storage::default() }),
            ("multi-pack-index", Storage { packs: 3, multi_pack_index: true, ..Storage::default() }),
            ("commit-graph", Storage { commit_graph: GraphLayout::Single, ..Storage::default() }),
            ("commit-graph chain", Storage { packs: 2, commit_graph: GraphLayout::Split, ..Storage::default() }),
            ("shallow", Storage { shallow_depth: Some(9), ..Storage::default() }),
        ]);
        for (bitmap, names) in both.into_iter().zip([["bitmap", "multi bitmap"], ["lookup", "multi lookup"]]) {
            storages.insert(names[0], Storage { bitmap, ..Storage::default() });
            storages.insert(names[1], Storage { bitmap, packs: 3, multi_pack_index: true, ..Storage::default() });
        }
        for (number, (name, storage)) in storages.into_iter().enumerate() {
            let shallow = storage.shallow_depth.is_some();
            let kinds = [(HashKind::Sha1, 2), (HashKind::Sha256, 0)];
            for (hash, version) in extent.pick(&kinds[number % 2..=number % 2], &kinds[..]).iter().copied() {
                println!("{name}, {hash}");
                let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage.clone()).build();
                let served = Served { path: repo.path(), hash, server: None };
                // A shallow repository lacks the branch `old`, eight commits back, so it cannot be requested.
                let wanted: &[&str] =
                    if shallow { &["clone", "mirror"] } else { &["fetch what is new", "deepen", "mirror"] };
                let wanted = &wanted[..extent.pick(2, wanted.len())];
                let cases: Vec<Case> = CASES.into_iter().filter(|case| wanted.contains(&case.name)).collect();
                check(Git::stock(), &served, &[Transport::UploadPack], &[version], &cases);
            }
        }
    }
}

#[test]
fn called_as_git_upload_pack() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = packrace_testkit::scratch_dir();
    let link = dir.path().join("git-upload-pack");
    std::os::unix::fs::symlink(PACKRACE, &link).unwrap();
    let mut clone = Git::stock().command(dir.path());
    clone.args(["clone", "--mirror", "--no-local", &format!("--upload-pack={}", link.display())]);
    succeed(clone.arg(repo.path()).arg("c"), "called as git-upload-pack");
    assert_eq!(reachable_objects(Git::stock(), &dir.path().join("c")), repo.reachable_objects());
}
