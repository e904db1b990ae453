//! The caretaker: under pushes by stock git, beside fetches, and where it has no business.

mod served;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use packrace_server::maintenance::{MaintenanceMode, MaintenanceRules};
use packrace_server::receive::Committer;
use packrace_server::settings::{Pushing, ServeRules, Settings};
use packrace_testkit::{Git, RepoBuilder, Size, Storage, reachable_objects};

struct Served {
    folder: tempfile::TempDir,
    http: SocketAddr,
}

impl Served {
    /// `a.git` and `b.git`, to be pushed to by everybody. What came to a repository is looked at at once.
    fn start(mode: MaintenanceMode, read_only: bool) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        for name in ["a.git", "b.git"] {
            let storage = Storage { packs: 7, ..Storage::default() };
            RepoBuilder::new(Size::Tiny).storage(storage).build_at(&root.join(name), Git::stock());
            // Each push brings a pack.
            Git::stock().run(&root.join(name), &["config", "receive.unpackLimit", "1"]);
        }
        let settings = served::settings(folder.path());
        let pushing = Pushing {
            is_allowed: true,
            committer: Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec())),
            ..settings.pushing
        };
        let maintenance =
            MaintenanceRules { mode, delay: Duration::from_millis(1), ..MaintenanceRules::default() };
        let rules = ServeRules { read_only, ..ServeRules::default() };
        let http = served::start(&root, Settings { maintenance, pushing, rules, ..settings })[0];
        Served { folder, http }
    }

    fn repo(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.http)
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tasks(&self, task: &str, outcome: &str) -> u64 {
        let name = format!("packrace_maintenance_tasks_total{{task=\"{task}\",outcome=\"{outcome}\"}} ");
        let text = self.get("/-/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).expect("it is always there");
        line.trim().parse().unwrap()
    }

    fn clone(&self, name: &str) -> PathBuf {
        let to = self.folder.path().join(format!("clone-of-{name}"));
        let _ = std::fs::remove_dir_all(&to);
        Git::stock()
            .run(self.folder.path(), &["clone", "-q", "--mirror", &self.url(name), to.to_str().unwrap()]);
        to
    }

    /// Pushes commits to `a.git`, one by one, and fetches each.
    fn push(&self, count: usize) {
        let git = |args: &[&str]| Git::stock().run(&self.repo("a.git"), args);
        let tree = git(&["rev-parse", "main^{tree}"]);
        let from = self.clone("a.git");
        let git = |args: &[&str]| Git::stock().run(&from, args);
        let mut parent = git(&["rev-parse", "main"]);
        for number in 0..count {
            let message = format!("Push {number}");
            parent = git(&["commit-tree", tree.trim(), "-p", parent.trim(), "-m", &message]);
            git(&["push", "-q", &self.url("a.git"), &format!("{}:refs/heads/main", parent.trim())]);
            let shown = git(&["ls-remote", &self.url("a.git"), "refs/heads/main"]);
            assert!(shown.starts_with(parent.trim()), "{shown}");
        }
    }
}

fn packs(repo: &Path) -> usize {
    let names = std::fs::read_dir(repo.join("objects/pack")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".idx")).count()
}

/// All files with their lengths and times.
fn files(dir: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => {
                    let metadata = path.metadata().unwrap();
                    found.insert(path, (metadata.len(), metadata.modified().unwrap()));
                }
            }
        }
    }
    found
}

/// Nothing is due, and nobody is at work.
fn is_idle(served: &Served) -> bool {
    let metrics = served.get("/-/metrics");
    ["backlog", "running"].iter().all(|name| metrics.contains(&format!("packrace_maintenance_{name} 0\n")))
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_sound(repo: &Path) {
    Git::stock().run(repo, &["fsck", "--full", "--strict", "--no-dangling"]);
}

#[test]
fn pushes_leave_few_packs() {
    let served = Served::start(MaintenanceMode::Auto, false);
    let (a, b) = (served.repo("a.git"), served.repo("b.git"));
    let before = files(&b);
    served.push(25);
    until("rolled up", || served.tasks("geometric-repack", "done") > 0 && packs(&a) <= 12);
    until("at rest", || !a.join("objects/maintenance.lock").exists());
    assert_sound(&a);
    assert_eq!(served.tasks("geometric-repack", "failed"), 0);
    let clone = served.clone("a.git");
    assert_eq!(reachable_objects(Git::stock(), &clone), reachable_objects(Git::stock(), &a));
    // What it was only asked to read is as it was.
    served.clone("b.git");
    assert!(files(&b) == before);
    let page = served.get("/-/");
    assert!(page.contains("Maintenance · 1 repositories"), "{page}");
    assert!(!page.contains("a.git"), "names are not for everybody");
}

#[test]
fn all_repositories_where_that_is_said() {
    let served = Served::start(MaintenanceMode::On, false);
    let b = served.repo("b.git");
    until("packed refs", || served.tasks("pack-refs", "done") + served.tasks("gc", "done") > 0);
    until("looked at", || served.get("/-/").contains("Maintenance · 2 repositories"));
    until("at rest", || !b.join("objects/maintenance.lock").exists());
    assert_sound(&b);
}

#[test]
fn a_server_that_nobody_pushes_to_writes_nothing() {
    for (mode, read_only) in
        [(MaintenanceMode::Auto, false), (MaintenanceMode::On, true), (MaintenanceMode::Off, false)]
    {
        let served = Served::start(mode, read_only);
        let before = [files(&served.repo("a.git")), files(&served.repo("b.git"))];
        for _ in 0..3 {
            served.clone("a.git");
            served.clone("b.git");
        }
        assert!(served.get("/-/metrics").contains("packrace_maintenance_running 0\n"));
        let after = [files(&served.repo("a.git")), files(&served.repo("b.git"))];
        assert!(before == after, "{mode:?}, read-only {read_only}");
    }
}

#[test]
fn where_a_repository_has_it_off_nothing_begins() {
    let served = Served::start(MaintenanceMode::Auto, false);
    let a = served.repo("a.git");
    Git::stock().run(&a, &["config", "gc.auto", "0"]);
    served.push(10);
    until("looked at", || is_idle(&served));
    assert!(packs(&a) >= 10);
    assert_eq!(served.tasks("geometric-repack", "done"), 0);
}

/// Somebody else at work is waited for, and not told of as a failure.
#[test]
fn git_s_own_maintenance_goes_first() {
    let served = Served::start(MaintenanceMode::Auto, false);
    let a = served.repo("a.git");
    std::fs::write(a.join("objects/maintenance.lock"), "").unwrap();
    served.push(8);
    until("looked at", || is_idle(&served));
    assert!(packs(&a) >= 8);
    for outcome in ["done", "failed"] {
        assert_eq!(served.tasks("geometric-repack", outcome), 0);
    }
}
