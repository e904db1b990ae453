//! Where the search for a repository ends: at a ceiling, and where another file system begins.

use std::path::Path;

use packrace_testkit::{Git, clean_environment, scratch_dir};

use crate::running::{packrace_with, stock_git_with};

/// Both find the same repository, or report the failure in the same words.
#[track_caller]
fn check(dir: &Path, variables: &[(&str, &str)]) -> String {
    let args = ["for-each-ref", "--format=%(refname)"];
    let said = [stock_git_with(dir, &args, b"", variables), packrace_with(dir, &args, b"", variables)].map(
        |output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        },
    );
    assert_eq!(said[0], said[1], "{} {variables:?}", dir.display());
    format!("{}{}", said[0].1, said[0].2)
}

#[test]
fn ceilings_end_the_search() {
    let top = packrace_testkit::scratch_dir();
    let real = top.path().canonicalize().unwrap();
    let work = real.join("work");
    let deep = work.join("sub/deep");
    std::fs::create_dir_all(&deep).unwrap();
    std::os::unix::fs::symlink(work.join("sub"), real.join("link")).unwrap();
    Git::stock().run(&work, &["init", "-q", "-b", "main"]);
    Git::stock().run(&work, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let at = |path: &str| real.join(path).to_str().unwrap().to_owned();
    let found = "refs/heads/main\n";
    for (ceilings, is_found) in [
        (String::new(), true),
        (at(""), true),
        (at("work"), false),
        (at("work/"), false),
        (at("work/sub"), false),
        // The search may use the directory where it starts.
        (at("work/sub/deep"), true),
        (at("work/su"), true),
        (format!("{}:{}", at("elsewhere"), at("work/sub")), false),
        // A link is resolved, but not after an empty entry.
        (at("link"), false),
        (format!(":{}", at("link")), true),
        ("work".to_owned(), true),
    ] {
        let said = check(&deep, &[("GIT_CEILING_DIRECTORIES", &ceilings)]);
        assert_eq!(said == found, is_found, "{ceilings}: {said}");
    }
    assert_eq!(check(&work, &[("GIT_CEILING_DIRECTORIES", &at("work"))]), found);
}

/// Needs a file system in memory; without one, both search up to the root.
#[test]
fn another_file_system_ends_the_search() {
    let dir = scratch_dir();
    let deep = dir.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let is_mounted = dir.path().starts_with("/dev/shm");
    for across in [None, Some("0"), Some("1"), Some("true")] {
        let variables: Vec<_> =
            across.map(|value| ("GIT_DISCOVERY_ACROSS_FILESYSTEM", value)).into_iter().collect();
        let said = check(&deep, &variables);
        let ends = said.contains("mount point /dev)\n");
        assert!(!is_mounted || ends == across.is_none_or(|value| value == "0"), "{across:?}: {said}");
    }
    let mut command = std::process::Command::new(crate::running::PACKRACE);
    clean_environment(&mut command);
    let said = command.current_dir(&deep).args(["hash-object", "-w", "--stdin"]).output().unwrap();
    assert_eq!(said.status.code(), Some(128));
}
