//! Pushes to a bucket, by stock git and through several nodes.

use packrace_testkit::{BucketServer, Repo};

use super::bucket::{Node, Store, log_of};
use super::*;

/// A work tree to push from.
pub(super) struct Work {
    place: tempfile::TempDir,
}

impl Work {
    pub(super) fn of(url: &str) -> Self {
        Work::of_with(url, &[])
    }

    /// The same with options for git.
    pub(super) fn of_with(url: &str, options: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        Git::stock().run(place.path(), &[options, &["clone", "--quiet", url, "work"]].concat());
        Work { place }
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.place.path().join("work")
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        Git::stock().run(&self.dir(), args)
    }

    /// Makes a commit, and returns its id.
    pub(super) fn commit(&self, what: &str) -> String {
        std::fs::write(self.dir().join("file"), what).unwrap();
        self.git(&["add", "file"]);
        self.git(&["commit", "--quiet", "-m", what]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Git's output for a push, which must fail.
    #[track_caller]
    pub(super) fn refused(&self, args: &[&str]) -> String {
        let mut command = Git::stock().command(&self.dir());
        let ran = output(command.arg("push").args(args));
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success(), "{said}");
        said
    }
}

pub(super) fn imported(server: &BucketServer) -> (Store, Repo) {
    let (store, repo) = (Store::of(server), RepoBuilder::new(Size::Tiny).build());
    repo.git(&["config", "receive.denyNonFastForwards", "true"]);
    store.import(&repo, "a");
    (store, repo)
}

pub(super) fn node(store: &Store, args: &[&str]) -> Node {
    Node::start(store, tempfile::tempdir().unwrap(), &[&["--allow-push"], args].concat())
}

/// A folder of hooks.
pub(super) fn hooks(all: &[(&str, String)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, script) in all {
        packrace_testkit::write_program(&dir.path().join(name), &format!("#!/bin/sh\n{script}"));
    }
    dir
}

/// The numbers of reads and writes among these requests.
fn reads_and_writes(requests: &[String]) -> (usize, usize) {
    let count = |method: &str| requests.iter().filter(|request| request.starts_with(method)).count();
    (count("GET "), count("PUT "))
}

/// Checks that the cache contains only what its heads name.
#[track_caller]
fn check_cache(node: &Node) {
    let objects = node.folder.path().join("cache/repositories/a.git/objects");
    let names: Vec<String> = std::fs::read_dir(&objects)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "info" && name != "pack")
        .collect();
    assert_eq!(names, [""; 0]);
    let scratch = std::fs::read_dir(node.folder.path().join("cache/scratch")).unwrap();
    assert_eq!(scratch.count(), 0);
}

