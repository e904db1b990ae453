//! Verifies how refs are stored (git-refs, "verify"; the problems: git-fsck, "FSCK MESSAGES").

mod packed;

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use packrace_format::reftable::{Deletions, RefValue, Stack as Tables, TableName};
use packrace_object::fsck::MessageId;
use packrace_object::{HashKind, ObjectId};
use packrace_os::EntryType;
use packrace_os::count::Role;

use super::reftable::Stack;
use super::{Backend, RefDirs, RefError, RefStore, is_good_name, is_root_name};

/// Longest loose ref and longest `packed-refs` that are read.
const MAX_LOOSE_BYTES: u64 = 64 << 10;
const MAX_PACKED_BYTES: u64 = 16 << 30;

/// The longest chain of symbolic links that git follows to find out where a ref leads.
const MAX_NESTED_LINKS: usize = 32;

/// A problem of a ref or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its kind, which says how severe it is.
    pub id: MessageId,
    /// Git's message.
    pub text: String,
}

impl Problem {
    fn new(id: MessageId, text: impl Into<String>) -> Self {
        Problem { id, text: text.into() }
    }
}

/// What a check tells.
#[derive(Debug)]
pub enum CheckedRefs<'a> {
    /// The refs of the repository and of its main work tree, or those of another work tree, come next.
    Begin,
    /// This is checked.
    Item(&'a str),
    /// This has a problem.
    Problem(&'a str, Problem),
    /// The reftables of this linked work tree cannot be read.
    BrokenStack(&'a str),
    /// Where a symbolic link leads cannot be found out, at which git ends; in its words.
    BadLink(String),
}

/// Receives what a check tells.
pub type CheckSink<'a> = dyn FnMut(CheckedRefs<'_>) + 'a;

impl RefStore {
    /// Checks every ref, those of all work trees too. Failure to read is an error of its own; that of a linked work tree's
    /// reftables is a problem among others, as in git.
    pub fn verify(&self, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let common = &self.dirs.common_dir;
        self.verify_in(common, String::new(), report)?;
        let path = common.join("worktrees");
        let entries = match packrace_os::list_dir(&path, Role::Refs) {
            Ok(entries) => entries,
            Err(error) if packrace_os::is_absent(&error) => return Ok(()),
            Err(source) => return Err(RefError::Io { path, source }),
        };
        for entry in entries.into_iter().filter(|entry| entry.kind == EntryType::Dir) {
            let id = text(entry.name.as_bytes());
            match self.verify_in(&path.join(&entry.name), format!("worktrees/{id}/"), report) {
                Err(error) if self.backend == Backend::Reftable => {
                    tracing::debug!("work tree '{id}': {error}");
                    report(CheckedRefs::BrokenStack(&id));
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn verify_in(&self, dir: &Path, shown: String, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let common = &self.dirs.common_dir;
        report(CheckedRefs::Begin);
        match self.backend {
            Backend::Files => {
                let files = FilesCheck { dir, dirs: &self.dirs, shown, hash: self.hash };
                files.verify_dir(b"refs/", report)?;
                files.verify_root(report)?;
                if dir == common { files.verify_packed(report) } else { Ok(()) }
            }
            Backend::Reftable => verify_stack(dir, &shown, self.hash, report),
        }
    }
}

/// The files of the repository, or of a linked work tree.
struct FilesCheck<'a> {
    dir: &'a Path,
    dirs: &'a RefDirs,
    /// What comes before the names of refs in reports.
    shown: String,
    hash: HashKind,
}

impl FilesCheck<'_> {
    fn path_of(&self, name: &[u8]) -> PathBuf {
        self.dir.join(OsStr::from_bytes(name))
    }

    fn verify_dir(&self, name: &[u8], report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let path = self.path_of(name);
        let entries = match packrace_os::list_dir(&path, Role::Refs) {
            Ok(entries) => entries,
            Err(error) if packrace_os::is_absent(&error) => return Ok(()),
            Err(source) => return Err(RefError::Io { path, source }),
        };
        for entry in entries {
            let file = entry.name.into_vec();
            let full = [name, &file].concat();
            if entry.kind == EntryType::Dir {
                self.verify_dir(&[full.as_slice(), b"/"].concat(), report)?;
            } else if !file.ends_with(b".lock") || file.starts_with(b".") {
                self.verify_entry(&full, entry.kind, report)?;
            }
        }
        Ok(())
    }

    fn verify_entry(&self, name: &[u8], kind: EntryType, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let shown = format!("{}{}", self.shown, text(name));
        report(CheckedRefs::Item(&shown));
        let mut add =
            |id: MessageId, words: &str| report(CheckedRefs::Problem(&shown, Problem::new(id, words)));
        if !is_good_name(name) {
            add(MessageId::BadRefName, "invalid refname format");
        }
        match kind {
            EntryType::Symlink => {
                add(MessageId::SymlinkRef, "use deprecated symbolic link for symref");
                match self.target_of_link(&self.path_of(name))? {
                    LinkTarget::Unknown(words) => report(CheckedRefs::BadLink(words)),
                    LinkTarget::Path(target) => {
                        if let Some(problem) = target_problem(name, target.as_os_str().as_bytes()) {
                            report(CheckedRefs::Problem(&shown, problem));
                        }
                    }
                }
                Ok(())
            }
            EntryType::File => self.verify_content(name, &shown, report),
            EntryType::Dir | EntryType::Other => {
                add(MessageId::BadRefFiletype, "unexpected file type");
                Ok(())
            }
        }
    }

    /// The refs outside `refs/`. A symbolic link is as good as what it leads to.
    fn verify_root(&self, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let entries = packrace_os::list_dir(self.dir, Role::Refs);
        let entries = entries.map_err(|source| RefError::Io { path: self.dir.to_owned(), source })?;
        for entry in entries {
            let name = entry.name.into_vec();
            if entry.kind != EntryType::Dir && is_root_name(&name) {
                let shown = format!("{}{}", self.shown, text(&name));
                let is_there = packrace_os::identity(&self.path_of(&name), Role::Refs);
                if is_there.is_ok_and(|file| file.is_some_and(|file| file.is_file)) {
                    report(CheckedRefs::Item(&shown));
                    self.verify_content(&name, &shown, report)?;
                }
            }
        }
        Ok(())
    }

    fn verify_content(&self, name: &[u8], shown: &str, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let path = self.path_of(name);
        let content = packrace_os::read_file(&path, Role::Refs, MAX_LOOSE_BYTES);
        let content = content.map_err(|source| RefError::Io { path, source })?;
        for problem in loose_problems(name, &content, self.hash) {
            report(CheckedRefs::Problem(shown, problem));
        }
        Ok(())
    }

    /// Where a symbolic link leads, from the repository if it is inside, or why that is not known.
    fn target_of_link(&self, link: &Path) -> Result<LinkTarget, RefError> {
        let followed = packrace_os::follow_links(link, MAX_NESTED_LINKS, Role::Refs);
        let followed = followed.map_err(|source| RefError::Io { path: link.to_owned(), source })?;
        if followed.is_link {
            let shown = self.dirs.shown(link);
            let words = format!("More than {MAX_NESTED_LINKS} nested symlinks on path '{}'", shown.display());
            return Ok(LinkTarget::Unknown(words));
        }
        let mut path = followed.path;
        // The target need not exist, but its directory must.
        if let (Some(dir), Some(file)) = (path.parent(), path.file_name()) {
            match real_dir(dir) {
                Ok(dir) => path = dir.join(file),
                Err(words) => return Ok(LinkTarget::Unknown(words)),
            }
        }
        let common = packrace_os::real_path(&self.dirs.common_dir);
        let common = common.unwrap_or_else(|_| self.dirs.common_dir.clone());
        Ok(LinkTarget::Path(path.strip_prefix(common).map(Path::to_owned).unwrap_or(path)))
    }

    fn verify_packed(&self, report: &mut CheckSink<'_>) -> Result<(), RefError> {
        let path = self.dirs.common_dir.join("packed-refs");
        let is_link = packrace_os::read_link(&path, Role::Refs);
        let found = packrace_os::identity(&path, Role::Refs);
        let words = match (is_link, found) {
            (Ok(Some(_)), _) => Some("not a regular file but a symlink"),
            (_, Ok(None)) => return Ok(()),
            (_, Ok(Some(file))) if !file.is_file => Some("not a regular file"),
            _ => None,
        };
        report(CheckedRefs::Item("packed-refs file ./packed-refs"));
        if let Some(words) = words {
            report(CheckedRefs::Problem("packed-refs", Problem::new(MessageId::BadRefFiletype, words)));
            return Ok(());
        }
        let content = packrace_os::read_file(&path, Role::Refs, MAX_PACKED_BYTES);
        let content = content.map_err(|source| RefError::Io { path, source })?;
        packed::verify_packed(&content, self.hash, report);
        Ok(())
    }
}

/// Where a symbolic link leads.
enum LinkTarget {
    Path(PathBuf),
    /// Why that is not known, in git's words.
    Unknown(String),
}

/// A directory without links; the error names the first part that is not there.
fn real_dir(dir: &Path) -> Result<PathBuf, String> {
    let mut real = PathBuf::new();
    for part in dir.components() {
        real.push(part);
        real = packrace_os::real_path(&real)
            .map_err(|error| format!("Invalid path '{}': {}", real.display(), packrace_os::reason(&error)))?;
    }
    Ok(real)
}

/// The problems of a loose ref.
fn loose_problems(name: &[u8], content: &[u8], hash: HashKind) -> Vec<Problem> {
    let Some(target) = content.strip_prefix(b"ref:") else {
        return direct_problem(content, hash).into_iter().collect();
    };
    let target = target.trim_ascii_start();
    let whole = target.trim_ascii_end();
    let mut problems = Vec::new();
    if !target.ends_with(b"\n") {
        problems.push(Problem::new(MessageId::RefMissingNewline, "misses LF at the end"));
    }
    if target.len() - whole.len() > 1 {
        problems.push(Problem::new(MessageId::TrailingRefContent, "has trailing whitespaces or newlines"));
    }
    problems.extend(target_problem(name, whole));
    problems
}

/// The problem of the target of a symbolic ref, if any. As in git 2.55, `worktrees/` may be followed by any name.
fn target_problem(name: &[u8], target: &[u8]) -> Option<Problem> {
    if name == b"HEAD" && !target.starts_with(b"refs/heads/") {
        let words = format!("HEAD points to non-branch '{}'", text(target));
        return Some(Problem::new(MessageId::BadHeadTarget, words));
    }
    let is_root = is_root_name(target);
    let is_full = target.contains(&b'/') && is_good_name(target);
    if !is_root && !is_full {
        let words = format!("points to invalid refname '{}'", text(target));
        return Some(Problem::new(MessageId::BadReferentName, words));
    }
    let is_ref = is_root || target.starts_with(b"refs/") || target.starts_with(b"worktrees/");
    let words = || format!("points to non-ref target '{}'", text(target));
    (!is_ref).then(|| Problem::new(MessageId::SymrefTargetIsNotARef, words()))
}

/// The problem of a loose ref that is not symbolic, if any.
fn direct_problem(content: &[u8], hash: HashKind) -> Option<Problem> {
    let id = id_at(content, hash).filter(|(_, rest)| rest.first().is_none_or(u8::is_ascii_whitespace));
    let Some((id, rest)) = id else {
        let first = text(content.strip_suffix(b"\n").unwrap_or(content));
        return Some(Problem::new(MessageId::BadRefContent, first));
    };
    if id.is_null() {
        let words = format!("points to invalid object ID '{id}'");
        return Some(Problem::new(MessageId::BadRefOid, words));
    }
    match rest {
        b"\n" => None,
        b"" => Some(Problem::new(MessageId::RefMissingNewline, "misses LF at the end")),
        garbage => {
            let words = format!("has trailing garbage: '{}'", text(garbage));
            Some(Problem::new(MessageId::TrailingRefContent, words))
        }
    }
}

/// The id at the start of a line, and what follows it.
fn id_at(line: &[u8], hash: HashKind) -> Option<(ObjectId, &[u8])> {
    let (hex, rest) = line.split_at_checked(hash.len_in_hex())?;
    Some((ObjectId::from_hex(hex).ok()?, rest))
}

/// Reads every table whole, and all names of the merged stack.
fn verify_stack(dir: &Path, shown: &str, hash: HashKind, report: &mut CheckSink<'_>) -> Result<(), RefError> {
    let stack = Stack::read(dir, hash)?;
    for table in &stack.tables {
        let name = table.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        report(CheckedRefs::Item(&format!("table: {name}")));
        if TableName::parse(name.as_bytes()).is_none() {
            let problem = Problem::new(MessageId::BadReftableTableName, "invalid reftable table name");
            report(CheckedRefs::Problem(&name, problem));
        }
    }
    let tables: Vec<_> = stack.tables.iter().map(|table| table.table.clone()).collect();
    let merged = Tables::new(&tables);
    let mut read = || {
        let mut refs = merged.refs_from(b"", Deletions::Show)?;
        while refs.advance()? {
            let Some(record) = refs.current() else { break };
            let mut add = |problem| {
                let name = format!("{shown}{}", text(record.name));
                report(CheckedRefs::Problem(&name, problem));
            };
            if !is_good_name(record.name) {
                add(Problem::new(MessageId::BadRefName, "invalid refname format"));
            }
            if let RefValue::Symbolic(target) = record.value
                && let Some(problem) = target_problem(record.name, target)
            {
                add(problem);
            }
        }
        let mut logs = merged.logs(Deletions::Show)?;
        while logs.advance()? {}
        Ok(())
    };
    read().map_err(|error: packrace_format::reftable::StackError| {
        stack.tables[error.table].damaged(error.source)
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
