//! Input: a byte that does not count, a reftable. The footer's copy of the header and its checksum are put right, which
//! a fuzzer does not guess.
#![no_main]

#[path = "../footer.rs"]
mod footer;

use footer::put_footer_right;
use libfuzzer_sys::fuzz_target;
use packrace_format::reftable::{RefValue, Table};

fuzz_target!(|input: &[u8]| {
    let [_, file @ ..] = input else { return };
    let mut file = file.to_vec();
    put_footer_right(&mut file);
    let Ok(table) = Table::open(&file) else { return };
    let _ = (table.hash_kind(), table.update_indexes());
    read_logs(&table);
    let Ok(mut refs) = table.refs_from(b"") else { return };
    let mut names: Vec<Vec<u8>> = Vec::new();
    while let Ok(true) = refs.advance() {
        let Some(found) = refs.current() else { panic!("advanced to nothing") };
        assert!(found.name.len() <= file.len());
        names.push(found.name.to_vec());
        // A name can repeat all of the one before it, so few bytes can make many long names.
        if names.len() * found.name.len() > 1 << 20 {
            break;
        }
    }
    for name in names.iter().take(50) {
        if let Ok(Some(value)) = table.find(name) {
            assert!(value != RefValue::Symbolic(&file), "a part of the file");
        }
        let Ok(mut refs) = table.refs_from(name) else { continue };
        if let Ok(true) = refs.advance() {
            assert!(refs.current().is_some_and(|found| found.name >= &name[..]));
        }
    }
});

fn read_logs(table: &Table<&Vec<u8>>) {
    let Ok(mut logs) = table.logs() else { return };
    let mut bytes = 0;
    while let Ok(true) = logs.advance() {
        let Some(record) = logs.current() else { panic!("advanced to nothing") };
        // A few deflated bytes can hold many records.
        bytes += record.name.len() + 50;
        if bytes > 1 << 20 {
            break;
        }
    }
}
