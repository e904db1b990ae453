//! Configuration of writing: `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles` and
//! `core.sharedRepository` (git-config).

use std::sync::{Mutex, PoisonError};

use packrace_os::durable::{NewFile, SyncMethod};

use crate::config::{Config, parse_boolean};
use crate::error::{Error, Reason};

/// The components that `core.fsync` can turn on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// Loose objects.
    LooseObject = 1,
    /// Packs, without their indexes.
    Pack = 2,
    /// Indexes, reverse indexes, bitmaps and mtimes of packs, and multi-pack-indexes.
    PackMetadata = 4,
    /// Commit-graphs.
    CommitGraph = 8,
    /// The index of a work tree.
    Index = 16,
    /// Refs of the files backend, and reftables.
    Reference = 32,
}

const OBJECTS: u8 = Component::LooseObject as u8 | Component::Pack as u8;
const DERIVED: u8 = Component::PackMetadata as u8 | Component::CommitGraph as u8;
const ALL: u8 = OBJECTS | DERIVED | Component::Reference as u8 | Component::Index as u8;
/// The base that a set `core.fsync` modifies: what stock git syncs. Its documentation includes refs as well.
const GIT_DEFAULT: u8 = Component::Pack as u8 | DERIVED;
const WORDS: [(&str, u8); 11] = [
    ("loose-object", Component::LooseObject as u8),
    ("pack", Component::Pack as u8),
    ("pack-metadata", Component::PackMetadata as u8),
    ("commit-graph", Component::CommitGraph as u8),
    ("index", Component::Index as u8),
    ("reference", Component::Reference as u8),
    ("objects", OBJECTS),
    ("derived-metadata", DERIVED),
    ("committed", OBJECTS | Component::Reference as u8),
    ("added", OBJECTS | Component::Reference as u8 | Component::Index as u8),
    ("all", ALL),
];

/// How files are written: what is synced, and who may read them. By default everything is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePolicy {
    /// Bits of [`Component`].
    synced: u8,
    /// Whether names of synced files are made durable too.
    syncs_names: bool,
    method: SyncMethod,
    sharing: Sharing,
    /// `core.lockfilePid`.
    names_holders: bool,
}

/// `core.sharedRepository`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Determined by the umask.
    Umask,
    /// These bits in addition.
    AtLeast(u32),
    /// These bits, regardless of the umask.
    Exactly(u32),
}

impl Sharing {
    /// The meaning of `--shared=<value>` and `core.sharedRepository`; `None` is a name without a value.
    /// `name` is used in errors.
    pub fn parse(value: Option<&[u8]>, name: &str) -> Result<Self, Error> {
        let words = str::from_utf8(value.unwrap_or(b"true")).unwrap_or_default();
        match words {
            "umask" => return Ok(Sharing::Umask),
            "group" => return Ok(GROUP),
            "all" | "world" | "everybody" => return Ok(EVERYBODY),
            _ => {}
        }
        match u32::from_str_radix(words, 8) {
            Ok(0) => Ok(Sharing::Umask),
            Ok(1) => Ok(GROUP),
            Ok(2) => Ok(EVERYBODY),
            Ok(mode) if mode & 0o600 == 0o600 => Ok(Sharing::Exactly(mode & 0o666)),
            Ok(mode) => Err(Reason::Config(format!(
                "problem with core.sharedRepository filemode value (0{mode:03o}).\n\
                 The owner of files must always have read and write permissions."
            ))
            .into()),
            Err(_) => {
                let value = value.unwrap_or(b"true");
                let is_shared = parse_boolean(value).ok_or_else(|| {
                    let value = String::from_utf8_lossy(value);
                    Error::from(Reason::Config(format!("bad boolean config value '{value}' for '{name}'")))
                })?;
                Ok(if is_shared { GROUP } else { Sharing::Umask })
            }
        }
    }

    /// The value that git writes into a new repository's configuration; `None` if it is not shared.
    pub fn to_config(self) -> Option<String> {
        match self {
            Sharing::Umask => None,
            GROUP => Some("1".to_owned()),
            EVERYBODY => Some("2".to_owned()),
            Sharing::AtLeast(mode) | Sharing::Exactly(mode) => Some(format!("0{mode:03o}")),
        }
    }
}

const GROUP: Sharing = Sharing::AtLeast(0o660);
const EVERYBODY: Sharing = Sharing::AtLeast(0o664);

impl Default for WritePolicy {
    fn default() -> Self {
        WritePolicy {
            synced: ALL,
            syncs_names: true,
            method: SyncMethod::Full,
            sharing: Sharing::Umask,
            names_holders: false,
        }
    }
}

