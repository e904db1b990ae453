use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::sync::Barrier;

use packrace_object::HashKind;
use packrace_os::simulated::{DiskFault, DiskOp, DiskStep, on_disk};
use packrace_store::init::{InitOptions, Template};
use packrace_store::refs::Backend;
use packrace_store::{ConfigSources, OpenOptions, Repository};
use packrace_testkit::Git;

use super::*;

fn prototype() -> NewRepositories {
    let options = InitOptions {
        git_dir: PathBuf::new(),
        object_dir: None,
        gitfile: None,
        work_tree: None,
        is_bare: true,
        is_bare_guessed: false,
        template: Template::BuiltIn,
        hash: None,
        default_hash: HashKind::Sha1,
        refs: None,
        default_refs: Backend::Files,
        sharing: None,
        config: ConfigSources::default(),
        sections: Vec::new(),
    };
    NewRepositories { options, head: b"refs/heads/main".to_vec() }
}

/// A served folder.
struct Site {
    dir: tempfile::TempDir,
    folder: RepositoryFolder,
}

impl Site {
    fn new() -> Self {
        let dir = packrace_testkit::scratch_dir();
        fs::create_dir(dir.path().join("root")).unwrap();
        let folder = RepositoryFolder::new(&dir.path().join("root")).unwrap();
        Site { dir, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.root.join(name)
    }

    fn create(&self, name: &str) -> Result<PathBuf, RepositoryError> {
        self.folder.create(&RepositoryName::new(name)?, &prototype(), &CreateOptions::default())
    }

    fn list(&self, after: Option<&str>) -> Vec<String> {
        let mut names = Vec::new();
        let visit = &mut |found: ListedRepository| {
            names.push(found.name());
            ControlFlow::Continue(())
        };
        self.folder.list(after.map(Path::new), visit).unwrap();
        names
    }

    /// Names in the root, including hidden ones.
    fn names(&self) -> Vec<String> {
        let listing = list_dir(&self.folder.root, Role::Config).unwrap();
        listing.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
    }
}

/// The result in one word.
fn word<T>(result: Result<T, RepositoryError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(RepositoryError::Invalid(_)) => "invalid",
        Err(RepositoryError::NotFound) => "not found",
        Err(RepositoryError::Taken) => "taken",
        Err(RepositoryError::Refused(_)) => "refused",
        Err(RepositoryError::Store(_) | RepositoryError::Disk { .. }) => "failed",
    }
}

fn now() -> Timestamp {
    "2026-11-23T13:45:05Z".parse().unwrap()
}

#[test]
fn names_that_cannot_be_are_refused_in_words() {
    let check = |name: &str, expect: &str| match RepositoryName::new(name) {
        Ok(name) => assert_eq!(name.as_path(), Path::new(expect)),
        Err(error) => assert_eq!(error.to_string(), format!("repository name {expect}"), "{name:?}"),
    };
    check("a", "a.git");
    check("a.git", "a.git");
    check("team/tools/a b-ä.git", "team/tools/a b-ä.git");
    check("...", "....git");
    check(".hidden", ".hidden.git");
    check("", "cannot be empty");
    check("/a", "must not start with a slash");
    check("-/api", "must not start with a dash");
    check("--help", "must not start with a dash");
    for name in ["..", "../a", "a/../b", "a/..", ".", "./a", "a/./b"] {
        check(name, "must not have a part . or ..");
    }
    for name in ["a//b", "a/", "a/.git/b"] {
        let expect =
            if name.contains(".git") { "must not have a part .git" } else { "must not have an empty part" };
        check(name, if name == "a/" { "must not have a part .git" } else { expect });
    }
    for name in [".git", "a/.git", ".GIT/b", "a/.Git/hooks"] {
        check(name, "must not have a part .git");
    }
    for name in ["a\nb", "a\0", "\x1b[2J", "a\u{7f}", "a\u{85}"] {
        check(name, "must not have control characters");
    }
    for name in ["a.lock", "a.lock.git", "b.lock/a"] {
        check(name, "must not have a part that ends in .lock");
    }
    for name in [".packrace-trash/a", "a/.packrace-new-1", ".packrace-x.git"] {
        check(name, "must not have a part that starts with .packrace-");
    }
    check("a.git/b", "must have .git only at its end: repositories are not nested");
    check("a/HEAD/b", "must not have a part HEAD");
    check("HEAD", "HEAD.git");
    check(&"x".repeat(252), "must not have a part longer than 255 bytes");
    check(&"x/".repeat(600), "must not exceed 1024 bytes");
    check(&format!("{}a", "x/".repeat(16)), "must not have more than 16 parts");
    RepositoryName::new(&format!("{}a", "x/".repeat(15))).unwrap();
    RepositoryName::new(&"x".repeat(251)).unwrap();
}

