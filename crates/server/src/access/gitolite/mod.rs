//! A `gitolite.conf` becomes rules of ours, which never allow more than it did.
//!
//! Format and meaning are those of gitolite's documentation ("the conf file", parts 1 and 2). An allow rule is only taken as far
//! as our patterns can say it, and a deny rule is widened until they can, so that the first rule that matches allows nothing
//! that gitolite denied. What differs is listed. What cannot be understood is an error: it could deny something.

mod conf;
mod globs;
mod permission;
mod repositories;
mod rules;

use conf::{Conf, Parser};

/// Most bytes of all files together, and of the rules that are made of them.
const MAX_BYTES: usize = 16 << 20;

/// Rules that were made of a `gitolite.conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedRules {
    /// The file of rules.
    pub toml: String,
    /// What it does not say, or says more strictly: a line each, which begins with file and line.
    pub left_out: Vec<String>,
}

/// Gives the names and texts of the files that an `include` means, or of the first file.
pub type ReadConf<'a> = dyn FnMut(&str) -> Result<Vec<(String, String)>, String> + 'a;

/// Converts the file of this name, and what it includes. Fails with file and line.
pub fn convert_gitolite(name: &str, read: &mut ReadConf<'_>) -> Result<ConvertedRules, String> {
    let conf: Conf = Parser::new(read).parse(name)?;
    rules::convert(&conf)
}
