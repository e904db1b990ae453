//! Finding and opening a repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;

use crate::config::{Config, ConfigSources};
use crate::error::{Error, Reason};
use crate::refs::{Backend, RefStore};
use crate::snapshot::{Snapshot, Sources};

/// Longest gitfile, `commondir` and similar one-line file.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Longest `shallow` file: one id a line.
const MAX_SHALLOW_BYTES: u64 = 64 << 20;

/// What upload-pack tries behind a path that need not be exact, in this order.
const SUFFIXES: [&str; 4] = ["/.git", "", ".git/.git", ".git"];

/// How to open a repository. Plain data; nothing is taken from the environment.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Only the path itself, without `.git` added (`--strict`).
    pub strict: bool,
    /// Refuse a repository of another owner unless `safe.directory` allows it; git's daemon and http-backend do.
    pub check_ownership: bool,
    /// Configuration outside the repository.
    pub config: ConfigSources,
    /// `GIT_OBJECT_DIRECTORY`.
    pub object_dir: Option<PathBuf>,
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`, split.
    pub alternates: Vec<PathBuf>,
    /// `GIT_COMMON_DIR`.
    pub common_dir: Option<PathBuf>,
}

/// An opened repository: where things are and how it is configured. Cheap to share; what it stores is seen through
/// [`Repository::snapshot`].
#[derive(Debug)]
pub struct Repository {
    git_dir: PathBuf,
    common_dir: PathBuf,
    object_dir: PathBuf,
    alternates: Vec<PathBuf>,
    config: Config,
    hash: HashKind,
    refs: RefStore,
}

impl Repository {
    /// Opens the repository at `path`: a bare one, a work tree, or a gitfile.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let git_dir = enter(path, options.strict)?.ok_or_else(|| Reason::NotARepository(path.to_owned()))?;
        let common_dir = match &options.common_dir {
            Some(common_dir) => common_dir.clone(),
            None => common_dir_of(&git_dir)?,
        };
        let mut config = Config::outside(&options.config)?;
        if options.check_ownership {
            check_ownership(&git_dir, &config, options.config.home.as_deref())?;
        }
        config.add_local(&common_dir, &git_dir)?;
        let format = Format::of(&config)?;
        let object_dir = options.object_dir.clone().unwrap_or_else(|| common_dir.join("objects"));
        let refs = RefStore::open(git_dir.clone(), common_dir.clone(), format.refs, format.hash);
        let alternates = options.alternates.clone();
        Ok(Repository { git_dir, common_dir, object_dir, alternates, config, hash: format.hash, refs })
    }

    /// The directory of this work tree, or of the bare repository.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory that all work trees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// The refs.
    pub fn refs(&self) -> &RefStore {
        &self.refs
    }

    /// Whether `git-daemon-export-ok` is there.
    pub fn is_export_ok(&self) -> bool {
        packrace_os::identity(&self.git_dir.join("git-daemon-export-ok"), Role::Config)
            .is_ok_and(|file| file.is_some())
    }

    /// The objects as they are now.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let shallow = self.read_shallow()?;
        let is_replaced = self.common_dir.join("info/grafts");
        let has_grafts = packrace_os::identity(&is_replaced, Role::Config)
            .is_ok_and(|file| file.is_some_and(|file| file.length > 0));
        let use_commit_graph =
            shallow.is_empty() && !has_grafts && self.config.boolean("core.commitGraph")?.unwrap_or(true);
        let use_multi_pack_index = self.config.boolean("core.multiPackIndex")?.unwrap_or(true);
        let use_bitmap =
            self.config.boolean("pack.useBitmaps")?.unwrap_or(true) && shallow.is_empty() && !has_grafts;
        let sources = Sources {
            hash: self.hash,
            objects: &self.object_dir,
            extra_objects: &self.alternates,
            shallow,
            use_commit_graph,
            use_multi_pack_index,
            use_bitmap,
        };
        Snapshot::take(sources).map(Arc::new)
    }

    fn read_shallow(&self) -> Result<Vec<ObjectId>, Error> {
        let path = self.common_dir.join("shallow");
        let text = match packrace_os::read_file(&path, Role::Config, MAX_SHALLOW_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(path, error)),
        };
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let ids = lines.map(|line| {
            let id = ObjectId::from_hex(line).ok().filter(|id| id.kind() == self.hash);
            id.ok_or_else(|| {
                Reason::Damaged(format!("bad shallow line: {}", String::from_utf8_lossy(line))).into()
            })
        });
        let mut ids = ids.collect::<Result<Vec<_>, Error>>()?;
        ids.sort_unstable();
        Ok(ids)
    }
}

/// The git directory that `path` leads to.
fn enter(path: &Path, strict: bool) -> Result<Option<PathBuf>, Error> {
    if strict {
        return git_dir_at(path.to_owned());
    }
    let text = path.as_os_str().to_string_lossy();
    let trimmed = text.trim_end_matches('/');
    let base = if trimmed.is_empty() { PathBuf::from("/") } else { without_trailing_slashes(path) };
    for suffix in SUFFIXES {
        let mut candidate = base.clone().into_os_string();
        candidate.push(suffix);
        if let Some(git_dir) = git_dir_at(candidate.into())? {
            return Ok(Some(git_dir));
        }
    }
    Ok(None)
}

fn without_trailing_slashes(path: &Path) -> PathBuf {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    while bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes.pop();
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// `path`, or what it points to if it is a gitfile, provided that it looks like a git directory.
fn git_dir_at(path: PathBuf) -> Result<Option<PathBuf>, Error> {
    let Some(found) = look(&path)? else { return Ok(None) };
    let git_dir = if found.is_dir {
        path
    } else {
        let Some(line) = read_line(&path)? else { return Ok(None) };
        let Some(target) = line.strip_prefix(b"gitdir: ") else { return Ok(None) };
        join_bytes(path.parent().unwrap_or(Path::new("")), target)
    };
    Ok(is_git_dir(&git_dir)?.then_some(git_dir))
}

/// Whether there are a `HEAD`, objects and refs (gitrepository-layout).
fn is_git_dir(path: &Path) -> Result<bool, Error> {
    let has_head = packrace_os::owner(&path.join("HEAD")).is_ok();
    if !has_head {
        return Ok(false);
    }
    let common_dir = common_dir_of(path)?;
    let is_dir =
        |name: &str| look(&common_dir.join(name)).map(|found| found.is_some_and(|found| found.is_dir));
    // In a repository with reftables `refs` exists too, for old versions of git to recognise it.
    Ok(is_dir("objects")? && is_dir("refs")?)
}

/// Where a linked work tree's shared directory is.
fn common_dir_of(git_dir: &Path) -> Result<PathBuf, Error> {
    Ok(match read_line(&git_dir.join("commondir"))? {
        Some(line) => join_bytes(git_dir, &line),
        None => git_dir.to_owned(),
    })
}

fn join_bytes(base: &Path, relative: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    base.join(std::ffi::OsStr::from_bytes(relative))
}

fn look(path: &Path) -> Result<Option<packrace_os::FileIdentity>, Error> {
    match packrace_os::identity(path, Role::Config) {
        Ok(found) => Ok(found),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// The first line of a small file, without its end; `None` if there is no file.
fn read_line(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut text = match packrace_os::read_file(path, Role::Config, MAX_LINE_BYTES) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(Error::io(path, error)),
    };
    while text.ends_with(b"\n") || text.ends_with(b"\r") {
        text.pop();
    }
    Ok(Some(text))
}

/// git's rule: the repository belongs to us, or protected configuration names it in `safe.directory`.
fn check_ownership(git_dir: &Path, config: &Config, home: Option<&Path>) -> Result<(), Error> {
    let owner = packrace_os::owner(git_dir).map_err(|error| Error::io(git_dir, error))?;
    if owner == packrace_os::process::effective_user() {
        return Ok(());
    }
    let real = packrace_os::real_path(git_dir).map_err(|error| Error::io(git_dir, error))?;
    let work_tree = (real.file_name() == Some(".git".as_ref())).then(|| real.parent()).flatten();
    let mut is_safe = false;
    for value in config.protected_strings("safe.directory") {
        if value.is_empty() {
            is_safe = false;
            continue;
        }
        is_safe |=
            [Some(real.as_path()), work_tree].into_iter().flatten().any(|path| is_named(path, &value, home));
    }
    if is_safe {
        return Ok(());
    }
    Err(Reason::Refused(format!("detected dubious ownership in repository at '{}'", real.display())).into())
}

/// Whether one value of `safe.directory` covers `path`.
fn is_named(path: &Path, value: &[u8], home: Option<&Path>) -> bool {
    if value == b"*" {
        return true;
    }
    let named = match (value.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => join_bytes(home, rest),
        _ => join_bytes(Path::new(""), value),
    };
    match named.file_name() {
        Some(name) if name == "*" && value.ends_with(b"/*") => {
            named.parent().is_some_and(|parent| path.starts_with(parent) && path != parent)
        }
        _ => path == named || packrace_os::real_path(&named).is_ok_and(|named| path == named),
    }
}

/// What `core.repositoryFormatVersion` and `extensions.*` say (gitrepository-layout, "Git Repository Format Versions").
struct Format {
    hash: HashKind,
    refs: Backend,
}

impl Format {
    fn of(config: &Config) -> Result<Self, Error> {
        let version = config.local_integer("core.repositoryFormatVersion")?.unwrap_or(0);
        if version > 1 {
            let text = format!("Expected git repo version <= 1, found {version}");
            return Err(Reason::Refused(text).into());
        }
        let mut format = Format { hash: HashKind::Sha1, refs: Backend::Files };
        let mut unknown = Vec::new();
        for (name, value) in config.local_section("extensions") {
            let value = String::from_utf8_lossy(&value).into_owned();
            match name.as_str() {
                "noop" | "preciousobjects" | "partialclone" | "worktreeconfig" => {}
                "noop-v1" | "relativeworktrees" | "compatobjectformat" if version >= 1 => {}
                "objectformat" if version >= 1 => {
                    format.hash = match value.as_str() {
                        "sha1" => HashKind::Sha1,
                        "sha256" => HashKind::Sha256,
                        other => {
                            let text = format!("invalid value for 'extensions.objectformat': '{other}'");
                            return Err(Reason::Refused(text).into());
                        }
                    }
                }
                "refstorage" if version >= 1 => {
                    format.refs = match value.as_str() {
                        "files" => Backend::Files,
                        "reftable" => Backend::Reftable,
                        other => {
                            let text = format!("invalid value for 'extensions.refstorage': '{other}'");
                            return Err(Reason::Refused(text).into());
                        }
                    }
                }
                // Version 0 says nothing about extensions: unknown ones are passed over.
                other if version >= 1 => unknown.push(other.to_owned()),
                _ => {}
            }
        }
        if unknown.is_empty() {
            return Ok(format);
        }
        let plural = if unknown.len() == 1 { "extension" } else { "extensions" };
        let names: String = unknown.iter().map(|name| format!("\n\t{name}")).collect();
        Err(Reason::Refused(format!("unknown repository {plural} found:{names}")).into())
    }
}
