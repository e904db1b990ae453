//! A server that is itself a partial clone. git 2.47 does not support the capability `promisor-remote`: the
//! reference is `pack-objects --missing=allow-promisor`, which newer servers run for clients that accept a
//! remote. And a client: what it pushed comes back below the commits of others.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::peer::{Feed, Reply, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Git, Repo, RepoBuilder, Size};

use crate::repack_command::{Role, extensions, objects};
use crate::running::{answer_to, packrace, packrace_with};

/// A repository and a partial clone of it with this filter, which offers it as a promisor remote. The clone
/// has a commit of its own that refers to missing objects.
struct Partial {
    full: Repo,
    dir: tempfile::TempDir,
    head: String,
}

impl Partial {
    fn new(filter: &str) -> Self {
        let full = RepoBuilder::new(Size::Tiny).build();
        full.git(&["config", "uploadpack.allowFilter", "true"]);
        full.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
        let dir = packrace_testkit::scratch_dir();
        let url = format!("file://{}", full.path().display());
        let git = Git::stock();
        git.run(dir.path(), &["clone", "-q", "--mirror", &format!("--filter={filter}"), &url, "."]);
        let tree = git.run(dir.path(), &["rev-parse", "main^{tree}"]);
        let mut commit = git.command(dir.path());
        commit.env("GIT_NO_LAZY_FETCH", "1").args(["commit-tree", tree.trim(), "-p", "main", "-m", "own"]);
        let head = String::from_utf8(commit.output().unwrap().stdout).unwrap().trim().to_owned();
        git.run(dir.path(), &["update-ref", "refs/heads/own", &head]);
        git.run(dir.path(), &["config", "promisor.advertise", "true"]);
        Partial { full, dir, head }
    }

    fn fetch(&self, accepts: &str, arguments: &[&str]) -> Reply {
        let mut script = Script::new().line("command=fetch");
        if !accepts.is_empty() {
            script = script.line(&format!("promisor-remote={accepts}"));
        }
        script = script.delim().line("no-progress").line(&format!("want {}", self.head));
        script = arguments.iter().fold(script, |script, line| script.line(line));
        answer_to(self.dir.path(), 2, script.line("done").flush().flush().bytes(), Feed::Whole)
    }

    /// The objects that stock git packs for `revs`.
    fn stock(&self, revs: &str) -> BTreeSet<String> {
        let args = ["pack-objects", "--missing=allow-promisor", "--revs", "--stdout", "-q"];
        let pack = Git::stock().run_with_input(self.dir.path(), &args, revs.as_bytes());
        self.objects(&pack)
    }

    /// Missing objects come from the full repository.
    fn objects(&self, pack: &[u8]) -> BTreeSet<String> {
        objects_in_pack(Git::stock(), pack, HashKind::Sha1, Some(self.full.path()))
    }

    fn check(&self, arguments: &[&str], revs: &str) {
        let reply = self.fetch("origin", arguments);
        assert!(reply.status.success(), "{arguments:?}: {}", reply.stderr);
        let answer = fetch_answer(&reply.stdout).unwrap();
        let (got, expected) = (self.objects(&answer.bands.pack), self.stock(revs));
        assert!(got.contains(&self.head), "{arguments:?}");
        assert_eq!(got, expected, "{arguments:?}");
        for accepts in ["", "other"] {
            let refused = self.fetch(accepts, arguments);
            assert_eq!(refused.status.code(), Some(128), "{arguments:?}");
            assert!(refused.stderr.contains("fatal: "), "{arguments:?}: {}", refused.stderr);
        }
    }
}

#[test]
fn promised_objects_may_be_missing_for_clients_that_know_where_they_are() {
    for filter in ["blob:none", "blob:limit=100"] {
        let partial = Partial::new(filter);
        partial.check(&[], &partial.head);
        let old = partial.full.git(&["rev-parse", "main~6"]);
        let have = format!("have {}", old.trim());
        let reply = partial.fetch("origin", &[&have]);
        assert!(reply.status.success(), "{}", reply.stderr);
        let sent = partial.objects(&fetch_answer(&reply.stdout).unwrap().bands.pack);
        let expected = partial.stock(&format!("{}\n^{}", partial.head, old.trim()));
        assert!(sent.is_superset(&expected), "{:?} are missing", expected.difference(&sent));
        assert!(sent.len() <= expected.len() + 2, "{} sent, {} needed", sent.len(), expected.len());
    }
}

