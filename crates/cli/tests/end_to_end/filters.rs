//! Partial clones: stock git as the client gets the same from packrace as from itself, and finds the rest
//! when needed.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::peer::{self, Feed, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Bitmap, Git, Repo, RepoBuilder, Size, Storage, sampled};

use crate::matrix::{Served, TRANSPORTS, Transport, server_command, succeed};
use crate::running::{Server, answer_to, upload_pack};

/// A blob with patterns, and a ref to it.
const PATTERNS: &str = "/*\n!/*/\n/src/0?/\n";

fn build(hash: HashKind, storage: Storage) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
    let patterns = repo.git_with_input(&["hash-object", "-w", "--stdin"], PATTERNS.as_bytes());
    repo.git(&["update-ref", "refs/meta/patterns", patterns.trim()]);
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    // In versions 0 and 1 a client may request missing objects by name only with this setting.
    repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    repo
}

const SPECS: [&str; 8] = [
    "blob:none",
    "blob:limit=600",
    "tree:0",
    "tree:1",
    "tree:3",
    "object:type=commit",
    "sparse:oid=refs/meta/patterns",
    "combine:tree:3+sparse:oid=refs/meta/patterns+blob:limit=1k",
];

/// The number of objects that one server makes a client fetch as delta bases, and the other does not.
const MAX_BASES: usize = 4;

/// The contents and abilities of a partial clone.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Objects that came with the clone.
    cloned: BTreeSet<String>,
    /// Git's list after that, with `?` before missing objects.
    listed: BTreeSet<String>,
    /// The objects after a fetch of the rest and a checkout.
    in_the_end: BTreeSet<String>,
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_string).collect()
}

/// Clones the older half, fetches the newer one, checks out.
fn run(client: &Git, served: &Served<'_>, transport: Transport, version: u32, spec: &str) -> Outcome {
    let what = format!("{spec} over {transport:?}, v{version}, {:?}, {:?}", client.version(), served.path);
    let dir = packrace_testkit::scratch_dir();
    let clone = dir.path().join("c");
    let git = |at: &Path, words: &[&str]| {
        let mut command = client.command(at);
        command.args(["-c", &format!("protocol.version={version}"), "-c", "gc.auto=0"]);
        command.args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"]);
        succeed(command.args(words), &what)
    };
    let filter = format!("--filter={spec}");
    let mut words = vec!["clone", "-q", "--no-checkout", "--single-branch", "--branch=old", &filter];
    let program = server_command(transport).map(|command| format!("--upload-pack={command}"));
    words.extend(program.as_deref());
    let url = served.url(transport);
    words.extend([url.as_str(), "c"]);
    git(dir.path(), &words);
    let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"];
    let missing = ["rev-list", "--objects", "--no-object-names", "--all", "--missing=print"];
    let (cloned, listed) = (lines(&git(&clone, &all)), lines(&git(&clone, &missing)));
    git(&clone, &["fetch", "-q", "origin", "+refs/heads/main:refs/remotes/origin/main"]);
    git(&clone, &["checkout", "-q", "--detach", "origin/main"]);
    assert_eq!(git(&clone, &["status", "--porcelain"]), "", "{what}");
    git(&clone, &["fsck", "--no-dangling", "--no-progress"]);
    Outcome { cloned, listed, in_the_end: lines(&git(&clone, &all)) }
}

/// Every filter over these transports gives the same result as stock git with itself.
fn check(client: &Git, served: &Served<'_>, transports: &[Transport], versions: &[u32], specs: &[&str]) {
    for (version, spec) in versions.iter().flat_map(|version| specs.iter().map(move |spec| (*version, *spec)))
    {
        let expected = run(client, served, Transport::Stock, version, spec);
        for transport in transports {
            let got = run(client, served, *transport, version, spec);
            let what = format!("{spec} over {transport:?}, v{version}, {:?}", served.path);
            assert_eq!((&got.cloned, &got.listed), (&expected.cloned, &expected.listed), "{what}");
            // Deltas of the fetch may have bases that the client lacks. It gets them then; which ones is the
            // server's choice.
            let others = got.in_the_end.symmetric_difference(&expected.in_the_end).count();
            assert!(others <= MAX_BASES, "{what}: {others} objects differ in the end");
        }
    }
}

