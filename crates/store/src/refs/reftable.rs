//! The reftable backend (technical/reftable, "Repository format" and "Update transactions"): a stack of
//! tables in which newer tables override older ones. A linked work tree has its own stack for its own refs.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use packrace_format::reftable::{self as format, Deletions, MergedRefs, RefIter, RefValue};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{EntryType, Mapped};

use super::reflog::LoggedChange;
use super::{
    Holder, NameRange, PER_WORKTREE, Peeled, Place, RefDirs, RefError, StoredRef, Target, is_per_worktree,
};

/// Longest list of tables: git keeps a stack at some 20 tables.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// How often a list is reread because a table was gone: each time the stack has been compacted since.
const MAX_TRIES: usize = 20;

#[derive(Debug)]
pub(super) struct Stacks {
    dirs: RefDirs,
    /// Shared by all work trees.
    common: Stack,
    /// Of a linked work tree.
    own: Option<Stack>,
    /// Of all linked work trees, by id: read if a symbolic ref leads to one.
    linked: OnceLock<Vec<(Vec<u8>, Stack)>>,
    hash: HashKind,
}

/// Tables, oldest first.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) tables: Vec<StackTable>,
    /// The last known range of names without a reflog; its end has one.
    without_log: NameRange,
}

#[derive(Debug)]
pub(super) struct StackTable {
    pub(super) path: PathBuf,
    pub(super) table: format::Table<Mapped>,
}

