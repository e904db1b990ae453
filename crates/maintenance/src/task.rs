//! The tasks, with git's names if git has them (git-maintenance, "TASKS").

/// A task that keeps a repository fast or small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    /// Removes leftovers of dead processes. Not one of git's tasks: `git gc` does a part of it.
    StaleFiles,
    /// Packs loose refs into one file, or reftables into fewer.
    PackRefs,
    /// Removes old entries from reflogs.
    ReflogExpire,
    /// Packs loose objects into a pack.
    LooseObjects,
    /// Rolls up small packs and loose objects, and writes a multi-pack-index with a bitmap.
    GeometricRepack,
    /// Repacks everything, moves unreferenced objects to cruft packs, drops expired ones, and does the other
    /// tasks except `StaleFiles`.
    Gc,
    /// Adds commits to the commit-graph.
    CommitGraph,
}

impl Task {
    /// All tasks, in order of execution.
    pub const ALL: [Task; 7] = [
        Task::StaleFiles,
        Task::PackRefs,
        Task::ReflogExpire,
        Task::LooseObjects,
        Task::GeometricRepack,
        Task::Gc,
        Task::CommitGraph,
    ];

    /// Its name on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Task::StaleFiles => "stale-files",
            Task::PackRefs => "pack-refs",
            Task::ReflogExpire => "reflog-expire",
            Task::LooseObjects => "loose-objects",
            Task::GeometricRepack => "geometric-repack",
            Task::Gc => "gc",
            Task::CommitGraph => "commit-graph",
        }
    }

    /// The task of this name, case-insensitive as in git.
    pub fn named(name: &str) -> Option<Self> {
        Task::ALL.into_iter().find(|task| task.name().eq_ignore_ascii_case(name))
    }
}
