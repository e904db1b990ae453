//! Sparse directory entries when an index is written (gitformat-index, "Sparse Directory Entries"; git-sparse-checkout, "INTERNALS —
//! SPARSE INDEX").

use packrace_format::index_file::CacheTree;
use packrace_object::ObjectId;
use packrace_os::trace;
use packrace_store::Repository;
use packrace_store::publish::ObjectBatch;

use super::sparse::may_be_sparse;
use super::write_tree::TreeError;
use super::{EntryKey, Index, IndexEntry, IndexError, Mode};
use crate::paths::SparseCheckout;

/// Deepest directory that is looked at (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// Which directories may stand for their contents: those outside of the cone.
#[derive(Debug)]
pub(super) struct FoldRules(SparseCheckout);

/// The entries of an index file, some of which are directories, and their cached trees.
pub(super) struct FoldedEntries {
    pub(super) entries: Vec<(EntryKey, IndexEntry)>,
    pub(super) cache_tree: CacheTree,
}

impl FoldRules {
    /// `None` if no index is to be sparse (git-config, `index.sparse`): without a cone, or without its patterns.
    pub(super) fn of(repository: &Repository) -> Result<Option<Self>, IndexError> {
        if !may_be_sparse(repository.config())? {
            return Ok(None);
        }
        let patterns = SparseCheckout::open_cone(repository)?;
        patterns.iter().for_each(SparseCheckout::warn);
        Ok(patterns.filter(SparseCheckout::is_cone).map(FoldRules))
    }

    /// The topmost directories outside of the cone of which no file is in the work tree, in conflict, or a submodule;
    /// `None` if anything is in conflict: then git folds none.
    pub(super) fn dirs(&self, index: &Index) -> Option<Vec<Vec<u8>>> {
        if index.is_unmerged() {
            return None;
        }
        let entries: Vec<(&EntryKey, &IndexEntry)> = index.entries().collect();
        let mut dirs = Vec::new();
        self.collect(&entries, 0, 0, &mut dirs);
        Some(dirs)
    }

    /// Whether the entries, all in one directory, may be replaced by it; if not, collects the directories in it that may. The
    /// directory's path is a prefix of theirs with the given length.
    fn collect(
        &self,
        entries: &[(&EntryKey, &IndexEntry)],
        dir_bytes: usize,
        depth: usize,
        dirs: &mut Vec<Vec<u8>>,
    ) -> bool {
        let (before, mut may_fold, mut at) = (dirs.len(), dir_bytes > 0 && depth < MAX_DEPTH, 0);
        while let Some((key, entry)) = entries.get(at).filter(|_| depth < MAX_DEPTH) {
            let rest = &key.path()[dir_bytes..];
            let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
                may_fold &= is_foldable(key, entry);
                at += 1;
                continue;
            };
            let below = dir_bytes + slash + 1;
            let prefix = &key.path()[..below];
            let length = entries[at..].partition_point(|(key, _)| key.path().starts_with(prefix));
            let inside = &entries[at..at + length];
            // As in git, which finds no tree for it then, and goes no further.
            let has_intent = inside.iter().any(|(_, entry)| entry.intent_to_add);
            match !has_intent && self.collect(inside, below, depth + 1, dirs) {
                true => dirs.push(prefix[..below - 1].to_vec()),
                false => may_fold = false,
            }
            at += length;
        }
        may_fold &= entries.first().is_some_and(|(key, _)| {
            // The top is not asked for.
            let dir = &key.path()[..dir_bytes.saturating_sub(1)];
            may_fold && !self.0.contains_dir(dir)
        });
        if may_fold {
            dirs.truncate(before);
        }
        may_fold
    }
}

/// Whether a directory may stand for this entry.
fn is_foldable(key: &EntryKey, entry: &IndexEntry) -> bool {
    key.stage() == 0 && entry.skip_worktree && !entry.intent_to_add && entry.mode != Mode::Gitlink
}

impl Index {
    /// Before changes: as git reads it, an index that is to be sparse has directories already.
    pub(super) fn fold_as_read(&mut self, rules: Option<&FoldRules>) {
        if let Some(rules) =
            rules.filter(|_| self.folded.is_none() && self.shared.is_none() && !self.is_empty())
        {
            self.folded = rules.dirs(self);
            self.monitor.take_if(|_| self.folded.is_some());
        }
    }

    /// Chooses the directories that are to stand for their contents, and stores trees where they are not known.
    pub(super) fn fold(&mut self, rules: &FoldRules, batch: &ObjectBatch) -> Result<(), IndexError> {
        if self.folded.as_ref().is_some_and(|dirs| self.walk_folded(dirs, &mut |_, _| {}).is_some()) {
            return Ok(());
        }
        let _region = trace::region("index", "convert_to_sparse");
        self.folded = rules.dirs(self);
        if self.folded.is_some() {
            match self.write_tree(batch, b"", true) {
                Ok(_) => {}
                Err(TreeError::Store(error)) => return Err(error.into()),
                // It has no trees, and is written whole.
                Err(_) => self.folded = None,
            }
        }
        Ok(())
    }

