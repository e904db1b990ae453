//! `git update-index`: updates index entries from files or from given entries.

mod again;
mod caches;
mod info;
mod paths;

use std::borrow::Cow;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use packrace_store::publish::{BatchOptions, ObjectBatch, ObjectsStored};
use packrace_store::{Repository, Snapshot, unquote_line};
use packrace_worktree::index::{Contents, Index, IndexError, IndexLock, RefreshOptions, refresh};
use packrace_worktree::paths::NameRules;

use crate::call::Call;
use crate::call::discovery::repository;
use crate::call::fatal::Fatal;
use crate::hooks::{IndexChange, index_changed, variables_of_filters};
use crate::options::{Step, Switch, UntrackedCache, UpdateIndexOptions};
use crate::revisions::with_attribute_tree;
use crate::work_tree::{WorkTree, damaged_index, sparse_index_expanded, start_monitor};

/// Implements `git update-index`.
pub fn run(call: &Call, args: &UpdateIndexOptions) -> Result<(), Fatal> {
    performed(call, &with_attribute_tree(call, repository(call)?)?, args)?.finish()
}

/// Only does what stands before something that is wrong in the command line. The index stays as it is.
pub fn check(call: &Call, args: &UpdateIndexOptions) -> Result<(), Fatal> {
    performed(call, &with_attribute_tree(call, repository(call)?)?, args).map(drop)
}

/// The update with all steps done, and nothing written.
fn performed<'a>(
    call: &'a Call,
    repository: &'a Repository,
    args: &UpdateIndexOptions,
) -> Result<Update<'a>, Fatal> {
    let work_tree = WorkTree::find(repository, call)?;
    let mut update = Update::new(call, repository, work_tree)?;
    let mut steps = args.steps.iter();
    while let Some(step) = steps.next() {
        match step {
            Step::Unresolve => {
                for step in steps.by_ref() {
                    update.unresolve(step)?;
                }
            }
            Step::Again => {
                let rest: Vec<&Step> = steps.by_ref().collect();
                update.again(&rest)?;
                // As in git, what had to be updated before is no failure then.
                update.has_errors = false;
            }
            step => update.step(step)?,
        }
    }
    Ok(update)
}

/// The index: locked, or without a lock as long as nothing has to be written.
enum HeldIndex {
    Locked(Box<IndexLock>),
    Unlocked(Box<Index>, IndexError),
}

/// The options in effect at one point of the command line.
#[derive(Default)]
struct ActiveOptions {
    add: bool,
    remove: bool,
    replace: bool,
    info_only: bool,
    force_remove: bool,
    verbose: bool,
    nul: bool,
    ignore_skip_worktree: bool,
    assume_unchanged: Option<bool>,
    skip_worktree: Option<bool>,
    /// `--fsmonitor-valid`, or its opposite.
    monitor_valid: Option<bool>,
    executable: Option<bool>,
    force_write: bool,
    show_version: bool,
    refresh: RefreshOptions,
}

struct Update<'a> {
    call: &'a Call,
    repository: &'a Repository,
    work_tree: Option<WorkTree>,
    held: Option<HeldIndex>,
    options: ActiveOptions,
    rules: NameRules,
    /// Whether new entries are marked assume-unchanged (`core.ignoreStat`).
    assumes_unchanged: bool,
    snapshot: Option<Arc<Snapshot>>,
    contents: Option<Contents>,
    batch: Option<ObjectBatch>,
    version: Option<i64>,
    split: Option<bool>,
    untracked_cache: Option<UntrackedCache>,
    fs_monitor: Option<bool>,
    reads_stdin: bool,
    has_errors: bool,
}

impl<'a> Update<'a> {
    fn new(call: &'a Call, repository: &'a Repository, work_tree: Option<WorkTree>) -> Result<Self, Fatal> {
        let config = repository.config();
        let rules = NameRules::of(config).map_err(Fatal::new)?;
        let assumes_unchanged = config.boolean("core.ignoreStat")?.unwrap_or(false);
        let lock = match &work_tree {
            Some(work_tree) => IndexLock::take_in(repository, &work_tree.top),
            None => IndexLock::take(repository),
        };
        let held = match lock {
            Ok(mut lock) => {
                if let Some(tree) = &work_tree {
                    let start = || start_monitor(call, repository, &tree.top);
                    lock.index_mut().ask_monitor(repository, &tree.top, &start)?;
                }
                HeldIndex::Locked(Box::new(lock))
            }
            // Possibly nothing has to be written.
            Err(error) => match (&error, Index::read(repository)) {
                (IndexError::Lock(_) | IndexError::Nameless, Ok(index)) => {
                    HeldIndex::Unlocked(Box::new(index), error)
                }
                _ => return Err(damaged_index(error, repository, call, work_tree.as_ref())),
            },
        };
        let mut update = Update {
            call,
            repository,
            work_tree,
            held: Some(held),
            options: ActiveOptions::default(),
            rules,
            assumes_unchanged,
            snapshot: None,
            contents: None,
            batch: None,
            version: None,
            split: None,
            untracked_cache: None,
            fs_monitor: None,
            reads_stdin: false,
            has_errors: false,
        };
        if let Some(top) = update.work_tree.as_ref().map(|tree| tree.top.clone())
            && update.index().unfold_in(config, &top)?
        {
            sparse_index_expanded(call, config)?;
        }
        Ok(update)
    }

