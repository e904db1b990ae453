//! Files whose attribute `delta` is unset become no deltas, wherever git finds attributes.

use std::path::Path;

use packrace_testkit::{Git, Repo, RepoBuilder, Size, clean_environment};

use crate::running::{PACKRACE, stock_git};

const FILES: [&str; 3] = ["a.txt", "b.bin", "d/c.dat"];

/// Six versions of three files, and attributes in the last commit.
fn versions() -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["update-ref", "-d", "refs/heads/main"]);
    let blob = |content: &str| repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
    let tree = |listing: String| repo.git_with_input(&["mktree"], listing.as_bytes()).trim().to_owned();
    let mut parent = None;
    for version in 0..7 {
        let content = |first: usize| -> String {
            let lines = (first..first + 300).map(|number| format!("{number}\n"));
            lines.chain([format!("version {version}\n")]).collect()
        };
        let file =
            |first: usize, name: &str| format!("100644 blob {}\t{name}\n", blob(&content(first)).trim());
        let (mut listing, mut inner) = (file(1, "a.txt") + &file(1000, "b.bin"), file(2000, "c.dat"));
        if version == 6 {
            let attributes = |text: &str| format!("100644 blob {}\t.gitattributes\n", blob(text).trim());
            listing.push_str(&attributes("*.bin -delta\nc.dat delta\n"));
            inner.push_str(&attributes("[attr]no -delta\nc.dat -delta\n"));
        }
        listing.push_str(&format!("040000 tree {}\td\n", tree(inner)));
        let tree = tree(listing);
        let mut args = vec!["commit-tree", &tree, "-m", "version"];
        args.extend(parent.iter().flat_map(|parent: &String| ["-p", parent]));
        let commit = repo.git(&args).trim().to_owned();
        parent = Some(commit);
    }
    repo.git(&["update-ref", "refs/heads/main", &parent.unwrap()]);
    repo
}

/// Which of the files have versions that are stored as deltas, in a pack that `program` makes.
fn deltified(program: &Path, repo: &Path, options: &[&str], source: Option<&str>) -> Vec<&'static str> {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("p");
    let mut command = std::process::Command::new(program);
    clean_environment(&mut command);
    command.current_dir(repo).args(options);
    command.args(["pack-objects", "-q", "--all", "--no-reuse-delta"]).arg(&base);
    command.env("HOME", repo).env("XDG_CONFIG_HOME", repo.join("xdg")).stdin(std::process::Stdio::null());
    command.envs(source.map(|source| ("GIT_ATTR_SOURCE", source)));
    let made = command.output().unwrap();
    assert!(made.status.success(), "{options:?}: {}", String::from_utf8_lossy(&made.stderr));
    let index = dir.path().join(format!("p-{}.idx", String::from_utf8(made.stdout).unwrap().trim()));
    let listed = Git::stock().run(repo, &["verify-pack", "-v", index.to_str().unwrap()]);
    let deltas: Vec<&str> = listed
        .lines()
        .filter(|line| line.split_whitespace().count() == 7)
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let objects = Git::stock().run(repo, &["rev-list", "--objects", "main"]);
    let is_delta = |file: &&str| {
        let mut versions = objects.lines().filter_map(|line| line.split_once(' '));
        versions.any(|(id, path)| path == *file && deltas.contains(&id))
    };
    FILES.into_iter().filter(is_delta).collect()
}

#[test]
fn as_stock_git() {
    let repo = versions();
    let path = repo.path();
    let git = Path::new("git");
    let write = |name: &str, text: &str| {
        let file = path.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let check = |options: &[&str], source: Option<&str>, expect: &[&str]| {
        let [of_git, ours] =
            [git, Path::new(PACKRACE)].map(|program| deltified(program, path, options, source));
        assert_eq!(of_git, expect, "git {options:?} {source:?}");
        assert_eq!(ours, expect, "{options:?} {source:?}");
    };
    check(&[], None, &FILES);
    check(&["-c", "attr.tree=main"], None, &["a.txt"]);
    check(&["-c", "attr.tree=nowhere"], None, &FILES);
    check(&["--attr-source=refs/heads/main"], None, &["a.txt"]);
    check(&[], Some("main"), &["a.txt"]);
    write("xdg/git/attributes", "*.dat -delta\n");
    check(&[], None, &["a.txt", "b.bin"]);
    write("elsewhere", "[attr]whole -delta\na.* whole\n");
    let elsewhere = format!("core.attributesFile={}", path.join("elsewhere").display());
    check(&["-c", &elsewhere], None, &["b.bin", "d/c.dat"]);
    check(&["-c", "core.attributesFile=~/elsewhere"], None, &["b.bin", "d/c.dat"]);
    write("info/attributes", "*.TXT -delta\nb.bin delta\n/d/*.dat !delta\n");
    check(&["-c", "attr.tree=main"], None, &["a.txt", "b.bin", "d/c.dat"]);
    check(&["-c", "core.ignoreCase=true"], None, &["b.bin", "d/c.dat"]);
    write("info/attributes", "*.bin -delta\n");
    check(&["-c", &elsewhere], None, &["d/c.dat"]);

    let mut bad = std::process::Command::new(PACKRACE);
    clean_environment(&mut bad);
    bad.current_dir(path).env("GIT_ATTR_SOURCE", "nowhere").args(["repack", "-adf"]);
    let bad = bad.output().unwrap();
    assert_eq!(bad.status.code(), Some(128));
    assert_eq!(String::from_utf8_lossy(&bad.stderr), "fatal: bad --attr-source or GIT_ATTR_SOURCE\n");
    assert!(stock_git(path, &["fsck"], "").status.success());
}
