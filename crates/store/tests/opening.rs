//! What is opened and what is refused, with stock `git upload-pack` as the judge.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use packrace_object::{HashKind, ObjectId};
use packrace_store::{ConfigSources, Error, ErrorKind, OpenOptions, Repository, parse_config_parameters};
use packrace_testkit::{Git, RepoBuilder, Size};

fn git(dir: &Path, args: &[&str]) -> String {
    Git::stock().run(dir, args)
}

fn open(path: &Path, strict: bool) -> Result<Repository, Error> {
    Repository::open(path, &OpenOptions { strict, ..OpenOptions::default() })
}

/// What stock git says to somebody who wants nothing: the advertisement, or why not, without `fatal: `.
fn stock(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Git::stock().command(dir);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may be gone already.
    let _ = child.stdin.take().unwrap().write_all(b"0000");
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, fatal) = text.split_once("fatal: ").unwrap_or_else(|| panic!("{text}"));
    Err(fatal.trim_end().to_owned())
}

/// A bare repository whose `HEAD` tells it from others.
fn bare(path: &Path, branch: &str) {
    std::fs::create_dir_all(path).unwrap();
    git(path, &["init", "-q", "--bare", "-b", branch, "."]);
    let tree = git(path, &["--git-dir=.", "write-tree"]);
    let commit = git(path, &["--git-dir=.", "commit-tree", "-m", "x", tree.trim()]);
    git(path, &["--git-dir=.", "update-ref", &format!("refs/heads/{branch}"), commit.trim()]);
}

/// Opens what stock git opens, and says what it says.
fn check_entry(dir: &Path, path: &str) {
    let ours = open(&dir.join(path), false);
    match stock(dir, &["upload-pack", path]) {
        Ok(advertisement) => {
            let ours = ours.unwrap_or_else(|error| panic!("{path}: {error}"));
            let head = std::fs::read_to_string(ours.git_dir().join("HEAD")).unwrap();
            let branch = head.trim().strip_prefix("ref: ").unwrap();
            assert!(advertisement.contains(branch), "{path}: {branch}\n{advertisement}");
        }
        Err(fatal) => {
            let ours = ours.expect_err(path);
            let text = ours.to_string().replace(&format!("{}/", dir.display()), "");
            assert_eq!((text, ours.kind()), (fatal, ErrorKind::Refused), "{path}");
        }
    }
}

#[test]
fn paths_are_tried_in_gits_order() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    let candidates = ["a/.git", "a", "a.git/.git", "a.git"];
    for (place, branch) in candidates.iter().zip(["one", "two", "three", "four"]) {
        bare(&dir.join(place), branch);
    }
    for gone in candidates {
        for path in ["a", "a/", "a//", "a.git", "a.git/", "a/.", "a/.git", "none", "a/objects", "a/HEAD/x"] {
            check_entry(dir, path);
        }
        let head = dir.join(gone).join("HEAD");
        std::fs::rename(&head, head.with_extension("gone")).unwrap();
    }
    check_entry(dir, "a");
}

#[test]
fn strict_takes_the_path_as_it_is() {
    let dir = packrace_testkit::scratch_dir();
    let work_tree = dir.path().join("w");
    bare(&work_tree.join(".git"), "main");
    bare(&dir.path().join("b.git"), "main");
    assert!(open(&work_tree, true).is_err() && open(&dir.path().join("b"), true).is_err());
    assert_eq!(open(&work_tree.join(".git"), true).unwrap().git_dir(), work_tree.join(".git"));
    assert!(open(&dir.path().join("b.git/"), true).is_ok());
    let error = open(&dir.path().join("b"), true).unwrap_err().to_string();
    assert!(error.ends_with("/b' does not appear to be a git repository"), "{error}");
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(open(&pipe, false).is_err() && open(&pipe, true).is_err(), "without waiting for a writer");
    for odd in ["", "\0", "a\0b"] {
        assert_eq!(open(Path::new(odd), false).unwrap_err().kind(), ErrorKind::Refused);
    }
}

#[test]
fn gitfiles() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    bare(&dir.join("r.git"), "main");
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("good", "gitdir: r.git\n");
    write("work/.git", "gitdir: ../r.git\r\n");
    write("absolute", &format!("gitdir: {}\n", dir.join("r.git").display()));
    write("nowhere", "gitdir: missing\n");
    write("work-nowhere/.git", "gitdir: missing\n");
    write("junk", "junk\n");
    write("work-junk/.git", "junk\n");
    write("empty", "");
    write("no-path", "gitdir: \n");
    for path in [
        "good",
        "work",
        "work/.git",
        "absolute",
        "nowhere",
        "work-nowhere",
        "junk",
        "work-junk",
        "empty",
        "no-path",
    ] {
        check_entry(dir, path);
    }
}

