//! Configuration by scope (git-config, "SCOPES"). This module reads neither the environment nor a home
//! directory: the caller passes files and overrides.

mod bad_setting;
mod command_line;
mod entry;
pub(crate) mod fsck_settings;
mod includes;
mod last_read;
mod numbers;
pub(crate) mod parameters;
mod promisor;
mod scopes;
mod trust;
mod usual;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_config::file::Metadata;

use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use bad_setting::missing_value;
use command_line::write_override;
use entry::ConfigEntry;
use includes::FileInclusion;
pub(crate) use includes::IncludingRepository;
pub use last_read::LastConfig;
pub(crate) use numbers::parse_small_integer;
pub use numbers::{BIG_FILE_BYTES, parse_boolean};
use trust::Rule;
pub use trust::Served;

/// Longest configuration file that is read.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Where configuration outside the repository comes from.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources {
    /// The system's file, unless disabled.
    pub system: Option<PathBuf>,
    /// The user's files, in ascending priority.
    pub global: Vec<PathBuf>,
    /// `GIT_CONFIG_COUNT`, then `GIT_CONFIG_PARAMETERS`, then `-c name=value`, in order. No value means true.
    pub overrides: Vec<(String, Option<String>)>,
    /// The user's home directory, for `~/` in paths.
    pub home: Option<PathBuf>,
    /// The system's attribute file, unless disabled.
    pub system_attributes: Option<PathBuf>,
    /// The user's attribute file, unless `core.attributesFile` names another.
    pub user_attributes: Option<PathBuf>,
    /// The user's ignore file, unless `core.excludesFile` names another.
    pub user_excludes: Option<PathBuf>,
    /// The tree to read attribute files from (`GIT_ATTR_SOURCE`), unless `attr.tree` names another.
    pub attribute_tree: Option<String>,
    /// Why attributes cannot be looked up: a variable about them makes no sense (`GIT_ATTR_NOSYSTEM`).
    pub attributes_refused: Option<String>,
    /// The fallback for files that exist but cannot be read; without it they are an error.
    pub last: Option<Arc<LastConfig>>,
}

/// The origin of a setting; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ConfigScope {
    System,
    Global,
    Local,
    Worktree,
    Command,
}

impl ConfigScope {
    /// Whether a repository cannot set it. `safe.directory` and server hooks are read only from such scopes.
    fn is_protected(self) -> bool {
        matches!(self, ConfigScope::System | ConfigScope::Global | ConfigScope::Command)
    }
}

/// The configuration of one repository, flat, so that threads can share it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Lowest priority first.
    entries: Vec<ConfigEntry>,
    home: Option<PathBuf>,
    /// Whether the repository is served, which restricts its own configuration.
    is_confined: bool,
    /// Settings of the repository that are ignored, with reasons.
    ignored: Vec<String>,
    /// Number of included files.
    included_files: usize,
    /// The directory of the repository, and what messages call it.
    shown: Option<(PathBuf, PathBuf)>,
}

impl Config {
    /// Makes messages call the directory of the repository `shown`, which is otherwise its path.
    pub(crate) fn show_as(&mut self, dir: PathBuf, shown: PathBuf) {
        self.shown = Some((dir, shown));
    }

    /// What messages call the file of an entry, if it has one.
    fn shown_file(&self, entry: &ConfigEntry) -> Option<PathBuf> {
        let path = self.opened_file(entry)?;
        Some(path.strip_prefix(".").map_or_else(|_| path.clone(), Path::to_owned))
    }

    /// What they call it when the repository is opened.
    fn opened_file(&self, entry: &ConfigEntry) -> Option<PathBuf> {
        let path = entry.file.as_deref()?;
        let below =
            self.shown.as_ref().and_then(|(dir, shown)| Some(shown.join(path.strip_prefix(dir).ok()?)));
        Some(below.unwrap_or_else(|| path.to_owned()))
    }

