//! Errors about a setting, which git tells in two lines: what is wrong, and where.

use std::path::Path;

use super::entry::ConfigEntry;
use super::{Config, ConfigScope, includes, normalized};
use crate::error::{Error, Reason};

impl Config {
    /// Fails if the repository sets something without a value that git reads to open it.
    pub fn need_values_to_open(&self) -> Result<(), Error> {
        let names: [&[u8]; 2] = [b"core.worktree", b"extensions.partialclone"];
        let missing = |entry: &&ConfigEntry| {
            entry.value.is_none() && entry.scope == ConfigScope::Local && names.contains(&&*entry.name)
        };
        let Some(entry) = self.entries.iter().find(missing) else { return Ok(()) };
        Err(self.bad_line(entry, format!("missing value for '{}'", entry.name_text())))
    }

    /// That what the repository sets under this name, which git reads to open it, is wrong, and why.
    pub(crate) fn bad_to_open(&self, name: &str, why: String) -> Error {
        let name = normalized(name);
        let of_repository = |entry: &&ConfigEntry| entry.scope == ConfigScope::Local && entry.name == name;
        match self.entries.iter().rfind(of_repository) {
            Some(entry) => self.bad_line(entry, why),
            None => Reason::Refused(why).into(),
        }
    }

    fn bad_line(&self, entry: &ConfigEntry, why: String) -> Error {
        let path = self.opened_file(entry).unwrap_or_default();
        let place = format!("bad config line {} in file {}", line(entry), path.display());
        Reason::Setting { why, place }.into()
    }
}

/// That an entry needs a value and has none; `shown` is what its file is called.
pub(super) fn missing_value(entry: &ConfigEntry, shown: Option<&Path>) -> Error {
    bad_setting(entry, format!("missing value for '{}'", entry.name_text()), shown)
}

/// That an entry is wrong, and why.
pub(super) fn bad_setting(entry: &ConfigEntry, why: String, shown: Option<&Path>) -> Error {
    let name = entry.name_text();
    let place = match shown {
        Some(path) => {
            let (path, line) = (path.display(), line(entry));
            format!("bad config variable '{name}' in file '{path}' at line {line}")
        }
        None => format!("unable to parse '{name}' from command-line config"),
    };
    Reason::Setting { why, place }.into()
}

/// The first line of the file that has this key, with a value or without. The parser keeps no lines, so the file is read again.
fn line(entry: &ConfigEntry) -> usize {
    let file = entry.file.as_deref();
    let text = file.and_then(|path| includes::read(entry.scope, path).ok()?).unwrap_or_default();
    let key = entry.name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let is_key = |line: &[u8]| {
        let line = line.trim_ascii();
        let header = line.starts_with(b"[").then(|| line.iter().rposition(|byte| *byte == b']')).flatten();
        let line = &line[header.map_or(0, |end| end + 1)..];
        let end = line.iter().position(|byte| *byte == b'=');
        let found = line[..end.unwrap_or(line.len())].trim_ascii();
        end.is_some() == entry.value.is_some() && found.eq_ignore_ascii_case(key)
    };
    text.split(|byte| *byte == b'\n').position(is_key).map_or(1, |before| before + 1)
}

/// Git's words for a time that is none.
pub(super) fn not_a_time(value: &str, name: &str) -> String {
    format!("'{value}' for '{name}' is not a valid timestamp")
}
