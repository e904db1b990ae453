//! `packrace init` prints and creates the same as git's command, and stock git works in the result.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use packrace_testkit::{Git, clean_environment};

use crate::running::{PACKRACE, packrace, stock_git};

/// Scripts that run line by line in two empty directories, in a shell where `$i` is the command. Output and
/// results are the same.
const SAME: &[&str] = &[
    "$i --template= -b main a",
    "$i --template= -b main a\n$i --template= a",
    "$i --template= -q a",
    "$i --template= -b main --bare a.git",
    "$i --template= -q --bare -b x/y --object-format=sha256 a.git",
    "$i --template= -b main",
    "$i --template= -b main a/b/c",
    "$i --template= -b main -- a",
    "$i --template= -q --ref-format=reftable a\n$i --template= a",
    "$i --template= -q --ref-format=reftable --object-format=sha256 --bare a\n$i --bare --template= a",
    "$i --template= -q --object-format=sha256 a\n$i --template= --object-format=sha256 --ref-format=files a",
    "$i --template= -q --bare --no-bare --no-quiet -b x --no-initial-branch a",
    "$i --template= -b main --object-format=sha256 --no-object-format --ref-format=reftable --no-ref-format a",
    "$i --template= -b main --separate-git-dir=s --no-separate-git-dir a",
    "$i --template= -b -x a",
    "$i --template= -b HEAD a",
    // Sharing, with different masks.
    "$i --template= -q --shared a",
    "$i --template= -b main --shared=all a\n$i --template= a",
    "$i --template= -b main --shared=umask a",
    "$i --template= -b main --shared= a",
    "$i --template= -b main --shared=false a",
    "$i --template= -q --shared=0640 --ref-format=reftable a",
    "$i --template= -q --shared=0600 a",
    "$i --template= -q --shared=0777 a",
    "umask 077; $i --template= -q --shared=0666 x/y/b",
    "umask 077; $i --template= -q --shared=world --ref-format=reftable b",
    "umask 027; $i --template= -q --shared=1 b\n$i --template= --shared=0 b\n$i --template= --shared=2 b",
    "umask 027; $i --template= -q --separate-git-dir=s --shared=everybody b",
    "$i --template= -q a\n$i --template= --shared=0660 a\n$i --template= --shared=umask a",
    "$i --template= -q --ref-format=reftable a\n$i --template= --shared=0660 a",
    "$c -c core.sharedRepository=group init --template= -q a",
    "$c -c core.sharedRepository=group init --template= -b main --shared=umask a",
    // Existing files stay.
    "$i --template= -q -b one a\n$i --template= -b two a\n$i --template= -q -b two a",
    "$i --template= -q a\nrm -r a/.git/refs a/.git/objects/pack\n$i --template= -b x a",
    "$i --template= -q a\nrm a/.git/config\n$i --template= a",
    "$i --template= -q a\necho junk >a/.git/HEAD\n$i --template= a",
    "$i --template= -q a\nrm a/.git/HEAD; ln -s refs/heads/q a/.git/HEAD\n$i --template= a",
    "$i --template= -q a\nprintf '# why\\n[user]\\n\\tname = x # y\\n' >>a/.git/config; chmod 600 a/.git/config\n$i --template= --shared a",
    "$i --template= -q --bare x.git\ncd x.git && $i --template= -b main\n$i --template= x.git\n$i --template= --bare x.git",
    // Elsewhere.
    "$i --template= -q --separate-git-dir=s a\n$i --template= --separate-git-dir=t a\n$i --template= --separate-git-dir=t a",
    "$i --template= -q a\nmkdir e; $i --template= --separate-git-dir=e a",
    "$i --template= -q a\ncd a && $X -c user.name=x -c user.email=y init --template= -q . && git commit -q --allow-empty -m x && git worktree add -q ../w\n\
     $i --template= --separate-git-dir=s a\ngit -C w status && git -C a worktree list --porcelain",
    "GIT_DIR=x $i --template= -b main",
    "GIT_DIR=. $i --template= -b main",
    "GIT_DIR=.git $i --template= -b main",
    "GIT_DIR=$PWD $i --template= -b main\nGIT_DIR=$PWD $i --template=",
    "mkdir y; GIT_DIR=y/.git $i --template= -b main\nGIT_DIR=$PWD/y/.git $i --template= -b main",
    "mkdir -p y/z; cd y/z; GIT_DIR=../.git $i --template= -b main",
    "mkdir w; GIT_DIR=u GIT_WORK_TREE=w $i --template= -b main",
    "GIT_DIR=u GIT_WORK_TREE=nowhere $i --template= -b main",
    "mkdir w; GIT_DIR=w/.git GIT_WORK_TREE=w $i --template= -b main",
    "GIT_DIR=r $i --template= -b main sub",
    "mkdir a; $c -C a --git-dir=q init --template= -b main sub",
    "mkdir a; $c -C a init --template= -b main",
    "GIT_OBJECT_DIRECTORY=o $i --template= -b main a",
    "mkdir a; GIT_OBJECT_DIRECTORY=$PWD/o $i --template= -b main a",
    // Configuration and environment.
    "$c -c init.defaultBranch=foo init --template= a",
    "$c -c init.defaultBranch=foo init --template= -b bar a",
    "$c -c init.defaultObjectFormat=sha256 -c init.defaultRefFormat=reftable init --template= a",
    "$c -c init.defaultObjectFormat=foo init --template= -b main a",
    "$c -c init.defaultRefFormat=foo init --template= -b main a",
    "GIT_DEFAULT_HASH=sha256 GIT_DEFAULT_REF_FORMAT=reftable $i --template= -b main a",
    "GIT_DEFAULT_HASH=sha256 $c -c init.defaultObjectFormat=sha1 init --template= -b main a",
    "GIT_DEFAULT_HASH=sha256 $i --object-format=sha1 --template= -b main a",
    "$c -c core.logAllRefUpdates=false init --template= -b main a",
    "$c -c core.bare=true -c core.fileMode=false -c core.fsync=all init --template= -b main a",
    // Templates.
    "$t; $i --template=t -b main a",
    "$t; $i --template=t -b main a; echo own >a/.git/description; echo new >t/hooks/s\n$i --template=t a; cat a/.git/description",
    "$t; umask 077; $i --template=t -q --shared=all --ref-format=reftable a",
    "$t; umask 077; $c -c core.sharedRepository=all init --template=t -q a",
    "$t; mkdir a; GIT_TEMPLATE_DIR=../t $i -q a",
    "$t; mkdir a; $c -c init.templateDir=../t init -q a",
    "$t; mkdir a; GIT_TEMPLATE_DIR=nowhere $c -c init.templateDir=../t init -b main a",
    "$t; GIT_TEMPLATE_DIR= $c -c init.templateDir=t init -b main a",
    "$c -c init.templateDir= init -b main a",
    "$i --template=/nowhere -b main a",
    "touch t; $i --template=t -b main a",
    "$t; mkfifo t/pipe; $i --template=t -b main a",
    "$t; echo ref: refs/heads/tt >t/HEAD; $i --template=t a",
    "$t; printf '[core]\\n\\tsharedrepository = all\\n\\tbare = true\\n[a]\\n\\tb=c ; d\\n' >t/config; $i --template=t -b main a",
    "$t; printf '[core]\\n\\trepositoryformatversion = 7\\n' >t/config; $i --template=t -b main a",
];

