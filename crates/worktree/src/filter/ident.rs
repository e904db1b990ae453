//! `$Id$` in files with the attribute `ident` (gitattributes, "ident").

use std::borrow::Cow;

use packrace_object::{HashKind, Kind};

/// Removes ids from `$Id: … $`.
pub(super) fn to_git(content: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let mut kept = Vec::new();
    let mut from = 0;
    let mut is_changed = false;
    while let Some((start, end)) = expanded(&content, from) {
        kept.extend_from_slice(&content[from..start]);
        kept.extend_from_slice(b"$Id$");
        is_changed = true;
        from = end;
    }
    if !is_changed {
        return content;
    }
    kept.extend_from_slice(&content[from..]);
    Cow::Owned(kept)
}

/// Inserts the blob's id into `$Id$`, and into `$Id: … $` from an earlier expansion. Text with inner spaces
/// comes from another system and stays.
pub(super) fn to_worktree(content: Cow<'_, [u8]>, hash: HashKind) -> Cow<'_, [u8]> {
    let mut text = None;
    let mut made = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(found) = content[at..].windows(3).position(|bytes| bytes == b"$Id") {
        let start = at + found;
        at = start + 3;
        let end = match content.get(at) {
            Some(b'$') => at + 1,
            Some(b':') => match end_of(&content, at) {
                Some(end) if !is_foreign(&content[at + 1..end - 1]) => end,
                Some(_) | None => continue,
            },
            _ => continue,
        };
        let id = text.get_or_insert_with(|| {
            packrace_object::object_id(hash, Kind::Blob, &content)
                .map(|id| id.to_string())
                .unwrap_or_default()
        });
        made.extend_from_slice(&content[from..start]);
        made.extend_from_slice(format!("$Id: {id} $").as_bytes());
        (from, at) = (end, end);
    }
    if from == 0 {
        return content;
    }
    made.extend_from_slice(&content[from..]);
    Cow::Owned(made)
}

fn is_foreign(inside: &[u8]) -> bool {
    inside.len() > 1 && inside[1..inside.len() - 1].contains(&b' ')
}

/// The range of the next `$Id: … $` on one line.
fn expanded(content: &[u8], mut from: usize) -> Option<(usize, usize)> {
    loop {
        let start = from + content[from..].windows(4).position(|bytes| bytes == b"$Id:")?;
        if let Some(end) = end_of(content, start + 3) {
            return Some((start, end));
        }
        from = start + 4;
    }
}

/// The end of the next dollar sign on the same line.
fn end_of(content: &[u8], from: usize) -> Option<usize> {
    let at = from + content[from..].iter().position(|byte| matches!(byte, b'$' | b'\n'))?;
    (content[at] == b'$').then_some(at + 1)
}
