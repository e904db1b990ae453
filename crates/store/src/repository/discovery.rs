//! Resolves the path that a client names to a git directory, by the rules of upload-pack
//! (git-upload-pack, "--strict").

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use crate::line_file::read_line;

/// Suffixes tried, in this order, for a path that need not be exact.
const SUFFIXES: [&str; 4] = ["/.git", "", ".git/.git", ".git"];

/// A git directory, and how it was found.
pub(crate) struct FoundGitDir {
    pub(crate) git_dir: PathBuf,
    /// The gitfile that pointed to it (gitrepository-layout, "gitfile").
    pub(crate) gitfile: Option<PathBuf>,
}

/// The git directory that `path` leads to. With `strict` only the path itself is tried. Adds its
/// dependencies to `seen`.
pub(crate) fn enter(path: &Path, strict: bool, seen: &mut FileDependencies) -> Result<FoundGitDir, Error> {
    let not_found = || Error::from(Reason::NotARepository(path.to_owned()));
    let mut bytes = path.as_os_str().as_bytes();
    while bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes = &bytes[..bytes.len() - 1];
    }
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(not_found());
    }
    let suffixes: &[&str] = if strict { &[""] } else { &SUFFIXES };
    for suffix in suffixes {
        let candidate = PathBuf::from(OsStr::from_bytes(&[bytes, suffix.as_bytes()].concat()));
        if let Some(found) = git_dir_at(candidate, seen)? {
            return Ok(found);
        }
    }
    Err(not_found())
}

/// The directory that a linked work tree shares with the others.
pub(crate) fn common_dir_of(git_dir: &Path) -> Result<PathBuf, Error> {
    Ok(match read_line(&git_dir.join("commondir"))? {
        Some(line) => join(git_dir, &line),
        None => git_dir.to_owned(),
    })
}

/// `path`, or the target of a gitfile. A directory that does not look like a git directory is skipped; a
/// dangling gitfile is an error, as in git.
fn git_dir_at(path: PathBuf, seen: &mut FileDependencies) -> Result<Option<FoundGitDir>, Error> {
    seen.place(&path);
    let Some(found) = look(&path)? else { return Ok(None) };
    if found.is_dir {
        return Ok(is_git_dir(&path, seen)?.then_some(FoundGitDir { git_dir: path, gitfile: None }));
    }
    if !found.is_file {
        return Ok(None);
    }
    let refused =
        |text: &str, path: &Path| Error::from(Reason::Refused(format!("{text}: {}", path.display())));
    seen.file(&path);
    let line = read_line(&path)?.unwrap_or_default();
    let Some(target) = line.strip_prefix(b"gitdir: ") else {
        return Err(refused("invalid gitfile format", &path));
    };
    if target.is_empty() {
        return Err(refused("no path in gitfile", &path));
    }
    let git_dir = join(path.parent().unwrap_or(Path::new("")), target);
    if !is_git_dir(&git_dir, seen)? {
        return Err(refused("not a git repository", &git_dir));
    }
    Ok(Some(FoundGitDir { git_dir, gitfile: Some(path) }))
}

/// Whether there are a plausible `HEAD`, objects and refs (gitrepository-layout).
pub(super) fn is_git_dir(path: &Path, seen: &mut FileDependencies) -> Result<bool, Error> {
    let head = path.join("HEAD");
    seen.file(&head);
    // A HEAD may be a symbolic link to a branch that does not exist yet.
    let is_head = match look(&head)? {
        Some(found) if !found.is_file => false,
        Some(_) => read_line(&head)?.is_some_and(|line| is_head_line(&line)),
        None => {
            seen.owner(&head);
            let target = packrace_os::read_link(&head, Role::Config).ok().flatten();
            target.is_some_and(|target| target.starts_with("refs"))
        }
    };
    if !is_head {
        return Ok(false);
    }
    seen.file(&path.join("commondir"));
    let common_dir = common_dir_of(path)?;
    let mut is_dir = |name: &str| {
        let path = common_dir.join(name);
        seen.place(&path);
        look(&path).map(|found| found.is_some_and(|found| found.is_dir))
    };
    // With reftables `refs` exists too, so that old versions of git recognize the repository.
    Ok(is_dir("objects")? && is_dir("refs")?)
}

/// `ref: refs/…` or an id. With reftables it is `ref: refs/heads/.invalid`.
fn is_head_line(line: &[u8]) -> bool {
    match line.strip_prefix(b"ref:") {
        Some(target) => target.trim_ascii_start().starts_with(b"refs/"),
        None => line.len() >= 40 && line.iter().take(40).all(u8::is_ascii_hexdigit),
    }
}

pub(crate) fn join(base: &Path, relative: &[u8]) -> PathBuf {
    base.join(OsStr::from_bytes(relative))
}

/// The identity of `path`; `None` also if access is denied: the next candidate may work.
fn look(path: &Path) -> Result<Option<packrace_os::FileIdentity>, Error> {
    match packrace_os::identity(path, Role::Config) {
        Ok(found) => Ok(found),
        Err(error) if is_no_candidate(&error) => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

fn is_no_candidate(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidFilename, PermissionDenied};
    // A loop of symbolic links has an error kind only on nightly; here too the next candidate may work.
    matches!(error.kind(), PermissionDenied | InvalidFilename) || error.raw_os_error() == Some(ELOOP)
}

/// Linux's error number for too many symbolic links.
const ELOOP: i32 = 40;
