//! Every byte of small tables flipped, every length cut.
//!
//! Header and footer have a checksum, and so has each deflated log block: damage there is detected or makes
//! no difference. Other blocks have none, so a changed id, or a changed name that still fits between its
//! neighbours, cannot be detected: there, a reader must only survive damage, with an error or an answer.

use packrace_testkit::Random;

use super::model::{Model, Value};
use super::*;

fn small_tables() -> Vec<(TableOptions, Vec<u8>)> {
    let mut random = Random::new(1);
    let mut tables = Vec::new();
    for (number, block_bytes) in [0, 256, 300, 4096].into_iter().enumerate() {
        for hash in HASHES {
            for count in [0, 1, 30] {
                let options = TableOptions { block_bytes, restart_interval: 4, ..TableOptions::new(hash) };
                let mut model = Model::random(&mut random, hash, count, 5, 9);
                match number {
                    1 => model.logs.clear(),
                    2 => model.refs.clear(),
                    _ => {}
                }
                tables.push((options, model.write(&options, 5, 9).unwrap()));
            }
        }
    }
    tables
}

/// Makes every possible query to a possibly damaged table.
fn ask(bytes: &[u8]) -> Result<(Model, usize), Error> {
    let table = Table::open(bytes)?;
    let model = read_bounded(&table)?;
    let mut found = 0;
    for (name, (_, value)) in model.refs.iter().take(8) {
        found += usize::from(table.find(name)?.map(Value::of).as_ref() == Some(value));
        let mut refs = table.refs_with_prefix(&name[..name.len() / 2])?;
        while refs.advance()? {
            found += 1;
        }
        if let Value::Id(id) = value {
            let mut refs = table.refs_to(id)?;
            while refs.advance()? {
                assert!(refs.value().map(Value::of).unwrap().leads_to(id));
                found += 1;
            }
        }
    }
    for (name, _) in model.logs.keys().take(8) {
        let mut logs = table.logs_of(name)?;
        while logs.advance()? {
            assert_eq!(logs.current().unwrap().name, &name[..]);
            found += 1;
        }
    }
    Ok((model, found))
}

/// Like [`Model::read`]; also checks that records ascend, so that reading one twice is detected.
fn read_bounded(table: &Table<&[u8]>) -> Result<Model, Error> {
    let mut model = Model::default();
    let mut last = Vec::new();
    let mut refs = table.refs_from(b"")?;
    while refs.advance()? {
        let record = refs.current().unwrap();
        assert!(last < record.name.to_vec());
        last = record.name.to_vec();
        model.add_ref(record);
    }
    let mut logs = table.logs()?;
    while logs.advance()? {
        model.add_log(logs.current().unwrap());
    }
    Ok(model)
}

#[test]
fn every_byte_flipped() {
    let (mut noticed, mut unnoticed) = (0, 0);
    for (options, bytes) in small_tables() {
        let header_bytes = if options.hash == HashKind::Sha1 { 24 } else { 28 };
        let end = bytes.len() - header_bytes - 44;
        let right = ask(&bytes).unwrap();
        let logs_at = u64::from_be_bytes(bytes[bytes.len() - 20..][..8].try_into().unwrap()) as usize;
        let only_logs = bytes[header_bytes] == b'g';
        let mut damaged = bytes.clone();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x04, 0x20, 0x80, 0xff] {
                damaged[at] ^= flip;
                match ask(&damaged) {
                    Err(error) => {
                        assert!(error.offset <= bytes.len() as u64, "{error}");
                        noticed += 1;
                    }
                    Ok(answer) => {
                        let has_checksum = at < header_bytes || at >= end;
                        assert!(!has_checksum, "{at} of {}", bytes.len());
                        let is_log = only_logs || logs_at > 0 && at >= logs_at;
                        if answer != right {
                            // The index of logs is not deflated; the blocks below it are.
                            assert!(!is_log || answer.0.logs == right.0.logs, "{at} of {}", bytes.len());
                            unnoticed += 1;
                        }
                    }
                }
                damaged[at] ^= flip;
            }
        }
    }
    // Undetected damage is other ids, and names that still ascend: about a quarter of these bytes.
    assert!(noticed > 2 * unnoticed, "{noticed} {unnoticed}");
}

#[test]
fn every_length_cut() {
    for (_, bytes) in small_tables() {
        for length in 0..bytes.len() {
            let error = ask(&bytes[..length]).unwrap_err();
            assert!(error.offset <= length as u64);
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(ask(&longer).is_err());
    }
}

/// A stack of a damaged table and an intact one: the error names the damaged one.
#[test]
fn damage_in_a_stack() {
    for (options, bytes) in small_tables() {
        let whole = Model::default().write(&options, 10, 10).unwrap();
        let mut damaged = bytes.clone();
        for at in (0..bytes.len()).step_by(7) {
            damaged[at] ^= 0x44;
            if let Ok(table) = Table::open(&damaged[..]) {
                let tables = [Table::open(&whole[..]).unwrap(), table, Table::open(&whole[..]).unwrap()];
                let stack = Stack::new(&tables);
                let result = compact(&tables, 0..3, &options, |_| true, |_| ());
                if let Err(CompactError::Read(error)) = result {
                    assert_eq!(error.table, 1);
                }
                let error = stack.find(b"refs/tags/v1.1").err();
                assert!(error.is_none_or(|error| error.table == 1));
            }
            damaged[at] ^= 0x44;
        }
    }
}

/// The footer points to every possible position, with a correct checksum.
#[test]
fn footers_that_lead_anywhere() {
    let mut random = Random::new(2);
    for (options, bytes) in small_tables() {
        let header_bytes = if options.hash == HashKind::Sha1 { 24 } else { 28 };
        let footer = bytes.len() - header_bytes - 44;
        for _ in 0..300 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(2) {
                let field = footer + header_bytes + 8 * random.below(5);
                let place = random.below(bytes.len() + 20) as u64;
                let place = if field == footer + header_bytes + 8 { place << 5 | 2 } else { place };
                damaged[field..][..8].copy_from_slice(&place.to_be_bytes());
            }
            let checksum = libdeflater::crc32(&damaged[footer..bytes.len() - 4]);
            damaged[bytes.len() - 4..].copy_from_slice(&checksum.to_be_bytes());
            let _ = ask(&damaged);
        }
    }
}
