//! Converts a `gitolite.conf` to our rules, which never allow more.
//!
//! Format and meaning follow gitolite's documentation ("the conf file", parts 1 and 2). An allow rule is
//! narrowed until our patterns can express it, and a deny rule is widened, so that the first rule that
//! matches allows nothing that gitolite denied. Differences are listed. Lines that are not understood are
//! errors: they could deny something.

mod conf;
mod files;
mod globs;
mod permission;
mod repositories;
mod rules;

use conf::{Conf, Parser};

pub use files::convert_gitolite_file;

/// The most bytes of all files together, and of the rules that are made from them.
const MAX_BYTES: usize = 16 << 20;

/// Rules converted from a `gitolite.conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedRules {
    /// The content of the rules file.
    pub toml: String,
    /// What was left out or made stricter: one line each, which begins with file and line.
    pub left_out: Vec<String>,
}

/// Returns the names and texts of the files that an `include` names, or of the first file.
pub(crate) type ReadConf<'a> = dyn FnMut(&str) -> Result<Vec<(String, String)>, String> + 'a;

/// Converts the file of this name and its includes. Errors have file and line.
pub(crate) fn convert_gitolite(name: &str, read: &mut ReadConf<'_>) -> Result<ConvertedRules, String> {
    let conf: Conf = Parser::new(read).parse(name)?;
    rules::convert(&conf)
}