    fn index(&mut self) -> &mut Index {
        match self.held.as_mut().expect("there until the end") {
            HeldIndex::Locked(lock) => lock.index_mut(),
            HeldIndex::Unlocked(index, _) => index,
        }
    }

    /// Before a path is looked up.
    fn unfold_for(&mut self, path: &[u8]) -> Result<(), Fatal> {
        match self.index().unfold_for(path) {
            true => sparse_index_expanded(self.call, self.repository.config()),
            false => Ok(()),
        }
    }

    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Fatal> {
        if self.snapshot.is_none() {
            self.snapshot = Some(self.repository.snapshot()?);
        }
        Ok(self.snapshot.clone().expect("just taken"))
    }

    /// A reader of the files.
    fn contents(&mut self) -> Result<Contents, Fatal> {
        let (top, snapshot) = (self.top()?, self.snapshot()?);
        let contents = Contents::new(self.repository, &snapshot, &top).map_err(Fatal::new)?;
        let prefix = &self.work_tree()?.prefix;
        contents.set_variables(&variables_of_filters(self.call, self.repository, Some(&top), prefix));
        Ok(contents)
    }

    fn need_batch(&mut self) -> Result<(), Fatal> {
        if self.batch.is_none() {
            let options = BatchOptions::of_work_tree(self.repository.config())?;
            let snapshot = self.snapshot()?;
            self.batch = Some(ObjectBatch::new(self.repository.object_dir(), snapshot, options));
        }
        Ok(())
    }

    /// The index, the files and the object batch, borrowed together.
    fn parts(&mut self) -> Result<(&mut Index, &mut Contents, Option<&ObjectBatch>), Fatal> {
        if self.contents.is_none() {
            self.contents = Some(self.contents()?);
        }
        if !self.options.info_only {
            self.need_batch()?;
        }
        let index = match self.held.as_mut().expect("there until the end") {
            HeldIndex::Locked(lock) => lock.index_mut(),
            HeldIndex::Unlocked(index, _) => index,
        };
        let contents = self.contents.as_mut().expect("just made");
        let batch = self.batch.as_ref().filter(|_| !self.options.info_only);
        Ok((index, contents, batch))
    }

    fn work_tree(&self) -> Result<&WorkTree, Fatal> {
        self.work_tree.as_ref().ok_or_else(|| WorkTree::missing(self.repository))
    }

    fn top(&self) -> Result<PathBuf, Fatal> {
        Ok(self.work_tree()?.top.clone())
    }

    /// Writes pending messages of conversions.
    fn write_messages(&mut self) {
        if let Some(contents) = &mut self.contents {
            contents.messages.drain(..).for_each(|line| error_line!(self.call, "{line}"));
        }
    }

    /// Applies an option that is on or off from here.
    fn switch(&mut self, step: &Step) -> bool {
        let Step::Set(switch, on) = *step else { return false };
        let options = &mut self.options;
        let target = match switch {
            Switch::Quiet => &mut options.refresh.quiet,
            Switch::IgnoreSubmodules => &mut options.refresh.ignore_submodules,
            Switch::Add => &mut options.add,
            Switch::Replace => &mut options.replace,
            Switch::Remove => &mut options.remove,
            Switch::Unmerged => &mut options.refresh.allow_unmerged,
            Switch::IgnoreSkipWorktree => &mut options.ignore_skip_worktree,
            Switch::InfoOnly => &mut options.info_only,
            Switch::ForceRemove => &mut options.force_remove,
            Switch::Nul => &mut options.nul,
            Switch::IgnoreMissing => &mut options.refresh.ignore_missing,
            Switch::Verbose => &mut options.verbose,
            Switch::ShowVersion => &mut options.show_version,
            Switch::ForceWrite => &mut options.force_write,
            Switch::AssumeUnchanged => {
                options.assume_unchanged = Some(on);
                return true;
            }
            Switch::SkipWorktree => {
                options.skip_worktree = Some(on);
                return true;
            }
            Switch::FsMonitorValid => {
                options.monitor_valid = Some(on);
                return true;
            }
        };
        *target = on;
        true
    }