/// Scripts with the same output; results may differ.
const SAID: &[&str] = &[
    "$i --object-format=foo a",
    "$i --ref-format=foo a",
    "$i --template= -b a..b a",
    "$i --template= -b '' a",
    "$i --template= --shared=bogus a",
    "$i --template= --shared=0444 a",
    "$i --template= --shared=0999 a",
    "$i ''",
    "touch a; $i --template= a; $i --template= a/b",
    "mkdir a; touch a/.git; $i --template= a",
    "mkdir a; echo gitdir: zz >a/.git; $i --template= a",
    "$i a b",
    "$i --foo",
    "$i -x",
    "$i --template",
    "$i --separate-git-dir=s --bare a",
    "GIT_DIR=x $i --separate-git-dir=s a",
    "GIT_WORK_TREE=x $i a",
    "GIT_WORK_TREE=x $i --bare a",
    "GIT_DIR=x GIT_WORK_TREE=y $i --bare a",
    "GIT_DIR=y/.git $i --template=",
    "GIT_DIR=n/m/x $i --template= -b main",
    "$i --template= --separate-git-dir=n/m -b main a",
    "$i --template= --separate-git-dir= a",
    "$i --template= -q a; mkdir f; touch f/f; $i --template= --separate-git-dir=f a",
    "GIT_DEFAULT_HASH=foo $i --template= a",
    "GIT_DEFAULT_REF_FORMAT=foo $i --template= a",
    "$c -c init.defaultBranch=a..b init --template= a",
    "$c -c init.defaultBranch= init --template= a",
    "$c -c core.sharedRepository=bogus init --template= a",
    "$c -c core.logAllRefUpdates=zz init --template= -b main a",
    "$i --template= -q a; $i --object-format=sha256 a; $i --ref-format=reftable a",
    "$i --template= -q a; echo '[core' >a/.git/config; $i --template= a",
    "$i --template= -q a; git config -f a/.git/config core.repositoryformatversion 2; $i --template= a",
    "$i --template= -q a; git config -f a/.git/config extensions.objectformat sha1; $i --template= a",
    "mkdir t; printf '[core]\\n\\tsharedrepository = zz\\n' >t/config; $i --template=t a",
];

