//! Environment variables, as a value.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_store::refs::{RefStorage, is_good_name};
use packrace_store::{ConfigSources, LastConfig, OpenOptions, WorkTreePlace, shell_quoted, split_alternates};
use packrace_worktree::paths::SpecDefaults;

use crate::call::booleans::BadBooleans;
use crate::call::config_parameters::parse_parameters;
use crate::call::discovery_limits::DiscoveryLimits;
use crate::call::fatal::Fatal;
use crate::call::history_variables::HistoryVariables;
use crate::call::http_variables::HttpVariables;
use crate::call::identity::{Person, Role};
use crate::options::GlobalOptions;

/// The system-wide configuration file.
const SYSTEM_CONFIG: &str = "/etc/gitconfig";

/// The system-wide attributes file.
const SYSTEM_ATTRIBUTES: &str = "/etc/gitattributes";

/// Maximum value of `GIT_CONFIG_COUNT`.
const MAX_CONFIG_COUNT: usize = 10_000;

/// How long usually short operations run before their progress is shown (git, `GIT_PROGRESS_DELAY`).
const PROGRESS_DELAY: Duration = Duration::from_secs(2);

/// Variables that options before the command set also for hooks.
const PASSED_ON: [&str; 8] = [
    "GIT_ADVICE",
    "GIT_EXEC_PATH",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_LAZY_FETCH",
    "GIT_NO_REPLACE_OBJECTS",
];

/// Where the older kinds of trace go that parts of a command write, and how they look.
#[derive(Debug, Clone, Default)]
pub struct ClassicTraceVariables {
    /// Packets (`GIT_TRACE_PACKET`).
    pub packet: OsString,
    /// Packs that are received (`GIT_TRACE_PACKFILE`).
    pub packfile: OsString,
    /// HTTP (`GIT_TRACE_CURL`).
    pub curl: OsString,
    /// Whether that is without its data (`GIT_TRACE_CURL_NO_DATA`).
    pub hides_data: bool,
    /// Whether secrets are left out (`GIT_TRACE_REDACT`).
    pub redacts: bool,
    /// Whether lines begin without the time (`GIT_TRACE_BARE`).
    pub is_bare: bool,
}

impl ClassicTraceVariables {
    fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let target = |name: &str| get(name).unwrap_or_default();
        let is_on = |name: &str| Some(is_true(get(name)?.to_str()?));
        ClassicTraceVariables {
            packet: target("GIT_TRACE_PACKET"),
            packfile: target("GIT_TRACE_PACKFILE"),
            curl: target("GIT_TRACE_CURL"),
            hides_data: get("GIT_TRACE_CURL_NO_DATA").is_some(),
            redacts: is_on("GIT_TRACE_REDACT").unwrap_or(true),
            is_bare: is_on("GIT_TRACE_BARE").unwrap_or(false),
        }
    }
}

