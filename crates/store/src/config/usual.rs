//! Settings that git checks in every command, whether or not it needs them: a bad value ends the command.

use std::path::PathBuf;
use std::sync::Arc;

use super::bad_setting::{bad_setting, missing_value, not_a_time};
use super::entry::ConfigEntry;
use super::{Config, bad_boolean, parse_boolean};
use crate::error::{Error, Reason};
use crate::expiry::expiry;

/// What an abbreviated name of an object may stand for.
const HINTS: [&str; 6] = ["none", "commit", "committish", "tree", "treeish", "blob"];

/// What a push without refspecs pushes; the last is an old name of `upstream`.
const PUSHES: [&str; 6] = ["nothing", "matching", "simple", "upstream", "current", "tracking"];

/// How far a key may be trusted.
const TRUST_LEVELS: [&str; 5] = ["undefined", "never", "marginal", "fully", "ultimate"];

const PUSHES_IN_WORDS: &str = "must be one of nothing, matching, simple, upstream or current";

/// The hints of git (git-config, "advice.*").
const ADVICE: [&[u8]; 43] = [
    b"addembeddedrepo",
    b"addemptypathspec",
    b"addignoredfile",
    b"ambiguousfetchrefspec",
    b"amworkdir",
    b"checkoutambiguousremotebranchname",
    b"commitbeforemerge",
    b"detachedhead",
    b"diverging",
    b"fetchshowforcedupdates",
    b"forcedeletebranch",
    b"ignoredhook",
    b"implicitidentity",
    b"mergeconflict",
    b"nestedtag",
    b"pushalreadyexists",
    b"pushfetchfirst",
    b"pushneedsforce",
    b"pushnonfastforward",
    b"pushnonffcurrent",
    b"pushnonffmatching",
    b"pushrefneedsupdate",
    b"pushunqualifiedrefname",
    b"pushupdaterejected",
    b"rebasetodoerror",
    b"refsyntax",
    b"resetnorefresh",
    b"resolveconflict",
    b"rmhints",
    b"sequencerinuse",
    b"setupstreamfailure",
    b"skippedcherrypicks",
    b"sparseindexexpanded",
    b"statusaheadbehind",
    b"statushints",
    b"statusuoption",
    b"submodulealternateerrorstrategydie",
    b"submodulemergeconflict",
    b"submodulesnotupdated",
    b"suggestdetachinghead",
    b"updatesparsepath",
    b"waitingforeditor",
    b"worktreeaddorphan",
];

