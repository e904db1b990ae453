//! Git's trace2 (api-trace2): `GIT_TRACE2`, `GIT_TRACE2_PERF` and `GIT_TRACE2_EVENT`, and the settings `trace2.*`.
//!
//! Events are written as they happen, with one call each. Besides git's there are a `counter` for each kind of call by the
//! file's role. Packs that `repack` and `upload-pack` make, what a push brings, the check of its links, maintenance tasks and
//! parts of `stash` have the events of the child that git starts for them, with this process's number; other work for which
//! git starts a program has none.

pub(crate) mod classic;
mod event;
mod formats;
pub(crate) mod http;
mod normal;
pub mod packets;
mod params;
mod patterns;
mod perf;
mod recorder;
mod setup;
mod target;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use packrace_object::{HashKind, ObjectHasher};
use packrace_os::count;
use packrace_os::process::set_variable_for_children;
use packrace_os::trace::{self, TraceDetail, TraceStep};
use packrace_store::{Config, ConfigSources};

use crate::call::Call;
use crate::call::discovery::repository_if_any;
use crate::options::{MultiPackIndexAction, MultiPackIndexOptions};
use crate::work_tree::{WorkTree, shown_git_dir};
use formats::{EventDetail, TraceFormat, command_line};
use params::TraceParams;
use recorder::{TraceOutput, TraceRecorder};
use target::TraceTarget;

/// The session id of the parent, and of this process for its children.
const PARENT_SID: &str = "GIT_TRACE2_PARENT_SID";

/// The commands of the parents, and of this process for its children.
const PARENT_NAME: &str = "GIT_TRACE2_PARENT_NAME";

/// Without a setting, regions within this many others are not in `GIT_TRACE2_EVENT`.
const EVENT_NESTING: i64 = 2;

/// Commands that work without a repository, or with one that they make or are told. The work tree that they are called in
/// says nothing about them.
const ELSEWHERE: [&str; 14] = [
    "access",
    "bucket",
    "clone",
    "completions",
    "events",
    "http-backend",
    "init",
    "man",
    "receive-pack",
    "repo",
    "serve",
    "shell",
    "upload-pack",
    "verify-pack",
];

/// The variables of the environment that say what is traced.
#[derive(Debug, Clone, Default)]
pub struct TraceVariables {
    /// Name and value of each that is set and begins with `GIT_TRACE`, and of `PATH`.
    pub variables: Vec<(String, OsString)>,
}

impl TraceVariables {
    /// Where traces may be written, if a variable says so.
    pub fn paths(&self) -> Vec<std::path::PathBuf> {
        TraceFormat::ALL.into_iter().filter_map(|format| self.get(format.variable())?.path()).collect()
    }

    fn value(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().find(|(named, _)| named == name).map(|(_, value)| value)
    }

    fn get(&self, name: &str) -> Option<TraceTarget> {
        TraceTarget::parse(self.value(name)?)
    }
}

/// Variables, and the settings that they override.
struct TraceSettings<'a> {
    variables: &'a TraceVariables,
    config: Option<Config>,
}

impl TraceSettings<'_> {
    fn target(&self, format: TraceFormat) -> Option<TraceTarget> {
        match self.variables.value(format.variable()) {
            Some(value) => TraceTarget::parse(value),
            None => TraceTarget::parse(&self.setting(format.setting()?)?.into()),
        }
    }

    fn setting(&self, name: &str) -> Option<String> {
        let value = self.config.as_ref()?.string(&format!("trace2.{name}"))?;
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// The variable unless it is empty, or else the setting.
    fn text(&self, variable: &str, setting: &str) -> Option<String> {
        let typed = self.variables.value(variable).filter(|value| !value.is_empty());
        typed.map(|value| value.to_string_lossy().into_owned()).or_else(|| self.setting(setting))
    }

    fn is_on(&self, variable: &str, setting: Option<&str>) -> bool {
        self.text(variable, setting.unwrap_or_default()).is_some_and(|text| is_true(text.as_bytes()))
    }

    /// `None` also if it is no number.
    fn number(&self, variable: &str, setting: &str) -> Option<i64> {
        self.text(variable, setting)?.trim().parse().ok()
    }
}

fn is_true(text: &[u8]) -> bool {
    packrace_store::parse_boolean(text) == Some(true)
}

/// The session id that identifies this process in traces, logs and to clients.
#[derive(Debug)]
pub struct TraceSession {
    /// The parent process's id, if there is one, and our own.
    pub id: String,
    began: Timestamp,
}

impl TraceSession {
    /// Makes the id of a new process.
    pub fn begin(variables: &TraceVariables) -> Self {
        let began = Timestamp::now();
        let own = own_sid(began, &packrace_os::process::host_name(), std::process::id());
        let parent = variables.value(PARENT_SID).map(|parent| parent.to_string_lossy());
        let id = parent.map_or_else(|| own.clone(), |parent| format!("{parent}/{own}"));
        TraceSession { id, began }
    }
}

