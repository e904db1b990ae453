//! What a file system monitor has said of entries (gitformat-index, "File System Monitor cache").
//!
//! A hook is asked (githooks, "fsmonitor-watchman"), git's own daemon is not: then its last token stays, so that git learns of every
//! change of a file since then. An entry that changed here counts as changed until its file has been compared.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use packrace_format::index_file::Monitored;
use packrace_store::{Config, parse_boolean};

/// The path that stands for all others.
const EVERYTHING: &[u8] = b"/";

/// The longest answer of a hook that is read: behind one that is longer, all files are looked at.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

use super::{EntryKey, Index, IndexEntry, Mode};

/// The extension of an index in memory.
#[derive(Debug, Clone)]
pub(super) struct Monitor {
    token: Vec<u8>,
    /// Entries whose files may have changed before the token; also some that are gone.
    dirty: HashSet<EntryKey>,
    /// Whether the monitor was asked since the index was read.
    is_asked: bool,
}

/// What a hook says.
struct MonitorAnswer {
    token: Vec<u8>,
    /// Ends of paths are NUL.
    changed: Vec<u8>,
}

impl Monitor {
    pub(super) fn new(stored: Monitored, entries: &[(EntryKey, IndexEntry)]) -> Self {
        let dirty = stored.dirty.iter().filter_map(|position| entries.get(*position as usize));
        Monitor { dirty: dirty.map(|(key, _)| key.clone()).collect(), token: stored.token, is_asked: false }
    }

    /// Of what is in directories of a sparse index, nothing is known.
    pub(super) fn doubt_skipped(&mut self, entries: &[(EntryKey, IndexEntry)]) {
        let skipped = entries.iter().filter(|(_, entry)| entry.skip_worktree);
        self.dirty.extend(skipped.map(|(key, _)| key.clone()));
    }

    /// As it is stored beside these entries. As in git, nothing is known of directories of a sparse index.
    pub(super) fn stored<'a>(
        &self,
        entries: impl Iterator<Item = (&'a EntryKey, &'a IndexEntry)>,
    ) -> Monitored {
        let is_dirty =
            |(key, entry): (&EntryKey, &IndexEntry)| entry.mode == Mode::Dir || self.dirty.contains(key);
        let dirty = (0..).zip(entries).filter(|(_, entry)| is_dirty(*entry));
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
        let dirty = || self.entries.keys().cloned().collect();
        self.monitor = is_on.then(|| Monitor { token: token_of_now(), dirty: dirty(), is_asked: false });
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

    /// Asks the hook of `core.fsmonitor` which files have changed, if the index keeps what it says. All have, if it fails.
    pub fn ask_monitor(&mut self, config: &Config, top: &Path) -> Result<(), packrace_store::Error> {
        let hook = config.string("core.fsmonitor").filter(|value| parse_boolean(value).is_none());
        // Where the case of names does not count, what a hook calls a file need not be what the index calls it.
        let hook = hook.filter(|_| config.boolean("core.ignoreCase").is_ok_and(|folds| folds != Some(true)));
        let (Some(hook), Some(monitor)) = (hook, &mut self.monitor) else { return Ok(()) };
        let versions: &[u8] = match config.integer("core.fsmonitorHookVersion")? {
            Some(1) => b"1",
            Some(2) => b"2",
            None | Some(-1) => b"21",
            Some(other) => {
                let must = "Must be 1 or 2.";
                tracing::warn!("Invalid hook version '{other}' in core.fsmonitorhookversion. {must}");
                b"21"
            }
        };
        let now = token_of_now();
        let answer = versions.iter().find_map(|version| ask(&hook, top, *version, &monitor.token, &now));
        let MonitorAnswer { token, changed } =
            answer.unwrap_or(MonitorAnswer { token: now, changed: EVERYTHING.to_vec() });
        (monitor.token, monitor.is_asked) = (token, true);
        for path in changed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let dir = path.strip_suffix(b"/").unwrap_or(path);
            let doubted = self.range_below(dir).map(|(key, _)| key.clone());
            let doubted: Vec<EntryKey> = doubted.chain([EntryKey::new(path, 0)]).collect();
            doubted.iter().for_each(|key| self.doubt(key));
        }
        Ok(())
    }

    /// Whether the monitor has just said that the file of a stage 0 entry is as the entry says.
    pub(crate) fn is_unchanged(&self, path: &[u8], entry: &IndexEntry) -> bool {
        let is_file = entry.mode != Mode::Gitlink && !entry.intent_to_add;
        let asked = self.monitor.as_ref().filter(|monitor| monitor.is_asked && is_file);
        asked.is_some_and(|monitor| !monitor.dirty.contains(&EntryKey::new(path, 0)))
    }

    /// Says that files which have been looked at since the monitor was asked are as their entries say.
    pub(super) fn trust(&mut self, compared: &[EntryKey]) {
        let Some(monitor) = self.monitor.as_mut().filter(|monitor| monitor.is_asked) else { return };
        for key in compared {
            self.is_changed |= monitor.dirty.remove(key);
        }
    }

    /// What the monitor has said of an entry counts no longer.
    pub(super) fn doubt(&mut self, key: &EntryKey) {
        if let Some(monitor) = &mut self.monitor {
            monitor.dirty.insert(key.clone());
        }
    }
}

/// Git's first token is the time, in nanoseconds; so is every one of a hook of version 1, which gives none.
fn token_of_now() -> Vec<u8> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    now.to_string().into_bytes()
}

/// Runs the hook at the top of the work tree; `None` if it fails, or says too much.
fn ask(hook: &[u8], top: &Path, version: u8, token: &[u8], now: &[u8]) -> Option<MonitorAnswer> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let script = text(&[hook, b" \"$@\""].concat());
    let argv = ["/bin/sh".into(), "-c".into(), script, text(hook), text(&[version]), text(token)];
    let started = packrace_os::child::spawn(&argv, |command| {
        command.current_dir(top).stdin(Stdio::null()).stdout(Stdio::piped());
    });
    let mut child = started.ok()?;
    let mut said = Vec::new();
    let read = child.stdout.take()?.take(MAX_ANSWER_BYTES).read_to_end(&mut said);
    let is_whole = read.is_ok_and(|bytes| (bytes as u64) < MAX_ANSWER_BYTES);
    if !child.wait().ok()?.success() || !is_whole {
        return None;
    }
    if version == b'1' {
        return Some(MonitorAnswer { token: now.to_vec(), changed: said });
    }
    // More careful than git, which believes an answer without a whole token.
    let end = said.iter().position(|byte| *byte == 0);
    let mut changed = said.split_off(end.unwrap_or(said.len()));
    if said.is_empty() || end.is_none() {
        changed = EVERYTHING.to_vec();
    }
    if said.is_empty() {
        tracing::warn!("Empty last update token.");
    }
    Some(MonitorAnswer { token: said, changed })
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
