use std::collections::BTreeSet;
use std::path::Path;

use packrace_testkit::{GraphLayout as Written, Repo, Storage};

use super::*;
use crate::test_files::{HASHES, damage, id, read, tiny};

fn built(hash: HashKind, commit_graph: Written) -> (Repo, Vec<Vec<u8>>) {
    let repo = tiny(hash, Storage { commit_graph, ..Storage::default() });
    let files = graph_files(repo.path());
    (repo, files)
}

fn graph_files(repo: &Path) -> Vec<Vec<u8>> {
    let info = repo.join("objects/info");
    let Ok(chain) = std::fs::read_to_string(info.join("commit-graphs/commit-graph-chain")) else {
        return vec![read(&info.join("commit-graph"))];
    };
    chain.lines().map(|name| read(&info.join(format!("commit-graphs/graph-{name}.graph")))).collect()
}

/// Compares the commits with git's listing.
fn check(repo: &Repo, files: &[Vec<u8>], hash: HashKind) {
    let graph = CommitGraph::open(files.iter(), hash).unwrap();
    graph.verify_checksum().unwrap();
    let listing = repo.git(&["log", "--all", "--format=%H %T %ct %P"]);
    assert_eq!(listing.lines().count(), graph.len() as usize);
    for line in listing.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let position = graph.position_of(&id(fields[0])).unwrap();
        assert_eq!(graph.id_at(position), id(fields[0]));
        let commit = graph.commit_at(position).unwrap();
        assert_eq!(commit.tree, id(fields[1]));
        assert_eq!(commit.committer_seconds.to_string(), fields[2]);
        assert_eq!(commit.parents.len(), fields.len() - 3);
        let parents: Vec<String> = commit.parents.clone().map(|at| graph.id_at(at).to_string()).collect();
        assert_eq!(parents, fields[3..]);
        let parents: Vec<Commit> = commit.parents.map(|at| graph.commit_at(at).unwrap()).collect();
        let above = parents.iter().map(|parent| parent.generation + 1).max();
        match graph.generations() {
            Generations::TopologicalLevel => assert_eq!(commit.generation, above.unwrap_or(1)),
            Generations::CorrectedDate => {
                assert_eq!(commit.generation, above.unwrap_or(0).max(commit.committer_seconds));
            }
        }
    }
    assert_eq!(graph.position_of(&hash.empty_tree()), None);
}

fn use_everything(files: &[&[u8]], hash: HashKind) -> bool {
    let Ok(graph) = CommitGraph::open(files.iter(), hash) else { return false };
    for position in 0..graph.len() {
        assert!(graph.position_of(graph.id_at(position)).is_none_or(|found| found < graph.len()));
        if let Ok(commit) = graph.commit_at(position) {
            assert_eq!(commit.parents.len(), commit.parents.clone().count());
            assert!(commit.parents.into_iter().all(|parent| parent < graph.len()));
        }
    }
    let filters = (0..graph.len()).filter_map(|position| graph.filter_at(position).ok().flatten());
    assert!(filters.into_iter().all(|(_, filter)| !filter.is_empty()));
    let _ = (graph.checksum(), graph.verify_checksum());
    true
}

#[test]
fn commits_as_git_prints_them() {
    for hash in HASHES {
        for (written, count) in [(Written::Single, 1), (Written::Split, 2)] {
            let (repo, files) = built(hash, written);
            assert_eq!(files.len(), count);
            check(&repo, &files, hash);
            assert!(repo.git(&["log", "--all", "--min-parents=3", "--format=%H"]).len() > 1, "an octopus");
        }
    }
}

#[test]
fn generations_of_both_versions() {
    let repo = tiny(HashKind::Sha1, Storage::default());
    for (version, expect) in [("1", Generations::TopologicalLevel), ("2", Generations::CorrectedDate)] {
        let version = format!("commitGraph.generationVersion={version}");
        repo.git(&["-c", version.as_str(), "commit-graph", "write", "--reachable"]);
        let files = graph_files(repo.path());
        check(&repo, &files, HashKind::Sha1);
        assert_eq!(CommitGraph::open(files, HashKind::Sha1).unwrap().generations(), expect);
    }
}

