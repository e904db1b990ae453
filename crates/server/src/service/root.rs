//! The served folder, and the request paths that lead into it. Repositories of a bucket are served from the
//! folder of its cache, once that is up to date with the bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_remote::cache::{Cache, repositories_dir};
use packrace_remote::{BucketName, ErrorKind as RemoteErrorKind};
use packrace_store::init::{Begun, InitOptions};
use packrace_store::refs::Backend;
use packrace_store::{CachedRepository, Error, ErrorKind, OpenOptions, Repository, Served};

use super::access_log::quoted;
use crate::access::Denied;
use crate::metrics::Reason;
use crate::path_names::path_below;
use crate::program::RepositoryPaths;
use crate::repositories::{RepositoryFolder, is_reserved};
use crate::repository_cache::RepositoryCache;
use crate::settings::NewRepositories;

/// The longest request path.
const MAX_PATH_BYTES: usize = 4096;

/// Why the trash and repositories that are being created are not served.
pub(crate) const RESERVED_PATH: &str = "path is reserved for the server";

/// The served folder.
#[derive(Debug)]
pub(crate) struct Root {
    /// Without symbolic links.
    path: PathBuf,
    options: OpenOptions,
    pub(crate) repositories: Arc<RepositoryCache>,
    /// Brings repositories into the folder, if they are those of a bucket.
    bucket: Option<Arc<Cache>>,
    /// Where repositories are, if their names do not say it.
    paths: Option<Arc<dyn RepositoryPaths>>,
    /// The same folder, to create, rename and delete repositories in it.
    pub(crate) folder: RepositoryFolder,
}

/// Why no repository is served.
#[derive(Debug)]
pub(crate) enum NotServed {
    /// The path is refused, or nothing that may be served is there. Clients do not learn which.
    NotFound(String),
    /// It does not offer the service; says who turned it off.
    Disabled(String),
    /// Credentials are necessary, or other ones.
    Unauthenticated,
    /// The access rules forbid it, for this reason.
    Forbidden(String),
    /// The repository exists, but it cannot be read.
    Broken(Error),
    /// The same for one in a bucket.
    BrokenInBucket(String),
    /// The bucket does not answer, or there is no room for its data.
    Unavailable(String),
}

/// For the log.
impl std::fmt::Display for NotServed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotServed::NotFound(why) | NotServed::Forbidden(why) => f.write_str(why),
            NotServed::Disabled(why) => write!(f, "service not enabled: {why}"),
            NotServed::Unauthenticated => f.write_str("credentials required"),
            NotServed::Broken(error) => error.fmt(f),
            NotServed::BrokenInBucket(why) | NotServed::Unavailable(why) => f.write_str(why),
        }
    }
}

impl NotServed {
    /// The reason that is counted, unless it is a fault of the server.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            NotServed::NotFound(_) => Some(Reason::NotFound),
            NotServed::Unauthenticated => Some(Reason::Unauthenticated),
            NotServed::Disabled(_) | NotServed::Forbidden(_) => Some(Reason::Forbidden),
            NotServed::Unavailable(_) => Some(Reason::Unavailable),
            NotServed::Broken(_) | NotServed::BrokenInBucket(_) => None,
        }
    }
}

impl From<Denied> for NotServed {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unauthenticated => NotServed::Unauthenticated,
            Denied::Hidden => NotServed::NotFound("hidden by the access rules".to_owned()),
            Denied::Forbidden(why) => NotServed::Forbidden(why),
        }
    }
}

impl From<packrace_remote::Error> for NotServed {
    fn from(error: packrace_remote::Error) -> Self {
        match error.kind() {
            RemoteErrorKind::Absent => NotServed::NotFound(error.to_string()),
            RemoteErrorKind::Unavailable => NotServed::Unavailable(error.to_string()),
            _ => NotServed::BrokenInBucket(error.to_string()),
        }
    }
}

impl Root {
    /// Serves the folder at `path`. Of `options` only the configuration counts: the rest is about one
    /// repository. From now on this process opens files only in this folder, in `allowed`, and where the
    /// configuration of system and user points to.
    pub(crate) fn new(
        path: &Path,
        options: OpenOptions,
        allowed: &[PathBuf],
        repositories: Arc<RepositoryCache>,
        bucket: Option<Arc<Cache>>,
    ) -> std::io::Result<Self> {
        let top = packrace_os::real_path(path)?;
        let path = bucket.as_ref().map_or_else(|| top.clone(), |_| repositories_dir(&top));
        let config = options.config;
        let mut options = OpenOptions { check_ownership: true, config, ..OpenOptions::default() };
        let mut folders = vec![top];
        for folder in allowed {
            folders.push(packrace_os::real_path(folder).map_err(|error| {
                std::io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
            })?);
        }
        let allowed = folders[1..].to_vec();
        // If the folder itself is a work tree, its repository may be elsewhere: its owner chose the place.
        if let Ok(repository) = Repository::open(&path, &options) {
            for dir in [repository.git_dir(), repository.common_dir()] {
                folders.extend(packrace_os::real_path(dir));
            }
        }
        packrace_os::reach::confine(folders.iter().map(PathBuf::as_path))?;
        options.served = Some(Arc::new(Served { root: path.clone(), allowed }));
        let folder = RepositoryFolder::new(&path)?;
        Ok(Root { path, options, repositories, bucket, paths: None, folder })
    }

