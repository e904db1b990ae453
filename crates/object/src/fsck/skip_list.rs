//! Objects that are known to be broken and accepted anyway (git-config, `fsck.skipList`).

use std::collections::HashSet;

use crate::{HashKind, ObjectId, oid};

/// A line that is not an object id; the text is git's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid object name: {0}")]
pub struct InvalidName(String);

/// Ids of objects without findings.
#[derive(Debug, Clone, Default)]
pub struct SkipList(HashSet<ObjectId>);

impl SkipList {
    /// Adds the content of a file, one id per line. Comments (`#`), blank lines and surrounding space are
    /// ignored. Takes at most a small multiple of the file's length in memory.
    pub fn add(&mut self, file: &[u8], hash: HashKind) -> Result<(), InvalidName> {
        for line in file.split(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| matches!(byte, b'#' | 0)).unwrap_or(line.len());
            let name = trimmed(&line[..end]);
            if name.is_empty() {
                continue;
            }
            let id = Some(name).filter(|name| name.len() == hash.len_in_hex());
            let id = id.and_then(|name| ObjectId::from_hex(name).ok());
            self.0.insert(id.ok_or_else(|| InvalidName(String::from_utf8_lossy(name).into_owned()))?);
        }
        Ok(())
    }

    /// Whether this object is on the list.
    pub fn contains(&self, id: &oid) -> bool {
        self.0.contains(id)
    }
}

/// Trims git's space, which excludes vertical tabs and form feeds.
fn trimmed(mut line: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    while let Some(rest) = line.split_first().filter(|(first, _)| is_space(first)) {
        line = rest.1;
    }
    while let Some(rest) = line.split_last().filter(|(last, _)| is_space(last)) {
        line = rest.1;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[track_caller]
    fn check(file: &str, expect: Result<usize, &str>) {
        let mut list = SkipList::default();
        let got = list.add(file.as_bytes(), HashKind::Sha1).map_err(|error| error.to_string());
        assert_eq!(got.map(|()| list.0.len()), expect.map_err(str::to_owned), "{file:?}");
        if expect == Ok(1) {
            assert!(list.contains(&HashKind::Sha1.empty_tree()));
        }
    }

    /// How git 2.47 treats each.
    #[test]
    fn lines() {
        check("", Ok(0));
        for good in [
            format!("{ID}\n"),
            ID.to_owned(),
            format!("  {ID} \t\r\n"),
            format!("# x\n\n \n{ID}#foo\n{ID} # x\n"),
            format!("{}\n", ID.to_uppercase()),
            format!("{ID}\0x\n"),
        ] {
            check(&good, Ok(1));
        }
        check("foo # bar\n", Err("invalid object name: foo"));
        check(&format!("{ID} x\n"), Err(&format!("invalid object name: {ID} x")));
        check(&format!("{ID}0\n"), Err(&format!("invalid object name: {ID}0")));
        check(&format!("{}\n", &ID[1..]), Err(&format!("invalid object name: {}", &ID[1..])));
        check(&format!("{ID}\x0b\n"), Err(&format!("invalid object name: {ID}\x0b")));
        assert!(SkipList::default().add(ID.as_bytes(), HashKind::Sha256).is_err());
    }
}
