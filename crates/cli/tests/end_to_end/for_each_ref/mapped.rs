//! `:mailmap` and recent dates compared with git's.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_testkit::Git;

use super::{check_formats, check_with};
use crate::running::{packrace, stock_git};

const FORMS: &[&str] = &[
    "%(refname)[%(authorname:mailmap)][%(authoremail:mailmap)][%(taggeremail:mailmap,trim)]",
    "[%(*authorname:mailmap)][%(*authoremail:mailmap,localpart)][%(authorname)][%(author)][%(author:mailmap)]",
    "[%(authoremail:trim,mailmap)][%(authoremail:localpart,mailmap,trim)][%(taggername:mailmap)][%(authoremail:mailmap,mailmap)]",
];

/// Committers, also as creators: other atoms change their meaning.
const COMMITTERS: &[&str] = &[
    "[%(committername:mailmap)][%(committeremail:mailmap)]",
    "[%(creator)][%(committername:mailmap)][%(creatordate)][%(*creator)]",
    "[%(creator)][%(taggeremail:mailmap)][%(*creator)][%(*committername:mailmap)]",
    "[%(creator)][%(authorname:mailmap)][%(*taggername:mailmap)]",
];

const MAILMAPS: &[&str] = &[
    "",
    "New <author@example.com>\n",
    "<new@x> <author@example.com>\n<new@y> <committer@example.com>\n",
    "New <new@x> <AUTHOR@Example.com>\nOther Case <COMMITTER@EXAMPLE.COM>\n",
    "By Name <named@x> a u thor <author@example.com>\nAnyone <any@x> <author@example.com>\n",
    "Nobody <named@x> someone else <author@example.com>\n",
    "First <first@x> <author@example.com>\n<second@x> <author@example.com>\n",
    "N <n@x> A U Thor <author@example.com>\n<m@x> A U Thor <author@example.com>\n",
    "# New <author@example.com>\n  # Odd <author@example.com> # comment\n",
    "New <new@x> <author@example.com>\r\n\r\nCom Mitter <committer@example.com>\r\n",
    "New <new@x>\t<author@example.com>junk <x>\n\u{b}Vertical <committer@example.com>",
    " <  blank@x > < author@example.com>\n Blank <committer@example.com>\n",
    "New <> <author@example.com>\n<author@example.com>\nno entry\nopen <author@example.com\n",
    "Empty <empty@x> <>\nBracket <a<b@x> <author@example.com>\n",
    "New <author@example.com>\0rest\nTwo <committer@example.com>",
    "Ä Ö <ä@ö> <author@example.com>\n",
];

/// Lines of people, valid and odd.
const PEOPLE: &[&str] = &[
    "A U Thor <author@example.com> 1112912053 +0000",
    "a u THOR <Author@Example.Com> 1112912053 -0700",
    "A U Thor   <author@example.com> 1112912053 +0000",
    "  A U Thor <author@example.com> 1112912053 +0000",
    "A U Thor<author@example.com> 1112912053 +0000",
    "<author@example.com> 1112912053 +0000",
    " <author@example.com> 1112912053 +0000",
    "A < author@example.com> 1112912053 +0000",
    "A <author@example.com>> 1112912053 +0000",
    "A <x> <author@example.com> 1112912053 +0000",
    "A <author@example.com>",
    "A <author@example.com>1112912053 +0000",
];

struct Mapped {
    dir: tempfile::TempDir,
}

