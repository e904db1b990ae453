//! What a file system monitor has said of entries (gitformat-index, "File System Monitor cache").
//!
//! A hook is asked (githooks, "fsmonitor-watchman"), or git's own daemon. An entry that changed here counts as changed until its file has
//! been compared.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use packrace_format::index_file::Monitored;
use packrace_os::trace::{self, ChildClass, TracedChild};
use packrace_store::{Config, Repository, parse_boolean};

use super::answer::{MAX_ANSWER_BYTES, MonitorAnswer};
use super::daemon::{self, NO_TOKEN};
use super::{EntryKey, Index, IndexEntry, Mode};

/// The path that stands for all others.
const EVERYTHING: &[u8] = b"/";

/// The extension of an index in memory.
#[derive(Debug, Clone)]
pub(super) struct Monitor {
    token: Vec<u8>,
    /// Entries whose files may have changed before the token; also some that are gone.
    dirty: HashSet<EntryKey>,
    /// Whether the monitor was asked since the index was read.
    is_asked: bool,
}

/// Whom to ask (`core.fsmonitor`).
enum Source {
    /// Git's own daemon.
    Daemon,
    /// A program.
    Hook(Vec<u8>),
}

impl Source {
    fn of(config: &Config) -> Option<Self> {
        let value = config.string("core.fsmonitor").filter(|value| !value.is_empty())?;
        match parse_boolean(&value) {
            None => Some(Source::Hook(value)),
            Some(true) => Some(Source::Daemon),
            Some(false) => None,
        }
    }

    /// The token of those who know none. Git's is the time, in nanoseconds, for hooks.
    fn first_token(&self) -> Vec<u8> {
        match self {
            Source::Daemon => NO_TOKEN.to_vec(),
            Source::Hook(_) => token_of_now(),
        }
    }
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
    Source::of(config).is_some()
}

impl Index {
    /// Begins to keep what a monitor says, of which nothing is known yet, or forgets it.
    pub fn set_monitored(&mut self, is_on: bool, config: &Config) {
        if is_on && self.monitor.is_some() {
            return;
        }
        let dirty = || self.entries.keys().cloned().collect();
        let token = || Source::of(config).map_or_else(token_of_now, |source| source.first_token());
        self.monitor = is_on.then(|| Monitor { token: token(), dirty: dirty(), is_asked: false });
        self.is_changed = true;
    }

    /// The same as the configuration says. As in git, the index is written for that alone.
    pub(super) fn follow_monitor_setting(&mut self, config: &Config) {
        let is_on = is_monitored(config);
        self.is_changed |= self.was_monitored && !is_on;
        if is_on && self.monitor.is_none() {
            self.set_monitored(true, config);
        }
    }

    /// Says whether the file of a stage 0 entry is as the entry says, if what a monitor says is kept.
    pub fn set_monitor_valid(&mut self, path: &[u8], is_valid: bool) {
        let key = EntryKey::new(path, 0);
        match &mut self.monitor {
            Some(monitor) if is_valid => drop(monitor.dirty.remove(&key)),
            _ => self.doubt(&key),
        }
    }

