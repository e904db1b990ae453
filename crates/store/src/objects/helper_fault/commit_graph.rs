//! A commit-graph.

use packrace_object::HashKind;

use super::chunk_table::{ChunkTable, FANOUT_BYTES, fanout_out_of_order, number_at};

/// Checks a file as git does when it opens it.
pub fn check(bytes: &[u8], hash: HashKind) -> Result<(), String> {
    // The header, four chunks and the end of the table, the fan-out, and the checksum.
    let least = |chunks: usize| 8 + chunks * 12 + FANOUT_BYTES + hash.len_in_bytes();
    let header = bytes.first_chunk::<8>().filter(|_| bytes.len() >= least(4));
    let Some(header) = header else { return Err("commit-graph file is too small".to_owned()) };
    let signature = number_at(bytes, 0).unwrap_or(0);
    let number = if hash == HashKind::Sha256 { 2 } else { 1 };
    if signature != 0x4347_5048 {
        return Err(format!("commit-graph signature {signature:X} does not match signature 43475048"));
    }
    let [.., version, kind, count, _] = *header;
    if version != 1 {
        return Err(format!("commit-graph version {version:X} does not match version 1"));
    }
    if kind != number {
        return Err(format!("commit-graph hash version {kind:X} does not match version {number}"));
    }
    if bytes.len() < least(usize::from(count) + 1) {
        return Err(format!("commit-graph file is too small to hold {count} chunks"));
    }
    let chunks = ChunkTable::read(bytes, 8, count, hash, false)?;
    let missing = |why: &str, name: &str| {
        let why = if why.is_empty() { String::new() } else { format!("{why}\nerror: ") };
        Err(format!("{why}commit-graph required {name} chunk missing or corrupted"))
    };
    let fanout = match chunks.find(b"OIDF") {
        None => return missing("", "OID fanout"),
        Some(fanout) if fanout.len() != FANOUT_BYTES => {
            return missing("commit-graph oid fanout chunk is wrong size", "OID fanout");
        }
        Some(fanout) => fanout,
    };
    if fanout_out_of_order(fanout).is_some() {
        return missing("commit-graph fanout values out of order", "OID fanout");
    }
    let commits = number_at(fanout, FANOUT_BYTES - 4).unwrap_or(0) as usize;
    match chunks.find(b"OIDL") {
        None => return missing("", "OID lookup"),
        Some(ids) if ids.len() / hash.len_in_bytes() != commits => {
            return missing("commit-graph OID lookup chunk is the wrong size", "OID lookup");
        }
        Some(_) => {}
    }
    match chunks.find(b"CDAT") {
        None => missing("", "commit data"),
        Some(data) if data.len() / (hash.len_in_bytes() + 16) != commits => {
            missing("commit-graph commit data chunk is wrong size", "commit data")
        }
        Some(_) => Ok(()),
    }
}

/// Whether the table of corrected dates of a file that passes [`check`] is of the wrong size: git does without it.
pub fn has_wrong_dates(bytes: &[u8], hash: HashKind) -> bool {
    let dates = chunk(bytes, hash, b"GDA2");
    let commits = fanout(bytes, hash).and_then(|fanout| number_at(fanout, FANOUT_BYTES - 4));
    dates.is_some_and(|dates| commits.is_some_and(|commits| dates.len() as u64 != u64::from(commits) * 4))
}

/// The fan-out of a file that passes [`check`].
pub fn fanout(bytes: &[u8], hash: HashKind) -> Option<&[u8]> {
    chunk(bytes, hash, b"OIDF")
}

fn chunk<'a>(bytes: &'a [u8], hash: HashKind, id: &[u8; 4]) -> Option<&'a [u8]> {
    ChunkTable::read(bytes, 8, *bytes.get(6)?, hash, false).ok()?.find(id)
}
