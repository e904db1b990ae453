//! Finds paths of a work tree that are not in the index.

use std::collections::HashSet;
use std::fs::FileType;
use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use packrace_object::ObjectId;
use packrace_os::count::{Op, Role, add};
use packrace_os::trace;
use packrace_store::{ObjectReader, OpenOptions};

use crate::index::{Index, Mode};
use crate::paths::{IgnoreRules, NestedHead, PathError, Pathspecs, head_of_nested, path_of};

/// The type of an untracked path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntrackedKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A repository, which becomes a gitlink to its commit; one without a commit cannot be added.
    Repository(Option<ObjectId>),
}

/// A path that the index does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untracked {
    /// Relative to the top of the work tree, without a trailing slash.
    pub path: Vec<u8>,
    /// Its type.
    pub found: UntrackedKind,
}

/// A walk over a work tree.
pub struct Walk<'a> {
    top: PathBuf,
    index: &'a Index,
    /// Index paths in lower case, if case is ignored.
    folded: Option<HashSet<Vec<u8>>>,
    /// `None` if ignored paths are included.
    rules: Option<&'a mut IgnoreRules>,
    specs: &'a mut Pathspecs,
    reader: ObjectReader,
    options: &'a OpenOptions,
    /// The directory that all pathspecs are in; "" for the top.
    common_dir: Vec<u8>,
    /// The repository of the work tree, without links, which is not one inside it.
    own: Option<PathBuf>,
    untracked: Vec<Untracked>,
    /// How many directories were listed, and what they had.
    listed: WalkCounts,
    messages: &'a mut Vec<String>,
}

#[derive(Debug, Default)]
struct WalkCounts {
    directories: u64,
    paths: u64,
}

impl<'a> Walk<'a> {
    /// A walk below `top`. Without `rules`, nothing is ignored. Records matches in the pathspecs.
    pub fn new(
        top: &Path,
        index: &'a Index,
        rules: Option<&'a mut IgnoreRules>,
        specs: &'a mut Pathspecs,
        reader: ObjectReader,
        options: &'a OpenOptions,
        messages: &'a mut Vec<String>,
    ) -> Self {
        Walk {
            top: top.to_owned(),
            index,
            folded: None,
            rules,
            specs,
            reader,
            options,
            common_dir: Vec::new(),
            own: None,
            untracked: Vec::new(),
            listed: WalkCounts::default(),
            messages,
        }
    }

    /// Ignores case in lookups in the index (`core.ignoreCase`).
    pub fn fold_case(&mut self) {
        let paths = self.index.entries().map(|(key, _)| key.path().to_ascii_lowercase());
        self.folded = Some(paths.collect());
    }

    /// Treats the directory that has this git directory as any other (`core.worktree` may name one above it).
    pub fn belongs_to(&mut self, git_dir: &Path) {
        self.own = packrace_os::real_path(git_dir).ok();
    }

    /// Finds all untracked paths, sorted.
    pub fn run(mut self) -> Result<Vec<Untracked>, PathError> {
        let region = trace::region("dir", "read_directory");
        self.common_dir = self.specs.common_dir();
        for root in self.specs.roots() {
            self.enter_root(&root)?;
        }
        let slash = if self.common_dir.is_empty() { "" } else { "/" };
        let path = format_args!("{}{slash}", String::from_utf8_lossy(&self.common_dir));
        trace::data("read_directory", "path", path);
        trace::data("read_directory", "directories-visited", self.listed.directories);
        trace::data("read_directory", "paths-visited", self.listed.paths);
        drop(region);
        self.untracked.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let specs = self.specs;
        self.untracked
            .retain(|found| specs.meet(&found.path, matches!(found.found, UntrackedKind::Repository(_))));
        Ok(self.untracked)
    }

    /// Enters the root path of a pathspec.
    fn enter_root(&mut self, root: &[u8]) -> Result<(), PathError> {
        if root.is_empty() {
            let names = self.list(b"")?;
            return self.walk(&mut Vec::new(), names);
        }
        let mut from = 0;
        loop {
            let end =
                root[from..].iter().position(|byte| *byte == b'/').map_or(root.len(), |slash| from + slash);
            let name = &root[..end];
            if &root[from..end] == b".git" {
                return Ok(());
            }
            add(Role::WorkTree, Op::Look, 0);
            let found = match std::fs::symlink_metadata(self.top.join(path_of(name))) {
                Ok(found) => found,
                Err(error) if packrace_os::is_absent(&error) || error.kind() == PermissionDenied => {
                    self.warn_of_common_dir(name, "No such file or directory");
                    return Ok(());
                }
                Err(source) => return Err(cannot_open(name, source)),
            };
            let kind = found.file_type();
            if !kind.is_dir() {
                self.warn_of_common_dir(name, "Not a directory");
            }
            if end == root.len() {
                return self.visit(&mut name.to_vec(), kind);
            }
            if !kind.is_dir() || self.is_gitlink(name) || self.is_ignored(name, true)? {
                return Ok(());
            }
            if !self.index.contains_dir(name)
                && (self.head(name) != NestedHead::None || !self.specs.may_enter(name))
            {
                return Ok(());
            }
            from = end + 1;
        }
    }

