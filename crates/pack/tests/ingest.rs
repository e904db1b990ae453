//! Received packs: we accept what stock git accepts, with the same index, and refuse what it refuses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_pack::ingest::{Ingest, IngestError, IngestOptions};
use packrace_pack::{NoProgress, Phase, ProgressSink};
use packrace_store::publish::{PackName, PackWriter, PublishOptions, WritePolicy};
use packrace_store::{OpenOptions, Repository, Snapshot};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, sampled};

fn options(hash: HashKind) -> IngestOptions {
    IngestOptions {
        hash,
        threads: 2,
        cache_bytes: 1 << 20,
        max_bytes: None,
        max_objects: None,
        max_unpacked: None,
        fix_thin: true,
        level: -1,
        refuse_duplicates: false,
        skip_unreadable: false,
        checks: None,
    }
}

/// The resulting files of a pack.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    pack: Vec<u8>,
    index: Vec<u8>,
    reverse: Vec<u8>,
}

impl Files {
    fn read(stem: &Path) -> Self {
        let read = |extension| std::fs::read(stem.with_extension(extension)).unwrap();
        Files { pack: read("pack"), index: read("idx"), reverse: read("rev") }
    }
}

/// Receives a pack in pieces of this length.
fn ours(
    pack: &[u8],
    piece: usize,
    dir: &Path,
    existing: Option<&Arc<Snapshot>>,
    options: IngestOptions,
) -> Result<Files, IngestError> {
    let writer = PackWriter::receive(dir, options.hash, WritePolicy::default()).unwrap();
    let mut ingest = Ingest::new(writer, options);
    let mut rest = pack;
    while !rest.is_empty() && !ingest.is_complete() {
        let now = &rest[..piece.min(rest.len())];
        let taken = ingest.push(now)?;
        assert!(taken == now.len() || ingest.is_complete());
        rest = &rest[taken..];
    }
    let indexed = ingest.resolve(existing, &NoProgress)?;
    let stem = dir.join("ours");
    let publish =
        PublishOptions { name: PackName::Stem(&stem), reverse_index: true, ..PublishOptions::default() };
    indexed.publish(&publish)?;
    let files = Files::read(&stem);
    for extension in ["pack", "idx", "rev"] {
        std::fs::remove_file(stem.with_extension(extension)).unwrap();
    }
    Ok(files)
}

/// The same with stock git, in this repository.
fn gits(pack: &[u8], repository: &Path, dir: &Path, arguments: &[&str]) -> Result<Files, String> {
    let stem = dir.join("gits");
    let path = stem.with_extension("pack");
    let mut command = Git::stock().command(repository);
    command.args(["index-pack", "--stdin", "--rev-index"]).args(arguments).arg(&path);
    // Git leaves a file behind when it refuses the pack.
    let _ = std::fs::remove_file(&path);
    let output = run(command, pack);
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let files = Files::read(&stem);
    for extension in ["pack", "idx", "rev"] {
        std::fs::remove_file(stem.with_extension(extension)).unwrap();
    }
    Ok(files)
}

fn run(mut command: std::process::Command, input: &[u8]) -> std::process::Output {
    use std::io::Write as _;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Git may exit before it has read all of its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn snapshot(repository: &Path) -> Arc<Snapshot> {
    Repository::open(repository, &OpenOptions::default()).unwrap().snapshot().unwrap()
}

#[test]
fn packs_of_real_repositories_get_gits_index() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Small).hash(hash).ref_format(RefFormat::Files).build();
        let dir = packrace_testkit::scratch_dir();
        let format = if hash == HashKind::Sha1 { "sha1" } else { "sha256" };
        let empty = dir.path().join("empty");
        let init = format!("--object-format={format}");
        Git::stock().run(dir.path(), &["init", "-q", "--bare", &init, "empty"]);
        for how in [&["--delta-base-offset"][..], &[], &["--window=0"], &["--depth=250", "--window=50"]] {
            let mut arguments = vec!["pack-objects", "--all", "--stdout", "-q"];
            arguments.extend(how);
            let pack = Git::stock().run_with_input(repo.path(), &arguments, b"");
            let theirs = gits(&pack, &empty, dir.path(), &[]).unwrap();
            let pieces: &[usize] = if how.is_empty() { &[1, 1 << 20] } else { &[7, 4096, 65_515] };
            for piece in pieces {
                let found = ours(&pack, *piece, dir.path(), None, options(hash)).unwrap();
                assert!(found == theirs, "{how:?} in pieces of {piece}");
            }
            let one = IngestOptions { threads: 1, cache_bytes: 0, ..options(hash) };
            assert!(ours(&pack, 1000, dir.path(), None, one).unwrap() == theirs, "{how:?} without a cache");
            let known = ours(&pack, 1 << 20, dir.path(), Some(&snapshot(repo.path())), options(hash));
            assert!(known.unwrap() == theirs, "{how:?}, all objects known");
        }
    }
}

