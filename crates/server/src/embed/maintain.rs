//! Maintenance that the surrounding program asks for.

use std::time::Duration;

use super::Git;
use crate::caretaker;
use crate::maintenance::{LookEnd, maintained_path};

/// What maintenance of a repository may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceBudget {
    /// Estimated memory. Default: 1 GiB. Tasks that need more are skipped. It is claimed from the memory for packs
    /// (`Settings::admission`), and waited for.
    pub memory_bytes: u64,
}

impl Default for MaintenanceBudget {
    fn default() -> Self {
        MaintenanceBudget { memory_bytes: crate::maintenance::MaintenanceRules::default().memory_bytes }
    }
}

/// What came of maintenance. The log has a line for each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintained {
    /// Tasks were done, in this time.
    Done(Duration),
    /// There was nothing to do.
    Nothing,
}

/// Why a repository was not maintained, or not to the end. It is as good as before, and can be read and pushed to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MaintainError {
    /// There is no repository of that name, or it cannot be opened.
    #[error("{0}")]
    NotFound(String),
    /// Another job or process maintains it, its refs are locked, or there is no memory: try again later.
    #[error("repository is being maintained already, or there is no memory for it now")]
    Busy,
    /// A task failed, or needs more memory than the budget has; the log has the reason.
    #[error("maintenance failed; see the log")]
    Failed,
}

impl Git {
    /// Does everything that makes a repository faster or smaller, as `packrace maintenance run` would: whatever its settings say of
    /// automatic maintenance. Blocks until it is done; takes one thread of low priority. Requests are served meanwhile, and a kill at any moment
    /// loses nothing.
    pub fn maintain(&self, name: &str, budget: &MaintenanceBudget) -> Result<Maintained, MaintainError> {
        let shared = &self.running.shared;
        let path = [b"/", name.trim_start_matches('/').as_bytes()].concat();
        let opened = shared.root.open(&path).map_err(|why| MaintainError::NotFound(why.to_string()))?;
        let ended = caretaker::run_now(shared, maintained_path(opened.common_dir()), budget.memory_bytes);
        match ended.map_err(|_| MaintainError::Busy)? {
            LookEnd::Done(took) => Ok(Maintained::Done(took)),
            LookEnd::Nothing | LookEnd::NotYet => Ok(Maintained::Nothing),
            LookEnd::Postponed => Err(MaintainError::Busy),
            LookEnd::Failed => Err(MaintainError::Failed),
            LookEnd::Gone => Err(MaintainError::NotFound(format!("'{name}' is gone"))),
        }
    }
}
