//! `%(describe)` and `%(is-base)` compared with git's.

use std::fmt::Write as _;
use std::path::Path;

use packrace_testkit::Git;

use super::{Fixture, check, check_formats, check_with, with_fixtures};
use crate::running::packrace;

const FORMS: &[&str] = &[
    "%(refname) [%(describe)] [%(*describe)] [%(describe:tags)]",
    "[%(describe:match=v*)] [%(describe:tags,match=V*)] [%(describe:match=v1.0,match=v2*)] [%(describe:match=refs/tags/v*)]",
    "[%(describe:exclude=v2*)] [%(describe:tags,exclude=v*,exclude=V*)] [%(describe:match=v*,exclude=*.10)] [%(describe:exclude=*)]",
];

/// Arguments in all their forms. Git starts a process for each and for each ref, so few refs are asked.
const ARGUMENTS: &[&str] = &[
    "[%(describe:)] [%(describe:tags,)] [%(describe:tags=true)] [%(describe:tags=no,abbrev=5)] [%(describe:tags=)] [%(describe:tags=1,tags=0)]",
    "[%(describe:abbrev=0)] [%(describe:abbrev=1)] [%(describe:abbrev=12)] [%(describe:abbrev=40)] [%(describe:abbrev=60)]",
    "[%(describe:abbrev=-0)] [%(describe:abbrev=+5)] [%(describe:abbrev=2147483648)] [%(describe:abbrev=99999999999999999999)]",
];
const FEW: &[&str] = &["refs/heads/loose", "refs/heads/main", "refs/odd", "refs/tags/v*"];

#[test]
fn described() {
    with_fixtures(|repo| {
        let git = |args: &[&str]| drop(Git::stock().run(repo, args));
        check_formats(repo, FORMS, &[]);
        check_formats(repo, ARGUMENTS, FEW);
        check_formats(repo, &FORMS[..1], &["--sort=-describe:tags", "--count=9"]);
        check(repo, &["--sort=describe", "--format=%(refname)"]);
        check(repo, &["refs/heads", "--sort=-v:describe", "--format=%(describe) %(objecttype)"]);
        // Folders, symbolic refs, and tags whose own name differs.
        git(&["tag", "-a", "-m", "deep", "deep/er/v9", "HEAD~1"]);
        git(&["symbolic-ref", "refs/tags/branch", "refs/heads/main"]);
        // In a reftable, git 2.47 sees no annotated tag through a symbolic ref.
        if !repo.join(".git/reftable").exists() {
            git(&["symbolic-ref", "refs/tags/Symbolic", "refs/tags/deep/er/v9"]);
        }
        git(&["symbolic-ref", "refs/tags/nowhere", "refs/tags/none"]);
        git(&["update-ref", "refs/tags/renamed", "refs/tags/deep/er/v9"]);
        check_formats(repo, FORMS, &[]);
        check(repo, &["--format=%(describe:match=deep*) %(describe:match=*v9) %(describe:exclude=d*/v9)"]);
        git(&["update-ref", "-d", "refs/tags/deep/er/v9"]);
        check_formats(repo, &FORMS[..1], &[]);
        // Without any tag.
        stock_tags(repo).iter().for_each(|tag| git(&["update-ref", "--no-deref", "-d", tag]));
        check_formats(repo, FORMS, FEW);
        check(repo, &["--sort=describe", "--format=%(refname)"]);
    });
}

fn stock_tags(repo: &Path) -> Vec<String> {
    let output =
        Git::stock().command(repo).args(["for-each-ref", "--format=%(refname)", "refs/tags"]).output();
    let mut tags: Vec<String> =
        String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
    tags.push("refs/tags/nowhere".to_owned());
    tags
}

/// Of several tags at one commit, the annotated ones win, then the newest, then the first.
#[test]
fn tags_at_one_commit() {
    let fixture = Fixture::new("files");
    let repo = fixture.path();
    let tag = |date: &str, args: &[&str]| {
        let mut command = Git::stock().command(&repo);
        command.env("GIT_COMMITTER_DATE", date).arg("tag").args(args);
        assert!(command.status().unwrap().success());
    };
    fixture.git(&["checkout", "-q", "--orphan", "alone"]);
    fixture.git(&["commit", "-q", "--allow-empty", "-m", "alone"]);
    let formats =
        ["%(describe) %(describe:tags)", "%(describe:tags,exclude=m*) %(describe:tags,match=*light)"];
    for (date, args) in [
        ("1112912053 +0000", &["zlight"][..]),
        ("1112912053 +0000", &["alight"]),
        ("1112912053 +0000", &["-a", "-m", "x", "mm"]),
        ("1112912053 +0000", &["-a", "-m", "x", "ma"]),
        ("1112912053 +0000", &["-a", "-m", "x", "mz"]),
        ("1112912099 +0000", &["-a", "-m", "x", "mq"]),
        ("1112912098 +0000", &["-a", "-m", "x", "mb"]),
    ] {
        tag(date, args);
        check_formats(&repo, &formats, &["refs/heads/alone", "refs/tags/zlight"]);
    }
    fixture.git(&["commit", "-q", "--allow-empty", "-m", "above"]);
    check_formats(&repo, &formats, &["refs/heads/alone", "refs/heads/main"]);
    fixture.git(&["tag", "-d", "mq"]);
    check_formats(&repo, &formats, &["refs/heads/alone"]);
    check_with(&repo, &["-c", "core.abbrev=12"], &["--format=%(describe)", "refs/heads"], "");
    check_with(&repo, &["-c", "core.abbrev=no"], &["--format=%(describe)", "refs/heads"], "");
}

