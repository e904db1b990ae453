use std::ffi::OsString;

use packrace_commands::option_values;
use packrace_commands::options::InitOptions;

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&[
    "quiet", "bare", "template", "separate_git_dir", "object_format", "ref_format", "initial_branch",
]))]
pub struct Init {
    /// Print only errors and warnings.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Create a repository without a work tree.
    #[arg(long)]
    pub bare: bool,
    /// Copy files from this directory; an empty name: no template.
    #[arg(long, value_name = "TEMPLATE-DIRECTORY", allow_hyphen_values = true)]
    pub template: Option<OsString>,
    /// Create the repository there, and in the work tree only a .git file that points to it.
    #[arg(long, value_name = "GIT-DIR", allow_hyphen_values = true)]
    pub separate_git_dir: Option<OsString>,
    /// Hash of object IDs: sha1 (the default) or sha256.
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub object_format: Option<String>,
    /// Ref format: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub ref_format: Option<String>,
    /// Name of the initial branch.
    #[arg(long, short = 'b', value_name = "BRANCH-NAME", allow_hyphen_values = true)]
    pub initial_branch: Option<OsString>,
    /// Share with other users: false, umask, true, group, all, world, everybody, or a mode such as 0640.
    #[arg(long, value_name = "PERMISSIONS", num_args = 0..=1, require_equals = true, default_missing_value = "group", value_parser = option_values::sharing)]
    pub shared: Option<OsString>,
    /// The target directory (default: the current one).
    pub directory: Option<OsString>,
}

impl From<Init> for InitOptions {
    fn from(args: Init) -> Self {
        InitOptions {
            quiet: args.quiet,
            bare: args.bare,
            template: args.template,
            separate_git_dir: args.separate_git_dir,
            object_format: args.object_format,
            ref_format: args.ref_format,
            initial_branch: args.initial_branch,
            shared: args.shared,
            directory: args.directory,
        }
    }
}
