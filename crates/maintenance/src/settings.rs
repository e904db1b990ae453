//! git's configuration of maintenance.

use packrace_store::expiry::{expiry, expiry_of_objects};
use packrace_store::{Config, Repository};

use crate::error::Error;
use crate::task::Task;

/// git's configuration of maintenance. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// Whether it may start automatically: `gc.auto` is not 0, and `maintenance.auto` is not false.
    pub is_automatic: bool,
    /// Whether pushes may trigger it (`receive.autogc`).
    pub follows_pushes: bool,
    /// Whether automatic runs are detached (`maintenance.autoDetach`, `gc.autoDetach`).
    pub is_detached: bool,
    /// Loose objects beyond which everything is packed (`gc.auto`).
    pub gc_loose: u64,
    /// Packs without a `.keep` beyond which everything is packed (`gc.autoPackLimit`); 0 means no limit.
    pub gc_packs: usize,
    /// Whether `gc` packs refs (`gc.packRefs`).
    pub packs_refs: bool,
    /// Whether unreferenced objects are moved to cruft packs instead of becoming loose (`gc.cruftPacks`).
    pub cruft_packs: bool,
    /// The longest cruft pack in bytes (`gc.maxCruftSize`).
    pub max_cruft_bytes: Option<u64>,
    /// Unreferenced objects older than this are deleted (`gc.pruneExpire`); in seconds since 1970.
    pub prune_before: i64,
    /// Packs of at least this many bytes are kept by `gc` (`gc.bigPackThreshold`).
    pub big_pack_bytes: Option<u64>,
    /// The longest pack that a repack writes (`pack.packSizeLimit`, at least 1 MiB, as in git).
    pub max_pack_bytes: Option<u64>,
    /// Minimum ratio of objects between a pack and the next smaller one
    /// (`maintenance.geometric-repack.splitFactor`).
    pub split_factor: u32,
    /// Loose objects from which on there is a geometric repack (`maintenance.geometric-repack.auto`); 0:
    /// never automatically, negative: always.
    pub geometric_auto: i64,
    /// As above, for packing loose objects (`maintenance.loose-objects.auto`).
    pub loose_auto: i64,
    /// Commits outside the commit-graph from which on it is extended (`maintenance.commit-graph.auto`).
    pub graph_auto: i64,
    /// Expired entries from which on reflogs are expired (`maintenance.reflog-expire.auto`).
    pub reflog_auto: i64,
    /// Enabled tasks (`maintenance.<task>.enabled`), in the order of [`Task::ALL`]; `None` if unset.
    pub enabled: [Option<bool>; Task::ALL.len()],
    /// Whether there may be a multi-pack-index (`core.multiPackIndex`).
    pub multi_pack_index: bool,
    /// Whether there may be bitmaps (`repack.writeBitmaps`).
    pub bitmaps: bool,
    /// Whether a commit-graph is written (`gc.writeCommitGraph`, `core.commitGraph`).
    pub commit_graph: bool,
    /// Whether the lists of the dumb HTTP protocol are kept up to date (`repack.updateServerInfo`).
    pub server_info: bool,
    /// Whether nothing may be deleted (`extensions.preciousObjects`).
    pub is_precious: bool,
    /// Whether only packs matter, and no object may be dropped ([`MaintenanceSettings::for_packs_alone`]).
    pub packs_alone: bool,
    /// Whether a hook names objects that are still wanted (`gc.recentObjectsHook`).
    pub has_recent_objects_hook: bool,
}

impl MaintenanceSettings {
    /// Reads a repository's configuration.
    pub fn of(repository: &Repository) -> Result<Self, Error> {
        MaintenanceSettings::of_tasks(repository, &[], true)
    }

