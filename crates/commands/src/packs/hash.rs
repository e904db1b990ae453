//! The object hash, if an option selects it.

use packrace_object::HashKind;
use packrace_store::Repository;

use crate::call::fatal::Fatal;

/// The hash with this name (git-init, `--object-format`), or the error message.
pub fn hash_of_name(name: &str) -> Result<HashKind, String> {
    match name {
        "sha1" => Ok(HashKind::Sha1),
        "sha256" => Ok(HashKind::Sha256),
        other => Err(format!("unknown hash algorithm '{other}'")),
    }
}

/// The hash of `--object-format`, else the repository's.
pub fn chosen_hash(format: Option<&str>, repository: Option<&Repository>) -> Result<HashKind, Fatal> {
    match format {
        None => Ok(repository.map_or(HashKind::Sha1, Repository::hash_kind)),
        Some(name) => hash_of_name(name).map_err(Fatal::new),
    }
}
