//! The reftable backend: a stack of tables, the newer ones hiding what the older ones say.
//!
//! A linked work tree has a stack of its own for what belongs to it, beside the one of the repository.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use packrace_format::packed_refs::Peeled;
use packrace_format::reftable::{RefIter, RefValue, Table};
use packrace_os::Mapped;
use packrace_os::count::Role;

use super::{Error, Places, RefRecord, Target, is_per_worktree};

/// Longest `tables.list`: one short name a table, and compaction keeps tables few.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// How often the list is read again because a table vanished in a compaction.
const MAX_ATTEMPTS: usize = 10;

/// The stacks of a repository, or of one of its work trees.
#[derive(Debug)]
pub(super) struct Stacks {
    main: Stack,
    worktree: Option<Stack>,
}

impl Stacks {
    pub(super) fn read(places: &Places) -> Result<Self, Error> {
        let worktree =
            (places.git_dir != places.common_dir).then(|| Stack::read(&places.git_dir)).transpose()?;
        Ok(Stacks { main: Stack::read(&places.common_dir)?, worktree })
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, Error> {
        match self.worktree.as_ref().filter(|_| is_per_worktree(name)) {
            Some(worktree) => worktree.find(name),
            None => self.main.find(name),
        }
    }

    pub(super) fn visit(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut shared = Merged::new(&self.main, prefix)?;
        let Some(worktree) = &self.worktree else { return shared.visit(prefix, |_| true, each).map(drop) };
        // Names of a work tree's own are few, and stand together below `refs/`: between them come the shared ones.
        let mut own = Merged::new(worktree, prefix)?;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue()
            && let Some(name) = own.next_name(prefix, is_per_worktree)?
        {
            let before = |candidate: &[u8]| candidate < name.as_slice();
            flow = shared.visit_while(prefix, before, |name| !is_per_worktree(name), each)?;
            if flow.is_continue() {
                flow = own.give(each)?;
            }
        }
        if flow.is_continue() {
            return shared.visit(prefix, |name| !is_per_worktree(name), each).map(drop);
        }
        Ok(())
    }
}

/// One stack, oldest table first.
#[derive(Debug)]
struct Stack {
    tables: Vec<(PathBuf, Table<Mapped>)>,
}

impl Stack {
    fn read(dir: &Path) -> Result<Self, Error> {
        let dir = dir.join("reftable");
        for _ in 0..MAX_ATTEMPTS {
            if let Some(stack) = Self::try_read(&dir)? {
                return Ok(stack);
            }
        }
        Err(Error::Unstable(dir))
    }

    /// `None` if a table of the list is not there (any more).
    fn try_read(dir: &Path) -> Result<Option<Self>, Error> {
        let list_path = dir.join("tables.list");
        let list = match packrace_os::read_file(&list_path, Role::Refs, MAX_LIST_BYTES) {
            Ok(list) => list,
            // Nothing was ever written.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(Error::Io { path: list_path, source }),
        };
        let list = String::from_utf8_lossy(&list).into_owned();
        let mut tables = Vec::new();
        for name in list.lines().filter(|name| !name.is_empty()) {
            if name.contains('/') {
                let source = std::io::Error::other(format!("names no table: {name}"));
                return Err(Error::Io { path: list_path, source });
            }
            let path = dir.join(name);
            let bytes = match Mapped::open(&path, Role::Refs) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(Error::Io { path, source }),
            };
            let table = Table::open(bytes).map_err(|source| Error::Damaged { path: path.clone(), source })?;
            tables.push((path, table));
        }
        Ok(Some(Stack { tables }))
    }

    /// Asks the newest table first; what it says, a deletion too, ends the search.
    fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, Error> {
        for (path, table) in self.tables.iter().rev() {
            let found = table.find(name).map_err(|source| Error::Damaged { path: path.clone(), source })?;
            if let Some(value) = found {
                return Ok(target(value));
            }
        }
        Ok(None)
    }
}

