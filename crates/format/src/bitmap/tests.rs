use std::collections::{BTreeMap, BTreeSet};

use packrace_testkit::{Bitmap, Repo, RepoBuilder, Size, Storage};

use super::*;
use crate::multi_pack_index::MultiPackIndex;
use crate::pack_index::PackIndex;
use crate::reverse_index::ReverseIndex;
use crate::test_files::{HASHES, damage, id, pack_file, pack_files, read, tiny};

/// A bitmap with the ids of its objects in index order and in bit order.
struct Opened {
    bitmap: BitmapIndex<Vec<u8>>,
    by_position: Vec<ObjectId>,
    by_bit: Vec<ObjectId>,
}

fn open_of_pack(repo: &Repo, hash: HashKind) -> Opened {
    let index = PackIndex::open(pack_file(repo, "idx"), hash).unwrap();
    let reverse = ReverseIndex::<Vec<u8>>::compute(&index);
    let bitmap = BitmapIndex::open(pack_file(repo, "bitmap"), index.len(), hash).unwrap();
    assert_eq!(bitmap.owner_checksum(), index.pack_checksum());
    let name = |position| index.id_at(position).to_owned();
    Opened {
        bitmap,
        by_position: (0..index.len()).map(name).collect(),
        by_bit: (0..index.len()).map(|bit| name(reverse.index_position_at(bit))).collect(),
    }
}

fn open_of_midx(repo: &Repo, hash: HashKind) -> Opened {
    let midx = MultiPackIndex::open(read(&repo.path().join("objects/pack/multi-pack-index")), hash).unwrap();
    let bitmap = BitmapIndex::open(pack_file(repo, "bitmap"), midx.len(), hash).unwrap();
    assert_eq!(bitmap.owner_checksum(), midx.checksum());
    let name = |position| midx.id_at(position).to_owned();
    Opened {
        bitmap,
        by_position: (0..midx.len()).map(name).collect(),
        by_bit: (0..midx.len()).map(|bit| name(midx.position_at_bit(bit).unwrap())).collect(),
    }
}

/// Compares every bitmap with git's walk, types with git's, and name hashes with git's paths; returns the
/// number of bitmaps stored as differences.
fn check(repo: &Repo, opened: &Opened) -> usize {
    let Opened { bitmap, by_position, by_bit } = opened;
    bitmap.verify_checksum().unwrap();
    assert_eq!(bitmap.objects() as usize, by_bit.len());
    assert!(!bitmap.is_empty());
    let mut differences = 0;
    for (row, position) in bitmap.commit_positions().enumerate() {
        let commit = by_position[position as usize].to_string();
        let bits = bitmap.bitmap_of(position).unwrap().unwrap();
        let got: BTreeSet<String> = bits.iter_ones().map(|bit| by_bit[bit as usize].to_string()).collect();
        let walk = repo.git(&["rev-list", "--objects", "--no-object-names", commit.as_str()]);
        assert_eq!(got, walk.lines().map(String::from).collect());
        let mut added = Bits::new(bitmap.objects());
        bitmap.or_bitmap_into(position, &mut added).unwrap().unwrap();
        assert_eq!(added, bits);
        assert!(bitmap.has_bitmap_of(position));
        differences += usize::from(bitmap.entry(row, u64::MAX).unwrap().xor_row != NO_XOR);
    }
    let indexed: BTreeSet<u32> = bitmap.commit_positions().collect();
    for position in (0..bitmap.objects()).filter(|position| !indexed.contains(position)) {
        assert!(bitmap.bitmap_of(position).is_none() && !bitmap.has_bitmap_of(position));
        assert!(bitmap.or_bitmap_into(position, &mut Bits::new(bitmap.objects())).is_none());
    }
    check_types(repo, opened);
    check_name_hashes(repo, opened);
    differences
}

fn check_types(repo: &Repo, opened: &Opened) {
    let listing = repo.git(&[
        "cat-file",
        "--batch-check=%(objectname) %(objecttype)",
        "--batch-all-objects",
        "--unordered",
    ]);
    let kinds: BTreeMap<ObjectId, Kind> = listing
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, kind)| (id(name), Kind::from_name(kind.as_bytes()).unwrap()))
        .collect();
    for kind in Kind::ALL {
        let bits = opened.bitmap.type_bitmap(kind).unwrap();
        for (bit, name) in (0u32..).zip(&opened.by_bit) {
            assert_eq!(bits.contains(bit), kinds[name] == kind, "{name}");
        }
    }
}