impl WritePolicy {
    /// Reads the configuration. Without `core.fsync`, everything is synced; if set, it has git's meaning.
    /// `batch` equals `fsync`: related syncs always run concurrently, and those that git omits for it are the
    /// ones that make data durable on Linux.
    pub fn of(config: &Config) -> Result<Self, Error> {
        let text = |name: &str| match config.value(name) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
            Some(None) => Err(Error::from(Reason::Config(format!("missing value for '{name}'")))),
        };
        let mut warnings = Vec::new();
        let method = match text("core.fsyncMethod")?.as_deref() {
            Some("writeout-only") => SyncMethod::Writeout,
            None | Some("fsync" | "batch") => SyncMethod::Full,
            Some(method) => {
                warnings.push(format!("ignoring unknown core.fsyncMethod value '{method}'"));
                SyncMethod::Full
            }
        };
        let mut synced = match text("core.fsync")? {
            Some(value) => parse_components(&value, &mut warnings),
            None => ALL,
        };
        if let Some(is_synced) = config.boolean("core.fsyncObjectFiles")? {
            warnings.push("core.fsyncObjectFiles is deprecated; use core.fsync instead".to_owned());
            // As in git, it never removes a component.
            synced |= if is_synced { Component::LooseObject as u8 } else { 0 };
        }
        warn_once(warnings);
        let sharing = parse_sharing(config)?;
        let names_holders = config.boolean("core.lockfilePid")?.unwrap_or(false);
        Ok(WritePolicy { synced, syncs_names: true, method, sharing, names_holders })
    }

    /// Whether files of this component are synced before they are named.
    pub fn syncs(self, component: Component) -> bool {
        self.synced & component as u8 != 0
    }

    /// Whether names of files of this component are made durable.
    pub(crate) fn syncs_names(self, component: Component) -> bool {
        self.syncs_names && self.syncs_in_full(component)
    }

    /// Whether files that other processes wrote are synced: names cannot use writeout only, and neither can
    /// files whose writers may have used only that.
    pub(crate) fn syncs_in_full(self, component: Component) -> bool {
        self.method.is_durable() && self.syncs(component)
    }

    /// Whether each lock has a file beside it that names the process that holds it.
    pub(super) fn names_holders(self) -> bool {
        self.names_holders
    }

    /// Whether only content is made durable, because the names are temporary.
    pub(crate) fn is_staged(self) -> bool {
        !self.syncs_names
    }

    /// For received packs, which may be stored in any form: each is as durable as a pack.
    pub fn of_received(self) -> Self {
        if self.syncs(Component::Pack) { self.with_synced(Component::LooseObject) } else { self }
    }

    /// For new objects, which may be stored in any form: if loose ones are durable, so is a pack of them.
    pub(super) fn of_new_objects(self) -> Self {
        match self.syncs(Component::LooseObject) {
            true => self.with_synced(Component::Pack).with_synced(Component::PackMetadata),
            false => self,
        }
    }

    /// For replacements of possibly durable content, which must survive a crash: synced in full, including
    /// names, regardless of configuration.
    pub fn of_rewrites(self) -> Self {
        WritePolicy { synced: ALL, method: SyncMethod::Full, ..self }
    }

    /// For files that are copies, or that are copied before they count: nothing is synced.
    pub fn unsynced(self) -> Self {
        WritePolicy { synced: 0, syncs_names: false, ..self }
    }

    /// For files that are renamed later: their current names need not survive.
    pub(crate) fn without_names(self) -> Self {
        WritePolicy { syncs_names: false, ..self }
    }

    /// As above; files of this component are synced too.
    pub(crate) fn with_synced(self, component: Component) -> Self {
        WritePolicy { synced: self.synced | component as u8, ..self }
    }

    /// As above, for a repository that is shared differently.
    pub fn shared(self, sharing: Sharing) -> Self {
        WritePolicy { sharing, ..self }
    }

    /// Who may read and write, beyond the umask.
    pub fn sharing(self) -> Sharing {
        self.sharing
    }

    /// Sets the mode of a new file, unless only the umask decides, and its sync method.
    pub(crate) fn prepare(self, file: &mut NewFile) -> std::io::Result<()> {
        file.set_sync_method(self.method);
        match self.sharing {
            Sharing::Umask => Ok(()),
            _ => file.change_mode(|mode| self.file_mode(mode)),
        }
    }

    /// The mode of a file whose mode after the umask is `mode`. A file that its owner may not write is
    /// writable by nobody.
    pub(crate) fn file_mode(self, mode: u32) -> u32 {
        let bits = |shared: u32| {
            let shared = if mode & 0o200 == 0 { shared & !0o222 } else { shared };
            if mode & 0o100 == 0 { shared } else { with_search(shared) }
        };
        match self.sharing {
            Sharing::Umask => mode,
            Sharing::AtLeast(shared) => mode | bits(shared),
            Sharing::Exactly(shared) => mode & !0o777 | bits(shared),
        }
    }

    /// The mode of a directory whose mode after the umask is `mode`: searchable by all who may read it; if a
    /// group may access it, new files belong to that group.
    pub(crate) fn dir_mode(self, mode: u32) -> u32 {
        if self.sharing == Sharing::Umask {
            return mode;
        }
        let mode = with_search(self.file_mode(mode));
        if mode & 0o060 == 0 { mode } else { mode | 0o2000 }
    }
}

