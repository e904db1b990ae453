use super::{Ewah, FORMAT};
use crate::{Error, be};

/// The entry is stored whole, so it has no xor row.
pub(super) const NO_XOR: u32 = u32::MAX;

/// commit: u32, offset: u64, xor row: u32.
pub(super) const ROW_BYTES: usize = 16;

/// How far back the base of a difference can be, in entries (gitformat-bitmap).
const MAX_XOR: u8 = 160;

/// commit: u32, xor: u8, flags: u8.
const ENTRY_HEAD_BYTES: usize = 6;

/// An entry's head and a compressed bitmap without words.
const MIN_ENTRY_BYTES: usize = ENTRY_HEAD_BYTES + 12;

/// The commits, bases and offsets of all entries, sorted by the commit's index position.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    /// The lookup table in the file; only its bounds are checked.
    Table { at: usize, len: u32 },
    /// Built by one pass over the entries.
    Indexed(Vec<Row>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// The commit's index position.
    pub(super) position: u32,
    /// The row of the base of this difference, or [`NO_XOR`].
    pub(super) xor_row: u32,
    /// The offset of the entry.
    pub(super) offset: u64,
}

/// The fields at the start of an entry.
pub(super) struct EntryHead {
    pub(super) position: u32,
    /// How many entries back the base of this difference is; 0 if the entry is stored whole.
    pub(super) xor: u8,
}

impl Rows {
    /// Steps over `count` entries, which begin at `at` and must end at `end`.
    pub(super) fn index(
        bytes: &[u8],
        at: usize,
        end: usize,
        count: u32,
        objects: u32,
    ) -> Result<Self, Error> {
        let error = |what, at: usize| Error::new(FORMAT, what, at as u64);
        // The file is long enough to justify the allocation.
        if count as usize > end.saturating_sub(at) / MIN_ENTRY_BYTES {
            return Err(error("more entries than bytes", at));
        }
        let mut rows = Vec::with_capacity(count as usize);
        let mut at = at;
        for number in 0..count {
            let (head, _, next) = parse_entry(bytes, at, end)?;
            if head.position >= objects {
                return Err(error("commit is beyond the index", at));
            }
            let xor_row = match head.xor {
                0 => NO_XOR,
                xor if xor <= MAX_XOR && u32::from(xor) <= number => number - u32::from(xor),
                _ => return Err(error("xor is beyond the first entry", at)),
            };
            rows.push(Row { position: head.position, xor_row, offset: at as u64 });
            at = next;
        }
        if at != end {
            return Err(error("bytes between the entries and what follows", at));
        }
        Ok(Rows::Indexed(sorted_by_position(rows)))
    }

    pub(super) fn len(&self) -> u32 {
        match self {
            Rows::Table { len, .. } => *len,
            Rows::Indexed(rows) => rows.len() as u32,
        }
    }

    #[inline]
    pub(super) fn position(&self, bytes: &[u8], row: usize) -> u32 {
        match self {
            Rows::Table { at, .. } => be::u32_at(bytes, at + row * ROW_BYTES),
            Rows::Indexed(rows) => rows[row].position,
        }
    }

    pub(super) fn row(&self, bytes: &[u8], row: usize) -> Row {
        match self {
            Rows::Table { at, .. } => {
                let at = at + row * ROW_BYTES;
                Row {
                    position: be::u32_at(bytes, at),
                    offset: be::u64_at(bytes, at + 4),
                    xor_row: be::u32_at(bytes, at + 12),
                }
            }
            Rows::Indexed(rows) => rows[row],
        }
    }

    #[inline]
    pub(super) fn find(&self, bytes: &[u8], position: u32) -> Option<usize> {
        let (mut low, mut high) = (0, self.len() as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.position(bytes, middle).cmp(&position) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }
}

/// Reads the entry that begins at `at` and ends before `end`; returns the entry and its end.
pub(super) fn parse_entry(
    bytes: &[u8],
    at: usize,
    end: usize,
) -> Result<(EntryHead, Ewah<'_>, usize), Error> {
    let words_at = at + ENTRY_HEAD_BYTES;
    if words_at > end {
        return Err(Error::new(FORMAT, "entry is cut off", at as u64));
    }
    let head = EntryHead { position: be::u32_at(bytes, at), xor: bytes[at + 4] };
    let (words, next) = Ewah::parse(bytes, words_at, end)?;
    Ok((head, words, next))
}

/// Sorts rows that refer to each other by their numbers in the file.
fn sorted_by_position(rows: Vec<Row>) -> Vec<Row> {
    let mut numbers: Vec<u32> = (0..rows.len() as u32).collect();
    numbers.sort_by_key(|number| rows[*number as usize].position);
    let mut new_numbers = vec![0; rows.len()];
    for (new, old) in (0u32..).zip(&numbers) {
        new_numbers[*old as usize] = new;
    }
    let renumbered = |old: u32| {
        let row = rows[old as usize];
        let xor_row = if row.xor_row == NO_XOR { NO_XOR } else { new_numbers[row.xor_row as usize] };
        Row { xor_row, ..row }
    };
    numbers.into_iter().map(renumbered).collect()
}