    /// All configuration outside a repository.
    pub fn outside(sources: &ConfigSources) -> Result<Self, Error> {
        let read = Config::read_outside(sources, None);
        let Some(last) = &sources.last else { return read };
        match read {
            Ok(config) => {
                last.keep(&config);
                Ok(config)
            }
            Err(error) => last.instead_of(error),
        }
    }

    fn read_outside(
        sources: &ConfigSources,
        repository: Option<IncludingRepository<'_>>,
    ) -> Result<Self, Error> {
        let mut config = Config {
            entries: Vec::new(),
            home: sources.home.clone(),
            is_confined: false,
            ignored: Vec::new(),
            included_files: 0,
            shown: None,
        };
        let files = sources.system.iter().map(|path| (ConfigScope::System, path));
        for (scope, path) in files.chain(sources.global.iter().map(|path| (ConfigScope::Global, path))) {
            config.add_file(scope, path, repository)?;
        }
        let mut text = String::new();
        for (name, value) in &sources.overrides {
            write_override(name, value.as_deref(), &mut text)?;
        }
        config.add_text(ConfigScope::Command, text.as_bytes(), None, repository)?;
        Ok(config)
    }

    /// Adds the repository's own file and, if `extensions.worktreeConfig` is set, that of a work tree.
    pub(crate) fn add_local(
        &mut self,
        common_dir: &Path,
        repository: IncludingRepository<'_>,
    ) -> Result<(), Error> {
        self.add_file(ConfigScope::Local, &common_dir.join("config"), Some(repository))?;
        if self.boolean("extensions.worktreeConfig")?.unwrap_or(false) {
            self.add_file(
                ConfigScope::Worktree,
                &repository.git_dir.join("config.worktree"),
                Some(repository),
            )?;
        }
        Ok(())
    }

    /// As above, for a served repository. Settings that it may not make go to [`Config::ignored`].
    pub(crate) fn add_confined(
        &mut self,
        served: &Served,
        common_dir: &Path,
        repository: IncludingRepository<'_>,
        seen: &mut FileDependencies,
    ) -> Result<(), Error> {
        self.is_confined = true;
        self.add_local(common_dir, repository)?;
        let git_dir = repository.git_dir;
        let mut ignored = Vec::new();
        self.entries.retain(|entry| {
            let rule = rule(entry);
            if matches!(rule, Rule::Hooks | Rule::WorkTree) {
                seen.real(&git_dir.join(entry.path()));
            }
            let why = match rule {
                Rule::Counts => return true,
                Rule::Program => "names a program",
                Rule::File => "names a file",
                Rule::Hooks if served.allows(&git_dir.join(entry.path()), common_dir) => return true,
                Rule::WorkTree if served.allows(&git_dir.join(entry.path()), &served.root) => return true,
                Rule::Hooks => "leads out of the git directory",
                Rule::WorkTree => "leads out of the served folder",
            };
            ignored.push(format!("{} ({why})", entry.name_text()));
            false
        });
        self.ignored.extend(ignored);
        Ok(())
    }

