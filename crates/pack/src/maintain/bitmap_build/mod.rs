//! Makes the reachability bitmaps of a pack or of a multi-pack-index.
//!
//! ```text
//! tips ─history→ commits, parents first ─select→ which get a bitmap
//!                     │ introduce: what each commit has that none of its parents has (several threads)
//!                     ▼
//! a commit's bitmap = bitmaps of selected ancestors + what the commits between introduce ─assemble→ file
//! ```
//!
//! Existing bitmaps are reused; history is compared only down to the commits that they cover.
//!
//! Every commit is compared with its parents once, whatever is selected; a bitmap costs only merging lists
//! and earlier bitmaps. Objects are found by reading commits and trees, never from a commit-graph: its damage
//! must not spread to a file that readers trust.
//!
//! Terms: gitformat-bitmap. Selection: docs/decisions/0009-bitmap-selection.md.

mod assemble;
mod history;
mod introduce;
mod order;
mod pseudo_merges;
mod select;
mod stored;

use packrace_object::ObjectId;

use crate::error::{Error, Reason};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::RequestObjects;

use history::CommitHistory;
use introduce::Introduced;
pub use order::BitOrder;
pub use pseudo_merges::{PseudoMergeGroup, PseudoMergeRule};
use stored::StoredBitmaps;

/// If the lists of what commits introduce hold more entries per object, they are not kept, but made again for
/// each bitmap that needs them.
const LISTED_AN_OBJECT: u64 = 8;

/// What a bitmap file contains.
#[derive(Debug, Clone)]
pub struct BitmapOptions {
    /// Whether to store the hash of a path of every object (`pack.writeBitmapHashCache`).
    pub name_hashes: bool,
    /// Whether to reuse the bitmaps of the request's objects, converted to the new order.
    pub reuse: bool,
    /// Whether to store a lookup table (`pack.writeBitmapLookupTable`).
    pub lookup_table: bool,
    /// Whether a multi-pack-index gets a reverse index beside it, too (`GIT_TEST_MIDX_WRITE_REV`).
    pub reverse_file: bool,
    /// Threads that read commits and trees; at least 1.
    pub threads: usize,
}

impl Default for BitmapOptions {
    /// Git's defaults.
    fn default() -> Self {
        BitmapOptions { name_hashes: true, reuse: true, lookup_table: false, reverse_file: false, threads: 1 }
    }
}

/// The targets of refs: commits, tags, trees or blobs; those that don't lead to commits are skipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct BitmapTips<'a> {
    /// All of them.
    pub refs: &'a [ObjectId],
    /// Those that always get a bitmap (`pack.preferBitmapTips`).
    pub preferred: &'a [ObjectId],
    /// Those that get bitmaps together (`bitmapPseudoMerge`).
    pub groups: &'a [PseudoMergeGroup],
}

/// The result of [`build`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltBitmap {
    /// The bytes of the file.
    File(Vec<u8>),
    /// No file: a commit reaches this object, which the pack lacks. Git prints [`not_closed_warning`].
    NotClosed(ObjectId),
    /// No file, and [`build`] has logged it: the repository is shallow. Stock git writes bitmaps in shallow
    /// repositories. They become wrong once the history is deepened: clones then lack objects that the
    /// bitmaps leave out.
    Shallow,
}

/// Git's message, after `warning: `, for [`BuiltBitmap::NotClosed`].
pub fn not_closed_warning(missing: &ObjectId) -> String {
    format!("Failed to write bitmap index. Packfile doesn't have full closure (object {missing} is missing)")
}

/// Makes the bitmap file for the pack or multi-pack-index whose objects are in `order`.
///
/// Objects are read from `request_objects`; the pack itself need not be part of it. Takes about 30 bytes per
/// object, 150 per commit, and the size of the file.
pub fn build(
    request_objects: &RequestObjects,
    order: &BitOrder,
    tips: BitmapTips<'_>,
    options: &BitmapOptions,
    progress: &dyn ProgressSink,
) -> Result<BuiltBitmap, Error> {
    if !request_objects.snapshot().shallow()?.is_empty() {
        tracing::warn!("disabling bitmap writing, as the history is shallow");
        return Ok(BuiltBitmap::Shallow);
    }
    let stored = if options.reuse { StoredBitmaps::open(request_objects, order) } else { None };
    let job = BitmapJob { request_objects, order, options, progress };
    let mut result = try_build(job, tips, stored);
    if let Err(NoBitmap::DamagedBitmap) = result {
        result = try_build(job, tips, None);
    }
    match result {
        Ok(file) => Ok(BuiltBitmap::File(file)),
        Err(NoBitmap::NotClosed(id)) => Ok(BuiltBitmap::NotClosed(id)),
        Err(NoBitmap::DamagedBitmap) => unreachable!("none was asked"),
        Err(NoBitmap::Error(error)) => Err(error),
    }
}

/// The input of all steps.
#[derive(Clone, Copy)]
struct BitmapJob<'a> {
    request_objects: &'a RequestObjects,
    order: &'a BitOrder,
    options: &'a BitmapOptions,
    progress: &'a dyn ProgressSink,
}

fn try_build(
    job: BitmapJob<'_>,
    tips: BitmapTips<'_>,
    stored: Option<StoredBitmaps<'_>>,
) -> Result<Vec<u8>, NoBitmap> {
    let BitmapJob { request_objects, order, options, progress } = job;
    let mut history = CommitHistory::load(request_objects, order, tips, options.threads, progress)?;
    if let Some(stored) = &stored {
        stored.mark(order, &mut history);
    }
    let selected = select::select(&history);
    progress.report(Phase::SelectingBitmaps, u64::from(history.len()), 0);
    let merges = pseudo_merges::choose(&history.groups, &|commit| history.is_own(commit), &selected);
    let limit = u64::from(order.len()) * LISTED_AN_OBJECT + (1 << 20);
    let introduced = Introduced::find(job, &history, &selected, &merges.concat(), limit)?;
    assemble::assemble(job, &history, (&selected, &merges), &introduced, stored)
}

/// Why there is no file.
#[derive(Debug)]
enum NoBitmap {
    NotClosed(ObjectId),
    /// A bitmap of the request's objects turned out to be unusable.
    DamagedBitmap,
    Error(Error),
}

impl From<Error> for NoBitmap {
    fn from(error: Error) -> Self {
        NoBitmap::Error(error)
    }
}

impl From<Reason> for NoBitmap {
    fn from(reason: Reason) -> Self {
        NoBitmap::Error(reason.into())
    }
}

#[cfg(test)]
mod tests;
