//! `packrace hash-object` compared with `git hash-object`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use packrace_testkit::Git;

use crate::index_twins::IndexTwins;

fn check_all(twins: &IndexTwins, lines: &[&str]) {
    for line in lines {
        let (args, input) = line.split_once(" | ").unwrap_or((line, ""));
        let input = input.replace("\\n", "\n").replace("\\r", "\r").replace("\\0", "\0");
        twins.check(&format!("hash-object {args}"), &input);
    }
}

#[test]
fn files_and_lists() {
    for init in [&[][..], &["--object-format=sha256"]] {
        let twins = IndexTwins::new(init);
        twins.prepare("ln -s a lnk; ln -s loop loop");
        check_all(
            &twins,
            &[
                "",
                "a",
                "a d/b",
                "nofile",
                "a nofile d/b",
                "--stdin | x\\n",
                "--stdin a | x\\n",
                "-w --stdin | x\\n",
                "--stdin --stdin | x",
                "--stdin-paths | a\\nd/b\\n",
                "--stdin-paths a | a\\n",
                "--stdin-paths --stdin | a\\n",
                "--stdin-paths --path=x | a\\n",
                "--path=x",
                "--path=x --no-filters a",
                "--path=x a d/b",
                "--stdin-paths | \"a\"\\n\"d/b\"",
                "--stdin-paths | \"a",
                "--stdin-paths | \\n",
                "-w --stdin-paths | a\\nnofile\\nd/b",
                "d",
                "lnk",
                "loop",
                "/dev/null",
                "-w /dev/null",
                "-x",
                "--bogus",
            ],
        );
    }
}

#[test]
fn kinds_and_what_is_wrong_with_them() {
    let twins = IndexTwins::new(&[]);
    let people = "author a <a@x> 1 +0000\\ncommitter b <b@x> 1 +0000\\n\\nm";
    let entry = "\\0aaaaaaaaaaaaaaaaaaaa";
    let lines = [
        "-t tree a".to_owned(),
        "-t commit a".to_owned(),
        "-t tag a".to_owned(),
        "-t bogus a".to_owned(),
        "--literally -t tree a".to_owned(),
        "-t blob a".to_owned(),
        format!("-t commit -w --stdin | tree {{t}}\\n{people}"),
        format!("-t commit --stdin | tree {{t}}\\n{}", people.replace("<a@x> ", "")),
        "-t tag --stdin | object {c}\\ntype commit\\ntag x\\n\\nm".to_owned(),
        "-t tag --stdin | object {c}\\ntype commit\\ntag x\\ntagger a <a@x> 1 +0000\\n\\nm".to_owned(),
        format!("-t tree --stdin | 100644 .git{entry}"),
        "-t tree --stdin | 100644 a\\0".to_owned(),
        format!("-t tree --stdin | 100600 a{entry}"),
        format!("-t tree --stdin | 100600 .git{entry}100644 ..{entry}"),
        format!("-t tree -w --stdin | 100644 a{entry}"),
    ];
    check_all(&twins, &lines.each_ref().map(String::as_str));
}

#[test]
fn conversions() {
    let twins = IndexTwins::new(&[]);
    twins.prepare("echo '*.t text eol=lf' > .gitattributes; printf 'a\\r\\nb\\r\\n' > x.t; cp x.t x.b");
    check_all(
        &twins,
        &[
            "x.t",
            "--no-filters x.t",
            "--filters x.t",
            "x.b",
            "--path=y.t x.b",
            "--stdin --path=y.t | a\\r\\n",
            "--stdin | a\\r\\n",
            "-w x.t",
            "--stdin-paths | x.t\\nx.b\\n",
            "--stdin-paths --no-filters | x.t\\n",
        ],
    );
    twins.check_in("d", "hash-object ../x.t", "");
    twins.check_in("d", "hash-object --path=../q.t b", "");
    for config in
        ["core.safecrlf=warn", "core.safecrlf=true", "core.safecrlf=false", "core.bigFileThreshold=1"]
    {
        twins.check(&format!("-c {config} hash-object -w x.t x.b d/b"), "");
        twins.check(&format!("-c {config} hash-object x.t x.b d/b"), "");
    }
}

#[test]
fn outside_of_repositories() {
    let twins = IndexTwins::new(&[]);
    twins.prepare("printf x > ../f");
    for args in ["f", "-w f", "--path=foo f", "-t tree f"] {
        twins.check_in("..", &format!("hash-object {args}"), "");
    }
    twins.check("hash-object ../f", "");
}

/// A caller may wait for each name before it sends the next path; the object then exists.
#[test]
fn names_come_before_the_next_path() {
    let twins = IndexTwins::new(&[]);
    let [_, ours] = twins.tops();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packrace"));
    packrace_testkit::clean_environment(&mut command);
    command.current_dir(&ours).args(["hash-object", "-w", "--stdin-paths"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for number in 0..5 {
        std::fs::write(ours.join("n"), number.to_string()).unwrap();
        input.write_all(b"n\n").unwrap();
        let mut id = String::new();
        output.read_line(&mut id).unwrap();
        assert_eq!(Git::stock().run(&ours, &["cat-file", "blob", id.trim()]), number.to_string());
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}
