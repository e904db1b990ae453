//! Finds the repository of a command, and resolves relative paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_store::{OpenOptions, Repository, RepositorySearch};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::call::relative_paths::{IndexStart, has_relative_paths, starting_at};

/// The repository of a command without a repository argument: `--git-dir` or `GIT_DIR`, else the first one
/// found upwards from the current directory (gitrepository-layout).
pub fn repository(call: &Call) -> Result<Repository, Fatal> {
    repository_if_any(call)?.ok_or_else(|| none_found(call))
}

/// The same for a command that shows or names history, in which objects are replaced. If it uses the index, it works at
/// the top.
pub fn repository_with_replacements(call: &Call) -> Result<Repository, Fatal> {
    checked(call, find(call, call.replacing_options()?, IndexStart::Top)?)
}

/// The same for a command that works at the top of the work tree.
pub fn repository_at_top(call: &Call) -> Result<Repository, Fatal> {
    checked(call, find(call, call.fetching_options()?, IndexStart::Top)?)
}

/// The repository, for a command that reads refs: as in git, it must be clear then how changes of refs are logged.
pub fn with_refs(repository: Repository) -> Result<Repository, Fatal> {
    repository.config().need_values(&["core.logAllRefUpdates"])?;
    Ok(repository)
}

/// The same for a command that leaves a partial clone as it is: what is missing is not fetched.
pub fn repository_as_it_is(call: &Call) -> Result<Repository, Fatal> {
    repository_with(call, call.open_options()?)
}

/// The same for a command in which a wrong setting that it does not use does no harm, as in git.
pub fn repository_with_any_settings(call: &Call) -> Result<Repository, Fatal> {
    find(call, call.fetching_options()?, IndexStart::Git)?.ok_or_else(|| none_found(call))
}

/// As [`repository`], for a command that can run without one.
pub fn repository_if_any(call: &Call) -> Result<Option<Repository>, Fatal> {
    let repository = find(call, call.fetching_options()?, IndexStart::Git)?;
    repository.as_ref().map_or(Ok(()), Repository::check_settings)?;
    Ok(repository)
}

/// The same; as in git, one in an unknown format is passed by with a warning.
pub fn repository_if_known(call: &Call) -> Result<Option<Repository>, Fatal> {
    match repository_if_any(call) {
        Err(fatal) if fatal.is_of_unknown_format => {
            call.error_line(format_args!("warning: {}", harmless(&fatal.message)));
            Ok(None)
        }
        found => found,
    }
}

/// The repository, opened with the given options.
pub fn repository_with(call: &Call, options: OpenOptions) -> Result<Repository, Fatal> {
    checked(call, find(call, options, IndexStart::Git)?)
}

fn checked(call: &Call, found: Option<Repository>) -> Result<Repository, Fatal> {
    let repository = found.ok_or_else(|| none_found(call))?;
    repository.check_settings()?;
    Ok(repository)
}

/// That there is no repository, in git's words.
pub fn none_found(call: &Call) -> Fatal {
    if let Some(path) = named_git_dir(call) {
        // With `--bare`, git names the current directory.
        let here = in_directory(call, path).ok().filter(|_| call.globals.bare);
        let here = here.and_then(|here| packrace_os::real_path(&here).ok());
        let path = here.as_ref().unwrap_or(path);
        return Fatal::new(format!("not a git repository: '{}'", path.display()));
    }
    match search(call, |_| Ok(None::<Repository>)) {
        Ok(Discovery::MountPoint(above)) => Fatal::new(format!(
            "not a git repository (or any parent up to mount point {})\n\
             Stopping at filesystem boundary (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).",
            above.display()
        )),
        _ => Fatal::new("not a git repository (or any of the parent directories): .git"),
    }
}

fn find(call: &Call, mut options: OpenOptions, index_start: IndexStart) -> Result<Option<Repository>, Fatal> {
    let found = match has_relative_paths(&mut options) {
        false => find_once(call, options)?,
        true => find_by_relative_paths(call, &options, index_start)?,
    };
    let Some((mut repository, shown)) = found else { return Ok(None) };
    let is_plain = repository.git_dir() == repository.common_dir() && repository.own_work_tree().is_none();
    if let Some(shown) = shown.filter(|_| is_plain) {
        repository.show_as(shown);
    }
    // It is read, and wrong values are refused, also where it does not matter.
    repository.config().boolean("core.bare")?;
    repository.config().need_values_to_open()?;
    if call.environment.init.work_tree.is_none() {
        check_work_tree(call, &repository)?;
    }
    Ok(Some(repository))
}

