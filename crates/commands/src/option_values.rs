//! Values of options that can be judged without a repository. Git reads a command line from left to right, so a bad value is told
//! before anything that is wrong behind it. Most functions return the value as it was typed; all refuse in git's words.

use std::ffi::OsString;

use packrace_object::fsck::Severities;
use packrace_store::publish::Sharing;

use crate::call::fatal::Fatal;
use crate::commit_graph::{expiry_time, named_split};
use crate::for_each_ref::is_colored;
use crate::index_pack::parse_index_version;
use crate::maintenance::tasks;
use crate::pack_objects::settings::{follows, gaps_of, pack_index_version};
use crate::packs::hash::hash_of_name;
use crate::packs::settings::filters;
use crate::reflog::expire_time;
use crate::repack::is_incremental;

/// `--split` of `commit-graph write`.
pub fn split_strategy(text: &str) -> Result<String, Fatal> {
    named_split(text).map(|_| text.to_owned())
}

/// `--expire-time` of `commit-graph write`.
pub fn graph_expiry(text: &str) -> Result<String, Fatal> {
    expiry_time(text).map(|_| text.to_owned())
}

/// `--color` of `for-each-ref`.
pub fn color(text: &str) -> Result<OsString, Fatal> {
    is_colored(text, &|| false).map(|_| text.into())
}

/// `--index-version` of `index-pack`.
pub fn index_version(text: &str) -> Result<String, Fatal> {
    parse_index_version(text).map(|_| text.to_owned())
}

/// `--object-format`.
pub fn object_format(text: &str) -> Result<String, Fatal> {
    hash_of_name(text).map(|_| text.to_owned()).map_err(Fatal::new)
}

/// `--strict` and `--fsck-objects` of `index-pack`.
pub fn fsck_severities(text: &str) -> Result<String, Fatal> {
    Severities::strict().set_all(text.as_bytes()).map(|_| text.to_owned()).map_err(Fatal::new)
}

/// `--shared` of `init`.
pub fn sharing(text: &str) -> Result<OsString, Fatal> {
    Sharing::parse(Some(text.as_bytes()), "arg")?;
    Ok(text.into())
}

/// `--chmod` of `update-index`.
pub fn executable(text: &str) -> Result<bool, Fatal> {
    match text {
        "+x" => Ok(true),
        "-x" => Ok(false),
        _ => Err(Fatal::refused("option 'chmod' expects \"+x\" or \"-x\"")),
    }
}

/// `--task` of `maintenance`.
pub fn task(text: &str) -> Result<String, Fatal> {
    let task = text.to_owned();
    tasks(std::slice::from_ref(&task)).map(|_| task)
}

/// `--missing` of `pack-objects`.
pub fn missing_action(text: &str) -> Result<String, Fatal> {
    gaps_of(Some(text)).map(|_| text.to_owned())
}

/// `--filter` of `pack-objects` and `repack`.
pub fn filter(text: &str) -> Result<String, Fatal> {
    let spec = text.to_owned();
    filters(std::slice::from_ref(&spec)).map(|_| spec)
}

/// `--index-version` of `pack-objects`.
pub fn stored_index_version(text: &str) -> Result<String, Fatal> {
    pack_index_version(text).map(|_| text.to_owned())
}

/// `--stdin-packs` of `pack-objects`.
pub fn packs_mode(text: &str) -> Result<String, Fatal> {
    follows(text).map(|_| text.to_owned())
}

/// `--expire` of `reflog expire`.
pub fn expire(text: &str) -> Result<String, Fatal> {
    expire_time(text, "--expire").map(|_| text.to_owned())
}

/// `--expire-unreachable` of `reflog expire`.
pub fn expire_unreachable(text: &str) -> Result<String, Fatal> {
    expire_time(text, "--expire-unreachable").map(|_| text.to_owned())
}

/// `--write-midx` of `repack`.
pub fn midx_mode(text: &str) -> Result<String, Fatal> {
    is_incremental(text).map(|_| text.to_owned())
}

/// The setting that `NAME=VARIABLE` describes. The last `=` separates the two.
pub fn setting_of_variable(
    text: &str,
    variables: &dyn Fn(&str) -> Option<OsString>,
) -> Result<String, String> {
    let Some((name, variable)) = text.rsplit_once('=') else {
        return Err(format!("invalid config format: {text}"));
    };
    if variable.is_empty() {
        return Err(format!("missing environment variable name for configuration '{name}'"));
    }
    if name.contains('=') {
        return Err(format!("--config-env does not support names with '=': '{name}'"));
    }
    match variables(variable) {
        Some(value) => Ok(format!("{name}={}", value.to_string_lossy())),
        None => Err(format!("missing environment variable '{variable}' for configuration '{name}'")),
    }
}