/// Nearly all name hashes must be those of a path at which a walk finds the object; the rest are found by a
/// tag's name.
fn check_name_hashes(repo: &Repo, opened: &Opened) {
    let mut hashes: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for commit in repo.git(&["rev-list", "--all"]).lines() {
        for line in repo.git(&["ls-tree", "-rtz", "--format=%(objectname) %(path)", commit]).split('\0') {
            if let Some((name, path)) = line.split_once(' ') {
                hashes.entry(name.to_string()).or_default().insert(name_hash(path.as_bytes()));
            }
        }
    }
    let (mut found, mut right) = (0, 0);
    for (position, name) in (0u32..).zip(&opened.by_position) {
        let stored = opened.bitmap.name_hash_at(position).unwrap();
        found += usize::from(stored != 0);
        right += usize::from(hashes.get(&name.to_string()).is_some_and(|hashes| hashes.contains(&stored)));
    }
    // A multi-pack-index written without a walk has no names.
    let of_pack = !repo.path().join("objects/pack/multi-pack-index").exists();
    assert!(right * 10 >= found * 9 && (found > hashes.len() / 2 || !of_pack), "{right} of {found}");
}

/// The name hash of gitformat-bitmap, in which characters are signed.
fn name_hash(path: &[u8]) -> u32 {
    let hashed = path.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != 11);
    hashed.fold(0, |hash, byte| (hash >> 2).wrapping_add((*byte as i8 as u32) << 24))
}

fn use_everything(bytes: &[u8], objects: u32, hash: HashKind) -> bool {
    let Ok(bitmap) = BitmapIndex::open(bytes, objects, hash) else { return false };
    let positions: Vec<u32> = bitmap.commit_positions().collect();
    for position in positions {
        if let Some(Ok(bits)) = bitmap.bitmap_of(position) {
            assert!(bits.iter_ones().all(|bit| bit < objects));
        }
        let _ = bitmap.or_bitmap_into(position, &mut Bits::new(objects));
    }
    let _ = Kind::ALL.map(|kind| bitmap.type_bitmap(kind).is_ok());
    for merge in bitmap.pseudo_merges().flatten() {
        let _ = merge.commits.to_bits(objects).and_then(|mut bits| merge.reached.or_into(&mut bits));
    }
    for position in 0..objects {
        bitmap.name_hash_at(position);
    }
    let _ = bitmap.owner_checksum();
    bitmap.verify_checksum().is_ok()
}

#[test]
fn bitmaps_of_a_pack() {
    for hash in HASHES {
        for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
            let repo = tiny(hash, Storage { bitmap, ..Storage::default() });
            let opened = open_of_pack(&repo, hash);
            assert_eq!(bitmap == Bitmap::LookupTable, matches!(opened.bitmap.rows, Rows::Table { .. }));
            assert!(check(&repo, &opened) > 0, "none is a difference");
        }
    }
}

#[test]
fn bitmaps_of_a_multi_pack_index() {
    for hash in HASHES {
        for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
            let storage = Storage { packs: 3, multi_pack_index: true, bitmap, ..Storage::default() };
            let repo = tiny(hash, storage);
            check(&repo, &open_of_midx(&repo, hash));
        }
    }
}

#[test]
fn both_ways_of_opening_agree() {
    let repo = RepoBuilder::new(Size::Small).build();
    let opened = [("false", Bitmap::Plain), ("true", Bitmap::LookupTable)].map(|(table, _)| {
        pack_files(&repo, "bitmap").iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let table = format!("pack.writeBitmapLookupTable={table}");
        repo.git(&["-c", table.as_str(), "repack", "-adbq"]);
        open_of_pack(&repo, HashKind::Sha1).bitmap
    });
    let [plain, table] = &opened;
    assert!(matches!((&plain.rows, &table.rows), (Rows::Indexed(_), Rows::Table { .. })));
    assert!(plain.len() > 100);
    assert!(plain.commit_positions().eq(table.commit_positions()));
    for position in plain.commit_positions() {
        assert_eq!(plain.bitmap_of(position), table.bitmap_of(position));
    }
}

fn with_pseudo_merges(hash: HashKind) -> Repo {
    let repo = tiny(hash, Storage::default());
    let settings = ["pattern=refs/", "threshold=now", "sampleRate=1", "maxMerges=2"];
    let settings = settings.map(|setting| format!("bitmapPseudoMerge.all.{setting}"));
    let mut args: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting.as_str()]).collect();
    args.extend(["repack", "-adbq"]);
    repo.git(&args);
    repo
}