#[test]
fn options_are_those_of_init() {
    let site = Site::new();
    let check = |name: &str, options: [Option<&str>; 3], config: &[(&str, &str)]| {
        let [hash, refs, branch] = options;
        let options = CreateOptions::parse(hash, refs, branch, Some("Tools of ours".to_owned())).unwrap();
        let made = site.folder.create(&RepositoryName::new(name).unwrap(), &prototype(), &options).unwrap();
        assert_eq!(made, Path::new(name));
        let path = site.path(name);
        for (key, value) in config {
            assert_eq!(Git::stock().run(&path, &["config", key]).trim(), *value, "{key}");
        }
        let head = Git::stock().run(&path, &["symbolic-ref", "HEAD"]);
        assert_eq!(head.trim(), format!("refs/heads/{}", branch.unwrap_or("main")));
        assert_eq!(site.folder.description(&made).unwrap().as_deref(), Some("Tools of ours"));
        assert_eq!(fs::read_to_string(path.join("description")).unwrap(), "Tools of ours\n");
        Repository::open(&path, &OpenOptions::default()).unwrap();
    };
    check("a.git", [None; 3], &[("core.bare", "true"), ("core.repositoryformatversion", "0")]);
    check("team/b.git", [Some("sha256"), None, Some("trunk")], &[("extensions.objectformat", "sha256")]);
    check("c.git", [None, Some("reftable"), None], &[("extensions.refstorage", "reftable")]);
    assert_eq!(site.names(), ["a.git", "c.git", "team"]);
    let words = |options: [Option<&str>; 4]| {
        let [hash, refs, branch, text] = options;
        CreateOptions::parse(hash, refs, branch, text.map(str::to_owned)).unwrap_err().to_string()
    };
    assert_eq!(words([Some("md5"), None, None, None]), "unknown hash algorithm 'md5'");
    assert_eq!(words([None, Some("x"), None, None]), "unknown ref storage format 'x'");
    assert_eq!(words([None, None, Some("a..b"), None]), "invalid initial branch name: 'a..b'");
    assert!(words([None, None, None, Some("a\nb")]).contains("one line"));
}

#[test]
fn nothing_is_made_in_the_place_of_another() {
    let site = Site::new();
    site.create("a").unwrap();
    Git::stock().run(site.dir.path(), &["init", "--quiet", "root/work"]);
    Git::stock().run(site.dir.path(), &["init", "--quiet", "--bare", "root/plain"]);
    fs::write(site.path("file"), "").unwrap();
    fs::create_dir(site.path("empty.git")).unwrap();
    fs::create_dir(site.path("folder")).unwrap();
    symlink("nowhere", site.path("dangling.git")).unwrap();
    symlink("folder", site.path("inner")).unwrap();
    symlink("..", site.path("outer")).unwrap();
    for name in ["a", "a.git", "work/b", "plain/b", "plain/objects/b", "file/b", "empty", "dangling"] {
        assert_eq!(word(site.create(name)), "taken", "{name}");
    }
    assert_eq!(word(site.create("outer/b")), "refused");
    assert!(!site.dir.path().join("b.git").exists());
    assert_eq!(site.create("inner/b").unwrap(), Path::new("folder/b.git"));
    assert_eq!(site.create("deep/er/b").unwrap(), Path::new("deep/er/b.git"));
    assert!(!site.names().iter().any(|name| name.starts_with(".packrace")));
    // A folder that is a repository has no others in it.
    let inside = RepositoryFolder::new(&site.path("a.git")).unwrap();
    assert_eq!(word(inside.place(&RepositoryName::new("b").unwrap())), "taken");
}