/// The trace of this process.
#[derive(Debug)]
pub struct Trace {
    recorder: Arc<Mutex<TraceRecorder>>,
    params: TraceParams,
    /// The commands of the parents.
    parents: Option<String>,
    argv: Vec<String>,
    began: Instant,
}

impl Trace {
    /// Starts a trace if a variable, or a setting of the system or the user, names a target. `to_stderr` gets the text for
    /// standard error, and warnings where git has them.
    pub fn begin(
        variables: &TraceVariables,
        settings: Option<&ConfigSources>,
        session: &TraceSession,
        argv: &[OsString],
        to_stderr: fn(&str),
    ) -> Option<Self> {
        let asked = TraceSettings { variables, config: settings.and_then(read_settings) };
        let formats = TraceFormat::ALL.into_iter();
        let wanted: Vec<_> = formats.filter_map(|format| Some((format, asked.target(format)?))).collect();
        if wanted.is_empty() {
            return None;
        }
        set_variable_for_children(PARENT_SID, &session.id);
        variables.value("PATH").cloned().into_iter().for_each(trace::look_for_programs_in);
        let max_files = asked.number("GIT_TRACE2_MAX_FILES", "maxfiles");
        let mut recorder = TraceRecorder {
            sid: session.id.clone(),
            began: (session.began, Instant::now()),
            outputs: Vec::new(),
            regions: Vec::new(),
            repositories: 0,
            nesting: asked.number("GIT_TRACE2_EVENT_NESTING", "eventnesting").unwrap_or(EVENT_NESTING),
            redacts: asked
                .variables
                .value("GIT_TRACE2_REDACT")
                .is_none_or(|text| is_true(text.as_encoded_bytes())),
            reports_failures: asked.is_on("GIT_TRACE2_DST_DEBUG", Some("destinationdebug")),
            to_stderr,
        };
        for (format, target) in wanted {
            let is_brief = asked.is_on(format.brief_variable(), format.brief_setting());
            let max_files = max_files.and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
            recorder.open(TraceOutput { format, is_brief, ..TraceOutput::default() }, &target, max_files);
        }
        recorder.outputs.iter().filter_map(|output| output.format.detail()).for_each(trace::want);
        let params = TraceParams {
            patterns: asked.text("GIT_TRACE2_CONFIG_PARAMS", "configparams").unwrap_or_default(),
            variables: asked.text("GIT_TRACE2_ENV_VARS", "envvars").unwrap_or_default(),
        };
        let parents = variables.value(PARENT_NAME).map(|names| names.to_string_lossy().into_owned());
        let began = recorder.began.1;
        let recorder = Arc::new(Mutex::new(recorder));
        let trace = Trace { recorder, params, parents, argv: words(argv), began };
        trace.starts();
        Some(trace)
    }

    /// The first events, and from now on all steps.
    fn starts(&self) {
        self.add(EventDetail::Version);
        self.add(EventDetail::TooManyFiles);
        self.add(EventDetail::Start(&self.shown(self.argv.clone())));
        let ancestry = params::ancestry(Path::new("/proc"), std::os::unix::process::parent_id());
        if !ancestry.is_empty() {
            self.add(EventDetail::Ancestry(&ancestry));
        }
        let recorder = self.recorder.clone();
        trace::listen(move |step| recorder.lock().unwrap_or_else(PoisonError::into_inner).step(step));
    }

    fn add(&self, detail: EventDetail<'_>) {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).add(detail);
    }

