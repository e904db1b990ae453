use packrace_format::pack_index::{Entry, Version, write};
use packrace_object::{HashKind, ObjectId};
use packrace_testkit::Random;

use super::*;
use crate::objects::pack::Pack;

/// An index of these objects, with offsets that are in no pack.
fn index_of(ids: &[ObjectId]) -> Index {
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    let entries: Vec<Entry> =
        ids.iter().zip(12..).map(|(id, offset)| Entry { id: *id, offset, crc32: 0 }).collect();
    let hash = HashKind::Sha1;
    let checksum = ObjectId::null(hash);
    let index = write(&entries, hash, &checksum, Version::default()).unwrap();
    let mut data = Vec::new();
    packrace_format::pack::write_header(entries.len() as u32, &mut data);
    data.extend_from_slice(checksum.as_slice());
    let stem = std::path::Path::new("pack-test");
    Index::Pack(Pack::from_maps(stem, data.into(), index.into(), hash).unwrap().into_files())
}

/// The result of searching one index after the other.
fn expected(indexes: &[Index], id: &ObjectId) -> Option<u32> {
    let mut start = 0;
    indexes.iter().find_map(|index| {
        let found = index.position_of(id).map(|position| start + position);
        start += index.len();
        found
    })
}

/// Looks up everything, and as many missing objects, until there is a table and beyond.
fn check(indexes: &[Index], finder: &Finder, all: &[ObjectId]) {
    for _ in 0..2 {
        for id in all {
            assert_eq!(finder.find(id), expected(indexes, id));
            let mut other = *id;
            other.as_mut_slice()[19] ^= 1;
            assert_eq!(finder.find(&other), expected(indexes, &other));
            assert_eq!(finder.find(&HashKind::Sha256.empty_tree()), None);
        }
    }
}

fn ids(random: &mut Random, count: usize) -> Vec<ObjectId> {
    (0..count).map(|_| ObjectId::Sha1(std::array::from_fn(|_| random.next_u64() as u8))).collect()
}

/// Indexes that share some objects with earlier ones. Use few: together they grow faster than their number.
fn overlapping(random: &mut Random, lengths: &[usize]) -> (Vec<Index>, Vec<ObjectId>) {
    let (mut indexes, mut all): (_, Vec<ObjectId>) = (Vec::new(), Vec::new());
    for length in lengths {
        let old = all.iter().step_by(7).copied();
        let mut here: Vec<ObjectId> = old.collect();
        here.extend(ids(random, *length));
        indexes.push(index_of(&here));
        all.extend(here);
    }
    (indexes, all)
}

#[test]
fn an_object_has_its_number_in_the_first_index() {
    let mut random = Random::new(3);
    for lengths in [
        &[][..],
        &[0],
        &[10],
        &[10, 20],
        &[3, 0, 1, 1, 0, 2, 40],
        &[30; 20],
        // One with most objects: first, in between, and last.
        &[3000, 5, 5, 5, 5, 5],
        &[5, 5, 3000, 5, 5, 5],
        &[5, 5, 5, 5, 5, 3000],
    ] {
        let (indexes, all) = overlapping(&mut random, lengths);
        let finder = Finder::new(&indexes, None);
        check(&indexes, &finder, &all);
        assert_eq!(finder.table.get().is_some(), lengths.len() > LEAST_INDEXES, "{lengths:?}");
    }
}

#[test]
fn a_table_is_used_on_when_indexes_come_before_it() {
    let mut random = Random::new(5);
    let (mut indexes, mut all) = overlapping(&mut random, &[300, 20, 20, 20, 20, 20, 20]);
    let mut finder = Finder::new(&indexes, None);
    check(&indexes, &finder, &all);
    let first = Arc::as_ptr(finder.table.get().unwrap().as_ref().unwrap());
    for come in 1..=MOST_BESIDE + 1 {
        let mut here = ids(&mut random, 3);
        // Some already exist.
        here.extend(all.iter().step_by(31));
        indexes.insert(0, index_of(&here));
        all.extend(here);
        let next = Finder::new(&indexes, Some(&finder));
        // With these lengths the largest stays apart until there are too many.
        let table = next.table.get().map(|table| Arc::as_ptr(table.as_ref().unwrap()));
        if next.apart.is_some() && come <= MOST_BESIDE {
            assert_eq!(table, Some(first), "{come}");
        }
        check(&indexes, &next, &all[all.len() - 60..]);
        if come == MOST_BESIDE + 1 {
            check(&indexes, &next, &all);
            assert!(next.table.get().is_some());
            assert_ne!(next.table.get().map(|table| Arc::as_ptr(table.as_ref().unwrap())), Some(first));
        }
        finder = Finder::new(&indexes, Some(&finder));
    }
    // Objects of a removed index are no longer found.
    indexes.remove(MOST_BESIDE + 3);
    let finder = Finder::new(&indexes, Some(&finder));
    check(&indexes, &finder, &all);
}

#[test]
fn a_miss_is_found_out_without_a_look_at_each_index() {
    let mut random = Random::new(9);
    let all = ids(&mut random, 2000);
    let indexes: Vec<Index> = all.chunks(4).map(index_of).collect();
    let finder = Finder::new(&indexes, None);
    let objects: u32 = indexes.iter().map(Index::len).sum();
    for id in ids(&mut random, 2000) {
        assert_eq!(finder.find(&id), None);
    }
    // Index searches before there was a table.
    let probes = finder.probes.load(Relaxed);
    assert!(probes <= u64::from(objects) * PROBES_AN_OBJECT + 2 * 500, "{probes} of {objects}");
    check(&indexes, &finder, &all[..500]);
}