sampled! {
    fn filters_over_every_door(extent) {
        let repo = build(HashKind::Sha1, Storage::default());
        let server = Server::start(repo.path().parent().unwrap());
        let served = Served { path: repo.path(), hash: HashKind::Sha1, server: Some(&server) };
        check(Git::stock(), &served, &TRANSPORTS, &[2], extent.pick(&[SPECS[7]][..], &["blob:none", "tree:0", SPECS[7]]));
        check(Git::stock(), &served, &TRANSPORTS[..2], &[0], &["combine:tree:3+blob:limit=600"]);
        check(Git::stock(), &served, &[Transport::UploadPack], &[0], extent.pick(&[SPECS[6]][..], &["blob:none", "tree:1", SPECS[6]]));
        check(Git::stock(), &served, &[Transport::UploadPack], &[1], &["tree:1"]);
    }
}

sampled! {
    fn an_older_client(extent) {
        let client = Git::old().unwrap_or(Git::stock());
        println!("the older client is {}.{}", client.version().0, client.version().1);
        let repo = build(HashKind::Sha1, Storage::default());
        let served = Served { path: repo.path(), hash: HashKind::Sha1, server: None };
        check(client, &served, &[Transport::UploadPack], extent.pick(&[2][..], &[0, 2]), extent.pick(&[SPECS[6]][..], &["blob:none", "tree:0", SPECS[6]]));
    }
}

sampled! {
    fn every_filter_with_sha256_and_a_bitmap(extent) {
        let repo = build(HashKind::Sha256, Storage { bitmap: Bitmap::Plain, ..Storage::default() });
        let served = Served { path: repo.path(), hash: HashKind::Sha256, server: None };
        let specs: Vec<&str> = SPECS.into_iter().step_by(extent.step(SPECS.len(), 4)).collect();
        check(Git::stock(), &served, &[Transport::UploadPack], &[2], &specs);
    }
}

/// The objects of a pack for a request in version 2.
fn requested(repo: &Repo, program: &mut std::process::Command, lines: &[String]) -> BTreeSet<String> {
    let mut script =
        Script::new().line("command=fetch").line(&format!("object-format={}", repo.hash())).delim();
    for line in lines {
        script = script.line(line);
    }
    let script = script.line("done").flush();
    let reply = peer::stdio(program, script.bytes(), Feed::Whole);
    let answer =
        fetch_answer(&reply.stdout).unwrap_or_else(|why| panic!("{lines:?}: {why}\n{}", reply.stderr));
    assert!(answer.bands.error.is_empty(), "{lines:?}: {:?}", answer.bands);
    objects_in_pack(Git::stock(), &answer.bands.pack, repo.hash(), Some(repo.path()))
}

sampled! {
    /// Requests with included tags, thin packs, depths, and objects wanted by name.
    fn requests_as_stock_git_answers_them(extent) {
        let storages = [
            Storage::default(),
            Storage { bitmap: Bitmap::Plain, ..Storage::default() },
            Storage { packs: 4, alternate: true, ..Storage::default() },
            Storage { packs: 3, multi_pack_index: true, bitmap: Bitmap::LookupTable, ..Storage::default() },
        ];
        for (number, storage) in storages.into_iter().enumerate() {
            let repo = build(HashKind::Sha1, storage);
            let id = |rev: &str| repo.git(&["rev-parse", rev]).trim().to_string();
            let wants = |revs: &[&str]| revs.iter().map(|rev| format!("want {}", id(rev))).collect::<Vec<_>>();
            let have = format!("have {}", id("main~9"));
            let plain = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
            let cases = [
                wants(&["main"]),
                [wants(&["main"]), plain(&["include-tag", "ofs-delta"])].concat(),
                [wants(&["main"]), plain(&["include-tag", "thin-pack", "ofs-delta", &have])].concat(),
                [wants(&["main", "old"]), plain(&["deepen 3"])].concat(),
                wants(&["main:empty", "main:bin/run"]),
                [wants(&["main:empty", "main:bin"]), plain(&["thin-pack"])].concat(),
                wants(&["nested-outermost", "of-a-blob"]),
            ];
            let specs = [&SPECS[..], &["object:type=tag", "object:type=tree", "object:type=blob"]].concat();
            let all = specs.iter().flat_map(|spec| cases.iter().map(move |case| (spec, case)));
            for (spec, case) in all.skip(extent.pick(number, 0)).step_by(extent.step(specs.len() * cases.len(), 20)) {
                let request = [case.as_slice(), &[format!("filter {spec}")]].concat();
                let ours = requested(&repo, &mut upload_pack(repo.path(), 2), &request);
                let mut stock = Git::stock().command(repo.path());
                stock.args(["upload-pack", "."]).env("GIT_PROTOCOL", "version=2");
                let expect = requested(&repo, &mut stock, &request);
                let had = match request.contains(&have) {
                    true => lines(&repo.git(&["rev-list", "--objects", "--no-object-names", "main~9"])),
                    false => BTreeSet::new(),
                };
                let differing: Vec<_> =
                    ours.symmetric_difference(&expect).filter(|id| !had.contains(*id)).collect();
                assert!(differing.is_empty(), "{request:?}: {differing:?}");
            }
        }
    }
}