/// The variables that packrace reads (git, "ENVIRONMENT VARIABLES").
#[derive(Debug, Clone, Default)]
pub struct Environment {
    home: Option<PathBuf>,
    path: OsString,
    xdg_config_home: Option<PathBuf>,
    config_system: Option<PathBuf>,
    config_global: Option<PathBuf>,
    no_system_config: bool,
    config_overrides: Vec<(String, String)>,
    config_parameters: Option<String>,
    config_count_error: Option<String>,
    no_system_attributes: bool,
    attribute_tree: Option<String>,
    last_config: Option<Arc<LastConfig>>,
    object_directory: Option<PathBuf>,
    alternates: Vec<PathBuf>,
    common_dir: Option<PathBuf>,
    /// `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// How far up a repository is searched.
    pub discovery_limits: DiscoveryLimits,
    shallow_file: Option<PathBuf>,
    pub(crate) index_file: Option<PathBuf>,
    index_version: Option<String>,
    ref_storage: Option<Vec<u8>>,
    ref_paranoia: Option<String>,
    namespace: Option<String>,
    user_agent: Option<String>,
    max_request_buffer: Option<String>,
    passed_on: Vec<(OsString, OsString)>,
    /// What is no boolean where one is needed.
    pub booleans: BadBooleans,
    /// Whether no hints are given, whatever `advice.*` says (`GIT_ADVICE`).
    pub has_no_advice: bool,
    /// Whether a repository that is named has no work tree unless that is named, too (`GIT_IMPLICIT_WORK_TREE`).
    pub has_no_implicit_work_tree: bool,
    /// Whether missing objects are fetched, if it is set (`GIT_NO_LAZY_FETCH`).
    pub lazy_fetch: Option<bool>,
    /// Whether the output goes to a pager (`GIT_PAGER_IN_USE`).
    pub is_paged: bool,
    /// Whether a variable changes the form of differences (`GIT_DIFF_OPTS`, `COLUMNS`).
    pub forms_diffs: bool,
    progress_delay: Option<String>,
    /// `SUDO_UID`.
    pub sudo_user: Option<u32>,
    /// `GIT_TEST_ASSUME_DIFFERENT_OWNER`: git's tests treat repositories as owned by another user.
    pub assume_other_owner: bool,
    /// `GIT_PROTOCOL`.
    pub protocol: String,
    /// `TMPDIR`, else a world-writable directory.
    pub temporary_dir: PathBuf,
    /// How pathspecs are interpreted (`GIT_LITERAL_PATHSPECS` and similar).
    pub pathspecs: SpecDefaults,
    /// The committer of changes, also of refs.
    pub committer: Person,
    /// The author of commits.
    pub author: Person,
    /// Variables of `init`.
    pub init: InitVariables,
    /// Variables for HTTP servers.
    pub http: HttpVariables,
    /// Whether a hook of a push runs this whose objects are in quarantine (`GIT_QUARANTINE_PATH`).
    pub is_quarantined: bool,
    /// Whether reftables are not merged after a change (`GIT_TEST_REFTABLE_AUTOCOMPACTION=false`).
    pub keeps_tables: bool,
    /// Whether a multi-pack-index with a bitmap gets a `.rev` beside it (`GIT_TEST_MIDX_WRITE_REV`).
    pub writes_midx_reverse: bool,
    /// How history is read and described.
    pub history: HistoryVariables,
    /// Identifies this process in traces, logs and to clients; not a variable, but derived from one.
    pub session_id: String,
    /// What is traced while the command works.
    pub classic_traces: ClassicTraceVariables,
}

/// The variables that only `init` reads.
#[derive(Debug, Clone, Default)]
pub struct InitVariables {
    /// `GIT_WORK_TREE`.
    pub work_tree: Option<PathBuf>,
    /// `GIT_DEFAULT_HASH`.
    pub default_hash: Option<String>,
    /// `GIT_DEFAULT_REF_FORMAT`.
    pub default_ref_format: Option<String>,
    /// `GIT_TEMPLATE_DIR`; empty for no template.
    pub template_dir: Option<PathBuf>,
    /// Whether `GIT_COMMON_DIR` is set.
    pub has_common_dir: bool,
    /// `GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME`, which git's tests set: goes before `init.defaultBranch`.
    pub initial_branch: Option<String>,
}

fn path_in(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| is_named(path))
}

fn is_named(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

fn text_of(value: Option<OsString>) -> Option<String> {
    value.map(|value| value.to_string_lossy().into_owned())
}

impl InitVariables {
    fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| path_in(get(name));
        let text = |name: &str| text_of(get(name));
        InitVariables {
            work_tree: get("GIT_WORK_TREE").map(PathBuf::from),
            default_hash: text("GIT_DEFAULT_HASH"),
            default_ref_format: text("GIT_DEFAULT_REF_FORMAT"),
            template_dir: get("GIT_TEMPLATE_DIR").map(PathBuf::from),
            has_common_dir: path("GIT_COMMON_DIR").is_some(),
            initial_branch: text("GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME").filter(|name| !name.is_empty()),
        }
    }
}