fn with_search(mode: u32) -> u32 {
    mode | (mode & 0o444) >> 2
}

/// Git's default, without the components that `-` turns off, with the others, which win; `none`
/// clears the default.
fn parse_components(value: &str, warnings: &mut Vec<String>) -> u8 {
    let (mut start, mut added, mut removed) = (GIT_DEFAULT, 0, 0);
    for word in value.split(',').map(str::trim_start).filter(|word| !word.is_empty()) {
        let (name, is_removed) = word.strip_prefix('-').map_or((word, false), |name| (name, true));
        match WORDS.iter().find(|(word, _)| *word == name) {
            Some((_, bits)) if is_removed => removed |= bits,
            Some((_, bits)) => added |= bits,
            None if word == "none" => start = 0,
            None => warnings.push(format!("ignoring unknown core.fsync component '{name}'")),
        }
    }
    start & !removed | added
}

/// Warns once per command, as git does, even if it reads the policy more than once.
fn warn_once(warnings: Vec<String>) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if *said != warnings {
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        *said = warnings;
    }
}

fn parse_sharing(config: &Config) -> Result<Sharing, Error> {
    const NAME: &str = "core.sharedRepository";
    match config.value(NAME) {
        None => Ok(Sharing::Umask),
        Some(value) => Sharing::parse(value.as_deref(), &NAME.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigSources;

    fn policy(name: &str, value: Option<&str>) -> Result<WritePolicy, Error> {
        let overrides = vec![(name.to_owned(), value.map(str::to_owned))];
        let sources = ConfigSources { overrides, ..ConfigSources::default() };
        WritePolicy::of(&Config::outside(&sources).unwrap())
    }

    #[test]
    fn components() {
        let check = |value: &str, expect: &[&str]| {
            let policy = policy("core.fsync", Some(value)).unwrap();
            let synced = WORDS[..6].iter().filter(|(_, bit)| policy.synced & bit != 0);
            let synced: Vec<&str> = synced.map(|(word, _)| *word).collect();
            assert_eq!(synced, expect, "{value}");
        };
        check("", &["pack", "pack-metadata", "commit-graph"]);
        check("none", &[]);
        check("none,pack", &["pack"]);
        check("pack,none", &["pack"]);
        check("-pack", &["pack-metadata", "commit-graph"]);
        check("-pack, pack", &["pack", "pack-metadata", "commit-graph"]);
        check(
            "committed,-loose-object",
            &["loose-object", "pack", "pack-metadata", "commit-graph", "reference"],
        );
        check("all,-index", &["loose-object", "pack", "pack-metadata", "commit-graph", "index", "reference"]);
        check("none,,objects,what,index ", &["loose-object", "pack"]);
        check("-committed,-derived-metadata", &[]);
        assert_eq!(WritePolicy::default(), policy("core.fsync", Some("all")).unwrap());
        assert_eq!(WritePolicy::default(), policy("core.fsyncMethod", Some("fsync")).unwrap());
        let rewrites = policy("core.fsync", Some("none")).unwrap().of_rewrites();
        assert_eq!(rewrites, WritePolicy::default());
    }

    /// As stock git 2.47 syncs a loose object.
    #[test]
    fn methods_and_the_old_name() {
        let check = |settings: &[(&str, Option<&str>)], expect: Result<(bool, SyncMethod), &str>| {
            let overrides =
                settings.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
            let sources = ConfigSources { overrides: overrides.collect(), ..ConfigSources::default() };
            let policy = WritePolicy::of(&Config::outside(&sources).unwrap());
            let got = policy.map(|policy| (policy.syncs(Component::LooseObject), policy.method));
            assert_eq!(got.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "{settings:?}");
        };
        let (fsync, method, files) = ("core.fsync", "core.fsyncMethod", "core.fsyncObjectFiles");
        check(&[], Ok((true, SyncMethod::Full)));
        check(&[(fsync, Some(""))], Ok((false, SyncMethod::Full)));
        check(&[(method, Some("fsync"))], Ok((true, SyncMethod::Full)));
        check(&[(method, Some("batch")), (fsync, Some("added"))], Ok((true, SyncMethod::Full)));
        check(&[(method, Some("writeout-only"))], Ok((true, SyncMethod::Writeout)));
        for unknown in ["", "writeout", "Fsync"] {
            check(&[(method, Some(unknown))], Ok((true, SyncMethod::Full)));
        }
        check(&[(files, Some("true"))], Ok((true, SyncMethod::Full)));
        check(&[(files, None)], Ok((true, SyncMethod::Full)));
        check(&[(files, Some("true")), (fsync, Some("none"))], Ok((true, SyncMethod::Full)));
        check(&[(fsync, Some("-loose-object")), (files, Some("1"))], Ok((true, SyncMethod::Full)));
        check(&[(fsync, Some("loose-object")), (files, Some("no"))], Ok((true, SyncMethod::Full)));
        check(&[(files, Some("false"))], Ok((true, SyncMethod::Full)));
        check(
            &[(fsync, Some("")), (files, Some("true")), (files, Some("false"))],
            Ok((false, SyncMethod::Full)),
        );
        check(&[(fsync, Some("loose-object")), (fsync, Some("pack"))], Ok((false, SyncMethod::Full)));
        check(&[(files, Some("maybe"))], Err("bad boolean config value 'maybe' for 'core.fsyncobjectfiles'"));
        check(&[(fsync, None)], Err("missing value for 'core.fsync'"));
        check(&[(method, None)], Err("missing value for 'core.fsyncMethod'"));
    }

    #[test]
    fn unknown_components_are_told_by_their_name() {
        let mut warnings = Vec::new();
        parse_components("-bar,pack, loose,packs", &mut warnings);
        let expect =
            ["bar", "loose", "packs"].map(|name| format!("ignoring unknown core.fsync component '{name}'"));
        assert_eq!(warnings, expect);
    }

    #[test]
    fn names_are_not_written_out() {
        let policy = policy("core.fsyncMethod", Some("writeout-only")).unwrap();
        assert!(policy.syncs(Component::Pack) && !policy.is_staged());
        assert!(!policy.syncs_names(Component::Pack) && !policy.syncs_in_full(Component::Pack));
    }

    /// The modes that stock git 2.47 gave a pack, a multi-pack-index and a directory under four umasks.
    #[test]
    fn modes_as_git_makes_them() {
        let check = |value: &str, umask: u32, pack: u32, file: u32, dir: u32| {
            let policy = policy("core.sharedRepository", Some(value)).unwrap();
            let got = [0o444, 0o666].map(|mode| policy.file_mode(mode & !umask));
            assert_eq!((got, policy.dir_mode(0o777 & !umask)), ([pack, file], dir), "{value} {umask:o}");
        };
        for value in ["group", "1", "true", "yes"] {
            check(value, 0o027, 0o440, 0o660, 0o2770);
            check(value, 0o077, 0o440, 0o660, 0o2770);
            check(value, 0o022, 0o444, 0o664, 0o2775);
        }
        for value in ["all", "world", "everybody", "2"] {
            check(value, 0o027, 0o444, 0o664, 0o2775);
            check(value, 0o022, 0o444, 0o664, 0o2775);
        }
        for value in ["umask", "0", "false"] {
            check(value, 0o027, 0o440, 0o640, 0o750);
            check(value, 0o077, 0o400, 0o600, 0o700);
        }
        for umask in [0o027, 0o077, 0o022, 0o002] {
            check("0640", umask, 0o440, 0o640, 0o2750);
            check("0600", umask, 0o400, 0o600, 0o700);
            check("0666", umask, 0o444, 0o666, 0o2777);
            check("0670", umask, 0o440, 0o660, 0o2770);
            check("0777", umask, 0o444, 0o666, 0o2777);
        }
        assert_eq!(policy("core.sharedRepository", None).unwrap().sharing, Sharing::AtLeast(0o660));
    }

    #[test]
    fn sharing_that_makes_no_sense() {
        let text = |value| policy("core.sharedRepository", Some(value)).unwrap_err().to_string();
        assert_eq!(
            text("0444"),
            "problem with core.sharedRepository filemode value (0444).\n\
             The owner of files must always have read and write permissions."
        );
        assert_eq!(text("some"), "bad boolean config value 'some' for 'core.sharedrepository'");
    }
}