/// Git searches from the current directory, and then goes to the top of the work tree if that contains it. Relative paths
/// in variables lead from where git is.
fn find_by_relative_paths(
    call: &Call,
    options: &OpenOptions,
    index_start: IndexStart,
) -> Result<Option<FoundRepository>, Fatal> {
    let real = |path: PathBuf| packrace_os::real_path(&path).unwrap_or(path);
    let typed = in_directory(call, Path::new(""))?;
    // Without `-C`, paths stay as they are.
    let start = if typed.as_os_str().is_empty() { typed } else { real(typed) };
    let Some(found) = find_once(call, starting_at(options, &start, index_start))? else { return Ok(None) };
    let Some(top) = found.0.work_tree()? else { return Ok(Some(found)) };
    let (top, here) = (real(top), real(in_directory(call, Path::new("."))?));
    let is_in_tree = here.starts_with(&top) && !here.starts_with(found.0.git_dir());
    let base = if is_in_tree { &top } else { &here };
    match here == top || base == &start {
        true => Ok(Some(found)),
        false => find_once(call, starting_at(options, base, index_start)),
    }
}

/// A repository, with what git calls its directory if not by its path.
type FoundRepository = (Repository, Option<PathBuf>);

/// Opens the repository.
fn find_once(call: &Call, options: OpenOptions) -> Result<Option<FoundRepository>, Fatal> {
    let current = || packrace_os::real_path(&in_directory(call, Path::new("."))?).map_err(Fatal::new);
    let mut options = OpenOptions { strict: true, ..options };
    if let Some(top) = &call.environment.init.work_tree {
        if top.as_os_str().is_empty() {
            return Err(Fatal::new("The empty string is not a valid path"));
        }
        options.work_tree.named = Some(current()?.join(top));
    }
    if call.environment.has_no_place(&|path| in_directory(call, path).is_ok_and(|path| path.is_dir())) {
        return Ok(None);
    }
    if let Some(path) = named_git_dir(call) {
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        options.work_tree.default = Some(current()?);
        options.work_tree.is_never_implied = call.globals.bare || call.environment.has_no_implicit_work_tree;
        let repository = match Repository::open(&in_directory(call, path)?, &options) {
            Err(error) if error.is_no_repository() => return Ok(None),
            opened => opened?,
        };
        let is_named = options.work_tree.named.is_some();
        if !is_named && repository.own_work_tree().is_none() && !repository.is_bare()? {
            call.environment.booleans.check(&["GIT_IMPLICIT_WORK_TREE"])?;
        }
        return Ok(Some((repository, (!is_named).then(|| path.clone()))));
    }
    // A repository found by search may belong to another user, whose configuration is not trusted.
    options.check_ownership = true;
    let open = |found: &Candidate| {
        let work_tree = found.work_tree.map(Path::to_owned);
        let search = Some(RepositorySearch { start: found.start.to_owned(), work_tree });
        match Repository::open(&found.git_dir, &OpenOptions { search, ..options.clone() }) {
            // As in git, what is only named so is passed by.
            Err(error) if error.is_no_repository() => Ok(None),
            opened => {
                let repository = opened.map_err(|error| found.shown_in(error.into()))?;
                check_bare(&repository, found)?;
                // Not a file that leads elsewhere.
                let shown = found.shown.filter(|_| repository.git_dir() == found.git_dir);
                Ok(Some((repository, shown.map(PathBuf::from))))
            }
        }
    };
    match search(call, open)? {
        Discovery::Found(found) => Ok(Some(found)),
        Discovery::MountPoint(_) | Discovery::Nothing => Ok(None),
    }
}

/// The repository that the caller names.
pub(crate) fn named_git_dir(call: &Call) -> Option<&PathBuf> {
    call.globals.git_dir.as_ref().or(call.environment.git_dir.as_ref())
}

/// Refuses a bare repository that nobody named, if the user wants that (git-config, `safe.bareRepository`). The git directory of a
/// work tree is none, nor is what is in it.
fn check_bare(repository: &Repository, found: &Candidate<'_>) -> Result<(), Fatal> {
    let is_inside = || {
        let parts: Vec<&OsStr> = found.git_dir.iter().collect();
        let is_part = |pair: &[&OsStr]| pair[0] == ".git" && (pair[1] == "worktrees" || pair[1] == "modules");
        found.git_dir.ends_with(".git") || parts.windows(2).any(is_part)
    };
    let setting = repository.config().protected_strings("safe.bareRepository").pop();
    if found.work_tree.is_none() && setting.is_some_and(|setting| setting == b"explicit") && !is_inside() {
        let dir = found.git_dir.display();
        return Err(Fatal::new(format!(
            "cannot use bare repository '{dir}' (safe.bareRepository is 'explicit')"
        )));
    }
    Ok(())
}

