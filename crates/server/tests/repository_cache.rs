//! A server that keeps repositories open serves what is there now, and gives back what it keeps.

mod served;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use packrace_server::receive::Committer;
use packrace_server::repository_cache::RepositoryCacheSettings;
use packrace_server::send::pack_cache::CacheSettings;
use packrace_server::settings::{Pushing, Settings};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, reachable_objects};

struct Served {
    folder: tempfile::TempDir,
    urls: [String; 2],
}

impl Served {
    /// `a.git`, to be read and pushed to by everybody.
    fn new(format: RefFormat) -> Self {
        Served::start(format, RepositoryCacheSettings::default(), CacheSettings::default())
    }

    /// The same, without packs that are kept, as they keep maps of theirs.
    fn without_cache(format: RefFormat, repository_cache: RepositoryCacheSettings) -> Self {
        Served::start(format, repository_cache, CacheSettings { enabled: false, ..CacheSettings::default() })
    }

    fn start(format: RefFormat, repository_cache: RepositoryCacheSettings, cache: CacheSettings) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Small).ref_format(format).build_at(&root.join("a.git"), Git::stock());
        let settings = served::settings(folder.path());
        let pushing = Pushing {
            is_allowed: true,
            committer: Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec())),
            ..settings.pushing
        };
        let addresses = served::start(&root, Settings { repository_cache, cache, pushing, ..settings });
        let [http, git] = [addresses[0], addresses[1]];
        let urls = [format!("http://{http}/a.git"), format!("git://{git}/a.git")];
        Served { folder, urls }
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("root/a.git")
    }

    fn git(&self, args: &[&str]) -> String {
        Git::stock().run(&self.repo(), args)
    }

    /// What stock git says to this, of the repository behind both transports.
    fn ask(&self, args: &[&str]) -> [Output; 2] {
        self.urls.each_ref().map(|url| {
            let mut command = Git::stock().command(self.folder.path());
            command.args(args).arg(url).stdin(Stdio::null()).output().unwrap()
        })
    }

    /// The refs that both transports show in both versions, as stock git sees them.
    #[track_caller]
    fn refs(&self) -> String {
        let mut seen = None;
        for version in ["protocol.version=2", "protocol.version=0"] {
            for output in self.ask(&["-c", version, "ls-remote", "-q"]) {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let refs = String::from_utf8(output.stdout).unwrap();
                assert_eq!(seen.get_or_insert_with(|| refs.clone()), &refs, "{version}");
            }
        }
        seen.unwrap()
    }

    /// Asks until what is shown comes from a repository that is kept: its packs stay mapped.
    #[track_caller]
    fn fill_cache(&self) -> String {
        until("kept", || {
            std::thread::sleep(Duration::from_millis(60));
            let refs = self.refs();
            (!mapped(self.folder.path()).is_empty()).then_some(refs)
        })
    }

    /// Clones over both transports, and checks what came.
    #[track_caller]
    fn clone_both(&self) {
        let expect = reachable_objects(Git::stock(), &self.repo());
        for (number, url) in self.urls.iter().enumerate() {
            let to = self.folder.path().join(format!("clone{number}"));
            Git::stock().run(self.folder.path(), &["clone", "-q", "--mirror", url, to.to_str().unwrap()]);
            assert_eq!(reachable_objects(Git::stock(), &to), expect);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
}

#[track_caller]
fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The files below the served folder that this process has mapped, or has open; it keeps the folder itself open.
fn mapped(folder: &Path) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let folder = format!("{}/root/", folder.canonicalize().unwrap().display());
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open =
        descriptors.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()));
    maps.lines().map(str::to_owned).chain(open).filter(|line| line.contains(&folder)).collect()
}

