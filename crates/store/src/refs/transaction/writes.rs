use std::sync::Arc;
use std::time::Duration;

use packrace_format::reftable::{DEFAULT_FACTOR, MAX_BLOCK_BYTES, MAX_FACTOR, TableOptions};
use packrace_object::HashKind;

use crate::config::Config;
use crate::error::{Error, Reason};
use crate::hooks::Hooks;
use crate::publish::{Component, WritePolicy};

/// How refs are written: the configuration, and the identity for reflogs.
#[derive(Debug, Clone)]
pub struct RefWrites {
    /// What is synced, and who may read.
    pub policy: WritePolicy,
    /// Which refs have reflogs.
    pub log: LogPolicy,
    /// `Name <mail> seconds zone`, as in a line of a reflog.
    pub who: Vec<u8>,
    /// How long to wait for a loose ref's lock (`core.filesRefLockTimeout`); `None` is forever.
    pub files_patience: Option<Duration>,
    /// As above, for `packed-refs` (`core.packedRefsTimeout`).
    pub packed_patience: Option<Duration>,
    /// As above, for a stack of reftables (`reftable.lockTimeout`).
    pub reftable_patience: Option<Duration>,
    /// How reftables are written.
    pub tables: TableWrites,
    /// The hooks to notify of transactions, if any.
    pub hooks: Option<Arc<Hooks>>,
    /// Whether nothing may change: the objects of a push are in quarantine (`GIT_QUARANTINE_PATH`).
    pub is_quarantined: bool,
}

/// The settings of `reftable.*` that determine the layout of tables.
#[derive(Debug, Clone, Copy)]
pub struct TableWrites {
    /// Block size and contents of tables.
    pub options: TableOptions,
    /// Each table is at least this many times as large as the next newer one (`reftable.geometricFactor`).
    pub factor: u16,
    /// Whether tables are merged after a change. Otherwise only `pack-refs` merges them.
    pub compacts: bool,
    /// Whether tables survive a power loss once a list names them. False for a copied stack.
    pub synced: bool,
}

impl TableWrites {
    fn new(hash: HashKind) -> Self {
        TableWrites { options: TableOptions::new(hash), factor: DEFAULT_FACTOR, compacts: true, synced: true }
    }

    fn of(config: &Config, hash: HashKind) -> Result<Self, Error> {
        let number = |name: &str, highest: i64, words: &str| -> Result<Option<i64>, Error> {
            match config.integer(name)? {
                Some(0) | None => Ok(None),
                Some(number) if (0..=highest).contains(&number) => Ok(Some(number)),
                Some(number) if number < 0 => {
                    let name = name.to_ascii_lowercase();
                    let words = format!("bad numeric config value '{number}' for '{name}': invalid unit");
                    Err(Reason::Config(words).into())
                }
                Some(_) => Err(Reason::Config(format!("{words} cannot exceed {}", shown(highest))).into()),
            }
        };
        let TableWrites { options: default, .. } = Self::new(hash);
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
            ..Self::new(hash)
        })
    }
}

/// A highest value, as git shows it.
fn shown(highest: i64) -> String {
    if highest == MAX_BLOCK_BYTES as i64 { "16MB".to_owned() } else { highest.to_string() }
}

/// `core.logAllRefUpdates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPolicy {
    /// No reflog gets a line, not even an existing one. Not in git: saves a lookup per ref.
    Never,
    /// Existing reflogs get lines.
    Existing,
    /// Also creates them for branches, remote-tracking refs, notes and `HEAD`.
    Branches,
    /// Also creates them for all refs.
    Always,
}

impl LogPolicy {
    /// Whether a reflog is created for this ref.
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
    /// For a copied stack of reftables, none of which needs to survive.
    pub fn of_copy(mut self) -> Self {
        self.policy = self.policy.unsynced();
        self.tables.synced = false;
        self
    }

    /// Reads the configuration.
    pub fn of(config: &Config, hash: HashKind, is_bare: bool, who: Vec<u8>) -> Result<Self, Error> {
        config.need_values(&["core.logAllRefUpdates"])?;
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
        // Every writer syncs while it holds the lock of the whole stack: git's 100 ms suit writers
        // that do not sync.
        let reftable_patience = if policy.syncs(Component::Reference) { 1000 } else { 100 };
        // Where there are none, wrong settings of reftables do no harm.
        let has_tables =
            config.string("extensions.refStorage").is_some_and(|text| text.starts_with(b"reftable"));
        let tables = match TableWrites::of(config, hash) {
            Err(_) if !has_tables => TableWrites::new(hash),
            tables => tables?,
        };
        let reftable_patience = match config.integer("reftable.lockTimeout") {
            Err(_) if !has_tables => reftable_patience,
            Ok(Some(..-1)) if has_tables => {
                let words = "reftable lock timeout does not support negative values other than -1";
                return Err(Reason::Config(words.to_owned()).into());
            }
            millis => millis?.unwrap_or(reftable_patience),
        };
        Ok(RefWrites {
            policy,
            log,
            who,
            files_patience: patience(config.integer("core.filesRefLockTimeout")?.unwrap_or(100)),
            packed_patience: patience(config.integer("core.packedRefsTimeout")?.unwrap_or(1000)),
            reftable_patience: patience(reftable_patience),
            tables,
            hooks: None,
            is_quarantined: false,
        })
    }
}

/// Milliseconds; a negative number is forever (git-config).
fn patience(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}
