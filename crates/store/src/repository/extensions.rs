//! What a repository requires of its readers (gitrepository-layout, "Git Repository Format Versions").

use packrace_object::HashKind;

use super::Backend;
use crate::config::Config;
use crate::error::{Error, Reason};

/// The settings of `core.repositoryFormatVersion` and `extensions.*`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepositoryFormat {
    pub(crate) hash: HashKind,
    pub(crate) refs: Backend,
}

impl RepositoryFormat {
    /// Reads them from the repository's own configuration; unsupported ones are refused.
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let version = config.local_integer("core.repositoryFormatVersion")?.unwrap_or(0);
        if version > 1 {
            return Err(refused(format!("Expected git repo version <= 1, found {version}")));
        }
        let mut format = RepositoryFormat { hash: HashKind::Sha1, refs: Backend::Files };
        let (mut unknown, mut too_new) = (Vec::new(), Vec::new());
        for (name, value) in config.local_section("extensions") {
            match name.as_str() {
                // Valid in every version. Partial clones, kept objects and relative paths do not
                // affect reading.
                "noop" | "preciousobjects" | "partialclone" | "worktreeconfig" | "relativeworktrees" => {}
                "noop-v1" | "compatobjectformat" => too_new.push(name),
                "objectformat" => {
                    format.hash = match text_of(&name, value)?.as_str() {
                        "sha1" => HashKind::Sha1,
                        "sha256" => HashKind::Sha256,
                        other => return Err(invalid(&name, other)),
                    };
                    too_new.push(name);
                }
                "refstorage" => {
                    format.refs = match text_of(&name, value)?.as_str() {
                        "files" => Backend::Files,
                        "reftable" => Backend::Reftable,
                        other => return Err(invalid(&name, other)),
                    };
                    too_new.push(name);
                }
                _ => unknown.push(name),
            }
        }
        match (version, too_new.is_empty(), unknown.is_empty()) {
            // Version 0 does not define extensions: unknown ones are ignored.
            (..=0, true, _) => Ok(RepositoryFormat { hash: HashKind::Sha1, refs: Backend::Files }),
            (..=0, false, _) => Err(refused(list("repo version is 0, but v1-only extension", &too_new))),
            (_, _, true) => Ok(format),
            (_, _, false) => Err(refused(list("unknown repository extension", &unknown))),
        }
    }
}

fn text_of(name: &str, value: Option<Vec<u8>>) -> Result<String, Error> {
    let value = value.ok_or_else(|| refused(format!("missing value for 'extensions.{name}'")))?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

fn invalid(name: &str, value: &str) -> Error {
    refused(format!("invalid value for 'extensions.{name}': '{value}'"))
}

fn list(what: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: String = names.iter().map(|name| format!("\n\t{name}")).collect();
    format!("{what}{plural} found:{names}")
}

fn refused(text: String) -> Error {
    Reason::Refused(text).into()
}
