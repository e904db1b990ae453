//! An index in two files: what has changed, and a shared index that stays (git-update-index, "Split index").

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use packrace_format::index_file::{EntryKey, IndexEntry, IndexParts, Split, encode, split};
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::{durable, trace};
use packrace_store::publish::{FileKind, WritePolicy, publish_file};
use packrace_store::{Config, Repository, expiry};

use super::sparse::may_be_sparse;
use super::{Index, IndexError};

/// What all shared indexes are called, before their checksum.
pub(super) const SHARED_PREFIX: &str = "sharedindex.";

const MAX_PERCENT_CHANGE: i64 = 20;

/// The shared index that an index belongs to.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) checksum: ObjectId,
    /// In ascending order.
    pub(super) entries: Vec<(EntryKey, IndexEntry)>,
    /// Those that were deleted, even if they were added again.
    pub(super) deleted: HashSet<EntryKey>,
}

impl Shared {
    pub(super) fn new(checksum: ObjectId, entries: Vec<(EntryKey, IndexEntry)>) -> Self {
        Shared { checksum, entries, deleted: HashSet::new() }
    }

    /// What an index holds beside it.
    pub(super) fn split<'a>(
        &self,
        entries: impl Iterator<Item = (&'a EntryKey, &'a IndexEntry)>,
    ) -> Split<'a> {
        split(entries, &self.entries, &self.deleted, self.checksum)
    }
}

/// What `core.splitIndex` says; as in git, a wrong value says nothing.
pub fn split_setting(config: &Config) -> Option<bool> {
    config.boolean("core.splitIndex").unwrap_or_default()
}

impl Index {
    /// Fails if git keeps this index sparse (git-config, "index.sparse"): it reads none that is split, too. One that is
    /// split already stays so.
    pub fn check_splittable(&self, repository: &Repository) -> Result<(), IndexError> {
        let has_patterns = || repository.git_dir().join("info/sparse-checkout").is_file();
        match may_be_sparse(repository.config())? && self.shared.is_none() && has_patterns() {
            true => Err(IndexError::SplitSparse),
            false => Ok(()),
        }
    }
}

/// Whether and how to split an index.
#[derive(Debug)]
pub(super) struct SplitRules {
    /// Shared indexes are in the git directory of the work tree, wherever the index itself is.
    dir: PathBuf,
    /// `core.splitIndex`.
    is_on: Option<bool>,
    /// `splitIndex.maxPercentChange`: at most this share of all entries may be added before everything is shared anew.
    max_percent: i64,
    /// `splitIndex.sharedIndexExpire`: other shared indexes are removed if they were last used before.
    expire: String,
    policy: WritePolicy,
}

impl SplitRules {
    /// `core.splitIndex`, `splitIndex.maxPercentChange` and `splitIndex.sharedIndexExpire` (git-config).
    pub(super) fn of(repository: &Repository, policy: WritePolicy) -> Result<Self, IndexError> {
        let config = repository.config();
        let is_on = split_setting(config);
        let max_percent = match config.integer("splitIndex.maxPercentChange") {
            // As in git, it counts as right where nothing asks to split.
            Err(_) if is_on != Some(true) => None,
            percent => percent?,
        };
        let expire = config.string("splitIndex.sharedIndexExpire").unwrap_or_else(|| b"2.weeks.ago".to_vec());
        Ok(SplitRules {
            dir: repository.git_dir().to_owned(),
            is_on,
            max_percent: max_percent.unwrap_or(MAX_PERCENT_CHANGE),
            expire: String::from_utf8_lossy(&expire).into_owned(),
            policy,
        })
    }

    /// Fails if `core.splitIndex` asks for what this index cannot be.
    pub(super) fn check(&self, index: &Index, repository: &Repository) -> Result<(), IndexError> {
        match self.is_on {
            Some(true) => index.check_splittable(repository),
            _ => Ok(()),
        }
    }

