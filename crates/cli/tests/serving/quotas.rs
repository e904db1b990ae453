//! Quotas of repositories: bytes and refs, with messages for the pusher, over each transport.

use super::*;

struct Limited {
    server: Server,
    clone: tempfile::TempDir,
}

impl Limited {
    fn start(settings: &str) -> Self {
        let config = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\ngit = \"127.0.0.1:0\"\n[push]\nallowed = true\n{settings}"
        );
        let server = Server::start(&config, &[], &[]);
        let clone = tempfile::tempdir().unwrap();
        let from = server.repository();
        Git::stock().run(clone.path(), &["clone", "-q", "--bare", from.to_str().unwrap(), "c"]);
        Limited { server, clone }
    }

    fn git(&self, args: &[&str]) -> String {
        Git::stock().run(&self.clone.path().join("c"), args).trim().to_owned()
    }

    /// A commit with an incompressible file of this size.
    fn commit(&self, bytes: usize) -> String {
        let file = self.clone.path().join("file");
        std::fs::write(&file, packrace_testkit::Random::new(bytes as u64).bytes(bytes)).unwrap();
        let blob = self.git(&["hash-object", "-w", file.to_str().unwrap()]);
        let index = self.clone.path().join("index");
        let _ = std::fs::remove_file(&index);
        let tree = |args: &[&str]| {
            let mut git = Command::new("git");
            clean_environment(&mut git);
            git.current_dir(self.clone.path().join("c")).env("GIT_INDEX_FILE", &index).args(args);
            String::from_utf8(output(&mut git).stdout).unwrap().trim().to_owned()
        };
        tree(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},file")]);
        let tree = tree(&["write-tree"]);
        self.git(&["commit-tree", &tree, "-m", "A file"])
    }

    fn push(&self, scheme: &str, specs: &[&str]) -> (bool, String) {
        let mut git = Command::new("git");
        clean_environment(&mut git);
        let url = format!("{scheme}://{}/a.git", self.server.address(scheme));
        git.current_dir(self.clone.path().join("c")).args(["push", "-q", &url]).args(specs);
        let pushed = output(&mut git);
        (pushed.status.success(), String::from_utf8_lossy(&pushed.stderr).into_owned())
    }
}

#[test]
fn a_repository_holds_no_more_bytes_than_it_may() {
    let limited = Limited::start("max-repository-bytes = \"1m\"\n");
    let [large, half, other] = [2 << 20, 600 << 10, 601 << 10].map(|bytes| limited.commit(bytes));
    for scheme in ["http", "git"] {
        let (ok, said) = limited.push(scheme, &[&format!("{large}:refs/heads/large")]);
        assert!(!ok && said.contains("error: repository is limited to 1.0 MiB, and has "), "{said}");
    }
    let (ok, said) = limited.push("http", &[&format!("{half}:refs/heads/half")]);
    assert!(ok, "{said}");
    for scheme in ["http", "git"] {
        let (ok, said) = limited.push(scheme, &[&format!("{other}:refs/heads/other")]);
        assert!(!ok && said.contains("error: repository is limited to 1.0 MiB"), "{said}");
    }
    // Pushes that add nothing, or delete, are accepted even if the quota was lowered.
    let config = std::fs::read_to_string(limited.server.config()).unwrap().replace("\"1m\"", "1000");
    std::fs::write(limited.server.config(), config).unwrap();
    limited.server.signal("-HUP");
    limited
        .server
        .wait_until("the quota", |server| server.log().contains("changed: push.max-repository-bytes"));
    assert!(limited.push("git", &[&format!("{half}:refs/heads/again")]).0);
    assert!(limited.push("http", &[":refs/heads/half"]).0);
    let small = limited.commit(10);
    let (ok, said) = limited.push("http", &[&format!("{small}:refs/heads/small"), ":refs/heads/again"]);
    assert!(!ok && said.contains("small (quota exceeded)") && !said.contains("again (quota"), "{said}");
    let words = "error: repository is limited to 0.0 MiB: it has 0.";
    assert!(said.contains(words) && said.contains(", and this push adds 0.0 MiB"), "{said}");
    let refs = Git::stock()
        .run(&limited.server.repository(), &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    for name in ["large", "half", "other", "small", "again"] {
        assert!(!refs.lines().any(|line| line == name), "{refs}");
    }
    let metrics = String::from_utf8(limited.server.get("/-/metrics").body).unwrap();
    assert!(metrics.contains("packrace_refusals_total{reason=\"quota\"} 5\n"), "{metrics}");
    let left = std::fs::read_dir(limited.server.repository().join("objects")).unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_"));
    assert_eq!(left.count(), 0, "nothing stays of what was refused");
}

#[test]
fn a_repository_has_no_more_refs_than_it_may() {
    let limited = Limited::start("max-repository-refs = 0\n");
    let count =
        |limited: &Limited| Git::stock().run(&limited.server.repository(), &["for-each-ref"]).lines().count();
    let held = count(&limited);
    let config = std::fs::read_to_string(limited.server.config()).unwrap();
    let config = config.replace("refs = 0", &format!("refs = {}", held + 1));
    std::fs::write(limited.server.config(), config).unwrap();
    limited.server.signal("-HUP");
    limited
        .server
        .wait_until("the quota", |server| server.log().contains("changed: push.max-repository-refs"));
    let (ok, said) = limited.push("http", &["HEAD:refs/heads/one", "HEAD:refs/heads/two"]);
    let words =
        format!("error: repository is limited to {} refs: it has {held}, and this push creates 2", held + 1);
    assert!(!ok && said.contains(&words) && said.contains("one (quota exceeded)"), "{said}");
    assert!(limited.push("git", &["HEAD:refs/heads/one"]).0);
    assert!(!limited.push("git", &["HEAD:refs/heads/two"]).0);
    // A new ref may replace a deleted one, and existing refs may change.
    let commit = limited.commit(1);
    let (ok, said) = limited.push("http", &[":refs/heads/one", "HEAD:refs/heads/two"]);
    assert!(ok, "{said}");
    assert!(limited.push("http", &[&format!("+{commit}:refs/heads/two")]).0);
    assert_eq!(count(&limited), held + 1);
}
