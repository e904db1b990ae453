//! Makes the changed-path filters of a commit-graph file (gitformat-commit-graph, "Bloom Filter Index").
//!
//! ```text
//! rows in order ─choose→ kept from the present files, or compared with the first parent ─several threads→ filters
//! ```

mod changed_paths;
mod high_bytes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use packrace_format::commit_graph::{
    ArrangedCommits, CommitGraph, FilterSettings, FirstParent, MAX_CHANGED_PATHS, PathFilters, PathHash,
};
use packrace_object::ObjectId;

use super::history::CommitReader;
use crate::error::{Error, Reason};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::threads::on_threads;
use changed_paths::ChangedPaths;
use high_bytes::HighBytes;

/// Commits that a thread takes at a time: enough for their trees to share delta bases.
const STRETCH: usize = 256;

/// Which changed-path filters a new commit-graph gets.
#[derive(Debug, Clone)]
pub struct FilterRequest {
    /// Whether there are filters; `None`: if the present commit-graph has them.
    pub wanted: Option<bool>,
    /// The hash of new filters; `None`: that of the present filters, or version 1.
    pub hash: Option<PathHash>,
    /// The other settings of filters where there are none yet.
    pub fresh: FreshFilters,
    /// Whether present filters are used.
    pub uses_present: bool,
    /// How many filters are computed at most; commits beyond get none.
    pub max_new: Option<u64>,
    /// Whether the first tips are the first commits that get filters; otherwise the oldest commits.
    pub in_order_of_tips: bool,
    /// Threads that compare trees; at least 1.
    pub threads: usize,
    /// The deepest tree that is compared.
    pub max_tree_depth: usize,
}

/// Settings that the tests of git change; what is `None` is as usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct FreshFilters {
    /// The number of bits that a path sets.
    pub hashes: Option<u32>,
    /// The number of bits that a filter has for each path.
    pub bits: Option<u32>,
    /// The most paths that a filter describes; not above the usual.
    pub max_paths: Option<usize>,
}

/// What was done for the filters of a file.
#[derive(Debug, Clone)]
pub struct FilterCounts {
    /// Their settings.
    pub settings: FilterSettings,
    /// The most paths that a new one describes.
    pub max_paths: usize,
    /// Computed ones.
    pub computed: usize,
    /// Commits whose filter was neither computed nor upgraded: it was there, or it is still missing.
    pub not_computed: usize,
    /// Computed ones of commits without changes.
    pub empty: usize,
    /// Computed ones of commits with more changes than a filter describes.
    pub large: usize,
    /// Those of another version of the hash that serve as they are.
    pub upgraded: usize,
}

impl FilterRequest {
    /// The settings of the new filters, and the most paths that one describes; `None` if there are none.
    fn settings<D: AsRef<[u8]>>(&self, present: Option<&CommitGraph<D>>) -> Option<(FilterSettings, usize)> {
        let present = present.filter(|_| self.uses_present).and_then(CommitGraph::filter_settings);
        if !self.wanted.unwrap_or(present.is_some()) {
            return None;
        }
        let usual = FilterSettings::new(PathHash::SignedBytes);
        let FreshFilters { hashes, bits, max_paths } = self.fresh;
        let (settings, max_paths) = match present {
            Some(settings) => (settings, None),
            None => {
                let (hashes, bits) = (hashes.unwrap_or(usual.hashes), bits.unwrap_or(usual.bits));
                (usual.with_numbers(hashes, bits), max_paths)
            }
        };
        let settings = FilterSettings { hash: self.hash.unwrap_or(settings.hash), ..settings };
        Some((settings, max_paths.unwrap_or(MAX_CHANGED_PATHS).min(MAX_CHANGED_PATHS)))
    }
}

/// The input of all steps.
struct FilterJob<'a, D> {
    request_objects: &'a RequestObjects,
    request: &'a FilterRequest,
    settings: FilterSettings,
    max_paths: usize,
    commits: &'a ArrangedCommits<'a, D>,
    present: Option<&'a CommitGraph<D>>,
    tips: &'a [ObjectId],
    progress: &'a dyn ProgressSink,
}

/// A commit to compare with its first parent.
struct CommitTrees {
    row: usize,
    /// The trees; `None` is the empty tree.
    old: Option<ObjectNo>,
    new: Option<ObjectNo>,
}

/// The filter of a row.
type RowFilter = (usize, Box<[u8]>);

/// Keeps or computes the filters of all rows; `None` if none are wanted. `present` are the present files, and
/// `tips` where history was entered.
pub(super) fn compute<D: AsRef<[u8]> + Sync>(
    request_objects: &RequestObjects,
    request: &FilterRequest,
    tips: &[ObjectId],
    commits: &ArrangedCommits<'_, D>,
    present: Option<&CommitGraph<D>>,
    progress: &dyn ProgressSink,
) -> Result<Option<(PathFilters, FilterCounts)>, Error> {
    let Some((settings, max_paths)) = request.settings(present) else { return Ok(None) };
    let job = FilterJob { request_objects, request, settings, max_paths, commits, present, tips, progress };
    let total = commits.len();
    let mut filters = vec![Box::default(); total];
    progress.report(Phase::ComputingFilters, 0, total as u64);
    let (mut comparisons, upgraded) = job.choose(&mut filters)?;
    let (computed, mut empty, mut large) = (comparisons.len(), 0, 0);
    // Neighbours in a pack share delta bases.
    comparisons.sort_by_cached_key(|comparison| {
        let packed = comparison.new.and_then(|tree| request_objects.packed(tree));
        packed.map(|packed| {
            let at = request_objects.snapshot().locate(packed);
            (at.pack.0, at.offset)
        })
    });
    for (row, filter) in job.compare(&comparisons)? {
        empty += usize::from(filter == FilterSettings::filter_of_none());
        large += usize::from(filter == FilterSettings::filter_of_many());
        filters[row] = filter;
    }
    progress.report(Phase::ComputingFilters, total as u64, total as u64);
    let not_computed = total - computed - upgraded;
    let counts = FilterCounts { settings, max_paths, computed, not_computed, empty, large, upgraded };
    Ok(Some((PathFilters { settings, filters }, counts)))
}

