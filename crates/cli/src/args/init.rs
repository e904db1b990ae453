use std::ffi::OsString;

use packrace_commands::options::InitOptions;

#[derive(Debug, Default, clap::Args)]
pub struct Init {
    /// Print only errors and warnings.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true, overrides_with = "quiet")]
    pub no_quiet: bool,
    /// Create a repository without a work tree.
    #[arg(long, overrides_with = "no_bare")]
    pub bare: bool,
    #[arg(long, hide = true, overrides_with = "bare")]
    pub no_bare: bool,
    /// Copy files from this directory; an empty name: no template.
    #[arg(long, value_name = "TEMPLATE-DIRECTORY", overrides_with = "no_template")]
    pub template: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "template")]
    pub no_template: bool,
    /// Create the repository there, and in the work tree only a .git file that points to it.
    #[arg(long, value_name = "GIT-DIR", overrides_with = "no_separate_git_dir")]
    pub separate_git_dir: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "separate_git_dir")]
    pub no_separate_git_dir: bool,
    /// Hash of object IDs: sha1 (the default) or sha256.
    #[arg(long, value_name = "FORMAT", overrides_with = "no_object_format")]
    pub object_format: Option<String>,
    #[arg(long, hide = true, overrides_with = "object_format")]
    pub no_object_format: bool,
    /// Ref format: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT", overrides_with = "no_ref_format")]
    pub ref_format: Option<String>,
    #[arg(long, hide = true, overrides_with = "ref_format")]
    pub no_ref_format: bool,
    /// Name of the initial branch.
    #[arg(
        long,
        short = 'b',
        value_name = "BRANCH-NAME",
        allow_hyphen_values = true,
        overrides_with = "no_initial_branch"
    )]
    pub initial_branch: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "initial_branch")]
    pub no_initial_branch: bool,
    /// Share with other users: false, umask, true, group, all, world, everybody, or a mode such as 0640.
    #[arg(
        long,
        value_name = "PERMISSIONS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "group"
    )]
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
