//! `git add`: adds files of the work tree to the index.
//!
//! In order: match the pathspecs; read and store files on several threads; report each result in git's order;
//! publish the objects; and finally replace the index.

mod apply;
mod find;
mod folded_dirs;
mod refresh;
mod report;

use std::ffi::OsString;
use std::sync::Arc;

use packrace_store::publish::{BatchOptions, ObjectBatch};
use packrace_store::{OpenOptions, Repository, Snapshot};
use packrace_worktree::filter::{Direction, Filters};
use packrace_worktree::index::{Index, IndexError, IndexLock, StatRules};
use packrace_worktree::path_attributes::attach_attributes;
use packrace_worktree::paths::{PathError, Pathspecs, SparseCheckout, Spec};

use crate::call::Call;
use crate::call::discovery::repository_at_top;
use crate::call::fatal::Fatal;
use crate::hooks::{IndexChange, index_changed, variables_of_filters};
use crate::options::AddOptions;
use crate::revisions::with_attribute_tree;
use crate::work_tree::pathspec_file::PathspecSource;
use crate::work_tree::{WorkTree, damaged_index, sparse_index_expanded, start_monitor};
use find::MatchedPaths;

impl From<PathError> for Fatal {
    fn from(error: PathError) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_worktree::filter::Error> for Fatal {
    fn from(error: packrace_worktree::filter::Error) -> Self {
        Fatal::new(error)
    }
}

/// Implements `git add`.
pub fn run(call: &Call, args: &AddOptions) -> Result<(), Fatal> {
    check(args)?;
    let repository = with_attribute_tree(call, repository_at_top(call)?)?;
    repository.check_attributes()?;
    let tree = WorkTree::of(&repository, call)?;
    let ignores_errors = match args.ignore_errors {
        Some(asked) => asked,
        None => ignores_errors(&repository)?,
    };
    let lock = IndexLock::take_even_nameless(&repository);
    let lock = match lock.and_then(|lock| lock.in_work_tree(&repository, &tree.top)) {
        // What is wrong with the pathspecs is said before.
        Err(
            error @ (IndexError::Damaged { .. } | IndexError::Unreadable { .. } | IndexError::SplitSparse),
        ) => Err(damaged_index(error, &repository, call, Some(&tree))),
        taken => Ok(taken?),
    };
    let source = PathspecSource {
        typed: &args.pathspecs,
        file: args.pathspec_from_file.as_ref(),
        ends_in_nul: args.pathspec_file_nul,
        top: &tree.top,
        prefix: &tree.prefix,
    };
    let specs = source.read(call)?;
    if specs.is_empty() && !args.update && args.all != Some(true) {
        report::nothing_specified(call, repository.config())?;
        return Ok(());
    }
    let mut lock = lock?;
    if lock.index_mut().unfold_in(repository.config(), &tree.top)? {
        sparse_index_expanded(call, repository.config())?;
    }
    let start = || start_monitor(call, &repository, &tree.top);
    lock.index_mut().ask_monitor(&repository, &tree.top, &start)?;
    let command = AddCommand {
        call,
        args,
        options: call.fetching_options()?,
        snapshot: repository.snapshot()?,
        rules: StatRules::of(repository.config())?,
        sparse: SparseCheckout::open(&repository)?,
        ignores_errors,
        is_removing: args.update || args.all.unwrap_or(!specs.is_empty()),
        repository,
        tree,
        specs,
        out: Vec::new(),
        messages: Vec::new(),
        code: 0,
    };
    command.run(lock)
}

fn ignores_errors(repository: &Repository) -> Result<bool, Fatal> {
    let config = repository.config();
    let set = match config.boolean("add.ignoreErrors")? {
        Some(set) => Some(set),
        None => config.boolean("add.ignore-errors")?,
    };
    Ok(set.unwrap_or(false))
}

/// Refuses conflicting options.
fn check(args: &AddOptions) -> Result<(), Fatal> {
    if args.all == Some(true) && args.update {
        return Err(Fatal::new("options '-A' and '-u' cannot be used together"));
    }
    if args.ignore_missing && !args.dry_run {
        return Err(Fatal::new("the option '--ignore-missing' requires '--dry-run'"));
    }
    if let Some(mode) = args.chmod.as_ref().filter(|mode| !matches!(mode.as_str(), "+x" | "-x")) {
        return Err(Fatal::new(format!("--chmod param '{mode}' must be either -x or +x")));
    }
    Ok(())
}

/// One run of `git add`.
struct AddCommand<'a> {
    call: &'a Call,
    args: &'a AddOptions,
    repository: Repository,
    tree: WorkTree,
    options: OpenOptions,
    snapshot: Arc<Snapshot>,
    rules: StatRules,
    sparse: Option<SparseCheckout>,
    specs: Pathspecs,
    ignores_errors: bool,
    /// Whether deleted files are removed from the index.
    is_removing: bool,
    /// For standard output.
    out: Vec<u8>,
    /// Pending lines for standard error.
    messages: Vec<String>,
    code: u8,
}