/// What a value must be.
enum Form {
    /// Anything that [`refused_word`] lets pass, but not nothing.
    Text,
    /// How objects get their names.
    Creation,
    Boolean,
    /// A boolean or this word.
    BooleanOr(&'static str),
    /// A boolean, or whether a new branch tracks another.
    Tracking,
    /// A number of bytes.
    Size,
    /// The level of this compression.
    Level(&'static str),
    /// The length of abbreviations.
    Digits,
}

impl Config {
    /// Refuses the first bad setting.
    pub fn check_usual(&self) -> Result<(), Error> {
        self.entries.iter().try_for_each(|entry| check(entry, &|| self.shown_file(entry)))
    }

    /// Refuses the first `gpg.minTrustLevel` that is no level of trust.
    pub fn check_trust_level(&self) -> Result<(), Error> {
        self.check_all(
            |name| name == b"gpg.mintrustlevel",
            |value| is_one_of(Some(&value.to_ascii_lowercase()), &TRUST_LEVELS),
            |value, _| format!("invalid value for 'gpg.mintrustlevel': '{value}'"),
        )
    }

    /// Refuses the first time of `gc.reflogExpire` and the like that is none, whatever refs it is for.
    pub fn check_reflog_times(&self) -> Result<(), Error> {
        let is_key = |key: &[u8]| matches!(key, b"reflogexpire" | b"reflogexpireunreachable");
        self.check_all(
            |name| name.starts_with(b"gc.") && name.rsplit(|byte| *byte == b'.').next().is_some_and(is_key),
            |value| expiry(&String::from_utf8_lossy(value)).is_some(),
            not_a_time,
        )
    }

    /// Refuses the first value of these names that is missing or not good; `why` is told of the value and its name.
    fn check_all(
        &self,
        is_wanted: impl Fn(&[u8]) -> bool,
        is_good: impl Fn(&[u8]) -> bool,
        why: impl Fn(&str, &str) -> String,
    ) -> Result<(), Error> {
        for entry in self.entries.iter().filter(|entry| is_wanted(&entry.name)) {
            let file = self.shown_file(entry);
            let Some(value) = &entry.value else { return Err(missing_value(entry, file.as_deref())) };
            if !is_good(value) {
                let why = why(&entry.value_text(), &entry.name_text());
                return Err(bad_setting(entry, why, file.as_deref()));
            }
        }
        Ok(())
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
        Form::Text | Form::Creation | Form::Digits if value.is_none() => {
            Err(missing_value(entry, file().as_deref()))
        }
        Form::Text => match refused_word(entry) {
            Some(why) => Err(bad_setting(entry, why, file().as_deref())),
            None => Ok(()),
        },
        Form::Creation if is_one_of(value, &["rename", "link"]) => Ok(()),
        Form::Creation => {
            let words = format!("invalid mode for object creation: {}", entry.value_text());
            Err(Reason::Config(words).into())
        }
        Form::BooleanOr(word) if is_word(word) => Ok(()),
        Form::Tracking if is_one_of(value, &["always", "inherit", "simple"]) => Ok(()),
        Form::Boolean | Form::BooleanOr(_) | Form::Tracking if is_boolean => Ok(()),
        Form::Boolean | Form::BooleanOr(_) | Form::Tracking => Err(bad_boolean(entry)),
        Form::Size => match called(entry, file()).integer()? {
            0.. => Ok(()),
            _ => Err(called(entry, file()).bad_number("invalid unit")),
        },
        Form::Digits if is_word("auto") => Ok(()),
        // A word, or nothing: 0 is a number here.
        Form::Digits if value.and_then(parse_boolean) == Some(false) && number().is_err() => Ok(()),
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

/// Why git refuses a word, if it does.
fn refused_word(entry: &ConfigEntry) -> Option<String> {
    let value = entry.value.as_deref();
    let folded = value.map(<[u8]>::to_ascii_lowercase);
    let folded = folded.as_deref();
    let shown = entry.value_text();
    match entry.name.as_slice() {
        b"branch.autosetuprebase" if !is_one_of(value, &["never", "local", "remote", "always"]) => {
            Some("malformed value for branch.autosetuprebase".to_owned())
        }
        b"core.checkstat" if !is_one_of(folded, &["default", "minimal"]) => {
            Some(format!("invalid value for 'core.checkstat': '{shown}'"))
        }
        b"core.disambiguate" if !is_one_of(folded, &HINTS) => {
            Some(format!("unknown hint type for 'core.disambiguate': {shown}"))
        }
        b"push.default" if !is_one_of(value, &PUSHES) => {
            Some(format!("malformed value for push.default: {shown}\nerror: {PUSHES_IN_WORDS}"))
        }
        _ => None,
    }
}

fn is_one_of(value: Option<&[u8]>, words: &[&str]) -> bool {
    words.iter().any(|word| value == Some(word.as_bytes()))
}

/// The entry with its file called so.
fn called(entry: &ConfigEntry, file: Option<PathBuf>) -> ConfigEntry {
    ConfigEntry { file: file.map(Arc::from), ..entry.clone() }
}

fn form_of(name: &[u8]) -> Option<Form> {
    if name.strip_prefix(b"advice.").is_some_and(|hint| ADVICE.binary_search(&hint).is_ok()) {
        return Some(Form::Boolean);
    }
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
        | b"core.disambiguate"
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
        b"core.bare"
        | b"core.filemode"
        | b"core.ignorecase"
        | b"core.ignorestat"
        | b"core.lockfilepid"
        | b"core.precomposeunicode"
        | b"core.prefersymlinkrefs"
        | b"core.protecthfs"
        | b"core.protectntfs"
        | b"core.quotepath"
        | b"core.sparsecheckout"
        | b"core.sparsecheckoutcone"
        | b"core.symlinks"
        | b"core.trustctime"
        | b"sparse.expectfilesoutsideofpatterns"
        | b"user.useconfigonly" => Form::Boolean,
        b"branch.autosetupmerge" => Form::Tracking,
        b"core.createobject" => Form::Creation,
        b"pack.packsizelimit" => Form::Size,
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
        check("branch.autoSetupMerge", Some("simple"), Ok(()));
        let folded = "bad boolean config value 'Simple' for 'branch.autosetupmerge'";
        check("branch.autoSetupMerge", Some("Simple"), Err(folded));
        check("core.createObject", Some("link"), Ok(()));
        check("core.createObject", Some("x"), Err("invalid mode for object creation: x"));
        check("core.checkStat", Some("Minimal"), Ok(()));
        check("core.checkStat", Some("x"), Err("invalid value for 'core.checkstat': 'x'"));
        check("core.disambiguate", Some("any"), Err("unknown hint type for 'core.disambiguate': any"));
        check("branch.autoSetupRebase", Some("Never"), Err("malformed value for branch.autosetuprebase"));
        check("push.default", Some("tracking"), Ok(()));
        check("pack.packSizeLimit", Some("99g"), Ok(()));
        let negative = "bad numeric config value '-1' for 'pack.packsizelimit': invalid unit";
        check("pack.packSizeLimit", Some("-1"), Err(negative));
        check("core.abbrev", None, Err("missing value for 'core.abbrev'"));
        check("core.abbrev", Some("auto"), Ok(()));
        check("core.abbrev", Some("NO"), Ok(()));
        check("core.abbrev", Some(""), Ok(()));
        check("core.abbrev", Some("0"), Err("abbrev length out of range: 0"));
        check("core.abbrev", Some("x"), Err("bad numeric config value 'x' for 'core.abbrev': invalid unit"));
        check("core.abbrev", Some("41"), Ok(()));
        check("core.abbrev", Some("3"), Err("abbrev length out of range: 3"));
        let far = "bad numeric config value '9g' for 'core.compression': out of range";
        check("core.compression", Some("9g"), Err(far));
        check("core.looseCompression", Some("77"), Err("bad zlib compression level 77"));
    }

    #[test]
    fn the_line_of_a_missing_value_is_told() {
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path().join("config");
        std::fs::write(&path, "[user]\n\temail = name\n[core]\n\n[user]name=a\n\tname\n").unwrap();
        let sources = ConfigSources { global: vec![path], ..ConfigSources::default() };
        let mut config = Config::outside(&sources).unwrap();
        config.show_as(dir.path().to_owned(), ".".into());
        let error = config.check_usual().unwrap_err();
        assert_eq!(error.to_string(), "missing value for 'user.name'");
        let lines = (
            "error: missing value for 'user.name'\n",
            "bad config variable 'user.name' in file 'config' at line 6",
        );
        assert_eq!(error.in_git_words(), Some((lines.0.to_owned(), lines.1.to_owned())));
    }
}