#[test]
fn linked_work_trees() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let linked = repo.path().with_file_name("linked");
        repo.git(&["worktree", "add", "-q", "-b", "topic", linked.to_str().unwrap(), "main"]);
        let repository = open(&linked, false).unwrap();
        let real = |path: &Path| std::fs::canonicalize(path).unwrap();
        assert_eq!(real(repository.git_dir()), real(&repo.path().join("worktrees/linked")));
        assert_eq!(real(repository.common_dir()), real(repo.path()));
        assert_eq!(real(repository.object_dir()), real(&repo.path().join("objects")));
        assert_eq!(repository.hash_kind(), hash);
        let main = ObjectId::from_hex(repo.git(&["rev-parse", "main"]).trim().as_bytes()).unwrap();
        assert!(repository.snapshot().unwrap().lookup(&main).is_some());
        // Its own configuration counts only if the repository says so.
        std::fs::write(repo.path().join("worktrees/linked/config.worktree"), "[a]\n b = own\n").unwrap();
        assert_eq!(open(&linked, false).unwrap().config().string("a.b"), None);
        repo.git(&["config", "extensions.worktreeConfig", "true"]);
        repo.git(&["config", "a.b", "shared"]);
        assert_eq!(open(&linked, false).unwrap().config().string("a.b").unwrap(), b"own");
        assert_eq!(open(repo.path(), false).unwrap().config().string("a.b").unwrap(), b"shared");
    }
}

/// Opens a repository with this configuration as stock git does; `read` asks for what upload-pack asks.
fn check_config(text: &str) {
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("r.git");
    bare(&path, "main");
    let mut config = std::fs::read_to_string(path.join("config")).unwrap();
    config.push_str(text);
    std::fs::write(path.join("config"), config).unwrap();
    let ours = open(&path, false).and_then(|repository| {
        repository.config().boolean("uploadpack.allowFilter")?;
        repository.config().integer("uploadpack.keepAlive")
    });
    match stock(dir.path(), &["upload-pack", "r.git"]) {
        Ok(_) => assert!(ours.is_ok(), "{text}: {ours:?}"),
        Err(fatal) => {
            let file = format!("in file {}", path.join("config").display());
            let ours = ours.expect_err(text).to_string().replace(&file, "in file config");
            assert_eq!(ours, fatal.replace("./config", "config"), "{text}");
        }
    }
}

#[test]
fn formats_and_bad_values_are_refused_in_gits_words() {
    let v1 = "[core]\nrepositoryformatversion = 1\n";
    for text in [
        "",
        "[core]\nrepositoryformatversion = 2\n",
        "[core]\nrepositoryformatversion = x\n",
        "[core]\nrepositoryformatversion = 1\n[extensions]\nFoo = 1\nbar = 2\n",
        "[core]\nrepositoryformatversion = 1\n[extensions]\nFoo = 1\nFoo = 2\n",
        "[extensions]\nFoo = 1\n",
        "[extensions]\nobjectFormat = sha256\n",
        "[extensions]\nrefStorage = files\nnoop-v1 = 1\n",
        "[extensions]\nnoop = 1\npreciousObjects = true\npartialClone = x\nworktreeConfig = true\n",
        "[uploadpack]\nallowFilter = maybe\n",
        "[uploadpack]\nallowFilter\n",
        "[uploadpack]\nallowFilter =\n",
        "[uploadpack]\nallowFilter = 2\n",
        "[uploadpack]\nkeepAlive = maybe\n",
        "[uploadpack]\nkeepAlive = 9z\n",
        "[uploadpack]\nkeepAlive = 1k\n",
        "[uploadpack]\nkeepAlive = 99999999999999999999\n",
        "[uploadpack\n",
        "[uploadpack]\nkeepAlive = 5\n= 3\n",
        "[include]\npath = missing\n",
        &format!("{v1}[extensions]\nnoop-v1 = 1\nobjectFormat = sha1\nrefStorage = files\n"),
    ] {
        check_config(text);
    }
    // Here git says which line is bad, after an error line with these words.
    for (text, words) in [
        ("objectFormat = foo", "invalid value for 'extensions.objectformat': 'foo'"),
        ("refStorage = foo", "invalid value for 'extensions.refstorage': 'foo'"),
        ("objectFormat", "missing value for 'extensions.objectformat'"),
    ] {
        let dir = packrace_testkit::scratch_dir();
        bare(dir.path(), "main");
        let config = format!("{v1}[extensions]\n{text}\n");
        std::fs::write(dir.path().join("config"), config).unwrap();
        assert!(stock(dir.path(), &["upload-pack", "."]).is_err());
        assert_eq!(open(dir.path(), false).unwrap_err().to_string(), words);
    }
}

