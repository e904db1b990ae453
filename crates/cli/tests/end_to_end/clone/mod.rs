//! `clone --bare` and `--mirror` compared with stock git's, from the same servers.

mod bad_servers;
mod budgets;
mod servers;

use std::path::{Path, PathBuf};
use std::process::Output;

use packrace_testkit::Git;

use self::servers::{Daemon, Web};
use crate::running::{Server, packrace, packrace_with, stock_git, stock_git_with};

/// A folder of served repositories, and one for clones.
struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    /// `a.git` has branches, tags, notes and pull requests, `empty.git` has nothing, and the others are
    /// variants of `a.git`.
    fn new() -> Self {
        let folder = Folder { dir: packrace_testkit::scratch_dir() };
        let git = |args: &[&str]| Git::stock().run(&folder.dir.path().join("work"), args);
        Git::stock().run(folder.dir.path(), &["init", "-q", "-b", "main", "work"]);
        for name in ["one", "two", "three"] {
            std::fs::write(folder.dir.path().join("work").join(name), name.repeat(500)).unwrap();
            git(&["add", "."]);
            git(&["commit", "-q", "-m", name]);
        }
        git(&["tag", "-a", "-m", "t", "v1"]);
        git(&["tag", "light", "HEAD~1"]);
        git(&["branch", "other", "HEAD~2"]);
        git(&["update-ref", "refs/notes/x", "HEAD"]);
        git(&["update-ref", "refs/pull/1/head", "HEAD~1"]);
        std::fs::create_dir(folder.served()).unwrap();
        git(&["clone", "-q", "--mirror", ".", "../srv/a.git"]);
        let set = |name: &str, args: &[&str]| {
            git(&["clone", "-q", "--mirror", ".", &format!("../srv/{name}")]);
            Git::stock().run(&folder.served().join(name), args);
        };
        let other = git(&["rev-parse", "light"]);
        let main = git(&["rev-parse", "main"]);
        set("detached.git", &["update-ref", "--no-deref", "HEAD", other.trim()]);
        set("at-branch.git", &["update-ref", "--no-deref", "HEAD", main.trim()]);
        set("unborn.git", &["symbolic-ref", "HEAD", "refs/heads/nope"]);
        set("pull-head.git", &["symbolic-ref", "HEAD", "refs/pull/1/head"]);
        git(&["init", "-q", "--bare", "-b", "trunk", "../srv/empty.git"]);
        folder
    }

    fn served(&self) -> PathBuf {
        self.dir.path().join("srv")
    }

    /// A new directory.
    fn place(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    /// Both clone with the same arguments: output, exit code and results are the same.
    fn check(&self, args: &[&str]) {
        let args = [&["clone"], args].concat();
        let (theirs, ours) = (self.place("theirs"), self.place("ours"));
        let git = stock_git(&theirs, &args, "");
        let own = packrace(&ours, &args, "");
        assert_eq!(without_times(&said(&git)), without_times(&said(&own)), "{args:?}");
        assert_eq!(
            (git.status.code(), text(&git.stdout)),
            (own.status.code(), text(&own.stdout)),
            "{args:?}"
        );
        let (mut theirs, mut ours) = (state(&theirs), state(&ours));
        if args.contains(&"--mirror") && Git::stock().version() < (2, 55) {
            // Older ones do not say that a mirror has all tags anyway.
            let all = theirs.iter_mut().chain(&mut ours);
            all.for_each(|text| *text = text.replace("\ttagOpt = --no-tags\n", ""));
        }
        assert_eq!(theirs, ours, "{args:?}");
    }
}

/// Runs a program with these arguments, input and variables.
type RunWith = fn(&Path, &[&str], &[u8], &[(&str, &str)]) -> Output;

/// The output of a program, without durations.
fn without_times(said: &str) -> String {
    let words: Vec<&str> = said.split(' ').collect();
    let is_time = |at: usize| at > 0 && words[at - 1] == "after" && words.get(at + 1) == Some(&"ms:");
    let shown = words.iter().enumerate().map(|(at, word)| if is_time(at) { "N" } else { *word });
    shown.collect::<Vec<_>>().join(" ")
}

