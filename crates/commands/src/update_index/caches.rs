//! `update-index --split-index`, `--untracked-cache`, `--fsmonitor` and their opposites.

use std::path::Path;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use packrace_os::count::Role;
use packrace_os::durable;
use packrace_worktree::index::{is_monitored, split_setting, untracked_cache_flags, untracked_cache_setting};

use super::{Update, say};
use crate::call::fatal::Fatal;
use crate::options::UntrackedCache;

impl Update<'_> {
    /// Says whether the index is to be split from now on.
    pub(super) fn change_split(&mut self) -> Result<(), Fatal> {
        let Some(is_split) = self.split else { return Ok(()) };
        let configured = split_setting(self.repository.config());
        self.warn_of_setting("core.splitIndex", configured, is_split, "split index");
        if is_split {
            let repository = self.repository;
            self.index().check_splittable(repository)?;
        }
        self.index().set_split(is_split);
        Ok(())
    }

    /// Adds or removes the untracked cache.
    pub(super) fn change_untracked_cache(&mut self) -> Result<(), Fatal> {
        let is_on = match self.untracked_cache {
            None | Some(UntrackedCache::Test) => return Ok(()),
            Some(asked) => asked == UntrackedCache::On,
        };
        let config = self.repository.config();
        let configured = untracked_cache_setting(config)?;
        self.warn_of_setting("core.untrackedCache", configured, is_on, "the untracked cache");
        let top = self.work_tree.as_ref().map(|work_tree| work_tree.top.clone()).unwrap_or_default();
        let flags = untracked_cache_flags(config);
        self.index().set_untracked_cache(is_on.then_some((&top, flags)));
        match (self.options.verbose, is_on) {
            (false, _) => Ok(()),
            (true, true) => say(self.call, &format!("Untracked cache enabled for '{}'", top.display()), b""),
            (true, false) => say(self.call, "Untracked cache disabled", b""),
        }
    }

    /// Turns the use of a file system monitor on or off.
    pub(super) fn change_fs_monitor(&mut self) -> Result<(), Fatal> {
        let Some(is_on) = self.fs_monitor else { return Ok(()) };
        let is_set = is_monitored(self.repository.config());
        if is_on && is_set && self.work_tree.is_none() {
            let shown = self.repository.git_dir().display();
            return Err(Fatal::new(format!("bare repository '{shown}' is incompatible with fsmonitor")));
        }
        match (is_on, is_set) {
            (true, false) => error_line!(
                self.call,
                "warning: core.fsmonitor is unset; set it if you really want to enable fsmonitor"
            ),
            (false, true) => error_line!(
                self.call,
                "warning: core.fsmonitor is set; remove it if you really want to disable fsmonitor"
            ),
            _ => {}
        }
        self.options.force_write |= !is_on;
        let repository = self.repository;
        self.index().set_monitored(is_on, repository.config());
        match self.options.verbose {
            true => say(self.call, if is_on { "fsmonitor enabled" } else { "fsmonitor disabled" }, b""),
            false => Ok(()),
        }
    }

    /// Warns that a setting which says the opposite stays.
    fn warn_of_setting(&self, key: &str, configured: Option<bool>, asked: bool, what: &str) {
        if configured == Some(!asked) {
            let verb = if asked { "enable" } else { "disable" };
            error_line!(
                self.call,
                "warning: {key} is set to {}; remove or change it, if you really want to {verb} {what}",
                !asked
            );
        }
    }

    /// Tests whether the times of directories change as an untracked cache needs it. Writes no index, as git.
    pub(super) fn test_untracked_cache(&self) -> Result<(), Fatal> {
        let top = self.top()?;
        let dir = durable::make_temporary_dir(&top, "mtime-test-", Role::WorkTree).map_err(Fatal::new)?;
        let found = wrong_time(&dir);
        durable::remove_tree(&dir, Role::WorkTree).map_err(Fatal::new)?;
        let verdict = found.map_err(Fatal::new)?.unwrap_or("OK");
        error_line!(self.call, "Testing mtime in '{}' ...... {verdict}", top.display());
        match verdict {
            "OK" => Ok(()),
            _ => Err(Fatal::silent(1)),
        }
    }
}

/// A step, whether it must change the time of the directory, and what is wrong otherwise.
type TimeCheck = (&'static dyn Fn(&Path) -> io::Result<()>, bool, &'static str);

const TIME_CHECKS: [TimeCheck; 6] = [
    (&|dir| fs::write(dir.join("file"), ""), true, "directory is not changed by a new file"),
    (&|dir| fs::create_dir(dir.join("dir")), true, "directory is not changed by a new directory"),
    (&|dir| fs::write(dir.join("file"), "data"), false, "directory is changed by the content of a file"),
    (&|dir| fs::write(dir.join("dir/file"), ""), false, "directory is changed by a file further below"),
    (&|dir| fs::remove_file(dir.join("file")), true, "directory is not changed by a file that goes"),
    (&|dir| fs::remove_dir_all(dir.join("dir")), true, "directory is not changed by a directory that goes"),
];

/// What does not change the time of a directory as an untracked cache needs it.
fn wrong_time(dir: &Path) -> io::Result<Option<&'static str>> {
    for (change, is_seen, wrong) in TIME_CHECKS {
        fs::File::open(dir)?.set_modified(UNIX_EPOCH)?;
        change(dir)?;
        if (fs::metadata(dir)?.modified()? != UNIX_EPOCH) != is_seen {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}
