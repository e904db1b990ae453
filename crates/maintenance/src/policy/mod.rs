//! Decides what a measured repository needs. Reads no file and no clock.
//!
//! | occasion | what triggers a task |
//! |---|---|
//! | asked (`maintenance run`) | any improvement |
//! | automatic (`maintenance run --auto`) | git's own thresholds: `gc.auto`, `maintenance.<task>.auto` |
//! | served (the caretaker of `serve`) | measurably slower answers, so that cost and gain are in proportion |

#[cfg(test)]
mod tests;

use packrace_pack::maintain::geometry::packs_to_roll_up;

use crate::facts::{DeltaFacts, Facts, PackKind, RefFacts};
use crate::settings::MaintenanceSettings;
use crate::task::Task;

/// Why a repository is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A user wants it in the best state.
    Asked,
    /// It was just changed.
    Automatic,
    /// A server maintains it.
    Served,
}

/// A task and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task.
    pub task: Task,
    /// The reason, for people.
    pub reason: String,
    /// Estimated bytes that it reads and writes.
    pub bytes: u64,
    /// Estimated memory use.
    pub memory_bytes: u64,
    /// Whether deltas are searched anew.
    pub is_thorough: bool,
}

/// Packs from which on a server rolls up: each costs a fetch a lookup, and a clone its spans.
const SERVED_PACKS: usize = 6;

/// This many objects are walked quickly even without a bitmap.
const SMALL_OBJECTS: u64 = 1000;

/// Maximum age in seconds of a server's bitmap while refs change.
const SERVED_BITMAP_SECONDS: u64 = 300;

/// Loose refs from which on a single file is faster.
const LOOSE_REFS: u64 = 16;

/// Reftables that are left alone: each transaction adds one and merges tables that are too small.
const TABLES: u64 = 8;

/// Time in seconds after which unreferenced objects among others lead to a full repack.
const FULL_REPACK_SECONDS: u64 = 7 * 24 * 60 * 60;

/// Age in seconds at which cruft packs are rewritten to drop expired objects. Expired objects that a younger
/// one needs are kept, and are no reason to repeat this at once.
const CRUFT_SECONDS: u64 = 24 * 60 * 60;

/// One part in this many must be new since then.
const FULL_REPACK_PART: u64 = 10;

/// One part in this many outside a single pack's bitmap is worth a new one: a repack for it then handles at
/// most three times the new objects.
const UNKNOWN_PART: u64 = 3;

/// Repositories up to this size become one pack when pushes cease. A clone of one pack that is exactly the answer
/// needs no decisions per object and no hashing: a third of the cost of the same objects in four packs.
const ONE_PACK_BYTES: u64 = 64 << 20;

/// Seconds without a new pack after which a server does that.
const QUIET_SECONDS: u64 = 240;

/// If this percentage of objects is stored whole, more of them could be deltas.
const WHOLE_PERCENT: u64 = 50;

/// A new search must save this percentage of the sampled parts of the history.
const SAVED_PERCENT: u64 = 25;

/// Memory that a repack needs per object, and in addition: marks, names, the order, a bitmap's lists.
const BYTES_AN_OBJECT: u64 = 120;
const BASE_MEMORY: u64 = 64 << 20;

/// The tasks that a repository needs, in order.
pub fn plan(facts: &Facts, settings: &MaintenanceSettings, occasion: Occasion) -> Vec<PlannedTask> {
    let may_begin = match occasion {
        Occasion::Asked => true,
        Occasion::Automatic => settings.is_automatic,
        Occasion::Served => settings.is_automatic && settings.follows_pushes,
    };
    if !may_begin {
        return Vec::new();
    }
    let policy = Policy { facts, settings, occasion };
    let mut tasks: Vec<PlannedTask> = Task::ALL
        .into_iter()
        .filter(|task| settings.is_enabled(*task))
        .filter_map(|task| policy.of(task))
        .collect();
    if tasks.iter().any(|planned| planned.task == Task::Gc) {
        // It includes the others.
        tasks.retain(|planned| matches!(planned.task, Task::StaleFiles | Task::Gc));
    }
    tasks
}

/// As above for one task, enabled or not.
pub fn plan_one(
    facts: &Facts,
    settings: &MaintenanceSettings,
    occasion: Occasion,
    task: Task,
) -> Option<PlannedTask> {
    Policy { facts, settings, occasion }.of(task)
}

/// Whether a server has something to do once pushes cease.
pub fn waits_for_quiet(facts: &Facts, settings: &MaintenanceSettings) -> bool {
    let may_begin = settings.is_automatic && settings.follows_pushes && settings.is_enabled(Task::Gc);
    let policy = Policy { facts, settings, occasion: Occasion::Served };
    may_begin && !settings.is_precious && policy.packs_for_one() > 1
}

