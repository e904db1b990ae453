//! Writes trees from an index.

use packrace_object::tree::TreeEntry;
use packrace_object::{Kind as ObjectKind, ObjectId, object_id};
use packrace_os::trace;
use packrace_store::publish::ObjectBatch;

use super::{CacheTree, EntryKey, Index, IndexEntry, Mode};

/// Maximum number of conflicts that are listed.
const MAX_LISTED: usize = 10;

/// Deepest directory that is written as a tree (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// Why an index cannot be written as trees.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// These paths are in conflict; the last line may be `...`.
    #[error("error building trees")]
    Unmerged(Vec<Vec<u8>>),
    /// The object of an entry is missing, or cannot exist.
    #[error("invalid object {mode:06o} {id} for '{}'", String::from_utf8_lossy(.path))]
    Missing {
        /// The mode of the entry.
        mode: u32,
        /// Its object.
        id: ObjectId,
        /// Its path.
        path: Vec<u8>,
    },
    /// Directories are nested deeper than git allows.
    #[error("exceeded maximum allowed tree depth")]
    TooDeep,
    /// A tree could not be stored.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// The content of a tree looks like an attack on its hash.
    #[error(transparent)]
    Attack(#[from] packrace_object::CollisionAttack),
}

/// Where trees are stored, and objects of entries are looked for.
pub trait TreeStore {
    /// Whether it has an object.
    fn contains(&self, id: &ObjectId) -> Result<bool, TreeError>;

    /// Fetches missing objects in one request, where that is possible. False if the repository is no partial clone.
    fn prefetch(&self, ids: &mut dyn Iterator<Item = ObjectId>) -> Result<bool, TreeError>;

    /// Adds a tree.
    fn add_tree(&self, id: ObjectId, content: Vec<u8>) -> Result<(), TreeError>;
}

impl TreeStore for ObjectBatch {
    fn contains(&self, id: &ObjectId) -> Result<bool, TreeError> {
        Ok(ObjectBatch::contains(self, id)?)
    }

    fn prefetch(&self, ids: &mut dyn Iterator<Item = ObjectId>) -> Result<bool, TreeError> {
        self.existing().prefetch(ids)?;
        Ok(self.existing().can_fetch())
    }

    fn add_tree(&self, id: ObjectId, content: Vec<u8>) -> Result<(), TreeError> {
        self.add(&id, ObjectKind::Tree, &content)?;
        Ok(())
    }
}

impl Index {
    /// Writes and caches the trees of all directories, and returns the tree of `dir`, if that directory
    /// exists; the top is "". Does not rewrite cached trees. Intent-to-add entries are in no tree.
    pub fn write_tree(
        &mut self,
        store: &dyn TreeStore,
        dir: &[u8],
        missing_ok: bool,
    ) -> Result<Option<ObjectId>, TreeError> {
        let (built, found) = self.build(store, dir, missing_ok)?;
        let found = if dir.is_empty() { Some(built.id) } else { found };
        self.set_cache_tree(built.tree);
        Ok(found.or_else(|| self.known_tree(dir)))
    }

    /// Adds the trees of all directories, but for cached ones, and returns that of the top; caches nothing. The
    /// objects of entries that are in no cached tree must be there.
    pub fn make_tree(&self, store: &dyn TreeStore) -> Result<ObjectId, TreeError> {
        Ok(self.build(store, b"", false)?.0.id)
    }

    /// Builds the tree of the top, and that of `dir` unless it is cached.
    fn build(
        &self,
        store: &dyn TreeStore,
        dir: &[u8],
        missing_ok: bool,
    ) -> Result<(Built, Option<ObjectId>), TreeError> {
        let unmerged = self.entries().filter(|(key, _)| key.stage() > 0);
        let mut listed: Vec<Vec<u8>> = unmerged
            .take(MAX_LISTED + 1)
            .map(|(key, entry)| [key.path(), format!(": unmerged ({})", entry.id).as_bytes()].concat())
            .collect();
        if listed.len() > MAX_LISTED {
            listed[MAX_LISTED] = b"...".to_vec();
        }
        if !listed.is_empty() {
            return Err(TreeError::Unmerged(listed));
        }
        let is_known = self.cache_tree.as_ref().is_some_and(|tree| tree.known.is_some());
        let _region = if is_known { None } else { trace::region("cache_tree", "update") };
        let entries: Vec<(&EntryKey, &IndexEntry)> = self.entries.iter().collect();
        let wanted = entries.iter().filter(|(_, entry)| !entry.skip_worktree && entry.mode != Mode::Gitlink);
        let is_partial = !missing_ok && store.prefetch(&mut wanted.map(|(_, entry)| entry.id))?;
        let mut builder = Builder { hash: self.hash, store, missing_ok, is_partial, dir, found: None };
        let built = builder.build(&entries, 0, self.cache_tree.as_ref(), 0)?;
        Ok((built, builder.found))
    }