    /// The entries as they are written beside these directories; `None` if one of them is not what its tree says.
    pub(super) fn folded_entries(&self, dirs: &[Vec<u8>]) -> Option<FoldedEntries> {
        let mut entries = Vec::new();
        let trees = self.walk_folded(dirs, &mut |key, entry| entries.push((key.clone(), *entry)))?;
        let mut cache_tree = self.cache_tree.clone().unwrap_or_default();
        for (dir, id) in dirs.iter().zip(trees) {
            cache_tree.replace(dir, CacheTree::new(Some((1, id)), Vec::new()));
        }
        Some(FoldedEntries { entries, cache_tree })
    }

    /// Calls `each` for what is written beside these directories, and returns their trees; `None` if one of them is not what its
    /// tree says.
    fn walk_folded(
        &self,
        dirs: &[Vec<u8>],
        each: &mut dyn FnMut(&EntryKey, &IndexEntry),
    ) -> Option<Vec<ObjectId>> {
        if self.cache_tree.is_none() && !dirs.is_empty() {
            return None;
        }
        let mut trees = Vec::with_capacity(dirs.len());
        let mut all = self.entries.iter().peekable();
        for dir in dirs {
            let prefix = [dir.as_slice(), b"/"].concat();
            while let Some((key, entry)) = all.next_if(|(key, _)| key.path() < prefix.as_slice()) {
                each(key, entry);
            }
            let (count, id) = self.cache_tree.as_ref()?.at(dir)?.known?;
            for _ in 0..count {
                all.next_if(|(key, entry)| key.path().starts_with(&prefix) && is_foldable(key, entry))?;
            }
            if count == 0 || all.peek().is_some_and(|(key, _)| key.path().starts_with(&prefix)) {
                return None;
            }
            each(
                &EntryKey::new(&prefix, 0),
                &IndexEntry { skip_worktree: true, ..IndexEntry::new(id, Mode::Dir) },
            );
            trees.push(id);
        }
        all.for_each(|(key, entry)| each(key, entry));
        Some(trees)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use packrace_store::OpenOptions;
    use packrace_store::publish::BatchOptions;
    use packrace_testkit::{Git, Random};

    use super::super::IndexLock;
    use super::*;

    fn git(dir: &Path, arguments: &[&str]) -> String {
        Git::stock().run(dir, arguments)
    }

    /// A work tree with a sparse index, in which the directories `out`, `out2` and `out3` stand for their contents.
    fn world() -> tempfile::TempDir {
        let dir = packrace_testkit::scratch_dir();
        git(dir.path(), &["init", "-q", "."]);
        for name in ["in/a", "out/b", "out/sub/c", "out-x", "out2/d", "out3/x/e", "top"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-q", "-m", "one"]);
        git(dir.path(), &["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
        git(dir.path(), &["config", "advice.sparseIndexExpanded", "false"]);
        dir
    }

    fn repository(dir: &Path) -> Repository {
        Repository::open(&dir.join(".git"), &OpenOptions::default()).unwrap()
    }

    /// Writes the index as the commands do.
    fn write(repository: &Repository, change: &dyn Fn(&mut Index)) -> Result<(), IndexError> {
        let mut lock = IndexLock::take(repository)?;
        change(lock.index_mut());
        lock.index_mut().mark_changed();
        let options = BatchOptions::of_work_tree(repository.config())?;
        let batch = ObjectBatch::new(repository.object_dir(), repository.snapshot()?, options);
        lock.fold(&batch)?;
        let stored = batch.publish()?.stored();
        lock.commit(&stored, &mut |_, _| false)
    }

    /// The names in the file of the index; `sdir` first if it is marked as sparse. Git must read the same from it.
    fn names(dir: &Path) -> String {
        let bytes = std::fs::read(dir.join(".git/index")).unwrap();
        let file = packrace_format::index_file::IndexFile::decode(&bytes, packrace_object::HashKind::Sha1);
        let file = file.unwrap();
        let listed = git(dir, &["ls-files", "-s", "-v"]);
        if !file.entries.iter().any(|(key, entry)| key.stage() > 0 || entry.intent_to_add) {
            let tree = git(dir, &["write-tree"]);
            git(dir, &["fsck", "--no-dangling"]);
            // The cached trees say the same as the entries.
            git(dir, &["-c", "index.sparse=false", "read-tree", "--no-sparse-checkout", tree.trim()]);
            let anew = git(dir, &["ls-files", "-s"]);
            let plain: Vec<&str> = listed.lines().map(|line| &line[2..]).collect();
            assert_eq!(anew.lines().collect::<Vec<_>>(), plain);
            std::fs::write(dir.join(".git/index"), bytes).unwrap();
        }
        let names = file.entries.iter().map(|(key, _)| format!(" {}", String::from_utf8_lossy(key.path())));
        format!("{}{}", if file.is_sparse { "sdir" } else { "whole" }, names.collect::<String>())
    }

    fn check(change: &dyn Fn(&mut Index), expect: &str) {
        let dir = world();
        write(&repository(dir.path()), change).unwrap();
        assert_eq!(names(dir.path()), expect);
    }

    fn copy(from: &'static [u8], to: &'static [u8], skip_worktree: bool) -> impl Fn(&mut Index) {
        move |index| {
            let entry = IndexEntry { skip_worktree, ..*index.get(from, 0).unwrap() };
            index.insert(to, 0, entry);
        }
    }

    #[test]
    fn directories_stay_or_become_others() {
        check(&|_| {}, "sdir in/a out-x out/ out2/ out3/ top");
        check(&copy(b"in/a", b"in/n", false), "sdir in/a in/n out-x out/ out2/ out3/ top");
        check(&copy(b"in/a", b"out/b", false), "sdir in/a out-x out/b out/sub/ out2/ out3/ top");
        check(&copy(b"in/a", b"out/b", true), "sdir in/a out-x out/ out2/ out3/ top");
        check(&copy(b"in/a", b"out3/x", true), "sdir in/a out-x out/ out2/ out3/ top");
        check(&copy(b"in/a", b"new/x", true), "sdir in/a new/x out-x out/ out2/ out3/ top");
        check(&|index| assert!(index.remove(b"out3/x/e")), "sdir in/a out-x out/ out2/ top");
        let both = |index: &mut Index| {
            index.remove(b"out2/d");
            copy(b"in/a", b"new/x", true)(index);
        };
        check(&both, "sdir in/a new/ out-x out/ out3/ top");
        let conflict = |index: &mut Index| {
            let entry = *index.get(b"in/a", 0).unwrap();
            index.insert(b"out/b", 2, entry);
        };
        check(&conflict, "whole in/a out-x out/b out/b out/sub/c out2/d out3/x/e top");
        let intent = |index: &mut Index| {
            let entry = IndexEntry { intent_to_add: true, ..*index.get(b"in/a", 0).unwrap() };
            index.insert(b"out/n", 0, entry);
        };
        check(&intent, "sdir in/a out-x out/b out/n out/sub/c out2/ out3/ top");
        let submodule = |index: &mut Index| {
            let id = index.get(b"in/a", 0).unwrap().id;
            let entry = IndexEntry { skip_worktree: true, ..IndexEntry::new(id, Mode::Gitlink) };
            index.insert(b"out/sub/m", 0, entry);
        };
        check(&submodule, "sdir in/a out-x out/b out/sub/c out/sub/m out2/ out3/ top");
    }

    #[test]
    fn settings_and_patterns_say_whether_it_is_sparse() {
        const WHOLE: &str = "whole in/a out-x out/b out/sub/c out2/d out3/x/e top";
        let check = |name: &str, value: &str, expect: &str| {
            let dir = world();
            git(dir.path(), &["config", "--worktree", name, value]);
            write(&repository(dir.path()), &|_| {}).unwrap();
            git(dir.path(), &["config", "--worktree", name, "true"]);
            assert_eq!(names(dir.path()), expect);
            // It becomes sparse again.
            write(&repository(dir.path()), &|_| {}).unwrap();
            assert_eq!(names(dir.path()), "sdir in/a out-x out/ out2/ out3/ top");
        };
        check("index.sparse", "true", "sdir in/a out-x out/ out2/ out3/ top");
        check("index.sparse", "false", WHOLE);
        check("core.sparseCheckout", "false", WHOLE);
        check("core.sparseCheckoutCone", "false", WHOLE);
        for patterns in [None, Some("/*\n!/*/\nin/\n")] {
            let dir = world();
            let file = dir.path().join(".git/info/sparse-checkout");
            match patterns {
                None => std::fs::remove_file(file).unwrap(),
                Some(patterns) => std::fs::write(file, patterns).unwrap(),
            }
            write(&repository(dir.path()), &|_| {}).unwrap();
            assert_eq!(names(dir.path()), WHOLE);
        }
    }

    #[test]
    fn damaged_ones_are_refused_or_written_well() {
        let dir = world();
        let repository = repository(dir.path());
        let whole = std::fs::read(repository.index_file()).unwrap();
        let end = whole.len() - 20;
        let mut random = Random::new(5);
        for _ in 0..1500 {
            let mut damaged = whole.clone();
            damaged[end..].fill(0);
            for _ in 0..1 + random.below(3) {
                damaged[random.below(end)] = random.next_u64() as u8;
            }
            std::fs::write(repository.index_file(), &damaged).unwrap();
            let Ok(before) = Index::read(&repository) else { continue };
            if write(&repository, &|_| {}).is_ok() {
                let after = Index::read(&repository).unwrap();
                let contents = |index: &Index| {
                    index.entries().map(|(key, entry)| (key.clone(), entry.id)).collect::<Vec<_>>()
                };
                assert_eq!(contents(&before), contents(&after));
            }
        }
    }
}
