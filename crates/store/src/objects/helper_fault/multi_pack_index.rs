//! A multi-pack-index.

use std::path::Path;

use packrace_object::HashKind;

use super::chunk_table::{ChunkTable, FANOUT_BYTES, fanout_out_of_order, number_at};

const HEADER_BYTES: usize = 12;

/// Why git does not open a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiPackIndexFault {
    /// It cannot be parsed, for this reason. A chain ends below such a file.
    Unparsed(String),
    /// It ends every command: with this, after a line that may be before it.
    Ends(String, Option<String>),
}

/// An error if git would not open the file. `shown` is its path as git prints it.
pub fn check(bytes: &[u8], shown: &Path, hash: HashKind) -> Result<(), MultiPackIndexFault> {
    let number = if hash == HashKind::Sha256 { 2 } else { 1 };
    let header =
        bytes.first_chunk::<HEADER_BYTES>().filter(|_| bytes.len() >= HEADER_BYTES + hash.len_in_bytes());
    let Some(header) = header else {
        return Err(MultiPackIndexFault::Unparsed(format!(
            "multi-pack-index file {} is too small",
            shown.display()
        )));
    };
    let signature = number_at(bytes, 0).unwrap_or(0);
    if signature != 0x4d49_4458 {
        return Err(ends(format!(
            "multi-pack-index signature 0x{signature:08x} does not match signature 0x4d494458"
        )));
    }
    if !matches!(header[4], 1 | 2) {
        return Err(ends(format!("multi-pack-index version {} not recognized", header[4])));
    }
    if header[5] != number {
        let found = header[5];
        return Err(MultiPackIndexFault::Unparsed(format!(
            "multi-pack-index hash version {found} does not match version {number}"
        )));
    }
    let chunks = ChunkTable::read(bytes, HEADER_BYTES, header[6], hash, true)
        .map_err(MultiPackIndexFault::Unparsed)?;
    let chunk = |id: &[u8; 4]| chunks.find(id);
    let packs = number_at(bytes, 8).unwrap_or(0);
    let names = chunk(b"PNAM").ok_or_else(|| missing("pack-name", None))?;
    let objects = fanout(chunk(b"OIDF"))?;
    let of_size = |chunk: Option<&[u8]>, row: usize, name: &str, what: &str| match chunk {
        None => Err(missing(name, None)),
        Some(chunk) if chunk.len() as u64 != u64::from(objects) * row as u64 => {
            Err(missing(name, Some(format!("multi-pack-index {what} chunk is the wrong size"))))
        }
        Some(_) => Ok(()),
    };
    of_size(chunk(b"OIDL"), hash.len_in_bytes(), "OID lookup", "OID lookup")?;
    of_size(chunk(b"OOFF"), 8, "object offsets", "object offset")?;
    // In version 2 they are in any order.
    if header[4] == 1 {
        check_names(names, packs)?;
    }
    Ok(())
}

/// The number of objects.
fn fanout(chunk: Option<&[u8]>) -> Result<u32, MultiPackIndexFault> {
    let chunk = chunk.ok_or_else(|| missing("OID fanout", None))?;
    if chunk.len() != FANOUT_BYTES {
        return Err(missing(
            "OID fanout",
            Some("multi-pack-index OID fanout is of the wrong size".to_owned()),
        ));
    }
    match fanout_out_of_order(chunk) {
        None => Ok(number_at(chunk, FANOUT_BYTES - 4).unwrap_or(0)),
        Some((byte, before, here)) => {
            let words = format!(
                "oid fanout out of order: fanout[{}] = {before:x} > {here:x} = fanout[{byte}]",
                byte - 1
            );
            Err(missing("OID fanout", Some(words)))
        }
    }
}

fn check_names(names: &[u8], packs: u32) -> Result<(), MultiPackIndexFault> {
    let mut before: Option<&[u8]> = None;
    let mut rest = names;
    for _ in 0..packs {
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            return Err(ends("multi-pack-index pack-name chunk is too short"));
        };
        let name = &rest[..end];
        if let Some(before) = before.filter(|before| *before >= name) {
            let [before, name] = [before, name].map(String::from_utf8_lossy);
            return Err(ends(format!(
                "multi-pack-index pack names out of order: '{before}' before '{name}'"
            )));
        }
        before = Some(name);
        rest = &rest[end + 1..];
    }
    Ok(())
}

/// A required chunk is missing, or not what it should be.
fn missing(name: &str, why: Option<String>) -> MultiPackIndexFault {
    MultiPackIndexFault::Ends(format!("multi-pack-index required {name} chunk missing or corrupted"), why)
}

fn ends(why: impl Into<String>) -> MultiPackIndexFault {
    MultiPackIndexFault::Ends(why.into(), None)
}