impl Stacks {
    pub(super) fn read(dirs: &RefDirs, hash: HashKind) -> Result<Self, RefError> {
        let common = Stack::read(&dirs.common_dir, hash)?;
        let own = match dirs.git_dir == dirs.common_dir {
            true => None,
            false => Some(Stack::read(&dirs.git_dir, hash)?),
        };
        Ok(Stacks { dirs: dirs.clone(), common, own, linked: OnceLock::new(), hash })
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, RefError> {
        let Place { holder, name } = self.dirs.place(name);
        match holder {
            Holder::Common => self.common.find(name),
            Holder::Own => self.own.as_ref().unwrap_or(&self.common).find(name),
            Holder::Linked(id) => {
                let stack = self.linked()?.iter().find(|(other, _)| other == id);
                stack.map_or(Ok(None), |(_, stack)| stack.find(name))
            }
        }
    }

    fn linked(&self) -> Result<&[(Vec<u8>, Stack)], RefError> {
        if let Some(linked) = self.linked.get() {
            return Ok(linked);
        }
        let path = self.dirs.common_dir.join("worktrees");
        let entries = match packrace_os::list_dir(&path, Role::Refs) {
            Err(error) if packrace_os::is_absent(&error) => Vec::new(),
            entries => entries.map_err(|source| RefError::Io { path, source })?,
        };
        let dirs = entries.into_iter().filter(|entry| entry.kind == EntryType::Dir);
        let ids = dirs.map(|entry| entry.name.into_vec());
        let stacks = ids.map(|id| {
            let stack = Stack::read(&self.dirs.dir(Holder::Linked(&id)), self.hash)?;
            Ok::<_, RefError>((id, stack))
        });
        let stacks = stacks.collect::<Result<Vec<_>, RefError>>()?;
        Ok(self.linked.get_or_init(|| stacks))
    }

    /// Whether refs of other work trees have been looked up, whose changes no stamp shows.
    pub(super) fn has_read_linked(&self) -> bool {
        self.linked.get().is_some()
    }

    /// An error if a table is damaged, or was changed in place since it was mapped.
    pub(super) fn check_unchanged(&self) -> Result<(), RefError> {
        let linked = self.linked.get().into_iter().flatten().map(|(_, stack)| stack);
        self.own.iter().chain([&self.common]).chain(linked).try_for_each(Stack::check_unchanged)
    }

    /// The names of refs that have reflogs, sorted.
    pub(super) fn logged_names(&self) -> Result<Vec<Vec<u8>>, RefError> {
        let mut names = self.common.logged_names()?;
        if let Some(own) = &self.own {
            names.retain(|name| !is_per_worktree(name));
            names.extend(own.logged_names()?.into_iter().filter(|name| is_per_worktree(name)));
            names.sort_unstable();
        }
        Ok(names)
    }

    /// The names of the refs outside `refs/`, from the work tree's own stack if it has one.
    pub(super) fn root_names(&self) -> Result<Vec<Vec<u8>>, RefError> {
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
    pub(super) fn logged(&self, ids: &mut Vec<ObjectId>) -> Result<(), RefError> {
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

    /// Reads each part of the range from the stack that its refs belong to.
    pub(super) fn visit(
        &self,
        range: &NameRange,
        mut each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let Some(own) = &self.own else { return self.common.visit(range, &mut each).map(drop) };
        let borders = PER_WORKTREE.into_iter().map(NameRange::of_prefix);
        let borders = borders.flat_map(|border| [border.start].into_iter().chain(border.end)).collect();
        for part in range.split(borders) {
            let stack = if is_per_worktree(&part.start) { own } else { &self.common };
            if stack.visit(&part, &mut each)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn read_list(list: &Path) -> Result<Vec<u8>, RefError> {
    match packrace_os::read_file(list, Role::Refs, MAX_LIST_BYTES) {
        // As in git: a stack that has never been written. A process that writes its first table holds the lock.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match packrace_os::identity(&list.with_extension("list.lock"), Role::Refs) {
                Ok(Some(_)) => Ok(Vec::new()),
                _ => read_first_list(list),
            }
        }
        result => result.map_err(|source| RefError::Io { path: list.to_owned(), source }),
    }
}

/// A list that may not be there yet. If there are tables, it is lost, and with it all refs: a repack would delete their objects.
pub(super) fn read_first_list(list: &Path) -> Result<Vec<u8>, RefError> {
    let tables =
        list.parent().and_then(|dir| packrace_os::list_dir(dir, Role::Refs).ok()).unwrap_or_default();
    let has_tables = tables.iter().any(|table| table.name.as_bytes().ends_with(b".ref"));
    match packrace_os::read_file(list, Role::Refs, MAX_LIST_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound && !has_tables => Ok(Vec::new()),
        result => result.map_err(|source| RefError::Io { path: list.to_owned(), source }),
    }
}

impl Stack {
    /// The stack below `dir`, the directory of a repository or of a work tree.
    pub(super) fn read(dir: &Path, hash: HashKind) -> Result<Self, RefError> {
        let dir = dir.join("reftable");
        let list = dir.join("tables.list");
        let mut names_before = None;
        for _ in 0..MAX_TRIES {
            let names = read_list(&list)?;
            match Stack::map(&dir, &list, &names, hash) {
                // The list is unchanged, so compaction has not removed the table.
                Err(RefError::Io { source, path })
                    if source.kind() == ErrorKind::NotFound && names_before.as_ref() != Some(&names) =>
                {
                    tracing::debug!("{} is gone, rereading the list of tables", path.display());
                    names_before = Some(names);
                }
                result => return result,
            }
        }
        Err(RefError::Unstable(list))
    }

    fn map(dir: &Path, list: &Path, names: &[u8], hash: HashKind) -> Result<Self, RefError> {
        let names = format::parse_list(names);
        let names = names.map_err(|source| RefError::Damaged { path: list.to_path_buf(), source })?;
        let tables = names.into_iter().map(|name| {
            let path = dir.join(OsStr::from_bytes(name));
            match Mapped::open_or_read(&path, Role::Refs) {
                Ok(bytes) => match format::Table::open(bytes) {
                    Ok(table) if table.hash_kind() == hash => Ok(StackTable { path, table }),
                    Ok(_) => {
                        let line = String::from_utf8_lossy(name).into_owned();
                        Err(RefError::Line { what: "table of another hash", path: list.to_path_buf(), line })
                    }
                    Err(source) => Err(RefError::Damaged { path, source }),
                },
                Err(source) => Err(RefError::Io { path, source }),
            }
        });
        Ok(Stack { tables: tables.collect::<Result<_, _>>()?, ..Stack::empty() })
    }

    /// The names of the tables in a folder, as currently listed.
    pub(super) fn names(dir: &Path) -> Result<Vec<OsString>, RefError> {
        let list = dir.join("tables.list");
        let text = read_list(&list)?;
        let names = format::parse_list(&text).map_err(|source| RefError::Damaged { path: list, source })?;
        Ok(names.into_iter().map(|name| OsStr::from_bytes(name).to_owned()).collect())
    }

    /// A stack without tables.
    pub(super) fn empty() -> Self {
        Stack { tables: Vec::new(), without_log: NameRange { start: Vec::new(), end: Some(Vec::new()) } }
    }

    /// The newest table that knows the name decides.
    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, RefError> {
        for table in self.tables.iter().rev() {
            let found = table.table.find(name).map_err(|source| table.damaged(source));
            table.check()?;
            if let Some(value) = found? {
                return Ok(target(value));
            }
        }
        Ok(None)
    }

    fn check(&self) -> Result<(), RefError> {
        self.tables.iter().try_for_each(StackTable::check)
    }

    /// See [`Stacks::check_unchanged`].
    pub(super) fn check_unchanged(&self) -> Result<(), RefError> {
        self.tables.iter().try_for_each(|table| super::stamp::check_unchanged(table.table.data()))
    }
}

impl Stack {
    /// Merges all tables by name.
    fn visit(
        &self,
        range: &NameRange,
        each: &mut impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, RefError> {
        let damaged = |error: format::StackError| self.tables[error.table].damaged(error.source);
        let tables = self.tables.iter();
        let opened = tables.map(|table| table.table.refs_in(range).map_err(|source| table.damaged(source)));
        let sources = opened.collect::<Result<Vec<RefIter<'_>>, RefError>>()?;
        let mut refs = MergedRefs::new(sources, Deletions::Hide).map_err(damaged)?;
        while refs.advance().map_err(damaged)? {
            let Some((name, value)) = refs.stored() else { break };
            let Some(target) = target(value) else { continue };
            if each(StoredRef { name, target }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.check().map(ControlFlow::Continue)
    }

    /// All tables as one, oldest first.
    fn with_merged<T>(
        &self,
        work: impl FnOnce(&[format::Table<Mapped>]) -> Result<T, format::StackError>,
    ) -> Result<T, RefError> {
        let tables: Vec<format::Table<Mapped>> =
            self.tables.iter().map(|table| table.table.clone()).collect();
        let worked = work(&tables).map_err(|error| self.tables[error.table].damaged(error.source));
        self.check().and(worked)
    }

    /// Whether a ref has a reflog. Fast for names in ascending order.
    pub(super) fn has_log(&mut self, name: &[u8]) -> Result<bool, RefError> {
        if !self.tables.iter().any(|table| table.table.has_logs()) {
            return Ok(false);
        }
        if !self.without_log.contains(name) {
            let end = self.with_merged(|tables| {
                let mut logs = format::Stack::new(tables).logs_from(name, Deletions::Hide)?;
                logs.advance()?;
                Ok(logs.current().map(|record| record.name.to_vec()))
            })?;
            self.without_log = NameRange { start: name.to_vec(), end };
        }
        Ok(self.without_log.end.as_deref() == Some(name))
    }

    /// The update indexes of a ref's log records, newest first.
    pub(super) fn log_updates(&mut self, name: &[u8]) -> Result<Vec<u64>, RefError> {
        if !self.has_log(name)? {
            return Ok(Vec::new());
        }
        self.with_merged(|tables| {
            let mut updates = Vec::new();
            let mut logs = format::Stack::new(tables).logs_of(name, Deletions::Hide)?;
            while logs.advance()? {
                updates.extend(logs.current().map(|record| record.update_index));
            }
            Ok(updates)
        })
    }

    /// The entries of a reflog, oldest first, without existence markers; `None` if there is none.
    pub(super) fn log(&self, name: &[u8]) -> Result<Option<Vec<LoggedChange>>, RefError> {
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
    pub(super) fn logged_names(&self) -> Result<Vec<Vec<u8>>, RefError> {
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

    /// Whether there is a ref other than `but` whose name starts with `prefix`.
    pub(super) fn has_below(&self, prefix: &[u8], but: &[u8]) -> Result<bool, RefError> {
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
    pub(super) fn first_below(&self, prefix: &[u8]) -> Result<Option<Vec<u8>>, RefError> {
        let mut tables = self.tables.iter();
        let has_below =
            |table: &StackTable| table.table.has_below(prefix).map_err(|source| table.damaged(source));
        if !tables.try_fold(false, |found, table| Ok::<_, RefError>(found || has_below(table)?))? {
            return Ok(None);
        }
        self.with_merged(|tables| {
            let mut refs = format::Stack::new(tables).refs_with_prefix(prefix, Deletions::Hide)?;
            refs.advance()?;
            Ok(refs.current().map(|record| record.name.to_vec()))
        })
    }
}

impl StackTable {
    /// An error if its map had a fault.
    fn check(&self) -> Result<(), RefError> {
        Ok(self.table.data().check()?)
    }

    pub(super) fn damaged(&self, source: packrace_format::Error) -> RefError {
        RefError::Damaged { path: self.path.clone(), source }
    }
}

fn logged(change: &format::LogChange<'_>, update_index: u64) -> LoggedChange {
    let sign = if change.zone < 0 { '-' } else { '+' };
    let when = format!("> {} {sign}{:04}", change.seconds, change.zone.unsigned_abs());
    let who = [change.name, b" <", change.email, when.as_bytes()].concat();
    let message = change.message.strip_suffix(b"\n").unwrap_or(change.message).to_vec();
    LoggedChange { old: change.old, new: change.new, who, message, update_index: Some(update_index) }
}

#[inline]
fn target<Id>(value: RefValue<'_, Id>) -> Option<Target<'_, Id>> {
    Some(match value {
        RefValue::Deletion => return None,
        // It may still be an annotated tag: git's `refs migrate` writes no second id.
        RefValue::Id(id) => Target::Direct { id, peeled: Peeled::Unknown },
        RefValue::Tag { id, peeled } => Target::Direct { id, peeled: Peeled::To(peeled) },
        RefValue::Symbolic(target) => Target::Symbolic(target),
    })
}