#[test]
fn what_one_node_takes_all_nodes_serve() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let nodes = [node(&store, &["--git", "127.0.0.1:0"]), node(&store, &[])];
    let work = Work::of(&nodes[0].url("a.git"));
    let branch = work.git(&["symbolic-ref", "--short", "HEAD"]).trim().to_owned();
    let mut tip = String::new();
    let urls = [nodes[0].url("a.git"), nodes[1].url("a.git"), nodes[0].git_url("a.git")];
    for (at, url) in urls.iter().cycle().take(6).enumerate() {
        tip = work.commit(&format!("change {at}"));
        server.take_requests();
        work.git(&["push", "--quiet", url, "HEAD"]);
        // One read per HTTP request, of which a push makes two, and one per git:// connection. Small packs
        // are stored in the head.
        let reads = if url.starts_with("http:") { 2 } else { 1 };
        assert_eq!(reads_and_writes(&server.take_requests()), (reads, 1), "{url}");
        for node in &nodes {
            let refs = node.clone_refs("a.git");
            assert!(refs.contains(&format!("{tip} refs/heads/{branch}\n")), "{refs}");
        }
    }
    // Large packs are uploaded.
    let noise = packrace_testkit::Random::new(1).bytes(100_000);
    std::fs::write(work.dir().join("noise"), noise).unwrap();
    work.git(&["add", "noise"]);
    let large = work.commit("noise");
    server.take_requests();
    work.git(&["push", "--quiet", &urls[1], "HEAD", "HEAD:refs/heads/other", "HEAD~3:refs/heads/old"]);
    assert_eq!(reads_and_writes(&server.take_requests()), (2, 2));
    // Creations and a deletion in one push.
    work.git(&["push", "--quiet", &urls[0], "HEAD:refs/heads/third", ":refs/heads/old", "--force"]);
    let refs = nodes[1].clone_refs("a.git");
    assert!(
        refs.contains(&format!("{large} refs/heads/third\n")) && !refs.contains("refs/heads/old"),
        "{refs}"
    );
    // Changes that the repository forbids.
    let said = work.refused(&[&urls[0], &format!("+{tip}:refs/heads/other")]);
    assert!(said.contains("denying non-fast-forward refs/heads/other"), "{said}");
    let said =
        work.refused(&["--atomic", &urls[0], "HEAD:refs/heads/fourth", &format!("+{tip}:refs/heads/other")]);
    assert!(said.contains("atomic push failure"), "{said}");
    assert_eq!(nodes[1].clone_refs("a.git"), refs);
    work.git(&["push", "--quiet", "--atomic", &urls[0], "HEAD:refs/heads/fourth", "HEAD:refs/heads/fifth"]);
    nodes.iter().for_each(check_cache);
    // A new node, and stock git.
    let fresh = node(&store, &[]);
    assert_eq!(fresh.clone_refs("a.git"), nodes[0].clone_refs("a.git"));
    let exported = work.place.path().join("exported.git");
    store.run(&["export", "a", exported.to_str().unwrap()]);
    Git::stock().run(&exported, &["fsck", "--strict", "--no-dangling"]);
    let pushes = nodes.iter().map(|node| node.metric("packrace_bucket_pushes_total")).sum::<u64>();
    assert_eq!(pushes, 9);
}

/// While a node checks a push, another node commits one to the same ref.
#[test]
fn who_comes_second_is_rejected_in_git_s_words() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let first = node(&store, &[]);
    let (one, two) = (Work::of(&first.url("a.git")), Work::of(&first.url("a.git")));
    let (winner, _) = (one.commit("one"), two.commit("two"));
    let script = format!(
        "unset $(git rev-parse --local-env-vars) GIT_QUARANTINE_PATH\n\
         exec git -C '{}' push --quiet '{}' HEAD:refs/heads/contended >&2\n",
        one.dir().display(),
        first.url("a.git")
    );
    let hooks = hooks(&[("pre-receive", script)]);
    let second = node(&store, &["--set", &format!("serve.hooks={}", hooks.path().display())]);
    let said = two.refused(&[&second.url("a.git"), "HEAD:refs/heads/contended", "HEAD:refs/heads/alone"]);
    assert!(
        said.contains("[remote rejected] HEAD -> contended (reference already exists)"),
        "{said}{}",
        log_of(&second.folder)
    );
    assert!(said.contains("[new branch]      HEAD -> alone"), "{said}");
    for node in [&first, &second] {
        assert!(node.clone_refs("a.git").contains(&format!("{winner} refs/heads/contended\n")));
    }
    assert_eq!(second.metric("packrace_bucket_swaps_total{outcome=\"lost\"}"), 1);
    assert_eq!(second.metric("packrace_bucket_swaps_total{outcome=\"won\"}"), 1);
    check_cache(&second);
}

