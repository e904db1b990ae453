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
    /// Set a configuration value for this run; without =VALUE it is true.
    #[arg(short = 'c', value_name = "NAME[=VALUE]")]
    pub config: Vec<String>,
    /// The repository, where a command names none.
    #[arg(long, value_name = "PATH")]
    pub git_dir: Option<PathBuf>,
    /// Where the history of the repository is cut, instead of its own list; an empty PATH: nowhere.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub shallow_file: Option<OsString>,
    /// Read attributes from this tree as well.
    #[arg(long, value_name = "TREE-ISH")]
    pub attr_source: Option<String>,
    /// Serve only the refs of this namespace (gitnamespaces).
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub variables: VariableOptions,
}

/// Options before the command that are another way to set a variable, and those that ask for what is always so.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct VariableOptions {
    /// The work tree (GIT_WORK_TREE).
    #[arg(long, value_name = "PATH")]
    work_tree: Option<OsString>,
    /// The directory is a bare repository, unless GIT_DIR names one.
    #[arg(long)]
    bare: bool,
    /// Take pathspecs as they are (GIT_LITERAL_PATHSPECS).
    #[arg(long)]
    literal_pathspecs: bool,
    /// Stars of pathspecs do not match slashes (GIT_GLOB_PATHSPECS).
    #[arg(long)]
    glob_pathspecs: bool,
    /// Take pathspecs as they are unless they say otherwise (GIT_NOGLOB_PATHSPECS).
    #[arg(long)]
    noglob_pathspecs: bool,
    /// Letters of pathspecs stand for both cases (GIT_ICASE_PATHSPECS).
    #[arg(long)]
    icase_pathspecs: bool,
    /// Do not fetch what a partial clone lacks (GIT_NO_LAZY_FETCH).
    #[arg(long)]
    no_lazy_fetch: bool,
    /// Show nothing with a pager: none is used anyway.
    #[arg(long, short = 'P')]
    no_pager: bool,
    /// Take no lock that is not needed: none is taken anyway.
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