fn target(value: RefValue<'_>) -> Option<Target<'_>> {
    match value {
        RefValue::Deletion => None,
        RefValue::Id(id) => Some(Target::Direct { id, peeled: Peeled::NotATag }),
        RefValue::Tag { id, peeled } => Some(Target::Direct { id, peeled: Peeled::To(peeled) }),
        RefValue::Symbolic(name) => Some(Target::Symbolic(name)),
    }
}

/// The records of a stack by name. Deletions come out of the tables and end here, after the bound was checked, so that
/// a run of them costs no more than its length.
struct Merged<'a> {
    /// Oldest table first; those that have ended are taken out.
    cursors: Vec<Cursor<'a>>,
}

struct Cursor<'a> {
    path: &'a Path,
    iter: RefIter<'a>,
}

impl Cursor<'_> {
    fn name(&self) -> &[u8] {
        self.iter.current().map(|record| record.name).unwrap_or_default()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.iter.advance().map_err(|source| Error::Damaged { path: self.path.to_owned(), source })
    }
}

impl<'a> Merged<'a> {
    /// Every cursor stands at its first record that is not before `prefix`.
    fn new(stack: &'a Stack, prefix: &[u8]) -> Result<Self, Error> {
        // `HEAD` and other pseudo-refs are not visited.
        let start = if prefix < b"refs/".as_slice() { b"refs/" } else { prefix };
        let mut cursors = Vec::new();
        for (path, table) in &stack.tables {
            let iter =
                table.refs_from(start).map_err(|source| Error::Damaged { path: path.clone(), source })?;
            let mut cursor = Cursor { path, iter };
            if cursor.advance()? {
                cursors.push(cursor);
            }
        }
        Ok(Merged { cursors })
    }

    /// The cursor whose record comes next: the smallest name, and of equal ones the newest table.
    #[inline]
    fn first(&self) -> Option<usize> {
        if self.cursors.len() <= 1 {
            return self.cursors.len().checked_sub(1);
        }
        let mut first = 0;
        for (at, cursor) in self.cursors.iter().enumerate().skip(1) {
            if cursor.name() <= self.cursors[first].name() {
                first = at;
            }
        }
        Some(first)
    }

    /// Gives the next record to `each`, unless it is a deletion, and goes past it in all tables.
    fn give(
        &mut self,
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let Some(first) = self.first() else { return Ok(ControlFlow::Continue(())) };
        let mut flow = ControlFlow::Continue(());
        if let Some(record) = self.cursors[first].iter.current()
            && let Some(target) = target(record.value)
        {
            flow = each(RefRecord { name: record.name, target });
        }
        self.pass(first)?;
        Ok(flow)
    }

    /// Goes past the name at which the cursor `first` stands, in all tables.
    fn pass(&mut self, first: usize) -> Result<(), Error> {
        if self.cursors.len() == 1 {
            if !self.cursors[0].advance()? {
                self.cursors.clear();
            }
            return Ok(());
        }
        let name = self.cursors[first].name().to_vec();
        let mut at = 0;
        while at < self.cursors.len() {
            if self.cursors[at].name() == name && !self.cursors[at].advance()? {
                self.cursors.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// The next name that `is_wanted`, passing over others; `None` beyond the prefix.
    fn next_name(
        &mut self,
        prefix: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        while let Some(first) = self.first() {
            let name = self.cursors[first].name();
            if !name.starts_with(prefix) {
                return Ok(None);
            }
            if is_wanted(name) {
                return Ok(Some(name.to_vec()));
            }
            self.pass(first)?;
        }
        Ok(None)
    }

    fn visit(
        &mut self,
        prefix: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        self.visit_while(prefix, |_| true, is_wanted, each)
    }

    /// Visits what `is_wanted`, for as long as names start with `prefix` and are `before` a bound.
    fn visit_while(
        &mut self,
        prefix: &[u8],
        before: impl Fn(&[u8]) -> bool,
        is_wanted: impl Fn(&[u8]) -> bool,
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        while let Some(first) = self.first() {
            let name = self.cursors[first].name();
            if !name.starts_with(prefix) || !before(name) {
                break;
            }
            if !is_wanted(name) {
                self.pass(first)?;
            } else if self.give(each)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
