//! Chains of multi-pack-indexes: `multi-pack-index write --incremental`, `compact`, and `repack
//! --write-midx=incremental`. Git 2.47 reads chains without bitmaps; what is expected of the rest was watched
//! with git 2.55.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use packrace_format::bitmap::BitmapIndex;
use packrace_format::multi_pack_index::{MultiPackIndexChain, parse_chain_file};
use packrace_object::{HashKind, Kind, ObjectId};
use packrace_testkit::{Repo, RepoBuilder, Size, Storage};

use crate::repack_command::assert_sound;
use crate::running::{packrace, stock_git};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];
const WRITE: &[&str] = &["multi-pack-index", "write", "--incremental", "--bitmap"];

fn repository(hash: HashKind) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(Storage::default()).build();
    repo.git(&["config", "gc.auto", "0"]);
    repo
}

/// Adds a commit with `files` new blobs, and leaves its objects loose.
fn commit(repo: &Repo, files: usize) {
    let head = repo.git(&["rev-parse", "main"]);
    let mut stream = format!(
        "commit refs/heads/main\ncommitter a <a@b> 1112912053 +0000\ndata 1\nx\nfrom {head}deleteall\n"
    );
    for file in 0..files {
        let content = format!("{file} of {head}");
        stream += &format!("M 100644 inline file-{file}\ndata {}\n{content}\n", content.len());
    }
    repo.git_with_input(
        &["-c", "fastimport.unpackLimit=100000", "fast-import", "--quiet"],
        stream.as_bytes(),
    );
}

/// Adds a commit in a pack of its own.
fn push(repo: &Repo) {
    commit(repo, 1);
    repo.git(&["repack", "-dq"]);
}

/// Runs packrace, which must succeed; returns its output.
fn run(repo: &Repo, args: &[&str]) -> String {
    let output = packrace(repo.path(), args, "");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(repo: &Repo, args: &[&str]) -> (i32, String) {
    let output = packrace(repo.path(), args, "");
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said.lines().next().unwrap_or_default().to_owned())
}

fn chain_dir(repo: &Path) -> PathBuf {
    repo.join("objects/pack/multi-pack-index.d")
}

fn checksums(repo: &Repo) -> Vec<ObjectId> {
    let list = std::fs::read(chain_dir(repo.path()).join("multi-pack-index-chain"));
    list.map_or(Vec::new(), |list| parse_chain_file(&list, repo.hash()).unwrap())
}

fn chain(repo: &Repo) -> MultiPackIndexChain<Vec<u8>> {
    let mut chain = MultiPackIndexChain::empty();
    for checksum in checksums(repo) {
        let file = chain_dir(repo.path()).join(format!("multi-pack-index-{checksum}.midx"));
        chain.push(std::fs::read(file).unwrap(), &checksum).unwrap();
    }
    chain
}

/// The packs and objects of each file, lowest first.
fn shape(repo: &Repo) -> Vec<(u32, u32)> {
    chain(repo).layers().iter().map(|layer| (layer.pack_count(), layer.len())).collect()
}