#[test]
fn what_nobody_promised_may_not_be_missing() {
    let partial = Partial::new("blob:none");
    let git = Git::stock();
    let blob = git.run_with_input(partial.dir.path(), &["hash-object", "-w", "--stdin"], b"lost\n");
    let blob = String::from_utf8(blob).unwrap().trim().to_owned();
    let entry = format!("100644 blob {blob}\tlost\n");
    let tree = git.run_with_input(partial.dir.path(), &["mktree"], entry.as_bytes());
    let tree = String::from_utf8(tree).unwrap();
    let head = git.run(partial.dir.path(), &["commit-tree", tree.trim(), "-p", &partial.head, "-m", "lost"]);
    std::fs::remove_file(partial.dir.path().join("objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let partial = Partial { head: head.trim().to_owned(), ..partial };
    let reply = partial.fetch("origin", &[]);
    assert_eq!(reply.status.code(), Some(128));
    assert!(reply.stderr.contains(&format!("fatal: unable to read {blob}")), "{}", reply.stderr);
}

/// The repository's missing objects are not fetched.
fn offline(dir: &Path, args: &[&str]) -> String {
    let mut command = Git::stock().command(dir);
    let output = command.env("GIT_NO_LAZY_FETCH", "1").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A commit on top of `parent`, with a file in a directory of its own.
fn commit(dir: &Path, parent: &str, name: &str) -> String {
    let git = Git::stock();
    let made = |args: &[&str], input: &str| {
        let id = git.run_with_input(dir, args, input.as_bytes());
        String::from_utf8(id).unwrap().trim().to_owned()
    };
    let blob = made(&["hash-object", "-w", "--stdin"], name);
    let tree = made(&["mktree"], &format!("100644 blob {blob}\t{name}\n"));
    let tree = made(&["mktree"], &format!("040000 tree {tree}\t{name}\n"));
    made(&["commit-tree", &tree, "-p", parent, "-m", name], "")
}

/// `index-pack --promisor` (git 2.48) puts what the received objects link to into promisor packs, too; otherwise
/// `gc` drops it, because walks stop at promisor objects.
#[test]
fn what_promisor_objects_link_to_is_kept() {
    for is_packed in [false, true] {
        let Partial { full, dir, .. } = Partial::new("blob:none");
        let (client, server) = (dir.path(), full.path());
        let git = |args: &[&str]| Git::stock().run(client, args);
        let mine = commit(client, &commit(client, "main", "first"), "second");
        git(&["update-ref", "refs/heads/mine", &mine]);
        git(&["push", "-q", &server.display().to_string(), "mine"]);
        let unpushed = commit(client, &mine, "unpushed");
        git(&["update-ref", "refs/heads/unpushed", &unpushed]);
        if is_packed {
            git(&["repack", "-d", "-q"]);
        }
        let theirs = commit(server, &mine, "theirs");
        let revs = format!("{theirs}\n^{mine}\n");
        let args = ["pack-objects", "--revs", "--thin", "--stdout", "-q", "--filter=blob:none"];
        let pack = Git::stock().run_with_input(server, &args, revs.as_bytes());
        let args = ["index-pack", "--stdin", "--fix-thin", "--promisor"];
        let indexed = packrace_with(client, &args, &pack, &[]);
        assert!(indexed.status.success(), "{}", String::from_utf8_lossy(&indexed.stderr));

        let listed = |args: &[&str]| -> BTreeSet<String> {
            let listed = offline(client, &[&["rev-list", "--objects"], args].concat());
            listed.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
        };
        let outside = listed(&["--all", "--exclude-promisor-objects"]);
        let pushed = listed(&["mine", "--missing=allow-any"]);
        assert_eq!(outside.intersection(&pushed).collect::<Vec<_>>(), [""; 0], "in no promisor pack");
        assert!(outside.contains(&unpushed), "{outside:?}");
        let reached = ["rev-list", "--objects", "--missing=print", &theirs];
        let before = offline(client, &reached);
        for name in ["mine", "unpushed", "own"] {
            git(&["update-ref", "-d", &format!("refs/heads/{name}")]);
        }
        git(&["update-ref", "refs/heads/theirs", &theirs]);
        git(&["gc", "-q", "--prune=now"]);
        assert_eq!(offline(client, &reached), before);
        let gone = Git::stock().command(client).args(["cat-file", "-e", &unpushed]).output().unwrap();
        assert!(!gone.status.success(), "{unpushed} is not kept");
    }
}

/// git before 2.53 forgets what was promised.
#[test]
fn promisor_packs_are_rolled_up_among_themselves() {
    let Partial { full: _full, dir, .. } = Partial::new("blob:none");
    let partial = dir.path().to_owned();
    let git = |args: &[&str]| Git::stock().run(&partial, args);
    git(&["config", "gc.auto", "0"]);
    let missing = git(&["rev-list", "--objects", "--missing=print", "--max-count=4", "main"]);
    let missing: Vec<&str> = missing.lines().filter_map(|line| line.strip_prefix('?')).take(3).collect();
    assert_eq!(missing.len(), 3);
    for id in missing {
        // Each is fetched into a pack of its own.
        git(&["cat-file", "-e", id]);
    }
    let blob = Git::stock().run_with_input(&partial, &["hash-object", "-w", "--stdin"], b"of our own\n");
    let own = String::from_utf8(blob).unwrap().trim().to_owned();
    let packs = || extensions(&partial).into_iter().find(|(kind, _)| kind == "promisor").unwrap().1;
    let mut expected = objects(&partial);
    assert!(expected.contains(&(Role::Loose, own)));
    assert_eq!(packs(), 4);
    let output = packrace(&partial, &["repack", "--geometric=2", "-d", "-q"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(packs(), 2);
    expected = expected
        .into_iter()
        .map(|(role, id)| (if role == Role::Loose { Role::Pack } else { role }, id))
        .collect();
    assert_eq!(objects(&partial), expected);
}