/// Refuses settings of the work tree that git refuses in every command.
fn check_work_tree(call: &Call, repository: &Repository) -> Result<(), Fatal> {
    let own = repository.work_tree_setting().zip(repository.own_work_tree());
    let Some((setting, top)) = own else { return Ok(()) };
    if repository.is_bare()? {
        call.error_line(format_args!("warning: core.bare and core.worktree do not make sense"));
        return Ok(());
    }
    let is_there = |path: &Path| packrace_os::identity(path, Role::Config).is_ok_and(|found| found.is_some());
    let missing = |words: &str, path: &Path| {
        Err(Fatal::new(format!("{words} '{}': No such file or directory", path.display())))
    };
    let setting = Path::new(OsStr::from_bytes(setting));
    if setting.is_relative() {
        return if is_there(&top) { Ok(()) } else { missing("cannot chdir to", setting) };
    }
    // Of an absolute path, git needs only what is above the last name.
    let above = top.ancestors().skip(1);
    above.take_while(|path| !is_there(path)).last().map_or(Ok(()), |first| missing("Invalid path", first))
}

/// How a search ends.
enum Discovery<T> {
    /// At a git directory, or at a file that names it.
    Found(T),
    /// Below this directory, which is on another file system.
    MountPoint(PathBuf),
    /// At a ceiling, or at the root.
    Nothing,
}

/// What may be a git directory, or a file that names it.
struct Candidate<'a> {
    git_dir: PathBuf,
    /// Where the search began, without links.
    start: &'a Path,
    /// The directory whose `.git` it is.
    work_tree: Option<&'a Path>,
    /// What git calls it, if not by its path: git goes to the top of the work tree.
    shown: Option<&'static str>,
}

impl Candidate<'_> {
    /// An error of opening it, with the name that git gives its files.
    fn shown_in(&self, mut error: Fatal) -> Fatal {
        if let Some(shown) = self.shown.filter(|_| error.message.starts_with("bad config line")) {
            error.message = error.message.replacen(&*self.git_dir.to_string_lossy(), shown, 1);
        }
        error
    }
}

/// Searches from the current directory upwards for what can be opened.
fn search<T>(
    call: &Call,
    open: impl Fn(&Candidate<'_>) -> Result<Option<T>, Fatal>,
) -> Result<Discovery<T>, Fatal> {
    call.environment.booleans.check(&["GIT_DISCOVERY_ACROSS_FILESYSTEM"])?;
    let limits = &call.environment.discovery_limits;
    let start = in_directory(call, Path::new("."))?;
    let start = packrace_os::real_path(&start).map_err(Fatal::new)?;
    let ceiling = limits.ceiling_above(&start);
    let identity = |path: &Path| packrace_os::identity(path, Role::Config).ok().flatten();
    let candidate = |git_dir, work_tree, shown| Candidate { git_dir, start: &start, work_tree, shown };
    let mut file_system = None;
    for directory in start.ancestors() {
        if ceiling.as_deref() == Some(directory) {
            break;
        }
        if directory != start && !limits.crosses_file_systems {
            let first = file_system.get_or_insert_with(|| identity(&start));
            let here = identity(directory);
            let is_same =
                first.as_ref().zip(here).is_none_or(|(first, here)| here.is_on_file_system_of(first));
            if !is_same {
                return Ok(Discovery::MountPoint(directory.to_owned()));
            }
        }
        let inside = directory.join(".git");
        if identity(&inside).is_some()
            && let Some(found) = open(&candidate(inside, Some(directory), Some(".git")))?
        {
            return Ok(Discovery::Found(found));
        }
        if ["HEAD", "objects", "refs"].iter().all(|name| identity(&directory.join(name)).is_some())
            && let Some(found) =
                open(&candidate(directory.to_owned(), None, (directory == start).then_some(".")))?
        {
            return Ok(Discovery::Found(found));
        }
    }
    Ok(Discovery::Nothing)
}

/// A path relative to the `-C` directories.
pub fn in_directory(call: &Call, path: &Path) -> Result<PathBuf, Fatal> {
    let mut base = PathBuf::new();
    for directory in &call.globals.directories {
        base.push(directory);
        // An empty `-C` changes nothing, as in git.
        if !base.as_os_str().is_empty() {
            enter(&base, directory)?;
        }
    }
    Ok(base.join(path))
}

/// Whether `directory` can be entered; errors name it as it was `typed`.
fn enter(directory: &Path, typed: &Path) -> Result<(), Fatal> {
    let cannot = |why: &dyn std::fmt::Display| {
        Err(Fatal::new(format!("cannot change to '{}': {why}", typed.display())))
    };
    match packrace_os::identity(directory, Role::Config) {
        Ok(Some(found)) if found.is_dir => Ok(()),
        Ok(Some(_)) => cannot(&"Not a directory"),
        Ok(None) => cannot(&"No such file or directory"),
        Err(error) => cannot(&error),
    }
}
