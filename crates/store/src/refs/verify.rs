//! Verifies how refs are stored (git-refs, "verify"; the problems: git-fsck, "FSCK MESSAGES").

use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use packrace_format::reftable::{Deletions, RefValue, Stack as Tables, TableName};
use packrace_object::{HashKind, ObjectId};
use packrace_os::EntryType;
use packrace_os::count::Role;

use super::reftable::Stack;
use super::{Backend, RefDirs, RefError, RefStore, is_good_name, is_root_name};

/// Longest loose ref and longest `packed-refs` that are read.
const MAX_LOOSE_BYTES: u64 = 64 << 10;
const MAX_PACKED_BYTES: u64 = 16 << 30;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Unusual but readable.
    Info,
    /// It may become an error.
    Warning,
    /// A ref cannot be read, or not by all implementations.
    Error,
}

/// A problem of a ref or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Git's message id.
    pub id: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// Git's message.
    pub text: String,
}

impl Problem {
    fn new(id: &'static str, severity: Severity, text: impl Into<String>) -> Self {
        Problem { id, severity, text: text.into() }
    }

    fn error(id: &'static str, text: impl Into<String>) -> Self {
        Problem::new(id, Severity::Error, text)
    }

    fn info(id: &'static str, text: impl Into<String>) -> Self {
        Problem::new(id, Severity::Info, text)
    }
}

/// Receives the name of everything that is checked, without a problem, and of each problem.
pub type ProblemSink<'a> = dyn FnMut(&str, Option<Problem>) + 'a;

impl RefStore {
    /// Checks every ref. Failure to read is an error of its own.
    pub fn verify(&self, report: &mut ProblemSink<'_>) -> Result<(), RefError> {
        match self.backend {
            Backend::Files => {
                let files = FilesCheck { dirs: &self.dirs, hash: self.hash };
                files.verify_dir(b"refs/", report)?;
                files.verify_file(b"HEAD", report)?;
                files.verify_packed(report)
            }
            Backend::Reftable => {
                let RefDirs { git_dir, common_dir } = &self.dirs;
                let own = (git_dir != common_dir).then_some(git_dir);
                [Some(common_dir), own]
                    .into_iter()
                    .flatten()
                    .try_for_each(|dir| verify_stack(dir, self.hash, report))
            }
        }
    }
}

struct FilesCheck<'a> {
    dirs: &'a RefDirs,
    hash: HashKind,
}

