use packrace_commands::options::CloneOptions;

use super::chosen;
use std::ffi::OsString;

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&["quiet", "verbose", "bare", "mirror", "no_tags", "no_checkout"]))]
pub struct CloneRepository {
    /// Print only errors.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Print more about the connection.
    #[arg(long, short = 'v')]
    pub verbose: bool,
    /// Show progress even if standard error is not a terminal.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Show no progress.
    #[arg(long, overrides_with = "progress")]
    pub no_progress: bool,
    #[arg(long, short = 'n', hide = true)]
    pub no_checkout: bool,
    /// Create a repository without a work tree, with the branches and tags of the server.
    #[arg(long)]
    pub bare: bool,
    /// Like --bare, with all refs, which later fetches overwrite.
    #[arg(long)]
    pub mirror: bool,
    /// Fetch no tags, now and in later fetches.
    #[arg(long)]
    pub no_tags: bool,
    #[arg(long, short = '4', hide = true, overrides_with = "ipv6")]
    pub ipv4: bool,
    #[arg(long, short = '6', hide = true, overrides_with = "ipv4")]
    pub ipv6: bool,
    /// Point HEAD at this branch, or detach it at this tag.
    #[arg(long, short = 'b', value_name = "NAME", allow_hyphen_values = true)]
    pub branch: Option<OsString>,
    /// Name of the remote (default: clone.defaultRemoteName, else origin).
    #[arg(long, short = 'o', value_name = "NAME", allow_hyphen_values = true)]
    pub origin: Option<OsString>,
    /// Ref format: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT")]
    pub ref_format: Option<String>,
    /// URL of the repository: http://, https:// or git://; others are for git.
    pub repository: Option<OsString>,
    /// The directory to create (default: a name from the URL).
    pub directory: Option<OsString>,
}

impl From<CloneRepository> for CloneOptions {
    fn from(args: CloneRepository) -> Self {
        CloneOptions {
            quiet: args.quiet,
            verbose: args.verbose,
            progress: chosen(args.progress, args.no_progress),
            bare: args.bare,
            mirror: args.mirror,
            no_tags: args.no_tags,
            ipv6: chosen(args.ipv6, args.ipv4),
            branch: args.branch,
            origin: args.origin,
            ref_format: args.ref_format,
            repository: args.repository,
            directory: args.directory,
        }
    }
}
