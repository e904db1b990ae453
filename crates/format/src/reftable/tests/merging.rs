//! Stacks of generated tables, read and compacted, compared with maps merged in the same order.

use std::ops::Range;

use packrace_testkit::Random;

use super::model::{Model, Value};
use super::*;

/// Models of tables, oldest first, each deleting logs of older ones; then their update indexes.
fn models(random: &mut Random, hash: HashKind, tables: usize, records: usize) -> Vec<(Model, u64, u64)> {
    let mut models: Vec<(Model, u64, u64)> = Vec::new();
    for _ in 0..tables {
        let min = models.last().map_or(1, |(_, _, max)| max + 1);
        let max = min + random.below(30) as u64;
        // Names depend on the number, so all models have the same number.
        let mut model = Model::random(random, hash, records, min, max);
        if random.one_in(3) {
            model.refs.retain(|_, _| false);
        } else if random.one_in(4) {
            model.logs.clear();
        }
        let older = models.iter().flat_map(|(model, _, _)| model.logs.keys());
        let deleted: Vec<_> = older.filter(|_| random.one_in(5)).cloned().collect();
        model.logs.extend(deleted.into_iter().map(|key| (key, None)));
        models.push((model, min, max));
    }
    models
}

fn merged(models: &[(Model, u64, u64)], deletions: Deletions) -> Model {
    let mut merged = Model::default();
    for (model, _, _) in models {
        merged.refs.extend(model.refs.clone());
        merged.logs.extend(model.logs.clone());
    }
    if deletions == Deletions::Hide {
        merged.refs.retain(|_, (_, value)| *value != Value::Deletion);
        merged.logs.retain(|_, change| change.is_some());
    }
    merged
}

fn read(mut refs: MergedRefs<'_>, mut logs: MergedLogs<'_>) -> Model {
    let mut model = Model::default();
    assert!(refs.current().is_none() && logs.current().is_none());
    while refs.advance().unwrap() {
        assert_eq!(refs.value(), refs.current().map(|record| record.value));
        model.add_ref(refs.current().unwrap());
    }
    while logs.advance().unwrap() {
        model.add_log(logs.current().unwrap());
    }
    assert!(refs.current().is_none() && logs.current().is_none());
    assert!(!refs.advance().unwrap() && !logs.advance().unwrap());
    model
}

fn check(random: &mut Random, options: &TableOptions, tables: usize, records: usize) {
    let models = models(random, options.hash, tables, records);
    let bytes: Vec<Vec<u8>> =
        models.iter().map(|(model, min, max)| model.write(options, *min, *max).unwrap()).collect();
    let tables: Vec<_> = bytes.iter().map(|bytes| Table::open(&bytes[..]).unwrap()).collect();
    let stack = Stack::new(&tables);
    for deletions in [Deletions::Show, Deletions::Hide] {
        let expect = merged(&models, deletions);
        let all = read(stack.refs_from(b"", deletions).unwrap(), stack.logs(deletions).unwrap());
        assert!(all == expect, "{options:?} {deletions:?}");
        for prefix in [&b"refs/changes/1"[..], b"refs/tags/v1", b"refs/heads/f", b"HEAD", b"x"] {
            let refs = stack.refs_with_prefix(prefix, deletions).unwrap();
            let mut expect = expect.clone();
            expect.refs.retain(|name, _| name.starts_with(prefix));
            let name = expect.refs.keys().next().cloned().unwrap_or_default();
            expect.logs.retain(|(of, _), _| *of == name);
            assert_eq!(read(refs, stack.logs_of(&name, deletions).unwrap()), expect);
        }
    }
    let all = merged(&models, Deletions::Show);
    for (name, (_, value)) in &all.refs {
        assert_eq!(stack.find(name).unwrap().map(Value::of).as_ref(), Some(value));
    }
    assert_eq!(stack.find(b"refs/").unwrap(), None);
    let ids = all.refs.values().filter_map(|(_, value)| match value {
        Value::Id(id) | Value::Tag(_, id) => Some(*id),
        _ => None,
    });
    for id in ids.take(10) {
        let mut refs = stack.refs_to(&id).unwrap();
        for (name, _) in all.refs.iter().filter(|(_, (_, value))| value.leads_to(&id)) {
            assert!(refs.advance().unwrap());
            assert_eq!(refs.current().unwrap().name, &name[..]);
        }
        assert!(!refs.advance().unwrap());
    }
    for start in 0..tables.len() {
        let end = start + 1 + random.below(tables.len() - start);
        check_compaction(random, options, &tables, &models, start..end);
    }
}