/// Git and packrace find the files whole, and every bitmap says what git's walk says.
fn check(repo: &Repo, has_bitmaps: bool) {
    let chain = chain(repo);
    // What keeps its bits is of version 2, which git reads from 2.54 on.
    let is_read = chain.layers().iter().all(|layer| layer.data()[4] == 1);
    if is_read {
        assert_sound(repo.path());
        let verified = stock_git(repo.path(), &["multi-pack-index", "verify"], "");
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
    run(repo, &["multi-pack-index", "verify"]);
    let walk = |tip: &str| {
        let args = ["-c", "core.multiPackIndex=false", "rev-list", "--objects", "--no-object-names", tip];
        repo.git(&args).lines().map(String::from).collect::<BTreeSet<_>>()
    };
    // What a commit reaches never changes, and the next check asks again.
    static REACHED: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());
    let reached = |commit: &str| {
        let known = REACHED.lock().unwrap().get(commit).cloned();
        known.unwrap_or_else(|| {
            let found = walk(commit);
            REACHED.lock().unwrap().insert(commit.to_owned(), found.clone());
            found
        })
    };
    let pack = packrace(repo.path(), &["pack-objects", "--all", "--stdout", "--use-bitmap-index", "-q"], "");
    let count = u32::from_be_bytes(pack.stdout[8..12].try_into().unwrap());
    assert_eq!(count as usize, walk("--all").len());
    if !has_bitmaps {
        return;
    }
    let id_of = |bit| chain.id_at(chain.position_at_bit(bit).unwrap()).to_string();
    let by_bit: Vec<String> = (0..chain.len()).map(id_of).collect();
    let mut typed = 0;
    for (number, layer) in chain.layers().iter().enumerate() {
        let file = chain_dir(repo.path()).join(format!("multi-pack-index-{}.bitmap", layer.checksum()));
        let positions = chain.range_of_layer(number);
        let bitmap = BitmapIndex::open_layer(std::fs::read(file).unwrap(), positions.clone(), repo.hash());
        let bitmap = bitmap.unwrap();
        assert!(!bitmap.is_empty(), "{number}");
        for position in bitmap.commit_positions() {
            assert!(positions.contains(&position), "commits of its own file only");
            let bits = bitmap.bitmap_of(position).unwrap().unwrap();
            let found: BTreeSet<String> = bits.iter_ones().map(|bit| by_bit[bit as usize].clone()).collect();
            assert_eq!(found, reached(&chain.id_at(position).to_string()));
        }
        for kind in Kind::ALL {
            let of_kind = bitmap.type_bitmap(kind).unwrap();
            assert!(of_kind.iter_ones().all(|bit| positions.contains(&bit)));
            typed += of_kind.count_ones();
        }
    }
    assert_eq!(typed, chain.len());
}

#[test]
fn a_chain_grows_with_every_pack() {
    for hash in HASHES {
        let repo = repository(hash);
        run(&repo, &["multi-pack-index", "write", "--bitmap"]);
        for files in 2..6 {
            push(&repo);
            run(&repo, WRITE);
            assert_eq!(shape(&repo).len(), files);
            assert!(!repo.path().join("objects/pack/multi-pack-index").exists(), "it is the lowest file");
            check(&repo, true);
        }
        let before = checksums(&repo);
        run(&repo, WRITE);
        assert_eq!(checksums(&repo), before, "there was nothing to add");
        // Without bitmaps, only the lower files' are used.
        push(&repo);
        run(&repo, &["multi-pack-index", "write", "--incremental"]);
        assert_eq!(shape(&repo).len(), 6);
        check(&repo, false);
        let top = checksums(&repo)[5];
        push(&repo);
        let words = format!("error: could not load reverse index for MIDX {top}");
        assert_eq!(refused(&repo, WRITE), (255, words));
        run(&repo, &["multi-pack-index", "write", "--bitmap"]);
        assert_eq!(shape(&repo), []);
        assert!(repo.path().join("objects/pack/multi-pack-index").exists());
        assert_eq!(std::fs::read_dir(chain_dir(repo.path())).unwrap().count(), 0, "the chain is gone");
        assert_sound(repo.path());
    }
}