    /// The repository's own settings that only protected configuration may make, which are therefore ignored,
    /// with reasons.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    fn ignore(&mut self, what: String, why: &str) {
        self.ignored.push(format!("{what} ({why})"));
    }

    fn add_file(
        &mut self,
        scope: ConfigScope,
        path: &Path,
        repository: Option<IncludingRepository<'_>>,
    ) -> Result<(), Error> {
        match includes::read(scope, path)? {
            Some(bytes) => self.add_text(scope, &bytes, Some(path), repository),
            None => Ok(()),
        }
    }

    /// Parses `text` and follows its includes.
    fn add_text(
        &mut self,
        scope: ConfigScope,
        text: &[u8],
        path: Option<&Path>,
        repository: Option<IncludingRepository<'_>>,
    ) -> Result<(), Error> {
        let entries = parse_entries(scope, text, path)?;
        let mut found = Vec::new();
        self.follow(&FileInclusion { scope, path, text, repository, depth: 0 }, entries, &mut found)?;
        let at = self.entries.partition_point(|entry| entry.scope <= scope);
        self.entries.splice(at..at, found);
        Ok(())
    }

    /// The last value of `name`; empty for a name without `=`.
    pub fn string(&self, name: &str) -> Option<Vec<u8>> {
        self.last(name).map(|entry| entry.value.clone().unwrap_or_default())
    }

    /// The last value of `name`; the inner `None` means a name without `=`.
    pub(crate) fn value(&self, name: &str) -> Option<Option<Vec<u8>>> {
        self.last(name).map(|entry| entry.value.clone())
    }

    /// The last value of `name` as a path: `~/` is the user's home directory (git-config, "pathname").
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.string(name).map(|value| self.expand(&value))
    }

    /// A value as a path; `~/` is the user's home directory.
    pub fn expand(&self, value: &[u8]) -> PathBuf {
        match (value.strip_prefix(b"~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
            _ => PathBuf::from(OsStr::from_bytes(value)),
        }
    }

    /// The position of the last value of `name` among all entries; a larger position was set later.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        let name = normalized(name);
        self.entries.iter().rposition(|entry| entry.name == name)
    }

    /// Full names and values of a section and its subsections, in the order read; `None` without `=`.
    pub fn section(&self, section: &str) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let prefix = format!("{}.", section.to_ascii_lowercase()).into_bytes();
        let entries = self.entries.iter().filter(move |entry| entry.name.starts_with(&prefix));
        entries.map(|entry| (entry.name.as_slice(), entry.value.as_deref()))
    }

    /// The names, keys and values of the subsections of a section, in the order read.
    pub fn subsections(&self, section: &str) -> impl Iterator<Item = (&[u8], &[u8], Option<&[u8]>)> {
        let prefix_bytes = section.len() + 1;
        self.section(section).filter_map(move |(name, value)| {
            let rest = &name[prefix_bytes..];
            let dot = rest.iter().rposition(|byte| *byte == b'.')?;
            Some((&rest[..dot], &rest[dot + 1..], value))
        })
    }

    /// All values of `name`, in ascending priority.
    pub fn strings(&self, name: &str) -> Vec<Vec<u8>> {
        self.values(name, |_| true)
    }

    /// All values of several names, in ascending priority: which name they have does not matter.
    pub fn strings_of(&self, names: &[&str]) -> Vec<Vec<u8>> {
        let names: Vec<_> = names.iter().map(|name| normalized(name)).collect();
        let entries = self.entries.iter().filter(|entry| names.contains(&entry.name));
        entries.map(|entry| entry.value.clone().unwrap_or_default()).collect()
    }

    /// Fails if one of these names is set without a value.
    pub fn need_values(&self, names: &[&str]) -> Result<(), Error> {
        self.need_values_of(names, |_| true)
    }

    /// As above, in protected configuration only, where git looks for no others.
    pub fn need_protected_values(&self, names: &[&str]) -> Result<(), Error> {
        self.need_values_of(names, ConfigScope::is_protected)
    }

    fn need_values_of(&self, names: &[&str], is_wanted: impl Fn(ConfigScope) -> bool) -> Result<(), Error> {
        let names: Vec<_> = names.iter().map(|name| normalized(name)).collect();
        let missing = |entry: &&ConfigEntry| {
            entry.value.is_none() && is_wanted(entry.scope) && names.contains(&entry.name)
        };
        let Some(entry) = self.entries.iter().find(missing) else { return Ok(()) };
        Err(missing_value(entry, self.shown_file(entry).as_deref()))
    }

    /// Names (sections and keys in lower case) and values that the repository itself sets.
    pub fn own_entries(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let own = self.entries.iter().filter(|entry| !entry.scope.is_protected());
        own.map(|entry| (entry.name.as_slice(), entry.value.as_deref()))
    }

    /// All values of `name` that no repository can set.
    pub fn protected_strings(&self, name: &str) -> Vec<Vec<u8>> {
        self.values(name, ConfigScope::is_protected)
    }

    /// The last value of `name` as a boolean; a name without `=` is true.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        self.boolean_of(name, |_| true)
    }

    /// As above, from protected configuration only, which no repository can set.
    pub fn protected_boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        self.boolean_of(name, ConfigScope::is_protected)
    }

    /// As above, from the repository's own configuration only.
    pub fn own_boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        self.boolean_of(name, |scope| !scope.is_protected())
    }

    /// Names and values of a section of the repository's own file, in order; `None` without `=`.
    pub(crate) fn local_section(&self, section: &str) -> Vec<(String, Option<Vec<u8>>)> {
        let local = self.entries.iter().filter(|entry| entry.scope == ConfigScope::Local);
        let found = local.filter_map(|entry| {
            let key = entry.name.strip_prefix(section.as_bytes())?.strip_prefix(b".")?;
            let is_key = !key.contains(&b'.');
            is_key.then(|| (String::from_utf8_lossy(key).into_owned(), entry.value.clone()))
        });
        found.collect()
    }

    /// The files that `include.path` and `includeIf.<condition>.path` name, read or not; `None` if the path
    /// cannot be resolved here.
    pub(crate) fn included(&self) -> impl Iterator<Item = Option<PathBuf>> {
        let names = |entry: &&ConfigEntry| {
            let name = entry.name.as_slice();
            name == b"include.path" || (name.starts_with(b"includeif.") && name.ends_with(b".path"))
        };
        self.entries.iter().filter(names).map(|entry| {
            let path = self.path_of_include(entry)?;
            match path.is_absolute() {
                true => Some(path),
                false => Some(entry.file.as_ref()?.parent()?.join(path)),
            }
        })
    }

    /// As above, only paths that can be resolved.
    pub fn included_files(&self) -> impl Iterator<Item = PathBuf> {
        self.included().flatten()
    }

    /// The path that an entry includes, if it can be resolved here.
    fn path_of_include(&self, entry: &ConfigEntry) -> Option<PathBuf> {
        let value = entry.value.as_deref().filter(|value| !value.is_empty())?;
        match value.strip_prefix(b"~/") {
            Some(rest) => Some(self.home.as_ref()?.join(OsStr::from_bytes(rest))),
            // In another user's home directory, or in git's installation.
            None if value.starts_with(b"~") || value.starts_with(b"%(") => None,
            None => Some(PathBuf::from(OsStr::from_bytes(value))),
        }
    }

    fn boolean_of(&self, name: &str, is_wanted: impl Fn(ConfigScope) -> bool) -> Result<Option<bool>, Error> {
        let name = normalized(name);
        let mut entries = self.entries.iter().rev();
        let Some(entry) = entries.find(|entry| is_wanted(entry.scope) && entry.name == name) else {
            return Ok(None);
        };
        let Some(value) = &entry.value else { return Ok(Some(true)) };
        parse_boolean(value).map(Some).ok_or_else(|| bad_boolean(entry))
    }

    fn last(&self, name: &str) -> Option<&ConfigEntry> {
        let name = normalized(name);
        self.entries.iter().rev().find(|entry| entry.name == name)
    }

    fn values(&self, name: &str, is_wanted: impl Fn(ConfigScope) -> bool) -> Vec<Vec<u8>> {
        let name = normalized(name);
        let entries = self.entries.iter().filter(|entry| is_wanted(entry.scope) && entry.name == name);
        entries.map(|entry| entry.value.clone().unwrap_or_default()).collect()
    }
}