const TEMPLATE: &str = "mkdir -p t/hooks/d t/info t/.hidden t/branches; echo a >t/info/exclude; echo d >t/description; \
     echo run >t/hooks/run; chmod 755 t/hooks/run; echo x >t/hooks/d/.x; echo y >t/hooks/d/y; chmod 440 t/hooks/d/y; \
     ln -s nowhere t/link";

fn shell(dir: &Path, binary: &str, line: &str) -> Output {
    let line = line.replace("$t", TEMPLATE).replace("$i", "$X init").replace("$c", "$X");
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    let path = std::env::var("PATH").unwrap();
    let git = Git::stock().binary().parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    command.env("X", binary).env("PATH", format!("{git}:{path}")).current_dir(dir);
    command.args(["-c", &format!("umask 022; {line}")]).output().unwrap()
}

/// Exit code and outputs, without the place of the directory, usage texts, and hints, whose words are those of git 2.55:
/// sessions compare them.
fn said(dir: &Path, output: &Output) -> (Option<i32>, String, String) {
    let dir = std::fs::canonicalize(dir).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&dir.display().to_string(), "@");
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    let stderr = stderr.lines().take_while(|line| !line.contains("usage:"));
    let stderr = stderr.filter(|line| !line.starts_with("hint:")).collect::<Vec<_>>().join("\n");
    (output.status.code(), text(&output.stdout), stderr)
}

/// Names, kinds, modes and contents below a directory; for reftables, what git reads from them.
fn tree(top: &Path) -> Vec<String> {
    fn add(top: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let metadata = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let mode = metadata.permissions().mode();
            if name.ends_with(".ref") {
                found.push(format!("{}/TABLE {mode:o}", name.rsplit_once('/').unwrap().0));
            } else if metadata.is_dir() {
                found.push(format!("{name}/ {mode:o}"));
                if path.join("tables.list").exists() {
                    let git_dir = path.parent().unwrap().display().to_string();
                    for args in [&["symbolic-ref", "HEAD"][..], &["for-each-ref"], &["refs", "verify"]] {
                        let args = [&["--git-dir", &git_dir][..], args].concat();
                        found.push(format!("{name}: {}", Git::stock().run(top, &args)));
                    }
                }
                add(top, &path, found);
            } else if metadata.is_symlink() {
                found.push(format!("{name} -> {}", std::fs::read_link(&path).unwrap().display()));
            } else if metadata.is_file() {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                let text = text.replace(&std::fs::canonicalize(top).unwrap().display().to_string(), "@");
                let lines = text.lines().count();
                let is_binary = name.ends_with("index") || name.contains("/objects/");
                let text = if name.ends_with("tables.list") || is_binary { lines.to_string() } else { text };
                found.push(format!("{name} {mode:o} {text}"));
            }
        }
    }
    let mut found = Vec::new();
    add(top, top, &mut found);
    found.sort();
    found
}

/// Runs a script with both; compares the results if `is_tree_same`.
fn check(script: &str, is_tree_same: bool) {
    let dir = packrace_testkit::scratch_dir();
    let [theirs, ours] = ["git", "packrace"].map(|name| dir.path().join(name));
    for dir in [&theirs, &ours] {
        std::fs::create_dir(dir).unwrap();
    }
    let git = Git::stock().binary().display().to_string();
    for line in script.lines() {
        let (git, packrace) = (shell(&theirs, &git, line), shell(&ours, PACKRACE, line));
        assert_eq!(said(&ours, &packrace), said(&theirs, &git), "{script}: {line}");
    }
    if is_tree_same {
        assert_eq!(tree(&ours), tree(&theirs), "{script}");
    }
}

#[test]
fn says_and_leaves_what_git_does() {
    for script in SAME {
        check(script, true);
    }
}

#[test]
fn refuses_what_git_refuses() {
    for script in SAID {
        check(script, false);
    }
}