#[test]
fn one_of_many_gets_a_name() {
    let site = Site::new();
    for round in 0..4 {
        let all = Barrier::new(8);
        let name = format!("new/of{round}/a");
        let words: Vec<&str> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        all.wait();
                        word(site.create(&name))
                    })
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        let counts = words.iter().fold(BTreeMap::new(), |mut counts, word| {
            *counts.entry(*word).or_insert(0) += 1;
            counts
        });
        assert_eq!(counts, BTreeMap::from([("ok", 1), ("taken", 7)]));
        let left = list_dir(&site.path(&format!("new/of{round}")), Role::Config).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[test]
fn deleted_repositories_can_be_put_back() {
    let site = Site::new();
    for name in ["team/a", "b"] {
        site.create(name).unwrap();
    }
    let found = site.folder.find(b"team/a").unwrap();
    assert_eq!(found, Path::new("team/a.git"));
    let kept = site.folder.delete(&found, now()).unwrap();
    assert_eq!(kept, Path::new(".packrace-trash/2026-11-23T134505Z/team/a.git"));
    assert_eq!(word(site.folder.find(b"team/a")), "not found");
    assert_eq!(word(site.folder.delete(&found, now())), "not found");
    // The folder that restricted access is no longer above it.
    let mode_of = |name: &str| packrace_os::mode(&site.path(name), Role::Config).unwrap();
    assert_eq!(mode_of(TRASH), 0o700);
    // The same name in the same second.
    site.create("team/a").unwrap();
    let second = site.folder.delete(&found, now()).unwrap();
    assert_eq!(second, Path::new(".packrace-trash/2026-11-23T134505Z-2/team/a.git"));
    assert_eq!(site.list(None), ["b.git"]);
    for name in [kept.to_str().unwrap(), "/.packrace-trash/", "team/../b", "", "/", "b.git/objects"] {
        assert_eq!(word(site.folder.find(name.as_bytes())), "not found", "{name}");
    }
    fs::rename(site.path(kept.to_str().unwrap()), site.path("team/a.git")).unwrap();
    assert_eq!(site.list(None), ["b.git", "team/a.git"]);
    let trash = list_dir(&site.path(TRASH), Role::Config).unwrap();
    assert_eq!(trash.len(), 2, "nothing is left of what failed: {trash:?}");
}