fn bad_boolean(entry: &ConfigEntry) -> Error {
    let (value, name) = (entry.value_text(), entry.name_text());
    Reason::Config(format!("bad boolean config value '{value}' for '{name}'")).into()
}

/// How far an entry is trusted.
fn rule(entry: &ConfigEntry) -> Rule {
    if entry.scope.is_protected() { Rule::Counts } else { trust::rule(&entry.name) }
}

/// A single file, parsed for editing.
pub(crate) fn parse_file(text: &[u8], path: &Path) -> Result<gix_config::File, Error> {
    parse(ConfigScope::Local, text, Some(path))
}

fn parse(scope: ConfigScope, text: &[u8], path: Option<&Path>) -> Result<gix_config::File, Error> {
    let events = gix_config::parse::Events::from_bytes(text, None).map_err(|error| {
        let Some(path) = path else { return bad_command_line() };
        let line = error.line_number();
        Reason::Config(format!("bad config line {line} in file {}", path.display())).into()
    })?;
    Ok(gix_config::File::from_parse_events_no_includes(events, metadata(scope, path)))
}

fn bad_command_line() -> Error {
    Reason::Config("unable to parse command-line config".to_owned()).into()
}

/// The entries of a text, in order, without includes.
fn parse_entries(scope: ConfigScope, text: &[u8], path: Option<&Path>) -> Result<Vec<ConfigEntry>, Error> {
    let file = parse(scope, text, path)?;
    Ok(file.sections().flat_map(|section| entries_of(scope, &section)).collect())
}

