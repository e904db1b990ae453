//! Configuration of object checks (git-config, `receive.fsckObjects`, `fsck.<msg-id>`) and the skip lists
//! that it and command lines name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_object::fsck::{MessageId, Rules, Severities, SkipList};
use packrace_os::count::Role;

use crate::config::Config;
use crate::error::{Error, ErrorKind};

/// Longest skip list that is read: some million objects.
const MAX_SKIP_LIST_BYTES: u64 = 256 << 20;

/// What comes before a path that need not exist.
const OPTIONAL: &[u8] = b":(optional)";

/// The command whose objects are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsckUse {
    /// A server that receives a push: `receive.fsckObjects`, `receive.fsck.<msg-id>`.
    Receive,
    /// A client that fetches: `fetch.fsckObjects`, `fetch.fsck.<msg-id>`.
    Fetch,
    /// `git fsck`: `fsck.<msg-id>`.
    Fsck,
}

impl FsckUse {
    fn section(self) -> &'static str {
        match self {
            FsckUse::Receive => "receive",
            FsckUse::Fetch => "fetch",
            FsckUse::Fsck => "fsck",
        }
    }
}

/// The settings for one use; those of the other uses do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FsckSettings {
    /// Whether incoming objects are checked; always true for `git fsck`.
    pub checks_objects: bool,
    /// Message ids and severities, as written in the configuration.
    settings: Vec<(Vec<u8>, Vec<u8>)>,
    skip_lists: Vec<NamedSkipLists>,
}

/// A value of `skipList`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedSkipLists {
    path: PathBuf,
    /// Whether protected configuration names it.
    is_protected: bool,
    /// Whether the file may be missing (git-config, "pathname").
    is_optional: bool,
}

impl FsckSettings {
    /// Reads the configuration and reports what git reports at this point: unknown severities, and unknown
    /// message ids, which are an error for `git fsck` and a warning otherwise.
    pub fn of(config: &Config, used_by: FsckUse) -> Result<Self, Error> {
        let section = used_by.section();
        let mut found = FsckSettings { checks_objects: used_by == FsckUse::Fsck, ..Self::default() };
        if used_by != FsckUse::Fsck {
            let own = config.boolean(&format!("{section}.fsckObjects"))?;
            let checks = own.map_or_else(|| config.boolean("transfer.fsckObjects"), |own| Ok(Some(own)))?;
            found.checks_objects = checks.unwrap_or(false);
        }
        let prefix = if used_by == FsckUse::Fsck { "fsck.".to_owned() } else { format!("{section}.fsck.") };
        for (full_name, value) in config.section(section) {
            if let Some(name) = full_name.strip_prefix(prefix.as_bytes()) {
                found.add(name, value, full_name, config, used_by)?;
            }
        }
        Ok(found)
    }

    fn add(
        &mut self,
        name: &[u8],
        value: Option<&[u8]>,
        full_name: &[u8],
        config: &Config,
        used_by: FsckUse,
    ) -> Result<(), Error> {
        let shown_name = String::from_utf8_lossy(full_name);
        if name == b"skiplist" {
            config.need_values(&[&shown_name])?;
            let value = value.unwrap_or_default();
            let is_protected = config.protected_strings(&shown_name).iter().any(|other| other == value);
            let path = value.strip_prefix(OPTIONAL);
            let is_optional = path.is_some();
            let path = config.expand(path.unwrap_or(value));
            self.skip_lists.push(NamedSkipLists { path, is_protected, is_optional });
            return Ok(());
        }
        if MessageId::from_name(name).is_none() && used_by != FsckUse::Fsck {
            tracing::warn!("skipping unknown msg id '{}'", String::from_utf8_lossy(name));
            return Ok(());
        }
        config.need_values(&[&shown_name])?;
        let value = value.unwrap_or_default();
        match Severities::strict().set(name, value) {
            // Reported when objects are checked.
            Ok(()) | Err(packrace_object::fsck::SettingError::CannotDemote { .. }) => {
                self.settings.push((name.to_vec(), value.to_vec()));
                Ok(())
            }
            Err(error) => Err(invalid(error)),
        }
    }

