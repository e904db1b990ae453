use packrace_testkit::{Bitmap, Repo, Storage};

use super::*;
use crate::pack_index::PackIndex;
use crate::test_files::{HASHES, damage, read, tiny};

fn built(hash: HashKind, bitmap: Bitmap) -> (Repo, Vec<u8>) {
    let storage = Storage { packs: 3, multi_pack_index: true, bitmap, ..Storage::default() };
    let repo = tiny(hash, storage);
    let bytes = read(&repo.path().join("objects/pack/multi-pack-index"));
    (repo, bytes)
}

/// Compares with the indexes of all packs, which other tests compare with git.
fn check(repo: &Repo, bytes: &[u8], hash: HashKind) {
    let midx = MultiPackIndex::open(bytes, hash).unwrap();
    midx.verify_checksum().unwrap();
    let indexes: Vec<PackIndex<Vec<u8>>> = midx
        .pack_names()
        .map(|name| PackIndex::open(read(&repo.path().join("objects/pack").join(name)), hash).unwrap())
        .collect();
    assert_eq!(indexes.len(), midx.pack_count() as usize);
    assert!(indexes.len() >= 3);
    for position in 0..midx.len() {
        let id = midx.id_at(position);
        assert_eq!(midx.position_of(id), Some(position));
        assert_eq!(midx.range_of_prefix(id, id.as_bytes().len() * 2), position..position + 1);
        let (pack, offset) = midx.pack_and_offset_at(position).unwrap();
        let index = &indexes[pack as usize];
        assert_eq!(index.offset_at(index.position_of(id).unwrap()), offset);
    }
    let all = |index: &PackIndex<Vec<u8>>| {
        (0..index.len()).map(|position| index.id_at(position).to_owned()).collect::<Vec<_>>()
    };
    for id in indexes.iter().flat_map(all) {
        assert!(midx.position_of(&id).is_some());
    }
    check_bits(&midx);
}

fn check_bits(midx: &MultiPackIndex<&[u8]>) {
    if !midx.has_bit_order() {
        assert_eq!((midx.position_at_bit(0), midx.preferred_pack()), (None, None));
        assert_eq!((midx.bit_of_position(0), midx.bitmapped_pack(0)), (None, None));
        return;
    }
    let mut counts = vec![0; midx.pack_count() as usize];
    for bit in 0..midx.len() {
        let position = midx.position_at_bit(bit).unwrap();
        assert_eq!(midx.bit_of_position(position), Some(bit));
        let (pack, _) = midx.pack_and_offset_at(position).unwrap();
        counts[pack as usize] += 1;
        let pack = midx.bitmapped_pack(pack).unwrap();
        assert!((pack.first_bit..pack.first_bit + pack.bits).contains(&bit));
    }
    for (pack, count) in (0u32..).zip(counts) {
        assert_eq!(midx.bitmapped_pack(pack).unwrap().bits, count);
    }
    let preferred = midx.preferred_pack().unwrap();
    assert_eq!(midx.bitmapped_pack(preferred).unwrap().first_bit, 0);
}

fn use_everything(bytes: &[u8], hash: HashKind) -> bool {
    let Ok(midx) = MultiPackIndex::open(bytes, hash) else { return false };
    assert_eq!(midx.pack_names().count(), midx.pack_count() as usize);
    for position in 0..midx.len() {
        assert!(midx.position_of(midx.id_at(position)).is_none_or(|found| found < midx.len()));
        let place = midx.pack_and_offset_at(position);
        assert!(place.is_none_or(|(pack, _)| pack < midx.pack_count()));
        assert!(midx.bit_of_position(position).is_none_or(|bit| bit < midx.len()));
    }
    (0..midx.pack_count()).for_each(|pack| {
        midx.bitmapped_pack(pack);
    });
    let _ = (midx.checksum(), midx.verify_checksum());
    true
}

#[test]
fn places_are_those_of_the_packs() {
    for hash in HASHES {
        for bitmap in [Bitmap::No, Bitmap::Plain] {
            let (repo, bytes) = built(hash, bitmap);
            check(&repo, &bytes, hash);
        }
    }
}

