use packrace_commands::options::AddOptions;

use super::{Interaction, chosen};
use std::ffi::OsString;

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&[
    "dry_run", "verbose", "interactive", "edit", "force", "update", "renormalize", "intent_to_add", "refresh",
    "ignore_missing", "sparse", "no_warn_embedded_repo", "chmod", "pathspec_from_file", "pathspec_file_nul",
]))]
pub struct Add {
    /// Change nothing; only print what would change.
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Print added and removed paths.
    #[arg(long, short = 'v')]
    pub verbose: bool,
    /// Choose interactively what to add; git does this, and must be installed.
    #[arg(long, short = 'i')]
    pub interactive: bool,
    #[command(flatten)]
    pub interaction: Interaction,
    /// Edit the differences and add the result; git does this, and must be installed.
    #[arg(long, short = 'e')]
    pub edit: bool,
    /// Also add ignored files.
    #[arg(long, short = 'f')]
    pub force: bool,
    /// Update and remove tracked files only; add no new files.
    #[arg(long, short = 'u')]
    pub update: bool,
    /// Normalize the line endings of all tracked files again; implies -u.
    #[arg(long)]
    pub renormalize: bool,
    /// Record only that new files will be added later.
    #[arg(long, short = 'N')]
    pub intent_to_add: bool,
    /// Add, update and remove files (the default if paths are given); without paths, in the whole work tree.
    #[arg(long, short = 'A', visible_alias = "no-ignore-removal", overrides_with = "no_all")]
    pub all: bool,
    /// Remove no files from the index.
    #[arg(long, visible_alias = "ignore-removal", overrides_with = "all")]
    pub no_all: bool,
    /// Add nothing; only refresh the stat data of the index.
    #[arg(long)]
    pub refresh: bool,
    /// Continue after a file that cannot be read (default: add.ignoreErrors).
    #[arg(long, overrides_with = "no_ignore_errors")]
    pub ignore_errors: bool,
    #[arg(long, hide = true, overrides_with = "ignore_errors")]
    pub no_ignore_errors: bool,
    /// With -n, check whether paths would be ignored, even if they do not exist.
    #[arg(long)]
    pub ignore_missing: bool,
    /// Also change paths outside the sparse checkout.
    #[arg(long)]
    pub sparse: bool,
    #[arg(long, hide = true)]
    pub no_warn_embedded_repo: bool,
    /// Set or clear the executable bit in the index.
    #[arg(long, value_name = "(+|-)x", allow_hyphen_values = true)]
    pub chmod: Option<String>,
    /// Read pathspecs from FILE, one per line; - is standard input.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub pathspec_from_file: Option<OsString>,
    /// With --pathspec-from-file, pathspecs end with NUL.
    #[arg(long)]
    pub pathspec_file_nul: bool,
    /// The paths to add.
    #[arg(value_name = "PATHSPEC")]
    pub pathspecs: Vec<OsString>,
}

impl Add {
    /// Whether the user is to choose what to add.
    pub fn is_interactive(&self) -> bool {
        self.interactive || self.edit || self.interaction.is_asked()
    }
}

impl From<Add> for AddOptions {
    fn from(args: Add) -> Self {
        AddOptions {
            dry_run: args.dry_run,
            verbose: args.verbose,
            force: args.force,
            update: args.update,
            renormalize: args.renormalize,
            intent_to_add: args.intent_to_add,
            all: chosen(args.all, args.no_all),
            refresh: args.refresh,
            ignore_errors: chosen(args.ignore_errors, args.no_ignore_errors),
            ignore_missing: args.ignore_missing,
            sparse: args.sparse,
            no_warn_embedded_repo: args.no_warn_embedded_repo,
            chmod: args.chmod,
            pathspec_from_file: args.pathspec_from_file,
            pathspec_file_nul: args.pathspec_file_nul,
            pathspecs: args.pathspecs,
        }
    }
}