#[test]
fn scopes_and_includes_as_stock_git_lists_them() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    bare(&dir.join("r.git"), "main");
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let value = |text: &str| format!("[a]\n v = {text}\n");
    let included = write("included", value("included"));
    write("r.git/conditional", value("conditional"));
    let system = write("system", value("system") + "[a]\n system = 1\n");
    let global = write("global", value("global") + &format!("[include]\n path = {}\n", included.display()));
    let git_dir = std::fs::canonicalize(dir.join("r.git")).unwrap();
    let local = format!("[includeIf \"gitdir:{}\"]\n path = conditional\n", git_dir.display());
    let no_match = "[includeIf \"gitdir:/elsewhere/\"]\n path = ../included\n";
    write("r.git/config", value("local") + &local + no_match + "[a]\n multi = 1\n multi = 2\n");
    let mut command = Git::stock().command(&git_dir);
    command
        .env("GIT_CONFIG_NOSYSTEM", "0")
        .env("GIT_CONFIG_SYSTEM", &system)
        .env("GIT_CONFIG_GLOBAL", &global)
        .args(["-c", "a.v=command", "-c", "a.Sub.x=1 \"2\" \\3;#", "config", "--get-all", "a.v"]);
    let expect = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let overrides =
        vec![("a.v".into(), Some("command".into())), ("a.Sub.x".into(), Some("1 \"2\" \\3;#".into()))];
    let sources =
        ConfigSources { system: Some(system), global: vec![global], overrides, ..ConfigSources::default() };
    let options = OpenOptions { config: sources, ..OpenOptions::default() };
    let repository = Repository::open(&git_dir, &options).unwrap();
    let config = repository.config();
    let values: Vec<String> =
        config.strings("a.v").into_iter().map(|value| String::from_utf8(value).unwrap()).collect();
    assert_eq!(values, expect.lines().collect::<Vec<_>>());
    assert_eq!(values, ["system", "global", "included", "local", "conditional", "command"]);
    assert_eq!(config.protected_strings("a.v").len(), 4, "without what the repository says");
    assert_eq!(config.string("a.Sub.x").unwrap(), b"1 \"2\" \\3;#");
    assert_eq!(config.string("a.sub.x"), None, "subsections have their case");
    assert_eq!(config.strings("A.MULTI"), [b"1", b"2"]);
    assert_eq!(config.integer("a.system").unwrap(), Some(1));
}

#[test]
fn parameters_as_stock_git_hands_them_on() {
    let dir = packrace_testkit::scratch_dir();
    let args = ["-c", "a.b=it's \"so\"!", "-c", "a.S=x.T=1", "-c", "a.bare", "-c", "a.empty="];
    // An alias makes git start a shell, which sees what it hands on.
    let show = ["-c", "alias.tell=!printf %s \"$GIT_CONFIG_PARAMETERS\" #", "tell"];
    let text = git(dir.path(), &[&args[..], &show].concat());
    let found = parse_config_parameters(&text).unwrap();
    let found: Vec<(&str, Option<&str>)> =
        found.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    assert_eq!(
        found[..4],
        [("a.b", Some("it's \"so\"!")), ("a.S", Some("x.T=1")), ("a.bare", None), ("a.empty", Some(""))]
    );
}

#[test]
fn bad_overrides_are_refused() {
    let dir = packrace_testkit::scratch_dir();
    bare(dir.path(), "main");
    for name in ["nodot", ".a", "a.", "a.b_c", "a b.c", "a.x\ny.z"] {
        let overrides = vec![(name.to_owned(), Some("1".to_owned()))];
        let config = ConfigSources { overrides, ..ConfigSources::default() };
        let error = Repository::open(dir.path(), &OpenOptions { config, ..OpenOptions::default() });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Refused, "{name}");
        assert!(stock(dir.path(), &["-c", &format!("{name}=1"), "upload-pack", "."]).is_err(), "{name}");
    }
}