#[test]
fn thin_packs_are_completed() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Small).hash(hash).ref_format(RefFormat::Files).build();
        let tips = repo.git(&["rev-list", "--first-parent", "--max-count=20", "HEAD"]);
        let old = tips.lines().last().unwrap();
        let revisions = format!("HEAD\n^{old}\n");
        let arguments = ["pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset"];
        let pack = Git::stock().run_with_input(repo.path(), &arguments, revisions.as_bytes());
        let dir = packrace_testkit::scratch_dir();
        let existing = snapshot(repo.path());
        let strict = IngestOptions { fix_thin: false, ..options(hash) };
        let refused = ours(&pack, 1 << 20, dir.path(), Some(&existing), strict).unwrap_err();
        let words = gits(&pack, repo.path(), dir.path(), &[]).unwrap_err();
        assert_eq!(format!("fatal: {refused}\n"), words);
        let found = ours(&pack, 1 << 20, dir.path(), Some(&existing), options(hash)).unwrap();
        let theirs = gits(&pack, repo.path(), dir.path(), &["--fix-thin"]).unwrap();
        let count = |pack: &[u8]| u32::from_be_bytes(pack[8..12].try_into().unwrap());
        assert_eq!(count(&found.pack), count(&theirs.pack));
        assert!(count(&found.pack) > count(&pack), "the pack was thin");
        let again = gits(&found.pack, repo.path(), dir.path(), &[]).unwrap();
        assert!(again == found, "git finds the same in the completed pack");
    }
}

/// A number generator, the same in every run (Vigna, "xorshift64*").
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// A pack of whole objects and deltas, most of them valid; `known` are objects of the repository. A long pack
/// begins with enough objects to start the second thread early, which then resolves deltas as they arrive.
fn generated(numbers: &mut Numbers, known: &[(Kind, Vec<u8>)], is_long: bool) -> Vec<u8> {
    let mut pack = HandmadePack::default();
    let mut objects: Vec<(Kind, Vec<u8>, usize)> = Vec::new();
    if is_long {
        let content: Vec<u8> = (0..2_200_000).map(|_| numbers.below(256) as u8).collect();
        let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), content.len() as u64, &content);
    }
    for number in 0..1 + numbers.below(12) {
        if objects.is_empty() || numbers.one_in(3) {
            let kind = [Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag][numbers.below(4)];
            let length = [0, 1, 30, 300, 5000][numbers.below(5)];
            let content: Vec<u8> = (0..length).map(|at| (at * (number + 3) / 7) as u8).collect();
            let id = object_id(HashKind::Sha1, kind, &content).unwrap();
            let lie = if numbers.one_in(120) { 1 } else { 0 };
            let start = pack.entry(&id, HandmadeEntry::Whole(kind), content.len() as u64 + lie, &content);
            objects.push((kind, content, start));
            continue;
        }
        let outside = numbers.one_in(6);
        let (kind, base, start) = if outside {
            let (kind, base) = &known[numbers.below(known.len())];
            (*kind, base.clone(), 0)
        } else {
            objects[numbers.below(objects.len())].clone()
        };
        let insert = [b'a' + number as u8; 5];
        let length = base.len().min(1 + numbers.below(100));
        let lie = u64::from(numbers.one_in(120));
        let mut delta = HandmadeDelta::new(base.len() as u64 + lie, length as u64 + 5);
        if length > 0 {
            let beyond = if numbers.one_in(120) { base.len() } else { 0 };
            delta = delta.copy((base.len() - length + beyond) as u32, length as u32);
        }
        let delta = delta.insert(&insert);
        let content = [&base[base.len() - length..], &insert].concat();
        let id = object_id(HashKind::Sha1, kind, &content).unwrap();
        let mut base_id = object_id(HashKind::Sha1, kind, &base).unwrap();
        if numbers.one_in(120) {
            base_id = ObjectId::from_hex(b"1234567890123456789012345678901234567890").unwrap();
        }
        let by_name = outside || numbers.one_in(3);
        let shift = usize::from(numbers.one_in(120));
        let entry =
            if by_name { HandmadeEntry::ByName(&base_id) } else { HandmadeEntry::ByDistance(start + shift) };
        let start = pack.delta(&id, entry, delta.bytes());
        objects.push((kind, content, start));
    }
    pack.sealed()
}

fn seal(pack: &mut Vec<u8>) {
    let end = pack.len() - 20;
    pack.truncate(end);
    let mut hasher = TrailerHasher::new(HashKind::Sha1);
    hasher.update(pack);
    pack.extend_from_slice(hasher.finish().as_slice());
}

