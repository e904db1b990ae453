//! What a repository requires of its readers (gitrepository-layout, "Git Repository Format Versions").

use std::path::Path;

use packrace_object::HashKind;

use super::discovery;
use crate::config::{Config, IncludingRepository, parse_boolean};
use crate::error::{Error, Reason};
use crate::refs::{Backend, RefStorage, RefStore, Value};

/// The settings of `core.repositoryFormatVersion` and `extensions.*`.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryFormat {
    pub(crate) hash: HashKind,
    pub(crate) refs: RefStorage,
}

impl RepositoryFormat {
    /// Reads them from the repository's own configuration; unsupported ones are refused.
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let version = config.local_integer("core.repositoryFormatVersion")?.unwrap_or(0);
        if version > 1 {
            return Err(unknown_format(format!("Expected git repo version <= 1, found {version}")));
        }
        let mut format = RepositoryFormat { hash: HashKind::Sha1, refs: Backend::Files.into() };
        let (mut unknown, mut too_new) = (Vec::new(), Vec::new());
        for (name, value) in config.local_section("extensions") {
            match name.as_str() {
                // Valid in every version. Partial clones and kept objects do not affect reading.
                "noop" | "preciousobjects" | "partialclone" | "worktreeconfig" => {}
                "noop-v1" | "compatobjectformat" => too_new.push(name),
                // Where git finds other work trees and the repositories of submodules.
                "relativeworktrees" | "submodulepathconfig" => {
                    if let Some(value) = value.filter(|value| parse_boolean(value).is_none()) {
                        let value = String::from_utf8_lossy(&value);
                        let words = format!("bad boolean config value '{value}' for 'extensions.{name}'");
                        return Err(Reason::Config(words).into());
                    }
                    too_new.push(name);
                }
                "objectformat" => {
                    format.hash = match bytes_of(config, &name, value)?.as_slice() {
                        b"sha1" => HashKind::Sha1,
                        b"sha256" => HashKind::Sha256,
                        other => return Err(invalid(config, &name, other)),
                    };
                    too_new.push(name);
                }
                "refstorage" => {
                    let value = bytes_of(config, &name, value)?;
                    format.refs = RefStorage::parse(&value).map_err(|_| invalid(config, &name, &value))?;
                    too_new.push(name);
                }
                _ => unknown.push(name),
            }
        }
        match (version, too_new.is_empty(), unknown.is_empty()) {
            // Version 0 does not define extensions: unknown ones are ignored.
            (..=0, true, _) => Ok(RepositoryFormat { hash: HashKind::Sha1, refs: Backend::Files.into() }),
            (..=0, false, _) => {
                Err(unknown_format(list("repo version is 0, but v1-only extension", &too_new)))
            }
            (_, _, true) => Ok(format),
            (_, _, false) => Err(unknown_format(list("unknown repository extension", &unknown))),
        }
    }
}

/// A repository, for conditions of includes.
pub(crate) fn including(git_dir: &Path) -> IncludingRepository<'_> {
    IncludingRepository { git_dir, branch_of }
}

/// The branch that `HEAD` points to. Included files do not decide where it is stored, nor do variables: they are what
/// the caller is about to read.
fn branch_of(git_dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    let common_dir = discovery::common_dir_of(git_dir)?;
    let format = RepositoryFormat::of(&Config::of_file(&common_dir.join("config"))?)?;
    let refs = RefStore::open_stored(git_dir.to_owned(), common_dir, &format.refs, format.hash);
    Ok(match refs.read(b"HEAD") {
        Ok(Some(Value::Symbolic(target))) => Some(target),
        // What is wrong with it is reported when it is needed.
        Ok(_) | Err(_) => None,
    })
}

fn full_name(name: &str) -> String {
    ["extensions", name].join(".")
}

fn bytes_of(config: &Config, name: &str, value: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
    let name = full_name(name);
    value.ok_or_else(|| config.bad_to_open(&name, format!("missing value for '{name}'")))
}

fn invalid(config: &Config, name: &str, value: &[u8]) -> Error {
    let (name, value) = (full_name(name), String::from_utf8_lossy(value));
    config.bad_to_open(&name, format!("invalid value for '{name}': '{value}'"))
}

fn list(what: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: String = names.iter().map(|name| format!("\n\t{name}")).collect();
    format!("{what}{plural} found:{names}")
}

fn unknown_format(text: String) -> Error {
    Reason::UnknownFormat(text).into()
}
