//! Options that stand before the command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use packrace_commands::command_words::{begins_anywhere, command_position};
use packrace_commands::option_values;
use packrace_commands::options::GlobalOptions;

use super::Command;

/// A name and a value.
type Setting = (String, Option<String>);

/// Options that stand before the command, as in git.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Globals {
    /// Run as if started in PATH; each further -C is relative to the one before.
    #[arg(short = 'C', value_name = "PATH")]
    pub directories: Vec<PathBuf>,
    /// Set a configuration variable for this run; without =VALUE, to true.
    #[arg(short = 'c', value_name = "NAME[=VALUE]", value_parser = option_values::setting)]
    pub config: Vec<Setting>,
    /// Set a configuration variable for this run to the value of an environment variable.
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = from_variable)]
    pub config_env: Vec<Setting>,
    /// Path of the repository, for commands without a repository argument.
    #[arg(long, value_name = "PATH")]
    pub git_dir: Option<PathBuf>,
    /// Read shallow commits from PATH instead of the repository's shallow file; an empty PATH: no shallow commits.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub shallow_file: Option<OsString>,
    /// Also read attributes from this tree.
    #[arg(long, value_name = "TREE-ISH")]
    pub attr_source: Option<String>,
    /// Serve only the refs of this namespace; see gitnamespaces(7).
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub variables: VariableOptions,
}

/// Options before the command that are another way to set a variable, and those that ask for what is always so.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct VariableOptions {
    /// Path of the work tree (GIT_WORK_TREE).
    #[arg(long, value_name = "PATH")]
    work_tree: Option<OsString>,
    /// Treat the current directory as a bare repository, unless GIT_DIR is set.
    #[arg(long)]
    bare: bool,
    /// Treat pathspecs literally, without wildcards and magic (GIT_LITERAL_PATHSPECS).
    #[arg(long)]
    literal_pathspecs: bool,
    /// Use glob matching for pathspecs: * does not match slashes (GIT_GLOB_PATHSPECS).
    #[arg(long)]
    glob_pathspecs: bool,
    /// Treat pathspecs literally unless they have :(glob) magic (GIT_NOGLOB_PATHSPECS).
    #[arg(long)]
    noglob_pathspecs: bool,
    /// Ignore case in pathspecs (GIT_ICASE_PATHSPECS).
    #[arg(long)]
    icase_pathspecs: bool,
    /// Do not fetch missing objects from promisor remotes (GIT_NO_LAZY_FETCH=1).
    #[arg(long)]
    no_lazy_fetch: bool,
    /// Path of git's programs, for hooks (GIT_EXEC_PATH); without =PATH, print it, or else where packrace is, and exit.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    exec_path: Option<OsString>,
    /// Read replaced objects themselves (GIT_NO_REPLACE_OBJECTS).
    #[arg(long)]
    no_replace_objects: bool,
    /// Print no hints (GIT_ADVICE=0).
    #[arg(long)]
    no_advice: bool,
    /// Accepted for compatibility: only git, which does some commands, uses a pager.
    #[arg(long, short = 'p')]
    paginate: bool,
    /// Accepted for compatibility: only git, which does some commands, uses a pager.
    #[arg(long, short = 'P')]
    no_pager: bool,
    /// Accepted for compatibility: optional locks are never taken.
    #[arg(long)]
    no_optional_locks: bool,
}

impl VariableOptions {
    /// The value of a variable, where an option sets it; what it has without goes before `--bare`.
    pub fn value(&self, name: &str, without: Option<OsString>) -> Option<OsString> {
        let one = |is_set: bool| is_set.then(|| OsString::from("1"));
        let set = match name {
            "GIT_WORK_TREE" => self.work_tree.clone(),
            "GIT_LITERAL_PATHSPECS" => one(self.literal_pathspecs),
            "GIT_GLOB_PATHSPECS" => one(self.glob_pathspecs),
            "GIT_NOGLOB_PATHSPECS" => one(self.noglob_pathspecs),
            "GIT_ICASE_PATHSPECS" => one(self.icase_pathspecs),
            "GIT_NO_LAZY_FETCH" => one(self.no_lazy_fetch),
            "GIT_NO_REPLACE_OBJECTS" => one(self.no_replace_objects),
            "GIT_ADVICE" => self.no_advice.then(|| "0".into()),
            "GIT_EXEC_PATH" => self.exec_path.clone(),
            "GIT_DIR" if without.is_none() && self.bare => Some(".".into()),
            _ => None,
        };
        set.or(without)
    }
}

impl From<Globals> for GlobalOptions {
    fn from(args: Globals) -> Self {
        let Globals { directories, config, git_dir, shallow_file, attr_source, namespace, variables, .. } =
            args;
        let bare = variables.bare;
        GlobalOptions { directories, config, git_dir, bare, shallow_file, attr_source, namespace }
    }
}

/// The options before a command that git begins in a repository only, before it looks at what was typed behind its name.
/// `None`: git begins it anywhere, or the usage is all that was asked for.
pub fn before_checked_command(argv: &[OsString]) -> Option<Globals> {
    let (before, words) = argv.split_at_checked(command_position(argv))?;
    let is_asked = matches!(words, [_, only] if only == "-h" || only == "--help-all");
    if is_asked || begins_anywhere(words.first()?.to_str()?) {
        return None;
    }
    // What is typed behind this command makes no sense; nothing needs to follow that one.
    let with_another = [before, &["write-tree".into()]].concat();
    super::typed::<Command>(&with_another).ok().map(|(_, cli)| cli.globals)
}

/// What `--exec-path` prints: the path that is set, or else the directory of this program, which also has the links to it.
pub fn asked_exec_path(argv: &[OsString]) -> Option<OsString> {
    let at = command_position(argv);
    argv.get(at).filter(|argument| *argument == "--exec-path")?;
    let typed = argv[1..at].iter().rev().find_map(|argument| {
        argument.to_str().and_then(|text| text.strip_prefix("--exec-path=")).map(OsString::from)
    });
    let own = || Some(std::env::current_exe().ok()?.parent()?.as_os_str().to_owned());
    typed.or_else(|| std::env::var_os("GIT_EXEC_PATH")).or_else(own)
}

/// The values of an option, and where they stand.
pub fn placed<T>(matches: &ArgMatches, name: &str) -> impl Iterator<Item = (usize, T)>
where
    T: Clone + Send + Sync + 'static,
{
    let at = matches.indices_of(name).into_iter().flatten();
    at.zip(matches.get_many(name).into_iter().flatten().cloned())
}

/// The values of several options, in the order in which they were typed.
pub fn in_order<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, names: &[&str]) -> Vec<T> {
    let mut found: Vec<(usize, T)> = names.iter().flat_map(|name| placed(matches, name)).collect();
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, value)| value).collect()
}

fn from_variable(text: &str) -> Result<Setting, String> {
    option_values::setting_of_variable(text, &|name| std::env::var_os(name))
}