/// If only one file of a chain has corrected dates, the chain can only be compared by level.
#[test]
fn chains_of_both_versions() {
    let repo = tiny(HashKind::Sha1, Storage::default());
    for (version, range) in [("1", "main~5"), ("2", "--all")] {
        let version = format!("commitGraph.generationVersion={version}");
        let commits = repo.git(&["rev-list", range]);
        let write = ["commit-graph", "write", "--stdin-commits", "--split=no-merge"];
        let args = [&["-c", version.as_str()], &write[..]].concat();
        repo.git_with_input(&args, commits.as_bytes());
    }
    let files = graph_files(repo.path());
    assert_eq!(files.len(), 2);
    check(&repo, &files, HashKind::Sha1);
    let graph = CommitGraph::open(files, HashKind::Sha1).unwrap();
    assert_eq!(graph.generations(), Generations::TopologicalLevel);
}

/// Dates with differences of more than 31 bits, but no more: stock git cuts differences off at 32 bits, and
/// its own verification then complains.
fn with_far_dates(hash: HashKind) -> Repo {
    let repo = tiny(hash, Storage::default());
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let stream = |mark: u32, date: u64, from: &str| {
        format!(
            "commit refs/heads/far\nmark :{mark}\ncommitter A <a@b> {date} +0000\ndata 0\n{from}M 040000 {} \"\"\n\n",
            tree.trim()
        )
    };
    let far = [stream(1, 4_100_000_000, ""), stream(2, 100, "from :1\n"), stream(3, 7, "from :2\n")];
    repo.git_with_input(&["fast-import", "--quiet"], far.concat().as_bytes());
    repo
}

#[test]
fn dates_too_far_apart_for_31_bits() {
    for hash in HASHES {
        let repo = with_far_dates(hash);
        repo.git(&["commit-graph", "write", "--reachable"]);
        let files = graph_files(repo.path());
        repo.git(&["commit-graph", "verify"]);
        check(&repo, &files, hash);
        let graph = CommitGraph::open(&files, hash).unwrap();
        assert_eq!(graph.generations(), Generations::CorrectedDate);
        assert!(graph.layers[0].large_dates >= 2);
    }
}

#[test]
fn chains_in_the_wrong_order() {
    let (_repo, files) = built(HashKind::Sha1, Written::Split);
    let [base, top] = [&files[0], &files[1]];
    let open = |files: &[&Vec<u8>]| CommitGraph::open(files.iter(), HashKind::Sha1).map(drop);
    open(&[base, top]).unwrap();
    open(&[base]).unwrap();
    for wrong in [&[top][..], &[top, base], &[base, base], &[base, top, top]] {
        assert_eq!(open(wrong).unwrap_err().what, "chain has another number of base graphs");
    }
    assert_eq!(open(&[]).unwrap_err().what, "chain has no file");
    let mut other = base.clone();
    *other.last_mut().unwrap() ^= 1;
    assert_eq!(open(&[&other, top]).unwrap_err().what, "chain has another base graph");
    let fits = |file: &Vec<u8>, below: &[&Vec<u8>]| check_fits(file, below, HashKind::Sha1);
    assert_eq!((fits(base, &[]), fits(top, &[base])), (Ok(()), Ok(())));
    assert_eq!(fits(base, &[base]), Err("commit-graph has no base graphs chunk"));
    assert_eq!(fits(top, &[base, base]), Err("commit-graph base graphs chunk is too small"));
    for below in [&[][..], &[&other], &[top]] {
        assert_eq!(fits(top, below), Err("commit-graph chain does not match"));
    }
    // Other damage is told when it is opened.
    assert_eq!(fits(&top[..40].to_vec(), &[base]), Ok(()));
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let (_repo, file) = with_filters(hash, "2");
        damage(&file, |bytes| use_everything(&[bytes], hash));
        let (_repo, files) = built(hash, Written::Single);
        damage(&files[0], |bytes| use_everything(&[bytes], hash));
        let (_repo, files) = built(hash, Written::Split);
        damage(&files[0], |bytes| use_everything(&[bytes, &files[1]], hash));
        damage(&files[1], |bytes| use_everything(&[&files[0], bytes], hash));
    }
}