/// Git's pseudo-merges are written again, and with a third one of all their commits.
#[test]
fn pseudo_merges_that_are_written_are_read_by_git() {
    for hash in HASHES {
        let repo = with_pseudo_merges(hash);
        let before = open_of_pack(&repo, hash).bitmap;
        let objects = before.objects();
        let (mut all, mut reached) = (Bits::new(objects), Bits::new(objects));
        let mut merges: Vec<(Vec<u32>, Bits)> = Vec::new();
        for merge in before.pseudo_merges().map(Result::unwrap) {
            merge.commits.or_into(&mut all).unwrap();
            merge.reached.or_into(&mut reached).unwrap();
            let commits = merge.commits.to_bits(objects).unwrap().iter_ones().collect();
            merges.push((commits, merge.reached.to_bits(objects).unwrap()));
        }
        merges.push((all.iter_ones().collect(), reached));
        for (lookup_table, merges) in [(false, &merges[..1]), (true, &merges)] {
            let mut writer = writer_of(&before, hash);
            merges.iter().for_each(|(commits, reached)| writer.push_pseudo_merge(commits.clone(), reached));
            let file = writer.finish(None, lookup_table);
            let path = pack_files(&repo, "bitmap").remove(0);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &file).unwrap();
            let opened = open_of_pack(&repo, hash).bitmap;
            let found = opened.pseudo_merges().map(|merge| {
                let PseudoMerge { commits, reached } = merge.unwrap();
                (commits.to_bits(objects).unwrap().iter_ones().collect(), reached.to_bits(objects).unwrap())
            });
            assert_eq!(found.collect::<Vec<(Vec<u32>, Bits)>>(), merges);
            for refs in ["--all", "--branches", "--tags"] {
                let count = ["rev-list", "--count", "--objects", refs];
                assert_eq!(repo.git(&[&count[..], &["--use-bitmap-index"]].concat()), repo.git(&count));
            }
            damage(&file, |bytes| use_everything(bytes, objects, hash));
        }
    }
}

#[test]
fn pseudo_merges() {
    let repo = with_pseudo_merges(HashKind::Sha1);
    let opened = open_of_pack(&repo, HashKind::Sha1);
    let bytes = pack_file(&repo, "bitmap");
    assert_ne!(bytes[7] & PSEUDO_MERGES as u8, 0);
    check(&repo, &opened);
    let objects = opened.bitmap.objects();
    let is_commit = opened.bitmap.type_bitmap(Kind::Commit).unwrap();
    let mut count = 0;
    for merge in opened.bitmap.pseudo_merges() {
        let merge = merge.unwrap();
        let commits = merge.commits.to_bits(objects).unwrap();
        assert!(commits.count_ones() > 0 && commits.iter_ones().all(|bit| is_commit.contains(bit)));
        // Exactly what stock git's walk reaches from these commits.
        let ids: Vec<String> =
            commits.iter_ones().map(|bit| opened.by_bit[bit as usize].to_string()).collect();
        let listed = repo.git_with_input(&["rev-list", "--objects", "--stdin"], ids.join("\n").as_bytes());
        let mut expect: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
        let reached = merge.reached.to_bits(objects).unwrap();
        let mut found: Vec<String> =
            reached.iter_ones().map(|bit| opened.by_bit[bit as usize].to_string()).collect();
        expect.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expect);
        count += 1;
    }
    assert!(count > 0);
    damage(&bytes, |bytes| use_everything(bytes, objects, HashKind::Sha1));
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
            let repo = tiny(hash, Storage { bitmap, ..Storage::default() });
            let objects = open_of_pack(&repo, hash).bitmap.objects();
            let bytes = pack_file(&repo, "bitmap");
            damage(&bytes, |bytes| use_everything(bytes, objects, hash));
            for wrong in [0, 1, objects - 1, objects + 1, u32::MAX] {
                if let Ok(bitmap) = BitmapIndex::open(&bytes, wrong, hash) {
                    bitmap.commit_positions().take(3).for_each(|position| {
                        bitmap.has_bitmap_of(position);
                    });
                }
            }
        }
    }
}

#[test]
fn lookup_tables_that_lie() {
    let repo = tiny(HashKind::Sha1, Storage { bitmap: Bitmap::LookupTable, ..Storage::default() });
    let bytes = pack_file(&repo, "bitmap");
    let bitmap = open_of_pack(&repo, HashKind::Sha1).bitmap;
    let Rows::Table { at, len } = bitmap.rows else { panic!("no lookup table") };
    let row = (0..len as usize).find(|row| bitmap.entry(*row, u64::MAX).unwrap().xor_row != NO_XOR).unwrap();
    let position = bitmap.rows.position(&bytes, row);
    let other = bitmap.rows.row(&bytes, row ^ 1).offset as u32;
    let at = at + row * ROW_BYTES;
    for (field, value, expect) in [
        (at + 8, u32::MAX, "entry is beyond the file"),
        (at + 8, 0, "entry is beyond the file"),
        (at + 8, other, "entry is not the one of the lookup table"),
        (at + 12, NO_XOR, "entry is not the one of the lookup table"),
        (at + 12, len, "xor row is beyond the lookup table"),
        (at + 12, row as u32, "entry is a difference from a later one"),
    ] {
        let mut damaged = bytes.clone();
        damaged[field..field + 4].copy_from_slice(&value.to_be_bytes());
        let damaged = BitmapIndex::open(damaged, bitmap.objects(), HashKind::Sha1).unwrap();
        let what = damaged.bitmap_of(position).unwrap().unwrap_err().what;
        assert_eq!(what, expect);
    }
}

