//! Fetches of so many commits that bitmaps find the objects: which deltas are sent, to a receiver that has only
//! what it named.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::plan;
use packrace_pack::{
    KeptDeltas, NoProgress, PackRequest, PackReuseScope, RepositoryDeltas, RequestObjects, Settings,
};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Git, Repo, RepoBuilder, Size};

const COMMITS: u32 = 700;
const NEW_COMMITS: u32 = 400;
const RENAMED_AT: u32 = 690;
const FILES: usize = 40;

fn line(file: u32, number: u32, version: u32) -> String {
    let mixed = u64::from(file * 1_000_003 + number * 7919 + version).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("line {number} says {mixed:016x} and no more\n")
}

/// Each commit changes a line of three files and appends one, so the newest version contains most of the older ones.
/// One file is renamed on the way.
fn history(hash: HashKind) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
    let mut versions: Vec<Vec<u32>> = vec![vec![0; 500]; FILES];
    let mut stream = String::new();
    for commit in 1..=COMMITS {
        let message = format!("commit {commit}");
        let date = 1_700_000_000 + commit * 60;
        writeln!(stream, "commit refs/heads/long\ncommitter A <a@example.com> {date} +0000").unwrap();
        writeln!(stream, "data {}\n{message}", message.len()).unwrap();
        for step in 0..3 {
            let file = (commit as usize * 7 + step) % FILES;
            let lines = &mut versions[file];
            let at = (commit as usize * 37) % lines.len();
            lines[at] = commit;
            lines.push(commit);
            let lines = (0..).zip(lines.iter());
            let content: String =
                lines.map(|(number, version)| line(file as u32, number, *version)).collect();
            let name =
                if file == 2 && commit > RENAMED_AT { "renamed".to_owned() } else { format!("f{file}") };
            writeln!(stream, "M 100644 inline dir/{name}.text\ndata {}\n{content}", content.len()).unwrap();
        }
        if commit == RENAMED_AT {
            writeln!(stream, "R dir/f2.text dir/renamed.text").unwrap();
        }
        stream.push('\n');
    }
    repo.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
    repo.git(&["update-ref", "refs/heads/old", &format!("refs/heads/long~{NEW_COMMITS}")]);
    repo
}

fn id(repo: &Repo, rev: &str) -> ObjectId {
    ObjectId::from_hex(repo.git(&["rev-parse", rev]).trim().as_bytes()).unwrap()
}

/// The pack of a fetch, and its number of deltas.
fn fetch(repo: &Repo, threads: usize, ofs_delta: bool) -> (Vec<u8>, u32) {
    fetch_with(repo, ["long", "old"], None, |request| PackRequest { ofs_delta, threads, ..request })
}

/// The same of `want` for somebody who has `have`, with deltas of earlier fetches.
fn fetch_with(
    repo: &Repo,
    [want, have]: [&str; 2],
    deltas: Option<RepositoryDeltas>,
    adjusted: impl FnOnce(PackRequest) -> PackRequest,
) -> (Vec<u8>, u32) {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
    let (wants, haves) = (vec![id(repo, want)], vec![id(repo, have)]);
    // Deltas that are reused are counted, too.
    let settings = Settings { pack_reuse: PackReuseScope::Off, ..Settings::default() };
    let request =
        PackRequest { wants, haves, thin: true, ofs_delta: true, settings, ..PackRequest::default() };
    let plan = plan(&request_objects, &adjusted(request), &NoProgress).unwrap();
    let mut stream = PackStream::new(plan.with_deltas(deltas));
    let mut pack = Vec::new();
    while let Some(segment) = stream.next_segment(&NoProgress).unwrap() {
        pack.extend_from_slice(segment.bytes());
    }
    (pack, stream.totals().deltas)
}

/// Stores `pack` in a repository that has only `old`, and checks that `long` is complete there.
fn receive(repo: &Repo, dir: &Path, pack: &[u8]) {
    receive_of(repo, ["long", "old"], dir, pack);
}

