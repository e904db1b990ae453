use std::sync::Arc;
use std::time::Duration;

use packrace_format::reftable::{DEFAULT_FACTOR, MAX_BLOCK_BYTES, MAX_FACTOR, TableOptions};
use packrace_object::HashKind;

use crate::config::Config;
use crate::error::{Error, Reason};
use crate::hooks::Hooks;
use crate::publish::{Component, WritePolicy};

/// How refs are written: what the configuration says, and in whose name reflogs are.
#[derive(Debug, Clone)]
pub struct RefWrites {
    /// What is synced, and who may read.
    pub policy: WritePolicy,
    /// Which refs have reflogs.
    pub log: LogPolicy,
    /// `Name <mail> seconds zone`, as it stands in a line of a reflog.
    pub who: Vec<u8>,
    /// How long a loose ref's lock is waited for (`core.filesRefLockTimeout`); `None` is forever.
    pub files_patience: Option<Duration>,
    /// The same for `packed-refs` (`core.packedRefsTimeout`).
    pub packed_patience: Option<Duration>,
    /// The same for a stack of reftables (`reftable.lockTimeout`).
    pub reftable_patience: Option<Duration>,
    /// How reftables are written.
    pub tables: TableWrites,
    /// The hooks to notify of transactions, if any.
    pub hooks: Option<Arc<Hooks>>,
}

/// `reftable.*`, as far as it says what tables look like.
#[derive(Debug, Clone, Copy)]
pub struct TableWrites {
    /// Blocks and what is in them.
    pub options: TableOptions,
    /// How many times as large as the next newer table each is at least (`reftable.geometricFactor`).
    pub factor: u16,
    /// Whether tables survive a power loss as soon as a list names them. False for a stack that is a copy.
    pub synced: bool,
}

impl TableWrites {
    fn of(config: &Config, hash: HashKind) -> Result<Self, Error> {
        let number = |name: &str, highest: i64, words: &str| -> Result<Option<i64>, Error> {
            match config.integer(name)? {
                Some(0) | None => Ok(None),
                Some(number) if (0..=highest).contains(&number) => Ok(Some(number)),
                Some(_) => Err(Reason::Config(format!("{words} cannot exceed {highest}")).into()),
            }
        };
        let default = TableOptions::new(hash);
        let block = number("reftable.blockSize", MAX_BLOCK_BYTES as i64, "reftable block size")?;
        let restarts = number("reftable.restartInterval", i64::from(u16::MAX), "reftable block size")?;
        let factor = number("reftable.geometricFactor", i64::from(MAX_FACTOR), "reftable geometric factor")?;
        Ok(TableWrites {
            options: TableOptions {
                block_bytes: block.map_or(default.block_bytes, |bytes: i64| bytes as usize),
                restart_interval: restarts.map_or(default.restart_interval, |count: i64| count as u16),
                index_objects: config.boolean("reftable.indexObjects")?.unwrap_or(default.index_objects),
                ..default
            },
            factor: factor.map_or(DEFAULT_FACTOR, |factor: i64| factor as u16),
            synced: true,
        })
    }
}

/// `core.logAllRefUpdates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPolicy {
    /// No reflog gets a line, even where there is one. Not in git: it saves a look at every ref.
    Never,
    /// Reflogs that there are get their lines.
    Existing,
    /// And they are begun for branches, remote-tracking refs, notes and `HEAD`.
    Branches,
    /// And for all refs.
    Always,
}

impl LogPolicy {
    /// Whether a reflog is begun for this ref.
    pub(super) fn begins(self, name: &[u8]) -> bool {
        let usual: [&[u8]; 3] = [b"refs/heads/", b"refs/remotes/", b"refs/notes/"];
        match self {
            LogPolicy::Never | LogPolicy::Existing => false,
            LogPolicy::Branches => name == b"HEAD" || usual.iter().any(|dir| name.starts_with(dir)),
            LogPolicy::Always => true,
        }
    }
}

impl RefWrites {
    /// The same for a copy of a stack of reftables, of which nothing needs to survive.
    pub fn of_copy(mut self) -> Self {
        self.policy = self.policy.unsynced();
        self.tables.synced = false;
        self
    }

    /// Reads the configuration.
    pub fn of(config: &Config, hash: HashKind, is_bare: bool, who: Vec<u8>) -> Result<Self, Error> {
        let log =
            match config.string("core.logAllRefUpdates").map(|value| value.to_ascii_lowercase()).as_deref() {
                Some(b"always") => LogPolicy::Always,
                Some(b"never") => LogPolicy::Never,
                _ => match config.boolean("core.logAllRefUpdates")? {
                    Some(true) => LogPolicy::Branches,
                    Some(false) => LogPolicy::Existing,
                    None if is_bare => LogPolicy::Existing,
                    None => LogPolicy::Branches,
                },
            };
        let policy = WritePolicy::of(config)?;
        // Every writer waits for the disk while it has the lock of the whole stack: git's 100 ms are for writers that do not.
        let reftable_patience = if policy.syncs(Component::Reference) { 1000 } else { 100 };
        Ok(RefWrites {
            policy,
            log,
            who,
            files_patience: patience(config, "core.filesRefLockTimeout", 100)?,
            packed_patience: patience(config, "core.packedRefsTimeout", 1000)?,
            reftable_patience: patience(config, "reftable.lockTimeout", reftable_patience)?,
            tables: TableWrites::of(config, hash)?,
            hooks: None,
        })
    }
}

/// Milliseconds; a negative number is forever (git-config).
fn patience(config: &Config, name: &str, default: i64) -> Result<Option<Duration>, Error> {
    let millis = config.integer(name)?.unwrap_or(default);
    Ok(u64::try_from(millis).ok().map(Duration::from_millis))
}