/// Damages a pack, or leaves it intact.
fn damage(pack: &mut Vec<u8>, numbers: &mut Numbers) -> &'static str {
    let at = numbers.below(pack.len());
    let inside = 12 + numbers.below(pack.len() - 32);
    match numbers.below(18) {
        0 => {
            pack[at] ^= 1 << numbers.below(8);
            "a bit flipped"
        }
        1 => {
            pack.truncate(at);
            "cut off"
        }
        2..=4 => {
            pack[inside] ^= 1 << numbers.below(8);
            seal(pack);
            "a bit flipped before the checksum"
        }
        5 => {
            let tail = pack.split_off(pack.len() - 20);
            pack.truncate(inside.max(12));
            pack.extend(tail);
            seal(pack);
            "cut off before the checksum"
        }
        6 => {
            pack[11] = pack[11].wrapping_add([1, 255][numbers.below(2)]);
            seal(pack);
            "a wrong count"
        }
        7 => {
            pack.insert(inside, numbers.below(256) as u8);
            seal(pack);
            "a byte more"
        }
        8 => {
            pack.remove(inside);
            seal(pack);
            "a byte less"
        }
        _ => "whole",
    }
}

sampled! {
    fn generated_and_damaged_packs_are_taken_or_refused_as_by_git(extent) {
        let dir = packrace_testkit::scratch_dir();
        let repository = dir.path().join("repository");
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "repository"]);
        let known: Vec<(Kind, Vec<u8>)> = (0..5)
            .map(|number| (Kind::Blob, format!("known {number}\n").repeat(40 + number).into_bytes()))
            .collect();
        for (_, content) in &known {
            Git::stock().run_with_input(&repository, &["hash-object", "-w", "--stdin"], content);
        }
        let existing = snapshot(&repository);
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let (mut taken, mut refused) = (0, 0);
        for round in 0..extent.pick(200, 1500) {
            let is_long = round % 20 == 0;
            let mut pack = generated(&mut numbers, &known, is_long);
            let how = if is_long { "as it was made" } else { damage(&mut pack, &mut numbers) };
            let fix_thin = numbers.one_in(2);
            let arguments: &[&str] = if fix_thin { &["--fix-thin"] } else { &[] };
            let theirs = gits(&pack, &repository, dir.path(), arguments);
            let piece = if is_long { 1000 } else { [1, 100, 1 << 20][numbers.below(3)] };
            let threads = if is_long { 2 } else { 1 + numbers.below(2) };
            let asked = IngestOptions { fix_thin, threads, ..options(HashKind::Sha1) };
            let found = ours(&pack, piece, dir.path(), Some(&existing), asked);
            match (&theirs, &found) {
                (Ok(theirs), Ok(found)) => {
                    taken += 1;
                    let is_completed = theirs.pack.len() > pack.len();
                    assert!(found == theirs || is_completed, "round {round}, {how}: other files");
                    let again = gits(&found.pack, &repository, dir.path(), &[]);
                    assert!(
                        !is_completed || again.as_ref() == Ok(found),
                        "round {round}, {how}: a bad completed pack"
                    );
                }
                (Err(_), Err(_)) => refused += 1,
                _ => {
                    let (theirs, found) = (theirs.map(drop), found.map(drop));
                    panic!("round {round}, {how}, fix_thin {fix_thin}: git {theirs:?}, we {found:?}");
                }
            }
        }
        let least = extent.pick(60, 500);
        assert!(taken > least && refused > least, "{taken} taken, {refused} refused");
    }
}

/// Cancels after this many checks.
struct UntilAsked(AtomicU32, u32);

impl ProgressSink for UntilAsked {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        self.0.fetch_add(1, Relaxed) >= self.1
    }
}

#[test]
fn one_long_result_is_made_and_named_in_steps() {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", "empty"]);
    let base = [7; 1 << 16];
    // In memory, and in a file.
    for mib in [4, 16] {
        let copies = mib << 4;
        let delta = HandmadeDelta::new(1 << 16, copies << 16);
        let delta = (0..copies).fold(delta, |delta, _| delta.copy(0, 1 << 16));
        let content = vec![7; (copies << 16) as usize];
        let mut pack = HandmadePack::default();
        pack.whole(Kind::Blob, &base);
        let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        pack.delta(&id, HandmadeEntry::ByDistance(12), delta.bytes());
        let pack = pack.sealed();
        let found = ours(&pack, 1 << 20, dir.path(), None, options(HashKind::Sha1)).unwrap();
        assert!(found == gits(&pack, &dir.path().join("empty"), dir.path(), &[]).unwrap(), "{mib} MiB");
        // While making it, and while hashing it.
        let questions = 2 * (content.len() as u32 >> 18);
        for last in [0, 1, questions / 2, questions] {
            let writer = PackWriter::receive(dir.path(), HashKind::Sha1, WritePolicy::default()).unwrap();
            let mut ingest = Ingest::new(writer, options(HashKind::Sha1));
            assert_eq!(ingest.push(&pack).unwrap(), pack.len());
            let progress = UntilAsked(AtomicU32::new(0), last);
            let error = ingest.resolve(None, &progress).map(drop).unwrap_err();
            assert_eq!(progress.0.into_inner(), last + 1, "{mib} MiB: {error}");
        }
    }
}