/// The entries of a section, in order.
fn entries_of(scope: ConfigScope, section: &gix_config::file::SectionRef<'_>) -> Vec<ConfigEntry> {
    let header = section.header();
    let mut prefix = header.name().to_ascii_lowercase();
    if let Some(subsection) = header.subsection_name() {
        prefix.push(b'.');
        // `[section.SubSection]` ignores case, `[section "SubSection"]` does not.
        let subsection =
            if header.is_legacy() { subsection.to_ascii_lowercase() } else { subsection.to_vec() };
        prefix.extend_from_slice(&subsection);
    }
    let file: Option<Arc<Path>> = section.meta().path.as_deref().map(Arc::from);
    let keys: Vec<String> = section.value_names().collect();
    let mut entries = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let is_same = |other: &&String| other.eq_ignore_ascii_case(key);
        let is_last = !keys[at + 1..].iter().any(|other| is_same(&other));
        let earlier = keys[..at].iter().filter(is_same).count();
        // The parser distinguishes a name without `=` from an empty value only for the last one of a section.
        let value = if is_last {
            section.value_implicit(key).flatten().map(Vec::from)
        } else {
            Some(section.values(key).into_iter().nth(earlier).map(Vec::from).unwrap_or_default())
        };
        let name = [prefix.as_slice(), b".", key.to_ascii_lowercase().as_bytes()].concat();
        entries.push(ConfigEntry { scope, name, value, file: file.clone() });
    }
    entries
}

/// A name as git prints it: everything except the subsection in lower case.
fn normalized(name: &str) -> Vec<u8> {
    let name = match (name.split_once('.'), name.rsplit_once('.')) {
        (Some((section, rest)), Some((_, key))) if rest.len() > key.len() => {
            let subsection = &rest[..rest.len() - key.len() - 1];
            format!("{}.{subsection}.{}", section.to_ascii_lowercase(), key.to_ascii_lowercase())
        }
        _ => name.to_ascii_lowercase(),
    };
    name.into_bytes()
}

