//! Delta islands: no delta has a base that is missing from one of the islands of its object, in packs made by
//! packrace and by stock git.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use packrace_testkit::{Git, Repo, RepoBuilder, Size};

use crate::running::{copy, packrace, stock_git};

/// Three forks of one history, each with its own changes of the same files, and pull requests that no fork
/// reaches.
fn forks() -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]).trim().to_owned();
    let mut lines: Vec<String> = (0..400).map(|number| format!("line {number} of a file\n")).collect();
    let mut commit = |name: &str, parent: &str, number: usize| {
        lines[number * 13 % 400] = format!("{name} has changed {number}\n");
        let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], lines.concat().as_bytes());
        let listing = format!("100644 blob {}\tshared.txt\n", blob.trim());
        let tree = repo.git_with_input(&["mktree"], listing.as_bytes());
        repo.git(&["commit-tree", tree.trim(), "-p", parent, "-m", name]).trim().to_owned()
    };
    let mut tips = [main.clone(), main.clone(), main.clone(), main];
    for number in 0..20 {
        for (fork, tip) in tips.iter_mut().enumerate() {
            *tip = commit(&format!("fork {fork}"), tip, number * 4 + fork);
        }
    }
    for (name, tip) in
        ["virtual/1/heads/a", "virtual/2/heads/a", "virtual/3/heads/a", "pull/7"].iter().zip(&tips)
    {
        repo.git(&["update-ref", &format!("refs/{name}"), tip]);
    }
    let tag = "virtual/1/tags/t";
    repo.git(&["tag", "-a", "-m", "t", "t", &tips[0]]);
    repo.git(&["update-ref", &format!("refs/{tag}"), "refs/tags/t"]);
    repo.git(&["update-ref", "-d", "refs/tags/t"]);
    repo
}

/// The ids of all objects that these refs reach.
fn reached(repo: &Path, refs: &[&str]) -> BTreeSet<String> {
    let args = [&["rev-list", "--objects"], refs].concat();
    let listed = Git::stock().run(repo, &args);
    listed.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// How many deltas all packs have, and how many of them cross islands.
fn deltas(repo: &Path, islands: &[BTreeSet<String>]) -> (usize, usize) {
    let (mut count, mut crossing) = (0, 0);
    for entry in std::fs::read_dir(repo.join("objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "idx") {
            continue;
        }
        let listed = Git::stock().run(repo, &["verify-pack", "-v", path.to_str().unwrap()]);
        for fields in listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let [object, .., base] = &fields[..] else { continue };
            if fields.len() != 7 {
                continue;
            }
            count += 1;
            let crosses = |island: &BTreeSet<String>| island.contains(*object) && !island.contains(*base);
            crossing += usize::from(islands.iter().any(crosses));
        }
    }
    (count, crossing)
}

#[test]
fn deltas_stay_on_their_island() {
    let repo = forks();
    let islands = ["refs/virtual/1/*", "refs/virtual/2/*", "refs/virtual/3/*"]
        .map(|glob| reached(repo.path(), &[&format!("--glob={glob}")]));
    let rule = "pack.island=refs/virtual/([0-9]+)/";
    let mut counts = HashMap::new();
    for (name, args) in [
        ("all", &["-c", rule, "repack", "-adfi", "--window=50"][..]),
        ("reuse", &["-c", rule, "repack", "-adi", "--window=50"]),
        ("configured", &["-c", rule, "-c", "repack.useDeltaIslands=true", "repack", "-adf", "--window=50"]),
        (
            "core",
            &["-c", rule, "-c", "pack.islandCore=2", "repack", "-adf", "--delta-islands", "--window=50"],
        ),
        (
            "without",
            &["-c", rule, "-c", "repack.useDeltaIslands=true", "repack", "-adf", "--no-delta-islands"],
        ),
        ("no rules", &["repack", "-adfi"]),
    ] {
        for (who, run) in [("git", stock_git as fn(&Path, &[&str], &str) -> _), ("packrace", packrace)] {
            let dir = packrace_testkit::scratch_dir();
            let path = dir.path().join("r");
            copy(repo.path(), &path);
            stock_git(&path, &["repack", "-adfq"], "");
            let made = run(&path, args, "");
            assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
            let is_split = !["without", "no rules"].contains(&name);
            let (count, crossing) = deltas(&path, &islands);
            assert_eq!(crossing == 0, is_split, "{who} {name}: {crossing}");
            counts.insert((who, name), count);
            if name == "core" {
                // The objects that the second fork reaches come first.
                let order = Git::stock().run(
                    &path,
                    &["cat-file", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered"],
                );
                let is_core: Vec<bool> = order.lines().map(|id| islands[1].contains(id)).collect();
                let first_other = is_core.iter().position(|is_core| !is_core).unwrap();
                let late = is_core[first_other..].iter().filter(|is_core| **is_core).count();
                assert!(late * 20 < is_core.len(), "{who}: {late} of {}", is_core.len());
            }
            assert!(stock_git(&path, &["fsck", "--full"], "").status.success());
        }
    }
    for name in ["all", "configured", "core", "reuse"] {
        let [git, ours] = ["git", "packrace"].map(|who| counts[&(who, name)]);
        assert!(ours * 100 >= git * 97, "{counts:?}");
    }
    let bad = packrace(repo.path(), &["-c", "pack.island=refs/(", "repack", "-adi"], "");
    assert_eq!(bad.status.code(), Some(128));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.starts_with("fatal: failed to load island regex for 'pack.island'"), "{said}");
    // As pack-objects does for a pack that is sent.
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("r");
    copy(repo.path(), &path);
    let packs = path.join("objects/pack");
    let old: Vec<_> = std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).collect();
    let base = packs.join("pack");
    let args =
        ["-c", rule, "pack-objects", "-q", "--all", "--delta-islands", "--window=50", base.to_str().unwrap()];
    assert!(packrace(&path, &args, "").status.success());
    old.into_iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!(deltas(&path, &islands).1, 0);
}
