//! Writes a reftable, and reads it back: `cargo run -p packrace-format --example reftable`.

use packrace_format::reftable::{LogChange, LogRecord, RefRecord, RefValue, Table, TableOptions, Writer};
use packrace_object::{HashKind, ObjectId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let id = ObjectId::from_hex(b"1112912053fabcdef0123456789abcdef0123456")?;
    let mut file = Vec::new();
    // Update indexes number the transactions of a stack of tables; this table holds the first.
    let options = TableOptions::new(HashKind::Sha1);
    let mut writer = Writer::new(&options, 1, 1, |bytes: &[u8]| file.extend_from_slice(bytes))?;
    for (name, value) in [
        (&b"HEAD"[..], RefValue::Symbolic(b"refs/heads/main")),
        (b"refs/heads/main", RefValue::Id(id)),
        (b"refs/heads/old", RefValue::Deletion),
    ] {
        writer.add_ref(&RefRecord { name, update_index: 1, value })?;
    }
    let (name, email, message) = (&b"A U Thor"[..], &b"author@example.com"[..], &b"commit: first\n"[..]);
    let old = ObjectId::null(HashKind::Sha1);
    let change = LogChange { old, new: id, name, email, seconds: 1_112_912_053, zone: -700, message };
    writer.add_log(&LogRecord { name: b"refs/heads/main", update_index: 1, change: Some(change) })?;
    writer.finish()?;

    let table = Table::open(file)?;
    assert_eq!(table.find(b"refs/heads/main")?, Some(RefValue::Id(id)));
    let mut refs = table.refs_with_prefix(b"refs/heads/")?;
    while refs.advance()? {
        let record = refs.current().expect("advanced to one");
        println!("{} {:?}", String::from_utf8_lossy(record.name), record.value);
    }
    Ok(())
}
