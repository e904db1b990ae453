//! Generated records, written as tables and read back.

use packrace_testkit::Random;

use super::model::{Model, Value, id};
use super::*;

fn check(random: &mut Random, options: &TableOptions, count: usize) {
    let (min, max) = (5, 5 + random.below(1000) as u64);
    let model = Model::random(random, options.hash, count, min, max);
    let bytes = model.write(options, min, max).unwrap();
    let table = Table::open(&bytes[..]).unwrap();
    assert_eq!(table.hash_kind(), options.hash);
    assert_eq!(table.update_indexes(), (min, max));
    assert!(Model::read(&table).unwrap() == model, "{options:?} {count}");
    for (name, (_, value)) in &model.refs {
        assert_eq!(table.find(name).unwrap().map(Value::of).as_ref(), Some(value));
    }
    check_places(random, &table, &model);
    check_objects(random, &table, &model);
    check_logs(random, &table, &model);
}

/// Checks iteration from names and prefixes that exist, or nearly do.
fn check_places(random: &mut Random, table: &Table<&[u8]>, model: &Model) {
    let names: Vec<&Vec<u8>> = model.refs.keys().collect();
    let mut wanted: Vec<Vec<u8>> = [&b"r"[..], b"refs/", b"refs/tags/", b"\xff"].map(<[u8]>::to_vec).to_vec();
    for _ in 0..200.min(names.len() * 4) {
        let name = names[random.below(names.len())];
        let mut cut = name[..1 + random.below(name.len())].to_vec();
        if random.one_in(3) {
            cut.push(random.next_u64() as u8);
        }
        wanted.push(cut);
    }
    for wanted in wanted {
        let mut refs = table.refs_with_prefix(&wanted).unwrap();
        for name in names.iter().filter(|name| name.starts_with(&wanted)) {
            assert!(refs.advance().unwrap());
            assert_eq!(refs.current().unwrap().name, &name[..]);
        }
        assert!(!refs.advance().unwrap() && refs.current().is_none() && !refs.advance().unwrap());
        let mut refs = table.refs_from(&wanted).unwrap();
        for name in names.iter().filter(|name| **name >= &wanted).take(40) {
            assert!(refs.advance().unwrap());
            assert_eq!(refs.current().unwrap().name, &name[..]);
        }
        let expect = model.refs.get(&wanted).map(|(_, value)| value.clone());
        assert_eq!(table.find(&wanted).unwrap().map(Value::of), expect);
    }
}

fn check_objects(random: &mut Random, table: &Table<&[u8]>, model: &Model) {
    let mut ids = vec![table.hash_kind().null(), id(random, table.hash_kind())];
    for (_, value) in model.refs.values().take(if model.refs.len() > 100 { 20 } else { 100 }) {
        match value {
            Value::Id(id) => ids.push(*id),
            Value::Tag(id, peeled) => ids.extend([*id, *peeled]),
            _ => {}
        }
    }
    for id in ids {
        let mut refs = table.refs_to(&id).unwrap();
        for (name, _) in model.refs.iter().filter(|(_, (_, value))| value.leads_to(&id)) {
            assert!(refs.advance().unwrap());
            assert_eq!(refs.current().unwrap().name, &name[..]);
        }
        assert!(!refs.advance().unwrap() && !refs.advance().unwrap());
    }
}

fn check_logs(random: &mut Random, table: &Table<&[u8]>, model: &Model) {
    let names: Vec<&Vec<u8>> = model.logs.keys().map(|(name, _)| name).collect();
    for _ in 0..50.min(names.len()) {
        let name = names[random.below(names.len())];
        let own = model.logs.range((name.clone(), 0)..=(name.clone(), u64::MAX));
        let own: Vec<u64> = own.map(|((_, reversed), _)| !reversed).collect();
        for until in [u64::MAX, own[0], own[0] - 1, own[own.len() - 1], 0] {
            let mut logs = table.logs_of_until(name, until).unwrap();
            for update_index in own.iter().filter(|update_index| **update_index <= until) {
                assert!(logs.advance().unwrap());
                let record = logs.current().unwrap();
                assert_eq!((record.name, record.update_index), (&name[..], *update_index));
            }
            assert!(!logs.advance().unwrap() && logs.current().is_none() && !logs.advance().unwrap());
        }
        let longer = [&name[..], b"0"].concat();
        assert_eq!(table.logs_of(&longer).unwrap().advance().unwrap(), names.contains(&&longer));
    }
}

#[test]
fn few_records() {
    let mut random = Random::new(1);
    for round in 0..60 {
        for hash in HASHES {
            let block_bytes = [0, 256, 300, 511, 1024, 4096, 65_536][round % 7];
            let restart_interval = [0, 1, 2, 16, 1000][round % 5];
            let options = TableOptions { hash, block_bytes, restart_interval, index_objects: round % 4 != 0 };
            for count in [0, 1, 2, 10, 40, 100] {
                check(&mut random, &options, count);
            }
        }
    }
}

#[test]
fn ten_thousand_records() {
    let mut random = Random::new(2);
    for (hash, block_bytes, restart_interval) in [
        (HashKind::Sha1, 256, 16),
        (HashKind::Sha1, 4096, 16),
        (HashKind::Sha256, 65_536, 64),
        (HashKind::Sha256, 0, 3),
        (HashKind::Sha1, MAX_BLOCK_BYTES, 1),
    ] {
        let options = TableOptions { hash, block_bytes, restart_interval, index_objects: true };
        check(&mut random, &options, 10_000);
    }
}