fn receive_of(repo: &Repo, [want, have]: [&str; 2], dir: &Path, pack: &[u8]) {
    let git = Git::stock();
    let hash = format!("--object-format={}", repo.hash());
    git.run(dir, &["init", "-q", "--bare", &hash, "."]);
    let source = repo.path().to_str().unwrap();
    repo.git(&["update-ref", "refs/heads/had", have]);
    git.run(
        dir,
        &["-c", "protocol.file.allow=always", "fetch", "-q", source, "refs/heads/had:refs/heads/old"],
    );
    repo.git(&["update-ref", "-d", "refs/heads/had"]);
    git.run_with_input(dir, &["index-pack", "--stdin", "--fix-thin", "--strict"], pack);
    git.run(dir, &["update-ref", "refs/heads/long", &id(repo, want).to_string()]);
    git.run(dir, &["fsck", "--strict", "--no-dangling"]);
    let objects = |dir: &Path, rev: &str| git.run(dir, &["rev-list", "--objects", rev]);
    assert_eq!(objects(dir, "refs/heads/long"), objects(repo.path(), want));
}

/// How long git's own pack of this fetch is, made with the same bitmaps.
fn gits_length(repo: &Repo) -> usize {
    let revs = "refs/heads/long\n^refs/heads/old\n";
    let args = ["pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset"];
    Git::stock().run_with_input(repo.path(), &args, revs.as_bytes()).len()
}

#[test]
fn deltas_of_old_versions_on_new_ones_are_inverted() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = history(hash);
        repo.git(&["repack", "-adfbq"]);
        for (threads, ofs_delta) in [(1, true), (2, false)] {
            let (pack, deltas) = fetch(&repo, threads, ofs_delta);
            receive(&repo, packrace_testkit::scratch_dir().path(), &pack);
            // Nearly all versions of all files and of their directory; root trees are too short.
            assert!(deltas >= NEW_COMMITS * 4 - 15, "{deltas} deltas");
            let gits = gits_length(&repo);
            assert!(pack.len() < gits * 3 / 4, "{} bytes, git {gits}", pack.len());
        }
    }
}

#[test]
fn deltas_of_new_versions_on_old_ones_are_sent_as_they_are() {
    let repo = history(HashKind::Sha1);
    // What fast-import wrote: deltas on the version before.
    repo.git(&["repack", "-adbq"]);
    let (pack, _) = fetch(&repo, 1, true);
    receive(&repo, packrace_testkit::scratch_dir().path(), &pack);
    let gits = gits_length(&repo);
    assert!(pack.len() <= gits + gits / 50, "{} bytes, git {gits}", pack.len());
}

#[test]
fn bitmaps_without_the_hashes_of_paths_leave_the_search_to_a_walk() {
    let repo = history(HashKind::Sha1);
    repo.git(&["-c", "pack.writeBitmapHashCache=false", "repack", "-adfbq"]);
    let (pack, _) = fetch(&repo, 1, true);
    receive(&repo, packrace_testkit::scratch_dir().path(), &pack);
    assert!(pack.len() < gits_length(&repo));
}

/// Fetches by receivers of different ages, one after the other, with deltas kept from each for the next.
fn check_kept_deltas(repack: &[&str]) {
    let repo = history(HashKind::Sha1);
    repo.git(repack);
    let kept = Arc::new(KeptDeltas::new(NonZeroUsize::new(64 << 20).unwrap()));
    let mut made_before = 0;
    for (have, want) in
        [("old", "long"), ("old", "long"), ("old~3", "long"), ("old~3", "long~5"), ("long~70", "long")]
    {
        let (fresh, _) = fetch_with(&repo, [want, have], None, |request| request);
        let before = kept.reused();
        let (pack, deltas) = fetch_with(&repo, [want, have], Some(kept.of(1)), |request| request);
        let reused = kept.reused() - before;
        if reused > 0 {
            receive_of(&repo, [want, have], packrace_testkit::scratch_dir().path(), &pack);
        }
        let (length, fresh) = (pack.len(), fresh.len());
        assert!(length <= fresh + fresh / 20, "{have} {want}: {length} bytes, fresh {fresh}, {reused} kept");
        // What the last fetch needs may have been stored deltas of the others.
        let is_first = made_before == 0;
        assert!(is_first || reused > 0 || have == "long~70", "{have} {want}: no kept one of {deltas} deltas");
        made_before += deltas;
    }
}