impl AddCommand<'_> {
    fn run(mut self, mut lock: IndexLock) -> Result<(), Fatal> {
        let done = self.add(&mut lock);
        self.write_messages();
        let said = self.call.write(&self.out);
        let batch = done?;
        said?;
        if self.args.dry_run || !lock.index().is_changed() {
            return if self.code == 0 { Ok(()) } else { Err(Fatal::silent(self.code)) };
        }
        let modified = self.modified_since(lock.index(), &batch.settled)?;
        lock.fold(&batch.objects)?;
        // The objects are stored before the index names them.
        let stored = batch.objects.publish()?.stored();
        let committed = lock.commit(&stored, &mut |key, _| modified.contains(key.path()));
        committed.map_err(|error| match error {
            IndexError::Nameless => Fatal::new("unable to write new index file"),
            other => other.into(),
        })?;
        index_changed(self.call, &self.repository, IndexChange::Alone)?;
        if self.code == 0 { Ok(()) } else { Err(Fatal::silent(self.code)) }
    }

    /// Everything except writing the index.
    fn add(&mut self, lock: &mut IndexLock) -> Result<Batch, Fatal> {
        self.check_specs(lock.index())?;
        let (repository, snapshot, top) = (&self.repository, &self.snapshot, &self.tree.place);
        attach_attributes(&mut self.specs, repository, snapshot, top, lock.index())?;
        let options = BatchOptions::of_work_tree(self.repository.config())?;
        let objects = ObjectBatch::new(self.repository.object_dir(), Arc::clone(&self.snapshot), options);
        let mut batch = Batch { objects, settled: Default::default() };
        let mut filters = Filters::new(
            &self.repository,
            &self.snapshot,
            &self.tree.place,
            Direction::CheckIn,
            &mut self.messages,
        )?;
        filters.set_variables(&self.variables_of_filters());
        if self.args.refresh {
            self.refresh(lock.index_mut(), &mut filters, &mut batch)?;
            self.specs.check_attributes()?;
            return Ok(batch);
        }
        let MatchedPaths { changes, same, untracked, ignored } = self.find(lock.index())?;
        lock.index_mut().trust(&same);
        self.specs.check_attributes()?;
        self.write_messages();
        self.take_changes(lock.index_mut(), changes, &mut filters, &mut batch)?;
        if self.args.update && !self.args.renormalize && !self.ignores_errors {
            self.check_known(lock.index())?;
        }
        if !ignored.is_empty() {
            report::ignored(self.call, &ignored, self.repository.config())?;
            self.code = 1;
        }
        self.take_untracked(lock.index_mut(), untracked, &mut filters, &mut batch)?;
        if self.args.chmod.is_some() && !self.specs.is_empty() {
            self.change_modes(lock.index_mut());
        }
        Ok(batch)
    }

    fn variables_of_filters(&self) -> Vec<(OsString, OsString)> {
        variables_of_filters(self.call, &self.repository, Some(&self.tree.top), &self.tree.prefix)
    }

    /// With `-u`, each pathspec must match an index entry.
    fn check_known(&self, index: &Index) -> Result<(), Fatal> {
        let mut is_unknown = false;
        let is_left_out = |spec: &Spec| !self.args.sparse && self.is_for_left_out(index, spec);
        for spec in self.specs.without_entry().filter(|spec| !is_left_out(spec)) {
            let shown = String::from_utf8_lossy(&spec.original);
            error_line!(self.call, "error: pathspec '{shown}' did not match any file(s) known to git");
            is_unknown = true;
        }
        if is_unknown { Err(Fatal::silent(128)) } else { Ok(()) }
    }

    /// Writes the pending messages.
    fn write_messages(&mut self) {
        for line in self.messages.drain(..) {
            error_line!(self.call, "{line}");
        }
    }

    /// Reports an added or removed path, if asked for.
    fn say(&mut self, word: &str, path: &[u8]) {
        if self.args.verbose || self.args.dry_run {
            self.out.extend_from_slice(&[word.as_bytes(), b" '", path, b"'\n"].concat());
        }
    }
}

/// Objects being stored, and entries already checked.
struct Batch {
    objects: ObjectBatch,
    /// Paths whose entries are known to be correct.
    settled: std::collections::HashSet<Vec<u8>>,
}
