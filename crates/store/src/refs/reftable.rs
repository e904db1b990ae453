//! The reftable backend (technical/reftable, "Repository format" and "Update transactions"): a stack of tables, of which
//! a newer one wins over an older one. A linked work tree has a stack of its own for the refs that are its own.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_format::reftable::{self as format, Deletions, RefIter, RefValue};
use packrace_object::{HashKind, ObjectId};
use packrace_os::Mapped;
use packrace_os::count::Role;

use super::reflog::LoggedChange;
use super::{Error, Peeled, Places, RefRecord, Target, is_per_worktree};

/// Longest list of tables: git keeps a stack at some 20 tables.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// How often a list is read anew because a table of it was gone: each time somebody has compacted the stack since.
const MAX_TRIES: usize = 20;

#[derive(Debug)]
pub(super) struct Stacks {
    /// Of all work trees.
    common: Stack,
    /// Of a linked work tree.
    own: Option<Stack>,
}

/// Tables, oldest first.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) tables: Vec<Table>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) table: format::Table<Mapped>,
}

impl Stacks {
    pub(super) fn read(places: &Places, hash: HashKind) -> Result<Self, Error> {
        let common = Stack::read(&places.common_dir, hash)?;
        let own = match places.git_dir == places.common_dir {
            true => None,
            false => Some(Stack::read(&places.git_dir, hash)?),
        };
        Ok(Stacks { common, own })
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, Error> {
        let stack = self.own.as_ref().filter(|_| is_per_worktree(name)).unwrap_or(&self.common);
        stack.find(name)
    }

    /// What a reflog tells.
    pub(super) fn log(&self, name: &[u8]) -> Result<Option<Vec<LoggedChange>>, Error> {
        self.own.as_ref().filter(|_| is_per_worktree(name)).unwrap_or(&self.common).log(name)
    }

    /// The names of refs that have reflogs, sorted.
    pub(super) fn logged_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = self.common.logged_names()?;
        if let Some(own) = &self.own {
            names.retain(|name| !is_per_worktree(name));
            names.extend(own.logged_names()?.into_iter().filter(|name| is_per_worktree(name)));
            names.sort_unstable();
        }
        Ok(names)
    }