    /// The same, where `paths` knows the places of repositories.
    pub(crate) fn with_paths(self, paths: Option<Arc<dyn RepositoryPaths>>) -> Self {
        Root { paths, ..self }
    }

    /// Whether the names of repositories are paths below the folder.
    pub(crate) fn has_plain_names(&self) -> bool {
        self.paths.is_none()
    }

    /// The repository at a path below the folder, opened anew and not cached, if it is served.
    pub(crate) fn open_once(&self, relative: &Path) -> Result<Repository, NotServed> {
        Repository::open(&self.path.join(relative), &self.options).map_err(not_opened)
    }

    /// The same for a path that does not come from a request.
    pub(crate) fn open_path(&self, path: &Path) -> Result<Repository, NotServed> {
        Repository::open(path, &self.options).map_err(not_opened)
    }

    /// A copy of a repository that this process made beside the folder.
    pub(crate) fn open_copy(&self, git_dir: &Path) -> Result<Repository, Error> {
        let options = OpenOptions { served: None, check_ownership: false, ..self.options.clone() };
        Repository::open(git_dir, &options)
    }

    /// The folder, without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an opened repository below the folder: links are resolved, and `.git` of a work tree is
    /// left out. `None` for a repository outside, where `serve.allowed-paths` lets links lead.
    pub(crate) fn path_of(&self, repository: &Repository) -> Result<Option<Vec<u8>>, NotServed> {
        let real = packrace_os::real_path(repository.common_dir());
        let real =
            real.map_err(|error| NotServed::NotFound(format!("cannot find its directory: {error}")))?;
        Ok(self.path_below(&real))
    }

    /// The same for a directory without links.
    pub(crate) fn path_below(&self, real: &Path) -> Option<Vec<u8>> {
        path_below(&self.path, real)
    }

    /// Opens the repository at a request path, which starts with a slash, if it is served
    /// (`docs/decisions/0031-what-is-served.md`). It may be cached, and is then the same as if it was opened
    /// now.
    pub(crate) fn open(&self, request_path: &[u8]) -> Result<Arc<Repository>, NotServed> {
        let relative = check_path(request_path).map_err(|why| NotServed::NotFound(why.to_owned()))?;
        if let Some(paths) = &self.paths {
            let unknown = || NotServed::NotFound("the name is unknown".to_owned());
            let path = paths.path_of(relative.as_os_str().as_encoded_bytes()).ok_or_else(unknown)?;
            let path = [b"/", path.as_os_str().as_encoded_bytes()].concat();
            return self
                .open_in_folder(check_path(&path).map_err(|why| NotServed::NotFound(why.to_owned()))?);
        }
        let Some(bucket) = &self.bucket else { return self.open_in_folder(relative) };
        let name = bucket_name(relative)?;
        bucket.open_repository(&name, |path| self.open_in_folder(path))
    }

    fn open_in_folder(&self, relative: &Path) -> Result<Arc<Repository>, NotServed> {
        // Without the slash at the end that the folder itself would get.
        let path = if relative.as_os_str().is_empty() { self.path.clone() } else { self.path.join(relative) };
        if !self.repositories.is_enabled() {
            let repository = Repository::open(&path, &self.options).map_err(not_opened)?;
            tell_ignored(relative, &repository);
            return Ok(Arc::new(repository));
        }
        self.repositories.get(relative, || {
            let kept = CachedRepository::open(&path, &self.options).map_err(not_opened)?;
            tell_ignored(relative, kept.repository());
            Ok(kept)
        })
    }
}

/// Logs settings of a repository that are ignored.
fn tell_ignored(relative: &Path, repository: &Repository) {
    for ignored in repository.config().ignored() {
        let ignored = quoted(ignored.as_bytes());
        tracing::warn!(
            "/{}: ignoring {ignored} in the repository's configuration",
            relative.display().to_string().escape_debug()
        );
    }
}