/// Histories with merges, roots, equal and unordered dates and more tags than are compared, with and without
/// a commit-graph.
#[test]
fn made_up_histories() {
    for seed in 1..=6 {
        let dir = packrace_testkit::scratch_dir();
        let (repo, commits) = (dir.path(), 24 * seed);
        Git::stock().run(repo, &["init", "-q", "-b", "main"]);
        Git::stock().run_with_input(repo, &["fast-import", "--quiet"], history(seed, commits).as_bytes());
        if seed % 2 == 0 {
            Git::stock().run(repo, &["commit-graph", "write", "--reachable"]);
        }
        let few = ["refs/tags", "refs/all/c*0"];
        let format = "--format=%(refname) [%(describe)] [%(describe:tags)] [%(describe:match=?[0-4]*)]";
        check(repo, &[&[format], &few[..]].concat());
        check(repo, &["--sort=-committerdate", "--format=%(describe:tags,exclude=t*)", "refs/all/c*5"]);
        for arguments in [&[][..], &["tags"], &["match=?[0-4]*"], &["tags", "exclude=t*"]] {
            as_one_process_says(repo, arguments);
        }
        for (a, b) in [(commits, commits / 2), (commits - 1, 3), (1, commits / 3)] {
            let format = format!("--format=%(refname) %(is-base:refs/all/c{a}) %(is-base:refs/all/c{b})");
            check(repo, &[&format]);
            check(repo, &[&format, "refs/tags", "--sort=-refname"]);
            check(repo, &[&format, "--sort", &format!("is-base:refs/all/c{b}")]);
        }
    }
}

/// Every commit as one `git describe` does: for `for-each-ref`, git starts one for each.
fn as_one_process_says(repo: &Path, arguments: &[&str]) {
    let format = format!("--format=%(objectname) %(describe:{})", arguments.join(","));
    let ours = packrace(repo, &["for-each-ref", &format, "refs/all"], "");
    let ours = String::from_utf8(ours.stdout).unwrap();
    let commits: Vec<&str> = ours.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    let options: Vec<String> = arguments.iter().map(|argument| format!("--{argument}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    // Without `--always` it ends at the first commit that it cannot describe.
    let theirs = Git::stock().run(repo, &[&["describe", "--always"], &options[..], &commits[..]].concat());
    let theirs: Vec<String> = theirs
        .lines()
        .zip(&commits)
        .map(|(described, commit)| match commit.starts_with(described) {
            true => format!("{commit} "),
            false => format!("{commit} {described}"),
        })
        .collect();
    assert_eq!(ours.lines().collect::<Vec<_>>(), theirs, "{arguments:?}");
    assert!(!theirs.is_empty());
}

/// A stream for `git fast-import` with this many pseudo-random commits.
fn history(seed: u64, commits: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut stream = String::new();
    let mut seconds = 1_112_912_053;
    for number in 1..=commits {
        seconds += if seed == 3 { below(500) } else { 60 * below(3) };
        let date = if seed == 3 { seconds - below(300) } else { seconds };
        let person = format!("A <a@example.com> {date} +0000");
        write!(
            stream,
            "commit refs/all/c{number}\nmark :{number}\nauthor {person}\ncommitter {person}\ndata 0\n"
        )
        .unwrap();
        let parents = if number == 1 || below(30) == 0 { 0 } else { 1 + below(5).saturating_sub(2) };
        let mut chosen: Vec<u64> = (0..parents).map(|_| number - 1 - below(9).min(number - 2)).collect();
        chosen.dedup();
        for (at, parent) in chosen.iter().enumerate() {
            writeln!(stream, "{} :{parent}", if at == 0 { "from" } else { "merge" }).unwrap();
        }
        stream.push('\n');
    }
    for number in 0..5 * seed {
        let commit = 1 + below(commits);
        let tagger = format!("tagger T <t@example.com> {} +0000\ndata 0\n", 1_112_912_053 + below(5));
        match below(5) {
            0 | 1 => write!(stream, "reset refs/tags/l{number}\nfrom :{commit}\n\n").unwrap(),
            _ => write!(stream, "tag t{number}\nfrom :{commit}\n{tagger}").unwrap(),
        }
    }
    stream
}

#[test]
fn base_of_a_commit() {
    with_fixtures(|repo| {
        check_formats(
            repo,
            &[
                "%(refname) %(is-base:main) %(*is-base:main)",
                "%(refname) %(is-base:HEAD~1) %(is-base:v1.0) %(is-base:side) %(is-base:v2.0)",
            ],
            &[],
        );
        for more in [&["--sort=is-base:main"][..], &["--sort=-is-base:main", "refs/tags"]] {
            check(repo, &[&["--format=%(refname) %(is-base:main)"], more].concat());
        }
        for args in [
            &["--sort=-is-base:xyz"][..],
            &["--format=%(is-base:xyz)", "refs/none"],
            &["--format=%(is-base:main)", "--merged=side", "--count=1"],
            &["--format=%(is-base:v1.2)"],
        ] {
            check(repo, args);
        }
    });
}
