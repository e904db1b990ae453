//! A stack's list of tables, their names, and which ones to compact (technical/reftable, "Layout" and
//! "Compaction").

use std::fmt;
use std::ops::Range;

use crate::Error;

const FORMAT: &str = "tables.list";

/// The default of `reftable.geometricFactor`.
pub const DEFAULT_FACTOR: u16 = 2;

/// The highest `reftable.geometricFactor`.
pub const MAX_FACTOR: u16 = 255;

/// Reads `tables.list`: the names of tables, oldest first. Any file name in the same directory is valid,
/// because the document only suggests a form; see [`TableName`] for git's.
pub fn parse_list(bytes: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut names: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    // The last line feed is followed by nothing, or by a line without one.
    for line in bytes.split(|byte| *byte == b'\n') {
        let bad = |what| Err(Error::new(FORMAT, what, at as u64));
        let is_last = at + line.len() == bytes.len();
        match line {
            b"" if is_last => break,
            b"" => return bad("line is empty"),
            b"." | b".." => return bad("line names no table"),
            _ if line.iter().any(|byte| matches!(byte, b'/' | 0)) => return bad("line names no table"),
            _ => names.push(line),
        }
        at += line.len() + 1;
    }
    let mut sorted = names.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(names),
        Some(twice) => {
            let offset = memchr::memmem::rfind(bytes, twice[0]).unwrap_or_default();
            Err(Error::new(FORMAT, "table is named twice", offset as u64))
        }
    }
}

/// Writes `tables.list`; `names` are oldest first.
pub fn format_list<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Vec<u8> {
    let mut list = Vec::new();
    for name in names {
        list.extend_from_slice(name.as_ref());
        list.push(b'\n');
    }
    list
}

/// Git's name for a table, `0x%012x-0x%012x-%08x.ref`; [`fmt::Display`] writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableName {
    /// The first update in the table.
    pub min_update_index: u64,
    /// The last update in the table.
    pub max_update_index: u64,
    /// Random, so that no name is used twice.
    pub random: u32,
}

impl TableName {
    /// Parses a name; `None` if it has another form, which is valid.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut parts = name.strip_suffix(b".ref")?.splitn(3, |byte| *byte == b'-');
        let mut index = || hex(parts.next()?.strip_prefix(b"0x")?, 12..=16);
        let (min_update_index, max_update_index) = (index()?, index()?);
        let random = u32::try_from(hex(parts.next()?, 8..=8)?).ok()?;
        let name = TableName { min_update_index, max_update_index, random };
        (min_update_index <= max_update_index).then_some(name)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableName { min_update_index, max_update_index, random } = self;
        write!(out, "0x{min_update_index:012x}-0x{max_update_index:012x}-{random:08x}.ref")
    }
}

fn hex(digits: &[u8], lengths: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let is_hex = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    // More than 12 digits only if needed.
    let is_minimal = digits.len() <= *lengths.start() || digits[0] != b'0';
    let text = std::str::from_utf8(digits).ok().filter(|_| is_hex && is_minimal)?;
    lengths.contains(&digits.len()).then(|| u64::from_str_radix(text, 16).ok())?
}