impl FilesCheck<'_> {
    fn verify_dir(&self, name: &[u8], report: &mut ProblemSink<'_>) -> Result<(), RefError> {
        let path = self.dirs.path_of(name);
        let entries = match packrace_os::list_dir(&path, Role::Refs) {
            Ok(entries) => entries,
            Err(error) if packrace_os::is_absent(&error) => return Ok(()),
            Err(source) => return Err(RefError::Io { path, source }),
        };
        for entry in entries {
            let full = [name, &entry.name.into_vec()].concat();
            if full.ends_with(b".lock") {
                continue;
            }
            match entry.kind {
                EntryType::Dir => self.verify_dir(&[full.as_slice(), b"/"].concat(), report)?,
                EntryType::Other => {
                    let problem = Problem::error("badRefFiletype", "unexpected file type");
                    report(&text(&full), Some(problem));
                }
                EntryType::File | EntryType::Symlink => {
                    if !is_good_name(&full) {
                        let problem = Problem::error("badRefName", "invalid refname format");
                        report(&text(&full), Some(problem));
                    } else if entry.kind == EntryType::Symlink {
                        let words = "use deprecated symbolic link for symref";
                        report(&text(&full), Some(Problem::info("symlinkRef", words)));
                    } else {
                        self.verify_file(&full, report)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn verify_file(&self, name: &[u8], report: &mut ProblemSink<'_>) -> Result<(), RefError> {
        let path = self.dirs.path_of(name);
        let shown = text(name);
        report(&shown, None);
        let content = packrace_os::read_file(&path, Role::Refs, MAX_LOOSE_BYTES);
        let content = content.map_err(|source| RefError::Io { path, source })?;
        for problem in loose_problems(name, &content, self.hash) {
            report(&shown, Some(problem));
        }
        Ok(())
    }

    fn verify_packed(&self, report: &mut ProblemSink<'_>) -> Result<(), RefError> {
        let path = self.dirs.common_dir.join("packed-refs");
        let content = match packrace_os::read_file(&path, Role::Refs, MAX_PACKED_BYTES) {
            Ok(content) => content,
            Err(error) if packrace_os::is_absent(&error) => return Ok(()),
            Err(source) => return Err(RefError::Io { path, source }),
        };
        report("packed-refs file ./packed-refs", None);
        if content.is_empty() {
            report("packed-refs", Some(Problem::info("emptyPackedRefsFile", "file is empty")));
            return Ok(());
        }
        let mut last: Option<Vec<u8>> = None;
        let mut is_sorted = false;
        let mut may_be_peeled = false;
        let mut rest = content.as_slice();
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let place = format!("packed-refs line {number}");
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                let words = format!("'{}' is not terminated with a newline", text(rest));
                report(&place, Some(Problem::error("packedRefEntryNotTerminated", words)));
                return Ok(());
            };
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if let Some(header) = line.strip_prefix(b"#").filter(|_| number == 1) {
                match header.strip_prefix(b" pack-refs with:") {
                    Some(traits) => {
                        is_sorted = traits.split(|byte| *byte == b' ').any(|word| word == b"sorted")
                    }
                    None => {
                        let words = format!("'{}' does not start with '# pack-refs with: '", text(line));
                        report("packed-refs.header", Some(Problem::error("badPackedRefHeader", words)));
                    }
                }
                continue;
            }
            if may_be_peeled && line.starts_with(b"^") {
                may_be_peeled = false;
                if id_of(&line[1..], self.hash).is_none() {
                    let words = format!("'{}' has invalid peeled oid", text(&line[1..]));
                    report(&place, Some(Problem::error("badPackedRefEntry", words)));
                } else if line.len() > 1 + self.hash.len_in_hex() {
                    let garbage = text(&line[1 + self.hash.len_in_hex()..]);
                    let words = format!("has trailing garbage after peeled oid '{garbage}'");
                    report(&place, Some(Problem::error("badPackedRefEntry", words)));
                }
                continue;
            }
            match self.packed_name(line) {
                Err(problem) => report(&place, Some(problem)),
                Ok(name) => {
                    if let Some(last) = last.as_ref().filter(|last| is_sorted && name <= last.as_slice()) {
                        let [name, last] = [name, last].map(text);
                        let words = format!("refname '{name}' is less than previous refname '{last}'");
                        report(&place, Some(Problem::error("packedRefUnsorted", words)));
                        is_sorted = false;
                    }
                    may_be_peeled = true;
                    last = Some(name.to_vec());
                }
            }
        }
        Ok(())
    }

    fn packed_name<'l>(&self, line: &'l [u8]) -> Result<&'l [u8], Problem> {
        let bad = |words: String| Problem::error("badPackedRefEntry", words);
        if id_of(line, self.hash).is_none() {
            return Err(bad(format!("'{}' has invalid oid", text(line))));
        }
        let after = &line[self.hash.len_in_hex()..];
        let Some(name) = after.strip_prefix(b" ") else {
            return Err(bad(format!("has no space after oid '{}'", text(&line[..self.hash.len_in_hex()]))));
        };
        if !is_good_name(name) {
            return Err(Problem::error("badRefName", format!("has bad refname '{}'", text(name))));
        }
        Ok(name)
    }
}

