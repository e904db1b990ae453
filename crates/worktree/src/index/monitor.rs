//! What a file system monitor has said of entries (gitformat-index, "File System Monitor cache").
//!
//! The monitor is not asked here. Its last token stays, so git learns of every change of a file since then, and an entry that changed
//! here counts as changed until git has compared its file.

use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

use packrace_format::index_file::Monitored;
use packrace_store::{Config, parse_boolean};

use super::{EntryKey, Index, IndexEntry};

/// The extension of an index in memory.
#[derive(Debug, Clone)]
pub(super) struct Monitor {
    token: Vec<u8>,
    /// Entries whose files may have changed before the token; also some that are gone.
    dirty: HashSet<EntryKey>,
}

impl Monitor {
    pub(super) fn new(stored: Monitored, entries: &[(EntryKey, IndexEntry)]) -> Self {
        let dirty = stored.dirty.iter().filter_map(|position| entries.get(*position as usize));
        Monitor { dirty: dirty.map(|(key, _)| key.clone()).collect(), token: stored.token }
    }

    pub(super) fn stored(&self, entries: &BTreeMap<EntryKey, IndexEntry>) -> Monitored {
        let dirty = (0..).zip(entries.keys()).filter(|(_, key)| self.dirty.contains(*key));
        Monitored { token: self.token.clone(), dirty: dirty.map(|(position, _)| position).collect() }
    }
}

/// Whether there is a file system monitor (`core.fsmonitor`).
pub fn is_monitored(config: &Config) -> bool {
    let value = config.string("core.fsmonitor");
    value.is_some_and(|value| !value.is_empty() && parse_boolean(&value) != Some(false))
}

impl Index {
    /// Begins to keep what a monitor says, of which nothing is known yet, or forgets it.
    pub fn set_monitored(&mut self, is_on: bool) {
        if is_on && self.monitor.is_some() {
            return;
        }
        // Git's first token is the time, in nanoseconds.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let dirty = || self.entries.keys().cloned().collect();
        self.monitor = is_on.then(|| Monitor { token: now.to_string().into_bytes(), dirty: dirty() });
        self.is_changed = true;
    }

    /// Says whether the file of a stage 0 entry is as the entry says, if what a monitor says is kept.
    pub fn set_monitor_valid(&mut self, path: &[u8], is_valid: bool) {
        let key = EntryKey::new(path, 0);
        match &mut self.monitor {
            Some(monitor) if is_valid => drop(monitor.dirty.remove(&key)),
            _ => self.doubt(&key),
        }
    }

    /// What the monitor has said of an entry counts no longer.
    pub(super) fn doubt(&mut self, key: &EntryKey) {
        if let Some(monitor) = &mut self.monitor {
            monitor.dirty.insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use packrace_store::publish::ObjectsStored;
    use packrace_store::{OpenOptions, Repository};
    use packrace_testkit::Git;

    use super::super::IndexLock;
    use super::*;

    /// What git says of each entry: `h` if its file need not be looked at.
    fn flags(dir: &Path) -> String {
        Git::stock().run(dir, &["ls-files", "-f"]).replace('\n', " ")
    }

    /// Changes the index of a work tree of three files, all of which a monitor has said to be unchanged.
    fn check(change: impl FnOnce(&mut Index), expect: &str) {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| Git::stock().run(dir.path(), arguments);
        git(&["init", "-q", "."]);
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let monitor = dir.path().join(".git/monitor");
        packrace_testkit::write_program(&monitor, "#!/bin/sh\nprintf 'token\\0'\n");
        git(&["add", "."]);
        git(&["config", "core.fsmonitor", ".git/monitor"]);
        git(&["update-index", "--fsmonitor"]);
        git(&["status"]);
        assert_eq!(flags(dir.path()), "h a h b h c ");
        let repository = Repository::open(&dir.path().join(".git"), &OpenOptions::default()).unwrap();
        let mut lock = IndexLock::take(&repository).unwrap();
        change(lock.index_mut());
        lock.commit(&ObjectsStored::earlier(), &mut |_, _| false).unwrap();
        assert_eq!(flags(dir.path()), expect);
        let bytes = std::fs::read(repository.index_file()).unwrap();
        let is_kept = bytes.windows(4).any(|window| window == b"FSMN");
        assert_eq!(is_kept, expect.contains('h'));
        git(&["status"]);
        let unset = ["config", "--unset", "core.fsmonitor"];
        git(&unset);
        let repository = Repository::open(&dir.path().join(".git"), &OpenOptions::default()).unwrap();
        assert!(Index::read(&repository).unwrap().monitor.is_none());
    }

    #[test]
    fn what_did_not_change_stays_valid() {
        check(Index::mark_changed, "h a h b h c ");
        check(|index| assert!(index.set_executable(b"b", true)), "h a H b h c ");
        check(|index| assert!(index.remove(b"a")), "h b h c ");
        let copy = |index: &mut Index| {
            let entry = *index.get(b"a", 0).unwrap();
            index.insert(b"a0", 0, entry);
        };
        check(copy, "h a H a0 h b h c ");
        let doubted = |index: &mut Index| {
            index.set_monitor_valid(b"c", false);
            index.set_monitor_valid(b"b", false);
            index.set_monitor_valid(b"c", true);
            index.mark_changed();
        };
        check(doubted, "h a H b h c ");
        check(|index| index.set_monitored(true), "h a h b h c ");
    }

    #[test]
    fn nothing_is_kept_of_what_git_numbers_otherwise() {
        check(|index| index.set_monitored(false), "H a H b H c ");
        check(|index| index.set_split(true), "H a H b H c ");
    }
}
