//! `git maintenance`: keeps a repository fast, guided by measurements.

use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;

use packrace_maintenance::commit_graphs;
use packrace_maintenance::policy::{self, Occasion, PlannedTask};
use packrace_maintenance::{
    Facts, Locking, MaintenanceLock, MaintenanceSettings, Means, PackKind, RefFacts, SearchGain, Sizes, Task,
    measure,
};
use packrace_os::child::{Confinement, Program};
use packrace_os::clock::time_of_day;
use packrace_os::process::available_threads;
use packrace_os::trace::{self, TracedChild};
use packrace_store::{Ended, Repository};

use crate::call::Call;
use crate::call::discovery::repository_as_it_is;
use crate::call::fatal::Fatal;
use crate::hooks;
use crate::options::{MaintenanceOptions, MaintenanceRunOptions};
use crate::packs::settings::recent_objects;
use crate::progress::{self, Progress};

/// Git's tasks that are not implemented: git does them, if it is installed.
const MISSING_TASKS: [&str; 4] = ["prefetch", "incremental-repack", "worktree-prune", "rerere-gc"];

/// Git's strategies (git-config, "maintenance.strategy").
const STRATEGIES: [&str; 3] = ["gc", "geometric", "incremental"];

/// Implements `git maintenance`.
pub fn run(call: &Call, args: &MaintenanceOptions) -> Result<(), Fatal> {
    match args {
        MaintenanceOptions::Run(args) => {
            let tasks = tasks(&args.tasks)?;
            let maintenance = Maintenance::of(call, args.auto, tasks)?;
            match &args.detached_program {
                _ if args.dry_run => maintenance.show_plan(),
                Some(program) => maintenance.detach(program, args),
                None => maintenance.run(args),
            }
        }
        MaintenanceOptions::Plan { auto, tasks: named } => {
            let tasks = tasks(named)?;
            Maintenance::of(call, *auto, tasks)?.show_plan()
        }
        MaintenanceOptions::IsNeeded { auto, tasks: named } => {
            let tasks = tasks(named)?;
            let maintenance = Maintenance::of(call, *auto, tasks)?;
            match maintenance.allowed()?.is_empty() {
                true => Err(Fatal::silent(1)),
                false => Ok(()),
            }
        }
        MaintenanceOptions::Status => Maintenance::of(call, false, Vec::new())?.show_status(),
    }
}

/// The program that git starts for a task.
fn git_child(task: Task, split_factor: u32, speaks: bool) -> Option<TracedChild> {
    let geometric = format!("--geometric={split_factor}");
    let (quiet, progress) = if speaks { ("--no-quiet", "--progress") } else { ("--quiet", "--no-progress") };
    let argv: &[&str] = match task {
        Task::StaleFiles => return None,
        Task::PackRefs => &["git", "pack-refs", "--all", "--prune"],
        Task::ReflogExpire => &["git", "reflog", "expire", "--all"],
        Task::LooseObjects => &["git", "pack-objects", quiet],
        Task::GeometricRepack if speaks => &["git", "repack", "-d", "-l", &geometric, "--write-midx"],
        Task::GeometricRepack => &["git", "repack", "-d", "-l", &geometric, "--quiet", "--write-midx"],
        Task::Gc => &["git", "gc", quiet, "--no-detach", "--skip-foreground-tasks"],
        Task::CommitGraph => &["git", "commit-graph", "write", "--split", "--reachable", progress],
    };
    trace::child_inside(argv)
}

/// Whether git has this strategy. Measurements decide which tasks run, whichever it is.
fn is_strategy(name: &[u8]) -> bool {
    STRATEGIES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The tasks with these names; git's message for an unknown one.
pub(crate) fn tasks(names: &[String]) -> Result<Vec<Task>, Fatal> {
    let mut tasks = Vec::new();
    for name in names {
        if MISSING_TASKS.iter().any(|missing| missing.eq_ignore_ascii_case(name)) {
            return Err(Fatal::usage(format!("task '{name}' is not supported")).unless_git());
        }
        let task = Task::named(name);
        let task = task.ok_or_else(|| Fatal::refused(format!("'{name}' is not a valid task")))?;
        if tasks.contains(&task) {
            return Err(Fatal::refused(format!("task '{name}' cannot be selected multiple times")));
        }
        tasks.push(task);
    }
    Ok(tasks)
}

struct Maintenance<'a> {
    call: &'a Call,
    repository: Repository,
    settings: MaintenanceSettings,
    occasion: Occasion,
    /// The named tasks; if empty, whatever is needed.
    tasks: Vec<Task>,
    now: SystemTime,
}