#[test]
fn hooks_see_what_is_pushed_and_refs_wait_for_the_bucket() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let record = tempfile::NamedTempFile::new().unwrap();
    let log = record.path().display();
    let hooks = hooks(&[
        ("pre-receive", format!("read old new ref; git cat-file -e $new && echo pre-receive >>'{log}'\n")),
        (
            "update",
            format!(
                "git cat-file -e $3 && echo update >>'{log}'; git update-ref refs/heads/bad $3 2>>'{log}'\ntrue\n"
            ),
        ),
        ("reference-transaction", format!("read old new ref; git cat-file -e $new && echo $1 >>'{log}'\n")),
        (
            "post-receive",
            format!("read old new ref; test $(git rev-parse $ref) = $new && echo post-receive >>'{log}'\n"),
        ),
    ]);
    let node = node(&store, &["--set", &format!("serve.hooks={}", hooks.path().display())]);
    let work = Work::of(&node.url("a.git"));
    work.commit("hooked");
    work.git(&["push", "--quiet", &node.url("a.git"), "HEAD"]);
    let said = std::fs::read_to_string(record.path()).unwrap();
    let forbidden = "ref updates forbidden inside quarantine environment";
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains(forbidden)).collect();
    assert_eq!(
        lines,
        ["pre-receive", "update", "preparing", "prepared", "committed", "post-receive"],
        "{said}"
    );
    assert!(said.contains(forbidden) && !node.clone_refs("a.git").contains("refs/heads/bad"), "{said}");
    check_cache(&node);
}

/// If the store does not respond, the client is told neither that its push was committed nor that it was not.
#[test]
fn a_store_that_goes_away_loses_nothing() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let place = tempfile::tempdir().unwrap();
    let (there, back) = (place.path().join("there"), place.path().join("back"));
    output(Command::new("mkfifo").args([&there, &back]));
    let script = format!("echo >'{}'; read line <'{}'; true\n", there.display(), back.display());
    let hooks = hooks(&[("pre-receive", script)]);
    let hooked = node(&store, &["--set", &format!("serve.hooks={}", hooks.path().display())]);
    let plain = node(&store, &[]);
    let work = Work::of(&plain.url("a.git"));
    let tip = work.commit("away");
    let before = plain.clone_refs("a.git");
    std::thread::scope(|scope| {
        let push = scope.spawn(|| work.refused(&[&hooked.url("a.git"), "HEAD:refs/heads/away"]));
        std::fs::read(&there).unwrap();
        server.set_busy(true);
        std::fs::write(&back, "\n").unwrap();
        let said = push.join().unwrap();
        assert!(said.contains("outcome of the push is unknown"), "{said}");
    });
    // If the store is away at the start, a push is refused like any request.
    let said = work.refused(&[&plain.url("a.git"), "HEAD:refs/heads/away"]);
    assert!(said.contains("503"), "{said}");
    server.set_busy(false);
    assert_eq!(plain.clone_refs("a.git"), before);
    work.git(&["push", "--quiet", &plain.url("a.git"), "HEAD:refs/heads/away"]);
    assert!(plain.clone_refs("a.git").contains(&format!("{tip} refs/heads/away\n")));
    assert_eq!(hooked.metric("packrace_bucket_swaps_total{outcome=\"unknown\"}"), 1);
}

#[test]
fn a_push_makes_a_repository_where_that_is_allowed() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("gitconfig");
    std::fs::write(&config, "[packrace]\n\tcreateOnPush = true\n[init]\n\tdefaultBranch = trunk\n").unwrap();
    let variables = vec![("GIT_CONFIG_GLOBAL".to_owned(), config.to_str().unwrap().to_owned())];
    let plain = node(&store, &[]);
    let work = Work::of(&plain.url("a.git"));
    let said = work.refused(&[&plain.url("team/new.git"), "HEAD:refs/heads/trunk"]);
    assert!(said.contains("404") || said.contains("not found"), "{said}");
    let making = Node::start(&store.with(variables), tempfile::tempdir().unwrap(), &["--allow-push"]);
    work.git(&["push", "--quiet", &making.url("team/new.git"), "HEAD:refs/heads/trunk"]);
    let tip = work.git(&["rev-parse", "HEAD"]);
    assert_eq!(plain.clone_refs("team/new.git"), format!("{} refs/heads/trunk\n", tip.trim()));
    let said = work.refused(&[&making.url("team/new"), "HEAD:refs/heads/other", ":refs/heads/trunk"]);
    assert!(said.contains("refusing to delete the current branch: refs/heads/trunk"), "{said}");
    assert!(store.run(&["list"]).lines().any(|line| line == "team/new.git"));
    work.refused(&[&making.url("a.git/b.git"), "HEAD:refs/heads/trunk"]);
}