/// The commits that `git log` prints with these arguments.
fn commits(repo: &Repo, args: &[&str]) -> Commits {
    let mut commits = Commits::new(repo.hash());
    let listing = repo.git(&[&["log", "--format=%H %T %ct %P"], args].concat());
    for line in listing.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let parents = fields[3..].iter().map(|parent| id(parent));
        commits.push(id(fields[0]), id(fields[1]), parents, fields[2].parse().unwrap());
    }
    commits
}

fn no_base() -> Option<&'static CommitGraph<Vec<u8>>> {
    None
}

/// Rewrites git's file and compares.
fn check_written(repo: &Repo, generations: Generations) {
    let version = if generations == Generations::CorrectedDate { "2" } else { "1" };
    let version = format!("commitGraph.generationVersion={version}");
    repo.git(&["-c", version.as_str(), "commit-graph", "write", "--reachable"]);
    let written = commits(repo, &["--all"]).write(no_base(), generations).unwrap();
    assert!(written == graph_files(repo.path())[0], "{:?} {generations:?}", repo.hash());
    check(repo, &[written], repo.hash());
}

#[test]
fn written_as_git_writes_them() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        check_written(&repo, Generations::CorrectedDate);
        check_written(&repo, Generations::TopologicalLevel);
    }
}

#[test]
fn chains_written_as_git_writes_them() {
    for (hash, [below, above]) in
        HASHES.into_iter().flat_map(|hash| [(hash, ["1", "2"]), (hash, ["2", "1"]), (hash, ["2", "2"])])
    {
        let repo = tiny(hash, Storage::default());
        for (version, range) in [(below, "main~5"), (above, "--all")] {
            let version = format!("commitGraph.generationVersion={version}");
            let write =
                ["-c", version.as_str(), "commit-graph", "write", "--stdin-commits", "--split=no-merge"];
            repo.git_with_input(&write, repo.git(&["rev-list", range]).as_bytes());
        }
        let files = graph_files(repo.path());
        let base = CommitGraph::open(&files[..1], hash).unwrap();
        let generations =
            if above == "2" { Generations::CorrectedDate } else { Generations::TopologicalLevel };
        let written = commits(&repo, &["--all", "^main~5"]).write(Some(&base), generations).unwrap();
        assert!(written == files[1], "{hash:?} {above} on {below}");
        check(&repo, &[files[0].clone(), written], hash);
    }
}

#[test]
fn far_dates_written_as_git_writes_them() {
    let repo = with_far_dates(HashKind::Sha1);
    check_written(&repo, Generations::CorrectedDate);
}

#[test]
fn what_cannot_be_written() {
    let some = |n: u8| ObjectId::Sha1([n; 20]);
    let tree = HashKind::Sha1.empty_tree();
    let written = |edges: &[(u8, &[u8])]| {
        let mut commits = Commits::new(HashKind::Sha1);
        edges
            .iter()
            .for_each(|(n, parents)| commits.push(some(*n), tree, parents.iter().map(|n| some(*n)), 1));
        commits.write(no_base(), Generations::CorrectedDate)
    };
    let missing = GraphWriteError::MissingParent { commit: some(2), parent: some(3) };
    assert_eq!(written(&[(1, &[]), (2, &[1, 3])]), Err(missing));
    assert_eq!(written(&[(1, &[1])]), Err(GraphWriteError::Cycle(some(1))));
    assert!(matches!(
        written(&[(1, &[2]), (2, &[3]), (3, &[1, 4]), (4, &[])]),
        Err(GraphWriteError::Cycle(_))
    ));
    let twice = written(&[(1, &[2, 2]), (2, &[]), (1, &[2, 2])]).unwrap();
    assert_eq!(CommitGraph::open([twice], HashKind::Sha1).unwrap().len(), 2);
    let empty = written(&[]).unwrap();
    assert!(CommitGraph::open([empty], HashKind::Sha1).unwrap().is_empty());
}

