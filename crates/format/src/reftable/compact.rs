//! Merges several tables into one (technical/reftable, "Compaction").

use std::ops::Range;

use super::{
    Deletions, LogRecord, ReftableWriteError, Stack, StackError, Table, TableOptions, Writer, Written,
};

/// Why tables cannot be compacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// A table cannot be read.
    #[error(transparent)]
    Read(#[from] StackError),
    /// The records cannot be written.
    #[error(transparent)]
    Write(#[from] ReftableWriteError),
    /// The range is empty, or exceeds the stack.
    #[error("no tables {} to {} in the stack", .0.start, .0.end)]
    Range(Range<usize>),
}

/// Writes a range of tables as one; the stack lists the oldest first. Deletions are left out if the range
/// starts with the oldest table, because there is nothing left to delete. Log records stay if `keep_log`
/// returns true; it is not called for deletions of log records.
///
/// If nothing is left ([`Written::refs`] and [`Written::logs`] are 0), the range can be dropped without a
/// replacement.
pub fn compact<D: AsRef<[u8]>>(
    tables: &[Table<D>],
    range: Range<usize>,
    options: &TableOptions,
    mut keep_log: impl FnMut(&LogRecord<'_>) -> bool,
    sink: impl FnMut(&[u8]),
) -> Result<Written, CompactError> {
    let first_table = range.start;
    let Some(compacted) = tables.get(range.clone()).filter(|tables| !tables.is_empty()) else {
        return Err(CompactError::Range(range));
    };
    let (mut min_update_index, mut max_update_index) = compacted[0].update_indexes();
    for (min, max) in compacted.iter().map(Table::update_indexes) {
        (min_update_index, max_update_index) = (min_update_index.min(min), max_update_index.max(max));
    }
    let numbered = |mut error: StackError| {
        error.table += first_table;
        error
    };
    let deletions = if first_table == 0 { Deletions::Hide } else { Deletions::Show };
    let stack = Stack::new(compacted);
    let mut writer = Writer::new(options, min_update_index, max_update_index, sink)?;
    let mut refs = stack.refs_from(b"", deletions).map_err(numbered)?;
    while refs.advance().map_err(numbered)? {
        let Some(record) = refs.current() else { break };
        writer.add_ref(&record)?;
    }
    let mut logs = stack.logs(deletions).map_err(numbered)?;
    while logs.advance().map_err(numbered)? {
        let Some(record) = logs.current() else { break };
        if record.change.is_none() || keep_log(&record) {
            writer.add_log(&record)?;
        }
    }
    Ok(writer.finish()?)
}