#[test]
fn filters_that_are_refused() {
    let repo = build(HashKind::Sha1, Storage::default());
    repo.git(&["config", "uploadpackfilter.blob:limit.allow", "false"]);
    repo.git(&["config", "uploadpackfilter.tree.maxDepth", "2"]);
    let main = repo.git(&["rev-parse", "main"]);
    let deep = format!("{}blob:none", "combine:".repeat(7000));
    for (spec, words) in [
        ("foo", "invalid filter-spec 'foo'"),
        ("", "invalid filter-spec ''"),
        ("tree:x", "expected 'tree:<depth>'"),
        ("tree:18446744073709551616", "expected 'tree:<depth>'"),
        ("tree:3", "tree filter allows max depth 2, but got 3"),
        ("blob:limit=1", "filter 'blob:limit' not supported"),
        ("combine:tree:1+blob:limit=1", "filter 'blob:limit' not supported"),
        ("combine:a(b", "must escape char in sub-filter-spec: '('"),
        ("sparse:path=/etc/passwd", "sparse:path filters support has been dropped"),
        (&deep, "filter-spec has more than 32 combine filters within each other"),
    ] {
        let v2 = Script::new().line("command=fetch").delim().line(&format!("want {}", main.trim()));
        let v2 = v2.line(&format!("filter {spec}")).line("done").flush();
        let v0 = Script::new().line(&format!("want {} side-band-64k filter", main.trim()));
        let v0 = v0.line(&format!("filter {spec}")).flush().line("done");
        for (version, script) in [(0, v0), (2, v2)] {
            let reply = answer_to(repo.path(), version, script.bytes(), Feed::Whole);
            let error = format!("ERR {words}");
            let said = String::from_utf8_lossy(&reply.stdout);
            assert!(
                said.ends_with(&error),
                "v{version} {spec}: {:?}",
                &said[said.len().saturating_sub(200)..]
            );
            assert_eq!(reply.status.code(), Some(128), "v{version} {spec}");
        }
    }
}

/// Noticed only while the pack is planned: the client gets the reason instead of a pack.
#[test]
fn patterns_that_are_none() {
    let repo = build(HashKind::Sha1, Storage::default());
    let main = repo.git(&["rev-parse", "main"]);
    let large = repo.git_with_input(&["hash-object", "-w", "--stdin"], &vec![b'\n'; 9 << 20]);
    let many = repo.git_with_input(&["hash-object", "-w", "--stdin"], "a\n".repeat(70_000).as_bytes());
    for (name, words) in [
        ("no-such", "unable to access sparse blob in 'no-such'".to_owned()),
        ("main:no-such", "unable to access sparse blob in 'main:no-such'".to_owned()),
        ("main", format!("unable to parse sparse filter data in {}", main.trim())),
        (large.trim(), "more than 8388608 bytes of sparse patterns".to_owned()),
        (many.trim(), "more than 65536 sparse patterns".to_owned()),
    ] {
        let script = Script::new().line("command=fetch").delim().line(&format!("want {}", main.trim()));
        let script = script.line(&format!("filter sparse:oid={name}")).line("done").flush();
        let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
        let said = String::from_utf8_lossy(&reply.stdout);
        assert!(said.contains(&format!("fatal: {words}\n")), "{name}: {said}");
        assert!(
            said.ends_with("aborting due to possible repository corruption on the remote side."),
            "{said}"
        );
        assert!(!said.contains("PACK"), "{said}");
        assert_eq!(reply.status.code(), Some(128), "{name}");
    }
}

#[test]
fn filters_are_offered_where_configuration_says_so() {
    let repo = build(HashKind::Sha1, Storage::default());
    let offered = |version: u32| {
        let reply = answer_to(repo.path(), version, b"0000", Feed::Whole);
        String::from_utf8_lossy(&reply.stdout).contains(" filter")
    };
    assert!(offered(0) && offered(1) && offered(2));
    repo.git(&["config", "uploadpack.allowFilter", "false"]);
    assert!(!offered(0) && !offered(1) && !offered(2));
}