impl<'a> Maintenance<'a> {
    fn of(call: &'a Call, auto: bool, tasks: Vec<Task>) -> Result<Self, Fatal> {
        let repository = repository_as_it_is(call)?;
        if tasks.is_empty() {
            repository.config().need_values(&["maintenance.strategy"])?;
            let strategy = repository.config().string("maintenance.strategy");
            if let Some(name) = strategy.filter(|name| !is_strategy(name)) {
                let name = String::from_utf8_lossy(&name);
                return Err(Fatal::new(format!("unknown maintenance strategy: '{name}'")));
            }
        }
        let settings = MaintenanceSettings::of_tasks(&repository, &tasks, auto)?;
        let occasion = if auto { Occasion::Automatic } else { Occasion::Asked };
        Ok(Maintenance { call, repository, settings, occasion, tasks, now: time_of_day() })
    }

    fn measure(&self) -> Result<Facts, Fatal> {
        Ok(measure(&self.repository, &self.settings, self.now, None)?)
    }

    /// The tasks that the repository needs, limited to the named ones.
    fn needed(&self, facts: &Facts) -> Vec<PlannedTask> {
        if self.tasks.is_empty() {
            return policy::plan(facts, &self.settings, self.occasion);
        }
        let plan_one = |task: &Task| policy::plan_one(facts, &self.settings, self.occasion, *task);
        self.tasks.iter().filter_map(plan_one).collect()
    }

    /// The tasks to run. Named tasks run even if not needed, except in automatic runs.
    fn planned(&self, facts: &Facts) -> Vec<PlannedTask> {
        let mut planned = self.needed(facts);
        if self.occasion == Occasion::Asked && !self.tasks.is_empty() {
            let needed = |task: &Task| planned.iter().find(|planned| planned.task == *task).cloned();
            let of = |task: &Task| needed(task).unwrap_or_else(|| policy::asked_for(facts, *task));
            planned = self.tasks.iter().map(of).collect();
        }
        planned
    }

    /// The same, without an automatic `gc` if the hook `pre-auto-gc` is against it (githooks).
    fn allowed(&self) -> Result<Vec<PlannedTask>, Fatal> {
        let mut planned = self.planned(&self.measure()?);
        let is_gc = |planned: &PlannedTask| planned.task == Task::Gc;
        if self.occasion == Occasion::Automatic && planned.iter().any(is_gc) {
            let hooks = hooks::of(self.call, &self.repository)?;
            if hooks.run("pre-auto-gc", &[], b"").map_err(Fatal::new)? == Ended::Badly {
                planned.retain(|planned| !is_gc(planned));
            }
        }
        Ok(planned)
    }

    fn speaks(&self, args: &MaintenanceRunOptions) -> bool {
        progress::is_wanted(self.call, args.quiet.map(|quiet| !quiet))
    }

    fn show_plan(&self) -> Result<(), Fatal> {
        let mut text = String::new();
        for PlannedTask { task, reason, bytes, .. } in self.planned(&self.measure()?) {
            let size = if bytes > 0 { format!(" ({})", shown_bytes(bytes)) } else { String::new() };
            text.push_str(&format!("{}: {reason}{size}\n", task.name()));
        }
        if text.is_empty() {
            text.push_str("nothing to do\n");
        }
        self.call.write(text.as_bytes())
    }

    /// Starts a detached process for the run; its output is discarded.
    fn detach(&self, program: &Path, args: &MaintenanceRunOptions) -> Result<(), Fatal> {
        let mut directory = OsString::from("--git-dir=");
        directory.push(self.repository.git_dir());
        let options = ["maintenance", "run", "--no-detach", "--quiet"].map(OsString::from);
        let auto = args.auto.then(|| OsString::from("--auto"));
        let tasks = self.tasks.iter().map(|task| OsString::from(format!("--task={}", task.name())));
        let argv = [program.into(), directory].into_iter().chain(options).chain(auto).chain(tasks);
        let environment = self.call.environment.for_hooks(&self.call.globals).into_iter();
        let program = Program {
            argv: argv.collect(),
            hook: None,
            directory: ".".into(),
            environment: environment.map(|(name, value)| (name, Some(value))).collect(),
            reads_messages: false,
            confinement: Confinement::default(),
        };
        program.start_detached().map_err(Fatal::new)
    }

