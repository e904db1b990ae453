//! `uploadpack.packObjectsHook` with stock git: its `pack-objects` as the hook, and its clients.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, Storage, reachable_objects, sampled};

use crate::running::{PACKRACE, Server, assert_no_panic};

/// Commands of a client; they make the repository `c`.
const CASES: [&[&str]; 7] = [
    &["clone --mirror {url} c"],
    &["clone --bare --single-branch --branch old {url} c", "-C c fetch origin main:refs/heads/main"],
    &[
        "clone --bare --single-branch --branch old --no-tags {url} c",
        "-C c fetch origin +refs/heads/*:refs/remotes/origin/* --tags",
    ],
    &[
        "clone --bare --depth=2 --no-single-branch {url} c",
        "-C c fetch --deepen=3 origin +refs/heads/*:refs/heads/*",
        "-C c fetch --unshallow origin +refs/heads/*:refs/heads/*",
    ],
    &["clone --bare --depth=1 --branch old {url} c", "-C c fetch origin main:refs/heads/main"],
    &["clone --bare --no-single-branch --shallow-exclude=old {url} c"],
    &["clone --bare --filter=blob:none {url} c", "-C c fetch --refetch --filter=tree:1 origin"],
];

/// The final state of a client.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    refs: String,
    shallow: BTreeSet<String>,
    objects: BTreeSet<String>,
}