    /// Reads the skip lists and applies the settings on top of `severities`.
    pub fn rules(&self, severities: Severities, hash: HashKind) -> Result<Rules, Error> {
        self.rules_below(Path::new(""), severities, hash)
    }

    /// The same, if relative paths are below this directory, in which git's process would be.
    pub fn rules_below(
        &self,
        directory: &Path,
        mut severities: Severities,
        hash: HashKind,
    ) -> Result<Rules, Error> {
        for (name, value) in &self.settings {
            severities.set(name, value).map_err(invalid)?;
        }
        let mut skip = SkipList::default();
        for named in &self.skip_lists {
            if named.is_optional && !directory.join(&named.path).exists() {
                continue;
            }
            // Git passes the value on as a part of an argument, in which a comma or a space ends a path.
            let argument = [b"skiplist=", named.path.as_os_str().as_bytes()].concat();
            for path in severities.set_all(&argument).map_err(invalid)? {
                let path = Path::new(OsStr::from_bytes(path));
                add_skip_list(directory, path, named.is_protected, &mut skip, hash)?;
            }
        }
        Ok(Rules { severities, skip })
    }
}

/// The rules of `--strict=<settings>` and `--fsck-objects=<settings>` (git-index-pack); empty without settings.
pub fn strict_fsck_rules(settings: &[u8], hash: HashKind) -> Result<Rules, Error> {
    let mut rules = Rules { severities: Severities::strict(), skip: SkipList::default() };
    let paths = rules.severities.set_all(settings).map_err(invalid)?;
    for path in paths {
        let path = Path::new(OsStr::from_bytes(path));
        add_skip_list(Path::new(""), path, true, &mut rules.skip, hash)?;
    }
    Ok(rules)
}

/// A skip list that protected configuration names may be anywhere.
fn add_skip_list(
    below: &Path,
    path: &Path,
    anywhere: bool,
    skip: &mut SkipList,
    hash: HashKind,
) -> Result<(), Error> {
    let file = packrace_os::read_regular_file(&below.join(path), anywhere, Role::Config, MAX_SKIP_LIST_BYTES);
    let file = file.map_err(|error| {
        tracing::debug!("{}: {error}", path.display());
        let words = format!("could not open object name list: {}", path.display());
        Error::caused(ErrorKind::Refused, words, error)
    })?;
    skip.add(&file, hash).map_err(invalid)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused(ErrorKind::Refused, error.to_string(), error)
}

#[cfg(test)]
mod tests {
    use packrace_object::fsck::Severity;

    use super::*;
    use crate::config::ConfigSources;

    fn settings(used_by: FsckUse, overrides: &[(&str, Option<&str>)]) -> Result<FsckSettings, Error> {
        let overrides = overrides.iter().map(|(name, value)| (name.to_string(), value.map(str::to_owned)));
        let sources = ConfigSources {
            overrides: overrides.collect(),
            home: Some("/users/of".into()),
            ..ConfigSources::default()
        };
        FsckSettings::of(&Config::outside(&sources).unwrap(), used_by)
    }

    #[test]
    fn whether_anything_is_checked() {
        let check = |overrides: &[(&str, Option<&str>)], expect: [bool; 2]| {
            let got = [FsckUse::Receive, FsckUse::Fetch]
                .map(|used_by| settings(used_by, overrides).unwrap().checks_objects);
            assert_eq!(got, expect, "{overrides:?}");
        };
        check(&[], [false, false]);
        check(&[("transfer.fsckObjects", None)], [true, true]);
        check(&[("transfer.fsckObjects", Some("1")), ("receive.fsckObjects", Some("no"))], [false, true]);
        check(&[("transfer.fsckObjects", Some("0")), ("fetch.fsckObjects", Some("yes"))], [false, true]);
        let error = settings(FsckUse::Receive, &[("receive.fsckObjects", Some("maybe"))]).unwrap_err();
        assert_eq!(error.to_string(), "bad boolean config value 'maybe' for 'receive.fsckobjects'");
        assert!(settings(FsckUse::Fsck, &[]).unwrap().checks_objects);
    }