#[test]
fn a_preferred_pack_that_is_not_the_first() {
    let (repo, bytes) = built(HashKind::Sha1, Bitmap::No);
    let names: Vec<String> =
        MultiPackIndex::open(&bytes, HashKind::Sha1).unwrap().pack_names().map(String::from).collect();
    for name in &names {
        let preferred = format!("--preferred-pack={name}");
        std::fs::remove_file(repo.path().join("objects/pack/multi-pack-index")).unwrap();
        repo.git(&["multi-pack-index", "write", "--bitmap", preferred.as_str()]);
        let bytes = read(&repo.path().join("objects/pack/multi-pack-index"));
        check(&repo, &bytes, HashKind::Sha1);
        let midx = MultiPackIndex::open(&bytes, HashKind::Sha1).unwrap();
        let preferred = midx.preferred_pack().unwrap() as usize;
        assert_eq!(midx.pack_names().nth(preferred), Some(name.as_str()));
    }
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let (_repo, bytes) = built(hash, Bitmap::Plain);
        damage(&bytes, |bytes| use_everything(bytes, hash));
    }
}

#[test]
fn what_is_refused() {
    let (_repo, bytes) = built(HashKind::Sha1, Bitmap::No);
    let names_at = memchr::memmem::find(&bytes, b"pack-").unwrap();
    for (at, byte, expect) in [
        (0, b'm', "signature is not MIDX"),
        (4, 3, "version is neither 1 nor 2"),
        (5, 2, "made for another hash"),
        (6, 9, "chunk is not within the file"),
        (8, 9, "more packs than names"),
        (11, 60, "pack name is not a file name"),
        (12, 0, "a required chunk is missing"),
        (names_at, b'/', "pack name is not a file name"),
        (names_at, 0xff, "pack name is not a file name"),
    ] {
        let mut damaged = bytes.clone();
        damaged[at] = byte;
        let got = MultiPackIndex::open(&damaged, HashKind::Sha1).map(drop).unwrap_err().what;
        assert_eq!(got, expect, "{at}");
    }
}

/// What is only compared with its packs may have names that no file has, and wrong bits.
#[test]
fn opened_to_compare() {
    let hash = HashKind::Sha1;
    let (_repo, mut bytes) = built(hash, Bitmap::Plain);
    let names_at = memchr::memmem::find(&bytes, b"pack-").unwrap();
    bytes[names_at] = b'/';
    let index = MultiPackIndex::open_to_compare(&bytes, hash).unwrap();
    let names: Vec<&str> = index.pack_names().collect();
    assert_eq!((names[0], names[1].len()), ("", "pack-.idx".len() + 40));
    assert!(!index.has_bit_order() && index.bitmapped_pack(0).is_none());
    assert!((0..index.len()).all(|position| index.pack_at(position) < index.pack_count()));
}

/// A pack of the repository, as input for the writer.
struct TestPack {
    name: String,
    index: PackIndex<Vec<u8>>,
    modified_seconds: i64,
}

/// All packs of the repository, with the times `seconds` assigned in the order of their names, repeated if
/// there are more packs.
fn sources(repo: &Repo, seconds: &[i64]) -> Vec<TestPack> {
    let files = crate::test_files::pack_files(repo, "idx");
    let timed = files.iter().zip(seconds.iter().cycle());
    let source = |(path, seconds): (&std::path::PathBuf, &i64)| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(*seconds as u64);
        let pack = std::fs::File::open(path.with_extension("pack")).unwrap();
        pack.set_modified(time).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        TestPack {
            name,
            index: PackIndex::open(read(path), repo.hash()).unwrap(),
            modified_seconds: *seconds,
        }
    };
    timed.map(source).collect()
}

fn written(sources: &[TestPack], hash: HashKind, options: WriteOptions) -> Result<Vec<u8>, MidxWriteError> {
    written_after(None, sources, hash, options)
}

fn written_after(
    previous: Option<&[u8]>,
    sources: &[TestPack],
    hash: HashKind,
    options: WriteOptions,
) -> Result<Vec<u8>, MidxWriteError> {
    let previous = previous.map(|bytes| MultiPackIndex::open(bytes.to_vec(), hash).unwrap());
    let previous = previous.as_ref();
    let packs: Vec<_> = sources
        .iter()
        .map(|source| SourcePack {
            name: &source.name,
            index: &source.index,
            modified_seconds: source.modified_seconds,
        })
        .collect();
    // The order of the packs does not matter.
    let turned: Vec<_> = packs.iter().rev().map(|pack| SourcePack { ..*pack }).collect();
    let preferred = options.preferred.map(|at| turned.len() - 1 - at);
    let result = write(&packs, hash, Base::NONE, previous, options);
    assert!(result == write(&turned, hash, Base::NONE, previous, WriteOptions { preferred, ..options }));
    result
}