/// The faults of single commits, beside files that have others.
#[test]
fn commits_that_cannot_be_read() {
    let hash = HashKind::Sha1;
    let some = |n: u8| ObjectId::Sha1([n; 20]);
    let mut commits = Commits::new(hash);
    let edges: [(u8, &[u8]); 5] = [(1, &[]), (2, &[]), (3, &[]), (4, &[1, 2, 3]), (5, &[4])];
    for (n, parents) in edges {
        commits.push(some(n), hash.empty_tree(), parents.iter().map(|n| some(*n)), 1);
    }
    let file = commits.write(no_base(), Generations::CorrectedDate).unwrap();
    let table_row = |id: &[u8; 4]| (8..).step_by(12).find(|at| file[*at..*at + 4] == *id).unwrap();
    let chunk = |id: &[u8; 4]| be::u64_at(&file, table_row(id) + 4) as usize;
    let changed = |at: usize, value: u32| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&value.to_be_bytes());
        file
    };
    let check = |at: usize, value: u32, position: u32, expect: Option<CommitFault>| {
        let graph = CommitGraph::open([changed(at, value)], hash).unwrap();
        assert_eq!(graph.fault_at(position), expect);
        assert_eq!(graph.commit_at(position).is_err(), expect.is_some());
    };
    let parent = |position: usize, number: usize| chunk(b"CDAT") + position * 36 + 20 + number * 4;
    check(parent(4, 0), 3, 4, None);
    check(parent(4, 0), 9, 4, Some(CommitFault::ParentBeyond(9)));
    check(parent(4, 1), 9, 4, Some(CommitFault::ParentBeyond(9)));
    check(parent(3, 0), NO_PARENT, 3, None);
    check(parent(3, 1), MARK | 7, 3, Some(CommitFault::Edges));
    check(chunk(b"EDGE"), 50, 3, Some(CommitFault::ParentBeyond(50)));
    check(chunk(b"EDGE") + 4, 1, 3, Some(CommitFault::Edges));
    check(chunk(b"GDA2"), MARK, 0, Some(CommitFault::NoLargeDates));
    // The table of dates gets longer, and that of edges shorter.
    let longer = changed(table_row(b"EDGE") + 8, chunk(b"EDGE") as u32 + 4);
    assert!(CommitGraph::open([&longer], hash).is_err());
    let graph = CommitGraph::open_to_compare([&longer], hash).unwrap();
    assert_eq!(graph.generations(), Generations::TopologicalLevel);
}

/// A long line and many diamonds: neither stack nor time may grow with the number of paths.
#[test]
fn deep_and_dense_histories() {
    let name = |n: u32| {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b1).to_be_bytes());
        ObjectId::Sha1(bytes)
    };
    let mut commits = Commits::new(HashKind::Sha1);
    for n in 0..100_000u32 {
        let parents = n.saturating_sub(2)..n;
        commits.push(name(n), HashKind::Sha1.empty_tree(), parents.map(name), 7);
    }
    let written = commits.write(no_base(), Generations::CorrectedDate).unwrap();
    let graph = CommitGraph::open([written], HashKind::Sha1).unwrap();
    let last = graph.position_of(&name(99_999)).unwrap();
    assert_eq!((graph.level_at(last), graph.commit_at(last).unwrap().generation), (100_000, 7 + 99_999));
}

/// A file with changed-path filters of this version.
fn with_filters(hash: HashKind, version: &str) -> (Repo, Vec<u8>) {
    let repo = tiny(hash, Storage::default());
    let version = format!("commitGraph.changedPathsVersion={version}");
    repo.git(&["-c", version.as_str(), "commit-graph", "write", "--reachable", "--changed-paths"]);
    let file = graph_files(repo.path()).remove(0);
    (repo, file)
}

/// The paths that git says a commit changes, and their directories.
fn changed_paths(repo: &Repo, commit: &str) -> BTreeSet<Vec<u8>> {
    let diff = ["log", "-1", "--format=", "--name-only", "--no-renames", "-z", "--diff-merges=first-parent"];
    let listing = repo.git(&[&diff[..], &[commit]].concat());
    let mut paths = BTreeSet::new();
    for path in listing.trim_matches(['\n', '\0']).split('\0').filter(|path| !path.is_empty()) {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        paths.extend(ends.map(|end| path.as_bytes()[..end].to_vec()));
    }
    paths
}