#[test]
fn files_are_made_into_one() {
    for hash in HASHES {
        let repo = repository(hash);
        run(&repo, WRITE);
        for _ in 0..4 {
            push(&repo);
            run(&repo, WRITE);
        }
        let names: Vec<String> = checksums(&repo).iter().map(ToString::to_string).collect();
        let compact = |options: &[&str], from: usize, to: usize| {
            let args = [&["multi-pack-index", "compact"], options, &[&names[from], &names[to]]].concat();
            args.into_iter().map(String::from).collect::<Vec<_>>()
        };
        let run = |args: &[String]| run(&repo, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let refused = |args: &[String]| refused(&repo, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let fatal = |words: String| (128, format!("fatal: {words}"));
        assert_eq!(
            refused(&compact(&[], 1, 1)),
            fatal("MIDX compaction endpoints must be unique".to_owned())
        );
        let words = format!("MIDX {} must be an ancestor of {}", names[2], names[1]);
        assert_eq!(refused(&compact(&[], 2, 1)), fatal(words));
        let unknown = [&compact(&[], 1, 2)[..3], &["abcd".to_owned()]].concat();
        assert_eq!(refused(&unknown), fatal("could not find MIDX: abcd".to_owned()));
        let words = "error: cannot use --no-write-chain-file without --incremental".to_owned();
        assert_eq!(refused(&compact(&["--no-write-chain-file"], 1, 2)), (129, words));
        assert_eq!(refused(&compact(&[], 1, 2)[..3]).0, 129);
        assert_eq!(shape(&repo).len(), 5);

        let alone = run(&compact(&["--incremental", "--no-write-chain-file", "--bitmap"], 1, 2));
        assert!(chain_dir(repo.path()).join(format!("multi-pack-index-{}.midx", alone.trim())).exists());
        assert_eq!(shape(&repo).len(), 5, "the chain is as before");
        run(&compact(&["--incremental", "--bitmap"], 1, 2));
        assert_eq!(checksums(&repo)[1].to_string(), alone.trim());
        assert_eq!(shape(&repo).iter().map(|(packs, _)| *packs).collect::<Vec<_>>(), [1, 2, 1, 1]);
        check(&repo, true);
        run(&compact(&["--incremental"], 3, 4));
        assert_eq!(shape(&repo).iter().map(|(packs, _)| *packs).collect::<Vec<_>>(), [1, 2, 2]);
        check(&repo, false);
        let names: Vec<String> = checksums(&repo).iter().map(ToString::to_string).collect();
        run(&["multi-pack-index", "compact", "--bitmap", &names[0], &names[2]].map(String::from));
        assert_eq!(shape(&repo), []);
        assert_eq!(std::fs::read_dir(chain_dir(repo.path())).unwrap().count(), 0);
        run(&["multi-pack-index", "verify"].map(String::from));
        let count = repo.git(&["rev-list", "--all", "--objects"]).lines().count() as u32;
        let pack =
            packrace(repo.path(), &["pack-objects", "--all", "--stdout", "--use-bitmap-index", "-q"], "");
        assert_eq!(pack.stdout[8..12], count.to_be_bytes());
    }
}

#[test]
fn files_beside_the_chain() {
    let repo = repository(HashKind::Sha1);
    run(&repo, WRITE);
    push(&repo);
    run(&repo, WRITE);
    push(&repo);
    let before = checksums(&repo);
    let args = ["multi-pack-index", "write", "--incremental", "--no-write-chain-file"];
    let top = run(&repo, &args);
    let file = |name: &str| chain_dir(repo.path()).join(format!("multi-pack-index-{}.midx", name.trim()));
    assert!(file(&top).exists() && checksums(&repo) == before);
    let lowest = format!("--base={}", before[0]);
    let above = run(&repo, &[&args[..], &[&lowest]].concat());
    let alone = run(&repo, &[&args[..], &["--base=none"]].concat());
    assert!(file(&above).exists() && file(&alone).exists() && above != alone && checksums(&repo) == before);
    let words = (128, "fatal: could not find MIDX: 1234".to_owned());
    assert_eq!(refused(&repo, &[&args[..], &["--base=1234"]].concat()), words);
    let words = "error: cannot use --base without --no-write-chain-file".to_owned();
    assert_eq!(refused(&repo, &[&args[..3], &["--base=none"]].concat()), (129, words));
    let words = "error: cannot use --no-write-chain-file without --incremental".to_owned();
    let args = ["multi-pack-index", "write", "--no-write-chain-file"];
    assert_eq!(refused(&repo, &args), (129, words));
    for (verb, what) in [("expire", "expire packs from"), ("repack", "repack")] {
        let words = format!("fatal: cannot {what} an incremental multi-pack-index");
        assert_eq!(refused(&repo, &["multi-pack-index", verb]), (128, words));
    }
    run(&repo, WRITE);
    assert_eq!(checksums(&repo).len(), 3);
    assert!(!file(&above).exists(), "files that no chain names are removed");
    check(&repo, true);
}

#[test]
fn a_geometric_repack_compacts_the_chain() {
    for hash in HASHES {
        let repo = repository(hash);
        commit(&repo, 100);
        let geometric = ["repack", "-dq", "--geometric=2", "--write-midx=incremental", "-b"];
        let plain = ["repack", "-dq", "--write-midx=incremental", "-b"];
        run(&repo, &["repack", "-adq", "--write-midx=incremental", "-b"]);
        let first = shape(&repo)[0];
        assert_eq!(first.0, 1);
        let step = |args: &[&str], files: usize, expect: &[(u32, u32)]| {
            commit(&repo, files);
            run(&repo, args);
            let shape = shape(&repo);
            assert_eq!((shape[0], &shape[1..]), (first, expect));
            check(&repo, true);
        };
        step(&plain, 1, &[(1, 3)]);
        step(&plain, 1, &[(1, 3), (1, 3)]);
        step(&geometric, 1, &[(2, 6), (1, 3)]);
        step(&geometric, 1, &[(3, 9), (1, 3)]);
        step(&geometric, 1, &[(3, 9), (1, 3), (1, 3)]);
        step(&geometric, 2, &[(5, 15), (1, 4)]);
        repo.git(&["config", "repack.midxNewLayerThreshold", "1"]);
        step(&geometric, 1, &[(5, 15), (1, 4), (1, 3)]);
        // The pack on top is as small as two that are in no file yet.
        push(&repo);
        push(&repo);
        step(&geometric, 1, &[(7, 31)]);
        repo.git(&["config", "repack.midxNewLayerThreshold", "0"]);
        let words = "fatal: invalid value for --midx-new-layer-threshold: 0".to_owned();
        assert_eq!(refused(&repo, &geometric), (128, words));
        repo.git(&["config", "repack.midxSplitFactor", "1"]);
        let words = "fatal: invalid value for --midx-split-factor: 1".to_owned();
        assert_eq!(refused(&repo, &geometric), (128, words));
        let words = "error: unknown value for write-midx: foo".to_owned();
        assert_eq!(refused(&repo, &["repack", "--write-midx=foo"]), (129, words));
        repo.git(&["config", "repack.midxSplitFactor", "2"]);

        // Everything in one pack: none of the files remains.
        commit(&repo, 1);
        run(&repo, &["repack", "-adq", "--write-midx=incremental", "-b"]);
        assert_eq!(shape(&repo).iter().map(|(packs, _)| *packs).collect::<Vec<_>>(), [1]);
        check(&repo, true);
        push(&repo);
        run(&repo, &["repack", "-adq", "--no-write-bitmap-index"]);
        assert_eq!(shape(&repo), [], "a chain that names removed packs is removed");
        assert_sound(repo.path());
    }
}

#[test]
fn maintenance_leaves_no_chain_of_removed_packs() {
    let repo = repository(HashKind::Sha1);
    run(&repo, WRITE);
    for _ in 0..3 {
        push(&repo);
        run(&repo, WRITE);
    }
    run(&repo, &["maintenance", "run", "--task=gc"]);
    assert_eq!(shape(&repo), []);
    assert_sound(repo.path());
    push(&repo);
    run(&repo, &["maintenance", "run", "--task=geometric-repack"]);
    assert_eq!(shape(&repo), []);
    assert_sound(repo.path());
}
