//! Creates a repository: complete, under a temporary name, and then renamed.

use std::io;
use std::path::Path;

use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_store::init::{Begun, InitOptions};
use packrace_store::refs::{Backend, RefStorage, is_good_name};

use super::{RepositoryError, make_dir, names, sync, write_description};
use crate::settings::NewRepositories;

/// The temporary name of a repository until it is complete, before a number.
const UNFINISHED: &str = ".packrace-new-";

/// How often another number is tried if one is taken.
const MAX_TRIES: u32 = 1000;

/// The requested options of a new repository; the rest is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateOptions {
    hash: Option<HashKind>,
    refs: Option<Backend>,
    head: Option<Vec<u8>>,
    description: Option<String>,
}

impl CreateOptions {
    /// Takes the values of `--object-format`, `--ref-format` and `--initial-branch` of `git init`, and a
    /// description.
    pub fn parse(
        object_format: Option<&str>,
        ref_format: Option<&str>,
        initial_branch: Option<&str>,
        description: Option<String>,
    ) -> Result<Self, RepositoryError> {
        let unknown =
            |what: &str, name: &str| Err(RepositoryError::Invalid(format!("unknown {what} '{name}'")));
        let hash = match object_format {
            None => None,
            Some("sha1") => Some(HashKind::Sha1),
            Some("sha256") => Some(HashKind::Sha256),
            Some(other) => return unknown("hash algorithm", other),
        };
        let refs = match ref_format.map(|name| (name, Backend::of_name(name))) {
            None => None,
            Some((other, None)) => return unknown("ref storage format", other),
            Some((_, known)) => known,
        };
        let head = initial_branch.map(|branch| format!("refs/heads/{branch}").into_bytes());
        if let Some(branch) = initial_branch.filter(|_| !head.as_deref().is_some_and(is_good_name)) {
            return Err(RepositoryError::Invalid(format!("invalid initial branch name: '{branch}'")));
        }
        description.as_deref().map_or(Ok(()), names::check_description)?;
        Ok(CreateOptions { hash, refs, head, description })
    }

    /// The description of the new repository.
    pub(super) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The prototype with these options.
    pub(super) fn applied_to(&self, prototype: &NewRepositories) -> NewRepositories {
        let NewRepositories { options, head } = prototype.clone();
        NewRepositories {
            options: InitOptions {
                hash: self.hash.or(options.hash),
                refs: self.refs.map(RefStorage::from).or(options.refs),
                ..options
            },
            head: self.head.clone().unwrap_or(head),
        }
    }
}

/// Creates a bare repository at `git_dir`, in an existing folder. It is complete and durable when it gets its
/// name, and gets it only if the name is free.
pub(crate) fn make_at(
    git_dir: &Path,
    new: &NewRepositories,
    description: Option<&str>,
) -> Result<(), RepositoryError> {
    let Some(parent) = git_dir.parent() else { return Err(RepositoryError::Taken) };
    for _ in 0..MAX_TRIES {
        let unfinished = parent.join(format!("{UNFINISHED}{:08x}", durable::random_number()));
        if !make_dir(&unfinished, |mode| mode)? {
            continue;
        }
        let named = fill(&unfinished, new, description).and_then(|()| {
            let named = durable::move_dir_to_free(&unfinished, git_dir, Role::Config);
            named.map_err(|error| RepositoryError::disk(git_dir, error))
        });
        if !matches!(named, Ok(true)) {
            // Remains are never served, and may be removed at any time.
            let _ = durable::remove_tree(&unfinished, Role::Config);
        }
        return match named? {
            true => sync(&[parent]),
            false => Err(RepositoryError::Taken),
        };
    }
    Err(RepositoryError::disk(parent, io::ErrorKind::AlreadyExists.into()))
}

fn fill(git_dir: &Path, new: &NewRepositories, description: Option<&str>) -> Result<(), RepositoryError> {
    let options = InitOptions { git_dir: git_dir.to_owned(), ..new.options.clone() };
    Begun::begin(options)?.finish(&new.head)?;
    let Some(text) = description else { return Ok(()) };
    write_description(git_dir, text)
        .map_err(|error| RepositoryError::disk(&git_dir.join("description"), error))
}
