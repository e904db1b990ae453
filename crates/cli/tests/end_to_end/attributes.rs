//! Files with the attribute `delta` unset become no deltas, wherever git finds the attribute.

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

/// Which of the files have versions that are stored as deltas, in a pack made by `program`.
fn deltified(program: &Path, repo: &Path, options: &[&str], source: Option<&str>) -> Vec<&'static str> {
    let paths = delta_paths(program, repo, options, source);
    FILES.into_iter().filter(|file| paths.iter().any(|path| path == file)).collect()
}

/// The paths of objects stored as deltas, in a pack made by `program`.
fn delta_paths(program: &Path, repo: &Path, options: &[&str], source: Option<&str>) -> Vec<String> {
    let dir = packrace_testkit::scratch_dir();
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
    let named = objects.lines().filter_map(|line| line.split_once(' '));
    named.filter(|(id, _)| deltas.contains(id)).map(|(_, path)| path.to_owned()).collect()
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

#[test]
fn files_that_cannot_count() {
    let repo = versions();
    let info = repo.path().join("info/attributes");
    let check = |expect: &[&str]| {
        for program in [Path::new("git"), Path::new(PACKRACE)] {
            assert_eq!(deltified(program, repo.path(), &[], None), expect, "{}", program.display());
        }
    };
    std::fs::create_dir_all(info.parent().unwrap()).unwrap();
    let write = |text: String| std::fs::write(&info, text).unwrap();
    write(format!("{:2047}\n", "*.bin -delta"));
    check(&["a.txt", "d/c.dat"]);
    write(format!("{:2048}\n*.txt -delta\n", "*.bin -delta"));
    check(&["b.bin", "d/c.dat"]);
    std::fs::remove_file(&info).unwrap();
    std::fs::create_dir(&info).unwrap();
    check(&FILES);
    std::fs::remove_dir(&info).unwrap();
    let sparse = std::fs::File::create(&info).unwrap();
    sparse.set_len((100 << 20) + 1).unwrap();
    check(&FILES);
}

/// 2^30 directories in 31 trees: only those that lead to files of the pack are read.
#[test]
fn a_tree_of_more_directories_than_can_be_looked_into() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let blob = |content: &str| repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
    let mktree = |listing: &str| repo.git_with_input(&["mktree"], listing.as_bytes()).trim().to_owned();
    let numbers: String = (0..300).map(|number| format!("{number}\n")).collect();
    let attributes = format!("100644 blob {}\t.gitattributes\n", blob("*.bin -delta\n").trim());
    let mut commits: Vec<String> = Vec::new();
    for version in 0..3 {
        let content = format!("{numbers}version {version}\n");
        let mut tree = mktree(&format!("{attributes}100644 blob {}\tb.bin\n", blob(&content).trim()));
        for _ in 0..30 {
            tree = mktree(&format!("040000 tree {tree}\td0\n040000 tree {tree}\td1\n"));
        }
        let parents = commits.last().map(|parent| ["-p", parent]);
        let args = ["commit-tree", &tree, "-m", "version"];
        let args: Vec<&str> = args.into_iter().chain(parents.into_iter().flatten()).collect();
        let commit = repo.git(&args).trim().to_owned();
        commits.push(commit);
    }
    repo.git(&["update-ref", "refs/heads/main", commits.last().unwrap()]);
    for program in [Path::new("git"), Path::new(PACKRACE)] {
        let has_delta = |options: &[&str]| {
            let paths = delta_paths(program, repo.path(), options, None);
            paths.iter().any(|path| path.ends_with("d0/b.bin") || path.ends_with("d1/b.bin"))
        };
        assert!(has_delta(&[]), "{}", program.display());
        assert!(!has_delta(&["-c", "attr.tree=main"]), "{}", program.display());
    }
}