/// Three packs that share objects, and one whose objects are all in another.
fn overlapping(hash: HashKind) -> Repo {
    let repo = tiny(hash, Storage { packs: 2, ..Storage::default() });
    let objects: Vec<String> = repo.reachable_objects().into_iter().collect();
    let half = objects.len() / 2;
    for range in [0..half + 20, half - 20..half + 10] {
        let list = objects[range].join("\n");
        repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], list.as_bytes());
    }
    repo
}

#[test]
fn written_as_git_writes_it() {
    let file = |repo: &Repo| repo.path().join("objects/pack/multi-pack-index");
    for hash in HASHES {
        let repo = overlapping(hash);
        for seconds in [[1000, 2000, 3000, 4000], [4000, 3000, 2000, 1000], [3000, 1000, 4000, 2000]] {
            let sources = sources(&repo, &seconds);
            assert_eq!(sources.len(), 4);
            for preferred in [None, Some(0), Some(1), Some(2), Some(3)] {
                for bit_order in [false, true] {
                    let option = preferred.map(|at: usize| format!("--preferred-pack={}", sources[at].name));
                    let mut args = vec!["multi-pack-index", "write"];
                    args.extend(option.as_deref());
                    args.extend(bit_order.then_some("--bitmap"));
                    // With an existing file, git would keep its choices.
                    let _ = std::fs::remove_file(file(&repo));
                    repo.git(&args);
                    let ours = written(&sources, hash, WriteOptions { preferred, bit_order }).unwrap();
                    assert!(ours == read(&file(&repo)), "{hash} {seconds:?} {args:?}");
                    check(&repo, &ours, hash);
                }
            }
        }
    }
}

#[test]
fn an_older_file_keeps_its_choices_as_in_git() {
    let hash = HashKind::Sha1;
    let repo = overlapping(hash);
    let file = repo.path().join("objects/pack/multi-pack-index");
    let first = |sources: &[TestPack], preferred: usize| {
        let _ = std::fs::remove_file(&file);
        let names: String = sources[..3].iter().map(|source| format!("{}\n", source.name)).collect();
        let option = format!("--preferred-pack={}", sources[preferred].name);
        repo.git_with_input(&["multi-pack-index", "write", "--stdin-packs", &option], names.as_bytes());
        read(&file)
    };
    let mut kept = 0;
    for seconds in [[1000, 2000, 3000, 4000], [4000, 3000, 2000, 1000], [3000, 1000, 4000, 2000]] {
        let sources = sources(&repo, &seconds);
        for (before, after) in (0..3).flat_map(|before| [None, Some(0), Some(3)].map(|after| (before, after)))
        {
            let previous = first(&sources, before);
            let option = after.map(|at: usize| format!("--preferred-pack={}", sources[at].name));
            repo.git(
                &[&["multi-pack-index", "write"][..], &option.as_deref().into_iter().collect::<Vec<_>>()]
                    .concat(),
            );
            let options = WriteOptions { preferred: after, bit_order: false };
            let ours = written_after(Some(&previous), &sources, hash, options).unwrap();
            assert!(ours == read(&file), "{seconds:?} {before} {after:?}");
            check(&repo, &ours, hash);
            kept += usize::from(ours != written(&sources, hash, options).unwrap());
        }
        // Of a pack that is gone, no copy can be kept.
        let previous = first(&sources, 0);
        let options = WriteOptions { preferred: None, bit_order: false };
        let ours = written_after(Some(&previous), &sources[1..], hash, options).unwrap();
        assert!(ours == written(&sources[1..], hash, options).unwrap());
    }
    assert!(kept > 0, "never does the older file matter");
}