fn metadata(scope: ConfigScope, path: Option<&Path>) -> Metadata {
    let source = match scope {
        ConfigScope::System => gix_config::Source::System,
        ConfigScope::Global => gix_config::Source::User,
        ConfigScope::Local => gix_config::Source::Local,
        ConfigScope::Worktree => gix_config::Source::Worktree,
        ConfigScope::Command => gix_config::Source::Cli,
    };
    Metadata { path: path.map(Path::to_owned), source, level: 0, trust: gix_sec::Trust::Full }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(overrides: &[(&str, Option<&str>)], local: &str) -> Config {
        let dir = packrace_testkit::scratch_dir();
        std::fs::write(dir.path().join("config"), local).unwrap();
        let overrides =
            overrides.iter().map(|(name, value)| (name.to_string(), value.map(str::to_owned))).collect();
        let mut config = Config::outside(&ConfigSources { overrides, ..ConfigSources::default() }).unwrap();
        let repository = IncludingRepository { git_dir: dir.path(), branch_of: |_| Ok(None) };
        config.add_local(dir.path(), repository).unwrap();
        config
    }

    #[test]
    fn the_command_line_wins_and_lists_add_up() {
        let local =
            "[uploadpack]\n keepAlive = 1k\n hideRefs = a\n hideRefs = b\n[transfer]\n advertiseSID\n";
        let config =
            config(&[("uploadpack.KeepAlive", Some("7")), ("uploadpack.hideRefs", Some("c"))], local);
        assert_eq!(config.integer("uploadpack.keepalive").unwrap(), Some(7));
        assert_eq!(config.strings("uploadpack.hideRefs"), [b"a", b"b", b"c"]);
        assert_eq!(config.protected_strings("uploadpack.hideRefs"), [b"c"]);
        assert_eq!(config.boolean("transfer.advertiseSID").unwrap(), Some(true));
        assert_eq!(config.boolean("transfer.fsckObjects").unwrap(), None);
        assert!(config.place_of("uploadpack.keepAlive") > config.place_of("transfer.advertiseSID"));
        assert_eq!(config.place_of("transfer.fsckObjects"), None);
    }

    #[test]
    fn names_without_values_and_subsections() {
        let local = "[a]\n b\n c = 1\n b = 0\n c\n[a \"Sub\"]\n B = 2\n[a.Old]\n x = 3\n[d]\n e = \n f\n g = \\\n h\n";
        let config = config(&[], local);
        let names: Vec<_> = config.section("A").map(|(name, _)| String::from_utf8_lossy(name)).collect();
        assert_eq!(names, ["a.b", "a.c", "a.b", "a.c", "a.Sub.b", "a.old.x"]);
        let found: Vec<_> = config.subsections("A").collect();
        assert_eq!(found, [(&b"Sub"[..], &b"b"[..], Some(&b"2"[..])), (b"old", b"x", Some(b"3"))]);
        let values: Vec<_> = config.section("d").map(|(_, value)| value).collect();
        assert_eq!(values, [Some(&b""[..]), None, Some(b"h")]);
        assert_eq!(config.boolean("a.b").unwrap(), Some(false));
        assert_eq!(config.boolean("a.c").unwrap(), Some(true));
        assert_eq!(config.strings("A.B"), [b"".as_slice(), b"0"]);
        assert_eq!(config.strings("a.c"), [b"1".as_slice(), b""]);
        assert_eq!((config.integer("a.Sub.b").unwrap(), config.integer("a.sub.b").unwrap()), (Some(2), None));
        assert_eq!(config.integer("a.old.x").unwrap(), Some(3));
        assert_eq!(config.big_file_bytes().unwrap(), BIG_FILE_BYTES);
        assert_eq!(
            (config.boolean("d.e").unwrap(), config.boolean("d.f").unwrap()),
            (Some(false), Some(true))
        );
        assert_eq!(config.string("d.g").unwrap(), b"h");
        let section = config.local_section("a");
        let names: Vec<&str> = section.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c", "b", "c"]);
    }

    #[test]
    fn numbers_have_units_and_bad_values_are_told_in_gits_words() {
        let config = config(
            &[("a.b", Some("2k")), ("a.c", Some("x")), ("a.sub.d", None), ("q.v", Some("a \"b\" \\ # c"))],
            "",
        );
        assert_eq!(config.string("q.v").unwrap(), b"a \"b\" \\ # c");
        assert_eq!(config.integer("a.b").unwrap(), Some(2048));
        assert_eq!(config.boolean("a.sub.d").unwrap(), Some(true));
        let text = config.integer("a.c").unwrap_err().to_string();
        assert!(text.contains("bad numeric config value 'x' for 'a.c'"), "{text}");
        let text = config.boolean("a.c").unwrap_err().to_string();
        assert!(text.contains("bad boolean config value 'x' for 'a.c'"), "{text}");
    }
}