fn writer_of(bitmap: &BitmapIndex<Vec<u8>>, hash: HashKind) -> BitmapWriter {
    let kinds = Kind::ALL.map(|kind| bitmap.type_bitmap(kind).unwrap());
    let mut writer = BitmapWriter::new(hash, &bitmap.owner_checksum(), &kinds);
    for position in bitmap.commit_positions() {
        writer.push(position, bitmap.bitmap_of(position).unwrap().unwrap());
    }
    writer
}

/// Rewrites git's bitmaps in index order, so that the best base is not always the last.
fn rewrite(opened: &Opened, hash: HashKind, lookup_table: bool) -> Vec<u8> {
    let bitmap = &opened.bitmap;
    let writer = writer_of(bitmap, hash);
    assert_eq!(writer.len(), bitmap.len() as usize);
    let name_hashes: Option<Vec<u32>> = (0..bitmap.objects()).map(|at| bitmap.name_hash_at(at)).collect();
    writer.finish(name_hashes.as_deref(), lookup_table)
}

/// Replaces git's bitmap; git and our reader then compare all of it with walks.
fn check_rewritten(repo: &Repo, hash: HashKind, open: impl Fn(&Repo, HashKind) -> Opened) {
    let before = open(repo, hash);
    let path = pack_files(repo, "bitmap").remove(0);
    for lookup_table in [false, true] {
        let file = rewrite(&before, hash, lookup_table);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &file).unwrap();
        let opened = open(repo, hash);
        assert_eq!(lookup_table, matches!(opened.bitmap.rows, Rows::Table { .. }));
        assert!(check(repo, &opened) > 0, "none is a difference");
        for position in opened.bitmap.commit_positions() {
            let commit = opened.by_position[position as usize].to_string();
            repo.git(&["rev-list", "--test-bitmap", &commit]);
        }
        let count = ["rev-list", "--count", "--objects", "--all"];
        assert_eq!(repo.git(&[&count[..], &["--use-bitmap-index"]].concat()), repo.git(&count));
        let objects = opened.bitmap.objects();
        damage(&file, |bytes| use_everything(bytes, objects, hash));
    }
}

#[test]
fn what_is_written_is_read_by_git() {
    for hash in HASHES {
        let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
        check_rewritten(&tiny(hash, storage.clone()), hash, open_of_pack);
        let storage = Storage { packs: 3, multi_pack_index: true, ..storage };
        check_rewritten(&tiny(hash, storage), hash, open_of_midx);
    }
}

#[test]
fn chains_end_and_sets_without_likeness_stand_alone() {
    let kinds = [0, 1, 2, 3].map(|_| Bits::new(4096));
    let mut writer = BitmapWriter::new(HashKind::Sha1, &HashKind::Sha1.empty_tree(), &kinds);
    let set = |number: u32| {
        let mut bits = Bits::new(4096);
        bits.set_range(0..100 + number);
        // Every seventh set shares nothing with the others.
        (0..4096).filter(|at| number % 7 == 6 && at * at % 97 < 50).for_each(|at| {
            bits.set(at);
        });
        bits
    };
    (0..200).for_each(|number| writer.push(199 - number, set(number)));
    let file = writer.finish(None, true);
    let bitmap = BitmapIndex::open(&file, 4096, HashKind::Sha1).unwrap();
    let mut longest = 0;
    for position in 0..200 {
        assert_eq!(bitmap.bitmap_of(position).unwrap().unwrap(), set(199 - position));
        let mut row = bitmap.rows.find(&file, position).unwrap() as u32;
        let mut chain = 0;
        while row != NO_XOR {
            row = bitmap.entry(row as usize, u64::MAX).unwrap().xor_row;
            chain += 1;
        }
        longest = longest.max(chain);
    }
    assert!((10..=51).contains(&longest), "{longest}");
    assert_eq!(bitmap.name_hash_at(0), None);
}