    /// As git, which opens the directory that all pathspecs are in if the topmost of those above it is there: says that
    /// it cannot be opened, because `absent` is no directory.
    fn warn_of_common_dir(&mut self, absent: &[u8], why: &str) {
        let is_on_the_way =
            |dir: &[u8]| dir.strip_prefix(absent).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        if absent.contains(&b'/') && is_on_the_way(&self.common_dir) {
            let shown = String::from_utf8_lossy(&self.common_dir);
            self.messages.push(format!("warning: could not open directory '{shown}/': {why}"));
            // It is said once, however many pathspecs are in it.
            self.common_dir.clear();
        }
    }

    fn walk(&mut self, dir: &mut Vec<u8>, names: Vec<(Vec<u8>, FileType)>) -> Result<(), PathError> {
        let length = dir.len();
        for (name, kind) in names {
            if name == b".git" {
                continue;
            }
            if length > 0 {
                dir.push(b'/');
            }
            dir.extend_from_slice(&name);
            self.visit(dir, kind)?;
            dir.truncate(length);
        }
        Ok(())
    }

    fn visit(&mut self, path: &mut Vec<u8>, kind: FileType) -> Result<(), PathError> {
        if kind.is_dir() {
            return self.visit_dir(path);
        }
        if !kind.is_file() && !kind.is_symlink() || self.is_tracked(path) || self.is_ignored(path, false)? {
            return Ok(());
        }
        let found = if kind.is_file() { UntrackedKind::File } else { UntrackedKind::Link };
        self.untracked.push(Untracked { path: path.clone(), found });
        Ok(())
    }

    fn visit_dir(&mut self, path: &mut Vec<u8>) -> Result<(), PathError> {
        if self.is_gitlink(path) || self.is_ignored(path, true)? {
            return Ok(());
        }
        let names = self.list(path)?;
        if names.iter().any(|(name, _)| name == b".git") && !self.index.contains_dir(path) {
            let found = match self.head(path) {
                NestedHead::None => None,
                NestedHead::Unborn => Some(UntrackedKind::Repository(None)),
                NestedHead::At(id) => Some(UntrackedKind::Repository(Some(id))),
            };
            if let Some(found) = found {
                self.untracked.push(Untracked { path: path.clone(), found });
                return Ok(());
            }
        }
        if !self.index.contains_dir(path) && !self.specs.may_enter(path) {
            return Ok(());
        }
        self.walk(path, names)
    }

    fn list(&mut self, dir: &[u8]) -> Result<Vec<(Vec<u8>, FileType)>, PathError> {
        add(Role::WorkTree, Op::Look, 0);
        let place = if dir.is_empty() { self.top.clone() } else { self.top.join(path_of(dir)) };
        let entries = match std::fs::read_dir(place) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
            Err(error) if error.kind() == PermissionDenied => {
                let shown = String::from_utf8_lossy(dir);
                self.messages
                    .push(format!("warning: could not open directory '{shown}/': Permission denied"));
                return Ok(Vec::new());
            }
            Err(source) => return Err(cannot_open(dir, source)),
        };
        self.listed.directories += 1;
        let mut names = Vec::new();
        for entry in entries {
            self.listed.paths += 1;
            let entry = entry.map_err(|source| cannot_open(dir, source))?;
            // An entry that vanishes in between counts as absent.
            let Ok(kind) = entry.file_type() else { continue };
            names.push((entry.file_name().into_vec(), kind));
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(names)
    }

    fn is_tracked(&self, path: &[u8]) -> bool {
        match &self.folded {
            Some(folded) => folded.contains(&path.to_ascii_lowercase()),
            None => self.index.stages(path).next().is_some(),
        }
    }

    fn is_gitlink(&self, path: &[u8]) -> bool {
        self.index.get(path, 0).is_some_and(|entry| entry.mode == Mode::Gitlink)
    }

    fn is_ignored(&mut self, path: &[u8], is_dir: bool) -> Result<bool, PathError> {
        let Some(rules) = &mut self.rules else { return Ok(false) };
        let index = self.index;
        let staged = |path: &[u8]| skipped(index, path);
        rules.is_ignored(path, is_dir, &staged, &mut self.reader, self.messages)
    }

    fn head(&self, path: &[u8]) -> NestedHead {
        let place = self.top.join(path_of(path));
        let head = head_of_nested(&place, self.options);
        let is_own = || self.own.is_some() && packrace_os::real_path(&place.join(".git")).ok() == self.own;
        if head != NestedHead::None && is_own() { NestedHead::None } else { head }
    }
}

/// The blob of a path that a sparse checkout omits from the work tree.
pub(crate) fn skipped(index: &Index, path: &[u8]) -> Option<ObjectId> {
    index.get(path, 0).filter(|entry| entry.skip_worktree && entry.mode.is_file()).map(|entry| entry.id)
}

fn cannot_open(dir: &[u8], source: std::io::Error) -> PathError {
    PathError::Io { what: format!("could not open directory '{}'", String::from_utf8_lossy(dir)), source }
}