#[test]
fn alternates_in_gits_order_and_depth() {
    let dir = packrace_testkit::scratch_dir();
    let dir = std::fs::canonicalize(dir.path()).unwrap();
    let objects = |number: usize| dir.join(format!("r{number}/objects"));
    for number in 1..=9 {
        bare(&dir.join(format!("r{number}")), "main");
        if number < 9 {
            let next = format!("# next\n{}\n", objects(number + 1).display());
            std::fs::write(objects(number).join("info/alternates"), next).unwrap();
        }
        // An object that only this one has.
        let id = blob(&dir.join(format!("r{number}")), &number.to_string());
        std::fs::write(dir.join(format!("id{number}")), id).unwrap();
    }
    let has = |options: &OpenOptions, number: usize| {
        let id = std::fs::read(dir.join(format!("id{number}"))).unwrap();
        let snapshot = Repository::open(&dir.join("r1"), options).unwrap().snapshot().unwrap();
        snapshot.has_loose(&ObjectId::from_hex(&id).unwrap()).unwrap()
    };
    let stock_has = |number: usize| {
        let id = std::fs::read_to_string(dir.join(format!("id{number}"))).unwrap();
        let mut command = Git::stock().command(&dir.join("r1"));
        command.args(["cat-file", "-e", &id]).output().unwrap().status.success()
    };
    let plain = OpenOptions::default();
    for number in 1..=9 {
        assert_eq!(has(&plain, number), stock_has(number), "{number}");
        assert_eq!(has(&plain, number), number <= 7);
    }
    let alternates = vec![PathBuf::from("/missing/objects"), objects(9)];
    let extended = OpenOptions { alternates, ..OpenOptions::default() };
    assert!(has(&extended, 9) && !has(&extended, 8));
    // Loops, repetitions, links, quotes, nonsense and paths that lead nowhere.
    std::os::unix::fs::symlink(objects(2), dir.join("link")).unwrap();
    let quoted = objects(8).to_str().unwrap().replace("r8", "\\1628");
    let text = format!(
        "../../r1/objects\n{}\n../../link\n/missing\n\n\"{quoted}\"\n\"\\q\"\n",
        objects(2).display()
    );
    std::fs::write(objects(1).join("info/alternates"), text).unwrap();
    std::fs::write(objects(2).join("info/alternates"), "../../r1/objects\n").unwrap();
    for number in 1..=9 {
        assert_eq!(has(&plain, number), stock_has(number), "{number}");
        assert_eq!(has(&plain, number), matches!(number, 1 | 2 | 8 | 9));
    }
    // Another object directory altogether.
    let moved = OpenOptions { object_dir: Some(objects(5)), ..OpenOptions::default() };
    assert!(has(&moved, 5) && has(&moved, 9) && !has(&moved, 1));
}

fn blob(path: &Path, content: &str) -> String {
    let id = Git::stock().run_with_input(path, &["hash-object", "-w", "--stdin"], content.as_bytes());
    String::from_utf8(id).unwrap().trim().to_owned()
}

#[test]
fn shallow_boundaries() {
    let repo = RepoBuilder::new(Size::Tiny)
        .storage(packrace_testkit::Storage { shallow_depth: Some(3), ..Default::default() })
        .build();
    let mut expect: Vec<String> =
        std::fs::read_to_string(repo.path().join("shallow")).unwrap().lines().map(str::to_owned).collect();
    expect.sort();
    let shallow = |options: &OpenOptions| {
        let snapshot = Repository::open(repo.path(), options).unwrap().snapshot().unwrap();
        snapshot.shallow().map(|shallow| shallow.iter().map(ObjectId::to_string).collect::<Vec<_>>())
    };
    assert!(!expect.is_empty());
    assert_eq!(shallow(&OpenOptions::default()).unwrap(), expect);
    let with_file =
        |path: &Path| OpenOptions { shallow_file: Some(path.to_owned()), ..OpenOptions::default() };
    assert!(shallow(&with_file(Path::new(""))).unwrap().is_empty());
    let other = repo.path().join("other-shallow");
    std::fs::write(&other, format!("{}\n", expect[0])).unwrap();
    assert_eq!(shallow(&with_file(&other)).unwrap(), expect[..1]);
    std::fs::write(&other, "no id\n").unwrap();
    let error = shallow(&with_file(&other)).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Corrupt, "bad shallow line: no id"));
}

#[test]
fn export_has_to_be_allowed() {
    let dir = packrace_testkit::scratch_dir();
    bare(dir.path(), "main");
    assert!(!open(dir.path(), true).unwrap().is_export_ok());
    std::fs::write(dir.path().join("git-daemon-export-ok"), "").unwrap();
    assert!(open(dir.path(), true).unwrap().is_export_ok());
}
