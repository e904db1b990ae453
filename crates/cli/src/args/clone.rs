use packrace_commands::options::CloneOptions;

use super::chosen;
use std::ffi::OsString;

#[derive(Debug, Default, clap::Args)]
pub struct CloneRepository {
    /// Say only what goes wrong.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true, overrides_with = "quiet")]
    pub no_quiet: bool,
    /// Say more of the connection.
    #[arg(long, short = 'v', overrides_with = "no_verbose")]
    pub verbose: bool,
    #[arg(long, hide = true, overrides_with = "verbose")]
    pub no_verbose: bool,
    /// Show progress, also where nobody sits before it.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Show none.
    #[arg(long, overrides_with = "progress")]
    pub no_progress: bool,
    /// Make a repository without a work tree, with the branches and tags of the other one.
    #[arg(long, overrides_with = "no_bare")]
    pub bare: bool,
    #[arg(long, hide = true, overrides_with = "bare")]
    pub no_bare: bool,
    /// The same with all refs, which later fetches overwrite.
    #[arg(long, overrides_with = "no_mirror")]
    pub mirror: bool,
    #[arg(long, hide = true, overrides_with = "mirror")]
    pub no_mirror: bool,
    /// Take no tags, now and in later fetches.
    #[arg(long, overrides_with = "tags")]
    pub no_tags: bool,
    #[arg(long, hide = true, overrides_with = "no_tags")]
    pub tags: bool,
    /// The branch that HEAD stands for, or the tag that it leads to.
    #[arg(long, short = 'b', value_name = "NAME", allow_hyphen_values = true)]
    pub branch: Option<OsString>,
    /// What the other repository is called here (origin, or what clone.defaultRemoteName says).
    #[arg(long, short = 'o', value_name = "NAME", allow_hyphen_values = true)]
    pub origin: Option<OsString>,
    /// Store refs in this way: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT")]
    pub ref_format: Option<String>,
    /// The other repository: http:// or git://.
    pub repository: Option<OsString>,
    /// Where to; a name is taken from the URL, if nothing is said.
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
            branch: args.branch,
            origin: args.origin,
            ref_format: args.ref_format,
            repository: args.repository,
            directory: args.directory,
        }
    }
}
