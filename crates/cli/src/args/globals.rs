//! Options that stand before the command.

use std::ffi::OsString;
use std::path::PathBuf;

use packrace_commands::options::GlobalOptions;

/// Options that stand before the command, as in git.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Globals {
    /// Run as if started in PATH; each further -C is relative to the one before.
    #[arg(short = 'C', value_name = "PATH")]
    pub directories: Vec<PathBuf>,
    /// Set a configuration variable for this run; without =VALUE, to true.
    #[arg(short = 'c', value_name = "NAME[=VALUE]")]
    pub config: Vec<String>,
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
    /// Set GIT_NO_LAZY_FETCH for hooks; packrace itself never fetches missing objects.
    #[arg(long)]
    no_lazy_fetch: bool,
    /// Accepted for compatibility: no pager is ever used.
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
            "GIT_DIR" if without.is_none() && self.bare => Some(".".into()),
            _ => None,
        };
        set.or(without)
    }
}

impl From<Globals> for GlobalOptions {
    fn from(args: Globals) -> Self {
        let Globals { directories, config, git_dir, shallow_file, attr_source, namespace, variables: _ } =
            args;
        GlobalOptions { directories, config, git_dir, shallow_file, attr_source, namespace }
    }
}