/// Which tables to merge so that every table is at least `factor` times as large as the next newer one;
/// `None` if they already are. `sizes` are the [`super::Table::content_bytes`] of the tables, oldest first.
/// Factors below 2 count as 2.
///
/// The newest pair that breaks the rule is merged, with all older tables down to the last one that is too
/// small for the possible size of the result.
pub fn geometric(sizes: &[u64], factor: u16) -> Option<Range<usize>> {
    let factor = u128::from(factor.max(DEFAULT_FACTOR));
    let is_too_small = |older: u64, newer: u128| u128::from(older) < newer * factor;
    let newest = (1..sizes.len()).rev().find(|at| is_too_small(sizes[at - 1], sizes[*at].into()))?;
    let mut start = newest;
    let mut merged = u128::from(sizes[newest]);
    for (at, size) in sizes[..newest].iter().enumerate().rev() {
        if is_too_small(*size, merged) {
            start = at;
        }
        merged += u128::from(*size);
    }
    Some(start..newest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_list(list: &str, expect: Result<&[&str], (&str, u64)>) {
        let found = parse_list(list.as_bytes());
        let found =
            found.map(|names| names.iter().map(|name| str::from_utf8(name).unwrap()).collect::<Vec<_>>());
        match (found, expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found, expect, "{list:?}");
                let ended = if list.is_empty() || list.ends_with('\n') { "" } else { "\n" };
                assert_eq!(format_list(expect), [list, ended].concat().into_bytes());
            }
            (Err(error), Err(expect)) => assert_eq!((error.what, error.offset), expect, "{list:?}"),
            (found, expect) => panic!("{list:?}: {found:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn lists() {
        check_list("", Ok(&[]));
        check_list("a.ref\n", Ok(&["a.ref"]));
        check_list("a.ref\nb.log", Ok(&["a.ref", "b.log"]));
        check_list("\n", Err(("line is empty", 0)));
        check_list("a\n\nb\n", Err(("line is empty", 2)));
        check_list("a\nb/c\n", Err(("line names no table", 2)));
        check_list("a\nb\0c\n", Err(("line names no table", 2)));
        check_list("..\n", Err(("line names no table", 0)));
        check_list("a\n.\n", Err(("line names no table", 2)));
        check_list("ab\nb\nab\n", Err(("table is named twice", 5)));
    }

    #[test]
    fn names() {
        for (text, expect) in [
            ("0x000000000001-0x00000000000a-deadbeef.ref", Some((1, 10, 0xdead_beef))),
            ("0xffffffffffffffff-0xffffffffffffffff-00000000.ref", Some((u64::MAX, u64::MAX, 0))),
            ("0x000000000002-0x000000000001-00000000.ref", None),
            ("0x0000000000001-0x0000000000001-00000000.ref", None),
            ("0x00000000001-0x00000000001-00000000.ref", None),
            ("0x10000000000000000-0x10000000000000000-00000000.ref", None),
            ("0x000000000001-0x000000000001-000000000.ref", None),
            ("0x000000000001-0x000000000001-0000000G.ref", None),
            ("0x00000000000A-0x00000000000A-00000000.ref", None),
            ("0x000000000001-0x000000000001-00000000-1.ref", None),
            ("0x000000000001-0x000000000001-00000000.log", None),
            ("0x000000000001-0x000000000001.ref", None),
            ("0x+00000000001-0x000000000001-00000000.ref", None),
            ("", None),
        ] {
            let name = TableName::parse(text.as_bytes());
            let found = name.map(|name| (name.min_update_index, name.max_update_index, name.random));
            assert_eq!(found, expect, "{text}");
            assert!(name.is_none_or(|name| name.to_string() == text));
        }
    }

    #[test]
    fn geometric_sequences() {
        for (sizes, factor, expect) in [
            (&[][..], 2, None),
            (&[5], 2, None),
            (&[8, 4, 2, 1], 2, None),
            (&[8, 4, 2, 2], 2, Some(0..4)),
            (&[100, 4, 2, 2], 2, Some(1..4)),
            (&[100, 16, 4, 1], 4, None),
            (&[100, 16, 4, 2], 4, Some(1..4)),
            (&[80, 16, 4, 2], 4, Some(0..4)),
            (&[1000, 4, 2, 2], 256, Some(0..4)),
            (&[10_000, 4, 2, 2], 256, Some(1..4)),
            (&[1, 100], 2, Some(0..2)),
            (&[64, 17, 16, 8, 4, 2], 2, Some(0..3)),
            (&[u64::MAX, u64::MAX], 256, Some(0..2)),
            (&[0, 0, 0], 2, None),
        ] {
            assert_eq!(geometric(sizes, factor), expect, "{sizes:?}");
        }
    }

    #[test]
    fn what_is_left_is_geometric() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut number = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let count = number() % 12;
            let sizes: Vec<u64> = (0..count).map(|_| (1 << (number() % 12)) + number() % 64).collect();
            let factor = 2 + (number() % 3) as u16;
            let mut left = sizes.clone();
            if let Some(range) = geometric(&sizes, factor) {
                assert!(range.len() >= 2);
                let merged = left[range.clone()].iter().sum();
                left.splice(range, [merged]);
            }
            let is_geometric = left.windows(2).all(|pair| pair[0] >= pair[1] * u64::from(factor));
            assert!(is_geometric, "{sizes:?} {left:?}");
        }
    }
}
