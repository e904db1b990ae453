//! From a head to bytes.

use packrace_object::{HashKind, TrailerHasher};

use super::{
    FORMAT, FilePlace, Head, MAX_ENTRIES, MAX_GENERATION, MAX_HEAD_BYTES, MAX_RECENT_TOKENS, ObjectKey,
    SIGNATURE, StoredFile, VERSION,
};
use crate::Error;

/// The bytes of a head, unless it is longer than one may be, or comes after the last.
pub fn write(head: &Head) -> Result<Vec<u8>, Error> {
    let too_long = |at: usize| Error::new(FORMAT, "has more than fits into a head", at as u64);
    if head.generation > MAX_GENERATION {
        return Err(Error::new(FORMAT, "no generation comes after the last", 0));
    }
    let mut out = Vec::new();
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&if head.hash == HashKind::Sha256 { 2u32 } else { 1 }.to_be_bytes());
    out.extend_from_slice(&head.generation.to_be_bytes());
    out.extend_from_slice(&head.token.0);
    out.extend_from_slice(&head.floor.to_be_bytes());
    out.extend_from_slice(&head.shrunk.to_be_bytes());
    lists(&mut out, head).ok_or_else(|| too_long(out.len()))?;
    let mut hasher = TrailerHasher::new(HashKind::Sha256);
    hasher.update(&out);
    out.extend_from_slice(hasher.finish().as_bytes());
    match out.len() <= MAX_HEAD_BYTES {
        true => Ok(out),
        false => Err(too_long(MAX_HEAD_BYTES)),
    }
}

/// `None` where a count or a length is above its limit.
fn lists(out: &mut Vec<u8>, head: &Head) -> Option<()> {
    list(out, &head.recent, MAX_RECENT_TOKENS, |out, token| {
        out.extend_from_slice(&token.0);
        Some(())
    })?;
    list(out, &head.config, MAX_ENTRIES, |out, (key, value)| {
        out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_be_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_be_bytes());
        out.extend_from_slice(value);
        Some(())
    })?;
    list(out, &head.shallow, MAX_ENTRIES, |out, id| {
        out.extend_from_slice(id.as_bytes());
        Some(())
    })?;
    list(out, &head.packs, MAX_ENTRIES, |out, pack| {
        out.extend_from_slice(pack.checksum.as_bytes());
        out.push(u8::try_from(pack.files.len()).ok()?);
        for (kind, stored) in &pack.files {
            out.push(kind.number());
            file(out, stored);
        }
        Some(())
    })?;
    list(out, &head.tables, MAX_ENTRIES, |out, table| {
        out.push(u8::try_from(table.name.len()).ok()?);
        out.extend_from_slice(&table.name);
        file(out, &table.file);
        Some(())
    })?;
    list(out, &head.dropped, MAX_ENTRIES, |out, key| {
        object_key(out, *key);
        Some(())
    })
}

fn list<T>(
    out: &mut Vec<u8>,
    entries: &[T],
    most: usize,
    each: impl Fn(&mut Vec<u8>, &T) -> Option<()>,
) -> Option<()> {
    let count = u16::try_from(entries.len()).ok().filter(|count| usize::from(*count) <= most)?;
    out.extend_from_slice(&count.to_be_bytes());
    entries.iter().try_for_each(|entry| each(out, entry))
}

fn file(out: &mut Vec<u8>, file: &StoredFile) {
    out.extend_from_slice(&file.length.to_be_bytes());
    out.extend_from_slice(&file.sha256);
    match &file.place {
        FilePlace::Inline(bytes) => {
            out.push(0);
            out.extend_from_slice(bytes);
        }
        FilePlace::Object { key, offset } => {
            out.push(1);
            object_key(out, *key);
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }
}

fn object_key(out: &mut Vec<u8>, key: ObjectKey) {
    out.extend_from_slice(&key.generation.to_be_bytes());
    out.extend_from_slice(&key.token.0);
}