#[test]
fn filters_as_git_writes_them() {
    for hash in HASHES {
        for (version, path_hash) in [("1", PathHash::SignedBytes), ("2", PathHash::Murmur3)] {
            let (repo, file) = with_filters(hash, version);
            let graph = CommitGraph::open([&file], hash).unwrap();
            assert_eq!(graph.filter_faults(), []);
            let settings = FilterSettings::new(path_hash);
            assert_eq!(graph.filter_settings(), Some(settings));
            let mut filters = Vec::new();
            for position in 0..graph.len() {
                let paths = changed_paths(&repo, &graph.id_at(position).to_string());
                let mut hashes = paths.iter().map(|path| path_hash.hash(path)).collect();
                let expect = settings.filter(&mut hashes);
                assert_eq!(graph.filter_at(position), Ok(Some((settings, &*expect))), "{paths:?}");
                filters.push(expect);
            }
            let commits = commits(&repo, &["--all"]).arrange(no_base(), Generations::CorrectedDate).unwrap();
            assert!(commits.write(Some(&PathFilters { settings, filters })) == file);
        }
    }
}

#[test]
fn filters_that_are_not_used() {
    let hash = HashKind::Sha1;
    let (_repo, file) = with_filters(hash, "1");
    let table_row = |id: &[u8; 4]| (8..).step_by(12).find(|at| file[*at..*at + 4] == *id).unwrap();
    let chunk = |id| be::u64_at(&file, table_row(id) + 4) as usize;
    let check = |change: &dyn Fn(&mut Vec<u8>), expect: &[FilterFault], of_row_1: &[FilterFault]| {
        let mut file = file.clone();
        change(&mut file);
        let graph = CommitGraph::open([&file], hash).unwrap();
        assert_eq!(graph.filter_faults(), expect);
        assert_eq!(graph.filter_settings().is_none(), !expect.is_empty());
        assert_eq!(graph.filter_at(1).err().as_slice(), of_row_1);
    };
    let put =
        |file: &mut Vec<u8>, at: usize, value: u32| file[at..at + 4].copy_from_slice(&value.to_be_bytes());
    let (index, data) = (chunk(b"BIDX"), chunk(b"BDAT"));
    let size = file.len() - hash.len_in_bytes() - data;
    check(&|_| (), &[], &[]);
    // BIDX gets longer, and BDAT shorter.
    check(&|file| put(file, table_row(b"BDAT") + 8, data as u32 + 4), &[FilterFault::IndexSize], &[]);
    check(&|file| put(file, data, 3), &[FilterFault::Unsupported { version: 3, hashes: 7, bits: 10 }], &[]);
    let many = u32::MAX;
    check(
        &|file| put(file, data + 4, many),
        &[FilterFault::Unsupported { version: 1, hashes: many, bits: 10 }],
        &[],
    );
    check(
        &|file| put(file, data + 8, 0),
        &[FilterFault::Unsupported { version: 1, hashes: 7, bits: 0 }],
        &[],
    );
    check(&|file| put(file, index + 4, many), &[], &[FilterFault::Beyond { offset: many, row: 1, size }]);
    check(&|file| put(file, index, many), &[], &[FilterFault::Beyond { offset: many, row: 0, size }]);
    let start = be::u32_at(&file, index);
    check(&|file| put(file, index + 4, 0), &[], &[FilterFault::Decreasing { start, end: 0, row: 1 }]);
}

/// Filters of one chain with two versions: only those of the top are used.
#[test]
fn filters_of_two_versions() {
    let repo = tiny(HashKind::Sha1, Storage::default());
    for (version, range) in [("1", "main~5"), ("2", "--all")] {
        let version = format!("commitGraph.changedPathsVersion={version}");
        let write = ["commit-graph", "write", "--stdin-commits", "--split=no-merge", "--changed-paths"];
        let commits = repo.git(&["rev-list", range]);
        repo.git_with_input(&[&["-c", version.as_str()], &write[..]].concat(), commits.as_bytes());
    }
    let files = graph_files(repo.path());
    let graph = CommitGraph::open(&files, HashKind::Sha1).unwrap();
    assert_eq!(graph.filter_faults(), [FilterFault::OtherSettings(graph.checksums()[0])]);
    assert_eq!(graph.filter_settings(), Some(FilterSettings::new(PathHash::Murmur3)));
    assert_eq!(graph.filter_at(0), Ok(None));
    assert!(graph.filter_at(graph.len() - 1).unwrap().is_some());
}
