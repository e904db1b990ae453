//! The tasks, by git's names where git has them (git-maintenance, "TASKS").

/// Something that keeps a repository fast or small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    /// Removes what processes have left that are no more. Not one of git's tasks: `git gc` does a part of it.
    StaleFiles,
    /// Puts loose refs into one file, or reftables into fewer.
    PackRefs,
    /// Takes old entries out of reflogs.
    ReflogExpire,
    /// Puts loose objects into a pack.
    LooseObjects,
    /// Rolls up small packs and loose objects, and writes a multi-pack-index with a bitmap.
    GeometricRepack,
    /// Packs everything anew, puts what nothing refers to into cruft packs, drops what of it has expired, and all of the others.
    Gc,
    /// Adds commits to the commit-graph.
    CommitGraph,
}

impl Task {
    /// All tasks, in the order in which they are done.
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

    /// The task of a name; git does not look at its case.
    pub fn named(name: &str) -> Option<Self> {
        Task::ALL.into_iter().find(|task| task.name().eq_ignore_ascii_case(name))
    }
}