    fn run(&self, args: &MaintenanceRunOptions) -> Result<(), Fatal> {
        let lock = match MaintenanceLock::take(&self.repository, self.now)? {
            Locking::Held(lock) => lock,
            Locking::BusyWithGc(who) if !args.auto && self.tasks.contains(&Task::Gc) => {
                error_line!(self.call, "fatal: {who} (use --force if not)");
                return Err(Fatal::error("task 'gc' failed"));
            }
            Locking::Busy(who) | Locking::BusyWithGc(who) => {
                if !args.auto && self.speaks(args) {
                    error_line!(self.call, "warning: {who}, skipping maintenance");
                }
                return Ok(());
            }
        };
        let mut planned = self.allowed()?;
        if lock.predecessor().is_some() {
            policy::clean_up_first(&mut planned);
        }
        let mut result = Ok(());
        for planned in planned {
            if let Err(fatal) = self.run_one(&planned, &lock, args) {
                error_line!(self.call, "error: task '{}' failed: {}", planned.task.name(), fatal.message);
                result = Err(Fatal::silent(1));
            }
        }
        result
    }

    fn run_one(
        &self,
        planned: &PlannedTask,
        lock: &MaintenanceLock,
        args: &MaintenanceRunOptions,
    ) -> Result<(), Fatal> {
        let speaks = self.speaks(args);
        // As in git, which does these tasks before it goes to the background.
        let category = match planned.task {
            Task::PackRefs | Task::ReflogExpire => "maintenance foreground",
            _ => "maintenance",
        };
        let _region = trace::region(category, planned.task.name());
        let threads = available_threads();
        let progress = Progress::new(speaks, self.call)?;
        let progress = progress.with_threads(threads);
        let recent = match planned.task {
            Task::Gc => recent_objects(self.call, &self.repository)?,
            _ => Vec::new(),
        };
        let means = Means {
            threads,
            memory_bytes: None,
            recent: Some(recent),
            now: self.now,
            progress: &progress,
            past_refs: &|| {},
        };
        let before = Sizes::of(self.repository.object_dir())?;
        let is_off = planned.task == Task::CommitGraph && !commit_graphs::is_on(&self.repository)?;
        let traced = if is_off { None } else { git_child(planned.task, self.settings.split_factor, speaks) };
        let run = || packrace_maintenance::run(&self.repository, &self.settings, planned, lock, &means);
        let done = trace::during(traced, run);
        match &done {
            Ok(()) => progress.finish(),
            Err(_) => progress.stop(),
        }
        done?;
        if speaks {
            let after = Sizes::of(self.repository.object_dir())?;
            error_line!(
                self.call,
                "{}: {}: {} packs and {} loose objects ({}) before, {} and {} ({}) now",
                planned.task.name(),
                planned.reason,
                before.packs,
                before.loose_objects,
                shown_bytes(before.pack_bytes),
                after.packs,
                after.loose_objects,
                shown_bytes(after.pack_bytes)
            );
        }
        Ok(())
    }

    fn show_status(&self) -> Result<(), Fatal> {
        let facts = self.measure()?;
        let of_kind = |kind| facts.packs.iter().filter(|pack| pack.kind == kind).count();
        let mut text = format!(
            "packs: {} with {} objects ({}), {} kept, {} cruft, {} damaged\nloose objects: {}\n",
            facts.packs.len(),
            facts.packed_objects(),
            shown_bytes(facts.packed_bytes()),
            of_kind(PackKind::Kept),
            of_kind(PackKind::Cruft),
            of_kind(PackKind::Damaged),
            facts.loose_objects
        );
        text.push_str(&match facts.multi_pack_index {
            Some(index) => format!("multi-pack-index: covers {} packs\n", index.covered),
            None => "multi-pack-index: none\n".to_owned(),
        });
        text.push_str(&match facts.bitmap {
            Some(_) => {
                format!("bitmap: knows {} of {} tips\n", facts.tips - facts.tips_outside_bitmap, facts.tips)
            }
            None => "bitmap: none\n".to_owned(),
        });
        text.push_str(&format!(
            "commit-graph: {} files, has {} of {} branches\n",
            facts.graph_files,
            facts.branch_tips - facts.tips_outside_graph,
            facts.branch_tips
        ));
        text.push_str(&match facts.refs {
            RefFacts::Files { loose, packed_bytes } => {
                format!("refs: {loose} loose, packed-refs of {}\n", shown_bytes(packed_bytes))
            }
            RefFacts::Tables(count) => format!("refs: {count} reftables\n"),
        });
        if let Some(deltas) = facts.deltas {
            text.push_str(&format!("deltas: {} of {} sampled objects whole\n", deltas.whole, deltas.sampled));
            if let Some(SearchGain { stored_bytes, searched_bytes }) = deltas.gain {
                text.push_str(&format!(
                    "delta search: {} of a sample would become {}\n",
                    shown_bytes(stored_bytes),
                    shown_bytes(searched_bytes)
                ));
            }
        }
        text.push_str(&format!("stale files: {} ({})\n", facts.stale.count, shown_bytes(facts.stale.bytes)));
        self.call.write(text.as_bytes())
    }
}

fn shown_bytes(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}
