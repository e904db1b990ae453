//! Shows what is in a repository's reftables, table by table: `cargo run -p packrace-format --example inspect_reftables -- REPOSITORY`

use std::io::{self, Write};
use std::path::Path;

use packrace_format::reftable::{RefValue, Table, parse_list};

/// Writes each table's range of updates, its refs and its log.
pub fn inspect(repository: &Path, out: &mut dyn Write) -> Result<(), Box<dyn std::error::Error>> {
    let dir = repository.join("reftable");
    // Oldest first; a ref in a newer table hides those of the same name in older ones.
    for name in parse_list(&std::fs::read(dir.join("tables.list"))?)? {
        let name = std::str::from_utf8(name)?;
        let table = Table::open(std::fs::read(dir.join(name))?)?;
        let (first, last) = table.update_indexes();
        let (hash, bytes) = (table.hash_kind(), table.bytes().len());
        writeln!(
            out,
            "{name}: updates {first} to {last}, {hash}, {bytes} bytes, blocks of {}",
            table.block_bytes()
        )?;
        let mut refs = table.refs_from(b"")?;
        while refs.advance()? {
            let record = refs.current().expect("advanced to one");
            write!(out, "  {} {} ", record.update_index, String::from_utf8_lossy(record.name))?;
            match record.value {
                RefValue::Deletion => writeln!(out, "deleted")?,
                RefValue::Id(id) => writeln!(out, "{id}")?,
                RefValue::Tag { id, peeled } => writeln!(out, "{id} (tag of {peeled})")?,
                RefValue::Symbolic(target) => writeln!(out, "-> {}", String::from_utf8_lossy(target))?,
            }
        }
        let mut log = table.logs()?;
        while log.advance()? {
            let record = log.current().expect("advanced to one");
            let name = String::from_utf8_lossy(record.name);
            match record.change {
                None => writeln!(out, "  {} {name} log entry deleted", record.update_index)?,
                Some(change) => {
                    let message = String::from_utf8_lossy(change.message);
                    let (index, message) = (record.update_index, message.trim_end());
                    writeln!(
                        out,
                        "  {index} {name} {}..{} {} {message}",
                        change.old, change.new, change.seconds
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repository = std::env::args_os().nth(1).ok_or("usage: inspect_reftables REPOSITORY")?;
    inspect(Path::new(&repository), &mut io::stdout().lock())
}
