//! The hash that names objects, where an option says which.

use packrace_object::HashKind;
use packrace_store::Repository;

use crate::call::fatal::Fatal;

/// The hash of this name (git-init, `--object-format`), or why there is none.
pub fn hash_of_name(name: &str) -> Result<HashKind, String> {
    match name {
        "sha1" => Ok(HashKind::Sha1),
        "sha256" => Ok(HashKind::Sha256),
        other => Err(format!("unknown hash algorithm '{other}'")),
    }
}

/// That of `--object-format`, or else the repository's.
pub fn chosen_hash(format: Option<&str>, repository: Option<&Repository>) -> Result<HashKind, Fatal> {
    match format {
        None => Ok(repository.map_or(HashKind::Sha1, Repository::hash_kind)),
        Some(name) => hash_of_name(name).map_err(Fatal::new),
    }
}