impl Mapped {
    fn new() -> Self {
        let mapped = Mapped { dir: packrace_testkit::scratch_dir() };
        let git = Git::stock();
        git.run(mapped.dir.path(), &["init", "-q", "-b", "main", "repo"]);
        let repo = mapped.repo();
        let tree = git.run_with_input(&repo, &["mktree"], b"");
        let tree = String::from_utf8(tree).unwrap();
        for (number, person) in PEOPLE.iter().enumerate() {
            let commit = format!(
                "tree {}\nauthor {person}\ncommitter C O Mitter <committer@example.com> 1112912053 +0000\n\nm\n",
                tree.trim()
            );
            let hash = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"];
            let id = git.run_with_input(&repo, &hash, commit.as_bytes());
            let id = String::from_utf8(id).unwrap();
            git.run(&repo, &["update-ref", &format!("refs/people/{number:02}"), id.trim()]);
        }
        git.run(&repo, &["update-ref", "refs/heads/main", "refs/people/00"]);
        git.run(&repo, &["tag", "-a", "-m", "x", "v1", "refs/people/00"]);
        git.run(&repo, &["tag", "-a", "-m", "x", "blob", "refs/people/00^{tree}"]);
        mapped
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.repo().join(path), text).unwrap();
    }
}

#[test]
fn mailmaps() {
    let mapped = Mapped::new();
    check_formats(&mapped.repo(), FORMS, &[]);
    for mailmap in MAILMAPS {
        mapped.write(".mailmap", mailmap);
        check_formats(&mapped.repo(), FORMS, &[]);
        // Before, git changed a committer only together with the author.
        if Git::stock().version() >= (2, 55) {
            check_formats(&mapped.repo(), COMMITTERS, &[]);
        }
    }
    mapped.write(".mailmap", MAILMAPS[4]);
    for key in [
        "authorname:mailmap",
        "-authoremail:mailmap,localpart",
        "v:authoremail:mailmap",
        "taggername:mailmap",
    ] {
        check_formats(&mapped.repo(), &["%(refname) %(creator)"], &["--sort", key]);
    }
    check_formats(&mapped.repo(), &["%(creator)"], &["refs/heads", "--sort=committeremail:mailmap"]);
}

#[test]
fn committers_are_mapped_whoever_the_author_is() {
    let mapped = Mapped::new();
    mapped.write(".mailmap", "New <new@x> <committer@example.com>\n");
    let format = "--format=%(committername:mailmap)%(committeremail:mailmap) %(creator:mailmap)";
    let shown = packrace(&mapped.repo(), &["for-each-ref", format, "refs/heads"], "");
    let expect = "New<new@x> New <new@x> 1112912053 +0000\n";
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), expect);
}

#[test]
fn where_mailmaps_are() {
    let mapped = Mapped::new();
    let repo = mapped.repo();
    let of = |name: &str| format!("{name} <{name}@x> <author@example.com>\n");
    let format = ["--format=%(authorname:mailmap)%(authoremail:mailmap)", "refs/heads"];
    let check_here = |dir: &Path, before: &[&str]| check_with(dir, before, &format, "");
    for (path, name) in [(".mailmap", "top"), ("named", "named"), ("committed", "committed")] {
        mapped.write(path, &of(name));
    }
    std::fs::create_dir(repo.join("sub")).unwrap();
    for (path, name) in [("sub/.mailmap", "sub"), ("sub/named", "subnamed"), (".git/.mailmap", "ingit")] {
        mapped.write(path, &of(name));
    }
    let blob = Git::stock().run(&repo, &["hash-object", "-w", "committed"]);
    let blob = format!("mailmap.blob={}", blob.trim());
    let absolute = format!("mailmap.file={}", repo.join("named").display());
    for dir in [&repo, &repo.join("sub"), &repo.join(".git")] {
        check_here(dir, &[]);
        check_here(dir, &["-c", "mailmap.file=named"]);
        check_here(dir, &["-c", "mailmap.file=none", "-c", &blob]);
        check_here(dir, &["-c", &absolute, "-c", &blob]);
        check_here(dir, &["-c", &absolute, "-c", "mailmap.file="]);
    }
    check_here(&repo.join("sub"), &["--git-dir=../.git"]);
    check_here(&repo.join("sub"), &["--git-dir=../.git", "--work-tree=.."]);
    check_here(mapped.dir.path(), &["--git-dir=repo/.git"]);
    check_here(mapped.dir.path(), &["-C", "repo/sub", "-c", "mailmap.file=named"]);
    for bad in [
        "mailmap.blob=xyz",
        "mailmap.blob=HEAD:none",
        "mailmap.blob=HEAD",
        "mailmap.blob=",
        "mailmap.file=/",
        "mailmap.file=named/x",
    ] {
        check_here(&repo, &["-c", bad]);
        std::fs::rename(repo.join(".mailmap"), repo.join("kept")).unwrap();
        check_here(&repo, &["-c", bad]);
        std::fs::rename(repo.join("kept"), repo.join(".mailmap")).unwrap();
    }
    // Links in the work tree are not followed; configured ones are.
    std::fs::remove_file(repo.join(".mailmap")).unwrap();
    std::os::unix::fs::symlink("named", repo.join(".mailmap")).unwrap();
    check_here(&repo, &[]);
    check_with(
        &repo,
        &[],
        &["--format=%(authorname:mailmap)%(committername:mailmap)%(taggername:mailmap)"],
        "",
    );
    check_here(&repo, &["-c", "mailmap.file=.mailmap"]);
    check_with(&repo, &["-c", "mailmap.blob=xyz"], &["--format=%(refname)%(authorname)"], "");
}