#[test]
fn git_verifies_what_is_written() {
    for hash in HASHES {
        let repo = overlapping(hash);
        // Git takes packs of the same second in the order of its directory listing.
        let sources = sources(&repo, &[1000]);
        let ours = written(&sources, hash, WriteOptions { preferred: None, bit_order: true }).unwrap();
        check(&repo, &ours, hash);
        std::fs::write(repo.path().join("objects/pack/multi-pack-index"), ours).unwrap();
        repo.git(&["multi-pack-index", "verify"]);
        repo.git(&["fsck", "--full", "--no-dangling"]);
    }
}

#[test]
fn packs_without_objects() {
    let repo = overlapping(HashKind::Sha1);
    repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], b"");
    let mut sources = sources(&repo, &[5000]);
    let empty = sources.iter().position(|source| source.index.is_empty()).unwrap();
    sources[empty].modified_seconds = 1;
    let hash = HashKind::Sha1;
    let refused = written(&sources, hash, WriteOptions { preferred: Some(empty), bit_order: false });
    assert_eq!(refused, Err(MidxWriteError::EmptyPreferredPack(sources[empty].name.clone())));
    let bytes = written(&sources, hash, WriteOptions { preferred: None, bit_order: true }).unwrap();
    let midx = MultiPackIndex::open(&bytes, hash).unwrap();
    let bits = midx.bitmapped_pack(empty as u32).unwrap();
    assert_eq!((midx.pack_count(), bits.first_bit, bits.bits), (5, 0, 0));
    assert_ne!(midx.preferred_pack(), Some(empty as u32));
    check(&repo, &bytes, hash);

    let nothing = written(&sources[empty..=empty], hash, WriteOptions { preferred: None, bit_order: true });
    let nothing = nothing.unwrap();
    let midx = MultiPackIndex::open(&nothing, hash).unwrap();
    assert!(midx.is_empty() && midx.pack_count() == 1);
}

/// An index with an object at each of these offsets, `first` being the first byte of the first.
fn made_index_bytes(hash: HashKind, first: u8, offsets: &[u64]) -> Vec<u8> {
    let entry = |(byte, offset): (u8, &u64)| {
        let mut id = hash.null();
        id.as_mut_slice()[0] = byte;
        crate::pack_index::Entry { id, crc32: 0, offset: *offset }
    };
    let entries: Vec<_> = (first..).zip(offsets).map(entry).collect();
    crate::pack_index::write(&entries, hash, hash.null_ref(), Default::default()).unwrap()
}

fn made_index(hash: HashKind, first: u8, offsets: &[u64]) -> PackIndex<Vec<u8>> {
    PackIndex::open(made_index_bytes(hash, first, offsets), hash).unwrap()
}

#[test]
fn large_offsets_are_used_only_where_32_bits_do_not_do() {
    const LIMIT: u64 = 1 << 31;
    let check = |offsets: &[u64], large: u32| {
        for hash in HASHES {
            let source =
                TestPack { name: "a.idx".into(), index: made_index(hash, 3, offsets), modified_seconds: 0 };
            let bytes = written(&[source], hash, WriteOptions::default()).unwrap();
            let midx = MultiPackIndex::open(&bytes, hash).unwrap();
            assert_eq!(midx.large, large, "{offsets:?}");
            let got: Vec<u64> =
                (0..midx.len()).map(|position| midx.pack_and_offset_at(position).unwrap().1).collect();
            assert_eq!(got, offsets);
        }
    };
    check(&[12, LIMIT - 1, LIMIT, 2 * LIMIT - 1], 0);
    check(&[12, LIMIT - 1, LIMIT, 2 * LIMIT - 1, 2 * LIMIT], 3);
    check(&[7 * LIMIT, 12], 1);
}

#[test]
fn a_damaged_index_is_refused() {
    let hash = HashKind::Sha1;
    let mut bytes = made_index_bytes(hash, 0, &[12, 1 << 33]);
    // The second offset: after header, fan-out, ids and checksums.
    let at = 8 + 1024 + 2 * (20 + 4) + 4;
    bytes[at..at + 4].copy_from_slice(&(LARGE | 7).to_be_bytes());
    let source =
        TestPack { name: "a.idx".into(), index: PackIndex::open(bytes, hash).unwrap(), modified_seconds: 0 };
    let refused = written(&[source], hash, WriteOptions::default());
    assert_eq!(refused, Err(MidxWriteError::DamagedIndex("a.idx".into())));
}