/// If a name fills most of a block, an index with blocks of that size would have as many blocks as there are
/// names.
#[test]
fn names_as_long_as_blocks() {
    for (block_bytes, name_bytes) in
        [(0, 4000), (256, 80), (256, 180), (4096, 2000), (4096, 4000), (65_536, 60_000)]
    {
        for hash in HASHES {
            let options = TableOptions { block_bytes, ..TableOptions::new(hash) };
            let mut model = Model::default();
            for number in 0..60u64 {
                let mut name = number.to_string().into_bytes();
                name.resize(name_bytes, b'x');
                let oid = ObjectId::from_bytes_or_panic(&vec![number as u8; hash.len_in_bytes()]);
                model.refs.insert(name.clone(), (7, Value::Id(oid)));
                model.logs.insert((name, !7), None);
            }
            let bytes = model.write(&options, 7, 7).unwrap();
            let table = Table::open(&bytes[..]).unwrap();
            assert!(Model::read(&table).unwrap() == model);
            for (name, (_, value)) in &model.refs {
                assert_eq!(table.find(name).unwrap().map(Value::of).as_ref(), Some(value));
                assert!(table.logs_of(name).unwrap().advance().unwrap());
                let Value::Id(id) = value else { unreachable!() };
                let mut refs = table.refs_to(id).unwrap();
                assert!(refs.advance().unwrap());
                assert_eq!(refs.current().unwrap().name, &name[..]);
            }
        }
    }
}

#[test]
fn many_chunks() {
    let mut random = Random::new(3);
    let model = Model::random(&mut random, HashKind::Sha256, 40_000, 1, 9);
    let options = TableOptions::new(HashKind::Sha256);
    let whole = model.write(&options, 1, 9).unwrap();
    let mut chunks = Vec::new();
    let mut writer = Writer::new(&options, 1, 9, |bytes: &[u8]| chunks.push(bytes.len())).unwrap();
    let table = Table::open(&whole[..]).unwrap();
    let mut refs = table.refs_from(b"").unwrap();
    while refs.advance().unwrap() {
        writer.add_ref(&refs.current().unwrap()).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(chunks.iter().sum::<usize>() as u64, written.bytes);
    assert!(matches!(chunks[..], [first, _] if first >= 1 << 20), "{chunks:?}");
}

#[test]
fn what_cannot_be_written() {
    let oid = HashKind::Sha1.null();
    let record = |name| RefRecord { name, update_index: 3, value: RefValue::Id(oid) };
    let log = |name, update_index| LogRecord { name, update_index, change: None };
    let options = TableOptions { block_bytes: 100, ..TableOptions::new(HashKind::Sha1) };
    type Work<'a> = &'a dyn Fn(&mut Writer<fn(&[u8])>) -> Result<(), ReftableWriteError>;
    let check = |work: Work<'_>, expect: ReftableWriteError| {
        let mut writer = Writer::new(&options, 3, 5, (|_| ()) as fn(&[u8])).unwrap();
        assert_eq!(work(&mut writer), Err(expect));
    };
    let name = |text: &str| text.as_bytes().to_vec();
    check(&|to| to.add_ref(&record(b"")), ReftableWriteError::InvalidName(vec![]));
    check(&|to| to.add_ref(&record(b"a\0")), ReftableWriteError::InvalidName(name("a\0")));
    check(
        &|to| to.add_ref(&record(b"b")).and(to.add_ref(&record(b"b"))),
        ReftableWriteError::NotSorted(name("b")),
    );
    check(
        &|to| to.add_ref(&record(b"b")).and(to.add_ref(&record(b"a"))),
        ReftableWriteError::NotSorted(name("a")),
    );
    check(
        &|to| to.add_log(&log(b"b", 4)).and(to.add_ref(&record(b"c"))),
        ReftableWriteError::NotSorted(name("c")),
    );
    check(
        &|to| to.add_log(&log(b"b", 4)).and(to.add_log(&log(b"b", 4))),
        ReftableWriteError::NotSorted(name("b")),
    );
    check(
        &|to| to.add_log(&log(b"b", 4)).and(to.add_log(&log(b"b", 5))),
        ReftableWriteError::NotSorted(name("b")),
    );
    check(
        &|to| to.add_log(&log(b"b", 4)).and(to.add_log(&log(b"a", 1))),
        ReftableWriteError::NotSorted(name("a")),
    );
    check(&|to| to.add_log(&log(b"b", 6)), ReftableWriteError::UpdateIndex(name("b")));
    for update_index in [2, 6] {
        let record = RefRecord { name: b"b", update_index, value: RefValue::Deletion };
        check(&|to| to.add_ref(&record), ReftableWriteError::UpdateIndex(name("b")));
    }
    let other = RefRecord { name: b"b", update_index: 3, value: RefValue::Id(HashKind::Sha256.null()) };
    check(&|to| to.add_ref(&other), ReftableWriteError::WrongHash(name("b")));
    let long = "x".repeat(60);
    let needed_bytes = 24 + 4 + 1 + 2 + 60 + 1 + 20 + 3 + 2;
    check(
        &|to| to.add_ref(&record(long.as_bytes())),
        ReftableWriteError::TooLong { name: name(&long), needed_bytes },
    );
    let fits = &long[..60 - (needed_bytes - 100)];
    let mut writer = Writer::new(&options, 3, 5, |_: &[u8]| ()).unwrap();
    assert_eq!(writer.add_ref(&record(fits.as_bytes())), Ok(()));
    let too_big = TableOptions { block_bytes: MAX_BLOCK_BYTES + 1, ..options };
    assert_eq!(Writer::new(&too_big, 3, 5, |_: &[u8]| ()).err(), Some(ReftableWriteError::BlockSize));
    assert_eq!(Writer::new(&options, 5, 3, |_: &[u8]| ()).err(), Some(ReftableWriteError::UpdateRange));
}