fn changes_are_seen_by_the_next_request(format: RefFormat) {
    let served = Served::new(format);
    let tip = served.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let old = served.git(&["rev-parse", "HEAD~1"]).trim().to_owned();
    let check = |what: &str, change: &dyn Fn(), is_as_expected: &dyn Fn(&str, &str) -> bool| {
        let before = served.fill_cache();
        change();
        let after = served.refs();
        assert!(is_as_expected(&before, &after), "{what}\n{before}\n{after}");
        assert_eq!(served.refs(), after);
    };
    let has = |text: &str, name: &str| text.lines().any(|line| line.ends_with(&format!("\t{name}")));
    let git = |args: &[&str]| drop(served.git(args));
    check("a new ref", &|| git(&["update-ref", "refs/heads/new", &tip]), &|before, after| {
        !has(before, "refs/heads/new") && after.contains(&format!("{tip}\trefs/heads/new\n"))
    });
    check("a moved ref", &|| git(&["update-ref", "refs/heads/new", &old]), &|_, after| {
        after.contains(&format!("{old}\trefs/heads/new\n"))
    });
    check("packed refs", &|| git(&["pack-refs", "--all"]), &|before, after| before == after);
    check("a deleted ref", &|| git(&["update-ref", "-d", "refs/heads/new"]), &|_, after| {
        !has(after, "refs/heads/new")
    });
    check("a tag", &|| git(&["tag", "-a", "-m", "x", "tagged", &old]), &|_, after| {
        after.contains(&format!("{old}\trefs/tags/tagged^{{}}\n"))
    });
    check("HEAD", &|| git(&["update-ref", "--no-deref", "HEAD", &old]), &|_, after| {
        after.starts_with(&format!("{old}\tHEAD\n"))
    });
    check("a repack", &|| git(&["repack", "-adq"]), &|before, after| before == after);
    served.clone_both();
    check(
        "bitmaps and a commit-graph",
        &|| {
            git(&["repack", "-adbq"]);
            git(&["commit-graph", "write", "--reachable"]);
        },
        &|before, after| before == after,
    );
    served.clone_both();
    check("gc", &|| git(&["gc", "-q", "--prune=now"]), &|before, after| before == after);
    served.clone_both();
    for key in ["uploadpack.hideRefs", "transfer.hideRefs"] {
        let hide = || git(&["config", key, "refs/tags"]);
        check("hidden refs", &hide, &|before, after| {
            before.contains("refs/tags/") && !after.contains("refs/tags/")
        });
        let show = || git(&["config", "--unset", key]);
        check("shown refs", &show, &|before, after| {
            !before.contains("refs/tags/") && after.contains("refs/tags/")
        });
    }
    let statuses = || served.ask(&["ls-remote", "-q"]).map(|output| output.status.success());
    for (key, transport) in [("http.uploadpack", 0), ("daemon.uploadpack", 1)] {
        served.fill_cache();
        git(&["config", key, "false"]);
        let mut expect = [true, true];
        expect[transport] = false;
        assert_eq!(statuses(), expect, "{key}");
        git(&["config", key, "true"]);
        assert_eq!(statuses(), [true, true], "{key}");
    }
    // An object that nobody has asked for before, loose and packed.
    for repack in [false, true] {
        served.fill_cache();
        let tree = served.git(&["rev-parse", "HEAD^{tree}"]);
        let message = format!("new {repack}");
        let commit = served.git(&["commit-tree", "-m", &message, "-p", &tip, tree.trim()]);
        git(&["update-ref", "refs/heads/later", commit.trim()]);
        if repack {
            git(&["repack", "-dq"]);
        }
        served.clone_both();
    }
}

#[test]
fn changes_in_files_are_seen_by_the_next_request() {
    changes_are_seen_by_the_next_request(RefFormat::Files);
}

#[test]
fn changes_in_reftables_are_seen_by_the_next_request() {
    changes_are_seen_by_the_next_request(RefFormat::Reftable);
}

#[test]
fn pushes_are_seen_by_the_next_request() {
    let served = Served::new(RefFormat::Files);
    let work = served.folder.path().join("work");
    Git::stock().run(served.folder.path(), &["clone", "-q", &served.urls[0], work.to_str().unwrap()]);
    let git = |args: &[&str]| Git::stock().run(&work, args);
    for number in 0..6 {
        if number % 2 == 0 {
            served.fill_cache();
        }
        let (url, other) = (&served.urls[number % 2], &served.urls[(number + 1) % 2]);
        for file in 0..number * 3 {
            std::fs::write(work.join(format!("{number}-{file}")), format!("{number} {file}")).unwrap();
        }
        git(&["add", "."]);
        git(&["commit", "-q", "--allow-empty", "-m", &format!("push {number}")]);
        git(&["push", "-q", url, &format!("HEAD:refs/heads/pushed{number}")]);
        let tip = git(&["rev-parse", "HEAD"]);
        let seen = git(&["ls-remote", other, &format!("refs/heads/pushed{number}")]);
        assert_eq!(seen.split('\t').next(), Some(tip.trim()));
        served.clone_both();
    }
}