    /// As above, for these tasks, or for whatever is needed if there are none. What they do not use may have a wrong
    /// value: of others, and if this is no automatic run, the settings of one.
    pub fn of_tasks(repository: &Repository, tasks: &[Task], is_automatic: bool) -> Result<Self, Error> {
        let config = repository.config();
        check_reflog_expiry(config)?;
        let number = |name: &str, default: i64| Ok::<_, Error>(config.integer(name)?.unwrap_or(default));
        let flag = |name: &str, default: bool| Ok::<_, Error>(config.boolean(name)?.unwrap_or(default));
        let bytes = |name: &str| Ok::<_, Error>(config.bytes(name)?.filter(|bytes| *bytes > 0));
        let gc_auto = number("gc.auto", 6700)?;
        let auto = |task: Task, name: &str| {
            let is_used = is_automatic && (tasks.is_empty() || tasks.contains(&task));
            let number = if is_used { config.small_integer(name)? } else { None };
            Ok::<_, Error>(number.map_or(100, i64::from))
        };
        let mut enabled = [None; Task::ALL.len()];
        // What a named `gc` does depends on the smaller repack.
        let is_used = |task: &Task| tasks.is_empty() || *task == Task::GeometricRepack;
        for (slot, task) in enabled.iter_mut().zip(Task::ALL).filter(|(_, task)| is_used(task)) {
            *slot = config.boolean(&format!("maintenance.{}.enabled", task.name()))?;
        }
        let configured_bitmaps = config.boolean("repack.writeBitmaps")?;
        Ok(MaintenanceSettings {
            is_automatic: gc_auto != 0 && flag("maintenance.auto", true)?,
            follows_pushes: flag("receive.autogc", true)?,
            is_detached: tasks.is_empty()
                && match config.boolean("maintenance.autoDetach")? {
                    Some(configured) => configured,
                    None => flag("gc.autoDetach", true)?,
                },
            gc_loose: u64::try_from(gc_auto).unwrap_or(u64::MAX),
            gc_packs: usize::try_from(number("gc.autoPackLimit", 50)?).unwrap_or(0),
            packs_refs: packs_refs(repository, config)?,
            cruft_packs: flag("gc.cruftPacks", true)?,
            max_cruft_bytes: bytes("gc.maxCruftSize")?,
            prune_before: prune_before(config)?,
            big_pack_bytes: bytes("gc.bigPackThreshold")?,
            max_pack_bytes: bytes("pack.packSizeLimit")?.map(|bytes| bytes.max(1 << 20)),
            split_factor: u32::try_from(number("maintenance.geometric-repack.splitFactor", 2)?)
                .unwrap_or(2)
                .max(2),
            geometric_auto: auto(Task::GeometricRepack, "maintenance.geometric-repack.auto")?,
            loose_auto: auto(Task::LooseObjects, "maintenance.loose-objects.auto")?,
            graph_auto: auto(Task::CommitGraph, "maintenance.commit-graph.auto")?,
            reflog_auto: auto(Task::ReflogExpire, "maintenance.reflog-expire.auto")?,
            enabled,
            multi_pack_index: flag("core.multiPackIndex", true)?,
            bitmaps: match configured_bitmaps.or(config.boolean("pack.writeBitmaps")?) {
                Some(configured) => configured,
                // As in `git repack -a`: repositories with a work tree gain little.
                None => repository.is_bare()?,
            },
            commit_graph: flag("gc.writeCommitGraph", true)? && flag("core.commitGraph", true)?,
            server_info: flag("repack.updateServerInfo", true)?,
            is_precious: flag("extensions.preciousObjects", false)?,
            packs_alone: false,
            has_recent_objects_hook: !config.strings("gc.recentObjectsHook").is_empty(),
        })
    }

    /// As above, for a copy of which only the packs are kept: no object is dropped, and no other
    /// file is written.
    pub fn for_packs_alone(self) -> Self {
        let enabled = Task::ALL.map(|task| {
            let is_of_packs = matches!(task, Task::GeometricRepack | Task::Gc);
            Some(is_of_packs && self.is_enabled(task))
        });
        MaintenanceSettings {
            enabled,
            packs_alone: true,
            packs_refs: false,
            multi_pack_index: false,
            commit_graph: false,
            server_info: false,
            ..self
        }
    }

    /// Whether a task runs if no tasks are named.
    pub fn is_enabled(&self, task: Task) -> bool {
        let said = Task::ALL.iter().position(|other| *other == task).and_then(|at| self.enabled[at]);
        // A geometric repack includes it.
        said.unwrap_or(task != Task::LooseObjects)
    }

    /// Whether a task starts automatically at this count, by git's `….auto` settings.
    pub(crate) fn begins(auto: i64, count: u64) -> bool {
        match auto {
            0 => false,
            ..0 => true,
            least => count >= least.unsigned_abs(),
        }
    }
}

/// `notbare` is not a boolean.
fn packs_refs(repository: &Repository, config: &Config) -> Result<bool, Error> {
    if config.string("gc.packRefs").is_some_and(|text| text.eq_ignore_ascii_case(b"notbare")) {
        return Ok(!repository.is_bare()?);
    }
    Ok(config.boolean("gc.packRefs")?.unwrap_or(true))
}

/// As in git, a wrong time stops tasks that do not use it, too.
fn check_reflog_expiry(config: &Config) -> Result<(), Error> {
    let Some(text) = config.string("gc.reflogExpire") else { return Ok(()) };
    let value = String::from_utf8_lossy(&text).into_owned();
    match expiry(&value) {
        Some(_) => Ok(()),
        None => Err(Error::Unparsed { key: "gc.reflogexpire".to_owned(), value }),
    }
}

fn prune_before(config: &Config) -> Result<i64, Error> {
    if config.string("gc.pruneExpire").is_some_and(|text| text == b"never") {
        return Ok(i64::MIN);
    }
    Ok(config.expiry_of_objects("gc.pruneExpire")?.unwrap_or_else(|| expiry_of_objects("2.weeks.ago")))
}
