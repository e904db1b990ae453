//! Settings that git checks in every command, whether or not it needs them: a bad value ends the command.

use std::path::PathBuf;
use std::sync::Arc;

use super::bad_setting::{bad_setting, missing_value};
use super::entry::ConfigEntry;
use super::{Config, bad_boolean, parse_boolean};
use crate::error::{Error, Reason};

/// What a value must be.
enum Form {
    /// Anything, but not nothing.
    Text,
    Boolean,
    /// A boolean or this word.
    BooleanOr(&'static str),
    /// The level of this compression.
    Level(&'static str),
    /// The length of abbreviations.
    Digits,
}

impl Config {
    /// Refuses the first bad setting.
    pub(crate) fn check_usual(&self) -> Result<(), Error> {
        self.entries.iter().try_for_each(|entry| check(entry, &|| self.shown_file(entry)))
    }
}

fn check(entry: &ConfigEntry, file: &dyn Fn() -> Option<PathBuf>) -> Result<(), Error> {
    let Some(form) = form_of(&entry.name) else { return Ok(()) };
    let value = entry.value.as_deref();
    let is_word = |word: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
    let is_boolean = value.is_none_or(|value| parse_boolean(value).is_some());
    let number = || {
        let number = called(entry, file()).integer()?;
        i32::try_from(number).map_err(|_| called(entry, file()).bad_number("out of range"))
    };
    match form {
        Form::Text | Form::Digits if value.is_none() => Err(missing_value(entry, file().as_deref())),
        Form::Text => Ok(()),
        Form::BooleanOr(word) if is_word(word) => Ok(()),
        Form::Boolean | Form::BooleanOr(_) if is_boolean => Ok(()),
        Form::Boolean | Form::BooleanOr(_) => Err(bad_boolean(entry)),
        Form::Digits if is_word("auto") || value.and_then(parse_boolean) == Some(false) => Ok(()),
        Form::Digits => match number()? {
            4.. => Ok(()),
            few => Err(bad_setting(entry, format!("abbrev length out of range: {few}"), file().as_deref())),
        },
        Form::Level(what) => match number()? {
            -1..=9 => Ok(()),
            level => Err(Reason::Config(format!("bad {what} compression level {level}")).into()),
        },
    }
}

/// The entry with its file called so.
fn called(entry: &ConfigEntry, file: Option<PathBuf>) -> ConfigEntry {
    ConfigEntry { file: file.map(Arc::from), ..entry.clone() }
}

fn form_of(name: &[u8]) -> Option<Form> {
    Some(match name {
        b"attr.tree"
        | b"author.email"
        | b"author.name"
        | b"branch.autosetuprebase"
        | b"committer.email"
        | b"committer.name"
        | b"core.askpass"
        | b"core.attributesfile"
        | b"core.checkroundtripencoding"
        | b"core.checkstat"
        | b"core.commentchar"
        | b"core.commentstring"
        | b"core.createobject"
        | b"core.editor"
        | b"core.excludesfile"
        | b"core.fsync"
        | b"core.fsyncmethod"
        | b"core.whitespace"
        | b"i18n.commitencoding"
        | b"i18n.logoutputencoding"
        | b"push.default"
        | b"user.email"
        | b"user.name" => Form::Text,
        b"core.filemode"
        | b"core.ignorecase"
        | b"core.ignorestat"
        | b"core.lockfilepid"
        | b"core.precomposeunicode"
        | b"core.protecthfs"
        | b"core.protectntfs"
        | b"core.quotepath"
        | b"core.sparsecheckout"
        | b"core.sparsecheckoutcone"
        | b"core.symlinks"
        | b"core.trustctime"
        | b"sparse.expectfilesoutsideofpatterns"
        | b"user.useconfigonly" => Form::Boolean,
        b"core.autocrlf" => Form::BooleanOr("input"),
        b"core.safecrlf" => Form::BooleanOr("warn"),
        b"core.compression" | b"core.loosecompression" => Form::Level("zlib"),
        b"pack.compression" => Form::Level("pack"),
        b"core.abbrev" => Form::Digits,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigSources;

    #[test]
    fn bad_values_are_refused_in_gits_words() {
        let check = |name: &str, value: Option<&str>, expect: Result<(), &str>| {
            let overrides = vec![(name.to_owned(), value.map(str::to_owned))];
            let config = Config::outside(&ConfigSources { overrides, ..ConfigSources::default() }).unwrap();
            let found = config.check_usual().map_err(|error| error.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{name}={value:?}");
        };
        check("user.name", None, Err("missing value for 'user.name'"));
        check("user.name", Some(""), Ok(()));
        check("user.other", None, Ok(()));
        check("core.fileMode", None, Ok(()));
        check("core.fileMode", Some("x"), Err("bad boolean config value 'x' for 'core.filemode'"));
        check("core.autocrlf", Some("INPUT"), Ok(()));
        check("core.autocrlf", Some("warn"), Err("bad boolean config value 'warn' for 'core.autocrlf'"));
        check("core.abbrev", None, Err("missing value for 'core.abbrev'"));
        check("core.abbrev", Some("auto"), Ok(()));
        check("core.abbrev", Some("NO"), Ok(()));
        check("core.abbrev", Some("x"), Err("bad numeric config value 'x' for 'core.abbrev': invalid unit"));
        check("core.abbrev", Some("41"), Ok(()));
        check("core.abbrev", Some("3"), Err("abbrev length out of range: 3"));
        let far = "bad numeric config value '9g' for 'core.compression': out of range";
        check("core.compression", Some("9g"), Err(far));
        check("core.looseCompression", Some("77"), Err("bad zlib compression level 77"));
    }

    #[test]
    fn the_line_of_a_missing_value_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, "[user]\n\temail = name\n[core]\n\n[user]name=a\n\tname\n").unwrap();
        let sources = ConfigSources { global: vec![path], ..ConfigSources::default() };
        let mut config = Config::outside(&sources).unwrap();
        config.show_as(dir.path().to_owned(), ".".into());
        let error = config.check_usual().unwrap_err();
        assert_eq!(error.to_string(), "missing value for 'user.name'");
        let place = "bad config variable 'user.name' in file 'config' at line 6";
        assert_eq!(error.bad_setting(), Some(place));
    }
}
