//! Regions of a trace for the phases of work on packs: git's `pack-objects`, and one for each progress that is shown.

use packrace_os::trace::{self, TraceRegion};
use packrace_pack::{BitmapTotals, BitmapUse, Phase, Totals};

/// The category of bitmaps.
const BITMAPS: &str = "pack-bitmap-write";

/// The parts of git's pack-objects, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackStep {
    /// Which objects the pack has.
    Enumerate,
    /// How they are stored.
    Prepare,
    /// Writing the pack.
    Write,
}

impl PackStep {
    fn of(phase: Phase) -> Option<PackStep> {
        match phase {
            Phase::Enumerating | Phase::EnumeratingCruft => Some(PackStep::Enumerate),
            Phase::Counting | Phase::CompressingByPath | Phase::Compressing => Some(PackStep::Prepare),
            Phase::Writing => Some(PackStep::Write),
            _ => None,
        }
    }

    fn label(self) -> &'static str {
        match self {
            PackStep::Enumerate => "enumerate-objects",
            PackStep::Prepare => "prepare-pack",
            PackStep::Write => "write-pack-file",
        }
    }
}

/// The open regions of one command, in the trace of this process ([`packrace_os::trace`]).
#[derive(Debug, Default)]
pub struct TracedPhases {
    shown: Option<(Phase, u64, TraceRegion)>,
    /// While bitmaps are made.
    bitmaps: Option<TraceRegion>,
    step: Option<(PackStep, TraceRegion)>,
    /// Within the first step, if objects are sorted by their paths.
    path_walk: Option<TraceRegion>,
    /// Of the packs since the last [`TracedPhases::end`].
    totals: Option<Totals>,
}

impl TracedPhases {
    /// For a process that is traced.
    pub fn begin() -> Option<Self> {
        trace::is_on().then(TracedPhases::default)
    }

    /// A report to a [`packrace_pack::ProgressSink`]; with a title if it is shown.
    pub fn report(&mut self, phase: Phase, done: u64, total: u64, title: Option<&str>) {
        if done == 0 && total == 0 {
            return;
        }
        if self.shown.as_ref().is_some_and(|(shown, ..)| *shown != phase) {
            self.hide();
        }
        if let Some(step) = PackStep::of(phase) {
            self.enter(step);
        }
        if matches!(phase, Phase::ReadingTrees | Phase::BuildingBitmaps) && self.bitmaps.is_none() {
            self.hide();
            self.bitmaps = trace::region(BITMAPS, "building_bitmaps_total");
        }
        match (&mut self.shown, title) {
            (Some((_, last, _)), _) => *last = total,
            (None, Some(title)) => {
                self.shown = trace::region("progress", title).map(|region| (phase, total, region));
            }
            (None, None) => {}
        }
    }

    /// Enters a part of git's pack-objects, unless it or a later one is open.
    pub fn enter(&mut self, step: PackStep) {
        if self.totals.is_some() && step < PackStep::Write {
            // The next pack.
            self.end();
        }
        if self.step.as_ref().is_some_and(|(open, _)| *open >= step) {
            return;
        }
        self.end_step();
        self.step = trace::region("pack-objects", step.label()).map(|region| (step, region));
    }

    /// Objects are found that will be sorted by their paths.
    pub fn walk_by_path(&mut self) {
        self.enter(PackStep::Enumerate);
        self.path_walk = trace::region("pack-objects", "path-walk");
    }

    fn end_step(&mut self) {
        self.end_bitmaps();
        self.path_walk = None;
        self.step = None;
    }

    /// A pack is written.
    pub fn packed(&mut self, pack: &Totals) {
        self.enter(PackStep::Write);
        self.hide();
        trace::data("pack-objects", "write_pack_file/wrote", pack.objects);
        let all = self.totals.get_or_insert_default();
        let sums = [
            (&mut all.objects, pack.objects),
            (&mut all.deltas, pack.deltas),
            (&mut all.reused, pack.reused),
            (&mut all.reused_deltas, pack.reused_deltas),
            (&mut all.pack_reused, pack.pack_reused),
            (&mut all.packs_reused, pack.packs_reused),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// A bitmap file is made.
    pub fn bitmaps_made(&mut self, made: &BitmapTotals) {
        // As in git, a pseudo-merge counts as a commit.
        let all = made.selected + made.pseudo_merges;
        trace::data(BITMAPS, "num_selected_commits", all);
        if made.pseudo_merges > 0 {
            trace::data(BITMAPS, "pseudo_merge_bitmap_nr", made.pseudo_merges);
            trace::data(BITMAPS, "building_bitmaps_pseudo_merge_reused", 0);
            trace::data(BITMAPS, "pseudo_merge_bitmap_parents", made.pseudo_merge_parents);
        }
        self.end_bitmaps();
        trace::data(BITMAPS, "building_bitmaps_reused", made.reused);
        trace::data(BITMAPS, "fill_bitmap_commit_calls_nr", all);
        trace::data(BITMAPS, "fill_bitmap_commit_found_ancestor_nr", made.from_ancestors);
        if made.lookup_table {
            drop(trace::region(BITMAPS, "writing_lookup_table"));
        }
    }

    fn end_bitmaps(&mut self) {
        self.hide();
        self.bitmaps = None;
    }

    /// Unreachable objects were made loose.
    pub fn loosened(&mut self, objects: u64) {
        trace::data("pack-objects", "loosen_unused_packed_objects/loosened", objects);
    }

    /// The work is done, or is interrupted by a message.
    pub fn hide(&mut self) {
        if let Some((_, total, region)) = self.shown.take() {
            trace::data("progress", "total_objects", total);
            drop(region);
        }
    }

    /// No more packs.
    pub fn end(&mut self) {
        self.end_step();
        if let Some(totals) = self.totals.take() {
            let numbers = totals.by_name();
            numbers.into_iter().for_each(|(key, value)| trace::data("pack-objects", key, value));
        }
    }
}

/// The objects of a pack were found by bitmaps.
pub fn bitmaps_used(used: &dyn Fn() -> BitmapUse) {
    if !trace::is_on() {
        return;
    }
    used().by_name().into_iter().for_each(|(key, value)| trace::data("bitmap", key, value));
}

impl Drop for TracedPhases {
    fn drop(&mut self) {
        self.end();
    }
}