/// Runs the commands of a client. `upload_pack` is the program with which it reaches a repository at
/// `file://`.
fn run(url: &str, upload_pack: Option<&str>, version: u32, steps: &[&str]) -> Outcome {
    let what = format!("{url}, {upload_pack:?}, v{version}, {steps:?}");
    let dir = tempfile::tempdir().unwrap();
    for step in steps {
        let mut command = Git::stock().command(dir.path());
        command.args(["-c", &format!("protocol.version={version}"), "-c", "protocol.file.allow=always"]);
        // A refetch starts maintenance in the background, which would interfere with the listing.
        command.args(["-c", "maintenance.auto=false"]);
        for word in step.split(' ') {
            command.arg(word.replace("{url}", url));
            let speaks = matches!(word, "clone" | "fetch");
            command.args(upload_pack.filter(|_| speaks).map(|text| format!("--upload-pack={text}")));
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}\n{stderr}");
        assert_no_panic(&stderr);
    }
    let clone = dir.path().join("c");
    let fsck = Git::stock().run(&clone, &["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert_eq!(fsck.replace("notice: No default references\n", ""), "", "{what}");
    let shallow = std::fs::read_to_string(clone.join("shallow")).unwrap_or_default();
    // Existing objects, not those that could be fetched.
    let all = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"];
    Outcome {
        refs: Git::stock().run(&clone, &["for-each-ref"]),
        shallow: shallow.lines().map(str::to_owned).collect(),
        objects: Git::stock().run(&clone, &all).lines().map(str::to_owned).collect(),
    }
}

/// A shell command that records the call of the hook, and makes the pack.
fn noting(log: &Path, pack_objects: &str) -> String {
    format!("f() {{ echo \"$*\" >>{}; {pack_objects}; }}; f", log.display())
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Every case over every transport gives the same result as stock git without a hook.
fn check(hash: HashKind, ref_format: RefFormat, storage: Storage, versions: &[u32]) {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).ref_format(ref_format).storage(storage).build();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let filters = "uploadpack.allowFilter=true";
    let hook = format!("uploadpack.packObjectsHook={}", noting(&log, "exec \"$@\""));
    let server = Server::start_with(repo.path().parent().unwrap(), &[&hook, filters]);
    let file = format!("file://{}", repo.path().display());
    let name = repo.path().file_name().unwrap().to_str().unwrap().to_owned();
    let urls = [
        (format!("http://{}/{name}", server.http), None),
        (format!("git://{}/{name}", server.git), None),
        (file.clone(), Some(format!("{PACKRACE} -c {} -c {filters} upload-pack", quoted(&hook)))),
    ];
    let stock = format!("{} -c {filters} upload-pack", Git::stock().binary().display());
    for version in versions {
        for steps in CASES {
            let expected = run(&file, Some(&stock), *version, steps);
            for (url, upload_pack) in &urls {
                std::fs::write(&log, "").unwrap();
                let got = run(url, upload_pack.as_deref(), *version, steps);
                let what = format!("{url}, v{version}, {steps:?}");
                assert_eq!(
                    (got.refs, got.shallow),
                    (expected.refs.clone(), expected.shallow.clone()),
                    "{what}"
                );
                let missing: Vec<_> = expected.objects.difference(&got.objects).collect();
                let more: Vec<_> = got.objects.difference(&expected.objects).collect();
                assert!(missing.is_empty() && more.is_empty(), "{what}: missing {missing:?}, more {more:?}");
                let runs = std::fs::read_to_string(&log).unwrap();
                assert!(runs.lines().count() >= 1, "{what}");
                assert!(runs.lines().all(|line| line.contains("pack-objects --revs")), "{what}: {runs}");
            }
        }
    }
}

sampled! {
    fn stock_pack_objects_as_hook(extent) {
        check(HashKind::Sha1, RefFormat::Files, Storage::default(), extent.pick(&[2][..], &[0, 1, 2]));
    }
}

sampled! {
    fn stock_pack_objects_as_hook_of_others(extent) {
        check(HashKind::Sha256, RefFormat::Files, Storage { packs: 3, ..Storage::default() }, extent.pick(&[0][..], &[0, 2]));
    }
}

/// packrace passes the hook the same as git in these cases.
#[test]
fn hooks_are_called_as_by_git() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let file = format!("file://{}", repo.path().display());
    let input = dir.path().join("input");
    let variables = "echo \"$PWD $GIT_DIR $GIT_PROTOCOL $GIT_NO_LAZY_FETCH\"";
    let hook = format!(
        "f() {{ {{ for a in \"$@\"; do echo \"[$a]\"; done; {variables}; tee {input}; }} >>{log}; \"$@\" <{input}; }}; f",
        input = input.display(),
        log = log.display()
    );
    let hook = format!("uploadpack.packObjectsHook={hook}");
    let cases: [&[&str]; 5] = [
        CASES[0],
        CASES[1],
        &["clone --bare --depth=2 {url} c"],
        &["clone --bare --depth=100 {url} c"],
        &["clone --bare --filter=blob:limit=1k {url} c"],
    ];
    for (version, steps) in [0, 1, 2].into_iter().flat_map(|version| cases.map(|steps| (version, steps))) {
        let [stock, ours] = [Git::stock().binary().to_str().unwrap(), PACKRACE].map(|binary| {
            let upload_pack =
                format!("{binary} -c {} -c uploadpack.allowFilter=true upload-pack", quoted(&hook));
            std::fs::write(&log, "").unwrap();
            run(&file, Some(&upload_pack), version, steps);
            std::fs::read_to_string(&log).unwrap()
        });
        assert_eq!(ours, stock, "v{version}, {steps:?}");
    }
}

/// A client gets the error in git's words, and keeps nothing.
#[test]
fn a_hook_that_fails() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        repo.path().parent().unwrap(),
        &["uploadpack.packObjectsHook=f() { echo so sorry >&2; \"$@\"; exit 1; }; f"],
    );
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    for url in [format!("http://{}/{name}", server.http), format!("git://{}/{name}", server.git)] {
        for version in [0, 2] {
            let mut clone = Git::stock().command(dir.path());
            clone.args(["-c", &format!("protocol.version={version}"), "clone", "--mirror", &url, "c"]);
            let output = clone.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(128), "{url}: {stderr}");
            assert!(stderr.contains("remote: so sorry"), "{url}: {stderr}");
            let aborting = "aborting due to possible repository corruption on the remote side.";
            assert!(stderr.contains(aborting), "{url}: {stderr}");
            assert!(!dir.path().join("c").exists());
        }
    }
}

#[test]
fn a_repository_cannot_set_it() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = tempfile::tempdir().unwrap();
    let trap = dir.path().join("trap");
    repo.git(&["config", "uploadpack.packObjectsHook", &format!("touch {}; exit 1;", trap.display())]);
    let server = Server::start(repo.path().parent().unwrap());
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let url = format!("http://{}/{name}", server.http);
    Git::stock().run(dir.path(), &["clone", "-q", "--mirror", &url, "c"]);
    assert!(!trap.exists());
    assert_eq!(reachable_objects(Git::stock(), &dir.path().join("c")), repo.reachable_objects());
}