    fn known_tree(&self, dir: &[u8]) -> Option<ObjectId> {
        let mut tree = self.cache_tree.as_ref()?;
        for name in dir.split(|byte| *byte == b'/') {
            tree = tree.child(name)?;
        }
        tree.known.map(|(_, id)| id)
    }
}

struct Builder<'a> {
    hash: packrace_object::HashKind,
    store: &'a dyn TreeStore,
    missing_ok: bool,
    /// A partial clone may lack what is not in the work tree.
    is_partial: bool,
    /// The directory of the returned tree.
    dir: &'a [u8],
    /// Its tree, if it had to be written.
    found: Option<ObjectId>,
}

/// A tree, and its entry in the cache.
struct Built {
    id: ObjectId,
    tree: CacheTree,
    is_empty: bool,
}

impl Builder<'_> {
    /// Writes the tree of entries in one directory; the directory's path is a prefix of theirs with the given
    /// length.
    fn build(
        &mut self,
        entries: &[(&EntryKey, &IndexEntry)],
        dir_bytes: usize,
        cached: Option<&CacheTree>,
        depth: usize,
    ) -> Result<Built, TreeError> {
        if depth == MAX_DEPTH {
            return Err(TreeError::TooDeep);
        }
        if let Some(tree) = cached
            && let Some((count, id)) = tree.known
            && count as usize == entries.len()
            && self.store.contains(&id)?
        {
            return Ok(Built { id, tree: tree.clone(), is_empty: false });
        }
        let mut content = Vec::new();
        let mut children: Vec<(Box<[u8]>, CacheTree)> = Vec::new();
        // If an entry is left out, the tree does not represent all entries.
        let mut is_whole = true;
        let mut at = 0;
        while let Some((key, entry)) = entries.get(at) {
            let rest = &key.path()[dir_bytes..];
            let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
                at += 1;
                if entry.intent_to_add {
                    is_whole = false;
                } else {
                    self.check(key, entry)?;
                    TreeEntry { mode: entry.mode.bits(), name: rest, id: &entry.id }.append_to(&mut content);
                }
                continue;
            };
            let (name, below) = (&rest[..slash], dir_bytes + slash + 1);
            let prefix = &key.path()[..below];
            let length = entries[at..].partition_point(|(key, _)| key.path().starts_with(prefix));
            let child = cached.and_then(|tree| tree.child(name));
            let built = self.build(&entries[at..at + length], below, child, depth + 1)?;
            at += length;
            is_whole &= built.tree.known.is_some();
            if self.dir == &prefix[..below - 1] {
                self.found = Some(built.id);
            }
            if !built.is_empty {
                TreeEntry { mode: Mode::Dir.bits(), name, id: &built.id }.append_to(&mut content);
            }
            children.push((name.into(), built.tree));
        }
        let id = object_id(self.hash, ObjectKind::Tree, &content)?;
        let is_empty = content.is_empty() && dir_bytes > 0;
        if !is_empty {
            self.store.add_tree(id, content)?;
        }
        let known = is_whole.then_some((entries.len() as u32, id));
        Ok(Built { id, tree: CacheTree::new(known, children), is_empty })
    }

    fn check(&self, key: &EntryKey, entry: &IndexEntry) -> Result<(), TreeError> {
        let is_left_out = self.is_partial && entry.skip_worktree;
        let may_miss = self.missing_ok || is_left_out || entry.mode == Mode::Gitlink;
        // No object has the null id, whatever may be missing.
        if !entry.id.is_null() && (may_miss || self.store.contains(&entry.id)?) {
            return Ok(());
        }
        Err(TreeError::Missing { mode: entry.mode.bits(), id: entry.id, path: key.path().to_vec() })
    }
}
