//! Clients that are not git: dulwich, libgit2 through pygit2, isomorphic-git, JGit and go-git.

use super::*;

/// Where `.ci/run` installs them.
fn packages() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_packrace")).ancestors().nth(2).unwrap();
    target.join("clients")
}

fn client(script: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serving/other_clients").join(script);
    let interpreter = match script.rsplit('.').next().unwrap() {
        "py" => "python3",
        "mjs" => "node",
        "java" => "java",
        _ => return Command::new(built_by_go(&path)),
    };
    let mut command = Command::new(interpreter);
    command.env("PYTHONPATH", packages()).env("PACKRACE_CLIENTS", packages().join("node"));
    command.env("CLASSPATH", "/usr/share/java/*").arg(path);
    command
}

/// The program made of a source in Go and Debian's packages; nothing is done if it is there.
fn built_by_go(path: &Path) -> PathBuf {
    let (folder, name) = (packages().join("go"), path.file_stem().unwrap());
    let (source, program) = (folder.join("src").join(name), folder.join("bin").join(name));
    std::fs::create_dir_all(&source).unwrap();
    std::fs::copy(path, source.join("main.go")).unwrap();
    // Only from within a module does Go find packages whose path has no version.
    std::fs::write(source.join("go.mod"), "module client\n").unwrap();
    let mut go = Command::new("go");
    go.env("GO111MODULE", "off").env("GOCACHE", folder.join("cache"));
    go.env("GOPATH", format!("{}:/usr/share/gocode", folder.display()));
    let built = go.arg("build").arg("-o").arg(&program).arg(name).output().expect("go");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// What a client's script prints.
#[track_caller]
fn run(script: &str, args: &[&str]) -> String {
    let ran = client(script).args(args).stdin(Stdio::null()).output().expect(script);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{script} {args:?}: {said}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

fn check(script: &str, schemes: &[&str], has_depth: bool) {
    let server = Server::start("", &["--allow-push", "--http", "127.0.0.1:0", "--git", "127.0.0.1:0"], &[]);
    let (folder, repo) = (server.folder.path(), server.repository());
    let served = |name: &str| Git::stock().run(&repo, &["rev-parse", name]).trim().to_owned();
    for (number, scheme) in schemes.iter().enumerate() {
        let url = &*format!("{scheme}://{}/a.git", server.address(scheme));
        let at = |name: &str| folder.join(format!("{name}-{number}"));
        let clone = at("clone").display().to_string();
        let in_clone = |args: &[&str]| Git::stock().run(Path::new(&clone), args);
        assert_eq!(run(script, &["clone", url, &clone]), served("HEAD"), "{url}");
        in_clone(&["fsck", "--strict"]);
        let count =
            |dir: &Path, of: &str| Git::stock().run(dir, &["rev-list", "--count", of]).trim().to_owned();
        assert_eq!(count(Path::new(&clone), "HEAD"), count(&repo, "HEAD"));

        if has_depth {
            let shallow = at("shallow").display().to_string();
            assert_eq!(run(script, &["shallow", url, &shallow]), served("HEAD"), "{url}");
            assert_eq!(count(Path::new(&shallow), "HEAD"), "1", "{url}");
            Git::stock().run(Path::new(&shallow), &["fsck", "--strict"]);
        }

        let tree = served("HEAD^{tree}");
        let commit = Git::stock().run(&repo, &["commit-tree", "-p", "main", "-m", url, &tree]);
        Git::stock().run(&repo, &["update-ref", "refs/heads/main", commit.trim()]);
        assert_eq!(run(script, &["fetch", url, &clone]), commit.trim(), "{url}");

        let name = format!("pushed-{number}");
        let pushed = run(script, &["push", url, &clone, &name]);
        assert_eq!(pushed, served(&format!("refs/heads/{name}")), "{url}");
        assert_ne!(pushed, served("main"));
        in_clone(&["fsck", "--strict"]);
    }
    Git::stock().run(&repo, &["fsck", "--strict"]);
}

#[test]
#[ignore = "needs python3 and dulwich, which .ci/run installs"]
fn dulwich() {
    check("with_dulwich.py", &["http", "git"], true);
}

#[test]
#[ignore = "needs python3 and pygit2, which .ci/run installs"]
fn libgit2() {
    check("with_pygit2.py", &["http", "git"], true);
}

/// It speaks HTTP only.
#[test]
#[ignore = "needs node and isomorphic-git, which .ci/run installs"]
fn isomorphic_git() {
    check("with_isomorphic.mjs", &["http"], true);
}

/// The version that Debian has makes no shallow clones, and knows no protocol version 2.
#[test]
#[ignore = "needs java and JGit, which .ci/run installs"]
fn jgit() {
    check("WithJgit.java", &["http", "git"], false);
}

#[test]
#[ignore = "needs go and go-git, which .ci/run installs"]
fn go_git() {
    check("with_go_git.go", &["http", "git"], true);
}