fn check_compaction(
    random: &mut Random,
    options: &TableOptions,
    tables: &[Table<&[u8]>],
    models: &[(Model, u64, u64)],
    range: Range<usize>,
) {
    let deletions = if range.start == 0 { Deletions::Hide } else { Deletions::Show };
    let mut expect = merged(&models[range.clone()], deletions);
    let oldest = if random.one_in(2) { 0 } else { 1 << 20 };
    expect.logs.retain(|_, change| change.as_ref().is_none_or(|change| change.seconds >= oldest));
    let mut out = Vec::new();
    let keep = |record: &LogRecord<'_>| record.change.unwrap().seconds >= oldest;
    let written =
        compact(tables, range.clone(), options, keep, |bytes| out.extend_from_slice(bytes)).unwrap();
    let table = Table::open(&out[..]).unwrap();
    assert_eq!(table.update_indexes(), (models[range.start].1, models[range.end - 1].2));
    assert!(Model::read(&table).unwrap() == expect, "{options:?} {range:?}");
    assert_eq!((written.refs, written.logs), (expect.refs.len() as u64, expect.logs.len() as u64));
}

#[test]
fn stacks() {
    let mut random = Random::new(1);
    for round in 0..30 {
        let hash = HASHES[round % 2];
        let block_bytes = [0, 256, 4096, 1024][round % 4];
        let options = TableOptions { block_bytes, ..TableOptions::new(hash) };
        for (tables, records) in [(0, 0), (1, 20), (2, 5), (3, 60), (9, 30)] {
            check(&mut random, &options, tables, records);
        }
    }
}

#[test]
fn a_stack_of_many_tables() {
    check(&mut Random::new(2), &TableOptions::new(HashKind::Sha1), 60, 200);
}

#[test]
fn ranges_that_are_not_there() {
    let (_dir, bytes) = table(HashKind::Sha1, 1, "4096");
    let tables = [Table::open(&bytes[..]).unwrap()];
    let options = TableOptions::new(HashKind::Sha1);
    for range in [0..0, 1..1, 0..2, 1..2, 7..usize::MAX] {
        let result = compact(&tables, range.clone(), &options, |_| true, |_| panic!("written"));
        assert_eq!(result, Err(CompactError::Range(range)));
    }
    let other = TableOptions::new(HashKind::Sha256);
    let result = compact(&tables, 0..1, &other, |_| true, |_| ());
    assert!(matches!(result, Err(CompactError::Write(ReftableWriteError::WrongHash(_)))), "{result:?}");
}

/// Looking up a name reads one block per table, and so does a prefix within one block: all other blocks are
/// damaged.
#[test]
fn other_blocks_are_not_read() {
    let options = TableOptions { block_bytes: 512, ..TableOptions::new(HashKind::Sha1) };
    let mut model = Model::default();
    for number in 0..1000 {
        let name = format!("refs/heads/{number:03}").into_bytes();
        model.refs.insert(name, (1, Value::Deletion));
    }
    let bytes = model.write(&options, 1, 1).unwrap();
    let is_refs = |number: usize| bytes[number * 512 + if number == 0 { 24 } else { 0 }] == b'r';
    let blocks = (0..).take_while(|number| is_refs(*number)).count();
    assert!(blocks > 10);
    let (mut found, mut prefixes) = (0, 0);
    for whole in 0..blocks {
        let mut damaged = bytes.clone();
        for number in (0..blocks).filter(|number| *number != whole) {
            damaged[number * 512..][28..512].fill(0xff);
        }
        let tables = [Table::open(&damaged[..]).unwrap(), Table::open(&damaged[..]).unwrap()];
        let stack = Stack::new(&tables);
        found += model.refs.keys().filter(|name| stack.find(name).is_ok_and(|value| value.is_some())).count();
        for prefix in 0..100 {
            let prefix = format!("refs/heads/{prefix:02}").into_bytes();
            let Ok(mut refs) = stack.refs_with_prefix(&prefix, Deletions::Hide) else { continue };
            prefixes += usize::from(refs.advance() == Ok(false));
        }
    }
    assert_eq!(found, model.refs.len());
    assert!(prefixes > 50, "{prefixes}");
}