impl<D: AsRef<[u8]> + Sync> FilterJob<'_, D> {
    /// Copies filters that the present files have, and returns the commits that need a new one, and how many of those copied
    /// were of another version.
    fn choose(&self, filters: &mut [Box<[u8]>]) -> Result<(Vec<CommitTrees>, usize), Error> {
        let max_new =
            self.request.max_new.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let (mut comparisons, mut upgraded) = (Vec::new(), 0);
        let mut trees = FirstParents::new(self);
        let mut high_bytes = HighBytes::new(self.request_objects);
        let mut has_warned = false;
        for row in self.order() {
            let present = self.present_filter(row, &mut has_warned);
            if let Some((settings, filter)) = present
                && settings == self.settings
            {
                filters[row] = filter.into();
                continue;
            }
            if comparisons.len() >= max_new {
                continue;
            }
            let (old, new) = trees.of(row)?;
            if let Some((_, filter)) = present
                && !high_bytes.are_in(old)?
                && !high_bytes.are_in(new)?
            {
                // Both hashes agree on such paths.
                filters[row] = filter.into();
                upgraded += 1;
                continue;
            }
            comparisons.push(CommitTrees { row, old, new });
        }
        Ok((comparisons, upgraded))
    }

    /// A filter that may differ in its hash, but in nothing else.
    fn present_filter(&self, row: usize, has_warned: &mut bool) -> Option<(FilterSettings, &[u8])> {
        let present = self.present.filter(|_| self.request.uses_present)?;
        let position = present.position_of(&self.commits.id(row))?;
        let found = present.filter_at(position).unwrap_or_else(|fault| {
            if !std::mem::replace(has_warned, true) {
                tracing::warn!("{fault}");
            }
            None
        });
        found
            .filter(|(settings, _)| FilterSettings { hash: self.settings.hash, ..*settings } == self.settings)
    }

    /// The order in which rows get filters if not all may get one.
    fn order(&self) -> Vec<usize> {
        let mut rows = self.commits.oldest_first();
        if self.request.max_new.is_some() && self.request.in_order_of_tips {
            let numbers: HashMap<&ObjectId, usize> =
                self.tips.iter().enumerate().map(|(number, tip)| (tip, number)).collect();
            rows.sort_by_key(|row| numbers.get(&self.commits.id(*row)).copied().unwrap_or(usize::MAX));
        }
        rows
    }

    /// Computes filters on several threads.
    fn compare(&self, comparisons: &[CommitTrees]) -> Result<Vec<RowFilter>, Error> {
        let stretches = comparisons.len().div_ceil(STRETCH);
        let threads = self.request.threads.min(stretches).max(1);
        let total = self.commits.len();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(total - comparisons.len()));
        let work = || {
            let mut paths = ChangedPaths::new(
                self.request_objects,
                self.settings.hash,
                self.max_paths,
                self.request.max_tree_depth,
            );
            let mut filters = Vec::new();
            while let Some(stretch) = comparisons.chunks(STRETCH).nth(next.fetch_add(1, Relaxed)) {
                if self.progress.cancelled() {
                    return Err(Reason::Cancelled.into());
                }
                for comparison in stretch {
                    let filter = match paths.between(comparison.old, comparison.new)? {
                        Some(hashes) => self.settings.filter_up_to(self.max_paths, hashes),
                        None => FilterSettings::filter_of_many(),
                    };
                    filters.push((comparison.row, filter));
                }
                let done = done.fetch_add(stretch.len(), Relaxed) + stretch.len();
                self.progress.report(Phase::ComputingFilters, done as u64, total as u64);
            }
            Ok(filters)
        };
        // After an error, the other threads should find no more work.
        let work = || work().inspect_err(|_: &Error| next.store(stretches, Relaxed));
        let mut filters = Vec::with_capacity(comparisons.len());
        for result in on_threads(threads, work) {
            filters.extend(result?);
        }
        Ok(filters)
    }
}

/// Finds the trees of rows and of their first parents.
struct FirstParents<'a, D> {
    job: &'a FilterJob<'a, D>,
    history: CommitReader<'a>,
}

impl<'a, D: AsRef<[u8]>> FirstParents<'a, D> {
    fn new(job: &'a FilterJob<'a, D>) -> Self {
        FirstParents { job, history: CommitReader::new(job.request_objects) }
    }

    fn of(&mut self, row: usize) -> Result<(Option<ObjectNo>, Option<ObjectNo>), Error> {
        let commits = self.job.commits;
        let parent = match commits.first_parent(row) {
            None => None,
            Some(FirstParent::Row(row)) => self.find(&commits.tree(row))?,
            // Not from the file below: see `CommitReader`.
            Some(FirstParent::Below(id)) => {
                let tree = self.history.commit(&id)?.tree;
                self.find(&tree)?
            }
        };
        Ok((parent, self.find(&commits.tree(row))?))
    }

    /// `None` if the tree is empty, which git knows without storing it.
    fn find(&self, tree: &ObjectId) -> Result<Option<ObjectNo>, Error> {
        if tree.is_empty_tree() { Ok(None) } else { self.job.request_objects.require(tree).map(Some) }
    }
}