/// Standard error without git's advice about the name of the initial branch.
fn said(output: &Output) -> String {
    text(&output.stderr)
        .lines()
        .filter(|line| !line.starts_with("hint:"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The state of every repository in a directory: refs, `HEAD`, configuration, fsck's output, and the names of
/// files.
fn state(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let git = |args: &[&str]| Git::stock().run(&path, args);
        found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        if !path.join("HEAD").exists() {
            continue;
        }
        found.push(git(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]));
        found.push(std::fs::read_to_string(path.join("HEAD")).unwrap());
        found.push(std::fs::read_to_string(path.join("config")).unwrap());
        found.push(text(&stock_git(&path, &["fsck", "--strict"], "").stderr));
        found.push(git(&["rev-list", "--all", "--objects"]));
        for name in ["packed-refs", "refs/heads", "refs/tags", "logs/HEAD", "reftable"] {
            found.push(format!("{name} {}", path.join(name).exists()));
        }
        let packs = std::fs::read_dir(path.join("objects/pack")).unwrap();
        let mut endings: Vec<String> =
            packs.map(|file| file.unwrap().path().extension().unwrap().to_string_lossy().into()).collect();
        endings.sort();
        found.push(endings.join(" "));
    }
    found
}

#[test]
fn every_kind_of_clone_is_as_gits() {
    let folder = Folder::new();
    let daemon = Daemon::start(&folder.served());
    let url = |name: &str| format!("git://{}/{name}", daemon.address);
    let (a, detached, unborn) = (&url("a.git"), &url("detached.git"), &url("unborn.git"));
    for args in [
        &["--bare", a][..],
        &["--mirror", a],
        &["--bare", "--no-tags", a],
        &["--mirror", "--no-tags", "-o", "up/stream", a],
        &["--bare", "--tags", "--origin=a\"b", a],
        &["--bare", "-b", "v1", a],
        &["--mirror", "-b", "light", a],
        &["--bare", "-b", "other", a],
        &["--bare", "-q", a],
        &["--bare", "-v", a],
        &["--bare", "--no-tags", "-b", "v1", a],
        &["--bare", "-b", "nope", a],
        &["--bare", "-b", "refs/heads/main", a],
        &["--bare", a, "x/y/z.git"],
        &["--mirror", "--ref-format=reftable", a],
        &["--mirror", "--ref-format=foo", a],
        &["--bare", "-o", "a..b", a],
        &["--bare", &url("empty.git")],
        &["--mirror", &url("empty.git"), "there"],
        &["--bare", "-b", "main", &url("empty.git")],
        &["--bare", detached],
        &["--mirror", detached],
        &["--bare", &url("at-branch.git")],
        &["--bare", unborn],
        &["--mirror", unborn],
        &["--bare", &url("pull-head.git")],
        &["--mirror", &url("pull-head.git")],
        &["--bare", &url("none.git")],
        &["--bare", &url("none.git"), "x/y/z.git"],
        &["--bare", &url("")],
        &["--bare", "git://127.0.0.1:1/a.git"],
        &["--bare", "git://host.invalid/a.git"],
    ] {
        folder.check(args);
    }
}

#[test]
fn hashes_are_the_servers() {
    let folder = Folder::new();
    let git = |args: &[&str]| Git::stock().run(folder.dir.path(), args);
    git(&["init", "-q", "--object-format=sha256", "-b", "main", "w2"]);
    Git::stock().run(&folder.dir.path().join("w2"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&["clone", "-q", "--bare", "w2", "srv/long.git"]);
    git(&["init", "-q", "--bare", "--object-format=sha256", "srv/long-empty.git"]);
    let daemon = Daemon::start(&folder.served());
    let url = |name: &str| format!("git://{}/{name}", daemon.address);
    folder.check(&["--bare", &url("long.git")]);
    folder.check(&["--mirror", "--ref-format=reftable", &url("long.git")]);
    folder.check(&["--bare", &url("long-empty.git")]);
}

#[test]
fn from_packrace_and_from_gits_http_backend() {
    let folder = Folder::new();
    let server = Server::start(&folder.served());
    let web = Web::start(&folder.served());
    for base in [
        format!("git://{}", server.git),
        format!("http://{}", server.http),
        format!("http://{}", web.address),
    ] {
        folder.check(&["--bare", &format!("{base}/a.git")]);
        folder.check(&["--mirror", &format!("{base}/a.git/")]);
        folder.check(&["--bare", &format!("{base}/empty.git")]);
        folder.check(&[
            "--mirror",
            "-b",
            "v1",
            "--ref-format=reftable",
            &format!("{base}/detached.git"),
            "d",
        ]);
    }
}

/// Traced packets of a clone: what it receives, and its first one. What else it sends has the program's name, and an
/// order of its own.
fn traced(program: RunWith, folder: &Folder, url: &str) -> Vec<String> {
    let (place, trace) = (folder.place("place"), folder.dir.path().join("trace"));
    let variables = [("GIT_TRACE_PACKET", trace.to_str().unwrap()), ("GIT_TRACE_BARE", "1")];
    assert!(program(&place, &["clone", "-q", "--bare", url], b"", &variables).status.success());
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(trace).unwrap();
    // Packets between the processes of git are left out.
    let is_shown = |line: &&str| {
        !line.ends_with("clone< 0002")
            && ["clone< ", "sideband< ", "clone> git-upload-pack "].iter().any(|start| line.contains(start))
    };
    lines.lines().filter(is_shown).map(str::to_owned).collect()
}

#[test]
fn packets_are_traced() {
    let folder = Folder::new();
    let (daemon, web) = (Daemon::start(&folder.served()), Web::start(&folder.served()));
    for base in [format!("git://{}", daemon.address), format!("http://{}", web.address)] {
        let url = format!("{base}/a.git");
        let expect = traced(stock_git_with, &folder, &url);
        assert!(expect.iter().any(|line| line.ends_with("sideband< PACK ...")), "{expect:?}");
        assert_eq!(traced(packrace_with, &folder, &url), expect);
    }
}

#[test]
fn answers_of_http_servers_in_gits_words() {
    let folder = Folder::new();
    let web = Web::start(&folder.served());
    let url = |path: &str| format!("http://{}/{path}", web.address);
    for path in [
        "none.git",
        "status/401/a.git",
        "status/403/a.git",
        "status/404/a.git",
        "status/500/a.git",
        "moved/a.git",
        "away/a.git",
    ] {
        folder.check(&["--bare", &url(path)]);
    }
    folder.check(&["--bare", "http://host.invalid/a.git"]);
    let refused = |path: &str, words: &str| {
        let place = folder.place("refused");
        let output = packrace(&place, &["clone", "--bare", "-q", &url(path), "x.git"], "");
        assert_eq!((output.status.code(), said(&output)), (Some(128), format!("fatal: {words}\n")));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    };
    let base = |path: &str| format!("http://{}/{path}", web.address);
    let words = format!("{}/ is not a smart git server: it answered with 'text/html'", base("plain/a.git"));
    refused("plain/a.git", &words);
    let words = format!("unable to access '{}/': Maximum (20) redirects followed", base("loop/a.git"));
    refused("loop/a.git", &words);
}

#[test]
fn a_directory_that_is_there() {
    let folder = Folder::new();
    let daemon = Daemon::start(&folder.served());
    let (good, bad) = (format!("git://{}/a.git", daemon.address), format!("git://{}/b.git", daemon.address));
    let place = folder.place("place");
    let clone = |args: &[&str]| packrace(&place, &[&["clone", "--bare", "-q"], args].concat(), "");
    let entries = |path: &Path| std::fs::read_dir(path).unwrap().count();
    // An empty directory stays if the clone fails, and is used if it succeeds.
    std::fs::create_dir(place.join("empty")).unwrap();
    assert_eq!(clone(&[&bad, "empty"]).status.code(), Some(128));
    assert_eq!(entries(&place.join("empty")), 0);
    assert_eq!(clone(&[&good, "empty/"]).status.code(), Some(0));
    let again = clone(&[&good, "empty"]);
    let words = "fatal: destination path 'empty' already exists and is not an empty directory.\n";
    assert_eq!((again.status.code(), said(&again)), (Some(128), words.to_owned()));
    assert!(place.join("empty/HEAD").exists(), "what was there is still there");
    std::fs::write(place.join("file"), "x").unwrap();
    assert_eq!(clone(&[&good, "file"]).status.code(), Some(128));
    assert_eq!(std::fs::read(place.join("file")).unwrap(), b"x");
    // Parent directories stay, as with git.
    assert_eq!(clone(&[&bad, "x/y/z.git"]).status.code(), Some(128));
    assert!(place.join("x/y").exists() && !place.join("x/y/z.git").exists());
}

#[test]
fn without_git_what_is_not_supported_is_refused_by_name() {
    let folder = Folder::new();
    let place = folder.place("place");
    let clone = |args: &[&str]| packrace_with(&place, &[&["clone"], args].concat(), b"", &[("PATH", "")]);
    let check = |args: &[&str], expect: &str| {
        let output = clone(args);
        assert_eq!(output.status.code(), Some(129), "{args:?}");
        assert!(said(&output).starts_with(expect), "{args:?}: {}", said(&output));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    };
    check(&["git://127.0.0.1/a"], "fatal: clone: only --bare and --mirror are supported");
    check(&["--no-bare", "git://127.0.0.1/a"], "fatal: clone: only --bare and --mirror are supported");
    check(&["--bare"], "fatal: You must specify a repository to clone.\n\nusage: packrace clone");
    check(&["--bare", "a", "b", "c"], "usage: packrace clone");
    for option in ["depth=1", "single-branch", "filter=blob:none", "reference=x", "config=a.b=c", "recursive"]
    {
        check(
            &["--bare", &format!("--{option}"), "git://127.0.0.1/a"],
            &format!("error: unknown option `{option}'\n"),
        );
    }
    check(&["--bare", "-c", "a.b=c", "git://127.0.0.1/a"], "error: unknown switch `c'\n");
    for url in ["ssh://u:p@a/b", "/a/b", "a:b", "git://u:p@a/b"] {
        let output = clone(&["--bare", url, "x"]);
        assert_eq!(output.status.code(), Some(128), "{url}");
        // Passwords never reach a terminal.
        let shown = url.replace("u:p@", "<redacted>@");
        assert!(said(&output).contains(&format!("fatal: unable to access '{shown}': ")), "{}", said(&output));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    }
}

/// Work trees, other protocols and options that packrace does not have.
#[test]
fn git_does_the_others() {
    let folder = Folder::new();
    let server = Server::start(&folder.served());
    let url = format!("git://{}/a.git", server.git);
    let path = folder.served().join("a.git").display().to_string();
    let all = |output: &Output| (output.status.code(), text(&output.stdout), said(output));
    let lines: [&[&str]; 7] = [
        &[&url],
        &["--depth=1", "--bare", &url],
        &["--bare", "-c", "a.b=c", &url],
        &["--mirror", "--filter=blob:none", &url],
        &["--bare", &path],
        &["--bare", "--nonsense", &url],
        &["--bare", "a b", "c", "d"],
    ];
    for args in lines {
        let words = [&["clone"], args].concat();
        let [ours, theirs] = [packrace, stock_git].map(|run| {
            let place = folder.place("place");
            let output = run(&place, &words, "");
            let clones = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
            let state = |clone: PathBuf| {
                let shown = ["for-each-ref", "log --all --oneline", "config --local --list", "ls-files"];
                shown.map(|line| all(&stock_git(&clone, &line.split(' ').collect::<Vec<_>>(), "")))
            };
            (all(&output), clones.map(state).collect::<Vec<_>>())
        });
        assert_eq!(ours, theirs, "{args:?}");
    }
}

#[test]
fn progress_of_both_sides() {
    let folder = Folder::new();
    let server = Server::start(&folder.served());
    let place = folder.place("place");
    let clone = |args: &[&str]| {
        let url = format!("git://{}/a.git", server.git);
        said(&packrace(&place, &[&["clone", "--mirror", url.as_str()], args].concat(), ""))
    };
    let quiet = clone(&["a"]);
    assert_eq!(quiet, "Cloning into bare repository 'a'...\n");
    let loud = clone(&["--progress", "b"]);
    for words in
        ["remote: Enumerating objects: ", "remote: Total 1", "Receiving objects: 100% (1", ", done.\n"]
    {
        assert!(loud.contains(words), "{words}: {loud}");
    }
    assert_eq!(clone(&["--progress", "-q", "c"]), "");
}

/// Objects that fsck refuses are refused if the configuration says so: for fetches, not for pushes.
#[test]
fn objects_are_checked_where_that_is_configured() {
    let folder = Folder::new();
    let bare = folder.served().join("a.git");
    let tree = Git::stock().run(&bare, &["rev-parse", "main^{tree}"]);
    let commit = format!("tree {}\nauthor a <a@b> x +0000\ncommitter a <a@b> 0 +0000\n\nbad\n", tree.trim());
    let arguments = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"];
    let id = text(&Git::stock().run_with_input(&bare, &arguments, commit.as_bytes()));
    Git::stock().run(&bare, &["update-ref", "refs/heads/bad", id.trim()]);
    let daemon = Daemon::start(&folder.served());
    let url = format!("git://{}/a.git", daemon.address);
    let check = |settings: &[&str], code: i32| {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        for program in ["git", "packrace"] {
            let place = folder.place("place");
            let args = [settings.as_slice(), &["clone", "-q", "--bare", url.as_str(), "x.git"]].concat();
            let output =
                if program == "git" { stock_git(&place, &args, "") } else { packrace(&place, &args, "") };
            assert_eq!(output.status.code(), Some(code), "{program} {settings:?}: {}", said(&output));
            assert_eq!(place.join("x.git").exists(), code == 0);
            if code != 0 {
                let (line, id) = (said(&output), id.trim());
                assert!(line.contains(&format!("error: object {id}: badDate")), "{program}: {line}");
                assert!(
                    line.ends_with(
                        "fatal: fsck error in packed object\nfatal: fetch-pack: invalid index-pack output\n"
                    ),
                    "{program}: {line}"
                );
            }
        }
    };
    check(&[], 0);
    check(&["receive.fsckObjects=true"], 0);
    check(&["fetch.fsckObjects=true"], 128);
    check(&["transfer.fsckObjects=true"], 128);
    check(&["transfer.fsckObjects=true", "fetch.fsckObjects=false"], 0);
    check(&["fetch.fsckObjects=true", "fetch.fsck.badDate=ignore"], 0);
    check(&["fetch.fsckObjects=true", "receive.fsck.badDate=ignore"], 128);
}