/// The problems of a loose ref.
fn loose_problems(name: &[u8], content: &[u8], hash: HashKind) -> Vec<Problem> {
    let Some(target) = content.strip_prefix(b"ref:") else {
        return direct_problem(content, hash).into_iter().collect();
    };
    let target = target.trim_ascii_start();
    let whole = target.trim_ascii_end();
    let of_target = target_problem(whole);
    if let Some(problem) = of_target.clone().filter(|problem| problem.severity == Severity::Error) {
        return vec![problem];
    }
    if name == b"HEAD" && !whole.starts_with(b"refs/heads/") {
        let words = format!("HEAD points to non-branch '{}'", text(whole));
        return vec![Problem::error("badHeadTarget", words)];
    }
    let of_end = match &target[whole.len()..] {
        b"\n" => None,
        b"" => Some(Problem::info("refMissingNewline", "misses LF at the end")),
        _ => Some(Problem::info("trailingRefContent", "has trailing whitespaces or newlines")),
    };
    of_end.into_iter().chain(of_target).collect()
}

/// The problem of the target of a symbolic ref, if any. As in git 2.55, `worktrees/` may be followed by any name.
fn target_problem(target: &[u8]) -> Option<Problem> {
    let is_root = is_root_name(target);
    let is_full = target.contains(&b'/') && is_good_name(target);
    if !is_root && !is_full {
        let words = format!("points to invalid refname '{}'", text(target));
        return Some(Problem::error("badReferentName", words));
    }
    let is_ref = is_root || target.starts_with(b"refs/") || target.starts_with(b"worktrees/");
    let words = || format!("points to non-ref target '{}'", text(target));
    (!is_ref).then(|| Problem::info("symrefTargetIsNotARef", words()))
}

/// The problem of a loose ref that is not symbolic, if any.
fn direct_problem(content: &[u8], hash: HashKind) -> Option<Problem> {
    let Some(id) = id_of(content, hash) else {
        let first = text(content.strip_suffix(b"\n").unwrap_or(content));
        return Some(Problem::error("badRefContent", first));
    };
    if id.is_null() {
        let words = format!("points to invalid object ID '{id}'");
        return Some(Problem::error("badRefOid", words));
    }
    match &content[hash.len_in_hex()..] {
        b"\n" => None,
        b"" => Some(Problem::info("refMissingNewline", "misses LF at the end")),
        garbage => {
            let words = format!("has trailing garbage: '{}'", text(garbage));
            Some(Problem::info("trailingRefContent", words))
        }
    }
}

/// The id at the start of a line.
fn id_of(line: &[u8], hash: HashKind) -> Option<ObjectId> {
    let hex = line.get(..hash.len_in_hex())?;
    let is_ended = line.get(hex.len()).is_none_or(u8::is_ascii_whitespace);
    ObjectId::from_hex(hex).ok().filter(|_| is_ended)
}

/// Reads every table whole, and all names of the merged stack.
fn verify_stack(dir: &Path, hash: HashKind, report: &mut ProblemSink<'_>) -> Result<(), RefError> {
    let stack = Stack::read(dir, hash)?;
    for table in &stack.tables {
        let name = table.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        report(&format!("table: {name}"), None);
        if TableName::parse(name.as_bytes()).is_none() {
            let problem =
                Problem::new("badReftableTableName", Severity::Warning, "invalid reftable table name");
            report(&name, Some(problem));
        }
    }
    let tables: Vec<_> = stack.tables.iter().map(|table| table.table.clone()).collect();
    let merged = Tables::new(&tables);
    let mut read = || {
        let mut refs = merged.refs_from(b"", Deletions::Show)?;
        while refs.advance()? {
            let Some(record) = refs.current() else { break };
            if !is_good_name(record.name) {
                let problem = Problem::error("badRefName", "invalid refname format");
                report(&text(record.name), Some(problem));
            }
            if let RefValue::Symbolic(target) = record.value
                && let Some(problem) = target_problem(target)
            {
                report(&text(record.name), Some(problem));
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