    fn step(&mut self, step: &Step) -> Result<(), Fatal> {
        match step {
            Step::Set(..) => drop(self.switch(step)),
            Step::Chmod(executable) => self.options.executable = Some(*executable),
            Step::Refresh { really } => self.refresh(*really)?,
            Step::CacheInfo(text) => self.cache_info(text)?,
            Step::Path(path) => self.typed_path(path.as_encoded_bytes())?,
            Step::Stdin => self.reads_stdin = true,
            Step::IndexInfo => self.index_info()?,
            Step::ClearResolveUndo => self.index().clear_resolve_undo(),
            Step::Version(version) => self.version = Some(*version).filter(|version| *version != 0),
            Step::Split(is_split) => self.split = Some(*is_split),
            Step::UntrackedCache(asked) => self.untracked_cache = Some(*asked),
            Step::FsMonitor(is_on) => self.fs_monitor = Some(*is_on),
            Step::Unresolve | Step::Again => unreachable!("they take what follows"),
        }
        Ok(())
    }

    fn refresh(&mut self, really: bool) -> Result<(), Fatal> {
        self.work_tree()?;
        let options = RefreshOptions { really, ..self.options.refresh };
        let mut out = Vec::new();
        let (index, contents, _) = self.parts()?;
        let is_well = refresh(index, contents, &options, &mut |path, what| {
            out.extend_from_slice(path);
            out.extend_from_slice(format!(": {what}\n").as_bytes());
        });
        self.write_messages();
        self.call.write(&out)?;
        self.has_errors |= !is_well.map_err(Fatal::new)?;
        Ok(())
    }

    /// Runs the remaining steps, and writes the index if it changed.
    fn finish(mut self) -> Result<(), Fatal> {
        self.change_version()?;
        if self.reads_stdin {
            self.paths_of_stdin()?;
        }
        self.change_split()?;
        if self.untracked_cache == Some(UntrackedCache::Test) {
            return self.test_untracked_cache();
        }
        self.change_untracked_cache()?;
        self.change_fs_monitor()?;
        if self.index().is_changed() || self.options.force_write {
            self.write()?;
        } else if let Some(batch) = self.batch.take() {
            batch.publish()?;
        }
        match self.has_errors {
            true => Err(Fatal::silent(1)),
            false => Ok(()),
        }
    }

    fn change_version(&mut self) -> Result<(), Fatal> {
        let verbose = self.options.verbose;
        if let Some(version) = self.version {
            let range = 2..=4;
            if !range.contains(&version) {
                return Err(Fatal::new(format!("index-version {version} not in range: 2..4")));
            }
            let before = self.index().version().unwrap_or(0);
            if verbose {
                say(self.call, &format!("index-version: was {before}, set to {version}"), b"")?;
            }
            if i64::from(before) != version {
                self.index().set_version(version as u32);
            }
        }
        if self.options.show_version {
            let version = self.index().version().unwrap_or(0);
            say(self.call, &version.to_string(), b"")?;
        }
        Ok(())
    }

    fn paths_of_stdin(&mut self) -> Result<(), Fatal> {
        let end = if self.options.nul { 0 } else { b'\n' };
        for line in BufReader::new(self.call.streams.input()).split(end) {
            let line = line.map_err(Fatal::new)?;
            let path = match self.options.nul {
                true => Some(Cow::Borrowed(line.as_slice())),
                false => unquote_line(&line),
            };
            self.typed_path(&path.ok_or_else(|| Fatal::new("line is badly quoted"))?)?;
        }
        Ok(())
    }

    /// Publishes the objects, then writes the index.
    fn write(&mut self) -> Result<(), Fatal> {
        let mut lock = match self.held.take().expect("there until the end") {
            HeldIndex::Locked(lock) => lock,
            HeldIndex::Unlocked(_, _) if self.options.refresh.quiet => return Err(Fatal::silent(128)),
            HeldIndex::Unlocked(_, error) => return Err(error.into()),
        };
        if lock.is_to_be_sparse() {
            self.need_batch()?;
            self.batch.iter().try_for_each(|batch| lock.fold(batch))?;
        }
        let stored = match self.batch.take() {
            Some(batch) => batch.publish()?.stored(),
            None => ObjectsStored::earlier(),
        };
        if self.contents.is_none() && self.work_tree.is_some() {
            self.contents = Some(self.contents()?);
        }
        let written = match &mut self.contents {
            Some(contents) => lock.commit_beside(&stored, contents),
            None => lock.commit(&stored, &mut |_, _| false),
        };
        self.write_messages();
        written?;
        index_changed(self.call, self.repository, IndexChange::WithSkipWorktree)
    }
}

/// Prints a message about a path.
fn say(call: &Call, before: &str, path: &[u8]) -> Result<(), Fatal> {
    let quote: &[u8] = if path.is_empty() { b"" } else { b"'" };
    let line = [before.as_bytes(), quote, path, quote, b"\n"].concat();
    call.write(&line)
}