#[test]
fn kept_deltas_are_bounded_and_belong_to_a_repository() {
    let repo = history(HashKind::Sha1);
    repo.git(&["repack", "-adfbq"]);
    // Each target is evicted soon after it was kept.
    let kept = Arc::new(KeptDeltas::new(NonZeroUsize::new(4 << 10).unwrap()));
    let fetch = |number| fetch_with(&repo, ["long", "old"], Some(kept.of(number)), |request| request);
    let first = fetch(1);
    assert!(kept.bytes() > 0);
    assert_eq!(fetch(2), first, "nothing of another repository");
    assert_eq!(kept.reused(), 0);
    receive(&repo, packrace_testkit::scratch_dir().path(), &fetch(2).0);
    assert!(kept.bytes() <= 4 << 10);
}

#[test]
fn deltas_of_one_fetch_serve_the_next() {
    check_kept_deltas(&["repack", "-adfbq"]);
}

#[test]
fn deltas_of_one_fetch_serve_the_next_from_a_badly_packed_history() {
    check_kept_deltas(&["-c", "pack.window=1", "-c", "pack.depth=2", "repack", "-adfbq"]);
}

#[test]
fn deltas_of_one_fetch_serve_the_next_without_bitmaps() {
    check_kept_deltas(&["repack", "-adfq"]);
}

#[test]
fn kept_deltas_make_no_longer_chains_than_the_search() {
    let repo = history(HashKind::Sha1);
    repo.git(&["repack", "-adfq", "--depth=0"]);
    let kept = Arc::new(KeptDeltas::new(NonZeroUsize::new(64 << 20).unwrap()));
    // One commit after the other: each directory becomes a delta of the one before.
    for back in (0..80).rev() {
        let revs = [format!("long~{back}"), format!("long~{}", back + 1)];
        fetch_with(&repo, [&revs[0], &revs[1]], Some(kept.of(1)), |request| request);
    }
    let before = kept.reused();
    let (pack, _) = fetch_with(&repo, ["long", "long~80"], Some(kept.of(1)), |request| request);
    assert!(kept.reused() - before > 150, "{}", kept.reused() - before);
    let dir = packrace_testkit::scratch_dir();
    receive_of(&repo, ["long", "long~80"], dir.path(), &pack);
    // The thin pack is the only one with deltas.
    let packs = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
    let indexes = packs.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "idx");
    let longest = indexes.map(|index| {
        let listed = Git::stock().run(dir.path(), &["verify-pack", "-v", index.to_str().unwrap()]);
        let lengths = listed.lines().filter_map(|line| line.strip_prefix("chain length = "));
        lengths.filter_map(|rest| rest.split(':').next()?.parse::<u32>().ok()).max().unwrap_or(0)
    });
    let longest = longest.max().unwrap();
    assert!((10..=50).contains(&longest), "{longest}");
}

/// Three commits are too few for bitmaps to find the objects; the base of the file that comes back is 20 commits down.
#[test]
fn a_small_fetch_has_a_stored_delta_on_an_old_version() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let bytes = packrace_testkit::Random::new(7).bytes(16 << 10);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut stream = String::new();
        for commit in 0..24 {
            let date = 1_700_000_000 + commit * 60;
            writeln!(stream, "commit refs/heads/long\ncommitter A <a@example.com> {date} +0000").unwrap();
            let content = match commit {
                0 => hex.clone(),
                23 => hex[..hex.len() - 100].to_owned(),
                other => other.to_string(),
            };
            writeln!(stream, "data 1\nc\nM 100644 inline file\ndata {}\n{content}\n", content.len()).unwrap();
        }
        repo.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
        repo.git(&["repack", "-adfbq"]);
        for have in ["long~1", "long~3"] {
            let revs = ["long", have];
            let (pack, _) = fetch_with(&repo, revs, None, |request| request);
            assert!(pack.len() < 1000, "{} bytes", pack.len());
            receive_of(&repo, revs, packrace_testkit::scratch_dir().path(), &pack);
            let shallow = vec![id(&repo, have)];
            // Such a client has no history.
            let (pack, _) = fetch_with(&repo, revs, None, |request| PackRequest { shallow, ..request });
            assert!(pack.len() > 10_000, "{} bytes", pack.len());
        }
        repo.git(&["config", "pack.useBitmaps", "false"]);
        let (pack, _) = fetch_with(&repo, ["long", "long~1"], None, |request| request);
        assert!(pack.len() > 10_000, "{} bytes", pack.len());
    }
}