impl Root {
    /// Where a bare repository may be created for a request path: the name ends in `.git`, nothing is there,
    /// and the parent folder exists and is served.
    pub(crate) fn free_place(&self, request_path: &[u8]) -> Result<PathBuf, NotServed> {
        let not_found = |why: &str| NotServed::NotFound(why.to_owned());
        let relative = check_path(request_path).map_err(not_found)?;
        if self.paths.is_some() {
            return Err(not_found("the name is unknown"));
        }
        if self.bucket.is_some() {
            let name = bucket_name(relative)?;
            let is_whole = relative.as_os_str() == name.as_str();
            let whole = is_whole.then(|| self.path.join(name.as_str()));
            return whole.ok_or_else(|| not_found("does not exist, and does not end in .git"));
        }
        let (Some(name), Some(parent)) = (relative.file_name(), relative.parent()) else {
            return Err(not_found("is the served folder itself"));
        };
        if name.len() <= ".git".len() || !name.as_encoded_bytes().ends_with(b".git") {
            return Err(not_found("does not exist, and does not end in .git"));
        }
        let parent = packrace_os::real_path(&self.path.join(parent));
        let parent = parent.ok().filter(|parent| parent.starts_with(&self.path));
        let git_dir =
            parent.ok_or_else(|| not_found("parent folder does not exist or is not served"))?.join(name);
        // No repository is created inside another one or its work tree.
        let mut inside = git_dir.ancestors().skip(1).take_while(|dir| dir.starts_with(&self.path));
        let is_there = |path: &Path| packrace_os::owner(path).is_ok();
        if is_there(&git_dir) || inside.any(|dir| is_there(&dir.join("HEAD")) || is_there(&dir.join(".git")))
        {
            return Err(not_found("exists but is not a repository, or is inside one"));
        }
        Ok(git_dir)
    }

    /// Creates a bare repository there.
    pub(crate) fn create(
        &self,
        request_path: &[u8],
        new: &NewRepositories,
    ) -> Result<Arc<Repository>, NotServed> {
        let git_dir = self.free_place(request_path)?;
        if let Some(bucket) = &self.bucket {
            let name =
                git_dir.strip_prefix(&self.path).map_or_else(|_| bucket_name(&git_dir), bucket_name)?;
            create_in_bucket(bucket, &name, new)?;
            return self.open(request_path);
        }
        let options = InitOptions { git_dir: git_dir.clone(), ..new.options.clone() };
        let begun = Begun::begin(options).map_err(NotServed::Broken)?;
        begun.finish(&new.head).map_err(NotServed::Broken)?;
        tracing::info!("created {}", quoted(git_dir.as_os_str().as_encoded_bytes()));
        self.open(request_path)
    }
}

fn bucket_name(relative: &Path) -> Result<BucketName, NotServed> {
    let name = relative.to_str().and_then(|text| BucketName::new(text).ok());
    name.ok_or_else(|| NotServed::NotFound("not a valid repository name in a bucket".to_owned()))
}

/// Creates an empty repository, unless another client was faster.
fn create_in_bucket(bucket: &Cache, name: &BucketName, new: &NewRepositories) -> Result<(), NotServed> {
    let made = bucket.create(name, |git_dir| {
        let refs = Some(Backend::Reftable.into());
        let options = InitOptions { git_dir: git_dir.to_owned(), refs, ..new.options.clone() };
        let hash = options.hash.unwrap_or(options.default_hash);
        Begun::begin(options)?.finish(&new.head)?;
        Ok::<_, Error>(hash)
    });
    match made {
        Ok(Ok(())) => tracing::info!("created {} in the bucket", quoted(name.as_str().as_bytes())),
        Ok(Err(error)) => return Err(NotServed::Broken(error)),
        Err(error) if error.kind() == RemoteErrorKind::Taken => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn not_opened(error: Error) -> NotServed {
    match error.kind() {
        ErrorKind::Refused => NotServed::NotFound(error.to_string()),
        _ => NotServed::Broken(error),
    }
}

/// The part of a request path below the folder. Refuses paths that are another name of the same place.
pub(crate) fn check_path(path: &[u8]) -> Result<&Path, &'static str> {
    use std::os::unix::ffi::OsStrExt as _;
    if path.len() > MAX_PATH_BYTES {
        return Err("path is too long");
    }
    if path.contains(&0) {
        return Err("path has a NUL");
    }
    let relative = path.strip_prefix(b"/").ok_or("path is not absolute")?;
    if relative.is_empty() {
        return Ok(Path::new(""));
    }
    let relative = relative.strip_suffix(b"/").unwrap_or(relative);
    let is_alias = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
    if relative.split(|byte| *byte == b'/').any(is_alias) {
        return Err("path has an empty, . or .. part");
    }
    if relative.split(|byte| *byte == b'/').any(is_reserved) {
        return Err(RESERVED_PATH);
    }
    Ok(Path::new(std::ffi::OsStr::from_bytes(relative)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_two_names_are_refused() {
        let check = |path: &str, expect: Option<&str>| {
            assert_eq!(check_path(path.as_bytes()).ok(), expect.map(Path::new), "{path:?}");
        };
        check("/", Some(""));
        check("/a/b.git", Some("a/b.git"));
        check("/a/b.git/", Some("a/b.git"));
        check("/...", Some("..."));
        for bad in
            ["", "a", "//", "//a", "/a//b", "/a/./b", "/a/../b", "/..", "/a/..", "/.", "/a/b//", "/a\0b"]
        {
            check(bad, None);
        }
        for own in ["/.packrace-trash", "/.packrace-trash/x/a.git", "/a/.packrace-new-1", "/.packrace-trash/"]
        {
            check(own, None);
        }
        check("/.packrace", Some(".packrace"));
        check(&format!("/{}", "x".repeat(5000)), None);
    }
}