    #[test]
    fn each_use_has_severities_of_its_own() {
        let overrides = [
            ("receive.fsck.badDate", Some("warn")),
            ("receive.fsck.badDate", Some("ignore")),
            ("receive.fsck.foo", Some("warn")),
            ("fetch.fsck.badEmail", Some("warn")),
            ("fsck.hasDot", Some("error")),
        ];
        let rules =
            |used_by, base| settings(used_by, &overrides).unwrap().rules(base, HashKind::Sha1).unwrap();
        let receive = rules(FsckUse::Receive, Severities::strict()).severities;
        assert_eq!(receive.of(MessageId::BadDate), Severity::Ignore);
        assert_eq!(receive.of(MessageId::BadEmail), Severity::Error);
        let fetch = rules(FsckUse::Fetch, Severities::strict()).severities;
        assert_eq!(fetch.of(MessageId::BadEmail), Severity::Warn);
        let fsck = rules(FsckUse::Fsck, Severities::lenient()).severities;
        assert_eq!(
            (fsck.of(MessageId::HasDot), fsck.of(MessageId::BadDate)),
            (Severity::Error, Severity::Error)
        );
        assert_eq!(fsck.of(MessageId::HasDotdot), Severity::Warn);
    }

    #[test]
    fn what_makes_no_sense_in_gits_words() {
        let check = |used_by, name, value, expect: &str| {
            let got = settings(used_by, &[(name, value)]);
            let got = got.and_then(|settings| settings.rules(Severities::strict(), HashKind::Sha1));
            assert_eq!(got.unwrap_err().to_string(), expect, "{name}");
        };
        let receive = FsckUse::Receive;
        check(receive, "receive.fsck.badDate", Some("foo"), "Unknown fsck message type: 'foo'");
        let missing = |name: &str| format!("missing value for 'receive.fsck.{name}'");
        check(receive, "receive.fsck.badDate", None, &missing("baddate"));
        check(receive, "receive.fsck.skipList", None, &missing("skiplist"));
        check(receive, "receive.fsck.nulInHeader", Some("warn"), "Cannot demote nulinheader to warn");
        check(FsckUse::Fsck, "fsck.foo", Some("warn"), "Unhandled message id: foo");
        let absent = "could not open object name list: /users/of/absent";
        check(receive, "receive.fsck.skipList", Some("~/absent"), absent);
        check(receive, "receive.fsck.skipList", Some("list,list2"), "Missing '=': 'list2'");
        check(receive, "receive.fsck.skipList", Some(""), "could not open object name list: ");
        let optional = settings(receive, &[("receive.fsck.skipList", Some(":(optional)~/absent"))]).unwrap();
        assert!(optional.rules(Severities::strict(), HashKind::Sha1).is_ok());
        // Reported before objects arrive, as in git.
        assert!(settings(receive, &[("receive.fsck.nulInHeader", Some("warn"))]).is_ok());
    }

    #[test]
    fn skip_lists_add_up() {
        let dir = packrace_testkit::scratch_dir();
        let ids = [HashKind::Sha1.empty_tree(), HashKind::Sha1.empty_blob()];
        let paths = ids.map(|id| {
            let path = dir.path().join(id.to_string());
            std::fs::write(&path, format!("# known\n{id}\n")).unwrap();
            path.to_str().unwrap().to_owned()
        });
        let argument = format!("skipList={},badDate=warn skiplist:{}", paths[0], paths[1]);
        let rules = strict_fsck_rules(argument.as_bytes(), HashKind::Sha1).unwrap();
        assert!(ids.iter().all(|id| rules.skip.contains(id)));
        assert_eq!(rules.severities.of(MessageId::BadDate), Severity::Warn);
        let lists = paths.each_ref().map(|path| ("fetch.fsck.skipList", Some(path.as_str())));
        let fetch = settings(FsckUse::Fetch, &lists).unwrap();
        let rules = fetch.rules(Severities::strict(), HashKind::Sha1).unwrap();
        assert!(ids.iter().all(|id| rules.skip.contains(id)));
        let error = strict_fsck_rules(argument.as_bytes(), HashKind::Sha256).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid object name: {}", ids[0]));
        assert!(strict_fsck_rules(b"", HashKind::Sha1).unwrap().severities.is_strict());
    }
}