impl Environment {
    /// Reads the variables with `get`, which is called for variables of commands only, and only here.
    pub fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| path_in(get(name));
        let text = |name: &str| text_of(get(name));
        let flag = |name: &str| text(name).is_some_and(|value| is_true(&value));
        let is_off = |name: &str| text(name).is_some_and(|value| !is_true(&value));
        let bytes = |name: &str| get(name).map(OsString::into_encoded_bytes);
        let person = |role: &str| Person {
            name: bytes(&format!("GIT_{role}_NAME")),
            email: bytes(&format!("GIT_{role}_EMAIL")),
            date: text(&format!("GIT_{role}_DATE")),
            fallback_email: bytes("EMAIL"),
            time_zone: text("TZ"),
        };
        let crosses_file_systems = flag("GIT_DISCOVERY_ACROSS_FILESYSTEM");
        let mut environment = Environment {
            home: path("HOME"),
            path: get("PATH").unwrap_or_default(),
            xdg_config_home: path("XDG_CONFIG_HOME"),
            config_system: path("GIT_CONFIG_SYSTEM"),
            config_global: get("GIT_CONFIG_GLOBAL").map(PathBuf::from),
            no_system_config: flag("GIT_CONFIG_NOSYSTEM"),
            config_overrides: Vec::new(),
            config_parameters: text("GIT_CONFIG_PARAMETERS"),
            config_count_error: None,
            no_system_attributes: flag("GIT_ATTR_NOSYSTEM"),
            attribute_tree: text("GIT_ATTR_SOURCE").filter(|name| !name.is_empty()),
            last_config: None,
            object_directory: get("GIT_OBJECT_DIRECTORY").map(PathBuf::from),
            alternates: split_alternates(&bytes("GIT_ALTERNATE_OBJECT_DIRECTORIES").unwrap_or_default()),
            common_dir: get("GIT_COMMON_DIR").map(PathBuf::from),
            git_dir: get("GIT_DIR").map(PathBuf::from),
            discovery_limits: DiscoveryLimits::new(get("GIT_CEILING_DIRECTORIES"), crosses_file_systems),
            shallow_file: get("GIT_SHALLOW_FILE").map(PathBuf::from),
            index_file: get("GIT_INDEX_FILE").map(PathBuf::from),
            index_version: text("GIT_INDEX_VERSION"),
            ref_storage: bytes("GIT_REFERENCE_BACKEND"),
            ref_paranoia: text("GIT_REF_PARANOIA"),
            namespace: text("GIT_NAMESPACE"),
            user_agent: text("GIT_USER_AGENT"),
            max_request_buffer: text("GIT_HTTP_MAX_REQUEST_BUFFER"),
            passed_on: PASSED_ON.iter().filter_map(|name| Some((name.into(), get(name)?))).collect(),
            booleans: BadBooleans::from_lookup(get),
            has_no_advice: is_off("GIT_ADVICE"),
            has_no_implicit_work_tree: is_off("GIT_IMPLICIT_WORK_TREE"),
            lazy_fetch: get("GIT_NO_LAZY_FETCH").map(|_| !flag("GIT_NO_LAZY_FETCH")),
            is_paged: flag("GIT_PAGER_IN_USE"),
            forms_diffs: get("GIT_DIFF_OPTS").is_some() || get("COLUMNS").is_some(),
            progress_delay: text("GIT_PROGRESS_DELAY"),
            sudo_user: text("SUDO_UID").and_then(|user| user.parse().ok()),
            assume_other_owner: flag("GIT_TEST_ASSUME_DIFFERENT_OWNER"),
            protocol: text("GIT_PROTOCOL").unwrap_or_default(),
            temporary_dir: path("TMPDIR").unwrap_or_else(|| "/tmp".into()),
            pathspecs: spec_defaults(&flag),
            committer: person("COMMITTER"),
            author: person("AUTHOR"),
            init: InitVariables::from_lookup(get),
            http: HttpVariables::from_lookup(get),
            is_quarantined: get("GIT_QUARANTINE_PATH").is_some(),
            writes_midx_reverse: flag("GIT_TEST_MIDX_WRITE_REV"),
            keeps_tables: is_off("GIT_TEST_REFTABLE_AUTOCOMPACTION"),
            history: HistoryVariables::from_lookup(get),
            session_id: String::new(),
            classic_traces: ClassicTraceVariables::from_lookup(get),
        };
        environment.read_config_count(&text);
        environment
    }

    fn read_config_count(&mut self, text: &dyn Fn(&str) -> Option<String>) {
        let Some(count) = text("GIT_CONFIG_COUNT").filter(|count| !count.is_empty()) else { return };
        let Ok(count) = count.parse::<usize>() else {
            self.config_count_error = Some("bogus count in GIT_CONFIG_COUNT".to_owned());
            return;
        };
        if count > MAX_CONFIG_COUNT {
            self.config_count_error = Some("too many entries in GIT_CONFIG_COUNT".to_owned());
            return;
        }
        for n in 0..count {
            let [key, value] = ["KEY", "VALUE"].map(|part| (part, text(&format!("GIT_CONFIG_{part}_{n}"))));
            match (key, value) {
                ((_, Some(key)), (_, Some(value))) => self.config_overrides.push((key, value)),
                ((part, None), _) | (_, (part, None)) => {
                    let what = part.to_ascii_lowercase();
                    self.config_count_error = Some(format!("missing config {what} GIT_CONFIG_{part}_{n}"));
                    return;
                }
            }
        }
    }

    /// The identity that the environment gives for a role.
    pub fn person(&self, role: Role) -> &Person {
        match role {
            Role::Author => &self.author,
            Role::Committer => &self.committer,
        }
    }

    /// Options for opening repositories.
    pub fn open_options(&self, globals: &GlobalOptions) -> Result<OpenOptions, Fatal> {
        Ok(OpenOptions {
            strict: false,
            check_ownership: false,
            search: None,
            sudo_user: self.sudo_user,
            assume_other_owner: self.assume_other_owner,
            served: None,
            config: self.config_sources(globals)?,
            object_dir: self.object_directory.clone().filter(|path| is_named(path)),
            alternates: self.alternates.clone(),
            common_dir: self.common_dir.clone().filter(|path| is_named(path)),
            shallow_file: globals
                .shallow_file
                .as_ref()
                .map(PathBuf::from)
                .or_else(|| self.shallow_file.clone()),
            index_file: self.index_file.clone(),
            index_version: self.index_version.clone(),
            work_tree: WorkTreePlace::default(),
            ref_storage: self.ref_storage()?,
            fetcher: None,
            replace_refs: None,
            skips_broken_refs: self.ref_paranoia.as_deref().is_some_and(|value| !is_true(value)),
        })
    }

    /// The storage of refs that goes before what the repository says.
    pub fn ref_storage(&self) -> Result<Option<RefStorage>, Fatal> {
        let parsed = self.ref_storage.as_deref().map(RefStorage::parse).transpose();
        parsed.map_err(|format| Fatal::new(format!("unknown ref storage format: '{format}'")))
    }

    /// How long usually short operations run before their progress is shown.
    pub fn progress_delay(&self) -> Result<Duration, Fatal> {
        let Some(text) = &self.progress_delay else { return Ok(PROGRESS_DELAY) };
        let seconds = text.parse().map_err(|_| Fatal::new("failed to parse GIT_PROGRESS_DELAY"))?;
        Ok(Duration::from_secs(seconds))
    }

    /// The same; if configuration outside repositories becomes unreadable, its last readable state counts.
    pub fn with_last_config(&self) -> Environment {
        Environment { last_config: Some(Arc::default()), ..self.clone() }
    }

    /// Whether a variable says that there is no repository: where it could be is empty, or no directory.
    pub(crate) fn has_no_place(&self, is_dir: &dyn Fn(&Path) -> bool) -> bool {
        let is_none = |path: &PathBuf, below: &str| !is_named(path) || !is_dir(&path.join(below));
        self.object_directory.iter().any(|path| is_none(path, ""))
            || self.common_dir.iter().any(|path| is_none(path, "refs"))
    }

    fn config_sources(&self, globals: &GlobalOptions) -> Result<ConfigSources, Fatal> {
        let refused = |why: &str| {
            Err(Fatal::new("unable to parse command-line config").after(format!("error: {why}\n")))
        };
        if let Some(error) = &self.config_count_error {
            return refused(error);
        }
        self.booleans.check(&["GIT_CONFIG_NOSYSTEM", "GIT_NO_LAZY_FETCH"])?;
        let system = self.config_system.clone().unwrap_or_else(|| SYSTEM_CONFIG.into());
        let xdg = self.xdg_config_home.clone();
        let xdg = xdg.or_else(|| self.home.as_ref().map(|home| home.join(".config")));
        let user_attributes = xdg.as_ref().map(|dir| dir.join("git/attributes"));
        let user_excludes = xdg.as_ref().map(|dir| dir.join("git/ignore"));
        let global = match &self.config_global {
            Some(path) => vec![path.clone()],
            None => {
                let of_user = self.home.as_ref().map(|home| home.join(".gitconfig"));
                xdg.map(|dir| dir.join("git/config")).into_iter().chain(of_user).collect()
            }
        };
        let counted = self.config_overrides.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let mut overrides: Vec<(String, Option<String>)> = counted.collect();
        if let Some(parameters) = &self.config_parameters {
            match parse_parameters(parameters) {
                Some(parsed) => overrides.extend(parsed),
                None => return refused("bogus format in GIT_CONFIG_PARAMETERS"),
            }
        }
        overrides.extend(globals.config.iter().cloned());
        Ok(ConfigSources {
            system: (!self.no_system_config).then_some(system),
            global,
            overrides,
            home: self.home.clone(),
            system_attributes: (!self.no_system_attributes).then(|| SYSTEM_ATTRIBUTES.into()),
            user_attributes,
            user_excludes,
            attributes_refused: self.booleans.check(&["GIT_ATTR_NOSYSTEM"]).err().map(|error| error.message),
            attribute_tree: globals.attr_source.clone().or_else(|| self.attribute_tree.clone()),
            last: self.last_config.clone(),
        })
    }

    /// The namespace; the option overrides the variable.
    pub fn namespace(&self, globals: &GlobalOptions) -> Result<String, Fatal> {
        let namespace = globals.namespace.clone().or_else(|| self.namespace.clone()).unwrap_or_default();
        let is_bad = |part: &str| !is_good_name(format!("refs/namespaces/{part}").as_bytes());
        // Every part becomes a component of ref names. A namespace without parts would show the refs of all others.
        let mut parts = namespace.split('/').filter(|part| !part.is_empty()).peekable();
        match namespace.is_empty() || parts.peek().is_some() && !parts.any(is_bad) {
            true => Ok(namespace),
            false => Err(Fatal::new(format!("bad git namespace path \"{namespace}\""))),
        }
    }

    /// Variables for hooks of git's upload-pack: no lazy fetch unless the environment allows it, and
    /// command-line configuration.
    pub fn for_upload_hooks(&self, globals: &GlobalOptions) -> Vec<(OsString, OsString)> {
        // A later value counts.
        let no_lazy_fetch = [("GIT_NO_LAZY_FETCH".into(), "1".into())];
        no_lazy_fetch.into_iter().chain(self.for_hooks(globals)).collect()
    }

    /// Variables for push hooks: command-line configuration, and the committer if set.
    pub fn for_push_hooks(&self, globals: &GlobalOptions) -> Vec<(OsString, OsString)> {
        let Person { name, email, .. } = &self.committer;
        let person = [("GIT_COMMITTER_NAME", name), ("GIT_COMMITTER_EMAIL", email)];
        let person = person
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), OsString::from_vec(value.clone()?))));
        self.for_hooks(globals).into_iter().chain(person).collect()
    }

    /// Variables for every hook: command-line configuration, and what other options before the command set.
    pub fn for_hooks(&self, globals: &GlobalOptions) -> Vec<(OsString, OsString)> {
        let mut variables = self.passed_on.clone();
        if globals.config.is_empty() {
            return variables;
        }
        let typed = globals.config.iter().map(|(name, value)| {
            format!("{}={}", shell_quoted(name), value.as_deref().map(shell_quoted).unwrap_or_default())
        });
        let all: Vec<String> = self.config_parameters.iter().cloned().chain(typed).collect();
        variables.push(("GIT_CONFIG_PARAMETERS".into(), all.join(" ").into()));
        variables
    }

    /// The value of `agent=`.
    pub fn agent(&self) -> String {
        self.user_agent.clone().unwrap_or_else(|| packrace_server::subject::AGENT.to_owned())
    }

    /// `GIT_HTTP_MAX_REQUEST_BUFFER`: bytes, with an optional suffix `k`, `m` or `g`.
    pub fn max_request_buffer(&self) -> Result<Option<usize>, Fatal> {
        let Some(text) = &self.max_request_buffer else { return Ok(None) };
        let bytes = parse_bytes(text);
        let bytes = bytes.ok_or_else(|| Fatal::new("failed to parse GIT_HTTP_MAX_REQUEST_BUFFER"))?;
        Ok(Some(bytes))
    }

    /// Directories to search for programs (`PATH`).
    pub fn programs(&self) -> impl Iterator<Item = PathBuf> {
        std::env::split_paths(&self.path)
    }

    /// The home directory, for `~/…`.
    pub fn home(&self) -> Option<&PathBuf> {
        self.home.as_ref()
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
}

