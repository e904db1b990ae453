//! `packrace commit-tree` compared with `git commit-tree`.

use std::process::Output;

use crate::index_twins::IndexTwins;
use crate::running::{packrace_with, stock_git_with};

struct Commits(IndexTwins);

impl Commits {
    fn check(&self, args: &str, input: &[u8]) {
        self.check_with(&[], args, input);
    }

    /// Checks for the same commit and the same output.
    fn check_with(&self, variables: &[(&str, &str)], args: &str, input: &[u8]) {
        let args: Vec<String> = args.split_ascii_whitespace().map(|word| self.0.filled(word)).collect();
        let args: Vec<&str> =
            args.iter().map(|word| if *word == "''" { "" } else { word.as_str() }).collect();
        let [git, ours] = self.0.tops();
        let theirs = stock_git_with(&git, &args, input, variables);
        let mine = packrace_with(&ours, &args, input, variables);
        assert_eq!(said(&mine), said(&theirs), "{args:?} {variables:?} {input:?}");
        let id = String::from_utf8_lossy(&mine.stdout).trim().to_owned();
        if mine.status.success() {
            let content = |top| stock_git_with(top, &["cat-file", "commit", &id], b"", &[]).stdout;
            assert_eq!(content(&ours), content(&git), "{args:?}");
        }
    }
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let is_usage = output.status.code() == Some(129);
        text.lines().take_while(|line| !is_usage || !line.contains("usage:")).collect::<Vec<_>>().join("\n")
    };
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn messages() {
    let commits = Commits(IndexTwins::new(&[]));
    commits.0.prepare("printf filemsg > F");
    for args in [
        "-m a -m b {t}",
        "-m a {t} -m b",
        "-F F {t}",
        "-F F -m q -F F {t}",
        "-F nofile {t}",
        "-mfoo {t}",
        "-F - -m x {t}",
    ] {
        commits.check(&format!("commit-tree {args}"), b"in\n");
    }
    for input in [&b"msg\n"[..], b"no newline", b"a\nb", b"", b"a\0b\n", b"caf\xe9\n"] {
        commits.check("commit-tree {t}", input);
        commits.check("commit-tree -m '' {t}", input);
    }
    let odd = b"caf\xe9\n\xc0\x80 \xed\xa0\x80 \xef\xbf\xbe \xef\xb7\x90 \xf4\x90\x80\x80 \xf0\x9d\x84\x9e \xf5\x80 \xff";
    for encoding in ["ISO-8859-1", "utf8", "UTF-8", "bogus", "utf-8", ""] {
        commits.check(&format!("-c i18n.commitEncoding={encoding} commit-tree {{t}}"), odd);
    }
}

#[test]
fn trees_and_parents() {
    for init in [&[][..], &["--object-format=sha256"]] {
        let commits = Commits(IndexTwins::new(init));
        for args in [
            "-m x",
            "-m x -p {c} {t}",
            "-m x -p {c} -p {c} {t}",
            "-m x -p HEAD {t}",
            "-p HEAD~9 -m x {t}",
            "-m x -p {t} {t}",
            "-m x -p {1} {t}",
            "-m x {c}",
            "-m x {a}",
            "-m x HEAD^{tree}",
            "-m x HEAD",
            "-m x nosuch",
            "-m x {1}",
            "-m x {t} {t}",
            "-m x {t} -p",
            "-m x --no-gpg-sign {t}",
            "-m x -pHEAD {t}",
        ] {
            commits.check(&format!("commit-tree {args}"), b"");
        }
    }
}

#[test]
fn without_git_signing_is_refused_by_name() {
    let commits = Commits(IndexTwins::new(&[]));
    for (args, name) in [(["-S", "-mx"], "switch `S'"), (["--gpg-sign", "-mx"], "option `gpg-sign'")] {
        let [_, ours] = commits.0.tops();
        let output = packrace_with(
            &ours,
            &[&["commit-tree"][..], &args, &["HEAD^{tree}"]].concat(),
            b"",
            &[("PATH", "")],
        );
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{stderr}");
        assert!(stderr.contains(name), "{stderr}");
    }
}

#[test]
fn people() {
    let commits = Commits(IndexTwins::new(&[]));
    for (name, value) in [
        ("GIT_AUTHOR_NAME", ""),
        ("GIT_AUTHOR_NAME", "<>"),
        ("GIT_AUTHOR_NAME", " A. U <Thor>, "),
        ("GIT_AUTHOR_EMAIL", ""),
        ("GIT_AUTHOR_DATE", "nonsense"),
        ("GIT_COMMITTER_DATE", "nonsense"),
        ("GIT_AUTHOR_DATE", "2005-04-07T22:13:13"),
        ("GIT_AUTHOR_DATE", "@1112912053 +0100"),
        ("GIT_COMMITTER_NAME", ""),
    ] {
        commits.check_with(&[(name, value)], "commit-tree -m x {t}", b"");
    }
    commits.check("-c author.name=AN -c author.email=ae@x commit-tree -m x {t}", b"");
}