    fn add_classic(&self, format: TraceFormat, lines: &[String]) {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).add_classic(format, lines);
    }

    fn shown(&self, words: Vec<String>) -> Vec<String> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).shown(words)
    }

    /// The command and its arguments, without the options in front of it. The program may have its name.
    fn command_words(&self, name: &str) -> Vec<String> {
        match self.argv.iter().position(|word| word == name) {
            Some(at) => self.argv[at..].to_vec(),
            None => std::iter::once(name.to_owned()).chain(self.argv.iter().skip(1).cloned()).collect(),
        }
    }

    /// The command was parsed. `variable` looks up variables of the environment.
    pub fn command(&self, call: &Call, name: &str, variable: &dyn Fn(&str) -> Option<OsString>) {
        let is_elsewhere = ELSEWHERE.contains(&name);
        // What is wrong with the repository is reported by the command.
        let repository = match is_elsewhere && self.params.patterns.is_empty() {
            true => None,
            false => repository_if_any(call).ok().flatten(),
        };
        let top = repository.as_ref().filter(|_| !is_elsewhere);
        let top = top.and_then(|repository| WorkTree::find(repository, call).ok().flatten());
        let add_repository = || {
            if let Some(tree) = &top {
                self.add(EventDetail::Repository(&tree.top.to_string_lossy()));
            }
            let repository = repository.as_ref().filter(|_| !is_elsewhere);
            if let Some(lines) = repository.and_then(|found| setup::lines(call, found, top.as_ref())) {
                self.add_classic(TraceFormat::Setup, &lines);
            }
            let repository = repository.filter(|_| trace::wants(TraceDetail::Refs));
            if let Some(dir) = repository.and_then(|found| shown_git_dir(found, call, top.as_ref())) {
                self.add_classic(TraceFormat::Refs, &[format!("ref_store for {}", dir.display())]);
            }
        };
        // As in git, which looks for a repository late.
        let is_late = name == "hash-object";
        if !is_late {
            add_repository();
        }
        let hierarchy =
            self.parents.as_ref().map_or_else(|| name.to_owned(), |above| format!("{above}/{name}"));
        set_variable_for_children(PARENT_NAME, &hierarchy);
        let argv = self.shown(self.command_words(name));
        self.add(EventDetail::CommandName { name, hierarchy: &hierarchy, argv: &argv });
        let outside = || Config::outside(&call.open_options().ok()?.config).ok();
        let config = match &repository {
            _ if self.params.patterns.is_empty() => None,
            Some(repository) => Some(repository.config().clone()),
            None => outside(),
        };
        for (scope, name, value) in self.params.found(config.as_ref(), variable) {
            let value = self.shown(value.into_iter().collect());
            self.add(EventDetail::Param { scope, name: &name, value: value.first().map(String::as_str) });
        }
        if is_late {
            add_repository();
        }
    }

    /// This process is about to become another program.
    pub fn exec(&self, program: &str, arguments: &[OsString]) {
        let argv = std::iter::once(program.to_owned()).chain(words(arguments)).collect();
        self.add(EventDetail::Exec { program, argv: &self.shown(argv) });
    }

    /// It has not become another program.
    pub fn exec_failed(&self, error: &std::io::Error) {
        let code = error.raw_os_error().unwrap_or(-1);
        self.add(EventDetail::ExecResult { code, reason: &packrace_os::reason(error) });
    }

    /// An error was printed.
    pub fn error(&self, message: &str) {
        self.add(EventDetail::Error(message));
    }

    /// The last events.
    pub fn end(self, code: u8) {
        self.add(EventDetail::Exit(code));
        let mut syncs = 0;
        for (category, name, count) in count::all_calls() {
            syncs += if name == "sync" { count } else { 0 };
            self.add(EventDetail::Counter { category, name, count });
        }
        self.add(EventDetail::Counter { category: "fsync", name: "hardware-flush", count: syncs });
        self.add(EventDetail::AtExit(code));
        let ran = self.began.elapsed().as_secs_f64();
        let command = command_line(&self.shown(self.argv.clone()));
        let line = format!("performance: {ran:.9} s: git command: {command}");
        self.add_classic(TraceFormat::Performance, &[line]);
    }
}

/// Traces the variant of `multi-pack-index`, which git's trace names.
pub(crate) fn mode_of_multi_pack_index(options: &MultiPackIndexOptions) {
    trace::tell(TraceStep::Mode(match options.action {
        MultiPackIndexAction::Write(_) => "write",
        MultiPackIndexAction::Compact(_) => "compact",
        MultiPackIndexAction::Verify => "verify",
        MultiPackIndexAction::Expire => "expire",
        MultiPackIndexAction::Repack { .. } => "repack",
    }));
}

fn words<T: AsRef<OsStr>>(argv: &[T]) -> Vec<String> {
    argv.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect()
}

/// The settings of the system and the user, if they may say something of trace2: most processes are not traced, and need
/// not parse them.
fn read_settings(sources: &ConfigSources) -> Option<Config> {
    let says_something = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default().to_ascii_lowercase();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        has(b"trace2") || has(b"include")
    };
    if !sources.system.iter().chain(&sources.global).any(says_something) {
        return None;
    }
    // The command line does not count, as in git.
    let sources = ConfigSources { overrides: Vec::new(), last: None, ..sources.clone() };
    Config::outside(&sources).ok()
}

/// `<time>-H<hash of the host name>-P<process>`, as in git.
fn own_sid(now: Timestamp, host: &str, process: u32) -> String {
    // Unlike others, this hasher does not ask the processor what it can: in a virtual machine, the answers take longer.
    let mut hasher = ObjectHasher::of_stream(HashKind::Sha1);
    hasher.update(host.as_bytes());
    let id = hasher.finish().unwrap_or_else(|_| HashKind::Sha1.null());
    let host = id.as_slice().iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
    format!("{}-H{host:08x}-P{process:08x}", now.strftime("%Y%m%dT%H%M%S%.6fZ"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids() {
        let at = Timestamp::from_microsecond(1_554_747_370_507_018).unwrap();
        let sid = own_sid(at, "host", 0x59a8);
        assert_eq!(sid, "20190408T181610.507018Z-H86dd1cf4-P000059a8");
    }

    #[test]
    fn truth() {
        for (text, expect) in
            [("1", true), ("true", true), ("YES", true), ("0", false), ("", false), ("no", false)]
        {
            assert_eq!(is_true(text.as_bytes()), expect, "{text}");
        }
    }
}