/// All formats: stock git commits, checks and reads, before and after another `init`.
#[test]
fn git_works_in_what_is_made() {
    for hash in ["sha1", "sha256"] {
        for refs in ["files", "reftable"] {
            for is_bare in [false, true] {
                let dir = packrace_testkit::scratch_dir();
                let path = dir.path().join("r");
                let formats = [format!("--object-format={hash}"), format!("--ref-format={refs}")];
                let mut args = vec!["init", "-q", "-b", "main", &formats[0], &formats[1], "r"];
                if is_bare {
                    args.insert(1, "--bare");
                }
                let init = || {
                    let output = packrace(dir.path(), &args, "");
                    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{args:?} {stderr}");
                };
                init();
                let git = |args: &[&str]| Git::stock().run(&path, args).trim().to_owned();
                let tree = git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
                let commit = git(&["commit-tree", "-m", "one", &tree]);
                git(&["update-ref", "refs/heads/main", &commit]);
                if !is_bare {
                    git(&["commit", "--allow-empty", "-q", "-m", "two"]);
                    assert_eq!(git(&["status", "--porcelain"]), "");
                    assert_eq!(git(&["reflog"]).lines().count(), 2);
                }
                let head = git(&["rev-parse", "HEAD"]);
                init();
                assert_eq!(git(&["rev-parse", "HEAD"]), head);
                assert_eq!(git(&["rev-parse", "--is-bare-repository"]), is_bare.to_string());
                assert_eq!(git(&["rev-parse", "--show-object-format"]), hash);
                assert_eq!(git(&["rev-parse", "--show-ref-format"]), refs);
                assert_eq!(git(&["fsck", "--strict"]), "");
                assert_eq!(git(&["refs", "verify"]), "");
            }
        }
    }
}

/// Without a template: files with text of our own.
#[test]
fn brings_a_template_of_its_own() {
    let dir = packrace_testkit::scratch_dir();
    assert!(packrace(dir.path(), &["init", "-q", "--bare", "r"], "").status.success());
    let path = dir.path().join("r");
    assert_eq!(std::fs::read_dir(path.join("hooks")).unwrap().count(), 0);
    let exclude = std::fs::read_to_string(path.join("info/exclude")).unwrap();
    assert!(exclude.lines().all(|line| line.starts_with('#')), "{exclude}");
    std::fs::write(path.join("description"), "own").unwrap();
    assert!(packrace(dir.path(), &["init", "-q", "--bare", "r"], "").status.success());
    assert_eq!(std::fs::read_to_string(path.join("description")).unwrap(), "own");
}

/// Where git 2.47 creates a repository that it cannot read itself, ours is readable.
#[test]
fn keeps_the_version_of_extended_repositories() {
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("r");
    let formats = ["init", "-q", "--object-format=sha256", "--ref-format=reftable", "r"];
    assert!(packrace(dir.path(), &formats, "").status.success());
    let again = shell(dir.path(), PACKRACE, "GIT_DEFAULT_HASH=sha1 GIT_DEFAULT_REF_FORMAT=files $i -q r");
    assert_eq!(said(dir.path(), &again), (Some(0), String::new(), String::new()));
    assert_eq!(Git::stock().run(&path, &["rev-parse", "--show-object-format"]), "sha256\n");
    Git::stock().run(&path, &["config", "extensions.partialClone", "origin"]);
    assert!(packrace(dir.path(), &["init", "-q", "r"], "").status.success());
    assert_eq!(Git::stock().run(&path, &["config", "core.repositoryFormatVersion"]), "1\n");
    // The git directory of a separate work tree stays one.
    let away = "mkdir w; GIT_DIR=u GIT_WORK_TREE=w $i -q; GIT_DIR=u $i -q";
    assert_eq!(said(dir.path(), &shell(dir.path(), PACKRACE, away)).0, Some(0));
    assert_eq!(Git::stock().run(&dir.path().join("u"), &["config", "core.bare"]), "false\n");
}

#[test]
fn refuses_by_name_what_it_cannot_do() {
    let dir = packrace_testkit::scratch_dir();
    let output = shell(dir.path(), PACKRACE, "GIT_COMMON_DIR=x $i a");
    let expect = (Some(129), String::new(), "fatal: init: GIT_COMMON_DIR is not supported".to_owned());
    assert_eq!(said(dir.path(), &output), expect);
    assert!(!dir.path().join("a").exists());
    let path = dir.path().join("r");
    assert!(packrace(dir.path(), &["init", "-q", "r"], "").status.success());
    Git::stock().run(&path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    Git::stock().run(&path, &["worktree", "add", "-q", "../w"]);
    let output = shell(dir.path(), PACKRACE, "$i -q --separate-git-dir=s r; $i --separate-git-dir=t w");
    let text = "fatal: --separate-git-dir incompatible with bare repository".to_owned();
    assert_eq!(said(dir.path(), &output), (Some(128), String::new(), text));
    assert!(stock_git(&dir.path().join("w"), &["status"], "").status.success());
}