    /// The names of the refs outside `refs/`, of the work tree's own stack where it has one.
    pub(super) fn root_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.own.as_ref().unwrap_or(&self.common).with_merged(|tables| {
            let mut names = Vec::new();
            let mut refs = format::Stack::new(tables).refs_from(b"", Deletions::Hide)?;
            while refs.advance()? {
                match refs.current().filter(|record| !record.name.starts_with(b"refs/")) {
                    Some(record) => names.push(record.name.to_vec()),
                    None => break,
                }
            }
            Ok(names)
        })
    }

    /// Adds the objects of all log records that no newer table deletes.
    pub(super) fn logged(&self, ids: &mut Vec<ObjectId>) -> Result<(), Error> {
        for stack in self.own.iter().chain([&self.common]) {
            let mut deleted = HashSet::new();
            for table in stack.tables.iter().rev() {
                let mut logs = table.table.logs().map_err(|source| table.damaged(source))?;
                while logs.advance().map_err(|source| table.damaged(source))? {
                    let Some(record) = logs.current() else { break };
                    let key = (record.name.to_vec(), record.update_index);
                    match record.change {
                        Some(change) if !deleted.contains(&key) => ids.extend([change.old, change.new]),
                        Some(_) => {}
                        None => {
                            deleted.insert(key);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Merges all tables by name.
    pub(super) fn visit(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        // `HEAD` and other pseudo-refs are not visited.
        let start = prefix.max(b"refs/");
        let mut sources = Vec::new();
        for stack in self.own.iter().chain([&self.common]) {
            let is_own = self.own.is_some().then_some(!std::ptr::eq(stack, &self.common));
            for table in stack.tables.iter().rev() {
                let records = table.table.refs_from(start).map_err(|source| table.damaged(source))?;
                let mut source = Source { records, table, is_own };
                source.advance()?;
                sources.push(source);
            }
        }
        merge(sources, prefix, each)
    }
}

impl Stack {
    /// The stack below `dir`, which is the directory of a repository or of a work tree.
    pub(super) fn read(dir: &Path, hash: HashKind) -> Result<Self, Error> {
        let dir = dir.join("reftable");
        let list = dir.join("tables.list");
        let mut names_before = None;
        for _ in 0..MAX_TRIES {
            let names = match packrace_os::read_file(&list, Role::Refs, MAX_LIST_BYTES) {
                Ok(names) => names,
                // As in git: a stack that nobody has written to yet.
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(source) => return Err(Error::Io { path: list, source }),
            };
            match Stack::map(&dir, &list, &names, hash) {
                // Nobody has changed the list, so nobody has compacted the table away.
                Err(Error::Io { source, path })
                    if source.kind() == ErrorKind::NotFound && names_before.as_ref() != Some(&names) =>
                {
                    tracing::debug!("{} is gone, reading the list of tables again", path.display());
                    names_before = Some(names);
                }
                result => return result,
            }
        }
        Err(Error::Unstable(list))
    }

    fn map(dir: &Path, list: &Path, names: &[u8], hash: HashKind) -> Result<Self, Error> {
        let names = format::parse_list(names);
        let names = names.map_err(|source| Error::Damaged { path: list.to_path_buf(), source })?;
        let tables = names.into_iter().map(|name| {
            let path = dir.join(OsStr::from_bytes(name));
            match Mapped::open(&path, Role::Refs) {
                Ok(bytes) => match format::Table::open(bytes) {
                    Ok(table) if table.hash_kind() == hash => Ok(Table { path, table }),
                    Ok(_) => {
                        let line = String::from_utf8_lossy(name).into_owned();
                        Err(Error::Line { what: "table of another hash", path: list.to_path_buf(), line })
                    }
                    Err(source) => Err(Error::Damaged { path, source }),
                },
                Err(source) => Err(Error::Io { path, source }),
            }
        });
        Ok(Stack { tables: tables.collect::<Result<_, _>>()? })
    }

    /// The newest table that knows the name decides.
    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, Error> {
        for table in self.tables.iter().rev() {
            if let Some(value) = table.table.find(name).map_err(|source| table.damaged(source))? {
                return Ok(target(value));
            }
        }
        Ok(None)
    }
}

impl Stack {
    /// All tables as one, oldest first.
    fn with_merged<T>(
        &self,
        work: impl FnOnce(&[format::Table<Mapped>]) -> Result<T, format::StackError>,
    ) -> Result<T, Error> {
        let tables: Vec<format::Table<Mapped>> =
            self.tables.iter().map(|table| table.table.clone()).collect();
        work(&tables).map_err(|error| self.tables[error.table].damaged(error.source))
    }

    /// Whether a ref has a reflog.
    pub(super) fn has_log(&self, name: &[u8]) -> Result<bool, Error> {
        self.with_merged(|tables| format::Stack::new(tables).logs_of(name, Deletions::Hide)?.advance())
    }

    /// The update indexes of a ref's log records, newest first.
    pub(super) fn log_updates(&self, name: &[u8]) -> Result<Vec<u64>, Error> {
        self.with_merged(|tables| {
            let mut updates = Vec::new();
            let mut logs = format::Stack::new(tables).logs_of(name, Deletions::Hide)?;
            while logs.advance()? {
                updates.extend(logs.current().map(|record| record.update_index));
            }
            Ok(updates)
        })
    }

    /// What a reflog tells, oldest first, without what only tells that there is one; `None` if there is none.
    pub(super) fn log(&self, name: &[u8]) -> Result<Option<Vec<LoggedChange>>, Error> {
        self.with_merged(|tables| {
            let mut found = None;
            let mut logs = format::Stack::new(tables).logs_of(name, Deletions::Hide)?;
            while logs.advance()? {
                let changes = found.get_or_insert_with(Vec::new);
                let Some(record) = logs.current() else { break };
                let change = record.change.filter(|change| !(change.old.is_null() && change.new.is_null()));
                changes.extend(change.map(|change| logged(&change, record.update_index)));
            }
            Ok(found.map(|mut changes| {
                changes.reverse();
                changes
            }))
        })
    }

    /// The names of refs that have reflogs, sorted.
    pub(super) fn logged_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.with_merged(|tables| {
            let mut names: Vec<Vec<u8>> = Vec::new();
            let mut logs = format::Stack::new(tables).logs(Deletions::Hide)?;
            while logs.advance()? {
                let Some(record) = logs.current() else { break };
                if names.last().is_none_or(|last| last != record.name) {
                    names.push(record.name.to_vec());
                }
            }
            Ok(names)
        })
    }

    /// Whether there is a ref whose name starts with `prefix`, but this one.
    pub(super) fn has_below(&self, prefix: &[u8], but: &[u8]) -> Result<bool, Error> {
        self.with_merged(|tables| {
            let mut refs = format::Stack::new(tables).refs_with_prefix(prefix, Deletions::Hide)?;
            while refs.advance()? {
                if refs.current().is_some_and(|record| record.name != but) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// The first ref whose name starts with `prefix`.
    pub(super) fn first_below(&self, prefix: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with_merged(|tables| {
            let mut refs = format::Stack::new(tables).refs_with_prefix(prefix, Deletions::Hide)?;
            refs.advance()?;
            Ok(refs.current().map(|record| record.name.to_vec()))
        })
    }
}

impl Table {
    pub(super) fn damaged(&self, source: packrace_format::Error) -> Error {
        Error::Damaged { path: self.path.clone(), source }
    }
}

fn logged(change: &format::LogChange<'_>, update_index: u64) -> LoggedChange {
    let sign = if change.zone < 0 { '-' } else { '+' };
    let when = format!("> {} {sign}{:04}", change.seconds, change.zone.unsigned_abs());
    let who = [change.name, b" <", change.email, when.as_bytes()].concat();
    let message = change.message.strip_suffix(b"\n").unwrap_or(change.message).to_vec();
    LoggedChange { old: change.old, new: change.new, who, message, update_index: Some(update_index) }
}

/// One table in a merge.
struct Source<'a> {
    records: RefIter<'a>,
    table: &'a Table,
    /// Of the work tree's own stack (only its own refs count) or of the common one (all others do); `None` if there
    /// is one stack only.
    is_own: Option<bool>,
}

impl Source<'_> {
    /// The name at which the table is; `None` behind the last one with the prefix.
    fn name(&self, prefix: &[u8]) -> Option<&[u8]> {
        self.records.current().map(|found| found.name).filter(|name| name.starts_with(prefix))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.records.advance().map(drop).map_err(|source| self.table.damaged(source))
    }

    #[inline]
    fn give(&self, each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        let Some(format::RefRecord { name, value, .. }) = self.records.current() else {
            return ControlFlow::Continue(());
        };
        let is_listed = self.is_own.is_none_or(|is_own| is_own == is_per_worktree(name));
        match target(value).filter(|_| is_listed && name.starts_with(b"refs/")) {
            Some(target) => each(RefRecord { name, target }),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Calls `each` with all refs below the prefix. `sources` stand at it, newest first: the newest of those with the same
/// name decides. A table is read on without a look at the others up to the first name that one of them has, so that
/// the small new tables of a stack cost nothing while the big old one is read.
fn merge(
    mut sources: Vec<Source<'_>>,
    prefix: &[u8],
    each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut limit = Vec::new();
    loop {
        sources.retain(|source| source.name(prefix).is_some());
        // Of equal names the first, which is the newest.
        let first = sources.iter().enumerate().min_by_key(|(_, source)| source.name(prefix));
        let Some((first, _)) = first else { return Ok(()) };
        let others = sources.iter().enumerate().filter(|(number, _)| *number != first);
        let next_name = others.filter_map(|(_, source)| source.name(prefix)).min();
        limit.clear();
        limit.extend_from_slice(next_name.unwrap_or_default());
        let has_limit = next_name.is_some();
        if sources[first].give(each).is_break() {
            return Ok(());
        }
        if has_limit && sources[first].name(prefix) == Some(&limit) {
            for source in sources.iter_mut().filter(|source| source.name(prefix) == Some(&limit)) {
                source.advance()?;
            }
            continue;
        }
        let source = &mut sources[first];
        source.advance()?;
        while source.name(prefix).is_some_and(|name| !has_limit || *name < *limit) {
            if source.give(each).is_break() {
                return Ok(());
            }
            source.advance()?;
        }
    }
}

#[inline]
fn target(value: RefValue<'_>) -> Option<Target<'_>> {
    Some(match value {
        RefValue::Deletion => return None,
        RefValue::Id(id) => Target::Direct { id, peeled: Peeled::NotATag },
        RefValue::Tag { id, peeled } => Target::Direct { id, peeled: Peeled::To(peeled) },
        RefValue::Symbolic(target) => Target::Symbolic(target),
    })
}
