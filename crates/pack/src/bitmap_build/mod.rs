//! Makes the reachability bitmaps of a pack or of a multi-pack-index.
//!
//! ```text
//! tips ─history→ commits, parents first ─select→ which get a bitmap
//!                     │ introduce: what each commit has that none of its parents has (several threads)
//!                     ▼
//! a commit's bitmap = bitmaps of selected ancestors + what the commits between introduce ─assemble→ file
//! ```
//!
//! Every commit is compared with its parents once, whatever is selected; a bitmap costs only the merging of lists and of
//! earlier bitmaps. Objects that a file says to be reachable are found by reading commits and trees, never taken from
//! a commit-graph: a damaged one must not live on in a file that others believe.
//!
//! Names: gitformat-bitmap. What is selected: docs/decisions/0009-bitmap-selection.md.

mod assemble;
mod history;
mod introduce;
mod order;
mod select;

use packrace_object::ObjectId;

use crate::error::Error;
use crate::universe::Universe;
use crate::watch::{Phase, Watch};

use history::History;
use introduce::Introduced;
pub use order::BitOrder;

/// What a bitmap file is to hold.
#[derive(Debug, Clone)]
pub struct BitmapOptions {
    /// Whether to store the hash of a path of every object (`pack.writeBitmapHashCache`).
    pub name_hashes: bool,
    /// Whether to store a lookup table (`pack.writeBitmapLookupTable`).
    pub lookup_table: bool,
    /// Threads that read commits and trees; at least 1.
    pub threads: usize,
}

impl Default for BitmapOptions {
    /// As git without configuration.
    fn default() -> Self {
        BitmapOptions { name_hashes: true, lookup_table: false, threads: 1 }
    }
}

/// The objects that refs name: commits, tags, trees or blobs. Those that don't lead to commits are passed over.
#[derive(Debug, Clone, Copy, Default)]
pub struct BitmapTips<'a> {
    /// All of them.
    pub refs: &'a [ObjectId],
    /// Those that get a bitmap in any case (`pack.preferBitmapTips`).
    pub preferred: &'a [ObjectId],
}

/// What [`build`] has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltBitmap {
    /// The bytes of the file.
    File(Vec<u8>),
    /// Nothing: a commit reaches this object, which the pack does not hold. Git says so with [`not_closed_warning`].
    NotClosed(ObjectId),
}

/// What git prints, after `warning: `, when [`BuiltBitmap::NotClosed`] names an object.
pub fn not_closed_warning(missing: &ObjectId) -> String {
    format!("Failed to write bitmap index. Packfile doesn't have full closure (object {missing} is missing)")
}

/// Makes the bitmap file for the pack or multi-pack-index whose objects `order` names.
///
/// Objects are read from `universe`; the pack itself need not be a part of it. Takes about 30 bytes an object, 150 a
/// commit, and the file.
pub fn build(
    universe: &Universe,
    order: &BitOrder,
    tips: BitmapTips<'_>,
    options: &BitmapOptions,
    watch: &dyn Watch,
) -> Result<BuiltBitmap, Error> {
    match try_build(universe, order, tips, options, watch) {
        Ok(file) => Ok(BuiltBitmap::File(file)),
        Err(Stop::NotClosed(id)) => Ok(BuiltBitmap::NotClosed(id)),
        Err(Stop::Error(error)) => Err(error),
    }
}

fn try_build(
    universe: &Universe,
    order: &BitOrder,
    tips: BitmapTips<'_>,
    options: &BitmapOptions,
    watch: &dyn Watch,
) -> Result<Vec<u8>, Stop> {
    let history = History::load(universe, order, tips, options.threads, watch)?;
    let selected = select::select(&history);
    watch.progress(Phase::SelectingBitmaps, selected.len() as u64, 0);
    let introduced = Introduced::find(universe, order, &history, &selected, options.threads, watch)?;
    assemble::assemble(universe, order, &history, &selected, introduced, options, watch)
}

/// Why there is no file.
#[derive(Debug)]
enum Stop {
    NotClosed(ObjectId),
    Error(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Error(error.into())
    }
}

#[cfg(test)]
mod tests;