#[test]
fn mailmaps_of_bare_repositories() {
    let mapped = Mapped::new();
    let repo = mapped.repo();
    let clone = || {
        let _ = std::fs::remove_dir_all(mapped.dir.path().join("bare.git"));
        Git::stock().run(mapped.dir.path(), &["clone", "-q", "--bare", "repo", "bare.git"]);
        mapped.dir.path().join("bare.git")
    };
    let format = ["--format=%(refname) %(authorname:mailmap)%(authoremail:mailmap)"];
    check_with(&clone(), &[], &format, "");
    mapped.write(".mailmap", "Committed <c@x> <author@example.com>\n");
    Git::stock().run(&repo, &["add", ".mailmap"]);
    Git::stock().run(&repo, &["commit", "-q", "-m", "mailmap"]);
    let bare = clone();
    std::fs::write(bare.join(".mailmap"), "Loose <l@x> <author@example.com>\n").unwrap();
    check_with(&bare, &[], &format, "");
    check_with(&bare, &["-c", "mailmap.blob="], &format, "");
    check_with(&bare, &["-c", "mailmap.blob=HEAD:none"], &format, "");
    check_with(&bare, &["-c", "mailmap.blob=HEAD^{tree}"], &format, "");
    check_with(&bare, &["-c", "mailmap.file=.mailmap"], &format, "");
    check_with(&bare, &["--work-tree=."], &format, "");
    Git::stock().run(&bare, &["symbolic-ref", "HEAD", "refs/heads/none"]);
    check_with(&bare, &[], &format, "");
}

/// Dates from this minute to next year. Both programs read the clock: a second attempt covers a change in
/// between.
#[test]
fn human_dates() {
    let dir = packrace_testkit::scratch_dir();
    let repo = dir.path();
    Git::stock().run(repo, &["init", "-q", "-b", "main"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let hours = [-9000, -800, -30, -5, 0, 1, 7, 20, 26, 50, 75, 98, 122, 170, 400, 800, 4000, 9000, 90_000];
    let mut stream = String::new();
    for (number, hours) in hours.iter().enumerate() {
        for zone in ["+0000", "-0700", "+1300"] {
            let person = format!("A <a@example.com> {} {zone}", now - hours * 3600 - 1200);
            let name = format!("refs/heads/{number}{zone}");
            stream += &format!("commit {name}\nauthor {person}\ncommitter {person}\ndata 0\n\n");
        }
    }
    Git::stock().run_with_input(repo, &["fast-import", "--quiet"], stream.as_bytes());
    let format = "--format=%(authordate:human)|%(authordate:human-local)|%(authordate:auto:human)";
    let args = ["for-each-ref", format];
    let outputs = || [stock_git(repo, &args, "").stdout, packrace(repo, &args, "").stdout];
    let [mut of_git, mut of_ours] = outputs();
    if of_git != of_ours {
        [of_git, of_ours] = outputs();
    }
    assert_eq!(String::from_utf8_lossy(&of_git), String::from_utf8_lossy(&of_ours));
}