    /// Asks the monitor of `core.fsmonitor` which files have changed, if the index keeps what it says. All have, if it fails.
    /// `start_daemon` starts git's own if it is to be asked and does not run, or returns false.
    pub fn ask_monitor(
        &mut self,
        repository: &Repository,
        top: &Path,
        start_daemon: &dyn Fn() -> bool,
    ) -> Result<(), packrace_store::Error> {
        let config = repository.config();
        // Where the case of names does not count, what a monitor calls a file need not be what the index calls it.
        let folds_case = config.boolean("core.ignoreCase")?.unwrap_or(false);
        let source = Source::of(config).filter(|_| !folds_case);
        let (Some(source), Some(monitor)) = (source, &mut self.monitor) else { return Ok(()) };
        let answer = match &source {
            Source::Daemon => daemon::ask(repository.git_dir(), &monitor.token, start_daemon),
            Source::Hook(hook) => {
                let (versions, now) = (versions_of_hook(config)?, token_of_now());
                versions.iter().find_map(|version| ask(hook, top, *version, &monitor.token, &now))
            }
        };
        let unknown = || MonitorAnswer { token: source.first_token(), changed: EVERYTHING.to_vec() };
        let MonitorAnswer { token, changed } = answer.unwrap_or_else(unknown);
        (monitor.token, monitor.is_asked) = (token, true);
        for path in changed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let dir = path.strip_suffix(b"/").unwrap_or(path);
            let doubted = self.range_below(dir).map(|(key, _)| key.clone());
            let doubted: Vec<EntryKey> = doubted.chain([EntryKey::new(path, 0)]).collect();
            doubted.iter().for_each(|key| self.doubt(key));
        }
        Ok(())
    }

    /// Says that the file of a stage 0 entry was read for it. As in git, that counts where the path is new, of regular files.
    pub fn trust_new(&mut self, path: &[u8]) {
        let is_file = self.get(path, 0).is_some_and(|entry| entry.mode.is_file() && !entry.intent_to_add);
        if is_file {
            self.trust(&[EntryKey::new(path, 0)]);
        }
    }

    /// Whether the monitor has just said that the file of a stage 0 entry is as the entry says.
    pub fn is_unchanged(&self, path: &[u8], entry: &IndexEntry) -> bool {
        let is_file = entry.mode != Mode::Gitlink && !entry.intent_to_add;
        let asked = self.monitor.as_ref().filter(|monitor| monitor.is_asked && is_file);
        asked.is_some_and(|monitor| !monitor.dirty.contains(&EntryKey::new(path, 0)))
    }

    /// Says that files which have been looked at since the monitor was asked are as their entries say.
    pub fn trust(&mut self, compared: &[EntryKey]) {
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

/// The versions to ask a hook in, in this order (`core.fsmonitorHookVersion`).
fn versions_of_hook(config: &Config) -> Result<&'static [u8], packrace_store::Error> {
    Ok(match config.integer("core.fsmonitorHookVersion")? {
        Some(1) => b"1",
        Some(2) => b"2",
        None | Some(-1) => b"21",
        Some(other) => {
            let must = "Must be 1 or 2.";
            tracing::warn!("Invalid hook version '{other}' in core.fsmonitorhookversion. {must}");
            b"21"
        }
    })
}

/// Git's first token is the time, in nanoseconds; so is every one of a hook of version 1, which gives none.
fn token_of_now() -> Vec<u8> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    now.to_string().into_bytes()
}

/// Runs the hook at the top of the work tree; `None` if it fails, or says too much.
fn ask(hook: &[u8], top: &Path, version: u8, token: &[u8], now: &[u8]) -> Option<MonitorAnswer> {
    let _region = trace::region("fsm_hook", "query");
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let script = text(&[hook, b" \"$@\""].concat());
    let argv = ["/bin/sh".into(), "-c".into(), script, text(hook), text(&[version]), text(token)];
    let traced = trace::child(&argv[3..], ChildClass::Other, true);
    trace::child_file(&argv[3..]);
    let started = packrace_os::child::spawn(&argv, |command| {
        command.current_dir(top).stdin(Stdio::null()).stdout(Stdio::piped());
    });
    let Ok(mut child) = started else {
        traced.into_iter().for_each(TracedChild::failed);
        return None;
    };
    let mut said = Vec::new();
    let read = child.stdout.take()?.take(MAX_ANSWER_BYTES).read_to_end(&mut said);
    let is_whole = read.is_ok_and(|bytes| (bytes as u64) < MAX_ANSWER_BYTES);
    let status = child.wait().ok()?;
    traced.into_iter().for_each(|traced| traced.ended(child.id(), status));
    if !status.success() || !is_whole {
        return None;
    }
    trace::data_apart("fsm_hook", "query/response-length", said.len());
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
        let dir = packrace_testkit::scratch_dir();
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
        check(|index| index.set_split(true), "h a h b h c ");
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
        let config = Config::of_file(Path::new("/dev/null")).unwrap();
        check(|index| index.set_monitored(true, &config), "h a h b h c ");
    }

    #[test]
    fn nothing_is_kept_where_that_is_asked_for() {
        let config = Config::of_file(Path::new("/dev/null")).unwrap();
        check(|index| index.set_monitored(false, &config), "H a H b H c ");
    }
}