/// A task done on request, needed or not.
pub fn asked_for(facts: &Facts, task: Task) -> PlannedTask {
    planned(task, "asked for".to_owned(), facts.packed_bytes(), facts)
}

/// Puts the cleanup after a killed job first, regardless of the plan.
pub fn clean_up_first(tasks: &mut Vec<PlannedTask>) {
    tasks.retain(|planned| planned.task != Task::StaleFiles);
    let reason = "a job was killed".to_owned();
    tasks.insert(0, PlannedTask { reason, ..asked_for(&Facts::default(), Task::StaleFiles) });
}

struct Policy<'a> {
    facts: &'a Facts,
    settings: &'a MaintenanceSettings,
    occasion: Occasion,
}

impl Policy<'_> {
    fn of(&self, task: Task) -> Option<PlannedTask> {
        match task {
            Task::StaleFiles => self.stale_files(),
            Task::PackRefs => self.pack_refs(),
            Task::ReflogExpire => self.reflog_expire(),
            Task::LooseObjects => self.loose_objects(),
            Task::GeometricRepack => self.geometric(),
            Task::Gc => self.gc(),
            Task::CommitGraph => self.commit_graph(),
        }
    }

    fn stale_files(&self) -> Option<PlannedTask> {
        let stale = self.facts.stale;
        let reason = format!("{} left behind by killed processes", counted(stale.count, "file"));
        (stale.count > 0).then(|| planned(Task::StaleFiles, reason, stale.bytes, self.facts))
    }

    fn pack_refs(&self) -> Option<PlannedTask> {
        let (is_needed, bytes, reason) = match self.facts.refs {
            RefFacts::Files { loose, packed_bytes } => {
                // Rewriting a long file needs more refs to be worthwhile; the task checks again, by the
                // same measure.
                let least = LOOSE_REFS.max(5 * u64::from((packed_bytes / 100).max(1).ilog2()));
                let least = if self.occasion == Occasion::Asked { 1 } else { least };
                (loose >= least, packed_bytes, counted(loose, "loose ref"))
            }
            RefFacts::Tables(count) => {
                let most = if self.occasion == Occasion::Asked { 1 } else { TABLES };
                (count > most, 0, counted(count, "reftable"))
            }
        };
        is_needed.then(|| planned(Task::PackRefs, reason, bytes, self.facts))
    }

    fn reflog_expire(&self) -> Option<PlannedTask> {
        let expired = self.facts.expired_log_entries;
        let is_needed = match self.occasion {
            Occasion::Asked => expired > 0,
            _ => expired > 0 && MaintenanceSettings::begins(self.settings.reflog_auto, expired),
        };
        let reason = format!("{} of the reflog of HEAD expired", counted(expired, "entry"));
        is_needed.then(|| planned(Task::ReflogExpire, reason, 0, self.facts))
    }

    fn loose_objects(&self) -> Option<PlannedTask> {
        if self.settings.is_precious {
            return None;
        }
        let loose = self.facts.loose_objects;
        let is_needed = match self.occasion {
            Occasion::Asked => loose > 0,
            _ => loose > 0 && MaintenanceSettings::begins(self.settings.loose_auto, loose),
        };
        is_needed.then(|| planned(Task::LooseObjects, counted(loose, "loose object"), 0, self.facts))
    }

    fn geometric(&self) -> Option<PlannedTask> {
        let (facts, settings) = (self.facts, self.settings);
        if settings.is_precious {
            return None;
        }
        let mut objects: Vec<u32> = facts.ordinary().map(|pack| pack.objects).collect();
        objects.sort_unstable();
        let rolled_up = packs_to_roll_up(&objects, settings.split_factor);
        let usable = facts.packs.iter().filter(|pack| pack.kind != PackKind::Damaged).count();
        let covered = facts.multi_pack_index.map_or(0, |index| index.covered);
        let is_damaged =
            settings.multi_pack_index && facts.multi_pack_index.is_some_and(|index| index.missing > 0);
        let outside = if settings.multi_pack_index { usable.saturating_sub(covered) } else { 0 };
        // A single pack is its own index; cruft packs are not searched while other packs have the
        // wanted objects.
        let searched =
            facts.packs.iter().filter(|pack| matches!(pack.kind, PackKind::Ordinary | PackKind::Kept));
        let lacks_index = is_damaged || (outside > 0 && (covered > 0 || searched.count() > 1));
        let wants_bitmap = self.can_have_bitmap() && facts.tips_outside_bitmap > 0;
        let age = facts.bitmap.map(|bitmap| bitmap.age_seconds);
        let auto = settings.geometric_auto;
        let loose = facts.loose_objects;
        let is_needed = match self.occasion {
            Occasion::Asked => rolled_up > 1 || loose > 0 || lacks_index || wants_bitmap,
            Occasion::Automatic => {
                let is_full = loose > settings.gc_loose;
                auto != 0
                    && (rolled_up > 1 || is_full || (loose > 0 && MaintenanceSettings::begins(auto, loose)))
            }
            Occasion::Served => {
                let is_large = facts.packed_objects() + loose >= SMALL_OBJECTS;
                let is_late = age.is_none_or(|age| age >= SERVED_BITMAP_SECONDS);
                auto != 0
                    && (rolled_up >= SERVED_PACKS
                        || (loose > 0 && MaintenanceSettings::begins(auto, loose))
                        || is_damaged
                        || (wants_bitmap && is_large && is_late))
            }
        };
        let bytes = facts.ordinary().filter(|pack| objects[..rolled_up].contains(&pack.objects));
        let bytes = bytes.map(|pack| pack.bytes).sum();
        is_needed.then(|| {
            let mut why = Vec::new();
            why.extend(
                (rolled_up > 1)
                    .then(|| format!("{} too small for the next ones", counted(rolled_up as u64, "pack"))),
            );
            why.extend((loose > 0).then(|| counted(loose, "loose object")));
            why.extend(is_damaged.then(|| "multi-pack-index names missing packs".to_owned()));
            why.extend(
                (lacks_index && !is_damaged)
                    .then(|| format!("{} in no multi-pack-index", counted(outside as u64, "pack"))),
            );
            why.extend(wants_bitmap.then(|| match facts.bitmap {
                Some(_) => format!("{} not in the bitmap", counted(facts.tips_outside_bitmap, "tip")),
                None => "no bitmap".to_owned(),
            }));
            planned(Task::GeometricRepack, why.join(", "), bytes, facts)
        })
    }

    fn gc(&self) -> Option<PlannedTask> {
        let (facts, settings) = (self.facts, self.settings);
        if settings.is_precious {
            return None;
        }
        let mut why = Vec::new();
        let expired = self.expired();
        if expired > 0 {
            why.push(format!("{} expired", counted(expired, "unreachable object")));
        }
        let repacked = || facts.ordinary_below(settings.big_pack_bytes);
        if let Some(largest) = repacked().max_by_key(|pack| pack.objects) {
            let others = repacked().map(|pack| u64::from(pack.objects)).sum::<u64>()
                - u64::from(largest.objects)
                + facts.loose_objects;
            if largest.age_seconds >= FULL_REPACK_SECONDS
                && others > 0
                && others >= u64::from(largest.objects) / FULL_REPACK_PART
            {
                why.push(format!("{} added since the last full repack", counted(others, "object")));
            }
        }
        // The note that they were searched stays behind with a copy: there they would be searched after each push.
        let can_note = !settings.packs_alone;
        let poor = facts.deltas.as_ref().filter(|deltas| can_note && !deltas.is_searched);
        let poor = poor.and_then(reason_to_search);
        let is_thorough = poor.is_some();
        why.extend(poor);
        why.extend(self.one_pack());
        why.extend(self.bitmap_of_one_pack());
        // By git's own thresholds, if the smaller task is disabled.
        if !settings.is_enabled(Task::GeometricRepack) {
            let packs = facts.packs.iter().filter(|pack| pack.kind != PackKind::Kept).count();
            if facts.loose_objects > settings.gc_loose {
                why.push(counted(facts.loose_objects, "loose object"));
            }
            if settings.gc_packs > 0 && packs > settings.gc_packs {
                why.push(counted(packs as u64, "pack"));
            }
        }
        (!why.is_empty()).then(|| PlannedTask {
            is_thorough,
            ..planned(Task::Gc, why.join(", "), 2 * facts.packed_bytes(), facts)
        })
    }

    /// The reason to pack a small repository into one pack, which a server does when pushes have ceased.
    fn one_pack(&self) -> Option<String> {
        let quiet_seconds = self.facts.packs.iter().map(|pack| pack.age_seconds).min()?;
        if self.occasion != Occasion::Served || quiet_seconds < QUIET_SECONDS {
            return None;
        }
        let packs = self.packs_for_one();
        (packs > 1).then(|| format!("{} that can be one", counted(packs as u64, "pack")))
    }

    /// How many packs of a small repository could be one.
    fn packs_for_one(&self) -> usize {
        let packs = || self.facts.ordinary_below(self.settings.big_pack_bytes);
        let most = self.settings.max_pack_bytes.map_or(ONE_PACK_BYTES, |bytes| bytes.min(ONE_PACK_BYTES));
        if packs().map(|pack| pack.bytes).sum::<u64>() > most { 0 } else { packs().count() }
    }

    /// The reason to pack everything into one pack with a bitmap, if a multi-pack-index cannot have one.
    fn bitmap_of_one_pack(&self) -> Option<String> {
        let (facts, settings) = (self.facts, self.settings);
        let objects = facts.packed_objects();
        // Where a pack stays because it is big, there is no pack that has all.
        let has_big = facts.ordinary_below(settings.big_pack_bytes).count() < facts.ordinary().count();
        if !settings.packs_alone
            || !settings.bitmaps
            || has_big
            || facts.tips_outside_bitmap == 0
            || objects < SMALL_OBJECTS
        {
            return None;
        }
        let Some(bitmap) = facts.bitmap else { return Some("no bitmap".to_owned()) };
        let unknown = objects.saturating_sub(bitmap.objects);
        let is_worth_it = unknown.saturating_mul(UNKNOWN_PART) >= objects;
        is_worth_it.then(|| format!("{} not in the bitmap", counted(unknown, "object")))
    }

    /// The number of expired objects in cruft packs, if rewriting those is worthwhile.
    fn expired(&self) -> u64 {
        // A server does not run the hook that names objects still wanted, so nothing would be removed.
        if self.occasion == Occasion::Served && self.settings.has_recent_objects_hook {
            return 0;
        }
        let is_due = |age_seconds| self.occasion == Occasion::Asked || age_seconds >= CRUFT_SECONDS;
        let due = self.facts.packs.iter().filter(|pack| is_due(pack.age_seconds));
        due.map(|pack| u64::from(pack.expired)).sum()
    }

    fn commit_graph(&self) -> Option<PlannedTask> {
        let (facts, settings) = (self.facts, self.settings);
        if facts.is_shallow || !settings.commit_graph || facts.branch_tips == 0 {
            return None;
        }
        let (outside, auto) = (facts.tips_outside_graph, settings.graph_auto);
        let is_new = facts.graph_files == 0;
        let is_large = facts.packed_objects() + facts.loose_objects >= SMALL_OBJECTS;
        let is_needed = match self.occasion {
            Occasion::Asked => outside > 0,
            // Counts tips, not commits: each stands for at least one.
            Occasion::Automatic => {
                auto != 0 && outside > 0 && (auto < 0 || is_new || outside >= auto.unsigned_abs())
            }
            Occasion::Served => auto != 0 && outside > 0 && (is_large || outside >= auto.unsigned_abs()),
        };
        let reason = match is_new {
            true => "no commit-graph".to_owned(),
            false => format!("{} not in the commit-graph", counted(outside, "branch")),
        };
        is_needed.then(|| planned(Task::CommitGraph, reason, 0, facts))
    }

    /// Whether all objects reachable from refs are in the repository's own packs.
    fn can_have_bitmap(&self) -> bool {
        let Facts { is_shallow, borrows, is_partial, .. } = *self.facts;
        let is_possible = !is_shallow && !borrows && !is_partial;
        is_possible && self.settings.bitmaps && self.settings.multi_pack_index
    }
}

/// The reason to search all deltas anew.
fn reason_to_search(deltas: &DeltaFacts) -> Option<String> {
    if deltas.whole * 100 >= deltas.sampled * WHOLE_PERCENT {
        return Some(format!("{} of {} sampled objects stored whole", deltas.whole, deltas.sampled));
    }
    let percent = deltas.gain?.saved_percent();
    (percent >= SAVED_PERCENT).then(|| format!("a new search for deltas saves {percent} % of a sample"))
}

fn planned(task: Task, reason: String, bytes: u64, facts: &Facts) -> PlannedTask {
    let objects = match task {
        // Independent of the number of objects.
        Task::StaleFiles | Task::PackRefs => 0,
        _ => facts.packed_objects() + facts.loose_objects,
    };
    let memory_bytes = BASE_MEMORY + objects * BYTES_AN_OBJECT;
    PlannedTask { task, reason, bytes, memory_bytes, is_thorough: false }
}

/// `1 pack`, `2 packs`, `3 entries`, `4 branches`.
fn counted(count: u64, what: &str) -> String {
    match what {
        _ if count == 1 => format!("1 {what}"),
        "entry" => format!("{count} entries"),
        "branch" => format!("{count} branches"),
        _ => format!("{count} {what}s"),
    }
}
