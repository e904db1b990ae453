//! What is wrong with a multi-pack-index that cannot be opened, in git's words.

use std::path::Path;

use packrace_object::HashKind;

use crate::call::fatal::Fatal;

const HEADER_BYTES: usize = 12;
const CHUNK_BYTES: usize = 12;
const FANOUT_BYTES: usize = 1024;

/// An error if git would not open the file. `shown` is its path as git prints it.
pub(super) fn check(bytes: &[u8], shown: &Path, hash: HashKind) -> Result<(), Fatal> {
    let number = if hash == HashKind::Sha256 { 2 } else { 1 };
    let header =
        bytes.first_chunk::<HEADER_BYTES>().filter(|_| bytes.len() >= HEADER_BYTES + hash.len_in_bytes());
    let Some(header) = header else {
        return Err(unparsed(format!("multi-pack-index file {} is too small", shown.display())));
    };
    let signature = number_at(bytes, 0).unwrap_or(0);
    if signature != 0x4d49_4458 {
        return Err(Fatal::new(format!(
            "multi-pack-index signature 0x{signature:08x} does not match signature 0x4d494458"
        )));
    }
    if !matches!(header[4], 1 | 2) {
        return Err(Fatal::new(format!("multi-pack-index version {} not recognized", header[4])));
    }
    if header[5] != number {
        let found = header[5];
        return Err(unparsed(format!(
            "multi-pack-index hash version {found} does not match version {number}"
        )));
    }
    let chunks = table(bytes, header[6], hash)?;
    let chunk = |id: &[u8; 4]| {
        let found = chunks.iter().find(|(other, ..)| *other == u32::from_be_bytes(*id));
        found.and_then(|(_, start, end)| bytes.get(*start..*end))
    };
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
    match header[4] {
        1 => check_names(names, packs),
        _ => Ok(()),
    }
}

/// Ids and ranges of all chunks.
fn table(bytes: &[u8], count: u8, hash: HashKind) -> Result<Vec<(u32, usize, usize)>, Fatal> {
    let mut chunks: Vec<(u32, usize, usize)> = Vec::new();
    let limit = bytes.len().saturating_sub(hash.len_in_bytes()) as u64;
    let entry = |number: usize| {
        let at = HEADER_BYTES + number * CHUNK_BYTES;
        Some((
            number_at(bytes, at)?,
            u64::from(number_at(bytes, at + 4)?) << 32 | u64::from(number_at(bytes, at + 8)?),
        ))
    };
    let cut_off = || unparsed("terminating chunk id appears earlier than expected".to_owned());
    for number in 0..usize::from(count) {
        let (id, start) = entry(number).ok_or_else(cut_off)?;
        let (_, end) = entry(number + 1).ok_or_else(cut_off)?;
        if id == 0 {
            return Err(cut_off());
        }
        if start % 4 != 0 {
            return Err(unparsed(format!("chunk id {id:x} not 4-byte aligned")));
        }
        if end < start || end > limit {
            return Err(unparsed(format!("improper chunk offset(s) {start:x} and {end:x}")));
        }
        if chunks.iter().any(|(other, ..)| *other == id) {
            return Err(unparsed(format!("duplicate chunk ID {id:x} found")));
        }
        chunks.push((id, start as usize, end as usize));
    }
    match entry(usize::from(count)) {
        Some((0, _)) => Ok(chunks),
        Some((id, _)) => Err(unparsed(format!("final chunk has non-zero id {id:x}"))),
        None => Err(cut_off()),
    }
}

/// The number of objects.
fn fanout(chunk: Option<&[u8]>) -> Result<u32, Fatal> {
    let chunk = chunk.ok_or_else(|| missing("OID fanout", None))?;
    if chunk.len() != FANOUT_BYTES {
        return Err(missing(
            "OID fanout",
            Some("multi-pack-index OID fanout is of the wrong size".to_owned()),
        ));
    }
    let count = |byte: usize| number_at(chunk, byte * 4).unwrap_or(0);
    for byte in 1..256 {
        let [before, here] = [count(byte - 1), count(byte)];
        if before > here {
            let words = format!(
                "oid fanout out of order: fanout[{}] = {before:x} > {here:x} = fanout[{byte}]",
                byte - 1
            );
            return Err(missing("OID fanout", Some(words)));
        }
    }
    Ok(count(255))
}

fn check_names(names: &[u8], packs: u32) -> Result<(), Fatal> {
    let mut before: Option<&[u8]> = None;
    let mut rest = names;
    for _ in 0..packs {
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            return Err(Fatal::new("multi-pack-index pack-name chunk is too short"));
        };
        let name = &rest[..end];
        if let Some(before) = before.filter(|before| *before >= name) {
            let [before, name] = [before, name].map(String::from_utf8_lossy);
            return Err(Fatal::new(format!(
                "multi-pack-index pack names out of order: '{before}' before '{name}'"
            )));
        }
        before = Some(name);
        rest = &rest[end + 1..];
    }
    Ok(())
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

fn unparsed(words: String) -> Fatal {
    Fatal::error(format!("{words}\nerror: multi-pack-index file exists, but failed to parse"))
}

/// A required chunk is missing, or not what it should be.
fn missing(name: &str, why: Option<String>) -> Fatal {
    let fatal = Fatal::new(format!("multi-pack-index required {name} chunk missing or corrupted"));
    match why {
        Some(why) => fatal.after(format!("error: {why}\n")),
        None => fatal,
    }
}