    /// Whether `core.splitIndex` asks for another form than the file has.
    pub(super) fn is_other(&self, index: &Index) -> bool {
        index.version.is_some() && self.is_on.is_some_and(|is_on| is_on != index.shared.is_some())
    }

    pub(super) fn is_to_be_split(&self, index: &Index) -> bool {
        index.splitting.or(self.is_on).unwrap_or(index.shared.is_some())
    }

    /// Gives the index the shared index that it is to be written beside, or none. It is durable before the index
    /// names it. If it is new, returns the time before which others expire.
    pub(super) fn apply(&self, index: &mut Index, version: u32) -> Result<Option<i64>, IndexError> {
        if !self.is_to_be_split(index) {
            index.shared = None;
        } else if let Some(shared) = index.shared.as_ref().filter(|shared| self.is_close(index, shared)) {
            // Its age counts from the last use. It is no error if somebody else's file cannot be touched.
            let _ = durable::touch(&self.path(&shared.checksum), Role::WorkTree);
        } else {
            let expire = expiry::expiry(&self.expire);
            let expire = expire.ok_or_else(|| IndexError::Expire(self.expire.clone()))?;
            index.shared = Some(self.share(index, version)?);
            return Ok(Some(expire));
        }
        Ok(None)
    }

    /// Whether the index is to be written beside the same shared index: only added entries count.
    fn is_close(&self, index: &Index, shared: &Shared) -> bool {
        if index.splitting == Some(true) {
            return false;
        }
        let max_percent = match self.max_percent {
            0 => return false,
            100 => return true,
            percent @ 1..100 => percent as usize,
            percent => {
                tracing::error!("splitIndex.maxPercentChange value '{percent}' should be between 0 and 100");
                MAX_PERCENT_CHANGE as usize
            }
        };
        let added = shared.split(index.entries.iter()).added;
        added * 100 <= index.entries.len() * max_percent
    }

    fn share(&self, index: &Index, version: u32) -> Result<Shared, IndexError> {
        // The checksum is the name, so it is never left out.
        let parts = IndexParts {
            cache_tree: None,
            resolve_undo: &[],
            untracked: None,
            monitored: None,
            is_sparse: false,
            link: None,
            skip_hash: false,
        };
        let (bytes, checksum) = encode(index.entries.iter(), version, &parts, index.hash);
        let path = self.path(&checksum);
        let _region = trace::region_with("index", "shared/do_write_index", &path);
        trace::data("index", "write/version", version);
        trace::data("index", "write/cache_nr", index.entries.len());
        publish_file(&path, &bytes, FileKind::WorkTreeIndex, self.policy).map_err(IndexError::Unwritten)?;
        let entries = index.entries.iter().map(|(key, entry)| (key.clone(), *entry)).collect();
        Ok(Shared::new(checksum, entries))
    }

    fn path(&self, checksum: &ObjectId) -> PathBuf {
        self.dir.join(format!("{SHARED_PREFIX}{checksum}"))
    }

    /// Removes shared indexes that nobody has used for long, once the index names `current`. What cannot be removed
    /// stays.
    pub(super) fn remove_expired(&self, current: &ObjectId, expire: i64) {
        let Ok(found) = packrace_os::list_dir(&self.dir, Role::WorkTree) else { return };
        let name = format!("{SHARED_PREFIX}{current}");
        let others =
            found.iter().map(|entry| &entry.name).filter(|other| other.as_os_str() != OsStr::new(&name));
        for other in others.filter(|other| other.as_encoded_bytes().starts_with(SHARED_PREFIX.as_bytes())) {
            let path = self.dir.join(other);
            let identity = packrace_os::identity(&path, Role::WorkTree).ok().flatten();
            let used = identity.and_then(|identity| identity.modified).map(super::time_of);
            if used.is_some_and(|used| i64::from(used.seconds) <= expire)
                && let Err(error) = durable::remove_file(&path, Role::WorkTree)
            {
                tracing::warn!("unable to unlink: {}: {error}", path.display());
            }
        }
    }
}
