//! Turns what commits introduce into what they reach, and writes the file.

use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use packrace_format::bitmap::{BitmapWriter, Bits};
use packrace_object::Kind;
use packrace_store::{cache_bytes, traced_region};

use super::history::CommitHistory;
use super::introduce::{Introduced, List, Trees};
use super::stored::StoredBitmaps;
use super::{BitOrder, BitmapJob, NoBitmap};
use crate::error::Reason;
use crate::progress::{BitmapTotals, Phase, ProgressSink};
use crate::request_objects::RequestObjects;

/// No more pseudo-merges are added to a file that has so many bytes of them, which are in memory until it is complete.
const MAX_MERGE_BYTES: usize = 256 << 20;

/// Makes the file.
///
/// Bitmaps are made from the oldest commit to the newest. Each merges the bitmaps of the nearest selected
/// ancestors with the lists of the commits between, so a commit is visited for few bitmaps only.
pub(super) fn assemble(
    job: BitmapJob<'_>,
    history: &CommitHistory,
    (selected, merges): (&[u32], &[Vec<u32>]),
    introduced: &Introduced,
    mut stored: Option<StoredBitmaps<'_>>,
) -> Result<Vec<u8>, NoBitmap> {
    let BitmapJob { request_objects, order, options, progress } = job;
    if let Some(stored) = &stored {
        stored.complete(order, introduced)?;
    }
    let kinds = kinds(request_objects, order, introduced)?;
    let first_own = order.first_own();
    let mut writer = BitmapWriter::new(request_objects.hash(), order.checksum(), &kinds);
    drop(kinds);
    let mut reach = ReachedBits {
        order,
        history,
        introduced,
        again: Trees::again(request_objects, order, history),
        entries: HashMap::new(),
        from_ancestors: 0,
        open: BinaryHeap::new(),
    };
    let mut reused = 0;
    for commit in selected {
        if progress.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        let Some(bit) = history.bits[*commit as usize] else { continue };
        let reached = match &mut stored {
            Some(stored) if history.is_stored[*commit as usize] => {
                reused += 1;
                stored.reached(order, bit)?
            }
            stored => reach.of(&[*commit], &writer, stored, Bits::new(order.len()))?,
        };
        reach.entries.insert(*commit, writer.len());
        writer.push(order.position(bit), reached);
        progress.report(Phase::BuildingBitmaps, writer.len() as u64, selected.len() as u64);
    }
    let selected = writer.len() as u64;
    let (pseudo_merges, pseudo_merge_parents) =
        reach.add_pseudo_merges(merges, &mut writer, &mut stored, progress)?;
    let name_hashes = options.name_hashes.then(|| {
        let mut by_position = vec![0; (order.len() - first_own) as usize];
        for (bit, name) in (0u32..).zip(introduced.names()).skip(first_own as usize) {
            by_position[(order.position(bit) - first_own) as usize] = name;
        }
        by_position
    });
    let lookup_table = options.lookup_table;
    progress.bitmaps_made(&BitmapTotals {
        selected,
        reused,
        pseudo_merges,
        pseudo_merge_parents,
        from_ancestors: reach.from_ancestors,
        lookup_table,
    });
    Ok(writer.finish(name_hashes.as_deref(), lookup_table))
}

/// The file's own objects of each kind; objects that no commit reaches are looked up.
fn kinds(
    request_objects: &RequestObjects,
    order: &BitOrder,
    introduced: &Introduced,
) -> Result<[Bits; 4], NoBitmap> {
    let mut reader = request_objects.snapshot().reader(cache_bytes::FEW_OBJECTS);
    let mut kinds = Kind::ALL.map(|_| Bits::new(order.len()));
    for (bit, kind) in (0u32..).zip(&introduced.kinds).skip(order.first_own() as usize) {
        let kind = match Kind::from_pack_type(kind.load(Relaxed)) {
            Some(kind) => kind,
            None => request_objects.kind(&mut reader, order.object(bit))?,
        };
        kinds[kind as usize - 1].set(bit);
    }
    Ok(kinds)
}

struct ReachedBits<'a> {
    order: &'a BitOrder,
    history: &'a CommitHistory,
    introduced: &'a Introduced,
    again: Trees<'a>,
    /// The entries of the file by commit.
    entries: HashMap<u32, usize>,
    /// How many bitmaps of ancestors were merged.
    from_ancestors: u64,
    /// Reached commits to visit, newest first: a bitmap is merged before the commits that it covers are
    /// visited.
    open: BinaryHeap<u32>,
}

impl ReachedBits<'_> {
    /// Adds the bitmaps of pseudo-merges. Returns how many, and how many commits they have.
    fn add_pseudo_merges(
        &mut self,
        merges: &[Vec<u32>],
        writer: &mut BitmapWriter,
        stored: &mut Option<StoredBitmaps<'_>>,
        progress: &dyn ProgressSink,
    ) -> Result<(u64, u64), NoBitmap> {
        if merges.is_empty() {
            return Ok((0, 0));
        }
        let _region = traced_region("pack-bitmap-write", "building_pseudo_merge_bitmaps");
        let entries_end = writer.bytes();
        let (mut written, mut parents) = (0, 0);
        for commits in merges {
            if progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            if writer.bytes() - entries_end > MAX_MERGE_BYTES {
                tracing::warn!(
                    "pseudo-merges above {MAX_MERGE_BYTES} bytes: only {written} of {} are written",
                    merges.len()
                );
                break;
            }
            let reached = self.of(commits, writer, stored, Bits::new(self.order.len()))?;
            let numbers = commits.iter();
            let mut bits: Vec<u32> =
                numbers.filter_map(|commit| self.history.bits[*commit as usize]).collect();
            bits.sort_unstable();
            (written, parents) = (written + 1, parents + bits.len() as u64);
            writer.push_pseudo_merge(bits, &reached);
        }
        Ok((written, parents))
    }

    /// Adds what `commits` reach to `bits`.
    fn of(
        &mut self,
        commits: &[u32],
        writer: &BitmapWriter,
        stored: &mut Option<StoredBitmaps<'_>>,
        mut bits: Bits,
    ) -> Result<Bits, NoBitmap> {
        let history = self.history;
        self.open.extend(commits);
        while let Some(commit) = self.open.pop() {
            let bit = history.bits[commit as usize];
            if bit.is_some_and(|bit| bits.contains(bit)) {
                continue;
            }
            if let Some(entry) = self.entries.get(&commit) {
                writer.or_entry_into(*entry, &mut bits);
                self.from_ancestors += 1;
                continue;
            }
            let bit = bit.expect("what is outside the pack was refused when history was read");
            if let Some(stored) = stored.as_mut().filter(|_| history.is_stored_below(commit)) {
                bits.or_with(&stored.reached(self.order, bit)?);
                self.from_ancestors += 1;
                continue;
            }
            bits.set(bit);
            match self.introduced.of(commit) {
                List::Kept(list) => {
                    for bit in list {
                        bits.set(*bit);
                    }
                }
                List::Dropped => self.again.introduce(commit, &mut |bit| bits.set(bit))?,
            }
            self.open.extend(history.parents(commit));
        }
        Ok(bits)
    }
}
