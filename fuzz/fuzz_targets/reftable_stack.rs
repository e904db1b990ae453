//! Input: how many tables, how long each is (two bytes each, at most three), and their bytes: a stack that is read merged and
//! compacted. What comes out of the compaction is read too. The same bytes are read as a list of tables.
#![no_main]

#[path = "../footer.rs"]
mod footer;

use footer::put_footer_right;
use libfuzzer_sys::fuzz_target;
use packrace_format::reftable::{
    Deletions, Stack, Table, TableName, TableOptions, compact, geometric, parse_list,
};
use packrace_object::HashKind;

/// A name can repeat all of the one before it, so few bytes can make many long names.
const MAX_NAME_BYTES: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    if let Ok(names) = parse_list(input) {
        for name in names {
            assert!(!name.contains(&b'/') && !name.contains(&0));
            let _ = TableName::parse(name);
        }
    }
    let [count, rest @ ..] = input else { return };
    let mut rest = rest;
    let mut files = Vec::new();
    for _ in 0..=count % 3 {
        let [high, low, bytes @ ..] = rest else { return };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len());
        let (file, after) = bytes.split_at(length);
        let mut file = file.to_vec();
        put_footer_right(&mut file);
        files.push(file);
        rest = after;
    }
    let tables: Vec<_> = files.iter().filter_map(|file| Table::open(file).ok()).collect();
    if tables.is_empty() || tables.iter().any(|table| table.hash_kind() != HashKind::Sha1) {
        return;
    }
    let sizes: Vec<u64> = tables.iter().map(Table::content_bytes).collect();
    if let Some(range) = geometric(&sizes, 2) {
        assert!(range.end <= tables.len());
    }
    let stack = Stack::new(&tables);
    let mut bytes = 0;
    if let Ok(mut refs) = stack.refs_from(b"", Deletions::Show) {
        while let Ok(true) = refs.advance() {
            let Some(record) = refs.current() else { panic!("advanced to nothing") };
            bytes += record.name.len() + 1;
            if bytes > MAX_NAME_BYTES {
                return;
            }
        }
    }
    if let Ok(mut logs) = stack.logs(Deletions::Show) {
        while let Ok(true) = logs.advance() {
            let Some(record) = logs.current() else { panic!("advanced to nothing") };
            bytes += record.name.len() + 50;
            if bytes > MAX_NAME_BYTES {
                return;
            }
        }
    }
    let mut compacted = Vec::new();
    let sink = |bytes: &[u8]| compacted.extend_from_slice(bytes);
    let options = TableOptions::new(HashKind::Sha1);
    if compact(&tables, 0..tables.len(), &options, |_| true, sink).is_ok() {
        let table = Table::open(&compacted).expect("what is written can be read");
        let mut refs = table.refs_from(b"").expect("readable");
        while refs.advance().expect("readable") {
            assert!(refs.current().is_some());
        }
    }
});