#[test]
fn two_who_delete_one() {
    let site = Site::new();
    let found = site.create("a").unwrap();
    let all = Barrier::new(4);
    let words: Vec<&str> = std::thread::scope(|scope| {
        let work = || {
            all.wait();
            word(site.folder.delete(&found, now()))
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(words.iter().filter(|word| **word == "ok").count(), 1, "{words:?}");
    assert!(words.iter().all(|word| matches!(*word, "ok" | "not found" | "refused")), "{words:?}");
}

#[test]
fn what_a_push_holds_stays_where_it_is() {
    let site = Site::new();
    let a = site.create("a").unwrap();
    let push = HeldDir::open(&site.path("a.git")).unwrap();
    assert!(push.hold().unwrap());
    assert_eq!(word(site.folder.delete(&a, now())), "refused");
    assert_eq!(word(site.folder.rename(&a, &RepositoryName::new("b").unwrap())), "refused");
    assert!(list_dir(&site.path(TRASH), Role::Config).unwrap().is_empty());
    drop(push);
    site.folder.delete(&a, now()).unwrap();
}

#[test]
fn renaming_replaces_nothing() {
    let site = Site::new();
    let (a, _) = (site.create("a").unwrap(), site.create("b").unwrap());
    let rename = |to: &str| site.folder.rename(&a, &RepositoryName::new(to).unwrap());
    assert_eq!(word(rename("b")), "taken");
    assert_eq!(word(rename("a")), "taken");
    assert_eq!(rename("team/c").unwrap(), Path::new("team/c.git"));
    assert_eq!(word(rename("d")), "not found");
    assert_eq!(site.list(None), ["b.git", "team/c.git"]);
    // Not into itself.
    Git::stock().run(site.dir.path(), &["init", "--quiet", "--bare", "root/plain"]);
    let inside = site.folder.rename(Path::new("plain"), &RepositoryName::new("plain/e").unwrap());
    assert_eq!(word(inside), "taken");
}

#[test]
fn only_bare_repositories_in_their_place_are_changed() {
    let site = Site::new();
    Git::stock().run(site.dir.path(), &["init", "--quiet", "root/work"]);
    site.create("a").unwrap();
    symlink("a.git", site.path("link.git")).unwrap();
    fs::create_dir(site.path("folder")).unwrap();
    for name in ["work", "link", "link.git"] {
        assert_eq!(word(site.folder.find(name.as_bytes())), "refused", "{name}");
    }
    assert_eq!(word(site.folder.find(b"folder")), "not found");
    symlink("..", site.path(TRASH)).unwrap();
    assert_eq!(word(site.folder.delete(Path::new("a.git"), now())), "refused");
    assert!(site.path("a.git").exists());
}

#[test]
fn lists_are_sorted_and_stay_in_the_folder() {
    let site = Site::new();
    let outside = site.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    Git::stock().run(&outside, &["init", "--quiet", "--bare", "x.git"]);
    for name in ["b/a", "b-c", "a", "b/z/y"] {
        site.create(name).unwrap();
    }
    Git::stock().run(site.dir.path(), &["init", "--quiet", "root/b/work"]);
    Git::stock().run(site.dir.path(), &["init", "--quiet", "--bare", "root/b/work/inner.git"]);
    fs::create_dir_all(site.path(&format!("{}z.git", "y/".repeat(17)))).unwrap();
    Git::stock()
        .run(site.dir.path(), &["init", "--quiet", "--bare", &format!("root/{}z.git", "y/".repeat(17))]);
    symlink(&outside, site.path("b/out")).unwrap();
    symlink("b", site.path("c")).unwrap();
    symlink("..", site.path("b/up")).unwrap();
    site.folder.delete(&site.create("gone").unwrap(), now()).unwrap();
    let all = ["a.git", "b/a.git", "b/work", "b/z/y.git", "b-c.git"];
    assert_eq!(site.list(None), all);
    for (number, after) in all.iter().enumerate() {
        assert_eq!(site.list(Some(after)), all[number + 1..], "{after}");
    }
    assert_eq!(site.list(Some("b")), all[1..]);
    assert_eq!(site.list(Some("b/b")), all[2..]);
    let mut seen = 0;
    let enough = &mut |_: ListedRepository| {
        seen += 1;
        ControlFlow::Break(())
    };
    site.folder.list(None, enough).unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn descriptions_are_one_line() {
    let site = Site::new();
    let found = site.create("a").unwrap();
    assert_eq!(site.folder.description(&found).unwrap(), None, "that of the template says nothing");
    site.folder.describe(&found, "Größe zählt").unwrap();
    assert_eq!(site.folder.description(&found).unwrap().as_deref(), Some("Größe zählt"));
    for bad in ["a\nb", "\x1b", &"x".repeat(4097)] {
        assert_eq!(word(site.folder.describe(&found, bad)), "invalid");
    }
    site.folder.describe(&found, "").unwrap();
    assert_eq!(site.folder.description(&found).unwrap(), None);
    assert_eq!(word(site.folder.describe(Path::new("none.git"), "x")), "not found");
    // The target of a link is not read.
    fs::write(site.path("secret"), "secret").unwrap();
    fs::remove_file(site.path("a.git/description")).unwrap();
    symlink("../secret", site.path("a.git/description")).unwrap();
    assert_eq!(site.folder.description(&found).unwrap(), None);
    site.folder.describe(&found, "mine").unwrap();
    assert_eq!(fs::read_to_string(site.path("secret")).unwrap(), "secret");
}

/// A process that is killed at any moment leaves each repository whole and at one place, and the name of a
/// new one free for the next process.
#[test]
fn whoever_is_killed_leaves_nothing_half_done() {
    let is_whole = |path: &Path| {
        path.join("HEAD").exists() && {
            Git::stock().run(path, &["fsck", "--strict"]);
            Git::stock().run(path, &["symbolic-ref", "HEAD"]) == "refs/heads/main\n"
        }
    };
    let options = CreateOptions::parse(None, None, None, Some("Of ours".to_owned())).unwrap();
    let [a, b] = ["a", "team/b"].map(|name| RepositoryName::new(name).unwrap());
    type Work<'a> = &'a dyn Fn(&RepositoryFolder) -> Result<PathBuf, RepositoryError>;
    let create: Work<'_> = &|folder| folder.create(&b, &prototype(), &options);
    let delete: Work<'_> = &|folder| folder.delete(Path::new("a.git"), now());
    let rename: Work<'_> = &|folder| folder.rename(Path::new("a.git"), &b);
    for (work, before, after) in [
        (create, None, "team/b.git"),
        (delete, Some("a.git"), ".packrace-trash/2026-11-23T134505Z/a.git"),
        (rename, Some("a.git"), "team/b.git"),
    ] {
        let mut stopped = 0;
        loop {
            let site = Site::new();
            site.folder.create(&a, &prototype(), &options).unwrap();
            let (result, steps) = on_disk(DiskFault::StopAt(stopped), || work(&site.folder));
            let is_after = is_whole(&site.path(after));
            if let Some(before) = before {
                assert_ne!(is_whole(&site.path(before)), is_after, "{after} {stopped}: {steps:?}");
            }
            assert!(is_after || !site.path(after).exists(), "{after} {stopped}");
            assert!(site.list(None).iter().all(|name| !name.contains("packrace")));
            if result.is_ok() {
                assert!(is_after);
                break;
            }
            let again = work(&site.folder);
            assert!(again.is_ok() || is_after, "{after} {stopped}: {again:?}");
            stopped += 1;
        }
        assert!(stopped > 4, "{after}: only {stopped}");
    }
}

/// What is acknowledged survives a power cut: a directory is synced before it is renamed, and its names after
/// that.
#[test]
fn names_are_durable_before_anybody_is_told() {
    let site = Site::new();
    let check = |work: &dyn Fn() -> Result<PathBuf, RepositoryError>, before: &[&str], after: &[&str]| {
        let (result, steps) = on_disk(DiskFault::None, work);
        result.unwrap();
        let is_move = |step: &DiskStep| matches!(&step.op, DiskOp::Rename(to) if to.extension() == Some(OsStr::new("git")));
        let moved = steps.iter().position(is_move).unwrap();
        let synced = |steps: &[DiskStep]| -> Vec<PathBuf> {
            let dirs = steps.iter().filter(|step| step.op == DiskOp::SyncDir);
            dirs.map(|step| step.path.clone()).collect()
        };
        let (first, then) = (synced(&steps[..moved]), synced(&steps[moved..]));
        for dir in before {
            assert!(first.contains(&site.path(dir)), "{dir}: {first:?}");
        }
        let then: Vec<_> = then.iter().map(|dir| dir.strip_prefix(&site.folder.root).unwrap()).collect();
        assert_eq!(then, after.iter().map(Path::new).collect::<Vec<_>>());
        let is_write = |step: &&DiskStep| matches!(step.op, DiskOp::Write(_));
        for write in steps[..moved].iter().filter(is_write) {
            let is_synced = |step: &DiskStep| step.op == DiskOp::Sync && step.path == write.path;
            assert!(steps[..moved].iter().any(is_synced), "{write:?}");
        }
    };
    check(&|| site.create("team/a"), &["", "team"], &["team"]);
    let b = RepositoryName::new("deep/er/b").unwrap();
    check(&|| site.folder.rename(Path::new("team/a.git"), &b), &["", "deep"], &["deep/er", "team"]);
    let (dated, inner) = (".packrace-trash/2026-11-23T134505Z", ".packrace-trash/2026-11-23T134505Z/deep");
    let last = format!("{inner}/er");
    let delete = || site.folder.delete(Path::new("deep/er/b.git"), now());
    check(&delete, &["", TRASH, dated, inner], &[&last, "deep/er"]);
}
