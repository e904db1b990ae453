//! Numbers and booleans (git-config, "CONFIGURATION FILE", values).

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::bad_setting::{bad_setting, missing_value, not_a_time};
use super::entry::{ConfigEntry, parse_integer};
use super::{Config, ConfigScope, normalized};
use crate::error::Error;
use crate::expiry::{expiry, expiry_of_objects};

/// The default of [`Config::big_file_bytes`].
pub const BIG_FILE_BYTES: u64 = 512 << 20;

impl Config {
    /// The last value of `name` as a number; the suffixes `k`, `m` and `g` multiply.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        self.read_last(name, ConfigEntry::integer)
    }

    /// As above, for a setting of 32 bits, as most are in git.
    pub fn small_integer(&self, name: &str) -> Result<Option<i32>, Error> {
        self.read_last(name, |entry| {
            i32::try_from(entry.integer()?).map_err(|_| entry.bad_number("out of range"))
        })
    }

    /// As above, for a size, which cannot be negative.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, Error> {
        self.read_last(name, |entry| {
            u64::try_from(entry.integer()?).map_err(|_| entry.bad_number("invalid unit"))
        })
    }

    /// As above, for a size within these bounds.
    pub fn bytes_within(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        self.read_last(name, |entry| {
            let bytes = u64::try_from(entry.integer()?).ok().filter(|bytes| bounds.contains(bytes));
            bytes.ok_or_else(|| entry.bad_number("out of range"))
        })
    }

    /// As above, for a time at which something expires.
    pub fn expiry(&self, name: &str) -> Result<Option<i64>, Error> {
        let Some(entry) = self.last(name) else { return Ok(None) };
        let text = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default());
        let wrong =
            || bad_setting(entry, not_a_time(&text, &entry.name_text()), self.shown_file(entry).as_deref());
        expiry(&text).map(Some).ok_or_else(wrong)
    }

    /// As above, for the time at which objects expire, which is `now` or in the past.
    pub fn expiry_of_objects(&self, name: &str) -> Result<Option<i64>, Error> {
        let Some(entry) = self.last(name) else { return Ok(None) };
        let shown = self.shown_file(entry);
        let Some(value) = &entry.value else { return Err(missing_value(entry, shown.as_deref())) };
        let text = String::from_utf8_lossy(value);
        let time = expiry_of_objects(&text);
        if text != "now" && time >= expiry_of_objects("now") {
            let why = format!("Invalid {}: '{text}'", entry.name_text());
            return Err(bad_setting(entry, why, shown.as_deref()));
        }
        Ok(Some(time))
    }

    /// The size above which contents are kept out of memory if possible and are not deltified (git-config,
    /// "core.bigFileThreshold").
    pub fn big_file_bytes(&self) -> Result<u64, Error> {
        Ok(self.bytes("core.bigFileThreshold")?.unwrap_or(BIG_FILE_BYTES))
    }

    /// The number that the repository itself sets, ignoring all other sources.
    pub(crate) fn local_integer(&self, name: &str) -> Result<Option<i64>, Error> {
        let name = normalized(name);
        let mut entries = self.entries.iter().rev();
        let entry = entries.find(|entry| entry.scope == ConfigScope::Local && entry.name == name);
        entry.map(ConfigEntry::integer).transpose()
    }

    /// What `read` makes of the last value; an error calls its file as messages do.
    fn read_last<T>(
        &self,
        name: &str,
        read: impl Fn(&ConfigEntry) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Some(entry) = self.last(name) else { return Ok(None) };
        let shown = || ConfigEntry { file: self.shown_file(entry).map(Arc::from), ..entry.clone() };
        read(entry).or_else(|_| read(&shown())).map(Some)
    }
}

/// A boolean as git reads it; numbers are allowed.
pub fn parse_boolean(value: &[u8]) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    if is_one_of(&["true", "yes", "on"]) {
        return Some(true);
    }
    if is_one_of(&["false", "no", "off", ""]) {
        return Some(false);
    }
    parse_small_integer(value).map(|number| number != 0)
}

/// A number of 32 bits as git reads it, with the suffixes `k`, `m` and `g`.
pub(crate) fn parse_small_integer(value: &[u8]) -> Option<i32> {
    i32::try_from(parse_integer(value)?).ok()
}
