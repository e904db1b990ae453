//! Values of options that can be judged without a repository. Git reads a command line from left to right, so a bad value is told
//! before anything that is wrong behind it. Most functions return the value as it was typed; all refuse in git's words.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use packrace_object::fsck::Severities;
use packrace_store::publish::Sharing;

use crate::call::config_parameters::split_assignment;
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

/// `--cacheinfo` of `update-index`: what `command_words::join_cache_info` has joined.
pub fn cache_info(joined: OsString) -> Result<Vec<u8>, Fatal> {
    match joined.as_bytes() {
        [0, joined @ ..] => Ok(joined.to_vec()),
        _ => Err(Fatal::refused("option `cacheinfo' takes no value")),
    }
}

/// `--schedule` of `maintenance run`.
pub fn frequency(text: &str) -> Result<String, Fatal> {
    match ["hourly", "daily", "weekly"].iter().any(|known| text.eq_ignore_ascii_case(known)) {
        true => Ok(text.to_owned()),
        false => Err(Fatal::new(format!("unrecognized --schedule argument '{text}'"))),
    }
}

/// `--no-schedule` of `maintenance run`.
pub fn no_frequency(_: &str) -> Result<bool, Fatal> {
    Err(Fatal::new("--no-schedule is not allowed"))
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

/// `-c`, before the command.
pub fn setting(text: &str) -> Result<(String, Option<String>), Infallible> {
    Ok(split_assignment(text))
}

/// The setting that `NAME=VARIABLE` describes. The last `=` separates the two.
pub fn setting_of_variable(
    text: &str,
    variables: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(String, Option<String>), String> {
    let Some((name, variable)) = text.rsplit_once('=') else {
        return Err(format!("invalid config format: {text}"));
    };
    if variable.is_empty() {
        return Err(format!("missing environment variable name for configuration '{name}'"));
    }
    match variables(variable) {
        Some(value) => Ok((name.to_owned(), Some(value.to_string_lossy().into_owned()))),
        None => Err(format!("missing environment variable '{variable}' for configuration '{name}'")),
    }
}