#[test]
fn a_repository_goes_and_another_comes() {
    let served = Served::new(RefFormat::Files);
    let root = served.folder.path().join("root");
    for (hash, format) in [("sha256", "files"), ("sha1", "reftable"), ("sha1", "files")] {
        let before = served.fill_cache();
        std::fs::remove_dir_all(served.repo()).unwrap();
        for output in served.ask(&["ls-remote", "-q"]) {
            assert!(!output.status.success());
        }
        let (hash, format) = (format!("--object-format={hash}"), format!("--ref-format={format}"));
        Git::stock().run(&root, &["init", "-q", "--bare", &hash, &format, "a.git"]);
        let tree = served.git(&["hash-object", "-wt", "tree", "/dev/null"]);
        let commit = served.git(&["commit-tree", "-m", &format, tree.trim()]);
        served.git(&["update-ref", "HEAD", commit.trim()]);
        let after = served.refs();
        assert!(after.starts_with(commit.trim()) && before != after, "{after}");
        served.clone_both();
        served.git(&["repack", "-adq"]);
    }
}

#[test]
fn clones_finish_while_packs_are_replaced() {
    let served = Served::new(RefFormat::Files);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(SeqCst) {
                round += 1;
                served.git(&["update-ref", &format!("refs/heads/round{round}"), "HEAD"]);
                served.git(&["repack", "-adfq", &format!("--window={}", round % 5)]);
                served.git(&["prune-packed", "-q"]);
            }
        });
        let clones = (0..4).map(|number| {
            let served = &served;
            scope.spawn(move || {
                for round in 0..3 {
                    let to = served.folder.path().join(format!("to{number}-{round}"));
                    let mut clone: Command = Git::stock().command(served.folder.path());
                    clone.args(["clone", "-q", "--mirror", &served.urls[number % 2]]).arg(&to);
                    let output = clone.output().unwrap();
                    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    Git::stock().run(&to, &["fsck", "--connectivity-only"]);
                }
            })
        });
        let results: Vec<_> = clones.collect::<Vec<_>>().into_iter().map(|clone| clone.join()).collect();
        is_over.store(true, SeqCst);
        results.into_iter().for_each(|result| result.unwrap());
    });
}

#[test]
fn what_is_idle_is_given_back() {
    let repository_cache = RepositoryCacheSettings {
        idle_time: Duration::from_millis(300),
        ..RepositoryCacheSettings::default()
    };
    let served = Served::without_cache(RefFormat::Reftable, repository_cache);
    served.clone_both();
    until("given back", || mapped(served.folder.path()).is_empty().then_some(()));
    served.clone_both();
    until("given back again", || mapped(served.folder.path()).is_empty().then_some(()));
}

/// Also where nobody asks, and long before it would be idle.
#[test]
fn deleted_packs_are_given_back() {
    let repository_cache =
        RepositoryCacheSettings { idle_time: Duration::from_secs(600), ..RepositoryCacheSettings::default() };
    let served = Served::without_cache(RefFormat::Files, repository_cache);
    served.fill_cache();
    served.git(&["repack", "-adfq", "--window=3", "--depth=1"]);
    let is_deleted = |line: &String| line.contains("(deleted)");
    until("given back", || (!mapped(served.folder.path()).iter().any(is_deleted)).then_some(()));
}

#[test]
fn nothing_is_kept_where_it_is_turned_off() {
    let served = Served::without_cache(
        RefFormat::Files,
        RepositoryCacheSettings { enabled: false, ..RepositoryCacheSettings::default() },
    );
    served.clone_both();
    served.refs();
    until("given back", || mapped(served.folder.path()).is_empty().then_some(()));
}
