//! Refreshing an index: examines all files, and records the metadata of unchanged ones.

use packrace_os::trace;

use super::content::{Comparison, ContentError, Contents};
use super::{EntryKey, Index, Mode, StatData};

/// What to examine, and what not to report.
#[derive(Debug, Clone, Copy, Default)]
pub struct RefreshOptions {
    /// Do not report changes.
    pub quiet: bool,
    /// Do not report conflicts.
    pub allow_unmerged: bool,
    /// Do not report missing files.
    pub ignore_missing: bool,
    /// Do not examine submodules.
    pub ignore_submodules: bool,
    /// Also examine assume-unchanged files.
    pub really: bool,
}

/// Refreshes an index and returns whether there was nothing to report. `say` gets lines such as `<path>:
/// needs update`, in path order.
pub fn refresh(
    index: &mut Index,
    contents: &mut Contents,
    options: &RefreshOptions,
    say: &mut dyn FnMut(&[u8], &'static str),
) -> Result<bool, ContentError> {
    let _region = trace::region("index", "refresh");
    let (mut is_well, mut examined, mut compared) = (true, 0u64, 0u64);
    let mut touched: Vec<(EntryKey, StatData)> = Vec::new();
    let mut broken_promises: Vec<EntryKey> = Vec::new();
    let mut same: Vec<EntryKey> = Vec::new();
    let mut last_unmerged: &[u8] = &[];
    for (key, entry) in index.entries() {
        if options.ignore_submodules && entry.mode == Mode::Gitlink {
            continue;
        }
        if key.stage() > 0 {
            if key.path() != last_unmerged && !options.allow_unmerged {
                say(key.path(), "needs merge");
                is_well = false;
            }
            last_unmerged = key.path();
            continue;
        }
        if entry.skip_worktree
            || entry.assume_valid && !options.really
            || index.is_unchanged(key.path(), entry) && !options.really
        {
            continue;
        }
        examined += 1;
        let found = contents.compare(index, key.path(), entry);
        compared += u64::from(matches!(found, Ok(Comparison::Touched(_) | Comparison::Changed)));
        match found {
            Ok(Comparison::Same) if entry.mode == Mode::Gitlink => {}
            Ok(Comparison::Same) => same.push(key.clone()),
            Ok(Comparison::Touched(seen)) => touched.push((key.clone(), seen.stat)),
            Ok(Comparison::Missing) if options.ignore_missing => {}
            Ok(Comparison::Missing | Comparison::Changed)
            | Err(ContentError::Io { .. } | ContentError::Short(_)) => {
                if entry.assume_valid {
                    broken_promises.push(key.clone());
                }
                if !options.quiet {
                    say(key.path(), "needs update");
                    is_well = false;
                }
            }
            Err(error) => return Err(error),
        }
    }
    trace::data_apart("index", "refresh/sum_lstat", examined);
    trace::data_apart("index", "refresh/sum_scan", compared);
    for (key, stat) in touched {
        index.set_stat(key.path(), key.stage(), stat);
        same.push(key);
    }
    index.trust(&same);
    // They need not be read again when the index is written.
    index.fresh.extend(same);
    for key in broken_promises {
        index.believe_no_more(&key);
    }
    // A rewritten index is newer than those files, which then need not be read again.
    if index.entries().any(|(_, entry)| index.is_racy(entry)) {
        index.mark_changed();
    }
    Ok(is_well)
}
