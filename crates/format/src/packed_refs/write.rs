use packrace_object::{ObjectId, oid};

use super::{PackedRef, PackedRefs, Peeled};
use crate::Error;

/// Git's header, including the space before the line feed.
const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// The new value of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// Its new object and peeled object; `None` removes the ref. [`Peeled::Unknown`] is not written.
    pub value: Option<(ObjectId, Peeled)>,
}

/// Why a file could not be rewritten.
#[derive(Debug, PartialEq, Eq)]
pub enum RewriteError<E> {
    /// The old file is damaged.
    Damaged(Error),
    /// A caller's function failed.
    Caller(E),
}

impl<E> From<Error> for RewriteError<E> {
    fn from(error: Error) -> Self {
        RewriteError::Damaged(error)
    }
}

/// Writes the file `old` with `edits` to `sink`; edits are sorted by name and name each ref once.
///
/// Everything between edits is copied without parsing lines, unless the old file lacks traits that the new
/// header claims: then every ref is written anew, and `peel` is called for refs that the old file does not
/// peel.
pub fn rewrite<D: AsRef<[u8]>, E>(
    old: Option<&PackedRefs<D>>,
    edits: &[Edit<'_>],
    peel: &mut dyn FnMut(&oid) -> Result<Peeled, E>,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), RewriteError<E>> {
    debug_assert!(edits.is_sorted_by(|a, b| a.name < b.name), "sorted, each once");
    // With its first peeled tag, a file is believed to have peeled all others.
    let adds_tag = edits.iter().any(|edit| matches!(edit.value, Some((_, Peeled::To(_)))));
    let must_peel = |old: &PackedRefs<D>| adds_tag && !old.is_believed();
    let mut sink = |bytes: &[u8]| sink(bytes).map_err(RewriteError::Caller);
    let mut line = Vec::new();
    sink(HEADER)?;
    match old {
        None => {
            for edit in edits {
                add(edit, &mut line, &mut sink)?;
            }
        }
        Some(old) if old.traits.is_fully_peeled && !must_peel(old) && old.order.is_none() => {
            let (mut at, bytes) = (old.traits.start, old.data.as_ref());
            for edit in edits {
                let found = old.traits.search(bytes, edit.name)?.max(at);
                sink(&bytes[at..found])?;
                at = match found < bytes.len() {
                    true => {
                        let (there, next) = old.parse(found)?;
                        if there.name == edit.name { next } else { found }
                    }
                    false => found,
                };
                add(edit, &mut line, &mut sink)?;
            }
            sink(&bytes[at..])?;
        }
        Some(old) => {
            let mut edits = edits.iter().peekable();
            let mut last: Option<&[u8]> = None;
            for found in old.iter_from(b"") {
                let PackedRef { name, id, peeled } = found?;
                let (id, mut peeled) = (id.to_id(), peeled.to_id());
                // An unsorted file may contain a ref twice.
                if last.replace(name) == Some(name) {
                    continue;
                }
                let mut is_edited = false;
                while let Some(edit) = edits.next_if(|edit| edit.name <= name) {
                    is_edited = edit.name == name;
                    add(edit, &mut line, &mut sink)?;
                }
                if is_edited {
                    continue;
                }
                if peeled == Peeled::Unknown {
                    peeled = peel(&id).map_err(RewriteError::Caller)?;
                }
                add(&Edit { name, value: Some((id, peeled)) }, &mut line, &mut sink)?;
            }
            for edit in edits {
                add(edit, &mut line, &mut sink)?;
            }
        }
    }
    Ok(())
}

fn add<E>(
    edit: &Edit<'_>,
    line: &mut Vec<u8>,
    sink: &mut impl FnMut(&[u8]) -> Result<(), RewriteError<E>>,
) -> Result<(), RewriteError<E>> {
    let Some((id, peeled)) = edit.value else { return Ok(()) };
    line.clear();
    add_hex(&id, line);
    line.push(b' ');
    line.extend_from_slice(edit.name);
    line.push(b'\n');
    if let Peeled::To(tagged) = peeled {
        line.push(b'^');
        add_hex(&tagged, line);
        line.push(b'\n');
    }
    sink(line)
}

fn add_hex(id: &oid, line: &mut Vec<u8>) {
    let mut hex = [0; 64];
    line.extend_from_slice(id.hex_to_buf(&mut hex).as_bytes());
}

#[cfg(test)]
mod tests {
    use packrace_object::HashKind;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const FULL: &str = "# pack-refs with: peeled fully-peeled sorted \n";

    fn id(hex: &str) -> ObjectId {
        ObjectId::from_hex(hex.as_bytes()).unwrap()
    }

    /// `edits`: a name to set, a name after `-` to remove, a name after `^` to set to a tag.
    fn check(header: &str, old: &str, edits: &[&str], expect: &str) {
        let old = format!("{header}{old}").replace("A ", &format!("{A} ")).replace("^B", &format!("^{B}"));
        let old = PackedRefs::open(old.into_bytes(), HashKind::Sha1).unwrap();
        let edits = edits.iter().map(|edit| match edit.as_bytes() {
            [b'-', name @ ..] => Edit { name, value: None },
            [b'^', name @ ..] => Edit { name, value: Some((id(B), Peeled::To(id(A)))) },
            name => Edit { name, value: Some((id(B), Peeled::NotATag)) },
        });
        let edits: Vec<Edit<'_>> = edits.collect();
        let mut new = Vec::new();
        let mut sink = |bytes: &[u8]| -> Result<(), ()> {
            new.extend_from_slice(bytes);
            Ok(())
        };
        rewrite(Some(&old), &edits, &mut |_| Ok(Peeled::To(id(B))), &mut sink).unwrap();
        let new = String::from_utf8(new).unwrap();
        let short = new.strip_prefix(FULL).unwrap().replace(A, "A").replace(B, "B");
        assert_eq!(short, expect, "{edits:?}");
    }

    #[test]
    fn edits_are_made_in_order() {
        let old = "A refs/heads/a\nA refs/other/c\n^B\nA refs/tags/t\n";
        for (header, peeled) in [(FULL, ""), ("", "^B\n")] {
            let a = format!("A refs/heads/a\n{peeled}");
            let t = format!("A refs/tags/t\n{peeled}");
            let check = |edits: &[&str], expect: String| check(header, old, edits, &expect);
            check(&[], format!("{a}A refs/other/c\n^B\n{t}"));
            check(&["refs/heads/b"], format!("{a}B refs/heads/b\nA refs/other/c\n^B\n{t}"));
            check(&["refs/other/c"], format!("{a}B refs/other/c\n{t}"));
            check(&["-refs/other/c", "-refs/other/d"], format!("{a}{t}"));
            check(&["-refs/heads/a", "-refs/other/c", "-refs/tags/t"], String::new());
            check(
                &["^refs/a", "refs/heads/a", "^refs/tags/u"],
                format!("B refs/a\n^A\nB refs/heads/a\nA refs/other/c\n^B\n{t}B refs/tags/u\n^A\n"),
            );
        }
    }

    #[test]
    fn a_first_tag_lets_all_be_peeled() {
        let old = "A refs/heads/a\nA refs/tags/t\n";
        check(FULL, old, &["refs/tags/u"], "A refs/heads/a\nA refs/tags/t\nB refs/tags/u\n");
        let new = "A refs/heads/a\nA refs/tags/t\n^B\nB refs/tags/u\n^A\n";
        check(FULL, old, &["^refs/tags/u"], new);
    }

    #[test]
    fn a_first_file_is_written() {
        let edits = [Edit { name: b"refs/heads/a", value: Some((id(A), Peeled::NotATag)) }];
        let mut new = Vec::new();
        let mut sink = |bytes: &[u8]| -> Result<(), ()> {
            new.extend_from_slice(bytes);
            Ok(())
        };
        let old: Option<&PackedRefs<Vec<u8>>> = None;
        rewrite(old, &edits, &mut |_| Ok(Peeled::Unknown), &mut sink).unwrap();
        assert_eq!(new, format!("{FULL}{A} refs/heads/a\n").into_bytes());
    }
}