fn spec_defaults(flag: &dyn Fn(&str) -> bool) -> SpecDefaults {
    SpecDefaults {
        literal: flag("GIT_LITERAL_PATHSPECS"),
        glob: flag("GIT_GLOB_PATHSPECS"),
        noglob: flag("GIT_NOGLOB_PATHSPECS"),
        icase: flag("GIT_ICASE_PATHSPECS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::config_parameters::split_assignment;

    #[test]
    fn sizes() {
        let check = |text, expect| assert_eq!(parse_bytes(text), expect, "{text}");
        check("0", Some(0));
        check("1048576", Some(1 << 20));
        check("10m", Some(10 << 20));
        check("1K", Some(1024));
        check("", None);
        check("m", None);
        check("-1", None);
        check("1x", None);
        check("99999999999999999g", None);
    }

    #[test]
    fn hooks_get_what_was_typed() {
        let check = |environment: Environment, typed: &[&str], expect: &[(&str, &str)]| {
            let config = typed.iter().map(|text| split_assignment(text)).collect();
            let found = environment.for_upload_hooks(&GlobalOptions { config, ..GlobalOptions::default() });
            let found: Vec<_> =
                found.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
            assert_eq!(found, expect);
        };
        check(Environment::default(), &[], &[("GIT_NO_LAZY_FETCH", "1")]);
        let environment = Environment {
            config_parameters: Some("'a.b'='c'".into()),
            passed_on: vec![("GIT_NO_LAZY_FETCH".into(), "0".into())],
            ..Environment::default()
        };
        let all = r"'a.b'='c' 'd.e'='it'\''s' 'f.g'= 'h.i'=''\!''";
        check(
            environment,
            &["d.e=it's", "f.g", "h.i=!"],
            &[("GIT_NO_LAZY_FETCH", "1"), ("GIT_NO_LAZY_FETCH", "0"), ("GIT_CONFIG_PARAMETERS", all)],
        );
        let read_back = [("a.b", Some("c")), ("d.e", Some("it's")), ("f.g", None), ("h.i", Some("!"))];
        let read_back = read_back.map(|(n, v)| (n.to_owned(), v.map(str::to_owned)));
        assert_eq!(parse_parameters(all).unwrap(), read_back);
    }

    #[test]
    fn counted_configuration_is_complete_or_refused() {
        let environment = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, OsString)> =
                pairs.iter().map(|(k, v)| (k.to_string(), v.into())).collect();
            Environment::from_lookup(&|name| {
                pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            })
        };
        let good = environment(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "a.b"),
            ("GIT_CONFIG_VALUE_0", "c"),
        ]);
        let sources = good.config_sources(&GlobalOptions::default()).unwrap();
        assert_eq!(sources.overrides, [("a.b".to_owned(), Some("c".to_owned()))]);
        let missing = environment(&[("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b")]);
        let error = missing.config_sources(&GlobalOptions::default()).unwrap_err();
        assert!(
            error.text().starts_with(b"error: missing config value GIT_CONFIG_VALUE_0\nfatal: unable to")
        );
        let bogus = environment(&[("GIT_CONFIG_COUNT", "x")]);
        let error = bogus.config_sources(&GlobalOptions::default()).unwrap_err();
        assert!(error.text().starts_with(b"error: bogus count in GIT_CONFIG_COUNT\n"));
    }
}
